/* Queries, keys and values are three products of the same rows.  One product reads the rows once, fills the device
 * better and is one launch instead of three; attention reads its columns in place, by strides.  Products that something
 * else reads are left alone: they are fused with what follows, and their result may never be in memory. */
#include "graph/rewrite/merge_products.h"
#include "graph/run/tensor.h"
#include <string.h>

enum { BRANCHES_MAX = 8, VIEWS_MAX = 12, NODES_MADE = 3, VALUES_MADE = 4 };

/* A node that reads a value, and the next one that does. */
typedef struct reader {
    int32_t node, next;
} reader;

/* One of the products that are merged. */
typedef struct branch {
    int product, bias; /* nodes; bias -1: none */
    const gale_tensor *weight, *added;
    gale_value out;
} branch;

typedef struct merger {
    gale_graph *graph;
    gale__arena *arena;
    int32_t *first; /* by value: its first reader, 0: none */
    reader *readers;
    uint8_t *is_output;   /* by value */
    uint8_t *gone;        /* by node */
    gale__op_node **made; /* by node: the NODES_MADE nodes that take its place; those without operator do not exist */
    int n_merged;
} merger;

static gale_status list_readers(merger *m)
{
    const gale_graph *g = m->graph;
    size_t total = 1;
    for (int i = 0; i < g->n_nodes; i++) total += (size_t)g->nodes[i].n_in;
    m->first = gale__calloc((size_t)g->n_values + 1, sizeof *m->first);
    m->is_output = gale__calloc((size_t)g->n_values + 1, sizeof *m->is_output);
    m->readers = gale__calloc(total, sizeof *m->readers);
    if (!m->first || !m->is_output || !m->readers) return GALE_NO_MEMORY;
    int32_t n = 1;
    for (int i = g->n_nodes - 1; i >= 0; i--)
        for (int k = 0; k < g->nodes[i].n_in; k++) {
            gale_value v = g->nodes[i].in[k];
            if (v < 0) continue;
            m->readers[n] = (reader){.node = i, .next = m->first[v]};
            m->first[v] = n++;
        }
    for (int i = 0; i < g->n_outputs; i++) m->is_output[g->outputs[i]] = 1;
    return GALE_OK;
}

static bool is_op(const gale__op_node *n, const char *name) { return n->op && !n->n_body && !strcmp(n->name, name); }

static bool is_view(const gale__op_node *n)
{
    static const char *const views[] = {"Reshape", "Transpose", "Unsqueeze", "Squeeze", "Flatten", "Identity"};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        if (is_op(n, views[i])) return true;
    return false;
}

static bool is_attention(const gale__op_node *n)
{
    return !strcmp(n->name, "Attention") || !strcmp(n->name, "MultiHeadAttention");
}

/* Whether the value is read by attention, through views alone.  What asks for its shape does not read it. */
static bool is_attended(const merger *m, gale_value v, int depth)
{
    bool any = false;
    if (m->is_output[v] || depth > VIEWS_MAX) return false;
    for (int32_t r = m->first[v]; r; r = m->readers[r].next) {
        const gale__op_node *n = &m->graph->nodes[m->readers[r].node];
        if (is_op(n, "Shape") || is_op(n, "Size")) continue;
        bool is_data = n->n_in > 0 && n->in[0] == v;
        if (!is_attention(n) && !(is_view(n) && is_data && is_attended(m, n->out[0], depth + 1))) return false;
        any = true;
    }
    return any;
}

/* A constant of this rank and type; -1: no matter what type. */
static const gale_tensor *constant(const merger *m, gale_value v, int rank, int type)
{
    const gale_tensor *t = v < 0 ? NULL : m->graph->values[v].constant;
    return t && t->rank == rank && (type < 0 || t->type == (gale_type)type) ? t : NULL;
}

/* The addition of a constant row to the value, where nothing else reads it. */
static void find_bias(const merger *m, branch *b)
{
    int32_t r = m->first[b->out];
    if (!r || m->readers[r].next || m->is_output[b->out]) return;
    const gale__op_node *n = &m->graph->nodes[m->readers[r].node];
    if (!is_op(n, "Add") || n->in[0] == n->in[1]) return;
    const gale_tensor *added = constant(m, n->in[n->in[0] == b->out], 1, (int)b->weight->type);
    if (!added || added->dims[0] != b->weight->dims[1]) return;
    *b = (branch){
        .product = b->product, .bias = m->readers[r].node, .weight = b->weight, .added = added, .out = n->out[0]};
}

static bool find_branch(const merger *m, int node, branch *out)
{
    const gale__op_node *n = &m->graph->nodes[node];
    if (m->gone[node] || !is_op(n, "MatMul") || m->graph->values[n->in[0]].constant) return false;
    *out = (branch){.product = node, .bias = -1, .weight = constant(m, n->in[1], 2, -1), .out = n->out[0]};
    if (!out->weight || !gale__type_is_float(out->weight->type)) return false;
    find_bias(m, out);
    return is_attended(m, out->out, 0);
}

/* The products of what node `node` multiplies, that one first. */
static int find_branches(const merger *m, int node, branch out[BRANCHES_MAX])
{
    int n = 0;
    gale_value x = m->graph->nodes[node].in[0];
    if (!find_branch(m, node, &out[n++])) return 0;
    for (int32_t r = m->first[x]; r && n < BRANCHES_MAX; r = m->readers[r].next) {
        int other = m->readers[r].node;
        if (other <= node || m->graph->nodes[other].in[0] != x || !find_branch(m, other, &out[n])) continue;
        n += out[n].weight->type == out[0].weight->type && out[n].weight->dims[0] == out[0].weight->dims[0];
    }
    return n;
}

/* The columns of all side by side; of something left out, zeros. */
static gale_status join_columns(const branch *b, int n, bool biases, gale_tensor **out)
{
    gale_type type = b[0].weight->type;
    size_t size = gale_type_size(type), columns = 0, at = 0;
    int64_t rows = biases ? 1 : b[0].weight->dims[0];
    for (int i = 0; i < n; i++) columns += (size_t)b[i].weight->dims[1];
    uint8_t *all = gale__calloc((size_t)rows * columns + 1, size),
            *one = gale__calloc((size_t)rows * columns + 1, size);
    gale_status status = all && one ? GALE_OK : GALE_NO_MEMORY;
    for (int i = 0; i < n && status == GALE_OK; i++) {
        const gale_tensor *t = biases ? b[i].added : b[i].weight;
        size_t row = (size_t)b[i].weight->dims[1] * size;
        if (t) status = gale_tensor_to_cpu(t, one, t->size_bytes);
        for (int64_t r = 0; t && r < rows && status == GALE_OK; r++)
            memcpy(all + ((size_t)r * columns * size + at), one + (size_t)r * row, row);
        at += row;
    }
    int64_t dims[2] = {rows, (int64_t)columns};
    if (status == GALE_OK) status = gale_tensor_from_cpu(NULL, type, biases ? 1 : 2, dims + biases, all, out);
    gale__free(all);
    gale__free(one);
    return status;
}

gale_value gale__merge_value(gale_graph *g, gale_tensor *constant)
{
    gale__value_info *v = &g->values[g->n_values];
    *v = (gale__value_info){.node = -1, .input = -1, .constant = constant};
    if (constant) {
        v->type = constant->type;
        v->rank = constant->rank;
        memcpy(v->dims, constant->dims, sizeof v->dims);
    }
    return g->n_values++;
}

/* A node with one result, in place of `like`. */
static gale_status make_node(
    merger *m, const gale__op_node *like, const char *name, gale_value x, gale_value y, gale__op_node *out)
{
    *out = (gale__op_node){.op = gale__op_find(name), .n_in = 2, .n_out = 1, .where = like->where, .path = -1};
    out->in = gale__arena_alloc(m->arena, 2 * sizeof *out->in);
    out->out = gale__arena_alloc(m->arena, BRANCHES_MAX * sizeof *out->out);
    if (!out->in || !out->out) return GALE_NO_MEMORY;
    out->name = out->op->name;
    out->in[0] = x;
    out->in[1] = y;
    return GALE_OK;
}

static gale_status make_split(merger *m, const branch *b, int n, gale_value x, gale__op_node *out)
{
    int64_t *sizes = gale__arena_alloc(m->arena, BRANCHES_MAX * sizeof *sizes);
    GALE_TRY(make_node(m, &m->graph->nodes[b[0].product], "Split", x, GALE_NONE, out));
    out->attrs = gale__arena_alloc(m->arena, 2 * sizeof *out->attrs);
    if (!sizes || !out->attrs) return GALE_NO_MEMORY;
    for (int i = 0; i < n; i++) {
        sizes[i] = b[i].weight->dims[1];
        out->out[i] = b[i].out;
    }
    out->n_in = 1;
    out->n_out = n;
    out->n_attrs = 2;
    out->attrs[0] = (gale_attr){.name = "axis", .kind = GALE_ATTR_INT, .i = -1};
    out->attrs[1] = (gale_attr){.name = "split", .kind = GALE_ATTR_INTS, .ints = sizes, .count = (size_t)n};
    return GALE_OK;
}

static gale_status merge(merger *m, const branch *b, int n)
{
    const gale__op_node *like = &m->graph->nodes[b[0].product];
    gale__op_node *made = gale__arena_alloc(m->arena, NODES_MADE * sizeof *made);
    gale_tensor *weight = NULL, *added = NULL;
    bool has_bias = false;
    if (!made) return GALE_NO_MEMORY;
    GALE_TRY(join_columns(b, n, false, &weight));
    gale_value w = gale__merge_value(m->graph, weight), y = gale__merge_value(m->graph, NULL);
    GALE_TRY(make_node(m, like, "MatMul", like->in[0], w, &made[0]));
    made[0].out[0] = y;
    for (int i = 0; i < n; i++) has_bias |= b[i].bias >= 0;
    if (has_bias) {
        GALE_TRY(join_columns(b, n, true, &added));
        GALE_TRY(make_node(m, like, "Add", y, gale__merge_value(m->graph, added), &made[1]));
        made[1].out[0] = y = gale__merge_value(m->graph, NULL);
    }
    GALE_TRY(make_split(m, b, n, y, &made[2]));
    for (int i = 0; i < n; i++) {
        m->gone[b[i].product] = 1;
        if (b[i].bias >= 0) m->gone[b[i].bias] = 1;
    }
    m->made[b[0].product] = made;
    m->n_merged++;
    return GALE_OK;
}

/* Values added by merging are appended to the existing ones. */
static gale_status make_room(merger *m)
{
    gale_graph *g = m->graph;
    size_t products = 0;
    for (int i = 0; i < g->n_nodes; i++) products += is_op(&g->nodes[i], "MatMul");
    gale__value_info *values =
        gale__arena_alloc(m->arena, ((size_t)g->n_values + products / 2 * VALUES_MADE + 1) * sizeof *values);
    m->gone = gale__calloc((size_t)g->n_nodes + 1, sizeof *m->gone);
    m->made = gale__calloc((size_t)g->n_nodes + 1, sizeof *m->made);
    if (!values || !m->gone || !m->made) return GALE_NO_MEMORY;
    memcpy(values, g->values, (size_t)g->n_values * sizeof *values);
    g->values = values;
    return GALE_OK;
}

static gale_status close_up(merger *m)
{
    gale_graph *g = m->graph;
    size_t most = (size_t)g->n_nodes + (size_t)m->n_merged * NODES_MADE;
    gale__op_node *nodes = gale__arena_alloc(m->arena, (most + 1) * sizeof *nodes);
    int n = 0;
    if (!nodes) return GALE_NO_MEMORY;
    for (int i = 0; i < g->n_nodes; i++) {
        for (int k = 0; m->made[i] && k < NODES_MADE; k++)
            if (m->made[i][k].op) nodes[n++] = m->made[i][k];
        if (!m->gone[i]) nodes[n++] = g->nodes[i];
    }
    g->nodes = nodes;
    g->n_nodes = n;
    return GALE_OK;
}

static gale_status merge_all(merger *m)
{
    branch branches[BRANCHES_MAX];
    GALE_TRY(list_readers(m));
    GALE_TRY(make_room(m));
    for (int i = 0; i < m->graph->n_nodes; i++) {
        int n = is_op(&m->graph->nodes[i], "MatMul") ? find_branches(m, i, branches) : 0;
        if (n > 1) GALE_TRY(merge(m, branches, n));
    }
    return m->n_merged ? close_up(m) : GALE_OK;
}

gale_status gale__merge_products(gale_graph *graph, gale__arena *arena)
{
    merger m = {.graph = graph, .arena = arena};
    bool any = false;
    for (int i = 0; i < graph->n_nodes && !any; i++) any = is_attention(&graph->nodes[i]);
    if (!any || graph->n_gradients) return GALE_OK; /* gradients are taken by the values that are there */
    gale_status status = merge_all(&m);
    gale__free(m.first);
    gale__free(m.readers);
    gale__free(m.is_output);
    gale__free(m.gone);
    gale__free(m.made);
    return status;
}

void gale__merge_finish(gale_graph *graph, const gale_graph *source)
{
    for (int v = source->n_values; v < graph->n_values; v++) gale_tensor_destroy(&graph->values[v].constant);
}
