/* The backend table of CUDA and HIP: one set of functions for whichever driver's symbols the device was opened with.
 * The driver's handles are stored directly in the `impl` of gale's objects, so no further allocation is needed. */
#include "device/cuda/nvrtc.h"
#include "device/cuda/blas.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static gale__cu_device *of(const gale_device *device) { return device->impl; }
static uint64_t at(gale__ref ref) { return ref.mem->address + ref.offset; }

/* Set anew for each call, since other code in the process may have made another device current; it costs the driver
 * less than asking it which one is. */
gale_status gale__cu_enter(const gale__cu_device *d)
{
    const gale__cu_api *api = d->api;
    if (api->maker->hip) return gale__cu_check(api, api->device_set(d->ordinal), "making the device current");
    return gale__cu_check(api, api->context_set(d->context), "making the context current");
}

/* ---- devices ---- */

/* wgmma needs a compiler that knows sm_90a. */
static bool compiles_for_hopper(const gale__cu_device *d, const gale_device *device)
{
    const gale__cu_maker *maker = d->api->maker;
    char target[32];
    gale_status status = gale__rtc_target(
        maker, d->api->version / maker->major_unit, (int)device->info.caps.arch, target, sizeof target);
    return status == GALE_OK && strchr(target, 'a');
}

static gale_status open_with(const gale__cu_maker *maker, gale_device *device)
{
    gale__cu_step step;
    int code;
    gale__cu_device *d = gale__calloc(1, sizeof *d);
    if (!d) return GALE_NO_MEMORY;
    gale_status status;
    GALE_GO(gale__cu_load(maker, &d->api, &step, &code));
    GALE_GO(gale__cu_check(d->api, d->api->device_get(&d->ordinal, device->info.index), "finding the device"));
    snprintf(d->name, sizeof d->name, "%s", device->info.name);
    if (d->api->device_attribute(&d->unit_threads, maker->attributes[GALE__CU_THREADS_PER_MULTIPROCESSOR], d->ordinal))
        d->unit_threads = 0;
    if (!maker->hip)
        GALE_GO(gale__cu_check(d->api, d->api->context_retain(&d->context, d->ordinal), "creating a context"));
    status = gale__cu_enter(d);
    size_t free_bytes = 0, total = 0;
    if (status == GALE_OK) status = gale__cu_check(d->api, d->api->memory_info(&free_bytes, &total), "querying memory");
    if (status != GALE_OK) {
        if (d->context) d->api->context_release(d->ordinal);
        goto done;
    }
    device->info.caps.memory_bytes = total;
    device->info.caps.memory_free_bytes = free_bytes;
    device->info.caps.products_side = gale__cu_blas_side(d);
    device->info.caps.matrix_groups = device->info.caps.matrix_groups && compiles_for_hopper(d, device);
    device->info.caps.matrix_maps = device->info.caps.matrix_maps && device->info.caps.matrix_groups;
    device->impl = d;
done:
    if (status != GALE_OK) gale__free(d);
    return status;
}

static gale_status open_cuda(gale_device *device) { return open_with(&gale__cu_cuda, device); }
static gale_status open_hip(gale_device *device) { return open_with(&gale__cu_hip, device); }

static void close_device(gale_device *device)
{
    gale__cu_device *d = of(device);
    if (!d) return;
    if (d->context && !atomic_load(&d->hung)) {
        gale__cu_blas_close(d);
        d->api->context_set(NULL);
        d->api->context_release(d->ordinal);
    }
    gale__free(d);
    device->impl = NULL;
}

static gale_status memory_info(gale_device *device, uint64_t *total, uint64_t *free_bytes)
{
    gale__cu_device *d = of(device);
    size_t available = 0, all = 0;
    GALE_TRY(gale__cu_enter(d));
    GALE_TRY(gale__cu_check(d->api, d->api->memory_info(&available, &all), "querying memory"));
    *total = all;
    *free_bytes = available;
    return GALE_OK;
}

/* ---- memory ---- */

static gale_status alloc(gale_device *device, gale__mem_kind kind, size_t size, gale__mem *out)
{
    gale__cu_device *d = of(device);
    gale__mem mem = {.size = size};
    GALE_TRY(gale__cu_enter(d));
    int code;
    if (kind == GALE__MEM_HOST) {
        code = d->api->host_alloc(&mem.host, size, GALE__CU_HOST_PORTABLE | GALE__CU_HOST_MAPPED);
        mem.address = (uint64_t)(uintptr_t)mem.host; /* one address space for host and device */
    } else {
        code = d->api->alloc(&mem.address, size);
    }
    if (code == GALE__CU_OUT_OF_MEMORY) {
        size_t available = 0, total = 0;
        d->api->memory_info(&available, &total);
        return gale__fail(GALE_NO_MEMORY, "%s out of memory: %zu bytes of %s memory requested, %zu of %zu free on %s",
            d->api->maker->label, size, kind == GALE__MEM_HOST ? "pinned host" : "device", available, total, d->name);
    }
    GALE_TRY(gale__cu_check(d->api, code, "allocating memory"));
    *out = mem;
    return GALE_OK;
}

static void free_mem(gale_device *device, gale__mem *mem)
{
    gale__cu_device *d = of(device);
    /* Freeing memory waits for the device, so it would block forever if the device hangs. */
    if (!atomic_load(&d->hung) && gale__cu_enter(d) == GALE_OK) {
        if (mem->host) d->api->host_free(mem->host);
        else d->api->free(mem->address);
    }
    *mem = (gale__mem){0};
}

/* ---- streams ---- */

static gale_status stream_create(gale_device *device, gale_stream *stream)
{
    gale__cu_device *d = of(device);
    GALE_TRY(gale__cu_enter(d));
    return gale__cu_check(
        d->api, d->api->stream_create(&stream->impl, GALE__CU_STREAM_NON_BLOCKING), "creating a stream");
}

static void stream_destroy(gale_stream *stream)
{
    gale__cu_device *d = of(stream->device);
    if (!atomic_load(&d->hung) && gale__cu_enter(d) == GALE_OK) d->api->stream_destroy(stream->impl);
    stream->impl = NULL;
}

static gale_status upload(gale_stream *stream, gale__ref to, gale__ref host, size_t size)
{
    gale__cu_device *d = of(stream->device);
    GALE_TRY(gale__cu_enter(d));
    return gale__cu_check(
        d->api, d->api->upload(at(to), (char *)host.mem->host + host.offset, size, stream->impl), "uploading");
}

static gale_status download(gale_stream *stream, gale__ref from, gale__ref host, size_t size)
{
    gale__cu_device *d = of(stream->device);
    GALE_TRY(gale__cu_enter(d));
    return gale__cu_check(
        d->api, d->api->download((char *)host.mem->host + host.offset, at(from), size, stream->impl), "downloading");
}

static gale_status copy(gale_stream *stream, gale__ref to, gale__ref from, size_t size)
{
    gale__cu_device *d = of(stream->device);
    GALE_TRY(gale__cu_enter(d));
    return gale__cu_check(d->api, d->api->copy(at(to), at(from), size, stream->impl), "copying");
}

/* The driver sets units of up to four bytes; longer or unaligned patterns are written once and doubled by copies. */
static int fill_by_copies(
    const gale__cu_api *api, uint64_t to, size_t size, uint64_t pattern, size_t unit, void *stream)
{
    int code = 0;
    size_t done = 0;
    for (; done < unit && done < size && !code; done++)
        code = api->set8(to + done, (unsigned char)(pattern >> 8 * done), 1, stream);
    while (done < size && !code) {
        size_t next = size - done < done ? size - done : done;
        code = api->copy(to + done, to, next, stream);
        done += next;
    }
    return code;
}

/* The shortest unit whose repetition is the pattern. */
static size_t shortest(uint64_t pattern, size_t bytes)
{
    while (bytes > 1) {
        size_t half = bytes / 2;
        uint64_t mask = (1ull << 8 * half) - 1;
        if ((pattern & mask) != (pattern >> 8 * half & mask)) break;
        bytes = half;
    }
    return bytes;
}

static gale_status fill(gale_stream *stream, gale__ref to, size_t size, uint64_t pattern, size_t pattern_bytes)
{
    gale__cu_device *d = of(stream->device);
    const gale__cu_api *api = d->api;
    uint64_t address = at(to);
    size_t unit = shortest(pattern, pattern_bytes);
    GALE_TRY(gale__cu_enter(d));
    int code;
    if (unit > 4 || address % unit || size % unit)
        code = fill_by_copies(api, address, size, pattern, unit, stream->impl);
    else if (unit == 4) code = api->set32(address, (unsigned)pattern, size / 4, stream->impl);
    else if (unit == 2) code = api->set16(address, (unsigned short)pattern, size / 2, stream->impl);
    else code = api->set8(address, (unsigned char)pattern, size, stream->impl);
    return gale__cu_check(api, code, "filling");
}

/* ---- waiting ---- */

/* Polls, since the driver's own wait has no time-out: without a pause at first, then with sleeps of a twentieth of the
 * time already waited, which bounds the added latency. */
static gale_status wait_for(gale__cu_device *d, int (*query)(void *), int (*block)(void *), void *object)
{
    uint64_t limit = gale__watchdog_ns(false), begin = 0;
    GALE_TRY(gale__cu_enter(d));
    if (!limit) return gale__cu_check(d->api, block(object), "waiting");
    for (;;) {
        int code = query(object);
        if (code != GALE__CU_NOT_READY) return gale__cu_check(d->api, code, "waiting");
        uint64_t now = gale__time_ns();
        if (!begin) begin = now;
        uint64_t waited = now - begin;
        if (waited > limit || atomic_load(&d->hung)) break;
        if (waited > 2000000) gale__sleep_ns(waited / 20 < 1000000 ? waited / 20 : 1000000);
    }
    atomic_store(&d->hung, true);
    return gale__fail(GALE_TIMEOUT, "%s device %d (%s) has not responded for %.0f s (GALE_WATCHDOG_S)",
        d->api->maker->label, d->ordinal, d->name, (double)limit / 1e9);
}

gale_status gale__cu_stream_sync(gale__cu_device *d, void *stream)
{
    return wait_for(d, d->api->stream_query, d->api->stream_sync, stream);
}

static gale_status sync(gale_stream *stream) { return gale__cu_stream_sync(of(stream->device), stream->impl); }

/* ---- events ---- */

static gale_status event_create(gale_device *device, gale_event *event)
{
    gale__cu_device *d = of(device);
    GALE_TRY(gale__cu_enter(d));
    return gale__cu_check(d->api, d->api->event_create(&event->impl, 0), "creating an event");
}

static void event_destroy(gale_event *event)
{
    gale__cu_device *d = of(event->device);
    if (!atomic_load(&d->hung) && gale__cu_enter(d) == GALE_OK) d->api->event_destroy(event->impl);
    event->impl = NULL;
}

static gale_status event_record(gale_event *event, gale_stream *stream)
{
    gale__cu_device *d = of(event->device);
    GALE_TRY(gale__cu_enter(d));
    return gale__cu_check(d->api, d->api->event_record(event->impl, stream->impl), "recording an event");
}

static gale_status event_wait(gale_event *event)
{
    gale__cu_device *d = of(event->device);
    return wait_for(d, d->api->event_query, d->api->event_sync, event->impl);
}

static gale_status event_poll(gale_event *event, bool *reached)
{
    gale__cu_device *d = of(event->device);
    GALE_TRY(gale__cu_enter(d));
    int code = d->api->event_query(event->impl);
    if (code != GALE__CU_NOT_READY) GALE_TRY(gale__cu_check(d->api, code, "asking for an event"));
    *reached = code != GALE__CU_NOT_READY;
    return GALE_OK;
}

static gale_status stream_wait(gale_stream *stream, gale_event *event)
{
    gale__cu_device *d = of(stream->device);
    GALE_TRY(gale__cu_enter(d));
    return gale__cu_check(d->api, d->api->stream_wait(stream->impl, event->impl, 0), "waiting for an event");
}

static gale_status event_elapsed(gale_event *from, gale_event *to, double *time_us)
{
    gale__cu_device *d = of(from->device);
    float time_ms = 0;
    GALE_TRY(gale__cu_enter(d));
    GALE_TRY(gale__cu_check(
        d->api, d->api->event_elapsed(&time_ms, from->impl, to->impl), "reading the time between events"));
    *time_us = (double)time_ms * 1000;
    return GALE_OK;
}

/* ---- capture ---- */

/* Relaxed: other threads, and allocations or builds of this one, go on undisturbed; only this stream's work is
 * recorded. */
static gale_status capture_begin(gale_stream *stream)
{
    gale__cu_device *d = of(stream->device);
    if (!d->api->has_capture)
        return gale__fail(GALE_UNSUPPORTED, "this %s driver does not support captures; version 11.4 or newer is needed",
            d->api->maker->label);
    GALE_TRY(gale__cu_enter(d));
    return gale__cu_check(d->api, d->api->capture_begin(stream->impl, GALE__CU_CAPTURE_RELAXED), "starting a capture");
}

static gale_status capture_end(gale_stream *stream, gale_capture *capture)
{
    gale__cu_device *d = of(stream->device);
    void *graph = NULL;
    GALE_TRY(gale__cu_enter(d));
    GALE_TRY(gale__cu_check(d->api, d->api->capture_end(stream->impl, &graph), "ending a capture"));
    gale_status status =
        gale__cu_check(d->api, d->api->graph_instantiate(&capture->impl, graph, 0), "instantiating a capture");
    if (status == GALE_OK && d->api->exec_change) capture->graph = graph; /* its nodes stay known by it */
    else d->api->graph_destroy(graph);
    return status;
}

static void *capture_last(gale_stream *stream)
{
    gale__cu_device *d = of(stream->device);
    int status = 0;
    uint64_t id;
    void *graph, *const *nodes = NULL;
    const void *edges;
    size_t n = 0;
    if (!d->api->capture_info || !d->api->exec_change || gale__cu_enter(d) != GALE_OK) return NULL;
    int code = d->api->capture_info(stream->impl, &status, &id, &graph, &nodes, &edges, &n);
    return !code && n == 1 ? nodes[0] : NULL;
}

static gale_status capture_replay(gale_stream *stream, gale_capture *capture)
{
    gale__cu_device *d = of(stream->device);
    GALE_TRY(gale__cu_enter(d));
    return gale__cu_check(d->api, d->api->exec_launch(capture->impl, stream->impl), "replaying a capture");
}

static void capture_destroy(gale_capture *capture)
{
    gale__cu_device *d = of(capture->device);
    if (!atomic_load(&d->hung) && gale__cu_enter(d) == GALE_OK) {
        d->api->exec_destroy(capture->impl);
        if (capture->graph) d->api->graph_destroy(capture->graph);
    }
    capture->impl = capture->graph = NULL;
}

#define TABLE(label, probe_function, open_function, compile, dlpack)                                                  \
    {                                                                                                                 \
        .name = label, .probe = probe_function, .open = open_function, .close = close_device, .alloc = alloc,         \
        .free = free_mem, .memory_info = memory_info, .stream_create = stream_create,                                 \
        .stream_destroy = stream_destroy, .sync = sync, .upload = upload, .download = download, .copy = copy,         \
        .fill = fill, .build = gale__cu_build, .unbuild = gale__cu_unbuild, .kernel = gale__cu_kernel,                \
        .kernel_destroy = gale__cu_kernel_destroy, .launch = gale__cu_launch, .occupancy = gale__cu_occupancy,        \
        .event_create = event_create, .event_destroy = event_destroy, .event_record = event_record,                   \
        .event_wait = event_wait, .event_poll = event_poll, .stream_wait = stream_wait,                               \
        .event_elapsed = event_elapsed, .capture_begin = capture_begin, .capture_end = capture_end,                   \
        .capture_replay = capture_replay, .capture_destroy = capture_destroy, .capture_last = capture_last,           \
        .capture_change = gale__cu_capture_change, .product = gale__cu_product, .call_run = gale__cu_call_run,        \
        .call_destroy = gale__cu_call_destroy, .selftest_kernels = 4, .compile_file = compile, .dlpack_type = dlpack, \
    }
const gale__backend gale__backend_cuda = TABLE("cuda", gale__cu_probe_cuda, open_cuda, gale__cu_compile_file, 2);
const gale__backend gale__backend_hip = TABLE("hip", gale__cu_probe_hip, open_hip, NULL, 10);
