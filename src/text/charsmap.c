/* The map comes from a file, so every index is checked: a double array that points outside itself ends there. */
#include "text/charsmap.h"
#include "text/unicode.h"
#include <string.h>

void gale__charsmap_finish(gale__charsmap *m)
{
    gale__free(m->units);
    gale__free(m->texts);
    *m = (gale__charsmap){0};
}

gale_status gale__charsmap_read(gale__charsmap *m, const void *data, size_t size)
{
    const uint8_t *p = data;
    uint32_t bytes = size >= 4 ? p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24 : 0;
    if (size < 4 || bytes > size - 4 || bytes < 4 || bytes % 4)
        return gale__fail(GALE_FORMAT, "precompiled_charsmap: invalid table size");
    size_t texts = size - 4 - bytes;
    if (gale__utf8_valid_length((const char *)p + 4 + bytes, texts) != texts)
        return gale__fail(GALE_FORMAT, "precompiled_charsmap: replacements are not valid UTF-8");
    m->units = gale__alloc(bytes);
    m->texts = gale__alloc(texts + 1);
    if (!m->units || !m->texts) return GALE_NO_MEMORY;
    m->unit_count = bytes / 4;
    m->texts_size = texts;
    for (size_t i = 0; i < m->unit_count; i++) {
        const uint8_t *u = p + 4 + 4 * i;
        m->units[i] = u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
    }
    memcpy(m->texts, p + 4 + bytes, texts);
    m->texts[texts] = 0;
    return GALE_OK;
}

static int digit(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

gale_status gale__charsmap_read_base64(gale__charsmap *m, const char *text, size_t size)
{
    while (size && text[size - 1] == '=') size--;
    uint8_t *bytes = gale__alloc(size / 4 * 3 + 3);
    size_t n = 0;
    uint32_t bits = 0;
    gale_status status = bytes ? GALE_OK : GALE_NO_MEMORY;
    for (size_t i = 0; i < size && status == GALE_OK; i++) {
        int d = digit(text[i]);
        if (d < 0) status = gale__fail(GALE_FORMAT, "precompiled_charsmap is not base64");
        bits = bits << 6 | (uint32_t)(d & 63);
        if (i % 4) bytes[n++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    if (status == GALE_OK) status = gale__charsmap_read(m, bytes, n);
    gale__free(bytes);
    return status;
}

/* --- The double array: a unit has a label, an offset to its children and a bit for a leaf among them. --- */

static size_t offset_of(uint32_t unit) { return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6); }

static const char *replacement(const gale__charsmap *m, size_t leaf, size_t *length)
{
    size_t at = leaf < m->unit_count ? m->units[leaf] & 0x7fffffff : SIZE_MAX;
    if (at > m->texts_size || (at < m->texts_size && (m->texts[at] & 0xc0) == 0x80)) return NULL;
    *length = strlen(m->texts + at);
    return m->texts + at;
}

static const char *search(
    const gale__charsmap *m, const char *text, size_t size, bool longest, size_t *taken, size_t *length)
{
    size_t at = offset_of(m->units[0]), leaf = SIZE_MAX;
    for (size_t i = 0; i < size && text[i]; i++) {
        at ^= (uint8_t)text[i];
        if (at >= m->unit_count) break;
        uint32_t unit = m->units[at];
        if ((unit & 0x800000ff) != (uint8_t)text[i]) break;
        at ^= offset_of(unit);
        if (!(unit >> 8 & 1)) continue;
        leaf = at;
        *taken = i + 1;
        if (!longest) break;
    }
    return leaf == SIZE_MAX ? NULL : replacement(m, leaf, length);
}

const char *gale__charsmap_shortest(const gale__charsmap *m, const char *text, size_t size, size_t *length)
{
    size_t taken;
    return search(m, text, size, false, &taken, length);
}

const char *gale__charsmap_longest(
    const gale__charsmap *m, const char *text, size_t size, size_t *taken, size_t *length)
{
    return search(m, text, size, true, taken, length);
}
