/* Pad: a view for constants; otherwise a table of places for each axis, whose sum one TAKE reads. */
#include "ops/lower.h"
#include <string.h>

#define FARTHEST (1ll << 60) /* so that sums do not overflow */

typedef struct sides {
    int64_t low[GALE_MAX_RANK], high[GALE_MAX_RANK];
} sides;

static bool read_sides(gale__lower *L, int rank, sides *s)
{
    int64_t n = 0, n_axes;
    int count = 0;
    const int64_t *pads = gale__lower_arg(L, 1) >= 0 ? gale__lower_known_ints(L, 1, &n)
                                                     : gale__attr_ints(L, "pads", &count),
                  *axes = gale__lower_known_ints(L, 3, &n_axes);
    if (count) n = count;
    int64_t each = axes ? n_axes : rank;
    memset(s, 0, sizeof *s);
    if (gale__lower_good(L) && (n != 2 * each || (n && !pads)))
        gale__lower_refuse(L, "%lld pads for %lld axes", (long long)n, (long long)each);
    for (int64_t i = 0; i < each && gale__lower_good(L); i++) {
        int axis = axes ? gale__lower_axis(L, axes[i], rank) : (int)i;
        s->low[axis] = pads[i], s->high[axis] = pads[each + i];
        if (pads[i] > FARTHEST || pads[i] < -FARTHEST || pads[each + i] > FARTHEST || pads[each + i] < -FARTHEST)
            gale__lower_refuse(
                L, "invalid pads of %lld and %lld at axis %d", (long long)pads[i], (long long)pads[each + i], axis);
    }
    return gale__lower_good(L);
}

/* A fill that is not known when planning is selected where a padded mask says "outside". */
static gale__node pad_constant(gale__lower *L, gale__node x, const sides *s)
{
    gale__prim_graph *g = L->g;
    gale__node fill = gale__lower_arg(L, 2);
    const gale__prim_node *known = NULL;
    double value = gale__attr_f(L, "value", 0);
    if (fill >= 0 && gale__prim_elements(g, fill) != 1)
        return gale__lower_refuse(
            L, "the fill value has %lld elements instead of one", (long long)gale__prim_elements(g, fill));
    if (fill >= 0 && gale__prim_known(g, fill, &known) == GALE_OK) value = gale__load_f64(known->type, known->data);
    gale__node y = gale__prim_pad(g, x, s->low, s->high, NULL, value);
    if (fill < 0 || known) return y;
    gale__prim_node p = gale__lower_peek(g, x);
    gale__node inside = gale__prim_pad(g, gale__prim_splat(g, GALE_BOOL, p.rank, p.dims, 1), s->low, s->high, NULL, 0);
    return gale__prim_select(g, inside, y, gale__prim_reshape(g, fill, 0, NULL));
}

/* Where element i of an axis of n comes from, before its first one or after its last one, too. */
static int64_t source(int64_t i, int64_t n, const char *mode)
{
    if (!strcmp(mode, "edge")) return i < 0 ? 0 : i < n ? i : n - 1;
    /* wrap repeats after n places, reflect after 2 (n - 1), the second half mirrored */
    int64_t period = !strcmp(mode, "wrap") ? n : n > 1 ? 2 * (n - 1) : 1, r = i % period;
    if (r < 0) r += period;
    return r < n ? r : period - r;
}

/* The places of a padded axis, `stride` elements apart, as a constant. */
static gale__node places(
    gale__lower *L, const gale__prim_node *p, int d, int64_t low, int64_t count, int64_t stride, const char *mode)
{
    int64_t line[GALE_MAX_RANK],
        *at = count < INT64_C(1) << 32 ? gale__arena_alloc(&L->g->arena, ((size_t)count + 1) * sizeof *at) : NULL;
    if (!at) return gale__prim_fail(L->g, GALE_NO_MEMORY, "Pad: out of memory for %lld places", (long long)count);
    for (int64_t i = 0; i < count; i++) at[i] = source(i - low, p->dims[d], mode) * stride;
    for (int k = 0; k < p->rank; k++) line[k] = k == d ? count : 1;
    return gale__prim_const(L->g, GALE_I64, p->rank, line, at);
}

static gale__node pad_by_place(gale__lower *L, gale__node x, const sides *s, const char *mode)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, x);
    int64_t dims[GALE_MAX_RANK], stride = 1;
    for (int d = 0; d < p.rank; d++) dims[d] = p.dims[d] + s->low[d] + s->high[d];
    gale__node at = gale__lower_index(L, 0);
    for (int d = p.rank - 1; d >= 0; stride *= p.dims[d--]) {
        if (p.dims[d] == 0 && dims[d] != 0) return gale__lower_refuse(L, "axis %d has no element to repeat", d);
        gale__node i = dims[d] == p.dims[d] ? gale__lower_walk(L, p.rank, dims, d, stride)
                                            : places(L, &p, d, s->low[d], dims[d], stride, mode);
        at = gale__prim_add(g, gale__prim_expand(g, at, p.rank, dims), gale__prim_expand(g, i, p.rank, dims));
    }
    return gale__prim_take(g, x, gale__prim_expand(g, at, p.rank, dims));
}

LOWER(Pad)
{
    const char *mode = gale__attr_s(L, "mode", "constant");
    gale__node x = L->in[0];
    int rank = gale__lower_rank_of(L->g, x);
    sides s, crop = {{0}, {0}};
    if (!read_sides(L, rank, &s)) return;
    if (!strcmp(mode, "constant")) {
        L->out[0] = pad_constant(L, x, &s);
        return;
    }
    if (strcmp(mode, "reflect") && strcmp(mode, "edge") && strcmp(mode, "wrap"))
        gale__lower_refuse(L, "unknown mode '%s'", mode);
    bool grows = false;
    for (int d = 0; d < rank; d++) {
        if (s.low[d] < 0) crop.low[d] = s.low[d], s.low[d] = 0;
        if (s.high[d] < 0) crop.high[d] = s.high[d], s.high[d] = 0;
        grows = grows || s.low[d] || s.high[d];
    }
    x = gale__prim_pad(L->g, x, crop.low, crop.high, NULL, 0);
    L->out[0] = grows && gale__lower_good(L) ? pad_by_place(L, x, &s, mode) : x;
}
