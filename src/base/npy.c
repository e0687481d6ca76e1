/* NumPy's .npy files, format versions 1 to 3; Debian has no C library for them.  The header is a Python literal; only
 * the form that NumPy writes is accepted, and everything in it is checked against the file size. */
#include "base/npy.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define MAGIC "\x93NUMPY"

/* NumPy's names of gale's types. It has none for bf16 (ml_dtypes stores it as two opaque bytes) and f8. */
static const struct {
    const char *name;
    gale_type type;
} dtypes[] = {
    {"f4", GALE_F32},
    {"f8", GALE_F64},
    {"f2", GALE_F16},
    {"V2", GALE_BF16},
    {"i1", GALE_I8},
    {"i2", GALE_I16},
    {"i4", GALE_I32},
    {"i8", GALE_I64},
    {"u1", GALE_U8},
    {"u2", GALE_U16},
    {"u4", GALE_U32},
    {"u8", GALE_U64},
    {"b1", GALE_BOOL},
    {"i1", GALE_I4},
    {"u1", GALE_U4},
    {"i1", GALE_I2},
    {"u1", GALE_U2},
};
#define DTYPES (sizeof dtypes / sizeof *dtypes)

/* The text after 'key': in the header, or NULL. */
static const char *find_key(const char *header, const char *key)
{
    const char *p = strstr(header, key);
    if (!p) return NULL;
    p += strlen(key);
    p += strspn(p, " ");
    return *p == ':' ? p + 1 + strspn(p + 1, " ") : NULL;
}

/* 'U5' or 'S5': strings of 5 characters. */
static bool parse_text(const char *p, gale__npy *n)
{
    size_t width = 0;
    n->wide = *p == 'U';
    if ((*p != 'U' && *p != 'S') || !isdigit((unsigned char)p[1])) return false;
    for (p++; isdigit((unsigned char)*p) && width < 1 << 24; p++) width = width * 10 + (size_t)(*p - '0');
    n->type = GALE_STRING;
    n->item_bytes = width * (n->wide ? 4 : 1);
    return *p == '\'';
}

static gale_status parse_descr(const char *path, const char *header, bool strings, gale__npy *n)
{
    const char *p = find_key(header, "'descr'");
    if (!p || *p != '\'' || strlen(p) < 5)
        return gale__fail(GALE_FORMAT, "%s: structured element types are not supported", path);
    if (p[1] == '>')
        return gale__fail(
            GALE_UNSUPPORTED, "%s: big-endian data is not supported; save it with .astype('<%.2s')", path, p + 2);
    size_t skip = strchr("<|=", p[1]) ? 2 : 1;
    for (size_t i = 0; i < DTYPES; i++)
        if (!strncmp(p + skip, dtypes[i].name, 2) && p[skip + 2] == '\'') {
            n->type = dtypes[i].type;
            n->item_bytes = gale_type_size(n->type);
            return GALE_OK;
        }
    if (strings && parse_text(p + skip, n)) return GALE_OK;
    return gale__fail(
        GALE_UNSUPPORTED, "%s: element type %.*s is not supported", path, (int)strcspn(p + 1, "'") + 2, p);
}

static gale_status parse_shape(const char *path, const char *header, int *rank, int64_t *dims)
{
    const char *p = find_key(header, "'shape'");
    if (!p || *p != '(') return gale__fail(GALE_FORMAT, "%s: damaged header: no shape", path);
    p += 1 + strspn(p + 1, " ");
    int n = 0;
    while (isdigit((unsigned char)*p)) {
        int64_t v = 0;
        for (; isdigit((unsigned char)*p); p++)
            if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *p - '0', &v))
                return gale__fail(GALE_LIMIT, "%s: damaged header: an extent does not fit into 64 bits", path);
        if (n == GALE_MAX_RANK) return gale__fail(GALE_LIMIT, "%s: more than %d axes", path, GALE_MAX_RANK);
        dims[n++] = v;
        p += strspn(p, "L ");
        if (*p == ',') p += 1 + strspn(p + 1, " ");
        else break;
    }
    if (*p != ')') return gale__fail(GALE_FORMAT, "%s: damaged header: invalid shape", path);
    *rank = n;
    return GALE_OK;
}

/* Finds header and payload.  Version 1 has a 16-bit header length, 2 and 3 have 32 bits. */
static gale_status find_parts(const char *path, const gale__bytes *file, size_t *header, size_t *payload)
{
    const uint8_t *p = file->data;
    if (file->size < 10 || memcmp(p, MAGIC, 6)) return gale__fail(GALE_FORMAT, "%s: not a .npy file", path);
    int major = p[6];
    if (major < 1 || major > 3) return gale__fail(GALE_UNSUPPORTED, "%s: unsupported .npy version %d", path, major);
    size_t start = major == 1 ? 10 : 12;
    if (file->size < start) return gale__fail(GALE_FORMAT, "%s: truncated in the header", path);
    size_t length = p[8] | (size_t)p[9] << 8;
    if (major > 1) length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (length > file->size - start) return gale__fail(GALE_FORMAT, "%s: truncated in the header", path);
    *header = start;
    *payload = start + length;
    return GALE_OK;
}

static gale_status parse_header(const char *path, char *header, bool strings, gale__npy *n, bool *fortran)
{
    GALE_TRY(parse_descr(path, header, strings, n));
    GALE_TRY(parse_shape(path, header, &n->rank, n->dims));
    const char *order = find_key(header, "'fortran_order'");
    *fortran = order && !strncmp(order, "True", 4);
    if (!*fortran && (!order || strncmp(order, "False", 5)))
        return gale__fail(GALE_FORMAT, "%s: damaged header: no fortran_order", path);
    return GALE_OK;
}

static gale_status count_bytes(const char *path, const gale__npy *n, size_t *bytes)
{
    /* A zero extent must not hide an overflow of the others, so it is treated as 1 here. */
    size_t total = n->item_bytes;
    bool empty = false;
    for (int i = 0; i < n->rank; i++) {
        empty = empty || n->dims[i] == 0;
        if (gale__mul_size(total, n->dims[i] ? (size_t)n->dims[i] : 1, &total) || total > SIZE_MAX / 2)
            return gale__fail(GALE_LIMIT, "%s: the shape is too large for memory", path);
    }
    *bytes = empty ? 0 : total;
    return GALE_OK;
}

/* Copies column-major data into row-major order. */
static void turn_order(const gale__npy *n, const char *from, char *to, size_t bytes)
{
    size_t size = n->item_bytes, strides[GALE_MAX_RANK], step = size, offset = 0;
    int64_t index[GALE_MAX_RANK] = {0};
    for (int i = 0; i < n->rank; i++) {
        strides[i] = step;
        step *= (size_t)n->dims[i];
    }
    for (size_t at = 0; at < bytes; at += size) {
        memcpy(to + at, from + offset, size);
        for (int i = n->rank - 1; i >= 0; i--) {
            offset += strides[i];
            if (++index[i] < n->dims[i]) break;
            offset -= strides[i] * (size_t)n->dims[i];
            index[i] = 0;
        }
    }
}

static gale_status take_payload(const char *path, gale__npy *n, gale__bytes *file, size_t payload, bool fortran)
{
    size_t bytes = 0;
    GALE_TRY(count_bytes(path, n, &bytes));
    if (bytes > file->size - payload)
        return gale__fail(GALE_FORMAT, "%s: truncated: the shape needs %zu bytes, the file has %zu", path, bytes,
            file->size - payload);
    char *data = (char *)file->data + payload;
    if (fortran && n->rank > 1 && bytes) {
        char *turned = gale__alloc(bytes);
        if (!turned) return GALE_NO_MEMORY;
        turn_order(n, data, turned, bytes);
        n->data = (gale__bytes){turned, bytes};
        return GALE_OK;
    }
    memmove(file->data, data, bytes);
    n->data = (gale__bytes){file->data, bytes};
    *file = (gale__bytes){0};
    return GALE_OK;
}

gale_status gale__npy_parse(const char *path, gale__bytes *file, bool strings, gale__npy *out)
{
    gale__npy n = {0};
    size_t header = 0, payload = 0;
    bool fortran = false;
    gale_status status;
    GALE_GO(find_parts(path, file, &header, &payload));
    /* The format ends the header with a line feed, which is replaced by the terminating zero. */
    if (payload == header) GALE_GO(gale__fail(GALE_FORMAT, "%s: damaged header: empty", path));
    ((char *)file->data)[payload - 1] = 0;
    GALE_GO(parse_header(path, (char *)file->data + header, strings, &n, &fortran));
    GALE_GO(take_payload(path, &n, file, payload, fortran));
    *out = n;
done:
    gale__bytes_finish(file);
    return status;
}

gale_status gale__npy_read(const char *path, gale__npy *out)
{
    gale__bytes file = {0};
    GALE_TRY(gale__file_read(path, 0, &file));
    return gale__npy_parse(path, &file, false, out);
}

/* descr: NumPy's name of the type, with the order of bytes. */
static gale_status encode(const char *path, const char *descr, const gale__npy *n, const void *data, gale__str *out)
{
    size_t bytes = 0;
    gale__str s = {0};
    GALE_TRY(count_bytes(path, n, &bytes));
    gale__str_addf(&s, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < n->rank; i++)
        gale__str_addf(&s, "%lld%s", (long long)n->dims[i], n->rank == 1 || i + 1 < n->rank ? ", " : "");
    gale__str_add(&s, "), }");
    while ((10 + s.length + 1) % 64 && !s.failed) gale__str_add(&s, " ");
    gale__str_add(&s, "\n");
    gale__str_add_n(out, MAGIC "\x01\x00", 8);
    gale__str_add_n(out, (char[]){(char)(s.length & 255), (char)(s.length >> 8)}, 2);
    gale__str_add_n(out, gale__str_text(&s), s.length);
    gale__str_add_n(out, data, bytes);
    gale_status status = s.failed ? gale__str_check(&s) : gale__str_check(out);
    gale__str_finish(&s);
    return status;
}

static gale_status set_shape(const char *path, int rank, const int64_t *dims, gale__npy *n)
{
    if (rank < 0 || rank > GALE_MAX_RANK) return gale__fail(GALE_INVALID, "%s: rank %d", path, rank);
    n->rank = rank;
    for (int i = 0; i < rank; i++) n->dims[i] = dims[i];
    return GALE_OK;
}

gale_status gale__npy_encode(
    const char *path, gale_type type, int rank, const int64_t *dims, const void *data, gale__str *out)
{
    char descr[8] = "";
    gale__npy n = {.type = type, .item_bytes = gale_type_size(type)};
    for (size_t i = 0; i < DTYPES && !*descr; i++)
        if (dtypes[i].type == type)
            snprintf(descr, sizeof descr, "%c%s", n.item_bytes == 1 ? '|' : '<', dtypes[i].name);
    if (!*descr)
        return gale__fail(GALE_UNSUPPORTED, "%s: NumPy has no type for %s; cast it to f32, or save its bits as u8",
            path, gale_type_name(type));
    GALE_TRY(set_shape(path, rank, dims, &n));
    return encode(path, descr, &n, data, out);
}

gale_status gale__npy_encode_texts(
    const char *path, int rank, const int64_t *dims, size_t width, const uint32_t *data, gale__str *out)
{
    char descr[32];
    gale__npy n = {.type = GALE_STRING, .item_bytes = 4 * width};
    snprintf(descr, sizeof descr, "<U%zu", width);
    GALE_TRY(set_shape(path, rank, dims, &n));
    return encode(path, descr, &n, data, out);
}

gale_status gale__npy_write(const char *path, gale_type type, int rank, const int64_t *dims, const void *data)
{
    gale__str all = {0};
    gale_status status = gale__npy_encode(path, type, rank, dims, data, &all);
    if (status == GALE_OK) status = gale__file_write(path, all.text, all.length);
    gale__str_finish(&all);
    return status;
}

void gale__npy_finish(gale__npy *n)
{
    gale__bytes_finish(&n->data);
    *n = (gale__npy){0};
}
