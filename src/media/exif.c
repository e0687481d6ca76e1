/* EXIF, to the extent that pictures need it: a TIFF directory in a block of bytes, patched in place.  Offsets in it
 * are untrusted.  libexif is not used, because it writes the whole block again: here all but a few numbers keep their
 * bytes and positions, so that maker notes, which contain offsets of their own, stay valid. */
#include "media/picture.h"
#include <stdlib.h>
#include <string.h>

typedef struct exif {
    uint8_t *data;
    size_t size;
    bool big;
} exif;

static uint32_t get16(const exif *e, size_t at) { return e->big ? gale__be16(e->data + at) : gale__le16(e->data + at); }
static uint32_t get32(const exif *e, size_t at) { return e->big ? gale__be32(e->data + at) : gale__le32(e->data + at); }

static void put(const exif *e, size_t at, int bytes, uint32_t v)
{
    for (int i = 0; i < bytes; i++) e->data[at + (size_t)i] = (uint8_t)(v >> 8 * (e->big ? bytes - 1 - i : i));
}

static bool open_exif(const gale_picture_bytes *b, exif *e)
{
    *e = (exif){b->data, b->size, b->size > 0 && *(const char *)b->data == 'M'};
    return b->size >= 8 && get16(e, 2) == 42;
}

/* Entries of the directory at `at`; 0 when it is not stored inside. */
static size_t entries(const exif *e, size_t at)
{
    if (at < 8 || at > e->size - 2) return 0;
    size_t count = get16(e, at);
    return count <= (e->size - 2 - at) / 12 ? count : 0;
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
    if (!open_exif(b, &e) || !(at = find(&e, get32(&e, 4), 0x112))) return 0;
    uint32_t type = get16(&e, at + 2), v = type == 3   ? get16(&e, at + 8)
                                           : type == 4 ? get32(&e, at + 8)
                                                       : 0; /* some write it as a long number */
    return v >= 1 && v <= 8 ? (int)v : 0;
}

/* The small picture in the second directory is the wrong way up now, and soon of another picture: it is left out by
 * ending the chain. */
void gale__exif_upright(gale_picture_bytes *b)
{
    exif e;
    if (!open_exif(b, &e) || gale__exif_orientation(b) <= 1) return;
    size_t first = get32(&e, 4), end = first + 2 + 12 * entries(&e, first), at = find(&e, first, 0x112);
    put(&e, at + 8, get16(&e, at + 2) == 3 ? 2 : 4, 1);
    if (end + 4 <= e.size) put(&e, end, 4, 0);
}

static double rational(const exif *e, size_t directory, uint32_t tag)
{
    size_t at = find(e, directory, tag);
    if (!at || get16(e, at + 2) != 5 || get32(e, at + 8) > e->size || e->size - get32(e, at + 8) < 8) return 0;
    double below = get32(e, get32(e, at + 8) + 4);
    return below > 0 ? get32(e, get32(e, at + 8)) / below : 0;
}

bool gale__exif_dpi(const gale_picture_bytes *b, double *x, double *y)
{
    exif e;
    if (!open_exif(b, &e)) return false;
    size_t first = get32(&e, 4), unit = find(&e, first, 0x128);
    double across = rational(&e, first, 0x11a), down = rational(&e, first, 0x11b);
    if (across <= 0 || down <= 0 || (unit && get16(&e, unit + 8) == 1)) return false; /* 1: of no unit */
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

/* Directories: the first, that of the camera, that of the place, and the camera's of what is common to cameras. */
typedef enum directory { OUTER, CAMERA, PLACE, COMMON } directory;
typedef struct entry {
    uint32_t tag;
    size_t at;
    bool own; /* in the file that is written to */
} entry;
typedef struct copier {
    exif from;
    gale__str *to;
    bool big;      /* the order of bytes there */
    size_t budget; /* of bytes that values may take */
} copier;
enum { VALUES_MOST = 1 << 24, IPTC = 0x83bb };

/* Bytes of a value; 0: of an unknown type, or not inside. */
static size_t value_size(const exif *e, size_t at)
{
    static const uint8_t sizes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4};
    uint32_t type = get16(e, at + 2), count = get32(e, at + 4);
    uint64_t size = type < sizeof sizes ? (uint64_t)sizes[type] * count : 0;
    if (size <= 4) return (size_t)size;
    return get32(e, at + 8) <= e->size && size <= e->size - get32(e, at + 8) ? (size_t)size : 0;
}

/* Whether a tag is about the scene, not about how the pixels are stored. */
static bool is_kept(directory d, uint32_t tag, bool geometry)
{
    static const uint32_t kept[] = {0x10d, 0x10e, 0x10f, 0x110, 0x131, 0x132, 0x13b, 0x13c, 0x4746, 0x4749, 0x8298,
        0x8769, 0x8825, 0x9c9b, 0x9c9c, 0x9c9d, 0x9c9e, 0x9c9f};
    if (tag == IPTC && d == OUTER && !geometry) return true; /* which EXIF is not the place for */
    if (d != OUTER || (geometry && (tag == 0x112 || tag == 0x11a || tag == 0x11b || tag == 0x128))) return true;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (kept[i] == tag) return true;
    return false;
}

static int by_tag(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return x->tag != y->tag ? (x->tag > y->tag) - (x->tag < y->tag) : y->own - x->own;
}

/* Entries of `from`, beside those that `own` (may be NULL) has, by their tags and each tag once. */
static gale_status list_entries(
    const exif *own, size_t own_at, const exif *from, size_t at, directory d, entry **out, size_t *count)
{
    size_t mine = own ? entries(own, own_at) : 0, more = entries(from, at), n = 0;
    entry *list = gale__calloc(mine + more + 1, sizeof *list);
    if (!list) return GALE_NO_MEMORY;
    for (size_t i = 0; i < mine; i++) list[n++] = (entry){get16(own, own_at + 2 + 12 * i), own_at + 2 + 12 * i, true};
    for (size_t i = 0; i < more; i++) {
        size_t e = at + 2 + 12 * i;
        if (is_kept(d, get16(from, e), !own) && value_size(from, e)) list[n++] = (entry){get16(from, e), e, false};
    }
    qsort(list, n, sizeof *list, by_tag);
    *count = 0;
    for (size_t i = 0; i < n; i++)
        if (!*count || list[*count - 1].tag != list[i].tag) list[(*count)++] = list[i];
    *out = list;
    return GALE_OK;
}

static void pad(gale__str *s)
{
    if (s->length % 2) gale__str_add_n(s, "", 1);
}

static gale_status copy_directory(copier *c, size_t at, directory d, size_t own_at, size_t *place);

/* n bytes of a value from one order to the other: numbers by what a number of the type takes. */
static void reorder(uint8_t *value, size_t n, uint32_t type)
{
    static const uint8_t units[] = {1, 1, 1, 2, 4, 4, 1, 1, 2, 4, 4, 4, 8, 4};
    for (size_t unit = units[type], i = 0; i + unit <= n; i += unit)
        for (size_t k = 0; k < unit / 2; k++) {
            uint8_t v = value[i + k];
            value[i + k] = value[i + unit - 1 - k];
            value[i + unit - 1 - k] = v;
        }
}

/* One entry to place `here`, its value behind all else. */
static gale_status copy_entry(copier *c, const entry *e, directory d, size_t here)
{
    static const struct {
        directory in;
        uint32_t tag;
        directory to;
    } inner[] = {{OUTER, 0x8769, CAMERA}, {OUTER, 0x8825, PLACE}, {CAMERA, 0xa005, COMMON}};
    const exif *from = &c->from;
    uint32_t type = get16(from, e->at + 2);
    size_t size = value_size(from, e->at), value = get32(from, e->at + 8);
    const uint8_t *bytes = from->data + (size > 4 ? value : e->at + 8);
    bool apart = size > 4;
    for (int i = 0; i < 3; i++)
        if (inner[i].in == d && inner[i].tag == e->tag && size == 4) {
            GALE_TRY(copy_directory(c, value, inner[i].to, 0, &value));
            apart = true, size = 0;
        }
    if (size > 4) {
        pad(c->to);
        value = c->to->length;
        if (size > c->budget) return gale__fail(GALE_FORMAT, "EXIF: values overlap");
        c->budget -= size;
        gale__str_add_n(c->to, (const char *)bytes, size);
    }
    if (c->to->failed || value > UINT32_MAX) return GALE_NO_MEMORY;
    exif made = {(uint8_t *)c->to->text, c->to->length, c->big};
    put(&made, here, 2, e->tag);
    put(&made, here + 2, 2, type);
    put(&made, here + 4, 4, get32(from, e->at + 4));
    if (apart) put(&made, here + 8, 4, (uint32_t)value);
    else memcpy(made.data + here + 8, bytes, size);
    if (c->big != from->big && size) reorder(made.data + (apart ? value : here + 8), size, type);
    return GALE_OK;
}

/* The directory at `at` behind what is there, together with the one that is there at own_at (0: none); place: where it
 * came to be. */
static gale_status copy_directory(copier *c, size_t at, directory d, size_t own_at, size_t *place)
{
    static const char zeros[12];
    exif own = {(uint8_t *)c->to->text, c->to->length, c->big};
    entry *list = NULL;
    size_t count = 0;
    GALE_TRY(list_entries(own_at ? &own : NULL, own_at, &c->from, at, d, &list, &count));
    pad(c->to);
    size_t start = c->to->length;
    for (size_t i = 0; i <= count; i++) gale__str_add_n(c->to, zeros, i ? 12 : 6);
    gale_status status = gale__str_check(c->to);
    if (status == GALE_OK) put(&(exif){(uint8_t *)c->to->text, c->to->length, c->big}, start, 2, (uint32_t)count);
    for (size_t i = 0; i < count && status == GALE_OK; i++)
        if (list[i].own) memcpy(c->to->text + start + 2 + 12 * i, c->to->text + list[i].at, 12);
        else status = copy_entry(c, &list[i], d, start + 2 + 12 * i);
    gale__free(list);
    *place = start;
    return status;
}

/* The first directory of `from` into a block that has one already, or none yet; the block's head then leads to it. */
static gale_status copy_all(const exif *from, gale__str *to, bool big, size_t own_at)
{
    copier c = {*from, to, big, from->size < VALUES_MOST ? from->size : VALUES_MOST};
    size_t place;
    GALE_TRY(copy_directory(&c, get32(from, 4), OUTER, own_at, &place));
    put(&(exif){(uint8_t *)to->text, to->length, big}, 4, 4, (uint32_t)place);
    return GALE_OK;
}

gale_status gale__exif_from_tiff(const void *file, size_t size, gale_picture_bytes *out)
{
    gale_picture_bytes all = {(void *)file, size};
    gale__str s = {0};
    size_t said = 0;
    exif e;
    if (!open_exif(&all, &e)) return GALE_OK;
    size_t first = get32(&e, 4);
    for (size_t i = 0, n = entries(&e, first); i < n; i++)
        said += get16(&e, first + 2 + 12 * i) != IPTC && is_kept(OUTER, get16(&e, first + 2 + 12 * i), false);
    if (!said) return GALE_OK;
    gale__str_add_n(&s, file, 4);
    gale__str_add_n(&s, "\0\0\0\0", 4);
    gale_status status = gale__str_check(&s);
    if (status == GALE_OK) status = copy_all(&e, &s, e.big, 0);
    if (status == GALE_OK) status = gale__picture_bytes_set(out, s.text, s.length);
    gale__str_finish(&s);
    return status == GALE_NO_MEMORY ? status : GALE_OK; /* notes that are broken are none */
}

gale_status gale__exif_into_tiff(const gale_picture_bytes *exif_bytes, gale__str *tiff)
{
    gale_picture_bytes written = {tiff->text, tiff->length};
    size_t before = tiff->length;
    exif e, own;
    if (!open_exif(exif_bytes, &e) || !open_exif(&written, &own)) return GALE_OK;
    gale_status status = copy_all(&e, tiff, own.big, get32(&own, 4));
    if (status != GALE_OK && !tiff->failed) tiff->length = before;
    return status == GALE_NO_MEMORY ? status : GALE_OK;
}

/* Records begin with 0x1c.  Some programs write them as 32-bit numbers, whose bytes then have the order of the file. */
gale_status gale__iptc_from_tiff(const void *file, size_t size, gale_picture_bytes *out)
{
    gale_picture_bytes all = {(void *)file, size};
    exif e;
    size_t at, n;
    if (!open_exif(&all, &e) || !(at = find(&e, get32(&e, 4), IPTC)) || (n = value_size(&e, at)) <= 4) return GALE_OK;
    GALE_TRY(gale__picture_bytes_set(out, e.data + get32(&e, at + 8), n));
    const uint8_t *d = out->data;
    if (get16(&e, at + 2) == 4 && d[0] != 0x1c && d[3] == 0x1c) reorder(out->data, n, 4);
    return GALE_OK;
}

/* As a directory of one entry, which is then put together with that of the file. */
gale_status gale__iptc_into_tiff(const gale_picture_bytes *iptc, gale__str *tiff)
{
    gale__str block = {0};
    if (iptc->size <= 4 || iptc->size > VALUES_MOST / 2) return GALE_OK;
    gale__str_add_n(&block, "II*\0\10\0\0\0\1\0\xbb\x83\7\0\0\0\0\0\32\0\0\0\0\0\0\0", 26);
    gale__str_add_n(&block, iptc->data, iptc->size);
    gale_status status = gale__str_check(&block);
    if (status == GALE_OK) {
        put(&(exif){(uint8_t *)block.text, block.length, false}, 14, 4, (uint32_t)iptc->size);
        status = gale__exif_into_tiff(&(gale_picture_bytes){block.text, block.length}, tiff);
    }
    gale__str_finish(&block);
    return status;
}

/* Bit 2 of (orientation - 1) exchanges the axes; the source of pixel (x, y) is then mirrored along either. */
gale_status gale__picture_turn(gale_picture **picture, int orientation)
{
    static const struct {
        bool swap, across, down;
    } how[9] = {[2] = {0, 1, 0},
        [3] = {0, 1, 1},
        [4] = {0, 0, 1},
        [5] = {1, 0, 0},
        [6] = {1, 0, 1},
        [7] = {1, 1, 1},
        [8] = {1, 1, 0}};
    gale_picture *p = *picture, *made = NULL;
    if (orientation <= 1 || orientation > 8) return GALE_OK;
    bool swap = how[orientation].swap;
    GALE_TRY(
        gale_picture_create(swap ? p->height : p->width, swap ? p->width : p->height, p->channels, p->type, &made));
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
