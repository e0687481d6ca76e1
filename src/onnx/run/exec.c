/* Runs a net: values are created step by step and freed after their last use.  Tensors stay where they were computed
 * until the host needs them. */
#include "onnx/run/session.h"
#include "base/limits.h"
#include "base/seed.h"
#include "graph/run/program.h"
#include "graph/run/tensor.h"
#include <string.h>

typedef struct run {
    gale__onnx_session *session;
    gale__onnx_net *net;
    gale__onnx_exec *exec;
    gale_object **values; /* by value of the net, held */
    gale_object **given;  /* by output of the net: the caller's, or NULL */
    bool on_host;
} run;

/* How far the model is that this thread runs: steps of bodies are not counted, so that the numbers only ever grow.
 * run_us: of its segments so far, those of bodies too. */
static _Thread_local struct {
    int step, steps;
    double run_us;
} told;

/* The object of a value; constants are wrapped when first read. */
static gale_status value_of(run *r, int32_t v, gale_object **out)
{
    *out = NULL;
    if (v < 0) return GALE_OK;
    if (!r->values[v] && r->net->values[v].constant)
        GALE_TRY(gale_object_tensor(r->net->values[v].constant, &r->values[v]));
    *out = r->values[v];
    return GALE_OK;
}

/* The segment's first node that reads v, for messages: one whose body does is as good as any. */
static const gale__onnx_net_node *reader(const run *r, const gale__onnx_segment *g, int32_t v)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const gale__onnx_net_node *n = &r->net->nodes[g->nodes[i]];
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] == v) return n;
    }
    return &r->net->nodes[g->nodes[0]];
}

static gale_status tensor_of(run *r, const gale__onnx_segment *g, int32_t v, gale_tensor **out)
{
    gale_object *object;
    GALE_TRY(value_of(r, v, &object));
    const char *name = r->net->values[v].name;
    if (!object || object->kind == GALE_OBJECT_NONE)
        return gale__onnx_net_fail(reader(r, g, v), GALE_INVALID, "input '%s' is empty", name);
    if (object->kind != GALE_OBJECT_TENSOR || gale_tensor_type(object->tensor) == GALE_STRING)
        return gale__onnx_net_fail(reader(r, g, v), GALE_INVALID, "input '%s' is not a numeric tensor", name);
    *out = object->tensor;
    return GALE_OK;
}

/* The caller's tensor for an output of the net that this value is, if there is one. */
static gale_tensor *given_for(const run *r, int32_t v)
{
    for (int i = 0; r->given && i < r->net->n_outputs; i++)
        if (r->net->outputs[i] == v && r->given[i]) return r->given[i]->tensor;
    return NULL;
}

/* Whether a tensor of the caller overlaps an input that later steps read: then it is filled at the end. */
static bool still_read(const run *r, const gale_tensor *given, int step)
{
    for (int i = 0; given && i < r->net->n_inputs; i++) {
        const gale_object *o = r->values[r->net->inputs[i]];
        if (o && o->kind == GALE_OBJECT_TENSOR && r->exec->last_use[r->net->inputs[i]] > step &&
            gale__tensor_overlap(o->tensor, given))
            return true;
    }
    return false;
}

/* Whether everything the segment gives goes to the caller alone. */
static bool ends_here(const run *r, const gale__onnx_segment *g, int step)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (r->exec->last_use[g->outputs[i]] != r->exec->n_steps) return false;
    return step == r->exec->n_steps - 1;
}

static void count_segment(run *r, const gale__onnx_segment *g, gale_program *program)
{
    gale__mutex_lock(&program->lock);
    told.run_us += program->last.run_us;
    gale__mutex_unlock(&program->lock);
    gale__mutex_lock(&r->session->lock); /* other threads count too */
    r->session->counts.segments++;
    r->session->counts.nodes_on_device += (uint64_t)g->n_nodes;
    gale__mutex_unlock(&r->session->lock);
}

static gale_status keep_results(run *r, const gale__onnx_segment *g, gale_tensor **made)
{
    for (int i = 0; i < g->n_outputs; i++) {
        gale_tensor *given = given_for(r, g->outputs[i]);
        if (given && made[i] == given) {
            made[i] = NULL;
            GALE_TRY(gale_object_tensor(given, &r->values[g->outputs[i]]));
        } else GALE_TRY(gale__onnx_object_take(&made[i], &r->values[g->outputs[i]]));
    }
    return GALE_OK;
}

static gale_status run_segment(run *r, gale__onnx_segment *g, int step)
{
    gale_tensor *few[2][GALE__ONNX_FEW] = {{0}},
                **in = g->n_inputs <= GALE__ONNX_FEW ? few[0] : gale__calloc((size_t)g->n_inputs, sizeof *in),
                **out = g->n_outputs <= GALE__ONNX_FEW ? few[1] : gale__calloc((size_t)g->n_outputs, sizeof *out);
    gale_program *program = NULL;
    gale_status status = GALE_NO_MEMORY;
    if (!in || !out) goto done;
    for (int i = 0; i < g->n_inputs; i++) GALE_GO(tensor_of(r, g, g->inputs[i], &in[i]));
    for (int i = 0; i < g->n_outputs; i++) {
        gale_tensor *given = given_for(r, g->outputs[i]);
        if (!still_read(r, given, step)) out[i] = given;
    }
    GALE_GO(gale__onnx_segment_program(r->session, r->net, g, in, &program));
    GALE_GO(gale_program_run(program, in, out, r->on_host && ends_here(r, g, step) ? GALE_RUN_ON_HOST : 0));
    status = keep_results(r, g, out);
    count_segment(r, g, program);
done:
    for (int i = 0; out && i < g->n_outputs; i++)
        if (out[i] && out[i] != given_for(r, g->outputs[i])) gale_tensor_destroy(&out[i]);
    if (in != few[0]) gale__free(in);
    if (out != few[1]) gale__free(out);
    return status;
}

gale_status gale__onnx_object_to_host(gale_object *object, gale_object **out)
{
    gale_tensor *moved = NULL;
    gale_status status = GALE_OK;
    /* A constant of the file is given out in memory of its own: the file may become shorter, and the caller may write.
     */
    if (object->kind == GALE_OBJECT_TENSOR && (object->tensor->device || gale__tensor_borrowed(object->tensor))) {
        GALE_TRY(gale_tensor_to_device(object->tensor, NULL, &moved));
        return gale__onnx_object_take(&moved, out);
    }
    if (object->kind != GALE_OBJECT_SEQUENCE) return *out = gale__onnx_object_hold(object), GALE_OK;
    gale_object **items = gale__calloc(object->count + 1, sizeof *items);
    if (!items) return GALE_NO_MEMORY;
    for (size_t i = 0; status == GALE_OK && i < object->count; i++)
        status = gale__onnx_object_to_host(object->items[i], &items[i]);
    if (status == GALE_OK) status = gale_object_sequence(items, object->count, out);
    for (size_t i = 0; i < object->count; i++) gale_object_destroy(&items[i]);
    gale__free(items);
    return status;
}

static bool is_numbers(const gale_object *o)
{
    return o && o->kind == GALE_OBJECT_TENSOR && gale_tensor_type(o->tensor) != GALE_STRING;
}

/* Keeps account: numbers made of numbers on the host are what a device should have done. */
static void count_host(run *r, const gale__onnx_host_op *op, const gale__onnx_host_call *c)
{
    bool in = false, out = false;
    for (int i = 0; i < c->n_in; i++) in |= is_numbers(c->in[i]);
    for (int i = 0; i < c->n_out; i++) out |= is_numbers(c->out[i]);
    gale__mutex_lock(&r->session->lock);
    if (op->anywhere) r->session->counts.host_moves++;
    else if (in && out) r->session->counts.host_numbers++, r->session->counts.host_number_op = op->name;
    else r->session->counts.host_strings++;
    gale__mutex_unlock(&r->session->lock);
}

static gale_status call_host(run *r, const gale__onnx_net_node *n, gale_object **in, gale_object **out)
{
    const gale__onnx_host_op *op = gale__onnx_host_find(n->domain, n->op);
    gale__onnx_host_call call = {
        .node = n, .in = in, .n_in = n->n_in, .out = out, .n_out = n->n_out, .session = r->session};
    if (n->n_in < op->least)
        return gale__onnx_net_fail(n, GALE_FORMAT, "it has %d inputs; the operator needs %d", n->n_in, op->least);
    if (op->most >= 0 && n->n_in > op->most)
        return gale__onnx_net_fail(
            n, GALE_FORMAT, "it has %d inputs; the operator takes at most %d", n->n_in, op->most);
    if (op->results >= 0 && n->n_out > op->results)
        return gale__onnx_net_fail(
            n, GALE_FORMAT, "it has %d outputs; the operator has at most %d", n->n_out, op->results);
    for (int i = 0; i < n->n_in; i++) {
        gale_object *object;
        GALE_TRY(value_of(r, n->in[i], &object));
        if (!object) continue;
        if (op->anywhere) in[i] = gale__onnx_object_hold(object);
        else GALE_TRY(gale__onnx_object_to_host(object, &in[i]));
    }
    gale_status status = op->run(&call);
    if (status == GALE_OK) count_host(r, op, &call);
    gale__arena_finish(&call.arena);
    return status;
}

static gale_status run_node(run *r, const gale__onnx_net_node *n, gale__onnx_runner runner)
{
    gale_object **in = gale__calloc((size_t)n->n_in + 1, sizeof *in),
                **out = gale__calloc((size_t)n->n_out + 1, sizeof *out);
    gale_status status = GALE_NO_MEMORY;
    if (!in || !out) goto done;
    if (runner == GALE__RUNS_ON_HOST) GALE_GO(call_host(r, n, in, out));
    else {
        gale_object *unused;
        for (int i = 0; i < n->n_in; i++) GALE_GO(value_of(r, n->in[i], &unused));
        GALE_GO(gale__onnx_control_run(r->session, r->net, n, r->values, out));
    }
    for (int i = 0; i < n->n_out; i++) {
        if (n->out[i] < 0) continue;
        if (!out[i]) {
            status = gale__fail(GALE_INTERNAL, "result %d is missing", i);
            goto done;
        }
        r->values[n->out[i]] = out[i];
        out[i] = NULL;
    }
done:
    if (status != GALE_OK) status = gale__fail_within(status, "%s", n->where);
    for (int i = 0; in && i < n->n_in; i++) gale_object_destroy(&in[i]);
    for (int i = 0; out && i < n->n_out; i++) gale_object_destroy(&out[i]);
    gale__free(in);
    gale__free(out);
    return status;
}

/* Shows what a step made to whoever watches. */
static gale_status show(run *r, const gale__onnx_exec_step *step)
{
    if (!r->session->watch || r->net != r->session->net) return GALE_OK;
    const int32_t *out = step->segment ? step->segment->outputs : r->net->nodes[step->node].out;
    int n = step->segment ? step->segment->n_outputs : r->net->nodes[step->node].n_out;
    for (int i = 0; i < n; i++)
        if (out[i] >= 0 && r->values[out[i]])
            GALE_TRY(r->session->watch(r->session->watch_user, r->net, out[i], r->values[out[i]]));
    return GALE_OK;
}

/* Lets go of what no later step reads. */
static void release(run *r, int step)
{
    for (int i = 0; i < r->net->n_values; i++)
        if (r->values[i] && r->exec->last_use[i] <= step) gale_object_destroy(&r->values[i]);
}

/* Steps draw random numbers of their own from the seed of the run. */
static gale_status run_step(run *r, gale__onnx_exec_step *step, int number)
{
    gale__limits own = {.seed = gale__seed_mix(gale__limits_seed(), (uint64_t)number)};
    gale__limits_enter(&own);
    gale_status status = step->segment ? run_segment(r, step->segment, number)
                                       : run_node(r, &r->net->nodes[step->node], (gale__onnx_runner)step->runner);
    gale__limits_leave(&own);
    return status;
}

gale_status gale__onnx_exec_ask(const gale__onnx_session *s)
{
    const gale_model_options *o = &s->options;
    if (!o->progress || o->progress(o->user, told.step, told.steps)) return GALE_OK;
    return gale__fail(GALE_CANCELLED, "the run was cancelled");
}

static gale_status tell(const run *r, int step)
{
    if (r->net == r->session->net) {
        told.step = step;
        told.steps = r->exec->n_steps;
    }
    return gale__onnx_exec_ask(r->session);
}

static gale_status run_steps(run *r)
{
    if (r->net == r->session->net) told.run_us = 0;
    for (int i = 0; i < r->exec->n_steps; i++) {
        gale__onnx_exec_step *step = &r->exec->steps[i];
        GALE_TRY(tell(r, i));
        GALE_TRY(gale__limits_check());
        GALE_TRY(run_step(r, step, i));
        GALE_TRY(show(r, step));
        if (r->exec->n_steps > 1) release(r, i);
    }
    if (r->net != r->session->net) return GALE_OK;
    gale__mutex_lock(&r->session->lock);
    r->session->counts.run_us = told.run_us;
    gale__mutex_unlock(&r->session->lock);
    return tell(r, r->exec->n_steps);
}

/* Into the caller's tensor, if given and the result is elsewhere. */
static gale_status deliver(run *r, int i, gale_object **out)
{
    gale_object *object, *moved = NULL;
    GALE_TRY(value_of(r, r->net->outputs[i], &object));
    if (!object) return gale__fail(GALE_INTERNAL, "output %d has no value", i);
    gale_tensor *given = r->given && r->given[i] ? r->given[i]->tensor : NULL;
    if (given) {
        if (object->kind != GALE_OBJECT_TENSOR)
            return gale__fail(GALE_INVALID, "output %s is not a tensor", r->net->declared[i].name);
        bool there =
            object->tensor->buffer ? object->tensor->buffer == given->buffer : object->tensor->host == given->host;
        if (!there) GALE_TRY(gale__tensor_assign(given, object->tensor));
        *out = r->given[i];
        return GALE_OK;
    }
    if (!r->on_host) return *out = gale__onnx_object_hold(object), GALE_OK;
    GALE_TRY(gale__onnx_object_to_host(object, &moved));
    *out = moved;
    return GALE_OK;
}

static gale_status deliver_all(run *r, gale_object **outputs)
{
    gale_object *few[GALE__ONNX_FEW] = {0}, **made = r->net->n_outputs <= GALE__ONNX_FEW
                                                         ? few
                                                         : gale__calloc((size_t)r->net->n_outputs, sizeof *made);
    gale_status status = made ? GALE_OK : GALE_NO_MEMORY;
    for (int i = 0; status == GALE_OK && i < r->net->n_outputs; i++) status = deliver(r, i, &made[i]);
    for (int i = 0; made && i < r->net->n_outputs; i++) {
        if (status == GALE_OK) outputs[i] = made[i];
        else if (!r->given || made[i] != r->given[i]) gale_object_destroy(&made[i]);
    }
    if (made != few) gale__free(made);
    return status;
}

gale_status gale__onnx_exec_run(
    gale__onnx_session *s, gale__onnx_net *net, gale_object *const *inputs, gale_object **outputs, bool on_host)
{
    run r = {.session = s, .net = net, .exec = net->exec, .on_host = on_host, .given = outputs};
    gale_object *few[GALE__ONNX_FEW] = {0};
    gale_status status;
    r.values = net->n_values <= GALE__ONNX_FEW ? few : gale__calloc((size_t)net->n_values, sizeof *r.values);
    if (!r.values) return GALE_NO_MEMORY;
    for (int i = 0; i < net->n_inputs; i++)
        if (inputs[i]) r.values[net->inputs[i]] = gale__onnx_object_hold(inputs[i]);
    GALE_GO(run_steps(&r));
    status = deliver_all(&r, outputs);
done:
    for (int i = 0; i < net->n_values; i++) gale_object_destroy(&r.values[i]);
    if (r.values != few) gale__free(r.values);
    return status;
}
