/* UTF-8 and letter case. gale has its own tables so that a model gives the same strings on every system; the C
 * library's results depend on the installed locales. */
#include "base/utf8.h"
#include <string.h>

int gale__utf8_length(const char *text, size_t left)
{
    const unsigned char *p = (const unsigned char *)text;
    int n = p[0] < 0x80                   ? 1
            : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
            : (p[0] & 0xf0) == 0xe0       ? 3
            : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                          : 0;
    if (n == 0 || (size_t)n > left) return 0;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if (n == 3 && ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f))) return 0;
    if (n == 4 && ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))) return 0;
    return n;
}

int32_t gale__utf8_take(const char **p, const char *end)
{
    static const unsigned char mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    const char *at = *p;
    int n = gale__utf8_length(at, (size_t)(end - at));
    *p += n ? n : 1;
    if (!n) return -1;
    int32_t c = (unsigned char)at[0] & mask[n];
    for (int i = 1; i < n; i++) c = c << 6 | ((unsigned char)at[i] & 0x3f);
    return c;
}

char *gale__utf8_put(char *out, uint32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
        return out;
    }
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    *out++ = (char)(lead[more] | c >> (6 * more));
    while (more--) *out++ = (char)(0x80 | (c >> (6 * more) & 0x3f));
    return out;
}

typedef struct case_row {
    int32_t first, last, step, delta;
} case_row;
static const case_row upper_rows[] = {
#define UPPER(...) {__VA_ARGS__},
#include "case.def"
#undef UPPER
};
static const case_row lower_rows[] = {
#define LOWER(...) {__VA_ARGS__},
#include "case.def"
#undef LOWER
};

static int32_t change(const case_row *rows, size_t n, int32_t c)
{
    size_t low = 0, high = n; /* the first row that does not end before c */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (rows[middle].last < c) low = middle + 1;
        else high = middle;
    }
    const case_row *r = rows + low;
    return low < n && c >= r->first && (c - r->first) % r->step == 0 ? c + r->delta : c;
}

int32_t gale__char_upper(int32_t c)
{
    if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
    return change(upper_rows, sizeof upper_rows / sizeof *upper_rows, c);
}

int32_t gale__char_lower(int32_t c)
{
    if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
    return change(lower_rows, sizeof lower_rows / sizeof *lower_rows, c);
}

/* --- Categories. --- */

enum { GALE__LuLl = GALE__CATEGORIES }; /* in turn, a capital first */
static const uint32_t category_rows[] = {
#define X(first, category) (uint32_t)(first) << 8 | GALE__##category,
#include "category.def"
#undef X
};

/* The last row that begins at c or before. */
static size_t category_row(int32_t c)
{
    size_t low = 0, high = sizeof category_rows / sizeof *category_rows;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if ((int32_t)(category_rows[middle] >> 8) <= c) low = middle;
        else high = middle;
    }
    return low;
}

gale__category gale__char_category(int32_t c)
{
    uint32_t row = category_rows[category_row(c)];
    if ((row & 255) != GALE__LuLl) return (gale__category)(row & 255);
    return (c - (int32_t)(row >> 8)) & 1 ? GALE__Ll : GALE__Lu;
}

int32_t gale__char_category_end(int32_t c)
{
    size_t row = category_row(c), count = sizeof category_rows / sizeof *category_rows;
    if ((category_rows[row] & 255) == GALE__LuLl) return c;
    return row + 1 < count ? (int32_t)(category_rows[row + 1] >> 8) - 1 : 0x10ffff;
}

uint32_t gale__category_mask(const char *name, size_t size)
{
    static const char names[] = "CcCfCnCoCsLlLmLoLtLuMcMeMnNdNlNoPcPdPePfPiPoPsScSkSmSoZlZpZs";
    uint32_t mask = 0;
    if (size == 3 && !memcmp(name, "Any", 3)) return (1u << GALE__CATEGORIES) - 1;
    for (int i = 0; i < GALE__CATEGORIES && size >= 1 && size <= 2; i++)
        if (!memcmp(names + 2 * i, name, size)) mask |= 1u << i;
    return mask;
}
