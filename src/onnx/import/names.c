/* Names to numbers. */
#include "onnx/import/names.h"
#include "base/hash.h"
#include <string.h>

static uint64_t hash_of(const char *name, size_t size) { return gale__hash(name, size, 1); }

static int64_t find(const gale__onnx_names *t, const char *name, size_t size)
{
    gale__hash_table_probe probe = gale__hash_table_look(hash_of(name, size));
    for (int64_t i; (i = gale__hash_table_next(&t->table, &probe)) >= 0;)
        if (t->items[i].size == size && !memcmp(t->items[i].name, name, size)) return i;
    return -1;
}

int32_t gale__onnx_names_find(const gale__onnx_names *t, const char *name, size_t size)
{
    int64_t i = find(t, name, size);
    return i < 0 ? -1 : t->items[i].value;
}

gale_status gale__onnx_names_set(gale__onnx_names *t, const char *name, size_t size, int32_t value)
{
    int64_t i = find(t, name, size);
    if (i < 0) {
        i = (int64_t)t->count;
        GALE_TRY(gale__grow((void **)&t->items, &t->capacity, t->count + 1, sizeof *t->items));
        GALE_TRY(gale__hash_table_add(&t->table, hash_of(name, size), (uint32_t)t->count));
        t->count++;
    }
    t->items[i].name = name;
    t->items[i].size = size;
    t->items[i].value = value;
    return GALE_OK;
}

void gale__onnx_names_finish(gale__onnx_names *t)
{
    gale__free(t->items);
    gale__hash_table_finish(&t->table);
    *t = (gale__onnx_names){0};
}
