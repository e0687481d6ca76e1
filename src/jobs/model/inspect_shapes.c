/* Types and shapes of all values of a model, with symbols for what its inputs leave open. */
#include "jobs/model/inspect.h"
#include "onnx/import/infer.h"
#include <string.h>

static gale_status describe_extent(gale__arena *arena, const gale__onnx_extent *from, gale_inspect_extent *to)
{
    gale__str text = {0};
    to->known = from->known;
    to->value = from->plus;
    if (!from->known || !from->n_names) return GALE_OK;
    gale__onnx_extent_text(from, &text);
    to->symbol = gale__arena_take(arena, &text);
    return to->symbol ? GALE_OK : GALE_NO_MEMORY;
}

static gale_status describe(
    gale__arena *arena, const gale__onnx_net_value *v, const gale__onnx_inferred *shape, gale_inspect_value *to)
{
    gale__str text = {0};
    to->name = gale__arena_strdup(arena, v->name);
    gale__onnx_inferred_text(shape, &text);
    to->type = gale__arena_take(arena, &text);
    if (!to->name || !to->type) return GALE_NO_MEMORY;
    if (!shape->known) return GALE_OK;
    to->element = gale_type_name(shape->type);
    to->has_shape = true;
    to->rank = shape->rank;
    gale_inspect_extent *dims = gale__arena_alloc(arena, ((size_t)shape->rank + 1) * sizeof *dims);
    if (!dims) return GALE_NO_MEMORY;
    to->dims = dims;
    for (int i = 0; i < shape->rank; i++) GALE_TRY(describe_extent(arena, &shape->dims[i], &dims[i]));
    return GALE_OK;
}

gale_status gale__inspect_shapes(gale__onnx *file, gale_inspect_result *result)
{
    gale__arena *arena = gale__result_arena(result);
    gale_inspect_value *values = NULL;
    gale__onnx_net *net = NULL;
    GALE_TRY(gale__onnx_net_import(file, &net));
    gale__onnx_inferred *shapes = gale__calloc((size_t)net->n_values + 1, sizeof *shapes);
    gale_status status = shapes ? gale__onnx_net_infer(net, shapes) : GALE_NO_MEMORY;
    for (int i = 0; i < net->n_values && status == GALE_OK; i++) {
        if (!*net->values[i].name || net->values[i].constant) continue;
        gale_inspect_value *to = gale__arena_add(arena, &values, &result->n_values, sizeof *to);
        status = to ? describe(arena, &net->values[i], &shapes[i], to) : GALE_NO_MEMORY;
    }
    result->values = values;
    result->has_values = true;
    gale__free(shapes);
    gale__onnx_net_destroy(&net);
    return status;
}
