/* The colours of an EXR file in planes, as programs need them: the main colours or a named layer, framed by the
 * display window, at the smallest sufficient level of the file. */
#ifndef GALE_MEDIA_EXR_IMAGE_H
#define GALE_MEDIA_EXR_IMAGE_H
#include "gale/exr.h"
#include "kernel/routines/routine.h"

typedef struct gale__exr_image {
    int64_t width, height;
    int channels; /* 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA; colours are multiplied by alpha */
    gale_type type;
    void *data; /* [channels][height][width] */
    size_t capacity;
    int part, level_x, level_y;
    int64_t full_width, full_height; /* of level 0 */
    bool has_chromaticities;
    double chromaticities[8];
} gale__exr_image;
typedef struct gale__exr_wish {
    const char *layer;                 /* NULL: what viewers show first */
    bool no_alpha;                     /* alpha is not read */
    int64_t least_width, least_height; /* a smaller level of the file will do, if it has so many pixels; 0: level 0 */
} gale__exr_wish;
/* Extents of the chosen layer's frame before anything is decoded. */
gale_status gale__exr_image_size(gale_exr *f, const char *layer, int64_t *width, int64_t *height);
/* *image: zeros, or an image that was read before, whose memory is used again: fresh memory is slow on many cores. */
gale_status gale__exr_image_read(gale_exr *f, const gale__exr_wish *wish, gale__exr_image *image);
/* The same picture as ZIP chunks for a device that inflates them.  False: the host has to read it, because it is packed
 * in another way, or is damaged. */
typedef struct gale__exr_packed {
    gale__inflate_args args;
    uint32_t *table; /* to be freed */
    uint64_t first;  /* where in the file the input begins */
    bool serial;     /* one core would decode it */
} gale__exr_packed;
/* Before anything is decoded: all of *image but its memory; *zip: whether the header says that it may be so. */
gale_status gale__exr_image_describe(gale_exr *f, const gale__exr_wish *wish, gale__exr_image *image, bool *zip);
bool gale__exr_image_pack(gale_exr *f, const gale__exr_wish *wish, gale__exr_image *image, gale__exr_packed *out);
/* The file's bytes to the image's memory. */
bool gale__exr_packed_load(gale_exr *f, gale__exr_image *image, gale__exr_packed *p);
void gale__exr_image_finish(gale__exr_image *image);
#endif
