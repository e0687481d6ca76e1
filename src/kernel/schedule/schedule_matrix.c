/* MATRIX: contractions by matrix units.  A group computes a tile of the result, each of its subgroups a part of the
 * tile in matrices of 16 x 16.  Parts of both operands are in work-group memory, `stages` of them: while one is
 * multiplied the others are on their way, copied directly if possible, else through registers, where the
 * operand's own instructions run.  At the end each subgroup passes its sums through work-group memory, some rows at a
 * time, to threads that take neighbours, run the instructions after the sum and store. */
#include "kernel/schedule/schedule_emit.h"

#define ROW_PAD 8 /* as in gale__schedule_matrix_shared */
#define RESULT_PAD 4

/* One operand on its way into work-group memory: rows of k (fast) or of the tile's side. */
typedef struct part {
    gale__emit emit;
    int which, core, access;                /* access: copied directly; -1: through registers */
    uint32_t size, row, at;                 /* side of the tile; elements from row to row; where it begins in a stage */
    uint32_t per;                           /* vectors along a row */
    gale__ir_val first_k, first_side, base; /* of this thread; base: element inside the part */
    uint32_t step_k, step_side;
    gale__ir_val there[GALE__EMIT_OUTER_BLOCKS]; /* copied: whether the row or column is one; 0: always */
    gale__ir_val staging[128];                   /* variables */
} part;

typedef struct matrix {
    gale__emit_tiling tiling;
    part parts[2];
    uint32_t stage; /* elements of a stage */
    gale__ir_val shared, results, sums, read, write;
    gale__ir_val row, column; /* of this subgroup among those of the group */
} matrix;

static gale__ir_val op32(gale__ir *ir, int op, gale__ir_val a, uint32_t b)
{
    return gale__ir_op2(ir, op, GALE_U32, a, gale__ir_u32(ir, b));
}
static gale__ir_val add32(gale__ir *ir, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, GALE__ADD, GALE_U32, a, b);
}
static gale__ir_val variable(gale__ir *ir, gale_type type)
{
    return gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ARRAY, .type = (uint8_t)type, .imm = 1});
}
static gale__ir_val get(gale__ir *ir, gale__ir_val var)
{
    return gale__ir_op2(ir, GALE__IR_GET, gale__ir_type(ir, var), var, gale__ir_u32(ir, 0));
}
static void set(gale__ir *ir, gale__ir_val var, gale__ir_val v)
{
    gale__ir_op3(ir, GALE__IR_SET, gale__ir_type(ir, var), var, gale__ir_u32(ir, 0), v);
}
static void barrier(gale__ir *ir) { gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_BARRIER}); }
static gale__ir_val loop(gale__ir *ir, uint32_t end, uint32_t step, bool unroll)
{
    return gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_FOR,
                                .type = GALE_U32,
                                .a = gale__ir_u32(ir, 0),
                                .b = gale__ir_u32(ir, end),
                                .c = gale__ir_u32(ir, step),
                                .imm = unroll});
}

/* --- operands --- */

/* How a part is divided among the threads: neighbours in memory go to neighbouring threads. */
static gale_status begin_part(matrix *t, int which)
{
    const gale__schedule *s = t->tiling.emit.schedule;
    part *p = &t->parts[which];
    int operand = gale__schedule_tile_operand(s, &t->tiling.contraction, which);
    uint32_t group[3], wide = s->wide[which];
    gale__schedule_group(s, group);
    p->which = which;
    p->core = gale__schedule_matrix_core(t->tiling.emit.nest, operand);
    p->access = s->async >> which & 1 ? gale__schedule_matrix_access(t->tiling.emit.nest, operand) : -1;
    p->size = which ? s->tile_n : s->tile_m;
    p->row = (s->fast[which] ? s->tile_k : p->size) + (s->groups ? 0 : ROW_PAD);
    p->at = t->stage;
    t->stage += p->row * (s->fast[which] ? p->size : s->tile_k);
    p->emit.outer_blocks = p->emit.outer_vector = p->emit.inner_blocks = p->emit.inner_vector = 1;
    p->per = (s->fast[which] ? s->tile_k : p->size) / wide;
    uint32_t across = group[0] / p->per;
    int lanes = p->access < 0 ? (int)wide : 1; /* a copy takes its neighbours unseen */
    if (s->fast[which]) {
        p->emit.inner_vector = lanes;
        p->step_side = across;
        p->emit.outer_blocks = (int)(p->size / across);
    } else {
        p->emit.outer_vector = lanes;
        p->step_k = across;
        p->emit.inner_blocks = (int)(s->tile_k / across);
    }
    GALE_TRY(gale__emit_begin_within(&p->emit, &t->tiling.emit));
    p->emit.vector_dim = gale__schedule_tile_vector_dim(t->tiling.emit.nest, s, &t->tiling.contraction, which);
    return GALE_OK;
}

/* Rows or columns past the end repeat the last ones: their results are never stored.  Where most of them would, none
 * is fetched instead, since a line of memory that all groups request repeatedly is slow. */
static void place_part(matrix *t, part *p)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    uint32_t wide = s->wide[p->which], unit = s->fast[p->which] ? 1 : wide;
    gale__ir_val along = op32(ir, GALE__MUL, op32(ir, GALE__IR_REM, e->tid, p->per), wide);
    gale__ir_val across = op32(ir, GALE__IR_DIV, e->tid, p->per);
    p->first_k = s->fast[p->which] ? along : across;
    p->first_side = s->fast[p->which] ? across : along;
    gale__ir_val lies = along; /* in the row: the order that GROUP_ADD wants, the same in every eighth row */
    if (s->groups)
        lies = op32(ir, GALE__MUL,
            gale__ir_op2(
                ir, GALE__XOR, GALE_U32, op32(ir, GALE__IR_REM, e->tid, p->per), op32(ir, GALE__AND, across, 7)),
            wide);
    p->base = op32(ir, GALE__ADD, add32(ir, op32(ir, GALE__MUL, across, p->row), lies), p->at);
    gale__ir_val count = p->which ? e->layout.n : e->layout.m,
                 top = gale__ir_op2(ir, GALE__SUB, e->index, count, gale__emit_index(e, unit));
    for (int b = 0; b < e->outer_blocks; b++) {
        gale__ir_val coord[GALE__NEST_DIMS], at = op32(ir, GALE__ADD, p->first_side, (uint32_t)b * p->step_side);
        at = gale__emit_add(e, t->tiling.origin[p->which], gale__emit_widen(e, at));
        if (s->few[p->which]) p->there[b] = gale__ir_op2(ir, GALE__LT, GALE_BOOL, at, count);
        gale__emit_tile_clear_coords(&t->tiling, coord);
        gale__emit_tile_coords(&t->tiling, gale__ir_op2(ir, GALE__IR_MIN, e->index, at, top),
            gale__schedule_tile_kind(s, p->which), coord);
        gale__emit_outer_place(e, b, coord, e->nest->n_outer);
    }
    if (p->access >= 0) return;
    e->wanted[p->core] = 1;
    gale__nest_mark_cone(e->nest, e->wanted);
    for (int i = 0; i < e->nest->n_code; i++)
        if (e->wanted[i] && !e->nest->code[i].inner) gale__emit_instr(e, i);
    for (int l = 0; l < e->lanes; l++) p->staging[l] = variable(ir, GALE_F32);
}

/* Positions of the inner blocks for the part that starts at k; past the end the last point, which is not used. */
static void place_inner(matrix *t, part *p, gale__ir_val k)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    for (int b = 0; b < e->inner_blocks; b++) {
        gale__ir_val at = add32(ir, k, op32(ir, GALE__ADD, p->first_k, (uint32_t)b * p->step_k)),
                     count = e->layout.inner_count;
        e->inner_valid[b] = gale__ir_op2(ir, GALE__LT, GALE_BOOL, at, count);
        if (p->access < 0)
            at = gale__ir_op2(ir, GALE__IR_MIN, GALE_U32, at, op32(ir, GALE__SUB, count, (uint32_t)e->inner_vector));
        gale__emit_tile_coords(&t->tiling, gale__emit_widen(e, at), 'K', e->inner_coord[b]);
    }
}

static uint32_t offset_of(const part *p, uint32_t outer, uint32_t inner)
{
    return p->step_side ? outer * p->step_side * p->row : inner * p->step_k * p->row;
}

/* Copies the part from k on to the stage that begins at `stage`. */
static void copy_part(matrix *t, part *p, gale__ir_val stage, gale__ir_val k)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    int buffer = e->nest->accesses[p->access].buffer;
    gale__ir_val to = add32(ir, stage, p->base);
    place_inner(t, p, k);
    for (int b = 0; b < e->outer_blocks; b++)
        for (int i = 0; i < e->inner_blocks; i++) {
            gale__ir_val ok, from = gale__emit_address(e, p->access, b, i, &ok);
            gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_COPY,
                                 .width = 4,
                                 .a = t->shared,
                                 .b = op32(ir, GALE__ADD, to, offset_of(p, (uint32_t)b, (uint32_t)i)),
                                 .c = from,
                                 .d = gale__emit_and(e, p->there[b], gale__emit_and(e, e->inner_valid[i], ok)),
                                 .imm = (uint64_t)buffer});
        }
}

/* The operand's values from k on, into the staging variables; what is past the end becomes 0 in both operands. */
static void fetch_part(matrix *t, part *p, gale__ir_val k)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    gale__ir_val none = gale__ir_f32(ir, 0);
    place_inner(t, p, k);
    gale__emit_inner_cone(e);
    int n_inner = e->inner_blocks * e->inner_vector;
    for (int o = 0; o < e->outer_blocks * e->outer_vector; o++)
        for (int i = 0; i < n_inner; i++) {
            gale__ir_val v = gale__emit_get(e, p->core, o, i), valid = e->inner_valid[i / e->inner_vector];
            set(ir, p->staging[o * n_inner + i], gale__ir_op3(ir, GALE__SELECT, GALE_F32, valid, v, none));
        }
}

/* Staging variables, rounded, to the stage that begins at `stage`. */
static void deliver_part(matrix *t, part *p, gale__ir_val stage)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    gale_type type = (gale_type)e->schedule->narrow;
    gale__ir_val to = add32(ir, stage, p->base);
    int vector = e->outer_vector > 1 ? e->outer_vector : e->inner_vector, n_inner = e->inner_blocks * e->inner_vector;
    for (int b = 0; b < e->outer_blocks; b++)
        for (int i = 0; i < e->inner_blocks; i++) {
            gale__ir_val codes[4] = {0};
            for (int v = 0; v < vector; v++) {
                int o = e->outer_vector > 1 ? b * e->outer_vector + v : b,
                    k = e->outer_vector > 1 ? i : i * e->inner_vector + v;
                codes[v] = gale__ir_encode(ir, type, get(ir, p->staging[o * n_inner + k]));
            }
            gale__ir_val at = op32(ir, GALE__ADD, to, offset_of(p, (uint32_t)b, (uint32_t)i));
            gale__ir_set_lanes(ir, t->shared, GALE_U16, vector, at, codes);
        }
}

static void issue(matrix *t, gale__ir_val stage, gale__ir_val k)
{
    for (int w = 0; w < 2; w++)
        if (t->parts[w].access >= 0) copy_part(t, &t->parts[w], stage, k);
    if (t->tiling.emit.schedule->async) gale__ir_add(t->tiling.emit.ir, (gale__ir_instr){.op = GALE__IR_COMMIT});
}
static void fetch(matrix *t, gale__ir_val k)
{
    for (int w = 0; w < 2; w++)
        if (t->parts[w].access < 0) fetch_part(t, &t->parts[w], k);
}
static void deliver(matrix *t, gale__ir_val stage)
{
    for (int w = 0; w < 2; w++)
        if (t->parts[w].access < 0) deliver_part(t, &t->parts[w], stage);
}
static void wait_for_copies(matrix *t, uint32_t groups)
{
    if (t->tiling.emit.schedule->async)
        gale__ir_add(t->tiling.emit.ir, (gale__ir_instr){.op = GALE__IR_WAIT, .imm = groups});
}

/* --- products --- */

/* Matrix i of this subgroup's rows (which 0) or columns, k elements into the stage. */
static gale__ir_val load_matrix(matrix *t, int which, uint32_t i, gale__ir_val stage, gale__ir_val k)
{
    gale__ir *ir = t->tiling.emit.ir;
    const gale__schedule *s = t->tiling.emit.schedule;
    const part *p = &t->parts[which];
    uint32_t micro = which ? s->micro_n : s->micro_m;
    gale__ir_val side = op32(ir, GALE__ADD, op32(ir, GALE__MUL, which ? t->column : t->row, micro), i * 16);
    gale__ir_val along = s->fast[which] ? k : side, across = s->fast[which] ? side : k;
    gale__ir_val at = add32(ir, op32(ir, GALE__MUL, across, p->row), along);
    return gale__ir_add(ir, (gale__ir_instr){.op = which ? GALE__IR_MATRIX_B : GALE__IR_MATRIX_A,
                                .type = s->narrow,
                                .mem = which ? s->fast[which] : !s->fast[which],
                                .a = t->shared,
                                .b = add32(ir, stage, op32(ir, GALE__ADD, at, p->at)),
                                .imm = p->row});
}

static void effect(gale__ir *ir, int op) { gale__ir_add(ir, (gale__ir_instr){.op = (uint8_t)op}); }

/* Other groups of the same unit keep it busy while this one waits; ptxas takes the instructions one by one where the
 * sums are still on their way around a loop. */
static void multiply_groups(matrix *t, gale__ir_val stage)
{
    gale__ir *ir = t->tiling.emit.ir;
    const gale__schedule *s = t->tiling.emit.schedule;
    gale__ir_val rows = op32(ir, GALE__MUL, op32(ir, GALE__IR_DIV, t->row, 4), 64 * s->tile_k);
    effect(ir, GALE__IR_GROUP_BEGIN);
    for (uint32_t k = 0; k < s->tile_k; k += 16)
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_GROUP_ADD,
                             .type = s->narrow,
                             .a = t->sums,
                             .b = t->shared,
                             .c = add32(ir, stage, op32(ir, GALE__ADD, rows, t->parts[0].at + k)),
                             .d = op32(ir, GALE__ADD, stage, t->parts[1].at + k),
                             .imm = s->micro_n / 16u});
    effect(ir, GALE__IR_GROUP_END);
    effect(ir, GALE__IR_GROUP_WAIT);
}

static void multiply(matrix *t, gale__ir_val stage)
{
    gale__ir *ir = t->tiling.emit.ir;
    const gale__schedule *s = t->tiling.emit.schedule;
    if (s->groups) {
        multiply_groups(t, stage);
        return;
    }
    uint32_t rows = s->micro_m / 16, columns = s->micro_n / 16;
    gale__ir_val b[16], k = loop(ir, s->tile_k, 16, true);
    for (uint32_t j = 0; j < columns; j++) b[j] = load_matrix(t, 1, j, stage, k);
    for (uint32_t i = 0; i < rows; i++) {
        gale__ir_val a = load_matrix(t, 0, i, stage, k);
        for (uint32_t j = 0; j < columns; j++)
            gale__ir_add(
                ir, (gale__ir_instr){.op = GALE__IR_SUMS_ADD, .a = t->sums, .b = a, .c = b[j], .imm = i * columns + j});
    }
    gale__emit_close(&t->tiling.emit);
}

/* The next stage, and after the last one the first. */
static void advance(matrix *t, gale__ir_val var)
{
    gale__ir *ir = t->tiling.emit.ir;
    gale__ir_val next = op32(ir, GALE__ADD, get(ir, var), t->stage);
    gale__ir_val past =
        gale__ir_op2(ir, GALE__GE, GALE_BOOL, next, gale__ir_u32(ir, t->stage * t->tiling.emit.schedule->stages));
    set(ir, var, gale__ir_op3(ir, GALE__SELECT, GALE_U32, past, gale__ir_u32(ir, 0), next));
}

/* A stage is written while the one after it is read, and after the barrier that follows its last reading. */
static void walk_k(matrix *t)
{
    gale__ir *ir = t->tiling.emit.ir;
    const gale__schedule *s = t->tiling.emit.schedule;
    uint32_t ahead = s->stages - 1u;
    for (uint32_t i = 0; i < (uint32_t)(s->micro_m / 16) * (s->micro_n / 16); i++)
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SUMS_ZERO, .a = t->sums, .imm = i});
    gale__ir_val first = loop(ir, ahead, 1, false);
    gale__ir_val at = op32(ir, GALE__MUL, first, t->stage), from = op32(ir, GALE__MUL, first, s->tile_k);
    issue(t, at, from);
    fetch(t, from);
    deliver(t, at);
    gale__emit_close(&t->tiling.emit);
    set(ir, t->read, gale__ir_u32(ir, 0));
    set(ir, t->write, gale__ir_u32(ir, ahead * t->stage));
    gale__ir_val k = gale__emit_for(&t->tiling.emit, t->tiling.emit.layout.inner_count, s->tile_k);
    gale__ir_val next = op32(ir, GALE__ADD, k, ahead * s->tile_k);
    wait_for_copies(t, ahead - 1);
    if (s->groups) effect(ir, GALE__IR_GROUP_FENCE);
    barrier(ir);
    issue(t, get(ir, t->write), next);
    fetch(t, next);
    multiply(t, get(ir, t->read));
    deliver(t, get(ir, t->write));
    advance(t, t->read);
    advance(t, t->write);
    gale__emit_close(&t->tiling.emit);
    wait_for_copies(t, 0);
    barrier(ir);
}

/* --- results --- */

/* Rows `band * slice` and on of this subgroup's part, to where its results are. */
static void store_sums(matrix *t, uint32_t band, gale__ir_val at, uint32_t row)
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
static void place_result(matrix *t, int b, gale__ir_val row, gale__ir_val column)
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

/* at[b]: where the sums of result number b are in work-group memory. */
static void emit_results(matrix *t, const gale__ir_val *at)
{
    gale__emit *e = &t->tiling.emit;
    const gale__nest *nest = e->nest;
    gale__ir_val lanes[4];
    gale__emit_acc sums[4 * GALE__EMIT_OUTER_BLOCKS];
    for (int b = 0; b < e->outer_blocks; b++) {
        gale__ir_get_lanes(e->ir, t->results, GALE_F32, e->outer_vector, at[b], lanes);
        for (int i = 0; i < e->outer_vector; i++) sums[b * e->outer_vector + i] = (gale__emit_acc){lanes[i], 0};
    }
    gale__emit_reduce_finish(e, t->tiling.contraction.reduce, sums);
    for (int i = 0; i < nest->n_stores; i++) e->wanted[nest->stores[i].value] = 1;
    gale__nest_mark_cone(nest, e->wanted);
    for (int i = 0; i < nest->n_code; i++)
        if (e->wanted[i] && nest->code[i].op != GALE__NEST_REDUCE) gale__emit_instr(e, i);
    for (int i = 0; i < nest->n_stores; i++) gale__emit_store(e, &nest->stores[i], 0);
}

/* What a subgroup has in work-group memory: from where, and the row and column of the tile that it begins with. */
typedef struct result_part {
    gale__ir_val at, row, column, lane;
    uint32_t stride, per; /* elements from row to row; vectors of a row */
} result_part;

static void place_at(matrix *t, const result_part *r, int b, gale__ir_val row, gale__ir_val column, gale__ir_val *at)
{
    gale__ir *ir = t->tiling.emit.ir;
    place_result(t, b, add32(ir, r->row, row), add32(ir, r->column, column));
    *at = add32(ir, r->at, add32(ir, op32(ir, GALE__MUL, row, r->stride), column));
}

/* Threads take rows one after the other, always the same columns. */
static void store_columns(matrix *t, const result_part *r)
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
static void store_vectors(matrix *t, const result_part *r)
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

static void subgroup_barrier(gale__ir *ir) { gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_BARRIER, .imm = 2}); }

/* A subgroup stores what it computed, through work-group memory of its own, and waits for no other. */
static void store_results(matrix *t)
{
    gale__emit *e = &t->tiling.emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    uint32_t bands = s->micro_m / s->slice;
    result_part r = {.stride = s->micro_n + RESULT_PAD, .per = s->micro_n / s->vector};
    r.lane = op32(ir, GALE__IR_REM, e->tid, s->lanes);
    r.at = op32(ir, GALE__MUL, op32(ir, GALE__IR_DIV, e->tid, s->lanes), s->slice * r.stride);
    r.column = op32(ir, GALE__MUL, t->column, s->micro_n);
    gale__ir_val band = loop(ir, bands, 1, false);
    r.row = add32(ir, op32(ir, GALE__MUL, t->row, s->micro_m), op32(ir, GALE__MUL, band, s->slice));
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

static void declare(matrix *t)
{
    gale__ir *ir = t->tiling.emit.ir;
    const gale__schedule *s = t->tiling.emit.schedule;
    uint32_t parts, results, columns = s->tile_n / s->micro_n;
    gale__schedule_matrix_shared(s, &parts, &results);
    gale__ir_val subgroup = op32(ir, GALE__IR_DIV, t->tiling.emit.tid, s->lanes);
    t->row = op32(ir, GALE__IR_DIV, subgroup, columns);
    t->column = op32(ir, GALE__IR_REM, subgroup, columns);
    t->shared = gale__ir_add(
        ir, (gale__ir_instr){.op = GALE__IR_SHARED, .type = GALE_U16, .imm = (parts > results ? parts : results) / 2});
    t->results =
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SHARED, .type = GALE_F32, .a = t->shared, .imm = results / 4});
    t->sums = gale__ir_add(
        ir, (gale__ir_instr){
                .op = GALE__IR_SUMS, .type = GALE_F32, .imm = (uint64_t)(s->micro_m / 16) * (s->micro_n / 16)});
    t->read = variable(ir, GALE_U32);
    t->write = variable(ir, GALE_U32);
}

/* A group waits for memory and at barriers: another one on the same unit computes meanwhile.  512 threads fit if none
 * needs more than 128 registers, which sums of 64 leave room for. */
static uint8_t groups_at_once(const gale__schedule *s)
{
    uint32_t group[3];
    gale__schedule_group(s, group);
    bool fits = s->micro_m * s->micro_n / s->lanes <= 64 && s->async == 3;
    return (uint8_t)(fits && group[0] <= 256 ? 512 / group[0] : 0);
}

gale_status gale__schedule_build_matrix(const gale__nest *nest, const gale__schedule *s, gale__ir *ir)
{
    gale_status status;
    matrix *t = gale__calloc(1, sizeof *t);
    if (!t) return GALE_NO_MEMORY;
    t->tiling.emit.inner_blocks = t->tiling.emit.inner_vector = 1;
    t->tiling.emit.outer_blocks = s->steps;
    t->tiling.emit.outer_vector = s->vector;
    gale__nest_contraction(nest, &t->tiling.contraction);
    ir->subgroup = s->lanes;
    ir->at_once = groups_at_once(s);
    GALE_GO(gale__emit_begin(&t->tiling.emit, nest, s, ir));
    t->tiling.emit.vector_dim = gale__schedule_matrix_vector_dim(nest, s, &t->tiling.contraction);
    gale__emit_tile_place_group(&t->tiling);
    for (int w = 0; w < 2; w++) {
        GALE_GO(begin_part(t, w));
        place_part(t, &t->parts[w]);
    }
    declare(t);
    walk_k(t);
    store_results(t);
done:
    for (int w = 0; w < 2; w++) gale__emit_end(&t->parts[w].emit);
    gale__emit_end(&t->tiling.emit);
    gale__free(t);
    return status;
}
