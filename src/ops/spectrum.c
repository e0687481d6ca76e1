/* Fourier transforms.  Short complex signals of smooth lengths go through butterflies (fft.c).  Others are
 * transformed in double precision whatever their type, where the device has it: short ones are matrix products, long
 * ones are cut into short ones by Cooley and Tukey's rule, and lengths with a large prime go through a convolution
 * (Bluestein's).  All are sums of products, so they fuse, run everywhere and have gradients. */
#include "ops/signal.h"
#include <math.h>

#define LONGEST_MATRIX 128    /* transforms up to this length are one product */
#define LONGEST_BUTTERFLY 256 /* and have few butterflies; more cost more kernels than two products */
#define PI 3.14159265358979323846

typedef gale__signal signal;

static gale__node last_axis(gale__lower *L, gale__node x, int64_t start, int64_t extent)
{
    return gale__prim_slice_axis(L->g, x, gale__lower_rank_of(L->g, x) - 1, start, extent);
}
static gale__node whole(gale__lower *L, gale__node x) { return gale__prim_copy(L->g, x); }

/* e^(i angle), once per plan. */
static signal unit(gale__lower *L, gale__node angle)
{
    gale__node c = gale__prim_unary(L->g, GALE__COS, angle), s = gale__prim_unary(L->g, GALE__SIN, angle);
    return (signal){whole(L, gale__prim_cast(L->g, c, gale__lower_precise(L))),
        whole(L, gale__prim_cast(L->g, s, gale__lower_precise(L)))};
}

gale__node gale__signal_angle(gale__lower *L, gale__node index, int64_t n, int sign)
{
    gale__prim_graph *g = L->g;
    gale_type type = index >= 0 && gale__prim_elements(g, index) <= g->fold_max ? GALE_F64 : gale__lower_precise(L);
    gale__node in_turn = gale__prim_cast(g, gale__prim_binary(g, GALE__REM, index, gale__lower_index(L, 2 * n)), type);
    return gale__prim_mul(g, in_turn, gale__prim_scalar(g, type, sign * PI / (double)n));
}

/* The roots of one of order n: [rows, columns], element (a, b) is e^(sign 2 pi i a b / n). */
static signal roots(gale__lower *L, int64_t rows, int64_t columns, int64_t n, int sign)
{
    gale__prim_graph *g = L->g;
    int64_t dims[2] = {rows, columns};
    gale__node product = gale__prim_mul(g, gale__prim_iota(g, 2, dims, 0), gale__lower_walk(L, 2, dims, 1, 2));
    return unit(L, gale__signal_angle(L, product, n, sign));
}

typedef gale__node join(gale__prim_graph *g, gale__node x, gale__node y);
static gale__node times(gale__prim_graph *g, gale__node x, gale__node y) { return gale__prim_mul(g, x, y); }

/* a b, element by element or as matrices; either may be real. */
static signal multiply(gale__lower *L, join *of, signal a, signal b)
{
    gale__prim_graph *g = L->g;
    signal y = {of(g, a.re, b.re), GALE__NIL};
    if (a.im >= 0 && b.im >= 0) y.re = gale__prim_sub(g, y.re, of(g, a.im, b.im));
    if (b.im >= 0) y.im = of(g, a.re, b.im);
    if (a.im >= 0) y.im = b.im >= 0 ? gale__prim_add(g, y.im, of(g, a.im, b.re)) : of(g, a.im, b.re);
    return y;
}

static signal reshaped(gale__lower *L, signal x, int rank, const int64_t *dims)
{
    return (signal){
        gale__prim_reshape(L->g, x.re, rank, dims), x.im >= 0 ? gale__prim_reshape(L->g, x.im, rank, dims) : GALE__NIL};
}

/* The last of two axes cut, or filled up with zeros, to n. */
static gale__node fitted(gale__lower *L, gale__node x, int64_t n)
{
    gale__prim_node p = gale__lower_peek(L->g, x);
    int64_t low[2] = {0}, high[2] = {0, n - p.dims[1]};
    return x < 0 ? x : gale__prim_pad(L->g, x, low, high, NULL, 0);
}

static int64_t divisor(int64_t n)
{
    int64_t best = 1;
    for (int64_t d = 2; d <= LONGEST_MATRIX && d * d <= n; d++)
        if (n % d == 0) best = d;
    return best;
}

static signal transform(gale__lower *L, signal x, int64_t n, int sign);

/* n = a b: transforms over a, a turn of every element, transforms over b; the result's digits come out in the other
 * order. */
static signal in_two_steps(gale__lower *L, signal x, int64_t a, int64_t b, int sign)
{
    gale__prim_graph *g = L->g;
    int64_t rows = gale__lower_peek(g, x.re).dims[0], cut[3] = {rows, a, b}, flat[2] = {rows * a, b},
            all[2] = {rows, a * b};
    const int turn[3] = {0, 2, 1};
    signal y = multiply(L, gale__prim_matmul, roots(L, a, a, a, sign), reshaped(L, x, 3, cut));
    y = multiply(L, times, y, roots(L, a, b, a * b, sign));
    y = reshaped(L, transform(L, reshaped(L, y, 2, flat), b, sign), 3, cut);
    y.re = gale__prim_permute(g, y.re, turn), y.im = gale__prim_permute(g, y.im, turn);
    return reshaped(L, y, 2, all);
}

/* 2 j k = j^2 + k^2 - (k - j)^2: the transform is a convolution with a chirp, done by transforms of a power of two. */
static signal by_convolution(gale__lower *L, signal x, int64_t n, int sign)
{
    gale__prim_graph *g = L->g;
    int64_t m = 1;
    while (m < 2 * n - 1) m *= 2;
    gale__node j = gale__prim_iota(g, 2, (int64_t[]){1, n}, 1), k = gale__prim_iota(g, 2, (int64_t[]){1, m}, 1);
    gale__node d = gale__prim_binary(g, GALE__MIN, k, gale__prim_sub(g, gale__lower_index(L, m), k)),
               near = gale__prim_binary(g, GALE__LT, d, gale__lower_index(L, n));
    signal chirp = unit(L, gale__signal_angle(L, gale__prim_mul(g, j, j), n, sign)),
           back = unit(L, gale__signal_angle(L, gale__prim_mul(g, d, d), n, -sign));
    gale__node zero = gale__lower_value(L, back.re, 0);
    back.re = gale__prim_select(g, near, back.re, zero), back.im = gale__prim_select(g, near, back.im, zero);
    back = transform(L, back, m, -1);
    back.re = whole(L, back.re), back.im = whole(L, back.im);
    x = multiply(L, times, x, chirp);
    x.re = fitted(L, x.re, m), x.im = fitted(L, x.im, m);
    signal y = transform(L, multiply(L, times, transform(L, x, m, -1), back), m, 1);
    gale__node scale = gale__lower_value(L, y.re, 1 / (double)m);
    y.re = gale__prim_mul(g, fitted(L, y.re, n), scale), y.im = gale__prim_mul(g, fitted(L, y.im, n), scale);
    return multiply(L, times, y, chirp);
}

/* Along the last of two axes, of extent n; not divided by n. */
static signal transform(gale__lower *L, signal x, int64_t n, int sign)
{
    if (!gale__lower_good(L)) return (signal){GALE__NIL, GALE__NIL};
    if (n <= LONGEST_MATRIX) return multiply(L, gale__prim_matmul, x, roots(L, n, n, n, sign));
    int64_t a = divisor(n);
    return a > 1 ? in_two_steps(L, x, a, n / a, sign) : by_convolution(L, x, n, sign);
}

typedef struct job {
    int64_t n; /* the transform's length */
    bool inverse, onesided;
    bool direct; /* by butterflies, in the signal's own precision */
} job;

/* Half a spectrum stands for the whole: all but its ends count twice, and the result is real. */
static signal both_sides(gale__lower *L, signal x, int64_t n)
{
    gale__prim_graph *g = L->g;
    int64_t half[2] = {1, n / 2 + 1};
    gale__node k = gale__prim_mul(g, gale__prim_iota(g, 2, half, 1), gale__lower_index(L, 2));
    gale__node inner = gale__prim_binary(g, GALE__AND, gale__prim_binary(g, GALE__GT, k, gale__lower_index(L, 0)),
        gale__prim_binary(g, GALE__NE, k, gale__lower_index(L, n)));
    gale__node weight = gale__prim_select(g, inner, gale__lower_value(L, x.re, 2), gale__lower_value(L, x.re, 1));
    signal y = {gale__prim_mul(g, fitted(L, x.re, half[1]), weight), GALE__NIL};
    if (x.im >= 0) y.im = gale__prim_mul(g, fitted(L, x.im, half[1]), weight);
    return y;
}

/* x [rows, any] to [rows, n or n / 2 + 1]. */
static signal spectrum(gale__lower *L, signal x, const job *j)
{
    gale__prim_graph *g = L->g;
    if (j->inverse && j->onesided) x = both_sides(L, x, j->n);
    x.re = fitted(L, x.re, j->n), x.im = fitted(L, x.im, j->n);
    int sign = j->inverse ? 1 : -1;
    signal y = j->direct ? gale__signal_butterflies(L, x, j->n, sign) : transform(L, x, j->n, sign);
    if (j->onesided && !j->inverse)
        y.re = last_axis(L, y.re, 0, j->n / 2 + 1), y.im = last_axis(L, y.im, 0, j->n / 2 + 1);
    gale__node scale = gale__lower_value(L, y.re, 1 / (double)j->n);
    if (j->inverse) y.re = gale__prim_mul(g, y.re, scale), y.im = gale__prim_mul(g, y.im, scale);
    if (j->inverse && j->onesided) y.im = GALE__NIL;
    return y;
}

/* x [..., 1 or 2] along `axis`; the result has real and imaginary parts in its last axis, or the real part alone. */
static gale__node along_axis(gale__lower *L, gale__node x, int axis, const job *j)
{
    gale__prim_graph *g = L->g;
    if (!gale__lower_good(L)) return GALE__NIL;
    gale_type type = gale__lower_type_of(g, x), work = j->direct ? gale__lower_wide_type(type) : gale__lower_precise(L);
    int rank = gale__lower_rank_of(g, x) - 1, there[GALE_MAX_RANK], back[GALE_MAX_RANK];
    for (int d = 0; d < rank; d++) there[d] = d < axis ? d : d + 1 < rank ? d + 1 : axis;
    for (int d = 0; d < rank; d++) back[there[d]] = d;
    gale__node part[2] = {GALE__NIL, GALE__NIL};
    gale__prim_node p = {0};
    for (int c = 0; c < gale__lower_peek(g, x).dims[rank]; c++) {
        part[c] = gale__prim_permute(
            g, gale__prim_squeeze(g, last_axis(L, gale__prim_cast(g, x, work), c, 1), 1u << rank), there);
        p = gale__lower_peek(g, part[c]);
        int64_t n = p.dims[rank - 1], rows = 1;
        for (int d = 0; d < rank - 1; d++) rows *= p.dims[d];
        part[c] = gale__prim_reshape(g, part[c], 2, (int64_t[]){rows, n});
    }
    signal y = spectrum(L, (signal){part[0], part[1]}, j);
    if (!gale__lower_good(L)) return GALE__NIL;
    p.dims[rank - 1] = gale__lower_peek(g, y.re).dims[1];
    part[0] = y.re, part[1] = y.im;
    int parts = y.im >= 0 ? 2 : 1;
    for (int c = 0; c < parts; c++)
        part[c] = gale__prim_unsqueeze(g,
            gale__prim_cast(g, gale__prim_permute(g, gale__prim_reshape(g, part[c], rank, p.dims), back), type),
            1u << rank);
    return gale__prim_concat(g, rank, part, parts);
}

int64_t gale__signal_length(gale__lower *L, int i, int64_t fallback)
{
    int64_t count = 0;
    const int64_t *v = gale__lower_known_ints(L, i, &count);
    int64_t n = v && count == 1 ? v[0] : fallback;
    if (v && count != 1) gale__lower_refuse(L, "input %d has %lld elements, not one", i, (long long)count);
    else if (n < 1 || n > GALE__SIGNAL_LONGEST)
        gale__lower_refuse(L, "a length of %lld is outside 1 to %lld", (long long)n, GALE__SIGNAL_LONGEST);
    return n;
}

/* The axis is an input; older models have an attribute. */
LOWER(DFT)
{
    gale__prim_node p = gale__lower_peek(L->g, L->in[0]);
    int64_t count = 0;
    const int64_t *given = gale__lower_known_ints(L, 2, &count);
    int axis = gale__lower_axis(L, given && count ? given[0] : gale__attr_i(L, "axis", -2), p.rank);
    job j = {.inverse = gale__attr_i(L, "inverse", 0), .onesided = gale__attr_i(L, "onesided", 0)};
    if (p.rank < 2 || axis == p.rank - 1 || p.dims[p.rank - 1] < 1 || p.dims[p.rank - 1] > 2)
        gale__lower_refuse(L,
            "a signal of rank %d along axis %d; its last axis, of extent 1 or 2, is for real and imaginary parts",
            p.rank, axis);
    if (!gale__lower_good(L)) return;
    j.n = gale__signal_length(L, 1, j.inverse && j.onesided ? 2 * (p.dims[axis] - 1) : p.dims[axis]);
    j.direct = p.dims[p.rank - 1] == 2 && !j.onesided && j.n <= LONGEST_BUTTERFLY && gale__signal_is_smooth(j.n);
    if (gale__lower_good(L)) L->out[0] = along_axis(L, L->in[0], axis, &j);
}

/* Frames are windows over the signal.  PyTorch writes a real signal without the axis of parts. */
LOWER(STFT)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    gale__node weights = gale__lower_arg(L, 2), x = L->in[0];
    if (p.rank == 2) {
        p.dims[p.rank++] = 1;
        x = gale__prim_reshape(g, x, p.rank, p.dims);
    }
    if (p.rank != 3 || p.dims[2] < 1 || p.dims[2] > 2)
        gale__lower_refuse(L, "the signal has rank %d, or its last axis is not 1 or 2", p.rank);
    if (!gale__lower_good(L)) return;
    int64_t step = gale__signal_length(L, 1, 1),
            n = gale__signal_length(L, 3, weights >= 0 ? gale__prim_elements(g, weights) : p.dims[1]),
            size = weights >= 0 ? gale__prim_elements(g, weights) : n;
    if (gale__lower_good(L) && n > p.dims[1])
        gale__lower_refuse(L, "a frame of %lld is longer than the signal of %lld", (long long)n, (long long)p.dims[1]);
    if (!gale__lower_good(L)) return;
    gale__node frames = gale__prim_window(
        g, gale__prim_cast(g, x, gale__lower_precise(L)), 1, 1 + (p.dims[1] - n) / step, size, step, 1, 0, 0);
    if (weights >= 0)
        frames =
            gale__prim_mul(g, frames, gale__lower_along(L, gale__prim_cast(g, weights, gale__lower_precise(L)), 4, 2));
    job j = {.n = n, .onesided = gale__attr_i(L, "onesided", 1)};
    L->out[0] = gale__prim_cast(g, along_axis(L, frames, 2, &j), p.type);
}
