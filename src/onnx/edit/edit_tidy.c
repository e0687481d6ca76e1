/* Removes redundancy: equal nodes and equal small initialisers are merged, and unused ones are removed.  A node's key
 * is its message without names, so equal means equal in every attribute; names used by bodies or the model's outputs
 * are kept. */
#include "onnx/edit/edit.h"
#include "onnx/wire/write.h"
#include <string.h>

enum { SMALL = 1024 };

typedef struct tidy {
    gale__onnx *file;
    gale__arena *arena;
    gale__pb_model *model;
    gale__pb_graph *g;
    gale__onnx_names held;    /* names that must stay */
    gale__onnx_names seen;    /* key to the initialiser or node that had it first */
    gale__onnx_names renamed; /* name to its place in `to` */
    gale__pb_text *to;
    size_t n_to, to_capacity;
    gale__onnx_names needed;
} tidy;

bool gale__edit_is_pure(const gale__pb_model *model, const gale__pb_node *node)
{
    static const char *const random[] = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
        "Bernoulli", "Multinomial", "Dropout"};
    bool ours = gale__pb_is_core(&node->domain) || gale__pb_is(&node->domain, "ai.onnx.ml") ||
                gale__pb_is(&node->domain, "com.microsoft");
    for (size_t i = 0; i < sizeof random / sizeof *random; i++) ours = ours && !gale__pb_is(&node->op_type, random[i]);
    for (size_t i = 0; i < node->attribute.n; i++)
        ours = ours && !node->attribute.at[i].g && !node->attribute.at[i].graphs.n;
    for (size_t i = 0; ours && i < model->functions.n; i++)
        ours = !gale__pb_text_equal(&model->functions.at[i].name, &node->op_type);
    return ours;
}

static gale_status add_name(void *names, const gale__pb_text *name)
{
    return name->size ? gale__onnx_names_set(names, name->at, name->size, 1) : GALE_OK;
}

static bool has(const gale__onnx_names *names, const gale__pb_text *name)
{
    return name->size && gale__onnx_names_find(names, name->at, name->size) >= 0;
}

static gale_status hold(tidy *t)
{
    for (size_t i = 0; i < t->g->input.n; i++) GALE_TRY(add_name(&t->held, &t->g->input.at[i].name));
    for (size_t i = 0; i < t->g->output.n; i++) GALE_TRY(add_name(&t->held, &t->g->output.at[i].name));
    for (size_t i = 0; i < t->g->node.n; i++) {
        const gale__pb_node *node = &t->g->node.at[i];
        GALE_TRY(gale__edit_body_names(node, add_name, &t->held));
        for (size_t k = 0; gale__pb_is(&node->op_type, "Gradient") && k < node->attribute.n;
             k++) { /* which names values in attributes */
            GALE_TRY(add_name(&t->held, &node->attribute.at[k].s));
            for (size_t m = 0; m < node->attribute.at[k].strings.n; m++)
                GALE_TRY(add_name(&t->held, &node->attribute.at[k].strings.at[m]));
        }
    }
    return GALE_OK;
}

static gale_status set_renamed(tidy *t, const gale__pb_text *from, const gale__pb_text *to)
{
    if (!from->size) return GALE_OK;
    GALE_TRY(gale__grow((void **)&t->to, &t->to_capacity, t->n_to + 1, sizeof *t->to));
    t->to[t->n_to] = *to;
    return gale__onnx_names_set(&t->renamed, from->at, from->size, (int32_t)t->n_to++);
}

/* The one that had this key before, or -1: then it is `index` from now on. */
static gale_status first_with(tidy *t, gale__str *key, int32_t index, int32_t *out)
{
    GALE_TRY(gale__str_check(key));
    *out = gale__onnx_names_find(&t->seen, key->text, key->length);
    if (*out >= 0) return GALE_OK;
    char *copy = gale__arena_copy(t->arena, key->text, key->length);
    return copy ? gale__onnx_names_set(&t->seen, copy, key->length, index) : GALE_NO_MEMORY;
}

static gale_status join_initialiser(tidy *t, size_t index, bool *stays)
{
    const gale__pb_tensor *from = &t->g->initializer.at[index];
    gale__pb_tensor bare = *from;
    gale__str key = {0};
    int32_t first = -1;
    *stays = true;
    if (has(&t->held, &from->name) || from->external_data.n) return GALE_OK;
    bare.name = bare.doc_string = (gale__pb_text){0};
    bare.head.present = 0;
    bare.metadata_props.n = 0;
    if (gale__pb_size(t->file, GALE__PB_IS_tensor, &bare, NULL, 0) > SMALL) return GALE_OK;
    gale__str_add(&key, "T");
    gale_status status = gale__pb_write(t->file, GALE__PB_IS_tensor, &bare, NULL, 0, &key, NULL);
    if (status == GALE_OK) status = first_with(t, &key, (int32_t)index, &first);
    gale__str_finish(&key);
    if (status != GALE_OK || first < 0) return status;
    *stays = false;
    return set_renamed(t, &from->name, &t->g->initializer.at[first].name);
}

static gale_status join_initialisers(tidy *t)
{
    bool *stays = gale__arena_alloc(t->arena, (t->g->initializer.n + 1) * sizeof *stays);
    size_t n = 0;
    if (!stays) return GALE_NO_MEMORY;
    for (size_t i = 0; i < t->g->initializer.n; i++) GALE_TRY(join_initialiser(t, i, &stays[i]));
    for (size_t i = 0; i < t->g->initializer.n; i++)
        if (stays[i]) t->g->initializer.at[n++] = t->g->initializer.at[i];
    t->g->initializer.n = n;
    return GALE_OK;
}

static gale_status rename_inputs(tidy *t, gale__pb_node *node)
{
    gale__pb_text *copy = gale__arena_copy(t->arena, node->input.at, node->input.n * sizeof *copy);
    if (!copy) return GALE_NO_MEMORY;
    for (size_t i = 0; i < node->input.n; i++) {
        int32_t to = copy[i].size ? gale__onnx_names_find(&t->renamed, copy[i].at, copy[i].size) : -1;
        if (to >= 0) copy[i] = t->to[to];
    }
    node->input.at = copy;
    return GALE_OK;
}

static gale_status join_node(tidy *t, const gale__pb_node *node, size_t index, bool *stays)
{
    gale__pb_node bare = *node;
    gale__str key = {0};
    int32_t first = -1;
    *stays = true;
    if (!gale__edit_is_pure(t->model, node)) return GALE_OK;
    for (size_t i = 0; i < node->output.n; i++)
        if (has(&t->held, &node->output.at[i])) return GALE_OK;
    bare.name = bare.doc_string = (gale__pb_text){0};
    bare.head.present = 0;
    bare.metadata_props.n = bare.output.n = 0;
    gale__str_add(&key, "N");
    for (size_t i = 0; i < node->output.n; i++) gale__str_add(&key, node->output.at[i].size ? "1" : "0");
    gale_status status = gale__pb_size(t->file, GALE__PB_IS_node, &bare, NULL, 0) > SMALL
                             ? GALE_OK
                             : gale__pb_write(t->file, GALE__PB_IS_node, &bare, NULL, 0, &key, NULL);
    if (status == GALE_OK && key.length > 1 + node->output.n) status = first_with(t, &key, (int32_t)index, &first);
    gale__str_finish(&key);
    if (status != GALE_OK || first < 0) return status;
    *stays = false;
    for (size_t i = 0; i < node->output.n; i++)
        GALE_TRY(set_renamed(t, &node->output.at[i], &t->g->node.at[first].output.at[i]));
    return GALE_OK;
}

static gale_status join_nodes(tidy *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->g->node.n; i++) {
        gale__pb_node *node = &t->g->node.at[i];
        bool stays;
        GALE_TRY(rename_inputs(t, node));
        GALE_TRY(join_node(t, node, n, &stays));
        if (stays) t->g->node.at[n++] = *node;
    }
    t->g->node.n = n;
    return GALE_OK;
}

/* --- What nothing reads. --- */

static gale_status find_needed(tidy *t, bool *keep)
{
    for (size_t i = 0; i < t->g->output.n; i++) GALE_TRY(add_name(&t->needed, &t->g->output.at[i].name));
    for (size_t i = t->g->node.n; i-- > 0;) {
        const gale__pb_node *node = &t->g->node.at[i];
        for (size_t k = 0; k < node->output.n; k++) keep[i] = keep[i] || has(&t->needed, &node->output.at[k]);
        for (size_t k = 0; keep[i] && k < node->input.n; k++) GALE_TRY(add_name(&t->needed, &node->input.at[k]));
        if (keep[i]) GALE_TRY(gale__edit_body_names(node, add_name, &t->needed));
        const gale__pb_attribute *y =
            keep[i] && gale__pb_is(&node->op_type, "Gradient") ? gale__pb_find_attribute(node, "y") : NULL;
        if (y) GALE_TRY(add_name(&t->needed, &y->s)); /* named, not read */
    }
    return GALE_OK;
}

static gale_status drop_unread(tidy *t)
{
    gale__pb_graph *g = t->g;
    size_t n = 0;
    bool *keep = gale__arena_alloc(t->arena, (g->node.n + 1) * sizeof *keep);
    if (!keep) return GALE_NO_MEMORY;
    memset(keep, 0, g->node.n);
    GALE_TRY(find_needed(t, keep));
    for (size_t i = 0; i < g->node.n; i++)
        if (keep[i]) g->node.at[n++] = g->node.at[i];
    g->node.n = n;
    for (size_t i = n = 0; i < g->initializer.n; i++)
        if (has(&t->needed, &g->initializer.at[i].name)) g->initializer.at[n++] = g->initializer.at[i];
    g->initializer.n = n;
    for (size_t i = n = 0; i < g->sparse_initializer.n; i++)
        if (g->sparse_initializer.at[i].values && has(&t->needed, &g->sparse_initializer.at[i].values->name))
            g->sparse_initializer.at[n++] = g->sparse_initializer.at[i];
    g->sparse_initializer.n = n;
    for (size_t i = n = 0; i < g->value_info.n; i++)
        if (has(&t->needed, &g->value_info.at[i].name)) g->value_info.at[n++] = g->value_info.at[i];
    g->value_info.n = n;
    return GALE_OK;
}

gale_status gale__edit_tidy(gale__onnx *file, gale__pb_model *model)
{
    tidy t = {.file = file, .arena = gale__onnx_arena(file), .model = model, .g = model->graph};
    if (!t.g) return gale__fail(GALE_INVALID, "the model has no graph");
    gale_status status = hold(&t);
    if (status == GALE_OK) status = join_initialisers(&t);
    if (status == GALE_OK) status = join_nodes(&t);
    if (status == GALE_OK) status = drop_unread(&t);
    gale__onnx_names_finish(&t.held);
    gale__onnx_names_finish(&t.seen);
    gale__onnx_names_finish(&t.renamed);
    gale__onnx_names_finish(&t.needed);
    gale__free(t.to);
    return status;
}
