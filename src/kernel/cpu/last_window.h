/* Convolutions with several taps over values that are stored channels-last: by groups, and with AVX-512 dense ones that
 * Winograd's transforms (last_winograd.h) do not suit.  Some pixels, wherever they are, by 16 or 32 channels of the
 * result are summed in registers; for each tap a pixel has a pointer to its place in the map, or to zeros, so that
 * borders and ends of rows cost nothing and maps are read in place. */
#ifndef GALE_KERNEL_CPU_LAST_WINDOW_H
#define GALE_KERNEL_CPU_LAST_WINDOW_H
#include "kernel/cpu/finish.h"
#include "kernel/cpu/interp.h"

enum { GALE__LAST_WINDOW_TAPS = 49 };
/* Tiles of Winograd's transforms (last_winograd.h). */
typedef struct gale__cpu_last_tiles {
    int64_t m, points;           /* m 0: not used; results of a tile along an axis, (m + 2)^2 */
    gale__cpu_span maps;         /* pixels but rows and columns */
    int64_t down, across, tiles; /* of a map; all */
    int64_t block, together;     /* tiles of a block; blocks that are transformed at once */
    int64_t point, products;     /* floats of a point of a block: of its places, of products by a panel */
} gale__cpu_last_tiles;

typedef struct gale__cpu_last_window {
    const gale__nest *nest; /* NULL: none of these */
    const gale__nest_access *x, *w;
    int reduce;
    gale__cpu_finish finish;
    int group, channel, deep;     /* dimensions: groups (-1: dense), their channels of the result and those summed */
    gale__cpu_span pixels, steps; /* the other outer dimensions, and the other inner ones: taps */
    int64_t groups, channels, k, taps; /* channels of a group: of the result, and summed */
    int64_t some, turn; /* channels that taps share while they are near, and those that are summed in registers */
    int64_t tile, wide; /* most pixels and channels of a tile */
    int64_t block, blocks, parts;              /* tiles of a task; tasks, by pixels and by groups and panels */
    int64_t tap_at[GALE__LAST_WINDOW_TAPS];    /* from a pixel's first place, in elements */
    int64_t tap_in[GALE__LAST_WINDOW_TAPS][2]; /* added to each guard */
    gale__cpu_last_tiles winograd;
    size_t private_bytes, shared_bytes;
    gale__cpu_panels panels;
} gale__cpu_last_window;
/* Whether the nest is one of these, with values that are stored so. */
bool gale__cpu_last_window_find(gale__cpu_last_window *l, const gale__nest *nest);
void gale__cpu_last_window_make_panels(const gale__cpu_last_window *l, const void *from, void *to);
void gale__cpu_last_window_run(const gale__cpu_last_window *l, void *const *buffers);
/* Whether it would be, and its time (interp.h). */
bool gale__cpu_last_window_could(const gale__nest *nest, double ns[2]);
#endif
