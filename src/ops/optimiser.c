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
        gale__refuse(L, "%d inputs after R and T; groups of %d tensors are wanted", L->n_in - 2, parts);
    else if (L->n_out > n * made) gale__refuse(L, "%d outputs for %d tensors", L->n_out, n);
    return gale__good(L) ? n : 0;
}

/* The k-th part of tensor i out of n. */
static gale__node part(gale__lower *L, int n, int k, int i) { return gale__arg(L, 2 + k * n + i); }

/* R or T as a number of x's type. */
static gale__node number(gale__lower *L, int i, gale__node x)
{
    return gale__g_reshape(L->g, gale__g_cast(L->g, L->in[i], gale__type_of(L->g, x)), 0, NULL);
}

static gale__node times(gale__lower *L, gale__node x, double factor)
{
    return gale__g_mul(L->g, x, gale__value(L, x, factor));
}

/* The gradient with that of the norm's penalty. */
static gale__node regularised(gale__lower *L, gale__node x, gale__node gradient)
{
    return gale__g_add(L->g, times(L, x, gale__attr_f(L, "norm_coefficient", 0)), gradient);
}

LOWER(Adagrad)
{
    gale__g *g = L->g;
    int n = tensors(L, 3, 2);
    for (int i = 0; i < n; i++) {
        gale__node x = part(L, n, 0, i), one = gale__value(L, x, 1), slope = regularised(L, x, part(L, n, 1, i));
        gale__node rate = gale__g_div(
            g, number(L, 0, x), gale__g_add(g, one, times(L, number(L, 1, x), gale__attr_f(L, "decay_factor", 0))));
        gale__node squares = gale__g_add(g, part(L, n, 2, i), gale__g_mul(g, slope, slope));
        gale__node size =
            gale__g_add(g, gale__g_unary(g, GALE__SQRT, squares), gale__value(L, x, gale__attr_f(L, "epsilon", 1e-6)));
        gale__give(L, i, gale__g_sub(g, x, gale__g_div(g, gale__g_mul(g, rate, slope), size)));
        gale__give(L, n + i, squares);
    }
}

LOWER(Adam)
{
    gale__g *g = L->g;
    int n = tensors(L, 4, 3);
    double alpha = gale__attr_f(L, "alpha", 0.9), beta = gale__attr_f(L, "beta", 0.999);
    for (int i = 0; i < n; i++) {
        gale__node x = part(L, n, 0, i), one = gale__value(L, x, 1), t = number(L, 1, x),
                   slope = regularised(L, x, part(L, n, 1, i));
        gale__node mean = gale__g_add(g, times(L, part(L, n, 2, i), alpha), times(L, slope, 1 - alpha));
        gale__node squares =
            gale__g_add(g, times(L, part(L, n, 3, i), beta), times(L, gale__g_mul(g, slope, slope), 1 - beta));
        /* After the first step both averages are corrected for having started at 0. */
        gale__node unbiased =
            gale__g_unary(g, GALE__SQRT, gale__g_sub(g, one, gale__g_binary(g, GALE__POW, gale__value(L, x, beta), t)));
        unbiased =
            gale__g_div(g, unbiased, gale__g_sub(g, one, gale__g_binary(g, GALE__POW, gale__value(L, x, alpha), t)));
        gale__node later = gale__g_binary(g, GALE__GT, t, gale__value(L, x, 0)), rate = number(L, 0, x);
        rate = gale__g_select(g, later, gale__g_mul(g, rate, unbiased), rate);
        gale__node size =
            gale__g_add(g, gale__g_unary(g, GALE__SQRT, squares), gale__value(L, x, gale__attr_f(L, "epsilon", 1e-6)));
        gale__node next = gale__g_sub(g, x, gale__g_div(g, gale__g_mul(g, rate, mean), size));
        gale__give(L, i, times(L, next, 1 - gale__attr_f(L, "norm_coefficient_post", 0)));
        gale__give(L, n + i, mean);
        gale__give(L, 2 * n + i, squares);
    }
}

LOWER(Momentum)
{
    gale__g *g = L->g;
    int n = tensors(L, 3, 2);
    double alpha = gale__attr_f(L, "alpha", 0), beta = gale__attr_f(L, "beta", 1);
    const char *mode = gale__attr_s(L, "mode", "standard");
    bool nesterov = !strcmp(mode, "nesterov");
    if (!nesterov && strcmp(mode, "standard")) gale__refuse(L, "mode is '%s', not standard or nesterov", mode);
    for (int i = 0; i < n && gale__good(L); i++) {
        gale__node x = part(L, n, 0, i), slope = regularised(L, x, part(L, n, 1, i));
        gale__node first = gale__g_binary(g, GALE__LE, number(L, 1, x), gale__value(L, x, 0));
        gale__node weight = gale__g_select(
            g, first, gale__value(L, x, 1), gale__value(L, x, beta)); /* the first gradient counts whole */
        gale__node speed = gale__g_add(g, times(L, part(L, n, 2, i), alpha), gale__g_mul(g, weight, slope));
        gale__node step = nesterov ? gale__g_add(g, slope, times(L, speed, alpha)) : speed;
        gale__give(L, i, gale__g_sub(g, x, gale__g_mul(g, number(L, 0, x), step)));
        gale__give(L, n + i, speed);
    }
}
