/* Objects by text: `f32[2,1] 1 2`, `string[2] 'a' 'b'`, a sequence `{... & ...}`, a map `(keys = ... & ...)`, `none`;
 * several are separated by `;`, and nothing between two means left out. */
#ifndef GALE_TEST_OBJECT_TEXT_H
#define GALE_TEST_OBJECT_TEXT_H
#include "base/num.h"
#include "graph/run/tensor.h"
#include "onnx/run/object.h"
#include "test.h"
#include <math.h>

/* --- Values. --- */

static inline void skip_blanks(const char **at)
{
    while (**at == ' ') ++*at;
}

static inline void read_word(const char **at, const char *stops, char *word, size_t size)
{
    size_t n = 0;
    while (**at && !strchr(stops, **at) && n + 1 < size) word[n++] = *(*at)++;
    word[n] = 0;
}

static inline gale_tensor *read_strings(const char **at, int rank, const int64_t *dims, char separator)
{
    static char texts[64][64];
    const char *pointers[64] = {0};
    gale_tensor *t = NULL;
    int n = 0;
    for (skip_blanks(at); **at == '\''; n++) {
        ++*at;
        read_word(at, "'", texts[n], sizeof texts[n]);
        pointers[n] = texts[n];
        *at += **at == '\'';
        if (separator == ' ') skip_blanks(at);
        else *at += **at == separator;
    }
    CHECK_OK(gale_tensor_from_strings(rank, dims, pointers, NULL, &t));
    return t;
}

static inline void read_number(const char *word, gale_type type, void *to)
{
    char *end;
    if (gale__type_is_float(type))
        gale__store_f64(type, to, type == GALE_F32 ? (double)strtof(word, &end) : strtod(word, &end));
    else gale__store_i64(type, to, *word == '-' ? strtoll(word, &end, 10) : (int64_t)strtoull(word, &end, 10));
}

static inline gale_tensor *read_tensor(const char **at, char separator)
{
    char word[64];
    int64_t dims[GALE_MAX_RANK];
    int rank = 0;
    gale_type type;
    gale_tensor *t = NULL;
    read_word(at, "[", word, sizeof word);
    if (!CHECK_OK(gale_type_parse(word, &type))) return NULL;
    for (++*at; **at && **at != ']'; *at += **at == ',') {
        read_word(at, ",]", word, sizeof word);
        dims[rank++] = atoll(word);
    }
    *at += 1 + (separator == ',');
    if (type == GALE_STRING) return read_strings(at, rank, dims, separator);
    if (!CHECK_OK(gale_tensor_create(NULL, type, rank, dims, &t))) return NULL;
    for (int64_t i = 0; i < gale__tensor_elements(t); i++) {
        skip_blanks(at);
        read_word(at, " ,;&})", word, sizeof word);
        read_number(word, type, (char *)gale_tensor_data(t) + (size_t)i * gale_type_size(type));
        *at += separator == ',' && **at == ',';
    }
    return t;
}

static inline gale_object *read_value(const char **at);

/* Behind the opening bracket; the items, and how many. */
static inline size_t read_items(const char **at, char close, gale_object **items)
{
    size_t n = 0;
    for (skip_blanks(at); **at && **at != close; skip_blanks(at)) {
        items[n++] = read_value(at);
        skip_blanks(at);
        *at += **at == '&';
    }
    *at += **at == close;
    return n;
}

static inline gale_object *read_value(const char **at)
{
    gale_object *items[16] = {0}, *made = NULL;
    skip_blanks(at);
    if (!strncmp(*at, "none", 4)) {
        *at += 4;
        CHECK_OK(gale_object_none(&made));
    } else if (**at == '{') {
        ++*at;
        size_t n = read_items(at, '}', items);
        CHECK_OK(gale_object_sequence(items, n, &made));
        for (size_t i = 0; i < n; i++) gale_object_destroy(&items[i]);
    } else if (**at == '(') {
        ++*at;
        gale_tensor *keys = read_tensor(at, ' ');
        skip_blanks(at);
        ++*at; /* = */
        size_t n = read_items(at, ')', items);
        CHECK_OK(gale_object_map(keys, items, &made));
        for (size_t i = 0; i < n; i++) gale_object_destroy(&items[i]);
        gale_tensor_destroy(&keys);
    } else {
        gale_tensor *t = read_tensor(at, ' ');
        CHECK_OK(gale__onnx_object_take(&t, &made));
    }
    return made;
}

static inline gale_object *numbers(const char *text) { return read_value(&text); }

static inline int read_values(const char *text, gale_object **out)
{
    int n = 0;
    for (skip_blanks(&text); *text; skip_blanks(&text)) {
        out[n++] = *text == ';' ? NULL : read_value(&text);
        skip_blanks(&text);
        text += *text == ';';
    }
    return n;
}

/* --- Comparison. --- */

static inline bool same_tensor(gale_tensor *a, gale_tensor *b)
{
    if (a->type != b->type || a->rank != b->rank || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims))
        return false;
    int64_t n = gale__tensor_elements(a);
    for (int64_t i = 0; a->type == GALE_STRING && i < n; i++) {
        size_t x, y;
        const char *s = gale_tensor_string(a, i, &x), *t = gale_tensor_string(b, i, &y);
        if (x != y || memcmp(s, t, x)) return false;
    }
    if (a->type == GALE_STRING || !n) return true;
    char *data = calloc(1, a->size_bytes);
    bool same = gale_tensor_to_cpu(a, data, a->size_bytes) == GALE_OK;
    for (int64_t i = 0; same && i < n; i++) {
        const void *p = data + (size_t)i * gale_type_size(a->type),
                   *q = (const char *)gale_tensor_data(b) + (size_t)i * gale_type_size(a->type);
        double x = gale__load_f64(a->type, p), y = gale__load_f64(a->type, q);
        same = gale__type_is_float(a->type) ? (isnan(x) && isnan(y)) || (x == y && signbit(x) == signbit(y))
                                            : gale__load_i64(a->type, p) == gale__load_i64(a->type, q);
    }
    free(data);
    return same;
}

static inline bool same_object(gale_object *a, gale_object *b)
{
    if (!a || !b || a->kind != b->kind || a->count != b->count) return false;
    if (a->tensor && !same_tensor(a->tensor, b->tensor)) return false;
    for (size_t i = 0; i < a->count; i++)
        if (!same_object(a->items[i], b->items[i])) return false;
    return true;
}
#endif
