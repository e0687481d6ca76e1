/* The functions of math.inc over blocks. */
#include "kernel/cpu/simd_isa.h"
#include "kernel/cpu/math_wide.h"

#ifdef GALE__WIDE
#define STEPS(i, d, a, n, name) \
    for (; i + WIDE_LANES <= n; i += WIDE_LANES) wide_store(d + i, mw_##name(wide_load(a + i)));
#else
#define STEPS(i, d, a, n, name)
#endif
#define FN_F32(fn, name)                                                               \
    static void fn(void *d_, const void *a_, const void *b_, const void *c_, size_t n) \
    {                                                                                  \
        float *d = d_;                                                                 \
        const float *a = a_;                                                           \
        size_t i = 0;                                                                  \
        SIMD_UNUSED;                                                                   \
        STEPS(i, d, a, n, name)                                                        \
        SIMD_LOOP for (; i < n; i++) d[i] = m32_##name(a[i]);                          \
    }

#define MATH1(NAME, name)    \
    FN_F32(name##_f32, name) \
    SIMD_FN1(name##_f64, double, double, m64_##name(x))
#define MATH2(NAME, name)                                       \
    SIMD_FN2(name##_f32, float, float, float, m32_##name(x, y)) \
    SIMD_FN2(name##_f64, double, double, double, m64_##name(x, y))
#define LIST(ONE, TWO) \
    ONE(EXP, exp)      \
    ONE(EXPM1, expm1)  \
    ONE(LOG, log)      \
    ONE(LOG1P, log1p)  \
    ONE(SIN, sin)      \
    ONE(COS, cos)      \
    ONE(TAN, tan)      \
    ONE(ASIN, asin)    \
    ONE(ACOS, acos)    \
    ONE(ATAN, atan)    \
    ONE(SINH, sinh)    \
    ONE(COSH, cosh)    \
    ONE(ASINH, asinh)  \
    ONE(ACOSH, acosh)  \
    ONE(ATANH, atanh)  \
    ONE(TANH, tanh)    \
    ONE(ERF, erf)      \
    TWO(POW, pow)      \
    TWO(ATAN2, atan2)
LIST(MATH1, MATH2)

/* Chains that many networks have, in one pass; the same operations in the same order.  Those with a division are as
 * fast by single vectors with AVX-512. */
#ifdef __AVX512F__
#undef STEPS
#define STEPS(i, d, a, n, name)
#endif
FN_F32(sigmoid, sigmoid)
FN_F32(swish, swish)

/* The same in place, for rows of results; they are often no multiple of a vector. */
#ifdef __AVX512F__ /* a vector that is loaded must not be stored in pieces before */
enum { STEP = 16 };
#define EACH(p, name) SIMD_LOOP for (int i = 0; i < STEP; i++)(p)[i] = m32_##name((p)[i]);
#define ACTIVATION(name)                                                        \
    static void activate_##name(float *v, size_t n, size_t rows, int64_t pitch) \
    {                                                                           \
        float rest[STEP] = {0};                                                 \
        size_t whole = n / STEP * STEP;                                         \
        __mmask16 some = (__mmask16)((1u << (n - whole)) - 1);                  \
        for (; rows > 0; rows--, v += pitch) {                                  \
            for (size_t at = 0; at < whole; at += STEP) EACH(v + at, name)      \
            if (!some) continue;                                                \
            _mm512_storeu_ps(rest, _mm512_maskz_loadu_ps(some, v + whole));     \
            EACH(rest, name)                                                    \
            _mm512_mask_storeu_ps(v + whole, some, _mm512_loadu_ps(rest));      \
        }                                                                       \
    }
/* Rows may be short, so vectors of several are taken together. */
#define ACTIVATION_WIDE(name)                                                           \
    static void activate_##name(float *v, size_t n, size_t rows, int64_t pitch)         \
    {                                                                                   \
        size_t each = (n + WIDE_VECTOR - 1) / WIDE_VECTOR, total = rows * each, at = 0; \
        const __mmask16 last = (__mmask16)(0xffff >> (each * WIDE_VECTOR - n));         \
        for (size_t t = 0; t < total; t += WIDE) {                                      \
            VF x;                                                                       \
            float *p[WIDE];                                                             \
            __mmask16 some[WIDE];                                                       \
            WIDE_EACH({                                                                 \
                some[i] = t + i >= total ? 0 : at + 1 < each ? 0xffff : last;           \
                p[i] = v + at * WIDE_VECTOR;                                            \
                x.v[i] = _mm512_maskz_loadu_ps(some[i], p[i]);                          \
                if (++at == each) {                                                     \
                    at = 0;                                                             \
                    v += pitch;                                                         \
                }                                                                       \
            })                                                                          \
            x = mw_##name(x);                                                           \
            WIDE_EACH(_mm512_mask_storeu_ps(p[i], some[i], x.v[i]))                     \
        }                                                                               \
    }
#elif defined GALE__WIDE
FN_F32(gelu, gelu)
#define ACTIVATION(name)                                                        \
    static void activate_##name(float *v, size_t n, size_t rows, int64_t pitch) \
    {                                                                           \
        for (; rows > 0; rows--, v += pitch) name(v, v, NULL, NULL, n);         \
    }
#else /* the last vector overlaps the one before, and is loaded before that is stored */
enum { STEP = 8 };
#define EACH(p, name) SIMD_LOOP for (int i = 0; i < STEP; i++)(p)[i] = m32_##name((p)[i]);
#define ACTIVATION(name)                                                        \
    static void activate_##name(float *v, size_t n, size_t rows, int64_t pitch) \
    {                                                                           \
        float rest[STEP] = {0};                                                 \
        for (; rows > 0; rows--, v += pitch) {                                  \
            float *end = v + (n < STEP ? 0 : n - STEP);                         \
            size_t some = n < STEP ? n : STEP;                                  \
            bool overlaps = n % STEP != 0;                                      \
            if (overlaps) {                                                     \
                memcpy(rest, end, some * sizeof *end);                          \
                EACH(rest, name)                                                \
            }                                                                   \
            for (size_t at = 0; at + STEP <= n; at += STEP) EACH(v + at, name)  \
            if (overlaps) memcpy(end, rest, some * sizeof *end);                \
        }                                                                       \
    }
#endif
ACTIVATION(swish)
ACTIVATION(sigmoid)
#ifdef __AVX512F__
ACTIVATION_WIDE(gelu)
#else
ACTIVATION(gelu)
#endif

SIMD_FN2(random_bits, uint32_t, uint64_t, uint64_t,
    m32_philox((uint32_t)x, (uint32_t)(x >> 32), (uint32_t)y, (uint32_t)(y >> 32)))

#define ROWS(NAME, name)                                   \
    t->op[GALE__##NAME][GALE__SIMD_TYPE_F32] = name##_f32; \
    t->op[GALE__##NAME][GALE__SIMD_TYPE_F64] = name##_f64;
void SIMD(math)(gale__simd *t)
{
    LIST(ROWS, ROWS)
    t->op[GALE__RANDOM][GALE__SIMD_TYPE_U64] = random_bits;
    t->sigmoid[0] = sigmoid;
    t->sigmoid[1] = swish;
    t->activate[GALE__ACTIVATION_SWISH] = activate_swish;
    t->activate[GALE__ACTIVATION_SIGMOID] = activate_sigmoid;
    t->activate[GALE__ACTIVATION_GELU] = activate_gelu;
}
