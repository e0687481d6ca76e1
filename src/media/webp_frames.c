/* Animations in WebP: read by libwebpdemux, which lays frames over each other, and written by libwebpmux, which finds
 * out what has changed between them. */
#include "media/animation.h"
#include "media/webp.h"
#include <webp/demux.h>
#include <string.h>

typedef struct reader {
    const gale__picture_source *in;
    WebPAnimDecoder *decoder;
    WebPMux *mux;
    int64_t width, height;
    int last; /* when the last frame ended, in milliseconds */
    bool lossless;
} reader;

static void in_close(void *state)
{
    reader *r = state;
    WebPAnimDecoderDelete(r->decoder);
    WebPMuxDelete(r->mux);
    gale__free(r);
}

/* Extents are held to the limits before the decoder allocates its canvas. */
static gale_status check_extents(const gale__picture_source *in, int64_t *width, int64_t *height)
{
    gale_picture *p = NULL;
    WebPBitstreamFeatures f;
    if (WebPGetFeatures(in->data, in->size, &f) != VP8_STATUS_OK)
        return gale__fail(GALE_FORMAT, "WebP: the header is damaged or truncated");
    GALE_TRY(gale__picture_begin(in, (uint64_t)f.width, (uint64_t)f.height, 4, GALE_U8, &p));
    gale_picture_destroy(&p);
    *width = f.width;
    *height = f.height;
    return GALE_OK;
}

static bool first_is_lossless(WebPMux *mux)
{
    WebPMuxFrameInfo frame = {0};
    WebPBitstreamFeatures f = {0};
    bool known = WebPMuxGetFrame(mux, 1, &frame) == WEBP_MUX_OK &&
                 WebPGetFeatures(frame.bitstream.bytes, frame.bitstream.size, &f) == VP8_STATUS_OK;
    WebPDataClear(&frame.bitstream);
    return known && f.format == 2;
}

static gale_status in_open(const gale__picture_source *in, gale_animation_info *info, void **state)
{
    const WebPData file = {in->data, in->size};
    WebPAnimInfo about;
    GALE_TRY(check_extents(in, &info->width, &info->height));
    reader *r = gale__calloc(1, sizeof *r);
    if (!r) return GALE_NO_MEMORY;
    *r = (reader){.in = in, .mux = WebPMuxCreate(&file, 0), .width = info->width, .height = info->height};
    if (r->mux) r->decoder = WebPAnimDecoderNew(&file, NULL);
    if (!r->decoder || !WebPAnimDecoderGetInfo(r->decoder, &about) || about.canvas_width != info->width ||
        about.canvas_height != info->height) {
        in_close(r);
        return gale__fail(GALE_FORMAT, "WebP: the file is damaged or truncated");
    }
    r->lossless = first_is_lossless(r->mux);
    info->frames = (int)about.frame_count;
    info->loops = (int)about.loop_count;
    *state = r;
    return GALE_OK;
}

static gale_status in_next(void *state, gale_picture **frame, int *milliseconds)
{
    reader *r = state;
    uint8_t *pixels = NULL;
    int ended = 0;
    if (!WebPAnimDecoderHasMoreFrames(r->decoder)) return GALE_OK;
    if (!WebPAnimDecoderGetNext(r->decoder, &pixels, &ended))
        return gale__fail(GALE_FORMAT, "WebP: a frame is damaged or truncated");
    gale_picture canvas = {.width = r->width, .height = r->height, .channels = 4, .type = GALE_U8, .data = pixels};
    GALE_TRY(gale__frame_copy(&canvas, frame));
    *milliseconds = ended - r->last;
    r->last = ended;
    (*frame)->lossless = r->lossless;
    return gale__webp_read_notes(r->mux, *frame);
}

const gale__frames_in gale__frames_in_webp = {in_open, in_next, in_close};

typedef struct writer {
    gale_picture_write_options options;
    int loops, now;
    WebPAnimEncoder *encoder;
    gale_picture *notes; /* those of the first frame, with a pixel that is not used */
} writer;

static void out_close(void *state)
{
    writer *w = state;
    WebPAnimEncoderDelete(w->encoder);
    gale_picture_destroy(&w->notes);
    gale__free(w);
}

static gale_status out_open(const gale_picture_write_options *options, int loops, void **state)
{
    writer *w = gale__calloc(1, sizeof *w);
    if (!w) return GALE_NO_MEMORY;
    w->options = *options;
    w->loops = loops;
    *state = w;
    return GALE_OK;
}

static gale_status begin(writer *w, const gale_picture *p)
{
    WebPAnimEncoderOptions o;
    if (!WebPAnimEncoderOptionsInit(&o))
        return gale__fail(GALE_UNSUPPORTED, "WebP: the library has a different version than its headers");
    o.anim_params.loop_count = w->loops;
    GALE_TRY(gale_picture_create(1, 1, 3, GALE_U8, &w->notes));
    GALE_TRY(gale__picture_notes_copy(p, w->notes));
    w->encoder = WebPAnimEncoderNew((int)p->width, (int)p->height, &o);
    return w->encoder ? GALE_OK : gale__fail(GALE_NO_MEMORY, "WebP: out of memory");
}

static gale_status out_add(void *state, const gale_picture *p, int milliseconds)
{
    writer *w = state;
    WebPConfig config;
    WebPPicture frame;
    if (!w->encoder) GALE_TRY(begin(w, p));
    GALE_TRY(gale__webp_configure(&w->options, &config));
    if (!WebPPictureInit(&frame))
        return gale__fail(GALE_UNSUPPORTED, "WebP: the library has a different version than its headers");
    frame.use_argb = 1;
    frame.width = (int)p->width;
    frame.height = (int)p->height;
    int row = (int)gale__picture_row_bytes(p);
    bool done =
        (p->channels == 4 ? WebPPictureImportRGBA(&frame, p->data, row) : WebPPictureImportRGB(&frame, p->data, row)) &&
        WebPAnimEncoderAdd(w->encoder, &frame, w->now, &config);
    WebPPictureFree(&frame);
    w->now += milliseconds > 0 ? milliseconds : 0;
    return done ? GALE_OK : gale__fail(GALE_UNSUPPORTED, "WebP: %s", WebPAnimEncoderGetError(w->encoder));
}

static gale_status out_finish(void *state, gale__str *out)
{
    writer *w = state;
    WebPData whole;
    WebPDataInit(&whole);
    if (!w->encoder || !WebPAnimEncoderAdd(w->encoder, NULL, w->now, NULL) ||
        !WebPAnimEncoderAssemble(w->encoder, &whole)) {
        WebPDataClear(&whole);
        return gale__fail(
            GALE_UNSUPPORTED, "WebP: %s", w->encoder ? WebPAnimEncoderGetError(w->encoder) : "no frame was added");
    }
    gale__str_add_n(out, (const char *)whole.bytes, whole.size);
    WebPDataClear(&whole);
    GALE_TRY(gale__str_check(out));
    return gale__webp_add_notes(w->notes, true, out);
}

const gale__frames_out gale__frames_out_webp = {out_open, out_add, out_finish, out_close};
