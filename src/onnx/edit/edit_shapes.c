/* Extents of inputs: fixes open ones and opens fixed ones. */
#include "onnx/edit/edit.h"
#include "onnx/wire/schema.h"
#include <stdlib.h>
#include <string.h>

static void fix(gale__pb_dim *d, int64_t value)
{
    d->dim_value = value;
    d->has_value = true;
    d->dim_param = (gale__pb_text){0};
    d->head.present = 0; /* what is set is written */
}

/* Wherever the symbol stands, bodies included. */
static size_t pin_all(gale__pb_which which, void *message, const char *name, size_t size, int64_t value)
{
    const gale__pb_table *t = &gale__pb_tables[which];
    size_t found = 0;
    if (which == GALE__PB_IS_dim) {
        gale__pb_dim *d = message;
        if (d->has_value || d->dim_param.size != size || memcmp(d->dim_param.at, name, size)) return 0;
        fix(d, value);
        return 1;
    }
    for (int i = 0; i < t->n_fields; i++) {
        const gale__pb_field *f = &t->fields[i];
        gale__pb_list l = {NULL, 1};
        if (f->kind != GALE__PB_MESSAGE) continue;
        memcpy(&l, (char *)message + f->offset, f->list ? sizeof l : sizeof l.at);
        for (size_t k = 0; l.at && k < l.n; k++)
            found += pin_all(f->message, (char *)l.at + k * gale__pb_item_bytes(f), name, size, value);
    }
    return found;
}

static gale__pb_shape *shape_of(gale__pb_value_info *info)
{
    return info->type && info->type->tensor_type ? info->type->tensor_type->shape : NULL;
}

/* "NAME" or "NAME:AXIS", where a name may have colons of its own.  axis -1: all. */
static gale_status find_input(gale__pb_graph *g, const char *text, gale__pb_value_info **out, int64_t *axis)
{
    const char *colon = strrchr(text, ':');
    for (size_t i = 0; i < g->input.n; i++) {
        gale__pb_value_info *info = &g->input.at[i];
        size_t n = info->name.size;
        if (strncmp(text, info->name.at, n) || (text[n] && (text + n != colon || !gale__text_to_i64(colon + 1, axis))))
            continue;
        if (!text[n]) *axis = -1;
        if (!shape_of(info))
            return gale__fail(GALE_INVALID, "input '%s' has no extents: its shape is already open", info->name.at);
        if (*axis >= (int64_t)shape_of(info)->dim.n || *axis < -1)
            return gale__fail(GALE_INVALID, "input '%s' has %zu axes, so no axis %lld", info->name.at,
                shape_of(info)->dim.n, (long long)*axis);
        *out = info;
        return GALE_OK;
    }
    return gale__fail(GALE_NOT_FOUND, "no extent or input named '%s'", text);
}

gale_status gale__edit_pin(gale__onnx *file, gale__pb_model *model, const char *name, int64_t value)
{
    gale__pb_value_info *info = NULL;
    int64_t axis = -1;
    (void)file;
    if (value < 0) return gale__fail(GALE_INVALID, "%lld is not a valid extent", (long long)value);
    if (pin_all(GALE__PB_IS_model, model, name, strlen(name), value)) return GALE_OK;
    if (!model->graph) return gale__fail(GALE_INVALID, "the model has no graph");
    GALE_TRY(find_input(model->graph, name, &info, &axis));
    if (axis < 0) return gale__fail(GALE_INVALID, "'%s' is an input; name an axis too, as in %s:0", name, name);
    fix(&shape_of(info)->dim.at[axis], value);
    return GALE_OK;
}

/* What was said of a shape behind the inputs may no longer hold; the number of axes does. */
static void forget(gale__pb_shape *shape)
{
    for (size_t i = 0; shape && i < shape->dim.n; i++)
        if (shape->dim.at[i].has_value) shape->dim.at[i] = (gale__pb_dim){.denotation = shape->dim.at[i].denotation};
}

gale_status gale__edit_free(gale__onnx *file, gale__pb_model *model, const char *what)
{
    gale__pb_value_info *info = NULL;
    int64_t axis = -1;
    if (!model->graph) return gale__fail(GALE_INVALID, "the model has no graph");
    GALE_TRY(find_input(model->graph, what, &info, &axis));
    gale__pb_shape *shape = shape_of(info);
    for (size_t i = 0; i < shape->dim.n; i++) {
        if ((axis >= 0 && (int64_t)i != axis) || !shape->dim.at[i].has_value) continue;
        char *symbol = gale__arena_printf(gale__onnx_arena(file), "%s_%zu", info->name.at, i);
        if (!symbol) return GALE_NO_MEMORY;
        shape->dim.at[i] =
            (gale__pb_dim){.dim_param = {symbol, strlen(symbol)}, .denotation = shape->dim.at[i].denotation};
    }
    for (size_t i = 0; i < model->graph->output.n; i++) forget(shape_of(&model->graph->output.at[i]));
    model->graph->value_info.n = 0;
    return GALE_OK;
}
