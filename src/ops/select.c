/* Selections whose size depends on data: the result has the largest possible size, with a separate count, so that
 * shapes are still known when planning. */
#include "ops/select.h"

gale__node gale__lower_search(gale__lower *L, gale__node sorted, gale__node targets)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, sorted), q = gale__lower_peek(g, targets);
    int64_t n = p.rank == 1 ? p.dims[0] : 0, step = 1;
    gale__node at = gale__prim_splat_i(g, GALE_I64, q.rank, q.dims, 0);
    while (step <= n / 2) step *= 2;
    for (; n > 0 && step > 0; step /= 2) {
        gale__node next = gale__prim_add(g, at, gale__lower_index(L, step));
        gale__node value = gale__prim_take(g, sorted, gale__prim_sub(g, next, gale__lower_index(L, 1)));
        gale__node below =
            gale__prim_binary(g, GALE__AND, gale__prim_binary(g, GALE__LE, next, gale__lower_index(L, n)),
                gale__prim_binary(g, GALE__LT, value, targets));
        at = gale__prim_select(g, below, next, at);
    }
    return at;
}

/* The last element of x (rank 1) as a scalar. */
static gale__node last(gale__lower *L, gale__node x)
{
    int64_t n = gale__lower_peek(L->g, x).dims[0];
    return gale__prim_reshape(L->g, gale__prim_slice_axis(L->g, x, 0, n - 1, 1), 0, NULL);
}

/* The number of each marked element, put where `to` says among `room` places; `fill` where nobody puts anything. */
static gale__node place_marked(gale__lower *L, gale__node mask, gale__node to, int64_t room, int64_t fill)
{
    gale__node at = gale__prim_select(L->g, mask, to, gale__lower_index(L, -1)),
               n = gale__prim_iota(L->g, 1, &(int64_t){gale__lower_good(L) ? gale__prim_elements(L->g, mask) : 0}, 0);
    return gale__prim_put(L->g, gale__prim_splat_i(L->g, GALE_I64, 1, &room, fill), at, n, -1);
}

gale__node gale__lower_chosen(gale__lower *L, gale__node mask, gale__node *count)
{
    gale__prim_graph *g = L->g;
    int64_t n = mask >= 0 ? gale__prim_elements(g, mask) : 0;
    if (n == 0) {
        *count = gale__lower_index(L, 0);
        return gale__prim_splat_i(g, GALE_I64, 1, &n, 0);
    }
    gale__node sums = gale__prim_scan(g, GALE__SUM, gale__prim_cast(g, mask, GALE_I64), 0, false, false);
    *count = last(L, sums);
    return place_marked(L, mask, gale__prim_sub(g, sums, gale__lower_index(L, 1)), n, n - 1);
}

static gale__node flat(gale__lower *L, gale__node x)
{
    return gale__prim_reshape(L->g, x, 1, &(int64_t){gale__lower_good(L) ? gale__prim_elements(L->g, x) : 0});
}

LOWER(NonZeroPadded)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    gale__node x = flat(L, L->in[0]), count, rows[GALE_MAX_RANK];
    gale__node places = gale__lower_chosen(L, gale__prim_binary(g, GALE__NE, x, gale__lower_value(L, x, 0)), &count);
    if (!gale__lower_good(L)) return;
    int64_t n = gale__prim_elements(g, x), stride = 1;
    for (int d = p.rank - 1; d >= 0; stride *= p.dims[d--]) {
        gale__node c = d ? gale__prim_binary(g, GALE__REM, gale__prim_div(g, places, gale__lower_index(L, stride)),
                               gale__lower_index(L, p.dims[d]))
                         : gale__prim_div(g, places, gale__lower_index(L, stride));
        rows[d] = gale__prim_unsqueeze(g, c, 1);
    }
    gale__lower_give(L, 0,
        p.rank ? gale__prim_concat(g, 0, rows, p.rank) : gale__prim_splat_i(g, GALE_I64, 2, (int64_t[]){0, n}, 0));
    gale__lower_give(L, 1, count);
}

/* An attribute "axis" that may be absent: then the value is flattened and the axis is 0. */
static gale__node by_axis(gale__lower *L, int *axis)
{
    *axis = 0;
    if (!gale__attr_given(L, "axis")) return flat(L, L->in[0]);
    *axis = gale__lower_axis(L, gale__attr_i(L, "axis", 0), gale__lower_rank_of(L->g, L->in[0]));
    return L->in[0];
}

/* The condition may be shorter than the axis: what it does not name is not chosen. */
LOWER(CompressPadded)
{
    gale__prim_graph *g = L->g;
    int axis;
    gale__node x = by_axis(L, &axis), mask = flat(L, L->in[1]), count;
    if (!gale__lower_good(L)) return;
    int64_t n = gale__lower_peek(g, x).dims[axis], given = gale__prim_elements(g, mask);
    mask = gale__prim_cast(g, mask, GALE_BOOL);
    mask = given > n ? gale__prim_slice_axis(g, mask, 0, 0, n)
                     : gale__prim_pad(g, mask, &(int64_t){0}, &(int64_t){n - given}, NULL, 0);
    gale__node places = gale__lower_chosen(L, mask, &count);
    gale__lower_give(L, 0, gale__prim_gather(g, x, places, axis));
    gale__lower_give(L, 1, count);
}

/* --- Unique. --- */

/* Keys whose order is that of x: no bools, and one zero only. */
static gale__node keys_of(gale__lower *L, gale__node x)
{
    gale_type type = gale__lower_type_of(L->g, x);
    if (type == GALE_BOOL) return gale__prim_cast(L->g, x, GALE_U8);
    if (!gale__type_is_float(type)) return x;
    gale__node zero = gale__lower_value(L, x, 0);
    return gale__prim_select(L->g, gale__prim_binary(L->g, GALE__EQ, x, zero), zero, x);
}

/* Whether neighbours along the last axis of [B, N] differ, as I64 [B, N]; the first does not.  NaN is NaN's equal. */
static gale__node changes(gale__lower *L, gale__node x)
{
    gale__prim_graph *g = L->g;
    int64_t n = gale__lower_peek(g, x).dims[1];
    gale__node a = gale__prim_slice_axis(g, x, 1, 0, n - 1), b = gale__prim_slice_axis(g, x, 1, 1, n - 1),
               differ = gale__prim_binary(g, GALE__NE, a, b);
    if (gale__type_is_float(gale__lower_type_of(g, x)))
        differ = gale__prim_binary(g, GALE__AND, differ,
            gale__prim_binary(g, GALE__OR, gale__prim_binary(g, GALE__EQ, a, a), gale__prim_binary(g, GALE__EQ, b, b)));
    return gale__prim_pad(g, gale__prim_cast(g, differ, GALE_I64), (int64_t[]){0, 1}, (int64_t[]){0, 0}, NULL, 0);
}

/* Elements numbered by value along the rows of [B, N]: equal ones have equal numbers, 0 is the least. */
typedef struct ranked {
    gale__node ranks;         /* of each element */
    gale__node order, sorted; /* elements' places (in all of [B, N]) row by row in order, and their ranks */
} ranked;

static ranked dense_ranks(gale__lower *L, gale__node keys)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, keys);
    ranked r;
    r.order = gale__prim_add(g, gale__prim_sort(g, keys, 1, false), gale__lower_walk(L, 2, p.dims, 0, p.dims[1]));
    r.sorted = gale__prim_scan(g, GALE__SUM, changes(L, gale__prim_take(g, keys, r.order)), 1, false, false);
    r.ranks = gale__prim_put(g, gale__prim_splat_i(g, GALE_I64, 2, p.dims, 0), r.order, r.sorted, -1);
    return r;
}

/* Ranks of whole columns of [M, N] in lexicographic order: neighbouring rows are joined to one until one is left. */
static ranked column_ranks(gale__lower *L, gale__node keys)
{
    gale__prim_graph *g = L->g;
    ranked all = dense_ranks(L, keys);
    while (gale__lower_good(L) && gale__lower_peek(g, all.ranks).dims[0] > 1) {
        int64_t m = gale__lower_peek(g, all.ranks).dims[0], n = gale__lower_peek(g, all.ranks).dims[1],
                half[2] = {m / 2, n}, step[2] = {2, 1};
        gale__node first = gale__prim_slice(g, all.ranks, (int64_t[]){0, 0}, step, half),
                   second = gale__prim_slice(g, all.ranks, (int64_t[]){1, 0}, step, half);
        gale__node pair = gale__prim_add(g, gale__prim_mul(g, first, gale__lower_index(L, n)), second);
        if (m % 2)
            pair = gale__prim_concat(g, 0, (gale__node[]){pair, gale__prim_slice_axis(g, all.ranks, 0, m - 1, 1)}, 2);
        all = dense_ranks(L, pair);
    }
    return all;
}

/* The slices of x along `axis`, one a column: [M, N]. */
static gale__node columns(gale__lower *L, gale__node x, int axis)
{
    gale__prim_node p = gale__lower_peek(L->g, x);
    int perm[GALE_MAX_RANK], k = 0;
    int64_t dims[2] = {1, p.dims[axis]};
    for (int d = 0; d < p.rank; d++)
        if (d != axis) perm[k++] = d, dims[0] *= p.dims[d];
    perm[k] = axis;
    return gale__prim_reshape(L->g, gale__prim_permute(L->g, x, perm), 2, dims);
}

/* Groups in the order of their first members. */
static void by_occurrence(gale__lower *L, gale__node count, gale__node *first, gale__node *counts, gale__node *inverse)
{
    gale__prim_graph *g = L->g;
    int64_t n = gale__prim_elements(g, *first);
    gale__node number = gale__prim_iota(g, 1, &n, 0);
    gale__node key =
        gale__prim_select(g, gale__prim_binary(g, GALE__LT, number, count), *first, gale__lower_index(L, n));
    gale__node order = gale__prim_sort(g, key, 0, false), zeros = gale__prim_splat_i(g, GALE_I64, 1, &n, 0);
    *first = gale__prim_take(g, *first, order);
    *counts = gale__prim_take(g, *counts, order);
    *inverse = gale__prim_take(g, gale__prim_put(g, zeros, order, number, -1), *inverse);
}

static void nothing_unique(gale__lower *L, gale__node x)
{
    int64_t none = 0;
    gale__lower_give(L, 0, x);
    for (int i = 1; i < 4; i++) gale__lower_give(L, i, gale__prim_splat_i(L->g, GALE_I64, 1, &none, 0));
    gale__lower_give(L, 4, gale__lower_index(L, 0));
}

LOWER(UniquePadded)
{
    gale__prim_graph *g = L->g;
    int axis;
    gale__node x = by_axis(L, &axis);
    if (!gale__lower_good(L)) return;
    int64_t n = gale__lower_peek(g, x).dims[axis];
    if (gale__prim_elements(g, x) == 0) {
        nothing_unique(L, x);
        return;
    }
    ranked all = column_ranks(L, columns(L, keys_of(L, x), axis));
    gale__node inverse = flat(L, all.ranks), order = flat(L, all.order), sorted = flat(L, all.sorted);
    if (!gale__lower_good(L)) return;
    gale__node before = gale__prim_pad(g, sorted, &(int64_t){1}, &(int64_t){-1}, NULL, -1),
               count = gale__prim_add(g, last(L, sorted), gale__lower_index(L, 1));
    gale__node heads = place_marked(L, gale__prim_binary(g, GALE__NE, sorted, before), sorted, n + 1, n);
    gale__node first = gale__prim_take(g, order, gale__prim_slice_axis(g, heads, 0, 0, n));
    gale__node counts =
        gale__prim_sub(g, gale__prim_slice_axis(g, heads, 0, 1, n), gale__prim_slice_axis(g, heads, 0, 0, n));
    if (gale__lower_good(L) && !gale__attr_i(L, "sorted", 1)) by_occurrence(L, count, &first, &counts, &inverse);
    gale__lower_give(L, 0, gale__prim_gather(g, x, first, axis));
    gale__lower_give(L, 1, first);
    gale__lower_give(L, 2, inverse);
    gale__lower_give(L, 3, counts);
    gale__lower_give(L, 4, count);
}
