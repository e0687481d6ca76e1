/* Which suppressions the routines accept: f32, any number of batches and classes on the CPU, up to a limit on a GPU.
 * */
#include "graph/plan/paths.h"

/* A threshold: one f32, or left out. */
static bool take_threshold(gale__claim *c, int i, int64_t *present)
{
    gale__node n = i < c->n_in ? c->in[i] : GALE__NIL;
    *present = n >= 0;
    return n < 0 ||
           (gale__claim_node(c, n).type == GALE_F32 && gale__prim_elements(c->g, n) == 1 && gale__claim_operand(c, n));
}

static gale__nms_args *describe(gale__claim *c)
{
    gale__nms_args *a = gale__claim_args(c, sizeof *a);
    gale__prim_node boxes = gale__claim_node(c, c->in[0]), scores = gale__claim_node(c, c->in[1]),
                    out = gale__claim_node(c, c->out);
    if (!a || boxes.type != GALE_F32 || scores.type != GALE_F32 || boxes.dims[1] > INT32_MAX || c->n_out != 2)
        return NULL;
    *a = (gale__nms_args){.batches = scores.dims[0],
        .classes = scores.dims[1],
        .boxes = scores.dims[2],
        .most = out.dims[0] / (scores.dims[0] * scores.dims[1]),
        .centre = gale__claim_attr(c, "center_point_box", 0) != 0};
    gale__claim_operand(c, c->in[0]);
    gale__claim_operand(c, c->in[1]);
    if (!take_threshold(c, 3, &a->overlap) || !take_threshold(c, 4, &a->least)) return NULL;
    c->together = true;
    c->operations = 20.0 * (double)gale__prim_elements(c->g, c->in[1]);
    return a;
}

bool gale__claim_suppress(gale__claim *c)
{
    gale__nms_args *a = describe(c);
    if (a) c->scratch_bytes = gale__cpu_nms_scratch(a);
    return a != NULL;
}

bool gale__claim_suppress_kernels(gale__claim *c)
{
    gale__nms_args *a = describe(c);
    return a && gale__nms_kernels_fit(a, &c->device->info.caps, &c->scratch_bytes);
}
