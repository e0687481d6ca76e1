/* Some tiles of a picture at once: cut out, run, and blended into the result. */
#ifndef GALE_JOBS_BATCH_H
#define GALE_JOBS_BATCH_H
#include "jobs/feed.h"
#include "jobs/tiles.h"

typedef struct gale__batch {
    const gale__network *n;
    const gale__tiling *t;
    const float *control;
    gale__feed feed;           /* for as many tiles as ran last */
    float *weights;            /* of one tile */
    float *rooms;              /* a row for each worker */
    size_t room;               /* floats of such a row */
} gale__batch;

/* Tiling and control are the caller's while the batch lives. */
gale_status gale__batch_make(const gale__network *n, const gale__tiling *t, const float *control, gale__batch *out);
void gale__batch_finish(gale__batch *b);
/* Tiles first .. first + count from planes of the picture into planes of the result, which hold what the tiles before have added: f32, [1][planes][height][width], of
 * which the network's are the first.  *network_ns grows by the time that the network took. */
gale_status gale__batch_run(gale__batch *b, int64_t first, int64_t count, gale_tensor *planes, gale_tensor *result, uint64_t *network_ns);
#endif
