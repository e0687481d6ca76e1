/* Attention and MultiHeadAttention of com.microsoft, as written by onnxruntime's optimisers: with projections and
 * biases, integer masks, and a cache of keys and values in one value or two. */
#include "ops/attention.h"
#include <math.h>
#include <string.h>

/* A mask [B, total], [B, M, total], lengths [B], ends and starts [2 B], or [B, 1, max, max]: whether a key may be seen,
 * [B, 1, M or 1, total]. */
static gale__node seen(gale__lower *L, gale__node mask, int64_t batch, int64_t rows, int64_t total, int64_t past)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, mask);
    const int64_t walk[4] = {1, 1, 1, total};
    gale__node at = gale__prim_iota(g, 4, walk, 3), whole = gale__prim_cast(g, mask, GALE_I64), end, start;
    if (p.rank == 1 && (p.dims[0] == batch || p.dims[0] == 2 * batch)) {
        end = gale__prim_binary(
            g, GALE__LT, at, gale__lower_along(L, gale__prim_slice_axis(g, whole, 0, 0, batch), 4, 0));
        if (p.dims[0] == batch) return end;
        start = gale__prim_binary(
            g, GALE__GE, at, gale__lower_along(L, gale__prim_slice_axis(g, whole, 0, batch, batch), 4, 0));
        return gale__lower_both(L, end, start);
    }
    bool fits = p.rank >= 2 && p.dims[0] == batch && p.dims[p.rank - 1] == total &&
                (p.rank == 2 || (p.rank == 3 && p.dims[1] == rows));
    if (p.rank == 4 && p.dims[0] == batch && p.dims[1] == 1 && p.dims[2] >= past + rows && p.dims[3] >= total) {
        whole = gale__prim_slice_axis(g, gale__prim_slice_axis(g, whole, 2, past, rows), 3, 0, total);
        fits = true;
    } else if (fits) whole = gale__prim_unsqueeze(g, whole, p.rank == 2 ? 1u << 1 | 1u << 2 : 1u << 1);
    if (!fits)
        return gale__lower_refuse(L, "a mask of rank %d does not match a batch of %lld with %lld keys", p.rank,
            (long long)batch, (long long)total);
    return gale__prim_binary(g, GALE__GT, whole, gale__lower_index(L, 0));
}

/* Masked keys get a low score, which may still win where all others have it too; later keys none at all. */
static void set_masks(gale__lower *L, gale__attend *a, gale__node mask, gale__node bias, int64_t past)
{
    gale__prim_graph *g = L->g;
    gale__prim_node q = gale__lower_peek(g, a->q), k = gale__lower_peek(g, a->k);
    double low = gale__attr_f(L, "mask_filter_value", -10000);
    a->bias = bias >= 0 ? gale__lower_wide(L, bias) : GALE__NIL;
    if (mask >= 0) {
        gale__node added = gale__prim_select(g, seen(L, mask, q.dims[0], q.dims[2], k.dims[2], past),
            gale__lower_value(L, a->q, 0), gale__lower_value(L, a->q, low));
        a->bias = a->bias >= 0 ? gale__prim_add(g, a->bias, added) : added;
    }
    if (gale__attr_i(L, "unidirectional", 0)) a->seen = past + 1;
}

static gale__attend begin(gale__lower *L, gale__node q, gale__node k, gale__node v)
{
    gale__attend a = {.q = gale__lower_wide(L, q),
        .k = gale__lower_wide(L, k),
        .v = gale__lower_wide(L, v),
        .bias = GALE__NIL,
        .keep = GALE__NIL,
        .sink = GALE__NIL,
        .hidden = -INFINITY};
    a.scale = gale__attend_scale(L, q);
    a.softmax_type = gale__lower_wide_type(gale__lower_type_of(L->g, q));
    return a;
}

static gale__node after(gale__lower *L, gale__node past, gale__node x)
{
    gale__node both[2] = {past, x};
    return past < 0 ? x : gale__prim_concat(L->g, 2, both, 2);
}

/* --- Attention: one product for queries, keys and values. --- */

static bool read_sizes(gale__lower *L, int64_t heads, int64_t all, int64_t size[3])
{
    int n;
    const int64_t *given = gale__attr_ints(L, "qkv_hidden_sizes", &n);
    for (int i = 0; i < 3; i++) size[i] = n == 3 ? given[i] : all / 3;
    bool ok = (!n || n == 3) && size[0] == size[1] && size[0] + size[1] + size[2] == all && heads > 0 && all > 0;
    for (int i = 0; ok && i < 3; i++) ok = size[i] > 0 && size[i] % heads == 0;
    if (!ok)
        gale__lower_refuse(L, "%lld columns of weights do not match queries, keys and values of %lld heads",
            (long long)all, (long long)heads);
    return ok;
}

/* Attention of queries, keys and values side by side in `all` [B, M, columns]; -1 for an input that is not there. */
static void attend_projected(gale__lower *L, gale__node all, gale_type type, int64_t heads, const int64_t size[3],
    int mask, int past_input, int added)
{
    gale__prim_graph *g = L->g;
    gale__node past = gale__lower_arg(L, past_input), part[3], kept[2], state[2] = {GALE__NIL, GALE__NIL};
    gale__prim_node p = gale__lower_peek(g, past);
    int64_t at = 0;
    if (gale__attr_i(L, "do_rotary", 0) || gale__attr_i(L, "past_present_share_buffer", 0))
        gale__lower_refuse(L, "do_rotary and past_present_share_buffer are not supported");
    if (past >= 0 && (p.rank != 5 || p.dims[0] != 2))
        gale__lower_refuse(L, "past has rank %d instead of 5 with a leading 2", p.rank);
    for (int i = 0; i < 3 && gale__lower_good(L); at += size[i++])
        part[i] = gale__lower_heads_split(L, gale__prim_slice_axis(g, all, 2, at, size[i]), heads);
    if (!gale__lower_good(L)) return;
    for (int i = 0; i < 2 && past >= 0; i++)
        state[i] = gale__lower_wide(L, gale__prim_squeeze(g, gale__prim_slice_axis(g, past, 0, i, 1), 1));
    gale__attend a = begin(L, part[0], after(L, state[0], part[1]), after(L, state[1], part[2]));
    if (!gale__lower_good(L)) return;
    set_masks(L, &a, gale__lower_arg(L, mask), gale__lower_arg(L, added), past >= 0 ? p.dims[3] : 0);
    gale__node y = gale__prim_cast(g, gale__attend_run(L, &a), type);
    if (!gale__lower_good(L)) return;
    L->out[0] = gale__lower_heads_join(L, y);
    kept[0] = gale__prim_unsqueeze(g, a.k, 1), kept[1] = gale__prim_unsqueeze(g, a.v, 1);
    if (L->n_out > 1) L->out[1] = gale__prim_cast(g, gale__prim_concat(g, 0, kept, 2), type);
}

static bool has_axes(gale__lower *L)
{
    gale__prim_node x = gale__lower_peek(L->g, L->in[0]), w = gale__lower_peek(L->g, L->in[1]);
    if (x.rank != 3 || w.rank != 2)
        gale__lower_refuse(L, "input and weights have %d and %d axes instead of 3 and 2", x.rank, w.rank);
    return gale__lower_good(L);
}

LOWER(MSAttention)
{
    enum { X, W, BIAS, MASK, PAST, ADDED };
    int64_t heads = gale__attr_i(L, "num_heads", 0), size[3];
    if (!has_axes(L) || !read_sizes(L, heads, gale__lower_peek(L->g, L->in[W]).dims[1], size)) return;
    gale__node all = gale__prim_matmul(L->g, gale__lower_wide(L, L->in[X]), gale__lower_wide(L, L->in[W]));
    if (gale__lower_arg(L, BIAS) >= 0) all = gale__prim_add(L->g, all, gale__lower_wide(L, L->in[BIAS]));
    attend_projected(L, all, gale__lower_type_of(L->g, L->in[X]), heads, size, MASK, PAST, ADDED);
}

/* Whole numbers less their zero point. */
static gale__node centred(gale__lower *L, int i, int zero)
{
    gale__node x = gale__prim_cast(L->g, L->in[i], GALE_I32);
    return gale__lower_arg(L, zero) < 0 ? x : gale__prim_sub(L->g, x, gale__prim_cast(L->g, L->in[zero], GALE_I32));
}

/* The projection is a product of whole numbers; the rest is as above. */
LOWER(MSQAttention)
{
    enum { X, W, BIAS, X_SCALE, W_SCALE, MASK, X_ZERO, W_ZERO, PAST };
    gale__prim_graph *g = L->g;
    int64_t heads = gale__attr_i(L, "num_heads", 0), size[3];
    if (!has_axes(L) || !read_sizes(L, heads, gale__lower_peek(g, L->in[W]).dims[1], size)) return;
    gale__node scale = gale__prim_mul(g, gale__lower_wide(L, L->in[X_SCALE]), gale__lower_wide(L, L->in[W_SCALE]));
    gale__node all = gale__prim_cast(
        g, gale__prim_matmul(g, centred(L, X, X_ZERO), centred(L, W, W_ZERO)), gale__lower_type_of(g, scale));
    all = gale__prim_add(g, gale__prim_mul(g, all, scale), gale__lower_wide(L, L->in[BIAS]));
    attend_projected(L, all, gale__lower_type_of(g, L->in[BIAS]), heads, size, MASK, PAST, -1);
}

/* --- MultiHeadAttention: projections are before it. --- */

enum { QUERY, KEY, VALUE, BIAS, MASK, ADDED, PAST_KEY, PAST_VALUE, PAST_LENGTH, INDIRECTION };

/* Part i of [B, T, heads, n, D], as [B, heads, T, D]. */
static gale__node unpacked(gale__lower *L, gale__node x, int i)
{
    const int turn[4] = {0, 2, 1, 3};
    return gale__prim_permute(L->g, gale__prim_squeeze(L->g, gale__prim_slice_axis(L->g, x, 3, i, 1), 1u << 3), turn);
}

/* Input i of [B, T, heads * D] with its part of the bias, as [B, heads, T, D]; of rank 4 it is that already. */
static gale__node projected(gale__lower *L, int i, int64_t heads, int64_t *at)
{
    gale__prim_node p = gale__lower_peek(L->g, L->in[i]);
    gale__node x = L->in[i], bias = gale__lower_arg(L, BIAS);
    if (p.rank == 4 || p.rank != 3)
        return p.rank == 4 ? x : gale__lower_refuse(L, "input %d has the unsupported rank %d", i, p.rank);
    if (bias >= 0) x = gale__prim_add(L->g, x, gale__prim_slice_axis(L->g, bias, 0, *at, p.dims[2]));
    *at += p.dims[2];
    return gale__lower_heads_split(L, x, heads);
}

LOWER(MSMultiHeadAttention)
{
    gale__prim_graph *g = L->g;
    int64_t heads = gale__attr_i(L, "num_heads", 0), at = 0;
    gale__prim_node q = gale__lower_peek(g, L->in[QUERY]), k = gale__lower_peek(g, gale__lower_arg(L, KEY));
    gale__node part[3];
    if (gale__lower_arg(L, PAST_LENGTH) >= 0 || gale__lower_arg(L, INDIRECTION) >= 0)
        gale__lower_refuse(L, "buffers shared between past and present are not supported");
    if (q.rank != 5 && (gale__lower_arg(L, KEY) < 0 || (k.rank != 5 && gale__lower_arg(L, VALUE) < 0)))
        gale__lower_refuse(L, "missing keys or values");
    if (!gale__lower_good(L)) return;
    if (q.rank == 5)
        for (int i = 0; i < 3; i++) part[i] = unpacked(L, L->in[QUERY], i);
    else part[0] = projected(L, QUERY, heads, &at);
    if (q.rank != 5 && k.rank == 5) part[1] = unpacked(L, L->in[KEY], 0), part[2] = unpacked(L, L->in[KEY], 1);
    else if (q.rank != 5) part[1] = projected(L, KEY, heads, &at), part[2] = projected(L, VALUE, heads, &at);
    gale__node whole_k = after(L, gale__lower_arg(L, PAST_KEY), part[1]),
               whole_v = after(L, gale__lower_arg(L, PAST_VALUE), part[2]);
    gale__attend a = begin(L, part[0], whole_k, whole_v);
    if (!gale__lower_good(L)) return;
    set_masks(L, &a, gale__lower_arg(L, MASK), gale__lower_arg(L, ADDED),
        gale__lower_peek(g, whole_k).dims[2] - gale__lower_peek(g, part[1]).dims[2]);
    gale__node y = gale__prim_cast(g, gale__attend_run(L, &a), (gale_type)q.type);
    if (!gale__lower_good(L)) return;
    L->out[0] = gale__lower_heads_join(L, y);
    if (L->n_out > 1) L->out[1] = whole_k;
    if (L->n_out > 2) L->out[2] = whole_v;
    if (L->n_out > 3) L->out[3] = gale__prim_cast(g, a.stage[2], (gale_type)q.type);
}
