/* ZIP chunks by libdeflate, which inflates about twice as fast as zlib, and the predictor undone by vectors: the bytes
 * are differences of neighbours, first those of all low bytes, then those of all high ones. */
#include "media/exr.h"
#include <string.h>
#ifdef GALE_HAVE_DEFLATE
#include <libdeflate.h>

typedef uint8_t lanes __attribute__((vector_size(16)));

static lanes load(const uint8_t *p)
{
    lanes v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Sums of all lanes up to each: four steps of doubling. */
static lanes sum_up(lanes v)
{
    const lanes none = {0};
    v += __builtin_shufflevector(none, v, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30);
    v += __builtin_shufflevector(none, v, 0, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29);
    v += __builtin_shufflevector(none, v, 0, 0, 0, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27);
    v += __builtin_shufflevector(none, v, 0, 0, 0, 0, 0, 0, 0, 0, 16, 17, 18, 19, 20, 21, 22, 23);
    return v;
}

/* Each byte is its difference to the last one, plus 128. */
static void undo_differences(uint8_t *p, size_t n)
{
    const lanes middle = {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128};
    lanes before = {0};
    size_t i = 0;
    if (n) p[0] = (uint8_t)(p[0] + 128); /* the first one has none before it */
    for (; i + 16 <= n; i += 16) {
        lanes v = sum_up(load(p + i) - middle) + before;
        memcpy(p + i, &v, sizeof v);
        before = __builtin_shufflevector(v, v, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15);
    }
    for (; i < n; i++) p[i] = (uint8_t)(p[i] - 128 + (i ? p[i - 1] : 0));
}

static void interleave(const uint8_t *from, uint8_t *to, size_t n)
{
    const uint8_t *low = from, *high = from + (n + 1) / 2;
    size_t i = 0;
    for (; 2 * i + 32 <= n; i += 16) {
        lanes a = load(low + i), b = load(high + i);
        lanes first = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        lanes second = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        memcpy(to + 2 * i, &first, sizeof first);
        memcpy(to + 2 * i + 16, &second, sizeof second);
    }
    for (; 2 * i < n; i++) {
        to[2 * i] = low[i];
        if (2 * i + 1 < n) to[2 * i + 1] = high[i];
    }
}

static exr_result_t unzip(exr_decode_pipeline_t *d)
{
    void **tool = d->decoding_user_data;
    size_t packed = (size_t)d->chunk.packed_size, size = (size_t)d->chunk.unpacked_size, made = 0;
    if (!size) return EXR_ERR_SUCCESS;
    if (packed == size) {
        if (d->unpacked_buffer != d->packed_buffer) memcpy(d->unpacked_buffer, d->packed_buffer, size);
        return EXR_ERR_SUCCESS;
    }
    if (!*tool) *tool = libdeflate_alloc_decompressor();
    if (d->scratch_alloc_size_1 < size) {
        gale__free(d->scratch_buffer_1);
        d->scratch_buffer_1 = gale__alloc(size);
        d->scratch_alloc_size_1 = d->scratch_buffer_1 ? size : 0;
    }
    if (!*tool || !d->scratch_buffer_1) return EXR_ERR_OUT_OF_MEMORY;
    if (libdeflate_zlib_decompress(*tool, d->packed_buffer, packed, d->scratch_buffer_1, size, &made) !=
            LIBDEFLATE_SUCCESS ||
        made != size)
        return EXR_ERR_CORRUPT_CHUNK;
    undo_differences(d->scratch_buffer_1, size);
    interleave(d->scratch_buffer_1, d->unpacked_buffer, size);
    return EXR_ERR_SUCCESS;
}
#endif

void gale__exr_tool_free(void **tool)
{
#ifdef GALE_HAVE_DEFLATE
    if (*tool) libdeflate_free_decompressor(*tool);
#endif
    *tool = NULL;
}

gale__exr_unpack *gale__exr_unpack_find(exr_compression_t how)
{
#ifdef GALE_HAVE_DEFLATE
    if (how == EXR_COMPRESSION_ZIP || how == EXR_COMPRESSION_ZIPS) return unzip;
#endif
    return (void)how, NULL;
}
