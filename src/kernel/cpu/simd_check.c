/* Whether a micro-kernel that multiplies several steps of k at once is right on this processor: it is run once on
 * stored panels and compared with plain loops.  Instructions that few processors have are tried before they are
 * trusted, as drivers are. */
#include "base/num.h"
#include "kernel/cpu/simd.h"
#include <math.h>
#include <string.h>

enum { UNITS_MOST = 9, UNITS_FEW = 2, ROWS = 32, LANES = 64, BYTES = 96, PITCH = LANES + 3 };

typedef struct trial {
    const gale__simd_gemm *gemm;
    uint32_t seed;
    union {
        uint8_t bytes[UNITS_MOST * LANES * BYTES];
        uint16_t halves[UNITS_MOST * LANES * BYTES / 2];
    } a, b;
    union {
        int32_t whole[ROWS * PITCH];
        float real[ROWS * PITCH];
    } c, before;
    int32_t offsets[UNITS_MOST];
} trial;

static uint32_t any(trial *t)
{
    t->seed = t->seed * 1664525u + 1013904223u;
    return t->seed >> 8;
}

/* Sixteen-bit numbers as they occur in the kernel: bytes that were widened, or small bf16. */
static void fill(trial *t, int units)
{
    const gale__simd_gemm *g = t->gemm;
    uint8_t type = g->key.a;
    size_t n = (size_t)(units * (g->mr > g->nr ? g->mr : g->nr) * g->key.group);
    for (size_t i = 0; i < n; i++) {
        t->a.bytes[i] = (uint8_t)any(t);
        t->b.bytes[i] = (uint8_t)any(t);
    }
    if (type == GALE_F32) n *= 3; /* shares */
    else if (type != GALE_I16 && type != GALE_BF16) return;
    for (size_t i = 0; i < n; i++) {
        int x = (int)(any(t) % 511) - 255, y = (int)(any(t) % 511) - 255;
        t->a.halves[i] = (uint16_t)(type == GALE_I16 ? x : 0x3f80 + x / 2);
        t->b.halves[i] = (uint16_t)(type == GALE_I16 ? y : 0xbf80 + y / 2);
    }
}

static double element(const void *panel, uint8_t type, int64_t i)
{
    uint16_t half;
    switch (type) {
    case GALE_I8: return ((const int8_t *)panel)[i];
    case GALE_U8: return ((const uint8_t *)panel)[i];
    case GALE_I16: return ((const int16_t *)panel)[i];
    default: memcpy(&half, (const uint16_t *)panel + i, 2); return (double)gale__bf16_to_f32(half);
    }
}

/* Six products of three shares: steps k and k + 16 are side by side, of a row's and of 16 lanes. */
static double sum_of_shares(const trial *t, int row, int lane, int units)
{
    double sum = 0;
    for (int64_t k = 0; k < units * 32; k++)
        for (int64_t x = 0; x < 3; x++)
            for (int64_t y = 0; x + y < 3; y++) {
                int64_t unit = k / 32 * 3, pair = k % 16, side = k % 32 / 16;
                sum +=
                    element(&t->a, GALE_BF16, (unit + x) * 1024 + row * 32 + pair * 2 + side) *
                    element(&t->b, GALE_BF16, (unit + y) * 1024 + lane / 16 * 512 + pair * 32 + lane % 16 * 2 + side);
            }
    return sum;
}

static double sum_of(const trial *t, int row, int lane, int units)
{
    if (t->gemm->key.a == GALE_F32) return sum_of_shares(t, row, lane, units);
    const gale__simd_gemm *g = t->gemm;
    int64_t group = g->key.group, side = g->b_group ? g->b_group : group;
    double sum = 0;
    for (int64_t k = 0; k < units * group; k++) {
        int64_t unit = k / group, step = k % group;
        sum += element(&t->a, g->key.a, (unit * g->mr + row) * group + step) *
               element(&t->b, g->key.b, unit * g->nr * group + step / side * g->nr * side + lane * side + step % side);
    }
    return sum;
}

/* Sums that differ, and what was written beside them. */
static int64_t count_wrong(const trial *t, int rows, int units)
{
    bool real = t->gemm->key.sum == GALE_F32;
    int64_t wrong = 0;
    for (int row = 0; row < ROWS; row++)
        for (int lane = 0; lane < PITCH; lane++) {
            int i = row * PITCH + lane;
            double sum = row < rows && lane < t->gemm->nr ? sum_of(t, row, lane, units) : 0;
            if (real) wrong += !(fabs(t->before.real[i] + sum - t->c.real[i]) <= 1e-3 * (1 + fabs(sum)));
            else wrong += (int32_t)(uint32_t)(t->before.whole[i] + (int64_t)sum) != t->c.whole[i];
        }
    return wrong;
}

typedef enum form { TILE, AT, FRESH } form;

static int64_t try_part(trial *t, const gale__simd_part *part, int units, form which)
{
    bool real = t->gemm->key.sum == GALE_F32;
    for (int i = 0; i < ROWS * PITCH; i++) {
        if (real) t->before.real[i] = (float)(any(t) % 100);
        else t->before.whole[i] = (int32_t)any(t);
    }
    t->c = t->before;
    for (int i = 0; i < units; i++) t->offsets[i] = i * t->gemm->nr;
    gale__simd_gemm_open(t->gemm);
    if (which == FRESH) part->fresh(&t->c, PITCH, &t->a, &t->b, (size_t)units);
    else if (which == AT) part->tile_at(&t->c, PITCH, &t->a, &t->b, t->offsets, (size_t)units);
    else part->tile(&t->c, PITCH, &t->a, &t->b, (size_t)units);
    gale__simd_gemm_close(t->gemm);
    for (int i = 0; i < part->rows * PITCH && which == FRESH; i++)
        if (i % PITCH < t->gemm->nr) t->before.whole[i] = 0; /* the bits of 0.0f, too */
    return count_wrong(t, part->rows, units);
}

int64_t gale__simd_gemm_try(const gale__simd_gemm *g, bool thorough)
{
    static trial t; /* too large for a stack; callers take turns */
    int64_t wrong = 0;
    t.gemm = g;
    t.seed = 7;
    fill(&t, thorough ? UNITS_MOST : UNITS_FEW);
    for (int p = 0; p < GALE__SIMD_PARTS && g->part[p].tile; p++) {
        if (!thorough && g->part[p].rows != g->mr) continue;
        for (int units = thorough ? 1 : UNITS_FEW; units <= (thorough ? UNITS_MOST : UNITS_FEW); units += 4) {
            wrong += try_part(&t, &g->part[p], units, TILE);
            if (g->part[p].tile_at) wrong += try_part(&t, &g->part[p], units, AT);
            if (g->part[p].fresh) wrong += try_part(&t, &g->part[p], units, FRESH);
        }
    }
    return wrong;
}
