/* Colours that need a profile to become RGB: inks (CMYK), Lab, and primaries that a file names by number.  Through
 * Little CMS; a build without it logs a warning. */
#ifndef GALE_MEDIA_PROFILE_H
#define GALE_MEDIA_PROFILE_H
#include "media/picture.h"

typedef enum gale__profile_kind {
    GALE__PROFILE_CMYK,          /* 0: no ink */
    GALE__PROFILE_CMYK_INVERTED, /* 0: all of it, as Adobe's JPEG has it */
    GALE__PROFILE_LAB,           /* L from 0, a and b around the middle, as ICC profiles of version 2 have it */
} gale__profile_kind;
typedef struct gale__profile gale__profile; /* the way to sRGB */

/* For samples of u8 or u16, 4 (inks) or 3 (Lab) a pixel, to RGB of the same type.  Lab needs no profile.  *out is NULL
 * where inks have no profile that can be used, which a line in the log says.  GALE_UNSUPPORTED: Lab in a build without
 * Little CMS. */
gale_status gale__profile_open(
    const gale_picture_bytes *icc, gale__profile_kind kind, gale_type type, gale__profile **out);
void gale__profile_run(const gale__profile *p, const void *from, void *to, size_t pixels); /* not in place */
void gale__profile_close(gale__profile **p);

/* The whole picture in its own place: of u8 or u16 samples that are inks (4 a pixel), or Lab (3) as ICC or as TIFF has
 * it.  Its profile is gone afterwards, since RGB is sRGB then. */
gale_status gale__picture_from_inks(gale_picture *p);
gale_status gale__picture_from_lab(gale_picture *p, bool as_icc);

/* Primaries and curve by their numbers in ITU-T H.273: gives the picture a profile, where they are not sRGB's. */
gale_status gale__profile_of_numbers(int primaries, int transfer, gale_picture *p);
#endif
