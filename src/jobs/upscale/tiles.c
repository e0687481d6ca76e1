/* Tiles: positions, weights, cutting out and adding up. */
#include "jobs/upscale/tiles.h"
#include <string.h>

static int64_t round_up(int64_t v, int64_t multiple)
{
    return multiple > 1 ? (v + multiple - 1) / multiple * multiple : v;
}

static gale_status make_axis(int64_t size, int64_t tile, bool fixed, const gale__tile_wish *w, gale__tile_axis *out)
{
    gale__tile_axis a = {.size = size, .tile = tile > 0 ? tile - 2 * w->border : size, .overlap = w->overlap};
    if (a.tile < 1)
        return gale__fail(GALE_INVALID, "tiles of %lld pixels are too small: the network removes %lld on each side",
            (long long)tile, (long long)w->border);
    if (!fixed && a.tile > size) a.tile = size;
    if (!fixed) a.tile = round_up(a.tile + 2 * w->border, w->multiple) - 2 * w->border;
    a.count = 1;
    a.stride = a.tile;
    if (a.tile >= size) a.overlap = 0;
    else if (a.overlap >= a.tile)
        return gale__fail(
            GALE_INVALID, "tiles of %lld pixels cannot overlap by %lld", (long long)a.tile, (long long)a.overlap);
    else {
        a.stride = a.tile - a.overlap;
        a.count = (size - a.tile + a.stride - 1) / a.stride + 1;
        a.last = fixed ? size - a.tile : round_up(size - a.tile, w->multiple);
        if (a.last > (a.count - 1) * a.stride) a.last = size - a.tile; /* strides that are no multiple */
    }
    a.margin = w->margin < 0 ? a.overlap / 4 : w->margin < a.overlap / 2 ? w->margin : a.overlap / 2;
    *out = a;
    return GALE_OK;
}

gale_status gale__tiling_make(int64_t width, int64_t height, const gale__tile_wish *wish, gale__tiling *out)
{
    gale__tiling t = {.padding = wish->padding, .border = wish->border, .apron = wish->apron};
    if (width < 1 || height < 1 || wish->tile_width < 0 || wish->tile_height < 0 || wish->overlap < 0 ||
        wish->multiple < 0)
        return gale__fail(GALE_INVALID,
            "a picture of %lld x %lld cannot be cut into tiles of %lld x %lld that overlap by %lld", (long long)width,
            (long long)height, (long long)wish->tile_width, (long long)wish->tile_height, (long long)wish->overlap);
    GALE_TRY(make_axis(width + 2 * t.apron, wish->tile_width, wish->fixed_width, wish, &t.x));
    GALE_TRY(make_axis(height + 2 * t.apron, wish->tile_height, wish->fixed_height, wish, &t.y));
    *out = t;
    return GALE_OK;
}

/* How far tile i + 1 has taken over from tile i at v, which counts the picture's pixels: 0 to 1 around the middle of
 * their overlap.  All ramps are alike and only shifted, so that differences of neighbours are never negative and add up
 * to one. */
static double taken_over(const gale__tile_axis *a, int64_t i, double v)
{
    if (i < 0) return 1;
    if (i >= a->count - 1) return 0;
    double middle = 0.5 * (double)(gale__tile_axis_at(a, i + 1) + gale__tile_axis_at(a, i) + a->tile),
           width = (double)(a->overlap - 2 * a->margin);
    double t = width > 0 ? (v - middle) / width + 0.5 : v >= middle;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return t * t * (3 - 2 * t);
}

void gale__tile_axis_weights(const gale__tile_axis *a, int64_t i, int64_t scale, float *weights)
{
    int64_t first = gale__tile_axis_at(a, i);
    for (int64_t k = 0; k < a->tile * scale; k++) {
        double v = (double)first + ((double)k + 0.5) / (double)scale;
        weights[k] = v < (double)a->size ? (float)(taken_over(a, i - 1, v) - taken_over(a, i, v)) : 0;
    }
}

/* The picture's pixel that stands for one at v, which may be beyond. */
static int64_t inside(int64_t v, int64_t size, gale__tile_padding padding)
{
    if (padding == GALE__PAD_REPLICATE || size == 1) return v < 0 ? 0 : v < size ? v : size - 1;
    v = (v < 0 ? -v : v) % (2 * (size - 1));
    return v < size ? v : 2 * (size - 1) - v;
}

void gale__tile_take_row(
    const gale__tiling *t, int64_t index, int64_t plane, int64_t y, const float *picture, float *row)
{
    int64_t before = t->border + t->apron, x0 = gale__tile_axis_at(&t->x, index % t->x.count) - before,
            y0 = gale__tile_axis_at(&t->y, index / t->x.count) - before, width = gale__tiling_width(t),
            wide = t->x.size - 2 * t->apron, high = t->y.size - 2 * t->apron;
    int64_t first = x0 < 0 ? -x0 : 0, end = wide - x0 < width ? wide - x0 : width;
    const float *from = picture + (plane * high + inside(y0 + y, high, t->padding)) * wide;
    if (first < end) memcpy(row + first, from + x0 + first, (size_t)(end - first) * sizeof *row);
    else end = first = first < width ? first : width;
    for (int64_t x = 0; x < first; x++) row[x] = from[inside(x0 + x, wide, t->padding)];
    for (int64_t x = end; x < width; x++) row[x] = from[inside(x0 + x, wide, t->padding)];
}

void gale__tile_weights(const gale__tiling *t, int64_t index, int64_t scale, float *weights)
{
    gale__tile_axis_weights(&t->x, index % t->x.count, scale, weights);
    gale__tile_axis_weights(&t->y, index / t->x.count, scale, weights + t->x.tile * scale);
}

/* How much of row y of a tile is where tiles before it have been: all of it where those above reach, else what the
 * one to the left has. */
static int64_t seen(const gale__tiling *t, int64_t index, int64_t scale, int64_t y)
{
    int64_t i = index % t->x.count, j = index / t->x.count;
    if (j && y < (gale__tile_axis_at(&t->y, j - 1) + t->y.tile - gale__tile_axis_at(&t->y, j)) * scale)
        return t->x.tile * scale;
    return i ? (gale__tile_axis_at(&t->x, i - 1) + t->x.tile - gale__tile_axis_at(&t->x, i)) * scale : 0;
}

void gale__tile_add_row(const gale__tiling *t, int64_t index, int64_t scale, int64_t plane, int64_t y,
    const float *restrict row, const float *restrict weights, float *restrict picture)
{
    int64_t w = t->x.tile * scale, wide = (t->x.size - 2 * t->apron) * scale, high = (t->y.size - 2 * t->apron) * scale;
    int64_t x0 = (gale__tile_axis_at(&t->x, index % t->x.count) - t->apron) * scale,
            y0 = (gale__tile_axis_at(&t->y, index / t->x.count) - t->apron) * scale,
            within = x0 + w < wide ? w : wide - x0, skip = x0 < 0 ? -x0 : 0, old = seen(t, index, scale, y);
    if (y0 + y < 0 || y0 + y >= high || skip >= within) return;
    float *restrict to = picture + (plane * high + y0 + y) * wide + x0 + skip, v = weights ? weights[w + y] : 1;
    old = old < skip ? skip : old > within ? within : old;
    const float *restrict across = weights ? weights + skip : NULL;
    row += skip, old -= skip, within -= skip;
    if (!weights) memcpy(to, row, (size_t)within * sizeof *to);
    else if (v <= 0) memset(to + old, 0, (size_t)(within - old) * sizeof *to);
    else {
        for (int64_t x = 0; x < old; x++) to[x] += v * across[x] * row[x];
        for (int64_t x = old; x < within; x++) to[x] = v * across[x] * row[x];
    }
}
