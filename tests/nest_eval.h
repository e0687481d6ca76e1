/* A naive evaluator of loop nests for tests: plain recursion over the domain, element by element, floats in double and
 * rounded to the compute type after each operation, integers exactly. */
#ifndef GALE_TEST_NEST_EVAL_H
#define GALE_TEST_NEST_EVAL_H
#include "base/mem.h"
#include "kernel/cpu/math.h"
#include "kernel/nest/nest.h"
#include <string.h>

typedef union eval_value {
    double f;
    int64_t i;
} eval_value; /* f for float types */

typedef struct eval {
    const gale__nest *nest;
    void *const *buffers;
    int64_t at[GALE__NEST_DIMS];
    eval_value value[GALE__NEST_CODE_MAX];
    bool known[GALE__NEST_CODE_MAX]; /* REDUCE results of this outer point */
} eval;

static inline bool eval_is_float(int type) { return gale__type_is_float((gale_type)type); }

static inline eval_value eval_load(gale_type type, const void *p)
{
    eval_value v;
    float f;
    if (type == GALE_F32) memcpy(&f, p, 4), v.f = f; /* most are: others go through tables */
    else if (eval_is_float(type)) v.f = gale__load_f64(type, p);
    else v.i = gale__load_i64(type, p);
    return v;
}

/* A value into the range of its type: integers wrap, floats are rounded to the compute type. */
static inline eval_value eval_fit(gale_type type, eval_value v)
{
    char bytes[8] = {0};
    if (eval_is_float(type)) {
        if (type != GALE_F64) v.f = (float)v.f;
        return v;
    }
    gale__store_i64(type, bytes, v.i);
    v.i = gale__load_i64(type, bytes);
    return v;
}

static inline eval_value eval_cast(gale_type from, gale_type to, eval_value v)
{
    char bytes[8] = {0};
    if (eval_is_float(from)) gale__store_f64(to, bytes, v.f);
    else if (eval_is_float(to) && from == GALE_U64) gale__store_f64(to, bytes, (double)(uint64_t)v.i);
    else gale__store_i64(to, bytes, to == GALE_BOOL ? v.i != 0 : v.i);
    return eval_load(to, bytes);
}

/* False when a guard keeps the access out. */
static inline bool eval_address(const eval *e, const gale__nest_access *a, int64_t *address)
{
    int n = e->nest->n_outer + e->nest->n_inner;
    *address = a->offset;
    for (int d = 0; d < n; d++) *address += a->stride[d] * e->at[d];
    for (int g = 0; g < a->n_guards; g++) {
        const gale__nest_guard *gd = &a->guards[g];
        int64_t v = gd->c0;
        for (int d = 0; d < n; d++) v += gd->coef[d] * e->at[d];
        if (v < 0 || v >= gd->extent * gd->div || v % gd->div) return false;
        if (gd->div > 1) *address += v / gd->div * gd->stride;
    }
    return true;
}

static inline double eval_float_op(int op, int type, double x, double y, double z)
{
    bool wide = type == GALE_F64;
#define EVAL_MATH(NAME, name) \
    case GALE__##NAME: return wide ? m64_##name(x) : m32_##name((float)x)
    switch (op) {
    case GALE__NEG: return -x;
    case GALE__ABS: return fabs(x);
    case GALE__FLOOR: return floor(x);
    case GALE__CEIL: return ceil(x);
    case GALE__RINT: return rint(x);
    case GALE__TRUNC: return trunc(x);
    case GALE__SQRT: return sqrt(x);
    case GALE__ADD: return x + y;
    case GALE__SUB: return x - y;
    case GALE__MUL: return x * y;
    case GALE__DIV: return x / y;
    case GALE__REM: return fmod(x, y);
    case GALE__MIN: return isnan(x) ? x : isnan(y) ? y : x < y ? x : y;
    case GALE__MAX: return isnan(x) ? x : isnan(y) ? y : x > y ? x : y;
    case GALE__FMA:
        return wide ? fma(x, y, z) : (double)fmaf((float)x, (float)y, (float)z);
        EVAL_MATH(EXP, exp);
        EVAL_MATH(LOG, log);
        EVAL_MATH(TANH, tanh);
        EVAL_MATH(ERF, erf);
        EVAL_MATH(SIN, sin);
        EVAL_MATH(EXPM1, expm1);
        EVAL_MATH(LOG1P, log1p);
        EVAL_MATH(COS, cos);
        EVAL_MATH(ATAN, atan);
        EVAL_MATH(SINH, sinh);
    case GALE__POW: return wide ? m64_pow(x, y) : m32_pow((float)x, (float)y);
    default: return NAN;
    }
}

static inline int64_t eval_int_op(int op, gale_type type, int64_t x, int64_t y, int64_t z)
{
    bool u = !gale__type_is_signed(type);
    int width = gale__compute_type(type) == GALE_I64 || gale__compute_type(type) == GALE_U64 ? 64 : 32;
    bool far = (uint64_t)(width == 32 ? (int64_t)(uint32_t)y : y) >= (uint64_t)width;
    switch (op) {
    case GALE__NEG: return (int64_t)(0 - (uint64_t)x);
    case GALE__ABS: return x < 0 && !u ? (int64_t)(0 - (uint64_t)x) : x;
    case GALE__NOT: return type == GALE_BOOL ? !x : ~x;
    case GALE__ADD: return (int64_t)((uint64_t)x + (uint64_t)y);
    case GALE__SUB: return (int64_t)((uint64_t)x - (uint64_t)y);
    case GALE__MUL: return (int64_t)((uint64_t)x * (uint64_t)y);
    case GALE__DIV:
        return y == 0 ? 0 : u ? (int64_t)((uint64_t)x / (uint64_t)y) : y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
    case GALE__REM: return y == 0 ? 0 : u ? (int64_t)((uint64_t)x % (uint64_t)y) : y == -1 ? 0 : x % y;
    case GALE__MIN: return (u ? (uint64_t)x < (uint64_t)y : x < y) ? x : y;
    case GALE__MAX: return (u ? (uint64_t)x > (uint64_t)y : x > y) ? x : y;
    case GALE__AND: return x & y;
    case GALE__OR: return x | y;
    case GALE__XOR: return x ^ y;
    case GALE__SHL: return far ? 0 : (int64_t)((uint64_t)x << y);
    case GALE__SHR: return far ? (x < 0 && !u ? -1 : 0) : u ? (int64_t)((uint64_t)x >> y) : x >> y;
    case GALE__FMA: return (int64_t)((uint64_t)x * (uint64_t)y + (uint64_t)z);
    default: return 0;
    }
}

static inline bool eval_compare(int op, gale_type type, eval_value x, eval_value y)
{
    int less, equal;
    if (eval_is_float(type)) less = x.f < y.f, equal = x.f == y.f;
    else less = gale__type_is_signed(type) ? x.i < y.i : (uint64_t)x.i < (uint64_t)y.i, equal = x.i == y.i;
    bool unordered = eval_is_float(type) && (isnan(x.f) || isnan(y.f));
    switch (op) {
    case GALE__EQ: return equal;
    case GALE__NE: return !equal;
    case GALE__LT: return less;
    case GALE__LE: return less || equal;
    case GALE__GT: return !less && !equal && !unordered;
    default: return !less && !unordered;
    }
}

static inline eval_value eval_instr(eval *e, int i);

static inline eval_value eval_scalar(eval *e, const gale__nest_instr *in)
{
    const gale__nest_instr *code = e->nest->code;
    int arity = gale__scalar_table[in->op].arity;
    eval_value x = eval_instr(e, in->a), y = {0}, z = {0}, v = {0};
    if (arity > 1) y = eval_instr(e, in->b);
    if (arity > 2) z = eval_instr(e, in->c);
    gale_type from = (gale_type)code[in->a].type, type = (gale_type)in->type;
    char bytes[8] = {0};
    switch (in->op) {
    case GALE__CAST: return eval_cast(from, type, x);
    case GALE__SELECT: return x.i ? y : z;
    case GALE__BITCAST:
        if (eval_is_float(from)) gale__store_f64(from, bytes, x.f);
        else gale__store_i64(from, bytes, x.i);
        return eval_load(type, bytes);
    case GALE__RANDOM:
        v.i =
            m32_philox((uint32_t)x.i, (uint32_t)((uint64_t)x.i >> 32), (uint32_t)y.i, (uint32_t)((uint64_t)y.i >> 32));
        return v;
    case GALE__EQ:
    case GALE__NE:
    case GALE__LT:
    case GALE__LE:
    case GALE__GT:
    case GALE__GE: v.i = eval_compare(in->op, from, x, y); return v;
    default: break;
    }
    if (eval_is_float(type)) v.f = eval_float_op(in->op, type, x.f, y.f, z.f);
    else v.i = eval_int_op(in->op, type, x.i, y.i, z.i);
    return eval_fit(type, v);
}

static inline eval_value eval_instr(eval *e, int i)
{
    const gale__nest_instr *in = &e->nest->code[i];
    const gale__nest_access *a = &e->nest->accesses[in->access];
    int64_t address;
    eval_value v = {0};
    if (in->op < GALE__SCALAR_COUNT) return eval_scalar(e, in);
    switch (in->op) {
    case GALE__NEST_CONST: {
        char bytes[8];
        memcpy(bytes, &in->imm, 8);
        return eval_load(gale__compute_type((gale_type)in->type), bytes);
    }
    case GALE__NEST_INDEX: v.i = eval_address(e, a, &address) ? address : (int64_t)a->fill; return v;
    case GALE__NEST_REDUCE: return e->value[i];
    default: break;
    }
    if (!eval_address(e, a, &address)) return eval_load(a->type, &a->fill);
    if (in->op == GALE__NEST_TAKE) {
        int64_t index = eval_instr(e, in->a).i;
        address += index < 0 ? 0 : index >= (int64_t)in->imm ? (int64_t)in->imm - 1 : index;
    }
    int64_t size = a->type == GALE_F32 ? 4 : (int64_t)gale_type_size(a->type);
    return eval_load(a->type, (const char *)e->buffers[a->buffer] + address * size);
}

/* Steps the coordinates of [from, to); false at the end. */
static inline bool eval_next(eval *e, int from, int to)
{
    for (int d = to - 1; d >= from; d--) {
        if (++e->at[d] < e->nest->extent[d]) return true;
        e->at[d] = 0;
    }
    return false;
}

/* A load of f32 along the last dimension: its address and guards where that coordinate is 0. */
typedef struct eval_row {
    const gale__nest_access *access;
    const float *data;
    float fill;
    int64_t address, guard[4];
} eval_row;

static inline bool eval_row_of(const eval *e, const gale__nest_instr *in, eval_row *r)
{
    r->access = &e->nest->accesses[in->access];
    if (in->op != GALE__NEST_LOAD || r->access->type != GALE_F32 || r->access->n_guards > 4) return false;
    for (int g = 0; g < r->access->n_guards; g++)
        if (r->access->guards[g].div > 1) return false;
    r->data = e->buffers[r->access->buffer];
    memcpy(&r->fill, &r->access->fill, sizeof r->fill);
    return true;
}

static inline int64_t eval_affine(const eval *e, int64_t start, const int64_t *factor)
{
    for (int d = 0; d < e->nest->n_outer + e->nest->n_inner; d++) start += factor[d] * e->at[d];
    return start;
}

static inline void eval_row_begin(const eval *e, eval_row *r)
{
    const gale__nest_access *a = r->access;
    r->address = eval_affine(e, a->offset, a->stride);
    for (int g = 0; g < a->n_guards; g++) r->guard[g] = eval_affine(e, a->guards[g].c0, a->guards[g].coef);
}

/* n steps along a dimension. */
static inline void eval_row_move(eval_row *r, int d, int64_t n)
{
    const gale__nest_access *a = r->access;
    r->address += a->stride[d] * n;
    for (int g = 0; g < a->n_guards; g++) r->guard[g] += a->guards[g].coef[d] * n;
}

/* To the next row of [first, across); false at the end. */
static inline bool eval_rows_next(eval *e, int first, int across, eval_row *x, eval_row *y)
{
    for (int d = across - 1; d >= first; d--) {
        bool more = ++e->at[d] < e->nest->extent[d];
        int64_t n = more ? 1 : 1 - e->nest->extent[d];
        if (!more) e->at[d] = 0;
        eval_row_move(x, d, n);
        eval_row_move(y, d, n);
        if (more) return true;
    }
    return false;
}

static inline float eval_row_at(const eval_row *r, int across, int64_t at)
{
    const gale__nest_access *a = r->access;
    for (int g = 0; g < a->n_guards; g++) {
        int64_t v = r->guard[g] + a->guards[g].coef[across] * at;
        if (v < 0 || v >= a->guards[g].extent) return r->fill;
    }
    return r->data[r->address + a->stride[across] * at];
}

/* Most of what tests compute: a sum of products of two loads of f32.  The same as below, a row at a time instead of an
 * instruction; false if it is something else. */
static inline bool eval_products(eval *e, const gale__nest_instr *in, eval_value *out)
{
    const gale__nest_instr *code = e->nest->code, *product = &code[in->a];
    int first = e->nest->n_outer, across = first + e->nest->n_inner - 1;
    eval_row x, y;
    bool plain = in->imm == GALE__SUM && in->acc == GALE_F32 && in->type == GALE_F32;
    if (!plain || product->op != GALE__MUL || product->type != GALE_F32 || !eval_row_of(e, &code[product->a], &x) ||
        !eval_row_of(e, &code[product->b], &y))
        return false;
    double sum = -0.0;
    eval_row_begin(e, &x);
    eval_row_begin(e, &y);
    do
        for (int64_t i = 0; i < e->nest->extent[across]; i++)
            sum += eval_row_at(&x, across, i) * eval_row_at(&y, across, i); /* rounded once, as in double */
    while (eval_rows_next(e, first, across, &x, &y));
    out->f = (float)sum;
    return true;
}

static inline void eval_reduce(eval *e, int i)
{
    const gale__nest_instr *in = &e->nest->code[i];
    gale_type from = (gale_type)e->nest->code[in->a].type, acc = (gale_type)in->acc, wide = gale__compute_type(acc);
    int kind = (int)in->imm, first = e->nest->n_outer, all = first + e->nest->n_inner;
    bool arg = kind >= GALE__ARGMAX;
    eval_value s = {0};
    int64_t place = 0, best = 0;
    if (arg) acc = from;
    for (int d = first; d < all; d++) e->at[d] = 0;
    if (eval_products(e, in, &e->value[i])) return;
    do {
        eval_value v = eval_instr(e, in->a);
        if (!arg && from != wide) v = eval_cast(from, wide, v);
        bool nan_v = eval_is_float(acc) && isnan(v.f), nan_s = eval_is_float(acc) && isnan(s.f);
        bool more = kind == GALE__RMAX || kind == GALE__ARGMAX || kind == GALE__ARGMAX_LAST;
        bool tie = kind == GALE__ARGMAX_LAST || kind == GALE__ARGMIN_LAST;
        if (place == 0) s = v;
        else if (kind == GALE__SUM && eval_is_float(acc)) s.f += v.f;
        else if (kind == GALE__PROD && eval_is_float(acc)) s.f *= v.f;
        else if (kind == GALE__SUM) s.i = eval_int_op(GALE__ADD, acc, s.i, v.i, 0);
        else if (kind == GALE__PROD) s.i = eval_int_op(GALE__MUL, acc, s.i, v.i, 0);
        else if ((nan_v && (!nan_s || tie)) || (!nan_s && eval_compare(more  ? (tie ? GALE__GE : GALE__GT)
                                                                       : tie ? GALE__LE
                                                                             : GALE__LT,
                                                              acc, v, s))) {
            s = v;
            best = place;
        }
        if (!eval_is_float(acc)) s = eval_fit(arg ? gale__compute_type(acc) : wide, s);
        place++;
    } while (eval_next(e, first, all));
    if (arg) s.i = best;
    else if (eval_is_float(acc) != eval_is_float(in->type) || !eval_is_float(acc))
        s = eval_cast(wide, (gale_type)in->type, s);
    e->value[i] = eval_is_float(in->type) && !arg ? eval_fit((gale_type)in->type, s) : s;
}

static inline void eval_store(eval *e, const gale__nest_store *st)
{
    const gale__nest_access *a = &e->nest->accesses[st->access];
    gale_type type = (gale_type)e->nest->code[st->value].type;
    int64_t address;
    if (!eval_address(e, a, &address)) return;
    if (st->index >= 0) {
        int64_t index = eval_instr(e, st->index).i;
        if (index < 0 || index >= st->limit) return;
        address += index;
    }
    eval_value v = eval_instr(e, st->value);
    void *p = (char *)e->buffers[a->buffer] + address * (int64_t)gale_type_size(a->type);
    if (eval_is_float(type)) gale__store_f64(a->type, p, v.f);
    else if (type == GALE_U64 && eval_is_float(a->type)) gale__store_f64(a->type, p, (double)(uint64_t)v.i);
    else gale__store_i64(a->type, p, v.i);
}

static inline void eval_run(const gale__nest *nest, void *const *buffers)
{
    static eval e;
    memset(&e, 0, sizeof e);
    e.nest = nest;
    e.buffers = buffers;
    int first = nest->n_outer, all = first + nest->n_inner;
    do {
        for (int i = 0; i < nest->n_code; i++)
            if (nest->code[i].op == GALE__NEST_REDUCE) eval_reduce(&e, i);
        for (int s = 0; s < nest->n_stores; s++) {
            const gale__nest_store *st = &nest->stores[s];
            bool inner = nest->code[st->value].inner || (st->index >= 0 && nest->code[st->index].inner);
            for (int d = first; d < all; d++) e.at[d] = 0;
            do eval_store(&e, st);
            while (inner && eval_next(&e, first, all));
        }
        for (int d = first; d < all; d++) e.at[d] = 0;
    } while (eval_next(&e, 0, first));
}
#endif
