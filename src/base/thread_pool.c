/* The pool that splits CPU work.  A call writes its job into a slot that idle workers watch.  The indices are divided
 * into one share for each thread; a thread takes its own in chunks, and then what others have left.  Loops may take
 * only a few microseconds, so as long as each thread finds its own share no memory is written by two of them: the
 * counter of a share stays with its thread, and so does the count of what it has done, which the caller adds up.  Only
 * workers that go to sleep after spinning, and those who wake them, take a lock.  Several threads may call at once. */
#include "base/context.h"
#include "base/cpu.h"
#include "base/env.h"
#include "base/limits.h"
#include "base/thread.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { WORKERS_MOST = 256, SLOTS = 8, LINE = 64, CHUNKS_EACH = 16 };
/* Waking 15 threads takes 60 us on a virtual machine, longer than many kernels run.  So a thread that has found nothing
 * for SPIN_NS keeps looking until WAIT_NS, but offers its core to others each time. */
#define SPIN_NS 50000
#define WAIT_NS 2000000

typedef struct job {
    void (*fn)(void *arg, size_t i, int worker);
    void *arg;
    size_t count, chunk;        /* indices, and how many of them are taken at a time */
    const gale__limits *limits; /* of the caller, applied to all workers that help */
    gale_context *context;      /* likewise */
    uint32_t threads, first;    /* shares, the caller's being 0; workers before the one that has share 1 */
} job;
enum { JOB_WORDS = sizeof(job) / sizeof(uintptr_t) };

/* Words with the number of the job in the upper 48 bits, so that nobody has to clear them: chunks of the share that
 * were taken, written by its thread and by those that take from it; chunks that the thread with this share has done. */
typedef struct share {
    _Alignas(LINE) _Atomic uint64_t taken;
    _Alignas(LINE) _Atomic uint64_t done;
} share;

/* Workers copy the job without announcing themselves, so it may be written meanwhile: its number, which is counted on,
 * is odd until that is over.  The caller waits for all whose chunks were taken. */
typedef struct slot {
    _Alignas(LINE) _Atomic uint64_t number; /* watched by all workers */
    _Atomic uintptr_t words[JOB_WORDS];
    _Alignas(LINE) _Atomic bool taken; /* by a caller */
    share shares[WORKERS_MOST];
} slot;

typedef struct helper {
    gale__thread thread;
    gale__mutex lock;
    gale__cond wake;
    _Alignas(LINE) _Atomic bool asleep;
} helper;

static struct {
    slot slots[SLOTS];
    helper helpers[WORKERS_MOST];
    gale__mutex lock; /* for starting workers */
    _Atomic int started;
    _Atomic bool stop;
} pool;
static gale__once pool_once;
static _Atomic int set_width, auto_width;
static _Thread_local int inside_as = -1; /* the worker number of this thread while it runs a job */
static _Thread_local bool is_alone;      /* what it splits it does itself */

/* The workers do not exist in a forked child. */
static void reset_pool(void)
{
    for (slot *s = pool.slots; s < pool.slots + SLOTS; s++) s->taken = false;
    for (helper *h = pool.helpers; h < pool.helpers + WORKERS_MOST; h++) {
        gale__mutex_init(&h->lock);
        gale__cond_init(&h->wake);
        h->asleep = false;
    }
    atomic_store(&pool.started, 0);
    gale__mutex_init(&pool.lock);
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

/* The next chunk of the share: its place among `size`; false if none is left, or if the job is over. */
static bool take_chunk(share *from, uint64_t number, size_t size, size_t *at)
{
    uint64_t old = atomic_load_explicit(&from->taken, memory_order_relaxed);
    for (;;) {
        uint64_t now = old >> 16 < number ? number << 16 : old;
        *at = now & 0xffff;
        if (now >> 16 != number || *at >= size) return false;
        if (atomic_compare_exchange_weak(&from->taken, &old, now + 1)) return true;
    }
}

static size_t chunks_of(const job *j) { return (j->count + j->chunk - 1) / j->chunk; }

/* Does the own share and then what others have left. */
static void work_on(slot *s, uint64_t number, const job *j, size_t own, int worker)
{
    size_t each = chunks_of(j) / j->threads, more = chunks_of(j) % j->threads, n = 0, before, chunk;
    int outer = inside_as;
    inside_as = worker;
    for (size_t k = own; k < own + j->threads; k++) {
        size_t at = k % j->threads, first = at * each + (at < more ? at : more);
        if (k > own && atomic_load_explicit(&s->number, memory_order_relaxed) != number) break; /* all is done */
        for (before = n; take_chunk(&s->shares[at], number, each + (at < more), &chunk); n++) {
            size_t i = (first + chunk) * j->chunk, end = j->count - i < j->chunk ? j->count : i + j->chunk;
            for (; i < end; i++) j->fn(j->arg, i, worker);
        }
        if (n > before) atomic_store_explicit(&s->shares[own].done, number << 16 | n, memory_order_release);
    }
    inside_as = outer;
}

/* Works on the job in the slot; false if it is not for this worker, or another one by now. */
static bool help_slot(slot *s, uint64_t number, int worker)
{
    uint32_t helpers = (uint32_t)gale__parallel_width() - 1;
    uintptr_t words[JOB_WORDS];
    job j;
    for (int i = 0; i < JOB_WORDS; i++) words[i] = atomic_load_explicit(&s->words[i], memory_order_acquire);
    if (atomic_load_explicit(&s->number, memory_order_relaxed) != number) return false;
    memcpy(&j, words, sizeof j);
    uint32_t own = ((uint32_t)worker - 1 + helpers - j.first) % helpers + 1;
    if (own >= j.threads) return false;
    gale__limits_set(j.limits);
    gale_context_use(j.context);
    work_on(s, number, &j, own, worker);
    gale_context_use(NULL);
    gale__limits_set(NULL);
    return true;
}

/* Slots with a job that this worker has not seen. */
static int find_news(const uint64_t *seen, int *slots)
{
    int n = 0;
    for (int i = 0; i < SLOTS; i++)
        if (atomic_load(&pool.slots[i].number) != seen[i]) slots[n++] = i;
    return n;
}

/* Workers begin with different jobs if there are several. */
static bool help(int worker, uint64_t *seen)
{
    int slots[SLOTS], n = find_news(seen, slots);
    bool some = false;
    for (int i = 0; i < n; i++) {
        int at = slots[(worker + i) % n];
        uint64_t number = atomic_load(&pool.slots[at].number);
        if (number & 1) continue; /* being written */
        seen[at] = number;
        some |= help_slot(&pool.slots[at], number, worker);
    }
    return some;
}

/* A caller reads `asleep` after it has written the number of its job; here the order is reversed, so that at least one
 * of the two notices the other. */
static void sleep_until_news(helper *h, const uint64_t *seen)
{
    int slots[SLOTS];
    gale__mutex_lock(&h->lock);
    atomic_store(&h->asleep, true);
    while (!atomic_load(&pool.stop) && !find_news(seen, slots)) gale__cond_wait(&h->wake, &h->lock);
    atomic_store(&h->asleep, false);
    gale__mutex_unlock(&h->lock);
}

static void wake(helper *h)
{
    if (!atomic_load(&h->asleep)) return;
    gale__mutex_lock(&h->lock);
    gale__cond_signal(&h->wake);
    gale__mutex_unlock(&h->lock);
}

static void run_worker(void *arg)
{
    helper *h = arg;
    uint64_t seen[SLOTS] = {0}, idle_since = 0;
    gale_context_use(NULL); /* workers outlive the context of the call that started them */
    for (unsigned turn = 1; !atomic_load_explicit(&pool.stop, memory_order_relaxed); turn++) {
        if (help((int)(h - pool.helpers), seen)) idle_since = 0;
        else if (turn % 64) relax();
        else if (!idle_since) idle_since = gale__time_ns();
        else if (!keep_waiting(idle_since)) sleep_until_news(h, seen), idle_since = 0;
    }
}

/* If a thread cannot be started, the others do the work. */
static void start_workers(int width)
{
    if (atomic_load(&pool.started) >= width - 1) return;
    gale__mutex_lock(&pool.lock);
    for (int i = atomic_load(&pool.started) + 1; i < width; i++) {
        if (gale__thread_begin(&pool.helpers[i].thread, run_worker, &pool.helpers[i]) != GALE_OK) break;
        atomic_store(&pool.started, i);
    }
    gale__mutex_unlock(&pool.lock);
}

static slot *find_slot(void)
{
    for (slot *s = pool.slots; s < pool.slots + SLOTS; s++)
        if (!atomic_load_explicit(&s->taken, memory_order_relaxed) && !atomic_exchange(&s->taken, true)) return s;
    return NULL;
}

/* Jobs of fewer threads than there are take different workers in different slots. */
static uint64_t lay_job(slot *s, job *j)
{
    uint32_t helpers = (uint32_t)gale__parallel_width() - 1;
    uint64_t number = (atomic_load_explicit(&s->number, memory_order_relaxed) | 1) + 1;
    j->first = (uint32_t)(s - pool.slots) * (j->threads - 1) % helpers;
    uintptr_t words[JOB_WORDS];
    memcpy(words, j, sizeof words);
    atomic_store_explicit(&s->number, number - 1, memory_order_relaxed);
    for (int i = 0; i < JOB_WORDS; i++) atomic_store_explicit(&s->words[i], words[i], memory_order_release);
    atomic_store(&s->number, number);
    for (uint32_t i = 0; i + 1 < j->threads; i++) wake(&pool.helpers[1 + (j->first + i) % helpers]);
    return number;
}

static bool is_done(slot *s, uint64_t number, const job *j)
{
    size_t n = 0;
    for (uint32_t i = 0; i < j->threads; i++) {
        uint64_t done = atomic_load_explicit(&s->shares[i].done, memory_order_acquire);
        if (done >> 16 == number) n += done & 0xffff;
    }
    return n == chunks_of(j);
}

/* Long waits are sleeps of a small part of the time waited so far. */
static void wait_until_done(slot *s, uint64_t number, const job *j)
{
    for (uint64_t start = gale__time_ns(); !is_done(s, number, j);)
        if (!keep_waiting(start)) gale__sleep_ns((gale__time_ns() - start) / 64);
    atomic_store(&s->taken, false);
}

void gale__parallel(size_t count, void (*fn)(void *arg, size_t i, int worker), void *arg)
{
    int width = gale__parallel_now();
    slot *s = NULL;
    if (inside_as < 0 && width > 1 && count > 1) {
        gale__once_run(&pool_once, init_pool);
        s = find_slot(); /* more callers than slots: some work alone */
    }
    if (!s) {
        int worker = inside_as < 0 ? 0 : inside_as;
        for (size_t i = 0; i < count; i++) fn(arg, i, worker);
        return;
    }
    size_t chunk = count / ((size_t)width * CHUNKS_EACH);
    job j = {fn, arg, count, chunk ? chunk : 1, gale__limits_get(), gale__context_current(),
        count < (size_t)width ? (uint32_t)count : (uint32_t)width, 0};
    start_workers(gale__parallel_width());
    uint64_t number = lay_job(s, &j);
    work_on(s, number, &j, 0, 0);
    wait_until_done(s, number, &j);
}

typedef struct kernel_tasks {
    void (*fn)(void *arg, size_t i, int worker);
    void *arg;
} kernel_tasks;

static void run_kernel_task(void *arg, size_t i, int worker)
{
    const kernel_tasks *t = arg;
    if (!gale__limits_stopped()) t->fn(t->arg, i, worker);
}

void gale__parallel_kernel(size_t count, void (*fn)(void *arg, size_t i, int worker), void *arg)
{
    const gale__limits *limits = gale__limits_get();
    if (limits && limits->stopped) gale__parallel(count, run_kernel_task, &(kernel_tasks){fn, arg});
    else gale__parallel(count, fn, arg);
}

void gale__parallel_alone(bool alone) { is_alone = alone; }

void gale__parallel_finish(void)
{
    gale__once_run(&pool_once, init_pool);
    gale__mutex_lock(&pool.lock);
    int started = atomic_load(&pool.started);
    atomic_store(&pool.stop, true);
    gale__mutex_unlock(&pool.lock);
    for (int i = 1; i <= started; i++) wake(&pool.helpers[i]);
    for (int i = 1; i <= started; i++) gale__thread_end(&pool.helpers[i].thread);
    atomic_store(&pool.started, 0);
    atomic_store(&pool.stop, false);
}

void gale__parallel_set_width(int width)
{
    gale__parallel_finish();
    atomic_store(&auto_width, 0);
    atomic_store(&set_width, width < 0 ? 0 : width > WORKERS_MOST ? WORKERS_MOST : width);
}
