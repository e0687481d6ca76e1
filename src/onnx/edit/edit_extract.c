/* Extracts part of a model: the nodes between given values, found by walking back from the results. */
#include "onnx/edit/edit.h"
#include <string.h>

typedef struct cut {
    gale__arena *arena;
    gale__pb_graph *g;
    gale__onnx_names makers; /* value to node */
    gale__onnx_names types;
    gale__onnx_names wanted; /* values that stay; 1: as an input */
    bool *keep;              /* nodes */
    int32_t *stack;
    size_t n_stack;
    gale__pb_text *in, *out;
    size_t n_in, n_out;
} cut;

/* --- The names asked for. --- */

static bool is_value(const cut *c, const char *name, size_t size)
{
    const gale__pb_graph *g = c->g;
    gale__pb_text text = {name, size};
    if (gale__onnx_names_find(&c->makers, name, size) >= 0) return true;
    for (size_t i = 0; i < g->input.n; i++)
        if (gale__pb_text_equal(&g->input.at[i].name, &text)) return true;
    for (size_t i = 0; i < g->initializer.n; i++)
        if (gale__pb_text_equal(&g->initializer.at[i].name, &text)) return true;
    for (size_t i = 0; i < g->sparse_initializer.n; i++)
        if (g->sparse_initializer.at[i].values && gale__pb_text_equal(&g->sparse_initializer.at[i].values->name, &text))
            return true;
    return false;
}

/* Names with commas between them, all of which must be values; the first that is not, or NULL. */
static const char *split(cut *c, const char *text, size_t size, gale__pb_text *to, size_t *n)
{
    *n = 0;
    for (const char *p = text, *end = text + size; p <= end;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        size_t length = (size_t)((comma ? comma : end) - p);
        if (!is_value(c, p, length)) return p;
        to[(*n)++] = (gale__pb_text){p, length};
        p += length + 1;
    }
    return NULL;
}

static gale_status own_name(cut *c, gale__pb_text *name)
{
    char *copy = gale__arena_alloc(c->arena, name->size + 1);
    if (!copy) return GALE_NO_MEMORY;
    name->at = memcpy(copy, name->at, name->size);
    return GALE_OK;
}

/* Names may contain colons, so the separator is the colon that leaves known names on both sides. */
static gale_status parse(cut *c, const char *text)
{
    const char *wrong = NULL;
    size_t size = strlen(text), most = size + 2;
    c->in = gale__arena_alloc(c->arena, most * sizeof *c->in);
    c->out = gale__arena_alloc(c->arena, most * sizeof *c->out);
    if (!c->in || !c->out) return GALE_NO_MEMORY;
    for (const char *colon = strchr(text, ':'); colon; colon = strchr(colon + 1, ':')) {
        const char *a = split(c, text, (size_t)(colon - text), c->in, &c->n_in),
                   *b = split(c, colon + 1, strlen(colon + 1), c->out, &c->n_out);
        if (!a && !b) {
            for (size_t i = 0; i < c->n_in; i++) GALE_TRY(own_name(c, &c->in[i]));
            for (size_t i = 0; i < c->n_out; i++) GALE_TRY(own_name(c, &c->out[i]));
            return GALE_OK;
        }
        wrong = a ? a : b;
    }
    if (!wrong) return gale__fail(GALE_INVALID, "--extract: '%s' is not INPUTS:OUTPUTS", text);
    return gale__fail(GALE_NOT_FOUND, "no value '%.*s' in the model", (int)strcspn(wrong, ",:"), wrong);
}

/* --- Walking back. --- */

static gale_status want(void *user, const gale__pb_text *name)
{
    cut *c = user;
    if (!name->size || gale__onnx_names_find(&c->wanted, name->at, name->size) >= 0) return GALE_OK;
    GALE_TRY(gale__onnx_names_set(&c->wanted, name->at, name->size, 0));
    int32_t node = gale__onnx_names_find(&c->makers, name->at, name->size);
    if (node < 0 || c->keep[node]) return GALE_OK;
    c->keep[node] = true;
    c->stack[c->n_stack++] = node;
    return GALE_OK;
}

static gale_status collect_needed(cut *c)
{
    for (size_t i = 0; i < c->n_in; i++) GALE_TRY(gale__onnx_names_set(&c->wanted, c->in[i].at, c->in[i].size, 1));
    for (size_t i = 0; i < c->n_out; i++) {
        if (gale__onnx_names_find(&c->wanted, c->out[i].at, c->out[i].size) == 1)
            return gale__fail(GALE_INVALID, "'%s' is given as an input and as an output", c->out[i].at);
        GALE_TRY(want(c, &c->out[i]));
    }
    while (c->n_stack) {
        const gale__pb_node *node = &c->g->node.at[c->stack[--c->n_stack]];
        for (size_t i = 0; i < node->input.n; i++) GALE_TRY(want(c, &node->input.at[i]));
        GALE_TRY(gale__edit_body_names(node, want, c));
    }
    return GALE_OK;
}

/* --- The new graph. --- */

static const gale__pb_value_info *find_info(const gale__pb_value_info *infos, size_t n, const gale__pb_text *name)
{
    for (size_t i = 0; i < n; i++)
        if (gale__pb_text_equal(&infos[i].name, name)) return &infos[i];
    return NULL;
}

/* As the file declares it; else its type, as its operators say. */
static gale_status describe(cut *c, const gale__pb_text *name, gale__pb_value_info *out)
{
    const gale__pb_graph *g = c->g;
    const gale__pb_value_info *found = find_info(g->input.at, g->input.n, name);
    if (!found) found = find_info(g->value_info.at, g->value_info.n, name);
    if (!found) found = find_info(g->output.at, g->output.n, name);
    if (found) return *out = *found, GALE_OK;
    int type = gale__edit_type_of(&c->types, name);
    if (!type)
        return gale__fail(GALE_UNSUPPORTED,
            "the type of '%s' is not declared in the file and cannot be inferred from its operators; extract at "
            "another value",
            name->at);
    *out = (gale__pb_value_info){.name = *name, .type = gale__arena_alloc(c->arena, sizeof *out->type)};
    if (!out->type) return GALE_NO_MEMORY;
    out->type->tensor_type = gale__arena_alloc(c->arena, sizeof *out->type->tensor_type);
    if (!out->type->tensor_type) return GALE_NO_MEMORY;
    out->type->tensor_type->elem_type = type;
    return GALE_OK;
}

/* An input of the whole model that is still needed has to be one of the part, unless it has a value. */
static gale_status check_inputs(const cut *c)
{
    for (size_t i = 0; i < c->g->input.n; i++) {
        const gale__pb_text *name = &c->g->input.at[i].name;
        bool has_value = false;
        if (!name->size || gale__onnx_names_find(&c->wanted, name->at, name->size) != 0) continue;
        for (size_t k = 0; k < c->g->initializer.n; k++)
            has_value = has_value || gale__pb_text_equal(&c->g->initializer.at[k].name, name);
        if (!has_value)
            return gale__fail(GALE_INVALID, "the outputs also depend on input '%s'; add it to the inputs", name->at);
    }
    return GALE_OK;
}

static bool stays(const cut *c, const gale__pb_text *name)
{
    return name->size && gale__onnx_names_find(&c->wanted, name->at, name->size) == 0;
}

static void filter(cut *c)
{
    gale__pb_graph *g = c->g;
    size_t n = 0;
    for (size_t i = 0; i < g->node.n; i++)
        if (c->keep[i]) g->node.at[n++] = g->node.at[i];
    g->node.n = n;
    for (size_t i = n = 0; i < g->initializer.n; i++)
        if (stays(c, &g->initializer.at[i].name)) g->initializer.at[n++] = g->initializer.at[i];
    g->initializer.n = n;
    for (size_t i = n = 0; i < g->sparse_initializer.n; i++)
        if (g->sparse_initializer.at[i].values && stays(c, &g->sparse_initializer.at[i].values->name))
            g->sparse_initializer.at[n++] = g->sparse_initializer.at[i];
    g->sparse_initializer.n = n;
    for (size_t i = n = 0; i < g->value_info.n; i++)
        if (stays(c, &g->value_info.at[i].name)) g->value_info.at[n++] = g->value_info.at[i];
    g->value_info.n = n;
}

static gale_status replace(cut *c)
{
    gale__pb_value_info *in = gale__arena_alloc(c->arena, (c->n_in + c->g->input.n) * sizeof *in),
                        *out = gale__arena_alloc(c->arena, c->n_out * sizeof *out);
    if (!in || !out) return GALE_NO_MEMORY;
    for (size_t i = 0; i < c->n_in; i++) GALE_TRY(describe(c, &c->in[i], &in[i]));
    for (size_t i = 0; i < c->n_out; i++) GALE_TRY(describe(c, &c->out[i], &out[i]));
    GALE_TRY(check_inputs(c));
    size_t n = c->n_in;
    for (size_t i = 0; i < c->g->input.n; i++) /* those with a value, which old files list among the inputs */
        if (stays(c, &c->g->input.at[i].name)) in[n++] = c->g->input.at[i];
    filter(c);
    c->g->input.at = in;
    c->g->input.n = n;
    c->g->output.at = out;
    c->g->output.n = c->n_out;
    return GALE_OK;
}

gale_status gale__edit_extract(gale__onnx *file, gale__pb_model *model, const char *text)
{
    cut c = {.arena = gale__onnx_arena(file), .g = model->graph};
    if (!c.g) return gale__fail(GALE_INVALID, "the model has no graph");
    gale_status status = gale__edit_order(file, c.g);
    c.keep = gale__arena_alloc(c.arena, c.g->node.n * sizeof *c.keep);
    c.stack = gale__arena_alloc(c.arena, c.g->node.n * sizeof *c.stack);
    if (!c.keep || !c.stack) status = GALE_NO_MEMORY;
    for (size_t i = 0; i < c.g->node.n && status == GALE_OK; i++)
        for (size_t k = 0; k < c.g->node.at[i].output.n && status == GALE_OK; k++) {
            const gale__pb_text *name = &c.g->node.at[i].output.at[k];
            if (name->size) status = gale__onnx_names_set(&c.makers, name->at, name->size, (int32_t)i);
        }
    if (status == GALE_OK) status = gale__edit_types(c.g, &c.types);
    if (status == GALE_OK) status = parse(&c, text);
    if (status == GALE_OK) status = collect_needed(&c);
    if (status == GALE_OK) status = replace(&c);
    gale__onnx_names_finish(&c.makers);
    gale__onnx_names_finish(&c.types);
    gale__onnx_names_finish(&c.wanted);
    return status;
}
