/* Losses.  The right class is picked by a mask over the class axis, so that pick, softmax and their gradients fuse. */
#include "ops/lower.h"
#include <string.h>

/* Each item's weight: the class' own, 0 where the target is ignored. */
static gale__node item_weights(gale__lower *L, gale__node target, gale__node by_class, gale_type type)
{
    gale__prim_graph *g = L->g;
    gale__node one = gale__prim_like(g, gale__prim_cast(g, target, type), 1),
               w = by_class >= 0 ? gale__prim_take(g, gale__prim_cast(g, by_class, type), target) : one;
    int64_t none = gale__attr_i(L, "ignore_index", INT64_MIN);
    if (none == INT64_MIN) return w;
    gale__node gone = gale__prim_binary(g, GALE__EQ, target, gale__lower_index(L, none));
    return gale__prim_select(g, gone, gale__prim_scalar(g, type, 0), w);
}

/* -w x[target] over the class axis 1, then reduced as asked. */
static gale__node pick(gale__lower *L, gale__node x, gale__node by_class)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, x);
    const char *reduction = gale__attr_s(L, "reduction", "mean");
    gale__node target = gale__prim_cast(g, L->in[1], GALE_I64);
    if (p.rank < 2 || gale__lower_rank_of(g, target) != p.rank - 1)
        return gale__lower_refuse(L, "scores have %d axes but targets %d", p.rank, gale__lower_rank_of(g, target));
    gale__node hit =
        gale__prim_binary(g, GALE__EQ, gale__prim_iota(g, p.rank, p.dims, 1), gale__prim_unsqueeze(g, target, 1u << 1));
    gale__node score =
        gale__prim_reduce(g, GALE__SUM, gale__prim_select(g, hit, x, gale__lower_value(L, x, 0)), 1u << 1, false);
    gale__node w = item_weights(L, target, by_class, p.type),
               loss = gale__prim_unary(g, GALE__NEG, gale__prim_mul(g, score, w));
    uint32_t all = (1u << (p.rank - 1)) - 1;
    if (!strcmp(reduction, "none")) return loss;
    gale__node sum = gale__prim_reduce(g, GALE__SUM, loss, all, false);
    if (!strcmp(reduction, "sum")) return sum;
    if (strcmp(reduction, "mean")) return gale__lower_refuse(L, "unknown reduction '%s'", reduction);
    return gale__prim_div(g, sum, gale__prim_reduce(g, GALE__SUM, w, all, false));
}

LOWER(NegativeLogLikelihoodLoss)
{
    L->out[0] = gale__prim_cast(
        L->g, pick(L, gale__lower_wide(L, L->in[0]), gale__lower_arg(L, 2)), gale__lower_type_of(L->g, L->in[0]));
}

LOWER(SoftmaxCrossEntropyLoss)
{
    gale__prim_graph *g = L->g;
    gale__node x = gale__lower_wide(L, L->in[0]);
    gale_type type = gale__lower_type_of(g, L->in[0]);
    if (gale__lower_rank_of(g, x) < 2)
        gale__lower_refuse(L, "scores have %d axes; at least 2 are needed", gale__lower_rank_of(g, x));
    if (!gale__lower_good(L)) return;
    gale__node d = gale__prim_sub(g, x, gale__prim_reduce(g, GALE__RMAX, x, 1u << 1, true));
    gale__node sum = gale__prim_reduce(g, GALE__SUM, gale__prim_unary(g, GALE__EXP, d), 1u << 1, true),
               log = gale__prim_sub(g, d, gale__prim_unary(g, GALE__LOG, sum));
    L->out[0] = gale__prim_cast(g, pick(L, log, gale__lower_arg(L, 2)), type);
    if (L->n_out > 1) L->out[1] = gale__prim_cast(g, log, type);
}
