/* LinearAttention, CausalConvWithState and TensorScatter: operators of language models that keep a state of fixed size
 * between calls. */
#include "ops/attention.h"
#include <math.h>
#include <string.h>

enum { QUERY, KEY, VALUE, PAST, DECAY, BETA };

/* [B, T, heads * D] as [T, B, heads, D], to go along T. */
static gale__node by_time(gale__lower *L, gale__node x, int64_t heads)
{
    const int turn[4] = {2, 0, 1, 3};
    gale__node split = gale__lower_heads_split(L, x, heads);
    return gale__lower_good(L) ? gale__prim_permute(L->g, split, turn) : GALE__NIL;
}

typedef struct rule {
    bool gated, delta;
    int64_t heads, group;
} rule;

static rule read_rule(gale__lower *L)
{
    const char *name = gale__attr_s(L, "update_rule", "gated_delta");
    int64_t q = gale__attr_i(L, "q_num_heads", 0), kv = gale__attr_i(L, "kv_num_heads", 0);
    rule r = {!strcmp(name, "gated") || !strcmp(name, "gated_delta"),
        !strcmp(name, "delta") || !strcmp(name, "gated_delta"), kv, kv > 0 ? q / kv : 0};
    if (!r.gated && !r.delta && strcmp(name, "linear")) gale__lower_refuse(L, "unknown update_rule '%s'", name);
    if (q < 1 || kv < 1 || q % kv)
        gale__lower_refuse(L, "%lld query heads cannot share %lld key heads", (long long)q, (long long)kv);
    if (r.gated != (gale__lower_arg(L, DECAY) >= 0) || r.delta != (gale__lower_arg(L, BETA) >= 0))
        gale__lower_refuse(L, "update_rule '%s' does not match the given inputs decay and beta", name);
    return r;
}

/* One token: state [B, K, D, C], q [B, K * G, D], k [B, K, D], v [B, K, C], decay [B, K, D or 1], beta [B, K or 1, 1].
 */
static void step(gale__prim_graph *g, const rule *r, gale__node *in, gale__node *out)
{
    gale__node state = in[0], k = gale__prim_unsqueeze(g, in[2], 1u << 3), v = gale__prim_unsqueeze(g, in[3], 1u << 2);
    if (r->gated) state = gale__prim_mul(g, state, gale__prim_unsqueeze(g, in[4], 1u << 3));
    if (r->delta) {
        gale__node held = gale__prim_reduce(g, GALE__SUM, gale__prim_mul(g, state, k), 1u << 2, true);
        v = gale__prim_mul(g, gale__prim_unsqueeze(g, in[4 + r->gated], 1u << 3), gale__prim_sub(g, v, held));
    }
    state = gale__prim_add(g, state, gale__prim_mul(g, k, v));
    if (g->status != GALE_OK) return;
    gale__prim_node p = gale__lower_peek(g, state);
    const int64_t grouped[4] = {p.dims[0], p.dims[1], r->group, p.dims[2]};
    out[0] = state;
    out[1] = gale__prim_matmul(g, gale__prim_reshape(g, in[1], 4, grouped), state);
}

static gale__node run_steps(gale__lower *L, const rule *r, const gale__node *inputs, int n)
{
    gale__node in[6], out[2] = {GALE__NIL, GALE__NIL};
    gale__prim_loop_args loop = {.body = gale__lower_body_begin(L),
        .trips = gale__lower_peek(L->g, inputs[1]).dims[0],
        .n_carried = 1,
        .n_sliced = n - 1,
        .n_stacked = 1,
        .out = out};
    if (!loop.body) return GALE__NIL;
    for (int i = 0; i < n; i++) in[i] = gale__lower_body_input(L, loop.body, i, inputs[i], i > 0);
    if (loop.body->status == GALE_OK) step(loop.body, r, in, out);
    return gale__lower_body_end(L, &loop, inputs);
}

static gale__node first_state(gale__lower *L, gale__node k, gale__node v)
{
    gale__prim_node p = gale__lower_peek(L->g, k), q = gale__lower_peek(L->g, v),
                    s = gale__lower_peek(L->g, gale__lower_arg(L, PAST));
    const int64_t dims[4] = {p.dims[1], p.dims[2], p.dims[3], q.dims[3]};
    if (gale__lower_arg(L, PAST) < 0) return gale__prim_splat(L->g, (gale_type)p.type, 4, dims, 0);
    if (s.rank != 4 || memcmp(s.dims, dims, sizeof dims))
        return gale__lower_refuse(L, "past_state must be [%lld, %lld, %lld, %lld]", (long long)dims[0],
            (long long)dims[1], (long long)dims[2], (long long)dims[3]);
    return gale__prim_cast(L->g, gale__lower_wide(L, L->in[PAST]), (gale_type)p.type);
}

LOWER(LinearAttention)
{
    gale__prim_graph *g = L->g;
    rule r = read_rule(L);
    gale__node in[6];
    if (!gale__lower_good(L)) return;
    in[1] = by_time(L, gale__lower_wide(L, L->in[QUERY]), r.heads * r.group);
    in[2] = by_time(L, gale__lower_wide(L, L->in[KEY]), r.heads);
    in[3] = by_time(L, gale__lower_wide(L, L->in[VALUE]), r.heads);
    if (r.gated) in[4] = by_time(L, gale__prim_unary(g, GALE__EXP, gale__lower_wide(L, L->in[DECAY])), r.heads);
    if (r.delta)
        in[4 + r.gated] = by_time(L, gale__lower_wide(L, L->in[BETA]), gale__lower_peek(g, L->in[BETA]).dims[2]);
    if (!gale__lower_good(L)) return;
    gale__prim_node q = gale__lower_peek(g, in[1]), v = gale__lower_peek(g, in[3]);
    double scale = gale__attr_f(L, "scale", 0);
    if (scale == 0) scale = 1 / sqrt((double)q.dims[3]);
    in[1] = gale__prim_mul(g, in[1], gale__lower_value(L, in[1], scale));
    in[0] = first_state(L, in[2], in[3]);
    gale__node loop = run_steps(L, &r, in, 4 + r.gated + r.delta);
    if (!gale__lower_good(L)) return;
    gale_type state_type = gale__lower_type_of(g, gale__lower_arg(L, PAST) >= 0 ? L->in[PAST] : L->in[QUERY]);
    /* [T, B, K, G, C] */
    const int turn[5] = {1, 0, 2, 3, 4};
    const int64_t dims[3] = {q.dims[1], q.dims[0], q.dims[2] * v.dims[3]};
    gale__node y = gale__prim_reshape(g, gale__prim_permute(g, gale__prim_loop_out(g, loop, 1), turn), 3, dims);
    L->out[0] = gale__prim_cast(g, y, gale__lower_type_of(g, L->in[QUERY]));
    if (L->n_out > 1) L->out[1] = gale__prim_cast(g, gale__prim_loop_out(g, loop, 0), state_type);
}

/* --- CausalConvWithState. --- */

LOWER(CausalConvWithState)
{
    gale__prim_graph *g = L->g;
    gale__prim_node x = gale__lower_peek(g, L->in[0]), w = gale__lower_peek(g, L->in[1]),
                    past = gale__lower_peek(g, gale__lower_arg(L, 3));
    const char *name = gale__attr_s(L, "activation", "none");
    bool swish = !strcmp(name, "silu") || !strcmp(name, "swish");
    if (x.rank != 3 || w.rank != 3 || w.dims[0] != x.dims[1] || w.dims[1] != 1 || w.dims[2] < 1)
        gale__lower_refuse(L, "input must be [batch, channels, length] and weight [channels, 1, k]");
    if (!swish && strcmp(name, "none")) gale__lower_refuse(L, "unknown activation '%s'", name);
    if (!gale__lower_good(L)) return;
    int64_t dilation = gale__attr_i(L, "dilation", 1), state = (w.dims[2] - 1) * dilation, low[3] = {0, 0, state},
            none[3] = {0};
    if (dilation < 1 || dilation > 1 << 20) gale__lower_refuse(L, "invalid dilation %lld", (long long)dilation);
    gale__node both[2] = {gale__lower_arg(L, 3), L->in[0]};
    if (both[0] >= 0 && (past.rank != 3 || past.dims[2] != state))
        gale__lower_refuse(L, "past_state must be [batch, channels, %lld]", (long long)state);
    gale__node padded =
        both[0] >= 0 ? gale__prim_concat(g, 2, both, 2) : gale__prim_pad(g, L->in[0], low, none, NULL, 0);
    gale__prim_conv_args conv = {
        .spatial = 1, .stride = {1}, .dilation = {dilation}, .input_dilation = {1}, .groups = x.dims[1]};
    gale__node y = gale__prim_conv(g, gale__lower_wide(L, padded), gale__lower_wide(L, L->in[1]), &conv);
    if (gale__lower_arg(L, 2) >= 0) y = gale__prim_add(g, y, gale__lower_along(L, gale__lower_wide(L, L->in[2]), 3, 1));
    if (swish) y = gale__prim_mul(g, y, gale__lower_sigmoid(L, y));
    L->out[0] = gale__prim_cast(g, y, (gale_type)x.type);
    if (L->n_out > 1) L->out[1] = gale__prim_slice_axis(g, padded, 2, x.dims[2], state);
}

/* com.microsoft's, as far as they are the same. */
LOWER(MSCausalConvWithState)
{
    if (gale__attr_i(L, "state_window", 0) || gale__attr_i(L, "channels_last", 0) || gale__attr_i(L, "ndim", 1) != 1)
        gale__lower_refuse(L, "state_window, channels_last and more than one spatial axis are not supported");
    if (gale__lower_good(L)) gale__op_CausalConvWithState(L);
}

LOWER(MSLinearAttention)
{
    if (gale__attr_i(L, "state_window", 0)) gale__lower_refuse(L, "state_window is not supported");
    if (gale__lower_good(L)) gale__op_LinearAttention(L);
}

/* --- TensorScatter. --- */

/* Read rather than written: each place of the cache asks which row of the update falls on it, if any. */
gale__node gale__lower_overwrite(gale__lower *L, gale__node cache, gale__node update, int axis, gale__node row)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, cache), u = gale__lower_peek(g, update);
    gale__node after = gale__prim_binary(g, GALE__GE, row, gale__lower_index(L, 0)),
               before = gale__prim_binary(g, GALE__LT, row, gale__lower_index(L, u.dims[axis]));
    gale__node at = gale__lower_index(L, 0);
    int64_t stride = 1;
    for (int d = p.rank - 1; d >= 0; stride *= u.dims[d--])
        at = gale__prim_add(g, at,
            d == axis ? gale__prim_mul(g, row, gale__lower_index(L, stride))
                      : gale__lower_walk(L, p.rank, p.dims, d, stride));
    return gale__prim_select(g, gale__lower_both(L, after, before),
        gale__prim_take(g, update, gale__prim_expand(g, at, p.rank, p.dims)), cache);
}

LOWER(TensorScatter)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]), u = gale__lower_peek(g, L->in[1]);
    int axis = gale__lower_axis(L, gale__attr_i(L, "axis", -2), p.rank);
    const char *mode = gale__attr_s(L, "mode", "linear");
    bool circular = !strcmp(mode, "circular"),
         fits = p.rank == u.rank && axis > 0 && p.type == u.type && u.dims[axis] <= p.dims[axis];
    for (int d = 0; fits && d < p.rank; d++) fits = d == axis || p.dims[d] == u.dims[d];
    if (!fits) gale__lower_refuse(L, "the update does not match the cache along axis %d", axis);
    if (!circular && strcmp(mode, "linear")) gale__lower_refuse(L, "unknown mode '%s'", mode);
    if (!gale__lower_good(L)) return;
    gale__node row = gale__prim_iota(g, p.rank, p.dims, axis), first = gale__lower_arg(L, 2),
               extent = gale__lower_index(L, p.dims[axis]);
    if (first >= 0) row = gale__prim_sub(g, row, gale__lower_along(L, gale__prim_cast(g, first, GALE_I64), p.rank, 0));
    if (circular)
        row = gale__prim_binary(
            g, GALE__REM, gale__prim_add(g, gale__prim_binary(g, GALE__REM, row, extent), extent), extent);
    L->out[0] = u.dims[axis] ? gale__lower_overwrite(L, L->in[0], L->in[1], axis, row) : L->in[0];
}
