/* See finish.h. */
#include "kernel/cpu/finish.h"
#include "kernel/cpu/walk.h"
#include <math.h>
#include <string.h>

enum { PART = 256 }; /* results that another sum follows */

static const gale__nest_instr *instr(const gale__nest *nest, int i) { return &nest->code[i]; }

/* x of max(x, number) or min(x, number), in either order. */
static bool peel_limit(const gale__nest *nest, int op, int *value, float *limit)
{
    const gale__nest_instr *in = instr(nest, *value);
    if (in->op != op || in->type != GALE_F32) return false;
    bool first = instr(nest, in->a)->op == GALE__NEST_CONST;
    if (!first && instr(nest, in->b)->op != GALE__NEST_CONST) return false;
    uint32_t bits = (uint32_t)instr(nest, first ? in->a : in->b)->imm;
    memcpy(limit, &bits, 4);
    *value = first ? in->b : in->a;
    return true;
}

/* x of x plus (by) a load. */
static const gale__nest_access *peel_load(const gale__nest *nest, int op, int *value)
{
    const gale__nest_instr *in = instr(nest, *value);
    if (in->op != op || in->type != GALE_F32) return NULL;
    bool first = instr(nest, in->a)->op == GALE__NEST_LOAD;
    const gale__nest_instr *load = instr(nest, first ? in->a : in->b);
    if (load->op != GALE__NEST_LOAD || load->inner) return NULL;
    const gale__nest_access *a = &nest->accesses[load->access];
    if (a->type != GALE_F32 || a->n_guards || nest->buffers[a->buffer].written) return NULL;
    *value = first ? in->b : in->a;
    return a;
}

/* The operand of an operation beside this number; -1: it is something else. */
static int beside_number(const gale__nest *nest, int i, int op, double number)
{
    const gale__nest_instr *in = i < 0 ? NULL : instr(nest, i);
    if (!in || in->op != op || in->type != GALE_F32) return -1;
    for (int side = 0; side < 2; side++) {
        const gale__nest_instr *one = instr(nest, side ? in->b : in->a);
        uint32_t bits = (uint32_t)one->imm;
        float constant;
        memcpy(&constant, &bits, 4);
        if (one->op == GALE__NEST_CONST && constant == (float)number) return side ? in->a : in->b;
    }
    return -1;
}

static int operand(const gale__nest *nest, int i, int op)
{
    return i >= 0 && instr(nest, i)->op == op && instr(nest, i)->type == GALE_F32 ? instr(nest, i)->a : -1;
}

/* x of 1 / (1 + e^-x); -1: it is something else. */
static int sigmoid_of(const gale__nest *nest, int i)
{
    if (i < 0 || instr(nest, i)->op != GALE__DIV || beside_number(nest, i, GALE__DIV, 1) != instr(nest, i)->b)
        return -1;
    return operand(nest, operand(nest, beside_number(nest, instr(nest, i)->b, GALE__ADD, 1), GALE__EXP), GALE__NEG);
}

/* x of an activation of it. */
static void peel_activation(const gale__nest *nest, int *value, gale__simd_activate **activate)
{
    int x = sigmoid_of(nest, *value), act = GALE__ACTIVATION_SIGMOID;
    const gale__nest_instr *in = instr(nest, *value);
    for (int side = 0; side < 2 && x < 0 && in->op == GALE__MUL && in->type == GALE_F32; side++) {
        int a = side ? in->b : in->a, b = side ? in->a : in->b, steps = beside_number(nest, b, GALE__MUL, 1.0 / 6),
            six = beside_number(nest, beside_number(nest, steps, GALE__MIN, 6), GALE__MAX, 0);
        if (six < 0) six = beside_number(nest, beside_number(nest, steps, GALE__MAX, 0), GALE__MIN, 6);
        int half = beside_number(nest, a, GALE__MUL, 0.5),
            root = operand(nest, beside_number(nest, b, GALE__ADD, 1), GALE__ERF);
        if (beside_number(nest, six, GALE__ADD, 3) == a) x = a, act = GALE__ACTIVATION_HARD_SWISH;
        else if (sigmoid_of(nest, b) == a) x = a, act = GALE__ACTIVATION_SWISH;
        else if (half >= 0 && beside_number(nest, root, GALE__MUL, 0.70710678118654752440) == half)
            x = half, act = GALE__ACTIVATION_GELU;
    }
    if (x < 0) return;
    *value = x;
    *activate = gale__simd_get()->activate[act];
}

static bool is_same_along(const gale__nest_access *a, const gale__cpu_span *lanes)
{
    for (int i = 0; i < lanes->n; i++)
        if (a->stride[lanes->dim[i]]) return false;
    return true;
}

static bool is_same_for_rows(const gale__nest *nest, const gale__nest_access *a, const gale__cpu_span *lanes)
{
    int64_t walked = 0;
    for (int i = 0; i < lanes->n; i++) walked |= (int64_t)1 << lanes->dim[i];
    for (int d = 0; d < nest->n_outer; d++)
        if (a->stride[d] && !(walked >> d & 1)) return false;
    return true;
}

void gale__cpu_finish_find(
    gale__cpu_finish *q, const gale__nest *nest, int reduce, const gale__cpu_span *lanes, bool along)
{
    *q = (gale__cpu_finish){.lo = -INFINITY, .hi = INFINITY};
    const gale__nest_access *out = nest->n_stores == 1 ? &nest->accesses[nest->stores[0].access] : NULL, *load;
    if (!out || nest->stores[0].index >= 0 || out->n_guards || out->type != GALE_F32) return;
    int value = nest->stores[0].value;
    peel_activation(nest, &value, &q->activate);
    bool below = peel_limit(nest, GALE__MIN, &value, &q->hi);
    peel_limit(nest, GALE__MAX, &value, &q->lo);
    if (!below) peel_limit(nest, GALE__MIN, &value, &q->hi);
    if (!(q->lo <= q->hi)) return;
    q->run = gale__cpu_run_of(out, lanes);
    for (;;) { /* the last operation comes first */
        int before = value;
        if (!q->bias && !q->scale && (load = peel_load(nest, GALE__MUL, &value)) != NULL) {
            q->scale = load;
            if (!is_same_along(load, lanes)) return;
        }
        load = peel_load(nest, GALE__ADD, &value);
        if (!load && value == before) break;
        if (!load) continue;
        bool same = is_same_along(load, lanes);
        if (along && !same && !q->along && is_same_for_rows(nest, load, lanes)) {
            q->along = load;
            if (gale__cpu_run_of(load, lanes) < q->run) return;
            continue;
        }
        if (q->bias || (!same && (q->also || q->scale))) return;
        *(same ? &q->bias : q->other ? &q->also : &q->other) = load;
        int64_t run = same ? q->run : gale__cpu_run_of(load, lanes);
        if (run < q->run) q->run = run;
    }
    if (value == reduce && nest->code[reduce].type == GALE_F32 && q->run) q->out = out;
}

static const float *base_of(const gale__nest_access *a, void *const *buffers, const int64_t *at, int n_dims)
{
    return a ? (const float *)buffers[a->buffer] + gale__cpu_address(a, at, n_dims) : NULL;
}

void gale__cpu_finish_run(const gale__cpu_finish *q, const gale__simd *simd, void *const *buffers, const int64_t *at,
    int n_dims, const gale__cpu_span *lanes, int64_t n0, int64_t n, const float *sums)
{
    float *out = (float *)buffers[q->out->buffer] + gale__cpu_address(q->out, at, n_dims), bias = -0.0f, scale = 1;
    const float *other = base_of(q->other, buffers, at, n_dims), *also = base_of(q->also, buffers, at, n_dims);
    if (q->bias) bias = ((const float *)buffers[q->bias->buffer])[gale__cpu_address(q->bias, at, n_dims)];
    if (q->scale) scale = ((const float *)buffers[q->scale->buffer])[gale__cpu_address(q->scale, at, n_dims)];
    if (q->run == lanes->count && !also) { /* the usual case, without divisions */
        simd->rows.finish(out + n0, sums, other ? other + n0 : NULL, bias, scale, q->lo, q->hi, (size_t)n);
        if (q->activate) q->activate(out + n0, (size_t)n, 1, 0);
        return;
    }
    float part[PART];
    for (int64_t i = 0, count; i < n; i += count) {
        int64_t left = q->run - (n0 + i) % q->run;
        count = left < n - i ? left : n - i;
        if (also && count > PART) count = PART;
        float *to = out + gale__cpu_lane_address(q->out, lanes, n0 + i);
        const float *from = sums + i;
        if (also) { /* not to the result, which may be the place of `other` */
            simd->rows.finish(part, from, also + gale__cpu_lane_address(q->also, lanes, n0 + i), bias, scale, -INFINITY,
                INFINITY, (size_t)count);
            from = part;
        }
        simd->rows.finish(to, from, other ? other + gale__cpu_lane_address(q->other, lanes, n0 + i) : NULL,
            also ? -0.0f : bias, also ? 1 : scale, q->lo, q->hi, (size_t)count);
        if (q->activate) q->activate(to, (size_t)count, 1, 0);
    }
}

/* The distance from one row to the next, where it is always the same. */
static bool find_pitch(const gale__nest_access *a, const gale__cpu_span *rows, int64_t *pitch)
{
    *pitch = rows->n ? a->stride[rows->dim[rows->n - 1]] : 0;
    for (int i = rows->n - 2; i >= 0; i--)
        if (a->stride[rows->dim[i]] != a->stride[rows->dim[i + 1]] * rows->extent[i + 1]) return false;
    return true;
}

static const float no_bias = -0.0f;

bool gale__cpu_finish_open(const gale__cpu_finish *q, const gale__cpu_span *rows, const gale__cpu_span *lanes,
    void *const *buffers, const int64_t *at, int n_dims, gale__simd_done *d)
{
    int64_t first[GALE__NEST_DIMS];
    *d = (gale__simd_done){.bias = &no_bias, .lo = q->lo, .hi = q->hi};
    if (!q->out || q->run != lanes->count || !find_pitch(q->out, rows, &d->out_pitch) ||
        (q->bias && !find_pitch(q->bias, rows, &d->bias_pitch)) ||
        (q->scale && !find_pitch(q->scale, rows, &d->scale_pitch)) ||
        (q->also && !find_pitch(q->also, rows, &d->also_pitch)) ||
        (q->other && !find_pitch(q->other, rows, &d->other_pitch)))
        return false;
    memcpy(first, at, (size_t)n_dims * sizeof *first);
    for (int i = 0; i < rows->n; i++) first[rows->dim[i]] = 0;
    for (int i = 0; i < lanes->n; i++) first[lanes->dim[i]] = 0;
    d->out = (float *)buffers[q->out->buffer] + gale__cpu_address(q->out, first, n_dims);
    if (q->bias) d->bias = base_of(q->bias, buffers, first, n_dims);
    if (q->scale) d->scale = base_of(q->scale, buffers, first, n_dims);
    if (q->also) d->also = base_of(q->also, buffers, first, n_dims);
    if (q->other) d->other = base_of(q->other, buffers, first, n_dims);
    return true;
}
