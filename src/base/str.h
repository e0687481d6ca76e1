/* Growing strings.  A failed append sets `failed` and later ones do nothing, so callers check once. */
#ifndef GALE_BASE_STR_H
#define GALE_BASE_STR_H
#include "mem.h"
#include <stdarg.h>

typedef struct gale__str {
    char *text; /* zero-terminated; NULL while empty */
    size_t length, capacity;
    bool failed;
} gale__str;
void gale__str_add(gale__str *s, const char *text);
void gale__str_add_n(gale__str *s, const char *text, size_t n);
void gale__str_addf(gale__str *s, const char *format, ...) GALE__PRINTF(2, 3);
void gale__str_vaddf(gale__str *s, const char *format, va_list args);
void gale__str_finish(gale__str *s);
gale_status gale__str_check(const gale__str *s); /* GALE_NO_MEMORY when an append failed */
const char *gale__str_text(const gale__str *s);  /* never NULL */

/* Replaces control characters by `?`, except those in `kept`: in a text from a file they may be commands for a
 * terminal.
 */
void gale__text_make_plain(char *text, size_t size, const char *kept);
bool gale__text_equal_nocase(const char *a, const char *b);
/* Parses a whole decimal number; false when anything else is in the text. */
bool gale__text_to_i64(const char *text, int64_t *out);
bool gale__text_to_f64(const char *text, double *out);  /* finite only */
bool gale__text_to_real(const char *text, double *out); /* a number that is too large becomes infinite */
bool gale__text_to_f32(const char *text, float *out);   /* the same, rounded once */
/* The shortest decimal text that reads back as v; returns buf. */
const char *gale__f64_to_text(double v, char buf[32]);
/* "1.5 GiB", "512 B"; returns buf. */
const char *gale__bytes_text(uint64_t bytes, char buf[32]);
#endif
