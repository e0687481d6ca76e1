/* Layouts: the order of a value's axes in memory. */
#ifndef GALE_GRAPH_FUSE_LAYOUT_H
#define GALE_GRAPH_FUSE_LAYOUT_H
#include "graph/fuse/fuse.h"

/* Sets f->last by the cost of the kernels that were emitted.  *any: some value is channels-last. */
gale_status gale__layout_choose(gale__fusion *f, bool *any);
/* The same for kernels that are host functions. */
gale_status gale__layout_choose_host(gale__fusion *f, bool *any);
/* Whether a stored value may be channels-last; and the number of elements of one channel. */
bool gale__layout_may_be_last(const gale__fusion *f, gale__node n);
int64_t gale__layout_plane(const gale__prim_node *p);
/* Stores every value channels-last that may be. */
void gale__layout_force(gale__fusion *f);
/* The channel axis: the one that is last in memory if a value is stored channels-last. */
int gale__channel_axis(const int64_t *dims, int rank);
/* Converts dense data from the declared layout to channels-last. */
void gale__layout_to_last(const int64_t *dims, int rank, size_t element, const void *from, void *to);
#endif
