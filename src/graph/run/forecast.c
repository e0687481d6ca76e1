/* Predicts how long a run would take on other devices. A plan for one device lists the kernels and the bytes and
 * operations of each; the peak rates of another device, and the share of them that a network reaches there, give the
 * time. Nothing is compiled or run, so a choice between devices costs no more than planning. */
#include "graph/run/forecast.h"
#include "device/ceilings.h"

bool gale__forecast_known(const gale_device *device)
{
    const gale_device_ceilings *c = &device->info.ceilings;
    return c->copy_gbps > 0 && c->f32_gflops > 0 && c->efficiency > 0 &&
           (device->info.caps.in_place || (c->upload_gbps > 0 && c->download_gbps > 0 && c->round_trip_us > 0));
}

double gale__forecast_work_us(const gale_device *device, const gale__plan *plan)
{
    const gale_device_ceilings *c = &device->info.ceilings;
    double us = 0;
    for (int i = 0; i < plan->n_steps; i++)
        if (!plan->steps[i].once)
            us += gale__ceiling_us(c, plan->steps[i].tag.bytes, plan->steps[i].tag.operations) / c->efficiency;
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
