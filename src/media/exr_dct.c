/* Blocks of DWA: coefficients as halves in zigzag order, zeros in runs; the inverse transform in the order of
 * operations that OpenEXR has, so that results differ in the last place at most; luma and chroma to RGB; perceptual to
 * linear. */
#include "media/exr_dwa.h"
#include "base/num.h"
#include "base/thread.h"
#include <math.h>
#include <string.h>

enum { END_OF_BLOCK = 0xff00 };

static const uint8_t zigzag[64] = {0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41,
    34, 27, 20, 13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45,
    38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

static uint16_t linear_of[65536]; /* a half in perceptual terms to one in linear ones */
static gale__once linear_once;

static void make_linear(void)
{
    const float base = (float)pow(2.7182818, 2.2);
    for (int i = 0; i < 65536; i++) {
        float x = gale__f16_to_f32((uint16_t)i), a = fabsf(x), y;
        if ((i & 0x7c00) == 0x7c00 || a == 0) continue;
        y = a <= 1 ? powf(a, 2.2f) : powf(base, a - 1);
        linear_of[i] = gale__f32_to_f16(x < 0 ? -y : y);
    }
}

/* Eight values, `step` apart. */
static void inverse_8(float *v, int step)
{
    const float a = 0.5f * cosf(3.14159f / 4), b = 0.5f * cosf(3.14159f / 16), c = 0.5f * cosf(3.14159f / 8),
                d = 0.5f * cosf(3 * 3.14159f / 16), e = 0.5f * cosf(5 * 3.14159f / 16),
                f = 0.5f * cosf(3 * 3.14159f / 8), g = 0.5f * cosf(7 * 3.14159f / 16);
    float r[8], beta[4], gamma[4];
    for (int i = 0; i < 8; i++) r[i] = v[i * step];
    beta[0] = b * r[1] + d * r[3] + e * r[5] + g * r[7];
    beta[1] = d * r[1] - g * r[3] - b * r[5] - e * r[7];
    beta[2] = e * r[1] - b * r[3] + g * r[5] + d * r[7];
    beta[3] = g * r[1] - e * r[3] + d * r[5] - b * r[7];
    float even = a * (r[0] + r[4]), odd = a * (r[0] - r[4]), first = c * r[2] + f * r[6], second = f * r[2] - c * r[6];
    gamma[0] = even + first, gamma[1] = odd + second, gamma[2] = odd - second, gamma[3] = even - first;
    for (int i = 0; i < 4; i++) {
        v[i * step] = gamma[i] + beta[i];
        v[(7 - i) * step] = gamma[i] - beta[i];
    }
}

/* One block's coefficients, in place; false where the stream ends. */
static bool open_block(gale__dwa_blocks *b, uint16_t dc, float v[64])
{
    memset(v, 0, 64 * sizeof *v);
    v[0] = gale__f16_to_f32(dc);
    bool flat = true;
    for (int i = 1; i < 64;) {
        if (b->ac >= b->ac_end) return false;
        uint16_t s = *b->ac++;
        if (s == END_OF_BLOCK) break;
        if (s >> 8 == 0xff) i += s & 0xff;
        else v[zigzag[i++]] = gale__f16_to_f32(s), flat = false;
    }
    if (flat) {
        float one = v[0] * 3.535536e-01f * 3.535536e-01f;
        for (int i = 0; i < 64; i++) v[i] = one;
        return true;
    }
    for (int y = 0; y < 8; y++) inverse_8(v + 8 * y, 1);
    for (int x = 0; x < 8; x++) inverse_8(v + x, 8);
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
    for (int32_t k = 0; k < 8 && y + k < b->height; k++)
        for (int32_t i = 0; i < 8 && x + i < b->width; i++) {
            uint16_t h = gale__f32_to_f16(v[8 * k + i]);
            b->planes[plane][(size_t)(y + k) * (size_t)b->width + (size_t)(x + i)] = b->linear ? h : linear_of[h];
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
