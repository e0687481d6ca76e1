/* A job with progress, cancelled half way.
 *
 *     cancel */
#include <gale/job.h>
#include <gale/selftest.h>
#include <stdio.h>

/* Returning false cancels; a flag that another thread or a signal sets would do the same (gale_job_control.cancel). */
static bool watch(void *user, const gale_job_progress *now)
{
    int *calls = (int *)user;
    printf(
        "%s: %llu of %llu %s\n", now->stage, (unsigned long long)now->done, (unsigned long long)now->total, now->unit);
    return ++*calls < 3;
}

int main(void)
{
    int calls = 0;
    gale_check_options options = GALE_DEFAULTS;
    gale_check_result *result = NULL;
    options.chain = "cpu";
    options.filter = "Relu";
    options.control.progress = watch;
    options.control.user = &calls;
    gale_status status = gale_check_run(&options, &result);
    printf("%s after %d calls\n", gale_status_text(status), calls);
    gale_check_result_destroy(&result);
    return status != GALE_CANCELLED;
}
