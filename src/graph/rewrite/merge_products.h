/* Merges products that share their left factor into one product. */
#ifndef GALE_GRAPH_MERGE_PRODUCTS_H
#define GALE_GRAPH_MERGE_PRODUCTS_H
#include "graph/build/opgraph.h"

/* The products (with their biases) that make the queries, keys and values of an attention from one value become one
 * product whose columns are split.  Call after recognition; the lists of values and nodes may be new, in `arena`.  What
 * it makes goes with gale__merge_finish, also after a failure. */
gale_status gale__merge_products(gale_graph *graph, gale__arena *arena);
/* Copies the graph's list of values to `arena`, with room for so many more. */
gale_status gale__merge_room(gale_graph *graph, size_t more, gale__arena *arena);
/* A value that a rewrite adds, where its lists have room for one more; a constant becomes the graph's; NULL: none. */
gale_value gale__merge_value(gale_graph *graph, gale_tensor *constant);
void gale__merge_finish(gale_graph *graph, const gale_graph *source);
#endif
