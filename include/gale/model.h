/* ONNX models: load, query, run.
 *
 * A model is opened once and may run from many threads.  Numbers run on the device; strings, sequences and control flow
 * that depends on data are handled on the host between device segments. */
#ifndef GALE_MODEL_H
#define GALE_MODEL_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An input or output: a tensor, a sequence, a map, or nothing (an empty optional).  Reference-counted and
 * immutable, so
 * any number of threads may read it. */
typedef struct gale_object gale_object;
typedef enum gale_object_kind {
    GALE_OBJECT_NONE,
    GALE_OBJECT_TENSOR,
    GALE_OBJECT_SEQUENCE,
    GALE_OBJECT_MAP
} gale_object_kind;
GALE_API gale_status gale_object_none(gale_object **out);
GALE_API gale_status gale_object_tensor(gale_tensor *tensor /* held */, gale_object **out);
GALE_API gale_status gale_object_sequence(gale_object *const *items /* held */, size_t count, gale_object **out);
GALE_API gale_status gale_object_map(
    gale_tensor *keys /* i64 or string, rank 1 */, gale_object *const *values, gale_object **out);
GALE_API void gale_object_destroy(gale_object **object);
GALE_API gale_object_kind gale_object_get_kind(const gale_object *object);
GALE_API gale_tensor *gale_object_get_tensor(const gale_object *object); /* of a map: the keys; else NULL */
GALE_API size_t gale_object_count(const gale_object *object);
GALE_API gale_object *gale_object_item(const gale_object *object, size_t index);

/* Threads: any number may run one at once; close it when none does. */
typedef struct gale_model gale_model;
typedef struct gale_model_options {
    gale_program_options program;
    gale_precision precision; /* of its programs, unless `program` specifies another */
    bool allow_nonfinite;     /* accept results that contain only NaN or infinity */
    /* Inputs with a default in the file that every run will override: they count as inputs, in the file's order.  Names
     * of other inputs are ignored. */
    const char *const *given;
    int n_given;
    /* Called from the running thread before each step of the model, and after the last with step == steps.  It is
     * called again with the same numbers before each iteration of a loop that the host runs.  Returns false to cancel
     * (the run gives GALE_CANCELLED).  May be NULL. */
    bool (*progress)(void *user, int step, int steps);
    void *user;
    const volatile int *cancel; /* as in gale_run_control, for all runs of the model */
    uint64_t reserved[4];       /* 0 */
} gale_model_options;
GALE_API gale_status gale_model_open(
    const char *path, gale_device *device, const gale_model_options *options, gale_model **out);
/* data must outlive the model, unless it is copied. */
enum { GALE_MODEL_COPY = 1 };
GALE_API gale_status gale_model_from_memory(const void *data, size_t size, gale_flags flags, gale_device *device,
    const gale_model_options *options, gale_model **out);
GALE_API void gale_model_close(gale_model **model);

typedef struct gale_model_value {
    const char *name;
    gale_object_kind kind;
    bool optional;                      /* may be omitted */
    bool has_default;                   /* has a default in the file */
    gale_type type;                     /* tensors, and the elements of sequences */
    int rank;                           /* -1: unknown */
    int64_t dims[GALE_MAX_RANK];        /* -1: unknown */
    const char *symbols[GALE_MAX_RANK]; /* name of such an extent, or NULL */
} gale_model_value;
GALE_API int gale_model_inputs(const gale_model *model); /* without those that have a default in the file */
GALE_API int gale_model_outputs(const gale_model *model);
GALE_API gale_status gale_model_input(const gale_model *model, int index, gale_model_value *out);
GALE_API gale_status gale_model_output(const gale_model *model, int index, gale_model_value *out);
/* Additional inputs: those with a default in the file, which applies unless another value is given by name. */
GALE_API int gale_model_defaults(const gale_model *model);
GALE_API gale_status gale_model_default(const gale_model *model, int index, gale_model_value *out);

/* Runs once with inputs and outputs in order.  An optional input may be NULL.  outputs[i]: created by the run or, if it
 * is not NULL, a tensor object of the caller to write to.  On the host with GALE_RUN_ON_HOST, else where they were
 * computed. */
GALE_API gale_status gale_model_run(
    gale_model *model, gale_object *const *inputs, gale_object **outputs, gale_flags flags);
/* The same with options (NULL: all defaults), which apply to every step, on the device and on the host. */
GALE_API gale_status gale_model_run_with(
    gale_model *model, gale_object *const *inputs, gale_object **outputs, const gale_run_control *control);
/* The same in a queue of the model's device (gale_program_submit). The run fills in the array `outputs`, which must
 * stay valid until the run has ended, like the model and the cancel flag of `control`. Earlier runs of the queue have
 * ended when the model starts, and later ones wait for it. */
GALE_API gale_status gale_model_submit(gale_model *model, gale_queue *queue, gale_object *const *inputs,
    gale_object **outputs, const gale_run_control *control, void *user, gale_run **out);
/* The same by name and with tensors only, which suits most callers.  outputs[i] as above.  Inputs with a default in the
 * file may be given too; otherwise they are constants.  The model is prepared once more for each set of such inputs,
 * sharing weights. */
GALE_API gale_status gale_model_run_named(gale_model *model, const char *const *input_names, gale_tensor *const *inputs,
    int n_inputs, const char *const *output_names, gale_tensor **outputs, int n_outputs, gale_flags flags);
GALE_API gale_status gale_model_run_named_with(gale_model *model, const char *const *input_names,
    gale_tensor *const *inputs, int n_inputs, const char *const *output_names, gale_tensor **outputs, int n_outputs,
    const gale_run_control *control);
/* Predicts the time of a run with these inputs on each of n devices, including transfers from and to the host, by the
 * measured rates of the devices.  times_us[i] is negative if devices[i] has not been measured (gale_device_measure).
 * Only the shapes of the inputs matter, unless shapes depend on their values. Nothing runs; the model is planned for
 * its own device, which is fastest on the CPU. GALE_UNSUPPORTED if parts run on the host or shapes depend on results.
 */
GALE_API gale_status gale_model_forecast(
    gale_model *model, gale_object *const *inputs, gale_device *const *devices, int n, double *times_us);
/* Chooses a device by these predictions, as jobs do: *chosen is the index of the device with the shortest predicted
 * time. If nothing can be predicted, the model runs a few times on each device, and these times decide; they are stored
 * in the cache folder, for models and inputs of the same shapes. A device on which the model fails has a negative time.
 * If not all devices have been measured, *chosen is 0, the device that the caller prefers, and times_us may be
 * negative. Times and choice are logged (level info). Open the model on the CPU for this. The model's cancel flag ends
 * a trial. */
GALE_API gale_status gale_model_place(
    gale_model *model, gale_object *const *inputs, gale_device *const *devices, int n, double *times_us, int *chosen);
GALE_API gale_status gale_model_report(gale_model *model, gale_flags flags, char **text /* gale_free */);

#ifdef __cplusplus
}
#endif
#endif
