/* Products of f32 by instructions that multiply tiles of bf16.  Each number is cut into three bf16 shares: itself
 * rounded, what is left of it rounded, and the rest, which together are the number.  Six of the nine products of
 * shares are added; the others are below 2^-24 of the product.
 *
 * A unit of a panel is 32 steps of k by 32 rows (or lanes): for each share two tiles, of 16 rows of 64 bytes.  A row of
 * a's tiles has steps k and k + 16 side by side, one of b's lanes of the same two steps; so both are cut in one way. */
#include "base/cpu.h"
#include "kernel/cpu/simd_isa.h"
#include <immintrin.h>
#include <string.h>

enum { SIDE = 32, HALF = 16, ROW = 64, TILE = HALF * ROW, SHARE = 2 * TILE, UNIT = 3 * SHARE, PAIR = 16 };
#define INLINE static inline __attribute__((always_inline))

INLINE __m512i upper(__m512i x) { return _mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000)); }
INLINE __m512i rounded(__m512 x) { return upper(_mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000))); }

typedef struct shares {
    __m512i of[3];
} shares;

/* Where rounding would leave the range, or there is nothing to round: the first share is truncated, and all there is of
 * infinities and NaN. */
static __attribute__((noinline)) shares cut_odd(__m512 x)
{
    __mmask16 nan = _mm512_fpclass_ps_mask(x, 0x81), finite = (__mmask16)~_mm512_fpclass_ps_mask(x, 0x99);
    shares s = {{upper(_mm512_castps_si512(x))}};
    __m512 left = _mm512_maskz_sub_ps(finite, x, _mm512_castsi512_ps(s.of[0]));
    s.of[0] = _mm512_mask_mov_epi32(s.of[0], nan, _mm512_set1_epi32(0x7fc00000));
    s.of[1] = rounded(left);
    s.of[2] = _mm512_castps_si512(_mm512_sub_ps(left, _mm512_castsi512_ps(s.of[1])));
    return s;
}

INLINE shares cut(__m512 x)
{
    shares s = {{rounded(x)}};
    __m512 left = _mm512_sub_ps(x, _mm512_castsi512_ps(s.of[0]));
    s.of[1] = rounded(left);
    left = _mm512_sub_ps(left, _mm512_castsi512_ps(s.of[1]));
    s.of[2] = _mm512_castps_si512(left);
    if (__builtin_expect(_mm512_cmp_ps_mask(left, left, _CMP_UNORD_Q), 0)) s = cut_odd(x);
    return s;
}

INLINE __m512i beside(__m512i x, __m512i y) /* x >> 16 | upper(y) */
{
    return _mm512_ternarylogic_epi32(_mm512_srli_epi32(x, 16), y, _mm512_set1_epi32((int)0xffff0000), 0xf8);
}
/* Shares of x and y side by side, so many bytes apart. */
INLINE void put_at(char *to, size_t share, __m512 x, __m512 y)
{
    shares s = cut(x), t = cut(y);
    for (size_t i = 0; i < 3; i++) _mm512_storeu_si512(to + i * share, beside(s.of[i], t.of[i]));
}
INLINE void put(char *to, __m512 x, __m512 y) { put_at(to, SHARE, x, y); }

INLINE __mmask16 first(size_t n) { return (__mmask16)(n >= 16 ? 0xffff : (1u << n) - 1); }
INLINE __m512 load(const float *x, size_t at, size_t n)
{
    return n > at ? _mm512_maskz_loadu_ps(first(n - at), x + at) : _mm512_setzero_ps();
}

static void cut_rows(char *to, const float *x, size_t pitch, size_t rows, size_t k)
{
    for (size_t r = 0; r < SIDE; r++, x += pitch, to += ROW) {
        size_t i = 0, n = r < rows ? k : 0;
        char *unit = to;
        for (; i + SIDE <= n; i += SIDE, unit += UNIT) put(unit, _mm512_loadu_ps(x + i), _mm512_loadu_ps(x + i + PAIR));
        for (; i < k; i += SIDE, unit += UNIT) put(unit, load(x, i, n), load(x, i + PAIR, n));
    }
}

static void cut_lanes(char *to, size_t panel, const float *x, const float *y, size_t lanes)
{
    for (; lanes > 0; to += panel, x += SIDE, y += y ? SIDE : 0, lanes -= lanes < SIDE ? lanes : SIDE)
        for (size_t half = 0; half < SIDE; half += HALF)
            put(to + half * ROW, load(x, half, lanes), load(y, half, y ? lanes : 0));
}

/* Where tiles are: bytes from one row to the next, to the next 16 rows or lanes, to the next share, to the next unit.
 */
typedef struct layout {
    size_t row, half, share, unit;
} layout;
static const layout panel = {ROW, TILE, SHARE, UNIT};

/* Weights come from far memory when the other operand has few rows: they are fetched AHEAD bytes before their use, a
 * sixth of a unit with each product. */
enum { AHEAD = 2 * UNIT };
INLINE void fetch(const char *at, size_t bytes)
{
    _Pragma("GCC unroll 16") for (size_t i = 0; i < bytes; i += ROW) __builtin_prefetch(at + i);
}
INLINE void load_a(const char *a, size_t share, const layout *l, bool all)
{
    _tile_loadd(4, a + share * l->share, l->row);
    if (all) _tile_loadd(5, a + share * l->share + l->half, l->row);
}
INLINE void load_b(const char *b, size_t share, const layout *l)
{
    _tile_loadd(6, b + share * l->share, l->row);
    _tile_loadd(7, b + share * l->share + l->half, l->row);
}
INLINE void multiply(bool all, const char *next)
{
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (all) _tile_dpbf16ps(2, 5, 6);
    if (all) _tile_dpbf16ps(3, 5, 7);
    fetch(next, UNIT / 6);
}
INLINE void clear(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}
INLINE void store(char *c, size_t pitch, bool all)
{
    _tile_stored(0, c, pitch);
    _tile_stored(1, c + ROW, pitch);
    if (all) _tile_stored(2, c + HALF * pitch, pitch);
    if (all) _tile_stored(3, c + HALF * pitch + ROW, pitch);
}
/* Adds units to the tiles; in each the largest shares are multiplied last.  next: what is fetched. */
INLINE void sum_units(
    const char *a, const layout *la, const char *b, const layout *l, size_t units, bool all, const char *next)
{
    for (; units > 0; units--, a += la->unit, b += l->unit, next += UNIT) {
        load_a(a, 1, la, all);
        load_b(b, 1, l);
        multiply(all, next);
        load_b(b, 0, l);
        multiply(all, next + UNIT / 6);
        load_a(a, 2, la, all);
        multiply(all, next + UNIT / 6 * 2);
        load_a(a, 0, la, all);
        load_b(b, 2, l);
        multiply(all, next + UNIT / 6 * 3);
        load_b(b, 1, l);
        multiply(all, next + UNIT / 6 * 4);
        load_b(b, 0, l);
        multiply(all, next + UNIT / 6 * 5);
    }
}

/* c = a b. */
INLINE void set_tile(void *c, size_t ldc, const char *a, const char *b, size_t k, bool all)
{
    clear();
    sum_units(a, &panel, b, &panel, k, all, b + AHEAD);
    store(c, ldc * sizeof(float), all);
}
static void fresh_32(void *c, size_t ldc, const void *a, const void *b, size_t k) { set_tile(c, ldc, a, b, k, true); }
static void fresh_16(void *c, size_t ldc, const void *a, const void *b, size_t k) { set_tile(c, ldc, a, b, k, false); }

/* c += a b.  An instruction adds its 32 products apart and the sum to the tile, so rounding grows with the number of
 * instructions: each call has its own sums, which are added here. */
INLINE void add_sums(float *c, size_t ldc, const float *sums, size_t rows)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < SIDE; i += 16)
            _mm512_storeu_ps(
                c + r * ldc + i, _mm512_add_ps(_mm512_loadu_ps(c + r * ldc + i), _mm512_loadu_ps(sums + r * SIDE + i)));
}
INLINE void add_tile(float *c, size_t ldc, const void *a, const void *b, size_t k, bool all)
{
    float sums[SIDE * SIDE];
    set_tile(sums, SIDE, a, b, k, all);
    add_sums(c, ldc, sums, all ? SIDE : HALF);
}
static void tile_32(void *c, size_t ldc, const void *a, const void *b, size_t k) { add_tile(c, ldc, a, b, k, true); }
static void tile_16(void *c, size_t ldc, const void *a, const void *b, size_t k) { add_tile(c, ldc, a, b, k, false); }

/* The numbers of a row of 64 bytes again: steps (or lanes of the step) k, and of k + 16. */
INLINE void join(const char *at, size_t share, __m512 *x, __m512 *y)
{
    __m512i s[3];
    for (int i = 0; i < 3; i++) s[i] = _mm512_loadu_si512(at + (size_t)i * share);
#define PART_OF(i, f) _mm512_castsi512_ps(f(s[i]))
#define LOWER(v) _mm512_slli_epi32(v, 16)
    *x = _mm512_add_ps(_mm512_add_ps(PART_OF(2, LOWER), PART_OF(1, LOWER)), PART_OF(0, LOWER));
    *y = _mm512_add_ps(_mm512_add_ps(PART_OF(2, upper), PART_OF(1, upper)), PART_OF(0, upper));
}

/* The same sums, multiplied as f32. */
static void sum_plain(float *c, size_t ldc, const char *a, const layout *la, const char *b, const layout *l, size_t k)
{
    float rows[SIDE][2 * PAIR];
    for (; k > 0; k--, a += la->unit, b += l->unit) {
        for (int r = 0; r < SIDE; r++) {
            __m512 x, y;
            join(a + (size_t)(r / HALF) * la->half + (size_t)(r % HALF) * la->row, la->share, &x, &y);
            _mm512_storeu_ps(rows[r], x);
            _mm512_storeu_ps(rows[r] + PAIR, y);
        }
        for (int p = 0; p < PAIR; p++)
            for (size_t half = 0; half < 2; half++) {
                __m512 x, y;
                join(b + half * l->half + (size_t)p * l->row, l->share, &x, &y);
                for (size_t r = 0; r < SIDE; r++) {
                    float *to = c + r * ldc + half * HALF;
                    __m512 sum = _mm512_fmadd_ps(_mm512_set1_ps(rows[r][p]), x, _mm512_loadu_ps(to));
                    _mm512_storeu_ps(to, _mm512_fmadd_ps(_mm512_set1_ps(rows[r][p + PAIR]), y, sum));
                }
            }
    }
}

static void plain(void *c, size_t ldc, const void *a, const void *b, size_t k)
{
    sum_plain(c, ldc, a, &panel, b, &panel, k);
}

/* --- Bands. --- */

/* Which of 16 places of a strip, from i on, are inside. */
INLINE __mmask16 inside(const gale__simd_strip_of *s, int64_t i)
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return (__mmask16)(_mm512_cmplt_epi32_mask(lanes, _mm512_set1_epi32((int)(s->lo + s->n - i))) &
                       _mm512_cmpge_epi32_mask(lanes, _mm512_set1_epi32((int)(s->lo - i))));
}
INLINE __m512 load_in(__mmask16 in, const float *x, int64_t stride)
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    if (stride == 1) return _mm512_maskz_loadu_ps(in, x);
    return _mm512_mask_i32gather_ps(
        _mm512_setzero_ps(), in, _mm512_mullo_epi32(lanes, _mm512_set1_epi32((int)stride)), x, 4);
}

static void cut_strips(char *to, size_t plane, const gale__simd_strip_of *s, size_t n, size_t pitch, const float *x,
    const float *y, int64_t stride)
{
    for (; n > 0; n--, s++)
        for (int64_t i = 0; i < (int64_t)pitch; i += 16) {
            __mmask16 in = inside(s, i);
            int64_t at = s->from + (i - s->lo) * stride;
            put_at(to + (s->to + i) * 4, PAIR * plane, load_in(in, x + at, stride),
                y ? load_in(in, y + at, stride) : _mm512_setzero_ps());
        }
}

/* Sixteen rows of sixteen words, turned. */
INLINE void turn_16(__m512i *v)
{
    __m512i w[16];
    for (int i = 0; i < 16; i += 2) {
        w[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        w[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            v[i + 2 * j] = _mm512_unpacklo_epi64(w[i + j], w[i + j + 2]);
            v[i + 2 * j + 1] = _mm512_unpackhi_epi64(w[i + j], w[i + j + 2]);
        }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++) {
            w[8 * j + i] = _mm512_shuffle_i32x4(v[8 * j + i], v[8 * j + i + 4], 0x88);
            w[8 * j + i + 4] = _mm512_shuffle_i32x4(v[8 * j + i], v[8 * j + i + 4], 0xdd);
        }
    for (int i = 0; i < 8; i++) {
        v[i] = _mm512_shuffle_i32x4(w[i], w[i + 8], 0x88);
        v[i + 8] = _mm512_shuffle_i32x4(w[i], w[i + 8], 0xdd);
    }
}

static void cut_pixels(char *to, size_t share, const gale__simd_strip_of *s, size_t n, size_t pitch, const float *x,
    int64_t next, int64_t channels, int64_t stride)
{
    __m512i v[3][PAIR];
    for (; n > 0; n--, s++)
        for (int64_t i = 0; i < (int64_t)pitch; i += 16) {
            __mmask16 in = inside(s, i);
            for (int64_t p = 0; p < PAIR; p++) {
                const float *at = x + s->from + (i - s->lo) * stride + p * next;
                shares a = cut(load_in(p < channels ? in : 0, at, stride)),
                       b = cut(load_in(p + PAIR < channels ? in : 0, at + PAIR * next, stride));
                for (int t = 0; t < 3; t++) v[t][p] = beside(a.of[t], b.of[t]);
            }
            for (size_t t = 0; t < 3; t++) {
                turn_16(v[t]);
                for (int64_t p = 0; p < 16; p++) _mm512_storeu_si512(to + t * share + (s->to + i + p) * ROW, v[t][p]);
            }
        }
}

static void turn_sums(float *to, size_t pitch, const float *sums, size_t n)
{
    __m512i v[16];
    for (size_t i = 0; i < n; i += 16)
        for (size_t half = 0; half < SIDE; half += HALF) {
            for (size_t p = 0; p < 16; p++) v[p] = _mm512_loadu_si512(sums + (i + p) * SIDE + half);
            turn_16(v);
            for (size_t r = 0; r < 16; r++) _mm512_mask_storeu_epi32(to + (half + r) * pitch + i, first(n - i), v[r]);
        }
}

enum { APART = 16 }; /* units that are summed by themselves */

/* All taps of a tile; rows, lanes: where the operands of tap 0 are; by: which of them moves with taps. */
INLINE void sum_taps(float *c, size_t ldc, const gale__simd_taps *t, const char *rows, const layout *lr,
    const char *lanes, const layout *ll, bool upright, bool all)
{
    float sums[SIDE * SIDE];
    size_t left = t->taps * t->units, apart = left < APART ? left : APART;
    bool begun = false;
    clear();
    for (size_t tap = 0; tap < t->taps; tap++)
        for (size_t u = 0, n; u < t->units; u += n) {
            n = t->units - u < apart ? t->units - u : apart;
            const char *a = rows + (upright ? (size_t)t->offset[tap] : tap * t->a_tap) + u * lr->unit,
                       *b = lanes + (upright ? tap * t->a_tap : (size_t)t->offset[tap]) + u * ll->unit;
            sum_units(a, lr, b, ll, n, all, (upright ? b : a) + AHEAD);
            apart -= n;
            left -= n;
            if (apart) continue;
            store(begun ? (char *)sums : (char *)c, (begun ? SIDE : ldc) * sizeof(float), all);
            if (begun) add_sums(c, ldc, sums, all ? SIDE : HALF);
            clear();
            begun = true;
            apart = left < APART ? left : APART;
        }
}
#define BAND \
    (layout) { t->plane, ROW, PAIR * t->plane, 3 * PAIR * t->plane }
#define PIXELS \
    (layout) { ROW, TILE, t->plane, 3 * t->plane }
#define WINDOW(name, upright, all)                                                                          \
    static void name(float *c, size_t ldc, const gale__simd_taps *t, const char *weights, const char *band) \
    {                                                                                                       \
        const layout l = upright ? PIXELS : BAND;                                                           \
        if (upright) sum_taps(c, ldc, t, band, &l, weights, &panel, true, all);                             \
        else sum_taps(c, ldc, t, weights, &panel, band, &l, false, all);                                    \
    }
WINDOW(window_16, false, false)
WINDOW(window_32, false, true)
WINDOW(upright_16, true, false)
WINDOW(upright_32, true, true)

static void window_plain(
    float *c, size_t ldc, const gale__simd_taps *t, const char *weights, const char *band, bool upright)
{
    const layout l = upright ? PIXELS : BAND;
    for (size_t r = 0; r < SIDE; r++) memset(c + r * ldc, 0, SIDE * sizeof *c);
    for (size_t tap = 0; tap < t->taps; tap++) {
        const char *w = weights + tap * t->a_tap, *x = band + t->offset[tap];
        if (upright) sum_plain(c, ldc, x, &l, w, &panel, t->units);
        else sum_plain(c, ldc, w, &panel, x, &l, t->units);
    }
}

static bool is_finite(const float *x, size_t pitch, size_t rows, size_t n)
{
    __mmask16 found = 0;
    for (size_t r = 0; r < rows; r++, x += pitch)
        for (size_t i = 0; i < n; i += 16) found |= _mm512_fpclass_ps_mask(load(x, i, n), 0x99);
    return !found;
}

void SIMD(shares)(gale__simd *t, void (*open)(void), void (*close)(void))
{
    t->shares = (gale__simd_shares){cut_rows, cut_lanes, plain, cut_strips, cut_pixels, turn_sums,
        {{window_16, window_32}, {upright_16, upright_32}}, window_plain, is_finite};
    t->gemm[t->n_gemms++] = (gale__simd_gemm){.key = {GALE_F32, GALE_F32, GALE_F32, SIDE},
        .mr = SIDE,
        .nr = SIDE,
        .b_group = 2,
        .part = {{HALF, tile_16, .fresh = fresh_16}, {SIDE, tile_32, .fresh = fresh_32}},
        .open = open,
        .close = close};
}
