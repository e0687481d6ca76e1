/* Predicts how long a run would take on other devices. A plan for one device lists the kernels and the bytes and
 * operations of each; the peak rates of another device, the share of them that a network reaches there, and what each
 * kernel takes beside its work give the time. Nothing is compiled or run, so a choice between devices costs no more
 * than planning. */
#include "graph/run/forecast.h"
#include "device/ceilings.h"
#include <math.h>

bool gale__forecast_known(const gale_device *device)
{
    const gale_device_ceilings *c = &device->info.ceilings;
    return c->copy_gbps > 0 && c->f32_gflops > 0 && c->efficiency > 0 && c->small_us > 0 &&
           (device->info.caps.in_place || (c->upload_gbps > 0 && c->download_gbps > 0 && c->round_trip_us > 0));
}

/* Between the two that were measured, as a power of the operations. */
static double beside_work_us(const gale_device_ceilings *c, double operations)
{
    const double side = (double)GALE__FORECAST_LARGE / GALE__FORECAST_SMALL, small = GALE__FORECAST_SMALL;
    double share = operations > 0 ? log(operations / (2 * small * small * small)) / log(side * side * side) : 0;
    if (!(c->large_us > c->small_us) || share <= 0) return c->small_us;
    return share < 1 ? c->small_us * pow(c->large_us / c->small_us, share) : c->large_us;
}

double gale__forecast_busy_us(const gale_device_ceilings *c, double bytes, double operations, double wait_us)
{
    double work = (gale__ceiling_us(c, bytes, operations) - c->launch_us) / c->efficiency;
    return work > wait_us ? work : wait_us;
}

double gale__forecast_kernel_us(const gale_device_ceilings *c, double bytes, double operations, double depth)
{
    return beside_work_us(c, operations) + gale__forecast_busy_us(c, bytes, operations, depth * c->step_ns / 1e3);
}

double gale__forecast_work_us(const gale_device *device, const gale__plan *plan)
{
    double us = 0;
    for (int i = 0; i < plan->n_steps; i++) {
        const gale__plan_step *s = &plan->steps[i];
        if (s->once) continue;
        us += gale__forecast_kernel_us(&device->info.ceilings, s->tag.bytes, s->tag.operations, s->depth);
        us += s->trips * device->info.ceilings.small_us; /* threads meet after each */
    }
    return us;
}

double gale__forecast_transfer_us(const gale_device *device, double up_bytes, double down_bytes)
{
    const gale_device_ceilings *c = &device->info.ceilings;
    if (device->info.caps.in_place) return 0;
    return c->round_trip_us + up_bytes / (c->upload_gbps * 1e3) + down_bytes / (c->download_gbps * 1e3);
}

gale_status gale__program_forecast(
    gale_program *p, gale_tensor *const *inputs, gale_device *const *devices, int n, double *times_us)
{
    gale__plan *plan = NULL;
    double up = 0, down = 0;
    GALE_TRY(gale__program_plan(p, inputs, &plan));
    for (int i = 0; i < p->graph->n_inputs; i++)
        if (!p->plan_inputs[i]) up += (double)inputs[i]->size_bytes;
    for (int i = 0; i < plan->n_outputs; i++) down += (double)plan->results[i].size_bytes;
    for (int i = 0; i < n; i++)
        times_us[i] = gale__forecast_known(devices[i])
                          ? gale__forecast_work_us(devices[i], plan) + gale__forecast_transfer_us(devices[i], up, down)
                          : -1;
    gale__plan_destroy(&plan);
    return GALE_OK;
}
