/* The part of the table shared by all backends without a queue: work runs synchronously, so an event is complete when
 * it is recorded and nothing has to wait. */
#ifndef GALE_DEVICE_IN_PLACE_H
#define GALE_DEVICE_IN_PLACE_H
#include "device/device.h"

gale_status gale__in_place_event_create(gale_device *device, gale_event *event);
void gale__in_place_event_destroy(gale_event *event);
gale_status gale__in_place_event_record(gale_event *event, gale_stream *stream);
gale_status gale__in_place_event_wait(gale_event *event);
gale_status gale__in_place_event_poll(gale_event *event, bool *reached);
gale_status gale__in_place_event_elapsed(gale_event *from, gale_event *to, double *time_us);
gale_status gale__in_place_stream_wait(gale_stream *stream, gale_event *event);
gale_status gale__in_place_sync(gale_stream *stream);
gale_status gale__in_place_kernel(gale_module *module, gale_kernel *kernel);
void gale__in_place_kernel_destroy(gale_kernel *kernel);
void gale__in_place_unbuild(gale_module *module);

#define GALE__IN_PLACE                                                                            \
    .unbuild = gale__in_place_unbuild, .kernel = gale__in_place_kernel,                           \
    .kernel_destroy = gale__in_place_kernel_destroy, .event_create = gale__in_place_event_create, \
    .event_destroy = gale__in_place_event_destroy, .event_record = gale__in_place_event_record,   \
    .event_wait = gale__in_place_event_wait, .event_poll = gale__in_place_event_poll,             \
    .event_elapsed = gale__in_place_event_elapsed, .stream_wait = gale__in_place_stream_wait
#endif
