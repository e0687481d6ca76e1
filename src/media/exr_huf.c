/* OpenEXR's Huffman code: a table of code lengths for 16-bit symbols, packed in runs, then the bits.  The largest
 * symbol repeats the previous one.  DWA needs it, and the C core does not export its own. */
#include "media/exr_pack.h"
#include <string.h>

enum { SYMBOLS = 65537, LENGTH_MOST = 56, QUICK_BITS = 12, ZERO_SHORT = 59, ZERO_LONG = 63 };

typedef struct bits {
    const uint8_t *at, *end;
    uint64_t held;
    int count;
    uint64_t taken; /* of all bits */
} bits;

/* Bits past the end are zeros; who takes them finds out by `taken`. */
static void fill(bits *b)
{
    while (b->count <= 56) {
        b->held |= (uint64_t)(b->at < b->end ? *b->at : 0) << (56 - b->count);
        b->at++;
        b->count += 8;
    }
}

static uint64_t take(bits *b, int n)
{
    if (b->count < n) fill(b);
    uint64_t v = b->held >> (64 - n);
    b->held <<= n;
    b->count -= n;
    b->taken += (uint64_t)n;
    return v;
}

typedef struct code {
    uint8_t length[SYMBOLS];
    uint32_t sorted[SYMBOLS]; /* symbols by length, then by number */
    uint64_t first[LENGTH_MOST + 1];
    uint32_t count[LENGTH_MOST + 1], start[LENGTH_MOST + 1];
    struct {
        uint32_t symbol;
        uint8_t length; /* 0: longer than the table's bits */
    } quick[1 << QUICK_BITS];
} code;

/* Lengths of symbols low .. high; gives how many bytes they took, 0 where they are damaged. */
static size_t read_lengths(code *c, const uint8_t *data, size_t size, uint32_t low, uint32_t high)
{
    bits b = {.at = data, .end = data + size};
    for (uint32_t i = low; i <= high; i++) {
        uint32_t l = (uint32_t)take(&b, 6), zeros = 0;
        if (l == ZERO_LONG) zeros = (uint32_t)take(&b, 8) + 6;
        else if (l >= ZERO_SHORT) zeros = l - ZERO_SHORT + 2;
        else if (l > LENGTH_MOST) return 0;
        if (b.taken > 8 * (uint64_t)size || zeros > high + 1 - i) return 0;
        if (zeros) i += zeros - 1;
        else c->length[i] = (uint8_t)l;
    }
    return (size_t)((b.taken + 7) / 8);
}

/* Codes of one length follow each other, the shorter ones behind the longer. */
static bool build(code *c)
{
    uint64_t next = 0;
    uint32_t place = 0;
    for (uint32_t i = 0; i < SYMBOLS; i++)
        if (c->length[i]) c->count[c->length[i]]++;
    for (int l = LENGTH_MOST; l > 0; l--) {
        c->first[l] = next;
        next = (next + c->count[l]) >> 1;
        if (c->first[l] + c->count[l] > (uint64_t)1 << l) return false;
    }
    for (int l = 1; l <= LENGTH_MOST; l++) c->start[l] = place, place += c->count[l];
    uint32_t at[LENGTH_MOST + 1];
    memcpy(at, c->start, sizeof at);
    for (uint32_t i = 0; i < SYMBOLS; i++)
        if (c->length[i]) c->sorted[at[c->length[i]]++] = i;
    for (int l = 1; l <= QUICK_BITS; l++)
        for (uint32_t k = 0; k < c->count[l]; k++) {
            uint64_t from = (c->first[l] + k) << (QUICK_BITS - l);
            for (uint64_t e = 0; e < (uint64_t)1 << (QUICK_BITS - l); e++) {
                c->quick[from + e].symbol = c->sorted[c->start[l] + k];
                c->quick[from + e].length = (uint8_t)l;
            }
        }
    return true;
}

/* The next symbol; SYMBOLS where no code fits. */
static uint32_t symbol(const code *c, bits *b)
{
    if (b->count < LENGTH_MOST) fill(b);
    size_t q = (size_t)(b->held >> (64 - QUICK_BITS));
    int l = c->quick[q].length;
    uint32_t found = c->quick[q].symbol;
    for (int k = QUICK_BITS + 1; !l && k <= LENGTH_MOST; k++) {
        uint64_t v = b->held >> (64 - k);
        if (v < c->first[k] || v - c->first[k] >= c->count[k]) continue;
        l = k;
        found = c->sorted[c->start[k] + (uint32_t)(v - c->first[k])];
    }
    if (!l) return SYMBOLS;
    take(b, l);
    return found;
}

static bool decode(const code *c, bits *b, uint64_t total, uint32_t repeat, uint16_t *out, size_t n)
{
    size_t i = 0;
    while (b->taken < total) {
        uint32_t s = symbol(c, b);
        if (s == SYMBOLS || b->taken > total) return false;
        size_t times = s == repeat ? (size_t)take(b, 8) : 1;
        if (times > n - i || (s == repeat && i == 0)) return false;
        uint16_t v = s == repeat ? out[i - 1] : (uint16_t)s;
        while (times--) out[i++] = v;
    }
    return i == n;
}

exr_result_t gale__exr_huffman(const uint8_t *data, size_t size, uint16_t *out, size_t n)
{
    if (!n) return EXR_ERR_SUCCESS;
    if (size < 20) return EXR_ERR_CORRUPT_CHUNK;
    uint32_t low = gale__le32(data), high = gale__le32(data + 4), total = gale__le32(data + 12);
    if (low >= SYMBOLS || high >= SYMBOLS || low > high) return EXR_ERR_CORRUPT_CHUNK;
    code *c = gale__calloc(1, sizeof *c);
    if (!c) return EXR_ERR_OUT_OF_MEMORY;
    size_t table = read_lengths(c, data + 20, size - 20, low, high);
    bool good = table && total <= 8 * (uint64_t)(size - 20 - table) && build(c);
    bits b = {.at = data + 20 + table, .end = data + size};
    good = good && decode(c, &b, total, high, out, n);
    gale__free(c);
    return good ? EXR_ERR_SUCCESS : EXR_ERR_CORRUPT_CHUNK;
}
