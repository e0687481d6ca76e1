/* gale run: one run of a model, with values from and to files. */
#include "base/env.h"
#include "cli/cli.h"
#include "cli/model_args.h"
#include "jobs/model/model_inputs.h"
#include <string.h>

static const gale__arg args[] = {
    {"MODEL", 0, GALE__ARG_FILE, NULL, NULL, NULL, "ONNX file", NULL, true},
    GALE__ARGS_MODEL_INPUTS,
    {"output", 'o', GALE__ARG_TEXT, "NAME=FILE", NULL, NULL,
        "file for an output (.npy, .npz, .pb, .json, raw, a picture); without NAME= for the only output, or the first "
        "that is a picture",
        .many = true, .writes = true},
    GALE__ARG_OVERWRITE,
    GALE__ARGS_MODEL_OPTIONS,
    {"profile", 0, GALE__ARG_FILE, NULL, NULL, NULL,
        "write times of kernels and copies: a trace for chrome://tracing if the file ends in .json, else a table",
        .writes = true},
    {"report", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "print what ran where, and why, to stderr"},
    {"or", 0, GALE__ARG_TEXT, "PROVIDER", NULL, NULL,
        "another provider: the run goes to the one that is predicted to take less time, by the rates of `gale devices "
        "--measure`. Without --provider and --or the CPU is compared with the GPU that is found"},
    GALE__ARG_JSON,
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    {0},
};

static void print_output(void *user, const gale_run_output *output)
{
    char text[256];
    gale_tensor *t = gale_object_get_tensor(output->value);
    gale__statistics s;
    (void)user;
    if (gale_object_get_kind(output->value) == GALE_OBJECT_TENSOR) {
        printf("%s: %s %s", output->name, gale_type_name(gale_tensor_type(t)),
            gale__shape_text(gale_tensor_rank(t), gale_tensor_dims(t), NULL, text));
        if (gale__tensor_statistics(t, &s)) printf("  %g to %g, mean %g", s.least, s.largest, s.mean);
        if (s.not_finite) printf(", %llu not finite", (unsigned long long)s.not_finite);
        printf("\n");
    } else printf("%s: %zu items\n", output->name, gale_object_count(output->value));
}

/* The device to compare with, where one is asked for; else NULL. */
static gale_status open_other(const gale__args *a, gale_device **out)
{
    const char *other = gale__args_text(a, "or");
    if (!other) return GALE_OK;
    return gale_device_open(&(gale_device_options){.chain = other, .index = GALE_DEVICE_FIRST}, out);
}

static gale_status work(const gale__args *a, gale_device *device)
{
    gale_run_options options = {.profile = gale__args_text(a, "profile"),
        .report = gale__args_flag(a, "report"),
        .done = gale__args_flag(a, "json") ? NULL : print_output};
    gale_run_result *result = NULL;
    gale_device *other = NULL;
    char *json = NULL;
    gale__arena arena = {0};
    gale_status status;
    GALE_GO(gale__model_job_options(a, &arena, &options.job));
    GALE_GO(gale__args_list(a, "output", &arena, &options.outputs, &options.n_outputs));
    GALE_GO(open_other(a, &other));
    options.others = &other;
    options.n_others = other != NULL;
    GALE_GO(gale_model_run_files(gale__args_text(a, "MODEL"), device, &options, &result));
    if (gale__args_flag(a, "json")) gale__print_json(gale_run_result_json(result, &json), &json);
    else if (result->report) fputs(result->report, stderr);
done:
    gale_run_result_destroy(&result);
    gale_device_close(&other);
    gale__arena_finish(&arena);
    return status;
}

static int run(const gale__args *a) { return gale__on_device(a, work); }

const gale__command gale__command_run = {
    .args = args,
    .run = run,
    .about = "Runs an ONNX model once. Inputs come from files or are random numbers; an input that has a default value "
             "in the model file keeps it unless another one is given. Outputs are written to files, and their types, "
             "shapes and ranges are printed. Input pictures are resized if the model fixes their size; output pictures "
             "get the size of the input picture. If an output contains only NaN and infinity, the command fails with "
             "exit code 5, unless --allow-nonfinite is given.",
    .examples =
        "  gale run model.onnx --random --shape x=1x3x256x256\n"
        "  gale run model.onnx --input x=photo.npy --output y=out.npy --provider cuda --report\n"
        "  gale run segment.onnx --input photo.jpg --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --output mask.png",
};
