/* The null device's interface for tests. */
#ifndef GALE_DEVICE_NULL_NULL_H
#define GALE_DEVICE_NULL_NULL_H
#include "device/device.h"

typedef struct gale__null_counts {
    uint64_t allocations, frees, live_bytes, peak_bytes;
    uint64_t launches, copies, uploads, downloads, fills, replays, builds;
    uint64_t upload_bytes, download_bytes, copy_bytes, fill_bytes;
    uint64_t freed_in_use; /* memory that went before the stream it was used on was waited for */
} gale__null_counts;
void gale__null_get_counts(gale__null_counts *out); /* of all null devices of the process */
void gale__null_reset_counts(void);
/* What the next null device to be opened pretends to be; NULL: back to generous. */
void gale__null_set_caps(const gale_device_caps *caps);
/* The n-th launch from now fails; 0: none does. */
void gale__null_fail_launch(uint64_t n);
/* Gets the text of every kernel that is built from now on, under a lock; NULL: nobody does. */
typedef void gale__null_sink(void *user, const char *text, size_t size);
void gale__null_set_sink(gale__null_sink *sink, void *user);
#endif
