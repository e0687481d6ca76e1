/* The reference's other primitives: views as a map from places to places, reductions, take and put, concat, scan, sort.
 */
#include "graph/reference/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void coordinates(const gale__prim_node *p, int64_t i, int64_t *at)
{
    for (int d = p->rank - 1; d >= 0; d--) at[d] = i % p->dims[d], i /= p->dims[d];
}

/* From one element to the next, without the divisions. */
static void advance(const gale__prim_node *p, int64_t *at)
{
    for (int d = p->rank - 1; d >= 0 && ++at[d] == p->dims[d]; d--) at[d] = 0;
}

static int64_t place(const gale__prim_node *p, const int64_t *at)
{
    int64_t i = 0;
    for (int d = 0; d < p->rank; d++) i = i * p->dims[d] + at[d];
    return i;
}

/* --- Views.  Each gives the element of the source that `at` shows; false: none, but the fill. --- */

static bool pad_source(const gale__prim_node *p, const gale__prim_node *src, const int64_t *at, int64_t *from)
{
    for (int d = 0; d < p->rank; d++) {
        int64_t c = at[d] - p->attr[3 * d], step = p->attr[3 * d + 2] + 1;
        if (c < 0 || c % step || c / step >= src->dims[d]) return false;
        from[d] = c / step;
    }
    return true;
}

static bool window_source(const gale__prim_node *p, const gale__prim_node *src, const int64_t *at, int64_t *from)
{
    int axis = (int)p->attr[0];
    int64_t c = at[axis] * p->attr[1] + at[axis + 1] * p->attr[2] + p->attr[3];
    for (int d = 0; d < src->rank; d++) from[d] = d < axis ? at[d] : at[d + 1];
    from[axis] = c;
    return c >= 0 && c < src->dims[axis];
}

static bool unwindow_source(const gale__prim_node *p, const gale__prim_node *src, const int64_t *at, int64_t *from)
{
    int axis = (int)p->attr[0];
    int64_t c = at[axis] - at[axis + 1] * p->attr[2] - p->attr[3], stride = p->attr[1];
    memcpy(from, at, p->rank * sizeof *at);
    from[axis] = c / stride;
    return c >= 0 && c % stride == 0 && c / stride < src->dims[axis];
}

static bool view_source(const gale__prim_node *p, const gale__prim_node *src, const int64_t *at, int64_t *source)
{
    int64_t from[GALE_MAX_RANK] = {0};
    bool there = true;
    switch (p->op) {
    case GALE__PRIM_PERMUTE:
        for (int d = 0; d < p->rank; d++) from[p->attr[d]] = at[d];
        break;
    case GALE__PRIM_EXPAND:
        for (int d = 0; d < p->rank; d++) from[d] = src->dims[d] == 1 ? 0 : at[d];
        break;
    case GALE__PRIM_SLICE:
        for (int d = 0; d < p->rank; d++) from[d] = p->attr[2 * d] + at[d] * p->attr[2 * d + 1];
        break;
    case GALE__PRIM_PAD: there = pad_source(p, src, at, from); break;
    case GALE__PRIM_WINDOW: there = window_source(p, src, at, from); break;
    case GALE__PRIM_ROLL:
        memcpy(from, at, p->rank * sizeof *at);
        from[p->attr[0]] = (at[p->attr[0]] + p->attr[1]) % p->dims[p->attr[0]];
        break;
    case GALE__PRIM_UNWINDOW: there = unwindow_source(p, src, at, from); break;
    default: break;
    }
    *source = there ? place(src, from) : -1;
    return there;
}

static void view(
    const gale__prim_node *p, const gale__prim_node *src, const gale__reference_value *in, gale__reference_number *out)
{
    int64_t n = gale__dims_count(p->rank, p->dims), at[GALE_MAX_RANK] = {0}, from;
    gale__reference_number fill = gale__reference_number_load(p->type, &p->imm);
    for (int64_t i = 0; i < n; i++, advance(p, at)) {
        if (p->op == GALE__PRIM_RESHAPE || p->op == GALE__PRIM_COPY) out[i] = gale__reference_value_at(in, i);
        else out[i] = view_source(p, src, at, &from) ? gale__reference_value_at(in, from) : fill;
    }
}

/* --- Reductions. --- */

static gale__reference_number join(
    gale__reduce kind, gale_type type, gale__reference_number a, gale__reference_number b)
{
    static const gale__scalar ops[] = {GALE__ADD, GALE__MUL, GALE__MAX, GALE__MIN};
    return gale__reference_scalar(ops[kind], type, type, a, b, (gale__reference_number){.i = 0});
}

/* Whether b takes a's place as the largest (or least).  NaN takes the place of any number. */
static bool beats(gale__reduce kind, gale_type type, gale__reference_number b, gale__reference_number a)
{
    bool most = kind == GALE__ARGMAX || kind == GALE__ARGMAX_LAST, last = kind >= GALE__ARGMAX_LAST;
    gale__reference_number none = {.i = 0};
    if (gale__type_is_float(type) && (isnan(a.f) || isnan(b.f))) return isnan(b.f) && (last || !isnan(a.f));
    gale__scalar op = most ? (last ? GALE__GE : GALE__GT) : (last ? GALE__LE : GALE__LT);
    return gale__reference_scalar(op, GALE_BOOL, type, b, a, none).i;
}

/* The input's elements in row-major order, so that the first of equals is met first. */
static gale_status reduce(
    const gale__prim_node *p, const gale__prim_node *src, const gale__reference_value *in, gale__reference_number *out)
{
    gale__reduce kind = (gale__reduce)p->attr[0];
    int64_t n = gale__dims_count(src->rank, src->dims), n_out = gale__dims_count(p->rank, p->dims),
            at[GALE_MAX_RANK] = {0};
    gale__reference_number *best = gale__calloc((size_t)n_out + 1, sizeof *best);
    bool *any = gale__calloc((size_t)n_out + 1, sizeof *any);
    for (int64_t i = 0; best && any && i < n; i++, advance(src, at)) {
        int64_t inner = 0, o = 0;
        for (int d = 0; d < src->rank; d++) {
            if (p->attr[1] >> d & 1) inner = inner * src->dims[d] + at[d];
            else o = o * src->dims[d] + at[d];
        }
        gale__reference_number v = gale__reference_value_at(in, i);
        if (kind < GALE__ARGMAX) out[o] = any[o] ? join(kind, p->type, out[o], v) : v;
        else if (!any[o] || beats(kind, src->type, v, best[o])) best[o] = v, out[o].i = inner;
        any[o] = true;
    }
    gale_status status = best && any ? GALE_OK : GALE_NO_MEMORY;
    gale__free(best);
    gale__free(any);
    return status;
}

static void scan(const gale__prim_node *p, const gale__reference_value *in, gale__reference_number *out)
{
    int axis = (int)p->attr[1];
    int64_t n = gale__dims_count(p->rank, p->dims), stride = 1;
    for (int d = axis + 1; d < p->rank; d++) stride *= p->dims[d];
    for (int64_t i = 0; i < n; i++) {
        bool first = i / stride % p->dims[axis] == 0;
        gale__reference_number v = gale__reference_value_at(in, i);
        out[i] = first ? v : join((gale__reduce)p->attr[0], p->type, out[i - stride], v);
    }
}

/* --- Sorting by insertion of halves: a stable merge. --- */

static bool before(gale_type type, bool descending, gale__reference_number a, gale__reference_number b)
{
    gale__reference_number none = {.i = 0};
    if (gale__type_is_float(type) && (isnan(a.f) || isnan(b.f)))
        return descending ? isnan(a.f) && !isnan(b.f) : !isnan(a.f) && isnan(b.f);
    return gale__reference_scalar(descending ? GALE__GT : GALE__LT, GALE_BOOL, type, a, b, none).i;
}

static void merge_sort(gale_type type, bool descending, const gale__reference_value *in, int64_t base, int64_t *index,
    int64_t *spare, int64_t n)
{
    if (n < 2) return;
    int64_t half = n / 2, a = 0, b = half, k = 0;
    merge_sort(type, descending, in, base, index, spare, half);
    merge_sort(type, descending, in, base, index + half, spare, n - half);
    while (a < half || b < n) {
        bool right = a == half || (b < n && before(type, descending, gale__reference_value_at(in, base + index[b]),
                                                gale__reference_value_at(in, base + index[a])));
        spare[k++] = right ? index[b++] : index[a++];
    }
    memcpy(index, spare, n * sizeof *index);
}

static gale_status sort(
    const gale__prim_node *p, const gale__prim_node *src, const gale__reference_value *in, gale__reference_number *out)
{
    int64_t row = p->dims[p->rank - 1], n = gale__dims_count(p->rank, p->dims);
    int64_t *index = gale__calloc((size_t)row + 1, 2 * sizeof *index);
    if (!index) return GALE_NO_MEMORY;
    for (int64_t base = 0; base < n; base += row) {
        for (int64_t i = 0; i < row; i++) index[i] = i;
        merge_sort(src->type, p->attr[0], in, base, index, index + row, row);
        for (int64_t i = 0; i < row; i++) out[base + i].i = index[i];
    }
    gale__free(index);
    return GALE_OK;
}

/* --- Take, put, concat. --- */

static void take(
    const gale__prim_node *p, const gale__prim_node *data, const gale__reference_value *in, gale__reference_number *out)
{
    int64_t n = gale__dims_count(p->rank, p->dims), limit = data->dims[0];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = gale__reference_value_at(&in[1], i).i;
        at = at < 0 ? 0 : at >= limit ? limit - 1 : at;
        out[i] = gale__reference_number_round(p->type, gale__reference_value_at(&in[0], at));
    }
}

static void put(const gale__prim_node *p, const gale__prim_node *index, const gale__reference_value *in,
    gale__reference_number *out)
{
    for (int64_t i = 0; i < p->dims[0]; i++) out[i] = gale__reference_value_at(&in[0], i);
    for (int64_t i = 0; i < index->dims[0]; i++) {
        int64_t at = gale__reference_value_at(&in[1], i).i;
        gale__reference_number v = gale__reference_value_at(&in[2], i);
        if (at < 0 || at >= p->dims[0]) continue;
        out[at] = p->attr[0] < 0 ? v : join((gale__reduce)p->attr[0], p->type, out[at], v);
    }
}

static void concat(const gale__prim_node *p, const gale__prim_node *const *src, const gale__reference_value *in,
    gale__reference_number *out)
{
    int axis = (int)p->attr[0];
    int64_t n = gale__dims_count(p->rank, p->dims), at[GALE_MAX_RANK];
    for (int64_t i = 0; i < n; i++) {
        int k = 0;
        coordinates(p, i, at);
        while (at[axis] >= src[k]->dims[axis]) at[axis] -= src[k++]->dims[axis];
        out[i] = gale__reference_value_at(&in[k], place(src[k], at));
    }
}

gale_status gale__reference_prim(const gale__prim_node *p, const gale__prim_node *const *src,
    const gale__reference_value *in, gale__reference_number *out)
{
    if (gale__dims_count(p->rank, p->dims) == 0) return GALE_OK;
    switch (p->op) {
    case GALE__PRIM_IOTA:
        for (int64_t i = 0, at[GALE_MAX_RANK]; i < gale__dims_count(p->rank, p->dims); i++)
            coordinates(p, i, at), out[i].i = at[p->attr[0]];
        return GALE_OK;
    case GALE__PRIM_RESHAPE:
    case GALE__PRIM_PERMUTE:
    case GALE__PRIM_EXPAND:
    case GALE__PRIM_SLICE:
    case GALE__PRIM_PAD:
    case GALE__PRIM_WINDOW:
    case GALE__PRIM_ROLL:
    case GALE__PRIM_UNWINDOW:
    case GALE__PRIM_COPY: view(p, src[0], in, out); return GALE_OK;
    case GALE__PRIM_REDUCE: return reduce(p, src[0], in, out);
    case GALE__PRIM_TAKE: take(p, src[0], in, out); return GALE_OK;
    case GALE__PRIM_PUT: put(p, src[1], in, out); return GALE_OK;
    case GALE__PRIM_CONCAT: concat(p, src, in, out); return GALE_OK;
    case GALE__PRIM_SCAN: scan(p, in, out); return GALE_OK;
    case GALE__PRIM_SORT: return sort(p, src[0], in, out);
    default: return gale__fail(GALE_INTERNAL, "reference: primitive %d is not implemented", p->op);
    }
}
