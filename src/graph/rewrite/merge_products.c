/* Queries, keys and values are three products of the same rows.  One product reads the rows once, fills the device
 * better and is one launch instead of three; attention reads its columns in place, by strides.  Products that something
 * else reads are left alone: they are fused with what follows, and their result may never be in memory.  Products of
 * bytes are merged with the operators behind them that make floats of their sums; what these multiply by or subtract is
 * a number for each column afterwards. */
#include "graph/rewrite/merge_products.h"
#include "graph/run/tensor.h"
#include <string.h>

enum { BRANCHES_MAX = 8, VIEWS_MAX = 12, STEPS_MAX = 4, NODES_MADE = 12, VALUES_MADE = 24 };

/* A node that reads a value, and the next one that does. */
typedef struct reader {
    int32_t node, next;
} reader;

/* An operator behind a product, with constants by column beside the product's value. */
typedef struct step {
    int node;
    gale_value with; /* multiplied with the constant first; NONE: nothing is */
    const gale_tensor *by[2];
} step;

/* One of the products that are merged. */
typedef struct branch {
    int product, bias;                        /* nodes; bias -1: none */
    const gale_tensor *weight, *scale, *zero; /* scale NULL: the weights are floats, or their sums are scaled */
    const gale_tensor *added;
    step steps[STEPS_MAX];
    int n_steps;
    gale_value out;
} branch;

typedef struct merger {
    gale_graph *graph;
    gale__arena *arena;
    int32_t *first; /* by value: its first reader, 0: none */
    int32_t *maker; /* by value: the node that makes it and 1, 0: none */
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
    m->maker = gale__calloc((size_t)g->n_values + 1, sizeof *m->maker);
    if (!m->first || !m->is_output || !m->readers || !m->maker) return GALE_NO_MEMORY;
    int32_t n = 1;
    for (int i = g->n_nodes - 1; i >= 0; i--)
        for (int k = 0; k < g->nodes[i].n_in; k++) {
            gale_value v = g->nodes[i].in[k];
            if (v < 0) continue;
            m->readers[n] = (reader){.node = i, .next = m->first[v]};
            m->first[v] = n++;
        }
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_out; k++)
            if (g->nodes[i].out[k] >= 0) m->maker[g->nodes[i].out[k]] = i + 1;
    for (int i = 0; i < g->n_outputs; i++) m->is_output[g->outputs[i]] = 1;
    return GALE_OK;
}

static bool is_view(const gale__op_node *n)
{
    static const char *const views[] = {"Reshape", "Transpose", "Unsqueeze", "Squeeze", "Flatten", "Identity"};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        if (gale__op_is(n, views[i])) return true;
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
        if (gale__op_is(n, "Shape") || gale__op_is(n, "Size")) continue;
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

/* A constant with one number for all columns, or one for each. */
static const gale_tensor *by_column(const merger *m, gale_value v, int64_t columns)
{
    const gale_tensor *t = v < 0 ? NULL : m->graph->values[v].constant;
    return t && t->rank < 2 && (gale__tensor_elements(t) == 1 || (t->rank && t->dims[0] == columns)) ? t : NULL;
}

static const gale__op_node *maker_of(const merger *m, gale_value v)
{
    return v >= 0 && m->maker[v] ? &m->graph->nodes[m->maker[v] - 1] : NULL;
}

/* The only node that reads the value; -1: there are more, or none. */
static int only_reader(const merger *m, gale_value v)
{
    int32_t r = m->first[v];
    return !r || m->readers[r].next || m->is_output[v] ? -1 : m->readers[r].node;
}

static gale_value input(const gale__op_node *n, int i) { return i < n->n_in ? n->in[i] : GALE_NONE; }

/* No attribute but an axis, which must be the second of two or the last. */
static bool along_columns(const gale__op_node *n)
{
    const gale_attr *axis = gale__op_attr(n, "axis");
    return n->n_attrs == (axis != NULL) && (!axis || axis->i == 1 || axis->i == -1);
}

/* Scale and zero point of a QuantizeLinear or DequantizeLinear; one for each column only where weights are read. */
static bool read_scales(
    const merger *m, const gale__op_node *n, int64_t columns, const gale_tensor **scale, const gale_tensor **zero)
{
    *scale = by_column(m, input(n, 1), columns);
    *zero = by_column(m, input(n, 2), columns);
    return *scale && (*scale)->type == GALE_F32 && (*zero || input(n, 2) < 0) && along_columns(n);
}

/* Scales of a sum: a constant, or one times the scale of a dynamic quantisation, which is there before the product. */
static bool read_factor(const merger *m, gale_value v, const branch *b, step *out)
{
    const gale__op_node *n = maker_of(m, v);
    out->by[0] = by_column(m, v, b->weight->dims[1]);
    for (int i = 0; n && gale__op_is(n, "Mul") && i < 2 && !out->by[0]; i++) {
        const gale__op_node *range = maker_of(m, n->in[1 - i]);
        if (!range || !gale__op_is(range, "DynamicQuantizeLinear") || range - m->graph->nodes > b->product) continue;
        out->by[0] = by_column(m, n->in[i], b->weight->dims[1]);
        out->with = n->in[1 - i];
    }
    return out->by[0] && out->by[0]->type == GALE_F32;
}

/* The operators that follow the sum of bytes. */
static void find_steps(const merger *m, branch *b)
{
    while (b->n_steps < STEPS_MAX) {
        int next = only_reader(m, b->out);
        const gale__op_node *n = next < 0 ? NULL : &m->graph->nodes[next];
        step s = {.node = next, .with = GALE_NONE};
        if (!n || n->n_out != 1) return;
        if (gale__op_is(n, "QuantizeLinear") || gale__op_is(n, "DequantizeLinear")) {
            if (n->in[0] != b->out || !read_scales(m, n, 1, &s.by[0], &s.by[1])) return;
        } else if (gale__op_is(n, "Mul")) {
            if (n->in[0] == n->in[1] || !read_factor(m, n->in[n->in[0] == b->out], b, &s)) return;
        } else if (!gale__op_is(n, "Cast")) return;
        b->steps[b->n_steps++] = s;
        b->out = n->out[0];
    }
}

/* The addition of a constant row to the value, where nothing else reads it. */
static void find_bias(const merger *m, branch *b)
{
    int next = only_reader(m, b->out);
    const gale__op_node *n = next < 0 ? NULL : &m->graph->nodes[next];
    if (!n || !gale__op_is(n, "Add") || n->in[0] == n->in[1]) return;
    int type = gale__type_is_float(b->weight->type) ? (int)b->weight->type : GALE_F32;
    const gale_tensor *added = constant(m, n->in[n->in[0] == b->out], 1, type);
    if (!added || added->dims[0] != b->weight->dims[1]) return;
    b->bias = next;
    b->added = added;
    b->out = n->out[0];
}

/* The weights as floats, as bytes that are dequantised, or as bytes. */
static bool find_weight(const merger *m, const gale__op_node *n, branch *out)
{
    const gale__op_node *from = maker_of(m, n->in[1]);
    bool whole = gale__op_is(n, "MatMulInteger"), scaled = !whole && from && gale__op_is(from, "DequantizeLinear");
    out->weight = constant(m, scaled ? from->in[0] : n->in[1], 2, -1);
    if (!out->weight) return false;
    int64_t columns = out->weight->dims[1];
    if (scaled) return read_scales(m, from, columns, &out->scale, &out->zero);
    out->zero = whole ? by_column(m, input(n, 3), columns) : NULL;
    return whole ? out->zero || input(n, 3) < 0 : gale__type_is_float(out->weight->type);
}

static bool is_product(const gale__op_node *n) { return gale__op_is(n, "MatMul") || gale__op_is(n, "MatMulInteger"); }

static bool find_branch(const merger *m, int node, branch *out)
{
    const gale__op_node *n = &m->graph->nodes[node];
    if (m->gone[node] || !is_product(n) || m->graph->values[n->in[0]].constant) return false;
    *out = (branch){.product = node, .bias = -1, .out = n->out[0]};
    if (!find_weight(m, n, out)) return false;
    if (!gale__type_is_float(out->weight->type)) find_steps(m, out);
    find_bias(m, out);
    return is_attended(m, out->out, 0);
}

/* Attributes that a Cast may have. */
static bool same_type(const gale_attr *a, const gale_attr *b)
{
    if (!a || !b || a->kind != b->kind) return a == b;
    return a->kind == GALE_ATTR_STRING ? !strcmp(a->s, b->s) : a->i == b->i;
}

static bool same_kind(const gale_tensor *a, const gale_tensor *b) { return a && b ? a->type == b->type : a == b; }

/* Whether two products differ in nothing but numbers. */
static bool alike(const merger *m, const branch *a, const branch *b)
{
    const gale__op_node *nodes = m->graph->nodes, *p = &nodes[a->product], *q = &nodes[b->product];
    bool same = p->op == q->op && p->in[0] == q->in[0] && input(p, 2) == input(q, 2) && a->n_steps == b->n_steps &&
                same_kind(a->weight, b->weight) && a->weight->dims[0] == b->weight->dims[0] &&
                same_kind(a->scale, b->scale) && same_kind(a->zero, b->zero);
    for (int i = 0; same && i < a->n_steps; i++) {
        const step *s = &a->steps[i], *t = &b->steps[i];
        same = nodes[s->node].op == nodes[t->node].op && s->with == t->with && same_kind(s->by[0], t->by[0]) &&
               same_kind(s->by[1], t->by[1]) &&
               same_type(gale__op_attr(&nodes[s->node], "to"), gale__op_attr(&nodes[t->node], "to"));
    }
    return same;
}

/* The products of what node `node` multiplies, that one first. */
static int find_branches(const merger *m, int node, branch out[BRANCHES_MAX])
{
    int n = 0;
    gale_value x = m->graph->nodes[node].in[0];
    if (!find_branch(m, node, &out[n++])) return 0;
    for (int32_t r = m->first[x]; r && n < BRANCHES_MAX; r = m->readers[r].next) {
        int other = m->readers[r].node;
        if (other > node && find_branch(m, other, &out[n])) n += alike(m, &out[0], &out[n]);
    }
    return n;
}

/* A row of a constant with so many elements; one alone is repeated. */
static void put_row(uint8_t *to, const uint8_t *from, int64_t elements, size_t row, size_t size)
{
    if (elements == 1)
        for (size_t i = 0; i < row; i++) memcpy(to + i * size, from, size);
    else memcpy(to, from, row * size);
}

/* The constants' columns side by side, as a constant of the graph; of something left out, zeros; one number for all
 * columns is repeated. */
static gale_status join_columns(
    merger *m, const branch *b, int n, const gale_tensor *const *parts, int rank, gale_value *out)
{
    const gale_tensor *like = NULL;
    size_t columns = 0, at = 0, most = 1;
    for (int i = 0; i < n; i++) {
        columns += (size_t)b[i].weight->dims[1];
        if (parts[i]) like = parts[i], most = like->size_bytes > most ? like->size_bytes : most;
    }
    *out = GALE_NONE;
    if (!like) return GALE_OK;
    size_t size = gale_type_size(like->type), rows = rank == 2 ? (size_t)like->dims[0] : 1;
    uint8_t *all = gale__calloc(rows * columns + 1, size), *one = gale__alloc(most);
    gale_status status = all && one ? GALE_OK : GALE_NO_MEMORY;
    for (int i = 0; i < n && status == GALE_OK; i++) {
        size_t row = (size_t)b[i].weight->dims[1];
        if (parts[i]) status = gale_tensor_to_cpu(parts[i], one, parts[i]->size_bytes);
        for (size_t r = 0; parts[i] && r < rows && status == GALE_OK; r++)
            put_row(all + (r * columns + at) * size, one + r * row * size, gale__tensor_elements(parts[i]), row, size);
        at += row;
    }
    const int64_t dims[2] = {(int64_t)rows, (int64_t)columns};
    gale_tensor *made = NULL;
    if (status == GALE_OK) status = gale_tensor_from_cpu(NULL, like->type, rank, dims + 2 - rank, all, &made);
    if (status == GALE_OK) *out = gale__merge_value(m->graph, made);
    gale__free(all);
    gale__free(one);
    return status;
}

gale_status gale__merge_room(gale_graph *g, size_t more, gale__arena *arena)
{
    gale__value_info *values = gale__arena_alloc(arena, ((size_t)g->n_values + more + 1) * sizeof *values);
    if (!values) return GALE_NO_MEMORY;
    memcpy(values, g->values, (size_t)g->n_values * sizeof *values);
    g->values = values;
    return GALE_OK;
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

/* A node with one new result, in place of `like`. */
static gale_status make_node(
    merger *m, const gale__op_node *like, const char *name, const gale_value *in, int n_in, gale__op_node *out)
{
    *out = (gale__op_node){.op = gale__op_find(name), .n_in = n_in, .n_out = 1, .where = like->where, .path = -1};
    out->in = gale__arena_copy(m->arena, in, (size_t)n_in * sizeof *in);
    out->out = gale__arena_alloc(m->arena, BRANCHES_MAX * sizeof *out->out);
    out->attrs = gale__arena_alloc(m->arena, 2 * sizeof *out->attrs);
    if (!out->in || !out->out || !out->attrs) return GALE_NO_MEMORY;
    out->name = out->op->name;
    out->out[0] = gale__merge_value(m->graph, NULL);
    return GALE_OK;
}

static void set_axis(gale__op_node *n, int64_t axis)
{
    n->attrs[n->n_attrs++] = (gale_attr){.name = "axis", .kind = GALE_ATTR_INT, .i = axis};
}

static gale_status make_split(merger *m, const branch *b, int n, gale_value x, gale__op_node *out)
{
    int64_t *sizes = gale__arena_alloc(m->arena, BRANCHES_MAX * sizeof *sizes);
    GALE_TRY(make_node(m, &m->graph->nodes[b[0].product], "Split", &x, 1, out));
    if (!sizes) return GALE_NO_MEMORY;
    for (int i = 0; i < n; i++) {
        sizes[i] = b[i].weight->dims[1];
        out->out[i] = b[i].out;
    }
    out->n_out = n;
    set_axis(out, -1);
    out->attrs[out->n_attrs++] =
        (gale_attr){.name = "split", .kind = GALE_ATTR_INTS, .ints = sizes, .count = (size_t)n};
    return GALE_OK;
}

/* Part i of all branches, joined. */
#define JOIN(member, rank, to)                                   \
    do {                                                         \
        const gale_tensor *parts[BRANCHES_MAX];                  \
        for (int i_ = 0; i_ < n; i_++) parts[i_] = b[i_].member; \
        GALE_TRY(join_columns(m, b, n, parts, rank, to));        \
    } while (0)

static gale_status make_product(merger *m, const branch *b, int n, gale__op_node **made)
{
    const gale__op_node *like = &m->graph->nodes[b[0].product];
    gale_value w, scale, zero;
    JOIN(weight, 2, &w);
    JOIN(scale, 1, &scale);
    JOIN(zero, 1, &zero);
    if (scale >= 0) {
        GALE_TRY(make_node(m, like, "DequantizeLinear", (gale_value[]){w, scale, zero}, 3, *made));
        set_axis(*made, 1);
        w = (*made)++->out[0];
    }
    const gale_value in[4] = {like->in[0], w, input(like, 2), zero};
    return make_node(m, like, like->op->name, in, gale__op_is(like, "MatMul") ? 2 : 4, (*made)++);
}

static gale_status make_step(merger *m, const branch *b, int n, int at, gale__op_node **made)
{
    const gale__op_node *like = &m->graph->nodes[b[0].steps[at].node];
    gale_value in[3] = {(*made)[-1].out[0]};
    JOIN(steps[at].by[0], 1, &in[1]);
    JOIN(steps[at].by[1], 1, &in[2]);
    if (b[0].steps[at].with >= 0) {
        gale__op_node *product = (*made)++;
        GALE_TRY(make_node(m, like, "Mul", (gale_value[]){b[0].steps[at].with, in[1]}, 2, product));
        in[1] = product->out[0];
    }
    GALE_TRY(make_node(m, like, like->op->name, in, in[1] < 0 ? 1 : in[2] < 0 ? 2 : 3, *made));
    if (gale__op_is(like, "Cast")) (*made)->attrs = like->attrs, (*made)->n_attrs = like->n_attrs;
    else if (!gale__op_is(like, "Mul")) set_axis(*made, -1);
    ++*made;
    return GALE_OK;
}

static gale_status merge(merger *m, const branch *b, int n)
{
    gale__op_node *made = gale__arena_alloc(m->arena, NODES_MADE * sizeof *made);
    gale_value added;
    if (!made) return GALE_NO_MEMORY;
    m->made[b[0].product] = made;
    GALE_TRY(make_product(m, b, n, &made));
    for (int i = 0; i < b[0].n_steps; i++) GALE_TRY(make_step(m, b, n, i, &made));
    gale_value y = made[-1].out[0];
    JOIN(added, 1, &added);
    if (added >= 0) {
        const gale__op_node *like = &m->graph->nodes[b[0].product];
        GALE_TRY(make_node(m, like, "Add", (gale_value[]){y, added}, 2, made));
        y = made++->out[0];
    }
    GALE_TRY(make_split(m, b, n, y, made));
    for (int i = 0; i < n; i++) {
        m->gone[b[i].product] = 1;
        for (int k = 0; k < b[i].n_steps; k++) m->gone[b[i].steps[k].node] = 1;
        if (b[i].bias >= 0) m->gone[b[i].bias] = 1;
    }
    m->n_merged++;
    return GALE_OK;
}
#undef JOIN

/* Values added by merging are appended to the existing ones. */
static gale_status make_room(merger *m)
{
    gale_graph *g = m->graph;
    size_t products = 0;
    for (int i = 0; i < g->n_nodes; i++) products += is_product(&g->nodes[i]);
    m->gone = gale__calloc((size_t)g->n_nodes + 1, sizeof *m->gone);
    m->made = gale__calloc((size_t)g->n_nodes + 1, sizeof *m->made);
    if (!m->gone || !m->made) return GALE_NO_MEMORY;
    return gale__merge_room(g, products / 2 * VALUES_MADE, m->arena);
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
        int n = is_product(&m->graph->nodes[i]) ? find_branches(m, i, branches) : 0;
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
    gale__free(m.maker);
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
