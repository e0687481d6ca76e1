/* Quantised networks on matrix units: how many kernels and bytes a small one takes on an NVIDIA card, as the null
 * device counts them, and the same results on emulated units as on the CPU, bit for bit. */
#include "device/null/null.h"
#include "graph/run/program.h"
#include "nvidia_caps.h"
#include "op_graph.h"
#include "provider_device.h"

static uint32_t seed = 1;
static int any(int low, int high)
{
    seed = seed * 1664525u + 1013904223u;
    return low + (int)((seed >> 8) % (uint32_t)(high - low + 1));
}

static void *bytes(int64_t n, int low, int high)
{
    uint8_t *data = gale__alloc((size_t)n);
    for (int64_t i = 0; data && i < n; i++) data[i] = (uint8_t)any(low, high);
    return data;
}

/* To levels and back, with or without a zero point. */
static gale_value quantise(og *t, const char *op, gale_value x, float scale, uint8_t zero)
{
    return og_op(t, op, (gale_value[]){x, og_number(t, scale), og_data(t, GALE_U8, 0, NULL, &zero)}, 3, NULL, 0);
}
static gale_value there_and_back(og *t, gale_value x, float scale, uint8_t zero)
{
    return quantise(t, "DequantizeLinear", quantise(t, "QuantizeLinear", x, scale, zero), scale, zero);
}

static gale_value weights(og *t, int rank, const int64_t *dims, int64_t axis)
{
    int64_t n = 1;
    float scales[512];
    for (int d = 0; d < rank; d++) n *= dims[d];
    for (int64_t i = 0; i < dims[axis]; i++) scales[i] = 0.004f + 0.0001f * (float)(i % 9);
    void *data = bytes(n, -127, 127);
    gale_attr along = GALE_INT("axis", axis);
    gale_value in[2] = {og_data(t, GALE_I8, rank, dims, data), og_data(t, GALE_F32, 1, &dims[axis], scales)};
    gale__free(data);
    return og_op(t, "DequantizeLinear", in, 2, &along, 1);
}

static gale_value conv(og *t, gale_value x, int64_t c, int64_t o, int64_t kernel)
{
    int64_t dims[4] = {o, c, kernel, kernel}, pads[4] = {kernel / 2, kernel / 2, kernel / 2, kernel / 2};
    float bias[512];
    for (int64_t i = 0; i < o; i++) bias[i] = (float)any(-9, 9) / 8;
    gale_attr attrs[1] = {GALE_INTS("pads", pads, 4)};
    gale_value w = weights(t, 4, dims, 0);
    return og_op(t, "Conv", (gale_value[]){x, w, og_data(t, GALE_F32, 1, dims, bias)}, 3, attrs, 1);
}

/* A bottleneck of ResNet as exporters write it, and a Gemm of the mean: c to c to c to 4c channels. */
static void network(og *t, int64_t n, int64_t c, int64_t side, uint8_t zero)
{
    int64_t dims[4] = {n, c, side, side}, matrix[2] = {40, 4 * c};
    float half = 0.5f;
    void *data = bytes(n * c * side * side, 0, 255);
    gale_value x = quantise(t, "DequantizeLinear", og_given(t, GALE_U8, 4, dims, data), 0.02f, 17), y, skip;
    gale__free(data);
    y = there_and_back(t, og_op1(t, "Relu", conv(t, x, c, c, 1)), 0.06f, zero);
    y = there_and_back(t, og_op1(t, "Relu", conv(t, y, c, c, 3)), 0.09f, zero);
    y = there_and_back(t, conv(t, y, c, 4 * c, 1), 0.1f, 120);
    skip = there_and_back(t, conv(t, x, c, 4 * c, 1), 0.05f, 131);
    y = there_and_back(t, og_op1(t, "Relu", og_op2(t, "Add", y, skip)), 0.06f, 0);
    y = there_and_back(t, og_op1(t, "GlobalAveragePool", y), 0.03f, 3);
    y = og_reshape(t, y, OG_INTS(t, n, 4 * c));
    gale_attr turned = GALE_INT("transB", 1);
    gale_value w = weights(t, 2, matrix, 0);
    y = og_op(t, "Gemm", (gale_value[]){y, w, og_data(t, GALE_F32, 0, NULL, &half)}, 3, &turned, 1);
    og_output(t, quantise(t, "QuantizeLinear", y, 0.2f, 99));
}

/* Scores of rows among themselves, with zero points on both sides, and a product quantised as it goes. */
static void products(og *t, int64_t n, int64_t side)
{
    int64_t dims[3] = {2, n, side}, turn[3] = {0, 2, 1}, matrix[2] = {side, 48};
    int8_t zero = -5;
    void *data = bytes(2 * n * side, 0, 255), *w = bytes(side * 48, -127, 127);
    gale_value x = quantise(t, "DequantizeLinear", og_given(t, GALE_U8, 3, dims, data), 0.02f, 101), dynamic[3];
    gale_value scores = og_op2(t, "MatMul", x, og_transpose(t, x, 3, turn)),
               in[4] = {0, og_data(t, GALE_I8, 2, matrix, w), 0, og_data(t, GALE_I8, 0, NULL, &zero)};
    og_output(t, quantise(t, "QuantizeLinear", scores, 0.3f, 55));
    if (t->status == GALE_OK) t->status = gale_graph_op(t->graph, "DynamicQuantizeLinear", &x, 1, NULL, 0, dynamic, 3);
    in[0] = dynamic[0], in[2] = dynamic[2];
    og_output(t, og_op(t, "MatMulInteger", in, 4, NULL, 0));
    gale__free(data), gale__free(w);
}

/* What a row is beside its largest number goes on both as it is and, with a factor for each channel, as levels; the
 * product has a scale for each column on its way. */
static void norms(og *t, int64_t n, int64_t side)
{
    int64_t dims[2] = {n, side}, square[2] = {side, side};
    float factors[512];
    void *data = bytes(n * side, 0, 255);
    for (int64_t i = 0; i < side; i++) factors[i] = 0.5f + (float)any(0, 99) / 100;
    gale_value x = quantise(t, "DequantizeLinear", og_given(t, GALE_U8, 2, dims, data), 0.02f, 0),
               most = og_op(t, "ReduceMax", (gale_value[]){x, OG_INTS(t, 1)}, 2, NULL, 0),
               y = og_op2(t, "Sub", x, most);
    gale__free(data);
    gale_value level = there_and_back(t, og_op2(t, "Mul", y, og_data(t, GALE_F32, 1, &side, factors)), 0.03f, 250);
    y = og_op2(t, "Add", og_op2(t, "MatMul", level, weights(t, 2, square, 1)), y);
    gale_attr along = GALE_INT("axis", -1);
    void *zeros = bytes(side, 90, 130);
    gale_value in[3] = {y, og_data(t, GALE_F32, 1, &side, factors), og_data(t, GALE_U8, 1, &side, zeros)};
    gale__free(zeros);
    in[0] = og_op(t, "QuantizeLinear", in, 3, &along, 1);
    y = og_op(t, "DequantizeLinear", in, 3, &along, 1);
    og_output(t, quantise(t, "QuantizeLinear", y, 0.2f, 99));
}

/* Numbers that have no level, those in the middle between two, and there and back within a kernel. */
static void corners(og *t, gale_type type, bool again)
{
    enum { N = 512 };
    static float x[N];
    const float special[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, -0.0f, 1e-40f, 1e30f, 25.4f, -25.6f};
    int64_t dims[1] = {N};
    int8_t zero = 3;
    for (int i = 0; i < N; i++) x[i] = (float)(i - N / 2) * (i % 2 ? 0.05f : 0.0713f);
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) x[7 * i] = special[i];
    gale_value v = og_given(t, GALE_F32, 1, dims, x), z = og_data(t, type, 0, NULL, &zero);
    gale_value in[3] = {v, og_number(t, 0.1f), z};
    gale_value level = og_op(t, "QuantizeLinear", in, 3, NULL, 0);
    in[0] = level;
    gale_value back = og_op(t, "DequantizeLinear", in, 3, NULL, 0);
    in[0] = og_op2(t, "Mul", back, og_number(t, 0.4f));
    og_output(t, again ? og_op(t, "QuantizeLinear", in, 3, NULL, 0) : level);
}

/* --- plans --- */

typedef struct work {
    int kernels, units, others; /* others: products that are too small for matrix units: the Gemm */
    double bytes;
} work;

static work plan_of(og *t, const gale_device_caps *caps)
{
    work w = {0};
    gale_device *null = NULL;
    gale_program *p = NULL;
    gale__instance *i = NULL;
    gale__null_set_caps(caps);
    CHECK_OK(gale__device_open_one(&gale__backend_null, 0, NULL, &null));
    gale__null_set_caps(NULL);
    if (null && CHECK_OK(t->status) && CHECK_OK(gale_program_create(t->graph, null, NULL, &p)) &&
        CHECK_OK(gale__program_instance(p, t->inputs, &i))) {
        w.kernels = i->plan->kernels;
        for (int k = 0; k < i->plan->n_steps; k++) {
            const gale__plan_step *s = &i->plan->steps[k];
            if (s->once) continue;
            w.bytes += s->tag.bytes;
            w.units += strstr(s->tag.name, "int8") != NULL;
            w.others += !strncmp(s->tag.name, "tile", 4);
        }
        gale__instance_release(p, i);
    }
    gale_program_destroy(&p);
    gale_device_close(&null);
    return w;
}

/* Each convolution is one kernel with all that follows it, and what lies between them is bytes. */
TEST(networks_run_on_units)
{
    enum { N = 8, C = 64, SIDE = 28 };
    gale_device_caps older = nvidia, none = nvidia;
    og t;
    og_begin(&t);
    network(&t, N, C, SIDE, 0);
    work hopper = plan_of(&t, &nvidia);
    older.arch = 80, older.matrix_groups = false;
    none.n_matrix = 2;
    work ampere = plan_of(&t, &older), floats = plan_of(&t, &none);
    double values = N * C * SIDE * SIDE * (2 + 2 + 5 + 9 + 4.0); /* of four convolutions, and of the mean */
    if (!CHECK_EQ(hopper.kernels, 6) || !CHECK_EQ(hopper.units, 4) || !CHECK_EQ(hopper.others, 1) ||
        !CHECK(hopper.bytes < values + 2e5))
        printf("  %d kernels, %d int8, %d tile, %.2f MB\n", hopper.kernels, hopper.units, hopper.others,
            hopper.bytes / 1e6);
    CHECK_EQ(ampere.units, hopper.units);
    CHECK(ampere.bytes == hopper.bytes);
    CHECK_EQ(floats.units, 0);
    CHECK(floats.bytes > 2 * hopper.bytes);
    og_end(&t);
}

/* Levels are written by the kernel that makes what they are made of. */
TEST(levels_are_written_beside_values)
{
    og t;
    og_begin(&t);
    norms(&t, 4096, 384);
    work w = plan_of(&t, &nvidia);
    double values = 4096 * 384 * (1 + 4 + 1 + 1 + 4 + 1.0);
    if (!CHECK_EQ(w.kernels, 2) || !CHECK_EQ(w.units, 1) || !CHECK(w.bytes < values + 2e5))
        printf("  %d kernels, %d int8, %.2f MB\n", w.kernels, w.units, w.bytes / 1e6);
    og_end(&t);
}

/* --- results --- */

static gale_device *open_device(const char *chain)
{
    gale_device *device = NULL;
    gale_device_options options = GALE_DEVICE_OPTIONS;
    options.chain = chain, options.strict = true;
    setenv("GALE_MATRIX", "emulate", 1);
    if (gale_device_open(&options, &device) != GALE_OK) printf("SKIP on %s: %s\n", chain, gale_error());
    unsetenv("GALE_MATRIX");
    return device;
}

static void run_on(og *t, gale_device *device, gale_tensor **y)
{
    gale_program *p = NULL;
    if (CHECK_OK(t->status) && CHECK_OK(gale_program_create(t->graph, device, NULL, &p)))
        CHECK_OK(gale_program_run(p, t->inputs, y, true));
    gale_program_destroy(&p);
}

static void compare(og *t, const char *name, gale_device *cpu, gale_device *device)
{
    gale_tensor *want[2] = {0}, *have[2] = {0};
    run_on(t, cpu, want);
    run_on(t, device, have);
    for (int i = 0; i < t->n_outputs; i++) {
        if (!want[i] || !have[i]) continue;
        size_t size = gale_tensor_size_bytes(want[i]);
        CHECK_EQ(gale_tensor_size_bytes(have[i]), size);
        if (!CHECK(!memcmp(gale_tensor_data(want[i]), gale_tensor_data(have[i]), size)))
            printf("  %s, output %d, on %s\n", name, i, gale_device_get_info(device)->name);
    }
    for (int i = 0; i < 2; i++) gale_tensor_destroy(&want[i]), gale_tensor_destroy(&have[i]);
}

TEST(results_are_those_of_the_cpu)
{
    gale_device *cpu = open_device("cpu");
    const char *others[] = {"opencl", "vulkan"};
    for (int i = 0; cpu && i < 2; i++) {
        gale_device *device = open_device(others[i]);
        if (!device) continue;
        for (int zero = test_brief() ? 1 : i; zero < 2; zero++) {
            og t;
            device->info.caps.own_math = zero;
            og_begin(&t);
            network(&t, 1, 16, 9, zero ? 7 : 0);
            compare(&t, "network", cpu, device);
            og_end(&t);
        }
        /* With and without what devices of NVIDIA do instead of conversions. */
        for (int own = test_brief(); own < 2; own++) {
            og t;
            device->info.caps.own_math = own;
            for (int k = 0; k < 2; k++) {
                og_begin(&t);
                if (k) products(&t, 33, 40);
                else norms(&t, 33, 48);
                compare(&t, k ? "products" : "norms", cpu, device);
                og_end(&t);
            }
        }
        for (int k = 0; k < 8; k += test_brief() ? 3 : 1) {
            og t;
            device->info.caps.own_math = k & 1;
            og_begin(&t);
            corners(&t, k & 2 ? GALE_I8 : GALE_U8, k & 4);
            compare(&t, "corners", cpu, device);
            og_end(&t);
        }
        gale_device_close(&device);
    }
    gale_device_close(&cpu);
}

/* Attention as exporters write it, heads side by side at the end, times a factor for each column or not. */
static void attention(og *t, bool factors, gale_type type, bool levels)
{
    enum { BATCH = 2, ROWS = 19, HEADS = 3, SIZE = 16, WIDTH = HEADS * SIZE };
    const int64_t square[2] = {WIDTH, WIDTH}, row[1] = {WIDTH};
    const int8_t zero = 100;
    float w[WIDTH * WIDTH];
    gale_value x = OG_INPUT(t, BATCH, ROWS, WIDTH), part[3];
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < WIDTH * WIDTH; k++) w[k] = (float)any(-99, 99) / 200;
        gale_value y = og_op2(t, "MatMul", x, og_data(t, GALE_F32, 2, square, w));
        y = og_reshape(t, y, OG_INTS(t, BATCH, ROWS, HEADS, SIZE));
        part[i] = i == 1 ? OG_TRANSPOSE(t, y, 0, 2, 3, 1) : OG_TRANSPOSE(t, y, 0, 2, 1, 3);
    }
    gale_value y = og_op2(t, "MatMul", og_softmax(t, og_op2(t, "MatMul", part[0], part[1]), -1), part[2]);
    y = og_reshape(t, OG_TRANSPOSE(t, y, 0, 2, 1, 3), OG_INTS(t, BATCH, ROWS, WIDTH));
    if (factors) y = og_op2(t, "Mul", y, og_data(t, GALE_F32, 1, row, w));
    gale_value in[3] = {y, og_number(t, 0.003f), og_data(t, type, 0, NULL, &zero)};
    og_output(t, levels ? og_op(t, "QuantizeLinear", in, 3, NULL, 0) : y);
}

static gale_tensor *run_attention(gale_device *device, bool factors, gale_type type, bool levels, int *kernels)
{
    const gale_program_options f16 = {.precision = GALE_PRECISION_F16};
    gale_program *p = NULL;
    gale__instance *i = NULL;
    gale_tensor *y = NULL;
    og t;
    seed = 3;
    og_begin(&t);
    attention(&t, factors, type, levels);
    if (CHECK_OK(t.status) && CHECK_OK(og_tensors(&t, NULL)) &&
        CHECK_OK(gale_program_create(t.graph, device, &f16, &p)) &&
        CHECK_OK(gale_program_run(p, t.inputs, &y, GALE_RUN_ON_HOST)) &&
        CHECK_OK(gale__program_instance(p, t.inputs, &i))) {
        *kernels = i->plan->kernels;
        gale__instance_release(p, i);
    }
    gale_program_destroy(&p);
    og_end(&t);
    return y;
}

/* Attention writes levels as if its result had not been rounded before, and no kernel only quantises. */
TEST(attention_writes_levels)
{
    gale_device *device = open_device("opencl");
    if (!device) SKIP("no OpenCL");
    device->info.caps.matrix_quads = true; /* emulated, too, it is known which thread holds what */
    for (int k = test_brief() ? 3 : 0; k < 4; k++) {
        gale_type type = k & 2 ? GALE_I8 : GALE_U8;
        int kernels[2] = {0, 0}, most = k & 2 ? 127 : 255, wrong = 0, below = 0;
        gale_tensor *y = run_attention(device, k & 1, type, false, &kernels[0]),
                    *q = run_attention(device, k & 1, type, true, &kernels[1]);
        CHECK_EQ(kernels[1], kernels[0] - 1);
        for (size_t i = 0; y && q && i < gale_tensor_size_bytes(q); i++) {
            float level = rintf(((const float *)gale_tensor_data(y))[i] / 0.003f) + 100;
            level = level > (float)most ? (float)most : level < (float)(most - 255) ? (float)(most - 255) : level;
            uint8_t byte = ((const uint8_t *)gale_tensor_data(q))[i];
            float have = k & 2 ? (float)(int8_t)byte : (float)byte;
            CHECK(fabsf(have - level) <= 1);
            wrong += have != level;
            below += level < (float)most;
        }
        if (!CHECK(wrong * 50 < below) || !CHECK(below > 900)) printf("  case %d: %d, %d\n", k, wrong, below);
        gale_tensor_destroy(&y), gale_tensor_destroy(&q);
    }
    gale_device_close(&device);
}

/* Making the plan, its n-th allocation failing; true once n is past the last. */
static bool plan_faulty(gale_device *null, uint64_t n)
{
    gale_program *p = NULL;
    gale__instance *i = NULL;
    og t;
    og_begin(&t);
    network(&t, 1, 16, 9, 7);
    CHECK_OK(t.status);
    gale__alloc_fail_at(n);
    gale_status status = gale_program_create(t.graph, null, NULL, &p);
    if (status == GALE_OK) status = gale__program_instance(p, t.inputs, &i);
    bool over = gale__alloc_count() < n;
    gale__alloc_fail_at(0);
    CHECK(status == GALE_OK || (!over && status == GALE_NO_MEMORY));
    if (i) gale__instance_release(p, i);
    gale_program_destroy(&p);
    og_end(&t);
    return over;
}

TEST(every_allocation_may_fail)
{
    gale_device *null = NULL;
    gale__null_set_caps(&nvidia);
    CHECK_OK(gale__device_open_one(&gale__backend_null, 0, NULL, &null));
    gale__null_set_caps(NULL);
    uint64_t step = test_light() ? 7 : 1;
    for (uint64_t n = 1; null && n < 20000; n += step)
        if (plan_faulty(null, n)) break;
    gale_device_close(&null);
}

TESTS(ROW(networks_run_on_units), ROW(levels_are_written_beside_values), ROW(results_are_those_of_the_cpu),
    ROW(attention_writes_levels), ROW(every_allocation_may_fail))
