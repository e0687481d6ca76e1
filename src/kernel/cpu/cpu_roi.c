/* Averages of samples in the bins of regions.  Bilinear weights are separable: the rows that a bin's samples touch are
 * added up first, over the columns that the region covers, and its samples along a row pick from that. */
#include "kernel/cpu/routines.h"
#include "base/thread.h"
#include "kernel/cpu/simd.h"
#include <math.h>

enum { CHANNELS = 32 }; /* of one task */

/* Two neighbours that a sample lies between, and their weights. */
typedef struct sample {
    int32_t at[2];
    float weight[2];
    bool inside;
} sample;

typedef struct job {
    const gale__cpu_roi *args;
    const gale__simd *simd;
    float *out;
    const float *x, *rois;
    const int64_t *picture;
    gale__cpu_scratch_space scratch;
    int64_t tasks; /* of one region */
} job;

size_t gale__cpu_roi_scratch(const gale__cpu_roi *a)
{
    return (size_t)((a->bins[0] + a->bins[1]) * a->ratio) * sizeof(sample) +
           ((size_t)a->extent[1] + 16) * sizeof(float);
}

/* The samples of all bins along an axis. */
static void place_samples(const gale__cpu_roi *a, int axis, const float *roi, sample *to)
{
    float scale = (float)a->scale, shift = a->half ? 0.5F : 0, last = (float)(a->extent[axis] - 1);
    float start = roi[1 - axis] * scale - shift, size = roi[3 - axis] * scale - shift - start;
    if (!a->half) size = fmaxf(size, 1);
    float bin = size / (float)a->bins[axis], step = bin / (float)a->ratio;
    for (int64_t i = 0; i < a->bins[axis] * a->ratio; i++) {
        float at = start + (float)(i / a->ratio) * bin + ((float)(i % a->ratio) + 0.5F) * step;
        to[i] = (sample){.inside = at >= -1 && at <= (float)a->extent[axis]};
        if (!to[i].inside) continue;
        at = fminf(fmaxf(at, 0), last);
        to[i].at[0] = (int32_t)at;
        to[i].at[1] = to[i].at[0] + (at < last);
        to[i].weight[1] = at - (float)to[i].at[0];
        to[i].weight[0] = 1 - to[i].weight[1];
    }
}

/* The columns [*first, *end) that samples touch. */
static void find_columns(const sample *s, int64_t n, int32_t *first, int32_t *end)
{
    *first = INT32_MAX, *end = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!s[i].inside) continue;
        if (s[i].at[0] < *first) *first = s[i].at[0];
        if (s[i].at[1] >= *end) *end = s[i].at[1] + 1;
    }
}

/* One row of bins of a plane; `down`: its samples along the height. */
static void pool_row(const job *j, float *to, const float *plane, const sample *down, const sample *across, float *sum)
{
    const gale__cpu_roi *a = j->args;
    int64_t offset[2 * GALE__CPU_ROI_RATIO], taps = 0;
    float weight[2 * GALE__CPU_ROI_RATIO];
    int32_t first, end;
    find_columns(across, a->bins[1] * a->ratio, &first, &end);
    for (int64_t i = 0; i < a->ratio; i++)
        for (int k = 0; k < 2 && down[i].inside; k++, taps++)
            offset[taps] = down[i].at[k] * a->extent[1], weight[taps] = down[i].weight[k];
    if (taps && first < end)
        j->simd->rows.taps[0](sum + first, plane + first, offset, weight, (size_t)taps, 0, (size_t)(end - first));
    for (int64_t b = 0; b < a->bins[1]; b++) {
        float v = 0;
        for (int64_t i = b * a->ratio; taps && i < (b + 1) * a->ratio; i++)
            if (across[i].inside)
                v += across[i].weight[0] * sum[across[i].at[0]] + across[i].weight[1] * sum[across[i].at[1]];
        to[b] = v / (float)(a->ratio * a->ratio);
    }
}

static void run_task(void *arg, size_t i, int worker)
{
    const job *j = arg;
    const gale__cpu_roi *a = j->args;
    int64_t region = (int64_t)i / j->tasks, c = (int64_t)i % j->tasks * CHANNELS,
            end = c + CHANNELS < a->channels ? c + CHANNELS : a->channels, picture = j->picture[region];
    sample *down = (sample *)(void *)(j->scratch.memory + (size_t)worker * j->scratch.bytes),
           *across = down + a->bins[0] * a->ratio;
    float *sum = (float *)(void *)(across + a->bins[1] * a->ratio);
    if (picture < 0) picture += a->n;
    picture = picture < 0 ? 0 : picture >= a->n ? a->n - 1 : picture;
    place_samples(a, 0, j->rois + region * 4, down);
    place_samples(a, 1, j->rois + region * 4, across);
    for (; c < end; c++) {
        const float *plane = j->x + (picture * a->channels + c) * a->extent[0] * a->extent[1];
        float *to = j->out + (region * a->channels + c) * a->bins[0] * a->bins[1];
        for (int64_t b = 0; b < a->bins[0]; b++)
            pool_row(j, to + b * a->bins[1], plane, down + b * a->ratio, across, sum);
    }
}

void gale__cpu_roi_run(const void *args, void *const *buffers, gale__cpu_scratch_space scratch)
{
    const gale__cpu_roi *a = args;
    job j = {.args = a,
        .simd = gale__simd_get(),
        .out = buffers[0],
        .x = buffers[1],
        .rois = buffers[2],
        .picture = buffers[3],
        .scratch = scratch,
        .tasks = (a->channels + CHANNELS - 1) / CHANNELS};
    gale__parallel((size_t)(a->regions * j.tasks), run_task, &j);
}
