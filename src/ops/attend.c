/* Scaled dot product attention, for every operator that contains one.  Half floats are computed in F32 from the first
 * product to the last; heads and their groups are views. */
#include "ops/attention.h"
#include "base/seed.h"
#include "graph/plan/paths.h"
#include <math.h>
#include <string.h>

gale__node gale__lower_heads_split(gale__lower *L, gale__node x, int64_t heads)
{
    gale__prim_node p = gale__lower_peek(L->g, x);
    const int turn[4] = {0, 2, 1, 3};
    if (!gale__lower_good(L) || x < 0) return GALE__NIL;
    if (p.rank != 3 || heads < 1 || p.dims[2] % heads)
        return gale__lower_refuse(L, "%lld heads do not match a value of rank %d with %lld columns", (long long)heads,
            p.rank, (long long)(p.rank ? p.dims[p.rank - 1] : 0));
    const int64_t dims[4] = {p.dims[0], p.dims[1], heads, p.dims[2] / heads};
    return gale__prim_permute(L->g, gale__prim_reshape(L->g, x, 4, dims), turn);
}

gale__node gale__lower_heads_join(gale__lower *L, gale__node x)
{
    gale__prim_node p = gale__lower_peek(L->g, x);
    const int turn[4] = {0, 2, 1, 3};
    const int64_t dims[3] = {p.dims[0], p.dims[2], p.dims[1] * p.dims[3]};
    return gale__prim_reshape(L->g, gale__prim_permute(L->g, x, turn), 3, dims);
}

gale__node gale__lower_both(gale__lower *L, gale__node a, gale__node b)
{
    return a < 0 ? b : b < 0 ? a : gale__prim_binary(L->g, GALE__AND, a, b);
}

gale__node gale__lower_causal(gale__lower *L, int64_t m, int64_t n, gale__node offset, int64_t window)
{
    gale__prim_graph *g = L->g;
    const int64_t dims[2] = {m, n};
    gale__node last = gale__prim_add(g, gale__prim_iota(g, 2, dims, 0), offset), at = gale__prim_iota(g, 2, dims, 1);
    gale__node keep = gale__prim_binary(g, GALE__LE, at, last);
    if (window > 0)
        keep = gale__lower_both(
            L, keep, gale__prim_binary(g, GALE__GT, at, gale__prim_sub(g, last, gale__lower_index(L, window))));
    return keep;
}

double gale__attend_scale(gale__lower *L, gale__node q)
{
    gale__prim_node p = gale__lower_peek(L->g, q);
    double given = gale__attr_f(L, "scale", 0);
    return given != 0 ? given : p.rank == 4 && p.dims[3] > 0 ? 1 / sqrt((double)p.dims[3]) : 1;
}

/* Softmax of rows with one score more, whose weight is left out. */
static gale__node softmax_beside(gale__lower *L, gale__node s, gale__node sink)
{
    gale__prim_graph *g = L->g;
    gale__node top = gale__prim_binary(g, GALE__MAX, gale__prim_reduce(g, GALE__RMAX, s, 1u << 3, true), sink);
    gale__node e = gale__prim_unary(g, GALE__EXP, gale__prim_sub(g, s, top));
    gale__node sum = gale__prim_add(g, gale__prim_reduce(g, GALE__SUM, e, 1u << 3, true),
        gale__prim_unary(g, GALE__EXP, gale__prim_sub(g, sink, top)));
    return gale__prim_div(g, e, sum);
}

/* A body that keeps type and shape of its first input, followed by values of the graph around. */
static gale__node modified(gale__lower *L, const gale_graph *body, const gale__node *captured, gale__node x)
{
    gale__node y = x, *in;
    if (!body || !gale__lower_good(L)) return x;
    if (body->n_inputs < 1) return gale__lower_refuse(L, "a body has no input");
    if (!(in = gale__arena_alloc(&L->g->arena, (size_t)body->n_inputs * sizeof *in))) L->g->status = GALE_NO_MEMORY;
    if (!in) return GALE__NIL;
    in[0] = x;
    if (body->n_inputs > 1) memcpy(in + 1, captured, (size_t)(body->n_inputs - 1) * sizeof *in);
    uint64_t outer = L->g->scope;
    L->g->scope = gale__seed_mix(outer + 1, L->node->number);
    gale_status status = gale__opgraph_inline(body, L->g, in, body->n_inputs, &y, 1);
    L->g->scope = outer;
    if (status != GALE_OK) return GALE__NIL;
    if (!gale__prim_same_shape(L->g, x, y) || gale__lower_type_of(L->g, x) != gale__lower_type_of(L->g, y))
        return gale__lower_refuse(L, "a body changes the type or shape of its input");
    return y;
}

static bool fits(gale__lower *L, const gale__attend *a)
{
    gale__prim_node q = gale__lower_peek(L->g, a->q), k = gale__lower_peek(L->g, a->k),
                    v = gale__lower_peek(L->g, a->v);
    if (!gale__lower_good(L)) return false;
    bool ok = q.rank == 4 && k.rank == 4 && v.rank == 4 && q.dims[0] == k.dims[0] && q.dims[0] == v.dims[0] &&
              q.dims[3] == k.dims[3];
    ok = ok && k.dims[1] == v.dims[1] && k.dims[2] == v.dims[2] && k.dims[1] > 0 && q.dims[1] % k.dims[1] == 0;
    if (!ok) gale__lower_refuse(L, "query, key and value do not match: the axes must be [batch, heads, length, size]");
    return ok;
}

/* [.., heads, a, b] as [.., groups, heads / groups, a, b]; heads of 1 stay one. */
static gale__node grouped(gale__lower *L, gale__node x, int64_t groups)
{
    gale__prim_node p = gale__lower_peek(L->g, x);
    if (x < 0 || p.rank < 3) return x;
    int at = p.rank - 3;
    int64_t dims[GALE_MAX_RANK];
    memcpy(dims, p.dims, (size_t)at * sizeof *dims);
    dims[at] = p.dims[at] > 1 ? groups : 1;
    dims[at + 1] = p.dims[at] / dims[at];
    dims[at + 2] = p.dims[at + 1], dims[at + 3] = p.dims[at + 2];
    return gale__prim_reshape(L->g, x, p.rank + 1, dims);
}

static gale__node ungrouped(gale__lower *L, gale__node x)
{
    gale__prim_node p = gale__lower_peek(L->g, x);
    const int64_t dims[4] = {p.dims[0], p.dims[1] * p.dims[2], p.dims[3], p.dims[4]};
    return gale__prim_reshape(L->g, x, 4, dims);
}

/* Offers queries, keys and values of one type, and the result as lowered; true when it became a routine's. */
static bool offer(gale__lower *L, const gale__attend *a, const gale__node *qkv, int64_t groups, gale__node *y)
{
    gale__node in[6] = {qkv[0], qkv[1], qkv[2], grouped(L, a->bias, groups), GALE__NIL, grouped(L, a->keep, groups)};
    gale_attr attrs[5] = {GALE_FLOAT("scale", a->scale), GALE_FLOAT("fill", a->hidden), GALE_INT("turned", 1),
        GALE_INT("seen", a->seen), GALE_INT("blind", a->blind_rows)};
    gale__op_node node = {.name = "Attention",
        .path = gale__fast_paths_first("Attention"),
        .n_in = 6,
        .n_out = 1,
        .attrs = attrs,
        .n_attrs = 5,
        .body = L->node,
        .n_body = 1};
    gale__node was = *y;
    gale_status status = gale__lower_good(L) ? gale__fast_paths_claim(L->g, L->device, &node, in, y) : GALE_OK;
    if (status != GALE_OK && gale__lower_good(L)) L->g->status = status;
    return *y != was;
}

/* What a value was before it was widened; NIL where it was not. */
static gale__node unwidened(gale__lower *L, gale__node x)
{
    gale__prim_node p = gale__lower_peek(L->g, x);
    return p.op == GALE__CAST && p.type == GALE_F32 && gale__type_is_float(gale__lower_type_of(L->g, p.in[0]))
               ? p.in[0]
               : GALE__NIL;
}

/* A fast path for the whole if the device has one, else y unchanged.  Routines for halves read them in place. */
static gale__node claimed(gale__lower *L, const gale__attend *a, const gale__node *qkv, int64_t groups, gale__node y)
{
    if (!L->device || !gale__lower_good(L) || a->softcap > 0 || a->sink >= 0 || a->score_mod.body || a->prob_mod.body ||
        a->softmax_type != GALE_F32)
        return y;
    gale__node q = unwidened(L, a->q), k = unwidened(L, a->k), v = unwidened(L, a->v);
    gale_type type = gale__lower_type_of(L->g, q);
    if (q >= 0 && k >= 0 && v >= 0 && gale__lower_type_of(L->g, k) == type && gale__lower_type_of(L->g, v) == type) {
        const gale__node narrow[3] = {
            grouped(L, q, groups), gale__prim_unsqueeze(L->g, k, 1u << 2), gale__prim_unsqueeze(L->g, v, 1u << 2)};
        gale__node result = gale__prim_cast(L->g, y, type);
        if (offer(L, a, narrow, groups, &result)) return gale__prim_cast(L->g, result, GALE_F32);
    }
    offer(L, a, qkv, groups, &y);
    return y;
}

/* Whether a row sees any key, [.., rows or 1, 1]; NIL where all do.  Masks decide, not scores, which may be NaN. */
static gale__node sees_any(gale__lower *L, const gale__attend *a, gale__node keep)
{
    gale__prim_graph *g = L->g;
    gale__node open =
        a->bias >= 0 ? gale__prim_binary(g, GALE__GT, a->bias, gale__lower_value(L, a->bias, -INFINITY)) : GALE__NIL;
    if (!a->blind_rows || (a->keep < 0 && open < 0)) return GALE__NIL;
    open = gale__lower_both(L, keep, open);
    int rank = gale__lower_rank_of(g, open);
    return rank > 0 ? gale__prim_reduce(g, GALE__RMAX, open, 1u << (rank - 1), true) : open;
}

static gale__node zero_unless(gale__lower *L, gale__node sees, gale__node x)
{
    return sees >= 0 ? gale__prim_select(L->g, sees, x, gale__lower_value(L, x, 0)) : x;
}

/* Scores to result, with the parts of `a` as they are. */
static gale__node attend(gale__lower *L, gale__attend *a)
{
    gale__prim_graph *g = L->g;
    const int turn[5] = {0, 1, 2, 4, 3};
    /* Heads that share keys are an axis of their own: [B, K, G, ..] beside [B, K, 1, ..]. */
    int64_t groups = gale__lower_peek(g, a->k).dims[1];
    gale__node qkv[3] = {
        grouped(L, a->q, groups), gale__prim_unsqueeze(g, a->k, 1u << 2), gale__prim_unsqueeze(g, a->v, 1u << 2)};
    gale__node s = ungrouped(L, gale__prim_matmul(g, qkv[0], gale__prim_permute(g, qkv[1], turn)));
    a->stage[0] = s = gale__prim_mul(g, s, gale__lower_value(L, s, a->scale));
    if (a->softcap > 0)
        s = gale__prim_mul(g,
            gale__prim_unary(g, GALE__TANH, gale__prim_mul(g, s, gale__lower_value(L, s, 1 / a->softcap))),
            gale__lower_value(L, s, a->softcap));
    a->stage[1] = s;
    if (a->bias >= 0) s = gale__prim_add(g, s, a->bias);
    gale__node keep = a->keep;
    if (a->seen)
        keep = gale__lower_both(L, keep,
            gale__lower_causal(L, gale__lower_peek(g, a->q).dims[2], gale__lower_peek(g, a->k).dims[2],
                gale__lower_index(L, a->seen - 1), 0));
    if (keep >= 0) s = gale__prim_select(g, keep, s, gale__lower_value(L, s, a->hidden));
    a->stage[2] = s;
    s = modified(L, a->score_mod.body, a->score_mod.captured, gale__prim_cast(g, s, a->softmax_type));
    gale__node p = a->sink >= 0 ? softmax_beside(L, s, gale__prim_cast(g, a->sink, a->softmax_type))
                                : gale__lower_softmax(L, s, 1u << 3);
    p = modified(L, a->prob_mod.body, a->prob_mod.captured, p);
    gale__node sees = sees_any(L, a, keep),
               y = gale__prim_matmul(g, grouped(L, p, groups), gale__prim_cast(g, qkv[2], a->softmax_type));
    a->stage[3] = zero_unless(L, sees, p);
    y = zero_unless(L, grouped(L, sees, groups), y);
    return gale__lower_good(L) ? ungrouped(L, claimed(L, a, qkv, groups, y)) : GALE__NIL;
}

/* [B, heads, rows, n] of the same elements. */
static gale__node refold(gale__lower *L, gale__node x, int64_t heads, int64_t rows)
{
    gale__prim_node p = gale__lower_peek(L->g, x);
    const int64_t dims[4] = {p.dims[0], heads, rows, p.dims[3]};
    return x < 0 ? x : gale__prim_reshape(L->g, x, 4, dims);
}

/* Masks of heads follow when heads become rows; others are the same for all. */
static gale__node refold_mask(gale__lower *L, gale__node x, int64_t heads, int64_t groups)
{
    gale__prim_node p = gale__lower_peek(L->g, x);
    if (x < 0 || p.rank < 3 || p.dims[p.rank - 3] != heads) return x;
    return refold(L, p.rank == 3 ? gale__prim_unsqueeze(L->g, x, 1) : x, groups, heads / groups);
}

gale__node gale__attend_run(gale__lower *L, gale__attend *a)
{
    if (!fits(L, a)) return GALE__NIL;
    gale__prim_node q = gale__lower_peek(L->g, a->q), k = gale__lower_peek(L->g, a->k);
    int64_t heads = q.dims[1], groups = k.dims[1];
    if (a->sink >= 0) a->sink = gale__lower_along(L, a->sink, 4, 1);
    if (a->seen >= k.dims[2]) a->seen = 0;
    if (q.dims[2] != 1 || heads == groups || a->score_mod.body || a->prob_mod.body) return attend(L, a);
    if (a->seen)
        a->keep =
            gale__lower_both(L, a->keep, gale__lower_causal(L, 1, k.dims[2], gale__lower_index(L, a->seen - 1), 0)),
        a->seen = 0;
    /* One row each: the heads that share keys are rows of one head, and read the keys once. */
    a->q = refold(L, a->q, groups, heads / groups);
    a->bias = refold_mask(L, a->bias, heads, groups);
    a->keep = refold_mask(L, a->keep, heads, groups);
    if (a->sink >= 0 && gale__lower_peek(L->g, a->sink).dims[1] == heads)
        a->sink = refold(L, a->sink, groups, heads / groups);
    gale__node y = attend(L, a);
    for (int i = 0; i < 4 && gale__lower_good(L); i++) a->stage[i] = refold(L, a->stage[i], heads, 1);
    return gale__lower_good(L) ? refold(L, y, heads, 1) : GALE__NIL;
}
