/* One pair of functions per format; each in the file of its name. */
#ifndef GALE_MEDIA_FORMATS_H
#define GALE_MEDIA_FORMATS_H
#include "media/picture.h"

#define GALE__FORMAT(name)                                                       \
    gale_status gale__read_##name(gale__picture_source *in, gale_picture **out); \
    gale_status gale__write_##name(const gale_picture *p, const gale_picture_write_options *o, gale__str *out)
GALE__FORMAT(png);
GALE__FORMAT(jpeg);
GALE__FORMAT(webp);
GALE__FORMAT(tiff);
GALE__FORMAT(exr);
GALE__FORMAT(jp2);
GALE__FORMAT(j2k);
GALE__FORMAT(gif);
GALE__FORMAT(bmp);
GALE__FORMAT(pnm);
GALE__FORMAT(pam);
GALE__FORMAT(pfm);
#undef GALE__FORMAT
gale_status gale__read_heic(gale__picture_source *in, gale_picture **out);
gale_status gale__read_avif(gale__picture_source *in, gale_picture **out);
#endif
