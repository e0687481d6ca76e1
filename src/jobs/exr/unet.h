/* The U-Net of Open Image Denoise as a graph. */
#ifndef GALE_JOBS_EXR_UNET_H
#define GALE_JOBS_EXR_UNET_H
#include "gale/graph.h"
#include "jobs/exr/tza.h"

/* Inputs: planes [1, channels, height, width] of f32 (light, then albedo 0..1, then normals -1..1 where the weights
 * take nine channels), and what light is multiplied by [1].  Output: light [1, 3, height, width].  Both extents are
 * multiples of 16. */
gale_status gale__unet_graph(const gale__tza *weights, int64_t width, int64_t height, gale_graph **out);
/* Channels that the weights take: 3 or 9; 0: they are not of this network. */
int gale__unet_channels(const gale__tza *weights);
#endif
