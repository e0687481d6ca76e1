/* Scalar operations with their corner cases (class 'c'), expanded into raw instructions, so that every device computes
 * the same result where languages leave it undefined: see docs/numerics.md. */
#include "kernel/ir/ir_util.h"
#include <math.h>
#include <string.h>

static bool is_float(gale_type t) { return t == GALE_F32 || t == GALE_F64; }

static gale__ir_val number(gale__ir *ir, gale_type t, double v)
{
    uint64_t bits = (uint64_t)(int64_t)v;
    if (t == GALE_F32) return gale__ir_f32(ir, (float)v);
    if (t == GALE_F64) memcpy(&bits, &v, sizeof bits);
    return gale__ir_const(ir, t, bits);
}

static gale__ir_val compare(gale__ir *ir, int op, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, op, GALE_BOOL, a, b);
}
static gale__ir_val pick(gale__ir *ir, gale__ir_val cond, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op3(ir, GALE__SELECT, gale__ir_type(ir, a), cond, a, b);
}
static gale__ir_val is_nan(gale__ir *ir, gale__ir_val a) { return compare(ir, GALE__NE, a, a); }

/* By the device's own division.  Where it is only known to be accurate for divisors up to 2^126, as on Vulkan, both
 * operands are scaled: infinity by a larger divisor would be infinity times a reciprocal of 0. */
static gale__ir_val divide_fast(gale__ir *ir, gale__ir_val a, gale__ir_val b)
{
    const gale_type t = GALE_F32;
    if (ir->math & GALE__IR_NORMAL) return gale__ir_op2(ir, GALE__IR_FAST_QUOTIENT, t, a, b);
    if (!(ir->math & GALE__IR_CORNERS)) {
        gale__ir_val large = compare(ir, GALE__GT, gale__ir_op1(ir, GALE__ABS, t, b), number(ir, t, 0x1p100)),
                     scale = pick(ir, large, number(ir, t, 0x1p-64), number(ir, t, 1));
        a = gale__ir_op2(ir, GALE__MUL, t, a, scale);
        b = gale__ir_op2(ir, GALE__MUL, t, b, scale);
    }
    return gale__ir_op2(ir, GALE__IR_FAST_DIV, t, a, b);
}

/* Division by zero yields 0; lowest / -1 wraps, and its remainder is 0. Constant divisors need no checks. */
static gale__ir_val divide(gale__ir *ir, int raw, gale_type t, gale__ir_val a, gale__ir_val b)
{
    if (t == GALE_F32 && ir->math & GALE__IR_FAST) return divide_fast(ir, a, b);
    if (is_float(t)) return gale__ir_op2(ir, raw, t, a, b);
    gale__ir_val zero = number(ir, t, 0), one = number(ir, t, 1), minus = number(ir, t, -1);
    bool is_signed = gale__type_is_signed(t);
    gale__ir_val by_zero = compare(ir, GALE__EQ, b, zero), odd = by_zero, special = zero;
    if (is_signed) {
        gale__ir_val by_minus = compare(ir, GALE__EQ, b, minus);
        odd = gale__ir_op2(ir, GALE__OR, GALE_BOOL, by_zero, by_minus);
        if (raw == GALE__IR_DIV) special = pick(ir, by_zero, zero, gale__ir_op1(ir, GALE__NEG, t, a));
    }
    gale__ir_val q = gale__ir_op2(ir, raw, t, a, pick(ir, odd, one, b));
    return pick(ir, odd, special, q);
}

/* fmod of f32 or f64 by long division on the mantissas, as many bits a step as the integer has to spare (8 of 32, 11 of
 * 64): exact for all operands, in at most 32 (f32) or 191 (f64) steps, and one for the usual quotients. */
typedef struct fmod_format {
    gale_type i;
    int bits, mantissa, step, bias;
} fmod_format;

/* |v| = mantissa * 2^(exponent - bias - mantissa bits); zero and denormals have exponent 1. */
static void split_float(
    gale__ir *ir, const fmod_format *f, gale__ir_val bits, gale__ir_val *mantissa, gale__ir_val *exponent)
{
    uint64_t hidden = (uint64_t)1 << f->mantissa;
    gale__ir_val magnitude =
        gale__ir_op2(ir, GALE__AND, f->i, bits, gale__ir_const(ir, f->i, ((uint64_t)1 << (f->bits - 1)) - 1));
    gale__ir_val e = gale__ir_op2(ir, GALE__IR_SHR, f->i, magnitude, gale__ir_const(ir, f->i, (uint64_t)f->mantissa));
    gale__ir_val m = gale__ir_op2(ir, GALE__AND, f->i, magnitude, gale__ir_const(ir, f->i, hidden - 1));
    gale__ir_val tiny = compare(ir, GALE__EQ, e, gale__ir_const(ir, f->i, 0));
    *mantissa = pick(ir, tiny, m, gale__ir_op2(ir, GALE__OR, f->i, m, gale__ir_const(ir, f->i, hidden)));
    *exponent = gale__ir_op1(ir, GALE__IR_CONVERT, GALE_I32, pick(ir, tiny, gale__ir_const(ir, f->i, 1), e));
}

/* 2^e, e in the normal range. */
static gale__ir_val power_of_two(gale__ir *ir, const fmod_format *f, gale_type t, gale__ir_val e)
{
    gale__ir_val biased = gale__ir_op2(ir, GALE__ADD, GALE_I32, e, gale__ir_i32(ir, f->bias));
    gale__ir_val wide = gale__ir_op1(ir, GALE__IR_CONVERT, f->i, biased);
    return gale__ir_op1(ir, GALE__BITCAST, t,
        gale__ir_op2(ir, GALE__IR_SHL, f->i, wide, gale__ir_const(ir, f->i, (uint64_t)f->mantissa)));
}

/* Remainder of mx * 2^d by my, d >= 0. */
static gale__ir_val long_division(gale__ir *ir, const fmod_format *f, gale__ir_val mx, gale__ir_val my, gale__ir_val d)
{
    gale__ir_val zero = gale__ir_u32(ir, 0), step = gale__ir_u32(ir, (uint32_t)f->step);
    gale__ir_val rest = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ARRAY, .type = (uint8_t)f->i, .imm = 1});
    gale__ir_op3(ir, GALE__IR_SET, f->i, rest, zero, gale__ir_op2(ir, GALE__IR_REM, f->i, mx, my));
    gale__ir_val i = gale__ir_op3(ir, GALE__IR_FOR, GALE_U32, zero, d, step);
    gale__ir_val now = gale__ir_op2(ir, GALE__IR_MIN, GALE_U32, step, gale__ir_op2(ir, GALE__SUB, GALE_U32, d, i));
    gale__ir_val r = gale__ir_op2(ir, GALE__IR_GET, f->i, rest, zero);
    r = gale__ir_op2(ir, GALE__IR_SHL, f->i, r, gale__ir_op1(ir, GALE__IR_CONVERT, f->i, now));
    gale__ir_op3(ir, GALE__IR_SET, f->i, rest, zero, gale__ir_op2(ir, GALE__IR_REM, f->i, r, my));
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_END});
    return gale__ir_op2(ir, GALE__IR_GET, f->i, rest, zero);
}

static gale__ir_val float_rem(gale__ir *ir, gale_type t, gale__ir_val x, gale__ir_val y)
{
    const fmod_format f =
        t == GALE_F64 ? (fmod_format){GALE_U64, 64, 52, 11, 1023} : (fmod_format){GALE_U32, 32, 23, 8, 127};
    gale__ir_val bx = gale__ir_op1(ir, GALE__BITCAST, f.i, x), by = gale__ir_op1(ir, GALE__BITCAST, f.i, y);
    gale__ir_val mx, ex, my, ey;
    split_float(ir, &f, bx, &mx, &ex);
    split_float(ir, &f, by, &my, &ey);
    my = gale__ir_op2(ir, GALE__IR_MAX, f.i, my, gale__ir_const(ir, f.i, 1));
    gale__ir_val smaller = compare(ir, GALE__LT, ex, ey);
    gale__ir_val d = pick(ir, smaller, gale__ir_i32(ir, 0), gale__ir_op2(ir, GALE__SUB, GALE_I32, ex, ey));
    gale__ir_val rest = long_division(ir, &f, mx, my, gale__ir_op1(ir, GALE__IR_CONVERT, GALE_U32, d));

    /* rest * 2^e in two steps: the power alone may be below what a device keeps. */
    gale__ir_val e = gale__ir_op2(ir, GALE__SUB, GALE_I32, ey, gale__ir_i32(ir, f.bias + f.mantissa));
    gale__ir_val half = gale__ir_op2(ir, GALE__IR_SHR, GALE_I32, e, gale__ir_i32(ir, 1));
    gale__ir_val r = gale__ir_op1(ir, GALE__IR_CONVERT, t, rest);
    r = gale__ir_op2(ir, GALE__MUL, t, r, power_of_two(ir, &f, t, half));
    r = gale__ir_op2(ir, GALE__MUL, t, r, power_of_two(ir, &f, t, gale__ir_op2(ir, GALE__SUB, GALE_I32, e, half)));
    gale__ir_val sign = gale__ir_op2(ir, GALE__AND, f.i, bx, gale__ir_const(ir, f.i, (uint64_t)1 << (f.bits - 1)));
    r = gale__ir_op1(
        ir, GALE__BITCAST, t, gale__ir_op2(ir, GALE__OR, f.i, gale__ir_op1(ir, GALE__BITCAST, f.i, r), sign));
    r = pick(ir, smaller, x, r);

    gale__ir_val infinite = compare(ir, GALE__EQ, gale__ir_op1(ir, GALE__ABS, t, x), number(ir, t, INFINITY));
    gale__ir_val none = gale__ir_op2(ir, GALE__OR, GALE_BOOL, infinite, compare(ir, GALE__EQ, y, number(ir, t, 0)));
    none = gale__ir_op2(
        ir, GALE__OR, GALE_BOOL, none, gale__ir_op2(ir, GALE__OR, GALE_BOOL, is_nan(ir, x), is_nan(ir, y)));
    return pick(ir, none, number(ir, t, NAN), r);
}

/* NaN passes on: a when it is NaN, and b whenever a comparison with it fails. */
static gale__ir_val min_max(gale__ir *ir, int op, gale_type t, gale__ir_val a, gale__ir_val b)
{
    if (t == GALE_BOOL) return gale__ir_op2(ir, op == GALE__MIN ? GALE__AND : GALE__OR, t, a, b);
    if (!is_float(t)) return gale__ir_op2(ir, op == GALE__MIN ? GALE__IR_MIN : GALE__IR_MAX, t, a, b);
    if (t == GALE_F32 && ir->math & GALE__IR_CORNERS)
        return gale__ir_op2(ir, op == GALE__MIN ? GALE__IR_MIN_NAN : GALE__IR_MAX_NAN, t, a, b);
    gale__ir_val first = compare(ir, op == GALE__MIN ? GALE__LT : GALE__GT, a, b);
    return pick(ir, gale__ir_op2(ir, GALE__OR, GALE_BOOL, first, is_nan(ir, a)), a, b);
}

/* Past the width (negative amounts too): 0, or the sign. */
static gale__ir_val shift(gale__ir *ir, int op, gale_type t, gale__ir_val a, gale__ir_val n)
{
    gale_type u = gale__ir_unsigned(t);
    uint64_t last = (uint64_t)gale__ir_bits(t) - 1;
    gale__ir_val past = compare(ir, GALE__GT, gale__ir_op1(ir, GALE__BITCAST, u, n), gale__ir_const(ir, u, last));
    gale__ir_val most = gale__ir_const(ir, t, last);
    if (op == GALE__SHR && gale__type_is_signed(t))
        return gale__ir_op2(ir, GALE__IR_SHR, t, a, pick(ir, past, most, n));
    gale__ir_val amount = gale__ir_op2(ir, GALE__AND, t, n, most);
    gale__ir_val r = gale__ir_op2(ir, op == GALE__SHL ? GALE__IR_SHL : GALE__IR_SHR, t, a, amount);
    return pick(ir, past, gale__ir_const(ir, t, 0), r);
}

gale__ir_val gale__ir_float_to_int(gale__ir *ir, gale_type to, gale__ir_val v)
{
    gale_type t = gale__ir_type(ir, v), type = gale__compute_type(to);
    bool is_signed = gale__type_is_signed(to);
    int bits = gale__type_table[to].bits;
    if (t == GALE_F32 && bits >= 8 && bits <= 32 && ir->math & GALE__IR_CORNERS)
        return gale__ir_add(
            ir, (gale__ir_instr){.op = GALE__IR_SATURATE, .type = (uint8_t)type, .a = v, .imm = (uint64_t)bits});
    double above = ldexp(1.0, is_signed ? bits - 1 : bits), lowest = is_signed ? -above : 0;
    uint64_t most = (is_signed ? ~(uint64_t)0 >> 1 : ~(uint64_t)0) >> (64 - bits);
    gale__ir_val over = compare(ir, GALE__GE, v, number(ir, t, above)),
                 low = compare(ir, GALE__GE, v, number(ir, t, lowest));
    gale__ir_val inside = gale__ir_op2(ir, GALE__AND, GALE_BOOL, low, compare(ir, GALE__LT, v, number(ir, t, above)));
    gale__ir_val r = gale__ir_op1(ir, GALE__IR_CONVERT, type, pick(ir, inside, v, number(ir, t, 0)));
    if (is_signed) r = pick(ir, compare(ir, GALE__LT, v, number(ir, t, lowest)), gale__ir_const(ir, type, ~most), r);
    return pick(ir, over, gale__ir_const(ir, type, most), r);
}

static gale__ir_val cast(gale__ir *ir, gale_type to, gale__ir_val v)
{
    gale_type from = gale__ir_type(ir, v);
    if (from == to) return v;
    if (to == GALE_BOOL) return compare(ir, GALE__NE, v, number(ir, from, 0));
    if (is_float(from) && !is_float(to)) return gale__ir_float_to_int(ir, to, v);
    return gale__ir_op1(ir, GALE__IR_CONVERT, to, v);
}

/* |x|^y, with the sign and the NaN of a base below 0. */
static gale__ir_val fast_pow(gale__ir *ir, gale__ir_val x, gale__ir_val y)
{
    const gale_type t = GALE_F32;
    if (ir->math & GALE__IR_NORMAL) {
        gale__ir_val of_two = gale__ir_op1(ir, GALE__IR_FAST_LOG2, t, x);
        return gale__ir_op1(ir, GALE__IR_FAST_EXP2, t, gale__ir_op2(ir, GALE__MUL, t, y, of_two));
    }
    gale__ir_val zero = number(ir, t, 0), half = gale__ir_op2(ir, GALE__MUL, t, y, number(ir, t, 0.5));
    gale__ir_val log = gale__ir_op1(ir, GALE__IR_FAST_LOG, t, gale__ir_op1(ir, GALE__ABS, t, x));
    gale__ir_val r = gale__ir_op1(ir, GALE__IR_FAST_EXP, t, gale__ir_op2(ir, GALE__MUL, t, y, log));
    gale__ir_val odd = compare(ir, GALE__NE, gale__ir_op1(ir, GALE__TRUNC, t, half), half);
    gale__ir_val whole = compare(ir, GALE__EQ, gale__ir_op1(ir, GALE__TRUNC, t, y), y);
    gale__ir_val negative = pick(ir, whole, pick(ir, odd, gale__ir_op1(ir, GALE__NEG, t, r), r), number(ir, t, NAN));
    r = pick(ir, compare(ir, GALE__LT, x, zero), negative, r);
    return pick(ir, compare(ir, GALE__EQ, y, zero), number(ir, t, 1), r);
}

static gale__ir_val op2f(gale__ir *ir, int op, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, op, GALE_F32, a, b);
}

/* With the sign bit of `sign`. */
static gale__ir_val signed_as(gale__ir *ir, gale__ir_val sign, gale__ir_val v)
{
    gale__ir_val top = gale__ir_op2(
        ir, GALE__AND, GALE_U32, gale__ir_op1(ir, GALE__BITCAST, GALE_U32, sign), gale__ir_u32(ir, 1u << 31));
    gale__ir_val bits = gale__ir_op2(ir, GALE__OR, GALE_U32, gale__ir_op1(ir, GALE__BITCAST, GALE_U32, v), top);
    return gale__ir_op1(ir, GALE__BITCAST, GALE_F32, bits);
}

/* erf |x| = 1 - 2^-q(|x|) with a polynomial q: within 7e-7 of it, and within 1e-5 of its value (a fit of the least
 * largest error over |x| < 4.3).  Near 0, where the difference has no digits, 2 / sqrt(pi) times x; NORMAL: these
 * digits do not count. */
static const double erf_first = -0.0029691976960748434, erf_factors[4] = {0.029699333012104034, -0.1488277018070221,
                                                            -0.9184144139289856, -1.6279070377349854};

static gale__ir_val fast_erf(gale__ir *ir, gale__ir_val x)
{
    gale_type t = GALE_F32;
    gale__ir_val size = gale__ir_op1(ir, GALE__ABS, t, x), q = number(ir, t, erf_first);
    for (int i = 0; i < 4; i++) q = gale__ir_op3(ir, GALE__FMA, t, q, size, number(ir, t, erf_factors[i]));
    gale__ir_val rest = gale__ir_op1(ir, GALE__IR_FAST_EXP2, t, op2f(ir, GALE__MUL, q, size));
    gale__ir_val v = signed_as(ir, x, op2f(ir, GALE__SUB, number(ir, t, 1), rest));
    if (ir->math & GALE__IR_NORMAL) return v;
    gale__ir_val small = compare(ir, GALE__LT, size, number(ir, t, 0x1p-8));
    return pick(ir, small, op2f(ir, GALE__MUL, x, number(ir, t, 1.1283791670955126)), v);
}

/* max(x, 0) - |x| * erfc(|x| / sqrt 2) / 2, with the polynomial of fast_erf in |x|.  Beyond 16 nothing is left of erfc,
 * but the product would be that of infinity and 0. */
gale__ir_val gale__ir_fast_gelu(gale__ir *ir, gale__ir_val x)
{
    const gale_type t = GALE_F32;
    const double root = 0.70710678118654752;
    double power = root * root * root * root * root;
    gale__ir_val size = op2f(ir, GALE__IR_MIN, gale__ir_op1(ir, GALE__ABS, t, x), number(ir, t, 16)),
                 q = number(ir, t, erf_first * power);
    for (int i = 0; i < 4; i++) {
        power /= root;
        q = gale__ir_op3(ir, GALE__FMA, t, q, size, number(ir, t, erf_factors[i] * power));
    }
    gale__ir_val rest =
        gale__ir_op1(ir, GALE__IR_FAST_EXP2, t, gale__ir_op3(ir, GALE__FMA, t, q, size, number(ir, t, -1)));
    gale__ir_val zero = number(ir, t, 0), positive = ir->math & GALE__IR_CORNERS
                                                         ? op2f(ir, GALE__IR_MAX_NAN, x, zero)
                                                         : pick(ir, compare(ir, GALE__LT, x, zero), zero, x);
    return gale__ir_op3(ir, GALE__FMA, t, gale__ir_op1(ir, GALE__NEG, t, size), rest, positive);
}

/* 1 - 2 / (e^2x + 1): small values lose their last digits, but not those that halves have. */
static gale__ir_val fast_tanh(gale__ir *ir, gale__ir_val x)
{
    gale_type t = GALE_F32;
    gale__ir_val one = number(ir, t, 1), two = number(ir, t, 2);
    gale__ir_val e = gale__ir_op1(ir, GALE__IR_FAST_EXP2, t, op2f(ir, GALE__MUL, x, number(ir, t, 2.8853900817779268)));
    gale__ir_val v = op2f(ir, GALE__SUB, one, op2f(ir, GALE__IR_FAST_DIV, two, op2f(ir, GALE__ADD, e, one)));
    gale__ir_val small = compare(ir, GALE__LT, gale__ir_op1(ir, GALE__ABS, t, x), number(ir, t, 0.02));
    return pick(ir, small, x, v);
}

static gale__ir_val fast_log(gale__ir *ir, gale__ir_val x)
{
    if (!(ir->math & GALE__IR_NORMAL)) return gale__ir_op1(ir, GALE__IR_FAST_LOG, GALE_F32, x);
    return op2f(
        ir, GALE__MUL, gale__ir_op1(ir, GALE__IR_FAST_LOG2, GALE_F32, x), number(ir, GALE_F32, 0.6931471805599453));
}

/* a + b as one operation if one of them is a product; 0 if none is. */
static gale__ir_val contracted(gale__ir *ir, gale__ir_val a, gale__ir_val b)
{
    const gale__ir_instr *x = &ir->code[a], *y = &ir->code[b];
    if (x->op == GALE__MUL && x->width == 1) return gale__ir_op3(ir, GALE__FMA, GALE_F32, x->a, x->b, b);
    if (y->op == GALE__MUL && y->width == 1) return gale__ir_op3(ir, GALE__FMA, GALE_F32, y->a, y->b, a);
    return 0;
}

/* The device's own; 0 where the operation has none. */
static gale__ir_val fast(gale__ir *ir, gale__scalar op, gale__ir_val a, gale__ir_val b)
{
    switch (op) {
    case GALE__EXP: return gale__ir_op1(ir, GALE__IR_FAST_EXP, GALE_F32, a);
    case GALE__LOG: return fast_log(ir, a);
    case GALE__ADD: return ir->math & GALE__IR_CONTRACT ? contracted(ir, a, b) : 0;
    case GALE__SIN: return gale__ir_op1(ir, GALE__IR_FAST_SIN, GALE_F32, a);
    case GALE__COS: return gale__ir_op1(ir, GALE__IR_FAST_COS, GALE_F32, a);
    case GALE__SQRT: return gale__ir_op1(ir, GALE__IR_FAST_SQRT, GALE_F32, a);
    case GALE__POW: return fast_pow(ir, a, b);
    case GALE__ERF: return fast_erf(ir, a);
    case GALE__TANH: return fast_tanh(ir, a);
    default: return 0;
    }
}

/* Two halves at once; where the device has no such instruction, each as f32. */
static gale__ir_val fma_halves(gale__ir *ir, gale__ir_val a, gale__ir_val b, gale__ir_val c)
{
    const gale_type t = GALE_U32;
    gale__ir_val sum = 0, shift = gale__ir_u32(ir, 16), low = gale__ir_u32(ir, 0xffff);
    if (ir->math & GALE__IR_CORNERS) return gale__ir_op3(ir, GALE__IR_FMA_HALVES, t, a, b, c);
    for (int i = 0; i < 2; i++) {
        gale__ir_val half[3] = {i ? gale__ir_op2(ir, GALE__IR_SHR, t, a, shift) : a, b,
            i ? gale__ir_op2(ir, GALE__IR_SHR, t, c, shift) : c};
        for (int k = 0; k < 3; k++)
            half[k] = gale__ir_decode(ir, GALE_F16, gale__ir_op2(ir, GALE__AND, t, half[k], low));
        gale__ir_val v =
            gale__ir_encode(ir, GALE_F16, gale__ir_op3(ir, GALE__FMA, GALE_F32, half[0], half[1], half[2]));
        sum = i ? gale__ir_op2(ir, GALE__OR, t, sum, gale__ir_op2(ir, GALE__IR_SHL, t, v, shift)) : v;
    }
    return sum;
}

gale__ir_val gale__ir_scalar(
    gale__ir *ir, gale__scalar op, gale_type type, gale__ir_val a, gale__ir_val b, gale__ir_val c)
{
    gale_type t = gale__ir_type(ir, a);
    switch (op) {
    case GALE__DIV: return divide(ir, GALE__IR_DIV, t, a, b);
    case GALE__REM: return is_float(t) ? float_rem(ir, t, a, b) : divide(ir, GALE__IR_REM, t, a, b);
    case GALE__MIN:
    case GALE__MAX: return min_max(ir, op, t, a, b);
    case GALE__SHL:
    case GALE__SHR: return shift(ir, op, t, a, b);
    case GALE__CAST: return cast(ir, type, a);
    case GALE__FMA_HALVES: return fma_halves(ir, a, b, c);
    default: break;
    }
    gale__ir_val own = type == GALE_F32 && ir->math & GALE__IR_FAST ? fast(ir, op, a, b) : 0;
    if (own) return own;
    if (gale__scalar_table[op].class_ == 'm') return gale__ir_math(ir, op, type, a, b);
    /* Rounding a whole number leaves it alone. */
    if (!is_float(t) && op >= GALE__FLOOR && op <= GALE__TRUNC) return a;
    return gale__ir_op3(ir, op, type, a, b, c);
}

gale__ir_val gale__ir_clamped(const gale__ir *ir, const gale__ir_instr *min)
{
    const gale__ir_instr *choice = &ir->code[min->a], *test = &ir->code[choice->a];
    uint64_t one, zero, least;
    bool is = min->type == GALE_F32 && gale__ir_is_const(ir, min->b, &one) && one == 0x3f800000 &&
              choice->op == GALE__SELECT && test->op == GALE__GT && test->a == choice->b &&
              gale__ir_is_const(ir, choice->c, &zero) && !zero && gale__ir_is_const(ir, test->b, &least) && !least;
    return is ? choice->b : 0;
}
