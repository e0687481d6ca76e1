/* Element-wise arithmetic, comparison and logic. */
#include "ops/lower.h"
#include <math.h>
#include <string.h>

/* One primitive of one operand.  Half floats go through F32, where constants keep their precision. */
static void unary(gale__lower *L, gale__scalar op)
{
    gale__node x = L->in[0];
    gale_type type = gale__lower_type_of(L->g, x);
    L->out[0] = gale__prim_cast(L->g, gale__prim_unary(L->g, op, gale__lower_wide(L, x)), type);
}
#define UNARY(Name, OP) \
    LOWER(Name) { unary(L, GALE__##OP); }
UNARY(Neg, NEG)
UNARY(Abs, ABS)
UNARY(Floor, FLOOR)
UNARY(Ceil, CEIL)
UNARY(Round, RINT)
UNARY(Sqrt, SQRT)
UNARY(Exp, EXP)
UNARY(Log, LOG)
UNARY(Sin, SIN)
UNARY(Cos, COS)
UNARY(Tan, TAN)
UNARY(Asin, ASIN)
UNARY(Acos, ACOS)
UNARY(Atan, ATAN)
UNARY(Sinh, SINH)
UNARY(Cosh, COSH)
UNARY(Asinh, ASINH)
UNARY(Acosh, ACOSH)
UNARY(Atanh, ATANH)
UNARY(Erf, ERF)
UNARY(Tanh, TANH)
UNARY(Not, NOT)
UNARY(BitwiseNot, NOT)

static void binary(gale__lower *L, gale__scalar op) { L->out[0] = gale__prim_binary(L->g, op, L->in[0], L->in[1]); }
#define BINARY(Name, OP) \
    LOWER(Name) { binary(L, GALE__##OP); }
BINARY(Add, ADD)
BINARY(Sub, SUB)
BINARY(Mul, MUL)
BINARY(Div, DIV)
BINARY(And, AND)
BINARY(Or, OR)
BINARY(Xor, XOR)
BINARY(BitwiseAnd, AND)
BINARY(BitwiseOr, OR)
BINARY(BitwiseXor, XOR)
BINARY(Equal, EQ)
BINARY(Less, LT)
BINARY(LessOrEqual, LE)
BINARY(Greater, GT)
BINARY(GreaterOrEqual, GE)

/* Any number of operands, joined from the left. */
static gale__node joined(gale__lower *L, gale__scalar op)
{
    gale__node all = gale__lower_wide(L, L->in[0]);
    for (int i = 1; i < L->n_in; i++) all = gale__prim_binary(L->g, op, all, gale__lower_wide(L, L->in[i]));
    return all;
}
static void variadic(gale__lower *L, gale__scalar op)
{
    L->out[0] = gale__prim_cast(L->g, joined(L, op), gale__lower_type_of(L->g, L->in[0]));
}
#define VARIADIC(Name, OP) \
    LOWER(Name) { variadic(L, GALE__##OP); }
VARIADIC(Sum, ADD)
VARIADIC(Min, MIN)
VARIADIC(Max, MAX)

LOWER(Mean)
{
    gale__node all = joined(L, GALE__ADD);
    L->out[0] = gale__prim_cast(
        L->g, gale__prim_div(L->g, all, gale__lower_value(L, all, L->n_in)), gale__lower_type_of(L->g, L->in[0]));
}

/* The remainder has the divisor's sign, also where it is 0, unless fmod asks for the dividend's. */
LOWER(Mod)
{
    gale__prim_graph *g = L->g;
    gale__node x = L->in[0], y = L->in[1], r = gale__prim_binary(g, GALE__REM, x, y), zero = gale__lower_value(L, x, 0);
    gale_type type = gale__lower_type_of(g, x);
    bool plain = gale__attr_i(L, "fmod", 0) || gale__type_table[type].kind == 'u';
    if (!plain) {
        gale__node below = gale__prim_binary(g, GALE__LT, y, zero), some = gale__prim_binary(g, GALE__NE, r, zero),
                   signs = gale__prim_binary(g, GALE__NE, gale__prim_binary(g, GALE__LT, r, zero), below);
        r = gale__prim_select(g, gale__prim_binary(g, GALE__AND, signs, some), gale__prim_add(g, r, y), r);
        if (gale__type_is_float(type))
            r = gale__prim_select(g, some, r, gale__prim_select(g, below, gale__lower_value(L, x, -0.0), zero));
    }
    L->out[0] = r;
}

/* Whole bases and exponents: by squaring, for exponents up to 63; a negative one leaves only 1 and -1 standing. */
static gale__node int_pow(gale__lower *L, gale__node x, gale__node y)
{
    gale__prim_graph *g = L->g;
    gale__node one = gale__lower_value(L, x, 1), zero = gale__lower_value(L, x, 0), base = x,
               all = gale__prim_like(g, x, 1);
    gale__node negative = gale__prim_binary(g, GALE__LT, y, zero), size = gale__prim_unary(g, GALE__ABS, y);
    for (int bit = 0; bit < 6; bit++) {
        gale__node set =
            gale__prim_binary(g, GALE__AND, gale__prim_binary(g, GALE__SHR, size, gale__lower_value(L, x, bit)), one);
        all = gale__prim_select(g, gale__prim_binary(g, GALE__NE, set, zero), gale__prim_mul(g, all, base), all);
        base = gale__prim_mul(g, base, base);
    }
    gale__node unit = gale__prim_binary(g, GALE__EQ, gale__prim_unary(g, GALE__ABS, x), one);
    return gale__prim_select(g, negative, gale__prim_select(g, unit, all, zero), all);
}

LOWER(Pow)
{
    gale__prim_graph *g = L->g;
    gale__node x = L->in[0], y = L->in[1];
    gale_type type = gale__lower_type_of(g, x), power = gale__lower_type_of(g, y);
    if (!gale__type_is_float(type) && !gale__type_is_float(power)) {
        L->out[0] = int_pow(L, x, gale__prim_cast(g, y, type));
        return;
    }
    gale_type work = gale__type_is_float(type) ? gale__lower_wide_type(type) : GALE_F64;
    L->out[0] = gale__prim_cast(
        g, gale__prim_binary(g, GALE__POW, gale__prim_cast(g, x, work), gale__prim_cast(g, y, work)), type);
}

LOWER(Reciprocal)
{
    gale__node x = gale__lower_wide(L, L->in[0]);
    L->out[0] =
        gale__prim_cast(L->g, gale__prim_div(L->g, gale__lower_value(L, x, 1), x), gale__lower_type_of(L->g, L->in[0]));
}

LOWER(Sign)
{
    gale__prim_graph *g = L->g;
    gale__node x = L->in[0], zero = gale__lower_value(L, x, 0), none = zero;
    /* NaN stays.  A device may take a denormal for 0, so what is neither above nor below is not simply x. */
    if (gale__type_is_float(gale__lower_type_of(g, x)))
        none = gale__prim_select(g, gale__prim_binary(g, GALE__NE, x, x), x, zero);
    gale__node below = gale__prim_select(g, gale__prim_binary(g, GALE__LT, x, zero), gale__lower_value(L, x, -1), none);
    L->out[0] = gale__prim_select(g, gale__prim_binary(g, GALE__GT, x, zero), gale__lower_value(L, x, 1), below);
}

LOWER(BitShift)
{
    const char *direction = gale__attr_s(L, "direction", "");
    bool left = !strcmp(direction, "LEFT");
    if (!left && strcmp(direction, "RIGHT")) gale__lower_refuse(L, "direction is '%s', not LEFT or RIGHT", direction);
    binary(L, left ? GALE__SHL : GALE__SHR);
}

LOWER(Where) { L->out[0] = gale__prim_select(L->g, L->in[0], L->in[1], L->in[2]); }
LOWER(FusedMultiplyAdd) { L->out[0] = gale__prim_fma(L->g, L->in[0], L->in[1], L->in[2]); }

/* Bounds are scalars; older models give them as attributes. */
LOWER(Clip)
{
    gale__node x = L->in[0], low = gale__lower_arg(L, 1), high = gale__lower_arg(L, 2);
    double a = gale__attr_f(L, "min", -INFINITY), b = gale__attr_f(L, "max", INFINITY);
    if (low < 0 && a > -INFINITY) low = gale__lower_value(L, x, a);
    if (high < 0 && b < INFINITY) high = gale__lower_value(L, x, b);
    if (low >= 0) x = gale__prim_binary(L->g, GALE__MAX, x, gale__prim_reshape(L->g, low, 0, NULL));
    if (high >= 0) x = gale__prim_binary(L->g, GALE__MIN, x, gale__prim_reshape(L->g, high, 0, NULL));
    L->out[0] = x;
}

LOWER(IsNaN) { L->out[0] = gale__prim_binary(L->g, GALE__NE, L->in[0], L->in[0]); }

LOWER(IsInf)
{
    gale__prim_graph *g = L->g;
    gale__node x = L->in[0], high = gale__prim_binary(g, GALE__EQ, x, gale__lower_value(L, x, INFINITY)),
               low = gale__prim_binary(g, GALE__EQ, x, gale__lower_value(L, x, -INFINITY));
    bool up = gale__attr_i(L, "detect_positive", 1), down = gale__attr_i(L, "detect_negative", 1);
    gale__prim_node p = gale__lower_peek(g, x);
    L->out[0] = up && down ? gale__prim_binary(g, GALE__OR, high, low)
                : up       ? high
                : down     ? low
                           : gale__prim_splat(g, GALE_BOOL, p.rank, p.dims, 0);
}

/* --- Casts. --- */

gale__node gale__lower_cast_open(gale__lower *L, gale__node x, gale_type type)
{
    gale__prim_graph *g = L->g;
    bool fn = type == GALE_F8E4M3FN, zero_nan = type == GALE_F8E4M3FNUZ || type == GALE_F8E5M2FNUZ;
    double bound = fn ? 464
                   : type == GALE_F8E4M3FNUZ
                       ? 248
                       : 61440; /* where rounding leaves the range; 464 itself is a tie that stays */
    if (!gale__type_is_float(gale__lower_type_of(g, x)))
        x = gale__prim_cast(g, x, GALE_F32); /* which has the bounds and is far finer */
    gale__node wide = gale__lower_wide(L, x), size = gale__prim_unary(g, GALE__ABS, wide);
    gale__node over = gale__prim_binary(g, fn ? GALE__GT : GALE__GE, size, gale__lower_value(L, wide, bound));
    gale__node bits = gale__prim_bitcast(g, gale__prim_cast(g, wide, type), GALE_U8),
               negative = gale__prim_binary(g, GALE__LT, wide, gale__lower_value(L, wide, 0));
    int top = zero_nan ? 0x80 : fn ? 0x7f : 0x7c;
    gale__node beyond =
        gale__prim_select(g, negative, gale__lower_value(L, bits, top | 0x80), gale__lower_value(L, bits, top));
    return gale__prim_bitcast(g, gale__prim_select(g, over, beyond, bits), type);
}

gale__node gale__lower_cast_closed(gale__lower *L, gale__node x, gale_type type)
{
    double most = gale__type_max(type);
    if (type == GALE_F8E5M2 && gale__type_is_float(gale__lower_type_of(L->g, x)))
        x = gale__lower_clamp(L, gale__lower_wide(L, x), -most, most);
    return gale__prim_cast(L->g, x, type);
}

/* Exponents alone, rounded as `mode` says; past the largest they stay, or become NaN. */
static gale__node cast_exponent(gale__lower *L, const char *mode, bool saturate)
{
    gale__prim_graph *g = L->g;
    bool up = !strcmp(mode, "up"), nearest = !strcmp(mode, "nearest");
    if (!up && !nearest && strcmp(mode, "down")) return gale__lower_refuse(L, "round_mode is '%s'", mode);
    gale__node bits = gale__prim_bitcast(g, gale__prim_cast(g, L->in[0], GALE_F32), GALE_U32),
               rest = gale__prim_binary(g, GALE__AND, bits, gale__lower_value(L, bits, 0x7fffff));
    gale__node e = gale__prim_binary(g, GALE__AND,
                   gale__prim_binary(g, GALE__SHR, bits, gale__lower_value(L, bits, 23)),
                   gale__lower_value(L, bits, 255)),
               zero = gale__lower_value(L, e, 0);
    /* halves go up, but from the smallest, which has no even neighbour below */
    gale__node half = gale__prim_select(g, gale__prim_binary(g, GALE__EQ, e, zero), gale__lower_value(L, e, 0x400000),
        gale__lower_value(L, e, 0x3fffff));
    gale__node more = gale__prim_binary(g, GALE__AND, gale__prim_binary(g, GALE__GT, rest, nearest ? half : zero),
        gale__prim_binary(g, GALE__LT, e, gale__lower_value(L, e, saturate ? 254 : 255)));
    if (up || nearest) e = gale__prim_add(g, e, gale__prim_cast(g, more, GALE_U32));
    return gale__prim_bitcast(g, gale__prim_cast(g, e, GALE_U8), GALE_F8E8M0);
}

/* Floats to integers of less than a byte keep the low bits of their whole part, as integers do; to larger ones they
 * saturate. */
static gale__node cast_to(gale__lower *L, gale_type type)
{
    gale__prim_graph *g = L->g;
    bool small = type >= GALE_F8E4M3FN && type <= GALE_F8E5M2FNUZ, saturate = gale__attr_i(L, "saturate", 1);
    bool tiny = !gale__type_is_float(type) && type != GALE_BOOL && gale__type_table[type].bits < 8;
    const char *mode = gale__attr_s(L, "round_mode", "up");
    if (small && !saturate) return gale__lower_cast_open(L, L->in[0], type);
    if (type == GALE_F8E8M0 && (!saturate || strcmp(mode, "up"))) return cast_exponent(L, mode, saturate);
    if (tiny && gale__type_is_float(gale__lower_type_of(g, L->in[0])))
        return gale__prim_cast(g, gale__prim_cast(g, L->in[0], GALE_I32), type);
    return gale__lower_cast_closed(L, L->in[0], type);
}

LOWER(Cast) { L->out[0] = cast_to(L, gale__attr_type(L, "to", gale__lower_type_of(L->g, L->in[0]))); }
LOWER(CastLike) { L->out[0] = cast_to(L, gale__lower_type_of(L->g, L->in[1])); }
LOWER(BitCast)
{
    L->out[0] = gale__prim_bitcast(L->g, L->in[0], gale__attr_type(L, "to", gale__lower_type_of(L->g, L->in[0])));
}
LOWER(Identity) { L->out[0] = L->in[0]; }
