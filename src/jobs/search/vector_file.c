/* Rows of f32 are used where they are mapped, which is as fast as memory is; before each block the file is asked
 * whether it is still as long, since to touch what was cut off would end the process.  Other rows are unpacked from
 * there. */
#include "jobs/search/vector_file.h"
#include "base/num.h"
#include "kernel/cpu/simd.h"
#include <stdio.h>
#include <string.h>

enum { HEADER_MOST = 4096, DIMS_MOST = 1 << 20 };

static gale_status wrong(const gale__vector_file *f, const char *what)
{
    return gale__fail(GALE_FORMAT, "%s: %s", f->map.path, what);
}

/* --- .npy --- */

static bool find_type(const char *header, gale_vector_type *type)
{
    static const struct {
        const char *text;
        gale_vector_type type;
    } types[] = {{"'<f4'", GALE_VECTOR_F32}, {"'<f2'", GALE_VECTOR_F16}, {"'|i1'", GALE_VECTOR_INT8},
        {"'|u1'", GALE_VECTOR_BINARY}};
    const char *at = strstr(header, "'descr':");
    if (!at) return false;
    at += 8 + strspn(at + 8, " ");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strncmp(at, types[i].text, 5)) return *type = types[i].type, true;
    return false;
}

static gale_status open_npy(gale__vector_file *f, int64_t dims)
{
    uint8_t head[12];
    char header[HEADER_MOST + 1];
    long long rows, columns;
    int end = 0;
    if (f->map.size < sizeof head) return wrong(f, "is too short for an .npy file");
    GALE_TRY(gale__file_map_read(&f->map, 0, sizeof head, head));
    if (memcmp(head, "\x93NUMPY", 6)) return wrong(f, "not an .npy file (bad signature); use --index-format");
    size_t start = head[6] == 1 ? 10 : 12, size = head[8] | (size_t)head[9] << 8;
    if (head[6] > 1) size |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    if (head[6] < 1 || head[6] > 3 || size > HEADER_MOST || size > f->map.size - start)
        return wrong(f, "the .npy header is damaged");
    GALE_TRY(gale__file_map_read(&f->map, start, size, header));
    header[size] = 0;
    const char *shape = strstr(header, "'shape':");
    if (!find_type(header, &f->type)) return wrong(f, "its numbers are neither f32, f16, int8 nor binary (u8)");
    if (strstr(header, "'fortran_order': True")) return wrong(f, "is stored column by column; rows are needed");
    if (!shape || sscanf(shape + 8, " ( %lld , %lld %n", &rows, &columns, &end) != 2 || !end || rows < 0 ||
        columns < 1 || columns > DIMS_MOST || shape[8 + end] != ')')
        return wrong(f, "is not a two-dimensional table");
    f->rows = rows;
    f->dims = f->type == GALE_VECTOR_BINARY ? (dims ? dims : columns * 8) : columns;
    if (f->type == GALE_VECTOR_BINARY && (f->dims + 7) / 8 != columns)
        return wrong(f, "the length of its rows does not match --dims");
    f->offset = start + size;
    f->row_bytes = gale_vector_bytes(f->type, f->dims);
    if ((f->map.size - f->offset) / f->row_bytes < (uint64_t)rows) return wrong(f, "is shorter than its header says");
    return GALE_OK;
}

/* --- The others. --- */

static gale_status open_raw(gale__vector_file *f, const gale_index_options *o)
{
    if (o->dims < 1 || o->dims > DIMS_MOST)
        return gale__fail(GALE_INVALID, "%s: the length of vectors in a raw file is unknown; use --dims", f->map.path);
    f->type = o->type;
    f->dims = o->dims;
    f->row_bytes = gale_vector_bytes(f->type, f->dims);
    f->rows = (int64_t)(f->map.size / f->row_bytes);
    if (f->map.size % f->row_bytes)
        return wrong(f, "its size is not a multiple of a vector's; check --dims and --type");
    return GALE_OK;
}

static gale_status open_fvecs(gale__vector_file *f)
{
    int32_t dims, last;
    if (!f->map.size) return wrong(f, "is empty");
    if (f->map.size < 4) return wrong(f, "is too short for fvecs");
    GALE_TRY(gale__file_map_read(&f->map, 0, 4, &dims));
    f->dims = dims;
    f->skip_bytes = 4;
    f->row_bytes = dims > 0 && dims <= DIMS_MOST ? 4 + (size_t)dims * 4 : 0;
    if (!f->row_bytes || f->map.size % f->row_bytes)
        return wrong(f, "not an fvecs file: its size is not a multiple of a row");
    f->rows = (int64_t)(f->map.size / f->row_bytes);
    GALE_TRY(gale__file_map_read(&f->map, (uint64_t)(f->rows - 1) * f->row_bytes, 4, &last));
    return last == dims ? GALE_OK : wrong(f, "not an fvecs file: its last row has a different length than the first");
}

static gale_status open_format(gale__vector_file *f, const gale_index_options *o)
{
    const char *dot = strrchr(f->map.path, '.');
    char magic[6] = "";
    gale_vector_format format = o->format;
    if (f->map.size >= 6) GALE_TRY(gale__file_map_read(&f->map, 0, 6, magic));
    if (format == GALE_VECTORS_AUTO) {
        bool npy = !memcmp(magic, "\x93NUMPY", 6) || (dot && !strcmp(dot, ".npy"));
        bool raw = dot && (!strcmp(dot, ".raw") || !strcmp(dot, ".f32") || !strcmp(dot, ".bin"));
        format = npy ? GALE_VECTORS_NPY : dot && !strcmp(dot, ".fvecs") ? GALE_VECTORS_FVECS : GALE_VECTORS_RAW;
        if (!npy && !raw && format == GALE_VECTORS_RAW)
            return wrong(f, "not a vector file (.npy, .fvecs, .raw) by name or signature; use --index-format");
    }
    if (format == GALE_VECTORS_NPY) return open_npy(f, o->dims);
    if (format == GALE_VECTORS_FVECS) return open_fvecs(f);
    if (format == GALE_VECTORS_RAW) return open_raw(f, o);
    return gale__fail(GALE_UNSUPPORTED, "%s: %s cannot be searched; use npy, raw or fvecs", f->map.path,
        gale_vector_format_name(format));
}

gale_status gale__vector_file_open(const char *path, const gale_index_options *options, gale__vector_file *out)
{
    gale__vector_file f = {0};
    GALE_TRY(gale__file_map_open(path, &f.map));
    gale_status status = open_format(&f, options);
    if (status == GALE_OK) *out = f;
    else gale__file_map_close(&f.map);
    return status;
}

void gale__vector_file_close(gale__vector_file *f)
{
    if (f->map.path) gale__file_map_close(&f->map);
}

static void unpack(const gale__vector_file *f, const uint8_t *raw, float *to)
{
    size_t n = (size_t)f->dims;
    uint16_t half;
    if (f->type == GALE_VECTOR_F32) memcpy(to, raw + f->skip_bytes, n * sizeof *to);
    else if (f->type == GALE_VECTOR_INT8) {
        gale__simd_get()->widen[GALE_I8](to, raw, NULL, NULL, n);
        gale__simd_get()->cast[GALE__SIMD_TYPE_I32][GALE_F32](to, to, NULL, NULL, n);
    } else if (f->type == GALE_VECTOR_F16 && (uintptr_t)raw % sizeof half == 0)
        gale__simd_get()->widen[GALE_F16](to, raw, NULL, NULL, n);
    else if (f->type == GALE_VECTOR_F16)
        for (size_t i = 0; i < n; i++) to[i] = gale__f16_to_f32(*(uint16_t *)memcpy(&half, raw + 2 * i, sizeof half));
    else
        for (size_t i = 0; i < n; i++) to[i] = raw[i / 8] & 128 >> i % 8 ? 1 : -1;
}

gale_status gale__vector_file_read(
    const gale__vector_file *f, int64_t first, size_t count, float *buffer, const float **at, int64_t *pitch)
{
    const uint8_t *from = (const uint8_t *)f->map.data + f->offset + (uint64_t)first * f->row_bytes;
    bool in_place = f->type == GALE_VECTOR_F32 && (f->offset + f->skip_bytes) % sizeof(float) == 0;
    GALE_TRY(gale__file_map_check(&f->map));
    *at = in_place ? (const float *)(const void *)(from + f->skip_bytes) : buffer;
    *pitch = in_place ? (int64_t)(f->row_bytes / sizeof(float)) : f->dims;
    for (size_t i = 0; i < count && !in_place; i++) unpack(f, from + i * f->row_bytes, buffer + i * (size_t)f->dims);
    return GALE_OK;
}

const float *gale__vector_file_row(const gale__vector_file *f, int64_t row, float *buffer)
{
    const uint8_t *raw = (const uint8_t *)f->map.data + f->offset + (uint64_t)row * f->row_bytes;
    if (f->type == GALE_VECTOR_F32 && (f->offset + f->skip_bytes) % sizeof(float) == 0)
        return (const float *)(const void *)(raw + f->skip_bytes);
    unpack(f, raw, buffer);
    return buffer;
}
