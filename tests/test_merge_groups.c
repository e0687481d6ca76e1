/* Convolutions of many small groups: merged where matrix units multiply halves, with the results they had. */
#include "graph/rewrite/merge_groups.h"
#include "rewrite_program.h"

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

static bool has_groups(const gale_program *p, int64_t want)
{
    for (int i = 0; i < p->graph->n_nodes; i++)
        for (int k = 0; k < p->graph->nodes[i].n_attrs; k++)
            if (!strcmp(p->graph->nodes[i].attrs[k].name, "group"))
                return CHECK_EQ(p->graph->nodes[i].attrs[k].i, want);
    return CHECK(false);
}

TEST(results_stay)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        og t;
        gale_tensor *want[1] = {0}, *have[1] = {0};
        og_begin(&t);
        grouped(&t, rows[i].groups, rows[i].in, rows[i].out, rows[i].side);
        bool ok = CHECK_OK(t.status) && CHECK_OK(og_tensors(&t, NULL)) && rewrite_run(&t, NULL, NULL, 0, want) &&
                  rewrite_run(&t, gale__merge_groups, has_groups, rows[i].merged, have) &&
                  CHECK(og_distance(want[0], have[0]) < 1e-5);
        if (!ok) printf("  %lld groups\n", (long long)rows[i].groups);
        gale_tensor_destroy(&want[0]), gale_tensor_destroy(&have[0]);
        og_end(&t);
    }
}

TEST(where_it_pays)
{
    og t;
    og_begin(&t);
    grouped(&t, 8, 4, 4, 3);
    rewrite_pays(&t, has_groups, 8, 1);
    og_end(&t);
}

TEST(faults)
{
    og t;
    og_begin(&t);
    grouped(&t, 8, 4, 4, 3);
    rewrite_faults(&t, gale__merge_groups);
    og_end(&t);
}

TESTS(ROW(results_stay), ROW(where_it_pays), ROW(faults))
