/* Values as JSON: a tensor is nested arrays, a sequence an array of its items, a map an object.  Numbers that JSON
 * cannot express (NaN, infinities) and integers above 2^53 are strings. */
#include "base/file.h"
#include "base/json.h"
#include "base/num.h"
#include "jobs/model/data_file.h"
#include "onnx/run/object.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- Reading. --- */

typedef struct reader {
    const char *path;
    gale_type type;
    char *data;
    const char **texts;
    size_t at;
} reader;

/* Extents by the first element of each level. */
static int shape_of(const gale__json *j, int64_t *dims)
{
    int rank = 0;
    for (; j && j->kind == GALE__JSON_ARRAY && rank < GALE_MAX_RANK; j = j->child) {
        int64_t n = 0;
        for (const gale__json *c = j->child; c; c = c->next) n++;
        dims[rank++] = n;
    }
    return j && j->kind == GALE__JSON_ARRAY ? -1 : rank;
}

static gale_status read_text(reader *r, const char *text, void *to)
{
    int64_t whole;
    double v;
    if (gale__text_equal_nocase(text, "nan")) v = NAN;
    else if (gale__text_equal_nocase(text, "inf")) v = INFINITY;
    else if (gale__text_equal_nocase(text, "-inf")) v = -INFINITY;
    else if (r->type == GALE_U64 && *text && strspn(text, "0123456789") == strlen(text))
        return gale__store_i64(r->type, to, (int64_t)strtoull(text, NULL, 10)), GALE_OK;
    else if (gale__type_is_int(r->type) && gale__text_to_i64(text, &whole))
        return gale__store_i64(r->type, to, whole), GALE_OK;
    else if (!gale__text_to_real(text, &v))
        return gale__fail(GALE_FORMAT, "%s: element %zu, \"%.40s\", is not a number", r->path, r->at, text);
    gale__store_f64(r->type, to, v);
    return GALE_OK;
}

static gale_status read_element(reader *r, const gale__json *j)
{
    if (r->type == GALE_STRING) {
        if (j->kind != GALE__JSON_STRING)
            return gale__fail(
                GALE_FORMAT, "%s: element %zu is not a string, but the input takes strings", r->path, r->at);
        r->texts[r->at++] = j->string;
        return GALE_OK;
    }
    void *to = r->data + r->at * gale_type_size(r->type);
    if (j->kind == GALE__JSON_STRING) GALE_TRY(read_text(r, j->string, to));
    else if (j->kind == GALE__JSON_BOOL) gale__store_f64(r->type, to, j->boolean);
    else if (j->kind != GALE__JSON_NUMBER)
        return gale__fail(GALE_FORMAT, "%s: element %zu is not a number", r->path, r->at);
    else if (gale__type_is_int(r->type) && (j->number != floor(j->number) || fabs(j->number) > 9007199254740992.0))
        return gale__fail(GALE_FORMAT,
            "%s: element %zu is not an integer up to 2^53, but the input takes %s; write larger ones as strings",
            r->path, r->at, gale_type_name(r->type));
    else gale__store_f64(r->type, to, j->number);
    r->at++;
    return GALE_OK;
}

/* Depth-first, each level checked against its extent. */
static gale_status read_level(reader *r, const gale__json *j, int rank, const int64_t *dims)
{
    int64_t n = 0;
    if (!rank)
        return j->kind == GALE__JSON_ARRAY || j->kind == GALE__JSON_OBJECT
                   ? gale__fail(GALE_FORMAT, "%s: arrays of different depth", r->path)
                   : read_element(r, j);
    if (j->kind != GALE__JSON_ARRAY) return gale__fail(GALE_FORMAT, "%s: arrays of different depth", r->path);
    for (const gale__json *c = j->child; c && n <= dims[0]; c = c->next, n++)
        if (n < dims[0]) GALE_TRY(read_level(r, c, rank - 1, dims + 1));
    return n == dims[0] ? GALE_OK
                        : gale__fail(GALE_FORMAT, "%s: arrays of different lengths at the same depth", r->path);
}

static gale_status read_tensor(
    const char *path, const gale__json *j, gale_type type, gale__arena *arena, gale_object **out)
{
    int64_t dims[GALE_MAX_RANK], elements = 1;
    reader r = {.path = path, .type = type};
    gale_tensor *t = NULL;
    int rank = shape_of(j, dims);
    if (rank < 0) return gale__fail(GALE_LIMIT, "%s: arrays are nested more than %d levels deep", path, GALE_MAX_RANK);
    for (int i = 0; i < rank;
         i++) /* at least a byte of the file each, so there is no overflow to fear; ragged ones are found below */
        if (__builtin_mul_overflow(elements, dims[i], &elements) || elements > INT32_MAX)
            return gale__fail(GALE_LIMIT, "%s: too many elements for JSON", path);
    if (type == GALE_STRING) r.texts = gale__arena_alloc(arena, (size_t)(elements + 1) * sizeof *r.texts);
    else r.data = gale__arena_alloc(arena, (size_t)(elements + 1) * gale_type_size(type));
    if (!r.texts && !r.data) return GALE_NO_MEMORY;
    GALE_TRY(read_level(&r, j, rank, dims));
    if (type == GALE_STRING) GALE_TRY(gale_tensor_from_strings(rank, dims, r.texts, NULL, &t));
    else GALE_TRY(gale_tensor_from_cpu(NULL, type, rank, dims, r.data, &t));
    return gale__onnx_object_take(&t, out);
}

static gale_status read_items(
    const char *path, const gale__json *j, gale_type type, gale__arena *arena, gale_object **out)
{
    size_t n = 0, i = 0;
    gale_object *made = NULL;
    for (const gale__json *c = j->child; c; c = c->next) n++;
    GALE_TRY(gale__onnx_object_room(n, &made));
    for (const gale__json *c = j->child; c; c = c->next) {
        gale_object *item = NULL;
        gale_status status = read_tensor(path, c, type, arena, &item);
        if (status == GALE_OK) status = gale__onnx_object_put(made, i++, item);
        if (status != GALE_OK) return gale_object_destroy(&made), status;
    }
    *out = made;
    return GALE_OK;
}

/* Keys that are all whole numbers make a map of those. */
static gale_status read_map(
    const char *path, const gale__json *j, gale_type type, gale__arena *arena, gale_object **out)
{
    gale_object *values = NULL;
    gale_tensor *keys = NULL;
    bool whole = true;
    GALE_TRY(read_items(path, j, type, arena, &values));
    int64_t n = (int64_t)values->count, i = 0, *numbers = gale__arena_alloc(arena, (size_t)(n + 1) * sizeof *numbers);
    const char **texts = gale__arena_alloc(arena, (size_t)(n + 1) * sizeof *texts);
    gale_status status = numbers && texts ? GALE_OK : GALE_NO_MEMORY;
    for (const gale__json *c = j->child; c && status == GALE_OK; c = c->next, i++) {
        texts[i] = c->key;
        whole &= gale__text_to_i64(c->key, &numbers[i]);
    }
    if (status == GALE_OK)
        status = whole ? gale_tensor_from_cpu(NULL, GALE_I64, 1, &n, numbers, &keys)
                       : gale_tensor_from_strings(1, &n, texts, NULL, &keys);
    if (status == GALE_OK) status = gale_object_map(keys, values->items, out);
    gale_tensor_destroy(&keys);
    gale_object_destroy(&values);
    return status;
}

gale_status gale__json_value_read(const char *path, const gale_model_value *want, gale_object **out)
{
    gale__bytes file = {0};
    gale__arena arena = {0};
    gale__json *j = NULL;
    GALE_TRY(gale__file_read(path, 0, &file));
    gale_status status = gale__json_parse(&arena, file.data, file.size, &j);
    if (status != GALE_OK) status = gale__fail_within(status, "%s", path);
    else if (want->optional && j->kind == GALE__JSON_NULL) status = gale_object_none(out);
    else if (want->kind == GALE_OBJECT_SEQUENCE && j->kind == GALE__JSON_ARRAY)
        status = read_items(path, j, want->type, &arena, out);
    else if (want->kind == GALE_OBJECT_MAP && j->kind == GALE__JSON_OBJECT)
        status = read_map(path, j, want->type, &arena, out);
    else if (want->kind == GALE_OBJECT_TENSOR) status = read_tensor(path, j, want->type, &arena, out);
    else status = gale__fail(GALE_FORMAT, "%s: a sequence must be an array and a map an object", path);
    gale__arena_finish(&arena);
    gale__bytes_finish(&file);
    return status;
}

/* --- Writing. --- */

static void add_real(gale__str *s, gale_type type, const void *p)
{
    char text[32];
    double v = gale__load_f64(type, p);
    if (isnan(v)) gale__str_add(s, "\"nan\"");
    else if (isinf(v)) gale__str_add(s, v < 0 ? "\"-inf\"" : "\"inf\"");
    else if (type == GALE_F64) gale__str_add(s, gale__f64_to_text(v, text));
    else gale__str_addf(s, "%.9g", v);
}

static void add_element(gale__str *s, gale_tensor *t, const char *data, int64_t i)
{
    gale_type type = gale_tensor_type(t);
    const void *p = data ? data + (size_t)i * gale_type_size(type) : NULL;
    size_t size;
    if (type == GALE_STRING) {
        const char *text = gale_tensor_string(t, i, &size);
        gale__json_quote(s, text, size);
        return;
    }
    if (gale__type_is_float(type)) return add_real(s, type, p);
    if (type == GALE_BOOL) return gale__str_add(s, *(const uint8_t *)p ? "true" : "false");
    int64_t v = gale__load_i64(type, p);
    bool large = type == GALE_U64 ? (uint64_t)v > 1ull << 53 : v > 1ll << 53 || v < -(1ll << 53);
    const char *quote = large ? "\"" : "";
    if (type == GALE_U64) gale__str_addf(s, "%s%llu%s", quote, (unsigned long long)v, quote);
    else gale__str_addf(s, "%s%lld%s", quote, (long long)v, quote);
}

static void add_level(gale__str *s, gale_tensor *t, const char *data, int axis, int64_t *at)
{
    int rank = gale_tensor_rank(t);
    if (axis == rank) return add_element(s, t, data, (*at)++);
    int64_t n = gale_tensor_dims(t)[axis];
    gale__str_add(s, "[");
    for (int64_t i = 0; i < n && !s->failed; i++) {
        if (i) gale__str_add(s, axis == rank - 1 ? ", " : ",\n");
        add_level(s, t, data, axis + 1, at);
    }
    gale__str_add(s, "]");
}

static void add_object(gale__str *s, const gale_object *o)
{
    int64_t at = 0;
    if (o->kind == GALE_OBJECT_NONE) return gale__str_add(s, "null");
    if (o->kind == GALE_OBJECT_TENSOR) return add_level(s, o->tensor, gale_tensor_data(o->tensor), 0, &at);
    bool map = o->kind == GALE_OBJECT_MAP, strings = map && gale_tensor_type(o->tensor) == GALE_STRING;
    gale__str_add(s, map ? "{" : "[");
    for (size_t i = 0; i < o->count; i++) {
        size_t size = 0;
        const char *key = strings ? gale_tensor_string(o->tensor, (int64_t)i, &size) : NULL;
        if (i) gale__str_add(s, ",\n");
        if (strings) gale__json_quote(s, key, size);
        else if (map) gale__str_addf(s, "\"%lld\"", (long long)((const int64_t *)gale_tensor_data(o->tensor))[i]);
        if (map) gale__str_add(s, ": ");
        add_object(s, o->items[i]);
    }
    gale__str_add(s, map ? "}" : "]");
}

gale_status gale__json_value_write(const char *path, const gale_object *value)
{
    gale__str s = {0};
    add_object(&s, value);
    gale__str_add(&s, "\n");
    gale_status status = gale__str_check(&s);
    if (status == GALE_OK) status = gale__file_write(path, s.text, s.length);
    gale__str_finish(&s);
    return status;
}
