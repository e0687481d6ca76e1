/* Chunks of rip levels.  The C core (3.1) counts them incorrectly, so they are located here with the offset table
 * after the headers, in which levels are stored row by row. */
#include "media/exr.h"
#include <string.h>

enum { MULTIPLE_PARTS = 0x1000 };

static bool get(const gale_exr *f, uint64_t at, void *to, size_t n)
{
    if (at > f->size || n > f->size - at) return false;
    if (f->data) return gale__picture_memory_get(f->data, f->size, at, to, n) == n;
    return gale__file_map_read(&f->map, at, n, to) == GALE_OK;
}

/* Past a string that ends with a zero; its length. */
static bool skip_text(const gale_exr *f, uint64_t *at, size_t *length)
{
    char c = 1;
    for (*length = 0; *length < 256; ++*length) {
        if (!get(f, (*at)++, &c, 1)) return false;
        if (!c) return true;
    }
    return false;
}

/* Past one header: attributes until a name is empty. */
static bool skip_header(const gale_exr *f, uint64_t *at)
{
    size_t name, type;
    uint8_t size[4];
    for (;;) {
        if (!skip_text(f, at, &name)) return false;
        if (!name) return true;
        if (!skip_text(f, at, &type) || !get(f, *at, size, 4) || gale__le32(size) > f->size) return false;
        *at += 4 + (uint64_t)gale__le32(size);
    }
}

/* Where the part's table of offsets begins. */
bool gale__exr_find_table(const gale_exr *f, int part, bool *many, uint64_t *at)
{
    uint8_t head[8];
    *at = 8;
    if (!get(f, 0, head, 8)) return false;
    *many = gale__le32(head + 4) & MULTIPLE_PARTS;
    for (int i = 0; i < f->count; i++)
        if (!skip_header(f, at)) return false;
    if (*many) ++*at;
    for (int i = 0; i < part; i++) {
        int32_t chunks = 0;
        if (exr_get_chunk_count(f->file, i, &chunks) != EXR_ERR_SUCCESS || chunks < 0) return false;
        *at += 8 * (uint64_t)chunks;
    }
    return true;
}

static uint64_t tiles_along(int64_t extent, int tile)
{
    return ((uint64_t)extent + (uint64_t)tile - 1) / (uint64_t)tile;
}

/* The number of a level's first chunk. */
static bool first_chunk(const gale_exr *f, int part, int lx, int ly, uint64_t *first, uint64_t *across)
{
    const gale_exr_part *p = &f->parts[part];
    *first = 0;
    for (int y = 0; y <= ly; y++)
        for (int x = 0; x < (y < ly ? p->levels_x : lx + 1); x++) {
            int64_t w, h;
            if (gale_exr_level_size(f, part, x, y, &w, &h) != GALE_OK) return false;
            *across = tiles_along(w, p->tile_width);
            if (y < ly || x < lx) *first += *across * tiles_along(h, p->tile_height);
        }
    return true;
}

exr_result_t gale__exr_rip_chunk(const gale_exr *f, int part, int tx, int ty, int lx, int ly, exr_chunk_info_t *out)
{
    const gale_exr_part *p = &f->parts[part];
    uint64_t table, first, across = 0, offset;
    uint8_t bytes[24];
    bool many;
    int64_t w, h, pixel = 0;
    if (!gale__exr_find_table(f, part, &many, &table) || !first_chunk(f, part, lx, ly, &first, &across) ||
        gale_exr_level_size(f, part, lx, ly, &w, &h) != GALE_OK)
        return EXR_ERR_BAD_CHUNK_LEADER;
    uint64_t index = first + (uint64_t)ty * across + (uint64_t)tx;
    if (!get(f, table + 8 * index, bytes, 8)) return EXR_ERR_BAD_CHUNK_LEADER;
    offset = (uint64_t)gale__le32(bytes) | (uint64_t)gale__le32(bytes + 4) << 32;
    if (many) offset += 4;
    if (offset > f->size || !get(f, offset, bytes, 20)) return EXR_ERR_BAD_CHUNK_LEADER;
    const uint32_t said[4] = {(uint32_t)tx, (uint32_t)ty, (uint32_t)lx, (uint32_t)ly};
    for (int i = 0; i < 4; i++)
        if (gale__le32(bytes + 4 * i) != said[i]) return EXR_ERR_BAD_CHUNK_LEADER;
    exr_compression_t how = EXR_COMPRESSION_NONE;
    exr_result_t e = exr_get_compression(f->file, part, &how);
    int64_t wide = w - (int64_t)tx * p->tile_width, high = h - (int64_t)ty * p->tile_height;
    if (wide > p->tile_width) wide = p->tile_width;
    if (high > p->tile_height) high = p->tile_height;
    for (int i = 0; i < p->channel_count; i++) pixel += (int64_t)gale_type_size(p->channels[i].type);
    *out = (exr_chunk_info_t){.idx = (int32_t)index,
        .start_x = tx,
        .start_y = ty,
        .height = (int32_t)high,
        .width = (int32_t)wide,
        .level_x = (uint8_t)lx,
        .level_y = (uint8_t)ly,
        .type = EXR_STORAGE_TILED,
        .compression = (uint8_t)how,
        .data_offset = offset + 20,
        .packed_size = gale__le32(bytes + 16),
        .unpacked_size = (uint64_t)(wide * high * pixel)};
    bool fits = out->packed_size <= f->size - out->data_offset && out->packed_size <= out->unpacked_size && wide > 0 &&
                high > 0;
    return e != EXR_ERR_SUCCESS ? e : fits ? EXR_ERR_SUCCESS : EXR_ERR_BAD_CHUNK_LEADER;
}
