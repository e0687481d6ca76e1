/* How fast this machine's devices make pictures, measured by batches and kept in the cache folder; and what follows
 * for the choice of devices. */
#ifndef GALE_JOBS_EXR_RATES_H
#define GALE_JOBS_EXR_RATES_H
#include "gale/exr.h"

/* Seconds for a byte of decoded samples, when as many lanes work as there are: of the pixel stages, and of decoding,
 * too, for files that a GPU may inflate. */
typedef struct gale__exr_rates {
    double cpu, gpu;
    double start;                /* seconds until a GPU computes: its driver, its context, the first kernels */
    double cpu_bytes, gpu_bytes; /* from how many they were measured; 0: assumed */
} gale__exr_rates;
/* Those of this machine for such pictures: resized, with a local tone map, or neither; zip: that a GPU may inflate. */
void gale__exr_rates_load(const gale_exr_look *look, bool zip, gale__exr_rates *out);
/* What a batch has shown: earlier bytes count half.  Drivers that run on the CPU teach nothing.  Rates
 * that cannot be stored are no error. */
void gale__exr_rates_learn(const gale_exr_look *look, bool zip, const gale_exr_batch *batch, const gale_device *first);
/* Decoded bytes of a file, 0: it cannot be shown; *zip: whether a GPU may inflate it. */
uint64_t gale__exr_rates_bytes(gale_exr *f, const gale_exr_look *look, bool *zip);
/* What of a share's seconds the rates are about. */
double gale__exr_rates_seconds(const gale_exr_share *s, bool zip);
/* Seconds of so many bytes on the CPU, or on a GPU that must be opened first. */
double gale__exr_rates_predict(const gale__exr_rates *r, uint64_t bytes, bool gpu);
#endif
