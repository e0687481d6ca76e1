/* Shared by the builder's files: one way to append a node. */
#ifndef GALE_GRAPH_BUILD_H
#define GALE_GRAPH_BUILD_H
#include "graph/build/graph.h"

/* A node being made, on the stack: push copies what it keeps. */
typedef struct gale__prim_draft {
    gale__prim_node node;
    gale__node in[3];
    int64_t attr[3 * GALE_MAX_RANK];
} gale__prim_draft;

/* Starts a draft with no inputs and no attributes; `in` and `attr` of the node point into the draft. */
void gale__prim_draft_init(gale__prim_draft *d, int op, gale_type type, int rank, const int64_t *dims);
/* Returns an equal existing node, a folded constant, or the appended node.  NIL if the graph has failed. */
gale__node gale__prim_push(gale__prim_graph *g, const gale__prim_node *node);

/* An equal node that is there already, else NIL. */
gale__node gale__prim_find(const gale__prim_graph *g, const gale__prim_node *node);

/* Usable node numbers: not NIL, and the graph has not failed. */
static inline bool gale__prim_ok(const gale__prim_graph *g, gale__node n) { return n >= 0 && g->status == GALE_OK; }
/* A constant of equal elements: its value. */
bool gale__prim_is_splat(const gale__prim_graph *g, gale__node n, double *value);
/* The constant n's single element, over another shape. */
gale__node gale__prim_respread(gale__prim_graph *g, gale__node n, int rank, const int64_t *dims);
/* `value` as bits of the storage type. */
uint64_t gale__prim_bits(gale_type type, double value);
int64_t gale__dims_count(int rank, const int64_t *dims);
/* Whether a value can have the shape; else the graph has failed. */
bool gale__prim_shape_ok(gale__prim_graph *g, int rank, const int64_t *dims);
/* NumPy's rule; false when the shapes do not go together. */
bool gale__dims_broadcast(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int *rank, int64_t *dims);
/* The result of a reduction over zero elements, as bits of the type. */
uint64_t gale__reduce_identity(gale__reduce kind, gale_type type);
/* "[2, 3]" in the graph's arena, for messages. */
const char *gale__prim_shape_text(gale__prim_graph *g, gale__node n);

/* A product of two dequantised byte tensors, computed in integers and scaled once (build_integer.c).  NIL: not
 * applicable, build the ordinary product. */
gale__node gale__prim_integer_matmul(gale__prim_graph *g, gale__node a, gale__node b);
gale__node gale__prim_integer_conv(gale__prim_graph *g, gale__node x, gale__node w, const gale__prim_conv_args *c);
/* If all elements are equal, a rank-0 node with that value; otherwise n itself. */
gale__node gale__prim_one_number(gale__prim_graph *g, gale__node n);
/* A product of bytes with its zero points moved out of the product (build_zero.c).  NIL: not applicable. */
gale__node gale__prim_shifted_matmul(gale__prim_graph *g, gale__node a, gale__node b);
gale__node gale__prim_shifted_conv(gale__prim_graph *g, gale__node x, gale__node w, const gale__prim_conv_args *c);
/* The same with the phases of the stride apart (build_phases.c), where that is asked for and pays. */
gale__node gale__prim_transpose_apart(
    gale__prim_graph *g, gale__node x, gale__node w, const gale__prim_conv_args *c, const int64_t *extent);
/* A convolution over three channels of f16, bf16 or bytes, with an optional zero point, rewritten for matrix units
 * (build_pixels.c).  NIL: not applicable. */
gale__node gale__prim_pixel_conv(
    gale__prim_graph *g, gale__node x, gale__node zero, gale__node w, const gale__prim_conv_args *c);
/* If x is bytes minus a known zero point, applies the padding of c to x and clears it in c; otherwise returns x. */
gale__node gale__prim_pad_bytes(gale__prim_graph *g, gale__node x, gale__prim_conv_args *c);

/* clone.c: marks what outputs[] depend on, themselves included. */
void gale__prim_reach(const gale__prim_graph *g, const gale__node *outputs, int n, bool *needed);
/* Appends to `to` what outputs[] need of `from`.  Input i becomes number[i] (NULL: stays i).  map[] has one entry per
 * node of `from`: its node in `to`, or NIL where it was not needed.  Large constants are borrowed from where `from` has
 * them. */
gale_status gale__prim_clone(const gale__prim_graph *from, const gale__node *outputs, int n, const int *number,
    gale__prim_graph *to, gale__node *map);
#endif
