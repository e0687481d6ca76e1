/* Convolutions of bytes over values that are stored channels-last: vectors are channels of the result, and a unit of
 * four bytes of a pixel is multiplied with all of them.  Sums become bytes in the registers they were summed in.
 * By channel, the bytes of four neighbouring places are interleaved, which serves two results where these are one
 * place apart; packing to bytes undoes the order of lanes. */
#include "kernel/cpu/simd_first.h"
#include "kernel/cpu/simd_isa.h"
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE __m512i load_unit(const uint8_t *p)
{
    int32_t four;
    memcpy(&four, p, 4);
    return _mm512_set1_epi32(four);
}

/* rint(x / by) for the lanes; NaN: what makes a byte of 0 with that zero point. */
INLINE __m512i divide(__m512 x, __m512 by, __m512 inverse, __m512i zero, bool quick)
{
    const __m512 limit = _mm512_set1_ps(0x1p20f);
    if (quick) {
        __m512 q = _mm512_mul_ps(x, inverse);
        q = _mm512_fmadd_ps(_mm512_fnmadd_ps(q, by, x), inverse, q);
        return _mm512_cvtps_epi32(_mm512_min_ps(q, limit));
    }
    __m512 q = _mm512_div_ps(x, by);
    __mmask16 number = _mm512_cmp_ps_mask(q, q, _CMP_ORD_Q);
    q = _mm512_max_ps(_mm512_min_ps(q, limit), _mm512_set1_ps(-0x1p20f));
    return _mm512_mask_cvtps_epi32(_mm512_sub_epi32(_mm512_setzero_si512(), zero), number, q);
}

/* Sums of 16 channels as levels that lack the zero point. */
INLINE __m512i levels(__m512i sum, __m512 scale, __m512 bias, __m512 by, __m512 inverse, __m512i zero, bool quick)
{
    return divide(_mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale), bias), by, inverse, zero, quick);
}

/* Four vectors of levels as bytes; of each 128 bits side by side.  Signed bytes are unsigned ones, 128 more, until
 * then.
 */
INLINE __m512i to_bytes(__m512i a, __m512i b, __m512i c, __m512i d, __m512i zero, __m512i flip)
{
    __m512i ab = _mm512_adds_epi16(_mm512_packs_epi32(a, b), zero),
            cd = _mm512_adds_epi16(_mm512_packs_epi32(c, d), zero);
    return _mm512_xor_si512(_mm512_packus_epi16(ab, cd), flip);
}

/* Sums of pixels go to memory two pixels at a time, whose bytes are a half of a vector each. */
INLINE void finish(const gale__simd_pixels *d, const int32_t *sums, int pixels, int vectors, bool with_skip, bool quick)
{
    const gale__simd_quantised q = d->q;
    const int more = q.has_sign ? 128 : 0, half = pixels / 2, next = vectors - 1;
    const int32_t less = (int32_t)q.zero, zero = with_skip ? (int32_t)q.sum.zero : less;
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
                  zeros = _mm512_set1_epi16((int16_t)(zero + more)), flip = _mm512_set1_epi8((char)more),
                  point = _mm512_set1_epi32(less), low = _mm512_set1_epi32(-more - less),
                  high = _mm512_set1_epi32(255 - more - less), shift = _mm512_set1_epi32(less - q.sum.x_zero),
                  y_less = _mm512_set1_epi32(q.sum.y_zero + more), sum_point = _mm512_set1_epi32(zero);
    const __m512 by = _mm512_set1_ps(q.by), inverse = _mm512_set1_ps(1 / q.by), sum_by = _mm512_set1_ps(q.sum.by),
                 sum_inverse = _mm512_set1_ps(1 / q.sum.by), x_scale = _mm512_set1_ps(q.sum.x_scale),
                 y_scale = _mm512_set1_ps(q.sum.y_scale),
                 scale[2] = {_mm512_loadu_ps(q.scale), _mm512_loadu_ps(q.scale + 16 * next)},
                 bias[2] = {_mm512_loadu_ps(q.bias), _mm512_loadu_ps(q.bias + 16 * next)};
    const __mmask16 lanes[2] = {first_lanes(q.lanes), first_lanes(q.lanes - 16 * next)};
    const __mmask32 some = q.lanes < 32 ? ((__mmask32)1 << q.lanes) - 1 : ~(__mmask32)0;
    for (int i = 0; i < pixels; i += 2) {
        __m512i l[4];
        int64_t place[2];
        _Pragma("GCC unroll 2") for (int p = 0; p < 2; p++)
        {
            int at = i + p < pixels ? i + p : i;
            place[p] = at < half ? at * d->pitch : d->out_jump + (at - half) * d->pitch;
            _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++)
            {
                __m512i x = levels(_mm512_loadu_si512(sums + (at * vectors + v * next) * 16), scale[v], bias[v], by,
                    inverse, point, quick);
                if (with_skip) {
                    __m128i bytes = _mm_maskz_loadu_epi8(lanes[v], q.skip + place[p] + 16 * v * next);
                    __m512i y = _mm512_cvtepu8_epi32(_mm_xor_si128(bytes, _mm512_castsi512_si128(flip)));
                    x = _mm512_add_epi32(_mm512_min_epi32(_mm512_max_epi32(x, low), high), shift);
                    __m512 of_x = _mm512_mul_ps(_mm512_cvtepi32_ps(x), x_scale),
                           of_y = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(y, y_less)), y_scale);
                    x = divide(_mm512_add_ps(of_x, of_y), sum_by, sum_inverse, sum_point, quick);
                }
                l[2 * p + v] = x;
            }
        }
        __m512i bytes = _mm512_permutexvar_epi32(order, to_bytes(l[0], l[1], l[2], l[3], zeros, flip));
        _mm256_mask_storeu_epi8(q.out + place[0], some, _mm512_castsi512_si256(bytes));
        _mm256_mask_storeu_epi8(q.out + place[1], some, _mm512_extracti64x4_epi64(bytes, 1));
    }
}

#define EACH(v) _Pragma("GCC unroll 8") for (int v = 0; v < 2 * FOUR; v++)
enum { FOUR = 4 };

/* x = rint(x / by), but for the last conversion. */
#define DIVIDE_EACH(x, by, inverse)                             \
    {                                                           \
        __m512 near[2 * FOUR];                                  \
        EACH(v) near[v] = _mm512_mul_ps(x[v], inverse);         \
        EACH(v) x[v] = _mm512_fnmadd_ps(near[v], by, x[v]);     \
        EACH(v) x[v] = _mm512_fmadd_ps(x[v], inverse, near[v]); \
    }

/* The same for sums with other terms: a chain of 20 instructions for a vector, so that eight of them take turns; more
 * instructions than those of two or three chains have no place in the processor's queue. */
static void finish_sums(const gale__simd_pixels *d, const int32_t *sums, int pixels)
{
    const gale__simd_quantised q = d->q;
    const int more = q.has_sign ? 128 : 0, half = pixels / 2, zero = (int)q.sum.zero;
    const float less = q.zero, round = 0x1.8p23f;
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
                  zeros = _mm512_set1_epi16((int16_t)(zero + more)), flip = _mm512_set1_epi8((char)more),
                  y_less = _mm512_set1_epi32(q.sum.y_zero + more);
    const __m512 by = _mm512_set1_ps(q.by), inverse = _mm512_set1_ps(1 / q.by), sum_by = _mm512_set1_ps(q.sum.by),
                 sum_inverse = _mm512_set1_ps(1 / q.sum.by), x_scale = _mm512_set1_ps(q.sum.x_scale),
                 y_scale = _mm512_set1_ps(q.sum.y_scale), low = _mm512_set1_ps((float)-more - less),
                 high = _mm512_set1_ps((float)(255 - more) - less), up = _mm512_set1_ps(round),
                 down = _mm512_set1_ps(round - (less - (float)q.sum.x_zero)),
                 scale[2] = {_mm512_loadu_ps(q.scale), _mm512_loadu_ps(q.scale + 16)},
                 bias[2] = {_mm512_loadu_ps(q.bias), _mm512_loadu_ps(q.bias + 16)};
    const __mmask16 lanes[2] = {first_lanes(q.lanes), first_lanes(q.lanes - 16)};
    const __mmask32 some = q.lanes < 32 ? ((__mmask32)1 << q.lanes) - 1 : ~(__mmask32)0;
    for (int i = 0; i < pixels; i += FOUR) {
        __m512 x[2 * FOUR], y[2 * FOUR];
        __m512i l[2 * FOUR];
        int64_t place[FOUR];
        _Pragma("GCC unroll 4") for (int p = 0; p < FOUR; p++)
        {
            int at = i + p < pixels ? i + p : pixels - 1;
            place[p] = at < half ? at * d->pitch : d->out_jump + (at - half) * d->pitch;
            x[2 * p] = _mm512_cvtepi32_ps(_mm512_loadu_si512(sums + at * 32));
            x[2 * p + 1] = _mm512_cvtepi32_ps(_mm512_loadu_si512(sums + at * 32 + 16));
        }
        EACH(v) x[v] = _mm512_mul_ps(x[v], scale[v % 2]);
        EACH(v) x[v] = _mm512_add_ps(x[v], bias[v % 2]);
        DIVIDE_EACH(x, by, inverse)
        EACH(v) x[v] = _mm512_min_ps(_mm512_max_ps(x[v], low), high);
        EACH(v) x[v] = _mm512_add_ps(x[v], up);
        EACH(v) x[v] = _mm512_sub_ps(x[v], down);
        EACH(v)
        {
            __m128i bytes = _mm_maskz_loadu_epi8(lanes[v % 2], q.skip + place[v / 2] + 16 * (v % 2));
            l[v] = _mm512_cvtepu8_epi32(_mm_xor_si128(bytes, _mm512_castsi512_si128(flip)));
        }
        EACH(v) x[v] = _mm512_mul_ps(x[v], x_scale);
        EACH(v) y[v] = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(l[v], y_less)), y_scale);
        EACH(v) x[v] = _mm512_add_ps(x[v], y[v]);
        DIVIDE_EACH(x, sum_by, sum_inverse)
        EACH(v) l[v] = _mm512_cvtps_epi32(x[v]);
        _Pragma("GCC unroll 2") for (int p = 0; p < FOUR; p += 2)
        {
            __m512i *of = l + 2 * p,
                    bytes = _mm512_permutexvar_epi32(order, to_bytes(of[0], of[1], of[2], of[3], zeros, flip));
            _mm256_mask_storeu_epi8(q.out + place[p], some, _mm512_castsi512_si256(bytes));
            _mm256_mask_storeu_epi8(q.out + place[p + 1], some, _mm512_extracti64x4_epi64(bytes, 1));
        }
    }
}

static void finish_pixels(const gale__simd_pixels *d, const int32_t *sums, int pixels, int vectors)
{
    bool quick = d->q.quick && (d->q.near || !d->q.skip);
    if (quick && vectors == 2 && d->q.skip) finish_sums(d, sums, pixels);
    else if (quick && vectors == 2) finish(d, sums, pixels, 2, false, true);
    else if (quick && !d->q.skip) finish(d, sums, pixels, 1, false, true);
    else if (d->q.skip) finish(d, sums, pixels, vectors, true, false);
    else finish(d, sums, pixels, vectors, false, false);
}

static void pixels_end(const gale__simd_pixels *d, const int32_t *sums, int64_t n)
{
    gale__simd_pixels row = *d;
    row.out_jump = n / 2 * d->pitch;
    finish_pixels(&row, sums, (int)n, d->q.lanes > 16 ? 2 : 1);
}

/* Pixels of a half are reached from one pointer for every three of them: processors add an index once or twice. */
#define POINTER(P, i) ((i) < (P) / 2 ? (i) / 3 : ((P) / 2 + 2) / 3 + ((i) - (P) / 2) / 3)
#define REST(P, i) ((i) < (P) / 2 ? (i) % 3 : ((i) - (P) / 2) % 3)
#define POINTERS(P) (POINTER(P, (P)-1) + 1)
#define PIXELS_STEP(P, V, at)                                                                                    \
    {                                                                                                            \
        __m512i y[V];                                                                                            \
        _Pragma("GCC unroll 2") for (int v = 0; v < V; v++) y[v] = _mm512_loadu_si512(w + 64 * v);               \
        _Pragma("GCC unroll 14") for (int i = 0; i < P; i++)                                                     \
        {                                                                                                        \
            __m512i x = load_unit(p[POINTER(P, i)] + REST(P, i) * step + (at));                                  \
            _Pragma("GCC unroll 2") for (int v = 0; v < V; v++) s[i][v] = _mm512_dpbusd_epi32(s[i][v], x, y[v]); \
        }                                                                                                        \
        w += 64 * V;                                                                                             \
    }
#define PIXELS_NEXT(P, by) _Pragma("GCC unroll 6") for (int i = 0; i < POINTERS(P); i++) p[i] += (by);
#define PIXELS(P, V)                                                                                                \
    static void pixels_##V##_##P(const gale__simd_pixels *d)                                                        \
    {                                                                                                               \
        const int64_t step = d->step;                                                                               \
        const int8_t *w = d->w, *ahead = d->ahead;                                                                  \
        __m512i s[P][V];                                                                                            \
        _Pragma("GCC unroll 2") for (int v = 0; v < V; v++) _Pragma("GCC unroll 14") for (int i = 0; i < P; i++)    \
            s[i][v] = _mm512_loadu_si512(d->q.start + 16 * v);                                                      \
        _Pragma("GCC unroll 14") for (int i = P; i < 2 * P; i++)                                                    \
        {                                                                                                           \
            __builtin_prefetch(d->q.out + i * d->pitch, 1);                                                         \
            if (d->q.skip) __builtin_prefetch(d->q.skip + i * d->pitch);                                            \
        }                                                                                                           \
        for (int64_t u = 0; u < d->taps; u++) {                                                                     \
            const uint8_t *p[POINTERS(P)];                                                                          \
            _Pragma("GCC unroll 14") for (int i = 0; i < P; i++) if (!REST(P, i)) p[POINTER(P, i)] =                \
                d->x + u * d->hop + (i < P / 2 ? i * step : d->jump + (i - P / 2) * step);                          \
            int64_t k = d->units;                                                                                   \
            for (; k >= 4; k -= 4) {                                                                                \
                if (ahead) {                                                                                        \
                    __builtin_prefetch(ahead, 0, 2);                                                                \
                    ahead += 64;                                                                                    \
                }                                                                                                   \
                _Pragma("GCC unroll 4") for (int at = 0; at < 16; at += 4) PIXELS_STEP(P, V, at) PIXELS_NEXT(P, 16) \
            }                                                                                                       \
            for (; k > 0; k--) {                                                                                    \
                PIXELS_STEP(P, V, 0)                                                                                \
                PIXELS_NEXT(P, 4)                                                                                   \
            }                                                                                                       \
        }                                                                                                           \
        int32_t sums[P * V * 16];                                                                                   \
        _Pragma("GCC unroll 14") for (int i = 0; i < P; i++) _Pragma("GCC unroll 2") for (int v = 0; v < V; v++)    \
            _mm512_storeu_si512(sums + (i * V + v) * 16, s[i][v]);                                                  \
        finish_pixels(d, sums, P, V);                                                                               \
    }
#define FORMS(X, v) \
    X(1, v) X(2, v) X(3, v) X(4, v) X(5, v) X(6, v) X(7, v) X(8, v) X(9, v) X(10, v) X(11, v) X(12, v) X(13, v) X(14, v)
FORMS(PIXELS, 1)
FORMS(PIXELS, 2)

/* --- By channel. --- */

/* Bytes of four neighbouring places of 64 channels, side by side. */
INLINE void weave(const uint8_t *x, int64_t place, __mmask64 some, bool full, __m512i quad[4])
{
    __m512i v[4];
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) v[i] =
        full ? _mm512_loadu_si512(x + i * place) : _mm512_maskz_loadu_epi8(some, x + i * place);
    __m512i low = _mm512_unpacklo_epi8(v[0], v[1]), high = _mm512_unpackhi_epi8(v[0], v[1]),
            low_2 = _mm512_unpacklo_epi8(v[2], v[3]), high_2 = _mm512_unpackhi_epi8(v[2], v[3]);
    quad[0] = _mm512_unpacklo_epi16(low, low_2);
    quad[1] = _mm512_unpackhi_epi16(low, low_2);
    quad[2] = _mm512_unpacklo_epi16(high, high_2);
    quad[3] = _mm512_unpackhi_epi16(high, high_2);
}

/* `both`: two results from each quad, which are one place apart. */
INLINE void beside_row(const gale__simd_beside *d, bool both, int64_t quads, int64_t rows, bool full, bool quick)
{
    const gale__simd_quantised q = d->q;
    const int more = q.has_sign ? 128 : 0;
    const __mmask64 some = full ? ~(__mmask64)0 : ((__mmask64)1 << q.lanes) - 1;
    const __m512i point = _mm512_set1_epi32((int32_t)q.zero),
                  zeros = _mm512_set1_epi16((int16_t)((int32_t)q.zero + more)), flip = _mm512_set1_epi8((char)more);
    const __m512 by = _mm512_set1_ps(q.by), inverse = _mm512_set1_ps(1 / q.by);
    const int64_t each = both ? 2 : 1, next = 256 * quads, columns = d->columns;
    const uint8_t *x = d->x;
    uint8_t *to = q.out;
    for (int64_t i = 0; i < columns; i += each, x += 2 * d->place, to += each * d->pitch) {
        __m512i s[2][4];
        _Pragma("GCC unroll 4") for (int v = 0; v < 4; v++) s[0][v] = s[1][v] = _mm512_loadu_si512(q.start + 16 * v);
        const int8_t *w = d->w;
        _Pragma("GCC unroll 3") for (int64_t u = 0; u < rows; u++, w += each * next)
            _Pragma("GCC unroll 1") for (int64_t k = 0; k < quads; k++)
        {
            __m512i quad[4];
            weave(x + u * d->hop + 4 * k * d->place, d->place, some, full, quad);
            const int8_t *at = w + 256 * k;
            _Pragma("GCC unroll 4") for (int v = 0; v < 4; v++)
            {
                s[0][v] = _mm512_dpbusd_epi32(s[0][v], quad[v], _mm512_loadu_si512(at + 64 * v));
                if (both) s[1][v] = _mm512_dpbusd_epi32(s[1][v], quad[v], _mm512_loadu_si512(at + next + 64 * v));
            }
        }
        _Pragma("GCC unroll 2") for (int64_t p = 0; p < each; p++)
        {
            if (i + p >= columns) break;
            __m512i l[4];
            _Pragma("GCC unroll 4") for (int v = 0; v < 4; v++) l[v] = levels(s[p][v],
                _mm512_loadu_ps(q.scale + 16 * v), _mm512_loadu_ps(q.bias + 16 * v), by, inverse, point, quick);
            __m512i bytes = to_bytes(l[0], l[1], l[2], l[3], zeros, flip);
            if (full) _mm512_storeu_si512(to + p * d->pitch, bytes);
            else _mm512_mask_storeu_epi8(to + p * d->pitch, some, bytes);
        }
    }
}

static void beside(const gale__simd_beside *d)
{
    bool full = d->q.lanes >= GALE__BESIDE, usual = d->quads == 1 && d->rows == 3 && d->q.quick;
    if (d->step == 1 && usual && full) beside_row(d, true, 1, 3, true, true);
    else if (d->step == 1 && usual) beside_row(d, true, 1, 3, false, true);
    else if (d->step == 1 && full && d->q.quick) beside_row(d, true, d->quads, d->rows, true, true);
    else if (d->step == 1) beside_row(d, true, d->quads, d->rows, full, d->q.quick);
    else if (usual && full) beside_row(d, false, 1, 3, true, true);
    else if (usual) beside_row(d, false, 1, 3, false, true);
    else if (full && d->q.quick) beside_row(d, false, d->quads, d->rows, true, true);
    else beside_row(d, false, d->quads, d->rows, full, d->q.quick);
}

#define ENTRY(P, v) t->pixels[v - 1][P] = pixels_##v##_##P;
void SIMD(dot_last)(gale__simd *t)
{
    FORMS(ENTRY, 1)
    FORMS(ENTRY, 2)
    t->pixel_unit = 4;
    t->pixels_end = pixels_end;
    t->beside = beside;
}
