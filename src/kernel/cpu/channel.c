/* See channel.h. */
#include "base/thread.h"
#include "kernel/cpu/contract.h"
#include "kernel/cpu/divide.h"
#include "kernel/cpu/scratch.h"
#include <math.h>
#include <string.h>

enum {
    BAND_FLOATS = 8192,
    TOGETHER_LANES = 768,
    ALONE_LANES = 96,
    GRID_LANES = 14,
    DEPTH_TAPS = 9,
    TURNED_CHANNELS = 8,
    TURNED_PLACES = 256,
    TURNED_FEW = 200,
    TURNED_WIDTH = 7,
    DEPTH_ROWS = 8,
    TOGETHER_MOST = 64,
    VECTOR = 16,
    TASKS_EACH = 4,
    TASK_LANES = 4096,
    QUAD = 4
};

static const gale__nest_access *load_of(const gale__nest *nest, int value)
{
    const gale__nest_instr *in = &nest->code[value];
    return in->op == GALE__NEST_LOAD ? &nest->accesses[in->access] : NULL;
}

/* Loads of floats, or of bytes less zero points that are known. */
static bool find_factors(gale__cpu_channel *c, gale__cpu_window *w, const gale__nest *nest, int value, int other,
    const gale__cpu_span *lanes, const gale__cpu_span *k, gale__simd_type sum)
{
    gale__cpu_narrow *x = &c->lanes_of, *y = &c->weights_of;
    if (sum == GALE__SIMD_TYPE_F32) {
        c->weights = load_of(nest, other);
        return c->weights && c->weights->type == GALE_F32 && gale__cpu_window_find(w, nest, value, lanes, k, sum) &&
               !w->widen && w->access->type == GALE_F32;
    }
    if (sum != GALE__SIMD_TYPE_I32 || !gale__cpu_narrow_look(nest, value, x) || !gale__cpu_narrow_look(nest, other, y))
        return false;
    c->bytes = true;
    c->weights = y->access;
    return x->known && y->known && gale__cpu_window_find_load(w, nest, x->access, lanes, k);
}

bool gale__cpu_channel_find(gale__cpu_channel *c, gale__cpu_window *w, const gale__nest *nest, int value, int other,
    const gale__cpu_span *batch, const gale__cpu_span *lanes, const gale__cpu_span *k, gale__simd_type sum)
{
    gale__cpu_channel found = {0};
    *c = found;
    if (k->count > GALE__CHANNEL_TAPS || !batch->n || !find_factors(&found, w, nest, value, other, lanes, k, sum) ||
        (w->x.tap < 0 && w->y.tap < 0) || w->rest.count != 1 || found.weights->n_guards)
        return false;
    for (int i = 0; i < lanes->n; i++)
        if (found.weights->stride[lanes->dim[i]]) return false;
    for (int g = 0; g < w->access->n_guards; g++) { /* borders are those of every channel */
        for (int i = 0; i < batch->n; i++)
            if (w->access->guards[g].coef[batch->dim[i]]) return false;
        for (int i = 0; i < w->far.n; i++)
            if (w->access->guards[g].coef[w->far.dim[i]]) return false;
    }
    *c = found;
    return true;
}

/* Whether both factors, less what is known, are bytes that instructions multiply: unsigned by signed ones. */
static bool has_quads(const gale__cpu_channel *c, const gale__cpu_window *w)
{
    const gale__cpu_narrow *n = &c->weights_of;
    int64_t quads = w->y.taps * parts(w->x.taps, QUAD);
    return gale__simd_get()->quads && c->bytes && n->point == (n->access->type == GALE_I8 ? 0 : 128) && w->x.hop == 1 &&
           w->x.unit == 1 && w->x.step <= 2 && quads * QUAD <= GALE__CHANNEL_TAPS;
}

/* The signs of lanes and weights, which have to be other than they are. */
static uint8_t lanes_flip(const gale__cpu_channel *c) { return c->lanes_of.access->type == GALE_I8 ? 0x80 : 0; }
static uint8_t weights_flip(const gale__cpu_channel *c) { return c->weights_of.access->type == GALE_I8 ? 0 : 0x80; }

static void lay_band(gale__cpu_channel *c, const gale__cpu_window *w)
{
    c->plane_rows = c->rows + (w->y.taps - 1) * w->y.hop / w->y.step;
    c->flat = parts((c->rows - 1) * c->pitch + w->x.lanes, VECTOR) * VECTOR;
    c->band_floats = w->y.step * w->x.step * c->plane_rows * c->pitch + 2 * VECTOR;
}

/* Which of 16 places from `at` on are in [lo, hi). */
static uint16_t mask_of(int64_t lo, int64_t hi, int64_t at)
{
    uint16_t mask = 0;
    for (int64_t i = 0; i < VECTOR; i++) mask |= (uint16_t)((at + i >= lo && at + i < hi) << i);
    return mask;
}

/* Whether the places that are inside are a rectangle. */
static bool find_inside(gale__cpu_channel *c, const gale__cpu_window *w)
{
    gale__cpu_window each = *w;
    int64_t end = gale__cpu_window_places(&w->y, w->y.lanes), lo, hi, from;
    each.phases = 1;
    c->bottom = 0;
    for (int64_t y = 0; y < end; y++) {
        gale__cpu_window_row at;
        gale__cpu_window_seek(w, NULL, 0, y, 0, &at);
        gale__cpu_window_inside(&each, &at, 0, gale__cpu_window_places(&w->x, w->x.lanes), &lo, &hi, &from);
        if (hi <= lo) continue;
        if (!c->bottom) c->top = y, c->left = lo, c->right = hi, c->from = from;
        else if (lo != c->left || hi != c->right || c->bottom != y) return false;
        c->bottom = y + 1;
    }
    return c->bottom > 0;
}

static void find_masks(gale__simd_depth *d, const gale__cpu_channel *c)
{
    int64_t wide = (d->width - 1) * d->step + 1;
    for (int64_t t = 0; t < d->across; t++)
        for (int64_t j = 0; j < GALE__DEPTH_VECTORS; j++)
            d->mask[t][j] = mask_of(c->left - t * d->hop, least(wide, c->right - t * d->hop), j * VECTOR);
}

/* Whether channels are one dimension, and weights of a channel follow one another. */
static bool find_line(gale__cpu_channel *c, const gale__cpu_window *w, const gale__cpu_span *batch)
{
    c->map_pitch = w->access->stride[batch->dim[0]];
    c->weights_pitch = c->weights->stride[batch->dim[0]];
    for (int64_t t = 0; t < c->taps; t++)
        if (c->weight_at[t] != t) return false;
    return batch->n == 1;
}

/* Whether turning maps is worth it. */
static bool find_turned(gale__cpu_channel *c, const gale__cpu_window *w, const gale__cpu_span *batch)
{
    int64_t most = c->taps > DEPTH_TAPS || w->x.step > 1 ? TURNED_PLACES : TURNED_FEW;
    return batch->count >= TURNED_CHANNELS && c->map_pitch > 0 && c->weights_pitch > 0 &&
           (c->bottom - c->top) * w->y.unit <= most && w->y.lanes * w->x.lanes <= most;
}

static void find_depth(
    gale__cpu_channel *c, const gale__cpu_window *w, const gale__cpu_span *batch, const gale__cpu_span *k)
{
    gale__simd_depth d = {.pitch = w->y.unit,
        .hop_y = w->y.hop,
        .width = w->x.lanes,
        .step = w->x.step,
        .across = w->x.taps,
        .hop = w->x.hop,
        .down = w->y.taps};
    const gale__simd_rows *simd = &gale__simd_get()->rows;
    if (!simd->depth || c->bytes || w->access->fill || w->x.unit != 1 || k->n != 2 || k->dim[0] != w->y.tap ||
        k->dim[1] != w->x.tap || !find_inside(c, w))
        return;
    c->line = find_line(c, w, batch);
    int64_t border = (d.down - 1) * d.hop_y;
    bool fits = d.down % 2 && d.down >= 3 && d.down <= 7 && d.across <= GALE__DEPTH_TAPS && d.step <= 2 &&
                w->y.step == d.step && (d.step == 1 || d.hop_y == 1) && c->top <= border &&
                gale__cpu_window_places(&w->y, w->y.lanes) - c->bottom <= border &&
                (d.width - 1) * d.step + 1 <= VECTOR * (GALE__DEPTH_VECTORS - 1);
    fits = fits && (d.step == 1 || d.width * d.across <= simd->depth_apart);
    c->turned = simd->deep && (!fits || (d.width <= TURNED_WIDTH && c->taps > DEPTH_TAPS)) && c->line &&
                find_turned(c, w, batch);
    if (c->turned) d.pitch = gale__cpu_window_places(&w->x, w->x.lanes);
    else if (fits) find_masks(&d, c);
    if (c->turned || fits) c->depth = d;
}

static void lay_taps(gale__cpu_channel *c, const gale__cpu_window *w, const gale__cpu_span *k)
{
    int64_t across = parts(w->x.taps, QUAD);
    for (int64_t t = 0; t < k->count; t++) {
        int64_t left = t, y = 0, x = 0, at = 0;
        for (int d = k->n - 1; d >= 0; d--, left /= k->extent[d + 1]) {
            int64_t i = left % k->extent[d];
            if (k->dim[d] == w->x.tap) x = i * w->x.hop;
            else if (k->dim[d] == w->y.tap) y = i * w->y.hop;
            at += i * c->weights->stride[k->dim[d]];
        }
        c->offset[t] =
            (int32_t)(((y % w->y.step * w->x.step + x % w->x.step) * c->plane_rows + y / w->y.step) * c->pitch +
                      x / w->x.step);
        c->weight_at[t] = (int32_t)at;
        c->place[t] = (uint8_t)(y / w->y.hop * across * QUAD + x);
    }
}

/* Where each quad's bytes begin in a band whose rows are as wide as the places they have. */
static void lay_quads(gale__cpu_channel *c, const gale__cpu_window *w)
{
    int64_t across = parts(w->x.taps, QUAD);
    c->pitch = gale__cpu_window_places(&w->x, w->x.lanes);
    for (int64_t q = 0; q < c->quads; q++)
        c->offset[q] = (int32_t)(q / across * w->y.hop * c->pitch + q % across * QUAD);
}

void gale__cpu_channel_init(
    gale__cpu_channel *c, gale__cpu_window *w, const gale__cpu_span *batch, const gale__cpu_span *k)
{
    int64_t wanted = (int64_t)gale__parallel_now() * TASKS_EACH, batches = batch->count,
            lanes = w->x.lanes * w->y.lanes;
    c->quads = has_quads(c, w) ? w->y.taps * parts(w->x.taps, QUAD) : 0;
    w->phases = c->quads ? 1 : w->x.step;
    c->taps = k->count;
    c->pitch = w->x.lanes + (w->x.taps - 1) * w->x.hop / w->x.step;
    c->rows = w->y.lanes;
    lay_taps(c, w, k);
    find_depth(c, w, batch, k);
    while (c->depth.pitch && !c->turned && c->rows > DEPTH_ROWS &&
           batches * w->far.count * parts(w->y.lanes, c->rows) < wanted)
        c->rows = parts(c->rows, 2);
    for (lay_band(c, w); !c->depth.pitch && c->rows > 1 && c->band_floats > BAND_FLOATS; lay_band(c, w))
        c->rows = parts(c->rows, 2);
    c->row_blocks = parts(w->y.lanes, c->rows);
    int64_t fit = least(TOGETHER_LANES / lanes, batches * w->far.count / wanted);
    bool alone = lanes >= ALONE_LANES; /* what its lanes have in common is then loaded once */
    c->together = c->row_blocks > 1 || fit < 1 || alone ? 1 : least(fit, TOGETHER_MOST);
    if (c->depth.pitch && c->line && c->row_blocks == 1) {
        fit = least(parts(TASK_LANES, lanes), batches * w->far.count / wanted);
        c->together = fit < 1 ? 1 : least(fit, TOGETHER_MOST);
    }
    c->sums_floats = c->together * c->rows * w->x.lanes + 2 * VECTOR;
    lay_taps(c, w, k);
    if (c->quads) lay_quads(c, w);
    if (!c->turned) return;
    c->together = VECTOR;
    c->band_floats = (c->bottom - c->top) * c->depth.pitch * VECTOR;
    c->flat = (c->bottom - c->top) * w->y.unit * VECTOR;
    c->sums_floats = 2 * lanes * VECTOR; /* turned, and as they are stored */
}

typedef struct run {
    const gale__cpu_contract *contract;
    void *const *buffers;
    bool aliased;
    int64_t groups, per_task; /* of channels */
} run;

/* Elements that every channel's band takes from the same places of its plane. */
typedef struct piece {
    int32_t to, n;
    int64_t from;
} piece;

/* What one task works in; the borders of the band, and its pieces, are those of one block of rows. */
typedef struct bench {
    gale__cpu_frame f;
    float *band, *flat, *sums;
    piece *pieces;
    int64_t n_pieces, block;
} bench;

/* Fills the borders of the band for a block of rows, and finds its pieces. */
static void prepare_block(const run *r, bench *b, int64_t block, int64_t rows)
{
    const gale__cpu_window *w = &r->contract->window;
    const gale__cpu_channel *c = &r->contract->channel;
    const int64_t zero[GALE__NEST_DIMS] = {0};
    int64_t need = gale__cpu_window_places(&w->y, rows), across = gale__cpu_window_places(&w->x, w->x.lanes), lo, hi,
            from;
    int64_t down = c->quads ? 1 : w->y.step;
    gale__cpu_window_row at;
    b->block = block;
    b->n_pieces = 0;
    if (c->quads) {
        memset(b->band, (uint8_t)w->access->fill ^ lanes_flip(c), (size_t)c->band_floats * sizeof(float));
    } else if (c->bytes) {
        const gale__cpu_narrow *n = &c->lanes_of;
        float fill =
            (float)((n->access->type == GALE_I8 ? (int8_t)n->access->fill : (uint8_t)n->access->fill) - n->point);
        for (int64_t i = 0; i < c->band_floats; i++) b->band[i] = fill;
    } else b->f.tape->simd->fill[2](b->band, w->access->fill, (size_t)c->band_floats);
    gale__cpu_window_seek(w, zero, b->f.tape->n_dims, block * c->rows * w->y.step, 0, &at);
    for (int64_t y = 0; y < need; y++, gale__cpu_window_next(w, &at)) {
        int64_t to = (y % down * w->x.step * c->plane_rows + y / down) * c->pitch;
        for (int64_t x = 0; x < w->phases && x < across; x++, to += c->plane_rows * c->pitch) {
            gale__cpu_window_inside(w, &at, x, parts(across - x, w->phases), &lo, &hi, &from);
            if (hi > lo) b->pieces[b->n_pieces++] = (piece){(int32_t)(to + lo), (int32_t)(hi - lo), from};
        }
    }
}

/* Rows are often shorter than it takes to call a function. */
static void copy_bytes(uint8_t *to, const uint8_t *from, int64_t n, uint8_t flip)
{
    if (flip)
        for (int64_t i = 0; i < n; i++) to[i] = from[i] ^ flip;
    else if (n < 8)
        for (int64_t i = 0; i < n; i++) to[i] = from[i];
    else {
        int64_t i = 0;
        for (; i + 32 < n; i += 32) memcpy(to + i, from + i, 32);
        for (; i + 8 < n; i += 8) memcpy(to + i, from + i, 8);
        memcpy(to + n - 8, from + n - 8, 8);
    }
}

static void fill_bytes(const run *r, bench *b)
{
    const gale__cpu_window *w = &r->contract->window;
    const gale__cpu_channel *c = &r->contract->channel;
    const gale__cpu_narrow *n = &c->lanes_of;
    const char *memory = r->buffers[w->access->buffer];
    for (int d = 0; d < b->f.tape->n_dims; d++) memory += w->access->stride[d] * b->f.at[d];
    for (const piece *p = b->pieces; p < b->pieces + b->n_pieces && c->quads; p++)
        copy_bytes((uint8_t *)b->band + p->to, (const uint8_t *)memory + p->from, p->n, lanes_flip(c));
    if (c->quads) return;
    for (const piece *p = b->pieces; p < b->pieces + b->n_pieces; p++)
        b->f.tape->simd->centre[n->access->type == GALE_I8](
            b->band + p->to, memory + p->from, w->x.unit * w->phases, (float)n->point, (size_t)p->n);
}

/* The channel's elements, from the first of batch and far lanes at hand. */
static const float *map_of(const run *r, const gale__cpu_frame *f)
{
    const gale__nest_access *a = r->contract->window.access;
    const float *memory = r->buffers[a->buffer];
    for (int d = 0; d < f->tape->n_dims; d++) memory += a->stride[d] * f->at[d];
    return memory;
}

static void fill_band(const run *r, bench *b)
{
    const gale__cpu_window *w = &r->contract->window;
    if (r->contract->channel.bytes) {
        fill_bytes(r, b);
        return;
    }
    const float *memory = map_of(r, &b->f);
    int64_t stride = w->x.unit * w->phases;
    for (const piece *p = b->pieces; p < b->pieces + b->n_pieces; p++) {
        if (stride == 1) gale__cpu_copy_floats(b->band + p->to, memory + p->from, p->n);
        else b->f.tape->simd->gather[2](b->band + p->to, memory + p->from, stride, (size_t)p->n);
    }
}

/* Where the weights of the frame's channel are among all. */
static int64_t weights_at(const run *r, const gale__cpu_frame *f)
{
    const gale__cpu_span *batch = &r->contract->batch;
    const gale__nest_access *a = r->contract->channel.weights;
    int64_t at = a->offset;
    for (int i = 0; i < batch->n; i++) at += a->stride[batch->dim[i]] * f->at[batch->dim[i]];
    return at;
}

static void read_weights(const run *r, const gale__cpu_frame *f, float *weights)
{
    const gale__cpu_channel *c = &r->contract->channel;
    const void *memory = r->buffers[c->weights->buffer];
    int64_t at = weights_at(r, f);
    for (int64_t t = 0; t < c->taps && !c->bytes; t++) weights[t] = ((const float *)memory)[at + c->weight_at[t]];
    if (!c->bytes) return;
    int8_t bytes[GALE__CHANNEL_TAPS];
    for (int64_t t = 0; t < c->taps; t++) bytes[t] = ((const int8_t *)memory)[at + c->weight_at[t]];
    f->tape->simd->centre[c->weights->type == GALE_I8](weights, bytes, 1, (float)c->weights_of.point, (size_t)c->taps);
}

static void sum_quads(const run *r, const gale__cpu_frame *f, int64_t rows, const void *band, void *sums)
{
    const gale__cpu_window *w = &r->contract->window;
    const gale__cpu_channel *c = &r->contract->channel;
    const uint8_t *memory = (const uint8_t *)r->buffers[c->weights->buffer] + weights_at(r, f);
    int8_t weights[GALE__CHANNEL_TAPS] = {0};
    int32_t sum = 0, point = c->lanes_of.point + (lanes_flip(c) ? 128 : 0);
    for (int64_t t = 0; t < c->taps; t++)
        sum += weights[c->place[t]] = (int8_t)(memory[c->weight_at[t]] ^ weights_flip(c));
    f->tape->simd->quads(sums, band, w->y.step * c->pitch, c->offset, weights, (size_t)c->quads, (int)w->x.step,
        -point * sum, (size_t)rows, (size_t)w->x.lanes);
}

/* Which taps down are inside for results at place `at`. */
static void find_taps(const gale__cpu_channel *c, const gale__cpu_axis *y, int64_t at, int64_t *first, int64_t *last)
{
    *last = least(y->taps, at < c->bottom ? parts(c->bottom - at, y->hop) : 0);
    *first = least(at < c->top ? parts(c->top - at, y->hop) : 0, *last);
}

/* Rows of results from `row` on, of n channels from the frame's on, whose results are y_next apart.  Rows whose taps
 * are `hop` apart share none with those between, and are taken in turn. */
static void sum_depth(const run *r, const gale__cpu_frame *f, int64_t row, int64_t rows, int64_t n,
    const gale__simd_done *done, int64_t y_next)
{
    const gale__cpu_window *w = &r->contract->window;
    const gale__cpu_channel *c = &r->contract->channel;
    const float *map = map_of(r, f) + w->access->offset;
    int64_t hop = w->y.hop;
    float weights[GALE__CHANNEL_TAPS];
    if (!c->line) read_weights(r, f, weights);
    for (int64_t i = 0; i < least(hop, rows); i++) {
        int64_t at = (row + i) * w->y.step;
        gale__simd_strip strip = {.y = done->out + i * w->x.lanes,
            .x = map + at * w->y.unit,
            .w = c->line ? (const float *)r->buffers[c->weights->buffer] + weights_at(r, f) : weights,
            .bias = done->bias,
            .y_pitch = hop * w->x.lanes,
            .pitch = hop * w->y.unit,
            .rows = parts(rows - i, hop),
            .top = at < c->top ? parts(c->top - at, hop) : 0,
            .bottom = at < c->bottom ? parts(c->bottom - at, hop) : 0,
            .y_next = y_next,
            .x_next = c->map_pitch,
            .w_next = c->weights_pitch,
            .bias_next = done->bias_pitch,
            .lo = done->lo,
            .hi = done->hi};
        f->tape->simd->rows.depth(&c->depth, &strip, n);
    }
}

/* All results of n channels from the frame's on, which follow one another at done.out. */
static void sum_turned(const run *r, bench *b, int64_t n, const gale__simd_done *done)
{
    const gale__cpu_window *w = &r->contract->window;
    const gale__cpu_channel *c = &r->contract->channel;
    const gale__simd *simd = b->f.tape->simd;
    int64_t rows = c->bottom - c->top, columns = c->right - c->left, at = c->weights->offset,
            lanes = w->x.lanes * w->y.lanes;
    float weights[GALE__CHANNEL_TAPS * VECTOR], bias[VECTOR];
    const gale__cpu_span *batch = &r->contract->batch;
    at += c->weights_pitch * b->f.at[batch->dim[0]];
    simd->interleave[0](weights, (const float *)r->buffers[c->weights->buffer] + at, (size_t)c->weights_pitch,
        (size_t)n, VECTOR, (size_t)c->taps);
    simd->interleave[0](b->flat, map_of(r, &b->f) + c->from, (size_t)c->map_pitch, (size_t)n, VECTOR,
        (size_t)((rows - 1) * w->y.unit + columns));
    if (b->block < 0) memset(b->band, 0, (size_t)c->band_floats * sizeof(float));
    b->block = 0;
    for (int64_t y = 0; y < rows; y++)
        memcpy(b->band + (y * c->depth.pitch + c->left) * VECTOR, b->flat + y * w->y.unit * VECTOR,
            (size_t)(columns * VECTOR) * sizeof(float));
    for (int64_t i = 0; i < VECTOR; i++) bias[i] = done->bias && i < n ? done->bias[i * done->bias_pitch] : -0.0f;
    for (int64_t y = 0, first, last; y < w->y.lanes; y++) {
        find_taps(c, &w->y, y * w->y.step, &first, &last);
        simd->rows.deep(b->sums + (lanes + y * w->x.lanes) * VECTOR,
            b->band + (y * w->y.step - c->top) * c->depth.pitch * VECTOR, &c->depth, weights, first, last, bias,
            done->lo, done->hi);
    }
    simd->interleave[0](done->out, b->sums + lanes * VECTOR, VECTOR, (size_t)lanes, (size_t)lanes, (size_t)n);
}

static void sum_channel(const run *r, gale__cpu_frame *f, int64_t rows, const float *band, float *flat, float *sums)
{
    const gale__cpu_window *w = &r->contract->window;
    const gale__cpu_channel *c = &r->contract->channel;
    float weights[GALE__CHANNEL_TAPS];
    if (c->quads) {
        sum_quads(r, f, rows, band, sums);
        return;
    }
    read_weights(r, f, weights);
    int64_t n = parts((rows - 1) * c->pitch + w->x.lanes, VECTOR) * VECTOR;
    bool dense = c->pitch == w->x.lanes;
    if (!dense && w->x.lanes >= GRID_LANES) {
        f->tape->simd->rows.grid(
            sums, band, c->offset, weights, (size_t)c->taps, (size_t)rows, (size_t)w->x.lanes, (size_t)c->pitch);
        return;
    }
    f->tape->simd->rows.flat(dense ? sums : flat, band, c->offset, weights, (size_t)c->taps, (size_t)n);
    for (int64_t y = 0; y < rows && !dense; y++)
        gale__cpu_copy_floats(sums + y * w->x.lanes, flat + y * c->pitch, w->x.lanes);
}

static void finish_channels(const gale__cpu_contract *c, gale__cpu_frame *f, int64_t start, int64_t n, float *sums)
{
    if (c->channel.bytes && !c->channel.quads)
        f->tape->simd->cast[GALE__SIMD_TYPE_F32][GALE_I32](sums, sums, NULL, NULL, (size_t)n);
    for (int64_t j = 0, block = (int64_t)c->tail.block; j < n; j += block) {
        f->registers[c->sum] = sums + j;
        gale__cpu_frame_set(f, &c->joint, start + j, (size_t)least(block, n - j));
        gale__cpu_frame_run(f, c->tail_section);
    }
}

/* One channel without the tape, from lane n0 on. */
static void finish_channel(
    const gale__cpu_contract *c, gale__cpu_frame *f, int64_t n0, int64_t lanes, const float *sums)
{
    int64_t at[GALE__NEST_DIMS];
    memcpy(at, f->at, sizeof at);
    for (int i = 0; i < c->b.rows.n; i++) at[c->b.rows.dim[i]] = 0;
    if (c->finish.out)
        gale__cpu_finish_run(&c->finish, f->tape->simd, f->buffers, at, f->tape->n_dims, &c->b.rows, n0, lanes, sums);
    else
        gale__cpu_requant_run(&c->requant, f->tape->simd, f->buffers, at, f->tape->n_dims, &c->b.rows, n0, lanes, sums,
            0, !c->channel.quads);
}

/* Where the results of the frame's channel go, from its lane n0 on; false: to the sums, since more follows. */
static bool open_done(const run *r, bench *b, int64_t n0, gale__simd_done *done)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_span none = {.count = 1};
    if (!r->aliased && !c->finish.other && !c->finish.scale &&
        gale__cpu_finish_open(&c->finish, &none, &c->b.rows, r->buffers, b->f.at, b->f.tape->n_dims, done)) {
        done->out += n0;
        if (c->finish.bias) done->bias_pitch = c->finish.bias->stride[c->batch.dim[0]];
        if (!c->channel.turned || c->finish.out->stride[c->batch.dim[0]] == c->window.x.lanes * c->window.y.lanes)
            return true;
    }
    *done = (gale__simd_done){.out = b->sums, .lo = -INFINITY, .hi = INFINITY};
    return false;
}

/* Some channels, whole, or one band of one. */
static void run_group(const run *r, bench *b, int64_t i)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_channel *ch = &c->channel;
    const gale__cpu_window *w = &c->window;
    int64_t group = i % r->groups, far = i / r->groups % w->far.count, block = i / r->groups / w->far.count,
            row = block * ch->rows, rows = least(ch->rows, w->y.lanes - row), first = group * ch->together,
            n = least(ch->together, c->batch.count - first), lanes = rows * w->x.lanes,
            n0 = (far * w->y.lanes + row) * w->x.lanes;
    bool alone = c->requant.out || (c->finish.out && !r->aliased), done = false;
    gale__simd_done to;
    if (block != b->block && !ch->depth.pitch) prepare_block(r, b, block, rows);
    memset(b->f.at, 0, sizeof b->f.at);
    gale__cpu_frame_seek(&b->f, &w->far, far);
    for (int64_t k = 0; k < n; k++) {
        float *sums = b->sums + (alone && !ch->line ? 0 : k * lanes);
        if (w->y.lane >= 0) b->f.at[w->y.lane] = 0;
        gale__cpu_frame_seek(&b->f, &c->batch, first + k);
        bool first_of = !k || !ch->line; /* of all channels that are summed together */
        if (ch->depth.pitch && first_of) {
            done = open_done(r, b, n0, &to);
            if (!done) to.out = sums;
            if (ch->turned) sum_turned(r, b, n, &to);
            else
                sum_depth(
                    r, &b->f, row, rows, ch->line ? n : 1, &to, done ? c->finish.out->stride[c->batch.dim[0]] : lanes);
        }
        if (done) {
            to.out_pitch = c->finish.out->stride[c->batch.dim[0]];
            gale__cpu_finish_activate(&c->finish, &to, 0, ch->line ? n : 1, 0, lanes);
            if (ch->line) break;
            continue;
        }
        if (!ch->depth.pitch) {
            fill_band(r, b);
            sum_channel(r, &b->f, rows, b->band, b->flat, sums);
        }
        if (alone) finish_channel(c, &b->f, n0, lanes, sums);
    }
    if (!alone) finish_channels(c, &b->f, (first * w->y.lanes + row) * w->x.lanes, n * lanes, b->sums);
}

static char *carve(char **at, int64_t bytes)
{
    char *p = *at;
    *at += parts(bytes, 64) * 64;
    return p;
}

static void run_task(void *arg, size_t task, int worker)
{
    const run *r = arg;
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_channel *ch = &c->channel;
    int64_t all = c->window.far.count * r->groups * ch->row_blocks, first = (int64_t)task * r->per_task;
    char *scratch = gale__cpu_scratch_take(GALE__CPU_SCRATCH_PRIVATE, c->private_bytes), *at = scratch;
    bench b = {.block = -1};
    (void)worker;
    gale__cpu_frame_init(&b.f, &c->tail, r->buffers, carve(&at, (int64_t)gale__cpu_tape_scratch_bytes(&c->tail)),
        c->tail.block, r->aliased);
    b.band = (float *)(void *)carve(&at, ch->band_floats * 4);
    b.flat = (float *)(void *)carve(&at, ch->flat * 4);
    b.sums = (float *)(void *)carve(&at, ch->sums_floats * 4);
    b.pieces = (piece *)(void *)at;
    for (int64_t i = first; i < least(first + r->per_task, all); i++) run_group(r, &b, i);
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_PRIVATE, scratch);
}

size_t gale__cpu_channel_bytes(const gale__cpu_contract *c)
{
    const gale__cpu_channel *ch = &c->channel;
    int64_t pieces = gale__cpu_window_places(&c->window.y, ch->rows) * c->window.x.step;
    return gale__cpu_tape_scratch_bytes(&c->tail) +
           (size_t)(ch->band_floats + ch->flat + ch->sums_floats) * sizeof(float) + (size_t)pieces * sizeof(piece) +
           4 * 64;
}

void gale__cpu_channel_run(const gale__cpu_contract *c, void *const *buffers, bool aliased)
{
    const gale__cpu_channel *ch = &c->channel;
    run r = {.contract = c, .buffers = buffers, .aliased = aliased, .groups = parts(c->batch.count, ch->together)};
    int64_t all = c->window.far.count * r.groups * ch->row_blocks;
    r.per_task = parts(TASK_LANES, ch->together * ch->rows * c->window.x.lanes);
    r.per_task = least(r.per_task, parts(all, (int64_t)gale__parallel_now() * TASKS_EACH));
    if (gale__parallel_now() == 1) r.per_task = all;
    gale__parallel_kernel((size_t)parts(all, r.per_task), run_task, &r);
}
