/* Loop nests for tests: random ones of every kind, and their meaning, evaluated point by point in the slowest and
 * plainest way. */
#ifndef GALE_TEST_NEST_RANDOM_H
#define GALE_TEST_NEST_RANDOM_H
#include "kernel/nest/nest.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NR_CODE 48
#define NR_BUFFERS 8

typedef struct nest_case {
    char name[64];
    gale__nest nest;
    gale__nest_instr code[NR_CODE];
    gale__nest_access accesses[16];
    gale__nest_guard guards[16][GALE__GUARDS];
    gale__nest_store stores[4];
    gale__nest_buffer buffers[NR_BUFFERS];
    void *data[NR_BUFFERS];     /* contents before the run */
    void *expected[NR_BUFFERS]; /* after it; set for written buffers */
    double loose;               /* tolerance of floats, relative */
} nest_case;

/* A small generator of its own: the same nests everywhere. */
static uint64_t nr_state = 1;
static inline uint32_t nr_next(void)
{
    nr_state = nr_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(nr_state >> 33);
}
static inline int nr_below(int n) { return (int)(nr_next() % (uint32_t)n); }
static inline bool nr_chance(int percent) { return nr_below(100) < percent; }
static inline double nr_unit(void) { return (double)nr_next() / 2147483648.0; }

static inline void nr_init(nest_case *c, const char *name, int n_outer, int n_inner, const int64_t *extent)
{
    memset(c, 0, sizeof *c);
    snprintf(c->name, sizeof c->name, "%s", name);
    c->loose = 2e-5;
    c->nest = (gale__nest){.n_outer = n_outer,
        .n_inner = n_inner,
        .code = c->code,
        .accesses = c->accesses,
        .stores = c->stores,
        .buffers = c->buffers};
    for (int d = 0; d < n_outer + n_inner; d++) c->nest.extent[d] = extent[d];
}

static inline void nr_finish(nest_case *c)
{
    for (int i = 0; i < NR_BUFFERS; i++) {
        free(c->data[i]);
        free(c->expected[i]);
    }
}

/* An axis of a tensor: which coordinate the domain's point has on it. */
typedef struct nr_axis {
    int64_t coef[GALE__NEST_DIMS], c0, extent, div;
    bool guard;
} nr_axis;

static inline nr_axis nr_plain(int d, int64_t extent)
{
    nr_axis a = {.extent = extent, .div = 1};
    a.coef[d] = 1;
    return a;
}

static bool nr_no_data; /* benchmarks have nothing to compare */

static inline void nr_random_fill(nest_case *c, int buffer)
{
    if (nr_no_data) return;
    gale__nest_buffer *b = &c->buffers[buffer];
    size_t size = gale_type_size(b->type);
    c->data[buffer] = malloc((size_t)b->elements * size + 64);
    for (int64_t i = 0; i < b->elements; i++) {
        char *p = (char *)c->data[buffer] + (size_t)i * size;
        if (gale__type_is_float(b->type)) gale__store_f64(b->type, p, nr_unit() * 4 - 2);
        else if (b->type == GALE_BOOL) *p = (char)nr_below(2);
        else gale__store_i64(b->type, p, nr_below(200) - (gale__type_is_signed(b->type) ? 100 : 0));
    }
}

/* A new buffer with these axes, laid out in the given order (NULL: row-major), with `lead` elements before it and rows
 * `gap` elements too long. */
static inline int nr_access(
    nest_case *c, gale_type type, const nr_axis *axes, int n, const int *order, int64_t lead, int64_t gap)
{
    gale__nest_access *a = &c->accesses[c->nest.n_accesses];
    int64_t stride = 1, st[8];
    *a = (gale__nest_access){
        .buffer = c->nest.n_buffers, .type = type, .offset = lead, .guards = c->guards[c->nest.n_accesses]};
    for (int k = n - 1; k >= 0; k--) {
        int x = order ? order[k] : k;
        st[x] = stride;
        stride = stride * axes[x].extent + (k == n - 1 ? gap : 0);
    }
    for (int x = 0; x < n; x++) {
        const nr_axis *ax = &axes[x];
        if (ax->div <= 1) {
            a->offset += ax->c0 * st[x];
            for (int d = 0; d < GALE__NEST_DIMS; d++) a->stride[d] += ax->coef[d] * st[x];
        }
        if (!ax->guard) continue;
        gale__nest_guard *g = &a->guards[a->n_guards++];
        *g = (gale__nest_guard){.c0 = ax->c0, .extent = ax->extent, .div = ax->div, .stride = ax->div > 1 ? st[x] : 0};
        memcpy(g->coef, ax->coef, sizeof g->coef);
    }
    c->buffers[c->nest.n_buffers] = (gale__nest_buffer){.elements = stride + lead, .type = type};
    nr_random_fill(c, c->nest.n_buffers++);
    return c->nest.n_accesses++;
}

static inline int nr_add(nest_case *c, gale__nest_instr in)
{
    c->code[c->nest.n_code] = in;
    return c->nest.n_code++;
}

static inline int nr_op(nest_case *c, int op, gale_type type, int a, int b, int x)
{
    gale__nest_instr in = {.op = (uint8_t)op, .type = (uint8_t)type, .a = a, .b = b, .c = x};
    int operand[3] = {a, b, x};
    for (int k = 0; k < gale__nest_arity(&in); k++) in.inner |= c->code[operand[k]].inner;
    return nr_add(c, in);
}

static inline bool nr_walks_inner(const nest_case *c, const gale__nest_access *a)
{
    for (int d = c->nest.n_outer; d < c->nest.n_outer + c->nest.n_inner; d++) {
        if (a->stride[d]) return true;
        for (int g = 0; g < a->n_guards; g++)
            if (a->guards[g].coef[d]) return true;
    }
    return false;
}

static inline int nr_load(nest_case *c, int access)
{
    gale__nest_access *a = &c->accesses[access];
    return nr_add(
        c, (gale__nest_instr){
               .op = GALE__NEST_LOAD, .type = (uint8_t)a->type, .inner = nr_walks_inner(c, a), .access = access});
}

static inline int nr_const(nest_case *c, gale_type type, double v)
{
    gale__nest_instr in = {.op = GALE__NEST_CONST, .type = (uint8_t)type};
    gale_type compute = gale__compute_type(type);
    if (gale__type_is_float(compute)) gale__store_f64(compute, &in.imm, v);
    else if (type == GALE_BOOL) in.imm = v != 0;
    else gale__store_i64(compute, &in.imm, (int64_t)v);
    return nr_add(c, in);
}

static inline int nr_index(nest_case *c, const int64_t *stride, int64_t offset)
{
    gale__nest_access *a = &c->accesses[c->nest.n_accesses];
    *a = (gale__nest_access){.buffer = -1, .type = GALE_I64, .offset = offset};
    memcpy(a->stride, stride, sizeof *stride * (size_t)(c->nest.n_outer + c->nest.n_inner));
    return nr_add(c,
        (gale__nest_instr){
            .op = GALE__NEST_INDEX, .type = GALE_I64, .inner = nr_walks_inner(c, a), .access = c->nest.n_accesses++});
}

static inline int nr_reduce(nest_case *c, gale__reduce kind, int a)
{
    gale_type type = (gale_type)c->code[a].type, acc = gale__compute_type(type);
    bool arg = kind >= GALE__ARGMAX;
    return nr_add(
        c, (gale__nest_instr){
               .op = GALE__NEST_REDUCE, .type = arg ? GALE_I64 : type, .acc = (uint8_t)acc, .a = a, .imm = kind});
}

/* Dense, over the outer dimensions (and the inner ones when the value is INNER). */
static inline void nr_store(nest_case *c, int value)
{
    nr_axis axes[8];
    int n = c->nest.n_outer + (c->code[value].inner ? c->nest.n_inner : 0);
    for (int d = 0; d < n; d++) axes[d] = nr_plain(d, c->nest.extent[d]);
    int access = nr_access(c, (gale_type)c->code[value].type, axes, n, NULL, 0, 0);
    c->buffers[c->accesses[access].buffer].written = true;
    c->stores[c->nest.n_stores++] = (gale__nest_store){.value = value, .access = access, .index = -1};
}

/* --- meaning -------------------------------------------------------------------------------------------------------
 */

typedef union nr_value {
    double f;
    int64_t i;
} nr_value;
typedef struct nr_run {
    const nest_case *c;
    int64_t at[GALE__NEST_DIMS];
    nr_value value[NR_CODE];
    uint64_t stamp[NR_CODE], point, outer_point; /* value is of this point */
} nr_run;

static inline bool nr_float(gale_type t) { return gale__type_is_float(t); }

/* False where a guard fails. */
static inline bool nr_address(const nr_run *r, const gale__nest_access *a, int64_t *out)
{
    int64_t at = a->offset;
    int dims = r->c->nest.n_outer + r->c->nest.n_inner;
    for (int d = 0; d < dims; d++) at += a->stride[d] * r->at[d];
    for (int g = 0; g < a->n_guards; g++) {
        int64_t x = a->guards[g].c0, div = a->guards[g].div > 1 ? a->guards[g].div : 1;
        for (int d = 0; d < dims; d++) x += a->guards[g].coef[d] * r->at[d];
        if (x < 0 || x >= a->guards[g].extent * div || x % div) return false;
        if (div > 1) at += x / div * a->guards[g].stride;
    }
    *out = at;
    return true;
}

static inline nr_value nr_read(gale_type type, const void *base, int64_t at)
{
    nr_value v = {0};
    const char *p = (const char *)base + at * (int64_t)gale_type_size(type);
    if (nr_float(type)) v.f = gale__load_f64(type, p);
    else v.i = gale__load_i64(type, p);
    return v;
}

static inline nr_value nr_eval(nr_run *r, int i);

static inline int64_t nr_wrap(gale_type type, int64_t v)
{
    uint64_t bits = 0;
    if (type == GALE_BOOL) return v != 0;
    gale__store_i64(type, &bits, v);
    return gale__load_i64(type, &bits);
}

static inline nr_value nr_float_op(int op, nr_value a, nr_value b, nr_value c)
{
    nr_value v = {0};
    switch (op) {
    case GALE__NEG: v.f = -a.f; break;
    case GALE__ABS: v.f = fabs(a.f); break;
    case GALE__SQRT: v.f = sqrt(a.f); break;
    case GALE__EXP: v.f = exp(a.f); break;
    case GALE__TANH: v.f = tanh(a.f); break;
    case GALE__ADD: v.f = a.f + b.f; break;
    case GALE__SUB: v.f = a.f - b.f; break;
    case GALE__MUL: v.f = a.f * b.f; break;
    case GALE__DIV: v.f = a.f / b.f; break;
    case GALE__MIN: v.f = isnan(a.f) || isnan(b.f) ? NAN : fmin(a.f, b.f); break;
    case GALE__MAX: v.f = isnan(a.f) || isnan(b.f) ? NAN : fmax(a.f, b.f); break;
    case GALE__LT: v.i = a.f < b.f; break;
    case GALE__GT: v.i = a.f > b.f; break;
    case GALE__FMA: v.f = a.f * b.f + c.f; break;
    default: printf("nr_float_op: %d\n", op); exit(2);
    }
    return v;
}

static inline nr_value nr_int_op(int op, nr_value a, nr_value b)
{
    nr_value v = {0};
    switch (op) {
    case GALE__NEG: v.i = (int64_t)(0 - (uint64_t)a.i); break; /* integers wrap */
    case GALE__ABS: v.i = a.i < 0 ? (int64_t)(0 - (uint64_t)a.i) : a.i; break;
    case GALE__ADD: v.i = (int64_t)((uint64_t)a.i + (uint64_t)b.i); break;
    case GALE__SUB: v.i = (int64_t)((uint64_t)a.i - (uint64_t)b.i); break;
    case GALE__MUL: v.i = (int64_t)((uint64_t)a.i * (uint64_t)b.i); break;
    case GALE__MIN: v.i = a.i < b.i ? a.i : b.i; break;
    case GALE__MAX: v.i = a.i > b.i ? a.i : b.i; break;
    case GALE__AND: v.i = a.i & b.i; break;
    case GALE__OR: v.i = a.i | b.i; break;
    case GALE__XOR: v.i = a.i ^ b.i; break;
    case GALE__LT: v.i = a.i < b.i; break;
    case GALE__GT: v.i = a.i > b.i; break;
    default: printf("nr_int_op: %d\n", op); exit(2);
    }
    return v;
}

static inline nr_value nr_convert(gale_type from, gale_type to, nr_value a)
{
    nr_value v = {0};
    uint64_t bits = 0;
    if (to == GALE_BOOL) v.i = nr_float(from) ? a.f != 0 : a.i != 0;
    else if (nr_float(to)) {
        gale__store_f64(to, &bits, nr_float(from) ? a.f : (double)a.i);
        v.f = gale__load_f64(to, &bits);
    } else if (nr_float(from)) {
        gale__store_f64(to, &bits, a.f);
        v.i = gale__load_i64(to, &bits);
    } else v.i = nr_wrap(to, a.i);
    return v;
}

/* NaN goes before all numbers; ties by index. */
static inline bool nr_better(gale__reduce k, double v, int64_t at, double best, int64_t best_at)
{
    bool max = k == GALE__ARGMAX || k == GALE__ARGMAX_LAST, last = k >= GALE__ARGMAX_LAST;
    if (best_at < 0) return true;
    if (isnan(v) != isnan(best)) return isnan(v);
    if (v == best || isnan(v)) return last ? at > best_at : at < best_at;
    return max ? v > best : v < best;
}

static inline nr_value nr_reduce_all(nr_run *r, const gale__nest_instr *in)
{
    const gale__nest *nest = &r->c->nest;
    gale_type from = (gale_type)r->c->code[in->a].type, acc = (gale_type)in->acc;
    gale__reduce k = (gale__reduce)in->imm;
    int64_t n = 1, best_at = -1, kept[GALE__NEST_DIMS];
    double best = 0;
    nr_value sum = {0};
    uint64_t outer = r->point;
    memcpy(kept, r->at, sizeof kept);
    for (int d = nest->n_outer; d < nest->n_outer + nest->n_inner; d++) n *= nest->extent[d];
    for (int64_t p = 0; p < n; p++) {
        int64_t rest = p;
        for (int d = nest->n_outer + nest->n_inner - 1; d >= nest->n_outer; rest /= nest->extent[d--])
            r->at[d] = rest % nest->extent[d];
        r->point = outer + 1 + (uint64_t)p;
        nr_value v = nr_eval(r, in->a);
        if (k >= GALE__ARGMAX) {
            double x = nr_float(from) ? v.f : (double)v.i;
            if (nr_better(k, x, p, best, best_at)) {
                best = x;
                best_at = p;
            }
            continue;
        }
        if (nr_float(from) != nr_float(acc)) v = nr_convert(from, acc, v);
        int op = k == GALE__SUM ? GALE__ADD : k == GALE__PROD ? GALE__MUL : k == GALE__RMAX ? GALE__MAX : GALE__MIN;
        sum = p == 0 ? v : nr_float(acc) ? nr_float_op(op, sum, v, v) : nr_int_op(op, sum, v);
    }
    memcpy(r->at, kept, sizeof kept);
    r->point = outer;
    if (k >= GALE__ARGMAX) sum.i = best_at;
    else if (!nr_float((gale_type)in->type)) sum.i = nr_wrap((gale_type)in->type, sum.i);
    return sum;
}

static inline nr_value nr_compute(nr_run *r, int i)
{
    const gale__nest_instr *in = &r->c->code[i];
    const gale__nest_access *a = &r->c->accesses[in->access];
    gale_type type = (gale_type)in->type, from = (gale_type)r->c->code[in->a].type;
    nr_value v = {0}, x = {0}, y = {0}, z = {0};
    int64_t at = 0;
    int arity = gale__nest_arity(in);
    if (in->op == GALE__NEST_REDUCE) return nr_reduce_all(r, in);
    if (arity > 0) x = nr_eval(r, in->a);
    if (arity > 1) y = nr_eval(r, in->b);
    if (arity > 2) z = nr_eval(r, in->c);
    switch (in->op) {
    case GALE__NEST_CONST: return nr_read(gale__compute_type(type), &in->imm, 0);
    case GALE__NEST_LOAD:
        return nr_address(r, a, &at) ? nr_read(type, r->c->data[a->buffer], at) : nr_read(type, &a->fill, 0);
    case GALE__NEST_INDEX:
        nr_address(r, a, &at);
        v.i = at;
        return v;
    case GALE__NEST_TAKE:
        nr_address(r, a, &at);
        at += x.i < 0 ? 0 : x.i >= (int64_t)in->imm ? (int64_t)in->imm - 1 : x.i;
        return nr_read(type, r->c->data[a->buffer], at);
    case GALE__CAST: return nr_convert(from, type, x);
    case GALE__SELECT: return x.i ? y : z;
    default: break;
    }
    if (nr_float(from)) return nr_float_op(in->op, x, y, z);
    v = nr_int_op(in->op, x, y);
    v.i = nr_wrap(type, v.i);
    return v;
}

/* OUTER values are kept from one inner point to the next: their stamp is the outer point's. */
static inline nr_value nr_eval(nr_run *r, int i)
{
    uint64_t stamp = r->c->code[i].inner ? r->point : r->outer_point;
    if (r->stamp[i] == stamp) return r->value[i];
    uint64_t point = r->point;
    if (!r->c->code[i].inner) r->point = r->outer_point;
    nr_value v = nr_compute(r, i);
    r->point = point;
    r->stamp[i] = stamp;
    return r->value[i] = v;
}

static inline void nr_write(nr_run *r, const gale__nest_store *st)
{
    const gale__nest_access *a = &r->c->accesses[st->access];
    int64_t at = 0;
    nr_value v = nr_eval(r, st->value);
    if (!nr_address(r, a, &at)) return;
    if (st->index >= 0) {
        int64_t index = nr_eval(r, st->index).i;
        if (index < 0 || index >= st->limit) return;
        at += index;
    }
    char *p = (char *)r->c->expected[a->buffer] + at * (int64_t)gale_type_size(a->type);
    if (nr_float(a->type)) gale__store_f64(a->type, p, v.f);
    else gale__store_i64(a->type, p, v.i);
}

static inline bool nr_stores_inner(const nest_case *c, const gale__nest_store *st)
{
    return c->code[st->value].inner || (st->index >= 0 && c->code[st->index].inner);
}

/* Fills c->expected. */
static inline void nr_evaluate(nest_case *c)
{
    const gale__nest *nest = &c->nest;
    nr_run *r = calloc(1, sizeof *r);
    int64_t outer = 1, inner = 1, dims = nest->n_outer + nest->n_inner;
    bool inner_store = false; /* else there is a point to visit for each result, which reduces by itself */
    for (int d = 0; d < dims; d++) *(d < nest->n_outer ? &outer : &inner) *= nest->extent[d];
    for (int s = 0; s < nest->n_stores; s++) inner_store |= nr_stores_inner(c, &nest->stores[s]);
    for (int b = 0; b < nest->n_buffers; b++) {
        if (!c->buffers[b].written) continue;
        size_t size = (size_t)c->buffers[b].elements * gale_type_size(c->buffers[b].type);
        c->expected[b] = malloc(size);
        memcpy(c->expected[b], c->data[b], size);
    }
    r->c = c;
    for (int64_t p = 0; p < outer * inner; p += inner_store ? 1 : inner) {
        int64_t rest = p;
        for (int d = (int)dims - 1; d >= 0; rest /= nest->extent[d--]) r->at[d] = rest % nest->extent[d];
        if (p % inner == 0) r->outer_point = r->point = 1 + (uint64_t)(p / inner) * 2 * (uint64_t)(inner + 2);
        /* The points a reduction visits and those that are stored are kept apart. */
        r->point = r->outer_point + (uint64_t)(inner + 2) + (uint64_t)(p % inner);
        for (int s = 0; s < nest->n_stores; s++)
            if (p % inner == 0 || nr_stores_inner(c, &nest->stores[s])) nr_write(r, &nest->stores[s]);
    }
    free(r);
}

/* Where the results differ: -1 when they do not. */
static inline int64_t nr_compare(const nest_case *c, int buffer, const void *got)
{
    gale_type type = c->buffers[buffer].type;
    double tolerance = type == GALE_F16 ? 2e-3 : type == GALE_BF16 ? 2e-2 : c->loose;
    for (int64_t i = 0; i < c->buffers[buffer].elements; i++) {
        nr_value want = nr_read(type, c->expected[buffer], i), have = nr_read(type, got, i);
        if (!nr_float(type)) {
            if (want.i != have.i) return i;
        } else if (isnan(want.f) != isnan(have.f)) {
            return i;
        } else if (!isnan(want.f) && want.f != have.f && !(fabs(want.f - have.f) <= tolerance * (fabs(want.f) + 1))) {
            return i;
        }
    }
    return -1;
}
#endif
