/* Gathers and scatters, all by a linear index computed on the way. */
#include "ops/lower.h"
#include <string.h>

LOWER(Gather)
{
    int axis = gale__axis(L, gale__attr_i(L, "axis", 0), gale__rank_of(L->g, L->in[0]));
    if (gale__good(L)) L->out[0] = gale__g_gather(L->g, L->in[0], L->in[1], axis);
}

/* Linear places in data for indices that replace one axis' coordinate. */
static gale__node element_places(gale__lower *L, gale__node data, gale__node index, int axis)
{
    gale__g *g = L->g;
    gale__pnode p = gale__peek(g, data), q = gale__peek(g, index);
    if (p.rank != q.rank) return gale__refuse(L, "data has rank %d, indices %d", p.rank, q.rank);
    gale__node at = gale__index(L, 0);
    int64_t stride = 1;
    for (int d = p.rank - 1; d >= 0; stride *= p.dims[d--]) {
        gale__node step = d == axis ? gale__g_mul(g, gale__wrap_index(L, index, p.dims[d]), gale__index(L, stride))
                                    : gale__walk(L, q.rank, q.dims, d, stride);
        at = gale__g_add(g, at, step);
    }
    return gale__g_expand(g, at, q.rank, q.dims);
}

LOWER(GatherElements)
{
    int axis = gale__axis(L, gale__attr_i(L, "axis", 0), gale__rank_of(L->g, L->in[0]));
    if (gale__good(L)) L->out[0] = gale__g_take(L->g, L->in[0], element_places(L, L->in[0], L->in[1], axis));
}

/* How ScatterElements and ScatterND join; -1 sets. */
static int reduction(gale__lower *L)
{
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    static const int modes[] = {-1, GALE__SUM, GALE__PROD, GALE__RMAX, GALE__RMIN};
    const char *name = gale__attr_s(L, "reduction", "none");
    for (int i = 0; i < 5; i++)
        if (!strcmp(name, names[i])) return modes[i];
    gale__refuse(L, "reduction is '%s'", name);
    return -1;
}

static void scatter(gale__lower *L)
{
    int axis = gale__axis(L, gale__attr_i(L, "axis", 0), gale__rank_of(L->g, L->in[0])), mode = reduction(L);
    if (gale__good(L))
        L->out[0] = gale__g_put(L->g, L->in[0], element_places(L, L->in[0], L->in[1], axis), L->in[2], mode);
}
LOWER(ScatterElements) { scatter(L); }
LOWER(Scatter) { scatter(L); }

/* Indices [lead..., k] address slices of data below its first `batch` + k axes: linear places [lead..., slice...]. */
static gale__node tuple_places(gale__lower *L, gale__node data, gale__node index, int batch, int *rank, int64_t *dims)
{
    gale__g *g = L->g;
    gale__pnode p = gale__peek(g, data), q = gale__peek(g, index);
    int lead = q.rank - 1, k = q.rank ? (int)q.dims[lead] : 0;
    if (q.rank < 1 || batch < 0 || batch > lead || batch + k > p.rank || lead + p.rank - batch - k > GALE_MAX_RANK)
        return gale__refuse(L, "indices of rank %d with %d numbers each do not fit data of rank %d", q.rank, k, p.rank);
    int slice = p.rank - batch - k;
    *rank = lead + slice;
    memcpy(dims, q.dims, lead * sizeof *dims);
    memcpy(dims + lead, p.dims + batch + k, slice * sizeof *dims);
    gale__node at = gale__index(L, 0);
    int64_t stride = 1;
    for (int d = p.rank - 1; d >= 0; stride *= p.dims[d--]) {
        gale__node step;
        if (d >= batch + k) step = gale__walk(L, *rank, dims, lead + d - batch - k, stride);
        else if (d < batch) step = gale__walk(L, *rank, dims, d, stride);
        else {
            int64_t spot[GALE_MAX_RANK];
            for (int i = 0; i < *rank; i++) spot[i] = i < lead ? dims[i] : 1;
            gale__node one = gale__g_reshape(g, gale__g_slice_axis(g, index, lead, d - batch, 1), *rank, spot);
            step = gale__g_mul(g, gale__wrap_index(L, one, p.dims[d]), gale__index(L, stride));
        }
        at = gale__g_add(g, at, step);
    }
    return gale__g_expand(g, at, *rank, dims);
}

LOWER(GatherND)
{
    int rank = 0;
    int64_t dims[GALE_MAX_RANK];
    gale__node at = tuple_places(L, L->in[0], L->in[1], (int)gale__attr_i(L, "batch_dims", 0), &rank, dims);
    L->out[0] = gale__g_take(L->g, L->in[0], at);
}

LOWER(ScatterND)
{
    int rank = 0, mode = reduction(L);
    int64_t dims[GALE_MAX_RANK];
    gale__node at = tuple_places(L, L->in[0], L->in[1], 0, &rank, dims);
    L->out[0] = gale__g_put(L->g, L->in[0], at, L->in[2], mode);
}

/* values is [off, on]. */
LOWER(OneHot)
{
    gale__g *g = L->g;
    gale__pnode p = gale__peek(g, L->in[0]);
    int64_t n, dims[GALE_MAX_RANK];
    const double *depth = gale__known_floats(L, 1, &n);
    int axis = gale__axis(L, gale__attr_i(L, "axis", -1), p.rank + 1);
    if (gale__good(L) && (n != 1 || !(depth[0] >= 1 && depth[0] < 1e15) || p.rank >= GALE_MAX_RANK))
        gale__refuse(L, "depth must be one number of at least 1");
    if (!gale__good(L)) return;
    for (int d = 0; d <= p.rank; d++) dims[d] = d < axis ? p.dims[d] : d == axis ? (int64_t)depth[0] : p.dims[d - 1];
    gale__node at = gale__g_unsqueeze(g, gale__wrap_index(L, L->in[0], dims[axis]), 1u << axis);
    gale__node hot = gale__g_binary(g, GALE__EQ, gale__g_iota(g, p.rank + 1, dims, axis), at);
    gale__node off = gale__g_slice_axis(g, L->in[2], 0, 0, 1), on = gale__g_slice_axis(g, L->in[2], 0, 1, 1);
    L->out[0] = gale__g_select(g, hot, gale__g_reshape(g, on, 0, NULL), gale__g_reshape(g, off, 0, NULL));
}
