/* See last.h. */
#include "kernel/cpu/last.h"
#include "base/hash.h"
#include "base/thread.h"
#include "kernel/cpu/contract.h"
#include "kernel/cpu/divide.h"
#include "kernel/cpu/last_bytes.h"
#include "kernel/cpu/last_first.h"
#include "kernel/cpu/last_window.h"
#include "kernel/cpu/scratch.h"
#include "kernel/cpu/walk.h"
#include <math.h>
#include <string.h>

enum {
    PIXELS = GALE__POINT_PIXELS,
    PIXELS_HALF = 12, /* of a tile with AVX2, which sums six at a time */
    CHANNELS = GALE__POINT_CHANNELS,
    VECTOR = 16,
    K_STEPS = 768, /* that are summed in registers */
    TILE_SUMS = GALE__UPRIGHT_SUMS,
    BLOCK_TILES = 8,    /* that a panel serves while it is near */
    NEAR_BYTES = 32768, /* of the rows of a map that taps down share */
    TASK_ROWS = 8,
    SETS_FLOATS = 256,    /* steps of k that are a multiple apart meet in a few sets of the first cache */
    MEET_FLOATS = 1024,   /* and pixels in one */
    OFTEN_CHANNELS = 256, /* of the result, for which pixels two apart are read again and again */
    OFTEN_STEPS = 256,
    TASKS_EACH = 4,
    TAPS_MOST = 49,
    POINT_COLUMNS = 256, /* of a map whose rows are one: as declared, wider ones are better */
    PANEL = 32,          /* pixels of a panel, which maps as declared should fill */
    NARROW_COLUMNS = 8,
    WIDE_COLUMNS = 32,
    LEAST_CHANNELS = 8 /* fewer leave most of a vector empty */
};
#define BORDER_COST 1.1

static int64_t padded(int64_t channels) { return parts(channels, VECTOR) * VECTOR; }

static const gale__nest_access *load_of(const gale__nest *nest, int value)
{
    const gale__nest_instr *in = &nest->code[value];
    const gale__nest_access *a = in->op == GALE__NEST_LOAD ? &nest->accesses[in->access] : NULL;
    return a && a->type == GALE_F32 ? a : NULL;
}

bool gale__cpu_last_factors(
    const gale__nest *nest, const gale__contraction *info, const gale__nest_access **x, const gale__nest_access **w)
{
    const gale__nest_access *a = load_of(nest, info->a), *b = load_of(nest, info->b);
    if (!a || !b || nest->code[info->reduce].acc != GALE_F32 || nest->code[info->reduce].type != GALE_F32) return false;
    bool first = nest->buffers[a->buffer].constant && !a->n_guards;
    *w = first ? a : b;
    *x = first ? b : a;
    return nest->buffers[(*w)->buffer].constant && !(*w)->n_guards && !nest->buffers[(*x)->buffer].constant &&
           (*x)->buffer != (*w)->buffer;
}

gale__cpu_panels gale__cpu_last_panels(const gale__nest *nest, const gale__nest_access *w, uint64_t kind, size_t bytes)
{
    uint64_t words[2 + 2 * GALE__NEST_DIMS] = {kind, (uint64_t)w->offset};
    int n = 2;
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++)
        if (w->stride[d]) words[n++] = (uint64_t)nest->extent[d], words[n++] = (uint64_t)w->stride[d];
    return (gale__cpu_panels){w->buffer, bytes, gale__hash(words, (size_t)n * sizeof *words, 1) | 1};
}

/* The one outer dimension that weights have. */
static bool find_channel(gale__cpu_last *l)
{
    l->channel = -1;
    for (int d = 0; d < l->nest->n_outer; d++) {
        if (!l->w->stride[d]) continue;
        if (l->channel >= 0) return false;
        l->channel = d;
    }
    if (l->channel < 0) return false;
    l->channels = l->nest->extent[l->channel];
    return l->channels >= LEAST_CHANNELS;
}

/* Columns are the dimension of pixels that is walked in the smallest steps, rows the next. */
static void find_pixels(gale__cpu_last *l)
{
    const gale__nest *nest = l->nest;
    uint8_t dims[GALE__NEST_DIMS];
    int n = 0;
    l->pixel = l->row = -1;
    for (int d = 0; d < nest->n_outer; d++)
        if (d != l->channel && l->x->stride[d] > 0 && (l->pixel < 0 || l->x->stride[d] < l->x->stride[l->pixel]))
            l->pixel = d;
    for (int d = 0; d < nest->n_outer; d++) {
        if (d == l->channel || d == l->pixel) continue;
        dims[n++] = (uint8_t)d;
        if (l->row < 0 || l->x->stride[d] < l->x->stride[l->row]) l->row = d;
    }
    gale__cpu_span_init(&l->rows, nest, dims, n);
    l->columns = l->pixel < 0 ? 1 : nest->extent[l->pixel];
}

/* Two dimensions of taps, the one across having the smaller steps; places of its taps are those of columns. */
static bool find_taps(gale__cpu_last *l)
{
    const gale__nest *nest = l->nest;
    int first = nest->n_outer, second = first + 1;
    if (nest->n_inner != 2 || l->pixel < 0 || l->row < 0) return false;
    bool turned = l->x->stride[first] < l->x->stride[second];
    l->tap_x = turned ? first : second;
    l->tap_y = turned ? second : first;
    int64_t place = l->x->stride[l->tap_x], across = nest->extent[l->tap_x];
    if (place <= 0 || l->x->stride[l->pixel] % place) return false;
    l->step = l->x->stride[l->pixel] / place;
    return l->step <= 2 && across % 2 && across >= 3 && across <= 7 && l->k <= TAPS_MOST && l->channels >= VECTOR;
}

/* Whether a guard is about these two dimensions alone. */
static bool guards(const gale__nest *nest, const gale__nest_guard *g, int outer, int tap)
{
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++)
        if (g->coef[d] && d != outer && d != tap) return false;
    return g->div == 1;
}

static bool find_guards(gale__cpu_last *l)
{
    const gale__nest_access *x = l->x;
    l->guard_y = l->guard_x = NULL;
    for (int g = 0; g < x->n_guards; g++) {
        const gale__nest_guard *guard = &x->guards[g];
        bool across = l->pixel >= 0 && guards(l->nest, guard, l->pixel, l->tap_x);
        if (!across && (l->row < 0 || !guards(l->nest, guard, l->row, l->tap_y))) return false;
        const gale__nest_guard **to = across ? &l->guard_x : &l->guard_y;
        if (*to) return false;
        *to = guard;
        if (across && (guard->coef[l->tap_x] != 1 || guard->coef[l->pixel] != l->step)) return false;
    }
    return !x->n_guards || !x->fill;
}

static gale__cpu_last_kind look(const gale__nest *nest, gale__cpu_last *l)
{
    gale__contraction info;
    *l = (gale__cpu_last){.nest = nest};
    if (!gale__simd_get()->wide || nest->n_stores != 1 || !gale__nest_contraction(nest, &info) ||
        !gale__cpu_last_factors(nest, &info, &l->x, &l->w) || !find_channel(l))
        return GALE__CPU_LAST_NONE;
    l->reduce = info.reduce;
    l->k = info.k;
    find_pixels(l);
    bool by_channel = l->x->stride[l->channel] != 0;
    if (by_channel && find_taps(l) && find_guards(l)) return GALE__CPU_LAST_DEPTH;
    if (by_channel || nest->n_inner != 1 || l->x->n_guards || l->x->stride[nest->n_outer] <= 0)
        return GALE__CPU_LAST_NONE;
    return GALE__CPU_LAST_POINT;
}

/* What follows the sums: along channels, or, if the result is as declared, along pixels. */
static bool find_finish(gale__cpu_last *l, bool last)
{
    const gale__nest *nest = l->nest;
    gale__cpu_span lanes;
    uint8_t dim = (uint8_t)(last ? l->channel : l->pixel);
    if (!last && l->pixel < 0) return false;
    gale__cpu_span_init(&lanes, nest, &dim, 1);
    gale__cpu_finish_find(&l->finish, nest, l->reduce, &lanes, last);
    const gale__cpu_finish *q = &l->finish;
    return q->out && !q->also && q->run == lanes.count && !(last && (q->scale || q->bias));
}

/* As estimate, for one core of a Zen 3 EPYC, with AVX2: as declared, results by channel are computed row by row.  One
 * side as declared costs more than both. */
static void estimate_half(const gale__cpu_last *l, gale__cpu_last_kind kind, double work, double ns[3])
{
    if (kind == GALE__CPU_LAST_POINT) {
        double full = (double)l->channels / (double)padded(l->channels); /* lanes of its vectors that count */
        ns[0] = work * 0.0335;
        ns[1] = work * (l->channels > VECTOR ? 0.0275 : 0.04) / full;
        ns[2] = 1.2 * fmax(ns[0], ns[1]);
        return;
    }
    ns[0] = work * (l->columns <= NARROW_COLUMNS ? 0.19 : 0.085) * (l->step > 1 ? 2.2 : 1);
    ns[1] = work * 0.055 * (l->step > 1 ? 1.6 : 1);
}

/* Nanoseconds of a multiplication, one core of a Granite Rapids Xeon: as declared, channels-last and, of 1 x 1, one
 * side channels-last.  Maps as declared fill vectors better the wider they are.  With a first cache of 32 KB (near, one
 * core of a Cascade Lake Xeon, in the same proportions) steps of k that are far apart take longer. */
static void estimate(const gale__cpu_last *l, gale__cpu_last_kind kind, double ns[3])
{
    double work = (double)l->channels * (double)l->columns * (double)l->rows.count * (double)l->k;
    bool near = gale__simd_get()->small_cache;
    if (!gale__simd_is_wide()) {
        estimate_half(l, kind, work, ns);
        return;
    }
    if (kind == GALE__CPU_LAST_POINT) {
        bool small = l->columns < POINT_COLUMNS && l->columns % PANEL;
        ns[0] = work * (small ? 0.0138 : near ? 0.0135 : 0.0110);
        ns[1] = work * (small ? near ? 0.0102 : 0.0110 : near ? 0.0120 : 0.0115);
        if (near) ns[2] = 2 * ns[0];
        int64_t pixels = l->columns * l->rows.count;
        double shares[2] = {
            gale__cpu_bands_point_ns(l->channels, pixels, l->k), gale__cpu_shares_ns(pixels, l->channels, l->k)};
        if (shares[0] >= ns[0]) return;
        ns[0] = shares[0];
        if (shares[1] < ns[1]) ns[1] = shares[1];
        if (ns[1] < BORDER_COST * ns[0]) ns[1] = BORDER_COST * ns[0]; /* where one side alone is, they have none */
        return;
    }
    bool narrow = l->columns <= NARROW_COLUMNS;
    ns[0] = work * (narrow ? 0.050 : 0.025) * (l->step > 1 ? 1.7 : 1);
    ns[1] = work * (narrow ? 0.030 : 0.025) * (l->step > 1 ? 1.3 : 1) * (l->columns > WIDE_COLUMNS ? 1.5 : 1);
    if (near && !narrow) ns[1] *= l->step < 2 ? 1.15 : l->columns > WIDE_COLUMNS ? 1.4 : 1;
}

bool gale__cpu_last_change_costs(void) { return gale__simd_is_wide() && gale__simd_get()->small_cache; }

gale__cpu_last_kind gale__cpu_last_could(const gale__nest *nest, double ns[3])
{
    gale__cpu_last l;
    gale__cpu_last_kind kind = look(nest, &l);
    const gale__cpu_finish *q = &l.finish;
    if (!kind && gale__cpu_last_window_could(nest, ns)) return GALE__CPU_LAST_WINDOW;
    if (!kind && gale__cpu_last_first_could(nest, ns)) return GALE__CPU_LAST_FIRST;
    if (!kind) return gale__cpu_last_bytes_could(nest, ns);
    if (!find_finish(&l, false) || q->scale || (q->bias && q->bias->stride[l.channel] != 1) ||
        (q->other && (kind == GALE__CPU_LAST_DEPTH || !q->other->stride[l.channel])))
        return GALE__CPU_LAST_NONE;
    ns[2] = 0;
    estimate(&l, kind, ns);
    if (!ns[2]) ns[2] = ns[1];
    return kind;
}

static int64_t step_of(const gale__cpu_last *l, const gale__nest_access *a)
{
    return a && l->pixel >= 0 ? a->stride[l->pixel] : 0;
}

/* Tasks share channels before they share pixels: each panel is then read by few of them. */
static void divide_points(gale__cpu_last *l)
{
    int64_t width = gale__parallel_now(), panels = parts(l->channels, CHANNELS);
    l->tiles = parts(l->columns, gale__simd_is_wide() ? PIXELS : PIXELS_HALF);
    for (l->block = BLOCK_TILES;; l->block /= 2) {
        l->blocks = parts(l->tiles * l->rows.count, l->block);
        l->groups = width < 2 ? 1 : least(panels, parts(TASKS_EACH * width, l->blocks));
        if (width < 2 || l->block == 1 || l->blocks * l->groups >= 2 * width) break;
    }
    int64_t k_step = l->x->stride[l->nest->n_outer], step = step_of(l, l->x);
    bool often = l->tiles * l->rows.count >= BLOCK_TILES; /* else weights take longer to arrive */
    l->copies = (k_step % SETS_FLOATS == 0 && step == 1) || (k_step == 1 && step % MEET_FLOATS == 0 && often);
    l->apart = k_step == 1 || step != 2 ? 1 : 2;
    l->copies |= l->apart == 2 && l->channels >= OFTEN_CHANNELS && l->k >= OFTEN_STEPS;
    l->pitch = round_up(l->k, VECTOR) | VECTOR; /* an odd number of cache lines */
    l->private_bytes =
        (size_t)(l->block * (TILE_SUMS + (l->copies ? PIXELS * l->apart * l->pitch : 0)) + VECTOR) * sizeof(float);
}

/* Channels whose rows, as many as there are taps down, stay in the first cache. */
static void divide_depth(gale__cpu_last *l)
{
    int64_t row = l->nest->extent[l->tap_y] * l->columns * l->step, wanted = TASKS_EACH * (int64_t)gale__parallel_now();
    bool alone = gale__parallel_now() < 2;
    l->groups = parts(row * l->channels, NEAR_BYTES / (int64_t)sizeof(float));
    l->tiles = padded(parts(l->channels, l->groups));
    l->groups = l->channels > l->tiles ? (l->channels - VECTOR) / l->tiles + 1 : 1; /* the last has 16 or more */
    l->block = alone ? l->rows.count : TASK_ROWS;
    while (!alone && l->block > 1 && parts(l->rows.count, l->block) * l->groups < wanted) l->block = parts(l->block, 2);
    l->blocks = parts(l->rows.count, l->block);
}

static void find_panels(gale__cpu_last *l)
{
    const gale__nest *nest = l->nest;
    uint64_t words[8 + 2 * GALE__NEST_DIMS] = {
        0x1a57, l->kind, (uint64_t)l->channels, (uint64_t)l->w->stride[l->channel], (uint64_t)l->w->offset};
    int n = 5;
    for (int d = nest->n_outer; d < nest->n_outer + nest->n_inner; d++) {
        words[n++] = (uint64_t)nest->extent[d];
        words[n++] = (uint64_t)l->w->stride[d];
    }
    words[n++] = (uint64_t)(l->tap_x + 1);
    int64_t channels = l->kind == GALE__CPU_LAST_DEPTH ? l->channels : padded(l->channels);
    l->panels = (gale__cpu_panels){
        l->w->buffer, (size_t)(l->k * channels) * sizeof(float), gale__hash(words, (size_t)n * sizeof *words, 1) | 1};
}

bool gale__cpu_last_find(gale__cpu_last *l, const gale__nest *nest)
{
    l->kind = GALE__CPU_LAST_NONE;
    if (!nest->last) return false;
    gale__cpu_last_kind kind = look(nest, l);
    const gale__nest_access *out = &nest->accesses[nest->stores[0].access];
    if (!kind) return false;
    bool last = out->stride[l->channel] == 1, depth = kind == GALE__CPU_LAST_DEPTH;
    bool from_last = depth ? l->x->stride[l->channel] == 1 : l->x->stride[nest->n_outer] == 1;
    if (!depth && last && from_last && !nest->steady && /* a product */
        gale__cpu_shares_ns(l->columns * l->rows.count, l->channels, l->k) < INFINITY)
        return false;
    if ((depth && !(last && from_last)) || (!last && !from_last) || !find_finish(l, last) || (depth && l->finish.other))
        return false;
    l->kind = kind;
    l->to_last = last;
    const gale__cpu_finish *q = &l->finish;
    l->early = q->activate && !q->other && !q->scale && (!q->bias || q->bias->stride[l->channel] == 1) &&
               q->lo == -INFINITY && q->hi == INFINITY;
    if (depth) divide_depth(l);
    else divide_points(l);
    find_panels(l);
    return true;
}

void gale__cpu_last_make_panels(const gale__cpu_last *l, const void *from, void *to)
{
    const gale__nest *nest = l->nest;
    const float *w = (const float *)from + l->w->offset;
    float *p = to;
    int first = nest->n_outer;
    int64_t next = l->w->stride[l->channel];
    if (l->kind == GALE__CPU_LAST_DEPTH) {
        for (int64_t u = 0; u < nest->extent[l->tap_y]; u++)
            for (int64_t t = 0; t < nest->extent[l->tap_x]; t++)
                for (int64_t c = 0; c < l->channels; c++)
                    *p++ = w[c * next + u * l->w->stride[l->tap_y] + t * l->w->stride[l->tap_x]];
        return;
    }
    for (int64_t c0 = 0; c0 < padded(l->channels); c0 += CHANNELS)
        for (int64_t k = 0; k < l->k; k++)
            for (int64_t c = c0; c < least(c0 + CHANNELS, padded(l->channels)); c++)
                *p++ = c < l->channels ? w[c * next + k * l->w->stride[first]] : 0;
}

typedef struct run {
    const gale__cpu_last *l;
    void *const *buffers;
} run;

static const float *base_of(const run *r, const gale__nest_access *a, const int64_t *at)
{
    if (!a) return NULL;
    return (const float *)r->buffers[a->buffer] + gale__cpu_address(a, at, r->l->nest->n_outer);
}

/* Coordinates of a row: its pixels and channels from the first on. */
static void seek(const gale__cpu_last *l, int64_t row, int64_t *at)
{
    memset(at, 0, GALE__NEST_DIMS * sizeof *at);
    gale__cpu_span_seek(&l->rows, row, at);
}

/* A tile whose sums are not simply stored: they go on to memory from here. */
static void finish_tile(const gale__cpu_finish *q, const gale__simd_point *d, int64_t pixels, float *sums)
{
    const gale__simd *simd = gale__simd_get();
    for (int64_t p = 0; p < pixels; p++) /* rows move together, for the activation */
        simd->rows.finish(sums + p * d->lanes, sums + p * CHANNELS, d->other ? d->other + p * d->other_pitch : NULL,
            -0.0f, 1, d->lo, d->hi, (size_t)d->lanes);
    if (q->activate) q->activate(sums, (size_t)(pixels * d->lanes), 1, 0);
    for (int64_t p = 0; p < pixels; p++)
        memcpy(d->out + p * d->out_pitch, sums + p * d->lanes, (size_t)d->lanes * sizeof *sums);
}

/* What tiles of a row have in common: from its first pixel and channel on. */
typedef struct line {
    gale__simd_point point;
    gale__simd_done done; /* of a result as declared */
} line;

static void open_row(const run *r, int64_t index, line *to)
{
    const gale__cpu_last *l = r->l;
    const gale__cpu_finish *q = &l->finish;
    int64_t at[GALE__NEST_DIMS], d = l->channel;
    seek(l, index, at);
    float *out = (float *)(uintptr_t)base_of(r, q->out, at);
    const float *other = base_of(r, q->other, at);
    to->point = (gale__simd_point){.out = out,
        .x = base_of(r, l->x, at),
        .w = r->buffers[l->w->buffer],
        .start = base_of(r, q->along, at),
        .other = other,
        .step = step_of(l, l->x),
        .k_step = l->x->stride[l->nest->n_outer],
        .k = l->k,
        .out_pitch = step_of(l, q->out),
        .other_pitch = step_of(l, q->other),
        .lo = q->lo,
        .hi = q->hi};
    if (l->to_last) return;
    to->done = (gale__simd_done){.out = out,
        .bias = base_of(r, q->bias, at),
        .scale = base_of(r, q->scale, at),
        .other = other,
        .out_pitch = q->out->stride[d],
        .bias_pitch = q->bias ? q->bias->stride[d] : 0,
        .scale_pitch = q->scale ? q->scale->stride[d] : 0,
        .other_pitch = q->other ? q->other->stride[d] : 0,
        .lo = q->lo,
        .hi = q->hi};
}

/* Lines of memory that a tile leads to, or is added to, are fetched while it is computed. */
static void fetch(const float *at, int64_t pitch, int64_t rows, int64_t lanes)
{
    for (int64_t i = 0; at && i < rows; i++)
        for (int64_t j = 0; j < lanes; j += VECTOR) __builtin_prefetch(at + i * pitch + j, 1);
}

/* Some pixels of a row. */
typedef struct tile {
    line w;
    int64_t first, pixels;
    float *sums, *band; /* band: where it goes if it is copied */
} tile;

/* Pixels whose elements meet in a few sets of the first cache go to a band where they do not, and those that lie one by
 * one on lines far apart to where a line holds many of their elements. */
static void copy_tile(const gale__cpu_last *l, tile *x)
{
    gale__simd_point *d = &x->w.point;
    const float *from = d->x + x->first * d->step;
    if (d->k_step == 1)
        for (int64_t i = 0; i < x->pixels; i++)
            memcpy(x->band + i * l->pitch, from + i * d->step, (size_t)l->k * sizeof *from);
    else
        gale__simd_get()->interleave[0](
            x->band, from, (size_t)d->k_step, (size_t)l->k, (size_t)l->pitch, (size_t)((x->pixels - 1) * l->apart + 1));
    d->step = l->pitch * l->apart;
    d->x = x->band - x->first * d->step;
    d->k_step = 1;
}

static void open_tiles(const run *r, int64_t t0, int64_t t1, float *memory, tile *out)
{
    const gale__cpu_last *l = r->l;
    int64_t base = l->columns / l->tiles, more = l->columns % l->tiles;
    line row;
    for (int64_t t = t0; t < t1; t++, out++) {
        int64_t at = t % l->tiles;
        if (t == t0 || !at) open_row(r, t / l->tiles, &row);
        out->w = row;
        out->first = at * base + least(at, more);
        out->pixels = base + (at < more);
        out->sums = memory + (t - t0) * TILE_SUMS;
        out->band = memory + l->block * TILE_SUMS + (t - t0) * PIXELS * l->apart * l->pitch;
        if (l->copies) copy_tile(l, out);
    }
}

/* The last steps of a tile: its sums go on to memory. */
static void finish_point(const gale__cpu_last *l, const tile *x, gale__simd_point d, int64_t c)
{
    const gale__cpu_finish *q = &l->finish;
    if (l->to_last) {
        finish_tile(q, &d, x->pixels, x->sums);
        return;
    }
    gale__simd_done done = x->w.done;
    gale__cpu_finish_advance(&done, c, x->first);
    done.rows = d.lanes;
    done.lanes = x->pixels;
    if (l->early) done.bias = NULL;
    if (l->early) q->activate(x->sums, (size_t)d.lanes, (size_t)x->pixels, CHANNELS);
    gale__simd_get()->point_done(&done, x->sums); /* turns it */
    if (!l->early) gale__cpu_finish_activate(q, &done, 0, d.lanes, 0, x->pixels);
}

/* kn steps from k0 on of a tile by channels from c on.  With each turn a quarter of the weights that follow is fetched.
 */
static void sum_point(const gale__cpu_last *l, const tile *x, int64_t c, int64_t k0, int64_t kn, int64_t turn)
{
    const gale__cpu_finish *q = &l->finish;
    gale__simd_point d = x->w.point;
    d.lanes = least(CHANNELS, l->channels - c);
    int64_t width = d.lanes > VECTOR ? CHANNELS : VECTOR;
    bool last = k0 + kn == l->k;
    d.x += x->first * d.step + k0 * d.k_step;
    d.w += c * l->k + k0 * width;
    d.next = kn < l->k ? d.x : d.x + (l->copies ? PIXELS : x->pixels) * d.step;
    d.ahead = d.w + kn * width + turn * (kn * (CHANNELS / 4));
    d.k = kn;
    gale__simd_point_sum *sum = gale__simd_get()->point[d.k_step == 1][d.lanes > VECTOR][x->pixels];
    if (d.start) d.start += c;
    if (!l->to_last && l->early && x->w.done.bias) d.start = x->w.done.bias + c * x->w.done.bias_pitch;
    if (l->to_last) {
        d.out += x->first * d.out_pitch + c;
        if (d.other) d.other += x->first * d.other_pitch + c;
        if (kn == l->k) {
            sum(&d);
            if (q->activate) q->activate(d.out, (size_t)d.lanes, (size_t)x->pixels, d.out_pitch);
            return;
        }
    }
    gale__simd_point part = d;
    part.out = x->sums;
    part.out_pitch = part.other_pitch = CHANNELS;
    part.other = k0 ? x->sums : NULL;
    if (k0) part.start = NULL;
    part.lo = -INFINITY;
    part.hi = INFINITY;
    if (last && l->to_last) {
        fetch(d.out, d.out_pitch, x->pixels, d.lanes);
        fetch(d.other, d.other_pitch, x->pixels, d.lanes);
    } else if (last) {
        fetch(x->w.done.out + c * x->w.done.out_pitch + x->first, x->w.done.out_pitch, d.lanes, x->pixels);
        if (x->w.done.other)
            fetch(x->w.done.other + c * x->w.done.other_pitch + x->first, x->w.done.other_pitch, d.lanes, x->pixels);
    }
    sum(&part);
    if (last) finish_point(l, x, d, c);
}

/* Task: a block of tiles, and some of the channels.  Steps of k are taken some at a time: their weights stay in the
 * second cache while the tiles go by. */
static void point_task(void *arg, size_t task, int worker)
{
    const run *r = arg;
    const gale__cpu_last *l = r->l;
    int64_t block = (int64_t)task / l->groups, group = (int64_t)task % l->groups,
            panels = parts(parts(l->channels, CHANNELS), l->groups), c0 = group * panels * CHANNELS,
            end = least(l->channels, c0 + panels * CHANNELS), t0 = block * l->block,
            n = least(l->block, l->tiles * l->rows.count - t0);
    int64_t steps = parts(l->k, parts(l->k, K_STEPS));
    float *sums = gale__cpu_scratch_take(GALE__CPU_SCRATCH_PRIVATE, l->private_bytes);
    tile x[BLOCK_TILES];
    (void)worker;
    if (!l->to_last || steps < l->k) memset(sums, 0, (size_t)(n * TILE_SUMS) * sizeof *sums);
    open_tiles(r, t0, t0 + n, sums, x);
    for (int64_t c = c0; c < end; c += CHANNELS)
        for (int64_t k = 0; k < l->k; k += steps)
            for (int64_t t = 0; t < n; t++) sum_point(l, &x[t], c, k, least(steps, l->k - k), t);
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_PRIVATE, sums);
}

/* Task: some rows, and some of the channels. */
static void depth_task(void *arg, size_t task, int worker)
{
    const run *r = arg;
    const gale__cpu_last *l = r->l;
    const gale__cpu_finish *q = &l->finish;
    const gale__nest_guard *gx = l->guard_x, *gy = l->guard_y;
    int64_t group = (int64_t)task % l->groups, row = (int64_t)task / l->groups * l->block, c = group * l->tiles,
            some = group + 1 < l->groups ? l->tiles : l->channels - c, at[GALE__NEST_DIMS];
    gale__simd_wide d = {.w = r->buffers[l->w->buffer],
        .y_step = q->out->stride[l->pixel],
        .place = l->x->stride[l->tap_x],
        .step = l->step,
        .hop_y = l->x->stride[l->tap_y],
        .channels = l->channels,
        .columns = l->columns,
        .across = l->nest->extent[l->tap_x],
        .inside = gx ? gx->c0 : 0,
        .extent = gx ? gx->extent : INT32_MAX,
        .lo = q->lo,
        .hi = q->hi};
    (void)worker;
    for (int64_t end = least(row + l->block, l->rows.count); row < end; row++) {
        seek(l, row, at);
        d.x = base_of(r, l->x, at);
        d.y = (float *)(uintptr_t)base_of(r, q->out, at);
        d.bias = base_of(r, q->along, at);
        d.first = 0;
        d.last = l->nest->extent[l->tap_y];
        if (gy)
            gale__cpu_clip(gy->c0 + gy->coef[l->row] * at[l->row], gy->coef[l->tap_y], gy->extent, &d.first, &d.last);
        gale__simd_get()->wide(&d, c, some);
        if (q->activate) q->activate(d.y + c, (size_t)some, (size_t)l->columns, d.y_step);
    }
}

void gale__cpu_last_run(const gale__cpu_last *l, void *const *buffers)
{
    run r = {l, buffers};
    gale__parallel_kernel(
        (size_t)(l->blocks * l->groups), l->kind == GALE__CPU_LAST_DEPTH ? depth_task : point_task, &r);
}
