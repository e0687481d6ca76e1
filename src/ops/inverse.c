/* Inverses by elimination with the largest pivot, in double precision where the device has it.  The matrix has the unit
 * matrix after it; a step turns a pivot's column into a unit vector, sends its row to the bottom and moves the rest up
 * and to the left, so that all steps are alike and the inverse is what stands in front after the last. */
#include "ops/lower.h"

/* state: a [batch, m, 2 m], of whose rows `open` [1, 1, 1] have not been pivots yet. */
static void step(gale__lower *L, gale__node state[2])
{
    gale__prim_graph *g = L->g;
    gale__node *a = &state[0], *open = &state[1];
    gale__prim_node p = gale__lower_peek(g, *a);
    int64_t m = p.rank == 3 ? p.dims[1] : 0, rows[3] = {1, m, 1}, low[3] = {0, 0, -1}, high[3] = {0, 0, 1};
    gale__node first = gale__prim_slice_axis(g, *a, 2, 0, 1), zero = gale__lower_value(L, *a, 0),
               i = gale__prim_iota(g, 3, rows, 1);
    gale__node size = gale__prim_select(g, gale__prim_binary(g, GALE__LT, i, *open),
        gale__prim_unary(g, GALE__ABS, first), gale__lower_value(L, *a, -1));
    gale__node here = gale__prim_binary(g, GALE__EQ, i, gale__prim_reduce(g, GALE__ARGMAX, size, 1u << 1, true));
    gale__node top = gale__prim_reduce(g, GALE__SUM, gale__prim_select(g, here, *a, zero), 1u << 1, true);
    gale__node one = gale__prim_div(g, top, gale__prim_slice_axis(g, top, 2, 0, 1)),
               swapped = gale__prim_select(g, here, gale__prim_slice_axis(g, *a, 1, 0, 1), *a);
    gale__node rest = gale__prim_sub(g, swapped, gale__prim_mul(g, gale__prim_slice_axis(g, swapped, 2, 0, 1), one));
    gale__node turned = gale__prim_concat(g, 1, (gale__node[]){gale__prim_slice_axis(g, rest, 1, 1, m - 1), one}, 2);
    *a = gale__prim_pad(g, turned, low, high, NULL, 0);
    *open = gale__prim_sub(g, *open, gale__lower_index(L, 1));
}

LOWER(MSInverse)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    if (p.rank < 2 || p.dims[p.rank - 1] != p.dims[p.rank - 2])
        gale__lower_refuse(L, "the last two axes are not square matrices");
    if (!gale__lower_good(L)) return;
    int64_t m = p.dims[p.rank - 1], batch = 1, at[3] = {1, m, m};
    for (int d = 0; d < p.rank - 2; d++) batch *= p.dims[d];
    gale_type type = gale__lower_precise(L);
    L->out[0] = L->in[0];
    if (!m || !batch) return;
    gale__node unit = gale__prim_cast(
        g, gale__prim_binary(g, GALE__EQ, gale__prim_iota(g, 3, at, 1), gale__prim_iota(g, 3, at, 2)), type);
    gale__node both[2] = {gale__prim_reshape(g, gale__prim_cast(g, L->in[0], type), 3, (int64_t[]){batch, m, m}),
        gale__prim_expand(g, unit, 3, (int64_t[]){batch, m, m})};
    gale__node state[2] = {
        gale__prim_concat(g, 2, both, 2), gale__prim_splat(g, GALE_I64, 3, (const int64_t[]){1, 1, 1}, (double)m)};
    gale__lower_repeat(L, m, step, state);
    L->out[0] =
        gale__prim_cast(g, gale__prim_reshape(g, gale__prim_slice_axis(g, state[0], 2, 0, m), p.rank, p.dims), p.type);
}
