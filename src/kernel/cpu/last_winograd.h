/* Winograd's transforms (winograd.h) over values that are stored channels-last.  Vectors are channels: the places of a
 * tile are loaded from where they are, and its results stored to where they go.  At each point tiles are pixels of a
 * 1 x 1 convolution.  A block of tiles is transformed, then multiplied by 32 channels of the result at a time, whose
 * products are transformed back while they are near. */
#ifndef GALE_KERNEL_CPU_LAST_WINOGRAD_H
#define GALE_KERNEL_CPU_LAST_WINOGRAD_H
#include "kernel/cpu/last_window.h"

/* Whether taps, borders and channels are such that it is possible. */
bool gale__cpu_last_winograd_fits(const gale__cpu_last_window *l);
/* Its time, and the best m; infinite where it is not used. */
double gale__cpu_last_winograd_ns(const gale__cpu_last_window *l, int64_t *m);
/* Chooses it, with blocks for the threads there are, if it is better than `ns`. */
void gale__cpu_last_winograd_find(gale__cpu_last_window *l, double ns);
void gale__cpu_last_winograd_make_panels(const gale__cpu_last_window *l, const void *from, void *to);
void gale__cpu_last_winograd_run(const gale__cpu_last_window *l, void *const *buffers);
#endif
