/* Threads, locks and time, based on POSIX threads.  The locks are stored inside gale's own types, so that headers do
 * not include platform headers. */
#include "base/thread.h"
#include "base/context.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

_Static_assert(sizeof(pthread_mutex_t) <= sizeof(gale__mutex), "gale__mutex holds a pthread_mutex_t");
_Static_assert(sizeof(pthread_cond_t) <= sizeof(gale__cond), "gale__cond holds a pthread_cond_t");
_Static_assert(
    sizeof(pthread_once_t) <= sizeof(gale__once) && PTHREAD_ONCE_INIT == 0, "gale__once is a zeroed pthread_once_t");

static pthread_mutex_t *mutex_of(gale__mutex *m) { return (pthread_mutex_t *)(void *)m->impl; }
static pthread_cond_t *cond_of(gale__cond *c) { return (pthread_cond_t *)(void *)c->impl; }

void gale__mutex_init(gale__mutex *m) { pthread_mutex_init(mutex_of(m), NULL); }
void gale__mutex_finish(gale__mutex *m) { pthread_mutex_destroy(mutex_of(m)); }
void gale__mutex_lock(gale__mutex *m) { pthread_mutex_lock(mutex_of(m)); }
void gale__mutex_unlock(gale__mutex *m) { pthread_mutex_unlock(mutex_of(m)); }

void gale__cond_init(gale__cond *c)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond_of(c), &attr);
    pthread_condattr_destroy(&attr);
}

void gale__cond_finish(gale__cond *c) { pthread_cond_destroy(cond_of(c)); }
void gale__cond_wait(gale__cond *c, gale__mutex *m) { pthread_cond_wait(cond_of(c), mutex_of(m)); }
void gale__cond_signal(gale__cond *c) { pthread_cond_signal(cond_of(c)); }
void gale__cond_broadcast(gale__cond *c) { pthread_cond_broadcast(cond_of(c)); }

bool gale__cond_wait_ns(gale__cond *c, gale__mutex *m, uint64_t timeout_ns)
{
    uint64_t now = gale__time_ns(), end = timeout_ns > UINT64_MAX / 2 ? UINT64_MAX / 2 : now + timeout_ns;
    struct timespec at = {.tv_sec = (time_t)(end / 1000000000u), .tv_nsec = (long)(end % 1000000000u)};
    return pthread_cond_timedwait(cond_of(c), mutex_of(m), &at) != ETIMEDOUT;
}

void gale__once_run(gale__once *once, void (*fn)(void)) { pthread_once((pthread_once_t *)(void *)&once->impl, fn); }

_Static_assert(sizeof(pthread_t) <= sizeof(uint64_t), "gale__thread holds a pthread_t");

static void *run_thread(void *p)
{
    gale__thread *t = p;
    gale_context_use(t->context);
    t->fn(t->arg);
    return NULL;
}

gale_status gale__thread_begin(gale__thread *t, void (*fn)(void *), void *arg)
{
    t->fn = fn;
    t->arg = arg;
    t->context = gale__context_current();
    /* Signals belong to the program's own threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t id;
    int error = pthread_create(&id, NULL, run_thread, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) return gale__fail(GALE_LIMIT, "cannot start a thread: %s", strerror(error));
    memcpy(&t->id, &id, sizeof id);
    return GALE_OK;
}

void gale__thread_end(gale__thread *t)
{
    pthread_t id;
    memcpy(&id, &t->id, sizeof id);
    pthread_join(id, NULL);
}

gale_status gale__thread_start(void (*fn)(void *), void *arg, gale__thread **out)
{
    gale__thread *t = gale__calloc(1, sizeof *t);
    if (!t) return GALE_NO_MEMORY;
    gale_status status = gale__thread_begin(t, fn, arg);
    if (status == GALE_OK) *out = t;
    else gale__free(t);
    return status;
}

void gale__thread_join(gale__thread **thread)
{
    if (!*thread) return;
    gale__thread_end(*thread);
    gale__free(*thread);
    *thread = NULL;
}

uint64_t gale__time_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t gale_time_ns(void) { return gale__time_ns(); }

void gale__sleep_ns(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    while (nanosleep(&t, &t) && errno == EINTR) {
    }
}
