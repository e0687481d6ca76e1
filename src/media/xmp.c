/* XMP as far as pictures need it: a packet of XML that is copied from file to file unchanged, except for the few
 * numbers that EXIF contains as well.  A number is an attribute, name="6", or an element, <name>6</name>; everything
 * else is left alone, so that no XML library (libexempi: 1.6 MB of C++) is needed. */
#include "media/picture.h"
#include <string.h>

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
static const char *skip(const char *at, const char *end, bool digits)
{
    while (at < end && (digits ? *at >= '0' && *at <= '9' : is_blank(*at))) at++;
    return at;
}

/* The digits of the property whose name ends at `at`: their number, and where they begin. */
static size_t digits_after(const char *at, const char *end, const char **first)
{
    at = skip(at, end, false);
    if (at < end && *at == '=') {
        at = skip(at + 1, end, false);
        if (at == end || (*at != '"' && *at != '\'')) return 0;
    } else if (at == end || *at != '>') return 0;
    *first = skip(at + 1, end, false);
    return (size_t)(skip(*first, end, true) - *first);
}

static gale_status set(gale_picture_bytes *xmp, const char *name, int64_t value)
{
    const char *data = xmp->data, *end = data + xmp->size, *from = data, *at = data;
    size_t length = strlen(name);
    gale__str out = {0};
    while (xmp->size && (at = memmem(at, (size_t)(end - at), name, length))) {
        const char *first = NULL;
        size_t n = digits_after(at += length, end, &first);
        if (!n) continue;
        gale__str_add_n(&out, from, (size_t)(first - from));
        gale__str_addf(&out, "%lld", (long long)value);
        from = at = first + n;
    }
    gale_status status = GALE_OK;
    if (from != data) {
        gale__str_add_n(&out, from, (size_t)(end - from));
        status = gale__str_check(&out);
        if (status == GALE_OK) status = gale__picture_bytes_set(xmp, out.text, out.length);
    }
    gale__str_finish(&out);
    return status;
}

gale_status gale__xmp_upright(gale_picture_bytes *xmp) { return set(xmp, "tiff:Orientation", 1); }

gale_status gale__xmp_extents(gale_picture_bytes *xmp, int64_t width, int64_t height)
{
    GALE_TRY(set(xmp, "tiff:ImageWidth", width));
    GALE_TRY(set(xmp, "tiff:ImageLength", height));
    GALE_TRY(set(xmp, "exif:PixelXDimension", width));
    return set(xmp, "exif:PixelYDimension", height);
}
