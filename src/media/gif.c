/* GIF through giflib.  Frames are parts of a picture that are drawn over each other by GIF's own rules; the result is
 * the whole picture after each frame.  Files without the byte that ends a GIF are accepted. */
#include "media/animation.h"
#include "media/formats.h"
#include <gif_lib.h>
#include <string.h>

enum { CENTI_TO_MILLI = 10, DELAY_USUAL = 100 };

typedef struct gif {
    const gale__picture_source *in;
    size_t at;
    GifFileType *file;
    gale_picture *canvas, *before; /* before: what the last frame is to be replaced with */
    GraphicsControlBlock control;  /* of the frame that comes */
    int dispose, frames;
    int64_t x, y, width, height; /* where the last frame is */
    uint8_t *row;                /* of a frame */
} gif;

static int give_bytes(GifFileType *file, GifByteType *to, int n)
{
    gif *g = file->UserData;
    size_t got = n > 0 ? gale__picture_memory_get(g->in->data, g->in->size, g->at, to, (size_t)n) : 0;
    g->at += got;
    return (int)got;
}

static gale_status failed(const gif *g)
{
    int code = g->file ? g->file->Error : 0;
    const char *why = code ? GifErrorString(code) : NULL;
    if (code == D_GIF_ERR_NOT_ENOUGH_MEM) return gale__fail(GALE_NO_MEMORY, "GIF: out of memory");
    return gale__fail(GALE_FORMAT, "GIF: %s", g->at >= g->in->size ? "the file is truncated" : why ? why : "damaged");
}

/* Past blocks that each say their length; past the end where they are damaged. */
static size_t skip_blocks(const uint8_t *d, size_t n, size_t at)
{
    while (at < n && d[at]) at += (size_t)d[at] + 1;
    return at + 1;
}

/* The bytes of a table of colours, by the byte that speaks of it. */
static size_t table_bytes(uint8_t flags) { return flags & 0x80 ? (size_t)3 << ((flags & 7) + 1) : 0; }

/* Counts frames without unpacking them, and finds how often they are to be shown. */
static void look_through(const uint8_t *d, size_t n, gale_animation_info *info)
{
    size_t at = n >= 13 ? 13 + table_bytes(d[10]) : n;
    info->loops = 1;
    while (at + 10 < n && d[at] != ';') {
        if (d[at] == ',') {
            info->frames++;
            at = skip_blocks(d, n, at + 11 + table_bytes(d[at + 9]));
        } else if (d[at] == '!') {
            if (n - at > 18 && d[at + 1] == 0xff && !memcmp(d + at + 3, "NETSCAPE2.0\3\1", 13)) {
                unsigned again = gale__le16(d + at + 16);
                info->loops = again ? (int)again + 1 : 0;
            }
            at = skip_blocks(d, n, at + 2);
        } else break;
    }
}

static gale_status open_file(gif *g, gale_animation_info *info)
{
    int error = 0;
    g->file = DGifOpen(g, give_bytes, &error);
    if (!g->file)
        return error == D_GIF_ERR_NOT_ENOUGH_MEM ? gale__fail(GALE_NO_MEMORY, "GIF: out of memory")
                                                 : gale__fail(GALE_FORMAT, "GIF: the header is damaged or truncated");
    GALE_TRY(gale__picture_begin(g->in, (uint64_t)g->file->SWidth, (uint64_t)g->file->SHeight, 4, GALE_U8, &g->canvas));
    memset(g->canvas->data, 0, gale__picture_row_bytes(g->canvas) * (size_t)g->canvas->height);
    info->width = g->canvas->width;
    info->height = g->canvas->height;
    g->control.TransparentColor = NO_TRANSPARENT_COLOR;
    return GALE_OK;
}

static void frames_close(void *state)
{
    gif *g = state;
    if (g->file) DGifCloseFile(g->file, NULL);
    gale_picture_destroy(&g->canvas);
    gale_picture_destroy(&g->before);
    gale__free(g->row);
    gale__free(g);
}

static gale_status frames_open(const gale__picture_source *in, gale_animation_info *info, void **state)
{
    gif *g = gale__calloc(1, sizeof *g);
    if (!g) return GALE_NO_MEMORY;
    g->in = in;
    look_through(in->data, in->size, info);
    gale_status status = open_file(g, info);
    if (status == GALE_OK) *state = g;
    else frames_close(g);
    return status;
}

/* What the last frame leaves behind, by its own wish. */
static void dispose(gif *g)
{
    size_t all = gale__picture_row_bytes(g->canvas) * (size_t)g->canvas->height;
    if (g->dispose == DISPOSE_PREVIOUS && g->before) memcpy(g->canvas->data, g->before->data, all);
    else if (g->dispose == DISPOSE_BACKGROUND)
        for (int64_t y = g->y; y < g->y + g->height && y < g->canvas->height; y++)
            if (g->x < g->canvas->width)
                memset((char *)gale__picture_row(g->canvas, y) + 4 * g->x, 0,
                    4 * (size_t)(g->x + g->width < g->canvas->width ? g->width : g->canvas->width - g->x));
    g->dispose = DISPOSAL_UNSPECIFIED;
}

static gale_status read_extension(gif *g)
{
    int code = 0;
    GifByteType *block = NULL;
    if (DGifGetExtension(g->file, &code, &block) == GIF_ERROR) return failed(g);
    if (code == GRAPHICS_EXT_FUNC_CODE && block) DGifExtensionToGCB(block[0], block + 1, &g->control);
    while (block)
        if (DGifGetExtensionNext(g->file, &block) == GIF_ERROR) return failed(g);
    return GALE_OK;
}

static void paint_row(gif *g, const ColorMapObject *colours, int64_t y)
{
    uint8_t *to = (uint8_t *)gale__picture_row(g->canvas, y) + 4 * g->x;
    for (int64_t x = 0; x < g->width && g->x + x < g->canvas->width; x++, to += 4) {
        int index = g->row[x];
        if (index == g->control.TransparentColor || index >= colours->ColorCount) continue;
        const GifColorType *c = &colours->Colors[index];
        memcpy(to, (uint8_t[4]){c->Red, c->Green, c->Blue, 255}, 4);
    }
}

/* Rows come in one pass, or in four that are finer each time. */
static gale_status read_rows(gif *g, const ColorMapObject *colours)
{
    static const int from[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
    bool laced = g->file->Image.Interlace;
    for (int pass = 0; pass < (laced ? 4 : 1); pass++)
        for (int64_t y = laced ? from[pass] : 0; y < g->height; y += laced ? step[pass] : 1) {
            if (DGifGetLine(g->file, g->row, (int)g->width) == GIF_ERROR) return failed(g);
            if (g->y + y < g->canvas->height) paint_row(g, colours, g->y + y);
        }
    return GALE_OK;
}

static gale_status keep_before(gif *g)
{
    if (!g->before)
        GALE_TRY(gale__picture_begin(
            g->in, (uint64_t)g->canvas->width, (uint64_t)g->canvas->height, 4, GALE_U8, &g->before));
    memcpy(g->before->data, g->canvas->data, gale__picture_row_bytes(g->canvas) * (size_t)g->canvas->height);
    return GALE_OK;
}

static gale_status read_frame(gif *g)
{
    if (DGifGetImageDesc(g->file) == GIF_ERROR) return failed(g);
    const GifImageDesc *image = &g->file->Image;
    const ColorMapObject *colours = image->ColorMap ? image->ColorMap : g->file->SColorMap;
    g->x = image->Left, g->y = image->Top, g->width = image->Width, g->height = image->Height;
    if (g->x < 0 || g->y < 0 || g->width < 1 || g->height < 1 ||
        (uint64_t)g->width * (uint64_t)g->height > g->in->max_pixels)
        return gale__fail(
            GALE_FORMAT, "GIF: invalid frame of %lld x %lld pixels", (long long)g->width, (long long)g->height);
    if (!colours) return gale__fail(GALE_FORMAT, "GIF: a frame has no colours");
    gale__free(g->row);
    if (!(g->row = gale__alloc((size_t)g->width))) return GALE_NO_MEMORY;
    g->dispose = g->control.DisposalMode;
    if (g->dispose == DISPOSE_PREVIOUS) GALE_TRY(keep_before(g));
    return read_rows(g, colours);
}

static gale_status give_frame(gif *g, gale_picture **frame, int *milliseconds)
{
    GALE_TRY(read_frame(g));
    /* 0 and 1 are shown as a tenth of a second by every browser */
    *milliseconds = g->control.DelayTime > 1 ? g->control.DelayTime * CENTI_TO_MILLI : DELAY_USUAL;
    g->control = (GraphicsControlBlock){.TransparentColor = NO_TRANSPARENT_COLOR};
    g->frames++;
    return gale__frame_copy(g->canvas, frame);
}

static gale_status frames_next(void *state, gale_picture **frame, int *milliseconds)
{
    gif *g = state;
    dispose(g);
    for (;;) {
        GifRecordType type = UNDEFINED_RECORD_TYPE;
        if (g->at >= g->in->size && g->frames) return GALE_OK;
        if (DGifGetRecordType(g->file, &type) == GIF_ERROR) return failed(g);
        if (type == IMAGE_DESC_RECORD_TYPE) return give_frame(g, frame, milliseconds);
        if (type == EXTENSION_RECORD_TYPE) GALE_TRY(read_extension(g));
        else if (type == TERMINATE_RECORD_TYPE)
            return g->frames ? GALE_OK : gale__fail(GALE_FORMAT, "GIF: the file contains no picture");
    }
}

const gale__frames_in gale__frames_in_gif = {frames_open, frames_next, frames_close};

gale_status gale__read_gif(gale__picture_source *in, gale_picture **out)
{
    gale_animation_info info = {0};
    void *state = NULL;
    int milliseconds;
    GALE_TRY(frames_open(in, &info, &state));
    gale_status status = frames_next(state, out, &milliseconds);
    frames_close(state);
    in->frames = info.frames;
    return status;
}
