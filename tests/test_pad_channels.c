/* Convolutions over three channels: a fourth is added where matrix units multiply halves, with the results they had. */
#include "device/null/null.h"
#include "device/registry.h"
#include "graph/rewrite/pad_channels.h"
#include "graph/run/program.h"
#include "op_graph.h"

enum { WEIGHTS_MOST = 4096 };

static gale_value convolution(og *t, gale_value x, int64_t in, int64_t out, int64_t side)
{
    const int64_t dims[4] = {out, in, side, side}, pads[4] = {1, 1, 0, 0};
    float data[WEIGHTS_MOST];
    for (int64_t i = 0; i < out * in * side * side; i++) data[i] = og_random(t) / 8;
    const gale_attr attrs[] = {{.name = "pads", .kind = GALE_ATTR_INTS, .ints = pads, .count = 4}};
    return og_op(t, "Conv", (gale_value[]){x, og_constant(t, 4, dims, data)}, 2, attrs, 1);
}

/* Two that read the picture, one of five channels behind one of them. */
static void stems(og *t)
{
    gale_value x = OG_INPUT(t, 2, 3, 9, 8);
    og_output(t, convolution(t, convolution(t, x, 3, 5, 3), 5, 3, 1));
    og_output(t, convolution(t, x, 3, 7, 2));
}

static int pads_of(const gale_program *p)
{
    int n = 0;
    for (int i = 0; i < p->graph->n_nodes; i++) n += !strcmp(p->graph->nodes[i].name, "Pad");
    return n;
}

/* On the CPU the program is made as ever, and then changed. */
static bool run(og *t, bool change, gale_tensor **y)
{
    gale_device *cpu = NULL;
    gale_program *p = NULL;
    bool ok = CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu)) &&
              CHECK_OK(gale_program_create(t->graph, cpu, NULL, &p)) && CHECK_EQ(pads_of(p), 0);
    if (ok && change) ok = CHECK_OK(gale__pad_channels(p->graph, true, &p->arena)) && CHECK_EQ(pads_of(p), 2);
    ok = ok && CHECK_OK(gale_program_run(p, t->inputs, y, GALE_RUN_ON_HOST));
    gale_program_destroy(&p);
    gale_device_close(&cpu);
    return ok;
}

TEST(results_stay)
{
    og t;
    gale_tensor *want[2] = {0}, *have[2] = {0};
    og_begin(&t);
    stems(&t);
    if (CHECK_OK(t.status) && CHECK_OK(og_tensors(&t, NULL)) && run(&t, false, want) && run(&t, true, have))
        for (int i = 0; i < 2; i++) CHECK(og_distance(want[i], have[i]) < 1e-5);
    for (int i = 0; i < 2; i++) gale_tensor_destroy(&want[i]), gale_tensor_destroy(&have[i]);
    og_end(&t);
}

/* Only halves, and only with matrix units. */
TEST(where_it_pays)
{
    og t;
    og_begin(&t);
    stems(&t);
    for (int way = 0; way < 4; way++) {
        gale_device *null = NULL;
        gale_program *p = NULL;
        gale_program_options options = {.precision = way & 1 ? GALE_PRECISION_F16 : GALE_PRECISION_AS_IT_IS};
        gale__null_set_caps(NULL);
        CHECK_OK(gale__device_open_one(&gale__backend_null, 0, NULL, &null));
        gale_device_caps caps = null->info.caps;
        gale_device_close(&null);
        caps.n_matrix = (uint32_t)way >> 1;
        gale__null_set_caps(&caps);
        CHECK_OK(gale__device_open_one(&gale__backend_null, 0, NULL, &null));
        if (CHECK_OK(gale_program_create(t.graph, null, &options, &p))) CHECK_EQ(pads_of(p), way == 3 ? 2 : 0);
        gale_program_destroy(&p);
        gale_device_close(&null);
    }
    gale__null_set_caps(NULL);
    og_end(&t);
}

/* Whatever allocation fails, nothing is lost. */
TEST(faults)
{
    gale_device *cpu = NULL;
    og t;
    og_begin(&t);
    stems(&t);
    CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu));
    gale_status status = GALE_NO_MEMORY;
    for (uint64_t n = 1; status == GALE_NO_MEMORY && n < 100; n++) {
        gale_program *p = NULL;
        CHECK_OK(gale_program_create(t.graph, cpu, NULL, &p));
        gale__alloc_fail_at(n);
        status = gale__pad_channels(p->graph, true, &p->arena);
        gale__alloc_fail_at(0);
        gale_program_destroy(&p);
    }
    CHECK_OK(status);
    gale_device_close(&cpu);
    og_end(&t);
}

TESTS(ROW(results_stay), ROW(where_it_pays), ROW(faults))
