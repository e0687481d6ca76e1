/* The rows of a PNG, filtered and compressed on all cores. */
#ifndef GALE_MEDIA_PNG_PACK_H
#define GALE_MEDIA_PNG_PACK_H
#include "media/picture.h"
/* Appends IDAT chunks and the end to a file whose other chunks stand there already.  effort: 1..9, 0 the usual one. */
gale_status gale__png_pack(const gale_picture *p, int effort, gale__str *out);
#endif
