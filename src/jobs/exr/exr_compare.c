/* Compares two files, channel by channel, in double precision.  Equal bits are equal, including NaN. */
#include "base/num.h"
#include "base/str.h"
#include "gale/exr.h"
#include <math.h>
#include <string.h>

typedef struct pair {
    gale_exr *a, *b;
    int part_a, part_b;
    const gale_exr_channel *channel; /* of the first file */
    int64_t width, height;
} pair;

static const gale_exr_channel *find(const gale_exr_part *p, const char *name)
{
    for (int i = 0; i < p->channel_count; i++)
        if (!strcmp(p->channels[i].name, name)) return &p->channels[i];
    return NULL;
}

/* The part of the other file that goes with part i: of the same name, or of the same number where both have none. */
static int partner(const gale_exr *b, const gale_exr_part *p, int i)
{
    for (int k = 0; k < gale_exr_part_count(b); k++)
        if (*p->name && !strcmp(gale_exr_part_get(b, k)->name, p->name)) return k;
    return i < gale_exr_part_count(b) && (gale_exr_part_count(b) == 1 || !*p->name) ? i : -1;
}

static gale_status read_channel(gale_exr *f, int part, const pair *p, float **out)
{
    *out = gale__alloc((size_t)(p->width * p->height) * sizeof **out + 1);
    if (!*out) return GALE_NO_MEMORY;
    return gale_exr_read(f, part, 0, 0, &(gale_exr_target){p->channel->name, GALE_F32, *out, 0, 0}, 1);
}

static void measure(const pair *p, const float *a, const float *b, float *heat, gale_exr_difference *d)
{
    double sum = 0, squares = 0, top = 0;
    size_t n = (size_t)(p->width * p->height);
    for (size_t i = 0; i < n; i++) {
        double e = fabs((double)a[i] - (double)b[i]);
        if (isfinite(a[i])) top = fmax(top, fabs((double)a[i]));
        if (!memcmp(&a[i], &b[i], sizeof *a) || (isnan(a[i]) && isnan(b[i]))) e = 0;
        if (isnan(e)) e = INFINITY; /* one of them is NaN */
        d->differing += e > 0;
        sum += e, squares += e * e;
        if (heat) heat[i] = fmaxf(heat[i], (float)e);
        if (!(e > d->largest)) continue;
        d->largest = e;
        d->x = (int64_t)i % p->width, d->y = (int64_t)i / p->width;
    }
    d->samples = n;
    d->mean = sum / (double)n;
    d->rms = sqrt(squares / (double)n);
    d->psnr = d->rms > 0 ? 20 * log10(top / d->rms) : INFINITY;
}

static gale_status compare_channel(pair *p, float *heat, const char *prefix, gale_exr_difference *d)
{
    int64_t w, h;
    GALE_TRY(gale_exr_channel_size(p->a, p->part_a, 0, 0, p->channel->name, &p->width, &p->height));
    GALE_TRY(gale_exr_channel_size(p->b, p->part_b, 0, 0, p->channel->name, &w, &h));
    if (w != p->width || h != p->height)
        return gale__fail(GALE_MISMATCH,
            "channel %s has %lld x %lld samples in the first file, %lld x %lld in the second", p->channel->name,
            (long long)p->width, (long long)p->height, (long long)w, (long long)h);
    gale__str name = {0};
    gale__str_addf(&name, "%s%s%s", prefix, *prefix ? "." : "", p->channel->name);
    d->name = name.text;
    GALE_TRY(gale__str_check(&name));
    bool whole = p->channel->x_sampling == 1 && p->channel->y_sampling == 1;
    float *a = NULL, *b = NULL;
    gale_status status = read_channel(p->a, p->part_a, p, &a);
    if (status != GALE_OK) gale__fail_within(status, "first file");
    else if ((status = read_channel(p->b, p->part_b, p, &b)) != GALE_OK) gale__fail_within(status, "second file");
    if (status == GALE_OK) measure(p, a, b, whole ? heat : NULL, d);
    gale__free(a);
    gale__free(b);
    return status;
}

static int count_channels(const gale_exr *f)
{
    int n = 0;
    for (int i = 0; i < gale_exr_part_count(f); i++) n += gale_exr_part_get(f, i)->channel_count;
    return n;
}

/* Blue over green and yellow to red, by the logarithm: four decades below the largest. */
static void paint(const float *heat, size_t n, gale_picture *p)
{
    double top = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(heat[i])) top = fmax(top, (double)heat[i]);
    for (size_t i = 0; i < n; i++) {
        uint8_t *rgb = (uint8_t *)p->data + 3 * i;
        double t = heat[i] > 0 && top > 0 ? fmin(1, fmax(0, 1 + log10((double)heat[i] / top) / 4)) : -1;
        if (t < 0) continue; /* black: equal */
        rgb[0] = (uint8_t)(255 * fmin(1, fmax(0, 2 * t - 0.5)));
        rgb[1] = (uint8_t)(255 * fmin(1, fmax(0, t < 0.75 ? 2 * t : 4 - 4 * t)));
        rgb[2] = (uint8_t)(255 * fmin(1, fmax(0, 1 - 2 * t)));
    }
}

/* The picture is of the first part's size; channels of other parts add to it where they are of that size. */
static gale_status begin_heat(gale_exr *a, bool wanted, int64_t size[2], float **heat)
{
    GALE_TRY(gale_exr_level_size(a, 0, 0, 0, &size[0], &size[1]));
    if (wanted) *heat = gale__calloc((size_t)(size[0] * size[1]), sizeof **heat);
    return wanted && !*heat ? GALE_NO_MEMORY : GALE_OK;
}

static gale_status compare_part(
    gale_exr *a, gale_exr *b, int i, float *heat, const int64_t size[2], gale_exr_comparison *c)
{
    const gale_exr_part *first = gale_exr_part_get(a, i);
    int other = partner(b, first, i);
    for (int k = 0; k < first->channel_count; k++) {
        pair p = {a, b, i, other, &first->channels[k], 0, 0};
        int64_t w, h;
        if (other < 0 || !find(gale_exr_part_get(b, other), p.channel->name)) {
            c->only_first++;
            continue;
        }
        GALE_TRY(gale_exr_level_size(a, i, 0, 0, &w, &h));
        bool fits = w == size[0] && h == size[1];
        const char *prefix = gale_exr_part_count(a) > 1 ? first->name : "";
        GALE_TRY(compare_channel(&p, fits ? heat : NULL, prefix, &c->channels[c->count++]));
    }
    return GALE_OK;
}

gale_status gale_exr_compare(gale_exr *a, gale_exr *b, gale_flags flags, gale_exr_comparison *out)
{
    GALE__NEED({"a", a}, {"b", b}, {"out", out});
    GALE__FLAGS(flags, GALE_EXR_COMPARE_PICTURE);
    bool picture = flags & GALE_EXR_COMPARE_PICTURE;
    gale_exr_comparison c = {0};
    int64_t size[2];
    float *heat = NULL;
    gale_status status;
    c.channels = gale__calloc((size_t)count_channels(a) + 1, sizeof *c.channels);
    if (!c.channels) return GALE_NO_MEMORY;
    GALE_GO(begin_heat(a, picture, size, &heat));
    for (int i = 0; i < gale_exr_part_count(a); i++) GALE_GO(compare_part(a, b, i, heat, size, &c));
    c.only_second = count_channels(b) - c.count;
    c.same = !c.only_first && c.only_second <= 0;
    for (int i = 0; i < c.count; i++) c.same = c.same && !c.channels[i].differing;
    if (picture) {
        GALE_GO(gale_picture_create(size[0], size[1], 3, GALE_U8, &c.picture));
        paint(heat, (size_t)(size[0] * size[1]), c.picture);
    }
done:
    gale__free(heat);
    if (status == GALE_OK) *out = c;
    else gale_exr_comparison_finish(&c);
    return status;
}

void gale_exr_comparison_finish(gale_exr_comparison *c)
{
    if (!c) return;
    for (int i = 0; i < c->count; i++) gale__free(c->channels[i].name);
    gale__free(c->channels);
    gale_picture_destroy(&c->picture);
    *c = (gale_exr_comparison){0};
}
