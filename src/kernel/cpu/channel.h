/* Convolutions of each channel on its own, with what follows them.
 *
 * A band of a channel is laid out by phases: places whose row and column leave the same rest by the strides are
 * contiguous, rows one after the other without gaps.  So the results of a band are one long row for every tap, however
 * narrow the map is; what is between the ends of rows is computed needlessly.
 *
 * Maps need no band where loads can leave lanes out: of rows of 12 or more places, or strides of 2, a few rows of
 * results are summed at all their places in registers, and those between strides dropped; of smaller maps every tap is
 * a shift of the map, and lanes whose place is outside read 0.
 *
 * Bytes less their zero points are multiplied as floats, which is exact: the sums of so few taps are below 2^24. */
#ifndef GALE_KERNEL_CPU_CHANNEL_H
#define GALE_KERNEL_CPU_CHANNEL_H
#include "kernel/cpu/cpu_window.h"

enum { GALE__CHANNEL_TAPS = 128, GALE__CHANNEL_MASKS = 640 };
typedef struct gale__cpu_channel {
    const gale__nest_access *weights;         /* NULL: not a convolution by channel */
    bool bytes;                               /* both factors are, less zero points */
    gale__cpu_narrow lanes_of, weights_of;    /* then what they are */
    int64_t taps, rows, row_blocks, together; /* rows of a band; channels that are finished together */
    int64_t pitch, plane_rows, flat;          /* of a phase; elements of a long row, in whole vectors */
    int64_t band_floats, sums_floats;
    int32_t offset[GALE__CHANNEL_TAPS];    /* of each tap in the band, or in the map */
    int32_t weight_at[GALE__CHANNEL_TAPS]; /* in its channel's weights */
    gale__simd_depth depth;                /* rows read in place; pitch 0: other ways */
    int64_t top, bottom;                   /* then the rows of places that are inside */
    int64_t vectors;                       /* of a map that is read in place as a whole; 0: bands */
    uint16_t mask[GALE__CHANNEL_MASKS];    /* its lanes that are inside, of each vector for each tap */
} gale__cpu_channel;
/* Whether lanes `value` by weights `other` are that, summed in F32 or I32; finds the window of the lanes. */
bool gale__cpu_channel_find(gale__cpu_channel *c, gale__cpu_window *w, const gale__nest *nest, int value, int other,
    const gale__cpu_span *batch, const gale__cpu_span *lanes, const gale__cpu_span *k, gale__simd_type sum);
/* Chooses bands for so many batches. */
void gale__cpu_channel_init(gale__cpu_channel *c, gale__cpu_window *w, const gale__cpu_span *k, int64_t batches);
#endif
