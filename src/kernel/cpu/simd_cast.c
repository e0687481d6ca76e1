/* Conversions over blocks: CAST between compute types with its corner rules, and the way between storage and compute
 * types.  f16 and bf16 are SIMD; the 8-bit floats, which are rare, go through a table or element by element. */
#include "kernel/cpu/simd_isa.h"
#include <math.h>
#include "kernel/cpu/math.h"
#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* Integers and truth values to integers: conversion wraps. */
#define TO_INTS(N, T)                                                   \
    SIMD_FN1(N##_to_bool, uint8_t, T, x != 0)                           \
    SIMD_FN1(N##_to_i32, int32_t, T, x)                                 \
    SIMD_FN1(N##_to_i64, int64_t, T, x)                                 \
    SIMD_FN1(N##_to_i8, int32_t, T, (int8_t)x)                          \
    SIMD_FN1(N##_to_u8, uint32_t, T, (uint8_t)x)                        \
    SIMD_FN1(N##_to_i16, int32_t, T, (int16_t)x)                        \
    SIMD_FN1(N##_to_u16, uint32_t, T, (uint16_t)x)                      \
    SIMD_FN1(N##_to_i4, int32_t, T, (int32_t)((uint32_t)x << 28) >> 28) \
    SIMD_FN1(N##_to_u4, uint32_t, T, (uint32_t)x & 15)                  \
    SIMD_FN1(N##_to_i2, int32_t, T, (int32_t)((uint32_t)x << 30) >> 30) \
    SIMD_FN1(N##_to_u2, uint32_t, T, (uint32_t)x & 3)                   \
    SIMD_FN1(N##_to_f32, float, T, x)                                   \
    SIMD_FN1(N##_to_f64, double, T, x)
TO_INTS(bool, uint8_t)
TO_INTS(i32, int32_t)
TO_INTS(u32, uint32_t)
TO_INTS(i64, int64_t)
TO_INTS(u64, uint64_t)

/* Floats to integers: truncate, saturate, NaN to 0.  `top` is the largest float of type T that fits; past it comes
 * `most`. */
#define CLAMP(N, T, to, D, low, top, least, most)                                               \
    static void N##_to_##to(void *d_, const void *a_, const void *b_, const void *c_, size_t n) \
    {                                                                                           \
        D *d = d_;                                                                              \
        const T *a = a_;                                                                        \
        SIMD_UNUSED;                                                                            \
        SIMD_LOOP for (size_t i = 0; i < n; i++)                                                \
        {                                                                                       \
            T x = a[i], inside = ((x >= (T)(low)) & (x <= (T)(top))) ? x : 0;                   \
            D v = (D)inside;                                                                    \
            v = x < (T)(low) ? (D)(least) : v;                                                  \
            d[i] = x > (T)(top) ? (D)(most) : v;                                                \
        }                                                                                       \
    }
#define FROM_FLOAT(N, T, top32, topu32, top64, topu64)                             \
    SIMD_FN1(N##_to_bool, uint8_t, T, x != 0)                                      \
    CLAMP(N, T, i32, int32_t, -2147483648.0, top32, INT32_MIN, INT32_MAX)          \
    CLAMP(N, T, u32, uint32_t, 0, topu32, 0, UINT32_MAX)                           \
    CLAMP(N, T, i64, int64_t, -9223372036854775808.0, top64, INT64_MIN, INT64_MAX) \
    CLAMP(N, T, u64, uint64_t, 0, topu64, 0, UINT64_MAX)                           \
    CLAMP(N, T, i8, int32_t, -128, 127, -128, 127)                                 \
    CLAMP(N, T, u8, uint32_t, 0, 255, 0, 255)                                      \
    CLAMP(N, T, i16, int32_t, -32768, 32767, -32768, 32767)                        \
    CLAMP(N, T, u16, uint32_t, 0, 65535, 0, 65535)                                 \
    CLAMP(N, T, i4, int32_t, -8, 7, -8, 7)                                         \
    CLAMP(N, T, u4, uint32_t, 0, 15, 0, 15)                                        \
    CLAMP(N, T, i2, int32_t, -2, 1, -2, 1)                                         \
    CLAMP(N, T, u2, uint32_t, 0, 3, 0, 3)
FROM_FLOAT(f32, float, 0x1.fffffep30, 0x1.fffffep31, 0x1.fffffep62, 0x1.fffffep63)
FROM_FLOAT(f64, double, 2147483647.0, 4294967295.0, 0x1.fffffffffffffp62, 0x1.fffffffffffffp63)
SIMD_FN1(f32_to_f32, float, float, x)
SIMD_FN1(f64_to_f64, double, double, x)
SIMD_FN1(f32_to_f64, double, float, x)
SIMD_FN1(f64_to_f32, float, double, x)

#if defined(__aarch64__)
/* Its own conversion saturates and takes NaN to 0, so that the ends are left to integers. */
#define QUICK_BYTE(to, D, low, most)                                                                   \
    static void quick_f32_to_##to(void *d, const void *a, const void *b, const void *c, size_t n)      \
    {                                                                                                  \
        size_t i = 0;                                                                                  \
        for (; i + 4 <= n; i += 4) {                                                                   \
            int32x4_t v = vcvtq_s32_f32(vld1q_f32((const float *)a + i));                              \
            vst1q_s32((int32_t *)d + i, vminq_s32(vmaxq_s32(v, vdupq_n_s32(low)), vdupq_n_s32(most))); \
        }                                                                                              \
        f32_to_##to((D *)d + i, (const float *)a + i, b, c, n - i);                                    \
    }
QUICK_BYTE(i8, int32_t, -128, 127)
QUICK_BYTE(u8, uint32_t, 0, 255)
#endif

/* A whole quantisation.  A block at a time, so that the conversion is one of the loops above. */
enum { QUANTISE_BLOCK = 64 };
#if defined(__aarch64__)
#define TO_BYTE(to) quick_f32_to_##to
#else
#define TO_BYTE(to) f32_to_##to
#endif
#define QUANTISE(to, D)                                                                                 \
    static void quantise_##to(void *d, const void *a_, const void *b_, const void *c_, size_t n)        \
    {                                                                                                   \
        const float *a = a_;                                                                            \
        const float by = b_ ? *(const float *)b_ : 1, zero = c_ ? *(const float *)c_ : 0;               \
        float part[QUANTISE_BLOCK];                                                                     \
        for (size_t i = 0; i < n; i += QUANTISE_BLOCK) {                                                \
            size_t count = n - i < QUANTISE_BLOCK ? n - i : QUANTISE_BLOCK;                             \
            if (b_) SIMD_LOOP for (size_t k = 0; k < count; k++) part[k] = rintf(a[i + k] / by) + zero; \
            else SIMD_LOOP for (size_t k = 0; k < count; k++) part[k] = rintf(a[i + k]) + zero;         \
            TO_BYTE(to)((D *)d + i, part, NULL, NULL, count);                                           \
        }                                                                                               \
    }
QUANTISE(u8, uint32_t)
QUANTISE(i8, int32_t)

/* f16 in memory. */
#if defined(__aarch64__)
SIMD_FN1(widen_f16, float, __fp16, x)
SIMD_FN1(narrow_f16_tail, __fp16, float, x)
SIMD_FN1(f32_to_f16_tail, float, float, (__fp16)x)
static void narrow_f16(void *d, const void *a, const void *b, const void *c, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) vst1_f16((__fp16 *)d + i, vcvt_f16_f32(vld1q_f32((const float *)a + i)));
    narrow_f16_tail((__fp16 *)d + i, (const float *)a + i, b, c, n - i);
}
static void f32_to_f16(void *d, const void *a, const void *b, const void *c, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) vst1q_f32((float *)d + i, vcvt_f32_f16(vcvt_f16_f32(vld1q_f32((const float *)a + i))));
    f32_to_f16_tail((float *)d + i, (const float *)a + i, b, c, n - i);
}
#else
static inline float f16_up(uint16_t h)
{
    /* Exponent and mantissa moved into place and scaled up; infinities and NaN have all exponent bits set. */
    float v = m32_from((int32_t)((uint32_t)(h & 0x7fff) << 13)) * 0x1p112f;
    v = v >= 65536.0f ? m32_from((int32_t)((uint32_t)m32_bits(v) | 0x7f800000u)) : v;
    return m32_from((int32_t)((uint32_t)m32_bits(v) | (uint32_t)(h & 0x8000) << 16));
}

static inline uint16_t f16_down(float x)
{
    uint32_t bits = (uint32_t)m32_bits(x), sign = bits >> 16 & 0x8000, a = bits & 0x7fffffff;
    /* Normal numbers: rebias, round to nearest even.  Small ones: let an addition shift and round. */
    uint32_t normal = (a - (112u << 23) + 0xfff + (a >> 13 & 1)) >> 13;
    uint32_t small = (uint32_t)m32_bits(m32_from((int32_t)a) + 0.5f) - (uint32_t)m32_bits(0.5f);
    uint32_t r = a < (113u << 23) ? small : normal;
    r = a >= (143u << 23) ? 0x7c00 : r;
    r = r > 0x7c00 ? 0x7c00 : r;
    r = a > 0x7f800000 ? 0x7e00 : r;
    return (uint16_t)(sign | r);
}
SIMD_FN1(widen_f16_tail, float, uint16_t, f16_up(x))
SIMD_FN1(narrow_f16_tail, uint16_t, float, f16_down(x))
static void widen_f16(void *d, const void *a, const void *b, const void *c, size_t n)
{
    size_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps((float *)d + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)((const uint16_t *)a + i))));
#endif
    widen_f16_tail((float *)d + i, (const uint16_t *)a + i, b, c, n - i);
}
static void narrow_f16(void *d, const void *a, const void *b, const void *c, size_t n)
{
    size_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)((uint16_t *)d + i), _mm256_cvtps_ph(_mm256_loadu_ps((const float *)a + i), 0));
#endif
    narrow_f16_tail((uint16_t *)d + i, (const float *)a + i, b, c, n - i);
}
SIMD_FN1(f32_to_f16_tail, float, float, f16_up(f16_down(x)))
static void f32_to_f16(void *d, const void *a, const void *b, const void *c, size_t n)
{
    size_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps((float *)d + i, _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_loadu_ps((const float *)a + i), 0)));
#endif
    f32_to_f16_tail((float *)d + i, (const float *)a + i, b, c, n - i);
}
#endif

/* Rounded, in the high half. */
static inline uint32_t bf16_bits(float x)
{
    uint32_t bits = (uint32_t)m32_bits(x), rounded = bits + 0x7fff + (bits >> 16 & 1);
    return ((bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : rounded) & 0xffff0000;
}
SIMD_FN1(widen_bf16, float, uint16_t, m32_from((int32_t)((uint32_t)x << 16)))
SIMD_FN1(narrow_bf16, uint16_t, float, bf16_bits(x) >> 16)

SIMD_FN1(widen_i8, int32_t, int8_t, x)
SIMD_FN1(widen_u8, uint32_t, uint8_t, x)
SIMD_FN1(widen_i16, int32_t, int16_t, x)
SIMD_FN1(widen_u16, uint32_t, uint16_t, x)
SIMD_FN1(widen_i4, int32_t, uint8_t, (int32_t)((uint32_t)x << 28) >> 28)
SIMD_FN1(widen_u4, uint32_t, uint8_t, x & 15)
SIMD_FN1(widen_i2, int32_t, uint8_t, (int32_t)((uint32_t)x << 30) >> 30)
SIMD_FN1(widen_u2, uint32_t, uint8_t, x & 3)
SIMD_FN1(widen_bool, uint8_t, uint8_t, x != 0)
SIMD_FN1(narrow_8, uint8_t, uint32_t, x)
SIMD_FN1(narrow_16, uint16_t, uint32_t, x)

/* The small floats that have no SIMD form: a table of 256 values each on the way in. */
#define SMALL_FLOATS(DO)     \
    DO(F8E4M3FN, e4m3fn)     \
    DO(F8E4M3FNUZ, e4m3fnuz) \
    DO(F8E5M2, e5m2) DO(F8E5M2FNUZ, e5m2fnuz) DO(F8E8M0, e8m0) DO(F4E2M1, e2m1) DO(F6E2M3, e2m3) DO(F6E3M2, e3m2)
#define SMALL(TYPE, N)                                                                   \
    static float table_##N[256];                                                         \
    SIMD_FN1(widen_##N, float, uint8_t, table_##N[x])                                    \
    SIMD_FN1(narrow_##N, uint8_t, float, gale__f64_to_f8(GALE_##TYPE, x, true))          \
    SIMD_FN1(f32_to_##N, float, float, table_##N[gale__f64_to_f8(GALE_##TYPE, x, true)]) \
    SIMD_FN1(f64_to_##N, float, double, table_##N[gale__f64_to_f8(GALE_##TYPE, x, true)])
SMALL_FLOATS(SMALL)

SIMD_FN1(f32_to_bf16, float, float, m32_from((int32_t)bf16_bits(x)))
SIMD_FN1(f64_to_bf16, float, double, gale__bf16_to_f32(gale__f64_to_bf16(x)))
SIMD_FN1(f64_to_f16, float, double, gale__f16_to_f32(gale__f64_to_f16(x)))

/* Integers to a small float: through f64, so that they are rounded once. */
#define INT_TO_SMALL(N, T, to) SIMD_FN1(N##_to_##to, float, T, small_##to((double)x))
#define ALL_INTS(to)                \
    INT_TO_SMALL(bool, uint8_t, to) \
    INT_TO_SMALL(i32, int32_t, to)  \
    INT_TO_SMALL(u32, uint32_t, to) INT_TO_SMALL(i64, int64_t, to) INT_TO_SMALL(u64, uint64_t, to)
static inline float small_f16(double x) { return gale__f16_to_f32(gale__f64_to_f16(x)); }
static inline float small_bf16(double x) { return gale__bf16_to_f32(gale__f64_to_bf16(x)); }
ALL_INTS(f16)
ALL_INTS(bf16)
#define SMALL_INTS(TYPE, N)                                                                              \
    static inline float small_##N(double x) { return table_##N[gale__f64_to_f8(GALE_##TYPE, x, true)]; } \
    ALL_INTS(N)
SMALL_FLOATS(SMALL_INTS)

#define INT_TARGETS(N, CT)                          \
    t->cast[CT][GALE_BOOL] = N##_to_bool;           \
    t->cast[CT][GALE_I8] = N##_to_i8;               \
    t->cast[CT][GALE_U8] = N##_to_u8;               \
    t->cast[CT][GALE_I16] = N##_to_i16;             \
    t->cast[CT][GALE_U16] = N##_to_u16;             \
    t->cast[CT][GALE_I32] = N##_to_i32;             \
    t->cast[CT][GALE_I64] = N##_to_i64;             \
    t->cast[CT][GALE_I4] = N##_to_i4;               \
    t->cast[CT][GALE_U4] = N##_to_u4;               \
    t->cast[CT][GALE_I2] = N##_to_i2;               \
    t->cast[CT][GALE_U2] = N##_to_u2;               \
    t->cast[CT][GALE_F32] = N##_to_f32;             \
    t->cast[CT][GALE_F64] = N##_to_f64;             \
    t->cast[CT][GALE_F16] = N##_to_f16;             \
    t->cast[CT][GALE_BF16] = N##_to_bf16;           \
    t->cast[CT][GALE_F8E4M3FN] = N##_to_e4m3fn;     \
    t->cast[CT][GALE_F8E4M3FNUZ] = N##_to_e4m3fnuz; \
    t->cast[CT][GALE_F8E5M2] = N##_to_e5m2;         \
    t->cast[CT][GALE_F8E5M2FNUZ] = N##_to_e5m2fnuz; \
    t->cast[CT][GALE_F8E8M0] = N##_to_e8m0;         \
    t->cast[CT][GALE_F4E2M1] = N##_to_e2m1;         \
    t->cast[CT][GALE_F6E2M3] = N##_to_e2m3;         \
    t->cast[CT][GALE_F6E3M2] = N##_to_e3m2;

static void casts(gale__simd *t)
{
    INT_TARGETS(bool, GALE__SIMD_TYPE_BOOL)
    INT_TARGETS(i32, GALE__SIMD_TYPE_I32)
    INT_TARGETS(u32, GALE__SIMD_TYPE_U32)
    INT_TARGETS(i64, GALE__SIMD_TYPE_I64)
    INT_TARGETS(u64, GALE__SIMD_TYPE_U64)
    INT_TARGETS(f32, GALE__SIMD_TYPE_F32)
    INT_TARGETS(f64, GALE__SIMD_TYPE_F64)
    for (int c = 0; c < GALE__SIMD_TYPE_F32; c++) { /* integers of one width differ in sign only in name */
        t->cast[c][GALE_U32] = t->cast[c][GALE_I32];
        t->cast[c][GALE_U64] = t->cast[c][GALE_I64];
    }
    t->cast[GALE__SIMD_TYPE_F32][GALE_U32] = f32_to_u32;
    t->cast[GALE__SIMD_TYPE_F64][GALE_U32] = f64_to_u32;
    t->cast[GALE__SIMD_TYPE_F32][GALE_U64] = f32_to_u64;
    t->cast[GALE__SIMD_TYPE_F64][GALE_U64] = f64_to_u64;
}

static void wraps(gale__simd *t)
{
    t->wrap[GALE_I8] = i32_to_i8;
    t->wrap[GALE_U8] = u32_to_u8;
    t->wrap[GALE_I16] = i32_to_i16;
    t->wrap[GALE_U16] = u32_to_u16;
    t->wrap[GALE_I4] = i32_to_i4;
    t->wrap[GALE_U4] = u32_to_u4;
    t->wrap[GALE_I2] = i32_to_i2;
    t->wrap[GALE_U2] = u32_to_u2;
}

void SIMD(cast)(gale__simd *t)
{
    casts(t);
    wraps(t);
    t->widen[GALE_F16] = widen_f16;
    t->widen[GALE_BF16] = widen_bf16;
    t->widen[GALE_I8] = widen_i8;
    t->widen[GALE_U8] = widen_u8;
    t->widen[GALE_I16] = widen_i16;
    t->widen[GALE_U16] = widen_u16;
    t->widen[GALE_I4] = widen_i4;
    t->widen[GALE_U4] = widen_u4;
    t->widen[GALE_I2] = widen_i2;
    t->widen[GALE_U2] = widen_u2;
    t->widen[GALE_BOOL] = widen_bool;
    t->narrow[GALE_F16] = narrow_f16;
    t->narrow[GALE_BF16] = narrow_bf16;
    t->narrow[GALE_I8] = t->narrow[GALE_U8] = narrow_8;
    t->narrow[GALE_I4] = t->narrow[GALE_U4] = t->narrow[GALE_I2] = t->narrow[GALE_U2] = narrow_8;
    t->narrow[GALE_I16] = t->narrow[GALE_U16] = narrow_16;
#define SMALL_ROWS(TYPE, N)                                                                       \
    for (int i = 0; i < 256; i++) table_##N[i] = (float)gale__f8_to_f64(GALE_##TYPE, (uint8_t)i); \
    t->widen[GALE_##TYPE] = widen_##N;                                                            \
    t->narrow[GALE_##TYPE] = narrow_##N;
    SMALL_FLOATS(SMALL_ROWS)
    t->quantise[0] = quantise_u8;
    t->quantise[1] = quantise_i8;
#if defined(__aarch64__)
    t->cast[GALE__SIMD_TYPE_F32][GALE_I8] = quick_f32_to_i8;
    t->cast[GALE__SIMD_TYPE_F32][GALE_U8] = quick_f32_to_u8;
#endif
}
