/* Affine maps: how the coordinates of a value follow from the coordinates of a kernel's domain.
 *
 * Views cost nothing because a view only changes the map through which its input is read.  A reshape that the map
 * cannot express may ask for a dimension of the domain to be split; the caller splits it and starts again. */
#ifndef GALE_GRAPH_MAP_H
#define GALE_GRAPH_MAP_H
#include "graph/build/graph.h"

/* One axis: coordinate (c0 + sum coef[d] * index[d]) / div. div > 1 comes with a guard that the quotient is an integer;
 * GALE__WRAPS comes with a guard that makes the axis wrap around. */
typedef struct gale__map_axis {
    int64_t c0, div;
    int guard; /* div is not 1: the guard that holds it */
    int64_t coef[GALE__NEST_DIMS];
} gale__map_axis;

typedef struct gale__map {
    int rank, n; /* axes; domain dimensions known when it was made (coefficients of later ones are 0) */
    int n_guards;
    gale__map_axis axis[GALE_MAX_RANK];
    gale__nest_guard guards[GALE__GUARDS]; /* coef, c0, extent, div; stride is filled by the access */
} gale__map;

typedef struct gale__map_domain {
    int n;
    int64_t extent[GALE__NEST_DIMS];
    bool inner[GALE__NEST_DIMS];
} gale__map_domain;

typedef enum gale__map_result { GALE__MAP_OK, GALE__MAP_FAIL, GALE__MAP_SPLIT } gale__map_result;
typedef struct gale__map_split {
    int dim;
    int64_t inner;
} gale__map_split; /* extent becomes extent/inner x inner */

static inline int64_t gale__map_coef(const gale__map *m, int axis, int d)
{
    return d < m->n ? m->axis[axis].coef[d] : 0;
}
/* Axis a is domain dimension first + a. */
void gale__map_identity(gale__map *m, const gale__map_domain *domain, int rank, const int64_t *dims, int *dim_of_axis);
/* Rotates an axis of this extent by `shift`; false: the map cannot express it. */
bool gale__map_roll(gale__map *m, const gale__map_domain *domain, int axis, int64_t extent, int64_t shift);
/* The map of view `n`'s input, given the map of `n` itself.  *guarded: new guards were added (n is PAD, WINDOW or
 * UNWINDOW). */
gale__map_result gale__map_view(const gale__prim_graph *g, gale__node n, const gale__map_domain *domain,
    const gale__map *m, gale__map *out, bool *guarded, gale__map_split *split);
bool gale__map_equal(const gale__map *a, const gale__map *b);
/* Fills an access from a map over a value stored with these element strides. */
void gale__map_access(const gale__map *m, const int64_t *strides,
    gale__nest_access *out); /* out->guards: room for all the map may have */
/* Which domain dimensions a value read through m walks (bit set); false when an axis of extent > 1 is not a plain
 * positional walk of whole dimensions (coefficients mixed, offset, divided). */
bool gale__map_dims(const gale__map *m, const gale__map_domain *domain, const int64_t *dims, uint32_t *walked);
bool gale__prim_is_view(int op);
#endif
