/* Bytes as an OpenEXR file: described, and every channel of every part and level read under small limits. */
#include "fuzz.h"
#include "base/mem.h"
#include "gale/exr.h"

enum { PIXELS = 1 << 14, LEVELS = 4, CHANNELS = 16 };

static void read_level(gale_exr *f, int part, int x, int y)
{
    const gale_exr_part *p = gale_exr_part_get(f, part);
    gale_exr_target t[CHANNELS];
    int count = 0;
    for (int i = 0; i < p->channel_count && count < CHANNELS; i++) {
        int64_t w, h;
        if (gale_exr_channel_size(f, part, x, y, p->channels[i].name, &w, &h) != GALE_OK || w < 0 || h < 0 ||
            w * h > PIXELS)
            continue;
        gale_type type = i % 2 ? GALE_F32 : p->channels[i].type; /* as it is, and converted */
        t[count++] =
            (gale_exr_target){p->channels[i].name, type, gale__calloc((size_t)(w * h) + 1, gale_type_size(type)), 0, 0};
    }
    if (count) gale_exr_read(f, part, x, y, t, count);
    for (int i = 0; i < count; i++) gale__free(t[i].data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gale_exr *f = NULL;
    gale_exr_limits limits = {.max_pixels = PIXELS, .max_bytes = 1 << 21, .serial = true};
    if (gale_exr_from_memory(data, size, &limits, &f) == GALE_OK) {
        for (int i = 0; i < gale_exr_part_count(f) && i < 4; i++) {
            const gale_exr_part *p = gale_exr_part_get(f, i);
            for (int y = 0; y < p->levels_y && y < LEVELS; y++)
                for (int x = 0; x < p->levels_x && x < LEVELS; x++)
                    if (p->levels == GALE_EXR_RIPMAP || x == y) read_level(f, i, x, y);
        }
    }
    gale_exr_close(&f);
    FUZZ_CHECK(gale__alloc_live() == 0);
    return 0;
}
