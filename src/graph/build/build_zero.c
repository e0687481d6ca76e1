/* Moves zero points out of products.  Matrix units multiply bytes as stored, so sum((a - za)(b - zb)) is expanded: it
 * is the product of the bytes minus each zero point times the sum of the other factor.  All of it is integer
 * arithmetic, so nothing is rounded.  Sums over weights are computed once. */
#include "graph/build/build.h"

static bool is_byte_cast(const gale__prim_graph *g, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(g, n);
    if (p->op == GALE__PRIM_PERMUTE) p = gale__prim_at(g, p->in[0]);
    if (p->op != GALE__CAST || p->type != GALE_I32) return false;
    int from = gale__prim_at(g, p->in[0])->type;
    return from == GALE_I8 || from == GALE_U8;
}

/* Matches x = bytes - zero, where bytes is a cast to I32.  The zero point has rank 0, or the rank of x with extent 1
 * along axes where it is constant; it is NIL if x has none.  False if x is not made of bytes. */
static bool split(gale__prim_graph *g, gale__node x, gale__node *bytes, gale__node *zero)
{
    gale__prim_node p = *gale__prim_at(g, x);
    *bytes = x;
    *zero = GALE__NIL;
    if (is_byte_cast(g, x)) return true;
    if (p.op == GALE__PRIM_PERMUTE) {
        int perm[GALE_MAX_RANK];
        for (int d = 0; d < p.rank; d++) perm[d] = (int)p.attr[d];
        if (!split(g, p.in[0], bytes, zero)) return false;
        *bytes = gale__prim_permute(g, *bytes, perm);
        if (*zero >= 0 && gale__prim_at(g, *zero)->rank) *zero = gale__prim_permute(g, *zero, perm);
        return *bytes >= 0;
    }
    if (p.op != GALE__SUB || p.type != GALE_I32 || !is_byte_cast(g, p.in[0])) return false;
    *bytes = p.in[0];
    *zero = gale__prim_one_number(
        g, gale__prim_at(g, p.in[1])->op == GALE__PRIM_EXPAND ? gale__prim_at(g, p.in[1])->in[0] : p.in[1]);
    return *zero >= 0;
}

/* Whether the zero point is constant along an axis of x. */
static bool same_along(const gale__prim_graph *g, gale__node zero, gale__node x, int axis)
{
    const gale__prim_node *p = zero >= 0 ? gale__prim_at(g, zero) : NULL;
    return !p || !p->rank || (p->rank == gale__prim_at(g, x)->rank && p->dims[axis] == 1);
}

/* A zero point times the sums of the other factor over k; NIL where there is none. */
static gale__node correction(gale__prim_graph *g, gale__node zero, gale__node x, int axis)
{
    return zero < 0 ? GALE__NIL : gale__prim_mul(g, zero, gale__prim_reduce(g, GALE__SUM, x, 1u << axis, true));
}

gale__node gale__prim_shifted_matmul(gale__prim_graph *g, gale__node a, gale__node b)
{
    gale__node x, y, by_x, by_y;
    if (!g->zero_points_outside || gale__prim_at(g, a)->rank < 2 || gale__prim_at(g, b)->rank < 2) return GALE__NIL;
    if (!split(g, a, &x, &by_x) || !split(g, b, &y, &by_y) || (by_x < 0 && by_y < 0)) return GALE__NIL;
    int k = gale__prim_at(g, a)->rank - 1, l = gale__prim_at(g, b)->rank - 2;
    int64_t count = gale__prim_at(g, a)->dims[k];
    if (!same_along(g, by_x, x, k) || !same_along(g, by_y, y, l)) return GALE__NIL;
    /* Built before the product, so that fusion, which walks backwards, gives the epilogue to the product's kernel and
     * not to these sums. */
    gale__node columns = correction(g, by_x, y, l), rows = correction(g, by_y, x, k), sum = gale__prim_matmul(g, x, y);
    if (by_x >= 0) sum = gale__prim_sub(g, sum, columns);
    if (by_y >= 0) sum = gale__prim_sub(g, sum, rows);
    if (by_x < 0 || by_y < 0) return sum;
    gale__node times = gale__prim_scalar(g, GALE_I32, (double)count), both = gale__prim_mul(g, by_x, by_y);
    return gale__prim_add(g, sum, gale__prim_mul(g, both, times));
}

gale__node gale__prim_shifted_conv(gale__prim_graph *g, gale__node x, gale__node w, const gale__prim_conv_args *c)
{
    gale__node bytes, zero;
    if (!g->zero_points_outside || !is_byte_cast(g, w) || !split(g, x, &bytes, &zero)) return GALE__NIL;
    gale__node pixels = gale__prim_pixel_conv(g, bytes, zero, w, c);
    if (pixels >= 0 || g->status != GALE_OK) return pixels;
    if (zero < 0 || gale__prim_at(g, zero)->rank) return GALE__NIL;
    for (int i = 0; i < c->spatial; i++)
        if (c->low[i] || c->high[i] || c->input_dilation[i] != 1) return GALE__NIL;
    int rank = c->spatial + 2;
    int64_t along[GALE_MAX_RANK];
    for (int d = 0; d < rank; d++) along[d] = d == 1 ? gale__prim_at(g, w)->dims[0] : 1;
    gale__node sums = gale__prim_reduce(g, GALE__SUM, w, ((1u << rank) - 1) & ~1u, false);
    sums = gale__prim_reshape(g, sums, rank, along);
    gale__node part = gale__prim_mul(g, zero, sums), whole = gale__prim_conv(g, bytes, w, c);
    return gale__prim_sub(g, whole, part);
}
