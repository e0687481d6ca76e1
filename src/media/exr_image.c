/* The chosen channels in planes, or as they are packed in the file. */
#include "media/exr_image.h"
#include "media/exr.h"
#include <string.h>

static int64_t box_width(const gale_exr_box *b) { return (int64_t)b->x1 - b->x0 + 1; }
static int64_t box_height(const gale_exr_box *b) { return (int64_t)b->y1 - b->y0 + 1; }

gale_status gale__exr_image_size(gale_exr *f, const char *layer, int64_t *width, int64_t *height)
{
    gale__exr_choice c;
    GALE_TRY(gale__exr_choose(f->file, layer, &c));
    int64_t w, h;
    GALE_TRY(gale_exr_level_size(f, c.part, 0, 0, &w, &h)); /* whether the window is one */
    gale_exr_box box = gale__exr_frame(&f->parts[c.part]);
    *width = box_width(&box);
    *height = box_height(&box);
    return GALE_OK;
}

/* The smallest level that is large enough along an axis. */
static int level_for(int64_t extent, int levels, int64_t least, bool round_up)
{
    int level = 0;
    while (level + 1 < levels && ((extent + (round_up ? ((int64_t)2 << level) - 1 : 0)) >> (level + 1)) >= least)
        level++;
    return level;
}

static void choose_level(const gale_exr_part *p, const gale__exr_wish *wish, gale__exr_image *i)
{
    bool framed = !memcmp(&p->data, &p->display, sizeof p->data);
    if (!framed || wish->least_width < 1 || wish->least_height < 1 || p->levels == GALE_EXR_ONE_LEVEL) return;
    i->level_x = level_for(i->width, p->levels_x, wish->least_width, p->round_up);
    i->level_y = level_for(i->height, p->levels_y, wish->least_height, p->round_up);
    if (p->levels == GALE_EXR_MIPMAP) i->level_x = i->level_y = i->level_x < i->level_y ? i->level_x : i->level_y;
}

static gale_status make_room(const gale_exr *f, gale__exr_image *i, bool clear)
{
    size_t n = 0;
    if (i->width < 1 || i->height < 1 || (uint64_t)i->width > f->limits.max_pixels / (uint64_t)i->height)
        return gale__fail(GALE_LIMIT, "EXR: %lld x %lld pixels exceed the limit of %llu", (long long)i->width,
            (long long)i->height, (unsigned long long)f->limits.max_pixels);
    if (gale__mul_size((size_t)(i->width * i->height), (size_t)i->channels * gale_type_size(i->type), &n) ||
        n > f->limits.max_bytes)
        return gale__fail(
            GALE_LIMIT, "EXR: %lld x %lld pixels exceed the memory limit", (long long)i->width, (long long)i->height);
    if (n > i->capacity) {
        gale__free(i->data);
        i->data = clear ? gale__calloc(n, 1) : gale__alloc(n);
        i->capacity = i->data ? n : 0;
    } else if (clear) memset(i->data, 0, n);
    return i->data ? GALE_OK : GALE_NO_MEMORY;
}

/* All but the pixels; the memory that there is stays. */
static gale_status describe(gale_exr *f, const gale__exr_wish *wish, gale__exr_choice *c, gale__exr_image *image)
{
    GALE_TRY(gale__exr_choose(f->file, wish->layer, c));
    if (wish->no_alpha && c->channels % 2 == 0) c->channels--; /* it is the last one */
    const gale_exr_part *p = &f->parts[c->part];
    gale_exr_box box = gale__exr_frame(p);
    gale__exr_image i = {.width = box_width(&box),
        .height = box_height(&box),
        .channels = c->channels,
        .type = c->type,
        .data = image->data,
        .capacity = image->capacity,
        .part = c->part,
        .has_chromaticities = p->has_chromaticities};
    i.full_width = i.width, i.full_height = i.height;
    memcpy(i.chromaticities, p->chromaticities, sizeof i.chromaticities);
    choose_level(p, wish, &i);
    if (i.level_x || i.level_y) GALE_TRY(gale_exr_level_size(f, c->part, i.level_x, i.level_y, &i.width, &i.height));
    *image = i;
    return GALE_OK;
}

gale_status gale__exr_image_read(gale_exr *f, const gale__exr_wish *wish, gale__exr_image *image)
{
    gale__exr_choice c;
    GALE_TRY(describe(f, wish, &c, image));
    const gale_exr_part *p = &f->parts[c.part];
    gale_exr_box box = gale__exr_frame(p);
    GALE_TRY(make_room(f, image, memcmp(&box, &p->data, sizeof box) != 0));
    size_t size = gale_type_size(c.type), row = size * (size_t)image->width;
    gale__exr_canvas canvas = {c.type, image->data, row * (size_t)image->height, size, row, image->width, image->height,
        (int64_t)p->data.x0 - box.x0, (int64_t)p->data.y0 - box.y0};
    return gale__exr_paint(f, &c, image->level_x, image->level_y, &canvas);
}

gale_status gale__exr_image_describe(gale_exr *f, const gale__exr_wish *wish, gale__exr_image *image, bool *zip)
{
    gale__exr_choice c;
    GALE_TRY(describe(f, wish, &c, image));
    *zip = gale__exr_packed_suits(f, &c, image);
    return GALE_OK;
}

bool gale__exr_image_pack(gale_exr *f, const gale__exr_wish *wish, gale__exr_image *image, gale__exr_packed *out)
{
    gale__exr_choice c;
    bool packed = describe(f, wish, &c, image) == GALE_OK && gale__exr_packed_find(f, &c, image, out);
    gale__error_clear();
    return packed;
}

void gale__exr_image_finish(gale__exr_image *image)
{
    gale__free(image->data);
    image->data = NULL;
    image->capacity = 0;
}
