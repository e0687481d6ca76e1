/* Scans and scatters.  A line that one thread can walk is walked; a long one is cut into blocks that are scanned in
 * work-group memory, the blocks' totals are scanned the same way, and each block takes what came before it.  A scatter
 * applies sorted updates: the first of those that target the same element applies them all, in order. */
#include "kernel/schedule/special_ir.h"

static gale__ir_val combine(gale__ir *ir, const gale__special_launch *l, gale__ir_val a, gale__ir_val b)
{
    gale_type type = (gale_type)l->type, compute = gale__compute_type(type);
    gale__ir_val v;
    switch (l->mode) {
    case GALE__SUM: v = gale__ir_op2(ir, GALE__ADD, compute, a, b); break;
    case GALE__PROD: v = gale__ir_op2(ir, GALE__MUL, compute, a, b); break;
    case GALE__RMAX: return gale__ir_scalar(ir, GALE__MAX, compute, a, b, 0);
    default: return gale__ir_scalar(ir, GALE__MIN, compute, a, b, 0);
    }
    return gale__type_is_int(type) && gale__type_table[type].bits < 32 ? gale__ir_narrow(ir, type, v) : v;
}

static gale__ir_val start_of(gale__ir *ir, const gale__special_launch *l)
{
    gale_type compute = gale__compute_type((gale_type)l->type);
    return gale__ir_const(ir, compute, gale__reduce_start((gale__reduce)l->mode, compute));
}

static gale__ir_val load(gale__ir *ir, const gale__special_launch *l, int pointer, gale__ir_val at)
{
    gale__ir_val v;
    gale__ir_load_as(ir, pointer, (gale_type)l->type, 1, at, &v);
    return v;
}

/* Where line `line` of [outer, n, inner] begins; its elements are `inner` apart.  Words: 0 n, 1 inner. */
static gale__ir_val line_start(gale__ir *ir, gale__ir_val line)
{
    gale__ir_val inner = word(ir, 1), outer = bin(ir, GALE__IR_DIV, line, inner),
                 rest = bin(ir, GALE__SUB, line, mul(ir, outer, inner));
    return add(ir, mul(ir, outer, mul(ir, word(ir, 0), inner)), rest);
}

/* A thread a line.  Words: 2 lines.  Pointers: x, y. */
static void build_lines(const gale__special_launch *l, gale__ir *ir)
{
    gale__ir_val line = add(ir, mul(ir, group_id(ir), u32(ir, l->threads)), thread_id(ir)), zero = u32(ir, 0);
    begin_if(ir, test(ir, GALE__LT, line, word(ir, 2)));
    gale__ir_val first = line_start(ir, line), sum = variable(ir, gale__compute_type((gale_type)l->type));
    set(ir, sum, zero, start_of(ir, l));
    gale__ir_val k = begin_for(ir, zero, word(ir, 0), 1), at = add(ir, first, mul(ir, k, word(ir, 1)));
    gale__ir_val v = combine(ir, l, get(ir, sum, zero), load(ir, l, 0, at));
    set(ir, sum, zero, v);
    gale__ir_store_as(ir, 1, (gale_type)l->type, 1, at, &v);
    end(ir);
    end(ir);
}

/* Places in work-group memory, with a gap after each 32 so that neighbours' elements are in different banks. */
static gale__ir_val padded(gale__ir *ir, gale__ir_val i) { return add(ir, i, bin(ir, GALE__IR_SHR, i, u32(ir, 5))); }

/* Inclusive scan of one value a thread, by doubling.  Every thread's result is left in `board`. */
static gale__ir_val scan_threads(
    gale__ir *ir, const gale__special_launch *l, gale__ir_val board, gale__ir_val tid, gale__ir_val v)
{
    set(ir, board, tid, v);
    barrier(ir);
    for (uint32_t step = 1; step < l->threads; step *= 2) {
        gale__ir_val has = test(ir, GALE__GE, tid, u32(ir, step));
        gale__ir_val other = get(ir, board, pick(ir, has, bin(ir, GALE__SUB, tid, u32(ir, step)), tid));
        v = pick(ir, has, combine(ir, l, other, v), v);
        barrier(ir);
        set(ir, board, tid, v);
        barrier(ir);
    }
    return v;
}

/* A group a block of a line.  Words: 2 blocks in all, 3 blocks a line.  Pointers: x, y, totals. */
static void build_blocks(const gale__special_launch *l, gale__ir *ir)
{
    gale_type compute = gale__compute_type((gale_type)l->type);
    uint32_t each = l->block / l->threads;
    gale__ir_val tid = thread_id(ir), top = bin(ir, GALE__SUB, word(ir, 2), u32(ir, 1)),
                 group = bin(ir, GALE__IR_MIN, group_id(ir), top), n = word(ir, 0);
    gale__ir_val line = bin(ir, GALE__IR_DIV, group, word(ir, 3)),
                 block = bin(ir, GALE__SUB, group, mul(ir, line, word(ir, 3)));
    gale__ir_val first = line_start(ir, line), from = mul(ir, block, u32(ir, l->block)), start = start_of(ir, l);
    gale__ir_val tile = array(ir, GALE__IR_SHARED, compute, l->block + l->block / 32),
                 board = array(ir, GALE__IR_SHARED, compute, l->threads);
    for (uint32_t i = 0; i < each; i++) {
        gale__ir_val at = add(ir, tid, u32(ir, i * l->threads)), k = add(ir, from, at), real = test(ir, GALE__LT, k, n);
        gale__ir_val v = load(ir, l, 0, add(ir, first, mul(ir, pick(ir, real, k, u32(ir, 0)), word(ir, 1))));
        set(ir, tile, padded(ir, at), pick(ir, real, v, start));
    }
    barrier(ir);
    gale__ir_val own = mul(ir, tid, u32(ir, each)), sums[16], sum = 0;
    for (uint32_t i = 0; i < each; i++) {
        gale__ir_val v = get(ir, tile, padded(ir, add(ir, own, u32(ir, i))));
        sum = sums[i] = i ? combine(ir, l, sum, v) : v;
    }
    scan_threads(ir, l, board, tid, sum);
    gale__ir_val has = test(ir, GALE__GT, tid, u32(ir, 0)),
                 before = get(ir, board, pick(ir, has, bin(ir, GALE__SUB, tid, u32(ir, 1)), u32(ir, 0)));
    for (uint32_t i = 0; i < each; i++)
        set(ir, tile, padded(ir, add(ir, own, u32(ir, i))), pick(ir, has, combine(ir, l, before, sums[i]), sums[i]));
    barrier(ir);
    for (uint32_t i = 0; i < each; i++) {
        gale__ir_val at = add(ir, tid, u32(ir, i * l->threads)), k = add(ir, from, at),
                     v = get(ir, tile, padded(ir, at));
        begin_if(ir, test(ir, GALE__LT, k, n));
        gale__ir_store_as(ir, 1, (gale_type)l->type, 1, add(ir, first, mul(ir, k, word(ir, 1))), &v);
        end(ir);
    }
    begin_if(ir, test(ir, GALE__EQ, tid, u32(ir, l->threads - 1)));
    gale__ir_val all = get(ir, board, tid);
    gale__ir_store_as(ir, 2, compute, 1, group, &all);
    end(ir);
}

/* What came before its block, for every element past the first block.  Words: 2 elements in all, 3 blocks a line, 4
 * block. Pointers: y, scanned totals. */
static void build_apply(const gale__special_launch *l, gale__ir *ir)
{
    gale_type compute = gale__compute_type((gale_type)l->type);
    gale__ir_val at = add(ir, mul(ir, group_id(ir), u32(ir, l->threads)), thread_id(ir)), n = word(ir, 0),
                 inner = word(ir, 1), before;
    begin_if(ir, test(ir, GALE__LT, at, word(ir, 2)));
    gale__ir_val rest = bin(ir, GALE__IR_DIV, at, inner), in = bin(ir, GALE__SUB, at, mul(ir, rest, inner));
    gale__ir_val outer = bin(ir, GALE__IR_DIV, rest, n), k = bin(ir, GALE__SUB, rest, mul(ir, outer, n));
    gale__ir_val block = bin(ir, GALE__IR_DIV, k, word(ir, 4)), line = add(ir, mul(ir, outer, inner), in);
    begin_if(ir, test(ir, GALE__GT, block, u32(ir, 0)));
    gale__ir_load_as(
        ir, 1, compute, 1, bin(ir, GALE__SUB, add(ir, mul(ir, line, word(ir, 3)), block), u32(ir, 1)), &before);
    gale__ir_val v = combine(ir, l, before, load(ir, l, 0, at));
    gale__ir_store_as(ir, 0, (gale_type)l->type, 1, at, &v);
    end(ir);
    end(ir);
}

void gale__special_build_scan(const gale__special_launch *l, gale__ir *ir)
{
    if (l->kernel == SCAN_LINES) build_lines(l, ir);
    else if (l->kernel == SCAN_BLOCKS) build_blocks(l, ir);
    else build_apply(l, ir);
    if (l->kernel == SCAN_LINES) ir->readonly = 1;
}

/* --- PUT
 * -------------------------------------------------------------------------------------------------------------- */

/* Pointers: y, updates, index, order (places of the updates, sorted by index).  Words: 0 end and 2 first of
 * those to apply, 1 elements of y. */
static gale__ir_val place_at(gale__ir *ir, gale__ir_val i)
{
    return convert(ir, GALE_U32, gale__ir_load(ir, 3, GALE_I64, 1, i));
}
static gale__ir_val target_at(gale__ir *ir, gale__ir_val i)
{
    return gale__ir_load(ir, 2, GALE_I64, 1, place_at(ir, i));
}

/* First of [from, end) whose target is not `target`; those equal to it come first. */
static gale__ir_val find_end(gale__ir *ir, gale__ir_val from, gale__ir_val target)
{
    gale__ir_val low = variable(ir, GALE_U32), high = variable(ir, GALE_U32), zero = u32(ir, 0);
    set(ir, low, zero, from);
    set(ir, high, zero, word(ir, 0));
    begin_for(ir, zero, u32(ir, 32), 1);
    gale__ir_val a = get(ir, low, zero), b = get(ir, high, zero);
    begin_if(ir, test(ir, GALE__LT, a, b));
    gale__ir_val middle = bin(ir, GALE__IR_SHR, add(ir, a, b), u32(ir, 1));
    begin_if(ir, test(ir, GALE__EQ, target_at(ir, middle), target));
    set(ir, low, zero, add(ir, middle, u32(ir, 1)));
    begin_else(ir);
    set(ir, high, zero, middle);
    end(ir);
    end(ir);
    end(ir);
    return get(ir, low, zero);
}

/* Whether the adjacent update at `other` (valid if `there`) has the same target. */
static gale__ir_val same_target(
    gale__ir *ir, gale__ir_val there, gale__ir_val i, gale__ir_val other, gale__ir_val target)
{
    return both(ir, there, test(ir, GALE__EQ, target_at(ir, pick(ir, there, other, i)), target));
}

void gale__special_build_put(const gale__special_launch *l, gale__ir *ir)
{
    gale__ir_val count = word(ir, 0), first = word(ir, 2), one = u32(ir, 1), zero = u32(ir, 0);
    gale__ir_val i = add(ir, first, add(ir, mul(ir, group_id(ir), u32(ir, l->threads)), thread_id(ir)));
    bool sets = l->mode == UINT8_MAX;
    ir->readonly = 2 | 4 | 8;
    begin_if(ir, test(ir, GALE__LT, i, count));
    gale__ir_val target = target_at(ir, i), at = convert(ir, GALE_U32, target);
    gale__ir_val inside =
        test(ir, GALE__LT, gale__ir_op1(ir, GALE__BITCAST, GALE_U64, target), convert(ir, GALE_U64, word(ir, 1)));
    gale__ir_val next = add(ir, i, one), there = sets ? test(ir, GALE__LT, next, count) : test(ir, GALE__GT, i, first);
    gale__ir_val more = same_target(ir, there, i, sets ? next : bin(ir, GALE__SUB, i, one), target);
    begin_if(ir, both(ir, inside, gale__ir_op1(ir, GALE__NOT, GALE_BOOL, more)));
    if (sets) {
        gale__ir_val v = load(ir, l, 1, place_at(ir, i));
        gale__ir_store_as(ir, 0, (gale_type)l->type, 1, at, &v);
    } else {
        gale__ir_val sum = variable(ir, gale__compute_type((gale_type)l->type));
        set(ir, sum, zero, load(ir, l, 0, at));
        gale__ir_val k = begin_for(ir, i, find_end(ir, next, target), 1);
        set(ir, sum, zero, combine(ir, l, get(ir, sum, zero), load(ir, l, 1, place_at(ir, k))));
        end(ir);
        gale__ir_val v = get(ir, sum, zero);
        gale__ir_store_as(ir, 0, (gale_type)l->type, 1, at, &v);
    }
    end(ir);
    end(ir);
}
