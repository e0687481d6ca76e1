/* Products whose rows lie in memory along k, such as activations by weights: micro-kernels read them there, so nothing
 * is packed.  Each panel of rows passes by all panels of b, which follow one another. */
#include "kernel/cpu/contract.h"
#include <math.h>

enum { SAME_SETS = 4096 / sizeof(float) }; /* rows so far apart displace each other in the first cache */

bool gale__cpu_contract_open_rows(
    const gale__cpu_contract *c, gale__cpu_frame *f, int64_t m0, int64_t rows, int64_t lanes, gale__cpu_row_view *in)
{
    if (!c->gemm.part[0].done_rows || !c->a.along_k || lanes % c->gemm.nr) return false;
    in->first =
        (const float *)(const void *)gale__cpu_frame_rows(f, c->a.section, &c->a.rows, m0, rows, &c->k, 0, &in->pitch);
    return in->first && (rows == 1 || in->pitch % SAME_SETS);
}

/* The largest that computes no more rows than these: it reads all of its rows. */
static const gale__simd_part *part_within(const gale__simd_gemm *gemm, int64_t rows)
{
    int i = 0;
    while (i + 1 < GALE__SIMD_PARTS && gemm->part[i + 1].rows && gemm->part[i + 1].rows <= rows) i++;
    return &gemm->part[i];
}

void gale__cpu_contract_run_rows(const gale__cpu_contract *c, const gale__cpu_row_view *in, char *tile, const char *b,
    int64_t rows, int64_t lanes, int64_t k, int64_t kn, const gale__simd_done *done)
{
    static const float no_bias = -0.0f;
    float *sums = (float *)(void *)tile;
    size_t steps = gale__cpu_contract_steps(c, kn);
    gale__simd_done to = {.out = sums, .out_pitch = c->tile_lanes, .bias = &no_bias, .lo = -INFINITY, .hi = INFINITY};
    if (k + kn == c->k.count) to = *done;
    to.lanes = c->gemm.nr;
    to.start_pitch = c->tile_lanes;
    for (int64_t i = 0; i < rows; i += to.rows) {
        const gale__simd_part *part = part_within(&c->gemm, rows - i);
        const float *a = in->first + (size_t)i * in->pitch + (size_t)k;
        to.rows = part->rows;
        for (int64_t j = 0; j < lanes; j += to.lanes) {
            gale__simd_done d = to;
            gale__cpu_finish_advance(&d, i, j);
            if (k) d.start = sums + i * c->tile_lanes + j;
            part->done_rows(&d, a, in->pitch, b + (size_t)j * steps, (size_t)kn);
        }
    }
}
