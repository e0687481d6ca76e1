/* From the bytes of an EXR chunk to samples in planes.  Bytes are differences of neighbours, first all low bytes, then
 * all high ones, so that a sample is made of two sums of all before it.  A stream's own sum (Adler-32) is checked
 * first, and with it comes the sum of the low bytes, which the high ones continue. */
#include "kernel/routines/inflate_ir.h"

enum { ADLER = 65521, VECTOR = 16 };

static gale__ir_val rem(gale__ir *ir, gale__ir_val v) { return bin(ir, GALE__IR_REM, v, u32(ir, ADLER)); }

/* Sums of the thread's part: of bytes, of bytes times their places, and of low bytes. */
typedef struct sums {
    gale__ir_val plain, weighted, low;
} sums;

static void add_vector(const inflating *k, const sums *s, gale__ir_val v, gale__ir_val at, gale__ir_val half)
{
    gale__ir *ir = k->ir;
    gale__ir_val plain = k->zero, weighted = k->zero, inside = test(ir, GALE__LT, at, k->size);
    for (uint32_t i = 0; i < VECTOR; i++) {
        gale__ir_val byte = masked(ir, right(ir, gale__ir_lane(ir, v, (int)(i / 4)), u32(ir, 8 * (i % 4))), 255);
        plain = add(ir, plain, byte);
        weighted = add(ir, weighted, mul(ir, byte, u32(ir, i)));
    }
    weighted = add(ir, weighted, mul(ir, rem(ir, at), plain));
    assign(k, s->plain, add(ir, value_of(k, s->plain), pick(ir, inside, plain, k->zero)));
    assign(k, s->weighted, rem(ir, add(ir, value_of(k, s->weighted), pick(ir, inside, weighted, k->zero))));
    begin_if(ir, test(ir, GALE__LE, add(ir, at, u32(ir, VECTOR)), half));
    assign(k, s->low, add(ir, value_of(k, s->low), plain));
    begin_else(ir);
    gale__ir_val byte = gale__ir_load(ir, SPACE, GALE_U8, 1, add(ir, k->space, begin_for(ir, at, half, 1)));
    assign(k, s->low, add(ir, value_of(k, s->low), byte));
    end(ir);
    end(ir);
}

/* Several vectors are loaded at a time. */
static void add_vectors(const inflating *k, const sums *s, gale__ir_val half)
{
    enum { TOGETHER = 4 };
    gale__ir *ir = k->ir;
    gale__ir_val first = begin_for(ir, mul(ir, k->lane, u32(ir, VECTOR)), k->size, VECTOR * LANES * TOGETHER);
    gale__ir_val at[TOGETHER], v[TOGETHER];
    for (uint32_t i = 0; i < TOGETHER; i++) {
        at[i] = add(ir, first, u32(ir, i * VECTOR * LANES));
        gale__ir_val safe = pick(ir, test(ir, GALE__LT, at[i], k->size), at[i], first);
        v[i] = gale__ir_load(ir, SPACE, GALE_U32, 4, right(ir, add(ir, k->space, safe), u32(ir, 2)));
    }
    for (uint32_t i = 0; i < TOGETHER; i++) add_vector(k, s, v[i], at[i], half);
    end(ir);
}

/* Sums a variable over all threads.  Each is below 2^32 / lanes, or only its lowest bits are used. */
static gale__ir_val sum_of_all(const inflating *k, gale__ir_val mine)
{
    gale__ir *ir = k->ir;
    gale__ir_val sum = variable(ir, GALE_U32);
    barrier(ir);
    set(ir, k->counts, k->lane, value_of(k, mine));
    barrier(ir);
    assign(k, sum, k->zero);
    gale__ir_val one = get(ir, k->counts, begin_for(ir, k->zero, u32(ir, LANES), 1));
    assign(k, sum, add(ir, value_of(k, sum), one));
    end(ir);
    return value_of(k, sum);
}

/* Whether the sum is right; *low: the sum of the low bytes. */
static gale__ir_val check_sum(const inflating *k, gale__ir_val half, gale__ir_val *low)
{
    gale__ir *ir = k->ir;
    sums s = {variable(ir, GALE_U32), variable(ir, GALE_U32), variable(ir, GALE_U32)};
    gale__ir_val past = add(ir, k->size, k->lane);
    assign(k, s.plain, k->zero), assign(k, s.weighted, k->zero), assign(k, s.low, k->zero);
    /* Clears the bytes between the end of the chunk and the end of its last vector. */
    begin_if(ir, test(ir, GALE__LT, k->lane, masked(ir, sub(ir, k->zero, k->size), VECTOR - 1)));
    gale__ir_store(ir, SPACE, GALE_U8, 1, add(ir, k->space, past), k->zero);
    end(ir);
    barrier_all(ir);
    add_vectors(k, &s, half);
    gale__ir_val plain = rem(ir, sum_of_all(k, s.plain)), weighted = rem(ir, sum_of_all(k, s.weighted)),
                 n = rem(ir, k->size);
    *low = sum_of_all(k, s.low);
    gale__ir_val second = add(ir, rem(ir, mul(ir, n, plain)), add(ir, n, sub(ir, u32(ir, ADLER), weighted)));
    gale__ir_val found = bin(ir, GALE__OR, left(ir, rem(ir, second), u32(ir, 16)), rem(ir, add(ir, plain, u32(ir, 1))));
    return test(ir, GALE__EQ, found, k->sum);
}

/* Where the samples of vector v of the chunk go; opens an IF: whether the channel is wanted. */
static gale__ir_val begin_target(const inflating *k, gale__ir_val v)
{
    gale__ir *ir = k->ir;
    gale__ir_val width = bin(ir, GALE__IR_DIV, k->width, u32(ir, k->each)), channels = word(ir, W_CHANNELS);
    gale__ir_val row = bin(ir, GALE__IR_DIV, v, width), x = sub(ir, v, mul(ir, row, width)),
                 line = bin(ir, GALE__IR_DIV, row, channels), channel = sub(ir, row, mul(ir, line, channels));
    gale__ir_val plane = gale__ir_load(ir, TABLE, GALE_U32, 1, channel);
    begin_if(ir, test(ir, GALE__NE, plane, u32(ir, GALE__INFLATE_NOWHERE)));
    gale__ir_val at = add(ir, masked(ir, plane, GALE__INFLATE_SECOND - 1), mul(ir, line, word(ir, W_ROW))),
                 second = test(ir, GALE__GE, plane, u32(ir, GALE__INFLATE_SECOND));
    at = add(ir, add(ir, at, k->place_at), pick(ir, second, k->width, k->zero));
    return add(ir, at, mul(ir, x, u32(ir, k->each)));
}

static void store_samples(const inflating *k, gale__ir_val at, const gale__ir_val *samples)
{
    gale__ir *ir = k->ir;
    gale__ir_val words[4];
    if (k->each == 1) {
        gale__ir_store(ir, PLANES, GALE_U16, 1, at, samples[0]);
        return;
    }
    for (int i = 0; i < 4; i++) words[i] = bin(ir, GALE__OR, samples[2 * i], left(ir, samples[2 * i + 1], u32(ir, 16)));
    gale__ir_store(ir, PLANES, GALE_U32, 4, right(ir, at, u32(ir, 1)), gale__ir_pack(ir, 4, words));
}

/* The words, or the single byte, of vector v from `begin` on, into variables; of one past the last: of the first. */
static void fetch(const inflating *k, gale__ir_val begin, gale__ir_val v, gale__ir_val count, const gale__ir_val *to)
{
    gale__ir *ir = k->ir;
    gale__ir_val safe = pick(ir, test(ir, GALE__LT, v, count), v, k->zero),
                 at = add(ir, add(ir, k->space, begin), mul(ir, safe, u32(ir, k->each)));
    if (k->each == 1) {
        assign(k, to[0], gale__ir_load(ir, SPACE, GALE_U8, 1, at));
        return;
    }
    gale__ir_val two = gale__ir_load(ir, SPACE, GALE_U32, 2, right(ir, at, u32(ir, 2)));
    for (int i = 0; i < 2; i++) assign(k, to[i], gale__ir_lane(ir, two, i));
}

/* Sums of low bytes in the lower half of a word, of high ones in the upper half. */
static gale__ir_val scan(const inflating *k, gale__ir_val mine, gale__ir_val carry)
{
    gale__ir *ir = k->ir;
    gale__ir_val before = value_of(k, carry), all = before;
    barrier(ir);
    set(ir, k->counts, k->lane, masked(ir, mine, 0x00ff00ff));
    barrier(ir);
    for (uint32_t i = 0; i < LANES; i += 4) {
        gale__ir_val four[4];
        gale__ir_get_lanes(ir, k->counts, GALE_U32, 4, u32(ir, i), four);
        for (uint32_t j = 0; j < 4; j++) {
            gale__ir_val counted = pick(ir, test(ir, GALE__LT, u32(ir, i + j), k->lane), four[j], k->zero);
            before = add(ir, before, counted);
            all = add(ir, all, four[j]);
        }
    }
    assign(k, carry, masked(ir, all, 0x00ff00ff));
    return before;
}

/* Each difference has 128 more: those of all bytes before are 0 or 128.  While a vector is placed, the next one is on
 * its way. */
static void place_vectors(const inflating *k, gale__ir_val half, gale__ir_val low)
{
    gale__ir *ir = k->ir;
    gale__ir_val carry = variable(ir, GALE_U32), ahead[2][2], samples[8], sum[8], total = k->zero;
    gale__ir_val count = bin(ir, GALE__IR_DIV, half, u32(ir, k->each));
    for (int i = 0; i < 4; i++) ahead[i / 2][i % 2] = variable(ir, GALE_U32);
    assign(k, carry, left(ir, masked(ir, low, 255), u32(ir, 16)));
    fetch(k, k->zero, k->lane, count, ahead[0]), fetch(k, half, k->lane, count, ahead[1]);
    gale__ir_val v = add(ir, begin_for(ir, k->zero, count, LANES), k->lane), inside = test(ir, GALE__LT, v, count),
                 next = add(ir, v, u32(ir, LANES));
    for (uint32_t i = 0; i < k->each; i++) {
        gale__ir_val by = u32(ir, 8 * (i % 4)), low_byte = masked(ir, right(ir, value_of(k, ahead[0][i / 4]), by), 255),
                     high = masked(ir, right(ir, value_of(k, ahead[1][i / 4]), by), 255);
        sum[i] = total = add(ir, total, bin(ir, GALE__OR, low_byte, left(ir, high, u32(ir, 16))));
    }
    fetch(k, k->zero, next, count, ahead[0]), fetch(k, half, next, count, ahead[1]);
    gale__ir_val before = scan(k, pick(ir, inside, total, k->zero), carry);
    for (uint32_t i = 0; i < k->each; i++) {
        gale__ir_val place = add(ir, mul(ir, v, u32(ir, k->each)), u32(ir, i)),
                     odd = masked(ir, left(ir, place, u32(ir, 7)), 128),
                     odd_high = masked(ir, left(ir, add(ir, place, half), u32(ir, 7)), 128);
        gale__ir_val s = add(ir, add(ir, before, sum[i]), bin(ir, GALE__OR, odd, left(ir, odd_high, u32(ir, 16))));
        samples[i] = bin(ir, GALE__OR, masked(ir, s, 255), masked(ir, right(ir, s, u32(ir, 8)), 0xff00));
    }
    begin_if(ir, inside);
    store_samples(k, begin_target(k, v), samples);
    end(ir);
    end(ir);
    end(ir);
}

void gale__inflate_place(const inflating *k, gale__ir_val fine)
{
    gale__ir *ir = k->ir;
    gale__ir_val half = right(ir, k->size, u32(ir, 1)), low, right_sum = check_sum(k, half, &low);
    assign(k, fine, pick(ir, right_sum, u32(ir, 1), k->zero));
    begin_together(k, right_sum);
    place_vectors(k, half, low);
    end(ir);
}

void gale__inflate_copy(const inflating *k)
{
    gale__ir *ir = k->ir;
    gale__ir_val samples[8], v = begin_for(ir, k->lane, bin(ir, GALE__IR_DIV, k->size, u32(ir, 2 * k->each)), LANES);
    gale__ir_val from = add(ir, k->at, mul(ir, v, u32(ir, 2 * k->each)));
    for (uint32_t i = 0; i < k->each; i++) {
        gale__ir_val low = gale__ir_load(ir, INPUT, GALE_U8, 1, add(ir, from, u32(ir, 2 * i))),
                     high = gale__ir_load(ir, INPUT, GALE_U8, 1, add(ir, from, u32(ir, 2 * i + 1)));
        samples[i] = bin(ir, GALE__OR, low, left(ir, high, u32(ir, 8)));
    }
    store_samples(k, begin_target(k, v), samples);
    end(ir);
    end(ir);
}
