/* Windows over signals, and the mel scale. */
#include "ops/signal.h"
#include <math.h>

/* --- Windows: c[0] - c[1] cos(t) + c[2] cos(2 t). --- */

static void window(gale__lower *L, double c0, double c1, double c2)
{
    gale__prim_graph *g = L->g;
    int64_t n = gale__signal_length(L, 0, 1), turns = gale__attr_i(L, "periodic", 1) || n == 1 ? n : n - 1;
    gale_type type = gale__attr_type(L, "output_datatype", GALE_F32);
    if (!gale__lower_good(L)) return;
    gale__node i = gale__prim_iota(g, 1, &n, 0),
               one = gale__prim_unary(
                   g, GALE__COS, gale__signal_angle(L, gale__prim_mul(g, i, gale__lower_index(L, 2)), turns, 1));
    gale__node two =
        gale__prim_unary(g, GALE__COS, gale__signal_angle(L, gale__prim_mul(g, i, gale__lower_index(L, 4)), turns, 1));
    gale__node y =
        gale__prim_sub(g, gale__lower_value(L, one, c0), gale__prim_mul(g, one, gale__lower_value(L, one, c1)));
    y = gale__prim_add(g, y, gale__prim_mul(g, two, gale__lower_value(L, two, c2)));
    L->out[0] = gale__prim_cast(g, y, type);
}
LOWER(HannWindow) { window(L, 0.5, 0.5, 0); }
LOWER(HammingWindow) { window(L, 25.0 / 46, 21.0 / 46, 0); }
LOWER(BlackmanWindow) { window(L, 0.42, 0.5, 0.08); }

/* --- The mel scale. --- */

static double to_mel(double hertz) { return 2595 * log10(1 + hertz / 700); }

/* The spectrum's bin for edge i of the triangles; bands - 1 steps of an even mel scale are below the highest edge. */
static int64_t edge(double low, double step, int64_t i, int64_t n, double rate)
{
    double hertz = 700 * (pow(10, (low + (double)i * step) / 2595) - 1), bin = floor((double)(n + 1) * hertz / rate);
    return bin < 0 ? 0 : bin < 1e15 ? (int64_t)bin : (int64_t)1e15;
}

/* One triangle, with its top of 1 at `top`, into a column of y [rows, columns]. */
static void triangle(double *y, int64_t rows, int64_t columns, int64_t column, int64_t from, int64_t top, int64_t to)
{
    if (from == top && top < rows) y[top * columns + column] = 1;
    for (int64_t i = from; from < top && i <= top && i < rows; i++)
        y[i * columns + column] = (double)(i - from) / (double)(top - from);
    for (int64_t i = top; i < to && i < rows; i++) y[i * columns + column] = (double)(to - i) / (double)(to - top);
}

LOWER(MelWeightMatrix)
{
    int64_t bands = gale__signal_length(L, 0, 0), n = gale__signal_length(L, 1, 0), rate = gale__signal_length(L, 2, 0),
            n_low, n_high, dims[2] = {n / 2 + 1, bands};
    const double *low = gale__lower_known_floats(L, 3, &n_low), *high = gale__lower_known_floats(L, 4, &n_high);
    gale_type type = gale__attr_type(L, "output_datatype", GALE_F32);
    if (gale__lower_good(L) && (n_low != 1 || n_high != 1))
        gale__lower_refuse(L, "the lower and upper edge must be one number each");
    if (gale__lower_good(L) && bands > GALE__SIGNAL_LONGEST / dims[0])
        gale__lower_refuse(L, "a matrix of %lld by %lld is too large", (long long)dims[0], (long long)bands);
    if (!gale__lower_good(L)) return;
    double bottom = to_mel(low[0]), step = (to_mel(high[0]) - bottom) / (double)(bands + 2);
    double *y = gale__arena_alloc(&L->g->arena, (size_t)(dims[0] * bands) * sizeof *y);
    if (!y) L->g->status = GALE_NO_MEMORY;
    for (int64_t i = 0; y && i < bands; i++) {
        int64_t from = edge(bottom, step, i, n, (double)rate), top = edge(bottom, step, i + 1, n, (double)rate),
                to = edge(bottom, step, i + 2, n, (double)rate);
        triangle(y, dims[0], bands, i, from, top, to);
    }
    if (y) L->out[0] = gale__prim_cast(L->g, gale__prim_const(L->g, GALE_F64, 2, dims, y), type);
}
