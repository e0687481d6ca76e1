/* Shared by several conversions: collects constants among the initialisers. */
#include "onnx/edit/edit.h"
#include "onnx/import/import.h"
#include <string.h>

bool gale__pb_has_value(const gale__pb_graph *g, const gale__pb_text *name)
{
    for (size_t i = 0; i < g->initializer.n; i++)
        if (gale__pb_text_equal(&g->initializer.at[i].name, name)) return true;
    for (size_t i = 0; i < g->sparse_initializer.n; i++)
        if (g->sparse_initializer.at[i].values && gale__pb_text_equal(&g->sparse_initializer.at[i].values->name, name))
            return true;
    return false;
}

void gale__edit_drop_formal_inputs(gale__pb_model *model)
{
    gale__pb_graph *g = model->graph;
    size_t n = 0;
    for (size_t i = 0; i < g->input.n; i++)
        if (!gale__pb_has_value(g, &g->input.at[i].name)) g->input.at[n++] = g->input.at[i];
    g->input.n = n;
    if (model->ir_version < 4) model->ir_version = 4; /* which lets initialisers be no inputs */
}

/* The tensor that a Constant node stands for, borrowing its numbers; false when it is none, or strings, or sparse. */
static bool constant_of(gale__arena *arena, const gale__pb_node *node, gale__pb_tensor *out)
{
    const gale__pb_attribute *a = node->attribute.n == 1 ? &node->attribute.at[0] : NULL;
    if (!gale__pb_is_core(&node->domain) || !gale__pb_is(&node->op_type, "Constant") || node->output.n != 1 || !a ||
        a->ref_attr_name.size)
        return false;
    if (gale__pb_is(&a->name, "value") && a->t) {
        *out = *a->t;
    } else {
        bool ints = gale__pb_is(&a->name, "value_ints"), floats = gale__pb_is(&a->name, "value_floats"),
             real = floats || gale__pb_is(&a->name, "value_float");
        if (!ints && !real && !gale__pb_is(&a->name, "value_int")) return false;
        *out = (gale__pb_tensor){.data_type = real ? 1 : 7};
        out->int64_data.at = ints ? a->ints.at : (int64_t *)&a->i;
        out->int64_data.n = real ? 0 : ints ? a->ints.n : 1;
        out->float_data.at = floats ? a->floats.at : (float *)&a->f;
        out->float_data.n = !real ? 0 : floats ? a->floats.n : 1;
        if (ints || floats) {
            if (!(out->dims.at = gale__arena_alloc(arena, sizeof *out->dims.at))) return false;
            *out->dims.at = (int64_t)(ints ? a->ints.n : a->floats.n);
            out->dims.n = 1;
        }
    }
    out->name = node->output.at[0];
    out->head.present |= 1u << 7; /* the name */
    return true;
}

gale_status gale__edit_order(gale__onnx *file, gale__pb_graph *g)
{
    uint32_t *order = NULL;
    GALE_TRY(gale__onnx_import_order(g->node.at, g->node.n, &order));
    if (!order) return GALE_OK;
    gale__pb_node *sorted = gale__arena_alloc(gale__onnx_arena(file), g->node.n * sizeof *sorted);
    for (size_t i = 0; sorted && i < g->node.n; i++) sorted[i] = g->node.at[order[i]];
    gale__free(order);
    if (!sorted) return GALE_NO_MEMORY;
    g->node.at = sorted;
    return GALE_OK;
}

gale_status gale__edit_hoist_constants(gale__onnx *file, gale__pb_graph *g)
{
    size_t kept = 0, n = g->initializer.n;
    gale__arena *arena = gale__onnx_arena(file);
    gale__pb_tensor *list = gale__arena_alloc(arena, (n + g->node.n) * sizeof *list);
    if (!list) return GALE_NO_MEMORY;
    GALE_TRY(gale__edit_order(file, g));
    if (n) memcpy(list, g->initializer.at, n * sizeof *list);
    for (size_t i = 0; i < g->node.n; i++) {
        if (constant_of(arena, &g->node.at[i], &list[n])) n++;
        else g->node.at[kept++] = g->node.at[i];
    }
    g->node.n = kept;
    g->initializer.at = list;
    g->initializer.n = n;
    return GALE_OK;
}

gale_status gale__edit_add_initializers(gale__onnx *file, gale__pb_graph *g, const gale__pb_tensor *tensors, size_t n)
{
    gale__pb_tensor *list = gale__arena_alloc(gale__onnx_arena(file), (g->initializer.n + n) * sizeof *list);
    if (!list) return GALE_NO_MEMORY;
    if (g->initializer.n) memcpy(list, g->initializer.at, g->initializer.n * sizeof *list);
    if (n) memcpy(list + g->initializer.n, tensors, n * sizeof *list);
    g->initializer.at = list;
    g->initializer.n += n;
    return GALE_OK;
}
