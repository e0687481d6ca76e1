/* Convolutions of bytes over values that are stored channels-last, by instructions that multiply tiles: pixels in
 * memory are rows of one operand, and those of the other are units of weights as vectors read them, too.  Tiles are set
 * up by the caller (`open` of the products of bytes). */
#include "kernel/cpu/simd_isa.h"
#include <immintrin.h>

enum { ROW = 64, HALF = 16 };

static inline __attribute__((always_inline)) void sum(const gale__simd_pixels *d, bool wide, bool both, int32_t *sums)
{
    const int64_t lanes = wide ? 2 * HALF : HALF, row = lanes * (int64_t)sizeof *sums, step = d->step;
    const int8_t *w = d->w, *ahead = d->ahead;
    _tile_loadd(0, d->q.start, 0); /* the same row 16 times */
    if (wide) _tile_loadd(1, d->q.start + HALF, 0);
    if (both) _tile_loadd(2, d->q.start, 0);
    if (both && wide) _tile_loadd(3, d->q.start + HALF, 0);
    for (int64_t u = 0; u < d->taps; u++) {
        const uint8_t *x = d->x + u * d->hop;
        for (int64_t k = 0; k < d->units; k += HALF, x += ROW, w += HALF * row) {
            if (ahead) {
                for (int64_t i = 0; i < HALF * row; i += ROW) __builtin_prefetch(ahead + i);
                ahead += HALF * row;
            }
            _tile_loadd(4, x, step);
            _tile_loadd(6, w, row);
            _tile_dpbusd(0, 4, 6);
            if (wide) _tile_loadd(7, w + ROW, row);
            if (wide) _tile_dpbusd(1, 4, 7);
            if (!both) continue;
            _tile_loadd(5, x + d->jump, step);
            _tile_dpbusd(2, 5, 6);
            if (wide) _tile_dpbusd(3, 5, 7);
        }
    }
    _tile_stored(0, sums, row);
    if (wide) _tile_stored(1, sums + HALF, row);
    if (both) _tile_stored(2, sums + HALF * lanes, row);
    if (both && wide) _tile_stored(3, sums + HALF * lanes + HALF, row);
}

static void pixel_tiles(const gale__simd_pixels *d, bool both, int32_t *sums)
{
    bool wide = d->q.lanes > HALF;
    if (wide && both) sum(d, true, true, sums);
    else if (wide) sum(d, true, false, sums);
    else if (both) sum(d, false, true, sums);
    else sum(d, false, false, sums);
}

void SIMD(tiles_last)(gale__simd *t) { t->pixel_tiles = pixel_tiles; }
