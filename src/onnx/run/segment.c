/* A device segment as a gale_graph: the net's nodes with their operators' names, constants without copies, bodies as
 * separate graphs whose captured values follow the node's inputs. */
#include "graph/build/opgraph.h"
#include "onnx/run/session.h"
#include <string.h>

typedef struct maker {
    gale__onnx_net *net;
    gale_graph *graph;
    gale_value *values; /* by value of the net; GALE_NONE not yet */
} maker;

static gale_status graph_of_body(gale__onnx_net *body, gale_graph **out);

/* A value of the net in the graph; constants come in when they are first read. */
static gale_status value_of(maker *m, int32_t v, gale_value *out)
{
    *out = GALE_NONE;
    if (v < 0) return GALE_OK;
    if (m->values[v] == GALE_NONE && m->net->values[v].constant)
        GALE_TRY(gale_graph_constant_tensor(m->graph, m->net->values[v].constant, &m->values[v]));
    *out = m->values[v];
    return GALE_OK;
}

typedef struct call {
    gale_value *in, *out;
    gale_attr *attrs;
    gale_graph **bodies;
    int n_in, n_attrs;
} call;

static void finish_call(const gale__onnx_net_node *n, call *c)
{
    for (int i = 0; c->bodies && i < n->n_bodies; i++) gale_graph_destroy(&c->bodies[i]);
    gale__free(c->in);
    gale__free(c->out);
    gale__free(c->attrs);
    gale__free(c->bodies);
}

static gale_status add_bodies(maker *m, const gale__onnx_net_node *n, call *c)
{
    int captures = 0;
    for (int b = 0; b < n->n_bodies; b++) {
        gale__onnx_net *body = n->bodies[b].net;
        GALE_TRY(graph_of_body(body, &c->bodies[b]));
        c->attrs[c->n_attrs++] = (gale_attr){.name = n->bodies[b].name, .kind = GALE_ATTR_GRAPH, .graph = c->bodies[b]};
        for (int i = 0; i < body->n_captures; i++) GALE_TRY(value_of(m, body->captures[i], &c->in[c->n_in++]));
        captures += body->n_captures;
    }
    if (captures) c->attrs[c->n_attrs++] = (gale_attr){.name = "captures", .kind = GALE_ATTR_INT, .i = captures};
    return GALE_OK;
}

/* Derivatives of the sum of in[0]'s elements by the other inputs. */
static gale_status add_gradient(maker *m, const gale__onnx_net_node *n, call *c)
{
    gale_value sum;
    gale_attr flat = GALE_INT("keepdims", 0);
    if (c->n_in < 2 || c->in[0] == GALE_NONE || n->n_out > c->n_in - 1)
        return gale__onnx_net_fail(
            n, GALE_FORMAT, "it differentiates with respect to %d values but has %d results", c->n_in - 1, n->n_out);
    GALE_TRY(gale_graph_op(m->graph, "ReduceSum", c->in, 1, &flat, 1, &sum, 1));
    return gale_graph_gradient(m->graph, sum, c->in + 1, n->n_out, c->out);
}

static gale_status make_call(maker *m, const gale__onnx_net_node *n, call *c)
{
    size_t captures = 0;
    for (int b = 0; b < n->n_bodies; b++) captures += (size_t)n->bodies[b].net->n_captures;
    c->in = gale__calloc((size_t)n->n_in + captures + 1, sizeof *c->in);
    c->out = gale__calloc((size_t)n->n_out + 1, sizeof *c->out);
    c->attrs = gale__calloc((size_t)(n->n_attrs + n->n_bodies) + 1, sizeof *c->attrs);
    c->bodies = gale__calloc((size_t)n->n_bodies + 1, sizeof *c->bodies);
    if (!c->in || !c->out || !c->attrs || !c->bodies) return GALE_NO_MEMORY;
    for (; c->n_in < n->n_in; c->n_in++) GALE_TRY(value_of(m, n->in[c->n_in], &c->in[c->n_in]));
    if (n->n_attrs) memcpy(c->attrs, n->attrs, (size_t)n->n_attrs * sizeof *c->attrs);
    c->n_attrs = n->n_attrs;
    GALE_TRY(add_bodies(m, n, c));
    if (*n->domain && !strcmp(n->op, "Gradient")) return add_gradient(m, n, c);
    return gale_graph_op(m->graph, n->op, c->in, c->n_in, c->attrs, c->n_attrs, c->out, n->n_out);
}

static gale_status add_node(maker *m, const gale__onnx_net_node *n)
{
    call c = {0};
    int first = m->graph->n_nodes;
    gale_status status = make_call(m, n, &c);
    if (status == GALE_OK) status = gale__opgraph_place(m->graph, first, n->where);
    for (int i = 0; status == GALE_OK && i < n->n_out; i++)
        if (n->out[i] >= 0) m->values[n->out[i]] = c.out[i];
    finish_call(n, &c);
    return status == GALE_OK ? status : gale__fail_within(status, "%s", n->where);
}

static gale_status begin(gale__onnx_net *net, maker *m)
{
    *m = (maker){.net = net};
    m->values = gale__alloc(((size_t)net->n_values + 1) * sizeof *m->values);
    if (!m->values) return GALE_NO_MEMORY;
    for (int i = 0; i < net->n_values; i++) m->values[i] = GALE_NONE;
    return gale_graph_create(&m->graph);
}

static gale_status end(maker *m, gale_status status, gale_graph **out)
{
    gale__free(m->values);
    if (status == GALE_OK) *out = m->graph;
    else gale_graph_destroy(&m->graph);
    return status;
}

static gale_status add_input(maker *m, int32_t v, gale_type type)
{
    return gale_graph_input(m->graph, m->net->values[v].name, type, -1, NULL, NULL, &m->values[v]);
}

static gale_status add_output(maker *m, int32_t v)
{
    gale_value value;
    GALE_TRY(value_of(m, v, &value));
    return gale_graph_output(m->graph, m->net->values[v].name, value);
}

static gale_status graph_of_body(gale__onnx_net *body, gale_graph **out)
{
    maker m;
    gale_status status = begin(body, &m);
    for (int i = 0; status == GALE_OK && i < body->n_inputs; i++)
        status = add_input(&m, body->inputs[i], body->values[body->inputs[i]].type);
    for (int i = 0; status == GALE_OK && i < body->n_nodes; i++) status = add_node(&m, &body->nodes[i]);
    for (int i = 0; status == GALE_OK && i < body->n_outputs; i++) status = add_output(&m, body->outputs[i]);
    return end(&m, status, out);
}

gale_status gale__onnx_segment_graph(
    gale__onnx_net *net, const gale__onnx_segment *g, const gale_type *types, gale_graph **out)
{
    maker m;
    gale_status status = begin(net, &m);
    for (int i = 0; status == GALE_OK && i < g->n_inputs; i++) status = add_input(&m, g->inputs[i], types[i]);
    for (int i = 0; status == GALE_OK && i < g->n_nodes; i++) status = add_node(&m, &net->nodes[g->nodes[i]]);
    for (int i = 0; status == GALE_OK && i < g->n_outputs; i++) status = add_output(&m, g->outputs[i]);
    return end(&m, status, out);
}

static gale__onnx_variant *find_variant(const gale__onnx_segment *g, gale_tensor *const *inputs)
{
    for (gale__onnx_variant *v = g->variants; v; v = v->next) {
        int i = 0;
        while (i < g->n_inputs && v->types[i] == gale_tensor_type(inputs[i])) i++;
        if (i == g->n_inputs) return v;
    }
    return NULL;
}

static gale_status make_variant(gale__onnx_session *s, gale__onnx_net *net, gale__onnx_segment *g,
    gale_tensor *const *inputs, gale__onnx_variant **out)
{
    gale__onnx_variant *v = gale__calloc(1, sizeof *v + ((size_t)g->n_inputs + 1) * sizeof *v->types);
    if (!v) return GALE_NO_MEMORY;
    for (int i = 0; i < g->n_inputs; i++) v->types[i] = gale_tensor_type(inputs[i]);
    gale_status status = gale__onnx_segment_graph(net, g, v->types, &v->graph);
    if (status == GALE_OK) status = gale_program_create(v->graph, s->device, &s->options.program, &v->program);
    if (status != GALE_OK) {
        gale_graph_destroy(&v->graph);
        gale__free(v);
        return status;
    }
    v->next = g->variants;
    *out = g->variants = v;
    return GALE_OK;
}

gale_status gale__onnx_segment_program(
    gale__onnx_session *s, gale__onnx_net *net, gale__onnx_segment *g, gale_tensor *const *inputs, gale_program **out)
{
    gale__mutex_lock(&s->lock);
    gale__onnx_variant *v = find_variant(g, inputs);
    gale_status status = v ? GALE_OK : make_variant(s, net, g, inputs, &v);
    if (status == GALE_OK) *out = v->program;
    gale__mutex_unlock(&s->lock);
    return status;
}

void gale__onnx_segment_finish(gale__onnx_segment *g)
{
    while (g->variants) {
        gale__onnx_variant *v = g->variants;
        g->variants = v->next;
        gale_program_destroy(&v->program);
        gale_graph_destroy(&v->graph);
        gale__free(v);
    }
    gale__free(g->nodes);
    gale__free(g->inputs);
    gale__free(g->outputs);
}
