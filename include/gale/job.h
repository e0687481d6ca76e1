/* Progress and cancellation, shared by all jobs.
 *
 * A job is a complete task (verify a model, check a device) as one function of the library.  It takes an options struct
 * in which zero means the default, so `= {0}` or NULL is always valid.  It returns a result: a struct whose fields can
 * be read, and which any number of threads can write as JSON.  Results own everything they point to; each has a destroy
 * function, which clears the pointer and accepts NULL.  Jobs do not print.  Strings returned as `char **` are freed
 * with gale_free. */
#ifndef GALE_JOB_H
#define GALE_JOB_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gale_job_progress {
    const char *stage; /* "reference", "cases" ...: what is being done */
    const char *unit;  /* what is counted: "steps", "cases", "samples" */
    uint64_t done, total;
} gale_job_progress;

typedef struct gale_job_control {
    /* Called as the work proceeds, from one thread at a time; returns false to cancel.  May be NULL. */
    bool (*progress)(void *user, const gale_job_progress *now);
    void *user;
    /* May be set from another thread or a signal handler: the job ends with GALE_CANCELLED when it next finds a
     * value other than 0.  May be NULL. */
    const volatile int *cancel;
    uint64_t reserved[4]; /* 0 */
} gale_job_control;

#ifdef __cplusplus
}
#endif
#endif
