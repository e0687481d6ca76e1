/* Runs the tiles of a picture, several at once.  All threads cut and blend rows, directly between the planes and the
 * network's tensors.  Tiles are added in a fixed order, so that sums do not depend on timing.  A picture of one tile is
 * passed to the network without a copy where possible.  In concurrent runs each tile stays on the worker that started
 * it, so that workers synchronise once per tile and not once per kernel. */
#include "jobs/upscale/batch.h"
#include "base/thread.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BAND_FLOATS = 1 << 14 };        /* less is not worth a thread */
static const float mixed_from = 0.02f; /* of black to white: five levels of 8 bit; kernels for batches may round
                                          otherwise, in half precision as far as that */

typedef struct job {
    gale__tile_batch *batch;
    int64_t first, tile; /* of the picture's tiles: the batch's first; of the batch: the one that is added */
    int64_t rows, bands; /* rows of a plane of a tile, and bands they are cut into */
    const float *planes;
    float *result;
} job;

static int64_t bands_of(int64_t rows, int64_t width)
{
    int64_t each = BAND_FLOATS / width + 1;
    return (rows + each - 1) / each;
}

/* The feed of a tile of the batch, and which one it is there. */
static gale__feed *feed_of(const gale__tile_batch *b, int64_t tile, int64_t *within)
{
    *within = b->apart ? 0 : tile;
    return &b->feeds[b->apart ? tile : 0];
}

static void cut_band(void *arg, size_t i, int worker)
{
    const job *j = arg;
    const gale__tile_batch *b = j->batch;
    int64_t band = (int64_t)i % j->bands, plane = (int64_t)i / j->bands % b->network->channels_in,
            tile = (int64_t)i / j->bands / b->network->channels_in, within;
    const gale__feed *f = feed_of(b, tile, &within);
    for (int64_t y = band * j->rows / j->bands; y < (band + 1) * j->rows / j->bands; y++) {
        float *row = gale__feed_row(f, within, plane, y, b->rooms + (size_t)worker * b->room);
        gale__tile_take_row(b->tiling, j->first + tile, plane, y, j->planes, row);
        gale__feed_put(f, within, plane, y, row);
    }
}

static void add_band(void *arg, size_t i, int worker)
{
    const job *j = arg;
    const gale__tile_batch *b = j->batch;
    bool only = gale__tiling_count(b->tiling) == 1;
    int64_t band = (int64_t)i % j->bands, plane = (int64_t)i / j->bands, within;
    const gale__feed *f = feed_of(b, j->tile, &within);
    for (int64_t y = band * j->rows / j->bands; y < (band + 1) * j->rows / j->bands; y++) {
        const float *row = gale__feed_get(f, within, plane, y, b->rooms + (size_t)worker * b->room);
        gale__tile_add_row(
            b->tiling, j->first + j->tile, b->network->scale, plane, y, row, only ? NULL : b->weights, j->result);
    }
}

static void cut(job *j)
{
    gale__tile_batch *b = j->batch;
    j->rows = gale__tiling_height(b->tiling);
    j->bands = bands_of(j->rows, gale__tiling_width(b->tiling));
    gale__parallel((size_t)(b->count * b->network->channels_in * j->bands), cut_band, j);
}

static void add(job *j)
{
    gale__tile_batch *b = j->batch;
    j->rows = b->tiling->y.tile * b->network->scale;
    j->bands = bands_of(j->rows, b->tiling->x.tile * b->network->scale);
    for (j->tile = 0; j->tile < b->count; j->tile++) {
        gale__tile_weights(b->tiling, j->first + j->tile, b->network->scale, b->weights);
        gale__parallel((size_t)(b->network->channels_out * j->bands), add_band, j);
    }
}

gale_status gale__tile_batch_make(gale__network *n, const gale__tiling *t, const float *control, gale__tile_batch *out)
{
    gale__tile_batch b = {.network = n,
        .tiling = t,
        .control = control,
        .width = gale__parallel_width(),
        .room = (size_t)(gale__tiling_width(t) * n->scale)};
    b.weights = gale__calloc((size_t)((t->x.tile + t->y.tile) * n->scale), sizeof *b.weights);
    b.rooms = gale__calloc((size_t)b.width * b.room, sizeof *b.rooms);
    b.feeds = gale__calloc((size_t)b.width, sizeof *b.feeds);
    if (b.weights && b.rooms && b.feeds) return *out = b, GALE_OK;
    gale__tile_batch_finish(&b);
    return GALE_NO_MEMORY;
}

void gale__tile_batch_finish(gale__tile_batch *b)
{
    for (int i = 0; b->feeds && i < b->width; i++) gale__feed_finish(&b->feeds[i]);
    gale__free(b->feeds);
    gale__free(b->weights);
    gale__free(b->rooms);
}

/* Feeds for this run's tiles: those of the last one where they fit, which spares another plan; places that are left
 * over are filled up. */
static gale_status make_feeds(gale__tile_batch *b)
{
    for (int64_t i = 0; i < (b->apart ? b->count : 1); i++) {
        gale__feed *f = &b->feeds[i];
        int64_t tiles = b->apart ? 1 : b->count, places = f->picture ? gale_tensor_dims(f->picture)[0] : 0;
        if (tiles <= places && 2 * tiles > places) {
            f->batch = tiles;
            continue;
        }
        gale__feed_finish(f);
        GALE_TRY(gale__feed_make(
            b->network, tiles, gale__tiling_width(b->tiling), gale__tiling_height(b->tiling), b->control, f));
    }
    return GALE_OK;
}

typedef struct lane {
    gale_status status;
    char message[512];
} lane; /* messages are a thread's own */
typedef struct race {
    gale__tile_batch *batch;
    lane *lanes;
} race;

static void run_lane(void *arg, size_t i, int worker)
{
    const race *r = arg;
    lane *l = &r->lanes[i];
    (void)worker;
    l->status = gale__feed_run(&r->batch->feeds[i]);
    if (l->status != GALE_OK) snprintf(l->message, sizeof l->message, "%s", gale_error());
}

static gale_status run_apart(gale__tile_batch *b)
{
    race r = {b, gale__calloc((size_t)b->count, sizeof *r.lanes)};
    if (!r.lanes) return GALE_NO_MEMORY;
    gale__parallel((size_t)b->count, run_lane, &r);
    gale_status status = GALE_OK;
    for (int64_t i = 0; i < b->count && status == GALE_OK; i++)
        if (r.lanes[i].status != GALE_OK) status = gale__fail(r.lanes[i].status, "%s", r.lanes[i].message);
    gale__free(r.lanes);
    return status;
}

/* Whether the network gives for the last tile of the batch what it gives for it alone.  Tiles that are all the same
 * would show nothing. */
static gale_status compare_alone(gale__tile_batch *b)
{
    const gale__feed *f = &b->feeds[0];
    gale__feed alone = {0};
    size_t tile = gale_tensor_size_bytes(f->picture) / (size_t)gale_tensor_dims(f->picture)[0];
    const char *last = (const char *)gale_tensor_data(f->picture) + (size_t)(b->count - 1) * tile;
    gale_status status = GALE_OK;
    float worst = 0, *room = b->rooms, *other = NULL;
    if (!memcmp(gale_tensor_data(f->picture), last, tile)) return GALE_OK;
    if (!(other = gale__calloc(b->room, sizeof *other))) return GALE_NO_MEMORY;
    GALE_GO(gale__feed_make(
        b->network, 1, gale__tiling_width(b->tiling), gale__tiling_height(b->tiling), b->control, &alone));
    memcpy(gale_tensor_data(alone.picture), last, tile);
    GALE_GO(gale__feed_run(&alone));
    for (int64_t plane = 0; plane < b->network->channels_out; plane++)
        for (int64_t y = 0; y < b->tiling->y.tile * b->network->scale; y++) {
            const float *x = gale__feed_get(f, b->count - 1, plane, y, room),
                        *want = gale__feed_get(&alone, 0, plane, y, other);
            for (int64_t i = 0; i < b->tiling->x.tile * b->network->scale; i++)
                worst = fabsf(x[i] - want[i]) <= worst ? worst : fabsf(x[i] - want[i]);
        }
    b->network->batches = worst <= mixed_from ? GALE__BATCHES_APART : GALE__BATCHES_MIXED;
done:
    gale__feed_finish(&alone);
    gale__free(other);
    return status;
}

/* A batch that nobody promised: the model leaves its first extent open, which its operators need not. */
static gale_status run_batch(gale__tile_batch *b)
{
    gale_status status = gale__feed_run(&b->feeds[0]);
    if (b->count == 1 || b->network->fixed_batch || b->network->batches == GALE__BATCHES_APART) return status;
    if (status != GALE_OK && !gale__network_is_final(status)) {
        b->network->batches = GALE__BATCHES_MIXED;
        return gale__fail_within(GALE_UNSUPPORTED, "%s does not support batches", b->network->manifest->name);
    }
    if (status == GALE_OK) status = compare_alone(b);
    if (status == GALE_OK && b->network->batches == GALE__BATCHES_MIXED)
        return gale__fail(
            GALE_UNSUPPORTED, "%s does not treat the tiles of a batch independently", b->network->manifest->name);
    return status;
}

gale_status gale__tile_batch_run(gale__tile_batch *b, int64_t first, int64_t count, bool apart, gale_tensor *planes,
    gale_tensor *result, uint64_t *network_ns)
{
    job j = {.batch = b, .first = first, .planes = gale_tensor_data(planes), .result = gale_tensor_data(result)};
    bool lent = false;
    b->count = count;
    b->apart = apart;
    GALE_TRY(make_feeds(b));
    if (gale__tiling_count(b->tiling) == 1) GALE_TRY(gale__feed_lend(&b->feeds[0], planes, result, &lent));
    if (!lent) cut(&j);
    uint64_t begun = gale__time_ns();
    GALE_TRY(apart ? run_apart(b) : run_batch(b));
    *network_ns += gale__time_ns() - begun;
    if (!lent) add(&j);
    return GALE_OK;
}
