/* Times 3 x 3 convolutions in f32 by plain sums and by Winograd's transforms with tiles of 2 x 2 and 4 x 4, and says
 * which of them gale chooses: the measurement behind the costs in kernel/cpu/winograd.c.  Processor time, the least of
 * several turns, so run it with GALE_THREADS=1.  `bench_winograd CHANNELS SIZE ROWS [off|2|4]` measures
 * one convolution, for profiles in one way. */
#include "base/cpu.h"
#include "base/env.h"
#include "base/thread.h"
#include "kernel/cpu/interp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { X, W, B, Y, BUFFERS };

typedef struct conv {
    gale__nest nest;
    gale__nest_instr code[8];
    gale__nest_access accesses[BUFFERS];
    gale__nest_guard guards[2];
    gale__nest_store stores[1];
    gale__nest_buffer buffers[BUFFERS];
} conv;

static int add(conv *c, gale__nest_instr in)
{
    in.type = GALE_F32;
    c->code[c->nest.n_code] = in;
    return c->nest.n_code++;
}

/* max(sum of x w over channels and taps + bias, 0), borders of 1. */
static void make_conv(conv *c, int64_t k, int64_t size, int64_t rows)
{
    const int64_t extent[6] = {rows, size, size, k, 3, 3};
    *c = (conv){.nest = {.n_outer = 3, .n_inner = 3, .n_buffers = BUFFERS, .n_accesses = BUFFERS, .n_stores = 1}};
    c->nest.code = c->code, c->nest.accesses = c->accesses, c->nest.stores = c->stores, c->nest.buffers = c->buffers;
    memcpy(c->nest.extent, extent, sizeof extent);
    const int64_t elements[BUFFERS] = {k * size * size, rows * k * 9, rows, rows * size * size};
    const int64_t strides[BUFFERS][6] = {{0, size, 1, size * size, size, 1}, {k * 9, 0, 0, 9, 3, 1}, {1, 0, 0, 0, 0, 0},
        {size * size, size, 1, 0, 0, 0}};
    for (int i = 0; i < BUFFERS; i++) {
        c->buffers[i] =
            (gale__nest_buffer){.elements = elements[i], .type = GALE_F32, .written = i == Y, .constant = i == W};
        c->accesses[i] = (gale__nest_access){.buffer = i, .type = GALE_F32};
        memcpy(c->accesses[i].stride, strides[i], sizeof strides[i]);
    }
    for (int axis = 0; axis < 2; axis++) {
        c->guards[axis] = (gale__nest_guard){.c0 = -1, .extent = size, .div = 1};
        c->guards[axis].coef[1 + axis] = c->guards[axis].coef[4 + axis] = 1;
    }
    c->accesses[X].offset = -(size + 1);
    c->accesses[X].guards = c->guards;
    c->accesses[X].n_guards = 2;
    int x = add(c, (gale__nest_instr){.op = GALE__NEST_LOAD, .inner = 1, .access = X}),
        w = add(c, (gale__nest_instr){.op = GALE__NEST_LOAD, .inner = 1, .access = W}),
        product = add(c, (gale__nest_instr){.op = GALE__MUL, .inner = 1, .a = x, .b = w}),
        sum = add(c, (gale__nest_instr){.op = GALE__NEST_REDUCE, .a = product, .imm = GALE__SUM, .acc = GALE_F32}),
        bias = add(c, (gale__nest_instr){.op = GALE__NEST_LOAD, .access = B}),
        biased = add(c, (gale__nest_instr){.op = GALE__ADD, .a = sum, .b = bias}),
        zero = add(c, (gale__nest_instr){.op = GALE__NEST_CONST}),
        y = add(c, (gale__nest_instr){.op = GALE__MAX, .a = biased, .b = zero});
    c->stores[0] = (gale__nest_store){y, Y, -1, 0};
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef struct way {
    const char *name;
    gale__cpu_kernel *kernel;
    void *memory[BUFFERS];
    double best;
} way;

static bool open_way(way *v, const conv *c, void *const *memory)
{
    setenv("GALE_WINOGRAD", v->name, 1);
    v->best = 1e9;
    if (gale__cpu_kernel_create(&c->nest, &v->kernel) != GALE_OK) return false;
    memcpy(v->memory, memory, sizeof v->memory);
    gale__cpu_panels p = gale__cpu_kernel_panels(v->kernel);
    if (!p.bytes) return true;
    v->memory[p.buffer] = gale__alloc_aligned(64, p.bytes);
    if (v->memory[p.buffer]) gale__cpu_kernel_make_panels(v->kernel, memory[p.buffer], v->memory[p.buffer]);
    return v->memory[p.buffer] != NULL;
}

static void measure(int64_t k, int64_t size, int64_t rows, const char *only)
{
    way ways[] = {{.name = only ? only : "off"}, {.name = only ? only : "2"}, {.name = only ? only : "4"},
        {.name = only ? only : "auto"}};
    enum { WAYS = 4 };
    conv c;
    void *memory[BUFFERS];
    make_conv(&c, k, size, rows);
    gale__nest_canonicalize(&c.nest);
    for (int i = 0; i < BUFFERS; i++) {
        float *p = memory[i] = gale__alloc_aligned(64, (size_t)c.buffers[i].elements * 4 + 64);
        for (int64_t j = 0; p && j < c.buffers[i].elements; j++) p[j] = (float)(j % 97) / 97 - 0.5f;
    }
    for (int i = 0; i < WAYS; i++)
        if (!open_way(&ways[i], &c, memory)) return;
    for (double end = now() + 1.5; now() < end;)
        for (int i = 0; i < WAYS; i++) {
            double start = now();
            gale__cpu_kernel_run(ways[i].kernel, ways[i].memory);
            double t = now() - start;
            if (t < ways[i].best) ways[i].best = t;
        }
    double work = 18e-9 * (double)(k * rows * size * size);
    printf("%4lld x %3lld^2 -> %4lld %9.1f us %6.1f GFLOP/s | %5.2f | %5.2f | auto %5.2f %s\n", (long long)k,
        (long long)size, (long long)rows, ways[0].best * 1e6, work / ways[0].best, ways[0].best / ways[1].best,
        ways[0].best / ways[2].best, ways[0].best / ways[3].best, gale__cpu_kernel_schedule(ways[3].kernel));
    fflush(stdout);
    for (int i = 0; i < WAYS; i++) {
        for (int j = 0; j < BUFFERS; j++)
            if (ways[i].memory[j] != memory[j]) gale__free(ways[i].memory[j]);
        gale__cpu_kernel_destroy(&ways[i].kernel);
    }
    for (int i = 0; i < BUFFERS; i++) gale__free(memory[i]);
}

int main(int argc, char **argv)
{
    static const int64_t channels[] = {16, 32, 64, 128, 256, 512}, sizes[] = {7, 14, 28, 56, 112};
    printf("%s, %s, %d threads: plain sums; times faster with tiles of 2 x 2 | 4 x 4\n", gale__cpu_name(),
        gale__cpu_isa_name(), gale__parallel_width());
    if (argc >= 4) measure(atoll(argv[1]), atoll(argv[2]), atoll(argv[3]), argv[4]);
    for (size_t i = 0; argc < 4 && i < sizeof channels / sizeof *channels; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
            if (channels[i] * sizes[j] <= 7168) measure(channels[i], sizes[j], channels[i], NULL);
    gale__parallel_finish();
    return 0;
}
