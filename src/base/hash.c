/* Hashes: a fast 64-bit hash by multiplication and folding, and SHA-1 and SHA-256 as specified in FIPS 180-4: two short
 * functions, for which no build should need a cryptography library. */
#include "base/hash.h"
#include <stdio.h>
#include <string.h>

static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 p = (unsigned __int128)a * b;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

uint64_t gale__hash(const void *data, size_t size, uint64_t seed)
{
    const uint64_t k0 = 0x9e3779b97f4a7c15u, k1 = 0xd6e8feb86659fd93u;
    const uint8_t *p = data;
    uint64_t h = fold(seed ^ k0, size ^ k1);
    for (; size >= 16; size -= 16, p += 16) {
        uint64_t a, b;
        memcpy(&a, p, 8);
        memcpy(&b, p + 8, 8);
        h = fold(a ^ k0 ^ h, b ^ k1);
    }
    uint64_t tail[2] = {0, 0};
    if (size) memcpy(tail, p, size);
    h = fold(tail[0] ^ k0 ^ h, tail[1] ^ k1);
    return fold(h ^ k1, k0);
}

static const uint32_t round_constants[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7,
    0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c,
    0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

/* Eight steps leave the state where it was, under other names, so that nothing is moved. */
#define STEP_256(a, b, c, d, e, f, g, h, i)                                                                         \
    (h += (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + (g ^ (e & (f ^ g))) + round_constants[i] + w[i], d += h, \
        h += (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) | (c & (a | b))))

static void add_block_256(uint32_t state[8], const uint8_t *p)
{
    uint32_t w[64], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6],
                    h = state[7];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[i * 4] << 24 | (uint32_t)p[i * 4 + 1] << 16 | (uint32_t)p[i * 4 + 2] << 8 | p[i * 4 + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t x = w[i - 15], y = w[i - 2];
        w[i] =
            w[i - 16] + (rotate(x, 7) ^ rotate(x, 18) ^ x >> 3) + w[i - 7] + (rotate(y, 17) ^ rotate(y, 19) ^ y >> 10);
    }
    for (int i = 0; i < 64; i += 8) {
        STEP_256(a, b, c, d, e, f, g, h, i);
        STEP_256(h, a, b, c, d, e, f, g, i + 1);
        STEP_256(g, h, a, b, c, d, e, f, i + 2);
        STEP_256(f, g, h, a, b, c, d, e, i + 3);
        STEP_256(e, f, g, h, a, b, c, d, i + 4);
        STEP_256(d, e, f, g, h, a, b, c, i + 5);
        STEP_256(c, d, e, f, g, h, a, b, i + 6);
        STEP_256(b, c, d, e, f, g, h, a, i + 7);
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

/* Five steps leave the state where it was, under other names, so that nothing is moved; the message is a ring of 16
 * words. */
#define WORD(i)           \
    ((i) < 16 ? w[(i)&15] \
              : (w[(i)&15] = rotate(w[((i) + 13) & 15] ^ w[((i) + 8) & 15] ^ w[((i) + 2) & 15] ^ w[(i)&15], 31)))
#define STEP(a, b, e, f, k, i) (e += rotate(a, 27) + (f) + (k) + WORD(i), b = rotate(b, 2))
#define FIVE(F, k, i)                      \
    STEP(a, b, e, F(b, c, d), k, i);       \
    STEP(e, a, d, F(a, b, c), k, (i) + 1); \
    STEP(d, e, c, F(e, a, b), k, (i) + 2); \
    STEP(c, d, b, F(d, e, a), k, (i) + 3); \
    STEP(b, c, a, F(c, d, e), k, (i) + 4)
#define TWENTY(F, k, i)   \
    FIVE(F, k, i);        \
    FIVE(F, k, (i) + 5);  \
    FIVE(F, k, (i) + 10); \
    FIVE(F, k, (i) + 15)
#define CHOOSE(b, c, d) (d ^ (b & (c ^ d)))
#define PARITY(b, c, d) (b ^ c ^ d)
#define MOST(b, c, d) ((b & c) | (d & (b | c)))

static void add_block_1(uint32_t state[8], const uint8_t *p)
{
    uint32_t w[16], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[i * 4] << 24 | (uint32_t)p[i * 4 + 1] << 16 | (uint32_t)p[i * 4 + 2] << 8 | p[i * 4 + 3];
    TWENTY(CHOOSE, 0x5a827999, 0);
    TWENTY(PARITY, 0x6ed9eba1, 20);
    TWENTY(MOST, 0x8f1bbcdc, 40);
    TWENTY(PARITY, 0xca62c1d6, 60);
    state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e;
}

void gale__sha256_init(gale__sha *s)
{
    *s = (gale__sha){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
        .bytes = 32,
        .add_block = add_block_256};
}

void gale__sha1_init(gale__sha *s)
{
    *s = (gale__sha){
        .state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}, .bytes = 20, .add_block = add_block_1};
}

void gale__sha_add(gale__sha *s, const void *data, size_t size)
{
    const uint8_t *p = data;
    while (size) {
        size_t used = s->length % 64, n = used || size < 64 ? (64 - used < size ? 64 - used : size) : size - size % 64;
        if (n < 64) {
            memcpy(s->block + used, p, n);
            if (used + n == 64) s->add_block(s->state, s->block);
        } else
            for (size_t at = 0; at < n; at += 64) s->add_block(s->state, p + at); /* in place */
        s->length += n;
        p += n;
        size -= n;
    }
}

void gale__sha_end(gale__sha *s, uint8_t *digest)
{
    uint64_t bits = s->length * 8;
    uint8_t pad[72] = {0x80}, *end = pad + ((s->length % 64 < 56 ? 56 : 120) - s->length % 64);
    for (int i = 0; i < 8; i++) end[i] = (uint8_t)(bits >> (56 - 8 * i));
    gale__sha_add(s, pad, (size_t)(end + 8 - pad));
    for (int i = 0; i < s->bytes; i++) digest[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

void gale__sha_end_hex(gale__sha *s, char *hex)
{
    uint8_t digest[32];
    gale__sha_end(s, digest);
    for (int i = 0; i < s->bytes; i++) snprintf(hex + i * 2, 3, "%02x", digest[i]);
}

void gale__sha256_hex(const void *data, size_t size, char hex[65])
{
    gale__sha s;
    gale__sha256_init(&s);
    gale__sha_add(&s, data, size);
    gale__sha_end_hex(&s, hex);
}

bool gale__hex_read(const char *text, size_t digits, char *hex)
{
    size_t n = strspn(text, "0123456789abcdefABCDEF");
    if (n != digits || text[n]) return false;
    for (size_t i = 0; i <= n; i++) hex[i] = (char)(text[i] >= 'A' && text[i] <= 'F' ? text[i] - 'A' + 'a' : text[i]);
    return true;
}
