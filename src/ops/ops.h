/* Operators, each defined once: how it is made of primitives, what it must know at plan time, its manual text and its
 * cases. The shape rule is the lowering itself: what it builds has the shape. */
#ifndef GALE_OPS_OPS_H
#define GALE_OPS_OPS_H
#include "graph/build/graph.h"
#include "graph/build/opgraph.h"

/* Reading attributes inside lower(): the default when absent.  A wrong kind sets L->g's error. */
int64_t gale__attr_i(gale__lower *L, const char *name, int64_t fallback);
double gale__attr_f(gale__lower *L, const char *name, double fallback);
const char *gale__attr_s(gale__lower *L, const char *name, const char *fallback);
const int64_t *gale__attr_ints(gale__lower *L, const char *name, int *count); /* NULL when absent */
const double *gale__attr_floats(gale__lower *L, const char *name, int *count);
const char *const *gale__attr_strings(
    gale__lower *L, const char *name, int *count);                    /* a text of names with commas will do */
const gale_graph *gale__attr_graph(gale__lower *L, const char *name); /* NULL when absent */
bool gale__attr_given(gale__lower *L, const char *name);
/* Negative axes count from the end; out of range sets the error and gives 0. */
int gale__lower_axis(gale__lower *L, int64_t axis, int rank);
#endif
