/* The primitive graph: building, simplification, folding, and the scalar reference. */
#include "test.h"
#include "graph/build/build.h"
#include "base/str.h"
#include "graph/reference/reference.h"
#include <math.h>

#define DIMS(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

static gale__node input(gale__prim_graph *g, int which, gale_type type, int rank, const int64_t *dims)
{
    return gale__prim_input(g, which, type, rank, dims);
}

/* Runs one output and compares with literals. */
static void check_f32(
    const gale__prim_graph *g, const void *const *in, gale__node n, const float *want, int count, double tolerance)
{
    void *out = NULL;
    if (!CHECK_EQ(g->status, GALE_OK) || !CHECK(n >= 0) || !CHECK_EQ(gale__prim_elements(g, n), count)) return;
    if (!CHECK_OK(gale__reference_run(g, in, &n, 1, &out))) return;
    for (int i = 0; i < count; i++) {
        float v = ((float *)out)[i];
        bool same = (isnan(v) && isnan(want[i])) || v == want[i] || fabs((double)v - want[i]) <= tolerance;
        if (!CHECK(same)) printf("  element %d is %g, not %g\n", i, v, want[i]);
    }
    gale__free(out);
}

static void check_i64(const gale__prim_graph *g, const void *const *in, gale__node n, const int64_t *want, int count)
{
    void *out = NULL;
    if (!CHECK_EQ(g->status, GALE_OK) || !CHECK(n >= 0) || !CHECK_EQ(gale__prim_elements(g, n), count)) return;
    if (!CHECK_OK(gale__reference_run(g, in, &n, 1, &out))) return;
    for (int i = 0; i < count; i++) CHECK_EQ(((int64_t *)out)[i], want[i]);
    gale__free(out);
}

static bool is_value(const gale__prim_graph *g, gale__node n, double value)
{
    double v;
    return gale__prim_is_splat(g, n, &v) && v == value;
}

TEST(equal_nodes_are_one)
{
    gale__prim_graph g;
    gale__prim_init(&g);
    gale__node a = input(&g, 0, GALE_F32, DIMS(2, 3)), b = input(&g, 1, GALE_F32, DIMS(3));
    gale__node x = gale__prim_add(&g, a, b), y = gale__prim_add(&g, a, b);
    CHECK_EQ(x, y);
    CHECK_EQ(gale__prim_at(&g, x)->rank, 2);
    CHECK(!gale__prim_at(&g, x)->invariant);
    CHECK_EQ(input(&g, 0, GALE_F32, DIMS(2, 3)), a);
    float big[3] = {1, 2, 3};
    CHECK_EQ(gale__prim_const(&g, GALE_F32, DIMS(3), big), gale__prim_const(&g, GALE_F32, DIMS(3), (float[]){1, 2, 3}));
    CHECK(gale__prim_add(&g, a, input(&g, 2, GALE_I32, DIMS(3))) == GALE__NIL);
    CHECK_EQ(g.status, GALE_INVALID);
    CHECK(strstr(gale_error(), "f32") != NULL);
    CHECK(gale__prim_add(&g, a, b) == GALE__NIL); /* stays failed */
    gale__prim_finish(&g);
    CHECK_EQ(gale__alloc_live(), 0);
}

TEST(pointless_work_is_not_made)
{
    gale__prim_graph g;
    gale__prim_init(&g);
    gale__node x = input(&g, 0, GALE_F32, DIMS(4, 6)), zero = gale__prim_scalar(&g, GALE_F32, 0),
               one = gale__prim_scalar(&g, GALE_F32, 1);
    CHECK_EQ(gale__prim_add(&g, x, zero), x);
    CHECK_EQ(gale__prim_add(&g, zero, x), x);
    CHECK_EQ(gale__prim_sub(&g, x, zero), x);
    CHECK_EQ(gale__prim_mul(&g, one, x), x);
    CHECK_EQ(gale__prim_div(&g, x, one), x);
    CHECK(gale__prim_mul(&g, x, zero) != x);
    CHECK_EQ(gale__prim_cast(&g, x, GALE_F32), x);
    CHECK_EQ(gale__prim_cast(&g, gale__prim_cast(&g, x, GALE_F64), GALE_F32), x);
    CHECK(gale__prim_cast(&g, gale__prim_cast(&g, x, GALE_F16), GALE_F32) != x);
    CHECK_EQ(gale__prim_reshape(&g, gale__prim_reshape(&g, x, DIMS(24)), DIMS(4, 6)), x);
    CHECK_EQ(gale__prim_permute(&g, gale__prim_permute(&g, x, (int[]){1, 0}), (int[]){1, 0}), x);
    CHECK_EQ(gale__prim_expand(&g, x, DIMS(4, 6)), x);
    CHECK_EQ(gale__prim_flip(&g, gale__prim_flip(&g, x, 3), 3), x);
    CHECK_EQ(gale__prim_slice_axis(&g, x, 0, 0, 4), x);
    gale__node part = gale__prim_slice_axis(&g, gale__prim_slice_axis(&g, x, 1, 1, 4), 1, 2, 2);
    CHECK_EQ(gale__prim_at(&g, part)->in[0], x);
    CHECK_EQ(gale__prim_at(&g, part)->attr[2], 3);
    gale__node row = input(&g, 1, GALE_F32, DIMS(1, 6));
    CHECK_EQ(gale__prim_reduce(&g, GALE__SUM, row, 1, true), row);
    CHECK_EQ(gale__prim_select(&g, gale__prim_scalar(&g, GALE_BOOL, 1), x, zero), x);
    CHECK_EQ(g.status, GALE_OK);
    gale__prim_finish(&g);
}

TEST(constants_fold)
{
    gale__prim_graph g;
    gale__prim_init(&g);
    int64_t v[3] = {2, 3, 4}, *out, n;
    gale__node c = gale__prim_const(&g, GALE_I64, DIMS(3), v),
               twice = gale__prim_mul(&g, c, gale__prim_scalar(&g, GALE_I64, 2));
    CHECK_EQ(gale__prim_at(&g, twice)->op, GALE__PRIM_CONST);
    if (CHECK_OK(gale__prim_known_ints(&g, twice, &out, &n)) && CHECK_EQ(n, 3))
        CHECK_EQ(out[0] * 10000 + out[1] * 100 + out[2], 40608);
    gale__node sum = gale__prim_reduce(&g, GALE__PROD, twice, 1, false);
    if (CHECK_OK(gale__prim_known_ints(&g, sum, &out, &n))) CHECK_EQ(out[0], 192);
    /* Conditions that always hold are one number, others are not. */
    CHECK(is_value(&g, gale__prim_binary(&g, GALE__GE, c, gale__prim_scalar(&g, GALE_I64, 2)), 1));
    CHECK(is_value(&g, gale__prim_binary(&g, GALE__LT, c, gale__prim_scalar(&g, GALE_I64, 2)), 0));
    CHECK(!gale__prim_at(&g, gale__prim_binary(&g, GALE__LT, c, gale__prim_scalar(&g, GALE_I64, 3)))->splat);
    /* Equal elements fold at any size, other large constants do not. */
    gale__node huge = gale__prim_splat(&g, GALE_F32, DIMS(1000, 1000), 3);
    CHECK(is_value(&g, gale__prim_unary(&g, GALE__NEG, huge), -3));
    gale__node iota = gale__prim_iota(&g, DIMS(1000, 1000), 1);
    CHECK(gale__prim_at(&g, gale__prim_add(&g, iota, gale__prim_scalar(&g, GALE_I64, 1)))->op == GALE__ADD);
    CHECK(gale__prim_at(&g, iota)->invariant);
    /* A broadcast constant stays a view. */
    CHECK_EQ(gale__prim_at(&g, gale__prim_expand(&g, c, DIMS(5, 3)))->op, GALE__PRIM_EXPAND);
    CHECK_FAILS(gale__prim_known(&g, iota, &(const gale__prim_node *){NULL}), NOT_FOUND);
    /* Weights stay bytes where these are multiplied, zero points do not. */
    g.integer_products = true;
    const int8_t bytes[25] = {1, 2, 3};
    gale__node weights = gale__prim_const(&g, GALE_I8, DIMS(1, 1, 5, 5), bytes),
               points = gale__prim_const(&g, GALE_I8, DIMS(1, 25), bytes);
    CHECK_EQ(gale__prim_at(&g, gale__prim_cast(&g, weights, GALE_I32))->op, GALE__CAST);
    CHECK_EQ(gale__prim_at(&g, gale__prim_cast(&g, points, GALE_I32))->op, GALE__PRIM_CONST);
    gale__prim_finish(&g);
}

TEST(nothing_is_ordinary)
{
    gale__prim_graph g;
    gale__prim_init(&g);
    gale__node x = input(&g, 0, GALE_F32, DIMS(0, 3)), sum = gale__prim_reduce(&g, GALE__SUM, x, 1, false);
    CHECK(is_value(&g, sum, 0));
    CHECK(is_value(&g, gale__prim_reduce(&g, GALE__RMAX, x, 1, false), -INFINITY));
    CHECK_EQ(gale__prim_elements(&g, gale__prim_unary(&g, GALE__EXP, x)), 0);
    gale__node y = input(&g, 1, GALE_F32, DIMS(2, 3));
    CHECK_EQ(gale__prim_concat(&g, 0, (gale__node[]){x, y}, 2), y);
    gale__node product = gale__prim_matmul(&g, input(&g, 2, GALE_F32, DIMS(2, 0)), input(&g, 3, GALE_F32, DIMS(0, 4)));
    CHECK(is_value(&g, product, 0));
    CHECK_EQ(g.status, GALE_OK);
    gale__prim_finish(&g);
}

/* What begins like something that is concatenated already adds to it, however long; along another axis it does not. */
TEST(concats_share_beginnings)
{
    gale__prim_graph g;
    gale__prim_init(&g);
    gale__node x[6];
    for (int i = 0; i < 6; i++) x[i] = input(&g, i, GALE_F32, DIMS(2, 2));
    gale__node before = gale__prim_concat(&g, 1, x, 3);
    CHECK_EQ(gale__prim_at(&g, before)->n_in, 3);
    for (int n = 4; n <= 6; n++) {
        gale__node longer = gale__prim_concat(&g, 1, x, n);
        const gale__prim_node *p = gale__prim_at(&g, longer);
        CHECK(p->n_in == 2 && p->in[0] == before && p->in[1] == x[n - 1] && p->dims[1] == 2 * n);
        CHECK_EQ(gale__prim_concat(&g, 1, x, n), longer);
        before = longer;
    }
    CHECK_EQ(gale__prim_at(&g, gale__prim_concat(&g, 0, x, 4))->n_in, 4);
    CHECK_EQ(gale__prim_at(&g, gale__prim_concat(&g, 1, x + 1, 4))->n_in, 4);
    gale__prim_finish(&g);
    CHECK_EQ(gale__alloc_live(), 0);
}

TEST(views_by_hand)
{
    gale__prim_graph g;
    gale__prim_init(&g);
    float v[6] = {1, 2, 3, 4, 5, 6};
    const void *in[] = {v};
    gale__node x = input(&g, 0, GALE_F32, DIMS(2, 3));
    check_f32(&g, in, gale__prim_permute(&g, x, (int[]){1, 0}), (float[]){1, 4, 2, 5, 3, 6}, 6, 0);
    check_f32(&g, in, gale__prim_flip(&g, x, 2), (float[]){3, 2, 1, 6, 5, 4}, 6, 0);
    check_f32(&g, in, gale__prim_pad(&g, x, (int64_t[]){1, -1}, (int64_t[]){0, 1}, NULL, 9),
        (float[]){9, 9, 9, 2, 3, 9, 5, 6, 9}, 9, 0);
    check_f32(&g, in, gale__prim_pad(&g, x, (int64_t[]){0, 0}, (int64_t[]){0, 0}, (int64_t[]){1, 0}, 0),
        (float[]){1, 2, 3, 0, 0, 0, 4, 5, 6}, 9, 0);
    gale__node w = gale__prim_window(&g, x, 1, 3, 2, 1, 1, -1, 0);
    check_f32(&g, in, w, (float[]){0, 1, 1, 2, 2, 3, 0, 4, 4, 5, 5, 6}, 12, 0);
    gale__node u = gale__prim_reduce(&g, GALE__SUM, gale__prim_unwindow(&g, w, 1, 3, 1, 1, -1), 1u << 2, false);
    check_f32(&g, in, u, (float[]){2, 4, 3, 8, 10, 6}, 6, 0); /* each element as often as a window held it */
    gale__node t = gale__prim_gather(&g, x, gale__prim_const(&g, GALE_I64, DIMS(3), (int64_t[]){-1, 0, 0}), 1);
    check_f32(&g, in, t, (float[]){3, 1, 1, 6, 4, 4}, 6, 0);
    CHECK_EQ(
        gale__prim_at(&g, gale__prim_gather(&g, x, gale__prim_scalar(&g, GALE_I64, -1), 1))->op, GALE__PRIM_RESHAPE);
    gale__prim_finish(&g);
}

TEST(products)
{
    gale__prim_graph g;
    gale__prim_init(&g);
    float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 0, 0, 1, 1, 1}, image[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9},
          k[4] = {1, 2, 3, 4};
    const void *in[] = {a, b, image, k};
    gale__node x = input(&g, 0, GALE_F32, DIMS(2, 3)), y = input(&g, 1, GALE_F32, DIMS(3, 2));
    check_f32(&g, in, gale__prim_matmul(&g, x, y), (float[]){4, 5, 10, 11}, 4, 0);
    gale__node p = input(&g, 2, GALE_F32, DIMS(1, 1, 3, 3)), w = input(&g, 3, GALE_F32, DIMS(1, 1, 2, 2));
    gale__prim_conv_args c = {2, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, 1};
    check_f32(&g, in, gale__prim_conv(&g, p, w, &c), (float[]){37, 47, 67, 77}, 4, 0);
    gale__prim_conv_args s = {2, {2, 2, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 0}, {1, 1, 0}, 1};
    check_f32(&g, in, gale__prim_conv(&g, p, w, &s), (float[]){4, 18, 36, 77}, 4, 0);
    gale__node q = gale__prim_reshape(&g, w, DIMS(1, 1, 2, 2)), small = gale__prim_slice(&g, p, (int64_t[]){0, 0, 0, 0},
                                                                    (int64_t[]){1, 1, 1, 1}, (int64_t[]){1, 1, 2, 2});
    check_f32(&g, in, gale__prim_conv_transpose(&g, small, q, &c, (int64_t[]){3, 3}),
        (float[]){1, 4, 4, 7, 23, 18, 12, 31, 20}, 9, 0);
    gale__prim_finish(&g);
}

TEST(corners)
{
    gale__prim_graph g;
    gale__prim_init(&g);
    g.fold_max = 0;
    int64_t a[5] = {7, -7, INT64_MIN, 5, -1}, b[5] = {2, 2, -1, 0, 64};
    float f[5] = {NAN, 1e30f, -1e30f, 2.5f, -3.5f}, h[5] = {1, NAN, 0, 2, 2};
    const void *in[] = {a, b, f, h};
    gale__node x = input(&g, 0, GALE_I64, DIMS(5)), y = input(&g, 1, GALE_I64, DIMS(5)),
               u = input(&g, 2, GALE_F32, DIMS(5)), v = input(&g, 3, GALE_F32, DIMS(5));
    check_i64(&g, in, gale__prim_div(&g, x, y), (int64_t[]){3, -3, INT64_MIN, 0, 0}, 5);
    check_i64(&g, in, gale__prim_binary(&g, GALE__REM, x, y), (int64_t[]){1, -1, 0, 0, -1}, 5);
    check_i64(&g, in, gale__prim_binary(&g, GALE__SHL, x, y), (int64_t[]){28, -28, 0, 5, 0}, 5);
    check_i64(&g, in, gale__prim_binary(&g, GALE__SHR, x, y), (int64_t[]){1, -2, -1, 5, -1}, 5);
    check_i64(&g, in, gale__prim_cast(&g, u, GALE_I64), (int64_t[]){0, INT64_MAX, INT64_MIN, 2, -3}, 5);
    check_i64(&g, in, gale__prim_cast(&g, gale__prim_cast(&g, u, GALE_U8), GALE_I64), (int64_t[]){0, 255, 0, 2, 0}, 5);
    check_i64(&g, in, gale__prim_cast(&g, gale__prim_cast(&g, x, GALE_I8), GALE_I64), (int64_t[]){7, -7, 0, 5, -1}, 5);
    check_f32(&g, in, gale__prim_binary(&g, GALE__MAX, u, v), (float[]){NAN, NAN, 0, 2.5f, 2}, 5, 0);
    check_f32(&g, in, gale__prim_binary(&g, GALE__MIN, v, u), (float[]){NAN, NAN, -1e30f, 2, -3.5f}, 5, 0);
    check_f32(&g, in, gale__prim_unary(&g, GALE__RINT, u), (float[]){NAN, 1e30f, -1e30f, 2, -4}, 5, 0);
    gale__prim_finish(&g);
}

TEST(order_and_chance)
{
    gale__prim_graph g;
    gale__prim_init(&g);
    float v[6] = {3, NAN, 1, 3, 1, 2};
    const void *in[] = {v};
    gale__node x = input(&g, 0, GALE_F32, DIMS(6)), y = gale__prim_slice_axis(&g, x, 0, 2, 4);
    check_i64(&g, in, gale__prim_sort(&g, x, 0, false), (int64_t[]){2, 4, 5, 0, 3, 1}, 6);
    check_i64(&g, in, gale__prim_sort(&g, x, 0, true), (int64_t[]){1, 0, 3, 5, 2, 4}, 6);
    check_f32(&g, in, gale__prim_scan(&g, GALE__SUM, y, 0, false, false), (float[]){1, 4, 5, 7}, 4, 0);
    check_f32(&g, in, gale__prim_scan(&g, GALE__SUM, y, 0, true, true), (float[]){6, 3, 2, 0}, 4, 0);
    check_i64(&g, in, gale__prim_reduce(&g, GALE__ARGMIN, y, 1, false), (int64_t[]){0}, 1);
    check_i64(&g, in, gale__prim_reduce(&g, GALE__ARGMIN_LAST, y, 1, false), (int64_t[]){2}, 1);
    gale__node index = gale__prim_const(&g, GALE_I64, DIMS(4), (int64_t[]){1, 1, 5, -1});
    check_f32(&g, in, gale__prim_put(&g, gale__prim_splat(&g, GALE_F32, DIMS(3), 1), index, y, GALE__SUM),
        (float[]){1, 5, 1}, 3, 0);
    check_f32(
        &g, in, gale__prim_put(&g, gale__prim_splat(&g, GALE_F32, DIMS(3), 1), index, y, -1), (float[]){1, 3, 1}, 3, 0);
    /* Random123's known answer for Philox 4x32-10 with counter and key of zeros. */
    gale__node r =
        gale__prim_cast(&g, gale__prim_random(&g, gale__prim_splat_i(&g, GALE_U64, 0, NULL, 0), DIMS(2)), GALE_I64);
    void *out = NULL;
    if (CHECK_OK(gale__reference_run(&g, in, &r, 1, &out))) CHECK_EQ(((int64_t *)out)[0], 0x6627e8d5);
    gale__free(out);
    gale__prim_finish(&g);
}

/* h = h + x[t], stacking h: a running sum. */
TEST(loops)
{
    gale__prim_graph g, *body = gale__alloc(sizeof *body);
    gale__prim_init(&g);
    gale__prim_init(body);
    gale__node h = input(body, 0, GALE_F32, DIMS(2)), step = input(body, 1, GALE_F32, DIMS(2)),
               next = gale__prim_add(body, h, step);
    gale__prim_loop_args loop = {body, 3, 1, 1, 0, 1, (gale__node[]){next, next}, false};
    float start[2] = {10, 20}, x[6] = {1, 2, 3, 4, 5, 6};
    const void *in[] = {start, x};
    gale__node l =
        gale__prim_loop(&g, &loop, (gale__node[]){input(&g, 0, GALE_F32, DIMS(2)), input(&g, 1, GALE_F32, DIMS(3, 2))});
    check_f32(&g, in, gale__prim_loop_out(&g, l, 0), (float[]){19, 32}, 2, 0);
    check_f32(&g, in, gale__prim_loop_out(&g, l, 1), (float[]){11, 22, 14, 26, 19, 32}, 6, 0);
    gale__str text = {0};
    gale__prim_print(&g, &text);
    CHECK(strstr(gale__str_text(&text), "loop_out") != NULL);
    gale__str_finish(&text);
    gale__prim_finish(&g);
    CHECK_EQ(gale__alloc_live(), 0);
}

/* Every allocation of a build and a run fails once. */
TEST(no_memory)
{
    float v[6] = {1, 2, 3, 4, 5, 6};
    const void *in[] = {v, v};
    for (uint64_t n = 1; n < 1000; n++) {
        gale__prim_graph g;
        void *out = NULL;
        gale__prim_init(&g);
        gale__alloc_fail_at(n);
        gale__node x = input(&g, 0, GALE_F32, DIMS(2, 3)), c = gale__prim_const(&g, GALE_F32, DIMS(3), v);
        gale__node y =
            gale__prim_matmul(&g, gale__prim_mul(&g, x, gale__prim_add(&g, c, c)), input(&g, 1, GALE_F32, DIMS(3, 2)));
        gale_status status = g.status ? g.status : gale__reference_run(&g, in, &y, 1, &out);
        bool over = gale__alloc_count() < n;
        gale__alloc_fail_at(0);
        if (status == GALE_OK) gale__free(out);
        else CHECK_EQ(status, GALE_NO_MEMORY);
        gale__prim_finish(&g);
        if (!CHECK_EQ(gale__alloc_live(), 0) || (over && CHECK_OK(status))) break;
    }
}

TESTS(ROW(equal_nodes_are_one), ROW(pointless_work_is_not_made), ROW(constants_fold), ROW(nothing_is_ordinary),
    ROW(concats_share_beginnings), ROW(views_by_hand), ROW(products), ROW(corners), ROW(order_and_chance), ROW(loops),
    ROW(no_memory))
