/* The kernel of an attention.  Each subgroup has 16 rows of queries.  In each step it multiplies them with the step's
 * keys, stores the scores to work-group memory, where a few threads share a row each, and multiplies their weights,
 * rounded, with the values.  Threads keep the row's largest score, its sum and their part of the row's result. */
#include "kernel/routines/attention_ir.h"
#include "kernel/schedule/special_ir.h"
#include <math.h>

enum { RESULT, Q, K, V, EXTRA }; /* buffers */
enum { BARRIER_SUBGROUP = 2 };

typedef struct attention {
    const gale__attention_shape *s;
    gale__ir *ir;
    uint32_t threads, share;   /* share: threads that share a row */
    uint32_t values_at, stage; /* elements: where values begin in a stage; of a stage */
    uint32_t warp_weights;     /* elements from subgroup to subgroup among the weights */
    gale__val tid, lane, warp; /* warp: number of the subgroup */
    gale__val m, n, d, c, zero;
    gale__val head, first; /* first: row of the group's first query */
    gale__val base[GALE__ATTENTION_VIEWS];
    gale__val queries, parts, scores, weights, inverse, board; /* arrays */
    gale__val score_sums, value_sums;
    gale__val at, row, part,
        score_at;                /* this thread's row in its head; which part of it; where it lies among the scores */
    gale__val most, sum, factor; /* variables: largest score, sum of weights; what older weights are scaled by */
    gale__val x, y;              /* arrays: this thread's scores of the step, and results */
    gale__val current;           /* variable: first element of the stage */
} attention;

static void sub_barrier(gale__ir *ir)
{
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_BARRIER, .imm = BARRIER_SUBGROUP});
}
static gale__val f32(gale__ir *ir, int op, gale__val a, gale__val b) { return gale__ir_op2(ir, op, GALE_F32, a, b); }
static gale__val times(gale__ir *ir, gale__val a, uint32_t b) { return mul(ir, a, u32(ir, b)); }
static gale__val plus(gale__ir *ir, gale__val a, uint32_t b) { return add(ir, a, u32(ir, b)); }
static gale__val over(gale__ir *ir, gale__val a, uint32_t b) { return bin(ir, GALE__IR_DIV, a, u32(ir, b)); }
static gale__val rest(gale__ir *ir, gale__val a, uint32_t b) { return bin(ir, GALE__IR_REM, a, u32(ir, b)); }
static gale__val least(gale__ir *ir, gale__val a, gale__val b) { return bin(ir, GALE__IR_MIN, a, b); }
static gale__val word_f32(gale__ir *ir, int i)
{
    return gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_WORD, .type = GALE_F32, .imm = (uint64_t)i});
}
static gale__val unrolled(gale__ir *ir, uint32_t end_at, uint32_t step)
{
    return gale__ir_add(ir,
        (gale__ir_instr){
            .op = GALE__IR_FOR, .type = GALE_U32, .a = u32(ir, 0), .b = u32(ir, end_at), .c = u32(ir, step), .imm = 1});
}
static gale__val read(const attention *t, gale__val variable) { return get(t->ir, variable, t->zero); }
static void write(const attention *t, gale__val variable, gale__val v) { set(t->ir, variable, t->zero, v); }

/* --- Places. --- */

static gale__val row_stride(const attention *t, int view)
{
    return word(t->ir, GALE__AW_VIEWS + view * GALE__AW_VIEW + 1 + GALE__CPU_LEAD);
}
static gale__val column_stride(const attention *t, int view)
{
    return word(t->ir, GALE__AW_VIEWS + view * GALE__AW_VIEW + 2 + GALE__CPU_LEAD);
}

/* Which rows of which head; groups past the last one do its work again. */
static void place_group(attention *t)
{
    gale__ir *ir = t->ir;
    const gale__attention_shape *s = t->s;
    gale__val last = bin(ir, GALE__SUB, word(ir, GALE__AW_GROUPS), u32(ir, 1)), group = least(ir, group_id(ir), last);
    gale__val blocks = word(ir, GALE__AW_BLOCKS);
    t->head = bin(ir, GALE__IR_DIV, group, blocks);
    t->first = times(ir, bin(ir, GALE__SUB, group, mul(ir, t->head, blocks)), 16 * s->warps);
    for (int v = 0; v < GALE__ATTENTION_VIEWS; v++) t->base[v] = word(ir, GALE__AW_VIEWS + v * GALE__AW_VIEW);
    gale__val left = t->head;
    for (uint32_t i = s->axes; i-- > 0;) {
        gale__val extent = word(ir, GALE__AW_EXTENT + (int)i), place = i ? bin(ir, GALE__IR_REM, left, extent) : left;
        for (int v = 0; v < GALE__ATTENTION_VIEWS; v++) {
            gale__val stride = word(ir, GALE__AW_VIEWS + v * GALE__AW_VIEW + 1 + (int)i);
            t->base[v] = add(ir, t->base[v], mul(ir, place, stride));
        }
        if (i) left = bin(ir, GALE__IR_DIV, left, extent);
    }
}

static void place_thread(attention *t)
{
    gale__ir *ir = t->ir;
    t->at = over(ir, t->lane, t->share);
    t->part = rest(ir, t->lane, t->share);
    t->row = add(ir, t->first, add(ir, times(ir, t->warp, 16), t->at));
    t->score_at = times(ir, add(ir, times(ir, t->warp, 16), t->at), t->s->score_row);
}

static void declare(attention *t)
{
    gale__ir *ir = t->ir;
    const gale__attention_shape *s = t->s;
    uint32_t rows = 16 * s->warps, scores = rows * s->score_row;
    t->values_at = s->n16 * s->key_row;
    t->stage = t->values_at + s->n16 * s->value_row;
    t->queries = array(ir, GALE__IR_SHARED, GALE_U16, rows * s->key_row);
    t->parts = array(ir, GALE__IR_SHARED, GALE_U16, s->stages * t->stage);
    t->scores = array(ir, GALE__IR_SHARED, GALE_F32, scores);
    t->warp_weights = s->weights_over_scores ? 2 * 16 * s->score_row : 16 * s->weight_row;
    t->weights = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SHARED,
                                      .type = GALE_U16,
                                      .a = s->weights_over_scores ? t->scores : 0,
                                      .imm = s->warps * t->warp_weights});
    t->inverse = array(ir, GALE__IR_SHARED, GALE_F32, rows);
    if (!s->shuffles && t->share > 1) t->board = array(ir, GALE__IR_SHARED, GALE_F32, t->threads);
    t->score_sums = array(ir, GALE__IR_SUMS, GALE_F32, s->n16 / 16);
    t->value_sums = array(ir, GALE__IR_SUMS, GALE_F32, s->c16 / 16);
    t->x = array(ir, GALE__IR_ARRAY, GALE_F32, s->n16 / t->share);
    if (s->online) t->y = array(ir, GALE__IR_ARRAY, GALE_F32, s->c16 / t->share);
    t->most = variable(ir, GALE_F32), t->sum = variable(ir, GALE_F32), t->factor = variable(ir, GALE_F32);
    t->current = variable(ir, GALE_U32);
}

/* --- Operands into work-group memory: zeros where rows and columns end. --- */

typedef struct piece {
    int view;
    gale__val to, at, first, end, columns; /* array; element; first row and end of the rows; columns that are there */
    uint32_t rows, width, pitch;           /* with padding; elements from row to row */
} piece;

static void copy_piece(const attention *t, const piece *p)
{
    gale__ir *ir = t->ir;
    uint32_t per = p->width / 8;
    gale__val i = begin_for(ir, t->tid, u32(ir, p->rows * per), t->threads), r = over(ir, i, per);
    gale__val column = times(ir, rest(ir, i, per), 8), row = add(ir, p->first, r);
    gale__val from = add(ir, t->base[p->view], add(ir, mul(ir, row, row_stride(t, p->view)), column));
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_COPY,
                         .width = 4,
                         .a = p->to,
                         .b = add(ir, p->at, add(ir, times(ir, r, p->pitch), column)),
                         .c = from,
                         .d = both(ir, test(ir, GALE__LT, row, p->end), test(ir, GALE__LT, column, p->columns)),
                         .imm = (uint64_t)(Q + p->view)});
    end(ir);
}

static void load_piece(const attention *t, const piece *p)
{
    gale__ir *ir = t->ir;
    bool by_row = t->s->load[p->view] == GALE__ATTENTION_BY_ROW;
    uint32_t per = by_row ? p->width : p->rows;
    gale__val i = begin_for(ir, t->tid, u32(ir, p->rows * p->width), t->threads);
    gale__val r = by_row ? over(ir, i, per) : rest(ir, i, per), column = by_row ? rest(ir, i, per) : over(ir, i, per);
    gale__val row = add(ir, p->first, r);
    gale__val ok = both(ir, test(ir, GALE__LT, row, p->end), test(ir, GALE__LT, column, p->columns));
    gale__val from = add(ir, mul(ir, row, row_stride(t, p->view)), mul(ir, column, column_stride(t, p->view)));
    gale__val v = gale__ir_load(ir, Q + p->view, GALE_U16, 1, pick(ir, ok, add(ir, t->base[p->view], from), t->zero));
    gale__ir_op3(ir, GALE__IR_SET, GALE_U32, p->to, add(ir, p->at, add(ir, times(ir, r, p->pitch), column)),
        pick(ir, ok, v, t->zero));
    end(ir);
}

static void bring(const attention *t, const piece *p)
{
    if (t->s->load[p->view] == GALE__ATTENTION_COPY) copy_piece(t, p);
    else load_piece(t, p);
}

static void bring_queries(const attention *t)
{
    const gale__attention_shape *s = t->s;
    bring(t, &(piece){GALE__ATTENTION_Q, t->queries, t->zero, t->first, t->m, t->d, 16 * s->warps, s->d16, s->key_row});
}

/* Keys and values from `from` on to the stage that begins at `to`. */
static void bring_step(const attention *t, gale__val to, gale__val from)
{
    const gale__attention_shape *s = t->s;
    bring(t, &(piece){GALE__ATTENTION_K, t->parts, to, from, t->n, t->d, s->n16, s->d16, s->key_row});
    bring(t, &(piece){GALE__ATTENTION_V, t->parts, plus(t->ir, to, t->values_at), from, t->n, t->c, s->n16, s->c16,
                 s->value_row});
}

/* Copies that are on their way; element by element there are none. */
static bool copies(const attention *t)
{
    bool any = false;
    for (int i = 0; i < 3; i++) any = any || t->s->load[i] == GALE__ATTENTION_COPY;
    return any;
}
static void commit(const attention *t)
{
    if (copies(t)) gale__ir_add(t->ir, (gale__ir_instr){.op = GALE__IR_COMMIT});
}
static void wait_for_all(const attention *t)
{
    if (copies(t)) gale__ir_add(t->ir, (gale__ir_instr){.op = GALE__IR_WAIT});
    barrier(t->ir);
}

/* --- Products. --- */

static gale__val matrix(const attention *t, int op, bool turned, gale__val from, gale__val at, uint32_t row)
{
    return gale__ir_add(
        t->ir, (gale__ir_instr){
                   .op = (uint8_t)op, .type = (uint8_t)t->s->type, .mem = turned, .a = from, .b = at, .imm = row});
}

/* sums [16, 16 n] = a [16, k] by n matrices of 16 columns from b on; turned: b lies as [columns, k]. */
static void multiply(const attention *t, gale__val sums, uint32_t n, uint32_t k_end, gale__val a, gale__val a_at,
    uint32_t a_row, gale__val b_at, uint32_t b_row, bool turned)
{
    gale__ir *ir = t->ir;
    for (uint32_t i = 0; i < n; i++) gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SUMS_ZERO, .a = sums, .imm = i});
    gale__val k = unrolled(ir, k_end, 16), left = matrix(t, GALE__IR_MATRIX_A, false, a, add(ir, a_at, k), a_row);
    gale__val along = add(ir, b_at, turned ? k : times(ir, k, b_row));
    for (uint32_t i = 0; i < n; i++) {
        gale__val right =
            matrix(t, GALE__IR_MATRIX_B, turned, t->parts, plus(ir, along, 16 * i * (turned ? b_row : 1)), b_row);
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SUMS_ADD, .a = sums, .b = left, .c = right, .imm = i});
    }
    end(ir);
}

static void store_sums(const attention *t, gale__val sums, uint32_t n)
{
    gale__ir *ir = t->ir;
    gale__val at = times(ir, t->warp, 16 * t->s->score_row);
    for (uint32_t i = 0; i < n; i++)
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SUMS_STORE,
                             .a = sums,
                             .b = t->scores,
                             .c = plus(ir, at, 16 * i),
                             .imm = (uint64_t)t->s->score_row << 32 | i});
}

/* --- Softmax. --- */

/* Threads that share a row agree. */
static gale__val agree(const attention *t, int op, gale__val v)
{
    gale__ir *ir = t->ir;
    if (t->s->shuffles) {
        for (uint32_t mask = 1; mask < t->share; mask *= 2)
            v = f32(ir, op, v,
                gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SHUFFLE_XOR, .type = GALE_F32, .a = v, .imm = mask}));
        return v;
    }
    if (t->share == 1) return v;
    gale__val from = bin(ir, GALE__SUB, t->tid, t->part);
    set(ir, t->board, t->tid, v);
    sub_barrier(ir);
    v = get(ir, t->board, from);
    for (uint32_t i = 1; i < t->share; i++) v = f32(ir, op, v, get(ir, t->board, plus(ir, from, i)));
    sub_barrier(ir);
    return v;
}

static void load_mask(const attention *t, gale__val key, gale__val row, gale__val *out)
{
    gale__ir *ir = t->ir;
    gale__val from = add(ir, t->base[GALE__ATTENTION_MASK], mul(ir, row, row_stride(t, GALE__ATTENTION_MASK)));
    gale_type type = t->s->mask_type;
    if (t->s->mask_wide) {
        gale__val at = pick(ir, test(ir, GALE__LT, key, t->n), add(ir, from, key), t->zero);
        gale__ir_load_as(ir, EXTRA, type, 4, at, out);
        return;
    }
    for (uint32_t i = 0; i < 4; i++) {
        gale__val k = plus(ir, key, i), at = add(ir, from, mul(ir, k, column_stride(t, GALE__ATTENTION_MASK)));
        gale__ir_load_as(ir, EXTRA, type, 1, pick(ir, test(ir, GALE__LT, k, t->n), at, t->zero), &out[i]);
    }
}

static gale__val hide(const attention *t, gale__val key, gale__val row, gale__val v)
{
    gale__ir *ir = t->ir;
    gale__val from = add(ir, t->base[GALE__ATTENTION_HIDE], mul(ir, row, row_stride(t, GALE__ATTENTION_HIDE)));
    gale__val at = add(ir, from, mul(ir, key, column_stride(t, GALE__ATTENTION_HIDE)));
    gale__val byte =
        gale__ir_load(ir, EXTRA + t->s->masked, GALE_U8, 1, pick(ir, test(ir, GALE__LT, key, t->n), at, t->zero));
    return pick(ir, test(ir, t->s->hidden ? GALE__NE : GALE__EQ, byte, t->zero), word_f32(ir, GALE__AW_FILL), v);
}

/* Scores of four neighbours from `column` of the step on, scaled and masked; keys that the row does not see get -inf.
 */
static void read_scores(const attention *t, gale__val column, gale__val step, gale__val *v)
{
    gale__ir *ir = t->ir;
    gale__val key = add(ir, step, column), last = bin(ir, GALE__SUB, t->m, u32(ir, 1)), row = least(ir, t->row, last);
    gale__val limit = t->s->causal ? least(ir, t->n, add(ir, t->row, word(ir, GALE__AW_SEEN))) : t->n, mask[4];
    gale__ir_get_lanes(ir, t->scores, GALE_F32, 4, add(ir, t->score_at, column), v);
    if (t->s->masked) load_mask(t, key, row, mask);
    for (uint32_t i = 0; i < 4; i++) {
        gale__val k = plus(ir, key, i);
        v[i] = f32(ir, GALE__MUL, v[i], word_f32(ir, GALE__AW_SCALE));
        if (t->s->masked) v[i] = f32(ir, GALE__ADD, v[i], mask[i]);
        if (t->s->hides) v[i] = hide(t, k, row, v[i]);
        v[i] = pick(ir, test(ir, GALE__LT, k, limit), v[i], gale__ir_f32(ir, -INFINITY));
    }
}

/* Where this thread's group i of four neighbours begins in a row. */
static gale__val column_of(const attention *t, gale__val i)
{
    return times(t->ir, add(t->ir, times(t->ir, i, t->share), t->part), 4);
}

static gale__val exponential(gale__ir *ir, gale__val v) { return gale__ir_op1(ir, GALE__IR_FAST_EXP, GALE_F32, v); }

/* The largest score so far.  Rows that have seen none are measured from 0, so that nothing of them is NaN before all
 * of them is. */
static gale__val find_most(const attention *t, gale__val step)
{
    gale__ir *ir = t->ir;
    gale__val none = gale__ir_f32(ir, -INFINITY), v[4];
    gale__val largest = variable(ir, GALE_F32);
    write(t, largest, none);
    gale__val i = unrolled(ir, t->s->n16 / 4 / t->share, 1);
    read_scores(t, column_of(t, i), step, v);
    for (uint32_t k = 0; k < 4; k++) {
        set(ir, t->x, plus(ir, times(ir, i, 4), k), v[k]);
        write(t, largest, f32(ir, GALE__IR_MAX, read(t, largest), v[k]));
    }
    end(ir);
    gale__val most = agree(t, GALE__IR_MAX, read(t, largest));
    if (t->s->online) most = f32(ir, GALE__IR_MAX, most, read(t, t->most));
    gale__val from = pick(ir, test(ir, GALE__EQ, most, none), gale__ir_f32(ir, 0), most);
    if (t->s->online) {
        write(t, t->factor, exponential(ir, f32(ir, GALE__SUB, read(t, t->most), from)));
        write(t, t->most, most);
    }
    return from;
}

static void weigh(const attention *t, gale__val step)
{
    gale__ir *ir = t->ir;
    gale__val sum = variable(ir, GALE_F32), codes[4], from = find_most(t, step);
    gale__val at = add(ir, times(ir, t->warp, t->warp_weights), times(ir, t->at, t->s->weight_row));
    sub_barrier(ir); /* the weights lie where the scores did */
    write(t, sum, gale__ir_f32(ir, 0));
    gale__val i = unrolled(ir, t->s->n16 / 4 / t->share, 1);
    for (uint32_t k = 0; k < 4; k++) {
        gale__val x = get(ir, t->x, plus(ir, times(ir, i, 4), k)), e = exponential(ir, f32(ir, GALE__SUB, x, from));
        write(t, sum, f32(ir, GALE__ADD, read(t, sum), e));
        codes[k] = gale__ir_encode(ir, t->s->type, e);
    }
    gale__ir_set_lanes(ir, t->weights, GALE_U16, 4, add(ir, at, column_of(t, i)), codes);
    end(ir);
    gale__val all = agree(t, GALE__ADD, read(t, sum));
    if (t->s->online) all = f32(ir, GALE__ADD, all, f32(ir, GALE__MUL, read(t, t->sum), read(t, t->factor)));
    write(t, t->sum, all);
}

/* --- Steps. --- */

/* What the values of this step add to the thread's part of its row. */
static void gather(const attention *t)
{
    gale__ir *ir = t->ir;
    gale__val i = unrolled(ir, t->s->c16 / 4 / t->share, 1), v[4], factor = read(t, t->factor);
    gale__ir_get_lanes(ir, t->scores, GALE_F32, 4, add(ir, t->score_at, column_of(t, i)), v);
    for (uint32_t k = 0; k < 4; k++) {
        gale__val at = plus(ir, times(ir, i, 4), k);
        set(ir, t->y, at, f32(ir, GALE__ADD, f32(ir, GALE__MUL, get(ir, t->y, at), factor), v[k]));
    }
    end(ir);
}

static void take_step(const attention *t, gale__val step, gale__val stage)
{
    gale__ir *ir = t->ir;
    const gale__attention_shape *s = t->s;
    gale__val weights = times(ir, t->warp, t->warp_weights);
    multiply(t, t->score_sums, s->n16 / 16, s->d16, t->queries, times(ir, t->warp, 16 * s->key_row), s->key_row, stage,
        s->key_row, true);
    store_sums(t, t->score_sums, s->n16 / 16);
    sub_barrier(ir);
    weigh(t, step);
    sub_barrier(ir);
    multiply(t, t->value_sums, s->c16 / 16, s->n16, t->weights, weights, s->weight_row, plus(ir, stage, t->values_at),
        s->value_row, false);
    sub_barrier(ir);
    store_sums(t, t->value_sums, s->c16 / 16);
    sub_barrier(ir);
    if (s->online) gather(t);
}

static void begin_rows(const attention *t)
{
    gale__ir *ir = t->ir;
    gale__val nothing = gale__ir_f32(ir, 0);
    write(t, t->most, gale__ir_f32(ir, -INFINITY));
    write(t, t->sum, nothing);
    gale__val i = unrolled(ir, t->s->c16 / t->share, 1);
    set(ir, t->y, i, nothing);
    end(ir);
}

/* With two stages the next keys are on their way while these are multiplied. */
static void take_steps(const attention *t)
{
    gale__ir *ir = t->ir;
    const gale__attention_shape *s = t->s;
    gale__val seen = add(ir, plus(ir, t->first, 16 * s->warps - 1), word(ir, GALE__AW_SEEN));
    gale__val keys = s->causal ? least(ir, t->n, seen) : t->n;
    begin_rows(t);
    write(t, t->current, t->zero);
    gale__val step = begin_for(ir, t->zero, keys, s->n16), next = plus(ir, step, s->n16), stage = read(t, t->current);
    wait_for_all(t);
    gale__val other = s->stages > 1 ? bin(ir, GALE__SUB, u32(ir, t->stage), stage) : t->zero;
    if (s->stages == 1) take_step(t, step, stage), barrier(ir);
    begin_if(ir, test(ir, GALE__LT, next, keys));
    bring_step(t, other, next);
    end(ir);
    commit(t);
    if (s->stages > 1) take_step(t, step, stage), write(t, t->current, other);
    end(ir);
    gale__val i = unrolled(ir, s->c16 / 4 / t->share, 1), v[4];
    for (uint32_t k = 0; k < 4; k++) v[k] = get(ir, t->y, plus(ir, times(ir, i, 4), k));
    gale__ir_set_lanes(ir, t->scores, GALE_F32, 4, add(ir, t->score_at, column_of(t, i)), v);
    end(ir);
}

/* --- Results. --- */

static void store_wide(const attention *t, gale__val from, gale__val to, gale__val inverse)
{
    gale__ir *ir = t->ir;
    gale__val v[8], pairs[4];
    for (uint32_t i = 0; i < 2; i++) gale__ir_get_lanes(ir, t->scores, GALE_F32, 4, plus(ir, from, 4 * i), v + 4 * i);
    for (int i = 0; i < 8; i++) v[i] = gale__ir_encode(ir, t->s->type, f32(ir, GALE__MUL, v[i], inverse));
    for (int i = 0; i < 4; i++)
        pairs[i] = bin(ir, GALE__OR, v[2 * i], bin(ir, GALE__IR_SHL, v[2 * i + 1], u32(ir, 16)));
    gale__ir_store_as(ir, RESULT, GALE_U32, 4, over(ir, to, 2), pairs);
}

/* Threads of a subgroup take neighbours of its 16 rows, which lie together in memory. */
static void store_rows(const attention *t)
{
    gale__ir *ir = t->ir;
    const gale__attention_shape *s = t->s;
    uint32_t by = s->wide_result ? 8 : 1, per = s->c16 / by;
    gale__val first = times(ir, t->warp, 16), one = gale__ir_f32(ir, 1);
    set(ir, t->inverse, add(ir, first, t->at), gale__ir_op2(ir, GALE__IR_FAST_DIV, GALE_F32, one, read(t, t->sum)));
    sub_barrier(ir);
    gale__val i = begin_for(ir, t->lane, u32(ir, 16 * per), s->lanes), r = add(ir, first, over(ir, i, per));
    gale__val column = times(ir, rest(ir, i, per), by), row = add(ir, t->first, r);
    begin_if(ir, both(ir, test(ir, GALE__LT, row, t->m), test(ir, GALE__LT, column, t->c)));
    gale__val to = add(ir, mul(ir, add(ir, mul(ir, t->head, t->m), row), t->c), column);
    gale__val from = add(ir, times(ir, r, s->score_row), column), inverse = get(ir, t->inverse, r);
    if (s->wide_result) store_wide(t, from, to, inverse);
    else {
        gale__val v = f32(ir, GALE__MUL, get(ir, t->scores, from), inverse);
        gale__ir_store_as(ir, RESULT, s->type, 1, to, &v);
    }
    end(ir);
    end(ir);
}

void gale__attention_build(const gale__attention_shape *s, gale__ir *ir)
{
    attention t = {.s = s, .ir = ir, .threads = s->warps * s->lanes, .share = s->lanes / 16};
    ir->group[0] = t.threads;
    ir->subgroup = (uint8_t)s->lanes;
    ir->readonly = ((1u << ir->n_pointers) - 1) & ~1u;
    t.zero = u32(ir, 0);
    t.tid = thread_id(ir), t.lane = rest(ir, t.tid, s->lanes), t.warp = over(ir, t.tid, s->lanes);
    t.m = word(ir, GALE__AW_M), t.n = word(ir, GALE__AW_N), t.d = word(ir, GALE__AW_D), t.c = word(ir, GALE__AW_C);
    place_group(&t);
    place_thread(&t);
    declare(&t);
    bring_queries(&t);
    bring_step(&t, t.zero, t.zero);
    commit(&t);
    if (s->online) take_steps(&t);
    else {
        wait_for_all(&t);
        take_step(&t, t.zero, t.zero);
    }
    store_rows(&t);
}
