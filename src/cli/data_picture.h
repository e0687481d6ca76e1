/* Pictures as the inputs and outputs of models. */
#ifndef GALE_CLI_DATA_PICTURE_H
#define GALE_CLI_DATA_PICTURE_H
#include "cli/args.h"
#include "gale/model.h"

/* Rows for the tables of commands: how pictures become numbers. */
#define GALE__ARGS_PICTURES                                                                                            \
    {"layout", 0, GALE__ARG_CHOICE, NULL, "auto", "auto|nchw|nhwc",                                                    \
        "of pictures among the inputs and outputs; auto: where 1, 3 or 4 channels stand in the shape"},                \
        {"mean", 0, GALE__ARG_TEXT, "R,G,B", NULL, NULL, "taken from pixels (0..1) before they are divided by --std"}, \
        {"std", 0, GALE__ARG_TEXT, "R,G,B", NULL, NULL, "deviations that pixels are divided by"},                      \
    {                                                                                                                  \
        "range", 0, GALE__ARG_CHOICE, NULL, "1", "1|255|-1", "of pixels: 0..1, 0..255, or -1..1"                       \
    }

bool gale__is_picture(const char *path); /* by its ending */
gale_status gale__picture_to_input(
    const char *path, const gale_model_value *want, const gale__args *a, gale_object **out);
gale_status gale__picture_from_output(const char *path, const gale_object *value, const gale__args *a);
#endif
