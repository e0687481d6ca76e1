/* See last_window.h. */
#include "kernel/cpu/last_window.h"
#include "base/thread.h"
#include "kernel/cpu/contract.h"
#include "kernel/cpu/divide.h"
#include "kernel/cpu/last.h"
#include "kernel/cpu/last_winograd.h"
#include "kernel/cpu/scratch.h"
#include "kernel/cpu/walk.h"
#include <math.h>
#include <string.h>

enum {
    VECTOR = 16,
    BLOCK_TILES = 8, /* that the weights of a group serve while they are near */
    TASKS_EACH = 4,
    K_STEPS = 1024, /* that are summed in registers: their weights stay in the second cache */
    NEAR_CHANNELS = 64,
    LEAST_CHANNELS = 8 /* fewer leave most of a tile empty */
};

/* Nanoseconds of a multiplication with AVX-512, as those of the other kernels (last.c), by size of the first cache. */
typedef struct costs {
    double group, dense; /* as declared: by groups, others */
    double winograd[2];  /* for each multiplication that is left, m = 2, 4 */
    double last[2];      /* channels-last, by one and two vectors of channels */
} costs;
static const costs large_costs = {0.027, 0.0118, {0.0118, 0.0118}, {0.0150, 0.0115}},
                   small_costs = {0.027, 0.0142, {0.0142, 0.0227}, {0.0160, 0.0127}};

static const costs *costs_of(void) { return gale__simd_get()->small_cache ? &small_costs : &large_costs; }

/* The outer dimensions that weights have, one or two: the map is walked by groups, too. */
static bool find_channels(gale__cpu_last_window *l)
{
    const gale__nest *nest = l->nest;
    l->group = l->channel = -1;
    for (int d = 0; d < nest->n_outer; d++) {
        int *to = l->x->stride[d] ? &l->group : &l->channel;
        if (!l->w->stride[d]) continue;
        if (*to >= 0) return false;
        *to = d;
    }
    if (l->channel < 0 || (l->group < 0 && !gale__simd_is_wide())) return false;
    l->groups = l->group < 0 ? 1 : nest->extent[l->group];
    l->channels = nest->extent[l->channel];
    return l->channels >= LEAST_CHANNELS;
}

/* Taps, and the channels that are summed: those walked in the smallest steps, or as declared in the largest. */
static bool find_steps(gale__cpu_last_window *l, bool last)
{
    const gale__nest *nest = l->nest;
    uint8_t dims[GALE__NEST_DIMS];
    int n = 0;
    l->deep = nest->n_outer;
    for (int d = nest->n_outer; d < nest->n_outer + nest->n_inner; d++) {
        int64_t more = l->x->stride[d] - l->x->stride[l->deep];
        if (l->x->stride[d] <= 0) return false;
        if (last ? more < 0 : more > 0) l->deep = d;
    }
    for (int d = nest->n_outer; d < nest->n_outer + nest->n_inner; d++)
        if (d != l->deep) dims[n++] = (uint8_t)d;
    gale__cpu_span_init(&l->steps, nest, dims, n);
    l->taps = l->steps.count;
    l->k = nest->extent[l->deep];
    return n > 0 && l->taps > 1 && l->taps <= GALE__LAST_WINDOW_TAPS && l->k >= LEAST_CHANNELS;
}

static bool find_guards(const gale__cpu_last_window *l)
{
    for (int g = 0; g < l->x->n_guards; g++) {
        const gale__nest_guard *guard = &l->x->guards[g];
        if (g == 2 || guard->div != 1 || guard->coef[l->channel] || guard->coef[l->deep]) return false;
        if (l->group >= 0 && guard->coef[l->group]) return false;
    }
    return !l->x->n_guards || !l->x->fill;
}

static bool look(const gale__nest *nest, gale__cpu_last_window *l)
{
    gale__contraction info;
    uint8_t dims[GALE__NEST_DIMS];
    int n = 0;
    const gale__simd *simd = gale__simd_get();
    *l = (gale__cpu_last_window){.nest = nest, .tile = simd->spread_pixels, .wide = simd->spread_channels};
    if (!simd->spread || nest->n_stores != 1 || nest->n_inner < 2 || !gale__nest_contraction(nest, &info) ||
        !gale__cpu_last_factors(nest, &info, &l->x, &l->w) || !find_channels(l))
        return false;
    l->reduce = info.reduce;
    for (int d = 0; d < nest->n_outer; d++)
        if (d != l->group && d != l->channel) dims[n++] = (uint8_t)d;
    gale__cpu_span_init(&l->pixels, nest, dims, n);
    return n > 0 && find_steps(l, nest->accesses[nest->stores[0].access].stride[l->channel] == 1) && find_guards(l);
}

/* Whether pixels are equally far apart. */
static bool is_even(const gale__nest_access *a, const gale__cpu_span *pixels)
{
    for (int i = 0; a && i + 1 < pixels->n; i++)
        if (a->stride[pixels->dim[i]] != a->stride[pixels->dim[i + 1]] * pixels->extent[i + 1]) return false;
    return true;
}

static bool find_finish(gale__cpu_last_window *l)
{
    gale__cpu_span lanes;
    const gale__cpu_finish *q = &l->finish;
    const uint8_t dims[2] = {(uint8_t)l->group, (uint8_t)l->channel};
    gale__cpu_span_init(&lanes, l->nest, l->group < 0 ? dims + 1 : dims, l->group < 0 ? 1 : 2);
    gale__cpu_finish_find(&l->finish, l->nest, l->reduce, &lanes, true);
    return q->out && !q->also && !q->scale && !q->bias && q->run == lanes.count && is_even(q->out, &l->pixels) &&
           is_even(q->other, &l->pixels);
}

/* Lanes of vectors that are computed for each group. */
static int64_t padded(const gale__cpu_last_window *l) { return round_up(l->channels, VECTOR); }

/* By Winograd's transforms, where these are better: 3 x 3 taps side by side. */
static double winograd_ns(const gale__cpu_last_window *l, const costs *of)
{
    int n = l->pixels.n, column = l->pixels.dim[n - 1], row;
    int64_t best;
    if (!gale__cpu_last_winograd_fits(l)) return INFINITY;
    row = l->pixels.dim[n - 2];
    gale__cpu_window w = {.x = {.lanes = l->nest->extent[column], .taps = 3, .step = 1, .hop = 1, .unit = 1},
        .y = {.lanes = l->nest->extent[row], .taps = 3, .step = 1, .hop = 1, .unit = 1},
        .rest = {.n = 1, .count = l->k},
        .far = {.count = 1}};
    double cost =
        gale__cpu_winograd_cost(&w, l->channels, gale__simd_gemm_find(gale__simd_plain(GALE__SIMD_TYPE_F32)), &best);
    double maps = (double)l->pixels.count / (double)(w.x.lanes * w.y.lanes);
    return best && gale__cpu_winograd_asked() ? cost * maps * of->winograd[best == 4] : INFINITY;
}

/* By plain sums, channels-last. */
static double sums_ns(const gale__cpu_last_window *l)
{
    return (double)l->pixels.count * (double)(l->groups * l->k * l->taps) * (double)padded(l) *
           costs_of()->last[l->channels > VECTOR];
}

/* With AVX2 nanoseconds of one core of a Zen 3 EPYC, as those of the other kernels (last.c). */
static void estimate(const gale__cpu_last_window *l, double ns[2])
{
    double work = (double)l->pixels.count * (double)(l->groups * l->k * l->taps);
    if (!gale__simd_is_wide()) {
        ns[0] = work * (double)l->channels * 0.038;
        ns[1] = work * (double)padded(l) * 0.030;
        return;
    }
    const costs *of = costs_of();
    ns[0] = work * (double)l->channels * (l->group < 0 ? of->dense : of->group);
    if (l->group < 0) ns[0] = fmin(ns[0], winograd_ns(l, of));
    int64_t m;
    ns[1] = fmin(sums_ns(l), gale__cpu_last_winograd_ns(l, &m));
}

bool gale__cpu_last_window_could(const gale__nest *nest, double ns[2])
{
    gale__cpu_last_window l;
    gale__cpu_span lanes;
    gale__cpu_finish q;
    if (!look(nest, &l) || (l.group < 0 && gale__cpu_shares_wanted(true))) return false;
    int pixel = l.pixels.dim[l.pixels.n - 1];
    gale__cpu_span_init(&lanes, nest, (const uint8_t[]){(uint8_t)pixel}, 1);
    gale__cpu_finish_find(&q, nest, l.reduce, &lanes, false);
    if (!q.out || q.also || q.scale || (q.bias && q.bias->stride[l.channel] != 1) ||
        (q.other && !q.other->stride[l.channel]))
        return false;
    estimate(&l, ns);
    return true;
}

static void find_taps(gale__cpu_last_window *l)
{
    int64_t at[GALE__NEST_DIMS] = {0};
    for (int64_t t = 0; t < l->taps; t++) {
        gale__cpu_span_seek(&l->steps, t, at);
        for (int i = 0; i < l->steps.n; i++) {
            int d = l->steps.dim[i];
            l->tap_at[t] += at[d] * l->x->stride[d];
            for (int g = 0; g < l->x->n_guards; g++) l->tap_in[t][g] += at[d] * l->x->guards[g].coef[d];
        }
    }
}

/* Weights of a group: panels (make_panel), of which the last perhaps has fewer channels. */
static int64_t panels_of(const gale__cpu_last_window *l) { return parts(l->channels, l->wide); }
static int64_t weights_of(const gale__cpu_last_window *l) { return l->taps * l->k * padded(l); }

/* Tasks share groups, or the channels of dense ones, before they share pixels: each panel of weights is then read by
 * few of them. */
static void divide(gale__cpu_last_window *l)
{
    int64_t width = gale__parallel_now(), units = l->groups * panels_of(l), tiles = parts(l->pixels.count, l->tile);
    for (l->block = BLOCK_TILES;; l->block /= 2) {
        l->blocks = parts(tiles, l->block);
        l->parts = width < 2 ? 1 : least(units, parts(TASKS_EACH * width, l->blocks));
        if (width < 2 || l->block == 1 || l->blocks * l->parts >= 2 * width) break;
    }
    l->some = l->turn = l->k;
    if (gale__simd_is_wide()) {
        l->some = least(l->k, NEAR_CHANNELS);
        l->turn = round_up(parts(l->k, parts(l->taps * l->k, K_STEPS)), l->some);
    }
    l->private_bytes =
        (size_t)(l->block * l->taps * l->tile) * sizeof(float *) + (size_t)(l->groups * l->k) * sizeof(float);
    l->private_bytes = (l->private_bytes + 63) / 64 * 64;
    if (l->turn < l->k) l->private_bytes += (size_t)(l->block * l->tile * l->wide) * sizeof(float);
}

bool gale__cpu_last_window_find(gale__cpu_last_window *l, const gale__nest *nest)
{
    bool found = nest->last && look(nest, l) && l->x->stride[l->deep] == 1 && find_finish(l) &&
                 l->finish.out->stride[l->channel] == 1;
    if (!found) {
        l->nest = NULL;
        return false;
    }
    find_taps(l);
    divide(l);
    l->panels = gale__cpu_last_panels(
        nest, l->w, 0x91d0 + ((uint64_t)l->deep << 16), (size_t)(l->groups * weights_of(l)) * sizeof(float));
    if (l->group < 0) gale__cpu_last_winograd_find(l, sums_ns(l));
    return true;
}

/* One panel of a group, of channels from c0 on: [channels summed / some][taps][some][channels]. */
static float *make_panel(const gale__cpu_last_window *l, int64_t group, int64_t c0, const float *from, float *to)
{
    int64_t at[GALE__NEST_DIMS] = {0}, wide = least(l->wide, padded(l) - c0), next = l->w->stride[l->channel];
    if (l->group >= 0) at[l->group] = group;
    for (int64_t k0 = 0; k0 < l->k; k0 += l->some)
        for (int64_t t = 0; t < l->taps; t++)
            for (int64_t k = k0; k < least(k0 + l->some, l->k); k++, to += wide) {
                gale__cpu_span_seek(&l->steps, t, at);
                at[l->deep] = k;
                const float *w = from + gale__cpu_address(l->w, at, l->nest->n_outer + l->nest->n_inner) + c0 * next;
                for (int64_t v = 0; v < wide; v++) to[v] = c0 + v < l->channels ? w[v * next] : 0;
            }
    return to;
}

void gale__cpu_last_window_make_panels(const gale__cpu_last_window *l, const void *from, void *to)
{
    float *p = to;
    if (l->winograd.m) {
        gale__cpu_last_winograd_make_panels(l, from, to);
        return;
    }
    for (int64_t g = 0; g < l->groups; g++)
        for (int64_t c = 0; c < l->channels; c += l->wide) p = make_panel(l, g, c, from, p);
}

typedef struct run {
    const gale__cpu_last_window *l;
    void *const *buffers;
    void (*spread)(const gale__simd_spread *d, int64_t pixels);
} run;

/* A pixel: its coordinates, where it is in the map, and what the guards say of it. */
typedef struct place {
    int64_t at[GALE__NEST_DIMS], in[2];
    const float *from;
} place;

static void seek(const run *r, int64_t pixel, place *p)
{
    const gale__cpu_last_window *l = r->l;
    const gale__nest_access *x = l->x;
    *p = (place){0};
    gale__cpu_span_seek(&l->pixels, pixel, p->at);
    p->from = (const float *)r->buffers[x->buffer] + gale__cpu_address(x, p->at, l->nest->n_outer);
    for (int g = 0; g < x->n_guards; g++) {
        p->in[g] = x->guards[g].c0;
        for (int d = 0; d < l->nest->n_outer; d++) p->in[g] += x->guards[g].coef[d] * p->at[d];
    }
}

/* Most pixels have the next one beside them. */
static void next_pixel(const run *r, int64_t pixel, place *p)
{
    const gale__cpu_last_window *l = r->l;
    int d = l->pixels.dim[l->pixels.n - 1];
    if (pixel == l->pixels.count) return;
    if (++p->at[d] == l->nest->extent[d]) {
        seek(r, pixel, p);
        return;
    }
    p->from += l->x->stride[d];
    for (int g = 0; g < l->x->n_guards; g++) p->in[g] += l->x->guards[g].coef[d];
}

/* Where a pixel is for each tap, in the first group. */
static void place_pixel(const gale__cpu_last_window *l, const place *p, const float *zeros, const float **lane)
{
    uint64_t extent[2] = {1, 1};
    for (int g = 0; g < l->x->n_guards; g++) extent[g] = (uint64_t)l->x->guards[g].extent;
    for (int64_t t = 0, pitch = l->tile; t < l->taps; t++, lane += pitch) {
        bool inside =
            (uint64_t)(p->in[0] + l->tap_in[t][0]) < extent[0] && (uint64_t)(p->in[1] + l->tap_in[t][1]) < extent[1];
        *lane = inside ? p->from + l->tap_at[t] : zeros;
    }
}

/* What the tiles of a task have in common. */
typedef struct block {
    int64_t first, pixels, tiles;
    const float **lane; /* [tiles][taps][most pixels] */
    float *zeros, *sums;
} block;

static int64_t tile_pixels(const block *b, int64_t t) { return b->pixels / b->tiles + (t < b->pixels % b->tiles); }

/* Some channels of one tile: its sums go on to the result after the last ones. */
static void sum_tile(const run *r, gale__simd_spread *d, int64_t pixels, bool last)
{
    const gale__cpu_last_window *l = r->l;
    float *out = d->out;
    if (!last) d->out = NULL;
    r->spread(d, pixels);
    if (last && l->finish.activate) l->finish.activate(out, (size_t)d->lanes, (size_t)pixels, d->out_pitch);
}

/* A block of pixels by one panel of a group. */
static void sum_panel(const run *r, const block *b, int64_t group, int64_t c0)
{
    const gale__cpu_last_window *l = r->l;
    const gale__cpu_finish *q = &l->finish;
    int64_t at[GALE__NEST_DIMS] = {0};
    int n_outer = l->nest->n_outer, pixel = l->pixels.dim[l->pixels.n - 1];
    if (l->group >= 0) at[l->group] = group;
    at[l->channel] = c0;
    gale__cpu_span_seek(&l->pixels, b->first, at);
    gale__simd_spread d = {.pitch = l->tile,
        .taps = l->taps,
        .deep = l->some,
        .shift = l->group < 0 ? 0 : group * l->x->stride[l->group],
        .lanes = least(l->wide, l->channels - c0),
        .out_pitch = q->out->stride[pixel],
        .other_pitch = q->other ? q->other->stride[pixel] : 0,
        .w = (const float *)r->buffers[l->w->buffer] + group * weights_of(l) + l->taps * l->k * c0,
        .lo = q->lo,
        .hi = q->hi};
    float *out = (float *)r->buffers[q->out->buffer] + gale__cpu_address(q->out, at, n_outer);
    const float *other = NULL;
    if (q->other) other = (const float *)r->buffers[q->other->buffer] + gale__cpu_address(q->other, at, n_outer);
    if (q->along) d.start = (const float *)r->buffers[q->along->buffer] + gale__cpu_address(q->along, at, n_outer);
    const float *w = d.w;
    int64_t shift = d.shift;
    for (int64_t k0 = 0; k0 < l->k; k0 += l->turn) {
        d.k = least(l->turn, l->k - k0);
        d.shift = shift + k0;
        d.w = w + k0 * l->taps * (d.lanes > VECTOR ? l->wide : VECTOR);
        d.more = k0 > 0;
        for (int64_t t = 0, i = 0, n; t < b->tiles; t++, i += n) {
            n = tile_pixels(b, t);
            d.lane = b->lane + t * l->taps * l->tile;
            d.sums = b->sums + t * l->tile * l->wide;
            d.out = out + i * d.out_pitch;
            d.other = other ? other + i * d.other_pitch : NULL;
            sum_tile(r, &d, n, k0 + l->turn >= l->k);
        }
    }
}

static void place_block(const run *r, const block *b)
{
    place p;
    seek(r, b->first, &p);
    for (int64_t t = 0, pixel = b->first; t < b->tiles; t++)
        for (int64_t i = 0; i < tile_pixels(b, t); i++, next_pixel(r, ++pixel, &p))
            place_pixel(r->l, &p, b->zeros, b->lane + t * r->l->taps * r->l->tile + i);
}

/* Task: a block of tiles, and some of the groups' panels. */
static void window_task(void *arg, size_t task, int worker)
{
    const run *r = arg;
    const gale__cpu_last_window *l = r->l;
    int64_t panels = panels_of(l), units = l->groups * panels, part = (int64_t)task % l->parts,
            each = parts(units, l->parts), most = parts(l->pixels.count, l->blocks);
    char *memory = gale__cpu_scratch_take(GALE__CPU_SCRATCH_PRIVATE, l->private_bytes);
    size_t sums = (size_t)(l->block * l->tile * l->wide) * sizeof(float);
    block b = {.first = (int64_t)task / l->parts * most, .lane = (const float **)(void *)memory};
    (void)worker;
    b.pixels = least(most, l->pixels.count - b.first);
    b.tiles = parts(b.pixels, l->tile);
    b.zeros = (float *)(void *)(b.lane + l->block * l->taps * l->tile);
    if (l->turn < l->k) b.sums = (float *)(void *)(memory + l->private_bytes - sums);
    if (l->x->n_guards) memset(b.zeros, 0, (size_t)(l->groups * l->k) * sizeof *b.zeros);
    if (b.pixels > 0) place_block(r, &b);
    for (int64_t u = part * each; b.pixels > 0 && u < least(units, (part + 1) * each); u++)
        sum_panel(r, &b, u / panels, u % panels * l->wide);
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_PRIVATE, memory);
}

void gale__cpu_last_window_run(const gale__cpu_last_window *l, void *const *buffers)
{
    run r = {l, buffers, gale__simd_get()->spread};
    if (l->winograd.m) {
        gale__cpu_last_winograd_run(l, buffers);
        return;
    }
    gale__parallel_kernel((size_t)(l->blocks * l->parts), window_task, &r);
}
