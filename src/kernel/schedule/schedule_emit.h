/* What the schedules share while they make a kernel: the walk that gives a nest's numbers their places among the
 * parameter words, and the state in which instructions of a nest become instructions of a kernel, lane by lane. */
#ifndef GALE_KERNEL_SCHEDULE_EMIT_H
#define GALE_KERNEL_SCHEDULE_EMIT_H
#include "kernel/schedule/schedule.h"

#define GALE__LANES 128 /* most values of one instruction a thread holds */
#define GALE__OUTER_BLOCKS 64
#define GALE__INNER_BLOCKS 32

/* A divisor with the multiplier and shift that replace it (32-bit indices). */
typedef struct gale__divisor {
    gale__val by, mul, shift;
} gale__divisor;
typedef struct gale__guard_vals {
    gale__val coef[GALE__NEST_DIMS], c0, limit /* extent * div */, stride;
    gale__divisor div;
} gale__guard_vals;
typedef struct gale__access_vals {
    gale__val offset, stride[GALE__NEST_DIMS];
    gale__guard_vals guard[GALE__GUARDS];
} gale__access_vals;

/* Every number of a nest that a kernel reads, as a value of the kernel: a constant when the key keeps it, else a word.
 */
typedef struct gale__layout {
    gale__divisor extent[GALE__NEST_DIMS]; /* of the vector dimension: how many vectors */
    gale__val outer_count, inner_count;    /* vectors, or points where not walked by vectors */
    gale__val points;                      /* tail: extent of the walked dimension */
    gale__val m, n;                 /* TILE: rows and columns; k is inner_count, and outer_count the number of tiles */
    gale__divisor tiles_m, tiles_n; /* TILE, TRANSPOSE: how many tiles */
    gale__access_vals *access;      /* by access */
    gale__val *number;              /* by instruction: CONST's value, TAKE's limit */
    gale__val *limit;               /* by store */
} gale__layout;

/* One walk over nest and schedule serves key, words and kernel, so that they cannot differ: whichever of key, words
 * and ir is there gets its share. */
typedef struct gale__walk {
    const gale__nest *nest;
    const gale__schedule *s;
    gale__str *key;
    uint32_t *words;
    gale__ir *ir;
    gale__layout *layout; /* with ir */
    int n_words;
    int n_bytes;
    char bytes[512]; /* of the key, not yet appended */
} gale__walk;
gale_status gale__walk_run(gale__walk *w);

/* The dimension walked by vectors, -1 when none is. */
int gale__schedule_vector_dim(const gale__nest *nest, const gale__schedule *s);
/* How many elements of an access one load or store takes when `vector` neighbours along `dim` are wanted. */
int gale__access_width(const gale__nest *nest, const gale__access *a, int dim, int vector);
int64_t gale__schedule_groups(const gale__nest *nest, const gale__schedule *s); /* groups that have work */
bool gale__nest_has_reduce(const gale__nest *nest);
int64_t gale__nest_count(const gale__nest *nest, int from, int to); /* product of extents; saturates at INT64_MAX */
/* TILE: which operand walks the rows (0) and the columns (1), and along which dimension its vectors run. */
int gale__tile_operand(const gale__schedule *s, const gale__contraction *c, int which);
int gale__tile_vector_dim(const gale__nest *nest, const gale__schedule *s, const gale__contraction *c, int which);
char gale__tile_kind(const gale__schedule *s, int which); /* 'M' or 'N': dimensions along the rows or the columns */
/* True when the access changes along dimension d. */
bool gale__access_walks(const gale__access *a, int d);

/* A thread's work: outer blocks of ov neighbours each; for every outer point inner blocks of iv neighbours.  An OUTER
 * instruction has ob * ov lanes; an INNER one ob * ov * ib * iv, inner lanes running fastest. */
typedef struct gale__emit {
    gale__ir *ir;
    const gale__nest *nest;
    const gale__schedule *s;
    gale__layout layout;
    gale_type index; /* U32 or U64: type of addresses */
    int ob, ov, ib, iv, vdim;
    int ib_from, ib_to;                        /* inner blocks that are emitted now */
    bool reduces;                              /* else every dimension counts as outer */
    gale__val tid, t;                          /* thread in the group; among those that share an outer point */
    gale__val outer_valid[GALE__OUTER_BLOCKS]; /* 0: always */
    gale__val whole[GALE__OUTER_BLOCKS];       /* tail: the vector is whole */
    gale__val last[GALE__OUTER_BLOCKS];        /* tail: points left from its first one, less 1 */
    gale__val inner_valid[GALE__INNER_BLOCKS];
    gale__val inner_coord[GALE__INNER_BLOCKS][GALE__NEST_DIMS];
    gale__val inner_index[GALE__INNER_BLOCKS]; /* linear, I32: of the block's first point */
    gale__val *base;                /* [access][outer block]: offset and outer dimensions' share of the address */
    gale__val *guard_base;          /* [access][guard][outer block] */
    gale__val *val;                 /* [instruction][lane] */
    uint8_t *done, *level, *wanted; /* by instruction; level: how many reductions are below it */
    int lanes;
    void *memory;
} gale__emit;

/* Takes the memory, walks the words; e->ob .. iv are set by the caller before. */
gale_status gale__emit_begin(gale__emit *e, const gale__nest *nest, const gale__schedule *s, gale__ir *ir);
/* A second set of lanes in the same kernel, with the numbers of the first; vdim is the caller's. */
gale_status gale__emit_begin_within(gale__emit *e, const gale__emit *parent);
void gale__emit_end(gale__emit *e);

/* Arithmetic on indices. */
gale__val gale__emit_add(gale__emit *e, gale__val a, gale__val b);
gale__val gale__emit_mul(gale__emit *e, gale__val a, gale__val b);
gale__val gale__emit_index(gale__emit *e, uint32_t v);    /* a constant of the index type */
gale__val gale__emit_widen(gale__emit *e, gale__val u32); /* U32 to the index type */
void gale__emit_divmod(gale__emit *e, gale__val v, const gale__divisor *by, gale__val *quotient, gale__val *rest);
gale__val gale__emit_and(gale__emit *e, gale__val a, gale__val b); /* BOOL; 0 stands for true */
void gale__emit_if(gale__emit *e, gale__val condition);
void gale__emit_close(gale__emit *e); /* ends IF or FOR */
gale__val gale__emit_for(gale__emit *e, gale__val end, uint32_t step);
gale__val gale__emit_group(gale__emit *e); /* linear number of the group, U32 */

/* Splits a linear index over dimensions [from, to), last fastest; the vector dimension's coordinate is multiplied out.
 */
void gale__emit_coords(gale__emit *e, gale__val linear, int from, int to, gale__val *coord);
/* Puts the outer block b at these coordinates: computes base and guard_base of all accesses. */
void gale__emit_outer_place(gale__emit *e, int b, const gale__val *coord, int dims);

/* Values. */
bool gale__emit_is_inner(const gale__emit *e, int i);
gale__val gale__emit_get(const gale__emit *e, int i, int outer_lane, int inner_lane);
void gale__emit_instr(gale__emit *e, int i); /* all lanes of a load, constant or scalar instruction */
void gale__emit_inner_cone(gale__emit *e);   /* wanted INNER instructions, anew for where the inner blocks are now */
gale__val gale__emit_scalar(gale__emit *e, int i, gale__val a, gale__val b, gale__val c); /* one lane */
gale__val gale__emit_fill(gale__emit *e, const gale__access *a);
void gale__emit_store(gale__emit *e, const gale__nest_store *st, gale__val condition);

/* Reductions: inner lanes of REDUCE r into one value (and index) per outer lane; streaming ones go through variables.
 */
typedef struct gale__acc {
    gale__val value, index;
} gale__acc; /* index: ARG reductions, I32 */
void gale__emit_reduce_local(gale__emit *e, int r, gale__acc *out /* by outer lane */);
void gale__emit_reduce_threads(gale__emit *e, int r, gale__acc *acc);
void gale__emit_reduce_begin(gale__emit *e, int r, gale__acc *variables);
void gale__emit_reduce_step(gale__emit *e, int r, const gale__acc *variables);
void gale__emit_reduce_read(gale__emit *e, int r, const gale__acc *variables, gale__acc *out);
void gale__emit_reduce_finish(gale__emit *e, int r, const gale__acc *acc); /* sets val of r */
gale_type gale__emit_acc_type(const gale__nest *nest, int r);              /* compute type it is accumulated in */
gale__val gale__emit_identity(gale__emit *e, int r);

/* TILE and MATRIX: the tile of a group. */
typedef struct gale__tiling {
    gale__emit e; /* the result's lanes */
    gale__contraction c;
    gale__val batch, origin[2]; /* rows and columns where the tile begins */
    gale__val zero;             /* index 0 */
} gale__tiling;
/* Which tile this group computes.  Groups without a tile of their own repeat the last one. */
void gale__tile_place_group(gale__tiling *t);
/* Coordinates of the dimensions of one kind, from their linear index; the rest of coord is left alone. */
void gale__tile_coords(gale__tiling *t, gale__val linear, char kind, gale__val *coord);
void gale__tile_clear_coords(gale__tiling *t, gale__val *coord); /* 0, and the batch's */
/* Marks what the wanted instructions are made of, up to reductions. */
void gale__mark_cone(const gale__nest *nest, uint8_t *wanted);

/* The element an access means at an outer and an inner block; *ok is the guards' answer (0: always true). */
gale__val gale__emit_address(gale__emit *e, int access, int b, int ib, gale__val *ok);

/* MATRIX: the instruction whose value, rounded to `narrow`, the operand is; and the access when it is a plain load,
 * else -1. */
int gale__matrix_core(const gale__nest *nest, int operand);
int gale__matrix_access(const gale__nest *nest, int operand);
/* MATRIX: the dimension along which results are stored by vectors. */
int gale__matrix_vector_dim(const gale__nest *nest, const gale__schedule *s, const gale__contraction *c);

/* Choices (schedule_choose.c). */
void gale__choose_map(const gale__nest *nest, const gale_device_caps *caps, gale__schedule *s);
void gale__choose_reduce(const gale__nest *nest, const gale_device_caps *caps, gale__schedule *s); /* ROW or COLUMN */
bool gale__choose_tile(const gale__nest *nest, const gale_device_caps *caps, gale__schedule *s); /* false: better not */
bool gale__choose_matrix(const gale__nest *nest, const gale_device_caps *caps, gale__schedule *s);
/* Along which dimension an operand's loads find neighbours, and how many at once. */
void gale__choose_operand(const gale__nest *nest, const gale__contraction *c, gale__schedule *s, int which);
bool gale__choose_transpose(const gale__nest *nest, const gale_device_caps *caps, gale__schedule *s);

gale_status gale__build_loops(const gale__nest *nest, const gale__schedule *s, gale__ir *ir); /* MAP, ROW, COLUMN */
gale_status gale__build_tile(const gale__nest *nest, const gale__schedule *s, gale__ir *ir);
gale_status gale__build_matrix(const gale__nest *nest, const gale__schedule *s, gale__ir *ir);
gale_status gale__build_transpose(const gale__nest *nest, const gale__schedule *s, gale__ir *ir);
#endif
