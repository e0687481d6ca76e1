/* Gathers and scatters, all through a linear index computed on the fly. */
#include "ops/lower.h"
#include <string.h>

LOWER(Gather)
{
    int axis = gale__lower_axis(L, gale__attr_i(L, "axis", 0), gale__lower_rank_of(L->g, L->in[0]));
    if (gale__lower_good(L)) L->out[0] = gale__prim_gather(L->g, L->in[0], L->in[1], axis);
}

/* Linear places in data for indices that replace one axis' coordinate. */
static gale__node element_places(gale__lower *L, gale__node data, gale__node index, int axis)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, data), q = gale__lower_peek(g, index);
    if (p.rank != q.rank) return gale__lower_refuse(L, "data has rank %d but indices have %d", p.rank, q.rank);
    gale__node at = gale__lower_index(L, 0);
    int64_t stride = 1;
    for (int d = p.rank - 1; d >= 0; stride *= p.dims[d--]) {
        gale__node step =
            d == axis ? gale__prim_mul(g, gale__lower_wrap_index(L, index, p.dims[d]), gale__lower_index(L, stride))
                      : gale__lower_walk(L, q.rank, q.dims, d, stride);
        at = gale__prim_add(g, at, step);
    }
    return gale__prim_expand(g, at, q.rank, q.dims);
}

LOWER(GatherElements)
{
    int axis = gale__lower_axis(L, gale__attr_i(L, "axis", 0), gale__lower_rank_of(L->g, L->in[0]));
    if (gale__lower_good(L)) L->out[0] = gale__prim_take(L->g, L->in[0], element_places(L, L->in[0], L->in[1], axis));
}

/* How ScatterElements and ScatterND join; -1 sets. */
static int reduction(gale__lower *L)
{
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    static const int modes[] = {-1, GALE__SUM, GALE__PROD, GALE__RMAX, GALE__RMIN};
    const char *name = gale__attr_s(L, "reduction", "none");
    for (int i = 0; i < 5; i++)
        if (!strcmp(name, names[i])) return modes[i];
    gale__lower_refuse(L, "unknown reduction '%s'", name);
    return -1;
}

static void scatter(gale__lower *L)
{
    int axis = gale__lower_axis(L, gale__attr_i(L, "axis", 0), gale__lower_rank_of(L->g, L->in[0])),
        mode = reduction(L);
    if (gale__lower_good(L))
        L->out[0] = gale__prim_put(L->g, L->in[0], element_places(L, L->in[0], L->in[1], axis), L->in[2], mode);
}
LOWER(ScatterElements) { scatter(L); }
LOWER(Scatter) { scatter(L); }

/* Indices [lead..., k] address slices of data below its first `batch` + k axes: linear places [lead..., slice...]. */
static gale__node tuple_places(gale__lower *L, gale__node data, gale__node index, int batch, int *rank, int64_t *dims)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, data), q = gale__lower_peek(g, index);
    int lead = q.rank - 1, k = q.rank ? (int)q.dims[lead] : 0;
    if (q.rank < 1 || batch < 0 || batch > lead || batch + k > p.rank || lead + p.rank - batch - k > GALE_MAX_RANK)
        return gale__lower_refuse(
            L, "indices of rank %d with %d numbers each do not match data of rank %d", q.rank, k, p.rank);
    int slice = p.rank - batch - k;
    *rank = lead + slice;
    memcpy(dims, q.dims, lead * sizeof *dims);
    memcpy(dims + lead, p.dims + batch + k, slice * sizeof *dims);
    gale__node at = gale__lower_index(L, 0);
    int64_t stride = 1;
    for (int d = p.rank - 1; d >= 0; stride *= p.dims[d--]) {
        gale__node step;
        if (d >= batch + k) step = gale__lower_walk(L, *rank, dims, lead + d - batch - k, stride);
        else if (d < batch) step = gale__lower_walk(L, *rank, dims, d, stride);
        else {
            int64_t spot[GALE_MAX_RANK];
            for (int i = 0; i < *rank; i++) spot[i] = i < lead ? dims[i] : 1;
            gale__node one = gale__prim_reshape(g, gale__prim_slice_axis(g, index, lead, d - batch, 1), *rank, spot);
            step = gale__prim_mul(g, gale__lower_wrap_index(L, one, p.dims[d]), gale__lower_index(L, stride));
        }
        at = gale__prim_add(g, at, step);
    }
    return gale__prim_expand(g, at, *rank, dims);
}

LOWER(GatherND)
{
    int rank = 0;
    int64_t dims[GALE_MAX_RANK];
    gale__node at = tuple_places(L, L->in[0], L->in[1], (int)gale__attr_i(L, "batch_dims", 0), &rank, dims);
    L->out[0] = gale__prim_take(L->g, L->in[0], at);
}

LOWER(ScatterND)
{
    int rank = 0, mode = reduction(L);
    int64_t dims[GALE_MAX_RANK];
    gale__node at = tuple_places(L, L->in[0], L->in[1], 0, &rank, dims);
    L->out[0] = gale__prim_put(L->g, L->in[0], at, L->in[2], mode);
}

/* values is [off, on]. */
LOWER(OneHot)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    int64_t n, dims[GALE_MAX_RANK];
    const double *depth = gale__lower_known_floats(L, 1, &n);
    int axis = gale__lower_axis(L, gale__attr_i(L, "axis", -1), p.rank + 1);
    if (gale__lower_good(L) && (n != 1 || !(depth[0] >= 1 && depth[0] < 1e15) || p.rank >= GALE_MAX_RANK))
        gale__lower_refuse(L, "depth must be one number of at least 1");
    if (!gale__lower_good(L)) return;
    for (int d = 0; d <= p.rank; d++) dims[d] = d < axis ? p.dims[d] : d == axis ? (int64_t)depth[0] : p.dims[d - 1];
    gale__node at = gale__prim_unsqueeze(g, gale__lower_wrap_index(L, L->in[0], dims[axis]), 1u << axis);
    gale__node hot = gale__prim_binary(g, GALE__EQ, gale__prim_iota(g, p.rank + 1, dims, axis), at);
    gale__node off = gale__prim_slice_axis(g, L->in[2], 0, 0, 1), on = gale__prim_slice_axis(g, L->in[2], 0, 1, 1);
    L->out[0] = gale__prim_select(g, hot, gale__prim_reshape(g, on, 0, NULL), gale__prim_reshape(g, off, 0, NULL));
}
