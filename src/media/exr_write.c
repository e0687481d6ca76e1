/* OpenEXR files with any channels, parts, tiles and levels, through the C core. */
#include "media/exr.h"
#include "media/exr_pack.h"
#include <string.h>

typedef struct writing {
    exr_context_t file;
    gale__str bytes;
    const gale_exr_new_part *parts;
    int count;
} writing;

static int64_t take_bytes(
    exr_const_context_t c, void *user, const void *from, uint64_t n, uint64_t at, exr_stream_error_func_ptr_t error)
{
    (void)c, (void)error;
    return gale__picture_memory_put(&((writing *)user)->bytes, at, from, (size_t)n) ? (int64_t)n : -1;
}

static gale_status compression_of(const char *name, exr_compression_t *out)
{
    for (int i = 0; name && i < EXR_COMPRESSION_LAST_TYPE; i++)
        if (!strcmp(name, gale__exr_compressions[i])) {
            if (i >= EXR_COMPRESSION_DWAA && !gale__exr_deflates())
                return gale__fail(GALE_UNSUPPORTED,
                    "EXR: writing %s needs libdeflate; install libdeflate-dev and rebuild, or use piz or b44", name);
            *out = (exr_compression_t)i;
            return GALE_OK;
        }
    if (name) return gale__fail(GALE_INVALID, "EXR: unknown compression \"%s\"", name);
    *out = EXR_COMPRESSION_ZIP;
    return GALE_OK;
}

static int sampling(int every) { return every > 1 ? every : 1; }

/* Windows begin and end with whole steps, as OpenEXR demands. */
static gale_status check_sampling(const gale_exr_new_part *p, const gale_exr_source *s)
{
    int x = sampling(s->x_sampling), y = sampling(s->y_sampling);
    int64_t w = (int64_t)p->data.x1 - p->data.x0 + 1, h = (int64_t)p->data.y1 - p->data.y0 + 1;
    if (x == 1 && y == 1) return GALE_OK;
    if (p->tile_width)
        return gale__fail(GALE_UNSUPPORTED, "EXR: channel %s is subsampled, which tiles do not support", s->name);
    if (p->compression && (!strncmp(p->compression, "b44", 3) || !strncmp(p->compression, "dwa", 3)))
        return gale__fail(GALE_UNSUPPORTED,
            "EXR: channel %s is subsampled, which cannot be written as %s; use zip or piz", s->name, p->compression);
    if (p->data.x0 % x || p->data.y0 % y || w % x || h % y)
        return gale__fail(
            GALE_INVALID, "EXR: the data window is not a multiple of the sampling of channel %s", s->name);
    return GALE_OK;
}

static gale_status check_part(const gale_exr_new_part *p, int count)
{
    int64_t w = (int64_t)p->data.x1 - p->data.x0 + 1, h = (int64_t)p->data.y1 - p->data.y0 + 1;
    if (w < 1 || h < 1 || w > INT32_MAX / 32 || h > INT32_MAX / 32)
        return gale__fail(GALE_INVALID, "EXR: invalid data window of %lld x %lld", (long long)w, (long long)h);
    if (count > 1 && (!p->name || !*p->name))
        return gale__fail(GALE_INVALID, "EXR: every part of a multi-part file needs a name");
    if (p->channel_count < 1) return gale__fail(GALE_INVALID, "EXR: a part has no channels");
    for (int i = 0; i < p->channel_count; i++) GALE_TRY(check_sampling(p, &p->channels[i]));
    if (p->levels == GALE_EXR_RIPMAP && count > 1)
        return gale__fail(GALE_UNSUPPORTED, "EXR: rip levels can only be written to single-part files");
    if (p->levels != GALE_EXR_ONE_LEVEL && (!p->tile_width || !p->level))
        return gale__fail(GALE_INVALID, "EXR: levels need tiles");
    return GALE_OK;
}

static exr_pixel_type_t pixel_type(gale_type t)
{
    return t == GALE_F16 ? EXR_PIXEL_HALF : t == GALE_F32 ? EXR_PIXEL_FLOAT : EXR_PIXEL_UINT;
}

static gale_status add_part(writing *w, int i)
{
    const gale_exr_new_part *p = &w->parts[i];
    static const gale_exr_box none;
    const gale_exr_box *shown = memcmp(&p->display, &none, sizeof none) ? &p->display : &p->data;
    exr_attr_box2i_t data = {{{{p->data.x0, p->data.y0}}}, {{{p->data.x1, p->data.y1}}}},
                     display = {{{{shown->x0, shown->y0}}}, {{{shown->x1, shown->y1}}}};
    exr_attr_v2f_t centre = {{{0, 0}}};
    exr_compression_t how = EXR_COMPRESSION_ZIP;
    int part = 0;
    GALE_TRY(check_part(p, w->count));
    GALE_TRY(compression_of(p->compression, &how));
    GALE_TRY(gale__exr_said(exr_add_part(w->file, p->name && *p->name ? p->name : NULL,
        p->tile_width ? EXR_STORAGE_TILED : EXR_STORAGE_SCANLINE, &part)));
    GALE_TRY(gale__exr_said(
        exr_initialize_required_attr(w->file, part, &display, &data, 1, &centre, 1, EXR_LINEORDER_INCREASING_Y, how)));
    if (p->tile_width)
        GALE_TRY(
            gale__exr_said(exr_set_tile_descriptor(w->file, part, (uint32_t)p->tile_width, (uint32_t)p->tile_height,
                (exr_tile_level_mode_t)p->levels, p->round_up ? EXR_TILE_ROUND_UP : EXR_TILE_ROUND_DOWN)));
    for (int k = 0; k < p->channel_count; k++)
        GALE_TRY(gale__exr_said(exr_add_channel(w->file, part, p->channels[k].name, pixel_type(p->channels[k].type),
            EXR_PERCEPTUALLY_LOGARITHMIC, sampling(p->channels[k].x_sampling), sampling(p->channels[k].y_sampling))));
    gale_picture_bytes notes = {0};
    gale_status status = p->like ? gale__exr_notes_read(p->like->file, p->like_part, &notes) : GALE_OK;
    if (status == GALE_OK && notes.size) status = gale__exr_said(gale__exr_notes_write(w->file, part, &notes));
    if (status == GALE_OK && p->like)
        status = gale__exr_said(gale__exr_marks_copy(p->like->file, p->like_part, w->file, part));
    gale__free(notes.data);
    gale__exr_hush(); /* attributes that are there twice complain */
    return status;
}

/* Where the samples of a chunk at (x, y) of a level are. */
static void point(
    const gale_exr_new_part *p, exr_encode_pipeline_t *e, int lx, int ly, int64_t width, int64_t x, int64_t y)
{
    for (int i = 0; i < e->channel_count; i++)
        for (int k = 0; k < p->channel_count; k++) {
            exr_coding_channel_info_t *c = &e->channels[i];
            const gale_exr_source *s = &p->channels[k];
            if (strcmp(c->channel_name, s->name)) continue;
            size_t size = gale_type_size(s->type);
            const void *plane = lx || ly ? p->level(p->user, lx, ly, k) : s->data;
            c->user_bytes_per_element = (int16_t)size;
            c->user_data_type = (uint16_t)pixel_type(s->type);
            c->user_pixel_stride = (int32_t)size;
            int64_t across = width / sampling(s->x_sampling), every = sampling(s->y_sampling);
            c->user_line_stride = (int32_t)(size * (size_t)across);
            c->encode_from_ptr = (const uint8_t *)plane + (size_t)((y + every - 1) / every * across + x) * size;
        }
}

static exr_result_t encode(writing *w, gale__exr_packer *packer, const exr_chunk_info_t *chunk, int lx, int ly,
    int64_t width, int64_t x, int64_t y)
{
    exr_encode_pipeline_t *e = NULL;
    exr_result_t r = gale__exr_packer_add(packer, chunk, &e);
    if (r == EXR_ERR_SUCCESS) point(&w->parts[packer->part], e, lx, ly, width, x, y);
    return r;
}

static exr_result_t write_lines(writing *w, int part, gale__exr_packer *packer)
{
    const gale_exr_new_part *p = &w->parts[part];
    int32_t lines = 1;
    exr_chunk_info_t chunk;
    int64_t width = (int64_t)p->data.x1 - p->data.x0 + 1, height = (int64_t)p->data.y1 - p->data.y0 + 1;
    exr_result_t r = exr_get_scanlines_per_chunk(w->file, part, &lines);
    for (int64_t y = 0; y < height && r == EXR_ERR_SUCCESS; y += lines) {
        r = exr_write_scanline_chunk_info(w->file, part, (int)(p->data.y0 + y), &chunk);
        if (r == EXR_ERR_SUCCESS) r = encode(w, packer, &chunk, 0, 0, width, 0, y);
    }
    return r;
}

static exr_result_t write_level(writing *w, int part, gale__exr_packer *packer, int lx, int ly)
{
    const gale_exr_new_part *p = &w->parts[part];
    int32_t width = 0, height = 0, tw = p->tile_width, th = p->tile_height;
    exr_chunk_info_t chunk;
    uint64_t pixel = 0;
    for (int i = 0; i < p->channel_count; i++) pixel += gale_type_size(p->channels[i].type);
    exr_result_t r = exr_get_level_sizes(w->file, part, lx, ly, &width, &height);
    for (int32_t y = 0; y < height && r == EXR_ERR_SUCCESS; y += th)
        for (int32_t x = 0; x < width && r == EXR_ERR_SUCCESS; x += tw) {
            r = exr_write_tile_chunk_info(w->file, part, x / tw, y / th, lx, ly, &chunk);
            /* The C core (3.1) takes tiles at the edges of levels for larger than they are. */
            chunk.width = width - x < tw ? width - x : tw;
            chunk.height = height - y < th ? height - y : th;
            chunk.unpacked_size = (uint64_t)chunk.width * (uint64_t)chunk.height * pixel;
            if (r == EXR_ERR_SUCCESS) r = encode(w, packer, &chunk, lx, ly, width, x, y);
        }
    return r == EXR_ERR_SUCCESS ? gale__exr_packer_flush(packer) : r; /* planes are asked for level by level */
}

static exr_result_t write_part(writing *w, int part)
{
    const gale_exr_new_part *p = &w->parts[part];
    gale__exr_packer packer = {.file = w->file, .part = part};
    int32_t nx = 1, ny = 1;
    exr_result_t r = EXR_ERR_SUCCESS;
    if (!p->tile_width) r = write_lines(w, part, &packer);
    else {
        r = exr_get_tile_levels(w->file, part, &nx, &ny);
        for (int y = 0; y < ny && r == EXR_ERR_SUCCESS; y++)
            for (int x = 0; x < nx && r == EXR_ERR_SUCCESS; x++)
                if (p->levels == GALE_EXR_RIPMAP || x == y) r = write_level(w, part, &packer, x, y);
    }
    return gale__exr_packer_finish(&packer, r);
}

/* The library's bytes so far are the header alone; it is not asked for more. */
static gale_status finish_rip(writing *w, gale__str *out)
{
    gale__str header = w->bytes;
    w->bytes = (gale__str){0};
    gale_status status = gale__exr_pack_rip(&w->parts[0], &header, out);
    gale__str_finish(&header);
    return status;
}

gale_status gale__exr_pack(const gale_exr_new_part *parts, int count, gale__str *out)
{
    writing w = {.parts = parts, .count = count};
    exr_context_initializer_t s = gale__exr_starter(&w);
    bool rip = count == 1 && parts[0].levels == GALE_EXR_RIPMAP;
    gale_status status;
    s.write_fn = take_bytes;
    gale__exr_hush();
    GALE_GO(gale__exr_said(exr_start_write(&w.file, "picture", EXR_WRITE_FILE_DIRECTLY, &s)));
    for (int i = 0; i < count; i++) GALE_GO(add_part(&w, i));
    GALE_GO(gale__exr_said(exr_write_header(w.file)));
    if (rip) GALE_GO(finish_rip(&w, out));
    for (int i = 0; i < count && !rip; i++) GALE_GO(gale__exr_said(write_part(&w, i)));
done:
    if (w.file) {
        exr_result_t end = exr_finish(&w.file);
        if (status == GALE_OK && !rip) status = gale__exr_said(end);
    }
    if (w.bytes.failed) status = gale__str_check(&w.bytes);
    if (status == GALE_OK && !rip) *out = w.bytes;
    else gale__str_finish(&w.bytes);
    return status;
}

gale_status gale_exr_write(const char *path, const gale_exr_new_part *parts, int count)
{
    GALE__NEED({"path", path}, {"parts", parts});
    gale__str bytes = {0};
    if (count < 1) return gale__fail(GALE_INVALID, "EXR: no parts to write");
    gale_status status = gale__exr_pack(parts, count, &bytes);
    if (status == GALE_OK) status = gale__file_write(path, bytes.text, bytes.length);
    else status = gale__fail_within(status, "%s", path);
    gale__str_finish(&bytes);
    return status;
}
