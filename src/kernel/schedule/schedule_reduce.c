/* Reductions: first over the lanes of a thread, then over the threads that share an outer point, by exchange inside a
 * subgroup where the device can and through work-group memory beyond it.  An ARG reduction carries (value, index); ties
 * are settled by the index, so the result does not depend on the order of combination. */
#include "kernel/schedule/schedule_emit.h"

static gale__reduce kind_of(const gale__emit *e, int r) { return (gale__reduce)e->nest->code[r].imm; }
static bool is_arg(const gale__emit *e, int r) { return kind_of(e, r) >= GALE__ARGMAX; }
static bool takes_max(gale__reduce k) { return k == GALE__RMAX || k == GALE__ARGMAX || k == GALE__ARGMAX_LAST; }

gale_type gale__emit_acc_type(const gale__nest *nest, int r)
{
    gale_type type = gale__compute_type((gale_type)nest->code[r].acc);
    return type == GALE_BOOL ? GALE_I32 : type;
}

gale__ir_val gale__emit_identity(gale__emit *e, int r)
{
    gale_type type = gale__emit_acc_type(e->nest, r);
    return gale__ir_const(e->ir, type, gale__reduce_start(kind_of(e, r), type));
}

/* An index that loses every tie against a real index. */
static gale__ir_val no_index(gale__emit *e, int r)
{
    bool last = kind_of(e, r) >= GALE__ARGMAX_LAST;
    return gale__ir_i32(e->ir, last ? -1 : INT32_MAX);
}

/* Whether x wins over y; NaN wins over all numbers. */
static gale__ir_val arg_better(gale__emit *e, int r, gale__emit_acc x, gale__emit_acc y)
{
    gale__ir *ir = e->ir;
    gale__reduce k = kind_of(e, r);
    gale__ir_val wins = gale__ir_op2(ir, takes_max(k) ? GALE__GT : GALE__LT, GALE_BOOL, x.value, y.value);
    gale__ir_val tie = gale__ir_op2(ir, GALE__EQ, GALE_BOOL, x.value, y.value);
    if (gale__type_is_float(gale__ir_type(ir, x.value))) {
        gale__ir_val x_nan = gale__ir_op2(ir, GALE__NE, GALE_BOOL, x.value, x.value),
                     y_nan = gale__ir_op2(ir, GALE__NE, GALE_BOOL, y.value, y.value);
        gale__ir_val y_number = gale__ir_op1(ir, GALE__NOT, GALE_BOOL, y_nan);
        wins = gale__ir_op2(ir, GALE__OR, GALE_BOOL, wins, gale__emit_and(e, x_nan, y_number));
        tie = gale__ir_op2(ir, GALE__OR, GALE_BOOL, tie, gale__emit_and(e, x_nan, y_nan));
    }
    gale__ir_val before = gale__ir_op2(ir, k >= GALE__ARGMAX_LAST ? GALE__GT : GALE__LT, GALE_BOOL, x.index, y.index);
    return gale__ir_op2(ir, GALE__OR, GALE_BOOL, wins, gale__emit_and(e, tie, before));
}

static gale__emit_acc combine(gale__emit *e, int r, gale__emit_acc x, gale__emit_acc y)
{
    gale__ir *ir = e->ir;
    gale_type type = gale__emit_acc_type(e->nest, r);
    switch (kind_of(e, r)) {
    case GALE__SUM: return (gale__emit_acc){gale__ir_op2(ir, GALE__ADD, type, x.value, y.value), 0};
    case GALE__PROD: return (gale__emit_acc){gale__ir_op2(ir, GALE__MUL, type, x.value, y.value), 0};
    case GALE__RMAX: return (gale__emit_acc){gale__ir_scalar(ir, GALE__MAX, type, x.value, y.value, 0), 0};
    case GALE__RMIN: return (gale__emit_acc){gale__ir_scalar(ir, GALE__MIN, type, x.value, y.value, 0), 0};
    default: break;
    }
    gale__ir_val better = arg_better(e, r, y, x);
    return (gale__emit_acc){gale__ir_op3(ir, GALE__SELECT, type, better, y.value, x.value),
        gale__ir_op3(ir, GALE__SELECT, GALE_I32, better, y.index, x.index)};
}

/* The value of one inner lane, in the accumulator's type. */
static gale__emit_acc lane(gale__emit *e, int r, int outer_lane, int inner_lane)
{
    gale__ir *ir = e->ir;
    const gale__nest_instr *in = &e->nest->code[r];
    gale_type type = gale__emit_acc_type(e->nest, r), from = (gale_type)e->nest->code[in->a].type;
    gale__ir_val v = gale__emit_get(e, in->a, outer_lane, inner_lane),
                 valid = e->inner_valid[inner_lane / e->inner_vector];
    if (gale__compute_type(from) != type) v = gale__ir_cast(ir, from, type, v);
    gale__reduce k = kind_of(e, r);
    /* A lane past the end repeats the last point, which would only change sums and products. */
    if (valid && (k == GALE__SUM || k == GALE__PROD))
        v = gale__ir_op3(ir, GALE__SELECT, type, valid, v, gale__emit_identity(e, r));
    if (!is_arg(e, r)) return (gale__emit_acc){v, 0};
    gale__ir_val at = e->inner_index[inner_lane / e->inner_vector];
    return (gale__emit_acc){
        v, gale__ir_op2(ir, GALE__ADD, GALE_I32, at, gale__ir_i32(ir, inner_lane % e->inner_vector))};
}

/* Halves are combined with halves, so that rounding errors grow with the logarithm. */
void gale__emit_reduce_local(gale__emit *e, int r, gale__emit_acc *out)
{
    int n = e->inner_blocks * e->inner_vector;
    gale__emit_acc part[GALE__EMIT_LANES];
    for (int o = 0; o < e->outer_blocks * e->outer_vector; o++) {
        for (int k = 0; k < n; k++) part[k] = lane(e, r, o, k);
        for (int left = n; left > 1; left = (left + 1) / 2)
            for (int k = 0; k < left / 2; k++) part[k] = combine(e, r, part[k], part[k + (left + 1) / 2]);
        out[o] = part[0];
    }
}

static gale__ir_val shuffle32(gale__ir *ir, gale__ir_val v, uint32_t mask)
{
    return gale__ir_add(
        ir, (gale__ir_instr){.op = GALE__IR_SHUFFLE_XOR, .type = (uint8_t)gale__ir_type(ir, v), .a = v, .imm = mask});
}

static gale__ir_val shuffle(gale__ir *ir, gale__ir_val v, uint32_t mask)
{
    gale_type type = gale__ir_type(ir, v);
    if (gale__type_table[type].bits == 32) return shuffle32(ir, v, mask);
    gale__ir_val bits = gale__ir_op1(ir, GALE__BITCAST, GALE_U64, v), shift = gale__ir_const(ir, GALE_U64, 32);
    gale__ir_val low = shuffle32(ir, gale__ir_op1(ir, GALE__IR_CONVERT, GALE_U32, bits), mask);
    gale__ir_val high =
        gale__ir_op1(ir, GALE__IR_CONVERT, GALE_U32, gale__ir_op2(ir, GALE__IR_SHR, GALE_U64, bits, shift));
    high = gale__ir_op1(ir, GALE__IR_CONVERT, GALE_U64, shuffle32(ir, high, mask));
    bits = gale__ir_op2(ir, GALE__OR, GALE_U64, gale__ir_op1(ir, GALE__IR_CONVERT, GALE_U64, low),
        gale__ir_op2(ir, GALE__IR_SHL, GALE_U64, high, shift));
    return gale__ir_op1(ir, GALE__BITCAST, type, bits);
}

static gale__emit_acc exchange(gale__emit *e, int r, gale__emit_acc x, uint32_t threads)
{
    for (uint32_t mask = threads / 2; mask; mask /= 2) {
        gale__emit_acc y = {shuffle(e->ir, x.value, mask), x.index ? shuffle(e->ir, x.index, mask) : 0};
        x = combine(e, r, x, y);
    }
    return x;
}

/* Work-group memory for one accumulator: a place for each thread (or subgroup). */
typedef struct board {
    gale__ir_val value, index;
    gale_type type;
} board;

static board make_board(gale__emit *e, int r, uint32_t places)
{
    gale_type type = gale__emit_acc_type(e->nest, r);
    board b = {0, 0, type};
    b.value = gale__ir_add(e->ir, (gale__ir_instr){.op = GALE__IR_SHARED, .type = (uint8_t)type, .imm = places});
    if (is_arg(e, r))
        b.index = gale__ir_add(e->ir, (gale__ir_instr){.op = GALE__IR_SHARED, .type = GALE_I32, .imm = places});
    return b;
}

static void write_board(gale__emit *e, board b, gale__ir_val at, gale__emit_acc x)
{
    gale__ir_op3(e->ir, GALE__IR_SET, b.type, b.value, at, x.value);
    if (b.index) gale__ir_op3(e->ir, GALE__IR_SET, GALE_I32, b.index, at, x.index);
}

static gale__emit_acc read_board(gale__emit *e, board b, gale__ir_val at)
{
    return (gale__emit_acc){gale__ir_op2(e->ir, GALE__IR_GET, b.type, b.value, at),
        b.index ? gale__ir_op2(e->ir, GALE__IR_GET, GALE_I32, b.index, at) : 0};
}

static void barrier(gale__emit *e) { gale__ir_add(e->ir, (gale__ir_instr){.op = GALE__IR_BARRIER}); }

static gale__ir_val add32(gale__emit *e, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(e->ir, GALE__ADD, GALE_U32, a, b);
}

/* Several subgroups share an outer point: each leaves its value, and each puts all of them together again. */
static gale__emit_acc across_subgroups(gale__emit *e, int r, gale__emit_acc x)
{
    gale__ir *ir = e->ir;
    uint32_t width = e->schedule->shuffle, parts = e->schedule->threads / width,
             all = (uint32_t)e->schedule->threads * e->schedule->rows / width;
    board b = make_board(e, r, all);
    gale__ir_val lane_id = gale__ir_op2(ir, GALE__AND, GALE_U32, e->tid, gale__ir_u32(ir, width - 1));
    gale__ir_val subgroup = gale__ir_op2(ir, GALE__IR_DIV, GALE_U32, e->tid, gale__ir_u32(ir, width));
    gale__emit_if(e, gale__ir_op2(ir, GALE__EQ, GALE_BOOL, lane_id, gale__ir_u32(ir, 0)));
    write_board(e, b, subgroup, x);
    gale__emit_close(e);
    barrier(e);
    gale__ir_val first = gale__ir_op2(ir, GALE__AND, GALE_U32, subgroup, gale__ir_u32(ir, ~(parts - 1)));
    if (parts <= width) {
        gale__ir_val mine = gale__ir_op2(ir, GALE__AND, GALE_U32, lane_id, gale__ir_u32(ir, parts - 1));
        return exchange(e, r, read_board(e, b, add32(e, first, mine)), parts);
    }
    x = read_board(e, b, first);
    for (uint32_t i = 1; i < parts; i++) x = combine(e, r, x, read_board(e, b, add32(e, first, gale__ir_u32(ir, i))));
    return x;
}

/* Without shuffles: a tree reduction in work-group memory, eight to one per step. */
static gale__emit_acc by_board(gale__emit *e, int r, gale__emit_acc x)
{
    gale__ir *ir = e->ir;
    uint32_t threads = e->schedule->threads, step = e->schedule->kind == GALE__SCHEDULE_ROW ? 1 : e->schedule->rows;
    board b = make_board(e, r, threads * e->schedule->rows);
    gale__ir_val head = e->schedule->kind == GALE__SCHEDULE_ROW
                            ? gale__ir_op2(ir, GALE__SUB, GALE_U32, e->tid, e->row_tid)
                            : gale__ir_op2(ir, GALE__AND, GALE_U32, e->tid, gale__ir_u32(ir, step - 1));
    write_board(e, b, e->tid, x);
    barrier(e);
    for (uint32_t left = threads; left > 8;) {
        uint32_t next = left / 8;
        gale__emit_if(e, gale__ir_op2(ir, GALE__LT, GALE_BOOL, e->row_tid, gale__ir_u32(ir, next)));
        gale__emit_acc sum = x;
        if (left != threads) sum = read_board(e, b, e->tid);
        for (uint32_t i = 1; i < 8; i++)
            sum = combine(e, r, sum, read_board(e, b, add32(e, e->tid, gale__ir_u32(ir, i * next * step))));
        write_board(e, b, e->tid, sum);
        gale__emit_close(e);
        barrier(e);
        left = next;
        if (left <= 8) threads = left;
    }
    x = read_board(e, b, head);
    for (uint32_t i = 1; i < threads; i++)
        x = combine(e, r, x, read_board(e, b, add32(e, head, gale__ir_u32(ir, i * step))));
    return x;
}

void gale__emit_reduce_threads(gale__emit *e, int r, gale__emit_acc *acc)
{
    uint32_t threads = e->schedule->threads, width = e->schedule->shuffle;
    if (threads <= 1) return;
    for (int o = 0; o < e->outer_blocks * e->outer_vector; o++) {
        if (!width || e->schedule->kind != GALE__SCHEDULE_ROW) {
            acc[o] = by_board(e, r, acc[o]);
            continue;
        }
        acc[o] = exchange(e, r, acc[o], threads < width ? threads : width);
        if (threads > width) acc[o] = across_subgroups(e, r, acc[o]);
    }
}

void gale__emit_reduce_begin(gale__emit *e, int r, gale__emit_acc *variables)
{
    gale__ir *ir = e->ir;
    gale_type type = gale__emit_acc_type(e->nest, r);
    gale__ir_val zero = gale__ir_u32(ir, 0);
    for (int o = 0; o < e->outer_blocks * e->outer_vector; o++) {
        variables[o] = (gale__emit_acc){
            gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ARRAY, .type = (uint8_t)type, .imm = 1}), 0};
        gale__ir_op3(ir, GALE__IR_SET, type, variables[o].value, zero, gale__emit_identity(e, r));
        if (!is_arg(e, r)) continue;
        variables[o].index = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ARRAY, .type = GALE_I32, .imm = 1});
        gale__ir_op3(ir, GALE__IR_SET, GALE_I32, variables[o].index, zero, no_index(e, r));
    }
}

void gale__emit_reduce_read(gale__emit *e, int r, const gale__emit_acc *variables, gale__emit_acc *out)
{
    board b = {.type = gale__emit_acc_type(e->nest, r)};
    for (int o = 0; o < e->outer_blocks * e->outer_vector; o++) {
        b.value = variables[o].value;
        b.index = variables[o].index;
        out[o] = read_board(e, b, gale__ir_u32(e->ir, 0));
    }
}

void gale__emit_reduce_step(gale__emit *e, int r, const gale__emit_acc *variables)
{
    gale__emit_acc part[GALE__EMIT_LANES], old[GALE__EMIT_LANES];
    gale__emit_reduce_local(e, r, part);
    gale__emit_reduce_read(e, r, variables, old);
    for (int o = 0; o < e->outer_blocks * e->outer_vector; o++) {
        board b = {variables[o].value, variables[o].index, gale__emit_acc_type(e->nest, r)};
        write_board(e, b, gale__ir_u32(e->ir, 0), combine(e, r, old[o], part[o]));
    }
}

void gale__emit_reduce_finish(gale__emit *e, int r, const gale__emit_acc *acc)
{
    const gale__nest_instr *in = &e->nest->code[r];
    gale_type type = (gale_type)in->type, compute = gale__compute_type(type), have = gale__emit_acc_type(e->nest, r);
    for (int o = 0; o < e->outer_blocks * e->outer_vector; o++) {
        gale__ir_val v = acc[o].value;
        if (is_arg(e, r)) v = gale__ir_op1(e->ir, GALE__IR_CONVERT, compute, acc[o].index);
        else if (have != compute || (gale__type_is_int(type) && gale__type_table[type].bits < 32))
            v = gale__ir_cast(e->ir, have, type, v);
        e->val[r * e->lanes + o] = v;
    }
    e->done[r] = 1;
}

void gale__emit_results(gale__emit *e, int reduce, const gale__emit_acc *sums)
{
    const gale__nest *nest = e->nest;
    gale__emit_reduce_finish(e, reduce, sums);
    for (int i = 0; i < nest->n_stores; i++) e->wanted[nest->stores[i].value] = 1;
    gale__nest_mark_cone(nest, e->wanted);
    for (int i = 0; i < nest->n_code; i++)
        if (e->wanted[i] && nest->code[i].op != GALE__NEST_REDUCE) gale__emit_instr(e, i);
    for (int i = 0; i < nest->n_stores; i++) gale__emit_store(e, &nest->stores[i], 0);
}
