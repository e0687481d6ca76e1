/* A register of f32 of the instruction set that a file is compiled for, for routines written with vector extensions.
 * No guard: like the files that include it, it is read once for each instruction set. */
#include "kernel/cpu/math.h"
#include <string.h>

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
enum { WIDTH = 64 };
#elif defined(__AVX__)
enum { WIDTH = 32 };
#else
enum { WIDTH = 16 };
#endif
enum { LANES = WIDTH / sizeof(float) };
typedef float lanes __attribute__((vector_size(WIDTH)));

M_INLINE lanes load(const float *p)
{
    lanes v;
    memcpy(&v, p, sizeof v);
    return v;
}
M_INLINE void store(float *p, lanes v) { memcpy(p, &v, sizeof v); }
