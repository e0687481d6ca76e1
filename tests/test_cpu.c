/* The CPU interpreter against a naive evaluator: nests written by hand for each schedule, and thousands of random ones.
 */
#include "test.h"
#include "base/cpu.h"
#include "base/thread.h"
#include "graph/plan/planner.h"
#include "kernel/cpu/finish.h"
#include "kernel/cpu/interp.h"
#include "kernel/cpu/routines.h"
#include "kernel/cpu/scratch.h"
#include "kernel/cpu/simd.h"
#include "nest_build.h"
#include "nest_eval.h"
#include <stdlib.h>

static int runs_in_place;

/* Numbers on a coarse grid, small enough that sums of products are exact or nearly so in every type. */
static void fill_buffer(gale_type type, void *p, int64_t n)
{
    size_t size = gale_type_size(type);
    for (int64_t i = 0; i < n; i++) {
        double v = gale__type_is_float(type) ? (below(65) - 32) / 8.0 : type == GALE_BOOL ? below(2) : below(41) - 20;
        if (!gale__type_is_signed(type) && v < 0) v = -v;
        gale__store_f64(type, (char *)p + (size_t)i * size, v);
    }
}

static double error_of(gale_type type, const void *a, const void *b)
{
    if (!gale__type_is_float(type)) return gale__load_i64(type, a) == gale__load_i64(type, b) ? 0 : INFINITY;
    double x = gale__load_f64(type, a), y = gale__load_f64(type, b);
    if (x == y || (isnan(x) && isnan(y))) return 0;
    if (isnan(x) || isnan(y) || isinf(x) || isinf(y)) return INFINITY;
    return fabs(x - y) / (1 + fabs(x));
}

static double tolerance(gale_type type)
{
    const gale__type_info *t = &gale__type_table[type];
    if (t->kind != 'f') return 0;
    return t->mantissa_bits >= 23 ? 2e-5 : t->mantissa_bits > 7 ? 2e-3 : t->mantissa_bits > 3 ? 1.6e-2 : 0.26;
}

#define GUARD_BYTES 64
static bool guards_hold(const char *p, size_t bytes)
{
    for (int i = 0; i < GUARD_BYTES; i++)
        if (p[i - GUARD_BYTES] != 0x5a || p[bytes + (size_t)i] != 0x5a) return false;
    return true;
}

static char *guarded(size_t bytes)
{
    char *p = malloc(bytes + 2 * GUARD_BYTES);
    memset(p, 0x5a, bytes + 2 * GUARD_BYTES);
    return p + GUARD_BYTES;
}

/* The same bits where the result goes over an input that a plan would let it overwrite. */
static bool agree_in_place(const build *b, const gale__cpu_kernel *k, void *const *inputs, void *const *got)
{
    void *places[24];
    uint8_t writer[24];
    uint64_t aligned = 0;
    int out = 0;
    gale__planner_note_reads(&b->nest, 0, writer, &aligned);
    while (!b->buffers[out].written) out++;
    size_t bytes = (size_t)b->buffers[out].elements * gale_type_size(b->buffers[out].type);
    for (int i = 0; i < b->nest.n_buffers; i++) {
        if (!(aligned >> i & 1) || b->buffers[i].elements != b->buffers[out].elements ||
            !gale__cpu_kernel_in_place(k, i))
            continue;
        char *over = guarded(bytes);
        memcpy(places, inputs, sizeof places);
        memcpy(over, inputs[i], bytes);
        places[i] = places[out] = over;
        gale__cpu_kernel_run(k, places);
        bool same = !memcmp(over, got[out], bytes) && guards_hold(over, bytes);
        free(over - GUARD_BYTES);
        if (!same) return false;
        runs_in_place++;
    }
    return true;
}

/* Runs the nest both ways and compares every buffer that is written. */
static bool agree(build *b, const char *what)
{
    void *expected[24], *got[24];
    gale__nest *nest = &b->nest;
    bool ok = true;
    for (int i = 0; i < nest->n_buffers; i++) {
        size_t bytes = (size_t)b->buffers[i].elements * gale_type_size(b->buffers[i].type);
        expected[i] = guarded(bytes);
        got[i] = guarded(bytes);
        fill_buffer(b->buffers[i].type, expected[i], b->buffers[i].elements);
        memcpy(got[i], expected[i], bytes);
    }
    eval_run(nest, expected);
    gale__cpu_kernel *k = NULL;
    if (!CHECK_OK(gale__cpu_kernel_create(nest, &k))) return false;
    gale__cpu_kernel_run(k, got);
    for (int i = 0; i < nest->n_buffers && ok; i++) {
        gale_type type = b->buffers[i].type;
        size_t size = gale_type_size(type);
        ok = guards_hold(got[i], (size_t)b->buffers[i].elements * size);
        if (!ok) printf("%s (%s): written outside buffer %d\n", what, gale__cpu_kernel_schedule(k), i);
        for (int64_t j = 0; j < b->buffers[i].elements && ok; j++) {
            const char *x = (char *)expected[i] + (size_t)j * size, *y = (char *)got[i] + (size_t)j * size;
            if (error_of(type, x, y) <= tolerance(type)) continue;
            ok = false;
            printf("%s (%s): buffer %d:%s[%" PRId64 "] is %g, not %g\n", what, gale__cpu_kernel_schedule(k), i,
                gale_type_name(type), j, gale__load_f64(type, y), gale__load_f64(type, x));
        }
    }
    if (ok && !agree_in_place(b, k, expected, got)) {
        ok = false;
        printf("%s (%s): differs over an input\n", what, gale__cpu_kernel_schedule(k));
    }
    if (!ok) {
        gale__str out = {0};
        gale__nest_print(nest, &out);
        printf("%s", gale__str_text(&out));
        gale__str_finish(&out);
    }
    gale__cpu_kernel_destroy(&k);
    for (int i = 0; i < nest->n_buffers; i++)
        free((char *)expected[i] - GUARD_BYTES), free((char *)got[i] - GUARD_BYTES);
    return ok;
}

static const int64_t sizes[] = {1, 2, 3, 15, 16, 17, 255, 256, 257, 1000, 5003, 70001};
#define SIZES (sizeof sizes / sizeof *sizes)

TEST(map)
{
    for (size_t s = 0; s < SIZES - (size_t)test_emulated(); s++) {
        build b;
        build_init(&b, 1, 0, &sizes[s]);
        int x = add_load(&b, dense_access(&b, GALE_F32, 1, false), 0);
        int y = add(&b, GALE__MUL, GALE_F32, 0, x, add_const(&b, GALE_F32, 1.5), 0);
        y = add(&b, GALE__ADD, GALE_F32, 0, y, add_const(&b, GALE_F32, -0.25), 0);
        y = add(&b, GALE__MAX, GALE_F32, 0, y, add_const(&b, GALE_F32, 0), 0);
        add_store(&b, y, dense_access(&b, GALE_F32, 1, true));
        CHECK(agree(&b, "map"));
    }
}

/* Every storage type to every other through CAST. */
TEST(casts)
{
    for (int from = 0; from < GALE_TYPE_COUNT; from++)
        for (int to = 0; to < GALE_TYPE_COUNT; to++) {
            if (from == GALE_STRING || to == GALE_STRING) continue;
            build b;
            int64_t n = 300;
            build_init(&b, 1, 0, &n);
            int x = add_load(&b, dense_access(&b, (gale_type)from, 1, false), 0);
            add_store(&b, add(&b, GALE__CAST, (gale_type)to, 0, x, 0, 0), dense_access(&b, (gale_type)to, 1, true));
            CHECK(agree(&b, "cast"));
        }
}

TEST(softmax)
{
    static const int64_t shapes[][2] = {{1, 5}, {3, 64}, {700, 7}, {5, 1000}, {2, 20000}, {1, 200000}, {40, 40}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        build b;
        build_init(&b, 1, 1, shapes[s]);
        int x = add_load(&b, dense_access(&b, GALE_F32, 3, false), 1);
        int top = add_reduce(&b, GALE__RMAX, GALE_F32, GALE_F32, x);
        int e = add(&b, GALE__EXP, GALE_F32, 1, add(&b, GALE__SUB, GALE_F32, 1, x, top, 0), 0, 0);
        int sum = add_reduce(&b, GALE__SUM, GALE_F32, GALE_F32, e);
        add_store(&b, add(&b, GALE__DIV, GALE_F32, 1, e, sum, 0), dense_access(&b, GALE_F32, 3, true));
        add_store(&b, sum, dense_access(&b, GALE_F32, 1, true));
        CHECK(agree(&b, "softmax"));
    }
}

TEST(arg_reductions)
{
    static const int64_t shapes[][2] = {{5, 33}, {300, 9}, {1, 100000}, {4, 70}, {20, 100}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int kind = GALE__ARGMAX; kind <= GALE__ARGMIN_LAST; kind++)
            for (int column = 0; column < 2; column++) {
                build b;
                build_init(&b, 1, 1, shapes[s]);
                gale__nest_access *a = dense_access(&b, kind & 1 ? GALE_F32 : GALE_I16, 3, false);
                if (column) a->stride[0] = 1, a->stride[1] = shapes[s][0];
                int x = add_load(&b, a, 1);
                add_store(&b, add_reduce(&b, kind, GALE_I64, GALE_I64, x), dense_access(&b, GALE_I64, 1, true));
                CHECK(agree(&b, "arg"));
            }
}

TEST(big_reductions)
{
    static const int64_t shapes[][2] = {{1, 300000}, {3, 70000}, {64, 20000}, {1000, 300}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int column = 0; column < 2; column++)
            for (int kind = GALE__SUM; kind <= GALE__RMIN; kind++) {
                build b;
                if (test_light() && shapes[s][0] * shapes[s][1] > (test_emulated() ? 250000 : 400000)) continue;
                build_init(&b, 1, 1, shapes[s]);
                gale__nest_access *a = dense_access(&b, GALE_F32, 3, false);
                if (column) a->stride[0] = 1, a->stride[1] = shapes[s][0];
                int x = add_load(&b, a, 1);
                if (kind == GALE__PROD)
                    x = add(&b, GALE__SELECT, GALE_F32, 1,
                        add(&b, GALE__LT, GALE_BOOL, 1, x, add_const(&b, GALE_F32, 0), 0), add_const(&b, GALE_F32, -1),
                        add_const(&b, GALE_F32, 1));
                add_store(&b, add_reduce(&b, kind, GALE_F32, kind == GALE__SUM ? GALE_F64 : GALE_F32, x),
                    dense_access(&b, GALE_F32, 1, true));
                CHECK(agree(&b, "reduction"));
            }
}

static void product(build *b, gale_type type, gale_type acc, int64_t batch, int64_t m, int64_t n, int64_t k,
    bool a_turned, bool b_turned)
{
    build_init(b, 3, 1, (int64_t[]){batch, m, n, k});
    gale__nest_access *x = dense_access(b, type, 1 | 2 | 8, false), *y = dense_access(b, type, 1 | 4 | 8, false);
    if (a_turned) x->stride[1] = 1, x->stride[3] = m;
    if (b_turned) y->stride[2] = 1, y->stride[3] = n;
    int mul = add(b, GALE__MUL, acc, 1, add(b, GALE__CAST, acc, 1, add_load(b, x, 1), 0, 0),
        add(b, GALE__CAST, acc, 1, add_load(b, y, 1), 0, 0), 0);
    int sum = add_reduce(b, GALE__SUM, acc, acc, mul);
    add_store(b, sum, dense_access(b, acc, 7, true));
}

TEST(products)
{
    static const int64_t shapes[][4] = {{1, 1, 1, 1}, {1, 5, 7, 3}, {1, 64, 64, 64}, {1, 130, 70, 300}, {3, 33, 17, 65},
        {1, 8, 300, 20}, {1, 257, 12, 128}, {20, 16, 16, 16}, {1, 40, 40, 6000}, {1, 1, 100, 500}, {1, 100, 1, 500}};
    static const gale_type types[][2] = {{GALE_F32, GALE_F32}, {GALE_F64, GALE_F64}, {GALE_I8, GALE_I32},
        {GALE_U8, GALE_I32}, {GALE_F16, GALE_F32}, {GALE_I64, GALE_I64}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (int turned = 0; turned < 4; turned++) {
                build b;
                if (turned && t > 1 && s > 5) continue;
                if (test_emulated() && (s + t + (size_t)turned) % 2) continue; /* each shape and type in some form */
                if (s == 8 && (t > 2 || t == 1 || turned == 1 || turned == 2))
                    continue; /* long for the naive evaluator */
                if (test_light() && shapes[s][1] * shapes[s][2] * shapes[s][3] > (test_emulated() ? 50000 : 100000))
                    continue;
                product(&b, types[t][0], types[t][1], shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3],
                    turned & 1, turned & 2);
                CHECK(agree(&b, "product"));
            }
}

/* Products of bytes with a few rows or columns take instructions for bytes, whichever side is long. */
TEST(few_bytes)
{
    static const int64_t shapes[][3] = {{1, 90, 8}, {2, 500, 25}, {3, 64, 40}, {90, 1, 8}, {500, 2, 25}, {64, 3, 40}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        build b;
        gale__cpu_kernel *k = NULL;
        product(&b, GALE_I8, GALE_I32, 1, shapes[i][0], shapes[i][1], shapes[i][2], false, false);
        if (!CHECK(agree(&b, "few bytes")) || !CHECK_OK(gale__cpu_kernel_create(&b.nest, &k))) return;
        CHECK(!gale__cpu_narrow_bytes() || !strcmp(gale__cpu_kernel_schedule(k), "contraction"));
        gale__cpu_kernel_destroy(&k);
    }
}

/* y[m, n] = relu(sum over k of a[m, k] b[k, n]), b of the type of the sums, as it lies or turned. */
static void plain_product(build *b, gale_type type, int64_t m, int64_t n, int64_t k, bool turned)
{
    build_init(b, 2, 1, (int64_t[]){m, n, k});
    gale__nest_access *x = dense_access(b, type, 1 | 4, false), *y = dense_access(b, type, 2 | 4, false);
    if (turned) y->stride[1] = 1, y->stride[2] = n;
    int sum = add_reduce(b, GALE__SUM, type, type, add(b, GALE__MUL, type, 1, add_load(b, x, 1), add_load(b, y, 1), 0));
    add_store(b, add(b, GALE__MAX, type, 0, sum, add_const(b, type, 0), 0), dense_access(b, type, 3, true));
}

/* Floats of a few columns whose steps are apart in memory are packed rather than summed one by one. */
TEST(few_columns)
{
    static const int64_t shapes[][3] = {{90, 2, 40}, {70, 7, 33}, {5, 5, 64}, {2, 3, 16}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        build b;
        gale__cpu_kernel *k = NULL;
        plain_product(&b, GALE_F32, shapes[i][0], shapes[i][1], shapes[i][2], true);
        if (!CHECK(agree(&b, "few columns")) || !CHECK_OK(gale__cpu_kernel_create(&b.nest, &k))) return;
        CHECK(!strncmp(gale__cpu_kernel_schedule(k), "contraction", 11));
        gale__cpu_kernel_destroy(&k);
    }
}

/* Rows that are read in place: all parts of a panel, sums of several parts of k, rows that displace each other in a
 * cache; plus a number for each lane, and plus another value. */
TEST(rows_in_memory)
{
    static const int64_t shapes[][3] = {{1, 64, 48}, {5, 64, 600}, {13, 96, 1100}, {29, 32, 1024}, {31, 40, 64}};
    int before = runs_in_place;
    for (size_t s = 0; s < 5; s++)
        for (int addends = 0; addends < 4; addends++) {
            build b;
            build_init(&b, 2, 1, shapes[s]);
            int x = add_load(&b, dense_access(&b, GALE_F32, 1 | 4, false), 1),
                y = add_load(&b, dense_access(&b, GALE_F32, 2 | 4, false), 1);
            x = add_reduce(&b, GALE__SUM, GALE_F32, GALE_F32, add(&b, GALE__MUL, GALE_F32, 1, x, y, 0));
            for (int i = 0; i < addends; i++) /* one for each lane, then of all elements */
                x = add(
                    &b, GALE__ADD, GALE_F32, 0, x, add_load(&b, dense_access(&b, GALE_F32, i ? 3 : 2, false), 0), 0);
            add_store(&b, x, dense_access(&b, GALE_F32, 3, true));
            CHECK(agree(&b, "rows in memory"));
        }
    bool at_once = gale__simd_gemm_find(gale__simd_plain(GALE__SIMD_TYPE_F32))->part[0].done_at[0];
    CHECK(runs_in_place > before || !at_once);
}

static gale__cpu_kernel *with_constant(build *b, gale__cpu_panels *panels)
{
    gale__cpu_kernel *k = NULL;
    b->nest.buffers[1].constant = true;
    CHECK_OK(gale__cpu_kernel_create(&b->nest, &k));
    *panels = gale__cpu_kernel_panels(k);
    return k;
}

/* A constant factor laid out once gives the same bits as one that is packed at every run, and its panels serve any
 * number of rows. */
TEST(panels)
{
    static const int64_t shapes[][3] = {
        {4, 8, 4}, {16, 384, 384}, {130, 70, 300}, {33, 1000, 17}, {16, 3000, 700}, {300, 385, 257}};
    for (size_t s = 0; s < 6 * 4; s++) {
        gale_type type = s & 1 ? GALE_F64 : GALE_F32;
        int64_t m = shapes[s / 4][0], n = shapes[s / 4][1], k = shapes[s / 4][2];
        if (test_light() && m * n * k > (test_emulated() ? 600000 : 1000000)) continue;
        size_t size = gale_type_size(type),
               bytes[3] = {(size_t)(m * k) * size, (size_t)(n * k) * size, (size_t)(m * n) * size};
        build b;
        gale__cpu_kernel *plain = NULL, *other;
        gale__cpu_panels panels, more;
        void *x = malloc(bytes[0]), *w = malloc(bytes[1]), *y = malloc(bytes[2]), *z = guarded(bytes[2]);
        plain_product(&b, type, m, n, k, s & 2);
        b.nest.steady = true; /* not as shares (test_shares.c), which depends on the number of rows */
        fill_buffer(type, x, m * k);
        fill_buffer(type, w, n * k);
        CHECK_OK(gale__cpu_kernel_create(&b.nest, &plain));
        CHECK_EQ(gale__cpu_kernel_panels(plain).bytes, 0);
        other = with_constant(&b, &panels);
        if (!CHECK(plain && other && panels.buffer == 1 && panels.bytes >= bytes[1] &&
                   panels.bytes < bytes[1] + (size_t)(k * 64) * size))
            return;
        char *made = guarded(panels.bytes + 64), *p = made + 64 - (uintptr_t)made % 64;
        gale__cpu_kernel_make_panels(other, w, p);
        gale__cpu_kernel_run(plain, (void *[]){x, w, y});
        gale__cpu_kernel_run(other, (void *[]){x, p, z});
        CHECK(!memcmp(y, z, bytes[2]) && guards_hold(z, bytes[2]) && p[panels.bytes] == 0x5a);
        gale__cpu_kernel_destroy(&other);
        plain_product(&b, type, m + 5, n, k, s & 2);
        b.nest.steady = true;
        other = with_constant(&b, &more);
        CHECK(more.key == panels.key && more.bytes == panels.bytes);
        gale__cpu_kernel_destroy(&other);
        plain_product(&b, type, m, n, k, !(s & 2));
        other = with_constant(&b, &more);
        CHECK(more.key != panels.key);
        gale__cpu_kernel_destroy(&other);
        gale__cpu_kernel_destroy(&plain);
        free(x), free(w), free(y), free((char *)z - GUARD_BYTES), free(made - GUARD_BYTES);
    }
}

static int
    follow; /* what else follows: 1: other values are added, 2: a limit above, 4: a scale before; by 8: activated */

static int by_number(build *b, int op, int y, double number)
{
    return add(b, op, GALE_F32, 0, y, add_const(b, GALE_F32, number), 0);
}

/* y as it is, or HardSwish, Swish, Sigmoid, Gelu of it, as operators are lowered. */
static int activated(build *b, int kind, int y)
{
    int one = add_const(b, GALE_F32, 1), gate = 0;
    if (kind == 1) {
        gate = by_number(b, GALE__MIN, by_number(b, GALE__MAX, by_number(b, GALE__ADD, y, 3), 0), 6);
        return add(b, GALE__MUL, GALE_F32, 0, y, by_number(b, GALE__MUL, gate, 1.0 / 6), 0);
    }
    if (kind == 2 || kind == 3) {
        gate = add(b, GALE__EXP, GALE_F32, 0, add(b, GALE__NEG, GALE_F32, 0, y, 0, 0), 0, 0);
        gate = add(b, GALE__DIV, GALE_F32, 0, one, by_number(b, GALE__ADD, gate, 1), 0);
        return kind == 2 ? add(b, GALE__MUL, GALE_F32, 0, y, gate, 0) : gate;
    }
    if (kind != 4) return y;
    gate = add(b, GALE__ERF, GALE_F32, 0, by_number(b, GALE__MUL, y, 0.70710678118654752440), 0, 0);
    return add(b, GALE__MUL, GALE_F32, 0, by_number(b, GALE__MUL, y, 0.5), by_number(b, GALE__ADD, gate, 1), 0);
}

/* out[n, o, y, x] = relu(sum over c, i, j of in[n, c, s y + d i - p, s x + d j - p] w[o, c, i, j] + bias[o]). */
static void convolution(build *b, int64_t n, int64_t c, int64_t h, int64_t w, int64_t o, int64_t kernel, int64_t stride,
    int64_t dilation, int64_t pad, int64_t div)
{
    int64_t reach = dilation * (kernel - 1) + 1, oh = (h * div + 2 * pad - reach) / stride + 1,
            ow = (w * div + 2 * pad - reach) / stride + 1;
    build_init(b, 4, 3, (int64_t[]){n, o, oh, ow, c, kernel, kernel});
    gale__nest_access *x = add_access(b, add_buffer(b, GALE_F32, n * c * h * w, false));
    x->stride[0] = c * h * w;
    x->stride[4] = h * w;
    for (int axis = 0; axis < 2; axis++) {
        gale__nest_guard *g = &x->guards[x->n_guards++];
        *g = (gale__nest_guard){.c0 = -pad, .extent = axis ? w : h, .div = div, .stride = axis ? 1 : w};
        g->coef[2 + axis] = stride;
        g->coef[5 + axis] = dilation;
        if (div > 1) continue;
        x->offset -= pad * g->stride;
        x->stride[2 + axis] = stride * g->stride;
        x->stride[5 + axis] = dilation * g->stride;
        g->stride = 0;
    }
    int in = add_load(b, x, 1), weight = add_load(b, dense_access(b, GALE_F32, 2 | 16 | 32 | 64, false), 1);
    int sum = add_reduce(b, GALE__SUM, GALE_F32, GALE_F32, add(b, GALE__MUL, GALE_F32, 1, in, weight, 0));
    int y = add(b, GALE__ADD, GALE_F32, 0, sum, add_load(b, dense_access(b, GALE_F32, 2, false), 0), 0);
    if (follow & 4) y = add(b, GALE__MUL, GALE_F32, 0, y, add_load(b, dense_access(b, GALE_F32, 2, false), 0), 0);
    if (follow & 1) y = add(b, GALE__ADD, GALE_F32, 0, y, add_load(b, dense_access(b, GALE_F32, 15, false), 0), 0);
    y = add(b, GALE__MAX, GALE_F32, 0, y, add_const(b, GALE_F32, follow / 8 ? -3.5 : 0), 0);
    if (follow & 2) y = by_number(b, GALE__MIN, y, 1.5);
    add_store(b, activated(b, follow / 8, y), dense_access(b, GALE_F32, 15, true));
    gale__cpu_span lanes;
    gale__cpu_finish finish;
    gale__cpu_span_init(&lanes, &b->nest, (const uint8_t[]){2, 3}, 2);
    gale__cpu_finish_find(&finish, &b->nest, sum, &lanes, false);
    CHECK(finish.out && !finish.activate == !(follow / 8));
}

TEST(convolutions)
{
    build b;
    static const int64_t cases[][10] = {{1, 3, 9, 9, 4, 3, 1, 1, 1, 1}, {2, 8, 14, 15, 16, 3, 1, 1, 1, 1},
        {1, 16, 12, 12, 24, 3, 2, 1, 1, 1}, {1, 5, 17, 13, 7, 5, 1, 2, 4, 1}, {1, 32, 10, 10, 40, 1, 1, 1, 0, 1},
        {2, 6, 7, 7, 9, 3, 1, 1, 2, 2}, {1, 4, 6, 5, 12, 4, 1, 1, 2, 3}, {2, 5, 7, 7, 70, 3, 1, 1, 1, 1},
        {1, 40, 3, 3, 65, 3, 1, 1, 1, 1}, {1, 3, 29, 13, 96, 5, 2, 1, 2, 1}, {3, 2, 14, 14, 64, 3, 1, 2, 2, 1},
        {1, 6, 8, 8, 20, 3, 1, 12, 12, 1}, {1, 6, 8, 8, 20, 3, 1, 7, 7, 1}, {2, 4, 6, 9, 8, 5, 2, 5, 9, 1},
        {1, 16, 40, 40, 12, 1, 1, 1, 0, 1}, {2, 9, 31, 29, 20, 1, 1, 1, 0, 1}, {1, 300, 5, 5, 30, 1, 1, 1, 0, 1},
        {1, 20, 7, 7, 40, 1, 1, 1, 0, 1}, {1, 270, 13, 14, 18, 1, 1, 1, 0, 1}, {2, 5, 24, 28, 20, 4, 4, 1, 0, 1},
        {1, 70, 14, 14, 33, 2, 2, 1, 0, 1}, {1, 300, 14, 14, 33, 1, 2, 1, 0, 1}, {1, 64, 16, 16, 33, 3, 1, 12, 12, 1},
        {2, 64, 7, 9, 20, 3, 2, 6, 6, 1}, {1, 3, 20, 21, 18, 1, 2, 1, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t *c = cases[i];
        follow = (int)(i * 9 % 40);
        convolution(&b, c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9]);
        if (!test_emulated() || i % 2) CHECK(agree(&b, "convolution"));
        gale__nest_canonicalize(&b.nest);
        if (!test_emulated() || i % 2 == 0) CHECK(agree(&b, "convolution, canonical"));
    }
    follow = 0;
}

static int64_t hop = 1; /* from one tap to the next */

/* out[g, o, y, x] = relu(sum over c, i, j of in[g, c, s y + h i - p, s x + h j - p] w[g, o, c, i, j] + bias[g, o]),
 * with `side` places along each axis, taps and stride s. */
static void grouped_taps(build *b, int64_t groups, int64_t c, int64_t side, int64_t o, int64_t taps, int64_t stride)
{
    int64_t pad = taps / 2 * hop, out = (side + 2 * pad - (taps - 1) * hop - 1) / stride + 1;
    build_init(b, 4, 3, (int64_t[]){groups, o, out, out, c, taps, taps});
    gale__nest_access *x = add_access(b, add_buffer(b, GALE_F32, groups * c * side * side, false));
    x->stride[0] = c * side * side;
    x->stride[4] = side * side;
    x->offset = -pad * (side + 1);
    for (int axis = 0; axis < 2; axis++) {
        gale__nest_guard *g = &x->guards[x->n_guards++];
        *g = (gale__nest_guard){.c0 = -pad, .extent = side, .div = 1};
        g->coef[2 + axis] = stride, g->coef[5 + axis] = hop;
        x->stride[5 + axis] = hop * (axis ? 1 : side);
        x->stride[2 + axis] = stride * (axis ? 1 : side);
    }
    int in = add_load(b, x, 1), weight = add_load(b, dense_access(b, GALE_F32, 1 | 2 | 16 | 32 | 64, false), 1);
    int sum = add_reduce(b, GALE__SUM, GALE_F32, GALE_F32, add(b, GALE__MUL, GALE_F32, 1, in, weight, 0));
    int y = add(b, GALE__ADD, GALE_F32, 0, sum, add_load(b, dense_access(b, GALE_F32, 1 | 2, false), 0), 0);
    y = add(b, GALE__MAX, GALE_F32, 0, y, add_const(b, GALE_F32, 0), 0);
    add_store(b, activated(b, follow / 8, y), dense_access(b, GALE_F32, 15, true));
}

static void grouped_convolution(build *b, int64_t groups, int64_t c, int64_t side, int64_t o)
{
    grouped_taps(b, groups, c, side, o, 3, 1);
}

/* Weights that were laid out once give the same bits as those that every run packs (not where they are transformed). */
static bool kept_weights_agree(build *b)
{
    gale__cpu_kernel *plain = NULL, *kept = NULL;
    gale__cpu_panels panels;
    float *at[4];
    char *z;
    for (int i = 0; i < 4; i++) {
        at[i] = malloc((size_t)b->nest.buffers[i].elements * sizeof(float));
        fill_buffer(GALE_F32, at[i], b->nest.buffers[i].elements);
    }
    size_t bytes = (size_t)b->nest.buffers[3].elements * sizeof(float);
    z = guarded(bytes);
    CHECK_OK(gale__cpu_kernel_create(&b->nest, &plain));
    kept = with_constant(b, &panels);
    bool good = CHECK(plain && kept && panels.buffer == 1 && panels.bytes > 0);
    char *made = guarded(panels.bytes + 64), *p = made + 64 - (uintptr_t)made % 64;
    if (good) {
        gale__cpu_kernel_make_panels(kept, at[1], p);
        gale__cpu_kernel_run(plain, (void *[]){at[0], at[1], at[2], at[3]});
        gale__cpu_kernel_run(kept, (void *[]){at[0], p, at[2], z});
        good = CHECK(!memcmp(at[3], z, bytes) && guards_hold(z, bytes) && p[panels.bytes] == 0x5a);
    }
    gale__cpu_kernel_destroy(&plain);
    gale__cpu_kernel_destroy(&kept);
    for (int i = 0; i < 4; i++) free(at[i]);
    free((char *)z - GUARD_BYTES), free(made - GUARD_BYTES);
    return good;
}

TEST(kept_weights)
{
    build b;
    setenv("GALE_WINOGRAD", "off", 1);
    convolution(&b, 2, 16, 14, 15, 70, 3, 1, 1, 1, 1);
    CHECK(kept_weights_agree(&b));
    convolution(&b, 1, 40, 7, 7, 96, 1, 1, 1, 0, 1);
    CHECK(kept_weights_agree(&b));
    convolution(&b, 1, 16, 28, 28, 20, 3, 2, 1, 1, 1);
    CHECK(kept_weights_agree(&b));
    for (int64_t groups = 2; groups < 30; groups += test_light() ? 18 : 9) {
        grouped_convolution(&b, groups, 12, 7 + groups / 3, 9);
        CHECK(agree(&b, "grouped convolution"));
        grouped_convolution(&b, groups, 12, 7 + groups / 3, 9);
        CHECK(kept_weights_agree(&b));
    }
}

/* Rows of every length that a tile has lanes for, one or two to a tile, in more steps than a panel's part has. */
TEST(narrow_maps)
{
    build b;
    setenv("GALE_WINOGRAD", "off", 1);
    for (int64_t width = 1; width < 32; width += test_light() ? 5 : 1)
        for (int64_t stride = 1; stride < 3; stride++) {
            follow = (int)(width * 9 + stride) % 40;
            convolution(&b, 1, width & 1 ? 30 : 7, 5, width, width % 3 ? 45 : 12, 3, stride, 1, 1, 1);
            CHECK(agree(&b, "narrow map"));
        }
    grouped_taps(&b, 9, 16, 7, 16, 3, 2);
    CHECK(kept_weights_agree(&b));
    follow = 0;
    unsetenv("GALE_WINOGRAD");
}

/* Blocks of some columns and several rows, whose sums are finished by a tape: PRelu. */
TEST(wide_maps)
{
    static const int64_t widths[] = {296, 301, 177};
    build b;
    for (size_t i = test_emulated() ? 2 : 0; i < sizeof widths / sizeof *widths; i++) {
        const build_maps m = {1, 1, 48, 9, widths[i], 1, 1, 1};
        build_init(&b, 5, 3, (int64_t[]){m.n, m.groups, 48, m.h, m.w, m.c, 3, 3});
        int in = add_load(&b, maps_access(&b, &m), 1),
            weight = add_load(&b, dense_access(&b, GALE_F32, 4 | 32 | 64 | 128, false), 1);
        int sum = add_reduce(&b, GALE__SUM, GALE_F32, GALE_F32, add(&b, GALE__MUL, GALE_F32, 1, in, weight, 0));
        int slope = add_load(&b, dense_access(&b, GALE_F32, 4, false), 0), above = by_number(&b, GALE__MAX, sum, 0);
        int below_0 = add(&b, GALE__MUL, GALE_F32, 0, by_number(&b, GALE__MIN, sum, 0), slope, 0);
        add_store(&b, add(&b, GALE__ADD, GALE_F32, 0, above, below_0, 0), dense_access(&b, GALE_F32, 31, true));
        CHECK(agree(&b, "wide map"));
    }
}

/* Each channel by its own weights, one long row at a time; what follows is done for several channels together. */
TEST(channels)
{
    static const int64_t shapes[][5] = {{1, 9, 3, 1}, {5, 3, 3, 1}, {40, 7, 3, 1}, {3, 64, 3, 1}, {2, 150, 3, 1},
        {300, 2, 3, 1}, {9, 14, 3, 1}, {4, 28, 3, 1}, {3, 90, 3, 1}, {2, 112, 3, 1}, {19, 14, 3, 2}, {17, 7, 5, 1},
        {20, 13, 5, 2}, {3, 57, 3, 2}, {2, 128, 3, 2}, {18, 4, 7, 1}, {33, 9, 7, 1}, {3, 30, 5, 1}, {2, 31, 7, 2},
        {6, 16, 9, 1}, {7, 11, 3, 1, 2}, {3, 33, 5, 1, 3}, {5, 12, 3, 2, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        build b;
        gale__cpu_kernel *k = NULL;
        hop = shapes[i][4] ? shapes[i][4] : 1;
        follow = (int)(i % 5) * 8;
        grouped_taps(&b, shapes[i][0], 1, shapes[i][1], 1, shapes[i][2], shapes[i][3]);
        hop = 1;
        follow = 0;
        gale__nest_canonicalize(&b.nest);
        if (!CHECK(agree(&b, "by channel")) || !CHECK_OK(gale__cpu_kernel_create(&b.nest, &k))) return;
        CHECK(shapes[i][0] == 1 || !strcmp(gale__cpu_kernel_schedule(k), "by channel"));
        gale__cpu_kernel_destroy(&k);
    }
}

/* out[i] = table[index[i]], and out[index[i]] = in[i] where the last one wins. */
TEST(indirection)
{
    build b;
    int64_t n = 1000;
    build_init(&b, 1, 0, &n);
    gale__nest_access *table = add_access(&b, add_buffer(&b, GALE_F16, 15, false));
    int index = add_load(&b, dense_access(&b, GALE_I32, 1, false), 0);
    int take = add(&b, GALE__NEST_TAKE, GALE_F16, 0, index, 0, 0);
    b.code[take].access = (int32_t)(table - b.accesses);
    b.code[take].imm = 15;
    add_store(&b, take, dense_access(&b, GALE_F32, 1, true));
    gale__nest_access *out = add_access(&b, add_buffer(&b, GALE_F32, 12, true));
    add_store(&b, add_load(&b, dense_access(&b, GALE_F32, 1, false), 0), out);
    b.stores[1].index = index;
    b.stores[1].limit = 12;
    CHECK(agree(&b, "indirection"));
}

/* out[i, j, k] of a table, whose index is a sum: 1: of a number for each i, j (buffers are filled with -20 to 20, so
 * that some are out of range), 2: of a number for each k, 4: the place k itself, 8: a number for each i, 16: the place
 * j times 3, 32: a number for each element, so that rows have none in common. */
static void taken_rows(build *b, const int64_t *extent, gale_type type, int terms)
{
    static const uint32_t masks[] = {3, 4, 0, 1, 0, 7};
    build_init(b, 3, 0, extent);
    int sum = add_const(b, GALE_I64, 7);
    for (int t = 0; t < 6; t++) {
        int term = -1;
        if (!(terms >> t & 1)) continue;
        if (masks[t]) {
            term = add_load(b, dense_access(b, GALE_I64, masks[t], false), 0);
        } else {
            gale__nest_access *walk = add_access(b, -1);
            walk->stride[t == 2 ? 2 : 1] = 1;
            term = add(b, GALE__NEST_INDEX, GALE_I64, 0, 0, 0, 0);
            b->code[term].access = (int32_t)(walk - b->accesses);
            if (t == 4) term = add(b, GALE__MUL, GALE_I64, 0, term, add_const(b, GALE_I64, 3), 0);
        }
        sum = add(b, GALE__ADD, GALE_I64, 0, sum, term, 0);
    }
    gale__nest_access *table = add_access(b, add_buffer(b, type, extent[2] + 9, false));
    int take = add(b, GALE__NEST_TAKE, type, 0, sum, 0, 0);
    b->code[take].access = (int32_t)(table - b->accesses);
    b->code[take].imm = (uint64_t)extent[2] + 9;
    if (terms & 8) take = add(b, GALE__ADD, type, 0, take, take, 0);
    add_store(b, take, dense_access(b, type, 7, true));
}

TEST(rows_by_index)
{
    static const int64_t shapes[][3] = {{3, 5, 40}, {2, 3, 3000}, {40, 7, 3}, {1, 1, 5003}, {2, 300, 64}};
    static const gale_type types[] = {GALE_F32, GALE_F16, GALE_U8, GALE_I64};
    for (int i = 0; i < 5 * 64; i++) {
        build b;
        gale__cpu_kernel *k = NULL;
        const int64_t *shape = shapes[i / 64 % 5];
        if (test_light() && shape[0] * shape[1] * shape[2] > 4000 && i % (test_emulated() ? 13 : 7)) continue;
        taken_rows(&b, shape, types[(i / 64 + i / 5) % 4], i % 64);
        if (!CHECK(agree(&b, "rows by index")) || !CHECK_OK(gale__cpu_kernel_create(&b.nest, &k))) return;
        bool spread = !(i & 6) && (i & 25) && shape[2] >= 16, by_rows = !(i & 32) && !((i & 2) && (i & 4)) && !spread;
        if (shape[0] > 1) CHECK_EQ(strcmp(gale__cpu_kernel_schedule(k), "map, rows by index") == 0, by_rows);
        gale__cpu_kernel_destroy(&k);
    }
}

/* Indices from outside whose steps wrap around between two places that are in range. */
TEST(far_indices)
{
    enum { N = 65 };
    static const int64_t shape[3] = {2, 3, N};
    static int64_t index[N];
    static float table[N + 9], out[2 * 3 * N];
    build b;
    gale__cpu_kernel *k = NULL;
    for (int i = 0; i < N; i++) index[i] = i % 2 ? INT64_MIN : 0;
    for (int i = 0; i < N + 9; i++) table[i] = (float)i;
    taken_rows(&b, shape, GALE_F32, 2);
    if (!CHECK_OK(gale__cpu_kernel_create(&b.nest, &k))) return;
    CHECK(!strcmp(gale__cpu_kernel_schedule(k), "map, rows by index"));
    gale__cpu_kernel_run(k, (void *[]){index, table, out});
    for (int i = 0; i < 2 * 3 * N; i++) CHECK(out[i] == (i % N % 2 ? 0 : 7)); /* clamped, and 7 + 0 */
    gale__cpu_kernel_destroy(&k);
}

TEST(in_place)
{
    static float x[5000], y[5000];
    int64_t n = 5000;
    build b;
    build_init(&b, 1, 0, &n);
    int v = add_load(&b, dense_access(&b, GALE_F32, 1, false), 0);
    add_store(&b, add(&b, GALE__NEG, GALE_F32, 0, v, 0, 0), dense_access(&b, GALE_F32, 1, true));
    add_store(&b, add(&b, GALE__ADD, GALE_F32, 0, v, v, 0), dense_access(&b, GALE_F32, 1, true));
    for (int i = 0; i < n; i++) x[i] = (float)i;
    gale__cpu_kernel *k = NULL;
    if (!CHECK_OK(gale__cpu_kernel_create(&b.nest, &k))) return;
    gale__cpu_kernel_run(k, (void *[]){x, x, y});
    for (int i = 0; i < n; i++) CHECK(x[i] == -(float)i && y[i] == 2 * (float)i);
    gale__cpu_kernel_destroy(&k);
}

/* ---- random nests ---- */

static const gale_type storages[] = {GALE_F32, GALE_F32, GALE_F32, GALE_F64, GALE_F16, GALE_BF16, GALE_F8E4M3FN,
    GALE_I8, GALE_U8, GALE_I16, GALE_U16, GALE_I32, GALE_U32, GALE_I64, GALE_U64, GALE_BOOL, GALE_I4};
static gale_type random_storage(void) { return storages[below((int)(sizeof storages / sizeof *storages))]; }

static void random_dims(build *b)
{
    int64_t extent[GALE__NEST_DIMS];
    int outer = below(4), inner = chance(60) ? below(3) : 0;
    for (int d = 0; d < outer + inner; d++) extent[d] = 1 + below(6);
    if (outer + inner && chance(60)) extent[below(outer + inner)] = chance(70) ? 20 + below(300) : 600 + below(900);
    build_init(b, outer, inner, extent);
}

/* Axes in random order, each a sum of one or two dimensions with steps, an offset, perhaps padding, flipping and
 * dilation. */
static gale__nest_access *random_access(build *b, gale_type type, int n_dims)
{
    gale__nest_access *a = add_access(b, add_buffer(b, type, 0, false));
    int64_t size = 1 + below(2);
    uint32_t left = (1u << n_dims) - 1;
    gale__store_f64(type, &a->fill, below(3));
    while (left) {
        int d = below(n_dims), e = -1;
        if (!(left >> d & 1)) continue;
        left &= ~(1u << d);
        if (chance(15)) continue; /* broadcast */
        if (chance(25))
            for (int k = 0; k < n_dims; k++)
                if (left >> k & 1) e = k;
        if (e >= 0) left &= ~(1u << e);
        int64_t ce = 1 + below(2), cd = chance(80) ? 1 : 2, c0 = 0,
                most = cd * (b->nest.extent[d] - 1) + (e >= 0 ? ce * (b->nest.extent[e] - 1) : 0);
        bool guard = chance(30) && a->n_guards < GALE__GUARDS;
        int64_t div = guard && chance(30) ? 2 + below(2) : 1, extent = (most + div) / div;
        if (chance(15)) c0 = most, cd = -cd, ce = -ce; /* flipped */
        if (guard) c0 += below(5) - 2, extent = extent > 2 ? extent - below(2) : extent;
        if (guard) {
            gale__nest_guard *g = &a->guards[a->n_guards++];
            *g = (gale__nest_guard){.c0 = c0, .extent = extent, .div = div, .stride = div > 1 ? size : 0};
            g->coef[d] = cd;
            if (e >= 0) g->coef[e] = ce;
        }
        if (div == 1) {
            a->stride[d] += cd * size;
            if (e >= 0) a->stride[e] += ce * size;
            a->offset += c0 * size;
        }
        size *= extent;
    }
    b->buffers[a->buffer].elements = size;
    return a;
}

static int random_value(build *b, gale_type type, int inner)
{
    int n_dims = b->nest.n_outer + (inner ? b->nest.n_inner : 0);
    if (chance(10)) return add_const(b, type, chance(50) ? 1 : 2);
    if (chance(8)) {
        gale__nest_access *a = add_access(b, -1);
        for (int d = 0; d < n_dims; d++) a->stride[d] = below(3);
        int i = add(b, GALE__NEST_INDEX, GALE_I64, inner, 0, 0, 0);
        b->code[i].access = (int32_t)(a - b->accesses);
        return add(b, GALE__CAST, type, inner, i, 0, 0);
    }
    int v = add_load(b, random_access(b, chance(50) ? type : random_storage(), n_dims), inner);
    return b->code[v].type == type ? v : add(b, GALE__CAST, type, inner, v, 0, 0);
}

static int random_op(build *b, gale_type type, int inner, int x, int y)
{
    static const int floats[] = {
        GALE__ADD, GALE__SUB, GALE__MUL, GALE__MIN, GALE__MAX, GALE__NEG, GALE__ABS, GALE__TANH, GALE__SIN, GALE__ATAN};
    static const int ints[] = {GALE__ADD, GALE__SUB, GALE__MUL, GALE__MIN, GALE__MAX, GALE__NEG, GALE__ABS, GALE__AND,
        GALE__OR, GALE__XOR, GALE__DIV, GALE__REM, GALE__SHL, GALE__SHR, GALE__NOT};
    static const int bools[] = {GALE__AND, GALE__OR, GALE__XOR, GALE__NOT};
    int op = gale__type_is_float(type) ? floats[below(10)] : type == GALE_BOOL ? bools[below(4)] : ints[below(15)];
    if (chance(10))
        return add(
            b, GALE__SELECT, type, inner, add(b, chance(50) ? GALE__LT : GALE__EQ, GALE_BOOL, inner, x, y, 0), x, y);
    if (gale__type_is_float(type) && op == GALE__MUL) y = add(b, GALE__MIN, type, inner, y, add_const(b, type, 2), 0);
    return add(b, op, type, inner, x, y, 0);
}

static int random_chain(build *b, gale_type type, int inner, int v, int n)
{
    for (int i = 0; i < n; i++) {
        int w = random_value(b, type, inner);
        /* Comparing what was rounded differently may go either way: only values straight from memory are selected by.
         */
        v = random_op(b, type, inner, w, v < 0 ? random_value(b, type, inner) : v);
    }
    return v;
}

static gale_type accumulator(gale_type type)
{
    switch (gale__compute_type(type)) {
    case GALE_F32: return chance(50) ? GALE_F32 : GALE_F64;
    case GALE_I32: return chance(50) ? GALE_I32 : GALE_I64;
    case GALE_U32: return chance(50) ? GALE_U32 : GALE_U64;
    case GALE_BOOL: return GALE_BOOL;
    default: return gale__compute_type(type);
    }
}

static void random_store(build *b, int v, int inner)
{
    uint32_t mask = (1u << (b->nest.n_outer + (inner ? b->nest.n_inner : 0))) - 1;
    gale_type type = (gale_type)b->code[v].type;
    gale__nest_access *a = dense_access(b, chance(70) ? type : gale__type_is_float(type) ? GALE_F16 : type, mask, true);
    if (chance(20)) { /* reversed order of dimensions */
        int64_t size = 1;
        for (int d = 0; d < b->nest.n_outer + (inner ? b->nest.n_inner : 0); d++)
            a->stride[d] = size, size *= b->nest.extent[d];
    }
    add_store(b, v, a);
}

static void random_nest(build *b)
{
    random_dims(b);
    gale_type type = random_storage();
    bool reduces = b->nest.n_inner && chance(85);
    if (!reduces) {
        int inner = b->nest.n_inner > 0, v = random_chain(b, type, inner, -1, 1 + below(4));
        random_store(b, v, inner);
        if (chance(20)) random_store(b, random_value(b, type, inner), inner);
        return;
    }
    int v = chance(40) ? random_value(b, type, 1) : random_chain(b, type, 1, -1, 1 + below(2));
    bool sums = type != GALE_BOOL, last = false;
    for (int round = 0; round < 1 + below(2) && !last; round++) {
        bool exact = b->code[v].op == GALE__NEST_LOAD;
        int kind = !sums                 ? GALE__RMAX + below(2)
                   : chance(50)          ? GALE__SUM
                   : exact && chance(40) ? GALE__ARGMAX + below(4)
                                         : GALE__RMAX + below(2);
        int r = add_reduce(b, kind, kind >= GALE__ARGMAX ? GALE_I64 : type, accumulator(type), v);
        random_store(b, r, 0);
        if (kind >= GALE__ARGMAX) return;
        if (chance(50)) r = random_chain(b, type, 0, r, 1);
        if (chance(30)) {
            random_store(b, r, 0);
            last = true;
        } else
            v = sums ? add(b, gale__type_is_float(type) && kind == GALE__SUM ? GALE__MAX : GALE__SUB, type, 1, v, r, 0)
                     : add(b, GALE__XOR, type, 1, v, r, 0);
    }
    if (!last && b->code[v].inner) random_store(b, v, 1);
}

/* Copies are loaded straight into the result: padded, flipped, repeated and in short rows, over more than one block. */
TEST(copies)
{
    for (int i = 0; i < (test_light() ? 60 : 300); i++) {
        build b;
        gale_type type = random_storage();
        int64_t extent[3] = {1 + below(40), 1 + below(40), 1 + below(i % 5 ? 60 : 300)};
        if (i % 20 == 0) extent[below(3)] = 40000, extent[below(3)] = 2;
        if (extent[0] * extent[1] * extent[2] > 200000) extent[0] = 1;
        build_init(&b, 3, 0, extent);
        int x = add_load(&b, random_access(&b, type, 3), 0);
        add_store(&b, x, dense_access(&b, type, 7, true));
        if (!CHECK(agree(&b, "copy"))) return;
    }
}

TEST(random_nests)
{
    int count = getenv("CPU_NESTS") ? atoi(getenv("CPU_NESTS"))
                : test_emulated()   ? 50
                : test_brief()      ? 100
                : test_light()      ? 300
                                    : 3000;
    for (int i = 0; i < count && test_bad < 3; i++) {
        build b;
        char what[32];
        random_state = (uint64_t)i * 7919 + 17;
        random_nest(&b);
        snprintf(what, sizeof what, "nest %d", i);
        CHECK(agree(&b, what));
        gale__nest_canonicalize(&b.nest);
        CHECK(agree(&b, what));
    }
}

typedef struct runner {
    gale__cpu_kernel *kernel;
    void *buffers[3];
} runner;
static void run_often(void *arg)
{
    const runner *r = arg;
    for (int i = 0; i < (test_emulated() ? 1 : test_light() ? 3 : 20); i++) gale__cpu_kernel_run(r->kernel, r->buffers);
}

/* Several threads run one kernel at once, each into its own memory. */
static void run_at_once(build *b, int n_inputs)
{
    enum { THREADS = 4 };
    runner r[THREADS];
    gale__thread *threads[THREADS];
    gale__cpu_kernel *k = NULL;
    size_t bytes = (size_t)b->buffers[n_inputs].elements * gale_type_size(b->buffers[n_inputs].type);
    void *inputs[2];
    if (!CHECK_OK(gale__cpu_kernel_create(&b->nest, &k))) return;
    for (int i = 0; i < n_inputs; i++) {
        inputs[i] = malloc((size_t)b->buffers[i].elements * gale_type_size(b->buffers[i].type));
        fill_buffer(b->buffers[i].type, inputs[i], b->buffers[i].elements);
    }
    for (int t = 0; t < THREADS; t++) {
        r[t] = (runner){.kernel = k};
        for (int i = 0; i < n_inputs; i++) r[t].buffers[i] = inputs[i];
        r[t].buffers[n_inputs] = malloc(bytes);
        CHECK_OK(gale__thread_start(run_often, &r[t], &threads[t]));
    }
    for (int t = 0; t < THREADS; t++) {
        gale__thread_join(&threads[t]);
        CHECK(!memcmp(r[0].buffers[n_inputs], r[t].buffers[n_inputs], bytes));
    }
    for (int t = 0; t < THREADS; t++) free(r[t].buffers[n_inputs]);
    for (int i = 0; i < n_inputs; i++) free(inputs[i]);
    gale__cpu_kernel_destroy(&k);
}

/* The input is buffer 0, the output buffer 1. */
static void row_sums(build *b)
{
    int x = add_load(b, dense_access(b, GALE_F32, 3, false), 1);
    add_store(b, add_reduce(b, GALE__SUM, GALE_F32, GALE_F32, x), dense_access(b, GALE_F32, 1, true));
}

TEST(threads)
{
    build b;
    product(&b, GALE_F32, GALE_F32, 1, 100, 80, 60, false, false);
    run_at_once(&b, 2);
    product(&b, GALE_F32, GALE_F32, 12, 20, 30, 40, false, true);
    run_at_once(&b, 2);
    product(&b, GALE_F32, GALE_F32, 1, 20, 30, 20000, false, false);
    run_at_once(&b, 2);
    build_init(&b, 1, 1, (int64_t[]){3, 70000});
    row_sums(&b);
    run_at_once(&b, 1);
}

/* The same bits from one worker as from many. */
TEST(widths)
{
    build b[3];
    static float x[3][200000], y[3][4][6000];
    build_init(&b[0], 1, 1, (int64_t[]){4, 50000});
    row_sums(&b[0]);
    product(&b[1], GALE_F32, GALE_F32, 1, 60, 100, 1500, false, false);
    product(&b[2], GALE_F32, GALE_F32, 1, 10, 12, 16000, false, true);
    for (int i = 0; i < 3 * 200000; i++) x[i / 200000][i % 200000] = (float)(below(1000) - 500) / 7;
    for (int n = 0; n < 3; n++)
        for (int w = 0; w < 4; w++) {
            gale__cpu_kernel *k = NULL;
            gale__parallel_set_width(w + 1);
            if (!CHECK_OK(gale__cpu_kernel_create(&b[n].nest, &k))) return;
            gale__cpu_kernel_run(k, n ? (void *[]){x[0], x[1], y[n][w]} : (void *[]){x[0], y[n][w]});
            gale__cpu_kernel_destroy(&k);
            CHECK(!memcmp(y[n][0], y[n][w], sizeof y[n][0]));
        }
    gale__parallel_set_width(0);
}

/* A convolution whose tiles may follow the number of threads. */
TEST(convolution_widths)
{
    build b;
    static float x[64 * 27 * 27], w[40 * 64 * 9], bias[40], y[4][40 * 14 * 14];
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(below(1000) - 500) / 7;
    for (size_t i = 0; i < sizeof w / sizeof *w; i++) w[i] = (float)(below(1000) - 500) / 9;
    convolution(&b, 1, 64, 27, 27, 40, 3, 2, 1, 1, 1);
    for (int n = 0; n < 4; n++) {
        gale__cpu_kernel *k = NULL;
        gale__parallel_set_width(4 * n + 1);
        if (!CHECK_OK(gale__cpu_kernel_create(&b.nest, &k))) return;
        gale__cpu_kernel_run(k, (void *[]){x, w, bias, y[n]});
        gale__cpu_kernel_destroy(&k);
        CHECK(!memcmp(y[0], y[n], sizeof *y));
    }
    gale__parallel_set_width(0);
}

/* Every number of lanes, of one row and of two, any number of places apart. */
TEST(upright_tiles)
{
    enum { STEPS = 7, ROWS = GALE__UPRIGHT_ROWS };
    static float a[STEPS * ROWS + 2048], b[600], sums[GALE__UPRIGHT_SUMS];
    int32_t offset[STEPS + GALE__SIMD_AHEAD] = {0, 5, 90, 91, 3, 40, 41};
    const gale__simd *simd = gale__simd_get();
    CHECK(!simd->wide == !simd->upright_rows && !simd->wide == !simd->upright_done); /* AVX2 and AVX-512 */
    CHECK(!simd->wide == !simd->tops_by_2);
    fill_buffer(GALE_F32, a, STEPS * ROWS);
    fill_buffer(GALE_F32, b, 600);
    for (int i = 0; i < 3 * simd->upright_rows / 16 * GALE__UPRIGHT_LANES; i++) {
        int lanes = i % GALE__UPRIGHT_LANES + 1, step = i / GALE__UPRIGHT_LANES % 3,
            vectors = i / GALE__UPRIGHT_LANES / 3;
        int half = lanes % 2 ? lanes : lanes / 2, rows = 16 * (vectors + 1), wrong = 0;
        gale__simd_upright u = {
            .step = step ? step : 5, .jump = 100, .a_pitch = rows, .offset = offset, .fetch = offset};
        for (int more = 0; more < 2; more++) simd->upright[step][vectors][lanes](sums, more, &u, a, b, STEPS - more);
        for (int j = 0; j < lanes * rows; j++) {
            double sum = 0;
            for (int k = 0; k < 2 * STEPS - 1; k++)
                sum += (double)a[k % STEPS * rows + j % rows] *
                       b[offset[k % STEPS] + j / rows % half * u.step + j / rows / half * u.jump];
            wrong += sum != sums[j / rows * ROWS + j % rows];
        }
        CHECK_EQ(wrong, 0);
    }
}

static float largest_of(const gale__cpu_pool *a, const float *x, int64_t row, int64_t column)
{
    float largest = -INFINITY;
    for (int64_t t = 0; t < a->rows * a->columns; t++) {
        int64_t y = row * a->stride[0] + t / a->columns * a->dilation[0] - a->low[0],
                c = column * a->stride[1] + t % a->columns * a->dilation[1] - a->low[1];
        if (y < 0 || y >= a->height || c < 0 || c >= a->width) continue;
        float v = x[y * a->width + c];
        if (v > largest || isnan(v)) largest = v;
        if (isnan(v)) return v;
    }
    return largest;
}

/* Maxima of windows of all sizes that there are kernels for, with borders and NaN, and of some others. */
TEST(pools)
{
    enum { MOST = 80 };
    static float x[2 * MOST * 9], y[2 * MOST * 9];
    for (int64_t width = 1; width < MOST; width++) {
        int64_t i = width % 4, columns = 2 + width % 3, stride = width % 7 ? 2 : 1;
        gale__cpu_pool a = {.n = 1,
            .channels = 2,
            .height = 5 + i,
            .width = width,
            .rows = 1 + width % 5,
            .columns = columns,
            .stride = {1 + i % 2, stride},
            .dilation = {1, width % 11 ? 1 : 2},
            .low = {width % 2, i == 3 ? columns : i % 2},
            .largest = 1,
            .type = GALE_F32};
        a.out_height = (a.height + 2 * a.low[0] - a.rows) / a.stride[0] + 1;
        a.out_width = (width + 2 * a.low[1] - (columns - 1) * a.dilation[1] - 1) / stride + 1;
        if (a.out_width < 1 || a.out_height < 1) continue;
        fill_buffer(GALE_F32, x, 2 * a.height * width);
        if (i == 2) x[width / 2] = x[a.height * width + width - 1] = NAN;
        size_t bytes = gale__cpu_pool_scratch(&a);
        void *memory = malloc(bytes + 1);
        gale__parallel_set_width(1);
        gale__cpu_pool_run(&a, (void *[]){y, x}, (gale__cpu_scratch_space){memory, bytes});
        gale__parallel_set_width(0);
        free(memory);
        for (int64_t c = 0, n = 0; c < a.channels; c++)
            for (int64_t r = 0; r < a.out_height; r++)
                for (int64_t j = 0; j < a.out_width; j++, n++) {
                    float wanted = largest_of(&a, x + c * a.height * width, r, j);
                    CHECK(y[n] == wanted || (isnan(y[n]) && isnan(wanted)));
                }
    }
}

/* Threads that run kernels at once do not wait for each other's scratch, though each of them may do all its work alone.
 */
/* Rows of any length: the results of elements on their own, and nothing between rows is touched. */
TEST(activations)
{
    enum { ROWS = 3, MOST = 41, PITCH = 50 };
    const gale__simd *simd = gale__simd_get();
    for (int act = 0; act < GALE__ACTIVATION_COUNT; act++)
        for (size_t n = 1; n <= MOST; n++) {
            float x[ROWS * PITCH], one[ROWS * PITCH];
            int wrong = 0;
            for (int i = 0; i < ROWS * PITCH; i++) {
                x[i] = one[i] = (float)(i * 37 % 101) / 7 - 7;
                if ((size_t)i % PITCH < n) simd->activate[act](one + i, 1, 1, 0);
            }
            simd->activate[act](x, n, ROWS, PITCH);
            for (int i = 0; i < ROWS * PITCH; i++) wrong += x[i] != one[i];
            if (!CHECK(!wrong)) printf("  activation %d of %d: %d wrong\n", act, (int)n, wrong);
        }
}

TEST(scratch_grows)
{
    gale__parallel_set_width(1);
    if (!CHECK_OK(gale__cpu_scratch_reserve(GALE__CPU_SCRATCH_SHARED, 1000, 1))) return;
    void *a = gale__cpu_scratch_take(GALE__CPU_SCRATCH_SHARED, 1000),
         *b = gale__cpu_scratch_take(GALE__CPU_SCRATCH_SHARED, 900);
    CHECK(a && b && a != b && (uintptr_t)a % 64 == 0 && (uintptr_t)b % 64 == 0);
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_SHARED, b);
    gale__alloc_fail_at(1); /* what is there serves again */
    CHECK(gale__cpu_scratch_take(GALE__CPU_SCRATCH_SHARED, 10) == b);
    gale__alloc_fail_at(0);
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_SHARED, a);
    gale__cpu_scratch_give(GALE__CPU_SCRATCH_SHARED, b);
    gale__cpu_scratch_release(GALE__CPU_SCRATCH_SHARED, 1000);
    gale__parallel_set_width(0);
}

TEST(faults)
{
    build b;
    product(&b, GALE_F32, GALE_F32, 1, 100, 80, 60, false, false);
    check_create_faults(&b.nest);
}

/* Micro-kernels go by what they multiply; one that nobody wrote is not found. */
static void test_keys(void)
{
    static const gale__simd_type types[] = {
        GALE__SIMD_TYPE_F32, GALE__SIMD_TYPE_F64, GALE__SIMD_TYPE_I32, GALE__SIMD_TYPE_U32};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        gale__simd_key key = gale__simd_plain(types[i]);
        const gale__simd_gemm *g = gale__simd_gemm_find(key);
        if (!CHECK(g != NULL)) continue;
        CHECK(g->mr > 0 && g->nr > 0 && gale__simd_part_for(g, g->mr)->rows == g->mr);
        CHECK(!(g->needs & ~gale__cpu_features()));
        key.group = 4;
        CHECK(gale__simd_gemm_find(key) == NULL);
    }
    CHECK(gale__simd_gemm_find(gale__simd_plain(GALE__SIMD_TYPE_I64)) == NULL);
    CHECK(gale__simd_gemm_find((gale__simd_key){GALE_U16, GALE_I8, GALE_I32, 4}) == NULL);
}

static void test_isa(void) { printf("instruction set: %s\n", gale__cpu_isa_name()); }

TESTS(ROW(isa), ROW(keys), ROW(map), ROW(casts), ROW(softmax), ROW(arg_reductions), ROW(big_reductions), ROW(products),
    ROW(few_bytes), ROW(few_columns), ROW(rows_in_memory), ROW(panels), ROW(convolutions), ROW(kept_weights),
    ROW(narrow_maps), ROW(wide_maps), ROW(channels), ROW(indirection), ROW(rows_by_index), ROW(far_indices),
    ROW(in_place), ROW(copies), ROW(random_nests), ROW(threads), ROW(widths), ROW(convolution_widths),
    ROW(upright_tiles), ROW(pools), ROW(activations), ROW(scratch_grows), ROW(faults))
