/* The device's own mathematics (gale_program_options.fast), and its own instructions for corners: what kernels are made
 * of, and that results stay near the reference on every device of this machine. */
#include "graph_run.h"
#include "ir_run.h"
#include "kernel/ir/ir_util.h"
#include "kernel/print/print.h"

static gale__node number(gale__prim_graph *g, double v) { return gale__prim_scalar(g, GALE_F32, v); }

/* A tone curve, gamma 2.2 as exp(log) and 8 bit; *level: before the last step. */
static gale__node tone_map(gale__prim_graph *g, gale__node x, gale__node *level)
{
    gale__node a = gale__prim_mul(g, x, gale__prim_add(g, gale__prim_mul(g, x, number(g, 2.51)), number(g, 0.03)));
    gale__node b = gale__prim_add(g,
        gale__prim_mul(g, x, gale__prim_add(g, gale__prim_mul(g, x, number(g, 2.43)), number(g, 0.59))),
        number(g, 0.14));
    gale__node y = gale__prim_binary(
        g, GALE__MIN, gale__prim_binary(g, GALE__MAX, gale__prim_div(g, a, b), number(g, 0)), number(g, 1));
    y = gale__prim_unary(g, GALE__EXP, gale__prim_mul(g, gale__prim_unary(g, GALE__LOG, y), number(g, 1 / 2.2)));
    *level = gale__prim_mul(g, y, number(g, 255));
    return gale__prim_cast(g, gale__prim_add(g, *level, number(g, 0.5)), GALE_U8);
}

static gale__node softmax(gale__prim_graph *g, gale__node x)
{
    gale__node e = gale__prim_unary(g, GALE__EXP, gale__prim_sub(g, x, gale__prim_reduce(g, GALE__RMAX, x, 2, true)));
    return gale__prim_div(g, e, gale__prim_reduce(g, GALE__SUM, e, 2, true));
}

/* sin, cos, square roots and powers of numbers of both signs. */
static gale__node mixture(gale__prim_graph *g, gale__node x)
{
    gale__node wave = gale__prim_add(g, gale__prim_unary(g, GALE__SIN, x), gale__prim_unary(g, GALE__COS, x));
    gale__node root = gale__prim_div(
        g, x, gale__prim_unary(g, GALE__SQRT, gale__prim_add(g, gale__prim_mul(g, x, x), number(g, 1e-3))));
    gale__node cube = gale__prim_binary(g, GALE__POW, x, number(g, 3)),
               square = gale__prim_binary(g, GALE__POW, x, number(g, 2));
    gale__node one = gale__prim_binary(g, GALE__POW, x, gale__prim_mul(g, x, number(g, 0)));
    return gale__prim_add(g, gale__prim_add(g, wave, root), gale__prim_add(g, gale__prim_sub(g, cube, square), one));
}

static void run_graphs(gale_device *device, const char *provider)
{
    const gale__fusion_options fast = {.fast = true};
    gr_graph t;
    gr_result r;
    gale__node out[3], eight;
    gr_begin(&t);
    gale__node x = GR_INPUT(&t, 40, 96);
    eight = tone_map(&t.g, x, &out[0]);
    out[1] = softmax(&t.g, x);
    out[2] = mixture(&t.g, x);
    if (gr_run(&t, device, out, 3, &fast, &r) && !CHECK(r.difference <= 1e-3))
        printf("  on %s: %g\n", provider, r.difference);
    gr_end(&t);
    gr_begin(&t);
    eight = tone_map(&t.g, GR_INPUT(&t, 40, 96), &out[0]);
    if (gr_run(&t, device, &eight, 1, &fast, &r) && !CHECK(r.levels <= 1))
        printf("  on %s: %g levels\n", provider, r.levels);
    gr_end(&t);
}

TEST(fast_results_are_near_the_reference)
{
    int ran = 0;
    for (int i = 0; i < IR_TARGETS; i++) {
        gale_device *device = ir_device(i);
        if (!device) continue;
        run_graphs(device, ir_targets[i].provider);
        ran++;
    }
    if (!ran) SKIP("no device that kernels are generated for");
}

TEST(fast_kernels_use_the_devices_own)
{
    static const struct {
        gale__scalar op;
        int own;
    } rows[] = {
        {GALE__EXP, GALE__IR_FAST_EXP},
        {GALE__LOG, GALE__IR_FAST_LOG},
        {GALE__SIN, GALE__IR_FAST_SIN},
        {GALE__COS, GALE__IR_FAST_COS},
        {GALE__SQRT, GALE__IR_FAST_SQRT},
        {GALE__DIV, GALE__IR_FAST_DIV},
    };
    gale__ir ir;
    gale__ir_init(&ir, "own");
    ir.math = GALE__IR_FAST;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int wide = 0; wide < 2; wide++) {
            gale_type type = wide ? GALE_F64 : GALE_F32;
            gale__ir_val x =
                gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_WORD, .type = (uint8_t)type, .imm = 2 * i});
            gale__ir_val y = gale__ir_scalar(&ir, rows[i].op, type, x, x, 0);
            if (CHECK(y != 0)) CHECK((ir.code[y].op == rows[i].own) == !wide); /* f64 stays ours */
        }
    gale__ir_finish(&ir);
}

/* Division that is accurate only for divisors up to 2^126 divides scaled numbers. */
TEST(fast_division_scales_large_divisors)
{
    for (int corners = 0; corners < 2; corners++) {
        gale__ir ir;
        gale__ir_init(&ir, "divide");
        ir.math = corners ? GALE__IR_FAST | GALE__IR_CORNERS : GALE__IR_FAST;
        gale__ir_val x[2];
        for (uint64_t i = 0; i < 2; i++)
            x[i] = gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_WORD, .type = GALE_F32, .imm = i});
        gale__ir_val y = gale__ir_scalar(&ir, GALE__DIV, GALE_F32, x[0], x[1], 0);
        if (CHECK(y != 0) && CHECK_EQ(ir.code[y].op, GALE__IR_FAST_DIV)) {
            CHECK_EQ(ir.code[ir.code[y].a].op == GALE__MUL, !corners);
            CHECK_EQ(ir.code[ir.code[y].b].op == GALE__MUL, !corners);
        }
        gale__ir_finish(&ir);
    }
}

/* Marked operations of the only kernel of a graph. */
static int marks(gale__prim_graph *g, gale__node out, gale__scalar op, int *seen)
{
    const gale__fusion_options options = {0};
    gale__fusion f;
    int n = 0;
    *seen = 0;
    if (!CHECK_OK(gale__fuse(g, &out, 1, &options, &f))) return -1;
    for (int k = 0; k < f.n_kernels; k++)
        for (int i = 0; f.kernels[k].kind == GALE__FUSED_NEST && i < f.kernels[k].nest.n_code; i++)
            if (f.kernels[k].nest.code[i].op == op) ++*seen, n += f.kernels[k].nest.code[i].acc != 0;
    gale__fusion_finish(&f);
    return n;
}

TEST(what_becomes_eight_bits_may_be_loose)
{
    static const gale__scalar ops[] = {GALE__EXP, GALE__LOG, GALE__DIV};
    for (int kind = 0; kind < 4; kind++)
        for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
            gale__prim_graph g;
            gale__node level;
            int seen;
            gale__prim_init(&g);
            gale__node x = gale__prim_input(&g, 0, GALE_F32, 1, (int64_t[]){64}), y = tone_map(&g, x, &level);
            if (kind == 1) y = level; /* a float that is kept */
            if (kind == 2)
                y = gale__prim_cast(
                    &g, gale__prim_mul(&g, level, number(&g, 1e6)), GALE_U8); /* errors grow past a level */
            if (kind == 3) y = gale__prim_cast(&g, level, GALE_I32);          /* an integer that can tell */
            int n = marks(&g, y, ops[i], &seen);
            CHECK(seen == 1);
            CHECK_EQ(n, kind == 0);
            gale__prim_finish(&g);
        }
}

/* The instruction that an operation becomes. */
static int op_made(gale__ir *ir, gale__scalar op, gale__ir_val a, gale__ir_val b)
{
    gale__ir_val v = gale__ir_scalar(ir, op, GALE_F32, a, b, 0);
    return ir->code[v].op;
}

/* Operands of ordinary size need no care, and products go with sums. */
TEST(ordinary_operands_take_the_shortest_way)
{
    gale__ir ir;
    gale__ir_init(&ir, "short");
    ir.math = GALE__IR_FAST | GALE__IR_NORMAL | GALE__IR_CONTRACT;
    gale__ir_val x = gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_WORD, .type = GALE_F32, .imm = 0});
    gale__ir_val y = gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_WORD, .type = GALE_F32, .imm = 1});
    gale__ir_val power = gale__ir_scalar(&ir, GALE__POW, GALE_F32, x, y, 0);
    gale__ir_val product = gale__ir_scalar(&ir, GALE__MUL, GALE_F32, x, y, 0);
    CHECK(op_made(&ir, GALE__DIV, x, y) == GALE__IR_FAST_QUOTIENT);
    CHECK(ir.code[power].op == GALE__IR_FAST_EXP2);
    CHECK(op_made(&ir, GALE__ADD, product, x) == GALE__FMA);
    CHECK(op_made(&ir, GALE__ADD, x, product) == GALE__FMA);
    CHECK(op_made(&ir, GALE__ADD, x, y) == GALE__ADD);
    ir.math = GALE__IR_FAST;
    CHECK(op_made(&ir, GALE__ADD, x, product) == GALE__ADD);
    gale__ir_finish(&ir);
}

/* The mark of the only division or logarithm of a fast kernel over |x| limited to [low, high]. */
static int mark_between(gale__scalar op, double low, double high)
{
    const gale__fusion_options options = {.fast = true};
    gale__prim_graph g;
    gale__fusion f;
    int mark = -1;
    gale__prim_init(&g);
    gale__node x = gale__prim_input(&g, 0, GALE_F32, 1, (int64_t[]){64});
    x = gale__prim_binary(&g, GALE__MIN, gale__prim_binary(&g, GALE__MAX, x, number(&g, low)), number(&g, high));
    gale__node y = op == GALE__DIV ? gale__prim_div(&g, number(&g, 3), x) : gale__prim_unary(&g, op, x);
    if (CHECK_OK(gale__fuse(&g, &y, 1, &options, &f))) {
        for (int i = 0; i < f.kernels[0].nest.n_code; i++)
            if (f.kernels[0].nest.code[i].op == op) mark = f.kernels[0].nest.code[i].acc;
        gale__fusion_finish(&f);
    }
    gale__prim_finish(&g);
    return mark;
}

TEST(ordinary_sizes_are_known_from_limits)
{
    CHECK_EQ(mark_between(GALE__DIV, 0.14, 2.5e30), 2);
    CHECK_EQ(mark_between(GALE__DIV, 0, 1), 1);
    CHECK_EQ(mark_between(GALE__DIV, -1, 1), 1);
    CHECK_EQ(mark_between(GALE__DIV, -4, -2), 2);
    CHECK_EQ(mark_between(GALE__LOG, 0.003, 1), 2);
    CHECK_EQ(mark_between(GALE__LOG, 1e-40, 1), 1);
    CHECK_EQ(mark_between(GALE__LOG, -4, -2), 1);
    CHECK_EQ(mark_between(GALE__DIV, 1, 1e38), 1);
}

/* Columns of the corner kernel: min and max with 1, the positive part up to 1, and the casts. */
enum { MIN_MAX = 3, CASTS = 6, ITEMS = 16 };
static const gale_type cast_types[CASTS] = {GALE_I8, GALE_U8, GALE_I16, GALE_U16, GALE_I32, GALE_U32};
static const float corner_inputs[ITEMS] = {
    0, -0.5f, 1.9f, -1.9f, 127.5f, 128, -129, 255.9f, 256, 70000, -70000, 3e9f, -3e9f, INFINITY, -INFINITY, NAN};

static bool check_corners(const ir_job *job, const char *device)
{
    const int32_t *have = job->buffers[1].data;
    for (int i = 0; i < ITEMS; i++) {
        float x = corner_inputs[i], pair[MIN_MAX];
        memcpy(pair, have + i * (MIN_MAX + CASTS), sizeof pair);
        bool ok = isnan(x) ? isnan(pair[0]) && isnan(pair[1]) : pair[0] == fminf(x, 1) && pair[1] == fmaxf(x, 1);
        ok = ok && pair[2] == (x > 0 ? fminf(x, 1) : 0);
        for (int k = 0; k < CASTS; k++) {
            double low = gale__type_min(cast_types[k]), high = gale__type_max(cast_types[k]),
                   want = isnan(x) ? 0 : trunc((double)x);
            want = want < low ? low : want > high ? high : want;
            int32_t bits = have[i * (MIN_MAX + CASTS) + MIN_MAX + k];
            ok = ok && (cast_types[k] == GALE_U32 ? (double)(uint32_t)bits : (double)bits) == want;
        }
        if (!ok) return printf("FAIL corners of %g on %s\n", (double)x, device), false;
    }
    return true;
}

TEST(corners_in_single_instructions)
{
    gale__ir ir;
    gale__str text = {0};
    int32_t out[ITEMS * (MIN_MAX + CASTS)] = {0};
    gale__ir_init(&ir, "corners");
    ir.math = GALE__IR_CORNERS;
    ir.n_pointers = 2;
    ir.readonly = 1;
    ir.group[0] = ITEMS;
    gale__ir_val at = gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_LOCAL_ID, .type = GALE_U32}),
                 x = gale__ir_load(&ir, 0, GALE_F32, 1, at);
    gale__ir_val first = gale__ir_op2(&ir, GALE__MUL, GALE_U32, at, gale__ir_u32(&ir, MIN_MAX + CASTS)),
                 one = gale__ir_f32(&ir, 1), zero = gale__ir_f32(&ir, 0);
    gale__ir_val above = gale__ir_op2(&ir, GALE__GT, GALE_BOOL, x, zero),
                 part = gale__ir_op3(&ir, GALE__SELECT, GALE_F32, above, x, zero);
    for (uint32_t k = 0; k < MIN_MAX + CASTS; k++) {
        gale__ir_val v = k < MIN_MAX
                             ? gale__ir_scalar(&ir, k == 1 ? GALE__MAX : GALE__MIN, GALE_F32, k == 2 ? part : x, one, 0)
                             : gale__ir_float_to_int(&ir, cast_types[k - MIN_MAX], x);
        CHECK_EQ(ir.code[v].op, k == 0 || k == 2 ? GALE__IR_MIN_NAN : k == 1 ? GALE__IR_MAX_NAN : GALE__IR_SATURATE);
        if (gale__ir_type(&ir, v) != GALE_I32) v = gale__ir_op1(&ir, GALE__BITCAST, GALE_I32, v);
        gale__ir_store(&ir, 1, GALE_I32, 1, gale__ir_op2(&ir, GALE__ADD, GALE_U32, first, gale__ir_u32(&ir, k)), v);
    }
    const gale__ir *list = &ir;
    gale_device_caps caps = ir_full_caps;
    CHECK_OK(gale__ir_validate(&ir));
    CHECK_FAILS(gale__ir_print_c(&list, 1, GALE__DIALECT_CUDA, &caps, &text), UNSUPPORTED);
    caps.corners = true;
    text.length = 0;
    if (CHECK_OK(gale__ir_print_c(&list, 1, GALE__DIALECT_CUDA, &caps, &text)) &&
        CHECK(strstr(text.text, "__saturatef(")))
        ir_nvrtc(text.text, ir.name);
    ir_job job = {.ir = &ir,
        .groups = {1, 1, 1},
        .check = check_corners,
        .buffers = {{(void *)corner_inputs, sizeof corner_inputs}, {out, sizeof out}}};
    for (int i = 0; i < IR_TARGETS; i++) ir_run_on(&job, i);
    gale__str_finish(&text);
    gale__ir_finish(&ir);
}

enum { LEVELS = 64 };

static float level_input(int i)
{
    return i < ITEMS ? corner_inputs[i] : i < 2 * ITEMS ? (float)(i - ITEMS) + 0.5f : (float)i * 4.75f - 40;
}

/* Limits, ties, infinities and NaN, which gives the lowest level. */
static const struct level_kind {
    gale_type type;
    float zero, low, high;
} level_kinds[] = {{GALE_U8, 0, 0, 255}, {GALE_U8, 7, 0, 255}, {GALE_I8, -5, -128, 127}};
static const struct level_kind *level_kind;

static bool check_levels(const ir_job *job, const char *device)
{
    const uint8_t *have = job->buffers[1].data;
    for (int i = 0; i < LEVELS; i++) {
        float x = level_input(i), zero = level_kind->zero,
              want = rintf(fminf(fmaxf(x, level_kind->low - zero), level_kind->high - zero)) + zero;
        float number = level_kind->type == GALE_I8 ? (float)(int8_t)have[i] : (float)have[i];
        if (number != want) return printf("FAIL level of %g on %s: %g\n", (double)x, device, (double)number), false;
    }
    return true;
}

static gale__ir_val level_of(gale__ir *ir, gale__ir_val x)
{
    const struct level_kind *k = level_kind;
    gale__ir_val v = gale__ir_op2(ir, GALE__IR_MAX, GALE_F32, x, gale__ir_f32(ir, k->low - k->zero));
    v = gale__ir_scalar(ir, GALE__MIN, GALE_F32, v, gale__ir_f32(ir, k->high - k->zero), 0);
    ir->code[v].imm = 1;
    v = gale__ir_level(ir, GALE__RINT, GALE_F32, v, 0, GALE__IR_NEAR);
    if (k->zero != 0) v = gale__ir_op2(ir, GALE__ADD, GALE_F32, v, gale__ir_f32(ir, k->zero));
    return gale__ir_level(ir, GALE__CAST, k->type, v, 0, GALE__IR_NEAR);
}

TEST(levels_become_words)
{
    gale__ir ir;
    gale__ir_val lanes[8];
    float in[LEVELS];
    for (int i = 0; i < LEVELS; i++) in[i] = level_input(i);
    for (level_kind = level_kinds; level_kind < level_kinds + 3; level_kind++) {
        uint8_t out[LEVELS] = {0};
        int joined = 0;
        gale__ir_init(&ir, "levels");
        ir.math = GALE__IR_CORNERS;
        ir.n_pointers = 2;
        ir.readonly = 1;
        ir.group[0] = LEVELS / 8;
        gale__ir_val at = gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_LOCAL_ID, .type = GALE_U32}),
                     first = gale__ir_op2(&ir, GALE__MUL, GALE_U32, at, gale__ir_u32(&ir, 8));
        gale__ir_load_as(&ir, 0, GALE_F32, 8, first, lanes);
        for (int i = 0; i < 8; i++) lanes[i] = level_of(&ir, lanes[i]);
        gale__ir_store_as(&ir, 1, level_kind->type, 8, first, lanes);
        for (gale__ir_val v = 1; v < ir.count; v++) joined += ir.code[v].op == GALE__IR_JOIN_BYTES;
        CHECK_EQ(joined, 4);
        ir_job job = {
            .ir = &ir, .groups = {1, 1, 1}, .check = check_levels, .buffers = {{in, sizeof in}, {out, sizeof out}}};
        for (int i = 0; i < IR_TARGETS; i++) ir_run_on(&job, i);
        gale__ir_finish(&ir);
    }
}

/* A GELU whose result is stored in `type`, as recognition writes it; `divisor` for the 2 of its root. */
static int gelu_mark(gale_type type, double divisor)
{
    const gale__fusion_options options = {0};
    gale__prim_graph g;
    gale__fusion f;
    int mark = -1;
    gale__prim_init(&g);
    gale__node x = gale__prim_input(&g, 0, GALE_F32, 1, (int64_t[]){64});
    gale__node e = gale__prim_unary(&g, GALE__ERF, gale__prim_mul(&g, x, number(&g, 1 / sqrt(divisor))));
    gale__node y = gale__prim_mul(&g, gale__prim_mul(&g, x, number(&g, 0.5)), gale__prim_add(&g, e, number(&g, 1)));
    y = gale__prim_cast(&g, y, type);
    if (CHECK_OK(gale__fuse(&g, &y, 1, &options, &f))) {
        const gale__nest *n = &f.kernels[0].nest;
        for (int i = 0; i < n->n_code; i++)
            if (n->code[i].op == GALE__MUL) mark = n->code[i].acc;
        gale__fusion_finish(&f);
    }
    gale__prim_finish(&g);
    return mark;
}

TEST(gelu_is_found_where_halves_hide_it)
{
    CHECK_EQ(gelu_mark(GALE_F16, 2), GALE__NEST_GELU);
    CHECK_EQ(gelu_mark(GALE_BF16, 2), GALE__NEST_GELU);
    CHECK_EQ(gelu_mark(GALE_F32, 2), 0);
    CHECK_EQ(gelu_mark(GALE_F16, 3), 0);
}

enum { GELU_ITEMS = 256 };

static bool check_gelu(const ir_job *job, const char *device)
{
    const float *x = job->buffers[0].data, *have = job->buffers[1].data;
    for (int i = 0; i < GELU_ITEMS; i++) {
        double v = (double)x[i], want = v == -INFINITY ? 0 : v / 2 * (1 + erf(v * sqrt(0.5)));
        bool ok = isnan(want)   ? isnan(have[i])
                  : isinf(want) ? (double)have[i] == want
                                : fabs((double)have[i] - want) <= 1e-6 * fmin(fabs(v), 16) + 1e-7 * fabs(want);
        if (!ok) return printf("FAIL gelu of %g is %g on %s\n", v, (double)have[i], device), false;
    }
    return true;
}

TEST(gelu_by_one_power_of_two)
{
    float in[GELU_ITEMS] = {NAN, INFINITY, -INFINITY, 0, 65504, -65504, 1e30f, -1e30f}, out[GELU_ITEMS] = {0};
    gale__ir ir;
    for (int i = 8; i < GELU_ITEMS; i++) in[i] = (float)(gr_unit() * 20 - 10) * (i & 1 ? 1 : 0.1f);
    gale__ir_init(&ir, "gelu");
    ir.n_pointers = 2;
    ir.readonly = 1;
    ir.group[0] = GELU_ITEMS;
    gale__ir_val at = gale__ir_add(&ir, (gale__ir_instr){.op = GALE__IR_LOCAL_ID, .type = GALE_U32});
    gale__ir_store(&ir, 1, GALE_F32, 1, at, gale__ir_fast_gelu(&ir, gale__ir_load(&ir, 0, GALE_F32, 1, at)));
    CHECK_OK(gale__ir_validate(&ir));
    ir_job job = {.ir = &ir, .groups = {1, 1, 1}, .check = check_gelu, .buffers = {{in, sizeof in}, {out, sizeof out}}};
    for (int i = 0; i < IR_TARGETS; i++) ir_run_on(&job, i);
    gale__ir_finish(&ir);
}

static const test_row rows[] = {ROW(gelu_is_found_where_halves_hide_it), ROW(gelu_by_one_power_of_two),
    ROW(what_becomes_eight_bits_may_be_loose), ROW(fast_results_are_near_the_reference),
    ROW(fast_kernels_use_the_devices_own), ROW(fast_division_scales_large_divisors),
    ROW(corners_in_single_instructions), ROW(levels_become_words), ROW(ordinary_operands_take_the_shortest_way),
    ROW(ordinary_sizes_are_known_from_limits)};
int main(int argc, char **argv)
{
    int status = test_main(rows, sizeof rows / sizeof *rows, argc, argv);
    ir_close_devices();
    return status;
}
