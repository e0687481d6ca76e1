/* What the schedules share while they make a kernel: the walk that gives a nest's numbers their places among the
 * parameter words, and the state in which instructions of a nest become instructions of a kernel, lane by lane. */
#ifndef GALE_KERNEL_SCHEDULE_EMIT_H
#define GALE_KERNEL_SCHEDULE_EMIT_H
#include "kernel/schedule/schedule.h"

#define GALE__EMIT_LANES 128 /* most values of one instruction a thread holds */
#define GALE__EMIT_VECTOR 16 /* most neighbours */
#define GALE__EMIT_OUTER_BLOCKS 64
#define GALE__EMIT_INNER_BLOCKS 32

/* A divisor with the multiplier and shift that replace it (32-bit indices). */
typedef struct gale__emit_divisor {
    gale__ir_val by, mul, shift;
} gale__emit_divisor;
typedef struct gale__emit_guard {
    gale__ir_val coef[GALE__NEST_DIMS], c0, limit /* extent * div */, stride;
    gale__emit_divisor div;
} gale__emit_guard;
typedef struct gale__emit_access {
    gale__ir_val offset, stride[GALE__NEST_DIMS];
    gale__emit_guard guard[GALE__GUARDS];
} gale__emit_access;

/* Every number of a nest that a kernel reads, as a value of the kernel: a constant when the key keeps it, else a word.
 */
typedef struct gale__emit_layout {
    gale__emit_divisor extent[GALE__NEST_DIMS]; /* of the vector dimension: how many vectors */
    gale__ir_val outer_count, inner_count;      /* vectors, or points where not walked by vectors */
    gale__ir_val points;                        /* tail: extent of the walked dimension; WINDOW: the last place along
                                                   the axis where a thread's results may begin */
    gale__ir_val m, n; /* TILE: rows and columns; k is inner_count, and outer_count the number of tiles */
    gale__emit_divisor tiles_m, tiles_n; /* TILE, TRANSPOSE: how many tiles */
    gale__emit_access *access;           /* by access */
    gale__ir_val *number;                /* by instruction: CONST's value, TAKE's limit */
    gale__ir_val *limit;                 /* by store */
} gale__emit_layout;

/* One walk over nest and schedule serves key, words and kernel, so that they cannot differ: whichever of key, words
 * and ir is there gets its share. */
typedef struct gale__emit_walk {
    const gale__nest *nest;
    const gale__schedule *schedule;
    gale__str *key;
    uint32_t *words;
    gale__ir *ir;
    gale__emit_layout *layout; /* with ir */
    int n_words;
    int n_bytes;
    char bytes[512]; /* of the key, not yet appended */
} gale__emit_walk;
gale_status gale__emit_walk_run(gale__emit_walk *w);

/* The dimension walked by vectors, -1 when none is. */
int gale__schedule_vector_dim(const gale__nest *nest, const gale__schedule *s);
/* How many elements of an access one load or store takes when `vector` neighbours along `dim` are wanted. */
int gale__schedule_access_width(const gale__nest *nest, const gale__nest_access *a, int dim, int vector);
/* Tiles of these sides that a contraction takes, its rows and columns exchanged if `swap` says so. */
int64_t gale__schedule_tiles(const gale__contraction *c, const gale__schedule *s, int64_t tile_m, int64_t tile_n);
/* Groups that have work; with `relay`: tiles. */
int64_t gale__schedule_groups(const gale__nest *nest, const gale__schedule *s);
bool gale__nest_has_reduce(const gale__nest *nest);
int64_t gale__nest_count(const gale__nest *nest, int from, int to); /* product of extents; saturates at INT64_MAX */
/* TILE: which operand walks the rows (0) and the columns (1), and along which dimension its vectors run. */
int gale__schedule_tile_operand(const gale__schedule *s, const gale__contraction *c, int which);
int gale__schedule_tile_vector_dim(
    const gale__nest *nest, const gale__schedule *s, const gale__contraction *c, int which);
char gale__schedule_tile_kind(
    const gale__schedule *s, int which); /* 'M' or 'N': dimensions along the rows or the columns */
/* True when the access changes along dimension d. */
bool gale__schedule_access_walks(const gale__nest_access *a, int d);

/* A thread's work: outer blocks of `outer_vector` neighbours each; for every outer point, inner blocks of
 * `inner_vector` neighbours.  An OUTER instruction has outer_blocks * outer_vector lanes; an INNER one has that many
 * times inner_blocks * inner_vector, inner lanes varying fastest. */
typedef struct gale__emit {
    gale__ir *ir;
    const gale__nest *nest;
    const gale__schedule *schedule;
    gale__emit_layout layout;
    gale_type index; /* U32 or U64: type of addresses */
    int outer_blocks, outer_vector, inner_blocks, inner_vector, vector_dim;
    int inner_from, inner_to;                          /* inner blocks that are emitted now */
    bool reduces;                                      /* else every dimension counts as outer */
    gale__ir_val tid, row_tid;                         /* thread in the group; among those that share an outer point */
    gale__ir_val outer_valid[GALE__EMIT_OUTER_BLOCKS]; /* 0: always */
    gale__ir_val whole[GALE__EMIT_OUTER_BLOCKS];       /* tail: the vector is whole */
    gale__ir_val last[GALE__EMIT_OUTER_BLOCKS];        /* tail: points left from its first one, less 1 */
    gale__ir_val inner_valid[GALE__EMIT_INNER_BLOCKS];
    gale__ir_val inner_coord[GALE__EMIT_INNER_BLOCKS][GALE__NEST_DIMS];
    gale__ir_val inner_index[GALE__EMIT_INNER_BLOCKS]; /* linear, I32: of the block's first point */
    gale__ir_val *base;             /* [access][outer block]: offset and outer dimensions' share of the address */
    gale__ir_val *guard_base;       /* [access][guard][outer block] */
    gale__ir_val *val;              /* [instruction][lane] */
    uint8_t *done, *level, *wanted; /* by instruction; level: how many reductions are below it */
    int lanes;
    void *memory;
} gale__emit;

/* Takes the memory, walks the words; the caller sets the numbers of blocks and the vectors before. */
gale_status gale__emit_begin(gale__emit *e, const gale__nest *nest, const gale__schedule *s, gale__ir *ir);
/* A second set of lanes in the same kernel, with the numbers of the first; the caller sets vector_dim. */
gale_status gale__emit_begin_within(gale__emit *e, const gale__emit *parent);
void gale__emit_end(gale__emit *e);

/* Arithmetic on indices. */
gale__ir_val gale__emit_add(gale__emit *e, gale__ir_val a, gale__ir_val b);
gale__ir_val gale__emit_mul(gale__emit *e, gale__ir_val a, gale__ir_val b);
gale__ir_val gale__emit_index(gale__emit *e, uint32_t v);       /* a constant of the index type */
gale__ir_val gale__emit_widen(gale__emit *e, gale__ir_val u32); /* U32 to the index type */
void gale__emit_divmod(
    gale__emit *e, gale__ir_val v, const gale__emit_divisor *by, gale__ir_val *quotient, gale__ir_val *rest);
gale__ir_val gale__emit_and(gale__emit *e, gale__ir_val a, gale__ir_val b); /* BOOL; 0 stands for true */
void gale__emit_if(gale__emit *e, gale__ir_val condition);
void gale__emit_close(gale__emit *e); /* ends IF or FOR */
gale__ir_val gale__emit_for(gale__emit *e, gale__ir_val end, uint32_t step);
gale__ir_val gale__emit_group(gale__emit *e); /* linear number of the group, U32 */

/* Splits a linear index over dimensions [from, to), last fastest; the vector dimension's coordinate is multiplied out.
 */
void gale__emit_coords(gale__emit *e, gale__ir_val linear, int from, int to, gale__ir_val *coord);
/* Puts the outer block b at these coordinates: computes base and guard_base of all accesses. */
void gale__emit_outer_place(gale__emit *e, int b, const gale__ir_val *coord, int dims);

/* Values. */
bool gale__emit_is_inner(const gale__emit *e, int i);
gale__ir_val gale__emit_get(const gale__emit *e, int i, int outer_lane, int inner_lane);
void gale__emit_instr(gale__emit *e, int i);        /* all lanes of a load, constant or scalar instruction */
void gale__emit_loads(gale__emit *e, bool settled); /* all lanes of the loads from such buffers; MATRIX:
                                                       beside its operands */
void gale__emit_inner_cone(gale__emit *e); /* wanted INNER instructions, anew for where the inner blocks are now */
gale__ir_val gale__emit_scalar(gale__emit *e, int i, gale__ir_val a, gale__ir_val b, gale__ir_val c); /* one lane */
gale__ir_val gale__emit_fill(gale__emit *e, const gale__nest_access *a);
void gale__emit_store(gale__emit *e, const gale__nest_store *st, gale__ir_val condition);

/* Reductions: inner lanes of REDUCE r into one value (and index) per outer lane; streaming ones go through variables.
 */
typedef struct gale__emit_acc {
    gale__ir_val value, index;
} gale__emit_acc; /* index: ARG reductions, I32 */
void gale__emit_reduce_local(gale__emit *e, int r, gale__emit_acc *out /* by outer lane */);
void gale__emit_reduce_threads(gale__emit *e, int r, gale__emit_acc *acc);
void gale__emit_reduce_begin(gale__emit *e, int r, gale__emit_acc *variables);
void gale__emit_reduce_step(gale__emit *e, int r, const gale__emit_acc *variables);
void gale__emit_reduce_read(gale__emit *e, int r, const gale__emit_acc *variables, gale__emit_acc *out);
void gale__emit_reduce_finish(gale__emit *e, int r, const gale__emit_acc *acc); /* sets val of r */
/* The same of a contraction's sums, then all that follows them, and the stores. */
void gale__emit_results(gale__emit *e, int reduce, const gale__emit_acc *sums);
gale_type gale__emit_acc_type(const gale__nest *nest, int r); /* compute type it is accumulated in */
gale__ir_val gale__emit_identity(gale__emit *e, int r);

/* TILE and MATRIX: the tile of a group. */
typedef struct gale__emit_tiling {
    gale__emit emit; /* the result's lanes */
    gale__contraction contraction;
    gale__ir_val batch, origin[2]; /* rows and columns where the tile begins */
    gale__ir_val zero;             /* index 0 */
} gale__emit_tiling;
/* Which tile this group computes.  Groups without a tile of their own repeat the last one. */
void gale__emit_tile_place_group(gale__emit_tiling *t);
void gale__emit_tile_place(gale__emit_tiling *t, gale__ir_val number); /* the tile of that number */
/* Coordinates of the dimensions of one kind, from their linear index; the rest of coord is left alone. */
void gale__emit_tile_coords(gale__emit_tiling *t, gale__ir_val linear, char kind, gale__ir_val *coord);
void gale__emit_tile_clear_coords(gale__emit_tiling *t, gale__ir_val *coord); /* 0, and the batch's */
#define GALE__MATRIX_RESULT_PAD \
    8u                      /* after each row of results on their way out: four rows of pairs lie in different banks */
#define GALE__RELAY_SET 128 /* threads of four subgroups: two or three sets compute, one or two fetch operands */
#define GALE__RELAY_GATES(stages) (2u * (stages) + 3) /* a stage is full, it is free again; a set's turn */
/* MATRIX: an instruction whose values are loaded ahead, for 32 columns in so many registers. */
#define GALE__MATRIX_HELD 4
typedef struct gale__matrix_held {
    int load;
    gale_type type; /* U32: words of values of rows; F32, I32: by column */
    uint32_t registers;
    gale__ir_val array;
} gale__matrix_held;
/* MATRIX: a tile whose sums are complete, and how each subgroup stores its part (schedule_matrix_store.c). */
typedef struct gale__matrix_tile {
    gale__emit_tiling tiling;
    gale__ir_val results, sums;               /* work-group array that sums pass through; the sums */
    gale__ir_val row, column;                 /* of this subgroup among those of the group, or of its set */
    gale__ir_val set;                         /* of those that share k */
    gale__ir_val at[GALE__EMIT_OUTER_BLOCKS]; /* sets: where a thread's results begin, of the first set's sums */
    gale__ir_val member;                      /* split: which of the cluster's groups this is */
    gale__matrix_held held[GALE__MATRIX_HELD];
    int n_held;
    uint32_t ahead; /* how many times 32 columns are held */
} gale__matrix_tile;
/* Loads beside the products what the first results need besides (relay, `direct`). */
void gale__matrix_hold(gale__matrix_tile *t);
void gale__matrix_store(gale__matrix_tile *t);
/* Relay: sets that compute.  Finishing bytes takes so many instructions that three share a unit, if their sums leave
 * room. */
static inline uint32_t gale__relay_sets(const gale__schedule *s)
{
    return s->narrow == GALE_I8 && s->maps && s->direct && !s->team && s->tile_n <= 64 ? 3 : 2;
}
/* Whether several sums over parts of k meet in work-group memory: those of sets, or of a cluster's groups. */
static inline bool gale__schedule_sums_meet(const gale__schedule *s) { return s->rows > 1 || s->split > 1; }
/* Which of those results a thread adds up, so that what they need besides can be loaded early. */
void gale__matrix_sets_begin(gale__matrix_tile *t);
/* Marks what the wanted instructions are made of, up to reductions. */
void gale__nest_mark_cone(const gale__nest *nest, uint8_t *wanted);

/* The element an access means at an outer and an inner block; *ok is the guards' answer (0: always true). */
gale__ir_val gale__emit_address(gale__emit *e, int access, int outer_block, int inner_block, gale__ir_val *ok);

/* MATRIX: whether operands are bytes; how many elements of an operand are 16 bytes; whether the operand's rows in
 * work-group memory run along k. */
static inline bool gale__schedule_matrix_bytes(const gale__schedule *s) { return s->narrow == GALE_I8; }
/* MATRIX: what the operands are in work-group memory, and how many of those make one f32. */
static inline uint8_t gale__schedule_matrix_type(const gale__schedule *s)
{
    return s->narrow == GALE_F32 ? GALE_BF16 : s->narrow;
}
static inline uint32_t gale__schedule_matrix_shares(const gale__schedule *s) { return s->narrow == GALE_F32 ? 3 : 1; }
static inline uint32_t gale__schedule_matrix_unit(const gale__schedule *s) { return s->narrow == GALE_I8 ? 16 : 8; }
static inline bool gale__schedule_matrix_along_k(const gale__schedule *s, int which)
{
    return s->fast[which] || s->narrow == GALE_I8;
}
/* MATRIX: the instruction whose value, rounded to `narrow`, the operand is; and the access when it is a plain load,
 * else -1. */
int gale__schedule_matrix_core(const gale__nest *nest, int operand);
int gale__schedule_matrix_access(const gale__nest *nest, int operand);
/* MATRIX: threads of a group that copy operands. */
uint32_t gale__schedule_matrix_copiers(const gale__schedule *s);
/* MATRIX: whether a thread keeps to its columns while results are stored. */
bool gale__schedule_matrix_columns(const gale__schedule *s);
/* MATRIX: how the operands can be maps: 0: not; both have rows along k, or the first is a window over pictures
 * (schedule_matrix_maps.c). */
enum { GALE__MAPS_ROWS = 1, GALE__MAPS_WINDOW };
int gale__matrix_find_maps(const gale__nest *nest, const gale__contraction *c, const gale__schedule *s);
/* MATRIX, groups: the tile that takes the least time (schedule_matrix_tiles.c). */
typedef struct gale__group_tile {
    uint16_t m, n;
    uint8_t split; /* as in gale__schedule */
} gale__group_tile;
gale__group_tile gale__matrix_group_tile(
    const gale__contraction *c, const gale__schedule *s, int64_t units, bool maps, bool splits);
/* How many vectors of four each of the 2 m threads finishes when groups that share k have added up their sums; 0: they
 * would not be rows of the tile. */
int gale__matrix_split_steps(const gale__group_tile *t);
/* MATRIX: the dimension along which results are stored by vectors. */
int gale__schedule_matrix_vector_dim(const gale__nest *nest, const gale__schedule *s, const gale__contraction *c);

/* Choices (schedule_choose.c). */
void gale__schedule_choose_map(const gale__nest *nest, const gale_device_caps *caps, gale__schedule *s);
void gale__schedule_choose_reduce(
    const gale__nest *nest, const gale_device_caps *caps, gale__schedule *s); /* ROW or COLUMN */
/* Both: want NULL: the fastest by estimate, false: better not. */
bool gale__schedule_choose_tile(
    const gale__nest *nest, const gale_device_caps *caps, const gale__schedule_want *want, gale__schedule *s);
bool gale__schedule_choose_matrix(
    const gale__nest *nest, const gale_device_caps *caps, const gale__schedule_want *want, gale__schedule *s);
/* Cycles that TILE would take; infinite where it does not fit. */
double gale__schedule_tile_cycles(
    const gale__nest *nest, const gale__contraction *c, const gale_device_caps *caps, const gale__schedule *s);
/* Along which dimension an operand's loads find neighbours, and how many at once. */
void gale__schedule_choose_operand(const gale__nest *nest, const gale__contraction *c, gale__schedule *s, int which);
/* COLUMN's work, with its vector and group, where windows overlap and there are enough of them. */
bool gale__schedule_choose_window(const gale__nest *nest, const gale_device_caps *caps, gale__schedule *s);
bool gale__schedule_choose_interleave(const gale__nest *nest, const gale_device_caps *caps, gale__schedule *s);
bool gale__schedule_choose_transpose(const gale__nest *nest, const gale_device_caps *caps, gale__schedule *s);

gale_status gale__schedule_build_loops(
    const gale__nest *nest, const gale__schedule *s, gale__ir *ir); /* MAP, ROW, COLUMN */
gale_status gale__schedule_build_tile(const gale__nest *nest, const gale__schedule *s, gale__ir *ir);
gale_status gale__schedule_build_matrix(const gale__nest *nest, const gale__schedule *s, gale__ir *ir);
gale_status gale__schedule_build_interleave(const gale__nest *nest, const gale__schedule *s, gale__ir *ir);
gale_status gale__schedule_build_window(const gale__nest *nest, const gale__schedule *s, gale__ir *ir);
gale_status gale__schedule_build_transpose(const gale__nest *nest, const gale__schedule *s, gale__ir *ir);
#endif
