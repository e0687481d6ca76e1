/* PXR24: samples as differences to their left neighbours, floats without their last 8 bits; in each row first all high
 * bytes, then all second ones ..., deflated.  Here since the C core has zlib, which takes three times as long. */
#include "media/exr_pack.h"
#include <string.h>

static size_t kept_bytes(int type) { return type == EXR_PIXEL_FLOAT ? 3 : type == EXR_PIXEL_HALF ? 2 : 4; }

/* Bytes of all rows before they are deflated. */
static size_t kept_size(const exr_coding_channel_info_t *c, int count, const exr_chunk_info_t *chunk)
{
    size_t sum = 0;
    for (int32_t y = 0; y < chunk->height; y++)
        for (int i = 0; i < count; i++)
            if (gale__exr_has_row(&c[i], chunk, y)) sum += (size_t)c[i].width * kept_bytes(c[i].data_type);
    return sum;
}

static void open_row(const uint8_t *from, uint8_t *to, size_t n, int type)
{
    const uint8_t *second = from + n, *third = from + 2 * n, *last = type == EXR_PIXEL_UINT ? from + 3 * n : NULL;
    uint32_t sum = 0;
    uint16_t half = 0;
    if (type == EXR_PIXEL_HALF)
        for (size_t i = 0; i < n; i++) {
            half = (uint16_t)(half + (from[i] << 8 | second[i]));
            memcpy(to + 2 * i, &half, sizeof half);
        }
    else
        for (size_t i = 0; i < n; i++) {
            sum += (uint32_t)from[i] << 24 | (uint32_t)second[i] << 16 | (uint32_t)third[i] << 8 | (last ? last[i] : 0);
            memcpy(to + 4 * i, &sum, sizeof sum);
        }
}

/* Rounded to 24 bits, which are the upper ones of the result; NaN stays NaN, and no number becomes infinite. */
static uint32_t shortened(uint32_t v)
{
    uint32_t sign = v & 0x80000000, rest = v & 0x7fffffff, up = (rest + (rest & 0x80)) & ~0xffu;
    if (rest > 0x7f800000) return sign | (rest & ~0xffu) | (rest & 0x7fff00 ? 0 : 0x100);
    return sign | (rest < 0x7f800000 && up >= 0x7f800000 ? rest & ~0xffu : up);
}

static void close_row(const uint8_t *from, uint8_t *to, size_t n, int type)
{
    const size_t size = type == EXR_PIXEL_HALF ? 2 : 4, kept = kept_bytes(type);
    uint32_t before = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t v = size == 2 ? (uint32_t)gale__le16(from + 2 * i) << 16 : gale__le32(from + 4 * i);
        if (type == EXR_PIXEL_FLOAT) v = shortened(v);
        for (size_t k = 0; k < kept; k++) to[k * n + i] = (uint8_t)((v - before) >> (24 - 8 * k));
        before = v;
    }
}

exr_result_t gale__exr_unpxr24(exr_decode_pipeline_t *d)
{
    size_t size = kept_size(d->channels, d->channel_count, &d->chunk);
    uint8_t *from = gale__exr_scratch(&d->scratch_buffer_1, &d->scratch_alloc_size_1, size), *to = d->unpacked_buffer,
            *end = to + d->chunk.unpacked_size;
    if (!from) return EXR_ERR_OUT_OF_MEMORY;
    exr_result_t e = gale__exr_inflate(d, d->packed_buffer, (size_t)d->chunk.packed_size, from, size);
    for (int32_t y = 0; y < d->chunk.height && e == EXR_ERR_SUCCESS; y++)
        for (int i = 0; i < d->channel_count; i++) {
            const exr_coding_channel_info_t *c = &d->channels[i];
            if (!gale__exr_has_row(c, &d->chunk, y)) continue;
            size_t n = (size_t)c->width, bytes = n * (c->data_type == EXR_PIXEL_HALF ? 2 : 4);
            if ((size_t)(end - to) < bytes) return EXR_ERR_CORRUPT_CHUNK;
            open_row(from, to, n, c->data_type);
            from += n * kept_bytes(c->data_type), to += bytes;
        }
    return e;
}

exr_result_t gale__exr_pxr24(exr_encode_pipeline_t *e)
{
    const uint8_t *from = e->packed_buffer;
    size_t size = kept_size(e->channels, e->channel_count, &e->chunk);
    uint8_t *room = gale__exr_scratch(&e->scratch_buffer_1, &e->scratch_alloc_size_1, size), *to = room;
    if (!room) return EXR_ERR_OUT_OF_MEMORY;
    for (int32_t y = 0; y < e->chunk.height; y++)
        for (int i = 0; i < e->channel_count; i++) {
            const exr_coding_channel_info_t *c = &e->channels[i];
            if (!gale__exr_has_row(c, &e->chunk, y)) continue;
            size_t n = (size_t)c->width;
            close_row(from, to, n, c->data_type);
            from += n * (c->data_type == EXR_PIXEL_HALF ? 2 : 4), to += n * kept_bytes(c->data_type);
        }
    return gale__exr_deflate(e, room, size);
}
