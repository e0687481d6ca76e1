/* OpenEXR through its C core: one layer of one part, scan lines or tiles, as half or float.  Values are light, colours
 * are multiplied by alpha.  The picture is the display window: what the file has beyond it is cut off, what it has not
 * is black and transparent. */
#include "media/exr.h"
#include <stdio.h>
#include <string.h>

typedef struct exr {
    const gale__picture_source *in;
    gale__str *out;
    exr_context_t file;
    gale_picture *picture; /* of the data window */
    exr_attr_box2i_t window;
    gale__exr_choice choice; /* of the channels */
    gale__exr_chroma chroma;
} exr;

static int64_t give_bytes(
    exr_const_context_t c, void *user, void *to, uint64_t n, uint64_t at, exr_stream_error_func_ptr_t error)
{
    const exr *e = user;
    (void)c, (void)error;
    return (int64_t)gale__picture_memory_get(e->in->data, e->in->size, at, to, (size_t)n);
}

static int64_t give_size(exr_const_context_t c, void *user) { return (void)c, (int64_t)((exr *)user)->in->size; }

static int64_t take_bytes(
    exr_const_context_t c, void *user, const void *from, uint64_t n, uint64_t at, exr_stream_error_func_ptr_t error)
{
    (void)c, (void)error;
    return gale__picture_memory_put(((exr *)user)->out, at, from, (size_t)n) ? (int64_t)n : -1;
}

/* The first complaint.  A thread's own, since the library holds its lock while it complains, and would wait for it if
 * it were asked for our data. */
static _Thread_local char complaint[200];
static _Thread_local bool
    ran_out; /* the library passes over some attributes for which there is no memory, and takes them for missing */

static void *take_memory(size_t size)
{
    void *p = gale__alloc(size);
    ran_out |= !p;
    return p;
}

static void on_error(exr_const_context_t c, exr_result_t code, const char *message)
{
    (void)c, (void)code;
    if (!*complaint) snprintf(complaint, sizeof complaint, "%s", message);
}

static exr_context_initializer_t starter(exr *e)
{
    exr_context_initializer_t s = EXR_DEFAULT_CONTEXT_INITIALIZER;
    s.error_handler_fn = on_error;
    s.alloc_fn = take_memory;
    ran_out = false;
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
    if (r == EXR_ERR_SUCCESS && !ran_out) return GALE_OK;
    if (r == EXR_ERR_OUT_OF_MEMORY || ran_out) return gale__fail(GALE_NO_MEMORY, "EXR: out of memory");
    return gale__fail(GALE_FORMAT, "EXR: %s", *complaint ? complaint : exr_get_default_error_message(r));
}

/* Where a channel's samples of a chunk at (x, y) of the picture lie, and how many there may be.  k: of the chosen
 * channels. */
static void point_one(
    const exr *e, exr_coding_channel_info_t *c, int k, int64_t x, int64_t y, int64_t *wide, int64_t *high)
{
    const gale_picture *p = e->picture;
    size_t size = gale_type_size(p->type), pixel = size * (size_t)p->channels;
    bool apart = e->choice.chroma && (k == 1 || k == 2);
    const gale__exr_chroma *m = &e->chroma;
    c->user_bytes_per_element = (int16_t)size;
    c->user_data_type = p->type == GALE_F16 ? EXR_PIXEL_HALF : EXR_PIXEL_FLOAT;
    c->user_pixel_stride = (int32_t)(apart ? size : pixel);
    c->user_line_stride = (int32_t)(apart ? (size_t)m->width[k - 1] * size : gale__picture_row_bytes(p));
    *wide = p->width - x;
    *high = p->height - y;
    if (!apart) c->decode_to_ptr = (uint8_t *)gale__picture_row(p, y) + (size_t)x * pixel + (size_t)k * size;
    else {
        int64_t sx = m->x[k - 1], sy = m->y[k - 1], left = (x + sx - 1) / sx, top = (y + sy - 1) / sy;
        *wide = m->width[k - 1] - left;
        *high = (p->height + sy - 1) / sy - top;
        if (*wide > 0 && *high > 0) c->decode_to_ptr = (uint8_t *)(m->planes[k - 1] + top * m->width[k - 1] + left);
    }
}

/* The places of all; false where the file has more of a channel than belongs there. */
static bool point(const exr *e, exr_coding_channel_info_t *channels, int count, int64_t x, int64_t y)
{
    for (int i = 0; i < count; i++) {
        exr_coding_channel_info_t *c = &channels[i];
        int64_t wide, high;
        c->decode_to_ptr = NULL;
        for (int k = 0; k < e->choice.channels; k++) {
            if (strcmp(c->channel_name, e->choice.names[k])) continue;
            point_one(e, c, k, x, y, &wide, &high);
            if (c->decode_to_ptr && (c->width > wide || c->height > high)) return false;
        }
    }
    return true;
}

static exr_result_t decode_chunk(
    const exr *e, exr_decode_pipeline_t *d, const exr_chunk_info_t *chunk, int64_t x, int64_t y)
{
    bool first = !d->context;
    exr_result_t r = first ? exr_decoding_initialize(e->file, e->choice.part, chunk, d)
                           : exr_decoding_update(e->file, e->choice.part, chunk, d);
    if (r != EXR_ERR_SUCCESS) return r;
    if (!point(e, d->channels, d->channel_count, x, y))
        return EXR_ERR_BAD_CHUNK_LEADER; /* what the file says of its chunks is not believed */
    if (first) r = exr_decoding_choose_default_routines(e->file, e->choice.part, d);
    return r == EXR_ERR_SUCCESS ? exr_decoding_run(e->file, e->choice.part, d) : r;
}

static exr_result_t read_lines(const exr *e, exr_decode_pipeline_t *d)
{
    int32_t lines = 0;
    exr_chunk_info_t chunk;
    exr_result_t r = exr_get_scanlines_per_chunk(e->file, e->choice.part, &lines);
    if (r == EXR_ERR_SUCCESS && lines < 1) r = EXR_ERR_BAD_CHUNK_LEADER;
    for (int64_t y = 0; y < e->picture->height && r == EXR_ERR_SUCCESS; y += lines) {
        r = exr_read_scanline_chunk_info(e->file, e->choice.part, e->window.min.y + (int)y, &chunk);
        if (r == EXR_ERR_SUCCESS) r = decode_chunk(e, d, &chunk, 0, y);
    }
    return r;
}

static exr_result_t read_tiles(const exr *e, exr_decode_pipeline_t *d)
{
    int32_t w = 0, h = 0;
    exr_chunk_info_t chunk;
    exr_result_t r = exr_get_tile_sizes(e->file, e->choice.part, 0, 0, &w, &h);
    if (r == EXR_ERR_SUCCESS && (w < 1 || h < 1)) r = EXR_ERR_BAD_CHUNK_LEADER;
    for (int64_t y = 0; r == EXR_ERR_SUCCESS && y < e->picture->height; y += h)
        for (int64_t x = 0; r == EXR_ERR_SUCCESS && x < e->picture->width; x += w) {
            r = exr_read_tile_chunk_info(e->file, e->choice.part, (int)(x / w), (int)(y / h), 0, 0, &chunk);
            if (r == EXR_ERR_SUCCESS) r = decode_chunk(e, d, &chunk, x, y);
        }
    return r;
}

/* B44 leaves floats as they are, but the C core (3.1) then mixes up the channels: better no picture than a wrong one.
 */
static gale_status check_compression(const exr *e)
{
    exr_compression_t how = EXR_COMPRESSION_NONE;
    const exr_attr_chlist_t *list = NULL;
    GALE_TRY(said(exr_get_compression(e->file, e->choice.part, &how)));
    GALE_TRY(said(exr_get_channels(e->file, e->choice.part, &list)));
    for (int i = 0; i < list->num_channels && list->num_channels > 1 &&
                    (how == EXR_COMPRESSION_B44 || how == EXR_COMPRESSION_B44A);
         i++)
        if (list->entries[i].pixel_type != EXR_PIXEL_HALF)
            return gale__fail(GALE_UNSUPPORTED, "EXR: B44 with channels that are not half is not read");
    return GALE_OK;
}

static int64_t width_of(const exr_attr_box2i_t *b) { return (int64_t)b->max.x - b->min.x + 1; }
static int64_t height_of(const exr_attr_box2i_t *b) { return (int64_t)b->max.y - b->min.y + 1; }

/* Planes for the chroma, which may have every second sample only. */
static gale_status begin_chroma(exr *e)
{
    const exr_attr_chlist_t *list = NULL;
    gale__exr_chroma *m = &e->chroma;
    GALE_TRY(said(exr_get_channels(e->file, e->choice.part, &list)));
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < list->num_channels; i++)
            if (!strcmp(list->entries[i].name.str, e->choice.names[k + 1]))
                m->x[k] = list->entries[i].x_sampling, m->y[k] = list->entries[i].y_sampling;
        m->width[k] = (e->picture->width + m->x[k] - 1) / m->x[k];
        m->planes[k] =
            gale__calloc((size_t)m->width[k] * (size_t)((e->picture->height + m->y[k] - 1) / m->y[k]), sizeof(float));
        if (!m->planes[k]) return GALE_NO_MEMORY;
    }
    return GALE_OK;
}

static gale_status begin_reading(exr *e)
{
    GALE_TRY(gale__exr_choose(e->file, e->in->layer, &e->choice));
    GALE_TRY(check_compression(e));
    GALE_TRY(said(exr_get_data_window(e->file, e->choice.part, &e->window)));
    int64_t w = width_of(&e->window), h = height_of(&e->window);
    if (w < 1 || h < 1 || w > INT32_MAX / 32)
        return gale__fail(GALE_FORMAT, "EXR: a data window of %lld x %lld is none", (long long)w, (long long)h);
    GALE_TRY(gale__picture_begin(e->in, (uint64_t)w, (uint64_t)h, e->choice.channels,
        e->choice.chroma ? GALE_F32 : e->choice.type, &e->picture));
    return e->choice.chroma ? begin_chroma(e) : GALE_OK;
}

/* From the data window to the display window; where they have nothing in common the former is all there is. */
static gale_status frame(exr *e)
{
    exr_attr_box2i_t shown;
    const exr_attr_box2i_t *have = &e->window;
    if (exr_get_display_window(e->file, e->choice.part, &shown) != EXR_ERR_SUCCESS ||
        !memcmp(&shown, have, sizeof shown))
        return GALE_OK;
    int64_t left = shown.min.x > have->min.x ? shown.min.x : have->min.x,
            right = shown.max.x < have->max.x ? shown.max.x : have->max.x;
    int64_t top = shown.min.y > have->min.y ? shown.min.y : have->min.y,
            bottom = shown.max.y < have->max.y ? shown.max.y : have->max.y;
    if (left > right || top > bottom) return GALE_OK;
    if (left > have->min.x || right < have->max.x || top > have->min.y || bottom < have->max.y)
        gale__log(GALE__WARN, "EXR: %lld x %lld pixels are cut to the display window of %lld x %lld",
            (long long)width_of(have), (long long)height_of(have), (long long)width_of(&shown),
            (long long)height_of(&shown));
    gale_picture *p = e->picture, *made = NULL;
    GALE_TRY(gale__picture_begin(
        e->in, (uint64_t)width_of(&shown), (uint64_t)height_of(&shown), p->channels, p->type, &made));
    memset(made->data, 0, gale__picture_row_bytes(made) * (size_t)made->height);
    size_t pixel = gale_type_size(p->type) * (size_t)p->channels;
    for (int64_t y = top; y <= bottom; y++)
        memcpy((char *)gale__picture_row(made, y - shown.min.y) + (size_t)(left - shown.min.x) * pixel,
            (char *)gale__picture_row(p, y - have->min.y) + (size_t)(left - have->min.x) * pixel,
            (size_t)(right - left + 1) * pixel);
    gale_picture_destroy(&e->picture);
    e->picture = made;
    return GALE_OK;
}

static gale_status read_notes(exr *e)
{
    gale_picture *p = e->picture;
    float density = 0, aspect = 1;
    if (exr_attr_get_float(e->file, e->choice.part, "xDensity", &density) == EXR_ERR_SUCCESS && density > 0) {
        if (exr_get_pixel_aspect_ratio(e->file, e->choice.part, &aspect) != EXR_ERR_SUCCESS ||
            !(aspect > 0.01f && aspect < 100))
            aspect = 1;
        p->dpi_x = density;
        p->dpi_y = density * aspect;
    }
    p->linear = true;
    p->premultiplied = p->channels % 2 == 0;
    return gale__exr_notes_read(e->file, e->choice.part, &p->exr);
}

/* What was decoded becomes the picture. */
static gale_status finish_reading(exr *e)
{
    exr_attr_chromaticities_t primaries;
    if (e->choice.chroma) {
        bool said_so =
            exr_attr_get_chromaticities(e->file, e->choice.part, "chromaticities", &primaries) == EXR_ERR_SUCCESS;
        gale__exr_to_rgb(e->picture, &e->chroma, said_so ? &primaries : NULL);
    }
    GALE_TRY(frame(e));
    GALE_TRY(read_notes(e));
    if (e->picture->type == e->choice.type) return GALE_OK;
    gale_picture *made = NULL;
    GALE_TRY(gale__picture_make(e->picture,
        (gale__picture_kind){e->choice.type, e->picture->channels, true, e->picture->premultiplied}, &made));
    gale_picture_destroy(&e->picture);
    e->picture = made;
    return GALE_OK;
}

gale_status gale__read_exr(gale__picture_source *in, gale_picture **out)
{
    exr e = {.in = in};
    exr_storage_t storage = EXR_STORAGE_SCANLINE;
    exr_decode_pipeline_t d = EXR_DECODE_PIPELINE_INITIALIZER;
    exr_context_initializer_t s = starter(&e);
    complaint[0] = 0;
    gale_status status = said(exr_start_read(&e.file, "picture", &s));
    complaint[0] = 0; /* attributes that are looked for in vain complain too */
    if (status == GALE_OK) status = begin_reading(&e);
    complaint[0] = 0;
    if (status == GALE_OK) status = said(exr_get_storage(e.file, e.choice.part, &storage));
    if (status == GALE_OK) status = said(storage == EXR_STORAGE_TILED ? read_tiles(&e, &d) : read_lines(&e, &d));
    if (status == GALE_OK) status = finish_reading(&e);
    if (d.context) exr_decoding_destroy(e.file, &d);
    if (e.file) exr_finish(&e.file);
    for (int k = 0; k < 2; k++) gale__free(e.chroma.planes[k]);
    if (status == GALE_OK) *out = e.picture;
    else gale_picture_destroy(&e.picture);
    return status;
}

static exr_result_t write_header(exr *e)
{
    const gale_picture *p = e->picture;
    int part = 0;
    exr_result_t r = exr_add_part(e->file, NULL, EXR_STORAGE_SCANLINE, &part);
    if (r == EXR_ERR_SUCCESS)
        r = exr_initialize_required_attr_simple(
            e->file, part, (int32_t)p->width, (int32_t)p->height, EXR_COMPRESSION_ZIP);
    for (int i = 0; i < p->channels && r == EXR_ERR_SUCCESS; i++)
        r = exr_add_channel(e->file, part, e->choice.names[i], p->type == GALE_F16 ? EXR_PIXEL_HALF : EXR_PIXEL_FLOAT,
            EXR_PERCEPTUALLY_LOGARITHMIC, 1, 1);
    if (r == EXR_ERR_SUCCESS && p->dpi_x > 0) r = exr_attr_set_float(e->file, part, "xDensity", (float)p->dpi_x);
    if (r == EXR_ERR_SUCCESS && p->dpi_x > 0 && p->dpi_y > 0)
        r = exr_attr_set_float(e->file, part, "pixelAspectRatio", (float)(p->dpi_y / p->dpi_x));
    if (r == EXR_ERR_SUCCESS) r = gale__exr_notes_write(e->file, part, &p->exr);
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
        if (r == EXR_ERR_SUCCESS)
            r = first ? exr_encoding_initialize(e->file, 0, &chunk, d) : exr_encoding_update(e->file, 0, &chunk, d);
        if (r != EXR_ERR_SUCCESS) break;
        if (!point(e, d->channels, d->channel_count, 0, y)) return EXR_ERR_BAD_CHUNK_LEADER;
        if (first) r = exr_encoding_choose_default_routines(e->file, 0, d);
        if (r == EXR_ERR_SUCCESS) r = exr_encoding_run(e->file, 0, d);
    }
    return r;
}

gale_status gale__write_exr(const gale_picture *p, const gale_picture_write_options *o, gale__str *out)
{
    static const char *const names[2][4] = {{"Y", "A"}, {"R", "G", "B", "A"}};
    exr e = {.out = out, .picture = (gale_picture *)p, .choice.channels = p->channels};
    exr_encode_pipeline_t d = EXR_ENCODE_PIPELINE_INITIALIZER;
    exr_context_initializer_t s = starter(&e);
    complaint[0] = 0;
    memcpy(e.choice.names, names[p->channels > 2], sizeof e.choice.names);
    if (p->width > INT32_MAX / 32)
        return gale__fail(GALE_LIMIT, "EXR: rows of %lld pixels are too long", (long long)p->width);
    if (o->effort) s.zip_level = o->effort;
    gale_status status = said(exr_start_write(&e.file, "picture", EXR_WRITE_FILE_DIRECTLY, &s));
    if (status == GALE_OK) status = said(write_header(&e));
    if (status == GALE_OK) status = said(write_lines(&e, &d));
    if (d.context) exr_encoding_destroy(e.file, &d);
    exr_result_t end = e.file ? exr_finish(&e.file) : EXR_ERR_SUCCESS;
    if (status == GALE_OK) status = said(end);
    return out->failed ? GALE_NO_MEMORY : status;
}
