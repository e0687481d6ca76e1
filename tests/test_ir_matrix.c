/* Kernel IR for matrix units, piece by piece: small elements and vectors in work-group memory, arrays that take over
 * memory, copies, 16 x 16 products in every layout and of bytes; and what the validator refuses. */
#include "ir_run.h"
#include "base/num.h"
#include "kernel/print/print.h"
#include <math.h>

static gale__ir_instr shared(gale_type type, uint64_t n, gale__ir_val over)
{
    return (gale__ir_instr){.op = GALE__IR_SHARED, .type = (uint8_t)type, .imm = n, .a = over};
}
static gale__ir_val local_id(gale__ir *ir)
{
    return gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_LOCAL_ID, .type = GALE_U32});
}
static gale__ir_val times(gale__ir *ir, gale__ir_val a, uint32_t b)
{
    return gale__ir_op2(ir, GALE__MUL, GALE_U32, a, gale__ir_u32(ir, b));
}
static gale__ir_val plus(gale__ir *ir, gale__ir_val a, uint32_t b)
{
    return gale__ir_op2(ir, GALE__ADD, GALE_U32, a, gale__ir_u32(ir, b));
}
static void plain(gale__ir *ir, int op) { gale__ir_add(ir, (gale__ir_instr){.op = (uint8_t)op}); }

/* --- small elements --- */

/* Thread t puts 4 elements at 4t, one by one or at once, and takes those of its neighbour, as 2 words of 32 bits or as
 * 2 elements and 2. */
static bool check_small(const ir_job *job, const char *device)
{
    const uint32_t *out = job->buffers[0].data;
    int bits = *(const int *)job->user;
    for (uint32_t t = 0; t < 32; t++)
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t from = (t ^ 1) * 4 + i, want = from * 2731u & ((1u << bits) - 1);
            if (out[t * 4 + i] != want) {
                printf("  %s, %d bits: thread %u has %#x, not %#x\n", device, bits, t, out[t * 4 + i], want);
                return false;
            }
        }
    return true;
}

static void small_elements(gale_type type, bool put_vector, int take_width)
{
    gale__ir ir;
    int bits = gale__type_table[type].bits;
    static uint32_t out[128];
    gale__ir_init(&ir, "small");
    ir.n_pointers = 1, ir.group[0] = 32;
    gale__ir_val array = gale__ir_add(&ir, shared(type, 128, 0)), t = local_id(&ir), v[4], got[4];
    gale__ir_val at = times(&ir, t, 4);
    for (uint32_t i = 0; i < 4; i++) v[i] = times(&ir, plus(&ir, at, i), 2731);
    for (uint32_t i = 0; i < 4; i++)
        if (!put_vector) gale__ir_set_lanes(&ir, array, type, 1, plus(&ir, at, i), &v[i]);
    if (put_vector) gale__ir_set_lanes(&ir, array, type, 4, at, v);
    plain(&ir, GALE__IR_BARRIER);
    gale__ir_val other = times(&ir, gale__ir_op2(&ir, GALE__XOR, GALE_U32, t, gale__ir_u32(&ir, 1)), 4);
    for (int i = 0; i < 4; i += take_width)
        gale__ir_get_lanes(&ir, array, type, take_width, plus(&ir, other, (uint32_t)i), got + i);
    for (uint32_t i = 0; i < 4; i++) gale__ir_store(&ir, 0, GALE_U32, 1, plus(&ir, at, i), got[i]);
    ir_job job = {.ir = &ir, .buffers = {{out, sizeof out}}, .groups = {1, 1, 1}, .check = check_small, .user = &bits};
    ir_run(&job);
}

TEST(small)
{
    for (int vector = 0; vector < 2; vector++)
        for (int width = 1; width <= 4; width *= 2) {
            small_elements(GALE_U16, vector, width);
            small_elements(GALE_U8, vector, width);
        }
}

/* --- copies --- */

static bool check_copy(const ir_job *job, const char *device)
{
    const uint32_t *out = job->buffers[1].data, *in = job->buffers[0].data;
    uint32_t words = *(const uint32_t *)job->user;
    for (uint32_t i = 0; i < 32 * words; i++) {
        uint32_t want = i / words % 3 == 1 ? 0 : in[i + 4];
        if (out[i] == want) continue;
        printf("  %s, copies of %u words: word %u is %#x, not %#x\n", device, words, i, out[i], want);
        return false;
    }
    return true;
}

/* Each thread copies `words` words from 16 bytes on, but every third one zeros; the array is then read as words. */
static void copies(gale_type type, uint32_t words)
{
    gale__ir ir;
    static uint32_t in[256], out[128];
    uint32_t per = 4u / (uint32_t)gale_type_size(type);
    for (uint32_t i = 0; i < 256; i++) in[i] = i * 0x01030507u + 9;
    gale__ir_init(&ir, "copies");
    ir.n_pointers = 2, ir.group[0] = 32, ir.readonly = 1;
    gale__ir_val array = gale__ir_add(&ir, shared(type, 128 * per, 0)), t = local_id(&ir);
    gale__ir_val third = gale__ir_op2(&ir, GALE__IR_REM, GALE_U32, t, gale__ir_u32(&ir, 3));
    gale__ir_val ok = gale__ir_op2(&ir, GALE__NE, GALE_BOOL, third, gale__ir_u32(&ir, 1)),
                 at = times(&ir, t, words * per);
    gale__ir_add(&ir,
        (gale__ir_instr){
            .op = GALE__IR_COPY, .width = (uint8_t)words, .a = array, .b = at, .c = plus(&ir, at, 4 * per), .d = ok});
    plain(&ir, GALE__IR_COMMIT);
    plain(&ir, GALE__IR_WAIT);
    plain(&ir, GALE__IR_BARRIER);
    for (uint32_t i = 0; i < words; i++) {
        gale__ir_val lanes[4], place = plus(&ir, at, i * per), word;
        gale__ir_get_lanes(&ir, array, type, (int)per, place, lanes);
        word = lanes[0];
        for (uint32_t k = 1; k < per; k++)
            word = gale__ir_op2(&ir, GALE__OR, GALE_U32, word,
                gale__ir_op2(&ir, GALE__IR_SHL, GALE_U32, lanes[k], gale__ir_u32(&ir, k * 32 / per)));
        gale__ir_store(&ir, 1, GALE_U32, 1, plus(&ir, times(&ir, t, words), i), word);
    }
    ir_job job = {.ir = &ir,
        .buffers = {{in, sizeof in}, {out, 32 * words * 4}},
        .groups = {1, 1, 1},
        .check = check_copy,
        .user = &words};
    ir_run(&job);
}

TEST(copy)
{
    for (uint32_t words = 1; words <= 4; words *= 2) {
        copies(GALE_U32, words);
        copies(GALE_U16, words);
        copies(GALE_U8, words);
    }
}

/* What two arrays over each other hold, and copies that arrive while what came before is read. */
#define BLOCKS 3
static bool check_late(const ir_job *job, const char *device)
{
    const uint32_t *out = job->buffers[1].data, *in = job->buffers[0].data;
    for (uint32_t t = 0; t < 32; t++) {
        float want = 0, got = *(const float *)(const void *)&out[t];
        for (uint32_t i = 0; i < 4 * BLOCKS; i++)
            want += *(const float *)(const void *)&in[i / 4 * 128 + (t ^ 1) * 4 + i % 4];
        if (got == want) continue;
        printf(
            "  %s, by %d: thread %u has %g, not %g\n", device, *(const int *)job->user, t, (double)got, (double)want);
        return false;
    }
    return true;
}

/* Block after block of 128 f32 comes as halves into one of two stages; the one before is read as f32, `width` at once.
 */
static void late_copies(int width)
{
    gale__ir ir;
    static float in[128 * BLOCKS], out[32];
    for (int i = 0; i < 128 * BLOCKS; i++) in[i] = (float)(i * 37 % 101);
    gale__ir_init(&ir, "late");
    ir.n_pointers = 2, ir.group[0] = 32, ir.readonly = 1;
    gale__ir_val halves = gale__ir_add(&ir, shared(GALE_U16, 512, 0)),
                 over = gale__ir_add(&ir, shared(GALE_F32, 256, halves));
    gale__ir_val sum = gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_ARRAY, .type = GALE_F32, .imm = 1});
    gale__ir_val t = local_id(&ir), zero = gale__ir_u32(&ir, 0), at = times(&ir, t, 8);
    gale__ir_val other = times(&ir, gale__ir_op2(&ir, GALE__XOR, GALE_U32, t, gale__ir_u32(&ir, 1)), 4);
    gale__ir_op3(&ir, GALE__IR_SET, GALE_F32, sum, zero, gale__ir_f32(&ir, 0));
    gale__ir_instr copy = {
        .op = GALE__IR_COPY, .width = 4, .a = halves, .b = at, .c = at, .d = gale__ir_const(&ir, GALE_BOOL, 1)};
    gale__ir_add(&ir, copy);
    plain(&ir, GALE__IR_COMMIT);
    gale__ir_val k = gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_FOR,
                                           .type = GALE_U32,
                                           .a = zero,
                                           .b = gale__ir_u32(&ir, BLOCKS),
                                           .c = gale__ir_u32(&ir, 1)});
    gale__ir_val stage = gale__ir_op2(&ir, GALE__AND, GALE_U32, k, gale__ir_u32(&ir, 1)), next = plus(&ir, k, 1);
    plain(&ir, GALE__IR_WAIT);
    plain(&ir, GALE__IR_BARRIER);
    copy.b = gale__ir_op2(&ir, GALE__SUB, GALE_U32, plus(&ir, at, 256), times(&ir, stage, 256));
    copy.c = gale__ir_op2(&ir, GALE__ADD, GALE_U32, at, times(&ir, next, 256));
    copy.d = gale__ir_op2(&ir, GALE__LT, GALE_BOOL, next, gale__ir_u32(&ir, BLOCKS));
    gale__ir_add(&ir, copy);
    plain(&ir, GALE__IR_COMMIT);
    gale__ir_val from = gale__ir_op2(&ir, GALE__ADD, GALE_U32, other, times(&ir, stage, 128)), got[4];
    for (int i = 0; i < 4; i += width)
        gale__ir_get_lanes(&ir, over, GALE_F32, width, plus(&ir, from, (uint32_t)i), got + i);
    for (int i = 0; i < 4; i++)
        gale__ir_op3(&ir, GALE__IR_SET, GALE_F32, sum, zero,
            gale__ir_op2(&ir, GALE__ADD, GALE_F32, gale__ir_op2(&ir, GALE__IR_GET, GALE_F32, sum, zero), got[i]));
    plain(&ir, GALE__IR_END);
    gale__ir_store(&ir, 1, GALE_F32, 1, t, gale__ir_op2(&ir, GALE__IR_GET, GALE_F32, sum, zero));
    ir_job job = {.ir = &ir,
        .buffers = {{in, sizeof in}, {out, sizeof out}},
        .groups = {1, 1, 1},
        .check = check_late,
        .user = &width};
    ir_run(&job);
}

TEST(late)
{
    for (int width = 1; width <= 4; width *= 2) late_copies(width);
}

/* --- products --- */

typedef struct product {
    gale_type type, other; /* of the first operand and the second */
    bool turned[2], bytes;
    float want[2][256];
} product;

static bool check_product(const ir_job *job, const char *device)
{
    const product *p = job->user;
    for (int i = 0; i < 512; i++) {
        float want = p->want[i / 256][i % 256], out = p->bytes ? (float)((const int32_t *)job->buffers[1].data)[i]
                                                               : ((const float *)job->buffers[1].data)[i];
        if (fabsf(out - want) < 1e-4f) continue;
        printf("  %s, %s by %s, turned %d %d: sum %d is %g, not %g\n", device, gale_type_name(p->type),
            gale_type_name(p->other), p->turned[0], p->turned[1], i, (double)out, (double)want);
        return false;
    }
    return true;
}

#define LINE 48 /* bytes from row to row */

static double element(gale_type type, const char *in, int row, int column)
{
    const char *at = in + row * LINE + column * (int)gale_type_size(type);
    return gale__type_is_float(type) ? gale__load_f64(type, at) : (double)gale__load_i64(type, at);
}

static void expect_product(product *p, const char *in)
{
    const char *b = in + 16 * LINE;
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 16; n++) {
            double sum = 0;
            for (int k = 0; k < (p->bytes ? 32 : 16); k++)
                sum += (p->turned[0] ? element(p->type, in, k, m) : element(p->type, in, m, k)) *
                       (p->turned[1] ? element(p->other, b, n, k) : element(p->other, b, k, n));
            p->want[0][m * 16 + n] = (float)sum;
            p->want[1][m * 16 + n] = (float)(2 * sum);
        }
}

/* Two subgroups: the second adds the product twice.  Sums go through memory that the operands were in. */
static void run_product(gale_type type, gale_type other, bool turn_a, bool turn_b)
{
    gale__ir ir;
    static char in[32 * LINE];
    static float out[512];
    product p = {.type = type, .other = other, .turned = {turn_a, turn_b}, .bytes = type == GALE_I8 || type == GALE_U8};
    gale_type sum = p.bytes ? GALE_I32 : GALE_F32;
    uint32_t unit = p.bytes ? 16 : 8, row = p.bytes ? LINE : LINE / 2; /* elements */
    for (int i = 0; i < 32 * LINE; i++) in[i] = (char)(i * 37 % 251);
    for (int i = 0; i < 16 * LINE && !p.bytes; i++) gale__store_f64(type, &in[2 * i], (i * 37 % 64 - 31) / 16.0);
    expect_product(&p, in);
    gale__ir_init(&ir, "product");
    ir.n_pointers = 2, ir.group[0] = 64, ir.readonly = 1, ir.subgroup = 32;
    gale__ir_val operands = gale__ir_add(&ir, shared(p.bytes ? GALE_U8 : GALE_U16, 4096, 0)),
                 results = gale__ir_add(&ir, shared(sum, 2 * 16 * 20, operands)), t = local_id(&ir);
    gale__ir_val sums = gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_SUMS, .type = (uint8_t)sum, .imm = 2});
    gale__ir_val yes = gale__ir_const(&ir, GALE_BOOL, 1),
                 second = gale__ir_op2(&ir, GALE__IR_DIV, GALE_U32, t, gale__ir_u32(&ir, 32));
    for (uint32_t i = 0; i < 2; i++) { /* 96 copies of 16 bytes */
        gale__ir_val at = times(&ir, plus(&ir, t, i * 64), unit);
        if (i)
            gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_IF,
                                  .a = gale__ir_op2(&ir, GALE__LT, GALE_BOOL, t, gale__ir_u32(&ir, 32))});
        gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_COPY, .width = 4, .a = operands, .b = at, .c = at, .d = yes});
        if (i) plain(&ir, GALE__IR_END);
    }
    plain(&ir, GALE__IR_COMMIT);
    plain(&ir, GALE__IR_WAIT);
    plain(&ir, GALE__IR_BARRIER);
    for (uint32_t i = 0; i < 2; i++) gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_SUMS_ZERO, .a = sums, .imm = i});
    gale__ir_val a = gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_MATRIX_A,
                                           .type = (uint8_t)type,
                                           .mem = turn_a,
                                           .a = operands,
                                           .b = gale__ir_u32(&ir, 0),
                                           .imm = row});
    gale__ir_val b = gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_MATRIX_B,
                                           .type = (uint8_t)other,
                                           .mem = turn_b,
                                           .a = operands,
                                           .b = gale__ir_u32(&ir, 16 * row),
                                           .imm = row});
    gale__ir_instr add = {.op = GALE__IR_SUMS_ADD, .a = sums, .b = a, .c = b, .imm = 1};
    gale__ir_add(&ir, add);
    gale__ir_add(&ir,
        (gale__ir_instr){.op = GALE__IR_IF, .a = gale__ir_op2(&ir, GALE__EQ, GALE_BOOL, second, gale__ir_u32(&ir, 1))});
    gale__ir_add(&ir, add);
    plain(&ir, GALE__IR_END);
    plain(&ir, GALE__IR_BARRIER);
    gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_SUMS_STORE,
                          .a = sums,
                          .b = results,
                          .c = times(&ir, second, 320),
                          .imm = (uint64_t)20 << 32 | 1});
    plain(&ir, GALE__IR_BARRIER);
    for (uint32_t i = 0; i < 8; i++) {
        gale__ir_val at = plus(&ir, t, i * 64),
                     line = gale__ir_op2(&ir, GALE__IR_SHR, GALE_U32, at, gale__ir_u32(&ir, 4)), v;
        gale__ir_val column = gale__ir_op2(&ir, GALE__AND, GALE_U32, at, gale__ir_u32(&ir, 15));
        gale__ir_get_lanes(
            &ir, results, sum, 1, gale__ir_op2(&ir, GALE__ADD, GALE_U32, times(&ir, line, 20), column), &v);
        gale__ir_store(&ir, 1, sum, 1, at, v);
    }
    ir_job job = {.ir = &ir,
        .buffers = {{in, sizeof in}, {out, sizeof out}},
        .groups = {1, 1, 1},
        .check = check_product,
        .user = &p};
    ir_run(&job);
}

TEST(products)
{
    for (int i = 0; i < 8; i++) {
        gale_type type = i & 4 ? GALE_BF16 : GALE_F16;
        run_product(type, type, i & 1, i & 2);
    }
    for (int i = 0; i < 4; i++) run_product(i & 1 ? GALE_U8 : GALE_I8, i & 2 ? GALE_U8 : GALE_I8, false, true);
}

/* --- what is refused --- */

typedef struct refused {
    const char *what;
    gale__ir_instr in;
} refused;
/* Values there: 1 an array of U16, 2 one of F32, 3 index 0, 4 BOOL, 5 SUMS of 1, 6 MATRIX_A of F16, 7 MATRIX_B of BF16,
 * 8 an F32, 9 an array of U8, 10 MATRIX_A of U8, 11 MATRIX_B of I8. */
static const refused wrong[] = {
    {"larger than the array whose memory", {.op = GALE__IR_SHARED, .type = GALE_F32, .a = 1, .imm = 4096}},
    {"is not a work-group array", {.op = GALE__IR_SHARED, .type = GALE_F32, .a = 3, .imm = 4}},
    {"element count or type", {.op = GALE__IR_ARRAY, .type = GALE_U16, .imm = 4}},
    {"more than 16 bytes", {.op = GALE__IR_GET, .type = GALE_U64, .mem = GALE_U64, .width = 4, .a = 1, .b = 3}},
    {"no such pointer", {.op = GALE__IR_COPY, .a = 1, .b = 3, .c = 3, .d = 4, .imm = 1}},
    {"not a work-group array", {.op = GALE__IR_COPY, .a = 3, .b = 3, .c = 3, .d = 4}},
    {"condition must be BOOL", {.op = GALE__IR_COPY, .a = 1, .b = 3, .c = 3, .d = 3}},
    {"F16, BF16, I8 or U8", {.op = GALE__IR_MATRIX_A, .type = GALE_F32, .a = 1, .b = 3, .imm = 16}},
    {"not a work-group array of U16", {.op = GALE__IR_MATRIX_A, .type = GALE_F16, .a = 2, .b = 3, .imm = 16}},
    {"index or row stride", {.op = GALE__IR_MATRIX_B, .type = GALE_F16, .a = 1, .b = 3, .imm = 12}},
    {"count or type", {.op = GALE__IR_SUMS, .type = GALE_F16, .imm = 1}},
    {"no such sums", {.op = GALE__IR_SUMS_ZERO, .a = 5, .imm = 1}},
    {"not matrices that these sums take", {.op = GALE__IR_SUMS_ADD, .a = 5, .b = 6, .c = 7}},
    {"not matrices that these sums take", {.op = GALE__IR_SUMS_ADD, .a = 5, .b = 10, .c = 11}},
    {"not a work-group array of U8", {.op = GALE__IR_MATRIX_A, .type = GALE_I8, .a = 1, .b = 3, .imm = 32}},
    {"index or row stride", {.op = GALE__IR_MATRIX_A, .type = GALE_U8, .a = 9, .b = 3, .imm = 24}},
    {"stored along k", {.op = GALE__IR_MATRIX_A, .type = GALE_U8, .a = 9, .b = 3, .imm = 32, .mem = 1}},
    {"stored along k", {.op = GALE__IR_MATRIX_B, .type = GALE_I8, .a = 9, .b = 3, .imm = 32}},
    {"not rounded to bytes", {.op = GALE__IR_MATRIX_SUMS, .type = GALE_I8, .a = 5, .b = 3}},
    {"array, index or row stride", {.op = GALE__IR_SUMS_STORE, .a = 5, .b = 1, .c = 3, .imm = (uint64_t)16 << 32}},
    {"operands differ in type", {.op = GALE__ADD, .type = GALE_F32, .a = 8, .b = 6}},
};

TEST(refusals)
{
    for (size_t i = 0; i <= sizeof wrong / sizeof *wrong; i++) {
        gale__ir ir;
        gale__ir_init(&ir, "wrong");
        ir.n_pointers = 1, ir.group[0] = 32, ir.subgroup = 32;
        gale__ir_add(&ir, shared(GALE_U16, 512, 0));
        gale__ir_add(&ir, shared(GALE_F32, 256, 0));
        gale__ir_u32(&ir, 0);
        gale__ir_const(&ir, GALE_BOOL, 1);
        gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_SUMS, .type = GALE_F32, .imm = 1});
        gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_MATRIX_A, .type = GALE_F16, .a = 1, .b = 3, .imm = 16});
        gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_MATRIX_B, .type = GALE_BF16, .a = 1, .b = 3, .imm = 16});
        gale__ir_f32(&ir, 1);
        gale__ir_add(&ir, shared(GALE_U8, 512, 0));
        gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_MATRIX_A, .type = GALE_U8, .a = 9, .b = 3, .imm = 32});
        gale__ir_add(
            &ir, (gale__ir_instr){.op = GALE__IR_MATRIX_B, .type = GALE_I8, .a = 9, .b = 3, .imm = 32, .mem = 1});
        if (i == sizeof wrong / sizeof *wrong) {
            CHECK_OK(gale__ir_validate(&ir));
            ir.subgroup = 8;
            CHECK_FAILS(gale__ir_validate(&ir), INTERNAL);
        } else {
            gale__ir_add(&ir, wrong[i].in);
            CHECK_FAILS(gale__ir_validate(&ir), INTERNAL);
            if (!CHECK(strstr(gale_error(), wrong[i].what) != NULL)) printf("  %s: %s\n", wrong[i].what, gale_error());
        }
        gale__ir_finish(&ir);
    }
}

/* More than 48 KiB is asked for at launch, and CUDA's text says so. */
TEST(launch_memory)
{
    gale__ir ir;
    gale__str text = {0};
    const gale__ir *list = &ir;
    gale__ir_init(&ir, "large");
    ir.n_pointers = 1;
    gale__ir_val a = gale__ir_add(&ir, shared(GALE_F32, 12288, 0)), zero = gale__ir_u32(&ir, 0);
    CHECK_EQ(gale__ir_launch_bytes(&ir), 0);
    gale__ir_val b = gale__ir_add(&ir, shared(GALE_U16, 9, 0)), c = gale__ir_add(&ir, shared(GALE_U32, 64, a));
    CHECK_EQ(gale__ir_launch_bytes(&ir), 49152 + 32);
    gale__ir_op3(&ir, GALE__IR_SET, GALE_U32, c, zero, zero);
    gale__ir_store(&ir, 0, GALE_U32, 1, zero, gale__ir_op2(&ir, GALE__IR_GET, GALE_U32, b, zero));
    CHECK_OK(gale__ir_validate(&ir));
    if (CHECK_OK(gale__ir_print_c(&list, 1, GALE__DIALECT_CUDA, &ir_full_caps, &text))) {
        CHECK(strstr(text.text, "extern __shared__") && strstr(text.text, "gale_shared+49152u"));
        ir_nvrtc(text.text, ir.name);
    }
    gale__str_finish(&text);
    gale__ir_finish(&ir);
}

TEST(close) { ir_close_devices(); }

TESTS(ROW(refusals), ROW(launch_memory), ROW(small), ROW(copy), ROW(late), ROW(products), ROW(close))
