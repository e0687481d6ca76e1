/* 3D tables of colours in .cube files. */
#ifndef GALE_JOBS_EXR_CUBE_H
#define GALE_JOBS_EXR_CUBE_H
#include "base/mem.h"

typedef struct gale__cube {
    int64_t size;           /* along each axis, 2 to 129 */
    double low[3], high[3]; /* the domain */
    float *values;          /* [3][blue][green][red] */
} gale__cube;
/* GALE_FORMAT, with the line, for what is none; GALE_UNSUPPORTED for tables of one dimension. */
gale_status gale__cube_parse(const char *text, gale__cube *out);
gale_status gale__cube_read(const char *path, gale__cube *out);
void gale__cube_finish(gale__cube *c);
#endif
