/* Pooling over regions of a picture: RoiAlign samples between pixels, MaxRoiPool takes whole ones.  Regions are
 * run-time values, so no size depends on them. */
#include "ops/sample.h"
#include <math.h>
#include <string.h>

#define MOST_SAMPLES 1024 /* along an axis of a bin */

/* --- RoiAlign.  Values are [regions, C, bins..., samples...]; what belongs to an axis has extents at its bins and
 * samples alone. --- */

typedef struct region_axis {
    int64_t extent, bins, samples;
    gale__node start, bin, grid,
        step;         /* [regions, 1, 1, 1, 1, 1], floats: first pixel, a bin's size, its samples, their distance */
    gale__node first; /* [regions, 1, bins]: the first sample that is looked at */
    gale__node at, counts,
        inside; /* by sample: the coordinate, whether it is one of `grid`, whether it is in the picture */
} region_axis;

/* A number for each region, from column `i` of an input [regions, columns]. */
static gale__node column(gale__lower *L, gale__node table, int i, int rank)
{
    return gale__lower_along(L, gale__prim_slice_axis(L->g, table, 1, i, 1), rank, 0);
}

static gale__node iota_at(gale__lower *L, int64_t n, int axis, gale_type type)
{
    int64_t dims[6] = {1, 1, 1, 1, 1, 1};
    dims[axis] = n;
    return gale__prim_cast(L->g, gale__prim_iota(L->g, 6, dims, axis), type);
}

static gale__node within(gale__lower *L, gale__node x, double low, double high)
{
    return gale__prim_binary(L->g, GALE__AND, gale__prim_binary(L->g, GALE__GE, x, gale__lower_value(L, x, low)),
        gale__prim_binary(L->g, GALE__LE, x, gale__lower_value(L, x, high)));
}

/* The number, not below 0, of the first sample at `from` or after it, for bins that begin at `begin`. */
static gale__node first_from(gale__lower *L, const region_axis *a, gale__node begin, gale__node from)
{
    gale__prim_graph *g = L->g;
    gale__node i =
        gale__prim_sub(g, gale__prim_div(g, gale__prim_sub(g, from, begin), a->step), gale__lower_value(L, begin, 0.5));
    return gale__prim_binary(g, GALE__MAX, gale__prim_unary(g, GALE__CEIL, i), gale__lower_value(L, begin, 0));
}

static gale__node sample_at(gale__lower *L, const region_axis *a, gale__node begin, gale__node i)
{
    return gale__prim_add(
        L->g, begin, gale__prim_mul(L->g, gale__prim_add(L->g, i, gale__lower_value(L, i, 0.5)), a->step));
}

/* `axis` 0 is the height, 1 the width.  With a sampling ratio of 0 a bin has a sample per pixel, rounded up. */
static void read_axis(gale__lower *L, int axis, int64_t extent, int64_t bins, int64_t ratio, region_axis *a)
{
    gale__prim_graph *g = L->g;
    gale__node rois = gale__lower_wide(L, L->in[1]),
               scale = gale__lower_value(L, rois, gale__attr_f(L, "spatial_scale", 1)),
               one = gale__lower_value(L, rois, 1);
    bool half = !strcmp(gale__attr_s(L, "coordinate_transformation_mode", "half_pixel"), "half_pixel");
    gale__node shift = gale__lower_value(L, rois, half ? 0.5 : 0);
    a->extent = extent, a->bins = bins;
    a->start = gale__prim_sub(g, gale__prim_mul(g, column(L, rois, 1 - axis, 6), scale), shift);
    gale__node end = gale__prim_sub(g, gale__prim_mul(g, column(L, rois, 3 - axis, 6), scale), shift),
               size = gale__prim_sub(g, end, a->start);
    if (!half) size = gale__prim_binary(g, GALE__MAX, size, one);
    a->bin = gale__prim_div(g, size, gale__lower_value(L, rois, (double)bins));
    a->grid = ratio > 0 ? gale__prim_like(g, a->bin, (double)ratio)
                        : gale__prim_binary(
                              g, GALE__MAX, gale__prim_unary(g, GALE__CEIL, a->bin), gale__lower_value(L, rois, 0));
    a->step = gale__prim_div(g, a->bin, gale__prim_binary(g, GALE__MAX, a->grid, one));
}

static gale__node bin_starts(gale__lower *L, const region_axis *a, int axis)
{
    gale__node i = iota_at(L, a->bins, 2 + axis, gale__lower_type_of(L->g, a->bin));
    return gale__prim_add(L->g, a->start, gale__prim_mul(L->g, i, a->bin));
}

/* Coordinates of the samples.  A ratio of 0 leaves their number open, but they are more than half a pixel apart, so
 * that at most `samples` of each bin are in the picture. */
static void place_samples(gale__lower *L, int axis, int64_t ratio, region_axis *a)
{
    gale__prim_graph *g = L->g;
    gale__node begin = bin_starts(L, a, axis), outside = gale__lower_value(L, begin, -1);
    a->samples = ratio > 0 ? ratio : 2 * a->extent + 4;
    a->first = ratio > 0 ? gale__lower_value(L, begin, 0) : first_from(L, a, begin, outside);
    gale__node i = gale__prim_add(g, a->first, iota_at(L, a->samples, 4 + axis, gale__lower_type_of(g, begin)));
    a->counts = gale__prim_binary(g, GALE__LT, i, a->grid);
    gale__node at = sample_at(L, a, begin, i);
    a->inside = within(L, at, -1, (double)a->extent);
    a->at = gale__lower_clamp(L, at, 0, (double)(a->extent - 1));
}

static gale__node both(gale__lower *L, gale__node x, gale__node y) { return gale__prim_binary(L->g, GALE__AND, x, y); }

/* Samples outside the picture are 0.  max: of the four products of weight and pixel, not of their sum. */
static gale__node pool_samples(gale__lower *L, gale__node x, gale__node base, int64_t ratio, region_axis a[2], bool max)
{
    gale__prim_graph *g = L->g;
    gale__sampler s = {.x = x,
        .base = base,
        .n = 2,
        .mode = GALE__RESIZE_LINEAR,
        .outside = GALE__OUTSIDE_EDGE,
        .join = max ? GALE__MAX : GALE__ADD};
    for (int i = 0; i < 2; i++) {
        place_samples(L, i, ratio, &a[i]);
        s.extent[i] = a[i].extent, s.at[i] = a[i].at;
    }
    gale__node v = gale__lower_sample(L, &s), zero = gale__lower_value(L, v, 0),
               none = gale__lower_value(L, v, max ? -INFINITY : 0);
    v = gale__prim_select(g, both(L, a[0].inside, a[1].inside), v, zero);
    if (!max) return gale__prim_reduce(g, GALE__SUM, v, 3u << 4, true);
    v = gale__prim_reduce(
        g, GALE__RMAX, gale__prim_select(g, both(L, a[0].counts, a[1].counts), v, none), 3u << 4, true);
    /* samples that were passed over are outside; a bin without any is 0 */
    gale__node skipped =
        gale__prim_binary(g, GALE__GT, gale__prim_add(g, a[0].first, a[1].first), gale__lower_value(L, a[0].first, 0));
    v = gale__prim_select(g, skipped, gale__prim_binary(g, GALE__MAX, v, zero), v);
    gale__node empty =
        gale__prim_binary(g, GALE__EQ, gale__prim_mul(g, a[0].grid, a[1].grid), gale__lower_value(L, a[0].grid, 0));
    return gale__prim_select(g, empty, zero, v);
}

/* How much each pixel of an axis counts in each bin: [regions, bins, extent].  The samples that touch a pixel are
 * within one of it, and more than half a pixel apart: five numbers from the first cover them. */
static gale__node pixel_weights(gale__lower *L, const region_axis *a)
{
    gale__prim_graph *g = L->g;
    gale__node begin = bin_starts(L, a, 0), pixel = iota_at(L, a->extent, 4, gale__lower_type_of(g, begin)),
               one = gale__lower_value(L, begin, 1), zero = gale__lower_value(L, begin, 0);
    gale__node i = gale__prim_add(
        g, first_from(L, a, begin, gale__prim_sub(g, pixel, one)), iota_at(L, 5, 5, gale__lower_type_of(g, begin)));
    gale__node at = sample_at(L, a, begin, i),
               ok = both(L, gale__prim_binary(g, GALE__LT, i, a->grid), within(L, at, -1, (double)a->extent));
    gale__node far =
        gale__prim_unary(g, GALE__ABS, gale__prim_sub(g, gale__lower_clamp(L, at, 0, (double)(a->extent - 1)), pixel));
    gale__node weight =
        gale__prim_select(g, ok, gale__prim_binary(g, GALE__MAX, gale__prim_sub(g, one, far), zero), zero);
    int64_t regions = gale__lower_peek(g, a->start).dims[0];
    return gale__prim_reshape(
        g, gale__prim_reduce(g, GALE__SUM, weight, 1u << 5, true), 3, (int64_t[]){regions, a->bins, a->extent});
}

/* Pictures of the regions [regions, C, H, W]; one picture needs no gather. */
static gale__node pictures(gale__lower *L, gale__node x, gale__node batch)
{
    return gale__lower_peek(L->g, x).dims[0] == 1 ? x : gale__prim_gather(L->g, x, batch, 0);
}

/* However many samples there are, they weigh rows and columns: two matrix products. */
static gale__node pool_weighted(gale__lower *L, gale__node x, gale__node batch, const region_axis a[2])
{
    gale__prim_graph *g = L->g;
    const int turn[4] = {0, 1, 3, 2};
    gale_type type = gale__lower_type_of(g, x);
    gale__node rows = gale__prim_unsqueeze(g, gale__prim_cast(g, pixel_weights(L, &a[0]), type), 1u << 1);
    gale__node columns = gale__prim_unsqueeze(g, gale__prim_cast(g, pixel_weights(L, &a[1]), type), 1u << 1);
    gale__node y =
        gale__prim_matmul(g, gale__prim_matmul(g, rows, pictures(L, x, batch)), gale__prim_permute(g, columns, turn));
    return gale__prim_unsqueeze(g, y, 3u << 4);
}

LOWER(RoiAlign)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]), q = gale__lower_peek(g, L->in[1]);
    const char *mode = gale__attr_s(L, "mode", "avg");
    bool max = !strcmp(mode, "max");
    int64_t ratio = gale__attr_i(L, "sampling_ratio", 0), height = gale__attr_i(L, "output_height", 1),
            width = gale__attr_i(L, "output_width", 1);
    if (!max && strcmp(mode, "avg")) gale__lower_refuse(L, "mode '%s' is neither avg nor max", mode);
    if (ratio > MOST_SAMPLES)
        gale__lower_refuse(L, "sampling_ratio %lld exceeds the limit of %d", (long long)ratio, MOST_SAMPLES);
    if (p.rank != 4 || q.rank != 2 || q.dims[1] != 4 || height < 1 || width < 1 || p.dims[2] < 1 || p.dims[3] < 1 ||
        gale__prim_elements(g, L->in[2]) != q.dims[0])
        gale__lower_refuse(L, "unsupported: picture of rank %d, regions of rank %d, %lld by %lld bins", p.rank, q.rank,
            (long long)height, (long long)width);
    if (!gale__lower_good(L)) return;
    region_axis a[2];
    read_axis(L, 0, p.dims[2], height, ratio, &a[0]);
    read_axis(L, 1, p.dims[3], width, ratio, &a[1]);
    gale__node x = gale__lower_wide(L, L->in[0]), y;
    gale__node batch = gale__prim_mul(g, gale__lower_along(L, gale__lower_wrap_index(L, L->in[2], p.dims[0]), 6, 0),
        gale__lower_index(L, p.dims[1] * p.dims[2] * p.dims[3]));
    gale__node base = gale__prim_add(
        g, batch, gale__prim_mul(g, iota_at(L, p.dims[1], 1, GALE_I64), gale__lower_index(L, p.dims[2] * p.dims[3])));
    y = ratio > 0 || max ? pool_samples(L, x, base, ratio, a, max) : pool_weighted(L, x, L->in[2], a);
    gale__node count =
        gale__prim_binary(g, GALE__MAX, gale__prim_mul(g, a[0].grid, a[1].grid), gale__lower_value(L, a[0].grid, 1));
    if (!max) y = gale__prim_div(g, y, gale__prim_cast(g, count, gale__lower_type_of(g, y)));
    L->out[0] = gale__prim_cast(g, gale__prim_squeeze(g, y, 3u << 4), p.type);
}

/* --- MaxRoiPool: rows, then columns, that are in a bin.  Values are [regions, C, bins of both, H or W]. --- */

static gale__node rounded(gale__lower *L, gale__node x)
{
    return gale__prim_unary(L->g, GALE__FLOOR, gale__prim_add(L->g, x, gale__lower_value(L, x, 0.5)));
}

/* Whether pixel i of an axis is in a bin: [regions, 1, bins at `axis`, extent last]; *any: whether a pixel is. */
static gale__node in_bin(gale__lower *L, int axis, int64_t extent, int64_t bins, gale__node *any)
{
    gale__prim_graph *g = L->g;
    gale__node rois = gale__lower_wide(L, L->in[1]),
               scale = gale__lower_value(L, rois, gale__attr_f(L, "spatial_scale", 1)),
               one = gale__lower_value(L, rois, 1);
    gale__node start = rounded(L, gale__prim_mul(g, column(L, rois, 2 - axis, 5), scale)),
               end = rounded(L, gale__prim_mul(g, column(L, rois, 4 - axis, 5), scale));
    gale__node bin =
        gale__prim_div(g, gale__prim_binary(g, GALE__MAX, gale__prim_add(g, gale__prim_sub(g, end, start), one), one),
            gale__lower_value(L, rois, (double)bins));
    int64_t dims[5] = {1, 1, 1, 1, 1}, last[5] = {1, 1, 1, 1, extent};
    dims[2 + axis] = bins;
    gale__node b = gale__prim_cast(g, gale__prim_iota(g, 5, dims, 2 + axis), gale__lower_type_of(g, rois)),
               i = gale__prim_cast(g, gale__prim_iota(g, 5, last, 4), gale__lower_type_of(g, rois));
    gale__node from = gale__prim_add(g, start, gale__prim_unary(g, GALE__FLOOR, gale__prim_mul(g, b, bin)));
    gale__node to =
        gale__prim_add(g, start, gale__prim_unary(g, GALE__CEIL, gale__prim_mul(g, gale__prim_add(g, b, one), bin)));
    *any = gale__prim_binary(
        g, GALE__LT, gale__lower_clamp(L, from, 0, (double)extent), gale__lower_clamp(L, to, 0, (double)extent));
    return both(L, gale__prim_binary(g, GALE__GE, i, from), gale__prim_binary(g, GALE__LT, i, to));
}

LOWER(MaxRoiPool)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]), q = gale__lower_peek(g, L->in[1]);
    int count;
    const int64_t *bins = gale__attr_ints(L, "pooled_shape", &count);
    if (p.rank != 4 || q.rank != 2 || q.dims[1] != 5 || !bins || count != 2 || bins[0] < 1 || bins[1] < 1)
        gale__lower_refuse(L, "a picture of rank 4, regions of 5 numbers and pooled_shape of 2 are needed");
    if (!gale__lower_good(L)) return;
    const int turn[5] = {0, 1, 2, 4, 3};
    gale__node any_row, any_column, batch = gale__prim_cast(g, gale__prim_slice_axis(g, L->in[1], 1, 0, 1), GALE_I64);
    gale__node row = in_bin(L, 0, p.dims[2], bins[0], &any_row), pixel = in_bin(L, 1, p.dims[3], bins[1], &any_column);
    gale__node x = gale__prim_unsqueeze(
        g, pictures(L, gale__lower_wide(L, L->in[0]), gale__prim_reshape(g, batch, 1, q.dims)), 1u << 2);
    gale__node none = gale__lower_value(L, x, -INFINITY);
    x = gale__prim_reduce(
        g, GALE__RMAX, gale__prim_select(g, gale__prim_permute(g, row, turn), x, none), 1u << 3, true);
    x = gale__prim_reduce(g, GALE__RMAX, gale__prim_select(g, pixel, x, none), 1u << 4, true);
    x = gale__prim_select(g, both(L, any_row, any_column), x, gale__lower_value(L, x, 0));
    L->out[0] = gale__prim_cast(g, gale__prim_squeeze(g, x, 1u << 4), p.type);
}
