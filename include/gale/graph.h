/* Tensors, graphs and programs.
 *
 * A graph is made of operators (names and attributes as in ONNX).  A program is a graph compiled for a device; it is
 * immutable and may run from many threads at once.  Each new set of input shapes is planned once and cached. */
#ifndef GALE_GRAPH_H
#define GALE_GRAPH_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor: type, shape and memory, on the host or on a device; dense, row-major.  Reference-counted: a view holds a
 * reference to its memory.
 * Threads: any number may read it at once; only one may write to its memory. */
typedef struct gale_tensor gale_tensor;
GALE_API gale_status gale_tensor_create(
    gale_device *device /* NULL: host */, gale_type type, int rank, const int64_t *dims, gale_tensor **out);
/* Copies `data` (dense) to the device; NULL device: to a host tensor. */
GALE_API gale_status gale_tensor_from_cpu(
    gale_device *device, gale_type type, int rank, const int64_t *dims, const void *data, gale_tensor **out);
/* A tensor over the caller's memory (dense, aligned to its elements), which is read and written in place.  As an output
 * it is filled without a copy on devices that work on host memory. `release` (may be NULL) is called with `owner` when
 * the last view is destroyed, but not on failure. GALE_TENSOR_READ_ONLY: never written, and rejected as an output. */
enum { GALE_TENSOR_READ_ONLY = 1 };
GALE_API gale_status gale_tensor_wrap(gale_type type, int rank, const int64_t *dims, void *data, gale_flags flags,
    void (*release)(void *owner), void *owner, gale_tensor **out);
/* A tensor over a device buffer, starting at `offset` 0; both hold a reference to the memory. */
GALE_API gale_status gale_tensor_from_buffer(
    gale_buffer *buffer, gale_type type, int rank, const int64_t *dims, gale_tensor **out);
/* The buffer of a device tensor, valid as long as the tensor; NULL for host tensors and empty tensors. */
GALE_API gale_buffer *gale_tensor_buffer(const gale_tensor *tensor);
GALE_API gale_status gale_tensor_to_cpu(const gale_tensor *tensor, void *data, size_t size_bytes);
/* The same memory with another shape of the same number of elements. */
GALE_API gale_status gale_tensor_reshape(gale_tensor *tensor, int rank, const int64_t *dims, gale_tensor **out);
GALE_API gale_status gale_tensor_to_device(const gale_tensor *tensor, gale_device *device, gale_tensor **out);
GALE_API void gale_tensor_destroy(gale_tensor **tensor);
GALE_API gale_type gale_tensor_type(const gale_tensor *tensor);
GALE_API int gale_tensor_rank(const gale_tensor *tensor);
GALE_API const int64_t *gale_tensor_dims(const gale_tensor *tensor);
GALE_API size_t gale_tensor_size_bytes(const gale_tensor *tensor);
GALE_API void *gale_tensor_data(gale_tensor *tensor); /* numeric host tensors in memory, and CPU devices; else NULL */
/* Tensors of GALE_STRING are on the host and immutable.  Strings are copied: sizes[i] arbitrary bytes each (NULL:
 * zero-terminated).  gale_tensor_string returns one, followed by a zero byte that its size does not include; NULL if
 * the index is out of range or the tensor is numeric. */
GALE_API gale_status gale_tensor_from_strings(
    int rank, const int64_t *dims, const char *const *strings, const size_t *sizes, gale_tensor **out);
GALE_API const char *gale_tensor_string(const gale_tensor *tensor, int64_t index, size_t *size /* may be NULL */);

/* Graphs.  A value is an index within its graph; GALE_NONE stands for an omitted optional input.  While a program
 * created from a graph exists, the graph cannot be changed; its owner may destroy it.
 * Threads: one at a time. */
typedef struct gale_graph gale_graph;
typedef int32_t gale_value;
#define GALE_NONE (-1)
typedef enum gale_attr_kind {
    GALE_ATTR_INT,
    GALE_ATTR_FLOAT,
    GALE_ATTR_STRING,
    GALE_ATTR_INTS,
    GALE_ATTR_FLOATS,
    GALE_ATTR_STRINGS,
    GALE_ATTR_TENSOR,
    GALE_ATTR_GRAPH
} gale_attr_kind;
typedef struct gale_attr {
    const char *name;
    gale_attr_kind kind;
    int64_t i;
    double f;
    const char *s;
    const int64_t *ints;
    const double *floats;
    const char *const *strings;
    size_t count;
    const gale_tensor *tensor; /* copied */
    const gale_graph *graph;
} gale_attr;
#define GALE_INT(name, value)                                                \
    {                                                                        \
        name, GALE_ATTR_INT, value, 0, NULL, NULL, NULL, NULL, 0, NULL, NULL \
    }
#define GALE_FLOAT(name, value)                                                \
    {                                                                          \
        name, GALE_ATTR_FLOAT, 0, value, NULL, NULL, NULL, NULL, 0, NULL, NULL \
    }
#define GALE_STRING_ATTR(name, value)                                        \
    {                                                                        \
        name, GALE_ATTR_STRING, 0, 0, value, NULL, NULL, NULL, 0, NULL, NULL \
    }
#define GALE_INTS(name, array, n)                                          \
    {                                                                      \
        name, GALE_ATTR_INTS, 0, 0, NULL, array, NULL, NULL, n, NULL, NULL \
    }
#define GALE_FLOATS(name, array, n)                                          \
    {                                                                        \
        name, GALE_ATTR_FLOATS, 0, 0, NULL, NULL, array, NULL, n, NULL, NULL \
    }

GALE_API gale_status gale_graph_create(gale_graph **out);
GALE_API void gale_graph_destroy(gale_graph **graph);
/* dims: an extent, or -1 if it is only known when the program runs.  symbols[i] (may be NULL) names it: extents of the
 * same name must be equal.  A rank of -1 (dims NULL) accepts tensors of any rank. */
GALE_API gale_status gale_graph_input(gale_graph *graph, const char *name, gale_type type, int rank,
    const int64_t *dims, const char *const *symbols, gale_value *out);
GALE_API gale_status gale_graph_constant(
    gale_graph *graph, gale_type type, int rank, const int64_t *dims, const void *data, gale_value *out);
/* The same without a copy: the graph holds the host tensor, which must not be changed afterwards. */
GALE_API gale_status gale_graph_constant_tensor(gale_graph *graph, const gale_tensor *host, gale_value *out);
/* Appends an operator; attributes are copied.  Fails at once for an unknown name, a wrong number of inputs, or a cycle.
 */
GALE_API gale_status gale_graph_op(gale_graph *graph, const char *op, const gale_value *inputs, int n_inputs,
    const gale_attr *attrs, int n_attrs, gale_value *outputs, int n_outputs);
GALE_API gale_status gale_graph_output(gale_graph *graph, const char *name, gale_value value);
/* Derivatives of a scalar `loss` with respect to each of `wrt`, as values of the same graph. */
GALE_API gale_status gale_graph_gradient(
    gale_graph *graph, gale_value loss, const gale_value *wrt, int n, gale_value *gradients);

/* Programs.  Threads: any number may run one at once; destroy it when none does. */
typedef struct gale_program gale_program;
/* Half precision: matrix products and convolutions multiply halves and add up in f32; values between operators are
 * halves where the operators allow it.  Inputs and outputs keep their types; integers, indices and gradients are not
 * touched. */
typedef enum gale_precision { GALE_PRECISION_AS_IT_IS, GALE_PRECISION_F16, GALE_PRECISION_BF16 } gale_precision;
typedef struct gale_program_options {
    bool no_fusion;              /* one kernel per primitive; for tests */
    bool no_capture;             /* never replay captured sequences */
    int layout;                  /* 0: chosen by device, 1: as declared, 2: channels-last */
    bool fast;                   /* the driver's own exp, sin ...; atomics */
    uint64_t memory_limit_bytes; /* limit for intermediate values and constants of a run; 0: none */
    bool no_recognise;           /* do not recognise chains of small operators */
    bool no_paths;               /* do not use fast paths */
    gale_precision precision;
    int threads; /* maximum number of CPU threads of a run, at most all; 0: all (GALE_THREADS, else the cores) */
    /* Limit for the plans that are kept for earlier shapes, including their working memory but not the weights, which
     * all plans share. Above it the least recently used plan is released. 0: an eighth of the device's memory. Plans in
     * use and the latest one are always kept. */
    uint64_t plan_memory_bytes;
    /* The result for a row of a batch does not depend, in any bit, on the other rows or their number. Recurrent layers,
     * and small products on devices other than the CPU, take more time, and vendor libraries are not used. */
    bool batch_invariant;
    uint64_t reserved[4]; /* 0 */
} gale_program_options;
GALE_API gale_status gale_program_create(
    const gale_graph *graph, gale_device *device, const gale_program_options *options, gale_program **out);
GALE_API void gale_program_destroy(gale_program **program);
GALE_API int gale_program_inputs(const gale_program *program);
GALE_API int gale_program_outputs(const gale_program *program);
/* Runs once. Inputs are in the order of their declaration, on the host or on the program's device. Outputs are created
 * on the device (on the host with GALE_RUN_ON_HOST), or written to the caller's tensors where outputs[i] is not NULL
 * and has the right shape. Such a tensor may also be an input, for values that a program updates: weights, caches,
 * states. It is then updated in place if no step reads an element after it was written (x - rate * gradient,
 * ScatterElements, the state of an LSTM over several steps); otherwise a copy is made. A run that fails may leave it
 * partly updated. */
enum { GALE_RUN_ON_HOST = 1 };
GALE_API gale_status gale_program_run(
    gale_program *program, gale_tensor *const *inputs, gale_tensor **outputs, gale_flags flags);
/* Type and shape of output `index` of a run with these inputs, without running: they follow from the shapes of the
 * inputs, and from the values of inputs that determine shapes. The plan is made and kept for the run.  dims:
 * GALE_MAX_RANK numbers. */
GALE_API gale_status gale_program_output_shape(
    gale_program *program, gale_tensor *const *inputs, int index, gale_type *type, int *rank, int64_t *dims);
/* Options of one run; zero means the default. */
typedef struct gale_run_control {
    bool outputs_on_host;
    int threads; /* maximum number of CPU threads, if it is smaller than the program's; 0: the program's. A run with one
                    thread uses only the calling thread and never waits for another run */
    /* May be set by another thread or a signal handler: a value other than 0 stops the run with GALE_CANCELLED. May be
     * NULL. */
    const volatile int *cancel;
    uint64_t deadline_ns; /* time of gale_time_ns after which the run stops with GALE_DEADLINE; 0: none */
    /* For random operators without an attribute `seed`: the same seed gives the same numbers on every device. 0:
     * different numbers in each run. Two such operators of a graph never draw the same numbers. */
    uint64_t seed;
    uint64_t reserved[4]; /* 0 */
} gale_run_control;
/* The same with options (NULL: all defaults). On the CPU cancel flag and deadline are checked between kernels and
 * within long ones; on devices with a queue about every two milliseconds of work, and the run then waits for kernels
 * that were already submitted. A plan for new shapes is completed first and kept, so that later runs with the same
 * deadline can succeed. A run that is stopped creates no outputs; the caller's tensors may be partly written. */
GALE_API gale_status gale_program_run_with(
    gale_program *program, gale_tensor *const *inputs, gale_tensor **outputs, const gale_run_control *control);

/* Asynchronous runs. Threads may share a queue, and wait for the same run. A queue runs them in order of submission, on
 * its own thread, and submits each to the device without waiting for the previous one, so that programs follow each
 * other without a gap. */
typedef struct gale_queue gale_queue;
typedef struct gale_run gale_run;
GALE_API gale_status gale_queue_create(gale_device *device, gale_queue **out);
GALE_API void gale_queue_wait(gale_queue *queue);     /* until all that was submitted has run */
GALE_API void gale_queue_destroy(gale_queue **queue); /* waits, too */
/* Inputs, outputs and control as for gale_program_run_with.  Outputs that are NULL are created by the call and can be
 * used as inputs of later runs in the same queue at once; all other uses must wait for the run. The caller may destroy
 * its tensors, must not write to those on the host, and must keep the program and the cancel flag of `control` until
 * the run has ended. A run that fails leaves its outputs undefined; later runs continue. The plan for new shapes is
 * made within the call; if the values of an input determine shapes, the call first waits for the queue. */
GALE_API gale_status gale_program_submit(gale_program *program, gale_queue *queue, gale_tensor *const *inputs,
    gale_tensor **outputs, const gale_run_control *control, void *user, gale_run **out);
/* Waits for the run and returns its status; may be called again. */
GALE_API gale_status gale_run_wait(gale_run *run);
/* The same without waiting; once the run has ended, returns its status. */
GALE_API gale_status gale_run_poll(gale_run *run, bool *done);
GALE_API void *gale_run_user(const gale_run *run);
GALE_API void gale_run_destroy(gale_run **run); /* waits for it */

/* Report as text or JSON: devices, kernels by operator, reasons, host copies, memory, predicted and measured time of
 * the latest run. */
enum { GALE_REPORT_JSON = 1 }; /* else text */
GALE_API gale_status gale_program_report(gale_program *program, gale_flags flags, char **text /* gale_free */);

#ifdef __cplusplus
}
#endif
#endif
