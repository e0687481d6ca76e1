/* Pictures: levels, each from the one before as it is stored, two samples along each axis into one; and counts of the
 * codes of samples, from which histograms and percentiles follow. */
#include "kernel/routines/routine.h"
#include "ops/lower.h"

static gale__node pair(gale__lower *L, const gale__levels_args *a, gale__node x, gale__node y)
{
    if (a->reduce == GALE__LEVELS_LARGEST) return gale__prim_binary(L->g, GALE__MAX, x, y);
    if (a->reduce == GALE__LEVELS_LEAST) return gale__prim_binary(L->g, GALE__MIN, x, y);
    gale__node sum = gale__prim_add(L->g, x, y);
    return gale__prim_mul(L->g, sum, gale__lower_value(L, sum, 0.5));
}

/* Half of an axis; an axis of one sample stays. */
static gale__node halve(gale__lower *L, const gale__levels_args *a, gale__node x, int axis)
{
    gale__prim_node p = gale__lower_peek(L->g, x);
    int64_t start[3] = {0}, step[3] = {1, 1, 1}, extent[3] = {p.dims[0], p.dims[1], p.dims[2]}, n = p.dims[axis];
    if (n < 2) return x;
    if (n % 2 && a->round_up) {
        const gale__node both[2] = {x, gale__prim_slice_axis(L->g, x, axis, n - 1, 1)};
        x = gale__prim_concat(L->g, axis, both, 2);
        n++;
    }
    step[axis] = 2;
    extent[axis] = n / 2;
    gale__node even = gale__prim_slice(L->g, x, start, step, extent);
    start[axis] = 1;
    return pair(L, a, even, gale__prim_slice(L->g, x, start, step, extent));
}

LOWER(PictureLevels)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    gale__node levels[32], v = L->in[0];
    gale_type type = (gale_type)p.type;
    if (p.rank != 3 || (type != GALE_F32 && type != GALE_F16)) {
        gale__lower_refuse(L, "pictures must be [channels, height, width] of f32 or f16");
        return;
    }
    const gale__levels_args a = {.channels = p.dims[0],
        .height = p.dims[1],
        .width = p.dims[2],
        .reduce = gale__attr_i(L, "reduce", GALE__LEVELS_AVERAGE),
        .round_up = gale__attr_i(L, "round_up", 0)};
    int count = p.dims[0] * p.dims[1] * p.dims[2] == 0 ? 0 : (int)gale__levels_count(&a);
    if (count < 1 || count > 32) {
        gale__lower_refuse(
            L, "a picture of %lld x %lld has no further levels", (long long)a.width, (long long)a.height);
        return;
    }
    for (int i = 0; i < count && gale__lower_good(L); i++) {
        v = halve(L, &a, halve(L, &a, gale__prim_cast(g, v, GALE_F32), 2), 1);
        v = gale__prim_cast(g, v, type);
        const int64_t n = gale__levels_offset(&a, i + 2) - gale__levels_offset(&a, i + 1);
        levels[i] = gale__prim_reshape(g, v, 1, &n);
    }
    if (gale__lower_good(L)) L->out[0] = gale__prim_concat(g, 0, levels, count);
}

LOWER(FmaHalves) { L->out[0] = gale__prim_fma_halves(L->g, L->in[0], L->in[1], L->in[2]); }

LOWER(CodeCounts)
{
    enum { MOST = 65536 };
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    const int64_t codes = gale__attr_i(L, "codes", MOST), samples = p.dims[0] * p.dims[1], counts = p.dims[0] * codes;
    if (p.rank != 2 || (p.type != GALE_F16 && p.type != GALE_BF16 && p.type != GALE_U16) || codes < 1 || codes > MOST) {
        gale__lower_refuse(L, "samples must be [rows, samples] of f16, bf16 or u16, and codes 1 to 65536");
        return;
    }
    gale__node code = p.type == GALE_U16 ? L->in[0] : gale__prim_bitcast(g, L->in[0], GALE_U16);
    code = gale__prim_cast(g, code, GALE_I64);
    gale__node at = gale__prim_add(g, code, gale__lower_walk(L, 2, p.dims, 0, codes));
    if (codes < MOST)
        at = gale__prim_select(
            g, gale__prim_binary(g, GALE__LT, code, gale__lower_index(L, codes)), at, gale__lower_index(L, -1));
    gale__node sums = gale__prim_put(g, gale__prim_splat_i(g, GALE_I32, 1, &counts, 0),
        gale__prim_reshape(g, at, 1, &samples), gale__prim_splat_i(g, GALE_I32, 1, &samples, 1), GALE__SUM);
    const int64_t dims[2] = {p.dims[0], codes};
    if (gale__lower_good(L)) L->out[0] = gale__prim_reshape(g, gale__prim_cast(g, sums, GALE_U32), 2, dims);
}
