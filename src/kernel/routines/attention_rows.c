/* Attention with scores in work-group memory, for matrix units that do not expose which thread holds which element: a
 * few threads share a row, and keep their part of its result between steps. */
#include "kernel/routines/attention_build.h"
#include <math.h>

void gale__attention_rows_declare(attention *t)
{
    gale__ir *ir = t->ir;
    const gale__attention_shape *s = t->s;
    uint32_t rows = 16 * s->warps;
    t->scores = array(ir, GALE__IR_SHARED, GALE_F32, rows * s->score_row);
    t->warp_weights = s->weights_over_scores ? 2 * 16 * s->score_row : 16 * s->weight_row;
    t->weights = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SHARED,
                                      .type = GALE_U16,
                                      .a = s->weights_over_scores ? t->scores : 0,
                                      .imm = s->warps * t->warp_weights});
    t->inverse = array(ir, GALE__IR_SHARED, GALE_F32, rows);
    t->x = array(ir, GALE__IR_ARRAY, GALE_F32, s->n16 / t->share);
    if (s->online) t->y = array(ir, GALE__IR_ARRAY, GALE_F32, s->c16 / t->share);
    t->at = over(ir, t->lane, t->share);
    t->row[0] = add(ir, t->first, add(ir, times(ir, t->warp, 16), t->at));
    t->score_at = times(ir, add(ir, times(ir, t->warp, 16), t->at), s->score_row);
}

static void store_sums(const attention *t, gale__ir_val sums, uint32_t n)
{
    gale__ir *ir = t->ir;
    gale__ir_val at = times(ir, t->warp, 16 * t->s->score_row);
    for (uint32_t i = 0; i < n; i++)
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SUMS_STORE,
                             .a = sums,
                             .b = t->scores,
                             .c = plus(ir, at, 16 * i),
                             .imm = (uint64_t)t->s->score_row << 32 | i});
}

/* Where this thread's group i of four neighbours begins in a row. */
static gale__ir_val column_of(const attention *t, gale__ir_val i)
{
    return times(t->ir, add(t->ir, times(t->ir, i, t->share), t->part), 4);
}

static gale__ir_val find_most(const attention *t, gale__ir_val step)
{
    gale__ir *ir = t->ir;
    gale__ir_val largest = variable(ir, GALE_F32), v[4], numbers[4];
    write(t, largest, gale__ir_f32(ir, -INFINITY));
    gale__ir_val i = unrolled(ir, t->s->n16 / 4 / t->share, 1), column = column_of(t, i);
    gale__ir_get_lanes(ir, t->scores, GALE_F32, 4, add(ir, t->score_at, column), v);
    gale__attention_numbers(t, add(ir, step, column), 4, numbers);
    gale__attention_scores(t, add(ir, step, column), 0, 4, 0, numbers, v);
    for (uint32_t k = 0; k < 4; k++) {
        set(ir, t->x, plus(ir, times(ir, i, 4), k), v[k]);
        write(t, largest, f32(ir, GALE__IR_MAX, read(t, largest), v[k]));
    }
    end(ir);
    return gale__attention_maximum(t, 0, read(t, largest));
}

static void weigh(const attention *t, gale__ir_val step)
{
    gale__ir *ir = t->ir;
    gale__ir_val sum = variable(ir, GALE_F32), codes[4], from = find_most(t, step);
    gale__ir_val at = add(ir, times(ir, t->warp, t->warp_weights), times(ir, t->at, t->s->weight_row));
    sub_barrier(ir); /* the weights replace the scores in the same memory */
    write(t, sum, gale__ir_f32(ir, 0));
    gale__ir_val i = unrolled(ir, t->s->n16 / 4 / t->share, 1);
    for (uint32_t k = 0; k < 4; k++) {
        gale__ir_val x = get(ir, t->x, plus(ir, times(ir, i, 4), k)), e = gale__attention_weight(t, x, from);
        write(t, sum, f32(ir, GALE__ADD, read(t, sum), e));
        codes[k] = gale__ir_encode(ir, t->s->type, e);
    }
    gale__ir_set_lanes(ir, t->weights, GALE_U16, 4, add(ir, at, column_of(t, i)), codes);
    end(ir);
    gale__attention_add_sum(t, 0, read(t, sum));
}

/* What the values of this step add to the thread's part of its row. */
static void gather(const attention *t)
{
    gale__ir *ir = t->ir;
    gale__ir_val i = unrolled(ir, t->s->c16 / 4 / t->share, 1), v[4], factor = read(t, t->factor[0]);
    gale__ir_get_lanes(ir, t->scores, GALE_F32, 4, add(ir, t->score_at, column_of(t, i)), v);
    for (uint32_t k = 0; k < 4; k++) {
        gale__ir_val at = plus(ir, times(ir, i, 4), k);
        set(ir, t->y, at, f32(ir, GALE__ADD, f32(ir, GALE__MUL, get(ir, t->y, at), factor), v[k]));
    }
    end(ir);
}

void gale__attention_rows_begin(const attention *t)
{
    if (!t->s->online) return;
    gale__ir_val i = unrolled(t->ir, t->s->c16 / t->share, 1);
    set(t->ir, t->y, i, gale__ir_f32(t->ir, 0));
    end(t->ir);
}

void gale__attention_rows_step(const attention *t, gale__ir_val step, gale__ir_val stage)
{
    gale__ir *ir = t->ir;
    const gale__attention_shape *s = t->s;
    gale__attention_left weights = {t->weights, times(ir, t->warp, t->warp_weights), s->weight_row};
    gale__attention_score(t, stage);
    store_sums(t, t->score_sums, s->n16 / 16);
    sub_barrier(ir);
    weigh(t, step);
    sub_barrier(ir);
    gale__attention_zero(t, t->value_sums, s->c16 / 16);
    gale__attention_multiply(t, t->value_sums, s->c16 / 16, s->n16, weights, plus(ir, stage, t->values_at), false);
    sub_barrier(ir);
    store_sums(t, t->value_sums, s->c16 / 16);
    sub_barrier(ir);
    if (s->online) gather(t);
}

/* --- Results. --- */

/* Back to work-group memory, as one step leaves them. */
static void put_back(const attention *t)
{
    gale__ir *ir = t->ir;
    gale__ir_val i = unrolled(ir, t->s->c16 / 4 / t->share, 1), v[4];
    for (uint32_t k = 0; k < 4; k++) v[k] = get(ir, t->y, plus(ir, times(ir, i, 4), k));
    gale__ir_set_lanes(ir, t->scores, GALE_F32, 4, add(ir, t->score_at, column_of(t, i)), v);
    end(ir);
}

static void store_wide(const attention *t, gale__ir_val from, gale__ir_val to, gale__ir_val inverse)
{
    gale__ir *ir = t->ir;
    gale__ir_val v[8], pairs[4];
    for (uint32_t i = 0; i < 2; i++) gale__ir_get_lanes(ir, t->scores, GALE_F32, 4, plus(ir, from, 4 * i), v + 4 * i);
    for (int i = 0; i < 8; i++) v[i] = gale__ir_encode(ir, t->s->type, f32(ir, GALE__MUL, v[i], inverse));
    for (int i = 0; i < 4; i++)
        pairs[i] = bin(ir, GALE__OR, v[2 * i], bin(ir, GALE__IR_SHL, v[2 * i + 1], u32(ir, 16)));
    gale__ir_store_as(ir, RESULT, GALE_U32, 4, over(ir, to, 2), pairs);
}

/* Threads of a subgroup take neighbours of its 16 rows, which are contiguous in memory. */
void gale__attention_rows_finish(const attention *t)
{
    gale__ir *ir = t->ir;
    const gale__attention_shape *s = t->s;
    uint32_t by = s->wide_result ? 8 : 1, per = s->c16 / by;
    gale__ir_val first = times(ir, t->warp, 16);
    if (s->online) put_back(t);
    set(ir, t->inverse, add(ir, first, t->at), gale__attention_inverse(t, 0));
    sub_barrier(ir);
    gale__ir_val i = begin_for(ir, t->lane, u32(ir, 16 * per), s->lanes), r = add(ir, first, over(ir, i, per));
    gale__ir_val column = times(ir, rest(ir, i, per), by), row = add(ir, t->first, r);
    begin_if(ir, both(ir, test(ir, GALE__LT, row, t->m), test(ir, GALE__LT, column, t->c)));
    gale__ir_val to = add(ir, gale__attention_result(t, row), column);
    gale__ir_val from = add(ir, times(ir, r, s->score_row), column), inverse = get(ir, t->inverse, r);
    if (s->wide_result) store_wide(t, from, to, inverse);
    else {
        gale__ir_val v = f32(ir, GALE__MUL, get(ir, t->scores, from), inverse);
        gale__ir_store_as(ir, RESULT, s->type, 1, to, &v);
    }
    end(ir);
    end(ir);
}
