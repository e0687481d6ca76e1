/* The reference's scalar operations: libm in f64 for floats, exact wrapping integers, and the corner cases defined by
 * scalar.def. */
#include "graph/reference/reference.h"
#include <math.h>

static double float1(gale__scalar op, double a)
{
    switch ((int)op) {
    case GALE__NEG: return -a;
    case GALE__ABS: return fabs(a);
    case GALE__FLOOR: return floor(a);
    case GALE__CEIL: return ceil(a);
    case GALE__RINT: return rint(a);
    case GALE__TRUNC: return trunc(a);
    case GALE__SQRT: return sqrt(a);
    case GALE__EXP: return exp(a);
    case GALE__EXPM1: return expm1(a);
    case GALE__LOG: return log(a);
    case GALE__LOG1P: return log1p(a);
    case GALE__SIN: return sin(a);
    case GALE__COS: return cos(a);
    case GALE__TAN: return tan(a);
    case GALE__ASIN: return asin(a);
    case GALE__ACOS: return acos(a);
    case GALE__ATAN: return atan(a);
    case GALE__SINH: return sinh(a);
    case GALE__COSH: return cosh(a);
    case GALE__ASINH: return asinh(a);
    case GALE__ACOSH: return acosh(a);
    case GALE__ATANH: return atanh(a);
    case GALE__TANH: return tanh(a);
    case GALE__ERF: return erf(a);
    default: return NAN;
    }
}

static double float2(gale__scalar op, double a, double b)
{
    switch ((int)op) {
    case GALE__ADD: return a + b;
    case GALE__SUB: return a - b;
    case GALE__MUL: return a * b;
    case GALE__DIV: return a / b;
    case GALE__REM: return fmod(a, b);
    case GALE__MIN: return isnan(a) || a < b ? a : b;
    case GALE__MAX: return isnan(a) || a > b ? a : b;
    case GALE__POW: return pow(a, b);
    case GALE__ATAN2: return atan2(a, b);
    default: return NAN;
    }
}

static bool float_compare(gale__scalar op, double a, double b)
{
    switch ((int)op) {
    case GALE__EQ: return a == b;
    case GALE__NE: return a != b;
    case GALE__LT: return a < b;
    case GALE__LE: return a <= b;
    case GALE__GT: return a > b;
    default: return a >= b;
    }
}

static bool is_unsigned(gale_type t) { return gale__type_table[t].kind != 'i'; }
static bool int_less(gale_type t, int64_t a, int64_t b) { return is_unsigned(t) ? (uint64_t)a < (uint64_t)b : a < b; }

static bool int_compare(gale__scalar op, gale_type t, int64_t a, int64_t b)
{
    switch ((int)op) {
    case GALE__EQ: return a == b;
    case GALE__NE: return a != b;
    case GALE__LT: return int_less(t, a, b);
    case GALE__LE: return !int_less(t, b, a);
    case GALE__GT: return int_less(t, b, a);
    default: return !int_less(t, a, b);
    }
}

static int64_t int_div(gale_type t, int64_t a, int64_t b)
{
    if (b == 0) return 0;
    if (is_unsigned(t)) return (int64_t)((uint64_t)a / (uint64_t)b);
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t int_rem(gale_type t, int64_t a, int64_t b)
{
    if (b == 0) return 0;
    if (is_unsigned(t)) return (int64_t)((uint64_t)a % (uint64_t)b);
    return b == -1 ? 0 : a % b;
}

static int64_t int_shift(gale__scalar op, gale_type t, int64_t a, int64_t b)
{
    bool past = (uint64_t)b >= (uint64_t)gale__type_table[t].bits;
    if (op == GALE__SHL) return past ? 0 : (int64_t)((uint64_t)a << b);
    if (is_unsigned(t)) return past ? 0 : (int64_t)((uint64_t)a >> b);
    return past ? (a < 0 ? -1 : 0) : a >> b;
}

/* Philox 4x32-10 with the counter (lo, hi, 0, 0); word 0. */
static uint32_t philox(uint64_t counter, uint64_t seed)
{
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0}, k0 = (uint32_t)seed,
             k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = 0xD2511F53ull * c[0], p1 = 0xCD9E8D57ull * c[2];
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[0] = n0, c[1] = (uint32_t)p1, c[2] = n2, c[3] = (uint32_t)p0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return c[0];
}

static int64_t integer(gale__scalar op, gale_type t, int64_t a, int64_t b)
{
    switch ((int)op) {
    case GALE__NEG: return (int64_t)(0 - (uint64_t)a);
    case GALE__ABS: return !is_unsigned(t) && a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
    case GALE__NOT: return t == GALE_BOOL ? !a : ~a;
    case GALE__ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case GALE__SUB: return (int64_t)((uint64_t)a - (uint64_t)b);
    case GALE__MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
    case GALE__DIV: return int_div(t, a, b);
    case GALE__REM: return int_rem(t, a, b);
    case GALE__MIN: return int_less(t, b, a) ? b : a;
    case GALE__MAX: return int_less(t, a, b) ? b : a;
    case GALE__AND: return a & b;
    case GALE__OR: return a | b;
    case GALE__XOR: return a ^ b;
    case GALE__SHL:
    case GALE__SHR: return int_shift(op, t, a, b);
    default: return a; /* FLOOR and its kin */
    }
}

static gale__reference_number cast(gale_type type, gale_type from, gale__reference_number a)
{
    uint64_t bits = 0;
    bool f = gale__type_is_float(from);
    if (type == GALE_BOOL) return (gale__reference_number){.i = f ? a.f != 0 : a.i != 0};
    if (!f) {
        /* u64 of 2^63 and more is not negative */
        bool high = from == GALE_U64 && a.i < 0 && gale__type_is_float(type);
        if (high) gale__store_f64(type, &bits, (double)(uint64_t)a.i);
        else gale__store_i64(type, &bits, a.i);
        return gale__reference_number_load(type, &bits);
    }
    bool wider = gale__type_is_float(type) && gale__type_table[type].bits > gale__type_table[from].bits;
    if (wider && (type == GALE_F64 || type == GALE_F32)) return a;
    gale__store_f64(type, &bits, a.f);
    return gale__reference_number_load(type, &bits);
}

static uint32_t fma_halves(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t sum = 0;
    for (int i = 0; i < 32; i += 16) {
        double v = fma((double)gale__f16_to_f32((uint16_t)(a >> i)), (double)gale__f16_to_f32((uint16_t)b),
            (double)gale__f16_to_f32((uint16_t)(c >> i)));
        uint16_t half;
        gale__store_f64(GALE_F16, &half, v);
        sum |= (uint32_t)half << i;
    }
    return sum;
}

gale__reference_number gale__reference_scalar(gale__scalar op, gale_type type, gale_type from, gale__reference_number a,
    gale__reference_number b, gale__reference_number c)
{
    gale__reference_number r = {.i = 0};
    bool f = gale__type_is_float(from);
    if (op == GALE__SELECT) return a.i ? b : c;
    if (op == GALE__CAST) return cast(type, from, a);
    if (op == GALE__BITCAST) {
        uint64_t bits = 0;
        gale__reference_number_store(from, &bits, a);
        return gale__reference_number_load(type, &bits);
    }
    if (op == GALE__FMA) return (gale__reference_number){.f = fma(a.f, b.f, c.f)};
    if (op == GALE__FMA_HALVES)
        return (gale__reference_number){.i = fma_halves((uint32_t)a.i, (uint32_t)b.i, (uint32_t)c.i)};
    if (op == GALE__RANDOM) return (gale__reference_number){.i = philox((uint64_t)a.i, (uint64_t)b.i)};
    if (op >= GALE__EQ && op <= GALE__GE)
        return (gale__reference_number){.i = f ? float_compare(op, a.f, b.f) : int_compare(op, from, a.i, b.i)};
    if (f) r.f = op < GALE__ADD ? float1(op, a.f) : float2(op, a.f, b.f);
    else r = gale__reference_number_round(type, (gale__reference_number){.i = integer(op, type, a.i, b.i)});
    return r;
}
