/* Kernel IR itself: folding, validation, both printers, and on every device control flow, work-group arrays, vectors,
 * parameters of all kinds and 64-bit indices. */
#include "ir_run.h"
#include "base/mem.h"
#include "kernel/print/print.h"

#define N 1024

static gale__ir_val builtin(gale__ir *ir, int op, int dimension)
{
    return gale__ir_add(ir, (gale__ir_instr){.op = (uint8_t)op, .type = GALE_U32, .imm = (uint64_t)dimension});
}
static gale__ir_val add(gale__ir *ir, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, GALE__ADD, gale__ir_type(ir, a), a, b);
}
static gale__ir_val mul(gale__ir *ir, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, GALE__MUL, gale__ir_type(ir, a), a, b);
}
static gale__ir_val less(gale__ir *ir, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, GALE__LT, GALE_BOOL, a, b);
}
static gale__ir_val word(gale__ir *ir, gale_type t, int at)
{
    return gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_WORD, .type = (uint8_t)t, .imm = (uint64_t)at});
}
static gale__ir_val array(gale__ir *ir, int op, gale_type t, int n)
{
    return gale__ir_add(ir, (gale__ir_instr){.op = (uint8_t)op, .type = (uint8_t)t, .imm = (uint64_t)n});
}
static gale__ir_val get(gale__ir *ir, gale__ir_val a, gale__ir_val i)
{
    return gale__ir_op2(ir, GALE__IR_GET, gale__ir_type(ir, a), a, i);
}
static void set(gale__ir *ir, gale__ir_val a, gale__ir_val i, gale__ir_val v)
{
    gale__ir_op3(ir, GALE__IR_SET, gale__ir_type(ir, a), a, i, v);
}
static void mark(gale__ir *ir, int op) { gale__ir_add(ir, (gale__ir_instr){.op = (uint8_t)op}); }
static gale__ir_val loop(gale__ir *ir, gale__ir_val from, gale__ir_val to, uint32_t step, uint8_t unroll)
{
    return gale__ir_add(
        ir, (gale__ir_instr){
                .op = GALE__IR_FOR, .type = GALE_U32, .a = from, .b = to, .c = gale__ir_u32(ir, step), .imm = unroll});
}
static gale__ir_val index_1d(gale__ir *ir)
{
    return add(ir, mul(ir, builtin(ir, GALE__IR_GROUP_ID, 0), gale__ir_u32(ir, ir->group[0])),
        builtin(ir, GALE__IR_LOCAL_ID, 0));
}
static void start(gale__ir *ir, const char *name, uint32_t x, uint32_t y, int pointers, int words, uint32_t readonly)
{
    gale__ir_init(ir, name);
    ir->group[0] = x, ir->group[1] = y;
    ir->n_pointers = pointers, ir->n_words = words, ir->readonly = readonly;
}
static bool say(const char *device, size_t at, double got, double want)
{
    printf("  %s: element %zu is %.9g, not %.9g\n", device, at, got, want);
    return false;
}

static float f32_in[N], f32_out[N];
static uint32_t u32_in[N], u32_out[N];
static void fill_inputs(void)
{
    for (int i = 0; i < N; i++) {
        f32_in[i] = (float)((i * 37) % 101) - 50;
        u32_in[i] = (uint32_t)i * 2654435761u;
    }
    memset(f32_out, 0, sizeof f32_out);
    memset(u32_out, 0, sizeof u32_out);
}
#define BUFFER(a)   \
    {               \
        a, sizeof a \
    }

TEST(folding)
{
    gale__ir ir;
    uint64_t bits = 0;
    start(&ir, "fold", 1, 1, 1, 1, 0);
    gale__ir_val x = word(&ir, GALE_U32, 0), f = gale__ir_load(&ir, 0, GALE_F32, 1, gale__ir_u32(&ir, 0));
    gale__ir_val zero = gale__ir_u32(&ir, 0), one = gale__ir_u32(&ir, 1), minus = gale__ir_i32(&ir, -7);
    CHECK_EQ(add(&ir, x, zero), x);
    CHECK_EQ(add(&ir, zero, x), x);
    CHECK_EQ(mul(&ir, one, x), x);
    CHECK_EQ(gale__ir_op2(&ir, GALE__IR_DIV, GALE_U32, x, one), x);
    CHECK_EQ(gale__ir_op1(&ir, GALE__IR_CONVERT, GALE_U32, x), x);
    gale__ir_val nothing = mul(&ir, x, zero);
    CHECK(ir.code[nothing].op == GALE__IR_CONST && ir.code[nothing].imm == 0);
    gale__ir_val q = gale__ir_op2(&ir, GALE__IR_DIV, GALE_I32, minus, gale__ir_i32(&ir, 2));
    CHECK(ir.code[q].op == GALE__IR_CONST && (int32_t)ir.code[q].imm == -3);
    gale__ir_val c = gale__ir_op1(&ir, GALE__IR_CONVERT, GALE_F32, minus);
    bits = ir.code[c].imm;
    CHECK_EQ(bits, 0xc0e00000u);
    gale__ir_val below = less(&ir, minus, gale__ir_i32(&ir, 1)),
                 beyond = less(&ir, gale__ir_u32(&ir, 0xfffffff9u), one);
    CHECK(ir.code[below].imm == 1 && ir.code[beyond].imm == 0);
    /* -0 + 0 is 0: not folded; -0 - 0 is -0. */
    CHECK(add(&ir, f, gale__ir_f32(&ir, 0)) != f);
    CHECK_EQ(gale__ir_op2(&ir, GALE__SUB, GALE_F32, f, gale__ir_f32(&ir, 0)), f);
    CHECK_EQ(mul(&ir, f, gale__ir_f32(&ir, 1)), f);
    CHECK(mul(&ir, f, gale__ir_f32(&ir, 0)) != f);
    CHECK_EQ(gale__ir_op3(&ir, GALE__SELECT, GALE_U32, gale__ir_const(&ir, GALE_BOOL, 1), x, zero), x);
    CHECK_OK(gale__ir_validate(&ir));
    gale__ir_finish(&ir);
}

static void bad_type(gale__ir *ir) { add(ir, word(ir, GALE_U32, 0), word(ir, GALE_I32, 1)); }
static void bad_scope(gale__ir *ir)
{
    gale__ir_op1(ir, GALE__IR_IF, GALE_BOOL, less(ir, word(ir, GALE_U32, 0), word(ir, GALE_U32, 1)));
    gale__ir_val v = add(ir, word(ir, GALE_U32, 0), word(ir, GALE_U32, 1));
    mark(ir, GALE__IR_END);
    gale__ir_store(ir, 0, GALE_U32, 1, gale__ir_u32(ir, 0), v);
}
static void bad_end(gale__ir *ir) { mark(ir, GALE__IR_END); }
static void bad_open(gale__ir *ir) { loop(ir, gale__ir_u32(ir, 0), word(ir, GALE_U32, 0), 1, 0); }
static void bad_unroll(gale__ir *ir)
{
    loop(ir, gale__ir_u32(ir, 0), word(ir, GALE_U32, 0), 1, 1);
    mark(ir, GALE__IR_END);
}
static void bad_hint(gale__ir *ir)
{
    loop(ir, gale__ir_u32(ir, 0), gale__ir_u32(ir, 4), 1, 3);
    mark(ir, GALE__IR_END);
}
static void bad_pointer(gale__ir *ir) { gale__ir_load(ir, 3, GALE_F32, 1, gale__ir_u32(ir, 0)); }
static void bad_word(gale__ir *ir) { word(ir, GALE_F64, 1); }
static void bad_readonly(gale__ir *ir)
{
    gale__ir_store(ir, 1, GALE_U32, 1, gale__ir_u32(ir, 0), word(ir, GALE_U32, 0));
}
static void bad_vector(gale__ir *ir) { gale__ir_load(ir, 0, GALE_F64, 4, gale__ir_u32(ir, 0)); }
static void bad_class(gale__ir *ir) { gale__ir_op1(ir, GALE__EXP, GALE_F32, word(ir, GALE_F32, 0)); }
static void bad_index(gale__ir *ir) { get(ir, array(ir, GALE__IR_ARRAY, GALE_F32, 4), gale__ir_u32(ir, 4)); }
static void bad_bitcast(gale__ir *ir) { gale__ir_op1(ir, GALE__BITCAST, GALE_F64, word(ir, GALE_U32, 0)); }

static void bad_counter(gale__ir *ir)
{
    ir->readonly = 1;
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ARRIVE, .a = gale__ir_u32(ir, 0)});
}
static void bad_arrival(gale__ir *ir)
{
    gale__ir_val i = index_1d(ir);
    ir->readonly = 0;
    gale__ir_op1(ir, GALE__IR_IF, GALE_BOOL, gale__ir_op2(ir, GALE__LT, GALE_BOOL, i, gale__ir_u32(ir, 1)));
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ARRIVE, .a = i, .imm = 1});
    mark(ir, GALE__IR_END);
}

static void bad_early_load(gale__ir *ir)
{
    ir->settled = 2;
    gale__ir_load(ir, 1, GALE_F32, 1, gale__ir_u32(ir, 0));
    gale__ir_load(ir, 0, GALE_F32, 1, gale__ir_u32(ir, 0));
    mark(ir, GALE__IR_READY);
}
static void bad_early_store(gale__ir *ir)
{
    gale__ir_store(ir, 0, GALE_U32, 1, gale__ir_u32(ir, 0), word(ir, GALE_U32, 0));
    mark(ir, GALE__IR_READY);
}
static void bad_ready(gale__ir *ir)
{
    loop(ir, gale__ir_u32(ir, 0), word(ir, GALE_U32, 0), 1, 0);
    mark(ir, GALE__IR_READY);
    mark(ir, GALE__IR_END);
}

TEST(validation)
{
    static const struct {
        void (*build)(gale__ir *);
        const char *says;
    } rows[] = {
        {bad_type, "(ADD): operands differ in type"},
        {bad_scope, "(STORE): operand is not defined here"},
        {bad_end, "(END): END without FOR"},
        {bad_open, "a block is not ended"},
        {bad_unroll, "(FOR): only loops of constant bounds"},
        {bad_hint, "(FOR): a loop is unrolled (1), is not (2)"},
        {bad_pointer, "(LOAD): no such pointer"},
        {bad_word, "(WORD): 64-bit words start at an even one"},
        {bad_readonly, "(STORE): pointer is read-only"},
        {bad_vector, "(LOAD): vector of more than 16 bytes"},
        {bad_class, "(EXP): not expanded"},
        {bad_index, "(GET): index past the end"},
        {bad_bitcast, "(BITCAST): sizes differ"},
        {bad_counter, "(ARRIVE): no such pointer"},
        {bad_arrival, "(ARRIVE): inside a condition"},
        {bad_early_load, "(LOAD): accesses device memory before READY"},
        {bad_early_store, "(STORE): accesses device memory before READY"},
        {bad_ready, "(READY): must be outside all blocks"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gale__ir ir;
        start(&ir, "bad", 1, 1, 2, 4, 2);
        rows[i].build(&ir);
        CHECK_FAILS(gale__ir_validate(&ir), INTERNAL);
        if (!CHECK(strstr(gale_error(), rows[i].says) != NULL)) printf("  says: %s\n", gale_error());
        gale__ir_finish(&ir);
    }
}

TEST(unsupported)
{
    gale__ir ir;
    gale__str text = {0};
    gale__ir_words words = {0};
    gale_device_caps caps = ir_full_caps;
    const gale__ir *list = &ir;
    start(&ir, "needy", 1, 1, 2, 2, 1);
    gale__ir_val v = gale__ir_op1(&ir, GALE__IR_CONVERT, GALE_F32, word(&ir, GALE_F64, 0));
    gale__ir_store_as(&ir, 1, GALE_F16, 1, gale__ir_u32(&ir, 0), &v);
    caps.f64 = false;
    CHECK_FAILS(gale__ir_print_c(&list, 1, GALE__DIALECT_OPENCL, &caps, &text), UNSUPPORTED);
    CHECK(strstr(gale_error(), "64-bit floats") != NULL);
    CHECK_FAILS(gale__ir_print_spirv(&ir, &caps, &words), UNSUPPORTED);
    caps = ir_full_caps;
    caps.storage16 = false;
    CHECK_FAILS(gale__ir_print_spirv(&ir, &caps, &words), UNSUPPORTED);
    gale__ir_finish(&ir);
    start(&ir, "waits", 1, 1, 2, 2, 1);
    gale__ir_val zero = gale__ir_u32(&ir, 0);
    ir.readonly = 0;
    gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_AWAIT, .a = zero, .b = zero, .imm = 1});
    CHECK_OK(gale__ir_validate(&ir));
    CHECK_FAILS(gale__ir_print_c(&list, 1, GALE__DIALECT_CUDA, &ir_full_caps, &text), UNSUPPORTED);
    CHECK(strstr(gale_error(), "wait for each other") != NULL);
    gale__str_finish(&text);
    gale__ir_words_finish(&words);
    gale__ir_finish(&ir);
}

/* A vector to the next group of a cluster, which is there, and has a gate. */
TEST(sending)
{
    gale__ir ir;
    gale__str text = {0};
    const gale__ir *list = &ir;
    gale_device_caps caps = ir_full_caps;
    caps.matrix_groups = true;
    for (int fault = 0; fault < 4; fault++) {
        start(&ir, "sends", 1, 1, 2, 2, 1);
        ir.cluster = fault == 1 ? 0 : 2;
        gale__ir_val zero = gale__ir_u32(&ir, 0), one = gale__ir_f32(&ir, 1), lanes[4] = {one, one, one, one};
        gale__ir_val gates = gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_SHARED, .type = GALE_U64, .imm = 2});
        gale__ir_val to = gale__ir_add(
            &ir, (gale__ir_instr){.op = GALE__IR_SHARED, .type = fault == 2 ? GALE_U32 : GALE_F32, .imm = 8});
        if (fault != 3) gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_GATE_EXPECT, .a = gates, .b = zero});
        gale__ir_val group = gale__ir_op2(&ir, GALE__XOR, GALE_U32,
            gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_GROUP_ID, .type = GALE_U32}), gale__ir_u32(&ir, 1));
        gale__ir_val pack = gale__ir_pack(&ir, 4, lanes);
        gale__ir_add(
            &ir, (gale__ir_instr){
                     .op = GALE__IR_SEND, .width = 4, .mem = GALE_F32, .a = to, .b = zero, .c = pack, .d = group});
        if (fault) CHECK_FAILS(gale__ir_validate(&ir), INTERNAL);
        else if (CHECK_OK(gale__ir_validate(&ir)) &&
                 CHECK_OK(gale__ir_print_c(&list, 1, GALE__DIALECT_CUDA, &caps, &text)))
            CHECK(strstr(text.text, "send_4(&v") != NULL);
        gale__ir_finish(&ir);
    }
    gale__str_finish(&text);
}

/* y[i] = number of steps of Collatz from x[i] % 97 + 1, at most 200, counted in a loop with a branch in it. */
static uint32_t collatz(uint32_t x)
{
    uint32_t n = x % 97 + 1, steps = 0;
    for (int i = 0; i < 200; i++)
        if (n > 1) n = n % 2 ? 3 * n + 1 : n / 2, steps++;
    return steps;
}

static void build_collatz(gale__ir *ir)
{
    gale__ir_val i = index_1d(ir), zero = gale__ir_u32(ir, 0), one = gale__ir_u32(ir, 1), two = gale__ir_u32(ir, 2);
    gale__ir_val n = array(ir, GALE__IR_ARRAY, GALE_U32, 1), steps = array(ir, GALE__IR_ARRAY, GALE_U32, 1);
    gale__ir_val x = gale__ir_load(ir, 0, GALE_U32, 1, i);
    set(ir, n, zero, add(ir, gale__ir_op2(ir, GALE__IR_REM, GALE_U32, x, gale__ir_u32(ir, 97)), one));
    set(ir, steps, zero, zero);
    loop(ir, zero, word(ir, GALE_U32, 0), 1, 0);
    gale__ir_val now = get(ir, n, zero);
    gale__ir_op1(ir, GALE__IR_IF, GALE_BOOL, gale__ir_op2(ir, GALE__GT, GALE_BOOL, now, one));
    gale__ir_op1(ir, GALE__IR_IF, GALE_BOOL,
        gale__ir_op2(ir, GALE__NE, GALE_BOOL, gale__ir_op2(ir, GALE__AND, GALE_U32, now, one), zero));
    set(ir, n, zero, add(ir, mul(ir, now, gale__ir_u32(ir, 3)), one));
    mark(ir, GALE__IR_ELSE);
    set(ir, n, zero, gale__ir_op2(ir, GALE__IR_DIV, GALE_U32, now, two));
    mark(ir, GALE__IR_END);
    set(ir, steps, zero, add(ir, get(ir, steps, zero), one));
    mark(ir, GALE__IR_END);
    mark(ir, GALE__IR_END);
    gale__ir_store(ir, 1, GALE_U32, 1, i, get(ir, steps, zero));
}

static bool check_collatz(const ir_job *job, const char *device)
{
    const uint32_t *y = job->buffers[1].data;
    for (size_t i = 0; i < N; i++)
        if (y[i] != collatz(u32_in[i])) return say(device, i, y[i], collatz(u32_in[i]));
    return true;
}

TEST(control_flow)
{
    gale__ir ir;
    fill_inputs();
    start(&ir, "collatz_steps", 64, 1, 2, 1, 1);
    build_collatz(&ir);
    ir_run(&(ir_job){.ir = &ir,
        .buffers = {BUFFER(u32_in), BUFFER(u32_out)},
        .words = {200},
        .groups = {N / 64, 1, 1},
        .check = check_collatz});
}

/* y[g] = sum of x[64 g .. 64 g + 63], in a tree through work-group memory; a private array of 4 is read in an
 * unrolled loop and summed in one that stays a loop. */
static void build_reduction(gale__ir *ir)
{
    gale__ir_val t = builtin(ir, GALE__IR_LOCAL_ID, 0), g = builtin(ir, GALE__IR_GROUP_ID, 0),
                 zero = gale__ir_u32(ir, 0);
    gale__ir_val tile = array(ir, GALE__IR_SHARED, GALE_F32, 16), mine = array(ir, GALE__IR_ARRAY, GALE_F32, 4),
                 sum = array(ir, GALE__IR_ARRAY, GALE_F32, 1);
    gale__ir_val base = add(ir, mul(ir, g, gale__ir_u32(ir, 64)), mul(ir, t, gale__ir_u32(ir, 4)));
    gale__ir_val k = loop(ir, zero, gale__ir_u32(ir, 4), 1, 1);
    set(ir, mine, k, gale__ir_load(ir, 0, GALE_F32, 1, add(ir, base, k)));
    mark(ir, GALE__IR_END);
    set(ir, sum, zero, gale__ir_f32(ir, 0));
    k = loop(ir, zero, gale__ir_u32(ir, 4), 1, 2);
    set(ir, sum, zero, add(ir, get(ir, sum, zero), get(ir, mine, k)));
    mark(ir, GALE__IR_END);
    set(ir, tile, t, get(ir, sum, zero));
    mark(ir, GALE__IR_BARRIER);
    gale__ir_val level = loop(ir, zero, gale__ir_u32(ir, 4), 1, 0);
    gale__ir_val half = gale__ir_op2(ir, GALE__IR_SHR, GALE_U32, gale__ir_u32(ir, 8), level);
    gale__ir_op1(ir, GALE__IR_IF, GALE_BOOL, less(ir, t, half));
    set(ir, tile, t, add(ir, get(ir, tile, t), get(ir, tile, add(ir, t, half))));
    mark(ir, GALE__IR_END);
    mark(ir, GALE__IR_BARRIER);
    mark(ir, GALE__IR_END);
    gale__ir_op1(ir, GALE__IR_IF, GALE_BOOL, gale__ir_op2(ir, GALE__EQ, GALE_BOOL, t, zero));
    gale__ir_store(ir, 1, GALE_F32, 1, g, get(ir, tile, zero));
    mark(ir, GALE__IR_END);
}

static bool check_reduction(const ir_job *job, const char *device)
{
    const float *y = job->buffers[1].data;
    for (size_t g = 0; g < N / 64; g++) {
        float sum = 0;
        for (size_t i = 0; i < 64; i++) sum += f32_in[64 * g + i];
        if (y[g] != sum) return say(device, g, y[g], sum);
    }
    return true;
}

TEST(reduction)
{
    gale__ir ir;
    fill_inputs();
    start(&ir, "group_sum", 16, 1, 2, 0, 1);
    build_reduction(&ir);
    ir_run(&(ir_job){
        .ir = &ir, .buffers = {BUFFER(f32_in), BUFFER(f32_out)}, .groups = {N / 64, 1, 1}, .check = check_reduction});
}

/* y = transpose of x, 32 x 32, by tiles of 8 x 8 in groups of two dimensions. */
static void build_transpose(gale__ir *ir)
{
    gale__ir_val tx = builtin(ir, GALE__IR_LOCAL_ID, 0), ty = builtin(ir, GALE__IR_LOCAL_ID, 1),
                 eight = gale__ir_u32(ir, 8);
    gale__ir_val gx = mul(ir, builtin(ir, GALE__IR_GROUP_ID, 0), eight),
                 gy = mul(ir, builtin(ir, GALE__IR_GROUP_ID, 1), eight);
    gale__ir_val width = mul(ir, builtin(ir, GALE__IR_GROUP_COUNT, 0), eight);
    gale__ir_val tile = array(ir, GALE__IR_SHARED, GALE_U32, 8 * 9), pitch = gale__ir_u32(ir, 9);
    gale__ir_val from = add(ir, mul(ir, add(ir, gy, ty), width), add(ir, gx, tx));
    set(ir, tile, add(ir, mul(ir, ty, pitch), tx), gale__ir_load(ir, 0, GALE_U32, 1, from));
    mark(ir, GALE__IR_BARRIER);
    gale__ir_val to = add(ir, mul(ir, add(ir, gx, ty), width), add(ir, gy, tx));
    gale__ir_store(ir, 1, GALE_U32, 1, to, get(ir, tile, add(ir, mul(ir, tx, pitch), ty)));
}

static bool check_transpose(const ir_job *job, const char *device)
{
    const uint32_t *y = job->buffers[1].data;
    for (size_t i = 0; i < N; i++)
        if (y[i] != u32_in[i % 32 * 32 + i / 32]) return say(device, i, y[i], u32_in[i % 32 * 32 + i / 32]);
    return true;
}

TEST(transpose)
{
    gale__ir ir;
    fill_inputs();
    start(&ir, "transpose", 8, 8, 2, 0, 1);
    build_transpose(&ir);
    ir_run(&(ir_job){
        .ir = &ir, .buffers = {BUFFER(u32_in), BUFFER(u32_out)}, .groups = {4, 4, 1}, .check = check_transpose});
}

/* Doubles elements of every memory type by vectors of 1, 2 and 4, from a buffer into its own row of the result. */
static const gale_type memory_types[] = {
    GALE_I8, GALE_U8, GALE_I16, GALE_U16, GALE_I32, GALE_U32, GALE_I64, GALE_U64, GALE_F32, GALE_F64};
#define ROWS 10
#define ROW_BYTES 2048

static void build_vectors(gale__ir *ir)
{
    gale__ir_val i = index_1d(ir);
    for (int r = 0; r < ROWS; r++) {
        gale_type t = memory_types[r];
        uint32_t per_row = ROW_BYTES / (uint32_t)gale_type_size(t);
        for (int width = 1; width <= 4; width *= 2) {
            /* Threads 0..15 take elements width * (16 + i) of the row: places apart for each width. */
            gale__ir_val v[4], at = mul(ir, add(ir, i, gale__ir_u32(ir, 16)), gale__ir_u32(ir, (uint32_t)width));
            gale__ir_val place = add(ir, at, gale__ir_u32(ir, (uint32_t)r * per_row));
            gale__ir_load_as(ir, 0, t, width, place, v);
            for (int k = 0; k < width; k++) v[k] = add(ir, v[k], v[k]);
            gale__ir_store_as(ir, 1, t, width, place, v);
        }
    }
}

static bool check_vectors(const ir_job *job, const char *device)
{
    bool ok = true;
    for (int r = 0; r < ROWS; r++) {
        gale_type t = memory_types[r];
        size_t size = gale_type_size(t);
        const char *in = (const char *)job->buffers[0].data + (size_t)r * ROW_BYTES,
                   *out = (const char *)job->buffers[1].data + (size_t)r * ROW_BYTES;
        for (size_t i = 16; i < 128; i++) {
            char want[8];
            if (gale__type_is_float(t)) gale__store_f64(t, want, 2 * gale__load_f64(t, in + i * size));
            else gale__store_i64(t, want, (int64_t)(2 * (uint64_t)gale__load_i64(t, in + i * size)));
            if (!memcmp(want, out + i * size, size)) continue;
            printf("  %s: %s element %zu\n", device, gale_type_name(t), i);
            ok = false;
        }
    }
    return ok;
}

TEST(vectors)
{
    static unsigned char in[ROWS * ROW_BYTES], out[ROWS * ROW_BYTES];
    gale__ir ir;
    for (size_t i = 0; i < sizeof in; i++) in[i] = (unsigned char)(i * 151 + i / 256);
    for (size_t i = 0; i < ROW_BYTES / 4; i++) {
        float f = (float)i - 100.5f;
        memcpy(in + 8 * ROW_BYTES + 4 * i, &f, 4);
    }
    for (size_t i = 0; i < ROW_BYTES / 8; i++) {
        double f = (double)i - 100.25;
        memcpy(in + 9 * ROW_BYTES + 8 * i, &f, 8);
    }
    start(&ir, "vectors", 16, 1, 2, 0, 1);
    build_vectors(&ir);
    ir_run(&(ir_job){.ir = &ir, .buffers = {BUFFER(in), BUFFER(out)}, .groups = {1, 1, 1}, .check = check_vectors});
}

/* Without 8- and 16-bit loads: bytes and halves come out of words.  y[i] = sum of i8, u8, i16, u16 elements, by
 * vectors. */
static void build_by_words(gale__ir *ir)
{
    gale__ir_val i = index_1d(ir), sum = gale__ir_i32(ir, 0);
    for (int r = 0; r < 4; r++)
        for (int width = 1; width <= 4; width *= 2) {
            gale__ir_val v[4], at = mul(ir, i, gale__ir_u32(ir, (uint32_t)width));
            gale__ir_load_as(ir, 0, memory_types[r], width, at, v);
            for (int k = 0; k < width; k++) sum = add(ir, sum, gale__ir_scalar(ir, GALE__CAST, GALE_I32, v[k], 0, 0));
        }
    gale__ir_store(ir, 1, GALE_I32, 1, i, sum);
}

static bool check_by_words(const ir_job *job, const char *device)
{
    const int32_t *y = job->buffers[1].data;
    const char *in = job->buffers[0].data;
    for (size_t i = 0; i < 64; i++) {
        int64_t sum = 0;
        for (int r = 0; r < 4; r++)
            for (size_t width = 1; width <= 4; width *= 2)
                for (size_t k = 0; k < width; k++)
                    sum += gale__load_i64(memory_types[r], in + (i * width + k) * gale_type_size(memory_types[r]));
        if (y[i] != sum) return say(device, i, y[i], (double)sum);
    }
    return true;
}

TEST(loads_by_words)
{
    static unsigned char in[1024];
    static int32_t out[64];
    gale__ir ir;
    for (size_t i = 0; i < sizeof in; i++) in[i] = (unsigned char)(i * 167 + i / 64);
    start(&ir, "by_words", 16, 1, 2, 0, 1);
    build_by_words(&ir);
    ir_run(&(ir_job){
        .ir = &ir, .buffers = {BUFFER(in), BUFFER(out)}, .groups = {4, 1, 1}, .check = check_by_words, .narrow = true});
}

/* Words of every type, more of them than push constants hold, and a 64-bit index. */
#define PARAMETER_WORDS 64
static void build_parameters(gale__ir *ir)
{
    gale__ir_val i = gale__ir_op1(ir, GALE__IR_CONVERT, GALE_U64, index_1d(ir)), v[6];
    v[0] = gale__ir_op1(ir, GALE__IR_CONVERT, GALE_F64, word(ir, GALE_U32, 0));
    v[1] = gale__ir_op1(ir, GALE__IR_CONVERT, GALE_F64, word(ir, GALE_I32, 1));
    v[2] = gale__ir_op1(ir, GALE__IR_CONVERT, GALE_F64, word(ir, GALE_F32, 2));
    v[3] = gale__ir_op1(ir, GALE__IR_CONVERT, GALE_F64, word(ir, GALE_I64, 4));
    v[4] = gale__ir_op1(ir, GALE__IR_CONVERT, GALE_F64, word(ir, GALE_U64, 6));
    v[5] = word(ir, GALE_F64, PARAMETER_WORDS - 2);
    for (int k = 0; k < 6; k++) {
        gale__ir_val at =
            add(ir, mul(ir, i, gale__ir_const(ir, GALE_U64, 6)), gale__ir_const(ir, GALE_U64, (uint64_t)k));
        gale__ir_store(ir, 0, GALE_F64, 1, at, v[k]);
    }
}

static bool check_parameters(const ir_job *job, const char *device)
{
    static const double want[6] = {4000000000.0, -5, 1.5, -5000000000.0, 1e19, 0.1};
    const double *y = job->buffers[0].data;
    for (size_t i = 0; i < 16 * 6; i++)
        if (y[i] != want[i % 6]) return say(device, i, y[i], want[i % 6]);
    return true;
}

TEST(parameters)
{
    static double out[16 * 6];
    gale__ir ir;
    ir_job job = {
        .ir = &ir, .buffers = {BUFFER(out)}, .words = {4000000000u}, .groups = {2, 1, 1}, .check = check_parameters};
    const int64_t low = -5000000000;
    const uint64_t high = 10000000000000000000u;
    const double tenth = 0.1;
    const float f = 1.5f;
    job.words[1] = (uint32_t)-5;
    memcpy(&job.words[2], &f, 4);
    memcpy(&job.words[4], &low, 8);
    memcpy(&job.words[6], &high, 8);
    memcpy(&job.words[PARAMETER_WORDS - 2], &tenth, 8);
    start(&ir, "parameters", 8, 1, 1, PARAMETER_WORDS, 0);
    build_parameters(&ir);
    ir_run(&job);
}

/* y[i] = x[i ^ 1] + lane & 0, through the subgroup. */
static bool check_shuffle(const ir_job *job, const char *device)
{
    const float *y = job->buffers[1].data;
    for (size_t i = 0; i < N; i++)
        if (y[i] != f32_in[i ^ 1]) return say(device, i, y[i], f32_in[i ^ 1]);
    return true;
}

TEST(shuffle)
{
    gale__ir ir;
    fill_inputs();
    start(&ir, "shuffle", 64, 1, 2, 0, 1);
    gale__ir_val i = index_1d(&ir), lane = gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_LANE, .type = GALE_U32});
    gale__ir_val even = gale__ir_op2(&ir, GALE__IR_SHR, GALE_U32, lane, gale__ir_u32(&ir, 31));
    gale__ir_val v = gale__ir_add(
        &ir, (gale__ir_instr){
                 .op = GALE__IR_SHUFFLE_XOR, .type = GALE_F32, .a = gale__ir_load(&ir, 0, GALE_F32, 1, i), .imm = 1});
    gale__ir_store(&ir, 1, GALE_F32, 1, add(&ir, i, even), v);
    ir_run(&(ir_job){
        .ir = &ir, .buffers = {BUFFER(f32_in), BUFFER(f32_out)}, .groups = {N / 64, 1, 1}, .check = check_shuffle});
}

/* Random numbers by counter, high products and bit patterns, against the same in C. */
static uint32_t philox(uint64_t counter, uint64_t seed)
{
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0},
             k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int i = 0; i < 10; i++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t n[4] = {
            (uint32_t)(p1 >> 32) ^ c[1] ^ k[0], (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k[1], (uint32_t)p0};
        memcpy(c, n, sizeof c);
        k[0] += 0x9E3779B9u, k[1] += 0xBB67AE85u;
    }
    return c[0];
}

static uint32_t want_bits(size_t i, int row)
{
    uint64_t counter = i + ((uint64_t)u32_in[i] << 32);
    uint32_t bits;
    float f = f32_in[i];
    memcpy(&bits, &f, 4);
    return row == 0   ? philox(counter, 0x123456789abcdef0u)
           : row == 1 ? (uint32_t)((uint64_t)u32_in[i] * (bits | 1) >> 32)
                      : bits ^ 0x80000000u;
}

static bool check_bits(const ir_job *job, const char *device)
{
    const uint32_t *y = job->buffers[2].data;
    for (size_t i = 0; i < N; i++)
        for (int row = 0; row < 3; row++)
            if (y[N * (size_t)row + i] != want_bits(i, row))
                return say(device, N * (size_t)row + i, y[N * (size_t)row + i], want_bits(i, row));
    return true;
}

TEST(bits)
{
    static uint32_t out[3 * N];
    gale__ir ir;
    fill_inputs();
    start(&ir, "bits", 64, 1, 3, 0, 3);
    gale__ir_val i = index_1d(&ir), x = gale__ir_load(&ir, 0, GALE_U32, 1, i),
                 f = gale__ir_load(&ir, 1, GALE_F32, 1, i);
    gale__ir_val high = gale__ir_op2(&ir, GALE__IR_SHL, GALE_U64, gale__ir_op1(&ir, GALE__IR_CONVERT, GALE_U64, x),
        gale__ir_const(&ir, GALE_U64, 32));
    gale__ir_val counter = add(&ir, gale__ir_op1(&ir, GALE__IR_CONVERT, GALE_U64, i), high);
    gale__ir_val rows[3], bits = gale__ir_op1(&ir, GALE__BITCAST, GALE_U32, f);
    rows[0] =
        gale__ir_scalar(&ir, GALE__RANDOM, GALE_U32, counter, gale__ir_const(&ir, GALE_U64, 0x123456789abcdef0u), 0);
    rows[1] = gale__ir_op2(
        &ir, GALE__IR_MULHI, GALE_U32, x, gale__ir_op2(&ir, GALE__OR, GALE_U32, bits, gale__ir_u32(&ir, 1)));
    rows[2] = gale__ir_op1(&ir, GALE__BITCAST, GALE_U32, gale__ir_op1(&ir, GALE__NEG, GALE_F32, f));
    for (uint32_t r = 0; r < 3; r++)
        gale__ir_store(&ir, 2, GALE_U32, 1, add(&ir, i, gale__ir_u32(&ir, r * N)), rows[r]);
    ir_run(&(ir_job){.ir = &ir,
        .buffers = {BUFFER(u32_in), BUFFER(f32_in), BUFFER(out)},
        .groups = {N / 64, 1, 1},
        .check = check_bits});
}

/* Same kernel, same text; several kernels in one. */
TEST(printing)
{
    gale__ir a, b;
    gale__str one = {0}, two = {0}, both = {0};
    start(&a, "first", 64, 1, 2, 1, 1);
    build_collatz(&a);
    start(&b, "second", 16, 1, 2, 0, 1);
    build_reduction(&b);
    const gale__ir *list[] = {&a, &b};
    for (int d = GALE__DIALECT_CUDA; d <= GALE__DIALECT_OPENCL; d++) {
        one.length = two.length = both.length = 0;
        CHECK_OK(gale__ir_print_c(list, 1, (gale__dialect)d, &ir_full_caps, &one));
        CHECK_OK(gale__ir_print_c(list, 1, (gale__dialect)d, &ir_full_caps, &two));
        CHECK_OK(gale__ir_print_c(list, 2, (gale__dialect)d, &ir_full_caps, &both));
        CHECK_TEXT(one.text, two.text);
        CHECK(strstr(both.text, "first(") && strstr(both.text, "second("));
        CHECK(strstr(one.text, "#include") == NULL);
    }
    gale__str_finish(&one), gale__str_finish(&two), gale__str_finish(&both);
    gale__ir_finish(&a), gale__ir_finish(&b);
}

/* On CUDA a kernel may begin before its inputs are complete: the cache of constants serves settled pointers alone. */
TEST(constant_cache)
{
    for (int settled = 0; settled < 2; settled++) {
        gale__ir ir;
        gale__str text = {0};
        const gale__ir *list = &ir;
        start(&ir, "copy", 64, 1, 2, 0, 1);
        ir.settled = (uint8_t)settled;
        gale__ir_val i = index_1d(&ir);
        gale__ir_store(&ir, 1, GALE_U32, 1, i, gale__ir_load(&ir, 0, GALE_U32, 1, i));
        if (CHECK_OK(gale__ir_print_c(&list, 1, GALE__DIALECT_CUDA, &ir_full_caps, &text))) {
            const char *use = strstr(text.text, "__ldg"), *kernel = strstr(text.text, "copy(");
            CHECK(
                use && !strncmp(use - strlen("#define LS(V,T,i,x) "), "#define LS(", 11) && !strstr(use + 1, "__ldg"));
            if (CHECK(kernel != NULL)) CHECK_EQ(strstr(kernel, "LS(") != NULL, settled);
        }
        gale__str_finish(&text);
        gale__ir_finish(&ir);
    }
}

static gale_status build_and_print(void)
{
    gale__ir ir;
    gale__str text = {0};
    gale__ir_words words = {0};
    const gale__ir *list = &ir;
    start(&ir, "faults", 16, 1, 2, 0, 1);
    build_reduction(&ir);
    gale_status status = gale__ir_validate(&ir);
    if (status == GALE_OK) status = gale__ir_print_c(&list, 1, GALE__DIALECT_OPENCL, &ir_full_caps, &text);
    if (status == GALE_OK) status = gale__ir_print_spirv(&ir, &ir_full_caps, &words);
    gale__ir_words_finish(&words);
    gale__str_finish(&text);
    gale__ir_finish(&ir);
    return status == GALE_UNSUPPORTED ? GALE_OK : status; /* built without SPIR-V */
}

TEST(faults)
{
    int64_t live = gale__alloc_live();
    int n = 1;
    for (gale_status status = GALE_NO_MEMORY; status != GALE_OK && n < 2000; n++) {
        gale__alloc_fail_at((uint64_t)n);
        status = build_and_print();
        gale__alloc_fail_at(0);
        CHECK(status == GALE_OK || status == GALE_NO_MEMORY);
        CHECK_EQ(gale__alloc_live(), live);
    }
    CHECK(n > 10 && n < 2000);
}

TEST(close) { ir_close_devices(); }

TESTS(ROW(folding), ROW(validation), ROW(unsupported), ROW(printing), ROW(constant_cache), ROW(faults),
    ROW(control_flow), ROW(reduction), ROW(transpose), ROW(vectors), ROW(loads_by_words), ROW(parameters), ROW(shuffle),
    ROW(bits), ROW(sending), ROW(close))
