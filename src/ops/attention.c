/* Attention and FlexAttention: ONNX's inputs and attributes made into one call of gale__attend_run. */
#include "ops/attention.h"
#include <math.h>
#include <string.h>

enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE, LENGTHS };

/* Input i as [B, heads, T, D]; those of rank 3 have their heads in the last axis. */
static gale__node headed(gale__lower *L, int i, const char *heads)
{
    gale__node x = L->in[i];
    if (gale__lower_rank_of(L->g, x) == 4) return x;
    if (!gale__attr_given(L, heads))
        return gale__lower_refuse(L, "inputs of rank %d need the attribute '%s'", gale__lower_rank_of(L->g, x), heads);
    return gale__lower_heads_split(L, x, gale__attr_i(L, heads, 0));
}

/* What came before and what is new, along the sequence. */
static gale__node grown(gale__lower *L, int past, gale__node x)
{
    gale__node both[2] = {gale__lower_arg(L, past), x};
    if (both[0] < 0) return x;
    return gale__lower_rank_of(L->g, both[0]) == 4
               ? gale__prim_concat(L->g, 2, both, 2)
               : gale__lower_refuse(L, "input %d has rank %d instead of 4", past, gale__lower_rank_of(L->g, both[0]));
}

/* The mask over all n keys: those it does not reach are hidden. */
static gale__node whole_mask(gale__lower *L, int64_t n)
{
    gale__node mask = gale__lower_arg(L, MASK);
    gale__prim_node p = gale__lower_peek(L->g, mask);
    int64_t low[GALE_MAX_RANK] = {0}, high[GALE_MAX_RANK] = {0};
    if (mask < 0) return mask;
    if (p.rank < 1 || p.rank > 4 || p.dims[p.rank - 1] > n)
        return gale__lower_refuse(L, "the mask of rank %d exceeds the %lld keys", p.rank, (long long)n);
    high[p.rank - 1] = n - p.dims[p.rank - 1];
    return gale__prim_pad(L->g, mask, low, high, NULL, p.type == GALE_BOOL ? 0 : -INFINITY);
}

/* Key j of item b counts while j < lengths[b]. */
static gale__node within_lengths(gale__lower *L, int64_t n)
{
    gale__node lengths = gale__lower_arg(L, LENGTHS);
    const int64_t dims[4] = {1, 1, 1, n};
    if (lengths < 0) return lengths;
    return gale__prim_binary(L->g, GALE__LT, gale__prim_iota(L->g, 4, dims, 3),
        gale__lower_along(L, gale__prim_cast(L->g, lengths, GALE_I64), 4, 0));
}

/* The bounds of the window that the attributes give, around the position of a row; -1: none. */
typedef struct window {
    int64_t left, right;
} window;

static window read_window(gale__lower *L)
{
    window w = {gale__attr_i(L, "left_window_size", -1), gale__attr_i(L, "right_window_size", -1)};
    if (w.left < -1 || w.right < -1)
        gale__lower_refuse(L, "a window of %lld to the left and %lld to the right: sizes are -1 or more",
            (long long)w.left, (long long)w.right);
    if (gale__attr_i(L, "is_causal", 0)) w.right = 0;
    return w;
}

/* Which keys are in the window: row i is at position i + offset. */
static gale__node within_window(gale__lower *L, const int64_t *dims, gale__node offset, window w)
{
    gale__prim_graph *g = L->g;
    gale__node row = gale__prim_add(g, gale__prim_iota(g, 2, dims, 0), offset), at = gale__prim_iota(g, 2, dims, 1),
               keep = GALE__NIL;
    if (w.right >= 0) keep = gale__prim_binary(g, GALE__LE, at, gale__prim_add(g, row, gale__lower_index(L, w.right)));
    if (w.left >= 0)
        keep = gale__lower_both(
            L, keep, gale__prim_binary(g, GALE__GE, at, gale__prim_sub(g, row, gale__lower_index(L, w.left))));
    return keep;
}

/* Rows follow the keys of the cache: `past` of them, or, where the cache is given whole, lengths[b] less the rows.
 * A bound to the right that is the same for all items is left to `seen`, which routines take without a mask. */
static void set_window(gale__lower *L, gale__attend *a, int64_t past)
{
    gale__prim_graph *g = L->g;
    const int64_t dims[2] = {gale__lower_peek(g, a->q).dims[2], gale__lower_peek(g, a->k).dims[2]};
    gale__node lengths = gale__lower_arg(L, LENGTHS), offset = gale__lower_index(L, past);
    window w = read_window(L);
    if (!gale__lower_good(L)) return;
    if (lengths >= 0 && gale__lower_arg(L, PAST_KEY) < 0)
        offset = gale__prim_sub(
            g, gale__lower_along(L, gale__prim_cast(g, lengths, GALE_I64), 4, 0), gale__lower_index(L, dims[0]));
    else if (w.right >= 0 && w.right < dims[1]) a->seen = past + w.right + 1, w.right = -1;
    a->keep = gale__lower_both(L, a->keep, within_window(L, dims, offset, w));
}

static void set_masks(gale__lower *L, gale__attend *a, int64_t past)
{
    gale__prim_node q = gale__lower_peek(L->g, a->q), k = gale__lower_peek(L->g, a->k);
    gale__node mask = whole_mask(L, k.dims[2]);
    bool chooses = gale__lower_type_of(L->g, mask) == GALE_BOOL;
    a->bias = mask >= 0 && !chooses ? gale__prim_cast(L->g, mask, (gale_type)q.type) : GALE__NIL;
    a->keep = gale__lower_both(L, mask >= 0 && chooses ? mask : GALE__NIL, within_lengths(L, k.dims[2]));
    set_window(L, a, past);
}

static gale_type softmax_type(gale__lower *L, gale_type type)
{
    type = gale__lower_wide_type(gale__attr_type(L, "softmax_precision", type));
    if (!gale__type_is_float(type)) gale__lower_refuse(L, "softmax needs floats, not %s", gale_type_name(type));
    return type;
}

LOWER(Attention)
{
    gale__prim_graph *g = L->g;
    gale_type type = gale__lower_type_of(g, L->in[Q]);
    bool packed = gale__lower_rank_of(g, L->in[Q]) == 3;
    gale__node q = headed(L, Q, "q_num_heads"), k = headed(L, K, "kv_num_heads"), v = headed(L, V, "kv_num_heads");
    gale__prim_node fresh = gale__lower_peek(g, k);
    k = grown(L, PAST_KEY, k), v = grown(L, PAST_VALUE, v);
    if (!gale__lower_good(L)) return;
    gale__attend a = {.q = gale__lower_wide(L, q),
        .k = gale__lower_wide(L, k),
        .v = gale__lower_wide(L, v),
        .hidden = -INFINITY,
        .blind_rows = true,
        .sink = GALE__NIL};
    a.scale = gale__attend_scale(L, q);
    a.softcap = gale__attr_f(L, "softcap", 0);
    a.softmax_type = softmax_type(L, type);
    set_masks(L, &a, gale__lower_peek(g, k).dims[2] - fresh.dims[2]);
    gale__node y = gale__prim_cast(g, gale__attend_run(L, &a), type);
    int64_t mode = gale__attr_i(L, "qk_matmul_output_mode", 0);
    if (mode < 0 || mode > 3) gale__lower_refuse(L, "invalid qk_matmul_output_mode %lld", (long long)mode);
    if (!gale__lower_good(L)) return;
    L->out[0] = packed ? gale__lower_heads_join(L, y) : y;
    if (L->n_out > 1) L->out[1] = k;
    if (L->n_out > 2) L->out[2] = v;
    if (L->n_out > 3) L->out[3] = gale__prim_cast(g, a.stage[mode], type);
}

/* Bodies in the order of the attributes; what they capture follows the three inputs in that order. */
static void set_bodies(gale__lower *L, gale__attend *a)
{
    int at = 3;
    for (int i = 0; i < L->node->n_attrs; i++) {
        const gale_attr *attr = &L->node->attrs[i];
        if (attr->kind != GALE_ATTR_GRAPH) continue;
        bool score = !strcmp(attr->name, "score_mod");
        if (attr->graph->n_inputs < 1) gale__lower_refuse(L, "the body '%s' has no input", attr->name);
        if (!gale__lower_good(L)) return;
        if (!score && strcmp(attr->name, "prob_mod")) gale__lower_refuse(L, "missing body '%s'", attr->name);
        if (score) a->score_mod.body = attr->graph, a->score_mod.captured = L->in + at;
        else a->prob_mod.body = attr->graph, a->prob_mod.captured = L->in + at;
        at += attr->graph->n_inputs - 1;
    }
    if (at != L->n_in) gale__lower_refuse(L, "%d inputs do not match the bodies", L->n_in);
}

LOWER(FlexAttention)
{
    gale__prim_graph *g = L->g;
    gale_type type = gale__lower_type_of(g, L->in[Q]);
    gale__attend a = {.q = gale__lower_wide(L, L->in[Q]),
        .k = gale__lower_wide(L, L->in[K]),
        .v = gale__lower_wide(L, L->in[V]),
        .bias = GALE__NIL,
        .keep = GALE__NIL,
        .sink = GALE__NIL};
    a.scale = gale__attend_scale(L, L->in[Q]);
    a.softmax_type = softmax_type(L, type);
    set_bodies(L, &a);
    if (gale__lower_good(L)) L->out[0] = gale__prim_cast(g, gale__attend_run(L, &a), type);
}
