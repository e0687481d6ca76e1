/* A graph made by hand, with a gradient: the derivative of sum(tanh(x)) is 1 - tanh(x)^2.
 *
 *     graph [PROVIDERS] */
#include <gale/graph.h>
#include <stdio.h>

enum { N = 4 };

/* y: the sum; dx: its derivative. */
static gale_status build(gale_graph *g)
{
    const int64_t dims[1] = {N};
    gale_value x, t, y, dx;
    gale_attr whole = GALE_INT("keepdims", 0);
    gale_status status = gale_graph_input(g, "x", GALE_F32, 1, dims, NULL, &x);
    if (status == GALE_OK) status = gale_graph_op(g, "Tanh", &x, 1, NULL, 0, &t, 1);
    if (status == GALE_OK) status = gale_graph_op(g, "ReduceSum", &t, 1, &whole, 1, &y, 1);
    if (status == GALE_OK) status = gale_graph_gradient(g, y, &x, 1, &dx);
    if (status == GALE_OK) status = gale_graph_output(g, "y", y);
    return status == GALE_OK ? gale_graph_output(g, "dx", dx) : status;
}

int main(int argc, char **argv)
{
    const int64_t dims[1] = {N};
    const float data[N] = {-1, 0, 0.5f, 2};
    gale_device_options where = GALE_DEFAULTS;
    gale_device *device = NULL;
    gale_graph *graph = NULL;
    gale_program *program = NULL;
    gale_tensor *x = NULL, *out[2] = {NULL, NULL};
    where.chain = argc > 1 ? argv[1] : NULL;
    gale_status status = gale_device_open(&where, &device);
    if (status == GALE_OK) status = gale_graph_create(&graph);
    if (status == GALE_OK) status = build(graph);
    if (status == GALE_OK) status = gale_program_create(graph, device, NULL, &program);
    if (status == GALE_OK) status = gale_tensor_from_cpu(NULL, GALE_F32, 1, dims, data, &x);
    if (status == GALE_OK) status = gale_program_run(program, &x, out, GALE_RUN_ON_HOST);
    if (status != GALE_OK) fprintf(stderr, "%s\n", gale_error());
    else {
        const float *dx = (const float *)gale_tensor_data(out[1]);
        printf("sum %g, derivatives %g %g %g %g\n", (double)*(const float *)gale_tensor_data(out[0]), (double)dx[0],
            (double)dx[1], (double)dx[2], (double)dx[3]);
    }
    /* Destroying what was never made is fine. */
    for (int i = 0; i < 2; i++) gale_tensor_destroy(&out[i]);
    gale_tensor_destroy(&x);
    gale_program_destroy(&program);
    gale_graph_destroy(&graph);
    gale_device_close(&device);
    return status != GALE_OK;
}
