/* Shared by the files that run the bodies of nodes: control.c, control_scan.c. */
#ifndef GALE_ONNX_CONTROL_H
#define GALE_ONNX_CONTROL_H
#include "onnx/run/session.h"

typedef struct gale__onnx_control {
    gale__onnx_session *session;
    gale__onnx_net *net;
    const gale__onnx_net_node *node;
    gale_object *const *values; /* of the net, by number */
    gale_object **out;
    uint64_t ran; /* bodies so far: each draws random numbers of its own */
} gale__onnx_control;

static inline gale_object *gale__onnx_control_input(const gale__onnx_control *c, int i)
{
    return i < c->node->n_in && c->node->in[i] >= 0 ? c->values[c->node->in[i]] : NULL;
}
gale_status gale__onnx_control_body(const gale__onnx_control *c, const char *name, gale__onnx_net **out);
/* Runs a body: `given` are its own inputs, what it takes from outside follows. */
gale_status gale__onnx_control_run_body(
    gale__onnx_control *c, gale__onnx_net *body, gale_object *const *given, int n_given, gale_object **results);

/* What each step of a loop gives, to be joined at its end. */
typedef struct gale__onnx_stack {
    gale_object **items;
    size_t count, capacity;
} gale__onnx_stack;
gale_status gale__onnx_stack_push(gale__onnx_stack *s, gale_object **object); /* taken over */
void gale__onnx_stack_finish(gale__onnx_stack *s);
/* One tensor with a leading axis for the steps; numbers are on the session's device.  body, and which of its outputs:
 * say the shape where there was no step. */
gale_status gale__onnx_stack_join(
    const gale__onnx_control *c, const gale__onnx_stack *s, const gale__onnx_net *body, int output, gale_tensor **out);

gale_status gale__onnx_control_scan(gale__onnx_control *c);
#endif
