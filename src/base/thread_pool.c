/* The pool that splits CPU work.  A call puts its job into a slot; the caller and any free workers claim chunks of its
 * indices from an atomic counter until none is left.  Calls follow each other quickly and may take only a few
 * microseconds, so submitting, helping and finishing do not take a lock; only threads that go to sleep after spinning
 * for a while do.  Several threads may call at once, each working on its own job. */
#include "base/context.h"
#include "base/cpu.h"
#include "base/env.h"
#include "base/limits.h"
#include "base/thread.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { WORKERS_MOST = 256, SLOTS = 8, LINE = 64 };
/* Waking 15 threads takes 60 us on a virtual machine, longer than many kernels run.  So a thread that has found nothing
 * for SPIN_NS keeps looking until WAIT_NS, but offers its core to others each time. */
#define SPIN_NS 50000
#define WAIT_NS 2000000

typedef struct job {
    void (*fn)(void *arg, size_t i, int worker);
    void *arg;
    size_t count, chunk;
    const gale__limits *limits; /* of the caller, applied to all workers that help */
    gale_context *context;      /* likewise */
    _Atomic int room;           /* workers that may still join */
    _Alignas(LINE) _Atomic size_t claimed;
} job;

/* Workers increment `users` before they read the job; the caller removes the job and then waits until `users` is 0. */
typedef struct slot {
    _Alignas(LINE) _Atomic(job *) job;
    _Atomic bool taken, waiting; /* taken by a caller; waiting: the caller sleeps until users is 0 */
    _Atomic int users;
} slot;

static struct {
    slot slots[SLOTS];
    gale__mutex lock; /* for starting, sleeping and waking */
    gale__cond work, done;
    _Atomic int started, sleeping; /* workers that were started; that sleep */
    _Atomic bool stop;
    _Alignas(LINE) _Atomic unsigned news; /* counts jobs */
    gale__thread threads[WORKERS_MOST];
} pool;
static gale__once pool_once;
static _Atomic int set_width, auto_width;
static _Thread_local int inside_as = -1; /* the worker number of this thread while it runs a job */
static _Thread_local bool is_alone;      /* what it splits it does itself */

/* The workers do not exist in a forked child. */
static void reset_pool(void)
{
    memset(pool.slots, 0, sizeof pool.slots);
    atomic_store(&pool.started, 0);
    atomic_store(&pool.sleeping, 0);
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

int gale__parallel_now(void)
{
    int width = gale__parallel_width(), most = gale__limits_threads();
    if (is_alone) return 1;
    return most > 0 && most < width ? most : width;
}

static inline void relax(void)
{
#if defined(__aarch64__)
    __asm__ volatile("yield");
#elif defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* A pause in a loop that has waited since `start`; false when it has been long enough. */
static bool keep_waiting(uint64_t start)
{
    uint64_t waited_ns = gale__time_ns() - start;
    if (waited_ns < SPIN_NS) relax();
    else sched_yield();
    return waited_ns < WAIT_NS;
}

/* Spins for a while; true if `news` has changed. */
static bool spin_for_news(unsigned old)
{
    uint64_t start = gale__time_ns();
    do {
        for (int i = 0; i < 64; i++) {
            if (atomic_load_explicit(&pool.news, memory_order_acquire) != old) return true;
            relax();
        }
    } while (keep_waiting(start));
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

/* Works on the job in the slot; false if there is nothing left to do. */
static bool help_slot(slot *s, int worker)
{
    if (!atomic_load_explicit(&s->job, memory_order_relaxed)) return false;
    atomic_fetch_add(&s->users, 1);
    job *j = atomic_load(&s->job);
    bool some = j && atomic_load_explicit(&j->claimed, memory_order_relaxed) < j->count;
    if (some) some = atomic_fetch_sub(&j->room, 1) > 0;
    if (some) {
        gale__limits_set(j->limits);
        gale_context_use(j->context);
        work_on(j, worker);
        gale_context_use(NULL);
        gale__limits_set(NULL);
    }
    if (atomic_fetch_sub(&s->users, 1) == 1 && atomic_load(&s->waiting)) {
        gale__mutex_lock(&pool.lock);
        gale__cond_broadcast(&pool.done);
        gale__mutex_unlock(&pool.lock);
    }
    return some;
}

static bool help(int worker)
{
    bool some = false;
    for (int i = 0; i < SLOTS; i++) some |= help_slot(&pool.slots[(worker + i) % SLOTS], worker);
    return some;
}

/* A caller reads `sleeping` after it has incremented `news`; here the order is reversed, so that at least one of the
 * two notices the other. */
static void sleep_until_news(unsigned old)
{
    gale__mutex_lock(&pool.lock);
    atomic_fetch_add(&pool.sleeping, 1);
    while (atomic_load(&pool.news) == old) gale__cond_wait(&pool.work, &pool.lock);
    atomic_fetch_sub(&pool.sleeping, 1);
    gale__mutex_unlock(&pool.lock);
}

static void run_worker(void *arg)
{
    int worker = (int)(intptr_t)arg;
    gale_context_use(NULL); /* workers outlive the context of the call that started them */
    for (;;) {
        unsigned news = atomic_load(&pool.news);
        if (atomic_load(&pool.stop)) return;
        if (!help(worker) && !spin_for_news(news)) sleep_until_news(news);
    }
}

/* If a thread cannot be started, the others do the work. */
static void start_workers(int width)
{
    if (atomic_load(&pool.started) >= width - 1) return;
    gale__mutex_lock(&pool.lock);
    for (int worker = atomic_load(&pool.started) + 1; worker < width; worker++) {
        if (gale__thread_begin(&pool.threads[worker], run_worker, (void *)(intptr_t)worker) != GALE_OK) break;
        atomic_store(&pool.started, worker);
    }
    gale__mutex_unlock(&pool.lock);
}

static slot *find_slot(void)
{
    for (slot *s = pool.slots; s < pool.slots + SLOTS; s++)
        if (!atomic_load_explicit(&s->taken, memory_order_relaxed) && !atomic_exchange(&s->taken, true)) return s;
    return NULL;
}

static void lay_job(slot *s, job *j, int helpers)
{
    atomic_store(&s->job, j);
    atomic_fetch_add(&pool.news, 1);
    int asleep = atomic_load(&pool.sleeping);
    if (!asleep) return;
    int wanted = j->count - 1 < (size_t)helpers ? (int)(j->count - 1) : helpers;
    gale__mutex_lock(&pool.lock);
    if (wanted >= asleep) gale__cond_broadcast(&pool.work);
    else
        for (int i = 0; i < wanted; i++) gale__cond_signal(&pool.work);
    gale__mutex_unlock(&pool.lock);
}

static void take_job(slot *s)
{
    atomic_store(&s->job, NULL);
    for (uint64_t start = 0; atomic_load(&s->users) > 0;) {
        if (!start) start = gale__time_ns();
        if (keep_waiting(start)) continue;
        atomic_store(&s->waiting, true);
        gale__mutex_lock(&pool.lock);
        while (atomic_load(&s->users) > 0) gale__cond_wait(&pool.done, &pool.lock);
        gale__mutex_unlock(&pool.lock);
        atomic_store(&s->waiting, false);
    }
    atomic_store(&s->taken, false);
}

void gale__parallel(size_t count, void (*fn)(void *arg, size_t i, int worker), void *arg)
{
    int width = gale__parallel_now();
    if (inside_as >= 0 || width == 1 || count < 2) {
        int worker = inside_as < 0 ? 0 : inside_as;
        for (size_t i = 0; i < count; i++) fn(arg, i, worker);
        return;
    }
    gale__once_run(&pool_once, init_pool);
    job j = {.fn = fn,
        .arg = arg,
        .count = count,
        .chunk = count / ((size_t)width * 16),
        .limits = gale__limits_get(),
        .context = gale__context_current(),
        .room = width - 1};
    if (!j.chunk) j.chunk = 1;
    slot *s = find_slot(); /* more callers than slots: some work alone */
    start_workers(gale__parallel_width());
    if (s) lay_job(s, &j, width - 1);
    work_on(&j, 0);
    if (s) take_job(s);
}

void gale__parallel_alone(bool alone) { is_alone = alone; }

void gale__parallel_finish(void)
{
    gale__once_run(&pool_once, init_pool);
    gale__mutex_lock(&pool.lock);
    int started = atomic_load(&pool.started);
    atomic_store(&pool.stop, true);
    atomic_fetch_add(&pool.news, 1);
    gale__cond_broadcast(&pool.work);
    gale__mutex_unlock(&pool.lock);
    for (int i = 1; i <= started; i++) gale__thread_end(&pool.threads[i]);
    atomic_store(&pool.started, 0);
    atomic_store(&pool.stop, false);
}

void gale__parallel_set_width(int width)
{
    gale__parallel_finish();
    atomic_store(&auto_width, 0);
    atomic_store(&set_width, width < 0 ? 0 : width > WORKERS_MOST ? WORKERS_MOST : width);
}
