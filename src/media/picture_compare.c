/* Compares two pictures: PSNR, and SSIM as originally defined (Wang et al. 2004), at positions where the whole window
 * fits.  The window is separable: a ring of rows filtered along x is filtered along y, so memory grows only with the
 * width. */
#include "base/thread.h"
#include "media/picture.h"
#include <math.h>
#include <string.h>

enum { TAPS = 11, MAPS = 5, BAND = 64 };

typedef struct pair {
    float *a, *b;
} pair; /* planes of the two pictures */
typedef struct ssim_job {
    pair planes;
    int64_t width, height; /* of the planes */
    double weights[TAPS];
    double *rings; /* a worker each: TAPS x MAPS x (width - 10) */
    double *sums;  /* a band each */
} ssim_job;

/* Row y of both planes, their squares and their product, filtered along x. */
static void filter_row(const ssim_job *j, int64_t y, double *ring)
{
    int64_t w = j->width - TAPS + 1;
    const float *a = j->planes.a + y * j->width, *b = j->planes.b + y * j->width;
    double *to = ring + y % TAPS * MAPS * w;
    memset(to, 0, (size_t)(MAPS * w) * sizeof *to);
    for (int k = 0; k < TAPS; k++)
        for (int64_t x = 0; x < w; x++) {
            double p = a[x + k], q = b[x + k], g = j->weights[k];
            to[x] += g * p;
            to[w + x] += g * q;
            to[2 * w + x] += g * p * p;
            to[3 * w + x] += g * q * q;
            to[4 * w + x] += g * p * q;
        }
}

static double ssim_at(const ssim_job *j, const double *ring, int64_t y, int64_t x)
{
    const double c1 = 0.01 * 0.01, c2 = 0.03 * 0.03;
    int64_t w = j->width - TAPS + 1;
    double m[MAPS] = {0};
    for (int k = 0; k < TAPS; k++)
        for (int i = 0; i < MAPS; i++) m[i] += j->weights[k] * ring[((y + k) % TAPS * MAPS + i) * w + x];
    double aa = m[2] - m[0] * m[0], bb = m[3] - m[1] * m[1], ab = m[4] - m[0] * m[1];
    return (2 * m[0] * m[1] + c1) * (2 * ab + c2) / ((m[0] * m[0] + m[1] * m[1] + c1) * (aa + bb + c2));
}

static void ssim_band(void *arg, size_t band, int worker)
{
    const ssim_job *j = arg;
    int64_t w = j->width - TAPS + 1, h = j->height - TAPS + 1, first = (int64_t)band * BAND,
            last = first + BAND < h ? first + BAND : h;
    double *ring = j->rings + (int64_t)worker * TAPS * MAPS * w, sum = 0;
    for (int64_t y = first; y < first + TAPS - 1; y++) filter_row(j, y, ring);
    for (int64_t y = first; y < last; y++) {
        filter_row(j, y + TAPS - 1, ring);
        for (int64_t x = 0; x < w; x++) sum += ssim_at(j, ring, y, x);
    }
    j->sums[band] = sum;
}

static gale_status ssim(pair planes, int64_t width, int64_t height, double *out)
{
    int64_t w = width - TAPS + 1, h = height - TAPS + 1;
    ssim_job j = {.planes = planes, .width = width, .height = height};
    double total = 0, all = 0;
    *out = NAN;
    if (w < 1 || h < 1) return GALE_OK;
    size_t bands = (size_t)((h + BAND - 1) / BAND);
    for (int k = 0; k < TAPS; k++) total += j.weights[k] = exp(-(k - 5) * (k - 5) / (2 * 1.5 * 1.5));
    for (int k = 0; k < TAPS; k++) j.weights[k] /= total;
    j.rings = gale__calloc((size_t)gale__parallel_width() * TAPS * MAPS, (size_t)w * sizeof *j.rings);
    j.sums = gale__calloc(bands, sizeof *j.sums);
    if (j.rings && j.sums) {
        gale__parallel(bands, ssim_band, &j);
        for (size_t i = 0; i < bands; i++) all += j.sums[i];
        *out = all / ((double)w * (double)h);
    }
    bool failed = !j.rings || !j.sums;
    gale__free(j.rings);
    gale__free(j.sums);
    return failed ? GALE_NO_MEMORY : GALE_OK;
}

static double psnr_of(double mean_square) { return mean_square > 0 ? -10 * log10(mean_square) : INFINITY; }

/* Mean of the squares, and the largest with its place. */
static double squares(pair p, size_t n, double *largest, size_t *at)
{
    double sum = 0;
    *largest = 0;
    *at = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)p.a[i] - (double)p.b[i]);
        if (isnan(d)) d = INFINITY;
        sum += d * d;
        if (d > *largest) *largest = d, *at = i;
    }
    return sum / (double)n;
}

typedef struct both {
    gale_picture *pictures[2];
    float *memory;
    pair planes[5];
    int count;
    size_t n;
} both; /* channels, then luma */

/* Both as planes of floats: colours first, alpha last, luma behind all of them. */
static gale_status split(const gale_picture *a, const gale_picture *b, both *s)
{
    const gale_picture *from[2] = {a, b};
    bool alpha = a->channels % 2 == 0 || b->channels % 2 == 0;
    int colours = a->channels > 2 || b->channels > 2 ? 3 : 1;
    s->count = colours + alpha;
    s->n = (size_t)a->width * (size_t)a->height;
    if (!(s->memory = gale__calloc((size_t)(s->count + 1) * 2 * sizeof(float), s->n))) return GALE_NO_MEMORY;
    for (int k = 0; k < 2; k++) {
        float *to = s->memory + (size_t)k * (size_t)(s->count + 1) * s->n, *luma = to + (size_t)s->count * s->n;
        GALE_TRY(gale__picture_make(
            from[k], (gale__picture_kind){GALE_F32, colours + alpha, a->linear && b->linear, false}, &s->pictures[k]));
        gale__picture_to_planes(s->pictures[k], colours, false, to, alpha ? to + (size_t)colours * s->n : NULL);
        gale__picture_to_planes(s->pictures[k], 1, false, luma, NULL);
        for (int c = 0; c <= s->count; c++) *(k ? &s->planes[c].b : &s->planes[c].a) = to + (size_t)c * s->n;
    }
    return GALE_OK;
}

static void count_pixels(const both *s, gale_picture_difference *d)
{
    for (size_t i = 0; i < s->n; i++) {
        bool differs = false;
        for (int c = 0; c < s->count; c++) differs |= s->planes[c].a[i] != s->planes[c].b[i];
        d->pixels += differs;
    }
}

static gale_status measure(const both *s, int64_t width, int64_t height, gale_picture_difference *d)
{
    int colours = s->count > 2 ? 3 : 1;
    double sum = 0, likeness = 0;
    size_t at;
    d->channels = s->count;
    for (int c = 0; c <= s->count; c++) {
        gale_picture_measure *m = c == s->count ? &d->luma : &d->each[c];
        double mean = squares(s->planes[c], s->n, &m->largest, &at);
        m->psnr = psnr_of(mean);
        GALE_TRY(ssim(s->planes[c], width, height, &m->ssim));
        if (c < colours) {
            sum += mean / colours;
            likeness += m->ssim / colours;
            if (m->largest > d->colours.largest) d->colours.largest = m->largest;
        }
        if (c == s->count || m->largest <= d->largest) continue;
        d->largest = m->largest;
        d->channel = c;
        d->x = (int64_t)at % width;
        d->y = (int64_t)at / width;
    }
    d->colours.psnr = psnr_of(sum);
    d->colours.ssim = likeness;
    count_pixels(s, d);
    return GALE_OK;
}

/* Into the first of the two planes. */
static gale_status draw(const both *s, const gale_picture *a, double gain, gale_picture **picture)
{
    int colours = s->count > 2 ? 3 : 1;
    GALE_TRY(gale_picture_create(a->width, a->height, colours, GALE_U8, picture));
    for (int c = 0; c < colours; c++)
        for (size_t i = 0; i < s->n; i++)
            s->planes[c].a[i] = (float)(gain * fabs((double)s->planes[c].a[i] - (double)s->planes[c].b[i]));
    gale__picture_from_planes(*picture, colours, false, s->planes[0].a, NULL);
    return GALE_OK;
}

gale_status gale_picture_compare(
    const gale_picture *a, const gale_picture *b, gale_picture_difference *out, double gain, gale_picture **picture)
{
    GALE__NEED({"a", a}, {"b", b}, {"out", out});
    GALE_TRY(gale__picture_check(a));
    GALE_TRY(gale__picture_check(b));
    both s = {0};
    gale_picture_difference d = {0};
    if (a->width != b->width || a->height != b->height)
        return gale__fail(GALE_MISMATCH, "the pictures have different sizes: %lld x %lld and %lld x %lld",
            (long long)a->width, (long long)a->height, (long long)b->width, (long long)b->height);
    gale_status status = split(a, b, &s);
    if (status == GALE_OK) status = measure(&s, a->width, a->height, &d);
    if (status == GALE_OK && picture) status = draw(&s, a, gain, picture);
    for (int k = 0; k < 2; k++) gale_picture_destroy(&s.pictures[k]);
    gale__free(s.memory);
    if (status == GALE_OK) *out = d;
    return status;
}
