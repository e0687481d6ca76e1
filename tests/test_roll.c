/* Values that are rolled (the end of an axis before its beginning) are read and written round the end, without a copy.
 */
#include "device/null/null.h"
#include "device/registry.h"
#include "graph/run/program.h"
#include "op_graph.h"
#include "provider_device.h"
#include <math.h>

static gale_value cut(og *t, gale_value x, int64_t axis, int64_t from, int64_t to)
{
    gale_value in[4] = {x, OG_INTS(t, from), OG_INTS(t, to), OG_INTS(t, axis)};
    return og_op(t, "Slice", in, 4, NULL, 0);
}

/* As exporters write torch.roll by -shift. */
static gale_value roll(og *t, gale_value x, int64_t axis, int64_t shift)
{
    gale_value parts[2] = {cut(t, x, axis, shift, INT64_MAX), cut(t, x, axis, 0, shift)};
    return og_op(t, "Concat", parts, 2, (gale_attr[]){GALE_INT("axis", axis)}, 1);
}

static gale_value constant(og *t, int64_t rows, int64_t columns)
{
    const int64_t dims[2] = {rows, columns};
    float data[64 * 64];
    for (int64_t i = 0; i < rows * columns; i++) data[i] = og_random(t) / 8;
    return og_constant(t, 2, dims, data);
}

static void alone(og *t) { og_output(t, roll(t, OG_INPUT(t, 3, 7, 10), 1, 3)); }
static void last_axis(og *t)
{
    gale_value x = OG_INPUT(t, 3, 7, 10);
    og_output(t, og_op2(t, "Add", roll(t, og_op1(t, "Exp", x), 2, 9), x));
}
static void there_and_back(og *t)
{
    gale_value x = OG_INPUT(t, 6, 10), y = og_op1(t, "Exp", roll(t, roll(t, x, 0, 2), 1, 4));
    og_output(t, og_op2(t, "Sub", roll(t, roll(t, y, 1, 6), 0, 4), x));
}
/* Sums of rolled rows and columns, and rolled sums. */
static void sums(og *t)
{
    gale_value x = OG_INPUT(t, 6, 10), y = og_softmax(t, roll(t, x, 1, 3), 1);
    og_output(t, og_op2(t, "Mul", roll(t, og_softmax(t, y, 0), 0, 5), x));
}
/* Cut out of what goes round, padded, and turned: what a map can and cannot say. */
static void cut_again(og *t)
{
    gale_value x = roll(t, OG_INPUT(t, 6, 10), 1, 3), y = cut(t, x, 1, 2, 9);
    og_output(t, og_op1(t, "Relu", OG_TRANSPOSE(t, y, 1, 0)));
    gale_value pads = OG_INTS(t, 1, 2, 0, 3);
    og_output(t, og_op2(t, "Pad", x, pads));
    og_output(t, og_reshape(t, x, OG_INTS(t, 3, 20)));
}
/* Two pieces that do not make a roll. */
static void not_a_roll(og *t)
{
    gale_value x = OG_INPUT(t, 6, 10);
    gale_value parts[2] = {cut(t, x, 1, 4, 10), cut(t, x, 1, 0, 3)};
    og_output(t, og_op(t, "Concat", parts, 2, (gale_attr[]){GALE_INT("axis", 1)}, 1));
}

enum { SIDE = 16, WINDOW = 8, WIDTH = 32 };

static gale_value to_windows(og *t, gale_value x)
{
    x = og_reshape(t, x, OG_INTS(t, SIDE / WINDOW, WINDOW, SIDE / WINDOW, WINDOW, WIDTH));
    return og_reshape(t, OG_TRANSPOSE(t, x, 0, 2, 1, 3, 4), OG_INTS(t, -1, WINDOW * WINDOW, WIDTH));
}
static gale_value from_windows(og *t, gale_value x)
{
    x = og_reshape(t, x, OG_INTS(t, SIDE / WINDOW, SIDE / WINDOW, WINDOW, WINDOW, WIDTH));
    return og_reshape(t, OG_TRANSPOSE(t, x, 0, 2, 1, 3, 4), OG_INTS(t, SIDE, SIDE, WIDTH));
}
/* Shifted windows: norm, roll, cut into windows, two products, joined, rolled back, added. */
static void shifted_windows(og *t)
{
    gale_value x = OG_INPUT(t, SIDE, SIDE, WIDTH), one = constant(t, WIDTH, WIDTH), two = constant(t, WIDTH, WIDTH);
    gale_value y = og_op2(t, "LayerNormalization", x, OG_INPUT(t, WIDTH));
    y = to_windows(t, roll(t, roll(t, y, 0, 4), 1, 4));
    y = og_op1(t, "Relu", og_op2(t, "MatMul", y, one));
    y = from_windows(t, og_op2(t, "MatMul", y, two));
    og_output(t, og_op2(t, "Add", roll(t, roll(t, y, 0, SIDE - 4), 1, SIDE - 4), x));
}

static const struct {
    const char *name;
    void (*make)(og *);
    int kernels; /* on a device that builds kernels, where small ones are joined */
} graphs[] = {{"alone", alone, 1}, {"last axis", last_axis, 1}, {"there and back", there_and_back, 1},
    {"sums", sums, 1}, {"cut again", cut_again, 1}, {"not a roll", not_a_roll, 1},
    {"shifted windows", shifted_windows, 3}};
enum { GRAPHS = sizeof graphs / sizeof *graphs };

static bool run(og *t, gale_device *device, gale_precision precision, int kernels, gale_tensor **y)
{
    gale_program_options options = {.precision = precision};
    gale_program *p = NULL;
    int n = 0;
    bool ok = CHECK_OK(gale_program_create(t->graph, device, &options, &p)) &&
              CHECK_OK(gale_program_run(p, t->inputs, y, GALE_RUN_ON_HOST)) &&
              CHECK_OK(gale__program_kernels(p, t->inputs, &n));
    if (ok && kernels) ok = CHECK_EQ(n, kernels);
    gale_program_destroy(&p);
    return ok;
}

static double distance(gale_tensor *a, gale_tensor *b)
{
    const float *x = gale_tensor_data(a), *y = gale_tensor_data(b);
    double worst = 0, most = 1e-30;
    for (size_t i = 0; i < gale_tensor_size_bytes(a) / sizeof *x; i++) {
        worst = fmax(worst, fabs((double)x[i] - y[i]));
        most = fmax(most, fabs((double)x[i]));
    }
    return worst / most;
}

static void check_graph(int which, gale_device *cpu, gale_device *device, gale_precision precision)
{
    og t;
    gale_tensor *want[3] = {0}, *have[3] = {0};
    double tolerance = precision == GALE_PRECISION_AS_IT_IS ? 1e-5 : 1e-2;
    og_begin(&t);
    graphs[which].make(&t);
    bool ok = CHECK_OK(t.status) && CHECK_OK(og_tensors(&t, NULL)) && run(&t, cpu, GALE_PRECISION_AS_IT_IS, 0, want) &&
              run(&t, device, precision, precision ? 0 : graphs[which].kernels, have);
    for (int k = 0; ok && k < t.n_outputs; k++) ok &= CHECK(distance(want[k], have[k]) < tolerance);
    if (!ok) printf("  %s\n", graphs[which].name);
    for (int k = 0; k < 3; k++) gale_tensor_destroy(&want[k]), gale_tensor_destroy(&have[k]);
    og_end(&t);
}

static void compare_on(const char *provider)
{
    gale_device *cpu = NULL;
    setenv("GALE_MATRIX", "emulate", 1);
    gale_device *device = provider_device(provider);
    unsetenv("GALE_MATRIX");
    if (!device) SKIP("%s", gale_error());
    CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu));
    for (int i = 0; i < GRAPHS; i++) check_graph(i, cpu, device, GALE_PRECISION_AS_IT_IS);
    check_graph(GRAPHS - 1, cpu, device, GALE_PRECISION_F16);
    gale_device_close(&device);
    gale_device_close(&cpu);
}

TEST(opencl) { compare_on("opencl"); }
TEST(vulkan) { compare_on("vulkan"); }
TEST(cuda) { compare_on("cuda"); }

/* The CPU copies two pieces; whatever copies, elements are where they should be. */
TEST(places)
{
    gale_device *cpu = NULL;
    gale_tensor *y[1] = {0};
    og t;
    og_begin(&t);
    alone(&t);
    CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu));
    if (CHECK_OK(og_tensors(&t, NULL)) && run(&t, cpu, GALE_PRECISION_AS_IT_IS, 2, y)) {
        const float *x = gale_tensor_data(t.inputs[0]), *z = gale_tensor_data(y[0]);
        for (int i = 0; i < 210; i++) CHECK_EQ(z[i] == x[i / 70 * 70 + (i / 10 + 3) % 7 * 10 + i % 10], 1);
    }
    gale_tensor_destroy(&y[0]);
    gale_device_close(&cpu);
    og_end(&t);
}

TESTS(ROW(places), ROW(opencl), ROW(vulkan), ROW(cuda))
