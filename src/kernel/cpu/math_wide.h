/* math.inc over four vectors at a time, for NEON and AVX-512: mw_exp(x), mw_erf(x) and so on, with the bits of
 * m32_exp(x).  A polynomial is a chain in which each step waits for the one before, and a processor looks ahead by less
 * than two such chains (Cascade Lake: gelu of short rows in 0.77 ns an element instead of 1.13).  NEON: a step
 * overwrites the constant that it adds; from registers compilers copy it first, and a Neoverse-V1 executes one such
 * pair a cycle.  Loaded from memory for each vector it takes a third of that. */
#ifndef GALE_KERNEL_CPU_MATH_WIDE_H
#define GALE_KERNEL_CPU_MATH_WIDE_H
#include "kernel/cpu/math.h"
#if (defined(__ARM_NEON) && defined(__aarch64__) && !defined(__ARM_FEATURE_SVE)) || defined(__AVX512F__)
#define GALE__WIDE
/* No loops: they would keep vectors in memory where compilers do not unroll them (-O2). */
#define WIDE_AT(k, statement) \
    {                         \
        enum { i = k };       \
        statement;            \
    }
#define WIDE_EACH(statement) WIDE_AT(0, statement) WIDE_AT(1, statement) WIDE_AT(2, statement) WIDE_AT(3, statement)
#define WIDE_FN(type, name, args, expr) \
    M_INLINE type name args             \
    {                                   \
        type r;                         \
        WIDE_EACH(r.v[i] = (expr))      \
        return r;                       \
    }
#define WIDE_1(to, name, from, expr) WIDE_FN(to, name, (from a), expr)
#define WIDE_2(to, name, from, expr) WIDE_FN(to, name, (from a, from b), expr)

#ifdef __AVX512F__
#include <immintrin.h>

enum { WIDE = 4, WIDE_VECTOR = 16, WIDE_LANES = WIDE_VECTOR * WIDE };
typedef struct wide_f32 {
    __m512 v[WIDE];
} VF;
typedef struct wide_i32 {
    __m512i v[WIDE];
} VI;
typedef struct wide_mask {
    __mmask16 v[WIDE];
} VB;

#define WIDE_COMPARE(name, how) WIDE_2(VB, name, VF, _mm512_cmp_ps_mask(a.v[i], b.v[i], how))
#define WIDE_WORDS(v) ((__v16su)(v)) /* integers wrap */
WIDE_FN(VF, wide_load, (const float *p), _mm512_loadu_ps(p + WIDE_VECTOR * i))
WIDE_FN(VF, wide_number, (float a), _mm512_set1_ps(a))
WIDE_FN(VI, wide_integer, (int32_t a), _mm512_set1_epi32(a))
WIDE_FN(VF, f_fma, (VF a, VF b, VF c), _mm512_fmadd_ps(a.v[i], b.v[i], c.v[i]))
WIDE_2(VF, f_add, VF, a.v[i] + b.v[i])
WIDE_2(VF, f_sub, VF, a.v[i] - b.v[i])
WIDE_2(VF, f_mul, VF, a.v[i] * b.v[i])
WIDE_2(VF, f_div, VF, a.v[i] / b.v[i])
WIDE_2(VF, f_min, VF, _mm512_min_ps(a.v[i], b.v[i]))
WIDE_2(VF, f_max, VF, _mm512_max_ps(a.v[i], b.v[i]))
WIDE_COMPARE(f_lt, _CMP_LT_OQ)
WIDE_COMPARE(f_le, _CMP_LE_OQ)
WIDE_COMPARE(f_gt, _CMP_GT_OQ)
WIDE_COMPARE(f_ge, _CMP_GE_OQ)
WIDE_COMPARE(f_eq, _CMP_EQ_OQ)
WIDE_COMPARE(f_ne, _CMP_NEQ_UQ)
WIDE_1(VF, f_neg, VF, -a.v[i])
WIDE_1(VF, f_abs, VF, _mm512_abs_ps(a.v[i]))
WIDE_1(VF, f_sqrt, VF, _mm512_sqrt_ps(a.v[i]))
WIDE_1(VF, f_trunc, VF, _mm512_roundscale_ps(a.v[i], _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC))
WIDE_1(VF, f_rint, VF, _mm512_roundscale_ps(a.v[i], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
WIDE_1(VF, bits_f, VI, _mm512_castsi512_ps(a.v[i]))
WIDE_1(VI, f_bits, VF, _mm512_castps_si512(a.v[i]))
WIDE_1(VI, f_to_i, VF, _mm512_cvtps_epi32(a.v[i]))
WIDE_1(VF, i_to_f, VI, _mm512_cvtepi32_ps(a.v[i]))
WIDE_2(VB, i_eq, VI, _mm512_cmpeq_epi32_mask(a.v[i], b.v[i]))
WIDE_2(VB, i_lt, VI, _mm512_cmplt_epi32_mask(a.v[i], b.v[i]))
WIDE_2(VI, i_add, VI, (__m512i)(WIDE_WORDS(a.v[i]) + WIDE_WORDS(b.v[i])))
WIDE_2(VI, i_sub, VI, (__m512i)(WIDE_WORDS(a.v[i]) - WIDE_WORDS(b.v[i])))
WIDE_2(VI, i_and, VI, a.v[i] & b.v[i])
WIDE_2(VI, i_or, VI, a.v[i] | b.v[i])
WIDE_2(VB, b_and, VB, (__mmask16)(a.v[i] & b.v[i]))
WIDE_2(VB, b_or, VB, (__mmask16)(a.v[i] | b.v[i]))
WIDE_1(VB, b_not, VB, (__mmask16)~a.v[i])
WIDE_FN(VI, i_shl, (VI a, int n), (__m512i)(WIDE_WORDS(a.v[i]) << n))
WIDE_FN(VI, i_shr, (VI a, int n), (__m512i)((__v16si)a.v[i] >> n))
WIDE_FN(VF, f_sel, (VB c, VF a, VF b), _mm512_mask_blend_ps(c.v[i], b.v[i], a.v[i]))
WIDE_FN(VI, i_sel, (VB c, VI a, VI b), _mm512_mask_blend_epi32(c.v[i], b.v[i], a.v[i]))
M_INLINE void wide_store(float *p, VF x) { WIDE_EACH(_mm512_storeu_ps(p + WIDE_VECTOR * i, x.v[i])) }
#else
#include <arm_neon.h>

enum { WIDE = 4, WIDE_LANES = 4 * WIDE };
typedef struct wide_f32 {
    float32x4_t v[WIDE];
} VF;
typedef struct wide_i32 {
    int32x4_t v[WIDE];
} VI;
typedef VI VB; /* all bits of a lane, or none */

#define WIDE_SELECT(type, name, select) \
    WIDE_FN(type, name, (VB c, type a, type b), select(vreinterpretq_u32_s32(c.v[i]), a.v[i], b.v[i]))
WIDE_FN(VF, wide_load, (const float *p), vld1q_f32(p + 4 * i))
WIDE_FN(VF, wide_number, (float a), vdupq_n_f32(a))
WIDE_FN(VI, wide_integer, (int32_t a), vdupq_n_s32(a))
WIDE_FN(VF, f_fma, (VF a, VF b, VF c), vfmaq_f32(c.v[i], a.v[i], b.v[i]))
WIDE_2(VF, f_add, VF, a.v[i] + b.v[i])
WIDE_2(VF, f_sub, VF, a.v[i] - b.v[i])
WIDE_2(VF, f_mul, VF, vmulq_f32(a.v[i], b.v[i]))
WIDE_2(VF, f_div, VF, a.v[i] / b.v[i])
WIDE_2(VF, f_min, VF, vminnmq_f32(a.v[i], b.v[i]))
WIDE_2(VF, f_max, VF, vmaxnmq_f32(a.v[i], b.v[i]))
WIDE_2(VB, f_lt, VF, a.v[i] < b.v[i])
WIDE_2(VB, f_le, VF, a.v[i] <= b.v[i])
WIDE_2(VB, f_gt, VF, a.v[i] > b.v[i])
WIDE_2(VB, f_ge, VF, a.v[i] >= b.v[i])
WIDE_2(VB, f_eq, VF, a.v[i] == b.v[i])
WIDE_2(VB, f_ne, VF, a.v[i] != b.v[i])
WIDE_1(VF, f_neg, VF, -a.v[i])
WIDE_1(VF, f_abs, VF, vabsq_f32(a.v[i]))
WIDE_1(VF, f_sqrt, VF, vsqrtq_f32(a.v[i]))
WIDE_1(VF, f_trunc, VF, vrndq_f32(a.v[i]))
WIDE_1(VF, f_rint, VF, vrndxq_f32(a.v[i]))
WIDE_1(VF, bits_f, VI, vreinterpretq_f32_s32(a.v[i]))
WIDE_1(VI, f_bits, VF, vreinterpretq_s32_f32(a.v[i]))
WIDE_1(VI, f_to_i, VF, vcvtq_s32_f32(a.v[i]))
WIDE_1(VF, i_to_f, VI, vcvtq_f32_s32(a.v[i]))
WIDE_2(VB, i_eq, VI, a.v[i] == b.v[i])
WIDE_2(VB, i_lt, VI, a.v[i] < b.v[i])
WIDE_2(VI, i_add, VI, (int32x4_t)((uint32x4_t)a.v[i] + (uint32x4_t)b.v[i])) /* integers wrap */
WIDE_2(VI, i_sub, VI, (int32x4_t)((uint32x4_t)a.v[i] - (uint32x4_t)b.v[i]))
WIDE_2(VI, i_and, VI, a.v[i] & b.v[i])
WIDE_2(VI, i_or, VI, a.v[i] | b.v[i])
WIDE_1(VB, b_not, VB, ~a.v[i])
WIDE_FN(VI, i_shl, (VI a, int n), (int32x4_t)((uint32x4_t)a.v[i] << n))
WIDE_FN(VI, i_shr, (VI a, int n), a.v[i] >> n)
WIDE_SELECT(VF, f_sel, vbslq_f32)
WIDE_SELECT(VI, i_sel, vbslq_s32)
M_INLINE void wide_store(float *p, VF x) { WIDE_EACH(vst1q_f32(p + 4 * i, x.v[i])) }

#define b_and i_and
#define b_or i_or
/* Volatile: equal loads must not be merged, or copies come back. */
#define F_ADDED(c)                                                               \
    ({                                                                           \
        static const float number[4] = {c, c, c, c};                             \
        VF r_;                                                                   \
        WIDE_EACH(__asm__ volatile("ldr %q0, %1" : "=w"(r_.v[i]) : "m"(number))) \
        r_;                                                                      \
    })
#endif

#define MATH_F64 0
#define F(c) wide_number((float)(c))
#define I(c) wide_integer((int32_t)(c))
#define FN1(name) M_INLINE VF mw_##name(VF x)
#define FN2(name) M_INLINE VF mw_##name(VF x, VF y)
#define CALL1(name, v) mw_##name(v)
#define CALL2(name, v, w) mw_##name(v, w)
#include "kernel/ir/math.inc"
#include "kernel/cpu/activation.inc"
#undef F
#undef I
#endif
#endif
