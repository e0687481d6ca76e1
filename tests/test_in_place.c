/* Outputs that lie where inputs lie, on every backend: values that a program updates.  Whatever the plan does, results
 * are those of separate tensors; where the dataflow allows it there is neither a copy nor memory for one. */
#include "device_suite.h"
#include "gale/profile.h"
#include "graph/run/program.h"
#include "program_graphs.h"

enum { SIDE = 96, N = SIDE * SIDE, INPUTS = 4, ROUNDS = 3 };

/* A program whose outputs, all f32, go over inputs: over[i] is the input of output i, -1 none.  copies: outputs that
 * cannot be updated in place. */
typedef struct subject {
    const char *name;
    gale_status (*make)(gale_graph **out);
    int n_in, n_out, over[3];
    bool copies;
} subject;

static gale_value square(pg *g, const char *name) { return pg_input(g, name, GALE_F32, SHAPE(SIDE, SIDE), NULL); }

/* w - 0.01 d/dw sum((x w)^2): w is read by both products before the last kernel writes. */
static gale_status descent(gale_graph **out)
{
    pg g = pg_begin();
    float rate = 0.01f / SIDE;
    gale_value w = square(&g, "w"), x = square(&g, "x"), y = OP2(&g, "MatMul", x, w), d = GALE_NONE;
    gale_value loss = OP1_WITH(&g, "ReduceSum", OP2(&g, "Mul", y, y), GALE_INT("keepdims", 0));
    if (g.status == GALE_OK) g.status = gale_graph_gradient(g.graph, loss, &w, 1, &d);
    pg_output(&g, "w1", OP2(&g, "Sub", w, OP2(&g, "Mul", d, pg_constant(&g, GALE_F32, SCALAR, &rate))));
    pg_output(&g, "loss", loss);
    return pg_end(&g, out);
}

/* Momentum: two states, each read for itself and the one for the other. */
static gale_status momentum(gale_graph **out)
{
    pg g = pg_begin();
    float keep = 0.9f, rate = 0.1f;
    gale_value w = square(&g, "w"), v = square(&g, "v"), d = square(&g, "d");
    gale_value v1 = OP2(&g, "Add", OP2(&g, "Mul", v, pg_constant(&g, GALE_F32, SCALAR, &keep)), d);
    pg_output(&g, "w1", OP2(&g, "Sub", w, OP2(&g, "Mul", v1, pg_constant(&g, GALE_F32, SCALAR, &rate))));
    pg_output(&g, "v1", v1);
    return pg_end(&g, out);
}

/* A few rows of a cache. */
static gale_status cache(gale_graph **out)
{
    pg g = pg_begin();
    int64_t at[4] = {3, 7, 90, 4};
    gale_value in[3] = {square(&g, "cache"), pg_constant(&g, GALE_I64, SHAPE(4, 1), at),
        OP2(&g, "Add", pg_input(&g, "row", GALE_F32, SHAPE(4, SIDE), NULL),
            pg_input(&g, "other", GALE_F32, SHAPE(SIDE), NULL))};
    pg_output(&g, "cache1", pg_op(&g, "ScatterND", in, 3, NULL, 0));
    return pg_end(&g, out);
}

static gale_status state(gale_graph **out)
{
    pg g = pg_begin();
    gale_value h = square(&g, "h"), x = square(&g, "x");
    pg_output(&g, "h1", OP1(&g, "Tanh", OP2(&g, "Add", OP2(&g, "MatMul", h, x), h)));
    return pg_end(&g, out);
}

static gale_status turned(gale_graph **out)
{
    pg g = pg_begin();
    gale_value x = square(&g, "x");
    pg_output(&g, "y", OP2(&g, "Add", x, OP1(&g, "Transpose", x)));
    return pg_end(&g, out);
}

static gale_status normalised(gale_graph **out)
{
    pg g = pg_begin();
    pg_output(&g, "y", OP1(&g, "Softmax", square(&g, "x")));
    return pg_end(&g, out);
}

/* What is written over is read once more by a kernel behind. */
static gale_status read_again(gale_graph **out)
{
    pg g = pg_begin();
    gale_value x = square(&g, "x"), w = square(&g, "w"), y = OP1(&g, "Exp", OP2(&g, "MatMul", x, w));
    pg_output(&g, "y", y);
    pg_output(&g, "z", OP2(&g, "MatMul", y, x));
    return pg_end(&g, out);
}

/* Pieces of a result: the first lies where the second is read. */
static gale_status swapped(gale_graph **out)
{
    pg g = pg_begin();
    int64_t bounds[4] = {0, SIDE / 2, SIDE / 2, SIDE}, axis = 0;
    gale_value x = square(&g, "x"), half[2], a = pg_constant(&g, GALE_I64, SHAPE(1), &axis);
    for (int i = 0; i < 2; i++) {
        gale_value in[4] = {x, pg_constant(&g, GALE_I64, SHAPE(1), bounds + 2 * i),
            pg_constant(&g, GALE_I64, SHAPE(1), bounds + 2 * i + 1), a};
        half[i] = OP1(&g, "Tanh", pg_op(&g, "Slice", in, 4, NULL, 0));
    }
    gale_value both[2] = {half[1], half[0]};
    gale_attr along = GALE_INT("axis", 0);
    pg_output(&g, "y", pg_op(&g, "Concat", both, 2, &along, 1));
    return pg_end(&g, out);
}

/* The input itself is an output too, and copied at the end. */
static gale_status kept_as_well(gale_graph **out)
{
    pg g = pg_begin();
    gale_value x = square(&g, "x");
    pg_output(&g, "y", OP1(&g, "Neg", x));
    pg_output(&g, "x1", OP1(&g, "Identity", x));
    return pg_end(&g, out);
}

static const subject subjects[] = {{"descent", descent, 2, 2, {0, -1}}, {"momentum", momentum, 3, 2, {0, 1}},
    {"cache", cache, 3, 1, {0}}, {"state", state, 2, 1, {0}, true}, {"turned", turned, 1, 1, {0}, true},
    {"normalised", normalised, 1, 1, {0}, true}, {"read_again", read_again, 2, 2, {0, -1}, true},
    {"swapped", swapped, 1, 1, {0}, true}, {"kept_as_well", kept_as_well, 1, 2, {0, -1}, true}};

static gale_tensor *fresh(const gale_program *p, int input)
{
    static float data[N];
    const gale__value_info *v = &p->graph->values[p->graph->inputs[input]];
    gale_tensor *t = NULL;
    pg_fill(data, N, (uint32_t)input + 3);
    CHECK_OK(gale_tensor_from_cpu(device, GALE_F32, v->rank, v->dims, data, &t));
    return t;
}

static void copy_to(gale_tensor *to, gale_tensor *from)
{
    static float data[N];
    size_t size = gale_tensor_size_bytes(from);
    if (CHECK_OK(gale_tensor_to_cpu(from, data, size)))
        CHECK_OK(gale_upload(stream, gale_tensor_buffer(to), 0, data, size));
    CHECK_OK(gale_stream_sync(stream));
}

/* Some rounds, states in place or through separate tensors; out: states and outputs of the last round. */
static void rounds(gale_program *p, const subject *s, bool update, float (*out)[N])
{
    gale_tensor *in[INPUTS] = {0}, *made[3] = {0}, *given[3];
    bool ok = true;
    for (int i = 0; i < s->n_in; i++) ok = (in[i] = fresh(p, i)) && ok;
    for (int round = 0; ok && round < ROUNDS; round++) {
        for (int i = 0; i < s->n_out; i++) {
            bool over = update && s->over[i] >= 0;
            if (over) gale_tensor_destroy(&made[i]);
            given[i] = over ? in[s->over[i]] : made[i];
        }
        ok = CHECK_OK(gale_program_run(p, in, given, 0));
        for (int i = 0; ok && i < s->n_out; i++) {
            if (update && s->over[i] >= 0) continue;
            made[i] = given[i];
            if (s->over[i] >= 0) copy_to(in[s->over[i]], made[i]);
        }
    }
    for (int i = 0; ok && i < s->n_out; i++) {
        gale_tensor *t = s->over[i] >= 0 ? in[s->over[i]] : made[i];
        ok = CHECK_OK(gale_tensor_to_cpu(t, out[i], gale_tensor_size_bytes(t)));
    }
    for (int i = 0; i < s->n_in; i++) gale_tensor_destroy(&in[i]);
    for (int i = 0; i < s->n_out; i++) gale_tensor_destroy(&made[i]);
}

/* Bytes that the program's only context holds for copies of outputs. */
static size_t copies_of(const gale_program *p)
{
    size_t bytes = 0;
    const gale__run_context *c = p->instances->idle;
    for (int i = 0; c && i < p->graph->n_outputs; i++)
        if (c->staged[p->graph->n_inputs + i]) bytes += gale_buffer_size(c->staged[p->graph->n_inputs + i]);
    return bytes;
}

static void results_are_the_same(void)
{
    static float apart[3][N], here[3][N];
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        const subject *s = &subjects[i];
        gale_graph *graph = NULL;
        gale_program *p = NULL;
        if (CHECK_OK(s->make(&graph)) && CHECK_OK(gale_program_create(graph, device, NULL, &p))) {
            memset(apart, 0, sizeof apart), memset(here, 0, sizeof here);
            rounds(p, s, false, apart);
            CHECK_EQ(copies_of(p), 0);
            rounds(p, s, true, here);
            if (!s->copies && !CHECK_EQ(copies_of(p), 0)) printf("  %s is copied\n", s->name);
            if (computes && !CHECK(!memcmp(apart, here, sizeof here))) printf("  %s differs\n", s->name);
        }
        gale_program_destroy(&p);
        gale_graph_destroy(&graph);
    }
}

/* A cache that is updated costs neither its size in memory nor the time to copy it. */
static void memory_is_not_needed(void)
{
    gale_graph *graph = NULL;
    gale_program *p = NULL;
    gale_tensor *in[3] = {0};
    gale_memory_stats before, after;
    gale_profiler *profiler = NULL;
    char *text = NULL;
    if (CHECK_OK(cache(&graph)) && CHECK_OK(gale_program_create(graph, device, NULL, &p))) {
        for (int i = 0; i < 3; i++) in[i] = fresh(p, i);
        gale_tensor *out = in[0];
        CHECK_OK(gale_program_run(p, in, &out, 0));
        gale_memory_get_stats(device, &before);
        CHECK_OK(gale_profiler_start(device, &profiler));
        for (int i = 0; i < 3; i++) CHECK_OK(gale_program_run(p, in, &out, 0));
        CHECK_OK(gale_profiler_stop(profiler));
        gale_memory_get_stats(device, &after);
        CHECK(after.in_use_bytes == before.in_use_bytes && after.peak_bytes < 3 * N * sizeof(float));
        if (CHECK_OK(gale_profiler_to_text(profiler, "json", &text))) CHECK(!strstr(text, "\"kind\": \"copy\""));
        CHECK(gale_tensor_size_bytes(out) == N * sizeof(float));
    }
    gale_free(text);
    gale_profiler_destroy(&profiler);
    for (int i = 0; i < 3; i++) gale_tensor_destroy(&in[i]);
    gale_program_destroy(&p);
    gale_graph_destroy(&graph);
}

/* An LSTM whose states go where they came from, over one step and over several. */
static void recurrent_states(void)
{
    enum { HIDDEN = 24 };
    static float w[4 * HIDDEN * HIDDEN], x[6 * HIDDEN], zero[HIDDEN];
    pg g = pg_begin();
    gale_graph *graph = NULL;
    gale_program *p = NULL;
    pg_fill(w, 4 * HIDDEN * HIDDEN, 1), pg_fill(x, 6 * HIDDEN, 2);
    gale_value weights = pg_constant(&g, GALE_F32, SHAPE(1, 4 * HIDDEN, HIDDEN), w), out[3];
    gale_value in[7] = {pg_input(&g, "x", GALE_F32, SHAPE(-1, 1, HIDDEN), NULL), weights, weights, GALE_NONE, GALE_NONE,
        pg_input(&g, "h", GALE_F32, SHAPE(1, 1, HIDDEN), NULL), pg_input(&g, "c", GALE_F32, SHAPE(1, 1, HIDDEN), NULL)};
    gale_attr hidden = GALE_INT("hidden_size", HIDDEN);
    if (g.status == GALE_OK) g.status = gale_graph_op(g.graph, "LSTM", in, 7, &hidden, 1, out, 3);
    pg_output(&g, "h1", out[1]), pg_output(&g, "c1", out[2]);
    bool ok = CHECK_OK(pg_end(&g, &graph)) && CHECK_OK(gale_program_create(graph, device, NULL, &p));
    for (int64_t steps = 1; ok && steps <= 6; steps += 5) {
        float want[2][HIDDEN], got[2][HIDDEN];
        gale_tensor *t[3] = {0}, *apart[2] = {0};
        ok = CHECK_OK(gale_tensor_from_cpu(device, GALE_F32, SHAPE(steps, 1, HIDDEN), x, &t[0])) &&
             CHECK_OK(gale_tensor_from_cpu(device, GALE_F32, SHAPE(1, 1, HIDDEN), zero, &t[1])) &&
             CHECK_OK(gale_tensor_from_cpu(device, GALE_F32, SHAPE(1, 1, HIDDEN), zero, &t[2])) &&
             CHECK_OK(gale_program_run(p, t, apart, 0)) &&
             CHECK_OK(gale_program_run(p, (gale_tensor *[]){t[0], apart[0], apart[1]}, apart, 0)) &&
             CHECK_OK(gale_program_run(p, t, (gale_tensor *[]){t[1], t[2]}, 0)) &&
             CHECK_OK(gale_program_run(p, t, (gale_tensor *[]){t[1], t[2]}, 0));
        for (int i = 0; ok && i < 2; i++)
            ok = CHECK_OK(gale_tensor_to_cpu(apart[i], want[i], sizeof want[i])) &&
                 CHECK_OK(gale_tensor_to_cpu(t[1 + i], got[i], sizeof got[i]));
        if (ok && computes) CHECK(!memcmp(want, got, sizeof got) && got[0][0] != 0);
        for (int i = 0; i < 3; i++) gale_tensor_destroy(&t[i]);
        for (int i = 0; i < 2; i++) gale_tensor_destroy(&apart[i]);
    }
    gale_program_destroy(&p);
    gale_graph_destroy(&graph);
}

static const suite_case cases[] = {{"results_are_the_same", results_are_the_same},
    {"memory_is_not_needed", memory_is_not_needed}, {"recurrent_states", recurrent_states}, {0}};
SUITE(cases)
