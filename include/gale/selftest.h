/* Does gale compute correctly on this machine, and how fast: what `gale check`, `conformance` and `bench` do.
 *
 *     gale_check_result *r = NULL;
 *     gale_check_options options = {0};
 *     options.chain = "vulkan";
 *     if (gale_check_run(&options, &r) == GALE_OK) printf("%d failed\n", r->failed);
 *     gale_check_result_destroy(&r);
 *
 * gale/job.h says what all jobs share. */
#ifndef GALE_SELFTEST_H
#define GALE_SELFTEST_H

#include "device.h"
#include "job.h"
#include "model.h"
#include "text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Check: every operator case on every device, against the scalar reference and values found independently. --- */

typedef struct gale_check_note {
    const char *name, *text; /* the case, and what was wrong with it or why it was skipped */
} gale_check_note;
typedef struct gale_check_time {
    const char *name;
    double median_us, gbps, gflops;
    double share; /* of the device's ceiling, bytes or operations, whichever is nearer; 0: not known */
    int kernels;
} gale_check_time;
typedef struct gale_check_device {
    const char *name;             /* "vulkan:0", or a provider's name where there is none */
    const gale_device_info *info; /* NULL: no device */
    const char *reason;           /* why there is none */
    bool flushes;                 /* it takes denormals for zero: both results pass */
    int passed, failed, skipped;
    const gale_check_note *failures;
    size_t n_failures;
    const gale_check_note *skips; /* one a reason, with the first case */
    size_t n_skips;
    const gale_check_time *times; /* with `bench` */
    size_t n_times;
} gale_check_device;
typedef struct gale_check_options {
    const char *filter; /* only cases whose name contains this; NULL: all */
    bool all;           /* all types and views on drivers that run on the CPU too, whose compilers are slow */
    bool bench;         /* time large cases instead */
    const char *chain;  /* each name of it is a device to check, not an alternative; NULL: every device */
    int index;          /* with `chain`: counted per provider */
    /* Called as a case fails, and as a device is done.  May be NULL. */
    void (*failed)(void *user, const char *device, const gale_check_note *failure);
    void (*device_done)(void *user, const gale_check_device *device);
    void *user;
    gale_job_control control; /* stages are devices */
    uint64_t reserved[4];     /* 0 */
} gale_check_options;
typedef struct gale_check_result {
    const gale_check_device *devices;
    size_t n_devices;
    int passed, failed, skipped; /* a device that is not there is one skip */
    size_t n_opened;             /* devices that were checked; 0: nothing was */
    size_t n_cases;              /* cases that were looked at, on all of them; 0: no name has the filter in it */
} gale_check_result;
/* Cases that fail are part of the result: the function then succeeds. */
GALE_API gale_status gale_check_run(const gale_check_options *options, gale_check_result **out);
GALE_API gale_status gale_check_result_json(const gale_check_result *result, char **text);
GALE_API void gale_check_result_destroy(gale_check_result **result);

/* --- Conformance: the official ONNX suite, or any folder like it, on one device. --- */

typedef enum gale_case_outcome { GALE_CASE_PASSED, GALE_CASE_FAILED, GALE_CASE_SKIPPED } gale_case_outcome;
typedef struct gale_conformance_case {
    const char *name, *group; /* folder, and the folder around it: "node", "simple" ... */
    const char *op;           /* that it is about; "": not found out */
    const char *reason;       /* why it did not pass; else "" */
    gale_case_outcome outcome;
    bool random; /* held to type, shape and range alone */
} gale_conformance_case;
typedef struct gale_conformance_count {
    const char *op;
    int passed, failed, skipped;
} gale_conformance_count;
typedef struct gale_conformance_options {
    const char *filter; /* only cases whose name contains this; NULL: all */
    int every;          /* only every N-th case; 0: 1 */
    int jobs;           /* cases at once; 0: as many as there are cores, one on the CPU, whose runs use all of them */
    /* Called as a case fails, from one thread at a time.  May be NULL. */
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
    const gale_conformance_count *operators; /* in the order they were done */
    size_t n_operators;
} gale_conformance_result;
/* suite: a folder of model.onnx with test_data_set_N/input_N.pb and output_N.pb, or a tar archive of one.  On a GPU a
 * case passes only when every number was computed there.  GALE_NOT_FOUND where no case is chosen. */
GALE_API gale_status gale_conformance_run(
    const char *suite, gale_device *device, const gale_conformance_options *options, gale_conformance_result **out);
GALE_API gale_status gale_conformance_result_json(const gale_conformance_result *result, char **text);
GALE_API void gale_conformance_result_destroy(gale_conformance_result **result);

/* --- Kernels: what those that gale makes reach, beside the device's own copy rate measured in the same run. --- */

typedef struct gale_kernel_time {
    const char *name;
    double median_us, least_us; /* by the device's own clock */
    double gbps;                /* counting each byte that must move once */
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

/* How long it takes to plan a program of a thousand kernels for one more shape, its kernels being known. */
typedef struct gale_planning_time {
    int kernels;
    double best_ms;
} gale_planning_time;
GALE_API gale_status gale_planning_bench(
    gale_device *device, const gale_job_control *control /* may be NULL */, gale_planning_time *out);
/* From an open device to the result of a first kernel. */
GALE_API gale_status gale_start_bench(gale_device *device, bool fast, double *time_ms);

/* --- Tiles: a picture of 1087 x 1087 in 36 tiles, the job that everyone compares by, on every provider. --- */

typedef struct gale_tiles_time {
    const char *provider;
    const char *claim;  /* what is claimed elsewhere for SCUNet, tiles a second; "-": nothing */
    const char *device; /* its name; NULL: it was not timed */
    const char *reason; /* why it was not */
    const char *precision;
    double tiles_per_second; /* of the fastest run */
    double beside_seconds;   /* of that run: outside the network */
    double times_the_cpu;    /* 0: the CPU was not timed */
    int64_t tiles, tile_width, tile_height, batch, lanes;
    int64_t overlap; /* -1: the network's own */
} gale_tiles_time;
typedef struct gale_tiles_options {
    const char *model;          /* a name of the catalogue or a file; NULL: the network inside the library */
    const char *chain;          /* providers, each timed; NULL: all, without software that stands in for a GPU */
    int scale;                  /* divide the side of the picture by this; 0: 1 */
    int repeats;                /* 0: 3 */
    int64_t batch, lanes;       /* as in gale_upscale_options; batch 0: by memory */
    gale_model_options options; /* precision and the like */
    gale_job_control control;
    uint64_t reserved[4]; /* 0 */
} gale_tiles_options;
typedef struct gale_tiles_result {
    const char *model; /* the file, or the name of the network inside */
    const gale_tiles_time *rows;
    size_t n_rows;
    size_t last; /* the last row that was timed */
} gale_tiles_result;
/* Fails where no provider can be timed. */
GALE_API gale_status gale_tiles_bench(const gale_tiles_options *options, gale_tiles_result **out);
GALE_API gale_status gale_tiles_result_json(const gale_tiles_result *result, char **text);
GALE_API void gale_tiles_result_destroy(gale_tiles_result **result);

/* --- Texts: how many a second one thread and all of them turn into tokens. --- */

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
/* path: a file with a text a line.  Texts lie in memory and tokens stay there, so that nothing but the tokenizer is
 * timed. */
GALE_API gale_status gale_texts_bench(
    const gale_tokenizer *tokenizer, const char *path, const gale_texts_options *options, gale_texts_result **out);
GALE_API gale_status gale_texts_result_json(const gale_texts_result *result, char **text);
GALE_API void gale_texts_result_destroy(gale_texts_result **result);

#ifdef __cplusplus
}
#endif
#endif
