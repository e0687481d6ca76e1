/* Whole rows of f32 at a time: what softmax, normalisation and convolution by channel are made of when rows are too
 * short to go through the interpreter one instruction after another. */
#include "kernel/cpu/simd_isa.h"
#include "kernel/cpu/math.h"

/* Registers of the instruction set, four at a time. */
#if defined(__AVX512F__)
enum { WIDTH = 64 };
#elif defined(__AVX__)
enum { WIDTH = 32 };
#else
enum { WIDTH = 16 };
#endif
enum { LANES = WIDTH / sizeof(float), STEP = 4 * LANES };
typedef float lanes __attribute__((vector_size(WIDTH)));
typedef int32_t masks __attribute__((vector_size(WIDTH)));
M_INLINE lanes load(const float *p)
{
    lanes v;
    memcpy(&v, p, sizeof v);
    return v;
}
M_INLINE void store(float *p, lanes v) { memcpy(p, &v, sizeof v); }
M_INLINE lanes all(float x)
{
    lanes v = {0};
    return v + x;
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
    SIMD_LOOP for (size_t i = 0; i < n; i++) y[i] = m32_exp(x[i] - top);
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

static void dots_of_rows(float *y, const float *x, const float *rows, int64_t pitch, size_t count, size_t n)
{
    for (size_t r = 0; r < count; r++, rows += pitch) {
        lanes s0 = all(0), s1 = s0, s2 = s0, s3 = s0;
        float lane[LANES], total = 0;
        size_t i = 0;
        for (; i + STEP <= n; i += STEP) {
            s0 += load(x + i) * load(rows + i);
            s1 += load(x + i + LANES) * load(rows + i + LANES);
            s2 += load(x + i + 2 * LANES) * load(rows + i + 2 * LANES);
            s3 += load(x + i + 3 * LANES) * load(rows + i + 3 * LANES);
        }
        for (; i + LANES <= n; i += LANES) s0 += load(x + i) * load(rows + i);
        store(lane, (s0 + s1) + (s2 + s3));
        for (int j = 0; j < (int)LANES; j++) total += lane[j];
        for (; i < n; i++) total += x[i] * rows[i];
        y[r] = total;
    }
}

/* Results side by side stay in registers while the taps go by. */
static void taps_1(float *y, const float *x, const int64_t *offset, const float *w, size_t taps, float start, size_t n)
{
    size_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        lanes s0 = all(start), s1 = s0, s2 = s0, s3 = s0;
        for (size_t t = 0; t < taps; t++) {
            const float *p = x + offset[t] + i;
            lanes k = all(w[t]);
            s0 += k * load(p);
            s1 += k * load(p + LANES);
            s2 += k * load(p + 2 * LANES);
            s3 += k * load(p + 3 * LANES);
        }
        store(y + i, s0);
        store(y + i + LANES, s1);
        store(y + i + 2 * LANES, s2);
        store(y + i + 3 * LANES, s3);
    }
    for (; i < n; i++) {
        float s = start;
        for (size_t t = 0; t < taps; t++) s += w[t] * x[offset[t] + (int64_t)i];
        y[i] = s;
    }
}

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
    for (; i + LANES <= n; i += LANES) {
        lanes s = load(x + offset[0] + i);
        for (size_t t = 1; t < taps; t++) s = larger(s, load(x + offset[t] + i));
        store(y + i, s);
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
    t->rows = (gale__simd_rows){exp_row, softmax_row, norm_row, scale_row, add_row, dots_of_rows, {taps_1, taps_2},
        {tops_1, tops_2}, add_scaled_row, finite_row};
}
