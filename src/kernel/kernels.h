/* From nests to things a stream can launch, on any device.
 *
 * On a GPU a nest's shape class is looked up among the kernels the device has already built; what is missing is printed
 * and compiled, many at once on all cores.  On the CPU the interpreter takes the nest as it is. */
#ifndef GALE_KERNEL_KERNELS_H
#define GALE_KERNEL_KERNELS_H
#include "device/device.h"
#include "kernel/ir/ir.h"
#include "kernel/nest/nest.h"

typedef struct gale__runnable {
    gale_kernel *kernel; /* the device's, or host.kernel */
    uint32_t groups[3];
    uint32_t *words; /* in the arena given */
    int n_words;
    const char *name;
    int parts; /* how many nests it does: this one and those after it, which have 0 and no kernel; 1 where nothing was
                  joined */
    struct {
        gale_module module;
        gale_kernel kernel;
        struct gale__cpu_kernel *cpu;
        void *user;
    } * host; /* CPU: owned; NULL when it is another one's of the same batch */
} gale__runnable;

/* Makes n nests runnable.  Small ones that run one after the other become one kernel (join.h) where the device gains by
 * it; follows[i]: nest i runs right after nest i - 1; NULL: none does.  On failure nothing is left behind. */
gale_status gale__runnables_make(gale_device *device, gale__arena *arena, const gale__nest *const *nests,
    const bool *follows, int n, gale__runnable *out);
/* What the kernel wants in the place of a buffer that is constant: made of it once, for all kernels whose key is the
 * same. */
typedef struct gale__panels {
    const struct gale__cpu_kernel *by;
    int buffer;
    size_t bytes;
    uint64_t key;
} gale__panels; /* 0 bytes: there are none */
gale__panels gale__runnable_panels(const gale__runnable *r);
void gale__panels_make(const gale__panels *p, void *from, void *to);
/* A function of the host as a kernel of the CPU device; `user` is copied. */
gale_status gale__runnable_host(gale_device *device, gale__host_kernel *fn, const void *user, size_t user_bytes,
    const char *name, gale__runnable *out);
void gale__runnable_finish(gale__runnable *r);
/* Kernels built from IR of their own (sort, scan, scatter): `key` names the text. */
gale_status gale__kernel_from_ir(gale_device *device, const char *key, const gale__ir *ir, gale_kernel **out);
/* Looks such a kernel up without building its IR; NULL when it is not there yet. */
gale_kernel *gale__kernel_known(gale_device *device, const char *key);
#endif
