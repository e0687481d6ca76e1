/* Timing of operators on a device: large cases, the median of many runs by the device's own clock, and what share of
 * the measured ceiling (bytes or operations, whichever is nearer) that is. */
#include "cli/check.h"
#include "cli/progress.h"
#include "graph/run/time.h"
#include <string.h>

static const gale__case bench_cases[] = {
#define CASE(...) {__VA_ARGS__},
#include "ops/cases/cases_bench.def"
#undef CASE
};

static double share_of(const gale_device_info *info, const gale__check_time *t)
{
    double by_bytes = info->ceilings.copy_gbps > 0 ? t->gbps / info->ceilings.copy_gbps : 0;
    double by_work = info->ceilings.f32_gflops > 0 ? t->gflops / info->ceilings.f32_gflops : 0;
    return by_bytes > by_work ? by_bytes : by_work;
}

static gale_status time_program(
    gale_device *device, gale_program *program, gale_tensor *const *in, const char *name, gale__check_times *out)
{
    gale__timing t = {0};
    GALE_TRY(
        gale__program_time(program, in, device->info.caps.software || device->info.caps.host_functions ? 7 : 51, &t));
    GALE_TRY(gale__grow((void **)&out->items, &out->capacity, out->count + 1, sizeof *out->items));
    gale__check_time row = {
        gale__strdup(name), t.median_us, t.bytes / t.median_us / 1e3, t.operations / t.median_us / 1e3, 0, t.kernels};
    row.share = share_of(&device->info, &row);
    out->items[out->count++] = row;
    return row.name ? GALE_OK : GALE_NO_MEMORY;
}

static gale_status bench_one(gale_device *device, gale__case_run *run, gale__check_times *out)
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
    GALE_GO(time_program(device, program, in, run->name, out));
done:
    for (int i = 0; i < n; i++) gale_tensor_destroy(&in[i]);
    gale_program_destroy(&program);
    gale_graph_destroy(&graph);
    return status;
}

gale_status gale__check_bench(gale_device *device, const char *filter, gale__check_times *out)
{
    size_t count = sizeof bench_cases / sizeof *bench_cases;
    gale__progress progress;
    gale_status status = GALE_OK;
    gale__progress_begin(&progress, device->info.backend, "rows", count);
    for (size_t c = 0; c < count && status == GALE_OK; c++, gale__progress_add(&progress, 1))
        for (int v = 0; v < gale__case_variants(&bench_cases[c]) && status == GALE_OK; v++) {
            gale__case_run run;
            status = gale__case_open(&bench_cases[c], v, &run);
            if (status != GALE_OK) break;
            status = !filter || strstr(run.name, filter) ? bench_one(device, &run, out) : GALE_OK;
            if (status != GALE_OK && status != GALE_DEVICE_LOST) {
                gale__log(GALE__WARN, "%s is not timed: %s", run.name, gale_error());
                status = GALE_OK;
            }
            gale__case_close(&run);
        }
    gale__progress_end(&progress);
    return status;
}

void gale__check_times_finish(gale__check_times *t)
{
    for (size_t i = 0; i < t->count; i++) gale__free(t->items[i].name);
    gale__free(t->items);
    *t = (gale__check_times){0};
}
