/* Maxima of windows two places apart, read where the map is: a vector of every other place serves as the first tap, and
 * moved by a lane as the third, so rows are loaded once for all taps across, and borders are lanes that are not loaded.
 */
#include "kernel/cpu/simd_isa.h"

#ifdef __AVX512F__
#include "kernel/cpu/simd_lanes.h"

/* NaN before all. */
M_INLINE __m512 larger(__m512 x, __m512 y)
{
    return _mm512_mask_mov_ps(_mm512_max_ps(x, y), _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x);
}

/* Which of 16 places from `at` on are inside the row. */
M_INLINE __mmask16 inside(int64_t at, int64_t width)
{
    uint32_t some = 0xffff;
    if (at < 0) some = at > -16 ? some << -at & 0xffff : 0;
    if (at + 16 > width) some = at < width ? some & ((1u << (width - at)) - 1) : 0;
    return (__mmask16)some;
}

/* Maxima of rows at 16 places.  Rows of the next window but one are fetched: of a plane there are too few lines for the
 * processor to do so by itself. */
M_INLINE __m512 down(const gale__simd_pool *d, int64_t at)
{
    const float *last = d->row[d->rows - 1] + at;
    __builtin_prefetch(last + 3 * d->width);
    __builtin_prefetch(last + 4 * d->width);
    __m512 s;
    if (at >= 0 && at + 16 <= d->width) {
        s = _mm512_loadu_ps(d->row[0] + at);
        for (int64_t t = 1; t < d->rows; t++) s = larger(s, _mm512_loadu_ps(d->row[t] + at));
        return s;
    }
    const __m512 least = _mm512_set1_ps(-__builtin_inff());
    __mmask16 some = inside(at, d->width);
    s = _mm512_mask_loadu_ps(least, some, d->row[0] + at);
    for (int64_t t = 1; t < d->rows; t++) s = larger(s, _mm512_mask_loadu_ps(least, some, d->row[t] + at));
    return s;
}

/* The first two of each window. */
M_INLINE void pair(const gale__simd_pool *d, int64_t at, __m512 *even, __m512 *odd)
{
    const __m512i places = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    __m512 a = down(d, at), b = down(d, at + 16);
    *even = _mm512_permutex2var_ps(a, places, b);
    *odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(places, _mm512_set1_epi32(1)), b);
}

static void tops_by_2(const gale__simd_pool *d, float *y, int64_t n)
{
    __m512 even, odd, next = _mm512_setzero_ps(), next_odd = next;
    pair(d, -d->low, &even, &odd);
    for (int64_t i = 0; i < n; i += 16, even = next, odd = next_odd) {
        __m512 top = larger(even, odd);
        if (i + 16 <= n) pair(d, 2 * (i + 16) - d->low, &next, &next_odd);
        if (d->columns > 2)
            top = larger(
                top, _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(next), _mm512_castps_si512(even), 1)));
        _mm512_mask_storeu_ps(y + i, inside(i, n), top);
    }
}

void SIMD(pool)(gale__simd *t) { t->tops_by_2 = tops_by_2; }
#else
void SIMD(pool)(gale__simd *t) { (void)t; }
#endif
