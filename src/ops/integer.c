/* Products of low-bit integers: sums are exact in I32, and scales are applied once at the end. */
#include "ops/quantise.h"
#include "ops/spatial.h"

/* A scale or zero point of a matrix: one number, one per row (axis from the end 2) or column (1), or lined up already.
 */
static gale__node lined_up(gale__lower *L, gale__node s, int rank, int from_end)
{
    return gale__lower_lone_or_along(L, s, rank, rank - from_end);
}

/* a less its zero points by b less its own: I32, or F32 for floats of 8 bits. */
static gale__node whole_product(gale__lower *L, gale__node a, gale__node a_zero, gale__node b, gale__node b_zero)
{
    a = gale__lower_centre(L, a, lined_up(L, a_zero, gale__lower_rank_of(L->g, a), 2));
    b = gale__lower_centre(L, b, lined_up(L, b_zero, gale__lower_rank_of(L->g, b), 1));
    return gale__lower_product(L, a, b);
}

LOWER(MatMulInteger) { L->out[0] = whole_product(L, L->in[0], gale__lower_arg(L, 2), L->in[1], gale__lower_arg(L, 3)); }

/* Sums times a b / y, quantised. */
static gale__node rescale(gale__lower *L, gale__node sum, gale__node a, gale__node b, gale__node y, gale__node zero)
{
    gale__prim_graph *g = L->g;
    gale__node scale = gale__prim_mul(g, gale__prim_cast(g, a, GALE_F32), gale__prim_cast(g, b, GALE_F32));
    scale = gale__prim_div(g, scale, gale__prim_cast(g, y, GALE_F32));
    return gale__lower_quantise(
        L, gale__prim_mul(g, gale__prim_cast(g, sum, GALE_F32), scale), zero, gale__lower_type_of(g, zero));
}

LOWER(QLinearMatMul)
{
    gale__node sum = whole_product(L, L->in[0], L->in[2], L->in[3], L->in[5]);
    int rank = gale__lower_rank_of(L->g, sum);
    gale__node a = lined_up(L, L->in[1], rank, 2), b = lined_up(L, L->in[4], rank, 1);
    L->out[0] = rescale(L, sum, a, b, lined_up(L, L->in[6], rank, 1), lined_up(L, L->in[7], rank, 1));
}

/* Padding is added after the zero point is taken away, so it stands for 0. */
static gale__node whole_convolution(gale__lower *L, gale__node x, gale__node x_zero, gale__node w, gale__node w_zero)
{
    x = gale__lower_centre(L, x, gale__lower_lone(L, x_zero));
    w = gale__lower_centre(L, w, gale__lower_lone_or_along(L, w_zero, gale__lower_rank_of(L->g, w), 0));
    return gale__lower_convolve(L, x, w);
}

LOWER(ConvInteger)
{
    L->out[0] = whole_convolution(L, L->in[0], gale__lower_arg(L, 2), L->in[1], gale__lower_arg(L, 3));
}

LOWER(QLinearConv)
{
    gale__node sum = whole_convolution(L, L->in[0], L->in[2], L->in[3], L->in[5]), bias = gale__lower_arg(L, 8);
    int rank = gale__lower_rank_of(L->g, sum);
    if (bias >= 0)
        sum = gale__prim_add(L->g, sum, gale__lower_along(L, gale__prim_cast(L->g, bias, GALE_I32), rank, 1));
    L->out[0] = rescale(L, sum, gale__lower_lone(L, L->in[1]), gale__lower_lone_or_along(L, L->in[4], rank, 1),
        gale__lower_lone(L, L->in[6]), gale__lower_lone(L, L->in[7]));
}
