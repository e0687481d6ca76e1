/* Layers of a file: listing and extracting them, and combining files as parts. */
#include "base/mem.h"
#include "base/str.h"
#include "gale/exr.h"
#include <string.h>

/* What stands before the last dot. */
static size_t prefix_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : 0;
}

static gale_exr_layer *find(gale_exr_layer *list, int count, int part, const char *name)
{
    size_t n = prefix_of(name);
    for (int i = 0; i < count; i++)
        if (list[i].part == part && strlen(list[i].name) == n && !memcmp(list[i].name, name, n)) return &list[i];
    return NULL;
}

void gale_exr_layers_free(gale_exr_layer **layers, int count)
{
    if (!layers) return;
    for (int i = 0; *layers && i < count; i++) {
        gale__free((*layers)[i].name);
        gale__free((*layers)[i].channels);
    }
    gale__free(*layers);
    *layers = NULL;
}

static gale_status begin_layer(gale_exr_layer *l, int part, const gale_exr_part *p, const char *name)
{
    gale__str prefix = {0};
    gale__str_add_n(&prefix, name, prefix_of(name));
    *l = (gale_exr_layer){.part = part, .name = gale__strdup(gale__str_text(&prefix))};
    l->channels = gale__calloc((size_t)p->channel_count, sizeof *l->channels);
    gale_status status = l->name && l->channels ? gale__str_check(&prefix) : GALE_NO_MEMORY;
    gale__str_finish(&prefix);
    return status;
}

gale_status gale_exr_layers(const gale_exr *f, gale_exr_layer **out, int *count)
{
    GALE__NEED({"file", f}, {"out", out}, {"count", count});
    gale_exr_layer *list = NULL;
    int n = 0, most = 1;
    gale_status status = GALE_OK;
    for (int i = 0; i < gale_exr_part_count(f); i++) most += gale_exr_part_get(f, i)->channel_count;
    list = gale__calloc((size_t)most, sizeof *list);
    if (!list) return GALE_NO_MEMORY;
    for (int i = 0; i < gale_exr_part_count(f) && status == GALE_OK; i++) {
        const gale_exr_part *p = gale_exr_part_get(f, i);
        for (int k = 0; k < p->channel_count && status == GALE_OK; k++) {
            gale_exr_layer *l = find(list, n, i, p->channels[k].name);
            if (!l) status = begin_layer(l = &list[n++], i, p, p->channels[k].name);
            if (status == GALE_OK) l->channels[l->channel_count++] = &p->channels[k];
        }
    }
    if (status == GALE_OK) *out = list, *count = n;
    else gale_exr_layers_free(&list, n);
    return status;
}

/* Channels as they are, each in memory of its own. */
typedef struct held {
    gale_exr_source *sources;
    gale_exr_target *targets;
    int count;
} held;

static void let_go(held *h)
{
    for (int i = 0; h->targets && i < h->count; i++) gale__free(h->targets[i].data);
    gale__free(h->sources);
    gale__free(h->targets);
    *h = (held){0};
}

/* skip: bytes of the names that are left out. */
static gale_status hold(gale_exr *f, int part, const gale_exr_channel *const *channels, int count, size_t skip, held *h)
{
    int64_t width, height;
    h->count = count;
    h->sources = gale__calloc((size_t)count, sizeof *h->sources);
    h->targets = gale__calloc((size_t)count, sizeof *h->targets);
    if (!h->sources || !h->targets) return GALE_NO_MEMORY;
    for (int i = 0; i < count; i++) {
        const gale_exr_channel *c = channels[i];
        GALE_TRY(gale_exr_channel_size(f, part, 0, 0, c->name, &width, &height));
        void *data = gale__alloc((size_t)(width * height) * gale_type_size(c->type) + 1);
        h->targets[i] = (gale_exr_target){c->name, c->type, data, 0, 0};
        h->sources[i] = (gale_exr_source){c->name + skip, c->type, data, c->x_sampling, c->y_sampling};
        if (!data) return GALE_NO_MEMORY;
    }
    return gale_exr_read(f, part, 0, 0, h->targets, count);
}

gale_status gale_exr_layer_write(gale_exr *f, const gale_exr_layer *l, const char *path, const char *compression)
{
    GALE__NEED({"file", f}, {"layer", l}, {"path", path});
    const gale_exr_part *p = gale_exr_part_get(f, l->part);
    held h = {0};
    size_t skip = *l->name ? strlen(l->name) + 1 : 0;
    gale_status status = hold(f, l->part, l->channels, l->channel_count, skip, &h);
    gale_exr_new_part part = {.data = p->data,
        .display = p->display,
        .compression = compression,
        .channels = h.sources,
        .channel_count = h.count,
        .like = f,
        .like_part = l->part};
    if (status == GALE_OK) status = gale_exr_write(path, &part, 1);
    let_go(&h);
    return status;
}

static gale_status hold_part(gale_exr *f, int part, held *h, gale_exr_new_part *out)
{
    const gale_exr_part *p = gale_exr_part_get(f, part);
    const gale_exr_channel **all = gale__calloc((size_t)p->channel_count, sizeof *all);
    if (!all) return GALE_NO_MEMORY;
    for (int i = 0; i < p->channel_count; i++) all[i] = &p->channels[i];
    gale_status status = hold(f, part, all, p->channel_count, 0, h);
    gale__free(all);
    out->data = p->data, out->display = p->display;
    out->channels = h->sources, out->channel_count = h->count;
    out->like = f, out->like_part = part;
    return status;
}

/* OpenEXR's reader refuses files whose parts differ in these. */
static const char *unshared(const gale_exr_part *a, const gale_exr_part *b)
{
    bool colours = a->has_chromaticities && !memcmp(a->chromaticities, b->chromaticities, sizeof a->chromaticities);
    if (memcmp(&a->display, &b->display, sizeof a->display)) return "display window";
    if (a->pixel_aspect != b->pixel_aspect) return "pixel aspect ratio";
    return b->has_chromaticities && !colours ? "chromaticities" : NULL;
}

gale_status gale_exr_merge(
    gale_exr *const *files, const char *const *names, int count, const char *path, const char *compression)
{
    GALE__NEED({"files", count < 1 || files}, {"names", count < 1 || names}, {"path", path});
    held *h = gale__calloc((size_t)count + 1, sizeof *h);
    gale_exr_new_part *parts = gale__calloc((size_t)count + 1, sizeof *parts);
    gale_status status = h && parts ? GALE_OK : GALE_NO_MEMORY;
    for (int i = 0; i < count && status == GALE_OK; i++) {
        parts[i].name = names[i];
        parts[i].compression = compression;
        for (int k = 0; k < i && status == GALE_OK; k++)
            if (!strcmp(names[i], names[k]))
                status = gale__fail(GALE_INVALID, "EXR: two parts would have the name \"%s\"", names[i]);
        if (status == GALE_OK) status = hold_part(files[i], 0, &h[i], &parts[i]);
        const char *differs =
            status == GALE_OK ? unshared(gale_exr_part_get(files[0], 0), gale_exr_part_get(files[i], 0)) : NULL;
        if (differs)
            status = gale__fail(GALE_INVALID, "EXR: \"%s\" has another %s than \"%s\"; the parts of a file share it",
                names[i], differs, names[0]);
    }
    if (status == GALE_OK) status = gale_exr_write(path, parts, count);
    for (int i = 0; h && i < count; i++) let_go(&h[i]);
    gale__free(h);
    gale__free(parts);
    return status;
}

static gale_status write_all(gale_exr *f, const char *path, const char *compression, int tile)
{
    int count = gale_exr_part_count(f);
    held *h = gale__calloc((size_t)count + 1, sizeof *h);
    gale_exr_new_part *parts = gale__calloc((size_t)count + 1, sizeof *parts);
    gale_status status = h && parts ? GALE_OK : GALE_NO_MEMORY;
    for (int i = 0; i < count && status == GALE_OK; i++) {
        parts[i].name = gale_exr_part_get(f, i)->name;
        parts[i].compression = compression;
        parts[i].tile_width = parts[i].tile_height = tile;
        status = hold_part(f, i, &h[i], &parts[i]);
    }
    if (status == GALE_OK) status = gale_exr_write(path, parts, count);
    for (int i = 0; h && i < count; i++) let_go(&h[i]);
    gale__free(h);
    gale__free(parts);
    return status;
}

gale_status gale_exr_rewrite(gale_exr *f, const char *layer, const char *path, const char *compression, int tile)
{
    GALE__NEED({"file", f}, {"path", path});
    gale_exr_layer *list = NULL;
    int count = 0;
    if (!layer) return write_all(f, path, compression, tile);
    GALE_TRY(gale_exr_layers(f, &list, &count));
    const gale_exr_layer *found = NULL;
    for (int i = 0; i < count && !found; i++)
        if (!strcmp(list[i].name, layer) || !strcmp(gale_exr_part_get(f, list[i].part)->name, layer)) found = &list[i];
    gale_status status =
        found ? gale_exr_layer_write(f, found, path, compression)
              : gale__fail(GALE_NOT_FOUND, "EXR: no part or layer \"%s\"; `gale exr layers` lists them", layer);
    gale_exr_layers_free(&list, count);
    return status;
}
