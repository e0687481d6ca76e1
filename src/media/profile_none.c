/* A build without Little CMS: inks are mixed by a rule of thumb, Lab is refused. */
#include "media/profile.h"

gale_status gale__profile_open(
    const gale_picture_bytes *icc, gale__profile_kind kind, gale_type type, gale__profile **out)
{
    (void)type;
    *out = NULL;
    if (kind == GALE__PROFILE_LAB)
        return gale__fail(GALE_UNSUPPORTED,
            "reading Lab needs Little CMS, which this build does not include; install liblcms2-dev and rebuild");
    gale__log(GALE__WARN, icc->size
                              ? "CMYK is converted to RGB without its profile, because this build does not include "
                                "Little CMS (liblcms2-dev): "
                                "colours may look different"
                              : "CMYK without a profile is converted to RGB approximately: colours may look different");
    return GALE_OK;
}

void gale__profile_run(const gale__profile *p, const void *from, void *to, size_t pixels)
{
    (void)p, (void)from, (void)to, (void)pixels;
}

void gale__profile_close(gale__profile **p) { *p = NULL; }

gale_status gale__profile_of_numbers(int primaries, int transfer, gale_picture *p)
{
    enum { UNKNOWN = 2 };
    (void)transfer, (void)p;
    if (primaries > UNKNOWN)
        gale__log(GALE__WARN,
            "its colours are not sRGB, but are treated as sRGB, because this build does not include Little CMS "
            "(liblcms2-dev): they may look different");
    return GALE_OK;
}
