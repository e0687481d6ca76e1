/* The graphs of a model for a drawing: every node with what it reads and makes, types and shapes as far as they are
 * known before a run, and attributes; graphs inside of nodes (branches, loop bodies) follow the main one. */
#include "jobs/model/explain_graph.h"
#include "jobs/model/inspect.h"
#include "onnx/import/infer.h"
#include "onnx/import/kinds.h"
#include <string.h>

enum { NUMBERS_SHOWN = 16, TEXT_SHOWN = 200 };

typedef struct walk {
    gale_explain_result *result;
    gale__arena *arena;
    gale_explain_graph *graphs;        /* the result's */
    const gale__onnx_net *net;         /* the one being described */
    const gale__onnx_inferred *shapes; /* by value of the main graph; NULL: in others */
} walk;

/* As it was declared, or as it follows from the inputs: "f32 [1, ?, n]". */
static void add_declared(gale__str *out, const gale__onnx_net_value *v)
{
    static const char *const kinds[] = {"", "str", "sequence", "map"};
    if (v->kind != GALE__KIND_NUMBERS) {
        gale__str_add(out, kinds[v->kind]);
        return;
    }
    gale__str_add(out, v->typed || v->constant || v->input >= 0 ? gale_type_name(v->type) : "?");
    if (v->rank < 0) return;
    gale__str_add(out, " [");
    for (int i = 0; i < v->rank; i++) {
        if (i) gale__str_add(out, ", ");
        if (v->dims[i] >= 0) gale__str_addf(out, "%lld", (long long)v->dims[i]);
        else gale__str_add(out, v->symbols[i] ? v->symbols[i] : "?");
    }
    gale__str_add(out, "]");
}

static void add_constant(gale__str *out, gale_tensor *t)
{
    gale__str_addf(out, "%s [", gale_type_name(gale_tensor_type(t)));
    for (int i = 0; i < gale_tensor_rank(t); i++)
        gale__str_addf(out, "%s%lld", i ? ", " : "", (long long)gale_tensor_dims(t)[i]);
    gale__str_add(out, "], constant");
}

/* "name: f32 [1, 3, 224, 224]"; "" for one that is left out. */
static const char *describe_value(const walk *w, int32_t value)
{
    gale__str text = {0};
    if (value < 0) return "";
    const gale__onnx_net_value *v = &w->net->values[value];
    gale__add_plain(&text, v->name, strlen(v->name));
    gale__str_add(&text, *v->name ? ": " : "");
    if (v->constant) add_constant(&text, v->constant);
    else if (w->shapes && w->shapes[value].known) gale__onnx_inferred_text(&w->shapes[value], &text);
    else add_declared(&text, v);
    return gale__arena_take(w->arena, &text);
}

static gale_status describe_values(const walk *w, const int32_t *values, int n, const char *const **out, int *count)
{
    const char **list = gale__arena_alloc(w->arena, ((size_t)n + 1) * sizeof *list);
    if (!list) return GALE_NO_MEMORY;
    for (int i = 0; i < n; i++)
        if (!(list[i] = describe_value(w, values[i]))) return GALE_NO_MEMORY;
    *out = list;
    *count = n;
    return GALE_OK;
}

static void add_list(gale__str *out, const gale_attr *a)
{
    gale__str_add(out, "[");
    for (size_t i = 0; i < a->count && i < NUMBERS_SHOWN; i++) {
        if (i) gale__str_add(out, ", ");
        if (a->kind == GALE_ATTR_INTS) gale__str_addf(out, "%lld", (long long)a->ints[i]);
        else if (a->kind == GALE_ATTR_FLOATS) gale__str_addf(out, "%g", a->floats[i]);
        else gale__add_plain(out, a->strings[i], strnlen(a->strings[i], TEXT_SHOWN));
    }
    if (a->count > NUMBERS_SHOWN) gale__str_addf(out, ", ... (%zu)", a->count);
    gale__str_add(out, "]");
}

static const char *describe_attribute(const walk *w, const gale_attr *a)
{
    gale__str text = {0};
    gale__str_addf(&text, "%s = ", a->name);
    switch (a->kind) {
    case GALE_ATTR_INT: gale__str_addf(&text, "%lld", (long long)a->i); break;
    case GALE_ATTR_FLOAT: gale__str_addf(&text, "%g", a->f); break;
    case GALE_ATTR_STRING: gale__add_plain(&text, a->s ? a->s : "", a->s ? strnlen(a->s, TEXT_SHOWN) : 0); break;
    case GALE_ATTR_TENSOR:
        if (a->tensor) add_constant(&text, (gale_tensor *)a->tensor);
        break;
    case GALE_ATTR_GRAPH: gale__str_add(&text, "graph"); break;
    default: add_list(&text, a);
    }
    return gale__arena_take(w->arena, &text);
}

static gale_status describe_attributes(const walk *w, const gale__onnx_net_node *from, gale_explain_node *to)
{
    const char **list = gale__arena_alloc(w->arena, ((size_t)from->n_attrs + 1) * sizeof *list);
    if (!list) return GALE_NO_MEMORY;
    for (int i = 0; i < from->n_attrs; i++)
        if (!(list[i] = describe_attribute(w, &from->attrs[i]))) return GALE_NO_MEMORY;
    to->attributes = list;
    to->n_attributes = from->n_attrs;
    return GALE_OK;
}

static gale_status describe_node(const walk *w, const gale__onnx_net_node *from, gale_explain_node *to)
{
    int *reads = gale__arena_alloc(w->arena, ((size_t)from->n_in + 1) * sizeof *reads);
    to->op = gale__arena_strdup(w->arena, from->op);
    to->where = gale__arena_strdup(w->arena, from->where);
    if (!reads || !to->op || !to->where) return GALE_NO_MEMORY;
    to->place = (gale_explain_place)gale__onnx_net_runner(w->net, from);
    to->reads = reads;
    for (int k = 0; k < from->n_in; k++) {
        int node = from->in[k] < 0 ? -1 : w->net->values[from->in[k]].node;
        if (node >= 0) reads[to->n_reads++] = node;
    }
    GALE_TRY(describe_values(w, from->in, from->n_in, &to->inputs, &to->n_inputs));
    GALE_TRY(describe_values(w, from->out, from->n_out, &to->outputs, &to->n_outputs));
    return describe_attributes(w, from, to);
}

static gale_status describe_net(walk *w, const gale__onnx_net *net, const char *name, int *index);

/* The bodies of a graph's nodes, once the graph itself is in the list. */
static gale_status describe_bodies(walk *w, const gale__onnx_net *net, gale_explain_node *nodes)
{
    for (int i = 0; i < net->n_nodes; i++) {
        const gale__onnx_net_node *from = &net->nodes[i];
        if (!from->n_bodies) continue;
        int *bodies = gale__arena_alloc(w->arena, (size_t)from->n_bodies * sizeof *bodies);
        if (!bodies) return GALE_NO_MEMORY;
        nodes[i].bodies = bodies;
        for (int k = 0; k < from->n_bodies; k++) {
            const char *name = gale__arena_printf(w->arena, "%s of %s", from->bodies[k].name, from->where);
            if (!name) return GALE_NO_MEMORY;
            GALE_TRY(describe_net(w, from->bodies[k].net, name, &bodies[k]));
            nodes[i].n_bodies++;
        }
    }
    return GALE_OK;
}

static gale_status describe_net(walk *w, const gale__onnx_net *net, const char *name, int *index)
{
    gale_explain_result *r = w->result;
    gale_explain_node *nodes = gale__arena_alloc(w->arena, ((size_t)net->n_nodes + 1) * sizeof *nodes);
    gale_explain_graph *graph = nodes ? gale__arena_add(w->arena, &w->graphs, &r->n_graphs, sizeof *graph) : NULL;
    if (!graph) return GALE_NO_MEMORY;
    *index = (int)r->n_graphs - 1;
    *graph = (gale_explain_graph){.name = name, .nodes = nodes, .n_nodes = (size_t)net->n_nodes};
    r->graphs = w->graphs;
    walk inside = *w;
    inside.net = net;
    if (*index) inside.shapes = NULL;
    for (int i = 0; i < net->n_nodes; i++) GALE_TRY(describe_node(&inside, &net->nodes[i], &nodes[i]));
    return describe_bodies(w, net, nodes);
}

gale_status gale__explain_graphs(gale__onnx_net *net, gale_explain_result *r)
{
    gale__onnx_inferred *shapes = gale__calloc((size_t)net->n_values + 1, sizeof *shapes);
    if (!shapes) return GALE_NO_MEMORY;
    walk w = {.result = r, .arena = gale__result_arena(r), .shapes = shapes};
    int index;
    gale_status status = gale__onnx_net_infer(net, shapes);
    if (status == GALE_OK) status = describe_net(&w, net, "main graph", &index);
    gale__free(shapes);
    return status;
}
