/* Moves of whole elements, whatever they mean: strided, filled, by index, interleaved into panels. */
#include "kernel/cpu/simd_isa.h"
#include <string.h>

typedef uint8_t __attribute__((may_alias)) e0;
typedef uint16_t __attribute__((may_alias)) e1;
typedef uint32_t __attribute__((may_alias)) e2;
typedef uint64_t __attribute__((may_alias)) e3;

#define MOVES(E)                                                                                     \
    static void gather_##E(void *d_, const void *s_, int64_t stride, size_t n)                       \
    {                                                                                                \
        E *d = d_;                                                                                   \
        const E *s = s_;                                                                             \
        if (stride == 2) {                                                                           \
            SIMD_LOOP for (size_t i = 0; i < n; i++) d[i] = s[2 * i];                                \
            return;                                                                                  \
        }                                                                                            \
        for (size_t i = 0; i < n; i++) d[i] = s[(int64_t)i * stride];                                \
    }                                                                                                \
    static void scatter_##E(void *d_, const void *s_, int64_t stride, size_t n)                      \
    {                                                                                                \
        E *d = d_;                                                                                   \
        const E *s = s_;                                                                             \
        for (size_t i = 0; i < n; i++) d[(int64_t)i * stride] = s[i];                                \
    }                                                                                                \
    static void fill_##E(void *d_, uint64_t bits, size_t n)                                          \
    {                                                                                                \
        E *d = d_, v = (E)bits;                                                                      \
        SIMD_LOOP for (size_t i = 0; i < n; i++) d[i] = v;                                           \
    }                                                                                                \
    static void take_##E(void *d_, const void *s_, const int64_t *index, size_t n)                   \
    {                                                                                                \
        E *d = d_;                                                                                   \
        const E *s = s_;                                                                             \
        for (size_t i = 0; i < n; i++) d[i] = s[index[i]];                                           \
    }                                                                                                \
    static void interleave_##E(void *d_, const void *s_, size_t pitch, size_t rows, size_t mr, size_t n) \
    {                                                                                                \
        E *d = d_;                                                                                   \
        const E *s = s_;                                                                             \
        for (size_t i0 = 0; i0 < n; i0 += 8) {                                                       \
            size_t m = n - i0 < 8 ? n - i0 : 8;                                                      \
            for (size_t r = 0; r < rows; r++)                                                        \
                for (size_t i = i0; i < i0 + m; i++) d[i * mr + r] = s[r * pitch + i];               \
            for (size_t r = rows; r < mr; r++)                                                       \
                for (size_t i = i0; i < i0 + m; i++) d[i * mr + r] = 0;                              \
        }                                                                                            \
    }
MOVES(e0)
MOVES(e1)
MOVES(e2)
MOVES(e3)

#define ROWS(E, k)                                                                                   \
    t->gather[k] = gather_##E;                                                                       \
    t->scatter[k] = scatter_##E;                                                                     \
    t->fill[k] = fill_##E;                                                                           \
    t->take[k] = take_##E;
void SIMD(move)(gale__simd *t)
{
    ROWS(e0, 0)
    ROWS(e1, 1)
    ROWS(e2, 2)
    ROWS(e3, 3)
    t->interleave[0] = interleave_e2;
    t->interleave[1] = interleave_e3;
    (void)interleave_e0, (void)interleave_e1;
}
