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

/* The band, and one row of maxima. */
size_t gale__cpu_pool_scratch(const gale__cpu_pool *a)
{
    band b = make_band(a);
    return ((size_t)((b.in_rows + 1) * b.pitch) * sizeof(float) + 63) / 64 * 64;
}

typedef struct job {
    const gale__cpu_pool *a;
    const gale__simd *simd;
    band b;
    char *out;
    const char *x;
    float border; /* of floats; for bytes the least of their type */
    size_t size;  /* of an element */
    gale__cpu_scratch_space scratch;
    size_t bands; /* of one plane */
} job;

static void fill_floats(float *to, float border, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = border;
}

static void fill_border(const job *j, char *to, int64_t n)
{
    if (j->size == 4) fill_floats((float *)(void *)to, j->border, n);
    else if (n > 0) memset(to, j->a->type == GALE_I8 ? 0x80 : 0, (size_t)n);
}

/* Rows [first, first + count) of the padded plane. */
static void copy_rows(const job *j, char *to, const char *plane, int64_t first, int64_t count)
{
    const gale__cpu_pool *a = j->a;
    int64_t low = a->low[1] > 0 ? a->low[1] : 0, from = a->low[1] < 0 ? -a->low[1] : 0, length = a->width - from;
    if (length > j->b.pitch - low) length = j->b.pitch - low;
    if (length < 0) length = 0;
    for (int64_t r = 0; r < count; r++, to += (size_t)j->b.pitch * j->size) {
        int64_t y = first + r - a->low[0];
        bool inside = y >= 0 && y < a->height && low < j->b.pitch;
        int64_t filled = inside ? low + length : 0;
        if (inside) {
            fill_border(j, to, low);
            memcpy(
                to + (size_t)low * j->size, plane + (size_t)(y * a->width + from) * j->size, (size_t)length * j->size);
        }
        fill_border(j, to + (size_t)filled * j->size, j->b.pitch - filled);
    }
}

static float ones[TAPS_MAX];
static gale__once ones_once;

static void make_ones(void) { fill_floats(ones, 1, TAPS_MAX); }

/* A row of maxima: down first, over neighbouring places, then across, where places are a stride apart. */
static void run_tops(const job *j, float *to, const float *from, float *row)
{
    const gale__cpu_pool *a = j->a;
    int64_t down[TAPS_MAX], across[TAPS_MAX];
    for (int64_t t = 0; t < a->rows; t++) down[t] = t * a->dilation[0] * j->b.pitch;
    for (int64_t t = 0; t < a->columns; t++) across[t] = t * a->dilation[1];
    j->simd->rows.tops[0](row, from, down, (size_t)a->rows, (size_t)j->b.pitch);
    j->simd->rows.tops[a->stride[1] - 1](to, row, across, (size_t)a->columns, (size_t)a->out_width);
}

static void run_band(void *arg, size_t i, int worker)
{
    const job *j = arg;
    const gale__cpu_pool *a = j->a;
    int64_t plane = (int64_t)(i / j->bands), first = (int64_t)(i % j->bands) * j->b.rows, offset[TAPS_MAX],
            taps = a->rows * a->columns;
    int64_t rows = a->out_height - first < j->b.rows ? a->out_height - first : j->b.rows;
    char *padded = (char *)j->scratch.memory + (size_t)worker * j->scratch.bytes;
    copy_rows(j, padded, j->x + (size_t)(plane * a->height * a->width) * j->size, first * a->stride[0],
        (rows - 1) * a->stride[0] + (a->rows - 1) * a->dilation[0] + 1);
    for (int64_t t = 0; t < taps; t++)
        offset[t] = t / a->columns * a->dilation[0] * j->b.pitch + t % a->columns * a->dilation[1];
    char *out = j->out + (size_t)((plane * a->out_height + first) * a->out_width) * j->size;
    for (int64_t r = 0; r < rows; r++) {
        void *to = out + (size_t)(r * a->out_width) * j->size;
        const void *from = padded + (size_t)(r * a->stride[0] * j->b.pitch) * j->size;
        if (j->size == 1)
            j->simd->top_bytes[a->type == GALE_I8](to, from, offset, a->stride[1], (size_t)taps, (size_t)a->out_width);
        else if (a->largest) run_tops(j, to, from, (float *)(void *)padded + j->b.in_rows * j->b.pitch);
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
    run(&(job){.a = a,
        .out = buffers[0],
        .x = buffers[1],
        .border = a->largest ? -__builtin_inff() : 0,
        .scratch = scratch,
        .size = gale_type_size((gale_type)a->type)});
}
