/* Shared by the files of the device front end.  Backends and other rooms do not include it. */
#ifndef GALE_DEVICE_FRONT_H
#define GALE_DEVICE_FRONT_H
#include "device/device.h"

/* Objects made from a device hold it. */
gale_device *gale__device_attach(gale_device *device);
void gale__device_detach(gale_device *device);

/* memory_pool.c: pieces of driver memory. */
gale_status gale__pool_create(gale_device *device, uint64_t limit_bytes, struct gale__pool **out);
void gale__pool_destroy(struct gale__pool **pool);
/* Bytes that can still be had, by the driver and by the pool's limit. */
uint64_t gale__device_memory_left(const gale_device *device);
gale_status gale__pool_take(struct gale__pool *pool, size_t size, struct gale__pool_piece **out);
void gale__pool_give(struct gale__pool *pool, struct gale__pool_piece *piece);
/* Counts streams whose work the watchdog gave up on.  While there are any, freed memory is quarantined, since that work
 * may still write to it. */
void gale__pool_late(struct gale__pool *pool, bool late);
gale__mem *gale__pool_piece_mem(struct gale__pool_piece *piece, size_t *offset);
/* watch.c: GALE_POOL_FILL; device->watch is NULL without it. */
#define GALE__BUFFER_WATCH_BYTES 4096u /* a multiple of the pool's grain */
gale_status gale__buffer_watch_create(gale_device *device, struct gale__buffer_watch **out);
void gale__buffer_watch_destroy(struct gale__buffer_watch **watch);
gale_status gale__buffer_watch_fill(gale_buffer *buffer);
void gale__buffer_watch_check(gale_buffer *buffer);
/* A stream that does not hold its device, for what belongs to the device. */
gale_status gale__stream_make(gale_device *device, gale_stream **out);
void gale__stream_free(gale_stream **stream);
/* true when this allocation is the one a test wants to fail; counts it. */
bool gale__device_alloc_faulty(void);

/* staging.c: pinned memory between the caller's memory and the device, counted. */
struct gale__staging *gale__staging_hold(struct gale__staging *s);
void gale__staging_drop(struct gale__staging **s);
gale_status gale__staging_create(gale_device *device, struct gale__staging **out);
gale_status gale__staging_upload(
    gale_stream *stream, gale__ref to, const void *host, size_t size, const gale__tag *tag);
gale_status gale__staging_download(gale_stream *stream, gale__ref from, void *host, size_t size);
uint64_t gale__staging_mark(struct gale__staging *s);
void gale__staging_complete(struct gale__staging *s, uint64_t mark); /* downloads up to mark: to the caller's memory */
void gale__staging_forget(struct gale__staging *s); /* cancels downloads that have not been copied to the caller */
void gale__staging_reset(struct gale__staging *s);  /* after a sync: everything is free again */
void gale__staging_close(struct gale__staging *s);  /* the stream ends: pinned memory goes back */

gale_status gale__staging_spare_create(gale_device *device); /* what streams lend each other */
void gale__staging_spare_destroy(gale_device *device);

/* profiler.c: what stands around a launch or a transfer while a profiler is on. */
typedef enum gale__profiler_span_kind {
    GALE__SPAN_KERNEL,
    GALE__SPAN_UPLOAD,
    GALE__SPAN_DOWNLOAD,
    GALE__SPAN_COPY,
    GALE__SPAN_FILL,
    GALE__SPAN_REPLAY,
    GALE__SPAN_RANGE,
    GALE__SPAN_COUNT
} gale__profiler_span_kind;
typedef struct gale__profiler_span {
    struct gale_profiler *profiler;
    size_t record;
} gale__profiler_span;
gale__profiler_span gale__profiler_span_begin(gale_stream *stream, gale__profiler_span_kind kind, const gale__tag *tag);
void gale__profiler_span_occupancy(gale__profiler_span span, double occupancy);
void gale__profiler_span_end(gale_stream *stream, gale__profiler_span span);
#define GALE__PROFILER(device) atomic_load_explicit(&(device)->profiler, memory_order_acquire)
#endif
