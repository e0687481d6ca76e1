/* Two or three f32 operations in one loop, (a op b) op c, where b and c are blocks or one number for all lanes: half
 * the passes over a block for the most common fused chains.  Each operation still rounds separately. */
#include "kernel/cpu/simd_isa.h"

/* `s`: the operand is one number, and not NaN.  Then one comparison passes a NaN of x on. */
#define DO_ADD(x, y) ((x) + (y))
#define DO_SUB(x, y) ((x) - (y))
#define DO_RSUB(x, y) ((y) - (x))
#define DO_MUL(x, y) ((x) * (y))
#define DO_MAX(x, y) ((((x) > (y)) | ((x) != (x))) ? (x) : (y))
#define DO_MIN(x, y) ((((x) < (y)) | ((x) != (x))) ? (x) : (y))
#define DO_ADDs DO_ADD
#define DO_SUBs DO_SUB
#define DO_RSUBs DO_RSUB
#define DO_MULs DO_MUL
#define DO_MAXs(x, y) ((y) > (x) ? (y) : (x))
#define DO_MINs(x, y) ((y) < (x) ? (y) : (x))

/* NEON's max and min propagate NaN, which no C expression compiles to; so the main loops use intrinsics there. */
#if defined(__ARM_NEON)
#include <arm_neon.h>
#define VEC_ADD vaddq_f32
#define VEC_SUB vsubq_f32
#define VEC_RSUB(x, y) vsubq_f32(y, x)
#define VEC_MUL vmulq_f32
#define VEC_MAX vmaxq_f32
#define VEC_MIN vminq_f32
#define MAIN_LOOP(P, Q, B, C)                                                                   \
    for (; i + 16 <= n; i += 16) {                                                              \
        float32x4_t v[4];                                                                       \
        for (size_t j = 0; j < 4; j++) v[j] = VEC_##Q(VEC_##P(vld1q_f32(a + i + 4 * j), B), C); \
        for (size_t j = 0; j < 4; j++) vst1q_f32(d + i + 4 * j, v[j]);                          \
    }
#define VEC_v(p) vld1q_f32(p + i + 4 * j)
#define VEC_s(p) vdupq_n_f32(p##0)
#define MAIN_SINGLE(P, B) MAIN_LOOP(SAME, P, 0, B)
#define VEC_SAME(x, y) x
#define MAIN_TRIPLE(P, Q, R)                                                                   \
    for (; i + 16 <= n; i += 16) {                                                             \
        float32x4_t v[4], m = vdupq_n_f32(e);                                                  \
        for (size_t j = 0; j < 4; j++)                                                         \
            v[j] = VEC_##R(VEC_##Q(VEC_##P(vld1q_f32(a + i + 4 * j), VEC_s(b)), VEC_s(c)), m); \
        for (size_t j = 0; j < 4; j++) vst1q_f32(d + i + 4 * j, v[j]);                         \
    }
#define PAIR_LOOP
#else
#define MAIN_LOOP(P, Q, B, C)
#define MAIN_SINGLE(P, B)
#define MAIN_TRIPLE(P, Q, R)
#if defined(__clang__)
#define PAIR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define PAIR_LOOP _Pragma("GCC ivdep") _Pragma("GCC unroll 4")
#endif
#endif
#define OP_v(P) DO_##P
#define OP_s(P) DO_##P##s

#define PAIR(P, Q, p, q)                                                                             \
    static void P##_##Q##_##p##q(void *d_, const void *a_, const void *b_, const void *c_, size_t n) \
    {                                                                                                \
        float *d = d_;                                                                               \
        const float *a = a_, *b = b_, *c = c_, b0 = b[0], c0 = c[0];                                 \
        size_t i = 0;                                                                                \
        (void)b0, (void)c0;                                                                          \
        MAIN_LOOP(P, Q, VEC_##p(b), VEC_##q(c))                                                      \
        PAIR_LOOP for (; i < n; i++)                                                                 \
        {                                                                                            \
            float x = a[i];                                                                          \
            float v = OP_##p(P)(x, LANE_##p(b));                                                     \
            d[i] = OP_##q(Q)(v, LANE_##q(c));                                                        \
        }                                                                                            \
    }
#define LANE_v(p) p[i]
#define LANE_s(p) p##0
#define PAIR_FORMS(P, Q) PAIR(P, Q, v, v) PAIR(P, Q, s, v) PAIR(P, Q, v, s) PAIR(P, Q, s, s)
#define PAIRS(P) \
    PAIR_FORMS(P, ADD) PAIR_FORMS(P, SUB) PAIR_FORMS(P, RSUB) PAIR_FORMS(P, MUL) PAIR_FORMS(P, MAX) PAIR_FORMS(P, MIN)
PAIRS(ADD)
PAIRS(SUB)
PAIRS(RSUB)
PAIRS(MUL)
PAIRS(MAX)
PAIRS(MIN)

#define SINGLE(P, form)                                                                        \
    static void P##_##form(void *d_, const void *a_, const void *b_, const void *c_, size_t n) \
    {                                                                                          \
        float *d = d_;                                                                         \
        const float *a = a_, *b = b_, b0 = b[0];                                               \
        size_t i = 0;                                                                          \
        (void)c_, (void)b0;                                                                    \
        MAIN_SINGLE(P, VEC_##form(b))                                                          \
        PAIR_LOOP for (; i < n; i++)                                                           \
        {                                                                                      \
            float x = a[i];                                                                    \
            d[i] = OP_##form(P)(x, LANE_##form(b));                                            \
        }                                                                                      \
    }
SINGLE(ADD, s)
SINGLE(SUB, s)
SINGLE(RSUB, s)
SINGLE(MUL, s)
SINGLE(MAX, s)
SINGLE(MIN, s)
SINGLE(MAX, v)
SINGLE(MIN, v)

#define TRIPLE(P, Q, R)                                                                                         \
    static void P##_##Q##_then_##R(void *d_, const void *a_, const void *b_, const void *c_, float e, size_t n) \
    {                                                                                                           \
        float *d = d_;                                                                                          \
        const float *a = a_, *b = b_, *c = c_, b0 = b[0], c0 = c[0];                                            \
        size_t i = 0;                                                                                           \
        MAIN_TRIPLE(P, Q, R)                                                                                    \
        PAIR_LOOP for (; i < n; i++)                                                                            \
        {                                                                                                       \
            float x = a[i];                                                                                     \
            float v = DO_##P(x, b0), w = DO_##Q(v, c0);                                                         \
            d[i] = DO_##R##s(w, e);                                                                             \
        }                                                                                                       \
    }
#define TRIPLES(P)       \
    TRIPLE(P, ADD, MAX)  \
    TRIPLE(P, SUB, MAX)  \
    TRIPLE(P, RSUB, MAX) \
    TRIPLE(P, MUL, MAX) TRIPLE(P, ADD, MIN) TRIPLE(P, SUB, MIN) TRIPLE(P, RSUB, MIN) TRIPLE(P, MUL, MIN)
TRIPLES(ADD)
TRIPLES(SUB)
TRIPLES(RSUB)
TRIPLES(MUL)

#define TRIPLE_ROWS(P) TRIPLE_ROW(P, ADD) TRIPLE_ROW(P, SUB) TRIPLE_ROW(P, RSUB) TRIPLE_ROW(P, MUL)
#define TRIPLE_ROW(P, Q)                                               \
    t->triple[GALE__PAIR_##P][GALE__PAIR_##Q][0] = P##_##Q##_then_MAX; \
    t->triple[GALE__PAIR_##P][GALE__PAIR_##Q][1] = P##_##Q##_then_MIN;
#define FORM_ROWS(P, Q)                                        \
    t->pair[GALE__PAIR_##P][GALE__PAIR_##Q][0] = P##_##Q##_vv; \
    t->pair[GALE__PAIR_##P][GALE__PAIR_##Q][1] = P##_##Q##_sv; \
    t->pair[GALE__PAIR_##P][GALE__PAIR_##Q][2] = P##_##Q##_vs; \
    t->pair[GALE__PAIR_##P][GALE__PAIR_##Q][3] = P##_##Q##_ss;
#define ROWS(P)       \
    FORM_ROWS(P, ADD) \
    FORM_ROWS(P, SUB) \
    FORM_ROWS(P, RSUB) FORM_ROWS(P, MUL) FORM_ROWS(P, MAX) FORM_ROWS(P, MIN) t->by_number[GALE__PAIR_##P] = P##_s;
void SIMD(pair)(gale__simd *t)
{
    t->op[GALE__MAX][GALE__SIMD_TYPE_F32] = MAX_v; /* better than those of simd_ops.c */
    t->op[GALE__MIN][GALE__SIMD_TYPE_F32] = MIN_v;
    ROWS(ADD)
    ROWS(SUB)
    ROWS(RSUB)
    ROWS(MUL)
    ROWS(MAX)
    ROWS(MIN)
    TRIPLE_ROWS(ADD)
    TRIPLE_ROWS(SUB)
    TRIPLE_ROWS(RSUB)
    TRIPLE_ROWS(MUL)
}
