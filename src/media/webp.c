/* WebP with libwebp; profile, EXIF and XMP are in chunks that libwebpmux reads and writes.  Of an animation the first
 * frame is read. */
#include "media/formats.h"
#include "media/webp.h"
#include <string.h>

static gale_status read_pixels(const gale__picture_source *in, const WebPData *bytes, gale_picture **out)
{
    WebPBitstreamFeatures f;
    if (WebPGetFeatures(bytes->bytes, bytes->size, &f) != VP8_STATUS_OK)
        return gale__fail(GALE_FORMAT, "WebP: the header is damaged or truncated");
    if (f.has_animation) return gale__fail(GALE_FORMAT, "WebP: damaged: nested animation");
    GALE_TRY(gale__picture_begin(in, (uint64_t)f.width, (uint64_t)f.height, f.has_alpha ? 4 : 3, GALE_U8, out));
    (*out)->lossless = f.format == 2; /* 1: lossy, 0: both */
    size_t row = gale__picture_row_bytes(*out);
    if (row > INT32_MAX) return gale__fail(GALE_LIMIT, "WebP: rows are too long");
    uint8_t *done = f.has_alpha
                        ? WebPDecodeRGBAInto(bytes->bytes, bytes->size, (*out)->data, row * (size_t)f.height, (int)row)
                        : WebPDecodeRGBInto(bytes->bytes, bytes->size, (*out)->data, row * (size_t)f.height, (int)row);
    return done ? GALE_OK : gale__fail(GALE_FORMAT, "WebP: the pixels are damaged or truncated");
}

gale_status gale__webp_read_notes(WebPMux *mux, gale_picture *p)
{
    WebPData chunk;
    if (WebPMuxGetChunk(mux, "ICCP", &chunk) == WEBP_MUX_OK)
        GALE_TRY(gale__picture_bytes_set(&p->icc, chunk.bytes, chunk.size));
    if (WebPMuxGetChunk(mux, "XMP ", &chunk) == WEBP_MUX_OK)
        GALE_TRY(gale__picture_bytes_set(&p->xmp, chunk.bytes, chunk.size));
    if (WebPMuxGetChunk(mux, "EXIF", &chunk) != WEBP_MUX_OK) return GALE_OK;
    bool headed = chunk.size > 6 && !memcmp(chunk.bytes, "Exif\0\0", 6); /* as some programs write it */
    return gale__picture_bytes_set(&p->exif, chunk.bytes + (headed ? 6 : 0), chunk.size - (headed ? 6 : 0));
}

/* A frame of an animation may be a part of the picture; the rest is transparent. */
static gale_status place_frame(
    const gale__picture_source *in, WebPMux *mux, const WebPMuxFrameInfo *frame, gale_picture **p)
{
    int width = 0, height = 0;
    gale_picture *part = *p, *wide = NULL, *whole = NULL;
    if (WebPMuxGetCanvasSize(mux, &width, &height) != WEBP_MUX_OK || (width == part->width && height == part->height))
        return GALE_OK;
    if (frame->x_offset < 0 || frame->y_offset < 0 || frame->x_offset + part->width > width ||
        frame->y_offset + part->height > height)
        return gale__fail(GALE_FORMAT, "WebP: a frame is outside the picture");
    GALE_TRY(gale__picture_begin(in, (uint64_t)width, (uint64_t)height, 4, GALE_U8, &whole));
    gale_status status = gale_picture_convert(part, GALE_U8, 4, &wide);
    if (status == GALE_OK) memset(whole->data, 0, gale__picture_row_bytes(whole) * (size_t)height);
    for (int64_t y = 0; y < part->height && status == GALE_OK; y++)
        memcpy((char *)gale__picture_row(whole, frame->y_offset + y) + 4 * (size_t)frame->x_offset,
            gale__picture_row(wide, y), gale__picture_row_bytes(wide));
    gale_picture_destroy(&wide);
    gale_picture_destroy(status == GALE_OK ? p : &whole);
    if (status == GALE_OK) *p = whole;
    return status;
}

/* What is read of it: the first frame. */
static gale_status read_animation(
    gale__picture_source *in, WebPMux *mux, const WebPMuxFrameInfo *frame, gale_picture **p)
{
    int frames = 0;
    if (frame->id != WEBP_CHUNK_ANMF) return GALE_OK;
    if (WebPMuxNumChunks(mux, WEBP_CHUNK_ANMF, &frames) == WEBP_MUX_OK) in->frames = frames;
    return place_frame(in, mux, frame, p);
}

gale_status gale__read_webp(gale__picture_source *in, gale_picture **out)
{
    WebPData file = {in->data, in->size};
    WebPMux *mux = WebPMuxCreate(&file, 0);
    WebPMuxFrameInfo frame = {0};
    gale_picture *p = NULL;
    if (!mux) return gale__fail(GALE_FORMAT, "WebP: the file is damaged or truncated");
    gale_status status = WebPMuxGetFrame(mux, 1, &frame) == WEBP_MUX_OK
                             ? read_pixels(in, &frame.bitstream, &p)
                             : gale__fail(GALE_FORMAT, "WebP: the file contains no picture");
    if (status == GALE_OK) status = read_animation(in, mux, &frame, &p);
    if (status == GALE_OK) status = gale__webp_read_notes(mux, p);
    WebPDataClear(&frame.bitstream);
    WebPMuxDelete(mux);
    if (status == GALE_OK) *out = p;
    else gale_picture_destroy(&p);
    return status;
}

static int take_bytes(const uint8_t *data, size_t size, const WebPPicture *picture)
{
    gale__str *out = picture->custom_ptr;
    gale__str_add_n(out, (const char *)data, size);
    return !out->failed;
}

gale_status gale__webp_configure(const gale_picture_write_options *o, WebPConfig *config)
{
    if (!WebPConfigInit(config))
        return gale__fail(GALE_UNSUPPORTED, "WebP: the library has a different version than its headers");
    if (o->lossless) WebPConfigLosslessPreset(config, o->effort ? o->effort : 6);
    else {
        config->quality = (float)o->quality;
        config->method = o->effort ? (o->effort > 6 ? 6 : o->effort) : 4;
    }
    config->exact = 1;
    return GALE_OK;
}

static gale_status encode(const gale_picture *p, const gale_picture_write_options *o, gale__str *out)
{
    WebPConfig config;
    WebPPicture w;
    GALE_TRY(gale__webp_configure(o, &config));
    if (!WebPPictureInit(&w))
        return gale__fail(GALE_UNSUPPORTED, "WebP: the library has a different version than its headers");
    w.use_argb = o->lossless;
    w.width = (int)p->width;
    w.height = (int)p->height;
    w.writer = take_bytes;
    w.custom_ptr = out;
    int row = (int)gale__picture_row_bytes(p);
    bool done = (p->channels == 4 ? WebPPictureImportRGBA(&w, p->data, row) : WebPPictureImportRGB(&w, p->data, row)) &&
                WebPEncode(&config, &w);
    int code = w.error_code;
    WebPPictureFree(&w);
    if (done) return GALE_OK;
    return out->failed || code == VP8_ENC_ERROR_OUT_OF_MEMORY
               ? gale__fail(GALE_NO_MEMORY, "WebP: out of memory")
               : gale__fail(GALE_UNSUPPORTED, "WebP: encoding failed (error %d)", code);
}

gale_status gale__webp_add_notes(const gale_picture *p, bool animated, gale__str *out)
{
    if (!gale__icc_fits(p) && !p->exif.size && !p->xmp.size) return GALE_OK;
    WebPData plain = {(const uint8_t *)out->text, out->length}, icc = {p->icc.data, p->icc.size},
             exif = {p->exif.data, p->exif.size}, xmp = {p->xmp.data, p->xmp.size}, whole = {0};
    WebPMux *mux = animated ? WebPMuxCreate(&plain, 1) : WebPMuxNew();
    bool done = mux && (animated || WebPMuxSetImage(mux, &plain, 0) == WEBP_MUX_OK);
    if (done && gale__icc_fits(p)) done = WebPMuxSetChunk(mux, "ICCP", &icc, 0) == WEBP_MUX_OK;
    if (done && exif.size) done = WebPMuxSetChunk(mux, "EXIF", &exif, 0) == WEBP_MUX_OK;
    if (done && xmp.size) done = WebPMuxSetChunk(mux, "XMP ", &xmp, 0) == WEBP_MUX_OK;
    if (done) done = WebPMuxAssemble(mux, &whole) == WEBP_MUX_OK;
    WebPMuxDelete(mux);
    if (!done) return gale__fail(GALE_NO_MEMORY, "WebP: profile, EXIF and XMP cannot be added");
    gale__str_finish(out);
    gale__str_add_n(out, (const char *)whole.bytes, whole.size);
    WebPDataClear(&whole);
    return GALE_OK;
}

gale_status gale__write_webp(const gale_picture *p, const gale_picture_write_options *o, gale__str *out)
{
    GALE_TRY(encode(p, o, out));
    return gale__webp_add_notes(p, false, out);
}
