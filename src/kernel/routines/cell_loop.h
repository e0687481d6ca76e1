/* All steps of a recurrent cell in one kernel: how the work is divided, shared by the files that build it. */
#ifndef GALE_KERNEL_CELL_LOOP_H
#define GALE_KERNEL_CELL_LOOP_H
#include "kernel/routines/cell_gates.h"

enum { GALE__LOOP_THREADS = 256, GALE__LOOP_LANES = 32, GALE__LOOP_WARPS = 8, GALE__LOOP_TILES = 8 };
/* Buffers.  OTHER: the first c of an LSTM, the bias of a GRU.  SPACE: counters, then the state of two steps. */
enum {
    GALE__LOOP_RESULT,
    GALE__LOOP_X,
    GALE__LOOP_WEIGHTS,
    GALE__LOOP_BEFORE,
    GALE__LOOP_OTHER,
    GALE__LOOP_LENGTHS,
    GALE__LOOP_SPACE,
    GALE__LOOP_BUFFERS
};
/* Words.  FIRST and STEP: where the first step's part begins, and how far it is to the next one's (mod 2^32). */
enum {
    GALE__LW_BATCH,
    GALE__LW_HIDDEN,
    GALE__LW_TRIPS,
    GALE__LW_X_FIRST,
    GALE__LW_X_STEP,
    GALE__LW_H_FIRST,
    GALE__LW_H_STEP,
    GALE__LW_T_FIRST,
    GALE__LW_T_STEP,
    GALE__LW_LAST,
    GALE__LW_STATE, /* of SPACE, in elements of the state's type */
    GALE__LW_COUNTERS,
    GALE__LW_COUNT
};
#define GALE__LOOP_COUNTER 32u /* words from counter to counter, so that each has a cache line */

/* Layers of few units (cell_close.c): all of a layer's weights in the registers of one group, or of a cluster. */
enum { GALE__CLOSE_HELD = 160, GALE__CLOSE_SUMS = 64 };
typedef struct gale__cell_close {
    uint32_t groups;                 /* of a cluster, which has all units for its items; 0: not in this form */
    uint32_t items, units, clusters; /* of a cluster; of a group; all of them */
    uint32_t slices, chunks;         /* neighbouring threads that share k; fours of k that each of them has */
    uint32_t pack;                   /* units whose state is sent as one vector */
    bool emulated;                   /* a cluster is one group, and its groups are parts of that */
} gale__cell_close;

/* A group computes `units` neighbouring units of `items` items, `tiles` times, with all gates.  Its weights stay in
 * work-group memory as [gate][k][unit], and the state is copied there at each step as [item][k].  The sums of a step
 * are made in `parts` parts, since k is divided among threads. */
typedef struct gale__cell_loop {
    gale_type type; /* of weights and state */
    bool matrix;    /* by matrix units */
    uint32_t gates, units, items, tiles;
    uint32_t k, row, plane; /* hidden, rounded up; elements from item to item, and from gate to gate */
    uint32_t parts, pitch;
    uint32_t unit_groups, item_groups;
    /* matrix units: subgroups that share k, those that share the gates, products of 16 each */
    uint32_t k_warps, gate_warps, steps;
    bool held; /* in registers */
    /* otherwise: items and gates of a thread, threads side by side for other items, units and gates, halvings by
     * shuffles */
    uint32_t each, tile_gates, blocks, quads, gate_parts, rounds;
    gale__cell_close close;
} gale__cell_loop;

/* Threads side by side that have the same part of k, and sums that each of them adds up. */
static inline uint32_t gale__loop_side(const gale__cell_loop *s) { return s->blocks * s->quads * s->gate_parts; }
static inline uint32_t gale__loop_sums(const gale__cell_loop *s) { return s->each * s->tile_gates * 4; }

bool gale__cell_loop_for(const gale__cpu_cell *a, const gale_device_caps *caps, gale__cell_loop *out);

/* The kernel on its way. */
typedef struct gale__loop_build {
    gale__ir *ir;
    const gale__cpu_cell *a;
    const gale__cell_loop *s;
    gale__ir_val tid, hidden, batch, first_unit, first_item; /* of the group; items of tile 0 */
    gale__ir_val weights, state, parts;                      /* in work-group memory */
    gale__ir_val sums;                                       /* of this thread, or of its subgroup */
    gale__ir_val factor[64];                                 /* weights that are held */
} gale__loop_build;

/* cell_loop_sums.c */
void gale__loop_declare(gale__loop_build *b);
void gale__loop_load_weights(gale__loop_build *b);
/* The state from element `from` of SPACE on, for a tile, and its products with the weights, to `parts`. */
void gale__loop_add_products(gale__loop_build *b, uint32_t tile, gale__ir_val from);
/* What the parts add up to for a gate of a unit of an item, as numbered in the group. */
gale__ir_val gale__loop_sum(const gale__loop_build *b, uint32_t gate, gale__ir_val item, gale__ir_val unit);

/* A unit of an item that this thread finishes. */
typedef struct gale__loop_place {
    gale__ir_val item, unit; /* within the group's tile */
    gale__ir_val number, at; /* of the unit; of the element in [batch, hidden] */
    gale__ir_val row;        /* the item, which is some other's where there is none */
    gale__ir_val live;       /* there is such an element, and it is this thread's to give out */
} gale__loop_place;
/* Registers, each with an element for every tile. */
typedef struct gale__loop_registers {
    gale__ir_val h, c, x, y, bias, length; /* x: of all gates; y: h as it is given out */
} gale__loop_registers;

static inline gale__ir_val gale__loop_minus_one(gale__ir *ir, gale__ir_val v)
{
    return bin(ir, GALE__SUB, v, u32(ir, 1));
}

/* cell_loop_build.c */
void gale__cell_loop_build(const gale__cpu_cell *a, const gale__cell_loop *s, gale__ir *ir);
/* The launch before: clears the counters and rounds the first state. */
void gale__cell_loop_prepare(const gale__cpu_cell *a, const gale__cell_loop *s, gale__ir *ir);
/* What both forms share, for a place of this thread, which is its tile number `tile`: the kernel's properties; */
void gale__loop_begin(gale__loop_build *b);
void gale__loop_begin_registers(const gale__loop_build *b, uint32_t tiles, gale__loop_registers *r);
/* the state before the first step, and its input; */
void gale__loop_load_registers(
    const gale__loop_build *b, const gale__loop_registers *r, uint32_t tile, const gale__loop_place *p);
/* the input of a step for all gates, to elements `at` on of array `to`; */
void gale__loop_load_input(
    const gale__loop_build *b, const gale__loop_place *p, gale__ir_val step, gale__ir_val to, uint32_t at);
/* the new h, which the registers then have, from the sums of all gates (which are changed); */
gale__ir_val gale__loop_finish(
    const gale__loop_build *b, const gale__loop_registers *r, uint32_t tile, gale__ir_val step, gale__ir_val *sums);
/* the next step, or the last; */
gale__ir_val gale__loop_next(const gale__loop_build *b, gale__ir_val step);
/* the result of a step, and the last h and c. */
void gale__loop_give_step(const gale__loop_build *b, const gale__loop_registers *r, uint32_t tile,
    const gale__loop_place *p, gale__ir_val step);
void gale__loop_give_last(
    const gale__loop_build *b, const gale__loop_registers *r, uint32_t tile, const gale__loop_place *p);

/* cell_close.c */
bool gale__cell_close_for(const gale__cpu_cell *a, const gale_device_caps *caps, gale__cell_close *out);
/* cell_close_build.c */
void gale__cell_close_build(const gale__cpu_cell *a, const gale__cell_loop *s, gale__ir *ir);
#endif
