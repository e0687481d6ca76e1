/* Claims the levels (MIP chain) of a picture, if the device has room for the kernels that compute them. */
#include "graph/plan/paths.h"

bool gale__claim_levels(gale__claim *c)
{
    gale__levels_args *a = gale__claim_args(c, sizeof *a);
    gale__prim_node in = gale__claim_node(c, c->in[0]);
    if (!a) return false;
    *a = (gale__levels_args){.channels = in.dims[0],
        .height = in.dims[1],
        .width = in.dims[2],
        .type = in.type,
        .reduce = (int64_t)gale__claim_attr(c, "reduce", GALE__LEVELS_AVERAGE),
        .round_up = (int64_t)gale__claim_attr(c, "round_up", 0)};
    c->operations = 4.0 * (double)gale__prim_elements(c->g, c->in[0]);
    return gale__levels_kernels_fit(a, &c->device->info.caps) && gale__claim_operand(c, c->in[0]);
}
