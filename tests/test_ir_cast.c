/* Every cast between storage types as kernel IR, on every device, against the host's conversions: all codes of the
 * types of 8 and 16 bits, and for wider ones corners, ties of every shorter format, and random bits. */
#include "ir_run.h"
#include <float.h>
#include <math.h>

#define WIDE_ITEMS 4096
#define TYPES GALE_TYPE_COUNT /* all but strings */

static uint64_t next_random(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

static uint64_t code_of(gale_type t, const void *base, size_t at)
{
    uint64_t v = 0;
    memcpy(&v, (const char *)base + at * gale_type_size(t), gale_type_size(t));
    return v;
}

static void set_code(gale_type t, void *base, size_t at, uint64_t v)
{
    memcpy((char *)base + at * gale_type_size(t), &v, gale_type_size(t));
}

/* Floats at, and one bit beside, the middle between two neighbours of a shorter format. */
static uint32_t near_tie(uint64_t r)
{
    static const int kept[] = {10, 7, 3, 2, 1, 0};
    int drop = 23 - kept[r % 6];
    uint32_t bits = (uint32_t)(r >> 8), half = 1u << (drop - 1);
    bits = (bits & ~((half << 1) - 1) & 0x807fffff) | (uint32_t)(127 - 26 + (r >> 40) % 44) << 23;
    return bits + half + (uint32_t)((r >> 50) % 3) - 1;
}

static uint64_t wide_item(gale_type t, size_t i)
{
    static const double corners[] = {0.0, -0.0, 1, -1, 127.5, 128, -128.5, -129, 255.5, 256, 32767.5, 65535.9, 65536,
        2147483647.0, 2147483648.0, -2147483649.0, 4294967295.0, 4294967296.0, 9.3e18, -9.3e18, 1.9e19, INFINITY,
        -INFINITY, NAN, 448, 464, 465, 57344, 61440, 61441, 65504, 65519.9, 65520, 0x1p127, 0x1.8p127, 3.4028235e38,
        1e-45, 0x1p-127, 0x1.8p-127, 0x1p-126, 6, 5, 7, 0.25, 240, 248};
    static const int64_t ints[] = {0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, 32768, 65535, 65536, 65519, 65520,
        16777217, 2147483647, -2147483648LL, 4294967295, 4294967296, INT64_MAX, INT64_MIN, 9007199254740993,
        0x100000001, 0x1010000000000001, 257, 259, 0x1ffffff, 0x2000003};
    uint64_t r = next_random(), v = 0;
    if (!gale__type_is_float(t)) {
        if (i < sizeof ints / sizeof *ints) gale__store_i64(t, &v, ints[i]);
        else gale__store_i64(t, &v, (int64_t)r >> (next_random() % 64));
        return v;
    }
    if (i < sizeof corners / sizeof *corners) {
        gale__store_f64(t, &v, corners[i]);
    } else if (i % 2) {
        uint32_t bits = near_tie(r);
        float f;
        memcpy(&f, &bits, 4);
        gale__store_f64(t, &v, t == GALE_F64 ? (double)f * (1 + (double)(int)(r % 3 - 1) * DBL_EPSILON) : f);
    } else {
        v = r;
    }
    return v;
}

static size_t fill(gale_type t, void **data)
{
    const gale__type_info *info = &gale__type_table[t];
    size_t items = t == GALE_BOOL ? 2 : info->bits < 32 ? (size_t)1 << info->bits : WIDE_ITEMS;
    *data = calloc(items, gale_type_size(t));
    for (size_t i = 0; i < items; i++) {
        uint64_t v = i;
        if (info->bits >= 32) v = wide_item(t, i);
        else if (info->kind == 'i') gale__store_i64(t, &v, (int64_t)i);
        set_code(t, *data, i, v);
    }
    return items;
}

/* The code of `to` for an element of `from`. */
static uint64_t expect(gale_type from, gale_type to, const void *p)
{
    uint64_t out = 0;
    if (gale__type_is_float(from)) {
        gale__store_f64(to, &out, gale__load_f64(from, p));
        return out;
    }
    int64_t v = gale__load_i64(from, p);
    if (from == GALE_U64 && v < 0 && gale__type_is_float(to)) {
        uint64_t u = (uint64_t)v, odd = u >> 11 | ((u & 0x7ff) != 0); /* rounded to odd in 53 bits */
        if (to == GALE_F64) gale__store_f64(to, &out, (double)u);
        else gale__store_f64(to, &out, ldexp((double)odd, 11));
        return out;
    }
    gale__store_i64(to, &out, v);
    return out;
}

/* Equal bits, any NaN for a NaN, and zero for what f32 (f64) holds only as a denormal. */
static bool same(gale_type from, gale_type to, uint64_t source, uint64_t got, uint64_t want)
{
    if (got == want) return true;
    double least = from == GALE_F64 && to == GALE_F64 ? DBL_MIN : FLT_MIN;
    double in = gale__type_is_float(from) ? gale__load_f64(from, &source) : 1;
    if (!gale__type_is_float(to)) return fabs(in) < least && got == 0;
    double a = gale__load_f64(to, &got), b = gale__load_f64(to, &want);
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return (fabs(b) <= least || fabs(in) < least) && fabs(a) <= (to == GALE_F8E8M0 ? 0x1p-126 : least);
}

static bool check_casts(const ir_job *job, const char *device)
{
    static int said;
    gale_type from = *(const gale_type *)job->user;
    size_t items = job->words[0];
    bool ok = true;
    for (int k = 0; k < TYPES; k++) {
        gale_type to = (gale_type)k;
        if (to == GALE_STRING) continue;
        const char *row = (const char *)job->buffers[1].data + (size_t)k * items * 8;
        for (size_t i = 0; i < items; i++) {
            uint64_t source = code_of(from, job->buffers[0].data, i), got = code_of(to, row, i),
                     want = expect(from, to, &source);
            if (same(from, to, source, got, want)) continue;
            ok = false;
            if (said++ < 60)
                printf("  %s %s->%s of %#llx: %#llx, not %#llx\n", device, gale_type_name(from), gale_type_name(to),
                    (unsigned long long)source, (unsigned long long)got, (unsigned long long)want);
        }
    }
    return ok;
}

static void build(gale__ir *ir, gale_type from)
{
    char name[32];
    snprintf(name, sizeof name, "cast_%s", gale_type_name(from));
    gale__ir_init(ir, name);
    ir->group[0] = 64;
    ir->n_pointers = 2;
    ir->n_words = 1;
    ir->readonly = 1;
    gale__ir_val group = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_GROUP_ID, .type = GALE_U32});
    gale__ir_val local = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_LOCAL_ID, .type = GALE_U32});
    gale__ir_val items = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_WORD, .type = GALE_U32});
    gale__ir_val index = gale__ir_op2(ir, GALE__ADD, GALE_U32,
                     gale__ir_op2(ir, GALE__MUL, GALE_U32, group, gale__ir_u32(ir, 64)), local),
                 v;
    gale__ir_op1(ir, GALE__IR_IF, GALE_BOOL, gale__ir_op2(ir, GALE__LT, GALE_BOOL, index, items));
    gale__ir_load_as(ir, 0, from, 1, index, &v);
    for (int k = 0; k < TYPES; k++) {
        gale_type to = (gale_type)k;
        if (to == GALE_STRING) continue;
        gale__ir_val r = gale__ir_cast(ir, from, to, v);
        gale__ir_val row =
            gale__ir_op2(ir, GALE__MUL, GALE_U32, items, gale__ir_u32(ir, (uint32_t)(k * 8 / (int)gale_type_size(to))));
        gale__ir_store_as(ir, 1, to, 1, gale__ir_op2(ir, GALE__ADD, GALE_U32, row, index), &r);
    }
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_END});
}

static void run_from(gale_type from)
{
    gale__ir ir;
    void *in;
    size_t items = fill(from, &in), out_bytes = TYPES * items * 8;
    void *out = calloc(1, out_bytes);
    build(&ir, from);
    ir_job job = {.ir = &ir,
        .buffers = {{in, items * gale_type_size(from)}, {out, out_bytes}},
        .words = {(uint32_t)items},
        .groups = {(uint32_t)(items + 63) / 64, 1, 1},
        .check = check_casts,
        .user = &from};
    ir_run(&job);
    free(in), free(out);
}

TEST(wide_floats) { run_from(GALE_F32), run_from(GALE_F64); }
TEST(halves) { run_from(GALE_F16), run_from(GALE_BF16); }
TEST(small_floats)
{
    for (int t = GALE_F8E4M3FN; t <= GALE_F4E2M1; t++) run_from((gale_type)t);
    run_from(GALE_F6E2M3);
    run_from(GALE_F6E3M2);
}
TEST(integers)
{
    for (int t = GALE_I8; t <= GALE_BOOL; t++) run_from((gale_type)t);
}
TEST(close) { ir_close_devices(); }

TESTS(ROW(wide_floats), ROW(halves), ROW(small_floats), ROW(integers), ROW(close))
