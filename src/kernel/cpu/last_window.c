/* See last_window.h. */
#include "kernel/cpu/last_window.h"
#include "base/hash.h"
#include "base/thread.h"
#include "kernel/cpu/divide.h"
#include "kernel/cpu/last.h"
#include "kernel/cpu/scratch.h"
#include "kernel/cpu/walk.h"
#include <math.h>
#include <string.h>

enum {
    PIXELS = GALE__SPREAD_PIXELS,
    VECTOR = GALE__SPREAD_CHANNELS,
    BLOCK_TILES = 8, /* that the weights of a group serve while they are near */
    TASKS_EACH = 4,
    LEAST_CHANNELS = 8 /* fewer leave most of a tile empty */
};

/* The two outer dimensions that weights have: the map is walked by groups, too. */
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
    if (l->group < 0 || l->channel < 0) return false;
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
        if (g == 2 || guard->div != 1 || guard->coef[l->group] || guard->coef[l->channel] || guard->coef[l->deep])
            return false;
    }
    return !l->x->n_guards || !l->x->fill;
}

static bool look(const gale__nest *nest, gale__cpu_last_window *l)
{
    gale__contraction info;
    uint8_t dims[GALE__NEST_DIMS];
    int n = 0;
    *l = (gale__cpu_last_window){.nest = nest};
    if (!gale__simd_get()->spread || nest->n_stores != 1 || nest->n_inner < 2 || !gale__nest_contraction(nest, &info) ||
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
    gale__cpu_span_init(&lanes, l->nest, (const uint8_t[]){(uint8_t)l->group, (uint8_t)l->channel}, 2);
    gale__cpu_finish_find(&l->finish, l->nest, l->reduce, &lanes, true);
    return q->out && !q->also && !q->scale && !q->bias && q->run == lanes.count && is_even(q->out, &l->pixels) &&
           is_even(q->other, &l->pixels);
}

/* Nanoseconds of one core of a Zen 3 EPYC, as those of the other kernels (last.c). */
bool gale__cpu_last_window_could(const gale__nest *nest, double ns[2])
{
    gale__cpu_last_window l;
    gale__cpu_span lanes;
    gale__cpu_finish q;
    if (!look(nest, &l)) return false;
    int pixel = l.pixels.dim[l.pixels.n - 1];
    gale__cpu_span_init(&lanes, nest, (const uint8_t[]){(uint8_t)pixel}, 1);
    gale__cpu_finish_find(&q, nest, l.reduce, &lanes, false);
    if (!q.out || q.also || q.scale || (q.bias && q.bias->stride[l.channel] != 1) ||
        (q.other && !q.other->stride[l.channel]))
        return false;
    double work = (double)l.pixels.count * (double)nest->extent[l.group] * (double)(l.k * l.taps);
    ns[0] = work * (double)l.channels * 0.038;
    ns[1] = work * (double)round_up(l.channels, VECTOR) * 0.030;
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

/* Tasks share groups before they share pixels: each group's weights are then read by few of them. */
static void divide(gale__cpu_last_window *l)
{
    int64_t width = gale__parallel_now(), groups = l->nest->extent[l->group], tiles = parts(l->pixels.count, PIXELS);
    for (l->block = BLOCK_TILES;; l->block /= 2) {
        l->blocks = parts(tiles, l->block);
        l->parts = width < 2 ? 1 : least(groups, parts(TASKS_EACH * width, l->blocks));
        if (width < 2 || l->block == 1 || l->blocks * l->parts >= 2 * width) break;
    }
    l->private_bytes =
        (size_t)(l->block * l->taps * PIXELS) * sizeof(float *) + (size_t)(groups * l->k) * sizeof(float);
}

static int64_t panel_of(const gale__cpu_last_window *l) { return l->taps * l->k * VECTOR; }
static int64_t panels_of(const gale__cpu_last_window *l) { return parts(l->channels, VECTOR); }

bool gale__cpu_last_window_find(gale__cpu_last_window *l, const gale__nest *nest)
{
    const gale__nest_access *w;
    bool found = nest->last && look(nest, l) && l->x->stride[l->deep] == 1 && find_finish(l) &&
                 l->finish.out->stride[l->channel] == 1;
    if (!found) {
        l->nest = NULL;
        return false;
    }
    w = l->w;
    find_taps(l);
    divide(l);
    uint64_t words[5 + 2 * GALE__NEST_DIMS] = {0x91d0, (uint64_t)w->offset};
    int n = 2;
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++)
        if (w->stride[d]) words[n++] = (uint64_t)nest->extent[d], words[n++] = (uint64_t)w->stride[d];
    words[n++] = (uint64_t)l->deep;
    l->panels =
        (gale__cpu_panels){w->buffer, (size_t)(nest->extent[l->group] * panels_of(l) * panel_of(l)) * sizeof(float),
            gale__hash(words, (size_t)n * sizeof *words, 1) | 1};
    return true;
}

/* [groups][panels][taps][channels summed][16] */
void gale__cpu_last_window_make_panels(const gale__cpu_last_window *l, const void *from, void *to)
{
    const gale__nest_access *w = l->w;
    float *p = to;
    for (int64_t i = 0; i < l->nest->extent[l->group] * panels_of(l); i++)
        for (int64_t t = 0; t < l->taps; t++)
            for (int64_t k = 0; k < l->k; k++)
                for (int64_t v = 0; v < VECTOR; v++, p++) {
                    int64_t c = i % panels_of(l) * VECTOR + v, at[GALE__NEST_DIMS] = {0};
                    at[l->group] = i / panels_of(l), at[l->channel] = c, at[l->deep] = k;
                    gale__cpu_span_seek(&l->steps, t, at);
                    int n_dims = l->nest->n_outer + l->nest->n_inner;
                    *p = c < l->channels ? ((const float *)from)[gale__cpu_address(w, at, n_dims)] : 0;
                }
}

typedef struct run {
    const gale__cpu_last_window *l;
    void *const *buffers;
} run;

/* Where the pixels of a tile are for each tap, in the first group. */
static void place_tile(const run *r, int64_t first, int64_t pixels, const float *zeros, const float **lane)
{
    const gale__cpu_last_window *l = r->l;
    const gale__nest_access *x = l->x;
    int64_t at[GALE__NEST_DIMS] = {0}, extent[2] = {1, 1};
    for (int g = 0; g < x->n_guards; g++) extent[g] = x->guards[g].extent;
    for (int64_t i = 0; i < pixels; i++) {
        int64_t in[2] = {0, 0};
        gale__cpu_span_seek(&l->pixels, first + i, at);
        const float *from = (const float *)r->buffers[x->buffer] + gale__cpu_address(x, at, l->nest->n_outer);
        for (int g = 0; g < x->n_guards; g++) {
            in[g] = x->guards[g].c0;
            for (int d = 0; d < l->nest->n_outer; d++) in[g] += x->guards[g].coef[d] * at[d];
        }
        for (int64_t t = 0; t < l->taps; t++) {
            bool inside = (uint64_t)(in[0] + l->tap_in[t][0]) < (uint64_t)extent[0] &&
                          (uint64_t)(in[1] + l->tap_in[t][1]) < (uint64_t)extent[1];
            lane[t * PIXELS + i] = inside ? from + l->tap_at[t] : zeros;
        }
    }
}

/* n tiles of a group; more: the first one brings the next panel of weights nearer. */
static void sum_group(
    const run *r, gale__simd_spread d, int64_t group, int64_t first, int64_t pixels, const float *const *lane)
{
    const gale__cpu_last_window *l = r->l;
    const gale__cpu_finish *q = &l->finish;
    int64_t tiles = parts(pixels, PIXELS), base = pixels / tiles, more = pixels % tiles, at[GALE__NEST_DIMS] = {0};
    int n_outer = l->nest->n_outer, pixel = l->pixels.dim[l->pixels.n - 1];
    at[l->group] = group;
    gale__cpu_span_seek(&l->pixels, first, at);
    float *out = (float *)r->buffers[q->out->buffer] + gale__cpu_address(q->out, at, n_outer);
    const float *other = NULL, *start = NULL, *w = r->buffers[l->w->buffer];
    if (q->other) other = (const float *)r->buffers[q->other->buffer] + gale__cpu_address(q->other, at, n_outer);
    if (q->along) start = (const float *)r->buffers[q->along->buffer] + gale__cpu_address(q->along, at, n_outer);
    d.out_pitch = q->out->stride[pixel];
    d.other_pitch = q->other ? q->other->stride[pixel] : 0;
    d.shift = group * l->x->stride[l->group];
    for (int64_t p = 0; p < panels_of(l); p++) {
        d.w = w + (group * panels_of(l) + p) * panel_of(l);
        d.lanes = least(VECTOR, l->channels - p * VECTOR);
        d.start = start ? start + p * VECTOR : NULL;
        for (int64_t t = 0, i = 0, n; t < tiles; t++, i += n) {
            n = base + (t < more);
            d.lane = lane + t * l->taps * PIXELS;
            d.out = out + i * d.out_pitch + p * VECTOR;
            d.other = other ? other + i * d.other_pitch + p * VECTOR : NULL;
            gale__simd_get()->spread(&d, n);
            if (q->activate) q->activate(d.out, (size_t)d.lanes, (size_t)n, d.out_pitch);
        }
    }
}

/* Task: a block of tiles, and some of the groups. */
static void window_task(void *arg, size_t task, int worker)
{
    const run *r = arg;
    const gale__cpu_last_window *l = r->l;
    int64_t groups = l->nest->extent[l->group], part = (int64_t)task % l->parts, block = (int64_t)task / l->parts,
            each = parts(groups, l->parts), most = parts(l->pixels.count, l->blocks), first = block * most,
            pixels = least(most, l->pixels.count - first), tiles = parts(pixels, PIXELS);
    char *memory = gale__cpu_scratch_take(GALE__CPU_SCRATCH_PRIVATE, l->private_bytes);
    const float **lane = (const float **)(void *)memory;
    float *zeros = (float *)(void *)(lane + l->block * l->taps * PIXELS);
    gale__simd_spread d = {.taps = l->taps, .k = l->k, .lo = l->finish.lo, .hi = l->finish.hi};
    (void)worker;
    if (l->x->n_guards) memset(zeros, 0, (size_t)(groups * l->k) * sizeof *zeros);
    for (int64_t t = 0, i = 0, n; t < tiles; t++, i += n) {
        n = pixels / tiles + (t < pixels % tiles);
        place_tile(r, first + i, n, zeros, lane + t * l->taps * PIXELS);
    }
    for (int64_t g = part * each; pixels > 0 && g < least(groups, (part + 1) * each); g++)
        sum_group(r, d, g, first, pixels, lane);
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_PRIVATE, memory);
}

void gale__cpu_last_window_run(const gale__cpu_last_window *l, void *const *buffers)
{
    run r = {l, buffers};
    gale__parallel_kernel((size_t)(l->blocks * l->parts), window_task, &r);
}
