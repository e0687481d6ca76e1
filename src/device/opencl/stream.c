/* Streams, transfers and events: an in-order profiling queue per stream, a marker per event.  Waiting polls, since
 * OpenCL has no wait with a timeout and a hung device must be distinguished from a busy one. */
#include "device/opencl/opencl.h"

#define SPIN_NS 50000u        /* short waits: no sleep at all */
#define SLEEP_MAX_NS 1000000u /* in waits of up to 0.128 s */
/* Longer ones look less often, since software drivers compile for seconds, and each look takes their processor. */
#define SLEEP_LONG_NS 20000000u

static cl_command_queue queue_of(const gale_stream *stream) { return stream->impl; }

static gale_status poll_event(const gale__cl_device *d, cl_event event, const char *what, bool *reached)
{
    cl_int state = CL_QUEUED;
    cl_int e = d->cl->clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    if (e != CL_SUCCESS) return gale__cl_fail(e, "clGetEventInfo");
    *reached = state == CL_COMPLETE;
    if (state >= 0) return GALE_OK;
    gale__cl_fail(state, "%s: a command failed on the device", what);
    return GALE_DEVICE_LOST;
}

gale_status gale__cl_wait(const gale_device *device, cl_event event)
{
    const char *what = device->info.name;
    uint64_t start = gale__time_ns();
    uint64_t limit_ns = gale__watchdog_ns(device->info.caps.software);
    for (;;) {
        bool reached = false;
        GALE_TRY(poll_event(gale__cl_of(device), event, what, &reached));
        if (reached) return GALE_OK;
        uint64_t waited = gale__time_ns() - start;
        if (limit_ns && waited > limit_ns)
            return gale__fail(GALE_TIMEOUT, "%s: no response from the device for %.0f s (GALE_WATCHDOG_S)", what,
                (double)limit_ns * 1e-9);
        uint64_t most = waited / 128 < SLEEP_LONG_NS ? waited / 128 : SLEEP_LONG_NS;
        if (most < SLEEP_MAX_NS) most = SLEEP_MAX_NS;
        if (waited > SPIN_NS) gale__sleep_ns(waited / 8 < most ? waited / 8 : most);
    }
}

gale_status gale__cl_stream_create(gale_device *device, gale_stream *stream)
{
    gale__cl_device *d = gale__cl_of(device);
    cl_int e = CL_SUCCESS;
    stream->impl = d->cl->clCreateCommandQueue(d->context, d->id, CL_QUEUE_PROFILING_ENABLE, &e);
    return stream->impl ? GALE_OK : gale__cl_fail(e, "clCreateCommandQueue");
}

void gale__cl_stream_destroy(gale_stream *stream)
{
    if (stream->impl) gale__cl_of(stream->device)->cl->clReleaseCommandQueue(queue_of(stream));
    stream->impl = NULL;
}

gale_status gale__cl_upload(gale_stream *stream, gale__ref to, gale__ref host, size_t size)
{
    const char *at = (const char *)host.mem->host + host.offset;
    cl_int e =
        gale__cl_of(stream->device)
            ->cl->clEnqueueWriteBuffer(queue_of(stream), to.mem->handle, CL_FALSE, to.offset, size, at, 0, NULL, NULL);
    return e == CL_SUCCESS ? GALE_OK : gale__cl_fail(e, "clEnqueueWriteBuffer of %zu bytes", size);
}

gale_status gale__cl_download(gale_stream *stream, gale__ref from, gale__ref host, size_t size)
{
    char *at = (char *)host.mem->host + host.offset;
    cl_int e = gale__cl_of(stream->device)
                   ->cl->clEnqueueReadBuffer(
                       queue_of(stream), from.mem->handle, CL_FALSE, from.offset, size, at, 0, NULL, NULL);
    return e == CL_SUCCESS ? GALE_OK : gale__cl_fail(e, "clEnqueueReadBuffer of %zu bytes", size);
}

gale_status gale__cl_copy(gale_stream *stream, gale__ref to, gale__ref from, size_t size)
{
    cl_int e = gale__cl_of(stream->device)
                   ->cl->clEnqueueCopyBuffer(
                       queue_of(stream), from.mem->handle, to.mem->handle, from.offset, to.offset, size, 0, NULL, NULL);
    return e == CL_SUCCESS ? GALE_OK : gale__cl_fail(e, "clEnqueueCopyBuffer of %zu bytes", size);
}

/* Offset and size are whole patterns, as OpenCL wants them: the front sees to it. */
gale_status gale__cl_fill(gale_stream *stream, gale__ref to, size_t size, uint64_t pattern, size_t pattern_bytes)
{
    cl_int e = gale__cl_of(stream->device)
                   ->cl->clEnqueueFillBuffer(
                       queue_of(stream), to.mem->handle, &pattern, pattern_bytes, to.offset, size, 0, NULL, NULL);
    return e == CL_SUCCESS ? GALE_OK : gale__cl_fail(e, "clEnqueueFillBuffer of %zu bytes", size);
}

static gale_status mark(gale_stream *stream, cl_event *out)
{
    const gale__cl *cl = gale__cl_of(stream->device)->cl;
    cl_int e = cl->clEnqueueMarkerWithWaitList(queue_of(stream), 0, NULL, out);
    if (e != CL_SUCCESS) return gale__cl_fail(e, "clEnqueueMarkerWithWaitList");
    e = cl->clFlush(queue_of(stream)); /* so that another queue, or a poll, sees it move */
    if (e == CL_SUCCESS) return GALE_OK;
    cl->clReleaseEvent(*out);
    return gale__cl_fail(e, "clFlush");
}

gale_status gale__cl_sync(gale_stream *stream)
{
    gale__cl_device *d = gale__cl_of(stream->device);
    cl_event event;
    GALE_TRY(mark(stream, &event));
    gale_status status = gale__cl_wait(stream->device, event);
    d->cl->clReleaseEvent(event);
    return status;
}

gale_status gale__cl_event_create(gale_device *device, gale_event *event)
{
    (void)device;
    event->impl = NULL; /* a cl_event is made by each record */
    return GALE_OK;
}

void gale__cl_event_destroy(gale_event *event)
{
    if (event->impl) gale__cl_of(event->device)->cl->clReleaseEvent(event->impl);
    event->impl = NULL;
}

gale_status gale__cl_event_record(gale_event *event, gale_stream *stream)
{
    cl_event made;
    GALE_TRY(mark(stream, &made));
    gale__cl_event_destroy(event);
    event->impl = made;
    return GALE_OK;
}

gale_status gale__cl_event_wait(gale_event *event)
{
    return event->impl ? gale__cl_wait(event->device, event->impl) : GALE_OK;
}

gale_status gale__cl_event_poll(gale_event *event, bool *reached)
{
    *reached = true;
    return event->impl ? poll_event(gale__cl_of(event->device), event->impl, event->device->info.name, reached)
                       : GALE_OK;
}

gale_status gale__cl_stream_wait(gale_stream *stream, gale_event *event)
{
    cl_event one = event->impl;
    if (!one) return GALE_OK;
    cl_int e = gale__cl_of(stream->device)->cl->clEnqueueBarrierWithWaitList(queue_of(stream), 1, &one, NULL);
    return e == CL_SUCCESS ? GALE_OK : gale__cl_fail(e, "clEnqueueBarrierWithWaitList");
}

gale_status gale__cl_event_elapsed(gale_event *from, gale_event *to, double *time_us)
{
    const gale__cl *cl = gale__cl_of(from->device)->cl;
    cl_ulong a = 0, b = 0;
    cl_int e = cl->clGetEventProfilingInfo(from->impl, CL_PROFILING_COMMAND_END, sizeof a, &a, NULL);
    if (e == CL_SUCCESS) e = cl->clGetEventProfilingInfo(to->impl, CL_PROFILING_COMMAND_END, sizeof b, &b, NULL);
    if (e != CL_SUCCESS) return gale__cl_fail(e, "clGetEventProfilingInfo");
    *time_us = ((double)b - (double)a) * 1e-3;
    return GALE_OK;
}
