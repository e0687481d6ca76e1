/* First layers: convolutions over a few channels that are stored as declared, with results channels-last.  A map is
 * copied with its borders, channels last, so that the taps of a row and their channels follow one another; a result is
 * then a sum over rows of taps, by the kernel of last_window.h. */
#ifndef GALE_KERNEL_CPU_LAST_FIRST_H
#define GALE_KERNEL_CPU_LAST_FIRST_H
#include "kernel/cpu/finish.h"
#include "kernel/cpu/interp.h"

typedef struct gale__cpu_last_first {
    const gale__nest *nest; /* NULL: none of these */
    const gale__nest_access *x, *w;
    int reduce;
    gale__cpu_finish finish;
    int channel, deep, down, across;   /* dimensions: channels of the result, those summed, taps */
    const gale__nest_guard *guard[2];  /* of rows and columns; NULL: all places are inside */
    gale__cpu_span pixels, maps;       /* pixels of a map, and the other outer dimensions */
    int64_t channels, k, taps, row;    /* row: elements of a row of taps */
    int64_t step[2], height, width;    /* places between results; of a map with its borders */
    int64_t tile, wide, block, blocks; /* most pixels and channels of a tile; tiles of a task; tasks of a map */
    size_t private_bytes, shared_bytes;
    gale__cpu_panels panels;
} gale__cpu_last_first;
/* Whether it is one of these, and its values are stored so. */
bool gale__cpu_last_first_find(gale__cpu_last_first *l, const gale__nest *nest);
void gale__cpu_last_first_make_panels(const gale__cpu_last_first *l, const void *from, void *to);
void gale__cpu_last_first_run(const gale__cpu_last_first *l, void *const *buffers);
/* Whether it would be with a result channels-last; its times as declared and so. */
bool gale__cpu_last_first_could(const gale__nest *nest, double ns[2]);
#endif
