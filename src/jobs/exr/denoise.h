/* Planes through the network, in tiles. */
#ifndef GALE_JOBS_EXR_DENOISE_H
#define GALE_JOBS_EXR_DENOISE_H
#include "gale/exr.h"
#include "gale/graph.h"
#include "jobs/exr/tza.h"

/* What light is multiplied by so that its mean is a middle grey: 0.18 over the geometric mean of luminance over blocks
 * of 16 x 16, as Open Image Denoise takes it.  light: [3][height][width]. */
double gale__denoise_scale(const float *light, int64_t width, int64_t height);
/* planes [channels][height][width] to light [3][height][width]. */
gale_status gale__denoise_planes(gale_device *device, const gale__tza *weights, const float *planes, int64_t width,
    int64_t height, const gale_exr_denoise_options *options, gale_exr_denoise_report *report, float *light);
#endif
