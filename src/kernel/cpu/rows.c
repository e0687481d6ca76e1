/* Softmax and layer norm of many short rows: a task processes rows of a few thousand elements in total. */
#include "kernel/cpu/routines.h"
#include "base/thread.h"
#include "kernel/cpu/simd.h"

enum { TASK_ELEMENTS = 2048, TURNED_ROWS = 32 }; /* TURNED_ROWS: a line of each column or two */

typedef struct job {
    const gale__cpu_rows *args;
    const gale__simd_rows *simd;
    float *y;
    const float *x, *scale, *shift;
    int64_t rows; /* of a task */
    bool softmax;
} job;

/* Rows that are columns in memory, as rows of y; how many. */
static int64_t turn_rows(const job *j, int64_t r, int64_t end)
{
    const gale__cpu_rows *a = j->args;
    int64_t at = r % a->run, n = end - r < TURNED_ROWS ? end - r : TURNED_ROWS;
    if (n > a->run - at) n = a->run - at;
    gale__simd_get()->interleave[0](j->y + r * a->n, j->x + a->offset + r / a->run * a->far + at, (size_t)a->step,
        (size_t)a->n, (size_t)a->n, (size_t)n);
    return n;
}

static void run_rows(void *arg, size_t i, int worker)
{
    const job *j = arg;
    const gale__cpu_rows *a = j->args;
    int64_t first = (int64_t)i * j->rows, end = first + j->rows < a->rows ? first + j->rows : a->rows;
    const float *x = a->run ? j->y : j->x;
    (void)worker;
    for (int64_t r = first, turned = first; r < end; r++) {
        if (a->run && r == turned) turned += turn_rows(j, r, end);
        if (j->softmax) j->simd->softmax(j->y + r * a->n, x + r * a->n, (size_t)a->n);
        else j->simd->norm(j->y + r * a->n, x + r * a->n, j->scale, j->shift, (float)a->epsilon, (size_t)a->n);
    }
}

static void run(job *j)
{
    j->simd = &gale__simd_get()->rows;
    j->rows = (TASK_ELEMENTS + j->args->n - 1) / j->args->n;
    gale__parallel_kernel((size_t)((j->args->rows + j->rows - 1) / j->rows), run_rows, j);
}

void gale__cpu_softmax_run(const void *args, void *const *buffers, gale__cpu_scratch_space scratch)
{
    job j = {.args = args, .y = buffers[0], .x = buffers[1], .softmax = true};
    (void)scratch;
    run(&j);
}

void gale__cpu_layer_norm_run(const void *args, void *const *buffers, gale__cpu_scratch_space scratch)
{
    job j = {.args = args, .y = buffers[0], .x = buffers[1]};
    (void)scratch;
    if (j.args->scaled) j.scale = buffers[2];
    if (j.args->shifted) j.shift = buffers[2 + j.args->scaled];
    run(&j);
}
