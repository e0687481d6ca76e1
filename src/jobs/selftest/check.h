/* Parts of checking devices: running cases on one, and timing them. */
#ifndef GALE_JOBS_CHECK_H
#define GALE_JOBS_CHECK_H
#include "gale/graph.h"
#include "gale/selftest.h"
#include "jobs/job.h"
#include "ops/cases/cases.h"

/* What is found on one device, as it is found. */
typedef struct gale__check {
    const gale_check_options *options;
    gale__arena *arena;     /* all that `out` points to */
    gale_check_device *out; /* begins as zero but for its name */
    gale_check_note *failures, *skips;
    gale_check_time *times; /* the lists of `out`, while they grow */
} gale__check;

/* Runs every case that the options choose on the device, several to a program.  Drivers that run on the CPU compile
 * slowly: unless all is asked for they get each row's first type only, and the rest is counted as skipped. */
gale_status gale__check_cases(gale__check *check, gale_device *device);
/* Notes one outcome; text may be NULL for a pass. */
gale_status gale__check_note(gale__check *check, gale_status status, const char *name, const char *text);
/* check_bench.c: times large cases instead. */
gale_status gale__check_bench(gale__check *check, gale_device *device);

/* The case as a graph's operator: inputs that are not known when planning become inputs of the graph, in order.
 * `turned`: those of rank 2 and more are given with their axes reversed and turned back by a Transpose, so that the
 * operator reads a view. */
gale_status gale__check_add(gale_graph *graph, const gale__case_run *run, bool turned, gale_value *outputs);
/* The input's tensor on the device; `turned` as above. */
gale_status gale__check_tensor(gale_device *device, const gale__case_value *v, bool turned, gale_tensor **out);
#endif
