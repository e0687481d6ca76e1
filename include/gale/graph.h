/* Tensors, graphs and programs.
 *
 * A graph is made of operators (names and attributes as in ONNX).  A program is a graph compiled for a device; it is
 * immutable and may run from many threads at once.  Each new set of input shapes is planned once and kept. */
#ifndef GALE_GRAPH_H
#define GALE_GRAPH_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor: type, shape and memory, on the host or on a device; dense, row-major.  Counted: a view holds its memory.
 * Threads: any number may read it at once; who writes into its memory does so alone. */
typedef struct gale_tensor gale_tensor;
GALE_API gale_status gale_tensor_create(
    gale_device *device /* NULL: host */, gale_type type, int rank, const int64_t *dims, gale_tensor **out);
/* Takes `data` (dense) to the device; NULL device: a host tensor with a copy. */
GALE_API gale_status gale_tensor_from_cpu(
    gale_device *device, gale_type type, int rank, const int64_t *dims, const void *data, gale_tensor **out);
GALE_API gale_status gale_tensor_to_cpu(const gale_tensor *tensor, void *data, size_t size_bytes);
/* The same memory under another shape with as many elements. */
GALE_API gale_status gale_tensor_reshape(gale_tensor *tensor, int rank, const int64_t *dims, gale_tensor **out);
GALE_API gale_status gale_tensor_to_device(const gale_tensor *tensor, gale_device *device, gale_tensor **out);
GALE_API void gale_tensor_destroy(gale_tensor **tensor);
GALE_API gale_type gale_tensor_type(const gale_tensor *tensor);
GALE_API int gale_tensor_rank(const gale_tensor *tensor);
GALE_API const int64_t *gale_tensor_dims(const gale_tensor *tensor);
GALE_API size_t gale_tensor_size_bytes(const gale_tensor *tensor);
GALE_API void *gale_tensor_data(
    gale_tensor *tensor); /* host tensors of numbers that lie in memory, and CPU devices; else NULL */
/* Tensors of GALE_STRING lie on the host and never change.  Texts are copied: sizes[i] bytes each (NULL: up to the
 * zero), which may hold anything.  gale_tensor_string gives one, with a zero byte behind it that its size does not
 * count; NULL out of range or for numbers. */
GALE_API gale_status gale_tensor_from_strings(
    int rank, const int64_t *dims, const char *const *strings, const size_t *sizes, gale_tensor **out);
GALE_API const char *gale_tensor_string(const gale_tensor *tensor, int64_t index, size_t *size /* may be NULL */);

/* Graphs.  A value is a small number inside its graph; GALE_NONE stands for an optional input left out.  While a
 * program made from a graph lives, nothing can be added to the graph; its maker may destroy it.
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
/* dims: an extent, or -1 for one that is known only when the program runs.  symbols[i] (may be NULL) names it: equal
 * names must agree. A rank of -1 (dims NULL) takes tensors of any rank. */
GALE_API gale_status gale_graph_input(gale_graph *graph, const char *name, gale_type type, int rank,
    const int64_t *dims, const char *const *symbols, gale_value *out);
GALE_API gale_status gale_graph_constant(
    gale_graph *graph, gale_type type, int rank, const int64_t *dims, const void *data, gale_value *out);
/* The same without a copy: the graph holds the host tensor, which must not change any more. */
GALE_API gale_status gale_graph_constant_tensor(gale_graph *graph, const gale_tensor *host, gale_value *out);
/* Appends an operator; attributes are copied.  Fails at once for an unknown name, a wrong count of inputs, or a cycle.
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
    bool no_fusion;              /* every primitive a kernel of its own: for checks */
    bool no_capture;             /* never replay captured sequences */
    int layout;                  /* 0: chosen by device, 1: as declared, 2: channels-last */
    bool fast;                   /* the driver's own exp, sin ...; atomics */
    uint64_t memory_limit_bytes; /* most that a run may take for work and constants; 0: no limit */
    bool no_recognise;           /* chains of small operators stay as they are written */
    bool no_paths;               /* no fast paths: everything is fused from primitives */
    gale_precision precision;
    uint64_t reserved[4]; /* 0 */
} gale_program_options;
GALE_API gale_status gale_program_create(
    const gale_graph *graph, gale_device *device, const gale_program_options *options, gale_program **out);
GALE_API void gale_program_destroy(gale_program **program);
GALE_API int gale_program_inputs(const gale_program *program);
GALE_API int gale_program_outputs(const gale_program *program);
/* Runs once: inputs in the order they were declared, on the host or on the program's device; outputs are made on the
 * device (host when outputs_on_host), or written into the caller's tensors where outputs[i] is not NULL and its shape
 * fits; such a tensor may be an input's. */
GALE_API gale_status gale_program_run(
    gale_program *program, gale_tensor *const *inputs, gale_tensor **outputs, bool outputs_on_host);
/* Text for people or JSON: devices, kernels by operator, reasons, host copies, memory, prediction and outcome of the
 * latest run. */
GALE_API gale_status gale_program_report(gale_program *program, bool json, char **text /* gale_free */);

#ifdef __cplusplus
}
#endif
#endif
