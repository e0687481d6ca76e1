/* Animated PNG, which libpng does not support: each frame is turned into a separate file that libpng reads, and what
 * it writes is split into chunks again. */
#include "media/animation.h"
#include "media/formats.h"
#include <string.h>
#include <zlib.h>

enum { SIGNATURE = 8, AROUND = 12 /* bytes of a chunk beside its data */, CONTROL = 26, IHDR = 13 };
enum { DISPOSE_NONE, DISPOSE_BACKGROUND, DISPOSE_PREVIOUS };

typedef struct chunk {
    const uint8_t *data; /* behind length and name */
    uint32_t size;
    char name[5];
} chunk;

typedef struct reader {
    const gale__picture_source *in;
    size_t at;
    gale__str head; /* what stands before the first pixels, but for signature and IHDR */
    uint8_t ihdr[IHDR];
    gale_picture *canvas, *before;
    uint8_t control[CONTROL]; /* of the frame that comes */
    uint8_t last[CONTROL];    /* of the frame that was; its `dispose` is done before the next */
    int frames;
} reader;

static bool next_chunk(reader *r, chunk *c)
{
    const gale__picture_source *in = r->in;
    if (r->at > in->size || in->size - r->at < AROUND) return false;
    const uint8_t *d = in->data + r->at;
    c->size = gale__be32(d);
    if (c->size > in->size - r->at - AROUND) return false;
    memcpy(c->name, d + 4, 4);
    c->name[4] = 0;
    c->data = d + 8;
    r->at += (size_t)c->size + AROUND;
    return true;
}

static void put32(gale__str *out, uint32_t v)
{
    const uint8_t bytes[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
    gale__str_add_n(out, (const char *)bytes, 4);
}

/* A chunk whose data are of two parts. */
static void put_chunk(gale__str *out, const char *name, const void *a, size_t n, const void *b, size_t m)
{
    uLong sum = crc32(0, (const Bytef *)name, 4);
    put32(out, (uint32_t)(n + m));
    gale__str_add_n(out, name, 4);
    if (n) gale__str_add_n(out, a, n), sum = crc32_z(sum, a, n);
    if (m) gale__str_add_n(out, b, m), sum = crc32_z(sum, b, m);
    put32(out, (uint32_t)sum);
}

static void in_close(void *state)
{
    reader *r = state;
    gale_picture_destroy(&r->canvas);
    gale_picture_destroy(&r->before);
    gale__str_finish(&r->head);
    gale__free(r);
}

static gale_status truncated(void) { return gale__fail(GALE_FORMAT, "PNG: the animation is damaged or truncated"); }

/* Up to the first frame's control or pixels. */
static gale_status read_head(reader *r, gale_animation_info *info)
{
    chunk c;
    r->at = SIGNATURE;
    if (!next_chunk(r, &c) || strcmp(c.name, "IHDR") || c.size != IHDR) return truncated();
    memcpy(r->ihdr, c.data, IHDR);
    for (size_t before = r->at; next_chunk(r, &c); before = r->at) {
        if (!strcmp(c.name, "fcTL") || !strcmp(c.name, "IDAT") || !strcmp(c.name, "IEND")) {
            r->at = before;
            break;
        }
        if (!strcmp(c.name, "acTL") && c.size == 8) {
            uint32_t frames = gale__be32(c.data), loops = gale__be32(c.data + 4);
            info->frames = frames < INT32_MAX ? (int)frames : 0;
            info->loops = loops < INT32_MAX ? (int)loops : 0;
        } else put_chunk(&r->head, c.name, c.data, c.size, NULL, 0);
    }
    bool deep = r->ihdr[8] == 16;
    info->width = gale__be32(r->ihdr);
    info->height = gale__be32(r->ihdr + 4);
    GALE_TRY(gale__str_check(&r->head));
    GALE_TRY(gale__picture_begin(
        r->in, gale__be32(r->ihdr), gale__be32(r->ihdr + 4), 4, deep ? GALE_U16 : GALE_U8, &r->canvas));
    memset(r->canvas->data, 0, gale__picture_row_bytes(r->canvas) * (size_t)r->canvas->height);
    return GALE_OK;
}

static gale_status in_open(const gale__picture_source *in, gale_animation_info *info, void **state)
{
    reader *r = gale__calloc(1, sizeof *r);
    if (!r) return GALE_NO_MEMORY;
    r->in = in;
    gale_status status = read_head(r, info);
    if (status == GALE_OK) *state = r;
    else in_close(r);
    return status;
}

static size_t pixel_bytes(const gale_picture *p) { return (size_t)p->channels * gale_type_size(p->type); }

/* What the last frame leaves behind. */
static void dispose(reader *r)
{
    const uint8_t *k = r->last;
    gale_picture *c = r->canvas;
    size_t pixel = pixel_bytes(c);
    if (!r->frames) return;
    if (k[24] == DISPOSE_PREVIOUS && r->before)
        memcpy(c->data, r->before->data, gale__picture_row_bytes(c) * (size_t)c->height);
    else if (k[24] == DISPOSE_BACKGROUND || k[24] == DISPOSE_PREVIOUS)
        for (uint32_t y = 0; y < gale__be32(k + 8); y++)
            memset((char *)gale__picture_row(c, gale__be32(k + 16) + (int64_t)y) + gale__be32(k + 12) * pixel, 0,
                gale__be32(k + 4) * pixel);
}

/* A file of its own for the pixels that follow, up to the next frame. */
static gale_status collect(reader *r, gale__str *file)
{
    chunk c;
    uint8_t ihdr[IHDR];
    bool any = false;
    memcpy(ihdr, r->ihdr, IHDR);
    memcpy(ihdr, r->control + 4, 8);
    gale__str_add_n(file, "\x89PNG\r\n\x1a\n", SIGNATURE);
    put_chunk(file, "IHDR", ihdr, IHDR, NULL, 0);
    gale__str_add_n(file, r->head.text, r->head.length);
    for (size_t before = r->at; next_chunk(r, &c); before = r->at) {
        bool first = !strcmp(c.name, "IDAT"), later = !strcmp(c.name, "fdAT") && c.size >= 4;
        if (first) put_chunk(file, "IDAT", c.data, c.size, NULL, 0);
        if (later) put_chunk(file, "IDAT", c.data + 4, c.size - 4, NULL, 0);
        any |= first || later;
        if (strcmp(c.name, "fcTL") && strcmp(c.name, "IEND")) continue;
        r->at = before;
        break;
    }
    put_chunk(file, "IEND", NULL, 0, NULL, 0);
    return any ? gale__str_check(file) : truncated();
}

/* Lays the frame over the canvas, or in its place. */
static gale_status paint(reader *r, const gale_picture *part)
{
    gale_picture *wide = NULL, *c = r->canvas;
    const uint8_t *k = r->control;
    size_t pixel = pixel_bytes(c), n = (size_t)part->width;
    GALE_TRY(gale_picture_convert(part, c->type, 4, &wide));
    for (int64_t y = 0; y < part->height; y++) {
        uint8_t *to = (uint8_t *)gale__picture_row(c, gale__be32(k + 16) + y) + gale__be32(k + 12) * pixel,
                *from = gale__picture_row(wide, y);
        if (!k[25]) memcpy(to, from, n * pixel);
        for (size_t x = 0; x < n && k[25]; x++, to += pixel, from += pixel) {
            float a[4], b[4];
            gale__samples_to_f32(c->type, from, a, 4);
            gale__samples_to_f32(c->type, to, b, 4);
            float alpha = a[3] + b[3] * (1 - a[3]);
            for (int i = 0; i < 3; i++) a[i] = alpha > 0 ? (a[i] * a[3] + b[i] * b[3] * (1 - a[3])) / alpha : 0;
            a[3] = alpha;
            gale__samples_from_f32(c->type, a, to, 4);
        }
    }
    gale_picture_destroy(&wide);
    return GALE_OK;
}

static gale_status keep_before(reader *r)
{
    gale_picture *c = r->canvas;
    if (!r->before)
        GALE_TRY(gale__picture_begin(r->in, (uint64_t)c->width, (uint64_t)c->height, 4, c->type, &r->before));
    memcpy(r->before->data, c->data, gale__picture_row_bytes(c) * (size_t)c->height);
    return GALE_OK;
}

/* Past a picture that is not a frame, to the next control; false: there are no more. */
static gale_status find_control(reader *r, bool *found)
{
    chunk c;
    const uint8_t *k = r->control;
    *found = false;
    while (next_chunk(r, &c)) {
        if (!strcmp(c.name, "IEND")) return GALE_OK;
        if (strcmp(c.name, "fcTL") || c.size != CONTROL) continue;
        memcpy(r->control, c.data, CONTROL);
        uint64_t right = (uint64_t)gale__be32(k + 12) + gale__be32(k + 4),
                 bottom = (uint64_t)gale__be32(k + 16) + gale__be32(k + 8);
        if (!gale__be32(k + 4) || !gale__be32(k + 8) || right > (uint64_t)r->canvas->width ||
            bottom > (uint64_t)r->canvas->height)
            return gale__fail(GALE_FORMAT, "PNG: a frame lies outside the picture");
        *found = true;
        return GALE_OK;
    }
    return truncated();
}

static gale_status read_part(reader *r, gale_picture **part)
{
    gale__str file = {0};
    gale_status status = collect(r, &file);
    if (status == GALE_OK) {
        gale__picture_source in = *r->in;
        in.data = (const uint8_t *)file.text;
        in.size = file.length;
        status = gale__read_png(&in, part);
    }
    gale__str_finish(&file);
    return status;
}

static gale_status in_next(void *state, gale_picture **frame, int *milliseconds)
{
    reader *r = state;
    gale_picture *part = NULL;
    bool found;
    dispose(r);
    GALE_TRY(find_control(r, &found));
    if (!found) return GALE_OK;
    gale_status status;
    GALE_GO(read_part(r, &part));
    if (r->control[24] == DISPOSE_PREVIOUS) GALE_GO(keep_before(r));
    GALE_GO(paint(r, part));
    GALE_GO(gale__frame_copy(r->canvas, frame));
    GALE_GO(gale__picture_notes_copy(part, *frame));
    uint32_t above = gale__be16(r->control + 20), below = gale__be16(r->control + 22);
    *milliseconds = (int)(above * 1000 / (below ? below : 100));
    memcpy(r->last, r->control, CONTROL);
    r->frames++;
done:
    gale_picture_destroy(&part);
    return status;
}

const gale__frames_in gale__frames_in_png = {in_open, in_next, in_close};

typedef struct writer {
    gale_picture_write_options options;
    int loops, frames;
    uint32_t sequence;
    gale_type type;
    gale__str head, body; /* before acTL, and after it */
} writer;

static void out_close(void *state)
{
    writer *w = state;
    gale__str_finish(&w->head);
    gale__str_finish(&w->body);
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

static void be32_to(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> 8 * (3 - i));
}

static void put_control(writer *w, const gale_picture *p, int milliseconds)
{
    uint8_t k[CONTROL] = {0};
    int shown = milliseconds < 0 ? 0 : milliseconds > UINT16_MAX ? UINT16_MAX : milliseconds;
    be32_to(k, w->sequence++);
    be32_to(k + 4, (uint32_t)p->width);
    be32_to(k + 8, (uint32_t)p->height);
    k[20] = (uint8_t)(shown >> 8), k[21] = (uint8_t)shown;
    k[22] = 1000 >> 8, k[23] = 1000 & 255;
    put_chunk(&w->body, "fcTL", k, CONTROL, NULL, 0);
}

/* The chunks of a file that was written for one frame: pixels, and of the first what stands before them. */
static void take_chunks(writer *w, const gale__str *file)
{
    const gale__picture_source in = {.data = (const uint8_t *)file->text, .size = file->length};
    reader r = {.in = &in, .at = SIGNATURE};
    chunk c;
    uint8_t number[4];
    if (!w->frames) gale__str_add_n(&w->head, file->text, SIGNATURE);
    while (next_chunk(&r, &c)) {
        bool pixels = !strcmp(c.name, "IDAT");
        if (!pixels && !w->frames && strcmp(c.name, "IEND")) put_chunk(&w->head, c.name, c.data, c.size, NULL, 0);
        if (pixels && !w->frames) put_chunk(&w->body, "IDAT", c.data, c.size, NULL, 0);
        else if (pixels) {
            be32_to(number, w->sequence++);
            put_chunk(&w->body, "fdAT", number, 4, c.data, c.size);
        }
    }
}

/* All frames are RGBA, of the first one's depth: a file has one kind of pixels. */
static gale_status out_add(void *state, const gale_picture *p, int milliseconds)
{
    writer *w = state;
    gale_picture *wide = NULL;
    gale__str file = {0};
    gale_status status;
    if (!w->frames) w->type = p->type == GALE_U8 ? GALE_U8 : GALE_U16;
    GALE_GO(gale_picture_convert(p, w->type, 4, &wide));
    if (!w->frames) GALE_GO(gale__picture_notes_copy(p, wide));
    GALE_GO(gale__write_png(wide, &w->options, &file));
    put_control(w, p, milliseconds);
    take_chunks(w, &file);
    w->frames++;
    GALE_GO(gale__str_check(&w->head));
    GALE_GO(gale__str_check(&w->body));
done:
    gale_picture_destroy(&wide);
    gale__str_finish(&file);
    return status;
}

static gale_status out_finish(void *state, gale__str *out)
{
    writer *w = state;
    uint8_t control[8];
    size_t ihdr = SIGNATURE + AROUND + IHDR;
    if (!w->frames) return gale__fail(GALE_INVALID, "PNG: no frame was added");
    be32_to(control, (uint32_t)w->frames);
    be32_to(control + 4, (uint32_t)w->loops);
    gale__str_add_n(out, w->head.text, ihdr);
    put_chunk(out, "acTL", control, 8, NULL, 0);
    gale__str_add_n(out, w->head.text + ihdr, w->head.length - ihdr);
    gale__str_add_n(out, w->body.text, w->body.length);
    put_chunk(out, "IEND", NULL, 0, NULL, 0);
    return gale__str_check(out);
}

const gale__frames_out gale__frames_out_png = {out_open, out_add, out_finish, out_close};
