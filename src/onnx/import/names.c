/* Names to numbers: open addressing, doubled when half full. */
#include "onnx/import/names.h"
#include "base/hash.h"
#include <string.h>

static size_t slot_of(const gale__names *t, const char *name, size_t size)
{
    size_t at = gale__hash(name, size, 1) & (t->size - 1);
    while (t->slots[at].name && (t->slots[at].size != size || memcmp(t->slots[at].name, name, size)))
        at = (at + 1) & (t->size - 1);
    return at;
}

int32_t gale__names_find(const gale__names *t, const char *name, size_t size)
{
    if (!t->size) return -1;
    size_t at = slot_of(t, name, size);
    return t->slots[at].name ? t->slots[at].value : -1;
}

static gale_status enlarge(gale__names *t)
{
    gale__names wider = {.size = t->size ? 2 * t->size : 64};
    if (!(wider.slots = gale__calloc(wider.size, sizeof *wider.slots))) return GALE_NO_MEMORY;
    for (size_t i = 0; i < t->size; i++)
        if (t->slots[i].name) wider.slots[slot_of(&wider, t->slots[i].name, t->slots[i].size)] = t->slots[i];
    wider.count = t->count;
    gale__free(t->slots);
    *t = wider;
    return GALE_OK;
}

gale_status gale__names_set(gale__names *t, const char *name, size_t size, int32_t value)
{
    if (2 * t->count >= t->size) GALE_TRY(enlarge(t));
    size_t at = slot_of(t, name, size);
    if (!t->slots[at].name) t->count++;
    t->slots[at].name = name;
    t->slots[at].size = size;
    t->slots[at].value = value;
    return GALE_OK;
}

void gale__names_finish(gale__names *t)
{
    gale__free(t->slots);
    *t = (gale__names){0};
}
