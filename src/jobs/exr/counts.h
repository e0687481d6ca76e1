/* What a device computes for the statistics of channels. */
#ifndef GALE_JOBS_EXR_COUNTS_H
#define GALE_JOBS_EXR_COUNTS_H
#include "gale/graph.h"

/* From [planes, samples] of f16, f32 or u32, any number of them, to u32 [planes, 65536]: how often each code of a half
 * occurs.  Of f32 and u32 there is a second result, f64 [planes, GALE__EXR_NUMBERS]. */
gale_status gale__exr_counts_program(gale_device *device, gale_type type, gale_program **out);

/* Counts of samples, then numbers of those that are finite. */
enum { GALE__EXR_INFINITIES, GALE__EXR_NEGATIVES, GALE__EXR_ZEROS };
enum { GALE__EXR_SUM = 3, GALE__EXR_SQUARES, GALE__EXR_LEAST, GALE__EXR_LARGEST, GALE__EXR_NUMBERS };
#endif
