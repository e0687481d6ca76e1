/* The property tables, expanded once into pages that take two loads per lookup, since every character of every text is
 * looked up.  Equal pages are shared. */
#include "text/unicode.h"
#include "base/thread.h"
#include <string.h>

enum { PAGES_MOST = 256 };
uint8_t gale__unicode_index[0x110000 >> 8];
uint16_t gale__unicode_pages[PAGES_MOST][256];
static gale__once once;

typedef struct row {
    uint32_t first, value;
} row;
static const row bit_rows[] = {
#define X(first, bits) {first, bits},
#include "unicode.def"
#undef X
};
static const row script_rows[] = {
#define X(first, script) {first, script},
#include "script.def"
#undef X
};

static void fill_page(const row **at, uint32_t first, uint16_t *page)
{
    const row *end = bit_rows + sizeof bit_rows / sizeof *bit_rows;
    for (uint32_t i = 0; i < 256; i++) {
        while (*at + 1 < end && (*at)[1].first <= first + i) ++*at;
        page[i] = (uint16_t)(*at)->value;
    }
}

/* The tables have fewer than PAGES_MOST different pages; a test walks over all of them. */
static void fill(void)
{
    const row *at = bit_rows;
    size_t used = 0;
    for (size_t p = 0; p < sizeof gale__unicode_index; p++) {
        size_t same = 0;
        fill_page(&at, (uint32_t)p << 8, gale__unicode_pages[used]);
        while (memcmp(gale__unicode_pages[same], gale__unicode_pages[used], sizeof *gale__unicode_pages)) same++;
        gale__unicode_index[p] = (uint8_t)same;
        if (same == used && used + 1 < PAGES_MOST) used++;
    }
}

void gale__unicode_init(void) { gale__once_run(&once, fill); }

/* The last row that begins at c or before. */
static size_t row_of(const row *rows, size_t n, uint32_t c)
{
    size_t low = 0, high = n;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (rows[middle].first <= c) low = middle;
        else high = middle;
    }
    return low;
}

bool gale__unicode_next_run(uint32_t bits, uint32_t *first, uint32_t *last)
{
    size_t count = sizeof bit_rows / sizeof *bit_rows, i = row_of(bit_rows, count, *first);
    while (i < count && (bit_rows[i].value & bits) != bits) i++;
    if (i == count || *first > 0x10ffff) return false;
    if (bit_rows[i].first > *first) *first = bit_rows[i].first;
    while (i < count && (bit_rows[i].value & bits) == bits) i++;
    *last = i < count ? bit_rows[i].first - 1 : 0x10ffff;
    return true;
}

/* Capitals of Unicode 15 to 17, which base/case.def has not got. */
static const struct {
    uint32_t first, last;
    int32_t step, delta;
} new_capitals[] = {{0x1c89, 0x1c89, 1, 1}, {0xa7cb, 0xa7cb, 1, -42343}, {0xa7cc, 0xa7ce, 2, 1}, {0xa7d2, 0xa7d4, 2, 1},
    {0xa7da, 0xa7da, 1, 1}, {0xa7dc, 0xa7dc, 1, -42561}, {0x10d50, 0x10d65, 1, 32}, {0x16ea0, 0x16eb8, 1, 27}};

uint32_t gale__unicode_lower(uint32_t c)
{
    uint32_t lower = (uint32_t)gale__char_lower((int32_t)c);
    if (lower != c || c < 0x1c89) return lower;
    for (size_t i = 0; i < sizeof new_capitals / sizeof *new_capitals; i++)
        if (c >= new_capitals[i].first && c <= new_capitals[i].last &&
            (c - new_capitals[i].first) % (uint32_t)new_capitals[i].step == 0)
            return (uint32_t)((int32_t)c + new_capitals[i].delta);
    return c;
}

int gale__unicode_script(uint32_t c)
{
    return (int)script_rows[row_of(script_rows, sizeof script_rows / sizeof *script_rows, c)].value;
}

size_t gale__ascii_length(const char *text, size_t size)
{
    size_t i = 0;
    uint64_t word;
    for (; i + 8 <= size; i += 8) {
        memcpy(&word, text + i, 8);
        if (word & 0x8080808080808080u) break;
    }
    while (i < size && !(text[i] & 0x80)) i++;
    return i;
}

size_t gale__utf8_valid_length(const char *text, size_t size)
{
    size_t i = 0;
    while (i < size) {
        i += gale__ascii_length(text + i, size - i);
        if (i == size) break;
        int n = gale__utf8_length(text + i, size - i);
        if (!n) break;
        i += (size_t)n;
    }
    return i;
}

/* Bytes of the longest beginning of a character at p that cannot go on: what one U+FFFD stands for. */
static size_t broken_length(const char *text, size_t left)
{
    const unsigned char *p = (const unsigned char *)text;
    unsigned char low = 0x80, high = 0xbf;
    size_t need = p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 1;
    if (p[0] == 0xe0) low = 0xa0;
    if (p[0] == 0xed) high = 0x9f;
    if (p[0] == 0xf0) low = 0x90;
    if (p[0] == 0xf4) high = 0x8f;
    size_t n = 1;
    for (; n < need && n < left && p[n] >= low && p[n] <= high; n++) low = 0x80, high = 0xbf;
    return n;
}

size_t gale__utf8_repair(const char *text, size_t size, char *out)
{
    char *to = out;
    for (size_t i = 0; i < size;) {
        size_t good = gale__utf8_valid_length(text + i, size - i);
        memcpy(to, text + i, good);
        to += good;
        i += good;
        if (i == size) break;
        to = gale__utf8_put(to, 0xfffd);
        i += broken_length(text + i, size - i);
    }
    return (size_t)(to - out);
}
