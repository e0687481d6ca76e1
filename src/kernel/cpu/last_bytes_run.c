/* See last_bytes.h: runs these convolutions, a block of places at a time. */
#include "base/thread.h"
#include "kernel/cpu/divide.h"
#include "kernel/cpu/last_bytes.h"
#include "kernel/cpu/scratch.h"
#include "kernel/cpu/walk.h"
#include <math.h>
#include <string.h>

enum { PIXELS = GALE__POINT_PIXELS, VECTOR = 16, BESIDE = GALE__BESIDE, TILE = 16, AHEAD = 16 << 10 };

typedef struct run {
    const gale__cpu_last_bytes *l;
    void *const *buffers;
    const float *scale, *bias;
    bool quick, near;
} run;

/* Lanes of the result, and the place where its first taps begin. */
typedef struct block {
    int64_t at[GALE__NEST_DIMS]; /* coordinates of all other dimensions */
    int64_t x, columns, y, rows, c, channels;
    const uint8_t *from;     /* its first pixel, tap and channel */
    int64_t step, line, hop; /* bytes: between pixels, rows of pixels, rows of taps */
} block;

static bool is_moderate(const gale__simd_requant *v, const float *scale, const float *bias, int64_t n)
{
    bool ok = v->by > 0x1p-60f && v->by < 0x1p60f;
    for (int64_t i = 0; i < n; i++) ok = ok && fabsf(scale[i]) < 0x1p60f * v->by && fabsf(bias[i]) < 0x1p90f * v->by;
    return ok;
}

/* Numbers of all channels, as vectors read them. */
static void spread(const run *r, const gale__nest_access *a, float number, float *to)
{
    const gale__cpu_last_bytes *l = r->l;
    int64_t at[GALE__NEST_DIMS] = {0}, n = round_up(l->channels, l->panel);
    const float *from = a ? (const float *)r->buffers[a->buffer] + gale__cpu_address(a, at, l->nest->n_outer) : NULL;
    for (int64_t c = 0; c < n; c++) {
        int64_t place = l->depth < 0 ? c / BESIDE * BESIDE + GALE__BESIDE_LANE(c % BESIDE) : c;
        to[place] = c >= l->channels ? 0 : from ? from[c * a->stride[l->channel]] : number;
    }
}

static block block_at(const gale__cpu_last_bytes *l, int64_t i)
{
    block b = {0};
    int64_t panels = parts(l->channels, l->panel), group = i % l->groups, each = parts(panels, l->groups) * l->panel;
    b.c = group * each;
    b.channels = least(each, l->channels - b.c);
    i /= l->groups;
    b.x = i % l->cx.blocks * l->cx.block;
    i /= l->cx.blocks;
    b.y = i % l->cy.blocks * l->cy.block;
    b.columns = least(l->cx.block, l->cx.lanes - b.x);
    b.rows = least(l->cy.block, l->cy.lanes - b.y);
    gale__cpu_span_seek(&l->others, i / l->cy.blocks, b.at);
    return b;
}

/* Places of an axis that are inside, of n from the first on. */
static void clip(const gale__cpu_last_axis *a, int64_t first, int64_t n, int64_t *lo, int64_t *hi)
{
    *lo = 0, *hi = n;
    if (a->guard) gale__cpu_clip(a->guard->c0 + first, 1, a->guard->extent, lo, hi);
    if (*hi < *lo) *hi = *lo;
}

/* n places of so many channels, side by side. */
static void gather(uint8_t *to, const uint8_t *from, int64_t n, int64_t place, int64_t channels, int64_t channel)
{
    if (channel == 1 && place == channels) {
        memcpy(to, from, (size_t)(n * channels));
        return;
    }
    if (channel == 1) {
        for (int64_t p = 0; p < n; p++) memcpy(to + p * channels, from + p * place, (size_t)channels);
        return;
    }
    for (int64_t p0 = 0; p0 < n; p0 += TILE)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t p = p0; p < least(n, p0 + TILE); p++) to[p * channels + c] = from[c * channel + p * place];
}

/* The block's places with their borders; those between the taps of rows are left out. */
static void fill_band(const run *r, const block *b, uint8_t *band)
{
    const gale__cpu_last_bytes *l = r->l;
    const gale__nest_access *x = l->x.access;
    bool beside = l->depth < 0;
    int64_t channels = beside ? b->channels : l->summed, channel = x->stride[beside ? l->channel : l->depth],
            places = (b->columns - 1) * l->cx.step + l->cx.taps, lines = (b->rows - 1) * l->cy.step + l->cy.taps,
            x0 = b->x * l->cx.step, y0 = b->y * l->cy.step, lo, hi, top, bottom;
    const uint8_t *from =
        (const uint8_t *)r->buffers[x->buffer] + gale__cpu_address(x, b->at, l->nest->n_outer) + (beside ? b->c : 0);
    int outside = (uint8_t)x->fill;
    clip(&l->cx, x0, places, &lo, &hi);
    clip(&l->cy, y0, lines, &top, &bottom);
    for (int64_t y = 0; y < lines; y++, band += l->pitch) {
        if (y % l->cy.step >= l->cy.taps) continue;
        bool inside = y >= top && y < bottom && hi > lo;
        int64_t first = inside ? lo : places, end = inside ? hi : places;
        memset(band, outside, (size_t)(first * channels));
        memset(band + end * channels, outside, (size_t)((places - end) * channels));
        if (inside)
            gather(band + lo * channels, from + (y0 + y) * l->cy.place + (x0 + lo) * l->cx.place, hi - lo, l->cx.place,
                channels, channel);
        for (int64_t i = 0; l->x.flip && i < places * channels; i++) band[i] ^= l->x.flip;
    }
}

static void open_block(const run *r, block *b, uint8_t *band)
{
    const gale__cpu_last_bytes *l = r->l;
    const gale__nest_access *x = l->x.access;
    int64_t channels = l->depth < 0 ? b->channels : l->summed;
    if (l->direct) {
        b->from = (const uint8_t *)r->buffers[x->buffer] + gale__cpu_address(x, b->at, l->nest->n_outer) +
                  b->y * l->cy.step * l->cy.place + b->x * l->cx.step * l->cx.place;
        b->step = l->cx.step * l->cx.place;
        b->line = l->cy.step * l->cy.place;
        b->hop = l->cy.place;
        return;
    }
    fill_band(r, b, band);
    b->from = band;
    b->step = l->cx.step * channels;
    b->line = l->cy.step * l->pitch;
    b->hop = l->pitch;
}

/* Where a result goes, from channel c on. */
static int64_t place_of(const gale__cpu_last_bytes *l, const gale__nest_access *a, const block *b, int64_t c)
{
    return gale__cpu_address(a, b->at, l->nest->n_outer) + (l->cx.lane < 0 ? 0 : b->x * a->stride[l->cx.lane]) +
           (l->cy.lane < 0 ? 0 : b->y * a->stride[l->cy.lane]) + c;
}

static gale__simd_quantised open_panel(const run *r, const block *b, int64_t c)
{
    const gale__cpu_last_bytes *l = r->l;
    const gale__cpu_requant *q = &l->requant;
    const char *panels = r->buffers[l->w.access->buffer];
    gale__simd_quantised to = {.start = (const int32_t *)(const void *)(panels + gale__cpu_last_bytes_weights(l)) + c,
        .scale = r->scale + c,
        .bias = r->bias + c,
        .by = q->numbers.by,
        .zero = q->numbers.zero,
        .sum = q->sum,
        .out = (uint8_t *)r->buffers[q->out->buffer] + place_of(l, q->out, b, c),
        .lanes = least(l->panel, l->channels - c),
        .has_sign = q->has_sign,
        .quick = r->quick,
        .near = r->near};
    if (q->skip) to.skip = (const uint8_t *)r->buffers[q->skip->buffer] + place_of(l, q->skip, b, c);
    return to;
}

static int64_t pitch_of(const gale__nest_access *a, int dim) { return !a || dim < 0 ? 0 : a->stride[dim]; }

static gale__simd_pixels panel_of(const run *r, const block *b, int64_t c)
{
    const gale__cpu_last_bytes *l = r->l;
    return (gale__simd_pixels){.q = open_panel(r, b, c),
        .w = (const int8_t *)r->buffers[l->w.access->buffer] + (size_t)(c / l->panel) * gale__cpu_last_bytes_panel(l),
        .step = b->step,
        .taps = l->cy.taps,
        .hop = b->hop,
        .units = l->units,
        .pitch = pitch_of(l->requant.out, l->cx.lane)};
}

/* A panel of weights: rows of pixels, or two rows where these are short. */
static void sum_panel(const run *r, const block *b, int64_t c)
{
    const gale__cpu_last_bytes *l = r->l;
    gale__simd_pixels d = panel_of(r, b, c);
    int64_t down = pitch_of(l->requant.out, l->cy.lane), joined = b->columns * 2 <= PIXELS ? 2 : 1,
            tiles = parts(b->columns, PIXELS), size = b->columns / tiles, more = b->columns % tiles;
    uint8_t *out = d.q.out;
    const uint8_t *skip = d.q.skip;
    gale__simd_pixels_sum *const *sum = gale__simd_get()->pixels[d.q.lanes > VECTOR];
    for (int64_t y = 0; y < b->rows; y += joined) {
        bool both = joined > 1 && y + 1 < b->rows;
        for (int64_t t = 0, x = 0, n; t < tiles; t++, x += n) {
            n = size + (t < more);
            int64_t pixels = both ? 2 * n : n;
            d.x = b->from + y * b->line + x * b->step;
            d.jump = both ? b->line : pixels / 2 * d.step;
            d.out_jump = both ? down : pixels / 2 * d.pitch;
            d.q.out = out + y * down + x * d.pitch;
            if (skip) d.q.skip = skip + y * down + x * d.pitch;
            sum[pixels](&d);
        }
    }
}

/* Pixels one step after the other: all rows of a block, with places between them that are no results, or one row. */
typedef struct sequence {
    int64_t count, period, columns, down;
} sequence;

static sequence sequence_of(const run *r, const block *b)
{
    const gale__cpu_last_bytes *l = r->l;
    sequence rows = {b->columns, b->columns, b->columns, 0};
    if (b->line % b->step || (l->direct && b->line != b->columns * b->step)) return rows;
    sequence all = {0, b->line / b->step, b->columns, pitch_of(l->requant.out, l->cy.lane)};
    all.count = (b->rows - 1) * all.period + b->columns;
    return parts(all.count, TILE) < b->rows * parts(b->columns, TILE) ? all : rows;
}

/* Lanes of the sums of a pixel. */
static int64_t width_of(const gale__simd_pixels *d) { return d->q.lanes > VECTOR ? 2 * VECTOR : VECTOR; }

/* The results of a tile, those from place i on. */
static void end_tile(gale__simd_pixels *d, const sequence *s, int64_t i, int64_t end, const int32_t *sums)
{
    const gale__simd_quantised q = d->q;
    for (int64_t n; i < end; i += n, sums += n * width_of(d)) {
        int64_t row = i / s->period, column = i % s->period, place = row * s->down + column * d->pitch;
        n = least(end - i, s->period - column);
        if (column >= s->columns) continue;
        d->q.out = q.out + place;
        if (q.skip) d->q.skip = q.skip + place;
        gale__simd_get()->pixels_end(d, sums, least(n, s->columns - column));
    }
    d->q = q;
}

/* 16 pixels are always read: the last ones of a sequence may be summed twice. */
static void sum_tiles(const run *r, const block *b, int64_t c, const sequence *s)
{
    const gale__cpu_last_bytes *l = r->l;
    gale__simd_pixels d = panel_of(r, b, c);
    int64_t down = pitch_of(l->requant.out, l->cy.lane), rows = s->count == b->columns ? b->rows : 1,
            last = s->count > TILE ? s->count - TILE : 0, width = width_of(&d);
    int32_t sums[2 * TILE * 2 * VECTOR];
    for (int64_t y = 0; y < rows; y++) {
        const uint8_t *from = b->from + y * b->line;
        for (int64_t t = 0; t < s->count; t += 2 * TILE) {
            int64_t next = t + TILE, at[2] = {least(t, last), least(next, last)};
            d.x = from + at[0] * b->step;
            d.jump = (at[1] - at[0]) * b->step;
            d.ahead = y + t ? NULL : d.w + AHEAD;
            gale__simd_get()->pixel_tiles(&d, next < s->count, sums);
            end_tile(&d, s, t, least(next, s->count), sums + (t - at[0]) * width);
            end_tile(&d, s, next, least(next + TILE, s->count), sums + (TILE + next - at[1]) * width);
        }
        d.q.out += down;
        if (d.q.skip) d.q.skip += down;
    }
}

static void sum_beside(const run *r, const block *b, int64_t c)
{
    const gale__cpu_last_bytes *l = r->l;
    gale__simd_beside d = {.q = open_panel(r, b, c),
        .w = (const int8_t *)r->buffers[l->w.access->buffer] + (size_t)(c / l->panel) * gale__cpu_last_bytes_panel(l),
        .place = b->channels,
        .step = l->cx.step,
        .hop = b->hop,
        .rows = l->cy.taps,
        .quads = l->units,
        .columns = b->columns,
        .pitch = pitch_of(l->requant.out, l->cx.lane)};
    uint8_t *out = d.q.out;
    for (int64_t y = 0; y < b->rows; y++) {
        d.x = b->from + y * b->line + (c - b->c);
        d.q.out = out + y * pitch_of(l->requant.out, l->cy.lane);
        gale__simd_get()->beside(&d);
    }
}

static void block_task(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_last_bytes *l = r->l;
    block b = block_at(l, (int64_t)i);
    (void)worker;
    if (b.channels <= 0) return;
    uint8_t *band = gale__cpu_scratch_take(GALE__CPU_SCRATCH_PRIVATE, l->private_bytes);
    open_block(r, &b, band);
    sequence s = {0};
    if (l->tiles) s = sequence_of(r, &b);
    const gale__simd_gemm *tiles = l->tiles && (!l->direct || s.count >= TILE) ? gale__cpu_last_bytes_tiles() : NULL;
    if (tiles) tiles->open();
    for (int64_t c = b.c; c < b.c + b.channels; c += l->panel) {
        if (l->depth < 0) sum_beside(r, &b, c);
        else if (tiles) sum_tiles(r, &b, c, &s);
        else sum_panel(r, &b, c);
    }
    if (tiles) tiles->close();
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_PRIVATE, band);
}

void gale__cpu_last_bytes_run(const gale__cpu_last_bytes *l, void *const *buffers)
{
    const gale__cpu_requant *q = &l->requant;
    int64_t n = round_up(l->channels, l->panel);
    float *numbers = gale__cpu_scratch_take(GALE__CPU_SCRATCH_SHARED, l->shared_bytes);
    run r = {.l = l, .buffers = buffers, .scale = numbers, .bias = numbers + n};
    spread(&r, q->scale, q->numbers.scale, numbers);
    spread(&r, q->bias, q->numbers.bias, numbers + n);
    r.quick = is_moderate(&q->numbers, r.scale, r.bias, n);
    /* Quotients are then whole numbers of 32 bits. */
    r.near = q->sum.by > 0x1p-60f && q->sum.by < 0x1p60f &&
             fabsf(q->sum.x_scale) + fabsf(q->sum.y_scale) < 0x1p20f * q->sum.by;
    gale__parallel_kernel((size_t)(l->cx.blocks * l->cy.blocks * l->others.count * l->groups), block_task, &r);
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_SHARED, numbers);
}
