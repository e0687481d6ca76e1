/* Scaled dot product attention, for every operator that has one inside.  Half floats are computed in F32 from the first product to the
 * last; heads and their groups are views. */
#include "ops/attention.h"
#include <string.h>

gale__node gale__heads_split(gale__lower *L, gale__node x, int64_t heads)
{
    gale__pnode p = gale__peek(L->g, x);
    const int turn[4] = {0, 2, 1, 3};
    if (!gale__good(L) || x < 0) return GALE__NIL;
    if (p.rank != 3 || heads < 1 || p.dims[2] % heads) return gale__refuse(L, "%lld heads in a value of rank %d with %lld columns", (long long)heads, p.rank, (long long)(p.rank ? p.dims[p.rank - 1] : 0));
    const int64_t dims[4] = {p.dims[0], p.dims[1], heads, p.dims[2] / heads};
    return gale__g_permute(L->g, gale__g_reshape(L->g, x, 4, dims), turn);
}

gale__node gale__heads_join(gale__lower *L, gale__node x)
{
    gale__pnode p = gale__peek(L->g, x);
    const int turn[4] = {0, 2, 1, 3};
    const int64_t dims[3] = {p.dims[0], p.dims[2], p.dims[1] * p.dims[3]};
    return gale__g_reshape(L->g, gale__g_permute(L->g, x, turn), 3, dims);
}

gale__node gale__heads_repeat(gale__lower *L, gale__node x, int64_t heads)
{
    gale__pnode p = gale__peek(L->g, x);
    if (!gale__good(L) || x < 0 || p.dims[1] == heads) return x;
    if (p.rank != 4 || p.dims[1] < 1 || heads % p.dims[1]) return gale__refuse(L, "%lld heads of queries cannot share %lld of keys", (long long)heads, (long long)p.dims[1]);
    const int64_t wide[5] = {p.dims[0], p.dims[1], heads / p.dims[1], p.dims[2], p.dims[3]}, dims[4] = {p.dims[0], heads, p.dims[2], p.dims[3]};
    return gale__g_reshape(L->g, gale__g_expand(L->g, gale__g_unsqueeze(L->g, x, 1u << 2), 5, wide), 4, dims);
}

gale__node gale__both(gale__lower *L, gale__node a, gale__node b)
{
    return a < 0 ? b : b < 0 ? a : gale__g_binary(L->g, GALE__AND, a, b);
}

gale__node gale__causal(gale__lower *L, int64_t m, int64_t n, gale__node offset, int64_t window)
{
    gale__g *g = L->g;
    const int64_t dims[2] = {m, n};
    gale__node last = gale__g_add(g, gale__g_iota(g, 2, dims, 0), offset), at = gale__g_iota(g, 2, dims, 1);
    gale__node keep = gale__g_binary(g, GALE__LE, at, last);
    if (window > 0) keep = gale__both(L, keep, gale__g_binary(g, GALE__GT, at, gale__g_sub(g, last, gale__index(L, window))));
    return keep;
}

/* A body of one input and one output that keeps type and shape. */
static gale__node modified(gale__lower *L, const gale_graph *body, gale__node x)
{
    gale__node y = x;
    if (!body || !gale__good(L)) return x;
    if (gale__opgraph_inline(body, L->g, &x, 1, &y, 1) != GALE_OK) return GALE__NIL;
    if (!gale__g_same_shape(L->g, x, y) || gale__type_of(L->g, x) != gale__type_of(L->g, y)) return gale__refuse(L, "a body changes the type or shape of what it is given");
    return y;
}

static bool fits(gale__lower *L, const gale__attend *a)
{
    gale__pnode q = gale__peek(L->g, a->q), k = gale__peek(L->g, a->k), v = gale__peek(L->g, a->v);
    if (!gale__good(L)) return false;
    bool ok = q.rank == 4 && k.rank == 4 && v.rank == 4 && q.dims[0] == k.dims[0] && q.dims[0] == v.dims[0] && q.dims[3] == k.dims[3];
    ok = ok && k.dims[1] == v.dims[1] && k.dims[2] == v.dims[2];
    if (!ok) gale__refuse(L, "query, key and value do not go together: axes are [batch, heads, length, size]");
    return ok;
}

gale__node gale__attend_run(gale__lower *L, gale__attend *a)
{
    gale__g *g = L->g;
    const int turn[4] = {0, 1, 3, 2};
    if (!fits(L, a)) return GALE__NIL;
    int64_t heads = gale__peek(g, a->q).dims[1];
    gale__node k = gale__heads_repeat(L, a->k, heads), v = gale__heads_repeat(L, a->v, heads);
    gale__node s = gale__g_matmul(g, a->q, k < 0 ? k : gale__g_permute(g, k, turn));
    a->stage[0] = s = gale__g_mul(g, s, gale__value(L, s, a->scale));
    if (a->softcap > 0) s = gale__g_mul(g, gale__g_unary(g, GALE__TANH, gale__g_mul(g, s, gale__value(L, s, 1 / a->softcap))), gale__value(L, s, a->softcap));
    a->stage[1] = s;
    if (a->bias >= 0) s = gale__g_add(g, s, a->bias);
    if (a->keep >= 0) s = gale__g_select(g, a->keep, s, gale__value(L, s, a->hidden));
    a->stage[2] = s;
    s = modified(L, a->score_mod, gale__g_cast(g, s, a->softmax_type));
    gale__node p = gale__softmax(L, s, 1u << 3);
    a->stage[3] = p = modified(L, a->prob_mod, p);
    return gale__g_matmul(g, p, gale__g_cast(g, v, a->softmax_type));
}
