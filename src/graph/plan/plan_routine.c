/* The steps of a region that a fast path claimed, by the kind of its routine. */
#include "graph/plan/paths.h"
#include "graph/plan/planner.h"
#include <string.h>

/* A routine on its way into the plan.  places: the result, the operands, then the extra memory where there is any. */
typedef struct claimed {
    gale__planner *planner;
    const gale__fast_path *path;
    int64_t args[GALE__FAST_PATH_ARGS];
    gale__plan_place places[GALE__FAST_PATH_OPERANDS + 2];
    int n_buffers; /* without the extra memory */
    uint64_t scratch_bytes;
    gale__plan_step step; /* what all steps of it have in common */
} claimed;

/* --- Host functions. --- */

typedef struct host_routine {
    gale__cpu_routine *run;
    size_t scratch_bytes;
    int n_buffers;
    int64_t args[GALE__FAST_PATH_ARGS];
} host_routine;

static void run_on_host(void *user, const gale__launch *l)
{
    const host_routine *r = user;
    void *pointers[GALE__FAST_PATH_OPERANDS + 2];
    for (int i = 0; i < l->n_refs; i++) pointers[i] = (char *)(uintptr_t)l->refs[i].mem->address + l->refs[i].offset;
    r->run(r->args, pointers,
        (gale__cpu_scratch_space){r->scratch_bytes ? pointers[r->n_buffers] : NULL, r->scratch_bytes});
}

static gale_status plan_host(claimed *c)
{
    gale__plan *plan = c->planner->plan;
    gale__runnable *run = &plan->runnables[plan->n_runnables];
    host_routine r = {.run = c->path->run.host, .scratch_bytes = (size_t)c->scratch_bytes, .n_buffers = c->n_buffers};
    memcpy(r.args, c->args, sizeof r.args);
    if (r.scratch_bytes)
        GALE_TRY(gale__planner_scratch(
            c->planner, c->scratch_bytes * (uint64_t)gale__parallel_width(), &c->places[c->n_buffers]));
    GALE_TRY(gale__runnable_host(plan->device, run_on_host, &r, sizeof r, c->path->routine, run));
    plan->n_runnables++;
    c->step.kernel = run->kernel;
    return gale__planner_step(c->planner, c->step, c->places, c->n_buffers + (r.scratch_bytes > 0));
}

/* --- Kernels. --- */

static void take_args(const gale__prim_node *n, int64_t args[GALE__FAST_PATH_ARGS])
{
    memcpy(args, n->attr + GALE__ROUTINE_ARGS, (size_t)(n->n_attr - GALE__ROUTINE_ARGS) * sizeof *args);
}

gale_status gale__planner_routine_wants(gale__planner *p, const gale__fused *k, gale__kernel_wants *out)
{
    const gale__prim_node *n = gale__prim_at(&p->plan->g, k->root);
    const gale__kernel_routine *routine = gale__fast_paths_at((int)n->attr[GALE__ROUTINE_ROW])->run.kernels;
    const gale_device_caps *caps = &p->plan->device->info.caps;
    int64_t args[GALE__FAST_PATH_ARGS] = {0};
    gale__routine_launch launch;
    take_args(n, args);
    for (int i = 0; routine && routine->describe(args, caps, i, &launch); i++) {
        gale__ir ir;
        if (!gale__kernel_is_new(out, launch.key)) continue;
        gale__ir_init(&ir, launch.key);
        ir.n_pointers = launch.n_refs;
        ir.n_words = launch.n_words;
        routine->build(args, caps, i, &ir);
        GALE_TRY(gale__kernel_want(out, &ir));
    }
    return GALE_OK;
}

static gale_status plan_launch(claimed *c, int i, const gale__routine_launch *launch)
{
    gale__plan_place refs[GALE__ROUTINE_REFS];
    gale__plan_step step = c->step;
    step.routine = i == 0; /* a report counts it once */
    step.kernel = gale__kernel_known(c->planner->plan->device, launch->key);
    step.n_words = launch->n_words;
    step.words =
        gale__arena_copy(&c->planner->plan->arena, launch->words, (size_t)launch->n_words * sizeof *launch->words);
    if (!step.words) return GALE_NO_MEMORY;
    if (launch->unit &&
        !(step.tag.name = gale__arena_printf(&c->planner->plan->arena, "%s (%s)", step.tag.name, launch->unit)))
        return GALE_NO_MEMORY;
    memcpy(step.groups, launch->groups, sizeof step.groups);
    for (int k = 0; k < launch->n_refs; k++)
        refs[k] = c->places[launch->refs[k] == GALE__ROUTINE_SPACE ? c->n_buffers : launch->refs[k]];
    return gale__planner_step(c->planner, step, refs, launch->n_refs);
}

static gale_status plan_kernels(claimed *c)
{
    const gale_device_caps *caps = &c->planner->plan->device->info.caps;
    const gale__kernel_routine *routine = c->path->run.kernels;
    gale__routine_launch launch;
    int n = 0;
    while (routine->describe(c->args, caps, n, &launch)) n++;
    c->step.tag.bytes /= n, c->step.tag.operations /= n;
    if (c->scratch_bytes) GALE_TRY(gale__planner_scratch(c->planner, c->scratch_bytes, &c->places[c->n_buffers]));
    for (int i = 0; i < n; i++) {
        routine->describe(c->args, caps, i, &launch);
        GALE_TRY(plan_launch(c, i, &launch));
    }
    return GALE_OK;
}

/* --- Library calls. --- */

static gale_status plan_call(claimed *c)
{
    gale__plan *plan = c->planner->plan;
    gale__call *call = NULL;
    GALE_TRY(gale__grow((void **)&plan->calls, &plan->calls_capacity, (size_t)plan->n_calls + 1, sizeof *plan->calls));
    GALE_TRY(c->path->run.call(plan->device, c->args, &call));
    plan->calls[plan->n_calls++] = call;
    if (call->workspace_bytes)
        GALE_TRY(gale__planner_scratch(c->planner, call->workspace_bytes, &c->places[c->n_buffers]));
    c->step.kind = GALE__STEP_CALL;
    c->step.call = call;
    return gale__planner_step(c->planner, c->step, c->places, c->n_buffers + (call->workspace_bytes > 0));
}

/* --- Any. --- */

static double bytes_of(const gale__prim_graph *g, gale__node n)
{
    return (double)gale__prim_elements(g, n) * (double)gale_type_size((gale_type)gale__prim_at(g, n)->type);
}

gale_status gale__planner_routine(gale__planner *p, const gale__fused *k)
{
    gale__plan *plan = p->plan;
    const gale__prim_node *n = gale__prim_at(&plan->g, k->root);
    claimed c = {.planner = p,
        .path = gale__fast_paths_at((int)n->attr[GALE__ROUTINE_ROW]),
        .places = {gale__planner_place(p, k->root)},
        .n_buffers = 1 + n->n_in,
        .scratch_bytes = (uint64_t)n->attr[GALE__ROUTINE_SCRATCH],
        .step = {.kind = GALE__STEP_LAUNCH, .routine = true, .once = n->invariant, .groups = {1, 1, 1}}};
    c.step.tag = (gale__tag){.name = c.path->routine, .bytes = bytes_of(&plan->g, k->root)};
    for (int i = 0; i < n->n_in; i++) {
        bool again = false; /* parts of one value are read once */
        for (int before = 0; before < i; before++) again = again || n->in[before] == n->in[i];
        c.places[1 + i] = gale__planner_place(p, n->in[i]);
        if (!again) c.step.tag.bytes += bytes_of(&plan->g, n->in[i]);
    }
    take_args(n, c.args);
    double ns[2];
    if (gale__fast_paths_layouts(n, ns)) c.args[0] = k->layouts;
    memcpy(&c.step.tag.operations, &n->attr[GALE__ROUTINE_OPERATIONS], sizeof c.step.tag.operations);
    c.step.trips = (double)n->attr[GALE__ROUTINE_TRIPS];
    c.step.tag.op = gale__arena_strdup(&plan->arena, k->op);
    c.step.tag.nodes = gale__planner_nodes(p, &k, 1);
    if (!c.step.tag.op || !c.step.tag.nodes) return GALE_NO_MEMORY;
    if (c.path->run.call) return plan_call(&c);
    return c.path->run.host ? plan_host(&c) : plan_kernels(&c);
}
