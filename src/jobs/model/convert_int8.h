/* Models in 8 bit, with samples or without. */
#ifndef GALE_JOBS_CONVERT_INT8_H
#define GALE_JOBS_CONVERT_INT8_H
#include "gale/model_jobs.h"
#include "onnx/wire/proto.h"

/* Changes the model; with samples runs it on them before and after, and notes what was lost. */
gale_status gale__convert_int8(
    const gale_convert_options *options, gale__onnx *file, gale__pb_model *model, gale_convert_result *result);
#endif
