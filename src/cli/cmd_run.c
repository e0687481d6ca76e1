/* gale run: one run of a model, with values from and to files. */
#include "cli/cli.h"
#include "cli/model_args.h"
#include "jobs/model/model_inputs.h"

static const gale__arg args[] = {
    {"MODEL", 0, GALE__ARG_FILE, NULL, NULL, NULL, "ONNX file", NULL, true},
    GALE__ARGS_MODEL_INPUTS,
    {"output", 'o', GALE__ARG_TEXT, "NAME=FILE", NULL, NULL,
        "write an output to a file (.npy, .npz, .pb, .json, raw); NAME= may be omitted if there is only one",
        .many = true, .writes = true},
    GALE__ARG_OVERWRITE,
    GALE__ARGS_MODEL_OPTIONS,
    {"profile", 0, GALE__ARG_FILE, NULL, NULL, NULL,
        "write times of kernels and copies: a trace for chrome://tracing if the file ends in .json, else a table",
        .writes = true},
    {"report", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "print what ran where, and why, to stderr"},
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    {0},
};

static void print_output(void *user, const gale_run_output *output)
{
    char text[256];
    gale_tensor *t = gale_object_get_tensor(output->value);
    (void)user;
    if (gale_object_get_kind(output->value) == GALE_OBJECT_TENSOR)
        printf("%s: %s %s\n", output->name, gale_type_name(gale_tensor_type(t)),
            gale__shape_text(gale_tensor_rank(t), gale_tensor_dims(t), NULL, text));
    else printf("%s: %zu items\n", output->name, gale_object_count(output->value));
}

static gale_status work(const gale__args *a, gale_device *device)
{
    gale_run_options options = {
        .profile = gale__args_text(a, "profile"), .report = gale__args_flag(a, "report"), .done = print_output};
    gale_run_result *result = NULL;
    gale__arena arena = {0};
    gale_status status;
    GALE_GO(gale__model_job_options(a, &arena, &options.job));
    GALE_GO(gale__args_list(a, "output", &arena, &options.outputs, &options.n_outputs));
    GALE_GO(gale_model_run_files(gale__args_text(a, "MODEL"), device, &options, &result));
    if (result->report) fputs(result->report, stderr);
done:
    gale_run_result_destroy(&result);
    gale__arena_finish(&arena);
    return status;
}

static int run(const gale__args *a) { return gale__on_device(a, work); }

const gale__command gale__command_run = {
    .args = args,
    .run = run,
    .about = "Runs an ONNX model once. Inputs come from files or are random; an input with a default in the model file "
             "keeps it unless another value is given. Outputs are written to files, and their types and shapes are "
             "printed. If a result contains no finite number, the exit code is 5 unless --allow-nonfinite is given.",
    .examples =
        "  gale run model.onnx --random --shape x=1x3x256x256\n"
        "  gale run model.onnx --input x=photo.npy --output y=out.npy --provider cuda --report\n"
        "  gale run segment.onnx --input photo.jpg --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --output mask.png",
};
