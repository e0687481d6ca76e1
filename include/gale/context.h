/* Contexts: the log and the counters of one part of a program.
 *
 * Several users of gale in one process (a plug-in, a test, two services) each create a context, and neither sees the
 * log lines nor the counters of the other.  A device belongs to the context it is opened in, and everything made from
 * the device (buffers, programs, models, upscalers, embedders ...) logs and counts there, whichever thread calls it.
 * Work without a device (pictures, tokenizers, manifests) belongs to the context of the calling thread.  Threads start
 * in the default context, which exists always and is all that a program needs that does not share its process.
 *
 * Per process remain the environment variables, the pool of CPU threads, loaded drivers, and the cache folder. */
#ifndef GALE_CONTEXT_H
#define GALE_CONTEXT_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gale_context gale_context; /* threads: any number at once */

/* A line of the log: the library itself never prints.  level: 0 debug, 1 info, 2 warning.  Called from any thread, from
 * several at once; it must not call gale. */
typedef void gale_log_sink(void *user, int level, const char *line);

typedef enum gale_log_level {
    GALE_LOG_DEFAULT, /* warnings */
    GALE_LOG_DEBUG,   /* everything */
    GALE_LOG_INFO,
    GALE_LOG_WARNING
} gale_log_level;

typedef struct gale_context_options {
    gale_log_sink *log; /* NULL: lines are dropped */
    void *log_user;
    gale_log_level log_level; /* the least important lines that are passed on */
    uint64_t reserved[4];     /* 0 */
} gale_context_options;

/* options may be NULL: a context with counters and without a log. */
GALE_API gale_status gale_context_create(const gale_context_options *options, gale_context **out);
/* Objects of the context stay valid and log nothing from now on.  When the call returns, the sink is not running and
 * will not be called again.  The context must not be the current one of another thread. */
GALE_API void gale_context_destroy(gale_context **context);

/* Makes the context current in the calling thread: devices opened without gale_device_options.context belong to it.
 * NULL: the default context.  Returns the one that was current before, to be restored by the caller. */
GALE_API gale_context *gale_context_use(gale_context *context);

/* The log of the default context.  level: as for the sink.  Set it before other threads use the library. */
GALE_API void gale_log_set(gale_log_sink *sink, void *user, int least_level);

/* Counted since the context was created. */
typedef struct gale_context_stats {
    uint64_t devices; /* opened */
    uint64_t uploads, downloads, upload_bytes, download_bytes;
    uint64_t plans, runs;   /* of programs; a model has one program or more */
    uint64_t modules_built; /* modules of kernels made by a driver, from source or from cached binaries */
    uint64_t cache_hits;    /* compiled kernels that were found in the cache folder */
    uint64_t warnings;      /* also if no log is set */
} gale_context_stats;
/* context NULL: the default context. */
GALE_API void gale_context_get_stats(const gale_context *context, gale_context_stats *out);

#ifdef __cplusplus
}
#endif
#endif
