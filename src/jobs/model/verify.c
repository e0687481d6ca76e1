/* Runs the same model on the CPU and on a device and compares every node's results.  The CPU runs first and its values
 * are kept; the device's are compared as they are computed.  Nodes run one by one, so that the first one that exceeds
 * the tolerance is named; the fused run, which is what users run, is compared at its outputs. */
#include "base/num.h"
#include "device/device.h"
#include "jobs/model/data_picture.h"
#include "jobs/model/engine.h"
#include "jobs/model/model_inputs.h"
#include "jobs/model/placement.h"
#include "onnx/run/model_place.h"
#include "onnx/run/session.h"
#include <math.h>
#include <string.h>

typedef struct check {
    const char *path;
    const gale_verify_options *options; /* `completed` */
    gale_verify_options completed;
    gale__job_stage stage;
    gale_object **kept; /* by value: the CPU's */
    int n_values;
    const char **outputs; /* of the reference: names, and values */
    int32_t *output_values;
    int n_outputs;
    gale_verify_result *result;
    gale_verify_value *values; /* the result's */
    double predicted_us;       /* of a run on the device; negative: not known */
} check;

static gale_status keep_value(void *user, const gale__onnx_net *net, int32_t value, gale_object *object)
{
    check *c = user;
    (void)net;
    return gale__onnx_object_to_host(object, &c->kept[value]);
}

static bool alike(const gale_object *a, const gale_object *b)
{
    if (a->kind != b->kind || a->kind != GALE_OBJECT_TENSOR) return false;
    int rank = gale_tensor_rank(a->tensor);
    return gale_tensor_type(a->tensor) == gale_tensor_type(b->tensor) && rank == gale_tensor_rank(b->tensor) &&
           (!rank || !memcmp(gale_tensor_dims(a->tensor), gale_tensor_dims(b->tensor), (size_t)rank * sizeof(int64_t)));
}

static gale_status add_value(check *c, const char *node, const char *name, gale_object *ours, gale_object *cpu)
{
    gale_verify_result *r = c->result;
    gale__arena *arena = gale__result_arena(r);
    gale_object *host = NULL;
    if (cpu->kind != GALE_OBJECT_TENSOR || gale_tensor_type(cpu->tensor) == GALE_STRING)
        return GALE_OK; /* the host made it either way */
    gale_verify_value v = {.node = gale__arena_strdup(arena, node), .name = gale__arena_strdup(arena, name)};
    if (!v.node || !v.name) return GALE_NO_MEMORY;
    GALE_TRY(gale__onnx_object_to_host(ours, &host));
    if (alike(host, cpu)) {
        gale_type type = gale_tensor_type(cpu->tensor);
        size_t size = gale_type_size(type), n = size ? gale_tensor_size_bytes(cpu->tensor) / size : 0;
        v.relative = gale__relative_difference(
            type, gale_tensor_data(host->tensor), gale_tensor_data(cpu->tensor), n, &v.largest);
    } else v.relative = v.largest = INFINITY;
    gale_object_destroy(&host);
    v.exceeds = !(v.relative <= r->tolerance) && v.largest > 1e-6;
    gale_verify_value *to = gale__arena_add(arena, &c->values, &r->n_values, sizeof *to);
    if (!to) return GALE_NO_MEMORY;
    *to = v;
    return GALE_OK;
}

static gale_status compare(void *user, const gale__onnx_net *net, int32_t value, gale_object *object)
{
    check *c = user;
    const gale__onnx_net_value *v = &net->values[value];
    if (!c->kept[value]) return GALE_OK;
    return add_value(c, v->node >= 0 ? net->nodes[v->node].where : "input", v->name, object, c->kept[value]);
}

static gale_precision precision_of(const gale_model_options *o)
{
    return o->program.precision ? o->program.precision : o->precision;
}

/* What everything is compared with runs in the model's own precision. */
static gale_status open_model(check *c, gale_device *device, bool reference, gale_model **out)
{
    gale_model_options options = c->options->model;
    if (reference) options.precision = options.program.precision = GALE_PRECISION_AS_IT_IS;
    const char *path = reference || !c->options->other ? c->path : c->options->other;
    return gale__model_open_with(path, device, &options, &c->options->inputs, &c->stage, out);
}

/* What the reference gives, and where it is kept. */
static gale_status keep_outputs(check *c, const gale__onnx_net *net)
{
    gale__arena *arena = gale__result_arena(c->result);
    c->outputs = gale__arena_alloc(arena, ((size_t)net->n_outputs + 1) * sizeof *c->outputs);
    c->output_values = gale__arena_copy(arena, net->outputs, (size_t)net->n_outputs * sizeof *c->output_values);
    if (!c->outputs || !c->output_values) return GALE_NO_MEMORY;
    for (int i = 0; i < net->n_outputs; i++)
        if (!(c->outputs[i] = gale__arena_strdup(arena, net->declared[i].name))) return GALE_NO_MEMORY;
    c->n_outputs = net->n_outputs;
    return GALE_OK;
}

/* The reference's output for one of this name, or at this place where names differ; NULL: none. */
static gale_object *output_for(const check *c, const gale__onnx_net *net, int index)
{
    int found = c->n_outputs == net->n_outputs ? index : -1;
    for (int i = 0; i < c->n_outputs; i++)
        if (!strcmp(c->outputs[i], net->declared[index].name)) found = i;
    return found < 0 ? NULL : c->kept[c->output_values[found]];
}

/* One run with every value shown to `watch`; the first one is the reference. */
static gale_status run_watched(check *c, gale_device *device, gale__onnx_watch *watch)
{
    gale_model *m = NULL;
    gale_object **in = NULL;
    gale_status status;
    c->stage.name = c->kept ? "nodes" : "reference";
    GALE_GO(open_model(c, device, !c->kept, &m));
    gale__onnx_session *s = gale__onnx_model_session(m);
    s->watch = watch;
    s->watch_user = c;
    if (!c->kept) {
        c->n_values = s->net->n_values;
        c->kept = gale__calloc((size_t)c->n_values + 1, sizeof *c->kept);
        GALE_GO(c->kept ? keep_outputs(c, s->net) : GALE_NO_MEMORY);
    }
    GALE_GO(gale__onnx_exec_expose(s->net));
    GALE_GO(gale__model_inputs_make(m, &c->options->inputs, true, &in));
    status = gale__model_run_once(m, in, c->options->inputs.seed, true, NULL);
done:
    if (m) gale__objects_free(&in, gale_model_inputs(m));
    gale_model_close(&m);
    return status;
}

/* The run as it is used, compared at its outputs. */
static gale_status run_fused(check *c, gale_device *device)
{
    gale_model *m = NULL;
    gale_object **in = NULL, **out = NULL;
    gale_status status;
    c->stage.name = "fused run";
    GALE_GO(open_model(c, device, false, &m));
    GALE_GO(gale__model_inputs_make(m, &c->options->inputs, true, &in));
    GALE_GO(gale__model_run_once(m, in, c->options->inputs.seed, true, &out));
    const gale__onnx_net *net = gale__onnx_model_session(m)->net;
    gale__place_note(device, "a run", c->predicted_us, gale__onnx_model_session(m)->counts.run_us);
    for (int i = 0; i < net->n_outputs; i++) {
        gale_object *reference = output_for(c, net, i);
        if (!reference && c->options->other)
            GALE_GO(gale__fail(GALE_MISMATCH, "%s has no output \"%s\", which %s has", c->path, net->declared[i].name,
                c->options->other));
        if (reference) GALE_GO(add_value(c, "output of the fused run", net->declared[i].name, out[i], reference));
    }
done:
    if (m) gale__objects_free(&in, gale_model_inputs(m));
    if (m) gale__objects_free(&out, gale_model_outputs(m));
    gale_model_close(&m);
    return status;
}

/* The run as it is used, compared with that of another engine. */
static gale_status run_against(check *c, gale_device *device)
{
    gale_model *m = NULL;
    gale_object **in = NULL, **out = NULL, **theirs = NULL;
    char version[64] = "";
    gale_status status;
    c->stage.name = "run";
    GALE_GO(open_model(c, device, false, &m));
    GALE_GO(gale__model_inputs_make(m, &c->options->inputs, true, &in));
    GALE_GO(gale__model_run_once(m, in, c->options->inputs.seed, true, &out));
    int n = gale_model_outputs(m);
    theirs = gale__calloc((size_t)n + 1, sizeof *theirs);
    GALE_GO(theirs ? GALE_OK : GALE_NO_MEMORY);
    GALE_GO(gale__engine_run(c->options->against, c->path, m, in, theirs, version));
    for (int i = 0; i < n; i++) {
        const char *name = gale__onnx_model_session(m)->net->declared[i].name;
        if (theirs[i]) GALE_GO(add_value(c, "output", name, out[i], theirs[i]));
    }
    c->result->against = gale__arena_strdup(gale__result_arena(c->result), version);
    status = c->result->against ? GALE_OK : GALE_NO_MEMORY;
done:
    if (m) gale__objects_free(&in, gale_model_inputs(m));
    if (m) gale__objects_free(&out, gale_model_outputs(m));
    if (m) gale__objects_free(&theirs, gale_model_outputs(m));
    gale_model_close(&m);
    return status;
}

static bool keeps(const check *c, gale_type type)
{
    for (int i = 0; i < c->n_values; i++)
        if (c->kept[i] && c->kept[i]->kind == GALE_OBJECT_TENSOR && gale_tensor_type(c->kept[i]->tensor) == type)
            return true;
    return false;
}

/* Halves round every value, whether the options ask for them or the model has them; the tolerance is that of a network
 * of some dozen layers. */
static double tolerance_of(const check *c)
{
    const gale_verify_options *o = c->options;
    gale_precision precision = precision_of(&o->model);
    if (o->tolerance) return o->tolerance < 0 ? 0 : o->tolerance;
    if (precision == GALE_PRECISION_BF16 || keeps(c, GALE_BF16)) return 5e-2;
    return precision || keeps(c, GALE_F16) ? 1e-2 : 1e-4;
}

static void sum_up(check *c)
{
    gale_verify_result *r = c->result;
    r->values = c->values;
    r->first = r->n_values;
    for (size_t i = r->n_values; i-- > 0;) {
        r->exceeding += r->values[i].exceeds;
        if (r->values[i].exceeds) r->first = i;
    }
}

/* The device that a run of the model would use. */
static gale_status choose(check *c, gale_device **device)
{
    gale_verify_result *r = c->result;
    const char *path = c->options->other ? c->options->other : c->path;
    gale__placing p = {
        .model = &c->options->model, .inputs_wanted = &c->options->inputs, .random = true, .stage = &c->stage};
    GALE_TRY(gale__devices_for(*device, NULL, 0, gale__result_arena(r), &p));
    GALE_TRY(gale__model_choose(&p, path, gale__result_arena(r)));
    *device = p.chosen;
    c->predicted_us = p.predicted_us;
    r->placements = p.placements;
    r->n_placements = p.n_placements;
    return GALE_OK;
}

static gale_status verify(check *c, gale_device *device, gale_device *cpu)
{
    GALE_TRY(gale__inputs_complete(c->path, gale__result_arena(c->result), &c->completed.inputs));
    GALE_TRY(choose(c, &device));
    c->result->tolerance = tolerance_of(c);
    c->result->device = gale__arena_strdup(gale__result_arena(c->result), gale_device_get_info(device)->name);
    if (!c->result->device) return GALE_NO_MEMORY;
    c->result->against = "the CPU";
    if (c->options->against) {
        GALE_TRY(run_against(c, device));
        sum_up(c);
        return GALE_OK;
    }
    GALE_TRY(run_watched(c, cpu, keep_value));
    c->result->tolerance = tolerance_of(c);
    /* Values within a network of halves may exceed the tolerance, for example as small differences of large numbers:
     * only outputs count. */
    if (!precision_of(&c->options->model) && !c->options->other) GALE_TRY(run_watched(c, device, compare));
    GALE_TRY(run_fused(c, device));
    sum_up(c);
    return GALE_OK;
}

gale_status gale_model_verify(
    const char *path, gale_device *device, const gale_verify_options *options, gale_verify_result **out)
{
    GALE__NEED({"path", path}, {"device", device}, {"out", out});
    GALE__OPTIONS(options);
    GALE__WITHIN(device->context);
    static const gale_verify_options usual = {0};
    check c = {.path = path, .completed = options ? *options : usual};
    c.options = &c.completed;
    if (c.options->against && c.options->other)
        return gale__fail(GALE_INVALID, "verify: a second model and another engine cannot be combined");
    gale_device *cpu = NULL;
    c.stage.control = &c.options->control;
    GALE_TRY(gale_device_open(&(gale_device_options){.chain = "cpu"}, &cpu));
    c.result = gale__result_create(sizeof *c.result);
    gale_status status = c.result ? verify(&c, device, cpu) : GALE_NO_MEMORY;
    gale__objects_free(&c.kept, c.n_values);
    gale_device_close(&cpu);
    return gale__result_give(status, c.result, out);
}

GALE__RESULT_DESTROY(gale_verify_result)

GALE__RESULT_JSON(gale_verify_result, '{')
{
    gale__json_put_text(j, "device", r->device);
    gale__json_put_text(j, "against", r->against);
    gale__placements_json(j, r->placements, r->n_placements);
    gale__json_put_f64(j, "tolerance", r->tolerance);
    gale__json_open(j, "values", '[');
    for (size_t i = 0; i < r->n_values; i++) {
        const gale_verify_value *v = &r->values[i];
        gale__json_object(j);
        gale__json_put_text(j, "node", v->node);
        gale__json_put_text(j, "value", v->name);
        gale__json_put_f64(j, "relative", v->relative);
        gale__json_put_f64(j, "largest", v->largest);
        gale__json_put_bool(j, "exceeds", v->exceeds);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}
