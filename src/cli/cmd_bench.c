/* gale bench: what the kernels that gale makes reach on a device, beside that device's own copy rate measured in the
 * same run. */
#include "cli/cli.h"
#include "cli/device_text.h"
#include "cli/model_bench.h"
#include "cli/model_inputs.h"
#include "cli/table.h"
#include "base/json.h"
#include "graph/run/time.h"
#include <math.h>
#include <string.h>

static const gale__arg args[] = {
    {"WHAT", 0, GALE__ARG_TEXT, "kernels|plan|start|upscale|tokenize|MODEL", "kernels", NULL,
        "kernels: memory-bound work; plan: making plans; start: the first kernel; upscale: a picture in 36 tiles on "
        "every provider; tokenize: texts a second; or an ONNX file"},
    {"model", 'm', GALE__ARG_FILE, "NAME|FILE", NULL, NULL,
        "upscale: the network; the one inside the program unless given; tokenize: the tokenizer"},
    {"texts", 0, GALE__ARG_FILE, NULL, NULL, NULL, "tokenize: a file with a text a line"},
    {"batch", 'b', GALE__ARG_INT, NULL, "1", "0..256", "upscale: tiles in one run of the network; 0: by memory"},
    {"lanes", 0, GALE__ARG_INT, NULL, "0", "0..256",
        "upscale: runs side by side; 0: as many as the device has use for and memory holds"},
    GALE__ARGS_MODEL_INPUTS,
    {"batches", 0, GALE__ARG_TEXT, "1,2,4", NULL, NULL,
        "a model: also the rate at these batch sizes, put in place of the first extents"},
    {"on-device", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "a model: inputs are on the device before the steady runs, and results stay there"},
    GALE__ARGS_MODEL_OPTIONS,
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    {"filter", 'f', GALE__ARG_TEXT, "TEXT", NULL, NULL, "only rows whose name contains this"},
    {"repeats", 'r', GALE__ARG_INT, "N", "30", "3..10000", "runs to take the median of"},
    {"scale", 0, GALE__ARG_INT, "N", "1", "1..1024", "divide the large sizes by this"},
    {"fast", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "programs with the device's own exp, log, sin, division instead of ours"},
    GALE__ARG_JSON,
    {0},
};

/* A graph being written; the first failure stays. */
typedef struct sketch {
    gale_graph *graph;
    gale_status status;
} sketch;

static gale_value op(sketch *s, const char *name, const gale_value *in, int n, const gale_attr *attrs, int n_attrs)
{
    gale_value out = GALE_NONE;
    if (s->status == GALE_OK) s->status = gale_graph_op(s->graph, name, in, n, attrs, n_attrs, &out, 1);
    return out;
}

static gale_value op1(sketch *s, const char *name, gale_value x) { return op(s, name, &x, 1, NULL, 0); }
static gale_value op2(sketch *s, const char *name, gale_value x, gale_value y)
{
    return op(s, name, (gale_value[]){x, y}, 2, NULL, 0);
}

static gale_value number(sketch *s, float v)
{
    gale_value out = GALE_NONE;
    if (s->status == GALE_OK) s->status = gale_graph_constant(s->graph, GALE_F32, 0, NULL, &v, &out);
    return out;
}

static gale_value ints(sketch *s, int n, const int64_t *v)
{
    gale_value out = GALE_NONE;
    int64_t dims[1] = {n};
    if (s->status == GALE_OK) s->status = gale_graph_constant(s->graph, GALE_I64, 1, dims, v, &out);
    return out;
}

static void output(sketch *s, gale_value v)
{
    if (s->status == GALE_OK) s->status = gale_graph_output(s->graph, "y", v);
}

typedef struct item {
    const char *name;
    int rank;
    int64_t dims[4];
    void (*build)(sketch *s, gale_value x, const int64_t *dims);
    double bytes_per_element; /* that must move, for each element of the input */
} item;

static void chain(sketch *s, gale_value x, const int64_t *dims)
{
    (void)dims;
    gale_value y = op1(s, "Relu", op2(s, "Add", op2(s, "Mul", x, number(s, 1.7f)), number(s, 0.3f)));
    output(s, op2(s, "Sub", op2(s, "Mul", y, y), x));
}

static void relu_line(sketch *s, gale_value x, const int64_t *dims)
{
    (void)dims;
    output(s, op1(s, "Relu", op2(s, "Add", op2(s, "Mul", x, number(s, 1.7f)), number(s, 0.3f))));
}

static void softmax(sketch *s, gale_value x, const int64_t *dims)
{
    (void)dims;
    output(s, op1(s, "Softmax", x));
}

static void layer_norm(sketch *s, gale_value x, const int64_t *dims)
{
    gale_value scale = GALE_NONE, bias = GALE_NONE;
    float *ones = gale__alloc((size_t)dims[1] * sizeof *ones);
    for (int64_t i = 0; ones && i < dims[1]; i++) ones[i] = 0.5f + (float)(i % 7) * 0.125f;
    if (!ones) s->status = GALE_NO_MEMORY;
    if (s->status == GALE_OK) s->status = gale_graph_constant(s->graph, GALE_F32, 1, &dims[1], ones, &scale);
    if (s->status == GALE_OK) s->status = gale_graph_constant(s->graph, GALE_F32, 1, &dims[1], ones, &bias);
    gale__free(ones);
    output(s, op(s, "LayerNormalization", (gale_value[]){x, scale, bias}, 3, NULL, 0));
}

/* x 2^1, the ACES curve, gamma 2.2, 8 bit rounded. */
static void tone_map(sketch *s, gale_value x, const int64_t *dims)
{
    static const gale_attr to_u8[] = {GALE_INT("to", 2)}; /* ONNX's number for uint8 */
    (void)dims;
    x = op2(s, "Mul", x, number(s, 2));
    gale_value a = op2(s, "Mul", x, op2(s, "Add", op2(s, "Mul", x, number(s, 2.51f)), number(s, 0.03f)));
    gale_value b = op2(s, "Add", op2(s, "Mul", x, op2(s, "Add", op2(s, "Mul", x, number(s, 2.43f)), number(s, 0.59f))),
        number(s, 0.14f));
    gale_value y = op(s, "Clip", (gale_value[]){op2(s, "Div", a, b), number(s, 0), number(s, 1)}, 3, NULL, 0);
    y = op1(s, "Exp", op2(s, "Mul", op1(s, "Log", y), number(s, 1 / 2.2f)));
    y = op2(s, "Add", op2(s, "Mul", y, number(s, 255)), number(s, 0.5f));
    output(s, op(s, "Cast", &y, 1, to_u8, 1));
}

/* [H, W, 4]: averages of 2 x 2 down to one pixel, an odd edge repeated. */
static void mip_chain(sketch *s, gale_value x, const int64_t *dims)
{
    static const gale_attr edge[] = {GALE_STRING_ATTR("mode", "edge")};
    static const gale_attr flat[] = {GALE_INT("keepdims", 0)};
    int64_t h = dims[0], w = dims[1];
    while (h > 1 || w > 1) {
        if (h % 2 || w % 2)
            x = op(s, "Pad", (gale_value[]){x, ints(s, 6, (int64_t[]){0, 0, 0, h % 2, w % 2, 0})}, 2, edge, 1);
        h = (h + 1) / 2, w = (w + 1) / 2;
        x = op2(s, "Reshape", x, ints(s, 5, (int64_t[]){h, 2, w, 2, 4}));
        x = op(s, "ReduceMean", (gale_value[]){x, ints(s, 2, (int64_t[]){1, 3})}, 2, flat, 1);
        output(s, x);
    }
}

/* Kernels that do not fuse: soft maxima along one axis and the other in turn. */
static gale_value in_turn(sketch *s, gale_value x, int count)
{
    for (int i = 0; i < count; i++) x = op(s, "Softmax", &x, 1, (const gale_attr[]){GALE_INT("axis", i % 2)}, 1);
    return x;
}

static void hundred(sketch *s, gale_value x, const int64_t *dims)
{
    (void)dims;
    output(s, in_turn(s, x, 100));
}

static void matmul(sketch *s, gale_value x, const int64_t *dims)
{
    (void)dims;
    output(s, op2(s, "MatMul", x, x));
}

enum { MILLIONS_64 = 1 << 26 };
static const item items[] = {
    {"max(a*x+b, 0)", 1, {MILLIONS_64}, relu_line, 8},
    {"element-wise chain", 1, {MILLIONS_64}, chain, 8},
    {"softmax, rows of 64", 2, {MILLIONS_64 / 64, 64}, softmax, 8},
    {"softmax, rows of 1024", 2, {MILLIONS_64 / 1024, 1024}, softmax, 8},
    {"softmax, rows of 16384", 2, {MILLIONS_64 / 16384, 16384}, softmax, 8},
    {"layer norm, rows of 64", 2, {MILLIONS_64 / 64, 64}, layer_norm, 8},
    {"layer norm, rows of 1024", 2, {MILLIONS_64 / 1024, 1024}, layer_norm, 8},
    {"layer norm, rows of 16384", 2, {MILLIONS_64 / 16384, 16384}, layer_norm, 8},
    {"ACES tone map 3840x2160", 3, {2160, 3840, 4}, tone_map, 5},
    {"MIP chain 3840x2160", 3, {2160, 3840, 4}, mip_chain, 4 * (1 + 2 / 3.0)},
    {"100 small kernels", 2, {32, 32}, hundred, 800},
    {"matmul 1024", 2, {1024, 1024}, matmul, 12},
    {"matmul 4096", 2, {4096, 4096}, matmul, 12},
};

static gale_status make_input(gale_device *device, const item *it, const int64_t *dims, gale_tensor **out)
{
    int64_t n = 1;
    for (int i = 0; i < it->rank; i++) n *= dims[i];
    float *data = gale__alloc((size_t)n * sizeof *data);
    if (!data) return GALE_NO_MEMORY;
    uint32_t state = 1;
    for (int64_t i = 0; i < n; i++) data[i] = (float)((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-24f;
    gale_status status = gale_tensor_from_cpu(device, GALE_F32, it->rank, dims, data, out);
    gale__free(data);
    return status;
}

static gale_status make_program(gale_device *device, const item *it, const int64_t *dims, bool fast, gale_program **out)
{
    sketch s = {0};
    gale_value x;
    gale_status status;
    GALE_TRY(gale_graph_create(&s.graph));
    GALE_GO(gale_graph_input(s.graph, "x", GALE_F32, it->rank, dims, NULL, &x));
    it->build(&s, x, dims);
    GALE_GO(s.status);
    status = gale_program_create(s.graph, device, &(gale_program_options){.fast = fast}, out);
done:
    gale_graph_destroy(&s.graph);
    return status;
}

static gale_status bench_item(
    gale_device *device, const item *it, int64_t scale, int repeats, bool fast, gale__timing *t, double *needed)
{
    gale_tensor *x = NULL;
    gale_program *p = NULL;
    gale_status status;
    int64_t dims[4], n = 1;
    memcpy(dims, it->dims, sizeof dims);
    if (dims[0] >= scale * 16 && it->build != matmul && it->build != hundred) dims[0] /= scale;
    for (int i = 0; i < it->rank; i++) n *= dims[i];
    GALE_GO(make_input(device, it, dims, &x));
    GALE_GO(make_program(device, it, dims, fast, &p));
    GALE_GO(gale__program_time(p, &x, repeats, t));
    *needed = (double)n * it->bytes_per_element;
done:
    gale_program_destroy(&p);
    gale_tensor_destroy(&x);
    return status;
}

typedef struct results {
    gale__table table;
    gale__json_out json;
    gale__str text;
    bool as_json, fast;
    double copy_gbps;
} results;

static void add_result(results *r, const char *name, const gale__timing *t, double needed)
{
    double gbps = needed / t->median_us / 1e3, share = r->copy_gbps > 0 ? 100 * gbps / r->copy_gbps : 0;
    if (r->as_json) {
        gale__json_object(&r->json);
        gale__json_key(&r->json, "name"), gale__json_string(&r->json, name);
        gale__json_key(&r->json, "median_us"), gale__json_f64(&r->json, t->median_us);
        gale__json_key(&r->json, "least_us"), gale__json_f64(&r->json, t->least_us);
        gale__json_key(&r->json, "gbps"), gale__json_f64(&r->json, gbps);
        gale__json_key(&r->json, "share_of_copy"), gale__json_f64(&r->json, share / 100);
        gale__json_key(&r->json, "gflops"), gale__json_f64(&r->json, t->operations / t->median_us / 1e3);
        gale__json_key(&r->json, "kernels"), gale__json_i64(&r->json, t->kernels);
        gale__json_key(&r->json, "fast"), gale__json_bool(&r->json, r->fast);
        gale__json_close(&r->json, '}');
        return;
    }
    gale__table_cell(&r->table, "%s", name);
    gale__table_cell(&r->table, "%d", t->kernels);
    gale__table_cell(&r->table, "%.1f", t->median_us);
    gale__table_cell(&r->table, "%.1f", t->least_us);
    gale__table_cell(&r->table, "%.1f", gbps);
    gale__table_cell(&r->table, "%.1f %%", share);
    gale__table_cell(&r->table, "%.0f", t->operations / t->median_us / 1e3);
    gale__table_cell(&r->table, "%s", t->replayed ? "replayed" : "");
}

static gale_status bench_kernels(gale_device *device, const gale__args *a)
{
    results r = {
        .table = {.align = "lrrrrrrl"}, .as_json = gale__args_flag(a, "json"), .fast = gale__args_flag(a, "fast")};
    int repeats = (int)gale__args_int(a, "repeats");
    int64_t scale = gale__args_int(a, "scale");
    const char *filter = gale__args_text(a, "filter");
    size_t size = (size_t)MILLIONS_64 * 4 / (size_t)scale;
    gale__timing copy = {.kernels = 0};
    GALE_TRY(gale__copy_time(device, size, repeats, &copy.median_us));
    copy.least_us = copy.median_us;
    r.copy_gbps = 2 * (double)size / copy.median_us / 1e3;
    gale__json_begin(&r.json, &r.text);
    if (r.as_json) gale__json_array(&r.json);
    if (r.fast && !r.as_json) printf("fast: with the device's own exp, log, sin, cos, square root and division\n");
    static const char *const head[] = {"work", "kernels", "median us", "least us", "GB/s", "of copy", "GFLOP/s", ""};
    for (size_t i = 0; i < 8 && !r.as_json; i++) gale__table_cell(&r.table, "%s", head[i]);
    add_result(&r, "copy", &copy, 2 * (double)size);
    gale_status status = GALE_OK;
    for (size_t i = 0; i < sizeof items / sizeof *items && status == GALE_OK; i++) {
        gale__timing t = {0};
        double needed = 0;
        if (filter && !strstr(items[i].name, filter)) continue;
        status = bench_item(device, &items[i], scale, repeats, r.fast, &t, &needed);
        if (status == GALE_OK) add_result(&r, items[i].name, &t, needed);
        else gale__fail_within(status, "%s", items[i].name);
    }
    if (r.as_json) {
        gale__json_close(&r.json, ']');
        gale__print(&r.text);
    } else gale__table_print(&r.table, stdout);
    gale__str_finish(&r.text);
    return status;
}

/* A program of `n` kernels: how long planning one more signature takes once its kernels are known. */
static gale_status bench_plan(gale_device *device, const gale__args *a)
{
    enum { KERNELS = 1000 };
    sketch s = {0};
    gale_program *p = NULL;
    gale_value x;
    gale_status status;
    int64_t free_dims[2] = {-1, 64};
    double least = INFINITY;
    (void)a;
    GALE_TRY(gale_graph_create(&s.graph));
    GALE_GO(gale_graph_input(s.graph, "x", GALE_F32, 2, free_dims, NULL, &x));
    output(&s, in_turn(&s, x, KERNELS));
    GALE_GO(s.status);
    GALE_GO(gale_program_create(s.graph, device, NULL, &p));
    int kernels = 0;
    for (int64_t n = 2; n < 22; n++) {
        gale_tensor *t = NULL;
        int64_t dims[2] = {n, 64};
        GALE_GO(gale_tensor_create(device, GALE_F32, 2, dims, &t));
        uint64_t start = gale__time_ns();
        status = gale__program_kernels(p, &t, &kernels);
        double ms = (double)(gale__time_ns() - start) / 1e6;
        gale_tensor_destroy(&t);
        GALE_GO(status);
        if (ms < least && n > 2) least = ms;
    }
    printf("a program of %d kernels is planned for a new shape in %.2f ms (%.2f us a kernel)\n", kernels, least,
        1e3 * least / kernels);
done:
    gale_program_destroy(&p);
    gale_graph_destroy(&s.graph);
    return status;
}

/* Time from an open device to the result of a first kernel. */
static gale_status bench_start(gale_device *device, const gale__args *a)
{
    static const item one = {"first kernel", 1, {4096}, chain, 8};
    gale_tensor *x = NULL, *y = NULL;
    gale_program *p = NULL;
    gale_status status;
    GALE_GO(make_input(device, &one, one.dims, &x));
    uint64_t start = gale__time_ns();
    GALE_GO(make_program(device, &one, one.dims, gale__args_flag(a, "fast"), &p));
    GALE_GO(gale_program_run(p, &x, &y, true));
    printf("first kernel %.1f ms after the device was open\n", (double)(gale__time_ns() - start) / 1e6);
done:
    gale_program_destroy(&p);
    gale_tensor_destroy(&x);
    gale_tensor_destroy(&y);
    return status;
}

static int run(const gale__args *a)
{
    gale_device *device = NULL;
    const char *what = gale__args_text(a, "WHAT");
    if (!strcmp(what, "upscale")) return gale__report(gale__bench_upscale(a));
    if (!strcmp(what, "tokenize")) return gale__report(gale__bench_tokenize(a));
    gale_status status = gale_device_open(NULL, &device);
    if (status == GALE_OK) {
        const gale_device_info *info = gale_device_get_info(device);
        if (!gale__args_flag(a, "json"))
            printf("%s %d: %s (%s)\n", info->backend, info->index, info->name, info->driver);
        if (!strcmp(what, "plan")) status = bench_plan(device, a);
        else if (!strcmp(what, "start")) status = bench_start(device, a);
        else if (!strcmp(what, "kernels")) status = bench_kernels(device, a);
        else status = gale__bench_model(device, what, a);
    }
    gale_device_close(&device);
    return gale__report(status);
}

const gale__command gale__command_bench = {
    args,
    run,
    "Times generated kernels, or a model, on one device.  The copy rate of the device is measured in the same run, and "
    "every row says which share of it "
    "the work reaches, counting each byte that must move once.  Times are the device's own, of runs that are replayed "
    "from a capture where "
    "the driver can.",
    "gale bench kernels --provider cuda\n"
    "gale bench kernels --provider cpu --scale 8   # smaller\n"
    "gale bench plan --provider cpu\n"
    "gale bench upscale --model scunet.onnx        # pictures in tiles, on every provider\n"
    "gale bench tokenize --model all-MiniLM-L6-v2 --texts texts.txt\n"
    "gale bench model.onnx --shape x=1x3x256x256   # a model: cold start, percentiles, memory",
};
