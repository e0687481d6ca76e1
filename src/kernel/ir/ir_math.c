/* The elementary functions as kernel IR: math.inc is written once over a small vocabulary, which here appends
 * instructions.  It is included twice, for f32 and for f64. */
#include "kernel/ir/ir_util.h"
#include <math.h>
#include <string.h>

#define VF gale__ir_val
#define VI gale__ir_val
#define VB gale__ir_val
#define VU gale__ir_val
#define f_op1(op, v) gale__ir_op1(ir, GALE__##op, FT, v)
#define f_op2(op, v, w) gale__ir_op2(ir, GALE__##op, FT, v, w)
#define i_op2(op, v, w) gale__ir_op2(ir, GALE__##op, IT, v, w)
#define u_op2(op, v, w) gale__ir_op2(ir, GALE__##op, GALE_U32, v, w)
#define b_op2(op, v, w) gale__ir_op2(ir, GALE__##op, GALE_BOOL, v, w)

#define F(c) float_const(ir, FT, c)
#define f_add(v, w) f_op2(ADD, v, w)
#define f_sub(v, w) f_op2(SUB, v, w)
#define f_mul(v, w) f_op2(MUL, v, w)
/* An error of a few ulp in divisions is harmless here, so the device's own division is used. */
#define f_div(v, w) gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_DIV, .type = FT, .a = v, .b = w, .imm = 1})
#define f_min(v, w) f_op2(IR_MIN, v, w)
#define f_max(v, w) f_op2(IR_MAX, v, w)
#define f_fma(u, v, w) gale__ir_op3(ir, GALE__FMA, FT, u, v, w)
#define f_neg(v) f_op1(NEG, v)
#define f_abs(v) f_op1(ABS, v)
#define f_sqrt(v) f_op1(SQRT, v)
#define f_floor(v) f_op1(FLOOR, v)
#define f_rint(v) f_op1(RINT, v)
#define f_trunc(v) f_op1(TRUNC, v)
#define f_lt(v, w) b_op2(LT, v, w)
#define f_le(v, w) b_op2(LE, v, w)
#define f_eq(v, w) b_op2(EQ, v, w)
#define f_ne(v, w) b_op2(NE, v, w)
#define f_gt(v, w) b_op2(GT, v, w)
#define f_ge(v, w) b_op2(GE, v, w)
#define f_sel(b, v, w) gale__ir_op3(ir, GALE__SELECT, FT, b, v, w)
#define f_bits(v) gale__ir_op1(ir, GALE__BITCAST, IT, v)
#define f_to_i(v) gale__ir_op1(ir, GALE__IR_CONVERT, IT, v)

#define b_and(v, w) b_op2(AND, v, w)
#define b_or(v, w) b_op2(OR, v, w)
#define b_not(v) gale__ir_op1(ir, GALE__NOT, GALE_BOOL, v)

#define I(c) gale__ir_const(ir, IT, (uint64_t)(int64_t)(c))
#define i_add(v, w) i_op2(ADD, v, w)
#define i_sub(v, w) i_op2(SUB, v, w)
#define i_mul(v, w) i_op2(MUL, v, w)
#define i_and(v, w) i_op2(AND, v, w)
#define i_or(v, w) i_op2(OR, v, w)
#define i_xor(v, w) i_op2(XOR, v, w)
#define i_shl(v, n) i_op2(IR_SHL, v, I(n))
#define i_shr(v, n) i_op2(IR_SHR, v, I(n))
#define i_eq(v, w) b_op2(EQ, v, w)
#define i_lt(v, w) b_op2(LT, v, w)
#define i_sel(b, v, w) gale__ir_op3(ir, GALE__SELECT, IT, b, v, w)
#define bits_f(v) gale__ir_op1(ir, GALE__BITCAST, FT, v)
#define i_to_f(v) gale__ir_op1(ir, GALE__IR_CONVERT, FT, v)

#define U(c) gale__ir_u32(ir, c)
#define u_add(v, w) u_op2(ADD, v, w)
#define u_xor(v, w) u_op2(XOR, v, w)
#define u_mul(v, w) u_op2(MUL, v, w)
#define u_mulhi(v, w) u_op2(IR_MULHI, v, w)

static gale__ir_val float_const(gale__ir *ir, gale_type type, double v)
{
    uint64_t bits;
    if (type == GALE_F32) return gale__ir_f32(ir, (float)v);
    memcpy(&bits, &v, sizeof bits);
    return gale__ir_const(ir, GALE_F64, bits);
}

/* M(name) is the name of a function in the width at hand. */
#define FN1(name) static gale__ir_val M(name)(gale__ir * ir, gale__ir_val x)
#define FN2(name) static gale__ir_val M(name)(gale__ir * ir, gale__ir_val x, gale__ir_val y)
#define CALL1(name, v) M(name)(ir, v)
#define CALL2(name, v, w) M(name)(ir, v, w)
#define FN_PHILOX               \
    static gale__ir_val philox( \
        gale__ir *ir, gale__ir_val lo, gale__ir_val hi, gale__ir_val seed_lo, gale__ir_val seed_hi)

#define M(name) f32_##name
#define FT GALE_F32
#define IT GALE_I32
#define MATH_F64 0
#include "math.inc"
#undef M
#undef FT
#undef IT
#undef MATH_F64

#define M(name) f64_##name
#define FT GALE_F64
#define IT GALE_I64
#define MATH_F64 1
#include "math.inc"

typedef gale__ir_val unary(gale__ir *, gale__ir_val);
typedef gale__ir_val binary(gale__ir *, gale__ir_val, gale__ir_val);
/* By operation; [1] for f64. */
static unary *const unaries[GALE__SCALAR_COUNT][2] = {
#define ROW(NAME, name) [GALE__##NAME] = {f32_##name, f64_##name}
    ROW(EXP, exp), ROW(EXPM1, expm1), ROW(LOG, log), ROW(LOG1P, log1p), ROW(SIN, sin), ROW(COS, cos), ROW(TAN, tan),
    ROW(ASIN, asin), ROW(ACOS, acos), ROW(ATAN, atan), ROW(SINH, sinh), ROW(COSH, cosh), ROW(ASINH, asinh),
    ROW(ACOSH, acosh), ROW(ATANH, atanh), ROW(TANH, tanh), ROW(ERF, erf)};
static binary *const binaries[GALE__SCALAR_COUNT][2] = {ROW(POW, pow), ROW(ATAN2, atan2)};
#undef ROW

static gale__ir_val half_of(gale__ir *ir, gale__ir_val v, uint64_t shift)
{
    gale_type t = gale__ir_type(ir, v);
    return gale__ir_op1(
        ir, GALE__IR_CONVERT, GALE_U32, gale__ir_op2(ir, GALE__IR_SHR, t, v, gale__ir_const(ir, t, shift)));
}

gale__ir_val gale__ir_math(gale__ir *ir, gale__scalar op, gale_type type, gale__ir_val a, gale__ir_val b)
{
    int wide = type == GALE_F64;
    if (op == GALE__RANDOM)
        return philox(ir, half_of(ir, a, 0), half_of(ir, a, 32), half_of(ir, b, 0), half_of(ir, b, 32));
    return unaries[op][wide] ? unaries[op][wide](ir, a) : binaries[op][wide](ir, a, b);
}
