/* Gradients of element-wise operations.  Operands and result have the same shape, since broadcasting is a separate
 * node. */
#include "graph/grad/grad.h"

static gale__node square(gale__prim_graph *g, gale__node x) { return gale__prim_mul(g, x, x); }
static gale__node negate(gale__prim_graph *g, gale__node x) { return gale__prim_unary(g, GALE__NEG, x); }
static gale__node scale(gale__prim_graph *g, gale__node x, double by)
{
    return gale__prim_mul(g, x, gale__prim_like(g, x, by));
}
static gale__node plus(gale__prim_graph *g, gale__node x, double by)
{
    return gale__prim_add(g, x, gale__prim_like(g, x, by));
}
static gale__node from(gale__prim_graph *g, double a, gale__node x)
{
    return gale__prim_sub(g, gale__prim_like(g, x, a), x);
}
/* 1 - x^2, without losing digits near 1. */
static gale__node one_less_square(gale__prim_graph *g, gale__node x)
{
    return gale__prim_mul(g, from(g, 1, x), plus(g, x, 1));
}
static gale__node root(gale__prim_graph *g, gale__node x) { return gale__prim_unary(g, GALE__SQRT, x); }
static gale__node when(gale__prim_graph *g, gale__node condition, gale__node d)
{
    return gale__prim_select(g, condition, d, gale__prim_like(g, d, 0));
}

static gale__node absolute(gale__prim_graph *g, gale__node x, gale__node d)
{
    gale__node zero = gale__prim_like(g, x, 0);
    gale__node below = when(g, gale__prim_binary(g, GALE__LT, x, zero), negate(g, d));
    return gale__prim_select(g, gale__prim_binary(g, GALE__GT, x, zero), d, below);
}

/* e^x past the largest number counts as that: where 1 / (1 + e^-x) has a gradient of 0, 0 times infinity would make it
 * NaN. */
static gale__node exponential(gale__prim_graph *g, gale__node y, gale__node d)
{
    gale__node most = gale__prim_like(g, y, g->status == GALE_OK ? gale__type_max(g->nodes[y].type) : 0);
    return gale__prim_mul(g, d, gale__prim_binary(g, GALE__MIN, y, most));
}

/* d times the derivative of y = op(x). */
static gale__node unary(gale__prim_graph *g, int op, gale__node x, gale__node y, gale__node d)
{
    switch (op) {
    case GALE__NEG: return negate(g, d);
    case GALE__ABS: return absolute(g, x, d);
    case GALE__SQRT: return gale__prim_div(g, scale(g, d, 0.5), y);
    case GALE__EXP: return exponential(g, y, d);
    case GALE__EXPM1: return gale__prim_mul(g, d, plus(g, y, 1));
    case GALE__LOG: return gale__prim_div(g, d, x);
    case GALE__LOG1P: return gale__prim_div(g, d, plus(g, x, 1));
    case GALE__SIN: return gale__prim_mul(g, d, gale__prim_unary(g, GALE__COS, x));
    case GALE__COS: return negate(g, gale__prim_mul(g, d, gale__prim_unary(g, GALE__SIN, x)));
    case GALE__TAN: return gale__prim_mul(g, d, plus(g, square(g, y), 1));
    case GALE__ASIN: return gale__prim_div(g, d, root(g, one_less_square(g, x)));
    case GALE__ACOS: return negate(g, gale__prim_div(g, d, root(g, one_less_square(g, x))));
    case GALE__ATAN: return gale__prim_div(g, d, plus(g, square(g, x), 1));
    case GALE__SINH: return gale__prim_mul(g, d, gale__prim_unary(g, GALE__COSH, x));
    case GALE__COSH: return gale__prim_mul(g, d, gale__prim_unary(g, GALE__SINH, x));
    case GALE__ASINH: return gale__prim_div(g, d, root(g, plus(g, square(g, x), 1)));
    case GALE__ACOSH: return gale__prim_div(g, d, root(g, gale__prim_mul(g, plus(g, x, -1), plus(g, x, 1))));
    case GALE__ATANH: return gale__prim_div(g, d, one_less_square(g, x));
    case GALE__TANH: return gale__prim_mul(g, d, one_less_square(g, y));
    case GALE__ERF:
        return gale__prim_mul(g, scale(g, d, 1.1283791670955126 /* 2 / sqrt(pi) */),
            gale__prim_unary(g, GALE__EXP, negate(g, square(g, x))));
    default: return GALE__NIL;
    }
}

/* The winner takes it, and equal operands share it evenly; but a constant wins over a variable, so that relu and hard
 * tanh are flat at their corners. */
static gale__node winner(gale__prim_graph *g, gale__scalar better, gale__node x, gale__node y, gale__node d)
{
    gale__node ahead = gale__prim_binary(g, better, x, y);
    if (g->nodes[y].invariant) return when(g, ahead, d);
    return gale__prim_select(g, ahead, d, when(g, gale__prim_binary(g, GALE__EQ, x, y), scale(g, d, 0.5)));
}

static void min_max(gale__grad *s, const gale__prim_node *p, gale__node d)
{
    gale__scalar better = p->op == GALE__MAX ? GALE__GT : GALE__LT;
    for (int i = 0; i < 2; i++)
        if (gale__grad_wants(s, p->in[i])) gale__grad_add(s, p->in[i], winner(s->g, better, p->in[i], p->in[1 - i], d));
}

/* x^y.  By x: y x^(y-1), which is 0 for y = 0 even at x = 0.  By y: x^y log x, which is 0 at x = 0. */
static void power(gale__grad *s, gale__node n, const gale__prim_node *p, gale__node d)
{
    gale__prim_graph *g = s->g;
    gale__node x = p->in[0], y = p->in[1];
    if (gale__grad_wants(s, x)) {
        gale__node slope = gale__prim_mul(g, y, gale__prim_binary(g, GALE__POW, x, plus(g, y, -1)));
        gale__node flat = gale__prim_binary(g, GALE__EQ, y, gale__prim_like(g, y, 0));
        gale__grad_add(s, x, gale__prim_mul(g, d, gale__prim_select(g, flat, gale__prim_like(g, slope, 0), slope)));
    }
    if (gale__grad_wants(s, y)) {
        gale__node at_zero = gale__prim_binary(g, GALE__EQ, x, gale__prim_like(g, x, 0));
        gale__node safe = gale__prim_select(g, at_zero, gale__prim_like(g, x, 1), x);
        gale__grad_add(s, y, gale__prim_mul(g, d, gale__prim_mul(g, n, gale__prim_unary(g, GALE__LOG, safe))));
    }
}

static void atan2_rule(gale__grad *s, const gale__prim_node *p, gale__node d)
{
    gale__prim_graph *g = s->g;
    gale__node y = p->in[0], x = p->in[1], share = gale__prim_div(g, d, gale__prim_add(g, square(g, x), square(g, y)));
    if (gale__grad_wants(s, y)) gale__grad_add(s, y, gale__prim_mul(g, share, x));
    if (gale__grad_wants(s, x)) gale__grad_add(s, x, negate(g, gale__prim_mul(g, share, y)));
}

/* x - q y with q whole: q from the result, since x / y may round to the next whole number. */
static void remainder_rule(gale__grad *s, gale__node n, const gale__prim_node *p, gale__node d)
{
    gale__prim_graph *g = s->g;
    gale__node x = p->in[0], y = p->in[1];
    gale__grad_add(s, x, d);
    if (!gale__grad_wants(s, y)) return;
    gale__node q = gale__prim_unary(g, GALE__RINT, gale__prim_div(g, gale__prim_sub(g, x, n), y));
    gale__grad_add(s, y, negate(g, gale__prim_mul(g, d, q)));
}

static void divide(gale__grad *s, gale__node n, const gale__prim_node *p, gale__node d)
{
    gale__node by_x = gale__prim_div(s->g, d, p->in[1]);
    gale__grad_add(s, p->in[0], by_x);
    if (gale__grad_wants(s, p->in[1])) gale__grad_add(s, p->in[1], negate(s->g, gale__prim_mul(s->g, by_x, n)));
}

static void multiply(gale__grad *s, const gale__prim_node *p, gale__node d)
{
    for (int i = 0; i < 2; i++)
        if (gale__grad_wants(s, p->in[i])) gale__grad_add(s, p->in[i], gale__prim_mul(s->g, d, p->in[1 - i]));
}

static void choose(gale__grad *s, const gale__prim_node *p, gale__node d)
{
    gale__node zero = gale__prim_like(s->g, d, 0);
    if (gale__grad_wants(s, p->in[1])) gale__grad_add(s, p->in[1], gale__prim_select(s->g, p->in[0], d, zero));
    if (gale__grad_wants(s, p->in[2])) gale__grad_add(s, p->in[2], gale__prim_select(s->g, p->in[0], zero, d));
}

void gale__grad_scalar(gale__grad *s, gale__node n, const gale__prim_node *p, gale__node d)
{
    switch ((int)p->op) {
    case GALE__ADD: gale__grad_add(s, p->in[0], d), gale__grad_add(s, p->in[1], d); break;
    case GALE__SUB:
        gale__grad_add(s, p->in[0], d);
        if (gale__grad_wants(s, p->in[1])) gale__grad_add(s, p->in[1], negate(s->g, d));
        break;
    case GALE__FMA: gale__grad_add(s, p->in[2], d); /* fall through */
    case GALE__MUL: multiply(s, p, d); break;
    case GALE__DIV: divide(s, n, p, d); break;
    case GALE__REM: remainder_rule(s, n, p, d); break;
    case GALE__MIN:
    case GALE__MAX: min_max(s, p, d); break;
    case GALE__POW: power(s, n, p, d); break;
    case GALE__ATAN2: atan2_rule(s, p, d); break;
    case GALE__SELECT: choose(s, p, d); break;
    case GALE__CAST:
        gale__grad_add(s, p->in[0], gale__prim_cast(s->g, d, (gale_type)s->g->nodes[p->in[0]].type));
        break;
    default: gale__grad_add(s, p->in[0], unary(s->g, p->op, p->in[0], n, d)); break;
    }
}
