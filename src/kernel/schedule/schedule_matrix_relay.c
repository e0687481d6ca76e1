/* MATRIX: persistent, warp-specialised kernels whose groups compute one tile after another.  Producers (four subgroups
 * that copy, or one of their threads that requests boxes of tensor maps) load the operands of all tiles in order, as
 * far ahead as the stages allow.  Two sets of four consumer subgroups compute: one multiplies while the other stores
 * its previous tile, so that neither the matrix units nor memory are idle.  As a team they share a tile that is twice
 * as wide, and so read each row of work-group memory half as often, which is the bottleneck of long products.  Where k
 * is short, a group keeps the operand of its columns, which comes with its first tile, for all others: no set begins a
 * tile before another has waited for all of the first.  Gates in work-group memory signal which stages are full, which
 * are free again, and which set may store. */
#include "kernel/schedule/schedule_matrix.h"

/* Registers of a thread: enough for the places of both parts, with shares for one step of them too; and for sums. */
#define REGISTERS_COPYING 72
#define REGISTERS_COMPUTING 216
#define REGISTERS_ASKING 40 /* one thread asks for boxes of maps */
#define REGISTERS_COMPUTING_ALONE 232
#define REGISTERS_OF_THREE 152
#define REGISTERS_CUTTING 104
#define REGISTERS_COMPUTING_TOTALS 152

typedef struct relay {
    gale__matrix *matrix;
    gale__ir *ir;
    const gale__schedule *schedule;
    gale__ir_val steps;  /* along k of a tile */
    gale__ir_val count;  /* variable: steps of all tiles before */
    gale__ir_val speaks; /* whether this thread is the first lane, which arrives at gates for its subgroup */
    gale__ir_val set, group;
    uint32_t sets;
    bool team, shares;
} relay;

static gale__ir_val free_again(relay *r, gale__ir_val stage)
{
    return op32(r->ir, GALE__ADD, stage, r->schedule->stages);
}
static gale__ir_val turn_of(relay *r, gale__ir_val set)
{
    return op32(r->ir, GALE__ADD, set, 2u * r->schedule->stages);
}

static void end_block(relay *r) { gale__emit_close(&r->matrix->tile.tiling.emit); }

static void open_gates(relay *r)
{
    uint32_t stages = r->schedule->stages, count = GALE__RELAY_GATES(stages);
    gale__ir_val first =
        gale__ir_op2(r->ir, GALE__EQ, GALE_BOOL, r->matrix->tile.tiling.emit.tid, gale__ir_u32(r->ir, 0));
    gale__emit_if(&r->matrix->tile.tiling.emit, first);
    uint32_t full = r->schedule->maps ? 1 : gale__schedule_matrix_copiers(r->schedule), subgroups = r->team ? 8 : 4;
    for (uint32_t i = 0; i < count; i++)
        gale__ir_add(r->ir, (gale__ir_instr){.op = GALE__IR_GATE_INIT,
                                .a = r->matrix->gates,
                                .b = gale__ir_u32(r->ir, i),
                                .imm = i < stages ? full : subgroups});
    end_block(r);
    effect(r->ir, GALE__IR_BARRIER, 0);
}

/* Tiles `first`, first + each * relay, ... */
static gale__ir_val begin_tiles(relay *r, gale__ir_val first, uint32_t each)
{
    gale__emit *e = &r->matrix->tile.tiling.emit;
    gale__ir_val tile = gale__ir_add(r->ir, (gale__ir_instr){.op = GALE__IR_FOR,
                                                .type = GALE_U32,
                                                .a = first,
                                                .b = e->layout.outer_count,
                                                .c = gale__ir_u32(r->ir, each * r->schedule->relay)});
    gale__emit_tile_place(&r->matrix->tile.tiling, tile);
    return tile;
}

/* The number of the step at k, its stage, and how often that was used before. */
typedef struct step {
    gale__ir_val k, number, stage, uses;
} step;
static step begin_steps(relay *r)
{
    gale__ir *ir = r->ir;
    step s;
    s.k = gale__emit_for(
        &r->matrix->tile.tiling.emit, r->matrix->tile.tiling.emit.layout.inner_count, r->schedule->tile_k);
    s.number = add32(ir, get(ir, r->count), op32(ir, GALE__IR_DIV, s.k, r->schedule->tile_k));
    s.stage = op32(ir, GALE__IR_REM, s.number, r->schedule->stages);
    s.uses = op32(ir, GALE__IR_DIV, s.number, r->schedule->stages);
    return s;
}

/* Shares of what has been fetched; the next step's operands arrive while its stage is not free yet. */
static void cut(relay *r, const step *s, gale__ir_val stage)
{
    gale__ir_val next = op32(r->ir, GALE__ADD, s->k, r->schedule->tile_k);
    gale__matrix_deliver(r->matrix, stage);
    effect(r->ir, GALE__IR_GROUP_FENCE, 0);
    gale__matrix_gate(r->matrix, GALE__IR_GATE_ARRIVE, s->stage, 0);
    gale__emit_if(&r->matrix->tile.tiling.emit,
        gale__ir_op2(r->ir, GALE__LT, GALE_BOOL, next, r->matrix->tile.tiling.emit.layout.inner_count));
    gale__matrix_fetch(r->matrix, next);
    end_block(r);
}

static void ask_for_tiles(relay *r)
{
    gale__ir *ir = r->ir;
    gale__emit *e = &r->matrix->tile.tiling.emit;
    effect(ir, GALE__IR_REGISTERS, REGISTERS_ASKING);
    gale__emit_if(e, gale__ir_op2(ir, GALE__EQ, GALE_BOOL, e->tid, gale__ir_u32(ir, r->sets * GALE__RELAY_SET)));
    set(ir, r->count, gale__ir_u32(ir, 0));
    gale__ir_val tile = begin_tiles(r, r->group, 1);
    step s = begin_steps(r);
    gale__matrix_gate(
        r->matrix, GALE__IR_GATE_WAIT, free_again(r, s.stage), op32(ir, GALE__AND, op32(ir, GALE__ADD, s.uses, 1), 1));
    if (r->schedule->keep) {
        gale__emit_if(e, gale__ir_op2(ir, GALE__GT, GALE_BOOL, tile, r->group));
        gale__matrix_ask(r->matrix, s.stage, s.k, 1, true);
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ELSE});
    }
    gale__matrix_ask(r->matrix, s.stage, s.k, 3, true);
    if (r->schedule->keep) end_block(r);
    end_block(r);
    set(ir, r->count, add32(ir, get(ir, r->count), r->steps));
    end_block(r);
    end_block(r);
}

static void copy_tiles(relay *r)
{
    gale__ir *ir = r->ir;
    gale__matrix *t = r->matrix;
    effect(r->ir, GALE__IR_REGISTERS, r->shares ? REGISTERS_CUTTING : REGISTERS_COPYING);
    gale__ir_val thread = op32(ir, GALE__SUB, t->tile.tiling.emit.tid, 2 * GALE__RELAY_SET);
    set(ir, r->count, gale__ir_u32(ir, 0));
    begin_tiles(r, r->group, 1);
    for (int w = 0; w < 2; w++) {
        t->parts[w].emit.tid = thread;
        gale__matrix_part_place(t, &t->parts[w]);
    }
    if (r->shares) gale__matrix_fetch(t, gale__ir_u32(ir, 0));
    step s = begin_steps(r);
    gale__matrix_gate(
        r->matrix, GALE__IR_GATE_WAIT, free_again(r, s.stage), op32(ir, GALE__AND, op32(ir, GALE__ADD, s.uses, 1), 1));
    gale__ir_val stage = op32(ir, GALE__MUL, s.stage, t->stage);
    if (r->shares) cut(r, &s, stage);
    else {
        for (int w = 0; w < 2; w++) gale__matrix_part_copy(t, &t->parts[w], stage, s.k);
        gale__matrix_gate(r->matrix, GALE__IR_GATE_COPIES, s.stage, 0);
    }
    end_block(r);
    set(ir, r->count, add32(ir, get(ir, r->count), r->steps));
    end_block(r);
    effect(r->ir, GALE__IR_COMMIT, 0);
    effect(r->ir, GALE__IR_WAIT, 0);
}

/* The subgroup arrives at a gate, if condition `too` holds (0: always). */
static void arrive(relay *r, gale__ir_val which, gale__ir_val too)
{
    gale__emit_if(&r->matrix->tile.tiling.emit, gale__emit_and(&r->matrix->tile.tiling.emit, r->speaks, too));
    gale__matrix_gate(r->matrix, GALE__IR_GATE_ARRIVE, which, 0);
    end_block(r);
}

/* The products of a step overlap those of the next one; after that the previous stage is free. */
static void walk_k(relay *r)
{
    gale__ir *ir = r->ir;
    step s = begin_steps(r);
    gale__matrix_gate(r->matrix, GALE__IR_GATE_WAIT, s.stage, op32(ir, GALE__AND, s.uses, 1));
    if (!r->schedule->maps) effect(r->ir, GALE__IR_GROUP_FENCE, 0);
    gale__ir_val rows = r->team ? op32(ir, GALE__MUL, r->set, GROUP_ROWS * r->schedule->tile_k) : gale__ir_u32(ir, 0);
    if (r->schedule->keep) r->matrix->kept = op32(ir, GALE__MUL, s.k, r->schedule->tile_n);
    gale__matrix_add_groups(r->matrix, op32(ir, GALE__MUL, s.stage, r->matrix->stage), rows);
    effect(r->ir, GALE__IR_GROUP_WAIT, r->shares ? 0 : 1);
    if (r->shares) {
        arrive(r, free_again(r, s.stage), 0);
        gale__matrix_total(r->matrix);
        end_block(r);
        return;
    }
    gale__ir_val later = gale__ir_op2(ir, GALE__GT, GALE_BOOL, s.k, gale__ir_u32(ir, 0));
    gale__ir_val before = op32(ir, GALE__IR_REM, op32(ir, GALE__SUB, s.number, 1), r->schedule->stages);
    arrive(r, free_again(r, before), later);
    end_block(r);
}

static void compute_tiles(relay *r)
{
    gale__ir *ir = r->ir;
    gale__matrix *t = r->matrix;
    const gale__schedule *c = r->schedule;
    bool team = r->team;
    uint32_t turns = team ? 1 : r->sets;
    gale__ir_val turn = variable(ir, GALE_U32), none = gale__ir_u32(ir, 0), one = gale__ir_u32(ir, 1);
    gale__ir_val first = gale__ir_op2(ir, GALE__EQ, GALE_BOOL, r->set, none);
    gale__ir_val other = op32(ir, GALE__IR_REM, op32(ir, GALE__ADD, r->set, 1), r->sets);
    uint32_t registers = r->shares     ? REGISTERS_COMPUTING_TOTALS
                         : r->sets > 2 ? REGISTERS_OF_THREE
                         : c->maps     ? REGISTERS_COMPUTING_ALONE
                                       : REGISTERS_COMPUTING;
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_REGISTERS, .mem = 1, .imm = registers});
    set(ir, r->count, team ? none : gale__ir_op2(ir, GALE__MUL, GALE_U32, r->set, r->steps));
    set(ir, turn, gale__ir_op3(ir, GALE__SELECT, GALE_U32, first, one, none));
    begin_tiles(r, add32(ir, r->group, team ? none : op32(ir, GALE__MUL, r->set, c->relay)), turns);
    gale__matrix_zero_sums(t);
    if (r->shares) gale__matrix_begin_totals(t);
    else gale__matrix_hold(&t->tile);
    if (!team) gale__matrix_gate(r->matrix, GALE__IR_GATE_WAIT, turn_of(r, r->set), get(ir, turn));
    walk_k(r);
    if (!team) arrive(r, turn_of(r, other), 0); /* which begins while the last products are on their way */
    if (r->shares) gale__matrix_end_totals(t);
    else {
        effect(ir, GALE__IR_GROUP_WAIT, 0);
        gale__ir_val last = op32(ir, GALE__SUB, add32(ir, get(ir, r->count), r->steps), 1);
        arrive(r, free_again(r, op32(ir, GALE__IR_REM, last, c->stages)), 0);
    }
    set(ir, r->count, add32(ir, get(ir, r->count), op32(ir, GALE__MUL, r->steps, turns)));
    set(ir, turn, op32(ir, GALE__XOR, get(ir, turn), 1));
    gale__matrix_store(&t->tile);
    end_block(r);
}

void gale__matrix_relay(gale__matrix *t)
{
    gale__emit *e = &t->tile.tiling.emit;
    gale__ir *ir = e->ir;
    uint32_t tile_k = e->schedule->tile_k;
    relay r = {.matrix = t,
        .ir = ir,
        .schedule = e->schedule,
        .sets = gale__relay_sets(e->schedule),
        .team = e->schedule->team != 0,
        .shares = gale__schedule_matrix_shares(e->schedule) > 1};
    open_gates(&r);
    effect(ir, GALE__IR_READY, 0); /* gates are open by then */
    r.steps = op32(ir, GALE__IR_DIV, op32(ir, GALE__ADD, e->layout.inner_count, tile_k - 1), tile_k);
    r.count = variable(ir, GALE_U32);
    gale__ir_val lane = op32(ir, GALE__IR_REM, e->tid, e->schedule->lanes);
    r.speaks = gale__ir_op2(ir, GALE__EQ, GALE_BOOL, lane, gale__ir_u32(ir, 0));
    r.set = op32(ir, GALE__IR_DIV, e->tid, GALE__RELAY_SET);
    r.group = gale__emit_group(e);
    gale__emit_if(e, gale__ir_op2(ir, GALE__LT, GALE_BOOL, r.set, gale__ir_u32(ir, r.sets)));
    compute_tiles(&r);
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ELSE});
    if (r.schedule->maps) ask_for_tiles(&r);
    else copy_tiles(&r);
    end_block(&r);
}
