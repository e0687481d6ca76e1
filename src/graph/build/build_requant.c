/* Quotients of scaled whole numbers, as quantised networks compute them: (n * s + b) / q becomes n * (s / q) + b / q.
 * Scales and biases are constants, so their quotients are computed once, and a quantisation that follows a product of
 * bytes needs no division.  The result is as near to the exact one as with the division: it has two roundings instead
 * of three.  Exact ties stay ties if s / q and b / q are exact, as with powers of two. */
#include "graph/build/build.h"

enum { DEPTH = 6 }; /* operators between the product and the quantisation: bias, activation, limits, another term */

static const gale__prim_node *at(const gale__prim_graph *g, gale__node x) { return gale__prim_at(g, x); }

/* A value of constants alone, without the axes that it is expanded along. */
static gale__node constant(const gale__prim_graph *g, gale__node x)
{
    while (at(g, x)->op == GALE__PRIM_EXPAND) x = at(g, x)->in[0];
    return at(g, x)->invariant ? x : GALE__NIL;
}

/* A whole number as a float: a sum of integers, or bytes less a zero point. */
static bool is_whole(const gale__prim_graph *g, gale__node x)
{
    const gale__prim_node *p = at(g, x);
    if (p->op != GALE__CAST || p->type != GALE_F32) return false;
    gale_type from = (gale_type)at(g, p->in[0])->type;
    return from == GALE_I32 || from == GALE_I8 || from == GALE_U8;
}

/* Looks through a rounding to half precision: quantisation rounds more coarsely anyway. */
static gale__node unrounded(const gale__prim_graph *g, gale__node x)
{
    const gale__prim_node *p = at(g, x), *half = p->op == GALE__CAST ? at(g, p->in[0]) : NULL;
    bool rounds = half && half->op == GALE__CAST && (half->type == GALE_F16 || half->type == GALE_BF16);
    return rounds && at(g, half->in[0])->type == GALE_F32 ? half->in[0] : x;
}

static gale__node over(gale__prim_graph *g, gale__node x, gale__node by, int depth)
{
    x = unrounded(g, x);
    const gale__prim_node p = *at(g, x);
    gale__node known = constant(g, x), a, b;
    if (p.type != GALE_F32 || depth > DEPTH) return GALE__NIL;
    if (known >= 0) return gale__prim_div(g, known, by);
    switch (p.op) {
    case GALE__MUL:
        a = is_whole(g, p.in[0]) ? p.in[0] : p.in[1];
        b = a == p.in[0] ? p.in[1] : p.in[0];
        if (!is_whole(g, a) || (known = constant(g, b)) < 0) return GALE__NIL;
        return gale__prim_mul(g, a, gale__prim_div(g, known, by));
    case GALE__ADD:
    case GALE__MIN:
    case GALE__MAX:
        a = over(g, p.in[0], by, depth + 1);
        b = a >= 0 ? over(g, p.in[1], by, depth + 1) : GALE__NIL;
        return b >= 0 ? gale__prim_binary(g, (gale__scalar)p.op, a, b) : GALE__NIL;
    default: return GALE__NIL;
    }
}

gale__node gale__prim_requotient(gale__prim_graph *g, gale__node x, gale__node by)
{
    double number;
    if (!g->integer_products || !gale__prim_ok(g, x) || !gale__prim_ok(g, by) || at(g, by)->rank > 0 ||
        at(g, x)->invariant || !gale__prim_is_splat(g, by, &number) || !(number > 0x1p-60 && number < 0x1p60))
        return GALE__NIL;
    return over(g, x, by, 0);
}
