/* Taps of a resized axis: which elements of the input contribute to each element of the output. */
#ifndef GALE_OPS_RESIZE_H
#define GALE_OPS_RESIZE_H
#include "ops/lower.h"

typedef struct gale__taps {
    int64_t in, out;
    int count;        /* taps per output element */
    int64_t *index;   /* [out][count], in range */
    double *weight;   /* [out][count] */
    int64_t *first;   /* [out]: the first tap's place before it is brought into range */
    double *ratio;    /* [out]: how far past the tap before the coordinate it is, in (0, 1] */
    uint8_t *outside; /* [out]: the coordinate has left the input (tf_crop_and_resize); NULL: never */
} gale__taps;

typedef struct gale__resize {
    enum {
        GALE__RESIZE_NEAREST,
        GALE__RESIZE_LINEAR,
        GALE__RESIZE_CUBIC,
        GALE__RESIZE_BOX,
        GALE__RESIZE_MITCHELL,
        GALE__RESIZE_LANCZOS
    } mode;
    const char *coordinates, *nearest; /* attribute values */
    bool antialias, exclude_outside, finite;
    double cubic_a, extrapolation;
} gale__resize;

/* `scale` is what the operator was given (or out / in); roi is the axis' start and end. */
bool gale__taps_make(gale__lower *L, const gale__resize *r, int64_t in, int64_t out, double scale, double roi_start,
    double roi_end, gale__taps *t);
/* The weight of tap k of 2 (linear) or 4 (cubic, by Keys' formula with a), `ratio` past the tap before the coordinate.
 */
gale__node gale__tap_blend(gale__lower *L, gale__node ratio, int taps, int k, double a);
#endif
