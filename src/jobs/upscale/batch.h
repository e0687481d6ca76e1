/* Some tiles of a picture at once: cut out, run, and blended into the result. */
#ifndef GALE_JOBS_BATCH_H
#define GALE_JOBS_BATCH_H
#include "jobs/upscale/feed.h"
#include "jobs/upscale/tiles.h"

typedef struct gale__tile_batch {
    gale__network *network;
    const gale__tiling *tiling;
    const float *control;
    gale__feed *feeds; /* the first for as many tiles as ran last, or, side by side, one for each tile */
    int width;         /* how many there are */
    int64_t count;     /* tiles of this run */
    bool apart;        /* they run side by side */
    float *weights;    /* of one tile */
    float *rooms;      /* a row for each worker */
    size_t room;       /* floats of such a row */
} gale__tile_batch;

/* Tiling and control are the caller's while the batch lives. */
gale_status gale__tile_batch_make(gale__network *n, const gale__tiling *t, const float *control, gale__tile_batch *out);
void gale__tile_batch_finish(gale__tile_batch *b);
/* Tiles first .. first + count from planes of the picture into planes of the result, which hold what the tiles before
 * have added: f32, [1][planes][height][width], of which the network's are the first.  They go through the network as
 * one batch, or apart: each in a run of its own, side by side, at most gale__parallel_width() of them. *network_ns
 * grows by the time that the network took.  GALE_UNSUPPORTED, with nothing added, for a batch that the network does not
 * take or whose tiles it mixes: the first batches are held to what the last tile of each gives alone, until one had
 * tiles that differ. */
gale_status gale__tile_batch_run(gale__tile_batch *b, int64_t first, int64_t count, bool apart, gale_tensor *planes,
    gale_tensor *result, uint64_t *network_ns);
#endif
