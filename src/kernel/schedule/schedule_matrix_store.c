/* MATRIX: what becomes of the sums.  Each subgroup passes its own through work-group memory, some rows at a time, to
 * threads that take neighbours, run the instructions after the sum and store.  With `direct` every thread has
 * neighbours already, and stores from its registers. */
#include "kernel/schedule/schedule_emit.h"
#include "kernel/schedule/schedule_ir.h"

/* Rows `band * slice` and on of this subgroup's part, to where its results lie. */
static void store_sums(gale__matrix_tile *t, uint32_t band, gale__ir_val at, uint32_t row)
{
    gale__ir *ir = t->tiling.emit.ir;
    const gale__schedule *s = t->tiling.emit.schedule;
    uint32_t columns = s->micro_n / 16, count = s->slice / 16 * columns;
    for (uint32_t i = 0; i < count; i++)
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SUMS_STORE,
                             .a = t->sums,
                             .b = t->results,
                             .c = op32(ir, GALE__ADD, at, i / columns * 16 * row + i % columns * 16),
                             .imm = (uint64_t)row << 32 | (band * count + i)});
}

/* The lanes of result number b: neighbours along the columns from (row, column) of the tile on. */
static void place_result(gale__matrix_tile *t, int b, gale__ir_val row, gale__ir_val column)
{
    gale__emit *e = &t->tiling.emit;
    gale__ir *ir = e->ir;
    gale__ir_val coord[GALE__NEST_DIMS], valid[2];
    gale__emit_tile_clear_coords(&t->tiling, coord);
    for (int w = 0; w < 2; w++) {
        gale__ir_val count = w ? e->layout.n : e->layout.m;
        gale__ir_val at = gale__emit_add(e, t->tiling.origin[w], gale__emit_widen(e, w ? column : row));
        gale__ir_val top =
            gale__ir_op2(ir, GALE__SUB, e->index, count, gale__emit_index(e, w ? (uint32_t)e->outer_vector : 1));
        valid[w] = gale__ir_op2(ir, GALE__LT, GALE_BOOL, at, count);
        gale__emit_tile_coords(&t->tiling, gale__ir_op2(ir, GALE__IR_MIN, e->index, at, top),
            gale__schedule_tile_kind(e->schedule, w), coord);
    }
    e->outer_valid[b] = gale__emit_and(e, valid[0], valid[1]);
    gale__emit_outer_place(e, b, coord, e->nest->n_outer);
}

/* at[b]: where the sums of result number b lie in work-group memory. */
static void emit_results(gale__matrix_tile *t, const gale__ir_val *at)
{
    gale__emit *e = &t->tiling.emit;
    gale__ir_val lanes[4];
    gale__emit_acc sums[4 * GALE__EMIT_OUTER_BLOCKS];
    gale_type sum = gale__ir_type(e->ir, t->results);
    for (int b = 0; b < e->outer_blocks; b++) {
        for (int i = 0; i < e->outer_vector; i++) {
            if (i % 4 == 0)
                gale__ir_get_lanes(e->ir, t->results, sum, e->outer_vector < 4 ? e->outer_vector : 4,
                    i ? op32(e->ir, GALE__ADD, at[b], (uint32_t)i) : at[b], lanes);
            sums[b * e->outer_vector + i] = (gale__emit_acc){lanes[i % 4], 0};
        }
    }
    gale__emit_results(e, t->tiling.contraction.reduce, sums);
}

/* What a subgroup has in work-group memory: from where, and the row and column of the tile that it begins with. */
typedef struct result_part {
    gale__ir_val at, row, column, lane;
    uint32_t stride, per; /* elements from row to row; vectors of a row */
} result_part;

static void place_at(
    gale__matrix_tile *t, const result_part *r, int b, gale__ir_val row, gale__ir_val column, gale__ir_val *at)
{
    gale__ir *ir = t->tiling.emit.ir;
    place_result(t, b, add32(ir, r->row, row), add32(ir, r->column, column));
    *at = add32(ir, r->at, add32(ir, op32(ir, GALE__MUL, row, r->stride), column));
}

/* Threads take rows one after the other, always the same columns. */
static void store_columns(gale__matrix_tile *t, const result_part *r)
{
    gale__emit *e = &t->tiling.emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    uint32_t across = s->lanes / r->per;
    gale__ir_val column = op32(ir, GALE__MUL, op32(ir, GALE__IR_REM, r->lane, r->per), s->vector);
    gale__ir_val first = op32(ir, GALE__IR_DIV, r->lane, r->per), at[GALE__EMIT_OUTER_BLOCKS];
    gale__ir_val i = loop(ir, s->slice, across * s->steps, false);
    for (int b = 0; b < s->steps; b++)
        place_at(t, r, b, add32(ir, i, op32(ir, GALE__ADD, first, (uint32_t)b * across)), column, &at[b]);
    emit_results(t, at);
    gale__emit_close(e);
}

/* Threads take vectors in order. */
static void store_vectors(gale__matrix_tile *t, const result_part *r)
{
    gale__emit *e = &t->tiling.emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    uint32_t vectors = s->slice * r->per;
    gale__ir_val i = loop(ir, vectors, s->lanes, false), number = add32(ir, i, r->lane), at;
    if (vectors % s->lanes) gale__emit_if(e, gale__ir_op2(ir, GALE__LT, GALE_BOOL, number, gale__ir_u32(ir, vectors)));
    gale__ir_val column = op32(ir, GALE__MUL, op32(ir, GALE__IR_REM, number, r->per), s->vector);
    place_at(t, r, 0, op32(ir, GALE__IR_DIV, number, r->per), column, &at);
    emit_results(t, &at);
    if (vectors % s->lanes) gale__emit_close(e);
    gale__emit_close(e);
}

/* Eight neighbours of each of the thread's rows, 32 columns of the tile after 32.  Of every 32 sums of a row a thread
 * has four pairs; columns lie so that they are neighbours in memory. */
static void store_direct(gale__matrix_tile *t)
{
    gale__emit *e = &t->tiling.emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    gale__ir_val lane = op32(ir, GALE__IR_REM, e->tid, s->lanes);
    gale__ir_val first =
        add32(ir, op32(ir, GALE__MUL, t->row, s->relay ? 16 : s->micro_m), op32(ir, GALE__IR_DIV, lane, 4));
    gale__ir_val column = op32(ir, GALE__MUL, op32(ir, GALE__IR_REM, lane, 4), 8);
    gale_type type = gale__ir_type(ir, t->sums);
    gale__emit_acc sums[GALE__EMIT_LANES];
    gale__ir_val from = loop(ir, s->micro_n, 32, true);
    for (uint32_t b = 0; b < s->steps; b++) {
        place_result(t, (int)b, op32(ir, GALE__ADD, first, b / 2 * 64 + b % 2 * 8), add32(ir, column, from));
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t number = b / 2 * s->micro_n / 2 + i / 4 * 8 + i / 2 % 2 * 4 + b % 2 * 2 + i % 2;
            gale__ir_val at = op32(ir, GALE__ADD, op32(ir, GALE__IR_DIV, from, 2), number);
            sums[8 * b + i].value = gale__ir_op2(ir, GALE__IR_GET, type, t->sums, at);
        }
    }
    gale__emit_results(e, t->tiling.contraction.reduce, sums);
    gale__emit_close(e);
}

/* All threads of the group take the results in turn, whichever subgroup computed them: rows of vectors. */
void gale__matrix_sets_begin(gale__matrix_tile *t)
{
    gale__emit *e = &t->tiling.emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    uint32_t per = s->tile_n / s->vector, stride = s->tile_n + GALE__MATRIX_RESULT_PAD;
    gale__ir_val column = op32(ir, GALE__MUL, op32(ir, GALE__IR_REM, e->tid, per), s->vector);
    gale__ir_val first = op32(ir, GALE__IR_DIV, e->tid, per);
    for (uint32_t b = 0; b < s->steps; b++) {
        gale__ir_val row = op32(ir, GALE__ADD, first, b * (s->tile_m / s->steps));
        place_result(t, (int)b, row, column);
        t->at[b] = add32(ir, op32(ir, GALE__MUL, row, stride), column);
    }
}

/* The sums of all sets meet in work-group memory, and are added in the order of k. */
static void store_sets(gale__matrix_tile *t)
{
    gale__emit *e = &t->tiling.emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    uint32_t stride = s->tile_n + GALE__MATRIX_RESULT_PAD, all = s->tile_m * stride, columns = s->micro_n / 16u;
    gale__ir_val rows = op32(ir, GALE__MUL, t->row, s->micro_m * stride);
    gale__ir_val at =
        add32(ir, add32(ir, op32(ir, GALE__MUL, t->set, all), rows), op32(ir, GALE__MUL, t->column, s->micro_n));
    for (uint32_t i = 0; i < s->micro_m / 16u * columns; i++)
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SUMS_STORE,
                             .a = t->sums,
                             .b = t->results,
                             .c = op32(ir, GALE__ADD, at, i / columns * 16 * stride + i % columns * 16),
                             .imm = (uint64_t)stride << 32 | i});
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_BARRIER});
    gale__emit_acc sums[4 * GALE__EMIT_OUTER_BLOCKS];
    for (uint32_t i = 0; i < s->steps * s->rows; i++) {
        gale__ir_val lanes[4], from = op32(ir, GALE__ADD, t->at[i / s->rows], i % s->rows * all);
        gale__emit_acc *sum = sums + i / s->rows * s->vector;
        gale__ir_get_lanes(ir, t->results, GALE_F32, s->vector, from, lanes);
        for (int v = 0; v < s->vector; v++)
            sum[v].value = i % s->rows ? gale__ir_op2(ir, GALE__ADD, GALE_F32, sum[v].value, lanes[v]) : lanes[v];
    }
    gale__emit_results(e, t->tiling.contraction.reduce, sums);
}

static void subgroup_barrier(gale__ir *ir) { gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_BARRIER, .imm = 2}); }

/* A subgroup stores what it computed, through work-group memory of its own, and waits for no other. */
void gale__matrix_store(gale__matrix_tile *t)
{
    gale__emit *e = &t->tiling.emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    if (s->direct || s->rows > 1) {
        (s->direct ? store_direct : store_sets)(t);
        return;
    }
    uint32_t bands = s->micro_m / s->slice;
    result_part r = {.stride = s->micro_n + GALE__MATRIX_RESULT_PAD, .per = s->micro_n / s->vector};
    r.lane = op32(ir, GALE__IR_REM, e->tid, s->lanes);
    r.at = op32(ir, GALE__MUL, op32(ir, GALE__IR_DIV, e->tid, s->lanes), s->slice * r.stride);
    r.column = op32(ir, GALE__MUL, t->column, s->micro_n);
    gale__ir_val band = loop(ir, bands, 1, false);
    /* In a relay a subgroup has 16 of every 64 rows. */
    r.row = add32(ir, op32(ir, GALE__MUL, t->row, s->relay ? 16 : s->micro_m),
        op32(ir, GALE__MUL, band, s->relay ? 64 : s->slice));
    for (uint32_t i = 0; i < bands; i++) {
        gale__emit_if(e, gale__ir_op2(ir, GALE__EQ, GALE_BOOL, band, gale__ir_u32(ir, i)));
        store_sums(t, i, r.at, r.stride);
        gale__emit_close(e);
    }
    subgroup_barrier(ir);
    if (gale__schedule_matrix_columns(s)) store_columns(t, &r);
    else store_vectors(t, &r);
    subgroup_barrier(ir);
    gale__emit_close(e);
}
