/* Opset versions: applies versions.def, and the changes that concern names, defaults, or attributes that became
 * inputs. */
#include "onnx/import/adapt.h"
#include <ctype.h>
#include <string.h>

static const struct step {
    const char *op;
    int before;
    gale__onnx_rewriter *run;
} steps[] = {
#define X(Operator, V, function) {#Operator, V, gale__onnx_adapt_##function},
#include "onnx/import/versions.def"
#undef X
};

static bool standard(const gale__onnx_net_node *node)
{
    return !node->domain || !node->domain[0] || strcmp(node->domain, "ai.onnx") == 0 ||
           strcmp(node->domain, "ai.onnx.ml") == 0;
}

gale_status gale__onnx_adapt(gale__onnx_net *net, gale__onnx_net_node *node, bool *done)
{
    *done = false;
    if (!standard(node)) return GALE_OK;
    bool ml = node->domain && !strcmp(node->domain, "ai.onnx.ml");
    int most = net->opset && !ml ? net->opset : GALE__EVERY;
    if (node->opset < 7) gale__onnx_net_drop_attr(node, "consumed_inputs"); /* said where memory could be used again */
    for (size_t i = 0; i < sizeof steps / sizeof *steps && !*done; i++) {
        if (steps[i].before > most && steps[i].before != GALE__EVERY) continue;
        if (node->opset >= steps[i].before || steps[i].op[0] != node->op[0] || strcmp(steps[i].op, node->op)) continue;
        GALE_TRY(steps[i].run(net, node, done));
    }
    if (!*done) gale__onnx_net_learn(net, node);
    return GALE_OK;
}

/* --- Attributes that became inputs. --- */

/* Whole numbers of attribute `name` as input `index`; an empty list is none. */
static void list_input(gale__onnx_rewrite *w, const char *name, int index)
{
    int n;
    const int64_t *values = gale__rw_list(w, name, &n);
    if (values && n) gale__rw_set_in(w, index, gale__rw_ints(w, values, n));
    gale__onnx_net_drop_attr(w->node, name);
}

ADAPT(axes_input)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = false;
    list_input(&w, "axes", 1);
    return w.status;
}

ADAPT(reshape_input)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int n;
    const int64_t *shape = gale__rw_list(&w, "shape", &n);
    *done = false;
    if (!shape && node->n_in < 2)
        return gale__onnx_net_fail(node, GALE_FORMAT, "Reshape of opset %d needs the attribute 'shape'", node->opset);
    if (shape) gale__rw_set_in(&w, 1, gale__rw_ints(&w, shape, n));
    gale__onnx_net_drop_attr(node, "shape");
    return w.status;
}

ADAPT(slice_inputs)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int n_starts, n_ends;
    *done = false;
    if (!gale__rw_list(&w, "starts", &n_starts) || !gale__rw_list(&w, "ends", &n_ends) || n_starts != n_ends)
        return gale__onnx_net_fail(node, GALE_FORMAT,
            "Slice of opset %d needs the attributes 'starts' and 'ends', of equal length", node->opset);
    list_input(&w, "starts", 1);
    list_input(&w, "ends", 2);
    list_input(&w, "axes", 3);
    if (node->n_in < 3) gale__rw_become(&w, "Identity", gale__rw_in(&w, 0)); /* no axis is cut */
    return w.status;
}

ADAPT(split_input)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = false;
    list_input(&w, "split", 1);
    return w.status;
}

/* Parts of equal size, as many as the file names results, also such as nobody reads. */
ADAPT(split_count)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = false;
    if (gale__rw_in(&w, 1) < 0) gale__rw_set(&w, (gale_attr)GALE_INT("num_outputs", (int64_t)node->from->output.n));
    return w.status;
}

ADAPT(topk_input)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    const gale_attr *k = gale__onnx_net_attr(node, "k");
    *done = false;
    if (!k || k->kind != GALE_ATTR_INT)
        return gale__onnx_net_fail(node, GALE_FORMAT, "TopK of opset %d needs the attribute 'k'", node->opset);
    gale__rw_set_in(&w, 1, gale__rw_int(&w, k->i));
    gale__onnx_net_drop_attr(node, "k");
    return w.status;
}

ADAPT(dft_axis)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = false;
    gale__rw_set_in(&w, 2, gale__rw_scalar(&w, GALE_I64, (double)gale__onnx_net_attr_i(node, "axis", 1)));
    gale__onnx_net_drop_attr(node, "axis");
    return w.status;
}

ADAPT(clip_inputs)
{
    static const char *const names[] = {"min", "max"};
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = false;
    for (int i = 0; i < 2; i++) {
        /* From opset 6 on the limits have values when they are not given. */
        bool limited = node->opset >= 6 || gale__onnx_net_attr(node, names[i]);
        if (limited)
            gale__rw_set_in(&w, 1 + i,
                gale__rw_like(
                    &w, gale__rw_float(&w, names[i], i ? 3.402823466e+38 : -3.402823466e+38), gale__rw_in(&w, 0)));
        gale__onnx_net_drop_attr(node, names[i]);
    }
    return w.status;
}

ADAPT(pad_names)
{
    const gale_attr *paddings = gale__onnx_net_attr(node, "paddings");
    *done = false;
    if (!paddings) return GALE_OK;
    gale_attr pads = *paddings;
    pads.name = "pads";
    gale__onnx_net_drop_attr(node, "paddings");
    return gale__onnx_net_set_attr(net, node, pads);
}

ADAPT(pad_inputs)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    double value = gale__rw_float(&w, "value", 0);
    *done = false;
    if (!gale__onnx_net_attr(node, "pads"))
        return gale__onnx_net_fail(node, GALE_FORMAT, "Pad of opset %d needs the attribute 'pads'", node->opset);
    list_input(&w, "pads", 1);
    if (node->n_in < 2) gale__rw_become(&w, "Identity", gale__rw_in(&w, 0)); /* rank 0 */
    else if (value != 0) gale__rw_set_in(&w, 2, gale__rw_like(&w, value, gale__rw_in(&w, 0)));
    gale__onnx_net_drop_attr(node, "value");
    return w.status;
}

/* --- Names and defaults. --- */

ADAPT(direction_typo)
{
    const gale_attr *direction = gale__onnx_net_attr(node, "direction");
    (void)net;
    *done = false;
    if (direction && direction->s && strcmp(direction->s, "foward") == 0) gale__onnx_net_drop_attr(node, "direction");
    return GALE_OK;
}

ADAPT(concat_axis)
{
    *done = false;
    return gale__onnx_net_attr(node, "axis") ? GALE_OK
                                             : gale__onnx_net_set_attr(net, node, (gale_attr)GALE_INT("axis", 1));
}

ADAPT(cast_name)
{
    static const char *const names[] = {"UNDEFINED", "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64",
        "STRING", "BOOL", "FLOAT16", "DOUBLE", "UINT32", "UINT64"};
    const gale_attr *to = gale__onnx_net_attr(node, "to");
    *done = false;
    if (!to || to->kind != GALE_ATTR_STRING) return GALE_OK;
    for (int i = 1; i < (int)(sizeof names / sizeof *names); i++) {
        const char *a = names[i], *b = to->s;
        while (*a && toupper((unsigned char)*b) == *a) a++, b++;
        if (!*a && !*b) return gale__onnx_net_set_attr(net, node, (gale_attr)GALE_INT("to", i));
    }
    return gale__onnx_net_fail(node, GALE_FORMAT, "Cast of opset %d: unknown element type '%s'", node->opset, to->s);
}

ADAPT(selu_defaults)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = false;
    if (!gale__onnx_net_attr(node, "alpha")) gale__rw_set(&w, (gale_attr)GALE_FLOAT("alpha", 1.6732f));
    if (!gale__onnx_net_attr(node, "gamma")) gale__rw_set(&w, (gale_attr)GALE_FLOAT("gamma", 1.0507f));
    return w.status;
}

ADAPT(drop_broadcast)
{
    (void)net;
    *done = false;
    gale__onnx_net_drop_attr(node, "broadcast");
    return GALE_OK;
}

ADAPT(drop_output_sequence)
{
    (void)net;
    *done = false;
    gale__onnx_net_drop_attr(node, "output_sequence"); /* whether the first result is there says as much */
    return GALE_OK;
}

ADAPT(scatter_name)
{
    (void)net;
    *done = false;
    node->op = "ScatterElements";
    return GALE_OK;
}

ADAPT(roi_corners)
{
    *done = false;
    return gale__onnx_net_set_attr(
        net, node, (gale_attr)GALE_STRING_ATTR("coordinate_transformation_mode", "output_half_pixel"));
}

ADAPT(grid_modes)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    const char *mode = gale__rw_text(&w, "mode", "bilinear");
    *done = false;
    if (strcmp(mode, "bilinear") == 0) gale__rw_set(&w, (gale_attr)GALE_STRING_ATTR("mode", "linear"));
    if (strcmp(mode, "bicubic") == 0) gale__rw_set(&w, (gale_attr)GALE_STRING_ATTR("mode", "cubic"));
    return w.status;
}

/* The first LabelEncoder had one list: names to their places, or places to names. */
ADAPT(label_encoder)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    const gale_attr *classes = gale__onnx_net_attr(node, "classes_strings");
    *done = false;
    if (!classes || classes->kind != GALE_ATTR_STRINGS) return GALE_OK;
    int64_t *places = gale__arena_alloc(net->arena, (classes->count ? classes->count : 1) * sizeof *places);
    if (!places) return GALE_NO_MEMORY;
    for (size_t i = 0; i < classes->count; i++) places[i] = (int64_t)i;
    bool names = node->n_in > 0 && node->in[0] >= 0 && net->values[node->in[0]].kind == GALE__KIND_STRINGS;
    gale_attr texts = *classes, numbers = GALE_INTS(names ? "values_int64s" : "keys_int64s", places, classes->count);
    texts.name = names ? "keys_strings" : "values_strings";
    gale__rw_set(&w, texts);
    gale__rw_set(&w, numbers);
    gale__onnx_net_drop_attr(node, "classes_strings");
    return w.status;
}
