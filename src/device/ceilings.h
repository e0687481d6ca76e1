/* What a device reaches at best, measured once and kept in the cache folder under its id and driver. */
#ifndef GALE_DEVICE_CEILINGS_H
#define GALE_DEVICE_CEILINGS_H
#include "device/device.h"

/* Fills info->ceilings from the cache; leaves zeros when nothing usable is there. */
void gale__ceilings_load(gale_device_info *info);
gale_status gale__ceilings_save(const gale_device_info *info);
/* Measures copy, upload, download and launch (half a second) and saves; f32_gflops stays as it is. */
gale_status gale__ceilings_measure(gale_device *device);
/* The kernel room's measurements: kept and saved with the rest.  A driver's own copy may be slower than a kernel that
 * copies (NVIDIA's Vulkan: 838 of 4170 GB/s on an H200), so a copy rate is only ever raised. */
gale_status gale__ceilings_set_f32(gale_device *device, double gflops);
gale_status gale__ceilings_raise_copy(gale_device *device, double gbps);
#endif
