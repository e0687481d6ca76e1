/* Operators fused by ONNX Runtime's optimisers (domain com.microsoft), decomposed again: recognisers and fast paths
 * recombine them for the current device. */
#include "onnx/import/expand.h"
#include <string.h>

static int32_t channels(gale__onnx_rewrite *w, int32_t x, int rank, bool last)
{
    int64_t perm[GALE_MAX_RANK] = {0};
    if (rank < 3 || rank > GALE_MAX_RANK) rank = 4;
    for (int i = 1; i < rank; i++) perm[i] = last ? (i + 1 < rank ? i + 1 : 1) : (i == 1 ? rank - 1 : i - 1);
    gale_attr attr = gale__rw_ints_attr(w, "perm", perm, rank);
    return gale__rw_with(w, "Transpose", attr, x);
}

int32_t gale__rw_channels(gale__onnx_rewrite *w, int32_t x, bool last)
{
    return channels(w, x, gale__onnx_net_rank(w->net, x), last);
}

static int32_t turned(gale__onnx_rewrite *w, int32_t x, int rank)
{
    int64_t perm[GALE_MAX_RANK];
    for (int i = 0; i < rank; i++) perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    gale_attr attr = gale__rw_ints_attr(w, "perm", perm, rank);
    return gale__rw_with(w, "Transpose", attr, x);
}

int32_t gale__rw_product(gale__onnx_rewrite *w, int32_t a, int32_t b, bool turn_a, bool turn_b, double alpha)
{
    static const char *const equations[] = {
        "...ij,...jk->...ik", "...ij,...kj->...ik", "...ji,...jk->...ik", "...ji,...kj->...ik"};
    int ra = gale__onnx_net_rank(w->net, a), rb = gale__onnx_net_rank(w->net, b);
    int32_t y;
    if ((!turn_a || ra >= 2) && (!turn_b || rb >= 2)) {
        y = gale__rw(w, "MatMul", turn_a ? turned(w, a, ra) : a, turn_b ? turned(w, b, rb) : b);
    } else {
        gale_attr equation = GALE_STRING_ATTR("equation", equations[2 * turn_a + turn_b]);
        y = gale__rw_with(w, "Einsum", equation, a, b);
    }
    return alpha == 1 ? y : gale__rw(w, "Mul", y, gale__rw_like(w, alpha, a));
}

/* The node becomes activation `name` of x; parameters in the order of the operator's attributes. */
static gale_status activate(gale__onnx_rewrite *w, const char *name, const double *p, size_t n, int32_t x)
{
    static const char *const plain[] = {"", "Relu", "Tanh", "Sigmoid", "HardSwish", "Softplus", "Softsign", "Gelu",
        "Elu", "LeakyRelu", "HardSigmoid", "ThresholdedRelu", "Clip"};
    const char *op = NULL;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(name, plain[i]) == 0) op = plain[i];
    if (!op) return gale__onnx_net_fail(w->node, GALE_UNSUPPORTED, "unknown activation '%s'", name);
    gale__rw_drop_all(w);
    if (strcmp(op, "Clip") == 0) {
        int32_t low = n > 0 ? gale__rw_like(w, p[0], x) : -1, high = n > 1 ? gale__rw_like(w, p[1], x) : -1;
        gale__rw_become(w, "Clip", x, low, high);
        return w->status;
    }
    bool takes_alpha =
        !strcmp(op, "Elu") || !strcmp(op, "LeakyRelu") || !strcmp(op, "HardSigmoid") || !strcmp(op, "ThresholdedRelu");
    if (takes_alpha && n > 0) gale__rw_set(w, (gale_attr)GALE_FLOAT("alpha", p[0]));
    if (!strcmp(op, "HardSigmoid") && n > 1) gale__rw_set(w, (gale_attr)GALE_FLOAT("beta", p[1]));
    gale__rw_become(w, *op ? op : "Identity", x);
    return w->status;
}

EXPAND(fused_matmul)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = false;
    if (gale__onnx_net_attr_i(node, "transBatchA", 0) || gale__onnx_net_attr_i(node, "transBatchB", 0))
        return GALE_OK; /* it stays one operator */
    int32_t y = gale__rw_product(&w, gale__rw_in(&w, 0), gale__rw_in(&w, 1), gale__onnx_net_attr_i(node, "transA", 0),
        gale__onnx_net_attr_i(node, "transB", 0), gale__rw_float(&w, "alpha", 1));
    double p[] = {gale__rw_float(&w, "activation_alpha", 0), gale__rw_float(&w, "activation_beta", 0)};
    return activate(
        &w, gale__rw_text(&w, "activation", ""), p, gale__onnx_net_attr(node, "activation_alpha") ? 2 : 0, y);
}

EXPAND(fused_gemm)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    gale_attr attrs[] = {GALE_FLOAT("alpha", gale__rw_float(&w, "alpha", 1)),
        GALE_FLOAT("beta", gale__rw_float(&w, "beta", 1)), GALE_INT("transA", gale__onnx_net_attr_i(node, "transA", 0)),
        GALE_INT("transB", gale__onnx_net_attr_i(node, "transB", 0))};
    double p[] = {gale__rw_float(&w, "activation_alpha", 0), gale__rw_float(&w, "activation_beta", 0)};
    *done = false;
    int32_t y = gale__rw_op(&w, "Gemm", attrs, 4, node->in, node->n_in);
    return activate(
        &w, gale__rw_text(&w, "activation", ""), p, gale__onnx_net_attr(node, "activation_alpha") ? 2 : 0, y);
}

EXPAND(fused_conv)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    const gale_attr *params = gale__onnx_net_attr(node, "activation_params");
    const double *p = params && params->kind == GALE_ATTR_FLOATS ? params->floats : NULL;
    size_t n = p ? params->count : 0;
    const char *name = gale__rw_text(&w, "activation", "");
    bool last = strcmp(node->op, "FusedConv") != 0; /* of x, z and y; the kernel has its usual layout */
    *done = false;
    gale__onnx_net_drop_attr(node, "activation");
    gale__onnx_net_drop_attr(node, "activation_params");
    if (last) gale__rw_set_in(&w, 0, gale__rw_channels(&w, gale__rw_in(&w, 0), false));
    int32_t y = gale__rw_op(&w, "Conv", node->attrs, node->n_attrs, node->in, node->n_in < 3 ? node->n_in : 3),
            z = gale__rw_in(&w, 3);
    if (last) y = gale__rw_channels(&w, y, true);
    return activate(&w, name, p, n, z >= 0 ? gale__rw(&w, "Add", y, z) : y);
}

/* The standard's operator on pictures whose channels are last; its other inputs have their usual layout. */
EXPAND(channels_last)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    const char *op = strncmp(node->op, "Nhwc", 4) ? node->op : node->op + 4;
    int32_t x = gale__rw_in(&w, 0);
    int rank = x >= 0 ? gale__onnx_net_rank(net, x) : -1, spatial = 0;
    *done = false;
    if (gale__rw_list(&w, "kernel_shape", &spatial) && rank < 0) rank = spatial + 2;
    gale__rw_set_in(&w, 0, channels(&w, x, rank, false));
    int32_t y = gale__rw_op(&w, op, node->attrs, node->n_attrs, node->in, node->n_in);
    gale__rw_drop_all(&w);
    gale__rw_become(&w, "Identity", channels(&w, y, rank, true));
    return w.status;
}

EXPAND(channels_last_conv)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int32_t in[] = {gale__rw_channels(&w, gale__rw_in(&w, 0), false), gale__rw_channels(&w, gale__rw_in(&w, 1), false),
        gale__rw_in(&w, 2)};
    int32_t y = gale__rw_op(&w, "Conv", node->attrs, node->n_attrs, in, 3);
    *done = false;
    gale__rw_drop_all(&w);
    gale__rw_become(&w, "Identity", gale__rw_channels(&w, y, true));
    return w.status;
}

EXPAND(quant_conv)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    bool last = gale__onnx_net_attr_i(node, "channels_last", 0);
    *done = false;
    gale__onnx_net_drop_attr(node, "channels_last");
    if (!last) {
        node->domain = "";
        return GALE_OK;
    }
    gale__rw_set_in(&w, 0, gale__rw_channels(&w, gale__rw_in(&w, 0), false));
    int32_t y = gale__rw_op(&w, "QLinearConv", node->attrs, node->n_attrs, node->in, node->n_in);
    gale__rw_drop_all(&w);
    gale__rw_become(&w, "Identity", gale__rw_channels(&w, y, true));
    return w.status;
}

/* --- GELU and its kin. --- */

EXPAND(bias_gelu)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = false;
    gale__rw_become(&w, "Gelu", gale__rw(&w, "Add", gale__rw_in(&w, 0), gale__rw_in(&w, 1)));
    return w.status;
}

EXPAND(fast_gelu)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int32_t x = gale__rw_in(&w, 0), bias = gale__rw_in(&w, 1);
    *done = false;
    gale__rw_set(&w, (gale_attr)GALE_STRING_ATTR("approximate", "tanh"));
    gale__rw_become(&w, "Gelu", bias >= 0 ? gale__rw(&w, "Add", x, bias) : x);
    return w.status;
}

EXPAND(quick_gelu)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = false;
    gale__rw_set(&w, (gale_attr)GALE_FLOAT("alpha", gale__rw_float(&w, "alpha", 1.702f)));
    gale__rw_become(&w, "Swish", gale__rw_in(&w, 0));
    return w.status;
}

EXPAND(bias_split_gelu)
{
    static const gale_attr last[] = {GALE_INT("axis", -1), GALE_INT("num_outputs", 2)};
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int32_t x = gale__rw(&w, "Add", gale__rw_in(&w, 0), gale__rw_in(&w, 1)), half[2] = {-1, -1};
    *done = false;
    gale__rw_node(&w, "Split", last, 2, &x, 1, half, 2);
    gale__rw_become(&w, "Mul", half[0], gale__rw(&w, "Gelu", half[1]));
    return w.status;
}

EXPAND(bias_add)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = false;
    gale__rw_become(&w, "Add", gale__rw(&w, "Add", gale__rw_in(&w, 0), gale__rw_in(&w, 1)), gale__rw_in(&w, 2));
    return w.status;
}

EXPAND(expand_dims)
{
    static const gale_attr to = GALE_INT("to", 7 /* INT64 */);
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int32_t axis = gale__rw(&w, "Reshape", gale__rw_with(&w, "Cast", to, gale__rw_in(&w, 1)), gale__rw_int(&w, -1));
    *done = false;
    gale__rw_become(&w, "Unsqueeze", gale__rw_in(&w, 0), axis);
    return w.status;
}

EXPAND(grid_names)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    const char *mode = gale__rw_text(&w, "mode", "bilinear");
    *done = false;
    node->domain = "";
    if (strcmp(mode, "bilinear") == 0) gale__rw_set(&w, (gale_attr)GALE_STRING_ATTR("mode", "linear"));
    if (strcmp(mode, "bicubic") == 0) gale__rw_set(&w, (gale_attr)GALE_STRING_ATTR("mode", "cubic"));
    return w.status;
}

/* --- Operators that came before the standard's. --- */

EXPAND(range_by_one)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int32_t start = gale__rw_in(&w, 0), delta = gale__rw_in(&w, 2);
    *done = false;
    gale__rw_become(&w, "Range", start, gale__rw_in(&w, 1),
        delta >= 0 ? delta : gale__rw(&w, "CastLike", gale__rw_scalar(&w, GALE_F32, 1), start));
    return w.status;
}

/* In the order in which they come, without the places of the first ones. */
EXPAND(unique_as_met)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int32_t *out = gale__arena_alloc(net->arena, 4 * sizeof *out);
    if (!out) return GALE_NO_MEMORY;
    for (int i = 0; i < 4; i++) out[i] = i != 1 && i - (i > 1) < node->n_out ? node->out[i - (i > 1)] : -1;
    gale__rw_set(&w, (gale_attr)GALE_INT("sorted", 0));
    node->op = "Unique";
    node->domain = "";
    node->out = out;
    node->n_out = 4;
    return w.status == GALE_OK ? gale__onnx_expand_unique(net, node, done) : w.status;
}

EXPAND(wide_matmul)
{
    static const gale_attr to = GALE_INT("to", 6 /* INT32 */);
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = false;
    gale__rw_become(&w, "MatMul", gale__rw_with(&w, "Cast", to, gale__rw_in(&w, 0)),
        gale__rw_with(&w, "Cast", to, gale__rw_in(&w, 1)));
    return w.status;
}

/* Distances of all rows of one matrix to all of another. */
EXPAND(distances)
{
    static const gale_attr dense = GALE_INT("keepdims", 0);
    gale__onnx_rewrite w = {net, node, GALE_OK};
    const char *metric = gale__rw_text(&w, "metric", "sqeuclidean");
    bool root = strcmp(metric, "euclidean") == 0;
    *done = false;
    if (!root && strcmp(metric, "sqeuclidean"))
        return gale__onnx_net_fail(node, GALE_UNSUPPORTED, "unknown metric '%s'", metric);
    int32_t d = gale__rw(&w, "Sub", gale__rw(&w, "Unsqueeze", gale__rw_in(&w, 0), gale__rw_int(&w, 1)),
        gale__rw(&w, "Unsqueeze", gale__rw_in(&w, 1), gale__rw_int(&w, 0)));
    int32_t sum = gale__rw_with(&w, "ReduceSum", dense, gale__rw(&w, "Mul", d, d), gale__rw_int(&w, -1));
    gale__rw_drop_all(&w);
    gale__rw_become(&w, root ? "Sqrt" : "Identity", sum);
    return w.status;
}

/* Weights [directions, from, gates] with a scale and zero point for all or for each column, as LSTM wants them. */
static int32_t lstm_weights(gale__onnx_rewrite *w, int32_t x, int32_t scale, int32_t zero)
{
    static const gale_attr to = GALE_INT("to", 1 /* FLOAT */);
    int32_t columns = gale__rw_ints(w, (const int64_t[]){0, 1, -1}, 3), y = gale__rw_with(w, "Cast", to, x);
    if (zero >= 0) y = gale__rw(w, "Sub", y, gale__rw(w, "Reshape", gale__rw_with(w, "Cast", to, zero), columns));
    gale_attr perm = gale__rw_ints_attr(w, "perm", (const int64_t[]){0, 2, 1}, 3);
    return gale__rw_with(w, "Transpose", perm, gale__rw(w, "Mul", y, gale__rw(w, "Reshape", scale, columns)));
}

/* What goes in stays as precise as it is: rounding it to 8 bits is for machines that are faster then. */
EXPAND(quant_lstm)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int32_t in[8];
    *done = false;
    for (int i = 0; i < 8; i++) in[i] = gale__rw_in(&w, i);
    in[1] = lstm_weights(&w, in[1], gale__rw_in(&w, 8), gale__rw_in(&w, 9));
    in[2] = lstm_weights(&w, in[2], gale__rw_in(&w, 10), gale__rw_in(&w, 11));
    gale__rw_turn(&w, "LSTM", in, 8);
    return w.status;
}
