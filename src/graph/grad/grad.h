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

/* clone.c: marks what outputs[] depend on, themselves included. */
void gale__prim_reach(const gale__prim_graph *g, const gale__node *outputs, int n, bool *needed);
/* Appends to `to` what outputs[] need of `from`.  Input i becomes number[i] (NULL: stays i).  map[] has one entry per
 * node of `from`: its node in `to`, or NIL where it was not needed.  Large constants are borrowed from where `from` has
 * them. */
gale_status gale__prim_clone(const gale__prim_graph *from, const gale__node *outputs, int n, const int *number,
    gale__prim_graph *to, gale__node *map);
#endif
