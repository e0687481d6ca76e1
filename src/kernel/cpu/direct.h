/* The direct schedules: map, row (lanes walk the inner dimensions) and column (lanes walk the outer ones). */
#ifndef GALE_KERNEL_CPU_DIRECT_H
#define GALE_KERNEL_CPU_DIRECT_H
#include "kernel/cpu/cpu_plan.h"

typedef struct gale__cpu_direct {
    gale__cpu_plan plan;
    bool serial;   /* stores may overlap: points in order, on one thread */
    int64_t lanes; /* outer points of a full block */
    int64_t blocks,
        row_blocks; /* of outer points; blocks of one row of the fastest dimension, 0: a block is several rows */
    int turn_dim;   /* a load is side by side along this dimension and jumps along the fastest: blocks are rectangles of
                     */
    int64_t turn_rows;         /* both, so many rows of `lanes` each; -1: none */
    gale__cpu_span others;     /* the dimensions that are constant then */
    int64_t groups, group_len; /* the inner loop of one block in so many parts, that run side by side */
    size_t scratch_bytes, parts_bytes;
} gale__cpu_direct;
gale_status gale__cpu_direct_init(gale__cpu_direct *d, const gale__nest *nest);
void gale__cpu_direct_finish(gale__cpu_direct *d);
void gale__cpu_direct_run(const gale__cpu_direct *d, void *const *buffers, bool aliased);
#endif
