/* OpenEXR through its C core: one layer of one part as a picture of half or float, and such a picture as a file.
 * Values are linear, colours are premultiplied.  The picture is the display window: data outside is cropped, missing
 * data is black and transparent. */
#include "media/exr.h"
#include <stdio.h>
#include <string.h>

typedef struct exr {
    gale__str *out;
    exr_context_t file;
    const gale_picture *picture;
    const char *names[4];
} exr;

static int64_t box_width(const gale_exr_box *b) { return (int64_t)b->x1 - b->x0 + 1; }
static int64_t box_height(const gale_exr_box *b) { return (int64_t)b->y1 - b->y0 + 1; }

gale_exr_box gale__exr_frame(const gale_exr_part *p)
{
    const gale_exr_box *d = &p->data, *s = &p->display;
    if (s->x0 > d->x1 || s->x1 < d->x0 || s->y0 > d->y1 || s->y1 < d->y0 || box_width(s) < 1 || box_height(s) < 1)
        return *d;
    return *s;
}

static void tell_cut(const gale_exr_box *d, const gale_exr_box *s)
{
    if (s->x0 > d->x0 || s->x1 < d->x1 || s->y0 > d->y0 || s->y1 < d->y1)
        gale__log(GALE__WARN,
            "EXR: %lld x %lld pixels at %d, %d are cropped to the display window of %lld x %lld at %d, %d",
            (long long)box_width(d), (long long)box_height(d), d->x0, d->y0, (long long)box_width(s),
            (long long)box_height(s), s->x0, s->y0);
}

static gale_status read_notes(const gale_exr *f, int part, gale_picture *p)
{
    float density = 0;
    if (exr_attr_get_float(f->file, part, "xDensity", &density) == EXR_ERR_SUCCESS && density > 0) {
        p->dpi_x = density;
        p->dpi_y = density * f->parts[part].pixel_aspect;
    }
    p->linear = true;
    p->premultiplied = p->channels % 2 == 0;
    return gale__exr_notes_read(f->file, part, &p->exr);
}

/* The chosen channels as a picture. */
static gale_status read_chosen(gale_exr *f, const gale__picture_source *in, gale_picture **made)
{
    gale__exr_choice c;
    GALE_TRY(gale__exr_choose(f->file, in->layer, &c));
    gale__exr_tell_rest(f->file, &c);
    const gale_exr_part *part = &f->parts[c.part];
    int64_t w, h;
    GALE_TRY(gale_exr_level_size(f, c.part, 0, 0, &w, &h));
    gale_exr_box shown = gale__exr_frame(part);
    tell_cut(&part->data, &shown);
    GALE_TRY(
        gale__picture_begin(in, (uint64_t)box_width(&shown), (uint64_t)box_height(&shown), c.channels, c.type, made));
    gale_picture *p = *made;
    size_t size = gale_type_size(c.type), row = gale__picture_row_bytes(p);
    gale__exr_canvas canvas = {c.type, p->data, size, size * (size_t)c.channels, row, p->width, p->height,
        (int64_t)part->data.x0 - shown.x0, (int64_t)part->data.y0 - shown.y0};
    if (memcmp(&shown, &part->data, sizeof shown)) memset(p->data, 0, row * (size_t)p->height);
    GALE_TRY(gale__exr_paint(f, &c, 0, 0, &canvas));
    return read_notes(f, c.part, p);
}

gale_status gale__read_exr(gale__picture_source *in, gale_picture **out)
{
    gale_exr *f = NULL;
    gale_picture *made = NULL;
    gale_exr_limits limits = {.max_pixels = in->max_pixels, .max_bytes = in->max_bytes};
    GALE_TRY(gale_exr_from_memory(in->data, in->size, &limits, &f));
    gale_status status = read_chosen(f, in, &made);
    gale_exr_close(&f);
    if (status == GALE_OK) *out = made;
    else gale_picture_destroy(&made);
    return status;
}

static int64_t take_bytes(
    exr_const_context_t c, void *user, const void *from, uint64_t n, uint64_t at, exr_stream_error_func_ptr_t error)
{
    (void)c, (void)error;
    return gale__picture_memory_put(((exr *)user)->out, at, from, (size_t)n) ? (int64_t)n : -1;
}

/* Where the samples of rows from y on are. */
static void point(const exr *e, exr_coding_channel_info_t *channels, int count, int64_t y)
{
    const gale_picture *p = e->picture;
    size_t size = gale_type_size(p->type);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < p->channels; k++) {
            exr_coding_channel_info_t *c = &channels[i];
            if (strcmp(c->channel_name, e->names[k])) continue;
            c->user_bytes_per_element = (int16_t)size;
            c->user_data_type = p->type == GALE_F16 ? EXR_PIXEL_HALF : EXR_PIXEL_FLOAT;
            c->user_pixel_stride = (int32_t)(size * (size_t)p->channels);
            c->user_line_stride = (int32_t)gale__picture_row_bytes(p);
            c->encode_from_ptr = (const uint8_t *)gale__picture_row(p, y) + (size_t)k * size;
        }
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
        r = exr_add_channel(e->file, part, e->names[i], p->type == GALE_F16 ? EXR_PIXEL_HALF : EXR_PIXEL_FLOAT,
            EXR_PERCEPTUALLY_LOGARITHMIC, 1, 1);
    if (r == EXR_ERR_SUCCESS && p->dpi_x > 0) r = exr_attr_set_float(e->file, part, "xDensity", (float)p->dpi_x);
    if (r == EXR_ERR_SUCCESS && p->dpi_x > 0 && p->dpi_y > 0)
        r = exr_attr_set_float(e->file, part, "pixelAspectRatio", (float)(p->dpi_y / p->dpi_x));
    if (r == EXR_ERR_SUCCESS) r = gale__exr_notes_write(e->file, part, &p->exr);
    return r == EXR_ERR_SUCCESS ? exr_write_header(e->file) : r;
}

static exr_result_t write_lines(exr *e)
{
    gale__exr_packer packer = {.file = e->file};
    int32_t lines = 1;
    exr_chunk_info_t chunk;
    exr_result_t r = exr_get_scanlines_per_chunk(e->file, 0, &lines);
    for (int64_t y = 0; y < e->picture->height && r == EXR_ERR_SUCCESS; y += lines) {
        exr_encode_pipeline_t *d = NULL;
        r = exr_write_scanline_chunk_info(e->file, 0, (int)y, &chunk);
        if (r == EXR_ERR_SUCCESS) r = gale__exr_packer_add(&packer, &chunk, &d);
        if (r == EXR_ERR_SUCCESS) point(e, d->channels, d->channel_count, y);
    }
    return gale__exr_packer_finish(&packer, r);
}

gale_status gale__write_exr(const gale_picture *p, const gale_picture_write_options *o, gale__str *out)
{
    static const char *const names[2][4] = {{"Y", "A"}, {"R", "G", "B", "A"}};
    exr e = {.out = out, .picture = p};
    exr_context_initializer_t s = gale__exr_starter(&e);
    s.write_fn = take_bytes;
    gale__exr_hush();
    memcpy(e.names, names[p->channels > 2], sizeof e.names);
    if (p->width > INT32_MAX / 32)
        return gale__fail(GALE_LIMIT, "EXR: rows of %lld pixels are too long", (long long)p->width);
    if (o->effort) s.zip_level = o->effort;
    gale_status status = gale__exr_said(exr_start_write(&e.file, "picture", EXR_WRITE_FILE_DIRECTLY, &s));
    if (status == GALE_OK) status = gale__exr_said(write_header(&e));
    if (status == GALE_OK) status = gale__exr_said(write_lines(&e));
    exr_result_t end = e.file ? exr_finish(&e.file) : EXR_ERR_SUCCESS;
    if (status == GALE_OK) status = gale__exr_said(end);
    return out->failed ? GALE_NO_MEMORY : status;
}
