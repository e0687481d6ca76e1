/* The pool that splits CPU work.  A call lays a job into a list; the caller and whichever workers are free claim
 * chunks of its indices from an atomic counter until none is left.  Workers look for work a few microseconds before
 * they sleep, since calls come in quick succession.  Several threads may call at once: each works on its own job. */
#include "base/cpu.h"
#include "base/env.h"
#include "base/thread.h"
#include <pthread.h>
#include <stdatomic.h>

#define WORKERS_MOST 256
#define SPIN_NS 20000

typedef struct job {
    struct job *next;
    void (*fn)(void *arg, size_t i, int worker);
    void *arg;
    size_t count, chunk;
    _Atomic size_t claimed;
    _Atomic int helpers; /* workers inside; changed under the lock */
} job;

static struct {
    gale__mutex lock;
    gale__cond work, done;
    job *jobs;
    int started, sleeping; /* workers that run; that sleep */
    bool stop;
    _Atomic unsigned news; /* counts jobs, for workers that look without the lock */
    gale__thread threads[WORKERS_MOST];
} pool;
static gale__once pool_once;
static _Atomic int set_width, auto_width;
static _Thread_local int inside_as = -1; /* the worker number of this thread while it runs a job */

/* A forked child has none of the workers. */
static void reset_pool(void)
{
    pool.jobs = NULL;
    pool.started = pool.sleeping = 0;
    gale__mutex_init(&pool.lock);
    gale__cond_init(&pool.work);
    gale__cond_init(&pool.done);
}

static void init_pool(void)
{
    reset_pool();
    pthread_atfork(NULL, NULL, reset_pool);
}

int gale__parallel_width(void)
{
    int width = atomic_load(&set_width);
    if (width > 0) return width;
    width = atomic_load(&auto_width);
    if (width > 0) return width;
    int64_t wanted = gale__env_get_i64(GALE__ENV_THREADS, 0);
    width = wanted > 0 ? (int)(wanted < WORKERS_MOST ? wanted : WORKERS_MOST) : gale__cpu_cores();
    if (width > WORKERS_MOST) width = WORKERS_MOST;
    atomic_store(&auto_width, width);
    return width;
}

static inline void relax(void)
{
#if defined(__aarch64__)
    __asm__ volatile("yield");
#elif defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Looks a short while; true when `*value` is no longer `old`. */
static bool spin_unsigned(_Atomic unsigned *value, unsigned old)
{
    uint64_t end = gale__time_ns() + SPIN_NS;
    do {
        for (int i = 0; i < 64; i++) {
            if (atomic_load_explicit(value, memory_order_acquire) != old) return true;
            relax();
        }
    } while (gale__time_ns() < end);
    return false;
}

static void work_on(job *j, int worker)
{
    int before = inside_as;
    inside_as = worker;
    for (;;) {
        size_t at = atomic_fetch_add_explicit(&j->claimed, j->chunk, memory_order_relaxed);
        if (at >= j->count) break;
        size_t end = j->count - at < j->chunk ? j->count : at + j->chunk;
        for (; at < end; at++) j->fn(j->arg, at, worker);
    }
    inside_as = before;
}

static job *find_job(void)
{
    for (job *j = pool.jobs; j; j = j->next)
        if (atomic_load_explicit(&j->claimed, memory_order_relaxed) < j->count) return j;
    return NULL;
}

static void run_worker(void *arg)
{
    int worker = (int)(intptr_t)arg;
    gale__mutex_lock(&pool.lock);
    while (!pool.stop) {
        job *j = find_job();
        if (j) {
            atomic_fetch_add(&j->helpers, 1);
            gale__mutex_unlock(&pool.lock);
            work_on(j, worker);
            gale__mutex_lock(&pool.lock);
            /* The job may be gone as soon as its caller sees 0. */
            if (atomic_fetch_sub(&j->helpers, 1) == 1) gale__cond_broadcast(&pool.done);
            continue;
        }
        unsigned news = atomic_load(&pool.news);
        gale__mutex_unlock(&pool.lock);
        bool heard = spin_unsigned(&pool.news, news);
        gale__mutex_lock(&pool.lock);
        if (heard || pool.stop || atomic_load(&pool.news) != news) continue;
        pool.sleeping++;
        gale__cond_wait(&pool.work, &pool.lock);
        pool.sleeping--;
    }
    gale__mutex_unlock(&pool.lock);
}

/* Under the lock.  A thread that cannot be started is one less: the work is still done. */
static void start_workers(int width)
{
    while (pool.started < width - 1) {
        int worker = pool.started + 1;
        if (gale__thread_begin(&pool.threads[worker], run_worker, (void *)(intptr_t)worker) != GALE_OK) return;
        pool.started++;
    }
}

static void lay_job(job *j, int width)
{
    gale__mutex_lock(&pool.lock);
    start_workers(width);
    j->next = pool.jobs;
    pool.jobs = j;
    atomic_fetch_add_explicit(&pool.news, 1, memory_order_release);
    if (pool.sleeping > 0) {
        if (j->count == 2) gale__cond_signal(&pool.work);
        else gale__cond_broadcast(&pool.work);
    }
    gale__mutex_unlock(&pool.lock);
}

static void take_job(job *j)
{
    gale__mutex_lock(&pool.lock);
    job **at = &pool.jobs;
    while (*at != j) at = &(*at)->next;
    *at = j->next;
    if (atomic_load(&j->helpers) > 0) {
        gale__mutex_unlock(&pool.lock);
        uint64_t end = gale__time_ns() + SPIN_NS;
        while (atomic_load(&j->helpers) > 0 && gale__time_ns() < end) relax();
        gale__mutex_lock(&pool.lock);
        while (atomic_load(&j->helpers) > 0) gale__cond_wait(&pool.done, &pool.lock);
    }
    gale__mutex_unlock(&pool.lock);
}

void gale__parallel(size_t count, void (*fn)(void *arg, size_t i, int worker), void *arg)
{
    int width = gale__parallel_width();
    if (inside_as >= 0 || width == 1 || count < 2) {
        int worker = inside_as < 0 ? 0 : inside_as;
        for (size_t i = 0; i < count; i++) fn(arg, i, worker);
        return;
    }
    gale__once_run(&pool_once, init_pool);
    job j = {.fn = fn, .arg = arg, .count = count, .chunk = count / ((size_t)width * 16)};
    if (!j.chunk) j.chunk = 1;
    lay_job(&j, width);
    work_on(&j, 0);
    take_job(&j);
}

void gale__parallel_finish(void)
{
    gale__once_run(&pool_once, init_pool);
    gale__mutex_lock(&pool.lock);
    int started = pool.started;
    pool.stop = true;
    atomic_fetch_add(&pool.news, 1);
    gale__cond_broadcast(&pool.work);
    gale__mutex_unlock(&pool.lock);
    for (int i = 1; i <= started; i++) gale__thread_end(&pool.threads[i]);
    gale__mutex_lock(&pool.lock);
    pool.started = 0;
    pool.stop = false;
    gale__mutex_unlock(&pool.lock);
}

void gale__parallel_set_width(int width)
{
    gale__parallel_finish();
    atomic_store(&auto_width, 0);
    atomic_store(&set_width, width < 0 ? 0 : width > WORKERS_MOST ? WORKERS_MOST : width);
}
