/* Whether the choice between devices by prediction is right: networks from microseconds to seconds, and models whose
 * inputs have fixed shapes, are predicted, or tried, and run on each device; the last column is what the choice loses
 * against the best one.  Usage: bench_placement [PROVIDER [PROVIDER [MODEL...]]] (default: opencl cpu).  Exit code 1: a
 * choice takes more than 10 % longer than the best. */
#include "base/thread.h"
#include "gale/machine.h"
#include "graph/run/forecast.h"
#include "jobs/model/model_inputs.h"
#include "jobs/model/placement.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 2, TRIES = 200 };
#define ENOUGH_NS 200000000u

typedef struct network {
    const char *name;
    int layers;
    int64_t side; /* of square products; of pictures */
    bool conv;
} network;
static const network networks[] = {{"product", 1, 8, false}, {"products", 4, 32, false}, {"products", 4, 64, false},
    {"products", 8, 128, false}, {"products", 8, 256, false}, {"products", 8, 512, false}, {"products", 8, 1024, false},
    {"convolutions", 2, 8, true}, {"convolutions", 4, 16, true}, {"convolutions", 4, 32, true},
    {"convolutions", 4, 64, true}, {"convolutions", 8, 96, true}, {"convolutions", 16, 224, true}};

static bool failed(gale_status status)
{
    if (status != GALE_OK) fprintf(stderr, "bench_placement: %s\n", gale_error());
    return status != GALE_OK;
}

static gale_status layer(gale_graph *g, const network *n, gale_value *x)
{
    static float weights[32 * 32 * 9];
    const int64_t dims[4] = {32, 32, 3, 3}, pads[4] = {1, 1, 1, 1};
    gale_attr attr = GALE_INTS("pads", pads, 4);
    gale_value in[2] = {*x, *x};
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) weights[i] = (float)(i % 17) / 1000;
    if (n->conv) GALE_TRY(gale_graph_constant(g, GALE_F32, 4, dims, weights, &in[1]));
    GALE_TRY(gale_graph_op(g, n->conv ? "Conv" : "MatMul", in, 2, &attr, n->conv, x, 1));
    return gale_graph_op(g, "Tanh", x, 1, NULL, 0, x, 1);
}

static gale_status make(const network *n, gale_graph **out, gale_tensor **x)
{
    gale_value v;
    const int64_t square[2] = {n->side, n->side}, picture[4] = {1, 32, n->side, n->side};
    const int64_t *dims = n->conv ? picture : square;
    GALE_TRY(gale_graph_create(out));
    GALE_TRY(gale_graph_input(*out, "x", GALE_F32, n->conv ? 4 : 2, dims, NULL, &v));
    for (int i = 0; i < n->layers; i++) GALE_TRY(layer(*out, n, &v));
    GALE_TRY(gale_graph_output(*out, "y", v));
    GALE_TRY(gale_tensor_create(NULL, GALE_F32, n->conv ? 4 : 2, dims, x));
    float *values = gale_tensor_data(*x);
    for (size_t i = 0; i < gale_tensor_size_bytes(*x) / sizeof *values; i++) values[i] = (float)(i % 13) / 13;
    return GALE_OK;
}

/* The best of some runs, from the host and back. */
typedef gale_status run_once(void *what);
static gale_status time_runs(run_once *run, void *what, double *us)
{
    uint64_t begun = gale__time_ns();
    *us = 1e300;
    for (int i = 0; i < TRIES && (i < 4 || gale__time_ns() - begun < ENOUGH_NS); i++) {
        uint64_t start = gale__time_ns();
        GALE_TRY(run(what));
        double took = (double)(gale__time_ns() - start) / 1e3;
        if (i > 1 && took < *us) *us = took;
    }
    return GALE_OK;
}

typedef struct graph_run {
    gale_program *program;
    gale_tensor *x;
} graph_run;
static gale_status run_graph(void *what)
{
    graph_run *r = what;
    gale_tensor *y = NULL;
    gale_status status = gale_program_run(r->program, &r->x, &y, GALE_RUN_ON_HOST);
    gale_tensor_destroy(&y);
    return status;
}

static gale_status time_graph(gale_device *device, const gale_graph *graph, gale_tensor *x, double *us)
{
    graph_run r = {.x = x};
    gale_status status = gale_program_create(graph, device, NULL, &r.program);
    if (status == GALE_OK) status = time_runs(run_graph, &r, us);
    gale_program_destroy(&r.program);
    return status;
}

typedef struct model_run {
    gale_model *model;
    gale_object **in;
} model_run;
static gale_status run_model(void *what)
{
    const model_run *r = what;
    double ms;
    return gale__model_run_timed(r->model, r->in, &ms);
}

static gale_status time_model(gale_device *device, const char *path, gale_object **in, double *us)
{
    model_run r = {.in = in};
    gale_status status = gale_model_open(path, device, NULL, &r.model);
    if (status == GALE_OK) status = time_runs(run_model, &r, us);
    gale_model_close(&r.model);
    return status;
}

/* Prints one row; what the choice loses. */
static double print_row(gale_device *const *devices, const double predicted[DEVICES], const double took[DEVICES])
{
    int choice = predicted[1] < predicted[0], best = took[1] < took[0];
    double loss = took[choice] / took[best] - 1;
    for (int i = 0; i < DEVICES; i++) printf("%12.1f %12.1f ", predicted[i], took[i]);
    printf(" %-8s %5.1f %%\n", gale_device_get_info(devices[choice])->backend, loss * 100);
    fflush(stdout);
    return loss;
}

static gale_status compare(gale_device *const *devices, const network *n, double *loss)
{
    gale_graph *graph = NULL;
    gale_tensor *x = NULL;
    gale_program *p = NULL;
    double predicted[DEVICES], took[DEVICES];
    gale_status status;
    GALE_GO(make(n, &graph, &x));
    GALE_GO(gale_program_create(graph, devices[DEVICES - 1], NULL, &p)); /* the CPU plans soonest */
    GALE_GO(gale__program_forecast(p, &x, devices, DEVICES, predicted));
    for (int i = 0; i < DEVICES; i++) GALE_GO(time_graph(devices[i], graph, x, &took[i]));
    printf("%-16s %3d %5lld ", n->name, n->layers, (long long)n->side);
    *loss = print_row(devices, predicted, took);
done:
    gale_program_destroy(&p);
    gale_tensor_destroy(&x);
    gale_graph_destroy(&graph);
    return status;
}

static gale_status compare_model(gale_device *const *devices, const char *path, double *loss)
{
    gale_model *m = NULL;
    gale__arena arena = {0};
    gale__placing p = {.model = &(gale_model_options){0},
        .inputs_wanted = &(gale_input_options){0},
        .random = true,
        .devices = devices,
        .n = DEVICES};
    double predicted[DEVICES], took[DEVICES];
    gale_status status;
    GALE_GO(gale__model_open_placed(&p, path, &arena, &m));
    for (int i = 0; i < DEVICES; i++) predicted[i] = p.placements[i].predicted_us;
    for (int i = 0; i < DEVICES; i++) GALE_GO(time_model(devices[i], path, p.inputs, &took[i]));
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    printf("%-26.26s ", name);
    *loss = print_row(devices, predicted, took);
done:
    gale__objects_free(&p.inputs, p.n_inputs);
    gale_model_close(&m);
    gale__arena_finish(&arena);
    return status;
}

int main(int argc, char **argv)
{
    gale_device *devices[DEVICES] = {0};
    double worst = 0;
    gale_workarounds_apply();
    for (int i = 0; i < DEVICES; i++) {
        const char *chain = argc > i + 1 ? argv[i + 1] : i ? "cpu" : "opencl";
        if (failed(gale_device_open(&(gale_device_options){.chain = chain}, &devices[i]))) return 2;
        if (!gale__forecast_known(devices[i]) && failed(gale_device_measure(devices[i]))) return 2;
    }
    printf("%-16s %3s %5s ", "network", "n", "side");
    for (int i = 0; i < DEVICES; i++) printf("%9s us %12s ", gale_device_get_info(devices[i])->backend, "took us");
    printf(" %-8s %7s\n", "choice", "loses");
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        double loss = 0;
        if (failed(compare(devices, &networks[i], &loss))) return 2;
        if (loss > worst) worst = loss;
    }
    for (int i = 1 + DEVICES; i < argc; i++) {
        double loss = 0;
        if (failed(compare_model(devices, argv[i], &loss))) return 2;
        if (loss > worst) worst = loss;
    }
    for (int i = 0; i < DEVICES; i++) gale_device_close(&devices[i]);
    printf("the worst choice takes %.1f %% longer than the best\n", worst * 100);
    return worst > 0.1;
}
