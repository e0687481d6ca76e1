/* Planes at another size. */
#include "jobs/upscale/plane_resize.h"
#include "base/error.h"
#include "graph/run/tensor.h"
#include <string.h>

static gale_status build(gale_graph *graph, const int64_t dims[3], const int64_t sizes[3])
{
    static const int64_t three = 3;
    bool shrinks = sizes[1] < dims[1] || sizes[2] < dims[2];
    const gale_attr attrs[] = {GALE_STRING_ATTR("mode", "cubic"), GALE_FLOAT("cubic_coeff_a", -0.5),
        GALE_INT("antialias", shrinks), GALE_INT("exclude_outside", 1)};
    gale_value x, s, y;
    GALE_TRY(gale_graph_input(graph, "planes", GALE_F32, 3, dims, NULL, &x));
    GALE_TRY(gale_graph_constant(graph, GALE_I64, 1, &three, sizes, &s));
    GALE_TRY(gale_graph_op(graph, "Resize", (gale_value[]){x, GALE_NONE, GALE_NONE, s}, 4, attrs, 4, &y, 1));
    return gale_graph_output(graph, "resized", y);
}

gale_status gale__planes_resize(gale_device *device, const float *from, int planes, int64_t width, int64_t height,
    int64_t new_width, int64_t new_height, float *to)
{
    const int64_t dims[3] = {planes, height, width}, sizes[3] = {planes, new_height, new_width};
    gale_graph *graph = NULL;
    gale_program *program = NULL;
    gale_tensor *in = NULL, *out = NULL;
    gale_status status;
    GALE_GO(gale_graph_create(&graph));
    GALE_GO(build(graph, dims, sizes));
    GALE_GO(gale_program_create(graph, device, NULL, &program));
    GALE_GO(gale__tensor_borrow(GALE_F32, 3, dims, from, NULL, NULL, &in));
    GALE_GO(gale_program_run(program, &in, &out, GALE_RUN_ON_HOST));
    GALE_GO(gale_tensor_to_cpu(out, to, (size_t)(planes * new_width * new_height) * sizeof *to));
done:
    gale_tensor_destroy(&in);
    gale_tensor_destroy(&out);
    gale_program_destroy(&program);
    gale_graph_destroy(&graph);
    return status;
}
