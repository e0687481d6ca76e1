/* A loop nest as phases of a tape.
 *
 * A reduction's result is known only after the inner loop, so work falls into phases: phase 0 is what needs no
 * reduction, phase 1 what needs one, and so on.  A phase runs its outer section, stores what is ready, then loops over
 * the inner points for the reductions and stores that are due.  Inner values that a later phase needs again are kept
 * when they are dear and a row fits, else computed again. */
#ifndef GALE_KERNEL_CPU_PLAN_H
#define GALE_KERNEL_CPU_PLAN_H
#include "kernel/cpu/by_row.h"

#define GALE__CPU_PHASES 12
typedef struct gale__cpu_plan_reduce {
    int instr, phase; /* phase: whose loop feeds it */
    gale__reduce kind;
    gale__simd_type type;  /* of the accumulator */
    int acc, total, index; /* registers; total is acc unless sums are taken in two levels; index: ARG only */
} gale__cpu_plan_reduce;
typedef struct gale__cpu_phase {
    gale__cpu_section outer, put, init, enter, body, flush;
    bool loops; /* body has something to do */
} gale__cpu_phase;
typedef struct gale__cpu_plan {
    const gale__nest *nest;
    gale__cpu_tape tape;
    bool inner_lanes; /* lanes walk the inner dimensions, one outer point at a time; else the outer ones */
    bool short_rows;  /* lanes walk the inner dimensions of several outer points at a time */
    gale__cpu_span outer, inner, all;
    int64_t row;            /* points of the fastest outer dimension, if something is computed once for all of them: */
    gale__cpu_section rows; /* with a lane for each of the block's rows */
    gale__cpu_span row_span;
    gale__cpu_spot *spots;
    bool takes_rows;
    int n_phases;
    gale__cpu_phase phases[GALE__CPU_PHASES];
    gale__cpu_plan_reduce *reduces;
    int n_reduces;
    int64_t inner_step; /* inner points of one iteration of a body */
} gale__cpu_plan;
/* by_row: blocks are whole rows of the fastest outer dimension, or parts of one; what is the same along a row may then
 * be computed once for it.  Frames must run plan.rows first if plan.row is not 0. */
gale_status gale__cpu_plan_init(gale__cpu_plan *p, const gale__nest *nest, bool inner_lanes, bool keep, bool by_row);
void gale__cpu_plan_finish(gale__cpu_plan *p);
uint64_t gale__cpu_neutral(gale__reduce kind, gale__simd_type ct);
#endif
