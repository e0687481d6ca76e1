/* Bytes as a manifest: YAML or JSON, then its keys. */
#include "fuzz.h"
#include "jobs/models/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gale__manifest m;
    if (gale__manifest_parse((const char *)data, size, "model", &m) == GALE_OK) gale__manifest_finish(&m);
    FUZZ_CHECK(gale__alloc_live() == 0);
    return 0;
}
