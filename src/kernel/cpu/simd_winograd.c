/* Winograd's transforms for convolutions by 3 x 3, over rows of f32 whose lanes are tiles (see winograd.h).  One
 * function serves both directions of a tile: only where its rows begin differs. */
#include "kernel/cpu/simd_isa.h"
#include "kernel/cpu/simd_lanes.h"

typedef float quad __attribute__((vector_size(16)));

M_INLINE quad load4(const float *p)
{
    quad v;
    memcpy(&v, p, sizeof v);
    return v;
}
M_INLINE void store4(float *p, quad v) { memcpy(p, &v, sizeof v); }
/* s + a x, rounded once where the instruction set can. */
M_INLINE lanes add_scaled(lanes s, float a, lanes x)
{
    lanes by = a - (lanes){0};
#if defined(__AVX512F__)
    return (lanes)_mm512_fmadd_ps((__m512)by, (__m512)x, (__m512)s);
#elif defined(__AVX__) && defined(__FMA__)
    return (lanes)_mm256_fmadd_ps((__m256)by, (__m256)x, (__m256)s);
#elif defined(__ARM_NEON) && defined(__aarch64__)
    return (lanes)vfmaq_f32((float32x4_t)s, (float32x4_t)by, (float32x4_t)x);
#else
    return s + by * x;
#endif
}

/* The points 0, A, -A, B, -B and infinity: exact in f32, as are the numbers below, and chosen for the least error. */
#define A GALE__WINOGRAD_A
#define B GALE__WINOGRAD_B

M_INLINE void in_of_4(const lanes *d, lanes *r)
{
    lanes even = add_scaled(d[4], -B * B, d[2]), odd = add_scaled(d[3], -B * B, d[1]);
    r[0] = add_scaled(add_scaled(d[4], A * A * B * B, d[0]), -(A * A + B * B), d[2]);
    r[1] = add_scaled(even, A, odd);
    r[2] = add_scaled(even, -A, odd);
    even = add_scaled(d[4], -A * A, d[2]);
    odd = add_scaled(d[3], -A * A, d[1]);
    r[3] = add_scaled(even, B, odd);
    r[4] = add_scaled(even, -B, odd);
    r[5] = add_scaled(add_scaled(d[5], A * A * B * B, d[1]), -(A * A + B * B), d[3]);
}

M_INLINE void out_of_4(const lanes *m, lanes *y)
{
    lanes p = m[1] + m[2], q = m[1] - m[2], r = m[3] + m[4], s = m[3] - m[4];
    y[0] = m[0] + p + r;
    y[1] = add_scaled(A * q, B, s);
    y[2] = add_scaled(A * A * p, B * B, r);
    y[3] = add_scaled(add_scaled(m[5], A * A * A, q), B * B * B, s);
}

M_INLINE void in_of_2(const lanes *d, lanes *r)
{
    r[0] = d[0] - d[2];
    r[1] = d[1] + d[2];
    r[2] = d[2] - d[1];
    r[3] = d[1] - d[3];
}

M_INLINE void out_of_2(const lanes *m, lanes *y)
{
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] - m[3];
}

/* Squares of 4 x 4 are transposed in registers; the operation is its own inverse. */
M_INLINE void turn(const quad *s, quad *d)
{
    quad ac = __builtin_shufflevector(s[0], s[2], 0, 4, 1, 5), ac2 = __builtin_shufflevector(s[0], s[2], 2, 6, 3, 7);
    quad be = __builtin_shufflevector(s[1], s[3], 0, 4, 1, 5), be2 = __builtin_shufflevector(s[1], s[3], 2, 6, 3, 7);
    d[0] = __builtin_shufflevector(ac, be, 0, 4, 1, 5);
    d[1] = __builtin_shufflevector(ac, be, 2, 6, 3, 7);
    d[2] = __builtin_shufflevector(ac2, be2, 0, 4, 1, 5);
    d[3] = __builtin_shufflevector(ac2, be2, 2, 6, 3, 7);
}

static void split_4(float *d, int64_t pitch, const float *s, size_t n)
{
    for (size_t i = 0; i < n; i += 4, s += 16) {
        quad from[4] = {load4(s), load4(s + 4), load4(s + 8), load4(s + 12)}, to[4];
        turn(from, to);
        for (int p = 0; p < 4; p++) store4(d + p * pitch + (int64_t)i, to[p]);
    }
}

static void split_2(float *d, int64_t pitch, const float *s, size_t n)
{
    for (size_t i = 0; i < n; i += 4, s += 8) {
        quad x = load4(s), y = load4(s + 4);
        store4(d + i, __builtin_shufflevector(x, y, 0, 2, 4, 6));
        store4(d + pitch + (int64_t)i, __builtin_shufflevector(x, y, 1, 3, 5, 7));
    }
}

/* n vectors of each row, side by side. */
M_INLINE void weave_4(float *d, const lanes *y)
{
    float rows[4][LANES];
    for (int r = 0; r < 4; r++) store(rows[r], y[r]);
    for (int i = 0; i < (int)LANES; i += 4, d += 16) {
        quad from[4] = {load4(rows[0] + i), load4(rows[1] + i), load4(rows[2] + i), load4(rows[3] + i)}, to[4];
        turn(from, to);
        for (int p = 0; p < 4; p++) store4(d + 4 * p, to[p]);
    }
}

M_INLINE void weave_2(float *d, const lanes *y)
{
    float rows[2][LANES];
    for (int r = 0; r < 2; r++) store(rows[r], y[r]);
    for (int i = 0; i < (int)LANES; i += 4, d += 8) {
        quad a = load4(rows[0] + i), b = load4(rows[1] + i);
        store4(d, __builtin_shufflevector(a, b, 0, 4, 1, 5));
        store4(d + 4, __builtin_shufflevector(a, b, 2, 6, 3, 7));
    }
}

#define TRANSFORMS(M)                                                                                          \
    static void in_##M(float *d, int64_t pitch, const float *const *s, size_t n)                               \
    {                                                                                                          \
        for (size_t i = 0; i < n; i += LANES) {                                                                \
            lanes x[(M) + 2], y[(M) + 2];                                                                      \
            _Pragma("GCC unroll 8") for (int r = 0; r < (M) + 2; r++) x[r] = load(s[r] + i);                   \
            in_of_##M(x, y);                                                                                   \
            _Pragma("GCC unroll 8") for (int r = 0; r < (M) + 2; r++) store(d + r * pitch + (int64_t)i, y[r]); \
        }                                                                                                      \
    }                                                                                                          \
    static void out_##M(float *d, int64_t pitch, const float *const *s, size_t n)                              \
    {                                                                                                          \
        for (size_t i = 0; i < n; i += LANES) {                                                                \
            lanes x[(M) + 2], y[(M)];                                                                          \
            _Pragma("GCC unroll 8") for (int r = 0; r < (M) + 2; r++) x[r] = load(s[r] + i);                   \
            out_of_##M(x, y);                                                                                  \
            _Pragma("GCC unroll 8") for (int r = 0; r < (M); r++) store(d + r * pitch + (int64_t)i, y[r]);     \
        }                                                                                                      \
    }                                                                                                          \
    static void woven_##M(float *d, const float *const *s, size_t n)                                           \
    {                                                                                                          \
        for (size_t i = 0; i < n; i += LANES) {                                                                \
            lanes x[(M) + 2], y[(M)];                                                                          \
            _Pragma("GCC unroll 8") for (int r = 0; r < (M) + 2; r++) x[r] = load(s[r] + i);                   \
            out_of_##M(x, y);                                                                                  \
            weave_##M(d + (size_t)(M)*i, y);                                                                   \
        }                                                                                                      \
    }
TRANSFORMS(2)
TRANSFORMS(4)

/* Of rows that end within a vector. */
M_INLINE lanes load_some(const float *p, int64_t n)
{
    lanes v = {0};
    memcpy(&v, p, (n < (int64_t)LANES ? (size_t)n : LANES) * sizeof *p);
    return v;
}
M_INLINE void store_some(float *p, lanes v, int64_t n)
{
    if (n >= (int64_t)LANES) store(p, v);
    else memcpy(p, &v, (size_t)n * sizeof *p);
}

/* A NaN stays. */
M_INLINE lanes limit(lanes v, float lo, float hi)
{
    lanes low = lo - (lanes){0}, high = hi - (lanes){0};
#if defined(__AVX512F__)
    return (lanes)_mm512_min_ps((__m512)high, _mm512_max_ps((__m512)low, (__m512)v));
#elif defined(__AVX__)
    return (lanes)_mm256_min_ps((__m256)high, _mm256_max_ps((__m256)low, (__m256)v));
#else
    for (int i = 0; i < (int)LANES; i++) v[i] = v[i] < low[i] ? low[i] : v[i] > high[i] ? high[i] : v[i];
    return v;
#endif
}

#define TILES(M)                                                                                                \
    static void place_##M(float *to, int64_t point, const float *const *place, size_t n)                        \
    {                                                                                                           \
        enum { SIDE = (M) + 2 };                                                                                \
        for (size_t at = 0; at < n; at += LANES) { /* the last vector overlaps the one before */                \
            size_t i = at + LANES < n ? at : n - LANES;                                                         \
            lanes half[SIDE][SIDE], v[SIDE], y[SIDE];                                                           \
            _Pragma("GCC unroll 8") for (int c = 0; c < SIDE; c++)                                              \
            {                                                                                                   \
                _Pragma("GCC unroll 8") for (int r = 0; r < SIDE; r++) v[r] = load(place[r * SIDE + c] + i);    \
                in_of_##M(v, y);                                                                                \
                _Pragma("GCC unroll 8") for (int r = 0; r < SIDE; r++) half[r][c] = y[r];                       \
            }                                                                                                   \
            _Pragma("GCC unroll 8") for (int r = 0; r < SIDE; r++)                                              \
            {                                                                                                   \
                in_of_##M(half[r], y);                                                                          \
                _Pragma("GCC unroll 8") for (int c = 0; c < SIDE; c++)                                          \
                    store(to + (r * SIDE + c) * point + (int64_t)i, y[c]);                                      \
            }                                                                                                   \
        }                                                                                                       \
    }                                                                                                           \
    static void back_##M(const gale__simd_tile_back *d)                                                         \
    {                                                                                                           \
        enum { SIDE = (M) + 2 };                                                                                \
        for (int64_t i = 0; i < d->lanes; i += (int64_t)LANES) {                                                \
            int64_t some = d->lanes - i;                                                                        \
            lanes half[M][SIDE], v[SIDE], y[M], start = d->start ? load_some(d->start + i, some) : (lanes){0};  \
            _Pragma("GCC unroll 8") for (int c = 0; c < SIDE; c++)                                              \
            {                                                                                                   \
                _Pragma("GCC unroll 8") for (int r = 0; r < SIDE; r++) v[r] =                                   \
                    load(d->products + (r * SIDE + c) * d->point + i);                                          \
                out_of_##M(v, y);                                                                               \
                _Pragma("GCC unroll 8") for (int r = 0; r < (M); r++) half[r][c] = y[r];                        \
            }                                                                                                   \
            for (int64_t r = 0; r < d->down; r++) {                                                             \
                out_of_##M(half[r], y);                                                                         \
                for (int64_t c = 0; c < d->across; c++) {                                                       \
                    lanes sum = y[c] + start;                                                                   \
                    if (d->other) sum += load_some(d->other + r * d->other_row + c * d->other_pitch + i, some); \
                    store_some(d->out + r * d->row_pitch + c * d->pitch + i, limit(sum, d->lo, d->hi), some);   \
                }                                                                                               \
            }                                                                                                   \
        }                                                                                                       \
    }
TILES(2)
TILES(4)

void SIMD(winograd)(gale__simd *t)
{
    t->winograd[0] = (gale__simd_winograd){split_2, in_2, out_2, woven_2, place_2, back_2};
    t->winograd[1] = (gale__simd_winograd){split_4, in_4, out_4, woven_4, place_4, back_4};
}
