/* Merges the groups of a convolution into fewer, larger ones. */
#ifndef GALE_GRAPH_MERGE_GROUPS_H
#define GALE_GRAPH_MERGE_GROUPS_H
#include "graph/build/opgraph.h"

/* Convolutions with constant weights and a few channels in each group become convolutions of 32 channels in each, with
 * zeros where groups do not belong together: those of halves, and if `narrow` says that they will become halves, those
 * of f32.  Call after recognition, for devices with matrix units; the lists of values and nodes may be new, in `arena`.
 * What it makes goes with gale__merge_finish, also after a failure. */
gale_status gale__merge_groups(gale_graph *graph, bool narrow, gale__arena *arena);
#endif
