/* Sorting, the k best, and running sums and products. */
#include "ops/lower.h"

/* x's elements in the order of `index`, which counts along `axis`. */
static gale__node by_index(gale__lower *L, gale__node x, gale__node index, int axis)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, x), q = gale__lower_peek(g, index);
    gale__node at = gale__lower_index(L, 0);
    int64_t stride = 1;
    for (int d = p.rank - 1; d >= 0; stride *= p.dims[d--]) {
        gale__node step = d == axis ? gale__prim_mul(g, index, gale__lower_index(L, stride))
                                    : gale__lower_walk(L, q.rank, q.dims, d, stride);
        at = gale__prim_add(g, at, step);
    }
    return gale__prim_take(g, x, gale__prim_expand(g, at, q.rank, q.dims));
}

LOWER(TopK)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    int axis = gale__lower_axis(L, gale__attr_i(L, "axis", -1), p.rank);
    int64_t n = 0;
    const int64_t *k = gale__lower_known_ints(L, 1, &n);
    if (gale__lower_good(L) && (n != 1 || k[0] < 0 || k[0] > p.dims[axis]))
        gale__lower_refuse(
            L, "k is %lld, but the axis has %lld elements", n ? (long long)k[0] : -1LL, (long long)p.dims[axis]);
    if (!gale__lower_good(L)) return;
    gale__node order = gale__prim_sort_first(g, L->in[0], axis, gale__attr_i(L, "largest", 1), k[0]);
    L->out[0] = by_index(L, L->in[0], order, axis);
    if (L->n_out > 1) L->out[1] = order;
}

static gale__node sorted(gale__lower *L, int *axis)
{
    *axis = gale__lower_axis(L, gale__attr_i(L, "axis", -1), gale__lower_rank_of(L->g, L->in[0]));
    return gale__lower_good(L) ? gale__prim_sort(L->g, L->in[0], *axis, gale__attr_i(L, "descending", 0)) : GALE__NIL;
}

LOWER(ArgSort)
{
    int axis;
    L->out[0] = sorted(L, &axis);
}

LOWER(Sort)
{
    int axis;
    gale__node order = sorted(L, &axis);
    L->out[0] = by_index(L, L->in[0], order, axis);
    if (L->n_out > 1) L->out[1] = order;
}

static void scan(gale__lower *L, gale__reduce kind)
{
    int64_t n = 0;
    const int64_t *axes = gale__lower_known_ints(L, 1, &n);
    if (gale__lower_good(L) && n != 1) gale__lower_refuse(L, "one axis is needed, not %lld", (long long)n);
    if (!gale__lower_good(L)) return;
    gale__node x = gale__lower_wide(L, L->in[0]);
    int axis = gale__lower_axis(L, axes[0], gale__lower_rank_of(L->g, x));
    gale__node y = gale__prim_scan(L->g, kind, x, axis, gale__attr_i(L, "exclusive", 0), gale__attr_i(L, "reverse", 0));
    L->out[0] = gale__prim_cast(L->g, y, gale__lower_type_of(L->g, L->in[0]));
}
LOWER(CumSum) { scan(L, GALE__SUM); }
LOWER(CumProd) { scan(L, GALE__PROD); }
