/* The first layer of most networks for pictures has three channels, whose halves no copy takes at once.  The picture is
 * turned into halves on its way anyway, so that a fourth channel costs little, and pixels of 8 bytes are copied
 * straight to work-group memory. */
#include "graph/rewrite/pad_channels.h"
#include "graph/rewrite/merge_products.h"
#include "graph/run/tensor.h"
#include <string.h>

enum { FEW = 3, PADDED = 4 };

/* Its weights, where it is such a convolution. */
static const gale_tensor *weights_of(const gale_graph *g, const gale__op_node *n, bool narrow)
{
    if (!n->op || n->n_body || strcmp(n->name, "Conv") || n->n_in < 2 || n->in[1] < 0) return NULL;
    const gale_attr *group = gale__op_attr(n, "group");
    const gale_tensor *w = g->values[n->in[1]].constant;
    if (!w || w->rank != 4 || w->dims[1] != FEW || (group && (group->kind != GALE_ATTR_INT || group->i != 1)))
        return NULL;
    return w->type == GALE_F16 || w->type == GALE_BF16 || (narrow && w->type == GALE_F32) ? w : NULL;
}

/* [out, 3, ...] to [out, 4, ...]. */
static gale_status pad_weights(const gale_tensor *w, gale_tensor **out)
{
    size_t filters = (size_t)w->dims[0], row = filters ? w->size_bytes / filters : 0, wide = row / FEW * PADDED;
    uint8_t *from = gale__calloc(w->size_bytes + 1, 1), *to = gale__calloc(filters * wide + 1, 1);
    gale_status status = from && to ? gale_tensor_to_cpu(w, from, w->size_bytes) : GALE_NO_MEMORY;
    for (size_t o = 0; status == GALE_OK && o < filters; o++) memcpy(to + o * wide, from + o * row, row);
    int64_t dims[4] = {w->dims[0], PADDED, w->dims[2], w->dims[3]};
    if (status == GALE_OK) status = gale_tensor_from_cpu(NULL, w->type, 4, dims, to, out);
    gale__free(from);
    gale__free(to);
    return status;
}

/* The convolution n, and before it the padding of its input. */
static gale_status pad(gale_graph *g, gale__arena *arena, const gale_tensor *w, gale__op_node *n, gale__op_node *before)
{
    static const int64_t pads[8] = {0, 0, 0, 0, 0, PADDED - FEW, 0, 0};
    gale_tensor *weights = NULL;
    gale_value *in = gale__arena_copy(arena, n->in, (size_t)n->n_in * sizeof *in);
    *before = (gale__op_node){.op = gale__op_find("Pad"), .n_in = 1, .n_out = 1, .where = n->where, .path = -1};
    before->name = before->op->name;
    before->in = gale__arena_copy(arena, n->in, sizeof *n->in);
    before->out = gale__arena_alloc(arena, sizeof *before->out);
    before->attrs = gale__arena_alloc(arena, sizeof *before->attrs);
    if (!in || !before->in || !before->out || !before->attrs) return GALE_NO_MEMORY;
    before->attrs[0] = (gale_attr){.name = "pads", .kind = GALE_ATTR_INTS, .ints = pads, .count = 8};
    before->n_attrs = 1;
    GALE_TRY(pad_weights(w, &weights));
    in[1] = gale__merge_value(g, weights);
    in[0] = before->out[0] = gale__merge_value(g, NULL);
    n->in = in;
    return GALE_OK;
}

gale_status gale__pad_channels(gale_graph *graph, bool narrow, gale__arena *arena)
{
    size_t count = 0, n = 0;
    for (int i = 0; i < graph->n_nodes; i++) count += weights_of(graph, &graph->nodes[i], narrow) != NULL;
    if (!count || graph->n_gradients) return GALE_OK; /* gradients are taken by the values that are there */
    gale__value_info *values = gale__arena_alloc(arena, ((size_t)graph->n_values + 2 * count) * sizeof *values);
    gale__op_node *nodes = gale__arena_alloc(arena, ((size_t)graph->n_nodes + count) * sizeof *nodes);
    if (!values || !nodes) return GALE_NO_MEMORY;
    memcpy(values, graph->values, (size_t)graph->n_values * sizeof *values);
    graph->values = values;
    for (int i = 0; i < graph->n_nodes; i++) {
        const gale_tensor *w = weights_of(graph, &graph->nodes[i], narrow);
        if (w) n++;
        nodes[n] = graph->nodes[i];
        if (w) GALE_TRY(pad(graph, arena, w, &nodes[n], &nodes[n - 1]));
        n++;
    }
    graph->nodes = nodes;
    graph->n_nodes = (int)n;
    return GALE_OK;
}
