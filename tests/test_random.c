/* Random numbers on every backend: another set in each run, the same for the same seed and on every device, and never
 * the same for two operators, or two steps of a loop. */
#include "onnx_made.h"
#include "device_suite.h"
#include "graph/run/program.h"
#include "gale/model.h"
#include "program_graphs.h"
#include "graph/reference/reference.h"

enum { N = 1000, OUTPUTS = 4 };

static gale_value dropout(pg *g, gale_value x)
{
    float half = 0.5f;
    uint8_t yes = 1;
    gale_value in[3] = {x, pg_constant(g, GALE_F32, SCALAR, &half), pg_constant(g, GALE_BOOL, SCALAR, &yes)};
    return pg_op(g, "Dropout", in, 3, NULL, 0);
}

/* Two Dropouts of the same value, and each other way to draw. */
static gale_status drawing(gale_graph **out)
{
    const int64_t shape[1] = {N};
    pg g = pg_begin();
    gale_value x = pg_input(&g, "x", GALE_F32, SHAPE(N), NULL);
    pg_output(&g, "a", dropout(&g, x));
    pg_output(&g, "b", dropout(&g, x));
    gale_attr of_shape = GALE_INTS("shape", shape, 1);
    gale_value normal = pg_op(&g, "RandomNormal", NULL, 0, &of_shape, 1);
    pg_output(&g, "c", OP2(&g, "Add", normal, OP1(&g, "RandomUniformLike", x)));
    pg_output(&g, "d", OP1(&g, "Bernoulli", OP2(&g, "Mul", x, x)));
    return pg_end(&g, out);
}

static void destroy_all(gale_tensor **t, int n)
{
    for (int i = 0; i < n; i++) gale_tensor_destroy(&t[i]);
}

static bool run(gale_program *p, gale_tensor *x, uint64_t seed, gale_tensor **out)
{
    destroy_all(out, OUTPUTS);
    return CHECK_OK(gale_program_run_with(p, &x, out, &(gale_run_control){.outputs_on_host = true, .seed = seed}));
}

static bool same(gale_tensor *a, gale_tensor *b)
{
    return !memcmp(gale_tensor_data(a), gale_tensor_data(b), gale_tensor_size_bytes(a));
}

/* Elements in which two tensors agree. */
static int agreeing(gale_tensor *a, gale_tensor *b)
{
    const float *x = gale_tensor_data(a), *y = gale_tensor_data(b);
    int n = 0;
    for (size_t i = 0; i < gale_tensor_size_bytes(a) / sizeof *x; i++) n += x[i] == y[i];
    return n;
}

/* What the scalar reference draws under a seed. */
static void check_reference(const gale_graph *graph, const float *x, uint64_t seed, gale_tensor **got)
{
    gale__prim_graph g;
    gale__node out[OUTPUTS];
    void *want[OUTPUTS] = {0};
    const int64_t dims[1][GALE_MAX_RANK] = {{N}};
    const int ranks[1] = {1};
    gale__prim_init(&g);
    g.run_seed = seed;
    if (CHECK_OK(gale__opgraph_lower(graph, dims, ranks, NULL, NULL, &g, out)) &&
        CHECK_OK(gale__reference_run(&g, (const void *[]){x}, out, OUTPUTS, want)))
        for (int i = 0; i < OUTPUTS; i++)
            for (int k = 0; k < N; k++) /* logarithm and cosine differ in the last places */
                CHECK(fabsf(((float *)want[i])[k] - ((float *)gale_tensor_data(got[i]))[k]) < 1e-5f);
    for (int i = 0; i < OUTPUTS; i++) gale__free(want[i]);
    gale__prim_finish(&g);
}

static void seeds_repeat_and_runs_differ(void)
{
    float data[N];
    gale_graph *graph = NULL;
    gale_program *p = NULL;
    gale_tensor *x = NULL, *a[OUTPUTS] = {0}, *b[OUTPUTS] = {0};
    pg_fill(data, N, 7);
    if (!CHECK_OK(drawing(&graph)) || !CHECK_OK(gale_program_create(graph, device, NULL, &p)) ||
        !CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, SHAPE(N), data, &x)))
        goto done;
    if (!run(p, x, 5, a) || !computes) goto done;
    check_reference(graph, data, 5, a);
    for (int round = 0; round < 4; round++) { /* captures are replayed with the seed of each run */
        if (!run(p, x, 5, b)) goto done;
        for (int i = 0; i < OUTPUTS; i++) CHECK(same(a[i], b[i]));
        if (!run(p, x, (uint64_t)round * 2, b)) goto done; /* 0: drawn anew */
        for (int i = 0; i < OUTPUTS; i++) CHECK(!same(a[i], b[i]));
    }
    int both = agreeing(a[0], a[1]);
    CHECK(both > N * 2 / 5 && both < N * 3 / 5); /* as chance has it */
    if (run(p, x, 0, a) && run(p, x, 0, b))
        for (int i = 0; i < OUTPUTS; i++) CHECK(!same(a[i], b[i]));
done:
    destroy_all(a, OUTPUTS);
    destroy_all(b, OUTPUTS);
    gale_tensor_destroy(&x);
    gale_program_destroy(&p);
    gale_graph_destroy(&graph);
}

/* Submitted runs have seeds, too. */
static void submitted_runs(void)
{
    float data[N];
    gale_graph *graph = NULL;
    gale_program *p = NULL;
    gale_queue *q = NULL;
    gale_run *runs[3] = {0};
    gale_tensor *x = NULL, *out[3][OUTPUTS] = {{0}};
    pg_fill(data, N, 7);
    bool ok = CHECK_OK(drawing(&graph)) && CHECK_OK(gale_program_create(graph, device, NULL, &p)) &&
              CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, SHAPE(N), data, &x)) &&
              CHECK_OK(gale_queue_create(device, &q));
    for (int i = 0; ok && i < 3; i++) {
        gale_run_control control = {.outputs_on_host = true, .seed = i == 1 ? 9 : 8};
        ok = CHECK_OK(gale_program_submit(p, q, &x, out[i], &control, NULL, &runs[i]));
    }
    for (int i = 0; ok && i < 3; i++) ok = CHECK_OK(gale_run_wait(runs[i]));
    for (int i = 0; ok && computes && i < OUTPUTS; i++)
        CHECK(same(out[0][i], out[2][i]) && !same(out[0][i], out[1][i]));
    for (int i = 0; i < 3; i++) gale_run_destroy(&runs[i]), destroy_all(out[i], OUTPUTS);
    gale_queue_destroy(&q);
    gale_tensor_destroy(&x);
    gale_program_destroy(&p);
    gale_graph_destroy(&graph);
}

/* The gradient passes where the value did: d/dx sum(dropout(x)) is the mask, scaled. */
static void gradients_have_the_same_mask(void)
{
    float data[N];
    gale_graph *graph = NULL;
    gale_program *p = NULL;
    gale_tensor *x = NULL, *out[2] = {0};
    for (int i = 0; i < N; i++) data[i] = 3;
    pg g = pg_begin();
    gale_value in = pg_input(&g, "x", GALE_F32, SHAPE(N), NULL), y = dropout(&g, in), d = GALE_NONE;
    gale_value loss = OP1_WITH(&g, "ReduceSum", y, GALE_INT("keepdims", 0));
    if (g.status == GALE_OK) g.status = gale_graph_gradient(g.graph, loss, &in, 1, &d);
    pg_output(&g, "y", y);
    pg_output(&g, "d", d);
    bool ok = CHECK_OK(pg_end(&g, &graph)) && CHECK_OK(gale_program_create(graph, device, NULL, &p)) &&
              CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, SHAPE(N), data, &x));
    for (int round = 0; ok && round < 3; round++) {
        destroy_all(out, 2);
        ok = CHECK_OK(gale_program_run(p, &x, out, GALE_RUN_ON_HOST));
        const float *value = ok ? gale_tensor_data(out[0]) : NULL, *slope = ok ? gale_tensor_data(out[1]) : NULL;
        for (int i = 0; ok && computes && i < N; i++) CHECK(value[i] == 3 * slope[i]);
    }
    destroy_all(out, 2);
    gale_tensor_destroy(&x);
    gale_program_destroy(&p);
    gale_graph_destroy(&graph);
}

/* Steps of a Scan on the device: stacked [4, N] of one body that draws. */
static void steps_of_a_loop_differ(void)
{
    enum { STEPS = 4 };
    static float data[STEPS * N];
    gale_graph *graph = NULL, *body = NULL;
    gale_program *p = NULL;
    gale_tensor *in[2] = {0}, *a = NULL, *b = NULL;
    gale_value v[2], out[2];
    pg inner = pg_begin(), g = pg_begin();
    gale_value s = pg_input(&inner, "s", GALE_F32, SHAPE(1), NULL), x = pg_input(&inner, "x", GALE_F32, SHAPE(N), NULL);
    pg_output(&inner, "s1", OP1(&inner, "Neg", s));
    pg_output(&inner, "y", OP2(&inner, "Mul", s, OP1(&inner, "RandomUniformLike", x)));
    bool ok = CHECK_OK(pg_end(&inner, &body));
    v[0] = pg_input(&g, "s", GALE_F32, SHAPE(1), NULL), v[1] = pg_input(&g, "x", GALE_F32, SHAPE(STEPS, N), NULL);
    const gale_attr attrs[2] = {
        {.name = "body", .kind = GALE_ATTR_GRAPH, .graph = body}, GALE_INT("num_scan_inputs", 1)};
    if (ok && g.status == GALE_OK) g.status = gale_graph_op(g.graph, "Scan", v, 2, attrs, 2, out, 2);
    pg_output(&g, "y", OP1(&g, "Abs", out[1]));
    ok = CHECK_OK(pg_end(&g, &graph)) && ok && CHECK_OK(gale_program_create(graph, device, NULL, &p)) &&
         CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, SHAPE(1), (float[]){1}, &in[0])) &&
         CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, SHAPE(STEPS, N), data, &in[1]));
    gale_run_control control = {.outputs_on_host = true, .seed = 3};
    ok = ok && CHECK_OK(gale_program_run_with(p, in, &a, &control)) &&
         CHECK_OK(gale_program_run_with(p, in, &b, &control));
    for (int i = 0; ok && computes && i < STEPS; i++)
        for (int k = 0; k < i; k++)
            CHECK(memcmp((float *)gale_tensor_data(a) + i * N, (float *)gale_tensor_data(a) + k * N, N * 4));
    CHECK(!ok || !computes || same(a, b));
    gale_tensor_destroy(&a), gale_tensor_destroy(&b);
    destroy_all(in, 2);
    gale_program_destroy(&p);
    gale_graph_destroy(&graph), gale_graph_destroy(&body);
}

/* A Loop that the host runs, since its condition depends on data; each step, and each of two branches, draws. */
static gale_status open_loop(gale_model **out)
{
    maker m;
    make_begin(&m, 21);
    make_input(&m, "n", 7, ""), make_output(&m, "y", 1, "n,50"), make_output(&m, "z", 1, "50");
    make_initializer(&m, make_ints(&m, "shape", "1", (const int64_t[]){50}, 1));
    make_initializer(&m, make_floats(&m, "zero", "", (const float[]){0}, 1));
    make_node(&m, "ConstantOfShape", "shape", "start");
    gale__pb_graph *outer = make_enter(&m, make_node(&m, "Loop", "n,,zero", "last,y"), "body");
    make_input(&m, "i", 7, ""), make_input(&m, "c", 9, ""), make_input(&m, "s", 1, "");
    make_output(&m, "c1", 9, ""), make_output(&m, "s1", 1, ""), make_output(&m, "r", 1, "50");
    make_node(&m, "RandomUniformLike", "start", "r");
    make_attr_i(&m, make_node(&m, "ReduceMax", "r", "top"), "keepdims", 0);
    make_node(&m, "Add", "s,top", "s1");
    make_node(&m, "GreaterOrEqual", "s1,zero", "c1");
    make_leave(&m, outer);
    make_node(&m, "RandomUniformLike", "start", "z");
    gale_status status = open_made(&m, device, out);
    make_end(&m);
    return status;
}

static void steps_of_a_model_differ(void)
{
    gale_model *m = NULL;
    gale_object *n = NULL, *a[2] = {0}, *b[2] = {0};
    gale_tensor *five = NULL;
    gale_run_control control = {.outputs_on_host = true, .seed = 11};
    if (!computes) return;
    bool ok = CHECK_OK(open_loop(&m)) &&
              CHECK_OK(gale_tensor_from_cpu(NULL, GALE_I64, SCALAR, (int64_t[]){5}, &five)) &&
              CHECK_OK(gale_object_tensor(five, &n)) && CHECK_OK(gale_model_run_with(m, &n, a, &control)) &&
              CHECK_OK(gale_model_run_with(m, &n, b, &control));
    for (int i = 0; ok && i < 2; i++) CHECK(same(gale_object_get_tensor(a[i]), gale_object_get_tensor(b[i])));
    const float *y = ok ? gale_tensor_data(gale_object_get_tensor(a[0])) : NULL,
                *z = ok ? gale_tensor_data(gale_object_get_tensor(a[1])) : NULL;
    for (int i = 0; ok && i < 5; i++) {
        CHECK(memcmp(y + i * 50, z, 50 * sizeof *y));
        for (int k = 0; k < i; k++) CHECK(memcmp(y + i * 50, y + k * 50, 50 * sizeof *y));
    }
    for (int i = 0; i < 2; i++) gale_object_destroy(&b[i]);
    if (ok && CHECK_OK(gale_model_run(m, &n, b, GALE_RUN_ON_HOST)))
        for (int i = 0; i < 2; i++) CHECK(!same(gale_object_get_tensor(a[i]), gale_object_get_tensor(b[i])));
    for (int i = 0; i < 2; i++) gale_object_destroy(&a[i]), gale_object_destroy(&b[i]);
    gale_object_destroy(&n);
    gale_tensor_destroy(&five);
    gale_model_close(&m);
}

static const suite_case cases[] = {{"seeds_repeat_and_runs_differ", seeds_repeat_and_runs_differ},
    {"submitted_runs", submitted_runs}, {"gradients_have_the_same_mask", gradients_have_the_same_mask},
    {"steps_of_a_loop_differ", steps_of_a_loop_differ}, {"steps_of_a_model_differ", steps_of_a_model_differ}, {0}};
SUITE(cases)
