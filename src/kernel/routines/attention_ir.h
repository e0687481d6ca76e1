/* How an attention is divided among work-groups, and what its kernel source depends on. */
#ifndef GALE_KERNEL_ROUTINES_ATTENTION_IR_H
#define GALE_KERNEL_ROUTINES_ATTENTION_IR_H
#include "kernel/routines/routine.h"

enum {
    GALE__ATTENTION_Q,
    GALE__ATTENTION_K,
    GALE__ATTENTION_V,
    GALE__ATTENTION_MASK,
    GALE__ATTENTION_HIDE,
    GALE__ATTENTION_VIEWS
};

/* How an operand comes to work-group memory. */
typedef enum gale__attention_load {
    GALE__ATTENTION_COPY,   /* 8 neighbours at a time */
    GALE__ATTENTION_BY_ROW, /* element by element, threads along the columns */
    GALE__ATTENTION_BY_COLUMN
} gale__attention_load;

/* A work-group computes `warps` times 16 rows of a head, each subgroup its own 16.  Sizes with a 16 are padded to whole
 * matrices.  All but `strides`, `extent` and `blocks` is part of the key. */
typedef struct gale__attention_shape {
    gale_type type, mask_type;
    uint32_t lanes, warps, stages;
    uint32_t d16, c16, n16;                             /* n16: keys of a step */
    uint32_t key_row, value_row, score_row, weight_row; /* elements from row to row in work-group memory */
    uint8_t load[3];
    bool quads;            /* scores stay in registers, since the layout of matrix fragments is known (matrix_quads) */
    bool online;           /* more keys than one step takes */
    bool whole;            /* all rows see all keys of each step */
    bool powers;           /* scores are exponents of two */
    bool late;             /* they are scaled when their maximum is known */
    uint32_t full8, some8; /* eights of keys in a single step: whole ones, and those with any; others: 0, n16 / 8 */
    bool masked, mask_wide, hides, hidden, causal, wide_result, shuffles;
    bool others,
        others_wide;  /* packed texts: rows only see keys with the same number, which `hide` holds for each position */
    bool blind;       /* rows without a visible key yield 0, not NaN */
    gale_type levels; /* type of a quantised result; 0: the result has type `type` */
    bool joined;      /* heads of the result are concatenated */
    bool joins;       /* levels are joined by instructions that saturate */
    bool factors;     /* the result is multiplied by one factor per column before it is quantised */
    bool weights_over_scores; /* weights overwrite the scores they were computed from */
    uint32_t axes;            /* leading axes that remain after merging those that are contiguous in all operands */
    int64_t extent[GALE__CPU_LEAD], stride[GALE__ATTENTION_VIEWS][GALE__CPU_LEAD], heads, blocks;
} gale__attention_shape;

/* Parameter words; then for each view offset, strides of leading axes, of rows and of columns. */
enum {
    GALE__AW_M,
    GALE__AW_N,
    GALE__AW_D,
    GALE__AW_C,
    GALE__AW_SCALE,
    GALE__AW_FILL,
    GALE__AW_SEEN,
    GALE__AW_GROUPS,
    GALE__AW_STEPS, /* levels to one */
    GALE__AW_ZERO,
    GALE__AW_BLOCKS, /* divisors, of three words each */
    GALE__AW_BESIDE = GALE__AW_BLOCKS + 3,
    GALE__AW_EXTENT = GALE__AW_BESIDE + 3,
    GALE__AW_VIEWS = GALE__AW_EXTENT + 3 * GALE__CPU_LEAD,
    GALE__AW_VIEW = GALE__CPU_LEAD + 3,
    GALE__AW_COUNT = GALE__AW_VIEWS + GALE__ATTENTION_VIEWS * GALE__AW_VIEW
};
_Static_assert((int)GALE__AW_COUNT <= (int)GALE__ROUTINE_WORDS, "a routine's launch has room for all words");

bool gale__attention_shape_for(const gale__attention *a, const gale_device_caps *caps, gale__attention_shape *out);
void gale__attention_build(const gale__attention_shape *s, gale__ir *ir);
#endif
