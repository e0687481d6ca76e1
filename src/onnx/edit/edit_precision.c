/* A model in half precision.  Every f32 value may exist twice: under its own name as f32, and under another as half.
 * An operator that supports half reads and produces halves; any other stays in f32; and a Cast converts wherever the
 * two meet.  So inputs, outputs, bodies and operators of other domains are not affected. */
#include "base/num.h"
#include "graph/run/tensor.h"
#include "onnx/edit/edit.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { F32 = 1 };
typedef struct value {
    gale__pb_text name, half;
    bool made_half, wants_half, wants_f32;
} value;
typedef struct change {
    gale__onnx *file;
    gale__arena *arena;
    gale__pb_graph *g;
    gale_type type;
    int64_t opset;
    gale__onnx_names types, index;
    bool *keeps;   /* of each node: it stays as it is, since it carries sums of integers */
    value *values; /* those of f32 */
    size_t n_values, capacity;
    gale__pb_node *nodes;
    size_t n_nodes, node_capacity;
} change;

static const struct {
    const char *op;
    int16_t since[2];
    int8_t results;
} halves[] = {
#define X(op, f16, bf16, results) {#op, {f16, bf16}, results},
#include "half.def"
#undef X
};

/* --- Who computes in half. --- */

static bool takes_half(const change *c, const gale__pb_node *n)
{
    bool any = false;
    size_t results = 0;
    if (!n->op_type.size || !gale__pb_is_core(&n->domain) || c->keeps[n - c->g->node.at]) return false;
    for (size_t i = 0; i < n->attribute.n; i++)
        if (n->attribute.at[i].g || n->attribute.at[i].graphs.n) return false;
    for (size_t i = 0; i < n->input.n; i++) {
        int type = gale__edit_type_of(&c->types, &n->input.at[i]);
        if (n->input.at[i].size && !type) return false;
        any = any || type == F32;
    }
    for (size_t i = 0; i < n->output.n; i++)
        if (n->output.at[i].size) {
            if (!gale__edit_type_of(&c->types, &n->output.at[i])) return false;
            results = i + 1;
        }
    for (size_t i = 0; any && i < sizeof halves / sizeof *halves; i++) {
        if (strcmp(halves[i].op, n->op_type.at)) continue;
        int since = halves[i].since[c->type == GALE_BF16];
        return since && c->opset >= since && results <= (size_t)halves[i].results;
    }
    return false;
}

/* The value's row; NULL when it is not of f32. */
static value *find(const change *c, const gale__pb_text *name)
{
    int32_t i = name->size ? gale__onnx_names_find(&c->index, name->at, name->size) : -1;
    return i < 0 ? NULL : &c->values[i];
}

static gale_status add_value(change *c, const gale__pb_text *name)
{
    if (gale__edit_type_of(&c->types, name) != F32 || find(c, name)) return GALE_OK;
    GALE_TRY(gale__grow((void **)&c->values, &c->capacity, c->n_values + 1, sizeof *c->values));
    c->values[c->n_values] = (value){.name = *name};
    return gale__onnx_names_set(&c->index, name->at, name->size, (int32_t)c->n_values++);
}

static gale_status add_values(change *c)
{
    for (size_t i = 0; i < c->g->input.n; i++) GALE_TRY(add_value(c, &c->g->input.at[i].name));
    for (size_t i = 0; i < c->g->initializer.n; i++) GALE_TRY(add_value(c, &c->g->initializer.at[i].name));
    for (size_t i = 0; i < c->g->sparse_initializer.n; i++)
        if (c->g->sparse_initializer.at[i].values) GALE_TRY(add_value(c, &c->g->sparse_initializer.at[i].values->name));
    for (size_t i = 0; i < c->g->node.n; i++)
        for (size_t k = 0; k < c->g->node.at[i].output.n; k++) GALE_TRY(add_value(c, &c->g->node.at[i].output.at[k]));
    return GALE_OK;
}

static gale_status want_f32(void *user, const gale__pb_text *name)
{
    value *v = find(user, name);
    if (v) v->wants_f32 = true;
    return GALE_OK;
}

static gale_status decide(change *c)
{
    for (size_t i = 0; i < c->g->node.n; i++) {
        const gale__pb_node *n = &c->g->node.at[i];
        bool half = takes_half(c, n);
        for (size_t k = 0; k < n->input.n; k++) {
            value *v = find(c, &n->input.at[k]);
            if (v) *(half ? &v->wants_half : &v->wants_f32) = true;
        }
        for (size_t k = 0; k < n->output.n; k++) {
            value *v = find(c, &n->output.at[k]);
            if (v) v->made_half = half;
        }
        GALE_TRY(gale__edit_body_names(n, want_f32, c));
    }
    for (size_t i = 0; i < c->g->output.n; i++) GALE_TRY(want_f32(c, &c->g->output.at[i].name));
    return GALE_OK;
}

/* The name as a half: one that nobody has. */
static gale_status name_halves(change *c)
{
    for (size_t i = 0; i < c->n_values; i++) {
        value *v = &c->values[i];
        char *name = gale__arena_printf(c->arena, "%s_%s", v->name.at, gale_type_name(c->type));
        while (name && gale__onnx_names_find(&c->types, name, strlen(name)) >= 0)
            name = gale__arena_printf(c->arena, "%s_", name);
        if (!name) return GALE_NO_MEMORY;
        v->half = (gale__pb_text){name, strlen(name)};
    }
    return GALE_OK;
}

/* --- The new graph. --- */

static gale_status push(change *c, const gale__pb_node *n)
{
    GALE_TRY(gale__grow((void **)&c->nodes, &c->node_capacity, c->n_nodes + 1, sizeof *c->nodes));
    c->nodes[c->n_nodes++] = *n;
    return GALE_OK;
}

static gale_status push_cast(change *c, const gale__pb_text *from, const gale__pb_text *to, gale_type type)
{
    gale__pb_node n = {.op_type = {"Cast", 4}};
    char *name = gale__arena_printf(c->arena, "Cast_%s", to->at);
    n.input.at = gale__arena_copy(c->arena, from, sizeof *from);
    n.output.at = gale__arena_copy(c->arena, to, sizeof *to);
    n.attribute.at = gale__arena_alloc(c->arena, sizeof *n.attribute.at);
    if (!name || !n.input.at || !n.output.at || !n.attribute.at) return GALE_NO_MEMORY;
    n.name = (gale__pb_text){name, strlen(name)};
    n.input.n = n.output.n = n.attribute.n = 1;
    *n.attribute.at = (gale__pb_attribute){.name = {"to", 2}, .type = GALE__PB_INT, .i = gale__onnx_type_number(type)};
    return push(c, &n);
}

static gale_status rename_list(change *c, gale__pb_text **names, size_t n)
{
    gale__pb_text *copy = gale__arena_copy(c->arena, *names, n * sizeof **names);
    if (!copy) return GALE_NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const value *v = find(c, &copy[i]);
        if (v) copy[i] = v->half;
    }
    *names = copy;
    return GALE_OK;
}

static gale_status rewrite_node(change *c, const gale__pb_node *from)
{
    gale__pb_node n = *from;
    if (takes_half(c, from)) {
        GALE_TRY(rename_list(c, &n.input.at, n.input.n));
        GALE_TRY(rename_list(c, &n.output.at, n.output.n));
    }
    GALE_TRY(push(c, &n));
    for (size_t i = 0; i < from->output.n; i++) {
        const value *v = find(c, &from->output.at[i]);
        if (v && v->made_half && v->wants_f32) GALE_TRY(push_cast(c, &v->half, &v->name, GALE_F32));
        if (v && !v->made_half && v->wants_half) GALE_TRY(push_cast(c, &v->name, &v->half, c->type));
    }
    return GALE_OK;
}

/* Rounds to nearest; what is finite stays finite. */
static uint16_t to_half(gale_type type, float x)
{
    float most = (float)gale__type_max(type);
    if (isfinite(x)) x = x > most ? most : x < -most ? -most : x;
    return type == GALE_F16 ? gale__f32_to_f16(x) : gale__f32_to_bf16(x);
}

static gale_status convert_tensor(
    change *c, const gale__pb_tensor *from, const gale__pb_text *name, gale__pb_tensor *to)
{
    gale_tensor *t = NULL;
    GALE_TRY(gale__onnx_tensor(c->file, from, &t));
    size_t n = (size_t)gale__tensor_elements(t);
    float *whole = gale__alloc(n * sizeof *whole);
    uint16_t *half = gale__arena_alloc(c->arena, n * sizeof *half);
    gale_status status = whole && half ? gale_tensor_to_cpu(t, whole, n * sizeof *whole) : GALE_NO_MEMORY;
    for (size_t i = 0; i < n && status == GALE_OK; i++) half[i] = to_half(c->type, whole[i]);
    *to = (gale__pb_tensor){.data_type = gale__onnx_type_number(c->type),
        .name = *name,
        .doc_string = from->doc_string,
        .raw_data = {(char *)half, n * sizeof *half}};
    to->dims.at = from->dims.at;
    to->dims.n = from->dims.n;
    gale__free(whole);
    gale_tensor_destroy(&t);
    return status;
}

static bool is_input(const change *c, const gale__pb_text *name)
{
    for (size_t i = 0; i < c->g->input.n; i++)
        if (gale__pb_text_equal(&c->g->input.at[i].name, name)) return true;
    return false;
}

/* Weights are converted here and not by a Cast; the f32 stays when somebody wants it. */
static gale_status convert_weights(change *c)
{
    gale__pb_graph *g = c->g;
    gale__pb_tensor *list = gale__arena_alloc(c->arena, 2 * g->initializer.n * sizeof *list);
    size_t n = 0;
    if (!list) return GALE_NO_MEMORY;
    for (size_t i = 0; i < g->initializer.n; i++) {
        const value *v = find(c, &g->initializer.at[i].name);
        bool fixed = v && !is_input(c, &v->name);
        if (!fixed || v->wants_f32 || !v->wants_half) list[n++] = g->initializer.at[i];
        if (fixed && v->wants_half) GALE_TRY(convert_tensor(c, &g->initializer.at[i], &v->half, &list[n++]));
    }
    g->initializer.at = list;
    g->initializer.n = n;
    for (size_t i = 0; i < g->sparse_initializer.n; i++) {
        const value *v = g->sparse_initializer.at[i].values ? find(c, &g->sparse_initializer.at[i].values->name) : NULL;
        if (v && v->wants_half) GALE_TRY(push_cast(c, &v->name, &v->half, c->type));
    }
    return GALE_OK;
}

/* What the file says of values between goes over to the halves that took their place. */
static gale_status rename_infos(change *c)
{
    for (size_t i = 0; i < c->g->value_info.n; i++) {
        gale__pb_value_info *info = &c->g->value_info.at[i];
        const value *v = find(c, &info->name);
        if (!v || !v->made_half || v->wants_f32 || !info->type || !info->type->tensor_type) continue;
        gale__pb_type *type = gale__arena_copy(c->arena, info->type, sizeof *type);
        if (type) type->tensor_type = gale__arena_copy(c->arena, type->tensor_type, sizeof *type->tensor_type);
        if (!type || !type->tensor_type) return GALE_NO_MEMORY;
        type->tensor_type->elem_type = gale__onnx_type_number(c->type);
        info->type = type;
        info->name = v->half;
    }
    return GALE_OK;
}

static gale_status rewrite(change *c)
{
    GALE_TRY(gale__edit_types(c->g, &c->types));
    if (!(c->keeps = gale__calloc(c->g->node.n + 1, sizeof *c->keeps))) return GALE_NO_MEMORY;
    GALE_TRY(gale__edit_find_sums(c->g, &c->types, c->keeps));
    GALE_TRY(add_values(c));
    GALE_TRY(decide(c));
    GALE_TRY(name_halves(c));
    for (size_t i = 0; i < c->g->input.n; i++) {
        const value *v = find(c, &c->g->input.at[i].name);
        if (v && v->wants_half) GALE_TRY(push_cast(c, &v->name, &v->half, c->type));
    }
    GALE_TRY(convert_weights(c));
    for (size_t i = 0; i < c->g->node.n; i++) GALE_TRY(rewrite_node(c, &c->g->node.at[i]));
    GALE_TRY(rename_infos(c));
    c->g->node.at = gale__arena_copy(c->arena, c->nodes, c->n_nodes * sizeof *c->nodes);
    c->g->node.n = c->n_nodes;
    return c->g->node.at ? GALE_OK : GALE_NO_MEMORY;
}

gale_status gale__edit_precision(gale__onnx *file, gale__pb_model *model, gale_type type)
{
    change c = {.file = file, .arena = gale__onnx_arena(file), .g = model->graph, .type = type, .opset = 1};
    if (!c.g) return gale__fail(GALE_INVALID, "the model has no graph");
    if (type != GALE_F16 && type != GALE_BF16)
        return gale__fail(GALE_UNSUPPORTED, "models can be converted to f16 and bf16, not to %s", gale_type_name(type));
    for (size_t i = 0; i < model->opset_import.n; i++)
        if (gale__pb_is_core(&model->opset_import.at[i].domain)) c.opset = model->opset_import.at[i].version;
    if (c.opset < (type == GALE_F16 ? 6 : 13))
        return gale__fail(
            GALE_UNSUPPORTED, "operators of opset %lld do not support %s", (long long)c.opset, gale_type_name(type));
    gale__edit_drop_formal_inputs(model);
    gale_status status = gale__edit_hoist_constants(file, c.g);
    if (status == GALE_OK) status = rewrite(&c);
    gale__onnx_names_finish(&c.types);
    gale__onnx_names_finish(&c.index);
    gale__free(c.keeps);
    gale__free(c.values);
    gale__free(c.nodes);
    return status;
}
