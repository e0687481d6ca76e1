/* Decision trees from attributes: both of ONNX's forms become nodes that refer to each other.  Input from the file is
 * checked here, so that traversing the trees needs no checks. */
#include "ops/ml/trees.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 4096
#define TARGETS_MAX (1 << 24)

static void *take(gale__lower *L, int64_t n, size_t size)
{
    void *p = gale__lower_good(L) ? gale__arena_alloc(&L->g->arena, (size_t)(n + 1) * size) : NULL;
    if (!p && gale__lower_good(L)) L->g->status = GALE_NO_MEMORY;
    return p;
}

/* A list that has one number for each of n things. */
static gale__ml_list list_of(gale__lower *L, const char *name, const char *other, int64_t n)
{
    gale__ml_list list = other ? gale__ml_list_either(L, name, other) : gale__ml_list_read(L, name);
    if (gale__lower_good(L) && list.count != n)
        gale__lower_refuse(
            L, "attribute '%s' has %lld numbers instead of %lld", name, (long long)list.count, (long long)n);
    return list;
}

static bool missing_at(const gale__ml_list *missing, int64_t i)
{
    return i < missing->count && gale__ml_list_i(missing, i);
}

/* --- Measuring. --- */

/* Steps from each inner node to its farthest leaf, children first; a node that is met below itself makes a circle. */
static bool descend(gale__lower *L, gale__trees *t, int64_t root, int64_t *stack, int64_t *steps)
{
    enum { NEW = 0, OPEN = -1 };
    int64_t top = 0;
    stack[top++] = root;
    while (top > 0) {
        const gale__tree_node *n = &t->nodes[stack[top - 1]];
        int64_t *own = &steps[stack[top - 1]], next[2] = {n->yes, n->no}, longest = 0;
        bool fresh = *own == NEW;
        if (n->branch == GALE__TREE_LEAF || *own > 0) {
            top--;
            continue;
        }
        *own = OPEN;
        for (int k = 0; k < 2; k++) {
            if (t->nodes[next[k]].branch == GALE__TREE_LEAF) continue;
            if (steps[next[k]] > longest) longest = steps[next[k]];
            if (fresh && steps[next[k]] == OPEN)
                return gale__lower_refuse(L, "tree node %lld is its own descendant", (long long)next[k]) >= 0;
            if (fresh && steps[next[k]] == NEW) stack[top++] = next[k];
        }
        if (fresh) continue;
        *own = longest + 1;
        top--;
    }
    if (t->nodes[root].branch != GALE__TREE_LEAF && steps[root] > t->depth) t->depth = steps[root];
    return true;
}

bool gale__trees_measure(gale__lower *L, gale__trees *t, int64_t features)
{
    if (t->targets < 1 || t->targets > TARGETS_MAX || t->n_roots < 1)
        return gale__lower_refuse(L, "%lld trees and %lld targets are not supported; at least one of each is needed",
                   (long long)t->n_roots, (long long)t->targets) >= 0;
    int64_t *stack = take(L, 2 * t->n_nodes, sizeof *stack), *steps = take(L, t->n_nodes, sizeof *steps);
    if (!stack || !steps) return false;
    for (int64_t i = 0; i < t->n_nodes; i++) {
        const gale__tree_node *n = &t->nodes[i];
        bool bad = n->yes < 0 || n->yes >= t->n_nodes || n->no < 0 || n->no >= t->n_nodes;
        if (n->branch != GALE__TREE_LEAF) bad = bad || n->feature < 0 || n->feature >= features;
        if (bad)
            return gale__lower_refuse(L, "tree node %lld refers to feature %lld of %lld, or to a missing node",
                       (long long)i, (long long)n->feature, (long long)features) >= 0;
    }
    for (int64_t i = 0; i < t->n_roots; i++)
        if (t->roots[i] < 0 || t->roots[i] >= t->n_nodes)
            return gale__lower_refuse(L, "root %lld does not exist", (long long)t->roots[i]) >= 0;
    for (int64_t i = 0; i < t->n_votes; i++)
        if (t->votes[i].target < 0 || t->votes[i].target >= t->targets)
            return gale__lower_refuse(L, "a leaf votes for target %lld of %lld", (long long)t->votes[i].target,
                       (long long)t->targets) >= 0;
    t->depth = 0;
    for (int64_t i = 0; i < t->n_roots; i++)
        if (!descend(L, t, t->roots[i], stack, steps)) return false;
    if (t->depth > DEPTH_MAX)
        gale__lower_refuse(L, "a tree has %lld levels; the limit is %d", (long long)t->depth, DEPTH_MAX);
    return gale__lower_good(L);
}

/* --- TreeEnsemble.  Leaves come behind the inner nodes, then the nodes that sets are made of. --- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Whether x is one of n sorted values, as a balanced tree that starts at node `at`. */
static void grow_set(gale__trees *t, int64_t at, const double *values, int64_t n)
{
    gale__tree_node *node = &t->nodes[at];
    if (n <= 1) {
        node->branch = GALE__TREE_EQ;
        node->value = n ? values[0] : NAN;
        return;
    }
    int64_t half = (n + 1) / 2, yes = t->n_nodes++, no = t->n_nodes++;
    t->nodes[yes] = t->nodes[no] = *node;
    node->branch = GALE__TREE_LEQ;
    node->value = values[half - 1];
    node->yes = yes, node->no = no;
    grow_set(t, yes, values, half);
    grow_set(t, no, values + half, n - half);
}

/* Sets stand one after another in the order of their nodes, with NaN behind each. */
static void grow_sets(gale__lower *L, gale__trees *t, int64_t inner, const gale__ml_list *members)
{
    double *values = take(L, members->count, sizeof *values);
    int64_t from = 0;
    for (int64_t i = 0; values && i < inner && gale__lower_good(L); i++) {
        int64_t n = 0;
        if (t->nodes[i].branch != GALE__TREE_MEMBER) continue;
        if (from >= members->count) gale__lower_refuse(L, "attribute 'membership_values' has too few sets");
        for (; from < members->count && !isnan(gale__ml_list_f(members, from)); from++)
            values[n++] = gale__ml_list_f(members, from);
        from++;
        qsort(values, (size_t)n, sizeof *values, by_value);
        grow_set(t, i, values, n);
    }
}

static void read_votes(gale__lower *L, gale__trees *t, int64_t inner, int64_t leaves, const gale__ml_list *weights)
{
    gale__ml_list targets = list_of(L, "leaf_targetids", NULL, leaves);
    t->votes = take(L, leaves, sizeof *t->votes);
    for (int64_t i = 0; gale__lower_good(L) && i < leaves; i++) {
        t->nodes[inner + i] = (gale__tree_node){.branch = GALE__TREE_LEAF, .yes = inner + i, .no = inner + i};
        t->votes[i] = (gale__tree_vote){inner + i, gale__ml_list_i(&targets, i), gale__ml_list_f(weights, i)};
    }
    t->n_votes = leaves;
}

/* Where a branch leads: a leaf or an inner node. */
static int64_t follow(const gale__ml_list *ids, const gale__ml_list *leaf, int64_t i, int64_t inner, int64_t leaves)
{
    int64_t id = gale__ml_list_i(ids, i);
    if (id < 0 || id >= (gale__ml_list_i(leaf, i) ? leaves : inner)) return -1;
    return gale__ml_list_i(leaf, i) ? inner + id : id;
}

bool gale__trees_read(gale__lower *L, gale__trees *t)
{
    gale__ml_list features = gale__ml_list_read(L, "nodes_featureids"), weights = gale__ml_list_read(L, "leaf_weights"),
                  members = gale__ml_list_read(L, "membership_values");
    gale__ml_list roots = gale__ml_list_read(L, "tree_roots"),
                  missing = gale__ml_list_read(L, "nodes_missing_value_tracks_true");
    int64_t n = features.count, leaves = weights.count;
    gale__ml_list modes = list_of(L, "nodes_modes", NULL, n), splits = list_of(L, "nodes_splits", NULL, n),
                  yes = list_of(L, "nodes_truenodeids", NULL, n);
    gale__ml_list no = list_of(L, "nodes_falsenodeids", NULL, n), yes_leaf = list_of(L, "nodes_trueleafs", NULL, n),
                  no_leaf = list_of(L, "nodes_falseleafs", NULL, n);
    *t = (gale__trees){.n_nodes = n + leaves, .n_roots = roots.count, .targets = gale__attr_i(L, "n_targets", 1)};
    t->capacity = n + leaves + 2 * members.count;
    t->nodes = take(L, t->capacity, sizeof *t->nodes);
    t->roots = take(L, roots.count, sizeof *t->roots);
    for (int64_t i = 0; gale__lower_good(L) && i < n; i++) {
        int64_t mode = gale__ml_list_i(&modes, i);
        if (mode < 0 || mode > GALE__TREE_MEMBER)
            gale__lower_refuse(L, "node %lld has the unknown mode %lld", (long long)i, (long long)mode);
        t->nodes[i] = (gale__tree_node){(uint8_t)mode, missing_at(&missing, i), gale__ml_list_i(&features, i),
            gale__ml_list_f(&splits, i), follow(&yes, &yes_leaf, i, n, leaves), follow(&no, &no_leaf, i, n, leaves)};
    }
    for (int64_t i = 0; gale__lower_good(L) && i < roots.count; i++) t->roots[i] = gale__ml_list_i(&roots, i);
    read_votes(L, t, n, leaves, &weights);
    if (gale__lower_good(L)) grow_sets(L, t, n, &members);
    return gale__lower_good(L);
}

/* --- The older form: nodes have numbers inside their tree. --- */

typedef struct key {
    int64_t tree, node, at;
} key;

static int by_number(const void *a, const void *b)
{
    const key *x = a, *y = b;
    if (x->tree != y->tree) return x->tree < y->tree ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static int64_t find(const key *keys, int64_t n, int64_t tree, int64_t node)
{
    key wanted = {tree, node, 0}, *found = bsearch(&wanted, keys, (size_t)n, sizeof *keys, by_number);
    return found ? found->at : -1;
}

static int branch_of(gale__lower *L, const char *name)
{
    static const char *const names[] = {
        "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
    for (int i = 0; i < 8; i++)
        if (i != GALE__TREE_MEMBER && !strcmp(name, names[i])) return i;
    gale__lower_refuse(L, "unknown node mode '%s'", name);
    return GALE__TREE_LEAF;
}

static void old_nodes(gale__lower *L, gale__trees *t, const gale__ml_list *trees, const gale__ml_list *ids, key *keys)
{
    int n_modes = 0;
    int64_t n = ids->count;
    gale__ml_list features = list_of(L, "nodes_featureids", NULL, n),
                  values = list_of(L, "nodes_values", "nodes_values_as_tensor", n);
    gale__ml_list yes = list_of(L, "nodes_truenodeids", NULL, n), no = list_of(L, "nodes_falsenodeids", NULL, n),
                  missing = gale__ml_list_read(L, "nodes_missing_value_tracks_true");
    const char *const *modes = gale__attr_strings(L, "nodes_modes", &n_modes);
    if (gale__lower_good(L) && n_modes != n)
        gale__lower_refuse(L, "attribute 'nodes_modes' has %d names instead of %lld", n_modes, (long long)n);
    for (int64_t i = 0; gale__lower_good(L) && i < n; i++)
        keys[i] = (key){gale__ml_list_i(trees, i), gale__ml_list_i(ids, i), i};
    if (gale__lower_good(L)) qsort(keys, (size_t)n, sizeof *keys, by_number);
    for (int64_t i = 0; gale__lower_good(L) && i < n; i++) {
        int branch = branch_of(L, modes[i]);
        bool leaf = branch == GALE__TREE_LEAF;
        int64_t tree = gale__ml_list_i(trees, i);
        t->nodes[i] =
            (gale__tree_node){(uint8_t)branch, missing_at(&missing, i), leaf ? 0 : gale__ml_list_i(&features, i),
                gale__ml_list_f(&values, i), leaf ? i : find(keys, n, tree, gale__ml_list_i(&yes, i)),
                leaf ? i : find(keys, n, tree, gale__ml_list_i(&no, i))};
    }
}

/* A root is what no other node points at. */
static void old_roots(gale__lower *L, gale__trees *t)
{
    bool *child = take(L, t->n_nodes, sizeof *child);
    t->roots = take(L, t->n_nodes, sizeof *t->roots);
    for (int64_t i = 0; gale__lower_good(L) && i < t->n_nodes; i++) {
        const gale__tree_node *n = &t->nodes[i];
        if (n->branch == GALE__TREE_LEAF) continue;
        if (n->yes >= 0) child[n->yes] = true;
        if (n->no >= 0) child[n->no] = true;
    }
    for (int64_t i = 0; gale__lower_good(L) && i < t->n_nodes; i++)
        if (!child[i]) t->roots[t->n_roots++] = i;
}

bool gale__trees_read_old(gale__lower *L, const char *votes, int64_t targets, gale__trees *t)
{
    char names[5][48];
    static const char *const parts[] = {"treeids", "nodeids", "ids", "weights", "weights_as_tensor"};
    for (int i = 0; i < 5; i++) snprintf(names[i], sizeof names[i], "%s_%s", votes, parts[i]);
    gale__ml_list ids = gale__ml_list_read(L, "nodes_nodeids"), vote_trees = gale__ml_list_read(L, names[0]);
    gale__ml_list trees = list_of(L, "nodes_treeids", NULL, ids.count),
                  vote_nodes = list_of(L, names[1], NULL, vote_trees.count);
    gale__ml_list vote_ids = list_of(L, names[2], NULL, vote_trees.count),
                  weights = list_of(L, names[3], names[4], vote_trees.count);
    *t = (gale__trees){.n_nodes = ids.count, .n_votes = vote_trees.count, .targets = targets};
    t->nodes = take(L, t->n_nodes, sizeof *t->nodes);
    t->votes = take(L, t->n_votes, sizeof *t->votes);
    key *keys = take(L, t->n_nodes, sizeof *keys);
    if (gale__lower_good(L)) old_nodes(L, t, &trees, &ids, keys);
    old_roots(L, t);
    bool *voted = take(L, t->n_nodes, sizeof *voted);
    t->n_votes = 0;
    for (int64_t i = 0; gale__lower_good(L) && i < vote_trees.count; i++) {
        int64_t node = find(keys, t->n_nodes, gale__ml_list_i(&vote_trees, i), gale__ml_list_i(&vote_nodes, i));
        if (node < 0)
            gale__lower_refuse(L, "a vote belongs to node %lld of tree %lld, which does not exist",
                (long long)gale__ml_list_i(&vote_nodes, i), (long long)gale__ml_list_i(&vote_trees, i));
        /* A leaf has one value if there is one target: scikit-learn's converter repeats it for each class. */
        if (targets == 1 && node >= 0 && voted[node]) continue;
        t->votes[t->n_votes++] = (gale__tree_vote){node, gale__ml_list_i(&vote_ids, i), gale__ml_list_f(&weights, i)};
        if (node >= 0) voted[node] = true;
    }
    return gale__lower_good(L);
}
