/* The steps of SORT, SCAN and PUT: a host function on the CPU, dedicated kernels elsewhere. */
#include "graph/plan/planner.h"
#include "kernel/cpu/cpu_special.h"
#include "kernel/schedule/special.h"
#include <string.h>

typedef struct special {
    uint8_t op;
    gale_type type;
    int mode;                       /* SORT: descending; SCAN: gale__reduce; PUT: -1 or gale__reduce */
    int64_t outer, n, inner, count; /* SORT: count: of places that are read */
} special;

static void *pointer(const gale__launch *l, int i)
{
    return (char *)(uintptr_t)l->refs[i].mem->address + l->refs[i].offset;
}

static void run_on_host(void *user, const gale__launch *l)
{
    const special *s = user;
    switch (s->op) {
    case GALE__PRIM_SORT:
        gale__cpu_sort(s->type, pointer(l, 1), pointer(l, 0), pointer(l, 2), s->outer, s->n, s->count, s->mode != 0);
        break;
    case GALE__PRIM_SCAN:
        gale__cpu_scan(s->type, (gale__reduce)s->mode, pointer(l, 1), pointer(l, 0), s->outer, s->n, s->inner);
        break;
    default: gale__cpu_put(s->type, s->mode, pointer(l, 0), s->n, pointer(l, 1), pointer(l, 2), s->count); break;
    }
}

static special describe(const gale__prim_graph *g, const gale__prim_node *n)
{
    const gale__prim_node *x = gale__prim_at(g, n->in[0]);
    special s = {.op = n->op, .type = (gale_type)x->type, .mode = (int)n->attr[0], .outer = 1, .n = 1, .inner = 1};
    int axis = n->op == GALE__PRIM_SCAN ? (int)n->attr[1] : x->rank - 1;
    if (n->op == GALE__PRIM_PUT) {
        s.n = gale__prim_elements(g, n->in[0]);
        s.count = gale__prim_elements(g, n->in[1]);
        return s;
    }
    if (n->op == GALE__PRIM_SORT) s.count = n->attr[1];
    for (int a = 0; a < x->rank; a++) *(a < axis ? &s.outer : a == axis ? &s.n : &s.inner) *= x->dims[a];
    return s;
}

static double value_bytes(const gale__prim_graph *g, gale__node n)
{
    return (double)gale__prim_elements(g, n) * (double)gale_type_size((gale_type)gale__prim_at(g, n)->type);
}

static gale__tag tag_of(gale__planner *p, const gale__fused *k, const gale__prim_node *n)
{
    static const char *const names[] = {
        [GALE__PRIM_SORT] = "sort", [GALE__PRIM_SCAN] = "scan", [GALE__PRIM_PUT] = "put"};
    gale__tag tag = {
        .name = names[n->op], .op = gale__arena_strdup(&p->plan->arena, k->op), .nodes = gale__planner_nodes(p, &k, 1)};
    tag.bytes = value_bytes(&p->plan->g, k->root);
    for (int i = 0; i < n->n_in; i++) tag.bytes += value_bytes(&p->plan->g, n->in[i]);
    tag.operations = (double)gale__prim_elements(&p->plan->g, k->root);
    return tag;
}

/* The step of one host function over the places given. */
static gale_status host_step(
    gale__planner *p, const special *s, const gale__tag *tag, bool once, const gale__plan_place *refs, int n)
{
    gale__plan *plan = p->plan;
    gale__runnable *r = &plan->runnables[plan->n_runnables];
    GALE_TRY(gale__runnable_host(plan->device, run_on_host, s, sizeof *s, tag->name, r));
    plan->n_runnables++;
    gale__plan_step step = {
        .kind = GALE__STEP_LAUNCH, .once = once, .kernel = r->kernel, .groups = {1, 1, 1}, .tag = *tag};
    return gale__planner_step(p, step, refs, n);
}

static gale_status copy_step(gale__planner *p, gale__plan_place to, gale__plan_place from, uint64_t size, bool once)
{
    gale__plan_place refs[2] = {to, from};
    gale__plan_step step = {.kind = GALE__STEP_COPY,
        .once = once,
        .size = size,
        .tag = {.name = "copy", .op = "Scatter", .bytes = 2.0 * (double)size}};
    return size ? gale__planner_step(p, step, refs, 2) : GALE_OK;
}

static gale_status plan_on_host(
    gale__planner *p, const gale__fused *k, const gale__prim_node *n, const special *s, const gale__tag *tag)
{
    gale__plan_place refs[3] = {gale__planner_place(p, k->root), gale__planner_place(p, n->in[0])};
    if (n->op == GALE__PRIM_SCAN) return host_step(p, s, tag, n->invariant, refs, 2);
    if (n->op == GALE__PRIM_SORT) {
        GALE_TRY(gale__planner_scratch(
            p, (uint64_t)s->n * GALE__CPU_SORT_SCRATCH * sizeof(int64_t) * (uint64_t)gale__parallel_width(), &refs[2]));
        return host_step(p, s, tag, n->invariant, refs, 3);
    }
    GALE_TRY(copy_step(p, refs[0], refs[1], (uint64_t)value_bytes(&p->plan->g, n->in[0]), n->invariant));
    if (s->count == 0) return GALE_OK;
    refs[1] = gale__planner_place(p, n->in[1]);
    refs[2] = gale__planner_place(p, n->in[2]);
    return host_step(p, s, tag, n->invariant, refs, 3);
}

static gale_status make_job(const gale__planner *p, const special *s, gale__special_job *job)
{
    const gale_device_caps *caps = &p->plan->device->info.caps;
    if (s->op == GALE__PRIM_SORT) return gale__special_sort(job, caps, s->type, s->outer, s->n, s->mode != 0);
    if (s->op == GALE__PRIM_SCAN)
        return gale__special_scan(job, caps, s->type, (gale__reduce)s->mode, s->outer, s->n, s->inner);
    return gale__special_put(job, caps, s->type, s->mode, s->n, s->count);
}

gale_status gale__planner_special_wants(gale__planner *p, const gale__fused *k, gale__kernel_wants *out)
{
    const gale__prim_node *n = gale__prim_at(&p->plan->g, k->root);
    special s = describe(&p->plan->g, n);
    gale__special_job job;
    if (p->plan->device->info.caps.host_functions || (n->op == GALE__PRIM_PUT && s.count == 0)) return GALE_OK;
    GALE_TRY(make_job(p, &s, &job));
    for (int i = 0; i < job.n_launches; i++) {
        gale__special_launch launch;
        gale__ir ir;
        gale__special_launch_get(&job, i, &launch);
        if (!gale__kernel_is_new(out, launch.key)) continue;
        GALE_TRY(gale__special_build(&launch, &ir));
        GALE_TRY(gale__kernel_want(out, &ir));
    }
    return GALE_OK;
}

/* buffers: by GALE__SPECIAL_RESULT, INPUT, INDEX, SCRATCH. */
static gale_status device_step(gale__planner *p, const gale__special_launch *launch, const gale__plan_place *buffers,
    const gale__tag *tag, bool once)
{
    gale__plan_place refs[5];
    gale__plan_step step = {.kind = GALE__STEP_LAUNCH,
        .once = once,
        .n_words = launch->n_words,
        .tag = *tag,
        .kernel = gale__kernel_known(p->plan->device, launch->key)};
    step.words = gale__arena_copy(&p->plan->arena, launch->words, (size_t)launch->n_words * sizeof *launch->words);
    if (!step.words) return GALE_NO_MEMORY;
    memcpy(step.groups, launch->groups, sizeof step.groups);
    for (int i = 0; i < launch->n_refs; i++) {
        refs[i] = buffers[launch->refs[i].buffer];
        refs[i].offset += launch->refs[i].offset;
    }
    return gale__planner_step(p, step, refs, launch->n_refs);
}

static gale_status plan_on_device(
    gale__planner *p, const gale__fused *k, const gale__prim_node *n, const special *s, const gale__tag *tag)
{
    gale__special_job job;
    gale__plan_place buffers[4] = {[GALE__SPECIAL_RESULT] = gale__planner_place(p, k->root),
        [GALE__SPECIAL_INPUT] = gale__planner_place(p, n->in[0])};
    if (n->op == GALE__PRIM_PUT) {
        GALE_TRY(copy_step(p, buffers[GALE__SPECIAL_RESULT], buffers[GALE__SPECIAL_INPUT],
            (uint64_t)value_bytes(&p->plan->g, n->in[0]), n->invariant));
        if (s->count == 0) return GALE_OK;
        buffers[GALE__SPECIAL_INDEX] = gale__planner_place(p, n->in[1]);
        buffers[GALE__SPECIAL_INPUT] = gale__planner_place(p, n->in[2]);
    }
    GALE_TRY(make_job(p, s, &job));
    if (job.scratch_bytes) GALE_TRY(gale__planner_scratch(p, job.scratch_bytes, &buffers[GALE__SPECIAL_SCRATCH]));
    gale__tag part = *tag;
    part.bytes /= job.n_launches ? job.n_launches : 1;
    part.operations /= job.n_launches ? job.n_launches : 1;
    for (int i = 0; i < job.n_launches; i++) {
        gale__special_launch launch;
        gale__special_launch_get(&job, i, &launch);
        GALE_TRY(device_step(p, &launch, buffers, &part, n->invariant));
    }
    return GALE_OK;
}

gale_status gale__planner_special(gale__planner *p, const gale__fused *k)
{
    const gale__prim_node *n = gale__prim_at(&p->plan->g, k->root);
    special s = describe(&p->plan->g, n);
    gale__tag tag = tag_of(p, k, n);
    if (!tag.op || !tag.nodes) return GALE_NO_MEMORY;
    bool host = p->plan->device->info.caps.host_functions;
    return (host ? plan_on_host : plan_on_device)(p, k, n, &s, &tag);
}
