/* Runs of a model in a queue: its thread runs the whole model, since what the steps between segments do is the host's
 * work. */
#include "base/error.h"
#include "graph/run/run.h"
#include "onnx/run/session.h"

typedef struct submitted {
    gale_model *model;
    gale_object **inputs, **given; /* held */
    gale_object **outputs;         /* the caller's array */
    int n_inputs, n_outputs;
} submitted;

static void end(void *arg)
{
    submitted *s = arg;
    for (int i = 0; s->inputs && i < s->n_inputs; i++) gale_object_destroy(&s->inputs[i]);
    for (int i = 0; s->given && i < s->n_outputs; i++) gale_object_destroy(&s->given[i]);
    gale__free(s->inputs);
    gale__free(s->given);
    gale__free(s);
}

/* A run fills in what was NULL and leaves the rest. */
static gale_status work(void *arg, const gale_run_control *control)
{
    submitted *s = arg;
    return gale_model_run_with(s->model, s->inputs, s->outputs, control);
}

static gale_status hold(gale_object *const *from, int n, gale_object ***out)
{
    gale_object **held = gale__calloc((size_t)n + 1, sizeof *held);
    if (!held) return GALE_NO_MEMORY;
    for (int i = 0; i < n; i++)
        if (from[i]) held[i] = gale__onnx_object_hold(from[i]);
    *out = held;
    return GALE_OK;
}

gale_status gale_model_submit(gale_model *m, gale_queue *queue, gale_object *const *inputs, gale_object **outputs,
    const gale_run_control *control, void *user, gale_run **out)
{
    GALE__NEED({"model", m}, {"queue", queue}, {"out", out});
    GALE__CONTROL(control);
    const gale__onnx_session *session = gale__onnx_model_session(m);
    GALE__NEED({"inputs", !session->net->n_inputs || inputs}, {"outputs", !session->net->n_outputs || outputs});
    GALE__WITHIN(gale__onnx_model_session(m)->device->context);
    submitted *s = gale__calloc(1, sizeof *s);
    if (!s) return GALE_NO_MEMORY;
    *s = (submitted){
        .model = m, .outputs = outputs, .n_inputs = session->net->n_inputs, .n_outputs = session->net->n_outputs};
    gale_status status = hold(inputs, s->n_inputs, &s->inputs);
    if (status == GALE_OK) status = hold(outputs, s->n_outputs, &s->given);
    gale__queue_task task = {work, end, s};
    if (status == GALE_OK) status = gale__queue_submit(queue, session->device, &task, control, user, out);
    if (status != GALE_OK) end(s);
    return status;
}
