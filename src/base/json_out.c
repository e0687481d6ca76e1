/* The JSON writer.  Members of objects are on separate lines; numbers and strings of an array share one, so that
 * shapes and rows stay readable. */
#include "base/json.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void gale__json_begin(gale__json_out *j, gale__str *out) { *j = (gale__json_out){.out = out}; }

static void new_line(gale__json_out *j)
{
    gale__str_add(j->out, "\n");
    for (int i = 0; i < j->depth; i++) gale__str_add(j->out, "  ");
}

/* Writes what precedes the next item. */
static void before_item(gale__json_out *j, bool container)
{
    uint64_t bit = 1ull << (j->depth & 63);
    if (j->after_key || j->depth == 0) {
        j->after_key = false;
        return;
    }
    if (j->has_items & bit) gale__str_add(j->out, ",");
    if (!(j->is_array & bit) || container) {
        new_line(j);
        j->has_lines |= bit;
    } else if (j->has_items & bit) {
        gale__str_add(j->out, " ");
    }
    j->has_items |= bit;
}

static void open_container(gale__json_out *j, char kind)
{
    before_item(j, true);
    gale__str_add_n(j->out, &kind, 1);
    uint64_t bit = 1ull << (++j->depth & 63);
    j->has_items &= ~bit;
    j->has_lines &= ~bit;
    j->is_array = kind == '[' ? j->is_array | bit : j->is_array & ~bit;
}

void gale__json_object(gale__json_out *j) { open_container(j, '{'); }
void gale__json_array(gale__json_out *j) { open_container(j, '['); }

void gale__json_close(gale__json_out *j, char kind)
{
    bool lines = j->has_lines >> (j->depth & 63) & 1;
    j->depth--;
    if (lines) new_line(j);
    gale__str_add_n(j->out, &kind, 1);
    if (j->depth == 0) gale__str_add(j->out, "\n");
}

void gale__json_quote(gale__str *out, const char *text, size_t size)
{
    gale__str_add(out, "\"");
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\') gale__str_addf(out, "\\%c", c);
        else if (c < 0x20) gale__str_addf(out, "\\u%04x", c);
        else gale__str_add_n(out, text + i, 1);
    }
    gale__str_add(out, "\"");
}

/* File names may contain any bytes. A byte that is not UTF-8 is written as \udcXX, a lone surrogate, which valid text
 * never contains: Python's os.fsencode (surrogateescape) restores the bytes. */
static void add_quoted(gale__json_out *j, const char *text)
{
    const char *end = text + strlen(text);
    gale__str_add(j->out, "\"");
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\') gale__str_addf(j->out, "\\%c", c);
        else if (c == '\n') gale__str_add(j->out, "\\n");
        else if (c == '\t') gale__str_add(j->out, "\\t");
        else if (c < 0x20 || c == 0x7f) gale__str_addf(j->out, "\\u%04x", c);
        else if (c < 0x80) gale__str_add_n(j->out, p, 1);
        else {
            int n = gale__utf8_length(p, (size_t)(end - p));
            if (n > 0) gale__str_add_n(j->out, p, (size_t)n), p += n - 1;
            else gale__str_addf(j->out, "\\udc%02x", c);
        }
    }
    gale__str_add(j->out, "\"");
}

void gale__json_key(gale__json_out *j, const char *key)
{
    before_item(j, false);
    add_quoted(j, key);
    gale__str_add(j->out, ": ");
    j->after_key = true;
}

void gale__json_open(gale__json_out *j, const char *key, char kind)
{
    gale__json_key(j, key);
    open_container(j, kind);
}

void gale__json_string(gale__json_out *j, const char *text)
{
    before_item(j, false);
    add_quoted(j, text);
}

void gale__json_i64(gale__json_out *j, int64_t v)
{
    before_item(j, false);
    gale__str_addf(j->out, "%" PRId64, v);
}

void gale__json_f64(gale__json_out *j, double v)
{
    char buf[32];
    before_item(j, false);
    gale__str_add(j->out, isfinite(v) ? gale__f64_to_text(v, buf) : "null");
}

void gale__json_bool(gale__json_out *j, bool v)
{
    before_item(j, false);
    gale__str_add(j->out, v ? "true" : "false");
}

void gale__json_null(gale__json_out *j)
{
    before_item(j, false);
    gale__str_add(j->out, "null");
}

void gale__json_put_text(gale__json_out *j, const char *key, const char *text)
{
    gale__json_key(j, key);
    if (text) gale__json_string(j, text);
    else gale__json_null(j);
}

void gale__json_put_i64(gale__json_out *j, const char *key, int64_t v)
{
    gale__json_key(j, key);
    gale__json_i64(j, v);
}

void gale__json_put_u64(gale__json_out *j, const char *key, uint64_t v)
{
    gale__json_put_i64(j, key, v > INT64_MAX ? INT64_MAX : (int64_t)v);
}

void gale__json_put_f64(gale__json_out *j, const char *key, double v)
{
    gale__json_key(j, key);
    gale__json_f64(j, v);
}

void gale__json_put_bool(gale__json_out *j, const char *key, bool v)
{
    gale__json_key(j, key);
    gale__json_bool(j, v);
}
