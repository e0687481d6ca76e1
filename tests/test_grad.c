/* Gradients of every differentiable primitive, by finite differences of first and second order; their conventions at ties and
 * kinks; and the form that products' gradients take. */
#include "grad_check.h"

/* --- Scalars. --- */

#define UNARY(OP) static gale__node make_##OP(gale__g *g, const gale__node *x) { return gale__g_unary(g, GALE__##OP, x[0]); }
#define BINARY(OP) static gale__node make_##OP(gale__g *g, const gale__node *x) { return gale__g_binary(g, GALE__##OP, x[0], x[1]); }
UNARY(NEG) UNARY(ABS) UNARY(FLOOR) UNARY(CEIL) UNARY(RINT) UNARY(TRUNC) UNARY(SQRT) UNARY(EXP) UNARY(EXPM1) UNARY(LOG) UNARY(LOG1P)
UNARY(SIN) UNARY(COS) UNARY(TAN) UNARY(ASIN) UNARY(ACOS) UNARY(ATAN) UNARY(SINH) UNARY(COSH) UNARY(ASINH) UNARY(ACOSH) UNARY(ATANH)
UNARY(TANH) UNARY(ERF)
BINARY(ADD) BINARY(SUB) BINARY(MUL) BINARY(DIV) BINARY(REM) BINARY(MIN) BINARY(MAX) BINARY(POW) BINARY(ATAN2)

#define ONE(OP, low, high) {#OP, make_##OP, low, high, {S(9)}, 0}
#define TWO(OP, low, high) {#OP, make_##OP, low, high, {S(3, 4), S(4)}, 0}

static gale__node make_select(gale__g *g, const gale__node *x)
{
    return gale__g_select(g, gale__g_binary(g, GALE__LT, x[0], x[1]), gale__g_mul(g, x[0], x[1]), gale__g_unary(g, GALE__SIN, x[0]));
}
static gale__node make_fma(gale__g *g, const gale__node *x) { return gale__g_fma(g, x[0], x[1], gale__g_mul(g, x[2], x[0])); }
static gale__node make_powers(gale__g *g, const gale__node *x)
{
    gale__node sum = GALE__NIL;
    const double powers[] = {-1.5, 0, 0.5, 1, 2, 3, 4, 2.5};
    for (int i = 0; i < 8; i++) {
        gale__node y = gale__g_binary(g, GALE__POW, x[0], gale__g_scalar(g, GALE_F64, powers[i]));
        sum = i ? gale__g_add(g, sum, y) : y;
    }
    return sum;
}
static gale__node make_sigmoid(gale__g *g, const gale__node *x)
{
    gale__node one = gale__g_like(g, x[0], 1);
    return gale__g_div(g, one, gale__g_add(g, one, gale__g_unary(g, GALE__EXP, gale__g_unary(g, GALE__NEG, x[0]))));
}

TEST(scalars)
{
    GRAD_CHECK(ONE(NEG, -2, 2), ONE(ABS, -2, 2), ONE(FLOOR, -2, 2), ONE(CEIL, -2, 2), ONE(RINT, -2, 2), ONE(TRUNC, -2, 2), ONE(SQRT, 0.3, 2),
        ONE(EXP, -2, 2), ONE(EXPM1, -2, 2), ONE(LOG, 0.3, 2), ONE(LOG1P, -0.5, 2), ONE(SIN, -2, 2), ONE(COS, -2, 2), ONE(TAN, -1, 1),
        ONE(ASIN, -0.8, 0.8), ONE(ACOS, -0.8, 0.8), ONE(ATAN, -2, 2), ONE(SINH, -2, 2), ONE(COSH, -2, 2), ONE(ASINH, -2, 2),
        ONE(ACOSH, 1.3, 3), ONE(ATANH, -0.8, 0.8), ONE(TANH, -2, 2), ONE(ERF, -2, 2));
    GRAD_CHECK(TWO(ADD, -2, 2), TWO(SUB, -2, 2), TWO(MUL, -2, 2), TWO(DIV, 0.5, 2), TWO(REM, 0.1, 2), TWO(MIN, -2, 2), TWO(MAX, -2, 2),
        TWO(POW, 0.3, 2), TWO(ATAN2, 0.3, 2), TWO(ATAN2, -2, -0.3));
    GRAD_CHECK({"select", make_select, -2, 2, {S(3, 4), S(4)}, 0}, {"fma", make_fma, -2, 2, {S(3, 4), S(4), S(1)}, 0},
        {"powers", make_powers, 0.3, 2, {S(9)}, 0}, {"sigmoid", make_sigmoid, -6, 6, {S(9)}, 0});
}

/* --- Views. --- */

static gale__node make_reshape(gale__g *g, const gale__node *x)
{
    gale__node y = gale__g_permute(g, gale__g_reshape(g, x[0], DIMS(2, 3, 4)), (int[]){2, 0, 1});
    return gale__g_mul(g, gale__g_unsqueeze(g, y, 2), gale__g_expand(g, gale__g_unary(g, GALE__SIN, x[1]), DIMS(5, 2, 3)));
}
static gale__node make_expand(gale__g *g, const gale__node *x)
{
    return gale__g_unary(g, GALE__EXP, gale__g_mul(g, gale__g_expand(g, x[0], DIMS(2, 3, 4)), gale__g_expand(g, x[1], DIMS(2, 3, 4))));
}
static gale__node make_slice(gale__g *g, const gale__node *x)
{
    gale__node up = gale__g_slice(g, x[0], (int64_t[]){1, 0}, (int64_t[]){2, 3}, (int64_t[]){2, 3});
    gale__node down = gale__g_slice(g, x[0], (int64_t[]){4, 7}, (int64_t[]){-2, -3}, (int64_t[]){2, 3});
    gale__node one = gale__g_slice(g, x[0], (int64_t[]){2, 5}, (int64_t[]){1, -1}, (int64_t[]){1, 3});
    return gale__g_mul(g, gale__g_mul(g, up, down), gale__g_add(g, one, gale__g_slice(g, gale__g_flip(g, x[0], 3), (int64_t[]){0, 2}, (int64_t[]){4, 1}, (int64_t[]){2, 3})));
}
static gale__node make_pad(gale__g *g, const gale__node *x)
{
    gale__node wide = gale__g_pad(g, x[0], (int64_t[]){2, -1}, (int64_t[]){-1, 3}, (int64_t[]){0, 2}, 1.5);
    gale__node narrow = gale__g_pad(g, x[0], (int64_t[]){-1, -2}, (int64_t[]){0, -1}, (int64_t[]){1, 2}, 0);
    wide = gale__g_mul(g, wide, wide);
    narrow = gale__g_unary(g, GALE__EXP, narrow);
    return gale__g_add(g, gale__g_reduce(g, GALE__SUM, wide, 2, true), gale__g_reduce(g, GALE__SUM, narrow, 3, true));
}
static gale__node make_window(gale__g *g, const gale__node *x)
{
    gale__node w = gale__g_window(g, x[0], 1, 4, 3, 2, 2, -2, 0.5), v = gale__g_window(g, x[0], 1, 4, 3, -1, 1, 3, 0);
    gale__node z = gale__g_window(g, x[0], 1, 4, 3, 0, 2, 1, 0);
    return gale__g_mul(g, gale__g_mul(g, w, w), gale__g_unary(g, GALE__EXP, gale__g_mul(g, v, z)));
}
static gale__node make_unwindow(gale__g *g, const gale__node *x)
{
    gale__node u = gale__g_unwindow(g, x[0], 1, 7, 2, 1, -1), v = gale__g_unwindow(g, x[0], 1, 7, 1, 2, 0);
    return gale__g_add(g, gale__g_mul(g, u, v), gale__g_mul(g, u, u));
}
static gale__node make_concat(gale__g *g, const gale__node *x)
{
    gale__node y = gale__g_concat(g, 1, (gale__node[]){x[0], x[1], x[0], gale__g_splat(g, GALE_F64, DIMS(3, 2), 1)}, 4);
    return gale__g_mul(g, y, gale__g_copy(g, gale__g_unary(g, GALE__SIN, y)));
}

TEST(views)
{
    GRAD_CHECK({"reshape, permute", make_reshape, -2, 2, {S(4, 6), S(2, 3)}, 0}, {"expand", make_expand, -1, 1, {S(3, 1), S(2, 1, 4)}, 0},
        {"slice", make_slice, -2, 2, {S(5, 8)}, 0}, {"pad", make_pad, -1, 1, {S(3, 5)}, 0}, {"window", make_window, -1, 1, {S(2, 6)}, 0},
        {"unwindow", make_unwindow, -2, 2, {S(2, 4, 3, 2)}, 0}, {"concat, copy", make_concat, -2, 2, {S(3, 4), S(3, 1)}, 0});
}

/* --- Reductions and scans. --- */

#define REDUCE(KIND) static gale__node make_reduce_##KIND(gale__g *g, const gale__node *x) { return gale__g_reduce(g, GALE__##KIND, gale__g_mul(g, x[0], x[0]), 5, false); }
#define SCAN(KIND) static gale__node make_scan_##KIND(gale__g *g, const gale__node *x) \
{ return gale__g_mul(g, gale__g_scan(g, GALE__##KIND, x[0], 1, false, false), gale__g_scan(g, GALE__##KIND, x[0], 0, true, true)); }
REDUCE(SUM) REDUCE(PROD) REDUCE(RMAX) REDUCE(RMIN)
SCAN(SUM) SCAN(PROD)
#define BEST(KIND) static gale__node make_scan_##KIND(gale__g *g, const gale__node *x) { return gale__g_scan(g, GALE__##KIND, gale__g_mul(g, x[0], x[0]), 1, false, false); }
BEST(RMAX) BEST(RMIN)

/* Factors of exactly 0: all inputs are 0 here. */
static gale__node make_zero_products(gale__g *g, const gale__node *x)
{
    gale__node y = gale__g_add(g, x[0], gale__g_const(g, GALE_F64, DIMS(3, 4), (double[]){0, 2, 3, 4, 1, 0, 0, 2, 2, 0, 0, 0}));
    gale__node all = gale__g_reduce(g, GALE__PROD, y, 2, true), running = gale__g_scan(g, GALE__PROD, y, 1, false, false);
    return gale__g_concat(g, 1, (gale__node[]){all, running}, 2);
}

/* Integers on the way carry no gradient. */
static gale__node make_sorted(gale__g *g, const gale__node *x) { return gale__g_take(g, x[0], gale__g_sort(g, gale__g_mul(g, x[0], x[0]), 0, true)); }
static gale__node make_arg(gale__g *g, const gale__node *x)
{
    gale__node at = gale__g_reduce(g, GALE__ARGMAX, x[0], 1, false), rank = gale__g_cast(g, at, GALE_F64);
    return gale__g_mul(g, gale__g_add(g, gale__g_take(g, x[0], at), rank), gale__g_slice_axis(g, x[0], 0, 0, 1));
}

TEST(reductions)
{
    GRAD_CHECK({"sum", make_reduce_SUM, -2, 2, {S(2, 3, 4)}, 0}, {"prod", make_reduce_PROD, 0.5, 1.5, {S(2, 3, 4)}, 0},
        {"max", make_reduce_RMAX, -2, 2, {S(2, 3, 4)}, 0}, {"min", make_reduce_RMIN, -2, 2, {S(2, 3, 4)}, 0},
        {"running sum", make_scan_SUM, -2, 2, {S(3, 5)}, 0}, {"running product", make_scan_PROD, 0.5, 1.5, {S(3, 5)}, 0},
        {"running max", make_scan_RMAX, -2, 2, {S(3, 7)}, 0}, {"running min", make_scan_RMIN, -2, 2, {S(3, 7)}, 0},
        {"products with zeros", make_zero_products, 0, 0, {S(3, 4)}, 0}, {"sorted", make_sorted, -2, 2, {S(9)}, 0}, {"arg", make_arg, -2, 2, {S(9)}, 0});
}

/* --- Take and put. --- */

static const int64_t places[7] = {2, 0, 2, 9, -3, 4, 2};

static gale__node make_take(gale__g *g, const gale__node *x)
{
    gale__node t = gale__g_take(g, x[0], gale__g_const(g, GALE_I64, DIMS(7), places));
    return gale__g_mul(g, t, t);
}
static gale__node make_gather(gale__g *g, const gale__node *x)
{
    gale__node t = gale__g_gather(g, x[0], gale__g_const(g, GALE_I64, DIMS(2, 2), (int64_t[]){-1, 0, 1, 0}), 1);
    return gale__g_unary(g, GALE__EXP, t);
}
static gale__node put(gale__g *g, const gale__node *x, int mode)
{
    gale__node y = gale__g_put(g, x[0], gale__g_const(g, GALE_I64, DIMS(7), places), x[1], mode);
    return gale__g_mul(g, y, gale__g_unary(g, GALE__SIN, y));
}
static gale__node make_put_set(gale__g *g, const gale__node *x) { return put(g, x, -1); }
static gale__node make_put_sum(gale__g *g, const gale__node *x) { return put(g, x, GALE__SUM); }
static gale__node make_put_prod(gale__g *g, const gale__node *x) { return put(g, x, GALE__PROD); }
static gale__node make_put_max(gale__g *g, const gale__node *x) { return put(g, x, GALE__RMAX); }
static gale__node make_put_min(gale__g *g, const gale__node *x) { return put(g, x, GALE__RMIN); }

TEST(indices)
{
    GRAD_CHECK({"take", make_take, -2, 2, {S(5)}, 0}, {"gather", make_gather, -1, 1, {S(2, 3, 2)}, 0}, {"put set", make_put_set, -2, 2, {S(5), S(7)}, 0},
        {"put sum", make_put_sum, -2, 2, {S(5), S(7)}, 0}, {"put prod", make_put_prod, 0.5, 2, {S(5), S(7)}, 0},
        {"put max", make_put_max, -2, 2, {S(5), S(7)}, 0}, {"put min", make_put_min, -2, 2, {S(5), S(7)}, 0});
}

/* --- Conventions, by hand: the gradient of sum(y) by x. --- */

static void check_gradient(grad_make *make, int n, const double *x, const double *want)
{
    gale__g g;
    void *out = NULL;
    int64_t dims[1] = {n};
    gale__g_init(&g);
    gale__node in = gale__g_input(&g, 0, GALE_F64, 1, dims), y = make(&g, &in), d = GALE__NIL;
    gale__node ones = y >= 0 ? gale__g_like(&g, y, 1) : GALE__NIL;
    if (CHECK_OK(gale__g_gradient_from(&g, &y, &ones, 1, &in, 1, &d)) && CHECK_OK(gale__reference_run(&g, (const void *[]){x}, &d, 1, &out)))
        for (int i = 0; i < n; i++)
            if (!CHECK(fabs(((double *)out)[i] - want[i]) <= 1e-12)) printf("  element %d is %g, not %g\n", i, ((double *)out)[i], want[i]);
    gale__free(out);
    gale__g_finish(&g);
}

static gale__node relu(gale__g *g, const gale__node *x) { return gale__g_binary(g, GALE__MAX, x[0], gale__g_like(g, x[0], 0)); }
static gale__node tied(gale__g *g, const gale__node *x) { return gale__g_binary(g, GALE__MIN, x[0], gale__g_mul(g, x[0], x[0])); }
static gale__node magnitude(gale__g *g, const gale__node *x) { return gale__g_unary(g, GALE__ABS, x[0]); }
static gale__node product(gale__g *g, const gale__node *x) { return gale__g_reduce(g, GALE__PROD, x[0], 1, false); }
static gale__node products(gale__g *g, const gale__node *x) { return gale__g_scan(g, GALE__PROD, x[0], 0, false, false); }
static gale__node largest(gale__g *g, const gale__node *x) { return gale__g_reduce(g, GALE__RMAX, x[0], 1, false); }
static gale__node running(gale__g *g, const gale__node *x) { return gale__g_scan(g, GALE__RMAX, x[0], 0, false, false); }
static gale__node raised(gale__g *g, const gale__node *x)
{
    gale__node y = gale__g_const(g, GALE_F64, DIMS(4), (double[]){0, 1, 2, 0.5});
    return gale__g_binary(g, GALE__POW, x[0], y);
}
static gale__node exponent(gale__g *g, const gale__node *x) { return gale__g_binary(g, GALE__POW, gale__g_const(g, GALE_F64, DIMS(3), (double[]){0, 0, 2}), x[0]); }
static gale__node put_zeros(gale__g *g, const gale__node *x)
{
    return gale__g_put(g, gale__g_splat(g, GALE_F64, DIMS(3), 5), gale__g_const(g, GALE_I64, DIMS(4), (int64_t[]){0, 0, 1, 1}), x[0], GALE__PROD);
}
static gale__node put_ties(gale__g *g, const gale__node *x)
{
    return gale__g_put(g, gale__g_slice_axis(g, x[0], 0, 0, 2), gale__g_const(g, GALE_I64, DIMS(2), (int64_t[]){0, 0}), gale__g_slice_axis(g, x[0], 0, 2, 2), GALE__RMAX);
}
static gale__node stopped(gale__g *g, const gale__node *x) { return gale__g_mul(g, x[0], gale__g_stop_gradient(g, gale__g_mul(g, x[0], x[0]))); }

TEST(ties_and_kinks)
{
    check_gradient(relu, 3, (double[]){-1, 0, 2}, (double[]){0, 0, 1});
    check_gradient(tied, 3, (double[]){0.5, 1, 2}, (double[]){1, 0.5 + 1, 1});
    check_gradient(magnitude, 3, (double[]){-3, 0, 2}, (double[]){-1, 0, 1});
    check_gradient(product, 3, (double[]){2, 0, 3}, (double[]){0, 6, 0});
    check_gradient(product, 3, (double[]){0, 0, 3}, (double[]){0, 0, 0});
    check_gradient(products, 4, (double[]){2, 0, 3, 4}, (double[]){1, 2 + 6 + 24, 0, 0});
    check_gradient(largest, 4, (double[]){1, 3, 3, 2}, (double[]){0, 0.5, 0.5, 0});
    check_gradient(running, 5, (double[]){1, 3, 3, 2, 5}, (double[]){1, 1, 2, 0, 1});
    check_gradient(raised, 4, (double[]){0, 0, 0, 4}, (double[]){0, 1, 0, 0.25});
    check_gradient(exponent, 3, (double[]){0, 2, 3}, (double[]){0, 0, 8 * log(2)});
    check_gradient(put_zeros, 4, (double[]){0, 3, 0, 0}, (double[]){15, 0, 0, 0});
    check_gradient(put_ties, 4, (double[]){2, 7, 2, 1}, (double[]){0.5, 1, 0.5, 0});
    check_gradient(make_sigmoid, 3, (double[]){-1e4, 0, 1e4}, (double[]){0, 0.25, 0});
    check_gradient(stopped, 2, (double[]){2, 3}, (double[]){4, 9});
}

TEST(types)
{
    gale__g g;
    gale__g_init(&g);
    gale__node x = gale__g_input(&g, 0, GALE_F16, DIMS(3)), y = gale__g_input(&g, 1, GALE_F32, DIMS(3)), k = gale__g_input(&g, 2, GALE_I32, DIMS(3)), d[3];
    gale__node wide = gale__g_mul(&g, gale__g_cast(&g, x, GALE_F32), y);
    gale__node unread = gale__g_input(&g, 3, GALE_F32, DIMS(2, 2));
    gale__node loss = gale__g_reduce(&g, GALE__SUM, gale__g_mul(&g, wide, gale__g_cast(&g, k, GALE_F32)), 1, false);
    if (CHECK_OK(gale__g_gradient(&g, loss, (gale__node[]){x, y, unread}, 3, d))) {
        CHECK_EQ(gale__g_at(&g, d[0])->type, GALE_F16);
        CHECK_EQ(gale__g_at(&g, d[1])->type, GALE_F32);
        CHECK(gale__g_is_value(&g, d[2], 0) && gale__g_same_shape(&g, d[2], unread));
    }
    CHECK_FAILS(gale__g_gradient(&g, loss, &k, 1, d), INVALID);
    CHECK(strstr(gale_error(), "i32") != NULL);
    CHECK_FAILS(gale__g_gradient(&g, wide, &x, 1, d), INVALID);
    CHECK(strstr(gale_error(), "[3]") != NULL);
    CHECK_FAILS(gale__g_gradient(&g, GALE__NIL, &x, 1, d), INVALID);
    CHECK_EQ(g.status, GALE_OK); /* a refused request harms nothing */
    gale__g_finish(&g);
}

TESTS(ROW(scalars), ROW(views), ROW(reductions), ROW(indices), ROW(ties_and_kinks), ROW(types))
