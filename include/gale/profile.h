/* The profiler: what ran on a device, for how long, and how close to its peak rates.
 *
 *     gale_profiler *p;
 *     gale_profiler_start(device, &p);
 *     ... work ...
 *     gale_profiler_stop(p);
 *     gale_profiler_write(p, "trace", "run.json");   -- or "table", or "json"
 *     gale_profiler_destroy(&p);
 *
 * One profiler at a time per device.  There is no overhead while none is active.  Times are measured on the device with
 * events around each launch and transfer; commands inside a capture are recorded as one replay.  Occupancy is the share
 * of all threads the device can hold that a launch fills at most, by its groups, registers and work-group memory; only
 * CUDA and HIP tell. */
#ifndef GALE_PROFILE_H
#define GALE_PROFILE_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gale_profiler gale_profiler; /* threads: one at a time; what it watches may run on any */

GALE_API gale_status gale_profiler_start(gale_device *device, gale_profiler **out);
/* Waits for the recorded work and collects its times.  No stream of the device may be in use meanwhile. */
GALE_API gale_status gale_profiler_stop(gale_profiler *profiler);
GALE_API void gale_profiler_destroy(gale_profiler **profiler);

/* A user-defined range on a stream, with the bytes it moves (0: unknown).  Ranges may nest and overlap.  *range is 0 if
 * no profiler is active, and ending 0 does nothing. */
GALE_API gale_status gale_profiler_range_begin(gale_stream *stream, const char *name, double bytes, uint64_t *range);
GALE_API gale_status gale_profiler_range_end(gale_stream *stream, uint64_t range);

/* format: "table", "json" or "trace" (for chrome://tracing and Perfetto; its events carry operators and the names of
 * the model's nodes). */
GALE_API gale_status gale_profiler_to_text(
    const gale_profiler *profiler, const char *format, char **out /* gale_free */);
GALE_API gale_status gale_profiler_write(const gale_profiler *profiler, const char *format, const char *path);

#ifdef __cplusplus
}
#endif
#endif
