/* The scalar reference's inside: a value is an array of numbers, doubles for floats and 64-bit integers for the rest.
 */
#ifndef GALE_GRAPH_REFERENCE_H
#define GALE_GRAPH_REFERENCE_H
#include "graph/build/build.h"

typedef union gale__reference_number {
    double f;
    int64_t i;
} gale__reference_number; /* u64 keeps its bits in i; bool is 0 or 1 */
typedef struct gale__reference_value {
    gale__reference_number *v;
    bool splat; /* v has one element, which represents all */
} gale__reference_value;
static inline gale__reference_number gale__reference_value_at(const gale__reference_value *r, int64_t i)
{
    return r->v[r->splat ? 0 : i];
}

/* A number brought to the type's storage and back. */
gale__reference_number gale__reference_number_round(gale_type type, gale__reference_number n);
gale__reference_number gale__reference_number_load(gale_type type, const void *p);
void gale__reference_number_store(gale_type type, void *p, gale__reference_number n);

/* One scalar operation; `from` is the operands' type (SELECT: the choices'). */
gale__reference_number gale__reference_scalar(gale__scalar op, gale_type type, gale_type from, gale__reference_number a,
    gale__reference_number b, gale__reference_number c);
/* One primitive that is not element-wise; in[i] are the inputs' values, src[i] their nodes. */
gale_status gale__reference_prim(const gale__prim_node *p, const gale__prim_node *const *src,
    const gale__reference_value *in, gale__reference_number *out);

/* Evaluates `outputs` naively, one primitive at a time; floats in f64 (rounded to
 * the storage type only at CAST to a narrower type, TAKE of bits, BITCAST, and at outputs), integers exactly.  Inputs
 * and results are dense host arrays of the storage types.  Used by checks and by constant folding. */
gale_status gale__reference_run(const gale__prim_graph *g, const void *const *inputs, const gale__node *outputs, int n,
    void **results /* gale__alloc'd */);
/* The value of a node whose inputs are all constants (or EXPANDs of one); *out is gale__alloc'd. */
gale_status gale__reference_fold(const gale__prim_graph *g, const gale__prim_node *node, void **out);
#endif
