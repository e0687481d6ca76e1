/* Converts a model of halves to single precision, so that two forms of it can be compared without rounding hiding a
 * difference. */
#include "base/num.h"
#include "graph/run/tensor.h"
#include "onnx/edit/edit.h"
#include <string.h>

enum { F32 = 1, F16 = 10, BF16 = 16 };

static bool is_half(int64_t type) { return type == F16 || type == BF16; }

static gale_status widen_tensor(gale__onnx *file, gale__pb_tensor *t)
{
    gale_tensor *half = NULL;
    if (!is_half(t->data_type)) return GALE_OK;
    GALE_TRY(gale__onnx_tensor(file, t, &half));
    size_t n = (size_t)gale__tensor_elements(half);
    bool f16 = t->data_type == F16;
    uint16_t *from = gale__alloc(n * sizeof *from);
    float *to = gale__arena_alloc(gale__onnx_arena(file), n * sizeof *to);
    gale_status status = from && to ? gale_tensor_to_cpu(half, from, n * sizeof *from) : GALE_NO_MEMORY;
    for (size_t i = 0; i < n && status == GALE_OK; i++)
        to[i] = f16 ? gale__f16_to_f32(from[i]) : gale__bf16_to_f32(from[i]);
    gale__pb_tensor wide = {
        .head = t->head, .data_type = F32, .name = t->name, .raw_data = {(char *)to, n * sizeof *to}};
    wide.doc_string = t->doc_string;
    wide.dims.at = t->dims.at;
    wide.dims.n = t->dims.n;
    if (status == GALE_OK) *t = wide;
    gale__free(from);
    gale_tensor_destroy(&half);
    return status;
}

static gale_status widen_node(gale__onnx *file, gale__pb_node *n)
{
    for (size_t i = 0; i < n->attribute.n; i++) {
        gale__pb_attribute *a = &n->attribute.at[i];
        bool names_type = gale__pb_is(&a->name, "to") || gale__pb_is(&a->name, "dtype");
        if (names_type && is_half(a->i)) a->i = F32;
        if (a->t) GALE_TRY(widen_tensor(file, a->t));
    }
    return GALE_OK;
}

static void widen_infos(gale__pb_value_info *infos, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (infos[i].type && infos[i].type->tensor_type && is_half(infos[i].type->tensor_type->elem_type))
            infos[i].type->tensor_type->elem_type = F32;
}

gale_status gale__edit_widen(gale__onnx *file, gale__pb_graph *g)
{
    for (size_t i = 0; i < g->initializer.n; i++) GALE_TRY(widen_tensor(file, &g->initializer.at[i]));
    for (size_t i = 0; i < g->node.n; i++) GALE_TRY(widen_node(file, &g->node.at[i]));
    widen_infos(g->value_info.at, g->value_info.n);
    widen_infos(g->input.at, g->input.n);
    widen_infos(g->output.at, g->output.n);
    return GALE_OK;
}
