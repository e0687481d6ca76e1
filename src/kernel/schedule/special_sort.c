/* Bitonic sorting of (key, place) pairs: keys are numbers that sort like the values, and places settle ties, so the
 * sort is stable.  Rows that fit go through work-group memory alone; longer ones are sorted in blocks there and merged
 * by steps through memory. */
#include "kernel/schedule/special_ir.h"

static gale_type key_type(const gale__special_launch *l) { return l->wide ? GALE_U64 : GALE_U32; }

/* Floats: NaN above all, both zeros alike, then order by bits. */
static gale__ir_val float_key(gale__ir *ir, gale__ir_val v, bool wide)
{
    gale_type type = wide ? GALE_F64 : GALE_F32, bits = wide ? GALE_U64 : GALE_U32;
    gale__ir_val zero = gale__ir_const(ir, type, 0),
                 top = gale__ir_const(ir, bits, wide ? (uint64_t)1 << 63 : (uint64_t)1 << 31);
    v = pick(ir, test(ir, GALE__EQ, v, zero), zero, v);
    gale__ir_val b = gale__ir_op1(ir, GALE__BITCAST, bits, v);
    gale__ir_val negative = test(ir, GALE__GE, b, top);
    gale__ir_val key =
        pick(ir, negative, gale__ir_op1(ir, GALE__NOT, bits, b), gale__ir_op2(ir, GALE__OR, bits, b, top));
    return pick(ir, test(ir, GALE__NE, v, v), gale__ir_const(ir, bits, ~(uint64_t)0), key);
}

static gale__ir_val key_of(gale__ir *ir, const gale__special_launch *l, gale__ir_val v, gale__ir_val limit)
{
    gale_type type = gale__ir_type(ir, v), keys = key_type(l);
    gale__ir_val key;
    if (l->limited) { /* I64 indices: what is out of [0, limit) goes last */
        gale__ir_val u = gale__ir_op1(ir, GALE__BITCAST, GALE_U64, v),
                     ok = test(ir, GALE__LT, u, convert(ir, GALE_U64, limit));
        return pick(ir, ok, convert(ir, GALE_U32, u), u32(ir, UINT32_MAX));
    }
    if (gale__type_is_float(type)) key = float_key(ir, v, l->wide);
    else if (type == GALE_BOOL) key = convert(ir, GALE_U32, v);
    else {
        key = gale__ir_op1(ir, GALE__BITCAST, keys, v);
        uint64_t top = l->wide ? (uint64_t)1 << 63 : (uint64_t)1 << 31;
        if (gale__type_is_signed(type)) key = gale__ir_op2(ir, GALE__XOR, keys, key, gale__ir_const(ir, keys, top));
    }
    return l->mode ? gale__ir_op1(ir, GALE__NOT, keys, key) : key;
}

typedef struct pairs {
    gale__ir_val key, place;
} pairs; /* arrays, or one pair */

static gale__ir_val pair_after(gale__ir *ir, pairs a, pairs b)
{
    gale__ir_val tie = both(ir, test(ir, GALE__EQ, a.key, b.key), test(ir, GALE__GT, a.place, b.place));
    return gale__ir_op2(ir, GALE__OR, GALE_BOOL, test(ir, GALE__GT, a.key, b.key), tie);
}

/* Element `i` of a step that pairs elements `gap` apart: 2 i - (i mod gap); gap is a power of two. */
static gale__ir_val first_of_pair(gale__ir *ir, gale__ir_val i, gale__ir_val gap)
{
    gale__ir_val rest = bin(ir, GALE__AND, i, bin(ir, GALE__SUB, gap, u32(ir, 1)));
    return bin(ir, GALE__SUB, mul(ir, i, u32(ir, 2)), rest);
}

/* One step over the block in work-group memory.  up: the place in the row that decides the direction is base + i. */
static void shared_step(gale__ir *ir, const gale__special_launch *l, pairs s, gale__ir_val tid, gale__ir_val base,
    gale__ir_val width, gale__ir_val gap, gale__ir_val mask)
{
    for (uint32_t first = 0; first < l->block / 2; first += l->threads) {
        gale__ir_val i = first_of_pair(ir, add(ir, tid, u32(ir, first)), gap), j = add(ir, i, gap);
        pairs a = {get(ir, s.key, i), get(ir, s.place, i)}, b = {get(ir, s.key, j), get(ir, s.place, j)};
        gale__ir_val at = bin(ir, GALE__AND, add(ir, base, i), mask);
        gale__ir_val down = test(ir, GALE__NE, bin(ir, GALE__AND, at, width), u32(ir, 0));
        gale__ir_val swap = test(ir, GALE__NE, pair_after(ir, a, b), down);
        begin_if(ir, swap);
        set(ir, s.key, i, b.key);
        set(ir, s.place, i, b.place);
        set(ir, s.key, j, a.key);
        set(ir, s.place, j, a.place);
        end(ir);
    }
    barrier(ir);
}

static uint32_t log2_of(uint32_t n)
{
    uint32_t k = 0;
    while ((1u << k) < n) k++;
    return k;
}

/* All widths up to `row`, which is the block or a part of it. */
static void shared_sort(gale__ir *ir, const gale__special_launch *l, pairs s, gale__ir_val tid, gale__ir_val base,
    uint32_t row, gale__ir_val mask)
{
    gale__ir_val one = u32(ir, 1);
    gale__ir_val w = begin_for(ir, one, u32(ir, log2_of(row) + 1), 1), width = bin(ir, GALE__IR_SHL, one, w);
    gale__ir_val g = begin_for(ir, u32(ir, 0), w, 1);
    gale__ir_val gap = bin(ir, GALE__IR_SHR, width, add(ir, g, one));
    shared_step(ir, l, s, tid, base, width, gap, mask);
    end(ir);
    end(ir);
}

/* Words: 0 n, 1 padded row (SORT_ROWS: a block holds several), 2 elements in all (rows * padded), 3 limit of keys. */
static gale__ir_val load_key(gale__ir *ir, const gale__special_launch *l, gale__ir_val at, gale__ir_val *place)
{
    gale__ir_val n = word(ir, 0), padded = word(ir, 1), all = word(ir, 2), v;
    gale__ir_val row = bin(ir, GALE__IR_DIV, at, padded), column = bin(ir, GALE__SUB, at, mul(ir, row, padded));
    gale__ir_val real = both(ir, test(ir, GALE__LT, column, n), test(ir, GALE__LT, at, all));
    gale__ir_val from = pick(ir, real, add(ir, mul(ir, row, n), column), u32(ir, 0));
    gale__ir_load_as(ir, 0, (gale_type)l->type, 1, from, &v);
    *place = column;
    return pick(ir, real, key_of(ir, l, v, word(ir, 3)), gale__ir_const(ir, key_type(l), ~(uint64_t)0));
}

static pairs shared_pairs(gale__ir *ir, const gale__special_launch *l)
{
    return (pairs){array(ir, GALE__IR_SHARED, key_type(l), l->block), array(ir, GALE__IR_SHARED, GALE_U32, l->block)};
}

/* Keys and places of a block of x, in work-group memory. */
static pairs load_pairs(gale__ir *ir, const gale__special_launch *l, gale__ir_val tid, gale__ir_val base)
{
    pairs s = shared_pairs(ir, l);
    for (uint32_t first = 0; first < l->block; first += l->threads) {
        gale__ir_val i = add(ir, tid, u32(ir, first)), place, key = load_key(ir, l, add(ir, base, i), &place);
        set(ir, s.key, i, key);
        set(ir, s.place, i, place);
    }
    barrier(ir);
    return s;
}

/* Pointers: x, result.  mode bits apart, the block holds block / padded whole rows. */
static void build_rows(const gale__special_launch *l, gale__ir *ir)
{
    gale__ir_val tid = thread_id(ir), base = mul(ir, group_id(ir), u32(ir, l->block)), n = word(ir, 0),
                 padded = word(ir, 1), all = word(ir, 2);
    pairs s = load_pairs(ir, l, tid, base);
    gale__ir_val one = u32(ir, 1), w = begin_for(ir, one, word(ir, 4), 1), width = bin(ir, GALE__IR_SHL, one, w);
    gale__ir_val g = begin_for(ir, u32(ir, 0), w, 1);
    shared_step(ir, l, s, tid, u32(ir, 0), width, bin(ir, GALE__IR_SHR, width, add(ir, g, one)),
        bin(ir, GALE__SUB, padded, one));
    end(ir);
    end(ir);
    for (uint32_t first = 0; first < l->block; first += l->threads) {
        gale__ir_val i = add(ir, tid, u32(ir, first)), at = add(ir, base, i);
        gale__ir_val row = bin(ir, GALE__IR_DIV, at, padded), column = bin(ir, GALE__SUB, at, mul(ir, row, padded));
        begin_if(ir, both(ir, test(ir, GALE__LT, column, n), test(ir, GALE__LT, at, all)));
        gale__ir_store(
            ir, 1, GALE_I64, 1, add(ir, mul(ir, row, n), column), convert(ir, GALE_I64, get(ir, s.place, i)));
        end(ir);
    }
}

/* A block between memory and work-group memory.  Pointers of keys and places: first, first + 1. */
static void move_block(
    const gale__special_launch *l, gale__ir *ir, pairs s, gale__ir_val tid, gale__ir_val base, int pointer, bool out)
{
    gale_type keys = key_type(l);
    for (uint32_t first = 0; first < l->block; first += l->threads) {
        gale__ir_val i = add(ir, tid, u32(ir, first)), at = add(ir, base, i);
        if (out) {
            gale__ir_store(ir, pointer, keys, 1, at, get(ir, s.key, i));
            gale__ir_store(ir, pointer + 1, GALE_U32, 1, at, get(ir, s.place, i));
        } else {
            set(ir, s.key, i, gale__ir_load(ir, pointer, keys, 1, at));
            set(ir, s.place, i, gale__ir_load(ir, pointer + 1, GALE_U32, 1, at));
        }
    }
}

/* Groups past the end do the last block's work once more in their own memory and keep it to themselves. */
static gale__ir_val block_base(gale__ir *ir, const gale__special_launch *l, gale__ir_val *mine)
{
    gale__ir_val base = mul(ir, group_id(ir), u32(ir, l->block)),
                 top = bin(ir, GALE__SUB, word(ir, 2), u32(ir, l->block));
    *mine = test(ir, GALE__LE, base, top);
    return bin(ir, GALE__IR_MIN, base, top);
}

/* Pointers: x, keys, places.  Blocks are sorted up and down in turn, as the merges want them. */
static void build_blocks(const gale__special_launch *l, gale__ir *ir)
{
    gale__ir_val tid = thread_id(ir), mine, base = block_base(ir, l, &mine),
                 mask = bin(ir, GALE__SUB, word(ir, 1), u32(ir, 1));
    pairs s = load_pairs(ir, l, tid, base);
    shared_sort(ir, l, s, tid, base, l->block, mask);
    begin_if(ir, mine);
    move_block(l, ir, s, tid, base, 1, true);
    end(ir);
}

/* One step of width word 4 and gap word 5 through memory: a thread a pair.  Pointers: keys, places. */
static void build_step(const gale__special_launch *l, gale__ir *ir)
{
    gale_type keys = key_type(l);
    gale__ir_val i = add(ir, mul(ir, group_id(ir), u32(ir, l->threads)), thread_id(ir)), gap = word(ir, 5);
    begin_if(ir, test(ir, GALE__LT, i, bin(ir, GALE__IR_SHR, word(ir, 2), u32(ir, 1))));
    gale__ir_val first = first_of_pair(ir, i, gap), second = add(ir, first, gap);
    pairs a = {gale__ir_load(ir, 0, keys, 1, first), gale__ir_load(ir, 1, GALE_U32, 1, first)};
    pairs b = {gale__ir_load(ir, 0, keys, 1, second), gale__ir_load(ir, 1, GALE_U32, 1, second)};
    gale__ir_val at = bin(ir, GALE__AND, first, bin(ir, GALE__SUB, word(ir, 1), u32(ir, 1)));
    gale__ir_val down = test(ir, GALE__NE, bin(ir, GALE__AND, at, word(ir, 4)), u32(ir, 0));
    begin_if(ir, test(ir, GALE__NE, pair_after(ir, a, b), down));
    gale__ir_store(ir, 0, keys, 1, first, b.key);
    gale__ir_store(ir, 1, GALE_U32, 1, first, b.place);
    gale__ir_store(ir, 0, keys, 1, second, a.key);
    gale__ir_store(ir, 1, GALE_U32, 1, second, a.place);
    end(ir);
    end(ir);
}

/* The steps of width word 4 whose gaps fit into a block.  Pointers: keys, places. */
static void build_merge(const gale__special_launch *l, gale__ir *ir)
{
    gale__ir_val tid = thread_id(ir), mine, base = block_base(ir, l, &mine),
                 mask = bin(ir, GALE__SUB, word(ir, 1), u32(ir, 1));
    pairs s = shared_pairs(ir, l);
    move_block(l, ir, s, tid, base, 0, false);
    barrier(ir);
    gale__ir_val g = begin_for(ir, u32(ir, 1), u32(ir, log2_of(l->block) + 1), 1);
    shared_step(ir, l, s, tid, base, word(ir, 4), bin(ir, GALE__IR_SHR, u32(ir, l->block), g), mask);
    end(ir);
    begin_if(ir, mine);
    move_block(l, ir, s, tid, base, 0, true);
    end(ir);
}

/* Pointers: places, result. */
static void build_write(const gale__special_launch *l, gale__ir *ir)
{
    gale__ir_val at = add(ir, mul(ir, group_id(ir), u32(ir, l->threads)), thread_id(ir)), n = word(ir, 0),
                 padded = word(ir, 1);
    gale__ir_val row = bin(ir, GALE__IR_DIV, at, padded), column = bin(ir, GALE__SUB, at, mul(ir, row, padded));
    begin_if(ir, both(ir, test(ir, GALE__LT, column, n), test(ir, GALE__LT, at, word(ir, 2))));
    gale__ir_store(ir, 1, GALE_I64, 1, add(ir, mul(ir, row, n), column),
        convert(ir, GALE_I64, gale__ir_load(ir, 0, GALE_U32, 1, at)));
    end(ir);
}

void gale__special_build_sort(const gale__special_launch *l, gale__ir *ir)
{
    switch (l->kernel) {
    case SORT_ROWS:
        build_rows(l, ir);
        ir->readonly = 1;
        break;
    case SORT_BLOCKS:
        build_blocks(l, ir);
        ir->readonly = 1;
        break;
    case SORT_STEP: build_step(l, ir); break;
    case SORT_MERGE: build_merge(l, ir); break;
    default:
        build_write(l, ir);
        ir->readonly = 1;
        break;
    }
}
