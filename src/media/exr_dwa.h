/* The cosine transforms of DWA. */
#ifndef GALE_MEDIA_EXR_DWA_H
#define GALE_MEDIA_EXR_DWA_H
#include "media/exr_pack.h"

/* Blocks of 8 x 8 of one channel, or of three that are luma and chroma. */
typedef struct gale__dwa_blocks {
    const uint16_t *ac, *ac_end, *dc, *dc_end; /* what is left of the streams; moved on */
    int32_t width, height;
    bool linear; /* values are stored as they are */
    uint16_t *planes[3];
} gale__dwa_blocks;
/* False where the streams end too early. */
bool gale__dwa_open(gale__dwa_blocks *b, int count);

/* The same, to be written.  Halves in, streams out, with room for 64 coefficients a block and channel. */
typedef struct gale__dwa_source {
    uint16_t *ac, *dc; /* moved on */
    int32_t width, height;
    bool linear;
    const uint16_t *planes[3];
} gale__dwa_source;
void gale__dwa_close(gale__dwa_source *s, int count);

/* Row-major places of coefficients, in the order in which they are stored. */
extern const uint8_t gale__dwa_zigzag[64];
#endif
