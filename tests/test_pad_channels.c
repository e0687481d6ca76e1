/* Convolutions over three channels: a fourth is added where matrix units multiply halves, with the results they had. */
#include "graph/rewrite/pad_channels.h"
#include "rewrite_program.h"

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

static bool has_pads(const gale_program *p, int64_t want)
{
    int64_t n = 0;
    for (int i = 0; i < p->graph->n_nodes; i++) n += !strcmp(p->graph->nodes[i].name, "Pad");
    return CHECK_EQ(n, want);
}

TEST(results_stay)
{
    og t;
    gale_tensor *want[2] = {0}, *have[2] = {0};
    og_begin(&t);
    stems(&t);
    if (CHECK_OK(t.status) && CHECK_OK(og_tensors(&t, NULL)) && rewrite_run(&t, NULL, NULL, 0, want) &&
        rewrite_run(&t, gale__pad_channels, has_pads, 2, have))
        for (int i = 0; i < 2; i++) CHECK(og_distance(want[i], have[i]) < 1e-5);
    for (int i = 0; i < 2; i++) gale_tensor_destroy(&want[i]), gale_tensor_destroy(&have[i]);
    og_end(&t);
}

TEST(where_it_pays)
{
    og t;
    og_begin(&t);
    stems(&t);
    rewrite_pays(&t, has_pads, 0, 2);
    og_end(&t);
}

TEST(faults)
{
    og t;
    og_begin(&t);
    stems(&t);
    rewrite_faults(&t, gale__pad_channels);
    og_end(&t);
}

TESTS(ROW(results_stay), ROW(where_it_pays), ROW(faults))
