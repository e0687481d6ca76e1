/* How a net runs: steps in order, each a device segment, a host operator, or bodies run by the executor.
 *
 * Numeric nodes are gathered into as few segments as the graph allows; a segment becomes a gale_program when it first
 * runs, by then the element types of its inputs are known.  A node that needs at plan time what the same segment
 * computes from data starts a new one. */
#ifndef GALE_ONNX_SESSION_H
#define GALE_ONNX_SESSION_H
#include "base/thread.h"
#include "onnx/host/host.h"
#include "onnx/import/kinds.h"

enum { GALE__ONNX_FEW = 32 }; /* values of a net, a node or a segment for which a run allocates no list */

/* A segment for inputs of given element types. */
typedef struct gale__onnx_variant {
    struct gale__onnx_variant *next;
    gale_graph *graph;
    gale_program *program;
    gale_type types[];
} gale__onnx_variant;

typedef struct gale__onnx_segment {
    int32_t *nodes;
    int n_nodes;
    size_t nodes_capacity;
    int32_t *inputs, *outputs; /* values of the net */
    int n_inputs, n_outputs;
    gale__onnx_variant *variants;
} gale__onnx_segment;

typedef struct gale__onnx_exec_step {
    uint8_t runner;
    int32_t node;
    gale__onnx_segment *segment;
} gale__onnx_exec_step;

/* How one net runs; bodies have one each. */
typedef struct gale__onnx_exec {
    gale__onnx_net *net;
    gale__onnx_exec_step *steps;
    int n_steps;
    size_t steps_capacity;
    int32_t *last_use; /* by value: the last step that reads it; n_steps: an output */
} gale__onnx_exec;

/* What ran, counted over the life of the session, except for run_us. */
typedef struct gale__onnx_session_counts {
    uint64_t segments, nodes_on_device, host_moves, host_strings, host_numbers;
    const char *host_number_op;
    double run_us; /* what the segments of the latest run took, planning and compiling not counted */
} gale__onnx_session_counts;

/* Called with every value of the main graph as it is made; the object is the caller's to hold if it wants to. */
typedef gale_status gale__onnx_watch(void *user, const gale__onnx_net *net, int32_t value, gale_object *object);

typedef struct gale__onnx_session {
    gale__onnx_net *net;
    gale_device *device;
    gale_model_options options;
    gale__mutex lock; /* guards variants, eager programs and counts */
    struct gale__onnx_eager *eager;
    gale__onnx_session_counts counts;
    gale__onnx_watch *watch; /* for checks: NULL, or set before the first run, and every value is made */
    void *watch_user;
} gale__onnx_session;

gale_status gale__onnx_session_open(
    gale__onnx *file, gale_device *device, const gale_model_options *options, gale__onnx_session **out);
void gale__onnx_session_close(gale__onnx_session **session);

/* exec.c: runs a net with inputs in order (NULL: nothing given); outputs are held by the caller.  Where outputs[i] is
 * not NULL it is a tensor to write into.  on_host: results are brought to the host. */
gale_status gale__onnx_exec_run(
    gale__onnx_session *s, gale__onnx_net *net, gale_object *const *inputs, gale_object **outputs, bool on_host);
/* Tells the progress of this thread's run again and asks whether to go on; GALE_CANCELLED when not. */
gale_status gale__onnx_exec_ask(const gale__onnx_session *s);
/* segment_order.c */
gale_status gale__onnx_exec_make(gale__onnx_net *net);
gale_status gale__onnx_exec_expose(
    gale__onnx_net *net); /* every value a segment makes becomes one of its results; before the first run */
void gale__onnx_exec_destroy(gale__onnx_net *net);
/* segment.c */
gale_status gale__onnx_segment_graph(
    gale__onnx_net *net, const gale__onnx_segment *segment, const gale_type *types, gale_graph **out);
gale_status gale__onnx_segment_program(gale__onnx_session *s, gale__onnx_net *net, gale__onnx_segment *segment,
    gale_tensor *const *inputs, gale_program **out);
void gale__onnx_segment_finish(gale__onnx_segment *segment);
/* control.c: If, Loop, Scan, SequenceMap.  values: of the net, by number. */
gale_status gale__onnx_control_run(gale__onnx_session *s, gale__onnx_net *net, const gale__onnx_net_node *node,
    gale_object *const *values, gale_object **out);
/* eager.c */
void gale__onnx_eager_finish(gale__onnx_session *s);
/* model.c */
gale_status gale__onnx_model_from_file(
    gale__onnx **file /* taken over */, gale_device *device, const gale_model_options *options, gale_model **out);
gale__onnx_session *gale__onnx_model_session(gale_model *model);
/* The same model on another device; options.given NULL: with the inputs that it takes. */
gale_status gale__onnx_model_again(
    gale_model *m, gale_device *device, const gale_model_options *options, gale_model **out);

/* One device operator at once, on the session's device (programs are kept by the session): for host operators that must
 * compute. */
gale_status gale__onnx_session_op(gale__onnx_session *session, const char *op, gale_tensor *const *in, int n_in,
    const gale_attr *attrs, int n_attrs, gale_tensor **out, int n_out);
#endif
