/* Tensors of a .tza file, the weight format of Open Image Denoise: a table of names, shapes and offsets. */
#ifndef GALE_JOBS_EXR_TZA_H
#define GALE_JOBS_EXR_TZA_H
#include "base/file.h"

typedef struct gale__tza_tensor {
    const char *name;
    int rank; /* 1 to 4 */
    int64_t dims[4];
    float *values;
} gale__tza_tensor;
typedef struct gale__tza {
    gale__arena arena;
    gale__tza_tensor *tensors;
    int count;
} gale__tza;
/* GALE_FORMAT for what is none, or damaged. */
gale_status gale__tza_read(const void *data, size_t size, gale__tza *out);
void gale__tza_finish(gale__tza *t);
const gale__tza_tensor *gale__tza_find(const gale__tza *t, const char *name); /* NULL: none */
#endif
