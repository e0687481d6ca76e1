/* Gradients of TAKE and PUT.  Each is the other's, except for indices out of range, which TAKE clamps and PUT drops. */
#include "graph/grad/grad.h"

static gale__node whole(gale__prim_graph *g, gale__node like, int64_t value)
{
    if (!gale__prim_ok(g, like)) return GALE__NIL;
    const gale__prim_node p = g->nodes[like];
    return gale__prim_splat_i(g, GALE_I64, p.rank, p.dims, value);
}

static gale__node when(gale__prim_graph *g, gale__node condition, gale__node d)
{
    return gale__prim_select(g, condition, d, gale__prim_like(g, d, 0));
}
static gale__node equal(gale__prim_graph *g, gale__node x, gale__node y)
{
    return gale__prim_binary(g, GALE__EQ, x, y);
}

void gale__grad_take(gale__grad *s, gale__node n, const gale__prim_node *p, gale__node d)
{
    (void)n;
    gale__prim_graph *g = s->g;
    gale__node data = p->in[0], index = p->in[1];
    if (!gale__grad_wants(s, data)) return;
    index = gale__prim_binary(g, GALE__MAX, index, whole(g, index, 0));
    index = gale__prim_binary(g, GALE__MIN, index, whole(g, index, g->nodes[data].dims[0] - 1));
    gale__grad_add(s, data, gale__prim_put(g, gale__prim_like(g, data, 0), index, d, GALE__SUM));
}

/* Where the update was not dropped. */
static gale__node in_range(gale__prim_graph *g, gale__node index, int64_t extent)
{
    gale__node low = gale__prim_binary(g, GALE__GE, index, whole(g, index, 0));
    return gale__prim_binary(g, GALE__AND, low, gale__prim_binary(g, GALE__LT, index, whole(g, index, extent)));
}

/* Only what was written last, or never overwritten, is still there. */
static void put_set(gale__grad *s, const gale__prim_node *p, gale__node there, gale__node d)
{
    gale__prim_graph *g = s->g;
    gale__node index = p->in[1];
    const gale__prim_node at = g->nodes[index];
    gale__node turn = gale__prim_iota(g, 1, at.dims, 0);
    gale__node last = gale__prim_put(g, gale__prim_splat_i(g, GALE_I64, 1, p->dims, -1), index, turn, -1);
    if (gale__grad_wants(s, p->in[0]))
        gale__grad_add(s, p->in[0], when(g, gale__prim_binary(g, GALE__LT, last, whole(g, last, 0)), d));
    if (!gale__grad_wants(s, p->in[2])) return;
    gale__node mine = gale__prim_binary(g, GALE__AND, there, equal(g, gale__prim_take(g, last, index), turn));
    gale__grad_add(s, p->in[2], when(g, mine, gale__prim_take(g, d, index)));
}

static void put_sum(gale__grad *s, const gale__prim_node *p, gale__node there, gale__node d)
{
    gale__grad_add(s, p->in[0], d);
    if (gale__grad_wants(s, p->in[2]))
        gale__grad_add(s, p->in[2], when(s->g, there, gale__prim_take(s->g, d, p->in[1])));
}

/* An update's factor is the product of all others at its place: the product of those that are not 0, if no other one
 * is. */
static void put_product(gale__grad *s, const gale__prim_node *p, gale__node there, gale__node d)
{
    gale__prim_graph *g = s->g;
    gale__node init = p->in[0], index = p->in[1], x = p->in[2], one = gale__prim_like(g, x, 1);
    if (gale__grad_wants(s, init))
        gale__grad_add(
            s, init, gale__prim_mul(g, d, gale__prim_put(g, gale__prim_like(g, init, 1), index, x, GALE__PROD)));
    if (!gale__grad_wants(s, x)) return;
    gale__node is_zero = equal(g, x, gale__prim_like(g, x, 0)), safe = gale__prim_select(g, is_zero, one, x);
    gale__node zeros = gale__prim_put(
        g, gale__prim_splat_i(g, GALE_I64, 1, p->dims, 0), index, gale__prim_cast(g, is_zero, GALE_I64), GALE__SUM);
    gale__node rest = gale__prim_put(g, init, index, safe, GALE__PROD);
    gale__node other_zeros = gale__prim_sub(g, gale__prim_take(g, zeros, index), gale__prim_cast(g, is_zero, GALE_I64));
    gale__node factor = gale__prim_div(g, gale__prim_take(g, rest, index), safe);
    gale__node some = gale__prim_binary(g, GALE__AND, there, equal(g, other_zeros, whole(g, other_zeros, 0)));
    gale__grad_add(s, x, when(g, some, gale__prim_mul(g, gale__prim_take(g, d, index), factor)));
}

/* Whatever equals the result shares its gradient evenly. */
static void put_winner(gale__grad *s, gale__node n, const gale__prim_node *p, gale__node there, gale__node d)
{
    gale__prim_graph *g = s->g;
    gale__node init = p->in[0], index = p->in[1], x = p->in[2];
    gale__node kept = equal(g, init, n),
               won = gale__prim_binary(g, GALE__AND, there, equal(g, x, gale__prim_take(g, n, index)));
    gale_type type = (gale_type)p->type;
    gale__node count =
        gale__prim_put(g, gale__prim_cast(g, kept, type), index, gale__prim_cast(g, won, type), GALE__SUM);
    gale__node share = gale__prim_div(g, d, count);
    if (gale__grad_wants(s, init)) gale__grad_add(s, init, when(g, kept, share));
    if (gale__grad_wants(s, x)) gale__grad_add(s, x, when(g, won, gale__prim_take(g, share, index)));
}

void gale__grad_put(gale__grad *s, gale__node n, const gale__prim_node *p, gale__node d)
{
    gale__node there = in_range(s->g, p->in[1], p->dims[0]);
    switch ((int)p->attr[0]) {
    case -1: put_set(s, p, there, d); break;
    case GALE__SUM: put_sum(s, p, there, d); break;
    case GALE__PROD: put_product(s, p, there, d); break;
    default: put_winner(s, n, p, there, d); break;
    }
}
