/* A tape: part of a loop nest made ready to run over blocks.
 *
 * A tape's sections are lists of steps; each step is one loop over a block of up to `block` lanes.  The lanes of a run
 * are consecutive points of a span (some of the nest's dimensions, flattened in row-major order) at fixed coordinates
 * of all other dimensions.  Registers are blocks in scratch memory; a load whose elements are adjacent in memory as
 * they are needed points its register there instead of copying, and a last operation may write straight to the output.
 */
#ifndef GALE_KERNEL_CPU_TAPE_H
#define GALE_KERNEL_CPU_TAPE_H
#include "kernel/cpu/simd.h"

typedef enum gale__cpu_step_kind {
    GALE__CPU_STEP_OP,        /* fn(d, a, b, c); with an access, d stands for its memory where elements are adjacent */
    GALE__CPU_STEP_TRIPLE,    /* triple(d, a, b, c, imm); the same */
    GALE__CPU_STEP_LOAD,      /* access to d; fn: widen, through raw register c; with `out`, d stands for its memory */
    GALE__CPU_STEP_TAKE,      /* access plus index a, clamped to [0, imm), to d; b: index register, c: raw register */
    GALE__CPU_STEP_TAKE_ROWS, /* the same by rows of the block: spot, and an index a for each row (-1: none), to d; with
                                 an access as for OP; fn: widen, through raw register c */
    GALE__CPU_STEP_INDEX,     /* access' address to d */
    GALE__CPU_STEP_STORE,     /* a to access; fn: narrow, through raw register c */
    GALE__CPU_STEP_SCATTER,   /* a to access plus index b, when in [0, imm); fn: narrow, through raw register c */
    GALE__CPU_STEP_FILL,      /* imm to d, element size `size` */
    GALE__CPU_STEP_SPREAD,    /* lane i of a to all lanes of row i of d */
    GALE__CPU_STEP_FOLD,      /* fold(d, a): along row i of the block into lane i */
    GALE__CPU_STEP_DOT,       /* dot(d, a, b): the same of products */
    GALE__CPU_STEP_ARG,       /* arg(d, b, a): lane by lane; place: the frame's */
    GALE__CPU_STEP_ARG_FOLD,  /* along the block */
    GALE__CPU_STEP_KEEP,      /* a to row d of the cache */
    GALE__CPU_STEP_RECALL     /* row a of the cache to d */
} gale__cpu_step_kind;

typedef struct gale__cpu_spot gale__cpu_spot; /* by_row.h */
typedef struct gale__cpu_step {
    uint8_t kind, size; /* size: logarithm of the element's bytes (in memory, where memory is touched) */
    uint8_t numbers;    /* 1: only lane 0 of b is read; 2: of c */
    int32_t d, a, b, c; /* registers */
    const gale__nest_access *access;
    const gale__cpu_spot *spot;
    const gale__nest_access *out;
    union {
        gale__simd_fn *fn;
        gale__simd_triple *triple;
        gale__simd_fold *fold;
        gale__simd_dot *dot;
        gale__simd_arg *arg;
        gale__simd_arg_fold *arg_fold;
    };
    uint64_t imm;
} gale__cpu_step;

/* Which dimensions the lanes walk, slowest first, each from base on. */
typedef struct gale__cpu_span {
    int n;
    uint8_t dim[GALE__NEST_DIMS];
    int64_t extent[GALE__NEST_DIMS], base[GALE__NEST_DIMS], count;
} gale__cpu_span;

typedef struct gale__cpu_section {
    int first, count;
} gale__cpu_section;
typedef struct gale__cpu_reg {
    int32_t slot, first, last;
    uint8_t size;
    bool fixed, kept, uniform, single, by_row;
} gale__cpu_reg; /* size in bytes; first and last step; by_row: only steps with a lane for each row read it.
fixed: a constant; kept: read from outside; uniform: the same in all lanes; single: and only lane 0 is read */
/* A register that holds one value in all lanes: bits, or the value of the access (the same everywhere), widened by fn.
 */
typedef struct gale__cpu_tape_const {
    int32_t reg;
    uint8_t size;
    uint64_t bits;
    const gale__nest_access *access;
    gale__simd_fn *fn;
} gale__cpu_tape_const;

typedef struct gale__cpu_tape {
    const gale__simd *simd;
    const gale__nest *nest;
    uint32_t lane_dims; /* mask of the dimensions that lanes walk where values are loaded; 0: unknown */
    gale__cpu_step *steps;
    size_t n_steps, steps_capacity;
    gale__cpu_reg *regs;
    size_t n_regs, regs_capacity;
    gale__cpu_tape_const *consts;
    size_t n_consts, consts_capacity;
    int n_slots, n_singles, n_dims, n_cached;
    size_t slot_bytes, block; /* block: lanes */
    size_t rows_most;         /* of a block, where steps have a lane for each row */
    size_t cache_lanes;       /* elements of one cached row; 0: none */
    bool by_row;              /* steps of the first section have a lane for each row of the block */
    bool failed;
} gale__cpu_tape;

/* Building.  Appends do not fail one by one: gale__cpu_tape_finish_build reports failures at the end. */
void gale__cpu_tape_init(gale__cpu_tape *t, const gale__nest *nest);
void gale__cpu_tape_finish(gale__cpu_tape *t);
int gale__cpu_tape_reg(gale__cpu_tape *t, int size_bytes);
void gale__cpu_tape_step(gale__cpu_tape *t, gale__cpu_step step);
int gale__cpu_tape_const_reg(gale__cpu_tape *t, int size_bytes, uint64_t bits);
/* Emits instruction i, its operands being in registers reg[operand]; sets reg[i]. */
gale_status gale__cpu_tape_emit(gale__cpu_tape *t, int i, int *reg);
/* The TAKE of instruction i by rows; index: the register with an index for each row, or -1. */
void gale__cpu_tape_emit_take_rows(gale__cpu_tape *t, int i, const gale__cpu_spot *spot, int index, int *reg);
void gale__cpu_tape_emit_store(gale__cpu_tape *t, const gale__nest_store *store, const int *reg);
int gale__cpu_tape_op(
    gale__cpu_tape *t, gale__simd_fn *fn, gale_type type, int a); /* one operand; the result's register */
void gale__cpu_tape_keep(gale__cpu_tape *t, int reg);             /* a register that is read from outside */
/* value of compute type `from` (register r) to compute type `to`. */
int gale__cpu_tape_convert(gale__cpu_tape *t, int r, gale__simd_type from, gale_type to);
/* Ends building: joins steps, and turns registers into slots.  `sections`: all of them, in order; loops: pairs of
 * sections (first, last) that are repeated as a whole.  The block is chosen so that all slots stay in the first cache,
 * at most `lanes`. */
typedef struct gale__cpu_loop {
    const gale__cpu_section *first, *last;
} gale__cpu_loop;
gale_status gale__cpu_tape_finish_build(gale__cpu_tape *t, gale__cpu_section *const *sections, int n,
    const gale__cpu_loop *loops, int n_loops, size_t lanes);
void gale__cpu_tape_fuse(gale__cpu_tape *t, gale__cpu_section *const *sections, int n);
size_t gale__cpu_tape_scratch_bytes(const gale__cpu_tape *t);
size_t gale__cpu_tape_slots_at(
    const gale__cpu_tape *t); /* start of the slots: after the table of registers and the singles */

/* Running. */
typedef struct gale__cpu_frame {
    const gale__cpu_tape *tape;
    void *const *buffers;
    char *scratch;               /* gale__cpu_tape_scratch_bytes, aligned to 64 */
    void **registers;            /* registers */
    int64_t at[GALE__NEST_DIMS]; /* coordinates: of the block's first lane, and of the dimensions that are constant */
    const gale__cpu_span *span;
    size_t lanes, rows; /* lanes of the running block, which is so many rows of equal length (for FOLD and SPREAD) */
    int64_t place;      /* for ARG: place of the point (of the block's first lane) among the inner ones */
    size_t cache_at;    /* element of the cache where the block begins */
    bool one_run;       /* the block is within one row of the span */
    bool aliased;       /* an output may be an input: nothing is read or written in place */
} gale__cpu_frame;
void gale__cpu_frame_init(
    gale__cpu_frame *f, const gale__cpu_tape *t, void *const *buffers, void *scratch, size_t lanes, bool aliased);
/* Sets the block: n lanes of span from `start` on, one row; f->at holds the other coordinates. */
void gale__cpu_frame_set(gale__cpu_frame *f, const gale__cpu_span *span, int64_t start, size_t n);
/* Runs a section over the block. */
void gale__cpu_frame_run(gale__cpu_frame *f, gale__cpu_section s);
void gale__cpu_span_init(gale__cpu_span *s, const gale__nest *nest, const uint8_t *dims, int n);
/* Coordinates of its dimensions at flat index `start`; others are left alone. */
void gale__cpu_span_seek(const gale__cpu_span *s, int64_t start, int64_t *at);
/* Where a section only loads n rows from r0 on, each adjacent along all of k, `pitch` elements apart: their steps from
 * k0 on, in place; else NULL, and pitch is left alone. */
const char *gale__cpu_frame_rows(gale__cpu_frame *f, gale__cpu_section s, const gale__cpu_span *rows, int64_t r0,
    int64_t n, const gale__cpu_span *k, int64_t k0, size_t *pitch);
/* Sets f->at of the span's dimensions to flat index `start`. */
void gale__cpu_frame_seek(gale__cpu_frame *f, const gale__cpu_span *span, int64_t start);
#endif
