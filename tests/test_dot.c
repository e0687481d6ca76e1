/* Every micro-kernel of this processor that multiplies several steps of k at once, by itself.  What is tested depends
 * on the processor, and is printed. */
#include "base/cpu.h"
#include "kernel/cpu/simd.h"
#include "test.h"

TEST(kernels)
{
    const gale__simd *t = gale__simd_get();
    for (int i = 0; i < t->n_gemms; i++) {
        const gale__simd_gemm *g = &t->gemm[i];
        if (g->key.group == 1 || g->needs & ~gale__cpu_features()) continue;
        printf("%s by %s, %d steps side by side, %d x %d\n", gale_type_name((gale_type)g->key.a),
            gale_type_name((gale_type)g->key.b), g->key.group, g->mr, g->nr);
        CHECK_EQ(gale__simd_gemm_try(g, true), 0);
    }
}

static gale__simd_tile *right_tile;
static void wrong_tile(void *c, size_t pitch, const void *a, const void *b, size_t units)
{
    right_tile(c, pitch, a, b, units);
    ((uint8_t *)c)[2] ^= 0x40;
}

/* One bit of one sum. */
TEST(mistakes_are_found)
{
    const gale__simd *t = gale__simd_get();
    for (int i = 0; i < t->n_gemms; i++) {
        gale__simd_gemm g = t->gemm[i];
        int last = 0;
        if (g.key.group == 1 || g.needs & ~gale__cpu_features()) continue;
        while (g.part[last].rows < g.mr) last++;
        right_tile = g.part[last].tile;
        g.part[last].tile = wrong_tile;
        CHECK(gale__simd_gemm_try(&g, false) > 0);
    }
}

TESTS(ROW(kernels), ROW(mistakes_are_found))
