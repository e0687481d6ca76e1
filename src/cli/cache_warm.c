/* gale cache warm MODEL: runs a model once in its usual shapes, so that its kernels are compiled before they are
 * needed.
 */
#include "cli/cache_warm.h"
#include "base/file.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "cli/model_args.h"
#include "device/binary_cache.h"
#include "gale/embed.h"
#include <stdio.h>

static gale_status warm_encoder(const gale__args *a, gale_device *device, const char *path)
{
    gale_embedder_options o = {0};
    gale_embedder *e = NULL;
    gale__model_options(a, &o.model);
    GALE_TRY(gale_embedder_open(path, device, &o, &e));
    gale_status status = gale_embedder_warm(e);
    gale_embedder_close(&e);
    return status;
}

static gale_status warm_model(const gale__args *a, gale_device *device, const char *path)
{
    gale_bench_options o = {.repeats = 1, .job.inputs.seed = 1};
    gale_bench_result *result = NULL;
    gale__arena arena = {0};
    gale__model_options(a, &o.job.model);
    gale_status status = gale__args_list(a, "dim", &arena, &o.job.inputs.dims, &o.job.inputs.n_dims);
    if (status == GALE_OK) status = gale__args_list(a, "shape", &arena, &o.job.inputs.shapes, &o.job.inputs.n_shapes);
    if (status == GALE_OK) status = gale_model_bench(path, device, &o, &result);
    gale_bench_result_destroy(&result);
    gale__arena_finish(&arena);
    return status;
}

static gale_status warm(const gale__args *a, gale_device *device)
{
    const char *path = gale__args_text(a, "MODEL");
    gale__binary_cache_stats before, after;
    uint64_t start = gale__time_ns();
    gale__file_identity file;
    GALE_TRY(gale__binary_cache_get_stats(&before));
    GALE_TRY((gale__file_identify(path, &file) ? warm_model : warm_encoder)(a, device, path));
    GALE_TRY(gale__binary_cache_get_stats(&after));
    long long made = (long long)(after.files > before.files ? after.files - before.files : 0);
    double seconds = (double)(gale__time_ns() - start) * 1e-9;
    if (gale__args_flag(a, "json"))
        printf("{\"compiled\": %lld, \"kernels\": %lld, \"seconds\": %.3f}\n", made, (long long)after.files, seconds);
    else
        printf("%s: %lld kernels compiled for %s in %.1f s, %lld in the cache\n", path, made,
            gale_device_get_info(device)->name, seconds, (long long)after.files);
    return GALE_OK;
}

int gale__cache_warm(const gale__args *a) { return gale__on_device(a, warm); }
