/* math.inc over sixteen floats at a time, for NEON: mw_exp(x), mw_erf(x) and so on, with the bits of m32_exp(x).
 * A step of a polynomial overwrites the constant that it adds.  From registers compilers copy it first, and a
 * Neoverse-V1 executes one such pair a cycle.  Loaded from memory for each vector it takes a third of that, if four are
 * interleaved. */
#ifndef GALE_KERNEL_CPU_MATH_WIDE_H
#define GALE_KERNEL_CPU_MATH_WIDE_H
#include "kernel/cpu/math.h"
#if defined(__ARM_NEON) && defined(__aarch64__) && !defined(__ARM_FEATURE_SVE)
#define GALE__WIDE
#include <arm_neon.h>

enum { WIDE = 4, WIDE_LANES = 4 * WIDE };
typedef struct wide_f32 {
    float32x4_t v[WIDE];
} VF;
typedef struct wide_i32 {
    int32x4_t v[WIDE];
} VI;
typedef VI VB; /* all bits of a lane, or none */

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
#define MATH_F64 0
#define F(c) wide_number((float)(c))
#define I(c) wide_integer((int32_t)(c))
/* Volatile: equal loads must not be merged, or copies come back. */
#define F_ADDED(c)                                                               \
    ({                                                                           \
        static const float number[4] = {c, c, c, c};                             \
        VF r_;                                                                   \
        WIDE_EACH(__asm__ volatile("ldr %q0, %1" : "=w"(r_.v[i]) : "m"(number))) \
        r_;                                                                      \
    })
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
