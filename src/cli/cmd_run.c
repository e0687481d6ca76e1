/* gale run: one run of a model, values from and to files. */
#include "cli/cli.h"
#include "cli/data_file.h"
#include "cli/model_inputs.h"
#include "gale/profile.h"
#include "base/thread.h"
#include "onnx/run/object.h"
#include <string.h>

static const gale__arg args[] = {
    {"MODEL", 0, GALE__ARG_FILE, NULL, NULL, NULL, "ONNX file", NULL, true},
    GALE__ARGS_MODEL_INPUTS,
    {"output", 'o', GALE__ARG_TEXT, "NAME=FILE", NULL, NULL,
        "where an output goes (.npy, .npz, .pb, .json, raw); of the only one without NAME=", .many = true,
        .writes = true},
    GALE__ARG_OVERWRITE,
    GALE__ARGS_MODEL_OPTIONS,
    {"profile", 0, GALE__ARG_FILE, NULL, NULL, NULL,
        "times of kernels and copies: a trace for chrome://tracing when the file ends in .json, else a table",
        .writes = true},
    {"report", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "what ran where, and why, on stderr"},
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    {0},
};

static void print_output(const gale_model_value *v, const gale_object *o)
{
    char text[256];
    gale_tensor *t = gale_object_get_tensor(o);
    if (gale_object_get_kind(o) == GALE_OBJECT_TENSOR)
        printf("%s: %s %s\n", v->name, gale_type_name(gale_tensor_type(t)),
            gale__shape_text(gale_tensor_rank(t), gale_tensor_dims(t), NULL, text));
    else printf("%s: %zu items\n", v->name, gale_object_count(o));
}

static gale_status write_outputs(gale_model *m, const gale__args *a, gale_object **outputs)
{
    int n = gale_model_outputs(m);
    for (int i = 0; i < n; i++) {
        gale_model_value v;
        GALE_TRY(gale_model_output(m, i, &v));
        const char *file = gale__args_for(a, "output", v.name, n == 1);
        if (file)
            GALE_TRY(gale__is_picture(file) ? gale__picture_from_output(file, outputs[i], a)
                                            : gale__data_write(file, outputs[i]));
        print_output(&v, outputs[i]);
    }
    return GALE_OK;
}

/* With a profile, a run before it takes planning and compiling out of the picture. */
static gale_status run_model(
    gale_model *m, const gale__args *a, gale_device *device, gale_object **inputs, gale_object **outputs)
{
    const char *path = gale__args_text(a, "profile");
    gale_profiler *p = NULL;
    if (!path) return gale_model_run(m, inputs, outputs, true);
    double warm_ms;
    GALE_TRY(gale__model_run_timed(m, inputs, &warm_ms));
    GALE_TRY(gale_profiler_start(device, &p));
    gale_status status = gale_model_run(m, inputs, outputs, true);
    gale_status stopped = gale_profiler_stop(p);
    if (status == GALE_OK) status = stopped;
    const char *dot = strrchr(path, '.');
    if (status == GALE_OK) status = gale_profiler_write(p, dot && !strcmp(dot, ".json") ? "trace" : "table", path);
    gale_profiler_destroy(&p);
    return status;
}

static gale_status work(const gale__args *a, gale_device *device)
{
    gale_model *m = NULL;
    gale_object **inputs = NULL, **outputs = NULL;
    char *report = NULL;
    gale_status status;
    GALE_GO(gale__model_open_for(a, device, &m));
    GALE_GO(gale__model_outputs_check(m, a));
    GALE_GO(gale__model_inputs_make(m, a, false, &inputs));
    outputs = gale__calloc((size_t)gale_model_outputs(m) + 1, sizeof *outputs);
    if (!outputs) {
        status = GALE_NO_MEMORY;
        goto done;
    }
    GALE_GO(run_model(m, a, device, inputs, outputs));
    GALE_GO(write_outputs(m, a, outputs));
    if (gale__args_flag(a, "report")) {
        GALE_GO(gale_model_report(m, false, &report));
        fputs(report, stderr);
    }
done:
    gale_free(report);
    if (m) gale__objects_free(&inputs, gale_model_inputs(m));
    if (m) gale__objects_free(&outputs, gale_model_outputs(m));
    gale_model_close(&m);
    return status;
}

static int run(const gale__args *a) { return gale__on_device(a, work); }

const gale__command gale__command_run = {
    .args = args,
    .run = run,
    .about = "Runs an ONNX model once. Inputs come from files or are made up; one that has a value in the model file "
             "keeps it unless another is given. Outputs go to files, and their types and shapes are printed. A result "
             "without a single finite number fails "
             "with an exit code of its own unless that is allowed.",
    .examples =
        "  gale run model.onnx --random --shape x=1x3x256x256\n"
        "  gale run model.onnx --input x=photo.npy --output y=out.npy --provider cuda --report\n"
        "  gale run segment.onnx --input photo.jpg --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --output mask.png",
};
