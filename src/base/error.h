/* The thread's error slot and the log.  A failure is described where it happens, once:
 *     return gale__fail(GALE_IO, "%s: %s", path, strerror(errno));
 * and passed up with GALE_TRY. */
#ifndef GALE_BASE_ERROR_H
#define GALE_BASE_ERROR_H
#include "gale/base.h"

#if defined(__GNUC__)
#define GALE__PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define GALE__PRINTF(f, a)
#endif

/* Writes the message into the thread's slot and returns status. */
gale_status gale__fail(gale_status status, const char *format, ...) GALE__PRINTF(2, 3);
/* Puts "context: " in front of the message already in the slot; returns status. */
gale_status gale__fail_within(gale_status status, const char *format, ...) GALE__PRINTF(2, 3);
void gale__error_clear(void);

#define GALE_TRY(call)                              \
    do {                                            \
        gale_status gale_try_ = (call);             \
        if (gale_try_ != GALE_OK) return gale_try_; \
    } while (0)
/* For functions that clean up at a label `done` and return `status`. */
#define GALE_GO(call)                     \
    do {                                  \
        status = (call);                  \
        if (status != GALE_OK) goto done; \
    } while (0)

/* Checks of a public function's arguments, before anything else: GALE__NEED({"path", path}, {"out", out}) returns
 * GALE_INVALID with "gale_model_open: path is NULL". An array that may be NULL if it is empty: {"dims", !rank || dims}.
 * Functions without a status return an empty result if GALE__LACKS is true. */
typedef struct gale__argument {
    const char *name;
    bool given;
} gale__argument;
gale_status gale__need(const char *function, const gale__argument *arguments);
/* The message for one argument that is NULL. */
gale_status gale__lack(const char *function, const char *argument);
#define GALE__NEED(...) GALE_TRY(gale__need(__func__, (const gale__argument[]){__VA_ARGS__, {NULL, true}}))
#define GALE__LACKS(...) (gale__need(__func__, (const gale__argument[]){__VA_ARGS__, {NULL, true}}) != GALE_OK)

#define GALE__FLAGS(flags, known)                                                                                \
    do {                                                                                                         \
        if ((flags) & ~(gale_flags)(known))                                                                      \
            return gale__fail(GALE_INVALID, "%s: unknown flags 0x%x", __func__, (flags) & ~(gale_flags)(known)); \
    } while (0)

/* Rejects options of a later version, which this one would otherwise ignore silently. NULL options are valid. */
bool gale__reserved_used(const uint64_t reserved[4]);
#define GALE__OPTIONS(options)                                                                                        \
    do {                                                                                                              \
        if ((options) && gale__reserved_used((options)->reserved))                                                    \
            return gale__fail(GALE_INVALID,                                                                           \
                "%s: " #options " has an option that gale %s does not know (its reserved words are not 0)", __func__, \
                gale_version());                                                                                      \
    } while (0)

/* Log lines go to the sink of the thread's context (base/context.c; none by default: the library never prints). */
typedef enum gale__log_level { GALE__DEBUG, GALE__INFO, GALE__WARN } gale__log_level;
void gale__log(gale__log_level level, const char *format, ...) GALE__PRINTF(2, 3);
bool gale__log_on(gale__log_level level);
/* What this thread works on, as a prefix of the lines it logs: "SUBJECT: line". NULL: no prefix. Returns the previous
 * subject, which the caller restores; the text must stay valid until then. */
const char *gale__log_about(const char *subject);
#endif
