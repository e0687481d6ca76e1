/* math.inc in plain C, one element at a time: m32_exp(x), m64_exp(x) and so on.  Every function is straight-line code
 * that compilers vectorise in a loop over an array. */
#ifndef GALE_KERNEL_CPU_MATH_H
#define GALE_KERNEL_CPU_MATH_H
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define M_INLINE static inline __attribute__((always_inline, unused))
M_INLINE int32_t m32_bits(float v)
{
    int32_t i;
    memcpy(&i, &v, 4);
    return i;
}
M_INLINE float m32_from(int32_t i)
{
    float v;
    memcpy(&v, &i, 4);
    return v;
}
M_INLINE int64_t m64_bits(double v)
{
    int64_t i;
    memcpy(&i, &v, 8);
    return i;
}
M_INLINE double m64_from(int64_t i)
{
    double v;
    memcpy(&v, &i, 8);
    return v;
}
/* Whole numbers below 2^51 to and from double by way of the significand: AVX2 has no instruction for it. */
#define M_MAGIC 0x1.8p52
M_INLINE int64_t m64_to_i(double v) { return m64_bits(v + M_MAGIC) - m64_bits(M_MAGIC); }
M_INLINE double m64_to_f(int64_t i) { return m64_from(i + m64_bits(M_MAGIC)) - M_MAGIC; }

#define VB bool
#define VU uint32_t
#define U(c) ((uint32_t)(c))
#define f_add(a, b) ((a) + (b))
#define f_sub(a, b) ((a) - (b))
#define f_mul(a, b) ((a) * (b))
#define f_div(a, b) ((a) / (b))
#define f_neg(a) (-(a))
/* One instruction each; with a NaN the result is the other operand. */
#if defined(__aarch64__)
#define M_MIN(s, a, b) __builtin_fmin##s(a, b)
#define M_MAX(s, a, b) __builtin_fmax##s(a, b)
#else
#define M_MIN(s, a, b) ((a) < (b) ? (a) : (b))
#define M_MAX(s, a, b) ((a) > (b) ? (a) : (b))
#endif
#define f_lt(a, b) ((a) < (b))
#define f_le(a, b) ((a) <= (b))
#define f_gt(a, b) ((a) > (b))
#define f_ge(a, b) ((a) >= (b))
#define f_eq(a, b) ((a) == (b))
#define f_ne(a, b) ((a) != (b))
#define b_and(a, b) ((bool)((a) & (b)))
#define b_or(a, b) ((bool)((a) | (b)))
#define b_not(a) (!(a))
#define f_sel(c, a, b) ((c) ? (a) : (b))
#define i_sel(c, a, b) ((c) ? (a) : (b))
#define i_add(a, b) ((VI)((VIU)(a) + (VIU)(b)))
#define i_sub(a, b) ((VI)((VIU)(a) - (VIU)(b)))
#define i_mul(a, b) ((VI)((VIU)(a) * (VIU)(b)))
#define i_and(a, b) ((a) & (b))
#define i_or(a, b) ((a) | (b))
#define i_xor(a, b) ((a) ^ (b))
#define i_shl(a, n) ((VI)((VIU)(a) << (n)))
#define i_shr(a, n) ((VI)((VIU)(a) >> (n)))
#define i_eq(a, b) ((a) == (b))
#define i_lt(a, b) ((a) < (b))
#define u_add(a, b) ((uint32_t)((a) + (b)))
#define u_xor(a, b) ((a) ^ (b))
#define u_mul(a, b) ((uint32_t)((a) * (b)))
#define u_mulhi(a, b) ((uint32_t)(((uint64_t)(a) * (b)) >> 32))

#define VF float
#define VI int32_t
#define VIU uint32_t
#define MATH_F64 0
#define F(c) ((float)(c))
#define I(c) ((int32_t)(c))
#define FN1(name) M_INLINE float m32_##name(float x)
#define FN2(name) M_INLINE float m32_##name(float x, float y)
#define FN_PHILOX M_INLINE uint32_t m32_philox(uint32_t lo, uint32_t hi, uint32_t seed_lo, uint32_t seed_hi)
#define CALL1(name, v) m32_##name(v)
#define CALL2(name, v, w) m32_##name(v, w)
#define f_fma(a, b, c) __builtin_fmaf(a, b, c)
#define f_abs(a) __builtin_fabsf(a)
#define f_min(a, b) M_MIN(f, a, b)
#define f_max(a, b) M_MAX(f, a, b)
#define f_sqrt(a) __builtin_sqrtf(a)
#define f_floor(a) __builtin_floorf(a)
#define f_rint(a) __builtin_rintf(a)
#define f_trunc(a) __builtin_truncf(a)
#define f_bits(a) m32_bits(a)
#define bits_f(a) m32_from(a)
#define f_to_i(a) ((int32_t)(a))
#define i_to_f(a) ((float)(a))
#include "kernel/ir/math.inc"
#include "kernel/cpu/activation.inc"

#undef VF
#undef VI
#undef VIU
#undef MATH_F64
#undef F
#undef I
#undef FN1
#undef FN2
#undef CALL1
#undef CALL2
#undef f_fma
#undef f_abs
#undef f_min
#undef f_max
#undef f_sqrt
#undef f_floor
#undef f_rint
#undef f_trunc
#undef f_bits
#undef bits_f
#undef f_to_i
#undef i_to_f
#define VF double
#define VI int64_t
#define VIU uint64_t
#define MATH_F64 1
#define F(c) ((double)(c))
#define I(c) ((int64_t)(c))
#define FN1(name) M_INLINE double m64_##name(double x)
#define FN2(name) M_INLINE double m64_##name(double x, double y)
#define CALL1(name, v) m64_##name(v)
#define CALL2(name, v, w) m64_##name(v, w)
#define f_fma(a, b, c) __builtin_fma(a, b, c)
#define f_abs(a) __builtin_fabs(a)
#define f_min(a, b) M_MIN(, a, b)
#define f_max(a, b) M_MAX(, a, b)
#define f_sqrt(a) __builtin_sqrt(a)
#define f_floor(a) __builtin_floor(a)
#define f_rint(a) __builtin_rint(a)
#define f_trunc(a) __builtin_trunc(a)
#define f_bits(a) m64_bits(a)
#define bits_f(a) m64_from(a)
#define f_to_i(a) m64_to_i(a)
#define i_to_f(a) m64_to_f(a)
#include "kernel/ir/math.inc"
#undef VF
#undef VI
#undef VIU
#undef VB
#undef VU
#undef U
#undef MATH_F64
#undef F
#undef I
#undef FN1
#undef FN2
#undef FN_PHILOX
#undef CALL1
#undef CALL2
#undef f_add
#undef f_sub
#undef f_mul
#undef f_div
#undef f_neg
#undef f_lt
#undef f_le
#undef f_gt
#undef f_ge
#undef f_eq
#undef f_ne
#undef b_and
#undef b_or
#undef b_not
#undef f_sel
#undef i_sel
#undef i_add
#undef i_sub
#undef i_mul
#undef i_and
#undef i_or
#undef i_xor
#undef i_shl
#undef i_shr
#undef i_eq
#undef i_lt
#undef u_add
#undef u_xor
#undef u_mul
#undef u_mulhi
#undef f_fma
#undef f_abs
#undef f_min
#undef f_max
#undef f_sqrt
#undef f_floor
#undef f_rint
#undef f_trunc
#undef f_bits
#undef bits_f
#undef f_to_i
#undef i_to_f
#endif
