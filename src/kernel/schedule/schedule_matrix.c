/* MATRIX: contractions by matrix units.  A group computes a tile of the result, each of its subgroups a part of the
 * tile in matrices of 16 x 16.  Parts of both operands are in work-group memory, `stages` of them: while one is
 * multiplied the others are on their way, copied directly if possible, else through registers, where the
 * operand's own instructions run.  Bytes lie there along k, since nothing turns them later: those that run along a
 * side in memory are turned by fours on their way.  At the end each subgroup passes its sums through work-group memory,
 * some rows at a time, to threads that take neighbours, run the instructions after the sum and store. */
#include "kernel/schedule/schedule_emit.h"
#include "kernel/schedule/schedule_ir.h"

/* One operand on its way into work-group memory: rows of k (fast) or of the tile's side. */
typedef struct part {
    gale__emit emit;
    int which, core, access;                /* access: copied directly; -1: through registers */
    gale_type type;                         /* of the core */
    bool turns;                             /* bytes that run along the side in memory, and along k here */
    uint32_t size, row, at;                 /* side of the tile; elements from row to row; where it begins in a stage */
    uint32_t per;                           /* vectors along a row */
    gale__ir_val first_k, first_side, base; /* of this thread; base: element inside the part */
    uint32_t step_k, step_side;
    gale__ir_val there[GALE__EMIT_OUTER_BLOCKS]; /* copied: whether the row or column is one; 0: always */
    gale__ir_val fill;                           /* copied, with padding that is not 0: four bytes of it */
    gale__ir_val staging[128];                   /* variables */
} part;

typedef struct matrix {
    gale__matrix_tile tile;
    part parts[2];
    uint32_t stage; /* elements of a stage */
    gale__ir_val shared, read, write;
} matrix;

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

/* --- operands --- */

/* How a part is divided among the threads: neighbours in memory go to neighbouring threads. */
static gale_status begin_part(matrix *t, int which)
{
    const gale__schedule *s = t->tile.tiling.emit.schedule;
    part *p = &t->parts[which];
    int operand = gale__schedule_tile_operand(s, &t->tile.tiling.contraction, which);
    uint32_t group[3], wide = s->wide[which];
    gale__schedule_group(s, group);
    p->which = which;
    p->core = gale__schedule_matrix_core(t->tile.tiling.emit.nest, operand);
    p->access = s->async >> which & 1 ? gale__schedule_matrix_access(t->tile.tiling.emit.nest, operand) : -1;
    p->type = (gale_type)t->tile.tiling.emit.nest->code[p->core].type;
    p->size = which ? s->tile_n : s->tile_m;
    bool along_k = gale__schedule_matrix_along_k(s, which);
    p->turns = along_k && !s->fast[which];
    p->row = (along_k ? s->tile_k : p->size) + (s->groups ? 0 : gale__schedule_matrix_unit(s));
    p->at = t->stage;
    t->stage += p->row * (along_k ? p->size : s->tile_k);
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
        p->step_k = across; /* turned: four neighbours along k for each thread */
        p->emit.inner_blocks = (int)(s->tile_k / across);
    }
    GALE_TRY(gale__emit_begin_within(&p->emit, &t->tile.tiling.emit));
    p->emit.vector_dim =
        gale__schedule_tile_vector_dim(t->tile.tiling.emit.nest, s, &t->tile.tiling.contraction, which);
    return GALE_OK;
}

/* Padding of copies: a zero point, where it is not 0. */
static void place_fill(part *p)
{
    const gale__nest_access *a = &p->emit.nest->accesses[p->access];
    uint32_t byte = (uint32_t)(a->fill & 255);
    if (a->n_guards && byte) p->fill = gale__ir_u32(p->emit.ir, byte * 0x01010101u);
}

/* Rows or columns past the end repeat the last ones: what they give is never stored.  Where most of them would, none
 * is fetched instead, since a line of memory that all groups ask for again and again is slow. */
static void place_part(matrix *t, part *p)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    uint32_t wide = s->wide[p->which], unit = s->fast[p->which] ? 1 : wide;
    gale__ir_val along = op32(ir, GALE__MUL, op32(ir, GALE__IR_REM, e->tid, p->per), wide);
    gale__ir_val across = op32(ir, GALE__IR_DIV, e->tid, p->per);
    p->first_k = s->fast[p->which] ? along : p->turns ? op32(ir, GALE__MUL, across, 4) : across;
    p->first_side = s->fast[p->which] ? across : along;
    gale__ir_val lies = along; /* in the row: the order that GROUP_ADD wants, the same in every eighth row */
    if (s->groups)
        lies = op32(ir, GALE__MUL,
            gale__ir_op2(
                ir, GALE__XOR, GALE_U32, op32(ir, GALE__IR_REM, e->tid, p->per), op32(ir, GALE__AND, across, 7)),
            wide);
    if (p->turns) p->base = add32(ir, op32(ir, GALE__MUL, along, p->row), p->first_k);
    else p->base = add32(ir, op32(ir, GALE__MUL, across, p->row), lies);
    p->base = op32(ir, GALE__ADD, p->base, p->at);
    gale__ir_val count = p->which ? e->layout.n : e->layout.m,
                 top = gale__ir_op2(ir, GALE__SUB, e->index, count, gale__emit_index(e, unit));
    for (int b = 0; b < e->outer_blocks; b++) {
        gale__ir_val coord[GALE__NEST_DIMS], at = op32(ir, GALE__ADD, p->first_side, (uint32_t)b * p->step_side);
        at = gale__emit_add(e, t->tile.tiling.origin[p->which], gale__emit_widen(e, at));
        if (s->few[p->which]) p->there[b] = gale__ir_op2(ir, GALE__LT, GALE_BOOL, at, count);
        gale__emit_tile_clear_coords(&t->tile.tiling, coord);
        gale__emit_tile_coords(&t->tile.tiling, gale__ir_op2(ir, GALE__IR_MIN, e->index, at, top),
            gale__schedule_tile_kind(s, p->which), coord);
        gale__emit_outer_place(e, b, coord, e->nest->n_outer);
    }
    if (p->access >= 0) {
        place_fill(p);
        return;
    }
    e->wanted[p->core] = 1;
    gale__nest_mark_cone(e->nest, e->wanted);
    for (int i = 0; i < e->nest->n_code; i++)
        if (e->wanted[i] && !e->nest->code[i].inner) gale__emit_instr(e, i);
    for (int l = 0; l < e->lanes; l++) p->staging[l] = variable(ir, gale__compute_type(p->type));
}

/* Positions of the inner blocks for the part that starts at k; past the end the last point, which is not used. */
static void place_inner(matrix *t, part *p, gale__ir_val k)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    for (int b = 0; b < e->inner_blocks; b++) {
        uint32_t block = (uint32_t)b, further = p->turns ? block / 4 * 4 * p->step_k + block % 4 : block * p->step_k;
        gale__ir_val at = add32(ir, k, op32(ir, GALE__ADD, p->first_k, further)), count = e->layout.inner_count;
        e->inner_valid[b] = gale__ir_op2(ir, GALE__LT, GALE_BOOL, at, count);
        if (p->access < 0)
            at = gale__ir_op2(ir, GALE__IR_MIN, GALE_U32, at, op32(ir, GALE__SUB, count, (uint32_t)e->inner_vector));
        gale__emit_tile_coords(&t->tile.tiling, gale__emit_widen(e, at), 'K', e->inner_coord[b]);
    }
}

static uint32_t offset_of(const part *p, uint32_t outer, uint32_t inner)
{
    return p->step_side ? outer * p->step_side * p->row : inner * p->step_k * p->row;
}

/* 16 bytes or less, or zeros where there is no such row or k; where the guards say no, the padding. */
static void copy_group(matrix *t, part *p, gale__ir_val to, gale__ir_val from, gale__ir_val there, gale__ir_val ok)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    bool filled = p->fill && ok;
    int words = 4 * e->schedule->wide[p->which] / (int)gale__schedule_matrix_unit(e->schedule);
    gale__ir_instr in = {.op = GALE__IR_COPY,
        .width = (uint8_t)words,
        .a = t->shared,
        .b = to,
        .c = from,
        .d = filled ? there : gale__emit_and(e, there, ok),
        .imm = (uint64_t)e->nest->accesses[p->access].buffer};
    if (!filled) {
        gale__ir_add(ir, in);
        return;
    }
    gale__ir_val outside = gale__ir_op1(ir, GALE__NOT, GALE_BOOL, ok);
    gale__ir_val pads = gale__ir_op2(ir, GALE__AND, GALE_BOOL, there, outside);
    gale__emit_if(e, pads);
    gale__ir_val byte = op32(ir, GALE__AND, p->fill, 255);
    if (words > 1)
        gale__ir_set_lanes(
            ir, t->shared, GALE_U32, words, to, (const gale__ir_val[]){p->fill, p->fill, p->fill, p->fill});
    else gale__ir_set_lanes(ir, t->shared, GALE_U8, 4, to, (const gale__ir_val[]){byte, byte, byte, byte});
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ELSE});
    gale__ir_add(ir, in);
    gale__emit_close(e);
}

/* Copies the part from k on to the stage that begins at `stage`. */
static void copy_part(matrix *t, part *p, gale__ir_val stage, gale__ir_val k)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    gale__ir_val to = add32(ir, stage, p->base);
    place_inner(t, p, k);
    for (int b = 0; b < e->outer_blocks; b++)
        for (int i = 0; i < e->inner_blocks; i++) {
            gale__ir_val ok, from = gale__emit_address(e, p->access, b, i, &ok);
            copy_group(t, p, op32(ir, GALE__ADD, to, offset_of(p, (uint32_t)b, (uint32_t)i)), from,
                gale__emit_and(e, p->there[b], e->inner_valid[i]), ok);
        }
}

/* The operand's values from k on, into the staging variables; what is past the end becomes 0 in both operands. */
static void fetch_part(matrix *t, part *p, gale__ir_val k)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    gale_type type = gale__compute_type(p->type);
    gale__ir_val none = gale__ir_const(ir, type, 0);
    place_inner(t, p, k);
    gale__emit_inner_cone(e);
    int n_inner = e->inner_blocks * e->inner_vector;
    for (int o = 0; o < e->outer_blocks * e->outer_vector; o++)
        for (int i = 0; i < n_inner; i++) {
            gale__ir_val v = gale__emit_get(e, p->core, o, i), valid = e->inner_valid[i / e->inner_vector];
            set(ir, p->staging[o * n_inner + i], gale__ir_op3(ir, GALE__SELECT, type, valid, v, none));
        }
}

/* What a staging variable is in work-group memory. */
static gale__ir_val code_of(part *p, int lane)
{
    gale__ir *ir = p->emit.ir;
    gale__ir_val v = get(ir, p->staging[lane]);
    if (!gale__schedule_matrix_bytes(p->emit.schedule))
        return gale__ir_encode(ir, (gale_type)p->emit.schedule->narrow, v);
    return p->type == GALE_I8 ? gale__ir_op1(ir, GALE__BITCAST, GALE_U32, v) : v;
}

/* Four neighbours along k of each of the thread's rows or columns. */
static void deliver_turned(matrix *t, part *p, gale__ir_val stage)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    gale__ir_val to = add32(ir, stage, p->base);
    for (int o = 0; o < e->outer_vector; o++)
        for (int i = 0; i < e->inner_blocks; i += 4) {
            gale__ir_val codes[4];
            for (int v = 0; v < 4; v++) codes[v] = code_of(p, o * e->inner_blocks + i + v);
            uint32_t further = (uint32_t)o * p->row + (uint32_t)i * p->step_k;
            gale__ir_set_lanes(ir, t->shared, GALE_U8, 4, op32(ir, GALE__ADD, to, further), codes);
        }
}

/* Staging variables, rounded, to the stage that begins at `stage`. */
static void deliver_part(matrix *t, part *p, gale__ir_val stage)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    gale_type type = gale__schedule_matrix_bytes(e->schedule) ? GALE_U8 : GALE_U16;
    gale__ir_val to = add32(ir, stage, p->base);
    int vector = e->outer_vector > 1 ? e->outer_vector : e->inner_vector, n_inner = e->inner_blocks * e->inner_vector;
    for (int b = 0; b < e->outer_blocks; b++)
        for (int i = 0; i < e->inner_blocks; i++) {
            gale__ir_val codes[4] = {0};
            for (int v = 0; v < vector; v++) {
                int o = e->outer_vector > 1 ? b * e->outer_vector + v : b,
                    k = e->outer_vector > 1 ? i : i * e->inner_vector + v;
                codes[v] = code_of(p, o * n_inner + k);
            }
            gale__ir_val at = op32(ir, GALE__ADD, to, offset_of(p, (uint32_t)b, (uint32_t)i));
            gale__ir_set_lanes(ir, t->shared, type, vector, at, codes);
        }
}

static void issue(matrix *t, gale__ir_val stage, gale__ir_val k)
{
    for (int w = 0; w < 2; w++)
        if (t->parts[w].access >= 0) copy_part(t, &t->parts[w], stage, k);
    if (t->tile.tiling.emit.schedule->async)
        gale__ir_add(t->tile.tiling.emit.ir, (gale__ir_instr){.op = GALE__IR_COMMIT});
}
static void fetch(matrix *t, gale__ir_val k)
{
    for (int w = 0; w < 2; w++)
        if (t->parts[w].access < 0) fetch_part(t, &t->parts[w], k);
}
static void deliver(matrix *t, gale__ir_val stage)
{
    for (int w = 0; w < 2; w++)
        if (t->parts[w].access < 0) (t->parts[w].turns ? deliver_turned : deliver_part)(t, &t->parts[w], stage);
}
static void wait_for_copies(matrix *t, uint32_t groups)
{
    if (t->tile.tiling.emit.schedule->async)
        gale__ir_add(t->tile.tiling.emit.ir, (gale__ir_instr){.op = GALE__IR_WAIT, .imm = groups});
}

/* --- products --- */

/* Matrix i of this subgroup's rows (which 0) or columns, k elements into the stage. */
static gale__ir_val load_matrix(matrix *t, int which, uint32_t i, gale__ir_val stage, gale__ir_val k)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    const gale__schedule *s = t->tile.tiling.emit.schedule;
    const part *p = &t->parts[which];
    uint32_t micro = which ? s->micro_n : s->micro_m;
    gale__ir_val side = op32(ir, GALE__ADD, op32(ir, GALE__MUL, which ? t->tile.column : t->tile.row, micro), i * 16);
    bool along_k = gale__schedule_matrix_along_k(s, which);
    gale__ir_val along = along_k ? k : side, across = along_k ? side : k;
    gale__ir_val at = add32(ir, op32(ir, GALE__MUL, across, p->row), along);
    return gale__ir_add(ir, (gale__ir_instr){.op = which ? GALE__IR_MATRIX_B : GALE__IR_MATRIX_A,
                                .type = gale__schedule_matrix_bytes(s) ? (uint8_t)p->type : s->narrow,
                                .mem = which ? along_k : !along_k,
                                .a = t->shared,
                                .b = add32(ir, stage, op32(ir, GALE__ADD, at, p->at)),
                                .imm = p->row});
}

static void effect(gale__ir *ir, int op) { gale__ir_add(ir, (gale__ir_instr){.op = (uint8_t)op}); }

/* Other groups of the same unit keep it busy while this one waits; ptxas takes the instructions one by one where the
 * sums are still on their way around a loop. */
static void multiply_groups(matrix *t, gale__ir_val stage)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    const gale__schedule *s = t->tile.tiling.emit.schedule;
    gale__ir_val rows = op32(ir, GALE__MUL, op32(ir, GALE__IR_DIV, t->tile.row, 4), 64 * s->tile_k);
    effect(ir, GALE__IR_GROUP_BEGIN);
    bool bytes = gale__schedule_matrix_bytes(s);
    for (uint32_t k = 0; k < s->tile_k; k += 2 * gale__schedule_matrix_unit(s))
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_GROUP_ADD,
                             .type = bytes ? (uint8_t)t->parts[0].type : s->narrow,
                             .mem = bytes ? (uint8_t)t->parts[1].type : 0,
                             .a = t->tile.sums,
                             .b = t->shared,
                             .c = add32(ir, stage, op32(ir, GALE__ADD, rows, t->parts[0].at + k)),
                             .d = op32(ir, GALE__ADD, stage, t->parts[1].at + k),
                             .imm = s->micro_n / 16u});
    effect(ir, GALE__IR_GROUP_END);
    effect(ir, GALE__IR_GROUP_WAIT);
}

static void multiply(matrix *t, gale__ir_val stage)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    const gale__schedule *s = t->tile.tiling.emit.schedule;
    if (s->groups) {
        multiply_groups(t, stage);
        return;
    }
    uint32_t rows = s->micro_m / 16, columns = s->micro_n / 16;
    gale__ir_val b[16], k = loop(ir, s->tile_k, 2 * gale__schedule_matrix_unit(s), true);
    for (uint32_t j = 0; j < columns; j++) b[j] = load_matrix(t, 1, j, stage, k);
    for (uint32_t i = 0; i < rows; i++) {
        gale__ir_val a = load_matrix(t, 0, i, stage, k);
        for (uint32_t j = 0; j < columns; j++)
            gale__ir_add(
                ir, (gale__ir_instr){
                        .op = GALE__IR_SUMS_ADD, .a = t->tile.sums, .b = a, .c = b[j], .imm = i * columns + j});
    }
    gale__emit_close(&t->tile.tiling.emit);
}

/* The next stage, and after the last one the first. */
static void advance(matrix *t, gale__ir_val var)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    gale__ir_val next = op32(ir, GALE__ADD, get(ir, var), t->stage);
    gale__ir_val past =
        gale__ir_op2(ir, GALE__GE, GALE_BOOL, next, gale__ir_u32(ir, t->stage * t->tile.tiling.emit.schedule->stages));
    set(ir, var, gale__ir_op3(ir, GALE__SELECT, GALE_U32, past, gale__ir_u32(ir, 0), next));
}

/* A stage is written while the one after it is read, and after the barrier that follows its last reading. */
static void walk_k(matrix *t)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    const gale__schedule *s = t->tile.tiling.emit.schedule;
    uint32_t ahead = s->stages - 1u;
    for (uint32_t i = 0; i < (uint32_t)(s->micro_m / 16) * (s->micro_n / 16); i++)
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SUMS_ZERO, .a = t->tile.sums, .imm = i});
    gale__ir_val first = loop(ir, ahead, 1, false);
    gale__ir_val at = op32(ir, GALE__MUL, first, t->stage), from = op32(ir, GALE__MUL, first, s->tile_k);
    issue(t, at, from);
    fetch(t, from);
    deliver(t, at);
    gale__emit_close(&t->tile.tiling.emit);
    set(ir, t->read, gale__ir_u32(ir, 0));
    set(ir, t->write, gale__ir_u32(ir, ahead * t->stage));
    gale__ir_val k = gale__emit_for(&t->tile.tiling.emit, t->tile.tiling.emit.layout.inner_count, s->tile_k);
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
    gale__emit_close(&t->tile.tiling.emit);
    wait_for_copies(t, 0);
    barrier(ir);
}

static void declare(matrix *t)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    const gale__schedule *s = t->tile.tiling.emit.schedule;
    uint32_t parts, results, columns = s->tile_n / s->micro_n;
    gale__schedule_matrix_shared(s, &parts, &results);
    gale__ir_val subgroup = op32(ir, GALE__IR_DIV, t->tile.tiling.emit.tid, s->lanes);
    t->tile.row = op32(ir, GALE__IR_DIV, subgroup, columns);
    t->tile.column = op32(ir, GALE__IR_REM, subgroup, columns);
    bool bytes = gale__schedule_matrix_bytes(s);
    uint8_t sum = bytes ? GALE_I32 : GALE_F32;
    t->shared = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SHARED,
                                     .type = bytes ? GALE_U8 : GALE_U16,
                                     .imm = (parts > results ? parts : results) / (bytes ? 1 : 2)});
    t->tile.results =
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SHARED, .type = sum, .a = t->shared, .imm = results / 4});
    t->tile.sums = gale__ir_add(
        ir, (gale__ir_instr){.op = GALE__IR_SUMS, .type = sum, .imm = (uint64_t)(s->micro_m / 16) * (s->micro_n / 16)});
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
    t->tile.tiling.emit.inner_blocks = t->tile.tiling.emit.inner_vector = 1;
    t->tile.tiling.emit.outer_blocks = s->steps;
    t->tile.tiling.emit.outer_vector = s->vector;
    gale__nest_contraction(nest, &t->tile.tiling.contraction);
    ir->subgroup = s->lanes;
    ir->at_once = groups_at_once(s);
    GALE_GO(gale__emit_begin(&t->tile.tiling.emit, nest, s, ir));
    t->tile.tiling.emit.vector_dim = gale__schedule_matrix_vector_dim(nest, s, &t->tile.tiling.contraction);
    gale__emit_tile_place_group(&t->tile.tiling);
    for (int w = 0; w < 2; w++) {
        GALE_GO(begin_part(t, w));
        place_part(t, &t->parts[w]);
    }
    declare(t);
    walk_k(t);
    gale__matrix_store(&t->tile);
done:
    for (int w = 0; w < 2; w++) gale__emit_end(&t->parts[w].emit);
    gale__emit_end(&t->tile.tiling.emit);
    gale__free(t);
    return status;
}
