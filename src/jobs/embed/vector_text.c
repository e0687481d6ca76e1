/* Vectors as text.  The numbers are mostly below 1, so nine decimals cover the precision of f32, and are computed with
 * integers. */
#include "base/utf8.h"
#include "jobs/embed/vector_sink.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static size_t put_number(char *to, float v)
{
    char digits[16];
    float size = fabsf(v);
    if (!(size < 8)) return (size_t)snprintf(to, 32, isfinite(v) ? "%.9g" : "null", (double)v);
    uint64_t scaled = (uint64_t)(int64_t)llrint((double)size * 1e9), whole = scaled / 1000000000u;
    uint64_t rest = scaled - whole * 1000000000u;
    char *at = to;
    if (v < 0 && scaled) *at++ = '-';
    *at++ = (char)('0' + whole);
    if (!rest) return (size_t)(at - to);
    int n = 9;
    for (int i = 8; i >= 0; i--, rest /= 10) digits[i] = (char)('0' + rest % 10);
    while (digits[n - 1] == '0') n--;
    *at++ = '.';
    memcpy(at, digits, (size_t)n);
    return (size_t)(at + n - to);
}

static void add_numbers(gale__str *out, int64_t dims, const float *vector)
{
    char buffer[4096];
    size_t used = 0;
    for (int64_t i = 0; i < dims; i++) {
        if (i) buffer[used++] = ',';
        used += put_number(buffer + used, vector[i]);
        if (used > sizeof buffer - 64) {
            gale__str_add_n(out, buffer, used);
            used = 0;
        }
    }
    gale__str_add_n(out, buffer, used);
}

/* What is not UTF-8 is written as U+FFFD, as the tokenizer takes it. */
static void add_json_text(gale__str *out, const gale__vector_text *text)
{
    gale__str_add(out, "\"");
    for (const char *at = text->at, *end = at + text->size; at < end;) {
        unsigned char c = (unsigned char)*at;
        size_t plain = 0;
        while (at + plain < end && at[plain] != '"' && at[plain] != '\\' && (unsigned char)at[plain] >= ' ' &&
               (unsigned char)at[plain] < 128)
            plain++;
        gale__str_add_n(out, at, plain);
        at += plain;
        if (plain) continue;
        int length = c < 128 ? 1 : gale__utf8_length(at, (size_t)(end - at));
        if (c == '"' || c == '\\') gale__str_addf(out, "\\%c", c);
        else if (c < ' ') gale__str_addf(out, "\\u%04x", c);
        else if (length) gale__str_add_n(out, at, (size_t)length);
        else gale__str_add(out, "\xef\xbf\xbd");
        at += length ? length : 1;
    }
    gale__str_add(out, "\"");
}

void gale__vector_text_add(gale__str *out, gale_vector_format format, int64_t dims, uint64_t number,
    const float *vector, const gale__vector_text *text)
{
    if (format == GALE_VECTORS_JSONL) {
        gale__str_addf(out, "{\"index\": %llu, ", (unsigned long long)number);
        if (text) {
            gale__str_add(out, "\"text\": ");
            add_json_text(out, text);
            gale__str_add(out, ", ");
        }
        gale__str_add(out, "\"vector\": [");
    } else if (format == GALE_VECTORS_PGVECTOR) gale__str_addf(out, "%llu\t[", (unsigned long long)number);
    add_numbers(out, dims, vector);
    gale__str_add(out, format == GALE_VECTORS_JSONL ? "]}\n" : format == GALE_VECTORS_PGVECTOR ? "]\n" : "\n");
}
