/* Bodies in the rows of cases. */
#ifndef GALE_OPS_CASE_BODY_H
#define GALE_OPS_CASE_BODY_H
#include "gale/graph.h"

/* "{inputs:Op(a,b);...>outputs}": inputs have the numbers 0, 1 ..., results those that follow; #0.5 is a constant. */
gale_status gale__case_body(const char *text, gale_graph **out);
#endif
