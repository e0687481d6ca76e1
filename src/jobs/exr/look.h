/* The pixel pipeline as one graph: planes of linear values in, interleaved pixels of a picture out. */
#ifndef GALE_JOBS_EXR_LOOK_H
#define GALE_JOBS_EXR_LOOK_H
#include "gale/exr.h"
#include "jobs/exr/cube.h"
#include "jobs/exr/maker.h"

/* All that a graph is made for.  Zeroed before it is filled, so that two can be compared byte by byte. */
typedef struct gale__look_plan {
    int64_t in_width, in_height, width, height;
    int channels;   /* of the planes: 1 to 4; 2 and 4 with alpha */
    int kept;       /* of the result: as many, or without alpha */
    gale_type type; /* of the planes */
    gale_exr_tone tone;
    gale_exr_filter filter;
    double exposure, gamma, radius, matrix[9];
    bool by_matrix, dither;
    int bits;               /* 8 or 16 */
    const gale__cube *cube; /* NULL: none; lives as long as programs for the plan are made */
} gale__look_plan;
/* One input [channels, in_height, in_width], one output [height, width, kept] of u8 or u16. */
gale_status gale__look_graph(const gale__look_plan *plan, gale_graph **out);
/* v [channels of the result, height, width], its first `colours` between 0 and 1, through the table; where the result
 * has alpha, that channel is of no use afterwards. */
gale_value gale__look_cube(gale__maker *m, const gale__cube *c, gale_value v, int colours, int channels);
#endif
