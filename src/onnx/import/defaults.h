/* Inputs with a default in the file.  Unless overridden they are constants and fold; an overridden one loses its
 * default before the model is prepared, and is then an ordinary input. */
#ifndef GALE_ONNX_DEFAULTS_H
#define GALE_ONNX_DEFAULTS_H
#include "onnx/wire/proto.h"

typedef struct gale__onnx_defaults {
    const gale__pb_value_info **at,
        **given; /* of the file's arena: those that keep their value, and those that lost it */
    int n, n_given;
} gale__onnx_defaults;

/* Finds them in a file that was just read, and takes the values of those named from it. */
gale_status gale__onnx_defaults_find(gale__onnx *file, const char *const *given, int n_given, gale__onnx_defaults *out);
bool gale__onnx_defaults_has(const gale__onnx_defaults *defaults, const char *name); /* among those that keep it */
void gale__onnx_defaults_finish(gale__onnx_defaults *defaults);
#endif
