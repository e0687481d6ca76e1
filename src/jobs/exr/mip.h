/* The levels of a picture as one graph. */
#ifndef GALE_JOBS_EXR_MIP_H
#define GALE_JOBS_EXR_MIP_H
#include "gale/exr.h"
#include "gale/graph.h"

enum { GALE__MIP_LEVELS_MOST = 32 };

typedef struct gale__mip_plan {
    int64_t width, height;
    int channels;
    gale_type type; /* of the planes and of all levels: half or float */
    bool rip, round_up;
    bool words; /* the input is words of two pixels; gale__mip_program decides */
    gale_exr_reduce reduce;
} gale__mip_plan;
/* Extent of an axis after so many halvings. */
int64_t gale__mip_halved(const gale__mip_plan *plan, int64_t n, int times);
/* How many levels there are along each axis; equal if not rip. */
void gale__mip_count(const gale__mip_plan *plan, int *nx, int *ny);
/* One input, made by gale__mip_input; one output [channels, height, width] for each level but the first, row by row of
 * rip levels.  At least one axis must be longer than 1. */
gale_status gale__mip_program(const gale__mip_plan *plan, gale_device *device, gale_program **out);
/* Planes [channels][height][width] that outlive the tensor. */
gale_status gale__mip_input(const gale__mip_plan *plan, gale_device *device, const void *planes, gale_tensor **out);
#endif
