/* Operators that only rearrange elements: reshape and similar ones, concat, split, slice, and blocks of depth and
 * space. */
#include "ops/lower.h"
#include <string.h>

LOWER(Reshape)
{
    gale__prim_node p = gale__lower_peek(L->g, L->in[0]);
    int64_t n, dims[GALE_MAX_RANK], known = 1;
    const int64_t *shape = gale__lower_known_ints(L, 1, &n);
    bool zero_is_zero = gale__attr_i(L, "allowzero", 0);
    int open = -1;
    if (!gale__lower_good(L)) return;
    if (n > GALE_MAX_RANK)
        gale__lower_refuse(L, "the new shape has %lld axes; at most %d are possible", (long long)n, GALE_MAX_RANK);
    for (int d = 0; d < n && gale__lower_good(L); d++) {
        dims[d] = shape[d];
        if (shape[d] == 0 && !zero_is_zero && d >= p.rank)
            gale__lower_refuse(L, "extent 0 at axis %d copies an axis the input does not have", d);
        else if (shape[d] == 0 && !zero_is_zero) dims[d] = p.dims[d];
        if (shape[d] < -1 || (shape[d] == -1 && open >= 0))
            gale__lower_refuse(L, "invalid extent %lld at axis %d; at most one may be -1", (long long)shape[d], d);
        if (shape[d] == -1) open = d;
        else if (gale__lower_good(L) && __builtin_mul_overflow(known, dims[d], &known))
            gale__lower_refuse(L, "extent %lld at axis %d makes the value too large", (long long)shape[d], d);
    }
    if (!gale__lower_good(L)) return;
    if (open >= 0) dims[open] = known ? gale__prim_elements(L->g, L->in[0]) / known : 0;
    L->out[0] = gale__prim_reshape(L->g, L->in[0], (int)n, dims);
}

LOWER(Flatten)
{
    gale__prim_node p = gale__lower_peek(L->g, L->in[0]);
    int64_t axis = gale__attr_i(L, "axis", 1), dims[2] = {1, 1};
    if (axis < -p.rank || axis > p.rank)
        gale__lower_refuse(L, "axis %lld is out of range for rank %d", (long long)axis, p.rank);
    if (axis < 0) axis += p.rank;
    for (int d = 0; d < p.rank; d++) dims[d >= axis] *= p.dims[d];
    L->out[0] = gale__prim_reshape(L->g, L->in[0], 2, dims);
}

LOWER(Squeeze)
{
    gale__prim_node p = gale__lower_peek(L->g, L->in[0]);
    bool given;
    uint32_t axes = gale__lower_axes_mask(L, 1, p.rank, &given);
    for (int d = 0; !given && d < p.rank; d++)
        if (p.dims[d] == 1) axes |= 1u << d;
    L->out[0] = gale__prim_squeeze(L->g, L->in[0], axes);
}

LOWER(Unsqueeze)
{
    int64_t n = 0;
    int count = 0;
    if (gale__lower_arg(L, 1) >= 0) gale__lower_known_ints(L, 1, &n);
    else gale__attr_ints(L, "axes", &count), n = count;
    bool given;
    uint32_t axes = gale__lower_axes_mask(L, 1, gale__lower_rank_of(L->g, L->in[0]) + (int)n, &given);
    L->out[0] = gale__prim_unsqueeze(L->g, L->in[0], axes);
}

LOWER(Transpose)
{
    int rank = gale__lower_rank_of(L->g, L->in[0]), count, perm[GALE_MAX_RANK];
    const int64_t *order = gale__attr_ints(L, "perm", &count);
    if (order && count != rank) gale__lower_refuse(L, "perm has %d axes, the input %d", count, rank);
    if (!gale__lower_good(L)) return;
    for (int d = 0; d < rank; d++) perm[d] = order ? gale__lower_axis(L, order[d], rank) : rank - 1 - d;
    L->out[0] = gale__prim_permute(L->g, L->in[0], perm);
}

LOWER(Expand)
{
    gale__prim_node p = gale__lower_peek(L->g, L->in[0]);
    int64_t n, dims[GALE_MAX_RANK];
    const int64_t *shape = gale__lower_known_ints(L, 1, &n);
    if (n > GALE_MAX_RANK)
        gale__lower_refuse(L, "the shape has %lld axes; at most %d are possible", (long long)n, GALE_MAX_RANK);
    if (!gale__lower_good(L)) return;
    /* Either may be the longer one; an extent of 1 asks for the input's own. */
    int rank = n > p.rank ? (int)n : p.rank;
    for (int d = 0; d < rank; d++) {
        int64_t own = d < rank - p.rank ? 1 : p.dims[d - (rank - p.rank)],
                asked = d < rank - n ? 1 : shape[d - (rank - n)];
        dims[d] = asked == 1 ? own : asked;
    }
    L->out[0] = gale__prim_expand(L->g, L->in[0], rank, dims);
}

/* x repeated along one axis: a new axis in front of it, expanded, and joined with it. */
static gale__node tile_axis(gale__lower *L, gale__node x, int axis, int64_t times)
{
    gale__prim_node p = gale__lower_peek(L->g, x), q = p;
    if (times == 1 || !gale__lower_good(L)) return x;
    x = gale__prim_unsqueeze(L->g, x, 1u << axis);
    if (!gale__lower_good(L)) return GALE__NIL;
    memmove(q.dims + axis + 1, p.dims + axis, (p.rank - axis) * sizeof *p.dims);
    q.dims[axis] = times;
    p.dims[axis] *= times;
    return gale__prim_reshape(L->g, gale__prim_expand(L->g, x, p.rank + 1, q.dims), p.rank, p.dims);
}

LOWER(Tile)
{
    int rank = gale__lower_rank_of(L->g, L->in[0]);
    int64_t n;
    const int64_t *times = gale__lower_known_ints(L, 1, &n);
    if (n != rank) gale__lower_refuse(L, "%lld repeats are given for %d axes", (long long)n, rank);
    gale__node x = L->in[0];
    for (int d = 0; d < rank && gale__lower_good(L); d++) {
        int64_t extent;
        if (times[d] < 0 || __builtin_mul_overflow(times[d], gale__lower_peek(L->g, x).dims[d], &extent))
            gale__lower_refuse(L, "invalid repeat %lld of axis %d", (long long)times[d], d);
        else x = tile_axis(L, x, d, times[d]);
    }
    L->out[0] = x;
}

LOWER(Concat)
{
    int axis = gale__lower_axis(L, gale__attr_i(L, "axis", 0), gale__lower_rank_of(L->g, L->in[0]));
    L->out[0] = gale__prim_concat(L->g, axis, L->in, L->n_in);
}

LOWER(Split)
{
    gale__prim_node p = gale__lower_peek(L->g, L->in[0]);
    int axis = gale__lower_axis(L, gale__attr_i(L, "axis", 0), p.rank), n_attr = 0;
    int64_t n = 0, at = 0, total = p.dims[axis];
    const int64_t *sizes =
        gale__lower_arg(L, 1) >= 0 ? gale__lower_known_ints(L, 1, &n) : gale__attr_ints(L, "split", &n_attr);
    if (sizes && !n) n = n_attr;
    /* The last parts may be left out. */
    int64_t parts = sizes ? n : gale__attr_i(L, "num_outputs", L->n_out),
            each = parts > 0 ? total / parts + (total % parts != 0) : 0;
    if (parts < L->n_out || parts > INT32_MAX)
        gale__lower_refuse(L, "%lld parts do not match %d outputs", (long long)parts, L->n_out);
    for (int i = 0; i < (sizes ? parts : L->n_out) && gale__lower_good(L); i++) {
        int64_t left = total - at, size = sizes ? sizes[i] : each < left ? each : left;
        if (size < 0 || size > left) {
            gale__lower_refuse(L, "a part has %lld elements, but only %lld are left", (long long)size, (long long)left);
            return;
        }
        if (i < L->n_out) L->out[i] = gale__prim_slice_axis(L->g, L->in[0], axis, size ? at : 0, size);
        at += size;
    }
    if (gale__lower_good(L) && sizes && at != total)
        gale__lower_refuse(
            L, "the parts have %lld elements in total, but the axis has %lld", (long long)at, (long long)total);
}

/* One axis of Slice, with the standard's rules for what is out of range: Python's, but that a start before the first
 * element is the first one going back too. */
static void slice_range(int64_t n, int64_t start, int64_t end, int64_t step, int64_t *first, int64_t *count)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    if (start < 0) start += n;
    if (end < 0) end = end < -n ? -1 - n : end + n;
    start = start < 0 ? 0 : start;
    start = start > high ? high : start;
    end = end < low ? low : end > high ? high : end;
    int64_t span = step > 0 ? end - start : start - end, size = step > 0 ? step : -step;
    *count = span > 0 ? (span - 1) / size + 1 : 0;
    *first = *count ? start : 0;
}

LOWER(Slice)
{
    gale__prim_node p = gale__lower_peek(L->g, L->in[0]);
    int64_t n, n_ends, n_axes, n_steps, first[GALE_MAX_RANK] = {0}, step[GALE_MAX_RANK], count[GALE_MAX_RANK];
    const int64_t *starts = gale__lower_known_ints(L, 1, &n), *ends = gale__lower_known_ints(L, 2, &n_ends),
                  *axes = gale__lower_known_ints(L, 3, &n_axes), *steps = gale__lower_known_ints(L, 4, &n_steps);
    if (n != n_ends || (axes && n_axes != n) || (steps && n_steps != n))
        gale__lower_refuse(L, "starts, ends, axes and steps differ in length");
    for (int d = 0; d < p.rank; d++) step[d] = 1, count[d] = p.dims[d];
    for (int64_t i = 0; i < n && gale__lower_good(L); i++) {
        int axis = gale__lower_axis(L, axes ? axes[i] : i, p.rank);
        int64_t s = steps ? steps[i] : 1;
        if (s == 0) gale__lower_refuse(L, "step 0");
        if (s < -INT32_MAX) s = -INT32_MAX; /* one element either way */
        if (s > INT32_MAX) s = INT32_MAX;
        if (gale__lower_good(L)) slice_range(p.dims[axis], starts[i], ends[i], s, &first[axis], &count[axis]);
        step[axis] = s;
    }
    L->out[0] = gale__prim_slice(L->g, L->in[0], first, step, count);
}

/* --- Blocks. --- */

LOWER(DepthToSpace)
{
    gale__prim_node p = gale__lower_peek(L->g, L->in[0]);
    int64_t b = gale__attr_i(L, "blocksize", 1), c = p.dims[1] / (b > 0 && b <= INT32_MAX ? b * b : 1);
    bool crd = !strcmp(gale__attr_s(L, "mode", "DCR"), "CRD");
    if (p.rank != 4 || b < 1 || b > INT32_MAX || p.dims[1] % (b * b))
        gale__lower_refuse(
            L, "blocks of %lld do not divide %lld channels of a value of rank 4", (long long)b, (long long)p.dims[1]);
    if (!gale__lower_good(L)) return;
    int64_t dcr_dims[6] = {p.dims[0], b, b, c, p.dims[2], p.dims[3]},
            crd_dims[6] = {p.dims[0], c, b, b, p.dims[2], p.dims[3]};
    int64_t out[4] = {p.dims[0], c, p.dims[2] * b, p.dims[3] * b};
    gale__node x = gale__prim_reshape(L->g, L->in[0], 6, crd ? crd_dims : dcr_dims);
    x = gale__prim_permute(L->g, x, crd ? (int[]){0, 1, 4, 2, 5, 3} : (int[]){0, 3, 4, 1, 5, 2});
    L->out[0] = gale__prim_reshape(L->g, x, 4, out);
}

LOWER(SpaceToDepth)
{
    gale__prim_node p = gale__lower_peek(L->g, L->in[0]);
    int64_t b = gale__attr_i(L, "blocksize", 1);
    bool crd = !strcmp(gale__attr_s(L, "mode", "DCR"), "CRD");
    if (p.rank != 4 || b < 1 || b > INT32_MAX || p.dims[2] % b || p.dims[3] % b)
        gale__lower_refuse(L, "blocks of %lld do not fill the input", (long long)b);
    if (!gale__lower_good(L)) return;
    int64_t dims[6] = {p.dims[0], p.dims[1], p.dims[2] / b, b, p.dims[3] / b, b},
            out[4] = {p.dims[0], p.dims[1] * b * b, p.dims[2] / b, p.dims[3] / b};
    gale__node x = gale__prim_permute(
        L->g, gale__prim_reshape(L->g, L->in[0], 6, dims), crd ? (int[]){0, 1, 3, 5, 2, 4} : (int[]){0, 3, 5, 1, 2, 4});
    L->out[0] = gale__prim_reshape(L->g, x, 4, out);
}

/* --- What is known of a shape. --- */

LOWER(Shape)
{
    gale__prim_node p = gale__lower_peek(L->g, L->in[0]);
    int64_t start = gale__attr_i(L, "start", 0), end = gale__attr_i(L, "end", p.rank), first, n;
    slice_range(p.rank, start, end, 1, &first, &n);
    L->out[0] = gale__prim_const(L->g, GALE_I64, 1, &n, p.dims + first);
}

LOWER(Size) { L->out[0] = gale__prim_splat_i(L->g, GALE_I64, 0, NULL, gale__prim_elements(L->g, L->in[0])); }
