/* Threads, locks and time, based on POSIX threads.  The locks are stored inside gale's own types, so that headers do
 * not include platform headers. */
#include "base/thread.h"
#include "base/context.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#if defined(__linux__) && defined(__LP64__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

_Static_assert(sizeof(pthread_mutex_t) <= sizeof(gale__mutex), "gale__mutex holds a pthread_mutex_t");
_Static_assert(
    sizeof(pthread_once_t) <= sizeof(gale__once) && PTHREAD_ONCE_INIT == 0, "gale__once is a zeroed pthread_once_t");

static pthread_mutex_t *mutex_of(gale__mutex *m) { return (pthread_mutex_t *)(void *)m->impl; }

void gale__mutex_init(gale__mutex *m) { pthread_mutex_init(mutex_of(m), NULL); }
void gale__mutex_finish(gale__mutex *m) { pthread_mutex_destroy(mutex_of(m)); }
void gale__mutex_lock(gale__mutex *m) { pthread_mutex_lock(mutex_of(m)); }
void gale__mutex_unlock(gale__mutex *m) { pthread_mutex_unlock(mutex_of(m)); }

static struct timespec time_after(uint64_t ns)
{
    uint64_t end = ns > UINT64_MAX / 2 ? UINT64_MAX / 2 : gale__time_ns() + ns;
    return (struct timespec){.tv_sec = (time_t)(end / 1000000000u), .tv_nsec = (long)(end % 1000000000u)};
}

#if defined(__linux__) && defined(__LP64__)
/* Condition variables of glibc before 2.41 can lose a wake-up (bug 25847), and then a thread sleeps forever: Debian 12
 * has 2.36.  A number that every wake-up increments is enough here, since what threads wait for changes under the mutex
 * alone. */
typedef struct condition {
    _Atomic uint32_t wakes, waiting;
} condition;
_Static_assert(sizeof(condition) <= sizeof(gale__cond), "gale__cond holds a condition");

static condition *cond_of(gale__cond *c) { return (condition *)(void *)c->impl; }

void gale__cond_init(gale__cond *c) { *cond_of(c) = (condition){0}; }
void gale__cond_finish(gale__cond *c) { (void)c; }

/* False on time-out; `end` NULL: there is none. */
static bool wait_until(condition *c, gale__mutex *m, const struct timespec *end)
{
    uint32_t seen = atomic_load(&c->wakes);
    atomic_fetch_add(&c->waiting, 1);
    gale__mutex_unlock(m);
    long failed =
        syscall(SYS_futex, &c->wakes, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, seen, end, NULL, FUTEX_BITSET_MATCH_ANY);
    bool in_time = !failed || errno != ETIMEDOUT;
    atomic_fetch_sub(&c->waiting, 1);
    gale__mutex_lock(m);
    return in_time;
}

static void wake(condition *c, int most)
{
    atomic_fetch_add(&c->wakes, 1);
    if (atomic_load(&c->waiting)) syscall(SYS_futex, &c->wakes, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, most, NULL, NULL, 0);
}

void gale__cond_wait(gale__cond *c, gale__mutex *m) { wait_until(cond_of(c), m, NULL); }
void gale__cond_signal(gale__cond *c) { wake(cond_of(c), 1); }
void gale__cond_broadcast(gale__cond *c) { wake(cond_of(c), INT_MAX); }

bool gale__cond_wait_ns(gale__cond *c, gale__mutex *m, uint64_t timeout_ns)
{
    struct timespec end = time_after(timeout_ns);
    return wait_until(cond_of(c), m, &end);
}
#else
_Static_assert(sizeof(pthread_cond_t) <= sizeof(gale__cond), "gale__cond holds a pthread_cond_t");

static pthread_cond_t *cond_of(gale__cond *c) { return (pthread_cond_t *)(void *)c->impl; }

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
    struct timespec end = time_after(timeout_ns);
    return pthread_cond_timedwait(cond_of(c), mutex_of(m), &end) != ETIMEDOUT;
}
#endif

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
