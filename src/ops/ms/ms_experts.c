/* Mixtures of experts of com.microsoft: a router selects k of them for each token.  Few tokens load the weights of
 * their own experts; with more tokens than experts, all experts process all tokens and those not selected get weight
 * 0. */
#include "ops/ms/ms_blocks.h"
#include <math.h>
#include <string.h>

enum { PICKED_MOST = 64 };

/* One product: weights [E, out, in] of floats, or packed with scales; NIL: left out. */
typedef struct layer {
    gale__node weights, scale, zero, bias;
    int bits;
} layer;
typedef struct mixture {
    int64_t tokens, width, experts, k;
    gale__node picked[PICKED_MOST] /* [T, 1] */, share[PICKED_MOST], shares /* [T, E] */;
} mixture;

/* Who is picked, and with which share. */
static void route(gale__lower *L, mixture *m, gale__node shares)
{
    gale__prim_graph *g = L->g;
    gale__node logits = gale__lower_wide(L, L->in[1]), rest = logits,
               row = gale__prim_iota(g, 2, (const int64_t[]){1, m->experts}, 1), total = GALE__NIL;
    shares = shares >= 0 ? gale__lower_wide(L, shares) : gale__lower_softmax(L, logits, 1u << 1);
    m->shares = gale__lower_value(L, shares, 0);
    for (int64_t i = 0; i < m->k; i++) {
        m->picked[i] = gale__prim_reduce(g, GALE__ARGMAX, rest, 1u << 1, true);
        gale__node here = gale__prim_binary(g, GALE__EQ, row, m->picked[i]);
        m->share[i] = gale__prim_reduce(
            g, GALE__SUM, gale__prim_select(g, here, shares, gale__lower_value(L, shares, 0)), 1u << 1, true);
        m->shares = gale__prim_select(g, here, shares, m->shares);
        rest = gale__prim_select(g, here, gale__lower_value(L, rest, -INFINITY), rest);
        total = i ? gale__prim_add(g, total, m->share[i]) : m->share[i];
    }
    if (!gale__attr_i(L, "normalize_routing_weights", 0)) return;
    for (int64_t i = 0; i < m->k; i++) m->share[i] = gale__prim_div(g, m->share[i], total);
    m->shares = gale__prim_div(g, m->shares, total);
}

/* A part of a layer for the experts at hand; at NIL: for all. */
static gale__node part(gale__lower *L, gale__node x, gale__node at)
{
    return x < 0 || at < 0 ? x : gale__prim_gather(L->g, x, at, 0);
}

/* [R, out, in] as floats: a scale and zero point for each row of a matrix, or for each block of it. */
static gale__node weights_of(gale__lower *L, const layer *l, gale__node at, int64_t in)
{
    gale__prim_graph *g = L->g;
    gale__node w = part(L, l->weights, at), scale = part(L, l->scale, at), zero = part(L, l->zero, at);
    if (l->bits == 0) return gale__lower_wide(L, w);
    if (scale < 0) return gale__lower_refuse(L, "packed weights without scales");
    w = gale__lower_unpack(L, w, l->bits, in, false);
    gale__prim_node p = gale__lower_peek(g, w), q = gale__lower_peek(g, scale);
    if (!gale__lower_good(L)) return GALE__NIL;
    bool blocks = q.rank == 3;
    int64_t size = gale__attr_i(L, "block_size", 0), count = blocks ? q.dims[2] : p.dims[1];
    if (zero >= 0) zero = gale__lower_unpack(L, zero, l->bits, count, false);
    if (blocks)
        scale = gale__lower_by_element(L, scale, 2, size, in),
        zero = zero >= 0 ? gale__lower_by_element(L, zero, 2, size, in) : zero;
    else
        scale = gale__prim_unsqueeze(g, scale, 1u << 2),
        zero = zero >= 0 ? gale__prim_unsqueeze(g, zero, 1u << 2) : zero;
    return gale__lower_dequantise(
        L, w, scale, zero >= 0 ? zero : gale__lower_value(L, w, (double)(1 << (l->bits - 1))));
}

/* x [R or 1, T, in] through a layer: [R, T, out]. */
static gale__node through(gale__lower *L, const layer *l, gale__node at, gale__node x)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, x), q = gale__lower_peek(g, l->weights);
    if (gale__lower_good(L) && q.rank != 3)
        gale__lower_refuse(L, "weights of experts have %d axes instead of 3", q.rank);
    if (!gale__lower_good(L)) return GALE__NIL;
    gale__node y = gale__lower_product(L, x, gale__prim_permute(g, weights_of(L, l, at, p.dims[2]), (int[]){0, 2, 1})),
               bias = part(L, l->bias, at);
    return bias < 0 ? y : gale__prim_add(g, y, gale__prim_unsqueeze(g, gale__lower_wide(L, bias), 1u << 1));
}

/* The gate and what it lets through, by turns or one half after the other. */
static gale__node swiglu(gale__lower *L, gale__node x, gale__node up)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, x);
    int64_t fused = gale__attr_i(L, "swiglu_fusion", 0), half = p.dims[2] / 2,
            two[4] = {p.dims[0], p.dims[1], fused == 1 ? half : 2, fused == 1 ? 2 : half};
    double limit = gale__attr_f(L, "swiglu_limit", INFINITY);
    int axis = fused == 1 ? 3 : 2;
    if (fused && p.dims[2] % 2)
        return gale__lower_refuse(L, "gate and values have an odd total of %lld columns", (long long)p.dims[2]);
    if (!fused && up < 0) return gale__lower_refuse(L, "swiglu_fusion is 0, but there is no third product");
    gale__node pair = fused ? gale__prim_reshape(g, x, 4, two) : GALE__NIL,
               gate = fused ? gale__prim_reshape(
                                  g, gale__prim_slice_axis(g, pair, axis, 0, 1), 3, (int64_t[]){two[0], two[1], half})
                            : x;
    if (fused)
        up = gale__prim_reshape(g, gale__prim_slice_axis(g, pair, axis, 1, 1), 3, (int64_t[]){two[0], two[1], half});
    if (isfinite(limit))
        gate = gale__prim_binary(g, GALE__MIN, gate, gale__lower_value(L, gate, limit)),
        up = gale__lower_clamp(L, up, -limit, limit);
    gate = gale__prim_mul(g, gate,
        gale__lower_sigmoid(
            L, gale__prim_mul(g, gate, gale__lower_value(L, gate, gale__attr_f(L, "activation_alpha", 1)))));
    return gale__prim_mul(
        g, gate, gale__prim_add(g, up, gale__lower_value(L, up, gale__attr_f(L, "activation_beta", 0))));
}

static gale__node activated(gale__lower *L, gale__node x, gale__node up)
{
    gale__prim_graph *g = L->g;
    const char *name = gale__attr_s(L, "activation_type", "relu");
    gale__node y = x;
    if (!gale__lower_good(L)) return GALE__NIL;
    if (!strcmp(name, "swiglu")) return swiglu(L, x, up);
    if (!strcmp(name, "relu")) y = gale__prim_binary(g, GALE__MAX, x, gale__lower_value(L, x, 0));
    else if (!strcmp(name, "silu")) y = gale__prim_mul(g, x, gale__lower_sigmoid(L, x));
    else if (!strcmp(name, "gelu")) y = gale__lower_gelu(L, x, true);
    else if (strcmp(name, "identity")) return gale__lower_refuse(L, "unknown activation_type '%s'", name);
    return up >= 0 ? gale__prim_mul(g, y, up) : y;
}

/* fc: the first and last product, and the one beside the first. */
static void mix(gale__lower *L, const layer fc[3], gale__node shares)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]), r = gale__lower_peek(g, L->in[1]);
    mixture m = {.width = p.rank > 0 ? p.dims[p.rank - 1] : 0,
        .tokens = 1,
        .experts = r.rank == 2 ? r.dims[1] : 0,
        .k = gale__attr_i(L, "k", 1)};
    for (int d = 0; d < p.rank - 1; d++) m.tokens *= p.dims[d];
    if (gale__lower_good(L) && (p.rank < 2 || r.rank != 2 || r.dims[0] != m.tokens))
        gale__lower_refuse(L, "a row of the router is needed for each of %lld tokens", (long long)m.tokens);
    if (gale__lower_good(L) && (m.k < 1 || m.k > m.experts || m.k > PICKED_MOST))
        gale__lower_refuse(L, "cannot select %lld of %lld experts", (long long)m.k, (long long)m.experts);
    if (!gale__lower_good(L)) return;
    route(L, &m, shares);
    bool own = m.tokens <= m.experts / m.k;
    int64_t rows = m.tokens * m.k, each[3] = {m.tokens, m.k, m.width};
    gale__node x = gale__prim_reshape(g, gale__lower_wide(L, L->in[0]), 3, (int64_t[]){1, m.tokens, m.width}),
               at = GALE__NIL, share;
    if (own) {
        at = gale__prim_reshape(g, gale__prim_concat(g, 1, m.picked, (int)m.k), 1, &rows);
        share = gale__prim_reshape(g, gale__prim_concat(g, 1, m.share, (int)m.k), 3, (int64_t[]){rows, 1, 1});
        x = gale__prim_reshape(g, gale__prim_expand(g, gale__prim_permute(g, x, (int[]){1, 0, 2}), 3, each), 3,
            (int64_t[]){rows, 1, m.width});
    } else share = gale__prim_unsqueeze(g, gale__prim_permute(g, m.shares, (int[]){1, 0}), 1u << 2);
    gale__node up = fc[2].weights >= 0 ? through(L, &fc[2], at, x) : GALE__NIL;
    gale__node y = gale__prim_mul(g, through(L, &fc[1], at, activated(L, through(L, &fc[0], at, x), up)), share);
    if (own) y = gale__prim_reshape(g, y, 3, each);
    y = gale__prim_reduce(g, GALE__SUM, y, own ? 1u << 1 : 1u, false);
    L->out[0] = gale__prim_cast(g, gale__prim_reshape(g, y, p.rank, p.dims), p.type);
}

LOWER(MSMoE)
{
    const layer fc[3] = {{L->in[2], GALE__NIL, GALE__NIL, gale__lower_arg(L, 3), 0},
        {gale__lower_arg(L, 4), GALE__NIL, GALE__NIL, gale__lower_arg(L, 5), 0},
        {gale__lower_arg(L, 6), GALE__NIL, GALE__NIL, gale__lower_arg(L, 7), 0}};
    if (fc[1].weights < 0) gale__lower_refuse(L, "the second product has no weights");
    if (gale__lower_good(L)) mix(L, fc, GALE__NIL);
}

LOWER(MSQMoE)
{
    static const char *const bits[] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits"};
    int64_t all = gale__attr_i(L, "expert_weight_bits", 4);
    layer fc[3];
    for (int i = 0; i < 3; i++) {
        int64_t its = gale__attr_i(L, bits[i], all);
        fc[i] = (layer){gale__lower_arg(L, 2 + 3 * i), gale__lower_arg(L, 3 + 3 * i), gale__lower_arg(L, 11 + i),
            gale__lower_arg(L, 4 + 3 * i), (int)its};
        if (its != 2 && its != 4 && its != 8)
            gale__lower_refuse(L, "%lld bits per number are not supported", (long long)its);
        if (fc[i].weights >= 0 && gale__lower_type_of(L->g, fc[i].weights) != GALE_U8)
            gale__lower_refuse(L, "weights are %s, but must be integers in bytes",
                gale_type_name(gale__lower_type_of(L->g, fc[i].weights)));
    }
    if (strcmp(gale__attr_s(L, "quant_type", "int"), "int"))
        gale__lower_refuse(L, "quant_type '%s' is not supported, only 'int'", gale__attr_s(L, "quant_type", "int"));
    if (fc[1].weights < 0) gale__lower_refuse(L, "the second product has no weights");
    if (gale__lower_good(L)) mix(L, fc, gale__lower_arg(L, 14));
}
