/* Shared by the builder's files: one way to append a node. */
#ifndef GALE_GRAPH_BUILD_H
#define GALE_GRAPH_BUILD_H
#include "graph/build/graph.h"

/* A node being made, on the stack: push copies what it keeps. */
typedef struct gale__draft {
    gale__pnode node;
    gale__node in[3];
    int64_t attr[3 * GALE_MAX_RANK];
} gale__draft;

/* Starts a draft with no inputs and no attributes; `in` and `attr` of the node point into the draft. */
void gale__draft_init(gale__draft *d, int op, gale_type type, int rank, const int64_t *dims);
/* Finds an equal node, folds constants, or appends.  NIL when the graph has failed. */
gale__node gale__g_push(gale__g *g, const gale__pnode *node);

/* Usable node numbers: not NIL, and the graph has not failed. */
static inline bool gale__g_ok(const gale__g *g, gale__node n) { return n >= 0 && g->status == GALE_OK; }
/* A constant of equal elements: its value. */
bool gale__g_is_splat(const gale__g *g, gale__node n, double *value);
bool gale__g_is_value(const gale__g *g, gale__node n, double value);
/* The constant n's single element, over another shape. */
gale__node gale__g_respread(gale__g *g, gale__node n, int rank, const int64_t *dims);
/* `value` as bits of the storage type. */
uint64_t gale__bits_of(gale_type type, double value);
int64_t gale__count(int rank, const int64_t *dims);
/* Whether a value can have the shape; else the graph has failed. */
bool gale__g_shape_ok(gale__g *g, int rank, const int64_t *dims);
/* NumPy's rule; false when the shapes do not go together. */
bool gale__broadcast(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int *rank, int64_t *dims);
/* The value a reduction over nothing gives, as bits of the type. */
uint64_t gale__reduce_identity(gale__reduce kind, gale_type type);
/* "[2, 3]" in the graph's arena, for messages. */
const char *gale__g_shape_text(gale__g *g, gale__node n);

/* reference.c: the value of a node whose inputs are all constants (or EXPANDs of one); *out is gale__alloc'd. */
gale_status gale__reference_fold(const gale__g *g, const gale__pnode *node, void **out);
#endif
