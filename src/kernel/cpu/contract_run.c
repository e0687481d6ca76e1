/* Runs a contraction: sums tiles, finishes them.  Each element of the result is summed over k in the same
 * order for all tile sizes, so the result does not depend on the number of threads. */
#include "base/thread.h"
#include "kernel/cpu/contract.h"
#include "kernel/cpu/divide.h"
#include "kernel/cpu/scratch.h"
#include <string.h>

typedef struct run {
    const gale__cpu_contract *contract;
    void *const *buffers;
    bool aliased;
    int64_t batch, lane_first, lane_count; /* the batch at hand; those lanes are packed */
    char *panels;                          /* of all lanes, made before; NULL: each run packs them */
    const char *rows;                      /* panels of a, made before; NULL: each tile packs them */
    char *packed; /* b: a panel after the other, each of the whole k, kc at a time; or the groups' sums */
    int64_t rows_tiles, lane_tiles;
} run;

/* What one task works in: three frames, and room for panels and a tile. */
typedef struct bench {
    gale__cpu_scratch_kind kind;
    void *piece;
    gale__cpu_frame a, b, tail;
    char *pack_a, *pack_b, *rows, *tile;
    gale__cpu_frame zero_a, zero_b;                    /* of narrow operands: */
    int32_t *point_a, *point_b, *sum_a, *sum_b, *part; /* zero points, and sums of rows; part: of some steps */
} bench;

static char *carve(char **at, size_t bytes)
{
    char *p = *at;
    *at += (bytes + 63) / 64 * 64;
    return p;
}

static void open_points(bench *w, const run *r, char **at)
{
    const gale__cpu_contract *c = r->contract;
    const gale__cpu_tape *a = &c->a.narrow.tape, *b = &c->b.narrow.tape;
    gale__cpu_frame_init(&w->zero_a, a, r->buffers, carve(at, gale__cpu_tape_scratch_bytes(a)), a->block, r->aliased);
    gale__cpu_frame_init(&w->zero_b, b, r->buffers, carve(at, gale__cpu_tape_scratch_bytes(b)), b->block, r->aliased);
    w->point_a = (int32_t *)(void *)carve(at, (size_t)c->mc * sizeof(int32_t));
    w->sum_a = (int32_t *)(void *)carve(at, (size_t)c->mc * sizeof(int32_t));
    w->part = (int32_t *)(void *)carve(at, (size_t)c->mc * sizeof(int32_t));
    w->point_b = (int32_t *)(void *)carve(at, (size_t)c->tile_lanes * sizeof(int32_t));
    w->sum_b = (int32_t *)(void *)carve(at, (size_t)c->tile_lanes * sizeof(int32_t));
}

static void open_bench(bench *w, const run *r)
{
    const gale__cpu_contract *c = r->contract;
    w->kind = gale__cpu_contract_scratch(c, GALE__CPU_SCRATCH_PRIVATE);
    char *at = w->piece = gale__cpu_scratch_take(w->kind, c->private_bytes);
    gale__cpu_frame_init(&w->a, &c->a.tape, r->buffers, carve(&at, gale__cpu_tape_scratch_bytes(&c->a.tape)),
        c->a.tape.block, r->aliased);
    gale__cpu_frame_init(&w->b, &c->b.tape, r->buffers, carve(&at, gale__cpu_tape_scratch_bytes(&c->b.tape)),
        c->b.tape.block, r->aliased);
    gale__cpu_frame_init(
        &w->tail, &c->tail, r->buffers, carve(&at, gale__cpu_tape_scratch_bytes(&c->tail)), c->tail.block, r->aliased);
    w->pack_a = carve(&at, (size_t)c->mc * gale__cpu_contract_steps(c, c->kc));
    w->rows = carve(&at, gale__cpu_contract_temp(c));
    w->tile = carve(&at, (size_t)(c->mc * c->tile_lanes) * c->size);
    if (c->narrow) open_points(w, r, &at);
    w->pack_b = at;
}

static void close_bench(const bench *w) { gale__cpu_scratch_give(w->kind, w->piece); }

static void set_batch(bench *w, const gale__cpu_contract *c, int64_t batch)
{
    gale__cpu_frame_seek(&w->a, &c->batch, batch);
    gale__cpu_frame_seek(&w->b, &c->batch, batch);
    gale__cpu_frame_seek(&w->tail, &c->batch, batch);
    if (!c->narrow) return;
    gale__cpu_frame_seek(&w->zero_a, &c->batch, batch);
    gale__cpu_frame_seek(&w->zero_b, &c->batch, batch);
}

enum { LINE = 64, FEW_TILES = 4, TILE_ROWS_MOST = 128, SLIM_STEPS = 512 };

static void fetch(const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE) __builtin_prefetch(from + i);
}

/* tile += a panel set times b panel set, over kn; done: these are the last steps, and the tile goes there.  Panels that
 * were packed once are in slow memory: while one is at work the next is fetched, a share with each of its tiles; with
 * few tiles that is more at once than memory has under way, and the processor's own fetching does better. */
static void multiply(const gale__cpu_contract *c, char *tile, const char *a, const char *b, int64_t rows, int64_t lanes,
    int64_t kn, const gale__simd_done *done)
{
    int64_t mr = c->gemm.mr, nr = c->gemm.nr;
    size_t steps = gale__cpu_contract_steps(c, kn), panel = (size_t)nr * steps,
           share = c->panels.bytes && rows > FEW_TILES * mr ? panel / (size_t)parts(rows, mr) / LINE * LINE + LINE : 0;
    int64_t slim = kn <= SLIM_STEPS && !c->narrow && lanes % nr <= c->gemm.slim ? lanes % nr : 0;
    int32_t offset[SLIM_STEPS + GALE__SIMD_AHEAD];
    for (int64_t k = 0; k < kn + GALE__SIMD_AHEAD && (slim || done); k++) offset[k] = (int32_t)(k * nr);
    gale__simd_gemm_open(&c->gemm);
    for (int64_t j = 0; j < lanes; j += nr) {
        const char *next = b + (size_t)j * steps + panel;
        for (int64_t i = 0; i < rows; i += mr, next += share) {
            const gale__simd_part *part = gale__simd_part_for(&c->gemm, rows - i);
            char *to = tile + (size_t)(i * c->tile_lanes + j) * c->size;
            const char *x = a + (size_t)i * steps, *y = b + (size_t)j * steps;
            fetch(next, share);
            if (done) {
                gale__simd_done d = *done;
                d.rows = least(mr, rows - i);
                d.lanes = least(nr, lanes - j);
                d.ahead = true; /* as tiles do that are not finished */
                d.padded = true;
                gale__cpu_finish_tile(&c->gemm, d, i, j, kn < c->k.count ? to : NULL, c->tile_lanes, x, y, offset, kn);
            } else if (j + slim == lanes) part->slim_at(to, (size_t)c->tile_lanes, x, y, offset, (size_t)kn);
            else part->tile(to, (size_t)c->tile_lanes, x, y, (size_t)gale__cpu_contract_units(c, kn));
        }
    }
    gale__simd_gemm_close(&c->gemm);
}

/* Rows one after the other, blocks across them. */
static void finish_joint(
    const gale__cpu_contract *c, gale__cpu_frame *f, int64_t m0, int64_t rows, int64_t lanes, char *sums, int64_t pitch)
{
    int64_t block = (int64_t)c->tail.block;
    for (int64_t i = 1; i < rows && pitch > lanes; i++)
        memmove(sums + (size_t)(i * lanes) * c->size, sums + (size_t)(i * pitch) * c->size, (size_t)lanes * c->size);
    for (int64_t j = 0; j < rows * lanes; j += block) {
        f->registers[c->sum] = sums + (size_t)j * c->size;
        gale__cpu_frame_set(f, &c->joint, m0 * lanes + j, (size_t)least(block, rows * lanes - j));
        gale__cpu_frame_run(f, c->tail_section);
    }
}

/* Each row by itself; the lanes' coordinates are in n0. */
static void finish_rows(const gale__cpu_contract *c, gale__cpu_frame *f, int64_t m0, int64_t rows, int64_t n0,
    int64_t lanes, const char *sums, int64_t pitch)
{
    for (int i = 0; i < c->b.rows.n; i++) f->at[c->b.rows.dim[i]] = 0;
    for (int64_t i = 0; i < rows; i++) {
        const void *row = sums + (size_t)(i * pitch) * c->size;
        gale__cpu_frame_seek(f, &c->a.rows, m0 + i);
        if (c->finish.out)
            gale__cpu_finish_run(
                &c->finish, f->tape->simd, f->buffers, f->at, f->tape->n_dims, &c->b.rows, n0, lanes, row);
        else
            gale__cpu_requant_run(
                &c->requant, f->tape->simd, f->buffers, f->at, f->tape->n_dims, &c->b.rows, n0, lanes, row, 0, false);
    }
}

/* The same of a tile whose rows are the result's lanes: a few at a time are turned. */
static void finish_transposed(const gale__cpu_contract *c, gale__cpu_frame *f, int64_t m0, int64_t rows, int64_t n0,
    int64_t lanes, const float *sums, int64_t pitch)
{
    enum { SOME = 16 };
    float turned[SOME * TILE_ROWS_MOST];
    for (int i = 0; i < c->a.rows.n; i++) f->at[c->a.rows.dim[i]] = 0;
    for (int64_t j = 0; j < lanes; j += SOME) {
        int64_t n = least(SOME, lanes - j);
        f->tape->simd->interleave[0](turned, sums + j, (size_t)pitch, (size_t)rows, (size_t)rows, (size_t)n);
        for (int64_t i = 0; i < n; i++) {
            gale__cpu_frame_seek(f, &c->b.rows, n0 + j + i);
            gale__cpu_finish_run(
                &c->finish, f->tape->simd, f->buffers, f->at, f->tape->n_dims, &c->a.rows, m0, rows, turned + i * rows);
        }
    }
}

void gale__cpu_contract_tail(const gale__cpu_contract *c, gale__cpu_frame *f, int64_t m0, int64_t rows, int64_t n0,
    int64_t lanes, char *sums, int64_t pitch)
{
    if (c->transposed && !f->aliased) {
        finish_transposed(c, f, m0, rows, n0, lanes, (const float *)(const void *)sums, pitch);
        return;
    }
    if (c->requant.out || (c->finish.out && (!c->finish.also || c->shares) && !c->transposed && !f->aliased)) {
        finish_rows(c, f, m0, rows, n0, lanes, sums, pitch);
        return;
    }
    if (lanes * c->a.rows.count == c->joint.count) {
        finish_joint(c, f, m0, rows, lanes, sums, pitch);
        return;
    }
    for (int64_t i = 0; i < rows; i++) {
        gale__cpu_frame_seek(f, &c->a.rows, m0 + i);
        for (int64_t j = 0; j < lanes; j += (int64_t)c->tail.block) {
            f->registers[c->sum] = sums + (size_t)(i * pitch + j) * c->size;
            gale__cpu_frame_set(f, &c->b.rows, n0 + j, (size_t)least((int64_t)c->tail.block, lanes - j));
            gale__cpu_frame_run(f, c->tail_section);
        }
    }
}

/* Shared panels of b: those of kc steps from k0 on begin at k0 * padded lanes. */
static int64_t padded_lanes(const run *r) { return parts(r->lane_count, r->contract->gemm.nr) * r->contract->gemm.nr; }

static char *packed_at(const run *r, int64_t k0, int64_t kn, int64_t lane)
{
    const gale__cpu_contract *c = r->contract;
    return r->packed + (size_t)padded_lanes(r) * gale__cpu_contract_steps(c, k0) +
           (size_t)lane * gale__cpu_contract_steps(c, kn);
}

/* Panels of b that one task packs: as many as a block of lanes, unless that leaves threads idle. */
static int64_t task_lanes(const run *r)
{
    const gale__cpu_contract *c = r->contract;
    int64_t nr = c->gemm.nr, panels = (int64_t)c->b.tape.block / nr, steps = parts(c->k.count, c->kc),
            width = gale__parallel_now();
    if (panels < 1) panels = 1;
    while (panels > 1 && parts(r->lane_count, panels * nr) * steps < (panels > 4 ? 4 : 1) * width) panels /= 2;
    return panels * nr;
}

/* Task: some panels of b, one kc. */
static void pack_task(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_contract *c = r->contract;
    int64_t steps = parts(c->k.count, c->kc), k0 = (int64_t)i % steps * c->kc, kn = least(c->kc, c->k.count - k0);
    int64_t most = task_lanes(r), lane = (int64_t)i / steps * most, lanes = least(most, r->lane_count - lane);
    bench w;
    (void)worker;
    open_bench(&w, r);
    set_batch(&w, c, r->batch);
    int32_t *sums = gale__cpu_contract_sums(c, &c->b, r->packed, padded_lanes(r), k0);
    gale__cpu_contract_pack(c, &c->b, &w.b, r->lane_first + lane, lanes, k0, kn, w.rows, packed_at(r, k0, kn, lane),
        sums ? sums + lane : NULL);
    close_bench(&w);
}

/* total[i] = the sums of n rows over all of k, from panels made before. */
static void total_sums(const gale__cpu_contract *c, const gale__cpu_operand *o, const char *panels, int64_t padded,
    int64_t first, int64_t n, int32_t *total)
{
    for (int64_t k = 0; k < c->k.count; k += c->kc) {
        const int32_t *sums = gale__cpu_contract_sums(c, o, panels, padded, k) + first;
        for (int64_t i = 0; i < n; i++) total[i] = (k ? total[i] : 0) + sums[i];
    }
}

/* All that zero points take away is one number for each row, known before. */
static bool starts_with_sums(const run *r)
{
    const gale__cpu_contract *c = r->contract;
    return c->narrow && c->a.sums && !c->b.sums && c->b.narrow.known && r->rows;
}

static void start_with_sums(const run *r, const bench *w, int64_t m0, int64_t rows, int64_t all)
{
    const gale__cpu_contract *c = r->contract;
    total_sums(c, &c->a, r->rows, gale__cpu_contract_padded_rows(c), m0, rows, w->sum_a);
    for (int64_t i = 0; i < all; i++) {
        int32_t *tile = (int32_t *)(void *)w->tile + i * c->tile_lanes,
                start = i < rows ? (int32_t)(0 - (uint32_t)c->b.narrow.point * (uint32_t)w->sum_a[i]) : 0;
        for (int64_t j = 0; j < c->tile_lanes; j++) tile[j] = start;
    }
}

/* What zero points take away from the products of a narrow tile, as far as it is known before its rows are packed. */
static void start_tile(const run *r, bench *w, int64_t m0, int64_t rows, int64_t lane, int64_t lanes)
{
    const gale__cpu_contract *c = r->contract;
    int64_t all = parts(rows, c->gemm.mr) * c->gemm.mr;
    if (starts_with_sums(r)) {
        start_with_sums(r, w, m0, rows, all);
        return;
    }
    if (c->shares) return;
    if (!c->narrow || !c->b.sums) memset(w->tile, 0, (size_t)(all * c->tile_lanes) * c->size);
    if (!c->narrow) return;
    gale__cpu_narrow_points(&c->a.narrow, &w->zero_a, &c->a.rows, m0, rows, w->point_a);
    gale__cpu_narrow_points(&c->b.narrow, &w->zero_b, &c->b.rows, r->lane_first + lane, lanes, w->point_b);
    if (c->a.sums) memset(w->sum_a, 0, (size_t)c->mc * sizeof *w->sum_a);
    if (c->a.sums && r->rows) total_sums(c, &c->a, r->rows, gale__cpu_contract_padded_rows(c), m0, rows, w->sum_a);
    if (!c->b.sums) return;
    total_sums(c, &c->b, r->packed, padded_lanes(r), lane, lanes, w->sum_b);
    for (int64_t i = 0; i < all; i++) {
        int32_t *tile = (int32_t *)(void *)w->tile + i * c->tile_lanes;
        uint32_t point = i < rows ? (uint32_t)w->point_a[i] : 0;
        for (int64_t j = 0; j < lanes; j++) tile[j] = (int32_t)(0 - point * (uint32_t)w->sum_b[j]);
        memset(tile + lanes, 0, (size_t)(c->tile_lanes - lanes) * sizeof *tile);
    }
}

static void pack_tile_rows(const run *r, bench *w, int64_t m0, int64_t rows, int64_t k, int64_t kn)
{
    const gale__cpu_contract *c = r->contract;
    gale__cpu_contract_pack(c, &c->a, &w->a, m0, rows, k, kn, w->rows, w->pack_a, c->a.sums ? w->part : NULL);
    for (int64_t i = 0; c->a.sums && i < rows; i++) w->sum_a[i] += w->part[i];
}

/* The rest of it: the sums of the rows by the zero points of the lanes. */
static void take_row_sums(const gale__cpu_contract *c, const bench *w, int64_t rows, int64_t lanes)
{
    for (int64_t i = 0; i < rows; i++) {
        int32_t *tile = (int32_t *)(void *)w->tile + i * c->tile_lanes;
        uint32_t by = (uint32_t)c->k.count * (uint32_t)w->point_a[i] - (uint32_t)w->sum_a[i];
        for (int64_t j = 0; j < lanes; j++) tile[j] = (int32_t)((uint32_t)tile[j] + by * (uint32_t)w->point_b[j]);
    }
}

/* Whether tiles go to their places in memory with their last steps; done: those from m0 and n0 on. */
static bool open_done(const run *r, const bench *w, int64_t m0, int64_t n0, gale__simd_done *done)
{
    const gale__cpu_contract *c = r->contract;
    if (!c->gemm.part[0].done_at[0] || c->transposed || r->aliased || c->kc > SLIM_STEPS ||
        !gale__cpu_finish_open(&c->finish, &c->a.rows, &c->b.rows, r->buffers, w->tail.at, c->tail.n_dims, done))
        return false;
    gale__cpu_finish_advance(done, m0, n0);
    return true;
}

static bool is_finite(const gale__cpu_contract *c, const char *tile, int64_t rows, int64_t lanes)
{
    return c->tail.simd->shares.is_finite(
        (const float *)(const void *)tile, (size_t)c->tile_lanes, (size_t)rows, (size_t)lanes);
}

static void tile_task(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_contract *c = r->contract;
    /* Panels made before are many: those of one tile serve all rows while they are near. */
    int64_t across = r->panels ? parts(c->a.rows.count, c->mc) : parts(r->lane_count, c->tile_lanes),
            slow = (int64_t)i / across, fast = (int64_t)i % across;
    int64_t m0 = (r->panels ? fast : slow) * c->mc, lane = (r->panels ? slow : fast) * c->tile_lanes;
    int64_t rows = least(c->mc, c->a.rows.count - m0), lanes = least(c->tile_lanes, r->lane_count - lane);
    bench w;
    (void)worker;
    open_bench(&w, r);
    set_batch(&w, c, r->batch);
    gale__simd_done done, *at_once = open_done(r, &w, m0, r->lane_first + lane, &done) ? &done : NULL;
    gale__cpu_row_view in_place = {0};
    bool reads = at_once && !r->rows && gale__cpu_contract_open_rows(c, &w.a, m0, rows, lanes, &in_place);
    if (!at_once || (c->kc < c->k.count && !reads)) start_tile(r, &w, m0, rows, lane, lanes);
    bool plain = false;
    for (int64_t k = 0; k < c->k.count; k += c->kc) {
        int64_t kn = least(c->kc, c->k.count - k);
        const char *a = w.pack_a;
        if (reads) {
            gale__cpu_contract_run_rows(c, &in_place, w.tile, packed_at(r, k, kn, lane), rows, lanes, k, kn, at_once);
            continue;
        }
        if (r->rows)
            a = r->rows + (size_t)gale__cpu_contract_padded_rows(c) * gale__cpu_contract_steps(c, k) +
                (size_t)m0 * gale__cpu_contract_steps(c, kn);
        else pack_tile_rows(r, &w, m0, rows, k, kn);
        if (c->shares) {
            const char *b = packed_at(r, k, kn, lane);
            gale__cpu_shares_multiply(c, w.tile, a, b, rows, lanes, kn, !k, plain);
            if (k + kn < c->k.count || plain || is_finite(c, w.tile, rows, lanes)) continue;
            memset(w.tile, 0, (size_t)(parts(rows, c->gemm.mr) * c->gemm.mr * c->tile_lanes) * c->size);
            plain = true;
            k = -c->kc;
            continue;
        }
        multiply(c, w.tile, a, packed_at(r, k, kn, lane), rows, lanes, kn, k + kn == c->k.count ? at_once : NULL);
    }
    if (at_once) gale__cpu_finish_activate(&c->finish, at_once, 0, rows, 0, lanes);
    if (c->a.sums && !starts_with_sums(r)) take_row_sums(c, &w, rows, lanes);
    if (!at_once) gale__cpu_contract_tail(c, &w.tail, m0, rows, r->lane_first + lane, lanes, w.tile, c->tile_lanes);
    close_bench(&w);
}

int64_t gale__cpu_contract_padded_rows(const gale__cpu_contract *c)
{
    return parts(c->a.rows.count, c->gemm.mr) * c->gemm.mr;
}

size_t gale__cpu_contract_rows_at(const gale__cpu_contract *c, int64_t batch)
{
    size_t one = gale__cpu_contract_panel_bytes(c, &c->a, gale__cpu_contract_padded_rows(c));
    return c->a_panels.bytes > one ? (size_t)batch * one : 0;
}

/* Task: one panel of rows, one kc. */
static void pack_rows_task(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_contract *c = r->contract;
    int64_t steps = parts(c->k.count, c->kc), k0 = (int64_t)i % steps * c->kc, kn = least(c->kc, c->k.count - k0),
            mr = c->gemm.mr, m0 = (int64_t)i / steps * mr, rows = least(mr, c->a.rows.count - m0);
    bench w;
    (void)worker;
    open_bench(&w, r);
    set_batch(&w, c, r->batch);
    int64_t padded = gale__cpu_contract_padded_rows(c);
    int32_t *sums = gale__cpu_contract_sums(c, &c->a, r->packed, padded, k0);
    gale__cpu_contract_pack(c, &c->a, &w.a, m0, rows, k0, kn, w.rows,
        r->packed + (size_t)padded * gale__cpu_contract_steps(c, k0) + (size_t)m0 * gale__cpu_contract_steps(c, kn),
        sums ? sums + m0 : NULL);
    close_bench(&w);
}

void gale__cpu_contract_pack_rows(
    const gale__cpu_contract *c, void *const *buffers, bool aliased, int64_t batch, char *to)
{
    run r = {.contract = c, .buffers = buffers, .aliased = aliased, .batch = batch, .packed = to};
    gale__parallel((size_t)(parts(c->a.rows.count, c->gemm.mr) * parts(c->k.count, c->kc)), pack_rows_task, &r);
}

static void pack_lanes(run *r)
{
    gale__parallel(
        (size_t)(parts(r->lane_count, task_lanes(r)) * parts(r->contract->k.count, r->contract->kc)), pack_task, r);
}

static void run_batch(run *r)
{
    const gale__cpu_contract *c = r->contract;
    if (c->a_panels.bytes)
        r->rows = (const char *)r->buffers[c->a_panels.buffer] + gale__cpu_contract_rows_at(c, r->batch);
    void *piece = gale__cpu_scratch_take(gale__cpu_contract_scratch(c, GALE__CPU_SCRATCH_SHARED), c->shared_bytes);
    r->packed = r->panels ? r->panels : piece;
    if (r->panels && piece) gale__cpu_contract_pack_rows(c, r->buffers, r->aliased, r->batch, piece), r->rows = piece;
    for (r->lane_first = 0; r->lane_first < c->b.rows.count; r->lane_first += c->packed_lanes) {
        r->lane_count = least(c->packed_lanes, c->b.rows.count - r->lane_first);
        if (!r->panels) pack_lanes(r);
        gale__parallel_kernel(
            (size_t)(parts(c->a.rows.count, c->mc) * parts(r->lane_count, c->tile_lanes)), tile_task, r);
    }
    gale__cpu_scratch_give(gale__cpu_contract_scratch(c, GALE__CPU_SCRATCH_SHARED), piece);
}

void gale__cpu_contract_make_panels(const gale__cpu_contract *c, void *from, void *to)
{
    if (c->winograd.weights) {
        gale__cpu_winograd_make(c, from, to);
        return;
    }
    void *buffers[GALE__CPU_PANELS_BUFFERS];
    run r = {.contract = c, .buffers = buffers, .packed = to, .lane_count = c->b.rows.count};
    for (int i = 0; i < c->nest->n_buffers; i++) buffers[i] = from; /* the others are not read */
    if (c->panels.bytes) {
        pack_lanes(&r);
        return;
    }
    size_t one = gale__cpu_contract_panel_bytes(c, &c->a, gale__cpu_contract_padded_rows(c));
    for (int64_t batch = 0; (size_t)batch * one < c->a_panels.bytes; batch++)
        gale__cpu_contract_pack_rows(c, buffers, false, batch, (char *)to + (size_t)batch * one);
}

static void batch_task(void *arg, size_t i, int worker)
{
    run r = *(const run *)arg;
    (void)worker;
    r.batch = (int64_t)i;
    run_batch(&r);
}

/* Sums of one group of one tile, in the shared area. */
static char *part_at(const run *r, int64_t g, int64_t batch, int64_t tile)
{
    const gale__cpu_contract *c = r->contract;
    return r->packed +
           (size_t)(((g * c->batch.count + batch) * r->rows_tiles * r->lane_tiles + tile) * c->mc * c->tile_lanes) *
               c->size;
}

static void group_task(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_contract *c = r->contract;
    int64_t g = (int64_t)i % c->groups, rest = (int64_t)i / c->groups, tiles = r->rows_tiles * r->lane_tiles,
            tile = rest % tiles, batch = rest / tiles;
    int64_t m0 = tile / r->lane_tiles * c->mc, n0 = tile % r->lane_tiles * c->tile_lanes;
    int64_t rows = least(c->mc, c->a.rows.count - m0), lanes = least(c->tile_lanes, c->b.rows.count - n0);
    int64_t end = least((g + 1) * c->group_len, c->k.count);
    char *sums = part_at(r, g, batch, tile);
    bench w;
    (void)worker;
    open_bench(&w, r);
    set_batch(&w, c, batch);
    memset(sums, 0, (size_t)(c->mc * c->tile_lanes) * c->size);
    for (int64_t k = g * c->group_len; k < end; k += c->kc) {
        int64_t kn = least(c->kc, end - k);
        gale__cpu_contract_pack(c, &c->a, &w.a, m0, rows, k, kn, w.rows, w.pack_a, NULL);
        gale__cpu_contract_pack(c, &c->b, &w.b, n0, lanes, k, kn, w.rows, w.pack_b, NULL);
        multiply(c, sums, w.pack_a, w.pack_b, rows, lanes, kn, NULL);
    }
    close_bench(&w);
}

static void join_task(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_contract *c = r->contract;
    int64_t tiles = r->rows_tiles * r->lane_tiles, tile = (int64_t)i % tiles, batch = (int64_t)i / tiles;
    int64_t m0 = tile / r->lane_tiles * c->mc, n0 = tile % r->lane_tiles * c->tile_lanes,
            rows = least(c->mc, c->a.rows.count - m0);
    char *sums = part_at(r, 0, batch, tile);
    bench w;
    (void)worker;
    open_bench(&w, r);
    set_batch(&w, c, batch);
    for (int64_t g = 1; g < c->groups; g++)
        c->tail.simd->op[GALE__ADD][c->sum_type](
            sums, sums, part_at(r, g, batch, tile), NULL, (size_t)(rows * c->tile_lanes));
    gale__cpu_contract_tail(c, &w.tail, m0, rows, n0, least(c->tile_lanes, c->b.rows.count - n0), sums, c->tile_lanes);
    close_bench(&w);
}

static void run_products(const gale__cpu_contract *c, void *const *buffers, bool aliased)
{
    run r = {.contract = c,
        .buffers = buffers,
        .aliased = aliased,
        .panels = c->panels.bytes ? buffers[c->panels.buffer] : NULL,
        .rows_tiles = parts(c->a.rows.count, c->mc),
        .lane_tiles = parts(c->b.rows.count, c->tile_lanes)};
    size_t tiles = (size_t)(r.rows_tiles * r.lane_tiles * c->batch.count);
    if (c->groups > 1) {
        r.packed = gale__cpu_scratch_take(gale__cpu_contract_scratch(c, GALE__CPU_SCRATCH_SHARED), c->shared_bytes);
        gale__parallel_kernel(tiles * (size_t)c->groups, group_task, &r);
        gale__parallel_kernel(tiles, join_task, &r);
        gale__cpu_scratch_give(gale__cpu_contract_scratch(c, GALE__CPU_SCRATCH_SHARED), r.packed);
    } else if (c->by_batch) {
        gale__parallel_kernel((size_t)c->batch.count, batch_task, &r);
    } else {
        for (r.batch = 0; r.batch < c->batch.count; r.batch++) run_batch(&r);
    }
}

void gale__cpu_contract_run(const gale__cpu_contract *c, void *const *buffers, bool aliased)
{
    if (c->channel.weights) gale__cpu_channel_run(c, buffers, aliased);
    else if (c->bands.blocks) gale__cpu_bands_run(c, buffers, aliased);
    else if (c->winograd.weights) gale__cpu_winograd_run(c, buffers, aliased);
    else if (c->window.access) gale__cpu_window_run(c, buffers, aliased);
    else run_products(c, buffers, aliased);
}
