/* The plans of a program, on every backend: made once for each shape however many ask for it, never in the way of
 * shapes that are ready, and kept within a budget. */
#include "device_suite.h"
#include "graph/run/program.h"
#include "program_graphs.h"
#include <stdatomic.h>

enum { SIDE = 8, CALLERS = 6 };

/* x[N, 8] through many small layers: long to plan and short to run. */
static gale_program *tower(int layers, const gale_program_options *options)
{
    float w[SIDE * SIDE];
    gale_graph *graph = NULL;
    gale_program *p = NULL;
    pg g = pg_begin();
    pg_fill(w, SIDE * SIDE, 3);
    gale_value y = pg_input(&g, "x", GALE_F32, SHAPE(-1, SIDE), NULL), weights;
    weights = pg_constant(&g, GALE_F32, SHAPE(SIDE, SIDE), w);
    for (int i = 0; i < layers; i++) y = OP1(&g, "Tanh", OP2(&g, "MatMul", y, weights));
    pg_output(&g, "y", y);
    if (CHECK_OK(pg_end(&g, &graph))) CHECK_OK(gale_program_create(graph, device, options, &p));
    gale_graph_destroy(&graph);
    return p;
}

static gale_tensor *rows_of(int64_t n)
{
    gale_tensor *x = NULL;
    if (CHECK_OK(gale_tensor_create(NULL, GALE_F32, SHAPE(n, SIDE), &x)))
        pg_fill(gale_tensor_data(x), (size_t)n * SIDE, 5);
    return x;
}

static gale_status run(gale_program *p, int64_t n)
{
    gale_tensor *x = rows_of(n), *y = NULL;
    gale_status status = x ? gale_program_run(p, &x, &y, GALE_RUN_ON_HOST) : GALE_NO_MEMORY;
    gale_tensor_destroy(&x), gale_tensor_destroy(&y);
    return status;
}

typedef struct crew {
    gale_program *p;
    int64_t shapes;
    _Atomic int next, bad, done;
    _Atomic bool planning;
} crew;

static void run_shapes(void *arg)
{
    crew *c = arg;
    int me = atomic_fetch_add(&c->next, 1);
    for (int64_t i = 0; i < c->shapes; i++) /* two and two begin with the same */
        if (run(c->p, 1 + (i + me / 2) % c->shapes) != GALE_OK) atomic_fetch_add(&c->bad, 1);
}

static void a_shape_is_planned_once(void)
{
    crew c = {.p = tower(20, NULL), .shapes = 5};
    gale__thread *threads[CALLERS] = {0};
    for (int i = 0; c.p && i < CALLERS; i++) CHECK_OK(gale__thread_start(run_shapes, &c, &threads[i]));
    for (int i = 0; i < CALLERS; i++) gale__thread_join(&threads[i]);
    CHECK_EQ(atomic_load(&c.bad), 0);
    if (c.p) CHECK(c.p->n_planned == 5 && c.p->n_instances == 5);
    gale_program_destroy(&c.p);
}

/* Runs of the ready shape that begin and end while another is planned. */
static void run_ready(void *arg)
{
    crew *c = arg;
    while (atomic_load(&c->planning)) {
        if (run(c->p, 1) != GALE_OK) atomic_fetch_add(&c->bad, 1);
        atomic_fetch_add(&c->done, atomic_load(&c->planning));
    }
}

static void ready_shapes_go_on(void)
{
    bool slow = device->info.caps.software; /* runs may take longer than plans */
    crew c = {.p = tower(slow ? 20 : 400, NULL)};
    int most = 0, tries = slow ? 3 : 20;
    if (!c.p || !CHECK_OK(run(c.p, 1))) return gale_program_destroy(&c.p);
    for (int i = 0; i < tries && most < 2; i++) {
        gale__thread *other = NULL;
        gale_tensor *x = rows_of(2 + i);
        int kernels;
        atomic_store(&c.done, 0);
        atomic_store(&c.planning, true);
        if (CHECK_OK(gale__thread_start(run_ready, &c, &other))) CHECK_OK(gale__program_kernels(c.p, &x, &kernels));
        atomic_store(&c.planning, false);
        gale__thread_join(&other);
        gale_tensor_destroy(&x);
        if (atomic_load(&c.done) > most) most = atomic_load(&c.done);
    }
    CHECK(most >= 2 || slow);
    CHECK_EQ(atomic_load(&c.bad), 0);
    gale_program_destroy(&c.p);
}

/* A plan that cannot be made is each caller's own failure, and leaves nothing. */
static void fail_to_plan(void *arg)
{
    crew *c = arg;
    if (run(c->p, 1 << 20) != GALE_NO_MEMORY) atomic_fetch_add(&c->bad, 1);
}

static void failures_are_told_to_all(void)
{
    gale_program_options small = {.memory_limit_bytes = 64 << 10};
    crew c = {.p = tower(4, &small)};
    gale__thread *threads[CALLERS] = {0};
    for (int i = 0; c.p && i < CALLERS; i++) CHECK_OK(gale__thread_start(fail_to_plan, &c, &threads[i]));
    for (int i = 0; i < CALLERS; i++) gale__thread_join(&threads[i]);
    CHECK_EQ(atomic_load(&c.bad), 0);
    if (c.p) CHECK_EQ(c.p->n_instances, 0);
    if (c.p) CHECK_OK(run(c.p, 2));
    gale_program_destroy(&c.p);
}

static void a_budget_for_plans(void)
{
    enum { MANY = 60 };
    gale_program_options options = {.plan_memory_bytes = 1 << 20};
    gale_program *p = tower(4, &options);
    int most = 0;
    for (int64_t n = 1; p && n <= MANY; n++) { /* 32 KiB and more of work memory each */
        CHECK_OK(run(p, 1000 + n));
        if (p->n_instances > most) most = p->n_instances;
    }
    CHECK(!p || (most > 2 && most < MANY / 2));
    uint64_t made = p ? p->n_planned : 0;
    CHECK_EQ(made, MANY);
    if (p) CHECK_OK(run(p, 1000 + MANY)); /* the latest is there, the first has gone */
    if (p) CHECK_EQ(p->n_planned, made);
    if (p) CHECK_OK(run(p, 1001));
    if (p) CHECK_EQ(p->n_planned, made + 1);
    gale_program_destroy(&p);
    options.plan_memory_bytes = 1; /* nothing fits, and still the latest stays */
    p = tower(4, &options);
    for (int i = 0; p && i < 6; i++) CHECK_OK(run(p, 1 + i / 3));
    if (p) CHECK(p->n_planned == 2 && p->n_instances == 1);
    gale_program_destroy(&p);
}

/* Callers over a budget that holds one plan take them from each other. */
static void threads_over_budget(void)
{
    gale_program_options options = {.plan_memory_bytes = 1};
    crew c = {.p = tower(6, &options), .shapes = 6};
    gale__thread *threads[CALLERS] = {0};
    for (int i = 0; c.p && i < CALLERS; i++) CHECK_OK(gale__thread_start(run_shapes, &c, &threads[i]));
    for (int i = 0; i < CALLERS; i++) gale__thread_join(&threads[i]);
    CHECK_EQ(atomic_load(&c.bad), 0);
    gale_program_destroy(&c.p);
}

enum { WIDE = 100000 };

static void run_wide(void *arg)
{
    crew *c = arg;
    int me = atomic_fetch_add(&c->next, 1);
    for (int i = 0; i < (device->info.caps.software ? 1 : 4); i++) /* two and two have the same shape */
        if (run(c->p, WIDE + me / 2 % 2) != GALE_OK) atomic_fetch_add(&c->bad, 1);
}

/* Under a limit that holds two runs the others wait; what a program keeps goes to another program, or to a tensor. */
static void runs_wait_for_memory(void)
{
    gale_device *usual = device;
    gale_device_options limit = {0};
    gale__thread *threads[CALLERS] = {0};
    gale_memory_stats stats = {0};
    gale_tensor *t = NULL;
    crew c = {.p = tower(3, NULL)}, other = {0};
    if (c.p && CHECK_OK(run(c.p, WIDE))) gale_memory_get_stats(device, &stats);
    gale_program_destroy(&c.p);
    limit.pool_limit_bytes = 5 * stats.peak_bytes / 2;
    if (!CHECK_OK(gale__device_open_one(device->backend, 0, &limit, &device))) return;
    c.p = tower(3, NULL), other.p = tower(2, NULL);
    for (int i = 0; c.p && i < CALLERS; i++) CHECK_OK(gale__thread_start(run_wide, &c, &threads[i]));
    for (int i = 0; i < CALLERS; i++) gale__thread_join(&threads[i]);
    CHECK_EQ(atomic_load(&c.bad), 0);
    if (other.p) CHECK_OK(run(other.p, 2 * WIDE));
    if (CHECK_OK(gale_tensor_create(device, GALE_U8, SHAPE((int64_t)limit.pool_limit_bytes / 4 * 3), &t))) {
        gale_run_control soon = {.outputs_on_host = true, .deadline_ns = gale__time_ns() + 20000000000u};
        gale_tensor *x = rows_of(WIDE), *y = NULL;
        CHECK(c.p && gale_program_run_with(c.p, &x, &y, &soon) == GALE_NO_MEMORY && !y); /* nothing to wait for */
        gale_tensor_destroy(&x);
    }
    gale_tensor_destroy(&t);
    gale_program_destroy(&c.p), gale_program_destroy(&other.p);
    gale_device_close(&device);
    device = usual;
}

static const suite_case cases[] = {
    {"a_shape_is_planned_once", a_shape_is_planned_once},
    {"ready_shapes_go_on", ready_shapes_go_on},
    {"failures_are_told_to_all", failures_are_told_to_all},
    {"a_budget_for_plans", a_budget_for_plans},
    {"threads_over_budget", threads_over_budget},
    {"runs_wait_for_memory", runs_wait_for_memory},
    {0},
};
SUITE(cases)
