/* Shared by the files that create a plan. */
#ifndef GALE_GRAPH_PLANNER_H
#define GALE_GRAPH_PLANNER_H
#include "graph/plan/plan.h"

struct gale__planner {
    gale__plan *plan;
    gale__fusion fusion;
    gale__plan_place *place; /* by node: of roots, inputs and constants */
    gale__plan_item *items;
    int n_items;
    size_t items_capacity;
    int *clock,
        *order;   /* by fused kernel: when it runs, the prologue's before all others; and the kernels in that order */
    int position; /* of the kernel being planned, in the unit in which lifetimes are measured */
    const gale__nest **nests; /* of the K_NEST kernels, in order */
    int next_runnable;
};

gale_status gale__planner_weight(gale__plan *plan, gale__weight_wanted wanted); /* appended */
gale_status gale__planner_step(gale__planner *p, gale__plan_step step, const gale__plan_place *refs, int n_refs);
/* Scratch memory for the current kernel alone, or from the start of the plan up to it.  It is a place in
 * GALE__SPACE_WORK; until items are packed, its index is that of the item. */
gale_status gale__planner_scratch(gale__planner *p, uint64_t size, gale__plan_place *out);
gale_status gale__planner_scratch_early(gale__planner *p, uint64_t size, gale__plan_place *out);
/* Where the (dense) value of n is. */
gale__plan_place gale__planner_place(const gale__planner *p, gale__node n);
/* What messages call the nodes that these kernels compute, in the plan's arena; NULL: out of memory. */
const char *gale__planner_nodes(gale__planner *p, const gale__fused *const *kernels, int n);
/* What a part of a kernel reads only where it writes; its refs are the step's from `first` on. */
void gale__planner_note_reads(const gale__nest *nest, int first, uint8_t *writer, uint64_t *aligned);
gale_status gale__planner_loop(gale__planner *p, const gale__fused *k);
gale_status gale__planner_routine(gale__planner *p, const gale__fused *k);
/* The kernels that planning them will look up: built beforehand, all at once. */
gale_status gale__planner_special_wants(gale__planner *p, const gale__fused *k, gale__kernel_wants *out);
gale_status gale__planner_routine_wants(gale__planner *p, const gale__fused *k, gale__kernel_wants *out);
#endif
