/* What the caller of a run specifies: number of threads, deadline, a flag that stops it, and the seed of its random
 * numbers. Stored per thread, so that kernels and host operators need no parameter for it, and passed to workers of
 * gale__parallel. Limits nest; the strictest applies. */
#ifndef GALE_BASE_LIMITS_H
#define GALE_BASE_LIMITS_H
#include "thread.h"

typedef struct gale__limits {
    int threads;                /* maximum for gale__parallel; 0: no limit */
    const volatile int *cancel; /* a value other than 0 stops the run; may be NULL */
    uint64_t deadline_ns;       /* on the clock of gale__time_ns; 0: none */
    uint64_t seed;              /* of random operators; 0: the outer one's, if it has one */
    _Atomic int *stopped;       /* set where unfinished work is dropped: the status, once a task was left out, else 0 */
    const struct gale__limits *outer;
} gale__limits;

/* Apply to this thread until the matching leave; *limits must stay valid until then. */
void gale__limits_enter(gale__limits *limits);
void gale__limits_leave(const gale__limits *limits);
/* GALE_CANCELLED or GALE_DEADLINE if the work of this thread should stop; checked between kernels. */
gale_status gale__limits_check(void);
/* Within a kernel whose results are dropped when the run is stopped: whether the rest of it may be left out.  Once it
 * is true it stays so, and the check fails. */
bool gale__limits_stopped(void);
/* Waits like gale__cond_wait, also in vain; a thread that may be stopped checks now and then. */
gale_status gale__limits_wait(gale__cond *cond, gale__mutex *lock);
/* Whether anything can stop the run; if not, devices are sent everything at once. */
bool gale__limits_stoppable(void);
/* Maximum number of threads for this thread's work; 0: no limit. */
int gale__limits_threads(void);
/* Seed of this thread's random numbers; 0: none. */
uint64_t gale__limits_seed(void);

/* For threads that work on behalf of another: adopt its limits, and restore the previous ones. */
const gale__limits *gale__limits_get(void);
void gale__limits_set(const gale__limits *limits);
#endif
