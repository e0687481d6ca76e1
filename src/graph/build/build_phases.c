/* Transposed convolutions with the phases of the stride apart: results r, r + stride, ... are an ordinary convolution
 * by every stride-th weight, and phases whose windows begin at different inputs are batches of one product.  So exactly
 * the results that are wanted are computed.  With all phases as channels of one convolution (build_products.c) each of
 * them has a border of results that are cut off, which are more than half as many again on maps of 4 x 4. */
#include "graph/build/build.h"
#include <string.h>

enum { LEAST_ROWS = 12 }; /* results of a batch that share an input: fewer fill tiles badly */

/* One spatial axis: phases [0, each) begin `from` inputs before the first, and the others, if there are two shifts, one
 * further. */
typedef struct axis {
    int64_t taps, shifts, each, count, from;
} axis;

/* Where the padding is no multiple of half the stride, phases do not divide into equal parts. */
static bool find_axis(const gale__prim_conv_args *c, int i, int64_t kernel, int64_t extent, axis *out)
{
    int64_t s = c->stride[i], rest = c->low[i] % s;
    if (rest && 2 * rest != s) return false;
    *out = (axis){.taps = (kernel + s - 1) / s, .shifts = rest ? 2 : 1, .count = (extent + s - 1) / s};
    out->each = s / out->shifts;
    out->from = c->low[i] / s - (out->taps - 1);
    return out->count > 0;
}

/* x as [N, G, 1, shifts..., places..., C/G, taps...]; G only where there are groups. */
static gale__node windows_of(gale__prim_graph *g, gale__node x, const gale__prim_conv_args *c, const axis *axes)
{
    int n = c->spatial, lead = c->groups > 1 ? 3 : 2, perm[GALE_MAX_RANK] = {0, 1};
    gale__prim_node p = g->nodes[x];
    int64_t dims[GALE_MAX_RANK] = {p.dims[0], c->groups};
    dims[lead - 1] = p.dims[1] / c->groups;
    for (int i = 0; i < n; i++) dims[lead + i] = p.dims[2 + i];
    x = gale__prim_reshape(g, x, lead + n, dims);
    for (int i = n - 1; i >= 0; i--) {
        const axis *a = &axes[i];
        x = gale__prim_window(g, x, lead + i, a->count, a->shifts + a->taps - 1, 1, 1, a->from, 0);
        x = gale__prim_window(g, x, lead + i + 1, a->shifts, a->taps, 1, 1, 0, 0);
    }
    for (int i = 0; i < n; i++) {
        perm[lead - 1 + i] = lead + 3 * i + 1;
        perm[lead - 1 + n + i] = lead + 3 * i;
        perm[lead + 2 * n + i] = lead + 3 * i + 2;
    }
    perm[lead - 1 + 2 * n] = lead - 1;
    return gale__prim_unsqueeze(g, gale__prim_permute(g, x, perm), 1u << (lead - 1));
}

/* w [C, O/G, k...] as [1, G, O/G * each..., shifts..., 1..., C/G, taps...]. */
static gale__node weights_of(gale__prim_graph *g, gale__node w, const gale__prim_conv_args *c, const axis *axes)
{
    int n = c->spatial, lead = c->groups > 1 ? 3 : 2, perm[GALE_MAX_RANK] = {0};
    gale__prim_node p = g->nodes[w];
    int64_t zero[GALE_MAX_RANK] = {0}, high[GALE_MAX_RANK] = {0}, split[GALE_MAX_RANK] = {c->groups},
            dims[GALE_MAX_RANK] = {1, c->groups};
    uint32_t flipped = 0;
    split[lead - 2] = p.dims[0] / c->groups, split[lead - 1] = dims[lead - 1] = p.dims[1];
    for (int i = 0; i < n; i++) {
        const axis *a = &axes[i];
        int at = lead + 3 * i; /* taps, shifts, each: the first shift is that of the last phases */
        high[2 + i] = a->taps * c->stride[i] - p.dims[2 + i];
        split[at] = a->taps, split[at + 1] = a->shifts, split[at + 2] = a->each;
        flipped |= 3u << at;
        perm[lead - 1 + i] = at + 2, perm[lead - 1 + n + i] = at + 1, perm[lead + 2 * n + i] = at;
        dims[lead - 1] *= a->each;
        dims[lead + i] = a->shifts, dims[lead + n + i] = 1, dims[lead + 2 * n + 1 + i] = a->taps;
    }
    perm[lead - 2] = lead - 1, perm[lead - 1 + 2 * n] = lead - 2;
    dims[lead + 2 * n] = p.dims[0] / c->groups;
    w = gale__prim_reshape(g, gale__prim_pad(g, w, zero, high, NULL, 0), lead + 3 * n, split);
    w = gale__prim_permute(g, gale__prim_flip(g, w, flipped), perm);
    return gale__prim_reshape(g, w, lead + 3 * n + 1, dims);
}

/* y [N, G, O/G * each..., shifts..., places...] as [N, O, extent...]. */
static gale__node join(
    gale__prim_graph *g, gale__node y, const gale__prim_conv_args *c, const axis *axes, const int64_t *extent)
{
    int n = c->spatial, perm[GALE_MAX_RANK] = {0, 1};
    if (y < 0) return y;
    gale__prim_node p = g->nodes[y];
    int64_t split[GALE_MAX_RANK] = {p.dims[0], p.dims[1] * (c->groups > 1 ? p.dims[2] : 1)}, dims[GALE_MAX_RANK],
            low[GALE_MAX_RANK] = {0}, high[GALE_MAX_RANK] = {0};
    for (int i = 0; i < n; i++) {
        const axis *a = &axes[i];
        split[1] /= a->each;
        split[2 + i] = a->each, split[2 + n + i] = a->shifts, split[2 + 2 * n + i] = a->count;
        perm[2 + 3 * i] = 2 + 2 * n + i, perm[3 + 3 * i] = 2 + n + i, perm[4 + 3 * i] = 2 + i;
        dims[2 + i] = a->count * c->stride[i];
        high[2 + i] = extent[i] - dims[2 + i];
    }
    dims[0] = split[0], dims[1] = split[1];
    y = gale__prim_permute(g, gale__prim_reshape(g, y, 2 + 3 * n, split), perm);
    y = gale__prim_pad(g, gale__prim_reshape(g, y, 2 + n, dims), low, high, NULL, 0);
    return gale__prim_laid_out(g, y); /* interleaved phases are slow to read */
}

gale__node gale__prim_transpose_apart(
    gale__prim_graph *g, gale__node x, gale__node w, const gale__prim_conv_args *c, const int64_t *extent)
{
    int n = c->spatial, lead = c->groups > 1 ? 3 : 2;
    const gale__prim_node *q = &g->nodes[w];
    int64_t rows = q->dims[1];
    axis axes[3];
    if (!g->phases_apart || q->type != GALE_F32 || n > 2) return GALE__NIL; /* bands of volumes are slow to fill */
    for (int i = 0; i < n; i++) {
        if (!find_axis(c, i, q->dims[2 + i], extent[i], &axes[i])) return GALE__NIL;
        rows *= axes[i].each;
    }
    if (rows < LEAST_ROWS) return GALE__NIL;
    gale__node product = gale__prim_mul(g, windows_of(g, x, c, axes), weights_of(g, w, c, axes));
    uint32_t summed = ((1u << (n + 1)) - 1) << (lead + 2 * n);
    return join(g, product < 0 ? product : gale__prim_reduce(g, GALE__SUM, product, summed, false), c, axes, extent);
}
