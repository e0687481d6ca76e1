/* The front end of library calls: checked and profiled like launches. */
#include "device/call.h"
#include "device/front.h"
#include <stdatomic.h>

gale_status gale__call_product(gale_device *device, const void *product, gale__call **out)
{
    if (!device->backend->product || !device->info.caps.products_side)
        return gale__fail(GALE_UNSUPPORTED, "%s has no library for matrix products", device->info.name);
    gale__call *c = gale__calloc(1, sizeof *c);
    if (!c) return GALE_NO_MEMORY;
    c->device = device;
    c->n_refs = 3;
    gale_status status = device->backend->product(device, product, c);
    if (status == GALE_OK) *out = c;
    else gale__free(c);
    return status;
}

void gale__call_destroy(gale__call **call)
{
    if (!call || !*call) return;
    (*call)->device->backend->call_destroy(*call);
    gale__free(*call);
    *call = NULL;
}

gale_status gale__call_run(
    gale_stream *stream, gale__call *call, const gale__ref *refs, int n_refs, const gale__tag *tag)
{
    if (stream->device != call->device)
        return gale__fail(GALE_INVALID, "%s: the call and the stream belong to different devices", tag->name);
    if (n_refs != call->n_refs + (call->workspace_bytes > 0))
        return gale__fail(GALE_INTERNAL, "%s: %d operands instead of %d", tag->name, n_refs, call->n_refs);
    gale__profiler_span span = {0};
    if (GALE__PROFILER(stream->device)) span = gale__profiler_span_begin(stream, GALE__SPAN_KERNEL, tag);
    gale_status status = stream->device->backend->call_run(stream, call, refs);
    if (span.profiler) gale__profiler_span_end(stream, span);
    return status;
}
