/* What the files for OpenEXR share: which channels make the picture, and what is kept of a header. */
#ifndef GALE_MEDIA_EXR_H
#define GALE_MEDIA_EXR_H
#include "media/formats.h"
#include <OpenEXR/openexr.h>

typedef struct gale__exr_choice {
    int part, channels;   /* channels of the picture, 1 to 4 */
    const char *names[4]; /* their names; the file's */
    bool chroma;          /* they are Y RY BY, of which RGB is made */
    gale_type type;
} gale__exr_choice;
/* `wanted`: a part, a layer, PART.LAYER or a channel; NULL: plain colours before grey before named layers, of the first
 * part that has them.  What is left out is said in the log.  GALE_NOT_FOUND names what there is. */
gale_status gale__exr_choose(exr_const_context_t file, const char *wanted, gale__exr_choice *out);
/* Attributes that mean the same for another picture (comments, chromaticities, camera ...), as bytes, and into a header
 * that is being written. */
gale_status gale__exr_notes_read(exr_const_context_t file, int part, gale_picture_bytes *out);
exr_result_t gale__exr_notes_write(exr_context_t file, int part, const gale_picture_bytes *notes);
/* Luminance with chroma: [0] of each float pixel is Y, the planes hold RY and BY at each `x`-th and `y`-th pixel.
 * primaries may be NULL. */
typedef struct gale__exr_chroma {
    float *planes[2];
    int32_t x[2], y[2];
    int64_t width[2];
} gale__exr_chroma;
void gale__exr_to_rgb(gale_picture *p, const gale__exr_chroma *c, const exr_attr_chromaticities_t *primaries);
#endif
