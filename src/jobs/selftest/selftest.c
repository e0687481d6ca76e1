/* The self-test of a driver: memory, then one kernel of each schedule compared with the CPU.  Each
 * step is reported before it starts, so that the output shows at which one a driver crashed. */
#include "base/error.h"
#include "base/mem.h"
#include "device/trust.h"
#include "jobs/selftest/selftest_kernels.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define COPY_BYTES ((size_t)1 << 20)
#define ELEMENT_ERROR 2e-5
#define SUM_ERROR 1e-5
#define HALF_ERROR 2e-3

typedef struct test {
    gale_device *device;
    gale__trust_part part;
    gale__trust_line *on_line;
    void *user;
    gale_tensor *have[32], *want[32]; /* results on the device and on the CPU */
} test;

static void tell(const test *t, const char *format, ...) GALE__PRINTF(2, 3);
static void tell(const test *t, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *p = line; *p; p++)
        if (*p == '\n') *p = ' '; /* one call, one line */
    t->on_line(t->user, line);
}

/* The null device runs nothing: there is nothing to compare. */
static bool holds_data(const test *t) { return t->device->info.caps.holds_data; }

static gale_status copy_there_and_back(test *t)
{
    gale_stream *stream = NULL;
    gale_buffer *a = NULL, *b = NULL;
    gale_status status;
    uint8_t *host = gale__alloc(2 * COPY_BYTES);
    if (!host) return GALE_NO_MEMORY;
    for (size_t i = 0; i < COPY_BYTES; i++) host[i] = (uint8_t)(i * 2654435761u >> 13);
    GALE_GO(gale_stream_create(t->device, &stream));
    GALE_GO(gale_buffer_create(t->device, COPY_BYTES, &a));
    GALE_GO(gale_buffer_create(t->device, COPY_BYTES, &b));
    GALE_GO(gale_upload(stream, a, 0, host, COPY_BYTES));
    GALE_GO(gale_copy(stream, b, 0, a, 0, COPY_BYTES));
    GALE_GO(gale_download(stream, b, 0, host + COPY_BYTES, COPY_BYTES));
    GALE_GO(gale_stream_sync(stream));
    if (holds_data(t) && memcmp(host, host + COPY_BYTES, COPY_BYTES))
        status = gale__fail(GALE_MISMATCH, "the downloaded data differs from the uploaded data");
done:
    gale_stream_destroy(&stream);
    gale_buffer_destroy(&a);
    gale_buffer_destroy(&b);
    gale__free(host);
    return status;
}

static gale_status run_net(gale_device *device, gale__selftest_net *net, gale_tensor **out)
{
    gale_program *p = NULL;
    GALE_TRY(gale_program_create(net->graph, device, NULL, &p));
    gale_status status = gale_program_run(p, net->inputs, out, GALE_RUN_ON_HOST);
    gale_program_destroy(&p);
    return status;
}

static int count_of(const test *t) { return gale__selftest_count(gale_device_get_info(t->device)->caps.n_matrix > 0); }

static gale_status run_kernels(test *t)
{
    gale_device_options options = {"cpu", 0, true, false, 0};
    gale__selftest_net net;
    gale_device *cpu = NULL;
    gale_status status;
    GALE_TRY(gale__selftest_net_create(&net, count_of(t), t->part));
    GALE_GO(gale_device_open(&options, &cpu));
    GALE_GO(run_net(cpu, &net, t->want));
    GALE_GO(run_net(t->device, &net, t->have));
done:
    gale_device_close(&cpu);
    gale__selftest_net_finish(&net);
    return status;
}

/* Relative to each element, and to `least` where that is smaller: sums that cancel out keep the error of their terms.
 */
static gale_status compare_elements(const float *have, const float *want, size_t n, double tolerance, double least)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)have[i] - (double)want[i]) <= tolerance * fmax(fabs((double)want[i]), least)))
            return gale__fail(
                GALE_MISMATCH, "element %zu is %g, but %g on the CPU", i, (double)have[i], (double)want[i]);
    return GALE_OK;
}

static gale_status compare_sums(const float *have, const float *want, size_t n)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)have[i] - (double)want[i];
        error += d * d;
        size += (double)want[i] * (double)want[i];
    }
    error = sqrt(error / size);
    return error <= SUM_ERROR ? GALE_OK : gale__fail(GALE_MISMATCH, "relative error %.3g against the CPU", error);
}

static gale_status compare(const test *t, int i, char how)
{
    const float *have = gale_tensor_data(t->have[i]), *want = gale_tensor_data(t->want[i]);
    size_t n = gale_tensor_size_bytes(t->want[i]) / sizeof *want;
    if (!have || !want || gale_tensor_size_bytes(t->have[i]) != n * sizeof *want)
        return gale__fail(GALE_MISMATCH, "the result has a different size than on the CPU");
    if (how == 's') return compare_sums(have, want, n);
    if (how == 'h') return compare_elements(have, want, n, HALF_ERROR, 1);
    return compare_elements(have, want, n, how == 'e' ? ELEMENT_ERROR : 0, 0);
}

/* Tells the step, runs it, tells how it went. */
static gale_status step(test *t, const char *name, gale_status (*run)(test *))
{
    tell(t, "> %s", name);
    gale_status status = run(t);
    if (status == GALE_OK) tell(t, "+ ");
    else tell(t, "- %s", gale_error());
    return status;
}

static gale_status check_kernels(test *t)
{
    GALE_TRY(step(t, "compile and run a kernel of each kind", run_kernels));
    for (int i = t->part.index, at = 0; holds_data(t) && i < count_of(t); i += t->part.count, at++) {
        tell(t, "> %s", gale__selftest_kernels[i].name);
        gale_status status = compare(t, at, gale__selftest_kernels[i].compare);
        if (status != GALE_OK) {
            tell(t, "- %s", gale_error());
            return status;
        }
        tell(t, "+ ");
    }
    return GALE_OK;
}

gale_status gale__selftest_run(gale_device *device, gale__trust_part part, gale__trust_line *on_line, void *user)
{
    test t = {.device = device, .part = part, .on_line = on_line, .user = user};
    gale_status status = step(&t, "upload, copy and download 1 MiB", copy_there_and_back);
    if (status == GALE_OK) status = check_kernels(&t);
    for (size_t i = 0; i < sizeof t.have / sizeof *t.have; i++) {
        gale_tensor_destroy(&t.have[i]);
        gale_tensor_destroy(&t.want[i]);
    }
    return status;
}
