/* JSON reader and writer.  The reader accepts untrusted input: depth and size are limited. */
#ifndef GALE_BASE_JSON_H
#define GALE_BASE_JSON_H
#include "str.h"

/* Writer: adds commas and indentation by itself. */
typedef struct gale__json_out {
    gale__str *out;
    int depth;
    uint64_t has_items, is_array, has_lines; /* a bit per depth; up to 63 deep */
    bool after_key;
} gale__json_out;
/* A text of any bytes in quotation marks; bytes from 0x20 on stay as they are. */
void gale__json_quote(gale__str *out, const char *text, size_t size);
void gale__json_begin(gale__json_out *j, gale__str *out);
void gale__json_object(gale__json_out *j);
void gale__json_array(gale__json_out *j);
void gale__json_close(gale__json_out *j, char kind); /* '}' or ']' */
void gale__json_key(gale__json_out *j, const char *key);
void gale__json_open(gale__json_out *j, const char *key, char kind); /* a member that is an object '{' or array '[' */
void gale__json_string(gale__json_out *j, const char *text);
void gale__json_i64(gale__json_out *j, int64_t v);
void gale__json_f64(gale__json_out *j, double v); /* NaN and infinities become null */
void gale__json_bool(gale__json_out *j, bool v);
void gale__json_null(gale__json_out *j);
/* Members of objects in one call each. */
void gale__json_put_text(gale__json_out *j, const char *key, const char *text); /* NULL: null */
void gale__json_put_i64(gale__json_out *j, const char *key, int64_t v);
void gale__json_put_u64(gale__json_out *j, const char *key, uint64_t v); /* at most INT64_MAX */
void gale__json_put_f64(gale__json_out *j, const char *key, double v);
void gale__json_put_bool(gale__json_out *j, const char *key, bool v);

/* Reader: a tree in an arena. */
typedef enum gale__json_kind {
    GALE__JSON_NULL,
    GALE__JSON_BOOL,
    GALE__JSON_NUMBER,
    GALE__JSON_STRING,
    GALE__JSON_ARRAY,
    GALE__JSON_OBJECT
} gale__json_kind;
typedef struct gale__json {
    gale__json_kind kind;
    bool boolean;
    double number;
    const char *string; /* also the key when inside an object: see key */
    const char *key;
    size_t string_size, key_size;    /* bytes, for texts that may hold zero bytes */
    const char *source;              /* position of a number in the parsed text */
    struct gale__json *child, *next; /* first child; next sibling */
} gale__json;
gale_status gale__json_parse(
    gale__arena *a, const char *text, size_t size, gale__json **out); /* the message contains line and column */
/* The same where strings may hold zero bytes (\\u0000): only their sizes say where they end. */
gale_status gale__json_parse_with_zeros(gale__arena *a, const char *text, size_t size, gale__json **out);
const gale__json *gale__json_get(const gale__json *object, const char *key); /* NULL when missing */
double gale__json_number(const gale__json *object, const char *key, double fallback);
const char *gale__json_text(const gale__json *object, const char *key, const char *fallback);
/* The string or number at a key, copied into the arena; unchanged if the key is missing or null; GALE_FORMAT, naming
 * the key, for anything else. */
gale_status gale__json_copy_text(gale__arena *a, const gale__json *object, const char *key, const char **out);
#endif
