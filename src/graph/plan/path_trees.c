/* Decision trees as the lowering packed them (ops/ml/trees_pack.c). */
#include "graph/plan/paths.h"

bool gale__claim_trees(gale__claim *c)
{
    gale__cpu_trees *a = gale__claim_args(c, sizeof *a);
    gale__prim_node x = gale__claim_node(c, c->in[0]), out = gale__claim_node(c, c->out);
    if (!a || x.type != GALE_F32) return false;
    *a = (gale__cpu_trees){.rows = x.dims[0],
        .features = x.dims[1],
        .trees = gale__claim_node(c, c->in[2]).dims[0],
        .targets = out.dims[1],
        .branch = (int64_t)gale__claim_attr(c, "branch", 0),
        .missing = (int64_t)gale__claim_attr(c, "missing", 0)};
    for (int i = 0; i < c->n_in; i++) gale__claim_operand(c, c->in[i]);
    c->operations = (double)(a->rows * a->trees) * 8;
    return true;
}
