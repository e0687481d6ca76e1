/* MATRIX: products of f32 by matrix units.  Each operand is cut into three shares of bf16, from the upper bits to the
 * lower, whose sum is the number exactly; six of the nine products of shares are added, and the three that are left out
 * are below 2^-21 of the product, and 2^-23 on average.  Matrix units truncate what they add, which would take every
 * sum towards zero: so they add up one step along k only, and threads add the steps, as exactly as f32 does. */
#include "kernel/schedule/schedule_matrix.h"

int gale__matrix_pairs(const gale__schedule *s, const gale__matrix_pair **out)
{
    static const gale__matrix_pair pairs[] = {{2, 0}, {1, 1}, {0, 2}, {1, 0}, {0, 1}, {0, 0}};
    int count = gale__schedule_matrix_shares(s) == 3 ? 6 : 1;
    *out = pairs + 6 - count;
    return count;
}

static uint32_t sums_of(const gale__schedule *s) { return (uint32_t)s->micro_m * s->micro_n / s->lanes; }

static void set_sum(gale__matrix *t, gale__ir_val array, gale__ir_val at, gale__ir_val v)
{
    gale__ir_op3(t->tile.tiling.emit.ir, GALE__IR_SET, GALE_F32, array, at, v);
}
static gale__ir_val get_sum(gale__matrix *t, gale__ir_val array, gale__ir_val at)
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
    set_sum(t, t->totals, i, gale__ir_f32(ir, 0));
    gale__emit_close(&t->tile.tiling.emit);
}

/* A step's sums join the total, and the next step begins with none. */
void gale__matrix_total(gale__matrix *t)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    gale__ir_val i = each_sum(t);
    set_sum(
        t, t->totals, i, gale__ir_op2(ir, GALE__ADD, GALE_F32, get_sum(t, t->totals, i), get_sum(t, t->tile.sums, i)));
    gale__emit_close(&t->tile.tiling.emit);
    gale__matrix_zero_sums(t);
}

void gale__matrix_end_totals(gale__matrix *t)
{
    gale__ir_val i = each_sum(t);
    set_sum(t, t->tile.sums, i, get_sum(t, t->totals, i));
    gale__emit_close(&t->tile.tiling.emit);
}
