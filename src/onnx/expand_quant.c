/* The quantised operators of com.microsoft: to real numbers, the operator, and back; integer products where they are exact. */
#include "onnx/expand.h"
#include <string.h>

static int32_t real(gale__rewrite *w, int x, int scale, int zero)
{
    int32_t in[] = {gale__rw_in(w, x), gale__rw_in(w, scale), gale__rw_in(w, zero)};
    return gale__rw_op(w, "DequantizeLinear", NULL, 0, in, in[2] >= 0 ? 3 : 2);
}

/* The node quantises y: by input `scale` and `zero`, in the type of input `like` where there is no zero point. */
static gale_status quantise(gale__rewrite *w, int32_t y, int scale, int zero, int like)
{
    int32_t in[] = {y, gale__rw_in(w, scale), gale__rw_in(w, zero)};
    if (in[2] < 0) in[2] = gale__rw(w, "CastLike", gale__rw(w, "Mul", in[1], gale__rw_like(w, 0, in[1])), gale__rw_in(w, like));
    gale__rw_drop_all(w);
    gale__rw_turn(w, "QuantizeLinear", in, 3);
    return w->status;
}

EXPAND(quant_two)
{
    gale__rewrite w = {net, node, GALE_OK};
    *done = false;
    int32_t a = real(&w, 0, 1, 2), b = real(&w, 3, 4, 5);
    return quantise(&w, gale__rw(&w, strcmp(node->op, "QLinearAdd") ? "Mul" : "Add", a, b), 6, 7, 0);
}

/* x, scale, zero point, and those of the result. */
EXPAND(quant_one)
{
    gale__rewrite w = {net, node, GALE_OK};
    const char *op = node->op + strlen("QLinear");
    bool last = gale__net_attr_i(node, "channels_last", 0), flat = strcmp(op, "Softmax") == 0 && gale__net_attr_i(node, "opset", 13) < 13;
    int n_axes;
    const int64_t *axes = gale__rw_list(&w, "axes", &n_axes);
    *done = false;
    if (flat && gale__net_attr_i(node, "axis", -1) != -1) return gale__net_fail(node, GALE_UNSUPPORTED, "QLinearSoftmax of opset %lld over several axes is not supported", (long long)gale__net_attr_i(node, "opset", 13));
    gale__net_drop_attr(node, "channels_last");
    gale__net_drop_attr(node, "opset");
    if (strcmp(op, "ReduceMean") == 0) gale__net_drop_attr(node, "axes");
    int32_t x = real(&w, 0, 1, 2);
    int32_t in[] = {last ? gale__rw_channels(&w, x, false) : x, axes && n_axes ? gale__rw_ints(&w, axes, n_axes) : -1};
    int32_t y = gale__rw_op(&w, op, node->attrs, node->n_attrs, in, in[1] >= 0 ? 2 : 1);
    return quantise(&w, last ? gale__rw_channels(&w, y, true) : y, 3, 4, 0);
}

EXPAND(quant_where)
{
    gale__rewrite w = {net, node, GALE_OK};
    *done = false;
    int32_t x = real(&w, 1, 2, 3), y = real(&w, 4, 5, 6);
    return quantise(&w, gale__rw(&w, "Where", gale__rw_in(&w, 0), x, y), 7, 8, 1);
}

EXPAND(quant_concat)
{
    gale__rewrite w = {net, node, GALE_OK};
    gale_attr axis = GALE_INT("axis", gale__net_attr_i(node, "axis", 0));
    int n = (node->n_in - 2) / 3;
    *done = false;
    if (n < 1 || node->n_in != 2 + 3 * n) return gale__net_fail(node, GALE_FORMAT, "QLinearConcat has %d inputs; it must have a scale, a zero point and three for each part", node->n_in);
    int32_t *parts = gale__arena_alloc(net->arena, (size_t)n * sizeof *parts);
    if (!parts) return GALE_NO_MEMORY;
    for (int i = 0; i < n; i++) parts[i] = real(&w, 2 + 3 * i, 3 + 3 * i, 4 + 3 * i);
    return quantise(&w, gale__rw_op(&w, "Concat", &axis, 1, parts, n), 0, 1, 2);
}

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

/* A, scale, zero; B, scale, zero; C (i32, at the product of the scales); the result's scale and zero point, without which it stays real. */
EXPAND(quant_gemm)
{
    gale__rewrite w = {net, node, GALE_OK};
    gale_attr attrs[] = {GALE_FLOAT("alpha", gale__rw_float(&w, "alpha", 1)), GALE_INT("transA", gale__net_attr_i(node, "transA", 0)), GALE_INT("transB", gale__net_attr_i(node, "transB", 0))};
    gale_attr per_column = GALE_INT("axis", attrs[2].i ? 0 : 1);
    int32_t b_in[] = {gale__rw_in(&w, 3), gale__rw_in(&w, 4), gale__rw_in(&w, 5)}, c = gale__rw_in(&w, 6);
    *done = false;
    int32_t a = real(&w, 0, 1, 2), b = gale__rw_op(&w, "DequantizeLinear", &per_column, 1, b_in, b_in[2] >= 0 ? 3 : 2);
    if (c >= 0) {
        int32_t scale = gale__rw(&w, "Mul", gale__rw_in(&w, 1), gale__rw_in(&w, 4));
        if (attrs[0].f != 1) scale = gale__rw(&w, "Mul", scale, gale__rw_like(&w, attrs[0].f, scale));
        c = gale__rw(&w, "Mul", gale__rw(&w, "CastLike", c, scale), scale);
    }
    int32_t in[] = {a, b, c}, y = gale__rw_op(&w, "Gemm", attrs, 3, in, c >= 0 ? 3 : 2);
    if (gale__rw_in(&w, 7) >= 0) return quantise(&w, y, 7, 8, 0);
    gale__rw_drop_all(&w);
    gale__rw_become(&w, "Identity", y);
    return w.status;
}

/* Whole-number product of a and b less their zero points, times both scales, plus bias. */
static gale_status scaled_product(gale__rewrite *w, const int32_t in[4], int32_t scale, int32_t bias)
{
    int32_t whole = gale__rw_op(w, "MatMulInteger", NULL, 0, in, 4), y = gale__rw(w, "CastLike", whole, scale);
    gale__rw_drop_all(w);
    if (bias < 0) gale__rw_become(w, "Mul", y, scale);
    else gale__rw_become(w, "Add", gale__rw(w, "Mul", y, scale), bias);
    return w->status;
}

EXPAND(integer_to_float)
{
    gale__rewrite w = {net, node, GALE_OK};
    int32_t in[] = {gale__rw_in(&w, 0), gale__rw_in(&w, 1), gale__rw_in(&w, 4), gale__rw_in(&w, 5)};
    *done = false;
    return scaled_product(&w, in, gale__rw(&w, "Mul", gale__rw_in(&w, 2), gale__rw_in(&w, 3)), gale__rw_in(&w, 6));
}

EXPAND(dynamic_matmul)
{
    gale__rewrite w = {net, node, GALE_OK};
    int32_t a = gale__rw_in(&w, 0), q[3] = {-1, -1, -1};
    *done = false;
    gale__rw_node(&w, "DynamicQuantizeLinear", NULL, 0, &a, 1, q, 3);
    int32_t in[] = {q[0], gale__rw_in(&w, 1), q[2], gale__rw_in(&w, 3)};
    return scaled_product(&w, in, gale__rw(&w, "Mul", q[1], gale__rw_in(&w, 2)), gale__rw_in(&w, 4));
}

/* --- Weights of a few bits, packed from the lowest bit on. --- */

/* u8 [..., bytes] as u8 [..., bytes, numbers in a byte]. */
static int32_t unpack(gale__rewrite *w, int32_t x, int bits)
{
    static const gale_attr right = GALE_STRING_ATTR("direction", "RIGHT"), last = GALE_INT("axis", -1);
    int32_t part[8], n = 8 / bits;
    if (bits == 8) return gale__rw(w, "Unsqueeze", x, gale__rw_int(w, -1));
    for (int i = 0; i < n; i++) {
        int32_t low = i ? gale__rw_with(w, "BitShift", right, x, gale__rw_scalar(w, GALE_U8, i * bits)) : x;
        part[i] = gale__rw(w, "Unsqueeze", gale__rw(w, "BitwiseAnd", low, gale__rw_scalar(w, GALE_U8, (1 << bits) - 1)), gale__rw_int(w, -1));
    }
    return gale__rw_op(w, "Concat", &last, 1, part, n);
}

EXPAND(matmul_bits)
{
    gale__rewrite w = {net, node, GALE_OK};
    int64_t k = gale__net_attr_i(node, "K", 0), n = gale__net_attr_i(node, "N", 0), bits = gale__net_attr_i(node, "bits", 4), block = gale__net_attr_i(node, "block_size", 0);
    gale_type zero_type;
    *done = false;
    if (k < 1 || n < 1 || block < 1 || k > INT32_MAX || n > INT32_MAX || block > INT32_MAX || (bits != 2 && bits != 4 && bits != 8) || block * bits % 8)
        return gale__net_fail(node, GALE_UNSUPPORTED, "MatMulNBits with K %lld, N %lld, %lld bits and blocks of %lld is not supported", (long long)k, (long long)n, (long long)bits, (long long)block);
    if (gale__rw_in(&w, 4) >= 0) return gale__net_fail(node, GALE_UNSUPPORTED, "MatMulNBits with g_idx is not supported");
    int64_t blocks = (k + block - 1) / block;
    int32_t a = gale__rw_in(&w, 0), scale = gale__rw_in(&w, 2), zero = gale__rw_in(&w, 3), bias = gale__rw_in(&w, 5);
    int32_t by_block = gale__rw_ints(&w, (const int64_t[]){n, blocks, 1}, 3), all = gale__rw_ints(&w, (const int64_t[]){n, blocks, block}, 3);
    int32_t b = gale__rw(&w, "CastLike", gale__rw(&w, "Reshape", unpack(&w, gale__rw_in(&w, 1), (int)bits), all), scale);
    bool packed = zero >= 0 && (!gale__net_type(net, zero, &zero_type) || zero_type == GALE_U8);
    if (packed) { /* each row begins with a byte of its own */
        int32_t row = gale__rw(&w, "Reshape", zero, gale__rw_ints(&w, (const int64_t[]){n, (blocks * bits + 7) / 8}, 2));
        int32_t numbers = gale__rw(&w, "Reshape", unpack(&w, row, (int)bits), gale__rw_ints(&w, (const int64_t[]){n, -1}, 2));
        zero = gale__rw(&w, "Slice", numbers, gale__rw_int(&w, 0), gale__rw_int(&w, blocks), gale__rw_int(&w, 1));
    }
    zero = zero >= 0 ? gale__rw(&w, "Reshape", gale__rw(&w, "CastLike", zero, scale), by_block) : gale__rw_like(&w, 1 << (bits - 1), scale);
    b = gale__rw(&w, "Mul", gale__rw(&w, "Sub", b, zero), gale__rw(&w, "Reshape", scale, by_block));
    b = gale__rw(&w, "Reshape", b, gale__rw_ints(&w, (const int64_t[]){n, blocks * block}, 2));
    if (blocks * block != k) b = gale__rw(&w, "Slice", b, gale__rw_int(&w, 0), gale__rw_int(&w, k), gale__rw_int(&w, 1));
    int32_t y = gale__rw_product(&w, a, gale__rw(&w, "CastLike", b, a), false, true, 1);
    gale__rw_drop_all(&w);
    if (bias >= 0) gale__rw_become(&w, "Add", y, bias);
    else gale__rw_become(&w, "Identity", y);
    return w.status;
}
