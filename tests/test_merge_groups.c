/* Convolutions of many small groups: merged where matrix units multiply halves, with the results they had. */
#include "device/null/null.h"
#include "device/registry.h"
#include "graph/rewrite/merge_groups.h"
#include "graph/rewrite/merge_products.h"
#include "graph/run/program.h"
#include "op_graph.h"
#include <math.h>

enum { SIZE = 7, WEIGHTS_MOST = 4096 };

static void grouped(og *t, int64_t groups, int64_t in, int64_t out, int64_t side)
{
    const int64_t dims[4] = {groups * out, in, side, side};
    float data[WEIGHTS_MOST];
    for (int64_t i = 0; i < dims[0] * in * side * side; i++) data[i] = og_random(t) / 8;
    gale_value x = OG_INPUT(t, 2, groups * in, SIZE, SIZE), w = og_constant(t, 4, dims, data);
    const gale_attr attrs[] = {{.name = "group", .kind = GALE_ATTR_INT, .i = groups}};
    og_output(t, og_op(t, "Conv", (gale_value[]){x, w}, 2, attrs, 1));
}

static const struct {
    int64_t groups, in, out, side, merged; /* merged: groups that are left */
} rows[] = {{8, 4, 4, 3, 1}, {16, 4, 2, 1, 2}, {6, 3, 5, 3, 3}, {2, 24, 3, 1, 2}, {5, 4, 4, 1, 5}, {8, 1, 2, 3, 8},
    {4, 8, 1, 3, 1}};

static int64_t groups_of(const gale_program *p)
{
    for (int i = 0; i < p->graph->n_nodes; i++)
        for (int k = 0; k < p->graph->nodes[i].n_attrs; k++)
            if (!strcmp(p->graph->nodes[i].attrs[k].name, "group")) return p->graph->nodes[i].attrs[k].i;
    return 0;
}

/* On the CPU the program is made as ever, and then changed. */
static bool run(og *t, bool change, int64_t groups, gale_tensor **y)
{
    gale_device *cpu = NULL;
    gale_program *p = NULL;
    bool ok = CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu)) &&
              CHECK_OK(gale_program_create(t->graph, cpu, NULL, &p));
    if (ok && change) ok = CHECK_OK(gale__merge_groups(p->graph, true, &p->arena)) && CHECK_EQ(groups_of(p), groups);
    ok = ok && CHECK_OK(gale_program_run(p, t->inputs, y, GALE_RUN_ON_HOST));
    gale_program_destroy(&p);
    gale_device_close(&cpu);
    return ok;
}

TEST(results_stay)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        og t;
        gale_tensor *want[1] = {0}, *have[1] = {0};
        og_begin(&t);
        grouped(&t, rows[i].groups, rows[i].in, rows[i].out, rows[i].side);
        bool ok = CHECK_OK(t.status) && CHECK_OK(og_tensors(&t, NULL)) && run(&t, false, 0, want) &&
                  run(&t, true, rows[i].merged, have) && CHECK(og_distance(want[0], have[0]) < 1e-5);
        if (!ok) printf("  %lld groups\n", (long long)rows[i].groups);
        gale_tensor_destroy(&want[0]), gale_tensor_destroy(&have[0]);
        og_end(&t);
    }
}

/* Only halves, and only with matrix units. */
TEST(where_it_pays)
{
    og t;
    og_begin(&t);
    grouped(&t, 8, 4, 4, 3);
    gale_device_caps caps = {0};
    for (int units = 0; units < 2; units++)
        for (int precision = 0; precision < 2; precision++) {
            gale_device *null = NULL;
            gale_program *p = NULL;
            gale_program_options options = {.precision = precision ? GALE_PRECISION_F16 : GALE_PRECISION_AS_IT_IS};
            gale__null_set_caps(NULL);
            CHECK_OK(gale__device_open_one(&gale__backend_null, 0, NULL, &null));
            caps = null->info.caps;
            gale_device_close(&null);
            caps.n_matrix = (uint32_t)units;
            gale__null_set_caps(&caps);
            CHECK_OK(gale__device_open_one(&gale__backend_null, 0, NULL, &null));
            if (CHECK_OK(gale_program_create(t.graph, null, &options, &p)))
                CHECK_EQ(groups_of(p), units && precision ? 1 : 8);
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
    grouped(&t, 8, 4, 4, 3);
    CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu));
    gale_status status = GALE_NO_MEMORY;
    for (uint64_t n = 1; status == GALE_NO_MEMORY && n < 100; n++) {
        gale_program *p = NULL;
        CHECK_OK(gale_program_create(t.graph, cpu, NULL, &p));
        gale__alloc_fail_at(n);
        status = gale__merge_groups(p->graph, true, &p->arena);
        gale__alloc_fail_at(0);
        gale_program_destroy(&p);
    }
    CHECK_OK(status);
    gale_device_close(&cpu);
    og_end(&t);
}

TESTS(ROW(results_stay), ROW(where_it_pays), ROW(faults))
