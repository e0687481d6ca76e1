/* A model in 8 bit, as others write it too: initialisers of i8 behind DequantizeLinear, activations through QuantizeLinear and DequantizeLinear.  So any engine runs it, and
 * those that multiply in 8 bit find what they need. */
#include "graph/tensor.h"
#include "onnx/edit.h"
#include "onnx/int8.h"
#include <math.h>
#include <string.h>

enum { F32 = 1, U8 = 2, I8 = 3, OPSET_LEAST = 13 };

typedef struct change {
    gale__onnx *file;
    gale__arena *arena;
    gale__pb_graph *g;
    const gale__ranges *ranges;
    gale__names used;          /* names of values */
    gale__names weights;       /* initialisers of f32 that nobody can give, by name */
    gale__names done;          /* "w|axis" or "|x" to its place in `to` */
    gale__pb_text *to; size_t n_to, to_capacity;
    gale__pb_node *nodes; size_t n_nodes, nodes_capacity;
    gale__pb_tensor *tensors; size_t n_tensors, tensors_capacity;
    int n_weights, n_values;
} change;

/* --- Making things. --- */

static gale_status new_name(change *c, const gale__pb_text *base, const char *end, gale__pb_text *out)
{
    char *name = gale__arena_printf(c->arena, "%s_%s", base->at, end);
    while (name && gale__names_find(&c->used, name, strlen(name)) >= 0) name = gale__arena_printf(c->arena, "%s_", name);
    if (!name) return GALE_NO_MEMORY;
    *out = (gale__pb_text){name, strlen(name)};
    return gale__names_set(&c->used, out->at, out->size, 1);
}

static gale_status add_tensor(change *c, gale__pb_text name, int type, const int64_t *dims, size_t rank, const void *data, size_t bytes)
{
    gale__pb_tensor t = {.data_type = type, .name = name, .raw_data = {data, bytes}};
    t.dims.at = gale__arena_copy(c->arena, dims, rank * sizeof *dims);
    t.dims.n = rank;
    if (!t.dims.at || !data) return GALE_NO_MEMORY;
    GALE_TRY(gale__grow((void **)&c->tensors, &c->tensors_capacity, c->n_tensors + 1, sizeof *c->tensors));
    c->tensors[c->n_tensors++] = t;
    return GALE_OK;
}

/* axis < 0: one scale for all. */
static gale_status add_node(change *c, const char *op, const gale__pb_text *in, size_t n_in, gale__pb_text out, int64_t axis)
{
    gale__pb_node n = {.op_type = {op, strlen(op)}};
    n.input.at = gale__arena_copy(c->arena, in, n_in * sizeof *in);
    n.output.at = gale__arena_copy(c->arena, &out, sizeof out);
    n.attribute.at = gale__arena_alloc(c->arena, sizeof *n.attribute.at);
    if (!n.input.at || !n.output.at || !n.attribute.at) return GALE_NO_MEMORY;
    n.input.n = n_in;
    n.output.n = 1;
    *n.attribute.at = (gale__pb_attribute){.head.present = 1u << 2, .name = {"axis", 4}, .type = GALE__PB_INT, .i = axis}; /* row 2: also a zero is written */
    n.attribute.n = axis >= 0;
    GALE_TRY(gale__grow((void **)&c->nodes, &c->nodes_capacity, c->n_nodes + 1, sizeof *c->nodes));
    c->nodes[c->n_nodes++] = n;
    return GALE_OK;
}

static const gale__pb_text *find_done(const change *c, const char *key)
{
    int32_t at = gale__names_find(&c->done, key, strlen(key));
    return at < 0 ? NULL : &c->to[at];
}

static gale_status set_done(change *c, const char *key, const gale__pb_text *to)
{
    GALE_TRY(gale__grow((void **)&c->to, &c->to_capacity, c->n_to + 1, sizeof *c->to));
    c->to[c->n_to] = *to;
    return gale__names_set(&c->done, key, strlen(key), (int32_t)c->n_to++);
}

/* --- Weights. --- */

/* x [outer, channels, inner] to whole numbers of -127 to 127 times a scale for each channel. */
static void quantise(const float *x, size_t outer, size_t channels, size_t inner, float *scales, int8_t *q)
{
    for (size_t k = 0; k < channels; k++) {
        float most = 0;
        for (size_t o = 0; o < outer; o++)
            for (size_t i = 0; i < inner; i++) {
                float v = fabsf(x[(o * channels + k) * inner + i]);
                if (isfinite(v) && v > most) most = v;
            }
        scales[k] = most / 127 > 0 ? most / 127 : 1;
        for (size_t o = 0; o < outer; o++)
            for (size_t i = 0; i < inner; i++) {
                size_t at = (o * channels + k) * inner + i;
                float v = rintf(x[at] / scales[k]);
                q[at] = (int8_t)(v >= 127 ? 127 : v <= -127 ? -127 : v != v ? 0 : v);
            }
    }
}

static gale_status write_weight(change *c, const gale__pb_tensor *from, const gale_tensor *t, int64_t axis, gale__pb_text *out)
{
    size_t n = (size_t)gale__tensor_elements(t), outer = 1, inner = 1;
    float *whole = gale__alloc(n * sizeof *whole), *scales = gale__arena_alloc(c->arena, (size_t)t->dims[axis] * sizeof *scales);
    int8_t *q = gale__arena_alloc(c->arena, n);
    gale__pb_text in[2];
    gale_status status = whole && scales && q ? gale_tensor_to_cpu((gale_tensor *)t, whole, n * sizeof *whole) : GALE_NO_MEMORY;
    for (int i = 0; i < t->rank; i++) *(i < axis ? &outer : &inner) *= i == axis ? 1 : (size_t)t->dims[i];
    if (status == GALE_OK) quantise(whole, outer, (size_t)t->dims[axis], inner, scales, q);
    gale__free(whole);
    GALE_TRY(status);
    GALE_TRY(new_name(c, &from->name, "int8", &in[0]));
    GALE_TRY(new_name(c, &from->name, "scale", &in[1]));
    GALE_TRY(new_name(c, &from->name, "dequantized", out));
    GALE_TRY(add_tensor(c, in[0], I8, t->dims, (size_t)t->rank, q, n));
    GALE_TRY(add_tensor(c, in[1], F32, &t->dims[axis], 1, scales, (size_t)t->dims[axis] * sizeof *scales));
    c->n_weights++;
    return add_node(c, "DequantizeLinear", in, 2, *out, axis);
}

static gale_status change_weight(change *c, gale__pb_text *name, const gale__pb_node *node)
{
    const gale__pb_tensor *from = &c->g->initializer.at[gale__names_find(&c->weights, name->at, name->size)];
    const gale__pb_attribute *transposed = gale__pb_find_attribute(node, "transB");
    if (from->dims.n < 2) return GALE_OK;
    int64_t axis = gale__pb_is(&node->op_type, "Conv") || (gale__pb_is(&node->op_type, "Gemm") && transposed && transposed->i) ? 0 : (int64_t)from->dims.n - 1;
    char *key = gale__arena_printf(c->arena, "%s|%lld", name->at, (long long)axis);
    if (!key) return GALE_NO_MEMORY;
    const gale__pb_text *known = find_done(c, key);
    if (known) return *name = *known, GALE_OK;
    gale_tensor *t = NULL;
    gale__pb_text made;
    GALE_TRY(gale__onnx_tensor(c->file, from, &t));
    gale_status status = gale__tensor_elements(t) ? write_weight(c, from, t, axis, &made) : GALE_OK;
    bool changed = gale__tensor_elements(t) > 0;
    gale_tensor_destroy(&t);
    if (status != GALE_OK || !changed) return status;
    *name = made;
    return set_done(c, key, &made);
}

/* --- Activations. --- */

static gale_status write_pair(change *c, const gale__pb_text *name, const gale__range *range, gale__pb_text *out)
{
    double low = range->low < 0 ? range->low : 0, high = range->high > 0 ? range->high : 0;
    float step = (float)((high - low) / 255) > 0 ? (float)((high - low) / 255) : 1;
    double at = rint(-low / (double)step);
    uint8_t zero = (uint8_t)(at > 255 ? 255 : at);
    gale__pb_text in[3] = {*name}, between;
    GALE_TRY(new_name(c, name, "scale", &in[1]));
    GALE_TRY(new_name(c, name, "zero", &in[2]));
    GALE_TRY(new_name(c, name, "uint8", &between));
    GALE_TRY(new_name(c, name, "dequantized", out));
    GALE_TRY(add_tensor(c, in[1], F32, NULL, 0, gale__arena_copy(c->arena, &step, sizeof step), sizeof step));
    GALE_TRY(add_tensor(c, in[2], U8, NULL, 0, gale__arena_copy(c->arena, &zero, 1), 1));
    GALE_TRY(add_node(c, "QuantizeLinear", in, 3, between, -1));
    in[0] = between;
    c->n_values++;
    return add_node(c, "DequantizeLinear", in, 3, *out, -1);
}

static gale_status change_activation(change *c, gale__pb_text *name)
{
    int32_t at = c->ranges ? gale__names_find(&c->ranges->names, name->at, name->size) : -1;
    if (at < 0 || !c->ranges->at[at].seen) return GALE_OK;
    char *key = gale__arena_printf(c->arena, "|%s", name->at);
    if (!key) return GALE_NO_MEMORY;
    const gale__pb_text *known = find_done(c, key);
    if (known) return *name = *known, GALE_OK;
    gale__pb_text made;
    GALE_TRY(write_pair(c, name, &c->ranges->at[at], &made));
    *name = made;
    return set_done(c, key, &made);
}

/* --- The whole. --- */

static gale_status change_node(change *c, gale__pb_node node)
{
    bool ours = gale__pb_is_core(&node.domain) && (gale__pb_is(&node.op_type, "MatMul") || gale__pb_is(&node.op_type, "Gemm") || gale__pb_is(&node.op_type, "Conv"));
    if (ours) {
        gale__pb_text *in = gale__arena_copy(c->arena, node.input.at, node.input.n * sizeof *in);
        if (!in) return GALE_NO_MEMORY;
        for (size_t i = 0; i < node.input.n && i < 2; i++) {
            if (!in[i].size) continue;
            bool weight = gale__names_find(&c->weights, in[i].at, in[i].size) >= 0;
            if (weight && i == 1) GALE_TRY(change_weight(c, &in[i], &node));
            else if (!weight) GALE_TRY(change_activation(c, &in[i]));
        }
        node.input.at = in;
    }
    GALE_TRY(gale__grow((void **)&c->nodes, &c->nodes_capacity, c->n_nodes + 1, sizeof *c->nodes));
    c->nodes[c->n_nodes++] = node;
    return GALE_OK;
}

static gale_status add_used(void *user, const gale__pb_text *name) { return name->size ? gale__names_set(user, name->at, name->size, 1) : GALE_OK; }

static gale_status gather(change *c)
{
    for (size_t i = 0; i < c->g->input.n; i++) GALE_TRY(add_used(&c->used, &c->g->input.at[i].name));
    for (size_t i = 0; i < c->g->initializer.n; i++) {
        const gale__pb_tensor *t = &c->g->initializer.at[i];
        GALE_TRY(add_used(&c->used, &t->name));
        if (t->data_type == F32 && t->name.size) GALE_TRY(gale__names_set(&c->weights, t->name.at, t->name.size, (int32_t)i));
    }
    for (size_t i = 0; i < c->g->node.n; i++) {
        for (size_t k = 0; k < c->g->node.at[i].output.n; k++) GALE_TRY(add_used(&c->used, &c->g->node.at[i].output.at[k]));
        GALE_TRY(gale__edit_body_names(&c->g->node.at[i], add_used, &c->used));
    }
    return GALE_OK;
}

/* The old weights go when nothing else reads them. */
static gale_status drop_weights(change *c)
{
    gale__names read = {0};
    gale_status status = GALE_OK;
    size_t n = 0;
    for (size_t i = 0; i < c->g->output.n && status == GALE_OK; i++) status = add_used(&read, &c->g->output.at[i].name);
    for (size_t i = 0; i < c->g->node.n && status == GALE_OK; i++) {
        for (size_t k = 0; k < c->g->node.at[i].input.n && status == GALE_OK; k++) status = add_used(&read, &c->g->node.at[i].input.at[k]);
        if (status == GALE_OK) status = gale__edit_body_names(&c->g->node.at[i], add_used, &read);
    }
    for (size_t i = 0; i < c->g->initializer.n && status == GALE_OK; i++) {
        const gale__pb_text *name = &c->g->initializer.at[i].name;
        if (!name->size || gale__names_find(&read, name->at, name->size) >= 0) c->g->initializer.at[n++] = c->g->initializer.at[i];
    }
    if (status == GALE_OK) c->g->initializer.n = n;
    gale__names_finish(&read);
    return status;
}

static gale_status rewrite(change *c)
{
    GALE_TRY(gather(c));
    for (size_t i = 0; i < c->g->node.n; i++) GALE_TRY(change_node(c, c->g->node.at[i]));
    c->g->node.at = gale__arena_copy(c->arena, c->nodes, c->n_nodes * sizeof *c->nodes);
    c->g->node.n = c->n_nodes;
    if (!c->g->node.at) return GALE_NO_MEMORY;
    GALE_TRY(drop_weights(c));
    return gale__edit_add_initializers(c->file, c->g, c->tensors, c->n_tensors);
}

gale_status gale__edit_int8(gale__onnx *file, gale__pb_model *model, const gale__ranges *ranges, int *n_weights, int *n_values)
{
    change c = {.file = file, .arena = gale__onnx_arena(file), .g = model->graph, .ranges = ranges};
    int64_t opset = 1;
    if (!c.g) return gale__fail(GALE_INVALID, "the model has no graph");
    for (size_t i = 0; i < model->opset_import.n; i++)
        if (gale__pb_is_core(&model->opset_import.at[i].domain)) opset = model->opset_import.at[i].version;
    if (opset < OPSET_LEAST) return gale__fail(GALE_UNSUPPORTED, "opset %lld has no scales for each channel: bring the model up first (--opset newest)", (long long)opset);
    gale__edit_drop_formal_inputs(model);
    gale_status status = gale__edit_hoist_constants(file, c.g);
    if (status == GALE_OK) status = rewrite(&c);
    gale__names_finish(&c.used);
    gale__names_finish(&c.weights);
    gale__names_finish(&c.done);
    gale__free(c.to);
    gale__free(c.nodes);
    gale__free(c.tensors);
    if (n_weights) *n_weights = c.n_weights;
    if (n_values) *n_values = c.n_values;
    return status;
}
