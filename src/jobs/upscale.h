/* A picture through a network, tile by tile.
 *
 * Whatever the picture is (grey or colour, with alpha or without, 8 bit to float, encoded or linear), the network sees RGB or luma of 0..1, and what comes out is a picture of the
 * same kind with the same notes.  Alpha goes through the network too, with colours multiplied by it, so that edges stay clean. */
#ifndef GALE_JOBS_UPSCALE_H
#define GALE_JOBS_UPSCALE_H
#include "jobs/network.h"
#include "media/picture.h"

typedef struct gale__upscale_options {
    int64_t tile;             /* -1: the manifest's, 0: the whole picture at once */
    int64_t overlap;          /* -1: the manifest's */
    int64_t batch;            /* tiles at once; 0: one */
    const float *control;     /* of the network's control_size; NULL: the manifest's defaults */
    int64_t width, height;    /* of the result; 0: what the network gives, or, where one is given, in proportion */
    bool no_check;            /* a result that is constant is taken for one */
    /* Called before each batch; false cancels (GALE_CANCELLED).  May be NULL. */
    bool (*progress)(void *user, int64_t done, int64_t tiles);
    void *user;
} gale__upscale_options;
#define GALE__UPSCALE_OPTIONS {-1, -1, 0, NULL, 0, 0, false, NULL, NULL}

typedef struct gale__upscale_report { int64_t tiles, tile_width, tile_height, batch, passes; } gale__upscale_report;
/* Out of memory halves the batch, then the tile, and says so in the log.  device: where the network lies, for resizing.  report may be NULL. */
gale_status gale__upscale(gale__network *network, gale_device *device, const gale_picture *in, const gale__upscale_options *options, gale__upscale_report *report, gale_picture **out);
#endif
