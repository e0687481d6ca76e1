/* Layouts: the order of a value's axes in memory. */
#ifndef GALE_GRAPH_FUSE_LAYOUT_H
#define GALE_GRAPH_FUSE_LAYOUT_H
#include "graph/fuse/fuse.h"

/* Sets f->last by the cost of the kernels that were emitted.  *any: some value is channels-last. */
gale_status gale__layout_choose(gale__fusion *f, bool *any);
/* The same for kernels that are host functions. */
gale_status gale__layout_choose_host(gale__fusion *f, bool *any);
/* Whether a value in memory may be channels-last, and the elements of one of its channels. */
bool gale__layout_may_turn(const gale__fusion *f, gale__node n);
int64_t gale__layout_plane(const gale__prim_node *p);
/* Every value that can be is channels-last. */
void gale__layout_force(gale__fusion *f);
/* The axis that is last when a value is not stored as declared. */
int gale__channel_axis(const int64_t *dims, int rank);
/* A value as declared, written channels-last. */
void gale__layout_turn(const int64_t *dims, int rank, size_t element, const void *from, void *to);
#endif
