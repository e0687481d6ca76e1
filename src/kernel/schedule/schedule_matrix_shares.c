/* MATRIX: products of f32 by matrix units.  Each operand is cut into three shares of bf16, from the upper bits to the
 * lower, whose sum is the number exactly; six of the nine products of shares are added, and the three that are left out
 * are 2^-23 of the result or less.  Matrix units truncate what they add, which would take every sum towards zero: so
 * they add up one step along k only, and threads add the steps, as exactly as f32 does. */
#include "kernel/schedule/schedule_matrix.h"

int gale__matrix_pairs(const gale__schedule *s, const gale__matrix_pair **out)
{
    static const gale__matrix_pair pairs[] = {{2, 0}, {1, 1}, {0, 2}, {1, 0}, {0, 1}, {0, 0}};
    int count = gale__schedule_matrix_shares(s) == 3 ? 6 : 1;
    *out = pairs + 6 - count;
    return count;
}

/* --- sums of all steps --- */

static uint32_t sums_of(const gale__schedule *s) { return (uint32_t)s->micro_m * s->micro_n / s->lanes; }

static void put(gale__matrix *t, gale__ir_val array, gale__ir_val at, gale__ir_val v)
{
    gale__ir_op3(t->tile.tiling.emit.ir, GALE__IR_SET, GALE_F32, array, at, v);
}
static gale__ir_val take(gale__matrix *t, gale__ir_val array, gale__ir_val at)
{
    return gale__ir_op2(t->tile.tiling.emit.ir, GALE__IR_GET, GALE_F32, array, at);
}
static gale__ir_val each_sum(gale__matrix *t)
{
    return loop(t->tile.tiling.emit.ir, sums_of(t->tile.tiling.emit.schedule), 1, true);
}

void gale__matrix_begin_totals(gale__matrix *t)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    t->totals = gale__ir_add(
        ir, (gale__ir_instr){.op = GALE__IR_ARRAY, .type = GALE_F32, .imm = sums_of(t->tile.tiling.emit.schedule)});
    gale__ir_val i = each_sum(t);
    put(t, t->totals, i, gale__ir_f32(ir, 0));
    gale__emit_close(&t->tile.tiling.emit);
}

/* A step's sums join the total, and the next step begins with none. */
void gale__matrix_total(gale__matrix *t)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    gale__ir_val i = each_sum(t);
    put(t, t->totals, i, gale__ir_op2(ir, GALE__ADD, GALE_F32, take(t, t->totals, i), take(t, t->tile.sums, i)));
    gale__emit_close(&t->tile.tiling.emit);
    gale__matrix_zero_sums(t);
}

void gale__matrix_end_totals(gale__matrix *t)
{
    gale__ir_val i = each_sum(t);
    put(t, t->tile.sums, i, take(t, t->totals, i));
    gale__emit_close(&t->tile.tiling.emit);
}

/* --- four subgroups together --- */

#define ROOM_FOR_BOTH 48 /* sums of a thread, at most, beside which it has registers for both operands */

/* The columns from k on have been fetched, and the rows where there is room for both: all of them are cut and stored,
 * and those of the step after are fetched. */
static void follow_up(gale__matrix *t, gale__ir_val stage, gale__ir_val k)
{
    const gale__schedule *s = t->tile.tiling.emit.schedule;
    gale__ir_val after = op32(t->tile.tiling.emit.ir, GALE__ADD, k, s->tile_k);
    bool both = sums_of(s) <= ROOM_FOR_BOTH;
    gale__matrix_part_deliver(t, &t->parts[1], stage);
    gale__matrix_part_fetch(t, &t->parts[both], both ? after : k);
    gale__matrix_part_deliver(t, &t->parts[0], stage);
    gale__matrix_part_fetch(t, &t->parts[!both], after);
}

/* Two stages: the products of one go on while the other is filled. */

void gale__matrix_walk_shares(gale__matrix *t)
{
    gale__emit *e = &t->tile.tiling.emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    gale__ir_val none = gale__ir_u32(ir, 0), count = e->layout.inner_count;
    t->read = variable(ir, GALE_U32);
    set(ir, t->read, none);
    gale__matrix_zero_sums(t);
    gale__matrix_begin_totals(t);
    gale__matrix_part_fetch(t, &t->parts[1], none);
    if (sums_of(s) <= ROOM_FOR_BOTH) gale__matrix_part_fetch(t, &t->parts[0], none);
    follow_up(t, none, none);
    gale__ir_val k = gale__emit_for(e, count, s->tile_k), next = op32(ir, GALE__ADD, k, s->tile_k);
    gale__ir_val four = op32(ir, GALE__IR_DIV, t->tile.row, 4), here = get(ir, t->read);
    gale__ir_val there = gale__ir_op2(ir, GALE__SUB, GALE_U32, gale__ir_u32(ir, t->stage), here);
    effect(ir, GALE__IR_GROUP_FENCE, 0);
    effect(ir, GALE__IR_BARRIER, 0);
    gale__matrix_add_groups(t, here, op32(ir, GALE__MUL, four, GROUP_ROWS * s->tile_k));
    gale__emit_if(e, gale__ir_op2(ir, GALE__LT, GALE_BOOL, next, count));
    follow_up(t, there, next);
    gale__emit_close(e);
    effect(ir, GALE__IR_GROUP_WAIT, 0);
    gale__matrix_total(t);
    set(ir, t->read, there);
    gale__emit_close(e);
    if (!s->direct) effect(ir, GALE__IR_BARRIER, 0); /* results take over the operands' memory */
    gale__matrix_end_totals(t);
}
