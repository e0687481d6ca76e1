/* What follows most products of bytes: sums in I32 times a scale, plus a bias, quantised to bytes that are adjacent
 * in memory.  Scale and bias are the same along a row of results, so that a row is one call of a function, without a
 * tape.  Bytes from elsewhere may be added to them, as at the end of a residual block. */
#ifndef GALE_KERNEL_CPU_REQUANT_H
#define GALE_KERNEL_CPU_REQUANT_H
#include "kernel/cpu/tape.h"

typedef struct gale__cpu_requant {
    const gale__nest_access *out;          /* NULL: something else follows */
    const gale__nest_access *scale, *bias; /* NULL: the number */
    gale__simd_requant numbers;
    const gale__nest_access *skip; /* bytes that are added, both as numbers, before they are quantised again; or NULL */
    gale__simd_sum sum;
    bool has_sign;
    int64_t run; /* results that are adjacent, from a multiple of it on */
} gale__cpu_requant;
/* Whether that is what follows the reduction; lanes: the dimensions that a row of results walks. */
bool gale__cpu_requant_find(gale__cpu_requant *q, const gale__nest *nest, int reduce, const gale__cpu_span *lanes);
/* The same where results may be anywhere: scale and bias do not depend on these dimensions; out and run stay unset. */
bool gale__cpu_requant_look(gale__cpu_requant *q, const gale__nest *nest, int reduce, const gale__cpu_span *dims);
/* n results of lanes from n0 on; at: the coordinates of all other dimensions, 0 for the lanes'.  sums: I32, to which
 * start is added, or whole numbers in F32. */
void gale__cpu_requant_run(const gale__cpu_requant *q, const gale__simd *simd, void *const *buffers, const int64_t *at,
    int n_dims, const gale__cpu_span *lanes, int64_t n0, int64_t n, const void *sums, int32_t start, bool in_f32);
#endif
