/* Gradients by finite differences of first and second order, and their conventions at ties and kinks. */
#include "grad_cases.h"
#include "graph/grad/grad.h"
#include "graph/reference/reference.h"

static void check_group(const char *name)
{
    for (size_t i = 0; i < GRAD_GROUPS; i++)
        for (size_t k = 0; k < grad_groups[i].n && !strcmp(grad_groups[i].name, name); k++)
            grad_check(&grad_groups[i].cases[k]);
    CHECK_EQ(gale__alloc_live(), 0);
}

TEST(scalars) { check_group("scalars"); }
TEST(views) { check_group("views"); }
TEST(reductions) { check_group("reductions"); }
TEST(indices) { check_group("indices"); }
TEST(norms) { check_group("norms"); }
TEST(products) { check_group("products"); }
TEST(networks) { check_group("networks"); }
TEST(loops) { check_group("loops"); }

/* --- Conventions, by hand: the gradient of sum(y) by x. --- */

static void check_gradient(grad_make *make, int n, const double *x, const double *want)
{
    gale__prim_graph g;
    void *out = NULL;
    int64_t dims[1] = {n};
    gale__prim_init(&g);
    gale__node in = gale__prim_input(&g, 0, GALE_F64, 1, dims), y = make(&g, &in), d = GALE__NIL;
    gale__node ones = y >= 0 ? gale__prim_like(&g, y, 1) : GALE__NIL;
    if (CHECK_OK(gale__prim_gradient_from(&g, &y, &ones, 1, &in, 1, &d)) &&
        CHECK_OK(gale__reference_run(&g, (const void *[]){x}, &d, 1, &out)))
        for (int i = 0; i < n; i++)
            if (!CHECK(fabs(((double *)out)[i] - want[i]) <= 1e-12))
                printf("  element %d is %g, not %g\n", i, ((double *)out)[i], want[i]);
    gale__free(out);
    gale__prim_finish(&g);
}

static gale__node relu(gale__prim_graph *g, const gale__node *x)
{
    return gale__prim_binary(g, GALE__MAX, x[0], gale__prim_like(g, x[0], 0));
}
static gale__node tied(gale__prim_graph *g, const gale__node *x)
{
    return gale__prim_binary(g, GALE__MIN, x[0], gale__prim_mul(g, x[0], x[0]));
}
static gale__node magnitude(gale__prim_graph *g, const gale__node *x) { return gale__prim_unary(g, GALE__ABS, x[0]); }
static gale__node product(gale__prim_graph *g, const gale__node *x)
{
    return gale__prim_reduce(g, GALE__PROD, x[0], 1, false);
}
static gale__node products(gale__prim_graph *g, const gale__node *x)
{
    return gale__prim_scan(g, GALE__PROD, x[0], 0, false, false);
}
static gale__node largest(gale__prim_graph *g, const gale__node *x)
{
    return gale__prim_reduce(g, GALE__RMAX, x[0], 1, false);
}
static gale__node running(gale__prim_graph *g, const gale__node *x)
{
    return gale__prim_scan(g, GALE__RMAX, x[0], 0, false, false);
}
static gale__node raised(gale__prim_graph *g, const gale__node *x)
{
    gale__node y = gale__prim_const(g, GALE_F64, DIMS(4), (double[]){0, 1, 2, 0.5});
    return gale__prim_binary(g, GALE__POW, x[0], y);
}
static gale__node exponent(gale__prim_graph *g, const gale__node *x)
{
    return gale__prim_binary(g, GALE__POW, gale__prim_const(g, GALE_F64, DIMS(3), (double[]){0, 0, 2}), x[0]);
}
static gale__node put_zeros(gale__prim_graph *g, const gale__node *x)
{
    return gale__prim_put(g, gale__prim_splat(g, GALE_F64, DIMS(3), 5),
        gale__prim_const(g, GALE_I64, DIMS(4), (int64_t[]){0, 0, 1, 1}), x[0], GALE__PROD);
}
static gale__node put_ties(gale__prim_graph *g, const gale__node *x)
{
    return gale__prim_put(g, gale__prim_slice_axis(g, x[0], 0, 0, 2),
        gale__prim_const(g, GALE_I64, DIMS(2), (int64_t[]){0, 0}), gale__prim_slice_axis(g, x[0], 0, 2, 2), GALE__RMAX);
}
static gale__node rolled(gale__prim_graph *g, const gale__node *x)
{
    gale__node first = gale__prim_const(g, GALE_F64, DIMS(4), (double[]){1, 0, 0, 0});
    return gale__prim_mul(g, first, gale__prim_mul(g, x[0], gale__prim_roll(g, x[0], 0, -3)));
}

TEST(ties_and_kinks)
{
    check_gradient(rolled, 4, (double[]){1, 2, 4, 8}, (double[]){2, 1, 0, 0});
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
}

TEST(types)
{
    gale__prim_graph g;
    gale__prim_init(&g);
    gale__node x = gale__prim_input(&g, 0, GALE_F16, DIMS(3)), y = gale__prim_input(&g, 1, GALE_F32, DIMS(3)),
               k = gale__prim_input(&g, 2, GALE_I32, DIMS(3)), d[3];
    gale__node wide = gale__prim_mul(&g, gale__prim_cast(&g, x, GALE_F32), y);
    gale__node unread = gale__prim_input(&g, 3, GALE_F32, DIMS(2, 2));
    gale__node loss =
        gale__prim_reduce(&g, GALE__SUM, gale__prim_mul(&g, wide, gale__prim_cast(&g, k, GALE_F32)), 1, false);
    if (CHECK_OK(gale__prim_gradient(&g, loss, (gale__node[]){x, y, unread}, 3, d))) {
        CHECK_EQ(gale__prim_at(&g, d[0])->type, GALE_F16);
        CHECK_EQ(gale__prim_at(&g, d[1])->type, GALE_F32);
        double value = 1;
        CHECK(gale__prim_is_splat(&g, d[2], &value) && value == 0 && gale__prim_same_shape(&g, d[2], unread));
    }
    CHECK_FAILS(gale__prim_gradient(&g, loss, &k, 1, d), INVALID);
    CHECK(strstr(gale_error(), "i32") != NULL);
    CHECK_FAILS(gale__prim_gradient(&g, wide, &x, 1, d), INVALID);
    CHECK(strstr(gale_error(), "[3]") != NULL);
    CHECK_FAILS(gale__prim_gradient(&g, GALE__NIL, &x, 1, d), INVALID);
    CHECK_EQ(g.status, GALE_OK); /* a refused request harms nothing */
    gale__prim_finish(&g);
}

TESTS(ROW(scalars), ROW(views), ROW(reductions), ROW(indices), ROW(norms), ROW(products), ROW(networks), ROW(loops),
    ROW(ties_and_kinks), ROW(types))
