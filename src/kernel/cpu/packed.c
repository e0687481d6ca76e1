/* Multiplies a few rows by a matrix of 4- or 8-bit numbers: a worker unpacks one column at a time into its scratch
 * memory and multiplies all rows by it, so that the packed matrix is read once; reading it dominates the time. */
#include "base/thread.h"
#include "kernel/cpu/routines.h"

enum { LANES = 16, TASK_COLUMNS = 16 };

typedef struct job {
    const gale__cpu_packed *args;
    int64_t blocks;
    const float *x; /* rows in the order in which numbers come out of bytes */
    const uint8_t *w;
    const float *scales, *bias;
    const void *zeros;
    float *y;
    gale__cpu_scratch_space scratch;
} job;

static int64_t blocks_of(const gale__cpu_packed *a) { return (a->k + a->size - 1) / a->size; }

/* Elements of a row, filled up to whole blocks. */
static int64_t length_of(const gale__cpu_packed *a) { return blocks_of(a) * a->size; }

/* The first worker's part holds the rows for all of them; after that each has its own column. */
size_t gale__cpu_packed_scratch(const gale__cpu_packed *a)
{
    return (size_t)(a->m + 1) * (size_t)length_of(a) * sizeof(float);
}

/* Of 4 bits, even places of a block come before odd ones; elements past k are 0. */
static void arrange(const gale__cpu_packed *a, const float *x, float *to)
{
    int64_t length = length_of(a);
    for (int64_t row = 0; row < a->m; row++, x += a->k, to += length)
        for (int64_t k = 0; k < length; k++) {
            int64_t i = k % a->size, place = a->bits == 8 ? i : i / 2 + (i & 1) * (a->size / 2);
            to[k - i + place] = k < a->k ? x[k] : 0;
        }
}

static float zero_of(const job *j, int64_t column, int64_t block)
{
    const gale__cpu_packed *a = j->args;
    int64_t at = column * j->blocks + block;
    if (a->zeros == 0) return a->bits == 8 ? 128 : 8;
    if (a->zeros == 2) return ((const float *)j->zeros)[at];
    const uint8_t *z = j->zeros;
    if (a->bits == 8) return z[at];
    uint8_t pair = z[column * ((j->blocks + 1) / 2) + block / 2];
    return (float)(block & 1 ? pair >> 4 : pair & 15);
}

/* Simple loops, which compilers turn into vectors. */
static void unpack_block(
    const uint8_t *restrict w, float *restrict to, int64_t size, bool bytes, float scale, float zero)
{
    int64_t half = bytes ? size : size / 2;
    if (bytes)
        for (int64_t i = 0; i < size; i++) to[i] = ((float)w[i] - zero) * scale;
    for (int64_t i = 0; !bytes && i < half; i++) to[i] = ((float)(w[i] & 15) - zero) * scale;
    for (int64_t i = 0; !bytes && i < half; i++) to[half + i] = ((float)(w[i] >> 4) - zero) * scale;
}

static float dot(const float *restrict w, const float *restrict x, int64_t n)
{
    float lane[LANES] = {0}, sum = 0;
    for (int64_t i = 0; i < n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += x[i + l] * w[i + l];
    for (int l = 0; l < LANES / 2; l++) sum += lane[l] + lane[l + LANES / 2];
    return sum;
}

static void run_columns(void *arg, size_t task, int worker)
{
    const job *j = arg;
    const gale__cpu_packed *a = j->args;
    int64_t first = (int64_t)task * TASK_COLUMNS, end = first + TASK_COLUMNS < a->n ? first + TASK_COLUMNS : a->n,
            blob = a->size * a->bits / 8, length = length_of(a);
    float *column = (float *)(j->scratch.memory + (size_t)worker * j->scratch.bytes) + a->m * length;
    for (int64_t n = first; n < end; n++) {
        for (int64_t b = 0; b < j->blocks; b++)
            unpack_block(j->w + (n * j->blocks + b) * blob, column + b * a->size, a->size, a->bits == 8,
                j->scales[n * j->blocks + b], zero_of(j, n, b));
        for (int64_t row = 0; row < a->m; row++)
            j->y[row * a->n + n] = dot(column, j->x + row * length, length) + (j->bias ? j->bias[n] : 0);
    }
}

void gale__cpu_packed_run(const void *args, void *const *buffers, gale__cpu_scratch_space scratch)
{
    const gale__cpu_packed *a = args;
    job j = {.args = a,
        .blocks = blocks_of(a),
        .x = (const float *)scratch.memory,
        .w = buffers[2],
        .scales = buffers[3],
        .y = buffers[0],
        .scratch = scratch};
    if (a->zeros) j.zeros = buffers[4];
    if (a->biased) j.bias = buffers[4 + (a->zeros != 0)];
    arrange(a, buffers[1], (float *)scratch.memory);
    gale__parallel_kernel((size_t)((a->n + TASK_COLUMNS - 1) / TASK_COLUMNS), run_columns, &j);
}
