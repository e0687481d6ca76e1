/* Loops: the body is planned once, and its steps are listed once per iteration with shifted locations.  Carried values
 * alternate between two buffers; slices and stacks are offsets into the whole. */
#include "graph/plan/planner.h"
#include <string.h>

typedef struct unroll {
    gale__planner *planner;
    const gale__prim_node *node;
    const gale__prim_loop_args *loop;
    const gale__plan *body;
    gale__plan_place work[16];       /* of the body's slabs */
    gale__plan_place constants;      /* of the body's constants */
    int first_weight;                /* of the body's weights */
    gale__plan_place *ping;          /* two for each carried value */
    gale__plan_place *out;           /* where LOOP_OUTs are; NONE if they are not read */
    gale__plan_place *stack_scratch; /* of stacked outputs that are not read */
    bool once;
} unroll;

static uint64_t bytes_of(const gale__prim_graph *g, gale__node n)
{
    return (uint64_t)gale__prim_elements(g, n) * gale_type_size((gale_type)gale__prim_at(g, n)->type);
}

static gale__plan_place moved(gale__plan_place place, uint64_t by) { return place.offset += by, place; }

static gale__plan_place carried_out(const unroll *u, int i, int64_t trip)
{
    if (trip == u->loop->trips - 1 && u->out[i].space != GALE__SPACE_NONE) return u->out[i];
    return u->ping[2 * i + (trip & 1)];
}

static gale__plan_place input_place(const unroll *u, int i, int64_t trip)
{
    const gale__prim_loop_args *l = u->loop;
    gale__plan_place whole = gale__planner_place(u->planner, u->node->in[i]);
    if (i < l->n_carried) return trip == 0 ? whole : carried_out(u, i, trip - 1);
    if (i >= l->n_carried + l->n_sliced) return whole;
    uint64_t slice = bytes_of(&u->planner->plan->g, u->node->in[i]) / (uint64_t)l->trips;
    return moved(whole, slice * (uint64_t)(l->reverse ? l->trips - 1 - trip : trip));
}

static gale__plan_place output_place(const unroll *u, int i, int64_t trip)
{
    const gale__prim_loop_args *l = u->loop;
    if (i < l->n_carried) return carried_out(u, i, trip);
    uint64_t slice = bytes_of(&u->body->g, u->body->outputs[i]);
    if (u->out[i].space == GALE__SPACE_NONE) return u->stack_scratch[i];
    return moved(u->out[i], slice * (uint64_t)(l->reverse ? l->trips - 1 - trip : trip));
}

static gale__plan_place translate(const unroll *u, gale__plan_place place, int64_t trip)
{
    switch (place.space) {
    case GALE__SPACE_WORK: return moved(u->work[place.index], place.offset);
    case GALE__SPACE_CONST: return moved(u->constants, place.offset);
    case GALE__SPACE_WEIGHT: return place.index += u->first_weight, place;
    case GALE__SPACE_INPUT: return moved(input_place(u, place.index, trip), place.offset);
    default: return moved(output_place(u, place.index, trip), place.offset);
    }
}

static gale_status write_trip(unroll *u, int64_t trip)
{
    for (int s = 0; s < u->body->n_steps; s++) {
        gale__plan_step step = u->body->steps[s];
        gale__plan_place refs[GALE__NEST_BUFFERS_MAX];
        /* Outputs are at another address in every trip, in memory that others use before and after. */
        for (int i = 0; i < step.n_refs; i++) step.once = step.once && step.refs[i].space != GALE__SPACE_OUTPUT;
        if (step.once && trip > 0) continue;
        step.once = step.once || u->once;
        for (int i = 0; i < step.n_refs; i++) refs[i] = translate(u, step.refs[i], trip);
        GALE_TRY(gale__planner_step(u->planner, step, refs, step.n_refs));
    }
    return GALE_OK;
}

static gale_status copy_initial(unroll *u)
{
    for (int i = 0; i < u->loop->n_carried; i++) {
        if (u->out[i].space == GALE__SPACE_NONE) continue;
        gale__plan_place refs[2] = {u->out[i], gale__planner_place(u->planner, u->node->in[i])};
        uint64_t size = bytes_of(&u->planner->plan->g, u->node->in[i]);
        gale__plan_step step = {.kind = GALE__STEP_COPY,
            .once = u->once,
            .size = size,
            .tag = {.name = "copy", .op = "Loop", .bytes = 2.0 * (double)size}};
        if (size) GALE_TRY(gale__planner_step(u->planner, step, refs, 2));
    }
    return GALE_OK;
}

/* The body as a separate plan; the parent owns it and uploads its constants together with its own. */
static gale_status plan_body(gale__planner *p, const gale__prim_loop_args *loop, gale__plan **out)
{
    gale__plan *plan = p->plan;
    GALE_TRY(
        gale__grow((void **)&plan->bodies, &plan->bodies_capacity, (size_t)plan->n_bodies + 1, sizeof *plan->bodies));
    gale__prim_graph body = *loop->body; /* the plan takes it over; the parent's graph must not finish it again */
    memset(loop->body, 0, sizeof *loop->body);
    gale_status status =
        gale__plan_make(plan->device, &body, loop->out, loop->n_carried + loop->n_stacked, &p->fusion.options, out);
    if (status != GALE_OK) return gale__prim_finish(&body), status; /* empty, when the plan had it already */
    plan->bodies[plan->n_bodies++] = *out;
    return GALE_OK;
}

static gale_status adopt_constants(gale__planner *p, const gale__plan *body, gale__plan_place *out)
{
    gale__plan *plan = p->plan;
    *out = (gale__plan_place){GALE__SPACE_CONST, 0, plan->const_bytes};
    for (int i = 0; i < body->n_constants; i++) {
        GALE_TRY(gale__grow((void **)&plan->constants, &plan->constants_capacity, (size_t)plan->n_constants + 1,
            sizeof *plan->constants));
        plan->constants[plan->n_constants].data = body->constants[i].data;
        plan->constants[plan->n_constants].size = body->constants[i].size;
        plan->constants[plan->n_constants++].offset = plan->const_bytes + body->constants[i].offset;
    }
    plan->const_bytes += body->const_bytes;
    for (int i = 0; i < body->n_weights; i++) GALE_TRY(gale__planner_weight(plan, body->weights[i]));
    return GALE_OK;
}

/* Whether the body's own prologue needs its memory: it runs with the prologue of all. */
static bool works_early(const gale__plan *body)
{
    for (int s = 0; s < body->n_steps; s++)
        for (int i = 0; i < body->steps[s].n_refs; i++)
            if (body->steps[s].once && body->steps[s].refs[i].space == GALE__SPACE_WORK) return true;
    return false;
}

static gale_status give_places(unroll *u, gale__node loop_node)
{
    gale__planner *p = u->planner;
    const gale__prim_loop_args *l = u->loop;
    size_t n = (size_t)(l->n_carried + l->n_stacked) + 1;
    gale__arena *a = &p->plan->arena;
    u->ping = gale__arena_alloc(a, 2 * n * sizeof *u->ping);
    u->out = gale__arena_alloc(a, n * sizeof *u->out);
    u->stack_scratch = gale__arena_alloc(a, n * sizeof *u->stack_scratch);
    if (!u->ping || !u->out || !u->stack_scratch) return GALE_NO_MEMORY;
    const gale__prim_graph *g = &p->plan->g;
    for (gale__node o = loop_node + 1; o < g->count; o++)
        if (p->fusion.live[o] && gale__prim_at(g, o)->op == GALE__PRIM_LOOP_OUT &&
            gale__prim_at(g, o)->in[0] == loop_node)
            u->out[gale__prim_at(g, o)->attr[0]] = p->place[o];
    if (l->trips == 0) return GALE_OK;
    for (int i = 0; i < l->n_carried + l->n_stacked; i++) {
        uint64_t size = bytes_of(&u->body->g, u->body->outputs[i]);
        if (i >= l->n_carried) GALE_TRY(gale__planner_scratch(p, size, &u->stack_scratch[i]));
        else
            for (int k = 0; k < 2; k++) GALE_TRY(gale__planner_scratch(p, size, &u->ping[2 * i + k]));
    }
    if (u->body->n_slabs > 16)
        return gale__fail(
            GALE_LIMIT, "a loop body needs %d slabs of memory; at most 16 are supported", u->body->n_slabs);
    bool early = works_early(u->body);
    for (int i = 0; i < u->body->n_slabs; i++)
        GALE_TRY((early ? gale__planner_scratch_early : gale__planner_scratch)(p, u->body->slabs[i], &u->work[i]));
    return GALE_OK;
}

gale_status gale__planner_loop(gale__planner *p, const gale__fused *k)
{
    const gale__prim_node *node = gale__prim_at(&p->plan->g, k->root);
    unroll u = {.planner = p, .node = node, .loop = node->loop, .once = node->invariant};
    gale__plan *body = NULL;
    if (u.loop->trips > 0) {
        GALE_TRY(plan_body(p, u.loop, &body));
        u.body = body;
        u.first_weight = p->plan->n_weights;
        GALE_TRY(adopt_constants(p, body, &u.constants));
    }
    GALE_TRY(give_places(&u, k->root));
    if (u.loop->trips == 0) return copy_initial(&u);
    for (int64_t t = 0; t < u.loop->trips; t++) GALE_TRY(write_trip(&u, t));
    return GALE_OK;
}
