/* The choice of a device for models whose time cannot be predicted, because shapes depend on results or parts run on
 * the host: the model runs on each device.  The times are stored, so that this happens once for each model, set of
 * input shapes and device. */
#include "base/limits.h"
#include "device/record.h"
#include "graph/run/forecast.h"
#include "graph/run/tensor.h"
#include "onnx/run/model_place.h"
#include "onnx/run/session.h"

enum { RUNS = 6 };
#define ENOUGH_NS 100000000u /* of timed runs */
/* With a device after the first: for opening, planning and compiling, and for its runs, in runs of the best so far. */
#define PATIENCE_NS 4000000000u
#define PATIENCE_RUNS 10

/* What the time depends on. */
static gale_status make_key(gale_model *m, gale_object *const *inputs, char hex[65])
{
    const gale__onnx_session *s = gale__onnx_model_session(m);
    const gale_program_options *o = &s->options.program;
    const int settings[] = {(int)o->precision, o->threads, o->fast, o->batch_invariant};
    gale__sha sha;
    gale__sha256_init(&sha);
    GALE_TRY(gale__onnx_sample(s->net->file, &sha));
    gale__sha_add(&sha, gale_version(), strlen(gale_version()));
    gale__sha_add(&sha, settings, sizeof settings);
    for (int i = 0; i < s->net->n_inputs; i++) {
        const gale_tensor *t = inputs[i] ? gale_object_get_tensor(inputs[i]) : NULL;
        const int kind[] = {t ? (int)gale_tensor_type(t) : -1, t ? gale_tensor_rank(t) : 0};
        gale__sha_add(&sha, kind, sizeof kind);
        if (t) gale__sha_add(&sha, gale_tensor_dims(t), (size_t)kind[1] * sizeof(int64_t));
    }
    gale__sha_end_hex(&sha, hex);
    return GALE_OK;
}

static double recall(const gale_device *device, const char *key)
{
    gale__arena arena = {0};
    gale__json *root = NULL;
    gale__record_read(gale_device_get_info(device), "runs", key, &arena, &root);
    double us = root ? gale__json_number(root, "run_us", -1) : -1;
    gale__arena_finish(&arena);
    return us > 0 ? us : -1;
}

static void fill(gale__json_out *j, const void *us) { gale__json_put_f64(j, "run_us", *(const double *)us); }

static void store(const gale_device *device, const char *key, double us)
{
    if (gale__record_write(gale_device_get_info(device), "runs", key, fill, &us) == GALE_OK) return;
    gale__log(GALE__INFO, "the time of a run is not stored: %s", gale_error());
    gale__error_clear();
}

static gale_status time_run(gale_model *m, gale_object *const *inputs, gale_object **outputs, uint64_t *ns)
{
    uint64_t begun = gale__time_ns();
    gale_status status =
        gale_model_run_with(m, inputs, outputs, &(gale_run_control){.outputs_on_host = true, .seed = 1});
    *ns = gale__time_ns() - begun;
    for (int i = 0; i < gale_model_outputs(m); i++) gale_object_destroy(&outputs[i]);
    return status;
}

/* The best of some runs after a first one, which plans and compiles. */
static gale_status time_runs(gale_model *m, gale_object *const *inputs, double *us)
{
    gale_object **outputs = gale__calloc((size_t)gale_model_outputs(m) + 1, sizeof *outputs);
    gale_status status = outputs ? GALE_OK : GALE_NO_MEMORY;
    uint64_t begun = 0, ns, best = UINT64_MAX;
    for (int i = 0; status == GALE_OK && i < RUNS && (i < 3 || gale__time_ns() - begun < ENOUGH_NS); i++) {
        status = time_run(m, inputs, outputs, &ns);
        if (i && ns < best) best = ns;
        if (!i) begun = gale__time_ns();
    }
    gale__free(outputs);
    if (status == GALE_OK) *us = (double)best / 1e3;
    return status;
}

/* Within `patience_ns` (0: however long it takes), which *us is if it was not enough.  A device on which the model
 * cannot run has no time. */
static gale_status time_on(
    gale_model *m, gale_object *const *inputs, gale_device *device, uint64_t patience_ns, double *us)
{
    gale_model *there = NULL;
    gale_model_options o = gale__onnx_model_session(m)->options;
    gale__limits limits = {.deadline_ns = patience_ns ? gale__time_ns() + patience_ns : 0};
    GALE__WITHIN(device->context);
    o.allow_nonfinite = true;
    o.progress = NULL;
    gale__limits_enter(&limits);
    gale_status status = gale__onnx_model_again(m, device, &o, &there);
    if (status == GALE_OK) status = time_runs(there, inputs, us);
    gale_model_close(&there);
    gale__limits_leave(&limits);
    GALE_TRY(gale__limits_check());
    if (status == GALE_OK || status == GALE_CANCELLED) return status;
    *us = status == GALE_DEADLINE ? (double)patience_ns / 1e3 : -1;
    gale__log(GALE__INFO, "%s was tried: %s", gale_device_get_info(device)->name,
        status == GALE_DEADLINE ? "it takes longer than gale waits for it" : gale_error());
    gale__error_clear();
    return GALE_OK;
}

static bool is_shorter(double us, double best_us) { return us >= 0 && (best_us < 0 || us < best_us); }

gale_status gale__place_try(gale_model *m, gale_object *const *inputs, gale_device *const *devices, int n,
    const gale__place_told *told, double *times_us, int *best)
{
    char key[65];
    for (int i = 0; i < n; i++)
        if (!gale__forecast_known(devices[i])) return GALE_OK;
    GALE_TRY(make_key(m, inputs, key));
    for (int i = 0; i < n; i++) {
        double least = times_us[*best];
        times_us[i] = recall(devices[i], key);
        if (times_us[i] < 0) {
            uint64_t patience_ns = i && least >= 0 ? PATIENCE_NS + (uint64_t)(PATIENCE_RUNS * 1e3 * least) : 0;
            if (told) GALE_TRY(told->tell(told->user, i, n));
            GALE_TRY(time_on(m, inputs, devices[i], patience_ns, &times_us[i]));
            if (told) GALE_TRY(told->tell(told->user, i + 1, n));
            if (times_us[i] >= 0) store(devices[i], key, times_us[i]);
        }
        if (is_shorter(times_us[i], times_us[*best])) *best = i;
    }
    gale__place_log(devices, times_us, n, *best, "was tried: a run takes");
    return GALE_OK;
}
