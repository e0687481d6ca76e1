/* Losses.  The right class is picked by a mask over the class axis, so that pick, softmax and their gradients fuse. */
#include "ops/lower.h"
#include <string.h>

/* Each item's weight: the class' own, 0 where the target is ignored. */
static gale__node item_weights(gale__lower *L, gale__node target, gale__node by_class, gale_type type)
{
    gale__g *g = L->g;
    gale__node one = gale__g_like(g, gale__g_cast(g, target, type), 1),
               w = by_class >= 0 ? gale__g_take(g, gale__g_cast(g, by_class, type), target) : one;
    int64_t none = gale__attr_i(L, "ignore_index", INT64_MIN);
    if (none == INT64_MIN) return w;
    gale__node gone = gale__g_binary(g, GALE__EQ, target, gale__index(L, none));
    return gale__g_select(g, gone, gale__g_scalar(g, type, 0), w);
}

/* -w x[target] over the class axis 1, then reduced as asked. */
static gale__node pick(gale__lower *L, gale__node x, gale__node by_class)
{
    gale__g *g = L->g;
    gale__pnode p = gale__peek(g, x);
    const char *reduction = gale__attr_s(L, "reduction", "mean");
    gale__node target = gale__g_cast(g, L->in[1], GALE_I64);
    if (p.rank < 2 || gale__rank_of(g, target) != p.rank - 1)
        return gale__refuse(L, "scores have %d axes, targets %d", p.rank, gale__rank_of(g, target));
    gale__node hit =
        gale__g_binary(g, GALE__EQ, gale__g_iota(g, p.rank, p.dims, 1), gale__g_unsqueeze(g, target, 1u << 1));
    gale__node score = gale__g_reduce(g, GALE__SUM, gale__g_select(g, hit, x, gale__value(L, x, 0)), 1u << 1, false);
    gale__node w = item_weights(L, target, by_class, p.type),
               loss = gale__g_unary(g, GALE__NEG, gale__g_mul(g, score, w));
    uint32_t all = (1u << (p.rank - 1)) - 1;
    if (!strcmp(reduction, "none")) return loss;
    gale__node sum = gale__g_reduce(g, GALE__SUM, loss, all, false);
    if (!strcmp(reduction, "sum")) return sum;
    if (strcmp(reduction, "mean")) return gale__refuse(L, "reduction is '%s'", reduction);
    return gale__g_div(g, sum, gale__g_reduce(g, GALE__SUM, w, all, false));
}

LOWER(NegativeLogLikelihoodLoss)
{
    L->out[0] = gale__g_cast(L->g, pick(L, gale__wide(L, L->in[0]), gale__arg(L, 2)), gale__type_of(L->g, L->in[0]));
}

LOWER(SoftmaxCrossEntropyLoss)
{
    gale__g *g = L->g;
    gale__node x = gale__wide(L, L->in[0]);
    gale_type type = gale__type_of(g, L->in[0]);
    if (gale__rank_of(g, x) < 2) gale__refuse(L, "scores have %d axes, at least 2 are needed", gale__rank_of(g, x));
    if (!gale__good(L)) return;
    gale__node d = gale__g_sub(g, x, gale__g_reduce(g, GALE__RMAX, x, 1u << 1, true));
    gale__node sum = gale__g_reduce(g, GALE__SUM, gale__g_unary(g, GALE__EXP, d), 1u << 1, true),
               log = gale__g_sub(g, d, gale__g_unary(g, GALE__LOG, sum));
    L->out[0] = gale__g_cast(g, pick(L, log, gale__arg(L, 2)), type);
    if (L->n_out > 1) L->out[1] = gale__g_cast(g, log, type);
}
