/* Peak rates of a device, measured once and stored in the cache folder under its id and driver. */
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
gale_status gale__ceilings_set_efficiency(gale_device *device, double share);
gale_status gale__ceilings_set_kernel(gale_device *device, double small_us, double large_us, double step_ns);
gale_status gale__ceilings_raise_copy(gale_device *device, double gbps);
gale_status gale__ceilings_raise_round_trip(gale_device *device, double us);
/* The least time of a kernel that moves these bytes and does these operations; what is not measured costs nothing. */
static inline double gale__ceiling_us(const gale_device_ceilings *c, double bytes, double operations)
{
    double memory = c->copy_gbps > 0 ? bytes / (c->copy_gbps * 1e3) : 0,
           work = c->f32_gflops > 0 ? operations / (c->f32_gflops * 1e3) : 0;
    return (memory > work ? memory : work) + c->launch_us;
}
#endif
