/* Every micro-kernel of this processor that multiplies several steps of k at once, by itself: sums of rows in part and
 * in whole, panels as they lie, held against plain loops.  What is tested depends on the processor, and is printed. */
#include "kernel/cpu/simd.h"
#include "test.h"
#include "base/cpu.h"
#include "base/num.h"
#include <math.h>

enum { UNITS = 9, ROWS = 32, LANES = 64, BYTES = 64, PITCH = LANES + 3 };

static union {
    uint8_t bytes[UNITS * LANES * BYTES];
    uint16_t halves[UNITS * LANES * BYTES / 2];
} a, b;
static union {
    int32_t whole[ROWS * PITCH];
    float real[ROWS * PITCH];
} c, before;
static int32_t offsets[UNITS];

static uint32_t seed = 7;
static uint32_t any(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

/* Sixteen-bit numbers as the kernel may meet them: bytes that were widened, or small bf16. */
static void fill(uint8_t type)
{
    for (size_t i = 0; i < sizeof a; i++) a.bytes[i] = (uint8_t)any(), b.bytes[i] = (uint8_t)any();
    if (type != GALE_I16 && type != GALE_BF16) return;
    for (size_t i = 0; i < sizeof a / 2; i++) {
        a.halves[i] = (uint16_t)(type == GALE_I16 ? (int)(any() % 511) - 255 : (int)(0x3f00 + any() % 256));
        b.halves[i] = (uint16_t)(type == GALE_I16 ? (int)(any() % 511) - 255 : (int)(0xbf00 + any() % 256));
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

static double sum_of(const gale__simd_gemm *g, int row, int lane, int units)
{
    int64_t group = g->key.group, side = g->b_group ? g->b_group : group;
    double sum = 0;
    for (int64_t k = 0; k < units * group; k++) {
        int64_t unit = k / group, step = k % group;
        sum += element(&a, g->key.a, (unit * g->mr + row) * group + step) *
               element(&b, g->key.b, unit * g->nr * group + step / side * g->nr * side + lane * side + step % side);
    }
    return sum;
}

static void check_part(const gale__simd_gemm *g, const gale__simd_part *part, int units, bool at)
{
    bool real = g->key.sum == GALE_F32;
    int64_t wrong = 0;
    for (int i = 0; i < ROWS * PITCH; i++) {
        if (real) before.real[i] = (float)(any() % 100);
        else before.whole[i] = (int32_t)any();
    }
    c = before;
    for (int i = 0; i < units; i++) offsets[i] = i * g->nr;
    if (at) part->tile_at(&c, PITCH, &a, &b, offsets, (size_t)units);
    else part->tile(&c, PITCH, &a, &b, (size_t)units);
    for (int row = 0; row < ROWS; row++)
        for (int lane = 0; lane < PITCH; lane++) {
            int i = row * PITCH + lane;
            bool inside = row < part->rows && lane < g->nr;
            double sum = inside ? sum_of(g, row, lane, units) : 0;
            if (real) wrong += fabs(before.real[i] + sum - c.real[i]) > 1e-3 * (1 + fabs(sum));
            else wrong += (int32_t)(uint32_t)(before.whole[i] + (int64_t)sum) != c.whole[i];
        }
    if (!CHECK(wrong == 0))
        printf("  types %d and %d, %d steps side by side, %d rows, %d units: %lld differ\n", g->key.a, g->key.b,
            g->key.group, part->rows, units, (long long)wrong);
}

TEST(kernels)
{
    const gale__simd *t = gale__simd_get();
    for (int i = 0; i < t->n_gemms; i++) {
        const gale__simd_gemm *g = &t->gemm[i];
        if (g->key.group == 1 || g->needs & ~gale__cpu_features()) continue;
        printf("%s by %s, %d steps side by side, %d x %d\n", gale_type_name((gale_type)g->key.a),
            gale_type_name((gale_type)g->key.b), g->key.group, g->mr, g->nr);
        fill(g->key.a);
        for (int p = 0; p < GALE__SIMD_PARTS && g->part[p].tile; p++)
            for (int units = 1; units <= UNITS; units += 4) {
                check_part(g, &g->part[p], units, false);
                if (g->part[p].tile_at) check_part(g, &g->part[p], units, true);
            }
    }
}

int main(int argc, char **argv)
{
    static const test_row rows[] = {ROW(kernels)};
    return test_main(rows, 1, argc, argv);
}
