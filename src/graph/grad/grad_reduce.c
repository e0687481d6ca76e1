/* Gradients of reductions and scans.  Products never divide by an element, so zeros are ordinary. */
#include "graph/grad/grad.h"

/* Elements equal to the result share its gradient evenly. */
static gale__node winners(
    gale__prim_graph *g, gale__node n, const gale__prim_node *in, gale__node x, uint32_t axes, gale__node d)
{
    gale__node won = gale__prim_binary(g, GALE__EQ, x, n);
    gale__node count = gale__prim_reduce(g, GALE__SUM, gale__prim_cast(g, won, (gale_type)in->type), axes, true);
    gale__node share = gale__prim_expand(g, gale__prim_div(g, d, count), in->rank, in->dims);
    return gale__prim_select(g, won, share, gale__prim_like(g, x, 0));
}

/* The product of all elements but this one along the axis. */
static gale__node others(gale__prim_graph *g, gale__node x, int axis)
{
    return gale__prim_mul(
        g, gale__prim_scan(g, GALE__PROD, x, axis, true, false), gale__prim_scan(g, GALE__PROD, x, axis, true, true));
}

static gale__node product(gale__prim_graph *g, const gale__prim_node *in, gale__node x, uint32_t axes, gale__node d)
{
    int perm[GALE_MAX_RANK], back[GALE_MAX_RANK], n = 0, kept;
    int64_t moved[GALE_MAX_RANK], flat[GALE_MAX_RANK];
    /* The reduced axes last, as one. */
    for (int i = 0; i < in->rank; i++)
        if (!(axes >> i & 1)) perm[n++] = i;
    kept = n;
    for (int i = 0; i < in->rank; i++)
        if (axes >> i & 1) perm[n++] = i;
    flat[kept] = 1;
    for (int i = 0; i < in->rank; i++) {
        back[perm[i]] = i;
        moved[i] = in->dims[perm[i]];
        if (i < kept) flat[i] = moved[i];
        else flat[kept] *= moved[i];
    }
    gale__node rows = gale__prim_reshape(g, gale__prim_permute(g, x, perm), kept + 1, flat);
    gale__node rest = gale__prim_reshape(g, others(g, rows, kept), in->rank, moved);
    return gale__prim_mul(g, d, gale__prim_permute(g, rest, back));
}

void gale__grad_reduce(gale__grad *s, gale__node n, const gale__prim_node *p, gale__node d)
{
    gale__prim_graph *g = s->g;
    gale__node x = p->in[0];
    const gale__prim_node in = g->nodes[x];
    uint32_t axes = (uint32_t)p->attr[1];
    switch ((gale__reduce)p->attr[0]) {
    case GALE__SUM: d = gale__prim_expand(g, d, in.rank, in.dims); break;
    case GALE__PROD: d = product(g, &in, x, axes, d); break;
    default: d = winners(g, n, &in, x, axes, d); break; /* RMAX, RMIN; the others yield integers */
    }
    gale__grad_add(s, x, d);
}

/* Element i becomes element i + by; 0 past the end. */
static gale__node later(gale__prim_graph *g, gale__node x, int axis, int64_t by)
{
    int64_t low[GALE_MAX_RANK] = {0}, high[GALE_MAX_RANK] = {0};
    low[axis] = -by, high[axis] = by;
    return gale__prim_pad(g, x, low, high, NULL, 0);
}

/* s[i] = d[i] + x[i + 1] s[i + 1], the sum over j >= i of d[j] times the product of x between; by doubling, in log2(n)
 * steps. */
static gale__node chained_sum(gale__prim_graph *g, gale__node x, gale__node d, int axis, int64_t extent)
{
    gale__node sum = d, factor = later(g, x, axis, 1);
    for (int64_t by = 1; by < extent; by *= 2) {
        sum = gale__prim_add(g, sum, gale__prim_mul(g, factor, later(g, sum, axis, by)));
        if (by * 2 < extent) factor = gale__prim_mul(g, factor, later(g, factor, axis, by));
    }
    return sum;
}

/* A running maximum comes from the last element that equals it; its gradient is added there. */
static gale__node running_winner(gale__prim_graph *g, gale__node n, const gale__prim_node *p, gale__node d)
{
    int axis = (int)p->attr[1];
    gale__node place = gale__prim_iota(g, p->rank, p->dims, axis), index = GALE__NIL;
    place = gale__prim_select(g, gale__prim_binary(g, GALE__EQ, p->in[0], n), place, gale__prim_like(g, place, 0));
    place = gale__prim_scan(g, GALE__RMAX, place, axis, false, false);
    int64_t stride = 1;
    for (int i = p->rank - 1; i >= 0; stride *= p->dims[i--]) {
        gale__node along = i == axis ? place : gale__prim_iota(g, p->rank, p->dims, i);
        along = gale__prim_mul(g, along, gale__prim_splat_i(g, GALE_I64, 0, NULL, stride));
        index = index < 0 ? along : gale__prim_add(g, index, along);
    }
    return gale__prim_put(g, gale__prim_like(g, d, 0), index, d, GALE__SUM);
}

void gale__grad_scan(gale__grad *s, gale__node n, const gale__prim_node *p, gale__node d)
{
    gale__prim_graph *g = s->g;
    int axis = (int)p->attr[1];
    gale__node x = p->in[0];
    switch ((gale__reduce)p->attr[0]) {
    case GALE__SUM: d = gale__prim_scan(g, GALE__SUM, d, axis, false, true); break;
    case GALE__PROD:
        d = gale__prim_mul(
            g, gale__prim_scan(g, GALE__PROD, x, axis, true, false), chained_sum(g, x, d, axis, p->dims[axis]));
        break;
    default: d = running_winner(g, n, p, d); break;
    }
    gale__grad_add(s, x, d);
}
