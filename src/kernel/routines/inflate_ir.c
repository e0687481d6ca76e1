/* Inflates EXR's ZIP chunks on the device that needs the samples.  A work-group inflates one chunk.  Decoding symbols
 * is sequential, so all of its threads decode them redundantly; they divide the rest: building tables, copying matches,
 * converting bytes to samples.  A file has many chunks, and many files keep a GPU busy.
 *
 * Nothing of the stream is trusted: reads of the input stop at its last word, bytes are written and copied within the
 * chunk, and loops have bounds.  An invalid chunk is flagged, and the host decodes it again. */
#include "kernel/routines/inflate_ir.h"
#include <stdio.h>

bool gale__inflate_fits(const gale__inflate_args *a, const gale_device_caps *caps)
{
    const int64_t most = UINT32_MAX / 2,
                  loops = 4 * a->chunk_bytes + 700 * (a->chunk_bytes / BLOCK_LEAST + BLOCKS_MORE);
    if (caps->host_functions || !caps->i64 || !caps->storage8 || !caps->storage16 || !caps->memory_model) return false;
    if (a->chunks < 1 || a->input_bytes > 1 << 28 || a->chunk_bytes > 1 << 24) return false;
    if (caps->loop_max && loops > caps->loop_max) return false;
    if (caps->groups_max[0] && a->chunks > caps->groups_max[0]) return false;
    return a->width > 0 && a->height > 0 && a->width <= most / 4 / a->height && a->space_bytes <= most;
}

static uint32_t each_of(const gale__inflate_args *a) { return a->odd || a->width % 8 ? 1 : 8; }

static bool describe(const void *args, const gale_device_caps *caps, int i, gale__routine_launch *out)
{
    const gale__inflate_args *a = args;
    (void)caps;
    if (i) return false;
    *out = (gale__routine_launch){
        .groups = {(uint32_t)a->chunks, 1, 1}, .n_words = GALE__INFLATE_WORDS, .n_refs = GALE__INFLATE_POINTERS};
    for (int r = 0; r < GALE__INFLATE_POINTERS; r++) out->refs[r] = (int8_t)r;
    out->words[W_INPUT_LAST] = (uint32_t)((a->input_bytes + 3) / 4 - 1);
    out->words[W_ROW] = (uint32_t)a->width;
    out->words[W_CHANNELS] = (uint32_t)a->channels;
    snprintf(out->key, sizeof out->key, "gale_inflate_%u", each_of(a));
    return true;
}

/* --- Bits of the stream. --- */

static gale__ir_val input(const inflating *k, gale__ir_val i)
{
    return gale__ir_load(k->ir, INPUT, GALE_U32, 1, bin(k->ir, GALE__IR_MIN, i, k->last));
}

/* The input is loaded in blocks of one word per thread; two blocks are in the ring buffer, one is in flight. */
void gale__inflate_seek(const inflating *k)
{
    gale__ir *ir = k->ir;
    gale__ir_val word = right(ir, value_of(k, k->place), u32(ir, 5)), at = add(ir, word, k->lane);
    for (uint32_t i = 0; i < 3; i++) assign(k, k->words[i], input(k, add(ir, word, u32(ir, i))));
    barrier(ir);
    for (uint32_t i = 0; i < 2; i++) {
        gale__ir_val one = add(ir, at, u32(ir, i * LANES));
        set(ir, k->ring, masked(ir, one, 2 * LANES - 1), input(k, one));
    }
    assign(k, k->ahead, input(k, add(ir, at, u32(ir, 2 * LANES))));
    assign(k, k->filled, add(ir, word, u32(ir, 2 * LANES)));
    barrier(ir);
}

void gale__inflate_fill_ring(const inflating *k)
{
    gale__ir *ir = k->ir;
    gale__ir_val near_word = add(ir, right(ir, value_of(k, k->place), u32(ir, 5)), u32(ir, NEAR));
    begin_together(k, test(ir, GALE__GT, near_word, value_of(k, k->filled)));
    gale__ir_val at = add(ir, value_of(k, k->filled), k->lane);
    barrier(ir);
    set(ir, k->ring, masked(ir, at, 2 * LANES - 1), value_of(k, k->ahead));
    assign(k, k->ahead, input(k, add(ir, at, u32(ir, LANES))));
    assign(k, k->filled, add(ir, value_of(k, k->filled), u32(ir, LANES)));
    barrier(ir);
    end(ir);
}

gale__ir_val gale__inflate_window(const inflating *k)
{
    gale__ir *ir = k->ir;
    gale__ir_val low = convert(ir, GALE_U64, value_of(k, k->words[0])),
                 high = convert(ir, GALE_U64, value_of(k, k->words[1]));
    gale__ir_val two = gale__ir_op2(
        ir, GALE__OR, GALE_U64, low, gale__ir_op2(ir, GALE__IR_SHL, GALE_U64, high, gale__ir_const(ir, GALE_U64, 32)));
    gale__ir_val by = convert(ir, GALE_U64, masked(ir, value_of(k, k->place), 31));
    return convert(ir, GALE_U32, gale__ir_op2(ir, GALE__IR_SHR, GALE_U64, two, by));
}

void gale__inflate_advance(const inflating *k, gale__ir_val n)
{
    gale__ir *ir = k->ir;
    gale__ir_val from = value_of(k, k->place), to = add(ir, from, n);
    gale__ir_val crossed = right(ir, bin(ir, GALE__XOR, from, to), u32(ir, 5));
    assign(k, k->place, to);
    begin_if(ir, test(ir, GALE__NE, crossed, k->zero));
    gale__ir_val third = add(ir, right(ir, to, u32(ir, 5)), u32(ir, 2));
    assign(k, k->words[0], value_of(k, k->words[1]));
    assign(k, k->words[1], value_of(k, k->words[2]));
    assign(k, k->words[2], get(ir, k->ring, masked(ir, third, 2 * LANES - 1)));
    end(ir);
}

/* --- Symbols. --- */

static gale__ir_val space_at(const inflating *k, gale__ir_val i) { return add(k->ir, k->space, i); }

static void store_late(const inflating *k)
{
    gale__ir *ir = k->ir;
    begin_if(ir, test(ir, GALE__LT, k->lane, value_of(k, k->late_count)));
    gale__ir_store(ir, SPACE, GALE_U8, 1, value_of(k, k->late_at), value_of(k, k->late));
    end(ir);
    assign(k, k->late_count, k->zero);
}

/* n modulo the distance, which is rarely below n. */
static gale__ir_val wrapped(const inflating *k, gale__ir_val n, gale__ir_val distance)
{
    gale__ir *ir = k->ir;
    gale__ir_val v = variable(ir, GALE_U32);
    assign(k, v, n);
    begin_if(ir, test(ir, GALE__GE, n, distance));
    assign(k, v, bin(ir, GALE__IR_REM, n, distance));
    end(ir);
    return value_of(k, v);
}

/* Copies a match from `distance` bytes back; if it overlaps itself, the bytes repeat.  All bytes of a long match are
 * loaded before the first is stored, since the compiler cannot know that they do not alias. */
static void copy_match(const inflating *k)
{
    enum { MORE = 258 / LANES };
    gale__ir *ir = k->ir;
    gale__ir_val count = value_of(k, k->count), distance = value_of(k, k->distance), out = value_of(k, k->out),
                 from = space_at(k, sub(ir, out, distance)), to = add(ir, space_at(k, out), k->lane), byte[MORE];
    store_late(k);
    barrier_all(ir);
    gale__ir_val offset = wrapped(k, k->lane, distance);
    assign(k, k->late, gale__ir_load(ir, SPACE, GALE_U8, 1, add(ir, from, offset)));
    assign(k, k->late_at, to), assign(k, k->late_count, count);
    begin_if(ir, test(ir, GALE__GT, count, u32(ir, LANES)));
    gale__ir_val step = wrapped(k, u32(ir, LANES), distance);
    for (int i = 0; i < MORE; i++) {
        offset = add(ir, offset, step);
        offset = pick(ir, test(ir, GALE__GE, offset, distance), sub(ir, offset, distance), offset);
        byte[i] = gale__ir_load(ir, SPACE, GALE_U8, 1, add(ir, from, offset));
    }
    for (uint32_t i = 0; i < MORE; i++) {
        gale__ir_val further = u32(ir, (i + 1) * LANES);
        begin_if(ir, test(ir, GALE__LT, add(ir, k->lane, further), count));
        gale__ir_store(ir, SPACE, GALE_U8, 1, add(ir, to, further), byte[i]);
        end(ir);
    }
    end(ir);
    assign(k, k->out, add(ir, out, count));
}

static void read_match(const inflating *k, gale__ir_val e, gale__ir_val next)
{
    gale__ir *ir = k->ir;
    gale__ir_val n = masked(ir, e, 31), extra = masked(ir, right(ir, e, u32(ir, 5)), 15);
    gale__ir_val count = add(ir, right(ir, e, u32(ir, 16)), lowest(ir, right(ir, next, n), extra));
    gale__inflate_advance(k, add(ir, n, extra));
    next = gale__inflate_window(k);
    e = get(ir, k->table, add(ir, u32(ir, 1u << LITERAL_BITS), masked(ir, next, (1u << DISTANCE_BITS) - 1)));
    assign(k, k->entry, e);
    begin_if(ir, test(ir, GALE__EQ, e, k->zero));
    gale__inflate_find_long(k, DISTANCES, DISTANCE_BITS, next);
    end(ir);
    e = value_of(k, k->entry);
    n = masked(ir, e, 31), extra = masked(ir, right(ir, e, u32(ir, 5)), 15);
    gale__ir_val distance = add(ir, right(ir, e, u32(ir, 16)), lowest(ir, right(ir, next, n), extra));
    gale__ir_val out = value_of(k, k->out), wrong = test(ir, GALE__EQ, n, k->zero);
    wrong = either(ir, wrong, test(ir, GALE__GT, distance, out));
    wrong = either(ir, wrong, test(ir, GALE__GT, add(ir, out, count), k->size));
    begin_if(ir, wrong);
    fail(k);
    begin_else(ir);
    gale__inflate_advance(k, add(ir, n, extra));
    assign(k, k->count, count), assign(k, k->distance, distance);
    end(ir);
}

/* One literal for each thread before `count`.  Until the place is looked at, there is room for those past the end. */
static void write_literals(const inflating *k, gale__ir_val count, gale__ir_val v)
{
    gale__ir *ir = k->ir;
    gale__ir_val out = value_of(k, k->out);
    begin_if(ir, test(ir, GALE__LT, k->lane, count));
    gale__ir_store(ir, SPACE, GALE_U8, 1, space_at(k, add(ir, out, k->lane)), right(ir, v, u32(ir, 16)));
    end(ir);
    assign(k, k->out, add(ir, out, count));
}

static gale__ir_val is_literal(gale__ir *ir, gale__ir_val e)
{
    return test(ir, GALE__LT, gale__ir_op1(ir, GALE__BITCAST, GALE_I32, e), gale__ir_i32(ir, 0));
}

/* Matches, ends of blocks, and literals whose codes are longer than the table's. */
static void read_other(const inflating *k)
{
    gale__ir *ir = k->ir;
    gale__ir_val next = gale__inflate_window(k);
    begin_if(ir, test(ir, GALE__EQ, value_of(k, k->entry), k->zero));
    gale__inflate_find_long(k, LITERALS, LITERAL_BITS, next);
    end(ir);
    gale__ir_val e = value_of(k, k->entry);
    begin_if(ir, test(ir, GALE__EQ, masked(ir, e, LITERAL | ENDS), k->zero));
    begin_if(ir, test(ir, GALE__EQ, e, k->zero));
    fail(k);
    begin_else(ir);
    read_match(k, e, next);
    end(ir);
    begin_else(ir);
    begin_if(ir, is_literal(ir, e));
    write_literals(k, u32(ir, 1), e);
    begin_else(ir);
    gale__inflate_end_block(k);
    end(ir);
    gale__inflate_advance(k, masked(ir, e, 31));
    end(ir);
}

/* Up to three literals, whose codes are at most 30 bits, then what follows them if they were fewer. */
static void read_symbols(const inflating *k)
{
    gale__ir *ir = k->ir;
    gale__ir_val next = gale__inflate_window(k), e[AT_ONCE], used[AT_ONCE], is[AT_ONCE], sum = k->zero, all = k->zero;
    for (int i = 0; i < AT_ONCE; i++) {
        e[i] = get(ir, k->table, masked(ir, i ? right(ir, next, sum) : next, (1u << LITERAL_BITS) - 1));
        sum = used[i] = add(ir, sum, masked(ir, e[i], 31));
        all = i ? bin(ir, GALE__AND, all, e[i]) : e[i];
        is[i] = is_literal(ir, all); /* so are those before it */
    }
    gale__ir_val count = pick(ir, is[2], u32(ir, 3), pick(ir, is[1], u32(ir, 2), pick(ir, is[0], u32(ir, 1), k->zero)));
    gale__ir_val n = pick(ir, is[2], used[2], pick(ir, is[1], used[1], pick(ir, is[0], used[0], k->zero)));
    assign(k, k->entry, pick(ir, is[1], e[2], pick(ir, is[0], e[1], e[0])));
    gale__ir_val mine = pick(
        ir, test(ir, GALE__EQ, k->lane, k->zero), e[0], pick(ir, test(ir, GALE__EQ, k->lane, u32(ir, 1)), e[1], e[2]));
    write_literals(k, count, mine);
    gale__inflate_advance(k, n);
    assign(k, k->count, k->zero);
    begin_if(ir, gale__ir_op1(ir, GALE__NOT, GALE_BOOL, is[2]));
    read_other(k);
    end(ir);
    begin_together(k, test(ir, GALE__NE, value_of(k, k->count), k->zero));
    copy_match(k);
    end(ir);
}

/* --- All of a chunk. --- */

static void inflate(const inflating *k, gale__ir_val raw)
{
    gale__ir *ir = k->ir;
    gale__ir_val turns =
        add(ir, add(ir, right(ir, k->size, u32(ir, 6)), right(ir, k->size, u32(ir, 10))), u32(ir, BLOCKS_MORE));
    begin_for(ir, k->zero, pick(ir, raw, k->zero, turns), 1);
    begin_together(k, test(ir, GALE__EQ, value_of(k, k->state), u32(ir, HEADER)));
    gale__inflate_begin_block(k);
    end(ir);
    gale__ir_val going = test(ir, GALE__EQ, value_of(k, k->state), u32(ir, SYMBOLS));
    begin_for(ir, k->zero, pick(ir, going, u32(ir, STEPS), k->zero), NEAR_STEPS);
    gale__inflate_fill_ring(k);
    begin_for(ir, k->zero, u32(ir, NEAR_STEPS), 1);
    begin_together(k, test(ir, GALE__EQ, value_of(k, k->state), u32(ir, SYMBOLS)));
    read_symbols(k);
    end(ir);
    end(ir);
    end(ir);
    begin_if(ir, either(ir, test(ir, GALE__GT, value_of(k, k->place), k->end),
                     test(ir, GALE__GT, value_of(k, k->out), k->size)));
    fail(k);
    end(ir);
    end(ir);
    store_late(k);
    barrier_all(ir);
}

static void init(inflating *k, const gale__inflate_args *a)
{
    gale__ir *ir = k->ir;
    k->each = each_of(a);
    ir->group[0] = LANES;
    ir->readonly = 1u << TABLE | 1u << INPUT;
    k->lane = thread_id(ir), k->zero = u32(ir, 0), k->chunk = special(ir, GALE__IR_GROUP_ID, 0);
    gale__ir_val first = add(ir, word(ir, W_CHANNELS), mul(ir, k->chunk, u32(ir, sizeof(gale__inflate_chunk) / 4)));
    gale__ir_val *const fields[] = {&k->at, &k->packed, &k->size, &k->space, &k->place_at, &k->sum, &k->raw, &k->width};
    for (uint32_t i = 0; i < 8; i++) *fields[i] = gale__ir_load(ir, TABLE, GALE_U32, 1, add(ir, first, u32(ir, i)));
    k->last = word(ir, W_INPUT_LAST);
    k->end = left(ir, sub(ir, add(ir, k->at, k->packed), u32(ir, 4)), u32(ir, 3));
    gale__ir_val *const variables[] = {&k->place, &k->words[0], &k->words[1], &k->words[2], &k->ahead, &k->filled,
        &k->out, &k->state, &k->final, &k->entry, &k->count, &k->distance, &k->late, &k->late_at, &k->late_count};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        assign(k, *variables[i] = variable(ir, GALE_U32), k->zero);
    k->ring = array(ir, GALE__IR_SHARED, GALE_U32, 2 * LANES);
    k->table = array(ir, GALE__IR_SHARED, GALE_U32, (1u << LITERAL_BITS) + (1u << DISTANCE_BITS));
    k->sorted = array(ir, GALE__IR_SHARED, GALE_U32, SYMBOLS_ALL);
    k->lengths = array(ir, GALE__IR_SHARED, GALE_U32, SYMBOLS_ALL);
    k->counts = array(ir, GALE__IR_SHARED, GALE_U32, LENGTHS * (LANES + 1));
    k->first = array(ir, GALE__IR_SHARED, GALE_U32, 3 * LENGTHS);
    k->start = array(ir, GALE__IR_SHARED, GALE_U32, 3 * LENGTHS);
    k->total = array(ir, GALE__IR_SHARED, GALE_U32, 3 * LENGTHS);
}

/* A stream begins behind two bytes that the host has looked at, and ends before four of a sum. */
static void build(const void *args, const gale_device_caps *caps, int i, gale__ir *ir)
{
    inflating k = {.ir = ir};
    (void)caps, (void)i;
    init(&k, args);
    gale__ir_val fine = variable(ir, GALE_U32);
    gale__ir_val raw = test(ir, GALE__NE, k.raw, k.zero);
    begin_if(ir, raw);
    gale__inflate_copy(&k);
    end(ir);
    assign(&k, k.place, left(ir, add(ir, k.at, u32(ir, 2)), u32(ir, 3)));
    inflate(&k, raw);
    gale__ir_val end_place = masked(ir, add(ir, value_of(&k, k.place), u32(ir, 7)), ~7u);
    gale__ir_val ended = both(ir, test(ir, GALE__EQ, value_of(&k, k.state), u32(ir, DONE)),
        both(ir, test(ir, GALE__EQ, value_of(&k, k.out), k.size), test(ir, GALE__EQ, end_place, k.end)));
    assign(&k, fine, pick(ir, raw, u32(ir, 1), k.zero));
    begin_together(&k, ended);
    gale__inflate_place(&k, fine);
    end(ir);
    begin_if(ir, test(ir, GALE__EQ, k.lane, k.zero));
    gale__ir_store(ir, FLAGS, GALE_U32, 1, k.chunk, sub(ir, u32(ir, 1), value_of(&k, fine)));
    end(ir);
}

const gale__kernel_routine gale__inflate_kernels = {.describe = describe, .build = build};
