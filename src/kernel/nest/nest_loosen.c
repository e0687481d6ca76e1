/* Relaxed accuracy for 8-bit results.  A float that only becomes an 8-bit integer may be off by a small part of a
 * level, so the values it depends on may be computed by the device's own exp, log, power and division, whose errors
 * are bounded.  Ranges are propagated forwards, allowed errors backwards; an operation is marked (acc = 1) if its
 * bound fits.  The device's own exp, division, erf and tanh will also do where all that becomes of the result is
 * rounded to halves.  Devices without such bounds ignore the mark. */
#include "base/num.h"
#include "kernel/nest/nest_range.h"
#include <math.h>

#define LEVEL (1.0 / 16)  /* of an 8-bit level: all errors together stay below half of it */
#define OWN 0x1p-20       /* relative error of the device's own functions, absolute for a logarithm near 0 */
#define LOG_LARGEST 104.0 /* |log x| of any positive f32 */

/* The range of a value, and the error it may have: `off` (absolute) and `part` (relative). */
typedef struct facts {
    double low, high, off, part;
} facts;

static void find_ranges(const gale__nest *n, facts *f)
{
    gale__nest_range r[GALE__NEST_CODE_MAX];
    for (int i = 0; i < n->n_code; i++) {
        gale__nest_range_find(n, i, r);
        f[i] = (facts){r[i].low, r[i].high, INFINITY, INFINITY};
    }
}

/* Neither too small nor too large for the shortest division and logarithm of any device. */
static bool is_ordinary(const facts *f)
{
    const double least = 0x1p-100, most = 0x1p120;
    return (f->low >= least && f->high <= most) || (f->high <= -least && f->low >= -most);
}

/* --- Error bounds, from results back to operands. --- */

static void require(facts *f, double off, double part)
{
    f->off = fmin(f->off, off >= 0 ? off : 0);
    f->part = fmin(f->part, part >= 0 ? part : 0);
}

static void require_exact(facts *f) { require(f, 0, 0); }

static double largest(const facts *f) { return fmax(fabs(f->low), fabs(f->high)); }

static void require_of_product(const gale__nest *n, const gale__nest_instr *in, const facts *r, facts *f)
{
    double v;
    for (int k = 0; k < 2; k++) {
        int mine = k ? in->b : in->a, other = k ? in->a : in->b;
        double bound = gale__nest_float_const(n, other, &v) ? fabs(v) : 2 * largest(&f[other]),
               part = gale__nest_float_const(n, other, &v) ? r->part : r->part / 2;
        require(&f[mine], bound > 0 && isfinite(bound) ? r->off / bound : isinf(r->off) ? r->off : 0, part);
    }
}

/* x / y and x^c: parts of the result are parts of the operands. */
static void require_parts(const facts *r, facts *f, double share)
{
    double bound = largest(r), part = isinf(r->off) ? INFINITY : isfinite(bound) && bound > 0 ? r->off / bound : 0;
    require(f, INFINITY, share * fmin(part, r->part));
}

static void ask_of_operands(const gale__nest *n, int i, facts *f)
{
    const gale__nest_instr *in = &n->code[i];
    const facts r = f[i];
    double v;
    switch (in->op) {
    case GALE__ADD:
    case GALE__SUB: {
        double share = gale__nest_float_const(n, in->a, &v) || gale__nest_float_const(n, in->b, &v) ? 1 : 0.5,
               off = isinf(r.part) ? share * r.off : 0; /* parts are lost where terms cancel */
        require(&f[in->a], off, INFINITY), require(&f[in->b], off, INFINITY);
        return;
    }
    case GALE__MUL: require_of_product(n, in, &r, f); return;
    case GALE__NEG: require(&f[in->a], r.off, r.part); return;
    case GALE__MIN:
    case GALE__MAX: require(&f[in->a], r.off, r.part), require(&f[in->b], r.off, r.part); return;
    case GALE__EXP:
        require(&f[in->a],
            fmin(isfinite(r.high) && r.high > 0 ? r.off / (2 * r.high)
                 : isinf(r.off)                 ? INFINITY
                                                : 0,
                r.part / 2),
            INFINITY);
        return;
    case GALE__LOG: require(&f[in->a], INFINITY, isinf(r.part) ? r.off / 2 : 0); return;
    case GALE__DIV: require_parts(&r, &f[in->a], 0.25), require_parts(&r, &f[in->b], 0.25); return;
    case GALE__POW:
        require_exact(&f[in->b]);
        if (gale__nest_float_const(n, in->b, &v) && v != 0) require_parts(&r, &f[in->a], 0.25 / fabs(v));
        else require_exact(&f[in->a]);
        return;
    default: break;
    }
    bool to_byte = in->op == GALE__CAST && (in->type == GALE_U8 || in->type == GALE_I8) &&
                   gale__type_is_float((gale_type)n->code[in->a].type);
    int operands[3] = {in->a, in->b, in->c};
    for (int k = 0; k < gale__nest_arity(in); k++) {
        if (to_byte) require(&f[in->a], LEVEL, INFINITY);
        else require_exact(&f[operands[k]]);
    }
}

/* --- Marks. --- */

static bool fits(const facts *f, double off, double part)
{
    bool asked = isfinite(f->off) || isfinite(f->part);
    return asked && (isinf(f->off) || off <= f->off / 2) && (isinf(f->part) || part <= f->part / 2);
}

static bool is_loose(const gale__nest *n, int i, const facts *f)
{
    const gale__nest_instr *in = &n->code[i];
    const facts *r = &f[i];
    double v, size = largest(r);
    if (in->type != GALE_F32) return false;
    switch (in->op) {
    case GALE__EXP: { /* its own error grows with the argument */
        double x = fmax(fabs(f[in->a].high), 1);
        return isfinite(r->high) && fits(r, OWN * r->high * (1 + x), OWN * (1 + largest(&f[in->a])));
    }
    case GALE__LOG: return fits(r, OWN * LOG_LARGEST, INFINITY);
    case GALE__DIV: return fits(r, OWN * size, OWN);
    case GALE__POW:
        return gale__nest_float_const(n, in->b, &v) && f[in->a].low >= 0 && isfinite(size) &&
               fits(r, OWN * size * (1 + fabs(v) * LOG_LARGEST), INFINITY);
    default: return false;
    }
}

/* Functions whose device version, with a relative error of 2^-20, is accurate enough for results that are rounded to 16
 * bits. */
static bool hides_in_halves(const gale__nest_instr *in)
{
    bool own = in->op == GALE__EXP || in->op == GALE__DIV || in->op == GALE__ERF || in->op == GALE__TANH;
    return own && gale__compute_type((gale_type)in->type) == GALE_F32;
}

static bool is_half(int type) { return type == GALE_F16 || type == GALE_BF16; }

/* Whether a relative error of an operand becomes a relative error of about the same size in the result. */
static bool carries(const gale__nest_instr *in)
{
    bool rounds = in->op >= GALE__FLOOR && in->op <= GALE__TRUNC;
    return (in->op < GALE__SCALAR_COUNT || in->op == GALE__NEST_REDUCE) && !rounds &&
           gale__compute_type((gale_type)in->type) == GALE_F32;
}

/* Marks operations all of whose results are rounded to f16 or bf16 before any other use. digits: the relative error of
 * small results matters too, since they are not just added to a large number. */
static void mark_rounded(gale__nest *n)
{
    uint8_t seen[GALE__NEST_CODE_MAX] = {0}, digits[GALE__NEST_CODE_MAX] = {0};
    for (int s = 0; s < n->n_stores; s++) {
        digits[n->stores[s].value] = 1;
        if (!is_half((int)n->accesses[n->stores[s].access].type)) seen[n->stores[s].value] = 1;
        if (n->stores[s].index >= 0) seen[n->stores[s].value] = seen[n->stores[s].index] = 1;
    }
    for (int i = n->n_code - 1; i >= 0; i--) {
        gale__nest_instr *in = &n->code[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        double v;
        bool hides = (in->op == GALE__CAST && is_half(in->type)) || (carries(in) && !seen[i]);
        for (int k = 0; k < gale__nest_arity(in); k++) {
            seen[operand[k]] |= !hides;
            digits[operand[k]] |=
                in->op != GALE__ADD || !gale__nest_float_const(n, operand[1 - k], &v) || fabs(v) < 0.5;
        }
        if (!seen[i] && hides_in_halves(in)) in->acc = digits[i] ? 1 : 2;
    }
}

static bool is_constant(const gale__nest *n, int i, double wanted)
{
    double v;
    return gale__nest_float_const(n, i, &v) && fabs(v - wanted) < 1e-6;
}

/* Whether instruction i is x / 2 * (1 + erf(x / sqrt 2)) with the device's own erf, written in this order. */
static bool is_gelu(const gale__nest *n, int i)
{
    const gale__nest_instr *code = n->code, *whole = &code[i];
    if (whole->op != GALE__MUL || whole->type != GALE_F32) return false;
    const gale__nest_instr *half = &code[whole->a], *sum = &code[whole->b];
    if (half->op != GALE__MUL || sum->op != GALE__ADD) return false;
    const gale__nest_instr *erf = &code[sum->a], *inside = &code[erf->a];
    if (erf->op != GALE__ERF || !erf->acc || inside->op != GALE__MUL || inside->a != half->a) return false;
    return is_constant(n, half->b, 0.5) && is_constant(n, sum->b, 1) && is_constant(n, inside->b, 0.70710678118654752);
}

/* The mark of an operation that may use the device's own function. */
static uint8_t mark_of(const gale__nest *n, int i, const facts *f)
{
    const gale__nest_instr *in = &n->code[i];
    if (in->op == GALE__DIV) return is_ordinary(&f[in->b]) ? 2 : 1;
    return (in->op == GALE__LOG || in->op == GALE__POW) && f[in->a].low > 0 && is_ordinary(&f[in->a]) ? 2 : 1;
}

/* In a fast nest every operation is the device's own. */
static void mark_all(gale__nest *n, facts *f)
{
    find_ranges(n, f);
    for (int i = 0; i < n->n_code; i++) {
        int op = n->code[i].op;
        bool own = op == GALE__EXP || op == GALE__LOG || op == GALE__POW || op == GALE__DIV;
        if (n->code[i].type == GALE_F32 && own) n->code[i].acc = mark_of(n, i, f);
    }
}

void gale__nest_loosen(gale__nest *n)
{
    facts f[GALE__NEST_CODE_MAX];
    if (n->n_code > GALE__NEST_CODE_MAX) return;
    if (n->fast) {
        mark_all(n, f);
        return;
    }
    mark_rounded(n);
    for (int i = 0; i < n->n_code; i++)
        if (is_gelu(n, i)) n->code[i].acc = GALE__NEST_GELU;
    bool bytes = false;
    for (int s = 0; s < n->n_stores; s++) bytes |= gale_type_size((gale_type)n->code[n->stores[s].value].type) == 1;
    if (!bytes) return;
    find_ranges(n, f);
    for (int s = 0; s < n->n_stores; s++) {
        require_exact(&f[n->stores[s].value]);
        if (n->stores[s].index >= 0) require_exact(&f[n->stores[s].index]);
    }
    for (int i = n->n_code - 1; i >= 0; i--) ask_of_operands(n, i, f);
    for (int i = 0; i < n->n_code; i++)
        if (n->code[i].op != GALE__NEST_REDUCE && is_loose(n, i, f)) n->code[i].acc = mark_of(n, i, f);
}
