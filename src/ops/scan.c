/* Scan: a body run along an axis of its inputs, as the loop primitive.  Axes and directions are views before and after
 * it. */
#include "ops/lower.h"
#include <string.h>

enum { VALUES_MAX = 64 };

typedef struct scan {
    const gale_graph *body;
    int states, sliced, stacked, captured; /* captured: values of the graph around, the last inputs */
    gale__node in[VALUES_MAX + 2];         /* with random numbers in its steps it gets two more: see pass_seed */
} scan;

/* Number i of an attribute's list, 0 where it has none. */
static int64_t flag(gale__lower *L, const char *name, int i)
{
    int n;
    const int64_t *list = gale__attr_ints(L, name, &n);
    return list && i < n ? list[i] : 0;
}

/* x with `from` moved to `to`, the other axes in order. */
static gale__node move_axis(gale__lower *L, gale__node x, int from, int to)
{
    int perm[GALE_MAX_RANK], n = 0, rank = gale__lower_rank_of(L->g, x);
    if (from == to || !gale__lower_good(L)) return x;
    for (int d = 0; d < rank; d++) {
        if (n == to) perm[n++] = from;
        if (d != from) perm[n++] = d;
    }
    if (n < rank) perm[n] = from;
    return gale__prim_permute(L->g, x, perm);
}

/* Each step draws from a seed of its own.  The step's number comes after what is sliced, the seed after all. */
static bool pass_seed(gale__lower *L, scan *s, int64_t trips)
{
    int at = s->states + s->sliced;
    gale__node seed = gale__opgraph_draws(s->body) ? gale__prim_seed(L->g) : GALE__NIL;
    if (seed < 0) return false;
    memmove(&s->in[at + 1], &s->in[at], (size_t)s->captured * sizeof *s->in);
    s->in[at] = gale__prim_iota(L->g, 1, &trips, 0);
    s->in[at + 1 + s->captured] = seed;
    return true;
}

static gale__node seed_of_step(gale__prim_graph *body, gale__node step, gale__node seed)
{
    gale__node spread = gale__prim_splat_i(body, GALE_U64, 0, NULL, (int64_t)0x9e3779b97f4a7c15u);
    return gale__prim_add(body, seed, gale__prim_mul(body, gale__prim_cast(body, step, GALE_U64), spread));
}

/* The loop over trips slices; outputs are states, then stacks. */
static gale__node run_body(gale__lower *L, scan *s, int64_t trips)
{
    gale__node in[VALUES_MAX], out[VALUES_MAX];
    int n = s->states + s->sliced + s->captured, n_out = s->states + s->stacked, own = s->states + s->sliced;
    bool draws = pass_seed(L, s, trips);
    gale__prim_loop_args loop = {.body = gale__lower_body_begin(L),
        .trips = trips,
        .n_carried = s->states,
        .n_sliced = s->sliced + draws,
        .n_constant = s->captured + draws,
        .n_stacked = s->stacked,
        .out = out};
    if (!loop.body) return GALE__NIL;
    for (int i = 0; i < n; i++) {
        int at = i + (draws && i >= own);
        in[i] = i >= own ? gale__lower_body_constant(L, loop.body, at, s->in[at])
                         : gale__lower_body_input(L, loop.body, at, s->in[at], i >= s->states);
    }
    if (draws)
        loop.body->seed = seed_of_step(loop.body, gale__lower_body_input(L, loop.body, own, s->in[own], true),
            gale__lower_body_input(L, loop.body, n + 1, s->in[n + 1], false));
    for (int i = 0; i < n_out; i++) out[i] = GALE__NIL;
    gale__opgraph_inline(s->body, loop.body, in, n, out, n_out);
    return gale__lower_body_end(L, &loop, s->in);
}

static bool read_scan(gale__lower *L, scan *s)
{
    s->body = gale__attr_graph(L, "body");
    int64_t sliced = gale__attr_i(L, "num_scan_inputs", 0), captured = gale__attr_i(L, "captures", 0);
    s->sliced = sliced < 0 || sliced > VALUES_MAX ? -1 : (int)sliced;
    s->captured = captured < 0 || captured > VALUES_MAX ? -1 : (int)captured;
    if (!s->body) gale__lower_refuse(L, "missing body");
    if (!gale__lower_good(L)) return false;
    int n = s->body->n_inputs, n_out = s->body->n_outputs;
    s->states = n - s->sliced - s->captured;
    s->stacked = n_out - s->states;
    bool ok = L->n_in == n && n <= VALUES_MAX && n_out <= VALUES_MAX && s->sliced > 0 && s->captured >= 0 &&
              s->states >= 0 && s->stacked >= 0 && L->n_out <= n_out;
    for (int i = 0; ok && i < n; i++) ok = (s->in[i] = L->in[i]) >= 0;
    if (!ok)
        gale__lower_refuse(L, "a body with %d inputs and %d outputs does not match %d inputs, %d of them scanned", n,
            n_out, L->n_in, s->sliced);
    return ok;
}

/* Scanned inputs with their axis in front, in the order of the steps. */
static bool turn_inputs(gale__lower *L, scan *s, int64_t *trips)
{
    for (int i = 0; i < s->sliced && gale__lower_good(L); i++) {
        gale__node *x = &s->in[s->states + i];
        *x = move_axis(L, *x, gale__lower_axis(L, flag(L, "scan_input_axes", i), gale__lower_rank_of(L->g, *x)), 0);
        gale__prim_node p = gale__lower_peek(L->g, *x);
        if (i == 0) *trips = p.rank ? p.dims[0] : 0;
        if (gale__lower_good(L) && (p.rank < 1 || p.dims[0] != *trips))
            gale__lower_refuse(L, "scanned inputs differ in length");
        if (flag(L, "scan_input_directions", i)) *x = gale__prim_flip(L->g, *x, 1);
    }
    return gale__lower_good(L);
}

LOWER(Scan)
{
    scan s = {0};
    int64_t trips = 0;
    if (!read_scan(L, &s)) return;
    gale__node loop = turn_inputs(L, &s, &trips) ? run_body(L, &s, trips) : GALE__NIL;
    for (int o = 0; o < L->n_out && gale__lower_good(L); o++) {
        L->out[o] = gale__prim_loop_out(L->g, loop, o);
        if (o < s.states || !gale__lower_good(L)) continue;
        if (flag(L, "scan_output_directions", o - s.states)) L->out[o] = gale__prim_flip(L->g, L->out[o], 1);
        L->out[o] = move_axis(L, L->out[o], 0,
            gale__lower_axis(L, flag(L, "scan_output_axes", o - s.states), gale__lower_rank_of(L->g, L->out[o])));
    }
}
