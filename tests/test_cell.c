/* Recurrent cells on devices that build kernels: each step is one launch, with the CPU's results. */
#include "device/registry.h"
#include "graph/plan/plan.h"
#include "graph/run/program.h"
#include "op_graph.h"
#include "provider_device.h"
#include <math.h>

static const og_cell cells[] = {
    {"LSTM", 4, 5, 1, 7, 16, "forward", true, false}, {"LSTM", 4, 3, 17, 7, 20, "bidirectional", true, true},
    {"LSTM", 4, 1, 5, 7, 132, "reverse", false, true}, {"GRU", 3, 4, 1, 7, 36, "forward", true, true},
    {"GRU", 3, 3, 9, 7, 40, "bidirectional", true, false}, {"GRU", 3, 2, 3, 7, 8, "reverse", false, false},
    {"RNN", 1, 6, 2, 7, 4, "forward", true, true}, {"RNN", 1, 2, 33, 7, 100, "bidirectional", false, true},
    {"RNN", 1, 2, 3, 7, 5, "forward", false, false}, /* not a multiple of 4: as primitives */
};
enum { CELLS = sizeof cells / sizeof *cells };

/* Steps of the plan that belong to the routine. */
static int routines_of(const gale_program *p)
{
    int n = 0;
    const gale__plan *plan = p->instances ? p->instances->plan : NULL;
    for (int i = 0; plan && i < plan->n_steps; i++)
        n += plan->steps[i].tag.name && strstr(plan->steps[i].tag.name, "recurrent") != NULL;
    return n;
}

static bool run(og *t, gale_device *device, int routines, gale_tensor **y)
{
    gale_program *p = NULL;
    bool ok = CHECK_OK(gale_program_create(t->graph, device, NULL, &p)) &&
              CHECK_OK(gale_program_run(p, t->inputs, y, GALE_RUN_ON_HOST)) &&
              (routines < 0 || CHECK_EQ(routines_of(p), routines));
    gale_program_destroy(&p);
    return ok;
}

static void compare_on(const char *provider)
{
    gale_device *cpu = NULL, *device = provider_device(provider);
    if (!device) SKIP("%s", gale_error());
    CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu));
    for (int i = 0; i < CELLS; i++) {
        const og_cell *c = &cells[i];
        og t;
        gale_tensor *want[3] = {0}, *have[3] = {0};
        og_begin(&t);
        og_recurrent(&t, c);
        bool ok = CHECK_OK(t.status) && CHECK_OK(og_tensors(&t, NULL)) && run(&t, cpu, -1, want) &&
                  run(&t, device, c->hidden % 4 ? 0 : (int)c->trips * og_directions(c), have);
        for (int k = 0; ok && k < t.n_outputs; k++) ok &= CHECK(og_distance(want[k], have[k]) < 1e-4);
        if (!ok) printf("  %s of %lld units\n", c->op, (long long)c->hidden);
        for (int k = 0; k < 3; k++) gale_tensor_destroy(&want[k]), gale_tensor_destroy(&have[k]);
        og_end(&t);
    }
    gale_device_close(&device);
    gale_device_close(&cpu);
}

TEST(opencl) { compare_on("opencl"); }
TEST(vulkan) { compare_on("vulkan"); }
TEST(cuda) { compare_on("cuda"); }

TESTS(ROW(opencl), ROW(vulkan), ROW(cuda))
