/* Times a model: start-up, then percentiles of steady-state runs and their memory use. */
#include "base/cpu.h"
#include "base/num.h"
#include "base/thread.h"
#include "device/device.h"
#include "graph/run/time.h"
#include "jobs/model/data_picture.h"
#include "jobs/model/model_inputs.h"
#include "jobs/model/placement.h"
#include "onnx/run/model_place.h"
#include "onnx/run/object.h"
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 30, REPEATS_MOST = 1 << 20, BATCH_MOST = 1 << 20 };

static double ms_since(uint64_t start) { return (double)(gale__time_ns() - start) / 1e6; }

static double percentile(const double *sorted, size_t n, double share)
{
    size_t at = (size_t)(share * (double)(n - 1) + 0.5);
    return sorted[at < n ? at : n - 1];
}

/* An object of another batch: the first item again and again. */
static gale_status rebatch(const gale_object *from, int64_t batch, gale_object **out)
{
    gale_tensor *t = gale_object_get_tensor(from), *made = NULL;
    int64_t dims[GALE_MAX_RANK];
    if (gale_object_get_kind(from) != GALE_OBJECT_TENSOR || !gale_tensor_rank(t) || !gale_tensor_dims(t)[0])
        return gale__fail(GALE_INVALID, "--batches: an input has no axis for the batch");
    memcpy(dims, gale_tensor_dims(t), (size_t)gale_tensor_rank(t) * sizeof *dims);
    size_t item = gale_tensor_size_bytes(t) / (size_t)dims[0];
    dims[0] = batch;
    GALE_TRY(gale_tensor_create(NULL, gale_tensor_type(t), gale_tensor_rank(t), dims, &made));
    for (int64_t i = 0; i < batch; i++)
        memcpy((char *)gale_tensor_data(made) + (size_t)i * item, gale_tensor_data(t), item);
    return gale__onnx_object_take(&made, out);
}

static gale_status time_batch(gale_model *m, gale_object **inputs, int repeats, gale_bench_batch *to)
{
    int n = gale_model_inputs(m);
    gale_object **in = gale__calloc((size_t)n + 1, sizeof *in);
    gale_status status = in ? GALE_OK : GALE_NO_MEMORY;
    double ms;
    to->best_ms = 1e30;
    for (int i = 0; status == GALE_OK && i < n; i++) status = rebatch(inputs[i], to->batch, &in[i]);
    for (int i = 0; status == GALE_OK && i < repeats + 2; i++) {
        status = gale__model_run_timed(m, in, &ms);
        if (status == GALE_OK && i >= 2 && ms < to->best_ms) to->best_ms = ms;
    }
    gale__objects_free(&in, n);
    return status;
}

static gale_status time_batches(
    gale_model *m, gale_object **inputs, const gale_bench_options *o, int repeats, gale_bench_result *r)
{
    gale_bench_batch *list = gale__arena_alloc(gale__result_arena(r), ((size_t)o->n_batches + 1) * sizeof *list);
    if (!list) return GALE_NO_MEMORY;
    r->batches = list;
    for (int i = 0; i < o->n_batches; i++) {
        list[i].batch = o->batches[i];
        GALE_TRY(gale__job_tell(&o->job.control, "batches", "sizes", (uint64_t)i, (uint64_t)o->n_batches));
        GALE_TRY(time_batch(m, inputs, repeats, &list[i]));
        r->n_batches++;
    }
    return gale__job_tell(&o->job.control, "batches", "sizes", (uint64_t)o->n_batches, (uint64_t)o->n_batches);
}

/* Moves the tensors among the inputs to the device, so that steady runs copy nothing from the host. */
static gale_status upload(gale_device *device, gale_object **inputs, int n)
{
    for (int i = 0; i < n; i++) {
        gale_tensor *there = NULL;
        if (!inputs[i] || gale_object_get_kind(inputs[i]) != GALE_OBJECT_TENSOR) continue;
        GALE_TRY(gale_tensor_to_device(gale_object_get_tensor(inputs[i]), device, &there));
        gale_object_destroy(&inputs[i]);
        GALE_TRY(gale__onnx_object_take(&there, &inputs[i]));
    }
    return GALE_OK;
}

/* Steady runs whose results stay on the device, in tensors that the first of them made. */
static gale_status time_on_device(gale_model *m, gale_object **inputs, int repeats, double *runs)
{
    int n = gale_model_outputs(m);
    gale_object **outputs = gale__calloc((size_t)n + 1, sizeof *outputs);
    gale_status status = outputs ? GALE_OK : GALE_NO_MEMORY;
    for (int i = -3; status == GALE_OK && i < repeats; i++) {
        uint64_t start = gale__time_ns();
        status = gale_model_run(m, inputs, outputs, 0);
        if (i >= 0) runs[i] = ms_since(start);
    }
    gale__objects_free(&outputs, n);
    return status;
}

static gale_status time_on_host(gale_model *m, gale_object **inputs, int repeats, double *runs)
{
    for (int i = 0; i < repeats; i++) GALE_TRY(gale__model_run_timed(m, inputs, &runs[i]));
    return GALE_OK;
}

static void sum_up(double *runs, int repeats, gale_bench_result *r)
{
    qsort(runs, (size_t)repeats, sizeof *runs, gale__by_value);
    r->runs_ms = runs;
    r->n_runs = (size_t)repeats;
    r->best_ms = runs[0];
    r->median_ms = percentile(runs, r->n_runs, 0.5);
    r->p90_ms = percentile(runs, r->n_runs, 0.9);
    r->p99_ms = percentile(runs, r->n_runs, 0.99);
}

/* Steady runs, after some that warm up. */
static gale_status time_runs(gale_model *m, gale_device *device, gale_object **inputs, const gale_bench_options *o,
    int repeats, gale_bench_result *r)
{
    gale_memory_stats stats;
    double warm, *runs = gale__arena_alloc(gale__result_arena(r), (size_t)repeats * sizeof *runs);
    if (!runs) return GALE_NO_MEMORY;
    uint64_t start = gale__time_ns();
    for (int i = 0; i < 2 || gale__time_ns() - start < gale__warm_ns(device); i++)
        GALE_TRY(gale__model_run_timed(m, inputs, &warm));
    if (o->on_device) GALE_TRY(upload(device, inputs, gale_model_inputs(m)));
    GALE_TRY((o->on_device ? time_on_device : time_on_host)(m, inputs, repeats, runs));
    gale_memory_get_stats(device, &stats);
    r->device_peak_bytes = stats.peak_bytes;
    r->process_peak_bytes = gale__process_peak_bytes();
    sum_up(runs, repeats, r);
    return GALE_OK;
}

static gale_status note_device(const gale__placing *p, gale_bench_result *r)
{
    const gale_device_info *info = gale_device_get_info(p->chosen);
    r->device = gale__arena_printf(gale__result_arena(r), "%s:%d", info->backend, info->index);
    r->placements = p->placements;
    r->n_placements = p->n_placements;
    return r->device ? GALE_OK : GALE_NO_MEMORY;
}

static gale_status bench(const char *path, gale_device *device, const gale_bench_options *options, gale_bench_result *r)
{
    gale_bench_options completed = *options, *o = &completed;
    gale__job_stage stage = {&o->job.control, "run"};
    gale__placing p = {.model = &o->job.model, .inputs_wanted = &o->job.inputs, .random = true, .stage = &stage};
    int repeats = o->repeats ? o->repeats : REPEATS;
    gale_model *m = NULL;
    gale_object **inputs = NULL;
    gale_status status;
    GALE_TRY(gale__inputs_complete(path, gale__result_arena(r), &completed.job.inputs));
    GALE_TRY(gale__devices_for(device, NULL, 0, gale__result_arena(r), &p));
    GALE_TRY(gale__model_choose(&p, path, gale__result_arena(r)));
    GALE_TRY(note_device(&p, r));
    uint64_t start = gale__time_ns();
    GALE_GO(gale__model_open_with(path, p.chosen, &o->job.model, &o->job.inputs, &stage, &m));
    r->open_ms = ms_since(start);
    GALE_GO(gale__model_inputs_make(m, &o->job.inputs, true, &inputs));
    GALE_GO(gale__model_run_timed(m, inputs, &r->first_ms));
    GALE_GO(time_runs(m, p.chosen, inputs, o, repeats, r));
    gale__place_note(p.chosen, "a run", p.predicted_us, r->median_ms * 1e3);
    status = time_batches(m, inputs, o, repeats, r);
done:
    if (m) gale__objects_free(&inputs, gale_model_inputs(m));
    gale_model_close(&m);
    return status;
}

static gale_status check_options(const gale_bench_options *o)
{
    if (o->repeats < 0 || o->repeats > REPEATS_MOST)
        return gale__fail(GALE_INVALID, "bench: %d repeats is outside 1 to %d", o->repeats, REPEATS_MOST);
    if (o->on_device && o->n_batches) return gale__fail(GALE_INVALID, "--on-device and --batches cannot be combined");
    for (int i = 0; i < o->n_batches; i++)
        if (o->batches[i] < 1 || o->batches[i] > BATCH_MOST)
            return gale__fail(
                GALE_INVALID, "bench: a batch of %lld is outside 1 to %d", (long long)o->batches[i], BATCH_MOST);
    return GALE_OK;
}

gale_status gale_model_bench(
    const char *path, gale_device *device, const gale_bench_options *options, gale_bench_result **out)
{
    GALE__NEED({"path", path}, {"device", device}, {"out", out});
    GALE__OPTIONS(options);
    GALE__WITHIN(device->context);
    static const gale_bench_options usual = {0};
    if (options) GALE_TRY(check_options(options));
    gale_bench_result *result = gale__result_create(sizeof *result);
    gale_status status = result ? bench(path, device, options ? options : &usual, result) : GALE_NO_MEMORY;
    return gale__result_give(status, result, out);
}

GALE__RESULT_DESTROY(gale_bench_result)

GALE__RESULT_JSON(gale_bench_result, '{')
{
    gale__json_put_text(j, "device", r->device);
    gale__placements_json(j, r->placements, r->n_placements);
    gale__json_put_f64(j, "open_ms", r->open_ms);
    gale__json_put_f64(j, "first_ms", r->first_ms);
    gale__json_put_f64(j, "median_ms", r->median_ms);
    gale__json_put_f64(j, "best_ms", r->best_ms);
    gale__json_put_f64(j, "p90_ms", r->p90_ms);
    gale__json_put_f64(j, "p99_ms", r->p99_ms);
    gale__json_put_u64(j, "runs", r->n_runs);
    gale__json_put_u64(j, "device_peak_bytes", r->device_peak_bytes);
    gale__json_put_u64(j, "process_peak_bytes", r->process_peak_bytes);
}
