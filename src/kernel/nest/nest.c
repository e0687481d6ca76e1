/* Loop nests: canonical form, cost, printing, and recognition of contractions.  The canonical form has as few
 * dimensions as the accesses allow, in memory order, so that nests that differ only in how their shape was written
 * share one kernel. */
#include "kernel/nest/nest.h"
#include <inttypes.h>
#include <string.h>

static int dims_of(const gale__nest *nest) { return nest->n_outer + nest->n_inner; }

/* A dilated axis whose coordinate is always whole is an ordinary one. */
static void undilate(const gale__nest *nest, gale__nest_access *a, gale__nest_guard *g)
{
    int n = dims_of(nest);
    if (g->div <= 1 || g->c0 % g->div) return;
    for (int d = 0; d < n; d++)
        if (g->coef[d] % g->div && nest->extent[d] > 1) return;
    for (int d = 0; d < n; d++) {
        g->coef[d] /= g->div;
        a->stride[d] += g->coef[d] * g->stride;
    }
    g->c0 /= g->div;
    a->offset += g->c0 * g->stride;
    g->div = 1;
    g->stride = 0;
}

static bool always_true(const gale__nest *nest, const gale__nest_guard *g)
{
    int64_t low = g->c0, high = g->c0;
    if (g->div > 1) return false;
    for (int d = 0; d < dims_of(nest); d++) {
        int64_t reach = g->coef[d] * (nest->extent[d] - 1);
        if (reach < 0) low += reach;
        else high += reach;
    }
    return low >= 0 && high < g->extent;
}

gale__nest_access *gale__nest_accesses_copy(gale__arena *arena, const gale__nest_access *accesses, int n)
{
    size_t guards = 0;
    for (int i = 0; i < n; i++) guards += (size_t)accesses[i].n_guards;
    gale__nest_access *copy = gale__arena_alloc(arena, (size_t)n * sizeof *copy);
    gale__nest_guard *room = guards ? gale__arena_alloc(arena, guards * sizeof *room) : NULL;
    if (!copy || (guards && !room)) return NULL;
    for (int i = 0; i < n; i++) {
        gale__nest_access_copy(&copy[i], &accesses[i], room);
        if (accesses[i].n_guards) room += accesses[i].n_guards;
    }
    return copy;
}

gale_status gale__nest_copy(gale__arena *arena, const gale__nest *from, gale__nest *out)
{
    *out = *from;
    out->code = gale__arena_copy(arena, from->code, sizeof *from->code * (size_t)from->n_code);
    out->accesses = gale__nest_accesses_copy(arena, from->accesses, from->n_accesses);
    out->stores = gale__arena_copy(arena, from->stores, sizeof *from->stores * (size_t)from->n_stores);
    out->buffers = gale__arena_copy(arena, from->buffers, sizeof *from->buffers * (size_t)from->n_buffers);
    return out->code && out->accesses && out->stores && out->buffers ? GALE_OK : GALE_NO_MEMORY;
}

static void simplify_guards(const gale__nest *nest, gale__nest_access *a)
{
    int kept = 0;
    for (int i = 0; i < a->n_guards; i++) {
        undilate(nest, a, &a->guards[i]);
        if (always_true(nest, &a->guards[i])) continue;
        if (kept != i) a->guards[kept] = a->guards[i];
        kept++;
    }
    a->n_guards = kept;
}

/* order[d]: the old dimension that becomes dimension d; n: how many stay. */
static void reorder(gale__nest *nest, const int *order, int n)
{
    int64_t old[GALE__NEST_DIMS];
    memcpy(old, nest->extent, sizeof old);
    for (int d = 0; d < n; d++) nest->extent[d] = old[order[d]];
    for (int i = 0; i < nest->n_accesses; i++) {
        gale__nest_access *a = &nest->accesses[i];
        memcpy(old, a->stride, sizeof old);
        for (int d = 0; d < n; d++) a->stride[d] = old[order[d]];
        for (int g = 0; g < a->n_guards; g++) {
            memcpy(old, a->guards[g].coef, sizeof old);
            for (int d = 0; d < n; d++) a->guards[g].coef[d] = old[order[d]];
        }
    }
}

static int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

/* How dimension d is walked by access a, for sorting: a broadcast (0) is the slowest. */
static uint64_t rank_of(const gale__nest_access *a, int d)
{
    return a->stride[d] ? (uint64_t)magnitude(a->stride[d]) : UINT64_MAX;
}

/* Elements that an access reads in all, and how many dimensions of [from, to) it walks. */
static double weight_of(const gale__nest *nest, const gale__nest_access *a, int from, int to)
{
    double elements = 1;
    int walked = 0;
    for (int d = 0; d < dims_of(nest); d++) {
        if (a->stride[d]) elements *= (double)nest->extent[d];
        walked += d >= from && d < to && a->stride[d];
    }
    return walked ? walked + elements / (elements + 1) : 0; /* a fraction decides between equals */
}

/* Accesses in the order in which they decide: stores, then those that walk most dimensions of [from, to), and among
 * them the larger operand. */
static int deciders(const gale__nest *nest, int from, int to, const gale__nest_access *list[8])
{
    int n = 0;
    double count[8];
    for (int s = 0; s < nest->n_stores && n < 4; s++) {
        const gale__nest_access *a = &nest->accesses[nest->stores[s].access];
        bool walks = false;
        for (int d = from; d < to; d++) walks |= a->stride[d] != 0;
        if (walks) {
            count[n] = 1 << 20;
            list[n++] = a;
        }
    }
    for (int i = 0; i < nest->n_accesses; i++) {
        const gale__nest_access *a = &nest->accesses[i];
        int at = n < 8 ? n : 7;
        double walked = weight_of(nest, a, from, to);
        if (walked == 0 || a->buffer < 0 || (n == 8 && count[7] >= walked)) continue;
        for (; at > 0 && count[at - 1] < walked; at--) {
            list[at] = list[at - 1];
            count[at] = count[at - 1];
        }
        list[at] = a;
        count[at] = walked;
        if (n < 8) n++;
    }
    return n;
}

static bool before(const gale__nest_access *const *list, int n, int d, int e)
{
    for (int i = 0; i < n; i++) {
        uint64_t x = rank_of(list[i], d), y = rank_of(list[i], e);
        if (x != y) return x > y;
    }
    return false;
}

/* Insertion sort of order[from, to): largest stride first. */
static bool sort_dims(const gale__nest *nest, int *order, int from, int to)
{
    const gale__nest_access *list[8];
    bool moved = false;
    if (to - from < 2) return false;
    int n = deciders(nest, from, to, list);
    for (int i = from + 1; i < to; i++)
        for (int j = i; j > from && before(list, n, order[j], order[j - 1]); j--) {
            int t = order[j];
            order[j] = order[j - 1];
            order[j - 1] = t;
            moved = true;
        }
    return moved;
}

static bool can_merge(const gale__nest *nest, int d)
{
    int64_t extent = nest->extent[d + 1];
    for (int i = 0; i < nest->n_accesses; i++) {
        const gale__nest_access *a = &nest->accesses[i];
        if (a->stride[d] != a->stride[d + 1] * extent) return false;
        for (int g = 0; g < a->n_guards; g++)
            if (a->guards[g].coef[d] != a->guards[g].coef[d + 1] * extent) return false;
    }
    return true;
}

static void merge(gale__nest *nest)
{
    int order[GALE__NEST_DIMS], n = 0, outer = 0, all = dims_of(nest);
    for (int d = 0; d < all; d++) {
        if (d + 1 < all && d + 1 != nest->n_outer && can_merge(nest, d)) {
            nest->extent[d + 1] *= nest->extent[d];
            continue;
        }
        order[n++] = d;
        outer += d < nest->n_outer;
    }
    if (n == all) return;
    reorder(nest, order, n);
    nest->n_outer = outer;
    nest->n_inner = n - outer;
}

static bool has_arg_reduce(const gale__nest *nest)
{
    for (int i = 0; i < nest->n_code; i++)
        if (nest->code[i].op == GALE__NEST_REDUCE && nest->code[i].imm >= GALE__ARGMAX) return true;
    return false;
}

void gale__nest_canonicalize(gale__nest *nest)
{
    int order[GALE__NEST_DIMS], n = 0, outer = 0, all = dims_of(nest);
    for (int i = 0; i < nest->n_accesses; i++)
        if (nest->accesses[i].n_guards) simplify_guards(nest, &nest->accesses[i]);
    for (int d = 0; d < all; d++) {
        if (nest->extent[d] == 1) continue;
        order[n++] = d;
        outer += d < nest->n_outer;
    }
    if (n != all) reorder(nest, order, n);
    nest->n_outer = outer;
    nest->n_inner = n - outer;

    for (int d = 0; d < n; d++) order[d] = d;
    bool moved = sort_dims(nest, order, 0, outer);
    /* The index that an ARG reduction returns counts the inner dimensions in the order in which they were declared. */
    if (!has_arg_reduce(nest)) moved |= sort_dims(nest, order, outer, n);
    if (moved) reorder(nest, order, n);
    merge(nest);
}

static double points(const gale__nest *nest, bool inner)
{
    double p = 1;
    for (int d = 0; d < nest->n_outer + (inner ? nest->n_inner : 0); d++) p *= (double)nest->extent[d];
    return p;
}

/* Elements of its buffer that an access touches, at most. */
static double footprint(const gale__nest *nest, const gale__nest_access *a, bool indirect)
{
    double count = 1;
    for (int d = 0; d < dims_of(nest); d++) {
        bool walks = a->stride[d] != 0;
        for (int g = 0; g < a->n_guards; g++) walks |= a->guards[g].div > 1 && a->guards[g].coef[d] != 0;
        if (walks || indirect) count *= (double)nest->extent[d];
    }
    double all = (double)nest->buffers[a->buffer].elements;
    return count < all ? count : all;
}

/* Expands to a dozen or so operations each; counted so that mathematics is not taken for free. */
#define MATH_OPERATIONS 10

static double operations_of(const gale__nest_instr *in)
{
    if (in->op == GALE__NEST_REDUCE) return 1;
    if (in->op >= GALE__SCALAR_COUNT) return 0;
    return gale__scalar_table[in->op].class_ == 'm' ? MATH_OPERATIONS : 1;
}

/* The dimensions that an access depends on, as a mask. */
static int64_t walked(const gale__nest *nest, const gale__nest_access *a)
{
    int64_t mask = 0;
    for (int d = 0; d < dims_of(nest); d++) {
        bool walks = a->stride[d] != 0;
        for (int g = 0; g < a->n_guards; g++) walks |= a->guards[g].coef[d] != 0;
        if (walks) mask |= (int64_t)1 << d;
    }
    return mask;
}

/* Values that differ: of an instruction over the dimensions of a mask, made of at most so many. */
typedef struct distinct {
    int64_t mask;
    double most;
} distinct;

static distinct distinct_of(const gale__nest *nest, const gale__nest_instr *in, const distinct *before)
{
    const int32_t operand[3] = {in->a, in->b, in->c};
    distinct r = {0, 1};
    if (in->op == GALE__NEST_LOAD || in->op == GALE__NEST_INDEX || in->op == GALE__NEST_TAKE)
        r.mask = walked(nest, &nest->accesses[in->access]);
    if (in->op == GALE__NEST_LOAD) r.most = footprint(nest, &nest->accesses[in->access], false);
    for (int k = 0; k < gale__nest_arity(in); k++) {
        const distinct *x = &before[operand[k]];
        bool side_by_side = x->mask == r.mask;
        r.most = side_by_side ? (x->most > r.most ? x->most : r.most) : x->most * r.most;
        r.mask |= x->mask;
    }
    double points = 1;
    for (int d = 0; d < dims_of(nest); d++)
        if (r.mask >> d & 1) points *= (double)nest->extent[d];
    if (in->op == GALE__NEST_INDEX || in->op == GALE__NEST_TAKE || points < r.most) r.most = points;
    return r;
}

/* Operations before a product are counted once for each of their values, not for each product that uses it: kernels
 * keep the values in tiles. */
static double contraction_operations(const gale__nest *nest, const gale__contraction *c)
{
    distinct values[GALE__NEST_CODE_MAX];
    double outer = points(nest, false), all = points(nest, true), sum = 0;
    for (int i = 0; i < nest->n_code; i++) {
        const gale__nest_instr *in = &nest->code[i];
        bool factor = in->inner && i < c->mul;
        values[i] = distinct_of(nest, in, values);
        sum += operations_of(in) * (factor ? values[i].most : i == c->mul || i == c->reduce ? all : outer);
    }
    return sum;
}

void gale__nest_cost(const gale__nest *nest, double *bytes, double *operations)
{
    double outer = points(nest, false), all = points(nest, true);
    gale__contraction c;
    *bytes = *operations = 0;
    if (gale__nest_contraction(nest, &c)) *operations = contraction_operations(nest, &c);
    else
        for (int i = 0; i < nest->n_code; i++) {
            bool inner = nest->code[i].inner || nest->code[i].op == GALE__NEST_REDUCE;
            *operations += operations_of(&nest->code[i]) * (inner ? all : outer);
        }
    for (int b = 0; b < nest->n_buffers; b++) {
        double read = 0, written = 0, size = (double)gale_type_size(nest->buffers[b].type);
        for (int i = 0; i < nest->n_code; i++) {
            const gale__nest_instr *in = &nest->code[i];
            if ((in->op != GALE__NEST_LOAD && in->op != GALE__NEST_TAKE) || nest->accesses[in->access].buffer != b)
                continue;
            double f = footprint(nest, &nest->accesses[in->access], in->op == GALE__NEST_TAKE);
            if (f > read) read = f;
        }
        for (int s = 0; s < nest->n_stores; s++) {
            const gale__nest_access *a = &nest->accesses[nest->stores[s].access];
            if (a->buffer == b) written += footprint(nest, a, nest->stores[s].index >= 0);
        }
        *bytes += (read + written) * size;
    }
}

/* Infinities, or the ends of an integer type. */
static uint64_t end_of(gale_type type, bool low)
{
    switch (type) {
    case GALE_F32: return low ? 0xff800000u : 0x7f800000u;
    case GALE_F64: return low ? 0xfff0000000000000u : 0x7ff0000000000000u;
    case GALE_I32: return low ? 0x80000000u : 0x7fffffffu;
    case GALE_I64: return low ? 0x8000000000000000u : 0x7fffffffffffffffu;
    default: return low ? 0 : ~(uint64_t)0;
    }
}

uint64_t gale__reduce_start(gale__reduce kind, gale_type compute)
{
    if (kind == GALE__SUM) return 0;
    if (kind == GALE__PROD) return compute == GALE_F32 ? 0x3f800000u : compute == GALE_F64 ? 0x3ff0000000000000u : 1;
    return end_of(compute, kind == GALE__RMAX || kind == GALE__ARGMAX || kind == GALE__ARGMAX_LAST);
}

static const char *const reduce_names[] = {
    "sum", "prod", "max", "min", "argmax", "argmin", "argmax_last", "argmin_last"};

static void print_affine(gale__str *out, const int64_t *coef, int n, int64_t constant)
{
    for (int d = 0; d < n; d++)
        if (coef[d]) gale__str_addf(out, "%" PRId64 "*d%d + ", coef[d], d);
    gale__str_addf(out, "%" PRId64, constant);
}

static void print_access(const gale__nest *nest, const gale__nest_access *a, gale__str *out)
{
    if (a->buffer >= 0) gale__str_addf(out, "b%d:%s", a->buffer, gale_type_name(a->type));
    gale__str_add(out, "[");
    print_affine(out, a->stride, dims_of(nest), a->offset);
    gale__str_add(out, "]");
    for (int g = 0; g < a->n_guards; g++) {
        gale__str_add(out, g ? ", " : " if ");
        print_affine(out, a->guards[g].coef, dims_of(nest), a->guards[g].c0);
        if (a->guards[g].div == GALE__WRAPS) {
            gale__str_addf(out, " round %" PRId64, a->guards[g].extent);
            continue;
        }
        gale__str_addf(out, " in [0, %" PRId64 ")", a->guards[g].extent * a->guards[g].div);
        if (a->guards[g].div > 1)
            gale__str_addf(out, " by %" PRId64 " at stride %" PRId64, a->guards[g].div, a->guards[g].stride);
    }
    if (a->n_guards) gale__str_addf(out, " else %#" PRIx64, a->fill);
}

static void print_instr(const gale__nest *nest, int i, gale__str *out)
{
    const gale__nest_instr *in = &nest->code[i];
    gale__str_addf(out, "  %%%d %s %s = ", i, gale_type_name((gale_type)in->type), in->inner ? "inner" : "outer");
    switch (in->op) {
    case GALE__NEST_CONST: gale__str_addf(out, "const %#" PRIx64, in->imm); break;
    case GALE__NEST_LOAD:
        gale__str_add(out, "load ");
        print_access(nest, &nest->accesses[in->access], out);
        break;
    case GALE__NEST_INDEX:
        gale__str_add(out, "index ");
        print_access(nest, &nest->accesses[in->access], out);
        break;
    case GALE__NEST_TAKE:
        gale__str_addf(out, "take %%%d of %" PRId64 " at ", in->a, (int64_t)in->imm);
        print_access(nest, &nest->accesses[in->access], out);
        break;
    case GALE__NEST_REDUCE:
        gale__str_addf(
            out, "reduce %s %%%d in %s", reduce_names[in->imm & 7], in->a, gale_type_name((gale_type)in->acc));
        break;
    default: {
        const int32_t operand[3] = {in->a, in->b, in->c};
        gale__str_add(out, gale__scalar_table[in->op].name);
        for (int k = 0; k < gale__scalar_table[in->op].arity; k++) gale__str_addf(out, " %%%d", operand[k]);
    }
    }
    gale__str_add(out, "\n");
}

void gale__nest_print(const gale__nest *nest, gale__str *out)
{
    gale__str_add(out, "nest");
    for (int d = 0; d < dims_of(nest); d++)
        gale__str_addf(out, "%s%" PRId64, d == nest->n_outer ? " | " : d ? " x " : " ", nest->extent[d]);
    gale__str_add(out, "\n");
    for (int i = 0; i < nest->n_code; i++) print_instr(nest, i, out);
    for (int s = 0; s < nest->n_stores; s++) {
        const gale__nest_store *st = &nest->stores[s];
        gale__str_addf(out, "  store %%%d to ", st->value);
        print_access(nest, &nest->accesses[st->access], out);
        if (st->index >= 0) gale__str_addf(out, " + %%%d below %" PRId64, st->index, st->limit);
        gale__str_add(out, "\n");
    }
}

/* Which dimensions the value of instruction `at` depends on, as a mask; -1 when a reduction is below it. */
static int64_t walked_by(const gale__nest *nest, int at)
{
    uint8_t needed[GALE__NEST_CODE_MAX] = {0};
    int64_t mask = 0;
    needed[at] = 1;
    for (int i = at; i >= 0; i--) {
        const gale__nest_instr *in = &nest->code[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        if (!needed[i]) continue;
        if (in->op == GALE__NEST_REDUCE) return -1;
        if (in->op == GALE__NEST_LOAD || in->op == GALE__NEST_INDEX || in->op == GALE__NEST_TAKE)
            mask |= walked(nest, &nest->accesses[in->access]);
        for (int k = 0; k < gale__nest_arity(in); k++) needed[operand[k]] = 1;
    }
    return mask;
}

int gale__nest_arity(const gale__nest_instr *in)
{
    if (in->op < GALE__SCALAR_COUNT) return gale__scalar_table[in->op].arity;
    return in->op == GALE__NEST_TAKE || in->op == GALE__NEST_REDUCE;
}

bool gale__nest_contraction(const gale__nest *nest, gale__contraction *out)
{
    int reduce = -1;
    if (nest->n_code > GALE__NEST_CODE_MAX) return false;
    for (int i = 0; i < nest->n_code; i++) {
        if (nest->code[i].op != GALE__NEST_REDUCE) continue;
        if (reduce >= 0 || nest->code[i].imm != GALE__SUM) return false;
        reduce = i;
    }
    if (reduce < 0) return false;
    int mul = nest->code[reduce].a;
    if (nest->code[mul].op != GALE__MUL || !nest->code[mul].inner) return false;
    for (int s = 0; s < nest->n_stores; s++)
        if (nest->code[nest->stores[s].value].inner || nest->stores[s].index >= 0) return false;
    int64_t a = walked_by(nest, nest->code[mul].a), b = walked_by(nest, nest->code[mul].b);
    *out = (gale__contraction){.reduce = reduce,
        .mul = mul,
        .a = nest->code[mul].a,
        .b = nest->code[mul].b,
        .b_count = 1,
        .m = 1,
        .n = 1,
        .k = 1};
    for (int d = 0; d < dims_of(nest); d++) {
        bool by_a = a >> d & 1, by_b = b >> d & 1;
        char kind = d >= nest->n_outer ? 'K' : by_a == by_b ? 'B' : by_a ? 'M' : 'N';
        int64_t *count = kind == 'K' ? &out->k : kind == 'B' ? &out->b_count : kind == 'M' ? &out->m : &out->n;
        out->kind[d] = (uint8_t)kind;
        *count *= nest->extent[d];
    }
    return true;
}
