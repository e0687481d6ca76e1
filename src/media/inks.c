/* Pictures whose samples are inks or Lab become RGB in their own place: by a profile where there is one, else, for
 * inks, by the white that each leaves, times what black leaves. */
#include "media/profile.h"
#include <string.h>

static void mix(gale_picture *p)
{
    uint64_t most = p->type == GALE_U8 ? 255 : 65535;
    for (size_t i = 0, n = (size_t)p->width * (size_t)p->height * 3; i < n; i++) {
        size_t ink = i / 3 * 4 + i % 3, black = i / 3 * 4 + 3;
        uint64_t a = most - (most == 255 ? ((uint8_t *)p->data)[ink] : ((uint16_t *)p->data)[ink]),
                 b = most - (most == 255 ? ((uint8_t *)p->data)[black] : ((uint16_t *)p->data)[black]);
        uint64_t v = (a * b + most / 2) / most;
        if (most == 255) ((uint8_t *)p->data)[i] = (uint8_t)v;
        else ((uint16_t *)p->data)[i] = (uint16_t)v;
    }
}

/* Rows of p->channels samples become rows of three, which take no more room. */
static gale_status convert(const gale__profile *profile, gale_picture *p)
{
    size_t from = gale__picture_row_bytes(p), to = (size_t)p->width * 3 * gale_type_size(p->type);
    uint8_t *row = gale__alloc(from);
    if (!row) return GALE_NO_MEMORY;
    for (size_t y = 0; y < (size_t)p->height; y++) {
        memcpy(row, (uint8_t *)p->data + y * from, from);
        gale__profile_run(profile, row, (uint8_t *)p->data + y * to, (size_t)p->width);
    }
    gale__free(row);
    return GALE_OK;
}

gale_status gale__picture_from_inks(gale_picture *p)
{
    gale__profile *profile = NULL;
    GALE_TRY(gale__profile_open(&p->icc, GALE__PROFILE_CMYK, p->type, &profile));
    gale_status status = GALE_OK;
    if (profile) status = convert(profile, p);
    else mix(p);
    gale__profile_close(&profile);
    p->channels = 3;
    return status == GALE_OK ? gale__picture_bytes_set(&p->icc, NULL, 0) : status;
}

/* TIFF's own Lab has a and b with a sign, and in 16 bits L to the end of the range, where ICC's ends a little before.
 */
static void to_icc_lab(gale_picture *p)
{
    for (size_t i = 0, n = (size_t)p->width * (size_t)p->height * 3; i < n; i++) {
        uint8_t *narrow = (uint8_t *)p->data + i;
        uint16_t *wide = (uint16_t *)p->data + i;
        if (p->type == GALE_U8) *narrow ^= i % 3 ? 0x80 : 0;
        else *wide = i % 3 ? *wide ^ 0x8000 : (uint16_t)((*wide * 65280u + 32767) / 65535);
    }
}

gale_status gale__picture_from_lab(gale_picture *p, bool as_icc)
{
    gale__profile *profile = NULL;
    GALE_TRY(gale__profile_open(&p->icc, GALE__PROFILE_LAB, p->type, &profile));
    if (!profile)
        return gale__fail(GALE_UNSUPPORTED, "Lab cannot be converted to sRGB: Little CMS cannot create the transform");
    if (!as_icc) to_icc_lab(p);
    gale_status status = convert(profile, p);
    gale__profile_close(&profile);
    return status == GALE_OK ? gale__picture_bytes_set(&p->icc, NULL, 0) : status;
}
