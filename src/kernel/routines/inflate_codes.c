/* Block headers: code lengths are read, and all threads build the decoding tables from them.  One loop handles the
 * three codes of a block, so that the kernel contains these instructions once. */
#include "kernel/routines/inflate_ir.h"

/* The table entry of a symbol in the code of `stage`; 0 if the symbol is invalid. */
static gale__ir_val entry_for(const inflating *k, gale__ir_val stage, gale__ir_val symbol, gale__ir_val length)
{
    gale__ir *ir = k->ir;
    gale__ir_val literals = test(ir, GALE__EQ, stage, u32(ir, LITERALS)), one = u32(ir, 1);
    gale__ir_val number = pick(ir, literals, sub(ir, symbol, u32(ir, 257)), symbol);
    gale__ir_val g = pick(ir, literals, u32(ir, 2), one), few = test(ir, GALE__LT, number, left(ir, u32(ir, 2), g));
    gale__ir_val extra = pick(ir, few, k->zero, masked(ir, sub(ir, right(ir, number, g), one), 15));
    gale__ir_val base = left(ir, add(ir, left(ir, one, g), lowest(ir, number, g)), extra);
    base = add(ir, pick(ir, few, number, base), pick(ir, literals, u32(ir, 3), one));
    gale__ir_val longest = both(ir, literals, test(ir, GALE__EQ, symbol, u32(ir, 285)));
    base = pick(ir, longest, u32(ir, 258), base);
    extra = pick(ir, longest, k->zero, extra);
    gale__ir_val e = bin(ir, GALE__OR, left(ir, base, u32(ir, 16)), left(ir, extra, u32(ir, 5)));
    gale__ir_val most = pick(ir, literals, u32(ir, 285), u32(ir, 29));
    gale__ir_val known = test(ir, GALE__LE, symbol, most), plain = left(ir, symbol, u32(ir, 16));
    e = bin(ir, GALE__OR, e, length);
    e = pick(ir, known, e, k->zero);
    gale__ir_val special =
        pick(ir, test(ir, GALE__EQ, symbol, u32(ir, 256)), u32(ir, ENDS), bin(ir, GALE__OR, plain, u32(ir, LITERAL)));
    e = pick(ir, both(ir, literals, test(ir, GALE__LE, symbol, u32(ir, 256))), bin(ir, GALE__OR, special, length), e);
    return pick(ir, test(ir, GALE__EQ, stage, u32(ir, CODES)), bin(ir, GALE__OR, plain, length), e);
}

/* A code that is being made; symbols of a thread follow each other, so that its codes do, too. */
typedef struct coding {
    gale__ir_val stage, base, count, bits, table_at, each;
} coding;

static coding coding_of(const inflating *k, gale__ir_val stage)
{
    gale__ir *ir = k->ir;
    gale__ir_val literals = test(ir, GALE__EQ, stage, u32(ir, LITERALS)),
                 codes = test(ir, GALE__EQ, stage, u32(ir, CODES));
    return (coding){stage, pick(ir, literals, k->zero, pick(ir, codes, u32(ir, CODES_AT), u32(ir, MOST_LITERALS))),
        pick(ir, literals, u32(ir, MOST_LITERALS), u32(ir, MOST_DISTANCES)),
        pick(ir, literals, u32(ir, LITERAL_BITS), pick(ir, codes, u32(ir, CODE_BITS), u32(ir, DISTANCE_BITS))),
        pick(ir, literals, k->zero, u32(ir, 1u << LITERAL_BITS)),
        pick(ir, literals, u32(ir, MOST_LITERALS / LANES), u32(ir, MOST_DISTANCES / LANES))};
}

/* Where thread `lane` counts codes of a length. */
static gale__ir_val count_at(const inflating *k, gale__ir_val length, gale__ir_val lane)
{
    return add(k->ir, mul(k->ir, length, u32(k->ir, LANES + 1)), lane);
}

/* Opens a loop over the thread's symbols that have a code, and an IF. */
static gale__ir_val begin_symbols(const inflating *k, const coding *c, gale__ir_val *length)
{
    gale__ir *ir = k->ir;
    gale__ir_val from = mul(ir, k->lane, c->each),
                 symbol = begin_for(ir, from, bin(ir, GALE__IR_MIN, add(ir, from, c->each), c->count), 1);
    *length = get(ir, k->lengths, add(ir, c->base, symbol));
    begin_if(ir, test(ir, GALE__NE, *length, k->zero));
    return symbol;
}

static void count_codes(const inflating *k, const coding *c)
{
    gale__ir *ir = k->ir;
    gale__ir_val length, running = variable(ir, GALE_U32);
    set(ir, k->table, add(ir, c->table_at, begin_for(ir, k->lane, left(ir, u32(ir, 1), c->bits), LANES)), k->zero);
    end(ir);
    for (uint32_t i = 0; i < LENGTHS; i++) set(ir, k->counts, count_at(k, u32(ir, i), k->lane), k->zero);
    begin_symbols(k, c, &length);
    gale__ir_val mine = count_at(k, length, k->lane);
    set(ir, k->counts, mine, add(ir, get(ir, k->counts, mine), u32(ir, 1)));
    end(ir);
    end(ir);
    barrier(ir);
    begin_if(ir, test(ir, GALE__LT, k->lane, u32(ir, LENGTHS)));
    assign(k, running, k->zero);
    gale__ir_val at = count_at(k, k->lane, begin_for(ir, k->zero, u32(ir, LANES), 1)), n = get(ir, k->counts, at),
                 before = value_of(k, running);
    assign(k, running, add(ir, before, n));
    set(ir, k->counts, at, before);
    end(ir);
    set(ir, k->total, add(ir, mul(ir, c->stage, u32(ir, LENGTHS)), k->lane), value_of(k, running));
    end(ir);
    barrier(ir);
}

/* The first code of each length, and whether the code is complete.  A distance code may also have one symbol or
 * none. */
static void order_codes(const inflating *k, const coding *c)
{
    gale__ir *ir = k->ir;
    gale__ir_val code = variable(ir, GALE_U32), all = variable(ir, GALE_U32), room = variable(ir, GALE_U32);
    assign(k, code, k->zero), assign(k, all, k->zero), assign(k, room, k->zero);
    gale__ir_val length = begin_for(ir, u32(ir, 1), u32(ir, LENGTHS), 1),
                 at = add(ir, mul(ir, c->stage, u32(ir, LENGTHS)), length), n = get(ir, k->total, at);
    gale__ir_val first = value_of(k, code), before = value_of(k, all);
    begin_if(ir, test(ir, GALE__EQ, k->lane, k->zero));
    set(ir, k->first, at, first);
    set(ir, k->start, at, before);
    end(ir);
    assign(k, code, left(ir, add(ir, first, n), u32(ir, 1)));
    assign(k, all, add(ir, before, n));
    assign(k, room, add(ir, value_of(k, room), left(ir, n, sub(ir, u32(ir, 15), length))));
    end(ir);
    gale__ir_val complete = test(ir, GALE__EQ, value_of(k, room), u32(ir, 1 << 15)),
                 few = both(ir, test(ir, GALE__EQ, c->stage, u32(ir, DISTANCES)),
                     test(ir, GALE__LT, value_of(k, all), u32(ir, 2)));
    begin_if(ir, gale__ir_op1(ir, GALE__NOT, GALE_BOOL, either(ir, complete, few)));
    fail(k);
    end(ir);
    barrier(ir);
}

static void fill_table(const inflating *k, const coding *c)
{
    gale__ir *ir = k->ir;
    gale__ir_val length, symbol = begin_symbols(k, c, &length), mine = count_at(k, length, k->lane),
                         at = add(ir, mul(ir, c->stage, u32(ir, LENGTHS)), length);
    gale__ir_val rank = get(ir, k->counts, mine), code = add(ir, get(ir, k->first, at), rank),
                 e = entry_for(k, c->stage, symbol, length);
    set(ir, k->sorted, add(ir, add(ir, c->base, get(ir, k->start, at)), rank), e);
    set(ir, k->counts, mine, add(ir, rank, u32(ir, 1)));
    begin_if(ir, test(ir, GALE__LE, length, c->bits));
    gale__ir_val place = right(ir, reversed(ir, code), sub(ir, u32(ir, 32), length));
    gale__ir_val i = begin_for(ir, k->zero, left(ir, u32(ir, 1), sub(ir, c->bits, length)), 1);
    set(ir, k->table, add(ir, c->table_at, add(ir, place, left(ir, i, length))), e);
    end(ir);
    end(ir);
    end(ir);
    end(ir);
    barrier(ir);
}

/* The entry of a code that is longer than the table's, into `entry`. */
void gale__inflate_find_long(const inflating *k, uint32_t stage, uint32_t bits, gale__ir_val next)
{
    gale__ir *ir = k->ir;
    gale__ir_val code = right(ir, reversed(ir, next), u32(ir, 17));
    gale__ir_val length = begin_for(ir, u32(ir, bits + 1), u32(ir, LENGTHS), 1),
                 at = add(ir, length, u32(ir, stage * LENGTHS));
    gale__ir_val rank = sub(ir, right(ir, code, sub(ir, u32(ir, 15), length)), get(ir, k->first, at));
    begin_if(ir, test(ir, GALE__LT, rank, get(ir, k->total, at)));
    gale__ir_val base = u32(ir, stage == LITERALS ? 0 : MOST_LITERALS);
    assign(k, k->entry, get(ir, k->sorted, add(ir, add(ir, base, get(ir, k->start, at)), rank)));
    end(ir);
    end(ir);
}

/* --- The beginning of a block. --- */

typedef struct lengths {
    gale__ir_val literals, distances, have, before; /* variables; have: lengths so far, before: the last one */
} lengths;

/* Code lengths of the code that lengths are written in; they come in an order of their own. */
static void read_codes(const inflating *k, const lengths *l)
{
    static const uint8_t order[20] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15, 0};
    gale__ir *ir = k->ir;
    gale__ir_val next = gale__inflate_window(k), hlit = add(ir, masked(ir, next, 31), u32(ir, 257)),
                 hdist = add(ir, masked(ir, right(ir, next, u32(ir, 5)), 31), u32(ir, 1)),
                 count = add(ir, masked(ir, right(ir, next, u32(ir, 10)), 15), u32(ir, 4));
    assign(k, l->literals, hlit), assign(k, l->distances, hdist);
    begin_if(ir, either(ir, test(ir, GALE__GT, hlit, u32(ir, 286)), test(ir, GALE__GT, hdist, u32(ir, 30))));
    fail(k);
    end(ir);
    gale__inflate_advance(k, u32(ir, 14));
    gale__ir_val i = begin_for(ir, k->zero, count, 1), symbol = k->zero, five = mul(ir, masked(ir, i, 3), u32(ir, 5));
    for (uint32_t g = 0; g < 5; g++) {
        uint32_t four = 0;
        for (uint32_t j = 0; j < 4; j++) four |= (uint32_t)order[4 * g + j] << (5 * j);
        symbol = pick(ir, test(ir, GALE__EQ, right(ir, i, u32(ir, 2)), u32(ir, g)), u32(ir, four), symbol);
    }
    symbol = masked(ir, right(ir, symbol, five), 31);
    gale__ir_val length = masked(ir, gale__inflate_window(k), 7);
    begin_if(ir, test(ir, GALE__EQ, k->lane, k->zero));
    set(ir, k->lengths, add(ir, symbol, u32(ir, CODES_AT)), length);
    end(ir);
    gale__inflate_advance(k, u32(ir, 3));
    end(ir);
}

static void read_length(const inflating *k, const lengths *l, gale__ir_val all)
{
    gale__ir *ir = k->ir;
    gale__ir_val next = gale__inflate_window(k),
                 e = get(ir, k->table, add(ir, u32(ir, 1u << LITERAL_BITS), masked(ir, next, 127))),
                 n = masked(ir, e, 31), symbol = right(ir, e, u32(ir, 16)), have = value_of(k, l->have);
    gale__ir_val plain = test(ir, GALE__LT, symbol, u32(ir, 16)), again = test(ir, GALE__EQ, symbol, u32(ir, 16)),
                 many = test(ir, GALE__EQ, symbol, u32(ir, 18));
    gale__ir_val extra = pick(ir, plain, k->zero, pick(ir, again, u32(ir, 2), pick(ir, many, u32(ir, 7), u32(ir, 3))));
    gale__ir_val count = add(ir, pick(ir, plain, u32(ir, 1), pick(ir, many, u32(ir, 11), u32(ir, 3))),
        lowest(ir, right(ir, next, n), extra));
    gale__ir_val length = pick(ir, plain, symbol, pick(ir, again, value_of(k, l->before), k->zero));
    gale__ir_val wrong = either(ir, test(ir, GALE__EQ, n, k->zero), test(ir, GALE__GT, add(ir, have, count), all));
    wrong = either(ir, wrong, both(ir, again, test(ir, GALE__EQ, have, k->zero)));
    begin_if(ir, wrong);
    fail(k);
    begin_else(ir);
    gale__ir_val at = add(ir, have, begin_for(ir, k->lane, count, LANES)), literals = value_of(k, l->literals);
    gale__ir_val further = sub(ir, add(ir, at, u32(ir, MOST_LITERALS)), literals);
    set(ir, k->lengths, pick(ir, test(ir, GALE__LT, at, literals), at, further), length);
    end(ir);
    assign(k, l->have, add(ir, have, count));
    assign(k, l->before, length);
    gale__inflate_advance(k, add(ir, n, extra));
    end(ir);
}

static void read_lengths(const inflating *k, const lengths *l, gale__ir_val wanted)
{
    gale__ir *ir = k->ir;
    gale__ir_val all = add(ir, value_of(k, l->literals), value_of(k, l->distances));
    assign(k, l->have, k->zero), assign(k, l->before, k->zero);
    begin_for(ir, k->zero, pick(ir, wanted, all, k->zero), 1);
    gale__inflate_fill_ring(k);
    begin_if(ir, both(ir, test(ir, GALE__LT, value_of(k, l->have), all),
                     test(ir, GALE__EQ, value_of(k, k->state), u32(ir, HEADER))));
    read_length(k, l, all);
    end(ir);
    end(ir);
    barrier(ir);
}

static void set_fixed(const inflating *k)
{
    gale__ir *ir = k->ir;
    gale__ir_val i = begin_for(ir, k->lane, u32(ir, MOST_LITERALS + MOST_DISTANCES), LANES), length = u32(ir, 5);
    static const uint16_t to[4] = {288, 280, 256, 144};
    static const uint8_t values[4] = {8, 7, 9, 8};
    for (int r = 0; r < 4; r++) length = pick(ir, test(ir, GALE__LT, i, u32(ir, to[r])), u32(ir, values[r]), length);
    set(ir, k->lengths, i, length);
    end(ir);
}

/* Invalid codes do no harm: lengths are below 16, so positions stay within the tables. */
static void begin_coded(const inflating *k, gale__ir_val fixed)
{
    gale__ir *ir = k->ir;
    lengths l = {variable(ir, GALE_U32), variable(ir, GALE_U32), variable(ir, GALE_U32), variable(ir, GALE_U32)};
    assign(k, l.literals, k->zero), assign(k, l.distances, k->zero);
    set(ir, k->lengths, begin_for(ir, k->lane, u32(ir, SYMBOLS_ALL), LANES), k->zero);
    end(ir);
    barrier(ir);
    begin_if(ir, fixed);
    set_fixed(k);
    begin_else(ir);
    read_codes(k, &l);
    end(ir);
    barrier(ir);
    gale__ir_val stage = begin_for(ir, pick(ir, fixed, u32(ir, LITERALS), u32(ir, CODES)), u32(ir, 3), 1);
    coding c = coding_of(k, stage);
    count_codes(k, &c);
    order_codes(k, &c);
    fill_table(k, &c);
    read_lengths(k, &l, test(ir, GALE__EQ, stage, u32(ir, CODES)));
    end(ir);
    begin_if(ir, test(ir, GALE__EQ, value_of(k, k->state), u32(ir, HEADER)));
    assign(k, k->state, u32(ir, SYMBOLS));
    end(ir);
}

void gale__inflate_end_block(const inflating *k)
{
    gale__ir *ir = k->ir;
    gale__ir_val is_final = test(ir, GALE__NE, value_of(k, k->final), k->zero);
    assign(k, k->state, pick(ir, is_final, u32(ir, DONE), u32(ir, HEADER)));
}

static void copy_stored(const inflating *k)
{
    gale__ir *ir = k->ir;
    gale__ir_val out = value_of(k, k->out), to_byte = masked(ir, sub(ir, k->zero, value_of(k, k->place)), 7);
    gale__inflate_advance(k, to_byte);
    gale__ir_val next = gale__inflate_window(k), count = masked(ir, next, 65535),
                 not_count = right(ir, next, u32(ir, 16)),
                 from = add(ir, right(ir, value_of(k, k->place), u32(ir, 3)), u32(ir, 4));
    gale__ir_val to = left(ir, add(ir, from, count), u32(ir, 3));
    gale__ir_val wrong = test(ir, GALE__NE, bin(ir, GALE__XOR, count, not_count), u32(ir, 65535));
    wrong = either(ir, wrong, test(ir, GALE__GT, to, k->end));
    wrong = either(ir, wrong, test(ir, GALE__GT, add(ir, out, count), k->size));
    begin_if(ir, wrong);
    fail(k);
    begin_else(ir);
    gale__ir_val i = begin_for(ir, k->lane, count, LANES);
    gale__ir_store(ir, SPACE, GALE_U8, 1, add(ir, k->space, add(ir, out, i)),
        gale__ir_load(ir, INPUT, GALE_U8, 1, add(ir, from, i)));
    end(ir);
    assign(k, k->out, add(ir, out, count));
    assign(k, k->place, to);
    gale__inflate_end_block(k);
    end(ir);
}

void gale__inflate_begin_block(const inflating *k)
{
    gale__ir *ir = k->ir;
    gale__inflate_seek(k);
    gale__ir_val next = gale__inflate_window(k), kind = masked(ir, right(ir, next, u32(ir, 1)), 3);
    assign(k, k->final, masked(ir, next, 1));
    gale__inflate_advance(k, u32(ir, 3));
    begin_if(ir, test(ir, GALE__EQ, kind, k->zero));
    copy_stored(k);
    end(ir);
    begin_if(ir, test(ir, GALE__EQ, kind, u32(ir, 3)));
    fail(k);
    end(ir);
    gale__ir_val fixed = test(ir, GALE__EQ, kind, u32(ir, 1));
    begin_together(k, either(ir, fixed, test(ir, GALE__EQ, kind, u32(ir, 2))));
    begin_coded(k, fixed);
    end(ir);
}
