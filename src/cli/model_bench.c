/* Timing a model: how long until it is ready, then percentiles of steady runs and what they take of memory. */
#include "cli/model_bench.h"
#include "base/json.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "cli/model_inputs.h"
#include "graph/run/time.h"
#include "onnx/run/session.h"
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef struct times {
    double open_ms, first_ms, *runs_ms;
    int64_t n;
    uint64_t device_peak, process_peak;
} times;

static double ms_since(uint64_t start) { return (double)(gale__time_ns() - start) / 1e6; }

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(const times *t, double share)
{
    int64_t at = (int64_t)(share * (double)(t->n - 1) + 0.5);
    return t->runs_ms[at < t->n ? at : t->n - 1];
}

/* An object of another batch: the first item again and again. */
static gale_status rebatch(const gale_object *from, int64_t batch, gale_object **out)
{
    gale_tensor *t = gale_object_get_tensor(from), *made = NULL;
    int64_t dims[GALE_MAX_RANK];
    if (gale_object_get_kind(from) != GALE_OBJECT_TENSOR || !gale_tensor_rank(t) || !gale_tensor_dims(t)[0])
        return gale__fail(GALE_INVALID, "--batches: an input has no axis to repeat");
    memcpy(dims, gale_tensor_dims(t), (size_t)gale_tensor_rank(t) * sizeof *dims);
    size_t item = gale_tensor_size_bytes(t) / (size_t)dims[0];
    dims[0] = batch;
    GALE_TRY(gale_tensor_create(NULL, gale_tensor_type(t), gale_tensor_rank(t), dims, &made));
    for (int64_t i = 0; i < batch; i++)
        memcpy((char *)gale_tensor_data(made) + (size_t)i * item, gale_tensor_data(t), item);
    return gale__onnx_object_take(&made, out);
}

static gale_status time_batch(gale_model *m, gale_object **inputs, int64_t batch, int64_t repeats)
{
    int n = gale_model_inputs(m);
    gale_object **in = gale__calloc((size_t)n + 1, sizeof *in);
    gale_status status = in ? GALE_OK : GALE_NO_MEMORY;
    double ms, best = 1e30;
    for (int i = 0; status == GALE_OK && i < n; i++) status = rebatch(inputs[i], batch, &in[i]);
    for (int64_t i = 0; status == GALE_OK && i < repeats + 2; i++) {
        status = gale__model_run_timed(m, in, &ms);
        if (i >= 2 && ms < best) best = ms;
    }
    if (status == GALE_OK)
        printf("batch of %-6lld      %10.2f ms, %.1f items/s\n", (long long)batch, best, (double)batch * 1e3 / best);
    gale__objects_free(&in, n);
    return status;
}

static gale_status time_batches(gale_model *m, gale_object **inputs, const gale__args *a)
{
    const char *at = gale__args_text(a, "batches");
    while (at && *at) {
        char *end;
        long long batch = strtoll(at, &end, 10);
        if (end == at || batch < 1 || batch > 1 << 20 || (*end && *end != ','))
            return gale__fail(GALE_INVALID, "--batches: '%s' is not a list of whole numbers such as 1,8,64", at);
        GALE_TRY(time_batch(m, inputs, batch, gale__args_int(a, "repeats")));
        at = *end ? end + 1 : end;
    }
    return GALE_OK;
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
static gale_status time_on_device(gale_model *m, gale_object **inputs, int64_t repeats, times *t)
{
    int n = gale_model_outputs(m);
    gale_object **outputs = gale__calloc((size_t)n + 1, sizeof *outputs);
    gale_status status = outputs ? GALE_OK : GALE_NO_MEMORY;
    for (int64_t i = -3; status == GALE_OK && i < repeats; i++) {
        uint64_t start = gale__time_ns();
        status = gale_model_run(m, inputs, outputs, false);
        if (i >= 0) t->runs_ms[i] = ms_since(start);
    }
    t->n = repeats;
    gale__objects_free(&outputs, n);
    return status;
}

static gale_status time_on_host(gale_model *m, gale_object **inputs, int64_t repeats, times *t)
{
    for (t->n = 0; t->n < repeats; t->n++) GALE_TRY(gale__model_run_timed(m, inputs, &t->runs_ms[t->n]));
    return GALE_OK;
}

static gale_status measure(gale_device *device, const char *path, const gale__args *a, times *t)
{
    bool on_device = gale__args_flag(a, "on-device");
    gale_model_options options;
    gale_model *m = NULL;
    gale_object **inputs = NULL;
    double warm;
    if (on_device && gale__args_text(a, "batches"))
        return gale__fail(GALE_INVALID, "--on-device and --batches cannot be combined");
    gale__model_options(a, &options);
    options.program.fast |= gale__args_flag(a, "fast");
    uint64_t start = gale__time_ns();
    gale_status status;
    GALE_GO(gale__model_open_with(a, path, device, &options, &m));
    t->open_ms = ms_since(start);
    GALE_GO(gale__model_inputs_make(m, a, true, &inputs));
    GALE_GO(gale__model_run_timed(m, inputs, &t->first_ms));
    start = gale__time_ns();
    for (int i = 0; i < 2 || gale__time_ns() - start < gale__warm_ns(device); i++)
        GALE_GO(gale__model_run_timed(m, inputs, &warm));
    if (on_device) GALE_GO(upload(device, inputs, gale_model_inputs(m)));
    GALE_GO((on_device ? time_on_device : time_on_host)(m, inputs, gale__args_int(a, "repeats"), t));
    gale_memory_stats stats;
    struct rusage usage;
    gale_memory_get_stats(device, &stats);
    t->device_peak = stats.peak_bytes;
    if (!getrusage(RUSAGE_SELF, &usage)) t->process_peak = (uint64_t)usage.ru_maxrss << 10;
    qsort(t->runs_ms, (size_t)t->n, sizeof *t->runs_ms, by_value);
    status = time_batches(m, inputs, a);
done:
    if (m) gale__objects_free(&inputs, gale_model_inputs(m));
    gale_model_close(&m);
    return status;
}

static void print(const times *t)
{
    char device[32], process[32];
    printf("read and scheduled   %10.1f ms\n", t->open_ms);
    printf("first run            %10.1f ms (plan, kernels, weights, run)\n", t->first_ms);
    printf("steady run           %10.2f ms median, %.2f best, %.2f at 90 %%, %.2f at 99 %% (%lld runs)\n",
        percentile(t, 0.5), t->runs_ms[0], percentile(t, 0.9), percentile(t, 0.99), (long long)t->n);
    printf("memory               %s on the device at most, %s resident\n", gale__bytes_text(t->device_peak, device),
        gale__bytes_text(t->process_peak, process));
}

static int print_json(const times *t)
{
    gale__str text = {0};
    gale__json_out j;
    gale__json_begin(&j, &text);
    gale__json_object(&j);
    gale__json_key(&j, "open_ms"), gale__json_f64(&j, t->open_ms);
    gale__json_key(&j, "first_ms"), gale__json_f64(&j, t->first_ms);
    gale__json_key(&j, "median_ms"), gale__json_f64(&j, percentile(t, 0.5));
    gale__json_key(&j, "best_ms"), gale__json_f64(&j, t->runs_ms[0]);
    gale__json_key(&j, "p90_ms"), gale__json_f64(&j, percentile(t, 0.9));
    gale__json_key(&j, "p99_ms"), gale__json_f64(&j, percentile(t, 0.99));
    gale__json_key(&j, "runs"), gale__json_i64(&j, t->n);
    gale__json_key(&j, "device_peak_bytes"), gale__json_i64(&j, (int64_t)t->device_peak);
    gale__json_key(&j, "process_peak_bytes"), gale__json_i64(&j, (int64_t)t->process_peak);
    gale__json_close(&j, '}');
    gale__str_add(&text, "\n");
    return gale__print(&text);
}

gale_status gale__bench_model(gale_device *device, const char *path, const gale__args *a)
{
    times t = {0};
    t.runs_ms = gale__calloc((size_t)gale__args_int(a, "repeats") + 1, sizeof *t.runs_ms);
    if (!t.runs_ms) return GALE_NO_MEMORY;
    gale_status status = measure(device, path, a, &t);
    if (status == GALE_OK && gale__args_flag(a, "json")) print_json(&t);
    else if (status == GALE_OK) print(&t);
    gale__free(t.runs_ms);
    return status;
}
