/* Shared by the two forms of the attention kernel.  They differ in where scores and results are between products: in
 * work-group memory (rows), or in the registers of the threads that computed them (quads), if it is known which those
 * are. */
#ifndef GALE_KERNEL_ROUTINES_ATTENTION_BUILD_H
#define GALE_KERNEL_ROUTINES_ATTENTION_BUILD_H
#include "kernel/routines/attention_ir.h"
#include "kernel/schedule/special_ir.h"

enum { RESULT, Q, K, V, EXTRA }; /* buffers */
enum { BARRIER_SUBGROUP = 2 };

typedef struct attention {
    const gale__attention_shape *s;
    gale__ir *ir;
    uint32_t threads, share;      /* share: threads that share a row */
    uint32_t values_at, stage;    /* elements: where values begin in a stage; of a stage */
    gale__ir_val tid, lane, warp; /* warp: number of the subgroup */
    gale__ir_val m, n, d, c, zero;
    gale__ir_val head, first;  /* first: row of the group's first query */
    gale__ir_val item, beside; /* joined: whose heads lie beside each other, and which of them this is */
    gale__ir_val factors;      /* private array: this thread's columns' */
    gale__ir_val base[GALE__ATTENTION_VIEWS];
    gale__ir_val queries, parts, board; /* arrays; board: one for each thread, where there are no shuffles */
    gale__ir_val score_sums, value_sums;
    gale__ir_val current;      /* variable: first element of the stage */
    gale__ir_val own[2];       /* numbers of its rows */
    gale__ir_val part, row[2]; /* this thread's part of its row, and the row, in the head; quads: of two rows */
    gale__ir_val most[2], sum[2],
        factor[2]; /* variables of each row: largest score, sum of weights; factor that rescales earlier weights */
    /* rows: */
    uint32_t warp_weights;                 /* stride between the weights of two subgroups, in elements */
    gale__ir_val scores, weights, inverse; /* work-group arrays */
    gale__ir_val at, score_at;             /* this thread's row among those of the subgroup; where its scores begin */
    gale__ir_val x, y;                     /* private arrays: this thread's scores of the step, and results */
} attention;

static inline void sub_barrier(gale__ir *ir)
{
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_BARRIER, .imm = BARRIER_SUBGROUP});
}
static inline gale__ir_val f32(gale__ir *ir, int op, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, op, GALE_F32, a, b);
}
static inline gale__ir_val times(gale__ir *ir, gale__ir_val a, uint32_t b) { return mul(ir, a, u32(ir, b)); }
static inline gale__ir_val plus(gale__ir *ir, gale__ir_val a, uint32_t b) { return add(ir, a, u32(ir, b)); }
static inline gale__ir_val over(gale__ir *ir, gale__ir_val a, uint32_t b)
{
    return bin(ir, GALE__IR_DIV, a, u32(ir, b));
}
static inline gale__ir_val rest(gale__ir *ir, gale__ir_val a, uint32_t b)
{
    return bin(ir, GALE__IR_REM, a, u32(ir, b));
}
static inline gale__ir_val least(gale__ir *ir, gale__ir_val a, gale__ir_val b) { return bin(ir, GALE__IR_MIN, a, b); }
static inline gale__ir_val word_f32(gale__ir *ir, int i)
{
    return gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_WORD, .type = GALE_F32, .imm = (uint64_t)i});
}
static inline gale__ir_val unrolled(gale__ir *ir, uint32_t end_at, uint32_t step)
{
    return gale__ir_add(ir,
        (gale__ir_instr){
            .op = GALE__IR_FOR, .type = GALE_U32, .a = u32(ir, 0), .b = u32(ir, end_at), .c = u32(ir, step), .imm = 1});
}
static inline gale__ir_val read(const attention *t, gale__ir_val variable) { return get(t->ir, variable, t->zero); }
static inline void write(const attention *t, gale__ir_val variable, gale__ir_val v)
{
    set(t->ir, variable, t->zero, v);
}

/* Numbers of n neighbouring keys, where rows see keys of their own number. */
void gale__attention_numbers(const attention *t, gale__ir_val key, uint32_t n, gale__ir_val *out);
/* Where a row of the result begins. */
gale__ir_val gale__attention_result(const attention *t, gale__ir_val row);
/* Scores of n neighbours from `key` on of the thread's row r, as multiplied: scaled (if not late), masked, -inf for
 * keys that the row does not see.  all: whether these keys are known to exist, by what compilers can fold; 0: not
 * known. */
void gale__attention_scores(const attention *t, gale__ir_val key, int r, uint32_t n, gale__ir_val all,
    const gale__ir_val *numbers, gale__ir_val *v);
/* Combines a value over the threads that share a row. */
gale__ir_val gale__attention_combine(const attention *t, int op, gale__ir_val v);
/* The running maximum that is subtracted from scores, after a step with maximum `largest`.  It is 0 for rows without a
 * visible key so far, so that -inf - -inf does not produce NaN too early. */
gale__ir_val gale__attention_maximum(const attention *t, int row, gale__ir_val largest);
/* A score's weight; from: that maximum. */
gale__ir_val gale__attention_weight(const attention *t, gale__ir_val score, gale__ir_val from);
/* The running sum of weights, after a step with sum `sum`. */
void gale__attention_add_sum(const attention *t, int row, gale__ir_val sum);
/* The inverse of that sum; 0 for rows without a visible key, if these yield 0. */
gale__ir_val gale__attention_inverse(const attention *t, int row);
/* sums [16, 16 n] += left by n matrices of 16 columns of the stage from b on; turned: stored as [columns, k].  left:
 * array, element and row of [16, k_end]; array 0: the scores. */
typedef struct gale__attention_left {
    gale__ir_val array, at;
    uint32_t row;
} gale__attention_left;
void gale__attention_multiply(const attention *t, gale__ir_val sums, uint32_t n, uint32_t k_end,
    gale__attention_left left, gale__ir_val b_at, bool turned);
void gale__attention_zero(const attention *t, gale__ir_val sums, uint32_t n);
/* The scores of a step's keys. */
void gale__attention_score(const attention *t, gale__ir_val stage);

/* attention_rows.c, attention_quads.c: declarations; before the first step; a step; after the last. */
void gale__attention_rows_declare(attention *t);
void gale__attention_rows_begin(const attention *t);
void gale__attention_rows_step(const attention *t, gale__ir_val step, gale__ir_val stage);
void gale__attention_rows_finish(const attention *t);
void gale__attention_quads_declare(attention *t);
void gale__attention_quads_begin(const attention *t);
void gale__attention_quads_step(const attention *t, gale__ir_val step, gale__ir_val stage);
void gale__attention_quads_finish(const attention *t);
#endif
