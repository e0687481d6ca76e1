/* Which counts of codes the routines take: the CPU's all, the kernels rows of whole vectors; and
 * both only counts of all codes. */
#include "graph/plan/paths.h"

static gale__counts_args *describe(gale__claim *c)
{
    gale__counts_args *a = gale__claim_args(c, sizeof *a);
    gale__prim_node in = gale__claim_node(c, c->in[0]);
    if (!a || gale__claim_node(c, c->out).dims[1] != 65536 || !gale__claim_operand(c, c->in[0])) return NULL;
    *a = (gale__counts_args){.rows = in.dims[0], .samples = in.dims[1]};
    c->operations = (double)gale__prim_elements(c->g, c->in[0]);
    return a;
}

bool gale__claim_counts(gale__claim *c)
{
    gale__counts_args *a = describe(c);
    c->scratch_bytes = gale__cpu_counts_scratch();
    return a && a->samples <= UINT32_MAX;
}

bool gale__claim_counts_kernels(gale__claim *c)
{
    gale__counts_args *a = describe(c);
    return a && gale__counts_kernels_fit(a, &c->device->info.caps);
}
