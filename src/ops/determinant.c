/* Determinants by elimination with the largest pivot, in double precision if the device supports it.  A step removes
 * the first column and shifts the rest up and to the left, so that all steps are identical. */
#include "ops/lower.h"

/* state: a [batch, m, m] loses its pivot's row and column, zeros come in behind; det [batch] is multiplied by the pivot
 * and its sign. */
static void eliminate(gale__lower *L, gale__node state[2])
{
    gale__prim_graph *g = L->g;
    gale__node *a = &state[0], *det = &state[1];
    gale__prim_node p = gale__lower_peek(g, *a);
    int64_t m = p.rank == 3 ? p.dims[1] : 0, rows[3] = {1, m, 1}, low[3] = {0, -1, -1}, high[3] = {0, 1, 1};
    gale__node first = gale__prim_slice_axis(g, *a, 2, 0, 1), zero = gale__lower_value(L, *a, 0),
               i = gale__prim_iota(g, 3, rows, 1);
    gale__node at = gale__prim_reduce(g, GALE__ARGMAX, gale__prim_unary(g, GALE__ABS, first), 1u << 1, true),
               here = gale__prim_binary(g, GALE__EQ, i, at);
    gale__node top = gale__prim_reduce(g, GALE__SUM, gale__prim_select(g, here, *a, zero), 1u << 1, true),
               pivot = gale__prim_slice_axis(g, top, 2, 0, 1);
    gale__node swapped = gale__prim_select(g, here, gale__prim_slice_axis(g, *a, 1, 0, 1), *a),
               none = gale__prim_binary(g, GALE__EQ, pivot, zero);
    gale__node factor = gale__prim_div(g, gale__prim_slice_axis(g, swapped, 2, 0, 1),
        gale__prim_select(g, none, gale__lower_value(L, pivot, 1), pivot));
    gale__node signs = gale__prim_select(
        g, gale__prim_binary(g, GALE__EQ, at, gale__lower_index(L, 0)), pivot, gale__prim_unary(g, GALE__NEG, pivot));
    *det = gale__prim_mul(g, *det, gale__prim_reshape(g, signs, 1, p.dims));
    *a = gale__prim_pad(g, gale__prim_sub(g, swapped, gale__prim_mul(g, factor, top)), low, high, NULL, 0);
}

LOWER(Det)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    if (p.rank < 2 || p.dims[p.rank - 1] != p.dims[p.rank - 2])
        gale__lower_refuse(L, "the last two axes are not square matrices");
    if (!gale__lower_good(L)) return;
    int64_t m = p.dims[p.rank - 1], batch = 1;
    for (int d = 0; d < p.rank - 2; d++) batch *= p.dims[d];
    gale_type type = gale__lower_precise(L);
    gale__node state[2] = {gale__prim_reshape(g, gale__prim_cast(g, L->in[0], type), 3, (int64_t[]){batch, m, m}),
        gale__prim_splat(g, type, 1, &batch, 1)};
    if (batch) gale__lower_repeat(L, m, eliminate, state);
    L->out[0] = gale__prim_cast(g, gale__prim_reshape(g, state[1], p.rank - 2, p.dims), p.type);
}
