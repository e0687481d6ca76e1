/* Half precision as a pass: which values become narrow, that sums and integers do not, how near results are, and what
 * an H200 would run of two networks' parts. */
#include "base/num.h"
#include "device/null/null.h"
#include "device/registry.h"
#include "graph/rewrite/precision.h"
#include "graph/run/program.h"
#include "nvidia_caps.h"
#include "op_graph.h"
#include <math.h>

static gale_device *device;
static const gale_program_options f16 = {.precision = GALE_PRECISION_F16}, bf16 = {.precision = GALE_PRECISION_BF16};

static gale_value op(og *t, const char *name, gale_value x, gale_value y) { return og_op2(t, name, x, y); }

/* Weights as models have them: small, and constants. */
static gale_value weight(og *t, int rank, const int64_t *dims, float scale)
{
    int64_t n = 1;
    gale_value v = GALE_NONE;
    for (int i = 0; i < rank; i++) n *= dims[i];
    float *data = gale__alloc((size_t)n * sizeof *data);
    for (int64_t i = 0; data && i < n; i++) data[i] = og_random(t) * scale;
    if (data) v = og_constant(t, rank, dims, data);
    else og_note(t, GALE_NO_MEMORY);
    gale__free(data);
    return v;
}
#define WEIGHT(t, scale, ...) \
    weight(t, (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__}, scale)

static gale_value linear(og *t, gale_value x, int64_t from, int64_t to)
{
    gale_value y = op(t, "MatMul", x, WEIGHT(t, 1 / sqrtf((float)from), from, to));
    return op(t, "Add", y, WEIGHT(t, 0.1f, to));
}

static gale_value norm(og *t, gale_value x, int64_t n)
{
    gale_value in[3] = {x, WEIGHT(t, 0.5f, n), WEIGHT(t, 0.1f, n)};
    return og_op(t, "LayerNormalization", in, 3, NULL, 0);
}

static bool run(og *t, const gale_program_options *options, gale_tensor **y)
{
    gale_program *p = NULL;
    bool ok = CHECK_OK(gale_program_create(t->graph, device, options, &p)) &&
              CHECK_OK(gale_program_run(p, t->inputs, y, GALE_RUN_ON_HOST));
    gale_program_destroy(&p);
    return ok;
}

/* --- What becomes narrow. --- */

/* The type of the first result of the last region of that name; and whether every sum is of f32. */
static gale_type result_type(og *t, const gale_program_options *options, const char *region, bool *wide_sums)
{
    gale_program *p = NULL;
    gale__prim_graph g;
    gale__node out[8];
    gale_type type = GALE_TYPE_COUNT;
    *wide_sums = true;
    gale__prim_init(&g);
    if (CHECK_OK(t->status) && CHECK_OK(gale_program_create(t->graph, device, options, &p)) &&
        CHECK_OK(
            gale__opgraph_lower(p->graph, (const int64_t(*)[GALE_MAX_RANK])t->dims, t->rank, NULL, NULL, &g, out))) {
        for (int i = 0; i < g.n_regions; i++)
            if (!strcmp(g.regions[i].name, region)) type = (gale_type)gale__prim_at(&g, g.regions[i].out[0])->type;
        for (int i = 0; i < g.count; i++)
            if (g.nodes[i].op == GALE__PRIM_REDUCE)
                *wide_sums = *wide_sums && g.nodes[i].type != GALE_F16 && g.nodes[i].type != GALE_BF16;
        for (int i = 0; i < t->n_outputs; i++) CHECK(gale__prim_at(&g, out[i])->type != GALE_F16);
    }
    gale__prim_finish(&g);
    gale_program_destroy(&p);
    return type;
}

static void expect_type(og *t, const char *region, gale_type type)
{
    bool wide_sums;
    if (!CHECK_EQ(result_type(t, &f16, region, &wide_sums), type)) printf("  %s\n", region);
    CHECK(wide_sums);
    if (type != GALE_F32) CHECK_EQ(result_type(t, &bf16, region, &wide_sums), type == GALE_F16 ? GALE_BF16 : type);
    CHECK(result_type(t, NULL, region, &wide_sums) != GALE_F16);
}

TEST(activations_become_narrow)
{
    og t;
    og_begin(&t);
    gale_value x = OG_INPUT(&t, 4, 32), s = op(&t, "Sub", x, og_number(&t, 0.5f)); /* before the first contraction */
    gale_value y = linear(&t, s, 32, 32);
    y = norm(&t, og_op1(&t, "Relu", y), 32);
    gale_value sum = og_op1(&t, "ReduceSum", y), e = og_op1(&t, "Exp", y);
    y = og_softmax(&t, og_op1(&t, "Tanh", y), -1);
    og_output(&t, og_op1(&t, "Neg", y));
    og_output(&t, sum);
    og_output(&t, e);
    expect_type(&t, "Sub", GALE_F32);
    expect_type(&t, "MatMul", GALE_F16);
    expect_type(&t, "Add", GALE_F16);
    expect_type(&t, "Relu", GALE_F16);
    expect_type(&t, "LayerNormalization", GALE_F16);
    expect_type(&t, "Softmax", GALE_F16);
    expect_type(&t, "ReduceSum", GALE_F32);
    expect_type(&t, "Exp", GALE_F32);
    og_end(&t);
}

/* Norms of f32 are narrow where a product reads them, whoever else does. */
TEST(norms_before_products_become_narrow)
{
    og t;
    og_begin(&t);
    gale_value x = norm(&t, OG_INPUT(&t, 4, 16), 16);
    og_output(&t, op(&t, "Add", linear(&t, x, 16, 16), x));
    expect_type(&t, "LayerNormalization", GALE_F16);
    og_end(&t);
    og_begin(&t);
    x = norm(&t, OG_INPUT(&t, 4, 16), 16);
    og_output(&t, op(&t, "Add", x, OG_INPUT(&t, 16)));
    expect_type(&t, "LayerNormalization", GALE_F32);
    og_end(&t);
}

/* A sum of two values is rounded to f16, but not to bf16, where only a norm reads it. */
TEST(sums_before_norms_keep_their_digits)
{
    bool wide_sums;
    for (int others = 0; others < 2; others++) {
        og t;
        og_begin(&t);
        gale_value x = OG_INPUT(&t, 4, 16), sum = op(&t, "Sum", linear(&t, x, 16, 16), linear(&t, x, 16, 16));
        og_output(&t, linear(&t, norm(&t, sum, 16), 16, 16));
        if (others) og_output(&t, og_op1(&t, "Relu", sum));
        CHECK_EQ(result_type(&t, &f16, "Sum", &wide_sums), GALE_F16);
        CHECK_EQ(result_type(&t, &bf16, "Sum", &wide_sums), others ? GALE_BF16 : GALE_F32);
        CHECK_EQ(result_type(&t, &bf16, "LayerNormalization", &wide_sums), GALE_BF16);
        og_end(&t);
    }
}

/* Small and large numbers that halves do not hold, and biases that say that sums are large. */
TEST(constants_out_of_range_stay)
{
    const float large[4] = {1e6f, 1, 1, 1}, bias[2] = {900, 1};
    og t;
    og_begin(&t);
    gale_value x = OG_INPUT(&t, 4, 32), y = linear(&t, x, 32, 2);
    og_output(&t, op(&t, "Mul", y, og_number(&t, 1e-12f)));
    og_output(&t, op(&t, "Div", y, og_number(&t, 1e9f)));
    gale_value w = og_constant(&t, 2, (const int64_t[]){2, 2}, large);
    gale_value gemm[3] = {y, WEIGHT(&t, 1, 2, 2), og_constant(&t, 1, (const int64_t[]){2}, bias)};
    og_output(&t, og_op(&t, "Gemm", gemm, 3, NULL, 0));
    og_output(&t, og_op1(&t, "Relu", op(&t, "MatMul", y, w)));
    expect_type(&t, "Add", GALE_F16);
    expect_type(&t, "Mul", GALE_F32);
    expect_type(&t, "Div", GALE_F32);
    expect_type(&t, "Gemm", GALE_F32);
    expect_type(&t, "Relu", GALE_F32);
    og_end(&t);
}

/* A long constant is tested and converted piece by piece: a number at its end is that of a long constant. */
TEST(long_constants_are_read_to_the_end)
{
    enum { N = 3 * 16384 + 1 };
    static float data[N];
    const float last[] = {1e-7f, 1e6f};
    for (int i = 0; i < 2; i++) {
        og t;
        og_begin(&t);
        data[N - 1] = last[i];
        gale_value w = og_constant(&t, 2, (const int64_t[]){1, N}, data);
        og_output(&t, og_op1(&t, "Relu", op(&t, "MatMul", OG_INPUT(&t, 2, 1), w)));
        expect_type(&t, "Relu", i ? GALE_F32 : GALE_F16);
        og_end(&t);
    }
}

TEST(integers_are_left_alone)
{
    const uint8_t data[8] = {200, 3, 255, 90, 17, 4, 254, 128};
    og t;
    gale_value q = GALE_NONE;
    og_begin(&t);
    og_note(&t, gale_graph_constant(t.graph, GALE_U8, 2, (const int64_t[]){2, 4}, data, &q));
    gale_value x = OG_INPUT(&t, 4, 8), y = linear(&t, x, 8, 8), whole[3] = {GALE_NONE, GALE_NONE, GALE_NONE};
    og_note(&t, gale_graph_op(t.graph, "DynamicQuantizeLinear", &y, 1, NULL, 0, whole, 3));
    gale_value w = og_op1(&t, "Transpose", q),
               parts = op(&t, "MatMulInteger", og_reshape(&t, whole[0], OG_INTS(&t, 8, 4)), w);
    gale_value back = og_op(&t, "Cast", &parts, 1, (gale_attr[]){GALE_STRING_ATTR("to", "f32")}, 1);
    og_output(&t, op(&t, "Mul", back, whole[1]));
    og_output(&t, og_op(&t, "ArgMax", &y, 1, (gale_attr[]){GALE_INT("axis", 1)}, 1));
    expect_type(&t, "Add", GALE_F16);
    expect_type(&t, "DynamicQuantizeLinear", GALE_U8);
    expect_type(&t, "MatMulInteger", GALE_I32);
    expect_type(&t, "Cast", GALE_F32);
    expect_type(&t, "Mul", GALE_F16); /* scaled, it is the result of a product */
    expect_type(&t, "ArgMax", GALE_I64);
    gale_tensor *y_out[2] = {0};
    if (CHECK_OK(og_tensors(&t, NULL)) && run(&t, &f16, y_out))
        for (size_t i = 0; i < gale_tensor_size_bytes(y_out[0]) / sizeof(float); i++)
            CHECK(isfinite(((const float *)gale_tensor_data(y_out[0]))[i]));
    gale_tensor_destroy(&y_out[0]), gale_tensor_destroy(&y_out[1]);
    og_end(&t);
}

/* --- How near results are. --- */

/* One layer of MiniLM's encoder. */
static void encoder_layer(og *t, int64_t b, int64_t s, int64_t h, int64_t d)
{
    int64_t e = h * d;
    gale_value x = OG_INPUT(t, b, s, e), mask = OG_INPUT(t, b, 1, 1, s), heads = OG_INTS(t, b, s, h, d);
    gale_value q = OG_TRANSPOSE(t, og_reshape(t, linear(t, x, e, e), heads), 0, 2, 1, 3),
               k = OG_TRANSPOSE(t, og_reshape(t, linear(t, x, e, e), heads), 0, 2, 3, 1),
               v = OG_TRANSPOSE(t, og_reshape(t, linear(t, x, e, e), heads), 0, 2, 1, 3);
    gale_value scores = op(t, "Div", op(t, "MatMul", q, k), og_number(t, sqrtf((float)d)));
    gale_value apart = op(t, "Greater", mask, og_number(t, 0.5f));
    apart = og_op(t, "Cast", &apart, 1, (gale_attr[]){GALE_STRING_ATTR("to", "f32")}, 1);
    scores = op(t, "Add", scores, op(t, "Mul", apart, og_number(t, -3e38f))); /* no half holds that */
    gale_value a = op(t, "MatMul", og_softmax(t, scores, -1), v);
    a = og_reshape(t, OG_TRANSPOSE(t, a, 0, 2, 1, 3), OG_INTS(t, b, s, e));
    gale_value y = norm(t, op(t, "Add", linear(t, a, e, e), x), e);
    gale_value f = linear(t, og_op1(t, "Gelu", linear(t, y, e, 4 * e)), 4 * e, e);
    og_output(t, norm(t, op(t, "Add", f, y), e));
}

/* SCUNet's block without the shift: half of the channels through window attention, half through convolutions. */
static void scunet_block(og *t, int64_t e, int64_t w, int64_t p, int64_t h)
{
    int64_t d = e / h, side = w * p;
    gale_value x = OG_INPUT(t, 1, 2 * e, side, side), half[2], part[3];
    gale_value one = og_conv(t, x, WEIGHT(t, 0.1f, 2 * e, 2 * e, 1, 1), WEIGHT(t, 0.1f, 2 * e), 1, 1, 0);
    for (int64_t i = 0; i < 2; i++)
        half[i] =
            og_op(t, "Slice", (gale_value[]){one, OG_INTS(t, i * e), OG_INTS(t, i * e + e), OG_INTS(t, 1)}, 4, NULL, 0);
    gale_value c = og_conv(t, half[0], WEIGHT(t, 0.05f, e, e, 3, 3), GALE_NONE, 1, 1, 1);
    c = og_conv(t, og_op1(t, "Relu", c), WEIGHT(t, 0.05f, e, e, 3, 3), GALE_NONE, 1, 1, 1);
    c = op(t, "Add", c, half[0]);
    gale_value y = OG_TRANSPOSE(t, half[1], 0, 2, 3, 1);
    gale_value cut = og_reshape(t, norm(t, y, e), OG_INTS(t, 1, w, p, w, p, e));
    gale_value windows = og_reshape(t, OG_TRANSPOSE(t, cut, 0, 1, 3, 2, 4, 5), OG_INTS(t, w * w, p * p, e));
    gale_value qkv = og_reshape(t, linear(t, windows, e, 3 * e), OG_INTS(t, w * w, p * p, 3, h, d));
    for (int64_t i = 0; i < 3; i++)
        part[i] = og_op(t, "Gather", (gale_value[]){OG_TRANSPOSE(t, qkv, 2, 0, 3, 1, 4), OG_INTS(t, i)}, 2, NULL, 0);
    for (int64_t i = 0; i < 3; i++) part[i] = og_reshape(t, part[i], OG_INTS(t, w * w, h, p * p, d));
    gale_value scores = op(t, "MatMul", part[0], OG_TRANSPOSE(t, part[1], 0, 1, 3, 2));
    scores = op(t, "Add", op(t, "Mul", scores, og_number(t, 0.25f)), WEIGHT(t, 0.5f, h, p * p, p * p));
    gale_value a = OG_TRANSPOSE(t, op(t, "MatMul", og_softmax(t, scores, -1), part[2]), 0, 2, 1, 3);
    a = linear(t, og_reshape(t, a, OG_INTS(t, w * w, p * p, e)), e, e);
    a = OG_TRANSPOSE(t, og_reshape(t, a, OG_INTS(t, 1, w, w, p, p, e)), 0, 1, 3, 2, 4, 5);
    y = op(t, "Add", og_reshape(t, a, OG_INTS(t, 1, side, side, e)), y);
    y = op(t, "Add", linear(t, og_op1(t, "Gelu", linear(t, norm(t, y, e), e, 4 * e)), 4 * e, e), y);
    gale_value joined[2] = {c, OG_TRANSPOSE(t, y, 0, 3, 1, 2)};
    gale_value all = og_op(t, "Concat", joined, 2, (gale_attr[]){GALE_INT("axis", 1)}, 1);
    all = og_conv(t, all, WEIGHT(t, 0.1f, 2 * e, 2 * e, 1, 1), WEIGHT(t, 0.1f, 2 * e), 1, 1, 0);
    og_output(t, op(t, "Add", all, x));
}

static double distance(gale_tensor *a, gale_tensor *b)
{
    size_t n = gale_tensor_size_bytes(a) / sizeof(float);
    const float *x = gale_tensor_data(a), *y = gale_tensor_data(b);
    double sum = 0, all = 0;
    if (gale_tensor_type(b) != GALE_F32 || gale_tensor_size_bytes(b) != gale_tensor_size_bytes(a)) return INFINITY;
    for (size_t i = 0; i < n; i++) sum += ((double)x[i] - y[i]) * ((double)x[i] - y[i]), all += (double)x[i] * x[i];
    return sqrt(sum / all);
}

static void expect_near(og *t, const char *name)
{
    gale_tensor *y[3] = {0};
    if (CHECK_OK(t->status) && CHECK_OK(og_tensors(t, NULL)) && run(t, NULL, &y[0]) && run(t, &f16, &y[1]) &&
        run(t, &bf16, &y[2])) {
        double half = distance(y[0], y[1]), brain = distance(y[0], y[2]);
        if (!CHECK(half > 0 && half <= 2e-3) || !CHECK(brain > half && brain <= 2e-2))
            printf("  %s: %g in f16, %g in bf16\n", name, half, brain);
    }
    for (int i = 0; i < 3; i++) gale_tensor_destroy(&y[i]);
}

TEST(results_are_near)
{
    og t;
    og_begin(&t);
    encoder_layer(&t, 2, 24, 2, 16);
    expect_near(&t, "encoder layer");
    og_end(&t);
    og_begin(&t);
    scunet_block(&t, 16, 2, 4, 2);
    expect_near(&t, "SCUNet block");
    og_end(&t);
}

TEST(gradients_are_the_same)
{
    og t;
    gale_tensor *y[2][2] = {{0}};
    og_begin(&t);
    gale_value x = OG_INPUT(&t, 8, 16), w = OG_INPUT(&t, 16, 8), gradient = GALE_NONE;
    gale_value loss = og_op1(&t, "ReduceSum", og_op1(&t, "Tanh", op(&t, "MatMul", x, w)));
    loss = og_reshape(&t, loss, og_ints(&t, 0, NULL));
    og_note(&t, gale_graph_gradient(t.graph, loss, &w, 1, &gradient));
    og_output(&t, loss), og_output(&t, gradient);
    if (CHECK_OK(t.status) && CHECK_OK(og_tensors(&t, NULL)) && run(&t, NULL, y[0]) && run(&t, &f16, y[1]))
        for (int i = 0; i < 2; i++) CHECK_EQ(distance(y[0][i], y[1][i]), 0);
    for (int i = 0; i < 4; i++) gale_tensor_destroy(&y[i / 2][i % 2]);
    og_end(&t);
}

/* --- What a device with matrix units runs. --- */

typedef struct work {
    int kernels, matrix, attention, others; /* others: contractions of some size on other schedules */
    double bytes;
} work;

static work plan_of(og *t, gale_device *null, const gale_program_options *options)
{
    work w = {0};
    gale_program *p = NULL;
    gale__instance *i = NULL;
    if (CHECK_OK(gale_program_create(t->graph, null, options, &p)) &&
        CHECK_OK(gale__program_instance(p, t->inputs, &i))) {
        w.kernels = i->plan->kernels;
        for (int k = 0; k < i->plan->n_steps; k++) {
            const gale__plan_step *s = &i->plan->steps[k];
            if (s->once) continue;
            w.bytes += s->tag.bytes;
            w.matrix += !strncmp(s->tag.name, "matrix", 6);
            w.attention += !strcmp(s->tag.name, "attention in one kernel (matrix, mma.sync m16n8k16 f16)");
            w.others += !strncmp(s->tag.name, "tile", 4) && s->tag.operations > 1e6;
        }
        gale__instance_release(p, i);
    }
    gale_program_destroy(&p);
    return w;
}

static void expect_work(og *t, const char *name, int kernels, int matrix, double megabytes)
{
    gale_device *null = NULL;
    gale__null_set_caps(&nvidia);
    CHECK_OK(gale__device_open_one(&gale__backend_null, 0, NULL, &null));
    gale__null_set_caps(NULL);
    if (null && CHECK_OK(t->status) && CHECK_OK(og_tensors(t, NULL))) {
        work full = plan_of(t, null, NULL), half = plan_of(t, null, &f16);
        CHECK_EQ(full.matrix, 0);
        CHECK_EQ(half.others, 0);
        CHECK_EQ(half.attention, 1);
        if (!CHECK(half.kernels <= kernels) || !CHECK_EQ(half.matrix, matrix) || !CHECK(half.bytes <= megabytes * 1e6))
            printf("  %s: %d kernels, %d in f32; %d matrix, %d tile; %.2f MB, %.2f in f32\n", name, half.kernels,
                full.kernels, half.matrix, half.others, half.bytes / 1e6, full.bytes / 1e6);
    }
    gale_device_close(&null);
}

TEST(contractions_run_on_matrix_units)
{
    og t;
    og_begin(&t);
    encoder_layer(&t, 1, 128, 12, 32);
    expect_work(&t, "encoder layer", 9, 4, 6.7);
    og_end(&t);
    og_begin(&t);
    scunet_block(&t, 64, 8, 8, 2);
    expect_work(&t, "SCUNet block", 12, 8, 27.7);
    og_end(&t);
}

static bool run_faulty(uint64_t n)
{
    og t;
    gale_program *p = NULL;
    gale_tensor *y = NULL;
    og_begin(&t);
    encoder_layer(&t, 1, 6, 2, 8);
    CHECK_OK(t.status);
    CHECK_OK(og_tensors(&t, NULL));
    gale__alloc_fail_at(n);
    gale_status status = gale_program_create(t.graph, device, &f16, &p);
    if (status == GALE_OK) status = gale_program_run(p, t.inputs, &y, GALE_RUN_ON_HOST);
    bool over = gale__alloc_count() < n;
    gale__alloc_fail_at(0);
    CHECK(status == GALE_OK || (!over && status == GALE_NO_MEMORY));
    gale_tensor_destroy(&y);
    gale_program_destroy(&p);
    og_end(&t);
    return over;
}

/* --- Graphs of halves on a device that has no arithmetic of them. --- */

/* 300 * 300 is infinite as a half; outputs are halves all the same, and what only moves elements leaves them so. */
TEST(halves_are_held_in_f32)
{
    static const uint16_t x[4] = {0x5cb0, 0x3c00, 0xdcb0, 0x4000}, small[1] = {0x1419}; /* 300 1 -300 2; 0.001 */
    static const float expected[4] = {90, 0.001f, 90, 0.004f};
    og t;
    og_begin(&t);
    gale_value v = og_given(&t, GALE_F16, 1, (const int64_t[]){4}, x), moved = og_op1(&t, "Identity", v);
    gale_value y = op(&t, "Mul", op(&t, "Mul", moved, v), og_data(&t, GALE_F16, 0, NULL, small));
    og_output(&t, og_op1(&t, "Identity", y));
    og_output(&t, moved);
    gale_program *p = NULL;
    gale_tensor *out[2] = {NULL};
    if (CHECK_OK(t.status) && CHECK_OK(gale_program_create(t.graph, device, NULL, &p))) {
        if (!p->graph->widened) CHECK_OK(gale__precision_widen(p->graph, 1u << GALE_F16)); /* CPUs that have it */
        CHECK_OK(gale_program_run(p, t.inputs, out, GALE_RUN_ON_HOST));
    }
    uint16_t got[2][4] = {{0}};
    for (int i = 0; i < 2 && out[i]; i++) {
        CHECK_EQ(gale_tensor_type(out[i]), GALE_F16);
        CHECK_OK(gale_tensor_to_cpu(out[i], got[i], sizeof got[i]));
        gale_tensor_destroy(&out[i]);
    }
    for (int i = 0; i < 4; i++) {
        CHECK(fabsf(gale__f16_to_f32(got[0][i]) - expected[i]) <= 1e-3f * expected[i]);
        CHECK_EQ(got[1][i], x[i]);
    }
    gale_program_destroy(&p);
    og_end(&t);
}

TEST(every_allocation_may_fail)
{
    run_faulty(1 << 30); /* pools and tables that stay */
    gale_memory_trim(device);
    int64_t live = gale__alloc_live();
    for (uint64_t n = 1; n < 20000; n++)
        if (run_faulty(n)) break;
    gale_memory_trim(device);
    CHECK_EQ(gale__alloc_live(), live);
}

int main(int argc, char **argv)
{
    static const test_row rows[] = {
        ROW(activations_become_narrow),
        ROW(norms_before_products_become_narrow),
        ROW(sums_before_norms_keep_their_digits),
        ROW(constants_out_of_range_stay),
        ROW(long_constants_are_read_to_the_end),
        ROW(integers_are_left_alone),
        ROW(results_are_near),
        ROW(gradients_are_the_same),
        ROW(contractions_run_on_matrix_units),
        ROW(halves_are_held_in_f32),
        ROW(every_allocation_may_fail),
    };
    return test_main_on("cpu", &device, rows, sizeof rows / sizeof *rows, argc, argv);
}
