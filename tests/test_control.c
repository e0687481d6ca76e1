/* Runs under control, on every backend: how many threads they use, and that a flag or a deadline stops them between
 * their kernels and leaves nothing behind. */
#include "device_suite.h"
#include "device/null/null.h"
#include "graph/run/program.h"
#include "program_graphs.h"
#include <dirent.h>
#include <stdatomic.h>

enum { SIDE = 128, ROWS = 8 * SIDE, ROWS_MOST = 256 * SIDE, LAYERS = 40, TRIES = 12 };

/* x -> tanh(x W) again and again: a kernel or two for each, none of which can be left out. */
static gale_status tower(int layers, gale_graph **out)
{
    static float w[SIDE * SIDE];
    pg g = pg_begin();
    pg_fill(w, SIDE * SIDE, 3);
    gale_value y = pg_input(&g, "x", GALE_F32, SHAPE(-1, SIDE), NULL), weights;
    weights = pg_constant(&g, GALE_F32, SHAPE(SIDE, SIDE), w);
    for (int i = 0; i < layers; i++) y = OP1(&g, "Tanh", OP2(&g, "MatMul", y, weights));
    pg_output(&g, "y", y);
    return pg_end(&g, out);
}

typedef struct subject {
    gale_program *p;
    gale_tensor *x, *want;
    uint64_t whole_ns; /* an undisturbed run */
} subject;

static bool run_whole(subject *s)
{
    gale_tensor_destroy(&s->want);
    uint64_t start = gale_time_ns();
    if (!CHECK_OK(gale_program_run(s->p, &s->x, &s->want, GALE_RUN_ON_HOST))) return false;
    s->whole_ns = gale_time_ns() - start;
    return true;
}

static bool begin_with(subject *s, const gale_program_options *options, int layers, int64_t rows)
{
    static float x[ROWS_MOST * SIDE];
    gale_graph *graph = NULL;
    *s = (subject){0};
    pg_fill(x, (size_t)(rows * SIDE), 5);
    if (CHECK_OK(tower(layers, &graph))) CHECK_OK(gale_program_create(graph, device, options, &s->p));
    gale_graph_destroy(&graph);
    if (!s->p || !CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, SHAPE(rows, SIDE), x, &s->x))) return false;
    return run_whole(s) && run_whole(s);
}

static bool begin(subject *s, const gale_program_options *options)
{
    return begin_with(s, options, LAYERS, device->info.caps.software ? 16 : test_light() ? SIDE : ROWS);
}

static void end(subject *s)
{
    gale_tensor_destroy(&s->x);
    gale_tensor_destroy(&s->want);
    gale_program_destroy(&s->p);
}

/* A run that nothing stops gives what it gives without control. */
static void check_whole(const subject *s, gale_run_control control)
{
    gale_tensor *y = NULL;
    control.outputs_on_host = true;
    if (CHECK_OK(gale_program_run_with(s->p, &s->x, &y, &control)))
        CHECK(!computes || !memcmp(gale_tensor_data(y), gale_tensor_data(s->want), gale_tensor_size_bytes(y)));
    gale_tensor_destroy(&y);
}

static void not_stopped(void)
{
    subject s;
    int flag = 0;
    if (begin(&s, NULL))
        for (int i = 0; i < 4; i++) {
            check_whole(&s, (gale_run_control){.cancel = &flag, .deadline_ns = gale_time_ns() + 3600000000000u});
            check_whole(&s, (gale_run_control){0});
        }
    CHECK_OK(gale_program_run_with(s.p, &s.x, &s.want, NULL)); /* no control at all, into the caller's tensor */
    end(&s);
}

static void stopped_before_the_first_kernel(void)
{
    subject s;
    int flag = 1;
    gale_tensor *y = NULL;
    if (!begin(&s, NULL)) return end(&s);
    gale__null_counts before, after;
    gale__null_get_counts(&before);
    CHECK_FAILS(gale_program_run_with(s.p, &s.x, &y, &(gale_run_control){.cancel = &flag}), CANCELLED);
    CHECK(strstr(gale_error(), "cancelled"));
    CHECK_FAILS(gale_program_run_with(s.p, &s.x, &y, &(gale_run_control){.deadline_ns = 1}), DEADLINE);
    CHECK(strstr(gale_error(), "deadline"));
    CHECK(!y);
    gale__null_get_counts(&after);
    CHECK_EQ(after.launches, before.launches);
    check_whole(&s, (gale_run_control){0});
    end(&s);
}

/* Well before the end: a quarter of the time is spent on the way in, and machines that test are busy. */
static void stop_at_a_deadline(const subject *given)
{
    subject s = *given;
    bool soon = false;
    for (int i = 0; i < TRIES && !soon && run_whole(&s); i++) {
        gale_tensor *y = NULL;
        uint64_t start = gale_time_ns();
        gale_run_control control = {.outputs_on_host = true, .deadline_ns = start + s.whole_ns / 8};
        gale_status status = gale_program_run_with(s.p, &s.x, &y, &control);
        soon = status == GALE_DEADLINE && gale_time_ns() - start < s.whole_ns * 3 / 4;
        CHECK(status == GALE_OK ? y != NULL : status == GALE_DEADLINE && !y);
        gale_tensor_destroy(&y);
    }
    CHECK(soon);
    check_whole(&s, (gale_run_control){0});
    end(&s);
}

static void stopped_at_a_deadline(void)
{
    subject s;
    if (begin(&s, NULL) && computes) stop_at_a_deadline(&s);
    else end(&s);
}

/* Where the threads of the caller do the work, the rest of a kernel is left out, by one thread and by all. */
static void stopped_within_a_kernel(void)
{
    subject s;
    if (!device->info.caps.host_functions) return;
    for (int threads = 0; threads < 2; threads++) {
        if (!begin_with(&s, &(gale_program_options){.threads = threads}, 1, test_light() ? ROWS : ROWS_MOST))
            return end(&s);
        CHECK_EQ(s.p->last.kernels, 1);
        stop_at_a_deadline(&s);
    }
}

typedef struct stopper {
    uint64_t after_ns;
    int flag;
} stopper;

static void stop_later(void *arg)
{
    stopper *s = arg;
    gale__sleep_ns(s->after_ns);
    __atomic_store_n(&s->flag, 1, __ATOMIC_RELAXED);
}

static void stopped_by_another_thread(void)
{
    subject s;
    bool soon = false;
    if (!begin(&s, NULL) || !computes) return end(&s);
    for (int i = 0; i < TRIES && !soon && run_whole(&s); i++) {
        gale_tensor *y = NULL;
        gale__thread *other = NULL;
        stopper later = {s.whole_ns / 8, 0};
        if (!CHECK_OK(gale__thread_start(stop_later, &later, &other))) break;
        uint64_t start = gale_time_ns();
        gale_status status = gale_program_run_with(s.p, &s.x, &y, &(gale_run_control){.cancel = &later.flag});
        soon = status == GALE_CANCELLED && gale_time_ns() - start < s.whole_ns * 3 / 4;
        CHECK(status == GALE_OK ? y != NULL : status == GALE_CANCELLED && !y);
        gale__thread_join(&other);
        gale_tensor_destroy(&y);
    }
    CHECK(soon);
    check_whole(&s, (gale_run_control){0});
    end(&s);
}

static int threads_of_the_process(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    if (!tasks) return -1;
    while (readdir(tasks)) n++;
    closedir(tasks);
    return n;
}

/* The pool starts its workers with the first run that uses them, so one that uses none leaves it asleep. */
static void one_thread_starts_no_other(void)
{
    subject s;
    gale_program_options one = {.threads = 1};
    if (!device->info.caps.host_functions) return;
    gale__parallel_set_width(4);
    int before = threads_of_the_process();
    if (before < 0) SKIP("/proc is not there");
    if (begin(&s, &one)) CHECK_EQ(threads_of_the_process(), before);
    if (s.p) check_whole(&s, (gale_run_control){.threads = 3}); /* the program's own limit holds */
    CHECK_EQ(threads_of_the_process(), before);
    end(&s);
    if (begin(&s, NULL)) { /* as many as there are */
        CHECK_EQ(threads_of_the_process(), before + 3);
        gale__parallel_set_width(4);
        for (int threads = 1; threads < 6; threads++) check_whole(&s, (gale_run_control){.threads = threads});
        CHECK_EQ(s.p->n_instances, 4); /* a plan for each number of threads, and 5 of 4 are 4 */
    }
    end(&s);
    gale__parallel_set_width(0);
}

typedef struct caller {
    const subject *s;
    _Atomic int *bad;
} caller;

static void call(void *arg)
{
    const caller *c = arg;
    for (int i = 0; i < 3; i++) {
        gale_tensor *y = NULL;
        gale_run_control control = {.outputs_on_host = true, .threads = 1};
        gale_status status = gale_program_run_with(c->s->p, &c->s->x, &y, &control);
        if (status != GALE_OK ||
            memcmp(gale_tensor_data(y), gale_tensor_data(c->s->want), gale_tensor_size_bytes(y)) != 0)
            atomic_fetch_add(c->bad, 1);
        gale_tensor_destroy(&y);
    }
}

/* More callers than the machine has cores, and than scratch memory was made for. */
static void many_callers_with_a_thread_each(void)
{
    enum { CALLERS = 80 };
    subject s;
    _Atomic int bad = 0;
    gale__thread *threads[CALLERS] = {0};
    if (!device->info.caps.host_functions) return;
    if (!begin_with(&s, NULL, LAYERS, test_light() ? 32 : ROWS)) return end(&s);
    caller c = {&s, &bad};
    for (int i = 0; i < CALLERS; i++) CHECK_OK(gale__thread_start(call, &c, &threads[i]));
    for (int i = 0; i < CALLERS; i++) gale__thread_join(&threads[i]);
    CHECK_EQ(atomic_load(&bad), 0);
    end(&s);
}

static const suite_case cases[] = {
    {"not_stopped", not_stopped},
    {"stopped_before_the_first_kernel", stopped_before_the_first_kernel},
    {"stopped_at_a_deadline", stopped_at_a_deadline},
    {"stopped_within_a_kernel", stopped_within_a_kernel},
    {"stopped_by_another_thread", stopped_by_another_thread},
    {"one_thread_starts_no_other", one_thread_starts_no_other},
    {"many_callers_with_a_thread_each", many_callers_with_a_thread_each},
    {0},
};
SUITE(cases)
