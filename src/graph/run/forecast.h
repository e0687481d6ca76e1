/* Predictions for devices that a program was not made for. */
#ifndef GALE_GRAPH_RUN_FORECAST_H
#define GALE_GRAPH_RUN_FORECAST_H
#include "graph/run/program.h"

/* Whether all was measured that a prediction for the device is made of. */
bool gale__forecast_known(const gale_device *device);
/* Of a kernel that moves these bytes and does these operations, in sums of `depth` terms; the device must be known.
 * Where work is shared by threads, what a kernel takes beside it grows with the work, up to that of a kernel that keeps
 * all of them busy. */
enum { GALE__FORECAST_SMALL = 16, GALE__FORECAST_LARGE = 128 }; /* sides of the products that were measured */
/* Its work alone, or waiting for the terms of its sums, whichever takes longer. */
double gale__forecast_busy_us(const gale_device_ceilings *c, double bytes, double operations, double wait_us);
double gale__forecast_kernel_us(const gale_device_ceilings *c, double bytes, double operations, double depth);
/* Of a plan's kernels, and of what a run brings there and back; the device must be known. */
double gale__forecast_work_us(const gale_device *device, const gale__plan *plan);
double gale__forecast_transfer_us(const gale_device *device, double up_bytes, double down_bytes);
/* A whole run with inputs and outputs on the host, by device; -1 for those that are not known. */
gale_status gale__program_forecast(
    gale_program *program, gale_tensor *const *inputs, gale_device *const *devices, int n, double *times_us);
#endif
