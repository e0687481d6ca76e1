/* Element-wise nodes: operands are broadcast together, and redundant arithmetic is not emitted. */
#include "graph/build/build.h"
#include <math.h>
#include <string.h>

bool gale__dims_broadcast(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int *rank, int64_t *dims)
{
    int r = rank_a > rank_b ? rank_a : rank_b;
    for (int d = 0; d < r; d++) {
        int64_t x = d < r - rank_a ? 1 : a[d - (r - rank_a)], y = d < r - rank_b ? 1 : b[d - (r - rank_b)];
        if (x != y && x != 1 && y != 1) return false;
        dims[d] = x == 1 ? y : x;
    }
    *rank = r;
    return true;
}

static gale__node no_fit(gale__prim_graph *g, const char *name, gale__node x, gale__node y)
{
    return gale__prim_fail(g, GALE_INVALID, "%s: shapes %s and %s cannot be broadcast together", name,
        gale__prim_shape_text(g, x), gale__prim_shape_text(g, y));
}

/* Broadcasts n operands to one shape; false if their shapes are incompatible. */
static bool spread(gale__prim_graph *g, const char *name, gale__node *x, int n)
{
    int rank = g->nodes[x[0]].rank;
    int64_t dims[GALE_MAX_RANK];
    memcpy(dims, g->nodes[x[0]].dims, sizeof dims);
    for (int i = 1; i < n; i++) {
        const gale__prim_node *p = &g->nodes[x[i]];
        int64_t wide[GALE_MAX_RANK];
        if (!gale__dims_broadcast(rank, dims, p->rank, p->dims, &rank, wide)) return no_fit(g, name, x[0], x[i]) >= 0;
        memcpy(dims, wide, sizeof dims);
    }
    for (int i = 0; i < n; i++) x[i] = gale__prim_expand(g, x[i], rank, dims);
    return g->status == GALE_OK;
}

static gale__node push(gale__prim_graph *g, gale__scalar op, gale_type type, const gale__node *x, int n)
{
    const gale__prim_node *p = &g->nodes[x[0]];
    gale__prim_draft d;
    gale__prim_draft_init(&d, op, type, p->rank, p->dims);
    memcpy(d.in, x, n * sizeof *x);
    d.node.n_in = n;
    return gale__prim_push(g, &d.node);
}

static bool is_comparison(gale__scalar op) { return op >= GALE__EQ && op <= GALE__GE; }

/* Combinations of operation and type that no kernel implements are rejected here, while the operator is known for the
 * message: bit operations on floats, powers of integers, arithmetic on booleans other than AND and OR. */
static bool has_meaning(gale__scalar op, gale_type type)
{
    bool logic = op == GALE__NOT || (op >= GALE__AND && op <= GALE__XOR);
    if (type == GALE_BOOL) return logic || is_comparison(op) || op == GALE__MUL || op == GALE__MIN || op == GALE__MAX;
    if (!gale__type_is_float(type)) return op != GALE__POW && op != GALE__ATAN2;
    return !(logic || op == GALE__SHL || op == GALE__SHR);
}

gale__node gale__prim_unary(gale__prim_graph *g, gale__scalar op, gale__node x)
{
    if (!gale__prim_ok(g, x)) return GALE__NIL;
    const gale__prim_node *p = &g->nodes[x];
    bool whole = !gale__type_is_float(p->type);
    if (whole && (op == GALE__FLOOR || op == GALE__CEIL || op == GALE__RINT || op == GALE__TRUNC)) return x;
    if ((op == GALE__NEG || op == GALE__NOT) && p->op == op) return p->in[0];
    if (op == GALE__ABS && (p->op == GALE__ABS || gale__type_table[p->type].kind == 'u')) return x;
    if (op >= GALE__SQRT && op <= GALE__ERF && whole)
        return gale__prim_fail(
            g, GALE_INVALID, "%s: needs floats, not %s", gale__scalar_table[op].name, gale_type_name(p->type));
    if (!has_meaning(op, p->type))
        return gale__prim_fail(
            g, GALE_INVALID, "%s is not defined for %s", gale__scalar_table[op].name, gale_type_name(p->type));
    return push(g, op, p->type, &x, 1);
}

/* Whether x / v and x * (1 / v) are bit-identical. */
static bool is_power_of_two(gale_type type, double v)
{
    int exponent;
    return (type == GALE_F32 || type == GALE_F64) && fabs(frexp(v, &exponent)) == 0.5 && exponent > -60 &&
           exponent < 60;
}

/* A simpler node that equals x op y (x + 0, x * 1, x / 2 ...), or NIL.  Both have the result's shape. */
static gale__node simplify(gale__prim_graph *g, gale__scalar op, gale__node x, gale__node y)
{
    double v;
    bool y_is = gale__prim_is_splat(g, y, &v), whole = !gale__type_is_float(g->nodes[x].type),
         truth = g->nodes[x].type == GALE_BOOL;
    if (y_is && v == 0 &&
        (op == GALE__ADD || op == GALE__SUB || op == GALE__OR || op == GALE__XOR || op == GALE__SHL || op == GALE__SHR))
        return x;
    if (y_is && v == 0 && (op == GALE__AND || (op == GALE__MUL && whole))) return y;
    if (y_is && v == 1 && (op == GALE__MUL || op == GALE__DIV || op == GALE__POW || (truth && op == GALE__AND)))
        return x;
    if (y_is && v == 1 && truth && op == GALE__OR) return y;
    if (y_is && op == GALE__DIV && is_power_of_two(g->nodes[x].type, v))
        return gale__prim_mul(g, x, gale__prim_scalar(g, g->nodes[x].type, 1 / v));
    if (y_is && op == GALE__POW && v == 2) return gale__prim_mul(g, x, x);
    if (y_is && op == GALE__POW && v == 3) return gale__prim_mul(g, gale__prim_mul(g, x, x), x);
    if (x == y && (op == GALE__AND || op == GALE__OR || op == GALE__MIN || op == GALE__MAX)) return x;
    return GALE__NIL;
}

/* An expanded value and one number: computed before it is expanded, so once for all its copies. */
static gale__node before_expanding(gale__prim_graph *g, gale__scalar op, const gale__node in[2])
{
    for (int i = 0; i < 2; i++) {
        gale__prim_node p = g->nodes[in[i]];
        double v;
        if (p.op != GALE__PRIM_EXPAND || !gale__prim_is_splat(g, in[1 - i], &v)) continue;
        gale__prim_node from = g->nodes[p.in[0]];
        gale__node pair[2];
        pair[i] = p.in[0];
        pair[1 - i] = gale__prim_respread(g, in[1 - i], from.rank, from.dims);
        return gale__prim_expand(g, gale__prim_binary(g, op, pair[0], pair[1]), p.rank, p.dims);
    }
    return GALE__NIL;
}

gale__node gale__prim_binary(gale__prim_graph *g, gale__scalar op, gale__node x, gale__node y)
{
    if (!gale__prim_ok(g, x) || !gale__prim_ok(g, y)) return GALE__NIL;
    gale_type a = g->nodes[x].type, b = g->nodes[y].type;
    const char *name = gale__scalar_table[op].name;
    if (a != b)
        return gale__prim_fail(g, GALE_INVALID, "%s: operands have types %s and %s; cast one of them", name,
            gale_type_name(a), gale_type_name(b));
    if (!has_meaning(op, a))
        return gale__prim_fail(g, GALE_INVALID, "%s is not defined for %s", name, gale_type_name(a));
    gale__node in[2] = {x, y};
    if (!spread(g, name, in, 2)) return GALE__NIL;
    bool commutes = op == GALE__ADD || op == GALE__MUL || op == GALE__MIN || op == GALE__MAX ||
                    (op >= GALE__AND && op <= GALE__XOR) || op == GALE__EQ || op == GALE__NE;
    gale__node same = simplify(g, op, in[0], in[1]);
    if (same < 0 && commutes) same = simplify(g, op, in[1], in[0]);
    if (same < 0) same = before_expanding(g, op, in);
    if (same >= 0) return same;
    return push(g, op, op == GALE__RANDOM ? GALE_U32 : is_comparison(op) ? GALE_BOOL : a, in, 2);
}

gale__node gale__prim_select(gale__prim_graph *g, gale__node condition, gale__node x, gale__node y)
{
    if (!gale__prim_ok(g, condition) || !gale__prim_ok(g, x) || !gale__prim_ok(g, y)) return GALE__NIL;
    gale_type a = g->nodes[x].type, b = g->nodes[y].type;
    if (g->nodes[condition].type != GALE_BOOL)
        return gale__prim_fail(g, GALE_INVALID, "select: the condition has type %s instead of bool",
            gale_type_name(g->nodes[condition].type));
    if (a != b)
        return gale__prim_fail(g, GALE_INVALID, "select: the operands have types %s and %s; cast one of them",
            gale_type_name(a), gale_type_name(b));
    gale__node in[3] = {condition, x, y};
    if (!spread(g, "select", in, 3)) return GALE__NIL;
    double v;
    if (gale__prim_is_splat(g, in[0], &v)) return v != 0 ? in[1] : in[2];
    if (in[1] == in[2]) return in[1];
    return push(g, GALE__SELECT, a, in, 3);
}

gale__node gale__prim_fma(gale__prim_graph *g, gale__node x, gale__node y, gale__node z)
{
    if (!gale__prim_ok(g, x) || !gale__prim_ok(g, y) || !gale__prim_ok(g, z)) return GALE__NIL;
    gale_type a = g->nodes[x].type;
    if (a != g->nodes[y].type || a != g->nodes[z].type || !gale__type_is_float(a))
        return gale__prim_fail(g, GALE_INVALID, "fma: needs three floats of the same type");
    gale__node in[3] = {x, y, z};
    if (!spread(g, "fma", in, 3)) return GALE__NIL;
    return push(g, GALE__FMA, a, in, 3);
}

gale__node gale__prim_fma_halves(gale__prim_graph *g, gale__node x, gale__node y, gale__node z)
{
    gale__node in[3] = {x, y, z};
    for (int i = 0; i < 3; i++) {
        if (!gale__prim_ok(g, in[i])) return GALE__NIL;
        if (g->nodes[in[i]].type != GALE_U32)
            return gale__prim_fail(g, GALE_INVALID, "fma of halves: the words have type %s instead of u32",
                gale_type_name(g->nodes[in[i]].type));
    }
    return spread(g, "fma of halves", in, 3) ? push(g, GALE__FMA_HALVES, GALE_U32, in, 3) : GALE__NIL;
}

/* Every value of `from` is a value of `to`. */
static bool holds(gale_type from, gale_type to)
{
    const gale__type_info *a = &gale__type_table[from], *b = &gale__type_table[to];
    if (a->kind == 'b') return true;
    if (a->kind == 'f') {
        bool plain = to == GALE_F64 || to == GALE_F32 || (to == GALE_BF16 && from != GALE_F16 && from != GALE_F32);
        return b->kind == 'f' && plain && b->exponent_bits >= a->exponent_bits && b->mantissa_bits >= a->mantissa_bits;
    }
    if (b->kind == 'f') return (to == GALE_F64 && a->bits <= 32) || (to == GALE_F32 && a->bits <= 16);
    return a->kind == b->kind ? b->bits >= a->bits : a->kind == 'u' && b->kind == 'i' && b->bits > a->bits;
}

gale__node gale__prim_cast(gale__prim_graph *g, gale__node x, gale_type type)
{
    if (!gale__prim_ok(g, x)) return GALE__NIL;
    const gale__prim_node *p = &g->nodes[x];
    if (p->type == type) return x;
    if (type == GALE_STRING || p->type == GALE_STRING)
        return gale__prim_fail(g, GALE_UNSUPPORTED, "cast: a graph cannot contain strings");
    /* A cast through a type that holds every value of the source is skipped, except from integers through floats to
     * integers: integers wrap where floats saturate. */
    if (p->op == GALE__CAST) {
        gale_type from = g->nodes[p->in[0]].type;
        bool alike =
            gale__type_is_float(from) == gale__type_is_float(p->type) || gale__type_is_float(type) || holds(from, type);
        if (alike && holds(from, p->type)) return gale__prim_cast(g, p->in[0], type);
    }
    return push(g, GALE__CAST, type, &x, 1);
}

gale__node gale__prim_bitcast(gale__prim_graph *g, gale__node x, gale_type type)
{
    if (!gale__prim_ok(g, x)) return GALE__NIL;
    gale_type from = g->nodes[x].type;
    if (from == type) return x;
    if (gale_type_size(from) != gale_type_size(type))
        return gale__prim_fail(
            g, GALE_INVALID, "bitcast: %s and %s have different sizes", gale_type_name(from), gale_type_name(type));
    /* a bool is a byte in memory alone: 0 or 1 */
    if (from == GALE_BOOL) return gale__prim_bitcast(g, gale__prim_cast(g, x, GALE_U8), type);
    if (type == GALE_BOOL) return gale__prim_cast(g, gale__prim_bitcast(g, x, GALE_U8), type);
    return push(g, GALE__BITCAST, type, &x, 1);
}
