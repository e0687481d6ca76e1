/* The operator graph: built by gale_graph_*, and lowered to primitives for one set of input shapes.  Nodes are in
 * topological order by construction, since an operator can only read existing values. */
#include "graph/build/opgraph.h"
#include "base/thread.h"
#include "graph/grad/grad.h"
#include "graph/plan/paths.h"
#include "graph/rewrite/precision.h"
#include "graph/run/tensor.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

bool gale__op_is(const gale__op_node *n, const char *name) { return n->op && !n->n_body && !strcmp(n->name, name); }

const gale_attr *gale__op_attr(const gale__op_node *n, const char *name)
{
    for (int i = 0; i < n->n_attrs; i++)
        if (!strcmp(n->attrs[i].name, name)) return &n->attrs[i];
    return NULL;
}

gale_status gale_graph_create(gale_graph **out)
{
    GALE__NEED({"out", out});
    gale_graph *g = gale__calloc(1, sizeof *g);
    if (!g) return GALE_NO_MEMORY;
    atomic_init(&g->refs, 1);
    *out = g;
    return GALE_OK;
}

void gale__graph_hold(const gale_graph *graph) { atomic_fetch_add(&((gale_graph *)graph)->refs, 1); }

static void free_attrs(gale_attr *attrs, int n)
{
    for (int i = 0; i < n; i++) {
        gale_tensor_destroy((gale_tensor **)&attrs[i].tensor);
        gale_graph_destroy((gale_graph **)&attrs[i].graph);
    }
}

void gale_graph_destroy(gale_graph **graph)
{
    if (!graph || !*graph) return;
    gale_graph *g = *graph;
    *graph = NULL;
    if (atomic_fetch_sub(&g->refs, 1) != 1) return;
    for (int i = 0; i < g->n_values; i++) gale_tensor_destroy(&g->values[i].constant);
    for (int i = 0; i < g->n_nodes; i++) free_attrs(g->nodes[i].attrs, g->nodes[i].n_attrs);
    gale__free(g->values);
    gale__free(g->nodes);
    gale__free(g->inputs);
    gale__free(g->outputs);
    gale__free(g->output_names);
    gale__free(g->gradients);
    gale__arena_finish(&g->arena);
    gale__free(g);
}

/* A program runs the graph as it was when it was made, from any thread. */
static gale_status check_open(const gale_graph *g)
{
    if (atomic_load(&((gale_graph *)g)->refs) == 1) return GALE_OK;
    return gale__fail(GALE_INVALID, "the graph is in use by a program or another graph and cannot be changed");
}

static gale_status new_value(gale_graph *g, gale__value_info info, gale_value *out)
{
    GALE_TRY(gale__grow((void **)&g->values, &g->values_capacity, (size_t)g->n_values + 1, sizeof *g->values));
    *out = g->n_values;
    g->values[g->n_values++] = info;
    return GALE_OK;
}

gale_status gale_graph_input(gale_graph *g, const char *name, gale_type type, int rank, const int64_t *dims,
    const char *const *symbols, gale_value *out)
{
    GALE__NEED({"graph", g}, {"name", name}, {"dims", rank < 1 || rank > GALE_MAX_RANK || dims}, {"out", out});
    gale__value_info v = {.node = -1, .input = g->n_inputs, .type = type, .rank = rank};
    GALE_TRY(check_open(g));
    if (rank < -1 || rank > GALE_MAX_RANK)
        return gale__fail(GALE_INVALID, "input %s: rank %d is outside 0 .. %d (-1: any)", name, rank, GALE_MAX_RANK);
    if ((unsigned)type >= GALE_TYPE_COUNT)
        return gale__fail(GALE_INVALID, "input %s: unknown element type %d", name, (int)type);
    if (type == GALE_STRING)
        return gale__fail(GALE_UNSUPPORTED, "input %s: type %s is not numeric", name, gale_type_name(type));
    for (int i = 0; i < rank; i++) {
        if (dims[i] < -1)
            return gale__fail(GALE_INVALID, "input %s: extent %lld of axis %d is neither a number nor -1", name,
                (long long)dims[i], i);
        v.dims[i] = dims[i];
        if (dims[i] >= 0 || !symbols || !symbols[i]) continue;
        if (!(v.symbols[i] = gale__arena_strdup(&g->arena, symbols[i]))) return GALE_NO_MEMORY;
    }
    v.name = gale__arena_strdup(&g->arena, name);
    if (!v.name) return GALE_NO_MEMORY;
    GALE_TRY(gale__grow((void **)&g->inputs, &g->inputs_capacity, (size_t)g->n_inputs + 1, sizeof *g->inputs));
    GALE_TRY(new_value(g, v, out));
    g->inputs[g->n_inputs++] = *out;
    return GALE_OK;
}

/* Takes the tensor over, also on failure. */
static gale_status add_constant(gale_graph *g, gale_tensor *t, gale_value *out)
{
    gale__value_info v = {.node = -1, .input = -1, .type = t->type, .rank = t->rank, .constant = t};
    memcpy(v.dims, t->dims, sizeof v.dims);
    gale_status status = new_value(g, v, out);
    if (status != GALE_OK) gale_tensor_destroy(&t);
    return status;
}

gale_status gale_graph_constant(
    gale_graph *g, gale_type type, int rank, const int64_t *dims, const void *data, gale_value *out)
{
    GALE__NEED({"graph", g}, {"dims", rank < 1 || dims}, {"out", out});
    gale_tensor *copy = NULL;
    GALE_TRY(check_open(g));
    GALE_TRY(gale_tensor_from_cpu(NULL, type, rank, dims, data, &copy));
    return add_constant(g, copy, out);
}

gale_status gale_graph_constant_tensor(gale_graph *g, const gale_tensor *host, gale_value *out)
{
    GALE__NEED({"graph", g}, {"host", host}, {"out", out});
    gale_tensor *view = NULL;
    GALE_TRY(check_open(g));
    if (host->device)
        return gale__fail(
            GALE_INVALID, "a constant must be in host memory; copy it with gale_tensor_to_device(tensor, NULL, ...)");
    if (host->type == GALE_STRING) return gale__fail(GALE_UNSUPPORTED, "a graph cannot contain strings");
    GALE_TRY(gale_tensor_reshape((gale_tensor *)host, host->rank, host->dims, &view));
    return add_constant(g, view, out);
}

static gale_status copy_strings(gale__arena *a, gale_attr *attr)
{
    const char **strings = gale__arena_alloc(a, (attr->count + 1) * sizeof *strings);
    if (!strings) return GALE_NO_MEMORY;
    for (size_t i = 0; i < attr->count; i++)
        if (!(strings[i] = gale__arena_strdup(a, attr->strings[i]))) return GALE_NO_MEMORY;
    attr->strings = strings;
    return GALE_OK;
}

static bool has_value(const gale_attr *a)
{
    switch (a->kind) {
    case GALE_ATTR_STRING: return a->s != NULL;
    case GALE_ATTR_INTS: return a->ints || !a->count;
    case GALE_ATTR_FLOATS: return a->floats || !a->count;
    case GALE_ATTR_STRINGS: return a->strings || !a->count;
    case GALE_ATTR_TENSOR: return a->tensor != NULL;
    case GALE_ATTR_GRAPH: return a->graph != NULL;
    default: return true;
    }
}

static gale_status check_attr(const char *op, const gale_attr *a, int index)
{
    if (!a->name) return gale__fail(GALE_INVALID, "%s: attribute %d has no name", op, index);
    if ((unsigned)a->kind > GALE_ATTR_GRAPH)
        return gale__fail(GALE_INVALID, "%s: attribute %s has the unknown kind %d", op, a->name, (int)a->kind);
    if (!has_value(a)) return gale__fail(GALE_INVALID, "%s: attribute %s is empty", op, a->name);
    return gale__op_attr_check(op, a->name, true);
}

/* Copies what the attribute points at into the arena; tensors are copied, graphs are held. */
static gale_status copy_attr(gale__arena *a, const gale_attr *from, gale_attr *to)
{
    gale_attr attr = *from;
    attr.tensor = NULL;
    attr.graph = NULL;
    if (!(attr.name = gale__arena_strdup(a, from->name))) return GALE_NO_MEMORY;
    if (from->s && !(attr.s = gale__arena_strdup(a, from->s))) return GALE_NO_MEMORY;
    if (from->ints && !(attr.ints = gale__arena_copy(a, from->ints, from->count * sizeof *from->ints)))
        return GALE_NO_MEMORY;
    if (from->floats && !(attr.floats = gale__arena_copy(a, from->floats, from->count * sizeof *from->floats)))
        return GALE_NO_MEMORY;
    if (from->strings) GALE_TRY(copy_strings(a, &attr));
    if (from->tensor) GALE_TRY(gale_tensor_to_device(from->tensor, NULL, (gale_tensor **)&attr.tensor));
    if (from->graph) gale__graph_hold(attr.graph = from->graph);
    *to = attr;
    return GALE_OK;
}

static gale_status wrong_count(const char *name, const gale__op *op, int n)
{
    if (op->max_in < 0)
        return gale__fail(
            GALE_INVALID, "%s needs at least %d input%s, not %d", name, op->min_in, op->min_in == 1 ? "" : "s", n);
    if (op->max_in == op->min_in)
        return gale__fail(GALE_INVALID, "%s needs %d input%s, not %d", name, op->min_in, op->min_in == 1 ? "" : "s", n);
    return gale__fail(GALE_INVALID, "%s needs %d to %d inputs, not %d", name, op->min_in, op->max_in, n);
}

static gale_status check_op(
    const gale_graph *g, const char *name, const gale__op *op, const gale_value *inputs, int n_inputs, int n_outputs)
{
    if (!op) return gale__fail(GALE_NOT_FOUND, "unknown operator %s", name);
    if (n_inputs < op->min_in || (op->max_in >= 0 && n_inputs > op->max_in)) return wrong_count(name, op, n_inputs);
    if (n_outputs < 0 || (op->max_out >= 0 && n_outputs > op->max_out))
        return gale__fail(GALE_INVALID, "%s has at most %d output%s, not %d", name, op->max_out,
            op->max_out == 1 ? "" : "s", n_outputs);
    for (int i = 0; i < n_inputs; i++) {
        if (inputs[i] == GALE_NONE && i >= op->min_in && op->max_in >= 0) continue;
        if (inputs[i] == GALE_NONE) return gale__fail(GALE_INVALID, "%s: input %d is missing", name, i);
        if (inputs[i] < 0 || inputs[i] >= g->n_values)
            return gale__fail(GALE_INVALID, "%s: input %d is not a value of this graph", name, i);
    }
    return GALE_OK;
}

enum { BODIES_DEEP = 32 };

/* Bodies within bodies: lowering goes down into them. */
static gale_status check_bodies(const gale_attr *attrs, int n, const char *name, int *depth)
{
    for (int i = 0; i < n; i++) {
        if (attrs[i].kind != GALE_ATTR_GRAPH) continue;
        if (attrs[i].graph->depth + 1 > *depth) *depth = attrs[i].graph->depth + 1;
        if (*depth > BODIES_DEEP)
            return gale__fail(GALE_LIMIT, "%s: bodies are nested more than %d levels deep", name, BODIES_DEEP);
    }
    return GALE_OK;
}

gale_status gale_graph_op(gale_graph *g, const char *name, const gale_value *inputs, int n_inputs,
    const gale_attr *attrs, int n_attrs, gale_value *outputs, int n_outputs)
{
    GALE__NEED({"graph", g}, {"op", name}, {"inputs", n_inputs < 1 || inputs}, {"attrs", n_attrs < 1 || attrs},
        {"outputs", n_outputs < 1 || outputs});
    gale__op_node node = {.op = gale__op_find(name), .n_in = n_inputs, .n_out = n_outputs, .path = -1};
    node.number = (uint64_t)g->n_nodes;
    GALE_TRY(check_open(g));
    GALE_TRY(check_op(g, name, node.op, inputs, n_inputs, n_outputs));
    if (n_attrs < 0) return gale__fail(GALE_INVALID, "gale_graph_op: n_attrs is %d; it must not be negative", n_attrs);
    for (int i = 0; i < n_attrs; i++) GALE_TRY(check_attr(name, &attrs[i], i));
    int depth = g->depth;
    GALE_TRY(check_bodies(attrs, n_attrs, name, &depth));
    node.name = node.op->name;
    node.in = gale__arena_copy(&g->arena, inputs, (size_t)n_inputs * sizeof *inputs);
    node.out = gale__arena_alloc(&g->arena, ((size_t)n_outputs + 1) * sizeof *outputs);
    node.attrs = gale__arena_alloc(&g->arena, ((size_t)n_attrs + 1) * sizeof *attrs);
    if (!node.in || !node.out || !node.attrs) return GALE_NO_MEMORY;
    GALE_TRY(gale__grow((void **)&g->nodes, &g->nodes_capacity, (size_t)g->n_nodes + 1, sizeof *g->nodes));
    GALE_TRY(
        gale__grow((void **)&g->values, &g->values_capacity, (size_t)(g->n_values + n_outputs), sizeof *g->values));
    for (; node.n_attrs < n_attrs; node.n_attrs++) {
        gale_status status = copy_attr(&g->arena, &attrs[node.n_attrs], &node.attrs[node.n_attrs]);
        if (status != GALE_OK) return free_attrs(node.attrs, node.n_attrs), status;
    }
    for (int i = 0; i < n_outputs; i++) { /* there is room for them */
        g->values[g->n_values] = (gale__value_info){.node = g->n_nodes, .input = -1};
        outputs[i] = node.out[i] = g->n_values++;
    }
    g->nodes[g->n_nodes++] = node;
    g->depth = depth;
    return GALE_OK;
}

gale_status gale__opgraph_place(gale_graph *g, int first, const char *where)
{
    const char *copy = gale__arena_strdup(&g->arena, where);
    if (!copy) return GALE_NO_MEMORY;
    for (int i = first; i < g->n_nodes; i++) g->nodes[i].where = copy;
    return GALE_OK;
}

gale_status gale_graph_output(gale_graph *g, const char *name, gale_value value)
{
    GALE__NEED({"graph", g}, {"name", name});
    GALE_TRY(check_open(g));
    if (value < 0 || value >= g->n_values)
        return gale__fail(GALE_INVALID, "output %s is not a value of this graph", name);
    const char *copy = gale__arena_strdup(&g->arena, name);
    if (!copy) return GALE_NO_MEMORY;
    GALE_TRY(gale__grow((void **)&g->outputs, &g->outputs_capacity, (size_t)g->n_outputs + 1, sizeof *g->outputs));
    GALE_TRY(
        gale__grow((void **)&g->output_names, &g->names_capacity, (size_t)g->n_outputs + 1, sizeof *g->output_names));
    g->outputs[g->n_outputs] = value;
    g->output_names[g->n_outputs++] = copy;
    return GALE_OK;
}

gale_status gale_graph_gradient(gale_graph *g, gale_value loss, const gale_value *wrt, int n, gale_value *gradients)
{
    GALE__NEED({"graph", g}, {"wrt", n < 1 || wrt}, {"gradients", n < 1 || gradients});
    gale__gradient r = {.loss = loss, .n = n, .after = g->n_nodes};
    GALE_TRY(check_open(g));
    if (n < 0) return gale__fail(GALE_INVALID, "gale_graph_gradient: n is %d; it must not be negative", n);
    if (loss < 0 || loss >= g->n_values) return gale__fail(GALE_INVALID, "the loss is not a value of this graph");
    for (int i = 0; i < n; i++)
        if (wrt[i] < 0 || wrt[i] >= g->n_values)
            return gale__fail(
                GALE_INVALID, "value %d to differentiate with respect to is not a value of this graph", i);
    r.wrt = gale__arena_copy(&g->arena, wrt, (size_t)n * sizeof *wrt);
    r.out = gale__arena_alloc(&g->arena, ((size_t)n + 1) * sizeof *r.out);
    if (!r.wrt || !r.out) return GALE_NO_MEMORY;
    GALE_TRY(
        gale__grow((void **)&g->gradients, &g->gradients_capacity, (size_t)g->n_gradients + 1, sizeof *g->gradients));
    GALE_TRY(gale__grow((void **)&g->values, &g->values_capacity, (size_t)(g->n_values + n), sizeof *g->values));
    for (int i = 0; i < n; i++) {
        g->values[g->n_values] = (gale__value_info){.node = -1, .input = -1};
        gradients[i] = r.out[i] = g->n_values++;
    }
    g->gradients[g->n_gradients++] = r;
    return GALE_OK;
}

enum { OPS_MOST = 1024 };
static const gale__op *ops_by_name[OPS_MOST];
static gale__once ops_sorted;

static int by_name(const void *a, const void *b)
{
    const gale__op *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int known_ops(void) { return gale__ops_count < OPS_MOST ? gale__ops_count : OPS_MOST; }

static void sort_ops(void)
{
    for (int i = 0; i < known_ops(); i++) ops_by_name[i] = gale__ops_table[i];
    qsort(ops_by_name, (size_t)known_ops(), sizeof *ops_by_name, by_name);
}

const gale__op *gale__op_find(const char *name)
{
    gale__once_run(&ops_sorted, sort_ops);
    const gale__op key = {.name = name}, *wanted = &key;
    const gale__op **found = bsearch(&wanted, ops_by_name, (size_t)known_ops(), sizeof *ops_by_name, by_name);
    return found ? *found : NULL;
}

/* Marks the captured values that a body must know when planning, by value of the enclosing graph.  Captures are the
 * last inputs of the node and of its body. */
static gale_status note_captures(const gale__op_node *n, bool *needed);

gale_status gale__opgraph_plan_inputs(const gale_graph *g, bool *out)
{
    bool *needed = gale__calloc((size_t)g->n_values + 1, sizeof *needed);
    if (!needed) return GALE_NO_MEMORY;
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const gale__op_node *n = &g->nodes[i];
        bool all = false;
        for (int k = 0; k < n->n_out; k++) all |= needed[n->out[k]];
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] >= 0 && (all || n->op->plan_inputs >> (k < 31 ? k : 31) & 1) &&
                !(n->op->shape_inputs >> (k < 31 ? k : 31) & 1))
                needed[n->in[k]] = true;
        gale_status status = note_captures(n, needed);
        if (status != GALE_OK) return gale__free(needed), status;
    }
    for (int i = 0; i < g->n_inputs; i++) out[i] = needed[g->inputs[i]];
    gale__free(needed);
    return GALE_OK;
}

static gale_status note_captures(const gale__op_node *n, bool *needed)
{
    int64_t captures = 0;
    const gale_graph *body = NULL;
    for (int i = 0; i < n->n_attrs; i++) {
        if (n->attrs[i].kind == GALE_ATTR_GRAPH) body = n->attrs[i].graph;
        if (n->attrs[i].kind == GALE_ATTR_INT && !strcmp(n->attrs[i].name, "captures")) captures = n->attrs[i].i;
    }
    if (!body || captures < 1 || captures > n->n_in || captures > body->n_inputs) return GALE_OK;
    bool *inside = gale__calloc((size_t)body->n_inputs, sizeof *inside);
    gale_status status = inside ? gale__opgraph_plan_inputs(body, inside) : GALE_NO_MEMORY;
    for (int i = 1; i <= captures && status == GALE_OK; i++)
        if (inside[body->n_inputs - i] && n->in[n->n_in - i] >= 0) needed[n->in[n->n_in - i]] = true;
    gale__free(inside);
    return status;
}

typedef struct lowering {
    const gale_graph *graph;
    gale__prim_graph *g;
    gale__node *nodes; /* by value */
    gale_device *device;
    int claim_from; /* first node that fast paths may claim: a gradient passes through those before it */
    gale__narrowing narrowing;
} lowering;

static gale_status begin_region(gale__prim_graph *g, const gale__op_node *op)
{
    GALE_TRY(gale__grow((void **)&g->regions, &g->regions_capacity, (size_t)g->n_regions + 1, sizeof *g->regions));
    g->region = g->n_regions++;
    g->regions[g->region] = (gale__prim_region){.name = op ? op->name : "Gradient", .op = op, .first = g->count};
    return GALE_OK;
}

static gale_status end_region(gale__prim_graph *g, const gale__node *in, int n_in, const gale__node *out, int n_out)
{
    gale__prim_region *r = &g->regions[g->region];
    r->last = g->count;
    r->in = gale__arena_copy(&g->arena, in, (size_t)n_in * sizeof *in);
    r->out = gale__arena_copy(&g->arena, out, (size_t)n_out * sizeof *out);
    r->n_in = n_in;
    r->n_out = n_out;
    g->region = -1;
    return r->in && r->out ? GALE_OK : GALE_NO_MEMORY;
}

/* Storage for n nodes: the caller's `few` if they fit, else the arena. */
static gale__node *room(lowering *l, gale__node few[8], int n)
{
    return n <= 8 ? few : gale__arena_alloc(&l->g->arena, (size_t)n * sizeof *few);
}

static void read_inputs(const lowering *l, const gale__op_node *n, gale__node *in)
{
    for (int i = 0; i < n->n_in; i++) in[i] = n->in[i] < 0 ? GALE__NIL : l->nodes[n->in[i]];
}

static void lower_op(lowering *l, const gale__op_node *n, gale_device *device, const gale__node *in, gale__node *out)
{
    for (int i = 0; i < n->n_out; i++) out[i] = GALE__NIL;
    /* A required input that its producer did not compute, because an optional input of the producer was omitted. */
    for (int i = 0; i < n->op->min_in && i < n->n_in; i++)
        if (n->in[i] >= 0 && in[i] < 0) {
            gale__prim_fail(l->g, GALE_INVALID,
                "input %d has no value: the operator that should produce it omitted this output", i);
            return;
        }
    gale__lower L = {.g = l->g, .node = n, .in = in, .out = out, .n_in = n->n_in, .n_out = n->n_out, .device = device};
    n->op->lower(&L);
    for (int i = 0; i < n->n_out; i++) l->nodes[n->out[i]] = out[i];
}

/* The status of lowering a node, with its place in front of the reason. */
static gale_status failed_at(gale_status status, const gale__op_node *n, int index, const char *of)
{
    return n->where ? gale__fail_within(status, "%s", n->where)
                    : gale__fail_within(status, "%s (node %d%s)", n->name, index, of);
}

static void keep_results(lowering *l, const gale__op_node *n, int how, gale__node *out)
{
    gale__narrowing_results(&l->narrowing, n, how, out);
    for (int i = 0; i < n->n_out; i++) l->nodes[n->out[i]] = out[i];
}

static gale_status lower_body(lowering *l, const gale__op_node *n, gale__node *out)
{
    for (int i = 0; i < n->n_body && l->g->status == GALE_OK; i++) {
        const gale__op_node *b = &n->body[i];
        gale__node in_few[8], out_few[8], *in = room(l, in_few, b->n_in), *made = room(l, out_few, b->n_out);
        if (!in || !made) return GALE_NO_MEMORY;
        read_inputs(l, b, in);
        int how = gale__narrowing_inputs(&l->narrowing, b, in);
        lower_op(l, b, NULL, in, made);
        keep_results(l, b, how, made);
        if (l->g->status != GALE_OK)
            return b->where ? gale__fail_within(l->g->status, "%s", b->where)
                            : gale__fail_within(l->g->status, "%s", b->name);
    }
    for (int i = 0; i < n->n_out; i++) out[i] = l->nodes[n->out[i]];
    return GALE_OK;
}

/* Whether the operator may replace the recognised chain, now that the rank of its input is known. */
static bool applies(const lowering *l, const gale__op_node *n, const gale__node *in)
{
    if (!n->n_body) return true;
    if (in[0] < 0) return false;
    const gale__prim_node *x = gale__prim_at(l->g, in[0]);
    return gale__type_is_float((gale_type)x->type) && x->rank >= n->min_rank &&
           (n->exact_rank < 0 || n->exact_rank == x->rank);
}

static gale_status lower_node(lowering *l, int index)
{
    const gale__op_node *n = &l->graph->nodes[index];
    gale__node in_few[8], out_few[8], *in = room(l, in_few, n->n_in), *out = room(l, out_few, n->n_out);
    if (!in || !out) return GALE_NO_MEMORY;
    read_inputs(l, n, in);
    GALE_TRY(begin_region(l->g, n));
    bool same = applies(l, n, in);
    gale_device *device = index >= l->claim_from ? l->device : NULL;
    bool whole = n->op && same;
    l->narrowing.off = index < l->claim_from || !strncmp(n->name, "Quantized", 9); /* whole numbers: exact in f32 */
    int how = whole ? gale__narrowing_inputs(&l->narrowing, n, in) : 0;
    if (whole) lower_op(l, n, device, in, out);
    else GALE_TRY(lower_body(l, n, out));
    if (l->g->status != GALE_OK) return failed_at(l->g->status, n, index, "");
    if (n->path >= 0 && same && device) GALE_TRY(gale__fast_paths_claim(l->g, device, n, in, out));
    keep_results(l, n, how, out);
    return end_region(l->g, in, n->n_in, out, n->n_out);
}

static gale_status lower_gradient(lowering *l, const gale__gradient *r)
{
    gale__node *wrt = gale__arena_alloc(&l->g->arena, 2 * ((size_t)r->n + 1) * sizeof *wrt), *out = wrt + r->n;
    if (!wrt) return GALE_NO_MEMORY;
    for (int i = 0; i < r->n; i++) wrt[i] = l->nodes[r->wrt[i]];
    GALE_TRY(begin_region(l->g, NULL));
    GALE_TRY(gale__prim_gradient(l->g, l->nodes[r->loss], wrt, r->n, out));
    GALE_TRY(end_region(l->g, wrt, r->n, out, r->n));
    for (int i = 0; i < r->n; i++) l->nodes[r->out[i]] = out[i];
    return GALE_OK;
}

static gale__node lower_leaf(const gale_graph *graph, int v, const int64_t (*dims)[GALE_MAX_RANK], const int *ranks,
    const void *const *known, gale__prim_graph *g)
{
    const gale__value_info *info = &graph->values[v];
    if (info->constant) return gale__prim_const_tensor(g, info->constant);
    if (info->input < 0) return GALE__NIL;
    int i = info->input;
    if (known && known[i]) return gale__prim_const(g, info->type, ranks[i], dims[i], known[i]);
    return gale__prim_input(g, i, info->type, ranks[i], dims[i]);
}

/* An output that its node leaves out, as its attributes or inputs are. */
static gale_status no_result(const gale_graph *graph, int output)
{
    int index = graph->values[graph->outputs[output]].node;
    gale_status status = gale__fail(GALE_INVALID, "output %s has no value", graph->output_names[output]);
    return index < 0 ? status : failed_at(status, &graph->nodes[index], index, "");
}

gale_status gale__opgraph_lower(const gale_graph *graph, const int64_t (*dims)[GALE_MAX_RANK], const int *ranks,
    const void *const *known, gale_device *device, gale__prim_graph *g, gale__node *out)
{
    lowering l = {.graph = graph, .g = g, .device = device};
    if (graph->n_gradients) l.claim_from = graph->gradients[graph->n_gradients - 1].after;
    l.nodes = gale__arena_alloc(&g->arena, ((size_t)graph->n_values + 1) * sizeof *l.nodes);
    if (!l.nodes) return GALE_NO_MEMORY;
    g->region = -1;
    GALE_TRY(gale__narrowing_init(&l.narrowing, graph, g));
    for (int v = 0; v < graph->n_values; v++) l.nodes[v] = lower_leaf(graph, v, dims, ranks, known, g);
    GALE_TRY(g->status);
    int next = 0;
    for (int i = 0; i <= graph->n_nodes; i++) {
        for (; next < graph->n_gradients && graph->gradients[next].after == i; next++)
            GALE_TRY(lower_gradient(&l, &graph->gradients[next]));
        if (i < graph->n_nodes) GALE_TRY(lower_node(&l, i));
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        out[i] = gale__narrowing_declared(&l.narrowing, graph->outputs[i], l.nodes[graph->outputs[i]]);
        GALE_TRY(g->status);
        if (out[i] == GALE__NIL) return no_result(graph, i);
    }
    return g->status;
}

bool gale__opgraph_draws(const gale_graph *graph)
{
    static const char *const random[] = {
        "Bernoulli", "Dropout", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
    for (int i = 0; i < graph->n_nodes; i++) {
        const gale__op_node *n = &graph->nodes[i];
        for (size_t k = 0; k < sizeof random / sizeof *random; k++)
            if (!strcmp(n->name, random[k])) return true;
        for (int k = 0; k < n->n_attrs; k++)
            if (n->attrs[k].kind == GALE_ATTR_GRAPH && gale__opgraph_draws(n->attrs[k].graph)) return true;
    }
    return false;
}

static gale_status inline_nodes(lowering *l, const gale__node *in)
{
    const gale_graph *graph = l->graph;
    for (int v = 0; v < graph->n_values; v++) {
        const gale__value_info *info = &graph->values[v];
        l->nodes[v] = info->input >= 0 ? in[info->input] : lower_leaf(graph, v, NULL, NULL, NULL, l->g);
    }
    for (int i = 0; i < graph->n_nodes && l->g->status == GALE_OK; i++) {
        const gale__op_node *n = &graph->nodes[i];
        gale__node in_few[8], out_few[8], *args = room(l, in_few, n->n_in), *made = room(l, out_few, n->n_out);
        if (!args || !made) return GALE_NO_MEMORY;
        read_inputs(l, n, args);
        lower_op(l, n, NULL, args, made);
        if (l->g->status != GALE_OK) return failed_at(l->g->status, n, i, " of the body");
    }
    return l->g->status;
}

gale_status gale__opgraph_inline(
    const gale_graph *graph, gale__prim_graph *g, const gale__node *in, int n_in, gale__node *out, int n_out)
{
    lowering l = {.graph = graph, .g = g};
    GALE_TRY(g->status);
    if (n_in != graph->n_inputs || n_out != graph->n_outputs)
        return g->status = gale__fail(GALE_INVALID, "a body has %d inputs and %d outputs instead of %d and %d",
                   graph->n_inputs, graph->n_outputs, n_in, n_out);
    l.nodes = gale__arena_alloc(&g->arena, ((size_t)graph->n_values + 1) * sizeof *l.nodes);
    gale_status status = l.nodes ? inline_nodes(&l, in) : GALE_NO_MEMORY;
    for (int i = 0; i < n_out && status == GALE_OK; i++) {
        out[i] = l.nodes[graph->outputs[i]];
        if (out[i] == GALE__NIL)
            status = gale__fail(GALE_INVALID, "output %s of a body has no value", graph->output_names[i]);
    }
    return g->status = status;
}
