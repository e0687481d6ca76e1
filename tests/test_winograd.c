/* 3 x 3 convolutions by Winograd's transforms against plain loops in double precision: shapes around those of tiles,
 * panels and blocks, groups, borders, what follows; the same bits for any number of threads and maps; where they are
 * chosen. */
#include "test.h"
#include "base/cpu.h"
#include "base/thread.h"
#include "kernel/cpu/interp.h"
#include "nest_build.h"
#include <math.h>
#include <stdlib.h>

enum { X, W, BIAS, OTHER, Y, BUFFERS };

typedef struct shape {
    int64_t n, groups, c, h, w, o, pad; /* c, o: of a group */
} shape;

static int64_t out_size(int64_t size, const shape *s) { return size + 2 * s->pad - 2; }

/* y[n, g, o, .] = max(sum over c and taps of x[n, g, c, .] w[g, o, c, .] + bias[g, o], 0) + other[n, g, o, .] */
static void make_nest(build *b, const shape *s, int64_t stride)
{
    int64_t oh = (out_size(s->h, s) + stride - 1) / stride, ow = (out_size(s->w, s) + stride - 1) / stride;
    build_init(b, 5, 3, (int64_t[]){s->n, s->groups, s->o, oh, ow, s->c, 3, 3});
    gale__nest_access *x = maps_access(b, &(build_maps){s->n, s->groups, s->c, s->h, s->w, s->pad, stride, 1});
    int in = add_load(b, x, 1), weight = add_load(b, dense_access(b, GALE_F32, 2 | 4 | 32 | 64 | 128, false), 1);
    int sum = add_reduce(b, GALE__SUM, GALE_F32, GALE_F32, add(b, GALE__MUL, GALE_F32, 1, in, weight, 0));
    int y = add(b, GALE__ADD, GALE_F32, 0, sum, add_load(b, dense_access(b, GALE_F32, 2 | 4, false), 0), 0);
    y = add(b, GALE__MAX, GALE_F32, 0, y, add_const(b, GALE_F32, 0), 0);
    y = add(b, GALE__ADD, GALE_F32, 0, y, add_load(b, dense_access(b, GALE_F32, 31, false), 0), 0);
    add_store(b, y, dense_access(b, GALE_F32, 31, true));
    b->buffers[W].constant = true;
}

typedef struct data {
    build b;
    shape s;
    float *at[BUFFERS];
    double *sums; /* of the convolution, exactly */
} data;

static double number(void) { return (below(20001) - 10000) / 10000.0; }

/* wide: magnitudes of channels differ by up to 10^6. */
static void fill_data(data *d, bool wide)
{
    for (int i = 0; i < BUFFERS; i++) {
        int64_t n = d->b.buffers[i].elements, plane = i == X ? d->s.h * d->s.w : 9;
        double by = 1;
        d->at[i] = malloc((size_t)n * sizeof(float));
        for (int64_t j = 0; j < n; j++) {
            if (wide && i <= W && j % plane == 0) by = pow(10, below(7) - 3);
            d->at[i][j] = (float)(by * number());
        }
    }
}

static double sum_at(const data *d, int64_t n, int64_t g, int64_t o, int64_t y, int64_t x)
{
    const shape *s = &d->s;
    double sum = 0;
    for (int64_t c = 0; c < s->c; c++) {
        const float *plane = d->at[X] + ((n * s->groups + g) * s->c + c) * s->h * s->w,
                    *taps = d->at[W] + ((g * s->o + o) * s->c + c) * 9;
        for (int64_t t = 0; t < 9; t++) {
            int64_t py = y + t / 3 - s->pad, px = x + t % 3 - s->pad;
            if (py >= 0 && py < s->h && px >= 0 && px < s->w) sum += (double)plane[py * s->w + px] * (double)taps[t];
        }
    }
    return sum;
}

static void open_data(data *d, const shape *s, bool wide)
{
    int64_t oh = out_size(s->h, s), ow = out_size(s->w, s), i = 0;
    d->s = *s;
    make_nest(&d->b, s, 1);
    fill_data(d, wide);
    d->sums = malloc((size_t)(s->n * s->groups * s->o * oh * ow) * sizeof *d->sums);
    for (int64_t m = 0; m < s->n * s->groups * s->o; m++)
        for (int64_t p = 0; p < oh * ow; p++)
            d->sums[i++] = sum_at(d, m / s->o / s->groups, m / s->o % s->groups, m % s->o, p / ow, p % ow);
}

static void close_data(data *d)
{
    for (int i = 0; i < BUFFERS; i++) free(d->at[i]);
    free(d->sums);
}

/* Runs the nest with transformed weights; the result, to be freed.  how: the schedule. */
static float *run_kernel(const data *d, const char *how)
{
    gale__cpu_kernel *k = NULL;
    if (!CHECK_OK(gale__cpu_kernel_create(&d->b.nest, &k))) return NULL;
    if (!CHECK(!strcmp(gale__cpu_kernel_schedule(k), how))) printf("  not %s\n", how);
    return run_guarded(&k, d->at, BUFFERS, Y, (size_t)d->b.buffers[Y].elements * sizeof(float));
}

/* The relative L2 of what is not the exact result, and the largest difference by the root mean square. */
static double error_of(const data *d, const float *y, double *largest)
{
    double difference = 0, all = 0, top = 0;
    int64_t n = d->b.buffers[Y].elements, plane = n / (d->s.n * d->s.groups * d->s.o);
    for (int64_t i = 0; i < n; i++) {
        double sum = d->sums[i] + (double)d->at[BIAS][i / plane % (d->s.groups * d->s.o)],
               e = (sum > 0 ? sum : 0) + (double)d->at[OTHER][i] - (double)y[i];
        difference += e * e;
        all += sum * sum;
        top = fmax(top, fabs(e));
    }
    *largest = top / sqrt(all / (double)n);
    return sqrt(difference / all);
}

static void check_shape(const shape *s, const char *way, bool wide)
{
    data d;
    float *first = NULL;
    double largest;
    open_data(&d, s, wide);
    setenv("GALE_WINOGRAD", way, 1);
    for (int width = 1; width < 10; width += width < 3 ? 1 : 3) { /* from eight threads on points are tasks */
        gale__parallel_set_width(width);
        float *y = run_kernel(&d, "winograd");
        if (!y) continue;
        if (!first) {
            double error = error_of(&d, y, &largest);
            if (!CHECK(error < 5e-6 && largest < 1e-4))
                printf("  %lld x %lld x %lld x %lld^%lld -> %lld, tiles of %s: error %g, at most %g\n", (long long)s->n,
                    (long long)s->groups, (long long)s->c, (long long)s->h, (long long)s->w, (long long)s->o, way,
                    error, largest);
            first = y;
            continue;
        }
        CHECK(!memcmp(first, y, (size_t)d.b.buffers[Y].elements * sizeof *y));
        free(y);
    }
    gale__parallel_set_width(0);
    free(first);
    close_data(&d);
}

TEST(shapes)
{
    static const shape shapes[] = {{1, 1, 4, 3, 3, 4, 1}, {1, 1, 3, 4, 5, 5, 1}, {1, 1, 16, 14, 14, 16, 1},
        {2, 1, 20, 7, 7, 33, 1}, {5, 1, 17, 6, 9, 12, 1}, {1, 1, 9, 30, 29, 14, 0}, {3, 1, 8, 3, 4, 8, 1},
        {1, 4, 12, 13, 11, 10, 1}, {2, 9, 5, 8, 8, 7, 1}, {1, 1, 40, 56, 3, 9, 2}, {1, 1, 4, 3, 300, 9, 1},
        {1, 1, 300, 5, 130, 10, 1}};
    size_t step = test_light() ? 3 : 1;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i += step) {
        check_shape(&shapes[i], "2", false);
        check_shape(&shapes[i], "4", false);
        check_shape(&shapes[i], "4", true);
    }
}

/* Each map of a batch is computed as if it were alone. */
TEST(batches)
{
    static const shape all = {3, 2, 18, 10, 9, 21, 1}, one = {1, 2, 18, 10, 9, 21, 1};
    for (int w = 0; w < 2; w++) {
        data d, single;
        setenv("GALE_WINOGRAD", w ? "4" : "2", 1);
        open_data(&d, &all, false);
        float *y = run_kernel(&d, "winograd");
        open_data(&single, &one, false);
        for (int64_t n = 0; n < all.n; n++) {
            for (int i = 0; i < Y; i++) {
                int64_t count = single.b.buffers[i].elements;
                memcpy(single.at[i], d.at[i] + (i == X || i == OTHER ? n * count : 0), (size_t)count * sizeof(float));
            }
            float *z = run_kernel(&single, "winograd");
            int64_t count = single.b.buffers[Y].elements;
            CHECK(y && z && !memcmp(y + n * count, z, (size_t)count * sizeof *z));
            free(z);
        }
        free(y);
        close_data(&d);
        close_data(&single);
    }
}

static void check_choice(const shape *s, int64_t stride, bool constant, bool wanted)
{
    build b;
    gale__cpu_kernel *k = NULL;
    make_nest(&b, s, stride);
    b.buffers[W].constant = constant;
    if (!CHECK_OK(gale__cpu_kernel_create(&b.nest, &k))) return;
    if (!CHECK(!strcmp(gale__cpu_kernel_schedule(k), "winograd") == wanted))
        printf("  %lld channels, %lld^2: %s\n", (long long)s->c, (long long)s->h, gale__cpu_kernel_schedule(k));
    gale__cpu_kernel_destroy(&k);
}

/* By the shape of a map and the channels, whatever the number of maps; weights that are not constant, strides and few
 * channels are left to plain sums.  Matrix units, which may be faster than both, are off. */
TEST(choice)
{
    static const shape typical = {1, 1, 64, 56, 56, 64, 1}, many = {8, 1, 64, 56, 56, 64, 1},
                       few = {1, 1, 3, 224, 224, 64, 1}, small = {1, 1, 512, 2, 2, 512, 1},
                       small_many = {64, 1, 512, 2, 2, 512, 1}, huge = {1, 1, 4096, 14, 14, 4096, 1};
    setenv("GALE_WINOGRAD", "auto", 1);
    setenv("GALE_MATRIX", "off", 1);
    check_choice(&typical, 1, true, true);
    check_choice(&many, 1, true, true);
    check_choice(&typical, 2, true, false);
    check_choice(&typical, 1, false, false);
    check_choice(&few, 1, true, false);
    check_choice(&small, 1, true, false);
    check_choice(&small_many, 1, true, false);
    check_choice(&huge, 1, true, false);
    setenv("GALE_WINOGRAD", "off", 1);
    check_choice(&typical, 1, true, false);
    unsetenv("GALE_MATRIX");
}

TEST(faults)
{
    static const shape s = {1, 1, 16, 9, 9, 16, 1};
    build b;
    make_nest(&b, &s, 1);
    setenv("GALE_WINOGRAD", "4", 1);
    check_create_faults(&b.nest);
}

TESTS(ROW(shapes), ROW(batches), ROW(choice), ROW(faults))
