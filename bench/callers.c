/* Many callers of one model at once: requests a second, and milliseconds of processor time for each.
 *
 *     bench_callers MODEL CALLERS THREADS SECONDS SHAPE     -- inputs of ones of that shape (1x16), THREADS a run
 *
 * bench/callers.py sets ONNX Runtime beside it. */
#include "base/thread.h"
#include "gale/model.h"
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CALLERS_MOST = 256, INPUTS_MOST = 8 };

typedef struct load {
    gale_model *model;
    int threads, rank;
    int64_t dims[GALE_MAX_RANK];
    uint64_t end_ns;
    _Atomic uint64_t requests;
    _Atomic bool failed;
} load;

static gale_status fill_ones(const load *l, int input, gale_object **out)
{
    gale_model_value v;
    gale_tensor *t = NULL;
    GALE_TRY(gale_model_input(l->model, input, &v));
    GALE_TRY(gale_tensor_create(NULL, v.type, l->rank, l->dims, &t));
    size_t n = gale_tensor_size_bytes(t) / gale_type_size(v.type);
    for (size_t i = 0; i < n; i++) {
        if (v.type == GALE_I64) ((int64_t *)gale_tensor_data(t))[i] = 1;
        else if (v.type == GALE_I32) ((int32_t *)gale_tensor_data(t))[i] = 1;
        else ((float *)gale_tensor_data(t))[i] = 1;
    }
    gale_status status = gale_object_tensor(t, out);
    gale_tensor_destroy(&t);
    return status;
}

static gale_status request(load *l, gale_object *const *in)
{
    gale_object *out[INPUTS_MOST] = {NULL};
    gale_run_control control = {.outputs_on_host = true, .threads = l->threads};
    gale_status status = gale_model_run_with(l->model, in, out, &control);
    for (int i = 0; i < INPUTS_MOST; i++) gale_object_destroy(&out[i]);
    return status;
}

static void call(void *arg)
{
    load *l = arg;
    gale_object *in[INPUTS_MOST] = {NULL};
    bool ok = true;
    for (int i = 0; i < gale_model_inputs(l->model) && ok; i++) ok = fill_ones(l, i, &in[i]) == GALE_OK;
    while (ok && gale__time_ns() < l->end_ns) {
        ok = request(l, in) == GALE_OK;
        atomic_fetch_add(&l->requests, 1);
    }
    if (!ok) fprintf(stderr, "%s\n", gale_error()), atomic_store(&l->failed, true);
    for (int i = 0; i < INPUTS_MOST; i++) gale_object_destroy(&in[i]);
}

static double rate(load *l, int callers, double seconds, double *cpu_ms)
{
    gale__thread threads[CALLERS_MOST];
    uint64_t start = gale__time_ns();
    clock_t used = clock();
    l->end_ns = start + (uint64_t)(seconds * 1e9);
    atomic_store(&l->requests, 0);
    for (int i = 0; i < callers; i++)
        if (gale__thread_begin(&threads[i], call, l) != GALE_OK) exit(1);
    for (int i = 0; i < callers; i++) gale__thread_end(&threads[i]);
    double requests = (double)atomic_load(&l->requests);
    *cpu_ms = 1e3 * (double)(clock() - used) / CLOCKS_PER_SEC / requests;
    return requests * 1e9 / (double)(gale__time_ns() - start);
}

int main(int argc, char **argv)
{
    gale_device_options where = GALE_DEVICE_OPTIONS;
    gale_device *device = NULL;
    load l = {0};
    if (argc != 6) return fprintf(stderr, "usage: bench_callers MODEL CALLERS THREADS SECONDS SHAPE\n"), 2;
    int callers = atoi(argv[2]);
    where.chain = "cpu";
    l.threads = atoi(argv[3]);
    for (char *at = argv[5]; *at && l.rank < GALE_MAX_RANK; at += *at == 'x') l.dims[l.rank++] = strtoimax(at, &at, 10);
    if (callers < 1 || callers > CALLERS_MOST || gale_device_open(&where, &device) != GALE_OK ||
        gale_model_open(argv[1], device, NULL, &l.model) != GALE_OK || gale_model_inputs(l.model) > INPUTS_MOST ||
        gale_model_outputs(l.model) > INPUTS_MOST)
        return fprintf(stderr, "%s\n", gale_error()), 1;
    double cpu_ms, reached;
    rate(&l, callers, 0.5, &cpu_ms);
    reached = rate(&l, callers, atof(argv[4]), &cpu_ms);
    printf("%.1f %.3f\n", reached, cpu_ms);
    gale_model_close(&l.model);
    gale_device_close(&device);
    return atomic_load(&l.failed);
}
