/* Which counts of codes the kernels take: rows of whole vectors. */
#include "graph/plan/paths.h"

bool gale__claim_counts(gale__claim *c)
{
    gale__counts_args *a = gale__claim_args(c, sizeof *a);
    gale__prim_node in = gale__claim_node(c, c->in[0]);
    if (!a) return false;
    *a = (gale__counts_args){.rows = in.dims[0], .samples = in.dims[1]};
    c->operations = (double)gale__prim_elements(c->g, c->in[0]);
    return gale__counts_kernels_fit(a, &c->device->info.caps) && gale__claim_operand(c, c->in[0]);
}
