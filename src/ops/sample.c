/* Sampling at computed coordinates: GridSample, the grids of AffineGrid, and deformable convolutions.  Each tap of
 * each axis is a position and a weight; outside is zero, the edge, or mirrored. */
#include "ops/sample.h"
#include "ops/spatial.h"
#include <string.h>

#define KEYS (-0.75) /* the cubic's slope, as PyTorch has it */

gale__node gale__lower_mirror(gale__lower *L, gale__node x, double low, double high)
{
    gale__prim_graph *g = L->g;
    double range = high - low;
    gale__node first = gale__lower_value(L, x, low), turn = gale__lower_value(L, x, 2 * range);
    if (range <= 0) return gale__lower_clamp(L, x, low, low);
    gale__node m = gale__prim_binary(g, GALE__REM, gale__prim_unary(g, GALE__ABS, gale__prim_sub(g, x, first)), turn);
    return gale__prim_add(g, first, gale__prim_binary(g, GALE__MIN, m, gale__prim_sub(g, turn, m)));
}

gale__node gale__lower_planes(gale__lower *L, gale__node x, int rank)
{
    gale__prim_node p = gale__lower_peek(L->g, x);
    int64_t dims[GALE_MAX_RANK], plane = 1;
    for (int d = 2; d < p.rank; d++) plane *= p.dims[d];
    for (int d = 0; d < rank; d++) dims[d] = d < 2 ? p.dims[d] : 1;
    return gale__prim_add(
        L->g, gale__lower_walk(L, rank, dims, 0, p.dims[1] * plane), gale__lower_walk(L, rank, dims, 1, plane));
}

/* Sums over the taps of the axes from `axis` on; `place` is where those before have led. */
static gale__node combine(gale__lower *L, const gale__sampler *s, int axis, gale__node place)
{
    gale__prim_graph *g = L->g;
    if (axis == s->n) return gale__prim_take(g, s->x, place);
    int taps = s->mode == GALE__RESIZE_NEAREST ? 1 : s->mode == GALE__RESIZE_LINEAR ? 2 : 4;
    int64_t stride = 1, extent = s->extent[axis];
    for (int d = axis + 1; d < s->n; d++) stride *= s->extent[d];
    gale__node at = s->at[axis], first = gale__prim_unary(g, taps == 1 ? GALE__RINT : GALE__FLOOR, at), sum = GALE__NIL;
    gale__node ratio =
        taps > 1 ? gale__prim_cast(g, gale__prim_sub(g, at, first), gale__lower_type_of(g, s->x)) : GALE__NIL;
    for (int k = 0; k < taps && gale__lower_good(L); k++) {
        gale__node t = gale__prim_add(g, first, gale__lower_value(L, at, k - (taps - 1) / 2)),
                   last = gale__lower_value(L, at, (double)(extent - 1));
        gale__node inside = gale__prim_binary(g, GALE__AND,
            gale__prim_binary(g, GALE__GE, t, gale__lower_value(L, at, 0)), gale__prim_binary(g, GALE__LE, t, last));
        if (s->outside == GALE__OUTSIDE_MIRROR)
            t = gale__prim_unary(g, GALE__TRUNC, gale__lower_mirror(L, t, s->low[axis], s->high[axis]));
        gale__node i = gale__prim_cast(g, gale__lower_clamp(L, t, 0, (double)(extent - 1)), GALE_I64);
        gale__node v =
            combine(L, s, axis + 1, gale__prim_add(g, place, gale__prim_mul(g, i, gale__lower_index(L, stride))));
        if (s->outside == GALE__OUTSIDE_ZERO) v = gale__prim_select(g, inside, v, gale__lower_value(L, v, 0));
        if (taps > 1) v = gale__prim_mul(g, v, gale__tap_blend(L, ratio, taps, k, KEYS));
        sum = k ? gale__prim_binary(g, s->join, sum, v) : v;
    }
    return sum;
}

gale__node gale__lower_sample(gale__lower *L, const gale__sampler *s)
{
    if (!gale__lower_good(L)) return GALE__NIL;
    for (int d = 0; d < s->n; d++)
        if (s->extent[d] < 1) return gale__lower_refuse(L, "cannot sample an empty axis");
    return combine(L, s, 0, s->base);
}

/* --- GridSample. --- */

static bool read_modes(gale__lower *L, gale__sampler *s)
{
    const char *mode = gale__attr_s(L, "mode", "linear"), *padding = gale__attr_s(L, "padding_mode", "zeros");
    bool linear = !strcmp(mode, "linear") || !strcmp(mode, "bilinear"),
         cubic = !strcmp(mode, "cubic") || !strcmp(mode, "bicubic");
    if (!linear && !cubic && strcmp(mode, "nearest")) gale__lower_refuse(L, "unknown mode '%s'", mode);
    bool border = !strcmp(padding, "border"), reflection = !strcmp(padding, "reflection");
    if (!border && !reflection && strcmp(padding, "zeros")) gale__lower_refuse(L, "unknown padding_mode '%s'", padding);
    s->mode = linear ? GALE__RESIZE_LINEAR : cubic ? GALE__RESIZE_CUBIC : GALE__RESIZE_NEAREST;
    s->outside = border ? GALE__OUTSIDE_EDGE : reflection ? GALE__OUTSIDE_MIRROR : GALE__OUTSIDE_ZERO;
    s->join = GALE__ADD;
    return gale__lower_good(L);
}

/* The grid's -1 to 1 in pixels of axis d; what has left the picture is brought back before it is looked at. */
static gale__node pixels(gale__lower *L, gale__sampler *s, gale__node grid, int d, bool align)
{
    gale__prim_graph *g = L->g;
    double n = (double)s->extent[d];
    gale__node half = gale__lower_value(L, grid, 0.5), x = gale__prim_add(g, grid, gale__lower_value(L, grid, 1));
    if (align) x = gale__prim_mul(g, gale__prim_mul(g, x, half), gale__lower_value(L, x, n - 1));
    else
        x = gale__prim_mul(
            g, gale__prim_sub(g, gale__prim_mul(g, x, gale__lower_value(L, x, n)), gale__lower_value(L, x, 1)), half);
    if (s->mode == GALE__RESIZE_NEAREST) x = gale__prim_unary(g, GALE__RINT, x);
    s->low[d] = align ? 0 : -0.5, s->high[d] = align ? n - 1 : n - 0.5;
    bool cubic_edge = s->outside == GALE__OUTSIDE_EDGE && s->mode == GALE__RESIZE_CUBIC; /* its taps are, one by one */
    if (s->outside == GALE__OUTSIDE_ZERO || cubic_edge) return x;
    gale__node back = s->outside == GALE__OUTSIDE_EDGE ? gale__lower_clamp(L, x, 0, n - 1)
                                                       : gale__lower_mirror(L, x, s->low[d], s->high[d]);
    gale__node gone =
        gale__prim_binary(g, GALE__OR, gale__prim_binary(g, GALE__LT, x, gale__lower_value(L, x, s->low[d])),
            gale__prim_binary(g, GALE__GT, x, gale__lower_value(L, x, s->high[d])));
    return gale__prim_select(g, gone, back, x);
}

LOWER(GridSample)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]), q = gale__lower_peek(g, L->in[1]);
    gale__sampler s = {.n = p.rank - 2};
    if (p.rank < 3 || q.rank != p.rank || q.dims[0] != p.dims[0] || q.dims[q.rank - 1] != p.rank - 2)
        gale__lower_refuse(L, "a value of rank %d and a grid of rank %d do not match in batch or rank", p.rank, q.rank);
    if (!gale__lower_good(L) || !read_modes(L, &s)) return;
    bool align = gale__attr_i(L, "align_corners", 0);
    gale_type work = s.mode == GALE__RESIZE_NEAREST ? (gale_type)p.type : p.type == GALE_F64 ? GALE_F64 : GALE_F32;
    s.x = gale__prim_cast(g, L->in[0], work);
    s.base = gale__lower_planes(L, L->in[0], p.rank);
    int64_t dims[GALE_MAX_RANK] = {p.dims[0], 1};
    memcpy(dims + 2, q.dims + 1, (p.rank - 2) * sizeof *dims);
    for (int d = 0; d < s.n; d++) { /* the grid names the last axis first */
        s.extent[d] = p.dims[2 + d];
        gale__node c = gale__prim_reshape(
            g, gale__prim_slice_axis(g, gale__lower_wide(L, L->in[1]), q.rank - 1, s.n - 1 - d, 1), p.rank, dims);
        s.at[d] = pixels(L, &s, c, d, align);
    }
    L->out[0] = gale__prim_cast(g, gale__lower_sample(L, &s), p.type);
}

/* Positions from -1 to 1 along an axis of n: of the outermost pixels' centres, or of their edges. */
static gale__node positions(gale__lower *L, int64_t n, bool align)
{
    gale__prim_graph *g = L->g;
    gale__node i = gale__prim_cast(g, gale__prim_iota(g, 1, &n, 0), gale__lower_precise(L));
    double step = 2.0 / (double)(align && n > 1 ? n - 1 : n), first = align ? (n > 1 ? -1 : 0) : -1 + step / 2;
    return gale__prim_add(g, gale__prim_mul(g, i, gale__lower_value(L, i, step)), gale__lower_value(L, i, first));
}

/* theta [N, r, r + 1] and a size [N, C, out...] give [N, out..., r]. */
LOWER(AffineGrid)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    int64_t count;
    const int64_t *size = gale__lower_known_ints(L, 1, &count);
    int r = (int)count - 2;
    if (gale__lower_good(L) &&
        (r < 1 || r > 3 || p.rank != 3 || p.dims[1] != r || p.dims[2] != r + 1 || p.dims[0] != size[0]))
        gale__lower_refuse(L, "%d matrices of %d by %d do not match a size of %d numbers", (int)p.dims[0],
            (int)p.dims[1], (int)p.dims[2], (int)count);
    for (int d = 0; d < r && gale__lower_good(L); d++)
        if (size[2 + d] < 1)
            gale__lower_refuse(L, "axis %d has the invalid extent %lld", 2 + d, (long long)size[2 + d]);
    if (!gale__lower_good(L)) return;
    gale__node theta = gale__prim_cast(g, L->in[0], gale__lower_precise(L)), y = GALE__NIL;
    for (int j = 0; j <= r;
         j++) { /* column j meets the position along the j-th axis from the end; the last is the shift */
        int64_t dims[GALE_MAX_RANK] = {p.dims[0], 1, 1, 1, 1};
        dims[1 + r] = r;
        gale__node column = gale__prim_reshape(g, gale__prim_slice_axis(g, theta, 2, j, 1), r + 2, dims);
        if (j < r)
            column = gale__prim_mul(g, column,
                gale__lower_along(L, positions(L, size[1 + r - j], gale__attr_i(L, "align_corners", 0)), r + 2, r - j));
        y = j ? gale__prim_add(g, y, column) : column;
    }
    L->out[0] = gale__prim_cast(g, y, p.type);
}

/* --- Deformable convolution. --- */

typedef struct deform {
    gale__windows w;
    int64_t groups, offset_groups, kernel; /* kernel: its elements */
    int64_t plain[GALE_MAX_RANK];          /* [N, offset groups, channels of one, kernel..., out...] */
    int rank;
} deform;

/* offset [N, groups kernel... n, out...]: coordinates along axis i, [N, groups, 1, kernel..., out...]. */
static gale__node deformed(gale__lower *L, const deform *d, int i)
{
    gale__prim_graph *g = L->g;
    int n = d->w.n;
    int64_t cut[GALE_MAX_RANK] = {d->plain[0], d->offset_groups, d->kernel, n}, dims[GALE_MAX_RANK];
    for (int k = 0; k < n; k++) cut[4 + k] = d->w.out[k];
    memcpy(dims, d->plain, sizeof dims);
    dims[2] = 1;
    gale__node offset =
        gale__prim_slice_axis(g, gale__prim_reshape(g, gale__lower_wide(L, L->in[2]), 4 + n, cut), 3, i, 1);
    gale__node start = gale__prim_add(g, gale__lower_walk(L, d->rank, dims, 3 + i, d->w.dilation[i]),
        gale__lower_walk(L, d->rank, dims, 3 + n + i, d->w.stride[i]));
    start = gale__prim_sub(g, start, gale__lower_index(L, d->w.low[i]));
    return gale__prim_add(
        g, gale__prim_cast(g, start, gale__lower_type_of(g, offset)), gale__prim_reshape(g, offset, d->rank, dims));
}

/* Channels sampled where the offsets lead, weighted by the mask: [N, groups, C / groups kernel, out]. */
static gale__node columns(gale__lower *L, const deform *d)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    int64_t plane = 1, out = 1, dims[GALE_MAX_RANK];
    for (int d2 = 2; d2 < p.rank; d2++) plane *= p.dims[d2];
    for (int k = 0; k < d->w.n; k++) out *= d->w.out[k];
    for (int k = 0; k < d->rank; k++) dims[k] = k < 3 ? d->plain[k] : 1;
    gale__sampler s = {.x = gale__lower_wide(L, L->in[0]),
        .n = d->w.n,
        .mode = GALE__RESIZE_LINEAR,
        .outside = GALE__OUTSIDE_ZERO,
        .join = GALE__ADD};
    s.base = gale__prim_add(g, gale__lower_walk(L, d->rank, dims, 0, p.dims[1] * plane),
        gale__lower_walk(L, d->rank, dims, 1, dims[2] * plane));
    s.base = gale__prim_add(g, s.base, gale__lower_walk(L, d->rank, dims, 2, plane));
    for (int i = 0; i < d->w.n; i++) s.extent[i] = p.dims[2 + i], s.at[i] = deformed(L, d, i);
    gale__node v = gale__lower_sample(L, &s), mask = gale__lower_arg(L, 4);
    memcpy(dims, d->plain, sizeof dims);
    dims[2] = 1;
    if (mask >= 0) v = gale__prim_mul(g, v, gale__prim_reshape(g, gale__lower_wide(L, mask), d->rank, dims));
    return gale__prim_reshape(g, v, 4, (int64_t[]){p.dims[0], d->groups, p.dims[1] / d->groups * d->kernel, out});
}

static bool read_deform(gale__lower *L, deform *d)
{
    gale__prim_node x = gale__lower_peek(L->g, L->in[0]), w = gale__lower_peek(L->g, L->in[1]),
                    o = gale__lower_peek(L->g, L->in[2]);
    if (x.rank != w.rank || o.rank != x.rank)
        gale__lower_refuse(L, "unsupported ranks of input, kernel and offsets: %d, %d and %d", x.rank, w.rank, o.rank);
    if (!gale__lower_good(L) || !gale__windows_read(L, L->in[0], w.dims + 2, &d->w)) return false;
    d->groups = gale__attr_i(L, "group", 1), d->offset_groups = gale__attr_i(L, "offset_group", 1), d->kernel = 1;
    for (int i = 0; i < d->w.n; i++) d->kernel *= d->w.kernel[i];
    if (d->groups < 1 || d->offset_groups < 1 || x.dims[1] % d->groups || x.dims[1] % d->offset_groups ||
        w.dims[0] % d->groups || w.dims[1] != x.dims[1] / d->groups)
        gale__lower_refuse(L, "%lld channels do not match a kernel of %lld by %lld, group %lld, offset_group %lld",
            (long long)x.dims[1], (long long)w.dims[0], (long long)w.dims[1], (long long)d->groups,
            (long long)d->offset_groups);
    d->rank = 3 + 2 * d->w.n;
    d->plain[0] = x.dims[0], d->plain[1] = d->offset_groups,
    d->plain[2] = gale__lower_good(L) ? x.dims[1] / d->offset_groups : 1;
    for (int i = 0; i < d->w.n; i++) d->plain[3 + i] = d->w.kernel[i], d->plain[3 + d->w.n + i] = d->w.out[i];
    return gale__lower_good(L);
}

LOWER(DeformConv)
{
    gale__prim_graph *g = L->g;
    deform d = {0};
    if (!read_deform(L, &d)) return;
    gale__prim_node k = gale__lower_peek(g, L->in[1]);
    gale__node bias = gale__lower_arg(L, 3), v = columns(L, &d);
    int64_t flat[4] = {1, d.groups, k.dims[0] / d.groups, k.dims[1] * d.kernel},
            dims[GALE_MAX_RANK] = {d.plain[0], k.dims[0]};
    for (int i = 0; i < d.w.n; i++) dims[2 + i] = d.w.out[i];
    gale__node y = gale__prim_reshape(
        g, gale__prim_matmul(g, gale__prim_reshape(g, gale__lower_wide(L, L->in[1]), 4, flat), v), 2 + d.w.n, dims);
    if (bias >= 0) y = gale__prim_add(g, y, gale__lower_along(L, gale__lower_wide(L, bias), 2 + d.w.n, 1));
    L->out[0] = gale__prim_cast(g, y, gale__lower_type_of(g, L->in[0]));
}
