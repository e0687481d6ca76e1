/* Tables of embeddings in 8 bit: rows of i8 with a scale each.  Rows are looked up first and become floats afterwards,
 * so that the table is never a table of floats again, in no engine. */
#include "graph/run/tensor.h"
#include "onnx/edit/edit.h"
#include "onnx/edit/int8.h"
#include <math.h>
#include <string.h>

enum { F32 = 1, I8 = 3, ROWS_LEAST = 64, GATHER, CAST, MUL };

typedef struct tables {
    gale__onnx *file;
    gale__arena *arena;
    gale__pb_graph *g;
    gale__int8 *how;
    gale__onnx_names *used;
    gale__pb_node *nodes;
    size_t n_nodes, capacity;
    gale__pb_tensor *tensors; /* those of 8 bit and their scales, in pairs */
    size_t n_tensors, tensors_capacity;
    gale__onnx_names done; /* by name of the table: its place in `tensors` */
} tables;

bool gale__int8_is_left(const gale__int8 *how, const gale__pb_node *node)
{
    const gale__pb_text none = {"", 0},
                        *names[] = {&node->name, &node->op_type, node->output.n ? &node->output.at[0] : &none};
    for (int i = 0; i < how->n_left; i++) {
        const char *left = how->left[i];
        size_t n = strlen(left);
        bool star = n && left[n - 1] == '*';
        for (int k = 0; k < 3; k++)
            if (names[k]->at && (star ? !strncmp(names[k]->at, left, n - 1) : !strcmp(names[k]->at, left))) return true;
    }
    return false;
}

double gale__int8_loss(
    const float *x, size_t outer, size_t channels, size_t inner, const float *scales, const int8_t *q)
{
    double error = 0, norm = 0;
    for (size_t i = 0; i < outer * channels * inner; i++) {
        double v = (double)x[i], d = (double)q[i] * (double)scales[i / inner % channels] - v;
        if (!isfinite(v)) continue;
        error += d * d;
        norm += v * v;
    }
    return norm > 0 ? sqrt(error / norm) : 0;
}

/* Room doubles, since an arena takes nothing back. */
gale_status gale__int8_note(gale__arena *arena, gale__int8 *how, const gale__pb_node *node, double relative)
{
    const char *result = node->output.n && node->output.at[0].size ? node->output.at[0].at : "";
    const char *name = node->name.size ? node->name.at : result;
    gale__int8_layer *list = (gale__int8_layer *)how->layers;
    size_t n = how->n_layers;
    if (!(n & (n - 1))) {
        list = gale__arena_alloc(arena, (n ? 2 * n : 1) * sizeof *list);
        if (!list) return GALE_NO_MEMORY;
        if (n) memcpy(list, how->layers, n * sizeof *list);
    }
    list[n] = (gale__int8_layer){name, result, relative};
    how->layers = list;
    how->n_layers++;
    return GALE_OK;
}

bool gale__int8_looks_up(const gale__pb_node *node)
{
    const gale__pb_attribute *axis = gale__pb_find_attribute(node, "axis");
    return gale__pb_is_core(&node->domain) && gale__pb_is(&node->op_type, "Gather") && node->input.n == 2 &&
           node->output.n == 1 && (!axis || !axis->i);
}

static const gale__pb_tensor *table_of(const tables *t, const gale__pb_text *name)
{
    for (size_t i = 0; i < t->g->initializer.n; i++) {
        const gale__pb_tensor *w = &t->g->initializer.at[i];
        if (gale__pb_text_equal(&w->name, name) && w->data_type == F32 && w->dims.n == 2 &&
            w->dims.at[0] >= ROWS_LEAST && w->dims.at[1] > 1)
            return w;
    }
    return NULL;
}

typedef struct look {
    const gale__pb_text *name;
    bool found;
} look;

static gale_status note_name(void *user, const gale__pb_text *name)
{
    look *l = user;
    l->found |= gale__pb_text_equal(l->name, name);
    return GALE_OK;
}

/* Whether anything but looking up reads it, or a lookup that is left: then it must stay, and another one beside it
 * would take more room, not less. */
static gale_status is_shared(const tables *t, const gale__pb_text *name, bool *out)
{
    look l = {name, false};
    for (size_t i = 0; i < t->g->output.n; i++) l.found |= gale__pb_text_equal(&t->g->output.at[i].name, name);
    for (size_t i = 0; i < t->g->node.n; i++) {
        const gale__pb_node *n = &t->g->node.at[i];
        bool ours = gale__int8_looks_up(n) && !gale__int8_is_left(t->how, n);
        for (size_t k = 0; k < n->input.n; k++)
            l.found |= gale__pb_text_equal(&n->input.at[k], name) && !(ours && k == 0);
        GALE_TRY(gale__edit_body_names(n, note_name, &l));
    }
    *out = l.found;
    return GALE_OK;
}

static gale_status new_name(tables *t, const gale__pb_text *base, const char *end, gale__pb_text *out)
{
    char *name = gale__arena_printf(t->arena, "%s_%s", base->at, end);
    while (name && gale__onnx_names_find(t->used, name, strlen(name)) >= 0)
        name = gale__arena_printf(t->arena, "%s_", name);
    if (!name) return GALE_NO_MEMORY;
    *out = (gale__pb_text){name, strlen(name)};
    return gale__onnx_names_set(t->used, out->at, out->size, 1);
}

static gale_status add_tensor(
    tables *t, const gale__pb_text *base, const char *end, int type, int64_t rows, int64_t columns, const void *data)
{
    gale__pb_tensor made = {
        .data_type = type, .raw_data = {data, (size_t)(rows * columns) * (type == F32 ? sizeof(float) : 1)}};
    made.dims.at = gale__arena_copy(t->arena, (int64_t[]){rows, columns}, 2 * sizeof(int64_t));
    made.dims.n = 2;
    if (!made.dims.at) return GALE_NO_MEMORY;
    GALE_TRY(new_name(t, base, end, &made.name));
    GALE_TRY(gale__grow((void **)&t->tensors, &t->tensors_capacity, t->n_tensors + 1, sizeof *t->tensors));
    t->tensors[t->n_tensors++] = made;
    return GALE_OK;
}

static gale_status quantise(tables *t, const gale__pb_node *node, const gale__pb_tensor *from)
{
    gale_tensor *whole = NULL;
    GALE_TRY(gale__onnx_tensor(t->file, from, &whole));
    size_t rows = (size_t)whole->dims[0], columns = (size_t)whole->dims[1];
    float *x = gale__alloc(whole->size_bytes), *scales = gale__arena_alloc(t->arena, rows * sizeof *scales);
    int8_t *q = gale__arena_alloc(t->arena, rows * columns);
    gale_status status = x && scales && q ? gale_tensor_to_cpu(whole, x, whole->size_bytes) : GALE_NO_MEMORY;
    if (status == GALE_OK) gale__int8_quantise(x, 1, rows, columns, scales, q);
    if (status == GALE_OK)
        status = gale__int8_note(t->arena, t->how, node, gale__int8_loss(x, 1, rows, columns, scales, q));
    gale__free(x);
    gale_tensor_destroy(&whole);
    GALE_TRY(status);
    GALE_TRY(gale__onnx_names_set(&t->done, from->name.at, from->name.size, (int32_t)t->n_tensors));
    GALE_TRY(add_tensor(t, &from->name, "int8", I8, (int64_t)rows, (int64_t)columns, q));
    GALE_TRY(add_tensor(t, &from->name, "scale", F32, (int64_t)rows, 1, scales));
    t->how->n_weights++;
    return GALE_OK;
}

static gale_status add_node(tables *t, int op, gale__pb_text a, gale__pb_text b, gale__pb_text out)
{
    static const char *const ops[] = {"Gather", "Cast", "Mul"}, *const attributes[] = {"axis", "to", ""};
    const char *name = ops[op - GATHER];
    gale__pb_node n = {.op_type = {name, strlen(name)}};
    n.input.at = gale__arena_copy(t->arena, (gale__pb_text[]){a, b}, 2 * sizeof a);
    n.output.at = gale__arena_copy(t->arena, &out, sizeof out);
    n.attribute.at = gale__arena_alloc(t->arena, sizeof *n.attribute.at);
    if (!n.input.at || !n.output.at || !n.attribute.at) return GALE_NO_MEMORY;
    n.input.n = op == CAST ? 1 : 2;
    n.output.n = 1;
    *n.attribute.at = (gale__pb_attribute){.head.present = 1u << 2,
        .name = {attributes[op - GATHER], strlen(attributes[op - GATHER])},
        .type = GALE__PB_INT,
        .i = op == CAST ? F32 : 0};
    n.attribute.n = op != MUL;
    GALE_TRY(gale__grow((void **)&t->nodes, &t->capacity, t->n_nodes + 1, sizeof *t->nodes));
    t->nodes[t->n_nodes++] = n;
    return GALE_OK;
}

/* Rows and their scales are looked up, and multiplied. */
static gale_status look_up(tables *t, const gale__pb_node *node, int32_t at)
{
    const gale__pb_text out = node->output.at[0], ids = node->input.at[1], none = {"", 0}, rows = t->tensors[at].name,
                        scales = t->tensors[at + 1].name;
    gale__pb_text bytes, wide, factors;
    GALE_TRY(new_name(t, &out, "int8", &bytes));
    GALE_TRY(new_name(t, &out, "whole", &wide));
    GALE_TRY(new_name(t, &out, "scale", &factors));
    GALE_TRY(add_node(t, GATHER, rows, ids, bytes));
    GALE_TRY(add_node(t, CAST, bytes, none, wide));
    GALE_TRY(add_node(t, GATHER, scales, ids, factors));
    return add_node(t, MUL, wide, factors, out);
}

static gale_status change_node(tables *t, const gale__pb_node *node)
{
    bool ours = gale__int8_looks_up(node) && node->input.at[0].size && !gale__int8_is_left(t->how, node), shared = true;
    const gale__pb_tensor *table = ours ? table_of(t, &node->input.at[0]) : NULL;
    if (table) GALE_TRY(is_shared(t, &table->name, &shared));
    if (table && !shared) {
        int32_t at = gale__onnx_names_find(&t->done, table->name.at, table->name.size);
        if (at < 0) {
            at = (int32_t)t->n_tensors;
            GALE_TRY(quantise(t, node, table));
        }
        return look_up(t, node, at);
    }
    GALE_TRY(gale__grow((void **)&t->nodes, &t->capacity, t->n_nodes + 1, sizeof *t->nodes));
    t->nodes[t->n_nodes++] = *node;
    return GALE_OK;
}

/* Tables that were changed go. */
static void drop_tables(tables *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->g->initializer.n; i++) {
        const gale__pb_tensor *w = &t->g->initializer.at[i];
        if (!w->name.size || gale__onnx_names_find(&t->done, w->name.at, w->name.size) < 0)
            t->g->initializer.at[n++] = *w;
    }
    t->g->initializer.n = n;
}

gale_status gale__edit_int8_tables(gale__onnx *file, gale__pb_graph *g, gale__onnx_names *used, gale__int8 *how)
{
    tables t = {.file = file, .arena = gale__onnx_arena(file), .g = g, .how = how, .used = used};
    gale_status status = GALE_OK;
    for (size_t i = 0; i < g->node.n && status == GALE_OK; i++) status = change_node(&t, &g->node.at[i]);
    if (status == GALE_OK && t.n_tensors) {
        g->node.at = gale__arena_copy(t.arena, t.nodes, t.n_nodes * sizeof *t.nodes);
        g->node.n = t.n_nodes;
        if (!g->node.at) status = GALE_NO_MEMORY;
        else drop_tables(&t);
        if (status == GALE_OK) status = gale__edit_add_initializers(file, g, t.tensors, t.n_tensors);
    }
    gale__onnx_names_finish(&t.done);
    gale__free(t.tensors);
    gale__free(t.nodes);
    return status;
}
