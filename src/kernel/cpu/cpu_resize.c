/* Resizes planes by taps, one axis after the other: rows are resized horizontally, each once while it is needed, and
 * results are sums of such rows. */
#include "kernel/cpu/routines.h"
#include "base/thread.h"
#include "kernel/cpu/simd.h"

enum { TAPS_MAX = 64, BAND_ROWS = 32 };

typedef struct job {
    const gale__cpu_resize *args;
    const gale__simd *simd;
    float *out;
    const float *x, *weight_y, *weight_x;
    const int32_t *index_y, *index_x;
    gale__cpu_scratch_space scratch;
    size_t bands; /* of one plane */
} job;

static size_t pitch_of(const gale__cpu_resize *a) { return ((size_t)a->out_width + 15) / 16 * 16; }

size_t gale__cpu_resize_scratch(const gale__cpu_resize *a)
{
    return (size_t)a->taps_y * pitch_of(a) * sizeof(float) + 64;
}

static void resize_row(const job *j, float *to, const float *row)
{
    size_t n = (size_t)j->args->out_width;
    const float *w = j->weight_x;
    const int32_t *at = j->index_x;
    if (j->args->taps_x == 2) { /* linear, nearly always */
        for (size_t i = 0; i < n; i++) to[i] = w[i] * row[at[i]] + w[n + i] * row[at[n + i]];
        return;
    }
    for (size_t i = 0; i < n; i++) to[i] = w[i] * row[at[i]];
    for (int64_t t = 1; t < j->args->taps_x; t++) {
        w += n, at += n;
        for (size_t i = 0; i < n; i++) to[i] += w[i] * row[at[i]];
    }
}

/* A row's place among the resized ones is its number modulo their count: the rows that one result needs are neighbours.
 */
static void run_band(void *arg, size_t i, int worker)
{
    const job *j = arg;
    const gale__cpu_resize *a = j->args;
    size_t plane = i / j->bands, pitch = pitch_of(a);
    int64_t first = (int64_t)(i % j->bands) * BAND_ROWS,
            last = first + BAND_ROWS < a->out_height ? first + BAND_ROWS : a->out_height;
    int64_t held[TAPS_MAX], offset[TAPS_MAX];
    float *rows = (float *)(void *)(j->scratch.memory + (size_t)worker * j->scratch.bytes);
    const float *x = j->x + plane * (size_t)(a->height * a->width);
    for (int64_t t = 0; t < a->taps_y; t++) held[t] = -1;
    for (int64_t y = first; y < last; y++) {
        for (int64_t t = 0; t < a->taps_y; t++) {
            int64_t row = j->index_y[y * a->taps_y + t], slot = row % a->taps_y;
            offset[t] = slot * (int64_t)pitch;
            if (held[slot] == row) continue;
            resize_row(j, rows + offset[t], x + row * a->width);
            held[slot] = row;
        }
        j->simd->rows.taps[0](j->out + ((int64_t)plane * a->out_height + y) * a->out_width, rows, offset,
            j->weight_y + y * a->taps_y, (size_t)a->taps_y, 0, (size_t)a->out_width);
    }
}

void gale__cpu_resize_run(const void *args, void *const *buffers, gale__cpu_scratch_space scratch)
{
    const gale__cpu_resize *a = args;
    job j = {.args = a,
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
