/* Which suppressions the CPU's routine takes: f32, any number of batches and classes. */
#include "graph/paths.h"

bool gale__claim_suppress(gale__claim *c);

/* A threshold: one f32, or left out. */
static bool take(gale__claim *c, int i, int64_t *present)
{
    gale__node n = i < c->n_in ? c->in[i] : GALE__NIL;
    *present = n >= 0;
    return n < 0 ||
           (gale__claim_node(c, n).type == GALE_F32 && gale__g_elements(c->g, n) == 1 && gale__claim_operand(c, n));
}

bool gale__claim_suppress(gale__claim *c)
{
    gale__cpu_suppress *a = &c->args.suppress;
    gale__pnode boxes = gale__claim_node(c, c->in[0]), scores = gale__claim_node(c, c->in[1]),
                out = gale__claim_node(c, c->out);
    if (boxes.type != GALE_F32 || scores.type != GALE_F32 || boxes.dims[1] > INT32_MAX || c->n_out != 2) return false;
    *a = (gale__cpu_suppress){.batches = scores.dims[0],
        .classes = scores.dims[1],
        .boxes = scores.dims[2],
        .most = out.dims[0] / (scores.dims[0] * scores.dims[1]),
        .centre = gale__claim_attr(c, "center_point_box", 0) != 0};
    gale__claim_operand(c, c->in[0]);
    gale__claim_operand(c, c->in[1]);
    if (!take(c, 3, &a->overlap) || !take(c, 4, &a->least)) return false;
    c->together = true;
    c->scratch_bytes = gale__cpu_suppress_scratch(a);
    c->operations = 20.0 * (double)gale__g_elements(c->g, c->in[1]);
    GALE__CLAIM_ARGS(c, suppress);
    return true;
}
