/* What the public functions stand on: a network that is open already. */
#ifndef GALE_JOBS_UPSCALE_H
#define GALE_JOBS_UPSCALE_H
#include "gale/upscale.h"
#include "jobs/upscale/network.h"
#include "media/picture.h"
/* control: of the network's control_size; NULL: the manifest's defaults.  device: where the network is, for resizing.
 */
gale_status gale__upscale(gale__network *network, gale_device *device, const gale_picture *in, const float *control,
    const gale_upscale_options *options, gale_upscale_report *report, gale_picture **out);
/* Whether the network runs once more (at least once) for a result of this size, and what goes in then: the picture as
 * it is after so many passes, or smaller, since twice the size that is wanted is enough for resizing. */
bool gale__upscale_next(
    int scale, int64_t wanted_width, int64_t wanted_height, int passes, int64_t *width, int64_t *height);
/* The model within, for those who want to know more of it. */
const gale_model *gale__upscaler_model(const gale_upscaler *u);
const gale__manifest *gale__upscaler_manifest(const gale_upscaler *u);
const gale__network *gale__upscaler_network(const gale_upscaler *u);
/* Whether the picture is cleaned, where that is left to us: sets options->clean, and what was found in the report. */
gale_status gale__upscaler_decide(
    const gale_upscaler *u, const gale_picture *in, gale_upscale_options *options, gale_upscale_report *report);
/* Adds the report of a further run to that of those before. */
void gale__upscale_report_add(const gale_upscale_report *one, gale_upscale_report *all);
#endif
