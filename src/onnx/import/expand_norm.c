/* Fused normalisations of com.microsoft: with a sum before them, additional results, and other layouts. */
#include "onnx/import/expand.h"
#include <string.h>

static bool wanted(const gale__onnx_net_node *node, int i) { return i < node->n_out && node->out[i] >= 0; }

/* Results from the n-th on have been made otherwise. */
static void keep_results(gale__onnx_net_node *node, int n)
{
    if (node->n_out > n) node->n_out = n;
}

/* 1 / sqrt(mean of squares + epsilon) along the last axis. */
static void inverse_rms(gale__onnx_rewrite *w, int32_t x, double epsilon, int32_t *out)
{
    int32_t mean = gale__rw(w, "ReduceMean", gale__rw(w, "Mul", x, x), gale__rw_int(w, -1));
    gale__rw_node(w, "Reciprocal", NULL, 0,
        GALE__VALUES(gale__rw(w, "Sqrt", gale__rw(w, "Add", mean, gale__rw_like(w, epsilon, x)))), out, 1);
}

EXPAND(rms_norm)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = false;
    if (wanted(node, 1)) inverse_rms(&w, gale__rw_in(&w, 0), gale__rw_float(&w, "epsilon", 1e-5f), &node->out[1]);
    keep_results(node, 1);
    node->op = "RMSNormalization";
    node->domain = "";
    return w.status;
}

/* Layer norm of input + skip (+ bias); the sum may come out too. */
EXPAND(skip_norm)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    bool simple = strcmp(node->op, "SkipSimplifiedLayerNormalization") == 0;
    int32_t bias = gale__rw_in(&w, simple ? 3 : 4), sum = gale__rw(&w, "Add", gale__rw_in(&w, 0), gale__rw_in(&w, 1));
    double epsilon = gale__rw_float(&w, "epsilon", 1e-12f);
    *done = false;
    if (bias >= 0) sum = gale__rw(&w, "Add", sum, bias);
    if (wanted(node, 3)) gale__rw_node(&w, "Identity", NULL, 0, &sum, 1, &node->out[3], 1);
    if (simple && wanted(node, 2)) inverse_rms(&w, sum, epsilon, &node->out[2]);
    keep_results(node, simple ? 1 : 3);
    gale__rw_drop_all(&w);
    gale__rw_set(&w, (gale_attr)GALE_INT("axis", -1));
    gale__rw_set(&w, (gale_attr)GALE_FLOAT("epsilon", epsilon));
    if (simple) gale__rw_become(&w, "RMSNormalization", sum, gale__rw_in(&w, 2));
    else gale__rw_become(&w, "LayerNormalization", sum, gale__rw_in(&w, 2), gale__rw_in(&w, 3));
    return w.status;
}

/* How many ones the mask has by item, or 0. */
static void mask_index(gale__onnx_rewrite *w, int32_t ids, int32_t mask, int32_t *out)
{
    static const gale_attr dense = GALE_INT("keepdims", 0), to = GALE_INT("to", 6 /* INT32 */);
    if (mask >= 0)
        gale__rw_node(
            w, "Cast", &to, 1, GALE__VALUES(gale__rw_with(w, "ReduceSum", dense, mask, gale__rw_int(w, 1))), out, 1);
    else
        gale__rw_node(
            w, "Expand", NULL, 0, GALE__VALUES(gale__rw_scalar(w, GALE_I32, 0), gale__rw_extent(w, ids, 0)), out, 1);
}

/* Word, position and segment embeddings, summed and normalised. */
EXPAND(embed_norm)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int32_t ids = gale__rw_in(&w, 0), segments = gale__rw_in(&w, 1), table = gale__rw_in(&w, 3),
            places = gale__rw_in(&w, 8);
    int32_t sum = gale__rw(&w, "Gather", gale__rw_in(&w, 2), ids);
    *done = false;
    if (places >= 0) table = gale__rw(&w, "Gather", table, places);
    else table = gale__rw(&w, "Slice", table, gale__rw_int(&w, 0), gale__rw_extent(&w, ids, 1), gale__rw_int(&w, 0));
    sum = gale__rw(&w, "Add", sum, table);
    if (segments >= 0 && gale__rw_in(&w, 4) >= 0)
        sum = gale__rw(&w, "Add", sum, gale__rw(&w, "Gather", gale__rw_in(&w, 4), segments));
    if (wanted(node, 1)) mask_index(&w, ids, gale__rw_in(&w, 7), &node->out[1]);
    if (wanted(node, 2)) gale__rw_node(&w, "Identity", NULL, 0, &sum, 1, &node->out[2], 1);
    keep_results(node, 1);
    gale_attr epsilon = GALE_FLOAT("epsilon", gale__rw_float(&w, "epsilon", 1e-12f));
    gale__rw_drop_all(&w);
    gale__rw_set(&w, (gale_attr)GALE_INT("axis", -1));
    gale__rw_set(&w, epsilon);
    gale__rw_become(&w, "LayerNormalization", sum, gale__rw_in(&w, 5), gale__rw_in(&w, 6));
    return w.status;
}

/* The same on tables of 8 bits: five values, their scales behind the mask, then their zero points. */
EXPAND(quant_embed_norm)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    for (int i = 2; i < 7; i++)
        if (gale__rw_in(&w, i) >= 0)
            gale__rw_set_in(&w, i,
                gale__rw(&w, "DequantizeLinear", gale__rw_in(&w, i), gale__rw_in(&w, i + 6), gale__rw_in(&w, i + 11)));
    if (node->n_in > 8) node->n_in = 8;
    return w.status == GALE_OK ? gale__onnx_expand_embed_norm(net, node, done) : w.status;
}

/* GroupNorm and SkipGroupNorm: channels last unless said otherwise, perhaps with Swish behind. */
EXPAND(group_norm)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    gale_attr attrs[] = {GALE_INT("num_groups", gale__onnx_net_attr_i(node, "groups", 1)),
        GALE_FLOAT("epsilon", gale__rw_float(&w, "epsilon", 1e-5f))};
    bool last = gale__onnx_net_attr_i(node, "channels_last", 1), swish = gale__onnx_net_attr_i(node, "activation", 0);
    int32_t x = gale__rw_in(&w, 0), skip = gale__rw_in(&w, 3), bias = gale__rw_in(&w, 4);
    *done = false;
    if (skip >= 0 && gale__onnx_net_rank(net, skip) == 2)
        skip = gale__rw(&w, "Unsqueeze", skip, gale__rw_ints(&w, (const int64_t[]){1, 2}, 2));
    if (skip >= 0) x = gale__rw(&w, "Add", x, skip);
    if (bias >= 0) x = gale__rw(&w, "Add", x, bias);
    if (wanted(node, 1)) gale__rw_node(&w, "Identity", NULL, 0, &x, 1, &node->out[1], 1);
    keep_results(node, 1);
    int32_t in[] = {last ? gale__rw_channels(&w, x, false) : x, gale__rw(&w, "CastLike", gale__rw_in(&w, 1), x),
        gale__rw(&w, "CastLike", gale__rw_in(&w, 2), x)};
    int32_t y = gale__rw_op(&w, "GroupNormalization", attrs, 2, in, 3);
    if (last) y = gale__rw_channels(&w, y, true);
    gale__rw_drop_all(&w);
    gale__rw_become(&w, swish ? "Swish" : "Identity", y);
    return w.status;
}
