/* Experimental operators of the first opsets, removed from the standard: those with a simple numeric meaning,
 * expressed with current operators. */
#include "onnx/import/adapt.h"
#include <string.h>

ADAPT(old_refused)
{
    (void)net;
    *done = false;
    return gale__onnx_net_fail(node, GALE_UNSUPPORTED,
        "%s (opset %d) was experimental and never fully specified; export the model for a later opset", node->op,
        node->opset);
}

/* The last step of a node that needs none of its attributes any more. */
static gale_status become(gale__onnx_rewrite *w, const char *op, int32_t a, int32_t b)
{
    gale__rw_become(w, op, a, b);
    gale__rw_drop_all(w);
    return w->status;
}

ADAPT(old_affine)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int32_t x = gale__rw_in(&w, 0), slope = gale__rw_like(&w, gale__rw_float(&w, "alpha", 1), x),
            offset = gale__rw_like(&w, gale__rw_float(&w, "beta", 0), x);
    *done = false;
    return become(&w, "Add", gale__rw(&w, "Mul", x, slope), offset);
}

ADAPT(old_scale)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int32_t x = gale__rw_in(&w, 0);
    *done = false;
    return become(&w, "Mul", x, gale__rw_like(&w, gale__rw_float(&w, "scale", 1), x));
}

/* alpha f(beta x). */
static gale_status scaled(gale__onnx_rewrite *w, const char *f)
{
    int32_t x = gale__rw_in(w, 0), alpha = gale__rw_like(w, gale__rw_float(w, "alpha", 1), x),
            beta = gale__rw_like(w, gale__rw_float(w, "beta", 1), x);
    return become(w, "Mul", gale__rw(w, f, gale__rw(w, "Mul", x, beta)), alpha);
}

ADAPT(old_softplus)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = false;
    return scaled(&w, "Softplus");
}

ADAPT(old_tanh)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = false;
    return scaled(&w, "Tanh");
}

ADAPT(old_image_scaler)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    const gale_attr *bias = gale__onnx_net_attr(node, "bias");
    int32_t x = gale__rw_in(&w, 0), y = gale__rw(&w, "Mul", x, gale__rw_like(&w, gale__rw_float(&w, "scale", 1), x));
    *done = false;
    if (!bias || bias->kind != GALE_ATTR_FLOATS || bias->count > 1 << 20)
        return gale__onnx_net_fail(
            node, GALE_FORMAT, "ImageScaler needs the attribute 'bias' with one number per channel");
    int32_t offset = gale__rw_trail(&w, gale__rw_floats(&w, bias->floats, (int)bias->count), 2);
    return become(&w, "Add", y, gale__rw(&w, "CastLike", offset, x));
}

/* Borders are left, top, right, bottom; with a scale (height, width) only the first two count. */
ADAPT(old_crop)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int n, n_scale;
    const int64_t *border = gale__rw_list(&w, "border", &n), *scale = gale__rw_list(&w, "scale", &n_scale);
    *done = false;
    if (!border || n != 4 || (scale && n_scale != 2))
        return gale__onnx_net_fail(node, GALE_FORMAT, "Crop needs four borders, and two numbers if it has a scale");
    for (int i = 0; i < 4; i++)
        if (border[i] < 0 || border[i] > INT32_MAX || (scale && (scale[i & 1] < 0 || scale[i & 1] > INT32_MAX)))
            return gale__onnx_net_fail(node, GALE_FORMAT, "Crop: a border or a scale is out of range");
    int64_t starts[2] = {border[1], border[0]}, ends[2];
    for (int i = 0; i < 2; i++) ends[i] = scale ? starts[i] + scale[i] : border[3 - i] ? -border[3 - i] : INT64_MAX;
    int32_t axes = gale__rw_ints(&w, (const int64_t[]){2, 3}, 2);
    gale__rw_become(&w, "Slice", gale__rw_in(&w, 0), gale__rw_ints(&w, starts, 2), gale__rw_ints(&w, ends, 2), axes);
    gale__rw_drop_all(&w);
    return w.status;
}

ADAPT(old_slice)
{
    (void)net;
    *done = false;
    node->op = "Slice";
    return GALE_OK;
}

/* The shape of a filled tensor: of the attribute, of the input, or its values; and what is appended. */
static int32_t fill_shape(gale__onnx_rewrite *w)
{
    static const gale_attr first = GALE_INT("axis", 0), to = GALE_INT("to", 7 /* INT64 */);
    int n, n_extra;
    const int64_t *shape = gale__rw_list(w, "shape", &n), *extra = gale__rw_list(w, "extra_shape", &n_extra);
    int32_t x = gale__rw_in(w, 0), out;
    if (x < 0) out = gale__rw_ints(w, shape ? shape : &(int64_t){0}, n);
    else
        out = gale__onnx_net_attr_i(w->node, "input_as_shape", 0) ? gale__rw_with(w, "Cast", to, x)
                                                                  : gale__rw(w, "Shape", x);
    return extra && n_extra ? gale__rw_with(w, "Concat", first, out, gale__rw_ints(w, extra, n_extra)) : out;
}

ADAPT(old_fill)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int type = gale__onnx_type(gale__onnx_net_attr_i(node, "dtype", 1));
    *done = false;
    if (type < 0 || type == GALE_STRING)
        return gale__onnx_net_fail(node, GALE_UNSUPPORTED, "ConstantFill: unsupported element type %lld",
            (long long)gale__onnx_net_attr_i(node, "dtype", 1));
    return become(&w, "Expand", gale__rw_scalar(&w, (gale_type)type, gale__rw_float(&w, "value", 0)), fill_shape(&w));
}

ADAPT(old_given)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    const gale_attr *values = gale__onnx_net_attr(node, "values");
    *done = false;
    if (!values || values->kind != GALE_ATTR_FLOATS || values->count > 1 << 28)
        return gale__onnx_net_fail(node, GALE_FORMAT, "GivenTensorFill needs the attribute 'values'");
    return become(&w, "Reshape", gale__rw_floats(&w, values->floats, (int)values->count), fill_shape(&w));
}
