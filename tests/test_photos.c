/* Files as cameras, scanners and other programs write them, which gale itself does not: wide samples, inks, pages,
 * animations, profiles that do not fit.  They are made here byte by byte; what is left out of them is said. */
#include "gale/graph.h"
#include "picture_make.h"
#include "test.h"

static char lines[2048]; /* what was said as a warning */

static void keep(void *user, int level, const char *line)
{
    (void)user;
    if (level == 2) snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s\n", line);
}

static gale_status read_bytes(const void *data, size_t size, gale_picture **out)
{
    lines[0] = 0;
    *out = NULL;
    gale_log_set(keep, NULL, 2);
    gale_status status = gale_picture_from_memory(data, size, NULL, out);
    gale_log_set(NULL, NULL, 2);
    return status;
}

static bool has(const char *format)
{
    const gale__format *f = gale__format_of_name(format);
    return f && f->read && f->write;
}

/* --- TIFF: one strip, samples together, in the order of bytes of this machine. --- */

typedef struct sheet {
    uint8_t bytes[4096];
    size_t size, link; /* link: where the offset of the next directory goes */
} sheet;

static size_t put(sheet *s, const void *data, size_t n)
{
    size_t at = s->size;
    memcpy(s->bytes + at, data, n);
    s->size += n + n % 2;
    return at;
}

static void sheet_begin(sheet *s)
{
    *s = (sheet){.link = 4};
    put(s, gale__host_is_little() ? "II*\0\0\0\0" : "MM\0*\0\0\0", 8);
}

/* kind: SUBFILETYPE, 1 for a smaller copy. */
static void sheet_page(sheet *s, uint32_t width, uint32_t height, uint16_t bits, uint16_t samples, uint16_t format,
    uint16_t light, uint32_t kind, const void *data, size_t size)
{
    uint16_t each[8];
    for (int i = 0; i < 8; i++) each[i] = bits;
    uint32_t strip = (uint32_t)put(s, data, size), depths = (uint32_t)put(s, each, samples * 2u),
             directory = (uint32_t)s->size;
    const struct {
        uint16_t tag, type;
        uint32_t count, value;
    } entries[] = {{254, 4, 1, kind}, {256, 4, 1, width}, {257, 4, 1, height},
        {258, 3, samples, samples < 3 ? bits | (uint32_t)bits << 16 : depths}, {259, 3, 1, 1}, {262, 3, 1, light},
        {273, 4, 1, strip}, {277, 3, 1, samples}, {278, 4, 1, height}, {279, 4, 1, (uint32_t)size},
        {339, 3, 1, format}};
    uint16_t count = sizeof entries / sizeof *entries;
    memcpy(s->bytes + s->link, &directory, 4);
    memcpy(s->bytes + s->size, &count, 2);
    s->size += 2;
    for (int i = 0; i < count; i++, s->size += 12) {
        uint32_t value = entries[i].value;
        uint16_t small[2] = {(uint16_t)value, (uint16_t)(value >> 16)};
        memcpy(s->bytes + s->size, &entries[i], 8);
        memcpy(
            s->bytes + s->size + 8, entries[i].type == 3 && entries[i].count < 3 ? (void *)small : (void *)&value, 4);
    }
    s->link = s->size;
    memset(s->bytes + s->size, 0, 4);
    s->size += 4;
}

TEST(wide_samples)
{
    static const double doubles[6] = {0, 0.25, 1, 0.5, 2.5, 0.125};
    static const uint32_t wholes[6] = {0, 0xffffffffu, 0x80000000u, 0x12345678u, 0xffff0000u, 0x0001ffffu};
    static const int16_t signs[6] = {-5, 7};
    sheet s;
    gale_picture *p;
    if (!has("tiff")) SKIP("this build is without TIFF");
    sheet_begin(&s);
    sheet_page(&s, 2, 1, 64, 3, 3, 2, 0, doubles, sizeof doubles);
    if (CHECK_OK(read_bytes(s.bytes, s.size, &p))) {
        CHECK(p->type == GALE_F32 && p->channels == 3 && p->linear && p->width == 2);
        for (int i = 0; i < 6; i++) CHECK(((float *)p->data)[i] == (float)doubles[i]);
    }
    gale_picture_destroy(&p);
    sheet_begin(&s);
    sheet_page(&s, 3, 2, 32, 1, 1, 1, 0, wholes, sizeof wholes);
    if (CHECK_OK(read_bytes(s.bytes, s.size, &p))) {
        CHECK(p->type == GALE_U16 && p->channels == 1 && p->height == 2);
        for (int i = 0; i < 6; i++) CHECK_EQ(((uint16_t *)p->data)[i], wholes[i] >> 16);
    }
    gale_picture_destroy(&p);
    sheet_begin(&s);
    sheet_page(&s, 3, 2, 16, 1, 2, 1, 0, signs, sizeof signs);
    CHECK_FAILS(read_bytes(s.bytes, s.size, &p), UNSUPPORTED);
    CHECK(strstr(gale_error(), "signed samples are not supported"));
}

TEST(inks)
{
    static const uint8_t few[8] = {0, 255, 100, 0, 51, 51, 51, 204};
    static const uint16_t many[8] = {0, 65535, 1000, 0, 13107, 13107, 13107, 52428};
    sheet s;
    gale_picture *p;
    if (!has("tiff")) SKIP("this build is without TIFF");
    sheet_begin(&s);
    sheet_page(&s, 2, 1, 8, 4, 1, 5, 0, few, sizeof few);
    if (CHECK_OK(read_bytes(s.bytes, s.size, &p))) {
        static const uint8_t want[6] = {255, 0, 155, 41, 41, 41};
        CHECK(p->type == GALE_U8 && p->channels == 3 && !memcmp(p->data, want, 6));
    }
    gale_picture_destroy(&p);
    sheet_begin(&s);
    sheet_page(&s, 2, 1, 16, 4, 1, 5, 0, many, sizeof many);
    if (CHECK_OK(read_bytes(s.bytes, s.size, &p))) {
        static const uint16_t want[6] = {65535, 0, 64535, 10486, 10486, 10486};
        CHECK(p->type == GALE_U16 && p->channels == 3 && !memcmp(p->data, want, 12));
    }
    gale_picture_destroy(&p);
}

TEST(pages)
{
    sheet s;
    gale_picture *p;
    if (!has("tiff")) SKIP("this build is without TIFF");
    sheet_begin(&s);
    sheet_page(&s, 2, 1, 8, 1, 1, 1, 0, "ab", 2);
    sheet_page(&s, 1, 1, 8, 1, 1, 1, 1, "c", 1); /* a smaller copy is no page */
    CHECK_OK(read_bytes(s.bytes, s.size, &p));
    CHECK_TEXT(lines, "");
    gale_picture_destroy(&p);
    sheet_page(&s, 3, 1, 8, 1, 1, 1, 0, "def", 3);
    if (CHECK_OK(read_bytes(s.bytes, s.size, &p))) CHECK(p->width == 2 && !memcmp(p->data, "ab", 2));
    CHECK_TEXT(lines, "TIFF: only the first of 2 pages is read; --layer N selects another\n");
    gale_picture_destroy(&p);
    if (CHECK_OK(gale_picture_from_memory(s.bytes, s.size, &(gale_picture_read_options){.layer = "2"}, &p)))
        CHECK(p->width == 3 && !memcmp(p->data, "def", 3));
    gale_picture_destroy(&p);
    CHECK_FAILS(gale_picture_from_memory(s.bytes, s.size, &(gale_picture_read_options){.layer = "3"}, &p), NOT_FOUND);
    CHECK_TEXT(gale_error(), "TIFF: no page 3; it has 2");
    CHECK_FAILS(gale_picture_from_memory(s.bytes, s.size, &(gale_picture_read_options){.layer = "two"}, &p), NOT_FOUND);
}

/* --- Animations. --- */

static void add_bytes(gale__str *out, uint32_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) gale__str_add_n(out, &(char){(char)(v >> 8 * i)}, 1);
}

TEST(moving_png)
{
    gale_picture *in = picture_make(5, 4, 3, GALE_U8), *p;
    gale__str moving = {0};
    uint8_t *data = NULL;
    size_t size = 0;
    if (!has("png")) SKIP("this build is without PNG");
    if (CHECK_OK(gale_picture_to_memory(in, &(gale_picture_write_options){.format = "png"}, (void **)&data, &size))) {
        gale__str_add_n(&moving, (char *)data, 33);
        gale__str_add_n(&moving, "\0\0\0\10acTL\0\0\0\3\0\0\0\0....", 20);
        gale__str_add_n(&moving, (char *)data + 33, size - 33);
        if (CHECK_OK(read_bytes(moving.text, moving.length, &p))) CHECK(!memcmp(p->data, in->data, 60));
        CHECK_TEXT(lines, "png: only the first of 3 animation frames is read\n");
        gale_picture_destroy(&p);
    }
    gale_free(data);
    gale__str_finish(&moving);
    gale_picture_destroy(&in);
}

/* Two frames, each a part of a picture of 12 x 10. */
TEST(moving_webp)
{
    gale_picture *in = picture_make(5, 4, 4, GALE_U8), *p;
    gale__str moving = {0};
    uint8_t *data = NULL;
    size_t size = 0;
    if (!has("webp")) SKIP("this build is without WebP");
    if (CHECK_OK(gale_picture_to_memory(
            in, &(gale_picture_write_options){.format = "webp", .lossless = true}, (void **)&data, &size))) {
        uint32_t part = (uint32_t)size - 12; /* the chunk with the pixels */
        gale__str_add(&moving, "RIFF");
        add_bytes(&moving, 4 + 18 + 14 + 2 * (8 + 16 + part), 4);
        gale__str_add(&moving, "WEBPVP8X");
        add_bytes(&moving, 10, 4);
        add_bytes(&moving, 0x12, 4);
        add_bytes(&moving, 11, 3);
        add_bytes(&moving, 9, 3);
        gale__str_add(&moving, "ANIM");
        add_bytes(&moving, 6, 4);
        gale__str_add_n(&moving, "\0\0\0\0\0\0", 6);
        for (int i = 0; i < 2; i++) {
            gale__str_add(&moving, "ANMF");
            add_bytes(&moving, 16 + part, 4);
            add_bytes(&moving, 3, 3); /* six to the right, two down */
            add_bytes(&moving, 1, 3);
            add_bytes(&moving, 4, 3);
            add_bytes(&moving, 3, 3);
            add_bytes(&moving, 100, 4);
            gale__str_add_n(&moving, (char *)data + 12, part);
        }
        if (CHECK_OK(read_bytes(moving.text, moving.length, &p))) {
            CHECK(p->width == 12 && p->height == 10 && p->channels == 4);
            for (int64_t y = 0; y < 10; y++)
                for (int64_t x = 0; x < 12; x++) {
                    const uint8_t *got = (uint8_t *)gale__picture_row(p, y) + 4 * x;
                    if (x >= 6 && x < 11 && y >= 2 && y < 6)
                        CHECK(!memcmp(got, (uint8_t *)gale__picture_row(in, y - 2) + 4 * (x - 6), 4));
                    else CHECK_EQ(got[3], 0);
                }
        }
        CHECK_TEXT(lines, "webp: only the first of 2 animation frames is read\n");
        gale_picture_destroy(&p);
    }
    gale_free(data);
    gale__str_finish(&moving);
    gale_picture_destroy(&in);
}

/* A WebP that loses nothing stays one, until a quality is asked for. */
TEST(lossless_webp)
{
    gale_picture *in = picture_make(33, 20, 4, GALE_U8), *p = NULL, *back = NULL;
    void *data = NULL;
    size_t size = 0;
    if (!has("webp")) SKIP("this build is without WebP");
    for (int i = 0; i < 3; i++) { /* without, from such a file, with a quality */
        gale_picture_write_options o = {.format = "webp", .quality = i == 2 ? 50 : 0, .lossless = i == 0};
        if (!CHECK_OK(gale_picture_to_memory(i ? p : in, &o, &data, &size)) ||
            !CHECK_OK(read_bytes(data, size, i ? &back : &p)))
            break;
        const gale_picture *made = i ? back : p;
        CHECK_EQ(made->lossless, i < 2);
        CHECK_EQ(!memcmp(made->data, in->data, 33 * 20 * 4), i < 2);
        gale_free(data);
        data = NULL;
        gale_picture_destroy(&back);
    }
    gale_free(data);
    gale_picture_destroy(&in);
    gale_picture_destroy(&p);
    gale_picture_destroy(&back);
}

/* --- What is no picture here has a name all the same. --- */

TEST(others)
{
    static const struct {
        const char *bytes, *name;
    } rows[] = {{"GIF89a..........", "GIF"}, {"....ftypheic....", "HEI"}, {"8BPS............", "Photoshop"},
        {"<!DOCTYPE html>.", "it is a web page, "}, {"version https://git-lfs.github.com/spec/v1", "Git LFS"},
        {"nothing of the kind", "not a picture in a supported format"}};
    gale_picture *p;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gale_status status = read_bytes(rows[i].bytes, strlen(rows[i].bytes), &p);
        CHECK(status == GALE_FORMAT || status == GALE_UNSUPPORTED); /* the latter where the library is missing */
        if (!CHECK(strstr(gale_error(), rows[i].name))) printf("  %s\n", gale_error());
    }
}

/* A profile that is for other colours is left out, and that is said. */
TEST(foreign_profile)
{
    gale_picture *in = picture_make(5, 4, 3, GALE_U8), *p;
    uint8_t profile[132] = {[16] = 'R', 'G', 'B', ' '}, *data = NULL;
    size_t size = 0;
    if (!has("tiff")) SKIP("this build is without TIFF");
    CHECK_OK(gale__picture_bytes_set(&in->icc, profile, sizeof profile));
    if (CHECK_OK(gale_picture_to_memory(in, &(gale_picture_write_options){.format = "tiff"}, (void **)&data, &size))) {
        for (size_t i = 0; i + 4 <= size; i++)
            if (!memcmp(data + i, "RGB ", 4)) memcpy(data + i, "CMYK", 4);
        if (CHECK_OK(read_bytes(data, size, &p))) CHECK_EQ(p->icc.size, 0);
        CHECK(strstr(lines, "the colour profile (CMYK) does not match the pixels and is dropped"));
        gale_picture_destroy(&p);
    }
    gale_free(data);
    gale_picture_destroy(&in);
}

/* --- What other programs wrote about the picture. --- */

static gale_picture *again(const gale_picture *p, const char *format)
{
    void *data = NULL;
    size_t size = 0;
    gale_picture *back = NULL;
    if (CHECK_OK(gale_picture_to_memory(p, &(gale_picture_write_options){.format = format}, &data, &size)))
        CHECK_OK(read_bytes(data, size, &back));
    gale_free(data);
    return back;
}

static bool same(const gale_picture_bytes *b, const char *text)
{
    return b->size == strlen(text) && (!b->size || !memcmp(b->data, text, b->size));
}

/* XMP through all formats that have it, one after the other; where EXIF turns the picture, its numbers follow. */
TEST(xmp)
{
    static const char *const formats[] = {"png", "jpeg", "webp", "tiff"};
    static const char packet[] = "<x tiff:Orientation=\"6\" dc:title='6'><tiff:Orientation>8</tiff:Orientation> "
                                 "tiff:Orientation tiff:Orientation= tiff:ImageWidth = '5'",
                      upright[] = "<x tiff:Orientation=\"1\" dc:title='6'><tiff:Orientation>1</tiff:Orientation> "
                                  "tiff:Orientation tiff:Orientation= tiff:ImageWidth = '5'";
    for (int i = 0; i < 16; i++) {
        const char *from = formats[i / 4], *to = formats[i % 4];
        uint8_t exif[128];
        if (!has(from) || !has(to)) continue;
        gale_picture *p = picture_make(6, 5, 3, GALE_U8), *back, *then;
        CHECK_OK(gale__picture_bytes_set(&p->xmp, packet, strlen(packet)));
        back = again(p, from);
        if (back) {
            CHECK(same(&back->xmp, i / 4 == 3 ? upright : packet)); /* a TIFF always says how it lies */
            if ((then = again(back, to))) CHECK(same(&then->xmp, i / 4 == 3 || i % 4 == 3 ? upright : packet));
            gale_picture_destroy(&then);
        }
        gale_picture_destroy(&back);
        CHECK_OK(gale__picture_bytes_set(&p->exif, exif, picture_exif(exif, 6)));
        back = again(p, from);
        if (back) CHECK(back->width == 5 && same(&back->xmp, upright));
        gale_picture_destroy(&back);
        gale_picture_destroy(&p);
    }
    static const char large[] = "<a exif:PixelXDimension='99999'\nexif:PixelYDimension=\"7\"/><tiff:ImageLength>12";
    gale_picture *p = picture_make(6, 5, 3, GALE_U8);
    CHECK_OK(gale__picture_bytes_set(&p->xmp, large, strlen(large)));
    CHECK_OK(gale__notes_extents(p));
    CHECK(same(&p->xmp, "<a exif:PixelXDimension='6'\nexif:PixelYDimension=\"5\"/><tiff:ImageLength>5"));
    gale_picture_destroy(&p);
}

/* A JPEG's marker ends at 64 KB; more is left out, and said. */
TEST(long_xmp)
{
    gale_picture *p = picture_make(6, 5, 3, GALE_U8), *back;
    if (!has("jpeg")) SKIP("this build is without JPEG");
    p->xmp = (gale_picture_bytes){gale__calloc(1, 70000), 70000};
    back = again(p, "jpeg");
    if (back) CHECK_EQ(back->xmp.size, 0);
    gale_picture_destroy(&back);
    p->xmp.size = 65533 - 29;
    back = again(p, "jpeg");
    if (back) CHECK_EQ(back->xmp.size, 65533 - 29);
    gale_picture_destroy(&back);
    gale_picture_destroy(&p);
}

/* The way up as a long number. */
TEST(long_way_up)
{
    uint8_t bytes[128];
    gale_picture_bytes exif = {bytes, picture_exif(bytes, 0)};
    bytes[13] = 4;
    memcpy(bytes + 18, "\0\0\0\6", 4);
    CHECK_EQ(gale__exif_orientation(&exif), 6);
    gale__exif_upright(&exif);
    CHECK_EQ(gale__exif_orientation(&exif), 1);
    CHECK(!memcmp(bytes + 18, "\0\0\0\1", 4));
    memcpy(bytes + 18, "\0\1\0\6", 4);
    CHECK_EQ(gale__exif_orientation(&exif), 0);
}

TEST(iptc)
{
    static const char *const formats[] = {"jpeg", "tiff"};
    static const char record[] = "\x1c\2\x78\0\6Morgen and an odd number.";
    if (!has("jpeg") || !has("tiff")) SKIP("this build is without JPEG or TIFF");
    for (int i = 0; i < 8; i++) {
        uint8_t exif[128];
        size_t n = sizeof record - 1 - (size_t)(i / 4);
        gale_picture *p = picture_make(6, 5, 3, GALE_U8), *back, *then = NULL;
        CHECK_OK(gale__picture_bytes_set(&p->iptc, record, n));
        if (i & 1) CHECK_OK(gale__picture_bytes_set(&p->exif, exif, picture_exif(exif, 1)));
        back = again(p, formats[i / 2 % 2]);
        if (back) then = again(back, formats[1 - i / 2 % 2]);
        if (CHECK(back && then)) {
            CHECK(back->iptc.size == n && !memcmp(back->iptc.data, record, n));
            CHECK(then->iptc.size == n && !memcmp(then->iptc.data, record, n));
            CHECK_EQ(then->exif.size > 0, i & 1);
            CHECK(!memcmp(back->data, i / 2 % 2 ? p->data : back->data, 90)); /* TIFF loses nothing */
        }
        gale_picture_destroy(&p);
        gale_picture_destroy(&back);
        gale_picture_destroy(&then);
    }
}

/* Blocks as Photoshop writes them: others before, a name, lengths that are odd, an end that is missing. */
TEST(blocks)
{
    static const char marker[] = "\xff\xed\0\x4ePhotoshop 3.0\0"
                                 "8BIM\3\xed\0\0\0\0\0\3abc\0"
                                 "8BIM\4\x25\3abc\0\0\0\0"
                                 "8BIM\4\4\0\0\0\0\0\14\x1c\2\x78\0\7caption"
                                 "8BIM\4\4\0\0\0\0\0\x70";
    gale_picture *p = picture_make(6, 5, 3, GALE_U8), *back;
    uint8_t *data = NULL;
    size_t size = 0;
    gale__str whole = {0};
    if (!has("jpeg")) SKIP("this build is without JPEG");
    if (CHECK_OK(gale_picture_to_memory(p, &(gale_picture_write_options){.format = "jpeg"}, (void **)&data, &size))) {
        gale__str_add_n(&whole, (char *)data, 2);
        gale__str_add_n(&whole, marker, sizeof marker - 1);
        gale__str_add_n(&whole, (char *)data + 2, size - 2);
        whole.text[5] = (char)(sizeof marker - 1 - 2);
        if (CHECK_OK(read_bytes(whole.text, whole.length, &back)))
            CHECK(back->iptc.size == 12 && !memcmp(back->iptc.data, "\x1c\2\x78\0\7caption", 12));
        gale_picture_destroy(&back);
    }
    gale_free(data);
    gale__str_finish(&whole);
    gale_picture_destroy(&p);
}

TEST(texts)
{
    static const char chunk[] = "\0\0\0\13tEXtnote\0hello!...."
                                "\0\0\0\1sRGB\0\xae\xce\x1c\xe9";
    gale_picture *p = picture_make(6, 5, 3, GALE_U8), *back, *then;
    if (!has("png")) SKIP("this build is without PNG");
    CHECK_OK(gale__picture_bytes_set(&p->texts, chunk, sizeof chunk - 1));
    CHECK_OK(gale__picture_bytes_set(&p->xmp, "<x/>", 4));
    back = again(p, "png");
    if (back) {
        CHECK(back->texts.size == sizeof chunk - 1 && !memcmp(back->texts.data, chunk, sizeof chunk - 1) &&
              same(&back->xmp, "<x/>"));
        then = again(back, "png");
        if (then) CHECK_EQ(then->texts.size, sizeof chunk - 1);
        gale_picture_destroy(&then);
    }
    gale_picture_destroy(&back);
    gale_picture_destroy(&p);
}

TESTS(ROW(xmp), ROW(long_xmp), ROW(long_way_up), ROW(iptc), ROW(blocks), ROW(texts), ROW(wide_samples), ROW(inks),
    ROW(pages), ROW(moving_png), ROW(moving_webp), ROW(lossless_webp), ROW(others), ROW(foreign_profile))
