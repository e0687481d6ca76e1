/* Constant factors behind convolutions and products: they become part of the weights, with the results that they had,
 * unless something else reads the value before, or the weights would leave the range of their type. */
#include "graph/rewrite/fold_scales.h"
#include "device/registry.h"
#include "graph/run/program.h"
#include "op_graph.h"

enum { BATCH = 2, CHANNELS = 6, MORE = 5, SIZE = 7, MOST = 4096 };

/* Random numbers from `least` on, less than 1 more. */
static gale_value numbers(og *t, float least, int rank, const int64_t *dims)
{
    float data[MOST];
    int64_t n = 1;
    for (int d = 0; d < rank; d++) n *= dims[d];
    for (int64_t i = 0; i < n; i++) data[i] = least + (og_random(t) + 2) / 4;
    return og_constant(t, rank, dims, data);
}
#define NUMBERS(t, least, ...) \
    numbers(t, least, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})

static gale_value convolve(og *t, bool bias)
{
    gale_value x = OG_INPUT(t, BATCH, CHANNELS, SIZE, SIZE), w = NUMBERS(t, -0.5F, MORE, CHANNELS, 3, 3);
    return og_op(t, "Conv", (gale_value[]){x, w, NUMBERS(t, 0, MORE)}, bias ? 3 : 2, NULL, 0);
}

static gale_value multiply(og *t)
{
    return og_op2(t, "MatMul", OG_INPUT(t, BATCH, SIZE, CHANNELS), NUMBERS(t, -0.5F, CHANNELS, MORE));
}

static gale_value normalise(og *t, gale_value x)
{
    const gale_value in[5] = {
        x, NUMBERS(t, 0.5F, MORE), NUMBERS(t, 0, MORE), NUMBERS(t, 0, MORE), NUMBERS(t, 0.5F, MORE)};
    return og_op(t, "BatchNormalization", in, 5, NULL, 0);
}

static void norm(og *t) { og_output(t, og_op1(t, "Relu", normalise(t, convolve(t, false)))); }

static void norm_and_scale(og *t)
{
    gale_value y = og_op2(t, "Mul", NUMBERS(t, 0.5F, MORE, 1, 1), normalise(t, convolve(t, true)));
    og_output(t, og_op2(t, "Sub", og_op2(t, "Div", y, NUMBERS(t, 1, 1)), NUMBERS(t, 0, 1, MORE, 1, 1)));
}

static void scaled_product(og *t)
{
    og_output(t, og_op2(t, "Mul", og_op2(t, "Add", multiply(t), NUMBERS(t, 0, MORE)), NUMBERS(t, 0.5F, MORE)));
}

static void plain_product(og *t) { og_output(t, og_op2(t, "Mul", multiply(t), NUMBERS(t, 0.5F, 1))); }

static void dense(og *t)
{
    gale_value x = OG_INPUT(t, BATCH, CHANNELS), w = NUMBERS(t, -0.5F, MORE, CHANNELS);
    const gale_attr attrs[] = {{.name = "transB", .kind = GALE_ATTR_INT, .i = 1}};
    gale_value y = og_op(t, "Gemm", (gale_value[]){x, w, NUMBERS(t, 0, MORE)}, 3, attrs, 1);
    og_output(t, og_op2(t, "Mul", y, NUMBERS(t, 0.5F, MORE)));
}

/* These stay as they are. */
static void bias_alone(og *t) { og_output(t, og_op2(t, "Add", convolve(t, false), NUMBERS(t, 0, MORE, 1, 1))); }

static void read_twice(og *t)
{
    gale_value y = convolve(t, true);
    og_output(t, og_op2(t, "Add", y, og_op2(t, "Mul", y, NUMBERS(t, 0.5F, MORE, 1, 1))));
}

static void by_pixel(og *t) { og_output(t, og_op2(t, "Mul", convolve(t, true), NUMBERS(t, 0.5F, 5, 5))); }

static void more_axes(og *t) { og_output(t, og_op2(t, "Mul", multiply(t), NUMBERS(t, 0.5F, 1, 1, 1, MORE))); }

static void turned(og *t) { og_output(t, og_op2(t, "Div", NUMBERS(t, 0.5F, 1), convolve(t, true))); }

static void too_large(og *t)
{
    const float factor = 0x1p40F;
    og_output(t, og_op2(t, "Mul", og_op2(t, "Mul", convolve(t, true), og_constant(t, 0, NULL, &factor)),
                     og_constant(t, 0, NULL, &factor)));
}

static void small_factor(og *t)
{
    const float factor = 0x1p-20F;
    og_output(t, og_op2(t, "Mul", convolve(t, true), og_constant(t, 0, NULL, &factor)));
}

static const struct {
    const char *name;
    void (*make)(og *t);
    int nodes, narrow; /* that are left, in f32 and in f16 */
} rows[] = {{"norm", norm, 2, 2}, {"norm and scale", norm_and_scale, 1, 1}, {"scaled product", scaled_product, 2, 2},
    {"plain product", plain_product, 1, 1}, {"dense", dense, 1, 1}, {"bias alone", bias_alone, 2, 2},
    {"read twice", read_twice, 3, 3}, {"by pixel", by_pixel, 2, 2}, {"more axes", more_axes, 2, 2},
    {"turned", turned, 2, 2}, {"too large", too_large, 3, 3}, {"small factor", small_factor, 1, 2}};

static bool run(const og *t, gale_device *cpu, bool plain, int nodes, gale_tensor **y)
{
    gale_program *p = NULL;
    bool ok = CHECK_OK(gale_program_create(t->graph, cpu, &(gale_program_options){.no_recognise = plain}, &p)) &&
              (plain || CHECK_EQ(p->graph->n_nodes, nodes)) &&
              CHECK_OK(gale_program_run(p, t->inputs, y, GALE_RUN_ON_HOST));
    gale_program_destroy(&p);
    return ok;
}

TEST(results_stay)
{
    gale_device *cpu = NULL;
    if (!CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu))) return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        og t;
        gale_tensor *want[1] = {0}, *have[1] = {0};
        og_begin(&t);
        rows[i].make(&t);
        bool ok = CHECK_OK(t.status) && CHECK_OK(og_tensors(&t, NULL)) && run(&t, cpu, true, 0, want) &&
                  run(&t, cpu, false, rows[i].nodes, have) && CHECK(og_distance(want[0], have[0]) < 5e-6);
        if (!ok) printf("  %s\n", rows[i].name);
        gale_tensor_destroy(&want[0]), gale_tensor_destroy(&have[0]);
        og_end(&t);
    }
    gale_device_close(&cpu);
}

/* A program whose graph is as it was given, and changed afterwards. */
static gale_status change(const og *t, gale_device *cpu, uint64_t fail, int *nodes)
{
    gale_program *p = NULL;
    CHECK_OK(gale_program_create(t->graph, cpu, &(gale_program_options){.no_recognise = true}, &p));
    gale__alloc_fail_at(fail);
    gale_status status = gale__fold_scales(p->graph, true, &p->arena);
    gale__alloc_fail_at(0);
    *nodes = p->graph->n_nodes;
    gale_program_destroy(&p);
    return status;
}

TEST(narrow)
{
    gale_device *cpu = NULL;
    if (!CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu))) return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        og t;
        int nodes = 0;
        og_begin(&t);
        rows[i].make(&t);
        if (!CHECK_OK(change(&t, cpu, 0, &nodes)) || !CHECK_EQ(nodes, rows[i].narrow)) printf("  %s\n", rows[i].name);
        og_end(&t);
    }
    gale_device_close(&cpu);
}

/* Whatever allocation fails, nothing is lost. */
TEST(faults)
{
    gale_device *cpu = NULL;
    if (!CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu))) return;
    og t;
    int nodes;
    og_begin(&t);
    norm_and_scale(&t);
    scaled_product(&t);
    gale_status status = GALE_NO_MEMORY;
    for (uint64_t n = 1; status == GALE_NO_MEMORY && n < 100; n++) status = change(&t, cpu, n, &nodes);
    CHECK_OK(status);
    og_end(&t);
    gale_device_close(&cpu);
}

TESTS(ROW(results_stay), ROW(narrow), ROW(faults))
