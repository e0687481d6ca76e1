/* Writes GIF: every frame is a whole picture with its own palette.  Times are in hundredths of a second; what rounding
 * loses is added to the next frames. */
#include "media/animation.h"
#include "media/formats.h"
#include <gif_lib.h>
#include <string.h>

typedef struct writer {
    GifFileType *file;
    gale__str out;
    int loops, frames;
    int64_t milliseconds, centiseconds; /* given, and written */
} writer;

static int take_bytes(GifFileType *file, const GifByteType *from, int n)
{
    writer *w = file->UserData;
    gale__str_add_n(&w->out, (const char *)from, n > 0 ? (size_t)n : 0);
    return w->out.failed ? 0 : n;
}

static gale_status failed(const writer *w)
{
    if (w->out.failed || w->file->Error == E_GIF_ERR_NOT_ENOUGH_MEM)
        return gale__fail(GALE_NO_MEMORY, "GIF: out of memory");
    return gale__fail(GALE_UNSUPPORTED, "GIF: %s",
        GifErrorString(w->file->Error) ? GifErrorString(w->file->Error) : "cannot be written");
}

static void out_close(void *state)
{
    writer *w = state;
    if (w->file) EGifCloseFile(w->file, NULL);
    gale__str_finish(&w->out);
    gale__free(w);
}

static gale_status out_open(const gale_picture_write_options *options, int loops, void **state)
{
    int error = 0;
    writer *w = gale__calloc(1, sizeof *w);
    (void)options;
    if (!w) return GALE_NO_MEMORY;
    w->loops = loops;
    if (!(w->file = EGifOpen(w, take_bytes, &error))) {
        gale__free(w);
        return gale__fail(GALE_NO_MEMORY, "GIF: out of memory");
    }
    EGifSetGifVersion(w->file, true);
    *state = w;
    return GALE_OK;
}

/* The whole picture, and how often it is shown. */
static gale_status put_head(writer *w, const gale_picture *p)
{
    int again = w->loops > 1 ? w->loops - 1 : 0;
    const GifByteType block[3] = {1, (GifByteType)(again & 255), (GifByteType)(again >> 8 & 255)};
    if (EGifPutScreenDesc(w->file, (int)p->width, (int)p->height, 8, 0, NULL) == GIF_ERROR) return failed(w);
    if (w->loops == 1) return GALE_OK;
    if (EGifPutExtensionLeader(w->file, APPLICATION_EXT_FUNC_CODE) == GIF_ERROR ||
        EGifPutExtensionBlock(w->file, 11, "NETSCAPE2.0") == GIF_ERROR ||
        EGifPutExtensionBlock(w->file, 3, block) == GIF_ERROR || EGifPutExtensionTrailer(w->file) == GIF_ERROR)
        return failed(w);
    return GALE_OK;
}

static gale_status put_control(writer *w, int transparent, int milliseconds)
{
    GifByteType bytes[4];
    w->milliseconds += milliseconds > 0 ? milliseconds : 0;
    int64_t delay = (w->milliseconds + 5) / 10 - w->centiseconds;
    delay = delay < 0 ? 0 : delay > UINT16_MAX ? UINT16_MAX : delay;
    w->centiseconds += delay;
    /* the next frame may be transparent where this one is not */
    GraphicsControlBlock control = {
        .DisposalMode = DISPOSE_BACKGROUND, .DelayTime = (int)delay, .TransparentColor = transparent};
    EGifGCBToExtension(&control, bytes);
    return EGifPutExtension(w->file, GRAPHICS_EXT_FUNC_CODE, 4, bytes) == GIF_ERROR ? failed(w) : GALE_OK;
}

static gale_status put_pixels(writer *w, const gale_picture *p, gale__gif_colours *c)
{
    GifColorType colours[256] = {{0}};
    for (int i = 0; i < c->count; i++)
        colours[i] = (GifColorType){c->palette[i][0], c->palette[i][1], c->palette[i][2]};
    int used = c->transparent >= 0 ? 256 : c->count, size = 2;
    while (size < used) size *= 2;
    ColorMapObject *map = GifMakeMapObject(size, colours);
    if (!map) return gale__fail(GALE_NO_MEMORY, "GIF: out of memory");
    int done = EGifPutImageDesc(w->file, 0, 0, (int)p->width, (int)p->height, false, map);
    for (int64_t y = 0; y < p->height && done != GIF_ERROR; y++)
        done = EGifPutLine(w->file, c->indices + y * p->width, (int)p->width);
    GifFreeMapObject(map);
    return done == GIF_ERROR ? failed(w) : GALE_OK;
}

static gale_status out_add(void *state, const gale_picture *p, int milliseconds)
{
    writer *w = state;
    gale__gif_colours colours = {0};
    if (!w->frames) GALE_TRY(put_head(w, p));
    GALE_TRY(gale__gif_quantise(p, &colours));
    gale_status status = put_control(w, colours.transparent, milliseconds);
    if (status == GALE_OK) status = put_pixels(w, p, &colours);
    gale__free(colours.indices);
    w->frames++;
    return status;
}

static gale_status out_finish(void *state, gale__str *out)
{
    writer *w = state;
    int error = 0;
    GifFileType *file = w->file;
    w->file = NULL;
    bool closed = EGifCloseFile(file, &error) != GIF_ERROR;
    if (!closed || w->out.failed) return gale__fail(GALE_NO_MEMORY, "GIF: out of memory");
    gale__str_finish(out);
    *out = w->out;
    w->out = (gale__str){0};
    return GALE_OK;
}

const gale__frames_out gale__frames_out_gif = {out_open, out_add, out_finish, out_close};

gale_status gale__write_gif(const gale_picture *p, const gale_picture_write_options *o, gale__str *out)
{
    void *state = NULL;
    GALE_TRY(out_open(o, 1, &state));
    gale_status status = out_add(state, p, 0);
    if (status == GALE_OK) status = out_finish(state, out);
    out_close(state);
    return status;
}
