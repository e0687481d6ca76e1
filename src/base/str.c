/* Growing strings and number parsing.  Numbers are read and written the same way in every locale. */
#include "base/str.h"
#include "base/thread.h"
#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LEAST = 64 }; /* a text that begins small would be moved with every word */

static bool make_room(gale__str *s, size_t more)
{
    size_t need;
    if (s->failed) return false;
    if (gale__add_size(s->length, more, &need) || gale__add_size(need, 1, &need) ||
        gale__grow((void **)&s->text, &s->capacity, need < LEAST ? LEAST : need, 1) != GALE_OK)
        s->failed = true;
    return !s->failed;
}

void gale__str_add_n(gale__str *s, const char *text, size_t n)
{
    if (!make_room(s, n)) return;
    if (n) memcpy(s->text + s->length, text, n);
    s->length += n;
    s->text[s->length] = 0;
}

void gale__str_add(gale__str *s, const char *text) { gale__str_add_n(s, text, strlen(text)); }

/* Printed where there is room, and once more where it was not enough. */
void gale__str_vaddf(gale__str *s, const char *format, va_list args)
{
    va_list again;
    if (!make_room(s, 0)) return;
    va_copy(again, args);
    size_t room = s->capacity - s->length;
    int n = vsnprintf(s->text + s->length, room, format, args);
    if (n < 0 || (size_t)n >= room) s->text[s->length] = 0;
    if (n < 0) s->failed = true;
    else if ((size_t)n < room) s->length += (size_t)n;
    else if (make_room(s, (size_t)n)) {
        vsnprintf(s->text + s->length, (size_t)n + 1, format, again);
        s->length += (size_t)n;
    }
    va_end(again);
}

void gale__str_addf(gale__str *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    gale__str_vaddf(s, format, args);
    va_end(args);
}

void gale__str_finish(gale__str *s)
{
    gale__free(s->text);
    *s = (gale__str){0};
}

gale_status gale__str_check(const gale__str *s)
{
    return s->failed ? gale__fail(GALE_NO_MEMORY, "out of host memory: string of %zu bytes", s->length) : GALE_OK;
}

const char *gale__str_text(const gale__str *s) { return s->text ? s->text : ""; }

void gale__text_make_plain(char *text, size_t size, const char *kept)
{
    for (char *p = text; p < text + size; p++)
        if (((unsigned char)*p < ' ' || *p == 0x7f) && (!*p || !strchr(kept, *p))) *p = '?';
}

bool gale__text_equal_nocase(const char *a, const char *b) { return strcasecmp(a, b) == 0; }

bool gale__text_to_i64(const char *text, int64_t *out)
{
    const char *digits = text + (*text == '-' || *text == '+');
    if (!isdigit((unsigned char)*digits)) return false;
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || *end) return false;
    *out = v;
    return true;
}

static locale_t plain_locale;
static gale__once plain_once;
static void make_plain_locale(void) { plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

/* Only decimal numbers are accepted, although strtod also reads hexadecimal, "nan" and "inf". */
static bool is_decimal(const char *text) { return *text && strspn(text, "0123456789+-.eE") == strlen(text); }

bool gale__text_to_real(const char *text, double *out)
{
    if (!is_decimal(text)) return false;
    gale__once_run(&plain_once, make_plain_locale);
    char *end;
    double v = plain_locale ? strtod_l(text, &end, plain_locale) : strtod(text, &end);
    if (end == text || *end) return false;
    *out = v;
    return true;
}

bool gale__text_to_f32(const char *text, float *out)
{
    if (!is_decimal(text)) return false;
    gale__once_run(&plain_once, make_plain_locale);
    char *end;
    float v = plain_locale ? strtof_l(text, &end, plain_locale) : strtof(text, &end);
    if (end == text || *end) return false;
    *out = v;
    return true;
}

bool gale__text_to_f64(const char *text, double *out)
{
    double v;
    if (!gale__text_to_real(text, &v) || !isfinite(v)) return false;
    *out = v;
    return true;
}

const char *gale__f64_to_text(double v, char buf[32])
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(buf, 32, "%.*g", digits, v);
        for (char *p = buf; *p; p++)
            if (*p == ',') *p = '.';
        double back;
        if (gale__text_to_f64(buf, &back) && back == v) break;
    }
    return buf;
}

const char *gale__bytes_text(uint64_t bytes, char buf[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double v = (double)bytes;
    int unit = 0;
    for (; v >= 1024 && unit < 5; unit++) v /= 1024;
    snprintf(buf, 32, unit && v < 100 ? "%.1f %s" : "%.0f %s", v, units[unit]);
    return buf;
}
