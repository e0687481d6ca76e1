/* Operations on whole rows of f32, for softmax, normalisation and depthwise convolution when rows are too short to go
 * through the interpreter one instruction at a time. */
#include "kernel/cpu/simd_isa.h"
#include "kernel/cpu/math_wide.h"
#include "kernel/cpu/simd_lanes.h"

enum { STEP = 4 * LANES }; /* four registers at a time */
typedef int32_t masks __attribute__((vector_size(WIDTH)));
M_INLINE lanes all(float x)
{
    lanes v = {0};
    return v + x;
}
/* s + a b, rounded once where the instruction set can. */
M_INLINE lanes fma_of(lanes s, lanes a, lanes b)
{
#if defined(__AVX512F__)
    return (lanes)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)s);
#elif defined(__AVX__) && defined(__FMA__)
    return (lanes)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)s);
#elif defined(__ARM_NEON) && defined(__aarch64__)
    return (lanes)vfmaq_f32((float32x4_t)s, (float32x4_t)a, (float32x4_t)b);
#else
    return s + a * b;
#endif
}
M_INLINE lanes larger(lanes s, lanes v)
{
    masks m = (v > s) | (v != v); /* NaN goes before all */
    return (lanes)((m & (masks)v) | (~m & (masks)s));
}

/* `step` takes v into s; rest: what changes nothing.  The order is fixed. */
#define FOLD(name, rest, step, join)                                             \
    static float name(const float *x, size_t n)                                  \
    {                                                                            \
        lanes s0 = all(rest), s1 = s0, s2 = s0, s3 = s0;                         \
        float lane[LANES], total = rest;                                         \
        size_t i = 0;                                                            \
        for (; i + STEP <= n; i += STEP) {                                       \
            s0 = step(s0, load(x + i));                                          \
            s1 = step(s1, load(x + i + LANES));                                  \
            s2 = step(s2, load(x + i + 2 * LANES));                              \
            s3 = step(s3, load(x + i + 3 * LANES));                              \
        }                                                                        \
        for (; i + LANES <= n; i += LANES) s0 = step(s0, load(x + i));           \
        store(lane, join(join(s0, s1), join(s2, s3)));                           \
        for (int j = 0; j < (int)LANES; j++) total = join##_one(total, lane[j]); \
        for (; i < n; i++) total = step##_one(total, x[i]);                      \
        return total;                                                            \
    }
#define add(s, v) ((s) + (v))
#define add_one add
#define add_square(s, v) ((s) + (v) * (v))
#define add_square_one add_square
#define larger_one(s, v) ((v) > (s) || (v) != (v) ? (v) : (s))
FOLD(sum, 0, add, add)
FOLD(sum_of_squares, 0, add_square, add)
FOLD(largest, -__builtin_inff(), larger, larger)

static float exp_row(float *y, const float *x, size_t n)
{
    float top = largest(x, n);
    size_t i = 0;
#ifdef GALE__WIDE
    for (; i + WIDE_LANES <= n; i += WIDE_LANES) wide_store(y + i, mw_exp(f_sub(wide_load(x + i), wide_number(top))));
#endif
    SIMD_LOOP for (; i < n; i++) y[i] = m32_exp(x[i] - top);
    return sum(y, n);
}

static void softmax_row(float *y, const float *x, size_t n)
{
    float total = exp_row(y, x, n);
    SIMD_LOOP for (size_t i = 0; i < n; i++) y[i] /= total;
}

static void norm_row(float *y, const float *x, const float *scale, const float *shift, float epsilon, size_t n)
{
    float mean = sum(x, n) / (float)n;
    SIMD_LOOP for (size_t i = 0; i < n; i++) y[i] = x[i] - mean;
    float inverse = 1 / __builtin_sqrtf(sum_of_squares(y, n) / (float)n + epsilon);
    if (scale && shift) {
        SIMD_LOOP for (size_t i = 0; i < n; i++) y[i] = y[i] * inverse * scale[i] + shift[i];
        return;
    }
    SIMD_LOOP for (size_t i = 0; i < n; i++) y[i] *= inverse;
    if (scale) SIMD_LOOP for (size_t i = 0; i < n; i++) y[i] *= scale[i];
    if (shift) SIMD_LOOP for (size_t i = 0; i < n; i++) y[i] += shift[i];
}

static void scale_row(float *y, const float *x, float by, size_t n)
{
    SIMD_LOOP for (size_t i = 0; i < n; i++) y[i] = x[i] * by;
}

static void add_row(float *y, const float *x, size_t n) { SIMD_LOOP for (size_t i = 0; i < n; i++) y[i] += x[i]; }

static void add_scaled_row(float *y, const float *x, float by, size_t n)
{
    SIMD_LOOP for (size_t i = 0; i < n; i++) y[i] += x[i] * by;
}

static void finite_row(float *y, size_t n)
{
    SIMD_LOOP for (size_t i = 0; i < n; i++) y[i] = y[i] - y[i] == 0 ? y[i] : 0;
}
static float total_of(lanes v)
{
    float lane[LANES], total = 0;
    store(lane, v);
    for (int w = (int)LANES / 2; w > 0; w /= 2)
        for (int j = 0; j < w; j++) lane[j] += lane[j + w];
    total = lane[0];
    return total;
}

/* Several rows and queries at a time, each pair summed in the same order as one alone. */
#define EACH(i, n) _Pragma("GCC unroll 4") for (size_t i = 0; i < (n); i++)
#define DOTS(name, ROWS, QUERIES)                                                                          \
    static void name(float *y, size_t y_pitch, const float *x, const float *rows, int64_t pitch, size_t n) \
    {                                                                                                      \
        lanes s[QUERIES][ROWS][2] = {{{{0}}}};                                                             \
        size_t i = 0;                                                                                      \
        for (; i + 2 * LANES <= n; i += 2 * LANES) EACH(r, ROWS)                                           \
            {                                                                                              \
                const float *row = rows + (int64_t)r * pitch + (int64_t)i;                                 \
                lanes a = load(row), b = load(row + LANES);                                                \
                EACH(q, QUERIES)                                                                           \
                {                                                                                          \
                    s[q][r][0] = fma_of(s[q][r][0], load(x + q * n + i), a);                               \
                    s[q][r][1] = fma_of(s[q][r][1], load(x + q * n + i + LANES), b);                       \
                }                                                                                          \
            }                                                                                              \
        EACH(q, QUERIES) EACH(r, ROWS)                                                                     \
        {                                                                                                  \
            float total = total_of(s[q][r][0] + s[q][r][1]);                                               \
            for (size_t k = i; k < n; k++) total += x[q * n + k] * rows[(int64_t)r * pitch + (int64_t)k];  \
            y[q * y_pitch + r] = total;                                                                    \
        }                                                                                                  \
    }
DOTS(dots_1, 1, 1)
DOTS(dots_4, 4, 1)
DOTS(dots_4_by_3, 4, 3)

static void dots_of_query(float *y, const float *x, const float *rows, int64_t pitch, size_t count, size_t n)
{
    size_t r = 0;
    for (; r + 4 <= count; r += 4) dots_4(y + r, 0, x, rows + (int64_t)r * pitch, pitch, n);
    for (; r < count; r++) dots_1(y + r, 0, x, rows + (int64_t)r * pitch, pitch, n);
}

/* Whether the sums of four rows and three queries fit the registers. */
#if defined(__AVX512F__) || defined(__aarch64__)
enum { TOGETHER = true };
#else
enum { TOGETHER = false };
#endif
static void dots_of_rows(
    float *y, const float *x, size_t queries, const float *rows, int64_t pitch, size_t count, size_t n)
{
    size_t fours = count / 4 * 4;
    for (; queries >= 3 && TOGETHER; queries -= 3, y += 3 * count, x += 3 * n) {
        for (size_t r = 0; r < fours; r += 4) dots_4_by_3(y + r, count, x, rows + (int64_t)r * pitch, pitch, n);
        for (size_t q = 0; q < 3; q++)
            dots_of_query(y + q * count + fours, x + q * n, rows + (int64_t)fours * pitch, pitch, count - fours, n);
    }
    for (; queries; queries--, y += count, x += n) dots_of_query(y, x, rows, pitch, count, n);
}

/* ITEMS rows of results, 16 * PARTS elements of each, stay in registers while the rows go by. */
#define MIX(ITEMS, PARTS)                                                                                      \
    static void mix_##ITEMS##_##PARTS(                                                                         \
        float *z, int64_t z_pitch, const float *x, int64_t x_pitch, const float *rows, size_t n)               \
    {                                                                                                          \
        enum { N = 16 / LANES };                                                                               \
        lanes s[ITEMS][PARTS][N] = {{{{0}}}};                                                                  \
        for (size_t i = 0; i < n; i++, rows += 16)                                                             \
            _Pragma("GCC unroll 4") for (int p = 0; p < PARTS; p++)                                            \
                _Pragma("GCC unroll 4") for (int k = 0; k < (int)N; k++)                                       \
            {                                                                                                  \
                lanes r = load(rows + (size_t)p * n * 16 + k * (int)LANES);                                    \
                _Pragma("GCC unroll 4") for (int b = 0; b < ITEMS; b++) s[b][p][k] =                           \
                    fma_of(s[b][p][k], all(x[b * x_pitch + (int64_t)i]), r);                                   \
            }                                                                                                  \
        for (int b = 0; b < ITEMS; b++)                                                                        \
            for (int p = 0; p < PARTS; p++)                                                                    \
                for (int k = 0; k < (int)N; k++) store(z + b * z_pitch + 16 * p + k * (int)LANES, s[b][p][k]); \
    }
MIX(1, 1)
MIX(1, 3)
MIX(1, 4)
MIX(2, 1)

/* s[b] += r x[b] for four numbers side by side. */
M_INLINE void add_quad(lanes *s0, lanes *s1, lanes *s2, lanes *s3, lanes r, const float *x)
{
#if defined(__ARM_NEON) && defined(__aarch64__) && !defined(__AVX__)
    float32x4_t q = vld1q_f32(x);
    *s0 = (lanes)vfmaq_laneq_f32((float32x4_t)*s0, (float32x4_t)r, q, 0);
    *s1 = (lanes)vfmaq_laneq_f32((float32x4_t)*s1, (float32x4_t)r, q, 1);
    *s2 = (lanes)vfmaq_laneq_f32((float32x4_t)*s2, (float32x4_t)r, q, 2);
    *s3 = (lanes)vfmaq_laneq_f32((float32x4_t)*s3, (float32x4_t)r, q, 3);
#else
    *s0 = fma_of(*s0, r, all(x[0])), *s1 = fma_of(*s1, r, all(x[1]));
    *s2 = fma_of(*s2, r, all(x[2])), *s3 = fma_of(*s3, r, all(x[3]));
#endif
}

static void mix_quad(float *z, int64_t z_pitch, const float *x, const float *rows, size_t n)
{
    enum { N = 16 / LANES };
    lanes s[N][4] = {{{0}}};
    for (size_t i = 0; i < n; i++, rows += 16)
        _Pragma("GCC unroll 4") for (int k = 0; k < (int)N; k++)
            add_quad(&s[k][0], &s[k][1], &s[k][2], &s[k][3], load(rows + k * (int)LANES), x + 4 * i);
    for (int b = 0; b < 4; b++)
        for (int k = 0; k < (int)N; k++) store(z + b * z_pitch + k * (int)LANES, s[k][b]);
}

/* One part of the rows stays in the first cache while the items go by. */
static void mix_quads(
    float *z, int64_t z_pitch, const float *x, size_t quads, const float *rows, size_t parts, size_t n)
{
    for (size_t p = 0; p < parts; p++)
        for (size_t q = 0; q < quads; q++)
            mix_quad(z + 4 * (int64_t)q * z_pitch + 16 * (int64_t)p, z_pitch, x + 4 * q * n, rows + p * n * 16, n);
}

static void mix_rows(
    float *z, int64_t z_pitch, const float *x, int64_t x_pitch, size_t items, const float *rows, size_t parts, size_t n)
{
    if (items == 1) {
        (parts == 4 ? mix_1_4 : parts == 3 ? mix_1_3 : mix_1_1)(z, z_pitch, x, x_pitch, rows, n);
        return;
    }
    for (size_t p = 0; p < parts; p++) {
        size_t b = 0;
        for (; b + 2 <= items; b += 2)
            mix_2_1(
                z + (int64_t)b * z_pitch + 16 * p, z_pitch, x + (int64_t)b * x_pitch, x_pitch, rows + p * n * 16, n);
        for (; b < items; b++)
            mix_1_1(
                z + (int64_t)b * z_pitch + 16 * p, z_pitch, x + (int64_t)b * x_pitch, x_pitch, rows + p * n * 16, n);
    }
}

static void rnn_units(const gale__simd_cell *v, size_t n)
{
    const float *x = v->x, *z = v->z;
    float *h = v->h;
    SIMD_LOOP for (size_t i = 0; i < n; i++) h[i] = m32_tanh(x[i] + z[i]);
}

static void gru_units(const gale__simd_cell *v, size_t n)
{
    const float *x = v->x, *xr = x + v->x_pitch, *xh = xr + v->x_pitch, *z = v->z, *zr = z + v->pitch,
                *zh = zr + v->pitch, *before = v->before;
    float late[16] = {0}, *h = v->h;
    for (size_t i = 0; v->bias && i < n; i++) late[i] = v->bias[i];
    SIMD_LOOP for (size_t i = 0; i < n; i++)
    {
        float update = m32_sigmoid(x[i] + z[i]), reset = m32_sigmoid(xr[i] + zr[i]);
        float fresh = m32_tanh(xh[i] + reset * (zh[i] + late[i]));
        h[i] = (1 - update) * fresh + update * before[i];
    }
}

static void lstm_units(const gale__simd_cell *v, size_t n)
{
    const float *x = v->x, *xo = x + v->x_pitch, *xf = xo + v->x_pitch, *xc = xf + v->x_pitch, *z = v->z,
                *zo = z + v->pitch, *zf = zo + v->pitch, *zc = zf + v->pitch;
    float *h = v->h, *c = v->c;
    SIMD_LOOP for (size_t i = 0; i < n; i++)
    {
        float cell = m32_sigmoid(xf[i] + zf[i]) * c[i] + m32_sigmoid(x[i] + z[i]) * m32_tanh(xc[i] + zc[i]);
        c[i] = cell;
        h[i] = m32_sigmoid(xo[i] + zo[i]) * m32_tanh(cell);
    }
}

/* A vector of which only the first n lanes may be touched, where that can be told; else n is LEAST or more. */
#if defined(__AVX512F__)
enum { LEAST = 1 };
static inline __mmask16 first_of(size_t n) { return (__mmask16)(n < 16 ? (1u << n) - 1 : 0xffff); }
M_INLINE lanes load_first(const float *p, size_t n) { return (lanes)_mm512_maskz_loadu_ps(first_of(n), p); }
M_INLINE void store_first(float *p, lanes v, size_t n) { _mm512_mask_storeu_ps(p, first_of(n), (__m512)v); }
#else
enum { LEAST = LANES };
#define load_first(p, n) load(p)
#define store_first(p, v, n) store(p, v)
#endif

/* Results side by side stay in registers while the taps go by. */
static void taps_1(float *y, const float *x, const int64_t *offset, const float *w, size_t taps, float start, size_t n)
{
    size_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        lanes s0 = all(start), s1 = s0, s2 = s0, s3 = s0;
        for (size_t t = 0; t < taps; t++) {
            const float *p = x + offset[t] + i;
            lanes k = all(w[t]);
            s0 = fma_of(s0, k, load(p));
            s1 = fma_of(s1, k, load(p + LANES));
            s2 = fma_of(s2, k, load(p + 2 * LANES));
            s3 = fma_of(s3, k, load(p + 3 * LANES));
        }
        store(y + i, s0);
        store(y + i + LANES, s1);
        store(y + i + 2 * LANES, s2);
        store(y + i + 3 * LANES, s3);
    }
    for (; i + LEAST <= n; i += LANES) {
        lanes s = all(start);
        for (size_t t = 0; t < taps; t++) s = fma_of(s, all(w[t]), load_first(x + offset[t] + i, n - i));
        store_first(y + i, s, n - i);
    }
    for (; i < n; i++) {
        float s = start;
        for (size_t t = 0; t < taps; t++) s += w[t] * x[offset[t] + (int64_t)i];
        y[i] = s;
    }
}

/* N registers of results stay while the taps go by. */
#define FLAT(N)                                                                                                   \
    for (; i + N * LANES <= n; i += N * LANES) {                                                                  \
        lanes s[N] = {{0}};                                                                                       \
        for (size_t t = 0; t < taps; t++) {                                                                       \
            const float *p = x + offset[t] + i;                                                                   \
            lanes k = all(w[t]);                                                                                  \
            _Pragma("GCC unroll 8") for (int j = 0; j < N; j++) s[j] = fma_of(s[j], k, load(p + j * (int)LANES)); \
        }                                                                                                         \
        _Pragma("GCC unroll 8") for (int j = 0; j < N; j++) store(y + i + j * (int)LANES, s[j]);                  \
    }
static void flat_taps(float *y, const float *x, const int32_t *offset, const float *w, size_t taps, size_t n)
{
    size_t i = 0;
    FLAT(8)
    FLAT(4)
    FLAT(1)
}

/* R rows of N vectors together, so that enough sums are under way; what a row has too much is written over by the next.
 */
#define GRID(R, N)                                                                                                    \
    static void grid_##R##_##N(                                                                                       \
        float *y, const float *x, const int32_t *offset, const float *w, size_t taps, size_t width, size_t pitch)     \
    {                                                                                                                 \
        lanes s[R][N] = {{{0}}};                                                                                      \
        for (size_t t = 0; t < taps; t++) {                                                                           \
            const float *p = x + offset[t];                                                                           \
            lanes k = all(w[t]);                                                                                      \
            _Pragma("GCC unroll 8") for (size_t r = 0; r < R; r++)                                                    \
                _Pragma("GCC unroll 8") for (size_t j = 0; j < N; j++) s[r][j] =                                      \
                    fma_of(s[r][j], k, load(p + r * pitch + j * LANES));                                              \
        }                                                                                                             \
        _Pragma("GCC unroll 8") for (size_t r = 0; r < R; r++) _Pragma("GCC unroll 8") for (size_t j = 0; j < N; j++) \
            store(y + r * width + j * LANES, s[r][j]);                                                                \
    }
/* clang-format off */
GRID(1, 1) GRID(1, 2) GRID(1, 3) GRID(1, 4) GRID(1, 5) GRID(1, 6) GRID(1, 7)
GRID(2, 1) GRID(2, 2) GRID(2, 3) GRID(2, 4) GRID(4, 1) GRID(4, 2) GRID(8, 1)
    /* clang-format on */
    typedef void grid_fn(
        float *y, const float *x, const int32_t *offset, const float *w, size_t taps, size_t width, size_t pitch);
enum { GRID_MOST = 7, GRID_STEP = 4 };
static grid_fn *const grids[4][GRID_MOST] = {{grid_1_1, grid_1_2, grid_1_3, grid_1_4, grid_1_5, grid_1_6, grid_1_7},
    {grid_2_1, grid_2_2, grid_2_3, grid_2_4}, {grid_4_1, grid_4_2}, {grid_8_1}};

static void grid_taps(float *y, const float *x, const int32_t *offset, const float *w, size_t taps, size_t rows,
    size_t width, size_t pitch)
{
    size_t all = (width + LANES - 1) / LANES, wide = all > GRID_MOST ? (all - GRID_MOST + 3) / GRID_STEP : 0;
    for (size_t r = 0; r < rows;) {
        size_t at = 0, left = all - wide * GRID_STEP, several = 3;
        for (; at < wide; at++)
            grid_1_4(y + r * width + at * GRID_STEP * LANES, x + r * pitch + at * GRID_STEP * LANES, offset, w, taps,
                width, pitch);
        while (several && (wide || !grids[several][left - 1] || (size_t)1 << several > rows - r)) several--;
        grids[several][left - 1](y + r * width + at * GRID_STEP * LANES, x + r * pitch + at * GRID_STEP * LANES, offset,
            w, taps, width, pitch);
        r += (size_t)1 << several;
    }
}

/* The larger, and the smaller, of a number and of x, which goes before where it is NaN. */
#if defined(__AVX512F__)
#define LARGER(a, x) (lanes) _mm512_max_ps((__m512)(a), (__m512)(x))
#define SMALLER(a, x) (lanes) _mm512_min_ps((__m512)(a), (__m512)(x))
#elif defined(__AVX__)
#define LARGER(a, x) (lanes) _mm256_max_ps((__m256)(a), (__m256)(x))
#define SMALLER(a, x) (lanes) _mm256_min_ps((__m256)(a), (__m256)(x))
#elif defined(__ARM_NEON) && defined(__aarch64__)
#define LARGER(a, x) (lanes) vmaxq_f32((float32x4_t)(a), (float32x4_t)(x))
#define SMALLER(a, x) (lanes) vminq_f32((float32x4_t)(a), (float32x4_t)(x))
#else
#define LARGER(a, x) larger(a, x)
#define SMALLER(a, x) (-larger(-(a), -(x)))
#endif
static void finish_row(
    float *y, const float *x, const float *other, float bias, float scale, float lo, float hi, size_t n)
{
    lanes b = bias - (lanes){0}, l = lo - (lanes){0}, h = hi - (lanes){0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        lanes v = (load(x + i) + b) * scale;
        if (other) v += load(other + i);
        store(y + i, SMALLER(h, LARGER(l, v)));
    }
    for (; i < n; i++) {
        float v = (x[i] + bias) * scale;
        if (other) v += other[i];
        v = lo > v ? lo : v;
        y[i] = hi < v ? hi : v;
    }
}

/* In vectors: from a choice between numbers compilers make a choice between products. */
M_INLINE lanes hard(lanes v) { return v * (SMALLER(all(6), LARGER(all(0), v + 3)) * (1.0f / 6)); }

/* The last vector of a row overlaps the one before, and is loaded before that is stored. */
static void hard_swish(float *x, size_t n, size_t rows, int64_t pitch)
{
    for (; rows > 0; rows--, x += pitch) {
        float rest[LANES] = {0}, *end = n < LANES ? rest : x + n - LANES;
        for (size_t j = 0; n < LANES && j < n; j++) rest[j] = x[j];
        lanes last = hard(load(end));
        for (size_t i = 0; i + LANES <= n; i += LANES) store(x + i, hard(load(x + i)));
        if (n % LANES) store(end, last);
        for (size_t j = 0; n < LANES && j < n; j++) x[j] = rest[j];
    }
}

#if defined(__AVX512F__)
typedef void deep_fn(float *y, const float *x, const gale__simd_depth *d, const float *w, int64_t first, int64_t last,
    const lanes *ends);
/* N results of 16 channels. */
#define DEEP(N)                                                                                              \
    static void deep_##N(float *y, const float *x, const gale__simd_depth *d, const float *w, int64_t first, \
        int64_t last, const lanes *ends)                                                                     \
    {                                                                                                        \
        lanes s[N] = {{0}};                                                                                  \
        w += first * d->across * LANES;                                                                      \
        for (int64_t t = first; t < last; t++)                                                               \
            for (int64_t u = 0; u < d->across; u++, w += LANES) {                                            \
                const float *p = x + (t * d->hop_y * d->pitch + u * d->hop) * LANES;                         \
                lanes k = load(w);                                                                           \
                _Pragma("GCC unroll 8") for (int j = 0; j < N; j++) s[j] =                                   \
                    fma_of(s[j], k, load(p + j * d->step * LANES));                                          \
            }                                                                                                \
        _Pragma("GCC unroll 8") for (int j = 0; j < N; j++)                                                  \
            store(y + j * (int)LANES, SMALLER(ends[2], LARGER(ends[1], s[j] + ends[0])));                    \
    }
/* clang-format off */
DEEP(1) DEEP(2) DEEP(3) DEEP(4) DEEP(5) DEEP(6) DEEP(7) DEEP(8)
    /* clang-format on */

    static void deep_row(float *y, const float *x, const gale__simd_depth *d, const float *w, int64_t first,
        int64_t last, const float *bias, float lo, float hi)
{
    static deep_fn *const some[8] = {deep_1, deep_2, deep_3, deep_4, deep_5, deep_6, deep_7, deep_8};
    lanes ends[3] = {load(bias), all(lo), all(hi)};
    int64_t turns = (d->width + 7) / 8, n = (d->width + turns - 1) / turns;
    for (int64_t at = 0; at < d->width; at += n) {
        if (n > d->width - at) n = d->width - at;
        some[n - 1](y + at * LANES, x + at * d->step * LANES, d, w, first, last, ends);
    }
}
#else
#define deep_row NULL
#endif

static void taps_2(float *y, const float *x, const int64_t *offset, const float *w, size_t taps, float start, size_t n)
{
    SIMD_LOOP for (size_t i = 0; i < n; i++) y[i] = start;
    for (size_t t = 0; t < taps; t++) {
        const float *p = x + offset[t], k = w[t];
        SIMD_LOOP for (size_t i = 0; i < n; i++) y[i] += k * p[2 * i];
    }
}

static void tops_1(float *y, const float *x, const int64_t *offset, size_t taps, size_t n)
{
    size_t i = 0;
    for (; i + LEAST <= n; i += LANES) {
        lanes s = load_first(x + offset[0] + i, n - i);
        for (size_t t = 1; t < taps; t++) s = larger(s, load_first(x + offset[t] + i, n - i));
        store_first(y + i, s, n - i);
    }
    for (; i < n; i++) {
        y[i] = x[offset[0] + (int64_t)i];
        for (size_t t = 1; t < taps; t++) y[i] = larger_one(y[i], x[offset[t] + (int64_t)i]);
    }
}

static void tops_2(float *y, const float *x, const int64_t *offset, size_t taps, size_t n)
{
    SIMD_LOOP for (size_t i = 0; i < n; i++) y[i] = x[offset[0] + 2 * (int64_t)i];
    for (size_t t = 1; t < taps; t++) {
        const float *p = x + offset[t];
        SIMD_LOOP for (size_t i = 0; i < n; i++) y[i] = larger_one(y[i], p[2 * i]);
    }
}

void SIMD(rows)(gale__simd *t)
{
    t->rows = (gale__simd_rows){.exp = exp_row,
        .softmax = softmax_row,
        .norm = norm_row,
        .scale = scale_row,
        .add = add_row,
        .dots = dots_of_rows,
        .taps = {taps_1, taps_2},
        .flat = flat_taps,
        .grid = grid_taps,
        .deep = deep_row,
        .finish = finish_row,
        .tops = {tops_1, tops_2},
        .mix = mix_rows,
        .mix_quads = mix_quads,
        .add_scaled = add_scaled_row,
        .finite = finite_row,
        .cell = {rnn_units, gru_units, lstm_units}};
    t->activate[GALE__ACTIVATION_HARD_SWISH] = hard_swish;
}
