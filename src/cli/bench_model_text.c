/* gale bench MODEL: options in, times in lines. */
#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/model_args.h"
#include "jobs/job.h"
#include <stdlib.h>

/* "1,8,64" */
static gale_status read_batches(const gale__args *a, gale__arena *arena, gale_bench_options *o)
{
    int64_t *batches = NULL;
    size_t n = 0;
    for (const char *at = gale__args_text(a, "batches"); at && *at;) {
        char *end;
        long long batch = strtoll(at, &end, 10);
        if (end == at || batch < 1 || batch > 1 << 20 || (*end && *end != ','))
            return gale__fail(GALE_INVALID, "--batches: '%s' is not a list of whole numbers such as 1,8,64", at);
        int64_t *to = gale__arena_add(arena, &batches, &n, sizeof *to);
        if (!to) return GALE_NO_MEMORY;
        *to = batch;
        at = *end ? end + 1 : end;
    }
    o->batches = batches;
    o->n_batches = (int)n;
    return GALE_OK;
}

static void print(const gale_bench_result *r)
{
    char device[32], process[32];
    printf("device               %s\n", r->device);
    printf("read and scheduled   %10.1f ms\n", r->open_ms);
    printf("first run            %10.1f ms (plan, kernels, weights, run)\n", r->first_ms);
    printf("steady state         %10.2f ms median, %.2f best, %.2f at 90 %%, %.2f at 99 %% (%zu runs)\n", r->median_ms,
        r->best_ms, r->p90_ms, r->p99_ms, r->n_runs);
    printf("memory               %s on the device (peak), %s resident\n",
        gale__bytes_text(r->device_peak_bytes, device), gale__bytes_text(r->process_peak_bytes, process));
}

static void show(const gale__args *a, const gale_bench_result *r)
{
    char *text = NULL;
    for (size_t i = 0; i < r->n_batches; i++)
        printf("batch of %-6lld      %10.2f ms, %.1f items/s\n", (long long)r->batches[i].batch, r->batches[i].best_ms,
            (double)r->batches[i].batch * 1e3 / r->batches[i].best_ms);
    if (gale__args_flag(a, "json")) gale__print_json(gale_bench_result_json(r, &text), &text);
    else print(r);
}

gale_status gale__bench_model(gale_device *device, const char *path, const gale__args *a)
{
    gale_bench_options options = {
        .repeats = (int)gale__args_int(a, "repeats"), .on_device = gale__args_flag(a, "on-device")};
    gale_bench_result *result = NULL;
    gale__arena arena = {0};
    gale_status status;
    GALE_GO(gale__model_job_options(a, &arena, &options.job));
    options.job.model.program.fast |= gale__args_flag(a, "fast");
    GALE_GO(read_batches(a, &arena, &options));
    GALE_GO(gale_model_bench(path, device, &options, &result));
    show(a, result);
done:
    gale_bench_result_destroy(&result);
    gale__arena_finish(&arena);
    return status;
}
