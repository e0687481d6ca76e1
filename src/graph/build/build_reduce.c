/* Reductions, scans, sorting and random numbers. */
#include "graph/build/build.h"
#include <math.h>
#include <string.h>

uint64_t gale__reduce_identity(gale__reduce kind, gale_type type)
{
    bool low = kind == GALE__RMAX;
    if (kind == GALE__SUM || kind >= GALE__ARGMAX) return 0;
    if (kind == GALE__PROD) return gale__prim_bits(type, 1);
    if (gale__type_is_float(type)) return gale__prim_bits(type, low ? -INFINITY : INFINITY);
    uint64_t bits = 0;
    int width = gale__type_table[type].bits, s = gale__type_table[type].kind == 'i';
    if (type == GALE_BOOL) return !low;
    uint64_t top = width - s == 64 ? UINT64_MAX : (1ull << (width - s)) - 1;
    gale__store_i64(type, &bits, (int64_t)(low ? (s ? ~top : 0) : top));
    return bits;
}

/* Both below: dims of x, with the axes of the mask at 1. */
static void reduced_dims(const gale__prim_node *p, uint32_t axes, int64_t *dims)
{
    for (int d = 0; d < p->rank; d++) dims[d] = axes >> d & 1 ? 1 : p->dims[d];
}

static gale__node reduce_kept(gale__prim_graph *g, gale__reduce kind, gale__node x, uint32_t axes)
{
    const gale__prim_node *p = &g->nodes[x];
    gale_type type = kind >= GALE__ARGMAX ? GALE_I64 : p->type;
    int64_t dims[GALE_MAX_RANK];
    reduced_dims(p, axes, dims);
    uint32_t real = 0;
    bool empty = false;
    for (int d = 0; d < p->rank; d++) {
        if (!(axes >> d & 1)) continue;
        empty = empty || p->dims[d] == 0;
        if (p->dims[d] != 1) real |= 1u << d;
    }
    if (!real && kind < GALE__ARGMAX) return x;
    if (!real) return gale__prim_splat(g, GALE_I64, p->rank, dims, 0);
    gale__prim_draft d;
    if (empty) {
        uint64_t bits = gale__reduce_identity(kind, type);
        gale__prim_draft_init(&d, GALE__PRIM_CONST, type, p->rank, dims);
        d.node.splat = 1;
        d.node.data = &bits;
        return gale__prim_push(g, &d.node);
    }
    gale__prim_draft_init(&d, GALE__PRIM_REDUCE, type, p->rank, dims);
    d.in[0] = x;
    d.node.n_in = 1;
    d.attr[0] = kind, d.attr[1] = real, d.attr[2] = gale__compute_type(p->type);
    d.node.n_attr = 3;
    return gale__prim_push(g, &d.node);
}

/* Few long reductions do not fill a device, and a long chain of additions loses digits: they run in two steps, parts
 * first. Gives the number of parts the longest reduced axis is cut into, 1 for none. */
static int64_t parts_of(const gale__prim_graph *g, gale__node x, uint32_t axes, int *axis)
{
    const gale__prim_node *p = &g->nodes[x];
    int64_t outer = 1, inner = 1, longest = 0, parts = 1;
    for (int d = 0; d < p->rank; d++) {
        *(axes >> d & 1 ? &inner : &outer) *= p->dims[d];
        if (axes >> d & 1 && p->dims[d] > longest) longest = p->dims[d], *axis = d;
    }
    bool product =
        p->op == GALE__MUL && g->nodes[p->in[0]].op == GALE__PRIM_EXPAND && g->nodes[p->in[1]].op == GALE__PRIM_EXPAND;
    if (inner < 1 << 16 || outer > 256 || product || p->rank >= GALE_MAX_RANK)
        return 1; /* contractions have schedules of their own */
    for (int64_t f = 2; f <= 1024 && f * 64 <= longest && outer * f <= 4096; f++)
        if (longest % f == 0) parts = f;
    return parts;
}

static gale__node reduce_in_parts(
    gale__prim_graph *g, gale__reduce kind, gale__node x, uint32_t axes, int axis, int64_t parts)
{
    const gale__prim_node *p = &g->nodes[x];
    int64_t dims[GALE_MAX_RANK], kept[GALE_MAX_RANK];
    int rank = p->rank + 1;
    uint32_t low = (1u << axis) - 1, first = (axes & low) | (axes & ~low)
                                                                << 1; /* the parts' axis comes before the cut one */
    for (int d = 0; d < rank; d++)
        dims[d] = d < axis ? p->dims[d] : d == axis ? parts : d == axis + 1 ? p->dims[axis] / parts : p->dims[d - 1];
    reduced_dims(p, axes, kept);
    gale__node cut = gale__prim_reshape(g, x, rank, dims),
               partial = cut < 0 ? cut : gale__prim_copy(g, reduce_kept(g, kind, cut, first));
    if (partial < 0) return GALE__NIL;
    return gale__prim_reshape(g, reduce_kept(g, kind, partial, 1u << axis), rank - 1, kept);
}

/* An expanded value has equal results along the axes it was expanded over: they are computed once.  NIL where that does
 * not apply. */
static gale__node before_expanding(gale__prim_graph *g, gale__reduce kind, gale__node x, uint32_t axes)
{
    gale__prim_node p = g->nodes[x];
    int64_t thin[GALE_MAX_RANK], kept[GALE_MAX_RANK];
    if (p.op != GALE__PRIM_EXPAND) return GALE__NIL;
    gale__prim_node from = g->nodes[p.in[0]];
    bool any = false;
    for (int d = 0; d < p.rank; d++) {
        bool equal = !(axes >> d & 1) && from.dims[d] == 1 && p.dims[d] > 1;
        thin[d] = equal ? 1 : p.dims[d];
        any |= equal;
    }
    if (!any) return GALE__NIL;
    reduced_dims(&p, axes, kept);
    return gale__prim_expand(
        g, gale__prim_reduce(g, kind, gale__prim_expand(g, p.in[0], p.rank, thin), axes, true), p.rank, kept);
}

gale__node gale__prim_reduce(gale__prim_graph *g, gale__reduce kind, gale__node x, uint32_t axes, bool keep)
{
    if (!gale__prim_ok(g, x)) return GALE__NIL;
    gale__node once = before_expanding(g, kind, x, axes);
    if (once >= 0) return keep ? once : gale__prim_squeeze(g, once, axes);
    const gale__prim_node *p = &g->nodes[x];
    if (axes >> p->rank) return gale__prim_fail(g, GALE_INVALID, "reduce: axis out of range for rank %d", p->rank);
    if (p->type == GALE_BOOL && kind <= GALE__PROD)
        return gale__prim_fail(g, GALE_INVALID, "reduce: cannot sum bool; cast first");
    int axis = 0;
    int64_t parts = kind < GALE__ARGMAX ? parts_of(g, x, axes, &axis) : 1;
    gale__node kept = parts > 1 ? reduce_in_parts(g, kind, x, axes, axis, parts) : reduce_kept(g, kind, x, axes);
    return keep ? kept : gale__prim_squeeze(g, kept, axes);
}

gale__node gale__prim_sum_to(gale__prim_graph *g, gale__node x, int rank, const int64_t *dims)
{
    if (!gale__prim_ok(g, x)) return GALE__NIL;
    const gale__prim_node *p = &g->nodes[x];
    int lead = p->rank - rank;
    if (lead < 0)
        return gale__prim_fail(g, GALE_INVALID, "sum_to: %s has fewer than %d axes", gale__prim_shape_text(g, x), rank);
    uint32_t axes = 0;
    for (int d = 0; d < p->rank; d++)
        if (d < lead || (dims[d - lead] == 1 && p->dims[d] != 1)) axes |= 1u << d;
    return gale__prim_reshape(g, gale__prim_reduce(g, GALE__SUM, x, axes, true), rank, dims);
}

/* Shifted by one element, with the identity in front. */
static gale__node shift(gale__prim_graph *g, gale__reduce kind, gale__node x, int axis)
{
    int64_t low[GALE_MAX_RANK] = {0}, high[GALE_MAX_RANK] = {0};
    uint64_t bits = gale__reduce_identity(kind, g->nodes[x].type);
    low[axis] = 1, high[axis] = -1;
    return gale__prim_pad(g, x, low, high, NULL, gale__load_f64(g->nodes[x].type, &bits));
}

gale__node gale__prim_scan(gale__prim_graph *g, gale__reduce kind, gale__node x, int axis, bool exclusive, bool reverse)
{
    if (!gale__prim_ok(g, x)) return GALE__NIL;
    const gale__prim_node *p = &g->nodes[x];
    if (axis < 0 || axis >= p->rank || kind > GALE__RMIN)
        return gale__prim_fail(g, GALE_INVALID, "scan: axis %d is out of range for rank %d", axis, p->rank);
    if (gale__prim_elements(g, x) == 0) return x;
    int64_t extent = p->dims[axis];
    if (reverse) x = gale__prim_flip(g, x, 1u << axis);
    if (x < 0) return GALE__NIL;
    if (extent > 1) {
        gale__prim_draft d;
        p = &g->nodes[x];
        gale__prim_draft_init(&d, GALE__PRIM_SCAN, p->type, p->rank, p->dims);
        d.in[0] = x;
        d.node.n_in = 1;
        d.attr[0] = kind, d.attr[1] = axis;
        d.node.n_attr = 2;
        x = gale__prim_push(g, &d.node);
    }
    if (exclusive && x >= 0) x = shift(g, kind, x, axis);
    return reverse ? gale__prim_flip(g, x, 1u << axis) : x;
}

gale__node gale__prim_sort(gale__prim_graph *g, gale__node x, int axis, bool descending)
{
    return gale__prim_sort_first(g, x, axis, descending, INT64_MAX);
}

gale__node gale__prim_sort_first(gale__prim_graph *g, gale__node x, int axis, bool descending, int64_t first)
{
    if (!gale__prim_ok(g, x)) return GALE__NIL;
    gale__prim_node p = g->nodes[x];
    if (axis < 0 || axis >= p.rank)
        return gale__prim_fail(g, GALE_INVALID, "sort: axis %d is out of range for rank %d", axis, p.rank);
    if (first > p.dims[axis]) first = p.dims[axis];
    int64_t dims[GALE_MAX_RANK];
    memcpy(dims, p.dims, sizeof dims);
    dims[axis] = first;
    if (first <= 0 || p.dims[axis] <= 1) return gale__prim_splat(g, GALE_I64, p.rank, dims, 0);
    int perm[GALE_MAX_RANK];
    for (int d = 0; d < p.rank; d++) perm[d] = d;
    perm[axis] = p.rank - 1, perm[p.rank - 1] = axis; /* its own inverse */
    x = gale__prim_permute(g, x, perm);
    if (x < 0) return GALE__NIL;
    gale__prim_draft d;
    gale__prim_draft_init(&d, GALE__PRIM_SORT, GALE_I64, p.rank, g->nodes[x].dims);
    d.in[0] = x;
    d.node.n_in = 1;
    d.attr[0] = descending, d.attr[1] = first;
    d.node.n_attr = 2;
    return gale__prim_slice_axis(g, gale__prim_permute(g, gale__prim_push(g, &d.node), perm), axis, 0, first);
}

/* The counter is the element's number, so the bits do not depend on how a device splits the work. */
gale__node gale__prim_random(gale__prim_graph *g, gale__node key, int rank, const int64_t *dims)
{
    if (g->status != GALE_OK || !gale__prim_shape_ok(g, rank, dims)) return GALE__NIL;
    int64_t n = gale__dims_count(rank, dims);
    gale__node counter = gale__prim_cast(g, gale__prim_iota(g, 1, &n, 0), GALE_U64);
    return gale__prim_reshape(g, gale__prim_binary(g, GALE__RANDOM, counter, key), rank, dims);
}

gale__node gale__prim_seed(gale__prim_graph *g)
{
    if (g->seed < 0 && !g->inner) g->seed = gale__prim_input(g, GALE__SEED_INPUT, GALE_U64, 0, NULL);
    return g->seed;
}
