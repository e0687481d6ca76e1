/* How long a run of a model would take on several devices: its segments are planned one after the other, with tensors
 * of the right shapes, but without values, between them. */
#include "base/error.h"
#include "graph/run/forecast.h"
#include "onnx/run/session.h"

typedef struct forecast {
    gale__onnx_session *session;
    gale__onnx_net *net;
    gale_tensor **values; /* by value of the net; held where `made` */
    bool *made;
    gale_device *const *devices;
    int n;
    double *times_us;
} forecast;

static gale_status no_forecast(const char *why)
{
    return gale__fail(GALE_UNSUPPORTED, "the time of a run cannot be predicted: %s", why);
}

/* Values that only a run has are not there. */
static gale_status find_inputs(const forecast *f, const gale__onnx_segment *g, gale_tensor **in)
{
    for (int i = 0; i < g->n_inputs; i++) {
        int32_t v = g->inputs[i];
        in[i] = f->values[v] ? f->values[v] : f->net->values[v].constant;
        if (!in[i] || gale_tensor_type(in[i]) == GALE_STRING) return no_forecast("an input is missing or not numeric");
    }
    return GALE_OK;
}

static gale_status add_plan(forecast *f, const gale__onnx_segment *g, const gale__plan *plan)
{
    for (int i = 0; i < f->n; i++)
        if (f->times_us[i] >= 0) f->times_us[i] += gale__forecast_work_us(f->devices[i], plan);
    for (int i = 0; i < g->n_outputs; i++) {
        const gale__plan_result *r = &plan->results[i];
        GALE_TRY(gale_tensor_create(NULL, r->type, r->rank, r->dims, &f->values[g->outputs[i]]));
        f->made[g->outputs[i]] = true;
    }
    return GALE_OK;
}

static gale_status plan_segment(forecast *f, gale__onnx_segment *g)
{
    gale_tensor **in = gale__calloc((size_t)g->n_inputs + 1, sizeof *in);
    gale_program *program = NULL;
    gale__plan *plan = NULL;
    gale_status status = in ? find_inputs(f, g, in) : GALE_NO_MEMORY;
    if (status == GALE_OK) status = gale__onnx_segment_program(f->session, f->net, g, in, &program);
    for (int i = 0; status == GALE_OK && i < g->n_inputs; i++)
        if (program->plan_inputs[i] && f->made[g->inputs[i]])
            status = no_forecast("shapes depend on values that the model computes");
    if (status == GALE_OK) status = gale__program_plan(program, in, &plan);
    if (status == GALE_OK) status = add_plan(f, g, plan);
    gale__plan_destroy(&plan);
    gale__free(in);
    return status;
}

static void add_transfers(forecast *f)
{
    double up = 0, down = 0;
    for (int i = 0; i < f->net->n_inputs; i++) {
        const gale_tensor *t = f->values[f->net->inputs[i]];
        if (t) up += (double)gale_tensor_size_bytes(t);
    }
    for (int i = 0; i < f->net->n_outputs; i++) {
        const gale_tensor *t = f->values[f->net->outputs[i]];
        if (t) down += (double)gale_tensor_size_bytes(t);
    }
    for (int i = 0; i < f->n; i++)
        if (f->times_us[i] >= 0) f->times_us[i] += gale__forecast_transfer_us(f->devices[i], up, down);
}

static gale_status walk(forecast *f, gale_object *const *inputs)
{
    const gale__onnx_exec *e = f->net->exec;
    for (int i = 0; i < f->net->n_inputs; i++)
        if (inputs[i]) f->values[f->net->inputs[i]] = gale_object_get_tensor(inputs[i]);
    for (int i = 0; i < e->n_steps; i++) {
        if (!e->steps[i].segment) return no_forecast("parts of the model run on the host");
        GALE_TRY(plan_segment(f, e->steps[i].segment));
    }
    add_transfers(f);
    return GALE_OK;
}

gale_status gale_model_forecast(
    gale_model *m, gale_object *const *inputs, gale_device *const *devices, int n, double *times_us)
{
    GALE__NEED({"model", m}, {"devices", n < 1 || devices}, {"times_us", n < 1 || times_us});
    gale__onnx_session *s = gale__onnx_model_session(m);
    GALE__NEED({"inputs", !s->net->n_inputs || inputs});
    GALE__WITHIN(gale__onnx_model_session(m)->device->context);
    forecast f = {.session = s, .net = s->net, .devices = devices, .n = n};
    size_t values = (size_t)s->net->n_values + 1;
    f.values = gale__calloc(values, sizeof *f.values);
    f.made = gale__calloc(values, sizeof *f.made);
    f.times_us = gale__calloc((size_t)(n > 0 ? n : 0) + 1, sizeof *f.times_us);
    gale_status status = f.values && f.made && f.times_us ? GALE_OK : GALE_NO_MEMORY;
    for (int i = 0; i < n && status == GALE_OK; i++) f.times_us[i] = gale__forecast_known(devices[i]) ? 0 : -1;
    if (status == GALE_OK) status = walk(&f, inputs);
    for (int i = 0; i < n && status == GALE_OK; i++) times_us[i] = f.times_us[i];
    for (size_t i = 0; f.values && f.made && i < values; i++)
        if (f.made[i]) gale_tensor_destroy(&f.values[i]);
    gale__free(f.values);
    gale__free(f.made);
    gale__free(f.times_us);
    return status;
}
