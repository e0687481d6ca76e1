/* See gale/context.h and context.h.  A context is counted: every device holds the one it was opened in, so that it can
 * be destroyed first. */
#include "base/context.h"
#include "base/mem.h"
#include "base/thread.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

enum { LINE_BYTES = 4096 };

struct gale_context {
    _Atomic int refs;
    _Atomic int logging; /* calls of the sink that have begun and not ended */
    gale_log_sink *_Atomic sink;
    void *_Atomic user;
    _Atomic int least;
    _Atomic uint64_t counts[GALE__COUNT_COUNT];
};

static gale_context usual = {.least = GALE__WARN};
static _Thread_local gale_context *current; /* NULL: usual */
static _Thread_local const char *log_subject;

static gale_context *or_usual(gale_context *c) { return c ? c : &usual; }

gale_context *gale__context_current(void) { return current; }

gale_context *gale_context_use(gale_context *context)
{
    gale_context *before = current;
    current = context;
    return before;
}

void gale__context_leave(gale_context **outer) { current = *outer; }

gale_context *gale__context_hold(gale_context *c)
{
    if (c) atomic_fetch_add(&c->refs, 1);
    return c;
}

void gale__context_drop(gale_context *c)
{
    if (c && atomic_fetch_sub(&c->refs, 1) == 1) gale__free(c);
}

gale_status gale_context_create(const gale_context_options *options, gale_context **out)
{
    GALE__NEED({"out", out});
    GALE__OPTIONS(options);
    gale_log_level level = options ? options->log_level : GALE_LOG_DEFAULT;
    if ((int)level < GALE_LOG_DEFAULT || level > GALE_LOG_WARNING)
        return gale__fail(GALE_INVALID, "gale_context_create: log_level is %d; expected a gale_log_level", (int)level);
    gale_context *c = gale__calloc(1, sizeof *c);
    if (!c) return GALE_NO_MEMORY;
    c->refs = 1;
    c->least = level == GALE_LOG_DEFAULT ? (int)GALE__WARN : (int)level - GALE_LOG_DEBUG;
    c->user = options ? options->log_user : NULL;
    c->sink = options ? options->log : NULL;
    *out = c;
    return GALE_OK;
}

void gale_context_destroy(gale_context **context)
{
    gale_context *c = context ? *context : NULL;
    if (!c) return;
    *context = NULL;
    if (current == c) current = NULL;
    atomic_store(&c->sink, NULL);
    while (atomic_load(&c->logging)) gale__sleep_ns(100000);
    gale__context_drop(c);
}

void gale__context_add(gale_context *c, gale__context_count which, uint64_t n)
{
    atomic_fetch_add_explicit(&or_usual(c)->counts[which], n, memory_order_relaxed);
}

void gale_context_get_stats(const gale_context *context, gale_context_stats *out)
{
    if (GALE__LACKS({"out", out})) return;
    const _Atomic uint64_t *n = context ? context->counts : usual.counts;
    *out = (gale_context_stats){.devices = n[GALE__COUNT_DEVICES],
        .uploads = n[GALE__COUNT_UPLOADS],
        .downloads = n[GALE__COUNT_DOWNLOADS],
        .upload_bytes = n[GALE__COUNT_UPLOAD_BYTES],
        .download_bytes = n[GALE__COUNT_DOWNLOAD_BYTES],
        .plans = n[GALE__COUNT_PLANS],
        .runs = n[GALE__COUNT_RUNS],
        .modules_built = n[GALE__COUNT_MODULES],
        .cache_hits = n[GALE__COUNT_CACHE_HITS],
        .warnings = n[GALE__COUNT_WARNINGS]};
}

/* The level is stored before the sink, so that a new sink gets no line that it did not ask for. */
void gale_log_set(gale_log_sink *sink, void *user, int least_level)
{
    atomic_store(&usual.user, user);
    atomic_store(&usual.least, least_level < GALE__WARN ? least_level : (int)GALE__WARN);
    atomic_store(&usual.sink, sink);
}

bool gale__log_on(gale__log_level level)
{
    gale_context *c = or_usual(current);
    return atomic_load_explicit(&c->sink, memory_order_acquire) && (int)level >= atomic_load(&c->least);
}

const char *gale__log_about(const char *subject)
{
    const char *before = log_subject;
    log_subject = subject;
    return before;
}

/* Counted before the sink is read: gale_context_destroy clears it first and then waits for the count. */
static void pass_on(gale_context *c, int level, const char *line)
{
    atomic_fetch_add(&c->logging, 1);
    gale_log_sink *sink = atomic_load(&c->sink);
    if (sink) sink(atomic_load(&c->user), level, line);
    atomic_fetch_sub(&c->logging, 1);
}

void gale__log(gale__log_level level, const char *format, ...)
{
    if (level == GALE__WARN) gale__context_add(current, GALE__COUNT_WARNINGS, 1);
    if (!gale__log_on(level)) return;
    char line[LINE_BYTES];
    va_list args;
    int used = log_subject ? snprintf(line, sizeof line, "%s: ", log_subject) : 0;
    if (used < 0 || used >= LINE_BYTES / 2) used = 0; /* the message matters more than a very long subject */
    va_start(args, format);
    vsnprintf(line + used, sizeof line - (size_t)used, format, args);
    va_end(args);
    pass_on(or_usual(current), level, line);
}
