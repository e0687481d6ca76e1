/* Times the CPU interpreter beside a plain copy on the same threads: element-wise chains, rows, products, convolutions.
 * `bench_cpu WORD...` runs only the lines whose name contains a word; GALE_THREADS and GALE_ISA limit it as everywhere.
 * BENCH_CPU_TIME=1 counts processor time instead of wall time, for one thread on a machine that others use too. */
#include "base/cpu.h"
#include "base/thread.h"
#include "kernel/cpu/interp.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool cpu_time;
static uint64_t now_ns(void)
{
    struct timespec t;
    if (!cpu_time) return gale__time_ns();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int n_words;
static char **words;

static bool wanted(const char *name)
{
    for (int i = 0; i < n_words; i++)
        if (strstr(name, words[i])) return true;
    return !n_words;
}

/* The best of several runs, for at least a fifth of a second. */
static double best_seconds(void (*fn)(void *), void *arg)
{
    uint64_t begin = gale__time_ns(), best = UINT64_MAX;
    fn(arg);
    for (int i = 0; i < 3 || gale__time_ns() - begin < 400000000; i++) {
        uint64_t start = now_ns();
        fn(arg);
        uint64_t t = now_ns() - start;
        if (t < best) best = t;
    }
    return (double)best * 1e-9;
}

typedef struct copy {
    char *to, *from;
    size_t size;
} copy;
#define COPY_PART (256u << 10)
static void copy_part(void *arg, size_t i, int worker)
{
    const copy *c = arg;
    size_t at = i * COPY_PART;
    (void)worker;
    memcpy(c->to + at, c->from + at, c->size - at < COPY_PART ? c->size - at : COPY_PART);
}
static void run_copy(void *arg)
{
    gale__parallel((((const copy *)arg)->size + COPY_PART - 1) / COPY_PART, copy_part, arg);
}

/* A nest whose buffers are all f32 and dense, written line by line. */
typedef struct bench {
    gale__nest nest;
    gale__nest_instr code[32];
    gale__nest_access accesses[8];
    gale__nest_guard guards[8][GALE__GUARDS];
    gale__nest_store stores[2];
    gale__nest_buffer buffers[8];
    void *memory[8];
    gale__cpu_kernel *kernel;
} bench;

static void begin(bench *b, int n_outer, int n_inner, const int64_t *extent)
{
    memset(b, 0, sizeof *b);
    b->nest = (gale__nest){.n_outer = n_outer,
        .n_inner = n_inner,
        .code = b->code,
        .accesses = b->accesses,
        .stores = b->stores,
        .buffers = b->buffers};
    memcpy(b->nest.extent, extent, sizeof(int64_t) * (size_t)(n_outer + n_inner));
}

static gale__nest_access *buffer(bench *b, uint32_t mask, bool written)
{
    int n = b->nest.n_buffers++;
    gale__nest_access *a = &b->accesses[b->nest.n_accesses++];
    int64_t size = 1;
    *a = (gale__nest_access){.buffer = n, .type = GALE_F32, .guards = b->guards[b->nest.n_accesses - 1]};
    for (int d = b->nest.n_outer + b->nest.n_inner - 1; d >= 0; d--)
        if (mask >> d & 1) a->stride[d] = size, size *= b->nest.extent[d];
    b->buffers[n] = (gale__nest_buffer){size, GALE_F32, written};
    return a;
}

static int op(bench *b, int code, int inner, int x, int y)
{
    b->code[b->nest.n_code] =
        (gale__nest_instr){.op = (uint8_t)code, .type = GALE_F32, .inner = (uint8_t)inner, .a = x, .b = y};
    return b->nest.n_code++;
}
static int load(bench *b, gale__nest_access *a, int inner)
{
    int i = op(b, GALE__NEST_LOAD, inner, 0, 0);
    b->code[i].access = (int32_t)(a - b->accesses);
    return i;
}
static int constant(bench *b, float v)
{
    int i = op(b, GALE__NEST_CONST, 0, 0, 0);
    memcpy(&b->code[i].imm, &v, 4);
    return i;
}
static int reduce(bench *b, int kind, int x)
{
    int i = op(b, GALE__NEST_REDUCE, 0, x, 0);
    b->code[i].imm = (uint64_t)kind;
    b->code[i].acc = GALE_F32;
    return i;
}
static void store(bench *b, int v, gale__nest_access *a)
{
    b->stores[b->nest.n_stores++] = (gale__nest_store){v, (int32_t)(a - b->accesses), -1, 0};
}

static void run_kernel(void *arg) { gale__cpu_kernel_run(((bench *)arg)->kernel, ((bench *)arg)->memory); }

/* Canonical form, memory, kernel, time: one line. */
static void measure(bench *b, const char *name, double copy_rate)
{
    double bytes, operations;
    if (!wanted(name)) return;
    gale__nest_canonicalize(&b->nest);
    gale__nest_cost(&b->nest, &bytes, &operations);
    for (int i = 0; i < b->nest.n_buffers; i++) {
        float *p = b->memory[i] = gale__alloc_aligned(64, (size_t)b->buffers[i].elements * 4 + 64);
        for (int64_t j = 0; p && j < b->buffers[i].elements; j++) p[j] = (float)(j % 97) / 97 - 0.5f;
    }
    if (b->nest.n_buffers == 2 && b->buffers[0].elements == b->buffers[1].elements && bytes > 4e8) {
        /* The same memory: pages are not alike. */
        copy c = {b->memory[1], b->memory[0], (size_t)b->buffers[0].elements * 4};
        copy_rate = 2.0 * (double)c.size / best_seconds(run_copy, &c);
        printf("%-28s %10.1f us %8.2f GB/s\n", "copy of the same memory", 2e6 * (double)c.size / copy_rate,
            copy_rate * 1e-9);
    }
    uint64_t start = gale__time_ns();
    if (gale__cpu_kernel_create(&b->nest, &b->kernel) != GALE_OK) {
        printf("%-28s %s\n", name, gale_error());
        return;
    }
    double create_us = (double)(gale__time_ns() - start) * 1e-3, s = best_seconds(run_kernel, b);
    printf("%-28s %10.1f us %8.2f GB/s %4.0f %% of copy %8.1f GFLOP/s  create %5.1f us  %s\n", name, s * 1e6,
        bytes / s * 1e-9, bytes / s / copy_rate * 100, operations / s * 1e-9, create_us,
        gale__cpu_kernel_schedule(b->kernel));
    fflush(stdout);
    gale__cpu_kernel_destroy(&b->kernel);
    for (int i = 0; i < b->nest.n_buffers; i++) gale__free(b->memory[i]);
}

static void chain(int64_t n, double rate)
{
    bench b;
    char name[64];
    begin(&b, 1, 0, &n);
    int x = op(&b, GALE__MUL, 0, load(&b, buffer(&b, 1, false), 0), constant(&b, 1.5f));
    x = op(&b, GALE__MAX, 0, op(&b, GALE__ADD, 0, x, constant(&b, 0.25f)), constant(&b, 0));
    store(&b, x, buffer(&b, 1, true));
    snprintf(name, sizeof name, "relu(a x + b) %" PRId64, n);
    measure(&b, name, rate);
}

static void unary(const char *label, int code, double rate)
{
    bench b;
    char name[64];
    int64_t n = 1 << 16;
    begin(&b, 1, 0, &n);
    store(&b, op(&b, code, 0, load(&b, buffer(&b, 1, false), 0), 0), buffer(&b, 1, true));
    snprintf(name, sizeof name, "%s %" PRId64, label, n);
    measure(&b, name, rate);
}

static void softmax(int64_t rows, int64_t n, double rate)
{
    bench b;
    char name[64];
    begin(&b, 1, 1, (int64_t[]){rows, n});
    int x = load(&b, buffer(&b, 3, false), 1),
        e = op(&b, GALE__EXP, 1, op(&b, GALE__SUB, 1, x, reduce(&b, GALE__RMAX, x)), 0);
    store(&b, op(&b, GALE__DIV, 1, e, reduce(&b, GALE__SUM, e)), buffer(&b, 3, true));
    snprintf(name, sizeof name, "softmax %" PRId64 " x %" PRId64, rows, n);
    measure(&b, name, rate);
}

static void layer_norm(int64_t rows, int64_t n, double rate)
{
    bench b;
    char name[64];
    begin(&b, 1, 1, (int64_t[]){rows, n});
    int x = load(&b, buffer(&b, 3, false), 1), scale = constant(&b, 1.0f / (float)n);
    int d = op(&b, GALE__SUB, 1, x, op(&b, GALE__MUL, 0, reduce(&b, GALE__SUM, x), scale));
    int v = op(&b, GALE__MUL, 0, reduce(&b, GALE__SUM, op(&b, GALE__MUL, 1, d, d)), scale);
    int y = op(&b, GALE__DIV, 1, d, op(&b, GALE__SQRT, 0, op(&b, GALE__ADD, 0, v, constant(&b, 1e-5f)), 0));
    store(&b,
        op(&b, GALE__ADD, 1, op(&b, GALE__MUL, 1, y, load(&b, buffer(&b, 2, false), 1)),
            load(&b, buffer(&b, 2, false), 1)),
        buffer(&b, 3, true));
    snprintf(name, sizeof name, "layer norm %" PRId64 " x %" PRId64, rows, n);
    measure(&b, name, rate);
}

static void sum(int64_t rows, int64_t n, bool column, double rate)
{
    bench b;
    char name[64];
    begin(&b, 1, 1, (int64_t[]){rows, n});
    gale__nest_access *a = buffer(&b, 3, false);
    if (column) a->stride[0] = 1, a->stride[1] = rows;
    store(&b, reduce(&b, GALE__SUM, load(&b, a, 1)), buffer(&b, 1, true));
    snprintf(name, sizeof name, "%s sum %" PRId64 " of %" PRId64, column ? "column" : "row", rows, n);
    measure(&b, name, rate);
}

static void transpose(int64_t m, int64_t n, double rate)
{
    bench b;
    char name[64];
    begin(&b, 2, 0, (int64_t[]){m, n});
    gale__nest_access *a = buffer(&b, 3, false);
    a->stride[0] = 1, a->stride[1] = m;
    store(&b, load(&b, a, 0), buffer(&b, 3, true));
    snprintf(name, sizeof name, "transpose %" PRId64 " x %" PRId64, m, n);
    measure(&b, name, rate);
}

static void product(int64_t batch, int64_t m, int64_t n, int64_t k, bool turned, double rate)
{
    bench b;
    char name[64];
    begin(&b, 3, 1, (int64_t[]){batch, m, n, k});
    gale__nest_access *y, *x = buffer(&b, 1 | 2 | 8, false);
    y = buffer(&b, 1 | 4 | 8, false);
    if (!turned) y->stride[2] = 1, y->stride[3] = n;
    store(&b, reduce(&b, GALE__SUM, op(&b, GALE__MUL, 1, load(&b, x, 1), load(&b, y, 1))), buffer(&b, 7, true));
    snprintf(name, sizeof name, "gemm%s %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64, turned ? " a bt" : "",
        batch, m, n, k);
    measure(&b, name, rate);
}

/* Bytes or bf16, summed in I32 or F32. */
static void narrow_product(gale_type type, int64_t m, int64_t n, int64_t k, double rate)
{
    bench b;
    char name[64];
    gale_type wide = type == GALE_BF16 ? GALE_F32 : GALE_I32;
    begin(&b, 2, 1, (int64_t[]){m, n, k});
    gale__nest_access *x = buffer(&b, 1 | 4, false), *y = buffer(&b, 2 | 4, false);
    y->stride[1] = 1, y->stride[2] = n;
    x->type = y->type = b.buffers[0].type = b.buffers[1].type = type;
    int p = load(&b, x, 1), q = load(&b, y, 1),
        sum = reduce(&b, GALE__SUM, op(&b, GALE__MUL, 1, op(&b, GALE__CAST, 1, p, 0), op(&b, GALE__CAST, 1, q, 0)));
    for (int i = 0; i < b.nest.n_code; i++) b.code[i].type = (uint8_t)(i == p || i == q ? type : wide);
    b.code[sum].acc = (uint8_t)wide;
    gale__nest_access *z = buffer(&b, 3, true);
    z->type = b.buffers[2].type = wide;
    store(&b, sum, z);
    snprintf(name, sizeof name, "gemm %s %" PRId64 " x %" PRId64 " x %" PRId64, gale_type_name(type), m, n, k);
    measure(&b, name, rate);
}

static void convolution(
    const char *label, int64_t c, int64_t h, int64_t o, int64_t kernel, bool depthwise, bool channels_last, double rate)
{
    bench b;
    char name[64];
    int64_t pad = kernel / 2;
    begin(&b, 3, 3, (int64_t[]){o, h, h, depthwise ? 1 : c, kernel, kernel});
    gale__nest_access *x = buffer(&b, 0, false), *w = buffer(&b, 1 | 8 | 16 | 32, false), *y = buffer(&b, 7, true);
    b.buffers[x->buffer].elements = c * h * h;
    int64_t sy = channels_last ? h * c : h, sx = channels_last ? c : 1, sc = channels_last ? 1 : h * h;
    x->stride[depthwise ? 0 : 3] = sc;
    x->stride[1] = x->stride[4] = sy;
    x->stride[2] = x->stride[5] = sx;
    x->offset = -pad * (sy + sx);
    for (int axis = 0; axis < 2; axis++) {
        x->guards[axis] = (gale__nest_guard){.c0 = -pad, .extent = h, .div = 1};
        x->guards[axis].coef[1 + axis] = x->guards[axis].coef[4 + axis] = 1;
    }
    x->n_guards = 2;
    if (channels_last) y->stride[0] = 1, y->stride[1] = h * o, y->stride[2] = o;
    int s = reduce(&b, GALE__SUM, op(&b, GALE__MUL, 1, load(&b, x, 1), load(&b, w, 1)));
    store(&b, op(&b, GALE__MAX, 0, s, constant(&b, 0)), y);
    snprintf(name, sizeof name, "%s %" PRId64 "x%" PRId64 "^2 -> %" PRId64 ", %" PRId64, label, c, h, o, kernel);
    measure(&b, name, rate);
}

static double copy_rate(void)
{
    copy c = {.size = 256u << 20};
    c.to = gale__alloc_aligned(64, c.size);
    c.from = gale__alloc_aligned(64, c.size);
    memset(c.to, 1, c.size);
    memset(c.from, 1, c.size);
    double rate = 2.0 * (double)c.size / best_seconds(run_copy, &c);
    gale__free(c.to);
    gale__free(c.from);
    return rate;
}

int main(int argc, char **argv)
{
    n_words = argc - 1;
    words = argv + 1;
    cpu_time = getenv("BENCH_CPU_TIME") != NULL;
    double rate = copy_rate();
    printf("%s, %s, %d threads, copy %.2f GB/s\n", gale__cpu_name(), gale__cpu_isa_name(), gale__parallel_width(),
        rate * 1e-9);
    chain(1 << 26, rate);
    chain(1 << 16, rate);
    chain(1000, rate);
    unary("exp", GALE__EXP, rate);
    unary("tanh", GALE__TANH, rate);
    unary("erf", GALE__ERF, rate);
    unary("log", GALE__LOG, rate);
    unary("sin", GALE__SIN, rate);
    softmax(65536, 64, rate);
    softmax(4096, 1024, rate);
    softmax(256, 16384, rate);
    layer_norm(65536, 64, rate);
    layer_norm(4096, 1024, rate);
    sum(1, 1 << 24, false, rate);
    sum(4096, 4096, false, rate);
    sum(4096, 4096, true, rate);
    sum(64, 1 << 18, true, rate);
    transpose(4096, 4096, rate);
    product(1, 1024, 1024, 1024, false, rate);
    product(1, 1024, 1024, 1024, true, rate);
    product(1, 256, 256, 256, false, rate);
    product(96, 128, 128, 64, true, rate);
    product(1, 1, 4096, 4096, false, rate);
    product(1, 1, 4096, 4096, true, rate);
    product(1, 4096, 64, 64, false, rate);
    product(1, 64, 576, 65536, false, rate);
    product(4096, 8, 8, 8, false, rate);
    narrow_product(GALE_I8, 1024, 1024, 1024, rate);
    narrow_product(GALE_I8, 256, 256, 256, rate);
    narrow_product(GALE_BF16, 1024, 1024, 1024, rate);
    narrow_product(GALE_BF16, 256, 256, 256, rate);
    convolution("conv", 64, 56, 64, 3, false, false, rate);
    convolution("conv", 256, 14, 256, 3, false, false, rate);
    convolution("conv", 3, 224, 64, 7, false, false, rate);
    convolution("conv nhwc", 64, 56, 64, 3, false, true, rate);
    convolution("depthwise", 128, 56, 128, 3, true, false, rate);
    convolution("depthwise nhwc", 128, 56, 128, 3, true, true, rate);
    gale__parallel_finish();
    return 0;
}
