/* Convolutions of bytes over values that are stored channels-last: one instruction multiplies eight bytes of two pixels
 * by those of two channels.  By channel, the bytes of four neighbouring places are interleaved, which serves two
 * results where these are one place apart. */
#include "kernel/cpu/simd_isa.h"
#include <arm_neon.h>
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
enum { PAIRS = 4, CHANNELS = GALE__POINT_CHANNELS, PIXELS = GALE__POINT_PIXELS, VECTOR = 16, UNIT = 8 };

/* Numbers that all lanes have in common. */
typedef struct common {
    float32x4_t by, inverse;
    int16x8_t zero;
    bool has_sign;
} common;

static common common_of(const gale__simd_quantised *q)
{
    return (common){vdupq_n_f32(q->by), vdupq_n_f32(1 / q->by), vdupq_n_s16((int16_t)q->zero), q->has_sign};
}

INLINE int32x4_t levels(int32x4_t sum, const float *scale, const float *bias, const common *v)
{
    float32x4_t x = vaddq_f32(vmulq_f32(vcvtq_f32_s32(sum), vld1q_f32(scale)), vld1q_f32(bias)),
                q = vmulq_f32(x, v->inverse);
    return vcvtnq_s32_f32(vfmaq_f32(q, vfmsq_f32(x, q, v->by), v->inverse));
}

INLINE uint8x16_t to_bytes(const int32x4_t l[4], const common *v)
{
    int16x8_t low = vqaddq_s16(vcombine_s16(vqmovn_s32(l[0]), vqmovn_s32(l[1])), v->zero),
              high = vqaddq_s16(vcombine_s16(vqmovn_s32(l[2]), vqmovn_s32(l[3])), v->zero);
    if (v->has_sign) return vreinterpretq_u8_s8(vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
    return vcombine_u8(vqmovun_s16(low), vqmovun_s16(high));
}

/* One result, where divisions by multiplication may be inexact. */
static uint8_t plain_byte(const gale__simd_quantised *q, int32_t sum, int64_t at)
{
    float y = rintf(((float)sum * q->scale[at] + q->bias[at]) / q->by) + q->zero, low = q->has_sign ? -128 : 0,
          high = q->has_sign ? 127 : 255;
    y = y == y ? y : 0;
    y = y > high ? high : y;
    return (uint8_t)(int32_t)(y < low ? low : y);
}

static void put_pixel(const gale__simd_quantised *q, const common *v, const int32_t *sums, int64_t place)
{
    uint8_t part[CHANNELS];
    for (int64_t c = 0; c < q->lanes && q->quick; c += VECTOR) {
        int32x4_t l[4];
        _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) l[i] =
            levels(vaddq_s32(vld1q_s32(sums + c + 4 * i), vld1q_s32(q->start + c + 4 * i)), q->scale + c + 4 * i,
                q->bias + c + 4 * i, v);
        vst1q_u8(part + c, to_bytes(l, v));
    }
    for (int64_t c = 0; c < q->lanes && !q->quick; c++)
        part[c] = plain_byte(q, (int32_t)((uint32_t)sums[c] + (uint32_t)q->start[c]), c);
    if (q->skip)
        gale__simd_get()->sum_bytes[q->has_sign](q->out + place, part, q->skip + place, &q->sum, (size_t)q->lanes);
    else if (q->lanes == CHANNELS) memcpy(q->out + place, part, CHANNELS);
    else memcpy(q->out + place, part, (size_t)q->lanes);
}

/* Pairs of pixels by eight channels; lanes: of the panel.  An odd last pixel is its own neighbour. */
INLINE void tile(int pairs, const gale__simd_pixels *d, const int64_t *from, int64_t lanes, int64_t c, int32_t *sums)
{
    int32x4_t s[PAIRS][4];
    const int8_t *w = d->w + c * UNIT;
    int64_t next = lanes * UNIT;
    _Pragma("GCC unroll 4") for (int p = 0; p < pairs; p++) _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++)
        s[p][j] = vdupq_n_s32(0);
    for (int64_t u = 0; u < d->taps; u++) {
        const uint8_t *x[2 * PAIRS];
        _Pragma("GCC unroll 8") for (int i = 0; i < 2 * pairs; i++) x[i] = d->x + u * d->hop + from[i];
        int64_t k = 0;
        for (; k + 2 <= d->units; k += 2, w += 2 * next) {
            uint8x16_t low[PAIRS], high[PAIRS];
            _Pragma("GCC unroll 4") for (int p = 0; p < pairs; p++)
            {
                uint64x2_t a = vreinterpretq_u64_u8(vld1q_u8(x[2 * p] + k * UNIT)),
                           b = vreinterpretq_u64_u8(vld1q_u8(x[2 * p + 1] + k * UNIT));
                low[p] = vreinterpretq_u8_u64(vzip1q_u64(a, b));
                high[p] = vreinterpretq_u8_u64(vzip2q_u64(a, b));
            }
            _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++)
            {
                int8x16_t y = vld1q_s8(w + 16 * j), z = vld1q_s8(w + next + 16 * j);
                _Pragma("GCC unroll 4") for (int p = 0; p < pairs; p++) s[p][j] = vusmmlaq_s32(s[p][j], low[p], y);
                _Pragma("GCC unroll 4") for (int p = 0; p < pairs; p++) s[p][j] = vusmmlaq_s32(s[p][j], high[p], z);
            }
        }
        if (k < d->units) {
            _Pragma("GCC unroll 4") for (int p = 0; p < pairs; p++)
            {
                uint8x16_t both = vcombine_u8(vld1_u8(x[2 * p] + k * UNIT), vld1_u8(x[2 * p + 1] + k * UNIT));
                _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++) s[p][j] =
                    vusmmlaq_s32(s[p][j], both, vld1q_s8(w + 16 * j));
            }
            w += next;
        }
    }
    _Pragma("GCC unroll 4") for (int p = 0; p < pairs; p++) _Pragma("GCC unroll 2") for (int j = 0; j < 4; j += 2)
    {
        int32_t *to = sums + 2 * p * CHANNELS + c + 2 * j;
        vst1q_s32(to, vcombine_s32(vget_low_s32(s[p][j]), vget_low_s32(s[p][j + 1])));
        vst1q_s32(to + CHANNELS, vcombine_s32(vget_high_s32(s[p][j]), vget_high_s32(s[p][j + 1])));
    }
}

static void tiles(int pairs, const gale__simd_pixels *d, const int64_t *from, int64_t lanes, int32_t *sums)
{
    for (int64_t c = 0; c < d->q.lanes; c += 8) {
        if (pairs == 4) tile(4, d, from, lanes, c, sums);
        else if (pairs == 3) tile(3, d, from, lanes, c, sums);
        else if (pairs == 2) tile(2, d, from, lanes, c, sums);
        else tile(1, d, from, lanes, c, sums);
    }
}

static void pixels_any(const gale__simd_pixels *d, int pixels, int64_t lanes)
{
    int64_t from[PIXELS], place[PIXELS];
    int32_t sums[PIXELS * CHANNELS];
    common v = common_of(&d->q);
    int half = pixels / 2, pairs = (pixels + 1) / 2;
    for (int i = 0; i < 2 * pairs; i++) {
        int at = i < pixels ? i : i - 1;
        from[i] = at < half ? at * d->step : d->jump + (at - half) * d->step;
        place[i] = at < half ? at * d->pitch : d->out_jump + (at - half) * d->pitch;
    }
    for (int p = 0, n; p < pairs; p += n) {
        n = pairs - p > PAIRS ? (pairs - p + 1) / 2 : pairs - p;
        tiles(n, d, from + 2 * p, lanes, sums + 2 * p * CHANNELS);
    }
    for (int i = 0; i < pixels; i++) put_pixel(&d->q, &v, sums + i * CHANNELS, place[i]);
}

#define PIXELS_OF(P)                                                                   \
    static void pixels_1_##P(const gale__simd_pixels *d) { pixels_any(d, P, VECTOR); } \
    static void pixels_2_##P(const gale__simd_pixels *d) { pixels_any(d, P, CHANNELS); }
#define EACH(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
EACH(PIXELS_OF)

/* --- By channel. --- */

/* 16 results of channels from 16 group on. */
INLINE void put_group(const gale__simd_beside *d, const common *v, const int32x4_t s[4], int64_t group, uint8_t *to)
{
    const gale__simd_quantised *q = &d->q;
    int64_t left = q->lanes - VECTOR * group;
    uint8_t part[VECTOR];
    if (q->quick) {
        int32x4_t l[4];
        _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) l[i] =
            levels(s[i], q->scale + 16 * i + 4 * group, q->bias + 16 * i + 4 * group, v);
        uint8x16_t bytes = to_bytes(l, v);
        if (left >= VECTOR) {
            vst1q_u8(to, bytes);
            return;
        }
        vst1q_u8(part, bytes);
    } else {
        int32_t sums[VECTOR];
        for (int i = 0; i < 4; i++) vst1q_s32(sums + 4 * i, s[i]);
        for (int i = 0; i < VECTOR; i++) part[i] = plain_byte(q, sums[i], i / 4 * 16 + 4 * group + i % 4);
    }
    memcpy(to, part, (size_t)(left < VECTOR ? left : VECTOR));
}

/* `both`: two results from each quad, which are one place apart. */
INLINE void beside_row(const gale__simd_beside *d, bool both, int64_t quads, int64_t group)
{
    common v = common_of(&d->q);
    int64_t each = both ? 2 : 1, next = 256 * quads;
    const uint8_t *x = d->x + VECTOR * group;
    uint8_t *to = d->q.out + VECTOR * group;
    for (int64_t i = 0; i < d->columns; i += each, x += 2 * d->place, to += each * d->pitch) {
        int32x4_t s[2][4];
        const int8_t *w = d->w + 16 * group;
        _Pragma("GCC unroll 4") for (int n = 0; n < 4; n++) s[0][n] = s[1][n] =
            vld1q_s32(d->q.start + 16 * n + 4 * group);
        for (int64_t u = 0; u < d->rows; u++, w += each * next)
            for (int64_t k = 0; k < quads; k++) {
                const uint8_t *at = x + u * d->hop + 4 * k * d->place;
                uint8x16_t a = vld1q_u8(at), b = vld1q_u8(at + d->place), c = vld1q_u8(at + 2 * d->place),
                           e = vld1q_u8(at + 3 * d->place);
                uint16x8_t low = vreinterpretq_u16_u8(vzip1q_u8(a, b)), high = vreinterpretq_u16_u8(vzip2q_u8(a, b)),
                           low_2 = vreinterpretq_u16_u8(vzip1q_u8(c, e)),
                           high_2 = vreinterpretq_u16_u8(vzip2q_u8(c, e));
                uint8x16_t quad[4] = {vreinterpretq_u8_u16(vzip1q_u16(low, low_2)),
                    vreinterpretq_u8_u16(vzip2q_u16(low, low_2)), vreinterpretq_u8_u16(vzip1q_u16(high, high_2)),
                    vreinterpretq_u8_u16(vzip2q_u16(high, high_2))};
                _Pragma("GCC unroll 4") for (int n = 0; n < 4; n++)
                {
                    s[0][n] = vusdotq_s32(s[0][n], quad[n], vld1q_s8(w + 256 * k + 64 * n));
                    if (both) s[1][n] = vusdotq_s32(s[1][n], quad[n], vld1q_s8(w + 256 * k + next + 64 * n));
                }
            }
        put_group(d, &v, s[0], group, to);
        if (both && i + 1 < d->columns) put_group(d, &v, s[1], group, to + d->pitch);
    }
}

static void beside(const gale__simd_beside *d)
{
    for (int64_t group = 0; group * VECTOR < d->q.lanes; group++) {
        if (d->step == 1 && d->quads == 1) beside_row(d, true, 1, group);
        else if (d->step == 1) beside_row(d, true, d->quads, group);
        else if (d->quads == 1) beside_row(d, false, 1, group);
        else beside_row(d, false, d->quads, group);
    }
}

#define ENTRY(P) t->pixels[0][P] = pixels_1_##P, t->pixels[1][P] = pixels_2_##P;
void SIMD(dot_last)(gale__simd *t)
{
    EACH(ENTRY)
    t->pixel_unit = UNIT;
    t->beside = beside;
}
