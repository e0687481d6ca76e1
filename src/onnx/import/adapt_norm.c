/* Older normalisations and Dropout: training mode was expressed differently, and statistics had other shapes. */
#include "onnx/import/adapt.h"
#include <string.h>

/* --- BatchNormalization. --- */

ADAPT(normalize_mode)
{
    (void)net;
    *done = false;
    if (gale__onnx_net_attr_i(node, "is_test", 0) && node->n_out > 1) node->n_out = 1; /* the others are not filled */
    gale__onnx_net_drop_attr(node, "is_test");
    return GALE_OK;
}

/* Before opset 9 statistics may be given for each element of an item. */
ADAPT(normalize_spatial)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    bool spatial = gale__onnx_net_attr_i(node, "spatial", 1);
    *done = false;
    gale__onnx_net_drop_attr(node, "spatial");
    if (spatial) return GALE_OK;
    if (node->n_out > 1)
        return gale__onnx_net_fail(node, GALE_UNSUPPORTED,
            "BatchNormalization of opset %d in training mode with spatial=0 is not supported; export the model for "
            "opset 9 or later",
            node->opset);
    if (node->n_in != 5)
        return gale__onnx_net_fail(node, GALE_FORMAT, "BatchNormalization has %d inputs instead of 5", node->n_in);
    int32_t x = gale__rw_in(&w, 0), scale = gale__rw_in(&w, 1), bias = gale__rw_in(&w, 2), mean = gale__rw_in(&w, 3),
            variance = gale__rw_in(&w, 4);
    int32_t deviation = gale__rw(
        &w, "Sqrt", gale__rw(&w, "Add", variance, gale__rw_like(&w, gale__rw_float(&w, "epsilon", 1e-5f), variance)));
    int32_t normal = gale__rw(&w, "Div", gale__rw(&w, "Sub", x, mean), deviation);
    gale__rw_become(&w, "Add", gale__rw(&w, "Mul", normal, scale), bias);
    gale__rw_drop_all(&w);
    return w.status;
}

/* The batch's own mean and variance by channel, which came out as results 3 and 4. */
static void saved_statistics(gale__onnx_rewrite *w)
{
    static const gale_attr dense = GALE_INT("keepdims", 0);
    gale__onnx_net_node *node = w->node;
    int32_t x = gale__rw(w, "Reshape", gale__rw_in(w, 0), gale__rw_ints(w, (const int64_t[]){0, 0, -1}, 3)),
            axes = gale__rw_ints(w, (const int64_t[]){0, 2}, 2);
    if (node->out[3] >= 0) gale__rw_node(w, "ReduceMean", &dense, 1, GALE__VALUES(x, axes), &node->out[3], 1);
    if (node->n_out < 5 || node->out[4] < 0) return;
    int32_t away = gale__rw(w, "Sub", x, gale__rw(w, "ReduceMean", x, axes));
    gale__rw_node(w, "ReduceMean", &dense, 1, GALE__VALUES(gale__rw(w, "Mul", away, away), axes), &node->out[4], 1);
}

/* Before opset 14 it trains when it has more results than one. */
ADAPT(normalize_outputs)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    bool trains = false;
    *done = false;
    for (int i = 1; i < node->n_out; i++) trains = trains || node->out[i] >= 0;
    if (!trains) return GALE_OK;
    gale__rw_set(&w, (gale_attr)GALE_INT("training_mode", 1));
    if (node->n_out > 3) saved_statistics(&w);
    if (node->n_out > 3) node->n_out = 3;
    return w.status;
}

/* --- Others. --- */

/* The experimental form: over each channel, or across them; the variance may stay. */
ADAPT(normalize_across)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int rank = gale__onnx_net_rank(net, gale__rw_in(&w, 0)), n = 0;
    bool across = gale__onnx_net_attr_i(node, "across_channels", 0),
         variance = gale__onnx_net_attr_i(node, "normalize_variance", 1);
    int64_t axes[GALE_MAX_RANK];
    *done = false;
    if (gale__onnx_net_attr(node, "axes")) return GALE_OK;
    for (int i = 0; i < (rank < 0 ? 4 : rank); i++)
        if (i != 1 || across) axes[n++] = i;
    gale__rw_drop_all(&w);
    if (variance) {
        gale__rw_set(&w, gale__rw_ints_attr(&w, "axes", axes, n));
        return w.status;
    }
    int32_t x = gale__rw_in(&w, 0);
    gale__rw_become(&w, "Sub", x, gale__rw(&w, "ReduceMean", x, gale__rw_ints(&w, axes, n)));
    return w.status;
}

/* One number for each group becomes one for each channel. */
static int32_t by_channel(gale__onnx_rewrite *w, int32_t groups, int32_t shape)
{
    return gale__rw(w, "Reshape", gale__rw(w, "Expand", gale__rw_trail(w, groups, 1), shape), gale__rw_int(w, -1));
}

ADAPT(normalize_groups)
{
    static const gale_attr first = GALE_INT("axis", 0);
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int64_t groups = gale__onnx_net_attr_i(node, "num_groups", 0);
    *done = false;
    if (groups <= 0 || node->n_in != 3)
        return gale__onnx_net_fail(
            node, GALE_FORMAT, "GroupNormalization needs three inputs and the attribute 'num_groups'");
    int32_t count = gale__rw_int(&w, groups), channels = gale__rw_extent(&w, gale__rw_in(&w, 0), 1);
    int32_t shape = gale__rw_with(&w, "Concat", first, count, gale__rw(&w, "Div", channels, count));
    for (int i = 1; i < 3; i++) gale__rw_set_in(&w, i, by_channel(&w, gale__rw_in(&w, i), shape));
    return w.status;
}

/* --- Dropout. --- */

/* Before opset 7 it trains unless is_test says otherwise, and the mask has the data's type. */
ADAPT(dropout_test)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    bool trains = !gale__onnx_net_attr_i(node, "is_test", 0);
    int32_t x = gale__rw_in(&w, 0), out[2] = {node->n_out ? node->out[0] : -1, -1};
    *done = false;
    gale__onnx_net_drop_attr(node, "is_test");
    if (!trains || !node->n_out) return GALE_OK;
    int32_t in[] = {
        x, gale__rw_scalar(&w, GALE_F32, gale__rw_float(&w, "ratio", 0.5)), gale__rw_scalar(&w, GALE_BOOL, 1)};
    gale__rw_node(&w, "Dropout", NULL, 0, in, 3, out, node->n_out > 1 ? 2 : 1);
    if (node->n_out > 1 && node->out[1] >= 0)
        gale__rw_node(&w, "CastLike", NULL, 0, GALE__VALUES(out[1], x), &node->out[1], 1);
    *done = true;
    return w.status;
}

/* Before opset 10 the mask has the data's type; nothing is dropped, so it is all ones. */
ADAPT(dropout_mask)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int32_t x = gale__rw_in(&w, 0);
    *done = false;
    if (node->n_out < 2) return GALE_OK;
    if (node->out[1] >= 0)
        gale__rw_node(
            &w, "Expand", NULL, 0, GALE__VALUES(gale__rw_like(&w, 1, x), gale__rw(&w, "Shape", x)), &node->out[1], 1);
    node->n_out = 1;
    return w.status;
}

/* From opset 7 to 11 it does nothing: there was no way to say that it trains. */
ADAPT(dropout_inputs)
{
    (void)net;
    *done = false;
    gale__onnx_net_drop_attr(node, "ratio");
    return GALE_OK;
}
