/* Kernel IR as text of a C dialect, many kernels at once, or as words of SPIR-V. */
#ifndef GALE_KERNEL_PRINT_H
#define GALE_KERNEL_PRINT_H
#include "kernel/ir/ir.h"

typedef enum gale__dialect {
    GALE__DIALECT_CUDA,
    GALE__DIALECT_HIP,
    GALE__DIALECT_OPENCL,
    GALE__DIALECT_OPENCL_PTX, /* with inline PTX, as NVIDIA's compiler takes it */
    GALE__DIALECT_COUNT
} gale__dialect;
/* By the name that a device reports (caps.dialect). */
gale_status gale__dialect_find(const char *name, gale__dialect *out);
bool gale__dialect_copies(const char *name); /* whether it has asynchronous copies into work-group memory */
gale_status gale__ir_print_c(
    const gale__ir *const *kernels, int n, gale__dialect dialect, const gale_device_caps *caps, gale__str *out);
typedef struct gale__ir_words {
    uint32_t *words;
    size_t count, capacity;
    bool failed;
} gale__ir_words;
gale_status gale__ir_print_spirv(const gale__ir *kernel, const gale_device_caps *caps, gale__ir_words *out);
void gale__ir_words_finish(gale__ir_words *w);
#endif
