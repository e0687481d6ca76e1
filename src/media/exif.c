/* EXIF as far as pictures need it: a TIFF directory in a block of bytes, patched in place.  Every offset in it is hostile. */
#include "media/picture.h"
#include <string.h>

typedef struct exif { uint8_t *d; size_t n; bool big; } exif;

static uint32_t get16(const exif *e, size_t at) { return e->big ? gale__be16(e->d + at) : gale__le16(e->d + at); }
static uint32_t get32(const exif *e, size_t at) { return e->big ? gale__be32(e->d + at) : gale__le32(e->d + at); }

static void put(const exif *e, size_t at, int bytes, uint32_t v)
{
    for (int i = 0; i < bytes; i++) e->d[at + (size_t)i] = (uint8_t)(v >> 8 * (e->big ? bytes - 1 - i : i));
}

static bool open_exif(const gale_picture_bytes *b, exif *e)
{
    *e = (exif){b->data, b->size, b->size > 0 && *(const char *)b->data == 'M'};
    return b->size >= 8 && get16(e, 2) == 42;
}

/* Entries of the directory at `at`; 0 when it does not lie inside. */
static size_t entries(const exif *e, size_t at)
{
    if (at < 8 || at > e->n - 2) return 0;
    size_t count = get16(e, at);
    return count <= (e->n - 2 - at) / 12 ? count : 0;
}

/* The entry's place; 0: there is none. */
static size_t find(const exif *e, size_t directory, uint32_t tag)
{
    for (size_t i = 0, n = entries(e, directory); i < n; i++)
        if (get16(e, directory + 2 + 12 * i) == tag) return directory + 2 + 12 * i;
    return 0;
}

int gale__exif_orientation(const gale_picture_bytes *b)
{
    exif e;
    size_t at;
    if (!open_exif(b, &e) || !(at = find(&e, get32(&e, 4), 0x112)) || get16(&e, at + 2) != 3) return 0;
    uint32_t v = get16(&e, at + 8);
    return v >= 1 && v <= 8 ? (int)v : 0;
}

/* The small picture in the second directory is the wrong way up now, and soon of another picture: it is left out by ending the chain. */
void gale__exif_upright(gale_picture_bytes *b)
{
    exif e;
    if (!open_exif(b, &e) || gale__exif_orientation(b) <= 1) return;
    size_t first = get32(&e, 4), end = first + 2 + 12 * entries(&e, first);
    put(&e, find(&e, first, 0x112) + 8, 2, 1);
    if (end + 4 <= e.n) put(&e, end, 4, 0);
}

static double rational(const exif *e, size_t directory, uint32_t tag)
{
    size_t at = find(e, directory, tag);
    if (!at || get16(e, at + 2) != 5 || get32(e, at + 8) > e->n || e->n - get32(e, at + 8) < 8) return 0;
    double below = get32(e, get32(e, at + 8) + 4);
    return below > 0 ? get32(e, get32(e, at + 8)) / below : 0;
}

bool gale__exif_dpi(const gale_picture_bytes *b, double *x, double *y)
{
    exif e;
    if (!open_exif(b, &e)) return false;
    size_t first = get32(&e, 4), unit = find(&e, first, 0x128);
    double across = rational(&e, first, 0x11a), down = rational(&e, first, 0x11b);
    if (across <= 0 || down <= 0) return false;
    double scale = unit && get16(&e, unit + 8) == 3 ? 2.54 : 1;
    *x = across * scale;
    *y = down * scale;
    return true;
}

void gale__exif_extents(gale_picture_bytes *b, int64_t width, int64_t height)
{
    static const uint32_t tags[2] = {0xa002, 0xa003};
    exif e;
    size_t at;
    if (!open_exif(b, &e) || !(at = find(&e, get32(&e, 4), 0x8769)) || get16(&e, at + 2) != 4) return;
    size_t inner = get32(&e, at + 8);
    for (int i = 0; i < 2; i++) {
        int64_t v = i ? height : width;
        size_t entry = find(&e, inner, tags[i]);
        if (!entry) continue;
        uint32_t type = get16(&e, entry + 2);
        if (type == 4) put(&e, entry + 8, 4, (uint32_t)v);
        else if (type == 3 && v <= 65535) put(&e, entry + 8, 2, (uint32_t)v);
    }
}

/* Bit 2 of (orientation - 1) exchanges the axes; the source of pixel (x, y) is then mirrored along either. */
gale_status gale__picture_turn(gale_picture **picture, int orientation)
{
    static const struct { bool swap, across, down; } how[9] = {[2] = {0, 1, 0}, [3] = {0, 1, 1}, [4] = {0, 0, 1}, [5] = {1, 0, 0}, [6] = {1, 0, 1}, [7] = {1, 1, 1}, [8] = {1, 1, 0}};
    gale_picture *p = *picture, *made = NULL;
    if (orientation <= 1 || orientation > 8) return GALE_OK;
    bool swap = how[orientation].swap;
    GALE_TRY(gale_picture_create(swap ? p->height : p->width, swap ? p->width : p->height, p->channels, p->type, &made));
    size_t bytes = (size_t)p->channels * gale_type_size(p->type);
    for (int64_t y = 0; y < made->height; y++) {
        char *to = gale__picture_row(made, y);
        for (int64_t x = 0; x < made->width; x++, to += bytes) {
            int64_t sx = swap ? y : x, sy = swap ? x : y;
            if (how[orientation].across) sx = p->width - 1 - sx;
            if (how[orientation].down) sy = p->height - 1 - sy;
            memcpy(to, (const char *)gale__picture_row(p, sy) + (size_t)sx * bytes, bytes);
        }
    }
    gale__free(p->data);
    p->data = made->data;
    p->width = made->width;
    p->height = made->height;
    made->data = NULL;
    gale_picture_destroy(&made);
    double dpi = p->dpi_x;
    if (swap) p->dpi_x = p->dpi_y, p->dpi_y = dpi;
    return GALE_OK;
}
