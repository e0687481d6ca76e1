/* gale tune: which schedules of a model's products and convolutions are the fastest. */
#include "cli/cli.h"
#include "cli/job_progress.h"
#include "cli/model_args.h"
#include "cli/table.h"

static const gale__arg args[] = {
    {"MODEL", 0, GALE__ARG_FILE, NULL, NULL, NULL, "ONNX file", NULL, true},
    GALE__ARGS_MODEL_INPUTS,
    {"seconds", 0, GALE__ARG_REAL, "S", "60", "0.1..86400",
        "time limit: no further kernel is measured after this many seconds"},
    GALE__ARGS_MODEL_OPTIONS,
    GALE__ARG_JSON,
    GALE__ARGS_DEVICE,
    {0},
};

static gale_status print_text(const gale_tune_result *r)
{
    gale__table t = {.align = "lrrlrlr"};
    static const char *const heads[] = {"kernel", "uses", "tried", "usual", "us", "fastest", "us"};
    if (!r->n_kernels && !r->n_left) {
        printf(
            "nothing to tune: on %s the model has no products or convolutions with a choice of kernels\n", r->device);
        return GALE_OK;
    }
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) gale__table_cell(&t, "%s", heads[i]);
    for (const gale_tune_kernel *k = r->kernels; k < r->kernels + r->n_kernels; k++) {
        gale__table_cell(&t, "%s", k->key);
        gale__table_cell(&t, "%d", k->uses);
        gale__table_cell(&t, "%zu", k->n_candidates);
        gale__table_cell(&t, "%s", k->usual.name);
        gale__table_cell(&t, "%.2f", k->usual.us);
        gale__table_cell(&t, "%s", k->best.name);
        gale__table_cell(&t, "%.2f", k->best.us);
    }
    gale_status status = gale__table_print(&t, stdout);
    printf("\n%zu kernels on %s: %.1f us in one run before, %.1f us now; %zu not tuned within --seconds\n",
        r->n_kernels, r->device, r->usual_us, r->best_us, r->n_left);
    return status;
}

static gale_status work(const gale__args *a, gale_device *device)
{
    gale_tune_options options = {.seconds = gale__args_real(a, "seconds")};
    gale__job_progress progress = {0};
    gale_tune_result *r = NULL;
    gale__arena arena = {0};
    char *text = NULL;
    gale_status status = gale__model_job_options(a, &arena, &options.job);
    options.job.control.progress = gale__job_progress_show;
    options.job.control.user = &progress;
    if (status == GALE_OK) status = gale_model_tune(gale__args_text(a, "MODEL"), device, &options, &r);
    gale__job_progress_end(&progress);
    if (status == GALE_OK && gale__args_flag(a, "json")) gale__print_json(gale_tune_result_json(r, &text), &text);
    else if (status == GALE_OK) status = print_text(r);
    gale_tune_result_destroy(&r);
    gale__arena_finish(&arena);
    return status;
}

static int run(const gale__args *a) { return gale__on_device(a, work); }

const gale__command gale__command_tune = {
    .args = args,
    .run = run,
    .about =
        "Runs a model once with random or given inputs and times the kernels that each of its matrix products and "
        "convolutions can have: tiles of several sizes, with and without matrix units. The fastest are recorded in the "
        "cache folder for this kind of device, and every later run uses them; without a record, gale chooses by "
        "estimate and never waits. A choice holds for a class of batch sizes, up to the next power of two. Results "
        "change only in the order of sums. `gale cache clear --kind tuning` removes all records.",
    .examples = "  gale tune model.onnx --provider cuda --precision fp16 --dim batch=16\n"
                "  gale tune model.onnx --shape x=1x3x224x224 --seconds 20 --json",
};
