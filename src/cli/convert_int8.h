/* gale convert --precision int8. */
#ifndef GALE_CLI_CONVERT_INT8_H
#define GALE_CLI_CONVERT_INT8_H
#include "cli/args.h"
#include "onnx/wire/proto.h"

/* Changes the model; with --calibrate runs it on the samples before and after, and prints what was lost. */
gale_status gale__convert_int8(const gale__args *a, gale__onnx *file, gale__pb_model *model);
#endif
