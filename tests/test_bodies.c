/* Operators whose attributes are graphs: what bodies capture, bodies within bodies, and loops of many steps. */
#include "base/error.h"
#include "op_graph.h"
#include "ops/cases/case_body.h"
#include <math.h>

static gale_device *device;

/* Runs the graph (destroyed here) on one set of inputs; NULL on failure. */
static gale_tensor *run(gale_graph *graph, gale_tensor **inputs, int n)
{
    gale_program *p = NULL;
    gale_tensor *out[2] = {NULL, NULL};
    gale_status status = gale_program_create(graph, device, NULL, &p);
    if (status == GALE_OK) status = gale_program_run(p, inputs, out, GALE_RUN_ON_HOST);
    CHECK_OK(status);
    gale_program_destroy(&p);
    gale_graph_destroy(&graph);
    for (int i = 0; i < n; i++) gale_tensor_destroy(&inputs[i]);
    gale_tensor_destroy(&out[1]);
    return out[0];
}

static gale_tensor *floats(int rank, const int64_t *dims, const float *data)
{
    gale_tensor *t = NULL;
    CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, rank, dims, data, &t));
    return t;
}

/* Scan over x [3, 2] whose body has a shape for an input of the graph: it must be known when planning, and is. */
TEST(captured_shapes_are_known_when_planning)
{
    og t;
    gale_graph *body = NULL;
    gale_value in[3], out[2];
    const int64_t state[1] = {2}, x[2] = {3, 2}, one[1] = {1}, two[1] = {2};
    gale_tensor *shape = NULL;
    og_begin(&t);
    if (!CHECK_OK(gale__case_body("{3:Reshape(1,2);Add(0,3)>4,4}", &body))) return;
    in[0] = og_input(&t, 1, state), in[1] = og_input(&t, 2, x);
    og_note(&t, gale_graph_input(t.graph, "shape", GALE_I64, 1, one, NULL, &in[2]));
    const gale_attr attrs[3] = {{.name = "body", .kind = GALE_ATTR_GRAPH, .graph = body},
        GALE_INT("num_scan_inputs", 1), GALE_INT("captures", 1)};
    og_note(&t, gale_graph_op(t.graph, "Scan", in, 3, attrs, 3, out, 2));
    gale_graph_destroy(&body);
    og_note(&t, gale_graph_output(t.graph, "y", out[0]));
    if (!CHECK_OK(t.status) || !CHECK_OK(gale_tensor_from_cpu(NULL, GALE_I64, 1, one, two, &shape))) return;
    gale_tensor *inputs[3] = {floats(1, state, (const float[]){1, 2}),
        floats(2, x, (const float[]){1, 10, 2, 20, 3, 30}), shape},
                *y = run(t.graph, inputs, 3);
    const float *got = y ? gale_tensor_data(y) : NULL;
    CHECK(got && got[0] == 7 && got[1] == 62);
    gale_tensor_destroy(&y);
}

/* A graph of one Scan whose body is the graph given, which is let go. */
static gale_status scan_of(gale_graph **body)
{
    gale_graph *g = NULL;
    gale_value in[2], out[1];
    const int64_t dims[1] = {1};
    GALE_TRY(gale_graph_create(&g));
    const gale_attr attrs[2] = {
        {.name = "body", .kind = GALE_ATTR_GRAPH, .graph = *body}, GALE_INT("num_scan_inputs", 1)};
    gale_status status = gale_graph_input(g, "s", GALE_F32, 1, dims, NULL, &in[0]);
    if (status == GALE_OK) status = gale_graph_input(g, "x", GALE_F32, 1, dims, NULL, &in[1]);
    if (status == GALE_OK) status = gale_graph_op(g, "Scan", in, 2, attrs, 2, out, 1);
    if (status == GALE_OK) status = gale_graph_output(g, "s", out[0]);
    gale_graph_destroy(body);
    *body = g;
    return status;
}

TEST(bodies_within_bodies_have_an_end)
{
    gale_graph *g = NULL;
    gale_status status = gale__case_body("{2:Add(0,1)>2}", &g);
    int depth = 0;
    while (CHECK(depth < 100) && status == GALE_OK) status = scan_of(&g), depth++;
    CHECK_EQ(status, GALE_LIMIT);
    CHECK(strstr(gale_error(), "nested") != NULL);
    gale_graph_destroy(&g);
}

/* A scan over rows of scans over elements: the sum of a matrix, row by row and element by element. */
TEST(scans_of_scans)
{
    gale_graph *g = NULL;
    og t;
    gale_value in[2], out[1];
    const int64_t one[1] = {1}, x[3] = {2, 3, 1};
    if (!CHECK_OK(gale__case_body("{2:Add(0,1)>2}", &g)) || !CHECK_OK(scan_of(&g))) return;
    og_begin(&t);
    in[0] = og_input(&t, 1, one), in[1] = og_input(&t, 3, x);
    const gale_attr attrs[2] = {{.name = "body", .kind = GALE_ATTR_GRAPH, .graph = g}, GALE_INT("num_scan_inputs", 1)};
    og_note(&t, gale_graph_op(t.graph, "Scan", in, 2, attrs, 2, out, 1));
    gale_graph_destroy(&g);
    og_note(&t, gale_graph_output(t.graph, "y", out[0]));
    if (!CHECK_OK(t.status)) return;
    gale_tensor *inputs[2] = {floats(1, one, (const float[]){0.5f}), floats(3, x, (const float[]){1, 2, 3, 4, 5, 6})},
                *y = run(t.graph, inputs, 2);
    const float *got = y ? gale_tensor_data(y) : NULL;
    CHECK(got && got[0] == 21.5f);
    gale_tensor_destroy(&y);
}

/* h = tanh(x + h / 2) two thousand times, against the same in plain C. */
TEST(a_long_loop)
{
    enum { STEPS = 2000 };
    static float x[STEPS];
    og t;
    const int64_t dims[3] = {STEPS, 1, 1}, small[3] = {1, 1, 1};
    double h = 0;
    og_begin(&t);
    gale_value in[3] = {og_input(&t, 3, dims), og_constant(&t, 3, small, (const float[]){1}),
        og_constant(&t, 3, small, (const float[]){0.5f})},
               out[2];
    og_note(&t, gale_graph_op(t.graph, "RNN", in, 3, NULL, 0, out, 2));
    og_note(&t, gale_graph_output(t.graph, "h", out[1]));
    if (!CHECK_OK(t.status)) return;
    for (int i = 0; i < STEPS; i++) x[i] = (float)(i * 37 % 101 - 50) / 25, h = tanh((double)x[i] + h / 2);
    gale_tensor *inputs[1] = {floats(3, dims, x)}, *y = run(t.graph, inputs, 1);
    const float *got = y ? gale_tensor_data(y) : NULL;
    if (!CHECK(got && fabs(got[0] - h) < 1e-5) && got) printf("  %g, not %g\n", (double)got[0], h);
    gale_tensor_destroy(&y);
}

int main(int argc, char **argv)
{
    static const test_row rows[] = {ROW(captured_shapes_are_known_when_planning), ROW(bodies_within_bodies_have_an_end),
        ROW(scans_of_scans), ROW(a_long_loop)};
    return test_main_on("cpu", &device, rows, sizeof rows / sizeof *rows, argc, argv);
}
