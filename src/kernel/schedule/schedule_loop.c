/* The kernels of MAP, ROW and COLUMN: which thread computes what, and in how many passes.  A pass ends where the
 * threads that share an outer point must agree on a reduction.  Resident nests keep their inner values in registers
 * from pass to pass; streaming ones walk the inner dimensions in a loop and compute again what a pass needs. */
#include "kernel/schedule/schedule_emit.h"
#include <string.h>

static gale__ir_val u32(gale__emit *e, uint32_t v) { return gale__ir_u32(e->ir, v); }
static gale__ir_val op32(gale__emit *e, int op, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(e->ir, op, GALE_U32, a, b);
}

/* A thread past the end repeats the last outer point and stores nothing. */
static void place_outer(gale__emit *e, int b, gale__ir_val chunk)
{
    gale__ir *ir = e->ir;
    int dims = e->nest->n_outer + (e->reduces ? 0 : e->nest->n_inner);
    gale__ir_val coord[GALE__NEST_DIMS],
        top = gale__ir_op2(ir, GALE__SUB, e->index, e->layout.outer_count, gale__emit_index(e, 1));
    e->outer_valid[b] = gale__ir_op2(ir, GALE__LE, GALE_BOOL, chunk, top);
    chunk = gale__ir_op2(ir, GALE__IR_MIN, e->index, chunk, top);
    gale__emit_coords(e, chunk, 0, dims, coord);
    gale__emit_outer_place(e, b, coord, dims);
    if (!e->schedule->tail) return;
    gale__ir_val left = gale__ir_op2(ir, GALE__SUB, e->index, e->layout.points, coord[e->vector_dim]);
    e->last[b] = gale__ir_op2(ir, GALE__SUB, e->index, left, gale__emit_index(e, 1));
    e->whole[b] = gale__ir_op2(ir, GALE__GE, GALE_BOOL, left, gale__emit_index(e, e->schedule->vector));
}

/* Thread numbers: of a MAP, all of them are outer; of a ROW, neighbours share an outer point; of a COLUMN, they do not.
 */
static void place_threads(gale__emit *e)
{
    const gale__schedule *s = e->schedule;
    gale__ir_val group = gale__emit_widen(e, gale__emit_group(e)), mine = e->tid;
    uint32_t rows = s->rows, threads = s->threads;
    if (s->kind == GALE__SCHEDULE_ROW && threads > 1) {
        mine = op32(e, GALE__IR_DIV, e->tid, u32(e, threads));
        e->row_tid = op32(e, GALE__AND, e->tid, u32(e, threads - 1));
    } else if (s->kind == GALE__SCHEDULE_COLUMN && threads > 1) {
        mine = op32(e, GALE__AND, e->tid, u32(e, rows - 1));
        e->row_tid = op32(e, GALE__IR_DIV, e->tid, u32(e, rows));
    }
    mine = gale__emit_widen(e, mine);
    gale__ir_val first = gale__emit_mul(e, group, gale__emit_index(e, rows * (uint32_t)e->outer_blocks));
    for (int b = 0; b < e->outer_blocks; b++)
        place_outer(e, b, gale__emit_add(e, gale__emit_add(e, first, mine), gale__emit_index(e, rows * (uint32_t)b)));
}

/* The inner blocks of this thread, beginning with block number `first` of the row (U32). */
static void place_inner(gale__emit *e, gale__ir_val first)
{
    gale__ir *ir = e->ir;
    gale__ir_val count = e->layout.inner_count, top = op32(e, GALE__SUB, count, u32(e, 1));
    int from = e->nest->n_outer, to = from + e->nest->n_inner;
    for (int b = 0; b < e->inner_blocks; b++) {
        gale__ir_val block =
            op32(e, GALE__ADD, op32(e, GALE__ADD, first, e->row_tid), u32(e, (uint32_t)b * e->schedule->threads));
        e->inner_valid[b] = 0;
        if (!e->schedule->exact) {
            e->inner_valid[b] = gale__ir_op2(ir, GALE__LE, GALE_BOOL, block, top);
            block = op32(e, GALE__IR_MIN, block, top);
        }
        gale__emit_coords(e, gale__emit_widen(e, block), from, to, e->inner_coord[b]);
        e->inner_index[b] =
            gale__ir_op1(ir, GALE__BITCAST, GALE_I32, op32(e, GALE__MUL, block, u32(e, (uint32_t)e->inner_vector)));
    }
}

/* How many reductions are below each instruction: the pass that can compute it. */
static int find_levels(gale__emit *e)
{
    int most = 0;
    for (int i = 0; i < e->nest->n_code; i++) {
        const gale__nest_instr *in = &e->nest->code[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        int level = 0;
        for (int k = 0; k < gale__nest_arity(in); k++)
            if (e->level[operand[k]] > level) level = e->level[operand[k]];
        e->level[i] = (uint8_t)(level + (in->op == GALE__NEST_REDUCE));
        if (e->level[i] > most) most = e->level[i];
    }
    return most;
}

static bool store_is_inner(const gale__emit *e, const gale__nest_store *st)
{
    return gale__emit_is_inner(e, st->value) || (st->index >= 0 && gale__emit_is_inner(e, st->index));
}

static bool reduces_in(const gale__emit *e, int i, int pass)
{
    return e->nest->code[i].op == GALE__NEST_REDUCE && e->level[i] == pass + 1;
}

/* Marks the INNER instructions that a pass needs; false when it needs none. */
static bool mark_wanted(gale__emit *e, int pass, bool last)
{
    bool any = false;
    int n = e->nest->n_code;
    for (int i = 0; i < n; i++) e->wanted[i] = 0;
    for (int i = 0; i < n; i++)
        if (reduces_in(e, i, pass)) {
            e->wanted[e->nest->code[i].a] = 1;
            any = true;
        }
    for (int s = 0; s < e->nest->n_stores; s++) {
        const gale__nest_store *st = &e->nest->stores[s];
        if (!last || !store_is_inner(e, st)) continue;
        e->wanted[st->value] = 1;
        any = true;
        if (st->index >= 0) e->wanted[st->index] = 1;
    }
    for (int i = n - 1; i >= 0; i--) {
        const gale__nest_instr *in = &e->nest->code[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        if (!e->wanted[i] || !in->inner) continue;
        for (int k = 0; k < gale__nest_arity(in); k++) e->wanted[operand[k]] = 1;
    }
    return any;
}

static void emit_wanted(gale__emit *e, bool last)
{
    for (int i = 0; i < e->nest->n_code; i++)
        if (e->wanted[i] && e->nest->code[i].inner) gale__emit_instr(e, i);
    for (int s = 0; last && s < e->nest->n_stores; s++)
        if (store_is_inner(e, &e->nest->stores[s])) gale__emit_store(e, &e->nest->stores[s], 0);
}

#define EARLY 32 /* values a thread may hold for later passes */

/* Loads for later passes are sent off with the first, so that no thread waits for them after a reduction; but not so
 * many that occupancy suffers. */
static void load_early(gale__emit *e)
{
    int loads = 0, most = e->schedule->settled ? 2 * EARLY : EARLY; /* settled: few threads run at once anyway */
    for (int i = 0; i < e->nest->n_code; i++) loads += e->nest->code[i].inner && e->nest->code[i].op == GALE__NEST_LOAD;
    bool few = loads * e->inner_blocks * e->inner_vector * e->outer_vector <= most;
    if (few && e->schedule->settled) gale__emit_loads(e, true);
    if (e->schedule->settled) gale__ir_add(e->ir, (gale__ir_instr){.op = GALE__IR_READY});
    for (int i = 0; few && i < e->nest->n_code; i++)
        if (e->nest->code[i].inner && e->nest->code[i].op == GALE__NEST_LOAD) gale__emit_instr(e, i);
}

/* The last pass goes block by block: what it loads and computes need not be held for all of them at once. */
static gale_status pass_resident(gale__emit *e, int pass, bool last)
{
    gale__emit_acc acc[GALE__EMIT_LANES];
    if (!last) emit_wanted(e, false);
    for (int b = 0; last && b < e->inner_blocks; b++) {
        e->inner_from = b;
        e->inner_to = b + 1;
        emit_wanted(e, true);
    }
    e->inner_from = 0;
    e->inner_to = e->inner_blocks;
    for (int i = 0; i < e->nest->n_code; i++) {
        if (!reduces_in(e, i, pass)) continue;
        gale__emit_reduce_local(e, i, acc);
        gale__emit_reduce_threads(e, i, acc);
        gale__emit_reduce_finish(e, i, acc);
    }
    return GALE_OK;
}

#define REDUCTIONS 16 /* in one pass of a streaming nest */

static gale_status pass_streaming(gale__emit *e, int pass, bool last)
{
    gale__emit_acc variables[REDUCTIONS][16], acc[GALE__EMIT_LANES];
    int list[REDUCTIONS], n = 0;
    for (int i = 0; i < e->nest->n_code; i++) {
        if (!reduces_in(e, i, pass)) continue;
        if (n == REDUCTIONS)
            return gale__fail(GALE_LIMIT,
                "a kernel has more than %d reductions in one pass; set no_fusion in gale_program_options", REDUCTIONS);
        list[n] = i;
        gale__emit_reduce_begin(e, i, variables[n++]);
    }
    gale__ir_val first = gale__emit_for(e, e->layout.inner_count, (uint32_t)e->schedule->threads * e->schedule->steps);
    place_inner(e, first);
    emit_wanted(e, last);
    for (int k = 0; k < n; k++) gale__emit_reduce_step(e, list[k], variables[k]);
    gale__emit_close(e);
    for (int i = 0; i < e->nest->n_code; i++)
        if (e->nest->code[i].inner) e->done[i] = 0;
    for (int k = 0; k < n; k++) {
        gale__emit_reduce_read(e, list[k], variables[k], acc);
        gale__emit_reduce_threads(e, list[k], acc);
        gale__emit_reduce_finish(e, list[k], acc);
    }
    return GALE_OK;
}

static gale_status emit_passes(gale__emit *e)
{
    int passes = find_levels(e);
    if (e->reduces && e->schedule->resident) {
        place_inner(e, u32(e, 0));
        load_early(e);
    }
    for (int pass = 0; pass <= passes; pass++) {
        bool last = pass == passes;
        for (int i = 0; i < e->nest->n_code; i++)
            if (!gale__emit_is_inner(e, i) && e->nest->code[i].op != GALE__NEST_REDUCE && e->level[i] == pass)
                gale__emit_instr(e, i);
        if (!e->reduces || !mark_wanted(e, pass, last)) continue;
        if (e->schedule->resident) GALE_TRY(pass_resident(e, pass, last));
        else GALE_TRY(pass_streaming(e, pass, last));
    }
    return GALE_OK;
}

static void emit_outer_stores(gale__emit *e)
{
    gale__ir_val first = 0;
    if (e->schedule->threads > 1) first = gale__ir_op2(e->ir, GALE__EQ, GALE_BOOL, e->row_tid, u32(e, 0));
    for (int s = 0; s < e->nest->n_stores; s++)
        if (!e->reduces || !store_is_inner(e, &e->nest->stores[s])) gale__emit_store(e, &e->nest->stores[s], first);
}

gale_status gale__schedule_build_loops(const gale__nest *nest, const gale__schedule *s, gale__ir *ir)
{
    gale__emit e = {.outer_blocks = 1, .outer_vector = 1, .inner_blocks = 1, .inner_vector = 1};
    if (s->kind == GALE__SCHEDULE_MAP) e.outer_blocks = s->steps;
    else e.inner_blocks = s->steps;
    if (s->kind == GALE__SCHEDULE_ROW) e.inner_vector = s->vector;
    else e.outer_vector = s->vector;
    gale_status status = gale__emit_begin(&e, nest, s, ir);
    if (status == GALE_OK) {
        place_threads(&e);
        status = emit_passes(&e);
        if (status == GALE_OK) emit_outer_stores(&e);
    }
    gale__emit_end(&e);
    return status;
}
