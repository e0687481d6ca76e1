/* Windows over spatial axes, as convolutions and pools describe them. */
#ifndef GALE_OPS_SPATIAL_H
#define GALE_OPS_SPATIAL_H
#include "ops/lower.h"

typedef struct gale__windows {
    int n; /* spatial axes, 1 to 3 */
    int64_t in[3], kernel[3], stride[3], dilation[3], low[3], high[3], out[3];
} gale__windows;
/* Reads strides, dilations, pads, auto_pad, ceil_mode and (kernel NULL) kernel_shape for x [N, C, spatial...]; computes
 * `out`. */
bool gale__windows_read(gale__lower *L, gale__node x, const int64_t *kernel, gale__windows *w);
/* The kernel's reach with its dilation. */
static inline int64_t gale__windows_reach(const gale__windows *w, int i)
{
    return (w->kernel[i] - 1) * w->dilation[i] + 1;
}
/* An attribute of n whole numbers into out, `fallback` when absent; the count and a range of 32 bits are checked. */
bool gale__lower_read_ints(gale__lower *L, const char *name, int n, int64_t fallback, int64_t *out);
/* x by a kernel of the same type, with strides, dilations, pads, auto_pad and group from the attributes: Conv without
 * its bias. */
gale__node gale__lower_convolve(gale__lower *L, gale__node x, gale__node kernel);
#endif
