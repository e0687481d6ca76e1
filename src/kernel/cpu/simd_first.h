/* The first n lanes of a vector of f32, n below 1 to all of them: others are neither read nor written.  No guard: like
 * the files that include it, it is read once for each instruction set. */
#include <immintrin.h>
#include <stdint.h>

#define FIRST_INLINE static inline __attribute__((always_inline, unused))

#ifdef __AVX512F__
FIRST_INLINE __mmask16 first_lanes(int64_t n) { return (__mmask16)(n >= 16 ? 0xffff : n > 0 ? (1 << n) - 1 : 0); }
FIRST_INLINE void store_first(float *to, int64_t n, __m512 x) { _mm512_mask_storeu_ps(to, first_lanes(n), x); }
#else
FIRST_INLINE __m256i first_lanes(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n > 8 ? 8 : (int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

FIRST_INLINE __m256 load_first(const float *from, int64_t n)
{
    return n >= 8 ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, first_lanes(n));
}

/* Without a mask: some processors take ten times as long to store with one. */
FIRST_INLINE void store_first(float *to, int64_t n, __m256 x)
{
    __m128 rest = _mm256_castps256_ps128(x);
    if (n >= 8) {
        _mm256_storeu_ps(to, x);
        return;
    }
    if (n >= 4) {
        _mm_storeu_ps(to, rest);
        rest = _mm256_extractf128_ps(x, 1);
        to += 4;
        n -= 4;
    }
    if (n >= 2) {
        _mm_storel_pi((__m64 *)(void *)to, rest);
        rest = _mm_movehl_ps(rest, rest);
        to += 2;
        n -= 2;
    }
    if (n == 1) _mm_store_ss(to, rest);
}
#endif
