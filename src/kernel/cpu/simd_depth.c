/* Convolutions of one channel over a map that is read in place.  A vector is 16 neighbouring results of a row (on NEON
 * 8, in two registers); up to 8 rows of results are summed together, so that a row of the map, once loaded for a tap
 * across, serves all taps down.  Loads leave out what is beside the map, and where results are two places apart they
 * take every second one. */
#include "kernel/cpu/simd_isa.h"

#ifdef __AVX512F__
#include "kernel/cpu/simd_lanes.h"

/* The places of 16 results. */
M_INLINE __m512 take(const float *p, const uint16_t *mask, bool apart)
{
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    __m512 x = _mm512_maskz_loadu_ps(mask[0], p);
    return apart ? _mm512_permutex2var_ps(x, even, _mm512_maskz_loadu_ps(mask[1], p + LANES)) : x;
}

/* Rows of wide maps that come next are fetched: where pages end the processor does not. */
enum { FETCHED = 2 * LANES };
M_INLINE void fetch(const float *p, int vectors)
{
    for (int j = 0; j < vectors; j++) __builtin_prefetch(p + j * (int)LANES);
}

/* R rows of results that are S rows of the map apart, of T taps down: x, y, top and bottom as in a strip.  Only the
 * first and the last T - 1 rows of the map may be outside. */
#define ROWS(R, S, T) (S * (R - 1) + T)
#define OUTSIDE(i, R, S, T) ((i < T - 1 && i < top) || (i > ROWS(R, S, T) - T && i >= bottom))
#define BLOCK(R, S, T)                                                                                                 \
    M_INLINE void block_##R##_##S##_##T(const gale__simd_depth *d, const gale__simd_strip *a, float *y,                \
        const float *x, int64_t top, int64_t bottom, __m512 bias)                                                      \
    {                                                                                                                  \
        const __m512 lo = _mm512_set1_ps(a->lo), hi = _mm512_set1_ps(a->hi);                                           \
        int64_t pitch = a->pitch, across = d->across, hop = d->hop;                                                    \
        const uint16_t *mask = d->mask[0];                                                                             \
        for (int64_t left = d->width; left > 0; left -= LANES, x += S * LANES, y += LANES, mask += S) {                \
            __m512 s[R];                                                                                               \
            const float *p = x, *w = a->w;                                                                             \
            const uint16_t *m = mask;                                                                                  \
            _Pragma("GCC unroll 8") for (int r = 0; r < R; r++) s[r] = _mm512_setzero_ps();                            \
            for (int64_t u = 0; u < across; u++, p += hop, m += GALE__DEPTH_VECTORS, w++) {                            \
                __m512 v[ROWS(R, S, T)];                                                                               \
                _Pragma("GCC unroll 32") for (int i = 0; i < ROWS(R, S, T); i++) v[i] =                                \
                    OUTSIDE(i, R, S, T) ? _mm512_setzero_ps() : take(p + i * pitch, m, S == 2);                        \
                _Pragma("GCC unroll 8") for (int t = 0; t < T; t++)                                                    \
                {                                                                                                      \
                    __m512 k = _mm512_set1_ps(w[t * across]);                                                          \
                    _Pragma("GCC unroll 8") for (int r = 0; r < R; r++) s[r] = _mm512_fmadd_ps(k, v[S * r + t], s[r]); \
                }                                                                                                      \
            }                                                                                                          \
            if (d->width > FETCHED)                                                                                    \
                for (int i = ROWS(R, S, T); i < ROWS(R, S, T) + R * S; i++) fetch(x + i * pitch, S);                   \
            __mmask16 some = (__mmask16)(left >= 16 ? 0xffff : (1 << left) - 1);                                       \
            _Pragma("GCC unroll 8") for (int r = 0; r < R; r++) _mm512_mask_storeu_ps(                                 \
                y + r * a->y_pitch, some, _mm512_min_ps(hi, _mm512_max_ps(lo, _mm512_add_ps(s[r], bias))));            \
        }                                                                                                              \
    }
/* All rows of so many channels; the last R are taken together, though some of them may be done. */
#define DEPTH(R, S, T)                                                                                                 \
    BLOCK(R, S, T)                                                                                                     \
    static void depth_##R##_##S##_##T(const gale__simd_depth *d, gale__simd_strip a, int64_t channels)                 \
    {                                                                                                                  \
        for (; channels > 0; channels--, a.x += a.x_next, a.y += a.y_next, a.w += a.w_next) {                          \
            __m512 bias = _mm512_set1_ps(a.bias ? *a.bias : -0.0f);                                                    \
            for (int64_t at = 0, row; at < a.rows; at += R) {                                                          \
                row = at + R <= a.rows ? at : a.rows - R;                                                              \
                block_##R##_##S##_##T(                                                                                 \
                    d, &a, a.y + row * a.y_pitch, a.x + row * S * a.pitch, a.top - row * S, a.bottom - row * S, bias); \
            }                                                                                                          \
            if (a.bias) a.bias += a.bias_next;                                                                         \
        }                                                                                                              \
    }
#define DEPTHS(S, T) DEPTH(1, S, T) DEPTH(2, S, T) DEPTH(4, S, T) DEPTH(7, S, T) DEPTH(8, S, T)
/* clang-format off */
DEPTHS(1, 3) DEPTHS(1, 5) DEPTHS(1, 7) DEPTHS(2, 3) DEPTHS(2, 5) DEPTHS(2, 7)
#define ENTRY(S, T) {depth_1_##S##_##T, depth_2_##S##_##T, depth_4_##S##_##T, depth_7_##S##_##T, depth_8_##S##_##T}
    /* clang-format on */

    static void depth(const gale__simd_depth *d, const gale__simd_strip *a, int64_t channels)
{
    enum { FORMS = 5 };
    static const int64_t rows_of[FORMS] = {1, 2, 4, 7, 8};
    typedef void depth_fn(const gale__simd_depth *d, gale__simd_strip a, int64_t channels);
    static depth_fn *const fn[2][3][FORMS] = {
        {ENTRY(1, 3), ENTRY(1, 5), ENTRY(1, 7)}, {ENTRY(2, 3), ENTRY(2, 5), ENTRY(2, 7)}};
    int form = FORMS - 1;
    while (rows_of[form] > a->rows || (form == FORMS - 1 && a->rows % 8 && (a->rows + 6) / 7 == (a->rows + 7) / 8))
        form--;
    fn[d->step - 1][d->down / 2 - 1][form](d, *a, channels);
}

void SIMD(depth)(gale__simd *t)
{
    t->rows.depth = depth;
    t->rows.depth_apart = INT64_MAX;
}
#elif defined(__aarch64__)
#include "kernel/cpu/simd_lanes.h"

enum { COLUMNS = 2 * LANES, ROWS_MOST = 2 * 6 + 7, QUADS_MOST = 4 };

/* The border of a map.  Elements beside a row are loaded and then set to 0, if there is memory on both sides of the map
 * (amid); otherwise those inside are copied first. */
typedef struct edge {
    bool amid;
    uint32x4_t inside[QUADS_MOST]; /* by vector: all bits of the lanes that are inside the map */
    float copy[ROWS_MOST][QUADS_MOST * LANES];
} edge;

static void find_edge(edge *e, const float *x, int64_t pitch, unsigned mask, int64_t top, int64_t bottom, int rows)
{
    static const uint32_t bits[] = {1, 2, 4, 8};
    for (int j = 0; j < QUADS_MOST; j++) e->inside[j] = vtstq_u32(vdupq_n_u32(mask >> (j * LANES)), vld1q_u32(bits));
    for (int i = 0; i < rows && !e->amid; i++, x += pitch)
        for (int j = 0; j < QUADS_MOST * LANES; j++) e->copy[i][j] = i >= top && i < bottom && mask >> j & 1 ? x[j] : 0;
}

/* The places of four results, `step` apart. */
M_INLINE float32x4_t take(const float *p, int step, const uint32x4_t *inside)
{
    float32x4_t v[2];
    for (int j = 0; j < step; j++) {
        v[j] = vld1q_f32(p + j * LANES);
        if (inside) v[j] = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v[j]), inside[j]));
    }
    return step == 1 ? v[0] : vuzp1q_f32(v[0], v[1]);
}

/* One tap across of `n` vectors by `rows` rows of results, with all its taps down; inside: NULL if all places are. */
M_INLINE void add_tap(float32x4_t (*sums)[2], const float *x, int64_t pitch, const uint32x4_t *inside, const float *w,
    int64_t across, int64_t top, int64_t bottom, int rows, int n, int step, int down)
{
    float32x4_t k[7];
    const int height = step * (rows - 1) + down;
    _Pragma("GCC unroll 7") for (int t = 0; t < down; t++) k[t] = vdupq_n_f32(w[t * across]);
    _Pragma("GCC unroll 32") for (int i = 0; i < height; i++, x += pitch)
    {
        bool border = i < down - 1 || i > height - down, outside = border && (i < top || i >= bottom);
        _Pragma("GCC unroll 2") for (int j = 0; j < n; j++)
        {
            float32x4_t v =
                outside ? vdupq_n_f32(0) : take(x + j * step * LANES, step, inside ? inside + j * step : NULL);
            _Pragma("GCC unroll 7") for (int t = 0; t < down;
                                         t++) if (i >= t && (i - t) % step == 0 && (i - t) / step < rows)
                sums[(i - t) / step][j] = vfmaq_f32(sums[(i - t) / step][j], k[t], v);
        }
    }
}

M_INLINE void store_some(float *y, float32x4_t x, int64_t n)
{
    float some[LANES];
    if (n >= LANES) {
        vst1q_f32(y, x);
        return;
    }
    vst1q_f32(some, x);
    for (int64_t i = 0; i < n; i++) y[i] = some[i];
}

/* Results [column, column + 4 n) of some rows, as far as there are so many. */
M_INLINE void block(const gale__simd_depth *d, const gale__simd_strip *a, edge *e, float *y, const float *x,
    int64_t column, int64_t top, int64_t bottom, int rows, int n, int step, int down)
{
    const unsigned all = (1u << (n * step * LANES)) - 1;
    const float bias = a->bias ? *a->bias : -0.0f;
    int64_t place = column * step;
    float32x4_t sums[7][2];
    _Pragma("GCC unroll 7") for (int r = 0; r < rows; r++) sums[r][0] = sums[r][1] = vdupq_n_f32(0);
    for (int64_t u = 0; u < d->across; u++) {
        const float *from = x + place + u * d->hop, *w = a->w + u;
        unsigned mask = d->mask[u][place / 16] >> (place % 16) & all;
        if (mask == all) {
            add_tap(sums, from, a->pitch, NULL, w, d->across, top, bottom, rows, n, step, down);
            continue;
        }
        find_edge(e, from, a->pitch, mask, top, bottom, step * (rows - 1) + down);
        if (!e->amid) from = e->copy[0];
        add_tap(sums, from, e->amid ? a->pitch : QUADS_MOST * LANES, e->inside, w, d->across, top, bottom, rows, n,
            step, down);
    }
    _Pragma("GCC unroll 7") for (int r = 0; r < rows; r++) _Pragma("GCC unroll 2") for (int j = 0; j < n; j++)
    {
        float32x4_t v = vaddq_f32(sums[r][j], vdupq_n_f32(bias));
        v = vminq_f32(vdupq_n_f32(a->hi), vmaxq_f32(vdupq_n_f32(a->lo), v));
        store_some(y + r * a->y_pitch + column + j * LANES, v, d->width - column - j * LANES);
    }
}

/* All rows of so many channels; the last ones are taken together, though some of them may be done. */
#define DEPTH(R, S, T)                                                                                              \
    static void depth_##R##_##S##_##T(const gale__simd_depth *d, gale__simd_strip a, int64_t channels)              \
    {                                                                                                               \
        edge e;                                                                                                     \
        bool apart = a.x_next >= QUADS_MOST * LANES;                                                                \
        for (int64_t i = 0; i < channels; i++, a.x += a.x_next, a.y += a.y_next, a.w += a.w_next) {                 \
            e.amid = apart && i > 0 && i < channels - 1;                                                            \
            for (int64_t at = 0, row, c; at < a.rows; at += R) {                                                    \
                row = at + R <= a.rows ? at : a.rows - R;                                                           \
                float *y = a.y + row * a.y_pitch;                                                                   \
                const float *x = a.x + row * S * a.pitch;                                                           \
                int64_t top = a.top - row * S, bottom = a.bottom - row * S;                                         \
                for (c = 0; c + LANES < d->width; c += COLUMNS) block(d, &a, &e, y, x, c, top, bottom, R, 2, S, T); \
                if (c < d->width) block(d, &a, &e, y, x, c, top, bottom, R, 1, S, T);                               \
            }                                                                                                       \
            if (a.bias) a.bias += a.bias_next;                                                                      \
        }                                                                                                           \
    }
#define DEPTHS(S, T) DEPTH(1, S, T) DEPTH(4, S, T) DEPTH(7, S, T)
/* clang-format off */
DEPTHS(1, 3) DEPTHS(1, 5) DEPTHS(1, 7) DEPTHS(2, 3) DEPTHS(2, 5) DEPTHS(2, 7)
#define ENTRY(S, T) {depth_1_##S##_##T, depth_4_##S##_##T, depth_7_##S##_##T}
    /* clang-format on */

    static void depth(const gale__simd_depth *d, const gale__simd_strip *a, int64_t channels)
{
    typedef void depth_fn(const gale__simd_depth *d, gale__simd_strip a, int64_t channels);
    static depth_fn *const fn[2][3][3] = {
        {ENTRY(1, 3), ENTRY(1, 5), ENTRY(1, 7)}, {ENTRY(2, 3), ENTRY(2, 5), ENTRY(2, 7)}};
    int64_t by_7 = (a->rows + 6) / 7 * 7, by_4 = (a->rows + 3) / 4 * 4; /* rows that are computed */
    int form = a->rows < 4 ? 0 : a->rows < 7 || by_7 > by_4 + by_4 / 16 ? 1 : 2;
    fn[d->step - 1][d->down / 2 - 1][form](d, *a, channels);
}

void SIMD(depth)(gale__simd *t)
{
    t->rows.depth = depth;
    t->rows.depth_apart = 42; /* beyond, it takes longer to separate places for each tap than to copy them once */
}
#else
void SIMD(depth)(gale__simd *t) { (void)t; }
#endif
