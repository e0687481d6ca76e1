/* 8-bit conversion with samples: the original model runs on all of them while the inputs of its products are observed,
 * then the converted one runs on the same samples, and their outputs are compared. */
#include "jobs/model/convert_int8.h"
#include "base/num.h"
#include "graph/run/tensor.h"
#include "jobs/model/data_file.h"
#include "jobs/model/data_picture.h"
#include "jobs/model/int8_layers.h"
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
    gale__str original;  /* the model as it was */
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

static gale_status observe(void *user, const gale__onnx_net *net, int32_t value, gale_object *object)
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
    s->watch = observe;
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
            status = observe(w, net, net->inputs[k], in[k]);
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
    GALE_TRY(gale__onnx_pack(file, model, &w->original));
    GALE_TRY(run_model(w, file, model, false));
    how->ranges = &w->ranges;
    GALE_TRY(gale__edit_int8(file, model, how));
    return run_model(w, file, model, true);
}

/* --- Layers. --- */

/* Without samples by what weights lose. */
static int by_loss(const void *a, const void *b)
{
    const gale_convert_layer *x = a, *y = b;
    if (x->added_relative != y->added_relative) return x->added_relative < y->added_relative ? 1 : -1;
    return x->relative != y->relative ? (x->relative < y->relative) - (x->relative > y->relative)
                                      : strcmp(x->node, y->node);
}

static gale_status read_for(void *user, gale_model *m, size_t sample, gale_object **in)
{
    return read_sample(user, m, sample, in);
}

/* What the layers' results lose, on the first samples: node by node, and so slowly. */
static gale_status measure_layers(
    work *w, gale__onnx *file, gale__pb_model *model, const gale__int8 *how, double *result, double *added)
{
    enum { SAMPLES_MOST = 4 };
    gale__str after = {0};
    gale__onnx *before = NULL;
    gale_status status;
    GALE_GO(gale__onnx_pack(file, model, &after));
    GALE_GO(gale__onnx_parse(w->original.text, w->original.length, false, NULL, GALE__PB_KIND_MODEL, &before));
    gale__int8_measure m = {.cpu = w->cpu,
        .before = &w->original,
        .after = &after,
        .original = gale__onnx_root(before),
        .how = how,
        .n_samples = w->n_samples < SAMPLES_MOST ? w->n_samples : SAMPLES_MOST,
        .read = read_for,
        .user = w,
        .result = result,
        .added = added};
    status = gale__int8_layers_measure(&m);
done:
    gale__onnx_close(&before);
    gale__str_finish(&after);
    return status;
}

static gale_status tell_layers(
    work *w, gale__onnx *file, gale__pb_model *model, const gale__int8 *how, gale_convert_result *result)
{
    size_t n = how->n_layers;
    gale_convert_layer *layers = gale__arena_alloc(w->arena, (n + 1) * sizeof *layers);
    double *losses = gale__arena_alloc(w->arena, 2 * (n + 1) * sizeof *losses);
    if (!layers || !losses) return GALE_NO_MEMORY;
    for (size_t i = 0; i < 2 * n; i++) losses[i] = -1;
    if (w->n_samples) GALE_TRY(measure_layers(w, file, model, how, losses, losses + n));
    for (size_t i = 0; i < n; i++) {
        layers[i] = (gale_convert_layer){
            gale__arena_strdup(w->arena, how->layers[i].node), how->layers[i].relative, losses[i], losses[n + i]};
        if (!layers[i].node) return GALE_NO_MEMORY;
    }
    qsort(layers, n, sizeof *layers, by_loss);
    result->layers = layers;
    result->n_layers = n;
    return GALE_OK;
}

static double worst_of(const loss *losses, int n)
{
    double worst = 0;
    for (int i = 0; i < n; i++) {
        const loss *l = &losses[i];
        if (l->n) worst = fmax(worst, l->norm > 0 ? sqrt(l->error / l->norm) : sqrt(l->error));
    }
    return worst;
}

/* The layers that make up half of what is added, at most a tenth of them. */
static size_t count_heavy(const gale_convert_result *r)
{
    double all = 0, sum = 0;
    size_t n = 0, most = 1 + r->n_layers / 10;
    for (size_t i = 0; i < r->n_layers; i++) all += fmax(0, r->layers[i].added_relative) * r->layers[i].added_relative;
    while (n < most && n < r->n_layers && r->layers[n].added_relative > 0 && sum < all / 2) {
        sum += r->layers[n].added_relative * r->layers[n].added_relative;
        n++;
    }
    return n;
}

/* The original once more, with these layers left as they are, on all samples. */
static gale_status try_leaving(work *w, const gale_convert_result *r, size_t n, double *worst)
{
    int n_left = w->options->n_leave + (int)n;
    const char **left = gale__arena_alloc(w->arena, (size_t)n_left * sizeof *left);
    loss *before = w->losses;
    gale__onnx *file = NULL;
    gale_status status = left ? GALE_OK : GALE_NO_MEMORY;
    if (status == GALE_OK)
        status = gale__onnx_parse(w->original.text, w->original.length, false, NULL, GALE__PB_KIND_MODEL, &file);
    if (status != GALE_OK) return status;
    for (int i = 0; i < n_left; i++)
        left[i] = i < w->options->n_leave ? w->options->leave[i] : r->layers[i - w->options->n_leave].node;
    gale__int8 how = {.ranges = &w->ranges, .left = left, .n_left = n_left};
    w->losses = gale__calloc((size_t)w->n_outputs + 1, sizeof *w->losses);
    status = w->losses ? gale__edit_int8(file, gale__onnx_root(file), &how) : GALE_NO_MEMORY;
    if (status == GALE_OK) status = run_model(w, file, gale__onnx_root(file), true);
    if (status == GALE_OK) *worst = worst_of(w->losses, w->n_outputs);
    gale__free(w->losses);
    w->losses = before;
    gale__onnx_close(&file);
    return status;
}

/* Advice counts only where it was seen to help. */
static gale_status advise(work *w, gale_convert_result *r)
{
    const double much = 0.02;
    double now = worst_of(w->losses, w->n_outputs), then = 0;
    size_t n = w->n_samples && now > much ? count_heavy(r) : 0;
    if (!n) return GALE_OK;
    GALE_TRY(try_leaving(w, r, n, &then));
    r->n_to_leave = then < 0.9 * now ? n : 0;
    r->loss_if_left = then;
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
    if (status == GALE_OK) status = tell_layers(&w, file, model, &how, result);
    if (status == GALE_OK) status = advise(&w, result);
    result->n_weights = how.n_weights;
    result->n_activations = how.n_values;
    result->n_smoothed = how.n_smooth;
    result->n_samples = options->n_samples;
    for (size_t i = 0; w.kept && i < w.n_samples; i++) gale__objects_free(&w.kept[i], w.n_outputs);
    gale__free(w.kept);
    gale__free(w.losses);
    gale__str_finish(&w.original);
    gale__int8_ranges_finish(&w.ranges);
    gale_device_close(&w.cpu);
    return status;
}
