/* Control flow over data: If, Loop and SequenceMap run their bodies as separate nets (Scan: control_scan.c).  Carried
 * values stay on their device; only the condition is copied to the host, and not even that if the body cannot change
 * it. */
#include "onnx/run/control.h"
#include "base/limits.h"
#include "base/num.h"
#include "base/seed.h"
#include "graph/run/tensor.h"
#include <string.h>

typedef gale__onnx_control control;
typedef gale__onnx_stack stack;

static gale_object *input(const control *c, int i) { return gale__onnx_control_input(c, i); }

gale_status gale__onnx_control_body(const control *c, const char *name, gale__onnx_net **out)
{
    for (int i = 0; i < c->node->n_bodies; i++)
        if (!strcmp(c->node->bodies[i].name, name)) return *out = c->node->bodies[i].net, GALE_OK;
    return gale__fail(GALE_FORMAT, "missing attribute %s", name);
}

/* A whole number or truth value of one element, brought to the host. */
static gale_status read_one(gale_object *object, const char *what, int64_t *out)
{
    uint64_t bits = 0;
    if (!object || object->kind != GALE_OBJECT_TENSOR || gale__onnx_tensor_count(object->tensor) != 1 ||
        object->tensor->size_bytes > sizeof bits || gale_tensor_type(object->tensor) == GALE_STRING)
        return gale__fail(GALE_INVALID, "%s must be a single number", what);
    GALE_TRY(gale_tensor_to_cpu(object->tensor, &bits, object->tensor->size_bytes));
    *out = gale__load_i64(gale_tensor_type(object->tensor), &bits);
    return GALE_OK;
}

gale_status gale__onnx_control_run_body(
    control *c, gale__onnx_net *body, gale_object *const *given, int n_given, gale_object **results)
{
    gale_object *few[GALE__ONNX_FEW] = {0},
                **in = body->n_inputs <= GALE__ONNX_FEW ? few : gale__calloc((size_t)body->n_inputs, sizeof *in);
    gale_status status;
    int own = body->n_inputs - body->n_captures;
    if (!in) return GALE_NO_MEMORY;
    for (int i = 0; i < own && i < n_given; i++) in[i] = given[i];
    for (int i = 0; i < body->n_captures; i++) in[own + i] = c->values[body->captures[i]];
    gale__limits drawn = {.seed = gale__seed_mix(gale__limits_seed(), c->ran++)};
    gale__limits_enter(&drawn);
    status = gale__onnx_exec_run(c->session, body, in, results, false);
    gale__limits_leave(&drawn);
    if (in != few) gale__free(in);
    return status;
}

static gale_status run_if(control *c)
{
    int64_t yes;
    gale__onnx_net *body = NULL;
    GALE_TRY(read_one(input(c, 0), "the condition", &yes));
    GALE_TRY(gale__onnx_control_body(c, yes ? "then_branch" : "else_branch", &body));
    if (body->n_outputs < c->node->n_out)
        return gale__fail(GALE_FORMAT, "a branch has %d results, but %d are needed", body->n_outputs, c->node->n_out);
    gale_object **results = gale__calloc((size_t)body->n_outputs + 1, sizeof *results);
    if (!results) return GALE_NO_MEMORY;
    gale_status status = gale__onnx_control_run_body(c, body, NULL, 0, results);
    for (int i = 0; i < body->n_outputs; i++) {
        if (status == GALE_OK && i < c->node->n_out) c->out[i] = results[i];
        else gale_object_destroy(&results[i]);
    }
    gale__free(results);
    return status;
}

gale_status gale__onnx_stack_push(stack *s, gale_object **object)
{
    GALE_TRY(gale__grow((void **)&s->items, &s->capacity, s->count + 1, sizeof *s->items));
    s->items[s->count++] = *object;
    *object = NULL;
    return GALE_OK;
}

void gale__onnx_stack_finish(stack *s)
{
    for (size_t i = 0; i < s->count; i++) gale_object_destroy(&s->items[i]);
    gale__free(s->items);
}

static gale_status check_alike(const stack *s)
{
    const gale_tensor *first = s->items[0]->tensor;
    for (size_t i = 0; i < s->count; i++) {
        const gale_tensor *t = s->items[i]->kind == GALE_OBJECT_TENSOR ? s->items[i]->tensor : NULL;
        if (!t) return gale__fail(GALE_UNSUPPORTED, "only tensors can be stacked by a loop");
        if (t->type != first->type || t->rank != first->rank ||
            (t->rank && memcmp(t->dims, first->dims, (size_t)t->rank * sizeof *t->dims)))
            return gale__fail(GALE_INVALID, "the result of step %zu has a different shape than that of step 0", i);
    }
    return first->rank < GALE_MAX_RANK ? GALE_OK
                                       : gale__fail(GALE_LIMIT, "a stack would have rank %d", first->rank + 1);
}

static gale_status join_strings(const stack *s, int rank, const int64_t *dims, gale_tensor **out)
{
    size_t each = (size_t)gale__tensor_elements(s->items[0]->tensor), n = each * s->count;
    const char **texts = gale__calloc(n + 1, sizeof *texts);
    size_t *sizes = gale__calloc(n + 1, sizeof *sizes);
    gale_status status = texts && sizes ? GALE_OK : GALE_NO_MEMORY;
    for (size_t i = 0; i < n && status == GALE_OK; i++)
        texts[i] = gale_tensor_string(s->items[i / each]->tensor, (int64_t)(i % each), &sizes[i]);
    if (status == GALE_OK) status = gale_tensor_from_strings(rank, dims, texts, sizes, out);
    gale__free(texts);
    gale__free(sizes);
    return status;
}

static gale_status join_numbers(const control *c, const stack *s, int rank, const int64_t *dims, gale_tensor **out)
{
    const gale_tensor *first = s->items[0]->tensor;
    gale_tensor *all = NULL;
    gale_stream *stream = NULL;
    gale_status status = GALE_OK;
    GALE_TRY(gale_tensor_create(c->session->device, first->type, rank, dims, &all));
    GALE_GO(gale_stream_create(c->session->device, &stream));
    for (size_t i = 0; i < s->count && first->size_bytes; i++) {
        const gale_tensor *t = s->items[i]->tensor;
        if (t->buffer && t->device == c->session->device)
            GALE_GO(gale_copy(stream, all->buffer, i * first->size_bytes, t->buffer, 0, first->size_bytes));
        else GALE_GO(gale__tensor_upload(t, stream, all->buffer, i * first->size_bytes));
    }
    GALE_GO(gale_stream_sync(stream));
done:
    gale_stream_destroy(&stream);
    if (status == GALE_OK) *out = all;
    else gale_tensor_destroy(&all);
    return status;
}

/* What a loop without a step stacks: nothing, in the shape that is declared for a step, else of the rank that follows
 * from what it is made of. */
static gale_status join_nothing(const gale__onnx_net *body, int output, gale_tensor **out)
{
    int64_t dims[GALE_MAX_RANK] = {0};
    const gale__onnx_net_value *declared = &body->declared[output],
                               *v = declared->rank < 0 ? &body->values[body->outputs[output]] : declared;
    int rank = v->rank < 0 ? 1 : v->rank + 1;
    for (int i = 0; i < v->rank && i + 1 < GALE_MAX_RANK; i++) dims[i + 1] = v->dims[i] < 0 ? 0 : v->dims[i];
    rank = rank < GALE_MAX_RANK ? rank : GALE_MAX_RANK;
    if (declared->type == GALE_STRING) return gale_tensor_from_strings(rank, dims, NULL, NULL, out);
    return gale_tensor_create(NULL, declared->type, rank, dims, out);
}

gale_status gale__onnx_stack_join(
    const control *c, const stack *s, const gale__onnx_net *body, int output, gale_tensor **out)
{
    int64_t dims[GALE_MAX_RANK] = {(int64_t)s->count};
    if (!s->count) return join_nothing(body, output, out);
    GALE_TRY(check_alike(s));
    const gale_tensor *first = s->items[0]->tensor;
    if (first->rank) memcpy(dims + 1, first->dims, (size_t)first->rank * sizeof *dims);
    return first->type == GALE_STRING ? join_strings(s, first->rank + 1, dims, out)
                                      : join_numbers(c, s, first->rank + 1, dims, out);
}

typedef struct loop {
    control *control;
    gale__onnx_net *body;
    gale_object **state;   /* number of the step, condition, carried values */
    gale_object **results; /* of one step */
    stack *stacks;
    int carried, stacked;
    int64_t trips;        /* at most; -1 without end */
    bool goes_on, steady; /* steady: the body does not change the condition */
    bool counts;          /* the body reads the number of the step */
} loop;

static gale_status host_scalar(gale_type type, int64_t value, gale_object **out)
{
    gale_tensor *t = NULL;
    uint8_t truth = value != 0;
    GALE_TRY(gale_tensor_from_cpu(NULL, type, 0, NULL, type == GALE_BOOL ? (void *)&truth : (void *)&value, &t));
    return gale__onnx_object_take(&t, out);
}

/* Whether the body's condition is the one it was given, or the constant true. */
static bool is_steady(const gale__onnx_net *body)
{
    int32_t v = body->outputs[0];
    while (body->values[v].node >= 0 && !strcmp(body->nodes[body->values[v].node].op, "Identity"))
        v = body->nodes[body->values[v].node].in[0];
    if (body->n_inputs - body->n_captures > 1 && v == body->inputs[1]) return true;
    const gale_tensor *k = body->values[v].constant;
    uint8_t yes = 0;
    return k && k->size_bytes == 1 && gale_tensor_to_cpu(k, &yes, 1) == GALE_OK && yes;
}

static bool reads_input(const gale__onnx_net *body, int i)
{
    const gale__onnx_exec *exec = body->exec;
    return i < body->n_inputs && exec->last_use[body->inputs[i]] >= 0;
}

static gale_status begin_loop(loop *l)
{
    control *c = l->control;
    int64_t go = 1;
    l->carried = c->node->n_in > 2 ? c->node->n_in - 2 : 0;
    l->stacked = l->body->n_outputs - 1 - l->carried;
    if (l->stacked < 0 || c->node->n_out > l->carried + l->stacked)
        return gale__fail(GALE_FORMAT,
            "the body has %d results; a condition, %d carried values and the stacked ones are needed",
            l->body->n_outputs, l->carried);
    l->trips = -1;
    if (input(c, 0) && input(c, 0)->kind != GALE_OBJECT_NONE)
        GALE_TRY(read_one(input(c, 0), "the trip count", &l->trips));
    if (input(c, 0) && l->trips < 0) l->trips = 0;
    if (input(c, 1) && input(c, 1)->kind != GALE_OBJECT_NONE) GALE_TRY(read_one(input(c, 1), "the condition", &go));
    l->goes_on = go;
    l->steady = is_steady(l->body);
    l->counts = reads_input(l->body, 0);
    if (l->trips < 0 && l->steady && l->goes_on)
        return gale__fail(
            GALE_INVALID, "the loop has no trip count and its condition never changes, so it would not end");
    l->state = gale__calloc((size_t)l->carried + 3, sizeof *l->state);
    l->results = gale__calloc((size_t)l->body->n_outputs + 1, sizeof *l->results);
    l->stacks = gale__calloc((size_t)l->stacked + 1, sizeof *l->stacks);
    if (!l->state || !l->results || !l->stacks) return GALE_NO_MEMORY;
    for (int i = 0; i < l->carried; i++) {
        gale_object *first = input(c, i + 2);
        if (!first) return gale__fail(GALE_FORMAT, "carried value %d has no initial value", i);
        l->state[i + 2] = gale__onnx_object_hold(first);
    }
    return GALE_OK;
}

static gale_status step_loop(loop *l, int64_t at)
{
    int64_t go = 1;
    GALE_TRY(gale__onnx_exec_ask(l->control->session));
    if (l->counts) gale_object_destroy(&l->state[0]);
    if (!l->state[0]) GALE_TRY(host_scalar(GALE_I64, at, &l->state[0]));
    if (!l->state[1]) GALE_TRY(host_scalar(GALE_BOOL, 1, &l->state[1]));
    GALE_TRY(gale__onnx_control_run_body(l->control, l->body, l->state, l->carried + 2, l->results));
    for (int i = 0; i < l->carried; i++) {
        gale_object_destroy(&l->state[i + 2]);
        l->state[i + 2] = l->results[i + 1];
        l->results[i + 1] = NULL;
    }
    for (int i = 0; i < l->stacked; i++)
        GALE_TRY(gale__onnx_stack_push(&l->stacks[i], &l->results[1 + l->carried + i]));
    if (!l->steady) GALE_TRY(read_one(l->results[0], "the body's condition", &go));
    gale_object_destroy(&l->results[0]);
    l->goes_on = go;
    return GALE_OK;
}

static gale_status run_loop(control *c)
{
    loop l = {.control = c};
    gale_status status;
    GALE_TRY(gale__onnx_control_body(c, "body", &l.body));
    if (l.body->n_outputs < 1) return gale__fail(GALE_FORMAT, "the body has no condition");
    GALE_GO(begin_loop(&l));
    for (int64_t i = 0; l.goes_on && (l.trips < 0 || i < l.trips); i++) GALE_GO(step_loop(&l, i));
    for (int i = 0; i < c->node->n_out; i++) {
        gale_tensor *all = NULL;
        if (i < l.carried) c->out[i] = gale__onnx_object_hold(l.state[i + 2]);
        else GALE_GO(gale__onnx_stack_join(c, &l.stacks[i - l.carried], l.body, 1 + i, &all));
        if (all) GALE_GO(gale__onnx_object_take(&all, &c->out[i]));
    }
    status = GALE_OK;
done:
    for (int i = 0; l.state && i < l.carried + 2; i++) gale_object_destroy(&l.state[i]);
    for (int i = 0; l.results && i < l.body->n_outputs; i++) gale_object_destroy(&l.results[i]);
    for (int i = 0; l.stacks && i < l.stacked; i++) gale__onnx_stack_finish(&l.stacks[i]);
    gale__free(l.state);
    gale__free(l.results);
    gale__free(l.stacks);
    return status;
}

/* One step of SequenceMap: item `at` of the sequences, and the tensors as they are. */
static gale_status map_item(control *c, gale__onnx_net *body, size_t at, gale_object **given, gale_object **results)
{
    for (int i = 0; i < c->node->n_in; i++) {
        gale_object *from = input(c, i);
        if (!from) return gale__fail(GALE_INVALID, "input %d has no value", i);
        if (from->kind == GALE_OBJECT_SEQUENCE && at >= from->count)
            return gale__fail(GALE_INVALID, "input %d has %zu items, but the first has more", i, from->count);
        given[i] = from->kind == GALE_OBJECT_SEQUENCE ? from->items[at] : from;
    }
    return gale__onnx_control_run_body(c, body, given, c->node->n_in, results);
}

static gale_status run_map(control *c)
{
    gale__onnx_net *body = NULL;
    gale_object *first = input(c, 0);
    GALE_TRY(gale__onnx_control_body(c, "body", &body));
    if (!first || first->kind != GALE_OBJECT_SEQUENCE)
        return gale__fail(GALE_INVALID, "its first input must be a sequence");
    if (body->n_outputs < c->node->n_out)
        return gale__fail(GALE_FORMAT, "the body has %d results, but %d are needed", body->n_outputs, c->node->n_out);
    gale_object **given = gale__calloc((size_t)c->node->n_in + 1, sizeof *given),
                **results = gale__calloc((size_t)body->n_outputs + 1, sizeof *results);
    stack *lists = gale__calloc((size_t)body->n_outputs + 1, sizeof *lists);
    gale_status status = given && results && lists ? GALE_OK : GALE_NO_MEMORY;
    for (size_t at = 0; status == GALE_OK && at < first->count; at++) {
        status = map_item(c, body, at, given, results);
        for (int i = 0; status == GALE_OK && i < body->n_outputs; i++)
            status = gale__onnx_stack_push(&lists[i], &results[i]);
    }
    for (int i = 0; status == GALE_OK && i < c->node->n_out; i++)
        status = gale_object_sequence(lists[i].items, lists[i].count, &c->out[i]);
    for (int i = 0; lists && results && i < body->n_outputs; i++)
        gale__onnx_stack_finish(&lists[i]), gale_object_destroy(&results[i]);
    gale__free(given);
    gale__free(results);
    gale__free(lists);
    return status;
}

gale_status gale__onnx_control_run(gale__onnx_session *s, gale__onnx_net *net, const gale__onnx_net_node *node,
    gale_object *const *values, gale_object **out)
{
    control c = {s, net, node, values, out, 0};
    if (!strcmp(node->op, "If")) return run_if(&c);
    if (!strcmp(node->op, "Loop")) return run_loop(&c);
    if (!strcmp(node->op, "Scan")) return gale__onnx_control_scan(&c);
    return run_map(&c);
}
