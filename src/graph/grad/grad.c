/* Reverse-mode differentiation as a transformation of the primitive graph.  Nodes are visited from last to first, each
 * rule adds to the gradients of its inputs, and all results are primitives again, so that gradients fuse, run on every
 * device and have gradients themselves. docs/gradients.md lists rules and conventions. */
#include "graph/grad/grad.h"
#include <string.h>

void gale__grad_add(gale__grad *s, gale__node x, gale__node d)
{
    if (!s->active[x] || !gale__prim_ok(s->g, d)) return;
    if (s->g->nodes[d].type != s->g->nodes[x].type || !gale__prim_same_shape(s->g, x, d)) {
        gale__prim_fail(s->g, GALE_INTERNAL, "gradient: node %d of shape %s got a gradient of shape %s", x,
            gale__prim_shape_text(s->g, x), gale__prim_shape_text(s->g, d));
        return;
    }
    s->of[x] = s->of[x] < 0 ? d : gale__prim_add(s->g, s->of[x], d);
}

/* Steps, and bits seen as another type: their derivative is 0 or nothing. */
static bool is_flat(int op) { return (op >= GALE__FLOOR && op <= GALE__TRUNC) || op == GALE__BITCAST; }

void gale__grad_spread(const gale__prim_graph *g, bool *active)
{
    for (int32_t n = 0; n < g->count; n++) {
        const gale__prim_node *p = &g->nodes[n];
        if (active[n] || is_flat(p->op) || !gale__type_is_float(p->type)) continue;
        for (int i = 0; i < p->n_in && !active[n]; i++) active[n] = active[p->in[i]];
    }
}

static void apply(gale__grad *s, gale__node n)
{
    const gale__prim_node p = s->g->nodes[n]; /* a copy: rules append nodes */
    gale__node d = s->of[n];
    switch ((int)p.op) {
    case GALE__PRIM_CONST:
    case GALE__PRIM_INPUT:
    case GALE__PRIM_IOTA:
    case GALE__PRIM_LOOP_OUT: break;
    case GALE__PRIM_RESHAPE:
    case GALE__PRIM_PERMUTE:
    case GALE__PRIM_EXPAND:
    case GALE__PRIM_SLICE:
    case GALE__PRIM_PAD:
    case GALE__PRIM_WINDOW:
    case GALE__PRIM_ROLL:
    case GALE__PRIM_UNWINDOW: gale__grad_view(s, n, &p, d); break;
    case GALE__PRIM_REDUCE: gale__grad_reduce(s, n, &p, d); break;
    case GALE__PRIM_TAKE: gale__grad_take(s, n, &p, d); break;
    case GALE__PRIM_PUT: gale__grad_put(s, n, &p, d); break;
    case GALE__PRIM_CONCAT: gale__grad_concat(s, n, &p, d); break;
    case GALE__PRIM_SCAN: gale__grad_scan(s, n, &p, d); break;
    case GALE__PRIM_COPY: gale__grad_add(s, p.in[0], d); break;
    case GALE__PRIM_LOOP: gale__grad_loop(s, n, &p, d); break;
    default:
        if (p.op < GALE__SCALAR_COUNT) gale__grad_scalar(s, n, &p, d);
        else
            gale__prim_fail(s->g, GALE_UNSUPPORTED,
                "gradient: node %d is a routine; take gradients before fast paths are chosen", n);
    }
}

static gale_status check_values(gale__prim_graph *g, const char *what, const gale__node *nodes, int n)
{
    for (int i = 0; i < n; i++) {
        if (nodes[i] < 0 || nodes[i] >= g->count)
            return gale__fail(GALE_INVALID, "gradient: %s %d is missing", what, i);
        const gale__prim_node *p = &g->nodes[nodes[i]];
        if (!gale__type_is_float(p->type))
            return gale__fail(
                GALE_INVALID, "gradient: %s %d is %s; only floats have gradients", what, i, gale_type_name(p->type));
    }
    return GALE_OK;
}

static void propagate(
    gale__grad *s, const gale__node *outputs, const gale__node *seeds, int n_outputs, const gale__node *wrt, int n)
{
    for (int i = 0; i < n; i++) s->active[wrt[i]] = true;
    gale__grad_spread(s->g, s->active);
    for (int i = 0; i < n_outputs; i++)
        if (seeds[i] >= 0) gale__grad_add(s, outputs[i], seeds[i]);
    for (int32_t i = s->count - 1; i >= 0 && s->g->status == GALE_OK; i--)
        if (s->active[i] && (s->of[i] >= 0 || s->g->nodes[i].op == GALE__PRIM_LOOP)) apply(s, i);
}

gale_status gale__prim_gradient_from(gale__prim_graph *g, const gale__node *outputs, const gale__node *seeds,
    int n_outputs, const gale__node *wrt, int n, gale__node *out)
{
    if (g->status != GALE_OK) return g->status;
    GALE_TRY(check_values(g, "output", outputs, n_outputs));
    GALE_TRY(check_values(g, "value", wrt, n));
    size_t count = (size_t)g->count + 1;
    gale__grad s = {g, g->count, gale__calloc(count, sizeof *s.active), gale__alloc(count * sizeof *s.of)};
    gale_status status = GALE_NO_MEMORY;
    if (s.active && s.of) {
        memset(s.of, 0xff, count * sizeof *s.of);
        propagate(&s, outputs, seeds, n_outputs, wrt, n);
        for (int i = 0; i < n && g->status == GALE_OK; i++) {
            gale__node zero = s.of[wrt[i]] < 0 ? gale__prim_like(g, wrt[i], 0) : s.of[wrt[i]];
            if (g->status == GALE_OK) out[i] = zero;
        }
        status = g->status;
    }
    gale__free(s.active);
    gale__free(s.of);
    return status;
}

gale_status gale__prim_gradient(gale__prim_graph *g, gale__node loss, const gale__node *wrt, int n, gale__node *out)
{
    if (g->status != GALE_OK) return g->status;
    GALE_TRY(check_values(g, "loss", &loss, 1));
    if (gale__prim_elements(g, loss) != 1)
        return gale__fail(GALE_INVALID, "gradient: the loss has shape %s; reduce it to one number first",
            gale__prim_shape_text(g, loss));
    gale__node one = gale__prim_like(g, loss, 1);
    return gale__prim_gradient_from(g, &loss, &one, 1, wrt, n, out);
}
