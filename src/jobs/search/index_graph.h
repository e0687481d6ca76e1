/* The graph of a search on a device. */
#ifndef GALE_JOBS_SEARCH_INDEX_GRAPH_H
#define GALE_JOBS_SEARCH_INDEX_GRAPH_H
#include "gale/graph.h"

enum { GALE__INDEX_TABLES = 512 };

typedef struct gale__index_shape {
    int64_t rows, dims;
    int64_t table_rows; /* of each table; the last has what is left */
    gale_type type;     /* of the tables: f32 or f16 */
    int64_t k;          /* at most rows */
} gale__index_shape;
/* Inputs: queries [any, dims] in f32, then the tables.  Outputs: scores [any, k] and rows [any, k], the best k in any
 * order, of equal scores those of the lowest rows. */
gale_status gale__index_graph(gale_graph *g, const gale__index_shape *shape);
#endif
