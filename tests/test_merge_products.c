/* Products that make queries, keys and values of one value run as one, with the results they had; others stay apart. */
#include "device/null/null.h"
#include "device/registry.h"
#include "graph/run/program.h"
#include "op_graph.h"
#include "provider_device.h"
#include <math.h>

enum { BATCH = 2, ROWS = 9, WIDTH = 24, HEADS = 3, SIZE = 8 };

static gale_value weights(og *t, int rank, int64_t rows, int64_t columns)
{
    const int64_t dims[2] = {rows, columns};
    float data[WIDTH * WIDTH];
    for (int64_t i = 0; i < (rank == 2 ? rows : 1) * columns; i++) data[i] = og_random(t) / 8;
    return og_constant(t, rank, dims + 2 - rank, data);
}

static gale_value project(og *t, gale_value x, bool bias)
{
    gale_value y = og_op2(t, "MatMul", x, weights(t, 2, WIDTH, HEADS * SIZE));
    return bias ? og_op2(t, "Add", weights(t, 1, 1, HEADS * SIZE), y) : y;
}

static gale_value heads(og *t, gale_value x, bool turned)
{
    gale_value y = og_reshape(t, x, OG_INTS(t, BATCH, ROWS, HEADS, SIZE));
    return turned ? OG_TRANSPOSE(t, y, 0, 2, 3, 1) : OG_TRANSPOSE(t, y, 0, 2, 1, 3);
}

static void attend(og *t, gale_value q, gale_value k, gale_value v)
{
    gale_value scores = og_op2(t, "MatMul", heads(t, q, false), heads(t, k, true));
    og_output(t, og_op2(t, "MatMul", og_softmax(t, scores, -1), heads(t, v, false)));
}

static void with_biases(og *t)
{
    gale_value x = OG_INPUT(t, BATCH, ROWS, WIDTH), q = project(t, x, true), k = project(t, x, true);
    attend(t, q, k, project(t, x, true));
}

static void without_biases(og *t)
{
    gale_value x = OG_INPUT(t, BATCH, ROWS, WIDTH), q = project(t, x, false), k = project(t, x, false);
    attend(t, q, k, project(t, x, false));
}

/* Keys often have no bias. */
static void with_two_biases(og *t)
{
    gale_value x = OG_INPUT(t, BATCH, ROWS, WIDTH), q = project(t, x, true), k = project(t, x, false);
    attend(t, q, k, project(t, x, true));
}

/* Exporters ask for shapes of what they reshape. */
static void with_shapes(og *t)
{
    gale_value x = OG_INPUT(t, BATCH, ROWS, WIDTH), q = project(t, x, true), k = project(t, x, true);
    gale_value shape = og_op1(t, "Shape", q);
    attend(t, og_op2(t, "Reshape", q, shape), k, project(t, x, true));
}

static void queries_are_an_output(og *t)
{
    gale_value x = OG_INPUT(t, BATCH, ROWS, WIDTH), q = project(t, x, true), k = project(t, x, true);
    attend(t, q, k, project(t, x, true));
    og_output(t, q);
}

/* Queries of one value, keys and values of another; values pass a Tanh on their way. */
static void across(og *t)
{
    gale_value x = OG_INPUT(t, BATCH, ROWS, WIDTH), y = OG_INPUT(t, BATCH, ROWS, WIDTH);
    gale_value q = project(t, x, true), k = project(t, y, true);
    attend(t, q, k, og_op1(t, "Tanh", project(t, y, true)));
}

/* --- Products of bytes. --- */

static gale_value bytes(og *t, gale_type type, int rank, int64_t columns, int low, int high)
{
    const int64_t dims[2] = {WIDTH, columns};
    int8_t data[WIDTH * WIDTH];
    for (int64_t i = 0; i < (rank == 2 ? WIDTH : 1) * columns; i++)
        data[i] = (int8_t)(low + (int)((og_random(t) + 1) / 2 * (float)(high - low)));
    return og_data(t, type, rank, dims + 2 - rank, data);
}

static gale_value quantised(og *t, const char *op, gale_value x, gale_value scale, gale_value zero)
{
    return og_op(t, op, (gale_value[]){x, scale, zero}, 3, NULL, 0);
}

/* Weights with a scale for each column, or one and a zero point; the result is quantised on its way or not. */
static gale_value project_bytes(og *t, gale_value x, bool by_column, bool levels)
{
    gale_value w = bytes(t, GALE_I8, 2, HEADS * SIZE, -100, 100), zero = GALE_NONE, scale = og_number(t, 0.003f);
    if (by_column) scale = weights(t, 1, 1, HEADS * SIZE);
    else zero = bytes(t, GALE_I8, 0, 1, -9, 9);
    gale_value y = og_op2(t, "MatMul", x, quantised(t, "DequantizeLinear", w, scale, zero));
    if (levels) {
        gale_value step = og_number(t, 0.01f + 0.01f * og_random(t)), middle = bytes(t, GALE_U8, 0, 1, 90, 120);
        y = quantised(t, "DequantizeLinear", quantised(t, "QuantizeLinear", y, step, middle), step, middle);
    }
    return og_op2(t, "Add", y, weights(t, 1, 1, HEADS * SIZE));
}

static void of_bytes(og *t, bool by_column, bool levels)
{
    gale_value x = OG_INPUT(t, BATCH, ROWS, WIDTH), scale = og_number(t, 0.01f), zero = bytes(t, GALE_U8, 0, 1, 70, 90);
    x = quantised(t, "DequantizeLinear", quantised(t, "QuantizeLinear", x, scale, zero), scale, zero);
    gale_value q = project_bytes(t, x, by_column, levels), k = project_bytes(t, x, by_column, levels);
    attend(t, q, k, project_bytes(t, x, by_column, levels));
}

static void of_bytes_by_number(og *t) { of_bytes(t, false, false); }
static void of_bytes_to_levels(og *t) { of_bytes(t, true, true); }

static gale_value project_whole(og *t, const gale_value x[3], bool with_zero)
{
    gale_value zero = with_zero ? bytes(t, GALE_I8, 1, HEADS * SIZE, -9, 9) : bytes(t, GALE_I8, 0, 1, 0, 0),
               in[4] = {x[0], bytes(t, GALE_I8, 2, HEADS * SIZE, -100, 100), x[2], zero};
    gale_value sum = og_op(t, "MatMulInteger", in, 4, NULL, 0),
               y = og_op(t, "Cast", &sum, 1, (gale_attr[]){GALE_STRING_ATTR("to", "f32")}, 1);
    y = og_op2(t, "Mul", y, og_op2(t, "Mul", x[1], og_number(t, 0.003f + 0.002f * og_random(t))));
    return og_op2(t, "Add", y, weights(t, 1, 1, HEADS * SIZE));
}

static void of_whole(og *t, bool with_zero)
{
    gale_value x = OG_INPUT(t, BATCH, ROWS, WIDTH), parts[3] = {GALE_NONE, GALE_NONE, GALE_NONE};
    og_note(t, gale_graph_op(t->graph, "DynamicQuantizeLinear", &x, 1, NULL, 0, parts, 3));
    gale_value q = project_whole(t, parts, with_zero), k = project_whole(t, parts, with_zero);
    attend(t, q, k, project_whole(t, parts, with_zero));
}

static void of_whole_numbers(og *t) { of_whole(t, false); }
static void of_whole_numbers_with_zeros(og *t) { of_whole(t, true); }

static const struct {
    const char *name;
    void (*make)(og *);
    int products; /* of three */
} graphs[] = {{"biases", with_biases, 1}, {"no biases", without_biases, 1}, {"two biases", with_two_biases, 1},
    {"shapes", with_shapes, 1}, {"an output", queries_are_an_output, 2}, {"across", across, 3},
    {"bytes", of_bytes_by_number, 1}, {"bytes to levels", of_bytes_to_levels, 1},
    {"whole numbers", of_whole_numbers, 1}, {"whole numbers with zero points", of_whole_numbers_with_zeros, 1}};
enum { GRAPHS = sizeof graphs / sizeof *graphs };

static int products_of(const gale_program *p)
{
    int n = 0;
    for (int i = 0; i < p->graph->n_nodes; i++) n += !strncmp(p->graph->nodes[i].name, "MatMul", 6);
    return n;
}

static bool run(og *t, gale_device *device, int products, gale_tensor **y)
{
    gale_program *p = NULL;
    bool ok = CHECK_OK(gale_program_create(t->graph, device, NULL, &p)) && CHECK_EQ(products_of(p), products) &&
              CHECK_OK(gale_program_run(p, t->inputs, y, GALE_RUN_ON_HOST));
    gale_program_destroy(&p);
    return ok;
}

static void compare_on(const char *provider)
{
    gale_device *cpu = NULL, *device = provider_device(provider);
    if (!device) SKIP("%s", gale_error());
    CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu));
    for (int i = 0; i < GRAPHS; i++) {
        og t;
        gale_tensor *want[2] = {0}, *have[2] = {0};
        og_begin(&t);
        graphs[i].make(&t);
        bool ok = CHECK_OK(t.status) && CHECK_OK(og_tensors(&t, NULL)) && run(&t, cpu, 3, want) &&
                  run(&t, device, graphs[i].products, have);
        for (int k = 0; ok && k < t.n_outputs; k++) ok &= CHECK(og_distance(want[k], have[k]) < 1e-5);
        if (!ok) printf("  %s\n", graphs[i].name);
        for (int k = 0; k < 2; k++) gale_tensor_destroy(&want[k]), gale_tensor_destroy(&have[k]);
        og_end(&t);
    }
    gale_device_close(&device);
    gale_device_close(&cpu);
}

TEST(opencl) { compare_on("opencl"); }
TEST(vulkan) { compare_on("vulkan"); }
TEST(cuda) { compare_on("cuda"); }

/* Whatever allocation fails, nothing is lost. */
TEST(faults)
{
    gale_device *null = NULL;
    og t;
    og_begin(&t);
    with_two_biases(&t);
    of_bytes_to_levels(&t);
    of_whole_numbers(&t);
    CHECK_OK(gale__device_open_one(&gale__backend_null, 0, NULL, &null));
    gale_status status = GALE_NO_MEMORY;
    uint64_t n = 1;
    for (; status == GALE_NO_MEMORY && n < 500; n++) {
        gale_program *p = NULL;
        gale__alloc_fail_at(n);
        status = gale_program_create(t.graph, null, NULL, &p);
        gale__alloc_fail_at(0);
        gale_program_destroy(&p);
    }
    CHECK_OK(status);
    CHECK(n > 10);
    gale_device_close(&null);
    og_end(&t);
}

TESTS(ROW(opencl), ROW(vulkan), ROW(cuda), ROW(faults))
