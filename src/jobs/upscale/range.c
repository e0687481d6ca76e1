/* Detects which values a network expects for black and white if no manifest says so.  Every such network reproduces a
 * plain picture closely if the values are in its range; in a wrong range its constants are too large or too small.
 * Its results for values far outside any picture show where its range ends. */
#include "jobs/upscale/feed.h"
#include <math.h>

enum { RANGES = 3, BYTES = 1 };
static const double usual[RANGES][2] = {{0, 1}, {0, 255}, {-1, 1}};
static const double far_beyond[2] = {-512, 768};
/* In shares of the range: what counts as the picture come back, by how much another range must be better, and by how
 * much the usual one must be off at all.  Networks for 0..1 come back by 0.005 to 0.05, and no better as 0..255; those
 * for 0..255 come back by four to thirty times less as what they are. */
static const double alike = 0.15, clearly = 1.0 / 3, noticeable = 0.015;

/* Ramps across, down and along, with two patches for edges. */
static double pattern(int64_t plane, int64_t planes, double x, double y)
{
    static const double patches[2][3] = {{0.9, 0.8, 0.1}, {0.1, 0.2, 0.9}}, luma[3] = {0.299, 0.587, 0.114};
    if (planes == 1)
        return luma[0] * pattern(0, 3, x, y) + luma[1] * pattern(1, 3, x, y) + luma[2] * pattern(2, 3, x, y);
    if (fabs(x - 0.25) < 0.125 && fabs(y - 0.25) < 0.125) return patches[0][plane];
    if (fabs(x - 0.75) < 0.125 && fabs(y - 0.75) < 0.125) return patches[1][plane];
    return plane == 0 ? x : plane == 1 ? y : 1 - 0.5 * (x + y);
}

typedef struct trial {
    gale__network network; /* under the range that is tried; results as they are */
    int64_t width, height;
    float *room;      /* for a row of the result */
    double *small;    /* the result at the picture's size, less the border: [channels_out][height][width] */
    double low, high; /* of the result; NaN if one value is NaN */
} trial;

static void fill(const trial *t, gale__feed *f)
{
    for (int64_t at = 0; at < t->network.channels_in * t->height; at++) {
        int64_t plane = at / t->height, y = at % t->height;
        float *row = gale__feed_row(f, 0, plane, y, t->room);
        for (int64_t x = 0; x < t->width; x++)
            row[x] = (float)pattern(plane, t->network.channels_in, ((double)x + 0.5) / (double)t->width,
                ((double)y + 0.5) / (double)t->height);
        gale__feed_put(f, 0, plane, y, row);
    }
}

static void shrink(trial *t, const gale__feed *f)
{
    int64_t scale = t->network.scale, wide = t->width - 2 * t->network.border,
            high = (t->height - 2 * t->network.border) * scale, count = t->network.channels_out * high / scale * wide;
    t->low = INFINITY;
    t->high = -INFINITY;
    for (int64_t i = 0; i < count; i++) t->small[i] = 0;
    for (int64_t at = 0; at < t->network.channels_out * high; at++) {
        const float *row = gale__feed_get(f, 0, at / high, at % high, t->room);
        double *to = t->small + at / scale * wide;
        for (int64_t x = 0; x < wide * scale; x++) {
            to[x / scale] += row[x] / (double)(scale * scale);
            if (!isfinite(row[x])) t->low = t->high = NAN;
            if (row[x] < t->low) t->low = row[x];
            if (row[x] > t->high) t->high = row[x];
        }
    }
}

/* Once under a range; what fails there for another reason than memory is no range of the network's. */
static gale_status try_range(trial *t, const double range[2])
{
    gale__feed f = {0};
    t->network.range[0][0] = range[0];
    t->network.range[0][1] = range[1];
    t->low = t->high = NAN;
    gale_status status = gale__feed_make(&t->network, 1, t->width, t->height, t->network.manifest->defaults, &f);
    if (status == GALE_OK) fill(t, &f);
    if (status == GALE_OK) status = gale__feed_run(&f);
    if (status == GALE_OK) shrink(t, &f);
    gale__feed_finish(&f);
    return gale__network_is_final(status) ? status : GALE_OK;
}

/* How far the result is from the picture, if the range is its own: root of the mean square. */
static double off(const trial *t, const double range[2])
{
    double sum = 0;
    int64_t border = t->network.border, wide = t->width - 2 * border, pixels = wide * (t->height - 2 * border),
            count = t->network.channels_out * pixels;
    if (isnan(t->low)) return INFINITY;
    for (int64_t i = 0; i < count; i++) {
        double x = ((double)(i % wide + border) + 0.5) / (double)t->width,
               y = ((double)(i % pixels / wide + border) + 0.5) / (double)t->height;
        double planes = t->network.channels_in == t->network.channels_out ? t->network.channels_out : 1,
               d = (t->small[i] - range[0]) / (range[1] - range[0]) - pattern(i / pixels, (int64_t)planes, x, y);
        sum += d * d;
    }
    return sqrt(sum / (double)count);
}

/* The range in which the results end, both ways; -1: they end nowhere, or elsewhere. */
static int find_ends(const trial *t)
{
    for (int i = 0; i < RANGES; i++) {
        double span = usual[i][1] - usual[i][0];
        if (fabs(t->low - usual[i][0]) < 0.01 * span && fabs(t->high - usual[i][1]) < 0.01 * span) return i;
    }
    return -1;
}

static void log_range(const gale__network *n, int in, int out, bool other, double found, double as_usual)
{
    const char *name = n->manifest->name;
    if (other)
        gale__log(GALE__WARN,
            "%s has no manifest: detected black and white at %g and %g, in its result at %g and %g. A test picture is "
            "reproduced with an error of %.3f (default range: %.3f); override with params: range and range_out",
            name, usual[in][0], usual[in][1], usual[out][0], usual[out][1], found, as_usual);
    else if (!(as_usual < alike))
        gale__log(GALE__WARN,
            "%s has no manifest, and no usual range reproduces a test picture: black and white are assumed at %g and "
            "%g; override with params: range in a manifest",
            name, usual[in][0], usual[in][1]);
    else
        gale__log(GALE__INFO,
            "%s has no manifest: black and white are assumed at %g and %g (a test picture is reproduced with an error "
            "of %.3f); override with params: range",
            name, usual[in][0], usual[in][1], as_usual);
}

/* *in and *out: what is taken where nothing better is found. */
static gale_status choose(trial *t, int *in, int *out, double *found, double *as_usual)
{
    bool bytes_in = t->network.type_in == GALE_U8,
         bytes_out = t->network.type_out == GALE_U8; /* whose range is theirs */
    int ends = -1, first_in = *in, first_out = *out;
    if (!bytes_in && !bytes_out) {
        GALE_TRY(try_range(t, far_beyond));
        ends = find_ends(t);
    }
    *found = *as_usual = INFINITY;
    for (int i = first_in; i < (bytes_in ? first_in + 1 : RANGES); i++) {
        GALE_TRY(try_range(t, usual[i]));
        for (int o = first_out; o < (bytes_out ? first_out + 1 : RANGES); o++) {
            double d = ends < 0 || ends == o ? off(t, usual[o]) : INFINITY;
            if (i == first_in && o == first_out) *as_usual = *found = d;
            else if (d < *found) *found = d, *in = i, *out = o;
        }
    }
    if (*found < alike && *found<clearly * * as_usual && * as_usual> noticeable) return GALE_OK;
    *in = first_in;
    *out = first_out;
    return GALE_OK;
}

gale_status gale__network_find_range(gale__network *n, int64_t width, int64_t height)
{
    trial t = {.network = *n, .width = width, .height = height};
    const int first_in = n->type_in == GALE_U8 ? BYTES : 0, first_out = n->type_out == GALE_U8 ? BYTES : 0;
    int in = first_in, out = first_out;
    double found, as_usual;
    t.network.range[1][0] = 0;
    t.network.range[1][1] = 1;
    t.room = gale__calloc((size_t)(width * n->scale), sizeof *t.room);
    t.small = gale__calloc((size_t)(n->channels_out * width * height), sizeof *t.small);
    gale_status status = t.room && t.small ? choose(&t, &in, &out, &found, &as_usual) : GALE_NO_MEMORY;
    gale__free(t.room);
    gale__free(t.small);
    if (status != GALE_OK) return status;
    for (int k = 0; k < 2; k++) {
        n->range[0][k] = usual[in][k];
        n->range[1][k] = usual[out][k];
    }
    log_range(n, in, out, in != first_in || out != first_out, found, as_usual);
    return GALE_OK;
}
