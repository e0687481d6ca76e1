/* Hash tables: adding and growing.  Slots store the hash, so that growing does not need the keys. */
#include "base/hash_table.h"

enum { SIZE_LEAST = 64, PROBES_MOST = 2048 };

static gale_status put(gale__hash_table_slot *slots, size_t size, gale__hash_table_slot slot)
{
    for (size_t i = 0; i < PROBES_MOST; i++) {
        gale__hash_table_slot *at = &slots[(slot.hash + i) & (size - 1)];
        if (at->number) continue;
        *at = slot;
        return GALE_OK;
    }
    return gale__fail(GALE_LIMIT, "more than %d keys collide in a hash table", PROBES_MOST);
}

static gale_status resize(gale__hash_table *t, size_t size)
{
    gale__hash_table_slot *slots = gale__calloc(size, sizeof *slots);
    gale_status status = slots ? GALE_OK : GALE_NO_MEMORY;
    for (size_t i = 0; i < t->size && status == GALE_OK; i++)
        if (t->slots[i].number) status = put(slots, size, t->slots[i]);
    if (status != GALE_OK) {
        gale__free(slots);
        return status;
    }
    gale__free(t->slots);
    t->slots = slots;
    t->size = size;
    return GALE_OK;
}

gale_status gale__hash_table_reserve(gale__hash_table *t, size_t count)
{
    size_t size = t->size ? t->size : SIZE_LEAST;
    while (size / 2 < count) size *= 2;
    return size > t->size ? resize(t, size) : GALE_OK;
}

gale_status gale__hash_table_add(gale__hash_table *t, uint64_t hash, uint32_t number)
{
    GALE_TRY(gale__hash_table_reserve(t, t->count + 1));
    GALE_TRY(put(t->slots, t->size, (gale__hash_table_slot){gale__hash_table_look(hash).hash, number + 1}));
    t->count++;
    return GALE_OK;
}

void gale__hash_table_finish(gale__hash_table *t)
{
    gale__free(t->slots);
    *t = (gale__hash_table){0};
}
