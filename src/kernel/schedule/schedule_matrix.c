/* MATRIX: contractions by matrix units.  A group computes a tile of the result, each of its subgroups a part of the
 * tile in matrices of 16 x 16.  Parts of both operands are in work-group memory, `stages` of them: while one is
 * multiplied the others are on their way (schedule_matrix_parts.c).  At the end each subgroup passes its sums through
 * work-group memory, some rows at a time, to threads that take neighbours, run the instructions after the sum and
 * store. */
#include "kernel/schedule/schedule_matrix.h"

/* Whether an operand is there before the kernel before this one ends. */
static bool is_settled(const gale__matrix *t, int which)
{
    const gale__emit *e = &t->tile.tiling.emit;
    int access = t->parts[which].access;
    return access >= 0 && gale__ir_marks(e->schedule->settled, (uint64_t)e->nest->accesses[access].buffer);
}

/* Sends off what both operands have for a stage; `rest`: without what went before. */
static void issue(gale__matrix *t, gale__ir_val stage, gale__ir_val k, bool rest)
{
    for (int w = 0; w < 2; w++)
        if (t->parts[w].access >= 0 && !(rest && is_settled(t, w))) gale__matrix_part_copy(t, &t->parts[w], stage, k);
    if (t->tile.tiling.emit.schedule->async) effect(t->tile.tiling.emit.ir, GALE__IR_COMMIT, 0);
}
static void wait_for_copies(gale__matrix *t, uint32_t groups)
{
    if (t->tile.tiling.emit.schedule->async) effect(t->tile.tiling.emit.ir, GALE__IR_WAIT, groups);
}

/* --- products --- */

/* Matrix i of this subgroup's rows (which 0) or columns, k elements into the stage. */
static gale__ir_val load_matrix(
    gale__matrix *t, int which, uint32_t i, uint32_t share, gale__ir_val stage, gale__ir_val k)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    const gale__schedule *s = t->tile.tiling.emit.schedule;
    const gale__matrix_part *p = &t->parts[which];
    uint32_t micro = which ? s->micro_n : s->micro_m;
    gale__ir_val side = op32(ir, GALE__ADD, op32(ir, GALE__MUL, which ? t->tile.column : t->tile.row, micro), i * 16);
    bool along_k = gale__schedule_matrix_along_k(s, which);
    gale__ir_val along = along_k ? k : side, across = along_k ? side : k;
    gale__ir_val at = add32(ir, op32(ir, GALE__MUL, across, p->row), along);
    return gale__ir_add(
        ir, (gale__ir_instr){.op = which ? GALE__IR_MATRIX_B : GALE__IR_MATRIX_A,
                .type = gale__schedule_matrix_bytes(s) ? (uint8_t)p->type : gale__schedule_matrix_type(s),
                .mem = which ? along_k : !along_k,
                .a = t->shared,
                .b = add32(ir, stage, op32(ir, GALE__ADD, at, p->at + share * p->share)),
                .imm = p->row});
}

void gale__matrix_zero_sums(gale__matrix *t)
{
    const gale__schedule *s = t->tile.tiling.emit.schedule;
    for (uint32_t i = 0; i < (uint32_t)(s->micro_m / 16) * (s->micro_n / 16); i++)
        gale__ir_add(t->tile.tiling.emit.ir, (gale__ir_instr){.op = GALE__IR_SUMS_ZERO, .a = t->tile.sums, .imm = i});
}

void gale__matrix_add_groups(gale__matrix *t, gale__ir_val stage, gale__ir_val rows)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    const gale__schedule *s = t->tile.tiling.emit.schedule;
    uint32_t columns = s->micro_n / 16u;
    bool bytes = gale__schedule_matrix_bytes(s);
    const gale__matrix_pair *pairs;
    uint64_t narrow = (uint64_t)(s->tile_k < 8 * gale__schedule_matrix_unit(s)) << 16;
    uint32_t step = 2 * gale__schedule_matrix_unit(s), steps = s->tile_k / step, bands = s->micro_m / 16u;
    uint32_t count = (uint32_t)gale__matrix_pairs(s, &pairs) * steps;
    gale__ir_val a[24], b[24]; /* all of them first, so that the products follow each other */
    for (uint32_t n = 0; n < count * bands; n++) {
        const gale__matrix_part *p = t->parts;
        gale__matrix_pair pair = pairs[n / bands / steps];
        uint32_t k = n / bands % steps * step, row = n % bands * GROUP_ROWS * s->tile_k;
        a[n] = add32(ir, stage, op32(ir, GALE__ADD, rows, p[0].at + pair.a * p[0].share + row + k));
        b[n] = op32(ir, GALE__ADD, s->keep ? t->kept : stage, p[1].at + pair.b * p[1].share + k);
    }
    effect(ir, GALE__IR_GROUP_BEGIN, 0);
    for (uint32_t n = 0; n < count * bands; n++)
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_GROUP_ADD,
                             .type = bytes ? (uint8_t)t->parts[0].type : gale__schedule_matrix_type(s),
                             .mem = bytes ? (uint8_t)t->parts[1].type : 0,
                             .a = t->tile.sums,
                             .b = t->shared,
                             .c = a[n],
                             .d = b[n],
                             .imm = (uint64_t)(n % bands * columns) << 32 | narrow | columns});
    effect(ir, GALE__IR_GROUP_END, 0);
}

static void multiply(gale__matrix *t, gale__ir_val stage)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    const gale__schedule *s = t->tile.tiling.emit.schedule;
    if (s->groups) { /* other groups of the same unit keep it busy while this one waits */
        gale__ir_val four = op32(ir, GALE__IR_DIV, t->tile.row, 4);
        gale__matrix_add_groups(t, stage, op32(ir, GALE__MUL, four, GROUP_ROWS * s->tile_k));
        effect(ir, GALE__IR_GROUP_WAIT, 0);
        return;
    }
    uint32_t rows = s->micro_m / 16, columns = s->micro_n / 16, shares = gale__schedule_matrix_shares(s);
    const gale__matrix_pair *pairs;
    int count = gale__matrix_pairs(s, &pairs);
    gale__ir_val a[3], b[3][16], k = loop(ir, s->tile_k / s->rows, 2 * gale__schedule_matrix_unit(s), true);
    if (s->rows > 1) k = add32(ir, k, op32(ir, GALE__MUL, t->tile.set, s->tile_k / s->rows));
    for (uint32_t j = 0; j < columns * shares; j++)
        b[j % shares][j / shares] = load_matrix(t, 1, j / shares, j % shares, stage, k);
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < shares; j++) a[j] = load_matrix(t, 0, i, j, stage, k);
        for (uint32_t j = 0; j < columns * (uint32_t)count; j++) {
            gale__matrix_pair pair = pairs[j / columns];
            gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SUMS_ADD,
                                 .a = t->tile.sums,
                                 .b = a[pair.a],
                                 .c = b[pair.b][j % columns],
                                 .imm = i * columns + j % columns});
        }
    }
    gale__emit_close(&t->tile.tiling.emit);
}

/* The next stage, and after the last one the first. */
static void advance(gale__matrix *t, gale__ir_val var)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    gale__ir_val next = op32(ir, GALE__ADD, get(ir, var), t->stage);
    gale__ir_val past =
        gale__ir_op2(ir, GALE__GE, GALE_BOOL, next, gale__ir_u32(ir, t->stage * t->tile.tiling.emit.schedule->stages));
    set(ir, var, gale__ir_op3(ir, GALE__SELECT, GALE_U32, past, gale__ir_u32(ir, 0), next));
}

/* A cluster's groups take every split-th step along k. */
static uint32_t step_along_k(const gale__schedule *s) { return s->tile_k * (s->split ? s->split : 1u); }

/* Where step 0 of this group begins. */
static gale__ir_val first_k(gale__matrix *t)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    const gale__schedule *s = t->tile.tiling.emit.schedule;
    return s->split > 1 ? op32(ir, GALE__MUL, t->tile.member, s->tile_k) : gale__ir_u32(ir, 0);
}

/* The first stages: of settled operands while the kernel before this one still runs. */
static void begin_stages(gale__matrix *t)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    const gale__schedule *s = t->tile.tiling.emit.schedule;
    bool early = s->settled;
    for (int w = 0; early && w < 2; w++) {
        if (!is_settled(t, w)) continue;
        gale__ir_val first = loop(ir, s->stages - 1u, 1, false);
        gale__ir_val k = add32(ir, op32(ir, GALE__MUL, first, step_along_k(s)), first_k(t));
        gale__matrix_part_copy(t, &t->parts[w], op32(ir, GALE__MUL, first, t->stage), k);
        gale__emit_close(&t->tile.tiling.emit);
    }
    bool meet = gale__schedule_sums_meet(s);
    if (meet) gale__matrix_sets_begin(&t->tile);
    if (early && meet) gale__emit_loads(&t->tile.tiling.emit, true);
    if (early) effect(ir, GALE__IR_READY, 0);
    t->sure = s->async & GALE__ASYNC_HELD && s->exact && s->stages == 2;
    gale__ir_val first = loop(ir, s->stages - 1u, 1, false);
    gale__ir_val at = op32(ir, GALE__MUL, first, t->stage),
                 from = add32(ir, op32(ir, GALE__MUL, first, step_along_k(s)), first_k(t));
    issue(t, at, from, early);
    gale__matrix_fetch(t, from);
    gale__matrix_deliver(t, at);
    gale__emit_close(&t->tile.tiling.emit);
    if (meet) gale__emit_loads(&t->tile.tiling.emit, false);
}

static void begin_first_thread(gale__matrix *t)
{
    gale__emit *e = &t->tile.tiling.emit;
    gale__emit_if(e, gale__ir_op2(e->ir, GALE__EQ, GALE_BOOL, e->tid, gale__ir_u32(e->ir, 0)));
}

/* Boxes of the first stages, asked for by the first thread: of settled operands while the kernel before this one still
 * runs. */
static void begin_maps(gale__matrix *t)
{
    gale__emit *e = &t->tile.tiling.emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    int early = 0;
    for (int w = 0; s->settled && w < 2; w++) early |= is_settled(t, w) << w;
    begin_first_thread(t);
    for (uint32_t i = 0; i < s->stages; i++)
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_GATE_INIT, .a = t->gates, .b = gale__ir_u32(ir, i), .imm = 1});
    for (int turn = 0; turn < 2; turn++) {
        int parts = turn ? 3 & ~early : early;
        if (turn && s->settled) {
            gale__emit_close(e);
            effect(ir, GALE__IR_READY, 0);
            begin_first_thread(t);
        }
        if (!parts) continue;
        gale__ir_val first = loop(ir, s->stages - 1u, 1, false), k = op32(ir, GALE__MUL, first, s->tile_k);
        gale__emit_if(e, gale__ir_op2(ir, GALE__LT, GALE_BOOL, k, e->layout.inner_count)); /* or nobody waits for it */
        gale__matrix_ask(t, first, k, parts, turn == 0 || !early);
        gale__emit_close(e);
        gale__emit_close(e);
    }
    gale__emit_close(e);
    effect(ir, GALE__IR_BARRIER, 0);
}

/* As walk_stages, with gates that say which stages are full. */
static void walk_maps(gale__matrix *t)
{
    gale__emit *e = &t->tile.tiling.emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    uint32_t ahead = s->stages - 1u;
    gale__ir_val k = gale__emit_for(e, e->layout.inner_count, s->tile_k),
                 next = op32(ir, GALE__ADD, k, ahead * s->tile_k);
    gale__ir_val step = op32(ir, GALE__IR_DIV, k, s->tile_k), number = op32(ir, GALE__IR_REM, step, s->stages);
    gale__ir_val uses = op32(ir, GALE__IR_DIV, step, s->stages);
    gale__matrix_gate(t, GALE__IR_GATE_WAIT, number, op32(ir, GALE__AND, uses, 1));
    effect(ir, GALE__IR_BARRIER, 0);
    begin_first_thread(t);
    gale__emit_if(e, gale__ir_op2(ir, GALE__LT, GALE_BOOL, next, e->layout.inner_count));
    gale__matrix_ask(t, op32(ir, GALE__IR_REM, op32(ir, GALE__ADD, step, ahead), s->stages), next, 3, true);
    gale__emit_close(e);
    gale__emit_close(e);
    multiply(t, op32(ir, GALE__MUL, number, t->stage));
    gale__emit_close(e);
    effect(ir, GALE__IR_BARRIER, 0);
}

/* All stages are on their way. */
static void multiply_stages(gale__matrix *t)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    uint32_t count = t->tile.tiling.emit.schedule->stages - 1u;
    for (uint32_t i = 0; i < count; i++) {
        wait_for_copies(t, count - 1 - i);
        effect(ir, GALE__IR_BARRIER, 0);
        multiply(t, gale__ir_u32(ir, i * t->stage));
    }
}

/* A stage is written while the one after it is read, and after the barrier that follows its last reading; `fetches`:
 * or nothing is left to be written. */
static void walk_steps(gale__matrix *t, gale__ir_val end, bool fetches)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    const gale__schedule *s = t->tile.tiling.emit.schedule;
    uint32_t ahead = s->stages - 1u;
    gale__ir_val k = gale__emit_for(&t->tile.tiling.emit, end, step_along_k(s));
    gale__ir_val next = op32(ir, GALE__ADD, add32(ir, k, first_k(t)), ahead * step_along_k(s));
    wait_for_copies(t, ahead - 1);
    if (s->groups) effect(ir, GALE__IR_GROUP_FENCE, 0);
    effect(ir, GALE__IR_BARRIER, 0);
    if (fetches) {
        issue(t, get(ir, t->write), next, false);
        gale__matrix_fetch(t, next);
    }
    multiply(t, get(ir, t->read));
    if (fetches) gale__matrix_deliver(t, get(ir, t->write));
    if (gale__schedule_matrix_shares(s) > 1) gale__matrix_total(t);
    advance(t, t->read);
    if (fetches) advance(t, t->write);
    gale__emit_close(&t->tile.tiling.emit);
}

/* Where copies are loads and stores, the last steps, which have nothing to fetch, follow on their own. */
static void walk_stages(gale__matrix *t)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    const gale__schedule *s = t->tile.tiling.emit.schedule;
    uint32_t ahead = s->stages - 1u;
    t->read = variable(ir, GALE_U32);
    t->write = variable(ir, GALE_U32);
    set(ir, t->read, gale__ir_u32(ir, 0));
    set(ir, t->write, gale__ir_u32(ir, ahead * t->stage));
    gale__ir_val count = t->tile.tiling.emit.layout.inner_count;
    if (!(s->async & GALE__ASYNC_HELD)) {
        walk_steps(t, gale__ir_op2(ir, GALE__SUB, GALE_U32, count, first_k(t)), true);
        return;
    }
    t->sure = s->exact;
    gale__ir_val last = op32(ir, GALE__IR_MIN, count, ahead * s->tile_k);
    walk_steps(t, gale__ir_op2(ir, GALE__SUB, GALE_U32, count, last), true);
    walk_steps(t, last, false);
}

static void walk_k(gale__matrix *t)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    const gale__schedule *s = t->tile.tiling.emit.schedule;
    bool shares = gale__schedule_matrix_shares(s) > 1;
    gale__matrix_zero_sums(t);
    if (shares) gale__matrix_begin_totals(t);
    if (s->maps) {
        begin_maps(t);
        walk_maps(t);
        return;
    }
    begin_stages(t);
    if (s->unroll) multiply_stages(t);
    else walk_stages(t);
    wait_for_copies(t, 0);
    effect(ir, GALE__IR_BARRIER, 0);
    if (shares) gale__matrix_end_totals(t);
}

/* Work-group memory of which a unit (of 9.0) has no room for two groups.  The next kernel begins while this one runs:
 * if its groups needed less, units that are idle would get two of them, and busy ones none (ResNet-50 in f16 on an
 * H200, batch of 1: 0.212 ms, and 0.198; Swin-tiny 0.369 and 0.348). */
#define MORE_THAN_HALF (116u << 10)

static void declare(gale__matrix *t)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    const gale__schedule *s = t->tile.tiling.emit.schedule;
    uint32_t parts, results, columns = s->tile_n / s->micro_n;
    gale__schedule_matrix_shared(s, &parts, &results);
    if (s->split && parts < MORE_THAN_HALF) parts = MORE_THAN_HALF;
    gale__ir_val subgroup = op32(ir, GALE__IR_DIV, t->tile.tiling.emit.tid, s->lanes);
    if (s->rows > 1) {
        uint32_t each = (uint32_t)(s->tile_m / s->micro_m) * columns;
        t->tile.set = op32(ir, GALE__IR_DIV, subgroup, each);
        subgroup = op32(ir, GALE__IR_REM, subgroup, each);
    }
    if (s->split > 1) t->tile.member = op32(ir, GALE__IR_REM, gale__emit_group(&t->tile.tiling.emit), s->split);
    t->tile.row = op32(ir, GALE__IR_DIV, subgroup, columns);
    if (s->relay) t->tile.row = op32(ir, GALE__IR_REM, t->tile.row, s->tile_m / s->micro_m);
    t->tile.column = op32(ir, GALE__IR_REM, subgroup, columns);
    bool bytes = gale__schedule_matrix_bytes(s);
    uint8_t sum = bytes ? GALE_I32 : GALE_F32;
    t->shared = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SHARED,
                                     .type = bytes ? GALE_U8 : GALE_U16,
                                     .imm = (parts > results || s->relay ? parts : results) / (bytes ? 1 : 2)});
    if (results)
        t->tile.results =
            gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SHARED,
                                 .type = sum,
                                 .a = s->relay ? 0 : t->shared, /* parts arrive while results are stored */
                                 .imm = results / 4});
    if (s->maps || s->relay)
        t->gates = gale__ir_add(ir,
            (gale__ir_instr){
                .op = GALE__IR_SHARED, .type = GALE_U64, .imm = s->relay ? GALE__RELAY_GATES(s->stages) : s->stages});
    ir->n_maps = s->maps ? 2 : 0;
    t->tile.sums = gale__ir_add(
        ir, (gale__ir_instr){.op = GALE__IR_SUMS, .type = sum, .imm = (uint64_t)(s->micro_m / 16) * (s->micro_n / 16)});
}

/* A group waits for memory and at barriers: another one on the same unit computes meanwhile.  512 threads fit if none
 * needs more than 128 registers, which sums of 64 leave room for. */
static uint8_t groups_at_once(const gale__schedule *s)
{
    uint32_t group[3];
    if (s->relay) return 1;
    gale__schedule_group(s, group);
    bool fits = s->micro_m * s->micro_n / s->lanes <= 64 && (s->async & 3) == 3;
    return (uint8_t)(fits && group[0] <= 256 ? 512 / group[0] : 0);
}

gale_status gale__schedule_build_matrix(const gale__nest *nest, const gale__schedule *s, gale__ir *ir)
{
    gale_status status;
    gale__matrix *t = gale__calloc(1, sizeof *t);
    if (!t) return GALE_NO_MEMORY;
    t->tile.tiling.emit.inner_blocks = t->tile.tiling.emit.inner_vector = 1;
    t->tile.tiling.emit.outer_blocks = s->steps;
    t->tile.tiling.emit.outer_vector = s->vector;
    gale__nest_contraction(nest, &t->tile.tiling.contraction);
    ir->subgroup = s->lanes;
    ir->at_once = groups_at_once(s);
    ir->cluster = s->split > 1 ? s->split : 0;
    GALE_GO(gale__emit_begin(&t->tile.tiling.emit, nest, s, ir));
    t->tile.tiling.emit.vector_dim = gale__schedule_matrix_vector_dim(nest, s, &t->tile.tiling.contraction);
    for (int w = 0; w < 2; w++) GALE_GO(gale__matrix_part_begin(t, w));
    if (s->relay) {
        declare(t);
        gale__matrix_relay(t);
        goto done;
    }
    gale__emit_tile_place_group(&t->tile.tiling);
    for (int w = 0; w < 2; w++) gale__matrix_part_place(t, &t->parts[w]);
    declare(t);
    walk_k(t);
    gale__matrix_store(&t->tile);
done:
    for (int w = 0; w < 2; w++) gale__emit_end(&t->parts[w].emit);
    gale__emit_end(&t->tile.tiling.emit);
    gale__free(t);
    return status;
}
