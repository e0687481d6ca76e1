/* Convolutions of 1 x 1, by channel and by group over values that are stored channels-last, against a naive evaluator:
 * odd numbers of channels, strides, padding, batches, and what follows them; the same bits for any number of threads.
 */
#include "test.h"
#include "base/limits.h"
#include "base/thread.h"
#include "kernel/cpu/interp.h"
#include "kernel/cpu/simd.h"
#include "nest_build.h"
#include "nest_eval.h"
#include <stdlib.h>

enum { X, WEIGHTS, BIAS, OTHER_OR_OUT, BUFFERS_MOST };
enum { ADDED = 1, LIMITED = 2, SWISH = 4, FROM_LAST = 8, TO_LAST = 16, MORE = 32 }; /* MORE: a part of more channels */

typedef struct shape {
    int64_t n, c, h, w, o, taps, stride, pad, hop;
    int form;
    int64_t groups; /* 0: none; else c and o are channels of all, and the outer dimension 4 is the group */
} shape;

/* Strides of a value's items, channels, rows and columns; of: channels that it has in all. */
static void lay(int64_t *stride, bool last, int64_t of, int64_t h, int64_t w)
{
    stride[0] = of * h * w;
    stride[1] = last ? 1 : h * w;
    stride[2] = last ? w * of : w;
    stride[3] = last ? of : 1;
}

static gale__nest_access *add_value(build *b, const shape *s, int64_t of, int64_t h, int64_t w, bool written)
{
    gale__nest_access *a = add_access(b, add_buffer(b, GALE_F32, s->n * of * h * w, written));
    lay(a->stride, s->form & TO_LAST, of, h, w);
    if (s->groups) a->stride[4] = s->o / s->groups * a->stride[1];
    return a;
}

/* What follows the sum, and the store. */
static void finish(build *b, const shape *s, int sum, int64_t h, int64_t w)
{
    int64_t of = s->form & MORE ? s->o + 24 : s->o;
    gale__nest_access *bias = add_access(b, add_buffer(b, GALE_F32, s->o, false));
    bias->stride[1] = 1;
    if (s->groups) bias->stride[4] = s->o / s->groups;
    int y = add(b, GALE__ADD, GALE_F32, 0, sum, add_load(b, bias, 0), 0);
    if (s->form & ADDED) y = add(b, GALE__ADD, GALE_F32, 0, y, add_load(b, add_value(b, s, s->o, h, w, false), 0), 0);
    if (s->form & LIMITED) {
        y = add(b, GALE__MAX, GALE_F32, 0, y, add_const(b, GALE_F32, -0.5), 0);
        y = add(b, GALE__MIN, GALE_F32, 0, y, add_const(b, GALE_F32, 3), 0);
    }
    if (s->form & SWISH) {
        int gate = add(b, GALE__EXP, GALE_F32, 0, add(b, GALE__NEG, GALE_F32, 0, y, 0, 0), 0, 0);
        gate = add(b, GALE__ADD, GALE_F32, 0, gate, add_const(b, GALE_F32, 1), 0);
        gate = add(b, GALE__DIV, GALE_F32, 0, add_const(b, GALE_F32, 1), gate, 0);
        y = add(b, GALE__MUL, GALE_F32, 0, y, gate, 0);
    }
    add_store(b, y, add_value(b, s, of, h, w, true));
    gale__nest_canonicalize(&b->nest);
    b->nest.last = b->buffers[WEIGHTS].constant = true;
}

static void pointwise(build *b, const shape *s)
{
    int64_t h = (s->h - 1) / s->stride + 1, w = (s->w - 1) / s->stride + 1, stride[4];
    build_init(b, 4, 1, (int64_t[]){s->n, s->o, h, w, s->c});
    gale__nest_access *x = add_access(b, add_buffer(b, GALE_F32, s->n * s->c * s->h * s->w, false));
    lay(stride, s->form & FROM_LAST, s->c, s->h, s->w);
    const int64_t of_x[5] = {stride[0], 0, stride[2] * s->stride, stride[3] * s->stride, stride[1]};
    memcpy(x->stride, of_x, sizeof of_x);
    gale__nest_access *weights = dense_access(b, GALE_F32, 2 | 16, false);
    int product = add(b, GALE__MUL, GALE_F32, 1, add_load(b, x, 1), add_load(b, weights, 1), 0);
    finish(b, s, add_reduce(b, GALE__SUM, GALE_F32, GALE_F32, product), h, w);
}

static void by_channel(build *b, const shape *s)
{
    int64_t reach = s->hop * (s->taps - 1) + 1, h = (s->h + 2 * s->pad - reach) / s->stride + 1,
            w = (s->w + 2 * s->pad - reach) / s->stride + 1, stride[4];
    build_init(b, 4, 2, (int64_t[]){s->n, s->o, h, w, s->taps, s->taps});
    gale__nest_access *x = add_access(b, add_buffer(b, GALE_F32, s->n * s->o * s->h * s->w, false));
    lay(stride, s->form & FROM_LAST, s->o, s->h, s->w);
    const int64_t of_x[6] = {
        stride[0], stride[1], stride[2] * s->stride, stride[3] * s->stride, stride[2] * s->hop, stride[3] * s->hop};
    memcpy(x->stride, of_x, sizeof of_x);
    x->offset = -s->pad * (stride[2] + stride[3]);
    for (int axis = 0; axis < 2 && s->pad; axis++) {
        gale__nest_guard *g = &x->guards[x->n_guards++];
        *g = (gale__nest_guard){.c0 = -s->pad, .extent = axis ? s->w : s->h, .div = 1};
        g->coef[2 + axis] = s->stride;
        g->coef[4 + axis] = s->hop;
    }
    gale__nest_access *weights = dense_access(b, GALE_F32, 2 | 16 | 32, false);
    int product = add(b, GALE__MUL, GALE_F32, 1, add_load(b, x, 1), add_load(b, weights, 1), 0);
    finish(b, s, add_reduce(b, GALE__SUM, GALE_F32, GALE_F32, product), h, w);
}

static void by_group(build *b, const shape *s)
{
    int64_t reach = s->hop * (s->taps - 1) + 1, h = (s->h + 2 * s->pad - reach) / s->stride + 1,
            w = (s->w + 2 * s->pad - reach) / s->stride + 1, each = s->c / s->groups, stride[4];
    build_init(b, 5, 3, (int64_t[]){s->n, s->o / s->groups, h, w, s->groups, each, s->taps, s->taps});
    gale__nest_access *x = add_access(b, add_buffer(b, GALE_F32, s->n * s->c * s->h * s->w, false));
    lay(stride, s->form & FROM_LAST, s->c, s->h, s->w);
    const int64_t of_x[8] = {stride[0], 0, stride[2] * s->stride, stride[3] * s->stride, each * stride[1], stride[1],
        stride[2] * s->hop, stride[3] * s->hop};
    memcpy(x->stride, of_x, sizeof of_x);
    x->offset = -s->pad * (stride[2] + stride[3]);
    for (int axis = 0; axis < 2 && s->pad; axis++) {
        gale__nest_guard *g = &x->guards[x->n_guards++];
        *g = (gale__nest_guard){.c0 = -s->pad, .extent = axis ? s->w : s->h, .div = 1};
        g->coef[2 + axis] = s->stride;
        g->coef[6 + axis] = s->hop;
    }
    gale__nest_access *weights = dense_access(b, GALE_F32, 2 | 16 | 32 | 64 | 128, false);
    int product = add(b, GALE__MUL, GALE_F32, 1, add_load(b, x, 1), add_load(b, weights, 1), 0);
    finish(b, s, add_reduce(b, GALE__SUM, GALE_F32, GALE_F32, product), h, w);
}

/* One run of the kernel with so many threads; NULL: it cannot be made.  tiles: by Winograd's transforms. */
static bool run_with(build *b, int threads, void **buffers, bool wanted, bool *tiles)
{
    gale__limits limits = {.threads = threads};
    gale__cpu_kernel *k = NULL;
    gale__limits_enter(&limits);
    bool ok = CHECK_OK(gale__cpu_kernel_create(&b->nest, &k));
    if (ok) {
        gale__cpu_panels p = gale__cpu_kernel_panels(k);
        bool last = strstr(gale__cpu_kernel_schedule(k), "channels last") != NULL;
        *tiles = strstr(gale__cpu_kernel_schedule(k), "winograd") != NULL;
        void *made = p.bytes ? gale__alloc_aligned(64, p.bytes) : NULL, *plain = buffers[WEIGHTS];
        if (!CHECK(last == (wanted && gale__simd_get()->wide)))
            printf("  schedule: %s\n", gale__cpu_kernel_schedule(k));
        if (made) gale__cpu_kernel_make_panels(k, plain, made), buffers[WEIGHTS] = made;
        gale__cpu_kernel_run(k, buffers);
        buffers[WEIGHTS] = plain;
        gale__free(made);
    }
    gale__cpu_kernel_destroy(&k);
    gale__limits_leave(&limits);
    return ok;
}

/* Errors of tiles are relative to the sums around them, not to what is left after limits.  Returns whether there are
 * any. */
static bool check(build *b, const char *what, const shape *s, bool wanted)
{
    float *at[BUFFERS_MOST + 2], *results[3], usual = 6 * sqrtf(9 * (float)s->c);
    bool tiles = false;
    int n = b->nest.n_buffers, out = n - 1, wrong = 0;
    int64_t size = b->buffers[out].elements;
    for (int i = 0; i < n; i++) {
        at[i] = gale__calloc((size_t)b->buffers[i].elements + 1, sizeof(float)); /* one more, which nobody writes */
        for (int64_t j = 0; j < b->buffers[i].elements; j++) at[i][j] = (float)(below(65) - 32) / 8;
    }
    for (int i = 0; i < 3; i++) {
        results[i] = gale__calloc((size_t)size + 1, sizeof(float));
        memcpy(results[i], at[out], (size_t)size * sizeof(float));
    }
    eval_run(&b->nest, (void **)at);
    for (int i = 0; i < 2; i++) {
        void *buffers[BUFFERS_MOST + 2];
        for (int k = 0; k < n; k++) buffers[k] = k == out ? results[i] : at[k];
        run_with(b, i ? 4 : 1, buffers, wanted, &tiles);
    }
    for (int64_t i = 0; i < size; i++)
        wrong += !(fabsf(results[0][i] - at[out][i]) <= 2e-5f * (1 + (tiles ? usual : fabsf(at[out][i]))));
    bool same = !memcmp(results[0], results[1], (size_t)(size + 1) * sizeof(float)) && results[0][size] == 0;
    if (!CHECK(!wrong && same))
        printf("  %s %d x %d, %d to %d channels, form %d: %d wrong\n", what, (int)s->h, (int)s->w, (int)s->c, (int)s->o,
            s->form, wrong);
    for (int i = 0; i < n; i++) gale__free(at[i]);
    for (int i = 0; i < 3; i++) gale__free(results[i]);
    return tiles;
}

TEST(points)
{
    static const shape shapes[] = {{1, 16, 7, 7, 32, 1, 1}, {1, 19, 14, 14, 33, 1, 1}, {2, 40, 5, 9, 24, 1, 1},
        {8, 24, 3, 3, 72, 1, 1}, {1, 960, 7, 7, 17, 1, 1}, {2, 30, 13, 11, 70, 1, 2}, {1, 9, 1, 5, 8, 1, 1},
        {1, 48, 16, 16, 20, 1, 1}, {3, 1600, 2, 3, 50, 1, 1}, {1, 7, 29, 31, 16, 1, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int form = 0; form < 64; form += test_emulated() ? 7 : test_light() ? 3 : 1) {
            shape s = shapes[i];
            build b;
            s.form = form;
            if (!(form & (FROM_LAST | TO_LAST)) || (s.c > 900 && form % 8)) continue;
            pointwise(&b, &s);
            check(&b, "1x1 over", &s, true);
        }
}

TEST(channels)
{
    static const shape shapes[] = {{1, 0, 7, 7, 16, 3, 1, 1, 1}, {2, 0, 14, 14, 33, 3, 1, 1, 1},
        {1, 0, 9, 15, 40, 3, 2, 1, 1}, {8, 0, 5, 6, 24, 5, 1, 2, 1}, {1, 0, 28, 30, 72, 5, 2, 2, 1},
        {1, 0, 3, 3, 50, 7, 1, 3, 1}, {1, 0, 17, 19, 31, 7, 2, 3, 1}, {1, 0, 12, 12, 20, 3, 1, 0, 1},
        {1, 0, 57, 61, 100, 3, 1, 1, 1}, {2, 0, 6, 8, 200, 5, 1, 4, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int form = 0; form < 3; form++) {
            shape s = shapes[i];
            build b;
            s.form = FROM_LAST | TO_LAST | (form == 1 ? LIMITED : form == 2 ? SWISH | MORE : 0);
            by_channel(&b, &s);
            check(&b, "by channel over", &s, true);
        }
}

TEST(groups)
{
    static const shape shapes[] = {{1, 64, 7, 7, 64, 3, 1, 1, 1, 0, 4}, {2, 48, 14, 11, 32, 3, 2, 1, 1, 0, 2},
        {1, 27, 9, 8, 69, 3, 1, 2, 2, 0, 3}, {3, 16, 5, 5, 24, 5, 1, 2, 1, 0, 2}, {1, 80, 28, 30, 80, 3, 1, 0, 1, 0, 5},
        /* dense */ {1, 64, 14, 15, 48, 3, 2, 1, 1, 0, 1}, {2, 40, 9, 11, 70, 3, 1, 1, 1, 0, 1},
        {1, 300, 6, 7, 33, 5, 1, 2, 1, 0, 1}, {1, 24, 12, 5, 16, 2, 2, 0, 1, 0, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int form = 0; form < 5; form++) {
            static const int forms[] = {0, LIMITED, SWISH | MORE, ADDED | LIMITED, TO_LAST};
            shape s = shapes[i];
            build b;
            s.form = form < 4 ? FROM_LAST | TO_LAST | forms[form] : TO_LAST;
            by_group(&b, &s);
            check(&b, "by group over", &s,
                form < 4 && gale__simd_get()->spread && (s.groups > 1 || gale__simd_is_wide()));
        }
    build b;
    shape s = shapes[0];
    s.form = FROM_LAST | TO_LAST;
    by_group(&b, &s);
    check_create_faults(&b.nest);
}

/* Winograd's transforms of both sizes: maps and channels that fill no tile or vector, without borders, several maps. */
TEST(tiles)
{
    static const shape shapes[] = {{1, 16, 8, 8, 16, 3, 1, 1, 1, 0, 1}, {2, 40, 9, 11, 70, 3, 1, 1, 1, 0, 1},
        {1, 18, 7, 30, 36, 3, 1, 1, 1, 0, 1}, {3, 33, 6, 5, 17, 3, 1, 0, 1, 0, 1},
        {1, 100, 29, 13, 32, 3, 1, 1, 1, 0, 1}, {1, 64, 24, 26, 64, 3, 1, 0, 1, 0, 1},
        {2, 520, 7, 7, 48, 3, 1, 1, 1, 0, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int form = 0; form < 8; form++) {
            static const int forms[] = {0, LIMITED, SWISH | MORE, ADDED | LIMITED};
            shape s = shapes[i];
            build b;
            s.form = FROM_LAST | TO_LAST | forms[form % 4];
            by_group(&b, &s);
            setenv("GALE_WINOGRAD", form < 4 ? "2" : "4", 1);
            bool tiles = check(&b, "tiles over", &s, gale__simd_is_wide());
            if (i == 0 && form == 0) check_create_faults(&b.nest);
            unsetenv("GALE_WINOGRAD");
            CHECK_EQ(tiles, gale__simd_is_wide());
        }
}

/* Few channels as declared, results channels-last. */
TEST(first_layers)
{
    static const shape shapes[] = {{1, 3, 20, 23, 40, 3, 2, 1, 1, 0, 1}, {2, 3, 17, 19, 16, 7, 2, 3, 1, 0, 1},
        {1, 4, 16, 16, 70, 4, 4, 0, 1, 0, 1}, {3, 1, 12, 9, 24, 5, 1, 2, 1, 0, 1}, {1, 2, 30, 31, 33, 3, 1, 0, 1, 0, 1},
        {1, 3, 33, 15, 8, 2, 3, 1, 1, 0, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int form = 0; form < 3; form++) {
            static const int forms[] = {0, LIMITED, SWISH | MORE};
            shape s = shapes[i];
            build b;
            s.form = TO_LAST | forms[form];
            by_group(&b, &s);
            check(&b, "first layer over", &s, gale__simd_is_wide() && s.c > 1);
            if (i == 0 && form == 0) check_create_faults(&b.nest);
        }
}

/* Others have no such kernel, and are right nevertheless. */
TEST(others)
{
    static const shape shapes[] = {{1, 0, 12, 12, 20, 3, 1, 2, 2, FROM_LAST | TO_LAST}, /* dilated */
        {1, 0, 12, 12, 20, 3, 3, 1, 1, FROM_LAST | TO_LAST}, {1, 0, 12, 12, 20, 4, 1, 1, 1, FROM_LAST | TO_LAST},
        {1, 0, 12, 12, 9, 3, 1, 1, 1, FROM_LAST | TO_LAST}, {1, 0, 9, 12, 20, 3, 1, 1, 1, FROM_LAST},
        {1, 0, 12, 9, 20, 3, 1, 1, 1, TO_LAST}, {1, 0, 12, 9, 20, 3, 1, 1, 1, FROM_LAST | TO_LAST | ADDED}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        build b;
        by_channel(&b, &shapes[i]);
        check(&b, "by channel over", &shapes[i], false);
    }
    shape few = {1, 20, 9, 9, 5, 1, 1, .form = TO_LAST};
    build b;
    pointwise(&b, &few);
    check(&b, "1x1 over", &few, false);
    pointwise(&b, &few);
    check_create_faults(&b.nest);
    few.o = 32;
    pointwise(&b, &few);
    check_create_faults(&b.nest);
}

TESTS(ROW(points), ROW(channels), ROW(groups), ROW(tiles), ROW(first_layers), ROW(others))
