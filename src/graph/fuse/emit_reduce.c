/* Reductions inside a kernel: which dimensions they run over, and how several share them. */
#include "graph/fuse/emitter.h"
#include <string.h>

/* Value of a reduction over nothing. */
static int emit_identity(gale__fuse_emitter *e, const gale__prim_node *p)
{
    uint64_t bits = 0;
    gale_type compute = gale__compute_type((gale_type)p->type);
    double v = 0;
    if (p->attr[0] == GALE__PROD) v = 1;
    else if (p->attr[0] == GALE__RMAX)
        v = gale__type_is_float((gale_type)p->type) ? -__builtin_inf() : gale__type_min((gale_type)p->type);
    else if (p->attr[0] == GALE__RMIN)
        v = gale__type_is_float((gale_type)p->type) ? __builtin_inf() : gale__type_max((gale_type)p->type);
    gale__store_f64(compute, &bits, v);
    return gale__fuse_emit_const(e, (gale_type)p->type, bits);
}

/* Reduced axes of extent > 1, in order. */
static int reduced_axes(const gale__prim_node *in, int64_t mask, int *axes)
{
    int count = 0;
    for (int a = 0; a < in->rank; a++)
        if (mask >> a & 1 && in->dims[a] > 1) axes[count++] = a;
    return count;
}

/* Appends an axis of the domain as dimensions, one for each factor. */
bool gale__fuse_emit_axis(gale__fuse_emitter *e, int axis, int64_t extent, bool inner)
{
    gale__fuse_factors *f = &e->factors[axis];
    int64_t product = 1;
    for (int i = 0; i < f->n; i++) product *= f->f[i];
    if (f->n == 0 || product != extent) *f = (gale__fuse_factors){1, {extent}};
    if (e->domain.n + f->n > GALE__NEST_DIMS) return false;
    for (int i = 0; i < f->n; i++) {
        e->axis_of[e->domain.n] = axis;
        e->place_of[e->domain.n] = i;
        e->domain.extent[e->domain.n] = f->f[i];
        e->domain.inner[e->domain.n++] = inner;
    }
    return true;
}

/* dims[i] .. dims[i + 1]: places in list[] of the dimensions that walk reduced axis i. */
typedef struct walk {
    int list[GALE__NEST_DIMS];
    int first[GALE_MAX_RANK + 1];
} walk;

static bool add_inner(gale__fuse_emitter *e, const gale__prim_node *in, const int *axes, int count, walk *w)
{
    int k = 0;
    for (int i = 0; i < count; i++) {
        w->first[i] = k;
        int from = e->domain.n;
        if (e->n_added == GALE__NEST_DIMS || !gale__fuse_emit_axis(e, ADDED + e->n_added, in->dims[axes[i]], true))
            return false;
        e->n_added++;
        for (int d = from; d < e->domain.n; d++) w->list[k++] = d;
    }
    w->first[count] = k;
    return true;
}

/* The dimensions not walked outside, in order, must walk the reduced axes one after the other. */
static bool match_inner(const gale__fuse_emitter *e, const gale__prim_node *in, const int *axes, int count,
    const int *free_dims, int n_free, walk *w)
{
    int k = 0;
    for (int i = 0; i < count; i++) {
        int64_t product = 1;
        w->first[i] = k;
        while (product < in->dims[axes[i]]) {
            if (k == n_free) return false;
            product *= e->domain.extent[free_dims[k]];
            w->list[k] = free_dims[k];
            k++;
        }
        if (product != in->dims[axes[i]]) return false;
    }
    w->first[count] = k;
    return k == n_free;
}

/* Inner dimensions for the reduction: those the domain has already, or new ones. */
static bool inner_dims(gale__fuse_emitter *e, gale__node n, const int *axes, int count, uint32_t walked, walk *w)
{
    const gale__prim_node *in = gale__prim_at(e->g, gale__prim_at(e->g, n)->in[0]);
    int free_dims[GALE__NEST_DIMS], n_free = 0;
    bool all_inner = true, some_inner = false;
    int64_t inner_size = 1, outer_size = 1;
    for (int d = 0; d < e->domain.n; d++) {
        some_inner |= e->domain.inner[d];
        if (walked >> d & 1) {
            if (e->domain.inner[d]) return false; /* needs an inner dimension as an outer one */
            outer_size *= e->domain.extent[d];
        } else if (e->domain.extent[d] > 1) {
            free_dims[n_free++] = d;
            all_inner &= e->domain.inner[d];
            inner_size *= e->domain.extent[d];
        }
    }
    if (n_free == 0 && !some_inner) return add_inner(e, in, axes, count, w); /* the reduction is the whole kernel's */
    if (gale__fuse_is_contraction(e->g, n) || (some_inner && !all_inner)) return false;
    if (!some_inner && inner_size > 16384 && outer_size < 1024) return false; /* too few rows for one kernel */
    if (!match_inner(e, in, axes, count, free_dims, n_free, w)) return false;
    for (int i = 0; i < n_free; i++) e->domain.inner[free_dims[i]] = true;
    return true;
}

static const gale__map *reduce_map(gale__fuse_emitter *e, const gale__prim_node *in, const gale__map *m, int64_t mask,
    const int *axes, const walk *w, int count)
{
    gale__map *inner = gale__fuse_emit_map(e);
    if (!inner) return NULL;
    inner->rank = m->rank;
    inner->n = e->domain.n;
    inner->n_guards = m->n_guards;
    memcpy(inner->guards, m->guards, (size_t)m->n_guards * sizeof *m->guards);
    for (int a = 0; a < in->rank; a++) {
        memset(inner->axis[a].coef, 0, sizeof inner->axis[a].coef);
        inner->axis[a].c0 = m->axis[a].c0;
        inner->axis[a].div = m->axis[a].div;
        inner->axis[a].guard = m->axis[a].guard;
        for (int d = 0; d < m->n; d++) inner->axis[a].coef[d] = m->axis[a].coef[d];
        if (mask >> a & 1)
            memset(&inner->axis[a], 0, sizeof inner->axis[a]), inner->axis[a].div = 1, inner->axis[a].guard = -1;
    }
    for (int i = 0; i < count; i++) {
        int64_t weight = 1;
        for (int k = w->first[i + 1] - 1; k >= w->first[i]; k--) {
            inner->axis[axes[i]].coef[w->list[k]] = weight;
            weight *= e->domain.extent[w->list[k]];
        }
    }
    return inner;
}

/* One element only: its own sum, product, maximum; place 0. */
static int emit_reduce_one(
    gale__fuse_emitter *e, const gale__prim_node *p, const gale__prim_node *in, const gale__map *m)
{
    if (p->attr[0] >= GALE__ARGMAX) return gale__fuse_emit_const(e, GALE_I64, 0);
    const gale__map *inner = reduce_map(e, in, m, p->attr[1], NULL, NULL, 0);
    return inner ? gale__fuse_emit_value(e, p->in[0], inner, false) : ERROR;
}

/* A sum read only through views by another sum: one sum over both. */
static int emit_merged_sum(gale__fuse_emitter *e, gale__node n, const gale__map *m)
{
    const gale__prim_node *p = gale__prim_at(e->g, n), *in = gale__prim_at(e->g, p->in[0]);
    int axes[GALE_MAX_RANK];
    walk w;
    int count = reduced_axes(in, p->attr[1], axes);
    /* Merging is not possible if the kernel has another reduction, or encloses this one in another: it would run over
     * the new dimensions too.
     */
    if (e->reducing > 1) return gale__fuse_emit_load_instead(e, n, m);
    for (int i = 0; i < e->n_code; i++)
        if (e->code[i].op == GALE__NEST_REDUCE) return gale__fuse_emit_load_instead(e, n, m);
    if (!add_inner(e, in, axes, count, &w)) return gale__fuse_emit_load_instead(e, n, m);
    const gale__map *inner = reduce_map(e, in, m, p->attr[1], axes, &w, count);
    return inner ? gale__fuse_emit_value(e, p->in[0], inner, true) : ERROR;
}

int gale__fuse_emit_reduce(gale__fuse_emitter *e, gale__node n, const gale__map *m, bool sum_path)
{
    const gale__prim_node *p = gale__prim_at(e->g, n), *in = gale__prim_at(e->g, p->in[0]);
    int axes[GALE_MAX_RANK];
    walk w;
    if (gale__prim_elements(e->g, p->in[0]) == 0) return emit_identity(e, p);
    if (sum_path && p->attr[0] == GALE__SUM && n != e->root) return emit_merged_sum(e, n, m);
    int count = reduced_axes(in, p->attr[1], axes);
    uint32_t walked;
    if (n != e->root && e->fusion->emitted_in[n] >= 0 && e->fusion->emitted_in[n] != e->root)
        return gale__fuse_emit_load_instead(e, n, m);
    if (count == 0) return emit_reduce_one(e, p, in, m);
    if (!gale__map_dims(m, &e->domain, p->dims, &walked) || !inner_dims(e, n, axes, count, walked, &w))
        return gale__fuse_emit_load_instead(e, n, m);
    e->fusion->emitted_in[n] = e->root;
    const gale__map *inner = reduce_map(e, in, m, p->attr[1], axes, &w, count);
    if (!inner) return ERROR;
    e->reducing++;
    int v = gale__fuse_emit_value(e, p->in[0], inner, p->attr[0] == GALE__SUM);
    if (v < 0) return v;
    e->reducing--;
    return gale__fuse_emit_append(e,
        (gale__nest_instr){.op = GALE__NEST_REDUCE,
            .type = p->type,
            .acc = (uint8_t)p->attr[2],
            .a = v,
            .b = -1,
            .c = -1,
            .access = -1,
            .imm = (uint64_t)p->attr[0]},
        false);
}
