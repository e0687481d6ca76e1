/* GALE_POOL_FILL: allocations are filled with NaN and surrounded by two guards that are checked on release.  So
 * reading uninitialised memory shows in the result on any device, and a write past either end is logged.  Slow, for
 * debugging. */
#include "device/front.h"
#include "base/env.h"
#include <string.h>

#define NOTHING 0xFFu /* NaN in every float type, -1 in every signed one */

struct gale__buffer_watch {
    gale_stream *stream;
    gale__mutex lock; /* one stream for all threads */
};

gale_status gale__buffer_watch_create(gale_device *device, struct gale__buffer_watch **out)
{
    *out = NULL;
    if (gale__env_get_i64(GALE__ENV_POOL_FILL, 0) != 1) return GALE_OK;
    struct gale__buffer_watch *g = gale__calloc(1, sizeof *g);
    if (!g) return GALE_NO_MEMORY;
    gale_status status = gale__stream_make(device, &g->stream);
    if (status != GALE_OK) return gale__free(g), status;
    gale__mutex_init(&g->lock);
    *out = g;
    return GALE_OK;
}

void gale__buffer_watch_destroy(struct gale__buffer_watch **watch)
{
    struct gale__buffer_watch *g = *watch;
    *watch = NULL;
    if (!g) return;
    gale__stream_free(&g->stream);
    gale__mutex_finish(&g->lock);
    gale__free(g);
}

/* The buffer with its guards. */
static gale_buffer whole(const gale_buffer *b)
{
    return (gale_buffer){.device = b->device,
        .mem = b->mem,
        .offset = b->offset - GALE__BUFFER_WATCH_BYTES,
        .size = b->size + 2 * GALE__BUFFER_WATCH_BYTES};
}

gale_status gale__buffer_watch_fill(gale_buffer *buffer)
{
    struct gale__buffer_watch *g = buffer->device->watch;
    gale_buffer all = whole(buffer);
    const uint8_t nothing = NOTHING;
    gale__mutex_lock(&g->lock);
    gale_status status = gale_fill(g->stream, &all, 0, all.size, &nothing, 1);
    if (status == GALE_OK) status = gale_stream_sync(g->stream);
    gale__mutex_unlock(&g->lock);
    return status;
}

static size_t intact(const uint8_t *bytes)
{
    size_t n = 0;
    while (n < GALE__BUFFER_WATCH_BYTES && bytes[n] == NOTHING) n++;
    return n;
}

void gale__buffer_watch_check(gale_buffer *buffer)
{
    struct gale__buffer_watch *g = buffer->device->watch;
    gale_buffer all = whole(buffer);
    uint8_t before[GALE__BUFFER_WATCH_BYTES], after[GALE__BUFFER_WATCH_BYTES];
    const gale_device_info *info = &buffer->device->info;
    gale__mutex_lock(&g->lock);
    gale_status status = gale_download(g->stream, &all, 0, before, sizeof before);
    if (status == GALE_OK) status = gale_download(g->stream, &all, all.size - sizeof after, after, sizeof after);
    gale_status synced = gale_stream_sync(g->stream);
    if (synced != GALE_OK) gale__stream_forget(g->stream);
    gale__mutex_unlock(&g->lock);
    if (status != GALE_OK || synced != GALE_OK) return;
    if (intact(before) < sizeof before)
        gale__log(GALE__WARN, "%s:%d: a buffer of %zu bytes was written %zu bytes before its start", info->backend,
            info->index, buffer->size, sizeof before - intact(before));
    if (intact(after) < sizeof after)
        gale__log(GALE__WARN, "%s:%d: a buffer of %zu bytes was written %zu bytes past its end", info->backend,
            info->index, buffer->size, intact(after));
}
