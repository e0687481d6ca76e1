/* Activations: functions of one element, computed in F32 for half floats. */
#include "ops/lower.h"
#include <math.h>
#include <string.h>

typedef gale__node body(gale__lower *L, gale__node x);
static void apply(gale__lower *L, body *f)
{
    L->out[0] = gale__prim_cast(L->g, f(L, gale__lower_wide(L, L->in[0])), gale__lower_type_of(L->g, L->in[0]));
}

static gale__node max0(gale__lower *L, gale__node x)
{
    return gale__prim_binary(L->g, GALE__MAX, x, gale__lower_value(L, x, 0));
}
static gale__node min0(gale__lower *L, gale__node x)
{
    return gale__prim_binary(L->g, GALE__MIN, x, gale__lower_value(L, x, 0));
}
static gale__node times(gale__lower *L, gale__node x, double v)
{
    return gale__prim_mul(L->g, x, gale__lower_value(L, x, v));
}
static gale__node plus(gale__lower *L, gale__node x, double v)
{
    return gale__prim_add(L->g, x, gale__lower_value(L, x, v));
}
static gale__node expm1_(gale__lower *L, gale__node x) { return gale__prim_unary(L->g, GALE__EXPM1, x); }
/* x where x < 0 is false, else y. */
static gale__node below_zero(gale__lower *L, gale__node x, gale__node y)
{
    return gale__prim_select(L->g, gale__prim_binary(L->g, GALE__LT, x, gale__lower_value(L, x, 0)), y, x);
}

static gale__node leaky_relu(gale__lower *L, gale__node x)
{
    return below_zero(L, x, times(L, x, gale__attr_f(L, "alpha", 0.01)));
}
static gale__node elu(gale__lower *L, gale__node x)
{
    return below_zero(L, x, times(L, expm1_(L, x), gale__attr_f(L, "alpha", 1)));
}

static gale__node selu(gale__lower *L, gale__node x)
{
    double alpha = gale__attr_f(L, "alpha", 1.67326319217681884765625),
           gamma = gale__attr_f(L, "gamma", 1.05070102214813232421875);
    return times(L, below_zero(L, x, times(L, expm1_(L, x), alpha)), gamma);
}

static gale__node celu(gale__lower *L, gale__node x)
{
    double alpha = gale__attr_f(L, "alpha", 1);
    return gale__prim_add(L->g, max0(L, x), min0(L, times(L, expm1_(L, times(L, x, 1 / alpha)), alpha)));
}

/* max(x, 0) + log(1 + exp(-|x|)): neither end overflows. */
gale__node gale__lower_softplus(gale__lower *L, gale__node x)
{
    gale__node small =
        gale__prim_unary(L->g, GALE__EXP, gale__prim_unary(L->g, GALE__NEG, gale__prim_unary(L->g, GALE__ABS, x)));
    return gale__prim_add(L->g, max0(L, x), gale__prim_unary(L->g, GALE__LOG1P, small));
}

gale__node gale__lower_gelu(gale__lower *L, gale__node x, bool fast)
{
    gale__prim_graph *g = L->g;
    gale__node cube = gale__prim_mul(g, gale__prim_mul(g, x, x), x),
               inner = times(L, gale__prim_add(g, x, times(L, cube, 0.044715)), 0.79788456080286535588);
    gale__node t = fast ? gale__prim_unary(g, GALE__TANH, inner)
                        : gale__prim_unary(g, GALE__ERF, times(L, x, 0.70710678118654752440));
    return gale__prim_mul(g, times(L, x, 0.5), plus(L, t, 1));
}

static gale__node gelu(gale__lower *L, gale__node x)
{
    return gale__lower_gelu(L, x, !strcmp(gale__attr_s(L, "approximate", "none"), "tanh"));
}
static gale__node swish(gale__lower *L, gale__node x)
{
    return gale__prim_mul(L->g, x, gale__lower_sigmoid(L, times(L, x, gale__attr_f(L, "alpha", 1))));
}
static gale__node mish(gale__lower *L, gale__node x)
{
    return gale__prim_mul(L->g, x, gale__prim_unary(L->g, GALE__TANH, gale__lower_softplus(L, x)));
}
static gale__node softsign(gale__lower *L, gale__node x)
{
    return gale__prim_div(L->g, x, plus(L, gale__prim_unary(L->g, GALE__ABS, x), 1));
}
static gale__node hard_sigmoid(gale__lower *L, gale__node x)
{
    return gale__lower_clamp(
        L, plus(L, times(L, x, gale__attr_f(L, "alpha", 0.2)), gale__attr_f(L, "beta", 0.5)), 0, 1);
}
/* x + 3 before anything is rounded: near -3 little is left of it. */
static gale__node hard_swish(gale__lower *L, gale__node x)
{
    return gale__prim_mul(L->g, x, times(L, gale__lower_clamp(L, plus(L, x, 3), 0, 6), 1.0 / 6));
}
static gale__node hard_tanh(gale__lower *L, gale__node x)
{
    return gale__lower_clamp(L, x, gale__attr_f(L, "min_val", -1), gale__attr_f(L, "max_val", 1));
}

static gale__node thresholded_relu(gale__lower *L, gale__node x)
{
    gale__node above = gale__prim_binary(L->g, GALE__GT, x, gale__lower_value(L, x, gale__attr_f(L, "alpha", 1)));
    return gale__prim_select(L->g, above, x, gale__lower_value(L, x, 0));
}

static gale__node shrink(gale__lower *L, gale__node x)
{
    gale__prim_graph *g = L->g;
    double bias = gale__attr_f(L, "bias", 0), bound = gale__attr_f(L, "lambd", 0.5);
    gale__node low = gale__prim_binary(g, GALE__LT, x, gale__lower_value(L, x, -bound)),
               high = gale__prim_binary(g, GALE__GT, x, gale__lower_value(L, x, bound));
    return gale__prim_select(
        g, low, plus(L, x, bias), gale__prim_select(g, high, plus(L, x, -bias), gale__lower_value(L, x, 0)));
}

LOWER(Relu) { L->out[0] = max0(L, L->in[0]); }
LOWER(LeakyRelu) { apply(L, leaky_relu); }
LOWER(Elu) { apply(L, elu); }
LOWER(Selu) { apply(L, selu); }
LOWER(Celu) { apply(L, celu); }
LOWER(Sigmoid) { apply(L, gale__lower_sigmoid); }
LOWER(Gelu) { apply(L, gelu); }
LOWER(Swish) { apply(L, swish); }
LOWER(Mish) { apply(L, mish); }
/* Swish of the gate times the value; unlike in most operators of two inputs, shapes must be equal. */
LOWER(SwiGLU)
{
    gale__node gate = gale__lower_wide(L, L->in[0]), value = gale__lower_wide(L, L->in[1]);
    if (gale__lower_good(L) && !gale__prim_same_shape(L->g, gate, value))
        gale__lower_refuse(L, "gate and value have different shapes");
    L->out[0] = gale__prim_cast(L->g, gale__prim_mul(L->g, swish(L, gate), value), gale__lower_type_of(L->g, L->in[0]));
}
LOWER(Softplus) { apply(L, gale__lower_softplus); }
LOWER(Softsign) { apply(L, softsign); }
LOWER(HardSigmoid) { apply(L, hard_sigmoid); }
LOWER(HardSwish) { apply(L, hard_swish); }
LOWER(HardTanh) { apply(L, hard_tanh); }
LOWER(ThresholdedRelu) { apply(L, thresholded_relu); }
LOWER(Shrink) { apply(L, shrink); }

LOWER(PRelu)
{
    gale__node x = gale__lower_wide(L, L->in[0]);
    L->out[0] = gale__prim_cast(L->g, below_zero(L, x, gale__prim_mul(L->g, x, gale__lower_wide(L, L->in[1]))),
        gale__lower_type_of(L->g, L->in[0]));
}
