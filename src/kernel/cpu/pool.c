/* Pools.  A band of a channel is copied between borders of zeros (of minus infinity for maxima), so that every row of
 * results is one sum over taps without edge checks. */
#include "kernel/cpu/routines.h"
#include "base/thread.h"
#include "kernel/cpu/simd.h"
#include <string.h>

enum { BAND_FLOATS = 8192, TAPS_MAX = 64 };

/* A band: so many rows of results, over so many padded rows of the input. */
typedef struct band {
    int64_t rows, in_rows, pitch;
} band;

static band make_band(const gale__cpu_pool *a)
{
    int64_t reach = (a->rows - 1) * a->dilation[0] + 1,
            need = (a->out_width - 1) * a->stride[1] + (a->columns - 1) * a->dilation[1] + 1;
    band b = {.pitch = (need + 15) / 16 * 16};
    int64_t fit = (BAND_FLOATS / b.pitch - reach) / a->stride[0] + 1;
    b.rows = fit < 8 ? 8 : fit;
    if (b.rows > a->out_height) b.rows = a->out_height;
    b.in_rows = (b.rows - 1) * a->stride[0] + reach;
    return b;
}

size_t gale__cpu_pool_scratch(const gale__cpu_pool *a)
{
    band b = make_band(a);
    return ((size_t)(b.in_rows * b.pitch) * sizeof(float) + 63) / 64 * 64;
}

typedef struct job {
    const gale__cpu_pool *a;
    const gale__simd *simd;
    band b;
    float *out;
    const float *x;
    float border;
    gale__cpu_scratch_space scratch;
    size_t bands; /* of one plane */
} job;

static void fill_border(float *to, float border, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = border;
}

/* Rows [first, first + count) of the padded plane. */
static void copy_rows(const job *j, float *to, const float *plane, int64_t first, int64_t count)
{
    const gale__cpu_pool *a = j->a;
    int64_t low = a->low[1] > 0 ? a->low[1] : 0, from = a->low[1] < 0 ? -a->low[1] : 0, length = a->width - from;
    if (length > j->b.pitch - low) length = j->b.pitch - low;
    if (length < 0) length = 0;
    for (int64_t r = 0; r < count; r++, to += j->b.pitch) {
        int64_t y = first + r - a->low[0];
        bool inside = y >= 0 && y < a->height && low < j->b.pitch;
        int64_t filled = inside ? low + length : 0;
        if (inside) {
            fill_border(to, j->border, low);
            memcpy(to + low, plane + y * a->width + from, (size_t)length * sizeof *to);
        }
        fill_border(to + filled, j->border, j->b.pitch - filled);
    }
}

static float ones[TAPS_MAX];
static gale__once ones_once;

static void make_ones(void) { fill_border(ones, 1, TAPS_MAX); }

static void run_band(void *arg, size_t i, int worker)
{
    const job *j = arg;
    const gale__cpu_pool *a = j->a;
    int64_t plane = (int64_t)(i / j->bands), first = (int64_t)(i % j->bands) * j->b.rows, offset[TAPS_MAX],
            taps = a->rows * a->columns;
    int64_t rows = a->out_height - first < j->b.rows ? a->out_height - first : j->b.rows;
    float *padded = (float *)(j->scratch.memory + (size_t)worker * j->scratch.bytes);
    copy_rows(j, padded, j->x + plane * a->height * a->width, first * a->stride[0],
        (rows - 1) * a->stride[0] + (a->rows - 1) * a->dilation[0] + 1);
    for (int64_t t = 0; t < taps; t++)
        offset[t] = t / a->columns * a->dilation[0] * j->b.pitch + t % a->columns * a->dilation[1];
    float *out = j->out + (plane * a->out_height + first) * a->out_width;
    for (int64_t r = 0; r < rows; r++) {
        float *to = out + r * a->out_width;
        const float *from = padded + r * a->stride[0] * j->b.pitch;
        if (a->largest) j->simd->rows.tops[a->stride[1] - 1](to, from, offset, (size_t)taps, (size_t)a->out_width);
        else j->simd->rows.taps[a->stride[1] - 1](to, from, offset, ones, (size_t)taps, 0, (size_t)a->out_width);
    }
}

static void run(job *j)
{
    const gale__cpu_pool *a = j->a;
    j->simd = gale__simd_get();
    j->b = make_band(a);
    j->bands = (size_t)((a->out_height + j->b.rows - 1) / j->b.rows);
    gale__parallel((size_t)(a->n * a->channels) * j->bands, run_band, j);
}

void gale__cpu_pool_run(const void *args, void *const *buffers, gale__cpu_scratch_space scratch)
{
    const gale__cpu_pool *a = args;
    gale__once_run(&ones_once, make_ones);
    run(&(job){
        .a = a, .out = buffers[0], .x = buffers[1], .border = a->largest ? -__builtin_inff() : 0, .scratch = scratch});
}
