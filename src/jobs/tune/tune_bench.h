/* Times the schedules that a contraction can have, side by side on the device. */
#ifndef GALE_JOBS_TUNE_BENCH_H
#define GALE_JOBS_TUNE_BENCH_H
#include "kernel/tuning.h"

/* One for all contractions of a job; begins as zero but for device and weight_bytes. */
typedef struct gale__tune_bench {
    gale_device *device;
    /* Of all contractions in a run together.  A run comes back to a weight after all others: so a launch in a row reads
     * another place of the pool than the one before, as far as this. */
    uint64_t weight_bytes;
    gale_stream *stream;
    gale_event *from, *to;
    gale_buffer *pool, *results; /* all operands; all that is written */
    size_t pool_bytes, results_bytes;
} gale__tune_bench;
enum { GALE__TUNE_CANDIDATES = 80 };
typedef struct gale__tune_choice {
    const gale__schedule_want *wants[GALE__TUNE_CANDIDATES]; /* that were timed; the usual one first */
    double us[GALE__TUNE_CANDIDATES];
    int n, best; /* best: which of them */
    int wrong;   /* left out, since their results differ */
} gale__tune_choice;

gale_status gale__tune_bench_init(gale__tune_bench *b);
void gale__tune_bench_finish(gale__tune_bench *b);
/* The best has results as near to the usual one's as the numeric contract says; it is the usual one unless another is
 * faster by a clear margin. */
gale_status gale__tune_bench_run(gale__tune_bench *b, const gale__nest *nest, gale__tune_choice *out);
/* Of the factor that is likely to be a constant; -1: none is a plain load. */
int gale__tune_weight(const gale__nest *nest);
#endif
