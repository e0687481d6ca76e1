/* Positions and gates around com.microsoft's attention: biases by distance, rotation by given angles, gates. */
#include "ops/attention.h"
#include <math.h>
#include <string.h>

/* --- Biases by distance. --- */

/* T5's bucket of a key `distance` behind (negative) or ahead of its query: one each for small ones, then by logarithm.
 */
static int64_t bucket_of(int64_t distance, int64_t buckets, int64_t farthest, bool both_ways)
{
    int64_t first = 0, n = distance < 0 ? -distance : 0;
    if (both_ways) {
        buckets /= 2;
        first = distance > 0 ? buckets : 0;
        n = distance < 0 ? -distance : distance;
    }
    int64_t exact = buckets / 2;
    if (n < exact) return first + n;
    int64_t far = exact + (int64_t)(logf((float)n / (float)exact) / logf((float)farthest / (float)exact) *
                                    (float)(buckets - exact));
    return first + (far < buckets ? far : buckets - 1);
}

LOWER(MSRelativePositionBias)
{
    gale__prim_graph *g = L->g;
    int64_t n[2], farthest = gale__attr_i(L, "max_distance", 0);
    const int64_t *rows = gale__lower_known_ints(L, 1, &n[0]), *columns = gale__lower_known_ints(L, 2, &n[1]);
    gale__prim_node table = gale__lower_peek(g, L->in[0]);
    if (gale__lower_good(L) &&
        (n[0] != 1 || n[1] != 1 || rows[0] < 1 || columns[0] < 1 || rows[0] > 1 << 24 || columns[0] > 1 << 24))
        gale__lower_refuse(L, "query_length and key_length must be one number each, at least 1");
    if (table.rank != 2 || table.dims[0] < 4 || farthest <= table.dims[0] / 2)
        gale__lower_refuse(
            L, "the table must be [buckets, heads], and max_distance larger than its buckets distinguish");
    if (!gale__lower_good(L)) return;
    int64_t count = rows[0] + columns[0] - 1, dims[2] = {rows[0], columns[0]};
    int64_t *bucket = gale__arena_alloc(&g->arena, (size_t)count * sizeof *bucket);
    if (!bucket) g->status = GALE_NO_MEMORY;
    for (int64_t i = 0; bucket && i < count; i++)
        bucket[i] = bucket_of(i - rows[0] + 1, table.dims[0], farthest, gale__attr_i(L, "is_bidirectional", 0) != 0);
    if (!bucket) return;
    /* The distance of key j from query i is j - i. */
    gale__node at = gale__prim_add(g, gale__prim_sub(g, gale__prim_iota(g, 2, dims, 1), gale__prim_iota(g, 2, dims, 0)),
        gale__lower_index(L, rows[0] - 1));
    /* The table says [buckets, heads], but its numbers are head by head. */
    const int64_t by_head[2] = {table.dims[1], table.dims[0]};
    gale__node all = gale__prim_reshape(g, L->in[0], 2, by_head),
               which = gale__prim_take(g, gale__prim_const(g, GALE_I64, 1, &count, bucket), at);
    L->out[0] = gale__prim_unsqueeze(g, gale__prim_gather(g, all, which, 1), 1);
}

LOWER(MSGatedRelativePositionBias)
{
    enum { QUERY, BIAS, DISTANCE, W, W_BIAS, ECO, OFFSET };
    gale__prim_graph *g = L->g;
    int64_t heads = gale__attr_i(L, "num_heads", 0);
    gale_type type = gale__lower_type_of(g, L->in[QUERY]);
    if (gale__lower_arg(L, OFFSET) >= 0) gale__lower_refuse(L, "unpadded tokens are not supported");
    gale__node q = gale__lower_heads_split(
        L, gale__prim_add(g, gale__lower_wide(L, L->in[QUERY]), gale__lower_wide(L, L->in[BIAS])), heads);
    gale__node ur =
        gale__prim_add(g, gale__prim_matmul(g, q, gale__lower_wide(L, L->in[W])), gale__lower_wide(L, L->in[W_BIAS]));
    gale__prim_node p = gale__lower_peek(g, ur);
    if (gale__lower_good(L) && p.dims[3] % 2)
        gale__lower_refuse(L, "the weights have %lld columns, which must be even", (long long)p.dims[3]);
    if (!gale__lower_good(L)) return;
    const int64_t pairs[5] = {p.dims[0], p.dims[1], p.dims[2], 2, p.dims[3] / 2};
    gale__node gate =
        gale__lower_sigmoid(L, gale__prim_reduce(g, GALE__SUM, gale__prim_reshape(g, ur, 5, pairs), 1u << 4, false));
    gale__node u = gale__prim_slice_axis(g, gate, 3, 0, 1), r = gale__prim_slice_axis(g, gate, 3, 1, 1),
               one = gale__lower_value(L, u, 1);
    gale__node scale = gale__prim_add(g,
        gale__prim_mul(g, u, gale__prim_sub(g, gale__prim_mul(g, r, gale__lower_wide(L, L->in[ECO])), one)),
        gale__lower_value(L, u, 2));
    L->out[0] = gale__prim_cast(g, gale__prim_mul(g, scale, gale__lower_wide(L, L->in[DISTANCE])), type);
}

/* --- Rotary embeddings of tables made on the way. --- */

/* q cos(e) + q' sin(e) and the same for k; both factors are rounded to q's type. */
LOWER(MSGemmaRotaryEmbedding)
{
    gale__prim_graph *g = L->g;
    gale_type type = gale__lower_type_of(g, L->in[1]);
    gale__node e = gale__lower_wide(L, L->in[0]),
               part[2] = {gale__prim_unary(g, GALE__COS, e), gale__prim_unary(g, GALE__SIN, e)};
    for (int i = 0; i < 2; i++)
        part[i] = gale__lower_wide(L, gale__prim_cast(g, gale__prim_unsqueeze(g, part[i], 1u << 1), type));
    for (int i = 0; i < L->n_out; i++)
        L->out[i] = gale__prim_cast(g,
            gale__prim_add(g, gale__prim_mul(g, gale__lower_wide(L, L->in[1 + 2 * i]), part[0]),
                gale__prim_mul(g, gale__lower_wide(L, L->in[2 + 2 * i]), part[1])),
            type);
}

/* --- Gates. --- */

LOWER(MSLinearAttentionGate)
{
    gale__prim_graph *g = L->g;
    gale__node soft =
        gale__lower_softplus(L, gale__prim_add(g, gale__lower_wide(L, L->in[0]), gale__lower_wide(L, L->in[1])));
    L->out[0] =
        gale__prim_cast(g, gale__prim_mul(g, soft, gale__lower_wide(L, L->in[2])), gale__lower_type_of(g, L->in[0]));
    if (L->n_out < 2) return;
    if (gale__lower_arg(L, 3) < 0) gale__lower_refuse(L, "beta needs the input b");
    else
        L->out[1] =
            gale__prim_cast(g, gale__lower_sigmoid(L, gale__lower_wide(L, L->in[3])), gale__lower_type_of(g, L->in[3]));
}

LOWER(MSGatedRMSNorm)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]), s = gale__lower_peek(g, L->in[1]);
    const char *name = gale__attr_s(L, "activation", "silu");
    bool plain = !strcmp(name, "sigmoid");
    if (!plain && strcmp(name, "silu") && strcmp(name, "swish")) gale__lower_refuse(L, "unknown activation '%s'", name);
    if (p.rank < 1 || p.rank >= GALE_MAX_RANK || s.rank != 1 || s.dims[0] < 1 || p.dims[p.rank - 1] % s.dims[0])
        gale__lower_refuse(L, "the last axis of X must be a multiple of the scale's");
    if (!gale__lower_good(L)) return;
    int64_t dims[GALE_MAX_RANK];
    memcpy(dims, p.dims, sizeof dims);
    dims[p.rank - 1] /= s.dims[0], dims[p.rank] = s.dims[0];
    gale__node x = gale__prim_reshape(g, gale__lower_wide(L, L->in[0]), p.rank + 1, dims),
               gate = gale__lower_wide(L, L->in[2]);
    gale__node square = gale__prim_add(g, gale__lower_mean(L, gale__prim_mul(g, x, x), 1u << p.rank),
        gale__lower_value(L, x, gale__attr_f(L, "epsilon", 1e-5)));
    gale__node y =
        gale__prim_mul(g, gale__prim_div(g, x, gale__prim_unary(g, GALE__SQRT, square)), gale__lower_wide(L, L->in[1]));
    gale__node open = gale__lower_sigmoid(L, gate);
    if (!plain) open = gale__prim_mul(g, gate, open);
    L->out[0] =
        gale__prim_cast(g, gale__prim_mul(g, gale__prim_reshape(g, y, p.rank, p.dims), open), (gale_type)p.type);
}
