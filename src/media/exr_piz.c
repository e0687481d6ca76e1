/* PIZ: 16-bit values as numbers of those that occur, wavelets, and OpenEXR's Huffman code.  Here since the C core takes
 * twice the time of OpenEXR's C++ library.  Sums of the common kind are of 16 bits throughout, so that compilers make
 * vectors of them. */
#include "media/exr_pack.h"
#include <string.h>

enum { VALUES = 65536, BITMAP = VALUES / 8, NARROW = 1 << 14 };

/* Values of a chunk: those whose bits are set, and 0.  Gives the number of the last; bytes first .. last are stored. */
static uint32_t list_values(const uint8_t *bits, uint32_t first, uint32_t last, uint16_t *values)
{
    uint32_t n = 1;
    values[0] = 0;
    for (uint32_t i = first; i <= last; i++)
        for (uint32_t k = 0; k < 8; k++)
            if (bits[i - first] >> k & 1 && 8 * i + k) values[n++] = (uint16_t)(8 * i + k);
    memset(values + n, 0, (VALUES - n) * sizeof *values);
    return n - 1;
}

/* An average and a difference to two values, where all are below NARROW; */
static inline void part(uint16_t low, uint16_t high, uint16_t *a, uint16_t *b)
{
    uint16_t sum = (uint16_t)(low + (high & 1) + (uint16_t)((int16_t)high >> 1));
    *a = sum, *b = (uint16_t)(sum - high);
}
/* and where they may be larger. */
static inline void part_wide(uint16_t low, uint16_t high, uint16_t *a, uint16_t *b)
{
    uint16_t second = (uint16_t)(low - (high >> 1));
    *a = (uint16_t)(high + second - 0x8000), *b = second;
}

#define QUAD(part, p)                       \
    uint16_t a, b, c, d;                    \
    part(row[x], below[x], &a, &b);         \
    part(row[x + p], below[x + p], &c, &d); \
    part(a, c, &row[x], &row[x + p]);       \
    part(b, d, &below[x], &below[x + p])

/* Values of neighbours in two rows, p apart; the last loop, of most of the time, has a constant step. */
static void open_rows(uint16_t *restrict row, uint16_t *restrict below, size_t n, size_t p, bool wide)
{
    if (wide)
        for (size_t x = 0; x < n; x += 2 * p) {
            QUAD(part_wide, p);
        }
    else if (p > 1)
        for (size_t x = 0; x < n; x += 2 * p) {
            QUAD(part, p);
        }
    else
        for (size_t x = 0; x < n; x += 2) {
            QUAD(part, 1);
        }
}
#undef QUAD

static void open_pair(uint16_t *a, uint16_t *b, bool wide)
{
    uint16_t low = *a;
    if (wide) part_wide(low, *b, a, b);
    else part(low, *b, a, b);
}

/* One level: values 2 p apart to those p apart, in a plane whose neighbours are `step` apart. */
static void open_level(uint16_t *v, size_t width, size_t height, size_t step, size_t p, bool wide)
{
    size_t n = width * step, far = p * step, ends = width / (2 * p) * 2 * far, y = 0;
    for (; y + 2 * p <= height; y += 2 * p) {
        uint16_t *row = v + y * n, *below = row + p * n;
        open_rows(row, below, ends, far, wide);
        if (width & p) open_pair(&row[ends], &below[ends], wide);
    }
    for (size_t x = 0; height & p && x + 2 * p <= width; x += 2 * p)
        open_pair(&v[y * n + x * step], &v[y * n + x * step + far], wide);
}

/* A channel's 16-bit values; those of 32 bits are two that alternate. */
static void open_plane(uint16_t *v, const exr_coding_channel_info_t *c, bool wide)
{
    size_t width = (size_t)c->width, height = (size_t)c->height, step = (size_t)c->bytes_per_element / 2, p = 1;
    size_t least = width < height ? width : height;
    while (2 * p <= least) p *= 2;
    for (p /= 2; p; p /= 2)
        for (size_t k = 0; k < step; k++) open_level(v + k, width, height, step, p, wide);
}

exr_result_t gale__exr_unpiz(exr_decode_pipeline_t *d)
{
    const uint8_t *from = d->packed_buffer;
    size_t left = (size_t)d->chunk.packed_size, n = (size_t)d->chunk.unpacked_size / 2, used = 0;
    uint16_t *v = gale__exr_scratch(&d->scratch_buffer_1, &d->scratch_alloc_size_1, 2 * n + VALUES * sizeof(uint16_t));
    if (!v) return EXR_ERR_OUT_OF_MEMORY;
    uint16_t *values = v + n;
    if (left < 4) return EXR_ERR_CORRUPT_CHUNK;
    uint32_t first = gale__le16(from), last = gale__le16(from + 2);
    size_t bytes = first <= last ? last - first + 1 : 0;
    if (last >= BITMAP || left < 4 + bytes + 4) return EXR_ERR_CORRUPT_CHUNK;
    bool wide = list_values(from + 4, bytes ? first : 1, bytes ? last : 0, values) >= NARROW;
    from += 4 + bytes, left -= 4 + bytes + 4;
    if (gale__le32(from) > left) return EXR_ERR_CORRUPT_CHUNK;
    exr_result_t e = gale__exr_huffman(from + 4, gale__le32(from), v, n);
    for (int i = 0; e == EXR_ERR_SUCCESS && i < d->channel_count; i++) {
        const exr_coding_channel_info_t *c = &d->channels[i];
        if (c->width < 1 || c->height < 1) continue;
        size_t more = (size_t)c->width * (size_t)c->height * (size_t)c->bytes_per_element / 2;
        if (more > n - used) return EXR_ERR_CORRUPT_CHUNK;
        open_plane(v + used, c, wide);
        used += more;
    }
    for (size_t i = 0; e == EXR_ERR_SUCCESS && i < n; i++) v[i] = values[v[i]];
    return e == EXR_ERR_SUCCESS ? gale__exr_to_lines(d, (const uint8_t *)v) : e;
}
