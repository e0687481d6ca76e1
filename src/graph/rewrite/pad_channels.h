/* Gives convolutions over pictures of three channels a fourth. */
#ifndef GALE_GRAPH_PAD_CHANNELS_H
#define GALE_GRAPH_PAD_CHANNELS_H
#include "graph/build/opgraph.h"

/* Convolutions with constant weights over three channels read a copy of their input with a fourth channel of zeros, as
 * their weights have then: those of halves, and if `narrow` says that they will become halves, those of f32.  Call
 * after recognition, for devices with matrix units; the lists of values and nodes may be new, in `arena`.  What it
 * makes goes with gale__merge_finish, also after a failure. */
gale_status gale__pad_channels(gale_graph *graph, bool narrow, gale__arena *arena);
#endif
