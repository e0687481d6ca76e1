/* Views: nodes that say where an element is read from and compute nothing.  Chains of one kind are composed here, so
 * that the fuser sees few of them. */
#include "graph/build/build.h"
#include <string.h>

/* A draft of a view of x; attributes follow. */
static void start(gale__prim_graph *g, gale__prim_draft *d, int op, gale__node x, int rank, const int64_t *dims)
{
    gale__prim_draft_init(d, op, g->nodes[x].type, rank, dims);
    d->in[0] = x;
    d->node.n_in = 1;
}

static bool is_shape(const gale__prim_node *p, int rank, const int64_t *dims)
{
    return p->rank == rank && (!rank || !memcmp(p->dims, dims, rank * sizeof *dims));
}

static bool shape_fits(gale__prim_graph *g, const char *what, int rank, const int64_t *dims)
{
    if (rank < 0 || rank > GALE_MAX_RANK)
        gale__prim_fail(g, GALE_LIMIT, "%s: rank %d; at most %d are possible", what, rank, GALE_MAX_RANK);
    for (int d = 0; d < rank && g->status == GALE_OK; d++)
        if (dims[d] < 0) gale__prim_fail(g, GALE_INVALID, "%s: extent %lld of axis %d", what, (long long)dims[d], d);
    return g->status == GALE_OK;
}

gale__node gale__prim_reshape(gale__prim_graph *g, gale__node x, int rank, const int64_t *dims)
{
    if (!gale__prim_ok(g, x) || !shape_fits(g, "reshape", rank, dims)) return GALE__NIL;
    if (gale__dims_count(rank, dims) != gale__prim_elements(g, x))
        return gale__prim_fail(g, GALE_INVALID, "reshape: %s has %lld elements, the new shape has %lld",
            gale__prim_shape_text(g, x), (long long)gale__prim_elements(g, x), (long long)gale__dims_count(rank, dims));
    if (g->nodes[x].op == GALE__PRIM_RESHAPE) x = g->nodes[x].in[0];
    if (is_shape(&g->nodes[x], rank, dims)) return x;
    if (g->nodes[x].splat) return gale__prim_respread(g, x, rank, dims);
    gale__prim_draft d;
    start(g, &d, GALE__PRIM_RESHAPE, x, rank, dims);
    return gale__prim_push(g, &d.node);
}

gale__node gale__prim_permute(gale__prim_graph *g, gale__node x, const int *perm)
{
    if (!gale__prim_ok(g, x)) return GALE__NIL;
    const gale__prim_node *p = &g->nodes[x];
    int64_t dims[GALE_MAX_RANK];
    uint32_t seen = 0;
    bool same = true;
    for (int d = 0; d < p->rank; d++) {
        if (perm[d] < 0 || perm[d] >= p->rank || seen >> perm[d] & 1)
            return gale__prim_fail(g, GALE_INVALID, "permute: axis %d of the order is wrong", d);
        seen |= 1u << perm[d];
        dims[d] = p->dims[perm[d]];
        same = same && perm[d] == d;
    }
    if (same) return x;
    if (p->splat) return gale__prim_respread(g, x, p->rank, dims);
    if (p->op == GALE__PRIM_PERMUTE) {
        int both[GALE_MAX_RANK];
        for (int d = 0; d < p->rank; d++) both[d] = (int)p->attr[perm[d]];
        return gale__prim_permute(g, p->in[0], both);
    }
    gale__prim_draft d;
    start(g, &d, GALE__PRIM_PERMUTE, x, p->rank, dims);
    for (int i = 0; i < p->rank; i++) d.attr[i] = perm[i];
    d.node.n_attr = p->rank;
    return gale__prim_push(g, &d.node);
}

gale__node gale__prim_expand(gale__prim_graph *g, gale__node x, int rank, const int64_t *dims)
{
    if (!gale__prim_ok(g, x) || !shape_fits(g, "expand", rank, dims)) return GALE__NIL;
    const gale__prim_node *p = &g->nodes[x];
    int lead = rank - p->rank;
    int64_t from[GALE_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        from[d] = d < lead ? 1 : p->dims[d - lead];
        if (lead < 0 || (from[d] != 1 && from[d] != dims[d]))
            return gale__prim_fail(g, GALE_INVALID, "expand: %s cannot become rank %d with extent %lld on axis %d",
                gale__prim_shape_text(g, x), rank, (long long)dims[d], d);
    }
    if (lead < 0)
        return gale__prim_fail(g, GALE_INVALID, "expand: %s has more than %d axes", gale__prim_shape_text(g, x), rank);
    if (p->splat) return gale__prim_respread(g, x, rank, dims);
    if (p->op == GALE__PRIM_EXPAND && p->rank == rank) return gale__prim_expand(g, p->in[0], rank, dims);
    x = gale__prim_reshape(g, x, rank, from);
    if (x < 0 || is_shape(&g->nodes[x], rank, dims)) return x;
    gale__prim_draft d;
    start(g, &d, GALE__PRIM_EXPAND, x, rank, dims);
    return gale__prim_push(g, &d.node);
}

gale__node gale__prim_slice(
    gale__prim_graph *g, gale__node x, const int64_t *first, const int64_t *step, const int64_t *extent)
{
    if (!gale__prim_ok(g, x)) return GALE__NIL;
    const gale__prim_node *p = &g->nodes[x];
    bool same = true;
    for (int d = 0; d < p->rank; d++) {
        int64_t last = 0, n = p->dims[d];
        bool beyond = extent[d] > 0 && (__builtin_mul_overflow(extent[d] - 1, step[d], &last) ||
                                           __builtin_add_overflow(last, first[d], &last));
        if (extent[d] < 0 || beyond || step[d] == 0 ||
            (extent[d] && (first[d] < 0 || first[d] >= n || last < 0 || last >= n)))
            return gale__prim_fail(g, GALE_INVALID,
                "slice: axis %d of %s has no elements %lld, step %lld, %lld of them", d, gale__prim_shape_text(g, x),
                (long long)first[d], (long long)step[d], (long long)extent[d]);
        same = same && extent[d] == n && (n <= 1 || (first[d] == 0 && step[d] == 1));
    }
    if (same) return x;
    if (p->splat) return gale__prim_respread(g, x, p->rank, extent);
    if (p->op == GALE__PRIM_SLICE) {
        int64_t start_[GALE_MAX_RANK], steps[GALE_MAX_RANK];
        for (int i = 0; i < p->rank; i++)
            start_[i] = extent[i] ? p->attr[2 * i] + first[i] * p->attr[2 * i + 1] : 0,
            steps[i] = extent[i] > 1 ? step[i] * p->attr[2 * i + 1] : 1;
        return gale__prim_slice(g, p->in[0], start_, steps, extent);
    }
    gale__prim_draft d;
    start(g, &d, GALE__PRIM_SLICE, x, p->rank, extent);
    for (int i = 0; i < p->rank; i++)
        d.attr[2 * i] = extent[i] ? first[i] : 0, d.attr[2 * i + 1] = extent[i] > 1 ? step[i] : 1;
    d.node.n_attr = 2 * p->rank;
    return gale__prim_push(g, &d.node);
}

gale__node gale__prim_roll(gale__prim_graph *g, gale__node x, int axis, int64_t shift)
{
    if (!gale__prim_ok(g, x)) return GALE__NIL;
    const gale__prim_node *p = &g->nodes[x];
    if (axis < 0 || axis >= p->rank)
        return gale__prim_fail(g, GALE_INVALID, "roll: %s has no axis %d", gale__prim_shape_text(g, x), axis);
    int64_t n = p->dims[axis];
    if (n <= 1 || p->splat) return x;
    shift = (shift % n + n) % n;
    if (!shift) return x;
    if (p->op == GALE__PRIM_ROLL && p->attr[0] == axis)
        return gale__prim_roll(g, p->in[0], axis, (p->attr[1] + shift) % n);
    gale__prim_draft d;
    start(g, &d, GALE__PRIM_ROLL, x, p->rank, p->dims);
    d.attr[0] = axis;
    d.attr[1] = shift;
    d.node.n_attr = 2;
    return gale__prim_push(g, &d.node);
}

gale__node gale__prim_slice_axis(gale__prim_graph *g, gale__node x, int axis, int64_t first, int64_t extent)
{
    if (!gale__prim_ok(g, x)) return GALE__NIL;
    const gale__prim_node *p = &g->nodes[x];
    if (axis < 0 || axis >= p->rank)
        return gale__prim_fail(g, GALE_INVALID, "slice: axis %d of a value of rank %d", axis, p->rank);
    int64_t start_[GALE_MAX_RANK] = {0}, step[GALE_MAX_RANK], size[GALE_MAX_RANK];
    for (int d = 0; d < p->rank; d++) step[d] = 1, size[d] = p->dims[d];
    start_[axis] = first;
    size[axis] = extent;
    return gale__prim_slice(g, x, start_, step, size);
}

gale__node gale__prim_flip(gale__prim_graph *g, gale__node x, uint32_t axes)
{
    if (!gale__prim_ok(g, x)) return GALE__NIL;
    const gale__prim_node *p = &g->nodes[x];
    int64_t first[GALE_MAX_RANK], step[GALE_MAX_RANK], size[GALE_MAX_RANK];
    for (int d = 0; d < p->rank; d++) {
        bool turn = axes >> d & 1 && p->dims[d] > 1;
        first[d] = turn ? p->dims[d] - 1 : 0;
        step[d] = turn ? -1 : 1;
        size[d] = p->dims[d];
    }
    return gale__prim_slice(g, x, first, step, size);
}

/* Padding that only takes away is a slice. */
static gale__node crop(gale__prim_graph *g, gale__node x, const int64_t *low, const int64_t *dims)
{
    int64_t first[GALE_MAX_RANK], step[GALE_MAX_RANK];
    for (int d = 0; d < g->nodes[x].rank; d++) first[d] = -low[d], step[d] = 1;
    return gale__prim_slice(g, x, first, step, dims);
}

gale__node gale__prim_pad(
    gale__prim_graph *g, gale__node x, const int64_t *low, const int64_t *high, const int64_t *interior, double fill)
{
    if (!gale__prim_ok(g, x)) return GALE__NIL;
    const gale__prim_node *p = &g->nodes[x];
    gale__prim_draft d;
    start(g, &d, GALE__PRIM_PAD, x, p->rank, p->dims);
    bool only_crop = true;
    for (int i = 0; i < p->rank; i++) {
        int64_t between = interior && p->dims[i] > 1 ? interior[i] : 0, n = p->dims[i];
        if (between < 0) return gale__prim_fail(g, GALE_INVALID, "pad: interior padding %lld", (long long)between);
        d.node.dims[i] = n + (n > 1 ? (n - 1) * between : 0) + low[i] + high[i];
        if (d.node.dims[i] < 0)
            return gale__prim_fail(g, GALE_INVALID, "pad: axis %d of %s would have %lld elements", i,
                gale__prim_shape_text(g, x), (long long)d.node.dims[i]);
        d.attr[3 * i] = low[i], d.attr[3 * i + 1] = high[i], d.attr[3 * i + 2] = between;
        only_crop = only_crop && low[i] <= 0 && high[i] <= 0 && between == 0;
    }
    d.node.n_attr = 3 * p->rank;
    d.node.imm = gale__prim_bits(p->type, fill);
    if (only_crop) return crop(g, x, low, d.node.dims);
    if (p->splat && !memcmp(p->data, &d.node.imm, gale_type_size(p->type)))
        return gale__prim_respread(g, x, p->rank, d.node.dims);
    if (gale__prim_elements(g, x) == 0) return gale__prim_splat(g, p->type, p->rank, d.node.dims, fill);
    return gale__prim_push(g, &d.node);
}

/* dims of x with axis replaced by two extents. */
static bool two_axes(gale__prim_graph *g, gale__node x, int axis, int64_t a, int64_t b, int64_t *dims)
{
    const gale__prim_node *p = &g->nodes[x];
    if (axis < 0 || axis >= p->rank || p->rank + 1 > GALE_MAX_RANK || a < 0 || b < 0) {
        gale__prim_fail(g, GALE_INVALID, "window: axis %d of %s cannot become %lld x %lld", axis,
            gale__prim_shape_text(g, x), (long long)a, (long long)b);
        return false;
    }
    memcpy(dims, p->dims, axis * sizeof *dims);
    dims[axis] = a;
    dims[axis + 1] = b;
    memcpy(dims + axis + 2, p->dims + axis + 1, (p->rank - axis - 1) * sizeof *dims);
    return true;
}

gale__node gale__prim_window(gale__prim_graph *g, gale__node x, int axis, int64_t count, int64_t size, int64_t stride,
    int64_t dilation, int64_t offset, double fill)
{
    if (!gale__prim_ok(g, x)) return GALE__NIL;
    int64_t dims[GALE_MAX_RANK + 1];
    if (!two_axes(g, x, axis, count, size, dims)) return GALE__NIL;
    const gale__prim_node *p = &g->nodes[x];
    int rank = p->rank + 1;
    int64_t n = p->dims[axis];
    uint64_t bits = gale__prim_bits(p->type, fill);
    /* Windows that do not overlap and leave nothing out are a reshape. */
    bool tiles = offset == 0 && count * size == n && (size == 1 || dilation == 1) && (count == 1 || stride == size);
    if (tiles) return gale__prim_reshape(g, x, rank, dims);
    bool same_fill = p->splat && !memcmp(p->data, &bits, gale_type_size(p->type));
    if (same_fill) return gale__prim_respread(g, x, rank, dims);
    if (gale__prim_elements(g, x) == 0) return gale__prim_splat(g, p->type, rank, dims, fill);
    gale__prim_draft d;
    start(g, &d, GALE__PRIM_WINDOW, x, rank, dims);
    d.attr[0] = axis, d.attr[1] = stride, d.attr[2] = dilation, d.attr[3] = offset;
    d.node.n_attr = 4;
    d.node.imm = bits;
    return gale__prim_push(g, &d.node);
}

gale__node gale__prim_unwindow(
    gale__prim_graph *g, gale__node x, int axis, int64_t extent, int64_t stride, int64_t dilation, int64_t offset)
{
    if (!gale__prim_ok(g, x)) return GALE__NIL;
    const gale__prim_node *p = &g->nodes[x];
    if (axis < 0 || axis + 1 >= p->rank || extent < 0 || stride < 1)
        return gale__prim_fail(g, GALE_INVALID, "unwindow: axis %d of a value of rank %d", axis, p->rank);
    if (gale__prim_elements(g, x) == 0) {
        int64_t dims[GALE_MAX_RANK];
        memcpy(dims, p->dims, sizeof dims);
        dims[axis] = extent;
        return gale__prim_splat(g, p->type, p->rank, dims, 0);
    }
    gale__prim_draft d;
    start(g, &d, GALE__PRIM_UNWINDOW, x, p->rank, p->dims);
    d.node.dims[axis] = extent;
    d.attr[0] = axis, d.attr[1] = stride, d.attr[2] = dilation, d.attr[3] = offset;
    d.node.n_attr = 4;
    return gale__prim_push(g, &d.node);
}

gale__node gale__prim_squeeze(gale__prim_graph *g, gale__node x, uint32_t axes)
{
    if (!gale__prim_ok(g, x)) return GALE__NIL;
    const gale__prim_node *p = &g->nodes[x];
    int64_t dims[GALE_MAX_RANK];
    int rank = 0;
    for (int d = 0; d < p->rank; d++) {
        if (!(axes >> d & 1)) dims[rank++] = p->dims[d];
        else if (p->dims[d] != 1)
            return gale__prim_fail(g, GALE_INVALID, "squeeze: axis %d of %s is not 1", d, gale__prim_shape_text(g, x));
    }
    return gale__prim_reshape(g, x, rank, dims);
}

gale__node gale__prim_unsqueeze(gale__prim_graph *g, gale__node x, uint32_t axes)
{
    if (!gale__prim_ok(g, x)) return GALE__NIL;
    const gale__prim_node *p = &g->nodes[x];
    int64_t dims[GALE_MAX_RANK];
    int rank = 0, from = 0;
    while (rank < GALE_MAX_RANK && (from < p->rank || axes >> rank)) {
        if (!(axes >> rank & 1) && from == p->rank) break;
        int64_t extent = axes >> rank & 1 ? 1 : p->dims[from++];
        dims[rank++] = extent;
    }
    if (from < p->rank || (rank < 32 && axes >> rank))
        return gale__prim_fail(g, GALE_INVALID, "unsqueeze: the axes do not fit %s", gale__prim_shape_text(g, x));
    return gale__prim_reshape(g, x, rank, dims);
}
