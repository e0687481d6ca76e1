/* Convolutions by 3 x 3 with stride 1 in f32, by Winograd's minimal filtering.
 *
 * A tile of m x m results reads (m + 2) x (m + 2) places.  Places and weights are transformed along both axes, which
 * leaves one product of matrices for each of the (m + 2)^2 points: [rows of the result][channels] by
 * [channels][tiles]; transforming its results back gives the tile.  So there are 2.25 (m = 2) or 4 (m = 4) times fewer
 * multiplications.  Weights are transformed once, in double precision, and kept in panels; a block of tiles is
 * transformed, multiplied and transformed back while it is in the second cache, and what follows the convolution runs
 * over its results.  Many threads would share such products unevenly: they take points one by one, wait for each other,
 * and then take rows of the result.
 *
 * Whether it is used depends on the shape of one map, never on the number of maps or threads, and every sum is taken
 * in the order of channels: results are the same bits whatever the blocks.  The error is larger than that of plain
 * sums, 5 times for m = 4 (docs/numerics.md). */
#ifndef GALE_KERNEL_CPU_WINOGRAD_H
#define GALE_KERNEL_CPU_WINOGRAD_H
#include "kernel/cpu/cpu_window.h"

typedef struct gale__cpu_winograd {
    const gale__nest_access *weights; /* NULL: not used */
    int64_t m, points;                /* results of a tile along an axis, (m + 2)^2 */
    int64_t channels;
    int64_t down, across;  /* tiles of a map */
    int64_t rows, columns; /* tiles of a block; its rows run on from one map to the next */
    int64_t row_blocks, column_blocks;
    int64_t pitch, point;         /* floats of a channel's tiles, and of a point, in a transformed block */
    int64_t chunk;                /* channels that one task transforms */
    int64_t task_rows, part;      /* rows of tiles, and of the result, of a task that multiplies */
    int64_t tasks, parts;         /* of a block */
    bool spread;                  /* many threads: tasks multiply at one point each, others transform back */
    int64_t products, sums_pitch; /* floats of a row of products and of a row of sums */
    int64_t phase, half; /* floats of the places of one phase of a row, and of a row after half of the transform, in
                            whole vectors */
    int32_t *offset;     /* of each step of k in a transformed block */
} gale__cpu_winograd;
/* What GALE_WINOGRAD asks for: 0: off, 2, 4, or -1 for a choice by cost. */
int64_t gale__cpu_winograd_asked(void);
/* Multiply-adds of a lane that 3 x 3 taps over one map amount to by the best m, or without transforms (0). */
double gale__cpu_winograd_cost(const gale__cpu_window *w, int64_t rows, const gale__simd_gemm *gemm, int64_t *best);
/* Whether it is worth it for rows of weights at `weights` by the window w, and with which m: 0, 2 or 4. */
int64_t gale__cpu_winograd_choose(const gale__cpu_window *w, const gale__nest_access *weights,
    const gale__cpu_span *batch, int64_t rows, const gale__simd_gemm *gemm);
/* Chooses blocks for so many threads; kc: most steps of k at once. */
gale_status gale__cpu_winograd_init(gale__cpu_winograd *g, const gale__cpu_window *w, int64_t m, int64_t rows,
    int64_t kc, const gale__simd_gemm *gemm, int64_t width);
void gale__cpu_winograd_finish(gale__cpu_winograd *g);
/* The transform of weights along one axis, and of those of some rows and one channel: the nine weights, rows of taps
 * one after the other, to (m + 2)^2. */
enum { GALE__WINOGRAD_ROWS = 16 };
void gale__cpu_winograd_factors(int64_t m, double (*g)[3]);
void gale__cpu_winograd_weights(
    int64_t m, const double (*g)[3], const double (*taps)[GALE__WINOGRAD_ROWS], double (*out)[GALE__WINOGRAD_ROWS]);
/* Lanes as panels: so many of nr lanes, then of gemm->slim. */
typedef struct gale__cpu_winograd_panels {
    int64_t full, slim, lanes;
} gale__cpu_winograd_panels;
gale__cpu_winograd_panels gale__cpu_winograd_cover(const gale__simd_gemm *gemm, int64_t lanes);
#endif
