/* Does gale compute correctly here?  Cases of operators on a device, with failures as they are found.
 *
 *     check PROVIDER [FILTER] */
#include <gale/selftest.h>
#include <stdio.h>

static void print_failure(void *user, const char *device, const gale_check_note *failure)
{
    (void)user;
    printf("%s: %s: %s\n", device, failure->name, failure->text);
}

int main(int argc, char **argv)
{
    gale_check_options options = {0};
    gale_check_result *r = NULL;
    if (argc < 2) return 2;
    gale_workarounds_apply();
    options.chain = argv[1];
    if (argc > 2) options.filter = argv[2];
    options.failed = print_failure;
    if (gale_check_run(&options, &r) != GALE_OK) {
        fprintf(stderr, "%s\n", gale_error());
        return 1;
    }
    printf("%d passed, %d failed, %d skipped\n", r->passed, r->failed, r->skipped);
    int code = r->failed || !r->n_cases;
    gale_check_result_destroy(&r);
    return code;
}
