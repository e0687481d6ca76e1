/* Older operators that saw shapes otherwise: broadcasting from an axis on, softmax over everything behind an axis,
 * tiles along one axis, resizing before its coordinates were written down.  Where a rank is not known on reading, the
 * numbers come from Shape nodes. */
#include "onnx/import/adapt.h"
#include <math.h>
#include <string.h>

/* How many axes must follow those of B so that its first is at `axis` of A, as i64 [1]. */
static int32_t axes_behind(gale__onnx_rewrite *w, int32_t a, int32_t b, int64_t axis)
{
    int32_t left = gale__rw(w, "Sub", gale__rw_rank_of(w, a), gale__rw_rank_of(w, b));
    return axis >= 0 ? gale__rw(w, "Sub", left, gale__rw_int(w, axis))
                     : gale__rw(w, "Sub", gale__rw_int(w, -axis), gale__rw_rank_of(w, b));
}

/* Before opset 7 the second operand's axes are those of the first from `axis` on; without an axis the last ones. */
ADAPT(broadcast_axis)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    const gale_attr *at = gale__onnx_net_attr(node, "axis");
    int32_t a = gale__rw_in(&w, 0), b = gale__rw_in(&w, 1);
    int64_t axis = at && at->kind == GALE_ATTR_INT ? at->i : -1;
    bool broadcast = gale__onnx_net_attr_i(node, "broadcast", 0) && axis != -1 && b >= 0;
    int ra = gale__onnx_net_rank(net, a), rb = gale__onnx_net_rank(net, b);
    *done = false;
    gale__onnx_net_drop_attr(node, "axis");
    gale__onnx_net_drop_attr(node, "broadcast");
    if (!broadcast) return GALE_OK;
    if (axis < -GALE_MAX_RANK || axis > GALE_MAX_RANK)
        return gale__onnx_net_fail(node, GALE_FORMAT, "axis %lld is out of range", (long long)axis);
    if (ra >= 0 && rb >= 0) {
        int behind = ra - (int)(axis < 0 ? axis + ra : axis) - rb;
        if (behind < 0)
            return gale__onnx_net_fail(node, GALE_FORMAT,
                "the second operand has %d axes, which starting at axis %lld exceeds the first one's %d", rb,
                (long long)axis, ra);
        gale__rw_set_in(&w, 1, gale__rw_trail(&w, b, behind));
    } else {
        gale__rw_set_in(&w, 1, gale__rw_trail_by(&w, b, axes_behind(&w, a, b, axis)));
    }
    return w.status;
}

/* Before opset 7 a slope is one number, or one for each channel. */
ADAPT(slope_channels)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int32_t x = gale__rw_in(&w, 0), slope = gale__rw_in(&w, 1);
    int rank = gale__onnx_net_rank(net, x), rs = gale__onnx_net_rank(net, slope);
    *done = false;
    if (slope < 0 || (rs >= 0 && rs != 1)) return GALE_OK;
    if (rank >= 0 && rs == 1) gale__rw_set_in(&w, 1, gale__rw_trail(&w, slope, rank - 2));
    else
        gale__rw_set_in(
            &w, 1, gale__rw_trail_by(&w, slope, gale__rw(&w, "Sub", gale__rw_rank_of(&w, x), gale__rw_int(&w, 2))));
    return w.status;
}

/* Before opset 13 the softmax runs over all axes from `axis` on. */
ADAPT(softmax_flat)
{
    static const gale_attr last = GALE_INT("axis", -1), exact = GALE_INT("allowzero", 1);
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int32_t x = gale__rw_in(&w, 0);
    gale_attr axis = GALE_INT("axis", gale__onnx_net_attr_i(node, "axis", 1));
    int rank = gale__onnx_net_rank(net, x);
    *done = false;
    gale__rw_drop_all(&w);
    if (axis.i == -1 || (rank > 0 && axis.i == rank - 1)) {
        gale__rw_set(&w, last);
        return w.status;
    }
    int32_t flat = gale__rw_with(&w, node->op, last, gale__rw_with(&w, "Flatten", axis, x));
    gale__rw_become(&w, "Reshape", flat, gale__rw(&w, "Shape", x));
    gale__rw_set(&w, exact);
    return w.status;
}

static int32_t whole(gale__onnx_rewrite *w, int32_t x)
{
    static const gale_attr to = GALE_INT("to", 7 /* INT64 */);
    return gale__rw_with(w, "Cast", to, x);
}

static int32_t one_number(gale__onnx_rewrite *w, int32_t x) { return gale__rw(w, "Reshape", x, gale__rw_int(w, -1)); }

static int32_t no_axes(gale__onnx_rewrite *w, int32_t x)
{
    return gale__rw(w, "Reshape", x, gale__rw_ints(w, &(int64_t){0}, 0));
}

/* The first Tile repeats along one axis. */
ADAPT(tile_repeats)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = false;
    if (node->n_in != 3) return GALE_OK;
    int32_t x = gale__rw_in(&w, 0), count = no_axes(&w, gale__rw_rank_of(&w, x));
    int32_t places = gale__rw(&w, "Range", gale__rw_scalar(&w, GALE_I64, 0), count, gale__rw_scalar(&w, GALE_I64, 1));
    int32_t there = gale__rw(&w, "Equal", places, one_number(&w, whole(&w, gale__rw_in(&w, 2))));
    int32_t repeats = gale__rw(&w, "Where", there, one_number(&w, whole(&w, gale__rw_in(&w, 1))), gale__rw_int(&w, 1));
    gale__rw_become(&w, "Tile", x, repeats);
    return w.status;
}

/* Before opset 11 a negative index is outside. */
ADAPT(onehot_negative)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = false;
    if (node->n_in < 3) return GALE_OK;
    int32_t index = whole(&w, gale__rw_in(&w, 0)), depth = no_axes(&w, whole(&w, gale__rw_in(&w, 1)));
    int32_t below = gale__rw(&w, "Less", index, gale__rw_scalar(&w, GALE_I64, 0));
    gale__rw_set_in(&w, 0, gale__rw(&w, "Where", below, depth, index));
    return w.status;
}

/* --- Pools whose power was a real number. --- */

ADAPT(power_whole)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    double p = gale__rw_float(&w, "p", 2);
    *done = false;
    if (!(p > 0) || p > 1e6) return gale__onnx_net_fail(node, GALE_FORMAT, "invalid norm p = %g", p);
    bool plain = p == floor(p);
    gale__rw_set(&w, (gale_attr)GALE_INT("p", plain ? (int64_t)p : 1));
    if (plain || w.status != GALE_OK) return w.status;
    int32_t x = gale__rw(&w, "Abs", gale__rw_in(&w, 0));
    int32_t power = gale__rw(&w, "Pow", x, gale__rw_like(&w, p, x));
    int32_t sum = gale__rw_op(&w, node->op, node->attrs, node->n_attrs, &power, 1);
    gale__rw_become(&w, "Pow", sum, gale__rw_like(&w, 1 / p, sum));
    gale__rw_drop_all(&w);
    return w.status;
}

/* --- Resizing. --- */

ADAPT(upsample_sizes)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    double scales[4] = {1, 1, gale__rw_float(&w, "height_scale", 1), gale__rw_float(&w, "width_scale", 1)};
    *done = false;
    if (strcmp(gale__rw_text(&w, "mode", ""), "bilinear") == 0)
        gale__rw_set(&w, (gale_attr)GALE_STRING_ATTR("mode", "linear"));
    if (gale__onnx_net_attr(node, "scales")) return w.status;
    gale__rw_set_in(&w, 1, gale__rw_floats(&w, scales, 4));
    gale__onnx_net_drop_attr(node, "height_scale");
    gale__onnx_net_drop_attr(node, "width_scale");
    return w.status;
}

ADAPT(upsample_input)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    const gale_attr *scales = gale__onnx_net_attr(node, "scales");
    *done = false;
    if (!scales) return GALE_OK;
    if (scales->kind != GALE_ATTR_FLOATS || scales->count > GALE_MAX_RANK)
        return gale__onnx_net_fail(node, GALE_FORMAT, "attribute 'scales' must be a list of numbers");
    gale__rw_set_in(&w, 1, gale__rw_floats(&w, scales->floats, (int)scales->count));
    gale__onnx_net_drop_attr(node, "scales");
    return w.status;
}

/* Resize of opset 10 reads at i / scale; the nearest element is the one below where an axis grows, the one above where
 * it shrinks.  So it is two steps, of which at most one does something on an axis. */
ADAPT(resize_asymmetric)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    gale_attr attrs[] = {GALE_STRING_ATTR("coordinate_transformation_mode", "asymmetric"),
        GALE_STRING_ATTR("mode", gale__rw_text(&w, "mode", "nearest")), GALE_STRING_ATTR("nearest_mode", "floor")};
    int32_t x = gale__rw_in(&w, 0), scales = gale__rw_in(&w, 1);
    *done = false;
    gale__rw_drop_all(&w);
    if (strcmp(attrs[1].s, "nearest") == 0) {
        int32_t one = gale__rw_floats(&w, &(double){1}, 1);
        int32_t in[] = {x, -1, gale__rw(&w, "Max", scales, one)};
        x = gale__rw_op(&w, "Resize", attrs, 3, in, 3);
        scales = gale__rw(&w, "Min", scales, one);
        attrs[2].s = "ceil";
    }
    for (int i = 0; i < 3; i++) gale__rw_set(&w, attrs[i]);
    gale__rw_become(&w, "Resize", x, -1, scales);
    return w.status;
}

/* Before opset 13 an input that is not wanted is an empty one. */
ADAPT(resize_optional)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = false;
    for (int i = 1; i < node->n_in; i++) {
        const gale__onnx_net_value *v = node->in[i] >= 0 ? &net->values[node->in[i]] : NULL;
        if (v && v->rank == 1 && v->dims[0] == 0) gale__rw_set_in(&w, i, -1);
    }
    return w.status;
}
