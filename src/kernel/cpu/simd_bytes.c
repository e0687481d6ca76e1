/* Sums of products of bytes become bytes again: scaled, with a bias, quantised.  One pass over the sums, since what
 * follows a product of bytes often takes longer than the product.
 *
 * A division by a number is two steps of Newton's from the product with its reciprocal.  They need a fused
 * multiply-add, and numbers far from the ends of the range; else it is a division. */
#include "kernel/cpu/simd_isa.h"
#include <math.h>
#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__AVX512VL__)
#include <immintrin.h>
#endif

#if defined(__FMA__) || defined(__aarch64__)
#define HAVE_FMA 1
#else
#define HAVE_FMA 0
#endif

/* No infinity comes about on the way, and no number too small to be exact; sums are below 2^31. */
static bool is_moderate(const gale__simd_requant *v)
{
    return v->by > 0x1p-60f && v->by < 0x1p60f && fabsf(v->scale) < 0x1p60f && fabsf(v->bias) < 0x1p90f &&
           fabsf(v->zero) < 1024;
}

static inline float quotient(float x, float by, float inverse)
{
    float q = x * inverse;
    return fmaf(fmaf(-q, by, x), inverse, q);
}

/* W: A, but sums wrap in it. */
#define REQUANTISE(name, A, W, D, low, high)                                                                         \
    static void name##_plain(D *d, const A *a, const gale__simd_requant *v, size_t n)                                \
    {                                                                                                                \
        float scale = v->scale, bias = v->bias, by = v->by, zero = v->zero;                                          \
        W start = (W)v->start;                                                                                       \
        SIMD_LOOP for (size_t i = 0; i < n; i++)                                                                     \
        {                                                                                                            \
            float y = rintf(((float)(A)((W)a[i] + start) * scale + bias) / by) + zero;                               \
            y = y == y ? y : 0;                                                                                      \
            y = y > (high) ? (high) : y;                                                                             \
            d[i] = (D)(int32_t)(y < (low) ? (low) : y);                                                              \
        }                                                                                                            \
    }                                                                                                                \
    static inline __attribute__((unused)) void name##_quick(D *d, const A *a, const gale__simd_requant *v, size_t n) \
    {                                                                                                                \
        float scale = v->scale, bias = v->bias, by = v->by, zero = v->zero, inverse = 1 / v->by;                     \
        W start = (W)v->start;                                                                                       \
        SIMD_LOOP for (size_t i = 0; i < n; i++)                                                                     \
        {                                                                                                            \
            float y = rintf(quotient((float)(A)((W)a[i] + start) * scale + bias, by, inverse)) + zero;               \
            y = y > (high) ? (high) : y;                                                                             \
            d[i] = (D)(int32_t)(y < (low) ? (low) : y);                                                              \
        }                                                                                                            \
    }
REQUANTISE(i32_u8, int32_t, uint32_t, uint8_t, 0.0f, 255.0f)
REQUANTISE(i32_i8, int32_t, uint32_t, int8_t, -128.0f, 127.0f)
REQUANTISE(f32_u8, float, float, uint8_t, 0.0f, 255.0f)
REQUANTISE(f32_i8, float, float, int8_t, -128.0f, 127.0f)

#if defined(__aarch64__)
/* Conversions saturate, so that the ends cost nothing. */
static inline int16x8_t round_pair(float32x4_t x, float32x4_t y)
{
    return vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(x)), vqmovn_s32(vcvtnq_s32_f32(y)));
}

static inline float32x4_t divide(float32x4_t x, float32x4_t by, float32x4_t inverse)
{
    float32x4_t q = vmulq_f32(x, inverse);
    return vfmaq_f32(q, vfmsq_f32(x, q, by), inverse);
}

static inline float32x4_t levels(
    float32x4_t x, float32x4_t scale, float32x4_t bias, float32x4_t by, float32x4_t inverse)
{
    return divide(vaddq_f32(vmulq_f32(x, scale), bias), by, inverse);
}
#define AS_F32_i32(p) vcvtq_f32_s32(vaddq_s32(vld1q_s32(p), start))
#define AS_F32_f32(p) vld1q_f32(p)
#define NARROW_u8 vqmovun_s16
#define NARROW_i8 vqmovn_s16
#define STORE_u8 vst1q_u8
#define STORE_i8 vst1q_s8
#define JOIN_u8 vcombine_u8
#define JOIN_i8 vcombine_s8
#define LEVELS(from, i) levels(AS_F32_##from(a + (i)), scale, bias, by, inverse)
#define EIGHT(from, to, i) NARROW_##to(vqaddq_s16(round_pair(LEVELS(from, i), LEVELS(from, (i) + 4)), zero))
#define QUICK(from, A, to, D)                                                                                  \
    static void from##_##to##_neon(D *d, const A *a, const gale__simd_requant *v, size_t n)                    \
    {                                                                                                          \
        float32x4_t scale = vdupq_n_f32(v->scale), bias = vdupq_n_f32(v->bias), by = vdupq_n_f32(v->by),       \
                    inverse = vdupq_n_f32(1 / v->by);                                                          \
        int16x8_t zero = vdupq_n_s16((int16_t)v->zero);                                                        \
        int32x4_t start = vdupq_n_s32(v->start);                                                               \
        size_t i = 0;                                                                                          \
        (void)start;                                                                                           \
        for (; i + 16 <= n; i += 16) STORE_##to(d + i, JOIN_##to(EIGHT(from, to, i), EIGHT(from, to, i + 8))); \
        if (i == n) return;                                                                                    \
        if (n < 16) from##_##to##_quick(d, a, v, n);                                                           \
        else STORE_##to(d + n - 16, JOIN_##to(EIGHT(from, to, n - 16), EIGHT(from, to, n - 8)));               \
    }
QUICK(i32, int32_t, u8, uint8_t)
QUICK(i32, int32_t, i8, int8_t)
QUICK(f32, float, u8, uint8_t)
QUICK(f32, float, i8, int8_t)
#define BEST(name) name##_neon
#elif defined(__AVX512VL__)
/* Levels are rounded as they become whole numbers; the steps to bytes saturate, so that only numbers too large for the
 * first one have to be limited. */
typedef struct lane_numbers {
    __m512 scale, bias, by, inverse;
    __m512i zero, start;
} lane_numbers;

static inline lane_numbers numbers_of(const gale__simd_requant *v)
{
    return (lane_numbers){_mm512_set1_ps(v->scale), _mm512_set1_ps(v->bias), _mm512_set1_ps(v->by),
        _mm512_set1_ps(1 / v->by), _mm512_set1_epi16((int16_t)v->zero), _mm512_set1_epi32(v->start)};
}

static inline __m512i levels(__m512 x, const lane_numbers *v)
{
    __m512 q = _mm512_mul_ps(x, v->inverse);
    q = _mm512_fmadd_ps(_mm512_fnmadd_ps(q, v->by, x), v->inverse, q);
    return _mm512_cvtps_epi32(_mm512_min_ps(q, _mm512_set1_ps(0x1p20f)));
}

static inline __m512 scaled(__m512 x, const lane_numbers *v)
{
    return _mm512_add_ps(_mm512_mul_ps(x, v->scale), v->bias);
}

/* Four vectors as bytes: packing leaves groups of four lanes of each side by side. */
static inline __m512i in_order(__m512i x)
{
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), x);
}
#define PACK_u8 _mm512_packus_epi16
#define PACK_i8 _mm512_packs_epi16
#define BYTES_OF(to, a, b, c, d) \
    in_order(PACK_##to(          \
        _mm512_adds_epi16(_mm512_packs_epi32(a, b), w.zero), _mm512_adds_epi16(_mm512_packs_epi32(c, d), w.zero)))
/* A row in steps of 64, its last lanes under masks; LANES(i): 16 levels. */
#define ROW_OF_BYTES(to, d, n, LANES)                                                                             \
    for (size_t i = 0; i < (n); i += 64) {                                                                        \
        size_t left = (n)-i;                                                                                      \
        __mmask64 some = left < 64 ? ((__mmask64)1 << left) - 1 : ~(__mmask64)0;                                  \
        __m512i l0 = LANES(i, some), l1 = left > 16 ? LANES(i + 16, some >> 16) : l0,                             \
                l2 = left > 32 ? LANES(i + 32, some >> 32) : l0, l3 = left > 48 ? LANES(i + 48, some >> 48) : l0; \
        _mm512_mask_storeu_epi8((d) + i, some, BYTES_OF(to, l0, l1, l2, l3));                                     \
    }
#define AS_F32_i32(some, p) \
    _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_maskz_loadu_epi32((__mmask16)(some), p), w.start))
#define AS_F32_f32(some, p) _mm512_maskz_loadu_ps((__mmask16)(some), p)
#define SCALED_i32(i, some) levels(scaled(AS_F32_i32(some, a + (i)), &w), &w)
#define SCALED_f32(i, some) levels(scaled(AS_F32_f32(some, a + (i)), &w), &w)
#define QUICK(from, A, to, D)                                                                \
    static void from##_##to##_lanes(D *d, const A *a, const gale__simd_requant *v, size_t n) \
    {                                                                                        \
        lane_numbers w = numbers_of(v);                                                      \
        ROW_OF_BYTES(to, d, n, SCALED_##from)                                                \
    }
QUICK(i32, int32_t, u8, uint8_t)
QUICK(i32, int32_t, i8, int8_t)
QUICK(f32, float, u8, uint8_t)
QUICK(f32, float, i8, int8_t)
#define BEST(name) name##_lanes
#else
#define BEST(name) name##_quick
#endif

#define CHOOSE(name)                                                                                  \
    static void name(void *d, const void *a, const gale__simd_requant *v, size_t n)                   \
    {                                                                                                 \
        if (HAVE_FMA && is_moderate(v) && v->zero == (float)(int32_t)v->zero) BEST(name)(d, a, v, n); \
        else name##_plain(d, a, v, n);                                                                \
    }
CHOOSE(i32_u8)
CHOOSE(i32_i8)
CHOOSE(f32_u8)
CHOOSE(f32_i8)

/* --- Two rows of bytes, each as numbers, added. --- */

static bool is_moderate_sum(const gale__simd_sum *v)
{
    return v->by > 0x1p-60f && v->by < 0x1p60f && fabsf(v->x_scale) < 0x1p60f && fabsf(v->y_scale) < 0x1p60f &&
           fabsf(v->zero) < 1024 && v->zero == (float)(int32_t)v->zero;
}

#define SUM(name, T, low, high)                                                                                    \
    static void name##_plain(T *d, const T *a, const T *b, const gale__simd_sum *v, size_t n)                      \
    {                                                                                                              \
        int32_t p = v->x_zero, q = v->y_zero;                                                                      \
        float by_x = v->x_scale, by_y = v->y_scale, by = v->by, zero = v->zero;                                    \
        SIMD_LOOP for (size_t i = 0; i < n; i++)                                                                   \
        {                                                                                                          \
            float y = rintf(((float)(a[i] - p) * by_x + (float)(b[i] - q) * by_y) / by) + zero;                    \
            y = y == y ? y : 0;                                                                                    \
            y = y > (high) ? (high) : y;                                                                           \
            d[i] = (T)(int32_t)(y < (low) ? (low) : y);                                                            \
        }                                                                                                          \
    }                                                                                                              \
    static inline                                                                                                  \
        __attribute__((unused)) void name##_quick(T *d, const T *a, const T *b, const gale__simd_sum *v, size_t n) \
    {                                                                                                              \
        int32_t p = v->x_zero, q = v->y_zero;                                                                      \
        float by_x = v->x_scale, by_y = v->y_scale, by = v->by, zero = v->zero, inverse = 1 / v->by;               \
        SIMD_LOOP for (size_t i = 0; i < n; i++)                                                                   \
        {                                                                                                          \
            float y = (float)(a[i] - p) * by_x + (float)(b[i] - q) * by_y;                                         \
            y = rintf(quotient(y, by, inverse)) + zero;                                                            \
            y = y > (high) ? (high) : y;                                                                           \
            d[i] = (T)(int32_t)(y < (low) ? (low) : y);                                                            \
        }                                                                                                          \
    }
SUM(sum_u8, uint8_t, 0.0f, 255.0f)
SUM(sum_i8, int8_t, -128.0f, 127.0f)

#if defined(__aarch64__)
typedef struct pair {
    float32x4_t by_x, by_y, by, inverse;
} pair;
/* Numbers from -256 on, as floats: 2^23 with a half word for its lowest bits is that much more.  That is quicker than
 * to convert them. */
static inline float32x4_t low_f32(uint16x8_t x)
{
    return vsubq_f32(vreinterpretq_f32_u16(vzip1q_u16(x, vdupq_n_u16(0x4b00))), vdupq_n_f32(0x1p23f + 256));
}
static inline float32x4_t high_f32(uint16x8_t x)
{
    return vsubq_f32(vreinterpretq_f32_u16(vzip2q_u16(x, vdupq_n_u16(0x4b00))), vdupq_n_f32(0x1p23f + 256));
}
static inline float32x4_t sum_levels(float32x4_t x, float32x4_t y, const pair *v)
{
    return divide(vaddq_f32(vmulq_f32(x, v->by_x), vmulq_f32(y, v->by_y)), v->by, v->inverse);
}
#define LOAD_u8(p) vmovl_u8(vld1_u8(p))
#define LOAD_i8(p) vreinterpretq_u16_s16(vmovl_s8(vld1_s8(p)))
#define STORE8_u8 vst1_u8
#define STORE8_i8 vst1_s8
#define SUM_NEON(to, T)                                                                                          \
    static void sum_##to##_neon(T *d, const T *a, const T *b, const gale__simd_sum *v, size_t n)                 \
    {                                                                                                            \
        pair w = {vdupq_n_f32(v->x_scale), vdupq_n_f32(v->y_scale), vdupq_n_f32(v->by), vdupq_n_f32(1 / v->by)}; \
        uint16x8_t p = vdupq_n_u16((uint16_t)(256 - v->x_zero)), q = vdupq_n_u16((uint16_t)(256 - v->y_zero));   \
        int16x8_t zero = vdupq_n_s16((int16_t)v->zero);                                                          \
        size_t i = 0;                                                                                            \
        for (; i + 8 <= n; i += 8) {                                                                             \
            uint16x8_t x = vaddq_u16(LOAD_##to(a + i), p), y = vaddq_u16(LOAD_##to(b + i), q);                   \
            int16x8_t l =                                                                                        \
                round_pair(sum_levels(low_f32(x), low_f32(y), &w), sum_levels(high_f32(x), high_f32(y), &w));    \
            STORE8_##to(d + i, NARROW_##to(vqaddq_s16(l, zero)));                                                \
        }                                                                                                        \
        if (i < n) sum_##to##_quick(d + i, a + i, b + i, v, n - i);                                              \
    }
SUM_NEON(u8, uint8_t)
SUM_NEON(i8, int8_t)
#elif defined(__AVX512VL__)
#define WIDE_u8(x) _mm512_cvtepu8_epi32(x)
#define WIDE_i8(x) _mm512_cvtepi8_epi32(x)
#define CENTRED(to, some, p, zero) \
    _mm512_cvtepi32_ps(_mm512_sub_epi32(WIDE_##to(_mm_maskz_loadu_epi8((__mmask16)(some), p)), zero))
#define SUM_OF(to, i, some)                                                     \
    levels(_mm512_add_ps(_mm512_mul_ps(CENTRED(to, some, a + (i), p), w.scale), \
               _mm512_mul_ps(CENTRED(to, some, b + (i), q), w.bias)),           \
        &w)
#define SUM_OF_u8(i, some) SUM_OF(u8, i, some)
#define SUM_OF_i8(i, some) SUM_OF(i8, i, some)
#define SUM_LANES(to, T)                                                                               \
    static void sum_##to##_lanes(T *d, const T *a, const T *b, const gale__simd_sum *v, size_t n)      \
    {                                                                                                  \
        lane_numbers w = numbers_of(&(gale__simd_requant){v->x_scale, v->y_scale, v->by, v->zero, 0}); \
        __m512i p = _mm512_set1_epi32(v->x_zero), q = _mm512_set1_epi32(v->y_zero);                    \
        ROW_OF_BYTES(to, d, n, SUM_OF_##to)                                                            \
    }
SUM_LANES(u8, uint8_t)
SUM_LANES(i8, int8_t)
#endif

#define CHOOSE_SUM(name)                                                                       \
    static void name(void *d, const void *a, const void *b, const gale__simd_sum *v, size_t n) \
    {                                                                                          \
        if (HAVE_FMA && is_moderate_sum(v)) BEST(name)(d, a, b, v, n);                         \
        else name##_plain(d, a, b, v, n);                                                      \
    }
CHOOSE_SUM(sum_u8)
CHOOSE_SUM(sum_i8)

#define CENTRE(name, T)                                                                               \
    static void name(float *d, const void *a_, int64_t stride, float less, size_t n)                  \
    {                                                                                                 \
        const T *a = a_;                                                                              \
        if (stride == 1) SIMD_LOOP for (size_t i = 0; i < n; i++) d[i] = (float)a[i] - less;          \
        else if (stride == 2) SIMD_LOOP for (size_t i = 0; i < n; i++) d[i] = (float)a[2 * i] - less; \
        else                                                                                          \
            for (size_t i = 0; i < n; i++) d[i] = (float)a[(int64_t)i * stride] - less;               \
    }
CENTRE(centre_u8, uint8_t)
CENTRE(centre_i8, int8_t)

#if defined(__AVX512VL__)
/* The taps of some lanes one after the other, so that each result is written once. */
#define TOP(name, T, MAX)                                                                                    \
    static void name(void *y_, const void *x_, const int64_t *offset, int64_t stride, size_t taps, size_t n) \
    {                                                                                                        \
        size_t some = stride == 1 ? 64 : 32;                                                                 \
        for (size_t i = 0; i < n; i += some) {                                                               \
            size_t lanes = n - i < some ? n - i : some, bytes = stride == 1 ? lanes : 2 * lanes - 1;         \
            __mmask64 read = ~(__mmask64)0 >> (64 - bytes), write = ~(__mmask64)0 >> (64 - lanes);           \
            const T *x = (const T *)x_ + (int64_t)i * stride;                                                \
            __m512i top = _mm512_maskz_loadu_epi8(read, x + offset[0]);                                      \
            for (size_t t = 1; t < taps; t++) top = MAX(top, _mm512_maskz_loadu_epi8(read, x + offset[t]));  \
            if (stride == 2) top = _mm512_castsi256_si512(_mm512_cvtepi16_epi8(top));                        \
            _mm512_mask_storeu_epi8((T *)y_ + i, write, top);                                                \
        }                                                                                                    \
    }
TOP(top_u8, uint8_t, _mm512_max_epu8)
TOP(top_i8, int8_t, _mm512_max_epi8)
#else
#define TOP(name, T)                                                                                         \
    static void name(void *y_, const void *x_, const int64_t *offset, int64_t stride, size_t taps, size_t n) \
    {                                                                                                        \
        T *y = y_;                                                                                           \
        for (size_t t = 0; t < taps; t++) {                                                                  \
            const T *x = (const T *)x_ + offset[t];                                                          \
            if (!t && stride == 1) memcpy(y, x, n);                                                          \
            else if (!t)                                                                                     \
                for (size_t i = 0; i < n; i++) y[i] = x[(int64_t)i * stride];                                \
            else if (stride == 1) SIMD_LOOP for (size_t i = 0; i < n; i++) y[i] = x[i] > y[i] ? x[i] : y[i]; \
            else SIMD_LOOP for (size_t i = 0; i < n; i++) y[i] = x[2 * i] > y[i] ? x[2 * i] : y[i];          \
        }                                                                                                    \
    }
TOP(top_u8, uint8_t)
TOP(top_i8, int8_t)
#endif

#if defined(__AVX512VL__)
static inline __m512i weave_16(const char *s, int64_t pitch, __mmask16 some, __m512i flip)
{
    __m128i a = _mm_maskz_loadu_epi8(some, s), b = _mm_maskz_loadu_epi8(some, s + pitch),
            c = _mm_maskz_loadu_epi8(some, s + 2 * pitch), d = _mm_maskz_loadu_epi8(some, s + 3 * pitch);
    __m128i x = _mm_unpacklo_epi8(a, b), y = _mm_unpackhi_epi8(a, b), z = _mm_unpacklo_epi8(c, d),
            w = _mm_unpackhi_epi8(c, d);
    __m256i low = _mm256_set_m128i(_mm_unpackhi_epi16(x, z), _mm_unpacklo_epi16(x, z)),
            high = _mm256_set_m128i(_mm_unpackhi_epi16(y, w), _mm_unpacklo_epi16(y, w));
    return _mm512_xor_si512(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1), flip);
}

static void weave(void *d, const void *s, int64_t pitch, uint8_t flip, size_t n)
{
    __m512i by = _mm512_set1_epi8((char)flip);
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_si512((char *)d + 4 * i, weave_16((const char *)s + i, pitch, 0xffff, by));
    if (i == n) return;
    __mmask16 some = (__mmask16)((1u << (n - i)) - 1);
    _mm512_mask_storeu_epi32((char *)d + 4 * i, some, weave_16((const char *)s + i, pitch, some, by));
}
#endif

void SIMD(bytes)(gale__simd *t)
{
#if defined(__AVX512VL__)
    t->weave = weave;
#endif
    t->top_bytes[0] = top_u8;
    t->top_bytes[1] = top_i8;
    t->sum_bytes[0] = sum_u8;
    t->sum_bytes[1] = sum_i8;
    t->centre[0] = centre_u8;
    t->centre[1] = centre_i8;
    t->requantise[0][0] = i32_u8;
    t->requantise[0][1] = i32_i8;
    t->requantise[1][0] = f32_u8;
    t->requantise[1][1] = f32_i8;
}
