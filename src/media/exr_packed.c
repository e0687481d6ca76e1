/* ZIP chunks as they are in the file, for a device that inflates them: scan lines or tiles, whose channels all have a
 * sample for each pixel of the picture.  What the device does not look at is checked here: offsets, sizes, the first
 * two bytes of a stream. */
#include "media/exr.h"
#include <string.h>

/* A part of the file that has all chunks, and little else. */
typedef struct span {
    uint64_t first, last, packed;
    int raw;
} span;

enum { CHUNKS_MOST = 1 << 20 }; /* more are tiles of few pixels, which need more space than samples */

/* How the picture is divided. */
typedef struct grid {
    int64_t width, height, across, down; /* of a chunk; chunks */
} grid;

/* The plane of a channel, or -1. */
static int plane_of(const gale__exr_choice *c, const gale_exr_channel *one)
{
    for (int i = 0; i < c->channels; i++)
        if (!strcmp(one->name, c->names[i])) return i;
    return -1;
}

bool gale__exr_packed_suits(const gale_exr *f, const gale__exr_choice *c, const gale__exr_image *i)
{
    const gale_exr_part *p = &f->parts[c->part];
    gale_exr_box box = gale__exr_frame(p);
    bool zip = !strcmp(p->compression, "zip") || !strcmp(p->compression, "zips"),
         flat = p->storage == GALE_EXR_SCANLINE || (p->storage == GALE_EXR_TILED && p->levels != GALE_EXR_RIPMAP);
    if (!zip || !flat || c->chroma || (i->type != GALE_F16 && i->type != GALE_F32) || !gale__host_is_little())
        return false;
    for (int k = 0; k < p->channel_count; k++) {
        const gale_exr_channel *one = &p->channels[k];
        if (one->x_sampling != 1 || one->y_sampling != 1 || (one->type != i->type && plane_of(c, one) >= 0))
            return false;
    }
    uint64_t pixels = f->limits.max_bytes / (4 * (uint64_t)p->channel_count);
    if (pixels > f->limits.max_pixels) pixels = f->limits.max_pixels;
    return !memcmp(&box, &p->data, sizeof box) && (uint64_t)i->width <= pixels / (uint64_t)i->height;
}

static bool divide(gale_exr *f, const gale__exr_image *i, grid *g)
{
    const gale_exr_part *p = &f->parts[i->part];
    int32_t lines = 0;
    *g = (grid){p->tile_width, p->tile_height, 0, 0};
    if (p->storage == GALE_EXR_SCANLINE) {
        if (exr_get_scanlines_per_chunk(f->file, i->part, &lines) != EXR_ERR_SUCCESS) return false;
        *g = (grid){i->width, lines, 0, 0};
    }
    if (g->width < 1 || g->height < 1) return false;
    g->across = (i->width + g->width - 1) / g->width, g->down = (i->height + g->height - 1) / g->height;
    return g->down <= CHUNKS_MOST && g->across <= CHUNKS_MOST / g->down;
}

static bool read_info(gale_exr *f, const gale__exr_image *i, const grid *g, int64_t n, exr_chunk_info_t *info)
{
    const gale_exr_part *p = &f->parts[i->part];
    int column = (int)(n % g->across), row = (int)(n / g->across);
    exr_result_t e = p->storage == GALE_EXR_SCANLINE
                         ? exr_read_scanline_chunk_info(f->file, i->part, (int)(p->data.y0 + row * g->height), info)
                         : exr_read_tile_chunk_info(f->file, i->part, column, row, i->level_x, i->level_y, info);
    return e == EXR_ERR_SUCCESS;
}

/* Files of the format's size limits fit into 32 bits with room to spare, or are left to the host. */
static bool find_chunk(gale_exr *f, const gale__exr_image *i, const grid *g, gale__exr_packed *p, int64_t n, span *s)
{
    exr_chunk_info_t info;
    const int64_t x = n % g->across * g->width, y = n / g->across * g->height,
                  width = i->width - x < g->width ? i->width - x : g->width,
                  rows = i->height - y < g->height ? i->height - y : g->height,
                  size = (int64_t)gale_type_size(i->type) / 2;
    const uint64_t bytes = (uint64_t)(rows * width * p->args.channels) * 2;
    gale__inflate_chunk *to = (gale__inflate_chunk *)(p->table + p->args.channels) + n;
    if (!read_info(f, i, g, n, &info)) return false;
    if (info.unpacked_size != bytes || info.packed_size > bytes || info.packed_size < 8 || info.data_offset > f->size ||
        info.packed_size > f->size - info.data_offset || p->args.space_bytes > INT32_MAX / 2)
        return false;
    *to = (gale__inflate_chunk){.packed = (uint32_t)info.packed_size,
        .size = (uint32_t)bytes,
        .space = (uint32_t)p->args.space_bytes,
        .place = (uint32_t)((y * i->width + x) * size),
        .width = (uint32_t)width,
        .at = (uint32_t)info.data_offset,
        .raw = info.packed_size == bytes};
    p->args.odd = p->args.odd || width % 8;
    p->args.space_bytes += (int64_t)gale__inflate_space(bytes);
    if (!s->packed || info.data_offset < s->first) s->first = info.data_offset;
    if (info.data_offset + info.packed_size > s->last) s->last = info.data_offset + info.packed_size;
    s->packed += info.packed_size;
    s->raw += (int)to->raw;
    return true;
}

/* Where the channels of the file go; to NULL: how many there are, of 16 bits. */
static int64_t map_channels(const gale_exr *f, const gale__exr_choice *c, int64_t plane_samples, uint32_t *to)
{
    const gale_exr_part *p = &f->parts[c->part];
    int64_t n = 0;
    for (int k = 0; k < p->channel_count; k++) {
        int plane = plane_of(c, &p->channels[k]);
        uint32_t at = plane < 0 ? GALE__INFLATE_NOWHERE : (uint32_t)(plane * plane_samples);
        if (to) to[n] = at;
        n++;
        if (p->channels[k].type == GALE_F16) continue;
        if (to) to[n] = plane < 0 ? at : at | GALE__INFLATE_SECOND;
        n++;
    }
    return n;
}

static bool read_span(gale_exr *f, const gale__exr_packed *p, gale__exr_image *i)
{
    size_t n = (size_t)p->args.input_bytes;
    if (n > i->capacity) {
        gale__free(i->data);
        i->data = gale__alloc(n);
        i->capacity = i->data ? n : 0;
    }
    if (!i->data) return false;
    if (f->data) memcpy(i->data, f->data + p->first, n);
    return f->data || gale__file_map_read(&f->map, p->first, n, i->data) == GALE_OK;
}

/* Streams of zlib without a dictionary; their sums are at the end. */
static bool check_streams(const gale__exr_image *i, gale__exr_packed *p)
{
    gale__inflate_chunk *chunks = (gale__inflate_chunk *)(p->table + p->args.channels);
    for (int64_t n = 0; n < p->args.chunks; n++) {
        gale__inflate_chunk *c = &chunks[n];
        const uint8_t *b = (const uint8_t *)i->data + c->at, *sum = b + c->packed - 4;
        bool zlib = (b[0] & 15) == 8 && b[0] >> 4 <= 7 && !(b[1] & 32) && (b[0] * 256 + b[1]) % 31 == 0;
        if (!c->raw && !zlib) return false;
        c->sum = (uint32_t)sum[0] << 24 | (uint32_t)sum[1] << 16 | (uint32_t)sum[2] << 8 | sum[3];
    }
    return true;
}

bool gale__exr_packed_load(gale_exr *f, gale__exr_image *i, gale__exr_packed *p)
{
    bool good = read_span(f, p, i) && check_streams(i, p);
    gale__error_clear();
    return good;
}

bool gale__exr_packed_find(gale_exr *f, const gale__exr_choice *c, const gale__exr_image *i, gale__exr_packed *out)
{
    grid g;
    span s = {0};
    gale__exr_hush();
    if (!gale__exr_packed_suits(f, c, i) || f->size > UINT32_MAX / 2 || !divide(f, i, &g)) return false;
    const int64_t channels = map_channels(f, c, 0, NULL), chunks = g.across * g.down,
                  width = i->width * (int64_t)gale_type_size(i->type) / 2;
    gale__exr_packed p = {.args = {.chunks = chunks, .channels = channels, .width = width, .height = i->height},
        .serial = f->limits.serial};
    if (channels > 1024 || g.width > INT32_MAX / (2 * channels * g.height) || width > INT32_MAX / 4 / i->height)
        return false;
    p.args.chunk_bytes = g.width * g.height * channels * 2;
    p.table = gale__calloc((size_t)channels + (size_t)chunks * (sizeof(gale__inflate_chunk) / 4), sizeof *p.table);
    bool good = p.table != NULL;
    if (good) map_channels(f, c, width * i->height, p.table);
    for (int64_t n = 0; n < chunks && good; n++) good = find_chunk(f, i, &g, &p, n, &s);
    good = good && s.raw <= chunks / 2 && s.last - s.first <= s.packed + s.packed / 2;
    p.first = s.first;
    p.args.input_bytes = (int64_t)(s.last - s.first);
    for (int64_t n = 0; n < chunks && good; n++)
        ((gale__inflate_chunk *)(p.table + channels))[n].at -= (uint32_t)s.first;
    if (good) *out = p;
    else gale__free(p.table);
    return good;
}
