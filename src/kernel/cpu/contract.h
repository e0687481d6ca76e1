/* The contraction schedule: matrix products, and convolutions as products of panels that are gathered as they are
 * packed.
 *
 * Both operands may be any expressions; they are evaluated by the interpreter into
 * panels (mr rows of one, nr of the other, k side by side), tiles of the result are summed in registers, and what
 * follows the reduction runs over each tile while it is in the cache. */
#ifndef GALE_KERNEL_CPU_CONTRACT_H
#define GALE_KERNEL_CPU_CONTRACT_H
#include "kernel/cpu/channel.h"
#include "kernel/cpu/finish.h"
#include "kernel/cpu/interp.h"
#include "kernel/cpu/narrow.h"
#include "kernel/cpu/requant.h"
#include "kernel/cpu/scratch.h"
#include "kernel/cpu/winograd.h"

/* One operand: its expression, and the dimensions that its rows walk. */
typedef struct gale__cpu_operand {
    gale__cpu_tape tape;
    gale__cpu_section section;
    int out;      /* register of the value */
    bool along_k; /* lanes walk k rather than rows */
    gale__cpu_span rows;
    int width; /* rows of a panel: mr or nr */
    gale__cpu_narrow narrow;
    bool sums; /* panels come with the sums of their rows */
} gale__cpu_operand;

/* Blocks of lanes whose band is cut into shares (shares_window.c): rows of one map, some columns of a single row, or
 * several maps.  A plane of the band holds, for each phase of the strides down and across, all its rows. */
typedef struct gale__cpu_bands {
    int64_t maps, rows, columns;        /* lanes of a block */
    int64_t blocks, across, down;       /* blocks in all, in a row, in a column */
    int64_t high, pitch, phases, plane; /* rows of a map, places of a row and phases down; a plane in elements */
    int64_t lanes;                      /* from the first to the last, in whole tiles */
    int64_t parts, part_rows;           /* of the rows of the result */
    bool upright;                       /* pixels are rows of tiles: taps find these on lines of the cache */
    size_t bytes;                       /* of a band */
    int32_t *offset;                    /* bytes of each tap */
} gale__cpu_bands;

enum { GALE__CPU_PANELS_BUFFERS = 64 }; /* of a nest whose panels are made once, at most */

typedef struct gale__cpu_contract {
    const gale__nest *nest;
    gale__simd_type sum_type; /* type of the sums */
    size_t size;              /* its bytes */
    gale__simd_gemm gemm;
    bool narrow;            /* both operands are (narrow.h) */
    bool shares;            /* both are cut into three bf16 (contract_shares.c) */
    int64_t group;          /* steps of k that are adjacent in a panel */
    size_t unit;            /* their bytes */
    gale__cpu_operand a, b; /* a: the rows of the result's tiles; b: its lanes */
    gale__cpu_tape tail;    /* what follows the reduction */
    gale__cpu_section tail_section;
    int sum;                   /* its register of the reduction's value */
    gale__cpu_requant requant; /* in place of the tape, where that is what follows */
    gale__cpu_finish finish;   /* the same */
    bool transposed;           /* of rows of lanes: the result's rows are lanes, since a map is smaller than a panel */
    gale__cpu_span batch, k;
    int64_t kc, mc, tile_lanes, packed_lanes; /* k of a panel; rows and lanes of a tile; lanes packed at a time */
    int64_t groups, group_len;                /* k in parts that run side by side; 1: whole */
    bool by_batch;                            /* batches run side by side, each on one thread */
    gale__cpu_window window;                  /* how b's lanes are read, where that is better than packing them */
    gale__cpu_channel channel;                /* each batch by one row of weights; the window is the lanes' */
    gale__cpu_bands bands;                    /* of lanes in shares; 0 blocks: none */
    gale__cpu_winograd winograd;              /* fewer multiplications; a's panels hold transformed weights */
    gale__cpu_panels panels;                  /* of b, made before; none: each run packs them */
    gale__cpu_panels a_panels;                /* of a, for every batch that has its own; one of the two at most */
    gale__cpu_span joint; /* rows and lanes of a block that is whole, for what follows short rows; count 0: none */
    size_t private_bytes, shared_bytes;
    int shared_pieces;
} gale__cpu_contract;
static inline int64_t gale__cpu_contract_units(const gale__cpu_contract *c, int64_t k)
{
    if (c->shares) /* those of kc steps are filled up */
        return k / c->kc * ((c->kc + c->group - 1) / c->group) + (k % c->kc + c->group - 1) / c->group;
    return k == c->k.count && c->window.units ? c->window.units : (k + c->group - 1) / c->group;
}
/* Bytes of k steps of one row of a panel. */
static inline size_t gale__cpu_contract_steps(const gale__cpu_contract *c, int64_t k)
{
    return (size_t)gale__cpu_contract_units(c, k) * c->unit;
}
/* Bytes of the panels of so many rows (whole panels), and of their sums: those of each kc steps one after the other. */
static inline size_t gale__cpu_contract_panel_bytes(
    const gale__cpu_contract *c, const gale__cpu_operand *o, int64_t rows)
{
    size_t sums = o->sums ? (size_t)((c->k.count + c->kc - 1) / c->kc) * sizeof(int32_t) : 0;
    return (size_t)rows * (gale__cpu_contract_steps(c, c->k.count) + sums);
}
/* Sums of the rows over the kc steps from k on, in such panels; NULL: there are none. */
static inline int32_t *gale__cpu_contract_sums(
    const gale__cpu_contract *c, const gale__cpu_operand *o, const char *panels, int64_t rows, int64_t k)
{
    const char *at = panels + (size_t)rows * gale__cpu_contract_steps(c, c->k.count);
    return o->sums ? (int32_t *)(uintptr_t)at + k / c->kc * rows : NULL;
}
/* Scratch memory of a kind, for this contraction. */
static inline gale__cpu_scratch_kind gale__cpu_contract_scratch(
    const gale__cpu_contract *c, gale__cpu_scratch_kind kind)
{
    if (!c->shares) return kind;
    return kind == GALE__CPU_SCRATCH_SHARED ? GALE__CPU_SCRATCH_SHARED_BITS : GALE__CPU_SCRATCH_PRIVATE_BITS;
}
/* False where the direct schedules serve better. */
bool gale__cpu_contract_fits(const gale__nest *nest, gale__contraction *info);
gale_status gale__cpu_contract_init(gale__cpu_contract *c, const gale__nest *nest, const gale__contraction *info);
void gale__cpu_contract_finish(gale__cpu_contract *c);
/* Parts of it: tapes of an operand, and of what follows. */
gale_status gale__cpu_contract_make_operand(gale__cpu_contract *c, gale__cpu_operand *o, int value);
gale_status gale__cpu_contract_make_tail(gale__cpu_contract *c, const gale__contraction *info);
void gale__cpu_contract_run(const gale__cpu_contract *c, void *const *buffers, bool aliased);
void gale__cpu_contract_make_panels(const gale__cpu_contract *c, void *from, void *to);
void gale__cpu_window_run(const gale__cpu_contract *c, void *const *buffers, bool aliased);
/* Where bands begin in memory that tasks share: after the panels of a, unless these were packed before. */
size_t gale__cpu_window_shared_at(const gale__cpu_contract *c);
void gale__cpu_channel_run(const gale__cpu_contract *c, void *const *buffers, bool aliased);
size_t gale__cpu_channel_bytes(const gale__cpu_contract *c); /* scratch of a task */
void gale__cpu_winograd_run(const gale__cpu_contract *c, void *const *buffers, bool aliased);
void gale__cpu_winograd_bytes(const gale__cpu_contract *c, size_t *private_bytes, size_t *shared_bytes); /* scratch */
/* Transformed weights of one batch, and where those of each begin. */
size_t gale__cpu_winograd_weights_bytes(const gale__cpu_contract *c);
size_t gale__cpu_winograd_weights_at(const gale__cpu_contract *c, int64_t batch);
void gale__cpu_winograd_make(const gale__cpu_contract *c, const void *from, void *to);
/* Rows [r0, r0 + rows) of an operand as panels of kn steps from k0 on; temp: gale__cpu_contract_temp bytes; sums: of
 * the rows, where the operand has them. */
size_t gale__cpu_contract_temp(const gale__cpu_contract *c);
/* Tells panels of a constant from others of it, which other kernels read. */
uint64_t gale__cpu_contract_panels_key(
    const gale__cpu_contract *c, const gale__nest_access *x, const gale__cpu_operand *o, const gale__cpu_span *batch);
void gale__cpu_contract_pack(const gale__cpu_contract *c, const gale__cpu_operand *o, gale__cpu_frame *f, int64_t r0,
    int64_t rows, int64_t k0, int64_t kn, char *temp, char *out, int32_t *sums);
/* Parts of it: rows along k as they are, in memory or in temp, `pitch` elements apart; and panels of lanes. */
const char *gale__cpu_contract_gather(const gale__cpu_contract *c, const gale__cpu_operand *o, gale__cpu_frame *f,
    int64_t r0, int64_t n, int64_t k0, int64_t kn, char *temp, size_t *pitch);
void gale__cpu_contract_deal(const gale__cpu_contract *c, const gale__cpu_operand *o, gale__cpu_frame *f, int64_t r0,
    int64_t rows, int64_t k0, int64_t kn, char *out);
/* The same in shares: whether these are faster, how they are packed, and tile = (or +=, unless first) the product of
 * panels over kn steps; plain: multiplied as f32. */
bool gale__cpu_shares_wanted(bool faster); /* on this processor, as the environment says */
/* Nanoseconds of a weight, which comes from far memory as 6 bytes instead of 4, each time it is read. */
#define GALE__SHARES_WEIGHT_NS 0.25
double gale__cpu_shares_ns(int64_t m, int64_t n, int64_t k); /* by a constant; infinite: other kernels are faster */
/* Rows and lanes of tiles that take the least time on so many threads. */
void gale__cpu_shares_divide(int64_t m, int64_t n, int64_t k, int64_t width, int64_t *rows, int64_t *lanes);
bool gale__cpu_shares_fit(const gale__cpu_contract *c, const gale__contraction *info, bool turned);
gale__simd_key gale__cpu_shares_key(void);
size_t gale__cpu_shares_temp(const gale__cpu_contract *c);
void gale__cpu_shares_pack(const gale__cpu_contract *c, const gale__cpu_operand *o, gale__cpu_frame *f, int64_t r0,
    int64_t rows, int64_t k0, int64_t kn, char *temp, char *out);
void gale__cpu_shares_multiply(const gale__cpu_contract *c, char *tile, const char *a, const char *b, int64_t rows,
    int64_t lanes, int64_t kn, bool first, bool plain);
/* Convolutions in shares: whether these are faster, their blocks, and a run; after the choice of blocks rows and lanes
 * are as everywhere. */
double gale__cpu_bands_point_ns(
    int64_t channels, int64_t pixels, int64_t k); /* of a 1 x 1 convolution; infinite: other kernels are faster */
bool gale__cpu_bands_fit(gale__cpu_contract *c, const gale__contraction *info, bool turned);
gale_status gale__cpu_bands_init(gale__cpu_contract *c);
size_t gale__cpu_bands_private(const gale__cpu_contract *c); /* scratch of a task */
void gale__cpu_bands_run(const gale__cpu_contract *c, void *const *buffers, bool aliased);
/* Panels of a: kc steps at a time, all rows of those steps; rows in whole panels.  Packed for one batch, on all cores.
 */
int64_t gale__cpu_contract_padded_rows(const gale__cpu_contract *c);
void gale__cpu_contract_pack_rows(
    const gale__cpu_contract *c, void *const *buffers, bool aliased, int64_t batch, char *to);
/* Where the batch's panels of a begin among those that were made before. */
size_t gale__cpu_contract_rows_at(const gale__cpu_contract *c, int64_t batch);
/* Rows of a tile in memory, each along k (contract_rows.c); false: they must be packed. */
typedef struct gale__cpu_row_view {
    const float *first;
    size_t pitch; /* elements from one to the next */
} gale__cpu_row_view;
bool gale__cpu_contract_open_rows(
    const gale__cpu_contract *c, gale__cpu_frame *f, int64_t m0, int64_t rows, int64_t lanes, gale__cpu_row_view *in);
/* Multiplies them by b's panels over kn steps from k on: sums go to the tile, those of all steps where done says. */
void gale__cpu_contract_run_rows(const gale__cpu_contract *c, const gale__cpu_row_view *in, char *tile, const char *b,
    int64_t rows, int64_t lanes, int64_t k, int64_t kn, const gale__simd_done *done);
/* What follows the reduction, for rows of sums that are `pitch` elements apart; the sums may move. */
void gale__cpu_contract_tail(const gale__cpu_contract *c, gale__cpu_frame *f, int64_t m0, int64_t rows, int64_t n0,
    int64_t lanes, char *sums, int64_t pitch);
#endif
