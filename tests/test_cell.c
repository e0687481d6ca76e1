/* Recurrent cells on devices that build kernels: each step is one launch, or all of them are one kernel whose groups
 * wait for each other, with the CPU's results. */
#include "device/registry.h"
#include "graph/plan/plan.h"
#include "graph/run/program.h"
#include "kernel/routines/routine.h"
#include "op_graph.h"
#include "provider_device.h"
#include <math.h>
#include <stdlib.h>

static const og_cell cells[] = {
    {"LSTM", 4, 5, 1, 7, 16, "forward", true, false}, {"LSTM", 4, 3, 17, 7, 20, "bidirectional", true, true},
    {"LSTM", 4, 1, 5, 7, 132, "reverse", false, true}, {"GRU", 3, 4, 1, 7, 36, "forward", true, true},
    {"GRU", 3, 3, 9, 7, 40, "bidirectional", true, false}, {"GRU", 3, 2, 3, 7, 8, "reverse", false, false},
    {"RNN", 1, 6, 2, 7, 4, "forward", true, true}, {"RNN", 1, 2, 33, 7, 100, "bidirectional", false, true},
    {"RNN", 1, 2, 3, 7, 5, "forward", false, false}, /* not a multiple of 4: as primitives */
};
/* Of many groups, for devices whose groups wait for each other: parts of blocks, several tiles, 16 units and fewer. */
static const og_cell large[] = {
    {"LSTM", 4, 40, 16, 32, 512, "forward", true, false},
    {"LSTM", 4, 9, 1, 32, 512, "bidirectional", true, true},
    {"LSTM", 4, 12, 64, 32, 512, "reverse", true, true},
    {"LSTM", 4, 5, 130, 32, 264, "forward", false, true},
    {"LSTM", 4, 6, 17, 32, 1024, "forward", true, true},
    {"GRU", 3, 20, 17, 32, 512, "bidirectional", true, true},
    {"GRU", 3, 7, 100, 32, 200, "reverse", false, false, true},
    {"RNN", 1, 30, 3, 32, 1000, "forward", true, true},
    {"RNN", 1, 4, 300, 32, 512, "bidirectional", true, false},
    {"LSTM", 4, 200, 1, 32, 72, "forward", true, true},
};
enum { CELLS = sizeof cells / sizeof *cells, LARGE = sizeof large / sizeof *large };

/* Steps of the plan that belong to the routine. */
static int routines_of(const gale_program *p)
{
    int n = 0;
    const gale__plan *plan = p->instances ? p->instances->plan : NULL;
    for (int i = 0; plan && i < plan->n_steps; i++)
        n += plan->steps[i].tag.name && strstr(plan->steps[i].tag.name, "recurrent") != NULL;
    return n;
}

static bool run(og *t, gale_device *device, gale_precision precision, int routines, gale_tensor **y)
{
    gale_program *p = NULL;
    gale_program_options o = {.precision = precision};
    bool ok = CHECK_OK(gale_program_create(t->graph, device, &o, &p)) &&
              CHECK_OK(gale_program_run(p, t->inputs, y, GALE_RUN_ON_HOST)) &&
              (routines < 0 || CHECK_EQ(routines_of(p), routines));
    gale_program_destroy(&p);
    return ok;
}

/* Weights of more than a few units are small, so that rounding errors do not grow from step to step. */
static void scale_weights(og *t, const og_cell *c)
{
    for (int i = 1; i <= 2 && c->hidden >= 16; i++) {
        float *w = gale_tensor_data(t->inputs[i]), by = (float)(0.5 / sqrt((double)c->hidden));
        for (size_t k = 0; k < gale_tensor_size_bytes(t->inputs[i]) / sizeof *w; k++) w[k] *= by;
    }
}

/* One cell on the device and on the CPU. */
static void compare(const og_cell *c, gale_device *cpu, gale_device *device, gale_precision precision, int routines)
{
    og t;
    gale_tensor *want[3] = {0}, *have[3] = {0};
    og_begin(&t);
    og_recurrent(&t, c);
    bool ok = CHECK_OK(t.status) && CHECK_OK(og_tensors(&t, NULL));
    if (ok) scale_weights(&t, c);
    ok = ok && run(&t, cpu, GALE_PRECISION_AS_IT_IS, -1, want) && run(&t, device, precision, routines, have);
    double most = precision == GALE_PRECISION_AS_IT_IS ? 1e-4 : precision == GALE_PRECISION_F16 ? 0.02 : 0.1;
    for (int k = 0; ok && k < t.n_outputs; k++) {
        double d = og_distance(want[k], have[k]);
        ok = CHECK(d < most);
        if (!ok || getenv("SHOW")) printf("  output %d differs by %g\n", k, d);
    }
    if (!ok)
        printf("  %s of %lld units, batch %lld, %s\n", c->op, (long long)c->hidden, (long long)c->batch, c->direction);
    for (int k = 0; k < 3; k++) gale_tensor_destroy(&want[k]), gale_tensor_destroy(&have[k]);
    og_end(&t);
}

/* Launches of a cell: one or two for all steps of a direction where that fits, else one for each step. */
static int launches_of(const og_cell *c, const gale_device *device, gale_type type)
{
    gale__cpu_cell a = {.kind = c->gates == 4   ? GALE__CELL_LSTM
                                : c->gates == 3 ? GALE__CELL_GRU
                                                : GALE__CELL_RNN,
        .trips = c->trips,
        .batch = c->batch,
        .hidden = c->hidden,
        .type = type,
        .timed = c->timed};
    gale__routine_launch l;
    int loop = 0;
    while (device->info.caps.groups_together && gale__cell_loop_kernels.describe(&a, &device->info.caps, loop, &l))
        loop++;
    return (loop ? loop : c->hidden % 4 || c->timed ? 0 : (int)c->trips) * og_directions(c);
}

static void compare_on(const char *provider)
{
    gale_device *cpu = NULL, *device = provider_device(provider);
    if (!device) SKIP("%s", gale_error());
    CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu));
    for (int i = 0; i < CELLS; i++)
        compare(&cells[i], cpu, device, GALE_PRECISION_AS_IT_IS, launches_of(&cells[i], device, GALE_F32));
    for (int i = 0; i < LARGE && device->info.caps.groups_together; i++) {
        compare(&large[i], cpu, device, GALE_PRECISION_AS_IT_IS, launches_of(&large[i], device, GALE_F32));
        compare(&large[i], cpu, device, GALE_PRECISION_F16, launches_of(&large[i], device, GALE_F16));
        compare(&large[i], cpu, device, GALE_PRECISION_BF16, launches_of(&large[i], device, GALE_BF16));
    }
    gale_device_close(&device);
    gale_device_close(&cpu);
}

TEST(opencl) { compare_on("opencl"); }
TEST(vulkan) { compare_on("vulkan"); }
TEST(cuda) { compare_on("cuda"); }

/* A single group waits for nobody, so that any device runs the kernel of all steps for cells that are small enough. */
TEST(one_group)
{
    static const og_cell small[] = {{"LSTM", 4, 5, 1, 7, 16, "forward", true, false},
        {"LSTM", 4, 4, 19, 7, 8, "bidirectional", true, true, true}, {"GRU", 3, 4, 1, 7, 16, "reverse", true, true},
        {"GRU", 3, 3, 35, 7, 8, "forward", false, false}, {"RNN", 1, 6, 2, 7, 8, "forward", true, true},
        {"RNN", 1, 3, 100, 7, 16, "bidirectional", false, true}};
    gale_device *cpu = NULL, *device = provider_device("opencl");
    if (!device) SKIP("%s", gale_error());
    device->info.caps.groups_together = 1;
    device->info.caps.matrix_emulated = true;
    CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu));
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        int launches = 2 * og_directions(&small[i]);
        bool all = !test_light(), brief = test_brief(); /* the compiler takes seconds for each kernel */
        if (all || (i == 1 && !brief)) compare(&small[i], cpu, device, GALE_PRECISION_AS_IT_IS, launches);
        if (all || i == 0) compare(&small[i], cpu, device, GALE_PRECISION_F16, launches);
        if (all || (i == 2 && !brief)) compare(&small[i], cpu, device, GALE_PRECISION_BF16, launches);
    }
    gale_device_close(&device);
    gale_device_close(&cpu);
}

/* Clusters as single groups, which need no other, so that any device runs the kernel that keeps all weights of a layer
 * in registers: of a group (hidden 12 and 24) or of a cluster. */
TEST(clusters)
{
    static const og_cell close[] = {{"LSTM", 4, 5, 1, 7, 16, "forward", true, false},
        {"GRU", 3, 4, 3, 7, 12, "reverse", true, true}, {"LSTM", 4, 4, 5, 7, 16, "bidirectional", true, true, true},
        {"RNN", 1, 6, 2, 7, 32, "bidirectional", true, true}, {"GRU", 3, 5, 9, 7, 24, "forward", false, true},
        {"LSTM", 4, 7, 40, 7, 16, "forward", true, true}};
    gale_device *cpu = NULL, *device = provider_device("opencl");
    if (!device) SKIP("%s", gale_error());
    device->info.caps.groups_together = 16;
    device->info.caps.matrix_emulated = true;
    CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu));
    for (size_t i = 0; i < sizeof close / sizeof *close; i++) {
        bool all = !test_light(), brief = test_brief();
        if (all || (i < 2 && !brief))
            compare(&close[i], cpu, device, GALE_PRECISION_AS_IT_IS, og_directions(&close[i]));
        if (close[i].hidden % 8) continue;
        if (all || i == 0) compare(&close[i], cpu, device, GALE_PRECISION_F16, og_directions(&close[i]));
        if (all && i == 3) compare(&close[i], cpu, device, GALE_PRECISION_BF16, og_directions(&close[i]));
    }
    gale_device_close(&device);
    gale_device_close(&cpu);
}

TESTS(ROW(opencl), ROW(vulkan), ROW(cuda), ROW(one_group), ROW(clusters))
