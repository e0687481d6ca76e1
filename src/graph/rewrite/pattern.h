/* Patterns of operators, written as text and found in an operator graph.
 *
 *     Mul(x, Sigmoid(x))       an operator and its inputs; Add and Mul are found the other way round too
 *     x, S                     any value, the same wherever the letter stands; upper case: one that no operator makes,
 *                              such as a weight
 *     #0.5, $e                 a constant of one element: this number; any number, kept under the letter
 *     <A|B>                    either
 *     d=Sub(x, y);             names a part for what follows
 *     Conv[*]                  any attributes; without brackets an operator must have none
 *     HardSigmoid[beta=0.5]    these numbers and no other attributes
 *     Einsum[*ac,*bc->*ab]     an equation up to its letters; * stands for the axes all terms begin with
 *
 * Reductions and Softmax must run over the last axes of their input, the same ones in the whole pattern, and keep them.
 */
#ifndef GALE_GRAPH_PATTERN_H
#define GALE_GRAPH_PATTERN_H
#include "graph/build/opgraph.h"

enum { GALE__PATTERN_NODES = 48, GALE__PATTERN_INPUTS = 6, GALE__PATTERN_LETTERS = 12 };

typedef struct gale__pattern_node {
    char kind; /* 'o' operator, 'v' value, 'w' weight, '#' number, '$' any number, '|' alternatives */
    const gale__op *op;
    double value;
    int8_t slot; /* of its letter */
    int8_t n_in, in[GALE__PATTERN_INPUTS];
    const char *attrs;
    int attrs_length; /* the text in brackets; NULL: none */
} gale__pattern_node;

typedef struct gale__pattern {
    gale__pattern_node nodes[GALE__PATTERN_NODES];
    int count, root;
    char letters[GALE__PATTERN_LETTERS];
    int n_letters;
} gale__pattern;

typedef struct gale__pattern_match {
    gale_value value[GALE__PATTERN_LETTERS]; /* by slot; GALE_NONE: not met */
    double number[GALE__PATTERN_LETTERS];
    int axis, exact_rank; /* of reductions: the first axis; the rank their input must have (-1 any, 0 there are none) */
    int const_rank;       /* largest rank of a constant: the others must have at least as much for shapes to stay */
    int32_t member[GALE__PATTERN_NODES];
    int n_members; /* op nodes, the root first */
} gale__pattern_match;

/* NULL, or what is wrong with the text: a pattern with an operator that does not exist is never found. */
const char *gale__pattern_parse(const char *text, gale__pattern *out);
/* Whether the pattern ends at node `root`; an Identity inside is looked through.  users[v]: how often value v is read
 * (outputs and gradients count); taken[n]: node n is part of something already.  Values inside must have no readers
 * outside. */
bool gale__pattern_find(const gale__pattern *p, const gale_graph *graph, const int32_t *users, const uint8_t *taken,
    int root, gale__pattern_match *out);
/* The slot of a letter; -1: it is not in the pattern. */
int gale__pattern_slot(const gale__pattern *p, char letter);
#endif
