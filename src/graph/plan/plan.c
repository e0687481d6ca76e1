/* Creates a plan: fuses, assigns a location to every value, creates the kernels, and lists the steps in order. */
#include "graph/fuse/layout.h"
#include "graph/build/opgraph.h"
#include "graph/plan/planner.h"
#include "device/ceilings.h"
#include "graph/run/tensor.h"
#include <stdlib.h>
#include <string.h>

enum {
    UNPACKED = 1 << 30, /* a work place's index is an item until the items are packed */
    PARTS_TOLD = 8      /* of a joined kernel, by their nodes */
};

gale__plan_place gale__planner_place(const gale__planner *p, gale__node n)
{
    return p->place[gale__fuse_base(&p->fusion, n)];
}

static size_t node_bytes(const gale__prim_graph *g, gale__node n)
{
    return (size_t)gale__prim_elements(g, n) * gale_type_size((gale_type)gale__prim_at(g, n)->type);
}

gale_status gale__planner_step(gale__planner *p, gale__plan_step step, const gale__plan_place *refs, int n_refs)
{
    gale__plan *plan = p->plan;
    step.n_refs = n_refs;
    step.refs = gale__arena_copy(&plan->arena, refs, (size_t)n_refs * sizeof *refs);
    if (!step.refs) return GALE_NO_MEMORY;
    GALE_TRY(gale__grow((void **)&plan->steps, &plan->steps_capacity, (size_t)plan->n_steps + 1, sizeof *plan->steps));
    plan->steps[plan->n_steps++] = step;
    return GALE_OK;
}

static gale_status new_item(gale__planner *p, uint64_t size, int first, int last, gale__plan_place *out)
{
    GALE_TRY(gale__grow((void **)&p->items, &p->items_capacity, (size_t)p->n_items + 1, sizeof *p->items));
    *out = (gale__plan_place){GALE__SPACE_WORK, UNPACKED | p->n_items, 0};
    p->items[p->n_items++] =
        (gale__plan_item){.size = size ? size : 1, .first = first, .last = last, .slab = -1, .over = -1};
    return GALE_OK;
}

gale_status gale__planner_scratch(gale__planner *p, uint64_t size, gale__plan_place *out)
{
    return new_item(p, size, p->position, p->position, out);
}
gale_status gale__planner_scratch_early(gale__planner *p, uint64_t size, gale__plan_place *out)
{
    return new_item(p, size, 0, p->position, out);
}

gale_status gale__planner_weight(gale__plan *plan, gale__weight_wanted wanted)
{
    GALE_TRY(gale__grow(
        (void **)&plan->weights, &plan->weights_capacity, (size_t)plan->n_weights + 1, sizeof *plan->weights));
    plan->weights[plan->n_weights++] = wanted;
    return GALE_OK;
}

static gale_status add_constant(gale__plan *plan, const void *data, size_t size, gale__plan_place *place)
{
    GALE_TRY(gale__grow(
        (void **)&plan->constants, &plan->constants_capacity, (size_t)plan->n_constants + 1, sizeof *plan->constants));
    plan->constants[plan->n_constants].data = data;
    plan->constants[plan->n_constants].offset = plan->const_bytes;
    plan->constants[plan->n_constants++].size = size;
    *place = (gale__plan_place){GALE__SPACE_CONST, 0, plan->const_bytes};
    plan->const_bytes += (size + 255) / 256 * 256;
    return GALE_OK;
}

static gale_status place_constant(gale__planner *p, gale__node n)
{
    gale__plan *plan = p->plan;
    const gale__prim_node *c = gale__prim_at(&plan->g, n);
    size_t size = node_bytes(&plan->g, n);
    bool last = p->fusion.last[n];
    if (c->tensor) {
        p->place[n] = (gale__plan_place){GALE__SPACE_WEIGHT, plan->n_weights, 0};
        return gale__planner_weight(plan, (gale__weight_wanted){.tensor = c->tensor, .last = last});
    }
    const void *data = c->data;
    if (last) {
        void *channels_last = gale__arena_alloc(&plan->g.arena, size);
        if (!channels_last) return GALE_NO_MEMORY;
        gale__layout_to_last(c->dims, c->rank, gale_type_size(c->type), data, channels_last);
        data = channels_last;
    }
    GALE_TRY(add_constant(plan, data, size, &p->place[n]));
    return GALE_OK;
}

/* Decides where a value is stored. last: position of its last reader; kept: the prologue computes it and runs read
 * it. */
typedef struct use {
    int last;
    bool kept;
} use;

/* Assigns a place to the result of the kernel at p->position.  Temporaries of the prologue are working memory, like
 * those of runs. */
static gale_status place_root(gale__planner *p, gale__node n, const use *u)
{
    if (p->place[n].space != GALE__SPACE_NONE) return GALE_OK;
    if (u->kept) {
        p->place[n] = (gale__plan_place){GALE__SPACE_CONST, 0, p->plan->const_bytes};
        p->plan->const_bytes += (node_bytes(&p->plan->g, n) + 255) / 256 * 256;
        return GALE_OK;
    }
    return new_item(
        p, node_bytes(&p->plan->g, n), p->position, u->last > p->position ? u->last : p->position, &p->place[n]);
}

static void note_read(const gale__planner *p, gale__node n, int i, use *uses)
{
    const gale__prim_graph *g = p->fusion.g;
    if (p->clock[i] > uses[n].last) uses[n].last = p->clock[i];
    uses[n].kept |= gale__prim_at(g, n)->invariant && !gale__prim_at(g, p->fusion.kernels[i].root)->invariant;
}

/* What kernel i reads, and what it writes. */
static void note_reads(const gale__planner *p, int i, use *uses)
{
    const gale__fusion *f = &p->fusion;
    const gale__fused *k = &f->kernels[i];
    const gale__prim_node *n = gale__prim_at(f->g, k->root);
    if (k->kind == GALE__FUSED_NEST)
        for (int b = 0; b < k->nest.n_buffers; b++) note_read(p, k->buffers[b], i, uses);
    else
        for (int b = 0; b < n->n_in; b++) note_read(p, gale__fuse_base(f, n->in[b]), i, uses);
}

static gale_status set_clock(gale__planner *p)
{
    const gale__fusion *f = &p->fusion;
    int now = 0;
    p->clock = gale__arena_alloc(&p->plan->arena, ((size_t)f->n_kernels + 1) * sizeof *p->clock);
    p->order = gale__arena_alloc(&p->plan->arena, ((size_t)f->n_kernels + 1) * sizeof *p->order);
    if (!p->clock || !p->order) return GALE_NO_MEMORY;
    for (int once = 1; once >= 0; once--)
        for (int i = 0; i < f->n_kernels; i++)
            if (gale__prim_at(f->g, f->kernels[i].root)->invariant == once) {
                p->order[now] = i;
                p->clock[i] = now++;
            }
    return GALE_OK;
}

static void place_input(gale__planner *p, gale__node n)
{
    int32_t which = (int32_t)gale__prim_at(&p->plan->g, n)->attr[0];
    bool seed = which == GALE__SEED_INPUT;
    p->place[n] = (gale__plan_place){seed ? GALE__SPACE_SEED : GALE__SPACE_INPUT, seed ? 0 : which, 0};
    p->plan->seeded |= seed;
}

static gale_status place_all(gale__planner *p)
{
    gale__plan *plan = p->plan;
    const gale__prim_graph *g = &plan->g;
    const gale__fusion *f = &p->fusion;
    use *uses = gale__arena_alloc(&p->fusion.arena, ((size_t)g->count + 1) * sizeof *uses);
    if (!uses) return GALE_NO_MEMORY;
    GALE_TRY(set_clock(p));
    for (int i = 0; i < f->n_kernels; i++) note_reads(p, i, uses);
    for (int i = plan->n_outputs - 1; i >= 0; i--) {
        gale__node base = gale__fuse_base(f, plan->outputs[i]);
        uses[base].kept |= gale__prim_at(g, base)->invariant;
        if (f->root[base] && !gale__prim_at(g, base)->invariant)
            p->place[base] = (gale__plan_place){GALE__SPACE_OUTPUT, i, 0};
    }
    for (gale__node n = 0; n < g->count; n++) {
        const gale__prim_node *x = gale__prim_at(g, n);
        if (!f->live[n] || f->root[n]) continue;
        if (x->op == GALE__PRIM_INPUT) place_input(p, n);
        if (x->op == GALE__PRIM_CONST && !x->splat) GALE_TRY(place_constant(p, n));
    }
    for (int i = 0; i < f->n_kernels; i++) {
        gale__node n = f->kernels[i].root;
        p->position = p->clock[i];
        if (f->kernels[i].kind != GALE__FUSED_LOOP) {
            gale__node also = f->kernels[i].also;
            GALE_TRY(place_root(p, n, &uses[n]));
            if (also >= 0) GALE_TRY(place_root(p, also, &uses[also]));
            continue;
        }
        for (gale__node o = n + 1; o < g->count; o++)
            if (f->live[o] && gale__prim_at(g, o)->op == GALE__PRIM_LOOP_OUT && gale__prim_at(g, o)->in[0] == n)
                GALE_TRY(place_root(p, o, &uses[o]));
    }
    return GALE_OK;
}

static const gale__fused *kernel_at(const gale__planner *p, int at) { return &p->fusion.kernels[p->order[at]]; }

/* The data of a small constant; NULL: the place does not hold one. */
static const void *constant_at(const gale__plan *plan, gale__plan_place place)
{
    for (int i = 0; place.space == GALE__SPACE_CONST && i < plan->n_constants; i++)
        if (plan->constants[i].offset == place.offset) return plan->constants[i].data;
    return NULL;
}

/* Weights and constants may be rearranged for the kernels that read them, but not for the prologue, which runs only
 * once. */
static void mark_constants(const gale__planner *p, gale__fused *k)
{
    for (int i = 0; i < k->nest.n_buffers && !gale__prim_at(p->fusion.g, k->root)->invariant; i++) {
        gale__plan_place place = gale__planner_place(p, k->buffers[i]);
        k->nest.buffers[i].constant = place.space == GALE__SPACE_WEIGHT || constant_at(p->plan, place);
        k->nest.buffers[i].settled = place.space == GALE__SPACE_WEIGHT || place.space == GALE__SPACE_CONST;
    }
}

static gale_status list_wants(gale__planner *p, gale__kernel_wants *out)
{
    for (const gale__fused *k = p->fusion.kernels; k < p->fusion.kernels + p->fusion.n_kernels; k++) {
        if (k->kind == GALE__FUSED_ROUTINE) GALE_TRY(gale__planner_routine_wants(p, k, out));
        else if (k->kind != GALE__FUSED_NEST && k->kind != GALE__FUSED_LOOP)
            GALE_TRY(gale__planner_special_wants(p, k, out));
    }
    return GALE_OK;
}

/* Nests whose steps come one after the other, in the prologue both or in runs both, may become one kernel. */
static gale_status make_runnables(gale__planner *p)
{
    gale__plan *plan = p->plan;
    const gale__fusion *f = &p->fusion;
    int n = 0;
    for (int i = 0; i < f->n_kernels; i++) {
        if (f->kernels[i].kind != GALE__FUSED_NEST) continue;
        n++;
        mark_constants(p, &f->kernels[i]);
    }
    p->nests = gale__arena_alloc(&plan->arena, ((size_t)n + 1) * sizeof *p->nests);
    bool *follows = gale__arena_alloc(&plan->arena, ((size_t)n + 1) * sizeof *follows);
    plan->runnables = gale__arena_alloc(
        &plan->arena, ((size_t)f->n_kernels + 1) * sizeof *plan->runnables); /* specials come after the nests */
    if (!p->nests || !follows || !plan->runnables) return GALE_NO_MEMORY;
    n = 0;
    for (int at = 0; at < f->n_kernels; at++) {
        const gale__fused *k = kernel_at(p, at), *last = kernel_at(p, at > 0 ? at - 1 : 0);
        if (k->kind != GALE__FUSED_NEST) continue;
        follows[n] = at > 0 && last->kind == GALE__FUSED_NEST &&
                     gale__prim_at(f->g, last->root)->invariant == gale__prim_at(f->g, k->root)->invariant;
        p->nests[n++] = &k->nest;
    }
    gale__kernel_wants wants = {.device = plan->device};
    gale_status status = list_wants(p, &wants);
    if (status == GALE_OK)
        status = gale__runnables_make(
            plan->device, &plan->arena, p->nests, f->options.no_fusion ? NULL : follows, n, &wants, plan->runnables);
    gale__kernel_wants_finish(&wants);
    if (status == GALE_OK) plan->n_runnables = n;
    return status;
}

/* "ReduceMean x 3, Mul+Add": of kernels that became one. */
static const char *name_chain(gale__planner *p, int at, int parts)
{
    gale__str text = {0};
    for (int i = 0, same; i < parts; i += same) {
        const char *op = kernel_at(p, at + i)->op;
        for (same = 1; i + same < parts && !strcmp(kernel_at(p, at + i + same)->op, op);) same++;
        gale__str_addf(&text, same > 1 ? "%s%s x %d" : "%s%s", i ? ", " : "", op, same);
    }
    const char *name =
        gale__str_check(&text) == GALE_OK ? gale__arena_strdup(&p->plan->arena, gale__str_text(&text)) : NULL;
    gale__str_finish(&text);
    return name;
}

/* Where a region of the graph comes from: "Softmax (node 12)".  Each kernel of each plan has it, and printf would take
 * a tenth of the planning. */
static void add_place(gale__str *text, const gale__prim_region *r)
{
    char digits[24], *first = digits + sizeof digits - 1;
    gale__str_add(text, r->op && r->op->where ? r->op->where : r->name);
    if (!r->op || r->op->where) return;
    *first = 0;
    for (uint64_t n = r->op->number; n || !*first; n /= 10) *--first = (char)('0' + n % 10);
    gale__str_add(text, " (node ");
    gale__str_add(text, first);
    gale__str_add(text, ")");
}

const char *gale__planner_nodes(gale__planner *p, const gale__fused *const *kernels, int n)
{
    enum { MOST = 12 };
    int32_t told[MOST];
    int count = 0;
    gale__str text = {0};
    for (int i = 0; i < n; i++)
        for (int k = kernels[i]->n_regions - 1; k >= 0 && count < MOST; k--) {
            int at = 0;
            while (at < count && told[at] != kernels[i]->regions[k]) at++;
            if (at < count) continue;
            if (count) gale__str_add(&text, ", ");
            add_place(&text, &p->plan->g.regions[told[count++] = kernels[i]->regions[k]]);
        }
    const char *out =
        gale__str_check(&text) == GALE_OK ? gale__arena_strdup(&p->plan->arena, gale__str_text(&text)) : NULL;
    gale__str_finish(&text);
    return out;
}

/* The panels of a small constant are a further constant of this plan. */
static gale_status take_small_panels(
    gale__plan *plan, const gale__panels *panels, const void *from, gale__plan_place *place)
{
    void *made = gale__arena_alloc(&plan->g.arena, panels->bytes);
    if (!made) return GALE_NO_MEMORY;
    gale__panels_make(panels, (void *)(uintptr_t)from, made);
    return add_constant(plan, made, panels->bytes, place);
}

/* A product reads a weight as packed panels, which are made once and shared with plans for other shapes. */
static gale_status take_panels(gale__planner *p, const gale__runnable *r, gale__plan_place *refs)
{
    gale__plan *plan = p->plan;
    gale__panels panels = gale__runnable_panels(r);
    if (!panels.bytes) return GALE_OK;
    const void *small = constant_at(plan, refs[panels.buffer]);
    if (small) return take_small_panels(plan, &panels, small, &refs[panels.buffer]);
    const gale_tensor *tensor = plan->weights[refs[panels.buffer].index].tensor;
    refs[panels.buffer] = (gale__plan_place){GALE__SPACE_WEIGHT, plan->n_weights, 0};
    return gale__planner_weight(plan, (gale__weight_wanted){.tensor = tensor, .panels = panels});
}

static gale__plan_item *item_at(const gale__planner *p, const gale__plan_place *place)
{
    return place->space == GALE__SPACE_WORK && !place->offset ? &p->items[place->index & ~UNPACKED] : NULL;
}

/* A result takes the place of a value that this kernel is the last to read, if it reads each element only for the same
 * one of the result: of a residual connection, one value then passes through the caches instead of two. */
static void choose_place(gale__planner *p, const gale__runnable *r, const gale__plan_step *step,
    const gale__plan_place *refs, int n, int written)
{
    gale__plan_item *to = item_at(p, &refs[written]);
    if (r->parts > 1 || !to || to->first != p->position || to->over >= 0) return;
    for (int b = 0; b < n; b++) {
        const gale__plan_item *from = item_at(p, &refs[b]);
        bool aligned = from && from != to && from->last == p->position && from->size == to->size;
        for (int i = 0; i < n && aligned; i++)
            aligned = item_at(p, &refs[i]) != from || (step->aligned >> i & 1 && gale__runnable_in_place(r, i));
        if (!aligned) continue;
        to->over = (int32_t)(from - p->items);
        return;
    }
}

/* One step for a nest and those joined to it. */
static gale_status plan_nest(gale__planner *p, int at)
{
    const gale__fused *k = kernel_at(p, at);
    const gale__runnable *r = &p->plan->runnables[p->next_runnable++];
    gale__plan_place refs[GALE__NEST_BUFFERS_MAX];
    uint8_t writer[GALE__NEST_BUFFERS_MAX];
    int n = 0;
    if (!r->parts) return GALE_OK;
    gale__plan_step step = {.kind = GALE__STEP_LAUNCH,
        .once = gale__prim_at(&p->plan->g, k->root)->invariant,
        .kernel = r->kernel,
        .words = r->words,
        .n_words = r->n_words,
        .maps = r->maps,
        .n_maps = r->n_maps};
    memcpy(step.groups, r->groups, sizeof step.groups);
    step.tag.name = r->name;
    step.tag.op = r->parts > 1 ? name_chain(p, at, r->parts) : gale__arena_strdup(&p->plan->arena, k->op);
    const gale__fused *parts[PARTS_TOLD];
    for (int i = 0; i < r->parts && i < PARTS_TOLD; i++) parts[i] = kernel_at(p, at + i);
    step.tag.nodes = gale__planner_nodes(p, parts, r->parts < PARTS_TOLD ? r->parts : PARTS_TOLD);
    if (!step.tag.op || !step.tag.nodes) return GALE_NO_MEMORY;
    for (int part = 0; part < r->parts; part++) {
        double bytes, operations;
        k = kernel_at(p, at + part);
        gale__planner_note_reads(&k->nest, n, writer, &step.aligned);
        for (int i = 0; i < k->nest.n_buffers; i++) refs[n++] = gale__planner_place(p, k->buffers[i]);
        gale__nest_cost(&k->nest, &bytes, &operations);
        step.tag.bytes += bytes, step.tag.operations += operations;
        double terms = k->nest.n_inner > 0;
        for (int i = 0; i < k->nest.n_inner; i++) terms *= (double)k->nest.extent[k->nest.n_outer + i];
        step.depth += terms;
    }
    choose_place(p, r, &step, refs, n, writer[0]);
    GALE_TRY(take_panels(p, r, refs));
    if (!(step.writer = gale__arena_copy(&p->plan->arena, writer, (size_t)n))) return GALE_NO_MEMORY;
    return gale__planner_step(p, step, refs, n);
}

/* Outputs that are inputs, constants, or an output given twice: copied at the end. */
static gale_status copy_outputs(gale__planner *p)
{
    for (int i = 0; i < p->plan->n_outputs; i++) {
        gale__plan_place from = gale__planner_place(p, p->plan->outputs[i]);
        uint64_t size = node_bytes(&p->plan->g, p->plan->outputs[i]);
        if ((from.space == GALE__SPACE_OUTPUT && from.index == i) || size == 0) continue;
        gale__plan_place refs[2] = {{GALE__SPACE_OUTPUT, i, 0}, from};
        gale__plan_step step = {.kind = GALE__STEP_COPY,
            .size = size,
            .tag = {.name = "copy", .op = "Identity", .bytes = 2.0 * (double)size}};
        GALE_TRY(gale__planner_step(p, step, refs, 2));
    }
    return GALE_OK;
}

static gale_status make_steps(gale__planner *p)
{
    for (int at = 0; at < p->fusion.n_kernels; at++) {
        const gale__fused *k = kernel_at(p, at);
        p->position = at;
        switch (k->kind) {
        case GALE__FUSED_NEST: GALE_TRY(plan_nest(p, at)); break;
        case GALE__FUSED_LOOP: GALE_TRY(gale__planner_loop(p, k)); break;
        case GALE__FUSED_ROUTINE: GALE_TRY(gale__planner_routine(p, k)); break;
        default: GALE_TRY(gale__planner_special(p, k)); break;
        }
    }
    return copy_outputs(p);
}

static int by_first(const void *a, const void *b)
{
    const gale__plan_item *const *x = a, *const *y = b;
    return (*x)->first != (*y)->first ? (*x)->first - (*y)->first : (*x < *y ? -1 : *x > *y);
}

/* Scratch items were added after the values: pack in order of first use, then write the places down. */
static gale_status pack(gale__planner *p)
{
    gale__plan *plan = p->plan;
    gale__plan_item **order = gale__arena_alloc(&plan->arena, ((size_t)p->n_items + 1) * sizeof *order);
    if (!order) return GALE_NO_MEMORY;
    bool ordered = true;
    for (int i = 0; i < p->n_items; i++) {
        order[i] = &p->items[i];
        ordered &= i == 0 || p->items[i - 1].first <= p->items[i].first;
    }
    if (!ordered) qsort(order, (size_t)p->n_items, sizeof *order, by_first);
    GALE_TRY(gale__plan_memory_pack(
        p->items, order, p->n_items, plan->device->info.caps.alloc_max_bytes, &plan->slabs, &plan->n_slabs));
    for (int i = 0; i < plan->n_steps; i++)
        for (int k = 0; k < plan->steps[i].n_refs; k++) {
            gale__plan_place *place = &plan->steps[i].refs[k];
            if (place->space != GALE__SPACE_WORK) continue;
            const gale__plan_item *item = &p->items[place->index & ~UNPACKED];
            place->index = item->slab;
            place->offset += item->offset;
        }
    return GALE_OK;
}

void gale__plan_weights_read(const gale__plan *plan, bool prologue, bool *read)
{
    for (int i = 0; i < plan->n_steps; i++)
        for (int k = 0; k < plan->steps[i].n_refs && (prologue || !plan->steps[i].once); k++)
            if (plan->steps[i].refs[k].space == GALE__SPACE_WEIGHT) read[plan->steps[i].refs[k].index] = true;
}

/* Weights that no step reads, since all take them as panels, are not wanted; the others are counted. */
static gale_status count_weights(gale__plan *plan)
{
    bool *read = gale__arena_alloc(&plan->arena, ((size_t)plan->n_weights + 1) * sizeof *read);
    if (!read) return GALE_NO_MEMORY;
    gale__plan_weights_read(plan, true, read);
    for (int i = 0; i < plan->n_weights; i++) {
        gale__weight_wanted *w = &plan->weights[i];
        if (!read[i]) w->tensor = NULL;
        if (w->tensor) plan->weight_bytes += w->panels.bytes ? w->panels.bytes : w->tensor->size_bytes;
    }
    return GALE_OK;
}

static void predict(gale__plan *plan)
{
    const gale_device_ceilings *c = &plan->device->info.ceilings;
    for (int i = 0; i < plan->n_steps; i++) {
        const gale__plan_step *s = &plan->steps[i];
        if (s->once) continue;
        plan->kernels += s->kind != GALE__STEP_COPY;
        plan->bytes += s->tag.bytes;
        plan->operations += s->tag.operations;
        plan->predicted_us += gale__ceiling_us(c, s->tag.bytes, s->tag.operations);
    }
}

static gale_status note_results(gale__plan *plan)
{
    plan->results = gale__arena_alloc(&plan->arena, ((size_t)plan->n_outputs + 1) * sizeof *plan->results);
    if (!plan->results) return GALE_NO_MEMORY;
    for (int i = 0; i < plan->n_outputs; i++) {
        const gale__prim_node *n = gale__prim_at(&plan->g, plan->outputs[i]);
        gale__plan_result *r = &plan->results[i];
        *r = (gale__plan_result){
            .type = (gale_type)n->type, .rank = n->rank, .size_bytes = node_bytes(&plan->g, plan->outputs[i])};
        memcpy(r->dims, n->dims, sizeof r->dims);
    }
    return GALE_OK;
}

static gale_status make(gale__planner *p, const gale__fusion_options *options)
{
    gale__plan *plan = p->plan;
    GALE_TRY(note_results(plan));
    GALE_TRY(gale__fuse(&plan->g, plan->outputs, plan->n_outputs, options, &p->fusion));
    size_t n = (size_t)plan->g.count + 1;
    p->place = gale__arena_alloc(&plan->arena, n * sizeof *p->place);
    if (!p->place) return GALE_NO_MEMORY;
    GALE_TRY(place_all(p));
    GALE_TRY(make_runnables(p));
    GALE_TRY(make_steps(p));
    GALE_TRY(pack(p));
    GALE_TRY(count_weights(plan));
    predict(plan);
    return GALE_OK;
}

gale_status gale__plan_make(gale_device *device, gale__prim_graph *g, const gale__node *outputs, int n_outputs,
    const gale__fusion_options *options, gale__plan **out)
{
    gale__plan *plan = gale__calloc(1, sizeof *plan);
    if (!plan) return GALE_NO_MEMORY;
    plan->g = *g;
    memset(g, 0, sizeof *g);
    plan->device = device;
    plan->n_outputs = n_outputs;
    gale__planner p = {.plan = plan};
    gale_status status = GALE_NO_MEMORY;
    plan->outputs = gale__arena_copy(&plan->arena, outputs, (size_t)n_outputs * sizeof *outputs);
    if (plan->outputs) status = make(&p, options);
    gale__fusion_finish(&p.fusion);
    gale__free(p.items);
    if (status != GALE_OK) return gale__plan_destroy(&plan), status;
    *out = plan;
    return GALE_OK;
}

void gale__plan_settle(gale__plan *p)
{
    for (int i = 0; i < p->n_bodies; i++) gale__plan_settle(p->bodies[i]);
    gale__free(p->constants);
    p->constants = NULL;
    p->n_constants = 0;
    gale__prim_finish(&p->g);
}

void gale__plan_destroy(gale__plan **plan)
{
    if (!*plan) return;
    gale__plan *p = *plan;
    *plan = NULL;
    for (int i = 0; i < p->n_runnables; i++) gale__runnable_finish(&p->runnables[i]);
    for (int i = 0; i < p->n_calls; i++) gale__call_destroy(&p->calls[i]);
    for (int i = 0; i < p->n_bodies; i++) gale__plan_destroy(&p->bodies[i]);
    gale__free(p->calls);
    gale__free(p->bodies);
    gale__free(p->steps);
    gale__free(p->slabs);
    gale__free(p->constants);
    gale__free(p->weights);
    gale__prim_finish(&p->g);
    gale__arena_finish(&p->arena);
    gale__free(p);
}
