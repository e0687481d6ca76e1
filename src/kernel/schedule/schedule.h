/* Schedules: how a loop nest is laid over the threads of a GPU, and the kernel that follows from it.
 *
 * Use: canonicalize the nest, choose a schedule, look its key up, build the kernel when the key is new, and launch it
 * with the words and the grid of this nest.  Nests with equal keys have the same kernel text; only their words differ.
 *
 *     gale__nest_canonicalize(&nest);
 *     gale__schedule_choose(&nest, caps, &s);
 *     gale__schedule_params(&nest, &s, &key, words, &n);
 *     gale__schedule_build(&nest, &s, name, &ir);      // where the key is new; then print and compile
 *     gale__schedule_grid(&nest, &s, groups);          // launch: pointers as in nest.buffers, then the words
 *
 * Kernels rely on every buffer starting on a 16-byte boundary, and on no written buffer overlapping another one that
 * the nest touches; a buffer may be read and written through accesses that are equal. */
#ifndef GALE_KERNEL_SCHEDULE_H
#define GALE_KERNEL_SCHEDULE_H
#include "device/device.h"
#include "kernel/ir/ir.h"
#include "kernel/nest/nest.h"

typedef enum gale__schedule_kind {
    GALE__SCHEDULE_MAP,    /* no reduction: a thread computes `vector` neighbours, `steps` times */
    GALE__SCHEDULE_ROW,    /* neighbours in memory are inner points: `threads` threads share an outer point */
    GALE__SCHEDULE_COLUMN, /* neighbours in memory are outer points: a thread walks `vector` of them through the inner
                            * dimensions
                            */
    GALE__SCHEDULE_TILE,   /* a contraction in tiles through work-group memory */
    GALE__SCHEDULE_MATRIX, /* a contraction of f16, bf16 or bytes by matrix units */
    GALE__SCHEDULE_TRANSPOSE,  /* a map whose loads and stores run along different dimensions, through work-group memory
                                */
    GALE__SCHEDULE_INTERLEAVE, /* a map with few points along the last dimension: a thread takes all of them for
                                * `vector` neighbours along the one before */
    GALE__SCHEDULE_WINDOW, /* windows that overlap: a thread takes `vector` neighbours `steps` times along `axis`, and
                            * loads what their windows share once */
} gale__schedule_kind;

/* The key takes the bytes of this struct: there is no padding in it. */
typedef struct gale__schedule {
    uint8_t kind;
    uint8_t index64;  /* addresses and counts need 64 bits */
    uint8_t vector;   /* 1, 2, 4, 8: contiguous elements that a thread processes at once */
    uint8_t steps;    /* unrolled repetitions of `vector`; MATRIX: rows of results stored at once; TILE: sets of threads
                         that share k (split-K within a group) */
    uint8_t resident; /* ROW, COLUMN: threads * vector * steps cover the inner points: each is computed once and stays
                         in registers */
    uint8_t exact;    /* they cover them exactly, so no bounds are checked */
    uint8_t tail;     /* MAP: the last vector of the vector dimension is partial */
    uint8_t shuffle;  /* threads whose values are exchanged by SHUFFLE_XOR; 0: work-group memory alone */
    uint16_t threads; /* ROW, COLUMN: threads that share an outer point (a power of two) */
    uint16_t rows;    /* outer points (MAP, COLUMN: vectors of them) that a group processes at once; MATRIX: sets of
                         subgroups that share k */
    uint16_t micro_n; /* columns of the micro-tile; micro_m has its rows */
    uint16_t tile_m, tile_n; /* TILE, MATRIX: tile of a group; TRANSPOSE: tile_m x tile_n; INTERLEAVE: tile_n points
                                along the last  dimension */
    uint16_t tile_k;         /* TILE, MATRIX: length of a step along k */
    uint8_t micro_m;         /* rows of the micro-tile: TILE: of a thread; MATRIX: of a subgroup, in multiples of 16 */
    uint8_t team;    /* MATRIX, relay: both computing sets share one tile instead of alternating between tiles */
    uint8_t swap;    /* TILE, MATRIX: operand b provides the rows and a the columns, so that stores are contiguous along
                        the columns */
    uint8_t fast[2]; /* by operand: loads are contiguous along k (1) or along rows or columns (0); wide: their vector
                        width */
    uint8_t wide[2];
    uint8_t axis;   /* TRANSPOSE: the dimension loads run along; WINDOW: along which windows slide: micro_n points of it
                       are as far as micro_m points of the last inner one, which has tile_k */
    uint8_t unroll; /* TILE: the loop over a step along k is unrolled (1) or must not be (2); MATRIX: the loop over all
                       steps, which fill all stages but one, is unrolled */
    uint8_t math;   /* gale__ir_math_flags */
    uint8_t once;   /* bit i: buffer i is larger than caches, and each element is read once */
    uint8_t settled; /* bit i: buffer i is complete before the preceding kernel begins, and is read early (READY) */
    uint8_t lanes;   /* MATRIX: threads of a subgroup */
    uint8_t stages;  /* MATRIX: pipeline depth: parts of both operands in work-group memory, of which one is used while
                        the others are loaded */
    uint8_t
        narrow;     /* MATRIX: type of the operands in work-group memory: GALE_F16 or GALE_BF16; GALE_I8: bytes, each
                       operand signed or unsigned, stored along k; GALE_F32: three bf16 shares whose sum is the number */
    uint8_t groups; /* MATRIX: four subgroups multiply together from work-group memory (GROUP_ADD, wgmma) */
    uint8_t direct; /* MATRIX, groups: columns are permuted in work-group memory such that each thread holds eight
                       contiguous results of a row, and finishes and stores them from its registers */
    uint8_t slice;  /* MATRIX: rows of a subgroup's results that are stored through work-group memory at once */
    uint8_t async;  /* MATRIX: bit 0 rows, bit 1 columns: the operand is copied asynchronously, 16 bytes at once;
                       GALE__ASYNC_HELD: emulated by a load and, a step later, a store, on devices without asynchronous
                       copies */
    uint8_t few;    /* MATRIX: bit 0 rows, bit 1 columns: those past the end of the last tile are not loaded;
                       GALE__WHOLE_*: they are whole tiles */
    uint8_t maps;   /* MATRIX, groups: operands are fetched as maps, by one thread (GALE__MAPS_*) */
    uint8_t split;  /* MATRIX, groups: a unit has one group at a time, and so many of them, a cluster, share k: each
                       takes every split-th step, and they add their sums up in the same order, each for a part of the
                       rows of the tile (1: no cluster); 0: a unit has several groups */
    uint8_t keep;   /* MATRIX, relay, maps: steps along k, of all of which the columns' part stays in work-group memory:
                       each group computes tiles of the same columns; 0: it comes again for each tile */
    uint16_t relay; /* MATRIX: persistent groups of the launch, each of which computes several tiles; 0: one group per
                       tile */
} gale__schedule;

#define GALE__ASYNC_HELD 4
#define GALE__WHOLE_ROWS 4
#define GALE__WHOLE_COLUMNS 8
#define GALE__SCHEDULE_WORDS 512 /* most parameter words a kernel takes */

/* A schedule of a contraction by kind and tile size, for measuring (gale tune). */
typedef enum gale__schedule_how {
    GALE__HOW_USUAL,  /* what gale__schedule_choose chooses */
    GALE__HOW_LOOPS,  /* ROW or COLUMN */
    GALE__HOW_TILE,   /* TILE, one set of threads */
    GALE__HOW_SETS,   /* TILE, several of them */
    GALE__HOW_MATRIX, /* MATRIX, each subgroup multiplies alone, in short steps along k */
    GALE__HOW_LONG,   /* the same in longer steps */
    GALE__HOW_GROUPS, /* MATRIX, four subgroups multiply together; prefetches a few steps */
    GALE__HOW_DEEP,   /* the same; prefetches as many steps as work-group memory allows */
    GALE__HOW_HALVES, /* the same, with two, four or eight work-groups that share k */
    GALE__HOW_QUARTERS,
    GALE__HOW_EIGHTHS,
    GALE__HOW_RELAY,
    GALE__HOW_TEAM,
    GALE__HOW_KEEP /* RELAY, whose groups keep their columns' operand */
} gale__schedule_how;
typedef struct gale__schedule_want {
    uint8_t how;
    uint16_t m, n;
} gale__schedule_want;
#define GALE__WANT_TEXT 24
/* The i-th schedule of the list; NULL: no more. */
const gale__schedule_want *gale__schedule_want_at(int i);
/* Converts to a name such as "groups 128x96", and back; NULL: unknown name. */
void gale__schedule_want_text(const gale__schedule_want *want, char out[GALE__WANT_TEXT]);
const gale__schedule_want *gale__schedule_want_find(const char *text);
/* False if the schedule does not fit the nest or the device. */
bool gale__schedule_choose_as(
    const gale__nest *nest, const gale_device_caps *caps, const gale__schedule_want *want, gale__schedule *out);

/* Fails with GALE_LIMIT if the nest exceeds the limits of a kernel (inner points >= 2^31, too many words). */
gale_status gale__schedule_choose(const gale__nest *nest, const gale_device_caps *caps, gale__schedule *out);
/* Makes the kernel; `ir` is initialised here, and the caller finishes it (nothing to finish on failure). */
gale_status gale__schedule_build(const gale__nest *nest, const gale__schedule *s, const char *name, gale__ir *ir);
/* Appends the shape class to `key` (equal bytes mean equal kernels), and writes the words of a launch, for which there
 * must be room for GALE__SCHEDULE_WORDS.  Each may be NULL. */
gale_status gale__schedule_params(
    const gale__nest *nest, const gale__schedule *s, gale__str *key, uint32_t *words, int *n_words);
/* Words by which kernels divide n < 2^31 by d: n / d = (mulhi(n, words[1]) + n) >> words[2]; words[0]: d itself. */
void gale__schedule_divisor(int64_t d, uint32_t words[3]);
/* The maps of a launch; returns how many there are. */
int gale__schedule_maps(const gale__nest *nest, const gale__schedule *s, gale__matrix_map out[GALE__LAUNCH_MAPS]);
void gale__schedule_grid(const gale__nest *nest, const gale__schedule *s, uint32_t groups[3]);
/* Threads of a group: the `group` of the built kernel. */
void gale__schedule_group(const gale__schedule *s, uint32_t group[3]);

/* "row", for names; and for reports, with the instruction that matrix units have on this device. */
const char *gale__schedule_name(const gale__schedule *s);
const char *gale__schedule_describe(const gale__schedule *s, const gale_device_caps *caps);
/* Whether a product is large enough for four subgroups together, either side being the rows; `maps`: and its operands
 * can be maps. */
bool gale__schedule_groups_pay(int64_t m, int64_t n, int64_t k, bool maps);
/* Whether one operand is so large that reading it takes longer than any product with a single row. */
bool gale__schedule_large_operand(int64_t m, int64_t n, int64_t k);
/* Bytes of work-group memory: of the operands' parts and of the results on their way out, which may be where the parts
 * did.  MATRIX only. */
void gale__schedule_matrix_shared(const gale__schedule *s, uint32_t *parts, uint32_t *results);
#endif
