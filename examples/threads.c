/* One model, several threads: runs share plans, kernels and weights, and each has memory of its own.  The progress
 * callback stops a run.
 *
 *     threads MODEL.onnx [PROVIDERS]       -- one input and one output */
#include <gale/model.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 4, RUNS = 25 };
static _Atomic int stop, done;

static bool go_on(void *user, int step, int steps)
{
    (void)user, (void)step, (void)steps;
    return !atomic_load(&stop);
}

static void *work(void *arg)
{
    gale_model *model = arg;
    gale_model_value v;
    int64_t dims[GALE_MAX_RANK];
    gale_tensor *x = NULL;
    gale_object *in = NULL;
    if (gale_model_input(model, 0, &v) != GALE_OK) return NULL;
    for (int i = 0; i < v.rank; i++) dims[i] = v.dims[i] < 0 ? 2 : v.dims[i];
    if (gale_tensor_create(NULL, v.type, v.rank, dims, &x) != GALE_OK) return NULL;
    memset(gale_tensor_data(x), 0, gale_tensor_size_bytes(x)); /* tensors come as their memory was */
    for (int i = 0; i < RUNS && (in || gale_object_tensor(x, &in) == GALE_OK); i++) {
        gale_object *out = NULL;
        if (gale_model_run(model, &in, &out, GALE_RUN_ON_HOST) != GALE_OK) fprintf(stderr, "run: %s\n", gale_error());
        else atomic_fetch_add(&done, 1);
        gale_object_destroy(&out);
    }
    gale_object_destroy(&in);
    gale_tensor_destroy(&x);
    return NULL;
}

int main(int argc, char **argv)
{
    gale_device_options where = GALE_DEVICE_OPTIONS;
    gale_model_options options = {.progress = go_on};
    gale_device *device = NULL;
    gale_model *model = NULL;
    pthread_t threads[THREADS];
    if (argc < 2) return fprintf(stderr, "usage: threads MODEL.onnx [PROVIDERS]\n"), 2;
    where.chain = argc > 2 ? argv[2] : NULL;
    if (gale_device_open(&where, &device) != GALE_OK || gale_model_open(argv[1], device, &options, &model) != GALE_OK)
        return fprintf(stderr, "%s\n", gale_error()), 1;
    if (gale_model_inputs(model) != 1 || gale_model_outputs(model) != 1)
        return fprintf(stderr, "the model must have one input and one output\n"), 1;
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, model);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    printf("%d of %d runs done\n", atomic_load(&done), THREADS * RUNS);
    bool all = atomic_load(&done) == THREADS * RUNS;

    atomic_store(&stop, 1); /* from now on every run is cancelled before its first step */
    work(model);
    printf("%d after the stop\n", atomic_load(&done) - THREADS * RUNS);
    all = all && atomic_load(&done) == THREADS * RUNS;
    gale_model_close(&model);
    gale_device_close(&device);
    return !all;
}
