/* Contexts: who gets which line, what is counted where, and which of context and device may go first. */
#include "test.h"
#include "base/context.h"
#include "base/mem.h"
#include "base/thread.h"
#include "gale/gale.h"
#include <stdatomic.h>

typedef struct ear {
    _Atomic int lines, warnings;
    char last[512];
} ear;

static gale__mutex last_lock; /* of the last line: several threads log at once */
static gale__once last_once;
static void make_lock(void) { gale__mutex_init(&last_lock); }

static void hear(void *user, int level, const char *line)
{
    ear *e = user;
    atomic_fetch_add(&e->lines, 1);
    if (level == 2) atomic_fetch_add(&e->warnings, 1);
    gale__once_run(&last_once, make_lock);
    gale__mutex_lock(&last_lock);
    snprintf(e->last, sizeof e->last, "%s", line);
    gale__mutex_unlock(&last_lock);
}

static gale_context *context_of(ear *e, gale_log_level level)
{
    gale_context *c = NULL;
    gale_context_options o = {.log = e ? hear : NULL, .log_user = e, .log_level = level};
    CHECK_OK(gale_context_create(&o, &c));
    return c;
}

static gale_device *cpu_in(gale_context *c)
{
    gale_device *d = NULL;
    CHECK_OK(gale_device_open(&(gale_device_options){.chain = "cpu", .context = c}, &d));
    return d;
}

/* y = x + x of four numbers. */
static gale_program *program_on(gale_device *device)
{
    gale_graph *g = NULL;
    gale_program *p = NULL;
    gale_value x, y, in[2];
    CHECK_OK(gale_graph_create(&g));
    CHECK_OK(gale_graph_input(g, "x", GALE_F32, 1, (int64_t[]){4}, NULL, &x));
    in[0] = in[1] = x;
    CHECK_OK(gale_graph_op(g, "Add", in, 2, NULL, 0, &y, 1));
    CHECK_OK(gale_graph_output(g, "y", y));
    CHECK_OK(gale_program_create(g, device, NULL, &p));
    gale_graph_destroy(&g);
    return p;
}

static void run_times(gale_program *p, gale_device *device, int times)
{
    for (int i = 0; i < times; i++) {
        gale_tensor *x = NULL, *y = NULL;
        float data[4] = {1, 2, 3, 4};
        CHECK_OK(gale_tensor_from_cpu(device, GALE_F32, 1, (int64_t[]){4}, data, &x));
        CHECK_OK(gale_program_run(p, &x, &y, 0));
        CHECK_OK(gale_tensor_to_cpu(y, data, sizeof data));
        CHECK(data[3] == 8);
        gale_tensor_destroy(&x);
        gale_tensor_destroy(&y);
    }
}

TEST(counts_by_context)
{
    gale_context *a = context_of(NULL, 0), *b = context_of(NULL, 0);
    gale_device *on_a = cpu_in(a), *on_b = cpu_in(b);
    gale_context_stats before, after, of_a, of_b;
    gale_context_get_stats(NULL, &before);
    gale_program *p = program_on(on_a), *q = program_on(on_b);
    run_times(p, on_a, 3);
    run_times(q, on_b, 1);
    gale_context_get_stats(NULL, &after);
    gale_context_get_stats(a, &of_a);
    gale_context_get_stats(b, &of_b);
    CHECK(!memcmp(&before, &after, sizeof before));
    CHECK_EQ(of_a.devices, 1);
    CHECK_EQ(of_a.runs, 3);
    CHECK_EQ(of_a.plans, 1);
    CHECK_EQ(of_a.uploads, 3);
    CHECK_EQ(of_a.upload_bytes, 48);
    CHECK_EQ(of_a.downloads, 3);
    CHECK_EQ(of_b.runs, 1);
    CHECK_EQ(of_b.download_bytes, 16);
    gale_context_destroy(&a); /* devices hold what they need of it */
    run_times(p, on_a, 1);
    gale_program_destroy(&p);
    gale_program_destroy(&q);
    gale_device_close(&on_a);
    gale_device_close(&on_b);
    gale_context_destroy(&b);
}

TEST(logs_by_device)
{
    ear of_a = {0}, of_default = {0};
    gale_context *a = context_of(&of_a, GALE_LOG_DEBUG);
    gale_log_set(hear, &of_default, 0);
    gale_device *d = cpu_in(a);
    gale_profiler *p = NULL;
    gale_buffer *buffer = NULL;
    gale_device *none = NULL;
    CHECK_OK(gale_buffer_create(d, 100, &buffer));
    CHECK_OK(gale_profiler_start(d, &p));
    gale_profiler_destroy(&p);
    CHECK(gale_device_open(&(gale_device_options){.chain = "tensorrt,cpu", .context = a}, &none) == GALE_OK);
    if (strcmp(gale_device_get_info(none)->backend, "cpu") == 0)
        CHECK(of_a.warnings == 1 && strstr(of_a.last, "falling back to cpu"));
    CHECK_EQ(of_default.lines, 0);
    gale_device_close(&none);
    gale_buffer_destroy(&buffer);
    gale_device_close(&d);
    gale_context_destroy(&a);
    gale_log_set(NULL, NULL, 2);
}

static void warn(void *arg, size_t i, int worker)
{
    (void)arg, (void)worker;
    gale__log(GALE__WARN, "from %zu", i);
}

static void warn_once(void *arg) { warn(arg, 0, 0); }

/* Work without a device, workers of the pool and threads that are started belong to the context of the caller. */
TEST(logs_by_thread)
{
    ear of_a = {0}, of_default = {0};
    gale_context *a = context_of(&of_a, 0);
    gale__thread *thread = NULL;
    gale_log_set(hear, &of_default, 2);
    CHECK(gale_context_use(a) == NULL);
    gale__parallel(100, warn, NULL);
    CHECK_EQ(of_a.lines, 100);
    if (CHECK_OK(gale__thread_start(warn_once, NULL, &thread))) gale__thread_join(&thread);
    CHECK_EQ(of_a.lines, 101);
    gale__log(GALE__INFO, "less than a warning");
    CHECK_EQ(of_a.lines, 101);
    CHECK(gale_context_use(NULL) == a);
    gale__parallel(10, warn, NULL);
    CHECK_EQ(of_a.lines, 101);
    CHECK_EQ(of_default.lines, 10);
    gale_context_stats stats;
    gale_context_get_stats(a, &stats);
    CHECK_EQ(stats.warnings, 101);
    gale_context_use(a);
    gale_context_destroy(&a);
    CHECK(gale__context_current() == NULL);
    gale_log_set(NULL, NULL, 2);
}

/* A device opened while a context is current belongs to it, and takes its lines there from any other. */
TEST(device_of_the_current_context)
{
    ear of_a = {0};
    gale_context *a = context_of(&of_a, GALE_LOG_INFO);
    gale_context *before = gale_context_use(a);
    gale_device *d = NULL;
    CHECK_OK(gale_device_open(&(gale_device_options){.chain = "cpu"}, &d));
    gale_context_use(before);
    gale_program *p = program_on(d);
    run_times(p, d, 2);
    gale_context_stats stats;
    gale_context_get_stats(a, &stats);
    CHECK_EQ(stats.runs, 2);
    gale_queue *queue = NULL;
    CHECK_OK(gale_queue_create(d, &queue));
    gale_tensor *x = NULL, *y = NULL;
    gale_run *run = NULL;
    CHECK_OK(gale_tensor_from_cpu(d, GALE_F32, 1, (int64_t[]){4}, (float[]){1, 2, 3, 4}, &x));
    CHECK_OK(gale_program_submit(p, queue, &x, &y, NULL, NULL, &run));
    CHECK_OK(gale_run_wait(run));
    gale_context_get_stats(a, &stats);
    CHECK_EQ(stats.runs, 3);
    gale_run_destroy(&run);
    gale_tensor_destroy(&x);
    gale_tensor_destroy(&y);
    gale_queue_destroy(&queue);
    gale_program_destroy(&p);
    gale_device_close(&d);
    gale_context_destroy(&a);
}

static _Atomic bool stop;

static void keep_logging(void *arg)
{
    gale_context_use(arg);
    while (!atomic_load(&stop)) gale__log(GALE__WARN, "again");
}

/* The sink's memory may be freed as soon as destroy returns, while another thread still logs. */
TEST(destroy_waits_for_the_sink)
{
    ear *e = calloc(1, sizeof *e);
    gale_context *a = context_of(e, 0), *held = gale__context_hold(a);
    gale__thread *thread = NULL;
    atomic_store(&stop, false);
    if (CHECK_OK(gale__thread_start(keep_logging, a, &thread))) {
        while (!atomic_load(&e->lines)) gale__sleep_ns(1000);
        gale_context_destroy(&a);
        free(e);
        gale__sleep_ns(2000000);
        atomic_store(&stop, true);
        gale__thread_join(&thread);
    }
    gale__context_drop(held);
}

TEST(allocation_fails)
{
    gale_context *a = NULL;
    gale__alloc_fail_at(1);
    CHECK_FAILS(gale_context_create(NULL, &a), NO_MEMORY);
    gale__alloc_fail_at(0);
    CHECK(a == NULL);
}

TESTS(ROW(counts_by_context), ROW(logs_by_device), ROW(logs_by_thread), ROW(device_of_the_current_context),
    ROW(destroy_waits_for_the_sink), ROW(allocation_fails))
