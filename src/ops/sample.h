/* Interpolated values of a grid, at coordinates computed at run time. */
#ifndef GALE_OPS_SAMPLE_H
#define GALE_OPS_SAMPLE_H
#include "ops/resize.h"

typedef struct gale__sampler {
    gale__node x;    /* the values, flat */
    gale__node base; /* I64: where a plane begins in them */
    int n;           /* spatial axes, the last ones of x */
    int64_t extent[GALE_MAX_RANK];
    gale__node at[GALE_MAX_RANK]; /* floats, in pixels; they and base broadcast to the result's shape */
    int mode;                     /* GALE__RESIZE_NEAREST, GALE__RESIZE_LINEAR, GALE__RESIZE_CUBIC */
    enum { GALE__OUTSIDE_ZERO, GALE__OUTSIDE_EDGE, GALE__OUTSIDE_MIRROR } outside;
    double low[GALE_MAX_RANK], high[GALE_MAX_RANK]; /* where mirrors stand */
    gale__scalar join;                              /* how weighted taps come together: ADD, or MAX */
} gale__sampler;

/* The values at the coordinates; x's type must be F32 or F64 unless the mode is nearest. */
gale__node gale__lower_sample(gale__lower *L, const gale__sampler *s);
/* x between `low` and `high`, mirrored there as often as it takes. */
gale__node gale__lower_mirror(gale__lower *L, gale__node x, double low, double high);
/* Numbers that place item i of axis 0 and channel c of axis 1 of x [N, C, ...]: [N, C, 1...] of the given rank. */
gale__node gale__lower_planes(gale__lower *L, gale__node x, int rank);
#endif
