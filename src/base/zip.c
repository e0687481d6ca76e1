/* Zip archives.  zlib unpacks entries but does not handle archives, and libraries that do (libzip, minizip) work on
 * files and allocate themselves; this is 200 lines over memory, fuzzed.  The directory at the end gives the positions
 * of the entries; everything in it is checked against the file. */
#include "base/zip.h"
#include "base/inflate.h"
#include <string.h>

enum { LOCAL = 0x04034b50, CENTRAL = 0x02014b50, END = 0x06054b50, END64 = 0x06064b50, LOCATOR64 = 0x07064b50 };

static uint64_t get(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static gale_status malformed(const char *path, const char *what)
{
    return gale__fail(GALE_FORMAT, "%s: %s", path, what);
}

/* The record at the end, which a comment of up to 64 KiB may follow. */
static const uint8_t *find_end(const uint8_t *data, size_t size)
{
    if (size < 22) return NULL;
    for (size_t i = size - 22, least = size > 65557 ? size - 65557 : 0;; i--) {
        if (get(data + i, 4) == END) return data + i;
        if (i == least) return NULL;
    }
}

static gale_status find_directory(const char *path, const uint8_t *data, size_t size, uint64_t *count, uint64_t *offset)
{
    const uint8_t *end = find_end(data, size);
    if (!end) return malformed(path, "not a zip archive, or truncated");
    *count = get(end + 10, 2);
    *offset = get(end + 16, 4);
    if (*count != 0xffff && *offset != 0xffffffff) return GALE_OK;
    if (end - data < 20 || get(end - 20, 4) != LOCATOR64) return GALE_OK;
    uint64_t at = get(end - 12, 8);
    if (at > size || size - at < 56 || get(data + at, 4) != END64)
        return malformed(path, "damaged: the 64-bit directory is not where it should be");
    *count = get(data + at + 32, 8);
    *offset = get(data + at + 48, 8);
    return GALE_OK;
}

/* Sizes that do not fit 32 bits are in an extra field, only these and in this order. */
static void wide_fields(const uint8_t *extra, size_t size, gale__zip_entry *e)
{
    while (size >= 4) {
        size_t n = get(extra + 2, 2);
        if (n > size - 4) return;
        const uint8_t *p = extra + 4, *end = p + n;
        uint64_t *fields[] = {&e->size, &e->packed, &e->offset};
        for (int i = 0; get(extra, 2) == 1 && i < 3; i++) {
            if (*fields[i] != 0xffffffff || end - p < 8) continue;
            *fields[i] = get(p, 8);
            p += 8;
        }
        extra += 4 + n;
        size -= 4 + n;
    }
}

static gale_status read_directory(gale__zip *z, uint64_t count, uint64_t offset)
{
    const uint8_t *data = z->file.data;
    if (count > z->file.size / 46)
        return malformed(z->path, "damaged: the directory has more entries than the file can hold");
    z->entries = gale__arena_alloc(&z->arena, (size_t)(count + 1) * sizeof *z->entries);
    if (!z->entries) return GALE_NO_MEMORY;
    for (; z->count < count; z->count++) {
        const uint8_t *p = offset < z->file.size ? data + offset : data;
        if (offset > z->file.size || z->file.size - offset < 46 || get(p, 4) != CENTRAL)
            return malformed(z->path, "the directory is truncated");
        size_t name = get(p + 28, 2), extra = get(p + 30, 2), comment = get(p + 32, 2),
               length = 46 + name + extra + comment;
        if (length > z->file.size - offset) return malformed(z->path, "the directory is truncated");
        if (get(p + 8, 2) & 1) return gale__fail(GALE_UNSUPPORTED, "%s: encrypted entries are not supported", z->path);
        gale__zip_entry *e = &z->entries[z->count];
        char *copy = gale__arena_alloc(&z->arena, name + 1);
        if (!copy) return GALE_NO_MEMORY;
        memcpy(copy, p + 46, name);
        *e = (gale__zip_entry){
            copy, (int)get(p + 10, 2), (uint32_t)get(p + 16, 4), get(p + 42, 4), get(p + 20, 4), get(p + 24, 4)};
        wide_fields(p + 46 + name, extra, e);
        offset += length;
    }
    return GALE_OK;
}

gale_status gale__zip_parse(const char *path, gale__bytes *file, gale__zip *out)
{
    gale__zip z = {.path = path, .file = *file};
    uint64_t count = 0, offset = 0;
    gale_status status;
    *file = (gale__bytes){0};
    GALE_GO(find_directory(path, z.file.data, z.file.size, &count, &offset));
    GALE_GO(read_directory(&z, count, offset));
done:
    if (status != GALE_OK) gale__zip_finish(&z);
    else *out = z;
    return status;
}

gale_status gale__zip_open(const char *path, gale__zip *out)
{
    gale__bytes file = {0};
    GALE_TRY(gale__file_read(path, 0, &file));
    return gale__zip_parse(path, &file, out);
}

gale_status gale__zip_extract(const gale__zip *z, size_t index, gale__bytes *out)
{
    const gale__zip_entry *e = &z->entries[index];
    const uint8_t *data = z->file.data, *p = e->offset < z->file.size ? data + e->offset : data;
    size_t size = z->file.size;
    if (e->offset > size || size - e->offset < 30 || get(p, 4) != LOCAL)
        return gale__fail(GALE_FORMAT, "%s: damaged: entry %s is not where the directory says", z->path, e->name);
    uint64_t from = e->offset + 30 + get(p + 26, 2) + get(p + 28, 2);
    if (from > size || e->packed > size - from)
        return gale__fail(GALE_FORMAT, "%s: entry %s is truncated", z->path, e->name);
    if (e->method != 0 && e->method != 8)
        return gale__fail(GALE_UNSUPPORTED,
            "%s: entry %s uses compression method %d; only stored and deflated entries are supported", z->path, e->name,
            e->method);
    /* Deflate expands one byte to at most 1032. */
    if (e->method == 0 ? e->size != e->packed : e->size / 1040 > e->packed)
        return gale__fail(GALE_FORMAT, "%s: damaged: entry %s declares an impossible size", z->path, e->name);
    char *to = gale__alloc((size_t)e->size + 1);
    if (!to) return GALE_NO_MEMORY;
    gale_status status = GALE_OK;
    if (e->method == 0) memcpy(to, data + from, (size_t)e->size);
    else status = gale__inflate(data + from, (size_t)e->packed, to, (size_t)e->size, NULL);
    if (status == GALE_OK && gale__crc32(0, to, (size_t)e->size) != e->crc)
        status = gale__fail(GALE_FORMAT, "wrong checksum");
    if (status != GALE_OK) return gale__free(to), gale__fail_within(status, "%s: entry %s", z->path, e->name);
    to[e->size] = 0;
    *out = (gale__bytes){to, (size_t)e->size};
    return GALE_OK;
}

void gale__zip_finish(gale__zip *z)
{
    gale__bytes_finish(&z->file);
    gale__arena_finish(&z->arena);
    *z = (gale__zip){0};
}

/* --- Writing. --- */

static void put(gale__str *s, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) gale__str_add_n(s, &(char){(char)(v >> 8 * i)}, 1);
}

/* Fields shared by the local header and the directory, from the version on. */
static void put_common(gale__str *s, const char *name, const gale__str *content)
{
    put(s, 20, 2);
    put(s, 1u << 11, 2);   /* names are UTF-8 */
    put(s, 0, 2);          /* stored */
    put(s, 0x00210000, 4); /* 1 January 1980, so that equal contents give equal files */
    put(s, gale__crc32(0, gale__str_text(content), content->length), 4);
    put(s, content->length, 4);
    put(s, content->length, 4);
    put(s, strlen(name), 2);
    put(s, 0, 2);
}

gale_status gale__zip_write(const char *path, const char *const *names, const gale__str *contents, size_t n)
{
    gale__str all = {0}, directory = {0};
    gale_status status = GALE_OK;
    size_t total = 0;
    for (size_t i = 0; i < n; i++)
        if (gale__add_size(total, contents[i].length + 2 * strlen(names[i]) + 100, &total)) total = SIZE_MAX;
    if (total > 0xfffffff0u || n > 0xfff0)
        return gale__fail(GALE_LIMIT, "%s: archives are limited to 4 GiB and 65520 entries; write .npy files", path);
    for (size_t i = 0; i < n; i++) {
        size_t offset = all.length;
        put(&all, LOCAL, 4);
        put_common(&all, names[i], &contents[i]);
        gale__str_add(&all, names[i]);
        gale__str_add_n(&all, gale__str_text(&contents[i]), contents[i].length);
        put(&directory, CENTRAL, 4);
        put(&directory, 20, 2);
        put_common(&directory, names[i], &contents[i]);
        put(&directory, 0, 4); /* no comment, one disk */
        put(&directory, 0, 6); /* no attributes */
        put(&directory, offset, 4);
        gale__str_add(&directory, names[i]);
    }
    size_t offset = all.length;
    gale__str_add_n(&all, gale__str_text(&directory), directory.length);
    put(&all, END, 4);
    put(&all, 0, 4);
    put(&all, n, 2);
    put(&all, n, 2);
    put(&all, directory.length, 4);
    put(&all, offset, 4);
    put(&all, 0, 2);
    status = directory.failed ? gale__str_check(&directory) : gale__str_check(&all);
    if (status == GALE_OK) status = gale__file_write(path, all.text, all.length);
    gale__str_finish(&all);
    gale__str_finish(&directory);
    return status;
}
