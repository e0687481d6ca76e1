/* Sorting, scanning and scattering on the CPU: the primitives that are not loop nests. */
#ifndef GALE_KERNEL_CPU_SPECIAL_H
#define GALE_KERNEL_CPU_SPECIAL_H
#include "base/mem.h"
#include "kernel/nest/nest.h"

/* argsort of rows of n elements, stable; NaN counts as largest; only the first places are set.  scratch:
 * GALE__CPU_SORT_SCRATCH times n for each worker. */
enum { GALE__CPU_SORT_SCRATCH = 3 };
void gale__cpu_sort(gale_type type, const void *x, int64_t *index, int64_t *scratch, int64_t rows, int64_t n,
    int64_t first, bool descending);
/* Inclusive scan of [outer, n, inner] along the middle axis. */
void gale__cpu_scan(gale_type type, gale__reduce kind, const void *x, void *y, int64_t outer, int64_t n, int64_t inner);
/* y[index[i]] = or op= updates[i], in order; an index out of [0, n) is dropped.  mode -1: set. */
void gale__cpu_put(
    gale_type type, int mode, void *y, int64_t n, const int64_t *index, const void *updates, int64_t count);
#endif
