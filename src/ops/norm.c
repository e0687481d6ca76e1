/* Normalisations.  Statistics are computed in two passes (mean, then squares of differences) and in F32 for half
 * floats. */
#include "ops/lower.h"

/* (x - mean) / sqrt(variance + epsilon) over the axes; the pieces are there for those who need them. */
typedef struct moments {
    gale__node mean, variance, inverse, y;
} moments;
static moments standardize(gale__lower *L, gale__node x, uint32_t axes, double epsilon)
{
    gale__prim_graph *g = L->g;
    moments m;
    m.mean = gale__lower_mean(L, x, axes);
    gale__node d = gale__prim_sub(g, x, m.mean);
    m.variance = gale__lower_mean(L, gale__prim_mul(g, d, d), axes);
    m.inverse = gale__prim_div(g, gale__lower_value(L, x, 1),
        gale__prim_unary(g, GALE__SQRT, gale__prim_add(g, m.variance, gale__lower_value(L, x, epsilon))));
    m.y = gale__prim_mul(g, d, m.inverse);
    return m;
}

/* y * scale + shift, either of which may be left out. */
static gale__node affine(gale__lower *L, gale__node y, gale__node scale, gale__node shift)
{
    if (scale >= 0) y = gale__prim_mul(L->g, y, gale__lower_wide(L, scale));
    if (shift >= 0) y = gale__prim_add(L->g, y, gale__lower_wide(L, shift));
    return y;
}

static uint32_t from_axis(int axis, int rank) { return ((1u << rank) - 1) & ~((1u << axis) - 1); }
static uint32_t spatial(int rank) { return from_axis(2 < rank ? 2 : rank, rank); }

LOWER(LayerNormalization)
{
    gale__prim_graph *g = L->g;
    gale__node x = gale__lower_wide(L, L->in[0]);
    int rank = gale__lower_rank_of(g, x), axis = gale__lower_axis(L, gale__attr_i(L, "axis", -1), rank);
    moments m = standardize(L, x, from_axis(axis, rank), gale__attr_f(L, "epsilon", 1e-5));
    L->out[0] = gale__prim_cast(g, affine(L, m.y, L->in[1], gale__lower_arg(L, 2)), gale__lower_type_of(g, L->in[0]));
    if (L->n_out > 1) L->out[1] = m.mean;
    if (L->n_out > 2) L->out[2] = m.inverse;
}

LOWER(RMSNormalization)
{
    gale__prim_graph *g = L->g;
    gale__node x = gale__lower_wide(L, L->in[0]);
    int rank = gale__lower_rank_of(g, x), axis = gale__lower_axis(L, gale__attr_i(L, "axis", -1), rank);
    gale__node square = gale__lower_mean(L, gale__prim_mul(g, x, x), from_axis(axis, rank));
    gale__node root = gale__prim_unary(
        g, GALE__SQRT, gale__prim_add(g, square, gale__lower_value(L, x, gale__attr_f(L, "epsilon", 1e-5))));
    L->out[0] = gale__prim_cast(
        g, affine(L, gale__prim_div(g, x, root), L->in[1], GALE__NIL), gale__lower_type_of(g, L->in[0]));
}

/* A vector of channels against axis 1. */
static gale__node channels(gale__lower *L, gale__node v, int rank)
{
    return gale__lower_along(L, gale__lower_wide(L, v), rank, 1);
}

/* With constant statistics the whole is one multiply and one add per element, folded into what comes before. */
static gale__node batch_inference(gale__lower *L, gale__node x, double epsilon)
{
    gale__prim_graph *g = L->g;
    gale__node scale = gale__lower_wide(L, L->in[1]), shift = gale__lower_wide(L, L->in[2]),
               mean = gale__lower_wide(L, L->in[3]), variance = gale__lower_wide(L, L->in[4]);
    gale__node a = gale__prim_div(g, scale,
        gale__prim_unary(g, GALE__SQRT, gale__prim_add(g, variance, gale__lower_value(L, variance, epsilon))));
    gale__node b = gale__prim_sub(g, shift, gale__prim_mul(g, mean, a));
    int rank = gale__lower_rank_of(g, x);
    return gale__prim_add(g, gale__prim_mul(g, x, channels(L, a, rank)), channels(L, b, rank));
}

static gale__node running(gale__lower *L, gale__node old, gale__node new_, double momentum)
{
    gale__prim_graph *g = L->g;
    int64_t n = old >= 0 ? gale__prim_elements(g, old) : 0;
    gale__node wide = gale__lower_wide(L, old), kept = gale__prim_mul(g, wide, gale__lower_value(L, wide, momentum));
    gale__node fresh = gale__prim_mul(g, gale__prim_reshape(g, new_, 1, &n), gale__lower_value(L, new_, 1 - momentum));
    return gale__prim_cast(g, gale__prim_add(g, kept, gale__prim_cast(g, fresh, gale__lower_type_of(g, wide))),
        gale__lower_type_of(g, old));
}

LOWER(BatchNormalization)
{
    gale__prim_graph *g = L->g;
    gale__node x = gale__lower_wide(L, L->in[0]);
    gale_type type = gale__lower_type_of(g, L->in[0]);
    gale__prim_node given = gale__lower_peek(g, x);
    int rank = given.rank;
    double epsilon = gale__attr_f(L, "epsilon", 1e-5), momentum = gale__attr_f(L, "momentum", 0.9);
    if (rank < 1) gale__lower_refuse(L, "the input is a scalar; it needs an axis of the batch");
    if (!gale__lower_good(L)) return;
    if (rank == 1) x = gale__prim_reshape(g, x, rank = 2, (int64_t[]){given.dims[0], 1}); /* a batch of one channel */
    moments m = {0};
    bool training = gale__attr_i(L, "training_mode", 0);
    if (training) m = standardize(L, x, spatial(rank) | 1, epsilon);
    gale__node y = training ? affine(L, m.y, channels(L, L->in[1], rank), channels(L, L->in[2], rank))
                            : batch_inference(L, x, epsilon);
    L->out[0] = gale__prim_cast(g, gale__prim_reshape(g, y, given.rank, given.dims), type);
    if (!training) return;
    if (L->n_out > 1) L->out[1] = running(L, L->in[3], m.mean, momentum);
    if (L->n_out > 2) L->out[2] = running(L, L->in[4], m.variance, momentum);
}

LOWER(InstanceNormalization)
{
    gale__prim_graph *g = L->g;
    gale__node x = gale__lower_wide(L, L->in[0]);
    int rank = gale__lower_rank_of(g, x);
    if (rank < 3) gale__lower_refuse(L, "the input has rank %d; at least 3 is needed", rank);
    if (!gale__lower_good(L)) return;
    moments m = standardize(L, x, spatial(rank), gale__attr_f(L, "epsilon", 1e-5));
    L->out[0] = gale__prim_cast(
        g, affine(L, m.y, channels(L, L->in[1], rank), channels(L, L->in[2], rank)), gale__lower_type_of(g, L->in[0]));
}

/* Scale and bias per channel; or per group, as opset 18 had them. */
LOWER(GroupNormalization)
{
    gale__prim_graph *g = L->g;
    gale__node x = gale__lower_wide(L, L->in[0]);
    gale__prim_node p = gale__lower_peek(g, x);
    int64_t groups = gale__attr_i(L, "num_groups", 1);
    if (p.rank < 2 || groups < 1 || p.dims[1] % groups) {
        gale__lower_refuse(L, "%lld channels cannot be divided into %lld groups",
            (long long)(p.rank > 1 ? p.dims[1] : 0), (long long)groups);
        return;
    }
    int64_t split[GALE_MAX_RANK] = {p.dims[0], groups, p.dims[1] / groups}, by_group[2] = {groups, 1},
            by_channel[2] = {groups, p.dims[1] / groups};
    bool whole = gale__prim_elements(g, L->in[1]) == groups && groups != p.dims[1];
    int rest = p.rank - 2, rank = 3 + rest;
    for (int d = 0; d < rest && rank <= GALE_MAX_RANK; d++) split[3 + d] = p.dims[2 + d];
    gale__node y = gale__prim_reshape(g, x, rank, split);
    if (!gale__lower_good(L)) return;
    y = standardize(L, y, from_axis(2, rank), gale__attr_f(L, "epsilon", 1e-5)).y;
    gale__node scale = gale__prim_reshape(g, L->in[1], 2, whole ? by_group : by_channel),
               shift = gale__prim_reshape(g, L->in[2], 2, whole ? by_group : by_channel);
    uint32_t tail = (((1u << rest) - 1) << 2);
    y = affine(L, y, gale__prim_unsqueeze(g, scale, tail), gale__prim_unsqueeze(g, shift, tail));
    L->out[0] = gale__prim_cast(g, gale__prim_reshape(g, y, p.rank, p.dims), gale__lower_type_of(g, L->in[0]));
}

LOWER(LpNormalization)
{
    gale__prim_graph *g = L->g;
    gale__node x = gale__lower_wide(L, L->in[0]), norm;
    uint32_t axis = 1u << gale__lower_axis(L, gale__attr_i(L, "axis", -1), gale__lower_rank_of(g, x));
    int64_t p = gale__attr_i(L, "p", 2);
    if (p != 1 && p != 2) gale__lower_refuse(L, "p is %lld, but must be 1 or 2", (long long)p);
    if (p == 1) norm = gale__prim_reduce(g, GALE__SUM, gale__prim_unary(g, GALE__ABS, x), axis, true);
    else norm = gale__prim_unary(g, GALE__SQRT, gale__prim_reduce(g, GALE__SUM, gale__prim_mul(g, x, x), axis, true));
    gale__node zero = gale__lower_value(L, x, 0), none = gale__prim_binary(g, GALE__EQ, norm, zero);
    L->out[0] = gale__prim_cast(
        g, gale__prim_select(g, none, zero, gale__prim_div(g, x, norm)), gale__lower_type_of(g, L->in[0]));
}

LOWER(MeanVarianceNormalization)
{
    gale__prim_graph *g = L->g;
    gale__node x = gale__lower_wide(L, L->in[0]);
    int rank = gale__lower_rank_of(g, x);
    bool given;
    uint32_t axes = gale__lower_axes_mask(L, 1, rank, &given);
    if (!given) axes = (spatial(rank) | 1) & ((1u << rank) - 1);
    gale__node d = gale__prim_sub(g, x, gale__lower_mean(L, x, axes)),
               deviation = gale__prim_unary(g, GALE__SQRT, gale__lower_mean(L, gale__prim_mul(g, d, d), axes));
    L->out[0] = gale__prim_cast(g, gale__prim_div(g, d, gale__prim_add(g, deviation, gale__lower_value(L, x, 1e-9))),
        gale__lower_type_of(g, L->in[0]));
}

/* Squares of neighbouring channels, through windows over axis 1. */
LOWER(LRN)
{
    gale__prim_graph *g = L->g;
    gale__node x = gale__lower_wide(L, L->in[0]);
    gale__prim_node p = gale__lower_peek(g, x);
    int64_t size = gale__attr_i(L, "size", 1);
    if (p.rank < 2 || size < 1) gale__lower_refuse(L, "invalid size %lld for rank %d", (long long)size, p.rank);
    if (!gale__lower_good(L)) return;
    /* no neighbour is farther than there are channels */
    int64_t before = (size - 1) / 2, behind = size / 2, c = p.dims[1];
    if (before > c) before = c;
    if (behind > c) behind = c;
    gale__node windows = gale__prim_window(g, gale__prim_mul(g, x, x), 1, c, before + behind + 1, 1, 1, -before, 0);
    gale__node sum = gale__prim_reduce(g, GALE__SUM, windows, 1u << 2, false);
    double alpha = gale__attr_f(L, "alpha", 1e-4), beta = gale__attr_f(L, "beta", 0.75),
           bias = gale__attr_f(L, "bias", 1);
    gale__node base = gale__prim_add(
        g, gale__lower_value(L, x, bias), gale__prim_mul(g, sum, gale__lower_value(L, x, alpha / (double)size)));
    L->out[0] =
        gale__prim_cast(g, gale__prim_div(g, x, gale__prim_binary(g, GALE__POW, base, gale__lower_value(L, x, beta))),
            gale__lower_type_of(g, L->in[0]));
}
