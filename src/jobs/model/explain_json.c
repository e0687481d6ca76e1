/* What gale explain found, as JSON: the page draws its graphs from it, too. */
#include "jobs/model/explain_graph.h"

static void add_kernel(gale__json_out *j, const gale_explain_kernel *k)
{
    gale__json_object(j);
    gale__json_put_text(j, "kind", k->kind);
    gale__json_put_text(j, "operators", k->operators);
    gale__json_put_text(j, "kernel", k->name);
    gale__json_put_f64(j, "bytes", k->bytes);
    gale__json_put_f64(j, "operations", k->operations);
    gale__json_put_f64(j, "predicted_us", k->predicted_us);
    gale__json_put_f64(j, "measured_us", k->measured_us);
    gale__json_close(j, '}');
}

static void add_texts(gale__json_out *j, const char *key, const char *const *texts, int n)
{
    gale__json_open(j, key, '[');
    for (int i = 0; i < n; i++) gale__json_string(j, texts[i]);
    gale__json_close(j, ']');
}

static void add_indices(gale__json_out *j, const char *key, const int *indices, int n)
{
    gale__json_open(j, key, '[');
    for (int i = 0; i < n; i++) gale__json_i64(j, indices[i]);
    gale__json_close(j, ']');
}

static void add_node(gale__json_out *j, const gale_explain_node *n)
{
    static const char *const places[] = {"device", "host", "control", "nowhere"};
    gale__json_object(j);
    gale__json_put_text(j, "operator", n->op);
    gale__json_put_text(j, "node", n->where);
    gale__json_put_text(j, "place", places[n->place]);
    add_indices(j, "reads", n->reads, n->n_reads);
    add_texts(j, "inputs", n->inputs, n->n_inputs);
    add_texts(j, "outputs", n->outputs, n->n_outputs);
    add_texts(j, "attributes", n->attributes, n->n_attributes);
    if (n->n_bodies) add_indices(j, "graphs", n->bodies, n->n_bodies);
    gale__json_close(j, '}');
}

static void add_graph(gale__json_out *j, const gale_explain_graph *g)
{
    gale__json_object(j);
    gale__json_put_text(j, "name", g->name);
    gale__json_open(j, "nodes", '[');
    for (size_t i = 0; i < g->n_nodes; i++) add_node(j, &g->nodes[i]);
    gale__json_close(j, ']');
    gale__json_close(j, '}');
}

GALE__RESULT_JSON(gale_explain_result, '{')
{
    gale__json_put_text(j, "model", r->model);
    gale__json_put_text(j, "backend", r->backend);
    gale__json_put_text(j, "device", r->device);
    gale__json_put_text(j, "why", r->why);
    gale__json_put_f64(j, "predicted_us", r->predicted_us);
    gale__json_put_f64(j, "measured_us", r->measured_us);
    gale__json_open(j, "kernels", '[');
    for (size_t i = 0; i < r->n_kernels; i++) add_kernel(j, &r->kernels[i]);
    gale__json_close(j, ']');
    gale__json_open(j, "graphs", '[');
    for (size_t i = 0; i < r->n_graphs; i++) add_graph(j, &r->graphs[i]);
    gale__json_close(j, ']');
}
