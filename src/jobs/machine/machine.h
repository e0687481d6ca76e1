/* What the jobs about a machine share: devices as JSON, and the device behind a provider's name. */
#ifndef GALE_JOBS_MACHINE_H
#define GALE_JOBS_MACHINE_H
#include "device/registry.h"
#include "gale/machine.h"
#include "jobs/job.h"

void gale__device_json(gale__json_out *j, const gale_device_info *info);
/* The device a provider stands for here, NULL when none: the first that is real hardware. */
const gale_device_info *gale__provider_device(const gale__provider *provider);
/* What is known of a device's driver; texts are of the arena. */
gale_status gale__device_state(gale__arena *arena, const gale_device_info *info, gale_device_state *out);
#endif
