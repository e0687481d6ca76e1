/* Runs a contraction over windows: packs the rows' operand once, then computes the result one block of lanes at a
 * time. */
#include "base/thread.h"
#include "kernel/cpu/contract.h"
#include "kernel/cpu/divide.h"
#include "kernel/cpu/scratch.h"
#include "kernel/cpu/walk.h"
#include <math.h>
#include <string.h>

enum { PANELS = 8 };             /* of lanes that stay in the first cache while the rows go by */
enum { CHUNK_BYTES = 48 << 10 }; /* of sums that are finished together */
enum { UPRIGHT_TILES = 8 };      /* upright ones that a panel serves while it is near */
enum { TILES_LANES = 256 };      /* the same of tiles: lanes of 32 rows */

typedef struct run {
    const gale__cpu_contract *contract;
    void *const *buffers;
    bool aliased;
    int64_t batch;
    const char *packed;   /* a, kc steps at a time: all panels of those steps */
    char *bands, *panels; /* of all blocks, where their parts share them */
} run;

typedef struct block {
    int64_t far, row, rows, column, columns, m0, m;
    gale__simd_done done;        /* where its results go, from the first row and the block's first lane on */
    bool known, at_once;         /* done is; tiles are finished with their last steps */
    const int32_t *offset;       /* of each k in what takes the place of the band */
    int64_t at[GALE__NEST_DIMS]; /* coordinates of the batch and the far lanes */
} block;                         /* lanes, and rows of the result */

static block block_at(const gale__cpu_contract *c, int64_t i)
{
    const gale__cpu_window *w = &c->window;
    block b = {.m0 = i % w->parts * w->part_rows};
    i /= w->parts;
    b.column = i % w->column_blocks * w->columns;
    i /= w->column_blocks;
    b.row = i % w->row_blocks * w->rows;
    b.far = i / w->row_blocks;
    b.rows = least(w->rows, w->y.lanes - b.row);
    b.columns = least(w->columns, w->x.lanes - b.column);
    b.m = least(w->part_rows, c->a.rows.count - b.m0);
    return b;
}

static void find_out(const run *r, const gale__cpu_frame *f, block *b)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_window *w = &c->window;
    int64_t lane = (b->far * w->y.lanes + b->row) * w->x.lanes + b->column;
    b->known = !r->aliased &&
               gale__cpu_finish_open(&c->finish, &c->a.rows, &c->b.rows, r->buffers, f->at, c->tail.n_dims, &b->done);
    b->at_once = b->known && c->gemm.part[0].done_at[0];
    if (!b->known) return;
    b->done.out += lane;
    if (b->done.other) b->done.other += lane;
}

/* Results that a tile leads to are fetched while it is computed: writing them afterwards would wait for memory. */
static void fetch_out(const block *b, int64_t m, int64_t rows, int64_t lane, int64_t lanes)
{
    for (int64_t i = m; i < m + rows; i++)
        for (int64_t j = lane; j < lane + lanes; j += 16)
            __builtin_prefetch(b->done.out + (b->m0 + i) * b->done.out_pitch + j, 1);
}

/* The last steps of a tile, which goes to its place in memory. */
static void finish_tile(const gale__cpu_contract *c, const block *b, int64_t m, int64_t lane, int64_t lanes,
    const char *sums, int64_t pitch, const char *a, const char *from, const int32_t *offset, int64_t kn)
{
    gale__simd_done d = b->done;
    d.rows = least(c->gemm.mr, b->m - m);
    d.lanes = least(c->gemm.nr, lanes);
    d.ahead = b->offset == c->window.direct; /* steps of k are far apart there: the processor does not follow them */
    d.padded = !d.ahead;
    gale__cpu_finish_tile(&c->gemm, d, b->m0 + m, lane, kn < c->k.count ? sums : NULL, pitch, a, from, offset, kn);
}

/* The activation of tiles [first, end) of rows from m on. */
static void activate_tiles(const gale__cpu_contract *c, const block *b, int64_t m, int64_t first, int64_t end)
{
    if (!c->finish.activate) return;
    int64_t nr = c->gemm.nr, across = parts(b->columns, nr);
    for (int64_t row = first / across; row * across < end; row++) {
        int64_t from = row * across < first ? first % across * nr : 0,
                to = least(b->columns, (end - row * across) * nr);
        gale__cpu_finish_activate(
            &c->finish, &b->done, b->m0 + m, least(c->gemm.mr, b->m - m), row * c->window.x.lanes + from, to - from);
    }
}

/* One tile of rows from m on: at a row of the block and a column of its lanes. */
static void multiply_tile(const gale__cpu_contract *c, const block *b, int64_t m, int64_t row, int64_t column,
    const char *a, const char *band, char *sums, int64_t pitch, int64_t k0, int64_t kn)
{
    const gale__cpu_window *w = &c->window;
    const gale__simd_part *part = gale__simd_part_for(&c->gemm, b->m - m);
    char *to = sums + (size_t)(m * pitch + row * w->padded + column) * c->size;
    const char *from = band + (size_t)(row * w->y.step * w->pitch + column) * c->unit;
    if (b->known && !b->at_once && !k0)
        fetch_out(b, m, least(c->gemm.mr, b->m - m), row * w->x.lanes + column, c->gemm.nr);
    if (b->at_once && k0 + kn == c->k.count)
        finish_tile(c, b, m, row * w->x.lanes + column, b->columns - column, to, pitch, a, from, b->offset + k0, kn);
    else
        (b->columns - column <= c->gemm.slim ? part->slim_at : part->tile_at)(
            to, (size_t)pitch, a, from, b->offset + k0, (size_t)gale__cpu_contract_units(c, kn));
}

/* sums += a times the band, kn steps from k0 on. */
static void multiply(const gale__cpu_contract *c, const block *b, const char *a, const char *band, char *sums,
    int64_t pitch, int64_t k0, int64_t kn)
{
    int64_t mr = c->gemm.mr, nr = c->gemm.nr, tiles = b->rows * parts(b->columns, nr), row = 0, column = 0;
    size_t steps = gale__cpu_contract_steps(c, kn);
    for (int64_t t0 = 0; t0 < tiles; t0 += PANELS) {
        int64_t end = least(t0 + PANELS, tiles), row0 = row, column0 = column;
        for (int64_t m = 0; m < b->m; m += mr) {
            row = row0, column = column0;
            for (int64_t t = t0; t < end; t++) {
                multiply_tile(c, b, m, row, column, a + (size_t)(b->m0 + m) * steps, band, sums, pitch, k0, kn);
                if ((column += nr) >= b->columns) row++, column = 0;
            }
            if (b->at_once && k0 + kn == c->k.count) activate_tiles(c, b, m, t0, end);
        }
    }
}

/* The same where panels cross rows: a few are packed, and stay in the first cache while the rows go by.  ready: they
 * were packed before, all of them. */
static void multiply_flat(const gale__cpu_contract *c, const block *b, const char *a, const char *band, char *panels,
    bool ready, char *sums, int64_t pitch, int64_t k0, int64_t kn)
{
    const gale__cpu_window *w = &c->window;
    int64_t mr = c->gemm.mr, nr = c->gemm.nr, lanes = b->rows * b->columns, tiles = parts(lanes, nr),
            units = gale__cpu_contract_units(c, kn);
    for (int64_t t0 = 0; t0 < tiles; t0 += w->group) {
        int64_t n = least(w->group, tiles - t0);
        const char *from = ready ? panels + (size_t)(t0 * nr * units) * c->unit : panels;
        if (!ready) gale__cpu_window_pack(w, band, b->columns, lanes, t0, n, k0, units, nr, c->unit, panels);
        int64_t wide = w->in_panel && lanes - (t0 + n - 1) * nr <= c->gemm.slim ? n - 1 : n;
        for (int64_t m = 0; m < b->m; m += mr) {
            const gale__simd_part *part = gale__simd_part_for(&c->gemm, b->m - m);
            const char *rows = a + (size_t)((b->m0 + m) * units) * c->unit;
            char *to = sums + (size_t)(m * pitch + t0 * nr) * c->size;
            for (int64_t t = 0; t < n && b->known && !b->at_once && !k0; t++)
                fetch_out(b, m, least(mr, b->m - m), (t0 + t) * nr, nr);
            if (b->at_once && k0 + kn == c->k.count) {
                for (int64_t t = 0; t < n; t++)
                    finish_tile(c, b, m, (t0 + t) * nr, lanes - (t0 + t) * nr, to + (size_t)(t * nr) * c->size, pitch,
                        rows, from + (size_t)(t * nr * units) * c->unit, w->in_panel, kn);
                gale__cpu_finish_activate(
                    &c->finish, &b->done, b->m0 + m, least(mr, b->m - m), t0 * nr, least(n * nr, lanes - t0 * nr));
                continue;
            }
            for (int64_t t = 0; t < wide; t++)
                part->tile(to + (size_t)(t * nr) * c->size, (size_t)pitch, rows,
                    from + (size_t)(t * nr * units) * c->unit, (size_t)units);
            if (wide < n)
                part->slim_at(to + (size_t)(wide * nr) * c->size, (size_t)pitch, rows,
                    from + (size_t)(wide * nr * units) * c->unit, w->in_panel, (size_t)units);
        }
    }
}

/* An upright tile: its first lane in the map and in the band, and where it goes. */
typedef struct upright_tile {
    const float *from;
    gale__simd_upright u;
    gale__simd_done d;
    int64_t row, column, lo, n; /* lanes [lo, lo + n) are summed */
} upright_tile;

static upright_tile upright_at(
    const gale__cpu_contract *c, const block *b, const char *band, float *sums, int64_t pitch, int64_t m, int64_t t)
{
    const gale__cpu_window *w = &c->window;
    int64_t mr = c->gemm.mr, nr = c->gemm.nr, across = parts(b->columns, nr), rows = nr > w->x.lanes ? 2 : 1,
            row = t / across * rows, column = t % across * nr, first = m, at = row * w->padded + column;
    bool direct = b->offset == w->direct; /* in memory, not in a band */
    int64_t down = w->y.step * (direct ? w->y.unit : w->pitch), along = w->x.step * (direct ? w->x.unit : 1);
    upright_tile x = {.from = (const float *)(const void *)band + row * down + column * along,
        .u = {.step = along, .a_pitch = mr, .ahead = direct && !w->sparse},
        .d = {.out = sums, .out_pitch = pitch, .lo = -INFINITY, .hi = INFINITY}};
    if (b->at_once) x.d = b->done, first = b->m0 + m, at = row * w->x.lanes + column;
    gale__cpu_finish_advance(&x.d, first, at);
    x.d.rows = least(mr, b->m - m);
    x.d.lanes = least(nr, rows > 1 ? (b->rows - row) * b->columns : b->columns - column);
    x.u.jump = rows > 1 && x.d.lanes == nr ? down : x.d.lanes / 2 * along;
    x.row = row;
    x.column = column;
    x.n = x.d.lanes;
    return x;
}

/* The lanes that a tap finds inside, and where. */
static void aim(const gale__cpu_contract *c, const block *b, const char *memory, int64_t tap, upright_tile *x)
{
    const gale__cpu_window *w = &c->window;
    gale__cpu_window_row row;
    int64_t hi, from;
    gale__cpu_window_seek(w, b->at, c->tail.n_dims, (b->row + x->row) * w->y.step + tap / w->x.taps * w->y.hop,
        (b->column + x->column) * w->x.step + tap % w->x.taps * w->x.hop, &row);
    gale__cpu_window_inside(w, &row, 0, x->d.lanes, &x->lo, &hi, &from);
    x->from = (const float *)(const void *)memory + from;
    x->n = hi - x->lo;
    x->u.step = w->x.step * w->x.unit;
    x->u.jump = x->n / 2 * x->u.step;
}

/* The activation of tiles that follow one another. */
static void activate_upright(const gale__cpu_contract *c, const block *b, const upright_tile *x, int64_t n)
{
    int64_t all = x[n - 1].d.out - x[0].d.out + x[n - 1].d.lanes;
    if (b->columns == c->window.x.lanes) gale__cpu_finish_activate(&c->finish, &x[0].d, 0, x[0].d.rows, 0, all);
    else
        for (int64_t t = 0; t < n; t++) gale__cpu_finish_activate(&c->finish, &x[t].d, 0, x[t].d.rows, 0, x[t].d.lanes);
}

/* The same by upright tiles: all steps of a few, for which the panel is in the first cache. */
static void multiply_upright(const run *r, const block *b, const char *band, char *sums, int64_t pitch)
{
    const gale__cpu_contract *c = r->contract;
    const gale__simd *simd = c->tail.simd;
    bool sparse = c->window.sparse;
    int64_t planes = c->window.rest.count, mr = c->gemm.mr, nr = c->gemm.nr, lines = nr > c->window.x.lanes ? 2 : 1,
            tiles = parts(b->rows, lines) * parts(b->columns, nr), padded = gale__cpu_contract_padded_rows(c);
    float tile[UPRIGHT_TILES][GALE__UPRIGHT_SUMS];
    upright_tile x[UPRIGHT_TILES];
    memset(tile, 0, (size_t)least(tiles, UPRIGHT_TILES) * sizeof *tile);
    for (int64_t m = 0; m < b->m; m += mr)
        for (int64_t t0 = 0; t0 < tiles; t0 += UPRIGHT_TILES) {
            int64_t n = least(UPRIGHT_TILES, tiles - t0);
            for (int64_t t = 0; t < n; t++) x[t] = upright_at(c, b, band, (float *)(void *)sums, pitch, m, t0 + t);
            if (sparse) memset(tile, 0, (size_t)n * sizeof *tile);
            for (int64_t k = 0; k < c->k.count; k += c->kc) {
                int64_t kn = least(c->kc, c->k.count - k);
                const float *a = (const float *)(const void *)r->packed + padded * k + (b->m0 + m) * kn;
                for (int64_t t = 0; t < n; t++) {
                    if (sparse && k % planes == 0) aim(c, b, band, k / planes, &x[t]);
                    x[t].u.offset = b->offset + (sparse ? k % planes : k);
                    x[t].u.fetch = x[t].u.ahead || sparse ? x[t].u.offset : c->window.fetch + k;
                    if (x[t].n > 0)
                        simd->upright[x[t].u.step <= 2 ? x[t].u.step : 0][x[t].d.rows > 16][x[t].n](
                            tile[t] + x[t].lo * GALE__UPRIGHT_ROWS, sparse || k > 0, &x[t].u, a, x[t].from, (size_t)kn);
                }
            }
            for (int64_t t = 0; t < n; t++) simd->upright_done(&x[t].d, tile[t]);
            if (b->at_once) activate_upright(c, b, x, n);
        }
}

/* Whole rows of lanes are one run; their sums move together first. */
static void finish_block(const gale__cpu_contract *c, gale__cpu_frame *tail, const block *b, char *sums, int64_t pitch)
{
    const gale__cpu_window *w = &c->window;
    int64_t n0 = (b->far * w->y.lanes + b->row) * w->x.lanes + b->column;
    if (b->columns < w->x.lanes) {
        for (int64_t r = 0; r < b->rows; r++)
            gale__cpu_contract_tail(
                c, tail, b->m0, b->m, n0 + r * w->x.lanes, b->columns, sums + (size_t)(r * w->padded) * c->size, pitch);
        return;
    }
    for (int64_t m = 0; m < b->m && b->columns < w->padded; m++)
        for (int64_t r = 1; r < b->rows; r++)
            memmove(sums + (size_t)(m * pitch + r * b->columns) * c->size,
                sums + (size_t)(m * pitch + r * w->padded) * c->size, (size_t)b->columns * c->size);
    gale__cpu_contract_tail(c, tail, b->m0, b->m, n0, b->rows * b->columns, sums, pitch);
}

/* Nothing, or what the lanes' zero point takes away from the products of each row. */
static void start_sums(const run *r, const block *b, char *sums, int64_t pitch)
{
    const gale__cpu_contract *c = r->contract;
    int64_t padded = gale__cpu_contract_padded_rows(c), rows = parts(b->m, c->gemm.mr) * c->gemm.mr;
    const int32_t *of_rows = c->narrow ? gale__cpu_contract_sums(c, &c->a, r->packed, padded, 0) : NULL;
    memset(sums, 0, (size_t)(rows * pitch) * c->size);
    for (int64_t m = 0; of_rows && m < b->m; m++) {
        int32_t *row = (int32_t *)(void *)sums + m * pitch;
        uint32_t start = 0 - (uint32_t)c->b.narrow.point * (uint32_t)of_rows[b->m0 + m];
        for (int64_t j = 0; j < pitch; j++) row[j] = (int32_t)start;
    }
}

static void multiply_block(
    const run *r, const block *b, const char *band, char *panels, bool ready, char *sums, int64_t pitch)
{
    const gale__cpu_contract *c = r->contract;
    if (c->window.upright) {
        multiply_upright(r, b, band, sums, pitch);
        return;
    }
    for (int64_t k = 0; k < c->k.count; k += c->kc) {
        int64_t kn = least(c->kc, c->k.count - k);
        const char *a = r->packed + (size_t)gale__cpu_contract_padded_rows(c) * gale__cpu_contract_steps(c, k);
        size_t before = ready ? (size_t)c->window.block_lanes * gale__cpu_contract_steps(c, k) : 0;
        if (c->window.flat) multiply_flat(c, b, a, band, panels + before, ready, sums, pitch, k, kn);
        else multiply(c, b, a, band, sums, pitch, k, kn);
    }
}

static void fill_band(
    const run *r, gale__cpu_frame *f, const block *b, int64_t first, int64_t count, char *band, char *temp)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_window *w = &c->window;
    gale__cpu_frame_seek(f, &c->batch, r->batch);
    gale__cpu_frame_seek(f, &w->far, b->far);
    gale__cpu_window_fill(w, c->narrow ? &c->b.narrow : NULL, c->tail.simd, r->buffers[w->access->buffer], f->at,
        c->tail.n_dims, (gale__cpu_window_piece){b->row, b->column, first, count}, band, temp,
        c->unit / (size_t)w->together);
}

/* Panels of a block from its band, or from memory; f: coordinates of the batch and the far lanes. */
static void pack_panels(const run *r, const gale__cpu_frame *f, const block *b, const char *band, int64_t first,
    int64_t count, int64_t k, int64_t units, char *to)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_window *w = &c->window;
    gale__cpu_window_row row;
    if (!w->pointwise) {
        gale__cpu_window_pack(w, band, b->columns, b->rows * b->columns, first, count, k, units, c->gemm.nr,
            c->unit / (size_t)w->together, to);
        return;
    }
    gale__cpu_window_seek(w, f->at, c->tail.n_dims, 0, b->column, &row);
    gale__cpu_window_pack_points(w, &c->b.narrow, c->tail.simd,
        (const char *)r->buffers[w->access->buffer] + row.address, b->columns, first, count, c->gemm.nr, to);
}

/* The block's lanes in memory, where they can be read there, to the end of the last panel; else NULL.  Where tiles are
 * finished at once no more is read in the last steps than there is. */
static const char *find_direct(const run *r, const gale__cpu_frame *f, const block *b)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_window *w = &c->window;
    gale__cpu_window_row row;
    if (!w->direct) return NULL;
    if (w->sparse) return r->buffers[w->access->buffer];
    gale__cpu_window_seek(w, f->at, c->tail.n_dims, b->row * w->y.step, b->column * w->x.step, &row);
    const char *from = (const char *)r->buffers[w->access->buffer] + row.address * (int64_t)sizeof(float);
    if (w->upright) return from;
    int64_t before = (c->k.count - 1) / c->kc * c->kc, most = w->direct_most;
    if (b->at_once) most = before ? w->direct[before - 1] : -c->gemm.nr;
    if (row.address + most + parts(b->columns, c->gemm.nr) * c->gemm.nr > c->nest->buffers[w->access->buffer].elements)
        return NULL;
    return from;
}

/* Rows of the result that are finished together: their sums stay near. */
static int64_t chunk_rows(const gale__cpu_contract *c, int64_t pitch)
{
    int64_t mr = c->gemm.mr, fit = CHUNK_BYTES / (pitch * (int64_t)c->size) / mr * mr;
    return fit > mr ? fit : mr;
}

/* Rows [m0, m0 + rows) and lanes [first, first + count) of a block, of sums without what the lanes' zero point takes
 * away. */
static void finish_lanes(const run *r, gale__cpu_frame *f, const block *b, int64_t m0, int64_t rows, int64_t first,
    int64_t count, int32_t *sums, int64_t pitch)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_window *w = &c->window;
    const int32_t *of_rows = gale__cpu_contract_sums(c, &c->a, r->packed, gale__cpu_contract_padded_rows(c), 0);
    bool whole = b->columns == w->x.lanes;
    for (int64_t i = 0; i < rows && of_rows && !c->requant.out; i++)
        for (int64_t j = 0; j < count; j++)
            sums[i * pitch + j] -= (int32_t)((uint32_t)c->b.narrow.point * (uint32_t)of_rows[m0 + i]);
    for (int64_t j = 0, n; j < count; j += n) {
        int64_t row = whole ? 0 : (first + j) / b->columns, column = first + j - row * b->columns,
                lane = (b->far * w->y.lanes + b->row + row) * w->x.lanes + b->column + column;
        n = whole ? count : least(count - j, b->columns - column);
        if (!c->requant.out) gale__cpu_contract_tail(c, f, m0, rows, lane, n, (char *)(sums + j), pitch);
        for (int d = 0; d < c->b.rows.n; d++) f->at[c->b.rows.dim[d]] = 0;
        for (int64_t i = 0; i < rows && c->requant.out; i++) {
            uint32_t start = of_rows ? 0 - (uint32_t)c->b.narrow.point * (uint32_t)of_rows[m0 + i] : 0;
            gale__cpu_frame_seek(f, &c->a.rows, m0 + i);
            gale__cpu_requant_run(&c->requant, f->tape->simd, f->buffers, f->at, f->tape->n_dims, &c->b.rows, lane, n,
                sums + i * pitch + j, (int32_t)start, false);
        }
    }
}

/* A block by tiles: all its panels first, then a few rows of results, and of these some lanes, so that sums stay in the
 * first cache. */
static void tiles_task(const run *r, size_t i)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_window *w = &c->window;
    block b = block_at(c, (int64_t)i);
    int64_t mr = c->gemm.mr, nr = c->gemm.nr, units = w->units, tiles = parts(b.rows * b.columns, nr),
            pitch = least(TILES_LANES, w->block_lanes);
    char *scratch = gale__cpu_scratch_take(GALE__CPU_SCRATCH_PRIVATE, c->private_bytes);
    char *band = scratch + (gale__cpu_tape_scratch_bytes(&c->tail) + 63) / 64 * 64,
         *panels = band + (w->band_bytes + w->temp_bytes + 63) / 64 * 64;
    int32_t *sums = (int32_t *)(void *)(panels + ((size_t)w->packed * c->unit + 63) / 64 * 64);
    gale__cpu_frame f;
    gale__cpu_frame_init(&f, &c->tail, r->buffers, scratch, c->tail.block, r->aliased);
    gale__cpu_frame_seek(&f, &c->batch, r->batch);
    gale__cpu_frame_seek(&f, &w->far, b.far);
    if (w->shared_band) panels = r->panels + i / (size_t)w->parts * w->shared_panels;
    else if (!w->pointwise) fill_band(r, &f, &b, 0, w->rest.count, band, band + w->band_bytes);
    if (!w->shared_band) pack_panels(r, &f, &b, band, 0, tiles, 0, units, panels);
    gale__simd_gemm_open(&c->gemm);
    for (int64_t m = b.m0; m < b.m0 + b.m; m += mr) {
        int64_t rows = least(mr, b.m0 + b.m - m);
        const gale__simd_part *part = gale__simd_part_for(&c->gemm, rows);
        for (int64_t t = 0; t < tiles; t += pitch / nr) {
            int64_t n = least(pitch / nr, tiles - t);
            for (int64_t j = 0; j < n; j++)
                part->fresh(sums + j * nr, (size_t)pitch, r->packed + (size_t)(m * units) * c->unit,
                    panels + (size_t)((t + j) * nr * units) * c->unit, (size_t)units);
            finish_lanes(r, &f, &b, m, rows, t * nr, least(n * nr, b.rows * b.columns - t * nr), sums, pitch);
        }
    }
    gale__simd_gemm_close(&c->gemm);
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_PRIVATE, scratch);
}

static void block_task(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_window *w = &c->window;
    if (w->whole) {
        tiles_task(r, i);
        return;
    }
    block b = block_at(c, (int64_t)i);
    size_t index = i / (size_t)w->parts;
    int64_t pitch = (b.rows * w->padded + c->gemm.nr - 1) / c->gemm.nr * c->gemm.nr;
    char *scratch = gale__cpu_scratch_take(GALE__CPU_SCRATCH_PRIVATE, c->private_bytes);
    char *band = scratch + (gale__cpu_tape_scratch_bytes(&c->tail) + 63) / 64 * 64,
         *panels = band + (w->band_bytes + w->temp_bytes + 63) / 64 * 64,
         *sums = panels + ((size_t)w->packed * c->unit + 63) / 64 * 64;
    const char *from = NULL;
    gale__cpu_frame f;
    (void)worker;
    gale__cpu_frame_init(&f, &c->tail, r->buffers, scratch, c->tail.block, r->aliased);
    gale__cpu_frame_seek(&f, &c->batch, r->batch);
    gale__cpu_frame_seek(&f, &w->far, b.far);
    find_out(r, &f, &b);
    memcpy(b.at, f.at, sizeof b.at);
    if (w->shared_band) {
        band = r->bands + index * w->shared_band;
        if (w->flat) panels = r->panels + index * w->shared_panels;
    } else from = find_direct(r, &f, &b);
    b.offset = from ? w->direct : w->offset;
    if (!from && !w->shared_band) fill_band(r, &f, &b, 0, w->rest.count, band, band + w->band_bytes);
    if (!from) from = band;
    bool ready = w->shared_band > 0, packs = w->flat && !ready;
    bool whole = b.at_once && (c->k.count <= c->kc || w->upright); /* no sums but in registers */
    int64_t some = packs || whole ? b.m : chunk_rows(c, pitch), end = b.m0 + b.m;
    for (; b.m0 < end; b.m0 += some) {
        b.m = least(some, end - b.m0);
        if (!whole && !w->upright) start_sums(r, &b, sums, pitch);
        multiply_block(r, &b, from, panels, ready, sums, pitch);
        if (!b.at_once) finish_block(c, &f, &b, sums, pitch);
    }
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_PRIVATE, scratch);
}

enum { FILL_TASKS = 4 }; /* for each thread */

/* Planes of a band that a task fills. */
static int64_t task_planes(const gale__cpu_window *w)
{
    return parts(w->rest.count, parts(FILL_TASKS * gale__parallel_now(), gale__cpu_window_blocks(w)));
}

static void fill_task(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_window *w = &c->window;
    int64_t most = task_planes(w), pieces = parts(w->rest.count, most), index = (int64_t)i / pieces,
            first = (int64_t)i % pieces * most;
    block b = block_at(c, index * w->parts);
    char *temp = gale__cpu_scratch_take(GALE__CPU_SCRATCH_PRIVATE, c->private_bytes);
    gale__cpu_frame f = {.at = {0}};
    (void)worker;
    fill_band(r, &f, &b, first, least(most, w->rest.count - first), r->bands + (size_t)index * w->shared_band, temp);
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_PRIVATE, temp);
}

/* Task: one panel and kc steps. */
static void panels_task(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_window *w = &c->window;
    int64_t nr = c->gemm.nr, steps = parts(c->k.count, c->kc), panels = parts(w->block_lanes, nr),
            k = (int64_t)i % steps * c->kc, t = (int64_t)i / steps % panels, index = (int64_t)i / steps / panels,
            units = gale__cpu_contract_units(c, least(c->kc, c->k.count - k));
    block b = block_at(c, index * w->parts);
    gale__cpu_frame f = {.at = {0}};
    (void)worker;
    gale__cpu_frame_seek(&f, &c->batch, r->batch);
    gale__cpu_frame_seek(&f, &w->far, b.far);
    if (t * nr < b.rows * b.columns)
        pack_panels(r, &f, &b, r->bands + (size_t)index * w->shared_band, t, 1, k, units,
            r->panels + (size_t)index * w->shared_panels + (size_t)w->block_lanes * gale__cpu_contract_steps(c, k) +
                (size_t)(t * nr * units) * c->unit);
}

/* Bands, and panels, of all blocks. */
static void share_bands(run *r, char *shared)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_window *w = &c->window;
    int64_t blocks = gale__cpu_window_blocks(w);
    r->bands = shared;
    r->panels = shared + (size_t)blocks * w->shared_band;
    if (!w->pointwise) gale__parallel((size_t)(blocks * parts(w->rest.count, task_planes(w))), fill_task, r);
    if (!w->flat) return;
    gale__parallel((size_t)(blocks * parts(w->block_lanes, c->gemm.nr) * parts(c->k.count, c->kc)), panels_task, r);
}

/* Blocks of all batches, such as the groups of a convolution, are tasks of one loop. */
static bool is_joint(const gale__cpu_contract *c)
{
    return !c->by_batch && c->batch.count > 1 && !c->window.shared_band;
}

static size_t rows_bytes(const gale__cpu_contract *c)
{
    size_t rows = gale__cpu_contract_panel_bytes(c, &c->a, gale__cpu_contract_padded_rows(c));
    return (rows + 63) / 64 * 64;
}

size_t gale__cpu_window_shared_at(const gale__cpu_contract *c)
{
    return c->a_panels.bytes ? 0 : rows_bytes(c) * (size_t)(is_joint(c) ? c->batch.count : 1);
}

/* Where the packed rows of the batch are: panels of a constant, or what was packed for this run. */
static const char *rows_of(const run *r, const char *piece)
{
    const gale__cpu_contract *c = r->contract;
    if (!c->a_panels.bytes) return piece;
    return (const char *)r->buffers[c->a_panels.buffer] + gale__cpu_contract_rows_at(c, r->batch);
}

static void run_batch(run *r)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_window *w = &c->window;
    char *piece = gale__cpu_scratch_take(GALE__CPU_SCRATCH_SHARED, c->shared_bytes);
    if (!c->a_panels.bytes) gale__cpu_contract_pack_rows(c, r->buffers, r->aliased, r->batch, piece);
    r->packed = rows_of(r, piece);
    if (w->shared_band) share_bands(r, piece + gale__cpu_window_shared_at(c));
    gale__parallel_kernel((size_t)(gale__cpu_window_blocks(w) * w->parts), block_task, r);
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_SHARED, piece);
}

static void batch_task(void *arg, size_t i, int worker)
{
    run r = *(const run *)arg;
    (void)worker;
    r.batch = (int64_t)i;
    run_batch(&r);
}

static void joint_task(void *arg, size_t i, int worker)
{
    run r = *(const run *)arg;
    const gale__cpu_contract *c = r.contract;
    size_t blocks = (size_t)(gale__cpu_window_blocks(&c->window) * c->window.parts);
    r.batch = (int64_t)(i / blocks);
    r.packed = rows_of(&r, r.packed + i / blocks * rows_bytes(c));
    block_task(&r, i % blocks, worker);
}

static void run_joint(run *r)
{
    const gale__cpu_contract *c = r->contract;
    char *piece = gale__cpu_scratch_take(GALE__CPU_SCRATCH_SHARED, c->shared_bytes);
    for (int64_t b = 0; b < c->batch.count && !c->a_panels.bytes; b++)
        gale__cpu_contract_pack_rows(c, r->buffers, r->aliased, b, piece + (size_t)b * rows_bytes(c));
    r->packed = piece;
    gale__parallel_kernel(
        (size_t)(c->batch.count * gale__cpu_window_blocks(&c->window) * c->window.parts), joint_task, r);
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_SHARED, piece);
}

void gale__cpu_window_run(const gale__cpu_contract *c, void *const *buffers, bool aliased)
{
    run r = {.contract = c, .buffers = buffers, .aliased = aliased};
    if (is_joint(c)) run_joint(&r);
    else if (c->by_batch) gale__parallel_kernel((size_t)c->batch.count, batch_task, &r);
    else
        for (r.batch = 0; r.batch < c->batch.count; r.batch++) run_batch(&r);
}
