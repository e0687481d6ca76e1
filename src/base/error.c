/* The error slot of each thread.  The slot is fixed storage, so that describing a failure
 * cannot itself fail. */
#include "base/error.h"
#include "base/str.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SLOT_BYTES 4096

static _Thread_local char slot[SLOT_BYTES];

static const char *const status_texts[GALE_STATUS_COUNT] = {
#define X(name, text) text,
#include "gale/status.def"
#undef X
};

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *gale_version(void)
{
    return TEXT(GALE_VERSION_MAJOR) "." TEXT(GALE_VERSION_MINOR) "." TEXT(GALE_VERSION_PATCH);
}

int gale_version_number(void) { return GALE_VERSION; }

const char *gale_status_text(gale_status status)
{
    return (unsigned)status < GALE_STATUS_COUNT ? status_texts[status] : "unknown status";
}

const char *gale_error(void) { return slot; }

void gale__error_clear(void) { slot[0] = 0; }

/* Messages quote names from files. */
static void keep(const char *text)
{
    size_t n = strlen(text);
    memcpy(slot, text, n + 1);
    gale__text_make_plain(slot, n, "\n\t");
}

gale_status gale__fail(gale_status status, const char *format, ...)
{
    /* The message may quote the slot itself, so it is formatted in another buffer. */
    char text[SLOT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    keep(text);
    return status;
}

gale_status gale__fail_within(gale_status status, const char *format, ...)
{
    char text[SLOT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t used = strlen(text);
    if (used < sizeof text - 1) snprintf(text + used, sizeof text - used, ": %s", slot);
    keep(text);
    return status;
}

gale_status gale__lack(const char *function, const char *argument)
{
    return gale__fail(GALE_INVALID, "%s: %s is NULL", function, argument);
}

gale_status gale__need(const char *function, const gale__argument *arguments)
{
    for (const gale__argument *a = arguments; a->name; a++)
        if (!a->given) return gale__lack(function, a->name);
    return GALE_OK;
}

bool gale__reserved_used(const uint64_t reserved[4])
{
    return reserved[0] || reserved[1] || reserved[2] || reserved[3];
}
