/* Both models run on the same samples, and the values that layers read and make are compared by their names, which the
 * conversion keeps.  An error that a layer only passes on is not its own: what counts is by how much it grows there. */
#include "jobs/model/int8_layers.h"
#include "base/num.h"
#include "graph/run/tensor.h"
#include "jobs/model/model_inputs.h"
#include "onnx/run/session.h"
#include <math.h>
#include <string.h>

typedef struct trace {
    gale_object *kept; /* of the model as it was, for the sample at hand */
    double error, norm;
} trace;
typedef struct traces {
    gale__onnx_names names;
    trace *at;
    int32_t n;
    bool after;
} traces;

static void compare(trace *t, const gale_tensor *x, const gale_tensor *y)
{
    if (x->type != y->type || x->size_bytes != y->size_bytes || !gale__type_is_float(x->type)) return;
    size_t size = gale_type_size(x->type);
    for (size_t at = 0; at < x->size_bytes; at += size) {
        double u = gale__load_f64(x->type, (const char *)x->host + at);
        double d = gale__load_f64(y->type, (const char *)y->host + at) - u;
        if (!isfinite(u) || !isfinite(d)) continue;
        t->error += d * d;
        t->norm += u * u;
    }
}

static gale_status see(void *user, const gale__onnx_net *net, int32_t value, gale_object *object)
{
    traces *all = user;
    const char *name = net->values[value].name;
    int32_t index = gale__onnx_names_find(&all->names, name, strlen(name));
    gale_object *host = NULL;
    if (index < 0 || object->kind != GALE_OBJECT_TENSOR) return GALE_OK;
    trace *t = &all->at[index];
    if (all->after && !t->kept) return GALE_OK;
    GALE_TRY(gale__onnx_object_to_host(object, &host));
    if (all->after) {
        compare(t, t->kept->tensor, host->tensor);
        gale_object_destroy(&t->kept);
        gale_object_destroy(&host);
    } else {
        gale_object_destroy(&t->kept);
        t->kept = host;
    }
    return GALE_OK;
}

static gale_status open_watched(const gale__int8_measure *m, const gale__str *bytes, traces *all, gale_model **out)
{
    gale_model_options options = {.allow_nonfinite = true};
    GALE_TRY(gale_model_from_memory(bytes->text, bytes->length, 0, m->cpu, &options, out));
    gale__onnx_session *s = gale__onnx_model_session(*out);
    s->watch = see;
    s->watch_user = all;
    return gale__onnx_exec_expose(s->net);
}

static gale_status run_one(const gale__int8_measure *m, gale_model *model, size_t sample)
{
    int n = gale_model_inputs(model);
    gale_object **in = gale__calloc((size_t)n + 1, sizeof *in);
    gale_status status = in ? m->read(m->user, model, sample, in) : GALE_NO_MEMORY;
    if (status == GALE_OK) status = gale__model_run_once(model, in, 0, true, NULL);
    gale__objects_free(&in, n);
    return status;
}

static gale_status run_both(const gale__int8_measure *m, traces *all)
{
    gale_model *before = NULL, *after = NULL;
    gale_status status;
    GALE_GO(open_watched(m, m->before, all, &before));
    GALE_GO(open_watched(m, m->after, all, &after));
    for (size_t i = 0; i < m->n_samples; i++) {
        all->after = false;
        GALE_GO(run_one(m, before, i));
        all->after = true;
        GALE_GO(run_one(m, after, i));
    }
done:
    gale_model_close(&before);
    gale_model_close(&after);
    return status;
}

static gale_status add_name(traces *all, const char *name)
{
    if (!name || !*name || gale__onnx_names_find(&all->names, name, strlen(name)) >= 0) return GALE_OK;
    GALE_TRY(gale__onnx_names_set(&all->names, name, strlen(name), all->n));
    all->n++;
    return GALE_OK;
}

/* The first input of the node of the original model that makes this value; NULL: none does. */
static const char *input_of(const gale__pb_model *model, const char *result)
{
    for (size_t i = 0; model->graph && i < model->graph->node.n; i++) {
        const gale__pb_node *node = &model->graph->node.at[i];
        if (node->output.n && node->input.n && !strcmp(node->output.at[0].at, result)) return node->input.at[0].at;
    }
    return NULL;
}

static double loss_of(const traces *all, const char *name)
{
    int32_t index = name ? gale__onnx_names_find(&all->names, name, strlen(name)) : -1;
    const trace *t = index < 0 ? NULL : &all->at[index];
    return t && t->norm > 0 ? sqrt(t->error / t->norm) : -1;
}

static void fill_losses(const gale__int8_measure *m, const traces *all)
{
    for (size_t i = 0; i < m->how->n_layers; i++) {
        const char *result = m->how->layers[i].result;
        double out = loss_of(all, result), in = fmax(0, loss_of(all, input_of(m->original, result)));
        m->result[i] = out;
        m->added[i] = out < 0 ? -1 : sqrt(fmax(0, out * out - in * in));
    }
}

gale_status gale__int8_layers_measure(const gale__int8_measure *m)
{
    traces all = {0};
    gale_status status = GALE_OK;
    for (size_t i = 0; i < m->how->n_layers && status == GALE_OK; i++) {
        status = add_name(&all, m->how->layers[i].result);
        if (status == GALE_OK) status = add_name(&all, input_of(m->original, m->how->layers[i].result));
    }
    if (status == GALE_OK && !(all.at = gale__calloc((size_t)all.n + 1, sizeof *all.at))) status = GALE_NO_MEMORY;
    if (status == GALE_OK) status = run_both(m, &all);
    if (status == GALE_OK) fill_losses(m, &all);
    for (int32_t i = 0; all.at && i < all.n; i++) gale_object_destroy(&all.at[i].kept);
    gale__free(all.at);
    gale__onnx_names_finish(&all.names);
    return status;
}
