/* The operator graph that a program uses. */
#ifndef GALE_GRAPH_RECOGNISE_H
#define GALE_GRAPH_RECOGNISE_H
#include "graph/build/opgraph.h"

/* The graph with chains that make up one operator (recognise.def) as one node each, the chain being its body.  Only the
 * list of nodes is new, in `arena`: the rest is the given graph's, which must outlive it. */
gale_status gale__recognise(const gale_graph *graph, bool no_recognise, gale__arena *arena, gale_graph *out);
/* What is wrong with row i of the table; NULL: nothing.  False if there is no such row. */
bool gale__recognise_check(int i, const char **region, const char **error);
#endif
