/* Cleaning before enlarging.  The limits are where, on the test photographs, enlarging after cleaning comes closer to
 * the original than enlarging alone (docs/upscaler-training.md). */
#include "jobs/upscale/cleaning.h"
#include <stdio.h>

enum { QUALITY_MOST = 92 };
enum { TRAINED_LEAST = 30, TRAINED_MOST = 95 }; /* the qualities that the network was trained with */
static const double noise_least = 2.0, blocks_least = 0.05;

static bool is_compressed(const gale_picture_condition *c)
{
    return c->jpeg_quality && c->jpeg_quality <= QUALITY_MOST;
}

bool gale__cleaning_is_needed(const gale_picture_condition *c)
{
    return is_compressed(c) || c->noise >= noise_least || c->blocks >= blocks_least;
}

float gale__cleaning_quality(int jpeg_quality)
{
    int q = jpeg_quality < TRAINED_LEAST ? TRAINED_LEAST : jpeg_quality > TRAINED_MOST ? TRAINED_MOST : jpeg_quality;
    return jpeg_quality > 0 ? (float)q / 100 : 0;
}

void gale__cleaning_reason(const gale_picture_condition *c, char *out, size_t size)
{
    int n = 0;
    *out = 0;
    if (is_compressed(c)) n = snprintf(out, size, "JPEG quality %d", c->jpeg_quality);
    else if (c->blocks >= blocks_least) n = snprintf(out, size, "JPEG blocks");
    if (c->noise >= noise_least && n >= 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n, "%snoise %.1f", n ? ", " : "", c->noise);
}

gale_status gale__cleaning_begin(const gale_picture *in, gale_picture **out)
{
    GALE_TRY(gale__picture_make(in, (gale__picture_kind){GALE_F32, in->channels, in->linear, in->premultiplied}, out));
    (*out)->jpeg_quality = in->jpeg_quality;
    return GALE_OK;
}

void gale__cleaning_blend(const gale_picture *before, double amount, gale_picture *cleaned)
{
    const float *from = before->data;
    float *to = cleaned->data, share = (float)amount;
    int channels = before->channels, colours = channels - (channels % 2 == 0);
    size_t pixels = (size_t)(before->width * before->height);
    for (size_t i = 0; i < pixels; i++, from += channels, to += channels) {
        for (int c = 0; c < colours; c++) to[c] = share < 1 ? from[c] + share * (to[c] - from[c]) : to[c];
        for (int c = colours; c < channels; c++) to[c] = from[c];
    }
}

gale_status gale__cleaning_end(const gale_picture *in, const gale_picture *result, gale_picture **out)
{
    return gale__picture_make(result, (gale__picture_kind){in->type, in->channels, in->linear, in->premultiplied}, out);
}
