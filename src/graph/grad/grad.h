/* Shared by the files of the gradient: one rule per primitive, each adding to the gradients of the node's inputs. */
#ifndef GALE_GRAPH_GRAD_H
#define GALE_GRAPH_GRAD_H
#include "graph/build/build.h"

typedef struct gale__grad {
    gale__prim_graph *g;
    int32_t count;  /* nodes there before the first gradient was made */
    bool *active;   /* by node: a float that depends on one of the wanted values */
    gale__node *of; /* by node: the gradient gathered so far, or NIL */
} gale__grad;

/* A rule: p is a copy of node n, d the gradient of its value. Rules check `wants` first, so that no unused nodes are
 * created. */
typedef void gale__grad_rule(gale__grad *s, gale__node n, const gale__prim_node *p, gale__node d);
static inline bool gale__grad_wants(const gale__grad *s, gale__node x) { return s->active[x]; }
void gale__grad_add(gale__grad *s, gale__node x, gale__node d);

/* Spreads `active`, set for the starting points, to all nodes whose derivative by them may be other than 0. */
void gale__grad_spread(const gale__prim_graph *g, bool *active);

gale__grad_rule gale__grad_scalar;
gale__grad_rule gale__grad_view;
gale__grad_rule gale__grad_concat;
gale__grad_rule gale__grad_reduce;
gale__grad_rule gale__grad_scan;
gale__grad_rule gale__grad_take;
gale__grad_rule gale__grad_put;
gale__grad_rule gale__grad_loop; /* d is not used: the gradients are those of its LOOP_OUT nodes */

/* Appends to g the derivative of the scalar `loss` with respect to each of `wrt`; zeros where it
 * does not depend on it.  Loops that are differentiated get more stacked outputs, for the loop that runs back. */
gale_status gale__prim_gradient(gale__prim_graph *g, gale__node loss, const gale__node *wrt, int n, gale__node *out);
/* General form: seeds[i] is the incoming gradient of outputs[i]; NIL: none. */
gale_status gale__prim_gradient_from(gale__prim_graph *g, const gale__node *outputs, const gale__node *seeds,
    int n_outputs, const gale__node *wrt, int n, gale__node *out);
#endif
