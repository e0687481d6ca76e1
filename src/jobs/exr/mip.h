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
    gale_exr_reduce reduce;
} gale__mip_plan;
/* Extent of an axis after so many halvings. */
int64_t gale__mip_halved(const gale__mip_plan *plan, int64_t n, int times);
/* How many levels there are along each axis; equal if not rip. */
void gale__mip_count(const gale__mip_plan *plan, int *nx, int *ny);
/* One input [channels, height, width].  Outputs are all levels but the first: of mip levels one, in which they follow
 * one another; of rip levels one each, row by row.  At least one axis must be longer than 1. */
gale_status gale__mip_program(const gale__mip_plan *plan, gale_device *device, gale_program **out);
/* Level (x, y), not the first, in outputs on the host; nx: levels along x. */
const void *gale__mip_level(const gale__mip_plan *plan, gale_tensor *const *outputs, int nx, int x, int y);
#endif
