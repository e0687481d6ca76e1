/* The coordinates and filters of Resize, computed on the host once per plan: an axis has few elements. */
#include "ops/resize.h"
#include <math.h>
#include <string.h>

#define MOST_TAPS 0x1p27 /* of all elements of an axis: they are tables on the host */

/* Where output element i is in the input. */
static double coordinate(
    gale__lower *L, const gale__resize *r, const gale__taps *t, double scale, double start, double end, double i)
{
    const char *c = r->coordinates;
    double in = (double)t->in, width = scale * in;
    if (!strcmp(c, "half_pixel")) return (i + 0.5) / scale - 0.5;
    if (!strcmp(c, "pytorch_half_pixel")) return width == 1 ? -0.5 : (i + 0.5) / scale - 0.5;
    if (!strcmp(c, "half_pixel_symmetric")) return in / 2 * (1 - (double)t->out / width) + (i + 0.5) / scale - 0.5;
    if (!strcmp(c, "align_corners")) return width == 1 ? 0 : i * (in - 1) / (width - 1);
    if (!strcmp(c, "asymmetric")) return i / scale;
    if (!strcmp(c, "tf_half_pixel_for_nn")) return (i + 0.5) / scale;
    if (!strcmp(c, "tf_crop_and_resize"))
        return start * (in - 1) +
               (width == 1 ? (end - start) * (in - 1) / 2 : i * (end - start) * (in - 1) / (width - 1));
    gale__lower_refuse(L, "unknown coordinate_transformation_mode '%s'", c);
    return 0;
}

static double nearest_of(gale__lower *L, const char *mode, double x)
{
    double low = floor(x), ratio = x - low;
    if (ratio == 0 || !strcmp(mode, "floor")) return low;
    if (!strcmp(mode, "ceil")) return low + 1;
    if (!strcmp(mode, "round_prefer_floor")) return ratio <= 0.5 ? low : low + 1;
    if (!strcmp(mode, "round_prefer_ceil")) return ratio < 0.5 ? low : low + 1;
    gale__lower_refuse(L, "unknown nearest_mode '%s'", mode);
    return low;
}

static double filter(const gale__resize *r, double distance)
{
    const double pi = 3.14159265358979323846;
    double x = fabs(distance), a = r->cubic_a;
    if (r->mode == GALE__RESIZE_LINEAR) return x < 1 ? 1 - x : 0;
    if (r->mode == GALE__RESIZE_BOX) return x <= 0.5 + 1e-9 ? 1 : 0; /* both of two at its edges */
    if (r->mode == GALE__RESIZE_LANCZOS)
        return x < 1e-9 ? 1 : x < 3 ? 3 * sin(pi * x) * sin(pi * x / 3) / (pi * pi * x * x) : 0;
    if (r->mode == GALE__RESIZE_MITCHELL)
        return x < 1   ? ((7 * x - 12) * x * x + 16.0 / 3) / 6
               : x < 2 ? (((-7.0 / 3 * x + 12) * x - 20) * x + 32.0 / 3) / 6
                       : 0;
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* One output element's taps around x; those outside are clamped, or left out and the rest weighed again. */
static void fill(const gale__resize *r, gale__taps *t, int64_t o, double x, double scale)
{
    double low = floor(x) == x ? x - 1 : floor(x), shrink = r->antialias && scale < 1 ? scale : 1, sum = 0;
    int first = 1 - t->count / 2;
    double *w = t->weight + o * t->count;
    int64_t *at = t->index + o * t->count;
    for (int k = 0; k < t->count; k++) {
        double place = low + first + k;
        bool out = place < 0 || place > (double)(t->in - 1);
        w[k] = out && r->exclude_outside ? 0 : filter(r, (place - x) * shrink);
        sum += w[k];
        at[k] = place < 0 ? 0 : out ? t->in - 1 : (int64_t)place;
    }
    t->first[o] = (int64_t)low + first;
    t->ratio[o] = x - low;
    bool again = (r->exclude_outside || r->antialias) && sum != 0;
    for (int k = 0; again && k < t->count; k++) w[k] /= sum;
}

static double tap_count(const gale__resize *r, double scale)
{
    if (r->mode == GALE__RESIZE_NEAREST) return 1;
    static const double supports[] = {0, 1, 2, 0.5, 2, 3};
    double support = supports[r->mode], shrink = r->antialias && scale < 1 ? scale : 1;
    return 2 - 2 * (floor(-support / shrink) + 1);
}

bool gale__taps_make(gale__lower *L, const gale__resize *r, int64_t in, int64_t out, double scale, double roi_start,
    double roi_end, gale__taps *t)
{
    bool crop = !strcmp(r->coordinates, "tf_crop_and_resize");
    if (out > INT32_MAX || tap_count(r, scale) > MOST_TAPS / (double)(out > 0 ? out : 1))
        return gale__lower_refuse(L, "cannot resize an axis of %lld elements to %lld, scaled by %g", (long long)in,
                   (long long)out, scale) >= 0;
    *t = (gale__taps){.in = in, .out = out, .count = (int)tap_count(r, scale)};
    size_t n = (size_t)(out * t->count + 1);
    t->index = gale__arena_alloc(&L->g->arena, n * sizeof *t->index);
    t->weight = gale__arena_alloc(&L->g->arena, n * sizeof *t->weight);
    t->first = gale__arena_alloc(&L->g->arena, ((size_t)out + 1) * sizeof *t->first);
    t->ratio = gale__arena_alloc(&L->g->arena, ((size_t)out + 1) * sizeof *t->ratio);
    t->outside = crop ? gale__arena_alloc(&L->g->arena, (size_t)out + 1) : NULL;
    if (!t->index || !t->weight || !t->first || !t->ratio || (crop && !t->outside)) L->g->status = GALE_NO_MEMORY;
    for (int64_t o = 0; o < out && gale__lower_good(L); o++) {
        double x = coordinate(L, r, t, scale, roi_start, roi_end, (double)o);
        if (!(fabs(x) < 1e15))
            return gale__lower_refuse(
                       L, "element %lld of an axis has the invalid source position %g", (long long)o, x) >= 0;
        if (crop) t->outside[o] = x < 0 || x > (double)(in - 1);
        if (r->mode != GALE__RESIZE_NEAREST) {
            fill(r, t, o, x, scale);
            continue;
        }
        double at = nearest_of(L, r->nearest, x);
        t->index[o] = at < 0 ? 0 : at > (double)(in - 1) ? in - 1 : (int64_t)at;
        t->weight[o] = 1;
    }
    return gale__lower_good(L);
}
