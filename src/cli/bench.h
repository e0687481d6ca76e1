/* Parts of `gale bench`. */
#ifndef GALE_CLI_BENCH_H
#define GALE_CLI_BENCH_H
#include "cli/args.h"
#include "gale/device.h"
/* A model: cold start, percentiles, memory. */
gale_status gale__bench_model(gale_device *device, const char *path, const gale__args *a);
/* A picture in tiles, on every provider or those that --provider names. */
gale_status gale__bench_upscale(const gale__args *a);
gale_status gale__bench_tokenize(const gale__args *a);
#endif
