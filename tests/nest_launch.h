/* Runs the kernel that a schedule made of a case (nest_random.h). */
#ifndef GALE_TESTS_NEST_LAUNCH_H
#define GALE_TESTS_NEST_LAUNCH_H
#include "ir_run.h"
#include "kernel/schedule/schedule.h"
#include "nest_random.h"

static inline size_t nr_bytes(const nest_case *c, int b)
{
    return (size_t)c->buffers[b].elements * gale_type_size(c->buffers[b].type);
}

/* results: of each buffer that is written, for the caller to free; false where the launch failed. */
static inline bool nr_launch(gale_device *device, gale_module *module, const nest_case *c, const gale__schedule *s,
    const gale__ir *ir, void *results[NR_BUFFERS])
{
    ir_job job = {.ir = (gale__ir *)ir};
    uint32_t words[GALE__SCHEDULE_WORDS];
    int n_words;
    memset(results, 0, NR_BUFFERS * sizeof *results);
    if (!CHECK_OK(gale__schedule_params(&c->nest, s, NULL, words, &n_words))) return false;
    CHECK_EQ(n_words, ir->n_words);
    if (!CHECK(n_words <= (int)(sizeof job.words / sizeof *job.words))) return false;
    memcpy(job.words, words, sizeof job.words);
    gale__schedule_grid(&c->nest, s, job.groups);
    CHECK_EQ(gale__schedule_maps(&c->nest, s, job.maps), ir->n_maps);
    for (int b = 0; b < c->nest.n_buffers; b++) {
        job.buffers[b] = (ir_buffer){c->data[b], nr_bytes(c, b)};
        if (c->buffers[b].written) results[b] = malloc(nr_bytes(c, b));
    }
    return CHECK_OK(ir_launch(device, module, &job, results));
}
#endif
