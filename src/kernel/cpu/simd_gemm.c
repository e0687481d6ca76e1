/* Micro-kernels of the tiled contraction, for f32, f64 and 32-bit integers.  Each instruction set has a tile that fills
 * its registers: accumulators, one row of b, one column of a. */
#include "kernel/cpu/simd_isa.h"

#define IS_scalar 1
#define IS_neon 2
#define IS_sve 3
#define IS_avx2 4
#define IS_avx512 5
#define ISA_NUMBER2(name) IS_##name
#define ISA_NUMBER(name) ISA_NUMBER2(name)
#define ISA ISA_NUMBER(GALE_ISA)

#if ISA == IS_neon
#include <arm_neon.h>

/* One step of k: four rows of the tile with the four (two) lanes of x. */
#define ROW(r, x, lane)                                                                              \
    s##r##0 = FMA(s##r##0, b0, x, lane);                                                             \
    s##r##1 = FMA(s##r##1, b1, x, lane);                                                             \
    s##r##2 = FMA(s##r##2, b2, x, lane);
#define SUMS(r) V s##r##0 = ZERO, s##r##1 = ZERO, s##r##2 = ZERO;
#define PUT(r)                                                                                       \
    STORE(c + r * ldc, ADD(LOAD(c + r * ldc), s##r##0));                                             \
    STORE(c + r * ldc + LANES, ADD(LOAD(c + r * ldc + LANES), s##r##1));                             \
    STORE(c + r * ldc + 2 * LANES, ADD(LOAD(c + r * ldc + 2 * LANES), s##r##2));
#define TILE_OF(name, T, MULTIPLY, NEXT, ...)                                                         \
    static void name(void *c_, size_t ldc, const void *a_, const void *b_, __VA_ARGS__)              \
    {                                                                                                \
        const T *a = a_, *b = b_;                                                                    \
        T *c = c_;                                                                                   \
        SUMS(0) SUMS(1) SUMS(2) SUMS(3) SUMS(4) SUMS(5) SUMS(6) SUMS(7)                              \
        _Pragma("GCC unroll 4") for (size_t i = 0; i < k; i++, a += 8) {                              \
            const T *p = NEXT;                                                                       \
            V b0 = LOAD(p), b1 = LOAD(p + LANES), b2 = LOAD(p + 2 * LANES);                          \
            MULTIPLY()                                                                               \
        }                                                                                            \
        PUT(0) PUT(1) PUT(2) PUT(3) PUT(4) PUT(5) PUT(6) PUT(7)                                      \
    }
#define TILE(name, T, MULTIPLY)                                                                      \
    TILE_OF(name, T, MULTIPLY, b + i * 3 * LANES, size_t k)                                          \
    TILE_OF(name##_at, T, MULTIPLY, b + offset[i], const int32_t *offset, size_t k)
#define MULTIPLY4()                                                                                  \
    V x = LOAD(a), y = LOAD(a + 4);                                                                  \
    ROW(0, x, 0) ROW(1, x, 1) ROW(2, x, 2) ROW(3, x, 3) ROW(4, y, 0) ROW(5, y, 1) ROW(6, y, 2) ROW(7, y, 3)
#define MULTIPLY2()                                                                                  \
    V x = LOAD(a), y = LOAD(a + 2), z = LOAD(a + 4), w = LOAD(a + 6);                                \
    ROW(0, x, 0) ROW(1, x, 1) ROW(2, y, 0) ROW(3, y, 1) ROW(4, z, 0) ROW(5, z, 1) ROW(6, w, 0) ROW(7, w, 1)

#define V float32x4_t
#define LANES 4
#define ZERO vdupq_n_f32(0)
#define LOAD vld1q_f32
#define STORE vst1q_f32
#define ADD vaddq_f32
#define FMA vfmaq_laneq_f32
TILE(tile_f32, float, MULTIPLY4)
#undef V
#undef ZERO
#undef LOAD
#undef STORE
#undef ADD
#undef FMA
#define V int32x4_t
#define ZERO vdupq_n_s32(0)
#define LOAD vld1q_s32
#define STORE vst1q_s32
#define ADD vaddq_s32
#define FMA vmlaq_laneq_s32
TILE(tile_i32, int32_t, MULTIPLY4)
#undef V
#undef LANES
#undef ZERO
#undef LOAD
#undef STORE
#undef ADD
#undef FMA
#define V float64x2_t
#define LANES 2
#define ZERO vdupq_n_f64(0)
#define LOAD vld1q_f64
#define STORE vst1q_f64
#define ADD vaddq_f64
#define FMA vfmaq_laneq_f64
TILE(tile_f64, double, MULTIPLY2)
#define SHAPE32 8, 12
#define SHAPE64 8, 6

#elif ISA == IS_sve
#include <arm_sve.h>

/* Vectors of a length known only at run time cannot stand in arrays: the tile is 8 x 3 named registers. */
#define ROW(r)                                                                                       \
    x = DUP(a[r]);                                                                                   \
    s##r##0 = FMA(all, s##r##0, b0, x);                                                              \
    s##r##1 = FMA(all, s##r##1, b1, x);                                                              \
    s##r##2 = FMA(all, s##r##2, b2, x);
#define SUMS(r) V s##r##0 = DUP(0), s##r##1 = DUP(0), s##r##2 = DUP(0);
#define PUT(r)                                                                                       \
    STORE(all, c + r * ldc, ADD(all, LOAD(all, c + r * ldc), s##r##0));                              \
    STORE(all, c + r * ldc + w, ADD(all, LOAD(all, c + r * ldc + w), s##r##1));                      \
    STORE(all, c + r * ldc + 2 * w, ADD(all, LOAD(all, c + r * ldc + 2 * w), s##r##2));
#define TILE_OF(name, T, TRUE, COUNT, NEXT, ...)                                                      \
    static void name(void *c_, size_t ldc, const void *a_, const void *b_, __VA_ARGS__)              \
    {                                                                                                \
        const T *a = a_, *b = b_;                                                                    \
        T *c = c_;                                                                                   \
        svbool_t all = TRUE();                                                                       \
        size_t w = COUNT();                                                                          \
        V x;                                                                                         \
        SUMS(0) SUMS(1) SUMS(2) SUMS(3) SUMS(4) SUMS(5) SUMS(6) SUMS(7)                              \
        for (size_t i = 0; i < k; i++, a += 8) {                                                     \
            const T *p = NEXT;                                                                       \
            V b0 = LOAD(all, p), b1 = LOAD(all, p + w), b2 = LOAD(all, p + 2 * w);                   \
            ROW(0) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6) ROW(7)                                  \
        }                                                                                            \
        PUT(0) PUT(1) PUT(2) PUT(3) PUT(4) PUT(5) PUT(6) PUT(7)                                      \
    }
#define TILE(name, T, TRUE, COUNT)                                                                   \
    TILE_OF(name, T, TRUE, COUNT, b + i * 3 * w, size_t k)                                           \
    TILE_OF(name##_at, T, TRUE, COUNT, b + offset[i], const int32_t *offset, size_t k)
#define LOAD svld1
#define STORE svst1
#define ADD svadd_x
#define FMA svmla_x
#define V svfloat32_t
#define DUP svdup_f32
TILE(tile_f32, float, svptrue_b32, svcntw)
#undef V
#undef DUP
#define V svint32_t
#define DUP svdup_s32
TILE(tile_i32, int32_t, svptrue_b32, svcntw)
#undef V
#undef DUP
#define V svfloat64_t
#define DUP svdup_f64
TILE(tile_f64, double, svptrue_b64, svcntd)
#define SHAPE32 8, (int)(3 * svcntw())
#define SHAPE64 8, (int)(3 * svcntd())

#elif ISA == IS_avx2
#include <immintrin.h>
static inline __m256i load_i32(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void store_i32(int32_t *p, __m256i v) { _mm256_storeu_si256((__m256i *)p, v); }
static inline __m256i fma_i32(__m256i x, __m256i y, __m256i z) { return _mm256_add_epi32(_mm256_mullo_epi32(x, y), z); }
#define MR 6
#define NAME tile_f32
#define NAME_AT tile_f32_at
#define T float
#define V __m256
#define LANES 8
#define LOAD _mm256_loadu_ps
#define STORE _mm256_storeu_ps
#define SET _mm256_set1_ps
#define ADD _mm256_add_ps
#define FMA _mm256_fmadd_ps
#include "simd_gemm.inc"
#define MR 6
#define NAME tile_f64
#define NAME_AT tile_f64_at
#define T double
#define V __m256d
#define LANES 4
#define LOAD _mm256_loadu_pd
#define STORE _mm256_storeu_pd
#define SET _mm256_set1_pd
#define ADD _mm256_add_pd
#define FMA _mm256_fmadd_pd
#include "simd_gemm.inc"
#define MR 6
#define NAME tile_i32
#define NAME_AT tile_i32_at
#define T int32_t
#define V __m256i
#define LANES 8
#define LOAD load_i32
#define STORE store_i32
#define SET _mm256_set1_epi32
#define ADD _mm256_add_epi32
#define FMA fma_i32
#include "simd_gemm.inc"
#define SHAPE32 6, 16
#define SHAPE64 6, 8

#elif ISA == IS_avx512
#include <immintrin.h>
static inline __m512i load_i32(const int32_t *p) { return _mm512_loadu_si512(p); }
static inline void store_i32(int32_t *p, __m512i v) { _mm512_storeu_si512(p, v); }
static inline __m512i fma_i32(__m512i x, __m512i y, __m512i z) { return _mm512_add_epi32(_mm512_mullo_epi32(x, y), z); }
#define MR 14
#define NAME tile_f32
#define NAME_AT tile_f32_at
#define T float
#define V __m512
#define LANES 16
#define LOAD _mm512_loadu_ps
#define STORE _mm512_storeu_ps
#define SET _mm512_set1_ps
#define ADD _mm512_add_ps
#define FMA _mm512_fmadd_ps
#include "simd_gemm.inc"
#define MR 14
#define NAME tile_f64
#define NAME_AT tile_f64_at
#define T double
#define V __m512d
#define LANES 8
#define LOAD _mm512_loadu_pd
#define STORE _mm512_storeu_pd
#define SET _mm512_set1_pd
#define ADD _mm512_add_pd
#define FMA _mm512_fmadd_pd
#include "simd_gemm.inc"
#define MR 14
#define NAME tile_i32
#define NAME_AT tile_i32_at
#define T int32_t
#define V __m512i
#define LANES 16
#define LOAD load_i32
#define STORE store_i32
#define SET _mm512_set1_epi32
#define ADD _mm512_add_epi32
#define FMA fma_i32
#include "simd_gemm.inc"
#define SHAPE32 14, 32
#define SHAPE64 14, 16

#else
/* Plain C: small enough for any register file; the compiler may vectorise the rows. */
#define TILE_OF(name, T, U, NEXT, ...)                                                                \
    static void name(void *c_, size_t ldc, const void *a_, const void *b_, __VA_ARGS__)              \
    {                                                                                                \
        const T *a = a_, *b = b_;                                                                    \
        T *c = c_, s[4][8] = {{0}};                                                                  \
        for (size_t i = 0; i < k; i++, a += 4) {                                                     \
            const T *p = NEXT;                                                                       \
            for (int r = 0; r < 4; r++)                                                              \
                for (int j = 0; j < 8; j++) s[r][j] = (T)((U)s[r][j] + (U)a[r] * (U)p[j]);           \
        }                                                                                            \
        for (size_t r = 0; r < 4; r++)                                                               \
            for (size_t j = 0; j < 8; j++) c[r * ldc + j] = (T)((U)c[r * ldc + j] + (U)s[r][j]);     \
    }
#define TILE(name, T, U)                                                                             \
    TILE_OF(name, T, U, b + i * 8, size_t k)                                                         \
    TILE_OF(name##_at, T, U, b + offset[i], const int32_t *offset, size_t k)
TILE(tile_f32, float, float)
TILE(tile_f64, double, double)
TILE(tile_i32, int32_t, uint32_t)
#define SHAPE32 4, 8
#define SHAPE64 4, 8
#endif

void SIMD(gemm)(gale__simd *t)
{
    t->gemm[GALE__CT_F32] = (gale__simd_gemm){tile_f32, tile_f32_at, SHAPE32};
    t->gemm[GALE__CT_F64] = (gale__simd_gemm){tile_f64, tile_f64_at, SHAPE64};
    t->gemm[GALE__CT_I32] = t->gemm[GALE__CT_U32] = (gale__simd_gemm){tile_i32, tile_i32_at, SHAPE32};
}
