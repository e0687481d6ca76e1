/* Contractions whose lanes read memory in place: convolutions of any kind, and products whose other factor is short.
 *
 * The lanes' operand is one load.  A block of lanes reads a band of memory, in which neighbouring lanes and the taps of
 * a window share elements; the band is copied once, with what is outside filled in, and the micro-kernel takes row k
 * of its panel from there by an offset.  So nothing is copied once per tap. */
#ifndef GALE_KERNEL_CPU_WINDOW_H
#define GALE_KERNEL_CPU_WINDOW_H
#include "kernel/cpu/narrow.h"
#include <string.h>

/* Lanes of one dimension, and the taps of the dimension of k that moves over the same places: lane l with tap t is at
 * place l * step + t * hop. */
typedef struct gale__cpu_axis {
    int lane, tap;
    int64_t lanes, taps, step, hop, unit;
} gale__cpu_axis; /* lane, tap: dimensions, -1: none; unit: elements between places */

typedef struct gale__cpu_window {
    const gale__nest_access *access;     /* NULL: no window */
    gale__simd_fn *widen;                /* NULL: memory holds what is multiplied */
    int size;                            /* logarithm of the bytes of an element in memory */
    gale__cpu_axis y, x;                 /* of the two fastest dimensions of lanes */
    gale__cpu_span far, rest;            /* the other dimensions of lanes, and of k */
    int64_t rows, columns, padded;       /* lanes of a block; columns in whole panels, unless flat */
    int64_t block_lanes;                 /* all lanes of a block, in whole panels */
    bool flat;                           /* panels cross rows: they are packed from the band */
    bool whole;                          /* then all panels of a block at once, for tiles */
    bool upright;                        /* vectors are rows of the result (simd_upright.c): bands as in memory */
    bool sparse;                         /* upright tiles of the lanes that each tap finds inside, in memory */
    bool pointwise;                      /* they are packed from memory: there is no band */
    int64_t group, packed;               /* panels that are packed together, and their elements */
    int64_t phases, phase, pitch, plane; /* of the band, in elements: a row is its places modulo phases, each so long */
    int64_t row_blocks, column_blocks, parts, part_rows; /* parts: of the rows of the result */
    size_t band_bytes;
    /* Where a block has several parts: bytes of its band, and of all its panels if they are packed, in memory that its
     * tasks share; 0: each task has its own. */
    size_t shared_band, shared_panels;
    int32_t *offset;   /* of each k in the band */
    int32_t *fetch;    /* the same of what is fetched meanwhile, for the steps of the next plane */
    int32_t *in_panel; /* of each k in a packed panel, for tiles of fewer lanes; NULL: there are none */
    int32_t *direct;   /* of each k in memory, for lanes that are adjacent there and need no band; NULL: they do */
    int64_t direct_most;
    size_t temp_bytes; /* for filling the band */
    /* Of narrow operands the band's elements are units: `steps` neighbours along dimension `channel` of k; or, where
     * channels do not fill units, `steps` neighbouring places of a row from the lane's on, `across` such units for
     * all its taps. */
    int channel;
    int64_t steps, across;          /* across: 0: channels */
    int64_t reads, together, units; /* reads: such units of all steps of k; units: `together` of them, rounded up */
    int32_t *order;                 /* step of k at each place of the units, -1: none; NULL: as they come */
} gale__cpu_window;
static inline int64_t gale__cpu_window_places(const gale__cpu_axis *a, int64_t lanes)
{
    return (lanes - 1) * a->step + (a->taps - 1) * a->hop + 1;
}
/* The operand `value` as a window of lanes and k; false where it is none. */
bool gale__cpu_window_find(gale__cpu_window *w, const gale__nest *nest, int value, const gale__cpu_span *lanes,
    const gale__cpu_span *k, gale__simd_type ct);
/* The same for a load, however its elements are used. */
bool gale__cpu_window_find_load(gale__cpu_window *w, const gale__nest *nest, const gale__nest_access *a,
    const gale__cpu_span *lanes, const gale__cpu_span *k);
/* The same of a narrow operand's load, in units of `steps`, which a panel holds in multiples of `together`; false where
 * neither channels nor taps fill them. */
bool gale__cpu_window_find_units(gale__cpu_window *w, const gale__nest *nest, const gale__nest_access *a,
    const gale__cpu_span *lanes, const gale__cpu_span *k, int64_t steps, int64_t together);
/* Where taps reach far beyond a map: these become the slow dimensions of k, and kc, `most` at most, divides the others,
 * so that taps are taken one by one, each for the lanes that it finds inside. */
void gale__cpu_window_sort_taps(
    gale__cpu_window *w, const gale__nest *nest, gale__cpu_span *k, int64_t most, int64_t *kc);
/* Chooses blocks for m rows of results, and makes the offsets; an access of NULL when no block is small enough.  The
 * sizes of the micro-kernel's tiles become those of upright ones where these are used. */
gale_status gale__cpu_window_init(gale__cpu_window *w, const gale__cpu_span *k, int64_t kc, int64_t m, int64_t batches,
    gale__simd_gemm *gemm, size_t size);
/* The blocks and the form of their tiles, for m rows of k steps; *gemm becomes the chosen tiles' sizes. */
enum { GALE__WINDOW_SEGMENTS = 64 }; /* most rows of a panel that crosses rows */
void gale__cpu_window_choose(
    gale__cpu_window *w, int64_t k, int64_t kc, int64_t m, int64_t batches, gale__simd_gemm *gemm, size_t size);
/* Bytes of a panel's units; size: of an element of the band. */
static inline size_t gale__cpu_window_unit(const gale__cpu_window *w, size_t size)
{
    return size * (size_t)w->together;
}
/* Taps of a plane together fetch all that those of the next plane read for a tile: planes are too far apart for the
 * processor to follow, and sums whose factors are not in the first cache are begun twice. */
gale_status gale__cpu_window_make_fetches(gale__cpu_window *w, const gale__cpu_span *k, int nr);
void gale__cpu_window_finish(gale__cpu_window *w);
/* Whether lanes are one row of memory, and those of each step of k near those of the step before. */
bool gale__cpu_window_is_near(const gale__cpu_window *w);
static inline int64_t gale__cpu_window_blocks(const gale__cpu_window *w)
{
    return w->far.count * w->row_blocks * w->column_blocks;
}
/* Panels [first, first + count) of a block of so many columns, kn steps from k0 on, one after the other; of units all
 * of them. */
void gale__cpu_window_pack(const gale__cpu_window *w, const char *band, int64_t columns, int64_t lanes, int64_t first,
    int64_t count, int64_t k0, int64_t kn, int64_t nr, size_t size, char *to);
/* The same from memory, at the block's first lane. */
void gale__cpu_window_pack_points(const gale__cpu_window *w, const gale__cpu_narrow *narrow, const gale__simd *simd,
    const char *memory, int64_t lanes, int64_t first, int64_t count, int64_t nr, char *to);
/* A row of places: where it begins in memory, and each guard's value there. */
typedef struct gale__cpu_window_row {
    int64_t address, guard[GALE__GUARDS];
} gale__cpu_window_row;
/* The row at place y of the slow axis, from place x of the fast one on; at: as below. */
void gale__cpu_window_seek(
    const gale__cpu_window *w, const int64_t *at, int n_dims, int64_t y, int64_t x, gale__cpu_window_row *r);
void gale__cpu_window_next(const gale__cpu_window *w, gale__cpu_window_row *r);
/* Which of n places, w->phases apart, from place p of a row on are inside: [*lo, *hi); *from: where the first of them
 * is. */
void gale__cpu_window_inside(const gale__cpu_window *w, const gale__cpu_window_row *r, int64_t p, int64_t n,
    int64_t *lo, int64_t *hi, int64_t *from);
/* Copies those places; places outside get the fill value of the access. */
void gale__cpu_window_copy(const gale__cpu_window *w, const gale__simd *simd, const char *memory,
    const gale__cpu_window_row *r, int64_t p, int64_t n, char *to);
/* What of a band is copied: the block's first lanes, and which of the planes of `rest`. */
typedef struct gale__cpu_window_piece {
    int64_t row, column, first, count;
} gale__cpu_window_piece;
/* Copies a piece of a block's band, in elements of `size` bytes, or in units where the operand is narrow (else NULL);
 * at: coordinates of the batch and the far lanes, others 0; temp: temp_bytes. */
void gale__cpu_window_fill(const gale__cpu_window *w, const gale__cpu_narrow *narrow, const gale__simd *simd,
    const char *memory, const int64_t *at, int n_dims, gale__cpu_window_piece piece, char *band, char *temp,
    size_t size);
/* Places of a row that units of taps are made of; even, as 16-bit elements follow that many bytes. */
static inline int64_t gale__cpu_window_row_places(const gale__cpu_window *w)
{
    int64_t places = (w->padded - 1) * w->x.step + w->across * w->steps;
    return places + places % 2;
}
/* A row of places of one phase: where it goes, how many of its first are outside, how many inside, and where these
 * come from. */
typedef gale__simd_strip_of gale__cpu_window_strip;
/* A plane of a band in units, by strips, where it is woven from four channels; else by rows: `need` of them, of so many
 * columns, from r on.  temp: gale__cpu_window_units_temp bytes. */
bool gale__cpu_window_is_woven(const gale__cpu_window *w, const gale__simd *simd);
void gale__cpu_window_weave(const gale__cpu_window *w, const gale__cpu_narrow *narrow, const gale__simd *simd,
    const char *memory, const gale__cpu_window_strip *s, int n, char *band, char *temp);
void gale__cpu_window_fill_units(const gale__cpu_window *w, const gale__cpu_narrow *narrow, const gale__simd *simd,
    const char *memory, gale__cpu_window_row r, int64_t need, int64_t columns, char *band, char *temp, size_t unit);
size_t gale__cpu_window_units_temp(const gale__cpu_window *w);
/* Rows are often shorter than it takes to call a function. */
static inline void gale__cpu_copy_floats(float *to, const float *from, int64_t n)
{
    int64_t i = 0;
    if (n > 64) {
        memcpy(to, from, (size_t)n * sizeof *to);
        return;
    }
    for (; i + 4 <= n; i += 4) memcpy(to + i, from + i, 16);
    if (i < n && n >= 4) memcpy(to + n - 4, from + n - 4, 16);
    else
        for (; i < n; i++) to[i] = from[i];
}
#endif
