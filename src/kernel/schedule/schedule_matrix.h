/* MATRIX: a tile's operands on their way into work-group memory, and what the kernels with matrix units share. */
#ifndef GALE_KERNEL_SCHEDULE_MATRIX_H
#define GALE_KERNEL_SCHEDULE_MATRIX_H
#include "kernel/schedule/schedule_emit.h"
#include "kernel/schedule/schedule_ir.h"

/* One operand on its way into work-group memory: rows of k (fast) or of the tile's side. */
typedef struct gale__matrix_part {
    gale__emit emit;
    int which, core, access;                /* access: copied directly; -1: through registers */
    gale_type type;                         /* of the core */
    bool turns;                             /* bytes that run along the side in memory, and along k here */
    uint32_t size, row, at;                 /* side of the tile; elements from row to row; where it begins in a stage */
    uint32_t share;                         /* elements of it; three of them, where they make an f32 together */
    uint32_t per;                           /* vectors along a row */
    gale__ir_val first_k, first_side, base; /* of this thread; base: element inside the part */
    uint32_t step_k, step_side;
    gale__ir_val there[GALE__EMIT_OUTER_BLOCKS]; /* copied: whether the row or column is one; 0: always */
    gale__ir_val fill;                           /* copied, with padding that is not 0: four bytes of it */
    gale__ir_val staging[128];                   /* variables */
} gale__matrix_part;

typedef struct gale__matrix {
    gale__matrix_tile tile;
    gale__matrix_part parts[2];
    uint32_t stage; /* elements of a stage */
    bool sure;      /* k does not end within what is copied */
    gale__ir_val shared, read, write;
    gale__ir_val gates;  /* of maps: a stage is full; relay: and more */
    gale__ir_val kept;   /* keep: where the step begins among those of the columns' part */
    gale__ir_val totals; /* f32: of the steps before, as this thread's sums */
} gale__matrix;

/* How a part is divided among the threads that copy it. */
gale_status gale__matrix_part_begin(gale__matrix *t, int which);
/* Its rows or columns for the tile at tiling.origin. */
void gale__matrix_part_place(gale__matrix *t, gale__matrix_part *p);
/* Copies the part from k on to the stage that begins at `stage`. */
void gale__matrix_part_copy(gale__matrix *t, gale__matrix_part *p, gale__ir_val stage, gale__ir_val k);
/* Asks for the boxes of the maps from k on, of the operands that `parts` has a bit for, in the stage of that number;
 * `expect`: first that its gate waits for both, or with `keep` for those. */
void gale__matrix_ask(gale__matrix *t, gale__ir_val number, gale__ir_val k, int parts, bool expect);
void gale__matrix_gate(gale__matrix *t, int op, gale__ir_val which, gale__ir_val count);
/* The same through registers, in two steps: of each part that is not copied. */
void gale__matrix_fetch(gale__matrix *t, gale__ir_val k);
void gale__matrix_deliver(gale__matrix *t, gale__ir_val stage);
void gale__matrix_zero_sums(gale__matrix *t);
enum { GROUP_ROWS = 64 }; /* that GROUP_ADD takes: 16 of each of four subgroups */
/* A step's products by four subgroups together, of the stage's rows from element `rows` on; it may take until
 * GROUP_WAIT. */
void gale__matrix_add_groups(gale__matrix *t, gale__ir_val stage, gale__ir_val rows);
/* F32 from shares: this thread's sums of a step join the total, which they are in the end (schedule_matrix_shares.c).
 */
void gale__matrix_begin_totals(gale__matrix *t);
void gale__matrix_total(gale__matrix *t);
void gale__matrix_end_totals(gale__matrix *t);
/* The pairs of shares that are multiplied, the smallest products first; others are too small to count. */
typedef struct gale__matrix_pair {
    uint8_t a, b;
} gale__matrix_pair;
int gale__matrix_pairs(const gale__schedule *s, const gale__matrix_pair **out);
/* Groups that compute one tile after another (schedule_matrix_relay.c). */
void gale__matrix_relay(gale__matrix *t);

static inline gale__ir_val variable(gale__ir *ir, gale_type type)
{
    return gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ARRAY, .type = (uint8_t)type, .imm = 1});
}
static inline gale__ir_val get(gale__ir *ir, gale__ir_val var)
{
    return gale__ir_op2(ir, GALE__IR_GET, gale__ir_type(ir, var), var, gale__ir_u32(ir, 0));
}
static inline void set(gale__ir *ir, gale__ir_val var, gale__ir_val v)
{
    gale__ir_op3(ir, GALE__IR_SET, gale__ir_type(ir, var), var, gale__ir_u32(ir, 0), v);
}
static inline void effect(gale__ir *ir, int op, uint32_t imm)
{
    gale__ir_add(ir, (gale__ir_instr){.op = (uint8_t)op, .imm = imm});
}
#endif
