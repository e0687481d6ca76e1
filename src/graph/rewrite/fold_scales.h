/* Folds constant factors behind convolutions and products into their weights. */
#ifndef GALE_GRAPH_FOLD_SCALES_H
#define GALE_GRAPH_FOLD_SCALES_H
#include "graph/build/opgraph.h"

/* A convolution or product with constant weights takes over a BatchNormalization, and products, quotients, sums and
 * differences with a constant for each of its channels, that alone read its result.  narrow: the weights will become
 * f16, so those that would leave its range stay.  Call after recognition; the lists of values and nodes may be new, in
 * `arena`.  What it makes goes with gale__merge_finish, also after a failure. */
gale_status gale__fold_scales(gale_graph *graph, bool narrow, gale__arena *arena);
#endif
