/* TZA, the weights of Open Image Denoise, for which there is no library apart from the denoiser itself.  Version 2: two
 * bytes of magic, two of version, where the table is; there, for each tensor, its name, extents, the letters of its
 * axes, its type and its place. */
#include "jobs/exr/tza.h"
#include "base/num.h"
#include <string.h>

enum { MAGIC = 0x41d7, TENSORS_MOST = 4096, NAME_MOST = 256 };

typedef struct cursor {
    const uint8_t *data;
    size_t size, at;
    bool failed;
} cursor;

/* n bytes as a number, the lowest first. */
static uint64_t number(cursor *c, int n)
{
    uint64_t v = 0;
    if (c->failed || (size_t)n > c->size - c->at) return c->failed = true, 0;
    for (int i = 0; i < n; i++) v |= (uint64_t)c->data[c->at++] << 8 * i;
    return v;
}

static const char *name(cursor *c, gale__arena *a)
{
    size_t n = (size_t)number(c, 2);
    if (c->failed || n > NAME_MOST || n > c->size - c->at) return c->failed = true, NULL;
    char *text = gale__arena_alloc(a, n + 1);
    if (text) memcpy(text, c->data + c->at, n);
    c->at += n;
    return text;
}

static gale_status damaged(void)
{
    return gale__fail(
        GALE_FORMAT, "weights: damaged TZA file: its table of tensors is truncated or points outside the file");
}

/* Halves or floats to floats. */
static gale_status read_values(const cursor *c, gale__arena *a, char type, uint64_t at, gale__tza_tensor *t)
{
    uint64_t n = 1;
    size_t size = type == 'h' ? 2 : 4;
    if (type != 'h' && type != 'f')
        return gale__fail(GALE_UNSUPPORTED, "weights: %s has the unsupported type %c", t->name, type);
    for (int i = 0; i < t->rank; i++) {
        if (t->dims[i] < 1 || t->dims[i] > 65536 || n > c->size) return damaged();
        n *= (uint64_t)t->dims[i];
    }
    if (at > c->size || n > (c->size - at) / size) return damaged();
    t->values = gale__arena_alloc(a, (size_t)n * sizeof *t->values);
    if (!t->values) return GALE_NO_MEMORY;
    for (uint64_t i = 0; i < n; i++)
        t->values[i] = (float)gale__load_f64(size == 2 ? GALE_F16 : GALE_F32, c->data + at + i * size);
    return GALE_OK;
}

static gale_status read_tensor(cursor *c, gale__arena *a, gale__tza_tensor *t)
{
    t->name = name(c, a);
    t->rank = (int)number(c, 1);
    if (c->failed || t->rank < 1 || t->rank > 4) return damaged();
    if (!t->name) return GALE_NO_MEMORY;
    for (int i = 0; i < t->rank; i++) t->dims[i] = (int64_t)number(c, 4);
    for (int i = 0; i < t->rank; i++) number(c, 1); /* the axes' letters: they are always in this order */
    char type = (char)number(c, 1);
    uint64_t at = number(c, 8);
    return c->failed ? damaged() : read_values(c, a, type, at, t);
}

gale_status gale__tza_read(const void *data, size_t size, gale__tza *out)
{
    cursor c = {.data = data, .size = size};
    gale__tza t = {0};
    if (number(&c, 2) != MAGIC || number(&c, 1) != 2)
        return gale__fail(
            GALE_FORMAT, "weights: not a TZA file of version 2; use the .tza files of Open Image Denoise");
    number(&c, 1);
    uint64_t table = number(&c, 8);
    if (c.failed || table > size) return damaged();
    c.at = (size_t)table;
    uint64_t count = number(&c, 4);
    if (c.failed || count > TENSORS_MOST) return damaged();
    t.tensors = gale__arena_alloc(&t.arena, ((size_t)count + 1) * sizeof *t.tensors);
    gale_status status = t.tensors ? GALE_OK : GALE_NO_MEMORY;
    for (; t.count < (int)count && status == GALE_OK; t.count++)
        status = read_tensor(&c, &t.arena, &t.tensors[t.count]);
    if (status == GALE_OK) *out = t;
    else gale__tza_finish(&t);
    return status;
}

void gale__tza_finish(gale__tza *t)
{
    gale__arena_finish(&t->arena);
    *t = (gale__tza){0};
}

const gale__tza_tensor *gale__tza_find(const gale__tza *t, const char *wanted)
{
    for (int i = 0; i < t->count; i++)
        if (!strcmp(t->tensors[i].name, wanted)) return &t->tensors[i];
    return NULL;
}
