/* Statuses, errors and element types: what every other header builds on.
 *
 * Fallible functions return a gale_status (GALE_OK is 0) and write results through trailing
 * out-parameters, which they leave unchanged on failure.  gale_error() describes the latest failure
 * in this thread.  The library never prints, exits or aborts.
 *
 * In every options struct zero means the default, so that GALE_DEFAULTS, {0} or a NULL pointer is valid; its last words
 * are reserved for later options and must be 0.  Every destroy, close and free function accepts NULL.  See docs/api.md.
 */
#ifndef GALE_BASE_H
#define GALE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GALE_API __attribute__((visibility("default")))
#else
#define GALE_API
#endif

#define GALE_VERSION_MAJOR 0
#define GALE_VERSION_MINOR 1
#define GALE_VERSION_PATCH 0
/* 100 for 0.1.0, as a number for #if. */
#define GALE_VERSION (GALE_VERSION_MAJOR * 10000 + GALE_VERSION_MINOR * 100 + GALE_VERSION_PATCH)

/* An options struct with all defaults, in C and in C++: gale_device_options where = GALE_DEFAULTS; */
#ifdef __cplusplus
#define GALE_DEFAULTS \
    {                 \
    }
#else
#define GALE_DEFAULTS \
    {                 \
        0             \
    }
#endif
#define GALE_MAX_RANK 12

typedef enum gale_status {
#define X(name, text) GALE_##name,
#include "status.def"
#undef X
    GALE_STATUS_COUNT
} gale_status;

/* Of functions, combined with |; 0: none.  A flag that a function does not know is GALE_INVALID. */
typedef uint32_t gale_flags;

typedef enum gale_type {
#define X(NAME, text, bits, kind, e, m) GALE_##NAME,
#include "types.def"
#undef X
    GALE_TYPE_COUNT
} gale_type;

/* Of the library that runs, which may be another than the headers': "0.1.0", and as GALE_VERSION. */
GALE_API const char *gale_version(void);
GALE_API int gale_version_number(void);
/* A short description of a status; never NULL. */
GALE_API const char *gale_status_text(gale_status status);
/* Why the last failing call of this thread failed; "" when none did.  Valid until the next failure. */
GALE_API const char *gale_error(void);

/* Frees a string returned by the library; accepts NULL. */
GALE_API void gale_free(void *p);

/* Nanoseconds on the clock of deadlines, which never goes back (POSIX: CLOCK_MONOTONIC). */
GALE_API uint64_t gale_time_ns(void);

/* "f32"; "?" for a number out of range. */
GALE_API const char *gale_type_name(gale_type type);
/* Size of one element in bytes (one byte for types below 8 bits); 0 for strings. */
GALE_API size_t gale_type_size(gale_type type);
/* Finds a type by its name; "float32", "half", "int8" and similar names are accepted too. */
GALE_API gale_status gale_type_parse(const char *name, gale_type *type);

#ifdef __cplusplus
}
#endif
#endif
