/* Zip archives, to the extent that .npz files need them: stored or deflated entries, also with 64-bit sizes; entries
 * are written stored. */
#ifndef GALE_BASE_ZIP_H
#define GALE_BASE_ZIP_H
#include "file.h"
typedef struct gale__zip_entry {
    const char *name;
    int method;
    uint32_t crc;
    uint64_t offset, packed, size;
} gale__zip_entry;
typedef struct gale__zip {
    const char *path;
    gale__bytes file;
    gale__zip_entry *entries;
    size_t count;
    gale__arena arena;
} gale__zip;
gale_status gale__zip_open(const char *path /* outlives it */, gale__zip *out);
gale_status gale__zip_parse(
    const char *path, gale__bytes *file /* ownership is taken, also on failure */, gale__zip *out);
gale_status gale__zip_extract(
    const gale__zip *z, size_t index, gale__bytes *out); /* verified by its checksum; followed by a spare zero byte */
void gale__zip_finish(gale__zip *z);
gale_status gale__zip_write(const char *path, const char *const *names, const gale__str *contents, size_t n);
#endif
