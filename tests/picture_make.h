/* Pictures, profiles and EXIF for tests, made from a number. */
#ifndef GALE_TEST_PICTURE_MAKE_H
#define GALE_TEST_PICTURE_MAKE_H
#include "base/num.h"
#include "media/picture.h"
#include <math.h>
#include <string.h>

static inline uint32_t picture_random(uint32_t *state) { return *state = *state * 1664525u + 1013904223u, *state >> 8; }

/* Smooth with a little noise, alpha between 0.2 and 1. */
static inline gale_picture *picture_make(int64_t w, int64_t h, int channels, gale_type type)
{
    gale_picture *p = NULL;
    uint32_t seed = (uint32_t)(w * 31 + h * 7 + channels);
    if (gale_picture_create(w, h, channels, type, &p) != GALE_OK) return NULL;
    for (int64_t i = 0; i < w * h * channels; i++) {
        int c = (int)(i % channels);
        float x = (float)(i / channels % w) / (float)w, y = (float)(i / channels / w) / (float)h,
              noise = (float)(picture_random(&seed) % 1000) / 1e5f;
        float v = c == channels - 1 && channels % 2 == 0
                      ? 0.2f + 0.8f * x
                      : 0.5f + 0.4f * sinf(6 * x + 2 * (float)c) * cosf(5 * y) + noise;
        gale__samples_from_f32(type, &v, (char *)p->data + (size_t)i * gale_type_size(type), 1);
    }
    return p;
}

/* The largest difference to the picture with each pixel repeated, in values of 0..1. */
static inline float off(const gale_picture *in, const gale_picture *out, int scale)
{
    float worst = 0;
    size_t size = gale_type_size(in->type);
    if (out->width != in->width * scale || out->height != in->height * scale || out->channels != in->channels ||
        out->type != in->type)
        return INFINITY;
    for (int64_t i = 0; i < out->width * out->height * in->channels; i++) {
        int64_t c = i % in->channels, x = i / in->channels % out->width / scale,
                y = i / in->channels / out->width / scale;
        float a, b;
        gale__samples_to_f32(in->type, (char *)out->data + (size_t)i * size, &a, 1);
        gale__samples_to_f32(
            in->type, (char *)in->data + (size_t)((y * in->width + x) * in->channels + c) * size, &b, 1);
        worst = fmaxf(worst, fabsf(a - b));
    }
    return worst;
}

static inline void picture_put32(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> 8 * (3 - i));
}

/* The least that libpng takes for a profile: a header and one tag. */
static inline size_t picture_icc(uint8_t *to /* 600 */, bool grey)
{
    uint32_t seed = 1;
    memset(to, 0, 600);
    for (int i = 160; i < 600; i++) to[i] = (uint8_t)picture_random(&seed);
    picture_put32(to, 600);
    picture_put32(to + 8, 0x02100000);
    memcpy(to + 12, "mntr", 4);
    memcpy(to + 16, grey ? "GRAY" : "RGB ", 4);
    memcpy(to + 20, "XYZ ", 4);
    memcpy(to + 36, "acsp", 4);
    picture_put32(to + 68, 0xf6d6);
    picture_put32(to + 72, 0x10000);
    picture_put32(to + 76, 0xd32d);
    picture_put32(to + 128, 1);
    memcpy(to + 132, "cprt", 4);
    picture_put32(to + 136, 144);
    picture_put32(to + 140, 456);
    memcpy(to + 144, "text\0\0\0\0none", 13);
    return 600;
}

/* Orientation, resolution (72 an inch) and the extents in the inner directory. */
static inline size_t picture_exif(uint8_t *to /* 128 */, int orientation)
{
    static const uint8_t text[] = {
        'M', 'M', 0, 42, 0, 0, 0, 8, 0, 5, /* five entries at 8 */
        1, 0x12, 0, 3, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0x1a, 0, 5, 0, 0, 0, 1, 0, 0, 0, 74, 1, 0x1b, 0, 5, 0, 0, 0, 1, 0, 0,
        0, 74, 1, 0x28, 0, 3, 0, 0, 0, 1, 0, 2, 0, 0, 0x87, 0x69, 0, 4, 0, 0, 0, 1, 0, 0, 0, 82, 0, 0, 0, 112, 0, 0, 0,
        72, 0, 0, 0, 1,                                                                                 /* at 74 */
        0, 2, 0xa0, 2, 0, 4, 0, 0, 0, 1, 0, 0, 0, 9, 0xa0, 3, 0, 3, 0, 0, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, /* at 82 */
        0, 0, 0, 0, 0, 0, /* an empty directory at 112 */
    };
    memcpy(to, text, sizeof text);
    to[19] = (uint8_t)orientation;
    return sizeof text;
}
#endif
