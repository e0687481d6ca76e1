/* Shrinks planes by taps, rows first: each source row is read and widened once, and added to the few results that use
 * it; the remainder is short enough to be shrunk horizontally one element at a time. */
#include "kernel/cpu/routines.h"
#include "base/thread.h"
#include "kernel/cpu/simd.h"
#include <string.h>

enum { BAND_ROWS = 16 };

typedef struct job {
    const gale__cpu_shrink *a;
    const gale__simd *simd;
    float *out;
    const char *x;
    const float *weight_y, *weight_x;
    const int32_t *index_y, *index_x;
    gale__cpu_scratch_space scratch;
    size_t bands; /* of one plane */
} job;

static size_t pitch_of(const gale__cpu_shrink *a) { return ((size_t)a->width + 15) / 16 * 16; }

size_t gale__cpu_shrink_scratch(const gale__cpu_shrink *a)
{
    return (BAND_ROWS + 1) * pitch_of(a) * sizeof(float) + 64;
}

/* A row of the source as floats; stored in `room`, or read in place if possible. */
static const float *open_row(const job *j, size_t plane, int64_t row, float *room)
{
    const gale__cpu_shrink *a = j->a;
    size_t n = (size_t)a->width;
    const char *from = j->x + (plane * (size_t)a->height + (size_t)row) * n * (a->half ? 2 : sizeof(float));
    if (a->half) j->simd->widen[GALE_F16](room, from, NULL, NULL, n);
    else if (a->finite) memcpy(room, from, n * sizeof *room);
    else return (const float *)(const void *)from;
    if (a->finite) j->simd->rows.finite(room, n);
    return room;
}

static void shrink_row(const job *j, float *to, const float *row)
{
    size_t n = (size_t)j->a->out_width;
    const float *w = j->weight_x;
    const int32_t *at = j->index_x;
    for (size_t i = 0; i < n; i++) to[i] = w[i] * row[at[i]];
    for (int64_t t = 1; t < j->a->taps_x; t++) {
        w += n, at += n;
        for (size_t i = 0; i < n; i++) to[i] += w[i] * row[at[i]];
    }
}

/* Adds a row to result y, as often as the taps from *tap on name it; true when the result is complete. */
static bool add_row(const job *j, int64_t y, int64_t row, const float *values, int64_t *tap, float *sum)
{
    const int32_t *at = j->index_y + y * j->a->taps_y;
    const float *w = j->weight_y + y * j->a->taps_y;
    float weight = 0;
    while (*tap < j->a->taps_y && at[*tap] <= row) weight += w[(*tap)++];
    if (weight != 0) j->simd->rows.add_scaled(sum, values, weight, (size_t)j->a->width);
    return *tap == j->a->taps_y;
}

static void run_band(void *arg, size_t i, int worker)
{
    const job *j = arg;
    const gale__cpu_shrink *a = j->a;
    size_t plane = i / j->bands, pitch = pitch_of(a);
    int64_t first = (int64_t)(i % j->bands) * BAND_ROWS,
            last = first + BAND_ROWS < a->out_height ? first + BAND_ROWS : a->out_height;
    int64_t taps[BAND_ROWS] = {0}, row = j->index_y[first * a->taps_y];
    float *sums = (float *)(void *)(j->scratch.memory + (size_t)worker * j->scratch.bytes);
    memset(sums, 0, (size_t)(last - first) * pitch * sizeof *sums);
    for (int64_t y = first; y < last; row++) {
        const float *values = open_row(j, plane, row, sums + BAND_ROWS * pitch);
        for (int64_t k = y; k < last && j->index_y[k * a->taps_y] <= row; k++) {
            float *sum = sums + (size_t)(k - first) * pitch;
            if (!add_row(j, k, row, values, &taps[k - first], sum) || k != y) continue;
            shrink_row(j, j->out + ((int64_t)plane * a->out_height + y) * a->out_width, sum);
            y++;
        }
    }
}

void gale__cpu_shrink_run(const void *args, void *const *buffers, gale__cpu_scratch_space scratch)
{
    const gale__cpu_shrink *a = args;
    job j = {.a = a,
        .simd = gale__simd_get(),
        .out = buffers[0],
        .x = buffers[1],
        .index_y = buffers[2],
        .weight_y = buffers[3],
        .index_x = buffers[4],
        .weight_x = buffers[5],
        .scratch = scratch};
    j.bands = (size_t)((a->out_height + BAND_ROWS - 1) / BAND_ROWS);
    gale__parallel((size_t)a->planes * j.bands, run_band, &j);
}
