/* Reductions: of a block along itself (fold), and of blocks lane by lane where the place of the winner is kept (arg).
 * Sums run in several lanes that are folded in halves, for speed and accuracy; the order is fixed. */
#include "kernel/cpu/simd_isa.h"

#define LANES 32
/* `step` combines s and v into s; `start` is neutral. */
#define FOLD(name, T, start, step)                            \
    static void name(void *acc_, const void *a_, size_t n)    \
    {                                                         \
        T lane[LANES], *acc = acc_;                           \
        const T *a = a_;                                      \
        size_t i = 0;                                         \
        for (int j = 0; j < LANES; j++) lane[j] = (T)(start); \
        for (; i + LANES <= n; i += LANES)                    \
            for (int j = 0; j < LANES; j++) {                 \
                T s = lane[j], v = a[i + (size_t)j];          \
                lane[j] = (T)(step);                          \
            }                                                 \
        for (size_t j = 0; i + j < n; j++) {                  \
            T s = lane[j], v = a[i + j];                      \
            lane[j] = (T)(step);                              \
        }                                                     \
        for (int h = LANES / 2; h; h /= 2)                    \
            for (int j = 0; j < h; j++) {                     \
                T s = lane[j], v = lane[j + h];               \
                lane[j] = (T)(step);                          \
            }                                                 \
        T s = *acc, v = lane[0];                              \
        *acc = (T)(step);                                     \
    }
#define FOLDS(N, T, U, lowest, highest)                    \
    FOLD(sum_##N, T, 0, (U)s + (U)v)                       \
    FOLD(prod_##N, T, 1, (U)s *(U)v)                       \
    FOLD(max_##N, T, lowest, ((v > s) | (v != v)) ? v : s) \
    FOLD(min_##N, T, highest, ((v < s) | (v != v)) ? v : s)
FOLDS(bool, uint8_t, uint8_t, 0, 1)
FOLDS(i32, int32_t, uint32_t, INT32_MIN, INT32_MAX)
FOLDS(u32, uint32_t, uint32_t, 0, UINT32_MAX)
FOLDS(i64, int64_t, uint64_t, INT64_MIN, INT64_MAX)
FOLDS(u64, uint64_t, uint64_t, 0, UINT64_MAX)
FOLDS(f32, float, float, -__builtin_inff(), __builtin_inff())
FOLDS(f64, double, double, -__builtin_inf(), __builtin_inf())

/* As sum_f32 of the products, each rounded. */
static void dot_f32(void *acc, const void *a_, const void *b_, size_t n)
{
    float lane[LANES] = {0};
    const float *a = a_, *b = b_;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] += a[i + (size_t)j] * b[i + (size_t)j];
    for (size_t j = 0; i + j < n; j++) lane[j] += a[i + j] * b[i + j];
    sum_f32(acc, lane, LANES);
}

/* `beats`: v wins over s.  The maximum or minimum of a row with a NaN is NaN, so the index is that of a NaN. */
#define ARG(name, T, beats)                                                                                   \
    static void name(void *best_, int64_t *index, const void *a_, const int64_t *places, int64_t k, size_t n) \
    {                                                                                                         \
        T *best = best_;                                                                                      \
        const T *a = a_;                                                                                      \
        SIMD_LOOP for (size_t i = 0; i < n; i++)                                                              \
        {                                                                                                     \
            T s = best[i], v = a[i];                                                                          \
            bool win = (index[i] < 0) | (beats);                                                              \
            best[i] = win ? v : s;                                                                            \
            index[i] = win ? (places ? places[i] : k) : index[i];                                             \
        }                                                                                                     \
    }                                                                                                         \
    static void name##_fold(void *best_, int64_t *index, const void *a_, int64_t k, size_t n)                 \
    {                                                                                                         \
        const T *a = a_;                                                                                      \
        T s = *(T *)best_;                                                                                    \
        int64_t at = *index;                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                      \
            T v = a[i];                                                                                       \
            if (at < 0 || (beats)) {                                                                          \
                s = v;                                                                                        \
                at = k + (int64_t)i;                                                                          \
            }                                                                                                 \
        }                                                                                                     \
        *(T *)best_ = s;                                                                                      \
        *index = at;                                                                                          \
    }
#define ARGS(N, T)                                            \
    ARG(argmax_##N, T, (v > s) | ((v != v) & (s == s)))       \
    ARG(argmin_##N, T, (v < s) | ((v != v) & (s == s)))       \
    ARG(argmax_last_##N, T, ((v >= s) & (s == s)) | (v != v)) \
    ARG(argmin_last_##N, T, ((v <= s) & (s == s)) | (v != v))
ARGS(bool, uint8_t)
ARGS(i32, int32_t)
ARGS(u32, uint32_t)
ARGS(i64, int64_t)
ARGS(u64, uint64_t)
ARGS(f32, float)
ARGS(f64, double)

#define ROWS(N, CT)                              \
    t->fold[GALE__SUM][CT] = sum_##N;            \
    t->fold[GALE__PROD][CT] = prod_##N;          \
    t->fold[GALE__RMAX][CT] = max_##N;           \
    t->fold[GALE__RMIN][CT] = min_##N;           \
    t->arg[0][CT] = argmax_##N;                  \
    t->arg[1][CT] = argmin_##N;                  \
    t->arg[2][CT] = argmax_last_##N;             \
    t->arg[3][CT] = argmin_last_##N;             \
    t->arg_fold[0][CT] = argmax_##N##_fold;      \
    t->arg_fold[1][CT] = argmin_##N##_fold;      \
    t->arg_fold[2][CT] = argmax_last_##N##_fold; \
    t->arg_fold[3][CT] = argmin_last_##N##_fold;
void SIMD(fold)(gale__simd *t)
{
    t->dot = dot_f32;
    ROWS(bool, GALE__SIMD_TYPE_BOOL)
    ROWS(i32, GALE__SIMD_TYPE_I32)
    ROWS(u32, GALE__SIMD_TYPE_U32)
    ROWS(i64, GALE__SIMD_TYPE_I64)
    ROWS(u64, GALE__SIMD_TYPE_U64)
    ROWS(f32, GALE__SIMD_TYPE_F32)
    ROWS(f64, GALE__SIMD_TYPE_F64)
}
