/* Converts between 8-bit quantised values (levels) and floats by additions.  A float near 1.5 * 2^23 has no fraction
 * bits, so adding that number rounds to nearest even, and the low bits of the sum are the integer. */
#include "kernel/ir/ir_util.h"
#include <string.h>

#define BESIDE 12582912.0f     /* 1.5 * 2^23 */
#define BESIDE_BITS 0x4b400000 /* its bits */
#define FAR 1048576.0f         /* larger than any level */

static gale__ir_val op2(gale__ir *ir, int op, gale_type type, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, op, type, a, b);
}

/* a / b, correctly rounded, by the reciprocal of b, which is the same for all threads: the remainder of a first
 * quotient corrects it.  The first quotient is clamped to a finite range, so that infinite operands saturate. */
static gale__ir_val quotient(gale__ir *ir, gale__ir_val a, gale__ir_val b, gale__ir_nearness near)
{
    const gale_type t = GALE_F32;
    gale__ir_val by = op2(ir, GALE__IR_DIV, t, gale__ir_f32(ir, 1), b), q = op2(ir, GALE__MUL, t, a, by);
    if (near == GALE__IR_ROUGH) return q;
    if (near == GALE__IR_ANY_LEVEL) {
        q = gale__ir_scalar(ir, GALE__MIN, t, q, gale__ir_f32(ir, FAR), 0);
        q = gale__ir_scalar(ir, GALE__MAX, t, q, gale__ir_f32(ir, -FAR), 0);
    }
    gale__ir_val rest = gale__ir_op3(ir, GALE__FMA, t, gale__ir_op1(ir, GALE__NEG, t, q), b, a);
    return gale__ir_op3(ir, GALE__FMA, t, rest, by, q);
}

/* ROUGH: a product is fused into the addition. */
static gale__ir_val round_level(gale__ir *ir, gale__ir_val a, gale__ir_nearness near)
{
    const gale__ir_instr x = ir->code[a];
    gale__ir_val beside = gale__ir_f32(ir, BESIDE), sum = near == GALE__IR_ROUGH && x.op == GALE__MUL
                                                              ? gale__ir_op3(ir, GALE__FMA, GALE_F32, x.a, x.b, beside)
                                                              : op2(ir, GALE__ADD, GALE_F32, a, beside);
    return op2(ir, GALE__SUB, GALE_F32, sum, beside);
}

static bool is_beside(const gale__ir *ir, gale__ir_val v)
{
    float number;
    memcpy(&number, &ir->code[v].imm, sizeof number);
    return ir->code[v].op == GALE__IR_CONST && ir->code[v].type == GALE_F32 && number == BESIDE;
}

/* The sum inside v, if v is the result of round_level, plus an optional zero point; otherwise 0. */
static gale__ir_val sum_of(const gale__ir *ir, gale__ir_val v, gale__ir_val *zero)
{
    const gale__ir_instr *x = &ir->code[v];
    *zero = 0;
    if (x->op == GALE__ADD && ir->code[x->a].op == GALE__SUB) *zero = x->b, x = &ir->code[x->a];
    if (x->op != GALE__SUB || !is_beside(ir, x->b)) return 0;
    const gale__ir_instr *sum = &ir->code[x->a];
    bool is = (sum->op == GALE__ADD && is_beside(ir, sum->b)) || (sum->op == GALE__FMA && is_beside(ir, sum->c));
    return is ? x->a : 0;
}

/* The same sum with the zero point added before rounding.  If the zero point is odd, ties must round the other way. */
static gale__ir_val add_to_sum(gale__ir *ir, gale__ir_val sum, gale__ir_val zero)
{
    const gale__ir_instr x = ir->code[sum];
    gale__ir_val beside = op2(ir, GALE__ADD, GALE_F32, gale__ir_f32(ir, BESIDE), zero);
    return gale__ir_op3(ir, GALE__FMA, GALE_F32, x.a, x.b, beside);
}

/* Saturates; NaN gives 0. */
static gale__ir_val to_byte(gale__ir *ir, gale_type to, gale__ir_val v, gale__ir_nearness near)
{
    const gale_type t = GALE_F32;
    bool is_signed = to == GALE_I8;
    if (near == GALE__IR_ANY_LEVEL) {
        gale__ir_val number = op2(ir, GALE__EQ, GALE_BOOL, v, v);
        v = op2(ir, GALE__IR_MIN, t, v, gale__ir_f32(ir, is_signed ? 127 : 255));
        v = op2(ir, GALE__IR_MAX, t, v, gale__ir_f32(ir, is_signed ? -128 : 0));
        v = gale__ir_op3(ir, GALE__SELECT, t, number, v, gale__ir_f32(ir, 0));
    }
    gale__ir_val zero = 0, sum = near != GALE__IR_ANY_LEVEL ? sum_of(ir, v, &zero) : 0;
    if (!sum) sum = op2(ir, GALE__ADD, t, v, gale__ir_f32(ir, BESIDE)), zero = 0;
    if (zero && ir->code[sum].op == GALE__FMA) sum = add_to_sum(ir, sum, zero), zero = 0;
    gale__ir_val bits = gale__ir_op1(ir, GALE__BITCAST, GALE_I32, sum);
    if (zero) bits = op2(ir, GALE__ADD, GALE_I32, bits, gale__ir_op1(ir, GALE__IR_CONVERT, GALE_I32, zero));
    bits = op2(ir, GALE__SUB, GALE_I32, bits, gale__ir_i32(ir, BESIDE_BITS));
    return is_signed ? bits : gale__ir_op1(ir, GALE__BITCAST, GALE_U32, bits);
}

/* A level as to_byte makes it: the rounded sum, its zero point or 0, and whether it is I8. */
typedef struct level {
    gale__ir_val sum, zero;
    bool is_signed;
} level;

static bool find_level(gale__ir *ir, gale__ir_val v, level *l)
{
    const gale__ir_instr *less = &ir->code[v], *bits;
    uint64_t known;
    l->is_signed = less->op != GALE__BITCAST || less->type != GALE_U32;
    if (!l->is_signed) less = &ir->code[less->a];
    if (less->op != GALE__SUB || less->type != GALE_I32) return false;
    bits = &ir->code[less->a];
    gale__ir_val zero = bits->op == GALE__ADD ? bits->b : 0;
    if (zero) bits = &ir->code[bits->a];
    l->sum = bits->op == GALE__BITCAST ? bits->a : 0;
    if (zero && gale__ir_is_const(ir, zero, &known)) l->zero = gale__ir_f32(ir, (float)(int32_t)known);
    else if (zero && ir->code[zero].op != GALE__IR_CONVERT) return false;
    else l->zero = zero ? ir->code[zero].a : 0;
    return l->sum && gale__ir_type(ir, l->sum) == GALE_F32;
}

/* x, if v is x with both limits of a level; 0: it is not known to be.  The lower one keeps out NaN and stays. */
static gale__ir_val unlimited(const gale__ir *ir, gale__ir_val v)
{
    const gale__ir_instr *min = &ir->code[v];
    return min->op == GALE__IR_MIN_NAN && min->imm && ir->code[min->a].op == GALE__IR_MAX ? min->a : 0;
}

/* The number of a level as a float, which may be too large; I8: plus 128.  0: its upper limit is not known. */
static gale__ir_val number_of(gale__ir *ir, const level *l)
{
    const gale_type t = GALE_F32;
    const gale__ir_instr sum = ir->code[l->sum];
    gale__ir_val x = unlimited(ir, sum.a), less = gale__ir_f32(ir, l->is_signed ? BESIDE - 128 : BESIDE);
    if (!x || (sum.op != GALE__FMA && (sum.op != GALE__ADD || !is_beside(ir, sum.b)))) return 0;
    bool plain = !l->zero && !l->is_signed;
    if (sum.op == GALE__ADD && plain) return x;
    if (sum.op == GALE__FMA && plain && is_beside(ir, sum.c)) return op2(ir, GALE__MUL, t, x, sum.b);
    x = sum.op == GALE__ADD ? op2(ir, GALE__ADD, t, x, sum.b) : gale__ir_op3(ir, GALE__FMA, t, x, sum.b, sum.c);
    return op2(ir, GALE__SUB, t, x, l->zero ? op2(ir, GALE__SUB, t, less, l->zero) : less);
}

gale__ir_val gale__ir_number_bits(gale__ir *ir, gale__ir_val number)
{
    gale__ir_val bits = op2(ir, GALE__MUL, GALE_F32, number, gale__ir_const(ir, GALE_F32, 1));
    return gale__ir_op1(ir, GALE__BITCAST, GALE_I32, bits);
}

gale__ir_val gale__ir_join_levels(gale__ir *ir, const gale__ir_val *levels)
{
    level l[4];
    gale__ir_val x[4], word = gale__ir_u32(ir, 0);
    if (!(ir->math & GALE__IR_CORNERS)) return 0;
    for (int i = 0; i < 4; i++)
        if (!find_level(ir, levels[i], &l[i]) || l[i].is_signed != l[0].is_signed) return 0;
    for (int i = 0; i < 4; i++) {
        x[i] = number_of(ir, &l[i]);
        if (!x[i]) return 0;
        x[i] = gale__ir_number_bits(ir, x[i]);
    }
    for (int i = 2; i >= 0; i -= 2) word = gale__ir_op3(ir, GALE__IR_JOIN_BYTES, GALE_U32, x[i], x[i + 1], word);
    return l[0].is_signed ? op2(ir, GALE__XOR, GALE_U32, word, gale__ir_u32(ir, 0x80808080)) : word;
}

/* The byte of a word that a is, converted; 0: it is not known to be one. */
static gale__ir_val byte_in(const gale__ir *ir, gale__ir_val a)
{
    uint64_t n;
    while (ir->code[a].op == GALE__IR_CONVERT || ir->code[a].op == GALE__BITCAST) a = ir->code[a].a;
    const gale__ir_instr *in = &ir->code[a];
    if (in->type != GALE_U32 || (in->op != GALE__AND && in->op != GALE__IR_SHR) || !gale__ir_is_const(ir, in->b, &n))
        return 0;
    return n == (in->op == GALE__AND ? 255 : 24) ? a : 0;
}

/* The float whose low bits are a small integer. */
static gale__ir_val beside(gale__ir *ir, gale__ir_val a)
{
    if (byte_in(ir, a)) a = byte_in(ir, a);
    bool positive = gale__ir_type(ir, a) == GALE_U32; /* and beside it only zeros */
    gale__ir_val bits = positive ? op2(ir, GALE__OR, GALE_U32, a, gale__ir_u32(ir, BESIDE_BITS))
                                 : op2(ir, GALE__ADD, GALE_I32, a, gale__ir_i32(ir, BESIDE_BITS));
    return gale__ir_op1(ir, GALE__BITCAST, GALE_F32, bits);
}

/* A parameter or a constant, as it is or converted: what follows from it alone is computed once. */
static bool is_uniform(const gale__ir *ir, gale__ir_val v)
{
    while (ir->code[v].op == GALE__IR_CONVERT || ir->code[v].op == GALE__BITCAST) v = ir->code[v].a;
    return ir->code[v].op == GALE__IR_WORD || ir->code[v].op == GALE__IR_CONST;
}

/* Less a zero point, as floats: both are exact. */
static gale__ir_val to_float(gale__ir *ir, gale__ir_val a)
{
    const gale__ir_instr x = ir->code[a];
    bool moved = x.op == GALE__SUB && x.type == GALE_I32 && is_uniform(ir, x.b);
    gale__ir_val less = moved ? beside(ir, x.b) : gale__ir_f32(ir, BESIDE);
    return op2(ir, GALE__SUB, GALE_F32, beside(ir, moved ? x.a : a), less);
}

gale__ir_val gale__ir_level(
    gale__ir *ir, gale__scalar op, gale_type to, gale__ir_val a, gale__ir_val b, gale__ir_nearness near)
{
    if (op == GALE__DIV) return quotient(ir, a, b, near);
    if (op == GALE__RINT) return round_level(ir, a, near);
    return to == GALE_F32 ? to_float(ir, a) : to_byte(ir, to, a, near);
}
