/* What still pictures and animations in WebP share. */
#ifndef GALE_MEDIA_WEBP_H
#define GALE_MEDIA_WEBP_H
#include "media/picture.h"
#include <webp/decode.h>
#include <webp/encode.h>
#include <webp/mux.h>

gale_status gale__webp_read_notes(WebPMux *mux, gale_picture *p);
gale_status gale__webp_configure(const gale_picture_write_options *o, WebPConfig *config);
/* Profile, EXIF and XMP into a complete file, where there are any. */
gale_status gale__webp_add_notes(const gale_picture *p, bool animated, gale__str *out);
#endif
