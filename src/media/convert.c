/* Converts samples, linear light and alpha between kinds of pictures.  Everything goes through blocks of RGBA floats
 * that stay in the L1 cache; a float represents 16 bits exactly, so integers are converted without loss. */
#include "base/num.h"
#include "base/thread.h"
#include "media/picture.h"
#include <math.h>
#include <string.h>

enum { BLOCK = 512, BAND = 128 * BLOCK };

static inline float unit(float v) { return v > 0 ? v < 1 ? v : 1 : 0; } /* NaN: 0 */

void gale__samples_to_f32(gale_type type, const void *from, float *to, size_t n)
{
    const uint8_t *b = from;
    const uint16_t *w = from;
    if (type == GALE_U8)
        for (size_t i = 0; i < n; i++) to[i] = b[i] / 255.0f;
    else if (type == GALE_U16)
        for (size_t i = 0; i < n; i++) to[i] = w[i] / 65535.0f;
    else if (type == GALE_F16)
        for (size_t i = 0; i < n; i++) to[i] = gale__f16_to_f32(w[i]);
    else memcpy(to, from, n * sizeof *to);
}

void gale__samples_from_f32(gale_type type, const float *from, void *to, size_t n)
{
    uint8_t *b = to;
    uint16_t *w = to;
    if (type == GALE_U8)
        for (size_t i = 0; i < n; i++) b[i] = (uint8_t)(int)(unit(from[i]) * 255.0f + 0.5f);
    else if (type == GALE_U16)
        for (size_t i = 0; i < n; i++) w[i] = (uint16_t)(int)(unit(from[i]) * 65535.0f + 0.5f);
    else if (type == GALE_F16)
        for (size_t i = 0; i < n; i++) w[i] = gale__f32_to_f16(from[i]);
    else memcpy(to, from, n * sizeof *from);
}

void gale__premultiply(float *pixels, size_t n, int channels)
{
    if (channels % 2) return;
    for (size_t i = 0; i < n; i++, pixels += channels)
        for (int c = 0; c < channels - 1; c++) pixels[c] *= pixels[channels - 1];
}

void gale__unpremultiply(float *pixels, size_t n, int channels)
{
    if (channels % 2) return;
    for (size_t i = 0; i < n; i++, pixels += channels)
        for (int c = 0; c < channels - 1 && pixels[channels - 1] > 0; c++) pixels[c] /= pixels[channels - 1];
}

float gale__srgb_to_linear(float v)
{
    float a = fabsf(v);
    return copysignf(a <= 0.04045f ? a / 12.92f : powf((a + 0.055f) / 1.055f, 2.4f), v);
}

float gale__linear_to_srgb(float v)
{
    float a = fabsf(v);
    return copysignf(a <= 0.0031308f ? a * 12.92f : 1.055f * powf(a, 1 / 2.4f) - 0.055f, v);
}

static float luma(const float *rgb) { return (19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2]) / 65536; }

/* n pixels from the first-th on, rows having no gaps; to RGBA. */
static void load(const gale_picture *p, size_t first, size_t n, float *rgba)
{
    float raw[BLOCK * 4];
    int c = p->channels;
    gale__samples_to_f32(p->type, (const char *)p->data + first * (size_t)c * gale_type_size(p->type),
        c == 4 ? rgba : raw, n * (size_t)c);
    if (c == 4) return;
    for (size_t i = 0; i < n; i++) {
        const float *s = raw + i * (size_t)c;
        float *d = rgba + 4 * i;
        d[0] = s[0];
        d[1] = s[c == 3 ? 1 : 0];
        d[2] = s[c == 3 ? 2 : 0];
        d[3] = c == 2 ? s[1] : 1;
    }
}

/* `coloured`: the values came from three channels, so that grey is their luma. */
static void store(const gale_picture *p, size_t first, size_t n, const float *rgba, bool coloured)
{
    float raw[BLOCK * 4];
    int c = p->channels;
    for (size_t i = 0; i < n && c < 4; i++) {
        const float *s = rgba + 4 * i;
        float *d = raw + i * (size_t)c;
        d[0] = c < 3 && coloured ? luma(s) : s[0];
        if (c == 2) d[1] = s[3];
        if (c == 3) d[1] = s[1], d[2] = s[2];
    }
    gale__samples_from_f32(
        p->type, c == 4 ? rgba : raw, (char *)p->data + first * (size_t)c * gale_type_size(p->type), n * (size_t)c);
}

typedef struct job {
    const gale_picture *from, *to;
    size_t pixels;
} job;

static void adjust(const job *j, float *rgba, size_t n)
{
    bool had = j->from->channels % 2 == 0, drops = had && j->to->channels % 2, bent = j->from->linear != j->to->linear;
    bool multiplied = had && j->from->premultiplied, wanted = had && !drops && j->to->premultiplied;
    if (multiplied && (bent || !wanted)) {
        gale__unpremultiply(rgba, n, 4);
        multiplied = false;
    }
    for (size_t i = 0; i < 4 * n && bent; i++)
        if (i % 4 < 3) rgba[i] = j->to->linear ? gale__srgb_to_linear(rgba[i]) : gale__linear_to_srgb(rgba[i]);
    for (size_t i = 0; i < 4 * n && drops; i++)
        if (i % 4 < 3) rgba[i] = rgba[i] * rgba[i | 3] + (1 - rgba[i | 3]);
    if (wanted && !multiplied) gale__premultiply(rgba, n, 4);
}

static void convert_band(void *arg, size_t band, int worker)
{
    const job *j = arg;
    float rgba[BLOCK * 4];
    (void)worker;
    for (size_t at = band * BAND; at < j->pixels && at < (band + 1) * BAND; at += BLOCK) {
        size_t n = j->pixels - at < BLOCK ? j->pixels - at : BLOCK;
        load(j->from, at, n, rgba);
        adjust(j, rgba, n);
        store(j->to, at, n, rgba, j->from->channels > 2);
    }
}

gale_status gale__picture_make(const gale_picture *p, gale__picture_kind kind, gale_picture **out)
{
    gale_picture *made = NULL;
    GALE_TRY(gale_picture_create(p->width, p->height, kind.channels, kind.type, &made));
    made->linear = kind.linear;
    made->premultiplied = kind.premultiplied && kind.channels % 2 == 0;
    gale_status status = gale__picture_notes_copy(p, made);
    if (status != GALE_OK) {
        gale_picture_destroy(&made);
        return status;
    }
    job j = {p, made, (size_t)p->width * (size_t)p->height};
    gale__parallel((j.pixels + BAND - 1) / BAND, convert_band, &j);
    *out = made;
    return GALE_OK;
}

gale_status gale_picture_convert(const gale_picture *picture, gale_type type, int channels, gale_picture **out)
{
    GALE__NEED({"picture", picture}, {"out", out});
    GALE_TRY(gale__picture_check(picture));
    bool floats = gale__type_is_float(type);
    return gale__picture_make(
        picture, (gale__picture_kind){type, channels, floats && picture->linear, picture->premultiplied}, out);
}

typedef struct planes {
    const gale_picture *p;
    int planes;
    bool multiply;
    float *colours, *alpha;
    size_t pixels;
} planes;

static void split_band(void *arg, size_t band, int worker)
{
    const planes *j = arg;
    float rgba[BLOCK * 4];
    (void)worker;
    for (size_t at = band * BAND; at < j->pixels && at < (band + 1) * BAND; at += BLOCK) {
        size_t n = j->pixels - at < BLOCK ? j->pixels - at : BLOCK;
        load(j->p, at, n, rgba);
        if (j->multiply && j->p->channels % 2 == 0) gale__premultiply(rgba, n, 4);
        for (int c = 0; c < j->planes; c++)
            for (size_t i = 0; i < n; i++)
                j->colours[(size_t)c * j->pixels + at + i] =
                    j->planes == 1 && j->p->channels > 2 ? luma(rgba + 4 * i) : rgba[4 * i + (size_t)c];
        for (size_t i = 0; i < n && j->alpha; i++) j->alpha[at + i] = rgba[4 * i + 3];
    }
}

void gale__picture_to_planes(const gale_picture *p, int n, bool multiply, float *colours, float *alpha)
{
    planes j = {p, n, multiply && !p->premultiplied, colours, alpha, (size_t)p->width * (size_t)p->height};
    gale__parallel((j.pixels + BAND - 1) / BAND, split_band, &j);
}

static void merge_band(void *arg, size_t band, int worker)
{
    const planes *j = arg;
    float rgba[BLOCK * 4];
    (void)worker;
    for (size_t at = band * BAND; at < j->pixels && at < (band + 1) * BAND; at += BLOCK) {
        size_t n = j->pixels - at < BLOCK ? j->pixels - at : BLOCK;
        for (size_t i = 0; i < n; i++) {
            for (size_t c = 0; c < 3; c++) rgba[4 * i + c] = j->colours[(j->planes == 1 ? 0 : c) * j->pixels + at + i];
            rgba[4 * i + 3] = j->alpha ? unit(j->alpha[at + i]) : 1;
        }
        if (j->multiply) gale__unpremultiply(rgba, n, 4);
        store(j->p, at, n, rgba, j->planes == 3);
    }
}

void gale__picture_from_planes(gale_picture *p, int n, bool multiplied, const float *colours, const float *alpha)
{
    planes j = {p, n, multiplied && alpha && !p->premultiplied, (float *)colours, (float *)alpha,
        (size_t)p->width * (size_t)p->height};
    gale__parallel((j.pixels + BAND - 1) / BAND, merge_band, &j);
}
