/* Programs through the public API, on every backend: what they take, what they refuse and how they say it, and that a
 * steady run costs nothing it need not. */
#include "device_suite.h"
#include "base/json.h"
#include "gale/profile.h"
#include "graph/run/program.h"
#include "kernel/cpu/contract.h"
#include "program_graphs.h"
#include <stdatomic.h>

/* ---- short hands ---- */

static gale_program *compile(gale_status made, gale_graph **graph)
{
    gale_program *p = NULL;
    if (CHECK_OK(made)) CHECK_OK(gale_program_create(*graph, device, NULL, &p));
    gale_graph_destroy(graph); /* the program holds it */
    return p;
}

static gale_tensor *tensor_of(gale_device *d, gale_type type, int rank, const int64_t *dims, const void *data)
{
    gale_tensor *t = NULL;
    CHECK_OK(gale_tensor_from_cpu(d, type, rank, dims, data, &t));
    return t;
}
#define FLOATS(d, ...) \
    tensor_of(d, GALE_F32, SHAPE(sizeof(float[]){__VA_ARGS__} / sizeof(float)), (const float[]){__VA_ARGS__})
#define INTS(d, ...) \
    tensor_of(d, GALE_I64, SHAPE(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

static bool same_floats(const gale_tensor *t, const float *want, size_t n, const char *file, int line)
{
    static _Thread_local float got[6000];
    if (!test_check(t && gale_tensor_size_bytes(t) == n * sizeof *want && n <= 6000, file, line, "the size"))
        return false;
    if (!test_check_ok(gale_tensor_to_cpu(t, got, sizeof got), file, line, "to_cpu")) return false;
    for (size_t i = 0; i < n && computes; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i])))) {
            char text[96];
            snprintf(text, sizeof text, "element %zu is %g, not %g", i, (double)got[i], (double)want[i]);
            return test_check(false, file, line, text);
        }
    return true;
}
#define CHECK_FLOATS(t, n, want) same_floats(t, want, n, __FILE__, __LINE__)
#define CHECK_VALUES(t, ...) \
    same_floats(t, (const float[]){__VA_ARGS__}, sizeof(float[]){__VA_ARGS__} / sizeof(float), __FILE__, __LINE__)

static bool says(const char *words, const char *file, int line)
{
    char text[600];
    snprintf(text, sizeof text, "\"%s\" is not in \"%.400s\"", words, gale_error());
    return test_check(strstr(gale_error(), words) != NULL, file, line, text);
}
#define CHECK_SAYS(words) says(words, __FILE__, __LINE__)

static bool same_dims(const gale_tensor *t, int rank, const int64_t *dims)
{
    return t && gale_tensor_rank(t) == rank &&
           (!rank || !memcmp(gale_tensor_dims(t), dims, (size_t)rank * sizeof *dims));
}

/* z[N, M] = x + y */
static gale_status sum_graph(gale_graph **out)
{
    static const char *const symbols[] = {"N", "M"};
    pg g = pg_begin();
    gale_value x = pg_input(&g, "x", GALE_F32, SHAPE(-1, -1), symbols),
               y = pg_input(&g, "y", GALE_F32, SHAPE(-1, -1), symbols);
    pg_output(&g, "z", OP2(&g, "Add", x, y));
    return pg_end(&g, out);
}

/* ---- shapes ---- */

static void symbols(void)
{
    gale_graph *graph = NULL;
    gale_program *p = compile(sum_graph(&graph), &graph);
    float a[12], want[12];
    pg_fill(a, 12, 1);
    for (int i = 0; i < 12; i++) want[i] = 2 * a[i];
    static const int64_t shapes[][2] = {{3, 4}, {4, 3}, {1, 12}, {12, 1}, {3, 4}};
    for (int i = 0; p && i < 5; i++) {
        gale_tensor *x = tensor_of(device, GALE_F32, 2, shapes[i], a), *y = tensor_of(NULL, GALE_F32, 2, shapes[i], a),
                    *z = NULL;
        if (CHECK_OK(gale_program_run(p, (gale_tensor *[]){x, y}, &z, 0))) {
            CHECK(same_dims(z, 2, shapes[i]));
            CHECK_FLOATS(z, 12, want);
        }
        gale_tensor_destroy(&x), gale_tensor_destroy(&y), gale_tensor_destroy(&z);
    }
    gale_tensor *x = tensor_of(NULL, GALE_F32, SHAPE(3, 4), a), *y = tensor_of(NULL, GALE_F32, SHAPE(3, 2), a),
                *z = NULL;
    CHECK_FAILS(gale_program_run(p, (gale_tensor *[]){x, y}, &z, 0), INVALID);
    CHECK_SAYS("M is 4 in input x and 2 in input y");
    CHECK(z == NULL);
    gale_tensor_destroy(&x), gale_tensor_destroy(&y);
    gale_program_destroy(&p);
}

static void one_symbol_twice_in_an_input(void)
{
    static const char *const square[] = {"N", "N"};
    float a[6] = {1, 2, 3, 4, 5, 6};
    gale_graph *graph = NULL;
    pg g = pg_begin();
    pg_output(&g, "z", OP1(&g, "Neg", pg_input(&g, "x", GALE_F32, SHAPE(-1, -1), square)));
    gale_program *p = compile(pg_end(&g, &graph), &graph);
    gale_tensor *x = tensor_of(NULL, GALE_F32, SHAPE(2, 2), a), *wide = tensor_of(NULL, GALE_F32, SHAPE(2, 3), a),
                *z = NULL;
    if (CHECK_OK(gale_program_run(p, &x, &z, GALE_RUN_ON_HOST))) CHECK_VALUES(z, -1, -2, -3, -4);
    gale_tensor_destroy(&z);
    CHECK_FAILS(gale_program_run(p, &wide, &z, GALE_RUN_ON_HOST), INVALID);
    CHECK_SAYS("N is 2 in input x and 3 in input x");
    gale_tensor_destroy(&x), gale_tensor_destroy(&wide);
    gale_program_destroy(&p);
}

/* Two inputs of any rank: (2, 3) beside () and (2) beside (3) are not the same shapes. */
static void any_rank(void)
{
    float a[6] = {1, 2, 3, 4, 5, 6};
    gale_graph *graph = NULL;
    pg g = pg_begin();
    gale_value x = pg_input(&g, "x", GALE_F32, -1, NULL, NULL), y = pg_input(&g, "y", GALE_F32, -1, NULL, NULL);
    gale_value minus = OP1(&g, "Neg", x), sum = OP1(&g, "ReduceSum", y);
    pg_output(&g, "z", OP2(&g, "Add", minus, sum));
    gale_program *p = compile(pg_end(&g, &graph), &graph);
    static const struct {
        int x, y;
        int64_t dims[3];
    } ranks[] = {{2, 0, {2, 3, 0}}, {1, 1, {2, 3, 0}}, {1, 2, {2, 1, 3}}, {0, 3, {1, 2, 3}}, {1, 1, {2, 3, 0}}};
    for (int i = 0; p && i < 5; i++) {
        gale_tensor *z = NULL, *in[2] = {tensor_of(NULL, GALE_F32, ranks[i].x, ranks[i].dims, a),
                                   tensor_of(NULL, GALE_F32, ranks[i].y, ranks[i].dims + ranks[i].x, a)};
        if (CHECK_OK(gale_program_run(p, in, &z, GALE_RUN_ON_HOST))) {
            float first = 0, want = 0;
            for (int64_t k = 0; k < (int64_t)(in[1]->size_bytes / sizeof *a); k++) want += a[k];
            memcpy(&first, gale_tensor_data(z), sizeof first);
            CHECK(!computes || first == want - 1);
            CHECK_EQ(z->rank >= ranks[i].x, 1);
        }
        gale_tensor_destroy(&in[0]), gale_tensor_destroy(&in[1]), gale_tensor_destroy(&z);
    }
    CHECK_EQ(p ? p->n_instances : 0, 4);
    gale_program_destroy(&p);
}

static uint64_t in_use(void)
{
    gale_memory_stats stats;
    gale_memory_get_stats(device, &stats);
    return stats.in_use_bytes;
}

/* What one run leaves behind on the device. */
static uint64_t left_by_run(gale_program *p, int64_t rows)
{
    uint64_t before = in_use();
    float *zeros = calloc((size_t)rows * 512, sizeof *zeros);
    gale_tensor *x = tensor_of(NULL, GALE_F32, 2, (int64_t[]){rows, 512}, zeros), *y = NULL;
    CHECK_OK(gale_program_run(p, &x, &y, GALE_RUN_ON_HOST));
    gale_tensor_destroy(&x), gale_tensor_destroy(&y);
    free(zeros);
    return in_use() - before;
}

/* 1 MB of weights: one copy for all signatures and both programs, on the CPU as panels; none where the device reads
 * them as they lie.  With AMX, those of many rows have panels of another form, half as large again. */
static void weights_are_shared(void)
{
    enum { WEIGHT = 512 * 512 * sizeof(float) };
    gale_program *p[2] = {NULL, NULL};
    gale_tensor *w = NULL;
    uint64_t start = in_use();
    if (!CHECK_OK(gale_tensor_create(NULL, GALE_F32, SHAPE(512, 512), &w))) return;
    for (int i = 0; i < 512 * 512; i++) ((float *)gale_tensor_data(w))[i] = (float)(i % 7);
    for (int i = 0; i < 2; i++) {
        gale_graph *graph = NULL;
        gale_value v = GALE_NONE;
        pg g = pg_begin();
        gale_value x = pg_input(&g, "x", GALE_F32, SHAPE(-1, 512), NULL);
        if (g.status == GALE_OK) g.status = gale_graph_constant_tensor(g.graph, w, &v);
        pg_output(&g, "y", OP2(&g, "MatMul", i ? OP1(&g, "Neg", x) : x, v));
        p[i] = compile(pg_end(&g, &graph), &graph);
    }
    gale_tensor_destroy(&w);
    if (!p[0] || !p[1]) return;
    uint64_t first = left_by_run(p[0], 2);
    if (device->info.caps.in_place && strcmp(device->backend->name, "cpu")) CHECK(first < WEIGHT);
    else CHECK(first >= WEIGHT && first < 3 * WEIGHT);
    CHECK(left_by_run(p[0], 1) < WEIGHT);
    CHECK(left_by_run(p[1], 3) < WEIGHT);
    CHECK(left_by_run(p[1], 4) < WEIGHT);
    CHECK(left_by_run(p[1], 20) < WEIGHT);
    bool tiles = !strcmp(device->backend->name, "cpu") && gale__cpu_shares_wanted(true);
    CHECK(left_by_run(p[0], 130) < (tiles ? 2 : 1) * (uint64_t)WEIGHT);
    CHECK(left_by_run(p[1], 140) < WEIGHT);
    gale_program_destroy(&p[0]);
    left_by_run(p[1], 5);
    gale_program_destroy(&p[1]);
    CHECK_EQ(in_use(), start);
}

/* Rows taken from a large table by constant places: the prologue does it, and runs need only the rows. */
static void weights_of_the_prologue_go(void)
{
    enum { ROWS = 4096, TAKEN = 5000 };
    int64_t *places = calloc(TAKEN, sizeof *places);
    gale_tensor *table = NULL;
    gale_graph *graph = NULL;
    gale_value t = GALE_NONE;
    if (!CHECK_OK(gale_tensor_create(NULL, GALE_F32, SHAPE(ROWS, 64), &table))) return;
    for (int i = 0; i < ROWS * 64; i++) ((float *)gale_tensor_data(table))[i] = (float)i;
    for (int i = 0; i < TAKEN; i++) places[i] = i % 7;
    pg g = pg_begin();
    gale_value x = pg_input(&g, "x", GALE_F32, SHAPE(64), NULL), rows;
    if (g.status == GALE_OK) g.status = gale_graph_constant_tensor(g.graph, table, &t);
    rows = OP2(&g, "Gather", t, pg_constant(&g, GALE_I64, SHAPE(TAKEN), places));
    pg_output(&g, "z", OP2(&g, "Add", x, rows));
    gale_program *p = compile(pg_end(&g, &graph), &graph);
    float zeros[64] = {0};
    gale_tensor *in = tensor_of(NULL, GALE_F32, SHAPE(64), zeros), *z = NULL;
    if (p && CHECK_OK(gale_program_run(p, &in, &z, GALE_RUN_ON_HOST))) {
        CHECK(!computes || ((const float *)gale_tensor_data(z))[64 * 8 + 3] == 67);
        CHECK_EQ(p->instances->plan->n_weights, 2); /* the places too */
        for (int i = 0; i < p->instances->plan->n_weights; i++) CHECK(p->instances->weights[i] == NULL);
        gale_tensor_destroy(&z);
        CHECK_OK(gale_program_run(p, &in, &z, GALE_RUN_ON_HOST));
        CHECK(!computes || ((const float *)gale_tensor_data(z))[64 * 13 + 3] == 6 * 64 + 3);
    }
    gale_tensor_destroy(&in), gale_tensor_destroy(&z), gale_tensor_destroy(&table);
    gale_program_destroy(&p);
    free(places);
}

static void wrong_inputs(void)
{
    gale_graph *graph = NULL;
    pg g = pg_begin();
    gale_value x = pg_input(&g, "picture", GALE_F32, SHAPE(2, -1), NULL);
    pg_output(&g, "z", OP1(&g, "Relu", x));
    gale_program *p = compile(pg_end(&g, &graph), &graph);
    gale_device *other = NULL;
    float a[6] = {0};
    if (!p || !CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &other))) return;
    CHECK_EQ(gale_program_inputs(p), 1);
    CHECK_EQ(gale_program_outputs(p), 1);
    gale_tensor *none = NULL, *z = NULL, *type = tensor_of(NULL, GALE_I32, SHAPE(2, 3), a),
                *rank = tensor_of(NULL, GALE_F32, SHAPE(6), a);
    gale_tensor *extent = tensor_of(NULL, GALE_F32, SHAPE(3, 2), a), *away = tensor_of(other, GALE_F32, SHAPE(2, 3), a),
                *good = tensor_of(NULL, GALE_F32, SHAPE(2, 3), a);
    CHECK_FAILS(gale_program_run(p, &none, &z, GALE_RUN_ON_HOST), INVALID);
    CHECK_SAYS("missing input picture");
    CHECK_FAILS(gale_program_run(p, &type, &z, GALE_RUN_ON_HOST), INVALID);
    CHECK_SAYS("input picture has type i32 instead of f32");
    CHECK_FAILS(gale_program_run(p, &rank, &z, GALE_RUN_ON_HOST), INVALID);
    CHECK_SAYS("input picture has rank 1 instead of 2");
    CHECK_FAILS(gale_program_run(p, &extent, &z, GALE_RUN_ON_HOST), INVALID);
    CHECK_SAYS("input picture has extent 3 along axis 0 instead of 2");
    CHECK_FAILS(gale_program_run(p, &away, &z, GALE_RUN_ON_HOST), INVALID);
    CHECK_SAYS("input picture is on a different device");
    gale_tensor *wrong = tensor_of(NULL, GALE_F32, SHAPE(3, 2), a);
    CHECK_FAILS(gale_program_run(p, &good, &wrong, GALE_RUN_ON_HOST), INVALID);
    CHECK_SAYS("output z does not match");
    CHECK(z == NULL);
    CHECK_OK(gale_program_run(p, &good, &z, GALE_RUN_ON_HOST)); /* and nothing is broken */
    gale_tensor_destroy(&type), gale_tensor_destroy(&rank), gale_tensor_destroy(&extent), gale_tensor_destroy(&away);
    gale_tensor_destroy(&good), gale_tensor_destroy(&wrong), gale_tensor_destroy(&z);
    gale_device_close(&other);
    gale_program_destroy(&p);
}

static void zero_extents_and_rank_0(void)
{
    static const char *const any[] = {"N", NULL};
    gale_graph *graph = NULL;
    pg g = pg_begin();
    gale_value x = pg_input(&g, "x", GALE_F32, SHAPE(-1, 3), any), s = pg_input(&g, "s", GALE_F32, SCALAR, NULL);
    gale_value scaled = OP2(&g, "Mul", x, s);
    pg_output(&g, "scaled", scaled);
    pg_output(
        &g, "sums", OP1_WITH(&g, "ReduceSum", scaled, GALE_INTS("axes", ((int64_t[]){0}), 1), GALE_INT("keepdims", 0)));
    pg_output(&g, "all", OP1_WITH(&g, "ReduceSum", scaled, GALE_INT("keepdims", 0)));
    gale_program *p = compile(pg_end(&g, &graph), &graph);
    float a[6] = {1, 2, 3, 4, 5, 6}, two = 2;
    for (int on_device = 0; p && on_device < 2; on_device++) {
        gale_device *where = on_device ? device : NULL;
        gale_tensor *in[2] = {tensor_of(where, GALE_F32, SHAPE(0, 3), a), tensor_of(where, GALE_F32, SCALAR, &two)},
                    *out[3] = {0};
        if (CHECK_OK(gale_program_run(p, in, out, on_device ? 0 : GALE_RUN_ON_HOST))) {
            CHECK(same_dims(out[0], SHAPE(0, 3)) && gale_tensor_size_bytes(out[0]) == 0);
            CHECK_VALUES(out[1], 0, 0, 0);
            CHECK(same_dims(out[2], SCALAR));
            CHECK_VALUES(out[2], 0);
        }
        for (int i = 0; i < 3; i++) gale_tensor_destroy(&out[i]);
        gale_tensor_destroy(&in[0]);
        in[0] = tensor_of(where, GALE_F32, SHAPE(2, 3), a);
        if (CHECK_OK(gale_program_run(p, in, out, on_device ? 0 : GALE_RUN_ON_HOST))) {
            CHECK_VALUES(out[0], 2, 4, 6, 8, 10, 12);
            CHECK_VALUES(out[1], 10, 14, 18);
            CHECK_VALUES(out[2], 42);
        }
        for (int i = 0; i < 3; i++) gale_tensor_destroy(&out[i]);
        gale_tensor_destroy(&in[0]), gale_tensor_destroy(&in[1]);
    }
    gale_program_destroy(&p);
}

/* ---- signatures ---- */

static gale_status reshape_graph(gale_graph **out)
{
    static const char *const any[] = {"N"}, *const rank[] = {"R"};
    pg g = pg_begin();
    gale_value x = pg_input(&g, "x", GALE_F32, SHAPE(-1), any),
               shape = pg_input(&g, "shape", GALE_I64, SHAPE(-1), rank);
    pg_output(&g, "z", OP1(&g, "Transpose", OP2(&g, "Reshape", OP2(&g, "Add", x, x), shape)));
    return pg_end(&g, out);
}

static void values_that_decide_shapes(void)
{
    gale_graph *graph = NULL;
    gale_program *p = compile(reshape_graph(&graph), &graph);
    for (int on_device = 0; p && on_device < 1 + holds_data; on_device++) {
        gale_device *where = on_device ? device : NULL;
        gale_tensor *x = FLOATS(where, 1, 2, 3, 4, 5, 6), *tall = INTS(where, 3, -1), *wide = INTS(where, 2, 3),
                    *bad = INTS(where, 4, 2), *z = NULL;
        for (int repeat = 0; repeat < 2; repeat++) {
            if (CHECK_OK(gale_program_run(p, (gale_tensor *[]){x, tall}, &z, GALE_RUN_ON_HOST)) &&
                CHECK(same_dims(z, SHAPE(2, 3))))
                CHECK_VALUES(z, 2, 6, 10, 4, 8, 12);
            gale_tensor_destroy(&z);
            if (CHECK_OK(gale_program_run(p, (gale_tensor *[]){x, wide}, &z, GALE_RUN_ON_HOST)) &&
                CHECK(same_dims(z, SHAPE(3, 2))))
                CHECK_VALUES(z, 2, 8, 4, 10, 6, 12);
            gale_tensor_destroy(&z);
        }
        CHECK_FAILS(gale_program_run(p, (gale_tensor *[]){x, bad}, &z, GALE_RUN_ON_HOST), INVALID);
        CHECK_SAYS("Reshape");
        gale_tensor_destroy(&x), gale_tensor_destroy(&tall), gale_tensor_destroy(&wide), gale_tensor_destroy(&bad);
    }
    if (p && holds_data) CHECK_EQ(p->n_instances, 2);
    gale_program_destroy(&p);
}

static void many_signatures(void)
{
    enum { MANY = 40 };
    gale_graph *graph = NULL;
    gale_program *p = compile(pg_layer(&graph), &graph);
    float x[(MANY + 1) * PG_IN], want[(MANY + 1) * PG_OUT];
    gale_memory_stats stats;
    uint64_t reserved = 0;
    pg_fill(x, (MANY + 1) * PG_IN, 9);
    pg_layer_want(x, MANY + 1, want);
    for (int round = 0; p && round < 2; round++)
        for (int n = 1; n <= MANY; n++) {
            gale_tensor *in = tensor_of(NULL, GALE_F32, SHAPE(n, PG_IN), x), *out = NULL;
            if (CHECK_OK(gale_program_run(p, &in, &out, GALE_RUN_ON_HOST))) CHECK_FLOATS(out, (size_t)n * PG_OUT, want);
            gale_tensor_destroy(&in), gale_tensor_destroy(&out);
            CHECK_EQ(p->n_instances, round ? MANY : n);
            gale_memory_get_stats(device, &stats);
            if (round == 0 && n == MANY) reserved = stats.reserved_bytes;
        }
    CHECK_EQ(stats.reserved_bytes, reserved); /* what leaves gives its memory back */
    gale_program_destroy(&p);
    gale_memory_get_stats(device, &stats);
    CHECK_EQ(stats.buffers, 0);
}

/* ---- outputs ---- */

static void outputs_of_every_kind(void)
{
    gale_graph *graph = NULL;
    float c[6] = {10, 20, 30, 40, 50, 60};
    static float many[5000];
    pg g = pg_begin();
    gale_value x = pg_input(&g, "x", GALE_F32, SHAPE(2, 3), NULL), k = pg_constant(&g, GALE_F32, SHAPE(2, 3), c);
    gale_value sum = OP2(&g, "Add", x, k);
    pg_output(&g, "input", x);
    pg_output(&g, "constant", k);
    pg_output(&g, "sum", sum);
    pg_output(&g, "sum again", sum);
    pg_output(&g, "input turned", OP1(&g, "Transpose", x));
    pg_output(&g, "input flat", OP1_WITH(&g, "Flatten", x, GALE_INT("axis", 0)));
    pg_output(&g, "from constants", OP2(&g, "Mul", k, k));
    pg_output(&g, "input again", OP1(&g, "Identity", x));
    pg_output(&g, "all the same", pg_constant(&g, GALE_F32, SHAPE(2, 3), (float[6]){7, 7, 7, 7, 7, 7}));
    pg_output(&g, "one", pg_constant(&g, GALE_F32, SCALAR, &c[1]));
    for (int i = 0; i < 5000; i++) many[i] = (float)(i % 100);
    pg_output(&g, "many from constants", OP1(&g, "Neg", pg_constant(&g, GALE_F32, SHAPE(5000), many)));
    for (int i = 0; i < 5000; i++) many[i] = -many[i];
    gale_program *p = compile(pg_end(&g, &graph), &graph);
    gale_tensor *out[11] = {0};
    float a[6] = {1, 2, 3, 4, 5, 6};
    for (int where = 0; p && where < 4; where++) {
        gale_tensor *in = tensor_of(where & 1 ? device : NULL, GALE_F32, SHAPE(2, 3), a);
        if (CHECK_OK(gale_program_run(p, &in, out, where & 2 ? GALE_RUN_ON_HOST : 0))) {
            CHECK_VALUES(out[0], 1, 2, 3, 4, 5, 6);
            CHECK_VALUES(out[1], 10, 20, 30, 40, 50, 60);
            CHECK_VALUES(out[2], 11, 22, 33, 44, 55, 66);
            CHECK_VALUES(out[3], 11, 22, 33, 44, 55, 66);
            CHECK_VALUES(out[4], 1, 4, 2, 5, 3, 6);
            CHECK(same_dims(out[5], SHAPE(1, 6)));
            CHECK_VALUES(out[5], 1, 2, 3, 4, 5, 6);
            CHECK_VALUES(out[6], 100, 400, 900, 1600, 2500, 3600);
            CHECK_VALUES(out[7], 1, 2, 3, 4, 5, 6);
            CHECK_VALUES(out[8], 7, 7, 7, 7, 7, 7);
            CHECK_VALUES(out[9], 20);
            CHECK_FLOATS(out[10], 5000, many);
            for (int i = 1; i < 11; i++) CHECK(out[i] != out[0]); /* each its own */
        }
        for (int i = 0; i < 11; i++) gale_tensor_destroy(&out[i]);
        gale_tensor_destroy(&in);
    }
    gale_program_destroy(&p);
}

static void tensors_of_the_callers(void)
{
    gale_graph *graph = NULL;
    gale_program *p = compile(pg_layer(&graph), &graph);
    float x[3 * PG_IN], want[3 * PG_OUT];
    for (int where = 0; p && where < 4; where++)
        for (int run = 0; run < 4; run++) { /* the same tensors again and again, with other contents */
            gale_device *d = where & 2 ? device : NULL;
            gale_tensor *out = NULL;
            pg_fill(x, 3 * PG_IN, (uint32_t)(20 + run));
            pg_layer_want(x, 3, want);
            gale_tensor *in = tensor_of(where & 1 ? device : NULL, GALE_F32, SHAPE(3, PG_IN), x);
            CHECK_OK(gale_tensor_create(d, GALE_F32, SHAPE(3, PG_OUT), &out));
            gale_tensor *same = out;
            if (CHECK_OK(gale_program_run(p, &in, &out, 0))) CHECK_FLOATS(out, 3 * PG_OUT, want);
            CHECK(same == out);
            gale_tensor_destroy(&in), gale_tensor_destroy(&out);
        }
    gale_program_destroy(&p);
}

/* x, y -> y - x, x: with the tensors for the results being those of the inputs, in either order. */
static void outputs_over_inputs(void)
{
    gale_graph *graph = NULL;
    pg g = pg_begin();
    gale_value x = pg_input(&g, "x", GALE_F32, SHAPE(2, 2), NULL), y = pg_input(&g, "y", GALE_F32, SHAPE(2, 2), NULL);
    pg_output(&g, "turned", OP2(&g, "Sub", OP1(&g, "Transpose", y), x));
    pg_output(&g, "product", OP2(&g, "MatMul", x, y));
    gale_program *p = compile(pg_end(&g, &graph), &graph);
    float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8};
    for (int where = 0; p && where < 4; where++) {
        gale_device *d = where & 1 ? device : NULL;
        gale_tensor *in[2] = {tensor_of(d, GALE_F32, SHAPE(2, 2), a), tensor_of(d, GALE_F32, SHAPE(2, 2), b)};
        gale_tensor *out[2] = {in[where >> 1], in[!(where >> 1)]};
        if (CHECK_OK(gale_program_run(p, in, out, 0))) {
            CHECK_VALUES(out[0], 4, 5, 3, 4);
            CHECK_VALUES(out[1], 19, 22, 43, 50);
        }
        gale_tensor *twice[2] = {in[0], in[0]};
        CHECK_FAILS(gale_program_run(p, in, twice, 0), INVALID);
        CHECK_SAYS("outputs turned and product have the same memory");
        gale_tensor_destroy(&in[0]), gale_tensor_destroy(&in[1]);
    }
    gale_program_destroy(&p);
}

/* ---- run after run ---- */

static bool replayed(gale_program *p)
{
    gale__arena arena = {0};
    gale__json *root = NULL;
    char *text = NULL;
    bool yes = false;
    if (CHECK_OK(gale_program_report(p, GALE_REPORT_JSON, &text)) &&
        CHECK_OK(gale__json_parse(&arena, text, strlen(text), &root))) {
        const gale__json *r = gale__json_get(root, "replayed");
        yes = r && r->boolean;
    }
    gale__arena_finish(&arena);
    gale_free(text);
    return yes;
}

/* Equal bits for equal inputs, replayed or not, and other results for other contents of the same tensors. */
static void replays(void)
{
    enum { ROWS = 300 /* too much work for the two kernels to be joined */, BYTES = ROWS * PG_OUT * sizeof(float) };
    gale_graph *graph = NULL;
    gale_program *p = compile(pg_layer(&graph), &graph);
    bool can = device->info.caps.capture && !device->info.caps.in_place, any = false;
    static float x[ROWS * PG_IN], want[ROWS * PG_OUT], first[2][ROWS * PG_OUT], got[ROWS * PG_OUT];
    gale_tensor *in = NULL, *out = NULL;
    CHECK_OK(gale_tensor_create(device, GALE_F32, SHAPE(ROWS, PG_IN), &in));
    CHECK_OK(gale_tensor_create(device, GALE_F32, SHAPE(ROWS, PG_OUT), &out));
    for (int i = 0; p && i < 8; i++) {
        pg_fill(x, ROWS * PG_IN, (uint32_t)(i & 1));
        pg_layer_want(x, ROWS, want);
        CHECK_OK(gale_upload(stream, in->buffer, 0, x, sizeof x));
        CHECK_OK(gale_stream_sync(stream));
        if (!CHECK_OK(gale_program_run(p, &in, &out, 0))) break;
        CHECK_FLOATS(out, ROWS * PG_OUT, want);
        CHECK_OK(gale_tensor_to_cpu(out, got, sizeof got));
        if (i < 2) memcpy(first[i], got, BYTES);
        else if (computes) CHECK(!memcmp(first[i & 1], got, BYTES));
        any |= replayed(p);
        if (i >= 2) CHECK_EQ(replayed(p), can);
    }
    CHECK_EQ(any, can);
    gale_tensor_destroy(&in), gale_tensor_destroy(&out);
    gale_program_destroy(&p);
}

/* A captured run keeps addresses: other tensors, be they beside the old ones or where the old ones lay in memory that
 * the driver gave anew, must not meet them. */
static void replays_follow_their_tensors(void)
{
    enum { ROWS = 300, ROUNDS = 8 };
    gale_graph *graph = NULL;
    gale_program *p = compile(pg_layer(&graph), &graph);
    static float x[ROWS * PG_IN], want[ROWS * PG_OUT];
    gale_tensor *in[ROUNDS] = {0}, *out[ROUNDS] = {0};
    for (int i = 0; p && i < ROUNDS; i++) {
        pg_fill(x, ROWS * PG_IN, (uint32_t)i);
        pg_layer_want(x, ROWS, want);
        in[i] = tensor_of(device, GALE_F32, SHAPE(ROWS, PG_IN), x);
        for (int k = 0; k < 3; k++)
            if (CHECK_OK(gale_program_run(p, &in[i], &out[i], 0))) CHECK_FLOATS(out[i], ROWS * PG_OUT, want);
        if (i % 4 != 3) continue;
        for (int k = 0; k <= i; k++) gale_tensor_destroy(&in[k]), gale_tensor_destroy(&out[k]);
        gale_memory_trim(device);
    }
    gale_program_destroy(&p);
}

static void steady(gale_program *p, gale_tensor **in, gale_tensor **out, int n_out, bool on_host, uint64_t most)
{
    gale_memory_stats before, after;
    bool made = !out[0];
    for (int i = 0; i < 8; i++) {
        bool warm = i >= 4;
        gale_memory_get_stats(device, &before);
        gale__alloc_fail_at(0);
        CHECK_OK(gale_program_run(p, in, out, on_host ? GALE_RUN_ON_HOST : 0));
        uint64_t host = gale__alloc_count();
        gale_memory_get_stats(device, &after);
        if (warm) {
            if (!CHECK(host <= most))
                printf("  %d allocations on the host, at most %d were expected\n", (int)host, (int)most);
            CHECK_EQ(after.driver_allocations, before.driver_allocations);
            CHECK_EQ(after.allocations - before.allocations, made && !on_host ? n_out : 0);
        }
        for (int k = 0; made && k < n_out; k++) gale_tensor_destroy(&out[k]);
    }
}

/* A run after the first few takes memory for its outputs and for nothing else. */
static void steady_runs_allocate_nothing(void)
{
    gale_graph *graph = NULL;
    gale_program *layer = compile(pg_layer(&graph), &graph), *reshape = compile(reshape_graph(&graph), &graph);
    gale_tensor *in = NULL, *out = NULL, *twice[2] = {FLOATS(NULL, 1, 2, 3, 4), INTS(NULL, 2, 2)};
    float x[6 * PG_IN] = {0};
    for (int where = 0; layer && where < 2; where++) {
        in = tensor_of(where ? device : NULL, GALE_F32, SHAPE(6, PG_IN), x);
        steady(layer, &in, &out, 1, true, 3);  /* a host tensor: itself, its memory, its count */
        steady(layer, &in, &out, 1, false, 4); /* a device tensor: itself, its buffer, a piece or two of the pool */
        CHECK_OK(gale_tensor_create(where ? NULL : device, GALE_F32, SHAPE(6, PG_OUT), &out));
        steady(layer, &in, &out, 1, true, 0);
        gale_tensor_destroy(&in), gale_tensor_destroy(&out);
    }
    CHECK_OK(gale_tensor_create(NULL, GALE_F32, SHAPE(2, 2), &out));
    if (reshape) steady(reshape, twice, &out, 1, true, 0);
    gale_tensor_destroy(&out), gale_tensor_destroy(&twice[0]), gale_tensor_destroy(&twice[1]);
    gale_program_destroy(&layer), gale_program_destroy(&reshape);
}

/* ---- reports ---- */

static void reports(void)
{
    gale_graph *graph = NULL;
    gale_program *p = compile(pg_layer(&graph), &graph);
    gale__arena arena = {0};
    gale__json *root = NULL;
    char *text = NULL;
    float x[2 * PG_IN] = {0};
    gale_tensor *in = tensor_of(NULL, GALE_F32, SHAPE(2, PG_IN), x), *out = NULL;
    CHECK_FAILS(gale_program_report(p, 0, &text), INVALID);
    CHECK_SAYS("has not run yet");
    CHECK_OK(gale_program_run(p, &in, &out, GALE_RUN_ON_HOST));
    if (CHECK_OK(gale_program_report(p, 0, &text))) {
        CHECK(strstr(text, "device      ") && strstr(text, device->info.name) && strstr(text, "MatMul") &&
              strstr(text, "host copies "));
        CHECK(strstr(text, "kernels     "));
    }
    gale_free(text);
    if (CHECK_OK(gale_program_report(p, GALE_REPORT_JSON, &text)) &&
        CHECK_OK(gale__json_parse(&arena, text, strlen(text), &root))) {
        CHECK_TEXT(gale__json_text(root, "backend", ""), device->info.backend);
        CHECK(gale__json_number(root, "kernels", 0) >= 1);
        CHECK(gale__json_number(root, "constant_bytes", 0) >= PG_IN * PG_OUT * 4);
        CHECK_EQ(gale__json_number(root, "uploads", -1), device->info.caps.in_place ? 0 : 1);
        CHECK_EQ(gale__json_number(root, "downloads", -1), device->info.caps.in_place ? 0 : 1);
        CHECK(gale__json_number(root, "run_us", -1) >= 0 && gale__json_number(root, "plan_us", -1) >= 0);
        const gale__json *rows = gale__json_get(root, "operators");
        CHECK(rows && rows->child);
    }
    gale__arena_finish(&arena);
    gale_free(text);
    gale_tensor_destroy(&in), gale_tensor_destroy(&out);
    gale_program_destroy(&p);
}

static void profiles_a_program(void)
{
    gale_graph *graph = NULL;
    gale_program *p = compile(pg_layer(&graph), &graph);
    gale_profiler *profiler = NULL;
    char *text = NULL;
    float x[2 * PG_IN] = {0};
    gale_tensor *in = tensor_of(NULL, GALE_F32, SHAPE(2, PG_IN), x), *out = NULL;
    CHECK_OK(gale_profiler_start(device, &profiler));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(gale_program_run(p, &in, &out, GALE_RUN_ON_HOST));
        gale_tensor_destroy(&out);
    }
    CHECK_OK(gale_profiler_stop(profiler));
    if (CHECK_OK(gale_profiler_to_text(profiler, "table", &text))) CHECK(strstr(text, "MatMul") != NULL);
    gale_free(text);
    for (int i = 0; i < 2; i++) {
        gale__arena arena = {0};
        gale__json *root = NULL;
        if (CHECK_OK(gale_profiler_to_text(profiler, i ? "trace" : "json", &text)))
            CHECK_OK(gale__json_parse(&arena, text, strlen(text), &root));
        gale_free(text);
        gale__arena_finish(&arena);
    }
    gale_profiler_destroy(&profiler);
    if (CHECK_OK(gale_program_run(p, &in, &out, GALE_RUN_ON_HOST))) gale_tensor_destroy(&out);
    gale_tensor_destroy(&in);
    gale_program_destroy(&p);
}

static void copies_are_counted(void)
{
    gale_context_stats before, after;
    float a[100] = {0};
    gale_context_get_stats(NULL, &before);
    gale_tensor *t = tensor_of(device, GALE_F32, SHAPE(100), a);
    CHECK_OK(gale_tensor_to_cpu(t, a, sizeof a));
    gale_context_get_stats(NULL, &after);
    CHECK_EQ(after.uploads - before.uploads, 1);
    CHECK_EQ(after.downloads - before.downloads, 1);
    CHECK_EQ(after.upload_bytes - before.upload_bytes, 400);
    CHECK_EQ(after.download_bytes - before.download_bytes, 400);
    gale_tensor_destroy(&t);
}

/* One transfer brings all small inputs of the host; a large one goes by itself. */
static void small_inputs_travel_together(void)
{
    enum { SMALL = 50, LARGE = 20000, RUNS = 5 };
    gale_graph *graph = NULL;
    static float x[3][SMALL], big[LARGE], want[SMALL];
    pg g = pg_begin();
    gale_value v[4];
    for (int i = 0; i < 3; i++) v[i] = pg_input(&g, (const char *[]){"a", "b", "c"}[i], GALE_F32, SHAPE(SMALL), NULL);
    v[3] = pg_input(&g, "large", GALE_F32, SHAPE(LARGE), NULL);
    gale_value most = OP1_WITH(&g, "ReduceMax", v[3], GALE_INT("keepdims", 1));
    pg_output(&g, "y", OP2(&g, "Add", OP2(&g, "Mul", OP2(&g, "Add", v[0], v[1]), v[2]), most));
    gale_program *p = compile(pg_end(&g, &graph), &graph);
    gale_tensor *in[4] = {0}, *given = NULL;
    for (int i = 0; i < 3; i++) in[i] = tensor_of(NULL, GALE_F32, SHAPE(SMALL), x[i]);
    in[3] = tensor_of(NULL, GALE_F32, SHAPE(LARGE), big);
    CHECK_OK(gale_tensor_create(NULL, GALE_F32, SHAPE(SMALL), &given));
    for (int run = 0; p && run < RUNS; run++) { /* recorded and replayed, with other numbers each time */
        gale_context_stats before, after;
        gale_tensor *out = run == 2 ? given : NULL;
        for (int i = 0; i < 3; i++) pg_fill(gale_tensor_data(in[i]), SMALL, (uint32_t)(run * 3 + i));
        ((float *)gale_tensor_data(in[3]))[run] = (float)(run + 1);
        for (int i = 0; i < 3; i++) memcpy(x[i], gale_tensor_data(in[i]), sizeof x[i]);
        for (int k = 0; k < SMALL; k++) want[k] = (x[0][k] + x[1][k]) * x[2][k] + (float)(run + 1);
        gale_context_get_stats(NULL, &before);
        if (!CHECK_OK(gale_program_run(p, in, &out, GALE_RUN_ON_HOST))) break;
        gale_context_get_stats(NULL, &after);
        CHECK_FLOATS(out, SMALL, want);
        if (run) CHECK_EQ(after.uploads - before.uploads, device->info.caps.in_place ? 0 : 2);
        if (out != given) gale_tensor_destroy(&out);
    }
    for (int i = 0; i < 4; i++) gale_tensor_destroy(&in[i]);
    gale_tensor_destroy(&given);
    gale_program_destroy(&p);
}

/* ---- at once ---- */

typedef struct crew {
    gale_program *p;
    _Atomic int bad, next;
    gale_device *d;
} crew;

static void work(void *arg)
{
    crew *c = arg;
    int me = atomic_fetch_add(&c->next, 1);
    float x[7 * PG_IN], want[7 * PG_OUT], got[7 * PG_OUT];
    for (int i = 0; i < 12; i++) {
        int n = 1 + (i + me) % 7;
        gale_tensor *in = NULL, *out = NULL;
        pg_fill(x, 7 * PG_IN, (uint32_t)(me * 100 + i));
        pg_layer_want(x, n, want);
        bool ok = gale_tensor_from_cpu(i & 1 ? c->d : NULL, GALE_F32, SHAPE(n, PG_IN), x, &in) == GALE_OK;
        ok = ok && gale_program_run(c->p, &in, &out, i & 2 ? GALE_RUN_ON_HOST : 0) == GALE_OK &&
             gale_tensor_to_cpu(out, got, sizeof got) == GALE_OK;
        for (int k = 0; ok && computes && k < n * PG_OUT; k++) ok = fabsf(got[k] - want[k]) < 1e-5f;
        if (!ok) atomic_fetch_add(&c->bad, 1);
        gale_tensor_destroy(&in), gale_tensor_destroy(&out);
    }
}

static void threads_share_a_program(void)
{
    gale_graph *graph = NULL;
    crew c = {.p = compile(pg_layer(&graph), &graph), .d = device};
    gale__thread *threads[4] = {0};
    for (int i = 0; c.p && i < 4; i++) CHECK_OK(gale__thread_start(work, &c, &threads[i]));
    for (int i = 0; i < 4; i++) gale__thread_join(&threads[i]);
    CHECK_EQ(atomic_load(&c.bad), 0);
    gale_program_destroy(&c.p);
}

/* This device and the CPU work side by side on one graph, and tensors go from one to the other. */
static void two_devices_at_once(void)
{
    gale_graph *graph = NULL;
    gale_device *cpu = NULL;
    crew c[2] = {{.d = device}, {0}};
    if (!CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu)) || !CHECK_OK(pg_layer(&graph))) return;
    c[1].d = cpu;
    for (int i = 0; i < 2; i++) CHECK_OK(gale_program_create(graph, c[i].d, NULL, &c[i].p));
    gale_graph_destroy(&graph);
    gale__thread *threads[4] = {0};
    for (int i = 0; i < 4; i++) CHECK_OK(gale__thread_start(work, &c[i & 1], &threads[i]));
    for (int i = 0; i < 4; i++) gale__thread_join(&threads[i]);
    CHECK_EQ(atomic_load(&c[0].bad) + atomic_load(&c[1].bad), 0);
    float x[5] = {1, 2, 3, 4, 5};
    gale_tensor *here = tensor_of(cpu, GALE_F32, SHAPE(5), x), *there = NULL, *again = NULL, *home = NULL;
    CHECK_OK(gale_tensor_to_device(here, device, &there));
    CHECK_OK(gale_tensor_to_device(there, device, &again));
    CHECK_OK(gale_tensor_to_device(again, NULL, &home));
    CHECK_VALUES(home, 1, 2, 3, 4, 5);
    gale_tensor_destroy(&here), gale_tensor_destroy(&there), gale_tensor_destroy(&again), gale_tensor_destroy(&home);
    gale_program_destroy(&c[0].p), gale_program_destroy(&c[1].p);
    gale_device_close(&cpu);
}

/* ---- no memory ---- */

/* With a limit on its memory a device refuses what does not fit, says what was asked and what was free, and works on.
 */
static void a_limit_on_memory(void)
{
    gale_device_options options = GALE_DEVICE_OPTIONS;
    options.pool_limit_bytes = (uint64_t)8 << 20;
    gale_device *small = NULL;
    gale_graph *graph = NULL;
    gale_program *p = NULL;
    if (!CHECK_OK(gale__device_open_one(device->backend, 0, &options, &small))) return;
    if (CHECK_OK(pg_layer(&graph))) CHECK_OK(gale_program_create(graph, small, NULL, &p));
    gale_graph_destroy(&graph);
    gale_tensor *in = NULL, *out = NULL, *large = NULL;
    gale_memory_stats stats;
    float x[2 * PG_IN], want[2 * PG_OUT];
    pg_fill(x, 2 * PG_IN, 1);
    pg_layer_want(x, 2, want);
    for (int i = 0; p && i < 2; i++) {
        in = tensor_of(small, GALE_F32, SHAPE(2, PG_IN), x);
        if (CHECK_OK(gale_program_run(p, &in, &out, 0))) CHECK_FLOATS(out, 2 * PG_OUT, want);
        gale_tensor_destroy(&out), gale_tensor_destroy(&in);
        CHECK_OK(gale_tensor_create(NULL, GALE_F32, SHAPE(200000, PG_IN), &large));
        memset(gale_tensor_data(large), 0, gale_tensor_size_bytes(large));
        CHECK_FAILS(gale_program_run(p, &large, &out, 0), NO_MEMORY);
        CHECK_SAYS("out of memory: ");
        CHECK_SAYS("(pool limit 8.0 MiB)");
        CHECK(out == NULL);
        gale_tensor_destroy(&large);
        gale_memory_get_stats(small, &stats);
        CHECK(stats.reserved_bytes <= options.pool_limit_bytes);
    }
    /* Three blocks of 2 MiB that are given back make room for one of 6, once they are trimmed. */
    gale_buffer *b[3] = {0}, *six = NULL;
    for (int i = 0; i < 3; i++) gale_buffer_create(small, (size_t)2 << 20, &b[i]);
    for (int i = 0; i < 3; i++) gale_buffer_destroy(&b[i]);
    gale_program_destroy(&p);
    CHECK_OK(gale_buffer_create(small, (size_t)6 << 20, &six));
    gale_buffer_destroy(&six);
    gale_device_close(&small);
}

/* Memory that plans of other shapes hold is given up before a run fails for lack of it. */
static void idle_plans_make_room(void)
{
    gale_device_options options = GALE_DEVICE_OPTIONS;
    options.pool_limit_bytes = (uint64_t)16 << 20;
    gale_device *small = NULL;
    gale_graph *graph = NULL;
    gale_program *p = NULL;
    gale_tensor *in = NULL, *out = NULL;
    uint64_t peak = 0;
    if (!CHECK_OK(gale__device_open_one(device->backend, 0, &options, &small))) return;
    if (CHECK_OK(pg_layer(&graph))) CHECK_OK(gale_program_create(graph, small, NULL, &p));
    gale_graph_destroy(&graph);
    for (int64_t i = 0; p && i < 14; i++) { /* 1.6 MB of work each, and on some devices 4.8 MB of copies */
        gale_memory_stats stats;
        CHECK_OK(gale_tensor_create(NULL, GALE_F32, SHAPE(100000 + i, PG_IN), &in));
        memset(gale_tensor_data(in), 0, gale_tensor_size_bytes(in));
        CHECK_OK(gale_program_run(p, &in, &out, GALE_RUN_ON_HOST));
        gale_tensor_destroy(&in), gale_tensor_destroy(&out);
        gale_memory_get_stats(small, &stats);
        peak = stats.peak_bytes > peak ? stats.peak_bytes : peak;
    }
    CHECK(peak <= options.pool_limit_bytes && peak > options.pool_limit_bytes / 2);
    gale_program_destroy(&p);
    gale_device_close(&small);
}

static void work_in_little_room(void *arg)
{
    crew *c = arg;
    int me = atomic_fetch_add(&c->next, 1);
    for (int i = 0; i < 10; i++) {
        gale_tensor *in = NULL, *out = NULL;
        int64_t rows = 20000 + 8 * ((i + me) % 5);
        if (gale_tensor_create(NULL, GALE_F32, SHAPE(rows, PG_IN), &in) != GALE_OK) continue;
        memset(gale_tensor_data(in), 0, gale_tensor_size_bytes(in));
        gale_status status = gale_program_run(c->p, &in, &out, GALE_RUN_ON_HOST);
        if (status != GALE_OK && status != GALE_NO_MEMORY) atomic_fetch_add(&c->bad, 1);
        gale_tensor_destroy(&in), gale_tensor_destroy(&out);
    }
}

/* Threads that take memory from each other: every run succeeds or says that there was none. */
static void threads_in_little_room(void)
{
    gale_device_options options = GALE_DEVICE_OPTIONS;
    options.pool_limit_bytes = (uint64_t)4 << 20;
    gale_graph *graph = NULL;
    gale__thread *threads[4] = {0};
    crew c = {0};
    if (!CHECK_OK(gale__device_open_one(device->backend, 0, &options, &c.d))) return;
    if (CHECK_OK(pg_layer(&graph))) CHECK_OK(gale_program_create(graph, c.d, NULL, &c.p));
    gale_graph_destroy(&graph);
    for (int i = 0; c.p && i < 4; i++) CHECK_OK(gale__thread_start(work_in_little_room, &c, &threads[i]));
    for (int i = 0; i < 4; i++) gale__thread_join(&threads[i]);
    CHECK_EQ(atomic_load(&c.bad), 0);
    gale_program_destroy(&c.p);
    gale_device_close(&c.d);
}

/* A program's own limit. */
static void a_limit_on_a_program(void)
{
    gale_graph *graph = NULL;
    gale_program *p = NULL;
    gale_program_options options = {.memory_limit_bytes = 64 << 10};
    float x[2 * PG_IN] = {0};
    if (CHECK_OK(pg_layer(&graph))) CHECK_OK(gale_program_create(graph, device, &options, &p));
    gale_graph_destroy(&graph);
    gale_tensor *in = tensor_of(NULL, GALE_F32, SHAPE(2, PG_IN), x), *large = NULL, *out = NULL;
    CHECK_OK(gale_tensor_create(NULL, GALE_F32, SHAPE(9000, PG_IN), &large));
    if (large) memset(gale_tensor_data(large), 0, gale_tensor_size_bytes(large));
    for (int i = 0; p && large && i < 2; i++) {
        if (CHECK_OK(gale_program_run(p, &in, &out, GALE_RUN_ON_HOST))) gale_tensor_destroy(&out);
        CHECK_FAILS(gale_program_run(p, &large, &out, GALE_RUN_ON_HOST), NO_MEMORY);
        CHECK_SAYS("the program's limit of 64.0 KiB");
    }
    gale_tensor_destroy(&in), gale_tensor_destroy(&large), gale_tensor_destroy(&out);
    gale_program_destroy(&p);
}

/* ---- graphs ---- */

static void wrong_graphs(void)
{
    gale_graph *graph = NULL;
    gale_program *p = NULL;
    gale_value x = GALE_NONE, y = GALE_NONE, outs[4];
    CHECK_OK(gale_graph_create(&graph));
    CHECK_FAILS(gale_program_create(graph, device, NULL, &p), INVALID);
    CHECK_SAYS("has no output");
    CHECK_OK(gale_graph_input(graph, "x", GALE_F32, SHAPE(2), NULL, &x));
    CHECK_FAILS(gale_graph_input(graph, "s", GALE_STRING, SHAPE(2), NULL, &y), UNSUPPORTED);
    CHECK_SAYS("input s: type string is not numeric");
    CHECK_FAILS(gale_graph_input(graph, "r", GALE_F32, GALE_MAX_RANK + 1, NULL, NULL, &y), INVALID);
    CHECK_SAYS("input r: rank 13");
    CHECK_FAILS(gale_graph_op(graph, "Frobnicate", &x, 1, NULL, 0, &y, 1), NOT_FOUND);
    CHECK_SAYS("unknown operator Frobnicate");
    CHECK_FAILS(gale_graph_op(graph, "Add", &x, 1, NULL, 0, &y, 1), INVALID);
    CHECK_SAYS("Add needs 2 inputs, not 1");
    CHECK_FAILS(gale_graph_op(graph, "Relu", &x, 1, NULL, 0, outs, 4), INVALID);
    CHECK_SAYS("Relu has at most 1 output");
    CHECK_FAILS(gale_graph_op(graph, "Relu", (gale_value[]){99}, 1, NULL, 0, &y, 1), INVALID);
    CHECK_SAYS("Relu: input 0 is not a value of this graph");
    CHECK_FAILS(gale_graph_op(graph, "Relu", (gale_value[]){GALE_NONE}, 1, NULL, 0, &y, 1), INVALID);
    CHECK_FAILS(gale_graph_op(graph, "Max", NULL, 0, NULL, 0, &y, 1), INVALID);
    CHECK_SAYS("Max needs at least 1 input");
    gale_attr empty = {"axes", GALE_ATTR_INTS, 0, 0, NULL, NULL, NULL, NULL, 3, NULL, NULL};
    CHECK_FAILS(gale_graph_op(graph, "ReduceSum", &x, 1, &empty, 1, &y, 1), INVALID);
    CHECK_SAYS("ReduceSum: attribute axes is empty");
    CHECK_FAILS(gale_graph_output(graph, "y", 99), INVALID);
    CHECK_SAYS("output y is not a value of this graph");
    CHECK_FAILS(gale_graph_gradient(graph, 99, &x, 1, &y), INVALID);
    CHECK_FAILS(gale_graph_gradient(graph, x, (gale_value[]){-1}, 1, &y), INVALID);
    CHECK_EQ(y, GALE_NONE); /* results are left alone on failure */
    CHECK_OK(gale_graph_op(graph, "Relu", &x, 1, NULL, 0, &y, 1));
    CHECK_OK(gale_graph_output(graph, "y", y));
    CHECK_OK(gale_program_create(graph, device, NULL, &p));
    /* A program runs the graph as it was: nothing may be added while one is there. */
    CHECK_FAILS(gale_graph_input(graph, "z", GALE_F32, SHAPE(2), NULL, &x), INVALID);
    CHECK_SAYS("in use");
    CHECK_FAILS(gale_graph_output(graph, "again", y), INVALID);
    gale_tensor *in = FLOATS(NULL, -1, 2), *out = NULL;
    if (CHECK_OK(gale_program_run(p, &in, &out, GALE_RUN_ON_HOST))) CHECK_VALUES(out, 0, 2);
    gale_tensor_destroy(&in), gale_tensor_destroy(&out);
    gale_program_destroy(&p);
    CHECK_OK(gale_graph_output(graph, "again", y));
    gale_graph_destroy(&graph);
}

/* What lowering refuses names the operator and its place; the program works on with other shapes. */
static void refused_when_planned(void)
{
    gale_graph *graph = NULL;
    pg g = pg_begin();
    gale_value x = pg_input(&g, "x", GALE_F32, SHAPE(-1), NULL), y = pg_input(&g, "y", GALE_F32, SHAPE(-1), NULL);
    pg_output(&g, "z", OP2(&g, "Add", OP1(&g, "Neg", x), y));
    gale_program *p = compile(pg_end(&g, &graph), &graph);
    gale_tensor *two = FLOATS(NULL, 1, 2), *three = FLOATS(NULL, 1, 2, 3), *z = NULL;
    CHECK_FAILS(gale_program_run(p, (gale_tensor *[]){two, three}, &z, GALE_RUN_ON_HOST), INVALID);
    CHECK_SAYS("Add (node 1)");
    CHECK_SAYS("cannot be broadcast together");
    if (CHECK_OK(gale_program_run(p, (gale_tensor *[]){two, two}, &z, GALE_RUN_ON_HOST))) CHECK_VALUES(z, 0, 0);
    gale_tensor_destroy(&two), gale_tensor_destroy(&three), gale_tensor_destroy(&z);
    gale_program_destroy(&p);
}

static void tensors(void)
{
    gale_tensor *t = NULL, *view = NULL;
    float a[6] = {1, 2, 3, 4, 5, 6}, b[6];
    CHECK_FAILS(gale_tensor_create(device, GALE_F32, SHAPE(2, -1), &t), INVALID);
    CHECK_FAILS(gale_tensor_create(device, GALE_F32, SHAPE(INT64_MAX, 3), &t), LIMIT);
    CHECK_FAILS(gale_tensor_create(device, GALE_STRING, SHAPE(2), &t), UNSUPPORTED);
    CHECK(t == NULL);
    t = tensor_of(device, GALE_F32, SHAPE(2, 3), a);
    CHECK_FAILS(gale_tensor_reshape(t, SHAPE(4), &view), INVALID);
    CHECK_SAYS("4 elements, but the tensor has 6");
    CHECK_OK(gale_tensor_reshape(t, SHAPE(3, 2), &view));
    CHECK_FAILS(gale_tensor_to_cpu(t, b, 5), INVALID);
    CHECK_EQ(gale_tensor_type(t), GALE_F32);
    CHECK((gale_tensor_data(t) != NULL) == (t->buffer->mem->host != NULL));
    gale_tensor_destroy(&t); /* the view holds the memory */
    CHECK(same_dims(view, SHAPE(3, 2)));
    CHECK_VALUES(view, 1, 2, 3, 4, 5, 6);
    gale_tensor_destroy(&view);
    t = tensor_of(NULL, GALE_F32, SHAPE(6), a);
    CHECK_OK(gale_tensor_reshape(t, SHAPE(6, 1), &view));
    CHECK(gale_tensor_data(t) == gale_tensor_data(view));
    gale_tensor_destroy(&t);
    CHECK_VALUES(view, 1, 2, 3, 4, 5, 6);
    gale_tensor_destroy(&view);
}

/* Every case from a fresh device to its close leaves the heap as it was. */
static const suite_case cases[] = {
    {"symbols", symbols},
    {"one_symbol_twice_in_an_input", one_symbol_twice_in_an_input},
    {"any_rank", any_rank},
    {"weights_are_shared", weights_are_shared},
    {"weights_of_the_prologue_go", weights_of_the_prologue_go},
    {"wrong_inputs", wrong_inputs},
    {"zero_extents_and_rank_0", zero_extents_and_rank_0},
    {"values_that_decide_shapes", values_that_decide_shapes},
    {"many_signatures", many_signatures},
    {"outputs_of_every_kind", outputs_of_every_kind},
    {"tensors_of_the_callers", tensors_of_the_callers},
    {"outputs_over_inputs", outputs_over_inputs},
    {"replays", replays},
    {"replays_follow_their_tensors", replays_follow_their_tensors},
    {"steady_runs_allocate_nothing", steady_runs_allocate_nothing},
    {"reports", reports},
    {"profiles_a_program", profiles_a_program},
    {"copies_are_counted", copies_are_counted},
    {"small_inputs_travel_together", small_inputs_travel_together},
    {"threads_share_a_program", threads_share_a_program},
    {"two_devices_at_once", two_devices_at_once},
    {"a_limit_on_memory", a_limit_on_memory},
    {"idle_plans_make_room", idle_plans_make_room},
    {"threads_in_little_room", threads_in_little_room},
    {"a_limit_on_a_program", a_limit_on_a_program},
    {"wrong_graphs", wrong_graphs},
    {"refused_when_planned", refused_when_planned},
    {"tensors", tensors},
    {0},
};
SUITE(cases)
