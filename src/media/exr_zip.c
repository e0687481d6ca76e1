/* ZIP chunks with libdeflate, which is about twice as fast as zlib (else base/inflate.h), and a vectorised inverse
 * predictor: the bytes are differences of neighbours, first all low bytes, then all high ones.  RLE has the same
 * predictor, and runs of bytes. */
#include "media/exr_pack.h"
#include "base/inflate.h"
#include <string.h>
#ifdef GALE_HAVE_DEFLATE
#include <libdeflate.h>
#endif

typedef uint8_t lanes __attribute__((vector_size(16)));

static lanes load(const uint8_t *p)
{
    lanes v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Sums of all lanes up to each: four steps of doubling.  Lanes that follow each other are one instruction. */
static lanes sum_up(lanes v)
{
    const lanes none = {0};
    v += __builtin_shufflevector(none, v, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30);
    v += __builtin_shufflevector(none, v, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29);
    v += __builtin_shufflevector(none, v, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27);
    v += __builtin_shufflevector(none, v, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23);
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
        lanes sums = sum_up(load(p + i) - middle), v = sums + before;
        memcpy(p + i, &v, sizeof v);
        before += __builtin_shufflevector(sums, sums, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15);
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

void *gale__exr_scratch(void **buffer, size_t *capacity, size_t size)
{
    if (*capacity >= size && *buffer) return *buffer;
    gale__free(*buffer);
    *buffer = gale__alloc(size + 1);
    *capacity = *buffer ? size : 0;
    return *buffer;
}

exr_result_t gale__exr_inflate(exr_decode_pipeline_t *d, const void *from, size_t packed, void *to, size_t size)
{
    size_t made = 0;
#ifdef GALE_HAVE_DEFLATE
    void **tool = d->decoding_user_data;
    if (!*tool) *tool = libdeflate_alloc_decompressor();
    if (!*tool) return EXR_ERR_OUT_OF_MEMORY;
    bool good = libdeflate_zlib_decompress(*tool, from, packed, to, size, &made) == LIBDEFLATE_SUCCESS && made == size;
#else
    const uint8_t *head = from; /* two bytes before the stream, four of a sum after it */
    bool good = packed > 6 && (head[0] & 15) == 8 && !(head[1] & 32) &&
                gale__inflate(head + 2, packed - 2, to, size, &made) == GALE_OK;
    (void)d;
#endif
    return good ? EXR_ERR_SUCCESS : EXR_ERR_CORRUPT_CHUNK;
}

void gale__exr_unpredict(uint8_t *from, uint8_t *to, size_t size)
{
    undo_differences(from, size);
    interleave(from, to, size);
}

/* Runs of OpenEXR's: a negative count is that of bytes as they are, others are one less than repetitions. */
bool gale__exr_unrun(const uint8_t *from, size_t n, uint8_t *to, size_t size)
{
    enum { SHORT = 16 };
    const uint8_t *end = from + n;
    while (from < end) {
        int count = (int8_t)*from++;
        size_t many = count < 0 ? (size_t)-count : (size_t)count + 1;
        if (many > size || (count < 0 ? (size_t)(end - from) < many : from == end)) return false;
        if (many <= SHORT && size >= SHORT && end - from >= SHORT) { /* most are short: no calls */
            if (count < 0) memcpy(to, from, SHORT), from += many;
            else memset(to, *from++, SHORT);
        } else if (count < 0) memcpy(to, from, many), from += many;
        else memset(to, *from++, many);
        to += many, size -= many;
    }
    return !size;
}

static exr_result_t unzip(exr_decode_pipeline_t *d)
{
    size_t packed = (size_t)d->chunk.packed_size, size = (size_t)d->chunk.unpacked_size;
    void *room = gale__exr_scratch(&d->scratch_buffer_1, &d->scratch_alloc_size_1, size);
    if (!room) return EXR_ERR_OUT_OF_MEMORY;
    exr_result_t e = gale__exr_inflate(d, d->packed_buffer, packed, room, size);
    if (e == EXR_ERR_SUCCESS) gale__exr_unpredict(room, d->unpacked_buffer, size);
    return e;
}

static exr_result_t unrle(exr_decode_pipeline_t *d)
{
    size_t size = (size_t)d->chunk.unpacked_size;
    void *room = gale__exr_scratch(&d->scratch_buffer_1, &d->scratch_alloc_size_1, size);
    if (!room) return EXR_ERR_OUT_OF_MEMORY;
    if (!gale__exr_unrun(d->packed_buffer, (size_t)d->chunk.packed_size, room, size)) return EXR_ERR_CORRUPT_CHUNK;
    gale__exr_unpredict(room, d->unpacked_buffer, size);
    return EXR_ERR_SUCCESS;
}

/* A chunk that packing would have made larger is stored as it is. */
static exr_result_t unpack(exr_decode_pipeline_t *d, gale__exr_unpack *how)
{
    if (!d->chunk.unpacked_size) return EXR_ERR_SUCCESS;
    if (!d->chunk.packed_size) return EXR_ERR_CORRUPT_CHUNK;
    if (d->chunk.packed_size != d->chunk.unpacked_size) return how(d);
    if (d->unpacked_buffer != d->packed_buffer)
        memcpy(d->unpacked_buffer, d->packed_buffer, (size_t)d->chunk.unpacked_size);
    return EXR_ERR_SUCCESS;
}
static exr_result_t unpack_zip(exr_decode_pipeline_t *d) { return unpack(d, unzip); }
static exr_result_t unpack_rle(exr_decode_pipeline_t *d) { return unpack(d, unrle); }
static exr_result_t unpack_pxr24(exr_decode_pipeline_t *d) { return unpack(d, gale__exr_unpxr24); }
static exr_result_t unpack_b44(exr_decode_pipeline_t *d) { return unpack(d, gale__exr_unb44); }
static exr_result_t unpack_piz(exr_decode_pipeline_t *d) { return unpack(d, gale__exr_unpiz); }
static exr_result_t unpack_dwa(exr_decode_pipeline_t *d) { return unpack(d, gale__exr_undwa); }

void gale__exr_tool_free(void **tool)
{
#ifdef GALE_HAVE_DEFLATE
    if (*tool) libdeflate_free_decompressor(*tool);
#endif
    *tool = NULL;
}

gale__exr_unpack *gale__exr_unpack_find(exr_compression_t how)
{
    if (!gale__host_is_little()) return NULL;
    switch (how) {
    case EXR_COMPRESSION_ZIP:
    case EXR_COMPRESSION_ZIPS: return unpack_zip;
    case EXR_COMPRESSION_RLE: return unpack_rle;
    case EXR_COMPRESSION_PXR24: return unpack_pxr24;
    case EXR_COMPRESSION_PIZ: return unpack_piz;
    case EXR_COMPRESSION_B44:
    case EXR_COMPRESSION_B44A: return unpack_b44;
    case EXR_COMPRESSION_DWAA:
    case EXR_COMPRESSION_DWAB: return unpack_dwa;
    default: return NULL;
    }
}
