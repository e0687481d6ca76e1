/* Indices and labels from the host are checked against the extent that they refer to before a run: a device would
 * silently read other memory, or clamp them. Values computed on devices are not checked. */
#ifndef GALE_GRAPH_RUN_INDEX_CHECK_H
#define GALE_GRAPH_RUN_INDEX_CHECK_H
#include "graph/build/opgraph.h"

typedef struct gale__index_rule {
    const gale__op_node *node;
    int number;         /* of the node */
    int input;          /* of the graph: the indices; -1: a constant */
    gale_value indices; /* the same as a value */
    gale_value data;    /* that they point into: a constant or an input */
    int axis;
    bool from_end;  /* negative ones count from the end */
    bool tuples;    /* neighbouring indices point into neighbouring axes */
    bool has_other; /* a label that marks ignored elements, */
    int64_t other;  /* which may have any value */
} gale__index_rule;

/* The rules of a graph, in its program's arena; constants are checked at once. */
gale_status gale__index_rules(const gale_graph *g, gale__arena *arena, gale__index_rule **out, int *count);
gale_status gale__index_check(
    const gale_graph *g, const gale__index_rule *rules, int count, gale_tensor *const *inputs);
#endif
