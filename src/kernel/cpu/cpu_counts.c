/* How often each code of 16 bits occurs in rows of samples: every worker counts blocks of a row in memory of its own,
 * and the counts are added up. */
#include "base/thread.h"
#include "kernel/cpu/routines.h"
#include <string.h>

enum { CODES = 65536, BLOCK = 1 << 16 };

typedef struct job {
    const uint16_t *row;
    uint32_t *result;
    size_t samples;
    gale__cpu_scratch_space scratch;
    int workers;
} job;

size_t gale__cpu_counts_scratch(void) { return CODES * sizeof(uint32_t); }

static uint32_t *counts_of(const job *j, int worker)
{
    return (uint32_t *)(void *)(j->scratch.memory + (size_t)worker * j->scratch.bytes);
}

static void count_block(void *arg, size_t i, int worker)
{
    const job *j = arg;
    uint32_t *counts = counts_of(j, worker);
    size_t end = (i + 1) * BLOCK < j->samples ? (i + 1) * BLOCK : j->samples;
    for (size_t k = i * BLOCK; k < end; k++) counts[j->row[k]]++;
}

static void add_codes(void *arg, size_t i, int worker)
{
    enum { PART = CODES / 16 };
    const job *j = arg;
    (void)worker;
    for (size_t k = i * PART; k < (i + 1) * PART; k++) {
        uint32_t sum = 0;
        for (int w = 0; w < j->workers; w++) sum += counts_of(j, w)[k];
        j->result[k] = sum;
    }
}

void gale__cpu_counts_run(const void *args, void *const *buffers, gale__cpu_scratch_space scratch)
{
    const gale__counts_args *a = args;
    for (int64_t r = 0; r < a->rows; r++) {
        job j = {.row = (const uint16_t *)buffers[1] + r * a->samples,
            .result = (uint32_t *)buffers[0] + r * CODES,
            .samples = (size_t)a->samples,
            .scratch = scratch,
            .workers = gale__parallel_width()};
        for (int w = 0; w < j.workers; w++) memset(counts_of(&j, w), 0, gale__cpu_counts_scratch());
        gale__parallel((j.samples + BLOCK - 1) / BLOCK, count_block, &j);
        gale__parallel(16, add_codes, &j);
    }
}
