/* A loop nest: what one kernel computes, for one set of extents.
 *
 * The domain is `outer` dimensions (one result each) times `inner` ones (reduced over).  The work is a DAG of scalar
 * instructions in topological order.  An instruction is OUTER (one value per outer point) or INNER (one per outer x
 * inner point); a REDUCE takes an INNER value and gives an OUTER one.  Memory is touched only through accesses: affine
 * maps from the domain's coordinates to an element, with guards for what padding adds.  So map, softmax, layer norm,
 * matrix product and convolution are all nests; the schedule (kernel/schedule/schedule.h) recognises which.  Everything
 * is concrete here; a kernel's key keeps only classes. */
#ifndef GALE_KERNEL_NEST_H
#define GALE_KERNEL_NEST_H
#include "base/mem.h"
#include "base/str.h"
#include "kernel/nest/scalar.h"
#include <string.h>

#define GALE__NEST_DIMS 16 /* after refinement, before merging */
#define GALE__GUARDS 6
#define GALE__NEST_CODE_MAX 512 /* instructions; fusion stops before */

/* Coordinate sum(coef * index) + c0 must be in [0, extent * div) and divisible by div; else the access yields `fill`.
 * div > 1 (dilation): the axis' share of the address is coordinate / div * stride, and is not in access.stride. div
 * GALE__WRAPS: the coordinate is in [0, 2 extent), and `stride` is subtracted from the address from `extent` on: the
 * axis wraps around.  Only GPU schedules support this. */
enum { GALE__WRAPS = -1 };
typedef struct gale__nest_guard {
    int64_t coef[GALE__NEST_DIMS], c0, extent, div, stride;
} gale__nest_guard;
typedef struct gale__nest_access {
    int buffer;                      /* index into nest.buffers; -1: the address itself is the value (an index, I64) */
    gale_type type;                  /* storage */
    int64_t offset;                  /* in elements */
    int64_t stride[GALE__NEST_DIMS]; /* by domain dimension, in elements; may be 0 or negative */
    uint64_t fill;                   /* bits, in the storage type */
    int n_guards;
    gale__nest_guard *guards; /* most accesses have none */
} gale__nest_access;
/* With guards in memory of its own: room for as many as there are. */
static inline void gale__nest_access_copy(gale__nest_access *to, const gale__nest_access *from, gale__nest_guard *room)
{
    *to = *from;
    to->guards = room;
    if (from->n_guards) memcpy(room, from->guards, (size_t)from->n_guards * sizeof *room);
}

typedef enum gale__reduce {
    GALE__SUM,
    GALE__PROD,
    GALE__RMAX,
    GALE__RMIN,
    GALE__ARGMAX,
    GALE__ARGMIN /* first; index I64 over the inner dimensions in row-major order */,
    GALE__ARGMAX_LAST,
    GALE__ARGMIN_LAST
} gale__reduce;

/* Bits of the value a reduction starts from, in a compute type. */
uint64_t gale__reduce_start(gale__reduce kind, gale_type compute);

/* Instructions beside the scalar ones. */
typedef enum gale__nest_op {
    GALE__NEST_CONST =
        GALE__SCALAR_COUNT, /* imm: bits in the compute type; key keeps the value only for 0, 1, -1, 2, 0.5 */
    GALE__NEST_LOAD,        /* access */
    GALE__NEST_TAKE,  /* access gives buffer, type and a base offset; a: linear index (I64 or I32) added; clamped to [0,
                         imm) */
    GALE__NEST_INDEX, /* access with buffer -1: the affine value, I64 */
    GALE__NEST_REDUCE, /* a: INNER value; imm: gale__reduce */
    GALE__NEST_OP_COUNT
} gale__nest_op;
typedef struct gale__nest_instr {
    uint8_t op;    /* gale__scalar or gale__nest_op */
    uint8_t type;  /* gale_type: storage type; held in its compute type, narrowed after each operation on integers,
                      rounded at CAST, LOAD, store */
    uint8_t inner; /* 1: INNER */
    uint8_t acc;   /* REDUCE: type to accumulate in (F32, F64, I32, I64 ...); EXP, LOG, POW, DIV: 1 where a device's own
                      will do, 2 if the operands are of ordinary size besides (gale__nest_loosen); DIV, RINT, CAST:
                      GALE__NEST_LEVEL where levels of 8 bits are made or read (gale__nest_mark_levels); TAKE: 1 if
                      the index is known to be in range */
    int32_t a, b, c; /* operands: indices of earlier instructions */
    int32_t access;
    uint64_t imm;
} gale__nest_instr;
typedef struct gale__nest_store {
    int32_t value, access;
    int32_t index; /* -1, or the instruction giving a linear index added to the address; out of [0, limit) is dropped */
    int64_t limit;
} gale__nest_store;

typedef struct gale__nest_buffer {
    int64_t elements;
    gale_type type;
    bool written, constant;
    bool settled;    /* constant, or computed from constants before the first run: complete whenever a kernel starts */
    bool ordinary;   /* f32 that are neither tiny nor huge: 2^-60 to 2^60 */
} gale__nest_buffer; /* in the order of pointer parameters; constant: the same at every run, and may be laid out
                        beforehand */

typedef struct gale__nest {
    int n_outer, n_inner;            /* dimension d < n_outer is outer */
    int64_t extent[GALE__NEST_DIMS]; /* all >= 1 (a nest over nothing is not made) */
    gale__nest_instr *code;
    int n_code;
    gale__nest_access *accesses;
    int n_accesses;
    gale__nest_store *stores;
    int n_stores; /* value OUTER: once per outer point; INNER: every point */
    gale__nest_buffer *buffers;
    int n_buffers;
    bool last;   /* values of it are stored channels-last (graph/fuse/layout.h) */
    bool fast;   /* the device's own exp, log, sin, cos, division for f32 */
    bool steady; /* sums are taken in an order that does not depend on how many outer points there are */
} gale__nest;

/* Copies with guards of their own; NULL when there is no memory. */
gale__nest_access *gale__nest_accesses_copy(gale__arena *arena, const gale__nest_access *accesses, int n);
/* A copy that lives as long as the arena. */
gale_status gale__nest_copy(gale__arena *arena, const gale__nest *from, gale__nest *out);
/* Drops extents of 1 and merges neighbours where every access allows it; sorts outer dimensions so that the one most
 * accesses walk with stride 1 is last.  Everything stays in the given arena. */
void gale__nest_canonicalize(gale__nest *nest);
/* Removes clamps and selects that value ranges show to be redundant, and marks indices that are always in range
 * (nest_settle.c). */
void gale__nest_settle(gale__nest *nest);
/* Marks operations that may be less accurate, since only 8-bit integers are computed from their results
 * (nest_loosen.c). */
void gale__nest_loosen(gale__nest *nest);
/* Marks conversions between floats and 8-bit quantised values (levels), and the roundings before them
 * (nest_levels.c). */
enum {
    GALE__NEST_LEVEL = 3,
    GALE__NEST_NEAR,  /* known to be within the range of the quantised type */
    GALE__NEST_ROUGH, /* and inexact anyway */
    GALE__NEST_GELU   /* of a product x / 2 * (1 + erf(x / sqrt 2)): all of it (nest_loosen.c) */
};
void gale__nest_mark_levels(gale__nest *nest);
/* Replaces quantise-dequantise pairs within the nest by float operations (nest_requant.c).  New instructions come from
 * the arena. */
gale_status gale__nest_requantise(gale__nest *nest, gale__arena *arena);
/* Removes steps of a contraction over floats that only multiply zero padding (nest_trim.c). */
void gale__nest_trim(gale__nest *nest);
/* How many of a, b, c an instruction reads. */
int gale__nest_arity(const gale__nest_instr *in);

/* Whether an instruction is one of these, for passes that look at few kinds: most nests have none of them. */
#define GALE__NEST_BIT(op) ((uint64_t)1 << (op))
_Static_assert(GALE__NEST_OP_COUNT <= 64, "a bit for each kind of instruction");
static inline bool gale__nest_has(const gale__nest *n, uint64_t ops)
{
    uint64_t all = 0;
    for (int i = 0; i < n->n_code; i++) all |= GALE__NEST_BIT(n->code[i].op);
    return (all & ops) != 0;
}
/* Bytes that must move (each buffer element touched once) and operations done. */
void gale__nest_cost(const gale__nest *nest, double *bytes, double *operations);
/* A dump for people and tests. */
void gale__nest_print(const gale__nest *nest, gale__str *out);

/* The contraction pattern: REDUCE SUM of MUL(a, b) where every outer dimension is walked by a alone (M), b alone (N) or
 * both (B). */
typedef struct gale__contraction {
    int reduce, mul, a, b;         /* instructions; a and b are MUL's operands */
    uint8_t kind[GALE__NEST_DIMS]; /* 'B', 'M', 'N' for outer dimensions, 'K' for inner */
    int64_t b_count, m, n, k;      /* products of extents */
} gale__contraction;
bool gale__nest_contraction(const gale__nest *nest, gale__contraction *out);
#endif
