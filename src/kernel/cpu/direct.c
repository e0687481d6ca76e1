/* See direct.h.  Outer points are taken in blocks that are within one row of the fastest outer dimension, or are whole
 * rows of it.  When there are few of them and the inner loop is long, that loop is split into groups whose partial
 * results are combined in order; the split depends on the shape alone, so results do not depend on the number of
 * threads. */
#include "kernel/cpu/direct.h"
#include "base/thread.h"
#include "kernel/cpu/divide.h"
#include "kernel/cpu/scratch.h"
#include <string.h>

#define TASK_STEPS 16384   /* least work of one task, in points of the domain times steps: what a loop costs */
#define GROUP_POINTS 32768 /* least work of one group, in points */
#define TASKS_EACH 32      /* most tasks of one thread, for balance */
#define FLUSH_ROW 64       /* iterations between the two levels of a sum */
#define FLUSH_COLUMN 256
#define GROUPS_MOST 64
#define TURN_ROWS 32 /* of 4-byte elements: two cache lines */

static bool walks_outer(const gale__nest *nest, const gale__nest_access *a)
{
    for (int d = 0; d < nest->n_outer; d++)
        if (a->stride[d] && nest->extent[d] > 1) return true;
    return false;
}

/* How many of the inner loads walk this dimension element by element, less those that jump.  Those that every outer
 * point repeats, such as a norm's weights, stay in the first cache either way. */
static int contiguity(const gale__nest *nest, int dim)
{
    int score = 0;
    for (int i = 0; i < nest->n_code; i++) {
        const gale__nest_instr *in = &nest->code[i];
        if (!in->inner || in->op != GALE__NEST_LOAD || !walks_outer(nest, &nest->accesses[in->access])) continue;
        int64_t s = nest->accesses[in->access].stride[dim];
        score += s == 1 ? 1 : s == 0 ? 0 : -1;
    }
    return score;
}

static bool has_indexed_store(const gale__nest *nest)
{
    for (int s = 0; s < nest->n_stores; s++)
        if (nest->stores[s].index >= 0) return true;
    return false;
}

static bool choose_inner_lanes(const gale__nest *nest, int64_t outer, int64_t inner)
{
    if (!nest->n_inner) return false;
    if (has_indexed_store(nest)) return true; /* the order of points must be kept */
    if (outer < 16) return inner > outer;
    if (inner < 16) return false;
    return contiguity(nest, nest->n_outer + nest->n_inner - 1) >=
           (nest->n_outer ? contiguity(nest, nest->n_outer - 1) : 0);
}

/* Two points of [from, to) may write to one place. */
static bool stores_meet(const gale__nest *nest, int from, int to)
{
    for (int s = 0; s < nest->n_stores; s++) {
        const gale__nest_access *a = &nest->accesses[nest->stores[s].access];
        if (nest->stores[s].index >= 0) return true;
        bool inner = nest->code[nest->stores[s].value].inner;
        for (int d = from; d < to; d++) {
            bool walks = a->stride[d] != 0;
            for (int g = 0; g < a->n_guards; g++) walks |= a->guards[g].div > 1 && a->guards[g].coef[d] != 0;
            if (!walks && nest->extent[d] > 1 && (inner || d < nest->n_outer)) return true;
        }
    }
    return false;
}

/* The dimension along which a load is side by side while it jumps along the fastest one: a transposition. */
static int find_turn(const gale__nest *nest)
{
    int last = nest->n_outer - 1;
    for (int i = 0; i < nest->n_code && last > 0 && !nest->n_inner; i++) {
        if (nest->code[i].op != GALE__NEST_LOAD) continue;
        const gale__nest_access *a = &nest->accesses[nest->code[i].access];
        if (a->stride[last] < 4 && a->stride[last] > -4) continue;
        for (int d = last - 1; d >= 0; d--)
            if (a->stride[d] == 1 && nest->extent[d] >= 4 && nest->extent[last] >= 4) return d;
    }
    return -1;
}

/* Rectangles of the transposed and the fastest dimension. */
static void choose_rectangles(gale__cpu_direct *d)
{
    const gale__nest *nest = d->plan.nest;
    uint8_t dims[GALE__NEST_DIMS];
    int n = 0, last = nest->n_outer - 1;
    for (int i = 0; i < last; i++)
        if (i != d->turn_dim) dims[n++] = (uint8_t)i;
    gale__cpu_span_init(&d->others, nest, dims, n);
    d->turn_rows = nest->extent[d->turn_dim] < TURN_ROWS ? nest->extent[d->turn_dim] : TURN_ROWS;
    d->lanes = (int64_t)d->plan.tape.block / d->turn_rows;
    if (d->lanes > nest->extent[last]) d->lanes = nest->extent[last];
    d->blocks = d->others.count * parts(nest->extent[d->turn_dim], d->turn_rows) * parts(nest->extent[last], d->lanes);
}

static void choose_blocks(gale__cpu_direct *d)
{
    const gale__cpu_span *o = &d->plan.outer;
    int64_t block = (int64_t)d->plan.tape.block, row = o->n ? o->extent[o->n - 1] : 1;
    d->turn_dim = d->serial ? -1 : find_turn(d->plan.nest);
    if (d->turn_dim >= 0) {
        choose_rectangles(d);
    } else if (d->plan.inner_lanes) {
        d->lanes = d->plan.short_rows ? block / d->plan.inner.count : 1;
        d->blocks = parts(o->count, d->lanes);
    } else if (row * 2 > block) {
        d->row_blocks = parts(row, block);
        d->lanes = parts(row, d->row_blocks);
        if (d->row_blocks > 1) d->lanes = parts(d->lanes, 16) * 16;
        d->row_blocks = parts(row, d->lanes);
        d->blocks = o->count / row * d->row_blocks;
    } else {
        d->lanes = block / row * row;
        d->blocks = parts(o->count, d->lanes);
    }
    if (d->plan.row) d->plan.tape.rows_most = (size_t)parts(d->lanes, d->plan.row);
}

/* Not for values stored channels-last, where the outer points of a batch share lanes: items would be summed in another
 * order than one alone. */
static void choose_groups(gale__cpu_direct *d, const gale__nest *nest)
{
    int64_t inner = d->plan.inner.count, step = d->plan.inner_step;
    d->groups = 1;
    d->group_len = inner;
    if (d->serial || nest->last || d->blocks >= 16 || inner * d->lanes < 2 * GROUP_POINTS ||
        stores_meet(nest, nest->n_outer, nest->n_outer + nest->n_inner))
        return;
    int64_t most = GROUPS_MOST / d->blocks, by_work = inner * d->lanes / GROUP_POINTS;
    int64_t wanted = most < by_work ? most : by_work;
    if (wanted < 2) return;
    d->group_len = ((inner + wanted - 1) / wanted + step - 1) / step * step;
    d->groups = (inner + d->group_len - 1) / d->group_len;
}

gale_status gale__cpu_direct_init(gale__cpu_direct *d, const gale__nest *nest)
{
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < nest->n_outer; i++) outer *= nest->extent[i];
    for (int i = nest->n_outer; i < nest->n_outer + nest->n_inner; i++) inner *= nest->extent[i];
    *d = (gale__cpu_direct){.serial = stores_meet(nest, 0, nest->n_outer)};
    bool inner_lanes = choose_inner_lanes(nest, outer, inner),
         by_row = !d->serial && !nest->n_inner && find_turn(nest) < 0;
    GALE_TRY(gale__cpu_plan_init(&d->plan, nest, inner_lanes, true, by_row));
    choose_blocks(d);
    choose_groups(d, nest);
    if (d->groups > 1 && d->plan.tape.n_cached) { /* a row is no longer in one hand */
        gale__cpu_plan_finish(&d->plan);
        GALE_TRY(gale__cpu_plan_init(&d->plan, nest, inner_lanes, false, false));
        choose_blocks(d);
        choose_groups(d, nest);
    }
    d->scratch_bytes = gale__cpu_tape_scratch_bytes(&d->plan.tape);
    if (d->groups > 1) d->parts_bytes = (size_t)(d->plan.n_reduces * d->blocks * d->groups * d->lanes) * 16;
    return GALE_OK;
}

void gale__cpu_direct_finish(gale__cpu_direct *d) { gale__cpu_plan_finish(&d->plan); }

typedef struct run {
    const gale__cpu_direct *direct;
    void *const *buffers;
    char *parts;
    int64_t per_task;
    int phase; /* split runs: the phase at hand; n_phases: the last pass, which stores outer values */
    bool aliased;
} run;

static const gale__cpu_span no_span = {.count = 1};

/* First outer point and number of points of a block. */
static void block_range(const gale__cpu_direct *d, int64_t block, int64_t *start, int64_t *n)
{
    const gale__cpu_span *o = &d->plan.outer;
    if (d->row_blocks) {
        int64_t row = !o->n ? 1 : o->extent[o->n - 1];
        int64_t r = block / d->row_blocks, at = (block - r * d->row_blocks) * d->lanes;
        *start = r * row + at;
        *n = row - at < d->lanes ? row - at : d->lanes;
    } else {
        *start = block * d->lanes;
        *n = o->count - *start < d->lanes ? o->count - *start : d->lanes;
    }
}

/* The body of a phase over all inner points of n outer points. */
static void run_short(
    gale__cpu_frame *f, const gale__cpu_direct *d, const gale__cpu_phase *ph, int64_t start, int64_t n)
{
    int64_t row = d->plan.inner.count;
    gale__cpu_frame_set(f, &d->plan.all, start * row, (size_t)(n * row));
    f->rows = (size_t)n;
    f->place = 0;
    f->cache_at = 0;
    gale__cpu_frame_run(f, ph->enter);
    gale__cpu_frame_run(f, ph->body);
    gale__cpu_frame_set(f, &d->plan.outer, start, (size_t)n);
    gale__cpu_frame_run(f, ph->flush);
}

/* The body of a phase over inner points [from, to) of one outer point. */
static void run_rows(gale__cpu_frame *f, const gale__cpu_direct *d, const gale__cpu_phase *ph, int64_t from, int64_t to)
{
    int64_t step = d->plan.inner_step, done = 0;
    gale__cpu_frame_set(f, &no_span, 0, (size_t)(to - from < step ? to - from : step));
    gale__cpu_frame_run(f, ph->enter);
    for (int64_t k = from; k < to; k += step) {
        gale__cpu_frame_set(f, &d->plan.inner, k, (size_t)(to - k < step ? to - k : step));
        f->place = k;
        f->cache_at = (size_t)k;
        gale__cpu_frame_run(f, ph->body);
        if (++done % FLUSH_ROW && k + step < to) continue;
        gale__cpu_frame_set(f, &no_span, 0, 1);
        gale__cpu_frame_run(f, ph->flush);
    }
    gale__cpu_frame_set(f, &no_span, 0, 1);
}

static void run_columns(
    gale__cpu_frame *f, const gale__cpu_direct *d, const gale__cpu_phase *ph, int64_t from, int64_t to)
{
    const gale__cpu_span *in = &d->plan.inner;
    gale__cpu_frame_seek(f, in, from);
    for (int64_t k = from; k < to; k++) {
        f->place = k;
        f->cache_at = (size_t)k * d->plan.tape.block;
        gale__cpu_frame_run(f, ph->body);
        if ((k - from) % FLUSH_COLUMN == FLUSH_COLUMN - 1 || k + 1 == to) gale__cpu_frame_run(f, ph->flush);
        for (int j = in->n - 1; j >= 0; j--) {
            if (++f->at[in->dim[j]] < in->extent[j]) break;
            f->at[in->dim[j]] = 0;
        }
    }
}

/* [start, start + n): the block's outer points, to which the frame is set. */
static void run_body(gale__cpu_frame *f, const gale__cpu_direct *d, const gale__cpu_phase *ph, int64_t start, int64_t n,
    int64_t from, int64_t to)
{
    if (!ph->loops) return;
    gale__cpu_frame_run(f, ph->init);
    if (d->plan.short_rows) run_short(f, d, ph, start, n);
    else if (d->plan.inner_lanes) run_rows(f, d, ph, from, to);
    else run_columns(f, d, ph, from, to);
}

/* Sets the frame to rectangle `block`; the span lives as long as the block. */
static void set_rectangle(gale__cpu_frame *f, const gale__cpu_direct *d, int64_t block, gale__cpu_span *span)
{
    const gale__nest *nest = d->plan.nest;
    int last = nest->n_outer - 1;
    int64_t rows = nest->extent[d->turn_dim], row = nest->extent[last], across = parts(row, d->lanes),
            down = parts(rows, d->turn_rows);
    int64_t j = block % across * d->lanes, i = block / across % down * d->turn_rows;
    *span = (gale__cpu_span){.n = 2, .dim = {(uint8_t)d->turn_dim, (uint8_t)last}, .base = {i, j}};
    span->extent[0] = rows - i < d->turn_rows ? rows - i : d->turn_rows;
    span->extent[1] = row - j < d->lanes ? row - j : d->lanes;
    span->count = span->extent[0] * span->extent[1];
    gale__cpu_frame_seek(f, &d->others, block / across / down);
    gale__cpu_frame_set(f, span, 0, (size_t)span->count);
}

static void set_block(gale__cpu_frame *f, const gale__cpu_direct *d, int64_t start, int64_t n)
{
    const gale__cpu_plan *p = &d->plan;
    size_t rows = p->row ? (size_t)parts(n, p->row) : 1;
    if (p->row) {
        gale__cpu_frame_set(f, &p->row_span, start / p->row, rows);
        gale__cpu_frame_run(f, p->rows);
    }
    gale__cpu_frame_set(f, &p->outer, start, (size_t)n);
    f->rows = rows;
}

static void run_blocks(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_direct *d = r->direct;
    int64_t first = (int64_t)i * r->per_task, end = first + r->per_task < d->blocks ? first + r->per_task : d->blocks;
    void *scratch = gale__cpu_scratch_take(GALE__CPU_SCRATCH_PRIVATE, d->scratch_bytes);
    gale__cpu_frame f;
    (void)worker;
    gale__cpu_frame_init(&f, &d->plan.tape, r->buffers, scratch,
        d->plan.inner_lanes || d->turn_dim >= 0 ? d->plan.tape.block : (size_t)d->lanes, r->aliased);
    for (int64_t b = first; b < end; b++) {
        int64_t start = 0, n = 0;
        gale__cpu_span span;
        if (d->turn_dim >= 0) {
            set_rectangle(&f, d, b, &span);
        } else {
            block_range(d, b, &start, &n);
            set_block(&f, d, start, n);
        }
        for (int p = 0; p < d->plan.n_phases; p++) {
            gale__cpu_frame_run(&f, d->plan.phases[p].outer);
            gale__cpu_frame_run(&f, d->plan.phases[p].put);
            run_body(&f, d, &d->plan.phases[p], start, n, 0, d->plan.inner.count);
        }
    }
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_PRIVATE, scratch);
}

/* Where group g of a block keeps what reduction k has come to: the value's lanes, then the place's. */
static char *part_of(const run *r, int k, int64_t block, int64_t g)
{
    return r->parts + (size_t)(((k * r->direct->blocks + block) * r->direct->groups + g) * r->direct->lanes) * 16;
}

static void save_parts(const run *r, gale__cpu_frame *f, int64_t block, int64_t g)
{
    for (int k = 0; k < r->direct->plan.n_reduces; k++) {
        const gale__cpu_plan_reduce *rd = &r->direct->plan.reduces[k];
        if (rd->phase != r->phase) continue;
        char *part = part_of(r, k, block, g);
        memcpy(part, f->registers[rd->total], f->lanes * (size_t)gale__simd_type_size(rd->type));
        if (rd->index >= 0) memcpy(part + r->direct->lanes * 8, f->registers[rd->index], f->lanes * 8);
    }
}

static void combine_parts(const run *r, gale__cpu_frame *f, int64_t block, int phase)
{
    static const int ops[4] = {GALE__ADD, GALE__MUL, GALE__MAX, GALE__MIN};
    const gale__simd *simd = f->tape->simd;
    for (int k = 0; k < r->direct->plan.n_reduces; k++) {
        const gale__cpu_plan_reduce *rd = &r->direct->plan.reduces[k];
        if (rd->phase != phase) continue;
        void *total = f->registers[rd->total], *index = rd->index >= 0 ? f->registers[rd->index] : NULL;
        memcpy(total, part_of(r, k, block, 0), f->lanes * (size_t)gale__simd_type_size(rd->type));
        if (index) memcpy(index, part_of(r, k, block, 0) + r->direct->lanes * 8, f->lanes * 8);
        for (int64_t g = 1; g < r->direct->groups; g++) {
            char *part = part_of(r, k, block, g);
            if (index)
                simd->arg[rd->kind - GALE__ARGMAX][rd->type](
                    total, index, part, (const int64_t *)(void *)(part + r->direct->lanes * 8), 0, f->lanes);
            else simd->op[ops[rd->kind]][rd->type](total, total, part, NULL, f->lanes);
        }
    }
}

/* One group of one block in one phase: everything outer up to here is cheap and done again. */
static void run_group(void *arg, size_t i, int worker)
{
    const run *r = arg;
    const gale__cpu_direct *d = r->direct;
    int64_t groups = r->phase < d->plan.n_phases ? d->groups : 1, block = (int64_t)i / groups, g = (int64_t)i % groups;
    bool last = r->phase == d->plan.n_phases;
    void *scratch = gale__cpu_scratch_take(GALE__CPU_SCRATCH_PRIVATE, d->scratch_bytes);
    int64_t start, n, from = g * d->group_len,
                      to = from + d->group_len < d->plan.inner.count ? from + d->group_len : d->plan.inner.count;
    gale__cpu_frame f;
    (void)worker;
    gale__cpu_frame_init(&f, &d->plan.tape, r->buffers, scratch, d->plan.tape.block, r->aliased);
    block_range(d, block, &start, &n);
    gale__cpu_frame_set(&f, &d->plan.outer, start, (size_t)n);
    for (int p = 0; p < d->plan.n_phases && p <= r->phase; p++) {
        if (p) combine_parts(r, &f, block, p - 1);
        gale__cpu_frame_run(&f, d->plan.phases[p].outer);
        if (last) gale__cpu_frame_run(&f, d->plan.phases[p].put);
    }
    if (!last) {
        run_body(&f, d, &d->plan.phases[r->phase], start, n, from, to);
        save_parts(r, &f, block, g);
    }
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_PRIVATE, scratch);
}

static void run_split(run *r)
{
    const gale__cpu_direct *d = r->direct;
    r->parts = gale__cpu_scratch_take(GALE__CPU_SCRATCH_SHARED, d->parts_bytes);
    for (r->phase = 0; r->phase < d->plan.n_phases; r->phase++)
        if (d->plan.phases[r->phase].loops) gale__parallel_kernel((size_t)(d->blocks * d->groups), run_group, r);
    gale__parallel_kernel((size_t)d->blocks, run_group, r);
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_SHARED, r->parts);
}

void gale__cpu_direct_run(const gale__cpu_direct *d, void *const *buffers, bool aliased)
{
    run r = {.direct = d, .buffers = buffers, .aliased = aliased};
    if (d->groups > 1) {
        run_split(&r);
        return;
    }
    int64_t points = d->lanes * d->plan.inner.count * (d->turn_dim >= 0 ? d->turn_rows : 1),
            work = points * (int64_t)(d->plan.tape.n_steps + 1),
            share = d->blocks / ((int64_t)gale__parallel_now() * TASKS_EACH);
    r.per_task = (TASK_STEPS + work - 1) / work;
    if (share > r.per_task) r.per_task = share;
    if (d->serial || gale__parallel_now() == 1) r.per_task = d->blocks;
    gale__parallel_kernel((size_t)((d->blocks + r.per_task - 1) / r.per_task), run_blocks, &r);
}
