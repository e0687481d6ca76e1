/* Convolutions over values that are stored channels-last: vectors are channels of the result.  Of 1 x 1 convolutions up
 * to 14 pixels by 32 channels are summed in registers; elements of pixels are loaded from the map into all lanes.  By
 * channel, up to 8 neighbouring results of 16 channels are summed together, with one load for each tap. */
#include "kernel/cpu/simd_isa.h"

#ifdef __AVX512F__
#include "kernel/cpu/simd_lanes.h"

M_INLINE __mmask16 first_lanes(int64_t n) { return (__mmask16)(n >= 16 ? 0xffff : n > 0 ? (1 << n) - 1 : 0); }

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
#define POINT(P, V, unit)                                                                                        \
    static void point_##unit##_##V##_##P(const gale__simd_point *d)                                              \
    {                                                                                                            \
        const __mmask16 some[2] = {first_lanes(d->lanes), first_lanes(d->lanes - 16)};                           \
        const __m512 lo = _mm512_set1_ps(d->lo), hi = _mm512_set1_ps(d->hi);                                     \
        const int64_t step = d->step, k_step = unit ? 1 : d->k_step;                                             \
        const float *x0 = d->x, *weights = d->w, *p[5];                                                          \
        int64_t k = d->k;                                                                                        \
        __m512 s[P][V];                                                                                          \
        _Pragma("GCC unroll 5") for (int q = 0; q < 5; q++) p[q] = x0 + 3 * q * step;                            \
        _Pragma("GCC unroll 2") for (int v = 0; v < V; v++)                                                      \
        {                                                                                                        \
            __m512 start = d->start ? _mm512_maskz_loadu_ps(some[v], d->start + 16 * v) : _mm512_setzero_ps();   \
            _Pragma("GCC unroll 14") for (int i = 0; i < P; i++)                                                 \
            {                                                                                                    \
                s[i][v] = start;                                                                                 \
                __builtin_prefetch(d->out + i * d->out_pitch + 16 * v, 1);                                       \
                if (d->other) __builtin_prefetch(d->other + i * d->other_pitch + 16 * v);                        \
            }                                                                                                    \
        }                                                                                                        \
        const float *next = d->next, *ahead = d->ahead;                                                          \
        for (; unit && k >= 4; k -= 4, weights += 64 * V, next += 64, ahead += 32) {                             \
            _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++) __builtin_prefetch(next + 16 * j);               \
            __builtin_prefetch(ahead);                                                                           \
            __builtin_prefetch(ahead + 16);                                                                      \
            _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++) POINT_STEP(P, V, j, weights + 16 * V * j)        \
                POINT_NEXT(4)                                                                                    \
        }                                                                                                        \
        for (; k > 0; k--, weights += 16 * V, ahead += 8) {                                                      \
            __builtin_prefetch(ahead);                                                                           \
            if (!unit) {                                                                                         \
                __builtin_prefetch(p[0] + 16 * k_step);                                                          \
                __builtin_prefetch(p[(P - 1) / 3] + (P - 1) % 3 * step + 16 * k_step);                           \
            }                                                                                                    \
            POINT_STEP(P, V, 0, weights)                                                                         \
            POINT_NEXT(k_step)                                                                                   \
        }                                                                                                        \
        _Pragma("GCC unroll 14") for (int i = 0; i < P; i++) _Pragma("GCC unroll 2") for (int v = 0; v < V; v++) \
        {                                                                                                        \
            __m512 y = s[i][v];                                                                                  \
            if (d->other)                                                                                        \
                y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(some[v], d->other + i * d->other_pitch + 16 * v));    \
            _mm512_mask_storeu_ps(                                                                               \
                d->out + i * d->out_pitch + 16 * v, some[v], _mm512_min_ps(hi, _mm512_max_ps(lo, y)));           \
        }                                                                                                        \
    }
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

/* P results of 16 channels, S places apart, of T taps across: a place, once loaded, serves all of them.  edge: places
 * outside [lo, hi) are. */
#define WIDE(P, S, T, edge)                                                                                          \
    static void wide_##S##_##T##_##edge##_##P(                                                                       \
        const gale__simd_wide *d, float *y, const float *x, const float *w, int64_t lo, int64_t hi, __m512 bias)     \
    {                                                                                                                \
        const __m512 low = _mm512_set1_ps(d->lo), high = _mm512_set1_ps(d->hi);                                      \
        const int64_t place = d->place, pitch = d->channels, y_step = d->y_step;                                     \
        __m512 s[P];                                                                                                 \
        _Pragma("GCC unroll 8") for (int i = 0; i < P; i++) s[i] = bias;                                             \
        for (int64_t u = d->first; u < d->last; u++) {                                                               \
            const float *from = x + u * d->hop_y, *tap = w + u * T * pitch;                                          \
            __m512 k[T];                                                                                             \
            _Pragma("GCC unroll 7") for (int t = 0; t < T; t++) k[t] = _mm512_loadu_ps(tap + t * pitch);             \
            _Pragma("GCC unroll 32") for (int j = 0; j < (P - 1) * S + T; j++, from += place)                        \
            {                                                                                                        \
                if (edge && (j < lo || j >= hi)) continue;                                                           \
                __m512 v = _mm512_loadu_ps(from);                                                                    \
                _Pragma("GCC unroll 7") for (int t = 0; t < T; t++) if (j >= t && (j - t) % S == 0 && j - t < P * S) \
                    s[(j - t) / S] = _mm512_fmadd_ps(k[t], v, s[(j - t) / S]);                                       \
            }                                                                                                        \
        }                                                                                                            \
        _Pragma("GCC unroll 8") for (int i = 0; i < P; i++)                                                          \
            _mm512_storeu_ps(y + i * y_step, _mm512_min_ps(high, _mm512_max_ps(low, s[i])));                         \
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
        const gale__simd_wide *d, float *y, const float *x, const float *w, int64_t lo, int64_t hi, __m512 bias);

/* The last vector of channels may overlap the one before. */
static void wide(const gale__simd_wide *d, int64_t first, int64_t channels)
{
    enum { MOST = 8 };
    static wide_fn *const fn[2][3][2][MOST] = {
        {ENTRIES(1, 3), ENTRIES(1, 5), ENTRIES(1, 7)}, {ENTRIES(2, 3), ENTRIES(2, 5), ENTRIES(2, 7)}};
    wide_fn *const(*form)[MOST] = fn[d->step - 1][d->across / 2 - 1];
    for (int64_t at = 0, c, end = first + channels; at < channels; at += 16) {
        c = first + at + 16 <= end ? first + at : end - 16;
        __m512 bias = d->bias ? _mm512_loadu_ps(d->bias + c) : _mm512_setzero_ps();
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
}
#else
void SIMD(last)(gale__simd *t) { (void)t; }
#endif
