/* One step of an optimiser over any number of tensors: R and T, then all values, all gradients, and the moments in
 * groups. */
#include "ops/lower.h"
#include <string.h>

/* How many tensors there are when each comes with `parts` inputs, and leaves `made` outputs; 0 when the count is wrong.
 */
static int tensors(gale__lower *L, int parts, int made)
{
    int n = (L->n_in - 2) / parts;
    if (L->n_in < 2 + parts || (L->n_in - 2) % parts)
        gale__lower_refuse(L, "%d inputs after R and T; groups of %d tensors are needed", L->n_in - 2, parts);
    else if (L->n_out > n * made) gale__lower_refuse(L, "%d outputs for %d tensors", L->n_out, n);
    return gale__lower_good(L) ? n : 0;
}

/* The k-th part of tensor i out of n. */
static gale__node part(gale__lower *L, int n, int k, int i) { return gale__lower_arg(L, 2 + k * n + i); }

/* R or T as a number of x's type. */
static gale__node number(gale__lower *L, int i, gale__node x)
{
    return gale__prim_reshape(L->g, gale__prim_cast(L->g, L->in[i], gale__lower_type_of(L->g, x)), 0, NULL);
}

static gale__node times(gale__lower *L, gale__node x, double factor)
{
    return gale__prim_mul(L->g, x, gale__lower_value(L, x, factor));
}

/* The gradient with that of the norm's penalty. */
static gale__node regularised(gale__lower *L, gale__node x, gale__node gradient)
{
    return gale__prim_add(L->g, times(L, x, gale__attr_f(L, "norm_coefficient", 0)), gradient);
}

LOWER(Adagrad)
{
    gale__prim_graph *g = L->g;
    int n = tensors(L, 3, 2);
    for (int i = 0; i < n; i++) {
        gale__node x = part(L, n, 0, i), one = gale__lower_value(L, x, 1), slope = regularised(L, x, part(L, n, 1, i));
        gale__node rate = gale__prim_div(
            g, number(L, 0, x), gale__prim_add(g, one, times(L, number(L, 1, x), gale__attr_f(L, "decay_factor", 0))));
        gale__node squares = gale__prim_add(g, part(L, n, 2, i), gale__prim_mul(g, slope, slope));
        gale__node size = gale__prim_add(
            g, gale__prim_unary(g, GALE__SQRT, squares), gale__lower_value(L, x, gale__attr_f(L, "epsilon", 1e-6)));
        gale__lower_give(L, i, gale__prim_sub(g, x, gale__prim_div(g, gale__prim_mul(g, rate, slope), size)));
        gale__lower_give(L, n + i, squares);
    }
}

LOWER(Adam)
{
    gale__prim_graph *g = L->g;
    int n = tensors(L, 4, 3);
    double alpha = gale__attr_f(L, "alpha", 0.9), beta = gale__attr_f(L, "beta", 0.999);
    for (int i = 0; i < n; i++) {
        gale__node x = part(L, n, 0, i), one = gale__lower_value(L, x, 1), t = number(L, 1, x),
                   slope = regularised(L, x, part(L, n, 1, i));
        gale__node mean = gale__prim_add(g, times(L, part(L, n, 2, i), alpha), times(L, slope, 1 - alpha));
        gale__node squares =
            gale__prim_add(g, times(L, part(L, n, 3, i), beta), times(L, gale__prim_mul(g, slope, slope), 1 - beta));
        /* After the first step both averages are corrected for having started at 0. */
        gale__node unbiased = gale__prim_unary(
            g, GALE__SQRT, gale__prim_sub(g, one, gale__prim_binary(g, GALE__POW, gale__lower_value(L, x, beta), t)));
        unbiased = gale__prim_div(
            g, unbiased, gale__prim_sub(g, one, gale__prim_binary(g, GALE__POW, gale__lower_value(L, x, alpha), t)));
        gale__node later = gale__prim_binary(g, GALE__GT, t, gale__lower_value(L, x, 0)), rate = number(L, 0, x);
        rate = gale__prim_select(g, later, gale__prim_mul(g, rate, unbiased), rate);
        gale__node size = gale__prim_add(
            g, gale__prim_unary(g, GALE__SQRT, squares), gale__lower_value(L, x, gale__attr_f(L, "epsilon", 1e-6)));
        gale__node next = gale__prim_sub(g, x, gale__prim_div(g, gale__prim_mul(g, rate, mean), size));
        gale__lower_give(L, i, times(L, next, 1 - gale__attr_f(L, "norm_coefficient_post", 0)));
        gale__lower_give(L, n + i, mean);
        gale__lower_give(L, 2 * n + i, squares);
    }
}

LOWER(Momentum)
{
    gale__prim_graph *g = L->g;
    int n = tensors(L, 3, 2);
    double alpha = gale__attr_f(L, "alpha", 0), beta = gale__attr_f(L, "beta", 1);
    const char *mode = gale__attr_s(L, "mode", "standard");
    bool nesterov = !strcmp(mode, "nesterov");
    if (!nesterov && strcmp(mode, "standard"))
        gale__lower_refuse(L, "mode '%s' is neither standard nor nesterov", mode);
    for (int i = 0; i < n && gale__lower_good(L); i++) {
        gale__node x = part(L, n, 0, i), slope = regularised(L, x, part(L, n, 1, i));
        gale__node first = gale__prim_binary(g, GALE__LE, number(L, 1, x), gale__lower_value(L, x, 0));
        gale__node weight = gale__prim_select(
            g, first, gale__lower_value(L, x, 1), gale__lower_value(L, x, beta)); /* the first gradient counts whole */
        gale__node speed = gale__prim_add(g, times(L, part(L, n, 2, i), alpha), gale__prim_mul(g, weight, slope));
        gale__node step = nesterov ? gale__prim_add(g, slope, times(L, speed, alpha)) : speed;
        gale__lower_give(L, i, gale__prim_sub(g, x, gale__prim_mul(g, number(L, 0, x), step)));
        gale__lower_give(L, n + i, speed);
    }
}
