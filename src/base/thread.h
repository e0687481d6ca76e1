/* Threads, locks and the pool that splits CPU work. */
#ifndef GALE_BASE_THREAD_H
#define GALE_BASE_THREAD_H
#include "mem.h"

typedef struct gale__mutex {
    void *impl[8];
} gale__mutex; /* holds the platform's mutex in place */
typedef struct gale__cond {
    void *impl[8];
} gale__cond;
typedef struct gale__once {
    int impl;
} gale__once; /* zero-initialised */
void gale__mutex_init(gale__mutex *m);
void gale__mutex_finish(gale__mutex *m);
void gale__mutex_lock(gale__mutex *m);
void gale__mutex_unlock(gale__mutex *m);
void gale__cond_init(gale__cond *c);
void gale__cond_finish(gale__cond *c);
void gale__cond_wait(gale__cond *c, gale__mutex *m);
bool gale__cond_wait_ns(gale__cond *c, gale__mutex *m, uint64_t timeout_ns); /* false on time-out */
void gale__cond_signal(gale__cond *c);
void gale__cond_broadcast(gale__cond *c);
void gale__once_run(gale__once *once, void (*fn)(void));

typedef struct gale__thread {
    uint64_t id;
    void (*fn)(void *);
    void *arg;
    struct gale_context *context; /* of the thread that created it, and valid as long as the thread runs */
} gale__thread;
gale_status gale__thread_start(void (*fn)(void *), void *arg, gale__thread **out);
void gale__thread_join(gale__thread **thread);
/* The same in the caller's storage, without an allocation. */
gale_status gale__thread_begin(gale__thread *t, void (*fn)(void *), void *arg);
void gale__thread_end(gale__thread *t);

/* The pool: created on first use with GALE_THREADS workers (default: usable cores, the caller being
 * one of them).  gale__parallel runs fn(arg, i, worker) for every i in [0, count); returns when all are done.
 * Calls from inside a worker run in place.  `worker` < gale__parallel_width(). */
int gale__parallel_width(void);
/* Threads that a call from this thread may use, given the width and the thread's limits (base/limits.h). */
int gale__parallel_now(void);
/* Calls from this thread run in place from now on: for threads that split larger work among themselves. */
void gale__parallel_alone(bool alone);
void gale__parallel(size_t count, void (*fn)(void *arg, size_t i, int worker), void *arg);
/* The same for a kernel: tasks that have not begun are left out once its run is stopped (gale__limits_stopped). */
void gale__parallel_kernel(size_t count, void (*fn)(void *arg, size_t i, int worker), void *arg);
void gale__parallel_set_width(int width); /* 0: back to automatic */
void gale__parallel_finish(void);         /* ends the workers (leak checks, sanitizers) */

uint64_t gale__time_ns(void); /* monotonic */
void gale__sleep_ns(uint64_t ns);
#endif
