/* Floats to whole numbers of few bits and back: by one scale, one for each place along an axis, or one for each block of it. */
#include "ops/lower.h"

/* A scale or zero point lined up with x. */
static gale__node spread(gale__lower *L, gale__node x, gale__node s)
{
    gale__g *g = L->g;
    gale__pnode p = gale__peek(g, x), q = gale__peek(g, s);
    int64_t size = gale__attr_i(L, "block_size", 0), start[GALE_MAX_RANK] = {0}, step[GALE_MAX_RANK];
    if (gale__good(L) && gale__g_elements(g, s) == 1 && q.rank <= 1) return gale__g_reshape(g, s, 0, NULL);
    int axis = gale__axis(L, gale__attr_i(L, "axis", 1), p.rank);
    if (!gale__good(L)) return GALE__NIL;
    if (q.rank == 1 && q.dims[0] == p.dims[axis]) return gale__along(L, s, p.rank, axis);
    bool blocks = size > 0 && q.rank == p.rank && p.rank < GALE_MAX_RANK && q.dims[axis] == (p.dims[axis] + size - 1) / size;
    for (int d = 0; blocks && d < p.rank; d++) blocks = d == axis || q.dims[d] == p.dims[d];
    if (!blocks) return gale__refuse(L, "a scale of rank %d does not fit a value of rank %d along axis %d", q.rank, p.rank, axis);
    s = gale__g_unsqueeze(g, s, 1u << (axis + 1));
    int64_t wide[GALE_MAX_RANK];
    for (int d = 0; d <= p.rank; d++) wide[d] = d == axis + 1 ? size : q.dims[d - (d > axis)];
    s = gale__g_expand(g, s, p.rank + 1, wide);
    q.dims[axis] *= size;
    for (int d = 0; d < p.rank; d++) step[d] = 1;
    return gale__g_slice(g, gale__g_reshape(g, s, p.rank, q.dims), start, step, p.dims);
}

LOWER(QuantizeLinear)
{
    gale__g *g = L->g;
    gale__node x = gale__g_cast(g, L->in[0], GALE_F32), zero = gale__arg(L, 2);
    gale_type type = zero >= 0 ? gale__type_of(g, zero) : GALE_U8;
    if (zero < 0 && gale__attr_i(L, "output_dtype", 0)) type = gale__attr_type(L, "output_dtype", type);
    gale__node y = gale__g_div(g, x, spread(L, x, gale__g_cast(g, L->in[1], GALE_F32)));
    if (gale__type_is_float(type)) {
        double most = gale__type_max(type);
        if (gale__attr_i(L, "saturate", 1)) y = gale__clamp(L, y, -most, most);
    } else {
        y = gale__g_unary(g, GALE__RINT, y);
        if (zero >= 0) y = gale__g_add(g, y, spread(L, x, gale__g_cast(g, zero, GALE_F32)));
    }
    L->out[0] = gale__g_cast(g, y, type);
}

LOWER(DequantizeLinear)
{
    gale__g *g = L->g;
    gale__node x = L->in[0], zero = gale__arg(L, 2), scale = L->in[1];
    gale_type type = gale__type_of(g, scale);
    bool whole = !gale__type_is_float(gale__type_of(g, x));
    if (gale__attr_i(L, "output_dtype", 0)) type = gale__attr_type(L, "output_dtype", type);
    gale__node y = whole ? gale__g_cast(g, x, GALE_I32) : x;
    if (whole && zero >= 0) y = gale__g_sub(g, y, spread(L, x, gale__g_cast(g, zero, GALE_I32)));
    y = gale__g_mul(g, gale__g_cast(g, y, GALE_F32), spread(L, x, gale__g_cast(g, scale, GALE_F32)));
    L->out[0] = gale__g_cast(g, y, type);
}
