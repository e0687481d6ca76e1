/* Pools: windows as a view, reduced over their elements. */
#include "ops/spatial.h"
#include "graph/plan/paths.h"
#include <math.h>
#include <string.h>

/* x [N, C, s...] as [N, C, o..., k...]; places outside give `fill`. */
static gale__node windows_of(gale__lower *L, gale__node x, const gale__windows *w, double fill)
{
    int n = w->n, perm[GALE_MAX_RANK] = {0, 1};
    for (int i = n - 1; i >= 0; i--)
        x = gale__prim_window(L->g, x, 2 + i, w->out[i], w->kernel[i], w->stride[i], w->dilation[i], -w->low[i], fill);
    for (int i = 0; i < n; i++) perm[2 + i] = 2 + 2 * i, perm[2 + n + i] = 3 + 2 * i;
    return gale__prim_permute(L->g, x, perm);
}

static uint32_t kernel_axes(const gale__windows *w) { return ((1u << w->n) - 1) << (2 + w->n); }

static double least(gale_type type) { return gale__type_is_float(type) ? -INFINITY : gale__type_min(type); }

/* y, the maxima or sums of these windows over x, by a fast path where the device has one. */
static gale__node claimed(gale__lower *L, gale__node x, const gale__windows *w, bool largest, gale__node y)
{
    if (!L->device || !gale__lower_good(L)) return y;
    size_t n = (size_t)w->n;
    gale_attr attrs[5] = {GALE_INT("largest", largest), GALE_INTS("kernel_shape", w->kernel, n),
        GALE_INTS("strides", w->stride, n), GALE_INTS("dilations", w->dilation, n), GALE_INTS("pads", w->low, n)};
    gale__op_node node = {.name = "WindowPool",
        .path = gale__fast_paths_first("WindowPool"),
        .n_in = 1,
        .n_out = 1,
        .attrs = attrs,
        .n_attrs = 5,
        .body = L->node,
        .n_body = 1};
    gale_status status = gale__fast_paths_claim(L->g, L->device, &node, &x, &y);
    if (status != GALE_OK && gale__lower_good(L)) L->g->status = status;
    return y;
}

/* The place of each maximum in the flat input, from its place in the window.  Where all in a window is the least there
 * is, padding is no smaller and comes first: the place is then the first inside. */
static gale__node max_places(gale__lower *L, gale__node windows, const gale__windows *w)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    bool columns = gale__attr_i(L, "storage_order", 0);
    gale__node in_window = gale__prim_reduce(g, GALE__ARGMAX, windows, kernel_axes(w), false);
    gale__prim_node q = gale__lower_peek(g, in_window);
    int64_t plane = 1, below = 1, stride[3], s = 1;
    for (int i = 0; i < w->n; i++) plane *= w->in[i];
    for (int i = 0; i < w->n; i++) {
        int axis = columns ? i : w->n - 1 - i;
        stride[axis] = s;
        s *= w->in[axis];
    }
    gale__node at = gale__prim_add(
        g, gale__lower_walk(L, q.rank, q.dims, 0, p.dims[1] * plane), gale__lower_walk(L, q.rank, q.dims, 1, plane));
    for (int i = w->n - 1; i >= 0; below *= w->kernel[i--]) {
        gale__node k = gale__prim_binary(g, GALE__REM, gale__prim_div(g, in_window, gale__lower_index(L, below)),
            gale__lower_index(L, w->kernel[i]));
        gale__node c = gale__prim_add(g, gale__lower_walk(L, q.rank, q.dims, 2 + i, w->stride[i]),
            gale__prim_mul(g, k, gale__lower_index(L, w->dilation[i])));
        gale__node place = gale__prim_sub(g, c, gale__lower_index(L, w->low[i])),
                   outside =
                       gale__prim_binary(g, GALE__MAX, gale__prim_unary(g, GALE__NEG, place), gale__lower_index(L, 0));
        gale__node steps = gale__prim_div(g, gale__prim_add(g, outside, gale__lower_index(L, w->dilation[i] - 1)),
            gale__lower_index(L, w->dilation[i]));
        at = gale__prim_add(g, at,
            gale__prim_mul(g, gale__prim_add(g, place, gale__prim_mul(g, steps, gale__lower_index(L, w->dilation[i]))),
                gale__lower_index(L, stride[i])));
    }
    return at;
}

/* The largest of dequantised values is that of the bytes; a window outside altogether gives -inf, and not a byte. */
static bool max_of_bytes(gale__lower *L, const gale__windows *w)
{
    gale__prim_scaled x;
    if (!gale__lower_good(L) || !gale__prim_dequantised(L->g, L->in[0], &x)) return false;
    for (int i = 0; i < w->n; i++)
        if (w->low[i] >= w->kernel[i] || (w->out[i] - 1) * w->stride[i] - w->low[i] >= w->in[i]) return false;
    gale__node v = windows_of(L, x.bytes, w, least(gale__lower_type_of(L->g, x.bytes))),
               y = claimed(L, x.bytes, w, true, gale__prim_reduce(L->g, GALE__RMAX, v, kernel_axes(w), false));
    L->out[0] = gale__prim_dequantise(L->g, y, &x);
    return true;
}

LOWER(MaxPool)
{
    gale__windows w;
    if (!gale__windows_read(L, L->in[0], NULL, &w)) return;
    if (L->n_out == 1 && max_of_bytes(L, &w)) return;
    gale__node v = windows_of(L, L->in[0], &w, least(gale__lower_type_of(L->g, L->in[0])));
    L->out[0] = claimed(L, L->in[0], &w, true, gale__prim_reduce(L->g, GALE__RMAX, v, kernel_axes(&w), false));
    if (L->n_out > 1) L->out[1] = max_places(L, v, &w);
}

/* How many elements each window holds along an axis: those of the input, or of the padded input. */
static gale__node counts(gale__lower *L, const gale__windows *w, int i, bool padded, gale_type type)
{
    int64_t first = padded ? -w->low[i] : 0, end = w->in[i] + (padded ? w->high[i] : 0), n = w->out[i];
    double *c = gale__arena_alloc(&L->g->arena, (size_t)(n + 1) * sizeof *c);
    if (!c) L->g->status = GALE_NO_MEMORY;
    for (int64_t o = 0; c && o < n; o++)
        for (int64_t k = 0; k < w->kernel[i]; k++) {
            int64_t at = o * w->stride[i] + k * w->dilation[i] - w->low[i];
            c[o] += at >= first && at < end;
        }
    if (!c) return GALE__NIL;
    return gale__lower_along(
        L, gale__prim_cast(L->g, gale__prim_const(L->g, GALE_F64, 1, &n, c), type), 2 + w->n, 2 + i);
}

LOWER(AveragePool)
{
    gale__prim_graph *g = L->g;
    gale__windows w;
    if (!gale__windows_read(L, L->in[0], NULL, &w)) return;
    gale__node x = gale__lower_wide(L, L->in[0]),
               sum = gale__prim_reduce(g, GALE__SUM, windows_of(L, x, &w, 0), kernel_axes(&w), false);
    gale_type type = gale__lower_type_of(g, x);
    sum = claimed(L, x, &w, false, sum);
    bool padded = gale__attr_i(L, "count_include_pad", 0);
    gale__node count = gale__lower_value(L, x, 1);
    for (int i = 0; i < w.n; i++) count = gale__prim_mul(g, count, counts(L, &w, i, padded, type));
    L->out[0] = gale__prim_cast(g, gale__prim_div(g, sum, count), gale__lower_type_of(g, L->in[0]));
}

/* The p-norm over the axes, which stay. */
static gale__node lp_norm(gale__lower *L, gale__node x, uint32_t axes, bool keep)
{
    gale__prim_graph *g = L->g;
    double p = (double)gale__attr_i(L, "p", 2);
    gale__node size = gale__prim_unary(g, GALE__ABS, x), sum;
    sum =
        gale__prim_reduce(g, GALE__SUM, gale__prim_binary(g, GALE__POW, size, gale__lower_value(L, x, p)), axes, keep);
    return p == 2 ? gale__prim_unary(g, GALE__SQRT, sum)
                  : gale__prim_binary(g, GALE__POW, sum, gale__lower_value(L, x, 1 / p));
}

LOWER(LpPool)
{
    gale__windows w;
    if (!gale__windows_read(L, L->in[0], NULL, &w)) return;
    gale__node v = windows_of(L, gale__lower_wide(L, L->in[0]), &w, 0);
    L->out[0] = gale__prim_cast(L->g, lp_norm(L, v, kernel_axes(&w), false), gale__lower_type_of(L->g, L->in[0]));
}

static uint32_t spatial(gale__lower *L)
{
    int rank = gale__lower_rank_of(L->g, L->in[0]);
    if (rank < 2) gale__lower_refuse(L, "the input has rank %d; at least 2 is needed", rank);
    return rank < 2 ? 0 : ((1u << rank) - 1) & ~3u;
}

LOWER(GlobalAveragePool)
{
    L->out[0] = gale__prim_cast(
        L->g, gale__lower_mean(L, gale__lower_wide(L, L->in[0]), spatial(L)), gale__lower_type_of(L->g, L->in[0]));
}
LOWER(GlobalMaxPool) { L->out[0] = gale__prim_reduce(L->g, GALE__RMAX, L->in[0], spatial(L), true); }
LOWER(GlobalLpPool)
{
    L->out[0] = gale__prim_cast(
        L->g, lp_norm(L, gale__lower_wide(L, L->in[0]), spatial(L), true), gale__lower_type_of(L->g, L->in[0]));
}
