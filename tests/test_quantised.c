/* Quantised layers as exporters write them, between DequantizeLinear and QuantizeLinear: convolutions of every kind,
 * residual sums, Gemm; held against plain loops.  Where a processor multiplies floats instead, a level may differ by
 * one where a result lies in the middle between two. */
#include "base/limits.h"
#include "graph/run/program.h"
#include "kernel/cpu/interp.h"
#include "op_graph.h"
#include <limits.h>
#include <math.h>

static gale_device *device;

typedef struct layer {
    int64_t n, c, o, groups, side, kernel, stride, pad;
    bool residual, has_sign, wild; /* wild: scales at the ends of the range of floats */
} layer;

static uint32_t seed = 1;
static int any(int low, int high)
{
    seed = seed * 1664525u + 1013904223u;
    return low + (int)((seed >> 8) % (uint32_t)(high - low + 1));
}

typedef struct data {
    int64_t out, rows, results;
    uint8_t *x, *skip; /* of type I8 where has_sign */
    int8_t *w;
    float *w_scale, *bias, x_scale, y_scale, skip_scale, z_scale;
    uint8_t x_zero, y_zero, skip_zero, z_zero;
} data;

static void make(const layer *l, data *d)
{
    int64_t rows = l->o, k = l->c / l->groups * l->kernel * l->kernel;
    d->out = (l->side + 2 * l->pad - l->kernel) / l->stride + 1;
    d->results = l->n * l->o * d->out * d->out;
    d->x = gale__alloc((size_t)(l->n * l->c * l->side * l->side));
    d->skip = gale__alloc((size_t)d->results);
    d->w = gale__alloc((size_t)(rows * k));
    d->w_scale = gale__alloc((size_t)rows * sizeof(float));
    d->bias = gale__alloc((size_t)rows * sizeof(float));
    for (int64_t i = 0; i < l->n * l->c * l->side * l->side; i++) d->x[i] = (uint8_t)any(0, 255);
    for (int64_t i = 0; i < d->results; i++) d->skip[i] = (uint8_t)any(0, 255);
    for (int64_t i = 0; i < rows * k; i++) d->w[i] = (int8_t)any(-127, 127);
    float all = l->wild ? 0x1p-64f : 1;
    for (int64_t i = 0; i < rows; i++) d->w_scale[i] = all * (float)any(10, 99) / 10000, d->bias[i] = (float)any(-9, 9);
    d->x_scale = 0.021f, d->skip_scale = 0.033f, d->z_scale = 0.11f;
    d->y_scale = all * 0.013f * sqrtf((float)k);
    if (l->wild)
        for (int64_t i = 0; i < rows; i++) d->bias[i] = 0;
    d->x_zero = l->has_sign ? (uint8_t)-3 : 117, d->y_zero = l->has_sign ? 5 : 130, d->skip_zero = 7, d->z_zero = 0;
}

static void drop(data *d)
{
    gale__free(d->x), gale__free(d->skip), gale__free(d->w), gale__free(d->w_scale), gale__free(d->bias);
}

static int number(const layer *l, uint8_t v) { return l->has_sign ? (int8_t)v : v; }

/* In double precision.  *tie: so near to the middle of two levels that roundings in f32 decide. */
static uint8_t level(const layer *l, double v, double by, uint8_t zero, bool *tie)
{
    double q = v / by, y = rint(q) + number(l, zero), low = l->has_sign ? -128 : 0, high = l->has_sign ? 127 : 255;
    *tie |= fabs(fabs(q - rint(q)) - 0.5) < 1e-4;
    return (uint8_t)(int)(y < low ? low : y > high ? high : y);
}

static uint8_t expected(const layer *l, const data *d, int64_t i, bool *tie)
{
    int64_t x = i % d->out, y = i / d->out % d->out, o = i / d->out / d->out % l->o, n = i / d->out / d->out / l->o,
            each = l->c / l->groups, sum = 0;
    for (int64_t k = 0; k < each * l->kernel * l->kernel; k++) {
        int64_t yy = y * l->stride + k / l->kernel % l->kernel - l->pad, xx = x * l->stride + k % l->kernel - l->pad,
                c = o / (l->o / l->groups) * each + k / l->kernel / l->kernel;
        if (yy < 0 || yy >= l->side || xx < 0 || xx >= l->side) continue;
        sum += (number(l, d->x[((n * l->c + c) * l->side + yy) * l->side + xx]) - number(l, d->x_zero)) *
               d->w[o * each * l->kernel * l->kernel + k];
    }
    double scaled = (double)sum * d->x_scale * d->w_scale[o];
    uint8_t q = level(l, scaled + d->bias[o], d->y_scale, d->y_zero, tie);
    if (!l->residual) return q;
    double a = (double)(number(l, q) - number(l, d->y_zero)) * d->y_scale,
           b = (double)(number(l, d->skip[i]) - number(l, d->skip_zero)) * d->skip_scale;
    return level(l, a + b, d->z_scale, d->z_zero, tie);
}

static gale_value quantise(og *t, const char *op, gale_value x, gale_type type, const float *scale, const void *zero)
{
    return og_op(
        t, op, (gale_value[]){x, og_data(t, GALE_F32, 0, NULL, scale), og_data(t, type, 0, NULL, zero)}, 3, NULL, 0);
}

enum { MAP_LAST = 1, RESULT_LAST = 2, FORMS = 4 }; /* values whose channels are last in memory */

/* A map that is given as such. */
static gale_value given_last(og *t, gale_type type, const int64_t *dims, const uint8_t *bytes)
{
    const int64_t turned[4] = {dims[0], dims[2], dims[3], dims[1]};
    int64_t plane = dims[2] * dims[3], n = dims[0] * dims[1] * plane;
    uint8_t *copy = gale__alloc((size_t)n);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i % plane, c = i / plane % dims[1];
        copy[(i / plane / dims[1] * plane + at) * dims[1] + c] = bytes[i];
    }
    gale_value v = og_given(t, type, 4, turned, copy);
    gale__free(copy);
    return OG_TRANSPOSE(t, v, 0, 3, 1, 2);
}

static gale_value give(og *t, bool last, gale_type type, const int64_t *dims, const uint8_t *bytes)
{
    return last ? given_last(t, type, dims, bytes) : og_given(t, type, 4, dims, bytes);
}

static gale_value build(og *t, const layer *l, const data *d, int form)
{
    const int64_t dims_x[4] = {l->n, l->c, l->side, l->side},
                  dims_w[4] = {l->o, l->c / l->groups, l->kernel, l->kernel}, dims_y[4] = {l->n, l->o, d->out, d->out},
                  strides[2] = {l->stride, l->stride}, pads[4] = {l->pad, l->pad, l->pad, l->pad};
    gale_type type = l->has_sign ? GALE_I8 : GALE_U8;
    gale_attr attrs[3] = {GALE_INTS("strides", strides, 2), GALE_INTS("pads", pads, 4), GALE_INT("group", l->groups)},
              axis = GALE_INT("axis", 0);
    gale_value x = quantise(
                   t, "DequantizeLinear", give(t, form & MAP_LAST, type, dims_x, d->x), type, &d->x_scale, &d->x_zero),
               w = og_op(t, "DequantizeLinear",
                   (gale_value[]){og_data(t, GALE_I8, 4, dims_w, d->w), og_data(t, GALE_F32, 1, dims_w, d->w_scale)}, 2,
                   &axis, 1),
               y = og_op(t, "Conv", (gale_value[]){x, w, og_data(t, GALE_F32, 1, dims_w, d->bias)}, 3, attrs, 3);
    y = quantise(t, "QuantizeLinear", y, type, &d->y_scale, &d->y_zero);
    if (!l->residual) return y;
    y = quantise(t, "DequantizeLinear", y, type, &d->y_scale, &d->y_zero);
    gale_value skip = quantise(
        t, "DequantizeLinear", give(t, form & RESULT_LAST, type, dims_y, d->skip), type, &d->skip_scale, &d->skip_zero);
    return quantise(t, "QuantizeLinear", og_op2(t, "Add", y, skip), type, &d->z_scale, &d->z_zero);
}

/* Bytes are those of double precision, but where it is a tie: then they are one level apart at most. */
static void check_bytes(const layer *l, const data *d, const uint8_t *have)
{
    int64_t wrong = 0, worst = 0;
    for (int64_t i = 0; i < d->results; i++) {
        bool tie = false;
        int64_t off = llabs((long long)number(l, have[i]) - number(l, expected(l, d, i, &tie)));
        wrong += off > 0 && !tie;
        if (off > worst) worst = off;
    }
    if (!CHECK(worst <= 1 && wrong == 0))
        printf("  %lld to %lld channels, kernel %lld: %lld of %lld are wrong, by up to %lld\n", (long long)l->c,
            (long long)l->o, (long long)l->kernel, (long long)wrong, (long long)d->results, (long long)worst);
}

/* Whether kernels have this form, where the processor has any. */
static bool has_kernel(const layer *l, int form)
{
    bool alone = l->groups == l->c && l->groups == l->o;
    return (form & RESULT_LAST) && gale__cpu_last_bytes_kernels() && l->o >= 8 && l->c > 1 &&
           (l->groups == 1 || (alone && (form & MAP_LAST) && !l->residual)) && (l->kernel <= 7 || !alone);
}

static bool runs_last(gale_program *p, og *t)
{
    gale__instance *i = NULL;
    bool found = false;
    if (!CHECK_OK(gale__program_instance(p, t->inputs, &i))) return false;
    for (int k = 0; k < i->plan->n_steps; k++) found |= strstr(i->plan->steps[k].tag.name, "channels last") != NULL;
    gale__instance_release(p, i);
    return found;
}

/* The bytes of a form, with so many threads, as declared. */
static uint8_t *run_form(const layer *l, const data *d, int form, int threads)
{
    gale__limits limits = {.threads = threads};
    gale_program *p = NULL;
    gale_tensor *y = NULL;
    uint8_t *out = gale__calloc((size_t)d->results, 1);
    og t;
    og_begin(&t);
    gale_value v = build(&t, l, d, form);
    og_output(&t, form & RESULT_LAST ? OG_TRANSPOSE(&t, v, 0, 2, 3, 1) : v);
    gale__limits_enter(&limits);
    if (CHECK_OK(t.status) && CHECK_OK(gale_program_create(t.graph, device, NULL, &p)) &&
        CHECK_OK(gale_program_run(p, t.inputs, &y, GALE_RUN_ON_HOST))) {
        const uint8_t *have = gale_tensor_data(y);
        int64_t plane = d->out * d->out;
        for (int64_t i = 0; i < d->results; i++)
            out[i] =
                form & RESULT_LAST ? have[(i / plane / l->o * plane + i % plane) * l->o + i / plane % l->o] : have[i];
        if (!CHECK(!has_kernel(l, form) || runs_last(p, &t)))
            printf("  %d to %d channels, kernel %d, form %d: not channels last\n", (int)l->c, (int)l->o, (int)l->kernel,
                form);
    }
    gale__limits_leave(&limits);
    gale_tensor_destroy(&y);
    gale_program_destroy(&p);
    og_end(&t);
    return out;
}

/* Every form has the same bytes. */
static void check_layer(const layer *l)
{
    data d;
    make(l, &d);
    uint8_t *have = run_form(l, &d, 0, 0);
    check_bytes(l, &d, have);
    for (int form = 0; form < FORMS; form++)
        for (int threads = 1; threads <= 3; threads += 2) {
            if (test_emulated() && (form + form / 2 + threads / 2) % 2) continue; /* each form with one of the two */
            uint8_t *other = run_form(l, &d, form, threads);
            if (!CHECK(!memcmp(have, other, (size_t)d.results)))
                printf("  %d to %d channels, kernel %d: form %d differs\n", (int)l->c, (int)l->o, (int)l->kernel, form);
            gale__free(other);
        }
    gale__free(have);
    drop(&d);
}

TEST(convolutions)
{
    static const layer rows[] = {
        {1, 3, 16, 1, 33, 3, 2, 1, false, false, false}, /* first layers, whose channels fill no unit */
        {2, 3, 9, 1, 20, 7, 2, 3, false, false, false},
        {1, 5, 8, 1, 14, 3, 1, 1, false, true, false},
        {1, 1, 5, 1, 40, 11, 1, 0, false, false, false},
        {1, 12, 20, 4, 13, 5, 1, 2, false, false, false},
        {1, 32, 24, 1, 15, 1, 1, 0, false, false, false}, /* 1x1, small maps, short rows */
        {2, 40, 17, 1, 7, 1, 1, 0, true, false, false},
        {1, 16, 12, 1, 30, 3, 1, 1, true, true, false},
        {1, 16, 12, 1, 30, 3, 1, 1, true, true, true},
        {1, 24, 33, 1, 9, 1, 2, 0, false, false, true},
        {1, 64, 16, 1, 9, 3, 2, 1, true, false, false}, /* vectors and panels of channels, pairs of short rows */
        {2, 20, 70, 1, 7, 3, 1, 1, false, true, false},
        {1, 32, 130, 1, 40, 1, 1, 0, true, false, true},
        {2, 64, 40, 1, 7, 1, 1, 0, true, true, false}, /* whole tiles in place: 49, 17 and 7 pixels in a row */
        {1, 128, 16, 1, 33, 1, 2, 0, true, false, false},
        {1, 64, 33, 1, 14, 1, 2, 0, false, false, false},
        {1, 64, 72, 1, 40, 1, 1, 0, true, false, false},
        {1, 48, 40, 1, 12, 3, 1, 1, true, false, false}, /* tiles of rows with their borders, of one row, of less */
        {1, 48, 12, 1, 35, 3, 2, 1, true, false, false},
        {1, 80, 20, 1, 3, 3, 1, 1, false, false, false},
        {1, 64, 40, 1, 1, 1, 1, 0, false, false, false}, /* maps of one place */
        {3, 64, 40, 1, 1, 1, 1, 0, true, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check_layer(&rows[i]);
}

TEST(channels_on_their_own)
{
    static const layer rows[] = {
        {1, 32, 32, 32, 28, 3, 1, 1, false, false, false},
        {2, 40, 40, 40, 29, 3, 2, 1, false, true, false},
        {1, 64, 64, 64, 7, 3, 1, 1, false, false, false},
        {1, 32, 32, 32, 14, 5, 1, 2, true, false, false},
        {1, 30, 30, 30, 12, 7, 2, 3, false, false, true},
        {1, 31, 31, 31, 150, 3, 1, 1, true, true, false},
        {1, 200, 200, 200, 11, 5, 2, 2, false, false, false}, /* more than one block of channels */
        {1, 140, 140, 140, 13, 3, 1, 1, false, true, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check_layer(&rows[i]);
}

/* One row, or several, by the turned weights of Gemm. */
static void check_gemm(int64_t m)
{
    enum { K = 150, N = 70 };
    const int64_t dims_a[2] = {m, K}, dims_b[2] = {N, K};
    uint8_t a[9 * K], zero = 90;
    int8_t b[N * K];
    float scale[N], by = 0.017f, wrong = 0;
    for (int64_t i = 0; i < m * K; i++) a[i] = (uint8_t)any(0, 255);
    for (int64_t i = 0; i < N * K; i++) b[i] = (int8_t)any(-127, 127);
    for (int i = 0; i < N; i++) scale[i] = (float)(1 + i) / 900;
    gale_program *p = NULL;
    gale_tensor *y = NULL;
    gale_attr axis = GALE_INT("axis", 0), turned = GALE_INT("transB", 1);
    og t;
    og_begin(&t);
    gale_value x = quantise(&t, "DequantizeLinear", og_given(&t, GALE_U8, 2, dims_a, a), GALE_U8, &by, &zero),
               w = og_op(&t, "DequantizeLinear",
                   (gale_value[]){og_data(&t, GALE_I8, 2, dims_b, b), og_data(&t, GALE_F32, 1, dims_b, scale)}, 2,
                   &axis, 1);
    og_output(&t, og_op(&t, "Gemm", (gale_value[]){x, w}, 2, &turned, 1));
    bool good = CHECK_OK(t.status) && CHECK_OK(gale_program_create(t.graph, device, NULL, &p)) &&
                CHECK_OK(gale_program_run(p, t.inputs, &y, GALE_RUN_ON_HOST));
    const float *have = good ? gale_tensor_data(y) : NULL;
    for (int64_t i = 0; good && i < m * N; i++) {
        double sum = 0;
        for (int k = 0; k < K; k++) sum += (a[i / N * K + k] - zero) * b[i % N * K + k];
        sum *= (double)by * scale[i % N];
        wrong += fabs(sum - have[i]) > 1e-4 * (1 + fabs(sum));
    }
    CHECK(wrong == 0);
    gale_tensor_destroy(&y);
    gale_program_destroy(&p);
    og_end(&t);
}

TEST(gemm)
{
    check_gemm(1);
    check_gemm(3);
    check_gemm(9);
}

/* The largest of dequantised values, which the CPU finds among the bytes. */
static void check_pool(gale_type type, int64_t C, int64_t kernel, int64_t stride, int64_t pad)
{
    enum { CHANNELS = 20, SIDE = 37 };
    const int64_t dims[4] = {1, C, SIDE, SIDE}, strides[2] = {stride, stride}, pads[4] = {pad, pad, pad, pad},
                  shape[2] = {kernel, kernel}, out = (SIDE + 2 * pad - kernel) / stride + 1;
    static uint8_t x[CHANNELS * SIDE * SIDE];
    uint8_t zero = 60;
    float scale = 0.07f;
    int64_t wrong = 0;
    for (int64_t i = 0; i < C * SIDE * SIDE; i++) x[i] = (uint8_t)any(0, 255);
    gale_program *p = NULL;
    gale_tensor *y = NULL;
    gale_attr attrs[3] = {
        GALE_INTS("kernel_shape", shape, 2), GALE_INTS("strides", strides, 2), GALE_INTS("pads", pads, 4)};
    og t;
    og_begin(&t);
    gale_value v = quantise(&t, "DequantizeLinear", og_given(&t, type, 4, dims, x), type, &scale, &zero);
    og_output(&t, og_op(&t, "MaxPool", &v, 1, attrs, 3));
    bool good = CHECK_OK(t.status) && CHECK_OK(gale_program_create(t.graph, device, NULL, &p)) &&
                CHECK_OK(gale_program_run(p, t.inputs, &y, GALE_RUN_ON_HOST));
    const float *have = good ? gale_tensor_data(y) : NULL;
    for (int64_t i = 0; good && i < C * out * out; i++) {
        int most = INT_MIN;
        for (int64_t k = 0; k < kernel * kernel; k++) {
            int64_t row = i / out % out * stride + k / kernel - pad, column = i % out * stride + k % kernel - pad;
            if (row < 0 || row >= SIDE || column < 0 || column >= SIDE) continue;
            uint8_t b = x[(i / out / out * SIDE + row) * SIDE + column];
            int number = type == GALE_I8 ? (int8_t)b : b;
            if (number > most) most = number;
        }
        wrong += (float)(most - zero) * scale != have[i];
    }
    CHECK(wrong == 0);
    gale_tensor_destroy(&y);
    gale_program_destroy(&p);
    og_end(&t);
}

TEST(largest)
{
    check_pool(GALE_U8, 5, 3, 2, 1);
    check_pool(GALE_I8, 5, 3, 2, 1);
    check_pool(GALE_U8, 5, 2, 1, 0);
    check_pool(GALE_I8, 5, 5, 1, 2);
    check_pool(GALE_U8, 5, 4, 3, 1);
    check_pool(GALE_U8, 20, 3, 2, 1);
    check_pool(GALE_I8, 19, 4, 1, 2);
}

/* A small layer, its n-th allocation failing; true once n is past the last. */
static bool run_faulty(const layer *l, int form, uint64_t n)
{
    gale_program *p = NULL;
    gale_tensor *y = NULL;
    data d;
    og t;
    make(l, &d);
    og_begin(&t);
    gale_value v = build(&t, l, &d, form);
    og_output(&t, form & RESULT_LAST ? OG_TRANSPOSE(&t, v, 0, 2, 3, 1) : v);
    CHECK_OK(t.status);
    gale__alloc_fail_at(n);
    gale_status status = gale_program_create(t.graph, device, NULL, &p);
    if (status == GALE_OK) status = gale_program_run(p, t.inputs, &y, GALE_RUN_ON_HOST);
    bool over = gale__alloc_count() < n;
    gale__alloc_fail_at(0);
    CHECK(status == GALE_OK || (!over && status == GALE_NO_MEMORY));
    gale_tensor_destroy(&y);
    gale_program_destroy(&p);
    og_end(&t);
    drop(&d);
    return over;
}

static void fail_each(const layer *l)
{
    for (int form = 0; form < FORMS; form += MAP_LAST + RESULT_LAST)
        for (uint64_t n = 1; n < 20000; n++)
            if (run_faulty(l, form, n)) break;
}

TEST(every_allocation_may_fail)
{
    static const layer rows[] = {
        {1, 3, 8, 1, 9, 3, 2, 1, true, false, false}, {1, 30, 30, 30, 9, 3, 1, 1, false, false, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fail_each(&rows[i]); /* pools and tables that stay */
        int64_t live = gale__alloc_live();
        fail_each(&rows[i]);
        CHECK_EQ(gale__alloc_live(), live);
    }
}

int main(int argc, char **argv)
{
    static const test_row rows[] = {
        ROW(convolutions), ROW(channels_on_their_own), ROW(gemm), ROW(largest), ROW(every_allocation_may_fail)};
    return test_main_on("cpu", &device, rows, sizeof rows / sizeof *rows, argc, argv);
}
