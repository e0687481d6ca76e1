/* ZIP chunks, written with libdeflate: at this level about three times as fast as the zlib of the C core, and about as
 * small. */
#include "media/exr_pack.h"
#ifdef GALE_HAVE_DEFLATE
#include <libdeflate.h>

enum { LEVEL = 6 };

void gale__exr_predict(const uint8_t *from, uint8_t *to, size_t size)
{
    size_t low = (size + 1) / 2;
    for (size_t i = 0; i < low; i++) to[i] = from[2 * i];
    for (size_t i = 0; i < size / 2; i++) to[low + i] = from[2 * i + 1];
    for (size_t i = size; i-- > 1;) to[i] = (uint8_t)(to[i] - to[i - 1] + 128);
}

exr_result_t gale__exr_deflate(exr_encode_pipeline_t *e, const uint8_t *from, size_t n)
{
    size_t size = (size_t)e->packed_bytes;
    uint8_t *out = gale__exr_scratch(&e->compressed_buffer, &e->compressed_alloc_size, size);
    struct libdeflate_compressor *tool = out ? libdeflate_alloc_compressor(LEVEL) : NULL;
    if (!tool) return EXR_ERR_OUT_OF_MEMORY;
    size_t packed = size > 1 ? libdeflate_zlib_compress(tool, from, n, out, size - 1) : 0;
    libdeflate_free_compressor(tool);
    e->compressed_bytes = packed ? packed : size; /* of the same length: stored as it is */
    return EXR_ERR_SUCCESS;
}

exr_result_t gale__exr_zip(exr_encode_pipeline_t *e)
{
    size_t size = (size_t)e->packed_bytes;
    uint8_t *room = gale__exr_scratch(&e->scratch_buffer_1, &e->scratch_alloc_size_1, size);
    if (!room) return EXR_ERR_OUT_OF_MEMORY;
    gale__exr_predict(e->packed_buffer, room, size);
    return gale__exr_deflate(e, room, size);
}
#else
exr_result_t gale__exr_zip(exr_encode_pipeline_t *e) { return (void)e, EXR_ERR_FEATURE_NOT_IMPLEMENTED; }
exr_result_t gale__exr_deflate(exr_encode_pipeline_t *e, const uint8_t *from, size_t n)
{
    return (void)e, (void)from, (void)n, EXR_ERR_FEATURE_NOT_IMPLEMENTED;
}
#endif
