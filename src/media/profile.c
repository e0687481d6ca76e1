/* Profiles through Little CMS, perceptual, to sRGB. */
#include "media/profile.h"
#include <lcms2.h>
#include <string.h>

struct gale__profile {
    cmsHTRANSFORM transform;
};

static cmsUInt32Number format_of(gale__profile_kind kind, bool wide)
{
    switch (kind) {
    case GALE__PROFILE_CMYK: return wide ? TYPE_CMYK_16 : TYPE_CMYK_8;
    case GALE__PROFILE_CMYK_INVERTED: return wide ? TYPE_CMYK_16_REV : TYPE_CMYK_8_REV;
    case GALE__PROFILE_LAB: return wide ? TYPE_LabV2_16 : TYPE_Lab_8;
    }
    return 0;
}

static cmsHPROFILE source_of(const gale_picture_bytes *icc, gale__profile_kind kind)
{
    if (kind == GALE__PROFILE_LAB) return cmsCreateLab4Profile(NULL);
    if (icc->size < 128 || icc->size > UINT32_MAX) {
        gale__log(GALE__WARN, "CMYK without a profile is converted to RGB approximately: colours may look different");
        return NULL;
    }
    cmsHPROFILE from = cmsOpenProfileFromMem(icc->data, (cmsUInt32Number)icc->size);
    if (from && cmsGetColorSpace(from) == cmsSigCmykData) return from;
    if (from) cmsCloseProfile(from);
    gale__log(GALE__WARN,
        "its colour profile is damaged or not for CMYK, which is converted to RGB approximately: colours may look "
        "different");
    return NULL;
}

gale_status gale__profile_open(
    const gale_picture_bytes *icc, gale__profile_kind kind, gale_type type, gale__profile **out)
{
    bool wide = type == GALE_U16;
    cmsHPROFILE from = source_of(icc, kind);
    *out = NULL;
    if (!from) return GALE_OK;
    /* in a table of Lab, as Little CMS makes it for speed, white is between two points and turns yellow */
    cmsUInt32Number flags = cmsFLAGS_NOCACHE | (kind == GALE__PROFILE_LAB ? cmsFLAGS_NOOPTIMIZE : 0);
    cmsHPROFILE to = cmsCreate_sRGBProfile();
    cmsHTRANSFORM made = to ? cmsCreateTransform(from, format_of(kind, wide), to, wide ? TYPE_RGB_16 : TYPE_RGB_8,
                                  INTENT_PERCEPTUAL, flags)
                            : NULL;
    if (to) cmsCloseProfile(to);
    cmsCloseProfile(from);
    gale__profile *p = made ? gale__calloc(1, sizeof *p) : NULL;
    if (made && !p) cmsDeleteTransform(made);
    if (made && !p) return GALE_NO_MEMORY;
    if (p) p->transform = made;
    else gale__log(GALE__WARN, "its colour profile cannot be used: colours may look different");
    *out = p;
    return GALE_OK;
}

void gale__profile_run(const gale__profile *p, const void *from, void *to, size_t pixels)
{
    cmsDoTransform(p->transform, from, to, (cmsUInt32Number)pixels);
}

void gale__profile_close(gale__profile **p)
{
    if (!*p) return;
    cmsDeleteTransform((*p)->transform);
    gale__free(*p);
    *p = NULL;
}

/* Primaries of which pictures say the number; D65 is white in all of them. */
static bool find_primaries(int number, cmsCIExyYTRIPLE *out)
{
    enum { BT2020 = 9, DISPLAY_P3 = 12 };
    if (number == BT2020) *out = (cmsCIExyYTRIPLE){{0.708, 0.292, 1}, {0.170, 0.797, 1}, {0.131, 0.046, 1}};
    else if (number == DISPLAY_P3) *out = (cmsCIExyYTRIPLE){{0.680, 0.320, 1}, {0.265, 0.690, 1}, {0.150, 0.060, 1}};
    else return false;
    return true;
}

static gale_status keep_profile(cmsHPROFILE profile, gale_picture *p)
{
    cmsUInt32Number size = 0;
    if (!cmsSaveProfileToMem(profile, NULL, &size) || !size) return gale__fail(GALE_NO_MEMORY, "out of memory");
    void *data = gale__alloc(size);
    if (!data) return GALE_NO_MEMORY;
    if (!cmsSaveProfileToMem(profile, data, &size)) {
        gale__free(data);
        return gale__fail(GALE_NO_MEMORY, "out of memory");
    }
    gale__free(p->icc.data);
    p->icc = (gale_picture_bytes){data, size};
    return GALE_OK;
}

gale_status gale__profile_of_numbers(int primaries, int transfer, gale_picture *p)
{
    enum { PQ = 16, HLG = 18 };
    static const cmsFloat64Number srgb[] = {2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045};
    const cmsCIExyY white = {0.3127, 0.3290, 1};
    cmsCIExyYTRIPLE colours;
    if (transfer == PQ || transfer == HLG)
        gale__log(GALE__WARN, "it is HDR (%s), and its values are used unchanged: colours will look flat",
            transfer == PQ ? "PQ" : "HLG");
    if (transfer == PQ || transfer == HLG || !find_primaries(primaries, &colours)) return GALE_OK;
    cmsToneCurve *curve = cmsBuildParametricToneCurve(NULL, 4, srgb);
    cmsHPROFILE profile = curve ? cmsCreateRGBProfile(&white, &colours, (cmsToneCurve *[]){curve, curve, curve}) : NULL;
    gale_status status = profile ? keep_profile(profile, p) : gale__fail(GALE_NO_MEMORY, "out of memory");
    if (profile) cmsCloseProfile(profile);
    if (curve) cmsFreeToneCurve(curve);
    return status;
}
