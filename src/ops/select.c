/* Selections whose size depends on the data: the result has the largest possible size, and a count comes out beside it,
 * so that shapes are still known when planning. */
#include "ops/select.h"

gale__node gale__search(gale__lower *L, gale__node sorted, gale__node targets)
{
    gale__g *g = L->g;
    gale__pnode p = gale__peek(g, sorted), q = gale__peek(g, targets);
    int64_t n = p.rank == 1 ? p.dims[0] : 0, step = 1;
    gale__node at = gale__g_splat_i(g, GALE_I64, q.rank, q.dims, 0);
    while (step <= n / 2) step *= 2;
    for (; n > 0 && step > 0; step /= 2) {
        gale__node next = gale__g_add(g, at, gale__index(L, step));
        gale__node value = gale__g_take(g, sorted, gale__g_sub(g, next, gale__index(L, 1)));
        gale__node below = gale__g_binary(g, GALE__AND, gale__g_binary(g, GALE__LE, next, gale__index(L, n)),
            gale__g_binary(g, GALE__LT, value, targets));
        at = gale__g_select(g, below, next, at);
    }
    return at;
}

/* The last element of x (rank 1) as a scalar. */
static gale__node last(gale__lower *L, gale__node x)
{
    int64_t n = gale__peek(L->g, x).dims[0];
    return gale__g_reshape(L->g, gale__g_slice_axis(L->g, x, 0, n - 1, 1), 0, NULL);
}

/* The number of each marked element, put where `to` says among `room` places; `fill` where nobody puts anything. */
static gale__node place_marked(gale__lower *L, gale__node mask, gale__node to, int64_t room, int64_t fill)
{
    gale__node at = gale__g_select(L->g, mask, to, gale__index(L, -1)),
               n = gale__g_iota(L->g, 1, &(int64_t){gale__good(L) ? gale__g_elements(L->g, mask) : 0}, 0);
    return gale__g_put(L->g, gale__g_splat_i(L->g, GALE_I64, 1, &room, fill), at, n, -1);
}

gale__node gale__chosen(gale__lower *L, gale__node mask, gale__node *count)
{
    gale__g *g = L->g;
    int64_t n = mask >= 0 ? gale__g_elements(g, mask) : 0;
    if (n == 0) {
        *count = gale__index(L, 0);
        return gale__g_splat_i(g, GALE_I64, 1, &n, 0);
    }
    gale__node sums = gale__g_scan(g, GALE__SUM, gale__g_cast(g, mask, GALE_I64), 0, false, false);
    *count = last(L, sums);
    return place_marked(L, mask, gale__g_sub(g, sums, gale__index(L, 1)), n, n - 1);
}

static gale__node flat(gale__lower *L, gale__node x)
{
    return gale__g_reshape(L->g, x, 1, &(int64_t){gale__good(L) ? gale__g_elements(L->g, x) : 0});
}

LOWER(NonZeroPadded)
{
    gale__g *g = L->g;
    gale__pnode p = gale__peek(g, L->in[0]);
    gale__node x = flat(L, L->in[0]), count, rows[GALE_MAX_RANK];
    gale__node places = gale__chosen(L, gale__g_binary(g, GALE__NE, x, gale__value(L, x, 0)), &count);
    if (!gale__good(L)) return;
    int64_t n = gale__g_elements(g, x), stride = 1;
    for (int d = p.rank - 1; d >= 0; stride *= p.dims[d--]) {
        gale__node c =
            d ? gale__g_binary(g, GALE__REM, gale__g_div(g, places, gale__index(L, stride)), gale__index(L, p.dims[d]))
              : gale__g_div(g, places, gale__index(L, stride));
        rows[d] = gale__g_unsqueeze(g, c, 1);
    }
    gale__give(
        L, 0, p.rank ? gale__g_concat(g, 0, rows, p.rank) : gale__g_splat_i(g, GALE_I64, 2, (int64_t[]){0, n}, 0));
    gale__give(L, 1, count);
}

/* An attribute "axis" that may be absent: then the value is flattened and the axis is 0. */
static gale__node by_axis(gale__lower *L, int *axis)
{
    *axis = 0;
    if (!gale__attr_given(L, "axis")) return flat(L, L->in[0]);
    *axis = gale__axis(L, gale__attr_i(L, "axis", 0), gale__rank_of(L->g, L->in[0]));
    return L->in[0];
}

/* The condition may be shorter than the axis: what it does not name is not chosen. */
LOWER(CompressPadded)
{
    gale__g *g = L->g;
    int axis;
    gale__node x = by_axis(L, &axis), mask = flat(L, L->in[1]), count;
    if (!gale__good(L)) return;
    int64_t n = gale__peek(g, x).dims[axis], given = gale__g_elements(g, mask);
    mask = gale__g_cast(g, mask, GALE_BOOL);
    mask = given > n ? gale__g_slice_axis(g, mask, 0, 0, n)
                     : gale__g_pad(g, mask, &(int64_t){0}, &(int64_t){n - given}, NULL, 0);
    gale__node places = gale__chosen(L, mask, &count);
    gale__give(L, 0, gale__g_gather(g, x, places, axis));
    gale__give(L, 1, count);
}

/* --- Unique. --- */

/* Keys whose order is that of x: no bools, and one zero only. */
static gale__node keys_of(gale__lower *L, gale__node x)
{
    gale_type type = gale__type_of(L->g, x);
    if (type == GALE_BOOL) return gale__g_cast(L->g, x, GALE_U8);
    if (!gale__type_is_float(type)) return x;
    gale__node zero = gale__value(L, x, 0);
    return gale__g_select(L->g, gale__g_binary(L->g, GALE__EQ, x, zero), zero, x);
}

/* Whether neighbours along the last axis of [B, N] differ, as I64 [B, N]; the first does not.  NaN is NaN's equal. */
static gale__node changes(gale__lower *L, gale__node x)
{
    gale__g *g = L->g;
    int64_t n = gale__peek(g, x).dims[1];
    gale__node a = gale__g_slice_axis(g, x, 1, 0, n - 1), b = gale__g_slice_axis(g, x, 1, 1, n - 1),
               differ = gale__g_binary(g, GALE__NE, a, b);
    if (gale__type_is_float(gale__type_of(g, x)))
        differ = gale__g_binary(g, GALE__AND, differ,
            gale__g_binary(g, GALE__OR, gale__g_binary(g, GALE__EQ, a, a), gale__g_binary(g, GALE__EQ, b, b)));
    return gale__g_pad(g, gale__g_cast(g, differ, GALE_I64), (int64_t[]){0, 1}, (int64_t[]){0, 0}, NULL, 0);
}

/* Elements numbered by value along the rows of [B, N]: equal ones have equal numbers, 0 is the least. */
typedef struct ranked {
    gale__node ranks;         /* of each element */
    gale__node order, sorted; /* elements' places (in all of [B, N]) row by row in order, and their ranks */
} ranked;

static ranked dense_ranks(gale__lower *L, gale__node keys)
{
    gale__g *g = L->g;
    gale__pnode p = gale__peek(g, keys);
    ranked r;
    r.order = gale__g_add(g, gale__g_sort(g, keys, 1, false), gale__walk(L, 2, p.dims, 0, p.dims[1]));
    r.sorted = gale__g_scan(g, GALE__SUM, changes(L, gale__g_take(g, keys, r.order)), 1, false, false);
    r.ranks = gale__g_put(g, gale__g_splat_i(g, GALE_I64, 2, p.dims, 0), r.order, r.sorted, -1);
    return r;
}

/* Ranks of whole columns of [M, N] in lexicographic order: neighbouring rows are joined to one until one is left. */
static ranked column_ranks(gale__lower *L, gale__node keys)
{
    gale__g *g = L->g;
    ranked all = dense_ranks(L, keys);
    while (gale__good(L) && gale__peek(g, all.ranks).dims[0] > 1) {
        int64_t m = gale__peek(g, all.ranks).dims[0], n = gale__peek(g, all.ranks).dims[1], half[2] = {m / 2, n},
                step[2] = {2, 1};
        gale__node first = gale__g_slice(g, all.ranks, (int64_t[]){0, 0}, step, half),
                   second = gale__g_slice(g, all.ranks, (int64_t[]){1, 0}, step, half);
        gale__node pair = gale__g_add(g, gale__g_mul(g, first, gale__index(L, n)), second);
        if (m % 2) pair = gale__g_concat(g, 0, (gale__node[]){pair, gale__g_slice_axis(g, all.ranks, 0, m - 1, 1)}, 2);
        all = dense_ranks(L, pair);
    }
    return all;
}

/* The slices of x along `axis`, one a column: [M, N]. */
static gale__node columns(gale__lower *L, gale__node x, int axis)
{
    gale__pnode p = gale__peek(L->g, x);
    int perm[GALE_MAX_RANK], k = 0;
    int64_t dims[2] = {1, p.dims[axis]};
    for (int d = 0; d < p.rank; d++)
        if (d != axis) perm[k++] = d, dims[0] *= p.dims[d];
    perm[k] = axis;
    return gale__g_reshape(L->g, gale__g_permute(L->g, x, perm), 2, dims);
}

/* Groups in the order of their first members. */
static void by_occurrence(gale__lower *L, gale__node count, gale__node *first, gale__node *counts, gale__node *inverse)
{
    gale__g *g = L->g;
    int64_t n = gale__g_elements(g, *first);
    gale__node number = gale__g_iota(g, 1, &n, 0);
    gale__node key = gale__g_select(g, gale__g_binary(g, GALE__LT, number, count), *first, gale__index(L, n));
    gale__node order = gale__g_sort(g, key, 0, false), zeros = gale__g_splat_i(g, GALE_I64, 1, &n, 0);
    *first = gale__g_take(g, *first, order);
    *counts = gale__g_take(g, *counts, order);
    *inverse = gale__g_take(g, gale__g_put(g, zeros, order, number, -1), *inverse);
}

static void nothing_unique(gale__lower *L, gale__node x)
{
    int64_t none = 0;
    gale__give(L, 0, x);
    for (int i = 1; i < 4; i++) gale__give(L, i, gale__g_splat_i(L->g, GALE_I64, 1, &none, 0));
    gale__give(L, 4, gale__index(L, 0));
}

LOWER(UniquePadded)
{
    gale__g *g = L->g;
    int axis;
    gale__node x = by_axis(L, &axis);
    if (!gale__good(L)) return;
    int64_t n = gale__peek(g, x).dims[axis];
    if (gale__g_elements(g, x) == 0) {
        nothing_unique(L, x);
        return;
    }
    ranked all = column_ranks(L, columns(L, keys_of(L, x), axis));
    gale__node inverse = flat(L, all.ranks), order = flat(L, all.order), sorted = flat(L, all.sorted);
    if (!gale__good(L)) return;
    gale__node before = gale__g_pad(g, sorted, &(int64_t){1}, &(int64_t){-1}, NULL, -1),
               count = gale__g_add(g, last(L, sorted), gale__index(L, 1));
    gale__node heads = place_marked(L, gale__g_binary(g, GALE__NE, sorted, before), sorted, n + 1, n);
    gale__node first = gale__g_take(g, order, gale__g_slice_axis(g, heads, 0, 0, n));
    gale__node counts = gale__g_sub(g, gale__g_slice_axis(g, heads, 0, 1, n), gale__g_slice_axis(g, heads, 0, 0, n));
    if (gale__good(L) && !gale__attr_i(L, "sorted", 1)) by_occurrence(L, count, &first, &counts, &inverse);
    gale__give(L, 0, gale__g_gather(g, x, first, axis));
    gale__give(L, 1, first);
    gale__give(L, 2, inverse);
    gale__give(L, 3, counts);
    gale__give(L, 4, count);
}
