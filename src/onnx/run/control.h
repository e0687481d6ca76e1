/* Shared by what runs the bodies of nodes: control.c, control_scan.c. */
#ifndef GALE_ONNX_CONTROL_H
#define GALE_ONNX_CONTROL_H
#include "onnx/run/session.h"

typedef struct gale__control {
    gale__session *s;
    gale__net *net;
    const gale__net_node *node;
    gale_object *const *values; /* of the net, by number */
    gale_object **out;
} gale__control;

static inline gale_object *gale__control_input(const gale__control *c, int i)
{
    return i < c->node->n_in && c->node->in[i] >= 0 ? c->values[c->node->in[i]] : NULL;
}
gale_status gale__control_body(const gale__control *c, const char *name, gale__net **out);
/* Runs a body: `given` are its own inputs, what it takes from outside follows. */
gale_status gale__control_run_body(
    const gale__control *c, gale__net *body, gale_object *const *given, int n_given, gale_object **results);
/* Asks whether to go on; GALE_CANCELLED when not. */
gale_status gale__control_ask(const gale__control *c, int64_t step, int64_t steps);

/* What each step of a loop gives, to be joined at its end. */
typedef struct gale__stack {
    gale_object **items;
    size_t count, capacity;
} gale__stack;
gale_status gale__stack_push(gale__stack *s, gale_object **object); /* taken over */
void gale__stack_finish(gale__stack *s);
/* One tensor with a leading axis for the steps; numbers lie on the session's device.  body, and which of its outputs:
 * say the shape where there was no step. */
gale_status gale__stack_join(
    const gale__control *c, const gale__stack *s, const gale__net *body, int output, gale_tensor **out);

gale_status gale__control_scan(gale__control *c);
#endif
