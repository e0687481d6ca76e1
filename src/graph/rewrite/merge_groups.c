/* Merges small groups of a convolution into larger ones for matrix units.  A group of 4 channels fills an eighth of the
 * smallest tile, and only 8 bytes of its values are contiguous in memory.  Eight groups as one cost the unit no more
 * and are read by whole lines; the weights between groups are zeros.  An infinity in one group therefore reaches the
 * results of the others as NaN. */
#include "graph/rewrite/merge_groups.h"
#include "graph/rewrite/merge_products.h"
#include "graph/run/tensor.h"
#include <string.h>

enum { CHANNELS = 32 };

typedef struct grouped {
    const gale_tensor *weight;
    int64_t groups, merged; /* merged: groups that become one; 1: none */
} grouped;

/* Depth-wise convolutions have kernels of their own. */
static bool find_groups(const gale_graph *g, const gale__op_node *n, bool narrow, grouped *out)
{
    const gale_attr *group = gale__op_is(n, "Conv") ? gale__op_attr(n, "group") : NULL;
    if (!group || group->kind != GALE_ATTR_INT || group->i < 2 || n->n_in < 2 || n->in[1] < 0) return false;
    *out = (grouped){.weight = g->values[n->in[1]].constant, .groups = group->i, .merged = 1};
    const gale_tensor *w = out->weight;
    if (!w || w->rank < 3 || w->dims[1] < 2 || w->dims[0] % out->groups) return false;
    if (w->type != GALE_F16 && w->type != GALE_BF16 && !(narrow && w->type == GALE_F32)) return false;
    while (w->dims[1] * out->merged * 2 <= CHANNELS && out->groups % (out->merged * 2) == 0) out->merged *= 2;
    return out->merged > 1;
}

/* [out, in, ...] to [out, in * merged, ...]: the weights of output channel o stand behind those of the groups that come
 * before its own among the merged ones. */
static gale_status spread(const grouped *c, gale_tensor **out)
{
    const gale_tensor *w = c->weight;
    size_t row = w->size_bytes / (size_t)w->dims[0], each = (size_t)(w->dims[0] / c->groups);
    uint8_t *from = gale__calloc(w->size_bytes + 1, 1), *to = gale__calloc(w->size_bytes + 1, (size_t)c->merged);
    gale_status status = from && to ? gale_tensor_to_cpu(w, from, w->size_bytes) : GALE_NO_MEMORY;
    for (size_t o = 0; status == GALE_OK && o < (size_t)w->dims[0]; o++)
        memcpy(to + (o * (size_t)c->merged + o / each % (size_t)c->merged) * row, from + o * row, row);
    int64_t dims[GALE_MAX_RANK];
    memcpy(dims, w->dims, sizeof dims);
    dims[1] *= c->merged;
    if (status == GALE_OK) status = gale_tensor_from_cpu(NULL, w->type, w->rank, dims, to, out);
    gale__free(from);
    gale__free(to);
    return status;
}

static gale_status merge(gale_graph *g, gale__arena *arena, gale__op_node *n, const grouped *c)
{
    gale_tensor *weight = NULL;
    gale_attr *attrs = gale__arena_alloc(arena, (size_t)n->n_attrs * sizeof *attrs);
    gale_value *in = gale__arena_alloc(arena, (size_t)n->n_in * sizeof *in);
    if (!attrs || !in) return GALE_NO_MEMORY;
    GALE_TRY(spread(c, &weight));
    memcpy(attrs, n->attrs, (size_t)n->n_attrs * sizeof *attrs);
    memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
    attrs[gale__op_attr(n, "group") - n->attrs].i = c->groups / c->merged;
    in[1] = gale__merge_value(g, weight);
    n->attrs = attrs;
    n->in = in;
    return GALE_OK;
}

gale_status gale__merge_groups(gale_graph *graph, bool narrow, gale__arena *arena)
{
    grouped c;
    size_t count = 0;
    for (int i = 0; i < graph->n_nodes; i++) count += find_groups(graph, &graph->nodes[i], narrow, &c);
    if (!count || graph->n_gradients) return GALE_OK; /* gradients are taken by the values that are there */
    GALE_TRY(gale__merge_room(graph, count, arena));
    gale__op_node *nodes = gale__arena_alloc(arena, (size_t)graph->n_nodes * sizeof *nodes);
    if (!nodes) return GALE_NO_MEMORY;
    memcpy(nodes, graph->nodes, (size_t)graph->n_nodes * sizeof *nodes);
    graph->nodes = nodes;
    for (int i = 0; i < graph->n_nodes; i++)
        if (find_groups(graph, &nodes[i], narrow, &c)) GALE_TRY(merge(graph, arena, &nodes[i], &c));
    return GALE_OK;
}
