/* The single table of formats.  A row whose library was missing at build time stays, so that the message can say what
 * to install. */
#include "media/formats.h"
#include <string.h>

static bool is_png(const uint8_t *d, size_t n) { return n >= 8 && !memcmp(d, "\x89PNG\r\n\x1a\n", 8); }
static bool is_jpeg(const uint8_t *d, size_t n) { return n >= 3 && !memcmp(d, "\xff\xd8\xff", 3); }
static bool is_webp(const uint8_t *d, size_t n)
{
    return n >= 12 && !memcmp(d, "RIFF", 4) && !memcmp(d + 8, "WEBP", 4);
}
static bool is_tiff(const uint8_t *d, size_t n)
{
    return n >= 4 &&
           (!memcmp(d, "II*\0", 4) || !memcmp(d, "MM\0*", 4) || !memcmp(d, "II+\0", 4) || !memcmp(d, "MM\0+", 4));
}
static bool is_exr(const uint8_t *d, size_t n) { return n >= 4 && !memcmp(d, "\x76\x2f\x31\x01", 4); }
static bool is_jp2(const uint8_t *d, size_t n) { return n >= 12 && !memcmp(d, "\0\0\0\x0cjP  \r\n\x87\n", 12); }
static bool is_j2k(const uint8_t *d, size_t n) { return n >= 4 && !memcmp(d, "\xff\x4f\xff\x51", 4); }
static bool is_bmp(const uint8_t *d, size_t n)
{
    return n >= 18 && d[0] == 'B' && d[1] == 'M' && gale__le32(d + 14) >= 12 && gale__le32(d + 14) <= 256;
}
static bool is_space(uint8_t c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '#'; }
static bool is_pnm(const uint8_t *d, size_t n)
{
    return n >= 3 && d[0] == 'P' && d[1] >= '1' && d[1] <= '6' && is_space(d[2]);
}
static bool is_pam(const uint8_t *d, size_t n) { return n >= 3 && d[0] == 'P' && d[1] == '7' && is_space(d[2]); }
static bool is_pfm(const uint8_t *d, size_t n)
{
    return n >= 3 && d[0] == 'P' && (d[1] == 'F' || d[1] == 'f') && is_space(d[2]);
}

enum { U8 = GALE__PIC_U8, U16 = GALE__PIC_U16, HALF = GALE__PIC_F16, FLOAT = GALE__PIC_F32 };
enum { GREY = 1 << 1, GREY_A = 1 << 2, RGB = 1 << 3, RGBA = 1 << 4, ALL = GREY | GREY_A | RGB | RGBA };
#define BOTH(name) gale__read_##name, gale__write_##name
#define DOES(r, w, pack) .about.reads = r, .about.writes = w, .about.package = pack
#define LIBRARY(package) DOES(true, true, package)
#define WITHOUT(package) NULL, NULL, DOES(false, false, package)

#ifdef GALE_HAVE_PNG
#define PNG BOTH(png), LIBRARY("libpng-dev")
#else
#define PNG WITHOUT("libpng-dev")
#endif
#ifdef GALE_HAVE_JPEG
#define JPEG BOTH(jpeg), LIBRARY("libjpeg62-turbo-dev")
#else
#define JPEG WITHOUT("libjpeg62-turbo-dev")
#endif
#ifdef GALE_HAVE_WEBP
#define WEBP BOTH(webp), LIBRARY("libwebp-dev")
#else
#define WEBP WITHOUT("libwebp-dev")
#endif
#ifdef GALE_HAVE_TIFF
#define TIFF BOTH(tiff), LIBRARY("libtiff-dev")
#else
#define TIFF WITHOUT("libtiff-dev")
#endif
#ifdef GALE_HAVE_EXR
#define EXR BOTH(exr), LIBRARY("libopenexr-dev")
#else
#define EXR WITHOUT("libopenexr-dev")
#endif
#ifdef GALE_HAVE_JP2
#define JP2 BOTH(jp2), LIBRARY("libopenjp2-7-dev")
#define J2K BOTH(j2k), LIBRARY("libopenjp2-7-dev")
#else
#define JP2 WITHOUT("libopenjp2-7-dev")
#define J2K WITHOUT("libopenjp2-7-dev")
#endif
#define OURS(name) BOTH(name), DOES(true, true, NULL)

const gale__format gale__formats[] = {
    {{"png", "png"}, is_png, PNG, .types = U8 | U16, .channels = ALL, .keeps_icc = true},
    {{"jpeg", "jpg jpeg jpe jfif"}, is_jpeg, JPEG, .types = U8, .channels = GREY | RGB, .keeps_icc = true,
        .side_most = 65535},
    {{"webp", "webp"}, is_webp, WEBP, .types = U8, .channels = RGB | RGBA, .keeps_icc = true, .side_most = 16383},
    {{"tiff", "tif tiff"}, is_tiff, TIFF, .types = U8 | U16 | HALF | FLOAT, .channels = ALL, .linear_floats = true,
        .keeps_icc = true},
    {{"exr", "exr"}, is_exr, EXR, .types = HALF | FLOAT, .channels = ALL, .linear_floats = true, .premultiplied = true},
    {{"jp2", "jp2"}, is_jp2, JP2, .types = U8 | U16, .channels = ALL},
    {{"j2k", "j2k j2c jpc"}, is_j2k, J2K, .types = U8 | U16, .channels = ALL},
    {{"bmp", "bmp dib"}, is_bmp, OURS(bmp), .types = U8, .channels = RGB | RGBA},
    {{"pnm", "ppm pgm pbm pnm"}, is_pnm, OURS(pnm), .types = U8 | U16, .channels = GREY | RGB},
    {{"pam", "pam"}, is_pam, OURS(pam), .types = U8 | U16, .channels = ALL},
    {{"pfm", "pfm"}, is_pfm, OURS(pfm), .types = FLOAT, .channels = GREY | RGB, .linear_floats = true},
};
const int gale__format_count = sizeof gale__formats / sizeof *gale__formats;

const gale_picture_format *gale_picture_format_get(int index)
{
    return index >= 0 && index < gale__format_count ? &gale__formats[index].about : NULL;
}

const gale__format *gale__format_of_bytes(const uint8_t *data, size_t size)
{
    for (int i = 0; i < gale__format_count; i++)
        if (gale__formats[i].is(data, size)) return &gale__formats[i];
    return NULL;
}

/* Whether the word is one of the list's, which are parted by spaces. */
static bool in_list(const char *list, const char *word)
{
    char one[16];
    while (*list) {
        size_t n = strcspn(list, " ");
        memcpy(one, list, n);
        one[n] = 0;
        if (gale__text_equal_nocase(one, word)) return true;
        list += n + (list[n] == ' ');
    }
    return false;
}

const gale__format *gale__format_of_name(const char *name)
{
    if (*name == '.') name++;
    for (int i = 0; i < gale__format_count; i++)
        if (gale__text_equal_nocase(gale__formats[i].about.name, name) ||
            in_list(gale__formats[i].about.extensions, name))
            return &gale__formats[i];
    return NULL;
}
