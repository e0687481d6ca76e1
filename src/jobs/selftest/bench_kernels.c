/* What the kernels that gale makes reach on a device, beside that device's own copy rate measured in the same run. */
#include "base/thread.h"
#include "device/device.h"
#include "gale/selftest.h"
#include "graph/run/time.h"
#include "jobs/job.h"
#include <math.h>
#include <string.h>

enum { REPEATS = 30 };

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
    GALE_GO(gale__program_time(p, &x, repeats, UINT64_MAX, t));
    *needed = (double)n * it->bytes_per_element;
done:
    gale_program_destroy(&p);
    gale_tensor_destroy(&x);
    return status;
}

/* --- Rows. --- */

typedef struct rows {
    const gale_kernels_options *options;
    gale_kernels_result *result;
    gale_kernel_time *list; /* the result's */
    double copy_gbps;
} rows;

static gale_status add_row(rows *r, const char *name, const gale__timing *t, double needed)
{
    gale_kernel_time *to = gale__arena_add(gale__result_arena(r->result), &r->list, &r->result->n_rows, sizeof *to);
    if (!to) return GALE_NO_MEMORY;
    double gbps = needed / t->median_us / 1e3;
    *to = (gale_kernel_time){.name = name,
        .median_us = t->median_us,
        .least_us = t->least_us,
        .gbps = gbps,
        .share_of_copy = r->copy_gbps > 0 ? gbps / r->copy_gbps : 0,
        .gflops = t->operations / t->median_us / 1e3,
        .kernels = t->kernels,
        .replayed = t->replayed};
    r->result->rows = r->list;
    if (r->options->row_done) r->options->row_done(r->options->user, to);
    return GALE_OK;
}

static gale_status time_copy(gale_device *device, rows *r, int64_t scale, int repeats)
{
    size_t size = (size_t)MILLIONS_64 * 4 / (size_t)scale;
    gale__timing copy = {.kernels = 0};
    GALE_TRY(gale__copy_time(device, size, repeats, &copy.median_us));
    copy.least_us = copy.median_us;
    r->copy_gbps = 2 * (double)size / copy.median_us / 1e3;
    return add_row(r, "copy", &copy, 2 * (double)size);
}

static gale_status bench_kernels(gale_device *device, rows *r)
{
    const gale_kernels_options *o = r->options;
    int repeats = o->repeats ? o->repeats : REPEATS;
    int64_t scale = o->scale ? o->scale : 1;
    size_t count = sizeof items / sizeof *items;
    GALE_TRY(time_copy(device, r, scale, repeats));
    for (size_t i = 0; i < count; i++) {
        gale__timing t = {0};
        double needed = 0;
        GALE_TRY(gale__job_tell(&o->control, "kernels", "rows", i, count));
        if (o->filter && !strstr(items[i].name, o->filter)) continue;
        gale_status status = bench_item(device, &items[i], scale, repeats, o->fast, &t, &needed);
        if (status != GALE_OK) return gale__fail_within(status, "%s", items[i].name);
        GALE_TRY(add_row(r, items[i].name, &t, needed));
    }
    return gale__job_tell(&o->control, "kernels", "rows", count, count);
}

gale_status gale_kernels_bench(gale_device *device, const gale_kernels_options *options, gale_kernels_result **out)
{
    GALE__NEED({"device", device}, {"out", out});
    GALE__OPTIONS(options);
    GALE__WITHIN(device->context);
    static const gale_kernels_options usual = {0};
    rows r = {.options = options ? options : &usual};
    if (r.options->repeats < 0 || r.options->scale < 0 || r.options->scale > 1024)
        return gale__fail(GALE_INVALID, "kernels: repeats must be at least 1, and scale 1 to 1024");
    r.result = gale__result_create(sizeof *r.result);
    if (r.result) r.result->fast = r.options->fast;
    gale_status status = r.result ? bench_kernels(device, &r) : GALE_NO_MEMORY;
    return gale__result_give(status, r.result, out);
}

GALE__RESULT_DESTROY(gale_kernels_result)

GALE__RESULT_JSON(gale_kernels_result, '[')
{
    for (size_t i = 0; i < r->n_rows; i++) {
        const gale_kernel_time *t = &r->rows[i];
        gale__json_object(j);
        gale__json_put_text(j, "name", t->name);
        gale__json_put_f64(j, "median_us", t->median_us);
        gale__json_put_f64(j, "least_us", t->least_us);
        gale__json_put_f64(j, "gbps", t->gbps);
        gale__json_put_f64(j, "share_of_copy", t->share_of_copy);
        gale__json_put_f64(j, "gflops", t->gflops);
        gale__json_put_i64(j, "kernels", t->kernels);
        gale__json_put_bool(j, "fast", r->fast);
        gale__json_close(j, '}');
    }
}

/* --- Planning, and the first kernel. --- */

static gale_status time_plan(gale_device *device, gale_program *p, int64_t n, int *kernels, double *ms)
{
    gale_tensor *t = NULL;
    int64_t dims[2] = {n, 64};
    GALE_TRY(gale_tensor_create(device, GALE_F32, 2, dims, &t));
    uint64_t start = gale__time_ns();
    gale_status status = gale__program_kernels(p, &t, kernels);
    *ms = (double)(gale__time_ns() - start) / 1e6;
    gale_tensor_destroy(&t);
    return status;
}

gale_status gale_planning_bench(gale_device *device, const gale_job_control *control, gale_planning_time *out)
{
    GALE__NEED({"device", device}, {"out", out});
    GALE__WITHIN(device->context);
    enum { KERNELS = 1000, SHAPES = 20 };
    sketch s = {0};
    gale_program *p = NULL;
    gale_planning_time found = {.best_ms = INFINITY};
    gale_value x;
    gale_status status;
    int64_t free_dims[2] = {-1, 64};
    GALE_TRY(gale_graph_create(&s.graph));
    GALE_GO(gale_graph_input(s.graph, "x", GALE_F32, 2, free_dims, NULL, &x));
    output(&s, in_turn(&s, x, KERNELS));
    GALE_GO(s.status);
    GALE_GO(gale_program_create(s.graph, device, NULL, &p));
    for (int i = 0; i < SHAPES; i++) {
        double ms;
        GALE_GO(gale__job_tell(control, "planning", "shapes", (uint64_t)i, SHAPES));
        GALE_GO(time_plan(device, p, i + 2, &found.kernels, &ms));
        if (ms < found.best_ms && i) found.best_ms = ms; /* the first makes the kernels */
    }
    GALE_GO(gale__job_tell(control, "planning", "shapes", SHAPES, SHAPES));
    *out = found;
done:
    gale_program_destroy(&p);
    gale_graph_destroy(&s.graph);
    return status;
}

gale_status gale_start_bench(gale_device *device, gale_flags flags, double *time_ms)
{
    GALE__NEED({"device", device}, {"time_ms", time_ms});
    GALE__FLAGS(flags, GALE_BENCH_FAST);
    GALE__WITHIN(device->context);
    static const item one = {"first kernel", 1, {4096}, chain, 8};
    gale_tensor *x = NULL, *y = NULL;
    gale_program *p = NULL;
    gale_status status;
    GALE_GO(make_input(device, &one, one.dims, &x));
    uint64_t start = gale__time_ns();
    GALE_GO(make_program(device, &one, one.dims, flags & GALE_BENCH_FAST, &p));
    GALE_GO(gale_program_run(p, &x, &y, GALE_RUN_ON_HOST));
    *time_ms = (double)(gale__time_ns() - start) / 1e6;
done:
    gale_program_destroy(&p);
    gale_tensor_destroy(&x);
    gale_tensor_destroy(&y);
    return status;
}
