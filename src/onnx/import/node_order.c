/* Sorts nodes.  The standard requires that a value is defined before it is used; some converters to half precision
 * append their casts at the end instead, and other runtimes sort.  Nodes that are already in order are not moved. */
#include "onnx/import/import.h"
#include <string.h>

enum { DEPTH_MAX = 32 }; /* of bodies; what is deeper is refused when it is imported */

/* Names that are a body's own, and those of the bodies around it. */
typedef struct locals {
    gale__onnx_names names;
    const struct locals *up;
} locals;

typedef struct sorter {
    gale__onnx_names makers; /* the node that makes a value */
    uint32_t *needs;
    size_t n_needs, capacity; /* nodes that must come before, node by node */
    size_t *first;            /* of a node's needs, n + 1 */
    bool mixed;               /* a node reads what a later one makes */
} sorter;

static gale_status add_read(sorter *o, size_t node, gale__pb_text name, const locals *inside)
{
    if (!name.at || !name.size) return GALE_OK;
    for (; inside; inside = inside->up)
        if (gale__onnx_names_find(&inside->names, name.at, name.size) >= 0) return GALE_OK;
    int32_t maker = gale__onnx_names_find(&o->makers, name.at, name.size);
    if (maker < 0 || (size_t)maker == node) return GALE_OK;
    GALE_TRY(gale__grow((void **)&o->needs, &o->capacity, o->n_needs + 1, sizeof *o->needs));
    o->needs[o->n_needs++] = (uint32_t)maker;
    o->mixed = o->mixed || (size_t)maker > node;
    return GALE_OK;
}

static gale_status own(locals *l, gale__pb_text name)
{
    return name.at && name.size ? gale__onnx_names_set(&l->names, name.at, name.size, 0) : GALE_OK;
}

static gale_status find_own(locals *l, const gale__pb_graph *g)
{
    for (size_t i = 0; i < g->input.n; i++) GALE_TRY(own(l, g->input.at[i].name));
    for (size_t i = 0; i < g->initializer.n; i++) GALE_TRY(own(l, g->initializer.at[i].name));
    for (size_t i = 0; i < g->sparse_initializer.n; i++)
        if (g->sparse_initializer.at[i].values) GALE_TRY(own(l, g->sparse_initializer.at[i].values->name));
    for (size_t i = 0; i < g->node.n; i++)
        for (size_t k = 0; k < g->node.at[i].output.n; k++) GALE_TRY(own(l, g->node.at[i].output.at[k]));
    return GALE_OK;
}

static gale_status add_node(sorter *o, size_t index, const gale__pb_node *node, const locals *inside, int depth);

static gale_status add_body(sorter *o, size_t index, const gale__pb_graph *g, const locals *around, int depth)
{
    locals l = {.up = around};
    gale_status status = find_own(&l, g);
    for (size_t i = 0; status == GALE_OK && i < g->node.n; i++) status = add_node(o, index, &g->node.at[i], &l, depth);
    for (size_t i = 0; status == GALE_OK && i < g->output.n; i++) status = add_read(o, index, g->output.at[i].name, &l);
    gale__onnx_names_finish(&l.names);
    return status;
}

/* What a node reads, in its bodies too. */
static gale_status add_node(sorter *o, size_t index, const gale__pb_node *node, const locals *inside, int depth)
{
    for (size_t i = 0; i < node->input.n; i++) GALE_TRY(add_read(o, index, node->input.at[i], inside));
    for (size_t i = 0; depth < DEPTH_MAX && i < node->attribute.n; i++)
        if (node->attribute.at[i].g) GALE_TRY(add_body(o, index, node->attribute.at[i].g, inside, depth + 1));
    return GALE_OK;
}

static gale_status find_needs(sorter *o, const gale__pb_node *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < nodes[i].output.n; k++) {
            gale__pb_text name = nodes[i].output.at[k];
            if (name.at && name.size) GALE_TRY(gale__onnx_names_set(&o->makers, name.at, name.size, (int32_t)i));
        }
    for (size_t i = 0; i < n; i++) {
        o->first[i] = o->n_needs;
        GALE_TRY(add_node(o, i, &nodes[i], NULL, 0));
    }
    o->first[n] = o->n_needs;
    return GALE_OK;
}

/* Each node behind what it needs, else as they are; where they form a cycle one of them comes too early, and is refused
 * when it is read. */
static void sort(const sorter *o, size_t n, size_t *next, uint32_t *stack, bool *seen, uint32_t *out)
{
    size_t height = 0, placed = 0;
    memcpy(next, o->first, n * sizeof *next);
    for (size_t root = 0; root < n; root++) {
        if (!seen[root]) seen[root] = true, stack[height++] = (uint32_t)root;
        while (height) {
            uint32_t at = stack[height - 1];
            while (next[at] < o->first[at + 1] && seen[o->needs[next[at]]]) next[at]++;
            if (next[at] == o->first[at + 1]) out[placed++] = stack[--height];
            else seen[o->needs[next[at]]] = true, stack[height++] = o->needs[next[at]];
        }
    }
}

gale_status gale__onnx_import_order(const gale__pb_node *nodes, size_t n, uint32_t **out)
{
    sorter o = {.first = gale__alloc((n + 1) * sizeof *o.first)};
    size_t *next = NULL;
    uint32_t *stack = NULL, *sorted = NULL;
    bool *seen = NULL;
    gale_status status = n < INT32_MAX ? GALE_NO_MEMORY : gale__fail(GALE_LIMIT, "too many nodes: %zu", n);
    if (!o.first || n >= INT32_MAX) goto done;
    GALE_GO(find_needs(&o, nodes, n));
    if (!o.mixed) goto done;
    status = GALE_NO_MEMORY;
    next = gale__alloc((n + 1) * sizeof *next);
    stack = gale__alloc((n + 1) * sizeof *stack);
    seen = gale__calloc(n + 1, sizeof *seen);
    sorted = gale__alloc((n + 1) * sizeof *sorted);
    if (!next || !stack || !seen || !sorted) goto done;
    sort(&o, n, next, stack, seen, sorted);
    *out = sorted;
    sorted = NULL;
    status = GALE_OK;
done:
    gale__onnx_names_finish(&o.makers);
    gale__free(o.first), gale__free(o.needs), gale__free(next), gale__free(stack), gale__free(seen), gale__free(sorted);
    return status;
}
