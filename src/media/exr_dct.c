/* Blocks of DWA: coefficients as halves in zigzag order, zeros in runs; the inverse transform in the order of
 * operations that OpenEXR has, so that results differ in the last place at most; luma and chroma to RGB; perceptual to
 * linear. */
#include "media/exr_dwa.h"
#include "base/num.h"
#include "base/thread.h"
#include "kernel/cpu/simd.h"
#include <math.h>
#include <string.h>

enum { END_OF_BLOCK = 0xff00 };

static uint16_t linear_of[65536]; /* a half in perceptual terms to one in linear ones */
static uint8_t place_of[64];      /* of coefficients, by columns */
static gale__once linear_once;

static void make_linear(void)
{
    const float base = (float)pow(2.7182818, 2.2);
    for (int i = 0; i < 64; i++) place_of[i] = (uint8_t)(gale__dwa_zigzag[i] % 8 * 8 + gale__dwa_zigzag[i] / 8);
    for (int i = 0; i < 65536; i++) {
        float x = gale__f16_to_f32((uint16_t)i), a = fabsf(x), y;
        if ((i & 0x7c00) == 0x7c00 || a == 0) continue;
        y = a <= 1 ? powf(a, 2.2f) : powf(base, a - 1);
        linear_of[i] = gale__f32_to_f16(x < 0 ? -y : y);
    }
}

typedef float quad __attribute__((vector_size(16)));

/* The transform along one axis, for four lines side by side: v[i] has the i-th value of each. */
static inline void inverse(const quad v[8], quad to[8])
{
    const float a = 0.5f * cosf(3.14159f / 4), b = 0.5f * cosf(3.14159f / 16), c = 0.5f * cosf(3.14159f / 8),
                d = 0.5f * cosf(3 * 3.14159f / 16), e = 0.5f * cosf(5 * 3.14159f / 16),
                f = 0.5f * cosf(3 * 3.14159f / 8), g = 0.5f * cosf(7 * 3.14159f / 16);
    quad beta[4] = {b * v[1] + d * v[3] + e * v[5] + g * v[7], d * v[1] - g * v[3] - b * v[5] - e * v[7],
        e * v[1] - b * v[3] + g * v[5] + d * v[7], g * v[1] - e * v[3] + d * v[5] - b * v[7]};
    quad even = a * (v[0] + v[4]), odd = a * (v[0] - v[4]), first = c * v[2] + f * v[6], second = f * v[2] - c * v[6];
    quad gamma[4] = {even + first, odd + second, odd - second, even - first};
    for (int i = 0; i < 4; i++) {
        to[i] = gamma[i] + beta[i];
        to[7 - i] = gamma[i] - beta[i];
    }
}

static inline void turn(const quad from[4], quad to[4])
{
    quad a = __builtin_shufflevector(from[0], from[1], 0, 4, 1, 5),
         b = __builtin_shufflevector(from[0], from[1], 2, 6, 3, 7),
         c = __builtin_shufflevector(from[2], from[3], 0, 4, 1, 5),
         d = __builtin_shufflevector(from[2], from[3], 2, 6, 3, 7);
    to[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5), to[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    to[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5), to[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

/* Converts coefficients stored by columns to pixels stored by rows. */
static void transform(float v[64])
{
    quad in[8], half[8], lines[2][8];
    for (int h = 0; h < 2; h++) { /* along x, for four rows at once */
        for (int x = 0; x < 8; x++) memcpy(&in[x], v + 8 * x + 4 * h, sizeof *in);
        inverse(in, half);
        turn(half, &lines[0][4 * h]); /* lines[k][y]: columns 4 k to 4 k + 3 */
        turn(half + 4, &lines[1][4 * h]);
    }
    for (int k = 0; k < 2; k++) {
        inverse(lines[k], half);
        for (int y = 0; y < 8; y++) memcpy(v + 8 * y + 4 * k, &half[y], sizeof *half);
    }
}

/* One block's pixels; false where the stream ends. */
static bool open_block(gale__dwa_blocks *b, uint16_t dc, float v[64])
{
    uint16_t h[64] = {dc}, last[64];
    const size_t left = (size_t)(b->ac_end - b->ac);
    const uint16_t *ac = b->ac, *from = ac;
    if (left < 64) {
        for (size_t i = 0; i < 64; i++) last[i] = i < left ? ac[i] : END_OF_BLOCK;
        ac = from = last;
    }
    uint32_t runs = ~0u; /* alone */
    for (uint32_t i = 1; i < 64;) {
        uint16_t s = *ac++;
        uint32_t run = 0u - (s >= END_OF_BLOCK); /* which of both comes is not predictable: no branches */
        h[place_of[i]] = (uint16_t)(s & ~run);
        i += 1 + ((uint8_t)(s - 1) & run); /* the end is a run of 256 */
        runs &= run;
    }
    if ((size_t)(ac - from) > left) return false;
    b->ac += ac - from;
    gale__simd_get()->widen[GALE_F16](v, h, NULL, NULL, runs ? 1 : 64);
    if (!runs) return transform(v), true;
    float one = v[0] * 3.535536e-01f * 3.535536e-01f;
    for (int i = 0; i < 64; i++) v[i] = one;
    return true;
}

static void to_rgb(float v[3][64])
{
    for (int i = 0; i < 64; i++) {
        float y = v[0][i], cb = v[1][i], cr = v[2][i];
        v[0][i] = y + 1.5747f * cr;
        v[1][i] = y - 0.1873f * cb - 0.4682f * cr;
        v[2][i] = y + 1.8556f * cb;
    }
}

static void put_block(const gale__dwa_blocks *b, int plane, int32_t x, int32_t y, const float v[64])
{
    uint16_t h[64];
    int32_t wide = b->width - x < 8 ? b->width - x : 8, high = b->height - y < 8 ? b->height - y : 8;
    gale__simd_get()->narrow[GALE_F16](h, v, NULL, NULL, 64);
    for (int i = 0; i < 64 && !b->linear; i++) h[i] = linear_of[h[i]];
    uint16_t *to = b->planes[plane] + (size_t)y * (size_t)b->width + (size_t)x;
    for (int32_t k = 0; k < high; k++, to += b->width) {
        if (wide == 8) memcpy(to, h + 8 * k, 8 * sizeof *h);
        else memcpy(to, h + 8 * k, (size_t)wide * sizeof *h);
    }
}

bool gale__dwa_open(gale__dwa_blocks *b, int count)
{
    size_t across = ((size_t)b->width + 7) / 8, blocks = across * (((size_t)b->height + 7) / 8);
    float v[3][64];
    gale__once_run(&linear_once, make_linear);
    if ((size_t)(b->dc_end - b->dc) < blocks * (size_t)count) return false;
    for (size_t i = 0; i < blocks; i++) {
        for (int k = 0; k < count; k++)
            if (!open_block(b, b->dc[(size_t)k * blocks + i], v[k])) return false;
        if (count == 3) to_rgb(v);
        for (int k = 0; k < count; k++) put_block(b, k, (int32_t)(i % across) * 8, (int32_t)(i / across) * 8, v[k]);
    }
    b->dc += blocks * (size_t)count;
    return true;
}
