/* See last_first.h. */
#include "kernel/cpu/last_first.h"
#include "base/thread.h"
#include "kernel/cpu/contract.h"
#include "kernel/cpu/divide.h"
#include "kernel/cpu/last.h"
#include "kernel/cpu/scratch.h"
#include "kernel/cpu/walk.h"
#include <string.h>

enum { VECTOR = 16, MOST_CHANNELS = 4, MOST_ROWS = 16, LEAST_CHANNELS = 8, BLOCK_TILES = 16, TASKS_EACH = 2 };
#define MOST_FLOATS (64 << 20) /* of a map with its borders */

/* Nanoseconds with AVX-512, as those of the other kernels (last.c): of a multiplication, of one of n in a sum n times
 * as much more, and of an element that is copied. */
#define NS_DECLARED 0.0115
#define NS_DECLARED_SUM 0.35
#define NS_LAST 0.0110
#define NS_LAST_SUM 0.12
#define NS_COPY 0.6

static int64_t padded(const gale__cpu_last_first *l) { return round_up(l->channels, VECTOR); }
static int row_of(const gale__cpu_last_first *l) { return l->pixels.dim[0]; }
static int column_of(const gale__cpu_last_first *l) { return l->pixels.dim[1]; }

/* Weights are as declared: the summed channels are walked in their largest steps, taps across in the smallest. */
static bool find_inner(gale__cpu_last_first *l)
{
    const gale__nest *nest = l->nest;
    int first = nest->n_outer;
    if (nest->n_inner != 3) return false;
    l->deep = l->across = first;
    for (int d = first; d < first + 3; d++) {
        if (l->w->stride[d] > l->w->stride[l->deep]) l->deep = d;
        if (l->w->stride[d] < l->w->stride[l->across]) l->across = d;
    }
    if (l->deep == l->across) return false;
    l->down = 3 * first + 3 - l->deep - l->across;
    l->k = nest->extent[l->deep];
    l->taps = nest->extent[l->down];
    l->row = nest->extent[l->across] * l->k;
    return l->k <= MOST_CHANNELS && l->taps <= MOST_ROWS && l->x->stride[l->across] == 1 && l->x->stride[l->down] > 0 &&
           l->x->stride[l->deep] > l->x->stride[l->down];
}

/* Channels of the result, then maps, rows and columns. */
static bool find_outer(gale__cpu_last_first *l)
{
    const gale__nest *nest = l->nest;
    uint8_t dims[GALE__NEST_DIMS];
    int n = 0;
    l->channel = -1;
    for (int d = 0; d < nest->n_outer; d++) {
        if (l->w->stride[d]) {
            if (l->channel >= 0 || l->x->stride[d]) return false;
            l->channel = d;
        } else dims[n++] = (uint8_t)d;
    }
    if (l->channel < 0 || n < 2 || nest->extent[l->channel] < LEAST_CHANNELS) return false;
    l->channels = nest->extent[l->channel];
    gale__cpu_span_init(&l->pixels, nest, dims + n - 2, 2);
    gale__cpu_span_init(&l->maps, nest, dims, n - 2);
    const int64_t tap[2] = {l->x->stride[l->down], 1};
    for (int i = 0; i < 2; i++) {
        int64_t stride = l->x->stride[l->pixels.dim[i]];
        if (stride <= 0 || stride % tap[i]) return false;
        l->step[i] = stride / tap[i];
    }
    l->height = l->step[0] * (l->pixels.extent[0] - 1) + l->taps;
    l->width = l->step[1] * (l->pixels.extent[1] - 1) + nest->extent[l->across];
    return l->height * l->width * l->k < MOST_FLOATS;
}

/* A guard is about rows or about columns, and sees each place once, whichever tap leads there. */
static bool find_guards(gale__cpu_last_first *l)
{
    const gale__nest *nest = l->nest;
    for (int g = 0; g < l->x->n_guards; g++) {
        const gale__nest_guard *guard = &l->x->guards[g];
        int i = guard->coef[l->across] ? 1 : 0, tap = i ? l->across : l->down;
        if (l->guard[i] || guard->div != 1 || guard->coef[l->pixels.dim[i]] != guard->coef[tap] * l->step[i])
            return false;
        for (int d = 0; d < nest->n_outer + nest->n_inner; d++)
            if (d != tap && d != l->pixels.dim[i] && guard->coef[d]) return false;
        l->guard[i] = guard;
    }
    return !l->x->n_guards || !l->x->fill;
}

static bool look(const gale__nest *nest, gale__cpu_last_first *l)
{
    gale__contraction info;
    const gale__simd *simd = gale__simd_get();
    *l = (gale__cpu_last_first){.nest = nest, .tile = simd->spread_pixels, .wide = simd->spread_channels};
    if (!simd->spread || !gale__simd_is_wide() || nest->n_stores != 1 || !gale__nest_contraction(nest, &info) ||
        !gale__cpu_last_factors(nest, &info, &l->x, &l->w))
        return false;
    l->reduce = info.reduce;
    return find_inner(l) && find_outer(l) && find_guards(l);
}

bool gale__cpu_last_first_could(const gale__nest *nest, double ns[2])
{
    gale__cpu_last_first l;
    gale__cpu_span lanes;
    gale__cpu_finish q;
    if (!look(nest, &l)) return false;
    gale__cpu_span_init(&lanes, nest, &l.pixels.dim[1], 1);
    gale__cpu_finish_find(&q, nest, l.reduce, &lanes, false);
    if (!q.out || q.also || q.scale || q.other || (q.bias && q.bias->stride[l.channel] != 1)) return false;
    double maps = (double)l.maps.count, each = (double)(l.taps * l.row),
           work = maps * (double)l.pixels.count * (double)l.channels * each;
    ns[0] = work * (NS_DECLARED + NS_DECLARED_SUM / each);
    ns[1] = work * (double)padded(&l) / (double)l.channels * (NS_LAST + NS_LAST_SUM / each) +
            maps * (double)(l.height * l.width * l.k) * NS_COPY;
    return true;
}

static bool find_finish(gale__cpu_last_first *l)
{
    gale__cpu_span lanes;
    uint8_t dim = (uint8_t)l->channel;
    const gale__cpu_finish *q = &l->finish;
    gale__cpu_span_init(&lanes, l->nest, &dim, 1);
    gale__cpu_finish_find(&l->finish, l->nest, l->reduce, &lanes, true);
    return q->out && !q->also && !q->scale && !q->bias && !q->other && q->run == lanes.count &&
           q->out->stride[l->channel] == 1 &&
           q->out->stride[row_of(l)] == q->out->stride[column_of(l)] * l->pixels.extent[1];
}

bool gale__cpu_last_first_find(gale__cpu_last_first *l, const gale__nest *nest)
{
    if (!nest->last || !look(nest, l) || !find_finish(l)) {
        l->nest = NULL;
        return false;
    }
    int64_t width = gale__parallel_now(), tiles = parts(l->pixels.count, l->tile);
    for (l->block = BLOCK_TILES; width > 1 && l->block > 1 && parts(tiles, l->block) < TASKS_EACH * width;)
        l->block /= 2;
    l->blocks = parts(tiles, l->block);
    l->private_bytes = (size_t)(l->taps * l->tile) * sizeof(float *);
    l->shared_bytes = (size_t)(l->height * l->width * l->k) * sizeof(float);
    l->panels = gale__cpu_last_panels(nest, l->w, 0xf125, (size_t)(l->taps * l->row * padded(l)) * sizeof(float));
    return true;
}

/* [panel][taps down][taps across][summed channels][channels of the panel] */
void gale__cpu_last_first_make_panels(const gale__cpu_last_first *l, const void *from, void *to)
{
    const float *w = (const float *)from + l->w->offset;
    float *p = to;
    for (int64_t c0 = 0; c0 < padded(l); c0 += l->wide)
        for (int64_t y = 0; y < l->taps; y++)
            for (int64_t i = 0; i < l->row; i++)
                for (int64_t c = c0; c < least(c0 + l->wide, padded(l)); c++)
                    *p++ = c >= l->channels
                               ? 0
                               : w[c * l->w->stride[l->channel] + y * l->w->stride[l->down] +
                                     i / l->k * l->w->stride[l->across] + i % l->k * l->w->stride[l->deep]];
}

typedef struct run {
    const gale__cpu_last_first *l;
    void *const *buffers;
    int64_t at[GALE__NEST_DIMS]; /* of the map */
    float *map;                  /* with its borders */
} run;

/* Places [*lo, *hi) of an axis are inside. */
static void find_inside(const gale__nest_guard *guard, int64_t by, int64_t extent, int64_t *lo, int64_t *hi)
{
    *lo = 0;
    *hi = extent;
    if (guard) gale__cpu_clip(guard->c0, by, guard->extent, lo, hi);
}

/* Task: a row of the map. */
static void copy_task(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_last_first *l = r->l;
    const gale__nest_guard *gy = l->guard[0], *gx = l->guard[1];
    int64_t y = (int64_t)i, lo, hi, first, last;
    float *to = r->map + y * l->width * l->k;
    (void)worker;
    find_inside(gy, gy ? gy->coef[l->down] : 0, l->height, &first, &last);
    find_inside(gx, gx ? gx->coef[l->across] : 0, l->width, &lo, &hi);
    if (y < first || y >= last || hi < lo) hi = lo = 0;
    memset(to, 0, (size_t)(lo * l->k) * sizeof *to);
    memset(to + hi * l->k, 0, (size_t)((l->width - hi) * l->k) * sizeof *to);
    const float *x = (const float *)r->buffers[l->x->buffer] + gale__cpu_address(l->x, r->at, l->nest->n_outer) +
                     y * l->x->stride[l->down];
    for (int64_t c = 0; c < l->k; c++)
        for (int64_t j = lo; j < hi; j++) to[j * l->k + c] = x[j + c * l->x->stride[l->deep]];
}

/* Task: some tiles of the map, by all channels. */
static void sum_task(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_last_first *l = r->l;
    const gale__cpu_finish *q = &l->finish;
    int64_t most = parts(l->pixels.count, l->blocks), from = (int64_t)i * most,
            end = least(from + most, l->pixels.count), pitch = q->out->stride[column_of(l)],
            columns = l->pixels.extent[1];
    const float **lane = gale__cpu_scratch_take(GALE__CPU_SCRATCH_PRIVATE, l->private_bytes);
    float *out = (float *)r->buffers[q->out->buffer] + gale__cpu_address(q->out, r->at, l->nest->n_outer);
    const float *start = NULL;
    (void)worker;
    if (q->along)
        start = (const float *)r->buffers[q->along->buffer] + gale__cpu_address(q->along, r->at, l->nest->n_outer);
    gale__simd_spread d = {.lane = lane,
        .pitch = l->tile,
        .taps = l->taps,
        .k = l->row,
        .deep = l->row,
        .out_pitch = pitch,
        .lo = q->lo,
        .hi = q->hi};
    int64_t y = from / columns, x = from % columns;
    for (int64_t n; from < end; from += n) {
        n = least(l->tile, end - from);
        for (int64_t p = 0; p < n; p++) {
            const float *place = r->map + (y * l->step[0] * l->width + x * l->step[1]) * l->k;
            for (int64_t t = 0; t < l->taps; t++, place += l->width * l->k) lane[t * l->tile + p] = place;
            if (++x == columns) x = 0, y++;
        }
        for (int64_t c = 0; c < l->channels; c += l->wide) {
            d.lanes = least(l->wide, l->channels - c);
            d.w = (const float *)r->buffers[l->w->buffer] + l->taps * l->row * c;
            d.start = start ? start + c : NULL;
            d.out = out + from * pitch + c;
            gale__simd_get()->spread(&d, n);
            if (q->activate) q->activate(out + from * pitch + c, (size_t)d.lanes, (size_t)n, pitch);
        }
    }
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_PRIVATE, lane);
}

void gale__cpu_last_first_run(const gale__cpu_last_first *l, void *const *buffers)
{
    run r = {.l = l, .buffers = buffers, .map = gale__cpu_scratch_take(GALE__CPU_SCRATCH_SHARED, l->shared_bytes)};
    for (int64_t m = 0; m < l->maps.count; m++) {
        gale__cpu_span_seek(&l->maps, m, r.at);
        gale__parallel_kernel((size_t)l->height, copy_task, &r);
        gale__parallel_kernel((size_t)l->blocks, sum_task, &r);
    }
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_SHARED, r.map);
}
