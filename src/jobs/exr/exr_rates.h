/* How fast this machine's devices compute pictures, measured by batches and kept in the cache folder; and what follows
 * for the choice of devices. */
#ifndef GALE_JOBS_EXR_RATES_H
#define GALE_JOBS_EXR_RATES_H
#include "gale/exr.h"

/* Seconds of the pixel stages for a byte of decoded samples, when as many lanes work as there are. */
typedef struct gale__exr_rates {
    double cpu, gpu;
    double start; /* seconds until a GPU computes: its driver, its context, the first kernels */
    bool measured;
} gale__exr_rates;
/* Those of this machine for such pictures: resized, with a local tone map, or neither.  What was never measured is
 * assumed. */
void gale__exr_rates_load(const gale_exr_look *look, gale__exr_rates *out);
/* What a batch has shown: a third of the new figure, two of the old.  Drivers that run on the CPU teach nothing.  Rates
 * that cannot be stored are no error. */
void gale__exr_rates_learn(const gale_exr_look *look, const gale_exr_batch *batch, const gale_device *first);
/* Seconds of the pixel stages of so many bytes on the CPU, or on a GPU that must be opened first. */
double gale__exr_rates_predict(const gale__exr_rates *r, uint64_t bytes, bool gpu);
#endif
