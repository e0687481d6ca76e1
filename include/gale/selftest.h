/* Correctness and speed of gale on this machine: what `gale check`, `conformance` and `bench` do.
 *
 *     gale_check_result *r = NULL;
 *     gale_check_options options = {0};
 *     options.chain = "vulkan";
 *     if (gale_check_run(&options, &r) == GALE_OK) printf("%d failed\n", r->failed);
 *     gale_check_result_destroy(&r);
 *
 * gale/job.h explains what all jobs share. */
#ifndef GALE_SELFTEST_H
#define GALE_SELFTEST_H

#include "device.h"
#include "job.h"
#include "model.h"
#include "text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Check: every operator case on every device, against the scalar reference and independently computed values. ---
 */

typedef struct gale_check_note {
    const char *name, *text; /* the case, and what was wrong with it or why it was skipped */
} gale_check_note;
typedef struct gale_check_time {
    const char *name;
    double median_us, gbps, gflops;
    double share; /* of the device's peak rate in bytes or operations, whichever is closer; 0: unknown */
    int kernels;
} gale_check_time;
typedef struct gale_check_device {
    const char *name;             /* "vulkan:0", or a provider's name if there is no device */
    const gale_device_info *info; /* NULL: no device */
    const char *reason;           /* why there is none */
    bool flushes;                 /* it flushes denormals to zero: both results are accepted */
    int passed, failed, skipped;
    const gale_check_note *failures;
    size_t n_failures;
    const gale_check_note *skips; /* one per reason, with the first case */
    size_t n_skips;
    const gale_check_time *times; /* with `bench` */
    size_t n_times;
} gale_check_device;
typedef struct gale_check_options {
    const char *filter; /* only cases whose name contains this; NULL: all */
    bool all;           /* all types, views and large kernels on software drivers too, which is slow */
    bool bench;         /* time large cases instead */
    const char *chain;  /* devices to check, all of them, not alternatives; NULL: every device */
    int index;          /* with `chain`: counted per provider */
    /* Called as a case fails, and as a device is done.  May be NULL. */
    void (*failed)(void *user, const char *device, const gale_check_note *failure);
    void (*device_done)(void *user, const gale_check_device *device);
    void *user;
    gale_job_control control; /* stages are devices */
    /* Only every parts-th case, from number `part` on (from 0), so that several processes share the work: compilers of
     * software drivers use one core.  parts 0: all cases.  Not for `bench`. */
    int part, parts;
    /* Large kernels on software drivers too, which compile some of them for seconds; so does `all`, and a filter. */
    bool large;
    uint64_t reserved[4]; /* 0 */
} gale_check_options;
typedef struct gale_check_result {
    const gale_check_device *devices;
    size_t n_devices;
    int passed, failed, skipped; /* a missing device counts as one skip */
    size_t n_opened;             /* devices that were checked */
    size_t n_cases;              /* cases on all devices; 0: no name matches the filter */
} gale_check_result;
/* Failing cases are part of the result, not an error. */
GALE_API gale_status gale_check_run(const gale_check_options *options, gale_check_result **out);
GALE_API gale_status gale_check_result_json(const gale_check_result *result, char **text);
GALE_API void gale_check_result_destroy(gale_check_result **result);

/* --- Conformance: the official ONNX suite, or any folder like it, on one device. --- */

typedef enum gale_case_outcome { GALE_CASE_PASSED, GALE_CASE_FAILED, GALE_CASE_SKIPPED } gale_case_outcome;
typedef struct gale_conformance_case {
    const char *name, *group; /* folder, and the folder around it: "node", "simple" ... */
    const char *op;           /* the tested operator; "": unknown */
    const char *reason;       /* why it did not pass; else "" */
    gale_case_outcome outcome;
    bool random; /* checked for type, shape and range only */
} gale_conformance_case;
typedef struct gale_conformance_count {
    const char *op;
    int passed, failed, skipped;
} gale_conformance_count;
typedef struct gale_conformance_options {
    const char *filter; /* only cases whose name contains this; NULL: all */
    int every;          /* only every N-th case; 0: 1 */
    int jobs;           /* cases run at once; 0: number of cores, but 1 on the CPU, where each case uses all cores */
    /* Called for each case that does not pass, from one thread at a time.  May be NULL. */
    void (*failed)(void *user, const gale_conformance_case *failure);
    void *user;
    gale_job_control control;
    uint64_t reserved[4]; /* 0 */
} gale_conformance_options;
typedef struct gale_conformance_result {
    const char *device, *provider;
    int passed, failed, skipped;
    const gale_conformance_case *cases; /* in the order of the suite */
    size_t n_cases;
    const gale_conformance_count *operators; /* in the order they ran */
    size_t n_operators;
} gale_conformance_result;
/* suite: a folder of model.onnx with test_data_set_N/input_N.pb and output_N.pb, or a tar archive of one.  On a GPU a
 * case passes only if every number was computed there; correct results of the host count as skipped.  GALE_NOT_FOUND if
 * no case is selected. */
GALE_API gale_status gale_conformance_run(
    const char *suite, gale_device *device, const gale_conformance_options *options, gale_conformance_result **out);
GALE_API gale_status gale_conformance_result_json(const gale_conformance_result *result, char **text);
GALE_API void gale_conformance_result_destroy(gale_conformance_result **result);

/* --- Kernels: speed of generated kernels, compared with the device's copy rate measured in the same run. --- */

typedef struct gale_kernel_time {
    const char *name;
    double median_us, least_us; /* measured by the device */
    double gbps;                /* counting each byte that must be moved once */
    double share_of_copy;       /* 0..1 */
    double gflops;
    int kernels;
    bool replayed; /* from a capture */
} gale_kernel_time;
typedef struct gale_kernels_options {
    const char *filter; /* only rows whose name contains this; NULL: all */
    int repeats;        /* 0: 30 */
    int scale;          /* divide the large sizes by this; 0: 1 */
    bool fast;          /* the device's own exp, log, sin, division */
    /* Called as a row is done.  May be NULL. */
    void (*row_done)(void *user, const gale_kernel_time *row);
    void *user;
    gale_job_control control;
    uint64_t reserved[4]; /* 0 */
} gale_kernels_options;
typedef struct gale_kernels_result {
    bool fast;
    const gale_kernel_time *rows; /* the first is the copy */
    size_t n_rows;
} gale_kernels_result;
GALE_API gale_status gale_kernels_bench(
    gale_device *device, const gale_kernels_options *options, gale_kernels_result **out);
GALE_API gale_status gale_kernels_result_json(const gale_kernels_result *result, char **text);
GALE_API void gale_kernels_result_destroy(gale_kernels_result **result);

/* The time to plan a program of a thousand known kernels for another shape. */
typedef struct gale_planning_time {
    int kernels;
    double best_ms;
} gale_planning_time;
GALE_API gale_status gale_planning_bench(
    gale_device *device, const gale_job_control *control /* may be NULL */, gale_planning_time *out);
/* The time from an open device to the result of the first kernel. */
enum { GALE_BENCH_FAST = 1 }; /* with the device's own exp, log, sin and division */
GALE_API gale_status gale_start_bench(gale_device *device, gale_flags flags, double *time_ms);

/* --- Tiles: a picture of 1087 x 1087 in 36 tiles, a common benchmark, on every provider. --- */

typedef struct gale_tiles_time {
    const char *provider;
    const char *claim;  /* published figure for SCUNet, tiles per second; "-": none */
    const char *device; /* its name; NULL: not timed */
    const char *reason; /* why it was not timed */
    const char *precision;
    double tiles_per_second; /* of the fastest run */
    double beside_seconds;   /* of that run: outside the network */
    double times_the_cpu;    /* 0: the CPU was not timed */
    int64_t tiles, tile_width, tile_height, batch, lanes;
    int64_t overlap; /* -1: the network's own */
} gale_tiles_time;
typedef struct gale_tiles_options {
    const char *model;          /* a name in the models folder or a file; NULL: the built-in network */
    const char *chain;          /* providers to time; NULL: all except software drivers */
    int scale;                  /* divide the side of the picture by this; 0: 1 */
    int repeats;                /* 0: 3 */
    int64_t batch, lanes;       /* as in gale_upscale_options; batch 0: as memory allows */
    gale_model_options options; /* such as precision */
    gale_job_control control;
    uint64_t reserved[4]; /* 0 */
} gale_tiles_options;
typedef struct gale_tiles_result {
    const char *model; /* the file, or the name of the built-in network */
    const gale_tiles_time *rows;
    size_t n_rows;
    size_t last; /* the last row that was timed */
} gale_tiles_result;
/* Fails if no provider can be timed. */
GALE_API gale_status gale_tiles_bench(const gale_tiles_options *options, gale_tiles_result **out);
GALE_API gale_status gale_tiles_result_json(const gale_tiles_result *result, char **text);
GALE_API void gale_tiles_result_destroy(gale_tiles_result **result);

/* --- Texts: texts tokenized per second, with one thread and with all. --- */

typedef struct gale_texts_time {
    int threads;
    double seconds, cpu_seconds; /* of the shortest pass over all texts */
    uint64_t tokens;
} gale_texts_time;
typedef struct gale_texts_options {
    int repeats; /* passes; 0: 5 */
    /* Called as a row is done.  May be NULL. */
    void (*row_done)(void *user, const gale_texts_time *row, size_t n_texts, size_t n_bytes);
    void *user;
    gale_job_control control;
    uint64_t reserved[4]; /* 0 */
} gale_texts_options;
typedef struct gale_texts_result {
    size_t n_texts, n_bytes;
    const gale_texts_time *rows;
    size_t n_rows;
} gale_texts_result;
/* path: a file with one text per line.  Texts and tokens stay in memory, so that only the tokenizer is timed. */
GALE_API gale_status gale_texts_bench(
    const gale_tokenizer *tokenizer, const char *path, const gale_texts_options *options, gale_texts_result **out);
GALE_API gale_status gale_texts_result_json(const gale_texts_result *result, char **text);
GALE_API void gale_texts_result_destroy(gale_texts_result **result);

#ifdef __cplusplus
}
#endif
#endif
