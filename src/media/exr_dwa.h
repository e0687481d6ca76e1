/* The header of DWA and its cosine transforms. */
#ifndef GALE_MEDIA_EXR_DWA_H
#define GALE_MEDIA_EXR_DWA_H
#include "media/exr_pack.h"

/* A block of DWA begins with these numbers, of 8 bytes each. */
typedef enum gale__dwa_size {
    GALE__DWA_VERSION,
    GALE__DWA_OTHER_SIZE,
    GALE__DWA_OTHER_PACKED,
    GALE__DWA_AC_PACKED,
    GALE__DWA_DC_PACKED,
    GALE__DWA_RLE_PACKED,
    GALE__DWA_RLE_SIZE,
    GALE__DWA_RLE_RAW,
    GALE__DWA_AC_COUNT,
    GALE__DWA_DC_COUNT,
    GALE__DWA_AC_HOW,
    GALE__DWA_SIZES
} gale__dwa_size;
enum { GALE__DWA_HEADER = 8 * GALE__DWA_SIZES };
/* How a channel is stored. */
typedef enum gale__dwa_scheme { GALE__DWA_BY_OTHER, GALE__DWA_BY_DCT, GALE__DWA_BY_RLE } gale__dwa_scheme;

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
