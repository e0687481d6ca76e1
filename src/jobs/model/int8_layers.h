/* What the layers of a model lose in 8 bit, seen in the values that they make. */
#ifndef GALE_JOBS_INT8_LAYERS_H
#define GALE_JOBS_INT8_LAYERS_H
#include "gale/model_jobs.h"
#include "onnx/edit/int8.h"

typedef struct gale__int8_measure {
    gale_device *cpu;
    const gale__str *before, *after; /* the model as it was, and in 8 bit */
    const gale__pb_model *original;  /* as it was, too */
    const gale__int8 *how;
    size_t n_samples;
    gale_status (*read)(void *user, gale_model *model, size_t sample, gale_object **inputs);
    void *user;
    /* Out, by layer of `how`: relative L2 error of its first result, and what it adds to that of its first input;
     * negative: not known. */
    double *result, *added;
} gale__int8_measure;
/* Runs both models on the samples, node by node. */
gale_status gale__int8_layers_measure(const gale__int8_measure *m);
#endif
