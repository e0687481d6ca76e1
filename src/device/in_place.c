/* Events and waits for backends that run work synchronously: an event is the time at which it was recorded. */
#include "device/in_place.h"

gale_status gale__in_place_event_create(gale_device *device, gale_event *event)
{
    (void)device;
    event->impl = gale__calloc(1, sizeof(uint64_t));
    return event->impl ? GALE_OK : GALE_NO_MEMORY;
}

void gale__in_place_event_destroy(gale_event *event) { gale__free(event->impl); }

gale_status gale__in_place_event_record(gale_event *event, gale_stream *stream)
{
    (void)stream;
    *(uint64_t *)event->impl = gale__time_ns();
    return GALE_OK;
}

gale_status gale__in_place_event_wait(gale_event *event)
{
    (void)event;
    return GALE_OK;
}

gale_status gale__in_place_event_poll(gale_event *event, bool *reached)
{
    (void)event;
    *reached = true;
    return GALE_OK;
}

gale_status gale__in_place_event_elapsed(gale_event *from, gale_event *to, double *time_us)
{
    *time_us = (double)(int64_t)(*(uint64_t *)to->impl - *(uint64_t *)from->impl) / 1e3;
    return GALE_OK;
}

gale_status gale__in_place_stream_wait(gale_stream *stream, gale_event *event)
{
    (void)stream, (void)event;
    return GALE_OK;
}

gale_status gale__in_place_sync(gale_stream *stream)
{
    (void)stream;
    return GALE_OK;
}

gale_status gale__in_place_kernel(gale_module *module, gale_kernel *kernel)
{
    (void)module, (void)kernel;
    return GALE_OK;
}

void gale__in_place_kernel_destroy(gale_kernel *kernel) { (void)kernel; }

void gale__in_place_unbuild(gale_module *module) { (void)module; }
