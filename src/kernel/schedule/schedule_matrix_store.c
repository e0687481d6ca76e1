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
        if (e->schedule->few & (w ? GALE__WHOLE_COLUMNS : GALE__WHOLE_ROWS)) {
            valid[w] = 0;
            gale__emit_tile_coords(&t->tiling, at, gale__schedule_tile_kind(e->schedule, w), coord);
            continue;
        }
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

/* Registers of a thread for what is held: those that sums and the results at work leave. */
#define HELD_MOST 48

/* Columns that a part of the tile's results has: `vector` neighbours for each of four threads. */
static uint32_t part_columns(const gale__schedule *s) { return 4u * s->vector; }

/* Parts are counted by columns, of all rows, or of 16 rows for each subgroup after the others. */
static uint32_t all_columns(const gale__schedule *s) { return s->micro_n * (s->micro_m / 8u / s->steps); }

/* The part from `part` on: its first column, and which of the subgroup's rows it has. */
static gale__ir_val column_of(gale__matrix_tile *t, gale__ir_val part)
{
    const gale__schedule *s = t->tiling.emit.schedule;
    return all_columns(s) > s->micro_n ? op32(t->tiling.emit.ir, GALE__IR_REM, part, s->micro_n) : part;
}

static gale__ir_val rows_of(gale__matrix_tile *t, gale__ir_val part)
{
    gale__ir *ir = t->tiling.emit.ir;
    const gale__schedule *s = t->tiling.emit.schedule;
    return all_columns(s) > s->micro_n ? op32(ir, GALE__IR_DIV, part, s->micro_n) : gale__ir_u32(ir, 0);
}

/* The rows of a thread's results: number b of `steps`. */
static void place_direct(gale__matrix_tile *t, gale__ir_val part)
{
    gale__emit *e = &t->tiling.emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    gale__ir_val lane = op32(ir, GALE__IR_REM, e->tid, s->lanes);
    gale__ir_val first =
        add32(ir, op32(ir, GALE__MUL, t->row, s->relay ? 16 : s->micro_m), op32(ir, GALE__IR_DIV, lane, 4));
    gale__ir_val column =
        add32(ir, op32(ir, GALE__MUL, op32(ir, GALE__IR_REM, lane, 4), s->vector), column_of(t, part));
    if (all_columns(s) > s->micro_n) first = add32(ir, first, op32(ir, GALE__MUL, rows_of(t, part), s->steps * 32));
    for (uint32_t b = 0; b < s->steps; b++)
        place_result(t, (int)b, op32(ir, GALE__ADD, first, b / 2 * 64 + b % 2 * 8), column);
}

static bool walks_rows(const gale__matrix_tile *t, const gale__nest_access *a)
{
    const gale__emit *e = &t->tiling.emit;
    for (int d = 0; d < e->nest->n_outer; d++)
        if (t->tiling.contraction.kind[d] != (uint8_t)gale__schedule_tile_kind(e->schedule, 1) &&
            gale__schedule_access_walks(a, d))
            return true;
    return false;
}

/* Registers for a part of what an instruction loads: a residual of 8 or 16 bits in the columns of every row, as words;
 * or f32 or i32 by column, such as a bias.  0: it is neither. */
static uint32_t held_registers(const gale__matrix_tile *t, const gale__nest_instr *in)
{
    const gale__emit *e = &t->tiling.emit;
    if (in->op != GALE__NEST_LOAD || in->inner) return 0;
    const gale__nest_access *a = &e->nest->accesses[in->access];
    if (a->n_guards || !gale__schedule_access_walks(a, e->vector_dim)) return 0;
    bool rows = walks_rows(t, a);
    int vector = e->schedule->vector, width = gale__schedule_access_width(e->nest, a, e->vector_dim, vector);
    if (width != vector && (rows || width < 4)) return 0;
    if (!rows) return a->type == GALE_F32 || a->type == GALE_I32 ? (uint32_t)vector : 0;
    return e->schedule->steps * (uint32_t)gale__ir_word_count(a->type, vector);
}

/* The first of the registers for a part: those of others are overwritten. */
static gale__ir_val held_at(gale__matrix_tile *t, gale__ir_val part, uint32_t registers)
{
    gale__ir *ir = t->tiling.emit.ir;
    gale__ir_val number = op32(ir, GALE__IR_DIV, part, part_columns(t->tiling.emit.schedule));
    return op32(ir, GALE__MUL, op32(ir, GALE__IR_REM, number, t->ahead), registers);
}

static void hold_load(gale__matrix_tile *t, const gale__matrix_held *h, gale__ir_val part)
{
    gale__emit *e = &t->tiling.emit;
    const gale__nest_instr *in = &e->nest->code[h->load];
    const gale__nest_access *a = &e->nest->accesses[in->access];
    bool rows = h->type == GALE_U32;
    uint32_t blocks = rows ? e->schedule->steps : 1, per = h->registers / blocks;
    gale__ir_val at = held_at(t, part, h->registers), values[16], ok;
    int vector = e->schedule->vector;
    for (uint32_t b = 0; b < blocks; b++) {
        gale__ir_val place = gale__emit_address(e, in->access, (int)b, -1, &ok);
        if (rows) gale__ir_load_words(e->ir, a->buffer, a->type, vector, place, values);
        else gale__ir_load_as(e->ir, a->buffer, a->type, vector, place, values);
        for (uint32_t i = 0; i < per; i++)
            gale__ir_op3(e->ir, GALE__IR_SET, h->type, h->array, op32(e->ir, GALE__ADD, at, b * per + i), values[i]);
    }
}

static void hold(gale__matrix_tile *t, gale__ir_val part)
{
    place_direct(t, part);
    for (int i = 0; i < t->n_held; i++) hold_load(t, &t->held[i], part);
}

void gale__matrix_hold(gale__matrix_tile *t)
{
    gale__emit *e = &t->tiling.emit;
    uint32_t all = 0;
    if (!e->schedule->direct) return;
    for (int i = 0; i < e->nest->n_code && t->n_held < GALE__MATRIX_HELD; i++) {
        uint32_t registers = held_registers(t, &e->nest->code[i]);
        if (!registers || all + registers > HELD_MOST) continue;
        const gale__nest_access *a = &e->nest->accesses[e->nest->code[i].access];
        t->held[t->n_held++] = (gale__matrix_held){
            .load = i, .registers = registers, .type = walks_rows(t, a) ? GALE_U32 : (gale_type)a->type};
        all += registers;
    }
    if (!t->n_held) return;
    uint32_t columns = part_columns(e->schedule);
    t->ahead = all_columns(e->schedule) / columns;
    if (t->ahead > HELD_MOST / all) t->ahead = HELD_MOST / all;
    for (int i = 0; i < t->n_held; i++)
        t->held[i].array = gale__ir_add(
            e->ir, (gale__ir_instr){
                       .op = GALE__IR_ARRAY, .type = (uint8_t)t->held[i].type, .imm = t->ahead * t->held[i].registers});
    hold(t, loop(e->ir, columns * t->ahead, columns, true));
    gale__emit_close(e);
}

static void take_load(gale__matrix_tile *t, const gale__matrix_held *h, gale__ir_val part)
{
    gale__emit *e = &t->tiling.emit;
    gale_type type = e->nest->accesses[e->nest->code[h->load].access].type;
    uint32_t blocks = h->type == GALE_U32 ? e->schedule->steps : 1, per = h->registers / blocks;
    gale__ir_val at = held_at(t, part, h->registers), words[16], *values = &e->val[h->load * e->lanes];
    uint32_t vector = e->schedule->vector;
    for (uint32_t b = 0; b < blocks; b++) {
        for (uint32_t i = 0; i < per; i++)
            words[i] = gale__ir_op2(e->ir, GALE__IR_GET, h->type, h->array, op32(e->ir, GALE__ADD, at, b * per + i));
        if (blocks > 1) gale__ir_from_words(e->ir, type, (int)vector, words, values + vector * b);
    }
    for (uint32_t i = 0; blocks == 1 && i < vector * e->schedule->steps; i++) values[i] = words[i % vector];
    e->done[h->load] = 1;
}

/* The values that are held; those of the parts that come after take their place. */
static void take_held(gale__matrix_tile *t, gale__ir_val part)
{
    gale__emit *e = &t->tiling.emit;
    uint32_t all = all_columns(e->schedule), ahead = part_columns(e->schedule) * t->ahead;
    for (int i = 0; i < t->n_held; i++) take_load(t, &t->held[i], part);
    if (ahead >= all) return;
    gale__emit_if(e, gale__ir_op2(e->ir, GALE__LT, GALE_BOOL, part, gale__ir_u32(e->ir, all - ahead)));
    hold(t, op32(e->ir, GALE__ADD, part, ahead));
    gale__emit_close(e);
}

/* Eight or 16 neighbours of each of the thread's rows, one part after the other.  Of every 32 or 64 sums of a row a
 * thread has four or eight pairs; columns lie so that they are neighbours in memory. */
static void store_direct(gale__matrix_tile *t)
{
    gale__emit *e = &t->tiling.emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    gale_type type = gale__ir_type(ir, t->sums);
    gale__emit_acc sums[GALE__EMIT_LANES];
    gale__ir_val part = loop(ir, all_columns(s), part_columns(s), true), half = op32(ir, GALE__IR_DIV, part, 2);
    if (t->n_held) take_held(t, part);
    place_direct(t, part);
    for (uint32_t b = 0; b < s->steps; b++)
        for (uint32_t i = 0; i < s->vector; i++) {
            uint32_t number = b / 2 * s->micro_n / 2 + i / 4 * 8 + i / 2 % 2 * 4 + b % 2 * 2 + i % 2;
            gale__ir_val at = op32(ir, GALE__ADD, half, number);
            sums[s->vector * b + i].value = gale__ir_op2(ir, GALE__IR_GET, type, t->sums, at);
        }
    gale__emit_results(e, t->tiling.contraction.reduce, sums);
    gale__emit_close(e);
}

/* All threads of the group take the results in turn, whichever subgroup computed them: rows of vectors.  A cluster's
 * groups have a part of the rows each. */
void gale__matrix_sets_begin(gale__matrix_tile *t)
{
    gale__emit *e = &t->tiling.emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    uint32_t per = s->tile_n / s->vector, stride = s->tile_n + GALE__MATRIX_RESULT_PAD;
    uint32_t rows = s->tile_m / (s->split ? s->split : 1u);
    gale__ir_val column = op32(ir, GALE__MUL, op32(ir, GALE__IR_REM, e->tid, per), s->vector);
    gale__ir_val first = op32(ir, GALE__IR_DIV, e->tid, per);
    if (s->split > 1) first = add32(ir, first, op32(ir, GALE__MUL, t->member, rows));
    for (uint32_t b = 0; b < s->steps; b++) {
        gale__ir_val row = op32(ir, GALE__ADD, first, b * (rows / s->steps));
        place_result(t, (int)b, row, column);
        t->at[b] = add32(ir, op32(ir, GALE__MUL, row, stride), column);
    }
}

/* Vector b of a thread, of one set, or of one of the cluster's groups. */
static void get_sums(gale__matrix_tile *t, uint32_t b, uint32_t which, uint32_t size, gale__ir_val out[4])
{
    gale__ir *ir = t->tiling.emit.ir;
    const gale__schedule *s = t->tiling.emit.schedule;
    gale_type type = gale__ir_type(ir, t->results);
    if (s->split > 1) gale__ir_get_of_cluster(ir, t->results, s->vector, t->at[b], gale__ir_u32(ir, which), out);
    else gale__ir_get_lanes(ir, t->results, type, s->vector, op32(ir, GALE__ADD, t->at[b], which * size), out);
}

/* The sums of all sets, or of all groups of a cluster, meet in work-group memory, and are added in the same order. */
static void store_sets(gale__matrix_tile *t)
{
    gale__emit *e = &t->tiling.emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    uint32_t stride = s->tile_n + GALE__MATRIX_RESULT_PAD, all = s->tile_m * stride, columns = s->micro_n / 16u;
    gale__ir_val rows = op32(ir, GALE__MUL, t->row, s->micro_m * stride);
    gale__ir_val at = add32(ir, rows, op32(ir, GALE__MUL, t->column, s->micro_n));
    if (s->rows > 1) at = add32(ir, at, op32(ir, GALE__MUL, t->set, all));
    for (uint32_t i = 0; i < s->micro_m / 16u * columns; i++)
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SUMS_STORE,
                             .a = t->sums,
                             .b = t->results,
                             .c = op32(ir, GALE__ADD, at, i / columns * 16 * stride + i % columns * 16),
                             .imm = (uint64_t)stride << 32 | i});
    uint32_t sets = s->split > 1 ? s->split : s->rows;
    gale_type type = gale__ir_type(ir, t->results);
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_BARRIER, .imm = s->split > 1 ? GALE__IR_CLUSTER : 0});
    gale__emit_acc sums[4 * GALE__EMIT_OUTER_BLOCKS];
    for (uint32_t i = 0; i < s->steps * sets; i++) {
        gale__ir_val lanes[4];
        gale__emit_acc *sum = sums + i / sets * s->vector;
        get_sums(t, i / sets, i % sets, all, lanes);
        for (int v = 0; v < s->vector; v++)
            sum[v].value = i % sets ? gale__ir_op2(ir, GALE__ADD, type, sum[v].value, lanes[v]) : lanes[v];
    }
    gale__emit_results(e, t->tiling.contraction.reduce, sums);
    /* A group that ended would take its sums along. */
    if (s->split > 1) gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_BARRIER, .imm = GALE__IR_CLUSTER});
}

static void subgroup_barrier(gale__ir *ir) { gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_BARRIER, .imm = 2}); }

/* A subgroup stores what it computed, through work-group memory of its own, and waits for no other. */
void gale__matrix_store(gale__matrix_tile *t)
{
    gale__emit *e = &t->tiling.emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    if (s->direct || gale__schedule_sums_meet(s)) {
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
