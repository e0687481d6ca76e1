/* Works on the file's messages rather than on a separate graph, so that importing, precision and fusion see one model.
 */
#include "jobs/embed/compose_nodes.h"
#include <stdio.h>

const char *const gale__text_input_names[GALE__TEXT_INPUTS] = {
    "input_ids", "attention_mask", "token_type_ids", "position_ids"};

enum { NODES_MORE = 32 };

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

/* The table that rows are gathered from by token: its extents, or NULL. */
static const int64_t *find_vocabulary(const gale__pb_graph *g)
{
    gale__pb_text ids = gale__compose_text(gale__text_input_names[GALE__TEXT_IDS]);
    for (size_t i = 0; i < g->node.n; i++) {
        const gale__pb_node *n = &g->node.at[i];
        if (gale__pb_is(&n->op_type, "Cast") && n->input.n == 1 && n->output.n == 1 &&
            gale__pb_text_equal(&n->input.at[0], &ids))
            ids = n->output.at[0];
        if (!gale__pb_is(&n->op_type, "Gather") || n->input.n != 2 || !gale__pb_text_equal(&n->input.at[1], &ids))
            continue;
        for (size_t k = 0; k < g->initializer.n; k++)
            if (gale__pb_text_equal(&g->initializer.at[k].name, &n->input.at[0]) && g->initializer.at[k].dims.n == 2)
                return g->initializer.at[k].dims.at;
    }
    return NULL;
}

/* --- The end of the graph. --- */

static gale__pb_text keep_first(gale__composer *c, gale__pb_text x, int64_t dims)
{
    gale__pb_text out;
    if (c->opset < 10) {
        gale__pb_node *node = gale__compose_add(c, "Slice", x, gale__compose_text(""), &out);
        gale__compose_set_list(c, node, "starts", 0);
        gale__compose_set_list(c, node, "ends", dims);
        gale__compose_set_list(c, node, "axes", 1);
        return out;
    }
    gale__pb_node *node = gale__compose_add(c, "Slice", x, gale__compose_ints(c, 0, 0, 1), &out);
    gale__pb_text ends = gale__compose_ints(c, dims, 0, 1), axes = gale__compose_ints(c, 1, 0, 1);
    if (!node) return out;
    node->input.at[2] = ends;
    node->input.at[3] = axes;
    node->input.n = 4;
    return out;
}

static gale__pb_text pool(gale__composer *c, gale__pb_text x, gale_pooling pooling)
{
    gale__pb_text weights = gale__compose_text(GALE__POOL_INPUT);
    x = pooling == GALE_POOLING_MAX
            ? gale__compose_reduce(c, "ReduceMax", gale__compose_binary(c, "Add", x, weights), 1)
            : gale__compose_binary(c, "MatMul", weights, x);
    return gale__compose_binary(
        c, "Reshape", x, gale__compose_ints(c, 0, -1, 2)); /* [texts, 1, dims] to [texts, dims] */
}

static gale__pb_text dense(gale__composer *c, gale__pb_text x, const gale__dense *d)
{
    gale__pb_text weight = gale__compose_floats(c, d->weight, (const int64_t[]){d->out, d->in}, 2),
                  bias = gale__compose_floats(c, d->bias, &d->out, 1), out;
    gale__pb_node *node = gale__compose_add(c, "Gemm", x, weight, &out);
    gale__compose_set_int(node, "transB", 1);
    if (c->opset < 7) gale__compose_set_int(node, "broadcast", 1);
    if (node) node->input.at[node->input.n++] = bias;
    return *d->activation ? gale__compose_unary(c, d->activation, out) : out;
}

/* In f32 in any precision, so that vectors have length 1: powers do not become halves. */
static gale__pb_text normalize(gale__composer *c, gale__pb_text x)
{
    x = gale__compose_binary(c, "Pow", x, gale__compose_constant(c, 1, NULL, 1, 1));
    gale__pb_text sum = gale__compose_reduce(c, "ReduceSum", gale__compose_binary(c, "Mul", x, x), 1);
    gale__pb_text length = gale__compose_binary(
        c, "Max", gale__compose_unary(c, "Sqrt", sum), gale__compose_constant(c, 1, NULL, 1e-12f, 1));
    return gale__compose_binary(c, "Div", x, length);
}

/* A tensor whose extents are not specified. */
static gale_status declare(gale__composer *c, const char *name, int element, int rank, gale__pb_value_info *out)
{
    gale__pb_type *type = gale__arena_alloc(c->arena, sizeof *type);
    gale__pb_tensor_type *tensor = gale__arena_alloc(c->arena, sizeof *tensor);
    gale__pb_shape *shape = gale__arena_alloc(c->arena, sizeof *shape);
    gale__pb_dim *dims = gale__arena_alloc(c->arena, 3 * sizeof *dims);
    if (!type || !tensor || !shape || !dims) return GALE_NO_MEMORY;
    for (int i = 0; i < rank; i++) dims[i].dim_param = dims[i].denotation = gale__compose_text("");
    shape->dim.at = dims;
    shape->dim.n = (size_t)rank;
    *tensor = (gale__pb_tensor_type){.elem_type = element, .shape = shape};
    type->tensor_type = tensor;
    type->denotation = gale__compose_text("");
    *out = (gale__pb_value_info){.name = gale__compose_text(name), .doc_string = gale__compose_text(""), .type = type};
    return GALE_OK;
}

static gale_status make_room(gale__composer *c, bool packed)
{
    gale__pb_graph *g = c->g;
    size_t more = NODES_MORE + (packed ? 4 * g->node.n : 0);
    gale__pb_node *nodes = gale__arena_alloc(c->arena, (g->node.n + more) * sizeof *nodes);
    gale__pb_value_info *in = gale__arena_alloc(c->arena, (g->input.n + 5) * sizeof *in),
                        *out = gale__arena_alloc(c->arena, sizeof *out);
    if (!nodes || !in || !out) return GALE_NO_MEMORY;
    memcpy(nodes, g->node.at, g->node.n * sizeof *nodes);
    memcpy(in, g->input.at, g->input.n * sizeof *in);
    g->node.at = nodes;
    g->input.at = in;
    g->output.at = out;
    g->output.n = 1;
    return declare(c, GALE__POOL_OUTPUT, 1, 2, out);
}

/* Packed rows have no padding to hide, so their mask is a constant, and what it is added to stays as it is. */
static void make_mask(gale__composer *c, gale__composed *made)
{
    const char *name = gale__text_input_names[GALE__TEXT_MASK];
    gale__pb_text shape = gale__compose_unary(c, "Shape", gale__compose_text(gale__text_input_names[GALE__TEXT_IDS]));
    gale__pb_text out, ones = gale__compose_binary(c, "Expand", gale__compose_ints(c, 1, 0, 1), shape);
    size_t kept = 0;
    gale__pb_node *last = gale__compose_add(c, "Cast", ones, gale__compose_text(""), &out);
    gale__compose_set_int(last, "to", made->types[GALE__TEXT_MASK] == GALE_I64 ? 7 : 6);
    if (last) last->output.at[0] = gale__compose_text(name);
    for (size_t i = 0; i < c->g->input.n; i++)
        if (!gale__pb_is(&c->g->input.at[i].name, name)) c->g->input.at[kept++] = c->g->input.at[i];
    c->g->input.n = kept;
    made->takes[GALE__TEXT_MASK] = false;
}

static gale_status add_inputs(gale__composer *c, const gale__composed *made)
{
    static const struct {
        const char *name;
        int element, rank;
    } packing[] = {{GALE__PACK_SEGMENTS, 6, 2}, {GALE__PACK_EACH, 6, 1}, {GALE__PACK_TEXTS, 6, 1},
        {GALE__PACK_PLACES, 6, 2}}; /* 6: i32 */
    gale__pb_graph *g = c->g;
    if (made->pooling != GALE_POOLING_MODEL)
        GALE_TRY(declare(c, GALE__POOL_INPUT, 1, made->packed ? 2 : 3, &g->input.at[g->input.n++]));
    for (int i = 0; made->packed && i < 3 + made->places; i++)
        GALE_TRY(declare(c, packing[i].name, packing[i].element, packing[i].rank, &g->input.at[g->input.n++]));
    return GALE_OK;
}

gale_status gale__compose(gale__onnx *file, const gale__compose_how *how, gale__composed *out)
{
    gale__pb_model *model = gale__onnx_root(file);
    gale__composed made = {.packed = how->packed};
    const gale__pb_value_info *vectors = NULL;
    gale_pooling usual = how->folder ? how->folder : GALE_POOLING_MEAN, wanted = how->wanted;
    bool pooled = false;
    if (!model->graph) return gale__fail(GALE_FORMAT, "the model has no graph");
    gale__composer c = {
        .file = file, .arena = gale__onnx_arena(file), .g = model->graph, .opset = gale__edit_opset_of(model)};
    if (how->packed && (wanted == GALE_POOLING_AUTO || wanted == GALE_POOLING_MODEL)) wanted = usual;
    gale__edit_drop_formal_inputs(model);
    if (how->wide) GALE_TRY(gale__edit_widen(file, c.g));
    GALE_TRY(look_at_inputs(c.g, &made));
    GALE_TRY(find_vectors(c.g, wanted, &vectors, &pooled));
    const int64_t *table = find_vocabulary(c.g);
    made.vocabulary = table ? table[0] : 0;
    made.pooling = pooled ? GALE_POOLING_MODEL : wanted ? wanted : usual;
    gale__pb_text x = vectors->name, last;
    int type = vectors->type->tensor_type->elem_type;
    if (how->packed) GALE_TRY(gale__edit_order(file, c.g));
    GALE_TRY(make_room(&c, how->packed));
    if (how->packed) GALE_TRY(gale__compose_pack(&c, table ? table[1] : 0, &made.places));
    if (how->packed && made.takes[GALE__TEXT_MASK]) make_mask(&c, &made);
    GALE_TRY(add_inputs(&c, &made));
    if (type != 1) {
        gale__pb_text before = x;
        gale__compose_set_int(gale__compose_add(&c, "Cast", before, gale__compose_text(""), &x), "to", 1);
    }
    if (!pooled) x = how->packed ? gale__compose_pool_packed(&c, x, made.pooling) : pool(&c, x, made.pooling);
    for (int i = 0; i < how->n_dense && !pooled; i++) x = dense(&c, x, &how->dense[i]);
    if (how->dims) x = keep_first(&c, x, how->dims);
    if (how->normalize) x = normalize(&c, x);
    gale__pb_node *end = gale__compose_add(&c, "Identity", x, gale__compose_text(""), &last);
    if (end) end->output.at[0] = gale__compose_text(GALE__POOL_OUTPUT);
    GALE_TRY(c.status);
    GALE_TRY(gale__edit_add_initializers(file, c.g, c.tensors, c.n_tensors));
    if (how->packed) GALE_TRY(gale__edit_order(file, c.g));
    *out = made;
    return GALE_OK;
}
