/* Trees in the form that a routine walks: nodes of 16 bytes, and the votes of each leaf as a list.  Offered before
 * anything else is built, since the nodes of a large ensemble take long to lay out as columns. */
#include "graph/plan/paths.h"
#include "ops/ml/trees.h"
#include <string.h>

/* The one comparison that all nodes make; -1: there are several, or one that the routine does not know. */
static int only_branch(const gale__trees *t, bool *missing)
{
    int branch = -1;
    *missing = false;
    for (int64_t i = 0; i < t->n_nodes; i++) {
        const gale__tree_node *n = &t->nodes[i];
        if (n->branch == GALE__TREE_LEAF) continue;
        if (n->branch > GALE__TREE_NEQ || (branch >= 0 && n->branch != branch)) return -1;
        branch = n->branch;
        *missing |= n->missing;
    }
    return branch;
}

static void *words(gale__lower *L, size_t n, size_t size)
{
    void *data = n < INT32_MAX / 64 ? gale__arena_alloc(&L->g->arena, (n + 1) * size) : NULL;
    if (!data && n < INT32_MAX / 64) L->g->status = GALE_NO_MEMORY;
    return data;
}

static gale__node constant(gale__lower *L, const void *data, int64_t n, size_t size)
{
    return gale__prim_const(L->g, GALE_I32, 2, (int64_t[]){n, (int64_t)(size / sizeof(int32_t))}, data);
}

static gale__node pack_nodes(gale__lower *L, const gale__trees *t)
{
    gale__cpu_tree_node *to = words(L, (size_t)t->n_nodes, sizeof *to);
    for (int64_t i = 0; to && i < t->n_nodes; i++) {
        const gale__tree_node *n = &t->nodes[i];
        bool leaf = n->branch == GALE__TREE_LEAF;
        to[i] = (gale__cpu_tree_node){.feature = leaf ? 0 : (int32_t)n->feature << 1 | n->missing,
            .child = {leaf ? (int32_t)i : (int32_t)n->yes, leaf ? (int32_t)i : (int32_t)n->no}};
        if (leaf) to[i].votes = -1;
        else to[i].value = (float)n->value;
    }
    for (int64_t v = t->n_votes - 1; to && v >= 0; v--) /* lists of votes begin with the first */
        if (t->nodes[t->votes[v].node].branch == GALE__TREE_LEAF) to[t->votes[v].node].votes = (int32_t)v;
    return to ? constant(L, to, t->n_nodes, sizeof *to) : GALE__NIL;
}

/* The votes of a leaf in the order in which they were given. */
static gale__node pack_votes(gale__lower *L, const gale__trees *t)
{
    gale__cpu_tree_vote *to = words(L, (size_t)t->n_votes + 1, sizeof *to);
    int32_t *next = words(L, (size_t)t->n_nodes, sizeof *next);
    if (!to || !next) return GALE__NIL;
    for (int64_t i = 0; i < t->n_nodes; i++) next[i] = -1;
    for (int64_t v = t->n_votes - 1; v >= 0; v--) {
        const gale__tree_vote *from = &t->votes[v];
        to[v] = (gale__cpu_tree_vote){(float)from->weight, (int32_t)from->target, next[from->node]};
        next[from->node] = (int32_t)v;
    }
    return constant(L, to, t->n_votes + 1, sizeof *to);
}

gale__node gale__trees_offer(gale__lower *L, const gale__trees *t, gale__node x)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, x);
    bool missing;
    int branch = only_branch(t, &missing);
    if (!L->device || branch < 0 || p.type != GALE_F32 || p.dims[1] < 1 || p.dims[1] > INT32_MAX / 2 ||
        t->n_nodes > INT32_MAX / 64)
        return GALE__NIL;
    if (!L->device->info.caps.host_functions) return GALE__NIL;
    int32_t *roots = words(L, (size_t)t->n_roots, sizeof *roots);
    for (int64_t i = 0; roots && i < t->n_roots; i++) roots[i] = (int32_t)t->roots[i];
    gale__node in[4] = {
        x, pack_nodes(L, t), roots ? constant(L, roots, t->n_roots, sizeof *roots) : GALE__NIL, pack_votes(L, t)};
    /* What has the shape of the result; the routine takes its place. */
    gale__node first =
                   gale__prim_expand(g, gale__prim_slice_axis(g, x, 1, 0, 1), 2, (int64_t[]){p.dims[0], t->targets}),
               out = first;
    if (in[1] < 0 || in[2] < 0 || in[3] < 0 || !gale__lower_good(L)) return GALE__NIL;
    gale_attr attrs[2] = {GALE_INT("branch", branch), GALE_INT("missing", missing)};
    gale__op_node node = {.name = "TreeScores",
        .path = gale__fast_paths_first("TreeScores"),
        .n_in = 4,
        .n_out = 1,
        .attrs = attrs,
        .n_attrs = 2,
        .body = L->node,
        .n_body = 1};
    gale_status status = gale__fast_paths_claim(g, L->device, &node, in, &out);
    if (status != GALE_OK && gale__lower_good(L)) g->status = status;
    return out == first ? GALE__NIL : out;
}
