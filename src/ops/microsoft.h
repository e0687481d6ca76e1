/* Operators that are another one with something before or behind it. */
#ifndef GALE_OPS_MICROSOFT_H
#define GALE_OPS_MICROSOFT_H
#include "ops/lower.h"

/* The first result of another operator's lowering on `in`, with these attributes (NULL: those of L's node). */
gale__node gale__lower_as(gale__lower *L, void (*lower)(gale__lower *), const gale__node *in, int n_in, const gale_attr *attrs, int n_attrs);
#endif
