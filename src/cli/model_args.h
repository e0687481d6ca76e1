/* Shared by the commands for models: rows of their argument tables, and the resulting job options. */
#ifndef GALE_CLI_MODEL_ARGS_H
#define GALE_CLI_MODEL_ARGS_H
#include "cli/args.h"
#include "gale/model_jobs.h"

/* Rows: how pictures become numbers. */
#define GALE__ARGS_PICTURES                                                                           \
    {"layout", 0, GALE__ARG_CHOICE, NULL, "auto", "auto|nchw|nhwc",                                   \
        "layout of pictures among inputs and outputs; auto: where the shape has 1, 3 or 4 channels"}, \
        {"mean", 0, GALE__ARG_TEXT, "R,G,B", NULL, NULL,                                              \
            "mean subtracted from pixels (0..1) before division by --std (default: the manifest's)"}, \
        {"std", 0, GALE__ARG_TEXT, "R,G,B", NULL, NULL,                                               \
            "standard deviation to divide pixels by (default: the manifest's)"},                      \
        {"range", 0, GALE__ARG_CHOICE, NULL, "auto", "auto|1|255|-1",                                 \
            "range of pixels: 0..1, 0..255, or -1..1; auto: the manifest's, else 0..1"},              \
    {                                                                                                 \
        "colours", 0, GALE__ARG_CHOICE, NULL, "auto", "auto|rgb|bgr",                                 \
            "order of a picture's colours; auto: the manifest's, else rgb"                            \
    }
#define GALE__ARGS_MODEL_INPUTS                                                                                 \
    {"input", 'i', GALE__ARG_TEXT, "NAME=FILE", NULL, NULL,                                                     \
        "value of an input: .npy, .npz, .pb, .json, raw numbers or a picture", NULL, false, true},              \
        {"shape", 's', GALE__ARG_TEXT, "NAME=1x3x256x256", NULL, NULL,                                          \
            "shape of a random input; without NAME= of the only input", NULL, false, true},                     \
        {"dim", 0, GALE__ARG_TEXT, "NAME=N", NULL, NULL,                                                        \
            "an open extent of random inputs and pictures, by name: batch_size=2", NULL, false, true},          \
        {"random", 0, GALE__ARG_FLAG, NULL, NULL, NULL,                                                         \
            "use random numbers for inputs that are not given: from 0 to 1, integers 0 and 1"},                 \
        {"seed", 0, GALE__ARG_INT, "N", "1", "0..2147483647", "seed of random inputs and of random operators"}, \
        GALE__ARGS_PICTURES
#define GALE__ARG_PRECISION                                                                                            \
    {                                                                                                                  \
        "precision", 0, GALE__ARG_CHOICE, NULL, "fp32", "fp32|fp16|bf16|fast",                                         \
            "fp16, bf16: values and weights in half precision, sums in f32; fast: the device's own exp, log, sin and " \
            "division"                                                                                                 \
    }
#define GALE__ARGS_MODEL_OPTIONS                                                                             \
    GALE__ARG_PRECISION,                                                                                     \
        {"memory-limit", 0, GALE__ARG_INT, "MB", NULL, "1..1048576", "memory limit of a run on the device"}, \
        {"batch-invariant", 0, GALE__ARG_FLAG, NULL, NULL, NULL,                                             \
            "results do not depend, in any bit, on the number of rows in a batch"},                          \
    {                                                                                                        \
        "allow-nonfinite", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "accept results without a finite number"     \
    }

/* As the arguments say; those that a command does not have are left alone. */
void gale__model_options(const gale__args *a, gale_model_options *out);
void gale__pixel_options(const gale__args *a, gale_pixel_options *out);
/* The lists are of `arena`, their texts the arguments'. */
gale_status gale__input_options(const gale__args *a, gale__arena *arena, gale_input_options *out);
/* All of these for jobs that run a model on a device. */
gale_status gale__model_job_options(const gale__args *a, gale__arena *arena, gale_model_job_options *out);
/* All values of an argument that may be given again, in order. */
gale_status gale__args_list(
    const gale__args *a, const char *name, gale__arena *arena, const char *const **list, int *count);
#endif
