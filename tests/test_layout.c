/* Layouts: convolutions on matrix units copy their operands by eights, or cut f32 by fours, since values lie
 * channels-last where that pays; and whatever the layout, results are the same up to the order of sums. */
#include "device/null/null.h"
#include "device/registry.h"
#include "graph/fuse/layout.h"
#include "graph/run/program.h"
#include "kernel/cpu/simd.h"
#include "nvidia_caps.h"
#include "op_graph.h"
#include "provider_device.h"
#include <math.h>

static const float *ones(void)
{
    static float all[96];
    for (int i = 0; i < 96; i++) all[i] = 1;
    return all;
}

static gale_value weight(og *t, int64_t n, int64_t c, int64_t side)
{
    int64_t dims[4] = {n, c, side, side}, count = n * c * side * side;
    float *data = gale__alloc((size_t)count * sizeof *data), scale = 1 / sqrtf((float)(c * side * side));
    for (int64_t i = 0; i < count; i++) data[i] = og_random(t) * scale;
    gale_value v = og_constant(t, 4, dims, data);
    gale__free(data);
    return v;
}

static gale_value conv(og *t, gale_value x, int64_t from, int64_t to, int64_t side, int64_t stride)
{
    return og_conv(t, x, weight(t, to, from, side), GALE_NONE, 1, stride, side / 2);
}

static gale_value pool(og *t, gale_value x, const char *name)
{
    const int64_t two[2] = {2, 2};
    return og_op(t, name, &x, 1, (gale_attr[]){GALE_INTS("kernel_shape", two, 2), GALE_INTS("strides", two, 2)}, 2);
}

/* A stem, a residual block, pools, a strided convolution, and a mean over the plane. */
static void residual(og *t)
{
    gale_value x = og_op1(t, "Relu", conv(t, OG_INPUT(t, 2, 3, 20, 28), 3, 16, 3, 1)), y;
    y = og_op1(t, "Relu", conv(t, x, 16, 32, 3, 1));
    y = og_op2(t, "Add", conv(t, y, 32, 16, 3, 1), x);
    y = conv(t, pool(t, og_op1(t, "Relu", y), "MaxPool"), 16, 24, 3, 2);
    y = conv(t, pool(t, y, "AveragePool"), 24, 40, 1, 1);
    og_output(t, y);
    og_output(t, og_op1(t, "GlobalAveragePool", y));
}

/* Halves of the channels take different ways and join again; one is by channel, one goes down and up. */
static void branches(og *t)
{
    const int64_t two[2] = {2, 2};
    gale_value x = conv(t, OG_INPUT(t, 1, 8, 16, 16), 8, 32, 3, 1), half[2];
    for (int64_t i = 0; i < 2; i++)
        half[i] = og_op(
            t, "Slice", (gale_value[]){x, OG_INTS(t, 16 * i), OG_INTS(t, 16 * i + 16), OG_INTS(t, 1)}, 4, NULL, 0);
    half[0] = og_conv(t, half[0], weight(t, 16, 1, 3), GALE_NONE, 16, 1, 1);
    gale_value down = og_op1(t, "Relu", conv(t, half[1], 16, 32, 3, 2));
    half[1] = og_op(t, "ConvTranspose", (gale_value[]){down, weight(t, 32, 16, 2)}, 2,
        (gale_attr[]){GALE_INTS("strides", two, 2)}, 1);
    gale_value all = og_op(t, "Concat", half, 2, (gale_attr[]){GALE_INT("axis", 1)}, 1);
    og_output(t, conv(t, all, 32, 3, 3, 1));
}

/* Rows of channels between convolutions, as in networks that mix them with attention. */
static void rows(og *t)
{
    gale_value x = conv(t, OG_INPUT(t, 1, 16, 12, 12), 16, 16, 3, 1);
    gale_value y = og_reshape(t, OG_TRANSPOSE(t, x, 0, 2, 3, 1), OG_INTS(t, 1, 144, 16));
    y = og_softmax(t, y, -1);
    y = OG_TRANSPOSE(t, og_reshape(t, y, OG_INTS(t, 1, 12, 12, 16)), 0, 3, 1, 2);
    og_output(t, conv(t, og_op2(t, "Add", y, x), 16, 16, 3, 1));
}

/* The plane as one axis between convolutions, and patches of 8 x 8 of it, as in networks that attend to fewer pixels.
 */
static void tokens_of(og *t, int64_t channels, int64_t side)
{
    gale_value x = conv(t, OG_INPUT(t, 1, channels, side, side), channels, channels, 3, 1);
    gale_value y = OG_TRANSPOSE(t, og_reshape(t, x, OG_INTS(t, 1, channels, side * side)), 0, 2, 1);
    gale_value in[2] = {y, og_constant(t, 1, (int64_t[]){channels}, ones())};
    y = OG_TRANSPOSE(t, og_op(t, "LayerNormalization", in, 2, (gale_attr[]){GALE_INT("axis", -1)}, 1), 0, 2, 1);
    y = og_reshape(t, y, OG_INTS(t, 1, channels, side, side));
    y = og_op2(t, "Add", conv(t, y, channels, channels, 3, 1), x);
    gale_value few = og_conv(t, y, weight(t, 2 * channels, channels, 8), GALE_NONE, 1, 8, 0);
    og_output(t, OG_TRANSPOSE(t, og_reshape(t, few, OG_INTS(t, 1, 2 * channels, side * side / 64)), 0, 2, 1));
    og_output(t, conv(t, y, channels, channels, 1, 1));
}

static void tokens(og *t) { tokens_of(t, 16, 16); }
static void many_tokens(og *t) { tokens_of(t, 64, 64); }

static const struct {
    const char *name;
    void (*make)(og *);
    int copied; /* kernels on matrix units whose operands are both copied: all but very small ones */
} networks[] = {{"residual", residual, 4}, {"branches", branches, 3}, {"rows", rows, 2}};
enum { NETWORKS = sizeof networks / sizeof *networks };

static double distance(gale_tensor *a, gale_tensor *b)
{
    size_t n = gale_tensor_size_bytes(a) / sizeof(float);
    const float *x = gale_tensor_data(a), *y = gale_tensor_data(b);
    double sum = 0, all = 0;
    for (size_t i = 0; i < n; i++) sum += ((double)x[i] - y[i]) * ((double)x[i] - y[i]), all += (double)x[i] * x[i];
    return sqrt(sum / all);
}

static bool run(og *t, gale_device *device, gale_precision precision, int layout, gale_tensor **y)
{
    gale_program_options options = {.precision = precision, .layout = layout};
    gale_program *p = NULL;
    bool ok = CHECK_OK(gale_program_create(t->graph, device, &options, &p)) &&
              CHECK_OK(gale_program_run(p, t->inputs, y, GALE_RUN_ON_HOST));
    gale_program_destroy(&p);
    return ok;
}

static void compare(int which, gale_device *cpu, gale_device *device)
{
    og t;
    gale_tensor *y[5][2] = {{0}};
    og_begin(&t);
    networks[which].make(&t);
    bool ok = CHECK_OK(t.status) && CHECK_OK(og_tensors(&t, NULL)) && run(&t, cpu, GALE_PRECISION_AS_IT_IS, 1, y[3]);
    for (int layout = 0; ok && layout < (test_light() ? 1 : 3); layout++) {
        ok = run(&t, device, GALE_PRECISION_F16, layout, y[layout]);
        for (int i = 0; ok && i < t.n_outputs; i++) {
            double off = distance(y[3][i], y[layout][i]);
            if (!CHECK(off < 3e-3)) printf("  %s, layout %d, output %d: %g\n", networks[which].name, layout, i, off);
        }
    }
    if (ok && run(&t, device, GALE_PRECISION_AS_IT_IS, 2, y[4])) /* f32, whose sums have an axis of groups */
        for (int i = 0; i < t.n_outputs; i++)
            if (!CHECK(distance(y[3][i], y[4][i]) < 1e-5)) printf("  %s in f32, output %d\n", networks[which].name, i);
    for (int i = 0; i < 10; i++) gale_tensor_destroy(&y[i / 2][i % 2]);
    og_end(&t);
}

static void compare_on(const char *provider)
{
    gale_device *cpu = NULL;
    setenv("GALE_MATRIX", "emulate", 1);
    gale_device *device = provider_device(provider);
    unsetenv("GALE_MATRIX");
    if (!device) SKIP("%s", gale_error());
    CHECK(device->info.caps.n_matrix || device->info.caps.matrix_emulated);
    if (CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu)))
        for (int i = 0; i < NETWORKS; i++) compare(i, cpu, device);
    gale_device_close(&device);
    gale_device_close(&cpu);
}

TEST(opencl) { compare_on("opencl"); }
TEST(vulkan) { compare_on("vulkan"); }
TEST(cuda) { compare_on("cuda"); }

/* Kernels whose schedule is so described. */
static int count_steps(gale_program *p, gale_tensor **inputs, const char *words)
{
    gale__instance *i = NULL;
    int n = 0;
    if (!CHECK_OK(gale__program_instance(p, inputs, &i))) return -1;
    for (int k = 0; k < i->plan->n_steps; k++) n += strstr(i->plan->steps[k].tag.name, words) != NULL;
    gale__instance_release(p, i);
    return n;
}

static int count_on_nvidia(void (*make)(og *), gale_precision precision, const char *words)
{
    gale_program_options options = {.precision = precision};
    gale_device *null = NULL;
    gale_program *p = NULL;
    int count = -1;
    og t;
    og_begin(&t);
    make(&t);
    gale__null_set_caps(&nvidia);
    CHECK_OK(gale__device_open_one(&gale__backend_null, 0, NULL, &null));
    gale__null_set_caps(NULL);
    if (CHECK_OK(og_tensors(&t, NULL)) && CHECK_OK(gale_program_create(t.graph, null, &options, &p)))
        count = count_steps(p, t.inputs, words);
    gale_program_destroy(&p);
    gale_device_close(&null);
    og_end(&t);
    return count;
}

TEST(convolutions_copy)
{
    for (int i = 0; i < NETWORKS; i++)
        if (!CHECK_EQ(count_on_nvidia(networks[i].make, GALE_PRECISION_F16, "operands copied"), networks[i].copied))
            printf("  in %s\n", networks[i].name);
}

/* A plane that becomes one axis keeps its layout, and both operands of patches are copied along the same dimension. */
TEST(tokens_stay_channels_last)
{
    CHECK_EQ(count_on_nvidia(many_tokens, GALE_PRECISION_F16, "operands copied"), 4);
    CHECK_EQ(count_on_nvidia(many_tokens, GALE_PRECISION_F16, "column"), 0);
}

/* A window, and a product with channels; large enough that cutting f32 pays. */
static void large(og *t)
{
    gale_value x = pool(t, OG_INPUT(t, 8, 64, 112, 112), "MaxPool");
    x = og_op1(t, "Relu", conv(t, x, 64, 128, 3, 1));
    x = og_op1(t, "Relu", conv(t, x, 128, 256, 1, 1));
    og_output(t, pool(t, x, "MaxPool"));
}

TEST(convolutions_cut)
{
    CHECK_EQ(count_on_nvidia(large, GALE_PRECISION_AS_IT_IS, "f32 as three bf16"), 2);
    CHECK_EQ(count_on_nvidia(residual, GALE_PRECISION_AS_IT_IS, "f32 as three bf16"), 0);
}

/* A stem whose channels are normalised, as of networks that see pictures in patches. */
static void patches(og *t)
{
    gale_value x = og_conv(t, OG_INPUT(t, 1, 3, 224, 224), weight(t, 96, 3, 4), GALE_NONE, 1, 4, 0);
    gale_value scale = og_constant(t, 1, (int64_t[]){96}, ones()), in[2] = {OG_TRANSPOSE(t, x, 0, 2, 3, 1), scale};
    x = og_op(t, "LayerNormalization", in, 2, (gale_attr[]){GALE_INT("axis", -1)}, 1);
    x = OG_TRANSPOSE(t, x, 0, 3, 1, 2);
    og_output(t, og_op2(t, "Add", x, og_conv(t, x, weight(t, 96, 1, 3), GALE_NONE, 96, 1, 1)));
}

TEST(norms_read_rows) { CHECK_EQ(count_on_nvidia(patches, GALE_PRECISION_F16, "column"), 0); }

TEST(turning)
{
    const int64_t dims[4] = {2, 3, 2, 1};
    const uint16_t from[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, want[12] = {0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11};
    uint16_t to[12];
    gale__layout_to_last(dims, 4, sizeof *from, from, to);
    CHECK(!memcmp(to, want, sizeof want));
    const int64_t large[2] = {130, 197}; /* more than one square of it, and parts of squares at both ends */
    static uint32_t wide[130 * 197], turned[130 * 197];
    int wrong = 0;
    for (uint32_t i = 0; i < 130 * 197; i++) wide[i] = i;
    gale__layout_to_last(large, 2, sizeof *wide, wide, turned);
    for (uint32_t i = 0; i < 130 * 197; i++) wrong += turned[i % 197 * 130 + i / 197] != i;
    CHECK_EQ(wrong, 0);
}

/* Scores of attention by heads, which are no channels: their rows stay rows. */
static void scores(og *t)
{
    gale_value x = OG_INPUT(t, 16, 197, 384), part[2];
    for (int i = 0; i < 2; i++) {
        gale_value y = og_op2(t, "MatMul", x, og_reshape(t, weight(t, 384, 384, 1), OG_INTS(t, 384, 384)));
        part[i] = og_reshape(t, y, OG_INTS(t, 16, 197, 6, 64));
    }
    gale_value y = og_op2(t, "MatMul", OG_TRANSPOSE(t, part[0], 0, 2, 1, 3), OG_TRANSPOSE(t, part[1], 0, 2, 3, 1));
    og_output(t, og_op2(t, "MatMul", og_softmax(t, y, -1), OG_TRANSPOSE(t, part[1], 0, 2, 1, 3)));
}

TEST(rows_stay)
{
    CHECK_EQ(count_on_nvidia(scores, GALE_PRECISION_AS_IT_IS, "column"), 0);
    CHECK(count_on_nvidia(scores, GALE_PRECISION_AS_IT_IS, "row") > 0);
}

/* Blocks of a small network for few operations: expanded, by channel, gated by its mean, and added. */
static void mobile(og *t, int64_t items)
{
    gale_value x = og_op1(t, "Relu", conv(t, OG_INPUT(t, items, 3, 28, 28), 3, 24, 3, 2)), y;
    x = og_op1(t, "Relu", conv(t, x, 24, 56, 1, 1)); /* where layouts may change */
    for (int i = 0; i < 2; i++) {
        y = og_op1(t, "Relu", conv(t, x, 56, 100, 1, 1));
        y = og_op1(t, "HardSwish", og_conv(t, y, weight(t, 100, 1, 5), GALE_NONE, 100, 1, 2));
        gale_value gate = og_op1(t, "Sigmoid", conv(t, og_op1(t, "GlobalAveragePool", y), 100, 100, 1, 1));
        x = og_op2(t, "Add", conv(t, og_op2(t, "Mul", y, gate), 100, 56, 1, 1), x);
    }
    x = conv(t, x, 56, 24, 1, 1); /* and here */
    y = og_op1(t, "Relu", og_conv(t, x, weight(t, 24, 1, 3), GALE_NONE, 24, 2, 1));
    og_output(t, conv(t, conv(t, y, 24, 48, 1, 1), 48, 16, 3, 1));
    og_output(t, og_op1(t, "GlobalAveragePool", conv(t, y, 24, 200, 1, 1)));
}

static void run_mobile(gale_device *cpu, int64_t items, int layout, int threads, gale_tensor **y)
{
    og t;
    og_begin(&t);
    mobile(&t, items);
    if (!CHECK_OK(t.status) || !CHECK_OK(og_tensors(&t, NULL))) return;
    gale_program_options options = {.layout = layout, .threads = threads};
    gale_program *p = NULL;
    float *data = gale_tensor_data(t.inputs[0]); /* the same picture for every item */
    for (int64_t i = 1; i < items; i++) memcpy(data + i * 3 * 28 * 28, data, 3 * 28 * 28 * sizeof *data);
    if (CHECK_OK(gale_program_create(t.graph, cpu, &options, &p))) {
        int last = count_steps(p, t.inputs, "channels last");
        if (layout == 0 && gale__simd_get()->wide) CHECK(last >= 6);
        CHECK_OK(gale_program_run(p, t.inputs, y, GALE_RUN_ON_HOST));
    }
    gale_program_destroy(&p);
    og_end(&t);
}

/* On the CPU results are near those as declared, and the same bits for any number of threads and items. */
TEST(cpu)
{
    static const int64_t ways[][3] = {{1, 1, 1}, {1, 0, 1}, {1, 0, 5}, {8, 0, 3}, {1, 2, 2}};
    gale_tensor *y[5][2] = {{0}};
    gale_device *cpu = NULL;
    if (!CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu))) return;
    for (int i = 0; i < 5; i++) run_mobile(cpu, ways[i][0], (int)ways[i][1], (int)ways[i][2], y[i]);
    for (int i = 0; i < 2 && y[4][i]; i++) {
        size_t bytes = gale_tensor_size_bytes(y[1][i]);
        CHECK(distance(y[0][i], y[1][i]) < 2e-6 && distance(y[0][i], y[4][i]) < 2e-6);
        CHECK(!memcmp(gale_tensor_data(y[1][i]), gale_tensor_data(y[2][i]), bytes));
        for (size_t item = 0; item < 8; item++)
            CHECK(!memcmp(gale_tensor_data(y[1][i]), (char *)gale_tensor_data(y[3][i]) + item * bytes, bytes));
    }
    for (int i = 0; i < 10; i++) gale_tensor_destroy(&y[i / 2][i % 2]);
    gale_device_close(&cpu);
}

/* A plane that is one axis between channels-last values is right without matrix units too. */
TEST(planes_join)
{
    gale_tensor *y[3][2] = {{0}};
    gale_device *cpu = NULL;
    og t;
    og_begin(&t);
    tokens(&t);
    if (!CHECK_OK(t.status) || !CHECK_OK(og_tensors(&t, NULL)) ||
        !CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu)))
        return;
    bool ok = true;
    for (int layout = 0; layout < 3; layout++) ok = ok && run(&t, cpu, GALE_PRECISION_AS_IT_IS, layout, y[layout]);
    for (int i = 0; ok && i < 6; i++) CHECK(distance(y[1][i % 2], y[i / 2][i % 2]) < 2e-6);
    for (int i = 0; i < 6; i++) gale_tensor_destroy(&y[i / 2][i % 2]);
    gale_device_close(&cpu);
    og_end(&t);
}

TESTS(ROW(cpu), ROW(planes_join), ROW(tokens_stay_channels_last), ROW(turning), ROW(rows_stay), ROW(convolutions_copy),
    ROW(convolutions_cut), ROW(norms_read_rows), ROW(opencl), ROW(vulkan), ROW(cuda))
