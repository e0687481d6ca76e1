/* Works on the file's messages rather than on a separate graph, so that importing, precision and fusion see one model.
 * Nodes are written in the form of the model's opset. */
#include "jobs/embed/compose.h"
#include "onnx/edit/edit.h"
#include <stdio.h>
#include <string.h>

const char *const gale__text_input_names[GALE__TEXT_INPUTS] = {
    "input_ids", "attention_mask", "token_type_ids", "position_ids"};

enum { NODES_MORE = 16, TENSORS_MORE = 12 };

typedef struct composer {
    gale__arena *arena;
    gale__pb_graph *g;
    int64_t opset;
    size_t count; /* names made */
    gale__pb_tensor tensors[TENSORS_MORE];
    size_t n_tensors;
    gale_status status;
} composer;

static gale__pb_text text_of(const char *text) { return (gale__pb_text){text, strlen(text)}; }

/* --- Looking at the model. --- */

static int rank_of(const gale__pb_value_info *v)
{
    const gale__pb_tensor_type *t = v->type ? v->type->tensor_type : NULL;
    return t && t->shape ? (int)t->shape->dim.n : -1;
}

static bool is_float(const gale__pb_value_info *v)
{
    int type = v->type && v->type->tensor_type ? v->type->tensor_type->elem_type : 0;
    return type == 1 || type == 10 || type == 16; /* f32, f16, bf16 */
}

static gale_status look_at_inputs(const gale__pb_graph *g, gale__composed *out)
{
    for (size_t i = 0; i < g->input.n; i++) {
        const gale__pb_value_info *v = &g->input.at[i];
        int which = 0;
        while (which < GALE__TEXT_INPUTS && !gale__pb_is(&v->name, gale__text_input_names[which])) which++;
        if (which == GALE__TEXT_INPUTS)
            return gale__fail(GALE_UNSUPPORTED,
                "not a text encoder: unexpected input '%s'; supported are input_ids, attention_mask, token_type_ids "
                "and position_ids",
                v->name.at);
        int type = v->type && v->type->tensor_type ? v->type->tensor_type->elem_type : 0;
        if (type != 6 && type != 7)
            return gale__fail(GALE_UNSUPPORTED, "input '%s' of the model is neither i32 nor i64", v->name.at);
        out->takes[which] = true;
        out->types[which] = type == 7 ? GALE_I64 : GALE_I32;
    }
    if (out->takes[GALE__TEXT_IDS]) return GALE_OK;
    return gale__fail(GALE_UNSUPPORTED, "not a text encoder: the model has no input 'input_ids'");
}

static const gale__pb_value_info *find_output(const gale__pb_graph *g, const char *name, int rank)
{
    for (size_t i = 0; i < g->output.n; i++) {
        const gale__pb_value_info *v = &g->output.at[i];
        bool fits = is_float(v) && (rank_of(v) == rank || (name && rank_of(v) < 0));
        if (fits && (!name || gale__pb_is(&v->name, name))) return v;
    }
    return NULL;
}

static gale_status no_output(const gale__pb_graph *g)
{
    char names[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < g->output.n && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", g->output.at[i].name.at);
    return gale__fail(GALE_UNSUPPORTED,
        "not a text encoder: the model has neither token vectors (last_hidden_state, token_embeddings, or any of rank "
        "3) nor sentence_embedding; its outputs are: %s",
        names);
}

/* sentence_embedding is taken unless the caller asks for another pooling. */
static gale_status find_vectors(
    const gale__pb_graph *g, gale_pooling wanted, const gale__pb_value_info **out, bool *pooled)
{
    static const char *const names[] = {"last_hidden_state", "token_embeddings", NULL};
    bool own = wanted == GALE_POOLING_AUTO || wanted == GALE_POOLING_MODEL;
    const gale__pb_value_info *found = own ? find_output(g, "sentence_embedding", 2) : NULL;
    *pooled = found != NULL;
    if (!found && wanted == GALE_POOLING_MODEL)
        return gale__fail(GALE_UNSUPPORTED, "the model has no output 'sentence_embedding': it does not pool by itself");
    for (int i = 0; names[i] && !found; i++) found = find_output(g, names[i], 3);
    if (!found) found = find_output(g, NULL, 3);
    return found ? (*out = found, GALE_OK) : no_output(g);
}

/* The table that rows are gathered from by token. */
static int64_t find_vocabulary(const gale__pb_graph *g)
{
    gale__pb_text ids = text_of(gale__text_input_names[GALE__TEXT_IDS]);
    for (size_t i = 0; i < g->node.n; i++) {
        const gale__pb_node *n = &g->node.at[i];
        if (gale__pb_is(&n->op_type, "Cast") && n->input.n == 1 && n->output.n == 1 &&
            gale__pb_text_equal(&n->input.at[0], &ids))
            ids = n->output.at[0];
        if (!gale__pb_is(&n->op_type, "Gather") || n->input.n != 2 || !gale__pb_text_equal(&n->input.at[1], &ids))
            continue;
        for (size_t k = 0; k < g->initializer.n; k++)
            if (gale__pb_text_equal(&g->initializer.at[k].name, &n->input.at[0]) && g->initializer.at[k].dims.n == 2)
                return g->initializer.at[k].dims.at[0];
    }
    return 0;
}

/* --- Writing nodes.  The first failure stays, and the rest does nothing. --- */

static gale__pb_text new_name(composer *c)
{
    char *name = gale__arena_printf(c->arena, "gale.pool.%zu", c->count++);
    if (!name) c->status = GALE_NO_MEMORY;
    return text_of(name ? name : "");
}

static gale__pb_text constant(composer *c, int type, const int64_t *ints, float number, size_t n)
{
    gale__pb_tensor *t = &c->tensors[c->n_tensors++];
    *t = (gale__pb_tensor){.data_type = type, .name = new_name(c), .doc_string = text_of("")};
    t->raw_data = text_of("");
    t->dims.at = gale__arena_alloc(c->arena, sizeof *t->dims.at);
    if (type == 7) t->int64_data.at = gale__arena_copy(c->arena, ints, n * sizeof *ints);
    else t->float_data.at = gale__arena_copy(c->arena, &number, sizeof number);
    if (!t->dims.at || (!t->int64_data.at && !t->float_data.at)) return c->status = GALE_NO_MEMORY, t->name;
    t->int64_data.n = type == 7 ? n : 0;
    t->float_data.n = type == 7 ? 0 : 1;
    t->dims.at[0] = (int64_t)n;
    t->dims.n = 1;
    return t->name;
}

static gale__pb_text ints(composer *c, int64_t a, int64_t b, size_t n)
{
    return constant(c, 7, (const int64_t[]){a, b}, 0, n);
}

static gale__pb_node *add(composer *c, const char *op, gale__pb_text a, gale__pb_text b, gale__pb_text *out)
{
    gale__pb_text *names = gale__arena_alloc(c->arena, 6 * sizeof *names);
    gale__pb_attribute *attributes = gale__arena_alloc(c->arena, 3 * sizeof *attributes);
    *out = new_name(c);
    if (!names || !attributes) c->status = GALE_NO_MEMORY;
    if (c->status != GALE_OK) return NULL;
    gale__pb_node *node = &c->g->node.at[c->g->node.n++];
    *node = (gale__pb_node){.op_type = text_of(op),
        .name = *out,
        .domain = text_of(""),
        .overload = text_of(""),
        .doc_string = text_of("")};
    names[0] = a;
    names[1] = b;
    names[5] = *out;
    node->input.at = names;
    node->input.n = b.size ? 2 : 1;
    node->output.at = names + 5;
    node->output.n = 1;
    node->attribute.at = attributes;
    return node;
}

static gale__pb_attribute *set(gale__pb_node *node, const char *name, gale__pb_attr_type type)
{
    gale__pb_attribute *a = &node->attribute.at[node->attribute.n++];
    *a = (gale__pb_attribute){.name = text_of(name), .type = type};
    a->ref_attr_name = a->doc_string = a->s = text_of("");
    return a;
}

static void set_int(gale__pb_node *node, const char *name, int64_t value)
{
    if (node) set(node, name, GALE__PB_INT)->i = value;
}

static void set_list(composer *c, gale__pb_node *node, const char *name, int64_t value)
{
    if (!node) return;
    gale__pb_attribute *a = set(node, name, GALE__PB_INTS);
    a->ints.at = gale__arena_copy(c->arena, &value, sizeof value);
    a->ints.n = 1;
    if (!a->ints.at) c->status = GALE_NO_MEMORY;
}

static gale__pb_text unary(composer *c, const char *op, gale__pb_text x)
{
    gale__pb_text out;
    add(c, op, x, text_of(""), &out);
    return out;
}

static gale__pb_text binary(composer *c, const char *op, gale__pb_text a, gale__pb_text b)
{
    gale__pb_text out;
    add(c, op, a, b, &out);
    return out;
}

/* Axes are an attribute in old opsets and an input in newer ones. */
static gale__pb_text reduce(composer *c, const char *op, gale__pb_text x, int64_t axis)
{
    gale__pb_text out;
    bool by_input = c->opset >= (!strcmp(op, "ReduceSum") ? 13 : 18);
    gale__pb_node *node = add(c, op, x, by_input ? ints(c, axis, 0, 1) : text_of(""), &out);
    if (!by_input) set_list(c, node, "axes", axis);
    set_int(node, "keepdims", 1);
    return out;
}

static gale__pb_text keep_first(composer *c, gale__pb_text x, int64_t dims)
{
    gale__pb_text out;
    if (c->opset < 10) {
        gale__pb_node *node = add(c, "Slice", x, text_of(""), &out);
        set_list(c, node, "starts", 0);
        set_list(c, node, "ends", dims);
        set_list(c, node, "axes", 1);
        return out;
    }
    gale__pb_node *node = add(c, "Slice", x, ints(c, 0, 0, 1), &out);
    gale__pb_text ends = ints(c, dims, 0, 1), axes = ints(c, 1, 0, 1);
    if (!node) return out;
    node->input.at[2] = ends;
    node->input.at[3] = axes;
    node->input.n = 4;
    return out;
}

static gale__pb_text pool(composer *c, gale__pb_text x, gale_pooling pooling)
{
    gale__pb_text weights = text_of(GALE__POOL_INPUT);
    x = pooling == GALE_POOLING_MAX ? reduce(c, "ReduceMax", binary(c, "Add", x, weights), 1)
                                    : binary(c, "MatMul", weights, x);
    return binary(c, "Reshape", x, ints(c, 0, -1, 2)); /* [texts, 1, dims] to [texts, dims] */
}

/* In f32 in any precision, so that vectors have length 1: powers do not become halves. */
static gale__pb_text normalize(composer *c, gale__pb_text x)
{
    x = binary(c, "Pow", x, constant(c, 1, NULL, 1, 1));
    gale__pb_text sum = reduce(c, "ReduceSum", binary(c, "Mul", x, x), 1);
    gale__pb_text length = binary(c, "Max", unary(c, "Sqrt", sum), constant(c, 1, NULL, 1e-12f, 1));
    return binary(c, "Div", x, length);
}

/* A tensor of f32 whose extents are not specified. */
static gale_status declare(composer *c, const char *name, int rank, gale__pb_value_info *out)
{
    gale__pb_type *type = gale__arena_alloc(c->arena, sizeof *type);
    gale__pb_tensor_type *tensor = gale__arena_alloc(c->arena, sizeof *tensor);
    gale__pb_shape *shape = gale__arena_alloc(c->arena, sizeof *shape);
    gale__pb_dim *dims = gale__arena_alloc(c->arena, 3 * sizeof *dims);
    if (!type || !tensor || !shape || !dims) return GALE_NO_MEMORY;
    for (int i = 0; i < rank; i++) dims[i].dim_param = dims[i].denotation = text_of("");
    shape->dim.at = dims;
    shape->dim.n = (size_t)rank;
    *tensor = (gale__pb_tensor_type){.elem_type = 1, .shape = shape};
    type->tensor_type = tensor;
    type->denotation = text_of("");
    *out = (gale__pb_value_info){.name = text_of(name), .doc_string = text_of(""), .type = type};
    return GALE_OK;
}

static gale_status make_room(composer *c, bool pooled)
{
    gale__pb_graph *g = c->g;
    gale__pb_node *nodes = gale__arena_alloc(c->arena, (g->node.n + NODES_MORE) * sizeof *nodes);
    gale__pb_value_info *in = gale__arena_alloc(c->arena, (g->input.n + 1) * sizeof *in),
                        *out = gale__arena_alloc(c->arena, sizeof *out);
    if (!nodes || !in || !out) return GALE_NO_MEMORY;
    memcpy(nodes, g->node.at, g->node.n * sizeof *nodes);
    memcpy(in, g->input.at, g->input.n * sizeof *in);
    GALE_TRY(declare(c, GALE__POOL_INPUT, 3, &in[g->input.n]));
    GALE_TRY(declare(c, GALE__POOL_OUTPUT, 2, out));
    g->node.at = nodes;
    g->input.at = in;
    g->input.n += !pooled;
    g->output.at = out;
    g->output.n = 1;
    return GALE_OK;
}

gale_status gale__compose(
    gale__onnx *file, gale_pooling wanted, gale_pooling folder, int64_t dims, bool norm, gale__composed *out)
{
    gale__pb_model *model = gale__onnx_root(file);
    gale__composed made = {0};
    const gale__pb_value_info *vectors = NULL;
    bool pooled = false;
    if (!model->graph) return gale__fail(GALE_FORMAT, "the model has no graph");
    composer c = {.arena = gale__onnx_arena(file), .g = model->graph, .opset = gale__edit_opset_of(model)};
    gale__edit_drop_formal_inputs(model);
    GALE_TRY(look_at_inputs(c.g, &made));
    GALE_TRY(find_vectors(c.g, wanted, &vectors, &pooled));
    made.vocabulary = find_vocabulary(c.g);
    made.pooling = pooled ? GALE_POOLING_MODEL : wanted ? wanted : folder ? folder : GALE_POOLING_MEAN;
    gale__pb_text x = vectors->name, last;
    int type = vectors->type->tensor_type->elem_type;
    GALE_TRY(make_room(&c, pooled));
    if (type != 1) {
        gale__pb_text before = x;
        set_int(add(&c, "Cast", before, text_of(""), &x), "to", 1);
    }
    if (!pooled) x = pool(&c, x, made.pooling);
    if (dims) x = keep_first(&c, x, dims);
    if (norm) x = normalize(&c, x);
    gale__pb_node *end = add(&c, "Identity", x, text_of(""), &last);
    if (end) end->output.at[0] = text_of(GALE__POOL_OUTPUT);
    GALE_TRY(c.status);
    GALE_TRY(gale__edit_add_initializers(file, c.g, c.tensors, c.n_tensors));
    *out = made;
    return GALE_OK;
}
