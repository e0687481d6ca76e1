/* What the commands over models share: opening one as the arguments say, and the values that go in. */
#ifndef GALE_CLI_MODEL_INPUTS_H
#define GALE_CLI_MODEL_INPUTS_H
#include "cli/args.h"
#include "cli/data_picture.h"
#include "gale/model.h"

/* Rows for the tables of such commands. */
#define GALE__ARGS_MODEL_INPUTS                                                                       \
    {"input", 'i', GALE__ARG_TEXT, "NAME=FILE", NULL, NULL,                                           \
        "value of an input: .npy, .npz, .pb, .json, raw numbers or a picture", NULL, false, true},    \
        {"shape", 's', GALE__ARG_TEXT, "NAME=1x3x256x256", NULL, NULL,                                \
            "extents of an input that is made up; of the only one without NAME=", NULL, false, true}, \
        {"random", 0, GALE__ARG_FLAG, NULL, NULL, NULL,                                               \
            "make up inputs that are not given: uniform numbers from 0 to 1, whole numbers 0 and 1"}, \
        {"seed", 0, GALE__ARG_INT, "N", "1", "0..2147483647", "of the made-up numbers"}, GALE__ARGS_PICTURES
#define GALE__ARG_PRECISION                                                                                            \
    {                                                                                                                  \
        "precision", 0, GALE__ARG_CHOICE, NULL, "fp32", "fp32|fp16|bf16|fast",                                         \
            "fp16, bf16: values and weights as halves, sums in f32; fast: the device's own exp, log, sin and division" \
    }
#define GALE__ARGS_MODEL_OPTIONS                                                                                   \
    GALE__ARG_PRECISION,                                                                                           \
        {"memory-limit", 0, GALE__ARG_INT, "MB", NULL, "1..1048576", "most memory a run may take on the device"},  \
    {                                                                                                              \
        "allow-nonfinite", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "results without a finite number are not an error" \
    }

/* As the arguments say; those that a command does not have are left alone. */
void gale__model_options(const gale__args *a, gale_model_options *out);
/* A model whose inputs the arguments give: also those among them that have a value in the file. */
gale_status gale__model_open_with(
    const gale__args *a, const char *path, gale_device *device, const gale_model_options *options, gale_model **out);
/* MODEL, opened so. */
gale_status gale__model_open_for(const gale__args *a, gale_device *device, gale_model **out);
/* One object per input of the model; `random`: what is not given is made up, whatever the flag says. */
gale_status gale__model_inputs_make(gale_model *model, const gale__args *a, bool random, gale_object ***out);
/* Whether every --output names one. */
gale_status gale__model_outputs_check(gale_model *model, const gale__args *a);
/* One run whose results nobody wants but the clock; *ms is left alone on failure. */
gale_status gale__model_run_timed(gale_model *model, gale_object **inputs, double *ms);
void gale__objects_free(gale_object ***objects, int count);
/* "1x3x256x256"; -1 for an extent that is not known. */
const char *gale__shape_text(int rank, const int64_t *dims, const char *const *symbols, char buf[256]);
/* "1x3x8" to extents; false when it is not a shape. */
bool gale__shape_parse(const char *text, int *rank, int64_t *dims);
#endif
