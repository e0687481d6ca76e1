/* com.microsoft's GroupQueryAttention: keys and values in a cache that new rows are written into, each item of the
 * batch at its own length; rotary embeddings on the way.  How long the cache becomes must be known when planning, how
 * long each item is need not. */
#include "device/device.h"
#include "ops/attention.h"
#include "ops/rotary.h"
#include <math.h>
#include <string.h>

enum {
    QUERY,
    KEY,
    VALUE,
    PAST_KEY,
    PAST_VALUE,
    LENGTHS,
    TOTAL,
    COSINE,
    SINE,
    POSITIONS,
    ADDED,
    SINK,
    KEY_SCALE,
    VALUE_SCALE,
    QUERY_NORM,
    KEY_NORM
};

typedef struct query {
    int64_t heads, groups, batch, rows, total, kept; /* kept: rows of the cache afterwards */
    gale__node first;                                /* where the new rows begin, [B, 1, 1, 1] */
} query;

static bool read_query(gale__lower *L, query *c)
{
    int64_t n;
    const int64_t *total = gale__lower_known_ints(L, TOTAL, &n);
    gale__prim_node q = gale__lower_peek(L->g, L->in[QUERY]),
                    past = gale__lower_peek(L->g, gale__lower_arg(L, PAST_KEY));
    c->heads = gale__attr_i(L, "num_heads", 0), c->groups = gale__attr_i(L, "kv_num_heads", 0);
    bool plain = !gale__attr_i(L, "sliding_window_cache", 0) && gale__lower_arg(L, KEY_SCALE) < 0 &&
                 gale__lower_arg(L, VALUE_SCALE) < 0;
    if (!plain) gale__lower_refuse(L, "a windowed or quantised cache is not supported");
    if (gale__lower_good(L) && (n != 1 || q.rank != 3 || c->heads < 1 || c->heads > INT32_MAX || c->groups < 1 ||
                                   c->groups > INT32_MAX || (past.rank && past.rank != 4) || total[0] < q.dims[1]))
        gale__lower_refuse(L,
            "query must have 3 axes, past 4, and total_sequence_length must be one number that includes the new rows");
    if (!gale__lower_good(L)) return false;
    c->batch = q.dims[0], c->rows = q.dims[1], c->total = total[0];
    c->kept = past.rank && past.dims[2] > c->total ? past.dims[2] : c->total;
    if (gale__lower_arg(L, LENGTHS) < 0 || gale__prim_elements(L->g, L->in[LENGTHS]) != c->batch)
        gale__lower_refuse(L, "seqlens_k must have %lld numbers", (long long)c->batch);
    if (!gale__lower_good(L)) return false;
    /* A prompt begins at 0, whatever its length; one item alone is as long as the longest. */
    if (c->batch == 1 || c->rows == c->total) c->first = gale__lower_index(L, c->total - c->rows);
    else
        c->first = gale__prim_sub(L->g, gale__lower_along(L, gale__prim_cast(L->g, L->in[LENGTHS], GALE_I64), 4, 0),
            gale__lower_index(L, c->rows - 1));
    return gale__lower_good(L);
}

/* Queries, keys and values [B, heads, rows, D]: three inputs, or one with all of them side by side. */
static bool split_inputs(gale__lower *L, const query *c, gale__node part[3])
{
    gale__prim_node q = gale__lower_peek(L->g, L->in[QUERY]);
    int64_t heads[3] = {c->heads, c->groups, c->groups}, at = 0, all = c->heads + 2 * c->groups;
    bool packed = gale__lower_arg(L, KEY) < 0;
    if (!packed && gale__lower_arg(L, VALUE) < 0) gale__lower_refuse(L, "keys without values");
    if (packed && q.dims[2] % all)
        gale__lower_refuse(L, "%lld columns cannot be divided into %lld heads", (long long)q.dims[2], (long long)all);
    for (int i = 0; i < 3 && gale__lower_good(L); i++) {
        int64_t width = packed ? q.dims[2] / all * heads[i] : 0;
        part[i] = gale__lower_heads_split(
            L, packed ? gale__prim_slice_axis(L->g, L->in[QUERY], 2, at, width) : L->in[i], heads[i]);
        at += width;
    }
    return gale__lower_good(L);
}

/* RMS over each head, where its weights are given. */
static gale__node normed(gale__lower *L, gale__node x, int weights)
{
    gale__prim_graph *g = L->g;
    if (gale__lower_arg(L, weights) < 0) return x;
    gale__node wide = gale__lower_wide(L, x), square = gale__lower_mean(L, gale__prim_mul(g, wide, wide), 1u << 3);
    gale__node root = gale__prim_unary(
        g, GALE__SQRT, gale__prim_add(g, square, gale__lower_value(L, wide, gale__attr_f(L, "qk_norm_epsilon", 1e-6))));
    return gale__prim_cast(g, gale__prim_mul(g, gale__prim_div(g, wide, root), gale__lower_wide(L, L->in[weights])),
        gale__lower_type_of(g, x));
}

/* x turned by the angles of its places in the whole sequence. */
static gale__node turned(gale__lower *L, const query *c, gale__node x)
{
    gale__prim_graph *g = L->g;
    gale__node table[2], at = gale__lower_arg(L, POSITIONS);
    const int64_t rows[4] = {1, 1, c->rows, 1}, flat[2] = {c->batch, c->rows}, all[4] = {c->batch, 1, c->rows, 1};
    if (!gale__attr_i(L, "do_rotary", 0)) return x;
    if (gale__lower_arg(L, COSINE) < 0 || gale__lower_arg(L, SINE) < 0)
        return gale__lower_refuse(L, "do_rotary needs cos_cache and sin_cache");
    if (at < 0 || c->rows == c->total) { /* a prompt is in one piece, from the first position on that is given */
        gale__node from = at < 0
                              ? c->first
                              : gale__prim_reshape(g,
                                    gale__prim_slice_axis(g, gale__prim_slice_axis(g, at, 0, 0, 1), 1, 0, 1), 0, NULL);
        at = gale__prim_reshape(
            g, gale__prim_expand(g, gale__prim_add(g, gale__prim_iota(g, 4, rows, 2), from), 4, all), 2, flat);
    }
    for (int i = 0; i < 2; i++)
        table[i] =
            gale__prim_unsqueeze(g, gale__prim_gather(g, gale__lower_wide(L, L->in[COSINE + i]), at, 0), 1u << 1);
    gale__prim_node t = gale__lower_peek(g, table[0]);
    if (!gale__lower_good(L)) return GALE__NIL;
    gale__node y = gale__lower_rotate(
        L, gale__lower_wide(L, x), table[0], table[1], 2 * t.dims[3], gale__attr_i(L, "rotary_interleaved", 0) != 0);
    return gale__prim_cast(g, y, gale__lower_type_of(g, x));
}

/* The same for the CPU, where looking up every element of the cache takes many times as long as copying it: rows behind
 * all that the cache holds are appended, and others are put in their places. */
static gale__node put_rows(gale__lower *L, const query *c, gale__node old, gale__node x, const int64_t *dims)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, x);
    bool known = c->batch == 1 || c->rows == c->total;
    int64_t filled = old >= 0 ? gale__lower_peek(g, old).dims[2] : 0, low[4] = {0},
            high[4] = {0, 0, dims[2] - filled, 0};
    if (known && filled == c->total - c->rows && dims[2] == c->total)
        return old >= 0 ? gale__prim_concat(g, 2, (gale__node[]){old, x}, 2) : x;
    old = old >= 0 ? gale__prim_pad(g, old, low, high, NULL, 0) : gale__prim_splat(g, (gale_type)p.type, 4, dims, 0);
    gale__node row = gale__prim_add(g, gale__lower_walk(L, 4, p.dims, 2, 1), c->first), at = gale__lower_index(L, 0);
    int64_t stride = 1;
    for (int d = 3; d >= 0; stride *= dims[d--])
        at = gale__prim_add(g, at,
            d == 2 ? gale__prim_mul(g, row, gale__lower_index(L, stride)) : gale__lower_walk(L, 4, p.dims, d, stride));
    gale__node inside = gale__lower_both(L, gale__prim_binary(g, GALE__GE, row, gale__lower_index(L, 0)),
        gale__prim_binary(g, GALE__LT, row, gale__lower_index(L, dims[2])));
    at = gale__prim_expand(g, gale__prim_select(g, inside, at, gale__lower_index(L, -1)), 4, p.dims);
    const int64_t all = p.dims[0] * p.dims[1] * p.dims[2] * p.dims[3], whole = dims[0] * dims[1] * dims[2] * dims[3];
    gale__node y = gale__prim_put(g, gale__prim_reshape(g, old, 1, &whole), gale__prim_reshape(g, at, 1, &all),
        gale__prim_reshape(g, x, 1, &all), -1);
    return gale__prim_reshape(g, y, 4, dims);
}

/* The cache with x [B, K, rows, D] in it from `first` on: [B, K, kept, D]. */
static gale__node cached(gale__lower *L, const query *c, int past, gale__node x)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, x);
    int64_t dims[4] = {p.dims[0], p.dims[1], c->kept, p.dims[3]}, walk[4] = {1, 1, c->kept, 1}, low[4] = {0},
            high[4] = {0, 0, 0, 0};
    if (!gale__lower_good(L)) return GALE__NIL;
    gale__node old = gale__lower_arg(L, past), row = gale__prim_sub(g, gale__prim_iota(g, 4, walk, 2), c->first);
    gale__prim_node o = gale__lower_peek(g, old);
    if (old >= 0 && (o.rank != 4 || o.dims[0] != dims[0] || o.dims[1] != dims[1] || o.dims[3] != dims[3]))
        return gale__lower_refuse(L, "input %d does not match the new rows", past);
    if (L->device && L->device->info.caps.host_functions) return put_rows(L, c, old, x, dims);
    high[2] = c->kept - (old >= 0 ? o.dims[2] : 0);
    old = old >= 0 ? gale__prim_pad(g, old, low, high, NULL, 0) : gale__prim_splat(g, (gale_type)p.type, 4, dims, 0);
    return gale__lower_overwrite(L, old, x, 2, row);
}

/* Keys up to the row's own place, within the item's length.  Rows past it would see none through a window, and nobody
 * reads them. */
static gale__node keys_seen(gale__lower *L, const query *c)
{
    const int64_t walk[4] = {1, 1, 1, c->total};
    int64_t window = gale__attr_i(L, "local_window_size", -1);
    bool causal = gale__attr_i(L, "causal", 1);
    gale__node keep = causal ? gale__lower_causal(L, c->rows, c->total, c->first, window > 0 ? window : 0) : GALE__NIL;
    if (c->batch == 1 || (causal && (c->rows < c->total || window > 0))) return keep;
    return gale__lower_both(L, keep,
        gale__prim_binary(L->g, GALE__LE, gale__prim_iota(L->g, 4, walk, 3),
            gale__lower_along(L, gale__prim_cast(L->g, L->in[LENGTHS], GALE_I64), 4, 0)));
}

static gale__node sink_of(gale__lower *L, const query *c)
{
    if (gale__lower_arg(L, SINK) >= 0) return gale__lower_wide(L, L->in[SINK]);
    if (gale__attr_i(L, "smooth_softmax", 0) != 1) return GALE__NIL;
    return gale__prim_splat(L->g, gale__lower_wide_type(gale__lower_type_of(L->g, L->in[QUERY])), 1, &c->heads, 0);
}

LOWER(MSGroupQueryAttention)
{
    gale__prim_graph *g = L->g;
    query c;
    gale__node part[3];
    if (!read_query(L, &c) || !split_inputs(L, &c, part)) return;
    gale_type type = gale__lower_type_of(g, L->in[QUERY]);
    gale__node q = turned(L, &c, normed(L, part[0], QUERY_NORM)),
               k = cached(L, &c, PAST_KEY, turned(L, &c, normed(L, part[1], KEY_NORM))),
               v = cached(L, &c, PAST_VALUE, part[2]);
    if (!gale__lower_good(L)) return;
    gale__attend a = {.q = gale__lower_wide(L, q),
        .k = gale__lower_wide(L, gale__prim_slice_axis(g, k, 2, 0, c.total)),
        .v = gale__lower_wide(L, gale__prim_slice_axis(g, v, 2, 0, c.total))};
    a.bias = gale__lower_arg(L, ADDED) >= 0 ? gale__lower_wide(L, L->in[ADDED]) : GALE__NIL;
    a.hidden = -INFINITY;
    a.sink = sink_of(L, &c);
    a.scale = gale__attend_scale(L, q);
    a.softcap = gale__attr_f(L, "softcap", 0);
    a.softmax_type = gale__lower_wide_type(type);
    /* One item without a window is plainly causal. */
    bool plain = c.batch == 1 && gale__attr_i(L, "causal", 1) && gale__attr_i(L, "local_window_size", -1) <= 0;
    if (plain) a.seen = c.total - c.rows + 1;
    a.keep = plain ? GALE__NIL : keys_seen(L, &c);
    gale__node y = gale__prim_cast(g, gale__attend_run(L, &a), type);
    if (!gale__lower_good(L)) return;
    L->out[0] = gale__lower_heads_join(L, y);
    if (L->n_out > 1) L->out[1] = k;
    if (L->n_out > 2) L->out[2] = v;
    if (L->n_out > 3) L->out[3] = gale__prim_cast(g, a.stage[gale__attr_i(L, "qk_output", 0) == 2 ? 3 : 2], type);
}
