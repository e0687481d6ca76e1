/* BMP: palettes of 1, 4 and 8 bits, run-length encoding, 16 to 32 bits with masks, top-down or bottom-up.  Written
 * with 24 bits, or with 32 and an alpha mask.  By hand, since every build has it, and libraries that read BMP
 * (SDL_image, gdk-pixbuf) bring a picture stack of their own. */
#include "media/formats.h"
#include <string.h>

typedef struct bmp {
    const uint8_t *data, *end; /* the file */
    const uint8_t *pixels;
    const uint8_t *palette;
    uint32_t colours, entry; /* of the palette, and bytes of each */
    uint32_t bits, compression;
    uint32_t masks[4];
    int64_t width, height;
    bool top_down;
} bmp;

static gale_status truncated(void) { return gale__fail(GALE_FORMAT, "the file is truncated"); }

static gale_status read_masks(bmp *b, uint32_t header)
{
    static const uint32_t usual[2][4] = {{0x7c00, 0x3e0, 0x1f, 0}, {0xff0000, 0xff00, 0xff, 0}};
    if (b->bits == 16 || b->bits == 32) memcpy(b->masks, usual[b->bits == 32], sizeof b->masks);
    if (b->compression != 3 && b->compression != 6) return GALE_OK;
    size_t count = header >= 56 || b->compression == 6 ? 4 : 3;
    if ((size_t)(b->end - b->data) < 54 + 4 * count) return truncated();
    for (size_t i = 0; i < count; i++) b->masks[i] = gale__le32(b->data + 54 + 4 * i);
    b->compression = 0;
    return GALE_OK;
}

/* The old header of OS/2 has 16-bit extents; all later ones begin alike. */
static gale_status read_header(bmp *b, size_t size)
{
    const uint8_t *d = b->data;
    uint32_t start, header, colours = 0;
    if (size < 26) return truncated();
    start = gale__le32(d + 10);
    header = gale__le32(d + 14);
    b->entry = header == 12 ? 3 : 4;
    if (header == 12) {
        b->width = gale__le16(d + 18);
        b->height = gale__le16(d + 20);
        b->bits = gale__le16(d + 24);
    } else {
        if (header < 40 || size < 54) return truncated();
        b->width = (int32_t)gale__le32(d + 18);
        b->height = (int32_t)gale__le32(d + 22);
        b->bits = gale__le16(d + 28);
        b->compression = gale__le32(d + 30);
        colours = gale__le32(d + 46);
        if (b->compression > 3 && b->compression != 6)
            return gale__fail(GALE_UNSUPPORTED, "BMP compression %u is not supported", b->compression);
    }
    b->top_down = b->height < 0;
    if (b->top_down) b->height = -b->height;
    if (b->width < 1 || b->height < 1) return gale__fail(GALE_FORMAT, "damaged header: no size");
    size_t after = 14 + (size_t)header +
                   (header == 40 && b->compression == 3      ? 12
                       : header == 40 && b->compression == 6 ? 16
                                                             : 0);
    GALE_TRY(read_masks(b, header));
    if (start > size || after > size) return truncated();
    b->pixels = d + start;
    if (b->bits > 8) return GALE_OK;
    b->palette = d + after;
    b->colours = colours && colours < 1u << b->bits ? colours : 1u << b->bits;
    if ((size - after) / b->entry < b->colours) return truncated();
    return GALE_OK;
}

static void put_index(const bmp *b, uint8_t *to, uint32_t index)
{
    const uint8_t *e = b->palette + (size_t)(index < b->colours ? index : 0) * b->entry;
    to[0] = e[2];
    to[1] = e[1];
    to[2] = e[0];
}

/* Pixels in runs, at any place, with the rest left at the first colour. */
static gale_status read_runs(const bmp *b, gale_picture *p)
{
    const uint8_t *at = b->pixels;
    int64_t x = 0, y = 0;
    bool small = b->bits == 4;
    for (size_t i = 0, n = (size_t)(p->width * p->height); i < n; i++) put_index(b, (uint8_t *)p->data + 3 * i, 0);
    while (b->end - at >= 2) {
        uint32_t count = at[0], v = at[1];
        at += 2;
        if (count == 0 && v == 1) return GALE_OK;
        if (count == 0 && v == 0) {
            x = 0;
            if (++y >= p->height) return GALE_OK;
            continue;
        }
        if (count == 0 && v == 2) {
            if (b->end - at < 2) return truncated();
            x += at[0];
            y += at[1];
            at += 2;
            continue;
        }
        bool literal = count == 0;
        size_t bytes = literal ? ((small ? (v + 1) / 2 : v) + 1) / 2 * 2 : 0;
        if ((size_t)(b->end - at) < bytes) return truncated();
        for (uint32_t i = 0, n = literal ? v : count; i < n; i++, x++) {
            uint32_t value = literal ? (small ? at[i / 2] >> (i % 2 ? 0 : 4) & 15 : at[i])
                             : small ? v >> (i % 2 ? 0 : 4) & 15
                                     : v;
            if (x < p->width && y < p->height)
                put_index(b, (uint8_t *)gale__picture_row(p, b->top_down ? y : p->height - 1 - y) + 3 * x, value);
        }
        at += bytes;
    }
    return truncated();
}

/* The masked part of v, stretched to 8 bits. */
static uint8_t masked(uint32_t v, uint32_t mask)
{
    if (!mask) return 0;
    int shift = 0;
    while (!(mask >> shift & 1)) shift++;
    uint64_t most = mask >> shift;
    return (uint8_t)(((v & mask) >> shift) * UINT64_C(255) / most);
}

static void read_row(const bmp *b, const uint8_t *from, uint8_t *to, int channels)
{
    for (int64_t x = 0; x < b->width; x++, to += channels) {
        uint64_t at = (uint64_t)x * b->bits;
        if (b->bits <= 8) put_index(b, to, from[at / 8] >> (8 - b->bits - at % 8) & ((1u << b->bits) - 1));
        else if (b->bits == 24) to[0] = from[at / 8 + 2], to[1] = from[at / 8 + 1], to[2] = from[at / 8];
        else {
            uint32_t v = b->bits == 16 ? gale__le16(from + at / 8) : gale__le32(from + at / 8);
            for (int c = 0; c < channels; c++) to[c] = masked(v, b->masks[c]);
        }
    }
}

gale_status gale__read_bmp(gale__picture_source *in, gale_picture **out)
{
    bmp b = {.data = in->data, .end = in->data + in->size};
    GALE_TRY(read_header(&b, in->size));
    if (b.bits != 1 && b.bits != 4 && b.bits != 8 && b.bits != 16 && b.bits != 24 && b.bits != 32)
        return gale__fail(GALE_FORMAT, "%u bits per pixel is not valid for BMP", b.bits);
    bool runs = b.compression == 1 || b.compression == 2;
    if (runs && b.bits != (b.compression == 1 ? 8 : 4))
        return gale__fail(GALE_FORMAT, "run-length encoding with %u bits is not valid for BMP", b.bits);
    uint64_t row = ((uint64_t)b.width * b.bits + 31) / 32 * 4;
    if (!runs && (uint64_t)(b.end - b.pixels) / row < (uint64_t)b.height) return truncated();
    GALE_TRY(gale__picture_begin(in, (uint64_t)b.width, (uint64_t)b.height, b.masks[3] ? 4 : 3, GALE_U8, out));
    if (in->size >= 46 && gale__le32(in->data + 14) >= 40) {
        (*out)->dpi_x = gale__le32(in->data + 38) * 0.0254;
        (*out)->dpi_y = gale__le32(in->data + 42) * 0.0254;
    }
    if (runs) return read_runs(&b, *out);
    for (int64_t y = 0; y < b.height; y++)
        read_row(&b, b.pixels + (uint64_t)y * row, gale__picture_row(*out, b.top_down ? y : b.height - 1 - y),
            (*out)->channels);
    return GALE_OK;
}

static void put32(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> 8 * i);
}

gale_status gale__write_bmp(const gale_picture *p, const gale_picture_write_options *o, gale__str *out)
{
    bool alpha = p->channels == 4;
    uint64_t row = ((uint64_t)p->width * (alpha ? 32 : 24) + 31) / 32 * 4, size = row * (uint64_t)p->height;
    uint32_t header = alpha ? 108 : 40;
    uint8_t head[14 + 108] = {'B', 'M'}, pad[4] = {0};
    (void)o;
    if (size > UINT32_MAX - 256) return gale__fail(GALE_LIMIT, "BMP is limited to 4 GiB");
    put32(head + 2, (uint32_t)size + 14 + header);
    put32(head + 10, 14 + header);
    put32(head + 14, header);
    put32(head + 18, (uint32_t)p->width);
    put32(head + 22, (uint32_t)p->height);
    head[26] = 1;
    head[28] = alpha ? 32 : 24;
    head[30] = alpha ? 3 : 0;
    put32(head + 34, (uint32_t)size);
    put32(head + 38, (uint32_t)(p->dpi_x / 0.0254 + 0.5));
    put32(head + 42, (uint32_t)(p->dpi_y / 0.0254 + 0.5));
    for (int c = 0; c < 4 && alpha; c++) put32(head + 54 + 4 * c, c == 3 ? 0xff000000 : 0xff0000u >> 8 * c);
    if (alpha) memcpy(head + 70, "BGRs", 4); /* sRGB */
    gale__str_add_n(out, (char *)head, 14 + header);
    const size_t n = (size_t)p->width * (size_t)p->channels;
    for (int64_t y = p->height - 1; y >= 0 && !out->failed; y--) {
        gale__str_add_n(out, (const char *)gale__picture_row(p, y), n);
        gale__str_add_n(out, (char *)pad, (size_t)row - n);
        char *to = out->failed ? NULL : out->text + out->length - row;
        for (size_t x = 0; to && x < n; x += (size_t)p->channels) {
            char red = to[x];
            to[x] = to[x + 2], to[x + 2] = red;
        }
    }
    return GALE_OK;
}
