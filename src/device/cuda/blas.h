/* Matrix products with cuBLASLt, loaded at run time for the first product that it may take (GALE_BLAS). */
#ifndef GALE_DEVICE_CUDA_BLAS_H
#define GALE_DEVICE_CUDA_BLAS_H
#include "device/call.h"
#include "device/cuda/driver.h"

/* One of the library's algorithms, as it gives them out. */
typedef struct gale__cu_blas_choice {
    uint64_t algorithm[8];
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
} gale__cu_blas_choice;

/* Opens the library for a device; false, with a line in the log, when it is not wanted or not there. */
uint32_t gale__cu_blas_side(const gale__cu_device *d);
void gale__cu_blas_close(gale__cu_device *d);
gale_status gale__cu_product(gale_device *device, const gale__matrix_product *product, gale__call *call);
gale_status gale__cu_call_run(gale_stream *stream, gale__call *call, const gale__ref *refs);
void gale__cu_call_destroy(gale__call *call);
#endif
