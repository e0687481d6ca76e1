/* The pixel pipeline as one graph: planes of linear values in, interleaved pixels of a picture out. */
#ifndef GALE_JOBS_EXR_LOOK_H
#define GALE_JOBS_EXR_LOOK_H
#include "gale/exr.h"
#include "jobs/exr/cube.h"
#include "jobs/exr/maker.h"
#include "media/exr_image.h"

/* All that a graph is made for.  Zeroed before it is filled, so that two can be compared byte by byte. */
typedef struct gale__look_plan {
    int64_t in_width, in_height, width, height;
    int channels;   /* of the planes: 1 to 4; 2 and 4 with alpha */
    int kept;       /* of the result: as many, or without alpha */
    bool padded;    /* three colours as four channels, for kernels that make a word a pixel; kept: 4 */
    gale_type type; /* of the planes */
    gale_exr_tone tone;
    gale_exr_filter filter;
    double exposure, gamma, radius, matrix[9];
    bool by_matrix, dither;
    bool fast;              /* for the device's own functions; gale__look_program decides */
    bool halves;            /* for its arithmetic on pairs of halves; so does it if they are not asked for */
    int bits;               /* 8 or 16 */
    const gale__cube *cube; /* NULL: none; lives as long as programs for the plan are made */
} gale__look_plan;
/* Whether the result is one word a pixel, U32 [1, height, width]: red, green, blue and alpha as bytes in this order in
 * memory (of a little-endian machine). */
bool gale__look_is_packed(const gale__look_plan *plan);
/* One input [channels, in_height, in_width], one output: packed, or [height, width, kept] of u8 or u16. */
gale_status gale__look_graph(const gale__look_plan *plan, gale_graph **out);
gale_status gale__look_program(const gale__look_plan *plan, gale_device *device, gale_program **out);
/* What becomes of colours in a 3D table: floats, or, if the table stays between 0 and 1, levels of 8 bits in one word.
 */
typedef enum gale__look_sums {
    GALE__LOOK_FLOATS,
    GALE__LOOK_WORDS, /* levels, as one sum of 64 bits */
    GALE__LOOK_HALVES /* levels, as sums of halves in pairs */
} gale__look_sums;
/* Colours between 0 and 1 as places along an axis of the 3D table: times *scale and *more; unchanged without one. */
void gale__look_cube_scale(const gale__cube *c, int channel, gale__look_sums sums, double *scale, double *more);
/* n values, whose colours are between 0 and 1, through the table, in place.  Three: a colour each, [1, height, width],
 * by gale__look_cube_scale unless there is a 1D table; the first becomes the word of levels.
 * One: [channels of the result, height, width]; if that has alpha, the channel is of no use afterwards. */
void gale__look_cube(
    gale__maker *m, const gale__cube *c, gale_value *v, int n, int colours, int channels, gale__look_sums sums);
/* gale_exr_viewer_run with memory for the decoded picture that the caller keeps. */
gale_status gale__exr_viewer_run(
    gale_exr_viewer *v, gale_exr *f, gale__exr_image *image, gale_exr_report *report, gale_picture **out);
#endif
