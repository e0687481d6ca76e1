/* com.microsoft's quantised operators: each is ONNX's own operator between dequantisation and quantisation, and is
 * lowered by calling it.  Fused ones that are chains of ONNX operators are decomposed when a model is read. */
#include "ops/quantise.h"
#include <string.h>

/* The first result of another operator's lowering on x, with the attributes of this one. */
static gale__node lower_as(gale__lower *L, void (*lower)(gale__lower *), gale__node x)
{
    gale__node out = GALE__NIL;
    gale__lower inner = {.g = L->g, .node = L->node, .in = &x, .out = &out, .n_in = 1, .n_out = 1};
    if (gale__lower_good(L)) lower(&inner);
    return out;
}

/* An input that stands behind one that may be left out, but must be there itself. */
static gale__node needed(gale__lower *L, int i)
{
    gale__node n = gale__lower_arg(L, i);
    return n >= 0 ? n : gale__lower_refuse(L, "missing input %d", i);
}

/* The value whose scale and zero point come after it. */
static gale__node value_at(gale__lower *L, int i)
{
    return gale__lower_dequantise(
        L, needed(L, i), gale__lower_lone(L, needed(L, i + 1)), gale__lower_lone(L, gale__lower_arg(L, i + 2)));
}

/* y (F32) by scale and zero point at inputs i and i + 1; without a zero point it is 0 of type `type`. */
static void give_quantised(gale__lower *L, gale__node y, int i, gale_type type)
{
    gale__node zero = gale__lower_lone(L, gale__lower_arg(L, i + 1));
    if (zero >= 0) type = gale__lower_type_of(L->g, zero);
    L->out[0] = gale__lower_quantise(
        L, gale__prim_div(L->g, y, gale__prim_cast(L->g, gale__lower_lone(L, needed(L, i)), GALE_F32)), zero, type);
}

LOWER(MSQLinearAdd)
{
    give_quantised(L, gale__prim_add(L->g, value_at(L, 0), value_at(L, 3)), 6, gale__lower_type_of(L->g, L->in[0]));
}
LOWER(MSQLinearMul)
{
    give_quantised(L, gale__prim_mul(L->g, value_at(L, 0), value_at(L, 3)), 6, gale__lower_type_of(L->g, L->in[0]));
}
LOWER(MSQLinearWhere)
{
    give_quantised(
        L, gale__prim_select(L->g, L->in[0], value_at(L, 1), value_at(L, 4)), 7, gale__lower_type_of(L->g, L->in[1]));
}

/* One value through an operator of floats. */
static void through(gale__lower *L, void (*lower)(gale__lower *))
{
    gale__node x = value_at(L, 0);
    give_quantised(L, lower_as(L, lower, x), 3, gale__lower_type_of(L->g, L->in[0]));
}
LOWER(MSQLinearSigmoid) { through(L, gale__op_Sigmoid); }
LOWER(MSQLinearLeakyRelu) { through(L, gale__op_LeakyRelu); }
LOWER(MSQLinearReduceMean) { through(L, gale__op_ReduceMean); }

/* Up to opset 12 all axes from `axis` on count as one. */
LOWER(MSQLinearSoftmax)
{
    int rank = gale__lower_rank_of(L->g, L->in[0]), axis = gale__lower_axis(L, gale__attr_i(L, "axis", -1), rank);
    uint32_t axes = gale__attr_i(L, "opset", 13) < 13 ? ((1u << rank) - 1) & ~((1u << axis) - 1) : 1u << axis;
    if (gale__lower_good(L))
        give_quantised(L, gale__lower_softmax(L, value_at(L, 0), axes), 3, gale__lower_type_of(L->g, L->in[0]));
}

/* Pools of pictures whose channels may come last. */
static void pool(gale__lower *L, void (*lower)(gale__lower *))
{
    gale__prim_graph *g = L->g;
    int rank = gale__lower_rank_of(g, L->in[0]), in[GALE_MAX_RANK] = {0, rank - 1}, back[GALE_MAX_RANK] = {0};
    bool last = gale__attr_i(L, "channels_last", 0);
    if (rank < 3) gale__lower_refuse(L, "the input has rank %d; at least 3 is needed", rank);
    if (!gale__lower_good(L)) return;
    for (int d = 2; d < rank; d++) in[d] = d - 1, back[d - 1] = d;
    back[rank - 1] = 1;
    gale__node x = value_at(L, 0);
    if (last) x = gale__prim_permute(g, x, in);
    x = lower_as(L, lower, x);
    if (last) x = gale__prim_permute(g, x, back);
    give_quantised(L, x, 3, gale__lower_type_of(g, L->in[0]));
}
LOWER(MSQLinearAveragePool) { pool(L, gale__op_AveragePool); }
LOWER(MSQLinearGlobalAveragePool) { pool(L, gale__op_GlobalAveragePool); }

LOWER(MSQLinearConcat)
{
    int n = (L->n_in - 2) / 3;
    if (L->n_in < 5 || (L->n_in - 2) % 3)
        gale__lower_refuse(L, "%d inputs after scale and zero point; each part needs 3", L->n_in - 2);
    gale__node *parts = gale__lower_good(L) ? gale__arena_alloc(&L->g->arena, (size_t)n * sizeof *parts) : NULL;
    if (!parts && gale__lower_good(L)) L->g->status = GALE_NO_MEMORY;
    for (int i = 0; parts && i < n; i++) parts[i] = value_at(L, 2 + 3 * i);
    if (!parts) return;
    int axis = gale__lower_axis(L, gale__attr_i(L, "axis", 0), gale__lower_rank_of(L->g, parts[0]));
    if (gale__lower_good(L))
        give_quantised(L, gale__prim_concat(L->g, axis, parts, n), 0, gale__lower_type_of(L->g, L->in[2]));
}

/* --- Products. --- */

static gale__node turned(gale__lower *L, gale__node x, bool turn)
{
    return turn ? gale__prim_permute(L->g, x, (int[]){1, 0}) : x;
}

/* Scales come to the sums in whole numbers, of which C is one; those of B may be one per column. */
LOWER(MSQGemm)
{
    gale__prim_graph *g = L->g;
    if (gale__lower_rank_of(g, L->in[0]) != 2 || gale__lower_rank_of(g, L->in[3]) != 2)
        gale__lower_refuse(L, "the factors have %d and %d axes instead of 2", gale__lower_rank_of(g, L->in[0]),
            gale__lower_rank_of(g, L->in[3]));
    if (!gale__lower_good(L)) return;
    gale__node a = gale__lower_centre(
                   L, turned(L, L->in[0], gale__attr_i(L, "transA", 0)), gale__lower_lone(L, L->in[2])),
               c = gale__lower_arg(L, 6);
    gale__node b = gale__lower_centre(
                   L, turned(L, L->in[3], gale__attr_i(L, "transB", 0)), gale__lower_lone(L, L->in[5])),
               sum = gale__prim_matmul(g, a, b);
    if (c >= 0) sum = gale__prim_add(g, sum, gale__prim_cast(g, c, GALE_I32));
    gale__node scale = gale__prim_mul(g, gale__lower_lone(L, L->in[1]), gale__lower_lone(L, L->in[4]));
    gale__node y = gale__prim_mul(g, gale__prim_cast(g, sum, GALE_F32),
        gale__prim_mul(g, scale, gale__lower_value(L, scale, gale__attr_f(L, "alpha", 1))));
    if (gale__lower_arg(L, 7) >= 0) give_quantised(L, y, 7, gale__lower_type_of(g, L->in[0]));
    else L->out[0] = y;
}

/* Whole numbers less their zero points, summed, then scaled; a bias is added to the floats. */
static void float_product(gale__lower *L, gale__node a, gale__node a_scale, gale__node a_zero, gale__node b_scale,
    gale__node b_zero, gale__node bias)
{
    gale__prim_graph *g = L->g;
    gale_type type = gale__lower_type_of(g, b_scale);
    int rank = gale__lower_rank_of(g, a);
    gale__node x = gale__lower_centre(L, a, gale__lower_lone_or_along(L, a_zero, rank, rank - 2)),
               y = gale__lower_product(L, x, gale__lower_centre(L, L->in[1], gale__lower_lone(L, b_zero)));
    gale__node scale =
        gale__prim_mul(g, gale__prim_cast(g, gale__lower_lone_or_along(L, a_scale, rank, rank - 2), GALE_F32),
            gale__prim_cast(g, gale__lower_lone(L, b_scale), GALE_F32));
    y = gale__prim_mul(g, gale__prim_cast(g, y, GALE_F32), scale);
    if (bias >= 0) y = gale__prim_add(g, y, gale__prim_cast(g, bias, GALE_F32));
    L->out[0] = gale__prim_cast(g, y, type);
}

LOWER(MSMatMulIntegerToFloat)
{
    float_product(L, L->in[0], L->in[2], gale__lower_arg(L, 4), L->in[3], gale__lower_arg(L, 5), gale__lower_arg(L, 6));
}

LOWER(MSDynamicQuantizeMatMul)
{
    gale__node a, scale, zero;
    gale__lower_quantise_range(L, L->in[0], &a, &scale, &zero);
    float_product(L, a, scale, zero, L->in[2], gale__lower_arg(L, 3), gale__lower_arg(L, 4));
}

/* Turned as asked: the first axis goes behind the batch's, and the last two change places. */
static gale__node turned_batch(gale__lower *L, gale__node x, bool batch, bool matrix)
{
    int rank = gale__lower_rank_of(L->g, x), perm[GALE_MAX_RANK];
    for (int d = 0; d < rank; d++) perm[d] = d;
    if (batch && rank > 2) {
        for (int d = 0; d < rank - 2; d++) perm[d] = d + 1;
        perm[rank - 2] = 0;
    }
    if (matrix && rank > 1) {
        int last = perm[rank - 1];
        perm[rank - 1] = perm[rank - 2];
        perm[rank - 2] = last;
    }
    return gale__prim_permute(L->g, x, perm);
}

LOWER(MSFusedMatMul)
{
    gale__node a =
        turned_batch(L, gale__lower_wide(L, L->in[0]), gale__attr_i(L, "transBatchA", 0), gale__attr_i(L, "transA", 0));
    gale__node b =
        turned_batch(L, gale__lower_wide(L, L->in[1]), gale__attr_i(L, "transBatchB", 0), gale__attr_i(L, "transB", 0));
    gale__node y = gale__lower_product(L, a, b);
    L->out[0] = gale__prim_cast(L->g, gale__prim_mul(L->g, y, gale__lower_value(L, y, gale__attr_f(L, "alpha", 1))),
        gale__lower_type_of(L->g, L->in[0]));
}

/* --- Scores with a bias. --- */

/* All axes from `axis` on count as one.  Where the bias is short of axes, they are the batch's, or those before `axis`.
 */
LOWER(MSBiasSoftmax)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]), q = gale__lower_peek(g, L->in[1]);
    int axis = gale__lower_axis(L, gale__attr_i(L, "axis", 1), p.rank);
    gale__node bias = gale__lower_wide(L, L->in[1]);
    int missing = gale__attr_i(L, "is_inner_broadcast", 0) && q.rank < p.rank ? p.rank - q.rank : 0;
    if (missing > axis)
        gale__lower_refuse(
            L, "a bias of rank %d does not match scores of rank %d before axis %d", q.rank, p.rank, axis);
    if (missing && gale__lower_good(L))
        bias = gale__prim_unsqueeze(g, bias, ((1u << axis) - 1) & ~((1u << (axis - missing)) - 1));
    gale__node y = gale__lower_softmax(
        L, gale__prim_add(g, gale__lower_wide(L, L->in[0]), bias), ((1u << p.rank) - 1) & ~((1u << axis) - 1));
    L->out[0] = gale__prim_cast(g, y, gale__lower_type_of(g, L->in[0]));
}

LOWER(MSUnfoldTensor)
{
    gale__prim_node p = gale__lower_peek(L->g, L->in[0]);
    int axis = gale__lower_axis(L, gale__attr_i(L, "dim", -1), p.rank), perm[GALE_MAX_RANK + 1];
    int64_t size = gale__attr_i(L, "size", 0), every = gale__attr_i(L, "step", 1);
    if (gale__lower_good(L) && (size < 1 || every < 1 || size > p.dims[axis] || p.rank >= GALE_MAX_RANK))
        gale__lower_refuse(L, "invalid windows of %lld every %lld along %lld", (long long)size, (long long)every,
            (long long)p.dims[axis]);
    if (!gale__lower_good(L)) return;
    gale__node windows =
        gale__prim_window(L->g, L->in[0], axis, (p.dims[axis] - size) / every + 1, size, every, 1, 0, 0);
    for (int d = 0; d <= p.rank; d++) perm[d] = d == p.rank ? axis + 1 : d + (d > axis);
    L->out[0] = gale__prim_permute(L->g, windows, perm);
}
