/* From nests to things a stream can launch, on any device.
 *
 * On a GPU a nest's shape class is looked up among the kernels the device has already built; what is missing is printed
 * and compiled, many at once on all cores.  On the CPU the interpreter takes the nest as it is. */
#ifndef GALE_KERNEL_KERNELS_H
#define GALE_KERNEL_KERNELS_H
#include "device/device.h"
#include "kernel/ir/ir.h"
#include "kernel/nest/nest.h"
#include "kernel/schedule/schedule.h"

typedef struct gale__runnable {
    gale_kernel *kernel; /* the device's, or host.kernel */
    uint32_t groups[3];
    uint32_t *words; /* in the arena given */
    int n_words, n_maps;
    gale__matrix_map *maps; /* in the arena given */
    const char *name;
    int parts; /* number of nests that the kernel computes: this one and those after it, which have 0 and no kernel; 1
                  if nothing was joined */
    struct {
        gale_module module;
        gale_kernel kernel;
        struct gale__cpu_kernel *cpu;
        void *user;
    } * host; /* CPU: owned; NULL when it is another one's of the same batch */
} gale__runnable;

/* Kernels of IR of their own (sort, scan, scatter, routines): named by their key, built together with those of nests.
 */
typedef struct gale__kernel_wants {
    gale_device *device;
    gale__ir *irs;
    size_t n, capacity;
    const gale__schedule *as; /* of the nests on a GPU; NULL: to be chosen */
} gale__kernel_wants;
/* Whether the kernel has to be added: the device does not have it, and nobody wanted it yet. */
bool gale__kernel_is_new(const gale__kernel_wants *w, const char *key);
gale_status gale__kernel_want(gale__kernel_wants *w, gale__ir *ir); /* takes the IR, also on failure */
void gale__kernel_wants_finish(gale__kernel_wants *w);
/* Looks such a kernel up; NULL when it was not built. */
gale_kernel *gale__kernel_known(gale_device *device, const char *key);

/* Makes n nests runnable, and builds what is wanted.  Small ones that run one after the other become one kernel
 * (join.h) where the device gains by it; follows[i]: nest i runs right after nest i - 1; NULL: none does.  On failure
 * nothing is left behind. */
gale_status gale__runnables_make(gale_device *device, gale__arena *arena, const gale__nest *const *nests,
    const bool *follows, int n, const gale__kernel_wants *wants, gale__runnable *out);
/* The same on the CPU, where nothing is built or joined; what was made remains on failure.  kernels_cpu.c */
gale_status gale__runnables_make_cpu(gale_device *device, const gale__nest *const *nests, int n, gale__runnable *out);
/* With the device's lock held; NULL: no memory. */
struct gale__tuning *gale__kernels_tuning(gale_device *device);
/* Packed panels that a kernel reads instead of a constant buffer.  They are made once and shared by all kernels with
 * the same key. */
typedef struct gale__panels {
    const struct gale__cpu_kernel *by;
    int buffer;
    size_t bytes;
    uint64_t key;
} gale__panels; /* 0 bytes: there are none */
gale__panels gale__runnable_panels(const gale__runnable *r);
/* Whether the result may take the place of this input, of which each element is read only to compute the same one of
 * the result: kernels of the CPU do so without loss of time, and spare the caches a second value. */
bool gale__runnable_in_place(const gale__runnable *r, int buffer);
void gale__panels_make(const gale__panels *p, void *from, void *to);
/* A function of the host as a kernel of the CPU device; `user` is copied. */
gale_status gale__runnable_host(gale_device *device, gale__host_kernel *fn, const void *user, size_t user_bytes,
    const char *name, gale__runnable *out);
void gale__runnable_finish(gale__runnable *r);
#endif
