/* f32 division where a device's own is not exact (ir_lower.c), against C's to the last bit: corners by corners, random
 * bits, quotients next to halfway between two numbers, quotients below the normal numbers.  The devices at hand divide
 * well, so the reciprocal that the rewritten kernel asks for is also put several units off. */
#include "ir_run.h"
#include "kernel/ir/ir_util.h"
#include "kernel/print/print.h"
#include <math.h>
#include <string.h>

#define GROUP 64
#define CORNERS 40
#define RANDOM (1 << 16)
#define KINDS 5
#define PAIRS (CORNERS * CORNERS + KINDS * RANDOM) /* whole groups */

static uint32_t state = 12345;
static uint32_t random32(void)
{
    state = state * 1664525u + 1013904223u;
    uint32_t v = (state ^ state >> 15) * 0x2c1b3c6du;
    return v ^ v >> 13;
}

static float as_float(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint32_t as_bits(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static void fill(float *x, float *y)
{
    static const uint32_t corners[CORNERS / 2] = {0, 1, 2, 3, 0x00400000, 0x007fffff, 0x00800000, 0x00800001,
        0x00ffffff, 0x01000000, 0x3f7fffff, 0x3f800000, 0x3f800001, 0x40400000, 0x7e800000, 0x7effffff, 0x7f000000,
        0x7f7fffff, 0x7f800000, 0x7fc00000};
    for (int i = 0; i < CORNERS * CORNERS; i++) {
        int a = i / CORNERS, b = i % CORNERS;
        *x++ = as_float(corners[a / 2] | (uint32_t)(a & 1) << 31),
        *y++ = as_float(corners[b / 2] | (uint32_t)(b & 1) << 31);
    }
    for (int i = 0; i < RANDOM; i++) *x++ = as_float(random32()), *y++ = as_float(random32());
    for (int i = 0; i < RANDOM; i++)
        *x++ = as_float(0x3f800000 | random32() >> 9), *y++ = as_float(0x3f800000 | random32() >> 9);
    for (int i = 0; i < 2 * RANDOM; i++) { /* about halfway between q and the number after it; then of any size that is
                                              not taken apart, and a little beyond */
        float b = as_float(0x3f800000 | random32() >> 9), q = as_float(0x3f800000 | random32() >> 9),
              a = (float)(((double)q + 0x1p-24) * (double)b);
        *x++ = i < RANDOM ? a : ldexpf(random32() & 1 ? a : -a, (int)(random32() % 168) - 80),
        *y++ = i < RANDOM ? b : ldexpf(b, (int)(random32() % 82) - 41);
    }
    for (int i = 0; i < RANDOM; i++)
        *x++ = as_float(random32() & 0x9fffffff), *y++ = as_float((random32() & 0x8fffffff) | 0x40000000);
}

static void build(gale__ir *ir)
{
    gale__ir_init(ir, "divide");
    ir->group[0] = GROUP, ir->group[1] = ir->group[2] = 1;
    ir->n_pointers = 3, ir->readonly = 3;
    gale__ir_val group = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_GROUP_ID, .type = GALE_U32});
    gale__ir_val local = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_LOCAL_ID, .type = GALE_U32});
    gale__ir_val at = gale__ir_op2(
        ir, GALE__ADD, GALE_U32, gale__ir_op2(ir, GALE__MUL, GALE_U32, group, gale__ir_u32(ir, GROUP)), local);
    gale__ir_val x = gale__ir_load(ir, 0, GALE_F32, 1, at), y = gale__ir_load(ir, 1, GALE_F32, 1, at);
    gale__ir_store(ir, 2, GALE_F32, 1, at, gale__ir_scalar(ir, GALE__DIV, GALE_F32, x, y, 0));
}

static bool check(const ir_job *job, const char *device)
{
    const float *x = job->buffers[0].data, *y = job->buffers[1].data, *got = job->buffers[2].data;
    int wrong = 0;
    for (int i = 0; i < PAIRS; i++) {
        float want = x[i] / y[i];
        if ((isnan(want) && isnan(got[i])) || as_bits(want) == as_bits(got[i])) continue;
        if (wrong++ < 8)
            printf("%s: %a / %a is %a, not %a (pair %d)\n", device, (double)x[i], (double)y[i], (double)got[i],
                (double)want, i);
    }
    if (wrong) printf("%s: %d of %d wrong\n", device, wrong, PAIRS);
    return !wrong;
}

/* Moves the 1 of each of the kernel's 1 / y; true when there is such a division. */
static bool spoil(gale__ir *ir, float one)
{
    bool any = false;
    for (gale__ir_val v = 1; v < ir->count; v++) {
        uint64_t bits;
        if (ir->code[v].op != GALE__IR_DIV || !gale__ir_is_const(ir, ir->code[v].a, &bits) ||
            (bits != as_bits(1) && bits != as_bits(one)))
            continue;
        ir->code[ir->code[v].a].imm = as_bits(one);
        any = true;
    }
    return any;
}

static float x[PAIRS], y[PAIRS], results[PAIRS];

static void run_spoiled(const gale__ir *ir, float one)
{
    gale__ir lowered;
    if (!CHECK_OK(gale__ir_lower(ir, (gale__ir_lowering){.division = true}, &lowered))) return;
    CHECK(spoil(&lowered, one));
    ir_job job = {.ir = &lowered,
        .buffers = {{x, sizeof x}, {y, sizeof y}, {results, sizeof results}},
        .groups = {PAIRS / GROUP, 1, 1},
        .check = check};
    ir_run(&job); /* and finishes it */
}

TEST(rewritten_division_is_exact)
{
    static const float ones[] = {1, 1 + 0x1p-22f, 1 - 0x1p-22f, 1 + 0x1p-21f, 1 - 0x1p-21f};
    gale__ir ir;
    fill(x, y);
    build(&ir);
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++) run_spoiled(&ir, ones[i]);
    gale__ir_finish(&ir);
}

/* A device that says its division is not exact gets the rewritten kernel; one that says it is gets its own. */
TEST(capability_decides)
{
    for (int exact = 0; exact < 2; exact++) {
        gale__ir ir;
        const gale__ir *list = &ir;
        gale__str text = {0};
        gale_device_caps caps = ir_full_caps;
        caps.exact_division = exact;
        build(&ir);
        if (CHECK_OK(gale__ir_print_c(&list, 1, GALE__DIALECT_OPENCL, &caps, &text))) {
            CHECK((strstr(gale__str_text(&text), "fma(") != NULL) == !exact);
        }
        gale__str_finish(&text);
        gale__ir_finish(&ir);
    }
}

/* Powers of two need no division at all. */
TEST(division_by_a_power_is_a_product)
{
    gale__ir ir, lowered;
    gale__ir_init(&ir, "halve");
    ir.group[0] = ir.group[1] = ir.group[2] = 1, ir.n_pointers = 1;
    gale__ir_val zero = gale__ir_u32(&ir, 0), v = gale__ir_load(&ir, 0, GALE_F32, 1, zero);
    gale__ir_store(&ir, 0, GALE_F32, 1, zero, gale__ir_scalar(&ir, GALE__DIV, GALE_F32, v, gale__ir_f32(&ir, -8), 0));
    if (CHECK_OK(gale__ir_lower(&ir, (gale__ir_lowering){.division = true}, &lowered))) {
        int products = 0, others = 0;
        for (gale__ir_val k = 1; k < lowered.count; k++) {
            uint64_t bits;
            products += lowered.code[k].op == GALE__MUL && gale__ir_is_const(&lowered, lowered.code[k].b, &bits) &&
                        bits == as_bits(-0.125f);
            others += lowered.code[k].op == GALE__IR_DIV;
        }
        CHECK_EQ(products, 1);
        CHECK_EQ(others, 0);
        gale__ir_finish(&lowered);
    }
    gale__ir_finish(&ir);
}

/* Whole numbers by powers of two, towards zero, without a division; and by one that is none, and by the lowest number,
 * with more. */
enum { WHOLE = GROUP * 4 };
static const int64_t divisors[] = {1, 2, 8, 1 << 30, 6, INT32_MIN};
#define DIVISORS (sizeof divisors / sizeof *divisors)
static int64_t whole[WHOLE];
static int32_t narrow[WHOLE];
static struct {
    int64_t wide[WHOLE][DIVISORS][2];
    int32_t narrow[WHOLE][DIVISORS][2];
} quotients;

static void divide_all(gale__ir *ir, gale_type t, int from, int to, gale__ir_val at)
{
    gale__ir_val v = gale__ir_load(ir, from, t, 1, at);
    for (uint32_t i = 0; i < 2 * DIVISORS; i++) {
        gale__ir_val to_place = gale__ir_op2(ir, GALE__ADD, GALE_U32,
            gale__ir_op2(ir, GALE__MUL, GALE_U32, at, gale__ir_u32(ir, 2 * DIVISORS)), gale__ir_u32(ir, i));
        uint64_t by = t == GALE_I32 ? (uint32_t)divisors[i / 2] : (uint64_t)divisors[i / 2];
        gale__ir_store(ir, to, t, 1, to_place,
            gale__ir_op2(ir, i % 2 ? GALE__IR_REM : GALE__IR_DIV, t, v, gale__ir_const(ir, t, by)));
    }
}

static bool check_whole(const ir_job *job, const char *device)
{
    const int64_t(*wide)[DIVISORS][2] = job->buffers[2].data;
    const int32_t(*short_ones)[DIVISORS][2] = job->buffers[3].data;
    int wrong = 0;
    for (size_t i = 0; i < WHOLE; i++)
        for (size_t d = 0; d < DIVISORS; d++) {
            int64_t a = whole[i], by = divisors[d];
            int32_t b = narrow[i];
            bool right = wide[i][d][0] == a / by && wide[i][d][1] == a % by &&
                         short_ones[i][d][0] == (int32_t)(b / by) && short_ones[i][d][1] == (int32_t)(b % by);
            if (!right && wrong++ < 8) printf("%s: %lld, %d by %lld\n", device, (long long)a, (int)b, (long long)by);
        }
    return !wrong;
}

TEST(whole_numbers_by_powers)
{
    static const int64_t corners[] = {0, 1, -1, 2, -2, 7, -7, 8, -8, 9, -9, INT32_MAX, INT32_MIN + 1, INT64_MAX,
        INT64_MIN + 1, -(1ll << 40), (1ll << 40) - 1};
    gale__ir ir, lowered;
    for (size_t i = 0; i < WHOLE; i++) {
        whole[i] = i < sizeof corners / sizeof *corners ? corners[i]
                                                        : (int64_t)((uint64_t)random32() << 32 | random32()) >> i % 60;
        narrow[i] = (int32_t)whole[i];
    }
    gale__ir_init(&ir, "whole");
    ir.group[0] = GROUP, ir.group[1] = ir.group[2] = 1;
    ir.n_pointers = 4, ir.readonly = 3;
    gale__ir_val group = gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_GROUP_ID, .type = GALE_U32});
    gale__ir_val local = gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_LOCAL_ID, .type = GALE_U32});
    gale__ir_val at = gale__ir_op2(
        &ir, GALE__ADD, GALE_U32, gale__ir_op2(&ir, GALE__MUL, GALE_U32, group, gale__ir_u32(&ir, GROUP)), local);
    divide_all(&ir, GALE_I64, 0, 2, at);
    divide_all(&ir, GALE_I32, 1, 3, at);
    if (CHECK_OK(gale__ir_lower(&ir, (gale__ir_lowering){.integers = true}, &lowered))) {
        for (gale__ir_val k = 1; k < lowered.count; k++) CHECK(lowered.code[k].op != GALE__IR_REM);
        ir_job job = {.ir = &lowered,
            .buffers = {{whole, sizeof whole}, {narrow, sizeof narrow}, {quotients.wide, sizeof quotients.wide},
                {quotients.narrow, sizeof quotients.narrow}},
            .groups = {WHOLE / GROUP, 1, 1},
            .check = check_whole};
        ir_run(&job); /* and finishes it */
    }
    gale__ir_finish(&ir);
}

static const test_row rows[] = {ROW(rewritten_division_is_exact), ROW(capability_decides),
    ROW(division_by_a_power_is_a_product), ROW(whole_numbers_by_powers)};
int main(int argc, char **argv)
{
    int status = test_main(rows, sizeof rows / sizeof *rows, argc, argv);
    ir_close_devices();
    return status;
}
