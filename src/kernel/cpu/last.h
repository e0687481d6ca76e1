/* Convolutions over values that are stored channels-last.  1 x 1 convolutions accept this layout for the map, the
 * result or both; convolutions by channel need it for both.  Vectors are channels, so that maps of any width and stride
 * waste nothing, and values are read and written in place. */
#ifndef GALE_KERNEL_CPU_LAST_H
#define GALE_KERNEL_CPU_LAST_H
#include "kernel/cpu/finish.h"
#include "kernel/cpu/interp.h"

typedef struct gale__cpu_last {
    const gale__nest *nest;
    gale__cpu_last_kind kind;
    const gale__nest_access *x, *w;
    int reduce;
    gale__cpu_finish finish;
    int channel, pixel, tap_y, tap_x, row; /* dimensions: of the result's channels, its columns, taps, rows; -1: none */
    gale__cpu_span rows;                   /* the other outer dimensions */
    int64_t channels, columns, k, step;    /* step: places between columns, by channel */
    bool to_last;                          /* the result is */
    const gale__nest_guard *guard_y, *guard_x; /* NULL: all taps are inside */
    int64_t tiles, block, blocks, groups;      /* of a row of pixels; of a task; tasks, by pixels and by channels */
    bool copies;                               /* elements of a tile meet in a few sets of the cache: it is copied */
    int64_t apart;                             /* pixels of the band from one to the next that is wanted */
    int64_t pitch;                             /* elements of a pixel that was copied */
    bool early;                                /* activations before tiles are turned */
    size_t private_bytes;
    gale__cpu_panels panels;
} gale__cpu_last;
/* The factors: a constant without guards, and the map that it is multiplied by, both f32. */
bool gale__cpu_last_factors(
    const gale__nest *nest, const gale__contraction *info, const gale__nest_access **x, const gale__nest_access **w);
/* Panels of so many bytes, of a kind, that are made of weights: the same for all nests that walk these alike. */
gale__cpu_panels gale__cpu_last_panels(const gale__nest *nest, const gale__nest_access *w, uint64_t kind, size_t bytes);
/* Whether the nest is one of these, and is better computed so. */
bool gale__cpu_last_find(gale__cpu_last *l, const gale__nest *nest);
void gale__cpu_last_run(const gale__cpu_last *l, void *const *buffers);
void gale__cpu_last_make_panels(const gale__cpu_last *l, const void *from, void *to);
#endif
