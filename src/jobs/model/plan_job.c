/* What a run with given shapes needs and where its parts run.  Inputs are random, the model runs once, and the plans
 * are reported. */
#include "device/device.h"
#include "graph/run/program.h"
#include "jobs/model/model_inputs.h"
#include "onnx/run/session.h"

static void add_program(gale_program *p, gale_plan_result *t)
{
    for (gale__instance *i = p->instances; i; i = i->next) {
        t->bytes += i->plan->bytes;
        t->operations += i->plan->operations;
        t->n_kernels += i->plan->kernels;
        t->constant_bytes += i->plan->const_bytes;
        for (int s = 0; s < i->plan->n_slabs; s++) t->work_bytes += i->plan->slabs[s];
    }
}

static void add_net(const gale__onnx_net *net, gale_plan_result *t)
{
    const gale__onnx_exec *e = net->exec;
    for (int i = 0; i < e->n_steps; i++) {
        const gale__onnx_exec_step *s = &e->steps[i];
        t->n_nodes_on_device += s->segment ? s->segment->n_nodes : 0;
        t->n_host_steps += !s->segment;
        for (gale__onnx_variant *v = s->segment ? s->segment->variants : NULL; v; v = v->next)
            add_program(v->program, t);
        for (int b = 0; !s->segment && b < net->nodes[s->node].n_bodies; b++)
            add_net(net->nodes[s->node].bodies[b].net, t);
    }
}

static gale_status fill_result(gale_model *m, gale_device *device, gale_plan_result *r)
{
    gale__arena *arena = gale__result_arena(r);
    char *report = NULL;
    add_net(gale__onnx_model_session(m)->net, r);
    r->device = gale__arena_strdup(arena, gale_device_get_info(device)->name);
    if (!r->device) return GALE_NO_MEMORY;
    GALE_TRY(gale_model_report(m, 0, &report));
    r->report = gale__arena_strdup(arena, report);
    gale_free(report);
    return r->report ? GALE_OK : GALE_NO_MEMORY;
}

static gale_status plan(const char *path, gale_device *device, const gale_model_job_options *o, gale_plan_result *r)
{
    gale__job_stage stage = {&o->control, "run"};
    gale_model *m = NULL;
    gale_object **in = NULL;
    gale_status status;
    GALE_GO(gale__model_open_with(path, device, &o->model, &o->inputs, &stage, &m));
    GALE_GO(gale__model_inputs_make(m, &o->inputs, true, &in));
    GALE_GO(gale__model_run_once(m, in, 0, false, NULL));
    status = fill_result(m, device, r);
done:
    if (m) gale__objects_free(&in, gale_model_inputs(m));
    gale_model_close(&m);
    return status;
}

gale_status gale_model_plan(
    const char *path, gale_device *device, const gale_model_job_options *options, gale_plan_result **out)
{
    GALE__NEED({"path", path}, {"device", device}, {"out", out});
    GALE__OPTIONS(options);
    GALE__WITHIN(device->context);
    static const gale_model_job_options usual = {0};
    gale_plan_result *result = gale__result_create(sizeof *result);
    gale_status status = result ? plan(path, device, options ? options : &usual, result) : GALE_NO_MEMORY;
    return gale__result_give(status, result, out);
}

GALE__RESULT_DESTROY(gale_plan_result)

GALE__RESULT_JSON(gale_plan_result, '{')
{
    gale__json_put_text(j, "device", r->device);
    gale__json_put_i64(j, "nodes_on_device", r->n_nodes_on_device);
    gale__json_put_i64(j, "kernels", r->n_kernels);
    gale__json_put_i64(j, "host_steps", r->n_host_steps);
    gale__json_put_f64(j, "operations", r->operations);
    gale__json_put_f64(j, "bytes", r->bytes);
    gale__json_put_u64(j, "work_bytes", r->work_bytes);
    gale__json_put_u64(j, "constant_bytes", r->constant_bytes);
    gale__json_put_text(j, "report", r->report);
}
