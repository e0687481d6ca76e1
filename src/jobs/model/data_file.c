/* Values from and to files: NumPy arrays and archives, ONNX messages, JSON, and raw numbers, selected by the file
 * extension. */
#include "jobs/model/data_file.h"
#include "base/npy.h"
#include "base/num.h"
#include "base/utf8.h"
#include "base/zip.h"
#include "onnx/host/host.h"
#include <string.h>

static bool ends_with(const char *path, const char *end)
{
    size_t n = strlen(path), k = strlen(end);
    return n >= k && !strcmp(path + n - k, end);
}

static gale_status unknown(const char *path)
{
    return gale__fail(
        GALE_UNSUPPORTED, "%s: unsupported file type; supported are .npy, .npz, .pb, .json and .raw or .bin", path);
}

/* --- .npy and .npz --- */

/* NumPy has no small types: their elements, and the bits of 8-bit floats, come as bytes. */
static gale_type stored_type(gale_type file, const gale_model_value *want)
{
    const gale__type_info *w = &gale__type_table[want->type];
    if (want->kind != GALE_OBJECT_TENSOR && want->kind != GALE_OBJECT_SEQUENCE) return file;
    if (file == GALE_I8 && w->kind == 'i' && w->bits < 8) return want->type;
    if (file == GALE_U8 && w->bits <= 8 && (w->kind == 'f' || w->kind == 'u')) return want->type;
    return file;
}

/* NumPy's texts, with zeros behind, to UTF-8. */
static gale_status take_texts(const gale__npy *a, gale_tensor **out)
{
    int64_t n = 1;
    for (int i = 0; i < a->rank;
         i++) /* texts of no characters take no bytes, so the file's size does not bound their number */
        if (__builtin_mul_overflow(n, a->dims[i], &n) || n > INT32_MAX)
            return gale__fail(GALE_LIMIT, "too many strings");
    size_t width = a->wide ? a->item_bytes / 4 : a->item_bytes;
    char *text = gale__alloc((size_t)n * width * 4 + 1), *to = text;
    const char **texts = gale__calloc((size_t)n + 1, sizeof *texts);
    size_t *sizes = gale__calloc((size_t)n + 1, sizeof *sizes);
    gale_status status = text && texts && sizes ? GALE_OK : GALE_NO_MEMORY;
    for (int64_t i = 0; status == GALE_OK && i < n; i++) {
        const char *from = (const char *)a->data.data + (size_t)i * a->item_bytes;
        size_t used = width;
        texts[i] = to;
        for (bool more = true; more && used;) {
            more = a->wide ? !(from[4 * used - 4] | from[4 * used - 3] | from[4 * used - 2] | from[4 * used - 1])
                           : !from[used - 1];
            if (more) used--;
        }
        for (size_t k = 0; status == GALE_OK && k < used; k++) {
            uint32_t c = (uint8_t)from[k];
            if (a->wide) memcpy(&c, from + 4 * k, 4);
            if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
                status = gale__fail(
                    GALE_FORMAT, "string %lld contains %u, which is not a Unicode code point", (long long)i, c);
            else if (a->wide) to = gale__utf8_put(to, c);
            else *to++ = (char)c;
        }
        sizes[i] = (size_t)(to - texts[i]);
    }
    if (status == GALE_OK) status = gale_tensor_from_strings(a->rank, a->dims, texts, sizes, out);
    gale__free(text);
    gale__free(texts);
    gale__free(sizes);
    return status;
}

static gale_status take_npy(gale__npy *a, const gale_model_value *want, gale_object **out)
{
    gale_tensor *t = NULL;
    gale_status status = a->type == GALE_STRING ? take_texts(a, &t)
                                                : gale_tensor_from_cpu(NULL, stored_type(a->type, want), a->rank,
                                                      a->dims, a->data.data, &t);
    gale__npy_finish(a);
    return status == GALE_OK ? gale__onnx_object_take(&t, out) : status;
}

static gale_status read_entry(const gale__zip *z, size_t i, const gale_model_value *want, gale_object **out)
{
    gale__bytes file = {0};
    gale__npy a = {0};
    GALE_TRY(gale__zip_extract(z, i, &file));
    GALE_TRY(gale__npy_parse(z->entries[i].name, &file, true, &a));
    return take_npy(&a, want, out);
}

/* An entry by its name, with or without ".npy"; NULL: the only one. */
static gale_status find_entry(const gale__zip *z, const char *name, bool must, size_t *out)
{
    for (size_t i = 0; i < z->count; i++) {
        size_t n = strlen(name);
        if (!strncmp(z->entries[i].name, name, n) &&
            (!z->entries[i].name[n] || !strcmp(z->entries[i].name + n, ".npy")))
            return *out = i, GALE_OK;
    }
    *out = 0;
    if (!must && z->count == 1) return GALE_OK;
    return gale__fail(GALE_NOT_FOUND, "%s: none of its %zu entries is named %s; select one with FILE.npz:ENTRY",
        z->path, z->count, name);
}

static gale_status read_all_entries(const gale__zip *z, const gale_model_value *want, gale_object **out)
{
    gale_object *made = NULL;
    GALE_TRY(gale__onnx_object_room(z->count, &made));
    for (size_t i = 0; i < z->count; i++) {
        gale_object *item = NULL;
        gale_status status = read_entry(z, i, want, &item);
        if (status == GALE_OK) status = gale__onnx_object_put(made, i, item);
        if (status != GALE_OK) return gale_object_destroy(&made), status;
    }
    *out = made;
    return GALE_OK;
}

/* path: FILE.npz or FILE.npz:ENTRY. */
static gale_status read_npz(const char *path, const gale_model_value *want, gale_object **out)
{
    gale__zip z = {0};
    size_t i;
    const char *colon = strstr(path, ".npz:");
    char *file = gale__strdup(path);
    gale_status status = file ? GALE_OK : GALE_NO_MEMORY;
    if (file && colon) file[colon + 4 - path] = 0;
    if (status == GALE_OK) status = gale__zip_open(file, &z);
    if (status == GALE_OK && want->kind == GALE_OBJECT_SEQUENCE && !colon) status = read_all_entries(&z, want, out);
    else if (status == GALE_OK) {
        status = find_entry(&z, colon ? colon + 5 : want->name ? want->name : "", colon != NULL, &i);
        if (status == GALE_OK) status = read_entry(&z, i, want, out);
    }
    gale__zip_finish(&z);
    gale__free(file);
    return status;
}

/* Characters of a text, written to `to` unless it is NULL; -1 when it is not UTF-8 or holds a zero. */
static int64_t spread_text(const char *text, size_t size, uint32_t *to)
{
    int64_t n = 0;
    for (const char *at = text, *end = text + size; at < end; n++) {
        int32_t c = gale__utf8_take(&at, end);
        if (c <= 0) return -1;
        if (to) to[n] = (uint32_t)c;
    }
    return n;
}

static gale_status encode_texts(const char *path, gale_tensor *t, gale__str *out)
{
    int64_t n = gale__onnx_tensor_count(t), width = 1;
    size_t size;
    for (int64_t i = 0; i < n; i++) {
        const char *text = gale_tensor_string(t, i, &size);
        int64_t length = spread_text(text, size, NULL);
        if (length < 0)
            return gale__fail(
                GALE_UNSUPPORTED, "%s: string %lld cannot be stored by NumPy; write .pb", path, (long long)i);
        if (length > width) width = length;
    }
    uint32_t *data = gale__calloc((size_t)n * (size_t)width + 1, sizeof *data);
    if (!data) return GALE_NO_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        const char *text = gale_tensor_string(t, i, &size);
        spread_text(text, size, data + i * width);
    }
    gale_status status =
        gale__npy_encode_texts(path, gale_tensor_rank(t), gale_tensor_dims(t), (size_t)width, data, out);
    gale__free(data);
    return status;
}

static gale_status encode(const char *path, gale_tensor *t, gale__str *out)
{
    if (gale_tensor_type(t) == GALE_STRING) return encode_texts(path, t, out);
    return gale__npy_encode(
        path, gale_tensor_type(t), gale_tensor_rank(t), gale_tensor_dims(t), gale_tensor_data(t), out);
}

/* A tensor is the entry arr_0, as NumPy has it; a sequence arr_0, arr_1 ... */
static gale_status write_npz(const char *path, const gale_object *value)
{
    bool one = value->kind == GALE_OBJECT_TENSOR;
    size_t n = one ? 1 : value->count;
    gale__arena arena = {0};
    const char **names = gale__arena_alloc(&arena, (n + 1) * sizeof *names);
    gale__str *contents = gale__arena_alloc(&arena, (n + 1) * sizeof *contents);
    gale_status status = names && contents ? GALE_OK : GALE_NO_MEMORY;
    if (status == GALE_OK && !one && value->kind != GALE_OBJECT_SEQUENCE)
        status = gale__fail(GALE_UNSUPPORTED,
            "%s: only tensors and sequences of them can be written as .npz; write .json or .pb", path);
    for (size_t i = 0; i < n && status == GALE_OK; i++) {
        const gale_object *item = one ? value : value->items[i];
        names[i] = gale__arena_printf(&arena, "arr_%zu.npy", i);
        if (!names[i]) status = GALE_NO_MEMORY;
        else if (item->kind != GALE_OBJECT_TENSOR)
            status = gale__fail(GALE_UNSUPPORTED, "%s: item %zu is not a tensor", path, i);
        else status = encode(path, item->tensor, &contents[i]);
    }
    if (status == GALE_OK) status = gale__zip_write(path, names, contents, n);
    for (size_t i = 0; contents && i < n; i++) gale__str_finish(&contents[i]);
    gale__arena_finish(&arena);
    return status;
}

/* --- Raw numbers. --- */

/* The declared shape; one extent that is not specified follows from the size of the file. */
static gale_status fit_shape(const char *path, const gale_model_value *want, size_t size, int64_t *dims)
{
    size_t known = gale_type_size(want->type);
    int open = -1;
    if (want->kind != GALE_OBJECT_TENSOR || !known || want->rank < 0)
        return gale__fail(
            GALE_INVALID, "%s: raw numbers need a tensor input with a declared shape; use a .npy file", path);
    for (int i = 0; i < want->rank; i++) {
        dims[i] = want->dims[i];
        if (dims[i] < 0 && open >= 0)
            return gale__fail(GALE_INVALID, "%s: more than one extent of input %s is not declared; use a .npy file",
                path, want->name);
        if (dims[i] < 0) open = i;
        else if (gale__mul_size(known, (size_t)dims[i], &known))
            return gale__fail(GALE_LIMIT, "%s: the declared shape is too large", path);
    }
    if (open >= 0) dims[open] = known ? (int64_t)(size / known) : 0;
    if (open >= 0 ? !known || size % known : size != known)
        return gale__fail(GALE_FORMAT, "%s has %zu bytes, but input %s needs %s%zu", path, size, want->name,
            open >= 0 ? "a multiple of " : "", known);
    return GALE_OK;
}

static gale_status read_raw(const char *path, const gale_model_value *want, gale_object **out)
{
    gale__bytes file = {0};
    gale_tensor *t = NULL;
    int64_t dims[GALE_MAX_RANK];
    GALE_TRY(gale__file_read(path, 0, &file));
    gale_status status = fit_shape(path, want, file.size, dims);
    if (status == GALE_OK) status = gale_tensor_from_cpu(NULL, want->type, want->rank, dims, file.data, &t);
    gale__bytes_finish(&file);
    return status == GALE_OK ? gale__onnx_object_take(&t, out) : status;
}

/* --- By ending. --- */

static bool is_raw(const char *path) { return ends_with(path, ".raw") || ends_with(path, ".bin"); }

gale_status gale__data_read(const char *path, const gale_model_value *want, gale_object **out)
{
    gale__npy a = {0};
    gale__bytes file = {0};
    if (ends_with(path, ".pb")) return gale__onnx_object_read(path, want, out);
    if (ends_with(path, ".json")) return gale__json_value_read(path, want, out);
    if (ends_with(path, ".npz") || strstr(path, ".npz:")) return read_npz(path, want, out);
    if (is_raw(path)) return read_raw(path, want, out);
    if (!ends_with(path, ".npy")) return unknown(path);
    GALE_TRY(gale__file_read(path, 0, &file));
    GALE_TRY(gale__npy_parse(path, &file, true, &a));
    return take_npy(&a, want, out);
}

gale_status gale__data_write(const char *path, const gale_object *value)
{
    gale__str text = {0};
    gale_tensor *t = value->kind == GALE_OBJECT_TENSOR ? value->tensor : NULL;
    if (ends_with(path, ".pb")) return gale__onnx_object_write(path, value);
    if (ends_with(path, ".json")) return gale__json_value_write(path, value);
    if (ends_with(path, ".npz")) return write_npz(path, value);
    if (!ends_with(path, ".npy") && !is_raw(path)) return unknown(path);
    if (!t || (is_raw(path) && gale_tensor_type(t) == GALE_STRING))
        return gale__fail(
            GALE_UNSUPPORTED, "%s: only numeric tensors can be written in this format; use .json or .pb", path);
    if (is_raw(path)) return gale__file_write(path, gale_tensor_data(t), gale_tensor_size_bytes(t));
    gale_status status = encode(path, t, &text);
    if (status == GALE_OK) status = gale__file_write(path, text.text, text.length);
    gale__str_finish(&text);
    return status;
}
