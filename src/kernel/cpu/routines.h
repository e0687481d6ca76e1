/* CPU routines of fast paths: functions over host memory, on all cores.  `args` is the routine's own struct, of
 * 8-byte members only; buffers[0] is the result, dense, then the operands; each worker has its own scratch memory,
 * scratch_bytes apart. */
#ifndef GALE_KERNEL_CPU_ROUTINES_H
#define GALE_KERNEL_CPU_ROUTINES_H
#include "base/mem.h"

typedef struct gale__cpu_scratch_space {
    char *memory;
    size_t bytes;
} gale__cpu_scratch_space; /* bytes: of one worker's part */
typedef void gale__cpu_routine(const void *args, void *const *buffers, gale__cpu_scratch_space scratch);

/* Layout of an operand in its buffer, in elements: leading axes, then two of its own. */
enum { GALE__CPU_LEAD = 4 };
typedef struct gale__cpu_view {
    int64_t offset, lead[GALE__CPU_LEAD], row, column;
} gale__cpu_view;

/* softmax(scale q k + mask) v: q [lead, m, d], k [lead, n, d], v [lead, n, c], mask [lead, m, n]; result [lead, m,
 * c].  Where hide [lead, m, n], bytes, is hidden (1 or 0) the score is fill.  When causal, row i sees the first i +
 * seen keys alone.  Buffers: result, q, k, v, then mask and hide where they are.  The first
 * four are f32, f16 or bf16; masks and everything inside are f32. */
enum { GALE__HIDES_OTHERS = 2 }; /* `hides`: on matrix units, `hide` is i32, and a row sees keys of its own number */
typedef struct gale__cpu_attention {
    int64_t lead[GALE__CPU_LEAD], m, n, d, c, masked, hides, hidden, causal, seen,
        blind, /* rows without a visible key yield 0, not NaN */
        type;
    gale__cpu_view q, k, v, mask, hide;
    double scale, fill;
} gale__cpu_attention;
gale__cpu_routine gale__cpu_attention_run;
size_t gale__cpu_attention_scratch(const gale__cpu_attention *a);

/* Pools of each channel, f32 or, for the largest, bytes: x [n, channels, height, width] to [n, channels, out_height,
 * out_width], dense; elements outside are ignored. */
enum { GALE__CPU_LAST_OPERAND = 1, GALE__CPU_LAST_RESULT = 2 }; /* what is stored channels-last */
typedef struct gale__cpu_pool {
    int64_t layouts; /* flags */
    int64_t n, channels, height, width, out_height, out_width, rows, columns;
    int64_t stride[2], dilation[2], low[2];
    int64_t largest; /* the largest element, else the sum */
    int64_t type;    /* F32, U8 or I8 */
} gale__cpu_pool;
gale__cpu_routine gale__cpu_pool_run;
size_t gale__cpu_pool_scratch(const gale__cpu_pool *a);

/* Averages of ratio x ratio samples in each bin of regions, f32: x [n, channels, height, width], regions [regions, 4],
 * pictures (i64) [regions] to [regions, channels, bins]. */
enum { GALE__CPU_ROI_RATIO = 16 };
typedef struct gale__cpu_roi {
    int64_t n, channels, extent[2], regions, bins[2], ratio, half; /* half: the first pixel's centre is at 0.5 */
    double scale;
} gale__cpu_roi;
gale__cpu_routine gale__cpu_roi_run;
size_t gale__cpu_roi_scratch(const gale__cpu_roi *a);

/* How often each code of 16 bits occurs: [rows, samples] to u32 [rows, 65536]. */
typedef struct gale__counts_args {
    int64_t rows, samples;
} gale__counts_args;
gale__cpu_routine gale__cpu_counts_run;
size_t gale__cpu_counts_scratch(void);

/* Planes resized by taps, f32: x [planes, height, width] to [planes, out_height, out_width].  Buffers: result, x,
 * places of rows (i32) and weights [out_height, taps_y], places of columns and weights [taps_x, out_width]; the rows of
 * one result are neighbours, or the same. */
typedef struct gale__cpu_resize {
    int64_t planes, height, width, out_height, out_width, taps_y, taps_x;
} gale__cpu_resize;
gale__cpu_routine gale__cpu_resize_run;
size_t gale__cpu_resize_scratch(const gale__cpu_resize *a);

/* The same for planes that become much smaller, of f16 (half) or f32; with `finite`, samples that are not finite
 * count as 0. */
typedef struct gale__cpu_shrink {
    int64_t planes, height, width, out_height, out_width, taps_y, taps_x, half, finite;
} gale__cpu_shrink;
gale__cpu_routine gale__cpu_shrink_run;
size_t gale__cpu_shrink_scratch(const gale__cpu_shrink *a);

/* Rows of n elements, f32. */
typedef struct gale__cpu_rows {
    int64_t rows, n, scaled, shifted;
    int64_t run, offset, step, far; /* run > 0: so many rows of x are side by side, elements `step` apart; then `far` */
    double epsilon;
} gale__cpu_rows;
gale__cpu_routine gale__cpu_softmax_run;    /* buffers: y, x */
gale__cpu_routine gale__cpu_layer_norm_run; /* buffers: y, x, then scale and shift [n] where there are any */

/* Rows by packed numbers, f32: y [m, n] = x [m, k] by w [n, blocks of `size`, size * bits / 8 bytes], low bits first,
 * less zero points, times scales [n, blocks].  Buffers: y, x, w, scales, then zero points and bias [n] where there are
 * any.  zeros: 0 none (half of the range), 1 packed like w by column, 2 f32. */
typedef struct gale__cpu_packed {
    int64_t m, n, k, bits, size, zeros, biased;
} gale__cpu_packed;
gale__cpu_routine gale__cpu_packed_run;
size_t gale__cpu_packed_scratch(const gale__cpu_packed *a);

/* The steps of a recurrent cell with its usual activations, f32.  Buffers: result (h of every step [trips, batch,
 * hidden], the last h and, of an LSTM, the last c [batch, hidden]), what the inputs contribute [trips, batch, gates *
 * hidden], recurrent weights [blocks of units, gates, hidden, GALE__CELL_UNITS], the first h, of an LSTM the first c,
 * and of a GRU the bias of its hidden gate [hidden] when biased.  Gates in ONNX's order; a GRU is linear before its
 * reset. */
typedef enum gale__cpu_cell_kind {
    GALE__CELL_RNN,
    GALE__CELL_GRU,
    GALE__CELL_LSTM,
    GALE__CELL_COUNT
} gale__cpu_cell_kind;
enum { GALE__CELL_UNITS = 16 };
typedef struct gale__cpu_cell {
    int64_t kind, trips, batch, hidden, reverse, biased;
    /* type: of the weights and the result, of f16 also of what the inputs contribute (the kernel of all steps alone);
     * timed: lengths [batch] (I32) follow. */
    int64_t type, timed;
    int64_t steady; /* sums of an item do not depend on how many there are (the host function alone) */
} gale__cpu_cell;
gale__cpu_routine gale__cpu_cell_run;
size_t gale__cpu_cell_scratch(const gale__cpu_cell *a);

/* Scores of decision trees, f32: x [rows, features] to [rows, targets], sums of the votes of the leaves that each row
 * comes to.  Buffers: result, x, nodes, roots [trees] (i32), votes.  branch: what nodes compare, in the order <= < >= >
 * == !=; missing: NaN may take the first child. */
typedef struct gale__cpu_tree_node {
    union {
        float value;
        int32_t votes; /* of a leaf: the first, -1: none */
    };
    int32_t feature; /* twice, and one more where NaN takes the first child */
    int32_t child[2];
} gale__cpu_tree_node;
typedef struct gale__cpu_tree_vote {
    float weight;
    int32_t target, next; /* of the same leaf; -1: no more */
} gale__cpu_tree_vote;
typedef struct gale__cpu_trees {
    int64_t rows, features, trees, targets, branch, missing;
} gale__cpu_trees;
gale__cpu_routine gale__cpu_trees_run;

/* Non-maximum suppression: rows (batch, class, box), i64, of at most `most` boxes a class, then the count of rows that
 * are meant.  Buffers: result [batches * classes * most * 3 + 1], boxes [batches, boxes, 4] (corners, or centre and
 * size), scores [batches, classes, boxes], then the overlap and the least score where they are given, f32. */
typedef struct gale__nms_args {
    int64_t batches, classes, boxes, most, centre, overlap, least;
} gale__nms_args;
gale__cpu_routine gale__cpu_nms_run;
size_t gale__cpu_nms_scratch(const gale__nms_args *a);
#endif
