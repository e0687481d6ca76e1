/* Runs grouping and emission over a whole graph and puts the kernels in execution order. */
#include "graph/fuse/fuse.h"
#include <string.h>

int64_t gale__root_elements(const gale__g *g, gale__node n) { return gale__g_elements(g, n); }

/* Written by something else than a nest: dense. */
static bool written_dense(int op)
{
    switch (op) {
    case GALE__P_INPUT:
    case GALE__P_CONST:
    case GALE__P_PUT:
    case GALE__P_SCAN:
    case GALE__P_SORT:
    case GALE__P_LOOP_OUT:
    case GALE__P_ROUTINE: return true;
    default: return false;
    }
}

static bool channels_last(const gale__fusion *f, gale__node n)
{
    const gale__pnode *p = gale__g_at(f->g, n);
    return f->options.layout == 2 && !f->dense[n] && p->rank >= 4 && p->rank <= 5 && !written_dense(p->op);
}

void gale__root_strides(const gale__fusion *f, gale__node n, int64_t *strides)
{
    const gale__pnode *p = gale__g_at(f->g, n);
    int order[GALE_MAX_RANK];
    for (int a = 0; a < p->rank; a++) order[a] = a;
    if (channels_last(f, n)) {
        for (int a = 1; a + 1 < p->rank; a++) order[a] = a + 1;
        order[p->rank - 1] = 1;
    }
    int64_t size = 1;
    for (int i = p->rank - 1; i >= 0; i--) {
        strides[order[i]] = size;
        size *= p->dims[order[i]];
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
    const gale__pnode *p = gale__g_at(f->g, n);
    int64_t at = 0;
    for (int i = 0; i < p->n_in; i++) {
        int64_t extent = gale__g_at(f->g, p->in[i])->dims[p->attr[0]];
        if (gale__g_elements(f->g, p->in[i]) > 0) {
            gale__fused k = {0};
            GALE_TRY(gale__emit(f, n, p->in[i], (int)p->attr[0], at, &k));
            GALE_TRY(add_kernel(f, &k));
        }
        at += extent;
    }
    return GALE_OK;
}

static gale_status emit_root(gale__fusion *f, gale__node n)
{
    const gale__pnode *p = gale__g_at(f->g, n);
    gale__fused k = {.root = n, .op = p->region >= 0 ? f->g->regions[p->region].name : "Identity"};
    if (p->op == GALE__P_LOOP) return k.kind = GALE__K_LOOP, add_kernel(f, &k);
    if (p->op == GALE__P_LOOP_OUT || gale__g_elements(f->g, n) == 0) return GALE_OK;
    switch (p->op) {
    case GALE__P_CONCAT: return emit_concat(f, n);
    case GALE__P_SORT: k.kind = GALE__K_SORT; return add_kernel(f, &k);
    case GALE__P_SCAN: k.kind = GALE__K_SCAN; return add_kernel(f, &k);
    case GALE__P_PUT: k.kind = GALE__K_PUT; return add_kernel(f, &k);
    case GALE__P_ROUTINE: k.kind = GALE__K_ROUTINE; return add_kernel(f, &k);
    default: break;
    }
    GALE_TRY(gale__emit(f, n, n, -1, 0, &k));
    return add_kernel(f, &k);
}

gale_status gale__fuse(
    const gale__g *g, const gale__node *outputs, int n_outputs, const gale__fusion_options *options, gale__fusion *out)
{
    memset(out, 0, sizeof *out);
    out->g = g;
    if (options) out->options = *options;
    gale_status status = gale__group(out, outputs, n_outputs);
    /* From the last root back: emitting one may make roots of earlier nodes. */
    for (gale__node n = g->count - 1; n >= 0 && status == GALE_OK; n--)
        if (out->live[n] && out->root[n]) status = emit_root(out, n);
    for (int i = 0, j = out->n_kernels - 1; i < j; i++, j--) {
        gale__fused k = out->kernels[i];
        out->kernels[i] = out->kernels[j];
        out->kernels[j] = k;
    }
    gale__emitter_finish(out);
    if (status != GALE_OK) gale__fusion_finish(out);
    return status;
}

void gale__fusion_finish(gale__fusion *f)
{
    gale__emitter_finish(f);
    gale__free(f->kernels);
    gale__arena_finish(&f->arena);
    f->kernels = NULL;
    f->n_kernels = 0;
}
