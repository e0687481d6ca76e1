/* What a provider has to manage before it is trusted, from the driver's first call to a kernel's result. */
#include "cli/doctor.h"
#include "device/poke.h"
#include "gale/graph.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define N ((size_t)1 << 20)

static gale_status open_device(gale__doctor *d)
{
    gale_device_options options = GALE_DEVICE_OPTIONS;
    options.chain = d->provider;
    options.strict = true;
    GALE_TRY(gale_device_open(&options, &d->device));
    snprintf(d->note, sizeof d->note, "%s, %s", d->device->info.name, d->device->info.driver);
    return GALE_OK;
}

static gale_status allocate(gale__doctor *d)
{
    GALE_TRY(gale_stream_create(d->device, &d->stream));
    GALE_TRY(gale_buffer_create(d->device, N, &d->a));
    return gale_buffer_create(d->device, N, &d->b);
}

static bool holds_data(const gale__doctor *d) { return d->device->info.caps.holds_data; }

static gale_status transfer(gale__doctor *d)
{
    uint8_t *host = gale__alloc(2 * N);
    if (!host) return GALE_NO_MEMORY;
    for (size_t i = 0; i < N; i++) host[i] = (uint8_t)(i * 2654435761u >> 13);
    gale_status status;
    GALE_GO(gale_upload(d->stream, d->a, 0, host, N));
    GALE_GO(gale_copy(d->stream, d->b, 0, d->a, 0, N));
    GALE_GO(gale_download(d->stream, d->b, 0, host + N, N));
    GALE_GO(gale_stream_sync(d->stream));
    if (holds_data(d) && memcmp(host, host + N, N))
        status = gale__fail(GALE_MISMATCH, "what came back is not what was sent");
done:
    gale__free(host);
    return status;
}

static gale_status run_kernel(gale__doctor *d)
{
    gale__poke poke = {0};
    uint32_t got = 0;
    GALE_TRY(gale__poke_create(d->device, &poke));
    gale_status status;
    GALE_GO(gale__poke_run(&poke, d->stream, d->a, 20071));
    GALE_GO(gale_download(d->stream, d->a, 0, &got, 4));
    GALE_GO(gale_stream_sync(d->stream));
    if (holds_data(d) && got != 20071)
        status = gale__fail(GALE_MISMATCH, "the kernel ran but wrote %u instead of 20071", got);
done:
    gale__poke_finish(&poke);
    return status;
}

/* A small network in the words of ONNX; the same on the device and on the CPU. */
typedef gale_status write_net(gale_graph *g, gale_value x, gale_value *out);

static gale_status constant(gale_graph *g, int rank, const int64_t *dims, gale_value *out)
{
    float data[256];
    size_t n = 1;
    for (int i = 0; i < rank; i++) n *= (size_t)dims[i];
    for (size_t i = 0; i < n && i < 256; i++) data[i] = (float)((int)(i * 37 % 17) - 8) * 0.125f;
    return gale_graph_constant(g, GALE_F32, rank, dims, data, out);
}

static gale_status convolution(gale_graph *g, gale_value x, gale_value *out)
{
    static const int64_t w_dims[4] = {4, 3, 3, 3}, pads[4] = {1, 1, 1, 1};
    static const gale_attr attrs[] = {GALE_INTS("pads", pads, 4)};
    gale_value in[2] = {x};
    GALE_TRY(constant(g, 4, w_dims, &in[1]));
    return gale_graph_op(g, "Conv", in, 2, attrs, 1, out, 1);
}

static gale_status einsum_scatter(gale_graph *g, gale_value x, gale_value *out)
{
    static const int64_t index_dims[2] = {2, 1}, index[2] = {0, 2}, update_dims[4] = {2, 1, 8, 8}, w_dims[2] = {8, 5};
    static const gale_attr equation[] = {GALE_STRING_ATTR("equation", "nchw,wk->nhkc")};
    gale_value in[3], t = x, moved;
    static const int64_t perm[4] = {1, 0, 2, 3};
    static const gale_attr transpose[] = {GALE_INTS("perm", perm, 4)};
    GALE_TRY(gale_graph_op(g, "Transpose", &t, 1, transpose, 1, &moved, 1));
    in[0] = moved;
    GALE_TRY(gale_graph_constant(g, GALE_I64, 2, index_dims, index, &in[1]));
    GALE_TRY(constant(g, 4, update_dims, &in[2]));
    GALE_TRY(gale_graph_op(g, "ScatterND", in, 3, NULL, 0, &t, 1));
    GALE_TRY(gale_graph_op(g, "Transpose", &t, 1, transpose, 1, &in[0], 1));
    GALE_TRY(constant(g, 2, w_dims, &in[1]));
    return gale_graph_op(g, "Einsum", in, 2, equation, 1, out, 1);
}

static gale_status run_net(gale_device *device, const gale_graph *g, gale_tensor *x, gale_tensor **out)
{
    gale_program *p = NULL;
    GALE_TRY(gale_program_create(g, device, NULL, &p));
    gale_status status = gale_program_run(p, &x, out, true);
    gale_program_destroy(&p);
    return status;
}

static gale_status compare(gale_tensor *have, gale_tensor *want)
{
    const float *a = gale_tensor_data(have), *b = gale_tensor_data(want);
    size_t n = gale_tensor_size_bytes(want) / sizeof *b;
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-4f * (1 + fabsf(b[i]))))
            return gale__fail(GALE_MISMATCH, "element %zu is %g, and %g on the CPU", i, (double)a[i], (double)b[i]);
    return GALE_OK;
}

static gale_status try_net(gale__doctor *d, write_net *write)
{
    static const int64_t dims[4] = {1, 3, 8, 8};
    gale_device_options options = {"cpu", 0, true, false, 0};
    gale_graph *g = NULL;
    gale_device *cpu = NULL;
    gale_tensor *x = NULL, *have = NULL, *want = NULL;
    gale_value in, out;
    gale_status status;
    float data[192];
    for (int i = 0; i < 192; i++) data[i] = (float)(i * 29 % 31) * 0.0625f - 1;
    GALE_TRY(gale_graph_create(&g));
    GALE_GO(gale_graph_input(g, "x", GALE_F32, 4, dims, NULL, &in));
    GALE_GO(write(g, in, &out));
    GALE_GO(gale_graph_output(g, "y", out));
    GALE_GO(gale_tensor_from_cpu(NULL, GALE_F32, 4, dims, data, &x));
    GALE_GO(gale_device_open(&options, &cpu));
    GALE_GO(run_net(cpu, g, x, &want));
    GALE_GO(run_net(d->device, g, x, &have));
    if (holds_data(d)) status = compare(have, want);
done:
    gale_tensor_destroy(&x);
    gale_tensor_destroy(&have);
    gale_tensor_destroy(&want);
    gale_device_close(&cpu);
    gale_graph_destroy(&g);
    return status;
}

static gale_status try_convolution(gale__doctor *d) { return try_net(d, convolution); }
static gale_status try_einsum_scatter(gale__doctor *d) { return try_net(d, einsum_scatter); }

const gale__doctor_step gale__doctor_steps[] = {
    {"open the device", open_device},
    {"allocate memory", allocate},
    {"upload, copy and download 1 MiB", transfer},
    {"build and launch a kernel", run_kernel},
    {"a 3x3 convolution, as on the CPU", try_convolution},
    {"a net with Einsum and ScatterND, as on the CPU", try_einsum_scatter},
    {0},
};
