/* Streams and their commands: everything is validated here, once, before a backend sees it, and timed while a profiler
 * is active. */
#include "device/front.h"
#include <stdatomic.h>
#include <string.h>

gale_status gale__stream_make(gale_device *device, gale_stream **out)
{
    gale_stream *s = gale__calloc(1, sizeof *s);
    if (!s) return GALE_NO_MEMORY;
    s->device = device;
    gale_status status = GALE_OK;
    if (!device->info.caps.in_place) status = gale__staging_create(device, &s->staging);
    if (status == GALE_OK) status = device->backend->stream_create(device, s);
    if (status != GALE_OK) {
        gale__staging_drop(&s->staging);
        gale__free(s);
        return status;
    }
    *out = s;
    return GALE_OK;
}

gale_status gale_stream_create(gale_device *device, gale_stream **out)
{
    GALE__NEED({"device", device}, {"out", out});
    GALE__WITHIN(device->context);
    GALE_TRY(gale__stream_make(device, out));
    gale__device_attach(device);
    return GALE_OK;
}

void gale__stream_free(gale_stream **stream)
{
    gale_stream *s = *stream;
    *stream = NULL;
    if (s->capturing) {
        gale_capture *lost = NULL;
        gale_capture_end(s, &lost);
        gale_capture_destroy(&lost);
    }
    gale_stream_sync(s); /* a failure cannot be handled here: the device is lost; memory is returned below */
    if (s->staging) gale__staging_close(s->staging);
    gale__staging_drop(&s->staging);
    s->device->backend->stream_destroy(s);
    gale__free(s);
}

void gale_stream_destroy(gale_stream **stream)
{
    if (!stream || !*stream) return;
    gale_device *device = (*stream)->device;
    gale__stream_free(stream);
    gale__device_detach(device);
}

gale_status gale_stream_sync(gale_stream *stream)
{
    GALE__NEED({"stream", stream});
    GALE__WITHIN(stream->device->context);
    if (stream->capturing) return gale__fail(GALE_INVALID, "cannot wait for a stream while it is captured");
    gale_status status = stream->device->backend->sync(stream);
    if (stream->late ? status == GALE_OK : status == GALE_TIMEOUT) {
        stream->late = !stream->late;
        gale__pool_late(stream->device->pool, stream->late);
    }
    GALE_TRY(status);
    if (stream->staging) gale__staging_reset(stream->staging);
    return GALE_OK;
}

void gale__stream_forget(gale_stream *stream)
{
    if (stream->staging) gale__staging_forget(stream->staging);
}

static gale_status check_range(
    const gale_stream *stream, const gale_buffer *buffer, size_t offset, size_t size, const char *what)
{
    if (offset > buffer->size || size > buffer->size - offset)
        return gale__fail(GALE_INVALID, "%s of %zu bytes at offset %zu exceeds a buffer of %zu bytes", what, size,
            offset, buffer->size);
    if (stream->device != buffer->device)
        return gale__fail(GALE_INVALID, "%s: the buffer is on %s:%d but the stream on %s:%d", what,
            buffer->device->info.backend, buffer->device->info.index, stream->device->info.backend,
            stream->device->info.index);
    return GALE_OK;
}

static gale_status check_transfer(const gale_stream *stream, const gale_buffer *buffer, size_t offset, const void *host,
    size_t size, const char *what)
{
    GALE_TRY(check_range(stream, buffer, offset, size, what));
    if (size && !host) return gale__fail(GALE_INVALID, "%s of %zu bytes: no host memory given", what, size);
    if (stream->capturing)
        return gale__fail(
            GALE_UNSUPPORTED, "%s during a capture: only launches, copies and fills can be captured", what);
    return GALE_OK;
}

static _Thread_local gale__copy_stats copied_here;

static void count_upload(const gale_device *device, size_t size)
{
    copied_here.uploads++;
    copied_here.upload_bytes += size;
    gale__context_add(device->context, GALE__COUNT_UPLOADS, 1);
    gale__context_add(device->context, GALE__COUNT_UPLOAD_BYTES, size);
}

static void count_download(const gale_device *device, size_t size)
{
    copied_here.downloads++;
    copied_here.download_bytes += size;
    gale__context_add(device->context, GALE__COUNT_DOWNLOADS, 1);
    gale__context_add(device->context, GALE__COUNT_DOWNLOAD_BYTES, size);
}

void gale__copy_get_stats(gale__copy_stats *out) { *out = copied_here; }

/* The default tag of a transfer. */
static gale__tag plain(const gale__tag *tag, const char *name, size_t bytes)
{
    gale__tag t = tag ? *tag : (gale__tag){0};
    if (!t.name) t.name = name;
    if (!t.op) t.op = "";
    if (!(t.bytes > 0)) t.bytes = (double)bytes;
    return t;
}

gale_status gale__upload_tagged(
    gale_stream *stream, gale_buffer *to, size_t offset, const void *host, size_t size, const gale__tag *tag)
{
    GALE_TRY(check_transfer(stream, to, offset, host, size, "upload"));
    if (!size) return GALE_OK;
    count_upload(stream->device, size);
    gale__profiler_span span = {0};
    gale__tag t = plain(tag, "upload", size);
    gale__ref target = gale__buffer_ref(to, offset);
    if (stream->staging) return gale__staging_upload(stream, target, host, size, &t);
    if (GALE__PROFILER(stream->device)) span = gale__profiler_span_begin(stream, GALE__SPAN_UPLOAD, &t);
    gale__mem direct = {.address = (uintptr_t)host, .host = (void *)host, .size = size};
    gale_status status = stream->device->backend->upload(stream, target, (gale__ref){&direct, 0}, size);
    if (span.profiler) gale__profiler_span_end(stream, span);
    return status;
}

gale_status gale_upload(gale_stream *stream, gale_buffer *to, size_t offset, const void *host, size_t size)
{
    GALE__NEED({"stream", stream}, {"to", to}, {"host", !size || host});
    GALE__WITHIN(stream->device->context);
    return gale__upload_tagged(stream, to, offset, host, size, NULL);
}

gale_status gale__pinned_create(gale_device *device, size_t size, gale__mem *out)
{
    if (gale__device_alloc_faulty()) return gale__fail(GALE_NO_MEMORY, "out of pinned memory (injected failure)");
    return device->backend->alloc(device, GALE__MEM_HOST, size, out);
}

void gale__pinned_destroy(gale_device *device, gale__mem *mem) { device->backend->free(device, mem); }

gale_status gale__pinned_upload(gale_stream *stream, gale_buffer *to, const gale__mem *host, size_t size)
{
    gale__profiler_span span = {0};
    count_upload(stream->device, size);
    if (GALE__PROFILER(stream->device)) {
        gale__tag t = plain(NULL, "upload", size);
        span = gale__profiler_span_begin(stream, GALE__SPAN_UPLOAD, &t);
    }
    gale_status status = stream->device->backend->upload(stream, gale__buffer_ref(to, 0), (gale__ref){host, 0}, size);
    if (span.profiler) gale__profiler_span_end(stream, span);
    return status;
}

gale_status gale_download(gale_stream *stream, const gale_buffer *from, size_t offset, void *host, size_t size)
{
    GALE__NEED({"stream", stream}, {"from", from}, {"host", !size || host});
    GALE__WITHIN(stream->device->context);
    GALE_TRY(check_transfer(stream, from, offset, host, size, "download"));
    if (!size) return GALE_OK;
    count_download(stream->device, size);
    gale__profiler_span span = {0};
    if (GALE__PROFILER(stream->device)) {
        gale__tag t = plain(NULL, "download", size);
        span = gale__profiler_span_begin(stream, GALE__SPAN_DOWNLOAD, &t);
    }
    gale__ref source = gale__buffer_ref(from, offset);
    gale__mem direct = {.address = (uintptr_t)host, .host = host, .size = size};
    gale_status status = stream->staging
                             ? gale__staging_download(stream, source, host, size)
                             : stream->device->backend->download(stream, source, (gale__ref){&direct, 0}, size);
    if (span.profiler) gale__profiler_span_end(stream, span);
    return status;
}

#define HOP_BYTES ((size_t)8 << 20)

/* Between two devices the bytes go through the host in hops, and the call returns when they have arrived. */
static gale_status copy_across(
    gale_stream *stream, gale_buffer *to, size_t to_at, const gale_buffer *from, size_t from_at, size_t size)
{
    bool here_to = stream->device == to->device;
    if (!here_to && stream->device != from->device)
        return gale__fail(GALE_INVALID, "copy: the stream belongs to neither of the two devices");
    gale_stream *other = NULL;
    size_t hop = size < HOP_BYTES ? size : HOP_BYTES;
    char *host = gale__alloc(hop);
    gale_status status = host ? gale_stream_create(here_to ? from->device : to->device, &other) : GALE_NO_MEMORY;
    gale_stream *reader = here_to ? other : stream, *writer = here_to ? stream : other;
    for (size_t done = 0, n; done < size && status == GALE_OK; done += n) {
        n = size - done < hop ? size - done : hop;
        GALE_GO(gale_download(reader, from, from_at + done, host, n));
        GALE_GO(gale_stream_sync(reader));
        GALE_GO(gale_upload(writer, to, to_at + done, host, n));
    }
    if (status == GALE_OK) status = gale_stream_sync(writer);
done:
    gale_stream_destroy(&other);
    gale__free(host);
    return status;
}

gale_status gale_copy(
    gale_stream *stream, gale_buffer *to, size_t to_offset, const gale_buffer *from, size_t from_offset, size_t size)
{
    GALE__NEED({"stream", stream}, {"to", to}, {"from", from});
    if (to->device != from->device) {
        if (stream->capturing) return gale__fail(GALE_UNSUPPORTED, "a copy between devices cannot be captured");
        return size ? copy_across(stream, to, to_offset, from, from_offset, size) : GALE_OK;
    }
    GALE_TRY(check_range(stream, to, to_offset, size, "copy to"));
    GALE_TRY(check_range(stream, from, from_offset, size, "copy from"));
    gale__ref a = gale__buffer_ref(to, to_offset), b = gale__buffer_ref(from, from_offset);
    if (size && a.mem == b.mem && a.offset < b.offset + size && b.offset < a.offset + size)
        return gale__fail(GALE_INVALID, "copy: source and target overlap");
    return size ? gale__copy_refs(stream, a, b, size, NULL) : GALE_OK;
}

gale_status gale__copy_refs(gale_stream *stream, gale__ref to, gale__ref from, size_t size, const gale__tag *tag)
{
    gale__profiler_span span = {0};
    if (GALE__PROFILER(stream->device)) {
        gale__tag t = tag ? *tag : plain(NULL, "copy", 2 * size);
        span = gale__profiler_span_begin(stream, GALE__SPAN_COPY, &t);
    }
    gale_status status = stream->device->backend->copy(stream, to, from, size);
    if (span.profiler) gale__profiler_span_end(stream, span);
    return status;
}

gale_status gale_fill(
    gale_stream *stream, gale_buffer *to, size_t offset, size_t size, const void *pattern, size_t pattern_bytes)
{
    GALE__NEED({"stream", stream}, {"to", to}, {"pattern", pattern});
    GALE_TRY(check_range(stream, to, offset, size, "fill"));
    if (pattern_bytes != 1 && pattern_bytes != 2 && pattern_bytes != 4 && pattern_bytes != 8)
        return gale__fail(GALE_INVALID, "fill: a pattern must have 1, 2, 4 or 8 bytes, not %zu", pattern_bytes);
    if (offset % pattern_bytes || size % pattern_bytes)
        return gale__fail(GALE_INVALID, "fill: offset %zu and size %zu must be multiples of the pattern's %zu bytes",
            offset, size, pattern_bytes);
    if (!size) return GALE_OK;
    uint64_t bits = 0;
    memcpy(&bits, pattern, pattern_bytes);
    gale__profiler_span span = {0};
    if (GALE__PROFILER(stream->device)) {
        gale__tag t = plain(NULL, "fill", size);
        span = gale__profiler_span_begin(stream, GALE__SPAN_FILL, &t);
    }
    gale_status status = stream->device->backend->fill(stream, gale__buffer_ref(to, offset), size, bits, pattern_bytes);
    if (span.profiler) gale__profiler_span_end(stream, span);
    return status;
}

/* Most parameters every driver takes. */
#define BLOCK_MAX 4096

static gale_status check_launch(const gale_device *device, const gale_kernel *kernel, const gale__launch *launch)
{
    if (device != kernel->module->device)
        return gale__fail(GALE_INVALID, "launch %s: kernel and stream belong to different devices", kernel->entry);
    if (launch->n_refs < 0 || launch->n_words < 0 ||
        8 * (int64_t)launch->n_refs + 4 * (int64_t)launch->n_words > BLOCK_MAX)
        return gale__fail(GALE_LIMIT, "launch %s: %d pointers and %d words exceed %d bytes of parameters",
            kernel->entry, launch->n_refs, launch->n_words, BLOCK_MAX);
    const uint32_t *most = device->info.caps.groups_max;
    for (int i = 0; i < 3; i++)
        if (most[i] && launch->groups[i] > most[i])
            return gale__fail(GALE_LIMIT, "launch %s: %u work-groups on axis %c, at most %u on %s", kernel->entry,
                launch->groups[i], "xyz"[i], most[i], device -> info.name);
    uint64_t groups = (uint64_t)launch->groups[0] * launch->groups[1] * launch->groups[2];
    if (kernel->together && groups > device->info.caps.groups_together)
        return gale__fail(GALE_LIMIT, "launch %s: %llu work-groups that wait for each other, at most %u on %s",
            kernel->entry, (unsigned long long)groups, device->info.caps.groups_together, device->info.name);
    for (int i = 0; i < launch->n_refs; i++)
        if (!launch->refs[i].mem || launch->refs[i].offset > launch->refs[i].mem->size)
            return gale__fail(GALE_INVALID, "launch %s: pointer %d is outside its memory", kernel->entry, i);
    return GALE_OK;
}

/* For the occupancy of a capture, whose launches have no times of their own. */
static void weigh(gale_stream *stream, const gale_kernel *kernel, const gale__launch *launch)
{
    const gale__backend *backend = stream->device->backend;
    double occupancy = backend->occupancy ? backend->occupancy(stream->device, kernel, launch) : -1;
    double weight = 1 + (launch->tag ? launch->tag->bytes : 0);
    if (occupancy < 0) return;
    stream->weight += weight;
    stream->filled += weight * occupancy;
}

gale_status gale__launch_run(gale_stream *stream, gale_kernel *kernel, const gale__launch *launch)
{
    GALE_TRY(check_launch(stream->device, kernel, launch));
    if (!launch->groups[0] || !launch->groups[1] || !launch->groups[2]) return GALE_OK;
    gale__launch l = *launch;
    if (!l.group[0]) memcpy(l.group, kernel->group, sizeof l.group);
    if (stream->capturing) weigh(stream, kernel, &l);
    if (!GALE__PROFILER(stream->device)) return stream->device->backend->launch(stream, kernel, &l);
    gale__tag t = l.tag ? *l.tag : (gale__tag){0};
    if (!t.name) t.name = kernel->entry;
    if (!t.op) t.op = "";
    const gale__backend *backend = stream->device->backend;
    gale__profiler_span span = gale__profiler_span_begin(stream, GALE__SPAN_KERNEL, &t);
    gale_status status = backend->launch(stream, kernel, &l);
    if (!span.profiler) return status;
    gale__profiler_span_end(stream, span);
    if (backend->occupancy) gale__profiler_span_occupancy(span, backend->occupancy(stream->device, kernel, &l));
    return status;
}

bool gale__captures_change(const gale_device *device) { return device->backend->capture_last != NULL; }

void *gale__capture_last(gale_stream *stream)
{
    bool can = gale__captures_change(stream->device) && stream->capturing;
    return can ? stream->device->backend->capture_last(stream) : NULL;
}

gale_status gale__capture_change(gale_capture *capture, void *launched, gale_kernel *kernel, const gale__launch *launch)
{
    GALE_TRY(check_launch(capture->device, kernel, launch));
    gale__launch l = *launch;
    if (!l.group[0]) memcpy(l.group, kernel->group, sizeof l.group);
    return capture->device->backend->capture_change(capture, launched, kernel, &l);
}
