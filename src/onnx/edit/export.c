/* Converts a net back to messages: the result of the adapters as a model of the newest opset.  Values keep their names
 * in the file if possible; values from functions and adapters get unused names.  Initialisers of the file are reused
 * as messages, so that their data is not moved. */
#include "graph/run/tensor.h"
#include "onnx/edit/edit.h"
#include "onnx/import/net.h"
#include "onnx/wire/schema.h"
#include <string.h>

enum { IR_NEWEST = 14, OPSET_LEAST = 13, ML_NEWEST = 5, DOMAINS = 16 };

typedef struct export
{
    gale__arena *arena;
    gale__onnx_names used, nodes; /* names of values, of nodes */
    gale__pb_opset domains[DOMAINS];
    size_t n_domains;
    int made;
}
export;

/* One graph that is being written. */
typedef struct scope {
    export *x;
    struct scope *outer;
    const gale__onnx_net *net;
    gale__pb_text *names; /* by value; size 0: not named yet */
    gale__pb_node *nodes;
    size_t n_nodes, nodes_capacity;
    gale__pb_tensor *tensors;
    size_t n_tensors, tensors_capacity;
    gale__pb_sparse *sparse;
    size_t n_sparse, sparse_capacity;
} scope;

static gale__pb_text text_of(const char *s) { return (gale__pb_text){s, strlen(s)}; }

static gale_status reserve(export *x, gale__pb_text name)
{
    return name.size ? gale__onnx_names_set(&x->used, name.at, name.size, 1) : GALE_OK;
}

/* `wish`, or an unused name derived from it. */
static gale_status unique(export *x, const char *wish, gale__pb_text *out)
{
    const char *name = *wish ? wish : gale__arena_printf(x->arena, "value_%d", x->made++);
    while (name && gale__onnx_names_find(&x->used, name, strlen(name)) >= 0)
        name = gale__arena_printf(x->arena, "%s_%d", *wish ? wish : "value", x->made++);
    if (!name) return GALE_NO_MEMORY;
    *out = text_of(name);
    return reserve(x, *out);
}

/* --- Constants. --- */

static bool same_data(const gale_tensor *a, const gale_tensor *b)
{
    return a->storage && a->storage == b->storage && a->host == b->host && a->type == b->type &&
           a->size_bytes == b->size_bytes && a->rank == b->rank &&
           !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

static gale_status name_of(scope *s, int32_t value, gale__pb_text *out);

/* A constant that a body takes from outside is one inside too: it is named there, and written once. */
static gale_status find_outside(scope *s, const gale_tensor *t, gale__pb_text *out)
{
    for (scope *o = s->outer; o; o = o->outer)
        for (int32_t i = 0; i < o->net->n_values; i++)
            if (o->net->values[i].constant && same_data(o->net->values[i].constant, t)) return name_of(o, i, out);
    return GALE_OK;
}

static gale_status add_sparse(scope *s, const gale__pb_sparse *from, gale__pb_text name)
{
    gale__pb_sparse copy = *from;
    copy.values = gale__arena_copy(s->x->arena, from->values, sizeof *from->values);
    if (!copy.values) return GALE_NO_MEMORY;
    copy.values->name = name;
    GALE_TRY(gale__grow((void **)&s->sparse, &s->sparse_capacity, s->n_sparse + 1, sizeof *s->sparse));
    s->sparse[s->n_sparse++] = copy;
    return GALE_OK;
}

static gale_status add_constant(scope *s, int32_t value, gale__pb_text name)
{
    const gale__pb_graph *from = s->net->from;
    size_t at = (size_t)value;
    if (from && at >= from->initializer.n && at < from->initializer.n + from->sparse_initializer.n)
        return add_sparse(s, &from->sparse_initializer.at[at - from->initializer.n], name);
    GALE_TRY(gale__grow((void **)&s->tensors, &s->tensors_capacity, s->n_tensors + 1, sizeof *s->tensors));
    gale__pb_tensor *t = &s->tensors[s->n_tensors];
    if (from && at < from->initializer.n) *t = from->initializer.at[at];
    else GALE_TRY(gale__onnx_from_tensor(s->x->arena, s->net->values[value].constant, name.at, t));
    t->name = name;
    s->n_tensors++;
    return GALE_OK;
}

/* The name of a value; a constant is written when it is first asked for. */
static gale_status name_of(scope *s, int32_t value, gale__pb_text *out)
{
    *out = (gale__pb_text){"", 0};
    if (value < 0) return GALE_OK;
    gale__pb_text *name = &s->names[value];
    const gale__onnx_net_value *v = &s->net->values[value];
    if (!name->size && v->constant) {
        bool file = s->net->from && (size_t)value < s->net->from->initializer.n + s->net->from->sparse_initializer.n;
        if (!file) GALE_TRY(find_outside(s, v->constant, name));
        if (!name->size) {
            GALE_TRY(unique(s->x, v->name, name));
            GALE_TRY(add_constant(s, value, *name));
        }
    }
    if (!name->size) GALE_TRY(unique(s->x, v->name, name));
    *out = *name;
    return GALE_OK;
}

/* --- Nodes. --- */

static gale_status names_of(scope *s, const int32_t *values, int n, gale__pb_text **out)
{
    *out = gale__arena_alloc(s->x->arena, ((size_t)n + 1) * sizeof **out);
    if (!*out) return GALE_NO_MEMORY;
    for (int i = 0; i < n; i++) GALE_TRY(name_of(s, values[i], &(*out)[i]));
    return GALE_OK;
}

static gale_status copy_floats(gale__arena *arena, const gale_attr *a, gale__pb_attribute *to)
{
    to->floats.at = gale__arena_alloc(arena, (a->count + 1) * sizeof *to->floats.at);
    if (!to->floats.at) return GALE_NO_MEMORY;
    for (size_t i = 0; i < a->count; i++) to->floats.at[i] = (float)a->floats[i];
    to->floats.n = a->count;
    return GALE_OK;
}

static gale_status copy_strings(gale__arena *arena, const gale_attr *a, gale__pb_attribute *to)
{
    to->strings.at = gale__arena_alloc(arena, (a->count + 1) * sizeof *to->strings.at);
    if (!to->strings.at) return GALE_NO_MEMORY;
    for (size_t i = 0; i < a->count; i++) to->strings.at[i] = text_of(a->strings[i]);
    to->strings.n = a->count;
    return GALE_OK;
}

/* Marks a scalar field as present, so that it is written even if it is zero. */
static void mark_present(gale__pb_attribute *a, size_t offset)
{
    const gale__pb_table *t = &gale__pb_tables[GALE__PB_IS_attribute];
    for (int i = 0; i < t->n_fields; i++)
        if (t->fields[i].offset == offset) a->head.present |= 1ull << i;
}

static gale_status write_attr(export *x, const gale_attr *from, gale__pb_attribute *to)
{
    *to = (gale__pb_attribute){.name = text_of(from->name)};
    switch (from->kind) {
    case GALE_ATTR_INT:
        to->type = GALE__PB_INT, to->i = from->i, mark_present(to, offsetof(gale__pb_attribute, i));
        return GALE_OK;
    case GALE_ATTR_FLOAT:
        to->type = GALE__PB_FLOAT, to->f = (float)from->f, mark_present(to, offsetof(gale__pb_attribute, f));
        return GALE_OK;
    case GALE_ATTR_STRING:
        to->type = GALE__PB_STRING, to->s = (gale__pb_text){from->s, from->count ? from->count : strlen(from->s)},
        mark_present(to, offsetof(gale__pb_attribute, s));
        return GALE_OK;
    case GALE_ATTR_INTS:
        to->type = GALE__PB_INTS, to->ints.n = from->count;
        to->ints.at = gale__arena_copy(x->arena, from->ints, from->count * sizeof *from->ints);
        return to->ints.at ? GALE_OK : GALE_NO_MEMORY;
    case GALE_ATTR_FLOATS: to->type = GALE__PB_FLOATS; return copy_floats(x->arena, from, to);
    case GALE_ATTR_STRINGS: to->type = GALE__PB_STRINGS; return copy_strings(x->arena, from, to);
    case GALE_ATTR_TENSOR:
        to->type = GALE__PB_TENSOR;
        to->t = gale__arena_alloc(x->arena, sizeof *to->t);
        return to->t ? gale__onnx_from_tensor(x->arena, from->tensor, "", to->t) : GALE_NO_MEMORY;
    case GALE_ATTR_GRAPH: break;
    }
    return gale__fail(GALE_INTERNAL, "attribute '%s' holds an internal graph", from->name);
}

static gale_status write_graph(scope *s, gale__pb_graph *to);

static gale_status write_attrs(scope *s, const gale__onnx_net_node *node, gale__pb_node *to)
{
    size_t types = node->from ? node->from->attribute.n : 0, n = 0;
    gale__pb_attribute *list =
        gale__arena_alloc(s->x->arena, ((size_t)node->n_attrs + (size_t)node->n_bodies + types + 3) * sizeof *list);
    if (!list) return GALE_NO_MEMORY;
    for (int i = 0; i < node->n_attrs; i++) GALE_TRY(write_attr(s->x, &node->attrs[i], &list[n++]));
    for (int i = 0; i < node->n_bodies; i++) {
        scope inner = {.x = s->x, .outer = s, .net = node->bodies[i].net};
        list[n] = (gale__pb_attribute){.name = text_of(node->bodies[i].name),
            .type = GALE__PB_GRAPH,
            .g = gale__arena_alloc(s->x->arena, sizeof *list->g)};
        if (!list[n].g) return GALE_NO_MEMORY;
        GALE_TRY(write_graph(&inner, list[n++].g));
    }
    for (size_t i = 0; i < types && gale__pb_is(&node->from->op_type, node->op);
         i++) /* which the importer finds from values */
        if (node->from->attribute.at[i].tp && !node->from->attribute.at[i].ref_attr_name.size)
            list[n++] = node->from->attribute.at[i];
    to->attribute.at = list;
    to->attribute.n = n;
    return GALE_OK;
}

static gale_status add_domain(export *x, const gale__onnx_net_node *node)
{
    int64_t version = !strcmp(node->domain, "ai.onnx.ml") ? ML_NEWEST : node->opset;
    for (size_t i = 0; i < x->n_domains; i++)
        if (gale__pb_is(&x->domains[i].domain, node->domain)) return GALE_OK;
    if (x->n_domains == DOMAINS)
        return gale__onnx_net_fail(node, GALE_LIMIT, "the model uses more than %d domains", DOMAINS);
    x->domains[x->n_domains++] = (gale__pb_opset){.domain = text_of(node->domain), .version = version};
    return GALE_OK;
}

static gale_status push(scope *s, const gale__pb_node *node)
{
    GALE_TRY(gale__grow((void **)&s->nodes, &s->nodes_capacity, s->n_nodes + 1, sizeof *s->nodes));
    s->nodes[s->n_nodes++] = *node;
    return GALE_OK;
}

/* Gradient names what it reads; the importer put the value to differentiate in front. */
static gale_status name_gradient(gale__pb_node *to)
{
    for (size_t i = 0; i < to->attribute.n; i++) {
        gale__pb_attribute *a = &to->attribute.at[i];
        if (gale__pb_is(&a->name, "y")) a->s = to->input.at[0];
        if (gale__pb_is(&a->name, "xs")) a->strings.at = to->input.at + 1, a->strings.n = to->input.n - 1;
    }
    to->input.at++;
    to->input.n--;
    return GALE_OK;
}

/* Upsample went out with opset 10; Resize with these modes is the same. */
static gale_status resize_instead(scope *s, gale__pb_node *to)
{
    static const gale_attr modes[] = {
        GALE_STRING_ATTR("coordinate_transformation_mode", "asymmetric"), GALE_STRING_ATTR("nearest_mode", "floor")};
    gale__pb_text *in = gale__arena_alloc(s->x->arena, 3 * sizeof *in);
    if (!in) return GALE_NO_MEMORY;
    in[0] = to->input.at[0], in[1] = (gale__pb_text){"", 0}, in[2] = to->input.at[1];
    to->input.at = in;
    to->input.n = 3;
    to->op_type = text_of("Resize");
    for (int i = 0; i < 2; i++)
        GALE_TRY(write_attr(s->x, &modes[i], &to->attribute.at[to->attribute.n++])); /* write_attrs leaves room */
    return GALE_OK;
}

static gale_status write_node(scope *s, const gale__onnx_net_node *node)
{
    gale__pb_node to = {.op_type = text_of(node->op), .domain = text_of(node->domain)};
    const gale__pb_node *from = node->from;
    if (from && from->name.size && gale__onnx_names_find(&s->x->nodes, from->name.at, from->name.size) < 0) {
        to.name = from->name;
        GALE_TRY(gale__onnx_names_set(&s->x->nodes, to.name.at, to.name.size, 1));
    }
    if (from && gale__pb_is(&from->op_type, node->op))
        to.doc_string = from->doc_string, to.metadata_props.at = from->metadata_props.at,
        to.metadata_props.n = from->metadata_props.n;
    GALE_TRY(add_domain(s->x, node));
    GALE_TRY(names_of(s, node->in, node->n_in, &to.input.at));
    to.input.n = (size_t)node->n_in;
    GALE_TRY(write_attrs(s, node, &to));
    GALE_TRY(names_of(s, node->out, node->n_out, &to.output.at));
    to.output.n = (size_t)node->n_out;
    if (!strcmp(node->op, "Gradient") && to.input.n) GALE_TRY(name_gradient(&to));
    if (!strcmp(node->op, "Upsample") && !*node->domain && to.input.n == 2) GALE_TRY(resize_instead(s, &to));
    return push(s, &to);
}

static gale_status push_identity(scope *s, gale__pb_text from, gale__pb_text to)
{
    gale__pb_node n = {.op_type = text_of("Identity")};
    n.input.at = gale__arena_copy(s->x->arena, &from, sizeof from);
    n.output.at = gale__arena_copy(s->x->arena, &to, sizeof to);
    n.input.n = n.output.n = 1;
    return n.input.at && n.output.at ? push(s, &n) : GALE_NO_MEMORY;
}

/* --- Graphs. --- */

/* As the file has it under another name; else the element type alone. */
static gale_status describe(scope *s, const gale__pb_value_info *infos, size_t n, const gale__onnx_net_value *v,
    gale__pb_text name, gale__pb_value_info *out)
{
    for (size_t i = 0; i < n; i++)
        if (infos[i].name.size && gale__pb_is(&infos[i].name, v->name)) {
            *out = infos[i];
            out->name = name;
            return GALE_OK;
        }
    *out = (gale__pb_value_info){.name = name};
    if (v->kind != GALE__KIND_NUMBERS) return GALE_OK;
    out->type = gale__arena_alloc(s->x->arena, sizeof *out->type);
    if (!out->type || !(out->type->tensor_type = gale__arena_alloc(s->x->arena, sizeof *out->type->tensor_type)))
        return GALE_NO_MEMORY;
    out->type->tensor_type->elem_type = gale__onnx_type_number(v->type);
    return GALE_OK;
}

static gale_status write_inputs(scope *s, gale__pb_graph *to)
{
    const gale__onnx_net *net = s->net;
    int own = net->n_inputs - net->n_captures;
    to->input.at = gale__arena_alloc(s->x->arena, ((size_t)own + 1) * sizeof *to->input.at);
    if (!to->input.at) return GALE_NO_MEMORY;
    for (int i = 0; i < own; i++) {
        const gale__onnx_net_value *v = &net->values[net->inputs[i]];
        gale__pb_text *name = &s->names[net->inputs[i]];
        if (s->outer) GALE_TRY(unique(s->x, v->name, name));
        else *name = text_of(v->name);
        GALE_TRY(describe(s, net->from ? net->from->input.at : NULL, net->from ? net->from->input.n : 0, v, *name,
            &to->input.at[to->input.n++]));
    }
    for (int i = 0; i < net->n_captures; i++)
        GALE_TRY(name_of(s->outer, net->captures[i], &s->names[net->inputs[own + i]]));
    return GALE_OK;
}

/* The main graph's results have the names they had. */
static gale_status name_outputs(scope *s)
{
    for (int i = 0; i < s->net->n_inputs; i++) GALE_TRY(reserve(s->x, text_of(s->net->values[s->net->inputs[i]].name)));
    for (int i = 0; i < s->net->n_outputs; i++) GALE_TRY(reserve(s->x, text_of(s->net->declared[i].name)));
    for (int i = 0; i < s->net->n_outputs; i++) {
        const gale__onnx_net_value *v = &s->net->values[s->net->outputs[i]];
        if (v->node >= 0 && !s->names[s->net->outputs[i]].size)
            s->names[s->net->outputs[i]] = text_of(s->net->declared[i].name);
    }
    return GALE_OK;
}

/* A result that is not a node's, or is one already, passes through Identity. */
static gale_status write_outputs(scope *s, gale__pb_graph *to)
{
    const gale__onnx_net *net = s->net;
    to->output.at = gale__arena_alloc(s->x->arena, ((size_t)net->n_outputs + 1) * sizeof *to->output.at);
    if (!to->output.at) return GALE_NO_MEMORY;
    for (int i = 0; i < net->n_outputs; i++) {
        gale__pb_text name, shown;
        bool direct = net->values[net->outputs[i]].node >= 0;
        for (int k = 0; k < i; k++) direct = direct && net->outputs[k] != net->outputs[i];
        GALE_TRY(name_of(s, net->outputs[i], &name));
        if (!s->outer) shown = text_of(net->declared[i].name);
        else if (direct) shown = name;
        else GALE_TRY(unique(s->x, "", &shown));
        if (!gale__pb_text_equal(&shown, &name)) GALE_TRY(push_identity(s, name, shown));
        if (net->from) to->output.at[i] = net->from->output.at[i], to->output.at[i].name = shown;
        else GALE_TRY(describe(s, NULL, 0, &net->declared[i], shown, &to->output.at[i]));
    }
    to->output.n = (size_t)net->n_outputs;
    return GALE_OK;
}

static gale_status fill_graph(scope *s, gale__pb_graph *to)
{
    const gale__onnx_net *net = s->net;
    gale__arena *arena = s->x->arena;
    if (net->from) to->name = net->from->name, to->doc_string = net->from->doc_string, to->head = net->from->head;
    if (!to->name.size) to->name = text_of("graph");
    s->names = gale__arena_alloc(arena, ((size_t)net->n_values + 1) * sizeof *s->names);
    if (!s->names) return GALE_NO_MEMORY;
    if (!s->outer) GALE_TRY(name_outputs(s));
    GALE_TRY(write_inputs(s, to));
    for (int i = 0; i < net->n_nodes; i++) GALE_TRY(write_node(s, &net->nodes[i]));
    GALE_TRY(write_outputs(s, to));
    to->node.at = gale__arena_copy(arena, s->nodes, s->n_nodes * sizeof *s->nodes), to->node.n = s->n_nodes;
    to->initializer.at = gale__arena_copy(arena, s->tensors, s->n_tensors * sizeof *s->tensors),
    to->initializer.n = s->n_tensors;
    to->sparse_initializer.at = gale__arena_copy(arena, s->sparse, s->n_sparse * sizeof *s->sparse),
    to->sparse_initializer.n = s->n_sparse;
    return to->node.at && to->initializer.at && to->sparse_initializer.at ? GALE_OK : GALE_NO_MEMORY;
}

static gale_status write_graph(scope *s, gale__pb_graph *to)
{
    gale_status status = fill_graph(s, to);
    gale__free(s->nodes);
    gale__free(s->tensors);
    gale__free(s->sparse);
    return status;
}

/* The version of the file format that came with the opset; 4 and later know weights that are no inputs. */
static int64_t ir_of(int opset)
{
    static const int since[] = {0, 15, 19, 21, 23, 24, 25, 28}; /* IR 7, 8, ... */
    int ir = IR_NEWEST;
    while (ir > 7 && opset < since[ir - 7]) ir--;
    return ir;
}

static gale_status write_model(export *x, const gale__onnx_net *net, gale__pb_model *model)
{
    scope main = {.x = x, .net = net};
    gale__pb_graph *g = gale__arena_alloc(x->arena, sizeof *g);
    if (!g) return GALE_NO_MEMORY;
    x->domains[x->n_domains++] = (gale__pb_opset){.domain = {"", 0}, .version = net->opset};
    GALE_TRY(write_graph(&main, g));
    if (!model->functions.n)
        g->value_info.at = model->graph->value_info.at, g->value_info.n = model->graph->value_info.n;
    g->metadata_props.at = model->graph->metadata_props.at, g->metadata_props.n = model->graph->metadata_props.n;
    size_t n = 0;
    for (size_t i = 0; i < g->value_info.n; i++)
        if (gale__onnx_names_find(&x->used, g->value_info.at[i].name.at, g->value_info.at[i].name.size) >= 0)
            g->value_info.at[n++] = g->value_info.at[i];
    g->value_info.n = n;
    model->opset_import.at = gale__arena_copy(x->arena, x->domains, x->n_domains * sizeof *x->domains);
    if (!model->opset_import.at) return GALE_NO_MEMORY;
    model->opset_import.n = x->n_domains;
    model->functions.n = 0;
    model->graph = g;
    if (model->ir_version < ir_of(net->opset)) model->ir_version = ir_of(net->opset);
    return GALE_OK;
}

/* The first opset that has the node in this form.  Those that we make are in the newest, which for most operators is an
 * old one. */
static int needs_opset(const gale__onnx_net_node *n)
{
    bool core = !n->domain || !*n->domain || !strcmp(n->domain, "ai.onnx"), sum = !strcmp(n->op, "ReduceSum");
    if (!core) return 1;
    if (n->from) return n->opset;
    if (!strcmp(n->op, "CastLike")) return 15;
    return !strncmp(n->op, "Reduce", 6) && !sum && n->n_in > 1 ? 18 : OPSET_LEAST;
}

/* The node that needs the newest opset, if that is more than *opset. */
static void find_need(const gale__onnx_net *net, int *opset, const gale__onnx_net_node **out)
{
    for (int i = 0; i < net->n_nodes; i++) {
        const gale__onnx_net_node *n = &net->nodes[i];
        if (needs_opset(n) > *opset) *opset = needs_opset(n), *out = n;
        for (int b = 0; b < n->n_bodies; b++) find_need(n->bodies[b].net, opset, out);
    }
}

/* With the least opset that it can be written in; nodes that are made on the way may need more than was tried. */
static gale_status import_least(gale__onnx *file, int least, int most, gale__onnx_net **out)
{
    for (int opset = least;;) {
        gale__onnx_net *net = NULL;
        const gale__onnx_net_node *why = NULL;
        int need = opset;
        GALE_TRY(gale__onnx_net_import_plain(file, opset, &net));
        find_need(net, &need, &why);
        if (!why) return *out = net, GALE_OK;
        gale_status status = GALE_OK;
        if (need > most)
            status = gale__fail(GALE_UNSUPPORTED,
                "%s needs opset %d, but %d was requested; models can be upgraded, not downgraded", why->where, need,
                most);
        gale__onnx_net_destroy(&net);
        if (status != GALE_OK) return status;
        opset = need;
    }
}

gale_status gale__edit_opset(gale__onnx *file, gale__pb_model *model, int least, int most)
{
    export x = {.arena = gale__onnx_arena(file)};
    gale__onnx_net *net = NULL;
    if (!model->graph) return gale__fail(GALE_INVALID, "the model has no graph");
    if (least < OPSET_LEAST || least > most || most > GALE__OPSET_NEWEST)
        return gale__fail(
            GALE_INVALID, "models can be written in opset %d to %d, not %d", OPSET_LEAST, GALE__OPSET_NEWEST, least);
    gale__edit_drop_formal_inputs(model);
    GALE_TRY(import_least(file, least, most, &net));
    gale_status status = write_model(&x, net, model);
    gale__onnx_names_finish(&x.used);
    gale__onnx_names_finish(&x.nodes);
    gale__onnx_net_destroy(&net);
    return status;
}

int64_t gale__edit_opset_of(const gale__pb_model *model)
{
    int64_t opset = 1;
    for (size_t i = 0; i < model->opset_import.n; i++)
        if (gale__pb_is_core(&model->opset_import.at[i].domain)) opset = model->opset_import.at[i].version;
    return opset;
}
