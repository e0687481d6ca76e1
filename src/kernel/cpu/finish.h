/* What follows most products and convolutions in f32: plus a bias, by a scale, plus other values, in products by rows
 * twice (a bias for each lane, then the sum with another value), between two limits,
 * then an activation, to elements that are adjacent in memory.  A row of results is then one call of a function,
 * without a tape. */
#ifndef GALE_KERNEL_CPU_FINISH_H
#define GALE_KERNEL_CPU_FINISH_H
#include "kernel/cpu/tape.h"

typedef struct gale__cpu_finish {
    const gale__nest_access *out;                  /* NULL: something else follows */
    const gale__nest_access *bias, *scale, *other; /* NULL: none; bias, scale: the same along a row */
    const gale__nest_access *also;                 /* added before other; only tiles that are finished at once do so */
    const gale__nest_access *along;                /* the same for all rows */
    float lo, hi;
    gale__simd_activate *activate; /* NULL: none.  Over results in memory, while they are in the first cache */
    int64_t run;                   /* results that are adjacent, from a multiple of it on */
} gale__cpu_finish;
/* Whether that is what follows the reduction; lanes: the dimensions that a row of results walks; along: what is added
 * to every row is kept apart from other values. */
void gale__cpu_finish_find(
    gale__cpu_finish *q, const gale__nest *nest, int reduce, const gale__cpu_span *lanes, bool along);
/* n results of lanes from n0 on; at: the coordinates of all other dimensions, 0 for the lanes'. */
void gale__cpu_finish_run(const gale__cpu_finish *q, const gale__simd *simd, void *const *buffers, const int64_t *at,
    int n_dims, const gale__cpu_span *lanes, int64_t n0, int64_t n, const float *sums);
/* Where tiles of rows by lanes go, from the first of both on, where they are apart by fixed distances; else false. */
bool gale__cpu_finish_open(const gale__cpu_finish *q, const gale__cpu_span *rows, const gale__cpu_span *lanes,
    void *const *buffers, const int64_t *at, int n_dims, gale__simd_done *d);
/* The activation of finished tiles: so many rows and lanes, of what d leads to, from m and n on. */
static inline void gale__cpu_finish_activate(
    const gale__cpu_finish *q, const gale__simd_done *d, int64_t m, int64_t rows, int64_t n, int64_t lanes)
{
    if (d->out_pitch == lanes) lanes *= rows, rows = 1; /* one after the other */
    if (q->activate) q->activate(d->out + m * d->out_pitch + n, (size_t)lanes, (size_t)rows, d->out_pitch);
}
/* From row m and lane n on. */
static inline void gale__cpu_finish_advance(gale__simd_done *d, int64_t m, int64_t n)
{
    d->out += m * d->out_pitch + n;
    if (d->bias) d->bias += m * d->bias_pitch;
    if (d->scale) d->scale += m * d->scale_pitch;
    if (d->also) d->also += m * d->also_pitch + n;
    if (d->other) d->other += m * d->other_pitch + n;
}
/* Multiplies a tile of so many rows and lanes, from m and n on, and finishes it; start: sums of the steps before. */
static inline void gale__cpu_finish_tile(const gale__simd_gemm *gemm, gale__simd_done d, int64_t m, int64_t n,
    const void *start, int64_t pitch, const void *a, const void *b, const int32_t *offset, int64_t k)
{
    gale__cpu_finish_advance(&d, m, n);
    d.start = start;
    d.start_pitch = pitch;
    int some = d.padded ? GALE__DONE_PADDED : GALE__DONE_SOME;
    int form = d.lanes >= gemm->nr ? GALE__DONE_FULL : d.lanes > gemm->slim ? some : GALE__DONE_SLIM;
    gale__simd_part_for(gemm, d.rows)->done_at[form](&d, a, b, offset, (size_t)k);
}
#endif
