/* gale check's parts: running cases on a device, and timing them. */
#ifndef GALE_CLI_CHECK_H
#define GALE_CLI_CHECK_H
#include "gale/graph.h"
#include "ops/cases/cases.h"

typedef struct gale__check_failure {
    char *name, *text;
} gale__check_failure;
typedef struct gale__check_result {
    const char *live; /* print failures as they come, under this name; NULL: only keep them */
    bool flushes;     /* the device takes denormals for zero: both results pass */
    int passed, failed, skipped;
    gale__check_failure *failures;
    size_t n_failures, failures_capacity; /* all of them */
    gale__check_failure *skips;
    size_t n_skips, skips_capacity; /* one a reason: name is the first case */
} gale__check_result;

/* Runs every case whose name contains `filter` (NULL: all) on the device, several to a program.  Drivers that run on
 * the CPU compile slowly: unless `all` is set they get each row's first type only, and the rest is counted as skipped.
 */
gale_status gale__check_device(gale_device *device, const char *filter, bool all, gale__check_result *out);
void gale__check_finish(gale__check_result *r);
/* Notes one outcome; text may be NULL for a pass. */
gale_status gale__check_note(gale__check_result *r, gale_status status, const char *name, const char *text);

/* One timed case. */
typedef struct gale__check_time {
    char *name;
    double median_us, gbps, gflops, share;
    int kernels;
} gale__check_time;
typedef struct gale__check_times {
    gale__check_time *items;
    size_t count, capacity;
} gale__check_times;
gale_status gale__check_bench(gale_device *device, const char *filter, gale__check_times *out);
void gale__check_times_finish(gale__check_times *t);

/* The case as a graph's operator: inputs that are not known when planning become inputs of the graph, in order.
 * `turned`: those of rank 2 and more are given with their axes reversed and turned back by a Transpose, so that the
 * operator reads a view. */
gale_status gale__check_add(gale_graph *graph, const gale__case_run *run, bool turned, gale_value *outputs);
/* The input's tensor on the device; `turned` as above. */
gale_status gale__check_tensor(gale_device *device, const gale__case_value *v, bool turned, gale_tensor **out);
#endif
