/* Timing of operators on a device: large cases, the median of many runs by the device's own clock, and what share of
 * the measured ceiling (bytes or operations, whichever is nearer) that is. */
#include "graph/run/time.h"
#include "jobs/selftest/check.h"
#include <string.h>

static const gale__case bench_cases[] = {
#define CASE(...) {__VA_ARGS__},
#include "ops/cases/cases_bench.def"
#undef CASE
};

static double share_of(const gale_device_info *info, const gale_check_time *t)
{
    double by_bytes = info->ceilings.copy_gbps > 0 ? t->gbps / info->ceilings.copy_gbps : 0;
    double by_work = info->ceilings.f32_gflops > 0 ? t->gflops / info->ceilings.f32_gflops : 0;
    return by_bytes > by_work ? by_bytes : by_work;
}

static gale_status time_program(
    gale__check *c, gale_device *device, gale_program *program, gale_tensor *const *in, const char *name)
{
    const gale_device_caps *caps = &device->info.caps;
    gale__timing t = {0};
    GALE_TRY(gale__program_time(program, in, caps->software || caps->host_functions ? 7 : 51, UINT64_MAX, &t));
    gale_check_time row = {gale__arena_strdup(c->arena, name), t.median_us, t.bytes / t.median_us / 1e3,
        t.operations / t.median_us / 1e3, 0, t.kernels};
    gale_check_time *to = row.name ? gale__arena_add(c->arena, &c->times, &c->out->n_times, sizeof *to) : NULL;
    if (!to) return GALE_NO_MEMORY;
    row.share = share_of(&device->info, &row);
    *to = row;
    c->out->times = c->times;
    return GALE_OK;
}

static gale_status bench_one(gale__check *c, gale_device *device, gale__case_run *run)
{
    gale_graph *graph = NULL;
    gale_program *program = NULL;
    gale_tensor *in[GALE__CASE_VALUES] = {0};
    gale_value outputs[GALE__CASE_VALUES];
    gale_status status;
    int n = 0;
    GALE_GO(gale_graph_create(&graph));
    GALE_GO(gale__check_add(graph, run, false, outputs));
    for (int i = 0; i < run->n_out; i++) GALE_GO(gale_graph_output(graph, "y", outputs[i]));
    GALE_GO(gale_program_create(graph, device, NULL, &program));
    for (int i = 0; i < run->n_in; i++)
        if (!run->in[i].absent && !run->in[i].plan) {
            GALE_GO(gale__check_tensor(device, &run->in[i], false, &in[n]));
            n++;
        }
    GALE_GO(time_program(c, device, program, in, run->name));
done:
    for (int i = 0; i < n; i++) gale_tensor_destroy(&in[i]);
    gale_program_destroy(&program);
    gale_graph_destroy(&graph);
    return status;
}

/* A case that cannot be timed is a warning, and the others go on. */
static gale_status bench_variant(gale__check *c, gale_device *device, const gale__case *row, int variant)
{
    gale__case_run run;
    const char *filter = c->options->filter;
    GALE_TRY(gale__case_open(row, variant, &run));
    gale_status status = !filter || strstr(run.name, filter) ? bench_one(c, device, &run) : GALE_OK;
    if (status != GALE_OK && status != GALE_DEVICE_LOST) {
        gale__log(GALE__WARN, "%s was not timed: %s", run.name, gale_error());
        status = GALE_OK;
    }
    gale__case_close(&run);
    return status;
}

gale_status gale__check_bench(gale__check *c, gale_device *device)
{
    size_t count = sizeof bench_cases / sizeof *bench_cases;
    gale_status status = GALE_OK;
    for (size_t i = 0; i < count && status == GALE_OK; i++) {
        for (int v = 0; v < gale__case_variants(&bench_cases[i]) && status == GALE_OK; v++)
            status = bench_variant(c, device, &bench_cases[i], v);
        if (status == GALE_OK)
            status = gale__job_tell(&c->options->control, device->info.backend, "rows", i + 1, count);
    }
    return status;
}
