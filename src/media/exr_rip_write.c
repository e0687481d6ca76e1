/* Writes files with rip levels.  The C core (3.1) counts their chunks incorrectly, so each level is compressed as a
 * separate file, and the chunks are combined here with the header and a new offset table. */
#include "media/exr.h"
#include <string.h>

/* One level as a file, in memory. */
static gale_status pack_level(const gale_exr_new_part *p, int lx, int ly, gale__str *out)
{
    int64_t w = (int64_t)p->data.x1 - p->data.x0 + 1, h = (int64_t)p->data.y1 - p->data.y0 + 1;
    gale_exr_new_part one = *p;
    gale_exr_source *sources = gale__calloc((size_t)p->channel_count, sizeof *sources);
    if (!sources) return GALE_NO_MEMORY;
    for (int i = 0; i < p->channel_count; i++) {
        sources[i] = p->channels[i];
        if (lx || ly) sources[i].data = p->level(p->user, lx, ly, i);
    }
    w = (w + (p->round_up ? ((int64_t)1 << lx) - 1 : 0)) >> lx,
    h = (h + (p->round_up ? ((int64_t)1 << ly) - 1 : 0)) >> ly;
    one.data = one.display = (gale_exr_box){0, 0, (int32_t)(w < 1 ? 0 : w - 1), (int32_t)(h < 1 ? 0 : h - 1)};
    one.levels = GALE_EXR_ONE_LEVEL;
    one.channels = sources;
    one.like = NULL;
    gale_status status = gale__exr_pack(&one, 1, out);
    gale__free(sources);
    return status;
}

static void put64(gale__str *s, uint64_t v)
{
    for (int i = 0; i < 8; i++) gale__str_add_n(s, &(char){(char)(v >> 8 * i)}, 1);
}

/* Appends the level's chunks to `chunks`, and where each is among them to `table`. */
static gale_status take_chunks(const gale__str *file, int lx, int ly, gale__str *table, gale__str *chunks)
{
    gale_exr *f = NULL;
    int32_t count = 0;
    uint64_t at = 0;
    bool many = false;
    const uint8_t *bytes = (const uint8_t *)file->text;
    GALE_TRY(gale_exr_from_memory(bytes, file->length, NULL, &f));
    bool good = exr_get_chunk_count(f->file, 0, &count) == EXR_ERR_SUCCESS && gale__exr_find_table(f, 0, &many, &at) &&
                at + 8 * (uint64_t)count <= file->length;
    for (int32_t i = 0; i < count && good; i++) {
        uint64_t from = (uint64_t)gale__le32(bytes + at + 8 * (uint64_t)i) |
                        (uint64_t)gale__le32(bytes + at + 8 * (uint64_t)i + 4) << 32;
        good = from + 20 <= file->length && from + 20 + gale__le32(bytes + from + 16) <= file->length;
        if (!good) break;
        uint8_t levels[8] = {(uint8_t)lx, 0, 0, 0, (uint8_t)ly};
        put64(table, chunks->length);
        gale__str_add_n(chunks, (const char *)bytes + from, 8);
        gale__str_add_n(chunks, (const char *)levels, 8);
        gale__str_add_n(chunks, (const char *)bytes + from + 16, 4 + gale__le32(bytes + from + 16));
    }
    gale_exr_close(&f);
    return good ? GALE_OK : gale__fail(GALE_FORMAT, "EXR: a level could not be compressed");
}

gale_status gale__exr_pack_rip(const gale_exr_new_part *p, const gale__str *header, gale__str *out)
{
    gale__str table = {0}, chunks = {0};
    int64_t w = (int64_t)p->data.x1 - p->data.x0 + 1, h = (int64_t)p->data.y1 - p->data.y0 + 1;
    int nx = 1, ny = 1;
    int64_t up = p->round_up;
    for (int64_t n = w; n > 1; n = (n + up) >> 1) nx++;
    for (int64_t n = h; n > 1; n = (n + up) >> 1) ny++;
    gale_status status = GALE_OK;
    for (int i = 0; i < nx * ny && status == GALE_OK; i++) {
        gale__str level = {0};
        status = pack_level(p, i % nx, i / nx, &level);
        if (status == GALE_OK) status = take_chunks(&level, i % nx, i / nx, &table, &chunks);
        gale__str_finish(&level);
    }
    gale__str_add_n(out, header->text, header->length);
    for (size_t i = 0; i < table.length && status == GALE_OK; i += 8) {
        const uint8_t *e = (const uint8_t *)table.text + i;
        put64(out, (uint64_t)gale__le32(e) + ((uint64_t)gale__le32(e + 4) << 32) + header->length + table.length);
    }
    if (chunks.length) gale__str_add_n(out, chunks.text, chunks.length);
    if (status == GALE_OK && (table.failed || chunks.failed)) status = GALE_NO_MEMORY;
    gale__str_finish(&table);
    gale__str_finish(&chunks);
    return status == GALE_OK ? gale__str_check(out) : status;
}
