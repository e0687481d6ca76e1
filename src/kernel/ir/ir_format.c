/* Storage formats in kernel IR: how narrow integers, f16, bf16, the f8 family and f4 are loaded, stored, cast and
 * rounded.  What base/num.c does for one number on the host is done here in bit operations, one row per format. */
#include "kernel/ir/ir_util.h"

static gale__ir_val op2(gale__ir *ir, int op, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, op, gale__ir_type(ir, a), a, b);
}
static gale__ir_val and_bits(gale__ir *ir, gale__ir_val a, uint64_t bits)
{
    return op2(ir, GALE__AND, a, gale__ir_const(ir, gale__ir_type(ir, a), bits));
}
static gale__ir_val shift_left(gale__ir *ir, gale__ir_val a, int n)
{
    return op2(ir, GALE__IR_SHL, a, gale__ir_const(ir, gale__ir_type(ir, a), (uint64_t)n));
}
static gale__ir_val shift_right(gale__ir *ir, gale__ir_val a, int n)
{
    return op2(ir, GALE__IR_SHR, a, gale__ir_const(ir, gale__ir_type(ir, a), (uint64_t)n));
}
static gale__ir_val add_u32(gale__ir *ir, gale__ir_val a, uint32_t n)
{
    return op2(ir, GALE__ADD, a, gale__ir_u32(ir, n));
}
static gale__ir_val to_bits(gale__ir *ir, gale__ir_val f) { return gale__ir_op1(ir, GALE__BITCAST, GALE_U32, f); }
static gale__ir_val from_bits(gale__ir *ir, gale__ir_val u) { return gale__ir_op1(ir, GALE__BITCAST, GALE_F32, u); }
static gale__ir_val above(gale__ir *ir, gale__ir_val u, uint64_t limit)
{
    return gale__ir_op2(ir, GALE__GT, GALE_BOOL, u, gale__ir_const(ir, gale__ir_type(ir, u), limit));
}
static gale__ir_val pick(gale__ir *ir, gale__ir_val cond, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op3(ir, GALE__SELECT, gale__ir_type(ir, a), cond, a, b);
}

gale_type gale__ir_mem_type(gale_type storage)
{
    const gale__type_info *info = &gale__type_table[storage];
    if (info->bits >= 32) return storage;
    if (info->kind == 'i') return info->bits == 16 ? GALE_I16 : GALE_I8;
    return info->bits == 16 ? GALE_U16 : GALE_U8;
}

/* `max` is the code of the largest number, `nan` that of NaN.  no_minus_zero: its code is NaN.  infinite: max + 1 is.
 */
typedef struct small_float {
    uint16_t mantissa, bias, sign, max, nan;
    bool no_minus_zero, infinite, has_nan;
} small_float;

static small_float small_float_of(gale_type type)
{
    switch (type) {
    case GALE_F8E4M3FN: return (small_float){3, 7, 0x80, 0x7e, 0x7f, false, false, true};
    case GALE_F8E4M3FNUZ: return (small_float){3, 8, 0x80, 0x7f, 0x80, true, false, true};
    case GALE_F8E5M2: return (small_float){2, 15, 0x80, 0x7b, 0x7e, false, true, true};
    case GALE_F8E5M2FNUZ: return (small_float){2, 16, 0x80, 0x7f, 0x80, true, false, true};
    case GALE_F6E2M3: return (small_float){3, 1, 0x20, 0x1f, 0x20, false, false, false}; /* NaN becomes -0 */
    case GALE_F6E3M2: return (small_float){2, 3, 0x20, 0x1f, 0x20, false, false, false};
    default: return (small_float){1, 1, 0x08, 0x07, 0x08, false, false, false}; /* f4e2m1 */
    }
}

/* F32 -> code, nearest even, saturating; infinity stays if the format has one. */
static gale__ir_val encode_small(gale__ir *ir, small_float f, gale__ir_val v)
{
    gale__ir_val bits = to_bits(ir, v), magnitude = and_bits(ir, bits, 0x7fffffff);
    int drop = 23 - f.mantissa;
    gale__ir_val odd = and_bits(ir, shift_right(ir, magnitude, drop), 1);
    gale__ir_val normal =
        shift_right(ir, op2(ir, GALE__ADD, add_u32(ir, magnitude, (1u << (drop - 1)) - 1), odd), drop);
    normal = add_u32(ir, normal, 0u - ((127u - f.bias) << f.mantissa));
    /* Below the smallest normal number an addition rounds to the format's quantum, and leaves how many in the low bits.
     */
    uint32_t magic = (uint32_t)(127 + 24 - f.bias - f.mantissa) << 23;
    gale__ir_val sum = op2(ir, GALE__ADD, from_bits(ir, magnitude), gale__ir_const(ir, GALE_F32, magic));
    gale__ir_val tiny = add_u32(ir, to_bits(ir, sum), 0u - magic);
    gale__ir_val code = pick(ir, above(ir, magnitude, ((128u - f.bias) << 23) - 1), normal, tiny);
    code = pick(ir, above(ir, code, f.max), gale__ir_u32(ir, f.max), code);
    if (f.infinite) code = pick(ir, above(ir, magnitude, 0x7f7fffff), gale__ir_u32(ir, f.max + 1u), code);

    gale__ir_val sign = pick(ir, above(ir, bits, 0x7fffffff), gale__ir_u32(ir, f.sign), gale__ir_u32(ir, 0));
    gale__ir_val whole = op2(ir, GALE__OR, code, sign);
    if (f.no_minus_zero) whole = pick(ir, above(ir, code, 0), whole, code);
    gale__ir_val nan = gale__ir_u32(ir, f.nan);
    return pick(ir, above(ir, magnitude, 0x7f800000), f.no_minus_zero ? nan : op2(ir, GALE__OR, nan, sign), whole);
}

static gale__ir_val decode_small(gale__ir *ir, small_float f, gale__ir_val code)
{
    gale__ir_val magnitude = and_bits(ir, code, f.sign - 1u);
    gale__ir_val spread = shift_left(ir, magnitude, 23 - f.mantissa);
    gale__ir_val normal = from_bits(ir, add_u32(ir, spread, (127u - f.bias) << 23));
    /* 1.m - 1 at the smallest normal exponent is 0.m there: no denormal of f32 takes part. */
    uint32_t least = (128u - f.bias) << 23;
    gale__ir_val tiny =
        op2(ir, GALE__SUB, from_bits(ir, add_u32(ir, spread, least)), gale__ir_const(ir, GALE_F32, least));
    gale__ir_val v = to_bits(ir, pick(ir, above(ir, magnitude, (1u << f.mantissa) - 1), normal, tiny));
    if (f.infinite) v = pick(ir, above(ir, magnitude, f.max), gale__ir_u32(ir, 0x7f800000), v);
    if (f.has_nan && !f.no_minus_zero)
        v = pick(ir, above(ir, magnitude, f.max + (f.infinite ? 1u : 0u)), gale__ir_u32(ir, 0x7fc00000), v);
    v = op2(ir, GALE__OR, v, shift_left(ir, and_bits(ir, code, f.sign), __builtin_clz(f.sign)));
    if (f.no_minus_zero) {
        gale__ir_val is_nan = gale__ir_op2(ir, GALE__EQ, GALE_BOOL, code, gale__ir_u32(ir, f.nan));
        v = pick(ir, is_nan, gale__ir_u32(ir, 0x7fc00000), v);
    }
    return from_bits(ir, v);
}

/* The next power of two up; infinity becomes NaN. */
static gale__ir_val encode_e8m0(gale__ir *ir, gale__ir_val v)
{
    gale__ir_val magnitude = and_bits(ir, to_bits(ir, v), 0x7fffffff);
    gale__ir_val up = shift_right(ir, add_u32(ir, magnitude, 0x7fffff), 23);
    gale__ir_val tiny = pick(ir, above(ir, magnitude, 0x400000), gale__ir_u32(ir, 1), gale__ir_u32(ir, 0));
    gale__ir_val code = pick(ir, above(ir, magnitude, 0x7fffff), up, tiny);
    code = pick(ir, above(ir, code, 0xfe), gale__ir_u32(ir, 0xfe), code);
    return pick(ir, above(ir, magnitude, 0x7f7fffff), gale__ir_u32(ir, 0xff), code);
}

static gale__ir_val decode_e8m0(gale__ir *ir, gale__ir_val code)
{
    gale__ir_val v = pick(ir, above(ir, code, 0), shift_left(ir, code, 23), gale__ir_u32(ir, 0x400000));
    return from_bits(ir, pick(ir, above(ir, code, 0xfe), gale__ir_u32(ir, 0x7fc00000), v));
}

static gale__ir_val encode_bf16(gale__ir *ir, gale__ir_val v)
{
    gale__ir_val bits = to_bits(ir, v), top = shift_right(ir, bits, 16);
    gale__ir_val rounded = shift_right(ir, op2(ir, GALE__ADD, add_u32(ir, bits, 0x7fff), and_bits(ir, top, 1)), 16);
    gale__ir_val nan = op2(ir, GALE__OR, top, gale__ir_u32(ir, 0x40));
    return pick(ir, above(ir, and_bits(ir, bits, 0x7fffffff), 0x7f800000), nan, rounded);
}

gale__ir_val gale__ir_half_by_bits(gale__ir *ir, int op, gale__ir_val v)
{
    if (op == GALE__IR_F16_TO_F32)
        return decode_small(ir, (small_float){10, 15, 0x8000, 0x7bff, 0x7e00, false, true, true}, v);
    /* Too large is infinity here: the code after the largest. */
    return encode_small(ir, (small_float){10, 15, 0x8000, 0x7c00, 0x7e00, false, false, true}, v);
}

gale__ir_val gale__ir_encode(gale__ir *ir, gale_type to, gale__ir_val v)
{
    if (to == GALE_F16 && v && ir->code[v].op == GALE__IR_F16_TO_F32) return ir->code[v].a; /* it was a half already */
    if (to == GALE_F16) return gale__ir_op1(ir, GALE__IR_F32_TO_F16, GALE_U32, v);
    if (to == GALE_BF16) return encode_bf16(ir, v);
    if (to == GALE_F8E8M0) return encode_e8m0(ir, v);
    return encode_small(ir, small_float_of(to), v);
}

gale__ir_val gale__ir_decode(gale__ir *ir, gale_type from, gale__ir_val code)
{
    if (from == GALE_F16) return gale__ir_op1(ir, GALE__IR_F16_TO_F32, GALE_F32, code);
    if (from == GALE_BF16) return from_bits(ir, shift_left(ir, code, 16));
    if (from == GALE_F8E8M0) return decode_e8m0(ir, code);
    return decode_small(ir, small_float_of(from), code);
}

static bool is_coded(gale_type storage)
{
    return gale__type_is_float(storage) && storage != GALE_F32 && storage != GALE_F64;
}

gale__ir_val gale__ir_narrow(gale__ir *ir, gale_type to, gale__ir_val v)
{
    int bits = gale__type_table[to].bits;
    if (is_coded(to)) return gale__ir_decode(ir, to, gale__ir_encode(ir, to, v));
    if (!gale__type_is_int(to) || bits >= 32) return v;
    if (!gale__type_is_signed(to)) return and_bits(ir, v, ((uint64_t)1 << bits) - 1);
    return shift_right(ir, shift_left(ir, v, 32 - bits), 32 - bits);
}

/* F64 -> F32 rounding to odd, after which a second rounding to a shorter format is the right one. */
static gale__ir_val odd_from_f64(gale__ir *ir, gale__ir_val v)
{
    gale__ir_val near = gale__ir_op1(ir, GALE__IR_CONVERT, GALE_F32, v);
    gale__ir_val back = gale__ir_op1(ir, GALE__IR_CONVERT, GALE_F64, near);
    gale__ir_val too_large = gale__ir_op2(
        ir, GALE__GT, GALE_BOOL, gale__ir_op1(ir, GALE__ABS, GALE_F64, back), gale__ir_op1(ir, GALE__ABS, GALE_F64, v));
    gale__ir_val bits = to_bits(ir, near);
    gale__ir_val cut = pick(ir, too_large, add_u32(ir, bits, 0u - 1u), bits);
    gale__ir_val odd = from_bits(ir, op2(ir, GALE__OR, cut, gale__ir_u32(ir, 1)));
    gale__ir_val exact = gale__ir_op2(ir, GALE__EQ, GALE_BOOL, back, v),
                 is_nan = gale__ir_op2(ir, GALE__NE, GALE_BOOL, v, v);
    return pick(ir, gale__ir_op2(ir, GALE__OR, GALE_BOOL, exact, is_nan), near, odd);
}

/* Integer -> F32 likewise: low bits that f32 cannot hold are gathered in one. */
static gale__ir_val odd_from_int(gale__ir *ir, gale__ir_val v)
{
    gale_type t = gale__ir_type(ir, v), u = gale__ir_unsigned(t);
    gale__ir_val negative = 0, m = v;
    if (gale__type_is_signed(t)) {
        negative = gale__ir_op2(ir, GALE__LT, GALE_BOOL, v, gale__ir_const(ir, t, 0));
        m = gale__ir_op1(ir, GALE__BITCAST, u, gale__ir_op1(ir, GALE__ABS, t, v));
    }
    for (int cut = gale__ir_bits(t) == 64 ? 40 : 10; cut > 0; cut -= 10) {
        uint64_t low = ((uint64_t)1 << cut) - 1;
        gale__ir_val high = and_bits(ir, m, ~low), some = above(ir, and_bits(ir, m, low), 0);
        gale__ir_val odd = pick(ir, some, op2(ir, GALE__OR, high, gale__ir_const(ir, u, low + 1)), high);
        m = pick(ir, above(ir, m, ((uint64_t)1 << (cut + 14)) - 1), odd, m);
    }
    gale__ir_val f = gale__ir_op1(ir, GALE__IR_CONVERT, GALE_F32, m);
    return negative ? pick(ir, negative, gale__ir_op1(ir, GALE__NEG, GALE_F32, f), f) : f;
}

gale__ir_val gale__ir_cast(gale__ir *ir, gale_type from, gale_type to, gale__ir_val v)
{
    gale_type t = gale__ir_type(ir, v);
    if (from == to) return v;
    if (gale__type_is_int(to) && (t == GALE_F32 || t == GALE_F64)) return gale__ir_float_to_int(ir, to, v);
    if (is_coded(to)) {
        bool wide = gale__type_is_int(from) && gale__type_table[from].bits >= 32;
        gale__ir_val f = t == GALE_F64 ? odd_from_f64(ir, v)
                         : wide        ? odd_from_int(ir, v)
                                       : gale__ir_scalar(ir, GALE__CAST, GALE_F32, v, 0, 0);
        return gale__ir_narrow(ir, to, f);
    }
    return gale__ir_narrow(ir, to, gale__ir_scalar(ir, GALE__CAST, gale__compute_type(to), v, 0, 0));
}

/* What one 16-byte access holds. */
static int split_width(gale_type mem, int width)
{
    int most = gale__type_table[mem].size == 8 ? 2 : 4;
    return width < most ? width : most;
}

static gale__ir_val advance(gale__ir *ir, gale__ir_val index, int by)
{
    return op2(ir, GALE__ADD, index, gale__ir_const(ir, gale__ir_type(ir, index), (uint64_t)by));
}

/* Eight values of 8 or 16 bits, or 16 of 8 bits, are two or four words; their index is a multiple of their number.  How
 * many a word holds; 0: they are not taken so. */
static int per_word(gale_type storage, int width)
{
    bool bytes = storage == GALE_U8 || storage == GALE_I8;
    if (bytes && (width == 8 || width == 16)) return 4;
    return width == 8 && is_coded(storage) && gale__type_table[storage].size == 2 ? 2 : 0;
}

static gale__ir_val word_index(gale__ir *ir, int each, gale__ir_val index)
{
    return op2(ir, GALE__IR_SHR, index, gale__ir_const(ir, gale__ir_type(ir, index), each == 4 ? 2 : 1));
}

int gale__ir_word_count(gale_type storage, int width)
{
    int each = per_word(storage, width);
    return each ? width / each : 0;
}

void gale__ir_load_words(
    gale__ir *ir, int pointer, gale_type storage, int width, gale__ir_val index, gale__ir_val *words)
{
    int each = per_word(storage, width);
    gale__ir_val v = gale__ir_load(ir, pointer, GALE_U32, width / each, word_index(ir, each, index));
    for (int i = 0; i < width / each; i++) words[i] = gale__ir_lane(ir, v, i);
}

void gale__ir_from_words(gale__ir *ir, gale_type storage, int width, const gale__ir_val *words, gale__ir_val *out)
{
    int each = per_word(storage, width), bits = 32 / each;
    for (int i = 0; i < width; i++) {
        gale__ir_val part = words[i / each];
        int at = i % each * bits;
        if (at) part = shift_right(ir, part, at);
        if (at + bits < 32) part = and_bits(ir, part, (1u << bits) - 1);
        if (each == 2) out[i] = gale__ir_decode(ir, storage, part);
        else
            out[i] = storage == GALE_U8 ? part
                                        : gale__ir_narrow(ir, GALE_I8, gale__ir_op1(ir, GALE__BITCAST, GALE_I32, part));
    }
}

gale__ir_val gale__ir_word_of_byte(const gale__ir *ir, gale__ir_val v, unsigned *number)
{
    uint64_t mask = 0, by = 0;
    const gale__ir_instr *in = &ir->code[v];
    bool masked = in->op == GALE__AND && gale__ir_is_const(ir, in->b, &mask) && mask == 255;
    gale__ir_val word = masked ? in->a : v;
    if (ir->code[word].op == GALE__IR_SHR && gale__ir_is_const(ir, ir->code[word].b, &by)) word = ir->code[word].a;
    *number = (unsigned)by / 8;
    return by % 8 == 0 && by < 32 && (masked || by == 24) ? word : 0;
}

/* A value with the same low byte, as U32: without what is subtracted from the bytes above it. */
static gale__ir_val with_low_byte(gale__ir *ir, gale__ir_val v)
{
    uint64_t less;
    if (ir->code[v].op == GALE__BITCAST && gale__ir_type(ir, ir->code[v].a) == GALE_I32) v = ir->code[v].a;
    const gale__ir_instr x = ir->code[v];
    if (x.op == GALE__SUB && x.type == GALE_I32 && gale__ir_is_const(ir, x.b, &less) && !(less & 255)) v = x.a;
    return gale__ir_op1(ir, GALE__BITCAST, GALE_U32, v);
}

/* 32 bits of `each` values. */
static gale__ir_val join_word(gale__ir *ir, gale_type storage, int each, const gale__ir_val *values)
{
    gale__ir_val word = each == 4 ? gale__ir_join_levels(ir, values) : 0;
    int bits = 32 / each;
    if (word) return word;
    for (int i = 0; i < each; i++) {
        gale__ir_val part = each == 2 ? gale__ir_encode(ir, storage, values[i]) : with_low_byte(ir, values[i]);
        int at = i * bits;
        if (each == 4 && at + bits < 32) part = and_bits(ir, part, (1u << bits) - 1);
        if (at) part = shift_left(ir, part, at);
        word = at ? op2(ir, GALE__OR, word, part) : part;
    }
    return word;
}

static void store_words(
    gale__ir *ir, int pointer, gale_type storage, int width, gale__ir_val index, const gale__ir_val *values)
{
    gale__ir_val words[4];
    int each = per_word(storage, width), n = width / each;
    for (int i = 0; i < n; i++) words[i] = join_word(ir, storage, each, values + i * each);
    gale__ir_store(ir, pointer, GALE_U32, n, word_index(ir, each, index), gale__ir_pack(ir, n, words));
}

void gale__ir_load_as(gale__ir *ir, int pointer, gale_type storage, int width, gale__ir_val index, gale__ir_val *out)
{
    gale_type mem = gale__ir_mem_type(storage);
    int step = split_width(mem, width);
    if (per_word(storage, width)) {
        gale__ir_val words[4];
        gale__ir_load_words(ir, pointer, storage, width, index, words);
        gale__ir_from_words(ir, storage, width, words, out);
        return;
    }
    for (int at = 0; at < width; at += step) {
        gale__ir_val v = gale__ir_load(ir, pointer, mem, step, advance(ir, index, at));
        for (int i = 0; i < step; i++) {
            gale__ir_val bits = step > 1 ? gale__ir_lane(ir, v, i) : v;
            if (is_coded(storage)) bits = gale__ir_decode(ir, storage, bits);
            if (storage == GALE_BOOL) bits = gale__ir_op2(ir, GALE__NE, GALE_BOOL, bits, gale__ir_u32(ir, 0));
            out[at + i] = bits;
        }
    }
}

static gale__ir_val prepare(gale__ir *ir, gale_type storage, gale__ir_val v)
{
    if (is_coded(storage)) return gale__ir_encode(ir, storage, v);
    if (storage == GALE_BOOL) return gale__ir_op1(ir, GALE__IR_CONVERT, GALE_U32, v);
    return gale__type_table[storage].bits < 8 ? gale__ir_narrow(ir, storage, v) : v;
}

void gale__ir_store_as(
    gale__ir *ir, int pointer, gale_type storage, int width, gale__ir_val index, const gale__ir_val *values)
{
    gale_type mem = gale__ir_mem_type(storage);
    int step = split_width(mem, width);
    if (per_word(storage, width)) {
        store_words(ir, pointer, storage, width, index, values);
        return;
    }
    for (int at = 0; at < width; at += step) {
        gale__ir_val lanes[4] = {0};
        for (int i = 0; i < step; i++) lanes[i] = prepare(ir, storage, values[at + i]);
        gale__ir_val v = step > 1 ? gale__ir_pack(ir, step, lanes) : lanes[0];
        gale__ir_store(ir, pointer, mem, step, advance(ir, index, at), v);
    }
}
