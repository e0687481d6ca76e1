/* Convolutions of f32 in three bf16 shares: the lanes of a block are cut once, as a band in which taps find their
 * tiles by offset; rows of the result pass by it, 32 at a time, and are finished while their sums are near.  Lanes of
 * a block are flat: tiles cross the ends of rows and of maps, and what they compute there is dropped. */
#include "base/thread.h"
#include "kernel/cpu/contract.h"
#include "kernel/cpu/divide.h"
#include "kernel/cpu/scratch.h"
#include <math.h>
#include <string.h>

enum { SIDE = 32, PAIR = GALE__SHARES_PAIR, LINE = 16, STRIPS = 512, LANES = 1024, PIXEL = 64 };
enum { BAND_BYTES = 1 << 20, HEAD = 64 }; /* HEAD: before each band, which block it is of */

static int64_t phases_of(const gale__cpu_axis *a) { return a->taps > 1 ? a->step : 1; }
static int64_t reach_of(const gale__cpu_axis *a) { return (a->taps - 1) * a->hop / a->step; }

/* --- Choosing. --- */

/* Sizes that follow from those of a block. */
static void lay_out(const gale__cpu_window *w, gale__cpu_bands *b)
{
    b->high = b->rows + reach_of(&w->y);
    b->pitch = b->columns + reach_of(&w->x);
    b->phases = phases_of(&w->y);
    b->lanes = round_up(((b->maps - 1) * b->high + b->rows - 1) * b->pitch + b->columns, SIDE);
    b->plane = b->phases * phases_of(&w->x) * b->maps * b->high * b->pitch + LINE; /* which cutting a row may write */
    b->plane = round_up(b->plane, LINE) | LINE; /* an odd number of cache lines: no shared sets */
    b->upright = w->x.taps * w->y.taps > 1;
    b->bytes = (size_t)(parts(w->rest.count, SIDE) * 3 * PAIR * b->plane) * sizeof(float) + SIDE * PIXEL; /* read */
}

/* Of a place in a plane; of an upright band in a share. */
static size_t place_bytes(const gale__cpu_bands *b) { return b->upright ? PIXEL : sizeof(float); }

static int64_t strips_of(const gale__cpu_window *w, const gale__cpu_bands *b)
{
    return b->maps * b->high * b->phases * phases_of(&w->x);
}

static bool is_small(const gale__cpu_window *w, const gale__cpu_bands *b)
{
    return b->bytes <= BAND_BYTES && b->lanes <= LANES && strips_of(w, b) <= STRIPS;
}

/* So many equal blocks of one map: some of its rows, or of its columns where there is one row. */
static void choose_block(const gale__cpu_window *w, gale__cpu_bands *b, int64_t n)
{
    *b = (gale__cpu_bands){.maps = 1, .rows = parts(w->y.lanes, n), .columns = w->x.lanes};
    if (w->y.lanes == 1) b->columns = least(w->x.lanes, round_up(parts(w->x.lanes, n), SIDE));
    b->across = parts(w->x.lanes, b->columns);
    b->down = parts(w->y.lanes, b->rows);
    b->blocks = w->far.count * b->across * b->down;
    lay_out(w, b);
}

/* The dimension of k that is not taps, if there is one; -1: there are more. */
static int channel_of(const gale__cpu_window *w)
{
    int found = w->rest.n ? w->rest.dim[0] : -1, n = 0;
    for (int i = 0; i < w->rest.n; i++)
        if (w->rest.extent[i] > 1) found = w->rest.dim[i], n++;
    return n > 1 ? -1 : found;
}

static bool fits_window(const gale__cpu_contract *c)
{
    const gale__cpu_window *w = &c->window;
    const gale__nest_access *a = w->access;
    if (w->widen || a->type != GALE_F32 || a->fill || channel_of(w) < 0 || w->x.unit < 1) return false;
    for (int g = 0; g < a->n_guards; g++) {
        if (a->guards[g].coef[channel_of(w)]) return false;
        for (int i = 0; i < w->far.n; i++)
            if (a->guards[g].coef[w->far.dim[i]]) return false;
    }
    return true;
}

/* Nanoseconds, one core of a Granite Rapids Xeon: of a multiplication as f32, and as shares; of a place of a channel
 * that is cut, and of a result; the same of upright bands.  Winograd's multiplications wait for the second cache. */
static const double PLAIN_NS = 0.0115, WINOGRAD_NS = 0.0165, SHARES_NS = 0.0050, CUT_NS[2] = {0.28, 0.4},
                    RESULT_NS[2] = {0.1, 0.25}, ROW_NS = 12;

/* Cutting a block, and multiplying it by m rows of weights. */
static double cut_ns(const gale__cpu_window *w, const gale__cpu_bands *b)
{
    return (double)(b->plane * w->rest.count) * CUT_NS[b->upright];
}
static double task_ns(const gale__cpu_window *w, const gale__cpu_bands *b, int64_t m)
{
    double rows = (double)round_up(m, b->upright ? SIDE : PAIR), deep = (double)round_up(w->rest.count, SIDE),
           taps = (double)(w->x.taps * w->y.taps), lanes = (double)b->lanes;
    return lanes * rows * taps * deep * SHARES_NS + lanes * (double)m * RESULT_NS[b->upright] +
           (double)m * (ROW_NS + taps * (double)w->rest.count * GALE__SHARES_WEIGHT_NS);
}

#define UNEVEN 0.4 /* of a task, that the last thread is behind the others */

/* Blocks of the map, and parts of the rows of weights, that take the least time on so many threads: nanoseconds.
 * Threads have adjacent parts of a block, and cut it once. */
static double divide(const gale__cpu_window *w, int64_t m, int64_t width, gale__cpu_bands *best)
{
    double least_ns = INFINITY;
    int64_t most = w->y.lanes > 1 ? w->y.lanes : parts(w->x.lanes, 2 * SIDE), found = 0;
    for (int64_t n = 1; n <= most && (n == 1 || found < 4 * width); n++) {
        gale__cpu_bands b;
        choose_block(w, &b, n);
        if (!is_small(w, &b)) continue;
        found = b.blocks;
        for (int64_t part = 1; part <= (width > 1 ? parts(m, SIDE) : 1); part++) {
            b.part_rows = round_up(parts(m, part), SIDE);
            b.parts = parts(m, b.part_rows);
            int64_t each = parts(b.blocks * b.parts, width);
            double ns = ((double)each + (width > 1 ? UNEVEN : 0)) * task_ns(w, &b, least(m, b.part_rows)) +
                        (double)(parts(each, b.parts) + (each % b.parts && b.parts % each)) * cut_ns(w, &b);
            if (ns >= least_ns) continue;
            least_ns = ns;
            *best = b;
        }
    }
    return least_ns;
}

/* What other kernels take for one map. */
static double plain_ns(const gale__cpu_window *w, int64_t m)
{
    double ns = (double)(w->y.lanes * w->x.lanes * m) * (double)(w->x.taps * w->y.taps * w->rest.count) * PLAIN_NS;
    int64_t best = 0;
    if (w->x.taps != 3 || w->y.taps != 3 || w->x.step != 1 || w->y.step != 1 || w->x.hop != 1) return ns;
    double cost = gale__cpu_winograd_cost(w, m, gale__simd_gemm_find(gale__simd_plain(GALE__SIMD_TYPE_F32)), &best);
    return best ? cost * WINOGRAD_NS : ns;
}

static bool is_faster(const gale__cpu_window *w, int64_t m)
{
    gale__cpu_bands b;
    return m >= PAIR && w->rest.count >= PAIR && divide(w, m, 1, &b) < plain_ns(w, m) * (double)w->far.count;
}

double gale__cpu_bands_point_ns(int64_t channels, int64_t pixels, int64_t k)
{
    gale__cpu_window w = {.x = {.lanes = pixels, .taps = 1, .step = 1, .hop = 1, .unit = 1},
        .y = {.lanes = 1, .taps = 1, .step = 1, .hop = 1, .unit = 1},
        .rest = {.n = 1, .count = k},
        .far = {.count = 1}};
    gale__cpu_bands b;
    return is_faster(&w, channels) && gale__cpu_shares_wanted(true) ? divide(&w, channels, 1, &b) : INFINITY;
}

bool gale__cpu_bands_fit(gale__cpu_contract *c, const gale__contraction *info, bool turned)
{
    gale__cpu_window *w = &c->window;
    int lanes = turned ? info->a : info->b;
    uint8_t dims[GALE__NEST_DIMS];
    int n = 0;
    if (!gale__cpu_window_find(w, c->nest, lanes, &c->b.rows, &c->k, c->sum_type) || !fits_window(c)) return false;
    w->phases = phases_of(&w->x);
    if (divide(w, c->a.rows.count, 1, &c->bands) == INFINITY || !gale__cpu_shares_wanted(is_faster(w, c->a.rows.count)))
        return false;
    if (w->y.tap >= 0) dims[n++] = (uint8_t)w->y.tap;
    if (w->x.tap >= 0) dims[n++] = (uint8_t)w->x.tap;
    for (int i = 0; i < w->rest.n; i++)
        if (w->rest.dim[i] != channel_of(w)) dims[n++] = w->rest.dim[i];
    dims[n++] = (uint8_t)channel_of(w);
    gale__cpu_span_init(&c->k, c->nest, dims, n); /* channels are the fastest: units are of one tap */
    c->kc = w->rest.count;
    return true;
}

/* Several maps at a time, where these are small. */
static void join_maps(const gale__cpu_window *w, gale__cpu_bands *b, int64_t width)
{
    for (int64_t maps = 2; b->across * b->down * b->parts == 1 && parts(w->far.count, maps) >= width; maps++) {
        gale__cpu_bands other = *b;
        other.maps = maps;
        other.blocks = parts(w->far.count, maps);
        lay_out(w, &other);
        if (!is_small(w, &other) || maps > w->far.count) return;
        *b = other;
    }
}

gale_status gale__cpu_bands_init(gale__cpu_contract *c)
{
    const gale__cpu_window *w = &c->window;
    gale__cpu_bands *b = &c->bands;
    int64_t taps = w->y.taps * w->x.taps, width = gale__parallel_now();
    c->by_batch = c->batch.count >= 2 * width;
    if (c->by_batch) width = 1;
    divide(w, c->a.rows.count, width, b);
    join_maps(w, b, width);
    b->offset = gale__calloc((size_t)taps, sizeof *b->offset);
    if (!b->offset) return GALE_NO_MEMORY;
    for (int64_t t = 0; t < taps; t++) {
        int64_t y = t / w->x.taps * w->y.hop, x = t % w->x.taps * w->x.hop, down = y % b->phases, over = x % w->phases;
        b->offset[t] =
            (int32_t)place_bytes(b) *
            (int32_t)(((down * w->phases + over) * b->maps * b->high + y / b->phases) * b->pitch + x / w->phases);
    }
    c->tile_lanes = b->maps * b->rows * b->columns;
    c->mc = SIDE;
    c->shared_bytes = (size_t)(c->by_batch ? 1 : gale__parallel_width()) * (b->bytes + HEAD);
    return GALE_OK;
}

size_t gale__cpu_bands_private(const gale__cpu_contract *c)
{
    int64_t lanes = (c->bands.upright ? 2 : 1) * c->bands.lanes; /* sums, and the same turned */
    return gale__cpu_tape_scratch_bytes(&c->tail) + (size_t)(SIDE * lanes) * sizeof(float) + 256;
}

/* --- Running. --- */

typedef struct run {
    const gale__cpu_contract *contract;
    void *const *buffers;
    bool aliased;
    int64_t batch;
    const char *rows;
    char *bands; /* of each worker */
} run;

typedef struct block {
    int64_t far, maps, row, rows, column, columns;
} block;

static block block_at(const gale__cpu_contract *c, int64_t i)
{
    const gale__cpu_window *w = &c->window;
    const gale__cpu_bands *b = &c->bands;
    block at = {.column = i % b->across * b->columns, .row = i / b->across % b->down * b->rows};
    at.far = i / b->across / b->down * b->maps;
    at.maps = least(b->maps, w->far.count - at.far);
    at.rows = least(b->rows, w->y.lanes - at.row);
    at.columns = least(b->columns, w->x.lanes - at.column);
    return at;
}

/* Of a block's planes, each with the same strips. */
static size_t find_strips(const run *r, const block *k, gale__cpu_window_strip *out)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_window *w = &c->window;
    const gale__cpu_bands *b = &c->bands;
    int64_t at[GALE__NEST_DIMS] = {0}, high = gale__cpu_window_places(&w->y, k->rows),
            wide = gale__cpu_window_places(&w->x, k->columns), hi;
    int dims = c->nest->n_outer + c->nest->n_inner;
    gale__cpu_window_strip *s = out;
    gale__cpu_window_row row;
    gale__cpu_span_seek(&c->batch, r->batch, at);
    for (int64_t down = 0; down < b->phases; down++)
        for (int64_t over = 0; over < w->phases; over++)
            for (int64_t map = 0; map < b->maps; map++)
                for (int64_t y = 0; y < b->high; y++, s++) {
                    int64_t place = y * b->phases + down;
                    *s = (gale__cpu_window_strip){.to = (s - out) * b->pitch};
                    if (map >= k->maps || place >= high || over >= wide) continue;
                    gale__cpu_span_seek(&w->far, k->far + map, at);
                    gale__cpu_window_seek(w, at, dims, k->row * w->y.step + place, k->column * w->x.step, &row);
                    gale__cpu_window_inside(w, &row, over, parts(wide - over, w->phases), &s->lo, &hi, &s->from);
                    s->n = hi > s->lo ? hi - s->lo : 0;
                }
    return (size_t)(s - out);
}

/* 32 channels of a block. */
static void cut_unit(const run *r, const gale__cpu_window_strip *strips, size_t n, int64_t unit, char *band)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_window *w = &c->window;
    const gale__cpu_bands *b = &c->bands;
    int64_t next = w->access->stride[channel_of(w)];
    size_t plane = (size_t)b->plane * sizeof(float);
    char *to = band + (size_t)(unit * 3 * PAIR) * plane;
    if (b->upright) {
        c->tail.simd->shares.cut_pixels(to, PAIR * plane, strips, n, (size_t)b->pitch,
            (const float *)r->buffers[w->access->buffer] + unit * SIDE * next, next, w->rest.count - unit * SIDE,
            w->x.unit * w->phases);
        return;
    }
    for (int64_t p = 0; p < PAIR; p++, to += plane) {
        int64_t channel = unit * SIDE + p;
        const float *x = (const float *)r->buffers[w->access->buffer] + channel * next;
        if (channel >= w->rest.count)
            for (size_t s = 0; s < 3; s++) memset(to + s * PAIR * plane, 0, plane);
        else
            c->tail.simd->shares.cut_strips(to, plane, strips, n, (size_t)b->pitch, x,
                channel + PAIR < w->rest.count ? x + PAIR * next : NULL, w->x.unit * w->phases);
    }
}

/* The block at k in the worker's band, unless it is there. */
static const char *cut_block(const run *r, const block *k, int64_t index, int worker)
{
    const gale__cpu_contract *c = r->contract;
    char *band = r->bands + (size_t)(c->by_batch ? 0 : worker) * (c->bands.bytes + HEAD);
    int64_t *has = (int64_t *)(void *)band;
    gale__cpu_window_strip strips[STRIPS];
    band += HEAD;
    if (*has == index) return band;
    *has = index;
    size_t n = find_strips(r, k, strips);
    for (int64_t u = 0; u < parts(c->window.rest.count, SIDE); u++) cut_unit(r, strips, n, u, band);
    return band;
}

/* Rows of sums without what is between rows of lanes; from: upright ones. */
static void close_up(const gale__cpu_bands *b, const block *k, int64_t rows, float *sums, const float *from)
{
    for (int64_t y = 0; y < k->maps * k->rows && b->upright; y++)
        gale__simd_get()->shares.turn_sums(sums + y * k->columns, (size_t)b->lanes,
            from + (y / k->rows * b->high + y % k->rows) * b->pitch * SIDE, (size_t)k->columns);
    if (b->upright) return;
    for (int64_t m = 0; m < rows && b->pitch > k->columns; m++) {
        float *row = sums + m * b->lanes, *to = row;
        for (int64_t map = 0; map < k->maps; map++)
            for (int64_t y = 0; y < k->rows; y++, to += k->columns)
                if (to > row) memmove(to, row + (map * b->high + y) * b->pitch, (size_t)k->columns * sizeof *to);
    }
}

static void sum_rows(
    const run *r, const char *a, const char *band, int64_t rows, const block *k, bool plain, float *sums)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_bands *b = &c->bands;
    const gale__simd_shares *s = &c->tail.simd->shares;
    gale__simd_taps taps = {.plane = (size_t)b->plane * place_bytes(b),
        .units = (size_t)parts(c->window.rest.count, SIDE),
        .taps = (size_t)(c->window.y.taps * c->window.x.taps),
        .a_tap = (size_t)gale__cpu_contract_padded_rows(c) * gale__cpu_contract_steps(c, c->kc),
        .offset = b->offset};
    int64_t lanes = ((k->maps - 1) * b->high + k->rows - 1) * b->pitch + k->columns;
    float *upright = sums + SIDE * b->lanes;
    for (int64_t j = 0; j < lanes; j += SIDE) {
        float *to = b->upright ? upright + j * SIDE : sums + j;
        size_t pitch = b->upright ? SIDE : (size_t)b->lanes;
        const char *at = band + (size_t)j * place_bytes(b);
        if (plain) s->window_plain(to, pitch, &taps, a, at, b->upright);
        else s->window[b->upright][(b->upright ? lanes - j : rows) > PAIR](to, pitch, &taps, a, at);
    }
    close_up(b, k, rows, sums, upright);
}

/* What follows the sums of rows from m on, where these lead to rows of memory; the activation of all at once. */
static void finish_rows(const gale__cpu_contract *c, const gale__simd_done *first, int64_t m, int64_t rows, int64_t n,
    int64_t lanes, const float *sums)
{
    for (int64_t i = 0; i < rows; i++, sums += c->bands.lanes) {
        gale__simd_done d = *first;
        gale__cpu_finish_advance(&d, m + i, n);
        c->tail.simd->rows.finish(d.out, sums, d.other, *d.bias, d.scale ? *d.scale : 1, d.lo, d.hi, (size_t)lanes);
    }
    gale__cpu_finish_activate(&c->finish, first, m, rows, n, lanes);
}

/* Task: some rows of a block. */
static void sum_task(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_window *w = &c->window;
    const gale__cpu_bands *b = &c->bands;
    int64_t index = (int64_t)i / b->parts, m0 = (int64_t)i % b->parts * b->part_rows,
            end = least(m0 + b->part_rows, c->a.rows.count);
    block k = block_at(c, index);
    const char *band = cut_block(r, &k, index, worker);
    int64_t n0 = (k.far * w->y.lanes + k.row) * w->x.lanes + k.column, lanes = k.maps * k.rows * k.columns;
    char *scratch = gale__cpu_scratch_take(gale__cpu_contract_scratch(c, GALE__CPU_SCRATCH_PRIVATE), c->private_bytes);
    float *sums = (float *)(void *)(scratch + (gale__cpu_tape_scratch_bytes(&c->tail) + 63) / 64 * 64);
    gale__cpu_frame f;
    gale__cpu_frame_init(&f, &c->tail, r->buffers, scratch, c->tail.block, r->aliased);
    gale__cpu_frame_seek(&f, &c->batch, r->batch);
    gale__simd_done done;
    bool known = !r->aliased && !c->finish.also &&
                 gale__cpu_finish_open(&c->finish, &c->a.rows, &c->b.rows, r->buffers, f.at, c->tail.n_dims, &done);
    gale__simd_gemm_open(&c->gemm);
    for (; m0 < end; m0 += SIDE) {
        int64_t rows = least(SIDE, end - m0);
        const char *a = r->rows + (size_t)m0 * gale__cpu_contract_steps(c, c->kc);
        sum_rows(r, a, band, rows, &k, false, sums);
        if (!c->tail.simd->shares.is_finite(sums, (size_t)b->lanes, (size_t)rows, (size_t)lanes))
            sum_rows(r, a, band, rows, &k, true, sums);
        if (known) finish_rows(c, &done, m0, rows, n0, lanes, sums);
        else gale__cpu_contract_tail(c, &f, m0, rows, n0, lanes, (char *)sums, b->lanes);
    }
    gale__simd_gemm_close(&c->gemm);
    gale__cpu_scratch_give(gale__cpu_contract_scratch(c, GALE__CPU_SCRATCH_PRIVATE), scratch);
}

static void batch_task(void *arg, size_t i, int worker)
{
    run r = *(const run *)arg;
    const gale__cpu_contract *c = r.contract;
    const gale__cpu_bands *b = &c->bands;
    (void)worker;
    r.batch = (int64_t)i;
    r.rows = (const char *)r.buffers[c->a_panels.buffer] + gale__cpu_contract_rows_at(c, r.batch);
    r.bands = gale__cpu_scratch_take(gale__cpu_contract_scratch(c, GALE__CPU_SCRATCH_SHARED), c->shared_bytes);
    for (size_t at = 0; at < c->shared_bytes; at += b->bytes + HEAD) *(int64_t *)(void *)(r.bands + at) = -1;
    gale__parallel_kernel((size_t)(b->blocks * b->parts), sum_task, &r);
    gale__cpu_scratch_give(gale__cpu_contract_scratch(c, GALE__CPU_SCRATCH_SHARED), r.bands);
}

void gale__cpu_bands_run(const gale__cpu_contract *c, void *const *buffers, bool aliased)
{
    run r = {.contract = c, .buffers = buffers, .aliased = aliased};
    if (c->by_batch) gale__parallel_kernel((size_t)c->batch.count, batch_task, &r);
    else
        for (int64_t i = 0; i < c->batch.count; i++) batch_task(&r, (size_t)i, 0);
}
