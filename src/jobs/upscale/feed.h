/* What goes into a network and comes out: tensors of its own kind, made once for runs of one shape, filled and read row
 * by row.  Outside there are planes of RGB or grey, values 0..1; range, order of colours, layout and type are the
 * network's business. */
#ifndef GALE_JOBS_FEED_H
#define GALE_JOBS_FEED_H
#include "jobs/upscale/network.h"

typedef struct gale__feed {
    const gale__network *network;
    int64_t batch, width, height;            /* tiles, and pixels of one with its border */
    gale_tensor *picture, *control, *result; /* result: of the last run, and where the next one goes */
} gale__feed;

/* control: of the network's control_size, one for all; NULL: zeros.  GALE_INVALID for more tiles than the network takes
 * at once. */
gale_status gale__feed_make(
    const gale__network *n, int64_t batch, int64_t width, int64_t height, const float *control, gale__feed *out);
void gale__feed_finish(gale__feed *f);

/* Where the network takes and gives planes as they are, runs go from `in` to `out` (f32, [1][channels][height][width])
 * and nothing is copied; *lent says whether it does. */
gale_status gale__feed_lend(gale__feed *f, gale_tensor *in, gale_tensor *out, bool *lent);

/* Where row y of a plane of a tile is to be written: in the tensor if its layout allows that, else in `room` (of
 * the tile's width).  Then it is put where it belongs. */
float *gale__feed_row(const gale__feed *f, int64_t tile, int64_t plane, int64_t y, float *room);
void gale__feed_put(const gale__feed *f, int64_t tile, int64_t plane, int64_t y, const float *row);

/* Runs the network; the result must be of its scale (GALE_MISMATCH). */
gale_status gale__feed_run(gale__feed *f);
/* The same without that: fills the result's extents, which are batch, channels, height, width in any layout. */
gale_status gale__feed_try(gale__feed *f, int64_t dims[4]);
/* Row y of a plane of a tile's result, without the border, in place or in `room` (of the tile's
 * width times scale). */
const float *gale__feed_get(const gale__feed *f, int64_t tile, int64_t plane, int64_t y, float *room);
#endif
