/* Is a model computed correctly on a device?  Every node's results beside the CPU's.
 *
 *     verify MODEL.onnx [PROVIDER] */
#include <gale/model_jobs.h>
#include <stdio.h>

static bool tell(void *user, const gale_job_progress *now)
{
    (void)user;
    fprintf(stderr, "%s: %llu of %llu %s\n", now->stage, (unsigned long long)now->done, (unsigned long long)now->total,
        now->unit);
    return true; /* false would cancel */
}

int main(int argc, char **argv)
{
    gale_device_options where = GALE_DEVICE_OPTIONS;
    gale_verify_options options = {0};
    gale_device *device = NULL;
    gale_verify_result *result = NULL;
    if (argc < 2) return 2;
    gale_workarounds_apply();
    if (argc > 2) where.chain = argv[2];
    options.control.progress = tell;
    gale_status status = gale_device_open(&where, &device);
    if (status == GALE_OK) status = gale_model_verify(argv[1], device, &options, &result);
    if (status != GALE_OK) fprintf(stderr, "%s\n", gale_error());
    else if (result->exceeding)
        printf("%s differs by %g\n", result->values[result->first].node, result->values[result->first].relative);
    else printf("%zu values agree within %g\n", result->n_values, result->tolerance);
    gale_verify_result_destroy(&result);
    gale_device_close(&device);
    return status != GALE_OK;
}
