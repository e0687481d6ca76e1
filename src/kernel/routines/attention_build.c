/* The kernel of an attention.  Each subgroup processes 16 rows of queries.  In each step it multiplies them by the
 * step's keys, turns the scores into weights, and multiplies those, rounded, by the values.  Threads keep the largest
 * score and the sum of their rows. */
#include "kernel/routines/attention_build.h"
#include <math.h>

/* --- Places. --- */

static gale__ir_val row_stride(const attention *t, int view)
{
    return word(t->ir, GALE__AW_VIEWS + view * GALE__AW_VIEW + 1 + GALE__CPU_LEAD);
}
static gale__ir_val column_stride(const attention *t, int view)
{
    return word(t->ir, GALE__AW_VIEWS + view * GALE__AW_VIEW + 2 + GALE__CPU_LEAD);
}

/* n / d, for a divisor among the words; *rest: n % d. */
static gale__ir_val divide(gale__ir *ir, gale__ir_val n, int divisor, gale__ir_val *remainder)
{
    gale__ir_val high = bin(ir, GALE__IR_MULHI, n, word(ir, divisor + 1)),
                 q = bin(ir, GALE__IR_SHR, add(ir, high, n), word(ir, divisor + 2));
    *remainder = bin(ir, GALE__SUB, n, mul(ir, q, word(ir, divisor)));
    return q;
}

/* Assigns rows and a head to the group; groups past the last one repeat its work. */
static void place_group(attention *t)
{
    gale__ir *ir = t->ir;
    const gale__attention_shape *s = t->s;
    gale__ir_val last = bin(ir, GALE__SUB, word(ir, GALE__AW_GROUPS), u32(ir, 1)),
                 group = least(ir, group_id(ir), last), block;
    t->head = divide(ir, group, GALE__AW_BLOCKS, &block);
    t->first = times(ir, block, 16 * s->warps);
    if (s->joined) t->item = divide(ir, t->head, GALE__AW_BESIDE, &t->beside);
    for (int v = 0; v < GALE__ATTENTION_VIEWS; v++) t->base[v] = word(ir, GALE__AW_VIEWS + v * GALE__AW_VIEW);
    gale__ir_val left = t->head;
    for (uint32_t i = s->axes; i-- > 0;) {
        gale__ir_val place = left;
        if (i) left = divide(ir, left, GALE__AW_EXTENT + 3 * (int)i, &place);
        for (int v = 0; v < GALE__ATTENTION_VIEWS; v++) {
            gale__ir_val stride = word(ir, GALE__AW_VIEWS + v * GALE__AW_VIEW + 1 + (int)i);
            t->base[v] = add(ir, t->base[v], mul(ir, place, stride));
        }
    }
}

static void declare(attention *t)
{
    gale__ir *ir = t->ir;
    const gale__attention_shape *s = t->s;
    t->values_at = s->n16 * s->key_row;
    t->stage = t->values_at + s->n16 * s->value_row;
    t->queries = array(ir, GALE__IR_SHARED, GALE_U16, 16 * s->warps * s->key_row);
    t->parts = array(ir, GALE__IR_SHARED, GALE_U16, s->stages * t->stage);
    if (!s->shuffles && t->share > 1) t->board = array(ir, GALE__IR_SHARED, GALE_F32, t->threads);
    t->score_sums = array(ir, GALE__IR_SUMS, GALE_F32, s->n16 / 16);
    t->value_sums = array(ir, GALE__IR_SUMS, GALE_F32, s->c16 / 16);
    for (int i = 0; i < 1 + s->quads; i++)
        t->most[i] = variable(ir, GALE_F32), t->sum[i] = variable(ir, GALE_F32), t->factor[i] = variable(ir, GALE_F32);
    t->current = variable(ir, GALE_U32);
    if (s->quads) gale__attention_quads_declare(t);
    else gale__attention_rows_declare(t);
}

gale__ir_val gale__attention_result(const attention *t, gale__ir_val row)
{
    gale__ir *ir = t->ir;
    if (!t->s->joined) return mul(ir, add(ir, mul(ir, t->head, t->m), row), t->c);
    row = add(ir, mul(ir, t->item, t->m), row);
    return mul(ir, add(ir, mul(ir, row, word(ir, GALE__AW_BESIDE)), t->beside), t->c);
}

/* --- Loading operands into work-group memory, with zero padding of rows and columns. --- */

typedef struct piece {
    int view;
    gale__ir_val to, at, first, end,
        columns;                 /* destination array and element; range of rows; number of valid columns */
    uint32_t rows, width, pitch; /* number of columns with padding; row stride in elements */
} piece;

/* 16 bytes, the i-th of the piece. */
static void copy_one(const attention *t, const piece *p, gale__ir_val i)
{
    gale__ir *ir = t->ir;
    uint32_t per = p->width / 8;
    gale__ir_val r = over(ir, i, per);
    gale__ir_val column = times(ir, rest(ir, i, per), 8), row = add(ir, p->first, r);
    gale__ir_val from = add(ir, t->base[p->view], add(ir, mul(ir, row, row_stride(t, p->view)), column));
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_COPY,
                         .width = 4,
                         .a = p->to,
                         .b = add(ir, p->at, add(ir, times(ir, r, p->pitch), column)),
                         .c = from,
                         .d = both(ir, test(ir, GALE__LT, row, p->end), test(ir, GALE__LT, column, p->columns)),
                         .imm = (uint64_t)(Q + p->view)});
}

#define MOST_COPIES 16
#define FEW_COPIES 4

/* Copies that are emulated by loads and stores are unrolled, so that the loads overlap; others where they are few. */
static void copy_piece(const attention *t, const piece *p)
{
    uint32_t count = p->rows * (p->width / 8), each = count / t->threads;
    if (each * t->threads == count && each <= (t->s->quads ? FEW_COPIES : MOST_COPIES)) {
        for (uint32_t i = 0; i < each; i++) copy_one(t, p, plus(t->ir, t->tid, i * t->threads));
        return;
    }
    copy_one(t, p, begin_for(t->ir, t->tid, u32(t->ir, count), t->threads));
    end(t->ir);
}

static void load_piece(const attention *t, const piece *p)
{
    gale__ir *ir = t->ir;
    bool by_row = t->s->load[p->view] == GALE__ATTENTION_BY_ROW;
    uint32_t per = by_row ? p->width : p->rows;
    gale__ir_val i = begin_for(ir, t->tid, u32(ir, p->rows * p->width), t->threads);
    gale__ir_val r = by_row ? over(ir, i, per) : rest(ir, i, per),
                 column = by_row ? rest(ir, i, per) : over(ir, i, per);
    gale__ir_val row = add(ir, p->first, r);
    gale__ir_val ok = both(ir, test(ir, GALE__LT, row, p->end), test(ir, GALE__LT, column, p->columns));
    gale__ir_val from = add(ir, mul(ir, row, row_stride(t, p->view)), mul(ir, column, column_stride(t, p->view)));
    gale__ir_val v =
        gale__ir_load(ir, Q + p->view, GALE_U16, 1, pick(ir, ok, add(ir, t->base[p->view], from), t->zero));
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
static void bring_step(const attention *t, gale__ir_val to, gale__ir_val from)
{
    const gale__attention_shape *s = t->s;
    bring(t, &(piece){GALE__ATTENTION_K, t->parts, to, from, t->n, t->d, s->n16, s->d16, s->key_row});
    bring(t, &(piece){GALE__ATTENTION_V, t->parts, plus(t->ir, to, t->values_at), from, t->n, t->c, s->n16, s->c16,
                 s->value_row});
}

/* Number of asynchronous copies in flight; 0 if operands are loaded element by element. */
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

static gale__ir_val matrix(const attention *t, int op, bool turned, gale__ir_val from, gale__ir_val at, uint32_t row)
{
    return gale__ir_add(
        t->ir, (gale__ir_instr){
                   .op = (uint8_t)op, .type = (uint8_t)t->s->type, .mem = turned, .a = from, .b = at, .imm = row});
}

void gale__attention_zero(const attention *t, gale__ir_val sums, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        gale__ir_add(t->ir, (gale__ir_instr){.op = GALE__IR_SUMS_ZERO, .a = sums, .imm = i});
}

void gale__attention_multiply(const attention *t, gale__ir_val sums, uint32_t n, uint32_t k_end,
    gale__attention_left left, gale__ir_val b_at, bool turned)
{
    gale__ir *ir = t->ir;
    uint32_t row = turned ? t->s->key_row : t->s->value_row;
    gale__ir_val k = unrolled(ir, k_end, 16);
    gale__ir_val a = left.array ? matrix(t, GALE__IR_MATRIX_A, false, left.array, add(ir, left.at, k), left.row)
                                : matrix(t, GALE__IR_MATRIX_SUMS, false, t->score_sums, over(ir, k, 16), 0);
    gale__ir_val along = add(ir, b_at, turned ? k : times(ir, k, row));
    for (uint32_t i = 0; i < n; i++) {
        gale__ir_val b =
            matrix(t, GALE__IR_MATRIX_B, turned, t->parts, plus(ir, along, 16 * i * (turned ? row : 1)), row);
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SUMS_ADD, .a = sums, .b = a, .c = b, .imm = i});
    }
    end(ir);
}

void gale__attention_score(const attention *t, gale__ir_val stage)
{
    const gale__attention_shape *s = t->s;
    gale__attention_left queries = {t->queries, times(t->ir, t->warp, 16 * s->key_row), s->key_row};
    gale__attention_zero(t, t->score_sums, s->n16 / 16);
    gale__attention_multiply(t, t->score_sums, s->n16 / 16, s->d16, queries, stage, true);
}

/* --- Softmax. --- */

/* n neighbours of a mask or of numbers, from `key` on. */
static void load_neighbours(const attention *t, int view, int buffer, gale_type type, bool wide, gale__ir_val from,
    gale__ir_val key, uint32_t n, gale__ir_val *out)
{
    gale__ir *ir = t->ir;
    if (wide) {
        gale__ir_val at = pick(ir, test(ir, GALE__LT, key, t->n), add(ir, from, key), t->zero);
        gale__ir_load_as(ir, buffer, type, (int)n, at, out);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        gale__ir_val k = plus(ir, key, i), at = add(ir, from, mul(ir, k, column_stride(t, view)));
        gale__ir_load_as(ir, buffer, type, 1, pick(ir, test(ir, GALE__LT, k, t->n), at, t->zero), &out[i]);
    }
}

static gale__ir_val begin_of_row(const attention *t, int view, gale__ir_val row)
{
    return add(t->ir, t->base[view], mul(t->ir, row, row_stride(t, view)));
}
static gale__ir_val last_row(const attention *t) { return bin(t->ir, GALE__SUB, t->m, u32(t->ir, 1)); }

static void load_own_numbers(attention *t)
{
    for (int i = 0; t->s->others && i < 1 + t->s->quads; i++) {
        gale__ir_val from = begin_of_row(t, GALE__ATTENTION_HIDE, least(t->ir, t->row[i], last_row(t)));
        t->own[i] = gale__ir_load(t->ir, EXTRA + t->s->masked, GALE_I32, 1, from);
    }
}

void gale__attention_numbers(const attention *t, gale__ir_val key, uint32_t n, gale__ir_val *out)
{
    if (t->s->others)
        load_neighbours(t, GALE__ATTENTION_HIDE, EXTRA + t->s->masked, GALE_I32, t->s->others_wide,
            t->base[GALE__ATTENTION_HIDE], key, n, out);
}

static gale__ir_val hide(const attention *t, gale__ir_val key, gale__ir_val row, gale__ir_val v)
{
    gale__ir *ir = t->ir;
    gale__ir_val from = begin_of_row(t, GALE__ATTENTION_HIDE, row);
    gale__ir_val at = add(ir, from, mul(ir, key, column_stride(t, GALE__ATTENTION_HIDE)));
    gale__ir_val byte =
        gale__ir_load(ir, EXTRA + t->s->masked, GALE_U8, 1, pick(ir, test(ir, GALE__LT, key, t->n), at, t->zero));
    return pick(ir, test(ir, t->s->hidden ? GALE__NE : GALE__EQ, byte, t->zero), word_f32(ir, GALE__AW_FILL), v);
}

void gale__attention_scores(const attention *t, gale__ir_val key, int r, uint32_t n, gale__ir_val all,
    const gale__ir_val *numbers, gale__ir_val *v)
{
    gale__ir *ir = t->ir;
    gale__ir_val row = t->row[r], there = least(ir, row, last_row(t)), mask[4];
    gale__ir_val limit = t->s->causal ? least(ir, t->n, add(ir, row, word(ir, GALE__AW_SEEN))) : t->n;
    if (t->s->masked)
        load_neighbours(t, GALE__ATTENTION_MASK, EXTRA, t->s->mask_type, t->s->mask_wide,
            begin_of_row(t, GALE__ATTENTION_MASK, there), key, n, mask);
    for (uint32_t i = 0; i < n; i++) {
        gale__ir_val k = plus(ir, key, i);
        if (!t->s->late) v[i] = f32(ir, GALE__MUL, v[i], word_f32(ir, GALE__AW_SCALE));
        if (t->s->masked) v[i] = f32(ir, GALE__ADD, v[i], mask[i]);
        if (t->s->others) v[i] = pick(ir, test(ir, GALE__EQ, t->own[r], numbers[i]), v[i], word_f32(ir, GALE__AW_FILL));
        else if (t->s->hides) v[i] = hide(t, k, there, v[i]);
        gale__ir_val seen = v[i];
        if (!t->s->whole) v[i] = pick(ir, test(ir, GALE__LT, k, limit), v[i], gale__ir_f32(ir, -INFINITY));
        if (all) v[i] = pick(ir, all, seen, v[i]);
    }
}

gale__ir_val gale__attention_combine(const attention *t, int op, gale__ir_val v)
{
    gale__ir *ir = t->ir;
    if (t->s->shuffles) {
        for (uint32_t mask = 1; mask < t->share; mask *= 2)
            v = f32(ir, op, v,
                gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SHUFFLE_XOR, .type = GALE_F32, .a = v, .imm = mask}));
        return v;
    }
    if (t->share == 1) return v;
    gale__ir_val from = bin(ir, GALE__SUB, t->tid, t->part);
    set(ir, t->board, t->tid, v);
    sub_barrier(ir);
    v = get(ir, t->board, from);
    for (uint32_t i = 1; i < t->share; i++) v = f32(ir, op, v, get(ir, t->board, plus(ir, from, i)));
    sub_barrier(ir);
    return v;
}

/* e to the power of a score, or two where scores are exponents of two. */
static gale__ir_val exponential(const attention *t, gale__ir_val v)
{
    return gale__ir_op1(t->ir, t->s->powers ? GALE__IR_FAST_EXP2 : GALE__IR_FAST_EXP, GALE_F32, v);
}

gale__ir_val gale__attention_weight(const attention *t, gale__ir_val score, gale__ir_val from)
{
    gale__ir *ir = t->ir;
    gale__ir_val less = gale__ir_op1(ir, GALE__NEG, GALE_F32, from);
    if (!t->s->late) return exponential(t, f32(ir, GALE__SUB, score, from));
    return exponential(t, gale__ir_op3(ir, GALE__FMA, GALE_F32, score, word_f32(ir, GALE__AW_SCALE), less));
}

gale__ir_val gale__attention_maximum(const attention *t, int row, gale__ir_val largest)
{
    gale__ir *ir = t->ir;
    gale__ir_val most = gale__attention_combine(t, GALE__IR_MAX, largest), old = read(t, t->most[row]);
    if (t->s->late) most = f32(ir, GALE__MUL, most, word_f32(ir, GALE__AW_SCALE));
    if (t->s->online) most = f32(ir, GALE__IR_MAX, most, old);
    gale__ir_val none = test(ir, GALE__EQ, most, gale__ir_f32(ir, -INFINITY));
    gale__ir_val from = pick(ir, none, gale__ir_f32(ir, 0), most);
    if (t->s->online) {
        write(t, t->factor[row], exponential(t, f32(ir, GALE__SUB, old, from)));
        write(t, t->most[row], most);
    }
    return from;
}

void gale__attention_add_sum(const attention *t, int row, gale__ir_val sum)
{
    gale__ir *ir = t->ir;
    gale__ir_val all = gale__attention_combine(t, GALE__ADD, sum);
    if (t->s->online) all = f32(ir, GALE__ADD, all, f32(ir, GALE__MUL, read(t, t->sum[row]), read(t, t->factor[row])));
    write(t, t->sum[row], all);
}

gale__ir_val gale__attention_inverse(const attention *t, int row)
{
    gale__ir *ir = t->ir;
    gale__ir_val sum = read(t, t->sum[row]), zero = gale__ir_f32(ir, 0);
    gale__ir_val inverse = gale__ir_op2(ir, GALE__IR_FAST_DIV, GALE_F32, gale__ir_f32(ir, 1), sum);
    return t->s->blind ? pick(ir, test(ir, GALE__EQ, sum, zero), zero, inverse) : inverse;
}

/* --- Steps. --- */

static void begin_rows(const attention *t)
{
    for (int i = 0; i < 1 + t->s->quads; i++) {
        write(t, t->most[i], gale__ir_f32(t->ir, -INFINITY));
        write(t, t->sum[i], gale__ir_f32(t->ir, 0));
    }
    if (t->s->quads) gale__attention_quads_begin(t);
    else gale__attention_rows_begin(t);
}

static void take_step(const attention *t, gale__ir_val step, gale__ir_val stage)
{
    if (t->s->quads) gale__attention_quads_step(t, step, stage);
    else gale__attention_rows_step(t, step, stage);
}

/* With two stages, the next keys are loaded while the current ones are multiplied. */
static void take_steps(const attention *t)
{
    gale__ir *ir = t->ir;
    const gale__attention_shape *s = t->s;
    gale__ir_val seen = add(ir, plus(ir, t->first, 16 * s->warps - 1), word(ir, GALE__AW_SEEN));
    gale__ir_val keys = s->causal ? least(ir, t->n, seen) : t->n;
    write(t, t->current, t->zero);
    gale__ir_val step = begin_for(ir, t->zero, keys, s->n16), next = plus(ir, step, s->n16),
                 stage = read(t, t->current);
    wait_for_all(t);
    gale__ir_val other = s->stages > 1 ? bin(ir, GALE__SUB, u32(ir, t->stage), stage) : t->zero;
    if (s->stages == 1) take_step(t, step, stage), barrier(ir);
    begin_if(ir, test(ir, GALE__LT, next, keys));
    bring_step(t, other, next);
    end(ir);
    commit(t);
    if (s->stages > 1) take_step(t, step, stage), write(t, t->current, other);
    end(ir);
}

void gale__attention_build(const gale__attention_shape *s, gale__ir *ir)
{
    attention t = {.s = s, .ir = ir, .threads = s->warps * s->lanes, .share = s->quads ? 4 : s->lanes / 16};
    ir->group[0] = t.threads;
    ir->subgroup = (uint8_t)s->lanes;
    ir->readonly = ((1u << ir->n_pointers) - 1) & ~1u;
    t.zero = u32(ir, 0);
    t.tid = thread_id(ir), t.lane = rest(ir, t.tid, s->lanes), t.warp = over(ir, t.tid, s->lanes);
    t.part = rest(ir, t.lane, t.share);
    t.m = word(ir, GALE__AW_M), t.n = word(ir, GALE__AW_N), t.d = word(ir, GALE__AW_D), t.c = word(ir, GALE__AW_C);
    place_group(&t);
    declare(&t);
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_READY});
    load_own_numbers(&t);
    bring_queries(&t);
    bring_step(&t, t.zero, t.zero);
    commit(&t);
    begin_rows(&t);
    if (s->online) take_steps(&t);
    else {
        wait_for_all(&t);
        take_step(&t, t.zero, t.zero);
    }
    if (s->quads) gale__attention_quads_finish(&t);
    else gale__attention_rows_finish(&t);
}
