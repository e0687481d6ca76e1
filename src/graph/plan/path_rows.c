/* Softmax and layer norm over short rows: starting each instruction of the interpreter costs more than the row itself.
 * */
#include "graph/plan/paths.h"

enum { SOFTMAX_MAX = 256, NORM_MAX = 1024 }; /* elements of a row; longer ones gain nothing (bench/paths.c) */

/* Channels that a transpose made the last axis stay where they are, if the rows of a map are side by side: else what
 * computes them would store every element far from the one before. */
static gale__node find_columns(const gale__claim *c, gale__prim_node x, int first, gale__cpu_rows *a)
{
    int64_t stride[GALE_MAX_RANK], offset, run = 1;
    int d = first - 1;
    gale__node base;
    gale__claim_view(c, c->in[0], &base, stride, &offset);
    if (base == c->in[0] || first != x.rank - 1 || stride[first] < 2) return c->in[0];
    for (; d >= 0 && (x.dims[d] == 1 || stride[d] == run); d--) run *= x.dims[d];
    for (int e = 0; e < d; e++)
        if (x.dims[e] > 1) return c->in[0];
    if (run < 2) return c->in[0];
    a->run = run, a->offset = offset, a->step = stride[first], a->far = d < 0 ? 0 : stride[d];
    return base;
}

/* The axes from `axis` on as rows; NULL: it does not fit. */
static gale__cpu_rows *make_rows(gale__claim *c, double axis, int64_t most)
{
    gale__prim_node x = gale__claim_node(c, c->in[0]);
    int first = (int)axis + (axis < 0 ? x.rank : 0);
    gale__cpu_rows *a = gale__claim_args(c, sizeof *a);
    if (!a) return NULL;
    *a = (gale__cpu_rows){.rows = 1, .n = 1};
    for (int d = 0; d < x.rank; d++) *(d < first ? &a->rows : &a->n) *= x.dims[d];
    gale__claim_operand(c, find_columns(c, x, first, a));
    c->operations = 8.0 * (double)gale__prim_elements(c->g, c->in[0]);
    bool fits = x.type == GALE_F32 && a->n > 1 && a->n <= most && gale__prim_same_shape(c->g, c->in[0], c->out);
    return fits ? a : NULL;
}

bool gale__claim_softmax(gale__claim *c)
{
    double axis = gale__claim_attr(c, "axis", -1);
    return (axis == -1 || (int)axis + 1 == gale__claim_node(c, c->in[0]).rank) && make_rows(c, axis, SOFTMAX_MAX);
}

/* A scale or shift with an element for each of the row's. */
static bool along_row(gale__claim *c, const gale__cpu_rows *a, gale__node n, int64_t *present)
{
    gale__prim_node p = gale__claim_node(c, n), x = gale__claim_node(c, c->in[0]);
    *present = n >= 0;
    if (n < 0) return true;
    int64_t left = a->n;
    for (int d = p.rank - 1, at = x.rank - 1; d >= 0; d--, at--) {
        if (p.dims[d] != (left > 1 ? x.dims[at] : 1)) return false;
        left /= p.dims[d];
    }
    return p.type == GALE_F32 && left == 1 && gale__claim_operand(c, n);
}

bool gale__claim_layer_norm(gale__claim *c)
{
    gale__cpu_rows *a = c->node->n_out == 1 ? make_rows(c, gale__claim_attr(c, "axis", -1), NORM_MAX) : NULL;
    if (!a) return false;
    a->epsilon = gale__claim_attr(c, "epsilon", 1e-5);
    return along_row(c, a, c->n_in > 1 ? c->in[1] : GALE__NIL, &a->scaled) &&
           along_row(c, a, c->n_in > 2 ? c->in[2] : GALE__NIL, &a->shifted);
}
