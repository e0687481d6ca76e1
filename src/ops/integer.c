/* Products of whole numbers of few bits: sums are exact in I32, and scales come in once at the end. */
#include "ops/quantise.h"
#include "ops/spatial.h"

/* A scale or zero point of a matrix: one number, one per row (axis from the end 2) or column (1), or lined up already.
 */
static gale__node lined_up(gale__lower *L, gale__node s, int rank, int from_end)
{
    return gale__lone_or_along(L, s, rank, rank - from_end);
}

/* a less its zero points by b less its own: I32, or F32 for floats of 8 bits. */
static gale__node whole_product(gale__lower *L, gale__node a, gale__node a_zero, gale__node b, gale__node b_zero)
{
    a = gale__centre(L, a, lined_up(L, a_zero, gale__rank_of(L->g, a), 2));
    b = gale__centre(L, b, lined_up(L, b_zero, gale__rank_of(L->g, b), 1));
    return gale__product(L, a, b);
}

LOWER(MatMulInteger) { L->out[0] = whole_product(L, L->in[0], gale__arg(L, 2), L->in[1], gale__arg(L, 3)); }

/* Sums times a b / y, quantised. */
static gale__node rescale(gale__lower *L, gale__node sum, gale__node a, gale__node b, gale__node y, gale__node zero)
{
    gale__g *g = L->g;
    gale__node scale = gale__g_mul(g, gale__g_cast(g, a, GALE_F32), gale__g_cast(g, b, GALE_F32));
    scale = gale__g_div(g, scale, gale__g_cast(g, y, GALE_F32));
    return gale__quantise(L, gale__g_mul(g, gale__g_cast(g, sum, GALE_F32), scale), zero, gale__type_of(g, zero));
}

LOWER(QLinearMatMul)
{
    gale__node sum = whole_product(L, L->in[0], L->in[2], L->in[3], L->in[5]);
    int rank = gale__rank_of(L->g, sum);
    gale__node a = lined_up(L, L->in[1], rank, 2), b = lined_up(L, L->in[4], rank, 1);
    L->out[0] = rescale(L, sum, a, b, lined_up(L, L->in[6], rank, 1), lined_up(L, L->in[7], rank, 1));
}

/* Padding is added after the zero point is taken away, so it stands for 0. */
static gale__node whole_convolution(gale__lower *L, gale__node x, gale__node x_zero, gale__node w, gale__node w_zero)
{
    x = gale__centre(L, x, gale__lone(L, x_zero));
    w = gale__centre(L, w, gale__lone_or_along(L, w_zero, gale__rank_of(L->g, w), 0));
    return gale__convolve(L, x, w);
}

LOWER(ConvInteger) { L->out[0] = whole_convolution(L, L->in[0], gale__arg(L, 2), L->in[1], gale__arg(L, 3)); }

LOWER(QLinearConv)
{
    gale__node sum = whole_convolution(L, L->in[0], L->in[2], L->in[3], L->in[5]), bias = gale__arg(L, 8);
    int rank = gale__rank_of(L->g, sum);
    if (bias >= 0) sum = gale__g_add(L->g, sum, gale__along(L, gale__g_cast(L->g, bias, GALE_I32), rank, 1));
    L->out[0] = rescale(L, sum, gale__lone(L, L->in[1]), gale__lone_or_along(L, L->in[4], rank, 1),
        gale__lone(L, L->in[6]), gale__lone(L, L->in[7]));
}
