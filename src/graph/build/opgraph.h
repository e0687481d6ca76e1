/* The operator graph behind gale_graph, and the table operators register in. */
#ifndef GALE_GRAPH_OPGRAPH_H
#define GALE_GRAPH_OPGRAPH_H
#include "graph/build/graph.h"

typedef struct gale__op_node {
    const struct gale__op *op;
    gale_value *in, *out;
    int n_in, n_out;
    gale_attr *attrs;
    int n_attrs;
    const char *name;  /* of its region: the operator's name, or a recogniser's */
    const char *where; /* for messages, by whoever made the graph; NULL: name and number */
    uint64_t
        number; /* number in the original graph, which rewriting does not change: its random numbers depend on it */
    int path;   /* in a program: first row of the fast paths for the name, -1 none */
    /* Made by a recogniser: the chain it stands for, lowered instead where there is no operator or it does not apply,
     * since input 0 has not at least min_rank axes, or not exactly exact_rank (-1: any). */
    const struct gale__op_node *body;
    int n_body, min_rank, exact_rank;
} gale__op_node;

/* The attribute of this name; NULL: the node has none. */
const gale_attr *gale__op_attr(const gale__op_node *n, const char *name);

/* Whether it is the operator of this name, not a chain that a recogniser made one. */
bool gale__op_is(const gale__op_node *n, const char *name);

/* What lower() works with: in[i] may be GALE__NIL for an optional input left out; it fills out[].  Errors:
 * gale__prim_fail. */
typedef struct gale__lower {
    gale__prim_graph *g;
    const gale__op_node *node;
    const gale__node *in;
    gale__node *out;
    int n_in, n_out;
    gale_device *device; /* whose fast paths may claim a part of it; NULL: none may */
} gale__lower;

typedef struct gale__op {
    const char *name;
    int min_in, max_in; /* max_in -1: any number */
    int max_out;
    uint32_t plan_inputs; /* bit i: input i must be known when planning (shapes, axes, k, pads ...) */
    void (*lower)(gale__lower *L);
    const char *doc;       /* one or two sentences */
    uint32_t shape_inputs; /* bit i: of input i only the shape matters (Shape, Size, EyeLike ...) */
} gale__op;
/* The ops room registers its table once (gale__ops_table in ops/op_registry.c); the graph room looks up names in it. */
extern const gale__op *const gale__ops_table[];
extern const int gale__ops_count;
const gale__op *gale__op_find(const char *name);
/* GALE_INVALID, with a suggestion, for an attribute that a standard operator has not got in any opset.  own: nor
 * gale, which adds a few. */
gale_status gale__op_attr_check(const char *op, const char *attr, bool own);

typedef struct gale__value_info {
    const char *name;
    int32_t node;                /* producing op_node, -1: input or constant */
    int32_t input;               /* which input, -1 */
    gale_tensor *constant;       /* host tensor, or NULL */
    gale_type type;              /* inputs and constants */
    int rank;                    /* -1: an input of any */
    int64_t dims[GALE_MAX_RANK]; /* -1: symbol */
    const char *symbols[GALE_MAX_RANK];
} gale__value_info;
/* A request for derivatives: filled in when the loss and all of wrt are lowered. */
typedef struct gale__gradient {
    gale_value loss;
    gale_value *wrt, *out;
    int n;
    int after; /* op nodes before it */
} gale__gradient;
struct gale_graph {
    gale__arena arena;
    gale__value_info *values;
    int n_values;
    size_t values_capacity;
    gale__op_node *nodes;
    int n_nodes;
    size_t nodes_capacity;
    gale_value *inputs;
    int n_inputs;
    size_t inputs_capacity;
    gale_value *outputs;
    const char **output_names;
    int n_outputs;
    size_t outputs_capacity, names_capacity;
    gale__gradient *gradients;
    int n_gradients;
    size_t gradients_capacity;
    gale_type
        narrow; /* in a program: what f32 values are held in where operators allow (precision.h); F32: as they are */
    uint32_t widened; /* in a program: half types that operators compute and hold in f32, flags by type (precision.h) */
    gale_tensor **narrow_constants; /* by value: the constant in that type, or NULL; owned */
    int depth;                      /* of bodies within bodies among its attributes */
    _Atomic int refs;               /* its maker and the programs made from it */
};
/* Inputs whose values, not only shapes, must be known to plan: flags by input. */
gale_status gale__opgraph_plan_inputs(const gale_graph *graph, bool *out);
void gale__graph_hold(const gale_graph *graph);
/* What messages call the nodes from `first` on. */
gale_status gale__opgraph_place(gale_graph *graph, int first, const char *where);
/* Lowers the whole graph for concrete input extents.  dims[i]: extents of input i.  known[i]: host data of an input
 * whose values are plan-time values, or NULL.  device: whose fast paths may claim regions; NULL: none may.  out[j]:
 * node of output j. */
gale_status gale__opgraph_lower(const gale_graph *graph, const int64_t (*dims)[GALE_MAX_RANK], const int *ranks,
    const void *const *known, gale_device *device, gale__prim_graph *g, gale__node *out);
/* Whether any of its operators, or of their bodies', may draw from the seed of the run. */
bool gale__opgraph_draws(const gale_graph *graph);
/* Lowers another graph's operators in place, as part of the operator being lowered: bodies given as attributes.  in[i]
 * stands for its input i; out[j] becomes its output j.  A failure is g->status too. */
gale_status gale__opgraph_inline(
    const gale_graph *graph, gale__prim_graph *g, const gale__node *in, int n_in, gale__node *out, int n_out);
#endif
