/* See last_winograd.h. */
#include "kernel/cpu/last_winograd.h"
#include "base/thread.h"
#include "kernel/cpu/contract.h"
#include "kernel/cpu/divide.h"
#include "kernel/cpu/scratch.h"
#include "kernel/cpu/walk.h"
#include <math.h>
#include <string.h>

enum {
    VECTOR = GALE__WINOGRAD_ROWS,
    PIXELS = GALE__POINT_PIXELS,
    PANEL = GALE__POINT_CHANNELS,
    PLACES_MOST = 36,
    SPARE = 16, /* floats between points, so that these do not meet in one set of the cache */
    BLOCK_MOST = 4 * PIXELS,
    BLOCK_BYTES = 512 << 10, /* of the transformed places of a block: half of the second cache */
    TASK_TILES = 4,
    NEAR_WEIGHTS = 768 << 10, /* that stay in the second cache from one block to the next */
    LEAST_CHANNELS = VECTOR
};
#define WEIGHT_BYTES (24 << 20)   /* most of transformed weights */
#define WEIGHT_BYTES_4 (12 << 20) /* and of those for m = 4, whose errors grow with the channels */

/* Nanoseconds with AVX-512, as those of the other kernels (last.c): of a multiplication, of a place that is transformed
 * and of a product that is transformed back, and of a weight that comes from the third cache. */
#define NS_PRODUCT 0.0110
#define NS_IN 0.10
#define NS_BACK 0.12
#define NS_WEIGHT 0.20
#define NS_LOOPS 4000 /* of one map: a second loop of all threads */

static int64_t padded(const gale__cpu_last_window *l) { return round_up(l->channels, VECTOR); }
static int row_of(const gale__cpu_last_window *l) { return l->pixels.dim[l->pixels.n - 2]; }
static int column_of(const gale__cpu_last_window *l) { return l->pixels.dim[l->pixels.n - 1]; }

bool gale__cpu_last_winograd_fits(const gale__cpu_last_window *l)
{
    const gale__cpu_span *taps = &l->steps;
    const gale__nest_access *x = l->x;
    if (l->group >= 0 || l->pixels.n < 2 || taps->n != 2 || taps->extent[0] != 3 || taps->extent[1] != 3) return false;
    int row = row_of(l), column = column_of(l), down = taps->dim[0], across = taps->dim[1];
    if (x->stride[row] != x->stride[down] || x->stride[column] != x->stride[across]) return false;
    for (int g = 0; g < x->n_guards; g++) {
        const gale__nest_guard *guard = &x->guards[g];
        if (guard->coef[row] != guard->coef[down] || guard->coef[column] != guard->coef[across]) return false;
    }
    return true;
}

/* Tiles of a block. */
static int64_t block_of(int64_t m, int64_t k, int64_t tiles)
{
    int64_t point = (m + 2) * (m + 2), fit = BLOCK_BYTES / (point * k * (int64_t)sizeof(float)) / PIXELS * PIXELS;
    return least(least(fit < PIXELS ? PIXELS : fit, BLOCK_MOST), tiles);
}

/* Of one map, whose tiles decide, whatever the number of maps is. */
static double ns_of(const gale__cpu_last_window *l, int64_t m)
{
    int64_t tiles = parts(l->nest->extent[row_of(l)], m) * parts(l->nest->extent[column_of(l)], m);
    double points = (double)((m + 2) * (m + 2)), k = (double)l->k, channels = (double)padded(l),
           weights = points * k * channels, blocks = (double)parts(tiles, block_of(m, l->k, tiles)),
           all = (double)tiles, far = weights * (double)sizeof(float) > NEAR_WEIGHTS ? NS_WEIGHT : NS_WEIGHT / 4;
    return all * weights * NS_PRODUCT + points * all * (k * NS_IN + channels * NS_BACK) + blocks * weights * far +
           NS_LOOPS;
}

double gale__cpu_last_winograd_ns(const gale__cpu_last_window *l, int64_t *m)
{
    int64_t asked = gale__cpu_winograd_asked();
    double best = INFINITY;
    *m = 0;
    if (!gale__simd_is_wide() || !gale__cpu_last_winograd_fits(l)) return best;
    if (l->k < LEAST_CHANNELS || l->channels < LEAST_CHANNELS) return best;
    double maps = (double)l->pixels.count / (double)(l->nest->extent[row_of(l)] * l->nest->extent[column_of(l)]);
    for (int64_t n = 2; n <= 4; n += 2) {
        double ns = ns_of(l, n) * maps;
        size_t bytes = (size_t)((n + 2) * (n + 2) * l->k * padded(l)) * sizeof(float);
        if (!asked || (asked > 0 && asked != n) || bytes > (n == 4 ? WEIGHT_BYTES_4 : WEIGHT_BYTES) || ns >= best)
            continue;
        best = ns;
        *m = n;
    }
    return best;
}

void gale__cpu_last_winograd_find(gale__cpu_last_window *l, double ns)
{
    gale__cpu_last_tiles *w = &l->winograd;
    int64_t m, width = gale__parallel_now();
    double its = gale__cpu_last_winograd_ns(l, &m);
    if (!m || (its >= ns && gale__cpu_winograd_asked() < 0)) return;
    *w = (gale__cpu_last_tiles){.m = m,
        .points = (m + 2) * (m + 2),
        .down = parts(l->nest->extent[row_of(l)], m),
        .across = parts(l->nest->extent[column_of(l)], m)};
    gale__cpu_span_init(&w->maps, l->nest, l->pixels.dim, l->pixels.n - 2);
    w->tiles = w->maps.count * w->down * w->across;
    w->block = block_of(m, l->k, w->tiles);
    if (width > 1) w->block = least(w->block, parts(w->tiles, parts(width, parts(l->channels, PANEL))));
    w->together = least(parts(w->tiles, w->block), width < 1 ? 1 : width);
    w->point = w->block * l->k + SPARE;
    w->products = w->block * PANEL + SPARE;
    l->panels.bytes = (size_t)(w->points * l->k * padded(l)) * sizeof(float);
    l->panels.key ^= (uint64_t)m << 1;
    l->shared_bytes = (size_t)(w->together * w->points * w->point + l->k) * sizeof(float);
    l->private_bytes = (size_t)(w->points * w->products) * sizeof(float) + (size_t)(2 * w->block) * sizeof(int64_t);
}

/* --- Weights: [point][panel of 32 channels][summed channels][channels of the panel]. --- */

typedef struct making {
    const gale__cpu_last_window *l;
    const float *from;
    float *to;
    double factors[6][3];
} making;

/* Task: a vector of channels. */
static void weights_task(void *arg, size_t i, int worker)
{
    const making *w = arg;
    const gale__cpu_last_window *l = w->l;
    int64_t c = (int64_t)i * VECTOR, panel = c / PANEL * PANEL, wide = least(PANEL, padded(l) - panel),
            some = least(VECTOR, l->channels - c), at[GALE__NEST_DIMS] = {0}, next = l->w->stride[l->channel];
    double taps[9][VECTOR] = {{0}}, out[PLACES_MOST][VECTOR];
    (void)worker;
    for (int64_t k = 0; k < l->k; k++) {
        for (int64_t t = 0; t < 9; t++) {
            gale__cpu_span_seek(&l->steps, t, at);
            at[l->deep] = k;
            const float *from = w->from + gale__cpu_address(l->w, at, l->nest->n_outer + l->nest->n_inner) + c * next;
            for (int64_t v = 0; v < some; v++) taps[t][v] = (double)from[v * next];
        }
        gale__cpu_winograd_weights(l->winograd.m, w->factors, (const double(*)[VECTOR])taps, out);
        for (int64_t p = 0; p < l->winograd.points; p++) {
            float *to = w->to + (p * padded(l) + panel) * l->k + k * wide + (c - panel);
            for (int64_t v = 0; v < VECTOR; v++) to[v] = (float)out[p][v];
        }
    }
}

void gale__cpu_last_winograd_make_panels(const gale__cpu_last_window *l, const void *from, void *to)
{
    making w = {.l = l, .from = from, .to = to};
    gale__cpu_winograd_factors(l->winograd.m, w.factors);
    gale__parallel((size_t)(padded(l) / VECTOR), weights_task, &w);
}

/* --- Running. --- */

typedef struct run {
    const gale__cpu_last_window *l;
    void *const *buffers;
    const gale__simd *simd;
    int64_t first, count, parts; /* tiles at hand, and shares of the channels of a block */
    int64_t some;                /* tiles that a task transforms */
    float *zeros, *places;       /* places: [block][point][tile][channel] */
} run;

/* A tile: where it begins, and how many results it has along the axes. */
static void seek_tile(const gale__cpu_last_window *l, int64_t tile, int64_t *at, int64_t some[2])
{
    const gale__cpu_last_tiles *w = &l->winograd;
    int64_t x = tile % w->across, y = tile / w->across % w->down;
    int row = row_of(l), column = column_of(l);
    memset(at, 0, GALE__NEST_DIMS * sizeof *at);
    gale__cpu_span_seek(&w->maps, tile / w->across / w->down, at);
    at[row] = y * w->m;
    at[column] = x * w->m;
    some[0] = least(w->m, l->nest->extent[row] - at[row]);
    some[1] = least(w->m, l->nest->extent[column] - at[column]);
}

/* Where the places of a tile are; those outside the map, and those that only results outside need, are zeros. */
static void find_places(const run *r, int64_t tile, const float **place)
{
    const gale__cpu_last_window *l = r->l;
    const gale__nest_access *x = l->x;
    int64_t at[GALE__NEST_DIMS], some[2], in[2] = {0}, side = l->winograd.m + 2;
    int down = l->steps.dim[0], across = l->steps.dim[1];
    seek_tile(l, tile, at, some);
    const float *from = (const float *)r->buffers[x->buffer] + gale__cpu_address(x, at, l->nest->n_outer);
    for (int g = 0; g < x->n_guards; g++) {
        in[g] = x->guards[g].c0;
        for (int d = 0; d < l->nest->n_outer; d++) in[g] += x->guards[g].coef[d] * at[d];
    }
    for (int64_t i = 0; i < side; i++)
        for (int64_t j = 0; j < side; j++) {
            bool inside = i < some[0] + 2 && j < some[1] + 2;
            for (int g = 0; g < x->n_guards && inside; g++) {
                const gale__nest_guard *guard = &x->guards[g];
                int64_t v = in[g] + i * guard->coef[down] + j * guard->coef[across];
                inside = v >= 0 && v < guard->extent;
            }
            *place++ = inside ? from + i * x->stride[down] + j * x->stride[across] : r->zeros;
        }
}

/* Task: some tiles. */
static void in_task(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_last_window *l = r->l;
    const gale__cpu_last_tiles *w = &l->winograd;
    const float *place[PLACES_MOST];
    (void)worker;
    for (int64_t t = (int64_t)i * r->some; t < least((int64_t)(i + 1) * r->some, r->count); t++) {
        find_places(r, r->first + t, place);
        r->simd->winograd[w->m == 4].place(
            r->places + t / w->block * w->points * w->point + t % w->block * l->k, w->point, place, (size_t)l->k);
    }
}

/* Tiles of a block by a panel of channels from c on, at all points. */
static void multiply(const run *r, int64_t block, int64_t tiles, int64_t c, float *to)
{
    const gale__cpu_last_window *l = r->l;
    const gale__cpu_last_tiles *w = &l->winograd;
    int64_t lanes = least(PANEL, padded(l) - c), some = parts(tiles, parts(tiles, PIXELS));
    gale__simd_point d = {
        .step = l->k, .k_step = 1, .k = l->k, .out_pitch = PANEL, .lanes = lanes, .lo = -INFINITY, .hi = INFINITY};
    for (int64_t p = 0; p < w->points; p++) {
        d.w = (const float *)r->buffers[l->w->buffer] + (p * padded(l) + c) * l->k;
        for (int64_t t = 0, n; t < tiles; t += n) {
            n = least(some, tiles - t);
            d.x = r->places + (block * w->points + p) * w->point + t * l->k;
            d.out = to + p * w->products + t * PANEL;
            d.next = d.x + n * l->k;
            d.ahead = d.w + l->k * lanes + t / some * (l->k * (PANEL / 4));
            r->simd->point[1][lanes > VECTOR][n](&d);
        }
    }
}

/* What a task that multiplies works with. */
typedef struct desk {
    float *products;      /* [point][tile][channel] */
    int64_t *out, *other; /* by tile: where its first result is */
} desk;

static void transform_back(const run *r, const desk *k, int64_t first, int64_t tiles, int64_t c)
{
    const gale__cpu_last_window *l = r->l;
    const gale__cpu_last_tiles *w = &l->winograd;
    const gale__cpu_finish *q = &l->finish;
    int row = row_of(l), column = column_of(l);
    gale__simd_tile_back d = {.point = w->products,
        .row_pitch = q->out->stride[row],
        .pitch = q->out->stride[column],
        .other_row = q->other ? q->other->stride[row] : 0,
        .other_pitch = q->other ? q->other->stride[column] : 0,
        .lanes = least(PANEL, l->channels - c),
        .lo = q->lo,
        .hi = q->hi};
    int64_t at[GALE__NEST_DIMS] = {0}, some[2];
    at[l->channel] = c;
    if (q->along)
        d.start = (const float *)r->buffers[q->along->buffer] + gale__cpu_address(q->along, at, l->nest->n_outer);
    for (int64_t t = 0; t < tiles; t++) {
        seek_tile(l, first + t, at, some);
        d.down = some[0];
        d.across = some[1];
        d.products = k->products + t * PANEL;
        d.out = (float *)r->buffers[q->out->buffer] + k->out[t] + c * q->out->stride[l->channel];
        if (q->other)
            d.other = (const float *)r->buffers[q->other->buffer] + k->other[t] + c * q->other->stride[l->channel];
        r->simd->winograd[w->m == 4].back(&d);
        for (int64_t y = 0; q->activate && y < d.down; y++)
            q->activate(d.out + y * d.row_pitch, (size_t)d.lanes, (size_t)d.across, d.pitch);
    }
}

/* Task: a block, and some of the channels. */
static void out_task(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_last_window *l = r->l;
    const gale__cpu_last_tiles *w = &l->winograd;
    int64_t block = (int64_t)i / r->parts, part = (int64_t)i % r->parts, panels = parts(l->channels, PANEL),
            each = parts(panels, r->parts), tiles = least(w->block, r->count - block * w->block),
            first = r->first + block * w->block, at[GALE__NEST_DIMS], some[2];
    char *memory = gale__cpu_scratch_take(GALE__CPU_SCRATCH_PRIVATE, l->private_bytes);
    desk k = {.products = (float *)(void *)memory};
    (void)worker;
    k.out = (int64_t *)(void *)(k.products + w->points * w->products);
    k.other = k.out + w->block;
    for (int64_t t = 0; t < tiles; t++) {
        seek_tile(l, first + t, at, some);
        k.out[t] = gale__cpu_address(l->finish.out, at, l->nest->n_outer);
        if (l->finish.other) k.other[t] = gale__cpu_address(l->finish.other, at, l->nest->n_outer);
    }
    for (int64_t p = part * each; p < least(panels, (part + 1) * each); p++) {
        multiply(r, block, tiles, p * PANEL, k.products);
        transform_back(r, &k, first, tiles, p * PANEL);
    }
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_PRIVATE, memory);
}

void gale__cpu_last_winograd_run(const gale__cpu_last_window *l, void *const *buffers)
{
    const gale__cpu_last_tiles *w = &l->winograd;
    int64_t width = gale__parallel_now(), panels = parts(l->channels, PANEL);
    run r = {.l = l, .buffers = buffers, .simd = gale__simd_get()};
    r.zeros = gale__cpu_scratch_take(GALE__CPU_SCRATCH_SHARED, l->shared_bytes);
    r.places = r.zeros + l->k;
    memset(r.zeros, 0, (size_t)l->k * sizeof *r.zeros);
    for (; r.first < w->tiles; r.first += r.count) {
        r.count = least(w->together * w->block, w->tiles - r.first);
        int64_t blocks = parts(r.count, w->block);
        r.parts = width < 2 ? 1 : least(panels, parts(width, blocks));
        r.some = r.count < TASK_TILES * width ? 1 : TASK_TILES;
        gale__parallel_kernel((size_t)parts(r.count, r.some), in_task, &r);
        gale__parallel_kernel((size_t)(blocks * r.parts), out_task, &r);
    }
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_SHARED, r.zeros);
}
