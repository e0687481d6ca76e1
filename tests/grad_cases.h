/* What gradients are checked on: every differentiable primitive, and what networks are made of. */
#ifndef GALE_TEST_GRAD_CASES_H
#define GALE_TEST_GRAD_CASES_H
#include "grad_check.h"
#include "graph/grad/grad.h"

/* --- Scalars. --- */

#define UNARY(OP)                                                         \
    static gale__node make_##OP(gale__prim_graph *g, const gale__node *x) \
    {                                                                     \
        return gale__prim_unary(g, GALE__##OP, x[0]);                     \
    }
#define BINARY(OP)                                                        \
    static gale__node make_##OP(gale__prim_graph *g, const gale__node *x) \
    {                                                                     \
        return gale__prim_binary(g, GALE__##OP, x[0], x[1]);              \
    }
UNARY(NEG)
UNARY(ABS)
UNARY(FLOOR)
UNARY(CEIL)
UNARY(RINT)
UNARY(TRUNC)
UNARY(SQRT)
UNARY(EXP)
UNARY(EXPM1)
UNARY(LOG)
UNARY(LOG1P)
UNARY(SIN)
UNARY(COS)
UNARY(TAN)
UNARY(ASIN)
UNARY(ACOS)
UNARY(ATAN)
UNARY(SINH)
UNARY(COSH)
UNARY(ASINH)
UNARY(ACOSH)
UNARY(ATANH)
UNARY(TANH)
UNARY(ERF)
BINARY(ADD)
BINARY(SUB)
BINARY(MUL)
BINARY(DIV)
BINARY(REM)
BINARY(MIN)
BINARY(MAX)
BINARY(POW)
BINARY(ATAN2)

#define ONE(OP, low, high)                    \
    {                                         \
#OP, make_##OP, low, high, {S(9) }, 0 \
    }
#define TWO(OP, low, high)                             \
    {                                                  \
#OP, make_##OP, low, high, {S(3, 4), S(4) }, 0 \
    }

static gale__node make_select(gale__prim_graph *g, const gale__node *x)
{
    return gale__prim_select(g, gale__prim_binary(g, GALE__LT, x[0], x[1]), gale__prim_mul(g, x[0], x[1]),
        gale__prim_unary(g, GALE__SIN, x[0]));
}
static gale__node make_fma(gale__prim_graph *g, const gale__node *x)
{
    return gale__prim_fma(g, x[0], x[1], gale__prim_mul(g, x[2], x[0]));
}
static gale__node make_powers(gale__prim_graph *g, const gale__node *x)
{
    gale__node sum = GALE__NIL;
    const double powers[] = {-1.5, 0, 0.5, 1, 2, 3, 4, 2.5};
    for (int i = 0; i < 8; i++) {
        gale__node y = gale__prim_binary(g, GALE__POW, x[0], gale__prim_scalar(g, GALE_F64, powers[i]));
        sum = i ? gale__prim_add(g, sum, y) : y;
    }
    return sum;
}
static gale__node make_sigmoid(gale__prim_graph *g, const gale__node *x)
{
    gale__node one = gale__prim_like(g, x[0], 1);
    return gale__prim_div(
        g, one, gale__prim_add(g, one, gale__prim_unary(g, GALE__EXP, gale__prim_unary(g, GALE__NEG, x[0]))));
}

static const grad_case scalars_cases[] = {
    ONE(NEG, -2, 2),
    ONE(ABS, -2, 2),
    ONE(FLOOR, -2, 2),
    ONE(CEIL, -2, 2),
    ONE(RINT, -2, 2),
    ONE(TRUNC, -2, 2),
    ONE(SQRT, 0.3, 2),
    ONE(EXP, -2, 2),
    ONE(EXPM1, -2, 2),
    ONE(LOG, 0.3, 2),
    ONE(LOG1P, -0.5, 2),
    ONE(SIN, -2, 2),
    ONE(COS, -2, 2),
    ONE(TAN, -1, 1),
    ONE(ASIN, -0.8, 0.8),
    ONE(ACOS, -0.8, 0.8),
    ONE(ATAN, -2, 2),
    ONE(SINH, -2, 2),
    ONE(COSH, -2, 2),
    ONE(ASINH, -2, 2),
    ONE(ACOSH, 1.3, 3),
    ONE(ATANH, -0.8, 0.8),
    ONE(TANH, -2, 2),
    ONE(ERF, -2, 2),
    TWO(ADD, -2, 2),
    TWO(SUB, -2, 2),
    TWO(MUL, -2, 2),
    TWO(DIV, 0.5, 2),
    TWO(REM, 0.1, 2),
    TWO(MIN, -2, 2),
    TWO(MAX, -2, 2),
    TWO(POW, 0.3, 2),
    TWO(ATAN2, 0.3, 2),
    TWO(ATAN2, -2, -0.3),
    {"select", make_select, -2, 2, {S(3, 4), S(4)}, 0},
    {"fma", make_fma, -2, 2, {S(3, 4), S(4), S(1)}, 0},
    {"powers", make_powers, 0.3, 2, {S(9)}, 0},
    {"sigmoid", make_sigmoid, -6, 6, {S(9)}, 0},
};

/* --- Views. --- */

static gale__node make_reshape(gale__prim_graph *g, const gale__node *x)
{
    gale__node y = gale__prim_permute(g, gale__prim_reshape(g, x[0], DIMS(2, 3, 4)), (int[]){2, 0, 1});
    return gale__prim_mul(
        g, gale__prim_unsqueeze(g, y, 2), gale__prim_expand(g, gale__prim_unary(g, GALE__SIN, x[1]), DIMS(5, 2, 3)));
}
static gale__node make_expand(gale__prim_graph *g, const gale__node *x)
{
    return gale__prim_unary(g, GALE__EXP,
        gale__prim_mul(g, gale__prim_expand(g, x[0], DIMS(2, 3, 4)), gale__prim_expand(g, x[1], DIMS(2, 3, 4))));
}
static gale__node make_slice(gale__prim_graph *g, const gale__node *x)
{
    gale__node up = gale__prim_slice(g, x[0], (int64_t[]){1, 0}, (int64_t[]){2, 3}, (int64_t[]){2, 3});
    gale__node down = gale__prim_slice(g, x[0], (int64_t[]){4, 7}, (int64_t[]){-2, -3}, (int64_t[]){2, 3});
    gale__node one = gale__prim_slice(g, x[0], (int64_t[]){2, 5}, (int64_t[]){1, -1}, (int64_t[]){1, 3});
    return gale__prim_mul(g, gale__prim_mul(g, up, down),
        gale__prim_add(g, one,
            gale__prim_slice(g, gale__prim_flip(g, x[0], 3), (int64_t[]){0, 2}, (int64_t[]){4, 1}, (int64_t[]){2, 3})));
}
static gale__node make_pad(gale__prim_graph *g, const gale__node *x)
{
    gale__node wide = gale__prim_pad(g, x[0], (int64_t[]){2, -1}, (int64_t[]){-1, 3}, (int64_t[]){0, 2}, 1.5);
    gale__node narrow = gale__prim_pad(g, x[0], (int64_t[]){-1, -2}, (int64_t[]){0, -1}, (int64_t[]){1, 2}, 0);
    wide = gale__prim_mul(g, wide, wide);
    narrow = gale__prim_unary(g, GALE__EXP, narrow);
    return gale__prim_add(
        g, gale__prim_reduce(g, GALE__SUM, wide, 2, true), gale__prim_reduce(g, GALE__SUM, narrow, 3, true));
}
static gale__node make_window(gale__prim_graph *g, const gale__node *x)
{
    gale__node w = gale__prim_window(g, x[0], 1, 4, 3, 2, 2, -2, 0.5),
               v = gale__prim_window(g, x[0], 1, 4, 3, -1, 1, 3, 0);
    gale__node z = gale__prim_window(g, x[0], 1, 4, 3, 0, 2, 1, 0);
    return gale__prim_mul(g, gale__prim_mul(g, w, w), gale__prim_unary(g, GALE__EXP, gale__prim_mul(g, v, z)));
}
static gale__node make_window_twice(gale__prim_graph *g, const gale__node *x)
{
    gale__node w = gale__prim_window(
        g, gale__prim_window(g, x[0], 1, 4, 3, 1, 1, -1, 0), 1, 3, 2, 1, 1, 0, 0); /* windows of windows */
    gale__node v = gale__prim_window(
        g, gale__prim_pad(g, x[0], (int64_t[]){1, -1}, (int64_t[]){0, 2}, (int64_t[]){1, 1}, 0), 1, 4, 3, 2, 1, -1, 0);
    return gale__prim_add(
        g, gale__prim_mul(g, w, w), gale__prim_reduce(g, GALE__SUM, gale__prim_mul(g, v, v), 7, false));
}
static gale__node make_unwindow(gale__prim_graph *g, const gale__node *x)
{
    gale__node u = gale__prim_unwindow(g, x[0], 1, 7, 2, 1, -1), v = gale__prim_unwindow(g, x[0], 1, 7, 1, 2, 0);
    return gale__prim_add(g, gale__prim_mul(g, u, v), gale__prim_mul(g, u, u));
}
static gale__node make_concat(gale__prim_graph *g, const gale__node *x)
{
    gale__node y =
        gale__prim_concat(g, 1, (gale__node[]){x[0], x[1], x[0], gale__prim_splat(g, GALE_F64, DIMS(3, 2), 1)}, 4);
    return gale__prim_mul(g, y, gale__prim_copy(g, gale__prim_unary(g, GALE__SIN, y)));
}

static const grad_case views_cases[] = {
    {"reshape, permute", make_reshape, -2, 2, {S(4, 6), S(2, 3)}, 0},
    {"expand", make_expand, -1, 1, {S(3, 1), S(2, 1, 4)}, 0},
    {"slice", make_slice, -2, 2, {S(5, 8)}, 0},
    {"pad", make_pad, -1, 1, {S(3, 5)}, 0},
    {"window", make_window, -1, 1, {S(2, 6)}, 0},
    {"window, twice", make_window_twice, -1, 1, {S(2, 6)}, 0},
    {"unwindow", make_unwindow, -2, 2, {S(2, 4, 3, 2)}, 0},
    {"concat, copy", make_concat, -2, 2, {S(3, 4), S(3, 1)}, 0},
};

/* --- Reductions and scans. --- */

#define REDUCE(KIND)                                                                        \
    static gale__node make_reduce_##KIND(gale__prim_graph *g, const gale__node *x)          \
    {                                                                                       \
        return gale__prim_reduce(g, GALE__##KIND, gale__prim_mul(g, x[0], x[0]), 5, false); \
    }
#define SCAN(KIND)                                                                        \
    static gale__node make_scan_##KIND(gale__prim_graph *g, const gale__node *x)          \
    {                                                                                     \
        return gale__prim_mul(g, gale__prim_scan(g, GALE__##KIND, x[0], 1, false, false), \
            gale__prim_scan(g, GALE__##KIND, x[0], 0, true, true));                       \
    }
REDUCE(SUM)
REDUCE(PROD)
REDUCE(RMAX)
REDUCE(RMIN)
SCAN(SUM)
SCAN(PROD)
#define BEST(KIND)                                                                               \
    static gale__node make_scan_##KIND(gale__prim_graph *g, const gale__node *x)                 \
    {                                                                                            \
        return gale__prim_scan(g, GALE__##KIND, gale__prim_mul(g, x[0], x[0]), 1, false, false); \
    }
BEST(RMAX)
BEST(RMIN)

/* Factors of exactly 0: all inputs are 0 here. */
static gale__node make_zero_products(gale__prim_graph *g, const gale__node *x)
{
    gale__node y = gale__prim_add(
        g, x[0], gale__prim_const(g, GALE_F64, DIMS(3, 4), (double[]){0, 2, 3, 4, 1, 0, 0, 2, 2, 0, 0, 0}));
    gale__node all = gale__prim_reduce(g, GALE__PROD, y, 2, true),
               running = gale__prim_scan(g, GALE__PROD, y, 1, false, false);
    return gale__prim_concat(g, 1, (gale__node[]){all, running}, 2);
}

/* Integers on the way carry no gradient. */
static gale__node make_sorted(gale__prim_graph *g, const gale__node *x)
{
    return gale__prim_take(g, x[0], gale__prim_sort(g, gale__prim_mul(g, x[0], x[0]), 0, true));
}
static gale__node make_arg(gale__prim_graph *g, const gale__node *x)
{
    gale__node at = gale__prim_reduce(g, GALE__ARGMAX, x[0], 1, false), rank = gale__prim_cast(g, at, GALE_F64);
    return gale__prim_mul(
        g, gale__prim_add(g, gale__prim_take(g, x[0], at), rank), gale__prim_slice_axis(g, x[0], 0, 0, 1));
}

static const grad_case reductions_cases[] = {
    {"sum", make_reduce_SUM, -2, 2, {S(2, 3, 4)}, 0},
    {"prod", make_reduce_PROD, 0.5, 1.5, {S(2, 3, 4)}, 0},
    {"max", make_reduce_RMAX, -2, 2, {S(2, 3, 4)}, 0},
    {"min", make_reduce_RMIN, -2, 2, {S(2, 3, 4)}, 0},
    {"running sum", make_scan_SUM, -2, 2, {S(3, 5)}, 0},
    {"running product", make_scan_PROD, 0.5, 1.5, {S(3, 5)}, 0},
    {"running max", make_scan_RMAX, -2, 2, {S(3, 7)}, 0},
    {"running min", make_scan_RMIN, -2, 2, {S(3, 7)}, 0},
    {"products with zeros", make_zero_products, 0, 0, {S(3, 4)}, 0},
    {"sorted", make_sorted, -2, 2, {S(9)}, 0},
    {"arg", make_arg, -2, 2, {S(9)}, 0},
};

/* --- Take and put. --- */

static const int64_t places[7] = {2, 0, 2, 9, -3, 4, 2};

static gale__node make_take(gale__prim_graph *g, const gale__node *x)
{
    gale__node t = gale__prim_take(g, x[0], gale__prim_const(g, GALE_I64, DIMS(7), places));
    return gale__prim_mul(g, t, t);
}
static gale__node make_gather(gale__prim_graph *g, const gale__node *x)
{
    gale__node t = gale__prim_gather(g, x[0], gale__prim_const(g, GALE_I64, DIMS(2, 2), (int64_t[]){-1, 0, 1, 0}), 1);
    return gale__prim_unary(g, GALE__EXP, t);
}
static gale__node put(gale__prim_graph *g, const gale__node *x, int mode)
{
    gale__node y = gale__prim_put(g, x[0], gale__prim_const(g, GALE_I64, DIMS(7), places), x[1], mode);
    return gale__prim_mul(g, y, gale__prim_unary(g, GALE__SIN, y));
}
static gale__node make_put_set(gale__prim_graph *g, const gale__node *x) { return put(g, x, -1); }
static gale__node make_put_sum(gale__prim_graph *g, const gale__node *x) { return put(g, x, GALE__SUM); }
static gale__node make_put_prod(gale__prim_graph *g, const gale__node *x) { return put(g, x, GALE__PROD); }
static gale__node make_put_max(gale__prim_graph *g, const gale__node *x) { return put(g, x, GALE__RMAX); }
static gale__node make_put_min(gale__prim_graph *g, const gale__node *x) { return put(g, x, GALE__RMIN); }

static const grad_case indices_cases[] = {
    {"take", make_take, -2, 2, {S(5)}, 0},
    {"gather", make_gather, -1, 1, {S(2, 3, 2)}, 0},
    {"put set", make_put_set, -2, 2, {S(5), S(7)}, 0},
    {"put sum", make_put_sum, -2, 2, {S(5), S(7)}, 0},
    {"put prod", make_put_prod, 0.5, 2, {S(5), S(7)}, 0},
    {"put max", make_put_max, -2, 2, {S(5), S(7)}, 0},
    {"put min", make_put_min, -2, 2, {S(5), S(7)}, 0},
};

static gale__node mean(gale__prim_graph *g, gale__node x, uint32_t axes)
{
    double n = 1;
    for (int d = 0; d < gale__prim_at(g, x)->rank; d++)
        if (axes >> d & 1) n *= (double)gale__prim_at(g, x)->dims[d];
    return gale__prim_mul(g, gale__prim_reduce(g, GALE__SUM, x, axes, true), gale__prim_scalar(g, GALE_F64, 1 / n));
}
static gale__node sum(gale__prim_graph *g, gale__node x, uint32_t axes)
{
    return gale__prim_reduce(g, GALE__SUM, x, axes, true);
}

/* --- Softmax and norms. --- */

static gale__node softmax(gale__prim_graph *g, gale__node x)
{
    uint32_t axis = 1u << (gale__prim_at(g, x)->rank - 1);
    gale__node most = gale__prim_reduce(g, GALE__RMAX, x, axis, true);
    gale__node e = gale__prim_unary(g, GALE__EXP, gale__prim_sub(g, x, most));
    return gale__prim_div(g, e, sum(g, e, axis));
}
static gale__node make_softmax(gale__prim_graph *g, const gale__node *x) { return softmax(g, x[0]); }

static gale__node make_cross_entropy(gale__prim_graph *g, const gale__node *x)
{
    gale__node z = gale__prim_sub(g, x[0], gale__prim_reduce(g, GALE__RMAX, x[0], 2, true));
    gale__node log_p =
        gale__prim_sub(g, z, gale__prim_unary(g, GALE__LOG, sum(g, gale__prim_unary(g, GALE__EXP, z), 2)));
    gale__node label = gale__prim_const(g, GALE_I64, DIMS(4), (int64_t[]){2, 0, 4 + 5, 1}),
               row = gale__prim_iota(g, DIMS(4), 0);
    gale__node picked =
        gale__prim_take(g, log_p, gale__prim_add(g, label, gale__prim_mul(g, row, gale__prim_scalar(g, GALE_I64, 5))));
    return gale__prim_unary(g, GALE__NEG, mean(g, picked, 1));
}

static gale__node normalize(gale__prim_graph *g, gale__node x, uint32_t axes, gale__node gain, gale__node bias)
{
    gale__node centred = gale__prim_sub(g, x, mean(g, x, axes));
    gale__node spread = mean(g, gale__prim_mul(g, centred, centred), axes);
    gale__node scale = gale__prim_unary(g, GALE__SQRT, gale__prim_add(g, spread, gale__prim_scalar(g, GALE_F64, 1e-2)));
    return gale__prim_add(g, gale__prim_mul(g, gale__prim_div(g, centred, scale), gain), bias);
}
static gale__node make_layer_norm(gale__prim_graph *g, const gale__node *x)
{
    return normalize(g, x[0], 4, x[1], x[2]);
}
static gale__node make_batch_norm(gale__prim_graph *g, const gale__node *x)
{
    return normalize(g, x[0], 5, gale__prim_unsqueeze(g, x[1], 2), gale__prim_unsqueeze(g, x[2], 2));
}
static gale__node make_gelu(gale__prim_graph *g, const gale__node *x)
{
    gale__node half = gale__prim_scalar(g, GALE_F64, 0.5),
               e = gale__prim_unary(g, GALE__ERF, gale__prim_mul(g, x[0], gale__prim_scalar(g, GALE_F64, sqrt(0.5))));
    return gale__prim_mul(g, gale__prim_mul(g, x[0], half), gale__prim_add(g, e, gale__prim_scalar(g, GALE_F64, 1)));
}

static const grad_case norms_cases[] = {
    {"softmax", make_softmax, -2, 2, {S(3, 5)}, 0},
    {"cross-entropy", make_cross_entropy, -2, 2, {S(4, 5)}, 0},
    {"layer norm", make_layer_norm, -2, 2, {S(2, 3, 4), S(4), S(4)}, 0},
    {"batch norm", make_batch_norm, -2, 2, {S(2, 3, 4), S(3), S(3)}, 0},
    {"gelu", make_gelu, -3, 3, {S(9)}, 0},
};

/* --- Products. --- */

static gale__node make_matmul(gale__prim_graph *g, const gale__node *x) { return gale__prim_matmul(g, x[0], x[1]); }
static gale__node make_attention(gale__prim_graph *g, const gale__node *x)
{
    gale__node scores = gale__prim_matmul(g, x[0], gale__prim_permute(g, x[1], (int[]){0, 2, 1}));
    return gale__prim_matmul(g, softmax(g, scores), x[2]);
}
static gale__node conv(gale__prim_graph *g, const gale__node *x, gale__prim_conv_args c)
{
    return gale__prim_conv(g, x[0], x[1], &c);
}
static gale__node make_conv1(gale__prim_graph *g, const gale__node *x)
{
    return conv(g, x, (gale__prim_conv_args){1, {2}, {2}, {1}, {3}, {1}, 1});
}
static gale__node make_conv2(gale__prim_graph *g, const gale__node *x)
{
    return conv(g, x, (gale__prim_conv_args){2, {2, 1}, {1, 2}, {1, 1}, {1, 2}, {1, -1}, 1});
}
static gale__node make_conv2_groups(gale__prim_graph *g, const gale__node *x)
{
    return conv(g, x, (gale__prim_conv_args){2, {1, 2}, {1, 1}, {2, 1}, {0, 1}, {1, 1}, 2});
}
static gale__node make_conv3(gale__prim_graph *g, const gale__node *x)
{
    return conv(g, x, (gale__prim_conv_args){3, {1, 2, 1}, {1, 1, 1}, {1, 1, 1}, {1, 0, 0}, {0, 1, 0}, 1});
}
static gale__node make_depthwise(gale__prim_graph *g, const gale__node *x)
{
    return conv(g, x, (gale__prim_conv_args){1, {1}, {1}, {1}, {1}, {1}, 3});
}
static gale__node make_transposed(gale__prim_graph *g, const gale__node *x)
{
    gale__prim_conv_args c = {2, {2, 1, 1}, {1, 2, 1}, {1, 1, 1}, {1, 0, 0}, {0, 0, 0}, 2};
    return gale__prim_conv_transpose(g, x[0], x[1], &c, (int64_t[]){5, 6});
}

static const grad_case products_cases[] = {
    {"matmul", make_matmul, -1, 1, {S(3, 4), S(4, 2)}, 0},
    {"matmul, broadcast", make_matmul, -1, 1, {S(2, 1, 3, 4), S(3, 4, 2)}, 0},
    {"matmul, one matrix", make_matmul, -1, 1, {S(3, 2, 4), S(4, 2)}, 0},
    {"attention", make_attention, -1, 1, {S(2, 3, 4), S(2, 5, 4), S(2, 5, 3)}, 0},
    {"conv 1d", make_conv1, -1, 1, {S(2, 3, 7), S(2, 3, 3)}, 0},
    {"conv 2d", make_conv2, -1, 1, {S(2, 2, 5, 6), S(3, 2, 3, 2)}, 0},
    {"conv 2d, groups", make_conv2_groups, -1, 1, {S(1, 4, 3, 5), S(4, 2, 2, 3)}, 0},
    {"conv 3d", make_conv3, -1, 1, {S(1, 2, 3, 3, 3), S(2, 2, 2, 2, 1)}, 0},
    {"depthwise", make_depthwise, -1, 1, {S(1, 3, 6), S(3, 1, 3)}, 0},
    {"transposed conv", make_transposed, -1, 1, {S(1, 4, 3, 4), S(4, 1, 2, 2)}, 0},
};

/* --- Pooling, resizing, a small network. --- */

static gale__node windows(gale__prim_graph *g, gale__node x, double fill)
{
    x = gale__prim_window(g, x, 3, 3, 3, 2, 1, -1, fill);
    x = gale__prim_window(g, x, 2, 3, 2, 2, 1, 0, fill);
    return x; /* [N, C, oh, kh, ow, kw] */
}
static gale__node make_max_pool(gale__prim_graph *g, const gale__node *x)
{
    return gale__prim_reduce(g, GALE__RMAX, windows(g, x[0], -INFINITY), 1u << 3 | 1u << 5, false);
}
static gale__node make_average_pool(gale__prim_graph *g, const gale__node *x)
{
    gale__node total = gale__prim_reduce(g, GALE__SUM, windows(g, x[0], 0), 1u << 3 | 1u << 5, false);
    return gale__prim_div(g, gale__prim_mul(g, total, total),
        gale__prim_reduce(g, GALE__SUM, windows(g, gale__prim_like(g, x[0], 1), 0), 1u << 3 | 1u << 5, false));
}
static gale__node make_resize(gale__prim_graph *g, const gale__node *x)
{
    gale__node left = gale__prim_gather(g, x[0], gale__prim_const(g, GALE_I64, DIMS(5), (int64_t[]){0, 0, 1, 1, 2}), 1);
    gale__node right =
        gale__prim_gather(g, x[0], gale__prim_const(g, GALE_I64, DIMS(5), (int64_t[]){1, 1, 2, 2, 2}), 1);
    gale__node part = gale__prim_const(g, GALE_F64, DIMS(5, 1), (double[]){0, 0.5, 0, 0.5, 0});
    return gale__prim_unary(
        g, GALE__TANH, gale__prim_add(g, left, gale__prim_mul(g, gale__prim_sub(g, right, left), part)));
}
static gale__node make_network(gale__prim_graph *g, const gale__node *x)
{
    gale__prim_conv_args c = {2, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 0}, {1, 1, 0}, 1};
    gale__node h = gale__prim_add(g, gale__prim_conv(g, x[0], x[1], &c), gale__prim_reshape(g, x[2], DIMS(1, 2, 1, 1)));
    h = gale__prim_binary(g, GALE__MAX, h, gale__prim_scalar(g, GALE_F64, 0));
    h = gale__prim_reshape(g,
        gale__prim_reduce(g, GALE__RMAX, gale__prim_reshape(g, h, DIMS(2, 2, 2, 2, 2, 2)), 1u << 3 | 1u << 5, false),
        DIMS(2, 8));
    return gale__prim_unary(g, GALE__LOG, softmax(g, gale__prim_matmul(g, h, x[3])));
}

static const grad_case networks_cases[] = {
    {"max pool", make_max_pool, -2, 2, {S(1, 2, 5, 5)}, 0},
    {"average pool", make_average_pool, -2, 2, {S(1, 2, 5, 5)}, 0},
    {"resize", make_resize, -2, 2, {S(2, 3, 2)}, 0},
    {"network", make_network, -1, 1, {S(2, 1, 4, 4), S(2, 1, 3, 3), S(2), S(8, 3)}, 0},
};

/* --- Loops. --- */

static gale__prim_graph *new_body(void)
{
    gale__prim_graph *body = gale__alloc(sizeof *body);
    if (body) gale__prim_init(body);
    return body;
}

static gale__node add_loop(gale__prim_graph *g, gale__prim_loop_args loop, const gale__node *inputs)
{
    gale__node n = gale__prim_loop(g, &loop, inputs);
    if (n < 0) gale__prim_finish(loop.body), gale__free(loop.body);
    return n;
}

/* An LSTM without biases: h, c carried; x[t] sliced; W [8, 3], R [8, 2] constant; h stacked. */
static gale__node lstm(gale__prim_graph *g, const gale__node *x, bool reverse)
{
    gale__prim_graph *b = new_body();
    if (!b) return gale__prim_fail(g, GALE_NO_MEMORY, "no memory");
    gale__node h = gale__prim_input(b, 0, GALE_F64, DIMS(2, 1)), c = gale__prim_input(b, 1, GALE_F64, DIMS(2, 1)),
               xt = gale__prim_input(b, 2, GALE_F64, DIMS(3, 1));
    gale__node w = gale__prim_input(b, 3, GALE_F64, DIMS(8, 3)), r = gale__prim_input(b, 4, GALE_F64, DIMS(8, 2)),
               gate[4];
    gale__node z = gale__prim_add(b, gale__prim_matmul(b, w, xt), gale__prim_matmul(b, r, h)),
               one = gale__prim_scalar(b, GALE_F64, 1);
    for (int i = 0; i < 4; i++) {
        gate[i] = gale__prim_slice_axis(b, z, 0, 2 * i, 2);
        if (i == 3) gate[i] = gale__prim_unary(b, GALE__TANH, gate[i]);
        else
            gate[i] = gale__prim_div(b, one,
                gale__prim_add(b, one, gale__prim_unary(b, GALE__EXP, gale__prim_unary(b, GALE__NEG, gate[i]))));
    }
    gale__node next_c = gale__prim_add(b, gale__prim_mul(b, gate[1], c), gale__prim_mul(b, gate[0], gate[3]));
    gale__node next_h = gale__prim_mul(b, gate[2], gale__prim_unary(b, GALE__TANH, next_c));
    gale__node zero = gale__prim_splat(g, GALE_F64, DIMS(2, 1), 0);
    gale__node loop =
        add_loop(g, (gale__prim_loop_args){b, 4, 2, 1, 2, 1, (gale__node[]){next_h, next_c, next_h}, reverse},
            (gale__node[]){x[3], zero, x[0], x[1], x[2]});
    gale__node all = gale__prim_reshape(g, gale__prim_loop_out(g, loop, 2), DIMS(8, 1));
    return gale__prim_concat(
        g, 0, (gale__node[]){all, gale__prim_loop_out(g, loop, 0), gale__prim_loop_out(g, loop, 1)}, 3);
}
static gale__node make_lstm(gale__prim_graph *g, const gale__node *x) { return lstm(g, x, false); }
static gale__node make_lstm_reverse(gale__prim_graph *g, const gale__node *x) { return lstm(g, x, true); }

/* A step counter (integer) and a value that forgets its past; the final value of one and the stack of the other are
 * read. */
static gale__node make_mixed(gale__prim_graph *g, const gale__node *x)
{
    gale__prim_graph *b = new_body();
    if (!b) return gale__prim_fail(g, GALE_NO_MEMORY, "no memory");
    gale__node t = gale__prim_input(b, 0, GALE_I64, DIMS(1)), y = gale__prim_input(b, 1, GALE_F64, DIMS(2)),
               step = gale__prim_input(b, 3, GALE_F64, DIMS(2));
    gale__node next_t = gale__prim_add(b, t, gale__prim_scalar(b, GALE_I64, 1)),
               at = gale__prim_cast(b, next_t, GALE_F64);
    gale__node next_y = gale__prim_add(b, gale__prim_mul(b, y, gale__prim_unary(b, GALE__SIN, step)), at),
               last = gale__prim_mul(b, step, at);
    gale__node stack = gale__prim_mul(b, next_y, step);
    gale__prim_loop_args loop = {b, 3, 3, 1, 0, 2, (gale__node[]){next_t, next_y, last, stack, next_t}, false};
    gale__node n = add_loop(g, loop, (gale__node[]){gale__prim_splat(g, GALE_I64, DIMS(1), 0), x[0], x[0], x[1]});
    gale__node out[3] = {gale__prim_loop_out(g, n, 2), gale__prim_reshape(g, gale__prim_loop_out(g, n, 3), DIMS(6)),
        gale__prim_cast(g, gale__prim_reshape(g, gale__prim_loop_out(g, n, 4), DIMS(3)), GALE_F64)};
    return gale__prim_concat(g, 0, out, 3);
}

/* A loop in a loop: the inner one squares and adds the outer's slice. */
static gale__node make_nested(gale__prim_graph *g, const gale__node *x)
{
    gale__prim_graph *in = new_body(), *b = new_body();
    if (!in || !b) return gale__free(in), gale__free(b), gale__prim_fail(g, GALE_NO_MEMORY, "no memory");
    gale__node u = gale__prim_input(in, 0, GALE_F64, DIMS(2)), k = gale__prim_input(in, 1, GALE_F64, DIMS(2));
    gale__node next =
        gale__prim_add(in, gale__prim_mul(in, gale__prim_mul(in, u, u), gale__prim_scalar(in, GALE_F64, 0.5)), k);
    gale__node y = gale__prim_input(b, 0, GALE_F64, DIMS(2)), step = gale__prim_input(b, 1, GALE_F64, DIMS(2)),
               w = gale__prim_input(b, 2, GALE_F64, DIMS(2));
    gale__node inner = add_loop(b, (gale__prim_loop_args){in, 2, 1, 0, 1, 0, &next, false}, (gale__node[]){y, step}),
               after = gale__prim_mul(b, gale__prim_loop_out(b, inner, 0), w);
    gale__node outer =
        add_loop(g, (gale__prim_loop_args){b, 3, 1, 1, 1, 0, &after, false}, (gale__node[]){x[0], x[1], x[2]});
    return gale__prim_loop_out(g, outer, 0);
}

static const grad_case loops_cases[] = {
    {"lstm", make_lstm, -1, 1, {S(4, 3, 1), S(8, 3), S(8, 2), S(2, 1)}, 0},
    {"lstm, reverse", make_lstm_reverse, -1, 1, {S(4, 3, 1), S(8, 3), S(8, 2), S(2, 1)}, 0},
    {"mixed", make_mixed, -1, 1, {S(2), S(3, 2)}, 0},
    {"nested", make_nested, -1, 1, {S(2), S(3, 2), S(2)}, 0},
};

static const struct {
    const char *name;
    const grad_case *cases;
    size_t n;
} grad_groups[] = {
    {"scalars", scalars_cases, sizeof scalars_cases / sizeof *scalars_cases},
    {"views", views_cases, sizeof views_cases / sizeof *views_cases},
    {"reductions", reductions_cases, sizeof reductions_cases / sizeof *reductions_cases},
    {"indices", indices_cases, sizeof indices_cases / sizeof *indices_cases},
    {"norms", norms_cases, sizeof norms_cases / sizeof *norms_cases},
    {"products", products_cases, sizeof products_cases / sizeof *products_cases},
    {"networks", networks_cases, sizeof networks_cases / sizeof *networks_cases},
    {"loops", loops_cases, sizeof loops_cases / sizeof *loops_cases},
};
#define GRAD_GROUPS (sizeof grad_groups / sizeof *grad_groups)
#endif
