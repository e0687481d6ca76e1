/* Decision trees on the device: one position per sample and tree, moved down one level at a time by gathers; leaves
 * stay where they are, so all trees take as many steps as the deepest. */
#include "ops/ml/trees.h"
#include <math.h>
#include <string.h>

typedef enum combine { AVERAGE, SUM, MIN, MAX } combine;

/* One number of every node as a constant. */
#define COLUMN(L, t, gale_type_, c_type, field) \
    column(L, t, gale_type_, sizeof(c_type), offsetof(gale__tree_node, field))
static gale__node column(gale__lower *L, const gale__trees *t, gale_type type, size_t size, size_t offset)
{
    char *data = gale__arena_alloc(&L->g->arena, (size_t)(t->n_nodes + 1) * size);
    if (!data) L->g->status = GALE_NO_MEMORY;
    for (int64_t i = 0; data && i < t->n_nodes; i++)
        memcpy(data + (size_t)i * size, (const char *)&t->nodes[i] + offset, size);
    return data ? gale__prim_const(L->g, type, 1, &t->n_nodes, data) : GALE__NIL;
}

/* Which comparisons occur, as a mask. */
static uint32_t branches(const gale__trees *t, bool *missing)
{
    uint32_t mask = 0;
    *missing = false;
    for (int64_t i = 0; i < t->n_nodes; i++)
        if (t->nodes[i].branch != GALE__TREE_LEAF)
            mask |= 1u << t->nodes[i].branch, *missing = *missing || t->nodes[i].missing;
    return mask;
}

/* x and the threshold compared as the node wants it; where all want the same, that is one comparison. */
static gale__node compare(gale__lower *L, uint32_t mask, gale__node branch, gale__node x, gale__node value)
{
    static const gale__scalar ops[] = {GALE__LE, GALE__LT, GALE__GE, GALE__GT, GALE__EQ, GALE__NE};
    gale__node yes = GALE__NIL;
    for (int k = 0; k < 6; k++) {
        if (!(mask >> k & 1)) continue;
        gale__node holds = gale__prim_binary(L->g, ops[k], x, value);
        yes = yes < 0 ? holds
                      : gale__prim_select(L->g,
                            gale__prim_binary(L->g, GALE__EQ, branch, gale__lower_value(L, branch, k)), holds, yes);
    }
    return yes;
}

/* The leaf of every sample and tree: [N, trees]. */
static gale__node walk(gale__lower *L, const gale__trees *t, gale__node x)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, x);
    bool missing;
    uint32_t mask = branches(t, &missing);
    gale__node feature = COLUMN(L, t, GALE_I64, int64_t, feature),
               value = gale__prim_cast(g, COLUMN(L, t, GALE_F64, double, value), p.type);
    gale__node yes = COLUMN(L, t, GALE_I64, int64_t, yes), no = COLUMN(L, t, GALE_I64, int64_t, no);
    gale__node branch = COLUMN(L, t, GALE_U8, uint8_t, branch), tracks = COLUMN(L, t, GALE_BOOL, bool, missing);
    int64_t dims[2] = {p.dims[0], t->n_roots}, row[2] = {1, t->n_roots};
    gale__node at = gale__prim_expand(g, gale__prim_const(g, GALE_I64, 2, row, t->roots), 2, dims),
               start = gale__lower_walk(L, 2, dims, 0, p.dims[1]);
    for (int64_t d = 0; d < t->depth && gale__lower_good(L); d++) {
        gale__node v = gale__prim_take(g, x, gale__prim_add(g, start, gale__prim_take(g, feature, at)));
        gale__node up = compare(
            L, mask, mask & (mask - 1) ? gale__prim_take(g, branch, at) : GALE__NIL, v, gale__prim_take(g, value, at));
        if (missing)
            up = gale__prim_binary(g, GALE__OR, up,
                gale__prim_binary(g, GALE__AND, gale__prim_binary(g, GALE__NE, v, v), gale__prim_take(g, tracks, at)));
        at = gale__prim_select(g, up, gale__prim_take(g, yes, at), gale__prim_take(g, no, at));
    }
    return at;
}

/* What each node votes for each target, [nodes, targets]; `none` where it does not. */
static gale__node vote_table(gale__lower *L, const gale__trees *t, gale_type type, double none)
{
    int64_t dims[2] = {t->n_nodes, t->targets}, n = t->n_nodes * t->targets;
    double *data = n < INT64_C(1) << 40 ? gale__arena_alloc(&L->g->arena, (size_t)(n + 1) * sizeof *data) : NULL;
    if (!data)
        return gale__prim_fail(L->g, GALE_NO_MEMORY, "%s: out of memory for the votes of %lld nodes", L->node->op->name,
            (long long)t->n_nodes);
    for (int64_t i = 0; i < n; i++) data[i] = none;
    for (int64_t i = 0; i < t->n_votes; i++) {
        double *v = &data[t->votes[i].node * t->targets + t->votes[i].target];
        *v = isinf(*v)   ? t->votes[i].weight
             : none == 0 ? *v + t->votes[i].weight
             : none > 0  ? fmin(*v, t->votes[i].weight)
                         : fmax(*v, t->votes[i].weight);
    }
    return gale__prim_cast(L->g, gale__prim_const(L->g, GALE_F64, 2, dims, data), type);
}

/* Votes of all trees together: [N, targets]. */
static gale__node count_votes(gale__lower *L, const gale__trees *t, gale__node leaves, gale_type type, combine how)
{
    gale__prim_graph *g = L->g;
    double none = how == MIN ? INFINITY : how == MAX ? -INFINITY : 0;
    int64_t dims[3] = {gale__lower_peek(g, leaves).dims[0], t->n_roots, t->targets};
    gale__node first = gale__prim_mul(g, gale__prim_unsqueeze(g, leaves, 1u << 2), gale__lower_index(L, t->targets));
    gale__node votes =
        gale__prim_take(g, vote_table(L, t, type, none), gale__prim_add(g, first, gale__prim_iota(g, 3, dims, 2)));
    gale__node y = gale__prim_reduce(g,
        how == MIN   ? GALE__RMIN
        : how == MAX ? GALE__RMAX
                     : GALE__SUM,
        votes, 1u << 1, false);
    if (how == AVERAGE) y = gale__prim_div(g, y, gale__lower_value(L, y, (double)t->n_roots));
    if (none != 0)
        y = gale__prim_select(
            g, gale__prim_binary(g, GALE__EQ, y, gale__lower_value(L, y, none)), gale__lower_value(L, y, 0), y);
    return y;
}

static combine combine_of(gale__lower *L)
{
    static const char *const names[] = {"AVERAGE", "SUM", "MIN", "MAX"};
    for (int i = 0; i < L->node->n_attrs; i++) {
        const gale_attr *a = &L->node->attrs[i];
        if (strcmp(a->name, "aggregate_function")) continue;
        for (int k = 0; k < 4; k++)
            if (a->kind == GALE_ATTR_INT ? a->i == k : a->kind == GALE_ATTR_STRING && !strcmp(a->s, names[k]))
                return (combine)k;
        gale__lower_refuse(L, "unknown aggregate_function; supported are AVERAGE, SUM, MIN and MAX");
    }
    return SUM;
}

/* Scores [N, targets] of trees that were read. */
static gale__node score(gale__lower *L, gale__trees *t, gale__node x, combine how)
{
    if (!gale__lower_good(L) || !gale__trees_measure(L, t, gale__lower_peek(L->g, x).dims[1])) return GALE__NIL;
    gale__node sums = how == SUM || how == AVERAGE ? gale__trees_offer(L, t, x) : GALE__NIL;
    if (sums >= 0)
        return how == SUM ? sums : gale__prim_div(L->g, sums, gale__lower_value(L, sums, (double)t->n_roots));
    return count_votes(L, t, walk(L, t, x), gale__lower_type_of(L->g, x), how);
}

static gale__node plus_base(gale__lower *L, gale__node y, int64_t only)
{
    gale__ml_list base = gale__ml_list_either(L, "base_values", "base_values_as_tensor");
    if (!base.count || !gale__lower_good(L)) return y;
    gale_type type = gale__lower_type_of(L->g, y);
    if (only >= 0)
        return gale__prim_add(
            L->g, y, gale__prim_scalar(L->g, type, gale__ml_list_f(&base, base.count > only ? only : 0)));
    return gale__prim_add(L->g, y,
        gale__ml_list_node(
            L, &base, "base_values", type, 2, (int64_t[]){1, base.count == 1 ? 1 : gale__lower_peek(L->g, y).dims[1]}));
}

LOWER(TreeEnsemble)
{
    gale__trees t;
    gale__node x = gale__ml_samples(L);
    if (!gale__lower_good(L) || !gale__trees_read(L, &t)) return;
    gale__node y = gale__ml_post_transform(L, score(L, &t, x, combine_of(L)));
    L->out[0] = gale__prim_cast(L->g, y, gale__lower_type_of(L->g, L->in[0]));
}

LOWER(TreeEnsembleRegressor)
{
    gale__trees t;
    gale__node x = gale__ml_samples(L);
    if (!gale__lower_good(L) || !gale__trees_read_old(L, "target", gale__attr_i(L, "n_targets", 1), &t)) return;
    gale__node y = plus_base(L, score(L, &t, x, combine_of(L)), -1);
    L->out[0] = gale__prim_cast(L->g, gale__ml_post_transform(L, y), GALE_F32);
}

/* The only class that leaves vote for, or -1; *positive: no vote is against it. */
static int64_t only_class(const gale__trees *t, bool *positive)
{
    int64_t only = t->n_votes ? t->votes[0].target : -1;
    *positive = true;
    for (int64_t i = 0; i < t->n_votes; i++) {
        if (t->votes[i].target != only) only = -1;
        if (t->votes[i].weight < 0) *positive = false;
    }
    return only;
}

/* Votes for one of two classes only make both scores: shares of 1 where nothing votes against it and they stay as they
 * are, else margins around 0. */
LOWER(TreeEnsembleClassifier)
{
    gale__prim_graph *g = L->g;
    gale__trees t;
    int strings = 0;
    bool positive;
    gale__ml_list labels = gale__ml_list_read(L, "classlabels_int64s");
    gale__attr_strings(L, "classlabels_strings", &strings);
    gale__node x = gale__ml_samples(L);
    if (!gale__lower_good(L) || !gale__trees_read_old(L, "class", labels.count > strings ? labels.count : strings, &t))
        return;
    int64_t only = only_class(&t, &positive);
    const char *post = gale__attr_s(L, "post_transform", "NONE");
    gale__node y = score(L, &t, x, SUM);
    bool pair = t.targets == 2 && only >= 0;
    if (pair) y = gale__prim_slice_axis(g, y, 1, only, 1);
    y = plus_base(L, y, pair ? only : -1);
    if (pair) y = gale__ml_two_scores(L, y, positive && (!strcmp(post, "NONE") || !strcmp(post, "PROBIT")));
    if (t.targets == 1 && gale__lower_good(L)) { /* one class: that it is, or 0 */
        gale__node yes = gale__prim_squeeze(g, gale__prim_binary(g, GALE__GT, y, gale__lower_value(L, y, 0)), 1u << 1);
        L->out[0] = gale__prim_select(
            g, yes, gale__lower_index(L, labels.count ? gale__ml_list_i(&labels, 0) : 1), gale__lower_index(L, 0));
    } else {
        L->out[0] = gale__ml_class_of(L, y, "classlabels_int64s");
    }
    gale__lower_give(L, 1, gale__prim_cast(g, gale__ml_post_transform(L, y), GALE_F32));
}
