/* Folding during construction: constants are evaluated and neutral operands dropped.  Index arithmetic with strides of
 * 0 and 1 is reduced to what is needed, which saves work for every driver's compiler.  Only bit-exact simplifications
 * are done: x + 0 stays for floats (-0 + 0 is 0). */
#include "kernel/ir/ir_util.h"
#include <math.h>
#include <string.h>

static bool is_float(gale_type t) { return t == GALE_F32 || t == GALE_F64; }

static double get_float(gale_type t, uint64_t bits)
{
    if (t == GALE_F64) {
        double v;
        memcpy(&v, &bits, sizeof v);
        return v;
    }
    float v;
    uint32_t low = (uint32_t)bits;
    memcpy(&v, &low, sizeof v);
    return v;
}

static uint64_t put_float(gale_type t, double v)
{
    uint64_t bits = 0;
    float narrow = (float)v;
    if (t == GALE_F64) memcpy(&bits, &v, sizeof v);
    else {
        uint32_t low;
        memcpy(&low, &narrow, sizeof low);
        bits = low;
    }
    return bits;
}

/* Sign-extended for signed types. */
static int64_t extend(gale_type t, uint64_t bits) { return t == GALE_I32 ? (int32_t)(uint32_t)bits : (int64_t)bits; }

static bool less(gale_type t, uint64_t a, uint64_t b)
{
    return gale__type_is_signed(t) ? extend(t, a) < extend(t, b) : a < b;
}

/* t: type of the operands.  The result is masked by gale__ir_const. */
static bool eval_int(int op, gale_type t, uint64_t a, uint64_t b, uint64_t *out)
{
    int64_t sa = extend(t, a), sb = extend(t, b);
    bool is_signed = gale__type_is_signed(t);
    switch (op) {
    case GALE__NEG: *out = 0 - a; return true;
    case GALE__NOT: *out = ~a; return true;
    case GALE__ADD: *out = a + b; return true;
    case GALE__SUB: *out = a - b; return true;
    case GALE__MUL: *out = a * b; return true;
    case GALE__AND: *out = a & b; return true;
    case GALE__OR: *out = a | b; return true;
    case GALE__XOR: *out = a ^ b; return true;
    case GALE__EQ: *out = a == b; return true;
    case GALE__NE: *out = a != b; return true;
    case GALE__LT: *out = less(t, a, b); return true;
    case GALE__LE: *out = !less(t, b, a); return true;
    case GALE__GT: *out = less(t, b, a); return true;
    case GALE__GE: *out = !less(t, a, b); return true;
    case GALE__IR_MIN: *out = less(t, a, b) ? a : b; return true;
    case GALE__IR_MAX: *out = less(t, a, b) ? b : a; return true;
    case GALE__IR_MULHI: *out = a * b >> 32; return true;
    case GALE__IR_SHL: *out = a << (b & 63); return b < (uint64_t)gale__ir_bits(t);
    case GALE__IR_SHR:
        *out = is_signed ? (uint64_t)(sa >> (b & 63)) : a >> (b & 63);
        return b < (uint64_t)gale__ir_bits(t);
    case GALE__IR_DIV:
        if (b == 0 || (is_signed && sb == -1)) return false;
        *out = is_signed ? (uint64_t)(sa / sb) : a / b;
        return true;
    case GALE__IR_REM:
        if (b == 0 || (is_signed && sb == -1)) return false;
        *out = is_signed ? (uint64_t)(sa % sb) : a % b;
        return true;
    default: return false;
    }
}

/* f32 in double with one rounding at the end is exact for these. */
static bool eval_float(int op, gale_type t, double a, double b, uint64_t *out)
{
    double v;
    switch (op) {
    case GALE__NEG: v = -a; break;
    case GALE__ABS: v = fabs(a); break;
    case GALE__FLOOR: v = floor(a); break;
    case GALE__CEIL: v = ceil(a); break;
    case GALE__RINT: v = rint(a); break;
    case GALE__TRUNC: v = trunc(a); break;
    case GALE__SQRT: v = sqrt(a); break;
    case GALE__ADD: v = a + b; break;
    case GALE__SUB: v = a - b; break;
    case GALE__MUL: v = a * b; break;
    case GALE__IR_DIV: v = a / b; break;
    case GALE__EQ: *out = a == b; return true;
    case GALE__NE: *out = a != b; return true;
    case GALE__LT: *out = a < b; return true;
    case GALE__LE: *out = a <= b; return true;
    case GALE__GT: *out = a > b; return true;
    case GALE__GE: *out = a >= b; return true;
    default: return false;
    }
    if (isnan(v)) return false; /* which NaN is the device's business */
    *out = put_float(t, v);
    return true;
}

static bool eval_convert(gale_type to, gale_type from, uint64_t a, uint64_t *out)
{
    bool is_signed = gale__type_is_signed(from);
    if (!is_float(from) && !is_float(to)) {
        *out = (uint64_t)extend(from, a);
    } else if (!is_float(from)) {
        if (to == GALE_F32) *out = put_float(to, is_signed ? (double)(float)extend(from, a) : (double)(float)a);
        else *out = put_float(to, is_signed ? (double)extend(from, a) : (double)a);
    } else if (is_float(to)) {
        double v = get_float(from, a);
        if (isnan(v)) return false;
        *out = put_float(to, v);
    } else {
        double v = get_float(from, a);
        if (!(fabs(v) < 0x1p31) || (v < 0 && !gale__type_is_signed(to))) return false;
        *out = (uint64_t)(int64_t)v;
    }
    return true;
}

/* Bits that may be set in an unsigned value, as far as the instruction that makes it tells. */
static uint64_t possible_bits(const gale__ir *ir, gale__ir_val v, uint64_t ones)
{
    const gale__ir_instr *in = &ir->code[v];
    uint64_t b;
    if (gale__type_is_signed((gale_type)in->type) || !gale__ir_is_const(ir, in->b, &b)) return ones;
    if (in->op == GALE__AND) return b;
    return in->op == GALE__IR_SHR && b < 64 ? ones >> b : ones;
}

/* x op constant for integers: returns x, a constant, or nothing. */
static gale__ir_val fold_int_right(gale__ir *ir, int op, gale_type t, gale__ir_val a, uint64_t b)
{
    uint64_t ones = gale__ir_bits(t) == 64 ? ~(uint64_t)0 : ((uint64_t)1 << gale__ir_bits(t)) - 1;
    switch (op) {
    case GALE__ADD:
    case GALE__SUB:
    case GALE__XOR:
    case GALE__IR_SHL:
    case GALE__IR_SHR: return b == 0 ? a : 0;
    case GALE__OR: return b == 0 ? a : b == ones ? gale__ir_const(ir, t, ones) : 0;
    case GALE__AND: return b == 0 ? gale__ir_const(ir, t, 0) : (possible_bits(ir, a, ones) & ~b) == 0 ? a : 0;
    case GALE__MUL: return b == 1 ? a : b == 0 ? gale__ir_const(ir, t, 0) : 0;
    case GALE__IR_DIV: return b == 1 ? a : 0;
    case GALE__IR_REM: return b == 1 ? gale__ir_const(ir, t, 0) : 0;
    default: return 0;
    }
}

static gale__ir_val fold_float_right(int op, gale_type t, gale__ir_val a, uint64_t b)
{
    uint64_t one = put_float(t, 1.0), minus_zero = put_float(t, -0.0);
    if ((op == GALE__MUL || op == GALE__IR_DIV) && b == one) return a;
    if ((op == GALE__SUB && b == 0) || (op == GALE__ADD && b == minus_zero)) return a;
    return 0;
}

static bool commutes(int op)
{
    return op == GALE__ADD || op == GALE__MUL || op == GALE__AND || op == GALE__OR || op == GALE__XOR;
}

static gale__ir_val fold_right(gale__ir *ir, int op, gale_type t, gale__ir_val a, uint64_t b)
{
    return is_float(t) ? fold_float_right(op, t, a, b) : fold_int_right(ir, op, t, a, b);
}

/* Integers have no ABS in the printers: languages leave the lowest one undefined. */
static gale__ir_val fold_abs(gale__ir *ir, gale_type t, gale__ir_val a)
{
    if (!gale__type_is_signed(t)) return a;
    gale__ir_val negative = gale__ir_op2(ir, GALE__LT, GALE_BOOL, a, gale__ir_const(ir, t, 0));
    return gale__ir_op3(ir, GALE__SELECT, t, negative, gale__ir_op1(ir, GALE__NEG, t, a), a);
}

static gale__ir_val fold_select(gale__ir *ir, const gale__ir_instr *in)
{
    uint64_t cond;
    if (in->b == in->c) return in->b;
    if (gale__ir_is_const(ir, in->a, &cond)) return cond ? in->b : in->c;
    return 0;
}

static gale__ir_val fold_extract(gale__ir *ir, const gale__ir_instr *in)
{
    const gale__ir_instr *from = in->a < ir->count ? &ir->code[in->a] : NULL;
    if (!from || from->op != GALE__IR_PACK || in->imm >= from->width) return 0;
    const gale__ir_val lanes[4] = {from->a, from->b, from->c, from->d};
    return lanes[in->imm];
}

gale__ir_val gale__ir_fold(gale__ir *ir, const gale__ir_instr *in)
{
    gale_type t = gale__ir_type(ir, in->a), type = (gale_type)in->type;
    if (gale__ir_op_get(in->op).kind != GALE__IR_VALUE || !in->a) return 0;
    if (in->op == GALE__SELECT) return fold_select(ir, in);
    if (in->op == GALE__IR_EXTRACT) return fold_extract(ir, in);
    if (in->op == GALE__ABS && !is_float(t)) return fold_abs(ir, t, in->a);
    if ((in->op == GALE__IR_CONVERT || in->op == GALE__BITCAST) && t == type) return in->a;
    if (in->op == GALE__IR_PACK || in->op == GALE__FMA) return 0;

    uint64_t a = 0, b = 0, out = 0;
    bool const_a = gale__ir_is_const(ir, in->a, &a), const_b = gale__ir_is_const(ir, in->b, &b);
    if (const_a && in->op == GALE__BITCAST) return gale__ir_const(ir, type, a);
    if (const_a && in->op == GALE__IR_CONVERT)
        return eval_convert(type, t, a, &out) ? gale__ir_const(ir, type, out) : 0;
    if (const_a && (const_b || !in->b)) {
        bool done = is_float(t) ? eval_float(in->op, t, get_float(t, a), get_float(t, b), &out)
                                : eval_int(in->op, t, a, b, &out);
        if (done) return gale__ir_const(ir, type, out);
    }
    if (const_b && gale__ir_op_get(in->op).arity == 2) return fold_right(ir, in->op, t, in->a, b);
    if (const_a && commutes(in->op)) return fold_right(ir, in->op, t, in->b, a);
    return 0;
}
