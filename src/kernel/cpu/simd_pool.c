/* Maxima of windows two places apart, read where the map is: a vector of every other place serves as the first tap, and
 * moved by a lane as the third, so rows are loaded once for all taps across, and borders are lanes that are not loaded.
 */
#include "kernel/cpu/simd_isa.h"

#if defined __AVX512F__ || defined __AVX2__
#include "kernel/cpu/simd_first.h"
#include "kernel/cpu/simd_lanes.h"

#ifdef __AVX512F__
typedef __m512 vec;
enum { PLACES = 16 };
#define VEC_(name) _mm512_##name##_ps

/* NaN before all. */
M_INLINE vec larger(vec x, vec y)
{
    return _mm512_mask_mov_ps(_mm512_max_ps(x, y), _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x);
}

/* Places of a row from `at` on; those outside are the least. */
M_INLINE vec load_inside(const float *row, int64_t at, int64_t width)
{
    uint32_t some = 0xffff;
    if (at < 0) some = at > -16 ? some << -at & 0xffff : 0;
    if (at + 16 > width) some = at < width ? some & ((1u << (width - at)) - 1) : 0;
    return _mm512_mask_loadu_ps(_mm512_set1_ps(-__builtin_inff()), (__mmask16)some, row + at);
}

/* Every other place of a and b, from the first or the second on. */
M_INLINE vec halves(vec a, vec b, int first)
{
    const __m512i places = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    return _mm512_permutex2var_ps(a, _mm512_add_epi32(places, _mm512_set1_epi32(first)), b);
}

/* All but the first place of a, then that of b. */
M_INLINE vec moved(vec a, vec b)
{
    return _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(b), _mm512_castps_si512(a), 1));
}
#else
typedef __m256 vec;
enum { PLACES = 8 };
#define VEC_(name) _mm256_##name##_ps

M_INLINE vec larger(vec x, vec y)
{
    return _mm256_blendv_ps(_mm256_max_ps(x, y), x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

M_INLINE vec load_inside(const float *row, int64_t at, int64_t width)
{
    int before = at >= 0 ? 0 : at > -8 ? (int)-at : 8;
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
            some = _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(before), lane), first_lanes(width - at));
    return _mm256_blendv_ps(
        _mm256_set1_ps(-__builtin_inff()), _mm256_maskload_ps(row + at, some), _mm256_castsi256_ps(some));
}

M_INLINE vec halves(vec a, vec b, int first)
{
    __m256 x = first ? _mm256_shuffle_ps(a, b, 0xdd) : _mm256_shuffle_ps(a, b, 0x88);
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xd8));
}

M_INLINE vec moved(vec a, vec b)
{
    __m256i x = _mm256_castps_si256(a), y = _mm256_castps_si256(_mm256_permute2f128_ps(a, b, 0x21));
    return _mm256_castsi256_ps(_mm256_alignr_epi8(y, x, 4));
}
#endif

/* Maxima of rows at so many places.  Rows of the next window but one are fetched: of a plane there are too few lines
 * for the processor to do so by itself. */
M_INLINE vec down(const gale__simd_pool *d, int64_t at)
{
    const float *last = d->row[d->rows - 1] + at;
    __builtin_prefetch(last + 3 * d->width);
    __builtin_prefetch(last + 4 * d->width);
    vec s;
    if (at >= 0 && at + PLACES <= d->width) {
        s = VEC_(loadu)(d->row[0] + at);
        for (int64_t t = 1; t < d->rows; t++) s = larger(s, VEC_(loadu)(d->row[t] + at));
        return s;
    }
    s = load_inside(d->row[0], at, d->width);
    for (int64_t t = 1; t < d->rows; t++) s = larger(s, load_inside(d->row[t], at, d->width));
    return s;
}

/* The first two of each window. */
M_INLINE void pair(const gale__simd_pool *d, int64_t at, vec *even, vec *odd)
{
    vec a = down(d, at), b = down(d, at + PLACES);
    *even = halves(a, b, 0);
    *odd = halves(a, b, 1);
}

static void tops_by_2(const gale__simd_pool *d, float *y, int64_t n)
{
    vec even, odd, next = VEC_(setzero)(), next_odd = next;
    pair(d, -d->low, &even, &odd);
    for (int64_t i = 0; i < n; i += PLACES, even = next, odd = next_odd) {
        vec top = larger(even, odd);
        if (i + PLACES <= n) pair(d, 2 * (i + PLACES) - d->low, &next, &next_odd);
        if (d->columns > 2) top = larger(top, moved(even, next));
        store_first(y + i, n - i, top);
    }
}

void SIMD(pool)(gale__simd *t) { t->tops_by_2 = tops_by_2; }
#else
void SIMD(pool)(gale__simd *t) { (void)t; }
#endif
