/* The choice of a device for models whose time cannot be predicted, because shapes depend on results or parts run on
 * the host: the model runs on each device.  The times are stored, so that this happens once for each model, set of
 * input shapes and device. */
#include "base/file.h"
#include "base/limits.h"
#include "device/record.h"
#include "graph/run/forecast.h"
#include "jobs/model/model_inputs.h"
#include "jobs/model/placement.h"
#include "onnx/run/model_place.h"

enum { RUNS = 6 };
#define TRIAL "trial"
#define ENOUGH_NS 100000000u /* of timed runs */
/* With a device after the first: for opening, planning and compiling, and for its runs, in runs of the best so far. */
#define PATIENCE_NS 4000000000u
#define PATIENCE_RUNS 10

/* What the time depends on. */
static gale_status make_key(const gale__placing *p, const char *path, char hex[65])
{
    const gale_program_options *o = &p->model->program;
    const int settings[] = {(int)p->model->precision, (int)o->precision, o->threads, o->fast, o->batch_invariant};
    gale__sha sha;
    gale__sha256_init(&sha);
    GALE_TRY(gale__file_sample(path, &sha));
    gale__sha_add(&sha, gale_version(), strlen(gale_version()));
    gale__sha_add(&sha, settings, sizeof settings);
    for (int i = 0; i < p->n_inputs; i++) {
        const gale_tensor *t = p->inputs[i] ? gale_object_get_tensor(p->inputs[i]) : NULL;
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

static void fill(gale__json_out *j, const void *us)
{
    gale__json_key(j, "run_us"), gale__json_f64(j, *(const double *)us);
}

static void store(const gale_device *device, const char *key, double us)
{
    if (gale__record_write(gale_device_get_info(device), "runs", key, fill, &us) == GALE_OK) return;
    gale__log(GALE__INFO, "the time of a run is not stored: %s", gale_error());
    gale__error_clear();
}

/* The best of some runs after a first one, which plans and compiles. */
static gale_status time_runs(gale_model *m, gale_object **inputs, double *us)
{
    uint64_t begun = 0;
    double ms, best = 0;
    for (int i = 0; i < RUNS && (i < 3 || gale__time_ns() - begun < ENOUGH_NS); i++) {
        GALE_TRY(gale__model_run_timed(m, inputs, &ms));
        if (i && (best == 0 || ms < best)) best = ms;
        if (!i) begun = gale__time_ns();
    }
    *us = best * 1e3;
    return GALE_OK;
}

/* Within `patience_ns` (0: however long it takes), which *us is if it was not enough.  A device on which the model
 * cannot run has no time. */
static gale_status time_on(gale__placing *p, const char *path, gale_device *device, uint64_t patience_ns, double *us)
{
    gale_model *m = NULL;
    gale_job_control quiet = {.cancel = p->stage ? p->stage->control->cancel : NULL};
    gale__job_stage stage = {&quiet, TRIAL};
    gale_model_options o = *p->model;
    gale__limits limits = {.deadline_ns = patience_ns ? gale__time_ns() + patience_ns : 0};
    o.allow_nonfinite = true;
    gale__limits_enter(&limits);
    gale_status status = gale__model_open_with(path, device, &o, p->inputs_wanted, &stage, &m);
    if (status == GALE_OK) status = time_runs(m, p->inputs, us);
    gale_model_close(&m);
    gale__limits_leave(&limits);
    GALE_TRY(gale__limits_check());
    if (status == GALE_OK || status == GALE_CANCELLED) return status;
    *us = status == GALE_DEADLINE ? (double)patience_ns / 1e3 : -1;
    gale__log(GALE__INFO, "%s was tried: %s", gale_device_get_info(device)->name,
        status == GALE_DEADLINE ? "it takes longer than gale waits for it" : gale_error());
    gale__error_clear();
    return GALE_OK;
}

/* Progress counts devices, since it never goes back. */
static gale_status tell(const gale__placing *p, int done)
{
    return p->stage ? gale__job_tell(p->stage->control, TRIAL, "devices", (uint64_t)done, (uint64_t)p->n) : GALE_OK;
}

static bool is_shorter(double us, double best_us) { return us >= 0 && (best_us < 0 || us < best_us); }

gale_status gale__model_try(gale__placing *p, const char *path, double *times_us, int *best)
{
    char key[65];
    for (int i = 0; i < p->n; i++)
        if (!gale__forecast_known(p->devices[i])) return GALE_OK;
    GALE_TRY(make_key(p, path, key));
    *best = 0;
    for (int i = 0; i < p->n; i++) {
        double least = times_us[*best];
        times_us[i] = recall(p->devices[i], key);
        if (times_us[i] < 0) {
            uint64_t patience_ns = i && least >= 0 ? PATIENCE_NS + (uint64_t)(PATIENCE_RUNS * 1e3 * least) : 0;
            GALE_TRY(tell(p, i));
            GALE_TRY(time_on(p, path, p->devices[i], patience_ns, &times_us[i]));
            GALE_TRY(tell(p, i + 1));
            if (times_us[i] >= 0) store(p->devices[i], key, times_us[i]);
        }
        if (is_shorter(times_us[i], times_us[*best])) *best = i;
    }
    gale__place_log(p->devices, times_us, p->n, *best, "was tried: a run takes");
    return GALE_OK;
}
