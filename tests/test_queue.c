/* Submitted runs on every backend: in order, one feeding the next without the caller, each with a handle of its own. */
#include "onnx_made.h"
#include "device_suite.h"
#include "graph/run/program.h"
#include "program_graphs.h"
#include <stdatomic.h>

enum { SIDE = 64, RUNS = 12 };

/* y = x W / 4 + 1, small enough to stay finite. */
static gale_program *step(void)
{
    static float w[SIDE * SIDE];
    gale_graph *graph = NULL;
    gale_program *p = NULL;
    float one = 1;
    pg g = pg_begin();
    pg_fill(w, SIDE * SIDE, 3);
    for (int i = 0; i < SIDE * SIDE; i++) w[i] /= SIDE;
    gale_value x = pg_input(&g, "x", GALE_F32, SHAPE(-1, SIDE), NULL),
               y = OP2(&g, "MatMul", x, pg_constant(&g, GALE_F32, SHAPE(SIDE, SIDE), w));
    pg_output(&g, "y", OP1(&g, "Tanh", OP2(&g, "Add", y, pg_constant(&g, GALE_F32, SCALAR, &one))));
    if (CHECK_OK(pg_end(&g, &graph))) CHECK_OK(gale_program_create(graph, device, NULL, &p));
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

static bool equal(gale_tensor *a, gale_tensor *b)
{
    return !computes || !memcmp(gale_tensor_data(a), gale_tensor_data(b), gale_tensor_size_bytes(a));
}

/* The same, run by run. */
static gale_tensor *chain(gale_program *p, int runs)
{
    gale_tensor *x = rows_of(9), *y = NULL;
    for (int i = 0; i < runs && x; i++) {
        CHECK_OK(gale_program_run(p, &x, &y, GALE_RUN_ON_HOST));
        gale_tensor_destroy(&x);
        x = y;
        y = NULL;
    }
    return x;
}

/* Each run takes what the one before gave, on the device or through the host; the caller keeps only the last. */
static void runs_follow_one_another(void)
{
    gale_program *p = step();
    gale_queue *q = NULL;
    gale_run *runs[RUNS] = {0};
    gale_tensor *want = p ? chain(p, RUNS) : NULL;
    if (p && CHECK_OK(gale_queue_create(device, &q)))
        for (int mixed = 0; mixed < 2; mixed++) {
            gale_tensor *x = rows_of(9);
            for (int i = 0; i < RUNS; i++) {
                gale_tensor *y = NULL;
                gale_run_control control = {.outputs_on_host = i == RUNS - 1 || (mixed && i % 3 == 0)};
                CHECK_OK(gale_program_submit(p, q, &x, &y, &control, &runs[i], &runs[i]));
                gale_tensor_destroy(&x);
                x = y;
            }
            for (int i = RUNS - 1; i >= 0; i--) {
                CHECK_OK(gale_run_wait(runs[i]));
                CHECK(gale_run_user(runs[i]) == &runs[i]);
                gale_run_destroy(&runs[i]);
            }
            CHECK(x && want && equal(x, want));
            gale_tensor_destroy(&x);
        }
    gale_queue_destroy(&q);
    gale_tensor_destroy(&want);
    gale_program_destroy(&p);
}

static void polls(void)
{
    gale_program *p = step();
    gale_queue *q = NULL;
    gale_run *run = NULL;
    gale_tensor *x = rows_of(9), *y = NULL, *want = p ? chain(p, 1) : NULL;
    if (p && CHECK_OK(gale_queue_create(device, &q)) &&
        CHECK_OK(gale_program_submit(p, q, &x, &y, &(gale_run_control){.outputs_on_host = true}, NULL, &run))) {
        bool done = false;
        for (int i = 0; i < 20000 && !done; i++) {
            if (!CHECK_OK(gale_run_poll(run, &done))) break;
            if (!done) gale__sleep_ns(500000);
        }
        CHECK(done && equal(y, want));
        CHECK_OK(gale_run_poll(run, &done));
    }
    gale_run_destroy(&run);
    gale_queue_destroy(&q);
    gale_tensor_destroy(&x), gale_tensor_destroy(&y), gale_tensor_destroy(&want);
    gale_program_destroy(&p);
}

/* Models in a queue, between programs: y = n times x, by a loop that the host runs. */
static gale_status looping(gale_model **out)
{
    maker m;
    make_begin(&m, 21);
    make_input(&m, "n", 7, ""), make_input(&m, "x", 1, "r,64"), make_output(&m, "y", 1, "r,64");
    make_node(&m, "Sub", "x,x", "zero");
    gale__pb_graph *outer = make_enter(&m, make_node(&m, "Loop", "n,,zero", "y"), "body");
    make_input(&m, "i", 7, ""), make_input(&m, "c", 9, ""), make_input(&m, "s", 1, "r,64");
    make_output(&m, "c1", 9, ""), make_output(&m, "s1", 1, "r,64");
    make_node(&m, "Add", "s,x", "s1");
    make_node(&m, "Identity", "c", "c1");
    make_leave(&m, outer);
    gale_status status = open_made(&m, device, out);
    make_end(&m);
    return status;
}

static void models_in_a_queue(void)
{
    gale_program *p = step();
    gale_model *m = NULL;
    gale_queue *q = NULL;
    gale_run *runs[3] = {0};
    gale_tensor *x = rows_of(9), *y = NULL, *three = NULL, *want = p ? chain(p, 1) : NULL;
    gale_object *in[2] = {0}, *out[1] = {0}, *none[1] = {0};
    int64_t n = 3;
    int stop = 1;
    bool ok = p && CHECK_OK(looping(&m)) && CHECK_OK(gale_queue_create(device, &q)) &&
              CHECK_OK(gale_tensor_from_cpu(NULL, GALE_I64, SCALAR, &n, &three)) &&
              CHECK_OK(gale_object_tensor(three, &in[0])) &&
              CHECK_OK(gale_program_submit(p, q, &x, &y, NULL, NULL, &runs[0])) &&
              CHECK_OK(gale_object_tensor(y, &in[1])); /* made by a run that may not be over */
    if (ok && computes) {
        gale_run_control host = {.outputs_on_host = true}, stopped = {.cancel = &stop};
        CHECK_FAILS(gale_model_submit(m, q, NULL, out, NULL, NULL, &runs[1]), INVALID);
        CHECK_OK(gale_model_submit(m, q, in, out, &host, &n, &runs[1]));
        CHECK_OK(gale_model_submit(m, q, in, none, &stopped, NULL, &runs[2]));
        for (int i = 0; i < 2; i++) gale_object_destroy(&in[i]);
        CHECK(gale_run_user(runs[1]) == &n);
        if (CHECK_OK(gale_run_wait(runs[1]))) {
            const float *a = gale_tensor_data(want), *b = gale_tensor_data(gale_object_get_tensor(out[0]));
            for (int i = 0; i < 9 * SIDE; i++) CHECK(fabsf(3 * a[i] - b[i]) < 1e-5f);
        }
        CHECK_FAILS(gale_run_wait(runs[2]), CANCELLED);
        CHECK(!none[0]);
    }
    for (int i = 0; i < 3; i++) gale_run_destroy(&runs[i]);
    for (int i = 0; i < 2; i++) gale_object_destroy(&in[i]);
    gale_object_destroy(&out[0]);
    gale_queue_destroy(&q);
    gale_tensor_destroy(&x), gale_tensor_destroy(&y), gale_tensor_destroy(&three), gale_tensor_destroy(&want);
    gale_program_destroy(&p);
    gale_model_close(&m);
}

/* A run that is stopped says so by its own handle, and the next one runs. */
static void failures_have_a_handle(void)
{
    gale_program *p = step();
    gale_queue *q = NULL;
    gale_run *bad = NULL, *late = NULL, *good = NULL;
    gale_tensor *x = rows_of(9), *wrong = NULL, *y[3] = {0}, *want = p ? chain(p, 1) : NULL;
    int flag = 1;
    bool done = false;
    CHECK_OK(gale_tensor_create(NULL, GALE_F32, SHAPE(3, SIDE + 1), &wrong));
    if (p && CHECK_OK(gale_queue_create(device, &q))) {
        CHECK_FAILS(gale_program_submit(p, q, &wrong, &y[0], NULL, NULL, &bad), INVALID);
        CHECK(!bad && !y[0]);
        CHECK_OK(gale_program_submit(p, q, &x, &y[0], &(gale_run_control){.cancel = &flag}, NULL, &bad));
        CHECK_OK(gale_program_submit(p, q, &x, &y[1], &(gale_run_control){.deadline_ns = 1}, NULL, &late));
        CHECK_OK(gale_program_submit(p, q, &x, &y[2], &(gale_run_control){.outputs_on_host = true}, NULL, &good));
        CHECK_OK(gale_run_wait(good));
        CHECK_FAILS(gale_run_wait(bad), CANCELLED);
        CHECK_FAILS(gale_run_wait(late), DEADLINE);
        CHECK(strstr(gale_error(), "deadline"));
        CHECK_FAILS(gale_run_poll(bad, &done), CANCELLED);
        CHECK(equal(y[2], want));
    }
    gale_run_destroy(&bad), gale_run_destroy(&late), gale_run_destroy(&good);
    gale_queue_destroy(&q);
    for (int i = 0; i < 3; i++) gale_tensor_destroy(&y[i]);
    gale_tensor_destroy(&x), gale_tensor_destroy(&wrong), gale_tensor_destroy(&want);
    gale_program_destroy(&p);
}

typedef struct crew {
    gale_program *p;
    gale_queue *q;
    gale_tensor *want;
    _Atomic int bad;
} crew;

static void submit_many(void *arg)
{
    crew *c = arg;
    gale_tensor *x = rows_of(9);
    for (int i = 0; i < RUNS && x; i++) {
        gale_tensor *y = NULL;
        gale_run *run = NULL;
        gale_run_control control = {.outputs_on_host = true};
        if (gale_program_submit(c->p, c->q, &x, &y, &control, NULL, &run) != GALE_OK || gale_run_wait(run) != GALE_OK ||
            !equal(y, c->want))
            atomic_fetch_add(&c->bad, 1);
        gale_run_destroy(&run);
        gale_tensor_destroy(&y);
    }
    gale_tensor_destroy(&x);
}

static void callers_share_a_queue(void)
{
    enum { CALLERS = 4 };
    gale__thread *threads[CALLERS] = {0};
    crew c = {.p = step()};
    if (c.p) c.want = chain(c.p, 1);
    if (c.p && CHECK_OK(gale_queue_create(device, &c.q)))
        for (int i = 0; i < CALLERS; i++) CHECK_OK(gale__thread_start(submit_many, &c, &threads[i]));
    for (int i = 0; i < CALLERS; i++) gale__thread_join(&threads[i]);
    CHECK_EQ(atomic_load(&c.bad), 0);
    gale_queue_destroy(&c.q);
    gale_tensor_destroy(&c.want);
    gale_program_destroy(&c.p);
}

/* Handles outlive their queue, and a queue its caller's interest in the handles. */
static void ends_in_any_order(void)
{
    gale_program *p = step();
    gale_queue *q = NULL;
    gale_run *kept = NULL;
    gale_tensor *x = rows_of(9), *y = NULL;
    if (p && CHECK_OK(gale_queue_create(device, &q))) {
        for (int i = 0; i < RUNS; i++) {
            gale_run *run = NULL;
            CHECK_OK(gale_program_submit(p, q, &x, &y, NULL, NULL, &run));
            gale_tensor_destroy(&y);
            if (i == 3) kept = run;
            else gale_run_destroy(&run);
        }
        gale_queue_wait(q);
        gale_queue_destroy(&q);
        CHECK_OK(gale_run_wait(kept));
    }
    gale_run_destroy(&kept);
    gale_tensor_destroy(&x);
    gale_program_destroy(&p);
}

static void without_memory(void)
{
    gale_program *p = step();
    gale_tensor *x = rows_of(9), *y = NULL;
    gale_queue *q = NULL;
    bool ran = false;
    for (uint64_t n = 1; p && !ran && n < 400; n++) {
        gale_run *run = NULL;
        gale__alloc_fail_at(n);
        gale_status status = gale_queue_create(device, &q);
        if (status == GALE_OK) status = gale_program_submit(p, q, &x, &y, NULL, NULL, &run);
        if (status == GALE_OK) status = gale_run_wait(run);
        if (q) gale_queue_wait(q);
        ran = gale__alloc_count() < n;
        gale__alloc_fail_at(0);
        CHECK(status == GALE_OK || status == GALE_NO_MEMORY);
        gale_run_destroy(&run);
        gale_tensor_destroy(&y);
        gale_queue_destroy(&q);
    }
    CHECK(ran);
    gale_tensor_destroy(&x);
    gale_program_destroy(&p);
}

/* Streams that others have waited for end as soon as they may: drivers may still have to let go of them. */
static void streams_end_after_waits(void)
{
    enum { TIMES = 4, OTHERS = 100 }; /* more than a stream keeps */
    for (int i = 0; i < TIMES && !test_bad; i++) {
        gale_stream *others[OTHERS] = {0}, *last = NULL;
        gale_event *made[OTHERS] = {0}, *done = NULL;
        CHECK_OK(gale_stream_create(device, &last));
        CHECK_OK(gale_event_create(device, &done));
        for (int j = 0; j < OTHERS && !test_bad; j++) {
            CHECK_OK(gale_stream_create(device, &others[j]));
            CHECK_OK(gale_event_create(device, &made[j]));
            CHECK_OK(gale_event_record(made[j], others[j]));
            CHECK_OK(gale_stream_wait(last, made[j]));
        }
        if (!test_bad) CHECK_OK(gale_event_record(done, last));
        if (!test_bad) CHECK_OK(gale_event_wait(done));
        for (int j = 0; j < OTHERS; j++) gale_event_destroy(&made[j]), gale_stream_destroy(&others[j]);
        gale_event_destroy(&done);
        gale_stream_destroy(&last);
    }
}

static const suite_case cases[] = {
    {"runs_follow_one_another", runs_follow_one_another},
    {"polls", polls},
    {"models_in_a_queue", models_in_a_queue},
    {"failures_have_a_handle", failures_have_a_handle},
    {"callers_share_a_queue", callers_share_a_queue},
    {"ends_in_any_order", ends_in_any_order},
    {"streams_end_after_waits", streams_end_after_waits},
    {"without_memory", without_memory},
    {0},
};
SUITE(cases)
