/* Orders a net's nodes and cuts it into segments.  Everything that is ready for the device goes into the current
 * segment; when nothing more is, everything that is ready for the host runs, then the next segment begins.  So there
 * are few cuts, whatever the order in the file. */
#include "graph/build/opgraph.h"
#include "onnx/run/session.h"
#include <string.h>

typedef struct scheduler {
    gale__onnx_net *net;
    gale__onnx_exec *exec;
    int32_t *made_in; /* by value: the step that makes it, -1 not yet, -2 there from the start */
    bool *fixed;      /* by value: made of shapes and constants alone, as far as the current segment is concerned */
    int32_t *waiting; /* nodes not done, in order */
    int n_waiting;
} scheduler;

/* What a node reads: its inputs, then what its bodies take from here. */
static bool all_ready(const scheduler *s, const gale__onnx_net_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] >= 0 && s->made_in[n->in[i]] == -1) return false;
    for (int b = 0; b < n->n_bodies; b++)
        for (int i = 0; i < n->bodies[b].net->n_captures; i++)
            if (s->made_in[n->bodies[b].net->captures[i]] == -1) return false;
    return true;
}

static bool bit(uint32_t mask, int i) { return mask >> (i < 31 ? i : 31) & 1; }

/* Whether everything the node must know at plan time is known once segment `step` begins. */
static bool can_plan(const scheduler *s, const gale__onnx_net_node *n, int step)
{
    const gale__op *op = gale__op_find(n->op);
    for (int i = 0; op && i < n->n_in; i++) {
        int32_t v = n->in[i];
        if (v >= 0 && bit(op->plan_inputs, i) && s->made_in[v] == step && !s->fixed[v]) return false;
    }
    for (int b = 0; b < n->n_bodies; b++) {
        const gale__onnx_net *body = n->bodies[b].net;
        for (int i = 0; body->planned_by && i < body->n_captures; i++)
            if (s->made_in[body->captures[i]] == step && !s->fixed[body->captures[i]]) return false;
    }
    return true;
}

static void mark_made(scheduler *s, const gale__onnx_net_node *n, int step)
{
    const gale__op *op = gale__op_find(n->op);
    bool fixed = op != NULL;
    for (int i = 0; fixed && i < n->n_in; i++) {
        int32_t v = n->in[i];
        fixed = v < 0 || bit(op->shape_inputs, i) || s->fixed[v];
    }
    for (int b = 0; b < n->n_bodies; b++)
        for (int i = 0; fixed && i < n->bodies[b].net->n_captures; i++) fixed = s->fixed[n->bodies[b].net->captures[i]];
    for (int i = 0; i < n->n_out; i++) {
        if (n->out[i] < 0) continue;
        s->made_in[n->out[i]] = step;
        s->fixed[n->out[i]] = fixed;
    }
}

static gale_status new_step(scheduler *s, gale__onnx_runner runner, int32_t node, gale__onnx_exec_step **out)
{
    gale__onnx_exec *e = s->exec;
    GALE_TRY(gale__grow((void **)&e->steps, &e->steps_capacity, (size_t)e->n_steps + 1, sizeof *e->steps));
    *out = &e->steps[e->n_steps];
    **out = (gale__onnx_exec_step){.runner = (uint8_t)runner, .node = node};
    if (runner == GALE__RUNS_ON_DEVICE && !((*out)->segment = gale__calloc(1, sizeof *(*out)->segment)))
        return GALE_NO_MEMORY;
    e->n_steps++;
    return GALE_OK;
}

/* One pass over what waits: nodes that are ready and of the wanted kind.  A pass is enough for a segment, since nodes
 * stand in order. */
static gale_status take_ready(scheduler *s, bool device, bool *any)
{
    gale__onnx_exec_step *step = NULL;
    int kept = 0;
    *any = false;
    for (int i = 0; i < s->n_waiting; i++) {
        int32_t at = s->waiting[i];
        const gale__onnx_net_node *n = &s->net->nodes[at];
        gale__onnx_runner runner = gale__onnx_net_runner(s->net, n);
        int number = step && device ? s->exec->n_steps - 1 : s->exec->n_steps;
        bool fits =
            (runner == GALE__RUNS_ON_DEVICE) == device && all_ready(s, n) && (!device || can_plan(s, n, number));
        if (!fits) {
            s->waiting[kept++] = at;
            continue;
        }
        if (!step || !device) GALE_TRY(new_step(s, runner, at, &step));
        if (device) {
            gale__onnx_segment *g = step->segment;
            GALE_TRY(gale__grow((void **)&g->nodes, &g->nodes_capacity, (size_t)g->n_nodes + 1, sizeof *g->nodes));
            g->nodes[g->n_nodes++] = at;
        }
        mark_made(s, n, s->exec->n_steps - 1);
        *any = true;
    }
    s->n_waiting = kept;
    return GALE_OK;
}

static void note_use(gale__onnx_exec *e, int32_t v, int step)
{
    if (v >= 0 && e->last_use[v] < step) e->last_use[v] = step;
}

static void note_uses(gale__onnx_exec *e, const gale__onnx_net_node *n, int step)
{
    for (int i = 0; i < n->n_in; i++) note_use(e, n->in[i], step);
    for (int b = 0; b < n->n_bodies; b++)
        for (int i = 0; i < n->bodies[b].net->n_captures; i++) note_use(e, n->bodies[b].net->captures[i], step);
}

static void find_uses(gale__onnx_exec *e)
{
    for (int i = 0; i < e->net->n_values; i++) e->last_use[i] = -1;
    for (int i = 0; i < e->n_steps; i++) {
        const gale__onnx_exec_step *s = &e->steps[i];
        if (!s->segment) note_uses(e, &e->net->nodes[s->node], i);
        for (int k = 0; s->segment && k < s->segment->n_nodes; k++)
            note_uses(e, &e->net->nodes[s->segment->nodes[k]], i);
    }
    for (int i = 0; i < e->net->n_outputs; i++) note_use(e, e->net->outputs[i], e->n_steps);
}

static void note_input(scheduler *s, int step, int32_t v, bool *seen)
{
    gale__onnx_segment *g = s->exec->steps[step].segment;
    if (v < 0 || seen[v] || s->net->values[v].constant || s->made_in[v] == step) return;
    seen[v] = true;
    g->inputs[g->n_inputs++] = v;
}

/* A segment reads what others make, and gives what is read after it. */
static gale_status find_edges(scheduler *s, int step)
{
    gale__onnx_net *net = s->net;
    gale__onnx_segment *g = s->exec->steps[step].segment;
    size_t most_in = 0, most_out = 0;
    for (int k = 0; k < g->n_nodes; k++) {
        const gale__onnx_net_node *n = &net->nodes[g->nodes[k]];
        most_in += (size_t)n->n_in;
        most_out += (size_t)n->n_out;
        for (int b = 0; b < n->n_bodies; b++) most_in += (size_t)n->bodies[b].net->n_captures;
    }
    bool *seen = gale__calloc((size_t)net->n_values + 1, sizeof *seen);
    g->inputs = gale__calloc(most_in + 1, sizeof *g->inputs);
    g->outputs = gale__calloc(most_out + 1, sizeof *g->outputs);
    if (!seen || !g->inputs || !g->outputs) return gale__free(seen), GALE_NO_MEMORY;
    for (int k = 0; k < g->n_nodes; k++) {
        const gale__onnx_net_node *n = &net->nodes[g->nodes[k]];
        for (int i = 0; i < n->n_in; i++) note_input(s, step, n->in[i], seen);
        for (int b = 0; b < n->n_bodies; b++)
            for (int i = 0; i < n->bodies[b].net->n_captures; i++)
                note_input(s, step, n->bodies[b].net->captures[i], seen);
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i] >= 0 && s->exec->last_use[n->out[i]] > step) g->outputs[g->n_outputs++] = n->out[i];
    }
    gale__free(seen);
    return GALE_OK;
}

/* Nodes whose results nobody reads are not run. */
static gale_status drop_dead(scheduler *s)
{
    gale__onnx_net *net = s->net;
    bool *wanted = gale__calloc((size_t)net->n_values + 1, sizeof *wanted);
    if (!wanted) return GALE_NO_MEMORY;
    for (int i = 0; i < net->n_outputs; i++) wanted[net->outputs[i]] = true;
    s->n_waiting = 0;
    for (int i = net->n_nodes - 1; i >= 0; i--) {
        const gale__onnx_net_node *n = &net->nodes[i];
        bool live = false;
        for (int k = 0; k < n->n_out; k++) live |= n->out[k] >= 0 && wanted[n->out[k]];
        if (!live) continue;
        s->waiting[s->n_waiting++] = i;
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] >= 0) wanted[n->in[k]] = true;
        for (int b = 0; b < n->n_bodies; b++)
            for (int k = 0; k < n->bodies[b].net->n_captures; k++) wanted[n->bodies[b].net->captures[k]] = true;
    }
    for (int i = 0; i < s->n_waiting / 2; i++) {
        int32_t swap = s->waiting[i];
        s->waiting[i] = s->waiting[s->n_waiting - 1 - i];
        s->waiting[s->n_waiting - 1 - i] = swap;
    }
    gale__free(wanted);
    return GALE_OK;
}

static gale_status schedule(scheduler *s)
{
    gale__onnx_net *net = s->net;
    for (int i = 0; i < net->n_values; i++) {
        bool there = net->values[i].constant || net->values[i].input >= 0;
        s->made_in[i] = there ? -2 : -1;
        s->fixed[i] = net->values[i].constant != NULL;
    }
    GALE_TRY(drop_dead(s));
    for (bool any = true; s->n_waiting && any;) {
        bool more;
        GALE_TRY(take_ready(s, true, &any));
        GALE_TRY(take_ready(s, false, &more));
        any |= more;
    }
    if (s->n_waiting)
        return gale__onnx_net_fail(
            &net->nodes[s->waiting[0]], GALE_FORMAT, "its inputs are never all available: the nodes form a cycle");
    find_uses(s->exec);
    for (int i = 0; i < s->exec->n_steps; i++)
        if (s->exec->steps[i].segment) GALE_TRY(find_edges(s, i));
    return GALE_OK;
}

gale_status gale__onnx_exec_expose(gale__onnx_net *net)
{
    gale__onnx_exec *e = net->exec;
    for (int i = 0; i < e->n_steps; i++) {
        gale__onnx_segment *g = e->steps[i].segment;
        size_t most = 0;
        for (int k = 0; g && k < g->n_nodes; k++) most += (size_t)net->nodes[g->nodes[k]].n_out;
        if (!g) continue;
        int32_t *outputs = gale__calloc(most + 1, sizeof *outputs);
        if (!outputs) return GALE_NO_MEMORY;
        gale__free(g->outputs);
        g->outputs = outputs;
        g->n_outputs = 0;
        for (int k = 0; k < g->n_nodes; k++)
            for (int o = 0; o < net->nodes[g->nodes[k]].n_out; o++)
                if (net->nodes[g->nodes[k]].out[o] >= 0) outputs[g->n_outputs++] = net->nodes[g->nodes[k]].out[o];
    }
    return GALE_OK;
}

gale_status gale__onnx_exec_make(gale__onnx_net *net)
{
    size_t values = (size_t)net->n_values + 1;
    gale__onnx_exec *e = gale__calloc(1, sizeof *e);
    if (!e) return GALE_NO_MEMORY;
    net->exec = e;
    e->net = net;
    e->last_use = gale__calloc(values, sizeof *e->last_use);
    scheduler s = {.net = net, .exec = e};
    s.made_in = gale__calloc(values, sizeof *s.made_in);
    s.fixed = gale__calloc(values, sizeof *s.fixed);
    s.waiting = gale__calloc((size_t)net->n_nodes + 1, sizeof *s.waiting);
    gale_status status = e->last_use && s.made_in && s.fixed && s.waiting ? schedule(&s) : GALE_NO_MEMORY;
    gale__free(s.made_in);
    gale__free(s.fixed);
    gale__free(s.waiting);
    for (int i = 0; status == GALE_OK && i < net->n_nodes; i++)
        for (int b = 0; status == GALE_OK && b < net->nodes[i].n_bodies; b++)
            status = gale__onnx_exec_make(net->nodes[i].bodies[b].net);
    return status;
}

void gale__onnx_exec_destroy(gale__onnx_net *net)
{
    gale__onnx_exec *e = net->exec;
    for (int i = 0; i < net->n_nodes; i++)
        for (int b = 0; b < net->nodes[i].n_bodies; b++) gale__onnx_exec_destroy(net->nodes[i].bodies[b].net);
    if (!e) return;
    for (int i = 0; i < e->n_steps; i++) {
        if (e->steps[i].segment) gale__onnx_segment_finish(e->steps[i].segment);
        gale__free(e->steps[i].segment);
    }
    gale__free(e->steps);
    gale__free(e->last_use);
    gale__free(e);
    net->exec = NULL;
}
