/* Blocks of DWA, written: perceptual values, luma and chroma, the cosine transform, coefficients rounded to the fewest
 * digits that an error allows, and zeros in runs.  The errors are those of OpenEXR at its usual level of 45. */
#include "media/exr_dwa.h"
#include "base/num.h"
#include "base/thread.h"
#include "kernel/cpu/simd.h"
#include <math.h>
#include <string.h>

enum { END_OF_BLOCK = 0xff00 };
#define BASE_ERROR (45.0f / 100000)

const uint8_t gale__dwa_zigzag[64] = {0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52,
    45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

/* JPEG's tables, whose least numbers are 10 and 17. */
static const uint8_t luma[64] = {16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57,
    69, 56, 14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64,
    78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99};
static const uint8_t chroma[64] = {17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99,
    99, 99, 99, 47, 66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99};

static float perceptual_of[65536]; /* of a linear half */
typedef float lanes __attribute__((vector_size(32)));
static float errors[2][64]; /* of luma, of chroma */
static float waves[8][8];   /* [frequency][place] */
static lanes turned[8];     /* [place][frequency] */
static gale__once tables_once;

static void make_tables(void)
{
    const double base = log(pow(2.7182818, 2.2)), pi = acos(-1);
    for (int i = 0; i < 65536; i++) {
        double x = (double)gale__f16_to_f32((uint16_t)i), a = fabs(x), y;
        if ((i & 0x7c00) == 0x7c00 || a == 0) continue;
        y = a <= 1 ? pow(a, 1 / 2.2) : log(a) / base + 1;
        perceptual_of[i] = (float)(x < 0 ? -y : y);
    }
    for (int i = 0; i < 64; i++) {
        errors[0][i] = BASE_ERROR * ((float)luma[i] / 10);
        errors[1][i] = BASE_ERROR * ((float)chroma[i] / 17);
    }
    for (int k = 0; k < 8; k++)
        for (int n = 0; n < 8; n++)
            turned[n][k] = waves[k][n] = (float)((k ? 0.5 : 0.5 * sqrt(0.5)) * cos((2 * n + 1) * k * pi / 16));
}

/* Beyond the edge the picture is its mirror image. */
static int32_t mirrored(int32_t i, int32_t n)
{
    i = i < n ? i : 2 * (n - 1) - i;
    return i < 0 ? 0 : i;
}

static void get_block(const gale__dwa_source *s, int plane, int32_t x, int32_t y, float v[64])
{
    for (int32_t k = 0; k < 8; k++) {
        const uint16_t *row = s->planes[plane] + (size_t)mirrored(y + k, s->height) * (size_t)s->width;
        for (int32_t i = 0; i < 8; i++) {
            uint16_t h = row[mirrored(x + i, s->width)];
            v[8 * k + i] = !s->linear ? perceptual_of[h] : (h & 0x7c00) == 0x7c00 ? 0 : gale__f16_to_f32(h);
        }
    }
}

static void from_rgb(float v[3][64])
{
    for (int i = 0; i < 64; i++) {
        float r = v[0][i], g = v[1][i], b = v[2][i];
        v[0][i] = 0.2126f * r + 0.7152f * g + 0.0722f * b;
        v[1][i] = -0.1146f * r - 0.3854f * g + 0.5f * b;
        v[2][i] = 0.5f * r - 0.4542f * g - 0.0458f * b;
    }
}

/* Eight frequencies at a time, then eight columns. */
static void transform(float v[64])
{
    lanes rows[8] = {0};
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 8; x++) rows[y] += turned[x] * v[8 * y + x];
    for (int w = 0; w < 8; w++) {
        lanes sum = {0};
        for (int y = 0; y < 8; y++) sum += waves[w][y] * rows[y];
        memcpy(v + (size_t)8 * w, &sum, sizeof sum);
    }
}

/* Of all f16 values within `error` of v, the one with the most trailing zero bits; `nearest` is that to v. */
static uint16_t rounded(float v, uint16_t nearest, float error)
{
    uint32_t code = nearest & 0x7fffu;
    v = fabsf(v);
    if (v <= error || !code) return 0;
    for (uint32_t step = 2; step <= 1024; step *= 2) {
        uint32_t near = (code + step / 2) & ~(step - 1), bits = near << 13;
        float value;
        memcpy(&value, &bits, sizeof value);
        if (near >= 0x7c00 || fabsf(value * 0x1p112f - v) > error) break; /* the value of a finite half */
        code = near;
    }
    return (uint16_t)(code | (nearest & 0x8000u));
}

static void put_runs(gale__dwa_source *s, const uint16_t h[64])
{
    for (int i = 1; i < 64;) {
        int run = 0;
        while (i + run < 64 && !h[i + run]) run++;
        if (run < 2) *s->ac++ = h[i++]; /* one zero is as short as its run */
        else if (i + run == 64) {
            *s->ac++ = END_OF_BLOCK;
            return;
        } else {
            *s->ac++ = (uint16_t)(END_OF_BLOCK | run);
            i += run;
        }
    }
}

/* Coefficients of a block; returns the first. */
static uint16_t put_block(gale__dwa_source *s, float v[64], bool is_chroma)
{
    uint16_t h[64], nearest[64];
    transform(v);
    gale__simd_get()->narrow[GALE_F16](nearest, v, NULL, NULL, 64);
    for (int i = 0; i < 64; i++) {
        int at = gale__dwa_zigzag[i];
        h[i] = rounded(v[at], nearest[at], errors[is_chroma][at]);
    }
    put_runs(s, h);
    return h[0];
}

void gale__dwa_close(gale__dwa_source *s, int count)
{
    size_t across = ((size_t)s->width + 7) / 8, blocks = across * (((size_t)s->height + 7) / 8);
    float v[3][64];
    gale__once_run(&tables_once, make_tables);
    for (size_t i = 0; i < blocks; i++) {
        for (int k = 0; k < count; k++) get_block(s, k, (int32_t)(i % across) * 8, (int32_t)(i / across) * 8, v[k]);
        if (count == 3) from_rgb(v);
        for (int k = 0; k < count; k++) s->dc[(size_t)k * blocks + i] = put_block(s, v[k], count == 3 && k);
    }
    s->dc += blocks * (size_t)count;
}
