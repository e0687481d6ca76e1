/* Moves of whole elements of any type: strided, filled, by index, interleaved into panels. */
#include "kernel/cpu/simd_isa.h"
#include <string.h>

typedef uint8_t __attribute__((may_alias)) e0;
typedef uint16_t __attribute__((may_alias)) e1;
typedef uint32_t __attribute__((may_alias)) e2;
typedef uint64_t __attribute__((may_alias)) e3;

#define SECOND(E)                                                 \
    static void every_second_##E(E *d, const E *s, size_t n)      \
    {                                                             \
        SIMD_LOOP for (size_t i = 0; i < n; i++) d[i] = s[2 * i]; \
    }
SECOND(e0)
SECOND(e1)
SECOND(e3)
#if defined(__AVX512F__)
#include <immintrin.h>
/* Rows are often shorter than two registers: what is too much is left out by masks. */
static void every_second_e2(e2 *d, const e2 *s, size_t n)
{
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    for (; n >= 17; n -= 16, d += 16, s += 32)
        _mm512_storeu_si512(d, _mm512_permutex2var_epi32(_mm512_loadu_si512(s), even, _mm512_loadu_si512(s + 16)));
    if (!n) return;
    uint32_t all = (uint32_t)((UINT64_C(1) << (2 * n - 1)) - 1);
    __m512i x = _mm512_maskz_loadu_epi32((__mmask16)all, s),
            y = _mm512_maskz_loadu_epi32((__mmask16)(all >> 16), s + 16);
    _mm512_mask_storeu_epi32(d, (__mmask16)((1u << n) - 1), _mm512_permutex2var_epi32(x, even, y));
}
#else
SECOND(e2)
#endif

#define MOVES(E)                                                                   \
    static void gather_##E(void *d_, const void *s_, int64_t stride, size_t n)     \
    {                                                                              \
        E *d = d_;                                                                 \
        const E *s = s_;                                                           \
        if (stride == 2) {                                                         \
            every_second_##E(d, s, n);                                             \
            return;                                                                \
        }                                                                          \
        for (size_t i = 0; i < n; i++) d[i] = s[(int64_t)i * stride];              \
    }                                                                              \
    static void scatter_##E(void *d_, const void *s_, int64_t stride, size_t n)    \
    {                                                                              \
        E *d = d_;                                                                 \
        const E *s = s_;                                                           \
        for (size_t i = 0; i < n; i++) d[(int64_t)i * stride] = s[i];              \
    }                                                                              \
    static void fill_##E(void *d_, uint64_t bits, size_t n)                        \
    {                                                                              \
        E *d = d_, v = (E)bits;                                                    \
        SIMD_LOOP for (size_t i = 0; i < n; i++) d[i] = v;                         \
    }                                                                              \
    static void take_##E(void *d_, const void *s_, const int64_t *index, size_t n) \
    {                                                                              \
        E *d = d_;                                                                 \
        const E *s = s_;                                                           \
        for (size_t i = 0; i < n; i++) d[i] = s[index[i]];                         \
    }
MOVES(e0)
MOVES(e1)
MOVES(e2)
MOVES(e3)

/* Columns [i0, i0 + n), one by one. */
#define INTERLEAVE_PART(E)                                                                                       \
    static void interleave_part_##E(E *d, const E *s, size_t pitch, size_t rows, size_t mr, size_t i0, size_t n) \
    {                                                                                                            \
        for (size_t r = 0; r < rows; r++)                                                                        \
            for (size_t i = i0; i < i0 + n; i++) d[i * mr + r] = s[r * pitch + i];                               \
    }
INTERLEAVE_PART(e2)
INTERLEAVE_PART(e3)

/* Squares of 4 x 4 (2 x 2) elements are transposed in registers, the others one by one. */
typedef uint32_t v2 __attribute__((vector_size(16), may_alias, aligned(4)));
typedef uint64_t v3 __attribute__((vector_size(16), may_alias, aligned(8)));

static void turn_e2(e2 *d, const e2 *s, size_t pitch, size_t mr)
{
    v2 a = *(const v2 *)s, b = *(const v2 *)(s + pitch), c = *(const v2 *)(s + 2 * pitch),
       e = *(const v2 *)(s + 3 * pitch);
    v2 ac = __builtin_shufflevector(a, c, 0, 4, 1, 5), ac2 = __builtin_shufflevector(a, c, 2, 6, 3, 7);
    v2 be = __builtin_shufflevector(b, e, 0, 4, 1, 5), be2 = __builtin_shufflevector(b, e, 2, 6, 3, 7);
    *(v2 *)d = __builtin_shufflevector(ac, be, 0, 4, 1, 5);
    *(v2 *)(d + mr) = __builtin_shufflevector(ac, be, 2, 6, 3, 7);
    *(v2 *)(d + 2 * mr) = __builtin_shufflevector(ac2, be2, 0, 4, 1, 5);
    *(v2 *)(d + 3 * mr) = __builtin_shufflevector(ac2, be2, 2, 6, 3, 7);
}

static void turn_e3(e3 *d, const e3 *s, size_t pitch, size_t mr)
{
    v3 a = *(const v3 *)s, b = *(const v3 *)(s + pitch);
    *(v3 *)d = __builtin_shufflevector(a, b, 0, 2);
    *(v3 *)(d + mr) = __builtin_shufflevector(a, b, 1, 3);
}

#define INTERLEAVE(E, Q)                                                                                   \
    static void interleave_##E(void *d_, const void *s_, size_t pitch, size_t rows, size_t mr, size_t n)   \
    {                                                                                                      \
        E *d = d_;                                                                                         \
        const E *s = s_;                                                                                   \
        size_t whole = rows < Q ? 0 : n / Q * Q;                                                           \
        for (size_t at = 0; whole && at < rows; at += Q) {                                                 \
            size_t r = at + Q > rows ? rows - Q : at; /* the last ones once more */                        \
            for (size_t i = 0; i < whole; i += Q) turn_##E(d + i * mr + r, s + r * pitch + i, pitch, mr);  \
        }                                                                                                  \
        interleave_part_##E(d, s, pitch, rows, mr, whole, n - whole);                                      \
        for (size_t i = 0; i < n && rows < mr; i++) memset(d + i * mr + rows, 0, (mr - rows) * sizeof(E)); \
    }
INTERLEAVE(e2, 4)
INTERLEAVE(e3, 2)

#define ZIP(E)                                                              \
    static void zip_##E(void *d_, const void *a_, const void *b_, size_t n) \
    {                                                                       \
        E *d = d_;                                                          \
        const E *a = a_, *b = b_;                                           \
        SIMD_LOOP for (size_t i = 0; i < n; i++)                            \
        {                                                                   \
            d[2 * i] = a[i];                                                \
            d[2 * i + 1] = b[i];                                            \
        }                                                                   \
    }
ZIP(e0)
ZIP(e1)
ZIP(e2)

#define ROWS(E, k)               \
    t->gather[k] = gather_##E;   \
    t->scatter[k] = scatter_##E; \
    t->fill[k] = fill_##E;       \
    t->take[k] = take_##E;
void SIMD(move)(gale__simd *t)
{
    ROWS(e0, 0)
    ROWS(e1, 1)
    ROWS(e2, 2)
    ROWS(e3, 3)
    t->zip[0] = zip_e0;
    t->zip[1] = zip_e1;
    t->zip[2] = zip_e2;
    t->interleave[0] = interleave_e2;
    t->interleave[1] = interleave_e3;
}
