/* Floats to low-bit integers and back: with one scale, one per position along an axis, or one per block of it. */
#include "ops/quantise.h"

gale__node gale__lower_lone(gale__lower *L, gale__node s)
{
    return s >= 0 && gale__prim_elements(L->g, s) == 1 ? gale__prim_reshape(L->g, s, 0, NULL) : s;
}

gale__node gale__lower_lone_or_along(gale__lower *L, gale__node s, int rank, int axis)
{
    s = gale__lower_lone(L, s);
    return gale__lower_rank_of(L->g, s) == 1 && axis >= 0 && axis < rank ? gale__lower_along(L, s, rank, axis) : s;
}

gale__node gale__lower_centre(gale__lower *L, gale__node x, gale__node zero)
{
    gale_type type = gale__type_is_float(gale__lower_type_of(L->g, x)) ? GALE_F32 : GALE_I32;
    x = gale__prim_cast(L->g, x, type);
    return zero >= 0 ? gale__prim_sub(L->g, x, gale__prim_cast(L->g, zero, type)) : x;
}

gale__node gale__lower_dequantise(gale__lower *L, gale__node x, gale__node scale, gale__node zero)
{
    return gale__prim_mul(
        L->g, gale__prim_cast(L->g, gale__lower_centre(L, x, zero), GALE_F32), gale__prim_cast(L->g, scale, GALE_F32));
}

gale__node gale__lower_quantise(gale__lower *L, gale__node y, gale__node zero, gale_type type)
{
    gale__prim_graph *g = L->g;
    bool real = gale__type_is_float(type);
    if (!real) y = gale__prim_unary(g, GALE__RINT, y);
    if (zero >= 0) y = gale__prim_add(g, y, gale__prim_cast(g, zero, GALE_F32));
    if (real && gale__type_table[type].bits == 8 && !gale__attr_i(L, "saturate", 1))
        return gale__lower_cast_open(L, y, type);
    return gale__lower_cast_closed(L, y, type);
}

/* A scale or zero point lined up with x. */
static gale__node spread(gale__lower *L, gale__node x, gale__node s)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, x), q = gale__lower_peek(g, s);
    int64_t size = gale__attr_i(L, "block_size", 0), start[GALE_MAX_RANK] = {0}, step[GALE_MAX_RANK];
    if (gale__lower_good(L) && gale__prim_elements(g, s) == 1 && q.rank <= 1) return gale__prim_reshape(g, s, 0, NULL);
    int axis = gale__lower_axis(L, gale__attr_i(L, "axis", 1), p.rank);
    if (!gale__lower_good(L)) return GALE__NIL;
    if (q.rank == 1 && q.dims[0] == p.dims[axis]) return gale__lower_along(L, s, p.rank, axis);
    bool blocks = size > 0 && size <= INT32_MAX && q.rank == p.rank && p.rank < GALE_MAX_RANK &&
                  q.dims[axis] == (p.dims[axis] + size - 1) / size;
    for (int d = 0; blocks && d < p.rank; d++) blocks = d == axis || q.dims[d] == p.dims[d];
    if (!blocks)
        return gale__lower_refuse(
            L, "a scale of rank %d does not match a value of rank %d along axis %d", q.rank, p.rank, axis);
    s = gale__prim_unsqueeze(g, s, 1u << (axis + 1));
    int64_t wide[GALE_MAX_RANK];
    for (int d = 0; d <= p.rank; d++) wide[d] = d == axis + 1 ? size : q.dims[d - (d > axis)];
    s = gale__prim_expand(g, s, p.rank + 1, wide);
    q.dims[axis] *= size;
    for (int d = 0; d < p.rank; d++) step[d] = 1;
    return gale__prim_slice(g, gale__prim_reshape(g, s, p.rank, q.dims), start, step, p.dims);
}

/* The quotient has the precision of the scale, or of attribute precision where it is given. */
LOWER(QuantizeLinear)
{
    gale__prim_graph *g = L->g;
    gale__node x = L->in[0], zero = gale__lower_arg(L, 2), scale = L->in[1];
    gale_type type = zero >= 0 ? gale__lower_type_of(g, zero) : GALE_U8, precision = gale__lower_type_of(g, scale);
    if (zero < 0 && gale__attr_i(L, "output_dtype", 0)) type = gale__attr_type(L, "output_dtype", type);
    if (gale__attr_i(L, "precision", 0)) precision = gale__attr_type(L, "precision", precision);
    bool half = precision == GALE_F16 || precision == GALE_BF16;
    gale__node by = spread(L, x, gale__prim_cast(g, scale, GALE_F32)),
               y = half ? GALE__NIL : gale__prim_requotient(g, x, by);
    if (y < 0) y = gale__prim_div(g, gale__prim_cast(g, x, GALE_F32), by);
    if (half) y = gale__prim_cast(g, gale__prim_cast(g, y, precision), GALE_F32);
    L->out[0] = gale__lower_quantise(L, y, zero >= 0 ? spread(L, x, zero) : GALE__NIL, type);
}

LOWER(DequantizeLinear)
{
    gale__node x = L->in[0], zero = gale__lower_arg(L, 2);
    gale_type type = gale__lower_type_of(L->g, L->in[1]);
    if (type == GALE_F8E8M0) type = GALE_F32; /* a scale only, no type of results */
    if (gale__attr_i(L, "output_dtype", 0)) type = gale__attr_type(L, "output_dtype", type);
    gale__node y = gale__lower_dequantise(L, x, spread(L, x, L->in[1]), zero >= 0 ? spread(L, x, zero) : GALE__NIL);
    L->out[0] = gale__prim_cast(L->g, y, type);
}

/* The elements of x in the order in which they are in memory, for what does not depend on it: a long row is reduced by
 * many threads at once. */
static gale__node as_row(gale__lower *L, gale__node x)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, x);
    gale__node from = p.op == GALE__CAST ? p.in[0] : x;
    for (p = gale__lower_peek(g, from); p.op == GALE__PRIM_RESHAPE || p.op == GALE__PRIM_PERMUTE;
         p = gale__lower_peek(g, from))
        from = p.in[0];
    const int64_t n = gale__lower_good(L) ? gale__prim_elements(g, from) : 0;
    return gale__prim_reshape(g, gale__prim_cast(g, from, gale__lower_type_of(g, x)), 1, &n);
}

/* The range always holds 0, so that 0 is exact; nothing but zeros has scale 1. */
void gale__lower_quantise_range(gale__lower *L, gale__node x, gale__node *y, gale__node *scale, gale__node *zero)
{
    gale__prim_graph *g = L->g;
    gale__node none = gale__prim_scalar(g, GALE_F32, 0), row = as_row(L, x);
    gale__node high = gale__prim_binary(g, GALE__MAX, gale__prim_reduce(g, GALE__RMAX, row, 1, false), none);
    gale__node low = gale__prim_binary(g, GALE__MIN, gale__prim_reduce(g, GALE__RMIN, row, 1, false), none);
    gale__node same = gale__prim_binary(g, GALE__EQ, high, low), one = gale__prim_scalar(g, GALE_F32, 1);
    *scale = gale__prim_select(
        g, same, one, gale__prim_div(g, gale__prim_sub(g, high, low), gale__prim_scalar(g, GALE_F32, 255)));
    gale__node at = gale__prim_unary(
        g, GALE__RINT, gale__lower_clamp(L, gale__prim_div(g, gale__prim_unary(g, GALE__NEG, low), *scale), 0, 255));
    *zero = gale__prim_cast(g, at, GALE_U8);
    *y = gale__lower_quantise(L, gale__prim_div(g, x, *scale), *zero, GALE_U8);
}

LOWER(DynamicQuantizeLinear)
{
    gale__node y, scale, zero;
    gale__lower_quantise_range(L, L->in[0], &y, &scale, &zero);
    L->out[0] = y;
    gale__lower_give(L, 1, scale);
    gale__lower_give(L, 2, zero);
}
