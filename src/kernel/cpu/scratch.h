/* Scratch memory of running kernels: pieces that all kernels share, made when a kernel is created so that running
 * allocates nothing.  A task takes one piece of a kind and gives it back; when all are out, since several threads run
 * kernels at once, one more is made and kept, so that no caller waits for another.  Only without memory does it wait;
 * whoever holds a SHARED piece may take a PRIVATE one, never the other way round: so nobody waits for ever. */
#ifndef GALE_KERNEL_CPU_SCRATCH_H
#define GALE_KERNEL_CPU_SCRATCH_H
#include "base/mem.h"
typedef enum gale__cpu_scratch_kind {
    GALE__CPU_SCRATCH_SHARED,
    GALE__CPU_SCRATCH_PRIVATE,
    GALE__CPU_SCRATCH_SHARED_BITS, /* the same of kernels that leave bits behind that are no ordinary floats: as such */
    GALE__CPU_SCRATCH_PRIVATE_BITS, /* they may be subnormal, and multiplying these takes twenty times as long */
    GALE__CPU_SCRATCH_COUNT
} gale__cpu_scratch_kind;
/* Makes sure of `pieces` pieces of at least size_bytes until the matching release; 0 bytes: nothing. */
gale_status gale__cpu_scratch_reserve(gale__cpu_scratch_kind kind, size_t size_bytes, int pieces);
void gale__cpu_scratch_release(gale__cpu_scratch_kind kind, size_t size_bytes);
void *gale__cpu_scratch_take(
    gale__cpu_scratch_kind kind, size_t size_bytes); /* aligned to 64; never fails after a reserve; 0 bytes: NULL */
void gale__cpu_scratch_give(gale__cpu_scratch_kind kind, void *piece);
#endif
