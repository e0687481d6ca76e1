/* Half precision: which values of a program are f16 or bf16 although the graph declares f32. */
#ifndef GALE_GRAPH_PRECISION_H
#define GALE_GRAPH_PRECISION_H
#include "graph/build/opgraph.h"

/* Makes a program's graph run in `type` (F16 or BF16) and converts the constants that its operators will read narrow;
 * call once, after recognition.  What it makes goes with gale__precision_finish. */
gale_status gale__precision_apply(gale_graph *graph, gale_type type);
/* Makes a program's graph hold values of these half types (flags) in f32 between operators, for a device that has no
 * arithmetic of them; in place of the above. */
gale_status gale__precision_widen(gale_graph *graph, uint32_t types);
void gale__precision_finish(gale_graph *graph);

/* Lowering, which knows the types of values: f32 values become narrow where the operator that makes them allows. */
typedef struct gale__narrowing {
    gale__prim_graph *g;
    const gale_graph *graph;
    uint8_t *narrow;  /* by value: f32 in the graph, narrow here, or a sum that is not scaled yet; NULL: nothing is;
                         where the graph is widened, the type in the graph of what is f32 here */
    int32_t *readers; /* by value */
    uint8_t *multiplied, *normed, *shown; /* by value: a contraction, a norm reads it; it is an output */
    bool off;                             /* operators stay in f32 for now */
} gale__narrowing;
gale_status gale__narrowing_init(gale__narrowing *s, const gale_graph *graph, gale__prim_graph *g);
/* Converts the inputs of an operator to the types it will be lowered in; returns the argument of
 * gale__narrowing_results. */
int gale__narrowing_inputs(gale__narrowing *s, const gale__op_node *n, gale__node *in);
void gale__narrowing_results(gale__narrowing *s, const gale__op_node *n, int how, gale__node *out);
/* The value in the type that the graph declares. */
gale__node gale__narrowing_declared(gale__narrowing *s, gale_value value, gale__node x);
#endif
