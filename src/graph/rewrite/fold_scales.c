/* ((W x + b) - mean) * factor + shift is W' x + b' with other constants.  Most exporters fold a BatchNormalization
 * themselves, but not all, and none folds what layers multiply their results by (ConvNeXt, BEiT).  A kernel then adds a
 * bias, which all of its forms do, instead of running a chain of operations, which takes up to half of its time on a
 * CPU.  Constants are computed in f64 and rounded once. */
#include "graph/rewrite/fold_scales.h"
#include "graph/rewrite/merge_products.h"
#include "graph/run/tensor.h"
#include <math.h>
#include <string.h>

enum { STATISTICS = 4 };       /* of a BatchNormalization: factor, shift, mean, variance */
#define MOST_BYTES (64u << 20) /* of weights: larger ones stay where they are, in the file */
#define LARGEST 0x1p60         /* magnitudes of weights that are far from what f32, or f16, has no numbers for */
#define LARGEST_NARROW 0x1p12
#define LEAST_NARROW 0x1p-9 /* of the largest weight of a channel */

typedef struct folder {
    gale_graph *graph;
    gale__arena *arena;
    int32_t *reader; /* by value: the node that alone reads it, -1: none, -2: several, or it is an output */
    int32_t *maker;  /* by value: -1: none */
    uint8_t *gone;   /* by node */
    bool narrow;
} folder;

/* A convolution or product, and what becomes of its results: times scale plus shift, by channel. */
typedef struct fold {
    int node, last; /* last: the operator whose result it takes over */
    const gale_tensor *weight;
    int axis;       /* of channels, in the weights */
    bool by_column; /* channels are the last axis of the result, else the second */
    bool has_bias;  /* an operand for it */
    int64_t channels;
    double *scale, *shift, *largest; /* largest: magnitude of a weight */
} fold;

static gale_status list_readers(folder *f)
{
    const gale_graph *g = f->graph;
    size_t n = (size_t)g->n_values + 1;
    f->reader = gale__alloc(n * sizeof *f->reader);
    f->maker = gale__alloc(n * sizeof *f->maker);
    f->gone = gale__calloc((size_t)g->n_nodes + 1, 1);
    if (!f->reader || !f->maker || !f->gone) return GALE_NO_MEMORY;
    for (int v = 0; v < g->n_values; v++) f->reader[v] = f->maker[v] = -1;
    for (int i = 0; i < g->n_nodes; i++) {
        for (int k = 0; k < g->nodes[i].n_in; k++) {
            gale_value v = g->nodes[i].in[k];
            if (v >= 0) f->reader[v] = f->reader[v] == -1 ? i : -2;
        }
        for (int k = 0; k < g->nodes[i].n_out; k++)
            if (g->nodes[i].out[k] >= 0) f->maker[g->nodes[i].out[k]] = i;
    }
    for (int i = 0; i < g->n_outputs; i++) f->reader[g->outputs[i]] = -2;
    return GALE_OK;
}

/* The constant f32 tensor that this operand is, maybe under another name; NULL: it is none. */
static const gale_tensor *constant(const folder *f, const gale__op_node *n, int i)
{
    gale_value v = i < n->n_in ? n->in[i] : GALE_NONE;
    while (v >= 0 && f->maker[v] >= 0 && gale__op_is(&f->graph->nodes[f->maker[v]], "Identity"))
        v = f->graph->nodes[f->maker[v]].in[0];
    const gale_tensor *t = v < 0 ? NULL : f->graph->values[v].constant;
    return t && t->type == GALE_F32 && gale__tensor_elements(t) ? t : NULL;
}

static bool is_number(const gale__op_node *n, const char *attr, double value)
{
    const gale_attr *a = gale__op_attr(n, attr);
    return !a || (a->kind == GALE_ATTR_FLOAT ? a->f == value : a->kind == GALE_ATTR_INT && (double)a->i == value);
}

static bool is_set(const gale__op_node *n, const char *attr) { return !is_number(n, attr, 0); }

/* Whether it has one number for each channel of the result, or one for all, and does not give it more axes. */
static bool is_by_channel(const fold *c, const gale_tensor *t)
{
    int rank = c->by_column ? 1 : c->weight->rank, at = c->by_column ? t->rank - 1 : t->rank - (rank - 1);
    if (t->rank > rank) return false;
    for (int d = 0; d < t->rank; d++)
        if (t->dims[d] != 1 && (d != at || t->dims[d] != c->channels)) return false;
    return true;
}

/* A row of constants; one number stands for all. */
static gale_status read_row(const gale_tensor *t, int64_t channels, double *out)
{
    int64_t n = gale__tensor_elements(t);
    float *row = gale__alloc(t->size_bytes);
    gale_status status = row ? gale_tensor_to_cpu(t, row, t->size_bytes) : GALE_NO_MEMORY;
    for (int64_t i = 0; i < channels && status == GALE_OK; i++) out[i] = (double)row[n == 1 ? 0 : i];
    gale__free(row);
    return status;
}

/* Whether node n is a convolution or product that can take over what follows. */
static bool find_product(const folder *f, int node, fold *c)
{
    const gale__op_node *n = &f->graph->nodes[node];
    bool conv = gale__op_is(n, "Conv"), gemm = gale__op_is(n, "Gemm"), product = gale__op_is(n, "MatMul");
    if ((!conv && !gemm && !product) || n->n_out != 1 || n->out[0] < 0) return false;
    *c = (fold){.node = node, .last = node, .weight = constant(f, n, 1), .by_column = !conv, .has_bias = !product};
    if (!c->weight || c->weight->size_bytes > MOST_BYTES || (conv ? c->weight->rank < 3 : c->weight->rank != 2))
        return false;
    if (gemm && !(is_number(n, "alpha", 1) && is_number(n, "beta", 1))) return false;
    c->axis = conv || (gemm && is_set(n, "transB")) ? 0 : 1;
    c->channels = c->weight->dims[c->axis];
    if (!c->has_bias || n->n_in < 3 || n->in[2] < 0) return true;
    const gale_tensor *bias = constant(f, n, 2);
    return bias && bias->rank == 1 && bias->dims[0] == c->channels;
}

/* scale and shift of what a BatchNormalization does, into row[0] and row[1]. */
static gale_status read_norm(const folder *f, const fold *c, const gale__op_node *n, double *row)
{
    const gale_attr *epsilon = gale__op_attr(n, "epsilon");
    for (int i = 0; i < STATISTICS; i++) GALE_TRY(read_row(constant(f, n, i + 1), c->channels, row + i * c->channels));
    for (int64_t i = 0; i < c->channels; i++) {
        double *at = row + i, by = at[0] / sqrt(at[3 * c->channels] + (epsilon ? (double)epsilon->f : 1e-5));
        at[c->channels] -= at[2 * c->channels] * by;
        at[0] = by;
    }
    return GALE_OK;
}

/* Which constant the node has beside the value y; -1: none that fits. */
static int find_operand(const folder *f, const fold *c, const gale__op_node *n, gale_value y)
{
    bool sum = gale__op_is(n, "Add"), turns = sum || gale__op_is(n, "Mul");
    if (!turns && !gale__op_is(n, "Sub") && !gale__op_is(n, "Div")) return -1;
    int side = n->in[0] == y ? 1 : turns ? 0 : -1;
    const gale_tensor *t = side < 0 ? NULL : constant(f, n, side);
    return t && is_by_channel(c, t) ? side : -1;
}

static bool is_norm(const folder *f, const fold *c, const gale__op_node *n, gale_value y)
{
    if (!gale__op_is(n, "BatchNormalization") || n->in[0] != y || is_set(n, "training_mode") ||
        gale__op_attr(n, "spatial") || c->by_column)
        return false;
    for (int i = 1; i <= STATISTICS; i++) {
        const gale_tensor *t = constant(f, n, i);
        if (!t || t->rank != 1 || t->dims[0] != c->channels) return false;
    }
    return true;
}

/* Takes over the operators that follow, if one of them multiplies; sums alone are as good as a bias where they are. */
static gale_status follow(const folder *f, fold *c)
{
    const gale__op_node *nodes = f->graph->nodes;
    double *row = gale__alloc((size_t)(STATISTICS * c->channels) * sizeof *row);
    gale_status status = row ? GALE_OK : GALE_NO_MEMORY;
    bool multiplied = false;
    for (int64_t i = 0; i < c->channels; i++) c->scale[i] = 1, c->shift[i] = 0;
    while (status == GALE_OK) {
        gale_value y = nodes[c->last].out[0];
        int next = f->reader[y];
        const gale__op_node *n = next < 0 ? NULL : &nodes[next];
        if (!n || n->n_in < 2 || n->n_out != 1 || n->out[0] < 0) break;
        bool norm = is_norm(f, c, n, y), sum = gale__op_is(n, "Add"), less = gale__op_is(n, "Sub"),
             by = gale__op_is(n, "Div");
        int side = norm ? 1 : find_operand(f, c, n, y);
        if (side < 0) break;
        status = norm ? read_norm(f, c, n, row) : read_row(constant(f, n, side), c->channels, row);
        for (int64_t i = 0; i < c->channels; i++) {
            double factor = sum || less ? 1
                            : by        ? 1 / row[i]
                                        : row[i],
                   more = norm   ? row[c->channels + i]
                          : sum  ? row[i]
                          : less ? -row[i]
                                 : 0;
            c->scale[i] *= factor;
            c->shift[i] = c->shift[i] * factor + more;
        }
        multiplied |= !sum && !less;
        c->last = next;
    }
    if (!multiplied) c->last = c->node;
    gale__free(row);
    return status;
}

/* Times scale, by channel; false: some are then out of range. */
static bool scale_weights(const folder *f, const fold *c, float *w)
{
    const double limit = f->narrow ? LARGEST_NARROW : LARGEST, least = f->narrow ? LEAST_NARROW : 1 / LARGEST;
    int64_t each = 1, total = gale__tensor_elements(c->weight);
    for (int d = c->axis + 1; d < c->weight->rank; d++) each *= c->weight->dims[d];
    for (int64_t i = 0; i < c->channels; i++) c->largest[i] = 0;
    for (int64_t at = 0, i = 0; at < total; at += each, i = i + 1 < c->channels ? i + 1 : 0)
        for (int64_t k = at; k < at + each; k++) {
            double value = (double)w[k] * c->scale[i];
            if (!(fabs(value) < limit)) return false;
            c->largest[i] = fmax(c->largest[i], fabs(value));
            w[k] = (float)value;
        }
    for (int64_t i = 0; i < c->channels; i++)
        if (!(fabs(c->shift[i]) < limit) || (c->largest[i] > 0 && c->largest[i] < least)) return false;
    return true;
}

/* The constant becomes the graph's. */
static gale_status add_constant(folder *f, int rank, const int64_t *dims, const float *data, gale_value *out)
{
    gale_tensor *made = NULL;
    GALE_TRY(gale_tensor_from_cpu(NULL, GALE_F32, rank, dims, data, &made));
    *out = gale__merge_value(f->graph, made);
    return GALE_OK;
}

/* Operands of the node, as the arena's. */
static gale_status set_operands(folder *f, gale__op_node *n, const gale_value *in, int n_in)
{
    n->in = gale__arena_copy(f->arena, in, (size_t)n_in * sizeof *in);
    n->n_in = n_in;
    return n->in ? GALE_OK : GALE_NO_MEMORY;
}

/* The node with its new constants takes the place of the last of the chain; a product without room for a bias keeps its
 * own, and the last becomes a sum. */
static gale_status replace(folder *f, const fold *c, const float *weights, const float *bias, bool adds)
{
    gale__op_node *n = &f->graph->nodes[c->node], *last = &f->graph->nodes[c->last];
    gale_value in[3] = {n->in[0]};
    GALE_TRY(add_constant(f, c->weight->rank, c->weight->dims, weights, &in[1]));
    if (adds) GALE_TRY(add_constant(f, 1, &c->channels, bias, &in[2]));
    for (int i = f->reader[n->out[0]]; i >= 0 && i != c->last; i = f->reader[f->graph->nodes[i].out[0]]) f->gone[i] = 1;
    if (adds && !c->has_bias) {
        const gale_value sum[2] = {n->out[0], in[2]};
        GALE_TRY(set_operands(f, n, in, 2));
        *last = (gale__op_node){.op = gale__op_find("Add"), .out = last->out, .n_out = 1, .where = last->where};
        last->name = last->op->name;
        last->path = -1;
        return set_operands(f, last, sum, 2);
    }
    GALE_TRY(set_operands(f, n, in, adds ? 3 : 2));
    n->out = last->out;
    f->gone[c->last] = 1;
    return GALE_OK;
}

static gale_status fold_into(folder *f, fold *c)
{
    const gale__op_node *n = &f->graph->nodes[c->node];
    size_t rows = (size_t)c->channels;
    float *weights = gale__alloc(c->weight->size_bytes), *bias = gale__calloc(rows, sizeof *bias);
    gale_status status = weights && bias ? GALE_OK : GALE_NO_MEMORY;
    bool adds = c->has_bias && n->n_in > 2 && n->in[2] >= 0;
    if (status == GALE_OK) status = gale_tensor_to_cpu(c->weight, weights, c->weight->size_bytes);
    if (status == GALE_OK && adds) status = gale_tensor_to_cpu(constant(f, n, 2), bias, rows * sizeof *bias);
    bool fits = status == GALE_OK && scale_weights(f, c, weights);
    for (size_t i = 0; fits && i < rows; i++) {
        bias[i] = (float)((double)bias[i] * c->scale[i] + c->shift[i]);
        adds |= bias[i] != 0;
        fits = isfinite(bias[i]);
    }
    if (fits) status = replace(f, c, weights, bias, adds);
    gale__free(weights);
    gale__free(bias);
    return status;
}

static gale_status fold_node(folder *f, int node)
{
    fold c;
    if (f->gone[node] || !find_product(f, node, &c) || f->reader[f->graph->nodes[node].out[0]] < 0) return GALE_OK;
    c.scale = gale__alloc((size_t)c.channels * 3 * sizeof *c.scale);
    if (!c.scale) return GALE_NO_MEMORY;
    c.shift = c.scale + c.channels;
    c.largest = c.shift + c.channels;
    gale_status status = follow(f, &c);
    if (status == GALE_OK && c.last != node) status = fold_into(f, &c);
    gale__free(c.scale);
    return status;
}

static gale_status fold_all(folder *f)
{
    gale_graph *g = f->graph;
    int n = 0, n_nodes = g->n_nodes;
    GALE_TRY(list_readers(f));
    GALE_TRY(gale__merge_room(g, 2 * (size_t)n_nodes, f->arena)); /* weights and a bias of each */
    for (int i = 0; i < n_nodes; i++) GALE_TRY(fold_node(f, i));
    for (int i = 0; i < n_nodes; i++)
        if (!f->gone[i]) g->nodes[n++] = g->nodes[i];
    g->n_nodes = n;
    return GALE_OK;
}

gale_status gale__fold_scales(gale_graph *graph, bool narrow, gale__arena *arena)
{
    folder f = {.graph = graph, .arena = arena, .narrow = narrow};
    if (graph->n_gradients) return GALE_OK; /* gradients are taken by the values that are there */
    gale_status status = fold_all(&f);
    gale__free(f.reader);
    gale__free(f.maker);
    gale__free(f.gone);
    return status;
}
