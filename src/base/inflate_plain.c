/* Inflate for builds without zlib, which still have to read the output of numpy.savez_compressed; other builds use
 * inflate.c. Codes are looked up in tables of 2^15 entries, which every block fills again. Streams are untrusted: every
 * length, distance and code is checked against the available data. */
#include "base/inflate.h"
#include <string.h>

#define MOST_BITS 15
typedef struct codes {
    uint16_t entries[1 << MOST_BITS];
} codes; /* symbol << 4 | length; 0: no such code */
typedef struct stream {
    const uint8_t *at, *end;
    uint64_t bits;
    int count; /* bits at hand */
    uint8_t *out;
    size_t done, size;
    codes *literals, *distances;
} stream;

static gale_status malformed(const char *what) { return gale__fail(GALE_FORMAT, "damaged deflate data: %s", what); }

static void fill(stream *s)
{
    for (; s->count <= 56 && s->at < s->end; s->count += 8) s->bits |= (uint64_t)*s->at++ << s->count;
}

static bool take(stream *s, int n, uint32_t *out)
{
    if (s->count < n) fill(s);
    if (s->count < n) return false;
    *out = (uint32_t)(s->bits & ((1ull << n) - 1));
    s->bits >>= n;
    s->count -= n;
    return true;
}

static bool take_symbol(stream *s, const codes *c, uint32_t *out)
{
    if (s->count < MOST_BITS) fill(s);
    uint16_t entry = c->entries[s->bits & ((1 << MOST_BITS) - 1)];
    int length = entry & 15;
    if (!length || length > s->count) return false;
    s->bits >>= length;
    s->count -= length;
    *out = entry >> 4;
    return true;
}

static uint32_t reversed(uint32_t code, int length)
{
    uint32_t r = 0;
    for (int i = 0; i < length; i++) r |= (code >> i & 1) << (length - 1 - i);
    return r;
}

/* Canonical codes of the given lengths; false if the lengths are oversubscribed. */
static bool make_codes(codes *c, const uint8_t *lengths, int n)
{
    uint32_t count[MOST_BITS + 1] = {0}, next[MOST_BITS + 2] = {0};
    for (int i = 0; i < n; i++) count[lengths[i]]++;
    count[0] = 0;
    for (int i = 1; i <= MOST_BITS; i++) {
        next[i + 1] = (next[i] + count[i]) << 1;
        if (next[i] + count[i] > 1u << i) return false;
    }
    memset(c, 0, sizeof *c);
    for (int i = 0; i < n; i++) {
        int length = lengths[i];
        if (!length) continue;
        for (uint32_t k = reversed(next[length]++, length); k < 1 << MOST_BITS; k += 1u << length)
            c->entries[k] = (uint16_t)(i << 4 | length);
    }
    return true;
}

static gale_status stored_block(stream *s)
{
    uint32_t length, complement;
    s->bits >>= s->count & 7;
    s->count &= ~7;
    if (!take(s, 16, &length) || !take(s, 16, &complement) || length != (complement ^ 0xffff))
        return malformed("invalid length of a stored block");
    for (; length && s->count; length--, s->count -= 8, s->bits >>= 8) {
        if (s->done == s->size) return malformed("longer than declared");
        s->out[s->done++] = (uint8_t)s->bits;
    }
    if (length > (size_t)(s->end - s->at) || length > s->size - s->done)
        return malformed("a stored block is truncated, or longer than declared");
    memcpy(s->out + s->done, s->at, length);
    s->at += length;
    s->done += length;
    return GALE_OK;
}

static void fixed_codes(stream *s)
{
    uint8_t lengths[288];
    for (int i = 0; i < 288; i++) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    make_codes(s->literals, lengths, 288);
    memset(lengths, 5, 30);
    make_codes(s->distances, lengths, 30);
}

/* The lengths of both codes, which are themselves compressed with a third code. */
static gale_status read_lengths(stream *s, uint8_t *lengths, uint32_t n)
{
    for (uint32_t i = 0; i < n;) {
        uint32_t symbol, more = 0;
        if (!take_symbol(s, s->literals, &symbol)) return malformed("invalid code lengths");
        if (symbol < 16) {
            lengths[i++] = (uint8_t)symbol;
            continue;
        }
        if (!take(s, symbol == 16 ? 2 : symbol == 17 ? 3 : 7, &more) || (symbol == 16 && !i))
            return malformed("invalid run of code lengths");
        more += symbol == 18 ? 11 : 3;
        if (more > n - i) return malformed("run of code lengths too long");
        memset(lengths + i, symbol == 16 ? lengths[i - 1] : 0, more);
        i += more;
    }
    return GALE_OK;
}

static gale_status dynamic_codes(stream *s)
{
    static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint8_t lengths[288 + 32] = {0};
    uint32_t literals, distances, n, v;
    if (!take(s, 5, &literals) || !take(s, 5, &distances) || !take(s, 4, &n)) return malformed("truncated");
    literals += 257;
    distances += 1;
    n += 4;
    if (literals > 286 || distances > 30) return malformed("too many codes");
    for (uint32_t i = 0; i < n; i++) {
        if (!take(s, 3, &v)) return malformed("truncated");
        lengths[order[i]] = (uint8_t)v;
    }
    if (!make_codes(s->literals, lengths, 19)) return malformed("invalid code lengths");
    memset(lengths, 0, sizeof lengths);
    GALE_TRY(read_lengths(s, lengths, literals + distances));
    if (!lengths[256] || !make_codes(s->literals, lengths, (int)literals) ||
        !make_codes(s->distances, lengths + literals, (int)distances))
        return malformed("invalid code");
    return GALE_OK;
}

/* Symbols up to the end of the block. */
static gale_status packed_block(stream *s)
{
    static const uint16_t length_base[29] = {3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59,
        67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const uint8_t length_bits[29] = {
        0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    static const uint16_t distance_base[30] = {1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513,
        769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    for (;;) {
        uint32_t symbol, extra, back;
        if (!take_symbol(s, s->literals, &symbol)) return malformed("unknown code, or truncated");
        if (symbol == 256) return GALE_OK;
        if (symbol < 256) {
            if (s->done == s->size) return malformed("longer than declared");
            s->out[s->done++] = (uint8_t)symbol;
            continue;
        }
        if (symbol > 285 || !take(s, length_bits[symbol - 257], &extra)) return malformed("invalid length");
        size_t length = length_base[symbol - 257] + (size_t)extra;
        if (!take_symbol(s, s->distances, &symbol) || symbol > 29 ||
            !take(s, symbol < 2 ? 0 : (int)symbol / 2 - 1, &extra))
            return malformed("invalid distance");
        back = distance_base[symbol] + extra;
        if (back > s->done || length > s->size - s->done) return malformed("distance or length out of bounds");
        for (; length; length--, s->done++) s->out[s->done] = s->out[s->done - back];
    }
}

static gale_status inflate_all(stream *s)
{
    uint32_t last = 0, kind;
    while (!last) {
        if (!take(s, 1, &last) || !take(s, 2, &kind)) return malformed("truncated");
        if (kind == 3) return malformed("unknown block type");
        if (kind == 0) {
            GALE_TRY(stored_block(s));
            continue;
        }
        if (kind == 1) fixed_codes(s);
        else GALE_TRY(dynamic_codes(s));
        GALE_TRY(packed_block(s));
    }
    return s->done == s->size ? GALE_OK : malformed("shorter than declared");
}

gale_status gale__inflate(const void *data, size_t size, void *out, size_t out_size, size_t *used)
{
    codes *tables = gale__alloc(2 * sizeof *tables);
    if (!tables) return GALE_NO_MEMORY;
    stream s = {.at = data,
        .end = (const uint8_t *)data + size,
        .out = out,
        .size = out_size,
        .literals = tables,
        .distances = tables + 1};
    gale_status status = inflate_all(&s);
    if (status == GALE_OK && used) *used = size - (size_t)(s.end - s.at) - (size_t)(s.count / 8);
    gale__free(tables);
    return status;
}

uint32_t gale__crc32(uint32_t crc, const void *data, size_t size)
{
    static const uint32_t nibble[16] = {0, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158,
        0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    const uint8_t *p = data;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc = crc >> 4 ^ nibble[(crc ^ p[i]) & 15];
        crc = crc >> 4 ^ nibble[(crc ^ p[i] >> 4) & 15];
    }
    return ~crc;
}
