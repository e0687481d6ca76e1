/* The CPU's vector interpreter: runs a loop nest over host pointers without a compiler.  Blocks of a few hundred
 * elements go through one tight SIMD loop per instruction and stay in the first cache; the work is split over the
 * thread pool. Results do not depend on the number of threads. */
#ifndef GALE_KERNEL_CPU_INTERP_H
#define GALE_KERNEL_CPU_INTERP_H
#include "kernel/nest/nest.h"
typedef struct gale__cpu_kernel gale__cpu_kernel;
/* Copies what it needs of the nest.  GALE_UNSUPPORTED names an operation that has no meaning for its type. */
gale_status gale__cpu_kernel_create(const gale__nest *nest, gale__cpu_kernel **out);
/* buffers: in the order of nest.buffers.  Allocates nothing and cannot fail; several threads may run one kernel.
 * An output may be the very memory of an input that is read at the same places. */
void gale__cpu_kernel_run(const gale__cpu_kernel *k, void *const *buffers);
/* Whether such an input may be overwritten without loss of time: the kernel then runs as it would otherwise. */
bool gale__cpu_kernel_in_place(const gale__cpu_kernel *k, int buffer);
/* A product by a buffer that the nest calls constant may want it laid out once, as panels, which then replace it when
 * the kernel runs.  They depend on that buffer and its use alone, not on what it is multiplied by: kernels whose key is
 * the same take the same panels. */
typedef struct gale__cpu_panels {
    int buffer;
    size_t bytes;
    uint64_t key;
} gale__cpu_panels; /* 0 bytes: there are none */
gale__cpu_panels gale__cpu_kernel_panels(const gale__cpu_kernel *k);
void gale__cpu_kernel_make_panels(const gale__cpu_kernel *k, void *from, void *to); /* to: aligned to 64 */
void gale__cpu_kernel_destroy(gale__cpu_kernel **k);
/* Whether products of bytes have micro-kernels of their own on this processor. */
bool gale__cpu_narrow_bytes(void);
/* Whether convolutions of bytes have kernels for values stored channels-last. */
bool gale__cpu_last_bytes_kernels(void);
/* Kernels that values stored channels-last have on this processor, and which of them the nest would be: by a constant,
 * with what follows it.  Those of bytes read maps as declared, too, unless they are by channel. */
typedef enum gale__cpu_last_kind {
    GALE__CPU_LAST_NONE,
    GALE__CPU_LAST_POINT,
    GALE__CPU_LAST_DEPTH,
    GALE__CPU_LAST_WINDOW, /* by groups, and with AVX-512 others with several taps */
    GALE__CPU_LAST_FIRST,  /* with AVX-512 over few channels, from values as declared to channels-last alone */
    GALE__CPU_LAST_BYTES,
    GALE__CPU_LAST_BYTES_DEPTH
} gale__cpu_last_kind;
/* ns: its time with values as declared, channels-last, and of 1 x 1 convolutions with one of both channels-last. */
gale__cpu_last_kind gale__cpu_last_could(const gale__nest *nest, double ns[3]);
/* Whether those with one of both take longer than with none or both, so that layouts had better change once. */
bool gale__cpu_last_change_costs(void);
/* How it runs, for reports and tests: "map", "row", "column", "contraction" ... */
const char *gale__cpu_kernel_schedule(const gale__cpu_kernel *k);
#endif
