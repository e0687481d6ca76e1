/* The n-th allocation fails, alone or with all after it, on the host or on the device, for every n of a run that has
 * something of everything: the status says so, nothing crashes, nothing is left behind, and a run that could do without
 * that memory gives the right result. */
#include "test.h"
#include "device/null/null.h"
#include "device/registry.h"
#include "graph/grad/grad.h"
#include "graph/run/run.h"
#include "ops/cases/cases.h"
#include "program_graphs.h"

enum { BATCH = 3, RESULTS = 1 + BATCH * 5 + 54 + BATCH * 72 };

/* Every n; a spread of them in the default run, where sanitized code would take minutes over each eleventh. */
static int stride(void)
{
#ifdef __SANITIZE_ADDRESS__
    return test_brief() ? 43 : 1;
#else
    return test_brief() ? 11 : 1;
#endif
}

typedef gale_status whole_fn(const gale__backend *backend, float *results);

/* From the device to the report: the network on host tensors, then on the device's. */
static gale_status run_twice(
    gale_device *device, gale_program *program, gale_tensor **in, gale_tensor **out, float *results)
{
    gale_status status;
    char *text = NULL;
    GALE_TRY(gale_program_run(program, in, out, GALE_RUN_ON_HOST));
    for (int i = 0; i < 4; i++) {
        GALE_TRY(gale_tensor_to_cpu(out[i], results, gale_tensor_size_bytes(out[i])));
        results += gale_tensor_size_bytes(out[i]) / sizeof *results;
        gale_tensor_destroy(&out[i]);
    }
    if (device->backend == &gale__backend_cpu) { /* null keeps no values, so shapes cannot lie there */
        for (int i = 0; i < 4; i++) gale_tensor_destroy(&in[i]);
        GALE_TRY(pg_network_inputs(device, BATCH - 1, in));
        GALE_TRY(gale_program_run(program, in, out, 0));
    }
    for (int json = 0; json < 2; json++) {
        GALE_GO(gale_program_report(program, json ? GALE_REPORT_JSON : 0, &text));
        gale_free(text);
        text = NULL;
    }
done:
    return status;
}

static gale_status network(const gale__backend *backend, float *results)
{
    gale_device *device = NULL;
    gale_graph *graph = NULL;
    gale_program *program = NULL;
    gale_tensor *in[4] = {0}, *out[4] = {0};
    gale_status status;
    GALE_GO(gale__device_open_one(backend, 0, NULL, &device));
    GALE_GO(pg_network(true, &graph));
    GALE_GO(gale_program_create(graph, device, NULL, &program));
    GALE_GO(pg_network_inputs(NULL, BATCH, in));
    GALE_GO(run_twice(device, program, in, out, results));
done:
    for (int i = 0; i < 4; i++) gale_tensor_destroy(&in[i]), gale_tensor_destroy(&out[i]);
    gale_program_destroy(&program);
    gale_graph_destroy(&graph);
    gale_device_close(&device);
    return status;
}

/* A loop and its gradient, which only primitives can say: h' = tanh(x_t + h), squares stacked and summed; by x. */
static gale_status build_loop(gale__prim_graph *g, gale__node out[2])
{
    gale__prim_graph *body = gale__alloc(sizeof *body);
    if (!body) return GALE_NO_MEMORY;
    gale__prim_init(body);
    static const int64_t row[] = {4}, all[] = {5, 4};
    gale__node h = gale__prim_unary(body, GALE__TANH,
        gale__prim_add(body, gale__prim_input(body, 0, GALE_F32, 1, row), gale__prim_input(body, 1, GALE_F32, 1, row)));
    gale__node outs[2] = {h, gale__prim_mul(body, h, h)};
    gale__prim_loop_args loop = {.body = body, .trips = 5, .n_carried = 1, .n_sliced = 1, .n_stacked = 1, .out = outs};
    gale__node start = gale__prim_splat(g, GALE_F32, 1, row, 0.5), x = gale__prim_input(g, 0, GALE_F32, 2, all);
    gale__node n = gale__prim_loop(g, &loop, (gale__node[]){start, x});
    if (n < 0) {
        gale__prim_finish(body);
        gale__free(body);
        return g->status;
    }
    out[0] = gale__prim_reduce(g, GALE__SUM, gale__prim_loop_out(g, n, 1), 3, false);
    GALE_TRY(g->status);
    return gale__prim_gradient(g, out[0], &x, 1, &out[1]);
}

static gale_status run_loop(gale_device *device, gale__plan *plan, float *results)
{
    float x[20];
    gale_stream *stream = NULL;
    gale_buffer *constants = NULL, *bound[3] = {0}, *slabs[8] = {0};
    gale__ref refs[3];
    gale_status status;
    static const size_t sizes[] = {sizeof x, 4, sizeof x};
    pg_fill(x, 20, 8);
    GALE_GO(gale_stream_create(device, &stream));
    for (int i = 0; i < 3; i++) {
        GALE_GO(gale_buffer_create(device, sizes[i], &bound[i]));
        refs[i] = gale__buffer_ref(bound[i], 0);
    }
    for (int i = 0; i < plan->n_slabs && i < 8; i++) GALE_GO(gale_buffer_create(device, plan->slabs[i], &slabs[i]));
    if (plan->const_bytes) GALE_GO(gale_buffer_create(device, plan->const_bytes, &constants));
    for (int i = 0; i < plan->n_constants; i++)
        GALE_GO(gale_upload(
            stream, constants, plan->constants[i].offset, plan->constants[i].data, plan->constants[i].size));
    GALE_GO(gale_upload(stream, bound[0], 0, x, sizeof x));
    gale__run_memory memory = {constants, NULL, slabs, refs, 1};
    for (int once = 1; once >= 0; once--) GALE_GO(gale__plan_send(plan, stream, &memory, once));
    GALE_GO(gale_download(stream, bound[1], 0, results, 4));
    GALE_GO(gale_download(stream, bound[2], 0, results + 1, sizeof x));
    GALE_GO(gale_stream_sync(stream));
done:
    for (int i = 0; i < 3; i++) gale_buffer_destroy(&bound[i]);
    for (int i = 0; i < 8; i++) gale_buffer_destroy(&slabs[i]);
    gale_buffer_destroy(&constants);
    gale_stream_destroy(&stream);
    return status;
}

static gale_status loop(const gale__backend *backend, float *results)
{
    gale_device *device = NULL;
    gale__plan *plan = NULL;
    gale__node out[2];
    gale__prim_graph g;
    gale_status status;
    gale__prim_init(&g);
    GALE_GO(gale__device_open_one(backend, 0, NULL, &device));
    GALE_GO(build_loop(&g, out));
    GALE_GO(gale__plan_make(device, &g, out, 2, NULL, &plan));
    GALE_GO(run_loop(device, plan, results));
done:
    if (plan) gale__plan_destroy(&plan);
    gale__prim_finish(&g);
    gale_device_close(&device);
    return status;
}

/* Nothing is computed there: memory stays as it was. */
static bool stands_in(const gale__backend *backend)
{
    const gale__probe *probe;
    if (backend == &gale__backend_null) return true;
    return gale__backend_probe(backend, &probe) == GALE_OK && probe->count &&
           !strncmp(probe->devices[0].name, "Stand-in", 8);
}

/* Fails the n-th for every n until a run asks for less. */
static void fail_each(
    whole_fn *run, const gale__backend *backend, void (*fail_at)(uint64_t), uint64_t (*count)(void), int least)
{
    static float want[RESULTS], got[RESULTS];
    size_t size = stands_in(backend) ? 0 : sizeof want;
    memset(want, 0, sizeof want);
    if (!CHECK_OK(run(backend, want))) return; /* twice, so that what is kept for the process is there */
    if (!CHECK_OK(run(backend, want))) return;
    int64_t live = gale__alloc_live();
    int failed = 0, spared = 0, step = stride();
    for (uint64_t n = 1;; n += (uint64_t)step) {
        memcpy(got, want, sizeof got);
        gale__error_clear();
        fail_at(n);
        gale_status status = run(backend, got);
        bool over = count() < n;
        fail_at(0);
        bool good = over || status == GALE_NO_MEMORY ? over == (status == GALE_OK) && (over || *gale_error())
                                                     : status == GALE_OK;
        if (status == GALE_OK) good = good && !memcmp(got, want, size);
        failed += status == GALE_NO_MEMORY, spared += !over && status == GALE_OK;
        if (!test_check(good, __FILE__, __LINE__, "the n-th allocation fails"))
            printf("  n = %d: %s: %s\n", (int)n, gale_status_text(status), gale_error());
        if (!CHECK_EQ(gale__alloc_live(), live)) printf("  n = %d\n", (int)n), live = gale__alloc_live();
        if (over || test_bad > 20) break;
    }
    printf("%s: %d failed the run, %d did not\n", test_at, failed, spared);
    CHECK_OK(run(backend, got));
    CHECK(!memcmp(got, want, size));
    if (!CHECK(failed >= least / step)) printf("  only %d allocations failed the run\n", failed);
    CHECK(spared <=
          2 * failed); /* what one can do without, and a second run that made room by letting the first one's plan go */
}

#define BOTH(where, run, backend, least_host, least_device)                                                    \
    TEST(host_##where) { fail_each(run, backend, gale__alloc_fail_at, gale__alloc_count, least_host); }        \
    TEST(host_from_##where) { fail_each(run, backend, gale__alloc_fail_from, gale__alloc_count, least_host); } \
    TEST(device_##where)                                                                                       \
    {                                                                                                          \
        fail_each(run, backend, gale__device_alloc_fail_at, gale__device_alloc_count, least_device);           \
    }                                                                                                          \
    TEST(device_from_##where)                                                                                  \
    {                                                                                                          \
        fail_each(run, backend, gale__device_alloc_fail_from, gale__device_alloc_count, least_device);         \
    }
BOTH(network_on_cpu, network, &gale__backend_cpu, 300, 5)
BOTH(network_on_null, network, &gale__backend_null, 300, 2)
BOTH(loop_on_cpu, loop, &gale__backend_cpu, 50, 3)
BOTH(loop_on_null, loop, &gale__backend_null, 50, 3)

/* x + softmax(C C) C: what hangs on the constant is a prologue of several kernels with work memory between them. */
static gale_status prologue(const gale__backend *backend, float *results)
{
    enum { SIDE = 72 }; /* too many to be folded on the host */
    static float c[SIDE * SIDE];
    gale_device *device = NULL;
    gale_graph *graph = NULL;
    gale_program *program = NULL;
    gale_tensor *in = NULL, *out = NULL;
    gale_status status;
    pg_fill(c, SIDE * SIDE, 3);
    pg g = pg_begin();
    gale_value k = pg_constant(&g, GALE_F32, SHAPE(SIDE, SIDE), c),
               x = pg_input(&g, "x", GALE_F32, SHAPE(SIDE, SIDE), NULL);
    pg_output(&g, "y", OP2(&g, "Add", x, OP2(&g, "MatMul", OP1(&g, "Softmax", OP2(&g, "MatMul", k, k)), k)));
    GALE_GO(pg_end(&g, &graph));
    GALE_GO(gale__device_open_one(backend, 0, NULL, &device));
    GALE_GO(gale_program_create(graph, device, NULL, &program));
    GALE_GO(gale_tensor_from_cpu(NULL, GALE_F32, SHAPE(SIDE, SIDE), c, &in));
    GALE_GO(gale_program_run(program, &in, &out, GALE_RUN_ON_HOST));
    results[0] = *(float *)gale_tensor_data(out);
done:
    gale_tensor_destroy(&in), gale_tensor_destroy(&out);
    gale_program_destroy(&program);
    gale_graph_destroy(&graph);
    gale_device_close(&device);
    return status;
}

/* A launch that fails leaves others on their way: memory goes back when they have ended, not before. */
static void fail_launches(whole_fn *run, int least)
{
    static float results[RESULTS];
    gale__null_counts c;
    gale__null_reset_counts();
    for (int n = 1;; n++) {
        gale__null_fail_launch((uint64_t)n);
        gale_status status = run(&gale__backend_null, results);
        gale__null_fail_launch(0);
        gale__null_get_counts(&c);
        if (!CHECK_EQ(c.freed_in_use, 0)) printf("  the launch that failed was number %d\n", n);
        if (status == GALE_OK) {
            if (!CHECK(n > least)) printf("  only %d launches\n", n - 1);
            break;
        }
        if (!CHECK_FAILS(status, DEVICE_LOST) || test_bad > 5) break;
    }
}

TEST(memory_outlives_what_was_sent)
{
    setenv("GALE_POOL", "0", 1); /* what goes back to the pool goes back to the driver, which sees it */
    fail_launches(network, 10);
    fail_launches(prologue, 3);
    unsetenv("GALE_POOL");
}

/* Every row of the cases is lowered, and differentiated where its first input and output are real, and planned. */
static gale_status plan_case(gale_device *device, gale__case_run *run)
{
    gale__prim_graph g;
    gale__node out[GALE__CASE_VALUES];
    gale__plan *plan = NULL;
    gale_status status;
    gale__prim_init(&g);
    GALE_GO(gale__case_lower(run, &g, out));
    int n = run->n_out;
    if (g.count && g.nodes[0].op == GALE__PRIM_INPUT && g.nodes[0].type == GALE_F32 &&
        g.nodes[out[0]].type == GALE_F32 && n < GALE__CASE_VALUES) {
        gale__node loss = gale__prim_reduce(&g, GALE__SUM, out[0], (1u << g.nodes[out[0]].rank) - 1, false), x = 0;
        GALE_GO(g.status);
        GALE_GO(gale__prim_gradient(&g, loss, &x, 1, &out[n]));
        n++;
    }
    status = gale__plan_make(device, &g, out, n, NULL, &plan);
done:
    if (plan) gale__plan_destroy(&plan);
    gale__prim_finish(&g);
    return status;
}

static void fail_case(gale_device *device, const gale__case *c)
{
    gale__case_run run;
    if (!CHECK_OK(gale__case_open(c, 0, &run))) return;
    bool done = CHECK_OK(plan_case(device, &run)) &&
                CHECK_OK(plan_case(device, &run)); /* what stays with the process or the device is made */
    int64_t live = gale__alloc_live();
    for (uint64_t n = 1; done; n += (uint64_t)stride()) {
        gale__alloc_fail_at(n);
        gale_status status = plan_case(device, &run);
        bool over = gale__alloc_count() < n;
        gale__alloc_fail_at(0);
        if (!CHECK(status == GALE_OK || (status == GALE_NO_MEMORY && !over)) || !CHECK_EQ(gale__alloc_live(), live)) {
            printf("  n = %d of %s: %s: %s\n", (int)n, run.name, gale_status_text(status), gale_error());
            break;
        }
        if (over) break;
    }
    gale__case_close(&run);
}

TEST(every_case)
{
    gale_device *device = NULL;
    if (!CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &device))) return;
    for (int i = 0; i < gale__cases_count; i++) fail_case(device, &gale__cases[i]);
    gale_device_close(&device);
}

/* Compiles where kernels lie in the cache already, so that the compiler's library, which the process keeps, is there
 * before anything fails. */
static void load_compiler(const gale__backend *backend)
{
    static float unused[RESULTS];
    const char *cache = getenv("GALE_CACHE");
    char *kept = cache ? strdup(cache) : NULL;
    setenv("GALE_CACHE", "/dev/null/none", 1);
    CHECK_OK(network(backend, unused));
    if (kept) setenv("GALE_CACHE", kept, 1);
    else unsetenv("GALE_CACHE");
    free(kept);
}

/* The same where drivers are: every allocation on a device, since those on the host would take hours; on stand-ins for
 * drivers these too. */
static void on(const char *name)
{
    int n;
    const gale__backend *const *all = gale__backends(&n);
    const gale__probe *probe;
    for (int i = 0; i < n; i++) {
        if (strcmp(all[i]->name, name)) continue;
        if (!CHECK_OK(gale__backend_probe(all[i], &probe))) return;
        if (!probe->count) SKIP("%s", probe->reason);
        fail_each(loop, all[i], gale__device_alloc_fail_at, gale__device_alloc_count, 3);
        if (!stands_in(all[i])) return;
        load_compiler(all[i]);
        fail_each(network, all[i], gale__device_alloc_fail_at, gale__device_alloc_count, 5);
        fail_each(network, all[i], gale__alloc_fail_at, gale__alloc_count, 300);
        fail_each(network, all[i], gale__alloc_fail_from, gale__alloc_count, 300);
        return;
    }
    SKIP("built without %s", name);
}
TEST(driver_cuda) { on("cuda"); }
TEST(driver_hip) { on("hip"); }
TEST(driver_opencl) { on("opencl"); }
TEST(driver_vulkan) { on("vulkan"); }

#define ROWS(where) ROW(host_##where), ROW(host_from_##where), ROW(device_##where), ROW(device_from_##where)
TESTS(ROW(every_case), ROW(memory_outlives_what_was_sent), ROWS(network_on_cpu), ROWS(network_on_null),
    ROWS(loop_on_cpu), ROWS(loop_on_null), ROW(driver_cuda), ROW(driver_hip), ROW(driver_opencl), ROW(driver_vulkan))
