/* See requant.h. */
#include "kernel/cpu/requant.h"
#include "kernel/cpu/walk.h"

static const gale__nest_instr *instr(const gale__nest *nest, int i) { return &nest->code[i]; }

static float number_of(const gale__nest_instr *in)
{
    uint32_t bits = (uint32_t)in->imm;
    float v;
    memcpy(&v, &bits, 4);
    return v;
}

/* A number, or a load that does not depend on the lanes. */
static bool find_factor(
    const gale__nest *nest, int value, const gale__cpu_span *lanes, const gale__nest_access **access, float *number)
{
    const gale__nest_instr *in = instr(nest, value);
    if (in->type != GALE_F32 || in->inner) return false;
    if (in->op == GALE__NEST_CONST) return *number = number_of(in), true;
    if (in->op != GALE__NEST_LOAD) return false;
    const gale__nest_access *a = &nest->accesses[in->access];
    if (a->type != GALE_F32 || a->n_guards || nest->buffers[a->buffer].written) return false;
    for (int i = 0; i < lanes->n; i++)
        if (a->stride[lanes->dim[i]]) return false;
    *access = a;
    return true;
}

/* The operand of a commutative operation that is not `other`'s kind: which of the two leads to `op`. */
static bool split(const gale__nest *nest, const gale__nest_instr *in, int op, int *chain, int *factor)
{
    bool first = instr(nest, in->a)->op == op;
    *chain = first ? in->a : in->b;
    *factor = first ? in->b : in->a;
    return instr(nest, *chain)->op == op;
}

/* The sum, scaled, plus a bias or not. */
static bool find_scaled(
    gale__cpu_requant *q, const gale__nest *nest, int value, int reduce, const gale__cpu_span *lanes)
{
    int chain = value, factor;
    if (instr(nest, value)->op == GALE__ADD) {
        if (!split(nest, instr(nest, value), GALE__MUL, &chain, &factor) ||
            !find_factor(nest, factor, lanes, &q->bias, &q->numbers.bias))
            return false;
    }
    const gale__nest_instr *mul = instr(nest, chain);
    if (mul->op != GALE__MUL || mul->type != GALE_F32 || !split(nest, mul, GALE__CAST, &chain, &factor)) return false;
    return instr(nest, chain)->a == reduce && find_factor(nest, factor, lanes, &q->scale, &q->numbers.scale);
}

/* Bytes of a rounded number, plus a zero point or not, of a quotient or not. */
static bool find_levels(const gale__nest *nest, int value, gale_type *type, float *by, float *zero, int *scaled)
{
    const gale__nest_instr *in = instr(nest, value);
    *type = (gale_type)in->type;
    *by = 1, *zero = 0;
    if (in->op != GALE__CAST || (in->type != GALE_U8 && in->type != GALE_I8)) return false;
    in = instr(nest, in->a);
    if (in->op == GALE__ADD) {
        if (instr(nest, in->b)->op != GALE__NEST_CONST) return false;
        *zero = number_of(instr(nest, in->b));
        in = instr(nest, in->a);
    }
    if (in->op != GALE__RINT || in->type != GALE_F32) return false;
    *scaled = in->a;
    in = instr(nest, in->a);
    if (in->op != GALE__DIV) return true;
    if (instr(nest, in->b)->op != GALE__NEST_CONST) return false;
    *by = number_of(instr(nest, in->b));
    *scaled = in->a;
    return true;
}

/* Bytes less a zero point, times a number. */
static bool find_numbers(const gale__nest *nest, int value, int *bytes, int32_t *zero, float *scale)
{
    const gale__nest_instr *in = instr(nest, value);
    int cast, factor;
    *zero = 0;
    if (in->op != GALE__MUL || in->type != GALE_F32 || !split(nest, in, GALE__CAST, &cast, &factor) ||
        instr(nest, factor)->op != GALE__NEST_CONST)
        return false;
    *scale = number_of(instr(nest, factor));
    *bytes = instr(nest, cast)->a;
    in = instr(nest, *bytes);
    if (in->op == GALE__SUB && in->type == GALE_I32 && instr(nest, in->b)->op == GALE__NEST_CONST) {
        *zero = (int32_t)instr(nest, in->b)->imm;
        if (instr(nest, in->a)->op != GALE__CAST) return false;
        *bytes = instr(nest, in->a)->a;
    }
    in = instr(nest, *bytes);
    return (in->type == GALE_U8 || in->type == GALE_I8) && *zero >= -128 && *zero <= (in->type == GALE_I8 ? 127 : 255);
}

/* The sum of two such, of which one is a load: *bytes is the other. */
static bool find_skip(gale__cpu_requant *q, const gale__nest *nest, int value, int *bytes)
{
    const gale__nest_instr *in = instr(nest, value);
    int first, second;
    if (in->op != GALE__ADD || in->type != GALE_F32) return false;
    if (!find_numbers(nest, in->a, &first, &q->sum.x_zero, &q->sum.x_scale) ||
        !find_numbers(nest, in->b, &second, &q->sum.y_zero, &q->sum.y_scale))
        return false;
    if (instr(nest, first)->op == GALE__NEST_LOAD) {
        gale__simd_sum s = q->sum;
        q->sum.x_zero = s.y_zero, q->sum.x_scale = s.y_scale, q->sum.y_zero = s.x_zero, q->sum.y_scale = s.x_scale;
        int other = first;
        first = second, second = other;
    }
    if (instr(nest, second)->op != GALE__NEST_LOAD || instr(nest, first)->type != instr(nest, second)->type)
        return false;
    q->skip = &nest->accesses[instr(nest, second)->access];
    *bytes = first;
    return !q->skip->n_guards && q->skip->type == (gale_type)instr(nest, second)->type;
}

/* A sum of bytes in front of the bytes that are stored: then those before. */
static bool find_chain(gale__cpu_requant *q, const gale__nest *nest, int reduce, const gale__cpu_span *lanes)
{
    gale_type type, inner;
    int scaled, bytes;
    if (!find_levels(nest, nest->stores[0].value, &type, &q->numbers.by, &q->numbers.zero, &scaled)) return false;
    q->has_sign = type == GALE_I8;
    if (find_scaled(q, nest, scaled, reduce, lanes)) return true;
    if (!find_skip(q, nest, scaled, &bytes)) return false;
    q->sum.by = q->numbers.by;
    q->sum.zero = q->numbers.zero;
    return find_levels(nest, bytes, &inner, &q->numbers.by, &q->numbers.zero, &scaled) && inner == type &&
           find_scaled(q, nest, scaled, reduce, lanes);
}

bool gale__cpu_requant_look(gale__cpu_requant *q, const gale__nest *nest, int reduce, const gale__cpu_span *dims)
{
    *q = (gale__cpu_requant){0};
    const gale__nest_access *out = nest->n_stores == 1 ? &nest->accesses[nest->stores[0].access] : NULL;
    return out && nest->stores[0].index < 0 && !out->n_guards && nest->code[reduce].type == GALE_I32 &&
           out->type == (gale_type)nest->code[nest->stores[0].value].type && find_chain(q, nest, reduce, dims);
}

bool gale__cpu_requant_find(gale__cpu_requant *q, const gale__nest *nest, int reduce, const gale__cpu_span *lanes)
{
    if (!gale__cpu_requant_look(q, nest, reduce, lanes)) return false;
    const gale__nest_access *out = &nest->accesses[nest->stores[0].access];
    q->run = gale__cpu_run_of(out, lanes);
    if (q->run && q->skip && gale__cpu_run_of(q->skip, lanes) < q->run) q->run = gale__cpu_run_of(q->skip, lanes);
    if (q->run) q->out = out;
    return q->out;
}

enum { PART = 256 };

/* A part at a time, since the output may be where the other bytes are. */
static void run_sum(const gale__cpu_requant *q, const gale__simd *simd, const gale__simd_requant *v, char *out,
    const char *skip, const char *sums, int64_t n, bool in_f32)
{
    char part[PART];
    for (int64_t i = 0; i < n; i += PART) {
        size_t count = n - i < PART ? (size_t)(n - i) : PART;
        simd->requantise[in_f32][q->has_sign](part, sums + i * 4, v, count);
        simd->sum_bytes[q->has_sign](out + i, part, skip + i, &q->sum, count);
    }
}

void gale__cpu_requant_run(const gale__cpu_requant *q, const gale__simd *simd, void *const *buffers, const int64_t *at,
    int n_dims, const gale__cpu_span *lanes, int64_t n0, int64_t n, const void *sums, int32_t start, bool in_f32)
{
    gale__simd_requant v = q->numbers;
    v.start = start;
    if (q->scale) v.scale = ((const float *)buffers[q->scale->buffer])[gale__cpu_address(q->scale, at, n_dims)];
    if (q->bias) v.bias = ((const float *)buffers[q->bias->buffer])[gale__cpu_address(q->bias, at, n_dims)];
    char *out = (char *)buffers[q->out->buffer] + gale__cpu_address(q->out, at, n_dims);
    const char *skip = q->skip ? (const char *)buffers[q->skip->buffer] + gale__cpu_address(q->skip, at, n_dims) : NULL;
    for (int64_t i = 0, count; i < n; i += count) {
        int64_t left = q->run - (n0 + i) % q->run;
        const char *from = (const char *)sums + i * 4;
        count = left < n - i ? left : n - i;
        char *to = out + gale__cpu_lane_address(q->out, lanes, n0 + i);
        if (skip) run_sum(q, simd, &v, to, skip + gale__cpu_lane_address(q->skip, lanes, n0 + i), from, count, in_f32);
        else simd->requantise[in_f32][q->has_sign](to, from, &v, (size_t)count);
    }
}
