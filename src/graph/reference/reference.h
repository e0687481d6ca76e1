/* The scalar reference's inside: a value is an array of numbers, doubles for floats and 64-bit integers for the rest.
 */
#ifndef GALE_GRAPH_REFERENCE_H
#define GALE_GRAPH_REFERENCE_H
#include "graph/build/build.h"

typedef union gale__number {
    double f;
    int64_t i;
} gale__number; /* u64 keeps its bits in i; bool is 0 or 1 */
typedef struct gale__rvalue {
    gale__number *v;
    bool splat; /* v has one element, which stands for all */
} gale__rvalue;
static inline gale__number gale__rvalue_at(const gale__rvalue *r, int64_t i) { return r->v[r->splat ? 0 : i]; }

/* A number brought to the type's storage and back. */
gale__number gale__number_round(gale_type type, gale__number n);
gale__number gale__number_load(gale_type type, const void *p);
void gale__number_store(gale_type type, void *p, gale__number n);

/* One scalar operation; `from` is the operands' type (SELECT: the choices'). */
gale__number gale__reference_scalar(
    gale__scalar op, gale_type type, gale_type from, gale__number a, gale__number b, gale__number c);
/* One primitive that is not element-wise; in[i] are the inputs' values, src[i] their nodes. */
gale_status gale__reference_prim(
    const gale__pnode *p, const gale__pnode *const *src, const gale__rvalue *in, gale__number *out);
#endif
