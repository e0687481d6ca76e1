/* From messages to a net: names become numbers, functions are inlined, graph attributes become separate nets that take
 * values used from outside as additional inputs.  Nodes are read in topological order (node_order.c), so there are no
 * cycles to detect. */
#include "graph/run/tensor.h"
#include "onnx/import/import.h"
#include "graph/build/opgraph.h"
#include <string.h>

/* Functions that call each other twice, thirty deep, are a file of 2 KB and a thousand million nodes. */
enum { DEPTH_MAX = 32, NODES_MAX = 2000000, INLINED_MAX = 1 << 30, NODE_BYTES = 2048 };

static gale_status charge(const gale__onnx_scope *s, size_t bytes)
{
    if (!s->function) return GALE_OK;
    *s->inlined += bytes < INLINED_MAX ? bytes : INLINED_MAX;
    return *s->inlined < INLINED_MAX
               ? GALE_OK
               : gale__fail(
                     GALE_LIMIT, "the functions of this model need more than %d MiB when inlined", INLINED_MAX >> 20);
}

static gale_status charge_tensor(const gale__onnx_scope *s, const gale_tensor *t)
{
    return gale__tensor_borrowed(t) ? GALE_OK : charge(s, gale_tensor_size_bytes(t));
}

static gale_status charge_attrs(const gale__onnx_scope *s, const gale__onnx_net_node *node)
{
    for (int i = 0; i < node->n_attrs; i++) {
        const gale_attr *a = &node->attrs[i];
        if (a->kind == GALE_ATTR_TENSOR) GALE_TRY(charge_tensor(s, a->tensor));
        else GALE_TRY(charge(s, a->count * sizeof *a->floats));
    }
    return GALE_OK;
}

static gale_status bind(gale__onnx_scope *s, gale__pb_text name, int32_t value)
{
    if (gale__onnx_names_find(&s->names, name.at, name.size) >= 0)
        return gale__fail(GALE_FORMAT, "value '%s' is defined twice", name.at);
    return gale__onnx_names_set(&s->names, name.at, name.size, value);
}

/* A constant of the graph outside is one inside too; anything else becomes an input. */
static gale_status capture(gale__onnx_scope *s, const char *name, int32_t outside, int32_t *out)
{
    gale__onnx_net *net = s->net;
    gale__onnx_net_value v = s->parent->net->values[outside];
    gale_tensor *shared = NULL;
    if (v.constant) {
        GALE_TRY(gale_tensor_reshape(v.constant, gale_tensor_rank(v.constant), gale_tensor_dims(v.constant), &shared));
        return gale__onnx_net_constant(net, name, &shared, out);
    }
    GALE_TRY(gale__grow((void **)&net->inputs, &net->inputs_capacity, (size_t)net->n_inputs + 1, sizeof *net->inputs));
    GALE_TRY(gale__grow(
        (void **)&net->captures, &net->captures_capacity, (size_t)net->n_captures + 1, sizeof *net->captures));
    GALE_TRY(gale__onnx_net_new_value(net, name, out));
    v.node = -1;
    v.from = GALE__ORIGIN_OUTSIDE;
    v.input = net->n_inputs;
    net->values[*out] = v;
    net->inputs[net->n_inputs++] = *out;
    net->captures[net->n_captures++] = outside;
    return GALE_OK;
}

/* A node that was rewritten gives the results that its operator has; the file may name more of them. */
static bool is_made(const gale__onnx_net_value *v) { return v->node >= 0 || v->input >= 0 || v->constant; }

/* The value of a name, -1 when there is none. */
static gale_status look_up(gale__onnx_scope *s, gale__pb_text name, int32_t *out)
{
    *out = gale__onnx_names_find(&s->names, name.at, name.size);
    if (*out >= 0 && !is_made(&s->net->values[*out])) return *out = -1, GALE_OK;
    if (*out >= 0 || !s->parent) return GALE_OK;
    int32_t outside;
    GALE_TRY(look_up(s->parent, name, &outside));
    if (outside < 0) return GALE_OK;
    GALE_TRY(capture(s, name.at, outside, out));
    return gale__onnx_names_set(&s->names, name.at, name.size, *out);
}

static gale_status import_graph(gale__onnx_scope *s, const gale__pb_graph *g);
static gale_status import_nodes(gale__onnx_scope *s, const gale__pb_node *nodes, size_t n);

static bool same_text(gale__pb_text a, const char *b) { return strcmp(a.at ? a.at : "", b) == 0; }

static const char *domain_of(const gale__pb_node *n)
{
    return !n->domain.at || same_text(n->domain, "ai.onnx") ? "" : n->domain.at;
}

static int opset_of(const gale__onnx_scope *s, const char *domain)
{
    for (size_t i = 0; i < s->n_opsets; i++) {
        const char *d = s->opsets[i].domain.at ? s->opsets[i].domain.at : "";
        if (strcmp(strcmp(d, "ai.onnx") ? d : "", domain) == 0)
            return s->opsets[i].version > 0 && s->opsets[i].version < 10000 ? (int)s->opsets[i].version : 1;
    }
    return *domain ? 1 : GALE__OPSET_NEWEST;
}

static const gale__pb_function *find_function(const gale__onnx_scope *s, const gale__pb_node *n)
{
    const char *domain = domain_of(n);
    for (size_t i = 0; i < s->model->functions.n; i++) {
        const gale__pb_function *f = &s->model->functions.at[i];
        const char *d = f->domain.at && !same_text(f->domain, "ai.onnx") ? f->domain.at : "";
        if (same_text(f->name, n->op_type.at) && strcmp(d, domain) == 0 &&
            same_text(f->overload, n->overload.at ? n->overload.at : ""))
            return f;
    }
    return NULL;
}

static gale_status too_deep(const char *where)
{
    return gale__fail(GALE_LIMIT, "%s: functions and graphs are nested more than %d levels deep", where, DEPTH_MAX);
}

static gale_status import_body(gale__onnx_scope *s, const gale__pb_graph *g, const char *where, gale__onnx_net **out)
{
    gale__onnx_net *net = gale__arena_alloc(s->net->arena, sizeof *net);
    if (!net) return GALE_NO_MEMORY;
    *net = (gale__onnx_net){
        .arena = s->net->arena, .file = s->net->file, .outer = s->net, .plain = s->net->plain, .opset = s->net->opset};
    gale__onnx_scope inner = {.parent = s,
        .net = net,
        .model = s->model,
        .opsets = s->opsets,
        .n_opsets = s->n_opsets,
        .function = s->function,
        .call = s->call,
        .depth = s->depth + 1,
        .inlined = s->inlined};
    if (inner.depth > DEPTH_MAX) return too_deep(where);
    *out = net; /* what was made is freed with the node that holds it */
    gale_status status = import_graph(&inner, g);
    gale__onnx_names_finish(&inner.names);
    return status == GALE_OK ? status : gale__fail_within(status, "%s", where);
}

/* Whether the attribute exists, for operators that the standard defines; what it says of others is theirs. */
static gale_status check_attr_name(const gale__onnx_net_node *node, const gale__pb_attribute *a)
{
    bool standard = !*node->domain || !strncmp(node->domain, "ai.onnx", 7);
    if (!standard || !a->name.at) return GALE_OK;
    gale_status status = gale__op_attr_check(node->op, a->name.at, false);
    return status == GALE_OK ? status : gale__fail_within(status, "%s", node->where);
}

static gale_status import_attrs(gale__onnx_scope *s, const gale__pb_node *n, gale__onnx_net_node *node)
{
    gale__arena *arena = s->net->arena;
    node->attrs = gale__arena_alloc(arena, (n->attribute.n + 1) * sizeof *node->attrs);
    node->bodies = gale__arena_alloc(arena, (n->attribute.n + 1) * sizeof *node->bodies);
    if (!node->attrs || !node->bodies) return GALE_NO_MEMORY;
    for (size_t i = 0; i < n->attribute.n; i++) {
        const gale__pb_attribute *a = &n->attribute.at[i];
        bool skip;
        if (a->g && (a->type == GALE__PB_GRAPH || !a->type)) {
            node->bodies[node->n_bodies].name = a->name.at ? a->name.at : "";
            gale_status status = import_body(s, a->g, node->where, &node->bodies[node->n_bodies].net);
            if (node->bodies[node->n_bodies].net) node->n_bodies++;
            GALE_TRY(status);
            continue;
        }
        GALE_TRY(gale__onnx_import_attr(s, a, node->where, &node->attrs[node->n_attrs], &skip));
        if (!skip) node->n_attrs++;
    }
    return GALE_OK;
}

/* Whether the function around has an input of that name, which its caller left out: then whoever reads it there does
 * without, too. */
static bool left_out(const gale__onnx_scope *s, gale__pb_text name)
{
    for (size_t i = 0; s->function && i < s->function->input.n; i++)
        if (same_text(s->function->input.at[i], name.at)) return true;
    return false;
}

static gale_status import_inputs(gale__onnx_scope *s, const gale__pb_node *n, gale__onnx_net_node *node)
{
    node->n_in = (int)n->input.n;
    node->in = gale__arena_alloc(s->net->arena, (n->input.n + 1) * sizeof *node->in);
    if (!node->in) return GALE_NO_MEMORY;
    for (int i = 0; i < node->n_in; i++) {
        gale__pb_text name = n->input.at[i];
        node->in[i] = -1;
        if (!name.at || !name.size) continue;
        GALE_TRY(look_up(s, name, &node->in[i]));
        if (node->in[i] < 0 && !left_out(s, name))
            return gale__onnx_net_fail(node, GALE_FORMAT,
                "input '%s' is not produced by any earlier node: it does not exist, its operator has no such result, "
                "or the nodes form a cycle",
                name.at);
    }
    while (node->n_in && node->in[node->n_in - 1] < 0) node->n_in--; /* left out at the end: not given */
    return GALE_OK;
}

static gale_status import_outputs(gale__onnx_scope *s, const gale__pb_node *n, gale__onnx_net_node *node)
{
    node->n_out = (int)n->output.n;
    node->out = gale__arena_alloc(s->net->arena, (n->output.n + 1) * sizeof *node->out);
    if (!node->out) return GALE_NO_MEMORY;
    for (int i = 0; i < node->n_out; i++) {
        gale__pb_text name = n->output.at[i];
        node->out[i] = -1;
        if (!name.at || !name.size) continue;
        GALE_TRY(gale__onnx_net_new_value(s->net, name.at, &node->out[i]));
        gale_status status = bind(s, name, node->out[i]);
        if (status != GALE_OK) return gale__fail_within(status, "%s", node->where);
    }
    while (node->n_out && node->out[node->n_out - 1] < 0) node->n_out--;
    return GALE_OK;
}

/* The function's nodes take the place of the call: its inputs are the call's, and the call's results are what its
 * outputs name. */
static gale_status inline_call(
    gale__onnx_scope *s, const gale__pb_node *n, const gale__pb_function *f, const gale__onnx_net_node *call)
{
    gale__onnx_scope inner = {.net = s->net,
        .model = s->model,
        .opsets = f->opset_import.at,
        .n_opsets = f->opset_import.n,
        .function = f,
        .call = call,
        .depth = s->depth + 1,
        .inlined = s->inlined};
    gale_status status = GALE_OK;
    if (inner.depth > DEPTH_MAX) return too_deep(call->where);
    if ((size_t)call->n_in > f->input.n || n->output.n > f->output.n)
        return gale__onnx_net_fail(
            call, GALE_FORMAT, "the function has %zu inputs and %zu outputs", f->input.n, f->output.n);
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i] >= 0) GALE_GO(bind(&inner, f->input.at[i], call->in[i]));
    GALE_GO(import_nodes(&inner, f->node.at, f->node.n));
    for (size_t i = 0; i < n->output.n; i++) {
        int32_t value = gale__onnx_names_find(&inner.names, f->output.at[i].at, f->output.at[i].size);
        if (!n->output.at[i].size) continue;
        if (value < 0)
            status =
                gale__onnx_net_fail(call, GALE_FORMAT, "the function does not produce value '%s'", f->output.at[i].at);
        else status = bind(s, n->output.at[i], value);
        if (status != GALE_OK) break;
    }
done:
    gale__onnx_names_finish(&inner.names);
    return status;
}

static gale_status look_up_named(gale__onnx_scope *s, const gale__onnx_net_node *node, const char *name, int32_t *out)
{
    GALE_TRY(look_up(s, (gale__pb_text){name, strlen(name)}, out));
    return *out >= 0 ? GALE_OK : gale__onnx_net_fail(node, GALE_FORMAT, "no value '%s'", name);
}

/* Gradient names values instead of reading them: its inputs become the value to differentiate, then those to
 * differentiate by. */
static gale_status resolve_gradient(gale__onnx_scope *s, gale__onnx_net_node *node)
{
    const gale_attr *xs = gale__onnx_net_attr(node, "xs"), *y = gale__onnx_net_attr(node, "y");
    if (!xs || xs->kind != GALE_ATTR_STRINGS || !y || y->kind != GALE_ATTR_STRING)
        return gale__onnx_net_fail(node, GALE_FORMAT, "attributes xs and y are needed");
    node->n_in = (int)xs->count + 1;
    node->in = gale__arena_alloc(s->net->arena, (size_t)node->n_in * sizeof *node->in);
    if (!node->in) return GALE_NO_MEMORY;
    GALE_TRY(look_up_named(s, node, y->s, &node->in[0]));
    for (size_t i = 0; i < xs->count; i++) GALE_TRY(look_up_named(s, node, xs->strings[i], &node->in[i + 1]));
    return GALE_OK;
}

static gale_status import_constant_node(gale__onnx_scope *s, const gale__pb_node *n, const gale__onnx_net_node *node)
{
    gale_tensor *tensor = NULL;
    int32_t value;
    if (n->output.n != 1 || !n->output.at[0].size)
        return gale__onnx_net_fail(node, GALE_FORMAT, "it has %zu outputs instead of 1", n->output.n);
    GALE_TRY(gale__onnx_import_constant(s, node, &tensor));
    GALE_TRY(gale__onnx_net_constant(s->net, n->output.at[0].at, &tensor, &value));
    return bind(s, n->output.at[0], value);
}

static gale_status append(gale__onnx_scope *s, gale__onnx_net_node *node)
{
    bool done = false;
    GALE_TRY(gale__onnx_adapt(s->net, node, &done));
    if (!done && !s->net->plain) GALE_TRY(gale__onnx_expand(s->net, node, &done));
    return done ? GALE_OK : gale__onnx_net_push(s->net, node);
}

/* Bodies that no node made since `before` has taken over: the node was refused, or expanded into others. */
static void finish_bodies(const gale__onnx_net *net, int before, gale__onnx_net_node *node)
{
    for (int i = 0; i < node->n_bodies; i++) {
        bool held = false;
        for (int k = before; k < net->n_nodes; k++)
            for (int b = 0; b < net->nodes[k].n_bodies; b++)
                held = held || net->nodes[k].bodies[b].net == node->bodies[i].net;
        if (!held) gale__onnx_net_finish(node->bodies[i].net);
    }
    node->n_bodies = 0;
}

static gale_status import_node(gale__onnx_scope *s, const gale__pb_node *n, size_t index)
{
    gale__onnx_net *net = s->net;
    gale__onnx_net_node node = {.op = n->op_type.at ? n->op_type.at : "", .domain = domain_of(n), .from = n};
    bool named = n->name.at && n->name.size;
    node.opset = opset_of(s, node.domain);
    node.where = gale__arena_printf(net->arena, "node %zu%s%s%s (%s)", index, named ? " '" : "",
        named ? n->name.at : "", named ? "'" : "", node.op);
    if (!node.where) return GALE_NO_MEMORY;
    if (net->n_nodes >= NODES_MAX)
        return gale__onnx_net_fail(
            &node, GALE_LIMIT, "the model has more than %d nodes after inlining functions", NODES_MAX);
    if (n->input.n > 1 << 20 || n->output.n > 1 << 20)
        return gale__onnx_net_fail(&node, GALE_LIMIT, "it has %zu inputs and %zu outputs; at most %d are supported",
            n->input.n, n->output.n, 1 << 20);
    const gale__pb_function *f = find_function(s, n);
    int before = net->n_nodes;
    gale_status status;
    GALE_GO(charge(s, NODE_BYTES));
    for (size_t i = 0; !f && i < n->attribute.n; i++) GALE_GO(check_attr_name(&node, &n->attribute.at[i]));
    GALE_GO(import_attrs(s, n, &node));
    GALE_GO(charge_attrs(s, &node));
    if (!f && !*node.domain && strcmp(node.op, "Constant") == 0) {
        status = import_constant_node(s, n, &node);
        goto done;
    }
    GALE_GO(import_inputs(s, n, &node));
    if (f) {
        status = inline_call(s, n, f, &node);
        goto done;
    }
    if (strcmp(node.op, "Gradient") == 0) GALE_GO(resolve_gradient(s, &node));
    GALE_GO(import_outputs(s, n, &node));
    status = append(s, &node);
done:
    finish_bodies(net, before, &node);
    return status;
}

static gale_status import_nodes(gale__onnx_scope *s, const gale__pb_node *nodes, size_t n)
{
    uint32_t *order = NULL;
    gale_status status = gale__onnx_import_order(nodes, n, &order);
    for (size_t i = 0; status == GALE_OK && i < n; i++) {
        size_t at = order ? order[i] : i;
        status = import_node(s, &nodes[at], at);
    }
    gale__free(order);
    return status;
}

static gale_status import_initialisers(gale__onnx_scope *s, const gale__pb_graph *g)
{
    for (size_t i = 0; i < g->initializer.n + g->sparse_initializer.n; i++) {
        bool sparse = i >= g->initializer.n;
        const gale__pb_sparse *p = sparse ? &g->sparse_initializer.at[i - g->initializer.n] : NULL;
        gale_tensor *tensor = NULL;
        int32_t value;
        if (sparse && !p->values)
            return gale__fail(GALE_FORMAT, "sparse initialiser %zu has no values", i - g->initializer.n);
        gale__pb_text name = sparse ? p->values->name : g->initializer.at[i].name;
        if (!name.at) name.at = "";
        GALE_TRY(sparse ? gale__onnx_sparse(s->net->file, p, &tensor)
                        : gale__onnx_tensor(s->net->file, &g->initializer.at[i], &tensor));
        GALE_TRY(gale__onnx_net_constant(s->net, name.at, &tensor, &value));
        GALE_TRY(charge_tensor(s, s->net->values[value].constant));
        GALE_TRY(bind(s, name, value));
    }
    return GALE_OK;
}

static gale_status import_input(gale__onnx_scope *s, const gale__pb_value_info *info)
{
    gale__onnx_net *net = s->net;
    int32_t value;
    if (!info->name.at) return gale__fail(GALE_FORMAT, "an input has no name");
    if (gale__onnx_names_find(&s->names, info->name.at, info->name.size) >= 0)
        return GALE_OK; /* the file gives its value */
    GALE_TRY(gale__onnx_net_new_value(net, info->name.at, &value));
    GALE_TRY(gale__onnx_import_type(net, info, &net->values[value]));
    net->values[value].input = net->n_inputs;
    net->values[value].from = s->parent ? GALE__ORIGIN_STEP : GALE__ORIGIN_SHAPES;
    GALE_TRY(gale__grow((void **)&net->inputs, &net->inputs_capacity, (size_t)net->n_inputs + 1, sizeof *net->inputs));
    net->inputs[net->n_inputs++] = value;
    return bind(s, info->name, value);
}

static gale_status not_made(const gale__pb_graph *g, const char *output)
{
    for (size_t i = 0; i < g->node.n; i++) {
        const gale__pb_node *n = &g->node.at[i];
        for (size_t k = 0; k < n->output.n; k++)
            if (same_text(n->output.at[k], output))
                return gale__fail(GALE_FORMAT, "node %zu '%s' (%s): the operator has no result %zu, here '%s'", i,
                    n->name.at ? n->name.at : "", n->op_type.at ? n->op_type.at : "", k, output);
    }
    return gale__fail(GALE_FORMAT, "output '%s' is not produced by any node", output);
}

static gale_status import_graph(gale__onnx_scope *s, const gale__pb_graph *g)
{
    gale__onnx_net *net = s->net;
    net->from = g;
    GALE_TRY(import_initialisers(s, g));
    for (size_t i = 0; i < g->input.n; i++) GALE_TRY(import_input(s, &g->input.at[i]));
    GALE_TRY(import_nodes(s, g->node.at, g->node.n));
    net->outputs = gale__arena_alloc(net->arena, (g->output.n + 1) * sizeof *net->outputs);
    net->declared = gale__arena_alloc(net->arena, (g->output.n + 1) * sizeof *net->declared);
    if (!net->outputs || !net->declared) return GALE_NO_MEMORY;
    for (size_t i = 0; i < g->output.n; i++) {
        gale__pb_text name = g->output.at[i].name;
        int32_t value = -1;
        if (name.at) GALE_TRY(look_up(s, name, &value));
        if (value < 0) return not_made(g, name.at ? name.at : "");
        net->declared[i] = (gale__onnx_net_value){.name = name.at, .rank = -1};
        GALE_TRY(gale__onnx_import_type(net, &g->output.at[i], &net->declared[i]));
        net->outputs[net->n_outputs++] = value;
    }
    return GALE_OK;
}

static gale_status import(gale__onnx *file, bool plain, int opset, gale__onnx_net **out)
{
    const gale__pb_model *model = gale__onnx_root(file);
    gale__arena *arena = gale__onnx_arena(file);
    if (!model->graph)
        return gale__fail(GALE_FORMAT, "%s: not an ONNX file, or damaged: it has no graph", gale__onnx_path(file));
    gale__onnx_net *net = gale__arena_alloc(arena, sizeof *net);
    if (!net) return GALE_NO_MEMORY;
    *net = (gale__onnx_net){.arena = arena, .file = file, .plain = plain, .opset = opset};
    gale__onnx_hold(file);
    size_t inlined = 0;
    gale__onnx_scope scope = {.net = net,
        .model = model,
        .opsets = model->opset_import.at,
        .n_opsets = model->opset_import.n,
        .inlined = &inlined};
    gale_status status = import_graph(&scope, model->graph);
    gale__onnx_names_finish(&scope.names);
    if (status != GALE_OK) {
        if (!plain) status = gale__fail_within(status, "%s", gale__onnx_path(file)); /* who edits a file names it */
        gale__onnx_net_destroy(&net);
        return status;
    }
    *out = net;
    return GALE_OK;
}

gale_status gale__onnx_net_import(gale__onnx *file, gale__onnx_net **out) { return import(file, false, 0, out); }
gale_status gale__onnx_net_import_plain(gale__onnx *file, int opset, gale__onnx_net **out)
{
    return import(file, true, opset, out);
}
