/* Peak rates that only kernels can measure: chains of multiply-adds and a matrix product for arithmetic (the better
 * one counts, since processors reach their peak only in products), a plain map for memory. */
#include "graph/run/measure.h"
#include "base/thread.h"
#include "device/ceilings.h"
#include "graph/run/forecast.h"
#include "graph/run/time.h"
#include <string.h>

#define ENOUGH_NS 200000000u /* longer measurements of a slow machine are no better */

typedef gale_status write_graph(gale_graph *g, gale_value x, gale_value *out);

static gale_status number(gale_graph *g, float v, gale_value *out)
{
    return gale_graph_constant(g, GALE_F32, 0, NULL, &v, out);
}

static gale_status multiply_adds(gale_graph *g, gale_value x, gale_value *out)
{
    gale_value a, b;
    GALE_TRY(number(g, 0.999f, &a));
    GALE_TRY(number(g, 0.001f, &b));
    for (int i = 0; i < 100; i++) {
        gale_value in[3] = {x, a, b};
        GALE_TRY(gale_graph_op(g, "FusedMultiplyAdd", in, 3, NULL, 0, &x, 1));
    }
    *out = x;
    return GALE_OK;
}

static gale_status product(gale_graph *g, gale_value x, gale_value *out)
{
    gale_value in[2] = {x, x};
    return gale_graph_op(g, "MatMul", in, 2, NULL, 0, out, 1);
}

static gale_status negate(gale_graph *g, gale_value x, gale_value *out)
{
    return gale_graph_op(g, "Neg", &x, 1, NULL, 0, out, 1);
}

static gale_status time_graph(gale_device *device, write_graph *write, int64_t rows, int64_t columns, gale__timing *t)
{
    gale_graph *g = NULL;
    gale_program *p = NULL;
    gale_tensor *x = NULL;
    gale_value in, out;
    gale_status status;
    int64_t dims[2] = {rows, columns};
    GALE_TRY(gale_graph_create(&g));
    GALE_GO(gale_graph_input(g, "x", GALE_F32, 2, dims, NULL, &in));
    GALE_GO(write(g, in, &out));
    GALE_GO(gale_graph_output(g, "y", out));
    GALE_GO(gale_program_create(g, device, NULL, &p));
    GALE_GO(gale_tensor_create(device, GALE_F32, 2, dims, &x));
    status = gale__program_time(p, &x, 9, ENOUGH_NS, t); /* the least counts: others may use the machine */
done:
    gale_tensor_destroy(&x);
    gale_program_destroy(&p);
    gale_graph_destroy(&g);
    return status;
}

/* Products, activations, a normalisation and a sum, as networks have them. */
static gale_status network(gale_graph *g, gale_value x, gale_value *out)
{
    gale_value first = x, pair[2];
    for (int i = 0; i < 3; i++) {
        GALE_TRY(product(g, x, &x));
        GALE_TRY(gale_graph_op(g, "Softmax", &x, 1, NULL, 0, &x, 1));
        pair[0] = x, pair[1] = first;
        GALE_TRY(gale_graph_op(g, "Add", pair, 2, NULL, 0, &x, 1));
        GALE_TRY(gale_graph_op(g, "Tanh", &x, 1, NULL, 0, &x, 1));
    }
    *out = x;
    return GALE_OK;
}

/* What a network reaches of the ceilings, which must be set. */
static gale_status measure_efficiency(gale_device *device, int64_t side)
{
    gale__timing t = {0};
    GALE_TRY(time_graph(device, network, side, side, &t));
    return gale__ceilings_set_efficiency(device, t.least_us > 0 ? t.predicted_us / t.least_us : 1);
}

/* A few sums of many terms. */
static gale_status long_sums(gale_graph *g, gale_value x, gale_value *out)
{
    gale_value in[2] = {x};
    GALE_TRY(gale_graph_op(g, "Transpose", &x, 1, NULL, 0, &in[1], 1));
    return gale_graph_op(g, "MatMul", in, 2, NULL, 0, out, 1);
}

enum { LAYERS_FEW = 4, LAYERS_MANY = 20, RUNS = 40 };

/* n products of [side, side] with an activation each, as one kernel each, made ready. */
static gale_status make_layers(gale_device *device, int n, int64_t side, gale_program **out)
{
    gale_graph *g = NULL;
    gale_value x;
    gale_status status;
    int64_t dims[2] = {side, side};
    GALE_TRY(gale_graph_create(&g));
    GALE_GO(gale_graph_input(g, "x", GALE_F32, 2, dims, NULL, &x));
    for (int i = 0; i < n; i++) {
        GALE_GO(product(g, x, &x));
        GALE_GO(gale_graph_op(g, "Tanh", &x, 1, NULL, 0, &x, 1));
    }
    GALE_GO(gale_graph_output(g, "y", x));
    status = gale_program_create(g, device, NULL, out);
done:
    gale_graph_destroy(&g);
    return status;
}

static gale_status least_run_us(gale_program *p, gale_tensor *x, double *us)
{
    gale_tensor *y = NULL;
    uint64_t start = gale__time_ns();
    GALE_TRY(gale_program_run(p, &x, &y, GALE_RUN_ON_HOST));
    double took = (double)(gale__time_ns() - start) / 1e3;
    if (took < *us) *us = took;
    gale_tensor_destroy(&y);
    return GALE_OK;
}

/* What a layer adds to a run as callers make it, from the host and back, and what the run takes without layers. */
static gale_status measure_layer(gale_device *device, int64_t side, double *us, double *run_us)
{
    gale_program *few = NULL, *many = NULL;
    gale_tensor *x = NULL;
    double less = 1e300, more = 1e300;
    gale_status status;
    GALE_GO(make_layers(device, LAYERS_FEW, side, &few));
    GALE_GO(make_layers(device, LAYERS_MANY, side, &many));
    GALE_GO(gale_tensor_create(NULL, GALE_F32, 2, (int64_t[]){side, side}, &x));
    memset(gale_tensor_data(x), 0, gale_tensor_size_bytes(x));
    uint64_t begun = gale__time_ns();
    for (int i = 0; i < RUNS && (i < 2 || gale__time_ns() - begun < ENOUGH_NS); i++) {
        GALE_GO(least_run_us(few, x, &less));
        GALE_GO(least_run_us(many, x, &more));
    }
    *us = (more - less) / (LAYERS_MANY - LAYERS_FEW);
    *run_us = less - LAYERS_FEW * *us;
done:
    gale_tensor_destroy(&x);
    gale_program_destroy(&few);
    gale_program_destroy(&many);
    return status;
}

/* What the layer takes beside its work, or beside waiting for the terms of its sums. */
static gale_status measure_beside(gale_device *device, int64_t side, double step_us, double *us, double *run_us)
{
    double n = (double)side;
    GALE_TRY(measure_layer(device, side, us, run_us));
    *us -= gale__forecast_busy_us(&device->info.ceilings, 12 * n * n, 2 * n * n * n, n * step_us);
    return GALE_OK;
}

static gale_status measure_costs(gale_device *device, int64_t terms)
{
    const gale_device_ceilings *c = &device->info.ceilings;
    gale__timing sums = {0};
    double small, large, run_us, bytes = 4.0 * GALE__FORECAST_LARGE * GALE__FORECAST_LARGE, step_us = 0;
    GALE_TRY(time_graph(device, long_sums, GALE__FORECAST_LARGE, terms, &sums));
    if (!device->info.caps.host_functions && !device->info.caps.software) /* memory is far away */
        step_us = (sums.least_us - sums.predicted_us / c->efficiency) / (double)terms;
    if (step_us < 0) step_us = 0;
    GALE_TRY(measure_beside(device, GALE__FORECAST_SMALL, step_us, &small, &run_us));
    GALE_TRY(measure_beside(device, GALE__FORECAST_LARGE, step_us, &large, &run_us));
    double run_only_us = run_us - bytes / (c->upload_gbps * 1e3) - bytes / (c->download_gbps * 1e3);
    if (!device->info.caps.in_place) GALE_TRY(gale__ceilings_raise_round_trip(device, run_only_us));
    return gale__ceilings_set_kernel(device, small, large, step_us * 1e3);
}

gale_status gale__measure_kernels(gale_device *device)
{
    gale__timing chain = {0}, matmul = {0}, map = {0};
    bool slow = device->info.caps.in_place || device->info.caps.software;
    bool software = device->info.caps.software; /* hundreds of times slower than the CPU itself */
    int64_t rows = software ? 32 : slow ? 256 : 4096, side = software ? 128 : slow ? 512 : 4096;
    GALE_TRY(time_graph(device, multiply_adds, rows, 1024, &chain));
    GALE_TRY(time_graph(device, product, side, side, &matmul));
    GALE_TRY(time_graph(device, negate, slow ? 4096 : 65536, 1024, &map));
    double gflops = 200.0 * (double)rows * 1024 / chain.least_us / 1e3,
           other = 2.0 * (double)side * (double)side * (double)side / matmul.least_us / 1e3;
    GALE_TRY(gale__ceilings_set_f32(device, gflops > other ? gflops : other));
    GALE_TRY(gale__ceilings_raise_copy(device, 8.0 * (double)(slow ? 4096 : 65536) * 1024 / map.least_us / 1e3));
    GALE_TRY(measure_efficiency(device, software ? 128 : slow ? 512 : 1024));
    return measure_costs(device, software ? 512 : 4096);
}
