/* Models in other engines, for comparison. */
#ifndef GALE_JOBS_MODEL_ENGINE_H
#define GALE_JOBS_MODEL_ENGINE_H
#include "gale/model.h"

/* Runs the model file in another engine ("onnxruntime", through Python) with these inputs of `model`, which is the same
 * file.  outputs: as many as the model has, zero before; those that are not tensors of numbers stay NULL.  version:
 * "onnxruntime 1.31.0".  GALE_UNSUPPORTED if the engine is not installed. */
gale_status gale__engine_run(const char *engine, const char *path, gale_model *model, gale_object *const *inputs,
    gale_object **outputs, char version[64]);
#endif
