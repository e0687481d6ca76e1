/* The steps of RNN, GRU and LSTM.  A task processes several units with all their gates: their recurrent weights are
 * stored together, in reading order, and the gates follow while their sums are in the L1 cache. */
#include "base/limits.h"
#include "kernel/cpu/routines.h"
#include "kernel/cpu/simd.h"
#include <string.h>

enum { UNITS = GALE__CELL_UNITS, QUAD = 4, TOGETHER = 4 * QUAD, SHARED_PRODUCTS = 1 << 17 };
/* shared: least multiplications of a step that is worth several threads */

typedef struct job {
    const gale__cpu_cell *a;
    const gale__simd_rows *simd;
    int64_t gates;
    const float *x, *weights, *bias, *before;
    float *h, *c, *quads;   /* quads: the state of four items side by side, where there are so many */
    const int32_t *lengths; /* of sequences, where some are shorter */
    int64_t step;           /* which one this is */
} job;

static void finish_units(const job *j, int64_t b, int64_t first, int64_t n, const float *z)
{
    int64_t hidden = j->a->hidden, at = b * hidden + first;
    gale__simd_cell v = {.z = z,
        .x = j->x + b * j->gates * hidden + first,
        .before = j->before + at,
        .bias = j->bias ? j->bias + first : NULL,
        .pitch = UNITS,
        .x_pitch = hidden,
        .h = j->h + at,
        .c = j->c ? j->c + at : NULL};
    j->simd->cell[j->a->kind](&v, (size_t)n);
}

static bool is_within(const job *j, int64_t item) { return !j->lengths || j->step < j->lengths[item]; }

static void run_units(void *arg, size_t task, int worker)
{
    const job *j = arg;
    int64_t hidden = j->a->hidden, first = (int64_t)task * UNITS, n = hidden - first < UNITS ? hidden - first : UNITS,
            lanes = j->gates * UNITS;
    const float *weights = j->weights + (int64_t)task * hidden * lanes;
    float z[TOGETHER * 4 * UNITS];
    (void)worker;
    for (int64_t b = 0; b < j->a->batch; b += TOGETHER) {
        int64_t items = j->a->batch - b < TOGETHER ? j->a->batch - b : TOGETHER;
        if (j->quads)
            j->simd->mix_quads(z, lanes, j->quads + b * hidden, (size_t)(items + QUAD - 1) / QUAD, weights,
                (size_t)j->gates, (size_t)hidden);
        else
            j->simd->mix(
                z, lanes, j->before + b * hidden, hidden, (size_t)items, weights, (size_t)j->gates, (size_t)hidden);
        for (int64_t i = 0; i < items; i++)
            if (is_within(j, b + i)) finish_units(j, b + i, first, n, z + i * lanes);
            else memset(j->h + (b + i) * hidden + first, 0, (size_t)n * sizeof *j->h);
    }
}

static void turn_state(const job *j)
{
    int64_t hidden = j->a->hidden;
    for (int64_t b = 0; b < j->a->batch; b += QUAD) {
        int64_t items = j->a->batch - b < QUAD ? j->a->batch - b : QUAD;
        gale__simd_get()->interleave[0](
            j->quads + b * hidden, j->before + b * hidden, (size_t)hidden, (size_t)items, QUAD, (size_t)hidden);
    }
}

static void run_step(job *j)
{
    size_t tasks = (size_t)((j->a->hidden + UNITS - 1) / UNITS);
    if (j->quads) turn_state(j);
    if (j->gates * j->a->hidden * j->a->hidden * j->a->batch >= SHARED_PRODUCTS) {
        gale__parallel_kernel(tasks, run_units, j);
        return;
    }
    for (size_t i = 0; i < tasks; i++) run_units(j, i, 0);
}

size_t gale__cpu_cell_scratch(const gale__cpu_cell *a)
{
    int64_t quads = a->batch < QUAD || a->steady ? 0 : (a->batch + QUAD - 1) / QUAD * QUAD,
            kept = a->timed ? a->batch : 0;
    return (size_t)((quads + kept) * a->hidden) * sizeof(float);
}

/* Items that have ended, or not begun, keep theirs, while their result is 0. */
static void keep_state(const job *j, float *kept)
{
    int64_t hidden = j->a->hidden;
    for (int64_t b = 0; b < j->a->batch; b++)
        if (is_within(j, b)) memcpy(kept + b * hidden, j->h + b * hidden, (size_t)hidden * sizeof *kept);
}

void gale__cpu_cell_run(const void *args, void *const *buffers, gale__cpu_scratch_space scratch)
{
    static const int64_t gates[GALE__CELL_COUNT] = {1, 3, 4};
    const gale__cpu_cell *a = args;
    int64_t step = a->batch * a->hidden;
    float *all = buffers[0], *last = all + a->trips * step;
    job j = {.a = a,
        .simd = &gale__simd_get()->rows,
        .gates = gates[a->kind],
        .weights = buffers[2],
        .before = buffers[3],
        .quads = a->batch < QUAD || a->steady ? NULL : (float *)(void *)scratch.memory,
        .lengths = a->timed ? buffers[3 + (a->kind == GALE__CELL_LSTM) + a->biased + 1] : NULL,
        .c = a->kind == GALE__CELL_LSTM ? last + step : NULL,
        .bias = a->biased ? buffers[4] : NULL};
    float *kept = a->timed ? (float *)(void *)(scratch.memory + scratch.bytes) - step : NULL;
    if (j.c) memcpy(j.c, buffers[4], (size_t)step * sizeof(float));
    if (kept) j.before = memcpy(kept, j.before, (size_t)step * sizeof(float));
    for (int64_t i = 0; i < a->trips && !gale__limits_stopped(); i++) {
        int64_t t = a->reverse ? a->trips - 1 - i : i;
        j.x = (const float *)buffers[1] + t * step * j.gates;
        j.h = all + t * step;
        j.step = t;
        run_step(&j);
        if (kept) keep_state(&j, kept);
        else j.before = j.h;
    }
    memcpy(last, j.before, (size_t)step * sizeof(float));
}
