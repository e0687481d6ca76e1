/* Micro-kernels whose vectors are rows of the result: 16 or 32 rows of up to 14 lanes, each lane an element of b that
 * is broadcast.  So lanes need not fill a vector, nor be adjacent: a row of 7 or 28 columns wastes nothing, and windows
 * with strides read memory as it is.  Finished tiles are turned, so that results are stored lane by lane as usual. AVX2
 * sums 16 rows of up to 6 lanes at a time. */
#include "kernel/cpu/simd_isa.h"

#ifdef __AVX512F__
#include <immintrin.h>
enum { PITCH = GALE__UPRIGHT_ROWS, AHEAD = 4096 }; /* AHEAD: as in simd_gemm.inc */

/* Lanes are two halves, which may be rows of a map, if their number is even. */
#define HALF(lanes) (lanes % 2 ? lanes : lanes / 2)
#define FETCH_AHEAD(lanes)                                                         \
    {                                                                              \
        const float *f = b + offset[i + GALE__SIMD_AHEAD];                         \
        __builtin_prefetch(f);                                                     \
        __builtin_prefetch(f + (lanes % 2 ? 0 : jump) + (HALF(lanes) - 1) * step); \
    }
/* Any step: three lanes from one pointer, since processors add an index once or twice to it.  Steps of 1 and 2 are part
 * of the instructions, which leaves these to the sums. */
#define POINTERS(lanes)                                                                                               \
    const float *p[2][5] = {{b + offset[i]}, {b + offset[i] + jump}};                                                 \
    _Pragma("GCC unroll 2") for (int h = 0; h < 2; h++) _Pragma("GCC unroll 5") for (int q = 1; q < 5; q++) p[h][q] = \
        p[h][q - 1] + 3 * step;
#define POINTERS_NEAR(lanes) const float *p[2] = {b + offset[i], b + offset[i] + jump};
#define LANE(lanes, l) p[l / HALF(lanes)][l % HALF(lanes) / 3][l % HALF(lanes) % 3 * step]
#define LANE_NEAR(lanes, l) p[l / HALF(lanes)][l % HALF(lanes) * step]
#define SUM_OF(name, lanes, vectors, STEP, POINTERS, LANE)                                                          \
    static void name(float *sums, bool more, const gale__simd_upright *u, const float *a, const float *b, size_t k) \
    {                                                                                                               \
        __m512 acc[lanes][vectors];                                                                                 \
        const int64_t step = STEP, pitch = u->a_pitch, jump = u->jump;                                              \
        const int32_t *offset = u->offset, *fetch = u->fetch;                                                       \
        const bool ahead = u->ahead;                                                                                \
        _Pragma("GCC unroll 14") for (int l = 0; l < lanes; l++)                                                    \
            _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) acc[l][v] = _mm512_setzero_ps();              \
        for (size_t i = 0; i < k; i++, a += pitch) {                                                                \
            __m512 w[vectors];                                                                                      \
            _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++)                                               \
            {                                                                                                       \
                w[v] = _mm512_loadu_ps(a + 16 * v);                                                                 \
                __builtin_prefetch((const char *)(a + 16 * v) + AHEAD);                                             \
            }                                                                                                       \
            if (ahead) FETCH_AHEAD(lanes) else __builtin_prefetch(b + fetch[i]);                                    \
            POINTERS(lanes)                                                                                         \
            _Pragma("GCC unroll 14") for (int l = 0; l < lanes; l++)                                                \
            {                                                                                                       \
                __m512 x = _mm512_set1_ps(LANE(lanes, l));                                                          \
                _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) acc[l][v] =                               \
                    _mm512_fmadd_ps(x, w[v], acc[l][v]);                                                            \
            }                                                                                                       \
        }                                                                                                           \
        _Pragma("GCC unroll 14") for (int l = 0; l < lanes; l++)                                                    \
            _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++)                                               \
        {                                                                                                           \
            float *to = sums + l * PITCH + 16 * v;                                                                  \
            _mm512_storeu_ps(to, more ? _mm512_add_ps(_mm512_loadu_ps(to), acc[l][v]) : acc[l][v]);                 \
        }                                                                                                           \
    }
#define SUM(lanes, vectors)                                                        \
    SUM_OF(sum_##vectors##_0_##lanes, lanes, vectors, u->step, POINTERS, LANE)     \
    SUM_OF(sum_##vectors##_1_##lanes, lanes, vectors, 1, POINTERS_NEAR, LANE_NEAR) \
    SUM_OF(sum_##vectors##_2_##lanes, lanes, vectors, 2, POINTERS_NEAR, LANE_NEAR)
#define SUMS(X, v) \
    X(1, v) X(2, v) X(3, v) X(4, v) X(5, v) X(6, v) X(7, v) X(8, v) X(9, v) X(10, v) X(11, v) X(12, v) X(13, v) X(14, v)
SUMS(SUM, 1)
SUMS(SUM, 2)

/* Lanes l, l + 4, l + 8 and l + 12 of four rows. */
static inline __m512 quarters(const float *sums, int l)
{
    const float *s = sums + l * PITCH;
    __m512 x = _mm512_castps128_ps512(_mm_loadu_ps(s));
    x = _mm512_insertf32x4(x, _mm_loadu_ps(s + 4 * PITCH), 1);
    x = _mm512_insertf32x4(x, _mm_loadu_ps(s + 8 * PITCH), 2);
    return _mm512_insertf32x4(x, _mm_loadu_ps(s + 12 * PITCH), 3);
}

static inline __m512 pairs(__m512 x, __m512 y, bool high)
{
    __m512d a = _mm512_castps_pd(x), b = _mm512_castps_pd(y);
    return _mm512_castpd_ps(high ? _mm512_unpackhi_pd(a, b) : _mm512_unpacklo_pd(a, b));
}

static inline void put(const gale__simd_done *d, int64_t r, __mmask16 some, __m512 x)
{
    if (d->bias) x = _mm512_add_ps(x, _mm512_set1_ps(d->bias[r * d->bias_pitch]));
    if (d->scale) x = _mm512_mul_ps(x, _mm512_set1_ps(d->scale[r * d->scale_pitch]));
    if (d->other) x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(some, d->other + r * d->other_pitch));
    x = _mm512_min_ps(_mm512_set1_ps(d->hi), _mm512_max_ps(_mm512_set1_ps(d->lo), x));
    _mm512_mask_storeu_ps(d->out + r * d->out_pitch, some, x);
}

static void done(const gale__simd_done *d, const float *sums)
{
    __mmask16 some = (__mmask16)((1u << d->lanes) - 1);
    for (int64_t r = 0; r < d->rows; r += 4, sums += 4) {
        __m512 a = quarters(sums, 0), b = quarters(sums, 1), c = quarters(sums, 2), e = quarters(sums, 3);
        __m512 x = _mm512_unpacklo_ps(a, b), y = _mm512_unpackhi_ps(a, b), z = _mm512_unpacklo_ps(c, e),
               w = _mm512_unpackhi_ps(c, e);
        put(d, r, some, pairs(x, z, false));
        if (r + 1 < d->rows) put(d, r + 1, some, pairs(x, z, true));
        if (r + 2 < d->rows) put(d, r + 2, some, pairs(y, w, false));
        if (r + 3 < d->rows) put(d, r + 3, some, pairs(y, w, true));
    }
}

#define ENTRY(lanes, vectors)                                      \
    t->upright[0][vectors - 1][lanes] = sum_##vectors##_0_##lanes; \
    t->upright[1][vectors - 1][lanes] = sum_##vectors##_1_##lanes; \
    t->upright[2][vectors - 1][lanes] = sum_##vectors##_2_##lanes;
void SIMD(upright)(gale__simd *t)
{
    SUMS(ENTRY, 1)
    SUMS(ENTRY, 2)
    t->upright_done = t->point_done = done;
    t->upright_rows = GALE__UPRIGHT_ROWS;
}
#elif defined __AVX2__ && defined __FMA__
#include <immintrin.h>
enum { PITCH = GALE__UPRIGHT_ROWS, ROWS = 16, AHEAD = 4096 };

/* Some lanes of 16 rows.  Each has a pointer, so that its address is one, an offset and nothing to be added. */
enum { LANES_MOST = 6 };
typedef struct part {
    const float *a, *lane[LANES_MOST], *from; /* from: what `fetch` counts from */
    const int32_t *offset, *fetch;
    size_t k;
    float *sums;
    bool more;
} part;
typedef void part_sum(const part *d);
/* fetches: for later steps and tiles. */
#define STEP_OF(lanes, fetches, i)                                                       \
    {                                                                                    \
        __m256 u = _mm256_loadu_ps(a + (i)*ROWS), v = _mm256_loadu_ps(a + (i)*ROWS + 8); \
        const int64_t at = offset[i];                                                    \
        if (fetches) __builtin_prefetch((const char *)(a + (i)*ROWS) + AHEAD);           \
        if (fetches) __builtin_prefetch(from + fetch[i]);                                \
        _Pragma("GCC unroll 6") for (int l = 0; l < lanes; l++)                          \
        {                                                                                \
            __m256 x = _mm256_broadcast_ss(lane[l] + at);                                \
            s[l][0] = _mm256_fmadd_ps(x, u, s[l][0]);                                    \
            s[l][1] = _mm256_fmadd_ps(x, v, s[l][1]);                                    \
        }                                                                                \
    }
#define SUM_PART(lanes, fetches)                                                       \
    static void part_##lanes##_##fetches(const part *d)                                \
    {                                                                                  \
        const float *a = d->a, *from = d->from, *lane[lanes];                          \
        const int32_t *offset = d->offset, *fetch = d->fetch;                          \
        float *to = d->sums;                                                           \
        size_t k = d->k;                                                               \
        __m256 s[lanes][2];                                                            \
        (void)from;                                                                    \
        _Pragma("GCC unroll 6") for (int l = 0; l < lanes; l++)                        \
        {                                                                              \
            lane[l] = d->lane[l];                                                      \
            s[l][0] = s[l][1] = _mm256_setzero_ps();                                   \
        }                                                                              \
        for (; k > 1; k -= 2, a += 2 * ROWS, offset += 2, fetch += 2) {                \
            STEP_OF(lanes, fetches, 0)                                                 \
            STEP_OF(lanes, fetches, 1)                                                 \
        }                                                                              \
        if (k) STEP_OF(lanes, fetches, 0)                                              \
        if (d->more) {                                                                 \
            _Pragma("GCC unroll 6") for (int l = 0; l < lanes; l++)                    \
            {                                                                          \
                s[l][0] = _mm256_add_ps(_mm256_loadu_ps(to + l * PITCH), s[l][0]);     \
                s[l][1] = _mm256_add_ps(_mm256_loadu_ps(to + l * PITCH + 8), s[l][1]); \
            }                                                                          \
        }                                                                              \
        _Pragma("GCC unroll 6") for (int l = 0; l < lanes; l++)                        \
        {                                                                              \
            _mm256_storeu_ps(to + l * PITCH, s[l][0]);                                 \
            _mm256_storeu_ps(to + l * PITCH + 8, s[l][1]);                             \
        }                                                                              \
    }
/* clang-format off */
SUM_PART(1, 0) SUM_PART(2, 0) SUM_PART(3, 0) SUM_PART(4, 0) SUM_PART(5, 0) SUM_PART(6, 0)
SUM_PART(1, 1) SUM_PART(2, 1) SUM_PART(3, 1) SUM_PART(4, 1) SUM_PART(5, 1) SUM_PART(6, 1)
    /* clang-format on */

    /* In parts of nearly the same number of lanes; the first one fetches for all, unless they are far apart. */
    static void sum(
        float *sums, bool more, const gale__simd_upright *u, const float *a, const float *b, size_t k, int lanes)
{
    static part_sum *const parts[2][LANES_MOST + 1] = {
        {NULL, part_1_0, part_2_0, part_3_0, part_4_0, part_5_0, part_6_0},
        {NULL, part_1_1, part_2_1, part_3_1, part_4_1, part_5_1, part_6_1}};
    int half = lanes % 2 ? lanes : lanes / 2;
    part d = {.a = a, .offset = u->offset, .k = k, .more = more};
    d.fetch = u->ahead ? u->offset + GALE__SIMD_AHEAD : u->fetch;
    for (int l = 0, left = (lanes + LANES_MOST - 1) / LANES_MOST, n; l < lanes; l += n, left--) {
        n = (lanes - l + left - 1) / left;
        for (int i = 0; i < n; i++) d.lane[i] = b + (l + i) % half * u->step + (l + i) / half * u->jump;
        d.from = u->ahead ? d.lane[0] : b;
        d.sums = sums + l * PITCH;
        parts[u->ahead || !l][n](&d);
    }
}
#define SUM(lanes, v)                                                                                  \
    static void sum_##lanes(                                                                           \
        float *sums, bool more, const gale__simd_upright *u, const float *a, const float *b, size_t k) \
    {                                                                                                  \
        sum(sums, more, u, a, b, k, lanes);                                                            \
    }
#define SUMS(X, v) \
    X(1, v) X(2, v) X(3, v) X(4, v) X(5, v) X(6, v) X(7, v) X(8, v) X(9, v) X(10, v) X(11, v) X(12, v) X(13, v) X(14, v)
SUMS(SUM, 0)
#define ENTRY(lanes, v) t->upright[0][0][lanes] = t->upright[1][0][lanes] = t->upright[2][0][lanes] = sum_##lanes;
void SIMD(upright)(gale__simd *t)
{
    SUMS(ENTRY, 0)
    t->upright_rows = ROWS;
}
#else
void SIMD(upright)(gale__simd *t) { (void)t; }
#endif
