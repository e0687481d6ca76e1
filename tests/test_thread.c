/* Threads, locks, time and the pool, from one caller and from several at once. */
#include "test.h"
#include "base/limits.h"
#include "base/thread.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__) /* gcc */
#define THREAD_SANITIZER 1
#elif defined(__has_feature)
#define THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#define THREAD_SANITIZER 0
#endif

typedef struct tally {
    _Atomic uint64_t sum, calls;
    _Atomic int bad;
    int width;
    _Atomic int busy[64]; /* which worker numbers are in use */
} tally;

static void add_index(void *arg, size_t i, int worker)
{
    tally *t = arg;
    if (worker < 0 || worker >= t->width || atomic_exchange(&t->busy[worker], 1)) atomic_fetch_add(&t->bad, 1);
    atomic_fetch_add(&t->sum, i + 1);
    atomic_fetch_add(&t->calls, 1);
    if (worker >= 0 && worker < 64) atomic_store(&t->busy[worker], 0);
}

static void check_count(size_t count, int width)
{
    tally t = {.width = width};
    gale__parallel(count, add_index, &t);
    CHECK_EQ(atomic_load(&t.calls), count);
    CHECK_EQ(atomic_load(&t.sum), count * (count + 1) / 2);
    CHECK_EQ(atomic_load(&t.bad), 0);
}

TEST(pool)
{
    static const size_t counts[] = {0, 1, 2, 3, 7, 100, 12345};
    for (int width = 1; width <= 5; width++) {
        gale__parallel_set_width(width);
        CHECK_EQ(gale__parallel_width(), width);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) check_count(counts[i], width);
        for (int i = 0; i < 200; i++) check_count(9, width);
    }
    gale__parallel_set_width(0);
    CHECK(gale__parallel_width() >= 1);
    gale__parallel_finish();
    gale__parallel_finish();
}

TEST(pool_allocates_nothing)
{
    gale__parallel_set_width(3);
    int64_t live = gale__alloc_live();
    gale__alloc_fail_at(1);
    check_count(1000, 3);
    CHECK_EQ(gale__alloc_count(), 0);
    gale__alloc_fail_at(0);
    CHECK_EQ(gale__alloc_live(), live);
    gale__parallel_set_width(0);
}

static void nest(void *arg, size_t i, int worker)
{
    (void)i;
    tally inner = {.width = gale__parallel_width()};
    gale__parallel(50, add_index, &inner);
    if (atomic_load(&inner.calls) != 50 || atomic_load(&inner.bad)) atomic_fetch_add(&((tally *)arg)->bad, 1);
    add_index(arg, i, worker);
}

TEST(pool_nested)
{
    gale__parallel_set_width(4);
    tally t = {.width = 4};
    gale__parallel(40, nest, &t);
    CHECK_EQ(atomic_load(&t.calls), 40);
    CHECK_EQ(atomic_load(&t.bad), 0);
    gale__parallel_set_width(0);
}

/* One index, the first of a worker's share, waits until all others are done. */
static void wait_for_others(void *arg, size_t i, int worker)
{
    tally *t = arg;
    (void)worker;
    for (int n = 0; i == 16 && n < 1000 && atomic_load(&t->calls) < 63; n++) gale__sleep_ns(10000000);
    if (i == 16) t->bad = atomic_load(&t->calls) < 63;
    atomic_fetch_add(&t->calls, 1);
}

TEST(pool_takes_what_others_leave)
{
    tally t = {0};
    gale__parallel_set_width(4);
    gale__parallel(64, wait_for_others, &t);
    CHECK(atomic_load(&t.calls) == 64 && !atomic_load(&t.bad));
    gale__parallel_set_width(0);
}

static _Atomic int call_errors;
static void call_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < 200; i++) {
        tally t = {.width = gale__parallel_width()};
        if (i % 16 == 0) gale__sleep_ns(200000); /* workers fall asleep meanwhile */
        gale__parallel(37, add_index, &t);
        if (atomic_load(&t.calls) != 37 || atomic_load(&t.sum) != 37 * 38 / 2 || atomic_load(&t.bad))
            atomic_fetch_add(&call_errors, 1);
    }
}

/* First few, then more than the pool has slots for. */
TEST(pool_many_callers)
{
    enum { MOST = 12 };
    gale__parallel_set_width(3);
    for (int callers = 2; callers <= MOST; callers += 5) {
        gale__thread *threads[MOST] = {0};
        for (int i = 0; i < callers; i++) CHECK_OK(gale__thread_start(call_often, NULL, &threads[i]));
        for (int i = 0; i < callers; i++) gale__thread_join(&threads[i]);
    }
    CHECK_EQ(atomic_load(&call_errors), 0);
    gale__parallel_set_width(0);
}

TEST(pool_after_fork)
{
    if (THREAD_SANITIZER) SKIP("the thread sanitizer forbids threads after fork");
    gale__parallel_set_width(3);
    check_count(100, 3);
    pid_t child = fork();
    if (child == 0) {
        tally t = {.width = 3};
        gale__parallel(100, add_index, &t);
        _exit(atomic_load(&t.calls) == 100 ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    gale__parallel_set_width(0);
}

/* How many threads come, and under which limits they work. */
typedef struct guests {
    _Atomic int at_once, most, stopped;
    const gale__limits *limits;
} guests;

static void come(void *arg, size_t i, int worker)
{
    guests *g = arg;
    int now = atomic_fetch_add(&g->at_once, 1) + 1, most = atomic_load(&g->most);
    (void)i, (void)worker;
    while (now > most && !atomic_compare_exchange_weak(&g->most, &most, now)) {
    }
    if (gale__limits_get() != g->limits) atomic_fetch_add(&g->stopped, 1000);
    if (gale__limits_check() == GALE_CANCELLED) atomic_fetch_add(&g->stopped, 1);
    gale__sleep_ns(200000);
    atomic_fetch_sub(&g->at_once, 1);
}

TEST(limits_on_threads)
{
    gale__parallel_set_width(5);
    for (int threads = 1; threads <= 6; threads++) {
        gale__limits limits = {.threads = threads}, wider = {.threads = 9};
        gale__limits_enter(&limits);
        gale__limits_enter(&wider);
        guests g = {.limits = &wider};
        CHECK_EQ(gale__parallel_now(), threads < 5 ? threads : 5);
        gale__parallel(60, come, &g);
        CHECK(atomic_load(&g.most) <= threads && (threads == 1 || atomic_load(&g.most) > 1));
        CHECK_EQ(atomic_load(&g.stopped), 0);
        gale__limits_leave(&wider);
        gale__limits_leave(&limits);
    }
    CHECK(!gale__limits_get() && gale__limits_threads() == 0 && gale__parallel_now() == 5);
    gale__parallel_set_width(0);
}

TEST(limits_that_stop)
{
    int inner_flag = 0, outer_flag = 0;
    gale__limits outer = {.cancel = &outer_flag, .deadline_ns = gale__time_ns() + 3600000000000u},
                 inner = {.cancel = &inner_flag}, late = {.deadline_ns = 1};
    CHECK(!gale__limits_stoppable());
    CHECK_OK(gale__limits_check());
    gale__limits_enter(&outer);
    gale__limits_enter(&inner);
    CHECK(gale__limits_stoppable() && inner.deadline_ns == outer.deadline_ns);
    CHECK_OK(gale__limits_check());
    outer_flag = 2;
    CHECK_FAILS(gale__limits_check(), CANCELLED);
    gale__parallel_set_width(3);
    guests g = {.limits = &inner};
    gale__parallel(20, come, &g);
    CHECK_EQ(atomic_load(&g.stopped), 20); /* workers know too */
    gale__parallel_set_width(0);
    outer_flag = 0;
    gale__limits_enter(&late);
    CHECK_FAILS(gale__limits_check(), DEADLINE);
    gale__limits_leave(&late);
    CHECK_OK(gale__limits_check());
    gale__limits_leave(&inner);
    gale__limits_leave(&outer);
    CHECK(!gale__limits_stoppable());
}

typedef struct box {
    gale__mutex lock;
    gale__cond changed;
    int value;
} box;

static void put(void *arg)
{
    box *b = arg;
    gale__mutex_lock(&b->lock);
    b->value = 42;
    gale__cond_signal(&b->changed);
    gale__mutex_unlock(&b->lock);
}

typedef struct briefly {
    int flag;
    bool drops;
    _Atomic int calls;
    _Atomic bool set;
} briefly;

/* The flag is set by the third task, which later ones wait for, and taken back once it was seen. */
static void stop_briefly(void *arg, size_t i, int worker)
{
    briefly *b = arg;
    (void)i, (void)worker;
    int before = atomic_fetch_add(&b->calls, 1);
    while (before > 2 && !atomic_load(&b->set)) gale__sleep_ns(1000);
    if (before != 2) return;
    __atomic_store_n(&b->flag, 1, __ATOMIC_RELAXED);
    CHECK_EQ(gale__limits_stopped(), b->drops);
    __atomic_store_n(&b->flag, 0, __ATOMIC_RELAXED);
    atomic_store(&b->set, true);
}

TEST(kernels_that_are_stopped)
{
    for (int width = 1; width < 5; width += 3) {
        briefly b = {0};
        _Atomic int stopped = 0;
        gale__limits outer = {.cancel = &b.flag}, inner = {.stopped = &stopped};
        gale__parallel_set_width(width);
        gale__limits_enter(&outer);
        gale__parallel_kernel(1000, stop_briefly, &b); /* nothing says that results are dropped */
        CHECK_EQ(atomic_load(&b.calls), 1000);
        gale__limits_enter(&inner);
        CHECK(!gale__limits_stopped());
        b = (briefly){.drops = true};
        gale__parallel_kernel(1000, stop_briefly, &b);
        CHECK(atomic_load(&b.calls) < 3 + width);
        CHECK_FAILS(gale__limits_check(), CANCELLED); /* although the flag is 0 again */
        gale__parallel(1000, stop_briefly, &b);
        CHECK(atomic_load(&b.calls) >= 1000); /* other work goes on */
        gale__limits_leave(&inner);
        CHECK_OK(gale__limits_check());
        gale__limits_leave(&outer);
    }
    gale__parallel_set_width(0);
}

TEST(locks)
{
    box b = {.value = 0};
    gale__mutex_init(&b.lock);
    gale__cond_init(&b.changed);
    gale__mutex_lock(&b.lock);
    uint64_t start = gale__time_ns();
    CHECK(!gale__cond_wait_ns(&b.changed, &b.lock, 5000000));
    CHECK(gale__time_ns() - start >= 5000000);
    gale__thread *t = NULL;
    CHECK_OK(gale__thread_start(put, &b, &t));
    while (b.value != 42) CHECK(gale__cond_wait_ns(&b.changed, &b.lock, UINT64_MAX));
    gale__mutex_unlock(&b.lock);
    gale__thread_join(&t);
    CHECK(!t);
    gale__cond_finish(&b.changed);
    gale__mutex_finish(&b.lock);
    start = gale__time_ns();
    gale__sleep_ns(2000000);
    CHECK(gale__time_ns() - start >= 2000000);
}

enum { SIDES = 3, ROUNDS = 3000 };
typedef struct exchange {
    gale__mutex lock;
    gale__cond filled, emptied;
    int tokens, rounds, producers;
} exchange;

/* Producers take turns once a token is taken, and wake one consumer; these wake all producers. */
static void produce(void *arg)
{
    exchange *e = arg;
    gale__mutex_lock(&e->lock);
    int own = e->producers++;
    for (int i = 0; i < ROUNDS; i++) {
        while (e->tokens || e->rounds % SIDES != own) gale__cond_wait(&e->emptied, &e->lock);
        e->tokens = 1;
        gale__cond_signal(&e->filled);
    }
    gale__mutex_unlock(&e->lock);
}

static void consume(void *arg)
{
    exchange *e = arg;
    gale__mutex_lock(&e->lock);
    for (int i = 0; i < ROUNDS; i++, e->rounds++) {
        while (!e->tokens) {
            if (i % 2) gale__cond_wait(&e->filled, &e->lock);
            else CHECK(gale__cond_wait_ns(&e->filled, &e->lock, UINT64_C(100000000000)));
        }
        e->tokens = 0;
        gale__cond_broadcast(&e->emptied);
    }
    gale__mutex_unlock(&e->lock);
}

TEST(no_wake_up_is_lost)
{
    exchange e = {0};
    gale__thread *threads[2 * SIDES] = {0};
    gale__mutex_init(&e.lock);
    gale__cond_init(&e.filled);
    gale__cond_init(&e.emptied);
    for (int i = 0; i < 2 * SIDES; i++) CHECK_OK(gale__thread_start(i % 2 ? produce : consume, &e, &threads[i]));
    for (int i = 0; i < 2 * SIDES; i++) gale__thread_join(&threads[i]);
    CHECK_EQ(e.rounds, SIDES * ROUNDS);
    CHECK_EQ(e.tokens, 0);
    gale__cond_finish(&e.filled);
    gale__cond_finish(&e.emptied);
    gale__mutex_finish(&e.lock);
}

static int once_runs;
static void run_once(void) { once_runs++; }
static gale__once once;
static void use_once(void *arg, size_t i, int worker)
{
    (void)arg, (void)i, (void)worker;
    gale__once_run(&once, run_once);
}

TEST(once_only)
{
    gale__parallel(100, use_once, NULL);
    CHECK_EQ(once_runs, 1);
    gale__parallel_finish();
}

TESTS(ROW(pool), ROW(pool_allocates_nothing), ROW(pool_nested), ROW(pool_takes_what_others_leave),
    ROW(pool_many_callers), ROW(pool_after_fork), ROW(limits_on_threads), ROW(limits_that_stop),
    ROW(kernels_that_are_stopped), ROW(locks), ROW(no_wake_up_is_lost), ROW(once_only))
