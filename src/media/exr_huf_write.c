/* OpenEXR's Huffman code, written: lengths of codes in 6 bits each with runs of zeros, then the bits.  One symbol
 * beyond the largest stands for repetitions of the one before. */
#include "media/exr_pack.h"
#include <stdlib.h>
#include <string.h>

enum { SYMBOLS = 65537, LENGTH_MOST = 56, ZERO_SHORT = 59, ZERO_LONG = 63, RUN_MOST = 255, HEAD = 20 };

typedef struct leaf {
    uint64_t often;
    uint32_t symbol;
} leaf;

typedef struct code {
    uint64_t often[SYMBOLS];
    uint64_t codes[SYMBOLS]; /* the length in the lowest 6 bits, the bits above it; 0: none */
    leaf leaves[SYMBOLS];
    uint64_t weight[SYMBOLS]; /* of inner nodes, in the order in which they were made: by weight */
    uint32_t parent[2 * SYMBOLS];
    uint8_t depth[SYMBOLS];
} code;

static int length_of(const code *c, uint32_t symbol) { return (int)(c->codes[symbol] & 63); }
static uint64_t bits_of(const code *c, uint32_t symbol) { return c->codes[symbol] >> 6; }

static int by_frequency(const void *a, const void *b)
{
    const leaf *x = a, *y = b;
    if (x->often != y->often) return x->often < y->often ? -1 : 1;
    return (x->symbol > y->symbol) - (x->symbol < y->symbol);
}

/* The lighter of the next leaf and the next inner node; nodes are numbered from n on. */
static uint32_t lightest(const code *c, uint32_t n, uint32_t *leaf_at, uint32_t *inner_at, uint32_t made)
{
    if (*leaf_at < n && (*inner_at == made || c->leaves[*leaf_at].often <= c->weight[*inner_at])) return (*leaf_at)++;
    return n + (*inner_at)++;
}

static uint64_t weight_of(const code *c, uint32_t n, uint32_t node)
{
    return node < n ? c->leaves[node].often : c->weight[node - n];
}

/* Lengths of all codes; false where one is too long. */
static bool find_lengths(code *c)
{
    uint32_t n = 0, leaf_at = 0, inner_at = 0, made = 0;
    for (uint32_t i = 0; i < SYMBOLS; i++)
        if (c->often[i]) c->leaves[n++] = (leaf){c->often[i], i};
    qsort(c->leaves, n, sizeof *c->leaves, by_frequency);
    while (made + 1 < n) {
        uint32_t a = lightest(c, n, &leaf_at, &inner_at, made), b = lightest(c, n, &leaf_at, &inner_at, made);
        c->parent[a] = c->parent[b] = n + made;
        c->weight[made++] = weight_of(c, n, a) + weight_of(c, n, b);
    }
    for (uint32_t i = made - 1; i-- > 0;) c->depth[i] = (uint8_t)(c->depth[c->parent[n + i] - n] + 1);
    for (uint32_t i = 0; i < n; i++) {
        int length = c->depth[c->parent[i] - n] + 1;
        if (length > LENGTH_MOST) return false;
        c->codes[c->leaves[i].symbol] = (uint64_t)length;
    }
    return true;
}

/* Codes of one length follow each other, the shorter ones behind the longer. */
static void assign_bits(code *c)
{
    uint64_t next[LENGTH_MOST + 1] = {0}, count[LENGTH_MOST + 1] = {0};
    for (uint32_t i = 0; i < SYMBOLS; i++) count[length_of(c, i)]++;
    for (int l = LENGTH_MOST - 1; l > 0; l--) next[l] = (next[l + 1] + count[l + 1]) >> 1;
    for (uint32_t i = 0; i < SYMBOLS; i++) {
        int length = length_of(c, i);
        if (length) c->codes[i] |= next[length]++ << 6;
    }
}

typedef struct sink {
    uint8_t *at, *end;
    uint64_t held, total;
    int count;
    bool full;
} sink;

/* n: 1 to 56, so that they fit with up to 7 that are left. */
static void put(sink *s, uint64_t bits, int n)
{
    s->total += (uint64_t)n;
    s->held = s->held << n | bits;
    s->count += n;
    if (s->end - s->at >= 8) {
        uint64_t word = __builtin_bswap64(s->held << (64 - s->count));
        memcpy(s->at, &word, sizeof word);
        s->at += s->count / 8, s->count %= 8;
    }
    while (s->count >= 8) {
        s->count -= 8;
        if (s->at == s->end) s->full = true;
        else *s->at++ = (uint8_t)(s->held >> s->count);
    }
}

static void flush(sink *s)
{
    uint64_t total = s->total;
    if (s->count) put(s, 0, 8 - s->count);
    s->total = total;
}

static void put_lengths(sink *s, const code *c, uint32_t low, uint32_t high)
{
    for (uint32_t i = low; i <= high; i++) {
        uint32_t zeros = 0;
        while (zeros < 261 && i + zeros <= high && !c->codes[i + zeros]) zeros++;
        if (zeros >= 6) put(s, ZERO_LONG, 6), put(s, zeros - 6, 8);
        else if (zeros >= 2) put(s, ZERO_SHORT + zeros - 2, 6);
        else put(s, (uint64_t)length_of(c, i), 6);
        if (zeros >= 2) i += zeros - 1;
    }
    flush(s);
}

/* A symbol and how often it comes again. */
static void put_run(sink *s, const code *c, uint32_t symbol, int again, uint32_t repeat)
{
    int length = length_of(c, symbol);
    put(s, bits_of(c, symbol), length);
    if (length + length_of(c, repeat) + 8 < length * (again + 1)) {
        put(s, bits_of(c, repeat), length_of(c, repeat));
        put(s, (uint64_t)again, 8);
    } else
        while (again-- > 0) put(s, bits_of(c, symbol), length);
}

static void put_symbols(sink *s, const code *c, const uint16_t *in, size_t n, uint32_t repeat)
{
    for (size_t i = 0; i < n && !s->full;) {
        int again = 0;
        while (again < RUN_MOST && i + (size_t)again + 1 < n && in[i + (size_t)again + 1] == in[i]) again++;
        put_run(s, c, in[i], again, repeat);
        i += (size_t)again + 1;
    }
    flush(s);
}

static void put32(uint8_t *to, uint64_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> 8 * i);
}

static size_t pack(code *c, const uint16_t *in, size_t n, uint8_t *out, size_t room)
{
    uint32_t low = SYMBOLS, high = 0;
    for (size_t i = 0; i < n; i++) {
        c->often[in[i]]++;
        if (in[i] < low) low = in[i];
        if (in[i] > high) high = in[i];
    }
    c->often[++high] = 1; /* the repetition; 65535 is a NaN and does not occur */
    if (room < HEAD || high >= SYMBOLS || !find_lengths(c)) return 0;
    assign_bits(c);
    sink s = {.at = out + HEAD, .end = out + room};
    put_lengths(&s, c, low, high);
    size_t table = (size_t)(s.at - out) - HEAD;
    s.total = 0;
    put_symbols(&s, c, in, n, high);
    put32(out, low), put32(out + 4, high), put32(out + 8, table), put32(out + 12, s.total), put32(out + 16, 0);
    return s.full ? 0 : (size_t)(s.at - out);
}

size_t gale__exr_huffman_pack(const uint16_t *in, size_t n, uint8_t *out, size_t room)
{
    code *c = n ? gale__calloc(1, sizeof *c) : NULL;
    size_t size = c ? pack(c, in, n, out, room) : 0;
    gale__free(c);
    return size;
}
