/* Attention with scores in the registers of the threads that computed them, where it is known which those are (ir.h):
 * four threads share two rows.  The weights are the left operand of the second product without having been stored. */
#include "kernel/ir/ir_util.h"
#include "kernel/routines/attention_build.h"
#include <math.h>

void gale__attention_quads_declare(attention *t)
{
    gale__ir *ir = t->ir;
    t->row[0] = add(ir, t->first, add(ir, times(ir, t->warp, 16), over(ir, t->lane, 4)));
    t->row[1] = plus(ir, t->row[0], 8);
    if (t->s->factors) t->factors = array(ir, GALE__IR_ARRAY, GALE_F32, t->s->c16 / 4);
}

/* The number among a matrix's 8 of the first of two neighbours in the thread's row, in the left or right half. */
static uint32_t number_of(uint32_t row, uint32_t half) { return 4 * half + 2 * row; }
static gale__ir_val place_of(const attention *t, gale__ir_val matrix, uint32_t row, uint32_t half, uint32_t i)
{
    return plus(t->ir, times(t->ir, matrix, 8), number_of(row, half) + i);
}
static gale__ir_val column_of(const attention *t, gale__ir_val matrix, uint32_t half)
{
    return plus(t->ir, add(t->ir, times(t->ir, matrix, 16), times(t->ir, t->part, 2)), 8 * half);
}

/* Among quantised results of all heads of an item. */
static gale__ir_val factor_at(const attention *t, gale__ir_val column)
{
    gale__ir_val last = bin(t->ir, GALE__SUB, t->c, u32(t->ir, 2));
    return add(t->ir, mul(t->ir, t->beside, t->c), least(t->ir, column, last));
}

/* Factors are constants, which are on their way while scores are computed. */
static void load_factors(const attention *t)
{
    gale__ir *ir = t->ir;
    gale__ir_val v[2], m = unrolled(ir, t->s->c16 / 16, 1);
    for (uint32_t half = 0; half < 2; half++) {
        gale__ir_load_as(ir, EXTRA + t->s->masked + t->s->hides, GALE_F32, 2, factor_at(t, column_of(t, m, half)), v);
        for (uint32_t i = 0; i < 2; i++) set(ir, t->factors, plus(ir, times(ir, m, 4), 2 * half + i), v[i]);
    }
    end(ir);
}

void gale__attention_quads_begin(const attention *t)
{
    gale__attention_zero(t, t->value_sums, t->s->c16 / 16);
    if (t->s->factors) load_factors(t);
}

/* Whether half a matrix, eight keys of a single step, has only keys that there are, or none at all. */
static gale__ir_val half_before(const attention *t, gale__ir_val matrix, uint32_t half, uint32_t eights)
{
    return test(t->ir, GALE__LT, plus(t->ir, times(t->ir, matrix, 2), half), u32(t->ir, eights));
}

static void find_most(const attention *t, gale__ir_val step, gale__ir_val from[2])
{
    gale__ir *ir = t->ir;
    gale__ir_val largest[2], v[2], numbers[2];
    for (int r = 0; r < 2; r++) largest[r] = variable(ir, GALE_F32), write(t, largest[r], gale__ir_f32(ir, -INFINITY));
    gale__ir_val m = unrolled(ir, t->s->n16 / 16, 1);
    for (uint32_t at = 0; at < 4; at++) {
        uint32_t half = at / 2, r = at % 2;
        for (uint32_t i = 0; i < 2; i++) v[i] = get(ir, t->score_sums, place_of(t, m, r, half, i));
        gale__ir_val key = add(ir, step, column_of(t, m, half)),
                     all = t->s->full8 && !t->s->whole ? half_before(t, m, half, t->s->full8) : 0;
        if (!r) gale__attention_numbers(t, key, 2, numbers);
        gale__attention_scores(t, key, (int)r, 2, all, numbers, v);
        for (uint32_t i = 0; i < 2; i++) {
            set(ir, t->score_sums, place_of(t, m, r, half, i), v[i]);
            write(t, largest[r], f32(ir, GALE__IR_MAX, read(t, largest[r]), v[i]));
        }
    }
    end(ir);
    for (int r = 0; r < 2; r++) from[r] = gale__attention_maximum(t, r, read(t, largest[r]));
}

static void weigh(const attention *t, gale__ir_val step)
{
    gale__ir *ir = t->ir;
    gale__ir_val sum[2], from[2];
    find_most(t, step, from);
    for (int r = 0; r < 2; r++) sum[r] = variable(ir, GALE_F32), write(t, sum[r], gale__ir_f32(ir, 0));
    gale__ir_val m = unrolled(ir, t->s->n16 / 16, 1);
    for (uint32_t e = 0; e < 8; e++) {
        uint32_t r = e / 2 % 2;
        gale__ir_val at = plus(ir, times(ir, m, 8), e), x = get(ir, t->score_sums, at);
        gale__ir_val weight = gale__attention_weight(t, x, from[r]);
        if (t->s->some8 < t->s->n16 / 8)
            weight = pick(ir, half_before(t, m, e / 4, t->s->some8), weight, gale__ir_f32(ir, 0));
        set(ir, t->score_sums, at, weight);
        write(t, sum[r], f32(ir, GALE__ADD, read(t, sum[r]), weight));
    }
    end(ir);
    for (int r = 0; r < 2; r++) gale__attention_add_sum(t, r, read(t, sum[r]));
}

static void scale_results(const attention *t, const gale__ir_val factor[2])
{
    gale__ir *ir = t->ir;
    gale__ir_val m = unrolled(ir, t->s->c16 / 16, 1);
    for (uint32_t e = 0; e < 8; e++) {
        gale__ir_val at = plus(ir, times(ir, m, 8), e);
        set(ir, t->value_sums, at, f32(ir, GALE__MUL, get(ir, t->value_sums, at), factor[e / 2 % 2]));
    }
    end(ir);
}

void gale__attention_quads_step(const attention *t, gale__ir_val step, gale__ir_val stage)
{
    const gale__attention_shape *s = t->s;
    gale__attention_score(t, stage);
    weigh(t, step);
    if (s->online) scale_results(t, (const gale__ir_val[2]){read(t, t->factor[0]), read(t, t->factor[1])});
    gale__attention_multiply(
        t, t->value_sums, s->c16 / 16, s->n16, (gale__attention_left){0}, plus(t->ir, stage, t->values_at), false);
}

/* Two neighbours of a row. */
static void store_pair(const attention *t, gale__ir_val row, gale__ir_val column, const gale__ir_val *v)
{
    gale__ir *ir = t->ir;
    gale__ir_val to = add(ir, gale__attention_result(t, row), column);
    gale__ir_val there = test(ir, GALE__LT, row, t->m);
    if (t->s->wide_result) {
        gale__ir_val low = gale__ir_encode(ir, t->s->type, v[0]), high = gale__ir_encode(ir, t->s->type, v[1]);
        begin_if(ir, both(ir, there, test(ir, GALE__LT, column, t->c)));
        gale__ir_store(
            ir, RESULT, GALE_U32, 1, over(ir, to, 2), bin(ir, GALE__OR, low, bin(ir, GALE__IR_SHL, high, u32(ir, 16))));
        end(ir);
        return;
    }
    for (uint32_t i = 0; i < 2; i++) {
        begin_if(ir, both(ir, there, test(ir, GALE__LT, plus(ir, column, i), t->c)));
        gale__ir_store_as(ir, RESULT, t->s->type, 1, plus(ir, to, i), &v[i]);
        end(ir);
    }
}

/* The float by which a level's number is stored: I8 has 128 more. */
static gale__ir_val level_zero(const attention *t)
{
    gale__ir_val zero = word_f32(t->ir, GALE__AW_ZERO);
    return t->s->levels == GALE_I8 ? f32(t->ir, GALE__ADD, zero, gale__ir_f32(t->ir, 128)) : zero;
}

/* Two quantised results as the bytes of a word.  The exponentials are inexact anyway, so the quotient need not be
 * exact; NaN gives level 0. */
static gale__ir_val join_two(const attention *t, const gale__ir_val *v)
{
    gale__ir *ir = t->ir;
    gale__ir_val bits[2], none = gale__ir_f32(ir, 128);
    bool is_signed = t->s->levels == GALE_I8;
    for (int i = 0; i < 2; i++) {
        gale__ir_val x = is_signed ? pick(ir, test(ir, GALE__EQ, v[i], v[i]), v[i], none) : v[i];
        bits[i] = gale__ir_number_bits(ir, f32(ir, GALE__IR_MAX, x, gale__ir_f32(ir, 0)));
    }
    gale__ir_val word = gale__ir_op3(ir, GALE__IR_JOIN_BYTES, GALE_U32, bits[0], bits[1], u32(ir, 0));
    return is_signed ? bin(ir, GALE__XOR, word, u32(ir, 0x8080)) : word;
}

/* The same without instructions that saturate. */
static gale__ir_val join_clamped(const attention *t, const gale__ir_val *v)
{
    gale__ir *ir = t->ir;
    gale__ir_val byte[2], none = gale__ir_f32(ir, t->s->levels == GALE_I8 ? 128 : 0);
    for (int i = 0; i < 2; i++) {
        gale__ir_val x = pick(ir, test(ir, GALE__EQ, v[i], v[i]), v[i], none);
        x = f32(ir, GALE__IR_MIN, f32(ir, GALE__IR_MAX, x, gale__ir_f32(ir, 0)), gale__ir_f32(ir, 255));
        x = gale__ir_level(ir, GALE__RINT, GALE_F32, x, 0, GALE__IR_NEAR);
        byte[i] = bin(ir, GALE__AND, gale__ir_level(ir, GALE__CAST, GALE_U8, x, 0, GALE__IR_NEAR), u32(ir, 255));
    }
    gale__ir_val word = bin(ir, GALE__OR, byte[0], bin(ir, GALE__IR_SHL, byte[1], u32(ir, 8)));
    return t->s->levels == GALE_I8 ? bin(ir, GALE__XOR, word, u32(ir, 0x8080)) : word;
}

/* Stores two adjacent quantised results of row r (of 16) in the work-group memory of the subgroup's queries; v: times
 * levels to one. */
static void put_levels(const attention *t, gale__ir_val r, gale__ir_val matrix, uint32_t half, const gale__ir_val *v)
{
    gale__ir *ir = t->ir;
    gale__ir_val x[2];
    for (uint32_t i = 0; i < 2; i++) {
        gale__ir_val factor =
            t->s->factors ? get(ir, t->factors, plus(ir, times(ir, matrix, 4), 2 * half + i)) : gale__ir_f32(ir, 1);
        x[i] = gale__ir_op3(ir, GALE__FMA, GALE_F32, v[i], factor, level_zero(t));
    }
    gale__ir_op3(ir, GALE__IR_SET, GALE_U32, t->queries,
        add(ir, times(ir, add(ir, times(ir, t->warp, 16), r), t->s->key_row), over(ir, column_of(t, matrix, half), 2)),
        t->s->joins ? join_two(t, x) : join_clamped(t, x));
}

/* 8 quantised results, the i-th of the subgroup's, into rows that contain all heads. */
static void store_eight(const attention *t, gale__ir_val i)
{
    gale__ir *ir = t->ir;
    uint32_t per = t->s->c16 / 8;
    gale__ir_val column = times(ir, rest(ir, i, per), 8), part[4], pairs[2];
    gale__ir_val r = add(ir, times(ir, t->warp, 16), over(ir, i, per)), row = add(ir, t->first, r);
    begin_if(ir, both(ir, test(ir, GALE__LT, row, t->m), test(ir, GALE__LT, column, t->c)));
    gale__ir_get_lanes(ir, t->queries, GALE_U16, 4, add(ir, times(ir, r, t->s->key_row), over(ir, column, 2)), part);
    for (int k = 0; k < 2; k++)
        pairs[k] = bin(ir, GALE__OR, part[2 * k], bin(ir, GALE__IR_SHL, part[2 * k + 1], u32(ir, 16)));
    gale__ir_val to = add(ir, gale__attention_result(t, row), column);
    gale__ir_store_as(ir, RESULT, GALE_U32, 2, over(ir, to, 4), pairs);
    end(ir);
}

static void store_levels(const attention *t)
{
    uint32_t count = 2 * t->s->c16;
    sub_barrier(t->ir);
    for (uint32_t i = 0; i < count; i += t->s->lanes) store_eight(t, plus(t->ir, t->lane, i));
}

void gale__attention_quads_finish(const attention *t)
{
    gale__ir *ir = t->ir;
    gale__ir_val inverse[2], v[2];
    for (int r = 0; r < 2; r++) {
        inverse[r] = gale__attention_inverse(t, r);
        if (t->s->levels) inverse[r] = f32(ir, GALE__MUL, inverse[r], word_f32(ir, GALE__AW_STEPS));
    }
    if (t->s->levels) sub_barrier(ir); /* all have read the queries */
    gale__ir_val m = unrolled(ir, t->s->c16 / 16, 1);
    for (uint32_t at = 0; at < 4; at++) {
        uint32_t r = at / 2, half = at % 2;
        for (uint32_t i = 0; i < 2; i++)
            v[i] = f32(ir, GALE__MUL, get(ir, t->value_sums, place_of(t, m, r, half, i)), inverse[r]);
        if (t->s->levels) put_levels(t, plus(ir, over(ir, t->lane, 4), 8 * r), m, half, v);
        else store_pair(t, t->row[r], column_of(t, m, half), v);
    }
    end(ir);
    if (t->s->levels) store_levels(t);
}
