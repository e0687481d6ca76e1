/* Downloads: resumed after an interruption, verified against a digest, and put into place only when complete. */
#ifndef GALE_JOBS_FETCH_H
#define GALE_JOBS_FETCH_H
#include "base/str.h"

typedef struct gale__fetch {
    const char *url;     /* http, https or file */
    const char *path;    /* where it goes; PATH.part holds what has come so far */
    const char *sha256;  /* 64 hexadecimal digits; NULL: nothing is held against it */
    uint64_t size_bytes; /* as it must be; 0: not known */
    /* While bytes come; total 0: not known.  false cancels, and what has come is kept.  May be NULL. */
    bool (*progress)(void *user, uint64_t done_bytes, uint64_t total_bytes);
    void *user;
} gale__fetch;
/* GALE_MISMATCH: another digest or size, and nothing is left of it.  GALE_IO: the connection or the disk; what has come
 * is kept for the next time. GALE_NOT_FOUND: the server has no such file.  GALE_UNSUPPORTED: libcurl is not here. */
gale_status gale__fetch_run(const gale__fetch *f);

gale_status gale__file_sha256(const char *path, char hex[65], uint64_t *size_bytes /* may be NULL */);
/* Whether the text is a digest: 64 hexadecimal digits, which are put into lower case. */
bool gale__sha256_read(const char *text, char hex[65]);
#endif
