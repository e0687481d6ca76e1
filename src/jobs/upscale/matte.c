/* Colours and alpha leave a network with small independent errors.  Where alpha is nearly zero, their quotient has
 * nothing to do with the colour: integers saturate then, and floats need a limit. */
#include "jobs/upscale/matte.h"
#include "base/thread.h"

enum { BAND = 1 << 16 };

gale__matte_range gale__matte_find(const float *colours, int planes, const float *alpha, size_t n)
{
    gale__matte_range r = {0, 1};
    for (int c = 0; c < planes; c++)
        for (size_t i = 0; i < n; i++) {
            if (!(alpha[i] >= GALE__MATTE_LEAST)) continue;
            float v = colours[(size_t)c * n + i] / alpha[i];
            if (v < r.low) r.low = v;
            if (v > r.high) r.high = v;
        }
    return r;
}

typedef struct limiting {
    gale__matte_range range;
    float *colours;
    int planes;
    const float *alpha;
    size_t count;
} limiting;

/* What is beyond the range shrinks with the square of alpha: one power undoes the division, the other one lets it
 * fade out.  At alpha 1 nothing changes, so that there is no edge. */
static float limited(float v, float alpha, gale__matte_range r)
{
    float straight = v / (alpha > GALE__MATTE_LEAST ? alpha : GALE__MATTE_LEAST), near = straight < r.low    ? r.low
                                                                                         : straight > r.high ? r.high
                                                                                                             : straight;
    if (near == straight && alpha >= GALE__MATTE_LEAST) return v;
    return (near + (straight - near) * alpha * alpha) * alpha;
}

static void limit_band(void *arg, size_t band, int worker)
{
    const limiting *l = arg;
    size_t from = band * BAND, to = l->count - from < BAND ? l->count : from + BAND;
    (void)worker;
    for (int c = 0; c < l->planes; c++) {
        float *colours = l->colours + (size_t)c * l->count;
        for (size_t i = from; i < to; i++)
            if (l->alpha[i] > 0 && l->alpha[i] < 1) colours[i] = limited(colours[i], l->alpha[i], l->range);
    }
}

void gale__matte_limit(gale__matte_range range, float *colours, int planes, const float *alpha, size_t n)
{
    limiting l = {range, colours, planes, alpha, n};
    gale__parallel((n + BAND - 1) / BAND, limit_band, &l);
}
