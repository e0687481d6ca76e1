/* Compiled kernels on disk, for every backend.
 *
 * A file is named by the hash of all that decides its content, so it never goes stale; it appears whole or not at all,
 * so several processes may share the folder; what does not carry its checksum is removed and counts as missing.  The
 * cache is a convenience: none of these functions makes a build fail. */
#ifndef GALE_DEVICE_BINARY_CACHE_H
#define GALE_DEVICE_BINARY_CACHE_H
#include "base/file.h"

#define GALE__BINARY_KEY 65 /* SHA-256 in hexadecimal, with its zero */

/* The key of `count` parts (text, device, driver, options ...), in order; gale's version is always one of them. */
void gale__binary_cache_key(const gale__bytes *parts, int count, char key[GALE__BINARY_KEY]);
/* The same for the usual parts: what is compiled, the device it is for, the driver or compiler, the options. */
void gale__binary_cache_key_for(const void *code, size_t size, const char *device, const char *driver,
    const char *options, char key[GALE__BINARY_KEY]);

/* True and the bytes (gale__bytes_finish) when the cache has them. */
bool gale__binary_cache_get(const char key[GALE__BINARY_KEY], gale__bytes *out);
/* Keeps a copy.  A folder that cannot be written is one warning, and then no more is tried. */
void gale__binary_cache_put(const char key[GALE__BINARY_KEY], const void *data, size_t size);

/* For `gale cache`: what is there, and removing all of it. */
typedef struct gale__binary_cache_stats {
    char folder[1024];
    uint64_t files, size_bytes, limit_bytes;
} gale__binary_cache_stats;
gale_status gale__binary_cache_get_stats(gale__binary_cache_stats *out);
gale_status gale__binary_cache_clear(void);
/* Removes the oldest files until `limit_bytes` are kept. */
gale_status gale__binary_cache_trim(uint64_t limit_bytes);
#endif
