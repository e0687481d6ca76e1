/* 8-bit conversion with samples: the original model runs on all of them while the inputs of its products are observed,
 * then the converted one runs on the same samples, and their outputs are compared. */
#include "jobs/model/convert_int8.h"
#include "base/num.h"
#include "graph/run/tensor.h"
#include "jobs/model/data_file.h"
#include "jobs/model/data_picture.h"
#include "jobs/model/model_inputs.h"
#include "onnx/edit/int8.h"
#include "onnx/run/session.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct loss {
    const char *name; /* the result's */
    double error, norm, low, high;
    uint64_t n;
} loss;
typedef struct work {
    const gale_convert_options *options;
    gale__arena *arena; /* the result's */
    gale__job_stage stage;
    gale_device *cpu;
    gale__int8_ranges ranges;
    size_t n_samples;
    gale_object ***kept; /* by sample: the outputs before */
    int n_outputs;
    loss *losses; /* by output */
} work;

/* Of "FILE", or "NAME=FILE,NAME=FILE", what is for this input. */
static gale_status file_for(const char *sample, const gale_model_value *v, bool only, char path[1024])
{
    size_t n = strlen(v->name);
    for (const char *p = sample; *p;) {
        size_t size = strcspn(p, ",");
        bool named = !strncmp(p, v->name, n) && p[n] == '=', whole = p == sample && !p[size] && !memchr(p, '=', size);
        bool all = whole && size > 4 && !strncmp(p + size - 4, ".npz", 4); /* its entries have names */
        if (named || (whole && (only || all)))
            return snprintf(path, 1024, "%.*s", (int)(named ? size - n - 1 : size), named ? p + n + 1 : p), GALE_OK;
        p += size + (p[size] == ',');
    }
    return gale__fail(GALE_INVALID,
        "--calibrate %s: no value for input %s; use NAME=FILE,NAME=FILE for several inputs, or a .npz with an entry "
        "for each",
        sample, v->name);
}

static gale_status read_sample(const work *w, gale_model *m, size_t sample, gale_object **in)
{
    for (int i = 0; i < gale_model_inputs(m); i++) {
        gale_model_value v;
        char path[1024];
        GALE_TRY(gale_model_input(m, i, &v));
        GALE_TRY(file_for(w->options->samples[sample], &v, gale_model_inputs(m) == 1, path));
        GALE_TRY(gale__is_picture(path) ? gale__picture_to_input(path, &v, &w->options->pixels, &in[i])
                                        : gale__data_read(path, &v, &in[i]));
    }
    return GALE_OK;
}

static gale_status note(void *user, const gale__onnx_net *net, int32_t value, gale_object *object)
{
    work *w = user;
    gale_object *host = NULL;
    const char *name = net->values[value].name;
    if (object->kind != GALE_OBJECT_TENSOR || gale__onnx_names_find(&w->ranges.names, name, strlen(name)) < 0)
        return GALE_OK;
    GALE_TRY(gale__onnx_object_to_host(object, &host));
    gale_status status = gale__int8_ranges_note(&w->ranges, name, host->tensor);
    gale_object_destroy(&host);
    return status;
}

static gale_status watch(work *w, gale_model *m)
{
    gale__onnx_session *s = gale__onnx_model_session(m);
    s->watch = note;
    s->watch_user = w;
    return gale__onnx_exec_expose(s->net);
}

/* --- What was lost. --- */

static void compare(loss *l, const gale_object *before, const gale_object *after)
{
    const gale_tensor *x = before->tensor, *y = after->tensor;
    if (before->kind != GALE_OBJECT_TENSOR || after->kind != GALE_OBJECT_TENSOR || x->type != y->type ||
        x->size_bytes != y->size_bytes || !gale__type_is_float(x->type))
        return;
    size_t size = gale_type_size(x->type);
    for (size_t at = 0; at < x->size_bytes; at += size) {
        double u = gale__load_f64(x->type, (const char *)x->host + at),
               d = gale__load_f64(y->type, (const char *)y->host + at) - u;
        if (!isfinite(u)) continue;
        l->error += d * d;
        l->norm += u * u;
        l->low = !l->n || u < l->low ? u : l->low;
        l->high = !l->n || u > l->high ? u : l->high;
        l->n++;
    }
}

/* All samples through one model: before the change outputs are kept, afterwards they are compared. */
static gale_status run_samples(work *w, gale_model *m, bool after)
{
    int n_in = gale_model_inputs(m);
    gale_status status = GALE_OK;
    for (size_t i = 0; i < w->n_samples && status == GALE_OK; i++) {
        GALE_TRY(gale__job_tell(w->stage.control, w->stage.name, "samples", i, w->n_samples));
        gale_object **in = gale__calloc((size_t)n_in + 1, sizeof *in),
                    **out = gale__calloc((size_t)w->n_outputs + 1, sizeof *out);
        status = in && out ? read_sample(w, m, i, in) : GALE_NO_MEMORY;
        for (int k = 0; k < n_in && status == GALE_OK && !after; k++) {
            gale__onnx_net *net = gale__onnx_model_session(m)->net;
            status = note(w, net, net->inputs[k], in[k]);
        }
        if (status == GALE_OK) status = gale_model_run(m, in, out, GALE_RUN_ON_HOST);
        for (int k = 0; k < w->n_outputs && status == GALE_OK && after; k++)
            compare(&w->losses[k], w->kept[i][k], out[k]);
        if (!after) w->kept[i] = out;
        else gale__objects_free(&out, w->n_outputs);
        gale__objects_free(&in, n_in);
    }
    if (status != GALE_OK) return status;
    return gale__job_tell(w->stage.control, w->stage.name, "samples", w->n_samples, w->n_samples);
}

static gale_status describe(work *w, gale_model *m)
{
    w->n_outputs = gale_model_outputs(m);
    w->losses = gale__calloc((size_t)w->n_outputs + 1, sizeof *w->losses);
    w->kept = gale__calloc(w->n_samples + 1, sizeof *w->kept);
    if (!w->losses || !w->kept) return GALE_NO_MEMORY;
    for (int i = 0; i < w->n_outputs; i++) {
        gale_model_value v;
        GALE_TRY(gale_model_output(m, i, &v));
        w->losses[i].name = gale__arena_printf(w->arena, "%.79s", v.name);
        if (!w->losses[i].name) return GALE_NO_MEMORY;
    }
    return watch(w, m);
}

static gale_status run_model(work *w, gale__onnx *file, gale__pb_model *model, bool after)
{
    gale__str bytes = {0};
    gale_model *m = NULL;
    gale_model_options options = {.allow_nonfinite = true};
    gale__job_stage runs = {w->stage.control, "running a sample"};
    w->stage.name = after ? "samples after" : "samples before";
    gale__model_follow(&options, &runs);
    gale_status status = gale__onnx_pack(file, model, &bytes);
    if (status == GALE_OK) status = gale_model_from_memory(bytes.text, bytes.length, 0, w->cpu, &options, &m);
    if (status == GALE_OK && !after) status = describe(w, m);
    if (status == GALE_OK) status = run_samples(w, m, after);
    gale_model_close(&m);
    gale__str_finish(&bytes);
    return status;
}

/* Outputs of floats, with what all samples lost. */
static gale_status tell_losses(const work *w, gale_convert_result *result)
{
    gale_convert_loss *losses = NULL;
    for (int i = 0; i < w->n_outputs; i++) {
        const loss *l = &w->losses[i];
        double mean = l->n ? l->error / (double)l->n : 0, span = l->high - l->low;
        if (!l->n) continue;
        gale_convert_loss *to = gale__arena_add(w->arena, &losses, &result->n_losses, sizeof *to);
        if (!to) return GALE_NO_MEMORY;
        *to = (gale_convert_loss){l->name, l->norm > 0 ? sqrt(l->error / l->norm) : sqrt(l->error), 0};
        if (mean > 0 && span > 0) to->psnr_db = 10 * log10(span * span / mean);
    }
    result->losses = losses;
    return GALE_OK;
}

static gale_status convert_with_samples(work *w, gale__onnx *file, gale__pb_model *model, gale__int8 *how)
{
    GALE_TRY(gale_device_open(&(gale_device_options){.chain = "cpu"}, &w->cpu));
    GALE_TRY(gale__int8_ranges_of(model, &w->ranges));
    GALE_TRY(run_model(w, file, model, false));
    how->ranges = &w->ranges;
    GALE_TRY(gale__edit_int8(file, model, how));
    return run_model(w, file, model, true);
}

static int by_loss(const void *a, const void *b)
{
    const gale_convert_layer *x = a, *y = b;
    return x->relative != y->relative ? (x->relative < y->relative) - (x->relative > y->relative)
                                      : strcmp(x->node, y->node);
}

static gale_status tell_layers(const gale__int8 *how, gale_convert_result *result)
{
    gale__arena *arena = gale__result_arena(result);
    gale_convert_layer *layers = gale__arena_alloc(arena, (how->n_layers + 1) * sizeof *layers);
    if (!layers) return GALE_NO_MEMORY;
    for (size_t i = 0; i < how->n_layers; i++) {
        layers[i] = (gale_convert_layer){gale__arena_strdup(arena, how->layers[i].node), how->layers[i].relative};
        if (!layers[i].node) return GALE_NO_MEMORY;
    }
    qsort(layers, how->n_layers, sizeof *layers, by_loss);
    result->layers = layers;
    result->n_layers = how->n_layers;
    return GALE_OK;
}

gale_status gale__convert_int8(
    const gale_convert_options *options, gale__onnx *file, gale__pb_model *model, gale_convert_result *result)
{
    gale__int8 how = {.left = options->leave, .n_left = options->n_leave};
    work w = {.options = options, .arena = gale__result_arena(result), .n_samples = (size_t)options->n_samples};
    w.stage.control = &options->control;
    gale_status status = w.n_samples ? convert_with_samples(&w, file, model, &how) : gale__edit_int8(file, model, &how);
    if (status == GALE_OK) status = tell_losses(&w, result);
    if (status == GALE_OK) status = tell_layers(&how, result);
    result->n_weights = how.n_weights;
    result->n_activations = how.n_values;
    result->n_smoothed = how.n_smooth;
    result->n_samples = options->n_samples;
    for (size_t i = 0; w.kept && i < w.n_samples; i++) gale__objects_free(&w.kept[i], w.n_outputs);
    gale__free(w.kept);
    gale__free(w.losses);
    gale__int8_ranges_finish(&w.ranges);
    gale_device_close(&w.cpu);
    return status;
}
