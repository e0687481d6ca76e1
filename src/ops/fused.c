/* com.microsoft's fused operators: one of ONNX's own and what follows it.  Fusion finds such chains anyway; these are for
 * models that were written out after somebody else's. */
#include "ops/microsoft.h"
#include <string.h>

/* Activations by name: what is lowered, and the names its parameters have there. */
typedef struct activation { const char *name; void (*lower)(gale__lower *); const char *first, *second; } activation;
static const activation activations[] = {
    {"Relu", gale__lower_Relu, NULL, NULL}, {"Sigmoid", gale__lower_Sigmoid, NULL, NULL}, {"Tanh", gale__lower_Tanh, NULL, NULL},
    {"LeakyRelu", gale__lower_LeakyRelu, "alpha", NULL}, {"Elu", gale__lower_Elu, "alpha", NULL}, {"Selu", gale__lower_Selu, "alpha", "gamma"},
    {"ThresholdedRelu", gale__lower_ThresholdedRelu, "alpha", NULL}, {"HardSigmoid", gale__lower_HardSigmoid, "alpha", "beta"}, {"Clip", gale__lower_Clip, "min", "max"},
    {"Softplus", gale__lower_Softplus, NULL, NULL}, {"Softsign", gale__lower_Softsign, NULL, NULL}, {"HardSwish", gale__lower_HardSwish, NULL, NULL},
    {"Gelu", gale__lower_Gelu, NULL, NULL},
};

/* y after attribute activation, with up to two parameters. */
static gale__node activated(gale__lower *L, gale__node y, const double *params, int n)
{
    const char *name = gale__attr_s(L, "activation", "");
    gale_attr attrs[2] = {0};
    if (!*name || !gale__good(L)) return y;
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        const activation *a = &activations[i];
        int used = 0;
        if (strcmp(a->name, name)) continue;
        if (a->first && n > 0) attrs[used++] = (gale_attr)GALE_FLOAT(a->first, params[0]);
        if (a->second && n > 1) attrs[used++] = (gale_attr)GALE_FLOAT(a->second, params[1]);
        return gale__lower_as(L, a->lower, &y, 1, attrs, used);
    }
    return gale__refuse(L, "activation '%s' is not known", name);
}

LOWER(MSFusedConv)
{
    int n = 0;
    const double *params = gale__attr_floats(L, "activation_params", &n);
    gale__node y = gale__lower_as(L, gale__lower_Conv, L->in, L->n_in > 3 ? 3 : L->n_in, NULL, 0), other = gale__arg(L, 3);
    if (other >= 0) y = gale__g_add(L->g, y, other);
    L->out[0] = activated(L, y, params, n);
}

LOWER(MSFusedGemm)
{
    const char *name = gale__attr_s(L, "activation", "");
    bool second = gale__attr_given(L, "activation_beta") || gale__attr_given(L, "activation_gamma"), selu = !strcmp(name, "Selu");
    double params[2] = {gale__attr_f(L, "activation_alpha", 0), selu ? gale__attr_f(L, "activation_gamma", 0) : gale__attr_f(L, "activation_beta", 0)};
    gale__node y = gale__lower_as(L, gale__lower_Gemm, L->in, L->n_in, NULL, 0);
    L->out[0] = activated(L, y, params, gale__attr_given(L, "activation_alpha") ? 1 + second : 0);
}

/* Turned as asked: the first axis goes behind the batch's, and the last two change places. */
static gale__node turned(gale__lower *L, gale__node x, bool batch, bool matrix)
{
    int rank = gale__rank_of(L->g, x), perm[GALE_MAX_RANK];
    for (int d = 0; d < rank; d++) perm[d] = d;
    if (batch && rank > 2) {
        for (int d = 0; d < rank - 2; d++) perm[d] = d + 1;
        perm[rank - 2] = 0;
    }
    if (matrix && rank > 1) {
        int last = perm[rank - 1];
        perm[rank - 1] = perm[rank - 2];
        perm[rank - 2] = last;
    }
    return gale__g_permute(L->g, x, perm);
}

LOWER(MSFusedMatMul)
{
    gale__node a = turned(L, gale__wide(L, L->in[0]), gale__attr_i(L, "transBatchA", 0), gale__attr_i(L, "transA", 0));
    gale__node b = turned(L, gale__wide(L, L->in[1]), gale__attr_i(L, "transBatchB", 0), gale__attr_i(L, "transB", 0));
    gale__node y = gale__product(L, a, b);
    L->out[0] = gale__g_cast(L->g, gale__g_mul(L->g, y, gale__value(L, y, gale__attr_f(L, "alpha", 1))), gale__type_of(L->g, L->in[0]));
}

/* --- Activations with a bias before them. --- */

static gale__node with_bias(gale__lower *L)
{
    gale__node bias = gale__arg(L, 1), x = gale__wide(L, L->in[0]);
    return bias >= 0 ? gale__g_add(L->g, x, gale__wide(L, bias)) : x;
}

static void give(gale__lower *L, gale__node y) { L->out[0] = gale__g_cast(L->g, y, gale__type_of(L->g, L->in[0])); }

static void gelu_of(gale__lower *L, const char *how)
{
    gale_attr attr = GALE_STRING_ATTR("approximate", how);
    gale__node x = with_bias(L);
    give(L, gale__lower_as(L, gale__lower_Gelu, &x, 1, &attr, 1));
}
LOWER(MSGelu) { gelu_of(L, "none"); }
LOWER(MSBiasGelu) { gelu_of(L, "none"); }
LOWER(MSFastGelu) { gelu_of(L, "tanh"); }

LOWER(MSQuickGelu)
{
    gale_attr alpha = GALE_FLOAT("alpha", gale__attr_f(L, "alpha", 1.702));
    L->out[0] = gale__lower_as(L, gale__lower_Swish, L->in, 1, &alpha, 1);
}

/* All axes from `axis` on count as one.  Where the bias is short of axes, they are the batch's, or those before `axis`. */
LOWER(MSBiasSoftmax)
{
    gale__g *g = L->g;
    gale__pnode p = gale__peek(g, L->in[0]), q = gale__peek(g, L->in[1]);
    int axis = gale__axis(L, gale__attr_i(L, "axis", 1), p.rank);
    gale__node bias = gale__wide(L, L->in[1]);
    if (gale__attr_i(L, "is_inner_broadcast", 0) && q.rank < p.rank && gale__good(L)) bias = gale__g_unsqueeze(g, bias, ((1u << axis) - 1) & ~((1u << (axis - (p.rank - q.rank))) - 1));
    give(L, gale__softmax(L, gale__g_add(g, gale__wide(L, L->in[0]), bias), ((1u << p.rank) - 1) & ~((1u << axis) - 1)));
}

LOWER(MSSimplifiedLayerNormalization)
{
    gale__g *g = L->g;
    gale__node x = gale__wide(L, L->in[0]);
    int rank = gale__rank_of(g, x), axis = gale__axis(L, gale__attr_i(L, "axis", -1), rank);
    L->out[0] = gale__lower_as(L, gale__lower_RMSNormalization, L->in, 2, NULL, 0);
    if (L->n_out < 2 || !gale__good(L)) return;
    gale__node square = gale__mean(L, gale__g_mul(g, x, x), ((1u << rank) - 1) & ~((1u << axis) - 1));
    gale__node root = gale__g_unary(g, GALE__SQRT, gale__g_add(g, square, gale__value(L, x, gale__attr_f(L, "epsilon", 1e-5))));
    gale__give(L, 1, gale__g_div(g, gale__value(L, x, 1), root));
}
