/* Planes at another size, computed on a device by the operator that models use: cubic (a = -0.5), with antialiasing
 * where they shrink. */
#ifndef GALE_JOBS_RESIZE_H
#define GALE_JOBS_RESIZE_H
#include "gale/graph.h"
/* planes x height x width floats on the host, to planes x new_height x new_width. */
gale_status gale__planes_resize(gale_device *device, const float *from, int planes, int64_t width, int64_t height,
    int64_t new_width, int64_t new_height, float *to);
#endif
