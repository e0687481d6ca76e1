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

static void add_vector(const inflating *k, const sums *s, gale__ir_val at, gale__ir_val half)
{
    gale__ir *ir = k->ir;
    gale__ir_val index = right(ir, add(ir, k->space, at), u32(ir, 2)), v = gale__ir_load(ir, SPACE, GALE_U32, 4, index),
                 plain = k->zero, weighted = k->zero;
    for (uint32_t i = 0; i < VECTOR; i++) {
        gale__ir_val byte = masked(ir, right(ir, gale__ir_lane(ir, v, (int)(i / 4)), u32(ir, 8 * (i % 4))), 255);
        plain = add(ir, plain, byte);
        weighted = add(ir, weighted, mul(ir, byte, u32(ir, i)));
    }
    assign(k, s->plain, add(ir, value_of(k, s->plain), plain));
    weighted = add(ir, weighted, mul(ir, rem(ir, at), plain));
    assign(k, s->weighted, rem(ir, add(ir, value_of(k, s->weighted), weighted)));
    begin_if(ir, test(ir, GALE__LE, add(ir, at, u32(ir, VECTOR)), half));
    assign(k, s->low, add(ir, value_of(k, s->low), plain));
    begin_else(ir);
    gale__ir_val byte = gale__ir_load(ir, SPACE, GALE_U8, 1, add(ir, k->space, begin_for(ir, at, half, 1)));
    assign(k, s->low, add(ir, value_of(k, s->low), byte));
    end(ir);
    end(ir);
}

/* What a variable is in all threads together; each is below 2^32 / lanes or of no use above the lowest bits. */
static gale__ir_val sum_of_all(const inflating *k, gale__ir_val mine)
{
    gale__ir *ir = k->ir;
    gale__ir_val sum = variable(ir, GALE_U32);
    barrier(ir);
    set(ir, k->counts, k->lane, value_of(k, mine));
    barrier(ir);
    assign(k, sum, k->zero);
    gale__ir_val one = get(ir, k->counts, begin_for(ir, k->zero, u32(ir, k->lanes), 1));
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
    /* Up to the end of the last vector there is nothing. */
    begin_if(ir, test(ir, GALE__LT, k->lane, masked(ir, sub(ir, k->zero, k->size), VECTOR - 1)));
    gale__ir_store(ir, SPACE, GALE_U8, 1, add(ir, k->space, past), k->zero);
    end(ir);
    barrier_all(ir);
    gale__ir_val at = begin_for(ir, mul(ir, k->lane, u32(ir, VECTOR)), k->size, VECTOR * k->lanes);
    add_vector(k, &s, at, half);
    end(ir);
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
    gale__ir_val width = bin(ir, GALE__IR_DIV, word(ir, W_ROW), u32(ir, k->each)), channels = word(ir, W_CHANNELS);
    gale__ir_val row = bin(ir, GALE__IR_DIV, v, width), x = sub(ir, v, mul(ir, row, width)),
                 line = bin(ir, GALE__IR_DIV, row, channels), channel = sub(ir, row, mul(ir, line, channels));
    gale__ir_val plane = gale__ir_load(ir, TABLE, GALE_U32, 1, channel);
    begin_if(ir, test(ir, GALE__LT, plane, u32(ir, 4)));
    gale__ir_val at = add(ir, mul(ir, plane, word(ir, W_PLANE)), mul(ir, add(ir, k->row, line), word(ir, W_ROW)));
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

/* The bytes from `at` on. */
static void load_bytes(const inflating *k, gale__ir_val at, gale__ir_val *bytes)
{
    gale__ir *ir = k->ir;
    at = add(ir, k->space, at);
    if (k->each == 1) {
        bytes[0] = gale__ir_load(ir, SPACE, GALE_U8, 1, at);
        return;
    }
    gale__ir_val v = gale__ir_load(ir, SPACE, GALE_U32, 2, right(ir, at, u32(ir, 2)));
    for (uint32_t i = 0; i < 8; i++)
        bytes[i] = masked(ir, right(ir, gale__ir_lane(ir, v, (int)(i / 4)), u32(ir, 8 * (i % 4))), 255);
}

/* Sums of low bytes in the lower half of a word, of high ones in the upper half. */
static gale__ir_val scan(const inflating *k, gale__ir_val mine, gale__ir_val carry)
{
    gale__ir *ir = k->ir;
    gale__ir_val before = variable(ir, GALE_U32), all = variable(ir, GALE_U32);
    barrier(ir);
    set(ir, k->counts, k->lane, masked(ir, mine, 0x00ff00ff));
    barrier(ir);
    assign(k, before, value_of(k, carry)), assign(k, all, value_of(k, carry));
    gale__ir_val i = begin_for(ir, k->zero, u32(ir, k->lanes), 1), one = get(ir, k->counts, i);
    gale__ir_val counted = pick(ir, test(ir, GALE__LT, i, k->lane), one, k->zero);
    assign(k, before, add(ir, value_of(k, before), counted));
    assign(k, all, add(ir, value_of(k, all), one));
    end(ir);
    assign(k, carry, masked(ir, value_of(k, all), 0x00ff00ff));
    return value_of(k, before);
}

/* Each difference has 128 more: those of all bytes before are 0 or 128. */
static void place_vectors(const inflating *k, gale__ir_val half, gale__ir_val low)
{
    gale__ir *ir = k->ir;
    gale__ir_val carry = variable(ir, GALE_U32), bytes[2][8], samples[8], sum[8], total = k->zero;
    gale__ir_val count = bin(ir, GALE__IR_DIV, half, u32(ir, k->each));
    assign(k, carry, left(ir, masked(ir, low, 255), u32(ir, 16)));
    gale__ir_val v = add(ir, begin_for(ir, k->zero, count, k->lanes), k->lane), inside = test(ir, GALE__LT, v, count),
                 at = mul(ir, pick(ir, inside, v, k->zero), u32(ir, k->each));
    load_bytes(k, at, bytes[0]);
    load_bytes(k, add(ir, at, half), bytes[1]);
    for (uint32_t i = 0; i < k->each; i++)
        sum[i] = total = add(ir, total, bin(ir, GALE__OR, bytes[0][i], left(ir, bytes[1][i], u32(ir, 16))));
    gale__ir_val before = scan(k, pick(ir, inside, total, k->zero), carry);
    for (uint32_t i = 0; i < k->each; i++) {
        gale__ir_val place = add(ir, at, u32(ir, i)), odd = masked(ir, left(ir, place, u32(ir, 7)), 128),
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
    gale__ir_val samples[8], v = begin_for(ir, k->lane, bin(ir, GALE__IR_DIV, k->size, u32(ir, 2 * k->each)), k->lanes);
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
