/* Events and captures.  An event remembers which downloads of its stream precede it, so that waiting for it completes
 * them; a capture is the driver's recording of a command sequence. */
#include "device/front.h"
#include <stdatomic.h>

gale_status gale_event_create(gale_device *device, gale_event **out)
{
    GALE__NEED({"device", device}, {"out", out});
    gale_event *e = gale__calloc(1, sizeof *e);
    if (!e) return GALE_NO_MEMORY;
    e->device = device;
    gale_status status = device->backend->event_create(device, e);
    if (status != GALE_OK) {
        gale__free(e);
        return status;
    }
    gale__device_attach(device);
    *out = e;
    return GALE_OK;
}

void gale_event_destroy(gale_event **event)
{
    if (!event || !*event) return;
    gale_event *e = *event;
    *event = NULL;
    e->device->backend->event_destroy(e);
    gale__staging_drop(&e->staging);
    gale__device_detach(e->device);
    gale__free(e);
}

static gale_status check_event(const gale_event *event, const gale_device *device, const char *what)
{
    if (event->device != device)
        return gale__fail(GALE_INVALID, "%s: event and stream belong to different devices", what);
    if (!event->recorded) return gale__fail(GALE_INVALID, "%s: the event was never recorded", what);
    return GALE_OK;
}

gale_status gale_event_record(gale_event *event, gale_stream *stream)
{
    GALE__NEED({"event", event}, {"stream", stream});
    if (event->device != stream->device)
        return gale__fail(GALE_INVALID, "record: event and stream belong to different devices");
    if (stream->capturing)
        return gale__fail(GALE_UNSUPPORTED, "an event cannot be recorded while the stream is captured");
    GALE_TRY(stream->device->backend->event_record(event, stream));
    gale__staging_drop(&event->staging);
    if (stream->staging) {
        event->staging = gale__staging_hold(stream->staging);
        event->mark = gale__staging_mark(stream->staging);
    }
    event->recorded = true;
    return GALE_OK;
}

gale_status gale_event_wait(gale_event *event)
{
    GALE__NEED({"event", event});
    GALE__WITHIN(event->device->context);
    GALE_TRY(check_event(event, event->device, "wait"));
    GALE_TRY(event->device->backend->event_wait(event));
    if (event->staging) gale__staging_complete(event->staging, event->mark);
    return GALE_OK;
}

gale_status gale_event_poll(gale_event *event, bool *reached)
{
    GALE__NEED({"event", event}, {"reached", reached});
    GALE__WITHIN(event->device->context);
    GALE_TRY(check_event(event, event->device, "poll"));
    return event->device->backend->event_poll(event, reached);
}

gale_status gale_stream_wait(gale_stream *stream, gale_event *event)
{
    GALE__NEED({"stream", stream}, {"event", event});
    if (event->device != stream->device) return gale_event_wait(event); /* no driver waits for another's event */
    GALE_TRY(check_event(event, stream->device, "wait"));
    return stream->device->backend->stream_wait(stream, event);
}

gale_status gale_event_elapsed(gale_event *from, gale_event *to, double *time_us)
{
    GALE__NEED({"from", from}, {"to", to}, {"time_us", time_us});
    GALE_TRY(check_event(from, from->device, "elapsed"));
    GALE_TRY(check_event(to, from->device, "elapsed"));
    GALE_TRY(gale_event_wait(from));
    GALE_TRY(gale_event_wait(to));
    return from->device->backend->event_elapsed(from, to, time_us);
}

gale_status gale_capture_begin(gale_stream *stream)
{
    GALE__NEED({"stream", stream});
    const gale__backend *b = stream->device->backend;
    if (!b->capture_begin || !stream->device->info.caps.capture)
        return gale__fail(
            GALE_UNSUPPORTED, "%s cannot capture a stream on this machine; submit the commands again instead", b->name);
    if (stream->capturing) return gale__fail(GALE_INVALID, "the stream is already being captured");
    GALE_TRY(b->capture_begin(stream));
    stream->capturing = true;
    stream->weight = stream->filled = 0;
    return GALE_OK;
}

gale_status gale_capture_end(gale_stream *stream, gale_capture **out)
{
    GALE__NEED({"stream", stream}, {"out", out});
    if (!stream->capturing) return gale__fail(GALE_INVALID, "the stream is not being captured");
    gale_capture lost = {.device = stream->device};
    gale_capture *c = gale__calloc(1, sizeof *c);
    stream->capturing = false;
    gale_status status = stream->device->backend->capture_end(stream, c ? (c->device = stream->device, c) : &lost);
    if (!c && status == GALE_OK) stream->device->backend->capture_destroy(&lost);
    if (!c || status != GALE_OK) {
        gale__free(c);
        return c ? status : gale__fail(GALE_NO_MEMORY, "out of memory for the capture");
    }
    c->occupancy = stream->weight > 0 ? stream->filled / stream->weight : -1;
    gale__device_attach(stream->device);
    *out = c;
    return GALE_OK;
}

gale_status gale_capture_replay(gale_stream *stream, gale_capture *capture)
{
    GALE__NEED({"stream", stream}, {"capture", capture});
    if (stream->device != capture->device)
        return gale__fail(GALE_INVALID, "replay: capture and stream belong to different devices");
    if (stream->capturing) return gale__fail(GALE_UNSUPPORTED, "a replay cannot be captured");
    gale__profiler_span span = {0};
    if (GALE__PROFILER(stream->device)) {
        gale__tag t = {.name = "replay", .op = ""};
        span = gale__profiler_span_begin(stream, GALE__SPAN_REPLAY, &t);
    }
    gale_status status = stream->device->backend->capture_replay(stream, capture);
    if (!span.profiler) return status;
    gale__profiler_span_end(stream, span);
    gale__profiler_span_occupancy(span, capture->occupancy);
    return status;
}

void gale_capture_destroy(gale_capture **capture)
{
    if (!capture || !*capture) return;
    gale_capture *c = *capture;
    *capture = NULL;
    c->device->backend->capture_destroy(c);
    gale__device_detach(c->device);
    gale__free(c);
}
