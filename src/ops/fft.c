/* Fast Fourier transforms with butterflies of 2, 4 and odd numbers, each summing in FFTPACK's order: in the signal's
 * own precision, results equal NumPy's to the last digit, including rounding. */
#include "ops/signal.h"
#include <math.h>

#define LARGEST 13 /* odd radix */
#define PI 3.14159265358979323846

typedef gale__signal signal;

static signal add(gale__lower *L, signal a, signal b)
{
    return (signal){gale__prim_add(L->g, a.re, b.re), gale__prim_add(L->g, a.im, b.im)};
}
static signal sub(gale__lower *L, signal a, signal b)
{
    return (signal){gale__prim_sub(L->g, a.re, b.re), gale__prim_sub(L->g, a.im, b.im)};
}
static signal scaled(gale__lower *L, signal a, double f)
{
    gale__node c = gale__lower_value(L, a.re, f);
    return (signal){gale__prim_mul(L->g, c, a.re), gale__prim_mul(L->g, c, a.im)};
}
/* i a. */
static signal turned(gale__lower *L, signal a) { return (signal){gale__prim_unary(L->g, GALE__NEG, a.im), a.re}; }

/* The next factor: a single 2 comes before fours, those before odd ones.  0: there is none so small. */
static int radix(int64_t n)
{
    int64_t odd = n;
    while (odd % 4 == 0) odd /= 4;
    if (odd % 2 == 0) return 2;
    if (n % 4 == 0) return 4;
    for (int p = 3; p <= LARGEST; p += 2)
        if (n % p == 0) return p;
    return 0;
}

bool gale__signal_is_smooth(int64_t n)
{
    while (n > 1) {
        int p = radix(n);
        if (!p) return false;
        n /= p;
    }
    return n == 1;
}

static void butterfly_4(gale__lower *L, const signal *c, int sign, signal *out)
{
    signal even = add(L, c[0], c[2]), t = sub(L, c[0], c[2]), odd = add(L, c[1], c[3]), d = sub(L, c[1], c[3]);
    signal r = turned(L, sign > 0 ? d : scaled(L, d, -1));
    out[0] = add(L, even, odd), out[2] = sub(L, even, odd);
    out[1] = add(L, t, r), out[3] = sub(L, t, r);
}

/* Elements j and p - j have sum and difference; cosines weigh the sums, sines the differences. */
static void butterfly_odd(gale__lower *L, const signal *c, int p, int sign, signal *out)
{
    signal sum[LARGEST / 2 + 1], difference[LARGEST / 2 + 1];
    out[0] = c[0];
    for (int j = 1; j <= p / 2; j++) {
        sum[j] = add(L, c[j], c[p - j]), difference[j] = sub(L, c[j], c[p - j]);
        out[0] = add(L, out[0], sum[j]);
    }
    for (int u = 1; u <= p / 2; u++) {
        signal a = c[0], b = {GALE__NIL, GALE__NIL};
        for (int j = 1; j <= p / 2; j++) {
            double angle = 2 * PI * (double)(u * j % p) / (double)p;
            a = add(L, a, scaled(L, sum[j], cos(angle)));
            signal part = scaled(L, difference[j], sign * sin(angle));
            b = j > 1 ? add(L, b, part) : part;
        }
        b = turned(L, b);
        out[u] = add(L, a, b), out[p - u] = sub(L, a, b);
    }
}

/* Element i of result u is turned by u i of n parts of a circle. */
static signal twisted(gale__lower *L, signal a, int u, int64_t m, int64_t n, int sign)
{
    gale__prim_graph *g = L->g;
    gale_type type = gale__lower_type_of(g, a.re);
    gale__node angle = gale__signal_angle(L, gale__lower_walk(L, 2, (int64_t[]){1, m}, 1, 2 * u), n, sign);
    gale__node c = gale__prim_cast(g, gale__prim_unary(g, GALE__COS, angle), type),
               s = gale__prim_cast(g, gale__prim_unary(g, GALE__SIN, angle), type);
    return (signal){gale__prim_sub(g, gale__prim_mul(g, a.re, c), gale__prim_mul(g, a.im, s)),
        gale__prim_add(g, gale__prim_mul(g, a.re, s), gale__prim_mul(g, a.im, c))};
}

/* One part of results [rows, m] each, as [rows p, m], transformed further, and put back in order. */
static signal gathered(gale__lower *L, const signal *out, int p, int64_t rows, int64_t m, int sign)
{
    gale__prim_graph *g = L->g;
    gale__node re[LARGEST], im[LARGEST];
    for (int u = 0; u < p; u++)
        re[u] = gale__prim_unsqueeze(g, out[u].re, 2), im[u] = gale__prim_unsqueeze(g, out[u].im, 2);
    const int64_t flat[2] = {rows * p, m}, cut[3] = {rows, p, m}, all[2] = {rows, p * m};
    const int turn[3] = {0, 2, 1};
    signal y = {gale__prim_reshape(g, gale__prim_concat(g, 1, re, p), 2, flat),
        gale__prim_reshape(g, gale__prim_concat(g, 1, im, p), 2, flat)};
    y = gale__signal_butterflies(L, y, m, sign);
    y.re = gale__prim_reshape(g, gale__prim_permute(g, gale__prim_reshape(g, y.re, 3, cut), turn), 2, all);
    y.im = gale__prim_reshape(g, gale__prim_permute(g, gale__prim_reshape(g, y.im, 3, cut), turn), 2, all);
    return y;
}

gale__signal gale__signal_butterflies(gale__lower *L, gale__signal x, int64_t n, int sign)
{
    gale__prim_graph *g = L->g;
    if (n == 1 || !gale__lower_good(L)) return x;
    int p = radix(n);
    int64_t rows = gale__lower_peek(g, x.re).dims[0], m = n / (p ? p : 1);
    signal c[LARGEST], out[LARGEST];
    for (int j = 0; j < p; j++)
        c[j] = (signal){gale__prim_slice_axis(g, x.re, 1, j * m, m), gale__prim_slice_axis(g, x.im, 1, j * m, m)};
    if (p == 2) out[0] = add(L, c[0], c[1]), out[1] = sub(L, c[0], c[1]);
    else if (p == 4) butterfly_4(L, c, sign, out);
    else butterfly_odd(L, c, p, sign, out);
    for (int u = 1; u < p; u++) out[u] = twisted(L, out[u], u, m, n, sign);
    return gathered(L, out, p, rows, m, sign);
}
