/* Counts of the codes of halves, from which statistics of channels are read. */
#ifndef GALE_JOBS_EXR_COUNTS_H
#define GALE_JOBS_EXR_COUNTS_H
#include "gale/graph.h"

/* From f16 [planes, samples] to u32 [planes, 65536]. */
gale_status gale__exr_counts_program(gale_device *device, int64_t planes, int64_t samples, gale_program **out);
#endif
