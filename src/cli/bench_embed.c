/* gale bench embed: texts per second for encoders with the shapes of the three levels and random weights, on every
 * provider of this machine, beside published figures.  All texts have the same length, which is printed, since a rate
 * is meaningless without it. */
#include "cli/bench.h"
#include "base/json.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "cli/model_args.h"
#include "cli/table.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { VOCABULARY = 30522, TOKENS_HOST = 2048, TOKENS_DEVICE = 32768, LANES_MOST = 64, ONE_RUNS = 31 };
#define ENOUGH_NS 2000000000u

typedef struct shape {
    const char *level;
    int layers, dims, heads;
    const char *claims[3]; /* texts a second elsewhere: CPU of 16 cores, CUDA, TensorRT on an RTX 3090 */
} shape;
static const shape shapes[] = {
    {"low", 3, 384, 12, {"19000", "280000", "450000"}},
    {"medium", 6, 384, 12, {"14000", "180000", "320000"}},
    {"high", 12, 768, 12, {"2800", "45000", "85000"}},
};
static const char *const providers[] = {"cpu", "cuda", "tensorrt", "rocm", "vulkan", "opencl"};

/* --- The encoder as a graph; the first failure stays. --- */

typedef struct sketch {
    gale_graph *g;
    gale_status status;
    uint64_t seed;
    int dims;
} sketch;

static gale_value op(sketch *s, const char *name, const gale_value *in, int n, const gale_attr *attrs, int n_attrs)
{
    gale_value out = GALE_NONE;
    if (s->status == GALE_OK) s->status = gale_graph_op(s->g, name, in, n, attrs, n_attrs, &out, 1);
    return out;
}

static gale_value op2(sketch *s, const char *name, gale_value x, gale_value y)
{
    return op(s, name, (gale_value[]){x, y}, 2, NULL, 0);
}

static gale_value weights(sketch *s, int64_t rows, int64_t columns, float size)
{
    int64_t dims[2] = {rows ? rows : columns, columns};
    size_t n = (size_t)(rows ? rows : 1) * (size_t)columns;
    float *data = gale__alloc(n * sizeof *data);
    gale_value out = GALE_NONE;
    if (!data) s->status = GALE_NO_MEMORY;
    for (size_t i = 0; data && i < n; i++) {
        s->seed = s->seed * 6364136223846793005u + 1442695040888963407u;
        data[i] = (float)(int32_t)(s->seed >> 32) / 2147483648.f * size;
    }
    if (s->status == GALE_OK) s->status = gale_graph_constant(s->g, GALE_F32, rows ? 2 : 1, dims, data, &out);
    gale__free(data);
    return out;
}

static gale_value ints(sketch *s, const int64_t *values, int64_t n)
{
    gale_value out = GALE_NONE;
    if (s->status == GALE_OK) s->status = gale_graph_constant(s->g, GALE_I64, 1, &n, values, &out);
    return out;
}

static gale_value linear(sketch *s, gale_value x, int64_t from, int64_t to)
{
    return op2(s, "Add", op2(s, "MatMul", x, weights(s, from, to, 1.7f / sqrtf((float)from))), weights(s, 0, to, 0.1f));
}

static gale_value norm(sketch *s, gale_value x)
{
    const gale_attr axis[] = {GALE_INT("axis", -1)};
    gale_value in[3] = {x, weights(s, 0, s->dims, 1), weights(s, 0, s->dims, 0.1f)};
    return op(s, "LayerNormalization", in, 3, axis, 1);
}

/* [texts, tokens, dims] to [texts, heads, tokens, dims / heads], or with the last two transposed. */
static gale_value split(sketch *s, gale_value x, int heads, bool transposed)
{
    const int64_t parts[4] = {0, 0, heads, s->dims / heads}, order[4] = {0, 2, transposed ? 3 : 1, transposed ? 1 : 3};
    const gale_attr perm[] = {GALE_INTS("perm", order, 4)};
    gale_value cut = op2(s, "Reshape", x, ints(s, parts, 4));
    return op(s, "Transpose", &cut, 1, perm, 1);
}

static gale_value attention(sketch *s, gale_value x, int heads)
{
    const int64_t order[4] = {0, 2, 1, 3}, joined[3] = {0, 0, s->dims};
    const gale_attr perm[] = {GALE_INTS("perm", order, 4)}, axis[] = {GALE_INT("axis", -1)};
    gale_value q = split(s, linear(s, x, s->dims, s->dims), heads, false),
               k = split(s, linear(s, x, s->dims, s->dims), heads, true),
               v = split(s, linear(s, x, s->dims, s->dims), heads, false);
    const int64_t one = 1;
    float scale = 1 / sqrtf((float)s->dims / (float)heads);
    gale_value by = GALE_NONE;
    if (s->status == GALE_OK) s->status = gale_graph_constant(s->g, GALE_F32, 1, &one, &scale, &by);
    gale_value scores = op2(s, "Mul", op2(s, "MatMul", q, k), by);
    gale_value mixed = op2(s, "MatMul", op(s, "Softmax", &scores, 1, axis, 1), v);
    gale_value back = op(s, "Transpose", &mixed, 1, perm, 1);
    return linear(s, op2(s, "Reshape", back, ints(s, joined, 3)), s->dims, s->dims);
}

static gale_status build(const shape *of, gale_graph *g)
{
    sketch s = {.g = g, .seed = 1, .dims = of->dims};
    const int64_t open[2] = {-1, -1}, one = 1;
    const gale_attr flat[] = {GALE_INT("keepdims", 0)}, along[] = {GALE_INT("axis", -1)};
    gale_value ids, x;
    GALE_TRY(gale_graph_input(g, "ids", GALE_I64, 2, open, NULL, &ids));
    x = norm(&s, op2(&s, "Gather", weights(&s, VOCABULARY, of->dims, 1), ids));
    for (int i = 0; i < of->layers; i++) {
        x = norm(&s, op2(&s, "Add", x, attention(&s, x, of->heads)));
        gale_value wide = linear(&s, x, of->dims, 4 * of->dims);
        x = norm(&s, op2(&s, "Add", x, linear(&s, op(&s, "Gelu", &wide, 1, NULL, 0), 4 * of->dims, of->dims)));
    }
    gale_value mean = op(&s, "ReduceMean", (gale_value[]){x, ints(&s, &one, 1)}, 2, flat, 1);
    gale_value vector = op(&s, "LpNormalization", &mean, 1, along, 1);
    GALE_TRY(s.status);
    return gale_graph_output(g, "vector", vector);
}

/* --- Timing. --- */

typedef struct timing {
    gale_program *program;
    int64_t batch, length;
    bool alone;
    _Atomic uint64_t texts;
    _Atomic bool failed;
    uint64_t end_ns;
} timing;

static gale_status run_once(gale_program *program, int64_t batch, int64_t length)
{
    int64_t dims[2] = {batch, length};
    gale_tensor *in = NULL, *out = NULL;
    GALE_TRY(gale_tensor_create(NULL, GALE_I64, 2, dims, &in));
    int64_t *ids = gale_tensor_data(in);
    for (int64_t i = 0; i < batch * length; i++) ids[i] = (i * 7919 + i / 13) % VOCABULARY;
    gale_status status = gale_program_run(program, &in, &out, GALE_RUN_ON_HOST);
    gale_tensor_destroy(&in);
    gale_tensor_destroy(&out);
    return status;
}

static void run_lane(void *arg)
{
    timing *t = arg;
    gale__parallel_alone(t->alone);
    while (gale__time_ns() < t->end_ns && !atomic_load(&t->failed)) {
        if (run_once(t->program, t->batch, t->length) != GALE_OK) atomic_store(&t->failed, true);
        else atomic_fetch_add(&t->texts, (uint64_t)t->batch);
    }
}

static gale_status time_rate(timing *t, int lanes, double *rate)
{
    gale__thread threads[LANES_MOST];
    GALE_TRY(run_once(t->program, t->batch, t->length));
    uint64_t start = gale__time_ns();
    t->end_ns = start + ENOUGH_NS;
    int n = 0;
    for (; n < lanes; n++)
        if (gale__thread_begin(&threads[n], run_lane, t) != GALE_OK) break;
    for (int i = 0; i < n; i++) gale__thread_end(&threads[i]);
    if (atomic_load(&t->failed) || !n)
        return gale__fail(GALE_NO_MEMORY, "a concurrent run failed: not enough memory or threads");
    *rate = (double)atomic_load(&t->texts) / ((double)(gale__time_ns() - start) * 1e-9);
    return GALE_OK;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The median of one text at a time. */
static gale_status time_one(gale_program *program, int64_t length, double *seconds)
{
    double times[ONE_RUNS];
    for (int i = 0; i < 3; i++) GALE_TRY(run_once(program, 1, length));
    for (int i = 0; i < ONE_RUNS; i++) {
        uint64_t start = gale__time_ns();
        GALE_TRY(run_once(program, 1, length));
        times[i] = (double)(gale__time_ns() - start) * 1e-9;
    }
    qsort(times, ONE_RUNS, sizeof *times, by_size);
    *seconds = times[ONE_RUNS / 2];
    return GALE_OK;
}

/* --- Rows. --- */

typedef struct result {
    const shape *of;
    const char *provider;
    char device[128], why[200];
    double rate, one_s;
    int64_t batch;
    int lanes;
} result;

static gale_status time_shape(const gale__args *a, gale_device *device, int64_t length, result *r)
{
    gale_graph *g = NULL;
    gale_model_options o = {0};
    const gale_device_caps *caps = &gale_device_get_info(device)->caps;
    timing t = {.length = length, .alone = caps->host_functions};
    gale__model_options(a, &o);
    if (!o.program.precision) o.program.precision = o.precision;
    t.batch = (caps->host_functions ? TOKENS_HOST : TOKENS_DEVICE) / length;
    if (t.batch < 1) t.batch = 1;
    r->batch = t.batch;
    r->lanes = caps->host_functions ? gale__parallel_width() : 3;
    if (r->lanes > LANES_MOST) r->lanes = LANES_MOST;
    GALE_TRY(gale_graph_create(&g));
    gale_status status = build(r->of, g);
    if (status == GALE_OK) status = gale_program_create(g, device, &o.program, &t.program);
    if (status == GALE_OK) status = time_rate(&t, r->lanes, &r->rate);
    if (status == GALE_OK) status = time_one(t.program, length, &r->one_s);
    gale_program_destroy(&t.program);
    gale_graph_destroy(&g);
    return status;
}

static const char *claim_of(const result *r)
{
    for (int i = 0; i < 3; i++) /* in the order of the claims */
        if (r->provider == providers[i]) return r->of->claims[i];
    return "-";
}

static gale_status time_provider(const gale__args *a, const char *name, int64_t length, result *results, size_t *count)
{
    gale_device_options o = GALE_DEVICE_OPTIONS;
    gale_device *device = NULL;
    const char *filter = gale__args_text(a, "filter");
    bool named = gale__args_given(a, "provider");
    o.chain = name;
    o.strict = true;
    gale_status status = gale_device_open(&o, &device);
    if (status != GALE_OK) return named ? status : GALE_OK;
    const gale_device_info *info = gale_device_get_info(device);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes && (named || !info->caps.software); i++) {
        result *r = &results[*count];
        if (filter && !strstr(shapes[i].level, filter)) continue;
        *r = (result){.of = &shapes[i], .provider = name};
        snprintf(r->device, sizeof r->device, "%s", info->name);
        if (time_shape(a, device, length, r) != GALE_OK) snprintf(r->why, sizeof r->why, "%s", gale_error());
        ++*count;
    }
    gale_device_close(&device);
    return GALE_OK;
}

static int print_json(const result *list, size_t count, int64_t length)
{
    gale__str out = {0};
    gale__json_out j;
    gale__json_begin(&j, &out);
    gale__json_array(&j);
#define FIELD(name, kind, value) (gale__json_key(&j, name), gale__json_##kind(&j, value))
    for (size_t i = 0; i < count; i++) {
        const result *r = &list[i];
        gale__json_object(&j);
        FIELD("level", string, r->of->level);
        FIELD("provider", string, r->provider);
        FIELD("device", string, r->device);
        FIELD("tokens", i64, length);
        FIELD("batch", i64, r->batch);
        FIELD("lanes", i64, r->lanes);
        if (*r->why) FIELD("error", string, r->why);
        else {
            FIELD("texts_per_second", f64, r->rate);
            FIELD("one_seconds", f64, r->one_s);
        }
        gale__json_close(&j, '}');
    }
#undef FIELD
    gale__json_close(&j, ']');
    return gale__print(&out);
}

static gale_status print_table(const result *list, size_t count, int64_t length)
{
    gale__table t = {.align = "lllrrrrr"};
    static const char *const heads[] = {
        "level", "provider", "device", "batch", "texts/s", "us each", "us alone", "published texts/s"};
    for (int i = 0; i < 8; i++) gale__table_cell(&t, "%s", heads[i]);
    for (size_t i = 0; i < count; i++) {
        const result *r = &list[i];
        gale__table_cell(&t, "%s", r->of->level);
        gale__table_cell(&t, "%s", r->provider);
        gale__table_cell(&t, "%s", *r->why ? r->why : r->device);
        gale__table_cell(&t, "%lld", (long long)r->batch);
        gale__table_cell(&t, "%.0f", r->rate);
        gale__table_cell(&t, "%.1f", r->rate > 0 ? 1e6 / r->rate : 0);
        gale__table_cell(&t, "%.0f", r->one_s * 1e6);
        gale__table_cell(&t, "%s", claim_of(r));
    }
    GALE_TRY(gale__table_print(&t, stdout));
    printf("\n"
           "texts of %lld tokens, random weights, from tokens to vectors; published figures, without a text length: "
           "CPU with 16 cores, RTX 3090\n",
        (long long)length);
    return GALE_OK;
}

gale_status gale__bench_embed(const gale__args *a)
{
    result list[sizeof providers / sizeof *providers * 3];
    size_t count = 0;
    int64_t length = gale__args_int(a, "length");
    if (gale__args_given(a, "provider")) {
        const char *name = gale__args_text(a, "provider");
        for (size_t i = 0; i < sizeof providers / sizeof *providers; i++)
            if (!strcmp(providers[i], name)) name = providers[i];
        GALE_TRY(time_provider(a, name, length, list, &count));
    } else
        for (size_t i = 0; i < sizeof providers / sizeof *providers; i++)
            GALE_TRY(time_provider(a, providers[i], length, list, &count));
    if (gale__args_flag(a, "json")) return print_json(list, count, length), GALE_OK;
    return print_table(list, count, length);
}
