/* Bytes as an archive of arrays: every entry unpacked and read; and as a raw stream of deflate that says it is of
 * several sizes. */
#include "base/inflate.h"
#include "base/npy.h"
#include "base/zip.h"
#include "fuzz.h"
#include <stdlib.h>
#include <string.h>

static gale__bytes copy_of(const uint8_t *data, size_t size)
{
    gale__bytes b = {gale__alloc(size + 1), size};
    FUZZ_CHECK(b.data != NULL);
    memcpy(b.data, data, size);
    ((char *)b.data)[size] = 0;
    return b;
}

static void read_archive(const uint8_t *data, size_t size)
{
    gale__bytes file = copy_of(data, size);
    gale__zip z = {0};
    if (gale__zip_parse("archive", &file, &z) != GALE_OK) return;
    for (size_t i = 0; i < z.count && i < 16; i++) {
        gale__npy array = {0};
        if (z.entries[i].size > 1 << 20 || gale__zip_extract(&z, i, &file) != GALE_OK) continue;
        if (gale__npy_parse("entry", &file, true, &array) == GALE_OK) gale__npy_finish(&array);
    }
    gale__zip_finish(&z);
}

static void read_stream(const uint8_t *data, size_t size)
{
    for (size_t expected = 0; expected <= 4096; expected = expected ? expected * 8 : 1) {
        void *out = gale__alloc(expected);
        size_t used = 0;
        if (gale__inflate(data, size, out, expected, &used) == GALE_OK) FUZZ_CHECK(used <= size);
        gale__free(out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gale__npy array = {0};
    gale__bytes file = copy_of(data, size);
    read_archive(data, size);
    read_stream(data, size);
    if (gale__npy_parse("array", &file, true, &array) == GALE_OK) gale__npy_finish(&array);
    FUZZ_CHECK(gale__alloc_live() == 0);
    return 0;
}
