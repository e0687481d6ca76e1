/* OpenEXR through its C core: the first part of a file, scan lines or tiles, R G B A or Y A as half or float.  Values are light, colours are multiplied by
 * alpha.  Layers, parts, luminance with chroma and deep data are not this file's business, and are said to be so. */
#include "media/formats.h"
#include <OpenEXR/openexr.h>
#include <stdio.h>
#include <string.h>

typedef struct exr {
    const gale__picture_source *in;
    gale__str *out;
    exr_context_t file;
    gale_picture *picture;
    int32_t left, top;         /* of the data window */
    const char *names[4];      /* of the picture's channels */
} exr;

static int64_t give_bytes(exr_const_context_t c, void *user, void *to, uint64_t n, uint64_t at, exr_stream_error_func_ptr_t error)
{
    const exr *e = user;
    (void)c, (void)error;
    return (int64_t)gale__memory_get(e->in->data, e->in->size, at, to, (size_t)n);
}

static int64_t give_size(exr_const_context_t c, void *user) { return (void)c, (int64_t)((exr *)user)->in->size; }

static int64_t take_bytes(exr_const_context_t c, void *user, const void *from, uint64_t n, uint64_t at, exr_stream_error_func_ptr_t error)
{
    (void)c, (void)error;
    return gale__memory_put(((exr *)user)->out, at, from, (size_t)n) ? (int64_t)n : -1;
}

/* The first complaint.  A thread's own, since the library holds its lock while it complains, and would wait for it if it were asked for our data. */
static _Thread_local char complaint[200];

static void on_error(exr_const_context_t c, exr_result_t code, const char *message)
{
    (void)c, (void)code;
    if (!*complaint) snprintf(complaint, sizeof complaint, "%s", message);
}

static exr_context_initializer_t starter(exr *e)
{
    exr_context_initializer_t s = EXR_DEFAULT_CONTEXT_INITIALIZER;
    s.error_handler_fn = on_error;
    s.alloc_fn = gale__alloc;
    s.free_fn = gale__free;
    s.user_data = e;
    s.read_fn = e->in ? give_bytes : NULL;
    s.size_fn = e->in ? give_size : NULL;
    s.write_fn = e->out ? take_bytes : NULL;
    return s;
}

/* What the library answers, as ours. */
static gale_status said(exr_result_t r)
{
    if (r == EXR_ERR_SUCCESS) return GALE_OK;
    if (r == EXR_ERR_OUT_OF_MEMORY) return gale__fail(GALE_NO_MEMORY, "EXR: out of memory");
    return gale__fail(GALE_FORMAT, "EXR: %s", *complaint ? complaint : exr_get_default_error_message(r));
}

static const exr_attr_chlist_entry_t *channel(const exr_attr_chlist_t *list, const char *name)
{
    for (int i = 0; i < list->num_channels; i++)
        if (!strcmp(list->entries[i].name.str, name)) return &list->entries[i];
    return NULL;
}

/* Which channels make the picture. */
static gale_status choose(exr *e, const exr_attr_chlist_t *list, int *count, gale_type *type)
{
    static const char *const colours[] = {"R", "G", "B"};
    bool rgb = channel(list, "R") && channel(list, "G") && channel(list, "B"), chroma = channel(list, "RY") || channel(list, "BY");
    *count = 0;
    for (int i = 0; i < 3 && rgb; i++) e->names[(*count)++] = colours[i];
    if (!rgb && channel(list, "Y") && !chroma) e->names[(*count)++] = "Y";
    if (!rgb && !*count && list->num_channels == 1) e->names[(*count)++] = list->entries[0].name.str;
    if (!*count) return gale__fail(GALE_UNSUPPORTED, "EXR: neither R, G and B nor Y are among its %d channels", list->num_channels);
    if (channel(list, "A") && strcmp(e->names[0], "A")) e->names[(*count)++] = "A";
    *type = GALE_F16;
    for (int i = 0; i < *count; i++) {
        const exr_attr_chlist_entry_t *c = channel(list, e->names[i]);
        if (c->pixel_type != EXR_PIXEL_HALF) *type = GALE_F32;
        if (c->x_sampling != 1 || c->y_sampling != 1) return gale__fail(GALE_UNSUPPORTED, "EXR: channel %s is smaller than the picture", e->names[i]);
    }
    return GALE_OK;
}

/* Where a chunk's samples of each channel go or come from, for a chunk at (x, y) of the picture. */
static void point(const exr *e, exr_coding_channel_info_t *channels, int count, int64_t x, int64_t y)
{
    const gale_picture *p = e->picture;
    size_t size = gale_type_size(p->type), pixel = size * (size_t)p->channels;
    for (int i = 0; i < count; i++) {
        exr_coding_channel_info_t *c = &channels[i];
        c->decode_to_ptr = NULL;
        for (int k = 0; k < p->channels; k++) {
            if (strcmp(c->channel_name, e->names[k])) continue;
            c->user_bytes_per_element = (int16_t)size;
            c->user_data_type = p->type == GALE_F16 ? EXR_PIXEL_HALF : EXR_PIXEL_FLOAT;
            c->user_pixel_stride = (int32_t)pixel;
            c->user_line_stride = (int32_t)gale__picture_row_bytes(p);
            c->decode_to_ptr = (uint8_t *)gale__picture_row(p, y) + (size_t)x * pixel + (size_t)k * size;
        }
    }
}

static exr_result_t decode_chunk(const exr *e, exr_decode_pipeline_t *d, const exr_chunk_info_t *chunk, int64_t x, int64_t y)
{
    bool first = !d->context;
    exr_result_t r = first ? exr_decoding_initialize(e->file, 0, chunk, d) : exr_decoding_update(e->file, 0, chunk, d);
    if (r != EXR_ERR_SUCCESS) return r;
    point(e, d->channels, d->channel_count, x, y);
    for (int i = 0; i < d->channel_count; i++) /* what the file says of its chunks is not believed */
        if (d->channels[i].decode_to_ptr && (x + d->channels[i].width > e->picture->width || y + d->channels[i].height > e->picture->height)) return EXR_ERR_BAD_CHUNK_LEADER;
    if (first) r = exr_decoding_choose_default_routines(e->file, 0, d);
    return r == EXR_ERR_SUCCESS ? exr_decoding_run(e->file, 0, d) : r;
}

static exr_result_t read_lines(const exr *e, exr_decode_pipeline_t *d)
{
    int32_t lines = 0;
    exr_chunk_info_t chunk;
    exr_result_t r = exr_get_scanlines_per_chunk(e->file, 0, &lines);
    if (r == EXR_ERR_SUCCESS && lines < 1) r = EXR_ERR_BAD_CHUNK_LEADER;
    for (int64_t y = 0; y < e->picture->height && r == EXR_ERR_SUCCESS; y += lines) {
        r = exr_read_scanline_chunk_info(e->file, 0, e->top + (int)y, &chunk);
        if (r == EXR_ERR_SUCCESS) r = decode_chunk(e, d, &chunk, 0, y);
    }
    return r;
}

static exr_result_t read_tiles(const exr *e, exr_decode_pipeline_t *d)
{
    int32_t w = 0, h = 0;
    exr_chunk_info_t chunk;
    exr_result_t r = exr_get_tile_sizes(e->file, 0, 0, 0, &w, &h);
    if (r == EXR_ERR_SUCCESS && (w < 1 || h < 1)) r = EXR_ERR_BAD_CHUNK_LEADER;
    for (int64_t y = 0; r == EXR_ERR_SUCCESS && y < e->picture->height; y += h)
        for (int64_t x = 0; r == EXR_ERR_SUCCESS && x < e->picture->width; x += w) {
            r = exr_read_tile_chunk_info(e->file, 0, (int)(x / w), (int)(y / h), 0, 0, &chunk);
            if (r == EXR_ERR_SUCCESS) r = decode_chunk(e, d, &chunk, x, y);
        }
    return r;
}

/* B44 leaves floats as they are, but the C core (3.1) then mixes up the channels: better no picture than a wrong one. */
static gale_status check_compression(const exr *e, const exr_attr_chlist_t *list)
{
    exr_compression_t how = EXR_COMPRESSION_NONE;
    GALE_TRY(said(exr_get_compression(e->file, 0, &how)));
    for (int i = 0; i < list->num_channels && list->num_channels > 1 && (how == EXR_COMPRESSION_B44 || how == EXR_COMPRESSION_B44A); i++)
        if (list->entries[i].pixel_type != EXR_PIXEL_HALF) return gale__fail(GALE_UNSUPPORTED, "EXR: B44 with channels that are not half is not read");
    return GALE_OK;
}

static gale_status read_header(exr *e, bool *tiled)
{
    exr_storage_t storage = EXR_STORAGE_SCANLINE;
    exr_attr_box2i_t box;
    const exr_attr_chlist_t *list = NULL;
    gale_type type = GALE_F32;
    int count;
    float density = 0;
    GALE_TRY(said(exr_get_storage(e->file, 0, &storage)));
    if (storage != EXR_STORAGE_SCANLINE && storage != EXR_STORAGE_TILED) return gale__fail(GALE_UNSUPPORTED, "EXR: deep pictures have no single value a pixel");
    GALE_TRY(said(exr_get_data_window(e->file, 0, &box)));
    GALE_TRY(said(exr_get_channels(e->file, 0, &list)));
    GALE_TRY(check_compression(e, list));
    GALE_TRY(choose(e, list, &count, &type));
    e->left = box.min.x;
    e->top = box.min.y;
    int64_t w = (int64_t)box.max.x - box.min.x + 1, h = (int64_t)box.max.y - box.min.y + 1;
    if (w < 1 || h < 1 || w > INT32_MAX / 32) return gale__fail(GALE_FORMAT, "EXR: a data window of %lld x %lld is none", (long long)w, (long long)h);
    GALE_TRY(gale__picture_begin(e->in, (uint64_t)w, (uint64_t)h, count, type, &e->picture));
    if (exr_attr_get_float(e->file, 0, "xDensity", &density) == EXR_ERR_SUCCESS && density > 0) e->picture->dpi_x = e->picture->dpi_y = density;
    e->picture->linear = true;
    e->picture->premultiplied = count % 2 == 0;
    *tiled = storage == EXR_STORAGE_TILED;
    return GALE_OK;
}

gale_status gale__read_exr(gale__picture_source *in, gale_picture **out)
{
    exr e = {.in = in};
    bool tiled = false;
    exr_decode_pipeline_t d = EXR_DECODE_PIPELINE_INITIALIZER;
    exr_context_initializer_t s = starter(&e);
    complaint[0] = 0;
    gale_status status = said(exr_start_read(&e.file, "picture", &s));
    if (status != GALE_OK) return status;
    complaint[0] = 0; /* attributes that are looked for in vain complain too */
    status = read_header(&e, &tiled);
    complaint[0] = 0;
    if (status == GALE_OK) status = said(tiled ? read_tiles(&e, &d) : read_lines(&e, &d));
    if (d.context) exr_decoding_destroy(e.file, &d);
    exr_finish(&e.file);
    if (status == GALE_OK) *out = e.picture;
    else gale_picture_destroy(&e.picture);
    return status;
}

static exr_result_t write_header(exr *e)
{
    const gale_picture *p = e->picture;
    int part = 0;
    exr_result_t r = exr_add_part(e->file, NULL, EXR_STORAGE_SCANLINE, &part);
    if (r == EXR_ERR_SUCCESS) r = exr_initialize_required_attr_simple(e->file, part, (int32_t)p->width, (int32_t)p->height, EXR_COMPRESSION_ZIP);
    for (int i = 0; i < p->channels && r == EXR_ERR_SUCCESS; i++) r = exr_add_channel(e->file, part, e->names[i], p->type == GALE_F16 ? EXR_PIXEL_HALF : EXR_PIXEL_FLOAT, EXR_PERCEPTUALLY_LOGARITHMIC, 1, 1);
    if (r == EXR_ERR_SUCCESS && p->dpi_x > 0) r = exr_attr_set_float(e->file, part, "xDensity", (float)p->dpi_x);
    return r == EXR_ERR_SUCCESS ? exr_write_header(e->file) : r;
}

static exr_result_t write_lines(exr *e, exr_encode_pipeline_t *d)
{
    int32_t lines = 1;
    exr_chunk_info_t chunk;
    exr_result_t r = exr_get_scanlines_per_chunk(e->file, 0, &lines);
    for (int64_t y = 0; y < e->picture->height && r == EXR_ERR_SUCCESS; y += lines) {
        r = exr_write_scanline_chunk_info(e->file, 0, (int)y, &chunk);
        bool first = !d->context;
        if (r == EXR_ERR_SUCCESS) r = first ? exr_encoding_initialize(e->file, 0, &chunk, d) : exr_encoding_update(e->file, 0, &chunk, d);
        if (r != EXR_ERR_SUCCESS) break;
        point(e, d->channels, d->channel_count, 0, y);
        if (first) r = exr_encoding_choose_default_routines(e->file, 0, d);
        if (r == EXR_ERR_SUCCESS) r = exr_encoding_run(e->file, 0, d);
    }
    return r;
}

gale_status gale__write_exr(const gale_picture *p, const gale_picture_write_options *o, gale__str *out)
{
    static const char *const names[2][4] = {{"Y", "A"}, {"R", "G", "B", "A"}};
    exr e = {.out = out, .picture = (gale_picture *)p};
    exr_encode_pipeline_t d = EXR_ENCODE_PIPELINE_INITIALIZER;
    exr_context_initializer_t s = starter(&e);
    complaint[0] = 0;
    memcpy(e.names, names[p->channels > 2], sizeof e.names);
    if (p->width > INT32_MAX / 32) return gale__fail(GALE_LIMIT, "EXR: rows of %lld pixels are too long", (long long)p->width);
    if (o->effort) s.zip_level = o->effort;
    gale_status status = said(exr_start_write(&e.file, "picture", EXR_WRITE_FILE_DIRECTLY, &s));
    if (status != GALE_OK) return status;
    status = said(write_header(&e));
    if (status == GALE_OK) status = said(write_lines(&e, &d));
    if (d.context) exr_encoding_destroy(e.file, &d);
    exr_result_t end = exr_finish(&e.file);
    if (status == GALE_OK) status = said(end);
    return out->failed ? GALE_NO_MEMORY : status;
}
