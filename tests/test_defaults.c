/* Inputs that have a value in the file: constants as long as nobody gives another, inputs like any other when somebody
 * does. */
#include "onnx_make.h"
#include "gale/model.h"
#include "graph/run/program.h"
#include "onnx/run/session.h"
#include "test.h"

enum { N = 20000 }; /* large enough to stay in the file */
static const float w3x2[] = {1, 2, 3, 4, 5, 6};

/* y = Reshape(x w, s) and z = Concat(table, t): w, s and t may be given.  listed: they stand among the inputs. */
static void make_model(maker *m, gale__str *bytes, bool listed, int ir)
{
    float *table = make_room(m, N * sizeof *table);
    for (int i = 0; i < N; i++) table[i] = (float)i;
    m->model.ir_version = ir;
    if (listed) make_input(m, "w", 1, "3,2");
    make_input(m, "x", 1, "n,3");
    if (listed) make_input(m, "s", 7, "rank"), make_input(m, "t", 1, "n");
    make_output(m, "y", 1, NULL);
    make_output(m, "z", 1, NULL);
    make_initializer(m, make_floats(m, "table", "20000", table, N));
    make_initializer(m, make_floats(m, "w", "3,2", w3x2, 6));
    make_initializer(m, make_ints(m, "s", "1", (const int64_t[]){-1}, 1));
    gale__pb_sparse *t = MAKE_ADD(m, m->graph->sparse_initializer);
    t->values = make_floats(m, "t", "1", (const float[]){7}, 1);
    t->indices = make_ints(m, "", "1", (const int64_t[]){1}, 1);
    *MAKE_ADD(m, t->dims) = 2;
    make_node(m, "MatMul", "x,w", "p");
    make_node(m, "Reshape", "p,s", "y");
    make_attr_i(m, make_node(m, "Concat", "table,t", "z"), "axis", 0);
    CHECK_OK(make_encode(m, bytes));
}

static gale_device *the_device(void)
{
    static gale_device *device;
    if (!device)
        CHECK_OK(gale_device_open(&(gale_device_options){.chain = "cpu", .index = -1, .strict = true}, &device));
    return device;
}

static gale_model *open_model(bool listed, int ir, const gale_model_options *options)
{
    maker m;
    gale__str bytes = {0};
    gale_model *model = NULL;
    make_begin(&m, 21);
    make_model(&m, &bytes, listed, ir);
    CHECK_OK(gale_model_from_memory(bytes.text, bytes.length, GALE_MODEL_COPY, the_device(), options, &model));
    gale__str_finish(&bytes);
    make_end(&m);
    return model;
}

typedef struct given {
    const char *names[4];
    gale_tensor *tensors[4];
    int n;
} given;

static void give(given *g, const char *name, gale_type type, int rank, const int64_t *dims, const void *data)
{
    g->names[g->n] = name;
    CHECK_OK(gale_tensor_from_cpu(NULL, type, rank, dims, data, &g->tensors[g->n++]));
}
static void give_x(given *g) { give(g, "x", GALE_F32, 2, (int64_t[]){2, 3}, (float[]){1, 0, 0, 0, 1, 1}); }
static void give_w(given *g) { give(g, "w", GALE_F32, 2, (int64_t[]){3, 2}, (float[]){10, 20, 30, 40, 50, 60}); }
static void give_s(given *g) { give(g, "s", GALE_I64, 1, (int64_t[]){3}, (int64_t[]){1, 2, 2}); }

static void finish(given *g)
{
    for (int i = 0; i < g->n; i++) gale_tensor_destroy(&g->tensors[i]);
    g->n = 0;
}

/* One run; y must have this rank and these numbers. */
static void expect(gale_model *model, given *g, int rank, const float y[4])
{
    gale_tensor *out[2] = {NULL, NULL};
    if (!CHECK_OK(gale_model_run_named(
            model, g->names, g->tensors, g->n, (const char *const[]){"y", "z"}, out, 2, GALE_RUN_ON_HOST)))
        return;
    CHECK_EQ(gale_tensor_rank(out[0]), rank);
    if (CHECK_EQ(gale_tensor_size_bytes(out[0]), 16)) CHECK(!memcmp(gale_tensor_data(out[0]), y, 16));
    CHECK(((const float *)gale_tensor_data(out[1]))[N - 1] == N - 1);
    gale_tensor_destroy(&out[0]), gale_tensor_destroy(&out[1]);
}

static const float plain[] = {1, 2, 8, 10}, tenfold[] = {10, 20, 80, 100};

TEST(given_by_name)
{
    gale_model *model = open_model(true, 10, NULL);
    given g = {0};
    gale_model_value v;
    if (!model) return;
    CHECK_EQ(gale_model_inputs(model), 1);
    if (CHECK_OK(gale_model_input(model, 0, &v))) CHECK_TEXT(v.name, "x"), CHECK(!v.has_default);
    CHECK_EQ(gale_model_defaults(model), 3);
    if (CHECK_OK(gale_model_default(model, 1, &v)))
        CHECK_TEXT(v.name, "s"), CHECK(v.has_default && v.type == GALE_I64 && v.rank == 1),
            CHECK_TEXT(v.symbols[0], "rank");
    CHECK_FAILS(gale_model_default(model, 3, &v), INVALID);
    give_x(&g), expect(model, &g, 1, plain);
    for (int i = 0; i < 2; i++) { /* the second time with what the first has made */
        give_w(&g), expect(model, &g, 1, tenfold);
        give_s(&g), expect(model, &g, 3, tenfold), finish(&g);
        give_s(&g), give_x(&g), expect(model, &g, 3, plain), finish(&g);
        give_x(&g), expect(model, &g, 1, plain);
    }
    give(&g, "t", GALE_F32, 1, (int64_t[]){2}, (float[]){1, 2}), expect(model, &g, 1, plain),
        finish(&g); /* sparse in the file */
    gale_model_close(&model);
}

TEST(mistakes)
{
    gale_model *model = open_model(true, 10, NULL);
    given g = {0};
    if (!model) return;
    give_x(&g), give_w(&g), give_w(&g);
    CHECK_FAILS(gale_model_run_named(model, g.names, g.tensors, g.n, NULL, NULL, 0, GALE_RUN_ON_HOST), INVALID);
    CHECK(strstr(gale_error(), "'w' is given twice") != NULL);
    finish(&g), give_x(&g), give(&g, "w", GALE_F32, 1, (int64_t[]){6}, w3x2);
    CHECK_FAILS(gale_model_run_named(model, g.names, g.tensors, g.n, NULL, NULL, 0, GALE_RUN_ON_HOST), INVALID);
    CHECK(strstr(gale_error(), "input w has rank 1") != NULL);
    finish(&g), give_x(&g), give(&g, "table", GALE_F32, 2, (int64_t[]){3, 2}, w3x2);
    CHECK_FAILS(gale_model_run_named(model, g.names, g.tensors, g.n, NULL, NULL, 0, GALE_RUN_ON_HOST), INVALID);
    CHECK(strstr(gale_error(), "no input 'table'") != NULL);
    finish(&g), give_w(&g);
    CHECK_FAILS(gale_model_run_named(model, g.names, g.tensors, g.n, NULL, NULL, 0, GALE_RUN_ON_HOST), INVALID);
    CHECK(strstr(gale_error(), "missing input x") != NULL);
    finish(&g), give_x(&g), expect(model, &g, 1, plain), finish(&g);
    gale_model_close(&model);
}

/* Named when the model is opened: inputs in order, in any precision. */
TEST(given_always)
{
    for (int half = 0; half < 2; half++) {
        gale_model_options o = {.given = (const char *const[]){"s", "x", "nothing"},
            .n_given = 3,
            .precision = half ? GALE_PRECISION_F16 : GALE_PRECISION_AS_IT_IS};
        gale_model *model = open_model(true, 3 + half * 5, &o);
        given g = {0};
        gale_model_value v;
        if (!model) return;
        CHECK_EQ(gale_model_inputs(model), 2);
        CHECK_EQ(gale_model_defaults(model), 2);
        if (CHECK_OK(gale_model_input(model, 1, &v))) CHECK_TEXT(v.name, "s"), CHECK(v.has_default);
        give_x(&g), give_s(&g);
        if (!half) expect(model, &g, 3, plain);
        give_w(&g);
        if (!half) expect(model, &g, 3, tenfold);
        else CHECK_OK(gale_model_run_named(model, g.names, g.tensors, g.n, NULL, NULL, 0, GALE_RUN_ON_HOST));
        finish(&g);
        gale_model_close(&model);
    }
}

static int count_kernels(gale_model *model)
{
    const gale__onnx_exec *e = gale__onnx_model_session(model)->net->exec;
    int n = 0;
    for (int i = 0; i < e->n_steps; i++)
        for (gale__onnx_variant *v = e->steps[i].segment ? e->steps[i].segment->variants : NULL; v; v = v->next)
            for (gale__instance *p = v->program->instances; p; p = p->next) n += p->plan->kernels;
    return n;
}

/* Older files list every weight: the plan is the same as without. */
TEST(listed_weights_cost_nothing)
{
    gale_model *listed = open_model(true, 3, NULL), *plain_one = open_model(false, 10, NULL);
    given g = {0};
    if (!listed || !plain_one) return;
    give_x(&g), expect(listed, &g, 1, plain), expect(plain_one, &g, 1, plain), finish(&g);
    CHECK_EQ(gale_model_defaults(plain_one), 0);
    CHECK(count_kernels(listed) > 0);
    CHECK_EQ(count_kernels(listed), count_kernels(plain_one));
    CHECK_EQ(((gale__onnx_exec *)gale__onnx_model_session(listed)->net->exec)->n_steps, 1);
    gale_model_close(&listed), gale_model_close(&plain_one);
}

TESTS(ROW(given_by_name), ROW(mistakes), ROW(given_always), ROW(listed_weights_cost_nothing))
