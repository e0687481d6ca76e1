/* What ran on a device and for how long.
 *
 *     profile MODEL.onnx [PROVIDERS] */
#include <gale/model_jobs.h>
#include <gale/profile.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    gale_device_options where = GALE_DEFAULTS;
    gale_run_options run = GALE_DEFAULTS;
    gale_device *device = NULL;
    gale_profiler *profiler = NULL;
    char *text = NULL;
    if (argc < 2) return fprintf(stderr, "usage: profile MODEL.onnx [PROVIDERS]\n"), 2;
    where.chain = argc > 2 ? argv[2] : NULL;
    run.job.inputs.random = true; /* inputs are made up */
    gale_status status = gale_device_open(&where, &device);
    if (status == GALE_OK) status = gale_profiler_start(device, &profiler);
    if (status == GALE_OK) status = gale_model_run_files(argv[1], device, &run, NULL);
    if (status == GALE_OK) status = gale_profiler_stop(profiler);
    if (status == GALE_OK) status = gale_profiler_to_text(profiler, "table", &text);
    if (status != GALE_OK) fprintf(stderr, "%s\n", gale_error());
    else fputs(text, stdout);
    gale_free(text);
    gale_profiler_destroy(&profiler);
    gale_device_close(&device);
    return status != GALE_OK;
}
