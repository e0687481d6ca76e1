/* Bytes as a file of texts: plain or packed, as lines, JSONL, CSV, TSV and footprints.  Texts are no longer than the
 * limit, and lines are the same whatever stands in them. */
#include "base/file.h"
#include "base/mem.h"
#include "base/process.h"
#include "fuzz.h"
#include "text/records.h"
#include <string.h>

static void read_all(const char *path, gale__record_kind kind, const char *field, bool whole)
{
    gale__records_options options = {&path, 1, kind, field, whole};
    gale__records *r = NULL;
    const char *text = "";
    size_t size = 0;
    volatile char sum = 0;
    FUZZ_CHECK(gale__records_open(&options, &r) == GALE_OK);
    for (int i = 0; i < 100000 && text; i++) {
        if (gale__records_next(r, &text, &size) != GALE_OK) break;
        FUZZ_CHECK(!text || size <= GALE__RECORD_BYTES);
        if (text && size) sum = (char)(sum + text[0] + text[size - 1]);
        if (kind == GALE__RECORDS_LINES && text) FUZZ_CHECK(!memchr(text, '\n', size));
    }
    gale__records_close(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char folder[256], path[300];
    FUZZ_CHECK(gale__temp_folder_make(folder, sizeof folder) == GALE_OK);
    snprintf(path, sizeof path, "%s/t", folder);
    FUZZ_CHECK(gale__file_write(path, data, size) == GALE_OK);
    for (int kind = GALE__RECORDS_LINES; kind <= GALE__RECORDS_FOOTPRINT; kind++) {
        read_all(path, (gale__record_kind)kind, NULL, false);
        read_all(path, (gale__record_kind)kind, "2", kind == GALE__RECORDS_JSONL);
    }
    gale__temp_folder_remove(folder);
    FUZZ_CHECK(gale__alloc_live() == 0);
    return 0;
}
