/* Convolutions over values that are stored channels-last: vectors are channels of the result.  Of 1 x 1 convolutions up
 * to 14 pixels by 32 channels are summed in registers; elements of pixels are loaded from the map into all lanes.  By
 * channel, up to 8 neighbouring results of a vector of channels are summed together, with one load for each tap.  AVX2
 * has half the registers, each of half the size: there 14 by 32 are made of tiles of up to 6 by 16. */
#include "kernel/cpu/simd_isa.h"

#if defined __AVX512F__ || (defined __AVX2__ && defined __FMA__)
#ifdef __AVX512F__
#include "kernel/cpu/simd_first.h"
#include "kernel/cpu/simd_lanes.h"

/* One step of k.  Three pixels from one pointer: processors add an index once or twice to it. */
#define POINT_STEP(P, V, at, weights)                                                                        \
    {                                                                                                        \
        __m512 w[V];                                                                                         \
        _Pragma("GCC unroll 2") for (int v = 0; v < V; v++) w[v] = _mm512_loadu_ps((weights) + 16 * v);      \
        _Pragma("GCC unroll 14") for (int i = 0; i < P; i++)                                                 \
        {                                                                                                    \
            __m512 x = _mm512_set1_ps(p[i / 3][i % 3 * step + (at)]);                                        \
            _Pragma("GCC unroll 2") for (int v = 0; v < V; v++) s[i][v] = _mm512_fmadd_ps(x, w[v], s[i][v]); \
        }                                                                                                    \
    }
#define POINT_NEXT(by) _Pragma("GCC unroll 5") for (int q = 0; q < 5; q++) p[q] += (by);
#define POINT(P, V, unit)                                                                                            \
    static void point_##unit##_##V##_##P(const gale__simd_point *d)                                                  \
    {                                                                                                                \
        const __mmask16 some[2] = {first_lanes(d->lanes), first_lanes(d->lanes - 16)};                               \
        const __m512 lo = _mm512_set1_ps(d->lo), hi = _mm512_set1_ps(d->hi);                                         \
        const int64_t step = d->step, k_step = unit ? 1 : d->k_step;                                                 \
        const float *x0 = d->x, *weights = d->w, *p[5];                                                              \
        int64_t k = d->k;                                                                                            \
        __m512 s[P][V];                                                                                              \
        _Pragma("GCC unroll 5") for (int q = 0; q < 5; q++) p[q] = x0 + 3 * q * step;                                \
        _Pragma("GCC unroll 2") for (int v = 0; v < V; v++)                                                          \
        {                                                                                                            \
            __m512 start = d->start ? _mm512_maskz_loadu_ps(some[v], d->start + 16 * v) : _mm512_setzero_ps();       \
            _Pragma("GCC unroll 14") for (int i = 0; i < P; i++)                                                     \
            {                                                                                                        \
                s[i][v] = start;                                                                                     \
                __builtin_prefetch(d->out + i * d->out_pitch + 16 * v, 1);                                           \
            }                                                                                                        \
        }                                                                                                            \
        if (d->other) {                                                                                              \
            _Pragma("GCC unroll 14") for (int i = 0; i < P; i++) _Pragma("GCC unroll 2") for (int v = 0; v < V; v++) \
                __builtin_prefetch(d->other + i * d->other_pitch + 16 * v);                                          \
        }                                                                                                            \
        const float *next = d->next, *ahead = d->ahead;                                                              \
        for (; unit && k >= 2; k -= 2, weights += 32 * V, next += 32, ahead += 16) {                                 \
            __builtin_prefetch(next);                                                                                \
            __builtin_prefetch(next + 16);                                                                           \
            __builtin_prefetch(ahead);                                                                               \
            _Pragma("GCC unroll 2") for (int j = 0; j < 2; j++) POINT_STEP(P, V, j, weights + 16 * V * j)            \
                POINT_NEXT(2)                                                                                        \
        }                                                                                                            \
        for (; k > 0; k--, weights += 16 * V, ahead += 8) {                                                          \
            __builtin_prefetch(ahead);                                                                               \
            if (!unit) {                                                                                             \
                __builtin_prefetch(p[0] + 16 * k_step);                                                              \
                __builtin_prefetch(p[(P - 1) / 3] + (P - 1) % 3 * step + 16 * k_step);                               \
            }                                                                                                        \
            POINT_STEP(P, V, 0, weights)                                                                             \
            POINT_NEXT(k_step)                                                                                       \
        }                                                                                                            \
        if (d->other) {                                                                                              \
            _Pragma("GCC unroll 14") for (int i = 0; i < P; i++) _Pragma("GCC unroll 2") for (int v = 0; v < V; v++) \
                s[i][v] =                                                                                            \
                    _mm512_add_ps(s[i][v], _mm512_maskz_loadu_ps(some[v], d->other + i * d->other_pitch + 16 * v));  \
        }                                                                                                            \
        _Pragma("GCC unroll 14") for (int i = 0; i < P; i++) _Pragma("GCC unroll 2") for (int v = 0; v < V; v++)     \
            _mm512_mask_storeu_ps(                                                                                   \
                d->out + i * d->out_pitch + 16 * v, some[v], _mm512_min_ps(hi, _mm512_max_ps(lo, s[i][v])));         \
    }

#define SPREAD_STEP(P, V)                                                                                         \
    {                                                                                                             \
        __m512 u[V];                                                                                              \
        _Pragma("GCC unroll 2") for (int v = 0; v < V; v++) u[v] = _mm512_loadu_ps(w + 16 * v);                   \
        _Pragma("GCC unroll 2") for (int v = 0; v < V; v++) __builtin_prefetch((const char *)(w + 16 * v) + FAR); \
        _Pragma("GCC unroll 14") for (int i = 0; i < P; i++)                                                      \
        {                                                                                                         \
            __m512 x = _mm512_set1_ps(p[i][k]);                                                                   \
            _Pragma("GCC unroll 2") for (int v = 0; v < V; v++) s[i][v] = _mm512_fmadd_ps(x, u[v], s[i][v]);      \
        }                                                                                                         \
    }
#define SPREAD(P, V)                                                                                             \
    static void spread_##V##_##P(const gale__simd_spread *d)                                                     \
    {                                                                                                            \
        const __mmask16 some[2] = {first_lanes(d->lanes), first_lanes(d->lanes - 16)};                           \
        const __m512 lo = _mm512_set1_ps(d->lo), hi = _mm512_set1_ps(d->hi);                                     \
        const float *w = d->w;                                                                                   \
        int64_t left = d->k, shift = d->shift, deep;                                                             \
        __m512 s[P][V];                                                                                          \
        _Pragma("GCC unroll 2") for (int v = 0; v < V; v++)                                                      \
        {                                                                                                        \
            __m512 start = d->start ? _mm512_maskz_loadu_ps(some[v], d->start + 16 * v) : _mm512_setzero_ps();   \
            _Pragma("GCC unroll 14") for (int i = 0; i < P; i++) s[i][v] =                                       \
                d->more ? _mm512_loadu_ps(d->sums + i * GALE__SPREAD_CHANNELS + 16 * v) : start;                 \
        }                                                                                                        \
        for (; left > 0; left -= deep, shift += deep) {                                                          \
            const float *const *lane = d->lane;                                                                  \
            deep = left < d->deep ? left : d->deep;                                                              \
            for (int64_t t = d->taps; t > 0; t--, lane += d->pitch) {                                            \
                const float *p[P];                                                                               \
                _Pragma("GCC unroll 14") for (int i = 0; i < P; i++) p[i] = lane[i] + shift;                     \
                for (int64_t k = 0; k < deep; k++, w += 16 * V) SPREAD_STEP(P, V)                                \
            }                                                                                                    \
        }                                                                                                        \
        _Pragma("GCC unroll 14") for (int i = 0; i < P; i++) _Pragma("GCC unroll 2") for (int v = 0; v < V; v++) \
        {                                                                                                        \
            __m512 y = s[i][v];                                                                                  \
            if (!d->out) {                                                                                       \
                _mm512_storeu_ps(d->sums + i * GALE__SPREAD_CHANNELS + 16 * v, y);                               \
                continue;                                                                                        \
            }                                                                                                    \
            if (d->other)                                                                                        \
                y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(some[v], d->other + i * d->other_pitch + 16 * v));    \
            y = _mm512_min_ps(hi, _mm512_max_ps(lo, y));                                                         \
            _mm512_mask_storeu_ps(d->out + i * d->out_pitch + 16 * v, some[v], y);                               \
        }                                                                                                        \
    }
enum { FAR = 2048 }; /* bytes of weights that are fetched ahead */
/* clang-format off */
#define SPREADS(V) \
    SPREAD(1, V) SPREAD(2, V) SPREAD(3, V) SPREAD(4, V) SPREAD(5, V) SPREAD(6, V) SPREAD(7, V) \
    SPREAD(8, V) SPREAD(9, V) SPREAD(10, V) SPREAD(11, V) SPREAD(12, V) SPREAD(13, V) SPREAD(14, V)
SPREADS(1)
SPREADS(2)
/* clang-format on */

static void spread(const gale__simd_spread *d, int64_t pixels)
{
    static void (*const fn[2][GALE__SPREAD_PIXELS])(const gale__simd_spread *d) = {
        {spread_1_1, spread_1_2, spread_1_3, spread_1_4, spread_1_5, spread_1_6, spread_1_7, spread_1_8, spread_1_9,
            spread_1_10, spread_1_11, spread_1_12, spread_1_13, spread_1_14},
        {spread_2_1, spread_2_2, spread_2_3, spread_2_4, spread_2_5, spread_2_6, spread_2_7, spread_2_8, spread_2_9,
            spread_2_10, spread_2_11, spread_2_12, spread_2_13, spread_2_14}};
    fn[d->lanes > 16][pixels - 1](d);
}

#define VEC __m512
#define VEC_LANES 16
#define VEC_(name) _mm512_##name##_ps
#else
#include "kernel/cpu/simd_first.h"

#define VEC __m256
#define VEC_LANES 8
#define VEC_(name) _mm256_##name##_ps

/* P pixels from `pixel` on, by 16 channels from `channel` on; weights: how far steps of k are apart; by: and
 * what is fetched of the next panel, which the second cache waits for. */
#define TILE(P)                                                                                                   \
    static void tile_##P(const gale__simd_point *d, int64_t pixel, int64_t channel, int64_t weights, int64_t by)  \
    {                                                                                                             \
        const __m256 lo = _mm256_set1_ps(d->lo), hi = _mm256_set1_ps(d->hi);                                      \
        const int64_t step = d->step, k_step = d->k_step, some[2] = {d->lanes - channel, d->lanes - channel - 8}; \
        const float *p = d->x + pixel * step, *q = p + 3 * step, *w = d->w + channel, *ahead = d->ahead;          \
        __m256 s[P][2];                                                                                           \
        _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++)                                                       \
        {                                                                                                         \
            __m256 start = d->start ? load_first(d->start + channel + 8 * v, some[v]) : _mm256_setzero_ps();      \
            _Pragma("GCC unroll 6") for (int i = 0; i < P; i++) s[i][v] = start;                                  \
        }                                                                                                         \
        for (int64_t k = d->k; k > 0; k--, w += weights, p += k_step, q += k_step, ahead += by) {                 \
            __m256 a = _mm256_loadu_ps(w), b = _mm256_loadu_ps(w + 8);                                            \
            __builtin_prefetch(w + 16 * weights);                                                                 \
            __builtin_prefetch(ahead, 0, 2);                                                                      \
            _Pragma("GCC unroll 6") for (int i = 0; i < P; i++)                                                   \
            {                                                                                                     \
                __m256 x = _mm256_broadcast_ss((i < 3 ? p : q) + i % 3 * step);                                   \
                s[i][0] = _mm256_fmadd_ps(x, a, s[i][0]);                                                         \
                s[i][1] = _mm256_fmadd_ps(x, b, s[i][1]);                                                         \
            }                                                                                                     \
        }                                                                                                         \
        if (some[1] >= 8 && !d->other) { /* the usual case, without questions */                                  \
            float *to = d->out + pixel * d->out_pitch + channel;                                                  \
            _Pragma("GCC unroll 6") for (int i = 0; i < P; i++, to += d->out_pitch)                               \
            {                                                                                                     \
                _mm256_storeu_ps(to, _mm256_min_ps(hi, _mm256_max_ps(lo, s[i][0])));                              \
                _mm256_storeu_ps(to + 8, _mm256_min_ps(hi, _mm256_max_ps(lo, s[i][1])));                          \
            }                                                                                                     \
            return;                                                                                               \
        }                                                                                                         \
        _Pragma("GCC unroll 6") for (int i = 0; i < P; i++) _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++)   \
        {                                                                                                         \
            int64_t c = channel + 8 * v;                                                                          \
            __m256 y = s[i][v];                                                                                   \
            if (some[v] <= 0) continue;                                                                           \
            if (d->other) y = _mm256_add_ps(y, load_first(d->other + (pixel + i) * d->other_pitch + c, some[v])); \
            y = _mm256_min_ps(hi, _mm256_max_ps(lo, y));                                                          \
            store_first(d->out + (pixel + i) * d->out_pitch + c, some[v], y);                                     \
        }                                                                                                         \
    }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)

/* In tiles of nearly the same height. */
static void sum_points(const gale__simd_point *d, int64_t pixels, int64_t channels)
{
    static void (*const tiles[])(const gale__simd_point *d, int64_t pixel, int64_t channel, int64_t weights,
        int64_t by) = {tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};
    int64_t parts = (pixels + 5) / 6, most = parts < 2 ? pixels : parts < 3 ? (pixels + 1) / 2 : (pixels + 2) / 3;
    for (int64_t c = 0; c < channels; c += 16)
        for (int64_t i = 0, n; i < pixels; i += n) {
            n = pixels - i < most ? pixels - i : most;
            tiles[n - 1](d, i, c, channels, c || i ? 0 : 8);
        }
}

#define SPREAD(P)                                                                                               \
    static void spread_##P(const gale__simd_spread *d)                                                          \
    {                                                                                                           \
        const __m256 lo = _mm256_set1_ps(d->lo), hi = _mm256_set1_ps(d->hi);                                    \
        const float *w = d->w, *const *lane = d->lane;                                                          \
        const int64_t deep = d->k, shift = d->shift, some[2] = {d->lanes, d->lanes - 8};                        \
        __m256 s[P][2];                                                                                         \
        _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++)                                                     \
        {                                                                                                       \
            __m256 start = d->start ? load_first(d->start + 8 * v, some[v]) : _mm256_setzero_ps();              \
            _Pragma("GCC unroll 6") for (int i = 0; i < P; i++) s[i][v] = start;                                \
        }                                                                                                       \
        for (int64_t t = d->taps; t > 0; t--, lane += d->pitch) {                                               \
            const float *p[P];                                                                                  \
            _Pragma("GCC unroll 6") for (int i = 0; i < P; i++) p[i] = lane[i] + shift;                         \
            for (int64_t k = 0; k < deep; k++, w += 16) {                                                       \
                __m256 a = _mm256_loadu_ps(w), b = _mm256_loadu_ps(w + 8);                                      \
                __builtin_prefetch(w + 256);                                                                    \
                _Pragma("GCC unroll 6") for (int i = 0; i < P; i++)                                             \
                {                                                                                               \
                    __m256 x = _mm256_broadcast_ss(p[i] + k);                                                   \
                    s[i][0] = _mm256_fmadd_ps(x, a, s[i][0]);                                                   \
                    s[i][1] = _mm256_fmadd_ps(x, b, s[i][1]);                                                   \
                }                                                                                               \
            }                                                                                                   \
        }                                                                                                       \
        _Pragma("GCC unroll 6") for (int i = 0; i < P; i++) _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) \
        {                                                                                                       \
            __m256 y = s[i][v];                                                                                 \
            if (some[v] <= 0) continue;                                                                         \
            if (d->other) y = _mm256_add_ps(y, load_first(d->other + i * d->other_pitch + 8 * v, some[v]));     \
            y = _mm256_min_ps(hi, _mm256_max_ps(lo, y));                                                        \
            store_first(d->out + i * d->out_pitch + 8 * v, some[v], y);                                         \
        }                                                                                                       \
    }
SPREAD(1)
SPREAD(2)
SPREAD(3)
SPREAD(4)
SPREAD(5)
SPREAD(6)

static void spread(const gale__simd_spread *d, int64_t pixels)
{
    static void (*const fn[])(const gale__simd_spread *d) = {
        spread_1, spread_2, spread_3, spread_4, spread_5, spread_6};
    fn[pixels - 1](d);
}

/* Eight pixels of eight channels, turned. */
static void turn(const float *sums, __m256 y[8])
{
    __m256 a[8], b[8];
    for (int i = 0; i < 4; i++) {
        const float *s = sums + i * GALE__POINT_CHANNELS, *t = s + 4 * GALE__POINT_CHANNELS;
        a[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(s)), _mm_loadu_ps(t), 1);
        a[i + 4] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(s + 4)), _mm_loadu_ps(t + 4), 1);
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]), b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
        b[i + 2] = _mm256_unpacklo_ps(a[i + 2], a[i + 3]), b[i + 3] = _mm256_unpackhi_ps(a[i + 2], a[i + 3]);
        y[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44), y[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        y[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44), y[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
}

/* Row r, eight lanes from `lane` on. */
static void put(const gale__simd_done *d, int64_t r, int64_t lane, __m256 x)
{
    if (d->bias) x = _mm256_add_ps(x, _mm256_set1_ps(d->bias[r * d->bias_pitch]));
    if (d->scale) x = _mm256_mul_ps(x, _mm256_set1_ps(d->scale[r * d->scale_pitch]));
    if (d->other) x = _mm256_add_ps(x, load_first(d->other + r * d->other_pitch + lane, d->lanes - lane));
    x = _mm256_min_ps(_mm256_set1_ps(d->hi), _mm256_max_ps(_mm256_set1_ps(d->lo), x));
    store_first(d->out + r * d->out_pitch + lane, d->lanes - lane, x);
}

static void done(const gale__simd_done *d, const float *sums)
{
    for (int64_t lane = 0; lane < d->lanes; lane += 8)
        for (int64_t r = 0; r < d->rows; r += 8) {
            __m256 y[8];
            turn(sums + lane * GALE__POINT_CHANNELS + r, y);
            for (int64_t c = 0; c < 8 && r + c < d->rows; c++) put(d, r + c, lane, y[c]);
        }
}

#define POINT(P, V, unit) \
    static void point_##unit##_##V##_##P(const gale__simd_point *d) { sum_points(d, P, 16 * V); }
#endif

#define POINTS(X, v, u) \
    X(1, v, u)          \
    X(2, v, u)          \
    X(3, v, u)          \
    X(4, v, u)          \
    X(5, v, u) X(6, v, u) X(7, v, u) X(8, v, u) X(9, v, u) X(10, v, u) X(11, v, u) X(12, v, u) X(13, v, u) X(14, v, u)
POINTS(POINT, 1, 0)
POINTS(POINT, 2, 0)
POINTS(POINT, 1, 1)
POINTS(POINT, 2, 1)

/* P results of a vector of channels, S places apart, of T taps across: a place, once loaded, serves all of them.  edge:
 * places outside [lo, hi) are. */
#define WIDE(P, S, T, edge)                                                                                          \
    static void wide_##S##_##T##_##edge##_##P(                                                                       \
        const gale__simd_wide *d, float *y, const float *x, const float *w, int64_t lo, int64_t hi, VEC bias)        \
    {                                                                                                                \
        const VEC low = VEC_(set1)(d->lo), high = VEC_(set1)(d->hi);                                                 \
        const int64_t place = d->place, pitch = d->channels, y_step = d->y_step;                                     \
        VEC s[P];                                                                                                    \
        _Pragma("GCC unroll 8") for (int i = 0; i < P; i++) s[i] = bias;                                             \
        for (int64_t u = d->first; u < d->last; u++) {                                                               \
            const float *from = x + u * d->hop_y, *tap = w + u * T * pitch;                                          \
            VEC k[T];                                                                                                \
            _Pragma("GCC unroll 7") for (int t = 0; t < T; t++) k[t] = VEC_(loadu)(tap + t * pitch);                 \
            _Pragma("GCC unroll 32") for (int j = 0; j < (P - 1) * S + T; j++, from += place)                        \
            {                                                                                                        \
                if (edge && (j < lo || j >= hi)) continue;                                                           \
                VEC v = VEC_(loadu)(from);                                                                           \
                _Pragma("GCC unroll 7") for (int t = 0; t < T; t++) if (j >= t && (j - t) % S == 0 && j - t < P * S) \
                    s[(j - t) / S] = VEC_(fmadd)(k[t], v, s[(j - t) / S]);                                           \
            }                                                                                                        \
        }                                                                                                            \
        _Pragma("GCC unroll 8") for (int i = 0; i < P; i++)                                                          \
            VEC_(storeu)(y + i * y_step, VEC_(min)(high, VEC_(max)(low, s[i])));                                     \
    }
#define WIDES(X, S, T, e) \
    X(1, S, T, e) X(2, S, T, e) X(3, S, T, e) X(4, S, T, e) X(5, S, T, e) X(6, S, T, e) X(7, S, T, e) X(8, S, T, e)
#define FORMS(X, S, T) WIDES(X, S, T, 0) WIDES(X, S, T, 1)
/* clang-format off */
FORMS(WIDE, 1, 3) FORMS(WIDE, 1, 5) FORMS(WIDE, 1, 7) FORMS(WIDE, 2, 3) FORMS(WIDE, 2, 5) FORMS(WIDE, 2, 7)
/* clang-format on */
#define ENTRY(P, S, T, e) wide_##S##_##T##_##e##_##P,
#define ENTRIES(S, T)                                      \
    {                                                      \
        {WIDES(ENTRY, S, T, 0)}, { WIDES(ENTRY, S, T, 1) } \
    }
    typedef void wide_fn(
        const gale__simd_wide *d, float *y, const float *x, const float *w, int64_t lo, int64_t hi, VEC bias);

/* The last vector of channels may overlap the one before. */
static void wide(const gale__simd_wide *d, int64_t first, int64_t channels)
{
    enum { MOST = 8 };
    static wide_fn *const fn[2][3][2][MOST] = {
        {ENTRIES(1, 3), ENTRIES(1, 5), ENTRIES(1, 7)}, {ENTRIES(2, 3), ENTRIES(2, 5), ENTRIES(2, 7)}};
    wide_fn *const(*form)[MOST] = fn[d->step - 1][d->across / 2 - 1];
    for (int64_t at = 0, c, end = first + channels; at < channels; at += VEC_LANES) {
        c = first + at + VEC_LANES <= end ? first + at : end - VEC_LANES;
        VEC bias = d->bias ? VEC_(loadu)(d->bias + c) : VEC_(setzero)();
        for (int64_t i = 0, n; i < d->columns; i += n) {
            int64_t parts = (d->columns - i + MOST - 1) / MOST, lo = -d->inside - i * d->step, hi = lo + d->extent;
            n = (d->columns - i + parts - 1) / parts;
            form[lo > 0 || hi < (n - 1) * d->step + d->across][n - 1](
                d, d->y + i * d->y_step + c, d->x + i * d->step * d->place + c, d->w + c, lo, hi, bias);
        }
    }
}

#undef ENTRY
#define ENTRY(P, v, u) t->point[u][v - 1][P] = point_##u##_##v##_##P;
void SIMD(last)(gale__simd *t)
{
    POINTS(ENTRY, 1, 0)
    POINTS(ENTRY, 2, 0)
    POINTS(ENTRY, 1, 1)
    POINTS(ENTRY, 2, 1)
    t->wide = wide;
    t->spread = spread;
#ifdef __AVX512F__
    t->spread_pixels = 14;
    t->spread_channels = 32;
#else
    t->upright_done = t->point_done = done;
    t->spread_pixels = 6;
    t->spread_channels = 16;
#endif
}
#else
void SIMD(last)(gale__simd *t) { (void)t; }
#endif
