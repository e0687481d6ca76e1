/* Scan whose body is more than numbers of fixed shapes: strings, sequences, choices, extents that depend on data.  Each
 * step runs the body as a net of its own on slices that are cut where the tensors are; other bodies are a loop of the
 * device (ops/scan.c). */
#include "onnx/run/control.h"
#include "onnx/host/host.h"
#include "onnx/run/texts.h"
#include <string.h>

typedef struct scan {
    gale__onnx_control *control;
    gale__onnx_net *body;
    int states, sliced, stacked;
    int64_t trips;
    gale_object **given;   /* states, then slices */
    gale_object **results; /* of one step: states, then what is stacked */
    gale__onnx_stack *stacks;
} scan;

/* Number i of an attribute's list, 0 where it has none. */
static int64_t flag(const scan *s, const char *name, int i)
{
    const gale_attr *a = gale__onnx_net_attr(s->control->node, name);
    return a && a->kind == GALE_ATTR_INTS && (size_t)i < a->count ? a->ints[i] : 0;
}

/* An operator that moves elements, of numbers or strings. */
static gale_status move(
    const scan *s, const char *op, gale_tensor *const *in, int n_in, const gale_attr *attr, gale_tensor **out)
{
    gale__onnx_host_call call = {.node = s->control->node, .session = s->control->session};
    gale__onnx_move v = {.op = op, .in = in, .n_in = n_in, .attrs = attr, .n_attrs = 1};
    gale_status status = gale__onnx_host_move_as(&call, &v, &(bool){true}, out, 1);
    gale__arena_finish(&call.arena);
    return status;
}

/* The tensor of scanned input i, and the axis that it is scanned along. */
static gale_status sliced_input(const scan *s, int i, gale_tensor **out, int *axis)
{
    gale_object *o = gale__onnx_control_input(s->control, s->states + i);
    if (!o || o->kind != GALE_OBJECT_TENSOR) return gale__fail(GALE_INVALID, "scanned input %d is not a tensor", i);
    *out = o->tensor;
    return gale__onnx_host_axis(flag(s, "scan_input_axes", i), gale_tensor_rank(o->tensor), axis);
}

static gale_status begin(scan *s)
{
    const gale__onnx_net_node *node = s->control->node;
    int64_t sliced = gale__onnx_net_attr_i(node, "num_scan_inputs", 0);
    GALE_TRY(gale__onnx_control_body(s->control, "body", &s->body));
    int own = s->body->n_inputs - s->body->n_captures;
    if (sliced < 1 || sliced > node->n_in || node->n_in != own || s->body->n_outputs < own - sliced ||
        node->n_out > s->body->n_outputs)
        return gale__fail(GALE_FORMAT,
            "a body with %d inputs and %d outputs does not match %d inputs, %lld of them scanned, and %d outputs", own,
            s->body->n_outputs, node->n_in, (long long)sliced, node->n_out);
    s->sliced = (int)sliced;
    s->states = node->n_in - s->sliced;
    s->stacked = s->body->n_outputs - s->states;
    for (int i = 0; i < s->sliced; i++) {
        gale_tensor *t;
        int axis;
        GALE_TRY(sliced_input(s, i, &t, &axis));
        int64_t trips = gale_tensor_dims(t)[axis];
        if (i && trips != s->trips)
            return gale__fail(
                GALE_INVALID, "scanned inputs differ in length: %lld and %lld", (long long)s->trips, (long long)trips);
        s->trips = trips;
    }
    s->given = gale__calloc((size_t)node->n_in + 1, sizeof *s->given);
    s->results = gale__calloc((size_t)s->body->n_outputs + 1, sizeof *s->results);
    s->stacks = gale__calloc((size_t)s->stacked + 1, sizeof *s->stacks);
    if (!s->given || !s->results || !s->stacks) return GALE_NO_MEMORY;
    for (int i = 0; i < s->states; i++) {
        gale_object *first = gale__onnx_control_input(s->control, i);
        if (!first) return gale__fail(GALE_FORMAT, "state %d has no initial value", i);
        s->given[i] = gale__onnx_object_hold(first);
    }
    return GALE_OK;
}

/* Slice `at` of scanned input i, without the axis. */
static gale_status cut(const scan *s, int i, int64_t at, gale_object **out)
{
    gale_tensor *in[2] = {NULL, NULL}, *made = NULL;
    int axis;
    GALE_TRY(sliced_input(s, i, &in[0], &axis));
    if (flag(s, "scan_input_directions", i)) at = s->trips - 1 - at;
    GALE_TRY(gale_tensor_from_cpu(NULL, GALE_I64, 0, NULL, &at, &in[1]));
    gale_status status = move(s, "Gather", in, 2, &(gale_attr)GALE_INT("axis", axis), &made);
    gale_tensor_destroy(&in[1]);
    return status == GALE_OK ? gale__onnx_object_take(&made, out) : status;
}

static gale_status step(scan *s, int64_t at)
{
    GALE_TRY(gale__onnx_exec_ask(s->control->session));
    for (int i = 0; i < s->sliced; i++) {
        gale_object_destroy(&s->given[s->states + i]);
        GALE_TRY(cut(s, i, at, &s->given[s->states + i]));
    }
    GALE_TRY(gale__onnx_control_run_body(s->control, s->body, s->given, s->states + s->sliced, s->results));
    for (int i = 0; i < s->states; i++) {
        gale_object_destroy(&s->given[i]);
        s->given[i] = s->results[i];
        s->results[i] = NULL;
    }
    for (int i = 0; i < s->stacked; i++) GALE_TRY(gale__onnx_stack_push(&s->stacks[i], &s->results[s->states + i]));
    return GALE_OK;
}

/* Result i of those that are stacked: in the order and along the axis that are asked for. */
static gale_status finish_stack(const scan *s, int i, gale_object **out)
{
    gale__onnx_stack *stack = &s->stacks[i];
    gale_tensor *all = NULL, *turned = NULL;
    int64_t perm[GALE_MAX_RANK];
    int axis = 0, n = 0;
    for (size_t a = 0; flag(s, "scan_output_directions", i) && a < stack->count / 2; a++) {
        gale_object *swap = stack->items[a];
        stack->items[a] = stack->items[stack->count - 1 - a];
        stack->items[stack->count - 1 - a] = swap;
    }
    GALE_TRY(gale__onnx_stack_join(s->control, stack, s->body, s->states + i, &all));
    gale_status status = gale__onnx_host_axis(flag(s, "scan_output_axes", i), gale_tensor_rank(all), &axis);
    if (status == GALE_OK && axis) {
        for (int d = 1; d < gale_tensor_rank(all); d++) {
            if (n == axis) perm[n++] = 0;
            perm[n++] = d;
        }
        if (n == axis) perm[n++] = 0;
        status = move(s, "Transpose", &all, 1,
            &(gale_attr){.name = "perm", .kind = GALE_ATTR_INTS, .ints = perm, .count = (size_t)n}, &turned);
        gale_tensor_destroy(&all);
        all = turned;
    }
    if (status != GALE_OK) return gale_tensor_destroy(&all), status;
    return gale__onnx_object_take(&all, out);
}

gale_status gale__onnx_control_scan(gale__onnx_control *c)
{
    scan s = {.control = c};
    gale_status status;
    GALE_GO(begin(&s));
    for (int64_t i = 0; i < s.trips; i++) GALE_GO(step(&s, i));
    for (int i = 0; i < c->node->n_out; i++) {
        if (c->node->out[i] < 0) continue;
        if (i < s.states) c->out[i] = gale__onnx_object_hold(s.given[i]);
        else GALE_GO(finish_stack(&s, i - s.states, &c->out[i]));
    }
    status = GALE_OK;
done:
    for (int i = 0; s.given && i < s.states + s.sliced; i++) gale_object_destroy(&s.given[i]);
    for (int i = 0; s.results && i < s.body->n_outputs; i++) gale_object_destroy(&s.results[i]);
    for (int i = 0; s.stacks && i < s.stacked; i++) gale__onnx_stack_finish(&s.stacks[i]);
    gale__free(s.given);
    gale__free(s.results);
    gale__free(s.stacks);
    return status;
}
