/* gale conformance: failures as they occur, then a table of operators. */
#include "cli/cli.h"
#include "cli/job_progress.h"
#include "cli/table.h"
#include "gale/selftest.h"

static const gale__arg args[] = {
    {"SUITE", 0, GALE__ARG_FILE, "DIR|TAR", NULL, NULL, "folder of cases, or an archive of one", NULL, true},
    {"filter", 'f', GALE__ARG_TEXT, "TEXT", NULL, NULL, "only cases whose name contains TEXT"},
    {"every", 0, GALE__ARG_INT, "N", "1", "1..100000",
        "only every N-th case: a sample, for drivers with slow compilers"},
    {"jobs", 'J', GALE__ARG_INT, "N", NULL, "1..256",
        "cases run at once (default: number of cores; 1 on the CPU, where each case uses all cores)"},
    {"table", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "list passed and failed cases by operator, even if all passed"},
    GALE__ARG_JSON,
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    {0},
};

static void print_failure(void *user, const gale_conformance_case *c)
{
    (void)user;
    printf("%s %s/%s: %s\n", c->outcome == GALE_CASE_SKIPPED ? "SKIP" : "FAIL", c->group, c->name, c->reason);
    fflush(stdout);
}

static void print_text(const gale_conformance_result *r, bool all)
{
    if (r->failed || all) {
        gale__table t = {.align = "lrr"};
        gale__table_cell(&t, "operator");
        gale__table_cell(&t, "passed");
        gale__table_cell(&t, "failed");
        for (size_t i = 0; i < r->n_operators; i++) {
            const gale_conformance_count *c = &r->operators[i];
            if (!c->failed && !all) continue;
            gale__table_cell(&t, "%s", c->op);
            gale__table_cell(&t, "%d", c->passed);
            gale__table_cell(&t, "%d", c->failed);
        }
        gale__table_print(&t, stdout);
    }
    printf("%d passed, %d failed, %d skipped\n", r->passed, r->failed, r->skipped);
}

static gale_status work(const gale__args *a, gale_device *device, gale_conformance_result **out)
{
    gale__job_progress progress = {0};
    gale_conformance_options options = {.filter = gale__args_text(a, "filter"),
        .every = (int)gale__args_int(a, "every"),
        .jobs = (int)gale__args_int(a, "jobs"),
        .failed = gale__args_flag(a, "json") ? NULL : print_failure,
        .control = {.progress = gale__job_progress_show, .user = &progress}};
    gale_status status = gale_conformance_run(gale__args_text(a, "SUITE"), device, &options, out);
    gale__job_progress_end(&progress);
    return status;
}

static int run_command(const gale__args *a)
{
    gale_conformance_result *r = NULL;
    gale_device *device = NULL;
    char *text = NULL;
    gale_status status = gale_device_open(NULL, &device);
    int code = GALE__EXIT_OK;
    if (status == GALE_OK) status = work(a, device, &r);
    if (status != GALE_OK) code = gale__report(status);
    else if (gale__args_flag(a, "json")) code = gale__print_json(gale_conformance_result_json(r, &text), &text);
    else print_text(r, gale__args_flag(a, "table"));
    if (code == GALE__EXIT_OK && r->failed) code = GALE__EXIT_DIFFER;
    gale_conformance_result_destroy(&r);
    gale_device_close(&device);
    return code;
}

const gale__command gale__command_conformance = {
    .args = args,
    .run = run_command,
    .about = "Runs every case of the official ONNX backend suite (or any folder of model.onnx with "
             "test_data_set_N/input_N.pb and output_N.pb) on the selected device, with the suite's own tolerances. On "
             "a GPU a case passes only if every number was computed there; correct results of the host count as "
             "skipped. Models with a random operator are checked "
             "for type, shape and range only. The last line is `N passed, N failed, N skipped`.",
    .examples = "  gale conformance onnx-backend-tests-1.22.tar.xz                # on the default device\n"
                "  gale conformance data/ --provider cpu --filter attention        # selected cases, on the CPU\n"
                "  gale conformance data/ --provider vulkan --every 20 --json",
};
