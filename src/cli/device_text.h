/* Devices in words, for the commands that show them. */
#ifndef GALE_CLI_DEVICE_TEXT_H
#define GALE_CLI_DEVICE_TEXT_H
#include "base/json.h"
#include "device/registry.h"

void gale__features_text(const gale_device_caps *caps, gale__str *out); /* "f16 f64 i64" */
void gale__ceilings_text(const gale_device_ceilings *c, gale__str *out);
void gale__device_json(gale__json_out *j, const gale_device_info *info);
void gale__device_describe(const gale_device_info *info, gale__str *out); /* a few indented lines */
/* The device a provider stands for here, NULL when none: the first that is real hardware. */
const gale_device_info *gale__provider_device(const gale__provider *provider);
#endif
