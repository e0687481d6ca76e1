/* Rotary embeddings: pairs of columns rotated by an angle that depends on the position, from tables of cosines and
 * sines. */
#include "ops/rotary.h"
#include <string.h>

/* Every step-th column of the last axis from `first` on, n of them. */
static gale__node columns(gale__lower *L, gale__node x, int64_t first, int64_t step, int64_t n)
{
    gale__prim_node p = gale__lower_peek(L->g, x);
    int64_t start[GALE_MAX_RANK] = {0}, steps[GALE_MAX_RANK];
    for (int d = 0; d < p.rank; d++) steps[d] = 1;
    start[p.rank - 1] = first, steps[p.rank - 1] = step, p.dims[p.rank - 1] = n;
    return gale__prim_slice(L->g, x, start, steps, p.dims);
}

gale__node gale__lower_rotate(
    gale__lower *L, gale__node x, gale__node cosine, gale__node sine, int64_t size, bool interleaved)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, x);
    if (!gale__lower_good(L) || x < 0) return GALE__NIL;
    int last = p.rank - 1;
    int64_t half = size / 2, all = p.dims[last];
    if (size < 2 || size % 2 || size > all)
        return gale__lower_refuse(L, "cannot rotate %lld of %lld columns", (long long)size, (long long)all);
    gale__node a = columns(L, x, 0, interleaved ? 2 : 1, half),
               b = columns(L, x, interleaved ? 1 : half, interleaved ? 2 : 1, half);
    gale__node parts[3] = {gale__prim_sub(g, gale__prim_mul(g, cosine, a), gale__prim_mul(g, sine, b)),
        gale__prim_add(g, gale__prim_mul(g, sine, a), gale__prim_mul(g, cosine, b))};
    if (interleaved) {
        for (int i = 0; i < 2; i++) parts[i] = gale__prim_unsqueeze(g, parts[i], 1u << p.rank);
        p.dims[last] = size;
        parts[0] = gale__prim_reshape(g, gale__prim_concat(g, p.rank, parts, 2), p.rank, p.dims);
    }
    int n = interleaved ? 1 : 2;
    if (size < all) parts[n++] = columns(L, x, size, 1, all - size);
    return n > 1 ? gale__prim_concat(g, last, parts, n) : parts[0];
}

/* A table [positions, half] by ids, or one [B, T, half] as it is, with an axis of 1 for the heads. */
static gale__node table(gale__lower *L, int i, gale__node ids, int64_t half, int heads_axis)
{
    gale__node t = gale__lower_wide(L, L->in[i]);
    if (ids >= 0 && gale__lower_rank_of(L->g, t) == 2) t = gale__prim_gather(L->g, t, ids, 0);
    gale__prim_node p = gale__lower_peek(L->g, t);
    if (gale__lower_good(L) && (p.rank != 3 || p.dims[2] != half))
        gale__lower_refuse(
            L, "input %d has rank %d, or not %lld columns for each position", i, p.rank, (long long)half);
    return gale__prim_unsqueeze(L->g, t, 1u << heads_axis);
}

/* Input 0 of rank 3 or 4 turned by the tables at `tables` and the one after; head: columns of a head where the input
 * has rank 3. */
static void turn(gale__lower *L, int tables, gale__node ids, int64_t head, int64_t size)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    gale__node x = gale__lower_wide(L, L->in[0]);
    if (p.rank != 4 && (p.rank != 3 || head < 1 || p.dims[2] % head))
        gale__lower_refuse(L, "an input of rank %d has no heads of %lld columns", p.rank, (long long)head);
    if (!gale__lower_good(L)) return;
    const int64_t dims[4] = {p.dims[0], p.dims[1], p.rank == 3 ? p.dims[2] / head : 0, head};
    if (p.rank == 3) x = gale__prim_reshape(g, x, 4, dims);
    if (size == 0) size = gale__lower_peek(g, x).dims[3];
    int axis = p.rank == 3 ? 2 : 1; /* of the heads */
    gale__node cosine = table(L, tables, ids, size / 2, axis), sine = table(L, tables + 1, ids, size / 2, axis);
    gale__node y = gale__lower_rotate(L, x, cosine, sine, size, gale__attr_i(L, "interleaved", 0) != 0);
    L->out[0] = gale__prim_cast(g, gale__prim_reshape(g, y, p.rank, p.dims), (gale_type)p.type);
}

LOWER(RotaryEmbedding)
{
    gale__prim_node p = gale__lower_peek(L->g, L->in[0]);
    int64_t heads = gale__attr_i(L, "num_heads", 0);
    if (p.rank == 3 && (heads < 1 || p.dims[2] % heads))
        gale__lower_refuse(L, "%lld columns cannot be divided into %lld heads", (long long)p.dims[2], (long long)heads);
    if (gale__lower_good(L))
        turn(L, 1, gale__lower_arg(L, 3), p.rank == 3 ? p.dims[2] / heads : 0,
            gale__attr_i(L, "rotary_embedding_dim", 0));
}

/* com.microsoft's: positions come before the tables, and one alone is where the first row is. */
LOWER(MSRotaryEmbedding)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]), c = gale__lower_peek(g, L->in[2]),
                    i = gale__lower_peek(g, L->in[1]);
    int64_t size = gale__attr_i(L, "rotary_embedding_dim", 0), heads = gale__attr_i(L, "num_heads", 0);
    if (gale__attr_i(L, "is_packed_batching", 0)) gale__lower_refuse(L, "unpadded batches are not supported");
    if (c.rank != 2 || (p.rank != 3 && p.rank != 4) || (size > 0 && p.rank == 3 && (heads < 1 || p.dims[2] % heads)))
        gale__lower_refuse(L, "an input of rank %d does not match tables of rank %d", p.rank, c.rank);
    if (!gale__lower_good(L)) return;
    int64_t ids[2] = {p.dims[0], p.dims[p.rank - 2]}, rows[2] = {1, ids[1]}, one[2] = {1, 1};
    gale__node at = L->in[1];
    if (i.rank == 1)
        at = gale__prim_expand(g,
            gale__prim_add(
                g, gale__prim_reshape(g, gale__prim_cast(g, at, GALE_I64), 2, one), gale__prim_iota(g, 2, rows, 1)),
            2, ids);
    turn(L, 2, at, size > 0 && p.rank == 3 ? p.dims[2] / heads : 2 * c.dims[1], size);
}
