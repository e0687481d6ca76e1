/* Rewrites operations that a driver gets wrong.  Vulkan does not promise that an fma is fused, and Mesa's software
 * device does not fuse it; our mathematics needs it.  Nor does it promise that a quotient is rounded correctly, or
 * anything at all for divisors near the ends of the range.  Mesa's software device rounds ties of f64 down on x86_64.
 * It has no code for f16 on some processors, which ends the process, and compiles for the processor's name, so that on
 * an aarch64 machine whose SVE is switched off (virtual machines) its code for integer division and for 64-bit
 * products, minima and maxima stops with an illegal instruction: they are done with other instructions there. */
#include "base/cpu.h"
#include "kernel/ir/ir_util.h"
#include <string.h>

gale__ir_lowering gale__ir_lowering_for(const gale_device_caps *caps)
{
    gale__ir_lowering what = {.fma = caps->software && caps->f64,
        .f16 = caps->software,
        .division = !caps->exact_division,
        .rint = caps->software && caps->f64};
#ifdef __aarch64__
    what.integers = caps->software && caps->f64 && !gale__cpu_has("sve");
#endif
    return what;
}

static gale__ir_val op1(gale__ir *ir, int op, gale__ir_val a) { return gale__ir_op1(ir, op, gale__ir_type(ir, a), a); }
static gale__ir_val op2(gale__ir *ir, int op, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, op, gale__ir_type(ir, a), a, b);
}
static gale__ir_val convert(gale__ir *ir, gale_type to, gale__ir_val a)
{
    return gale__ir_op1(ir, GALE__IR_CONVERT, to, a);
}
static gale__ir_val bits_as(gale__ir *ir, gale_type to, gale__ir_val a)
{
    return gale__ir_op1(ir, GALE__BITCAST, to, a);
}
static gale__ir_val pick(gale__ir *ir, gale__ir_val cond, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op3(ir, GALE__SELECT, gale__ir_type(ir, a), cond, a, b);
}
static gale__ir_val f64_const(gale__ir *ir, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return gale__ir_const(ir, GALE_F64, bits);
}

/* What the rounding of s = p + c lost (Knuth). */
static gale__ir_val sum_error(gale__ir *ir, gale__ir_val s, gale__ir_val p, gale__ir_val c)
{
    gale__ir_val part = op2(ir, GALE__SUB, s, p);
    return op2(ir, GALE__ADD, op2(ir, GALE__SUB, p, op2(ir, GALE__SUB, s, part)), op2(ir, GALE__SUB, c, part));
}

/* The product of two f32 is exact in f64.  The sum is rounded to odd there: then rounding it to f32 is the only
 * rounding. */
static gale__ir_val fma_f32(gale__ir *ir, gale__ir_val a, gale__ir_val b, gale__ir_val c)
{
    gale__ir_val p = op2(ir, GALE__MUL, convert(ir, GALE_F64, a), convert(ir, GALE_F64, b)),
                 wide = convert(ir, GALE_F64, c);
    gale__ir_val s = op2(ir, GALE__ADD, p, wide), e = sum_error(ir, s, p, wide), bits = bits_as(ir, GALE_U64, s);
    gale__ir_val zero = f64_const(ir, 0), above = gale__ir_op2(ir, GALE__GT, GALE_BOOL, s, zero);
    gale__ir_val lost = gale__ir_op2(ir, GALE__OR, GALE_BOOL, gale__ir_op2(ir, GALE__LT, GALE_BOOL, e, zero),
        gale__ir_op2(ir, GALE__GT, GALE_BOOL, e, zero));
    gale__ir_val outwards =
        gale__ir_op2(ir, GALE__EQ, GALE_BOOL, above, gale__ir_op2(ir, GALE__GT, GALE_BOOL, e, zero));
    gale__ir_val cut = pick(ir, outwards, bits, op2(ir, GALE__SUB, bits, gale__ir_const(ir, GALE_U64, 1)));
    gale__ir_val odd = bits_as(ir, GALE_F64, op2(ir, GALE__OR, cut, gale__ir_const(ir, GALE_U64, 1)));
    return convert(ir, GALE_F32, pick(ir, lost, odd, s));
}

/* The upper half of a's mantissa (Veltkamp). */
static gale__ir_val upper_half(gale__ir *ir, gale__ir_val a)
{
    gale__ir_val t = op2(ir, GALE__MUL, a, f64_const(ir, 134217729.0));
    return op2(ir, GALE__SUB, t, op2(ir, GALE__SUB, t, a));
}

/* Product and sum with their errors (Dekker, Knuth), added at the end: within one ulp; where a half overflows, plainly.
 */
static gale__ir_val fma_f64(gale__ir *ir, gale__ir_val a, gale__ir_val b, gale__ir_val c)
{
    gale__ir_val p = op2(ir, GALE__MUL, a, b);
    gale__ir_val ah = upper_half(ir, a), al = op2(ir, GALE__SUB, a, ah), bh = upper_half(ir, b),
                 bl = op2(ir, GALE__SUB, b, bh);
    gale__ir_val e = op2(ir, GALE__SUB, op2(ir, GALE__MUL, ah, bh), p);
    e = op2(ir, GALE__ADD, e, op2(ir, GALE__MUL, ah, bl));
    e = op2(ir, GALE__ADD, e, op2(ir, GALE__MUL, al, bh));
    e = op2(ir, GALE__ADD, e, op2(ir, GALE__MUL, al, bl));
    gale__ir_val s = op2(ir, GALE__ADD, p, c);
    gale__ir_val r = op2(ir, GALE__ADD, s, op2(ir, GALE__ADD, sum_error(ir, s, p, c), e));
    gale__ir_val odd = gale__ir_op2(ir, GALE__NE, GALE_BOOL, r, r);
    return pick(ir, odd, s, r);
}

/* Next to 2^52 there are only whole numbers: adding it rounds, ties to even.  Larger numbers and NaN are kept. */
static gale__ir_val rint_f64(gale__ir *ir, gale__ir_val a)
{
    gale__ir_val bits = bits_as(ir, GALE_U64, a), whole = f64_const(ir, 0x1p52);
    gale__ir_val sign = op2(ir, GALE__AND, bits, gale__ir_const(ir, GALE_U64, 1ull << 63));
    gale__ir_val size = bits_as(ir, GALE_F64, op2(ir, GALE__XOR, bits, sign));
    gale__ir_val rounded = op2(ir, GALE__SUB, op2(ir, GALE__ADD, size, whole), whole);
    rounded = bits_as(ir, GALE_F64, op2(ir, GALE__OR, bits_as(ir, GALE_U64, rounded), sign));
    return pick(ir, gale__ir_op2(ir, GALE__LT, GALE_BOOL, size, whole), rounded, a);
}

static gale__ir_val low_16(gale__ir *ir, gale__ir_val a) { return op2(ir, GALE__AND, a, gale__ir_u32(ir, 0xffff)); }
static gale__ir_val high_16(gale__ir *ir, gale__ir_val a) { return op2(ir, GALE__IR_SHR, a, gale__ir_u32(ir, 16)); }

static gale__ir_val mulhi(gale__ir *ir, gale__ir_val a, gale__ir_val b)
{
    gale__ir_val al = low_16(ir, a), ah = high_16(ir, a), bl = low_16(ir, b), bh = high_16(ir, b);
    gale__ir_val lh = op2(ir, GALE__MUL, al, bh), hl = op2(ir, GALE__MUL, ah, bl);
    gale__ir_val middle =
        op2(ir, GALE__ADD, high_16(ir, op2(ir, GALE__MUL, al, bl)), op2(ir, GALE__ADD, low_16(ir, lh), low_16(ir, hl)));
    gale__ir_val high =
        op2(ir, GALE__ADD, op2(ir, GALE__MUL, ah, bh), op2(ir, GALE__ADD, high_16(ir, lh), high_16(ir, hl)));
    return op2(ir, GALE__ADD, high, high_16(ir, middle));
}

/* A 64-bit product from 32-bit halves, written so that the compiler cannot recombine it into a 64-bit
 * multiplication. */
static gale__ir_val mul_64(gale__ir *ir, gale__ir_val a, gale__ir_val b)
{
    gale_type t = gale__ir_type(ir, a);
    gale__ir_val half = gale__ir_const(ir, GALE_U64, 32);
    a = bits_as(ir, GALE_U64, a), b = bits_as(ir, GALE_U64, b);
    gale__ir_val al = convert(ir, GALE_U32, a), bl = convert(ir, GALE_U32, b);
    gale__ir_val ah = convert(ir, GALE_U32, op2(ir, GALE__IR_SHR, a, half)),
                 bh = convert(ir, GALE_U32, op2(ir, GALE__IR_SHR, b, half));
    gale__ir_val high = op2(ir, GALE__ADD, op2(ir, GALE__MUL, ah, bl), op2(ir, GALE__MUL, al, bh));
    high = op2(ir, GALE__ADD, high, mulhi(ir, al, bl));
    gale__ir_val low = convert(ir, GALE_U64, op2(ir, GALE__MUL, al, bl));
    return bits_as(ir, t, op2(ir, GALE__OR, op2(ir, GALE__IR_SHL, convert(ir, GALE_U64, high), half), low));
}

/* The compiler would turn a plain select back into a minimum. */
static gale__ir_val min_max_64(gale__ir *ir, int op, gale__ir_val a, gale__ir_val b)
{
    gale_type t = gale__ir_type(ir, a);
    gale__ir_val first = gale__ir_op2(ir, op == GALE__IR_MIN ? GALE__LT : GALE__GT, GALE_BOOL, a, b);
    gale__ir_val mask = op1(ir, GALE__NEG, convert(ir, t, first));
    return op2(ir, GALE__XOR, b, op2(ir, GALE__AND, op2(ir, GALE__XOR, a, b), mask));
}

/* Exact: both are whole in f64 and the quotient is far enough from the next whole number. */
static gale__ir_val div_u32(gale__ir *ir, gale__ir_val a, gale__ir_val b)
{
    return convert(ir, GALE_U32, op2(ir, GALE__IR_DIV, convert(ir, GALE_F64, a), convert(ir, GALE_F64, b)));
}

/* Two estimates, each rounded down, leave a remainder of at most a unit or two. */
static gale__ir_val div_u64(gale__ir *ir, gale__ir_val a, gale__ir_val b)
{
    gale__ir_val divisor = convert(ir, GALE_F64, b), q = gale__ir_const(ir, GALE_U64, 0), rest = a;
    for (int i = 0; i < 2; i++) {
        gale__ir_val shrunk = op2(ir, GALE__MUL, convert(ir, GALE_F64, rest), f64_const(ir, 1 - 0x1p-50));
        gale__ir_val more = convert(ir, GALE_U64, op2(ir, GALE__IR_DIV, shrunk, divisor));
        q = op2(ir, GALE__ADD, q, more);
        rest = op2(ir, GALE__SUB, rest, mul_64(ir, more, b));
    }
    for (int i = 0; i < 2; i++) {
        gale__ir_val fits = gale__ir_op2(ir, GALE__GE, GALE_BOOL, rest, b);
        q = op2(ir, GALE__ADD, q, convert(ir, GALE_U64, fits));
        rest = op2(ir, GALE__SUB, rest, pick(ir, fits, b, gale__ir_const(ir, GALE_U64, 0)));
    }
    return q;
}

static gale__ir_val multiply(gale__ir *ir, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_bits(gale__ir_type(ir, a)) == 64 ? mul_64(ir, a, b) : op2(ir, GALE__MUL, a, b);
}

static gale__ir_val magnitude(gale__ir *ir, gale__ir_val a, gale__ir_val negative)
{
    gale__ir_val v = pick(ir, negative, op1(ir, GALE__NEG, a), a);
    return bits_as(ir, gale__ir_unsigned(gale__ir_type(ir, a)), v);
}

static gale__ir_val divide(gale__ir *ir, int op, gale__ir_val a, gale__ir_val b)
{
    gale_type t = gale__ir_type(ir, a);
    bool wide = gale__ir_bits(t) == 64;
    gale__ir_val q;
    if (gale__type_is_signed(t)) {
        gale__ir_val zero = gale__ir_const(ir, t, 0);
        gale__ir_val below_a = gale__ir_op2(ir, GALE__LT, GALE_BOOL, a, zero),
                     below_b = gale__ir_op2(ir, GALE__LT, GALE_BOOL, b, zero);
        gale__ir_val ua = magnitude(ir, a, below_a), ub = magnitude(ir, b, below_b);
        q = bits_as(ir, t, wide ? div_u64(ir, ua, ub) : div_u32(ir, ua, ub));
        q = pick(ir, gale__ir_op2(ir, GALE__XOR, GALE_BOOL, below_a, below_b), op1(ir, GALE__NEG, q), q);
    } else {
        q = wide ? div_u64(ir, a, b) : div_u32(ir, a, b);
    }
    return op == GALE__IR_DIV ? q : op2(ir, GALE__SUB, a, multiply(ir, q, b));
}

/* --- f32 division by the device's reciprocal, which may be a few units off: of numbers as they are where that is safe,
 * else of their mantissas. --- */

static gale__ir_val test(gale__ir *ir, int op, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, op, GALE_BOOL, a, b);
}
static gale__ir_val either(gale__ir *ir, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, GALE__OR, GALE_BOOL, a, b);
}
static gale__ir_val both(gale__ir *ir, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, GALE__AND, GALE_BOOL, a, b);
}
static gale__ir_val fma_by(gale__ir *ir, gale__ir_lowering what, gale__ir_val a, gale__ir_val b, gale__ir_val c)
{
    return what.fma ? fma_f32(ir, a, b, c) : gale__ir_op3(ir, GALE__FMA, GALE_F32, a, b, c);
}

/* The mantissa in [1, 2), and the biased exponent, of the bits of a number above 0. */
static gale__ir_val split(gale__ir *ir, gale__ir_val bits, gale__ir_val *exponent)
{
    gale__ir_val denormal = test(ir, GALE__LT, bits, gale__ir_u32(ir, 0x00800000));
    bits = pick(ir, denormal, bits_as(ir, GALE_U32, convert(ir, GALE_F32, bits)), bits);
    gale__ir_val field = bits_as(ir, GALE_I32, op2(ir, GALE__IR_SHR, bits, gale__ir_u32(ir, 23)));
    *exponent = op2(ir, GALE__SUB, field, pick(ir, denormal, gale__ir_i32(ir, 149), gale__ir_i32(ir, 0)));
    gale__ir_val mantissa = op2(ir, GALE__AND, bits, gale__ir_u32(ir, 0x007fffff));
    return bits_as(ir, GALE_F32, op2(ir, GALE__OR, mantissa, gale__ir_u32(ir, 0x3f800000)));
}

/* The part of a division that depends only on the divisor, which many divisions may share. */
typedef struct divisor {
    gale__ir_val minus, inverse, half;
} divisor;
static divisor divisor_of(gale__ir *ir, gale__ir_val y)
{
    gale__ir_val inverse = gale__ir_add(
        ir, (gale__ir_instr){.op = GALE__IR_DIV, .type = GALE_F32, .a = gale__ir_f32(ir, 1), .b = y, .imm = 1});
    return (divisor){op1(ir, GALE__NEG, y), inverse, op2(ir, GALE__MUL, y, gale__ir_f32(ir, 0x1p-24f))};
}

/* Bits of x / y, nearest even, for both in [1, 2), or in the usual range.  After one correction the quotient is less
 * than a unit off; then the remainder is exact and determines the nearest neighbour.  Halfway does not happen, nor does
 * the quotient cross a power of two.  0 / y stays 0. */
static gale__ir_val near_quotient(gale__ir *ir, gale__ir_lowering what, gale__ir_val x, divisor d)
{
    gale__ir_val q = op2(ir, GALE__MUL, x, d.inverse);
    q = fma_by(ir, what, fma_by(ir, what, q, d.minus, x), d.inverse, q);
    gale__ir_val rest = fma_by(ir, what, q, d.minus, x), bits = bits_as(ir, GALE_U32, q);
    gale__ir_val half =
        op2(ir, GALE__MUL, bits_as(ir, GALE_F32, op2(ir, GALE__AND, bits, gale__ir_u32(ir, 0x7f800000))), d.half);
    bits = op2(ir, GALE__ADD, bits, convert(ir, GALE_U32, test(ir, GALE__GT, rest, half)));
    return op2(ir, GALE__SUB, bits, convert(ir, GALE_U32, test(ir, GALE__LT, rest, op1(ir, GALE__NEG, half))));
}

/* Bits of a quotient below the normal numbers: what `bits` rounded away is looked up again, so that it is rounded once.
 */
static gale__ir_val denormal_quotient(
    gale__ir *ir, gale__ir_lowering what, gale__ir_val x, gale__ir_val y, gale__ir_val bits, gale__ir_val exponent)
{
    gale__ir_val rest = fma_by(ir, what, bits_as(ir, GALE_F32, bits), op1(ir, GALE__NEG, y), x),
                 none = gale__ir_f32(ir, 0), one = gale__ir_u32(ir, 1);
    gale__ir_val cut = op2(ir, GALE__SUB, bits, convert(ir, GALE_U32, test(ir, GALE__LT, rest, none)));
    gale__ir_val m =
        op2(ir, GALE__OR, op2(ir, GALE__AND, cut, gale__ir_u32(ir, 0x007fffff)), gale__ir_u32(ir, 0x00800000));
    m = op2(ir, GALE__OR, op2(ir, GALE__ADD, m, m), convert(ir, GALE_U32, test(ir, GALE__NE, rest, none)));
    gale__ir_val by = op2(ir, GALE__SUB, gale__ir_i32(ir, 2), exponent);
    by = op2(ir, GALE__IR_MAX, op2(ir, GALE__IR_MIN, by, gale__ir_i32(ir, 31)), gale__ir_i32(ir, 2));
    by = bits_as(ir, GALE_U32, by);
    gale__ir_val below = op2(ir, GALE__SUB, op2(ir, GALE__IR_SHL, one, op2(ir, GALE__SUB, by, one)), one);
    gale__ir_val odd = op2(ir, GALE__AND, op2(ir, GALE__IR_SHR, m, by), one);
    return op2(ir, GALE__IR_SHR, op2(ir, GALE__ADD, op2(ir, GALE__ADD, m, below), odd), by);
}

/* Bits of |a / b| from the bits of |a| and |b|, for all values: split into exponent and mantissa, so that intermediate
 * results stay in range. */
static gale__ir_val any_quotient(gale__ir *ir, gale__ir_lowering what, gale__ir_val ab, gale__ir_val bb)
{
    gale__ir_val infinite = gale__ir_u32(ir, 0x7f800000), zero = gale__ir_u32(ir, 0), ea, eb;
    gale__ir_val x = split(ir, ab, &ea), y = split(ir, bb, &eb), bits = near_quotient(ir, what, x, divisor_of(ir, y));
    gale__ir_val up = bits_as(ir, GALE_U32, op2(ir, GALE__SUB, ea, eb));
    gale__ir_val q = op2(ir, GALE__ADD, bits, op2(ir, GALE__IR_SHL, up, gale__ir_u32(ir, 23)));
    gale__ir_val exponent =
        bits_as(ir, GALE_I32, op2(ir, GALE__ADD, op2(ir, GALE__IR_SHR, bits, gale__ir_u32(ir, 23)), up));
    q = pick(
        ir, test(ir, GALE__LT, exponent, gale__ir_i32(ir, 1)), denormal_quotient(ir, what, x, y, bits, exponent), q);
    q = pick(ir, test(ir, GALE__GT, exponent, gale__ir_i32(ir, 254)), infinite, q);

    gale__ir_val a_none = test(ir, GALE__EQ, ab, zero), b_none = test(ir, GALE__EQ, bb, zero);
    gale__ir_val a_all = test(ir, GALE__EQ, ab, infinite), b_all = test(ir, GALE__EQ, bb, infinite);
    q = pick(ir, either(ir, a_none, b_all), zero, q);
    q = pick(ir, either(ir, b_none, a_all), infinite, q);
    gale__ir_val senseless = either(ir, both(ir, a_none, b_none), both(ir, a_all, b_all));
    gale__ir_val nan = either(ir, test(ir, GALE__GT, ab, infinite), test(ir, GALE__GT, bb, infinite));
    return pick(ir, either(ir, senseless, nan), gale__ir_u32(ir, 0x7fc00000), q);
}

/* Whether the bits are in the range 2^low to 2^high. */
static gale__ir_val between(gale__ir *ir, gale__ir_val bits, int low, int high)
{
    return test(ir, GALE__LT, op2(ir, GALE__SUB, bits, gale__ir_u32(ir, (uint32_t)(127 + low) << 23)),
        gale__ir_u32(ir, (uint32_t)(high - low) << 23));
}

/* Where both are, quotient, half a unit of it and rest are normal numbers, or the dividend is 0: which holds for nearly
 * all numbers in practice. */
static gale__ir_val usual_dividend(gale__ir *ir, gale__ir_val ab)
{
    return either(ir, between(ir, ab, -78, 86), test(ir, GALE__EQ, ab, gale__ir_u32(ir, 0)));
}
static gale__ir_val usual_divisor(gale__ir *ir, gale__ir_val bb) { return between(ir, bb, -39, 39); }

/* Whatever depends only on the divisor is computed before the branch, so that a compiler can move it out of loops. */
static gale__ir_val divide_f32(gale__ir *ir, gale__ir_lowering what, gale__ir_val a, gale__ir_val b)
{
    gale__ir_val ab = bits_as(ir, GALE_U32, a), bb = bits_as(ir, GALE_U32, b), size = gale__ir_u32(ir, 0x7fffffff),
                 first = gale__ir_u32(ir, 0);
    gale__ir_val sign = op2(ir, GALE__AND, op2(ir, GALE__XOR, ab, bb), gale__ir_u32(ir, 0x80000000));
    gale__ir_val q = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ARRAY, .type = GALE_U32, .imm = 1});
    ab = op2(ir, GALE__AND, ab, size), bb = op2(ir, GALE__AND, bb, size);
    divisor d = divisor_of(ir, bits_as(ir, GALE_F32, bb));
    gale__ir_val fits = usual_divisor(ir, bb);
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_IF, .a = both(ir, fits, usual_dividend(ir, ab))});
    gale__ir_add(
        ir, (gale__ir_instr){
                .op = GALE__IR_SET, .a = q, .b = first, .c = near_quotient(ir, what, bits_as(ir, GALE_F32, ab), d)});
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ELSE});
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SET, .a = q, .b = first, .c = any_quotient(ir, what, ab, bb)});
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_END});
    return bits_as(ir, GALE_F32,
        op2(ir, GALE__OR, gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_GET, .type = GALE_U32, .a = q, .b = first}),
            sign));
}

/* By 2, 4, 1/2 ...: the inverse is exact, and a product is always rounded correctly. */
static gale__ir_val by_power(gale__ir *ir, gale__ir_val a, gale__ir_val b)
{
    uint64_t bits;
    if (!gale__ir_is_const(ir, b, &bits) || bits & 0x007fffff) return 0;
    uint32_t field = bits >> 23 & 0xff;
    if (field < 1 || field > 253) return 0;
    return op2(ir, GALE__MUL, a, gale__ir_const(ir, GALE_F32, (bits & 0x80000000) | (uint64_t)(254 - field) << 23));
}

/* By 2^shift, towards zero: what is below that is lifted first. */
static gale__ir_val divide_power(gale__ir *ir, int op, gale__ir_val a, int shift)
{
    gale_type t = gale__ir_type(ir, a);
    gale__ir_val by = gale__ir_const(ir, t, (uint64_t)shift),
                 sign = op2(ir, GALE__IR_SHR, a, gale__ir_const(ir, t, (uint64_t)(gale__ir_bits(t) - 1)));
    gale__ir_val q = op2(ir, GALE__IR_SHR,
        op2(ir, GALE__ADD, a, op2(ir, GALE__AND, sign, gale__ir_const(ir, t, (1ull << shift) - 1))), by);
    return op == GALE__IR_DIV ? q : op2(ir, GALE__SUB, a, op2(ir, GALE__IR_SHL, q, by));
}

/* The replacement of an instruction; 0: unchanged. */
static gale__ir_val replace(gale__ir *ir, const gale__ir_instr *in, gale__ir_lowering what)
{
    gale_type t = gale__ir_type(ir, in->a);
    bool is_float = t == GALE_F32 || t == GALE_F64, wide = gale__ir_bits(t) == 64;
    if (what.fma && in->op == GALE__FMA)
        return t == GALE_F32 ? fma_f32(ir, in->a, in->b, in->c) : fma_f64(ir, in->a, in->b, in->c);
    if (what.rint && in->op == GALE__RINT && t == GALE_F64) return rint_f64(ir, in->a);
    if (what.f16 && (in->op == GALE__IR_F16_TO_F32 || in->op == GALE__IR_F32_TO_F16))
        return gale__ir_half_by_bits(ir, in->op, in->a);
    if (what.division && in->op == GALE__IR_DIV && t == GALE_F32 && !in->imm) {
        gale__ir_val product = by_power(ir, in->a, in->b);
        return product ? product : divide_f32(ir, what, in->a, in->b);
    }
    if (!what.integers || is_float) return 0;
    uint64_t bits;
    bool by_const = gale__ir_is_const(ir, in->b, &bits), power = by_const && bits && !(bits & (bits - 1));
    if (in->op == GALE__IR_DIV || in->op == GALE__IR_REM) {
        if (power && !gale__type_is_signed(t)) return 0;
        return power && bits < 1ull << (gale__ir_bits(t) - 1) ? divide_power(ir, in->op, in->a, __builtin_ctzll(bits))
                                                              : divide(ir, in->op, in->a, in->b);
    }
    if (in->op == GALE__IR_MULHI) return mulhi(ir, in->a, in->b);
    if (in->op == GALE__MUL && wide && !power) return mul_64(ir, in->a, in->b);
    if ((in->op == GALE__IR_MIN || in->op == GALE__IR_MAX) && wide) return min_max_64(ir, in->op, in->a, in->b);
    return 0;
}

gale_status gale__ir_lower(const gale__ir *ir, gale__ir_lowering what, gale__ir *out)
{
    gale__ir_val *now = gale__calloc(ir->count + 1u, sizeof *now);
    if (!now) return GALE_NO_MEMORY;
    gale__ir_init_like(out, ir);
    out->math = 0; /* operations are spelled out */
    for (gale__ir_val v = 1; v < ir->count && !out->failed; v++) {
        gale__ir_instr in = ir->code[v];
        in.a = now[in.a], in.b = now[in.b], in.c = now[in.c], in.d = now[in.d];
        now[v] = replace(out, &in, what);
        if (!now[v]) now[v] = gale__ir_add(out, in);
    }
    gale__free(now);
    gale_status status = gale__ir_check(out);
    if (status != GALE_OK) gale__ir_finish(out);
    return status;
}
