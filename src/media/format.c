/* The one table of formats.  A row whose library was not there when gale was built stays, so that the message can say
 * what to install. */
#include "media/animation.h"
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
static bool is_gif(const uint8_t *d, size_t n)
{
    return n >= 6 && (!memcmp(d, "GIF87a", 6) || !memcmp(d, "GIF89a", 6));
}

/* Whether the first box names the brand: as the main one, or among those that the file is compatible with. */
static bool has_brand(const uint8_t *d, size_t n, const char *brand, bool first)
{
    if (n < 16 || memcmp(d + 4, "ftyp", 4)) return false;
    if (first) return !memcmp(d + 8, brand, 4);
    size_t end = gale__be32(d) < n ? gale__be32(d) : n;
    for (size_t at = 16; at + 4 <= end; at += 4)
        if (!memcmp(d + at, brand, 4)) return true;
    return false;
}
static bool is_avif(const uint8_t *d, size_t n)
{
    return has_brand(d, n, "avif", true) || has_brand(d, n, "avis", true) ||
           (has_brand(d, n, "mif1", true) && has_brand(d, n, "avif", false));
}
static bool is_heic(const uint8_t *d, size_t n)
{
    static const char *const brands[] = {"heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1"};
    for (size_t i = 0; i < sizeof brands / sizeof *brands; i++)
        if (has_brand(d, n, brands[i], true)) return true;
    return false;
}
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
#define ANIMATED(name) .frames_in = &gale__frames_in_##name, .frames_out = &gale__frames_out_##name
#define BOTH(name) gale__read_##name, gale__write_##name
#define DOES(r, w, pack) .about.reads = r, .about.writes = w, .about.package = pack
#define LIBRARY(package) DOES(true, true, package)
#define WITHOUT(package) NULL, NULL, DOES(false, false, package)

#ifdef GALE_HAVE_PNG
#define PNG BOTH(png), LIBRARY("libpng-dev"), ANIMATED(png)
#else
#define PNG WITHOUT("libpng-dev")
#endif
#ifdef GALE_HAVE_JPEG
#define JPEG BOTH(jpeg), LIBRARY("libjpeg62-turbo-dev")
#else
#define JPEG WITHOUT("libjpeg62-turbo-dev")
#endif
#ifdef GALE_HAVE_WEBP
#define WEBP BOTH(webp), LIBRARY("libwebp-dev"), ANIMATED(webp)
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
#ifdef GALE_HAVE_HEIF
#define HEIF(name) gale__read_##name, NULL, DOES(true, false, "libheif-dev")
#else
#define HEIF(name) WITHOUT("libheif-dev")
#endif
#ifdef GALE_HAVE_GIF
#define GIF BOTH(gif), LIBRARY("libgif-dev"), ANIMATED(gif)
#else
#define GIF WITHOUT("libgif-dev")
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
    {{"gif", "gif"}, is_gif, GIF, .types = U8, .channels = RGB | RGBA, .side_most = 65535},
    {{"avif", "avif"}, is_avif, HEIF(avif), .instead = "png"},
    {{"heic", "heic heif hif"}, is_heic, HEIF(heic), .instead = "jpg"},
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

const char *gale__format_instead(const char *name)
{
    const gale__format *f = gale__format_of_name(name);
    return !f ? NULL : f->instead && !f->write ? f->instead : name + (*name == '.');
}
