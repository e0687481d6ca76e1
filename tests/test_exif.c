/* EXIF on its way through formats, TIFF above all, where it is part of the file's own directory: each value comes out
 * as it went in, turned upright once. */
#include "picture_make.h"
#include "test.h"

/* A directory's entries: tag, type, number, value (text, or the bytes themselves in the block's order of bytes). */
typedef struct note {
    int directory;
    uint32_t tag, type, count;
    const char *value;
} note;
enum { OUTER, CAMERA, PLACE, COMMON };
static const note notes[] = {
    {OUTER, 0x10f, 2, 6, "Gale A"},
    {OUTER, 0x110, 2, 3, "M1"},
    {OUTER, 0x132, 2, 20, "2024:05:06 07:08:09"},
    {OUTER, 0x13b, 2, 4, "Ann"},
    {OUTER, 0x8298, 2, 9, "(c) Ann B"},
    {CAMERA, 0x829a, 5, 1, "\0\0\0\1\0\0\0\x7d"},
    {CAMERA, 0x8827, 3, 1, "\0\x64\0\0"},
    {CAMERA, 0x9000, 7, 4, "0232"},
    {CAMERA, 0x9003, 2, 20, "2024:05:06 07:08:09"},
    {CAMERA, 0x920a, 5, 1, "\0\0\0\x32\0\0\0\1"},
    {CAMERA, 0x927c, 7, 11, "maker\0notes"},
    {CAMERA, 0xa002, 4, 1, "\0\0\0\x9"},
    {CAMERA, 0xa003, 3, 1, "\0\x7\0\0"},
    {COMMON, 1, 2, 4, "R98"},
    {PLACE, 0, 1, 4, "\2\3\0\0"},
    {PLACE, 1, 2, 2, "N\0"},
    {PLACE, 2, 5, 3, "\0\0\0\x30\0\0\0\1\0\0\0\x8\0\0\0\1\0\0\0\x1e\0\0\0\2"},
};
enum { NOTES = sizeof notes / sizeof *notes };

static void put(uint8_t *to, int bytes, uint32_t v, bool big)
{
    for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(v >> 8 * (big ? bytes - 1 - i : i));
}

static uint32_t get(const uint8_t *from, int bytes, bool big)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint32_t)from[i] << 8 * (big ? bytes - 1 - i : i);
    return v;
}

static size_t size_of(uint32_t type) { return type == 5 ? 8 : type == 4 ? 4 : type == 3 ? 2 : 1; }

/* A value in the block's order of bytes; the table has the highest first. */
static void value_of(const note *n, bool big, uint8_t to[64])
{
    size_t unit = n->type == 5 ? 4 : size_of(n->type);
    memset(to, 0, 64);
    for (size_t i = 0; i < n->count * size_of(n->type); i += unit)
        put(to + i, (int)unit, get((const uint8_t *)n->value + i, (int)unit, true), big);
}

static const struct {
    int in;
    uint32_t tag;
    int to;
} inner[3] = {{OUTER, 0x8769, CAMERA}, {OUTER, 0x8825, PLACE}, {CAMERA, 0xa005, COMMON}};

typedef struct block {
    uint8_t d[2048];
    size_t n;
} block;

/* The next tag of a directory; 65536: there is none. */
static uint32_t tag_after(int which, int32_t tag)
{
    uint32_t next = which == OUTER && tag < 0x112 ? 0x112 : 65536;
    for (int i = 0; i < 3; i++)
        if (inner[i].in == which && (int32_t)inner[i].tag > tag && inner[i].tag < next) next = inner[i].tag;
    for (int i = 0; i < NOTES; i++)
        if (notes[i].directory == which && (int32_t)notes[i].tag > tag && notes[i].tag < next) next = notes[i].tag;
    return next;
}

/* Writes directory `which` at the block's end, with those in it behind it; returns its place. */
static size_t write_directory(block *b, int which, bool big, int orientation)
{
    uint8_t value[64];
    size_t count = 0, start = b->n, at;
    for (int i = 0; i < NOTES; i++) count += notes[i].directory == which;
    for (int i = 0; i < 3; i++) count += inner[i].in == which;
    count += which == OUTER;
    b->n += 2 + 12 * count + 4;
    put(b->d + start, 2, (uint32_t)count, big);
    at = start + 2;
    for (uint32_t tag = tag_after(which, -1); tag < 65536; tag = tag_after(which, (int32_t)tag)) {
        if (which == OUTER && tag == 0x112)
            put(b->d + at, 2, 0x112, big), put(b->d + at + 2, 2, 3, big), put(b->d + at + 4, 4, 1, big),
                put(b->d + at + 8, 2, (uint32_t)orientation, big), at += 12;
        for (int i = 0; i < 3; i++)
            if (inner[i].in == which && inner[i].tag == tag) {
                put(b->d + at, 2, tag, big), put(b->d + at + 2, 2, 4, big), put(b->d + at + 4, 4, 1, big);
                put(b->d + at + 8, 4, (uint32_t)write_directory(b, inner[i].to, big, 0), big);
                at += 12;
            }
        for (int i = 0; i < NOTES; i++) {
            const note *n = &notes[i];
            size_t size = n->count * size_of(n->type);
            if (n->directory != which || n->tag != tag) continue;
            value_of(n, big, value);
            put(b->d + at, 2, tag, big), put(b->d + at + 2, 2, n->type, big), put(b->d + at + 4, 4, n->count, big);
            if (size <= 4) memcpy(b->d + at + 8, value, 4);
            else put(b->d + at + 8, 4, (uint32_t)b->n, big), memcpy(b->d + b->n, value, size), b->n += size + size % 2;
            at += 12;
        }
    }
    return start;
}

static block make_block(bool big, int orientation)
{
    block b = {.n = 8};
    memcpy(b.d, big ? "MM" : "II", 2);
    put(b.d + 2, 2, 42, big);
    put(b.d + 4, 4, (uint32_t)write_directory(&b, OUTER, big, orientation), big);
    return b;
}

/* The entry of a directory; NULL: there is none. */
static const uint8_t *find(const uint8_t *d, size_t n, bool big, uint32_t directory, uint32_t tag)
{
    uint32_t count = directory && directory + 2 <= n ? get(d + directory, 2, big) : 0;
    for (uint32_t i = 0, before = 0; i < count && directory + 14 + 12 * i <= n; i++) {
        const uint8_t *e = d + directory + 2 + 12 * i;
        if (i) CHECK(get(e, 2, big) > before);
        before = get(e, 2, big);
        if (before == tag) return e;
    }
    return NULL;
}

static uint32_t inner_place(const uint8_t *d, size_t n, bool big, int which)
{
    if (which == OUTER) return get(d + 4, 4, big);
    for (int i = 0; i < 3; i++)
        if (inner[i].to == which) {
            const uint8_t *e = find(d, n, big, inner_place(d, n, big, inner[i].in), inner[i].tag);
            return e ? get(e + 8, 4, big) : 0;
        }
    return 0;
}

/* How many of the notes are in the block as they were. */
static int kept(const void *data, size_t n)
{
    const uint8_t *d = data;
    int good = 0;
    if (n < 8) return 0;
    bool big = *d == 'M';
    for (int i = 0; i < NOTES; i++) {
        uint8_t value[64];
        size_t size = notes[i].count * size_of(notes[i].type);
        const uint8_t *e = find(d, n, big, inner_place(d, n, big, notes[i].directory), notes[i].tag);
        value_of(&notes[i], big, value);
        const uint8_t *at = !e                               ? NULL
                            : size <= 4                      ? e + 8
                            : get(e + 8, 4, big) + size <= n ? d + get(e + 8, 4, big)
                                                             : NULL;
        good += at && get(e + 2, 2, big) == notes[i].type && get(e + 4, 4, big) == notes[i].count &&
                !memcmp(at, value, size);
    }
    return good;
}

static gale_picture *again(const gale_picture *p, const char *format)
{
    void *data = NULL;
    size_t size = 0;
    gale_picture *back = NULL;
    CHECK_OK(
        gale_picture_to_memory(p, &(gale_picture_write_options){.format = format, .lossless = true}, &data, &size));
    if (data) CHECK_OK(gale_picture_from_memory(data, size, NULL, &back));
    gale__free(data);
    return back;
}

TEST(through_formats)
{
    static const char *const ways[][6] = {
        {"jpeg", "tiff", "png", "tiff", "webp", "tiff"}, {"tiff", "jpeg", "tiff", "tiff", "png", "jpeg"}};
    static const gale_type types[] = {GALE_U8, GALE_U16, GALE_F32};
    for (int k = 0; k < 12; k++) {
        bool big = k % 2;
        block b = make_block(big, 1);
        gale_picture *p = picture_make(9, 7, 3, types[k / 4]);
        p->dpi_x = p->dpi_y = 144;
        CHECK_EQ(kept(b.d, b.n), NOTES);
        CHECK_OK(gale__picture_bytes_set(&p->exif, b.d, b.n));
        for (int i = 0; i < 6 && p; i++) {
            const char *format = ways[k / 2 % 2][i];
            if (!gale__format_of_name(format)->write) continue;
            gale_picture *back = again(p, format);
            if (back) {
                int good = kept(back->exif.data, back->exif.size);
                if (good != NOTES) printf("FAIL %s (%d): %d of %d notes\n", format, k, good, NOTES), test_bad++;
                CHECK(back->width == 9 && back->height == 7 && lround(back->dpi_x) == 144);
                CHECK(gale__exif_orientation(&back->exif) <= 1);
            }
            gale_picture_destroy(&p);
            p = back;
        }
        gale_picture_destroy(&p);
    }
}

/* A TIFF that says nothing of the scene gives no EXIF, and pixels are the same with and without. */
TEST(nothing_and_pixels)
{
    static const gale_type types[] = {GALE_U8, GALE_U16, GALE_F16, GALE_F32};
    for (int k = 0; k < 8; k++) {
        gale_picture *p = picture_make(33, 21, k % 2 ? 4 : 1, types[k / 2]), *plain = NULL, *with = NULL;
        block b = make_block(true, 1);
        p->linear = gale__type_is_float(p->type);
        plain = again(p, "tiff");
        if (plain) CHECK_EQ(plain->exif.size, 0);
        CHECK_OK(gale__picture_bytes_set(&p->exif, b.d, b.n));
        with = again(p, "tiff");
        if (plain && with)
            CHECK(!memcmp(plain->data, with->data, gale__picture_row_bytes(p) * 21) &&
                  !memcmp(p->data, with->data, gale__picture_row_bytes(p) * 21));
        gale_picture_destroy(&p);
        gale_picture_destroy(&plain);
        gale_picture_destroy(&with);
    }
}

static const char *const turned[9] = {
    NULL, "abcdef", "cbafed", "fedcba", "defabc", "adbecf", "daebfc", "fcebda", "cfbead"}; /* a b c / d e f, upright */

TEST(turned_once)
{
    for (int o = 1; o <= 8; o++) {
        gale_picture *p = NULL, *back, *twice;
        block b = make_block(o % 2, o);
        CHECK_OK(gale_picture_create(3, 2, 1, GALE_U8, &p));
        memcpy(p->data, "abcdef", 6);
        CHECK_OK(gale__picture_bytes_set(&p->exif, b.d, b.n));
        back = again(p, "tiff");
        if (CHECK(back && !memcmp(back->data, turned[o], 6) && back->width == (o > 4 ? 2 : 3))) {
            CHECK(gale__exif_orientation(&back->exif) == 1 && kept(back->exif.data, back->exif.size) == NOTES);
            twice = again(back, o % 2 ? "tiff" : "png");
            CHECK(twice && !memcmp(twice->data, turned[o], 6));
            gale_picture_destroy(&twice);
        }
        gale_picture_destroy(&p);
        gale_picture_destroy(&back);
    }
}

static void tag(uint8_t **at, uint32_t name, uint32_t type, uint32_t count, uint32_t v)
{
    put(*at, 2, name, false), put(*at + 2, 2, type, false), put(*at + 4, 4, count, false), put(*at + 8, 4, v, false);
    *at += 12;
}

/* Colours by number, which libtiff converts: it must not turn the picture as well. */
TEST(palette)
{
    for (int o = 1; o <= 8; o++) {
        uint8_t file[8 + 2 + 12 * 12 + 4 + 6 + 1536] = "II*\0\x8", *at = file + 10;
        uint32_t pixels = 8 + 2 + 12 * 12 + 4, map = pixels + 6;
        gale_picture *p = NULL, *raw = NULL;
        put(file + 8, 2, 12, false);
        tag(&at, 0x100, 3, 1, 3), tag(&at, 0x101, 3, 1, 2), tag(&at, 0x102, 3, 1, 8), tag(&at, 0x103, 3, 1, 1),
            tag(&at, 0x106, 3, 1, 3), tag(&at, 0x10f, 2, 4, 'a'), tag(&at, 0x111, 4, 1, pixels);
        tag(&at, 0x112, 3, 1, (uint32_t)o), tag(&at, 0x115, 3, 1, 1), tag(&at, 0x116, 3, 1, 2),
            tag(&at, 0x117, 4, 1, 6), tag(&at, 0x140, 3, 768, map);
        memcpy(file + pixels, "abcdef", 6);
        for (uint32_t i = 0; i < 768; i++) put(file + map + 2 * i, 2, (i % 256) * 257 + i / 256, false);
        if (!CHECK_OK(gale_picture_from_memory(file, sizeof file, NULL, &p))) continue;
        CHECK_EQ(p->channels, 3);
        for (int i = 0; i < 6; i++) CHECK_EQ(((uint8_t *)p->data)[3 * i], turned[o][i]);
        CHECK(gale__exif_orientation(&p->exif) <= 1);
        CHECK_OK(
            gale_picture_from_memory(file, sizeof file, &(gale_picture_read_options){.keep_orientation = true}, &raw));
        for (int i = 0; i < 6 && raw; i++) CHECK_EQ(((uint8_t *)raw->data)[3 * i], "abcdef"[i]);
        gale_picture_destroy(&p);
        gale_picture_destroy(&raw);
    }
}

/* Whatever its bytes are, EXIF goes into a TIFF or not, and the picture is whole either way. */
TEST(damage)
{
    uint32_t seed = 1;
    gale_picture *p = picture_make(9, 7, 3, GALE_U8);
    for (int k = 0; k < (test_light() ? 200 : 3000); k++) {
        block b = make_block(k % 2, 1);
        size_t n = k % 5 ? b.n : picture_random(&seed) % b.n;
        for (int flips = 0; flips < k % 6; flips++)
            b.d[4 + picture_random(&seed) % (b.n - 4)] = (uint8_t)picture_random(&seed);
        uint8_t *copy = malloc(n ? n : 1);
        memcpy(copy, b.d, n);
        CHECK_OK(gale__picture_bytes_set(&p->exif, copy, n));
        gale_picture *back = again(p, "tiff");
        int o = gale__exif_orientation(&p->exif);
        if (back && o <= 1) CHECK(!memcmp(back->data, p->data, 9 * 7 * 3));
        gale_picture_destroy(&back);
        gale_picture_bytes made = {0};
        CHECK_OK(gale__exif_from_tiff(copy, n, &made));
        CHECK(made.size <= 2 * n + 64);
        gale__free(made.data);
        free(copy);
    }
    gale_picture_destroy(&p);
}

TESTS(ROW(through_formats), ROW(nothing_and_pixels), ROW(turned_once), ROW(palette), ROW(damage))
