/* A contact sheet. */
#include "media/picture.h"
#include "base/error.h"
#include "gale/exr.h"
#include <math.h>
#include <string.h>

enum { GAP = 8, GROUND = 32, SIDE_MOST = 65535 };

/* A pixel as RGB; alpha lets the ground through. */
static void put(const gale_picture *p, int64_t i, uint8_t rgb[3])
{
    const uint8_t *s = (const uint8_t *)p->data + i * p->channels;
    int alpha = p->channels % 2 == 0 ? s[p->channels - 1] : 255;
    for (int c = 0; c < 3; c++) {
        int v = p->channels > 2 ? s[c] : s[0];
        rgb[c] = (uint8_t)((v * alpha + GROUND * (255 - alpha) + 127) / 255);
    }
}

static void place(gale_picture *sheet, const gale_picture *p, int64_t left, int64_t top, int64_t cell)
{
    int64_t x0 = left + (cell - p->width) / 2, y0 = top + (cell - p->height) / 2;
    for (int64_t y = 0; y < p->height; y++)
        for (int64_t x = 0; x < p->width; x++) {
            int64_t to = (y0 + y) * sheet->width + x0 + x;
            put(p, y * p->width + x, (uint8_t *)sheet->data + 3 * to);
        }
}

gale_status gale_exr_sheet(
    const gale_picture *const *pictures, size_t count, int columns, int64_t cell, gale_picture **out)
{
    GALE__NEED({"pictures", !count || pictures}, {"out", out});
    int64_t across = columns > 0 ? columns : (int64_t)ceil(sqrt((double)(count ? count : 1)));
    int64_t down = ((int64_t)count + across - 1) / across, step = cell + GAP;
    gale_picture *sheet = NULL;
    if (cell < 1 || across * step + GAP > SIDE_MOST || down * step + GAP > SIDE_MOST)
        return gale__fail(GALE_LIMIT,
            "a sheet of %lld x %lld pictures of %lld pixels is too large; use a smaller --size", (long long)across,
            (long long)down, (long long)cell);
    for (size_t i = 0; i < count; i++)
        if (pictures[i]) GALE_TRY(gale__picture_check(pictures[i]));
    for (size_t i = 0; i < count; i++)
        if (pictures[i] && (pictures[i]->type != GALE_U8 || pictures[i]->width > cell || pictures[i]->height > cell))
            return gale__fail(GALE_INVALID, "a picture on a sheet must have 8 bits and fit into its cell");
    GALE_TRY(gale_picture_create(across * step + GAP, (down ? down : 1) * step + GAP, 3, GALE_U8, &sheet));
    memset(sheet->data, GROUND, (size_t)(sheet->width * sheet->height * 3));
    for (size_t i = 0; i < count; i++)
        if (pictures[i])
            place(sheet, pictures[i], GAP + (int64_t)i % across * step, GAP + (int64_t)i / across * step, cell);
    *out = sheet;
    return GALE_OK;
}
