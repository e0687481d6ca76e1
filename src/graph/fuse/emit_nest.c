/* From the emitter's lists to a finished nest: which dimensions are inner, outer dimensions first, names for reports.
 * */
#include "graph/build/build.h"
#include "graph/fuse/emitter.h"
#include <string.h>

enum { ORDINARY_MOST = 65536 };

/* Which instructions vary along inner dimensions; a reduction's operand always counts as inner. */
static void find_inner(gale__fuse_emitter *e)
{
    for (int i = 0; i < e->n_code; i++) {
        gale__nest_instr *in = &e->code[i];
        const int32_t ops[3] = {in->a, in->b, in->c};
        if (in->op == GALE__NEST_REDUCE) {
            in->inner = 0;
            continue;
        }
        for (int k = 0; k < 3; k++)
            if (ops[k] >= 0 && e->code[ops[k]].inner) in->inner = 1;
        if (in->access < 0) continue;
        const gale__nest_access *a = &e->accesses[in->access];
        for (int d = 0; d < e->domain.n; d++) {
            if (!e->domain.inner[d] || e->domain.extent[d] == 1) continue;
            if (a->stride[d] != 0) in->inner = 1;
            for (int k = 0; k < a->n_guards; k++)
                if (a->guards[k].coef[d] != 0) in->inner = 1;
        }
    }
}

/* A reduction of a value that does not vary along the inner dimensions, such as a constant, gets an inner copy of
 * it. */
static gale_status copy_outer_operands(gale__fuse_emitter *e, gale__nest_store *stores, int n_stores)
{
    for (int i = 0; i < e->n_code; i++) {
        if (e->code[i].op != GALE__NEST_REDUCE || e->code[e->code[i].a].inner) continue;
        /* shift [i, n) up by one and put the copy at i */
        if (e->n_code >= (int)(sizeof e->code / sizeof *e->code))
            return gale__fail(GALE_LIMIT, "a fused kernel exceeds %d instructions", e->n_code);
        memmove(&e->code[i + 1], &e->code[i], (size_t)(e->n_code - i) * sizeof *e->code);
        e->n_code++;
        for (int k = 0; k < n_stores; k++) stores[k].value += stores[k].value >= i;
        for (int k = i + 1; k < e->n_code; k++) {
            int32_t *ops[3] = {&e->code[k].a, &e->code[k].b, &e->code[k].c};
            for (int o = 0; o < 3; o++)
                if (*ops[o] >= i) (*ops[o])++;
        }
        int32_t operand = e->code[i + 1].a;
        e->code[i] = e->code[operand];
        if (e->code[operand].op == GALE__NEST_REDUCE) /* a reduced value reduced again: pass it through a no-op */
            e->code[i] = (gale__nest_instr){
                .op = GALE__CAST, .type = e->code[operand].type, .a = operand, .b = -1, .c = -1, .access = -1};
        e->code[i].inner = 1;
        e->code[i + 1].a = i;
        i++;
    }
    return GALE_OK;
}

static bool walks_inside(const gale__fuse_emitter *e, const gale__nest_access *a)
{
    for (int d = 0; d < e->domain.n; d++)
        if (e->domain.inner[d] && e->domain.extent[d] > 1 && a->stride[d] != 0) return true;
    return false;
}

/* A reduced value that is broadcast back over the reduced axes is stored at every inner point, so it gets an inner
 * copy. */
static gale_status copy_spread_value(gale__fuse_emitter *e, gale__nest_store *store)
{
    if (e->code[store->value].inner || !walks_inside(e, &e->accesses[store->access])) return GALE_OK;
    int copy = gale__fuse_emit_append(e,
        (gale__nest_instr){.op = GALE__CAST,
            .type = e->code[store->value].type,
            .inner = 1,
            .a = store->value,
            .b = -1,
            .c = -1,
            .access = -1},
        false);
    if (copy < 0) return e->status;
    store->value = copy;
    return GALE_OK;
}

static const char *join_names(gale__fuse_emitter *e)
{
    gale__str s = {0};
    for (int i = e->n_names - 1; i >= 0; i--) {
        gale__str_add(&s, e->names[i]);
        if (i) gale__str_add(&s, "+");
    }
    const char *text = gale__arena_strdup(&e->fusion->arena, s.length ? gale__str_text(&s) : "Identity");
    gale__str_finish(&s);
    return text;
}

/* Outer dimensions first: permutes every coefficient. */
static void order_dims(gale__fuse_emitter *e, gale__nest *nest)
{
    int order[GALE__NEST_DIMS], n = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int d = 0; d < e->domain.n; d++)
            if (e->domain.inner[d] == (pass == 1)) order[n++] = d;
        if (pass == 0) nest->n_outer = n;
    }
    nest->n_inner = n - nest->n_outer;
    bool same = true;
    for (int i = 0; i < n; i++) {
        nest->extent[i] = e->domain.extent[order[i]];
        same &= order[i] == i;
    }
    for (int i = 0; i < e->n_accesses && !same; i++) {
        gale__nest_access *a = &e->accesses[i], old;
        gale__nest_guard room[GALE__GUARDS];
        gale__nest_access_copy(&old, a, room);
        for (int d = 0; d < n; d++) {
            a->stride[d] = old.stride[order[d]];
            for (int k = 0; k < a->n_guards; k++) a->guards[k].coef[d] = old.guards[k].coef[order[d]];
        }
    }
}

/* Whether all elements of a short constant, such as the scales of columns, are between 2^-60 and 2^60, so that kernels
 * may divide by multiplying with reciprocals. */
static bool is_ordinary(const gale__prim_graph *g, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(g, n);
    void *copy = NULL;
    const void *data = NULL;
    int64_t count = gale__prim_elements(g, n);
    if (p->op != GALE__PRIM_CONST || p->type != GALE_F32 || p->splat || count > ORDINARY_MOST) return false;
    bool ok = gale__prim_read(p, &copy, &data) == GALE_OK;
    for (int64_t i = 0; ok && i < count; i++) {
        float v = ((const float *)data)[i];
        ok = v > 0x1p-60f && v < 0x1p60f;
    }
    gale__free(copy);
    return ok;
}

gale_status gale__fuse_emit_finish(gale__fuse_emitter *e, gale__nest_store stores[2], int n_stores, gale__fused *out)
{
    gale__arena *a = &e->fusion->arena;
    gale__nest *nest = &out->nest;
    find_inner(e);
    GALE_TRY(copy_outer_operands(e, stores, n_stores));
    for (int i = 0; i < n_stores; i++) GALE_TRY(copy_spread_value(e, &stores[i]));
    order_dims(e, nest);
    nest->fast = e->fusion->options.fast;
    nest->steady = e->fusion->options.steady;
    nest->n_code = e->n_code;
    nest->code = gale__arena_copy(a, e->code, (size_t)e->n_code * sizeof *e->code);
    nest->n_accesses = e->n_accesses;
    nest->accesses = gale__nest_accesses_copy(a, e->accesses, e->n_accesses);
    nest->n_stores = n_stores;
    nest->stores = gale__arena_copy(a, stores, (size_t)n_stores * sizeof *stores);
    nest->n_buffers = e->n_buffers;
    nest->buffers = gale__arena_alloc(a, (size_t)e->n_buffers * sizeof *nest->buffers);
    out->buffers = gale__arena_copy(a, e->buffers, (size_t)e->n_buffers * sizeof *e->buffers);
    if (!nest->code || !nest->accesses || !nest->stores || !nest->buffers || !out->buffers) return GALE_NO_MEMORY;
    for (int i = 0; i < e->n_buffers; i++)
        nest->buffers[i] = (gale__nest_buffer){.elements = gale__fuse_root_elements(e->g, e->buffers[i]),
            .type = (gale_type)gale__prim_at(e->g, e->buffers[i])->type,
            .written = e->buffers[i] == e->root || e->buffers[i] == e->with,
            .ordinary = e->fusion->options.bytes && is_ordinary(e->g, e->buffers[i])};
    nest->last = false;
    for (int i = 0; i < e->n_buffers; i++) nest->last |= e->fusion->last[e->buffers[i]] != 0;
    gale__nest_settle(nest);
    gale__nest_loosen(nest);
    if (e->fusion->options.bytes) GALE_TRY(gale__nest_requantise(nest, a));
    gale__nest_mark_levels(nest);
    out->kind = GALE__FUSED_NEST;
    out->op = join_names(e);
    out->n_regions = e->n_regions;
    memcpy(out->regions, e->regions, sizeof out->regions);
    return out->op ? GALE_OK : GALE_NO_MEMORY;
}
