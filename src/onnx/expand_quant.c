/* Quantised operators of com.microsoft that are others with something before or behind them. */
#include "onnx/expand.h"

EXPAND(quant_conv)
{
    gale__rewrite w = {net, node, GALE_OK};
    bool last = gale__net_attr_i(node, "channels_last", 0);
    *done = false;
    gale__net_drop_attr(node, "channels_last");
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

/* Attention of an input and weights that become real first. */
EXPAND(quant_attention)
{
    gale__rewrite w = {net, node, GALE_OK};
    int32_t x[] = {gale__rw_in(&w, 0), gale__rw_in(&w, 3), gale__rw_in(&w, 6)}, weights[] = {gale__rw_in(&w, 1), gale__rw_in(&w, 4), gale__rw_in(&w, 7)};
    *done = false;
    int32_t input = gale__rw_op(&w, "DequantizeLinear", NULL, 0, x, 3), matrix = gale__rw_op(&w, "DequantizeLinear", NULL, 0, weights, 3);
    gale__rw_become(&w, "MSAttention", input, matrix, gale__rw_in(&w, 2), gale__rw_in(&w, 5), gale__rw_in(&w, 8));
    return w.status;
}
