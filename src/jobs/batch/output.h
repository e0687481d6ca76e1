/* Names of what a job writes. */
#ifndef GALE_JOBS_OUTPUT_H
#define GALE_JOBS_OUTPUT_H
#include "base/str.h"
/* FOLDER/STEM SUFFIX.EXTENSION for an input path; folder NULL: the input's own; extension NULL: the input's own,
 * or that of the format which stands for one that is only read. */
gale_status gale__output_name(
    const char *input, const char *folder, const char *suffix, const char *extension, gale__str *out);
/* A model by name or path: an embedded one (its name is all there is of a path), what exists as a file, else NAME or
 * NAME.onnx in GALE_MODELS.  GALE_NOT_FOUND says where it was looked for. */
gale_status gale__model_find(const char *name, gale__str *out);
#endif
