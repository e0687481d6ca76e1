/* Contractions of f32 in three bf16 shares (kernel/cpu/contract_shares.c) against sums in double precision and beside
 * the kernels that multiply f32: products and convolutions of many shapes, magnitudes, numbers that are not finite,
 * the same bits for any number of threads.  Where the processor has no tiles, both are the same kernels. */
#include "test.h"
#include "base/thread.h"
#include "kernel/cpu/interp.h"
#include "kernel/cpu/simd.h"
#include "nest_build.h"
#include <math.h>
#include <stdlib.h>

enum { X, W, BIAS, OTHER, Y, BUFFERS };

/* y = max(sum + bias + other, 0): along the last outer dimension of products bias, along channels of convolutions. */
static void add_tail(build *b, int x, int w, uint32_t bias, uint32_t all)
{
    int sum = add_reduce(b, GALE__SUM, GALE_F32, GALE_F32, add(b, GALE__MUL, GALE_F32, 1, x, w, 0));
    sum = add(b, GALE__ADD, GALE_F32, 0, sum, add_load(b, dense_access(b, GALE_F32, bias, false), 0), 0);
    sum = add(b, GALE__ADD, GALE_F32, 0, sum, add_load(b, dense_access(b, GALE_F32, all, false), 0), 0);
    sum = add(b, GALE__MAX, GALE_F32, 0, sum, add_const(b, GALE_F32, 0), 0);
    add_store(b, sum, dense_access(b, GALE_F32, all, true));
    b->buffers[W].constant = true;
}

static void make_product(build *b, int64_t m, int64_t n, int64_t k)
{
    build_init(b, 2, 1, (int64_t[]){m, n, k});
    int x = add_load(b, dense_access(b, GALE_F32, 1 | 4, false), 1),
        w = add_load(b, dense_access(b, GALE_F32, 2 | 4, false), 1);
    add_tail(b, x, w, 2, 3);
}

typedef struct shape {
    int64_t n, groups, c, h, w, o, taps, stride, pad, hop; /* c, o: of a group */
} shape;

static void make_convolution(build *b, const shape *s)
{
    int64_t reach = (s->taps - 1) * s->hop, high = (s->h + 2 * s->pad - reach - 1) / s->stride + 1,
            wide = (s->w + 2 * s->pad - reach - 1) / s->stride + 1;
    build_init(b, 5, 3, (int64_t[]){s->n, s->groups, s->o, high, wide, s->c, s->taps, s->taps});
    gale__nest_access *x = maps_access(b, &(build_maps){s->n, s->groups, s->c, s->h, s->w, s->pad, s->stride, s->hop});
    int in = add_load(b, x, 1), weight = add_load(b, dense_access(b, GALE_F32, 2 | 4 | 32 | 64 | 128, false), 1);
    add_tail(b, in, weight, 2 | 4, 31);
}

typedef struct data {
    build b;
    float *at[BUFFERS];
    double *exact;
} data;

static bool address(const build *b, const gale__nest_access *a, const int64_t *at, int64_t *out)
{
    *out = a->offset;
    for (int d = 0; d < b->nest.n_outer + b->nest.n_inner; d++) *out += a->stride[d] * at[d];
    for (int g = 0; g < a->n_guards; g++) {
        int64_t v = a->guards[g].c0;
        for (int d = 0; d < b->nest.n_outer + b->nest.n_inner; d++) v += a->guards[g].coef[d] * at[d];
        if (v < 0 || v >= a->guards[g].extent) return false;
    }
    return true;
}

static bool step(const build *b, int64_t *at, int first, int last)
{
    for (int d = last - 1; d >= first; d--) {
        if (++at[d] < b->nest.extent[d]) return true;
        at[d] = 0;
    }
    return false;
}

/* Results in double precision, one after the other. */
static void find_exact(data *d)
{
    const build *b = &d->b;
    int outer = b->nest.n_outer, all = outer + b->nest.n_inner;
    int64_t at[GALE__NEST_DIMS] = {0}, i = 0, x, w, bias, other;
    d->exact = malloc((size_t)b->buffers[Y].elements * sizeof *d->exact);
    do {
        double sum = 0;
        do {
            address(b, &b->accesses[1], at, &w);
            if (address(b, &b->accesses[0], at, &x)) sum += (double)d->at[X][x] * (double)d->at[W][w];
        } while (step(b, at, outer, all));
        address(b, &b->accesses[2], at, &bias);
        address(b, &b->accesses[3], at, &other);
        sum += (double)d->at[BIAS][bias] + (double)d->at[OTHER][other];
        d->exact[i++] = sum > 0 ? sum : 0;
    } while (step(b, at, 0, outer));
}

/* wide: magnitudes from 1e-9 to 1e9. */
static void fill_data(data *d, bool wide)
{
    for (int i = 0; i < BUFFERS; i++) {
        d->at[i] = malloc((size_t)d->b.buffers[i].elements * sizeof(float));
        for (int64_t j = 0; j < d->b.buffers[i].elements; j++)
            d->at[i][j] = (float)((below(2000001) - 1000000) * 1e-6 * (wide ? pow(10, below(19) - 9) : 1));
    }
}

static void close_data(data *d)
{
    for (int i = 0; i < BUFFERS; i++) free(d->at[i]);
    free(d->exact);
}

static bool has_tiles(void) { return gale__simd_gemm_find((gale__simd_key){GALE_F32, GALE_F32, GALE_F32, 32}) != NULL; }

static float *run_kernel(data *d, bool shares)
{
    gale__cpu_kernel *k = NULL;
    setenv("GALE_AMX", "3", 1);
    setenv("GALE_WINOGRAD", "off", 1);
    d->b.nest.steady = !shares;
    if (!CHECK_OK(gale__cpu_kernel_create(&d->b.nest, &k))) return NULL;
    CHECK((strstr(gale__cpu_kernel_schedule(k), "three bf16") != NULL) == (shares && has_tiles()));
    return run_guarded(&k, d->at, BUFFERS, Y, (size_t)d->b.buffers[Y].elements * sizeof(float));
}

static double error_of(const data *d, const float *y)
{
    double difference = 0, all = 0;
    for (int64_t i = 0; i < d->b.buffers[Y].elements; i++) {
        double e = d->exact[i] - (double)y[i];
        difference += e * e;
        all += d->exact[i] * d->exact[i];
    }
    return sqrt(difference / all);
}

/* At most the error of multiplications of f32, and the same bits for any number of threads. */
static void check_data(data *d, bool wide)
{
    fill_data(d, wide);
    find_exact(d);
    float *plain = run_kernel(d, false), *first = NULL;
    for (int width = 1; width < 9; width += width < 2 ? 1 : 3) {
        gale__parallel_set_width(width);
        float *y = run_kernel(d, true);
        if (first) CHECK(!memcmp(first, y, (size_t)d->b.buffers[Y].elements * sizeof *y));
        else {
            double error = error_of(d, y), usual = error_of(d, plain);
            if (!CHECK(error <= usual || error < 1.5e-7))
                printf(
                    "  k = %lld: error %g, of f32 %g\n", (long long)d->b.nest.extent[d->b.nest.n_outer], error, usual);
        }
        if (first) free(y);
        else first = y;
    }
    gale__parallel_set_width(0);
    free(plain), free(first);
    close_data(d);
}

TEST(products)
{
    static const int64_t shapes[][3] = {
        {32, 64, 64}, {33, 100, 40}, {47, 65, 1100}, {200, 32, 96}, {64, 40, 4608}, {129, 800, 33}, {24, 96, 512}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        data d;
        if (test_light() && shapes[s][0] * shapes[s][1] * shapes[s][2] > (test_emulated() ? 1000000 : 3000000))
            continue;
        for (int wide = 0; wide < 2; wide++) {
            make_product(&d.b, shapes[s][0], shapes[s][1], shapes[s][2]);
            check_data(&d, wide);
        }
    }
}

TEST(convolutions)
{
    static const shape shapes[] = {{1, 1, 64, 14, 14, 64, 3, 1, 1, 1}, {1, 1, 64, 9, 7, 40, 1, 1, 0, 1},
        {8, 1, 40, 7, 7, 33, 3, 1, 1, 1}, {1, 1, 17, 20, 23, 16, 3, 2, 1, 1}, {2, 1, 35, 21, 18, 50, 5, 2, 2, 1},
        {1, 1, 32, 16, 60, 32, 3, 1, 2, 2}, {3, 2, 33, 12, 11, 20, 3, 1, 1, 1}, {1, 1, 100, 13, 13, 70, 1, 2, 0, 1},
        {1, 1, 48, 40, 41, 24, 3, 1, 0, 1}, {2, 5, 20, 10, 10, 17, 1, 1, 0, 1}, {1, 1, 512, 5, 6, 34, 3, 1, 1, 1},
        {1, 1, 16, 70, 70, 16, 1, 1, 0, 1}, {1, 1, 20, 11, 12, 18, 7, 3, 3, 1}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s += test_emulated() ? 5 : test_light() ? 3 : 1) {
        data d;
        make_convolution(&d.b, &shapes[s]);
        check_data(&d, s & 1);
    }
}

/* A map of a batch is computed as if it were alone. */
TEST(batches)
{
    data all, one;
    make_convolution(&all.b, &(shape){5, 1, 40, 7, 9, 36, 3, 1, 1, 1});
    make_convolution(&one.b, &(shape){1, 1, 40, 7, 9, 36, 3, 1, 1, 1});
    fill_data(&all, false);
    float *y = run_kernel(&all, true);
    for (int64_t n = 0; n < 5; n++) {
        for (int i = 0; i < BUFFERS; i++)
            one.at[i] = all.at[i] + (i == W || i == BIAS ? 0 : n * one.b.buffers[i].elements);
        float *z = run_kernel(&one, true);
        CHECK(!memcmp(z, y + n * one.b.buffers[Y].elements, (size_t)one.b.buffers[Y].elements * sizeof *y));
        free(z);
    }
    all.exact = NULL;
    free(y);
    close_data(&all);
}

/* Infinities, NaN and products at the end of the range are those of f32, and no other results are touched by them. */
static void check_odd(data *d)
{
    static const float odd[] = {INFINITY, -INFINITY, NAN, 3.4e38f, 1e-30f};
    fill_data(d, false);
    d->exact = NULL;
    for (int i = 0; i < 8; i++) {
        int at = i > 4 ? W : X;
        d->at[at][below((int)d->b.buffers[at].elements)] = odd[i % 5];
    }
    float *plain = run_kernel(d, false), *y = run_kernel(d, true);
    int64_t special = 0, differ = 0;
    for (int64_t i = 0; i < d->b.buffers[Y].elements; i++) {
        special += !isfinite(plain[i]);
        if (isnan(plain[i]) || isnan(y[i])) differ += isnan(plain[i]) != isnan(y[i]);
        else differ += isinf(plain[i]) ? plain[i] != y[i] : !(fabsf(plain[i] - y[i]) <= 1e-4f * (1 + fabsf(plain[i])));
    }
    CHECK(special > 0);
    CHECK_EQ(differ, 0);
    free(plain), free(y);
    close_data(d);
}

TEST(numbers_that_are_not_finite)
{
    data d;
    make_product(&d.b, 70, 50, 600);
    check_odd(&d);
    make_convolution(&d.b, &(shape){1, 1, 40, 12, 12, 40, 3, 1, 1, 1});
    check_odd(&d);
    make_convolution(&d.b, &(shape){2, 1, 40, 12, 12, 40, 1, 1, 0, 1});
    check_odd(&d);
}

TEST(allocation_failures)
{
    build b;
    make_product(&b, 40, 64, 64);
    check_create_faults(&b.nest);
    make_convolution(&b, &(shape){1, 1, 40, 12, 12, 40, 3, 1, 1, 1});
    check_create_faults(&b.nest);
}

TESTS(ROW(products), ROW(convolutions), ROW(batches), ROW(numbers_that_are_not_finite), ROW(allocation_failures))
