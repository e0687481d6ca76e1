/* Reductions, and the softmax family that is made of them. */
#include "ops/lower.h"
#include <math.h>

typedef gale__node body(gale__lower *L, gale__node x, uint32_t axes); /* axes stay as extents of 1 */

/* Axes as input 1 or attribute; none means all, unless the operator is then to do nothing. */
static void apply(gale__lower *L, body *f)
{
    gale__prim_graph *g = L->g;
    gale__node x = L->in[0];
    gale__prim_node p = gale__lower_peek(g, x);
    bool given, keep = gale__attr_i(L, "keepdims", 1);
    uint32_t axes = gale__lower_axes_mask(L, 1, p.rank, &given);
    if (!given && gale__attr_i(L, "noop_with_empty_axes", 0)) axes = 0;
    else if (!given) axes = (1u << p.rank) - 1;
    gale_type wide = p.type == GALE_BOOL ? GALE_U8 : gale__lower_wide_type(p.type);
    gale__node r = gale__prim_cast(g, f(L, gale__prim_cast(g, x, wide), axes), p.type);
    L->out[0] = keep ? r : gale__prim_squeeze(g, r, axes);
}

static gale__node sum(gale__lower *L, gale__node x, uint32_t axes)
{
    return gale__prim_reduce(L->g, GALE__SUM, x, axes, true);
}
static gale__node product(gale__lower *L, gale__node x, uint32_t axes)
{
    return gale__prim_reduce(L->g, GALE__PROD, x, axes, true);
}
static gale__node largest(gale__lower *L, gale__node x, uint32_t axes)
{
    return gale__prim_reduce(L->g, GALE__RMAX, x, axes, true);
}
static gale__node least(gale__lower *L, gale__node x, uint32_t axes)
{
    return gale__prim_reduce(L->g, GALE__RMIN, x, axes, true);
}
static gale__node l1(gale__lower *L, gale__node x, uint32_t axes)
{
    return sum(L, gale__prim_unary(L->g, GALE__ABS, x), axes);
}
static gale__node squares(gale__lower *L, gale__node x, uint32_t axes)
{
    return sum(L, gale__prim_mul(L->g, x, x), axes);
}

/* What has no whole result: integers go through real numbers, and back in the end. */
static gale__node real(gale__lower *L, gale__node x)
{
    return gale__type_is_float(gale__lower_type_of(L->g, x)) ? x : gale__prim_cast(L->g, x, gale__lower_precise(L));
}
static gale__node l2(gale__lower *L, gale__node x, uint32_t axes)
{
    return gale__prim_unary(L->g, GALE__SQRT, real(L, squares(L, x, axes)));
}
static gale__node log_sum(gale__lower *L, gale__node x, uint32_t axes)
{
    return gale__prim_unary(L->g, GALE__LOG, real(L, sum(L, x, axes)));
}

/* The largest, or 0 where it is not finite, so that x - largest is never inf - inf. */
static gale__node finite_largest(gale__lower *L, gale__node x, uint32_t axes)
{
    gale__prim_graph *g = L->g;
    gale__node m = largest(L, x, axes), size = gale__prim_unary(g, GALE__ABS, m);
    return gale__prim_select(
        g, gale__prim_binary(g, GALE__LT, size, gale__lower_value(L, x, INFINITY)), m, gale__lower_value(L, x, 0));
}

static gale__node log_sum_exp(gale__lower *L, gale__node x, uint32_t axes)
{
    gale__prim_graph *g = L->g;
    x = real(L, x);
    gale__node m = finite_largest(L, x, axes);
    return gale__prim_add(g, m, log_sum(L, gale__prim_unary(g, GALE__EXP, gale__prim_sub(g, x, m)), axes));
}

LOWER(ReduceSum) { apply(L, sum); }
LOWER(ReduceMean) { apply(L, gale__lower_mean); }
LOWER(ReduceProd) { apply(L, product); }
LOWER(ReduceMax) { apply(L, largest); }
LOWER(ReduceMin) { apply(L, least); }
LOWER(ReduceL1) { apply(L, l1); }
LOWER(ReduceL2) { apply(L, l2); }
LOWER(ReduceSumSquare) { apply(L, squares); }
LOWER(ReduceLogSum) { apply(L, log_sum); }
LOWER(ReduceLogSumExp) { apply(L, log_sum_exp); }

static void arg(gale__lower *L, gale__reduce first, gale__reduce last)
{
    int axis = gale__lower_axis(L, gale__attr_i(L, "axis", 0), gale__lower_rank_of(L->g, L->in[0]));
    gale__reduce kind = gale__attr_i(L, "select_last_index", 0) ? last : first;
    L->out[0] = gale__prim_reduce(L->g, kind, L->in[0], 1u << axis, gale__attr_i(L, "keepdims", 1));
}
LOWER(ArgMax) { arg(L, GALE__ARGMAX, GALE__ARGMAX_LAST); }
LOWER(ArgMin) { arg(L, GALE__ARGMIN, GALE__ARGMIN_LAST); }

/* --- Softmax. --- */

static uint32_t soft_axis(gale__lower *L)
{
    return 1u << gale__lower_axis(L, gale__attr_i(L, "axis", -1), gale__lower_rank_of(L->g, L->in[0]));
}

LOWER(Softmax)
{
    gale__prim_graph *g = L->g;
    L->out[0] = gale__prim_cast(
        g, gale__lower_softmax(L, gale__lower_wide(L, L->in[0]), soft_axis(L)), gale__lower_type_of(g, L->in[0]));
}

LOWER(LogSoftmax)
{
    gale__prim_graph *g = L->g;
    uint32_t axis = soft_axis(L);
    gale__node x = gale__lower_wide(L, L->in[0]), d = gale__prim_sub(g, x, largest(L, x, axis));
    L->out[0] = gale__prim_cast(
        g, gale__prim_sub(g, d, log_sum(L, gale__prim_unary(g, GALE__EXP, d), axis)), gale__lower_type_of(g, L->in[0]));
}

LOWER(Hardmax)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    int axis = gale__lower_axis(L, gale__attr_i(L, "axis", -1), p.rank);
    gale__node top = gale__prim_reduce(g, GALE__ARGMAX, L->in[0], 1u << axis, true);
    L->out[0] =
        gale__prim_cast(g, gale__prim_binary(g, GALE__EQ, gale__prim_iota(g, p.rank, p.dims, axis), top), p.type);
}
