/* Products of bytes: every type, zero points of every kind, shapes that fill no panel, sums that wrap, k in parts; held
 * against plain loops.  Results are whole numbers and have to be the same. */
#include "op_graph.h"
#include <math.h>

static gale_device *device;

typedef struct shape {
    int64_t batch, m, k, n;
    gale_type a, b;
    int64_t a_zeros, b_zeros; /* 0 none, 1 one number, else one for each row or column */
    bool constant, turned;    /* of b: a constant; given as [n, k] */
} shape;

static uint32_t seed;
static int any_byte(gale_type type)
{
    seed = seed * 1664525u + 1013904223u;
    return type == GALE_U8 ? (int)(seed >> 24) : (int)(int8_t)(seed >> 24);
}

static uint8_t *make_bytes(int64_t n, gale_type type)
{
    uint8_t *data = gale__alloc((size_t)n + 1);
    for (int64_t i = 0; i < n; i++) data[i] = (uint8_t)any_byte(type);
    return data;
}

static int64_t at(const uint8_t *data, int64_t i, gale_type type)
{
    return type == GALE_U8 ? data[i] : (int8_t)data[i];
}

static bool run(og *t, gale_value y, gale_tensor **out)
{
    gale_program *p = NULL;
    og_output(t, y);
    bool good = CHECK_OK(t->status) && CHECK_OK(gale_program_create(t->graph, device, NULL, &p)) &&
                CHECK_OK(gale_program_run(p, t->inputs, out, GALE_RUN_ON_HOST));
    gale_program_destroy(&p);
    return good;
}

static gale_value zeros(og *t, int64_t kind, gale_type type, const uint8_t *data)
{
    return kind ? og_data(t, type, kind > 1, &kind, data) : GALE_NONE;
}

static int64_t point(const uint8_t *zeros, int64_t kind, int64_t i, gale_type type)
{
    return kind ? at(zeros, kind > 1 ? i : 0, type) : 0;
}

static void check_sums(
    const shape *s, const uint8_t *a, const uint8_t *b, const uint8_t *za, const uint8_t *zb, const int32_t *have)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < s->batch * s->m * s->n; i++) {
        int64_t column = i % s->n, row = i / s->n, sum = 0, p = point(za, s->a_zeros, row % s->m, s->a),
                q = point(zb, s->b_zeros, column, s->b);
        for (int64_t k = 0; k < s->k; k++)
            sum += (at(a, row * s->k + k, s->a) - p) *
                   (at(b, s->turned ? column * s->k + k : k * s->n + column, s->b) - q);
        wrong += (int32_t)(uint32_t)(uint64_t)sum != have[i];
    }
    if (!CHECK(wrong == 0))
        printf("  %lld x %lld x %lld x %lld: %lld differ\n", (long long)s->batch, (long long)s->m, (long long)s->k,
            (long long)s->n, (long long)wrong);
}

static void check_product(const shape *s)
{
    uint8_t *a = make_bytes(s->batch * s->m * s->k, s->a), *b = make_bytes(s->k * s->n, s->b),
            *za = make_bytes(s->m, s->a), *zb = make_bytes(s->n, s->b);
    const int64_t dims_a[3] = {s->batch, s->m, s->k}, dims_b[2] = {s->turned ? s->n : s->k, s->turned ? s->k : s->n};
    gale_tensor *y = NULL;
    og t;
    og_begin(&t);
    gale_value in[4] = {og_given(&t, s->a, 3, dims_a, a),
        s->constant ? og_data(&t, s->b, 2, dims_b, b) : og_given(&t, s->b, 2, dims_b, b),
        zeros(&t, s->a_zeros, s->a, za), zeros(&t, s->b_zeros, s->b, zb)};
    if (s->turned) in[1] = OG_TRANSPOSE(&t, in[1], 1, 0);
    if (run(&t, og_op(&t, "MatMulInteger", in, 4, NULL, 0), &y)) check_sums(s, a, b, za, zb, gale_tensor_data(y));
    gale_tensor_destroy(&y);
    og_end(&t);
    gale__free(a), gale__free(b), gale__free(za), gale__free(zb);
}

TEST(products)
{
    static const shape rows[] = {
        {1, 5, 40, 19, GALE_U8, GALE_I8, 0, 0, false, false},
        {2, 17, 33, 9, GALE_U8, GALE_I8, 1, 0, true, false},
        {1, 33, 100, 130, GALE_I8, GALE_U8, 0, 1, true, false},
        {3, 8, 64, 24, GALE_U8, GALE_U8, 8, 24, false, false},
        {1, 131, 71, 50, GALE_I8, GALE_I8, 131, 50, true, true},
        {1, 1, 256, 300, GALE_U8, GALE_I8, 1, 300, true, false},
        {1, 3, 5001, 13, GALE_U8, GALE_U8, 1, 1, true, false},
        {1, 20, 4100, 70, GALE_I8, GALE_U8, 20, 70, false, true},
        {1, 4, 16, 8, GALE_U8, GALE_I8, 1, 1, false, false},
        {2, 121, 17, 800, GALE_U8, GALE_I8, 1, 800, true, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check_product(&rows[i]);
}

/* Bytes minus their zero point. */
static int16_t *without_zero(const uint8_t *bytes, int64_t n, gale_type type, uint8_t zero)
{
    int16_t *out = gale__alloc((size_t)n * sizeof *out);
    for (int64_t i = 0; out && i < n; i++) out[i] = (int16_t)(at(bytes, i, type) - at(&zero, 0, type));
    return out;
}

/* One window: `each` channels of x [.., H, W] from (y0, x0) on, by weights of K x K; what is outside counts as 0. */
static int64_t window_sum(
    const int16_t *x, const int16_t *w, int64_t each, int64_t H, int64_t W, int64_t K, int64_t y0, int64_t x0)
{
    int64_t sum = 0, from = x0 < 0 ? -x0 : 0, to = W - x0 < K ? W - x0 : K;
    for (int64_t c = 0; c < each; c++)
        for (int64_t i = 0; i < K; i++) {
            int64_t row = (c * H + y0 + i) * W + x0, taps = (c * K + i) * K;
            for (int64_t k = from; y0 + i >= 0 && y0 + i < H && k < to; k++) sum += x[row + k] * w[taps + k];
        }
    return sum;
}

/* x [2, c, 13, W] by w [o, c / groups, K, K], stride s, so much padding that the map stays as it is with stride 1. */
static void check_any_convolution(
    int64_t c, int64_t o, int64_t groups, int64_t s, gale_type xt, gale_type wt, int w_zero, int64_t W, int64_t K)
{
    enum { N = 2, H = 13 };
    int64_t rows = (H - 1) / s + 1, columns = (W - 1) / s + 1, each = c / groups, wrong = 0, edge = K / 2;
    const int64_t dims_x[4] = {N, c, H, W}, dims_w[4] = {o, each, K, K}, strides[2] = {s, s},
                  pads[4] = {edge, edge, edge, edge};
    uint8_t *x = make_bytes(N * c * H * W, xt), *w = make_bytes(o * each * K * K, wt), xz = 77, wz = (uint8_t)w_zero;
    gale_attr attrs[3] = {GALE_INTS("strides", strides, 2), GALE_INTS("pads", pads, 4), GALE_INT("group", groups)};
    gale_tensor *y = NULL;
    og t;
    og_begin(&t);
    gale_value in[4] = {og_given(&t, xt, 4, dims_x, x), og_data(&t, wt, 4, dims_w, w), og_data(&t, xt, 0, NULL, &xz),
        og_data(&t, wt, 0, NULL, &wz)};
    bool good = run(&t, og_op(&t, "ConvInteger", in, 4, attrs, 3), &y);
    const int32_t *have = good ? gale_tensor_data(y) : NULL;
    int16_t *plain_x = without_zero(x, N * c * H * W, xt, xz), *plain_w = without_zero(w, o * each * K * K, wt, wz);
    good = good && CHECK(plain_x && plain_w);
    for (int64_t i = 0; good && i < N * o * rows * columns; i++) {
        int64_t column = i % columns, row = i / columns % rows, out = i / columns / rows % o,
                n = i / columns / rows / o, channel = out / (o / groups) * each;
        wrong += have[i] != window_sum(plain_x + (n * c + channel) * H * W, plain_w + out * each * K * K, each, H, W, K,
                                row * s - edge, column * s - edge);
    }
    CHECK(wrong == 0);
    gale_tensor_destroy(&y);
    og_end(&t);
    gale__free(x), gale__free(w), gale__free(plain_x), gale__free(plain_w);
}

static void check_convolution(int64_t c, int64_t o, int64_t groups, int64_t s, gale_type xt, gale_type wt, int w_zero)
{
    check_any_convolution(c, o, groups, s, xt, wt, w_zero, 11, 3);
}

/* Enough rows and channels for tiles: points, several blocks of columns, units that do not fill a row, panels of a
 * block that are too many; and each channel by itself, taps in one quad and in several. */
TEST(wide_convolutions)
{
    check_any_convolution(64, 33, 1, 1, GALE_U8, GALE_I8, 0, 300, 1);
    check_any_convolution(20, 48, 1, 1, GALE_I8, GALE_I8, 0, 37, 1);
    check_any_convolution(36, 17, 1, 2, GALE_I8, GALE_U8, 0, 24, 1);
    check_any_convolution(12, 16, 1, 1, GALE_U8, GALE_U8, 0, 530, 3);
    check_any_convolution(3, 40, 1, 2, GALE_U8, GALE_I8, 0, 65, 7);
    check_any_convolution(260, 70, 1, 1, GALE_I8, GALE_I8, 0, 29, 3);
    check_any_convolution(40, 40, 2, 2, GALE_U8, GALE_I8, 0, 40, 5);
    for (int64_t side = 3; side <= 7; side += 2)
        for (int64_t s = 1; s <= 3; s++) {
            check_any_convolution(5, 5, 5, s, GALE_U8, GALE_I8, 0, 50, side);
            check_any_convolution(5, 5, 5, s, GALE_I8, GALE_U8, 128, 9, side);
        }
}

TEST(convolutions)
{
    check_convolution(3, 8, 1, 1, GALE_U8, GALE_I8, 0);
    check_convolution(16, 12, 1, 1, GALE_U8, GALE_I8, 0);
    check_convolution(16, 21, 1, 2, GALE_I8, GALE_I8, 0);
    check_convolution(24, 9, 1, 2, GALE_U8, GALE_U8, 128);
    check_convolution(8, 8, 1, 1, GALE_U8, GALE_U8, 3);
    check_convolution(16, 16, 2, 1, GALE_U8, GALE_I8, 0);
    check_convolution(6, 6, 6, 1, GALE_U8, GALE_I8, 0);
    check_convolution(512, 40, 1, 1, GALE_U8, GALE_I8, 0);
}

/* Dequantised values are multiplied as bytes, and scaled once: as close to the exact product as floats are. */
TEST(dequantised)
{
    enum { M = 9, K = 70, N = 40 };
    const int64_t dims_a[2] = {M, K}, dims_b[2] = {K, N};
    uint8_t *a = make_bytes(M * K, GALE_U8), *b = make_bytes(K * N, GALE_I8), za = 130;
    int8_t zb[N] = {0};
    float scale[N], by = 0.013f;
    for (int i = 0; i < N; i++) scale[i] = (float)(1 + i) / 1000;
    gale_tensor *y = NULL;
    og t;
    og_begin(&t);
    gale_attr axis = GALE_INT("axis", 1);
    gale_value x = og_op(&t, "DequantizeLinear",
                   (gale_value[]){og_given(&t, GALE_U8, 2, dims_a, a), og_data(&t, GALE_F32, 0, NULL, &by),
                       og_data(&t, GALE_U8, 0, NULL, &za)},
                   3, NULL, 0),
               w = og_op(&t, "DequantizeLinear",
                   (gale_value[]){og_given(&t, GALE_I8, 2, dims_b, b), og_data(&t, GALE_F32, 1, &dims_b[1], scale),
                       og_data(&t, GALE_I8, 1, &dims_b[1], zb)},
                   3, &axis, 1);
    if (run(&t, og_op2(&t, "MatMul", x, w), &y)) {
        const float *have = gale_tensor_data(y);
        double worst = 0;
        for (int i = 0; i < M * N; i++) {
            int64_t sum = 0;
            for (int k = 0; k < K; k++)
                sum += (at(a, i / N * K + k, GALE_U8) - za) * at(b, (int64_t)k * N + i % N, GALE_I8);
            worst = fmax(worst, fabs((double)sum * by * scale[i % N] - have[i]) / (1 + fabs((double)have[i])));
        }
        CHECK(worst < 1e-5);
    }
    gale_tensor_destroy(&y);
    og_end(&t);
    gale__free(a), gale__free(b);
}

/* Convolution and product of one program, its n-th allocation failing; true once n is past the last. */
static bool run_faulty(uint64_t n)
{
    enum { C = 16, SIDE = 9, O = 12 };
    static const int64_t dims_x[4] = {1, C, SIDE, SIDE}, dims_w[4] = {O, C, 3, 3},
                         dims_b[2] = {(SIDE - 2) * (SIDE - 2), 20};
    static uint8_t x[C * SIDE * SIDE], w[O * C * 9], b[(SIDE - 2) * (SIDE - 2) * 20], zero = 5;
    gale_tensor *y = NULL;
    gale_program *p = NULL;
    og t;
    og_begin(&t);
    gale_value in[3] = {og_given(&t, GALE_U8, 4, dims_x, x), og_data(&t, GALE_I8, 4, dims_w, w),
        og_data(&t, GALE_U8, 0, NULL, &zero)},
               flat = og_op(&t, "Cast",
                   (gale_value[]){og_reshape(&t, og_op(&t, "ConvInteger", in, 3, NULL, 0), OG_INTS(&t, O, -1))}, 1,
                   (gale_attr[]){GALE_INT("to", 2)}, 1);
    og_output(&t, og_op2(&t, "MatMulInteger", flat, og_data(&t, GALE_I8, 2, dims_b, b)));
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
    return over;
}

TEST(every_allocation_may_fail)
{
    run_faulty(1 << 30); /* pools and tables that stay */
    int64_t live = gale__alloc_live();
    for (uint64_t n = 1; n < 20000; n++)
        if (run_faulty(n)) break;
    CHECK_EQ(gale__alloc_live(), live);
}

int main(int argc, char **argv)
{
    static const test_row rows[] = {
        ROW(products), ROW(convolutions), ROW(wide_convolutions), ROW(dequantised), ROW(every_allocation_may_fail)};
    return test_main_on("cpu", &device, rows, sizeof rows / sizeof *rows, argc, argv);
}
