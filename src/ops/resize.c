/* Resize and Upsample: the taps of each axis are small tables, and the elements are taken through them.  Nearest by
 * whole factors is only a view; long filters become a sum over a short axis. */
#include "ops/resize.h"
#include "device/device.h"
#include "graph/plan/paths.h"
#include <math.h>
#include <string.h>

#define TAPS_AT_ONCE 16 /* products of taps unrolled into one kernel */

typedef struct job {
    gale__resize how;
    gale__taps taps[GALE_MAX_RANK];
    bool resized[GALE_MAX_RANK];
    int rank;
    gale__node raw;   /* what is resized, before samples that are not finite are left out */
    gale__node clean; /* and after; other values have axes resized already */
} job;

/* --- Nearest as a view where the places walk evenly. --- */

static gale__node nearest_view(gale__lower *L, gale__node x, job *j, int d)
{
    gale__prim_graph *g = L->g;
    const gale__taps *t = &j->taps[d];
    int64_t times = t->in && t->out % t->in == 0 ? t->out / t->in : 0,
            step = t->out > 1 ? t->index[1] - t->index[0] : 1;
    bool repeats = times > 0, even = step != 0;
    for (int64_t o = 0; o < t->out; o++) {
        repeats = repeats && t->index[o] == o / times;
        even = even && t->index[o] == t->index[0] + o * step;
    }
    gale__prim_node p = gale__lower_peek(g, x), q = p;
    if (repeats && p.rank < GALE_MAX_RANK) {
        memmove(q.dims + d + 2, p.dims + d + 1, (p.rank - d - 1) * sizeof *p.dims);
        q.dims[d + 1] = times;
        p.dims[d] = t->out;
        x = gale__prim_expand(g, gale__prim_unsqueeze(g, x, 1u << (d + 1)), p.rank + 1, q.dims);
        x = gale__prim_reshape(g, x, p.rank, p.dims);
        j->resized[d] = false;
    } else if (even) {
        int64_t first[GALE_MAX_RANK] = {0}, steps[GALE_MAX_RANK];
        for (int i = 0; i < p.rank; i++) steps[i] = 1;
        first[d] = t->index[0], steps[d] = step, p.dims[d] = t->out;
        x = gale__prim_slice(g, x, first, steps, p.dims);
        j->resized[d] = false;
    }
    return x;
}

/* --- Taking through tables. --- */

static gale__node whole_numbers(gale__lower *L, const job *j, int d, const int64_t *v)
{
    return gale__lower_along(L, gale__prim_const(L->g, GALE_I64, 1, &j->taps[d].out, v), j->rank, d);
}

static gale__node real_numbers(gale__lower *L, const job *j, int d, const double *v, gale_type type)
{
    return gale__lower_along(
        L, gale__prim_cast(L->g, gale__prim_const(L->g, GALE_F64, 1, &j->taps[d].out, v), type), j->rank, d);
}

/* Where tap k of axis d is read: one after the first, kept in range. */
static gale__node tap_place(gale__lower *L, const job *j, int d, int k)
{
    const gale__taps *t = &j->taps[d];
    gale__prim_graph *g = L->g;
    if (j->how.mode == GALE__RESIZE_NEAREST) return whole_numbers(L, j, d, t->index);
    gale__node at = gale__prim_add(g, whole_numbers(L, j, d, t->first), gale__lower_index(L, k));
    return gale__prim_binary(
        g, GALE__MIN, gale__prim_binary(g, GALE__MAX, at, gale__lower_index(L, 0)), gale__lower_index(L, t->in - 1));
}

/* ((c[0] x + c[1]) x + c[2]) x + c[3]. */
static gale__node polynomial(gale__lower *L, gale__node x, const double c[4])
{
    gale__node v = gale__lower_value(L, x, c[0]);
    for (int i = 1; i < 4; i++) v = gale__prim_add(L->g, gale__prim_mul(L->g, v, x), gale__lower_value(L, x, c[i]));
    return v;
}

gale__node gale__tap_blend(gale__lower *L, gale__node ratio, int taps, int k, double a)
{
    gale__prim_graph *g = L->g;
    gale__node rest = gale__prim_sub(g, gale__lower_value(L, ratio, 1), ratio);
    if (taps == 2) return k ? ratio : rest;
    double near[4] = {a + 2, -(a + 3), 0, 1}, far[4] = {a, -5 * a, 8 * a, -4 * a};
    gale__node side = k < 2 ? ratio : rest;
    return k == 1 || k == 2 ? polynomial(L, side, near)
                            : polynomial(L, gale__prim_add(g, side, gale__lower_value(L, side, 1)), far);
}

/* The weight of tap k: from the ratio alone, so that an axis needs two short tables whatever its taps; from a table of
 * its own where taps outside do not count. */
static gale__node tap_weight(gale__lower *L, const job *j, int d, int k, gale_type type)
{
    gale__prim_graph *g = L->g;
    const gale__taps *t = &j->taps[d];
    if (!j->how.exclude_outside && !j->how.antialias)
        return gale__tap_blend(L, real_numbers(L, j, d, t->ratio, type), t->count, k, j->how.cubic_a);
    double *column = gale__arena_alloc(&g->arena, (size_t)(t->out + 1) * sizeof *column);
    if (!column) g->status = GALE_NO_MEMORY;
    for (int64_t o = 0; column && o < t->out; o++) column[o] = t->weight[o * t->count + k];
    return column ? real_numbers(L, j, d, column, type) : GALE__NIL;
}

typedef struct walk {
    gale__node x;
    const int *axes;
    int n;
    const int64_t *stride, *dims;
} walk;

/* Sums over the taps of axes[i...] of what is at `place` plus theirs. */
static gale__node combine(gale__lower *L, const job *j, const walk *w, int i, gale__node place)
{
    gale__prim_graph *g = L->g;
    if (i == w->n) return gale__prim_take(g, w->x, gale__prim_expand(g, place, j->rank, w->dims));
    int d = w->axes[i];
    gale__node sum = GALE__NIL;
    for (int k = 0; k < j->taps[d].count; k++) {
        gale__node here = gale__prim_mul(g, tap_place(L, j, d, k), gale__lower_index(L, w->stride[d]));
        gale__node v = combine(L, j, w, i + 1, gale__prim_add(g, place, here));
        if (j->how.mode != GALE__RESIZE_NEAREST)
            v = gale__prim_mul(g, v, tap_weight(L, j, d, k, gale__lower_type_of(g, v)));
        sum = k ? gale__prim_add(g, sum, v) : v;
    }
    return sum;
}

static gale__node take_axes(gale__lower *L, gale__node x, const job *j, const int *axes, int n)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, x);
    int64_t dims[GALE_MAX_RANK], stride[GALE_MAX_RANK], s = 1;
    uint32_t mask = 0;
    memcpy(dims, p.dims, sizeof dims);
    for (int i = 0; i < n; i++) dims[axes[i]] = j->taps[axes[i]].out, mask |= 1u << axes[i];
    for (int d = p.rank - 1; d >= 0; s *= p.dims[d--]) stride[d] = s;
    gale__node place = gale__lower_index(L, 0);
    for (int d = 0; d < p.rank; d++)
        if (!(mask >> d & 1)) place = gale__prim_add(g, place, gale__lower_walk(L, p.rank, dims, d, stride[d]));
    walk w = {x, axes, n, stride, dims};
    /* Folded, every tap would have tables of its own: more to read than there is to compute. */
    int64_t fold = g->fold_max;
    g->fold_max = 0;
    gale__node y = combine(L, j, &w, 0, place);
    g->fold_max = fold;
    return y;
}

/* A long filter: the taps are an axis of their own, behind the others, and are summed. */
static gale__node sum_taps(gale__lower *L, gale__node x, const job *j, int d)
{
    gale__prim_graph *g = L->g;
    const gale__taps *t = &j->taps[d];
    gale__prim_node p = gale__lower_peek(g, x);
    int64_t dims[GALE_MAX_RANK], spot[GALE_MAX_RANK], table[2] = {t->out, t->count}, stride = 1;
    if (p.rank >= GALE_MAX_RANK) return gale__lower_refuse(L, "rank %d is too large", p.rank);
    for (int i = 0; i <= p.rank; i++)
        dims[i] = i == d ? t->out : i == p.rank ? t->count : p.dims[i], spot[i] = i == d || i == p.rank ? dims[i] : 1;
    gale__node place = gale__prim_reshape(g, gale__prim_const(g, GALE_I64, 2, table, t->index), p.rank + 1, spot);
    gale__node weight = gale__prim_reshape(
        g, gale__prim_cast(g, gale__prim_const(g, GALE_F64, 2, table, t->weight), p.type), p.rank + 1, spot);
    for (int i = p.rank - 1; i > d; i--) stride *= p.dims[i];
    place = gale__prim_mul(g, place, gale__lower_index(L, stride));
    stride = 1;
    for (int i = p.rank - 1; i >= 0; stride *= p.dims[i--])
        if (i != d) place = gale__prim_add(g, place, gale__lower_walk(L, p.rank + 1, dims, i, stride));
    gale__node v = gale__prim_mul(g, gale__prim_take(g, x, gale__prim_expand(g, place, p.rank + 1, dims)), weight);
    return gale__prim_reduce(g, GALE__SUM, v, 1u << p.rank, false);
}

/* --- The whole by a fast path, where the device has one. --- */

/* Places and weights of an axis, [out][count] or turned; an axis that stays as it is has one tap. */
static void add_tables(gale__lower *L, const job *j, int d, int64_t extent, bool turned, gale__node *in)
{
    gale__prim_graph *g = L->g;
    const gale__taps *t = j->resized[d] ? &j->taps[d] : NULL;
    int64_t out = t ? t->out : extent, count = t ? t->count : 1, dims[2] = {turned ? count : out, turned ? out : count};
    int32_t *place = gale__arena_alloc(&g->arena, (size_t)(out * count + 1) * sizeof *place);
    float *weight = gale__arena_alloc(&g->arena, (size_t)(out * count + 1) * sizeof *weight);
    if (!place || !weight) g->status = GALE_NO_MEMORY;
    for (int64_t i = 0; i < out * count && gale__lower_good(L); i++) {
        int64_t to = turned ? i % count * out + i / count : i;
        place[to] = (int32_t)(t ? t->index[i] : i);
        weight[to] = t ? (float)t->weight[i] : 1;
    }
    if (!gale__lower_good(L)) return;
    in[0] = gale__prim_const(g, GALE_I32, 2, dims, place);
    in[1] = gale__prim_const(g, GALE_F32, 2, dims, weight);
}

static gale__node claimed(gale__lower *L, gale__node x, const job *j, const int *axes, int n, gale__node y)
{
    gale__prim_node p = gale__lower_peek(L->g, x);
    if (!L->device || !gale__lower_good(L) || p.type != GALE_F32 || p.rank < 2 || p.dims[p.rank - 1] > INT32_MAX ||
        p.dims[p.rank - 2] > INT32_MAX)
        return y;
    for (int i = 0; i < n; i++)
        if (axes[i] < p.rank - 2) return y;
    gale__node in[5] = {x};
    bool whole = x == j->clean;
    if (whole) { /* before widening and NaN removal, which the routine does itself */
        gale__prim_node source = gale__lower_peek(L->g, j->raw);
        bool half = source.op == GALE__CAST && gale__lower_type_of(L->g, source.in[0]) == GALE_F16;
        in[0] = half ? source.in[0] : j->raw;
    }
    gale__op_node node = {.name = "ResizeTaps",
        .path = gale__fast_paths_first("ResizeTaps"),
        .n_in = 5,
        .n_out = 1,
        .attrs = L->node->attrs,
        .n_attrs = whole ? L->node->n_attrs : 0,
        .body = L->node,
        .n_body = 1};
    add_tables(L, j, p.rank - 2, p.dims[p.rank - 2], false, in + 1);
    add_tables(L, j, p.rank - 1, p.dims[p.rank - 1], true, in + 3);
    gale__node before = y;
    gale_status status = gale__lower_good(L) ? gale__fast_paths_claim(L->g, L->device, &node, in, &y) : GALE_OK;
    if (y == before && in[0] != x && status == GALE_OK && gale__lower_good(L)) {
        in[0] = x;
        node.n_attrs = 0;
        status = gale__fast_paths_claim(L->g, L->device, &node, in, &y);
    }
    if (status != GALE_OK && gale__lower_good(L)) L->g->status = status;
    return y;
}

/* Axes with few taps go together into one kernel; others one after another, the one that shrinks most first. */
static gale__node run(gale__lower *L, gale__node x, job *j)
{
    int axes[GALE_MAX_RANK], n = 0, taps = 1;
    bool few = true;
    for (int d = 0; d < j->rank && gale__lower_good(L); d++) {
        if (j->resized[d] && j->how.mode == GALE__RESIZE_NEAREST) x = nearest_view(L, x, j, d);
        if (!j->resized[d]) continue;
        int i = n++;
        for (; i > 0 &&
               (double)j->taps[d].out / j->taps[d].in < (double)j->taps[axes[i - 1]].out / j->taps[axes[i - 1]].in;
             i--)
            axes[i] = axes[i - 1];
        axes[i] = d;
        taps = taps > TAPS_AT_ONCE ? taps : taps * j->taps[d].count;
        few = few && j->taps[d].count <= 4;
    }
    if (!n || !gale__lower_good(L)) return x;
    gale__node from = x;
    if (few && taps <= TAPS_AT_ONCE) return claimed(L, from, j, axes, n, take_axes(L, x, j, axes, n));
    for (int i = 0; i < n && gale__lower_good(L); i++)
        x = j->taps[axes[i]].count > 4 ? sum_taps(L, x, j, axes[i]) : take_axes(L, x, j, &axes[i], 1);
    return claimed(L, from, j, axes, n, x);
}

/* Channels last on the CPU: its routine needs rows in memory, so the channels go to the front meanwhile. */
static bool has_channels_last(gale__lower *L, gale__node x, const job *j)
{
    gale__prim_node p = gale__lower_peek(L->g, x);
    bool host = L->device && L->device->info.caps.host_functions;
    if (!host || p.type != GALE_F32 || p.rank < 3 || j->how.mode == GALE__RESIZE_NEAREST || p.dims[p.rank - 1] < 2)
        return false;
    for (int d = 0; d < p.rank - 3; d++)
        if (j->resized[d]) return false;
    return j->resized[p.rank - 2] && !j->resized[p.rank - 1];
}

static gale__node run_channels_last(gale__lower *L, gale__node x, const job *j)
{
    job first = *j;
    int there[GALE_MAX_RANK] = {j->rank - 1}, back[GALE_MAX_RANK] = {0};
    first.clean = GALE__NIL, first.resized[0] = false;
    for (int d = 0; d < j->rank - 1; d++) {
        first.taps[d + 1] = j->taps[d], first.resized[d + 1] = j->resized[d];
        there[d + 1] = d, back[d] = d + 1;
    }
    x = gale__prim_copy(L->g, gale__prim_permute(L->g, x, there));
    return gale__prim_permute(L->g, run(L, x, &first), back);
}

/* What the coordinates left behind gets the extrapolation value. */
static gale__node extrapolate(gale__lower *L, gale__node y, const job *j)
{
    gale__prim_graph *g = L->g;
    for (int d = 0; d < j->rank; d++) {
        const gale__taps *t = &j->taps[d];
        if (!t->outside) continue;
        gale__node gone = gale__lower_along(L, gale__prim_const(g, GALE_BOOL, 1, &t->out, t->outside), j->rank, d);
        y = gale__prim_select(g, gone, gale__lower_value(L, y, j->how.extrapolation), y);
    }
    return y;
}

/* --- Reading the operator. --- */

static bool read_how(gale__lower *L, gale__resize *r)
{
    const char *mode = gale__attr_s(L, "mode", "nearest");
    bool cubic = !strcmp(mode, "cubic"), linear = !strcmp(mode, "linear") || !strcmp(mode, "bilinear");
    bool box = !strcmp(mode, "box"), mitchell = !strcmp(mode, "mitchell"), lanczos = !strcmp(mode, "lanczos3");
    if (!cubic && !linear && !box && !mitchell && !lanczos && strcmp(mode, "nearest"))
        gale__lower_refuse(L, "unknown mode '%s'", mode);
    r->mode = cubic      ? GALE__RESIZE_CUBIC
              : linear   ? GALE__RESIZE_LINEAR
              : box      ? GALE__RESIZE_BOX
              : mitchell ? GALE__RESIZE_MITCHELL
              : lanczos  ? GALE__RESIZE_LANCZOS
                         : GALE__RESIZE_NEAREST;
    r->finite = gale__attr_i(L, "finite", 0) && r->mode != GALE__RESIZE_NEAREST;
    r->coordinates = gale__attr_s(L, "coordinate_transformation_mode", "half_pixel");
    r->nearest = gale__attr_s(L, "nearest_mode", "round_prefer_floor");
    r->antialias = (gale__attr_i(L, "antialias", 0) && r->mode != GALE__RESIZE_NEAREST) || r->mode > GALE__RESIZE_CUBIC;
    r->exclude_outside = gale__attr_i(L, "exclude_outside", 0);
    r->cubic_a = gale__attr_f(L, "cubic_coeff_a", -0.75);
    r->extrapolation = gale__attr_f(L, "extrapolation_value", 0);
    return gale__lower_good(L);
}

/* Output extents and scales of all axes from `sizes` or `scales`, given for `axes` or for all. */
static bool read_extents(gale__lower *L, int i_scales, int i_sizes, const gale__prim_node *p, const int *axes, int n,
    int64_t *out, double *scale)
{
    int64_t n_scales, n_sizes;
    const double *scales = gale__lower_known_floats(L, i_scales, &n_scales);
    const int64_t *sizes = gale__lower_known_ints(L, i_sizes, &n_sizes);
    const char *policy = gale__attr_s(L, "keep_aspect_ratio_policy", "stretch");
    bool by_size = n_sizes > 0, least = !strcmp(policy, "not_larger"), most = !strcmp(policy, "not_smaller");
    if (gale__lower_good(L) && (by_size ? n_sizes : n_scales) != n)
        gale__lower_refuse(L, "%lld scales or sizes for %d axes", (long long)(by_size ? n_sizes : n_scales), n);
    double common = 0;
    for (int i = 0; i < n && gale__lower_good(L); i++) {
        int64_t in = p->dims[axes[i]];
        double s = by_size ? (double)sizes[i] / (double)(in ? in : 1) : scales[i];
        if (!(s > 0) && in) gale__lower_refuse(L, "axis %d has the invalid scale %g", axes[i], s);
        if (i == 0 || (least && s < common) || (most && s > common)) common = s;
        float product = (float)in * (float)s; /* in single precision as shape inference does it: 10 by 0.7 are 7, though
                                                 the float 0.7 is a little less */
        double extent = floor((double)product);
        if (!by_size && !(extent <= INT32_MAX)) gale__lower_refuse(L, "axis %d has the invalid scale %g", axes[i], s);
        out[axes[i]] = by_size ? sizes[i] : gale__lower_good(L) ? (int64_t)extent : 0;
        scale[axes[i]] = s;
    }
    for (int i = 0; by_size && (least || most) && i < n; i++) {
        scale[axes[i]] = common;
        double extent = floor(common * (double)p->dims[axes[i]] + 0.5);
        if (!(extent <= INT32_MAX)) gale__lower_refuse(L, "axis %d has the invalid scale %g", axes[i], common);
        else out[axes[i]] = (int64_t)extent;
    }
    return gale__lower_good(L);
}

static void resize(gale__lower *L, job *j, int i_roi, int i_scales, int i_sizes)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    int64_t out[GALE_MAX_RANK], n_roi;
    double scale[GALE_MAX_RANK];
    int axes[GALE_MAX_RANK], count, n;
    const int64_t *given = gale__attr_ints(L, "axes", &count);
    bool crop = !strcmp(j->how.coordinates, "tf_crop_and_resize");
    const double *roi = crop ? gale__lower_known_floats(L, i_roi, &n_roi) : NULL;
    n = given ? count : p.rank;
    if (n > p.rank) gale__lower_refuse(L, "%d axes for a value of rank %d", n, p.rank);
    for (int i = 0; i < n && gale__lower_good(L); i++) axes[i] = given ? gale__lower_axis(L, given[i], p.rank) : i;
    for (int d = 0; d < p.rank; d++) out[d] = p.dims[d], scale[d] = 1;
    if (!gale__lower_good(L) || !read_extents(L, i_scales, i_sizes, &p, axes, n, out, scale)) return;
    if (crop && (!roi || n_roi != 2 * n))
        gale__lower_refuse(L, "tf_crop_and_resize needs roi, with two numbers per axis");
    j->rank = p.rank;
    for (int i = 0; i < n && gale__lower_good(L); i++) {
        int d = axes[i];
        double start = roi ? roi[i] : 0, end = roi ? roi[n + i] : 1;
        j->resized[d] = out[d] != p.dims[d] || scale[d] != 1 || start != 0 || end != 1;
        if (j->resized[d] && p.dims[d] == 0) gale__lower_refuse(L, "axis %d has no elements to resize", d);
        if (j->resized[d] && gale__lower_good(L))
            gale__taps_make(L, &j->how, p.dims[d], out[d], scale[d], start, end, &j->taps[d]);
    }
    if (!gale__lower_good(L)) return;
    bool whole = !gale__type_is_float(p.type) && j->how.mode != GALE__RESIZE_NEAREST;
    gale__node x = j->how.mode == GALE__RESIZE_NEAREST
                       ? L->in[0]
                       : gale__prim_cast(g, L->in[0], whole ? GALE_F32 : gale__lower_wide_type(p.type));
    j->raw = x;
    if (j->how.finite) {
        gale__node zero = gale__lower_value(L, x, 0), most = gale__lower_value(L, x, 0x1.fffffep127),
                   size = gale__prim_unary(g, GALE__ABS, x);
        x = gale__prim_select(g, gale__prim_binary(g, GALE__LE, size, most), x, zero);
    }
    j->clean = x;
    gale__node y = extrapolate(L, has_channels_last(L, x, j) ? run_channels_last(L, x, j) : run(L, x, j), j);
    if (whole) y = gale__prim_unary(g, GALE__RINT, y);
    L->out[0] = gale__prim_cast(g, y, p.type);
}

LOWER(Resize)
{
    job j = {0};
    if (read_how(L, &j.how)) resize(L, &j, 1, 2, 3);
}

LOWER(Upsample)
{
    job j = {0};
    if (!read_how(L, &j.how)) return;
    j.how.coordinates = "asymmetric";
    j.how.nearest = "floor";
    resize(L, &j, -1, 1, -1);
}
