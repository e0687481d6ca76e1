/* Runs grouping and emission over a whole graph and puts the kernels in execution order. */
#include "graph/fuse/fuse.h"
#include "graph/fuse/layout.h"
#include "graph/plan/paths.h"
#include "kernel/cpu/routines.h"
#include <string.h>

int64_t gale__fuse_root_elements(const gale__prim_graph *g, gale__node n) { return gale__prim_elements(g, n); }

bool gale__fuse_written_dense(const gale__prim_node *p)
{
    double ns[2];
    switch (p->op) {
    case GALE__PRIM_INPUT:
    case GALE__PRIM_CONST:
    case GALE__PRIM_PUT:
    case GALE__PRIM_SCAN:
    case GALE__PRIM_SORT:
    case GALE__PRIM_LOOP_OUT: return true;
    case GALE__PRIM_ROUTINE: return !gale__fast_paths_layouts(p, ns);
    default: return false;
    }
}

/* Operand 0 may rename the base: then both have the same channels and planes. */
bool gale__fuse_takes_layouts(const gale__prim_graph *g, const gale__prim_node *p, gale__node base)
{
    double ns[2];
    if (!gale__fast_paths_layouts(p, ns)) return false;
    const gale__prim_node *a = gale__prim_at(g, base), *b = gale__prim_at(g, p->in[0]);
    return a->rank > 2 && b->rank > 2 && gale__layout_plane(a) == gale__layout_plane(b) &&
           a->dims[gale__channel_axis(a->dims, a->rank)] == b->dims[gale__channel_axis(b->dims, b->rank)];
}

void gale__fuse_root_strides(const gale__fusion *f, gale__node n, int64_t *strides)
{
    const gale__prim_node *p = gale__prim_at(f->g, n);
    int order[GALE_MAX_RANK];
    for (int a = 0; a < p->rank; a++) order[a] = a;
    if (f->last[n]) {
        int axis = gale__channel_axis(p->dims, p->rank);
        for (int a = axis; a + 1 < p->rank; a++) order[a] = a + 1;
        order[p->rank - 1] = axis;
    }
    int64_t size = 1;
    for (int i = p->rank - 1; i >= 0; i--) {
        strides[order[i]] = size;
        size *= p->dims[order[i]];
    }
}

/* A reshape of what is not dense only splits its axes, and joins those of the plane, which stay neighbours. */
void gale__fuse_reshaped_strides(const gale__fusion *f, gale__node base, gale__node n, int64_t *strides)
{
    const gale__prim_node *p = gale__prim_at(f->g, n), *b = gale__prim_at(f->g, base);
    int64_t of_base[GALE_MAX_RANK], dims[GALE_MAX_RANK], size = 1;
    if (!f->last[base]) {
        for (int a = p->rank - 1; a >= 0; size *= p->dims[a--]) strides[a] = size;
        return;
    }
    gale__fuse_root_strides(f, base, of_base);
    int joined = gale__fuse_joined_axes(b, dims);
    of_base[joined - 1] = of_base[b->rank - 1];
    for (int a = p->rank - 1, at = joined - 1; a >= 0; a--) {
        while (at > 0 && size == dims[at]) at--, size = 1;
        strides[a] = of_base[at] * size;
        size *= p->dims[a];
    }
}

static gale_status add_kernel(gale__fusion *f, const gale__fused *k)
{
    GALE_TRY(gale__grow((void **)&f->kernels, &f->kernels_capacity, (size_t)f->n_kernels + 1, sizeof *f->kernels));
    f->kernels[f->n_kernels++] = *k;
    return GALE_OK;
}

static gale_status emit_concat(gale__fusion *f, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(f->g, n);
    int64_t at = 0;
    for (int i = 0; i < p->n_in; i++) {
        int64_t extent = gale__prim_at(f->g, p->in[i])->dims[p->attr[0]];
        if (gale__prim_elements(f->g, p->in[i]) > 0) {
            gale__fused k = {0};
            gale__fused_piece piece = {p->in[i], (int)p->attr[0], at, extent};
            GALE_TRY(gale__fuse_emit(f, n, &piece, &k));
            GALE_TRY(add_kernel(f, &k));
        }
        at += extent;
    }
    return GALE_OK;
}

/* A rolled value as two contiguous pieces, the end and the beginning, so that neither wraps around. */
static gale_status emit_roll(gale__fusion *f, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(f->g, n);
    int axis = (int)p->attr[0];
    int64_t end = p->dims[axis] - p->attr[1];
    gale__fused_piece pieces[2] = {{n, axis, 0, end}, {n, axis, end, p->attr[1]}};
    for (int i = 0; i < 2; i++) {
        gale__fused k = {0};
        GALE_TRY(gale__fuse_emit(f, n, &pieces[i], &k));
        GALE_TRY(add_kernel(f, &k));
    }
    return GALE_OK;
}

static gale_status emit_root(gale__fusion *f, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(f->g, n);
    gale__fused k = {.root = n, .also = GALE__NIL, .op = p->region >= 0 ? f->g->regions[p->region].name : "Identity"};
    if (p->region >= 0) k.regions[k.n_regions++] = p->region;
    if (p->op == GALE__PRIM_LOOP) return k.kind = GALE__FUSED_LOOP, add_kernel(f, &k);
    if (p->op == GALE__PRIM_LOOP_OUT || gale__prim_elements(f->g, n) == 0) return GALE_OK;
    switch (p->op) {
    case GALE__PRIM_CONCAT: return emit_concat(f, n);
    case GALE__PRIM_SORT: k.kind = GALE__FUSED_SORT; return add_kernel(f, &k);
    case GALE__PRIM_SCAN: k.kind = GALE__FUSED_SCAN; return add_kernel(f, &k);
    case GALE__PRIM_PUT: k.kind = GALE__FUSED_PUT; return add_kernel(f, &k);
    case GALE__PRIM_ROUTINE:
        k.kind = GALE__FUSED_ROUTINE;
        k.layouts = (p->n_in && f->last[gale__fuse_base(f, p->in[0])] ? GALE__CPU_LAST_OPERAND : 0) |
                    (f->last[n] ? GALE__CPU_LAST_RESULT : 0);
        return add_kernel(f, &k);
    default: break;
    }
    if (p->op == GALE__PRIM_ROLL && !f->options.wraps) return emit_roll(f, n);
    GALE_TRY(gale__fuse_emit(f, n, &(gale__fused_piece){.value = n, .axis = -1}, &k));
    return add_kernel(f, &k);
}

/* From the last root back: emitting one may make roots of earlier nodes. */
static gale_status emit_all(gale__fusion *f)
{
    gale_status status = GALE_OK;
    f->n_kernels = 0;
    for (gale__node n = 0; n < f->g->count; n++) f->emitted_in[n] = -1;
    for (gale__node n = f->g->count - 1; n >= 0 && status == GALE_OK; n--)
        if (f->live[n] && f->root[n] && !f->joined[n]) status = emit_root(f, n);
    gale__fuse_emitter_finish(f);
    for (int i = 0, j = f->n_kernels - 1; i < j; i++, j--) {
        gale__fused k = f->kernels[i];
        f->kernels[i] = f->kernels[j];
        f->kernels[j] = k;
    }
    return status;
}

static gale_status fuse(gale__fusion *f, const gale__node *outputs, int n_outputs)
{
    bool again = false;
    GALE_TRY(gale__fuse_group(f, outputs, n_outputs));
    if (f->options.layout == 2) gale__layout_force(f);
    GALE_TRY(emit_all(f));
    if (f->options.layout == 0 && f->options.matrix) GALE_TRY(gale__layout_choose(f, &again));
    else if (f->options.layout == 0 && f->options.last) GALE_TRY(gale__layout_choose_host(f, &again));
    return again ? emit_all(f) : GALE_OK;
}

gale_status gale__fuse(const gale__prim_graph *g, const gale__node *outputs, int n_outputs,
    const gale__fusion_options *options, gale__fusion *out)
{
    memset(out, 0, sizeof *out);
    out->g = g;
    if (options) out->options = *options;
    gale_status status = fuse(out, outputs, n_outputs);
    if (status != GALE_OK) gale__fusion_finish(out);
    return status;
}

void gale__fusion_finish(gale__fusion *f)
{
    gale__fuse_emitter_finish(f);
    gale__free(f->kernels);
    gale__arena_finish(&f->arena);
    f->kernels = NULL;
    f->n_kernels = 0;
}
