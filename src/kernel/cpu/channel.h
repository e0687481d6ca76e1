/* Convolutions of each channel on its own, with what follows them.
 *
 * A band of a channel is laid out by phases: places whose row and column leave the same rest by the strides are
 * contiguous, rows one after the other without gaps.  So the results of a band are one long row for every tap, however
 * narrow the map is; what is between the ends of rows is computed needlessly.
 *
 * Maps need no band where loads can leave lanes out: they are read in place (simd_depth.c).  Of small maps with many
 * taps 16 channels at a time are turned, so that lanes are channels.
 *
 * Bytes less their zero points are multiplied as floats, which is exact: the sums of so few taps are below 2^24; or,
 * where there are instructions for it, as bytes, four neighbouring taps of a row at a time: a quad. */
#ifndef GALE_KERNEL_CPU_CHANNEL_H
#define GALE_KERNEL_CPU_CHANNEL_H
#include "kernel/cpu/cpu_window.h"

enum { GALE__CHANNEL_TAPS = 128 };
typedef struct gale__cpu_channel {
    const gale__nest_access *weights;         /* NULL: not a convolution by channel */
    bool bytes;                               /* both factors are, less zero points */
    gale__cpu_narrow lanes_of, weights_of;    /* then what they are */
    int64_t taps, rows, row_blocks, together; /* rows of a band; channels that are finished together */
    int64_t pitch, plane_rows, flat;          /* of a phase; elements of a long row, in whole vectors */
    int64_t band_floats, sums_floats;
    int32_t offset[GALE__CHANNEL_TAPS];    /* of each tap in the band, or in the map */
    int32_t weight_at[GALE__CHANNEL_TAPS]; /* in its channel's weights */
    int64_t quads;                         /* of all taps of a result; 0: not by quads */
    uint8_t place[GALE__CHANNEL_TAPS];     /* then each tap's among their weights */
    gale__simd_depth depth;                /* pitch 0: bands; else maps are read in place, or turned */
    bool turned;                           /* then 16 channels */
    bool line;                             /* channels are one dimension: maps and weights are so far apart */
    int64_t map_pitch, weights_pitch;
    int64_t top, bottom, left, right, from; /* places that are inside, and where the first of them is */
} gale__cpu_channel;
/* Whether lanes `value` by weights `other` are that, summed in F32 or I32; finds the window of the lanes. */
bool gale__cpu_channel_find(gale__cpu_channel *c, gale__cpu_window *w, const gale__nest *nest, int value, int other,
    const gale__cpu_span *batch, const gale__cpu_span *lanes, const gale__cpu_span *k, gale__simd_type sum);
/* Chooses how maps are read. */
void gale__cpu_channel_init(
    gale__cpu_channel *c, gale__cpu_window *w, const gale__cpu_span *batch, const gale__cpu_span *k);
#endif
