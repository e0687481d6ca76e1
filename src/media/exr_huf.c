/* OpenEXR's Huffman code: a table of code lengths for 16-bit symbols, packed in runs, then the bits.  The largest
 * symbol repeats the previous one.  DWA and PIZ need it; the C core does not export its own, which takes twice the
 * time. */
#include "media/exr_pack.h"
#include "base/mem.h"
#include <string.h>

enum { SYMBOLS = 65537, LENGTH_MOST = 56, QUICK_BITS = 13, ZERO_SHORT = 59, ZERO_LONG = 63 };
enum { SEVERAL_BITS = 12, SEVERAL = 3 };

typedef struct bits {
    const uint8_t *at, *end;
    uint64_t held; /* below the first `count` bits: what follows them, or zeros */
    int count;
    int64_t taken; /* of all bits */
} bits;

/* Bits past the end are zeros; who takes them finds out by `taken`. */
static inline void fill(bits *b)
{
    uint64_t next;
    if (b->end - b->at >= 8) {
        memcpy(&next, b->at, 8);
        b->held |= __builtin_bswap64(next) >> b->count;
        b->at += (63 - b->count) >> 3;
        b->count |= 56;
        return;
    }
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
    b->taken += n;
    return v;
}

typedef struct code {
    uint32_t low, high, high_length; /* symbols; of the largest one's code, 0: it has none */
    uint32_t used[SYMBOLS], n_used;  /* symbols with a code, by number: symbol << 8 | length */
    uint32_t sorted[SYMBOLS];        /* symbols by length, then by number */
    uint64_t first[LENGTH_MOST + 1];
    uint32_t count[LENGTH_MOST + 1], start[LENGTH_MOST + 1];
    uint32_t
        quick[1 << QUICK_BITS]; /* symbol << 8 | length; 0: longer than the table's bits, or the one that repeats */
    uint64_t
        several[1 << SEVERAL_BITS]; /* up to three symbols from the lowest bits on, their bits << 48, how many << 56 */
} code;

/* Gives how many bytes they took, 0 where they are damaged. */
static size_t read_lengths(code *c, const uint8_t *data, size_t size)
{
    bits b = {.at = data, .end = data + size};
    const uint32_t high = c->high;
    for (uint32_t i = c->low; i <= high; i++) {
        uint32_t l = (uint32_t)take(&b, 6), zeros = 0;
        if (l == ZERO_LONG) zeros = (uint32_t)take(&b, 8) + 6;
        else if (l >= ZERO_SHORT) zeros = l - ZERO_SHORT + 2;
        else if (l > LENGTH_MOST) return 0;
        if (b.taken > 8 * (int64_t)size || zeros > high + 1 - i) return 0;
        c->high_length = zeros ? 0 : l;
        if (zeros) i += zeros - 1;
        else if (l) c->used[c->n_used++] = i << 8 | l;
    }
    return (size_t)(b.taken + 7) / 8;
}

/* Codes of one length follow each other, the shorter ones behind the longer. */
static bool build(code *c)
{
    uint64_t next = 0;
    uint32_t place = 0;
    for (uint32_t i = 0; i < c->n_used; i++) c->count[c->used[i] & 255]++;
    for (int l = LENGTH_MOST; l > 0; l--) {
        c->first[l] = next;
        next = (next + c->count[l]) >> 1;
        if (c->first[l] + c->count[l] > (uint64_t)1 << l) return false;
    }
    for (int l = 1; l <= LENGTH_MOST; l++) c->start[l] = place, place += c->count[l];
    uint32_t at[LENGTH_MOST + 1];
    memcpy(at, c->start, sizeof at);
    for (uint32_t i = 0; i < c->n_used; i++) c->sorted[at[c->used[i] & 255]++] = c->used[i] >> 8;
    for (int l = 1; l <= QUICK_BITS; l++)
        for (uint32_t k = 0; k < c->count[l]; k++) {
            uint32_t s = c->sorted[c->start[l] + k], entry = s == c->high ? 0 : s << 8 | (uint32_t)l;
            uint64_t from = (c->first[l] + k) << (QUICK_BITS - l);
            for (uint64_t e = 0; e < (uint64_t)1 << (QUICK_BITS - l); e++) c->quick[from + e] = entry;
        }
    return true;
}

/* The next symbol, of any length; SYMBOLS where no code fits. */
static uint32_t symbol(const code *c, bits *b)
{
    if (b->count < LENGTH_MOST) fill(b);
    uint32_t quick = c->quick[b->held >> (64 - QUICK_BITS)], most = c->high_length;
    if (quick) return take(b, (int)(quick & 255)), quick >> 8;
    for (int k = most && most <= QUICK_BITS ? (int)most : QUICK_BITS + 1; k <= LENGTH_MOST; k++) {
        uint64_t v = b->held >> (64 - k);
        if (v < c->first[k] || v - c->first[k] >= c->count[k]) continue;
        take(b, k);
        return c->sorted[c->start[k] + (uint32_t)(v - c->first[k])];
    }
    return SYMBOLS;
}

static void build_several(code *c)
{
    for (uint32_t v = 0; v < 1u << SEVERAL_BITS; v++) {
        uint64_t e = 0, used = 0, count = 0;
        while (count < SEVERAL) {
            uint32_t one = c->quick[(v << used & ((1u << SEVERAL_BITS) - 1)) << (QUICK_BITS - SEVERAL_BITS)];
            if (!one || used + (one & 255) > SEVERAL_BITS) break;
            e |= (uint64_t)(one >> 8) << 16 * count++;
            used += one & 255;
        }
        c->several[v] = count ? e | used << 48 | count << 56 : 0;
    }
}

/* As many as come in short codes, four times for each 56 bits; gives how many. */
static size_t decode_short(const code *c, bits *b, bool several, uint16_t *out, size_t n)
{
    enum { EACH = 4 }; /* QUICK_BITS times that are there after a fill */
    bits s = *b;
    size_t i = 0;
    uint64_t e = 1;
    while (e && n - i > EACH * SEVERAL && s.end - s.at >= 8) {
        fill(&s);
        int before = s.count;
        for (int k = 0; k < EACH && several; k++) {
            e = c->several[s.held >> (64 - SEVERAL_BITS)];
            if (!e) break;
            memcpy(out + i, &e, sizeof e); /* what is too much is written again */
            s.held <<= e >> 48 & 255;
            s.count -= (int)(e >> 48 & 255);
            i += e >> 56;
        }
        for (int k = 0; k < EACH && !several; k++) {
            e = c->quick[s.held >> (64 - QUICK_BITS)];
            if (!e) break;
            s.held <<= e & 255;
            s.count -= (int)(e & 255);
            out[i++] = (uint16_t)(e >> 8);
        }
        s.taken += before - s.count;
    }
    *b = s;
    return i;
}

static bool decode(code *c, bits *b, int64_t total, uint16_t *out, size_t n)
{
    size_t i = 0;
    bool several = gale__host_is_little() && total / 2 < 3 * (int64_t)n;
    if (several) build_several(c);
    while (b->taken < total) {
        i += decode_short(c, b, several, out + i, n - i);
        if (b->taken >= total) break;
        uint32_t s = symbol(c, b);
        if (s == SYMBOLS) return false;
        size_t times = s == c->high ? (size_t)take(b, 8) : 1;
        if (times > n - i || (s == c->high && i == 0)) return false;
        uint16_t v = s == c->high ? out[i - 1] : (uint16_t)s;
        while (times--) out[i++] = v;
    }
    return i == n && b->taken == total;
}

exr_result_t gale__exr_huffman(const uint8_t *data, size_t size, uint16_t *out, size_t n)
{
    if (!n) return EXR_ERR_SUCCESS;
    if (size < 20) return EXR_ERR_CORRUPT_CHUNK;
    uint32_t low = gale__le32(data), high = gale__le32(data + 4), total = gale__le32(data + 12);
    if (low >= SYMBOLS || high >= SYMBOLS || low > high) return EXR_ERR_CORRUPT_CHUNK;
    code *c = gale__calloc(1, sizeof *c);
    if (!c) return EXR_ERR_OUT_OF_MEMORY;
    c->low = low, c->high = high;
    size_t table = read_lengths(c, data + 20, size - 20);
    bool good = table && total <= 8 * (uint64_t)(size - 20 - table) && build(c);
    bits b = {.at = data + 20 + table, .end = data + size};
    good = good && decode(c, &b, total, out, n);
    gale__free(c);
    return good ? EXR_ERR_SUCCESS : EXR_ERR_CORRUPT_CHUNK;
}
