/* The gradient of a loop is a loop that runs the other way.  Its body computes the forward body of one step again, from
 * the carried values at the step's start, and takes that body's gradient.  The forward loop stacks those values:
 * outputs are added to it, so that it still runs once.
 *
 * Inputs of the reverse body, before those that nobody reads are left out:
 *     carried   gradients of carried values, then running sums of the constants' gradients
 *     sliced    carried values at the start of the step, slices, gradients of the stacks
 *     constant  the constants */
#include "graph/grad/grad.h"

typedef struct list {
    int *at, count;
} list;
typedef struct reverse {
    gale__grad *grad;
    gale__node loop; /* the LOOP */
    gale__prim_loop_args *args;
    int n_carried, n_sliced, n_in, n_out;    /* of the forward loop, before stacks are added */
    gale__arena arena;                       /* the arrays below */
    gale__node *inside;                      /* by input of the body: its node, or NIL where it has none */
    gale__node *arriving;                    /* by output: its gradient outside, or NIL */
    bool *active;                            /* by node of the body */
    list carried, stacks, slices, constants; /* those that have a gradient, by number of input (stacks: of output) */
    gale__prim_graph draft;                  /* the reverse body with all its inputs */
    int n_draft_in;
    gale__node *out; /* in the draft: gradients of carried, constants, slices */
} reverse;

static gale__node outer(const reverse *r, int i) { return r->grad->g->nodes[r->loop].in[i]; }
static int back_carried(const reverse *r) { return r->carried.count + r->constants.count; }
static int first_constant(const reverse *r) { return back_carried(r) + r->n_carried + r->n_sliced + r->stacks.count; }

static gale_status prepare(reverse *r)
{
    const gale__prim_graph *g = r->grad->g, *body = r->args->body;
    r->inside = gale__arena_alloc(&r->arena, (r->n_in + 1) * sizeof *r->inside);
    r->arriving = gale__arena_alloc(&r->arena, (r->n_out + 1) * sizeof *r->arriving);
    r->active = gale__arena_alloc(&r->arena, ((size_t)body->count + 1) * sizeof *r->active);
    list *lists[] = {&r->carried, &r->stacks, &r->slices, &r->constants};
    for (int i = 0; i < 4; i++) {
        lists[i]->at = gale__arena_alloc(&r->arena, (r->n_in + r->n_out + 1) * sizeof(int));
        if (!lists[i]->at) return GALE_NO_MEMORY;
    }
    if (!r->inside || !r->arriving || !r->active) return GALE_NO_MEMORY;
    for (int i = 0; i < r->n_in; i++) r->inside[i] = GALE__NIL;
    for (int i = 0; i < r->n_out; i++) r->arriving[i] = GALE__NIL;
    for (int32_t i = 0; i < body->count; i++)
        if (body->nodes[i].op == GALE__PRIM_INPUT) r->inside[body->nodes[i].attr[0]] = i;
    for (int32_t i = r->loop + 1; i < r->grad->count; i++)
        if (g->nodes[i].op == GALE__PRIM_LOOP_OUT && g->nodes[i].in[0] == r->loop)
            r->arriving[g->nodes[i].attr[0]] = r->grad->of[i];
    return GALE_OK;
}

/* A carried value is active from the step after the one that made it so, hence the repetition. */
static void find_active(reverse *r)
{
    for (int i = 0; i < r->n_in; i++)
        if (r->inside[i] >= 0) r->active[r->inside[i]] = gale__grad_wants(r->grad, outer(r, i));
    for (bool more = true; more;) {
        more = false;
        gale__grad_spread(r->args->body, r->active);
        for (int i = 0; i < r->n_carried; i++) {
            if (r->inside[i] < 0 || r->active[r->inside[i]] || !r->active[r->args->out[i]]) continue;
            r->active[r->inside[i]] = more = true;
        }
    }
}

static bool active_inside(const reverse *r, int input) { return r->inside[input] >= 0 && r->active[r->inside[input]]; }

/* False when no gradient arrives. */
static bool find_lists(reverse *r)
{
    bool any = false;
    for (int i = 0; i < r->n_out; i++) {
        bool made = r->active[r->args->out[i]], arrives = made && r->arriving[i] >= 0;
        any = any || arrives;
        if (i < r->n_carried && (made || active_inside(r, i))) r->carried.at[r->carried.count++] = i;
        if (i >= r->n_carried && arrives) r->stacks.at[r->stacks.count++] = i;
    }
    for (int i = r->n_carried; i < r->n_in; i++) {
        list *to = i < r->n_carried + r->n_sliced ? &r->slices : &r->constants;
        if (active_inside(r, i) && gale__grad_wants(r->grad, outer(r, i))) to->at[to->count++] = i;
    }
    return any;
}

/* An input of the draft with the type and shape of a node of the forward body. */
static gale__node like_input(reverse *r, int number, gale__node of)
{
    const gale__prim_node *p = &r->args->body->nodes[of];
    return gale__prim_input(&r->draft, number, (gale_type)p->type, p->rank, p->dims);
}

/* The forward body in the draft, and a seed for each of its outputs that has a gradient. */
static gale_status draft_forward(reverse *r, gale__node *map, gale__node *outputs, gale__node *seeds, int *n)
{
    int count = 0, back = back_carried(r), *number = gale__arena_alloc(&r->arena, (r->n_in + 1) * sizeof *number);
    gale__node *wanted = gale__arena_alloc(&r->arena, (r->n_out + 1) * sizeof *wanted);
    if (!number || !wanted) return GALE_NO_MEMORY;
    for (int i = 0; i < r->n_in; i++) number[i] = back + i + (i >= r->n_carried + r->n_sliced ? r->stacks.count : 0);
    for (int i = 0; i < r->carried.count; i++) {
        gale__node out = r->args->out[r->carried.at[i]];
        if (!r->active[out]) continue;
        seeds[count] = like_input(r, i, out);
        wanted[count++] = out;
    }
    for (int i = 0; i < r->stacks.count; i++) {
        wanted[count] = r->args->out[r->stacks.at[i]];
        seeds[count] = like_input(r, back + r->n_carried + r->n_sliced + i, wanted[count]);
        count++;
    }
    GALE_TRY(gale__prim_clone(r->args->body, wanted, count, number, &r->draft, map));
    for (int i = 0; i < count; i++) outputs[i] = map[wanted[i]];
    *n = count;
    return r->draft.status;
}

/* Gradients by the inputs in `of`, into out[]; zeros where the step does not read the input. */
static gale_status draft_gradients(reverse *r, const int *of, int n, gale__node *out)
{
    size_t body = (size_t)r->args->body->count + 1, most = (size_t)(r->n_in + r->n_out) + 1;
    gale__node *map = gale__arena_alloc(&r->arena, body * sizeof *map),
               *outputs = gale__arena_alloc(&r->arena, 4 * most * sizeof *outputs);
    if (!map || !outputs) return GALE_NO_MEMORY;
    gale__node *seeds = outputs + most, *wrt = seeds + most, *made = wrt + most;
    int n_outputs = 0, read = 0;
    GALE_TRY(draft_forward(r, map, outputs, seeds, &n_outputs));
    for (int i = 0; i < n; i++) {
        gale__node inside = r->inside[of[i]] >= 0 ? map[r->inside[of[i]]] : GALE__NIL;
        if (inside >= 0) wrt[read++] = inside;
    }
    GALE_TRY(gale__prim_gradient_from(&r->draft, outputs, seeds, n_outputs, wrt, read, made));
    read = 0;
    for (int i = 0; i < n; i++) {
        bool there = r->inside[of[i]] >= 0 && map[r->inside[of[i]]] >= 0;
        const gale__prim_node *p =
            &r->args->body
                 ->nodes[there ? r->inside[of[i]] : r->args->out[of[i]]]; /* only carried values can be unread */
        out[i] = there ? made[read++] : gale__prim_splat(&r->draft, (gale_type)p->type, p->rank, p->dims, 0);
    }
    return r->draft.status;
}

static gale_status make_draft(reverse *r)
{
    int n = 0, *of = gale__arena_alloc(&r->arena, (r->n_in + 1) * sizeof *of);
    r->out = gale__arena_alloc(&r->arena, (r->n_in + 1) * sizeof *r->out);
    if (!of || !r->out) return GALE_NO_MEMORY;
    const list *lists[] = {&r->carried, &r->constants, &r->slices};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < lists[k]->count; i++) of[n++] = lists[k]->at[i];
    GALE_TRY(draft_gradients(r, of, n, r->out));
    for (int i = 0; i < r->constants.count; i++) {
        int at = r->carried.count + i;
        r->out[at] = gale__prim_add(&r->draft, like_input(r, at, r->inside[r->constants.at[i]]), r->out[at]);
    }
    r->n_draft_in = first_constant(r) + r->n_in - r->n_carried - r->n_sliced;
    return r->draft.status;
}

/* The carried value at the start of each step, as an output of the forward loop. */
static gale__node stack_of(reverse *r, int carried)
{
    gale__prim_graph *g = r->grad->g;
    gale__prim_loop_args *l = r->args;
    int n = l->n_carried + l->n_stacked, at = l->n_carried;
    while (at < n && l->out[at] != r->inside[carried]) at++;
    if (at == n) {
        gale__node *out = gale__arena_alloc(&g->arena, ((size_t)n + 1) * sizeof *out);
        if (!out) return gale__prim_fail(g, GALE_NO_MEMORY, "gradient: out of memory");
        for (int i = 0; i < n; i++) out[i] = l->out[i];
        out[n] = r->inside[carried];
        l->out = out;
        l->n_stacked++;
    }
    return gale__prim_loop_out(g, r->loop, at);
}

/* What goes into input i of the draft. */
static gale__node feed(reverse *r, int i)
{
    gale__prim_graph *g = r->grad->g;
    int back = back_carried(r), sliced = back + r->n_carried, stacked = sliced + r->n_sliced,
        constant = first_constant(r);
    if (i < r->carried.count) {
        gale__node d = r->arriving[r->carried.at[i]];
        return d >= 0 ? d : gale__prim_like(g, outer(r, r->carried.at[i]), 0);
    }
    if (i < back) return gale__prim_like(g, outer(r, r->constants.at[i - r->carried.count]), 0);
    if (i < sliced) return stack_of(r, i - back);
    if (i < stacked) return outer(r, r->n_carried + i - sliced);
    if (i < constant) return r->arriving[r->stacks.at[i - stacked]];
    return outer(r, r->n_carried + r->n_sliced + i - constant);
}

/* Numbers the inputs that are read, and feeds them. */
static gale_status choose_inputs(reverse *r, gale__prim_loop_args *back, int *number, gale__node *inputs)
{
    bool *needed = gale__arena_alloc(&r->arena, (size_t)r->draft.count + 1),
         *read = gale__arena_alloc(&r->arena, (size_t)r->n_draft_in + 1);
    if (!needed || !read) return GALE_NO_MEMORY;
    gale__prim_reach(&r->draft, r->out, back_carried(r) + r->slices.count, needed);
    for (int32_t i = 0; i < r->draft.count; i++)
        if (needed[i] && r->draft.nodes[i].op == GALE__PRIM_INPUT) read[r->draft.nodes[i].attr[0]] = true;
    int n = 0;
    back->n_carried = back_carried(r);
    for (int i = 0; i < r->n_draft_in; i++) {
        if (i >= back->n_carried && !read[i]) continue;
        if (i >= back->n_carried && i < first_constant(r)) back->n_sliced++;
        if (i >= first_constant(r)) back->n_constant++;
        inputs[n] = feed(r, i);
        number[i] = n++;
    }
    return r->grad->g->status;
}

/* The loop itself, from what of the draft is needed. */
static gale_status make_loop(reverse *r, gale__node *made)
{
    gale_status status = GALE_NO_MEMORY;
    int n_out = back_carried(r) + r->slices.count,
        *number = gale__arena_alloc(&r->arena, (r->n_draft_in + 1) * sizeof *number);
    gale__node *inputs = gale__arena_alloc(&r->arena, (r->n_draft_in + 1) * sizeof *inputs);
    gale__node *map = gale__arena_alloc(&r->arena, ((size_t)r->draft.count + 1) * sizeof *map);
    gale__prim_loop_args back = {.trips = r->args->trips, .n_stacked = r->slices.count, .reverse = !r->args->reverse};
    back.out = gale__arena_alloc(&r->arena, (n_out + 1) * sizeof *back.out);
    *made = GALE__NIL;
    if (!number || !inputs || !map || !back.out) return GALE_NO_MEMORY;
    GALE_TRY(choose_inputs(r, &back, number, inputs));
    back.body = gale__alloc(sizeof *back.body);
    if (!back.body) return GALE_NO_MEMORY;
    gale__prim_init(back.body);
    back.body->fold_max = r->draft.fold_max;
    GALE_GO(gale__prim_clone(&r->draft, r->out, n_out, number, back.body, map));
    for (int i = 0; i < n_out; i++) back.out[i] = map[r->out[i]];
    *made = gale__prim_loop(r->grad->g, &back, inputs);
    status = r->grad->g->status;
done:
    if (*made < 0) {
        gale__prim_finish(back.body);
        gale__free(back.body);
    }
    return status;
}

static gale_status differentiate(reverse *r)
{
    GALE_TRY(prepare(r));
    find_active(r);
    if (!find_lists(r)) return GALE_OK;
    GALE_TRY(make_draft(r));
    gale__node loop;
    GALE_TRY(make_loop(r, &loop));
    const list *lists[] = {&r->carried, &r->constants, &r->slices};
    for (int k = 0, which = 0; k < 3; k++)
        for (int i = 0; i < lists[k]->count; i++, which++)
            if (gale__grad_wants(r->grad, outer(r, lists[k]->at[i])))
                gale__grad_add(r->grad, outer(r, lists[k]->at[i]), gale__prim_loop_out(r->grad->g, loop, which));
    return r->grad->g->status;
}

void gale__grad_loop(gale__grad *s, gale__node n, const gale__prim_node *p, gale__node d)
{
    (void)d;
    gale__prim_loop_args *l = p->loop;
    reverse r = {.grad = s,
        .loop = n,
        .args = l,
        .n_carried = l->n_carried,
        .n_sliced = l->n_sliced,
        .n_in = p->n_in,
        .n_out = l->n_carried + l->n_stacked};
    gale__prim_init(&r.draft);
    r.draft.fold_max = l->body->fold_max;
    gale_status status = differentiate(&r);
    if (status != GALE_OK && s->g->status == GALE_OK) s->g->status = status; /* the message is there */
    gale__prim_finish(&r.draft);
    gale__arena_finish(&r.arena);
}
