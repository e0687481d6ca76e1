/* Jobs for model files: what `gale verify`, `convert`, `inspect`, `explain`, `run` and `bench` do.
 *
 *     gale_verify_result *r = NULL;
 *     gale_verify_options options = {0};
 *     if (gale_model_verify("model.onnx", device, &options, &r) == GALE_OK && r->exceeding)
 *         printf("%s exceeds the tolerance\n", r->values[r->first].node);
 *     gale_verify_result_destroy(&r);
 *
 * gale/job.h explains what all jobs share.  Devices belong to the caller.  The functions may be called from many
 * threads; explain, and run with a profile, one at a time on a device. */
#ifndef GALE_MODEL_JOBS_H
#define GALE_MODEL_JOBS_H

#include "job.h"
#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Values that go into a model and come out of it. --- */

typedef enum gale_pixel_layout {
    GALE_PIXEL_LAYOUT_AUTO, /* as the manifest says, else the axis with 1, 3 or 4 channels */
    GALE_PIXEL_LAYOUT_NCHW,
    GALE_PIXEL_LAYOUT_NHWC
} gale_pixel_layout;
typedef enum gale_pixel_range {
    GALE_PIXEL_RANGE_AUTO,  /* as the manifest says, else 0..1 */
    GALE_PIXEL_RANGE_ONE,   /* 0..1 */
    GALE_PIXEL_RANGE_BYTES, /* 0..255 */
    GALE_PIXEL_RANGE_SIGNED /* -1..1 */
} gale_pixel_range;
typedef enum gale_pixel_colours {
    GALE_PIXEL_COLOURS_AUTO, /* as the manifest says, else RGB */
    GALE_PIXEL_COLOURS_RGB,
    GALE_PIXEL_COLOURS_BGR
} gale_pixel_colours;
/* How pictures become numbers, ((pixel - mean) / std) in the range, and numbers pictures.  What is not given is taken
 * from the manifest beside the model (NAME.yml), if there is one: params layout, colours, range, mean, std. */
typedef struct gale_pixel_options {
    gale_pixel_layout layout;
    gale_pixel_range range;
    const char *mean, *std; /* "0.485,0.456,0.406", or one number for all channels; NULL: the manifest's, else 0 and 1;
                               an output with another number of channels is not changed by them */
    gale_pixel_colours colours;
    uint64_t reserved[4]; /* 0 */
} gale_pixel_options;

/* Where inputs come from.  Files are .npy, .npz (FILE.npz:ENTRY), .pb, .json, .raw or .bin numbers, or pictures.  NAME=
 * may be omitted if there is only one input. */
typedef struct gale_input_options {
    const char *const *files; /* "NAME=FILE" */
    int n_files;
    const char *const *shapes; /* "NAME=1x3x256x256": extents of random inputs */
    int n_shapes;
    const char *const *dims; /* "batch_size=2": open extents of inputs that are made up, or pictures, by their names */
    int n_dims;
    bool random;   /* make up what is not given: uniform numbers from 0 to 1, whole numbers 0 and 1 */
    uint64_t seed; /* of what is made up, and of the model's random operators */
    gale_pixel_options pixels;
    uint64_t reserved[4]; /* 0 */
} gale_input_options;

/* One of the devices that a job chose between, as gale_model_place does.  Where nothing can be predicted, because
 * shapes depend on results or parts of the model run on the host, the model runs on each device a few times, and what a
 * run took is stored in the cache folder for later choices with the same model and input shapes. */
typedef struct gale_placement {
    const char *device;  /* "cuda:0" */
    double predicted_us; /* from the host and back, or what a run took when it was tried; negative: not known */
    bool chosen;
} gale_placement;

/* --- Verify: the same model on the CPU and on a device, comparing every node's results. --- */

typedef struct gale_verify_options {
    gale_model_options model;  /* its given, progress and user are not used: see inputs and control */
    gale_input_options inputs; /* inputs that are not given are random */
    double tolerance; /* maximum relative difference (L2 norm) of a value; 0: 1e-4, or 1e-2 where the model or the
                         options have f16 values, 5e-2 with bf16; negative: no difference allowed */
    gale_job_control control;
    const char
        *other;           /* a second model, for example the same in 8 bit.  It runs on the device, the first one on the
                             CPU.    Only outputs are compared, by name, or by order if names differ.  NULL: the same model */
    const char *against;  /* "onnxruntime": only outputs are compared, with those of ONNX Runtime on the CPU, which
                             python3  runs (GALE_PYTHON names another); NULL: with gale on the CPU */
    uint64_t reserved[4]; /* 0 */
} gale_verify_options;
typedef struct gale_verify_value {
    const char *node; /* which computes it; "output of the fused run" for an ordinary run */
    const char *name;
    double relative, largest; /* difference: by L2 norm, and of one element; infinite if shapes or types differ */
    bool exceeds;             /* exceeds the tolerance */
} gale_verify_value;
typedef struct gale_verify_result {
    const char *device;
    const char *against; /* what it was compared with: "the CPU", "onnxruntime 1.31.0" */
    double tolerance;
    const gale_verify_value *values; /* in the order of computation */
    size_t n_values;
    size_t exceeding;                 /* number of values that exceed the tolerance */
    size_t first;                     /* index of the first one; n_values: none */
    const gale_placement *placements; /* the choice, by device, with gale_device_options.place */
    size_t n_placements;
} gale_verify_result;
/* Nodes are run without fusion across them, so that the first that exceeds the tolerance is named; the fused run is
 * compared at its outputs.  In half precision only outputs are compared, with the CPU in the model's own precision. */
GALE_API gale_status gale_model_verify(
    const char *path, gale_device *device, const gale_verify_options *options, gale_verify_result **out);
GALE_API gale_status gale_verify_result_json(const gale_verify_result *result, char **text);
GALE_API void gale_verify_result_destroy(gale_verify_result **result);

/* --- Convert: write a modified copy of a model file. --- */

typedef enum gale_convert_precision {
    GALE_CONVERT_AS_IT_IS,
    GALE_CONVERT_F16,
    GALE_CONVERT_BF16,
    GALE_CONVERT_INT8 /* weights of products in 8 bits; with samples activations too */
} gale_convert_precision;
#define GALE_OPSET_NEWEST (-1)
typedef struct gale_convert_result gale_convert_result;
/* Steps are applied in the order of the fields; everything else is preserved. */
typedef struct gale_convert_options {
    const char *extract;      /* "INPUTS:OUTPUTS": keep only the part between these values; NULL: all */
    const char *const *frees; /* "INPUT" or "INPUT:AXIS": extents to make variable */
    int n_frees;
    const char *const *pins; /* "NAME=N" or "INPUT:AXIS=N": extents to fix */
    int n_pins;
    int opset; /* 13 and up, or GALE_OPSET_NEWEST; 0: as it is */
    bool fold; /* evaluate what depends only on constants, merge duplicates, remove unused nodes */
    gale_convert_precision precision;
    const char *const *samples; /* INT8: "FILE" or "NAME=FILE,NAME=FILE" to quantise activations too */
    int n_samples;
    const char *const *leave; /* INT8: nodes to keep: by name, result or operator; "NAME*" matches a prefix */
    int n_leave;
    gale_pixel_options pixels; /* of samples that are pictures */
    const char *external;      /* store large tensors in a file of this name beside the model; NULL: do not */
    bool emit_c;               /* write C with the model as an array of bytes, not ONNX */
    const char *c_name;        /* of the array; NULL: derived from the file name */
    /* Called before the file is written; false cancels (GALE_CANCELLED).  May be NULL. */
    bool (*accept)(void *user, const gale_convert_result *result);
    void *user;
    gale_job_control control;
    uint64_t reserved[4]; /* 0 */
} gale_convert_options;
typedef struct gale_convert_loss {
    const char *output;
    double relative; /* L2, over all samples */
    double psnr_db;  /* 0: no error, or not defined */
} gale_convert_loss;
typedef struct gale_convert_layer {
    const char *node; /* by its name or its first result, as `leave` takes it */
    double relative;  /* what rounding took from its weights: L2 */
    /* With samples: what its result loses (L2), and how much of that comes from this node; negative: not known. */
    double result_relative, added_relative;
} gale_convert_layer;
struct gale_convert_result {
    const char *path;
    int n_weights, n_activations; /* INT8: number of tensors in 8 bits */
    int n_smoothed;               /* INT8: activations with channel factors */
    int n_samples;
    const gale_convert_layer *layers; /* INT8: by weight; that which adds most, without samples lost most, first */
    size_t n_layers;
    /* INT8 with samples, where outputs lose more than 2 %: the first n_to_leave layers should stay in float (`leave`),
     * and the largest loss of an output was found to be loss_if_left with that.  0: no few layers stand out. */
    size_t n_to_leave;
    double loss_if_left;
    const gale_convert_loss *losses; /* INT8 with samples: what the outputs lost; those of floats alone */
    size_t n_losses;
};
/* out may be NULL. */
GALE_API gale_status gale_model_convert(
    const char *path, const char *output, const gale_convert_options *options, gale_convert_result **out);
GALE_API gale_status gale_convert_result_json(const gale_convert_result *result, char **text);
GALE_API void gale_convert_result_destroy(gale_convert_result **result);

/* --- Inspect: the contents of a model file.  Nothing is run and large data is not read. --- */

typedef struct gale_inspect_options {
    bool shapes; /* also the type and shape of every value, with open extents of the inputs as symbols */
    gale_job_control control;
    uint64_t reserved[4]; /* 0 */
} gale_inspect_options;
typedef struct gale_inspect_extent {
    bool known;
    int64_t value;      /* if known and without a symbol */
    const char *symbol; /* "batch", "2*height"; NULL: none */
} gale_inspect_extent;
typedef struct gale_inspect_value {
    const char *name;
    const char *type;    /* in words: "f32 [1, 3]", "sequence of i64 [n]"; "?" if unknown */
    const char *element; /* "f32"; NULL: not a tensor, or unknown */
    bool has_shape;
    const gale_inspect_extent *dims;
    int rank;
    bool optional; /* an input with a default in the file */
} gale_inspect_value;
typedef struct gale_inspect_count {
    const char *domain, *name; /* "ai.onnx" for standard operators */
    size_t count;
} gale_inspect_count;
typedef struct gale_inspect_opset {
    const char *domain;
    int64_t version;
} gale_inspect_opset;
typedef struct gale_inspect_note {
    const char *key, *value;
} gale_inspect_note;
/* Strings are taken from the file and may contain any bytes. */
typedef struct gale_inspect_result {
    const char *file;
    int64_t ir_version;
    const char *producer, *producer_version, *graph;
    const gale_inspect_opset *opsets;
    size_t n_opsets;
    const gale_inspect_value *inputs, *outputs;
    size_t n_inputs, n_outputs;
    size_t n_nodes, n_functions;          /* nodes: including those of bodies and functions */
    size_t n_tensors, n_external_tensors; /* external: in other files */
    uint64_t parameters, parameter_bytes; /* elements of tensors */
    const gale_inspect_count *operators;  /* most frequent first */
    size_t n_operators;
    const gale_inspect_note *metadata;
    size_t n_metadata;
    const gale_inspect_value *values; /* with `shapes`: all named values except constants */
    size_t n_values;
    bool has_values;
} gale_inspect_result;
GALE_API gale_status gale_model_inspect(
    const char *path, const gale_inspect_options *options, gale_inspect_result **out);
GALE_API gale_status gale_inspect_result_json(const gale_inspect_result *result, char **text);
GALE_API void gale_inspect_result_destroy(gale_inspect_result **result);

/* --- Plan, explain, run, bench: a model on a device. --- */

/* Shared options.  plan, explain and bench use random values for inputs that are not given. */
typedef struct gale_model_job_options {
    gale_model_options model; /* its given, progress and user are not used: see inputs and control */
    gale_input_options inputs;
    gale_job_control control;
    bool no_run;          /* explain: only describe the graphs; kernels and times are left out */
    uint64_t reserved[4]; /* 0 */
} gale_model_job_options;

/* What a run with these shapes needs and where its parts run; the model runs once. */
typedef struct gale_plan_result {
    const char *device;
    int n_nodes_on_device, n_kernels, n_host_steps;
    double operations, bytes;            /* of one run */
    uint64_t work_bytes, constant_bytes; /* constants: other than weights */
    const char *report;                  /* as from gale_model_report */
} gale_plan_result;
GALE_API gale_status gale_model_plan(
    const char *path, gale_device *device, const gale_model_job_options *options, gale_plan_result **out);
GALE_API gale_status gale_plan_result_json(const gale_plan_result *result, char **text);
GALE_API void gale_plan_result_destroy(gale_plan_result **result);

/* Where each part of a model runs and what it costs: predicted from the device's peak rates, and measured in one
 * steady-state run; and its graphs, node by node. */
typedef struct gale_explain_kernel {
    const char *kind;             /* "kernel", "upload" ... */
    const char *operators, *name; /* the operators it implements, and its schedule or routine; may be "" */
    double bytes, operations;
    double predicted_us, measured_us; /* predicted: 0 if rates are unknown; measured: negative if unknown */
} gale_explain_kernel;
typedef enum gale_explain_place {
    GALE_EXPLAIN_DEVICE,
    GALE_EXPLAIN_HOST,    /* strings, sequences, pictures */
    GALE_EXPLAIN_CONTROL, /* control flow over data */
    GALE_EXPLAIN_NOWHERE
} gale_explain_place;
typedef struct gale_explain_node {
    const char *op, *where; /* where: its name or number, for display */
    gale_explain_place place;
    const int *reads; /* indices of the nodes of its graph whose results it reads */
    int n_reads;
    /* "NAME: f32 [1, 3, n]", types and shapes as far as they are known before a run; "" for an input that is left out
     */
    const char *const *inputs, *const *outputs;
    int n_inputs, n_outputs;
    const char *const *attributes; /* "axis = 1"; in the form of the newest opset */
    int n_attributes;
    const int *bodies; /* indices of the graphs that it runs: branches, a loop's body */
    int n_bodies;
} gale_explain_node;
typedef struct gale_explain_graph {
    const char *name; /* "main graph", "then_branch of node 3 (If)" */
    const gale_explain_node *nodes;
    size_t n_nodes;
} gale_explain_graph;
typedef struct gale_explain_result {
    const char *model;
    const char *backend, *device, *driver, *why; /* why: this device */
    int device_index;
    const gale_explain_kernel *kernels; /* in order of execution */
    size_t n_kernels;
    const gale_explain_graph *graphs; /* the main graph first; functions are inlined */
    size_t n_graphs;
    double predicted_us, measured_us; /* of all */
    double open_ms, first_ms;         /* reading; the first run */
} gale_explain_result;
GALE_API gale_status gale_model_explain(
    const char *path, gale_device *device, const gale_model_job_options *options, gale_explain_result **out);
GALE_API gale_status gale_explain_result_json(const gale_explain_result *result, char **text);
GALE_API void gale_explain_result_destroy(gale_explain_result **result);

/* One run, values from and to files. */
typedef struct gale_run_output {
    const char *name;
    gale_object *value; /* on the host; owned by the result */
} gale_run_output;
typedef struct gale_run_options {
    gale_model_job_options job;
    const char *const *outputs; /* "NAME=FILE": .npy, .npz, .pb, .json, .raw, .bin, or a picture */
    int n_outputs;
    const char *profile; /* a file for times of kernels and copies: a trace if it ends in .json, else a table */
    bool report;         /* what ran where, and why */
    /* Further devices: the run goes to the one that it is predicted to take the least time on (gale_model_forecast),
     * and stays with `device` where nothing can be predicted. */
    gale_device *const *others;
    int n_others;
    /* Called for each output in order, after its file is written.  May be NULL. */
    void (*done)(void *user, const gale_run_output *output);
    void *user;
    uint64_t reserved[4]; /* 0 */
} gale_run_options;
typedef struct gale_run_result {
    const gale_run_output *outputs;
    size_t n_outputs;
    const char *report;               /* NULL: not requested */
    const gale_placement *placements; /* with others: the choice, by device */
    size_t n_placements;
    double took_us; /* the latest run, planning and compiling not counted */
} gale_run_result;
GALE_API gale_status gale_model_run_files(
    const char *path, gale_device *device, const gale_run_options *options, gale_run_result **out);
/* Names, types and shapes; not the values. */
GALE_API gale_status gale_run_result_json(const gale_run_result *result, char **text);
GALE_API void gale_run_result_destroy(gale_run_result **result);

/* Start-up time, percentiles of steady-state runs, and memory use of a model. */
typedef struct gale_bench_options {
    gale_model_job_options job;
    int repeats;            /* 0: 30 */
    const int64_t *batches; /* also measure these batch sizes, used as the first extents of the inputs */
    int n_batches;
    bool on_device;       /* keep inputs and results on the device; not with batches */
    uint64_t reserved[4]; /* 0 */
} gale_bench_options;
typedef struct gale_bench_batch {
    int64_t batch;
    double best_ms;
} gale_bench_batch;
typedef struct gale_bench_result {
    double open_ms, first_ms;
    double median_ms, best_ms, p90_ms, p99_ms;
    const double *runs_ms; /* shortest first */
    size_t n_runs;
    uint64_t device_peak_bytes, process_peak_bytes;
    const gale_bench_batch *batches;
    size_t n_batches;
    const char *device;               /* "cuda:0": where it ran */
    const gale_placement *placements; /* the choice, by device, with gale_device_options.place */
    size_t n_placements;
} gale_bench_result;
GALE_API gale_status gale_model_bench(
    const char *path, gale_device *device, const gale_bench_options *options, gale_bench_result **out);
GALE_API gale_status gale_bench_result_json(const gale_bench_result *result, char **text);
GALE_API void gale_bench_result_destroy(gale_bench_result **result);

/* Times the schedules that the matrix products and convolutions of a model can have on a device, and records the
 * fastest in the cache folder, where later plans find them.  Results change within the numeric contract.  A device
 * without a choice, such as the CPU, gives a result without kernels. */
typedef struct gale_tune_options {
    gale_model_job_options job;
    double seconds;       /* 0: 60; when they have passed, no further kernel is begun */
    uint64_t reserved[4]; /* 0 */
} gale_tune_options;
typedef struct gale_tune_candidate {
    const char *name; /* "groups 128x96": a kind of schedule and the sides of its tile */
    double us;
} gale_tune_candidate;
typedef struct gale_tune_kernel {
    const char *key; /* types, class of rows x columns x terms ...: what the choice holds for */
    int uses;        /* in one run of the model */
    int wrong;       /* left out, since their results differ by more than the numeric contract allows */
    gale_tune_candidate usual, best;
    const gale_tune_candidate *candidates; /* that were timed; the usual one first */
    size_t n_candidates;
} gale_tune_kernel;
typedef struct gale_tune_result {
    const char *device;
    const gale_tune_kernel *kernels; /* most operations first */
    size_t n_kernels, n_left;        /* left: not tuned for want of time */
    double usual_us, best_us;        /* of all uses together */
} gale_tune_result;
GALE_API gale_status gale_model_tune(
    const char *path, gale_device *device, const gale_tune_options *options, gale_tune_result **out);
GALE_API gale_status gale_tune_result_json(const gale_tune_result *result, char **text);
GALE_API void gale_tune_result_destroy(gale_tune_result **result);

#ifdef __cplusplus
}
#endif
#endif
