/* Cached vectors in an SQLite file beside the compiled kernels.  Several processes may use it at once.  The key is the
 * SHA-256 of the text and of everything the vector depends on, so entries never become stale.  The cache is optional:
 * if it cannot be read or written, a warning is logged and the work continues without it. */
#ifndef GALE_JOBS_EMBED_VECTOR_CACHE_H
#define GALE_JOBS_EMBED_VECTOR_CACHE_H
#include "base/mem.h"

typedef struct gale__vector_cache gale__vector_cache;
typedef struct gale__vector_key {
    uint8_t bytes[32];
} gale__vector_key;

/* GALE_UNSUPPORTED: built without SQLite.  GALE_IO: no folder, or no such file that can be opened. */
gale_status gale__vector_cache_open(gale__vector_cache **out);
void gale__vector_cache_close(gale__vector_cache **cache);
/* settings: gale__embedder_key's.  Any thread. */
void gale__vector_cache_key(const char *settings, const char *text, size_t size, gale__vector_key *out);
/* The rest is for one thread at a time, or under the cache's own lock. */
bool gale__vector_cache_get(gale__vector_cache *c, const gale__vector_key *key, float *vector, size_t dims);
/* Some at once, in one transaction. */
void gale__vector_cache_put(
    gale__vector_cache *c, const gale__vector_key *keys, const float *const *vectors, size_t count, size_t dims);

typedef struct gale__vector_cache_stats {
    char path[1024];
    uint64_t vectors, size_bytes;
} gale__vector_cache_stats;
gale_status gale__vector_cache_get_stats(gale__vector_cache_stats *out); /* all zero without a file */
gale_status gale__vector_cache_clear(void);
gale_status gale__vector_cache_trim(uint64_t limit_bytes); /* the oldest leave */
#endif
