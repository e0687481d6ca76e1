/* Where each part of a model runs and what it costs: predicted from the device's peak rates, and measured in one
 * steady-state run. */
#include "base/thread.h"
#include "device/ceilings.h"
#include "device/device.h"
#include "device/profiler.h"
#include "gale/machine.h"
#include "jobs/model/data_picture.h"
#include "jobs/model/explain_graph.h"
#include "jobs/model/model_inputs.h"
#include "onnx/run/session.h"

/* Time that the device's ceilings allow; 0 when they are not known. */
static double predict_us(const gale_device_ceilings *c, const gale__profiler_record *r)
{
    if (r->kind != GALE__SPAN_KERNEL || c->copy_gbps <= 0) return 0;
    return gale__ceiling_us(c, r->bytes, r->operations);
}

static gale_status describe_kernels(const gale_profiler *p, gale_explain_result *r)
{
    const gale_device_ceilings *ceilings = &gale_device_get_info(p->device)->ceilings;
    gale__arena *arena = gale__result_arena(r);
    gale_explain_kernel *kernels = gale__arena_alloc(arena, (p->count + 1) * sizeof *kernels);
    if (!kernels) return GALE_NO_MEMORY;
    r->kernels = kernels;
    for (; r->n_kernels < p->count; r->n_kernels++) {
        const gale__profiler_record *from = &p->records[r->n_kernels];
        gale_explain_kernel k = {.kind = gale__profiler_span_kind_name(from->kind),
            .operators = gale__arena_strdup(arena, from->op ? from->op : ""),
            .name = gale__arena_strdup(arena, from->name ? from->name : ""),
            .bytes = from->bytes,
            .operations = from->operations,
            .predicted_us = predict_us(ceilings, from),
            .measured_us = from->time_us};
        if (!k.operators || !k.name) return GALE_NO_MEMORY;
        if (k.measured_us > 0) r->measured_us += k.measured_us;
        r->predicted_us += k.predicted_us;
        kernels[r->n_kernels] = k;
    }
    return GALE_OK;
}

static gale_status describe_device(const char *path, gale_device *device, gale_explain_result *r)
{
    gale__arena *arena = gale__result_arena(r);
    const gale_device_info *d = gale_device_get_info(device);
    r->model = gale__arena_strdup(arena, path);
    r->backend = gale__arena_strdup(arena, d->backend);
    r->device = gale__arena_strdup(arena, d->name);
    r->driver = gale__arena_strdup(arena, d->driver);
    r->why = gale__arena_strdup(arena, gale_device_why(device));
    r->device_index = d->index;
    return r->model && r->backend && r->device && r->driver && r->why ? GALE_OK : GALE_NO_MEMORY;
}

/* The second run is steady; a third one under the profiler is told. */
static gale_status run_profiled(gale_model *m, gale_device *device, gale_object **inputs, gale_explain_result *r)
{
    gale_profiler *profiler = NULL;
    double ms;
    GALE_TRY(gale__model_run_timed(m, inputs, &r->first_ms));
    GALE_TRY(gale__model_run_timed(m, inputs, &ms));
    GALE_TRY(gale_profiler_start(device, &profiler));
    gale_status status = gale__model_run_timed(m, inputs, &ms);
    gale_status stopped = gale_profiler_stop(profiler);
    if (status == GALE_OK) status = stopped;
    if (status == GALE_OK) status = describe_kernels(profiler, r);
    gale_profiler_destroy(&profiler);
    return status;
}

/* What the device can do at most, which takes half a second; it is kept for the next time.  Without it nothing can be
 * predicted, but all the rest can be told. */
static void measure(gale_device *device)
{
    if (gale_device_measure(device) == GALE_OK) return;
    gale__log(GALE__WARN, "the device could not be measured, so there are no predictions: %s", gale_error());
    gale__error_clear();
}

static gale_status explain(
    const char *path, gale_device *device, const gale_model_job_options *options, gale_explain_result *r)
{
    gale_model_job_options completed = *options, *o = &completed;
    gale__job_stage stage = {&o->control, "run"};
    gale_model *m = NULL;
    gale_object **inputs = NULL;
    gale_status status;
    GALE_GO(gale__inputs_complete(path, gale__result_arena(r), &completed.inputs));
    GALE_GO(gale__job_tell(&o->control, "ceilings", "devices", 0, 1));
    if (!o->no_run && gale_device_get_info(device)->ceilings.copy_gbps <= 0) measure(device);
    GALE_GO(gale__job_tell(&o->control, "ceilings", "devices", 1, 1));
    uint64_t start = gale__time_ns();
    GALE_GO(gale__model_open_with(path, device, &o->model, &o->inputs, &stage, &m));
    r->open_ms = (double)(gale__time_ns() - start) / 1e6;
    if (!o->no_run) {
        GALE_GO(gale__model_inputs_make(m, &o->inputs, true, &inputs));
        GALE_GO(run_profiled(m, device, inputs, r));
    }
    GALE_GO(describe_device(path, device, r));
    status = gale__explain_graphs(gale__onnx_model_session(m)->net, r);
done:
    if (m) gale__objects_free(&inputs, gale_model_inputs(m));
    gale_model_close(&m);
    return status;
}

gale_status gale_model_explain(
    const char *path, gale_device *device, const gale_model_job_options *options, gale_explain_result **out)
{
    GALE__NEED({"path", path}, {"device", device}, {"out", out});
    GALE__OPTIONS(options);
    GALE__WITHIN(device->context);
    static const gale_model_job_options usual = {0};
    gale_explain_result *result = gale__result_create(sizeof *result);
    gale_status status = result ? explain(path, device, options ? options : &usual, result) : GALE_NO_MEMORY;
    return gale__result_give(status, result, out);
}

GALE__RESULT_DESTROY(gale_explain_result)
