/* Bytes as an ONNX file: read, every tensor decoded, written, read again.  What is read must survive being written;
 * what is not is an error. */
#include "../tests/onnx_tree.h"
#include "fuzz.h"

static void once(const uint8_t *data, size_t size, gale__pb_kind kind)
{
    gale__onnx *file = NULL;
    gale__str bytes = {0};
    if (gale__onnx_parse(data, size, false, NULL, kind, &file) != GALE_OK) return;
    tree_decode(file);
    FUZZ_CHECK(tree_round_trip(file, &bytes) == GALE_OK);
    gale__str_finish(&bytes);
    gale__onnx_close(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    once(data, size, GALE__PB_KIND_MODEL);
    for (int kind = GALE__PB_KIND_TENSOR; size < 256 && kind <= GALE__PB_KIND_TYPE; kind++)
        once(data, size, (gale__pb_kind)kind);
    FUZZ_CHECK(gale__alloc_live() == 0);
    return 0;
}
