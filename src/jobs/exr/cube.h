/* Tables of colours in .cube files: one for each channel (1D), one for colours (3D), or the first before the second. */
#ifndef GALE_JOBS_EXR_CUBE_H
#define GALE_JOBS_EXR_CUBE_H
#include "base/mem.h"

typedef struct gale__cube {
    int64_t size;           /* of the 3D table along each axis, 2 to 129; 0: none */
    double low[3], high[3]; /* its domain */
    float *values;          /* [3][blue][green][red] */
    int64_t curve_size;     /* of the 1D table, 2 to 65536; 0: none */
    double curve_low[3], curve_high[3];
    float *curve; /* [3][curve_size] */
} gale__cube;
/* GALE_FORMAT, with the line, for what is none. */
gale_status gale__cube_parse(const char *text, gale__cube *out);
gale_status gale__cube_read(const char *path, gale__cube *out);
void gale__cube_finish(gale__cube *c);
/* Whether all that comes out is between 0 and 1. */
bool gale__cube_stays(const gale__cube *c);
#endif
