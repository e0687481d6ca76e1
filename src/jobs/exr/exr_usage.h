/* What a batch did on a device, by the device's own clock. */
#ifndef GALE_JOBS_EXR_USAGE_H
#define GALE_JOBS_EXR_USAGE_H
#include "gale/exr.h"
#include "gale/profile.h"

/* Sums of what the profiler, which has stopped, saw: kernels, transfers, and the time in which there was either. */
gale_status gale__exr_usage(const gale_profiler *profiler, gale_exr_usage *out);
#endif
