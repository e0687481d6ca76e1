/* Activations of recurrent cells.  All except two are separate operators, and are lowered by those. */
#include "ops/recurrent.h"
#include <string.h>
#include <strings.h>

/* Which numbers a function takes from the lists, and what they are where the lists end. */
static const struct {
    const char *name;
    bool alpha, beta;
    double default_alpha, default_beta;
} functions[] = {
    {"Tanh", false, false, 0, 0},
    {"Sigmoid", false, false, 0, 0},
    {"Relu", false, false, 0, 0},
    {"Softsign", false, false, 0, 0},
    {"Softplus", false, false, 0, 0},
    {"Affine", true, true, 1, 0},
    {"LeakyRelu", true, false, 0.01, 0},
    {"ThresholdedRelu", true, false, 1, 0},
    {"ScaledTanh", true, true, 1, 1},
    {"HardSigmoid", true, true, 0.2, 0.5},
    {"Elu", true, false, 1, 0},
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

static int find_function(const char *name)
{
    for (int i = 0; i < N_FUNCTIONS; i++)
        if (!strcasecmp(functions[i].name, name)) return i;
    return -1;
}

bool gale__activations_read(gale__lower *L, const char *const *defaults, int count, int which, gale__activation *out)
{
    int n, n_alpha, n_beta, alpha = 0, beta = 0;
    const char *const *names = gale__attr_strings(L, "activations", &n);
    const double *alphas = gale__attr_floats(L, "activation_alpha", &n_alpha),
                 *betas = gale__attr_floats(L, "activation_beta", &n_beta);
    if (n && n < count * (which + 1))
        gale__lower_refuse(L, "%d activations are given instead of %d for each direction", n, count);
    for (int i = 0; i < count * (which + 1) && gale__lower_good(L); i++) {
        const char *name = n ? names[i] : defaults[i % count];
        int f = find_function(name);
        if (f < 0) gale__lower_refuse(L, "unknown activation '%s'", name);
        if (f < 0) break;
        gale__activation a = {functions[f].name, functions[f].default_alpha, functions[f].default_beta};
        if (functions[f].alpha && alpha < n_alpha) a.alpha = alphas[alpha++];
        if (functions[f].beta && beta < n_beta) a.beta = betas[beta++];
        if (i >= count * which) out[i - count * which] = a;
    }
    return gale__lower_good(L);
}

static gale__node times(gale__lower *B, gale__node x, double v)
{
    return gale__prim_mul(B->g, x, gale__lower_value(B, x, v));
}

gale__node gale__lower_activate(gale__lower *B, const gale__activation *a, double clip, gale__node x)
{
    gale__prim_graph *g = B->g;
    if (clip > 0) x = gale__lower_clamp(B, x, -clip, clip);
    if (!strcmp(a->name, "Affine")) return gale__prim_add(g, times(B, x, a->alpha), gale__lower_value(B, x, a->beta));
    if (!strcmp(a->name, "ScaledTanh"))
        return times(B, gale__prim_unary(g, GALE__TANH, times(B, x, a->beta)), a->alpha);
    gale_attr attrs[2] = {GALE_FLOAT("alpha", a->alpha), GALE_FLOAT("beta", a->beta)};
    gale__op_node node = {
        .op = gale__op_find(a->name), .name = a->name, .n_in = 1, .n_out = 1, .attrs = attrs, .n_attrs = 2};
    gale__node y = GALE__NIL;
    gale__lower one = {.g = g, .node = &node, .in = &x, .out = &y, .n_in = 1, .n_out = 1};
    if (g->status == GALE_OK) node.op->lower(&one);
    return y;
}
