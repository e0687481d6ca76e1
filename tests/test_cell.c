/* Recurrent cells on devices that build kernels: each step is one launch, with the CPU's results. */
#include "device/registry.h"
#include "graph/plan/plan.h"
#include "graph/run/program.h"
#include "op_graph.h"
#include <math.h>

typedef struct cell {
    const char *op;
    int64_t gates, trips, batch, hidden;
    const char *direction;
    bool bias, first; /* first: states are given */
} cell;

static const cell cells[] = {
    {"LSTM", 4, 5, 1, 16, "forward", true, false}, {"LSTM", 4, 3, 17, 20, "bidirectional", true, true},
    {"LSTM", 4, 1, 5, 132, "reverse", false, true}, {"GRU", 3, 4, 1, 36, "forward", true, true},
    {"GRU", 3, 3, 9, 40, "bidirectional", true, false}, {"GRU", 3, 2, 3, 8, "reverse", false, false},
    {"RNN", 1, 6, 2, 4, "forward", true, true}, {"RNN", 1, 2, 33, 100, "bidirectional", false, true},
    {"RNN", 1, 2, 3, 5, "forward", false, false}, /* not a multiple of 4: as primitives */
};
enum { CELLS = sizeof cells / sizeof *cells, INPUTS = 7 };

static void recurrent(og *t, const cell *c)
{
    int64_t d = strcmp(c->direction, "bidirectional") ? 1 : 2, rows = c->gates * c->hidden;
    bool lstm = c->gates == 4;
    gale_value in[7] = {OG_INPUT(t, c->trips, c->batch, INPUTS), OG_INPUT(t, d, rows, INPUTS),
        OG_INPUT(t, d, rows, c->hidden), c->bias ? OG_INPUT(t, d, 2 * rows) : GALE_NONE, GALE_NONE, GALE_NONE,
        GALE_NONE};
    if (c->first) in[5] = OG_INPUT(t, d, c->batch, c->hidden);
    if (c->first && lstm) in[6] = OG_INPUT(t, d, c->batch, c->hidden);
    gale_attr attrs[3] = {GALE_STRING_ATTR("direction", c->direction), GALE_INT("hidden_size", c->hidden),
        GALE_INT("linear_before_reset", 1)};
    gale_value out[3] = {GALE_NONE, GALE_NONE, GALE_NONE};
    if (t->status == GALE_OK)
        t->status = gale_graph_op(
            t->graph, c->op, in, 5 + (c->first ? 1 + lstm : 0), attrs, c->gates == 3 ? 3 : 2, out, 2 + lstm);
    for (int i = 0; i < 2 + lstm; i++) og_output(t, out[i]);
}

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
              CHECK_OK(gale_program_run(p, t->inputs, y, true)) && (routines < 0 || CHECK_EQ(routines_of(p), routines));
    gale_program_destroy(&p);
    return ok;
}

static double distance(gale_tensor *a, gale_tensor *b)
{
    const float *x = gale_tensor_data(a), *y = gale_tensor_data(b);
    double worst = 0;
    for (size_t i = 0; i < gale_tensor_size_bytes(a) / sizeof *x; i++) worst = fmax(worst, fabs((double)x[i] - y[i]));
    return worst;
}

static void compare_on(const gale__backend *backend)
{
    gale_device *cpu = NULL, *device = NULL;
    if (gale__device_open_one(backend, 0, NULL, &device) != GALE_OK) {
        SKIP("%s", gale_error());
        return;
    }
    CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu));
    for (int i = 0; i < CELLS; i++) {
        const cell *c = &cells[i];
        int directions = strcmp(c->direction, "bidirectional") ? 1 : 2;
        og t;
        gale_tensor *want[3] = {0}, *have[3] = {0};
        og_begin(&t);
        recurrent(&t, c);
        bool ok = CHECK_OK(t.status) && CHECK_OK(og_tensors(&t, NULL)) && run(&t, cpu, -1, want) &&
                  run(&t, device, c->hidden % 4 ? 0 : (int)c->trips * directions, have);
        for (int k = 0; ok && k < t.n_outputs; k++) ok &= CHECK(distance(want[k], have[k]) < 1e-4);
        if (!ok) printf("  %s of %lld units\n", c->op, (long long)c->hidden);
        for (int k = 0; k < 3; k++) gale_tensor_destroy(&want[k]), gale_tensor_destroy(&have[k]);
        og_end(&t);
    }
    gale_device_close(&device);
    gale_device_close(&cpu);
}

TEST(opencl) { compare_on(&gale__backend_opencl); }
TEST(vulkan) { compare_on(&gale__backend_vulkan); }
TEST(cuda) { compare_on(&gale__backend_cuda); }

TESTS(ROW(opencl), ROW(vulkan), ROW(cuda))
