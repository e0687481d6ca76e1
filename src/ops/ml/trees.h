/* Ensembles of decision trees, in one form whatever attributes they were given by. */
#ifndef GALE_OPS_TREES_H
#define GALE_OPS_TREES_H
#include "ops/ml/ml.h"

typedef enum gale__tree_branch {
    GALE__TREE_LEQ,
    GALE__TREE_LT,
    GALE__TREE_GTE,
    GALE__TREE_GT,
    GALE__TREE_EQ,
    GALE__TREE_NEQ,
    GALE__TREE_MEMBER,
    GALE__TREE_LEAF
} gale__tree_branch;

typedef struct gale__tree_node {
    uint8_t branch; /* gale__tree_branch */
    bool missing;   /* NaN takes the true branch */
    int64_t feature;
    double value;
    int64_t yes, no; /* nodes; a leaf: itself */
} gale__tree_node;

/* A vote of a leaf. */
typedef struct gale__tree_vote {
    int64_t node, target;
    double weight;
} gale__tree_vote;

/* All in the graph's arena. */
typedef struct gale__trees {
    gale__tree_node *nodes;
    int64_t n_nodes, capacity;
    int64_t *roots, n_roots;
    gale__tree_vote *votes;
    int64_t n_votes, targets;
    int64_t depth;
} gale__trees;

/* TreeEnsemble's attributes, or the older form with votes under `votes` ("target" or "class"). */
bool gale__trees_read(gale__lower *L, gale__trees *t);
bool gale__trees_read_old(gale__lower *L, const char *votes, int64_t targets, gale__trees *t);
/* Finds t->depth; refuses features past `features`, nodes that are not there, and trees that are none. */
bool gale__trees_measure(gale__lower *L, gale__trees *t, int64_t features);
/* Sums of votes [N, targets] by a routine; NIL: none takes these trees. */
gale__node gale__trees_offer(gale__lower *L, const gale__trees *t, gale__node x);
#endif
