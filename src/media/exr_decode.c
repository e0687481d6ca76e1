/* Decodes one level of one part.  Chunks are independent, so all cores decompress them, each with its own buffers,
 * which it reuses.  The file's declarations are not trusted: a chunk with more samples than expected ends the reading.
 * */
#include "media/exr.h"
#include "base/thread.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* What a thread works with. */
typedef struct hand {
    exr_decode_pipeline_t pipeline;
    gale__exr_deep *deep;
    void *tool;
} hand;

typedef struct reading {
    gale_exr *f;
    const gale_exr_part *about;
    int part, level_x, level_y;
    gale__exr_place *places;
    int count;
    bool deep, tiled;
    int32_t step_x, step_y; /* extents of a chunk */
    int64_t width, height;
    size_t across; /* chunks side by side */
    gale__exr_unpack *unpack;
    hand *hands;
    _Atomic bool failed;
    gale__mutex lock; /* of the first failure */
    gale_status status;
    char message[300];
} reading;

static int64_t ceil_div(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

/* Samples of an axis that begins at pixel `first`: those at multiples of the step. */
static int64_t samples(int64_t first, int64_t count, int64_t step)
{
    return ceil_div(first + count, step) - ceil_div(first, step);
}

static const gale_exr_channel *find_channel(const gale_exr_part *p, const char *name)
{
    for (int i = 0; i < p->channel_count; i++)
        if (!strcmp(p->channels[i].name, name)) return &p->channels[i];
    return NULL;
}

/* The part, where it and the level exist. */
static gale_status find_level(const gale_exr *f, int part, int x, int y, const gale_exr_part **out)
{
    const gale_exr_part *p = gale_exr_part_get(f, part);
    if (!p) return gale__fail(GALE_NOT_FOUND, "EXR: no part %d; it has %d", part, f->count);
    if (x < 0 || y < 0 || x >= p->levels_x || y >= p->levels_y || (p->levels != GALE_EXR_RIPMAP && x != y))
        return gale__fail(GALE_NOT_FOUND, "EXR: no level %d, %d; it has %d x %d", x, y, p->levels_x,
            p->levels == GALE_EXR_RIPMAP ? p->levels_y : 1);
    *out = p;
    return GALE_OK;
}

gale_status gale_exr_level_size(const gale_exr *f, int part, int level_x, int level_y, int64_t *width, int64_t *height)
{
    GALE__NEED({"file", f}, {"width", width}, {"height", height});
    const gale_exr_part *p = NULL;
    GALE_TRY(find_level(f, part, level_x, level_y, &p));
    int64_t w = (int64_t)p->data.x1 - p->data.x0 + 1, h = (int64_t)p->data.y1 - p->data.y0 + 1;
    if (w < 1 || h < 1 || w > INT32_MAX / 32 || h > INT32_MAX / 32)
        return gale__fail(GALE_FORMAT, "EXR: invalid data window of %lld x %lld", (long long)w, (long long)h);
    int64_t up_x = p->round_up ? ((int64_t)1 << level_x) - 1 : 0, up_y = p->round_up ? ((int64_t)1 << level_y) - 1 : 0;
    w = (w + up_x) >> level_x, h = (h + up_y) >> level_y;
    if ((uint64_t)w * (uint64_t)h > f->limits.max_pixels)
        return gale__fail(GALE_LIMIT, "EXR: %lld x %lld pixels exceed the limit of %llu", (long long)w, (long long)h,
            (unsigned long long)f->limits.max_pixels);
    *width = w < 1 ? 1 : w;
    *height = h < 1 ? 1 : h;
    return GALE_OK;
}

gale_status gale_exr_channel_size(
    const gale_exr *f, int part, int level_x, int level_y, const char *channel, int64_t *width, int64_t *height)
{
    GALE__NEED({"file", f}, {"channel", channel}, {"width", width}, {"height", height});
    int64_t w, h;
    GALE_TRY(gale_exr_level_size(f, part, level_x, level_y, &w, &h));
    const gale_exr_part *p = &f->parts[part];
    const gale_exr_channel *c = find_channel(p, channel);
    if (!c) return gale__fail(GALE_NOT_FOUND, "EXR: no channel \"%s\"", channel);
    *width = samples(p->data.x0, w, c->x_sampling);
    *height = samples(p->data.y0, h, c->y_sampling);
    return GALE_OK;
}

/* Where a channel's samples of a chunk at (x, y) of the level go; false where the chunk has more than there is room
 * for. */
static bool point_one(const reading *r, const gale__exr_place *p, exr_coding_channel_info_t *c, int64_t x, int64_t y)
{
    int64_t left = samples(r->about->data.x0, x, c->x_samples), top = samples(r->about->data.y0, y, c->y_samples);
    if (c->width < 1 || c->height < 1) return true; /* nothing of it in this chunk */
    if (c->width > p->width - left || c->height > p->height - top) return false;
    c->user_bytes_per_element = (int16_t)gale_type_size(p->to.type);
    c->user_data_type = p->to.type == GALE_F16   ? EXR_PIXEL_HALF
                        : p->to.type == GALE_F32 ? EXR_PIXEL_FLOAT
                                                 : EXR_PIXEL_UINT;
    c->user_pixel_stride = (int32_t)p->to.pixel_bytes;
    c->user_line_stride = (int32_t)p->to.row_bytes;
    c->decode_to_ptr = (uint8_t *)p->to.data + (size_t)top * p->to.row_bytes + (size_t)left * p->to.pixel_bytes;
    return true;
}

static bool point(const reading *r, exr_decode_pipeline_t *d, int64_t x, int64_t y)
{
    for (int i = 0; i < d->channel_count; i++) {
        d->channels[i].decode_to_ptr = NULL;
        for (int k = 0; k < r->count; k++)
            if (!strcmp(d->channels[i].channel_name, r->places[k].to.channel) &&
                !point_one(r, &r->places[k], &d->channels[i], x, y))
                return false;
    }
    return true;
}

static exr_result_t decode_flat(const reading *r, hand *h, const exr_chunk_info_t *chunk, int64_t x, int64_t y)
{
    exr_decode_pipeline_t *d = &h->pipeline;
    bool first = !d->context;
    exr_result_t e = first ? exr_decoding_initialize(r->f->file, r->part, chunk, d)
                           : exr_decoding_update(r->f->file, r->part, chunk, d);
    if (e != EXR_ERR_SUCCESS) return e;
    if (!point(r, d, x, y)) return EXR_ERR_BAD_CHUNK_LEADER;
    if (first) e = exr_decoding_choose_default_routines(r->f->file, r->part, d);
    if (first && r->unpack && d->decompress_fn) d->decompress_fn = r->unpack;
    if (first && d->unpack_and_convert_fn && gale__host_is_little()) d->unpack_and_convert_fn = gale__exr_put_rows;
    d->decoding_user_data = &h->tool;
    return e == EXR_ERR_SUCCESS ? exr_decoding_run(r->f->file, r->part, d) : e;
}

static exr_result_t find_chunk(const reading *r, int column, int row, exr_chunk_info_t *chunk)
{
    if (!r->tiled)
        return exr_read_scanline_chunk_info(
            r->f->file, r->part, (int)(r->about->data.y0 + (int64_t)row * r->step_y), chunk);
    if (r->about->levels == GALE_EXR_RIPMAP && !r->deep)
        return gale__exr_rip_chunk(r->f, r->part, column, row, r->level_x, r->level_y, chunk);
    return exr_read_tile_chunk_info(r->f->file, r->part, column, row, r->level_x, r->level_y, chunk);
}

static exr_result_t decode_chunk(const reading *r, hand *h, size_t i)
{
    exr_chunk_info_t chunk;
    int64_t column = (int64_t)(i % r->across), row = (int64_t)(i / r->across), x = column * r->step_x,
            y = row * r->step_y;
    exr_result_t e = find_chunk(r, (int)column, (int)row, &chunk);
    if (e != EXR_ERR_SUCCESS) return e;
    /* Deep chunks say their sizes themselves. */
    if (chunk.packed_size > r->f->size || chunk.sample_count_table_size > r->f->size ||
        chunk.unpacked_size > r->f->limits.max_bytes)
        return EXR_ERR_BAD_CHUNK_LEADER;
    if (!r->deep) return decode_flat(r, h, &chunk, x, y);
    if (!h->deep && gale__exr_deep_begin(r->f, r->part, r->places, r->count, &h->deep) != GALE_OK)
        return EXR_ERR_OUT_OF_MEMORY;
    return gale__exr_deep_chunk(h->deep, &chunk, x, y);
}

static void run_chunk(void *arg, size_t i, int worker)
{
    reading *r = arg;
    if (atomic_load_explicit(&r->failed, memory_order_relaxed)) return;
    gale__exr_hush();
    exr_result_t e = decode_chunk(r, &r->hands[worker], i);
    gale_status status = e == EXR_ERR_SUCCESS ? GALE_OK : gale__exr_said(e);
    if (status == GALE_OK) return;
    gale__mutex_lock(&r->lock);
    if (!atomic_exchange(&r->failed, true)) {
        r->status = status;
        snprintf(r->message, sizeof r->message, status == GALE_FORMAT ? "%s (in the chunk at %lld, %lld)" : "%s",
            gale_error(), (long long)(r->about->data.x0 + (int64_t)(i % r->across) * r->step_x),
            (long long)(r->about->data.y0 + (int64_t)(i / r->across) * r->step_y));
    }
    gale__mutex_unlock(&r->lock);
}

static gale_status set_steps(reading *r)
{
    int32_t lines = 0, w = 0, h = 0;
    r->tiled = r->about->storage == GALE_EXR_TILED || r->about->storage == GALE_EXR_DEEP_TILED;
    r->deep = r->about->storage >= GALE_EXR_DEEP_SCANLINE;
    if (r->tiled) {
        GALE_TRY(gale__exr_said(exr_get_tile_sizes(r->f->file, r->part, r->level_x, r->level_y, &w, &h)));
        r->step_x = w, r->step_y = h;
    } else {
        GALE_TRY(gale__exr_said(exr_get_scanlines_per_chunk(r->f->file, r->part, &lines)));
        r->step_x = (int32_t)r->width, r->step_y = lines;
    }
    if (r->step_x < 1 || r->step_y < 1)
        return gale__fail(GALE_FORMAT, "EXR: unsupported chunks of %d x %d", r->step_x, r->step_y);
    r->across = (size_t)ceil_div(r->width, r->step_x);
    return GALE_OK;
}

static gale_status set_places(reading *r, const gale_exr_target *targets)
{
    for (int i = 0; i < r->count; i++) {
        gale__exr_place *p = &r->places[i];
        p->to = targets[i];
        if (p->to.type != GALE_F16 && p->to.type != GALE_F32 && p->to.type != GALE_U32)
            return gale__fail(
                GALE_INVALID, "EXR: cannot read channel %s as %s", p->to.channel, gale_type_name(p->to.type));
        GALE_TRY(gale_exr_channel_size(r->f, r->part, r->level_x, r->level_y, p->to.channel, &p->width, &p->height));
        if (!p->to.pixel_bytes) p->to.pixel_bytes = gale_type_size(p->to.type);
        if (!p->to.row_bytes) p->to.row_bytes = p->to.pixel_bytes * (size_t)p->width;
        if (p->to.row_bytes > INT32_MAX)
            return gale__fail(GALE_LIMIT, "EXR: rows of %zu bytes are too long", p->to.row_bytes);
    }
    return GALE_OK;
}

/* By cores, or in this thread alone. */
static void run_chunks(reading *r)
{
    size_t chunks = r->across * (size_t)ceil_div(r->height, r->step_y);
    if (!r->f->limits.serial) gale__parallel(chunks, run_chunk, r);
    else
        for (size_t i = 0; i < chunks; i++) run_chunk(r, i, 0);
}

static gale_status run(reading *r)
{
    int width = gale__parallel_width();
    exr_compression_t how = EXR_COMPRESSION_NONE;
    GALE_TRY(set_steps(r));
    GALE_TRY(gale__exr_said(exr_get_compression(r->f->file, r->part, &how)));
    r->unpack = gale__exr_unpack_find(how);
    r->hands = gale__calloc((size_t)width, sizeof *r->hands);
    if (!r->hands) return GALE_NO_MEMORY;
    gale__mutex_init(&r->lock);
    run_chunks(r);
    gale__mutex_finish(&r->lock);
    for (int i = 0; i < width; i++) {
        if (r->hands[i].pipeline.context) exr_decoding_destroy(r->f->file, &r->hands[i].pipeline);
        gale__exr_deep_end(&r->hands[i].deep);
        gale__exr_tool_free(&r->hands[i].tool);
    }
    gale__free(r->hands);
    return atomic_load(&r->failed) ? gale__fail(r->status, "%s", r->message) : GALE_OK;
}

gale_status gale_exr_read(gale_exr *f, int part, int level_x, int level_y, const gale_exr_target *targets, int count)
{
    GALE__NEED({"file", f}, {"targets", count < 1 || targets});
    reading r = {.f = f, .part = part, .level_x = level_x, .level_y = level_y, .count = count};
    GALE_TRY(find_level(f, part, level_x, level_y, &r.about));
    GALE_TRY(gale_exr_level_size(f, part, level_x, level_y, &r.width, &r.height));
    gale__exr_hush();
    r.places = gale__calloc((size_t)count + 1, sizeof *r.places);
    gale_status status = r.places ? set_places(&r, targets) : GALE_NO_MEMORY;
    if (status == GALE_OK) status = run(&r);
    gale__free(r.places);
    return status;
}
