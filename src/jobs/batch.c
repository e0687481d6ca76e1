/* Rows are cut and blended by all threads, straight between the planes and the network's own tensors.  Tiles are added one after another, so that sums do not depend
 * on who was first.  A picture of one tile is lent to the network as it is, where that takes it. */
#include "jobs/batch.h"
#include "base/thread.h"

enum { BAND_FLOATS = 1 << 14 }; /* less is not worth a thread */

typedef struct job {
    gale__batch *b;
    int64_t first, tile;       /* of the picture's tiles: the batch's first; of the batch: the one that is added */
    int64_t rows, bands;       /* rows of a plane of a tile, and bands they are cut into */
    const float *planes;
    float *result;
} job;

static int64_t bands_of(int64_t rows, int64_t width)
{
    int64_t each = BAND_FLOATS / width + 1;
    return (rows + each - 1) / each;
}

static void cut_band(void *arg, size_t i, int worker)
{
    const job *j = arg;
    const gale__batch *b = j->b;
    int64_t band = (int64_t)i % j->bands, plane = (int64_t)i / j->bands % b->n->channels_in, tile = (int64_t)i / j->bands / b->n->channels_in;
    for (int64_t y = band * j->rows / j->bands; y < (band + 1) * j->rows / j->bands; y++) {
        float *row = gale__feed_row(&b->feed, tile, plane, y, b->rooms + (size_t)worker * b->room);
        gale__tile_take_row(b->t, j->first + tile, plane, y, j->planes, row);
        gale__feed_put(&b->feed, tile, plane, y, row);
    }
}

static void add_band(void *arg, size_t i, int worker)
{
    const job *j = arg;
    const gale__batch *b = j->b;
    bool only = gale__tiling_count(b->t) == 1;
    int64_t band = (int64_t)i % j->bands, plane = (int64_t)i / j->bands;
    for (int64_t y = band * j->rows / j->bands; y < (band + 1) * j->rows / j->bands; y++) {
        const float *row = gale__feed_get(&b->feed, j->tile, plane, y, b->rooms + (size_t)worker * b->room);
        gale__tile_add_row(b->t, j->first + j->tile, b->n->scale, plane, y, row, only ? NULL : b->weights, j->result);
    }
}

static void cut(job *j)
{
    gale__batch *b = j->b;
    j->rows = b->t->y.tile;
    j->bands = bands_of(j->rows, b->t->x.tile);
    gale__parallel((size_t)(b->feed.batch * b->n->channels_in * j->bands), cut_band, j);
}

static void add(job *j)
{
    gale__batch *b = j->b;
    j->rows = b->t->y.tile * b->n->scale;
    j->bands = bands_of(j->rows, b->t->x.tile * b->n->scale);
    for (j->tile = 0; j->tile < b->feed.batch; j->tile++) {
        gale__tile_weights(b->t, j->first + j->tile, b->n->scale, b->weights);
        gale__parallel((size_t)(b->n->channels_out * j->bands), add_band, j);
    }
}

gale_status gale__batch_make(const gale__network *n, const gale__tiling *t, const float *control, gale__batch *out)
{
    gale__batch b = {.n = n, .t = t, .control = control, .room = (size_t)(t->x.tile * n->scale)};
    b.weights = gale__calloc((size_t)((t->x.tile + t->y.tile) * n->scale), sizeof *b.weights);
    b.rooms = gale__calloc((size_t)gale__parallel_width() * b.room, sizeof *b.rooms);
    if (b.weights && b.rooms) return *out = b, GALE_OK;
    gale__batch_finish(&b);
    return GALE_NO_MEMORY;
}

void gale__batch_finish(gale__batch *b)
{
    gale__feed_finish(&b->feed);
    gale__free(b->weights);
    gale__free(b->rooms);
}

gale_status gale__batch_run(gale__batch *b, int64_t first, int64_t count, gale_tensor *planes, gale_tensor *result, uint64_t *network_ns)
{
    job j = {.b = b, .first = first, .planes = gale_tensor_data(planes), .result = gale_tensor_data(result)};
    bool lent = false;
    if (b->feed.batch != count) {
        gale__feed_finish(&b->feed);
        GALE_TRY(gale__feed_make(b->n, count, b->t->x.tile, b->t->y.tile, b->control, &b->feed));
    }
    if (gale__tiling_count(b->t) == 1) GALE_TRY(gale__feed_lend(&b->feed, planes, result, &lent));
    if (!lent) cut(&j);
    uint64_t begun = gale__time_ns();
    GALE_TRY(gale__feed_run(&b->feed));
    *network_ns += gale__time_ns() - begun;
    if (!lent) add(&j);
    return GALE_OK;
}
