/* Micro-kernels over instructions that multiply several steps of k at once: sums of products of bytes, or of bf16.
 * Compiled once for each such extension, since few processors of an instruction set have all of them.
 *
 * The element of a panel is a unit: some steps of one row side by side, 4 or 8 bytes; for tiles a row of 64 in a's. */
#include "base/cpu.h"
#include "kernel/cpu/simd_isa.h"
#include <string.h>

#define IS_dotprod 1
#define IS_i8mm 2
#define IS_bf16 3
#define IS_avxvnni 4
#define IS_avx512vnni 5
#define IS_avx512bf16 6
#define IS_amxint8 7
#define IS_amxbf16 8
#define EXTENSION2(name) IS_##name
#define EXTENSION1(name) EXTENSION2(name)
#define EXTENSION EXTENSION1(GALE_ISA)
#define INLINE static inline __attribute__((always_inline))

/* Functions over `rows` rows of a multiply that is written once for all of them. */
#define TILE(name, rows)                                                                      \
    static void PART(name, rows)(void *c, size_t ldc, const void *a, const void *b, size_t k) \
    {                                                                                         \
        name(rows, c, ldc, a, b, NULL, k);                                                    \
    }                                                                                         \
    static void PART_AT(name, rows)(                                                          \
        void *c, size_t ldc, const void *a, const void *b, const int32_t *offset, size_t k)   \
    {                                                                                         \
        name(rows, c, ldc, a, b, offset, k);                                                  \
    }

#if EXTENSION == IS_i8mm || EXTENSION == IS_avx512vnni
#define HAS_QUADS
static gale__simd_quads quads_any;
#endif

#if EXTENSION == IS_dotprod
#include <arm_neon.h>

enum { MR = 8, NR = 12, UNIT = 4 };
#define ROW(r, x, lane)                                  \
    if (r < rows) {                                      \
        s[r][0] = vdotq_laneq_s32(s[r][0], b0, x, lane); \
        s[r][1] = vdotq_laneq_s32(s[r][1], b1, x, lane); \
        s[r][2] = vdotq_laneq_s32(s[r][2], b2, x, lane); \
    }

INLINE void tile_s8(int rows, int32_t *c, size_t ldc, const int8_t *a, const int8_t *b, const int32_t *offset, size_t k)
{
    int32x4_t s[MR][3];
    for (int r = 0; r < MR; r++) s[r][0] = s[r][1] = s[r][2] = vdupq_n_s32(0);
    for (size_t i = 0; i < k; i++, a += MR * UNIT) {
        const int8_t *p = offset ? b + (int64_t)offset[i] * UNIT : b + i * NR * UNIT;
        int8x16_t b0 = vld1q_s8(p), b1 = vld1q_s8(p + 16), b2 = vld1q_s8(p + 32), x = vld1q_s8(a), y = vld1q_s8(a + 16);
        ROW(0, x, 0) ROW(1, x, 1) ROW(2, x, 2) ROW(3, x, 3) ROW(4, y, 0) ROW(5, y, 1) ROW(6, y, 2) ROW(7, y, 3)
    }
    _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) _Pragma("GCC unroll 3") for (int j = 0; j < 3; j++)
    {
        int32_t *to = c + (size_t)r * ldc + 4 * j;
        vst1q_s32(to, vaddq_s32(vld1q_s32(to), s[r][j]));
    }
}
TILE(tile_s8, 1)
TILE(tile_s8, 4)
TILE(tile_s8, 8)

void SIMD(dot)(gale__simd *t)
{
    t->gemm[t->n_gemms++] = (gale__simd_gemm){.key = {GALE_I8, GALE_I8, GALE_I32, 4},
        .mr = MR,
        .nr = NR,
        .part = {ROW_OF(tile_s8, 1), ROW_OF(tile_s8, 4), ROW_OF(tile_s8, 8)}};
}

#elif EXTENSION == IS_i8mm || EXTENSION == IS_bf16
#include <arm_neon.h>

/* One instruction multiplies two rows by two lanes, a unit of each: sums are squares of 2 x 2. */
enum { MR = 8, NR = 12, UNIT = 8 };
#if EXTENSION == IS_i8mm
#define V int32x4_t
#define VALUES int8x16_t
#define PANEL int8_t
#define LOAD vld1q_s8
#define MULTIPLY vmmlaq_s32
#define ZERO vdupq_n_s32(0)
#define JOIN(f, x, y) vcombine_s32(vget_##f##_s32(x), vget_##f##_s32(y))
#define ADD_TO(to, x) vst1q_s32(to, vaddq_s32(vld1q_s32(to), x))
#define SUM int32_t
#define NAME tile_s8
#define KEY                           \
    {                                 \
        GALE_I8, GALE_I8, GALE_I32, 8 \
    }
#else
#define V float32x4_t
#define VALUES bfloat16x8_t
#define PANEL uint16_t
#define LOAD(p) vreinterpretq_bf16_u16(vld1q_u16(p))
#define MULTIPLY vbfmmlaq_f32
#define ZERO vdupq_n_f32(0)
#define JOIN(f, x, y) vcombine_f32(vget_##f##_f32(x), vget_##f##_f32(y))
#define ADD_TO(to, x) vst1q_f32(to, vaddq_f32(vld1q_f32(to), x))
#define SUM float
#define NAME tile_bf16
#define KEY                               \
    {                                     \
        GALE_BF16, GALE_BF16, GALE_F32, 4 \
    }
#endif
#define STEP ((ptrdiff_t)(UNIT / sizeof(PANEL)))

INLINE void NAME(int rows, SUM *c, size_t ldc, const PANEL *a, const PANEL *b, const int32_t *offset, size_t k)
{
    V s[MR / 2][NR / 2];
    VALUES y[NR / 2];
    _Pragma("GCC unroll 4") for (int r = 0; r < rows / 2; r++) _Pragma("GCC unroll 6") for (int j = 0; j < NR / 2; j++)
        s[r][j] = ZERO;
    const PANEL *p, *next = offset ? b + offset[0] * STEP : b; /* known a step before, as in simd_gemm.c */
    _Pragma("GCC unroll 2") for (size_t i = 0; i < k; i++, a += MR * STEP)
    {
        p = next;
        next = offset ? b + offset[i + 1 < k ? i + 1 : i] * STEP : p + NR * STEP;
        for (int j = 0; j < NR / 2; j++) y[j] = LOAD(p + 2 * j * STEP);
        _Pragma("GCC unroll 4") for (int r = 0; r < rows / 2; r++)
        {
            VALUES x = LOAD(a + 2 * r * STEP);
            _Pragma("GCC unroll 6") for (int j = 0; j < NR / 2; j++) s[r][j] = MULTIPLY(s[r][j], x, y[j]);
        }
    }
    _Pragma("GCC unroll 4") for (int r = 0; r < rows / 2; r++)
        _Pragma("GCC unroll 3") for (int j = 0; j < NR / 2; j += 2)
    {
        SUM *to = c + (size_t)(2 * r) * ldc + 2 * j;
        ADD_TO(to, JOIN(low, s[r][j], s[r][j + 1]));
        ADD_TO(to + ldc, JOIN(high, s[r][j], s[r][j + 1]));
    }
}
TILE(NAME, 2)
TILE(NAME, 4)
TILE(NAME, 8)

#if EXTENSION == IS_i8mm
enum { LANES = 4, VECTORS = 4 };
/* Lane i takes four bytes from i * step on; so many vectors of lanes. */
INLINE void quads_block(int vectors, int32_t *y, const uint8_t *x, const int32_t *offset, const int8_t *w, size_t quads,
    int step, uint8x16_t at, int32_t start)
{
    int32x4_t sum[VECTORS];
    _Pragma("GCC unroll 4") for (int j = 0; j < vectors; j++) sum[j] = vdupq_n_s32(start);
    _Pragma("GCC unroll 3") for (size_t q = 0; q < quads; q++)
    {
        int32_t four_weights;
        memcpy(&four_weights, w + 4 * q, 4);
        int8x16_t four = vreinterpretq_s8_s32(vdupq_n_s32(four_weights));
        _Pragma("GCC unroll 4") for (int j = 0; j < vectors; j++) sum[j] =
            vusdotq_s32(sum[j], vqtbl1q_u8(vld1q_u8(x + offset[q] + LANES * j * step), at), four);
    }
    _Pragma("GCC unroll 4") for (int j = 0; j < vectors; j++) vst1q_s32(y + LANES * j, sum[j]);
}

INLINE void quads_of(int32_t *y, const uint8_t *x, int64_t pitch, const int32_t *offset, const int8_t *w, size_t quads,
    int step, int32_t start, size_t rows, size_t n)
{
    static const uint8_t places[2][16] = {
        {0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6}, {0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7, 8, 9}};
    uint8x16_t at = vld1q_u8(places[step - 1]);
    for (; rows > 0; rows--, x += pitch, y += n) {
        size_t i = 0;
        for (; i + LANES * VECTORS <= n; i += LANES * VECTORS)
            quads_block(VECTORS, y + i, x + i * (size_t)step, offset, w, quads, step, at, start);
        for (; i < n; i += LANES) quads_block(1, y + i, x + i * (size_t)step, offset, w, quads, step, at, start);
    }
}
#endif

void SIMD(dot)(gale__simd *t)
{
#ifdef HAS_QUADS
    t->quads = quads_any;
    SIMD(dot_last)(t);
#endif
    t->gemm[t->n_gemms++] =
        (gale__simd_gemm){.key = KEY, .mr = MR, .nr = NR, .part = {ROW_OF(NAME, 2), ROW_OF(NAME, 4), ROW_OF(NAME, 8)}};
}

#elif EXTENSION == IS_amxint8 || EXTENSION == IS_amxbf16
#include <immintrin.h>

/* Two by two tiles of 16 x 16 sums.  A panel of a holds rows of 64 bytes, one of b units of 4 bytes, 16 of them for
 * each such row: both are what the instructions load.  To set tiles up takes as long as a dozen products, so that is
 * done for many calls; then they are released, so that a thread has no state that the kernel would have to save. */
enum { MR = 32, NR = 32, HALF = 16, ROW = 64 };

static const struct {
    uint8_t palette, start, unused[14];
    uint16_t columns[16];
    uint8_t rows[16];
} config = {1, 0, {0}, {ROW, ROW, ROW, ROW, ROW, ROW, ROW, ROW}, {HALF, HALF, HALF, HALF, HALF, HALF, HALF, HALF}};

static void open_tiles(void) { _tile_loadconfig(&config); }
static void close_tiles(void) { _tile_release(); }

/* Windows are not for tiles: there is no tile_at. */
#define PRODUCTS(MULTIPLY, all)                                    \
    for (size_t i = 0; i < k; i++, a += MR * ROW, b += NR * ROW) { \
        _tile_loadd(4, a, ROW);                                    \
        _tile_loadd(6, b, NR * 4);                                 \
        _tile_loadd(7, b + ROW, NR * 4);                           \
        MULTIPLY(0, 4, 6);                                         \
        MULTIPLY(1, 4, 7);                                         \
        if (!(all)) continue;                                      \
        _tile_loadd(5, a + HALF * ROW, ROW);                       \
        MULTIPLY(2, 5, 6);                                         \
        MULTIPLY(3, 5, 7);                                         \
    }
#define EACH_TILE(DO, all)                    \
    DO(0, c, pitch);                          \
    DO(1, c + ROW, pitch);                    \
    if (all) {                                \
        DO(2, c + HALF * pitch, pitch);       \
        DO(3, c + HALF * pitch + ROW, pitch); \
    }
#define CLEAR(tile, at, pitch) _tile_zero(tile)
#define FUNCTION(name, MULTIPLY, START, all)                                         \
    static void name(void *c_, size_t ldc, const void *a_, const void *b_, size_t k) \
    {                                                                                \
        char *c = c_;                                                                \
        const char *a = a_, *b = b_;                                                 \
        size_t pitch = ldc * 4;                                                      \
        EACH_TILE(START, all)                                                        \
        PRODUCTS(MULTIPLY, all)                                                      \
        EACH_TILE(_tile_stored, all)                                                 \
    }
#define TILES(name, MULTIPLY)                                                                                 \
    FUNCTION(name##_32, MULTIPLY, _tile_loadd, true)                                                          \
    FUNCTION(name##_16, MULTIPLY, _tile_loadd, false)                                                         \
    FUNCTION(name##_fresh_32, MULTIPLY, CLEAR, true)                                                          \
    FUNCTION(name##_fresh_16, MULTIPLY, CLEAR, false)                                                         \
    static void add_##name(gale__simd *t, gale__simd_key key, int b_group)                                    \
    {                                                                                                         \
        t->gemm[t->n_gemms++] = (gale__simd_gemm){.key = key,                                                 \
            .mr = MR,                                                                                         \
            .nr = NR,                                                                                         \
            .b_group = b_group,                                                                               \
            .part = {{HALF, name##_16, .fresh = name##_fresh_16}, {MR, name##_32, .fresh = name##_fresh_32}}, \
            .open = open_tiles,                                                                               \
            .close = close_tiles};                                                                            \
    }

#if EXTENSION == IS_amxint8
TILES(ss, _tile_dpbssd)
TILES(su, _tile_dpbsud)
TILES(us, _tile_dpbusd)
TILES(uu, _tile_dpbuud)

void SIMD(dot)(gale__simd *t)
{
    add_ss(t, (gale__simd_key){GALE_I8, GALE_I8, GALE_I32, 64}, 4);
    add_su(t, (gale__simd_key){GALE_I8, GALE_U8, GALE_I32, 64}, 4);
    add_us(t, (gale__simd_key){GALE_U8, GALE_I8, GALE_I32, 64}, 4);
    add_uu(t, (gale__simd_key){GALE_U8, GALE_U8, GALE_I32, 64}, 4);
    SIMD(tiles_last)(t);
}
#else
TILES(halves, _tile_dpbf16ps)

void SIMD(dot)(gale__simd *t)
{
    add_halves(t, (gale__simd_key){GALE_BF16, GALE_BF16, GALE_F32, 32}, 2);
    SIMD(shares)(t, open_tiles, close_tiles);
}
#endif

#else
#include <immintrin.h>

/* The instructions multiply unsigned bytes by signed ones.  Which of the two the rows are is up to the operands: there
 * are micro-kernels for both, `tile` of unsigned rows and `tile_signed`. */
#define SIGNED_ROWS (EXTENSION != IS_avx512bf16)
#if EXTENSION == IS_avxvnni
static inline __m256i load(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void store(int32_t *p, __m256i v) { _mm256_storeu_si256((__m256i *)p, v); }
static inline __m256i multiply(__m256i x, __m256i y, __m256i z) { return _mm256_dpbusd_avx_epi32(z, x, y); }
static inline __m256i multiply_signed(__m256i x, __m256i y, __m256i z) { return _mm256_dpbusd_avx_epi32(z, y, x); }
#define VECTOR __m256i
#define VECTOR_LANES 8
#define VECTOR_SET _mm256_set1_epi32
#define VECTOR_ADD _mm256_add_epi32
#define ROWS_MOST 6
#define ROWS_PARTS X(1) X(3) X(6)
#define ALL(name) ROW_OF(name, 1), ROW_OF(name, 3), ROW_OF(name, 6)
#elif EXTENSION == IS_avx512vnni
static inline __m512i load(const int32_t *p) { return _mm512_loadu_si512(p); }
static inline void store(int32_t *p, __m512i v) { _mm512_storeu_si512(p, v); }
static inline __m512i multiply(__m512i x, __m512i y, __m512i z) { return _mm512_dpbusd_epi32(z, x, y); }
static inline __m512i multiply_signed(__m512i x, __m512i y, __m512i z) { return _mm512_dpbusd_epi32(z, y, x); }
#define VECTOR __m512i
#define VECTOR_SET _mm512_set1_epi32
#define VECTOR_ADD _mm512_add_epi32
#else
/* Units are pairs of bf16, held as 32-bit numbers; the sums are floats. */
static inline __m512 load(const int32_t *p) { return _mm512_loadu_ps((const float *)p); }
static inline void store(int32_t *p, __m512 v) { _mm512_storeu_ps((float *)p, v); }
static inline __m512 multiply(__m512 x, __m512 y, __m512 z) { return _mm512_dpbf16_ps(z, (__m512bh)x, (__m512bh)y); }
#define VECTOR __m512
#define VECTOR_SET(x) _mm512_castsi512_ps(_mm512_set1_epi32(x))
#define VECTOR_ADD _mm512_add_ps
#endif
#if EXTENSION != IS_avxvnni
#define VECTOR_LANES 16
#define ROWS_MOST 14
#define ROWS_PARTS X(1) X(4) X(8) X(14)
#define ALL(name) ROW_OF(name, 1), ROW_OF(name, 4), ROW_OF(name, 8), ROW_OF(name, 14)
#endif

#define T int32_t
#define V VECTOR
#define MR ROWS_MOST
#define PARTS ROWS_PARTS
#define LANES VECTOR_LANES
#define LOAD load
#define STORE store
#define SET VECTOR_SET
#define ADD VECTOR_ADD
#if SIGNED_ROWS
#define NAME tile_signed
#define FMA multiply_signed
#define KEEP
#include "simd_gemm.inc"
#endif
#define NAME tile
#define FMA multiply
#include "simd_gemm.inc"

#if EXTENSION == IS_avx512vnni
/* Lane i takes four bytes from i * step on: first the words they are in, then the bytes. */
INLINE void quads_of(int32_t *y, const uint8_t *x, int64_t pitch, const int32_t *offset, const int8_t *w, size_t quads,
    int step, int32_t start, size_t rows, size_t n)
{
    const __m512i four = _mm512_set1_epi32(0x03020100),
                  words = step == 1 ? _mm512_setr_epi32(0, 1, 0, 0, 1, 2, 0, 0, 2, 3, 0, 0, 3, 4, 0, 0)
                                    : _mm512_setr_epi32(0, 1, 2, 0, 2, 3, 4, 0, 4, 5, 6, 0, 6, 7, 8, 0),
                  at = _mm512_add_epi32(four, _mm512_mullo_epi32(_mm512_set1_epi32(0x01010101 * step),
                                                  _mm512_broadcast_i32x4(_mm_setr_epi32(0, 1, 2, 3))));
    for (; rows > 0; rows--, x += pitch, y += n)
        for (size_t i = 0; i < n; i += 16) {
            __m512i sum = _mm512_set1_epi32(start);
            for (size_t q = 0; q < quads; q++) {
                const uint8_t *from = x + offset[q] + i * (size_t)step;
                __m512i bytes = step == 1
                                    ? _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)from))
                                    : _mm512_loadu_si512(from);
                int32_t four_weights;
                memcpy(&four_weights, w + 4 * q, 4);
                bytes = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(words, bytes), at);
                sum = _mm512_dpbusd_epi32(sum, bytes, _mm512_set1_epi32(four_weights));
            }
            _mm512_mask_storeu_epi32(y + i, n - i < 16 ? (__mmask16)((1u << (n - i)) - 1) : 0xffff, sum);
        }
}
#endif

void SIMD(dot)(gale__simd *t)
{
    gale__simd_gemm g = {.mr = ROWS_MOST, .nr = 2 * VECTOR_LANES, .part = {ALL(tile)}};
#ifdef HAS_QUADS
    t->quads = quads_any;
#endif
#if EXTENSION == IS_avx512vnni
    SIMD(dot_last)(t);
#endif
#if SIGNED_ROWS
    const gale__simd_part of_signed[] = {ALL(tile_signed)};
    g.key = (gale__simd_key){GALE_U8, GALE_I8, GALE_I32, 4};
    t->gemm[t->n_gemms++] = g;
    memcpy(g.part, of_signed, sizeof of_signed);
    g.key = (gale__simd_key){GALE_I8, GALE_U8, GALE_I32, 4};
#else
    g.key = (gale__simd_key){GALE_BF16, GALE_BF16, GALE_F32, 2};
#endif
    t->gemm[t->n_gemms++] = g;
}
#endif

#ifdef HAS_QUADS
static void quads_any(int32_t *y, const uint8_t *x, int64_t pitch, const int32_t *offset, const int8_t *w, size_t quads,
    int step, int32_t start, size_t rows, size_t n)
{
    if (quads == 3 && step == 1) quads_of(y, x, pitch, offset, w, 3, 1, start, rows, n);
    else if (quads == 3) quads_of(y, x, pitch, offset, w, 3, 2, start, rows, n);
    else quads_of(y, x, pitch, offset, w, quads, step, start, rows, n);
}
#endif
