/* Runs a convolution by Winograd's transforms, one block of tiles after the other: channels are transformed on all
 * cores, then tasks multiply some rows of the result, transform them back and finish them. */
#include "base/thread.h"
#include "base/num.h"
#include "kernel/cpu/contract.h"
#include "kernel/cpu/divide.h"
#include "kernel/cpu/scratch.h"
#include <math.h>
#include <string.h>

enum { SIDE = 6 }; /* most elements of a tile along an axis */

typedef struct run {
    const gale__cpu_contract *contract;
    void *const *buffers;
    bool aliased;
    int64_t batch;
    int64_t row, rows, column, columns; /* tiles of the block at hand; rows count over all maps */
    const char *weights;
    float *block;    /* [point][channel][tile] */
    float *products; /* of the block, where points are tasks */
} run;

/* A row of places that a channel takes from its map: those in [lo, hi) begin at `from`, others are filled. */
typedef struct line {
    int64_t lo, hi, from;
} line;

/* What a task that transforms works in: the places of one channel, each row by its phases. */
typedef struct bench {
    line *lines;
    float *row, *band, *half;
    int64_t place[SIDE]; /* of each element of a tile in a row of the half */
    int64_t at[GALE__NEST_DIMS];
} bench;

static char *carve(char **at, int64_t bytes)
{
    char *p = *at;
    *at += parts(bytes, 64) * 64;
    return p;
}
static const gale__simd_winograd *transforms(const gale__cpu_contract *c)
{
    return &c->tail.simd->winograd[c->winograd.m == 4];
}

static int64_t open_bench(const gale__cpu_winograd *g, bench *b, char *scratch)
{
    char *at = scratch;
    int64_t rows = g->rows * g->m + 2, band_row = g->m * g->phase;
    b->lines = (line *)(void *)carve(&at, rows * (int64_t)sizeof *b->lines);
    b->row = (float *)(void *)carve(&at, (band_row + GALE__SIMD_SLACK) * 4);
    b->band = (float *)(void *)carve(&at, (rows * band_row + GALE__SIMD_SLACK) * 4);
    b->half = (float *)(void *)carve(&at, ((g->m + 2) * g->half + GALE__SIMD_SLACK) * 4);
    for (int64_t j = 0; j < g->m + 2; j++) b->place[j] = j % g->m * g->phase + j / g->m;
    return at - scratch;
}

static void fill(float *to, uint64_t bits, int64_t n)
{
    float v;
    uint32_t low = (uint32_t)bits;
    memcpy(&v, &low, sizeof v);
    for (int64_t i = 0; i < n; i++) to[i] = v;
}

/* Finds the places of `rows` rows of tiles of one map; what no channel has is filled in once. */
static void find_lines(const run *r, bench *b, int64_t far, int64_t first, int64_t rows)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_window *w = &c->window;
    const gale__cpu_winograd *g = &c->winograd;
    gale__cpu_window_row at;
    gale__cpu_frame f = {.at = {0}};
    int64_t n = r->columns * g->m + 2;
    gale__cpu_frame_seek(&f, &c->batch, r->batch);
    gale__cpu_frame_seek(&f, &w->far, far);
    memcpy(b->at, f.at, sizeof b->at);
    gale__cpu_window_seek(w, b->at, c->tail.n_dims, first * g->m, r->column * g->m, &at);
    int64_t lanes = w->y.lanes + 2 - first * g->m;
    for (int64_t y = 0; y < rows * g->m + 2; y++, gale__cpu_window_next(w, &at)) {
        line *l = &b->lines[y];
        gale__cpu_window_inside(w, &at, 0, least(n, w->x.lanes + 2 - r->column * g->m), &l->lo, &l->hi, &l->from);
        if (y >= lanes || l->hi < l->lo) l->hi = l->lo; /* behind the last result */
        if (l->hi == l->lo) fill(b->band + y * g->m * g->phase, w->access->fill, g->m * g->phase);
    }
    fill(b->row, w->access->fill, g->m * g->phase + GALE__SIMD_SLACK);
}

/* Rows of the band: places m i + p of a row are contiguous for each p. */
static void fill_band(const run *r, const bench *b, const float *memory, int64_t rows)
{
    const gale__cpu_winograd *g = &r->contract->winograd;
    const gale__simd_winograd *t = transforms(r->contract);
    int64_t lo = -1, hi = -1, n = g->m * g->phase;
    uint64_t outside = r->contract->window.access->fill;
    for (int64_t y = 0; y < rows * g->m + 2; y++) {
        const line *l = &b->lines[y];
        if (l->hi <= l->lo) continue;
        if (lo >= 0 && (l->lo != lo || l->hi != hi)) fill(b->row, outside, n);
        lo = l->lo, hi = l->hi;
        gale__cpu_copy_floats(b->row + lo, memory + l->from, hi - lo);
        t->split(b->band + y * n, g->phase, b->row, (size_t)(r->columns + 1));
    }
}

/* One row of tiles of one channel: to its lanes at every point. */
static void transform_row(const run *r, const bench *b, int64_t row, float *to)
{
    const gale__cpu_winograd *g = &r->contract->winograd;
    const gale__simd_winograd *t = transforms(r->contract);
    int64_t side = g->m + 2, n = g->m * g->phase;
    const float *s[SIDE];
    for (int64_t i = 0; i < side; i++) s[i] = b->band + (row * g->m + i) * n;
    t->in(b->half, g->half, s, (size_t)n);
    for (int64_t i = 0; i < side; i++) {
        for (int64_t j = 0; j < side; j++) s[j] = b->half + i * g->half + b->place[j];
        t->in(to + i * side * g->point, g->point, s, (size_t)r->columns);
    }
}

/* Some rows of tiles of one map, all of the task's channels. */
static void transform_map(const run *r, bench *b, int64_t row, int64_t rows, int64_t k0, int64_t kn)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_window *w = &c->window;
    const gale__cpu_winograd *g = &c->winograd;
    int64_t lane = (row - r->row) * r->columns;
    find_lines(r, b, row / g->down, row % g->down, rows);
    for (int64_t k = k0; k < k0 + kn; k++) {
        const float *memory = r->buffers[w->access->buffer];
        int64_t left = k;
        for (int d = w->rest.n - 1; d >= 0; d--, left /= w->rest.extent[d + 1])
            memory += left % w->rest.extent[d] * w->access->stride[w->rest.dim[d]];
        fill_band(r, b, memory, rows);
        for (int64_t y = 0; y < rows; y++) transform_row(r, b, y, r->block + k * g->pitch + lane + y * r->columns);
    }
}

static void transform_task(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_winograd *g = &c->winograd;
    char *scratch = gale__cpu_scratch_take(GALE__CPU_SCRATCH_PRIVATE, c->private_bytes);
    int64_t k0 = (int64_t)i * g->chunk, kn = least(g->chunk, g->channels - k0);
    bench b;
    (void)worker;
    open_bench(g, &b, scratch);
    for (int64_t row = r->row, end = r->row + r->rows; row < end;) {
        int64_t rows = least(end - row, g->down - row % g->down);
        transform_map(r, &b, row, rows, k0, kn);
        row += rows;
    }
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_PRIVATE, scratch);
}

/* What a task that multiplies works in. */
typedef struct desk {
    gale__cpu_frame f;
    float *products, *half, *sums; /* [point][row][tile], [place down][point across][tile], [row][result] */
    int64_t rows;                  /* of a point's products */
} desk;

/* Rows of the result that are transformed back together, where points are tasks. */
static int64_t back_rows(const gale__cpu_contract *c)
{
    return parts(c->a.rows.count, (int64_t)gale__parallel_width() * 2);
}

static int64_t open_desk(const gale__cpu_contract *c, desk *d, char *scratch)
{
    const gale__cpu_winograd *g = &c->winograd;
    char *at = scratch + (gale__cpu_tape_scratch_bytes(&c->tail) + 63) / 64 * 64;
    if (!g->spread)
        d->products = (float *)(void *)carve(&at, (g->points * g->part * g->products + GALE__SIMD_SLACK) * 4);
    d->rows = g->spread ? gale__cpu_contract_padded_rows(c) : g->part;
    d->half = (float *)(void *)carve(&at, (g->m * (g->m + 2) * g->products + GALE__SIMD_SLACK) * 4);
    d->sums = (float *)(void *)carve(&at, (g->spread ? back_rows(c) : g->part) * g->sums_pitch * 4);
    return at - scratch;
}

/* What becomes of a tile of products: it is stored, or added to those of the steps before. */
static gale__simd_done plain_done(const gale__cpu_winograd *g)
{
    static const float no_bias = -0.0f;
    return (gale__simd_done){.bias = &no_bias,
        .start_pitch = g->products,
        .out_pitch = g->products,
        .lo = -INFINITY,
        .hi = INFINITY,
        .ahead = true};
}

/* One panel of rows by all lanes, which stay in the first cache while the weights go by. */
static void multiply_rows(const gale__cpu_contract *c, const gale__cpu_winograd_panels *cover, int64_t rows,
    const float *a, const float *b, float *to, int64_t kn, bool first)
{
    const gale__cpu_winograd *g = &c->winograd;
    const gale__simd_part *part = gale__simd_part_for(&c->gemm, rows);
    gale__simd_done d = plain_done(g);
    d.rows = least(c->gemm.mr, rows);
    for (int64_t i = 0; i < cover->full + cover->slim; i++) {
        bool slim = i >= cover->full;
        d.lanes = slim ? c->gemm.slim : c->gemm.nr;
        d.out = to;
        d.start = first ? NULL : to;
        if (part->done_at[0]) part->done_at[slim ? GALE__DONE_SLIM : GALE__DONE_FULL](&d, a, b, g->offset, (size_t)kn);
        else (slim ? part->slim_at : part->tile_at)(to, (size_t)g->products, a, b, g->offset, (size_t)kn);
        b += d.lanes, to += d.lanes;
    }
}

/* to = weights by lanes from `lane` on, at one point. */
static void multiply(
    const run *r, const gale__cpu_winograd_panels *cover, int64_t p, int64_t lane, int64_t m0, int64_t rows, float *to)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_winograd *g = &c->winograd;
    int64_t padded = gale__cpu_contract_padded_rows(c), mr = c->gemm.mr;
    if (!c->gemm.part[0].done_at[0]) memset(to, 0, (size_t)(parts(rows, mr) * mr * g->products) * sizeof(float));
    for (int64_t k = 0; k < g->channels; k += c->kc) {
        int64_t kn = least(c->kc, g->channels - k);
        const float *a = (const float *)(const void *)r->weights + p * padded * g->channels + k * padded + m0 * kn,
                    *b = r->block + p * g->point + k * g->pitch + lane;
        for (int64_t i = 0; i < rows; i += mr)
            multiply_rows(c, cover, rows - i, a + i * kn, b, to + i * g->products, kn, !k);
    }
}

/* Row m of the products back to rows of results, which follow one another in row i of the sums. */
static void transform_back(const run *r, const desk *d, int64_t m, int64_t i, int64_t row, int64_t rows)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_winograd *g = &c->winograd;
    const gale__simd_winograd *t = transforms(c);
    int64_t side = g->m + 2, width = least(r->columns * g->m, c->window.x.lanes - r->column * g->m);
    const float *s[SIDE];
    float *to = d->sums + i * g->sums_pitch;
    for (int64_t x = 0; x < side; x++) {
        for (int64_t y = 0; y < side; y++) s[y] = d->products + ((y * side + x) * d->rows + m) * g->products;
        t->out(d->half + x * g->products, side * g->products, s, (size_t)(rows * r->columns));
    }
    for (int64_t y = 0; y < rows; y++) {
        int64_t down = least(g->m, c->window.y.lanes - (row + y) % g->down * g->m);
        for (int64_t p = 0; p < down; p++, to += width) {
            for (int64_t x = 0; x < side; x++) s[x] = d->half + (p * side + x) * g->products + y * r->columns;
            t->woven(to, s, (size_t)r->columns);
        }
    }
}

/* What follows the convolution; the lanes of whole rows are one run. */
static void finish(const run *r, desk *d, int64_t m0, int64_t n, int64_t row, int64_t rows)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_winograd *g = &c->winograd;
    const gale__cpu_window *w = &c->window;
    int64_t width = least(r->columns * g->m, w->x.lanes - r->column * g->m), high = w->y.lanes;
    int64_t first = row / g->down * high + row % g->down * g->m, last = row + rows,
            end = last / g->down * high + last % g->down * g->m;
    gale__cpu_frame_seek(&d->f, &w->far, row / g->down);
    if (width == w->x.lanes) {
        gale__cpu_contract_tail(c, &d->f, m0, n, first * width, (end - first) * width, (char *)d->sums, g->sums_pitch);
        return;
    }
    for (int64_t y = first; y < end; y++)
        gale__cpu_contract_tail(c, &d->f, m0, n, y * w->x.lanes + r->column * g->m, width,
            (char *)(d->sums + (y - first) * width), g->sums_pitch);
}

static void multiply_task(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_winograd *g = &c->winograd;
    int64_t m0 = (int64_t)i % g->parts * g->part, n = least(g->part, c->a.rows.count - m0),
            row = (int64_t)i / g->parts * g->task_rows, rows = least(g->task_rows, r->rows - row);
    char *scratch = gale__cpu_scratch_take(GALE__CPU_SCRATCH_PRIVATE, c->private_bytes);
    desk d;
    (void)worker;
    open_desk(c, &d, scratch);
    gale__cpu_frame_init(&d.f, &c->tail, r->buffers, scratch, c->tail.block, r->aliased);
    gale__cpu_frame_seek(&d.f, &c->batch, r->batch);
    gale__cpu_winograd_panels cover = gale__cpu_winograd_cover(&c->gemm, rows * r->columns);
    for (int64_t p = 0; p < g->points; p++)
        multiply(r, &cover, p, row * r->columns, m0, n, d.products + p * g->part * g->products);
    for (int64_t j = 0; j < n; j++) transform_back(r, &d, j, j, r->row + row, rows);
    finish(r, &d, m0, n, r->row + row, rows);
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_PRIVATE, scratch);
}

/* Task: some rows at one point. */
static void point_task(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_winograd *g = &c->winograd;
    int64_t p = (int64_t)i / g->parts, m0 = (int64_t)i % g->parts * g->part;
    gale__cpu_winograd_panels cover = gale__cpu_winograd_cover(&c->gemm, r->rows * r->columns);
    (void)worker;
    multiply(r, &cover, p, 0, m0, least(g->part, c->a.rows.count - m0),
        r->products + (p * gale__cpu_contract_padded_rows(c) + m0) * g->products);
}

/* Task: some rows of the result, from the products of all points. */
static void back_task(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_contract *c = r->contract;
    int64_t m0 = (int64_t)i * back_rows(c), n = least(back_rows(c), c->a.rows.count - m0);
    char *scratch = gale__cpu_scratch_take(GALE__CPU_SCRATCH_PRIVATE, c->private_bytes);
    desk d = {.products = r->products};
    (void)worker;
    open_desk(c, &d, scratch);
    gale__cpu_frame_init(&d.f, &c->tail, r->buffers, scratch, c->tail.block, r->aliased);
    gale__cpu_frame_seek(&d.f, &c->batch, r->batch);
    for (int64_t j = 0; j < n; j++) transform_back(r, &d, m0 + j, j, r->row, r->rows);
    finish(r, &d, m0, n, r->row, r->rows);
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_PRIVATE, scratch);
}

static int64_t block_floats(const gale__cpu_contract *c)
{
    return parts(c->winograd.points * c->winograd.point + c->gemm.nr + GALE__SIMD_SLACK, 16) * 16;
}

static void run_batch(run *r)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_winograd *g = &c->winograd;
    int64_t all = c->window.far.count * g->down;
    r->weights = (const char *)r->buffers[c->a_panels.buffer] + gale__cpu_winograd_weights_at(c, r->batch);
    r->block = gale__cpu_scratch_take(GALE__CPU_SCRATCH_SHARED, c->shared_bytes);
    r->products = r->block + block_floats(c);
    for (r->row = 0; r->row < all; r->row += g->rows)
        for (r->column = 0; r->column < g->across; r->column += g->columns) {
            r->rows = least(g->rows, all - r->row);
            r->columns = least(g->columns, g->across - r->column);
            gale__parallel_kernel((size_t)parts(g->channels, g->chunk), transform_task, r);
            if (!g->spread) gale__parallel_kernel((size_t)(parts(r->rows, g->task_rows) * g->parts), multiply_task, r);
            if (!g->spread) continue;
            gale__parallel_kernel((size_t)(g->points * g->parts), point_task, r);
            gale__parallel_kernel((size_t)parts(c->a.rows.count, back_rows(c)), back_task, r);
        }
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_SHARED, r->block);
}

static void batch_task(void *arg, size_t i, int worker)
{
    run r = *(const run *)arg;
    (void)worker;
    r.batch = (int64_t)i;
    run_batch(&r);
}

void gale__cpu_winograd_run(const gale__cpu_contract *c, void *const *buffers, bool aliased)
{
    run r = {.contract = c, .buffers = buffers, .aliased = aliased};
    if (c->by_batch) gale__parallel_kernel((size_t)c->batch.count, batch_task, &r);
    else
        for (r.batch = 0; r.batch < c->batch.count; r.batch++) run_batch(&r);
}

void gale__cpu_winograd_bytes(const gale__cpu_contract *c, size_t *private_bytes, size_t *shared_bytes)
{
    const gale__cpu_winograd *g = &c->winograd;
    static char none; /* only distances from it count */
    bench b;
    desk d;
    int64_t transform = open_bench(g, &b, &none), product = open_desk(c, &d, &none);
    *private_bytes = (size_t)(transform > product ? transform : product);
    int64_t products = g->spread ? g->points * gale__cpu_contract_padded_rows(c) * g->products + GALE__SIMD_SLACK : 0;
    *shared_bytes = (size_t)(block_floats(c) + products) * sizeof(float);
}

/* The weights of one batch, transformed: panels of mr rows for each point, kc steps at a time. */
size_t gale__cpu_winograd_weights_bytes(const gale__cpu_contract *c)
{
    return (size_t)(c->winograd.points * gale__cpu_contract_padded_rows(c) * c->winograd.channels) * sizeof(float);
}

size_t gale__cpu_winograd_weights_at(const gale__cpu_contract *c, int64_t batch)
{
    size_t one = gale__cpu_winograd_weights_bytes(c);
    return c->a_panels.bytes > one ? (size_t)batch * one : 0;
}

typedef struct making {
    const gale__cpu_contract *contract;
    const char *from;
    float *to;
    int64_t batch;
} making;

enum { STEPS = 8 }; /* channels whose weights go out together: each point is far from the next */

/* Weights of the rows of a panel and one channel, transformed: to [point][steps][mr]. */
static void transform_weights(
    const making *w, gale__cpu_frame *f, int64_t m0, int64_t k, const double (*g)[3], float *to, int64_t point)
{
    const gale__cpu_contract *c = w->contract;
    const gale__nest_access *x = c->winograd.weights;
    int64_t rows = least(c->gemm.mr, c->a.rows.count - m0), size = (int64_t)gale_type_size(x->type);
    double taps[9][GALE__WINOGRAD_ROWS] = {{0}}, out[SIDE * SIDE][GALE__WINOGRAD_ROWS];
    gale__cpu_frame_seek(f, &c->window.rest, k);
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = x->offset;
        gale__cpu_frame_seek(f, &c->a.rows, m0 + r);
        for (int d = 0; d < c->nest->n_outer + c->nest->n_inner; d++) at += x->stride[d] * f->at[d];
        for (int t = 0; t < 9; t++)
            taps[t][r] = gale__load_f64((gale_type)x->type,
                w->from + (at + t / 3 * x->stride[c->window.y.tap] + t % 3 * x->stride[c->window.x.tap]) * size);
    }
    gale__cpu_winograd_weights(c->winograd.m, g, taps, out);
    for (int64_t p = 0; p < c->winograd.points; p++)
        for (int64_t r = 0; r < c->gemm.mr; r++) to[p * point + r] = (float)out[p][r];
}

/* Task: a panel of rows. */
static void weights_task(void *arg, size_t i, int worker)
{
    const making *w = arg;
    const gale__cpu_contract *c = w->contract;
    const gale__cpu_winograd *g = &c->winograd;
    int64_t padded = gale__cpu_contract_padded_rows(c), mr = c->gemm.mr, m0 = (int64_t)i * mr, k = 0, n;
    float some[SIDE * SIDE][STEPS * GALE__WINOGRAD_ROWS];
    double factors[SIDE][3];
    gale__cpu_frame f = {.at = {0}};
    (void)worker;
    gale__cpu_winograd_factors(g->m, factors);
    gale__cpu_frame_seek(&f, &c->batch, w->batch);
    for (; k < g->channels; k += n) {
        int64_t k0 = k / c->kc * c->kc, kn = least(c->kc, g->channels - k0);
        n = least(STEPS, k0 + kn - k);
        for (int64_t s = 0; s < n; s++)
            transform_weights(w, &f, m0, k + s, factors, some[0] + s * mr, STEPS * GALE__WINOGRAD_ROWS);
        for (int64_t p = 0; p < g->points; p++)
            memcpy(w->to + p * padded * g->channels + k0 * padded + m0 * kn + (k - k0) * mr, some[p],
                (size_t)(n * mr) * sizeof(float));
    }
}

void gale__cpu_winograd_make(const gale__cpu_contract *c, const void *from, void *to)
{
    size_t one = gale__cpu_winograd_weights_bytes(c);
    for (int64_t batch = 0; (size_t)batch * one < c->a_panels.bytes; batch++) {
        making w = {c, from, (float *)(void *)((char *)to + (size_t)batch * one), batch};
        gale__parallel((size_t)(gale__cpu_contract_padded_rows(c) / c->gemm.mr), weights_task, &w);
    }
}
