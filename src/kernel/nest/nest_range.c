/* Ranges of values, by interval arithmetic from constants, types and clamps.  Bounds of f32 results are rounded
 * outwards and those of functions widened, so that they hold however a device rounds. */
#include "kernel/nest/nest_range.h"
#include "base/num.h"
#include <float.h>
#include <math.h>

#define SLACK 0x1p-19 /* of a bound: more than a device's own functions are off, and so much more by power of e */

bool gale__nest_float_const(const gale__nest *n, int i, double *v)
{
    const gale__nest_instr *in = &n->code[i];
    if (in->op != GALE__NEST_CONST || !gale__type_is_float((gale_type)in->type)) return false;
    *v = gale__load_f64(gale__compute_type((gale_type)in->type), &in->imm);
    return true;
}

/* All that a type can hold. */
static gale__nest_range whole_type(gale_type type)
{
    gale__nest_range r = {-INFINITY, INFINITY, type == GALE_F16 ? 65504 : DBL_MAX};
    int bits = gale__type_table[type].bits;
    if (!gale__type_is_int(type)) return r;
    bool is_signed = gale__type_is_signed(type);
    r.low = is_signed ? -ldexp(1, bits - 1) : 0;
    r.high = r.top = ldexp(1, is_signed ? bits - 1 : bits) - (bits <= 32);
    return r;
}

static void product_range(const gale__nest_range *a, const gale__nest_range *b, gale__nest_range *out)
{
    double all[4] = {a->low * b->low, a->low * b->high, a->high * b->low, a->high * b->high};
    if (a->low >= 0 && b->low >= 0) { /* infinity times 0 is NaN, which ranges do not describe */
        out->low = isnan(all[0]) ? 0 : all[0], out->high = isnan(all[3]) ? INFINITY : all[3];
        return;
    }
    out->low = INFINITY, out->high = -INFINITY;
    for (int i = 0; i < 4; i++) {
        if (isnan(all[i])) { /* 0 times infinity */
            out->low = -INFINITY, out->high = INFINITY;
            return;
        }
        out->low = fmin(out->low, all[i]), out->high = fmax(out->high, all[i]);
    }
}

/* A divisor that may be 0 may be -0 as well, and the quotient minus infinity. */
static void quotient_range(const gale__nest_range *a, const gale__nest_range *b, gale__nest_range *out)
{
    if (a->low < 0 || !(b->low > 0)) return;
    out->low = isfinite(b->high) ? a->low / b->high : 0;
    out->high = a->high / b->low;
}

/* Whether a comparison is that of an f32's bits with those of infinity: it holds for positive finite numbers and 0. */
static bool is_positive_test(const gale__nest *n, const gale__nest_instr *test, int x)
{
    const gale__nest_instr *bits = &n->code[test->a], *c = &n->code[test->b];
    return test->op == GALE__LT && bits->op == GALE__BITCAST && bits->type == GALE_U32 && bits->a == x &&
           n->code[x].type == GALE_F32 && c->op == GALE__NEST_CONST && (uint32_t)c->imm == 0x7f800000;
}

/* What a comparison that holds says of the value a select then takes: x <= c of x and of max(x, d), x > c of x. */
static gale__nest_range taken_range(const gale__nest *n, const gale__nest_instr *in, const gale__nest_range *r)
{
    const gale__nest_instr *test = &n->code[in->a], *taken = &n->code[in->b];
    gale__nest_range out = r[in->b];
    double c, d;
    if (is_positive_test(n, test, in->b)) {
        out.low = fmax(out.low, 0), out.high = fmin(out.high, out.top);
        return out;
    }
    if ((test->op != GALE__LE && test->op != GALE__GT) || !gale__nest_float_const(n, test->b, &c)) return out;
    const gale__nest_range *x = &r[test->a];
    if (test->op == GALE__GT) {
        if (test->a == in->b) out.low = fmax(out.low, c);
        return out;
    }
    double high = fmin(x->high, isfinite(c) ? fmin(c, x->top) : c);
    if (test->a == in->b) out.high = high;
    if (taken->op == GALE__MAX && taken->a == test->a && gale__nest_float_const(n, taken->b, &d))
        out.high = fmax(high, d);
    return out;
}

static void cast_range(
    const gale__nest *n, const gale__nest_instr *in, const gale__nest_range *r, gale__nest_range *out)
{
    const gale__nest_range *a = &r[in->a];
    gale_type from = (gale_type)n->code[in->a].type, to = (gale_type)in->type;
    if (gale__type_is_float(from) && gale__type_is_int(to)) { /* saturates; NaN becomes 0 */
        out->low = fmax(out->low, fmin(0, trunc(a->low)));
        out->high = fmin(out->high, fmax(0, trunc(a->high)));
    } else if (gale__type_is_int(from) && gale__type_is_int(to)) {
        if (a->low >= out->low && a->high <= out->high) *out = *a;
    } else if (gale__type_is_float(from) && (to == GALE_F32 || to == GALE_F64) && from != GALE_F64) {
        *out = *a;
    }
}

static double slack_of(int op, double bound)
{
    bool power = op == GALE__EXP || op == GALE__POW;
    if (bound == 0 || !isfinite(bound)) return 0;
    return fabs(bound) * SLACK * (power ? 1 + fabs(log(fabs(bound))) : 1);
}

static void function_range(const gale__nest_instr *in, const gale__nest_range *r, gale__nest_range *out)
{
    const gale__nest_range *a = &r[in->a], *b = gale__nest_arity(in) > 1 ? &r[in->b] : a;
    switch (in->op) {
    case GALE__DIV: quotient_range(a, b, out); break;
    case GALE__EXP: out->low = exp(a->low), out->high = exp(a->high); break;
    case GALE__LOG:
        out->low = a->low > 0 ? log(a->low) : -INFINITY, out->high = a->high > 0 ? log(a->high) : -INFINITY;
        break;
    case GALE__POW:
        if (a->low >= 0 && b->low == b->high && b->low > 0)
            out->low = pow(a->low, b->low), out->high = pow(a->high, b->high);
        break;
    default: return;
    }
    double off = in->op == GALE__LOG ? 0x1p-13 : 0; /* near 0 its error is absolute */
    out->low -= slack_of(in->op, out->low) + off, out->high += slack_of(in->op, out->high) + off;
}

static void operation_range(const gale__nest *n, const gale__nest_instr *in, gale__nest_range *r, gale__nest_range *out)
{
    const gale__nest_range *a = &r[in->a], *b = gale__nest_arity(in) > 1 ? &r[in->b] : a;
    gale__nest_range taken;
    switch (in->op) {
    case GALE__ADD: out->low = a->low + b->low, out->high = a->high + b->high; break;
    case GALE__SUB: out->low = a->low - b->high, out->high = a->high - b->low; break;
    case GALE__MUL: product_range(a, b, out); break;
    case GALE__NEG: out->low = -a->high, out->high = -a->low; break;
    case GALE__FLOOR: out->low = floor(a->low), out->high = floor(a->high); break;
    case GALE__MIN: out->low = fmin(a->low, b->low), out->high = fmin(a->high, b->high); break;
    case GALE__MAX: out->low = fmax(a->low, b->low), out->high = fmax(a->high, b->high); break;
    case GALE__AND:
        if (a->low >= 0 && b->low >= 0) out->low = 0, out->high = fmin(a->high, b->high);
        break;
    case GALE__SELECT:
        taken = taken_range(n, in, r);
        out->low = fmin(taken.low, r[in->c].low), out->high = fmax(taken.high, r[in->c].high);
        break;
    case GALE__CAST: cast_range(n, in, r, out); break;
    default:
        if (gale__type_is_float((gale_type)in->type)) function_range(in, r, out);
        break;
    }
}

/* The nearest f32 that is not inside; a device may take the smallest ones for 0. */
static double outwards(double v, bool up)
{
    float f = (float)v;
    if (up ? v < 0 && v > -FLT_MIN : v > 0 && v < FLT_MIN) return 0;
    if (!isfinite(v) || (double)f == v) return v;
    if (up ? (double)f < v : (double)f > v) f = nextafterf(f, up ? INFINITY : -INFINITY);
    return (double)f;
}

/* An integer that a double need not hold exactly. */
static bool is_coarse(gale_type type, double v) { return gale__type_is_int(type) && fabs(v) > 0x1p53; }

void gale__nest_range_find(const gale__nest *n, int i, gale__nest_range *r)
{
    const gale__nest_instr *in = &n->code[i];
    gale_type type = (gale_type)in->type, compute = gale__compute_type(type);
    const gale__nest_range all = whole_type(type);
    r[i] = all;
    if (in->op == GALE__NEST_CONST) {
        double v =
            gale__type_is_float(type) ? gale__load_f64(compute, &in->imm) : (double)gale__load_i64(compute, &in->imm);
        if (type != GALE_BOOL && type != GALE_U64 && !isnan(v) && !is_coarse(type, v)) r[i].low = r[i].high = v;
        return;
    }
    /* Narrow floats are rounded at loads, casts and stores only. */
    if (in->op != GALE__NEST_LOAD && in->op != GALE__NEST_TAKE && in->op != GALE__CAST) r[i].top = DBL_MAX;
    if (in->op == GALE__NEST_REDUCE) r[i].low = -INFINITY, r[i].high = INFINITY;
    if (in->op >= GALE__SCALAR_COUNT || type == GALE_BOOL) return;
    operation_range(n, in, r, &r[i]);
    bool wraps = gale__type_is_int(type) && !(r[i].low >= all.low && r[i].high <= all.high);
    if (is_coarse(type, r[i].low) || is_coarse(type, r[i].high)) wraps = true;
    if (isnan(r[i].low) || wraps) r[i].low = all.low;
    if (isnan(r[i].high) || wraps) r[i].high = all.high;
    if (compute == GALE_F32) r[i].low = outwards(r[i].low, false), r[i].high = outwards(r[i].high, true);
}
