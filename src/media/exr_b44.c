/* B44: blocks of 4 x 4 halves in 14 bytes, or in 3 if all are equal; other types uncompressed.  OpenEXR's C core (3.1)
 * mixes up the channels if some are not half. */
#include "media/exr_pack.h"
#include "base/num.h"
#include <math.h>
#include <string.h>

enum { FLAT = 13 << 2 };

/* Order of halves as numbers: the sign's bit turned, or all bits. */
static uint16_t ordered(uint32_t v) { return (uint16_t)(v & 0x8000 ? v & 0x7fff : ~v); }

typedef uint16_t eight __attribute__((vector_size(16)));
typedef int16_t eight_signed __attribute__((vector_size(16)));

static uint64_t load(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap64(v);
}

/* Four numbers of 6 bits, the highest first, to 16 bits each, the first lowest. */
static uint64_t spread(uint64_t v)
{
    const uint64_t six = 0x3f0000003f;
    v = (v >> 12 & 0xfff) | (v & 0xfff) << 32;
    return (v >> 6 & six) | (v & six) << 16;
}

/* Values follow each other down the first column, then from each to its right neighbour.  The differences, 32 more
 * than they are, cannot overflow their 16 bits as they are added; they are scaled at the end. */
static void open_block(const uint8_t *b, uint16_t s[16])
{
    const uint64_t head = load(b), tail = load(b + 6);
    uint64_t c0 = spread(head >> 24 & 0x3ffff);
    c0 += c0 << 16;
    c0 += c0 << 32;
    uint64_t c1 = c0 + spread(head & 0xffffff), c2 = c1 + spread(tail >> 24 & 0xffffff),
             c3 = c2 + spread(tail & 0xffffff);
    const uint64_t left[2] = {c0, c1}, right[2] = {c2, c3};
    eight l, r, rows[2];
    memcpy(&l, left, sizeof l);
    memcpy(&r, right, sizeof r);
    eight even = __builtin_shufflevector(l, r, 0, 8, 1, 9, 2, 10, 3, 11),
          odd = __builtin_shufflevector(l, r, 4, 12, 5, 13, 6, 14, 7, 15);
    rows[0] = __builtin_shufflevector(even, odd, 0, 8, 1, 9, 2, 10, 3, 11) - (eight){0, 32, 64, 96, 32, 64, 96, 128};
    rows[1] =
        __builtin_shufflevector(even, odd, 4, 12, 5, 13, 6, 14, 7, 15) - (eight){64, 96, 128, 160, 96, 128, 160, 192};
    for (int i = 0; i < 2; i++) {
        eight v = rows[i] * (uint16_t)(1u << (b[2] >> 2)) + (uint16_t)(head >> 48);
        rows[i] = v ^ ~((eight)((eight_signed)v >> 15) & 0x7fff); /* ordered */
    }
    memcpy(s, rows, sizeof rows);
}

/* Channels that are marked as linear were packed as exp(x / 8). */
static void to_linear(uint16_t s[16])
{
    for (int i = 0; i < 16; i++) {
        float x = gale__f16_to_f32(s[i]);
        s[i] = x > 0 && isfinite(x) ? gale__f32_to_f16((float)(8 * log((double)x))) : 0;
    }
}

/* One channel of the chunk into a plane of it; gives the bytes used, 0 where there are too few. */
static size_t open_plane(const exr_coding_channel_info_t *c, const uint8_t *from, size_t left, uint16_t *plane)
{
    size_t used = 0;
    for (int32_t y = 0; y < c->height; y += 4)
        for (int32_t x = 0; x < c->width; x += 4) {
            uint16_t s[16];
            if (left - used < 3) return 0;
            const uint8_t *b = from + used;
            bool flat = b[2] >= FLAT, whole = y + 4 <= c->height && x + 4 <= c->width;
            used += flat ? 3 : 14;
            if (used > left) return 0;
            if (!flat) open_block(b, s);
            for (int i = 0; flat && i < 16; i++) s[i] = ordered((uint32_t)b[0] << 8 | b[1]);
            if (c->p_linear) to_linear(s);
            for (int32_t k = 0; whole && k < 4; k++) memcpy(plane + (y + k) * c->width + x, s + 4 * k, 8);
            for (int32_t k = 0; !whole && k < 4 && y + k < c->height; k++)
                for (int32_t i = 0; i < 4 && x + i < c->width; i++) plane[(y + k) * c->width + x + i] = s[4 * k + i];
        }
    return used;
}

/* Planes of channels, one after another, to lines of all channels. */
exr_result_t gale__exr_to_lines(exr_decode_pipeline_t *d, const uint8_t *planes)
{
    uint8_t *to = d->unpacked_buffer, *end = to + d->chunk.unpacked_size;
    for (int32_t y = 0; y < d->chunk.height; y++) {
        const uint8_t *plane = planes;
        for (int i = 0; i < d->channel_count; i++) {
            const exr_coding_channel_info_t *c = &d->channels[i];
            size_t row = (size_t)c->width * (size_t)c->bytes_per_element;
            int32_t step = c->y_samples > 1 ? c->y_samples : 1;
            bool here = gale__exr_has_row(c, &d->chunk, y);
            if (here && (size_t)(end - to) < row) return EXR_ERR_CORRUPT_CHUNK;
            if (here) memcpy(to, plane + (size_t)(y / step) * row, row), to += row;
            plane += row * (size_t)(c->height > 0 ? c->height : 0);
        }
    }
    return EXR_ERR_SUCCESS;
}

exr_result_t gale__exr_unb44(exr_decode_pipeline_t *d)
{
    const uint8_t *from = d->packed_buffer;
    size_t left = (size_t)d->chunk.packed_size, all = 0;
    for (int i = 0; i < d->channel_count; i++)
        if (d->channels[i].width > 0 && d->channels[i].height > 0)
            all +=
                (size_t)d->channels[i].width * (size_t)d->channels[i].height * (size_t)d->channels[i].bytes_per_element;
    uint8_t *planes = gale__exr_scratch(&d->scratch_buffer_1, &d->scratch_alloc_size_1, all), *to = planes;
    if (!planes) return EXR_ERR_OUT_OF_MEMORY;
    for (int i = 0; i < d->channel_count; i++) {
        const exr_coding_channel_info_t *c = &d->channels[i];
        if (c->width < 1 || c->height < 1) continue;
        size_t bytes = (size_t)c->width * (size_t)c->height * (size_t)c->bytes_per_element, used = bytes;
        if (c->data_type == EXR_PIXEL_HALF) used = open_plane(c, from, left, (uint16_t *)(void *)to);
        else if (bytes <= left) memcpy(to, from, bytes);
        if (!used || used > left) return EXR_ERR_CORRUPT_CHUNK;
        from += used, left -= used, to += bytes;
    }
    return gale__exr_to_lines(d, planes);
}
