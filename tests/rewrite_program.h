/* Rewrites of a program's graph for devices with matrix units: where they are made, and what happens without memory. */
#ifndef GALE_TESTS_REWRITE_PROGRAM_H
#define GALE_TESTS_REWRITE_PROGRAM_H
#include "device/null/null.h"
#include "device/registry.h"
#include "graph/run/program.h"
#include "op_graph.h"

typedef gale_status rewrite(gale_graph *graph, bool narrow, gale__arena *arena);

/* On the CPU the program is made as ever, and then changed; `check` looks at it. */
static inline bool rewrite_run(
    og *t, rewrite *change, bool (*check)(const gale_program *p, int64_t want), int64_t want, gale_tensor **y)
{
    gale_device *cpu = NULL;
    gale_program *p = NULL;
    bool ok = CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu)) &&
              CHECK_OK(gale_program_create(t->graph, cpu, NULL, &p));
    if (ok && change) ok = CHECK_OK(change(p->graph, true, &p->arena)) && check(p, want);
    ok = ok && CHECK_OK(gale_program_run(p, t->inputs, y, GALE_RUN_ON_HOST));
    gale_program_destroy(&p);
    gale_device_close(&cpu);
    return ok;
}

/* Only halves, and only with matrix units: else as many as `plain`. */
static inline void rewrite_pays(
    og *t, bool (*check)(const gale_program *p, int64_t want), int64_t plain, int64_t changed)
{
    for (int way = 0; way < 4; way++) {
        gale_device *null = NULL;
        gale_program *p = NULL;
        gale_program_options options = {.precision = way & 1 ? GALE_PRECISION_F16 : GALE_PRECISION_AS_IT_IS};
        gale__null_set_caps(NULL);
        CHECK_OK(gale__device_open_one(&gale__backend_null, 0, NULL, &null));
        gale_device_caps caps = null->info.caps;
        gale_device_close(&null);
        caps.n_matrix = (uint32_t)way >> 1;
        gale__null_set_caps(&caps);
        CHECK_OK(gale__device_open_one(&gale__backend_null, 0, NULL, &null));
        if (CHECK_OK(gale_program_create(t->graph, null, &options, &p))) check(p, way == 3 ? changed : plain);
        gale_program_destroy(&p);
        gale_device_close(&null);
    }
    gale__null_set_caps(NULL);
}

/* Whatever allocation fails, nothing is lost. */
static inline void rewrite_faults(og *t, rewrite *change)
{
    gale_device *cpu = NULL;
    CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu));
    gale_status status = GALE_NO_MEMORY;
    for (uint64_t n = 1; status == GALE_NO_MEMORY && n < 100; n++) {
        gale_program *p = NULL;
        CHECK_OK(gale_program_create(t->graph, cpu, NULL, &p));
        gale__alloc_fail_at(n);
        status = change(p->graph, true, &p->arena);
        gale__alloc_fail_at(0);
        gale_program_destroy(&p);
    }
    CHECK_OK(status);
    gale_device_close(&cpu);
}
#endif
