/* ONNX models: load, ask, run.
 *
 * A model is opened once and may run from many threads.  Numbers run on the device; strings, sequences and choices that
 * depend on data are handled on the host between device segments. */
#ifndef GALE_MODEL_H
#define GALE_MODEL_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What goes in and comes out: a tensor, a sequence, a map, or nothing (an empty optional).  Counted; immutable once
 * made, so that any number of threads may read it. */
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
    gale_precision precision; /* of its programs, unless `program` says another */
    bool allow_nonfinite;     /* results that are all NaN, or infinite everywhere, are not an error */
    /* Inputs that have a value in the file and that every run will give instead: they count among the inputs, in the
     * file's order.  Names of other inputs change nothing. */
    const char *const *given;
    int n_given;
    /* Called before each step from the running thread; returns false to cancel (the run gives GALE_CANCELLED).  May be
     * NULL. */
    bool (*progress)(void *user, int step, int steps);
    void *user;
    uint64_t reserved[4]; /* 0 */
} gale_model_options;
GALE_API gale_status gale_model_open(
    const char *path, gale_device *device, const gale_model_options *options, gale_model **out);
/* data must outlive the model unless `copy`. */
GALE_API gale_status gale_model_from_memory(
    const void *data, size_t size, bool copy, gale_device *device, const gale_model_options *options, gale_model **out);
GALE_API void gale_model_close(gale_model **model);

typedef struct gale_model_value {
    const char *name;
    gale_object_kind kind;
    bool optional;                      /* may be nothing at all */
    bool has_default;                   /* the file gives it a value */
    gale_type type;                     /* tensors, and the elements of sequences */
    int rank;                           /* -1: not said */
    int64_t dims[GALE_MAX_RANK];        /* -1: not said */
    const char *symbols[GALE_MAX_RANK]; /* name of such an extent, or NULL */
} gale_model_value;
GALE_API int gale_model_inputs(const gale_model *model); /* without those that have a value in the file */
GALE_API int gale_model_outputs(const gale_model *model);
GALE_API gale_status gale_model_input(const gale_model *model, int index, gale_model_value *out);
GALE_API gale_status gale_model_output(const gale_model *model, int index, gale_model_value *out);
/* Further inputs: those that have a value in the file, which holds unless another is given by name. */
GALE_API int gale_model_defaults(const gale_model *model);
GALE_API gale_status gale_model_default(const gale_model *model, int index, gale_model_value *out);

/* Runs once with inputs and outputs in order.  An input may be NULL when it is optional.  outputs[i]: made by the run,
 * or, where it is not NULL, a tensor object of the caller that is written into.  On the host when on_host, else where
 * they were computed. */
GALE_API gale_status gale_model_run(gale_model *model, gale_object *const *inputs, gale_object **outputs, bool on_host);
/* The same by name and with tensors alone: what most callers want.  outputs[i] as above.  Inputs that have a value in
 * the file may be given too: as long as none is, they are constants; the model is prepared once more for each set of
 * them, weights shared. */
GALE_API gale_status gale_model_run_named(gale_model *model, const char *const *input_names, gale_tensor *const *inputs,
    int n_inputs, const char *const *output_names, gale_tensor **outputs, int n_outputs, bool on_host);
GALE_API gale_status gale_model_report(gale_model *model, bool json, char **text /* gale_free */);

#ifdef __cplusplus
}
#endif
#endif
