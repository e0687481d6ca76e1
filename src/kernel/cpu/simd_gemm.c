/* Micro-kernels of the tiled contraction, for f32, f64 and 32-bit integers.  Each instruction set has a tile that fills
 * its registers: accumulators, one row of b, one column of a; and some of fewer rows. */
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
#define ROW(r, x, lane)                  \
    s##r##0 = FMA(s##r##0, b0, x, lane); \
    s##r##1 = FMA(s##r##1, b1, x, lane); \
    s##r##2 = FMA(s##r##2, b2, x, lane);
#define SUMS(r) V s##r##0 = ZERO, s##r##1 = ZERO, s##r##2 = ZERO;
#define PUT(r)                                                           \
    STORE(c + r * ldc, ADD(LOAD(c + r * ldc), s##r##0));                 \
    STORE(c + r * ldc + LANES, ADD(LOAD(c + r * ldc + LANES), s##r##1)); \
    STORE(c + r * ldc + 2 * LANES, ADD(LOAD(c + r * ldc + 2 * LANES), s##r##2));
#define SUMS1 SUMS(0)
#define SUMS4 SUMS1 SUMS(1) SUMS(2) SUMS(3)
#define SUMS8 SUMS4 SUMS(4) SUMS(5) SUMS(6) SUMS(7)
#define PUT1 PUT(0)
#define PUT4 PUT1 PUT(1) PUT(2) PUT(3)
#define PUT8 PUT4 PUT(4) PUT(5) PUT(6) PUT(7)
#define READ3() V b0 = LOAD(p), b1 = LOAD(p + LANES), b2 = LOAD(p + 2 * LANES);
/* Where a step reads is known a step before: a processor that has the products of a step under way looks less far
 * ahead than it takes to load an offset, then what is there.  (On a Neoverse V1: 75 GFLOP/s instead of 66.) */
#define STEPS_AT(T, READ, MULTIPLY)                                \
    const T *p, *next = b + offset[0];                             \
    _Pragma("GCC unroll 2") for (size_t i = 1; i < k; i++, a += 8) \
    {                                                              \
        p = next;                                                  \
        next = b + offset[i];                                      \
        READ() MULTIPLY()                                          \
    }                                                              \
    p = next;                                                      \
    {                                                              \
        READ() MULTIPLY()                                          \
    }
#define TILE(name, rows, T, MULTIPLY)                                                          \
    static void name##_##rows(void *c_, size_t ldc, const void *a_, const void *b_, size_t k)  \
    {                                                                                          \
        const T *a = a_, *b = b_;                                                              \
        T *c = c_;                                                                             \
        SUMS##rows _Pragma("GCC unroll 4") for (size_t i = 0; i < k; i++, a += 8)              \
        {                                                                                      \
            const T *p = b + i * 3 * LANES;                                                    \
            READ3() MULTIPLY()                                                                 \
        }                                                                                      \
        PUT##rows                                                                              \
    }                                                                                          \
    static void name##_at_##rows(                                                              \
        void *c_, size_t ldc, const void *a_, const void *b_, const int32_t *offset, size_t k) \
    {                                                                                          \
        const T *a = a_, *b = b_;                                                              \
        T *c = c_;                                                                             \
        SUMS##rows STEPS_AT(T, READ3, MULTIPLY) PUT##rows                                      \
    }
#define FIRST1()   \
    V x = LOAD(a); \
    ROW(0, x, 0)
#define FIRST4()   \
    V x = LOAD(a); \
    ROW(0, x, 0) ROW(1, x, 1) ROW(2, x, 2) ROW(3, x, 3)
#define ALL4()                  \
    FIRST4() V y = LOAD(a + 4); \
    ROW(4, y, 0) ROW(5, y, 1) ROW(6, y, 2) ROW(7, y, 3)
#define ALL2()                                                        \
    V x = LOAD(a), y = LOAD(a + 2), z = LOAD(a + 4), w = LOAD(a + 6); \
    ROW(0, x, 0) ROW(1, x, 1) ROW(2, y, 0) ROW(3, y, 1) ROW(4, z, 0) ROW(5, z, 1) ROW(6, w, 0) ROW(7, w, 1)

#define V float32x4_t
#define LANES 4
#define ZERO vdupq_n_f32(0)
#define LOAD vld1q_f32
#define STORE vst1q_f32
#define ADD vaddq_f32
#define FMA vfmaq_laneq_f32
TILE(tile_f32, 1, float, FIRST1)
TILE(tile_f32, 4, float, FIRST4)
TILE(tile_f32, 8, float, ALL4)
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
TILE(tile_i32, 8, int32_t, ALL4)
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
TILE(tile_f64, 8, double, ALL2)
/* The first two vectors of f32 only.  With so few lanes weights come from far memory: fetching them ahead is worth a
 * tenth of a convolution of 256 channels at 14 x 14. */
#undef ROW
#undef SUMS
#undef PUT
#undef V
#undef LANES
#undef ZERO
#undef LOAD
#undef STORE
#undef ADD
#undef FMA
#define V float32x4_t
#define LANES 4
#define ZERO vdupq_n_f32(0)
#define LOAD vld1q_f32
#define STORE vst1q_f32
#define ADD vaddq_f32
#define FMA vfmaq_laneq_f32
#define ROW(r, x, lane)                  \
    s##r##0 = FMA(s##r##0, b0, x, lane); \
    s##r##1 = FMA(s##r##1, b1, x, lane);
#define SUMS(r) V s##r##0 = ZERO, s##r##1 = ZERO;
#define PUT(r)                                           \
    STORE(c + r * ldc, ADD(LOAD(c + r * ldc), s##r##0)); \
    STORE(c + r * ldc + LANES, ADD(LOAD(c + r * ldc + LANES), s##r##1));
#define READ_SLIM()                       \
    V b0 = LOAD(p), b1 = LOAD(p + LANES); \
    __builtin_prefetch(a + 320);
#define SLIM(rows, MULTIPLY)                                                                   \
    static void tile_f32_slim_##rows(                                                          \
        void *c_, size_t ldc, const void *a_, const void *b_, const int32_t *offset, size_t k) \
    {                                                                                          \
        const float *a = a_, *b = b_;                                                          \
        float *c = c_;                                                                         \
        SUMS##rows STEPS_AT(float, READ_SLIM, MULTIPLY) PUT##rows                              \
    }
SLIM(1, FIRST1)
SLIM(4, FIRST4)
SLIM(8, ALL4)
#define GEMM_F32                                                                                                      \
    {                                                                                                                 \
        .mr = 8, .nr = 12, .slim = 8, .part = { ROW_SLIM(tile_f32, 1), ROW_SLIM(tile_f32, 4), ROW_SLIM(tile_f32, 8) } \
    }
#define GEMM_F64                                          \
    {                                                     \
        .mr = 8, .nr = 6, .part = { ROW_OF(tile_f64, 8) } \
    }
#define GEMM_I32                                           \
    {                                                      \
        .mr = 8, .nr = 12, .part = { ROW_OF(tile_i32, 8) } \
    }

#elif ISA == IS_sve
#include <arm_sve.h>

/* Vectors of a length known only at run time cannot be stored in arrays: the tile is 8 x 3 named registers. */
#define ROW(r)                          \
    x = DUP(a[r]);                      \
    s##r##0 = FMA(all, s##r##0, b0, x); \
    s##r##1 = FMA(all, s##r##1, b1, x); \
    s##r##2 = FMA(all, s##r##2, b2, x);
#define SUMS(r) V s##r##0 = DUP(0), s##r##1 = DUP(0), s##r##2 = DUP(0);
#define PUT(r)                                                                  \
    STORE(all, c + r * ldc, ADD(all, LOAD(all, c + r * ldc), s##r##0));         \
    STORE(all, c + r * ldc + w, ADD(all, LOAD(all, c + r * ldc + w), s##r##1)); \
    STORE(all, c + r * ldc + 2 * w, ADD(all, LOAD(all, c + r * ldc + 2 * w), s##r##2));
#define SUMS1 SUMS(0)
#define SUMS4 SUMS1 SUMS(1) SUMS(2) SUMS(3)
#define SUMS8 SUMS4 SUMS(4) SUMS(5) SUMS(6) SUMS(7)
#define ROWS1 ROW(0)
#define ROWS4 ROWS1 ROW(1) ROW(2) ROW(3)
#define ROWS8 ROWS4 ROW(4) ROW(5) ROW(6) ROW(7)
#define PUT1 PUT(0)
#define PUT4 PUT1 PUT(1) PUT(2) PUT(3)
#define PUT8 PUT4 PUT(4) PUT(5) PUT(6) PUT(7)
#define TILE_OF(name, rows, T, TRUE, COUNT, NEXT, ...)                                  \
    static void name(void *c_, size_t ldc, const void *a_, const void *b_, __VA_ARGS__) \
    {                                                                                   \
        const T *a = a_, *b = b_;                                                       \
        T *c = c_;                                                                      \
        svbool_t all = TRUE();                                                          \
        size_t w = COUNT();                                                             \
        V x;                                                                            \
        SUMS##rows for (size_t i = 0; i < k; i++, a += 8)                               \
        {                                                                               \
            const T *p = NEXT;                                                          \
            V b0 = LOAD(all, p), b1 = LOAD(all, p + w), b2 = LOAD(all, p + 2 * w);      \
            ROWS##rows                                                                  \
        }                                                                               \
        PUT##rows                                                                       \
    }
#define TILE(name, rows, T, TRUE, COUNT)                                  \
    TILE_OF(name##_##rows, rows, T, TRUE, COUNT, b + i * 3 * w, size_t k) \
    TILE_OF(name##_at_##rows, rows, T, TRUE, COUNT, b + offset[i], const int32_t *offset, size_t k)
#define LOAD svld1
#define STORE svst1
#define ADD svadd_x
#define FMA svmla_x
#define V svfloat32_t
#define DUP svdup_f32
TILE(tile_f32, 1, float, svptrue_b32, svcntw)
TILE(tile_f32, 4, float, svptrue_b32, svcntw)
TILE(tile_f32, 8, float, svptrue_b32, svcntw)
#undef V
#undef DUP
#define V svint32_t
#define DUP svdup_s32
TILE(tile_i32, 8, int32_t, svptrue_b32, svcntw)
#undef V
#undef DUP
#define V svfloat64_t
#define DUP svdup_f64
TILE(tile_f64, 8, double, svptrue_b64, svcntd)
/* The first two vectors of f32 only. */
#undef ROW
#undef SUMS
#undef PUT
#undef V
#undef DUP
#define V svfloat32_t
#define DUP svdup_f32
#define ROW(r)                          \
    x = DUP(a[r]);                      \
    s##r##0 = FMA(all, s##r##0, b0, x); \
    s##r##1 = FMA(all, s##r##1, b1, x);
#define SUMS(r) V s##r##0 = DUP(0), s##r##1 = DUP(0);
#define PUT(r)                                                          \
    STORE(all, c + r * ldc, ADD(all, LOAD(all, c + r * ldc), s##r##0)); \
    STORE(all, c + r * ldc + w, ADD(all, LOAD(all, c + r * ldc + w), s##r##1));
#define SLIM(rows)                                                                             \
    static void tile_f32_slim_##rows(                                                          \
        void *c_, size_t ldc, const void *a_, const void *b_, const int32_t *offset, size_t k) \
    {                                                                                          \
        const float *a = a_, *b = b_;                                                          \
        float *c = c_;                                                                         \
        svbool_t all = svptrue_b32();                                                          \
        size_t w = svcntw();                                                                   \
        V x;                                                                                   \
        SUMS##rows for (size_t i = 0; i < k; i++, a += 8)                                      \
        {                                                                                      \
            const float *p = b + offset[i];                                                    \
            V b0 = LOAD(all, p), b1 = LOAD(all, p + w);                                        \
            ROWS##rows                                                                         \
        }                                                                                      \
        PUT##rows                                                                              \
    }
SLIM(1)
SLIM(4)
SLIM(8)
#define GEMM_F32                                                                   \
    {                                                                              \
        .mr = 8, .nr = (int)(3 * svcntw()), .slim = (int)(2 * svcntw()), .part = { \
            ROW_SLIM(tile_f32, 1),                                                 \
            ROW_SLIM(tile_f32, 4),                                                 \
            ROW_SLIM(tile_f32, 8)                                                  \
        }                                                                          \
    }
#define GEMM_F64                                                            \
    {                                                                       \
        .mr = 8, .nr = (int)(3 * svcntd()), .part = { ROW_OF(tile_f64, 8) } \
    }
#define GEMM_I32                                                            \
    {                                                                       \
        .mr = 8, .nr = (int)(3 * svcntw()), .part = { ROW_OF(tile_i32, 8) } \
    }

#elif ISA == IS_avx2
#include "kernel/cpu/simd_first.h"
static inline __m256i load_i32(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void store_i32(int32_t *p, __m256i v) { _mm256_storeu_si256((__m256i *)p, v); }
/* z += x at once: gcc 12 would rather add products of two steps first, and keep sums in memory. */
static inline __m256i add_now(__m256i z, __m256i x)
{
    __asm__("vpaddd %1, %0, %0" : "+x"(z) : "x"(x));
    return z;
}
static inline __m256i fma_i32(__m256i x, __m256i y, __m256i z) { return add_now(z, _mm256_mullo_epi32(x, y)); }
/* Pairs of 16-bit numbers, for bytes where no instruction multiplies these without saturating. */
static inline __m256i fma_pairs(__m256i x, __m256i y, __m256i z) { return add_now(z, _mm256_madd_epi16(x, y)); }
#define MR 6
#define PARTS X(1) X(3) X(6)
#define NAME tile_f32
#define SLIM
#define SOME __m256i
#define SOME_OF first_lanes
#define LOAD_SOME _mm256_maskload_ps
#define STORE_FIRST store_first
#define LARGER _mm256_max_ps
#define SMALLER _mm256_min_ps
#define TIMES _mm256_mul_ps
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
#define PARTS X(6)
#define NAME tile_f64
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
#define PARTS X(6)
#define NAME tile_i32
#define T int32_t
#define V __m256i
#define LANES 8
#define LOAD load_i32
#define STORE store_i32
#define SET _mm256_set1_epi32
#define ADD _mm256_add_epi32
#define FMA fma_i32
#include "simd_gemm.inc"
#define MR 6
#define PARTS X(1) X(3) X(6)
#define NAME tile_i16
#define T int32_t
#define V __m256i
#define LANES 8
#define LOAD load_i32
#define STORE store_i32
#define SET _mm256_set1_epi32
#define ADD _mm256_add_epi32
#define FMA fma_pairs
#include "simd_gemm.inc"
#define GEMM_F32                                                                                                      \
    {                                                                                                                 \
        .mr = 6, .nr = 16, .slim = 8, .part = { ROW_DONE(tile_f32, 1), ROW_DONE(tile_f32, 3), ROW_DONE(tile_f32, 6) } \
    }
#define GEMM_F64                                          \
    {                                                     \
        .mr = 6, .nr = 8, .part = { ROW_OF(tile_f64, 6) } \
    }
#define GEMM_I16                                                                                     \
    {                                                                                                \
        .mr = 6, .nr = 16, .part = { ROW_OF(tile_i16, 1), ROW_OF(tile_i16, 3), ROW_OF(tile_i16, 6) } \
    }
#define GEMM_I32                                           \
    {                                                      \
        .mr = 6, .nr = 16, .part = { ROW_OF(tile_i32, 6) } \
    }

#elif ISA == IS_avx512
#include "kernel/cpu/simd_first.h"
static inline __m512i load_i32(const int32_t *p) { return _mm512_loadu_si512(p); }
static inline void store_i32(int32_t *p, __m512i v) { _mm512_storeu_si512(p, v); }
static inline __m512i add_now(__m512i z, __m512i x) /* as with AVX2 */
{
    __asm__("vpaddd %1, %0, %0" : "+v"(z) : "v"(x));
    return z;
}
static inline __m512i fma_i32(__m512i x, __m512i y, __m512i z) { return add_now(z, _mm512_mullo_epi32(x, y)); }
/* Pairs of 16-bit numbers, for bytes where no instruction multiplies these without saturating. */
static inline __m512i fma_pairs(__m512i x, __m512i y, __m512i z) { return add_now(z, _mm512_madd_epi16(x, y)); }
static inline __m512 load_some(const float *p, __mmask16 some) { return _mm512_maskz_loadu_ps(some, p); }
#define MR 14
#define PARTS X(1) X(4) X(8) X(14)
#define NAME tile_f32
#define SLIM
#define SOME __mmask16
#define SOME_OF first_lanes
#define LOAD_SOME load_some
#define STORE_FIRST store_first
#define LARGER _mm512_max_ps
#define SMALLER _mm512_min_ps
#define TIMES _mm512_mul_ps
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
#define PARTS X(14)
#define NAME tile_f64
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
#define PARTS X(14)
#define NAME tile_i32
#define T int32_t
#define V __m512i
#define LANES 16
#define LOAD load_i32
#define STORE store_i32
#define SET _mm512_set1_epi32
#define ADD _mm512_add_epi32
#define FMA fma_i32
#include "simd_gemm.inc"
#define MR 14
#define PARTS X(1) X(4) X(8) X(14)
#define NAME tile_i16
#define T int32_t
#define V __m512i
#define LANES 16
#define LOAD load_i32
#define STORE store_i32
#define SET _mm512_set1_epi32
#define ADD _mm512_add_epi32
#define FMA fma_pairs
#include "simd_gemm.inc"
#define GEMM_F32                                  \
    {                                             \
        .mr = 14, .nr = 32, .slim = 16, .part = { \
            ROW_DONE(tile_f32, 1),                \
            ROW_DONE(tile_f32, 4),                \
            ROW_DONE(tile_f32, 8),                \
            ROW_DONE(tile_f32, 14)                \
        }                                         \
    }
#define GEMM_F64                                             \
    {                                                        \
        .mr = 14, .nr = 16, .part = { ROW_OF(tile_f64, 14) } \
    }
#define GEMM_I16                      \
    {                                 \
        .mr = 14, .nr = 32, .part = { \
            ROW_OF(tile_i16, 1),      \
            ROW_OF(tile_i16, 4),      \
            ROW_OF(tile_i16, 8),      \
            ROW_OF(tile_i16, 14)      \
        }                             \
    }
#define GEMM_I32                                             \
    {                                                        \
        .mr = 14, .nr = 32, .part = { ROW_OF(tile_i32, 14) } \
    }

#else
/* Plain C: small enough for any register file; the compiler may vectorise the rows. */
#define TILE_OF(name, T, U, NEXT, ...)                                                           \
    static void name(void *c_, size_t ldc, const void *a_, const void *b_, __VA_ARGS__)          \
    {                                                                                            \
        const T *a = a_, *b = b_;                                                                \
        T *c = c_, s[4][8] = {{0}};                                                              \
        for (size_t i = 0; i < k; i++, a += 4) {                                                 \
            const T *p = NEXT;                                                                   \
            for (int r = 0; r < 4; r++)                                                          \
                for (int j = 0; j < 8; j++) s[r][j] = (T)((U)s[r][j] + (U)a[r] * (U)p[j]);       \
        }                                                                                        \
        for (size_t r = 0; r < 4; r++)                                                           \
            for (size_t j = 0; j < 8; j++) c[r * ldc + j] = (T)((U)c[r * ldc + j] + (U)s[r][j]); \
    }
#define TILE(name, T, U)                         \
    TILE_OF(name##_4, T, U, b + i * 8, size_t k) \
    TILE_OF(name##_at_4, T, U, b + offset[i], const int32_t *offset, size_t k)
TILE(tile_f32, float, float)
TILE(tile_f64, double, double)
TILE(tile_i32, int32_t, uint32_t)
/* Pairs of 16-bit numbers, for bytes. */
#define PAIRS(name, NEXT, ...)                                                                                 \
    static void name(void *c_, size_t ldc, const void *a_, const void *b_, __VA_ARGS__)                        \
    {                                                                                                          \
        const int16_t *a = a_, *b = b_;                                                                        \
        int32_t *c = c_;                                                                                       \
        for (size_t i = 0; i < k; i++, a += 8) {                                                               \
            const int16_t *p = NEXT;                                                                           \
            for (size_t r = 0; r < 4; r++)                                                                     \
                for (size_t j = 0; j < 8; j++)                                                                 \
                    c[r * ldc + j] = (int32_t)((uint32_t)c[r * ldc + j] +                                      \
                                               (uint32_t)(a[2 * r] * p[2 * j] + a[2 * r + 1] * p[2 * j + 1])); \
        }                                                                                                      \
    }
PAIRS(tile_i16_4, b + i * 16, size_t k)
PAIRS(tile_i16_at_4, b + 2 * (ptrdiff_t)offset[i], const int32_t *offset, size_t k)
#define GEMM_I16                                          \
    {                                                     \
        .mr = 4, .nr = 8, .part = { ROW_OF(tile_i16, 4) } \
    }
#define GEMM_F32                                          \
    {                                                     \
        .mr = 4, .nr = 8, .part = { ROW_OF(tile_f32, 4) } \
    }
#define GEMM_F64                                          \
    {                                                     \
        .mr = 4, .nr = 8, .part = { ROW_OF(tile_f64, 4) } \
    }
#define GEMM_I32                                          \
    {                                                     \
        .mr = 4, .nr = 8, .part = { ROW_OF(tile_i32, 4) } \
    }
#endif

static void add_gemm(gale__simd *t, gale_type type, gale__simd_gemm gemm)
{
    gemm.key = (gale__simd_key){(uint8_t)type, (uint8_t)type, (uint8_t)type, 1};
    t->gemm[t->n_gemms++] = gemm;
}

void SIMD(gemm)(gale__simd *t)
{
    add_gemm(t, GALE_F32, (gale__simd_gemm)GEMM_F32);
    add_gemm(t, GALE_F64, (gale__simd_gemm)GEMM_F64);
    add_gemm(t, GALE_I32, (gale__simd_gemm)GEMM_I32);
    add_gemm(t, GALE_U32, (gale__simd_gemm)GEMM_I32);
#ifdef GEMM_I16
    t->gemm[t->n_gemms] = (gale__simd_gemm)GEMM_I16;
    t->gemm[t->n_gemms++].key = (gale__simd_key){GALE_I16, GALE_I16, GALE_I32, 2};
#endif
}
