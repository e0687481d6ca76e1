/* Contexts from the inside: which one a thread works in, the log lines and counters that go there.
 *
 * Kept by thread, so that a warning far below needs no parameter for it.  Public functions enter the context of the
 * object that they are called with (GALE__WITHIN); threads start in the context of the thread that made them, and
 * gale__parallel hands the caller's context to its workers. */
#ifndef GALE_BASE_CONTEXT_H
#define GALE_BASE_CONTEXT_H
#include "base/error.h"
#include "gale/context.h"

typedef enum gale__context_count {
    GALE__COUNT_DEVICES,
    GALE__COUNT_UPLOADS,
    GALE__COUNT_DOWNLOADS,
    GALE__COUNT_UPLOAD_BYTES,
    GALE__COUNT_DOWNLOAD_BYTES,
    GALE__COUNT_PLANS,
    GALE__COUNT_RUNS,
    GALE__COUNT_MODULES,
    GALE__COUNT_CACHE_HITS,
    GALE__COUNT_WARNINGS,
    GALE__COUNT_COUNT
} gale__context_count;

/* The thread's context; NULL stands for the default one, here and below. */
gale_context *gale__context_current(void);
gale_context *gale__context_hold(gale_context *context);
void gale__context_drop(gale_context *context);
void gale__context_add(gale_context *context, gale__context_count which, uint64_t n);

/* From this line to the end of the block, whichever way it is left. */
#define GALE__WITHIN(context) \
    __attribute__((cleanup(gale__context_leave), unused)) gale_context *gale__outer = gale_context_use(context)
void gale__context_leave(gale_context **outer);
#endif
