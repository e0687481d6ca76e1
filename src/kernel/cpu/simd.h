/* The loops that the CPU interpreter is made of: one table of functions per instruction set, every one a tight loop
 * over a block.  Values are held in compute types: f32, f64, 32- and 64-bit integers, and truth values as bytes 0 or 1.
 * Blocks may be the same memory, never shifted against one another. */
#ifndef GALE_KERNEL_CPU_SIMD_H
#define GALE_KERNEL_CPU_SIMD_H
#include "kernel/nest/nest.h"

typedef enum gale__simd_type {
    GALE__SIMD_TYPE_BOOL,
    GALE__SIMD_TYPE_I32,
    GALE__SIMD_TYPE_U32,
    GALE__SIMD_TYPE_I64,
    GALE__SIMD_TYPE_U64,
    GALE__SIMD_TYPE_F32,
    GALE__SIMD_TYPE_F64,
    GALE__SIMD_TYPE_COUNT
} gale__simd_type;

typedef void gale__simd_fn(void *d, const void *a, const void *b, const void *c, size_t n);
typedef void gale__simd_triple(void *d, const void *a, const void *b, const void *c, float e, size_t n);
typedef void gale__simd_activate(float *x, size_t n, size_t rows, int64_t pitch); /* n of each row */
typedef void gale__simd_fold(void *acc, const void *a, size_t n);
typedef void gale__simd_dot(void *acc, const void *a, const void *b, size_t n);
/* Lane by lane: where a[i] beats best[i], it and its place (places[i], or k when places is NULL) are kept; index -1:
 * nothing yet. */
typedef void gale__simd_arg(void *best, int64_t *index, const void *a, const int64_t *places, int64_t k, size_t n);
/* The same along the block, whose first element has place k. */
typedef void gale__simd_arg_fold(void *best, int64_t *index, const void *a, int64_t k, size_t n);
/* c[mr][nr] (row length ldc) += a[k][mr] * b[k][nr]: packed panels, k steps. */
typedef void gale__simd_tile(void *c, size_t ldc, const void *a, const void *b, size_t k);
/* The same, row k of b being b + offset[k] elements. */
typedef void gale__simd_tile_at(void *c, size_t ldc, const void *a, const void *b, const int32_t *offset, size_t k);
/* Where a tile of f32 goes at once: out = min(max((start + its sums + bias) scale + also + other, lo), hi). */
typedef struct gale__simd_done {
    float *out;
    const float *start, *bias, *scale, *also,
        *other; /* start: the sums of the steps before; each may be NULL, but bias only of upright tiles */
    int64_t out_pitch, start_pitch, bias_pitch, scale_pitch, also_pitch, other_pitch; /* from one row to the next */
    float lo, hi;
    int64_t rows, lanes; /* no others are written, nor read but from start */
    bool ahead;  /* b is fetched GALE__SIMD_AHEAD steps before its use; there are offsets for as many more steps */
    bool padded; /* all nr lanes of b may be read */
} gale__simd_done;
enum { GALE__SIMD_AHEAD = 32 };
typedef void gale__simd_done_at(
    const gale__simd_done *d, const void *a, const void *b, const int32_t *offset, size_t k);
/* The same of rows of a that are `pitch` elements apart and along k, as many as the part has, by a panel of nr lanes.
 */
typedef void gale__simd_done_rows(const gale__simd_done *d, const void *a, size_t pitch, const void *b, size_t k);
/* nr lanes; fewer; `slim` or fewer; fewer, padded: AVX2 has no registers left for masks while it computes. */
enum { GALE__DONE_FULL, GALE__DONE_SOME, GALE__DONE_SLIM, GALE__DONE_PADDED, GALE__DONES };
/* One that computes the first `rows` of mr rows only, for the last rows of a product, to the same bits. */
typedef struct gale__simd_part {
    int rows;
    gale__simd_tile *tile;
    gale__simd_tile_at *tile_at;
    gale__simd_tile_at *slim_at;              /* the first `slim` lanes only; NULL: there is none */
    gale__simd_done_at *done_at[GALE__DONES]; /* NULL: there are none */
    gale__simd_done_rows *done_rows;          /* NULL: there is none */
    gale__simd_tile *fresh;                   /* c = a b; NULL: there is none */
} gale__simd_part;
enum { GALE__SIMD_PARTS = 4, GALE__SIMD_GEMMS = 24 };
/* What a micro-kernel multiplies: types of the elements in the panels of a and b, the type of the sums, and how many
 * steps of k are adjacent in a panel (1; 2 or 4 for instructions that add products of bf16, 4 or 8 for bytes; a row
 * of 64 bytes for those that multiply tiles).
 * Such steps are one unit: k and offsets count units then. */
typedef struct gale__simd_key {
    uint8_t a, b, sum, group;
} gale__simd_key;
typedef struct gale__simd_gemm {
    gale__simd_key key;
    uint64_t needs; /* features (base/cpu.h) beyond those of its build */
    int mr, nr;
    int slim;    /* lanes of slim_at; 0: there is none */
    int b_group; /* tiles: steps side by side in b's panels, whose units come in whole rows of a's; 0: as in a's */
    gale__simd_part part[GALE__SIMD_PARTS]; /* fewest rows first; the last one mr */
    void (*open)(void), (*close)(void);     /* a thread's state, around any number of tiles; NULL: there is none */
} gale__simd_gemm;
static inline void gale__simd_gemm_open(const gale__simd_gemm *g)
{
    if (g->open) g->open();
}
static inline void gale__simd_gemm_close(const gale__simd_gemm *g)
{
    if (g->close) g->close();
}
/* The least that does for so many rows, mr at most. */
static inline const gale__simd_part *gale__simd_part_for(const gale__simd_gemm *g, int64_t rows)
{
    const gale__simd_part *p = g->part;
    while (p->rows < rows && p->rows < g->mr) p++;
    return p;
}

/* Sums of up to 32 rows by up to 14 lanes, as sums[lane][row]: lane l of step k is b[offset[k] + l step],
 * or, in the second half of an even number of lanes, that of the first half `jump` further. */
enum { GALE__UPRIGHT_ROWS = 32, GALE__UPRIGHT_LANES = 14, GALE__UPRIGHT_SUMS = 16 * GALE__UPRIGHT_ROWS };
typedef struct gale__simd_upright {
    int64_t step, jump, a_pitch;   /* a_pitch: rows of a panel */
    const int32_t *offset, *fetch; /* fetch: of each step, what of b is fetched for later ones; where not ahead */
    bool ahead;                    /* as gale__simd_done's */
} gale__simd_upright;
/* more: the steps' sums are added to what is there. */
typedef void gale__simd_upright_sum(
    float *sums, bool more, const gale__simd_upright *u, const float *a, const float *b, size_t k);

/* Windows of two or three columns, two places apart, over so many rows of a map; the first begins `low` places before
 * them. */
enum { GALE__POOL_ROWS = 8 };
typedef struct gale__simd_pool {
    const float *row[GALE__POOL_ROWS];
    int64_t rows, columns, width, low;
} gale__simd_pool;

/* x (min(max(x + 3, 0), 6) / 6), x / (1 + e^-x), 1 / (1 + e^-x), (x / 2) (1 + erf(x / sqrt 2)). */
typedef enum gale__simd_activation {
    GALE__ACTIVATION_HARD_SWISH,
    GALE__ACTIVATION_SWISH,
    GALE__ACTIVATION_SIGMOID,
    GALE__ACTIVATION_GELU,
    GALE__ACTIVATION_COUNT
} gale__simd_activation;

/* x op y, RSUB being y - x. */
typedef enum gale__simd_pair {
    GALE__PAIR_ADD,
    GALE__PAIR_SUB,
    GALE__PAIR_RSUB,
    GALE__PAIR_MUL,
    GALE__PAIR_MAX,
    GALE__PAIR_MIN,
    GALE__PAIR_COUNT
} gale__simd_pair;

/* Units of a recurrent cell: z, x: sums of the state and of the input for each gate, so far apart; before: the h
 * before.
 */
typedef struct gale__simd_cell {
    const float *z, *x, *before, *bias; /* bias: of a GRU's hidden gate, or NULL */
    int64_t pitch, x_pitch;
    float *h, *c; /* c: of an LSTM, before and after */
} gale__simd_cell;

/* rint(((x + start) scale + bias) / by) + zero as a byte, saturated, NaN to 0.  start: a whole number. */
typedef struct gale__simd_requant {
    float scale, bias, by, zero;
    int32_t start;
} gale__simd_requant;

/* rint(((x - x_zero) x_scale + (y - y_zero) y_scale) / by) + zero as a byte, saturated, NaN to 0. */
typedef struct gale__simd_sum {
    float x_scale, y_scale, by, zero;
    int32_t x_zero, y_zero;
} gale__simd_sum;

/* A map that the taps of one channel move over, read in place; places outside count as 0. */
enum { GALE__DEPTH_TAPS = 16, GALE__DEPTH_VECTORS = 32 };
typedef struct gale__simd_depth {
    int64_t pitch, hop_y;             /* from one row to the next, and to the next tap's */
    int64_t width, step, across, hop; /* results of a row; places between them, 1 or 2; taps, and between these */
    int64_t down;                     /* taps down: 3, 5 or 7 */
    uint16_t mask[GALE__DEPTH_TAPS][GALE__DEPTH_VECTORS]; /* which places of each vector are inside, for each tap */
} gale__simd_depth;
/* Rows of its results from y on: x is where the first tap of the first one is, the next tap's a pitch further; rows of
 * the map, from that one on, are inside if they are in [top, bottom).  Those of the next channel are so far away. */
typedef struct gale__simd_strip {
    float *y;
    const float *x, *w, *bias; /* bias: may be NULL */
    int64_t y_pitch, pitch, rows, top, bottom;
    int64_t y_next, x_next, w_next, bias_next;
    float lo, hi;
} gale__simd_strip;

/* Up to 14 pixels by up to 32 channels (16: `lanes` 16 or fewer), in memory channels-last: out = min(max(start + the
 * sum over k of x w + other, lo), hi).  x: pixels are `step` apart, steps of k `k_step`; w: [k][32], or [k][16]. */
enum { GALE__POINT_PIXELS = 14, GALE__POINT_CHANNELS = 32 };
typedef struct gale__simd_point {
    float *out;
    const float *x, *w, *start, *other; /* start, other: may be NULL */
    const float *next, *ahead;          /* what is fetched: pixels, and weights, a quarter of a panel */
    int64_t step, k_step, k, out_pitch, other_pitch, lanes;
    float lo, hi;
} gale__simd_point;
typedef void gale__simd_point_sum(const gale__simd_point *d);

/* A row of results of convolutions by channel, channels-last: y = min(max(bias + the sums over taps, lo), hi).  x:
 * where the first tap of the first result is; tap t across of result i is i step + t places further, and inside if that
 * plus `inside` is in [0, extent).  Only taps down in [first, last) are. */
typedef struct gale__simd_wide {
    float *y;
    const float *x, *w, *bias;                             /* w: [taps][channels]; bias: may be NULL */
    int64_t y_step, place, step, hop_y, channels, columns; /* step: 1 or 2; place: elements */
    int64_t across, first, last, inside, extent;           /* across: 3, 5 or 7 */
    float lo, hi;
} gale__simd_wide;

/* Some pixels anywhere by some channels of a group, channels-last: out as gale__simd_point's, summed over taps and k
 * channels each.  lane: `pitch` pointers for each tap, to where each pixel is, less `shift`; w: [k / deep][taps][deep]
 * [channels], 16 channels or, with AVX-512 for more than 16, 32: `deep` channels at a time are summed over all taps,
 * which share their pixels. */
enum { GALE__SPREAD_PIXELS = 14, GALE__SPREAD_CHANNELS = 32 };
typedef struct gale__simd_spread {
    float *out;
    const float *const *lane;
    const float *w, *start, *other; /* start, other: may be NULL */
    float *sums;                    /* [pixels][32], with AVX-512: where they go if out is NULL, and begin if `more` */
    bool more;
    int64_t pitch, taps, k, deep, shift, out_pitch, other_pitch, lanes;
    float lo, hi;
} gale__simd_spread;

/* What follows sums of products of bytes whose lanes are channels: bytes as by gale__simd_requant, with numbers of each
 * channel, and then, if skip is not NULL, the sums of these and others as by gale__simd_sum. */
typedef struct gale__simd_quantised {
    const int32_t *start; /* of whole vectors of channels, as the three others */
    const float *scale, *bias;
    float by, zero;
    gale__simd_sum sum;
    uint8_t *out;
    const uint8_t *skip;
    int64_t lanes;              /* channels */
    bool has_sign, quick, near; /* quick: divisions by multiplication are exact; near: those of the sums */
} gale__simd_quantised;

/* Up to 14 pixels by up to 32 channels (16: `lanes` 16 or fewer), channels-last, of u8 by i8.  Pixels are `step` bytes
 * apart; those of the second half (the larger one) begin `jump` after the first.  Each of `taps` rows has `units` units
 * of pixel_unit bytes, and the next row is a hop further; w: [taps][units][32 or 16][pixel_unit]. */
typedef struct gale__simd_pixels {
    gale__simd_quantised q;
    const uint8_t *x;
    const int8_t *w, *ahead; /* ahead: what is fetched, NULL: nothing */
    int64_t step, jump, taps, hop, units, pitch,
        out_jump; /* pitch: between pixels of out and skip; out_jump: as jump */
} gale__simd_pixels;
typedef void gale__simd_pixels_sum(const gale__simd_pixels *d);
/* By tiles, 16 pixels from x on and, if both, 16 from x + jump on: sums[pixels][32 or 16].  `units` is a multiple of
 * 16, and tiles are open. */
typedef void gale__simd_pixel_tiles(const gale__simd_pixels *d, bool both, int32_t *sums);
/* What follows n such sums, `pitch` apart. */
typedef void gale__simd_pixels_end(const gale__simd_pixels *d, const int32_t *sums, int64_t n);

/* A row of results of convolutions by channel, channels-last, of u8 by i8: 64 channels (or `lanes`).  x: the first tap
 * of the first one; places are `place` bytes apart, results `step` places (1 or 2), rows of taps a hop.  w and the
 * numbers of channels are in the order of GALE__BESIDE_LANE: [rows][forms][quads][64][4], form 1 (of step 1 alone)
 * being a tap later. */
enum { GALE__BESIDE = 64 };
#define GALE__BESIDE_LANE(channel) ((channel) / 4 % 4 * 16 + (channel) / 16 * 4 + (channel) % 4)
typedef struct gale__simd_beside {
    gale__simd_quantised q;
    const uint8_t *x;
    const int8_t *w;
    int64_t place, step, hop, rows, quads, columns, pitch;
} gale__simd_beside;

enum { GALE__SIMD_SLACK = 16 }; /* elements of a vector, at most */
/* Rows of f32, for the routines of fast paths. */
typedef struct gale__simd_rows {
    float (*exp)(float *y, const float *x, size_t n); /* y = exp(x - max x); returns the sum of y */
    void (*softmax)(float *y, const float *x, size_t n);
    void (*norm)(float *y, const float *x, const float *scale, const float *shift, float epsilon,
        size_t n); /* scale, shift: may be NULL */
    void (*scale)(float *y, const float *x, float by, size_t n);
    void (*add)(float *y, const float *x, size_t n); /* y += x */
    /* y[q][i] = the sum of x[q] rows[i], rows `pitch` apart */
    void (*dots)(float *y, const float *x, size_t queries, const float *rows, int64_t pitch, size_t count, size_t n);
    /* y[i] = start + sum of w[t] * x[offset[t] + i * stride], for strides 1 and 2 */
    void (*taps[2])(
        float *y, const float *x, const int64_t *offset, const float *w, size_t taps, float start, size_t n);
    /* y[i] = the sum of w[t] x[offset[t] + i], n a multiple of 16 */
    void (*flat)(float *y, const float *x, const int32_t *offset, const float *w, size_t taps, size_t n);
    /* the same for rows of x that are `pitch` apart, and of y one after the other; whole vectors are read and written,
     * so that up to GALE__SIMD_SLACK elements after the last row are */
    void (*grid)(float *y, const float *x, const int32_t *offset, const float *w, size_t taps, size_t rows,
        size_t width, size_t pitch);
    /* y = min(max(sums + bias, lo), hi) of so many channels; NULL: not on this instruction set */
    void (*depth)(const gale__simd_depth *d, const gale__simd_strip *a, int64_t channels);
    int64_t depth_apart; /* results of a row times taps across, up to which that is fastest with step 2 */
    /* the same of 16 channels side by side, one row of results, of the taps down in [first, last); x: where the first
     * tap is; pitch is in places, and masks are not used */
    void (*deep)(float *y, const float *x, const gale__simd_depth *d, const float *w, int64_t first, int64_t last,
        const float *bias, float lo, float hi);
    /* y = min(max((x + bias) scale + other, lo), hi); other: may be NULL */
    void (*finish)(float *y, const float *x, const float *other, float bias, float scale, float lo, float hi, size_t n);
    /* y[i] = the largest x[offset[t] + i * stride], NaN before all */
    void (*tops[2])(float *y, const float *x, const int64_t *offset, size_t taps, size_t n);
    void (*add_scaled)(float *y, const float *x, float by, size_t n); /* y += by x */
    void (*finite)(float *y, size_t n);                               /* values that are not finite become 0 */
    /* z[b][p] = the sum over i < n of x[b][i] rows[p][i], vectors of 16, for 1, 3 or 4 parts p and all items b, which
     * are z_pitch and x_pitch apart */
    void (*mix)(float *z, int64_t z_pitch, const float *x, int64_t x_pitch, size_t items, const float *rows,
        size_t parts, size_t n);
    /* the same for four times `quads` items, x being [quads][n][4] */
    void (*mix_quads)(
        float *z, int64_t z_pitch, const float *x, size_t quads, const float *rows, size_t parts, size_t n);
    void (*cell[3])(const gale__simd_cell *v, size_t n); /* RNN, GRU, LSTM */
} gale__simd_rows;

/* F32 as three bf16 shares (simd_shares.c), whose micro-kernel has the key {F32, F32, F32, 32}: a unit of its panels is
 * 32 rows, or lanes, by 32 steps, GALE__SHARES_UNIT bytes. */
enum { GALE__SHARES_UNIT = 3 * 32 * 32 * 2, GALE__SHARES_PAIR = 16 };
/* A row of places: where it goes, how many of its first are outside, how many inside, where these come from. */
typedef struct gale__simd_strip_of {
    int64_t to, lo, n, from;
} gale__simd_strip_of;
typedef struct gale__simd_taps {
    size_t plane, units, taps, a_tap; /* plane: of an upright band a share; a_tap: weights of a tap, all rows */
    const int32_t *offset;            /* bytes of each tap in the band */
} gale__simd_taps;
typedef struct gale__simd_shares {
    /* a panel of up to 32 rows, `pitch` apart; filled up with 0 to 32 rows and whole units */
    void (*cut_rows)(char *to, const float *x, size_t pitch, size_t rows, size_t k);
    /* lanes of step k, and of step k + 16 (NULL: zeros), to panels that are so far apart; to: GALE__SHARES_ROW further
     * for each k of a unit */
    void (*cut_lanes)(char *to, size_t panel, const float *x, const float *y, size_t lanes);
    gale__simd_tile *plain; /* as the micro-kernel's, multiplied as f32 */
    /* Bands: planes of pairs of channels 16 apart, 16 for each share of 32 channels, `plane` bytes each.  Strips of one
     * such pair (y: NULL: zeros), `pitch` places long, elements `stride` apart; 16 places after the last are written.
     */
    void (*cut_strips)(char *to, size_t plane, const gale__simd_strip_of *s, size_t n, size_t pitch, const float *x,
        const float *y, int64_t stride);
    /* Upright bands, of pixels of 64 bytes: shares of 32 channels (fewer: zeros), 16 apart side by side; shares are
     * `share` bytes apart, channels of x `next` elements.  16 pixels after the last are written. */
    void (*cut_pixels)(char *to, size_t share, const gale__simd_strip_of *s, size_t n, size_t pitch, const float *x,
        int64_t next, int64_t channels, int64_t stride);
    void (*turn_sums)(float *to, size_t pitch, const float *sums, size_t n); /* to[i][p] = sums[p][i], 32 of i */
    /* 32 rows of weights (0: 16) by 32 lanes of a band; 1: 32 lanes of an upright band (0: 16) by 32 rows, the sums
     * turned.  Weights: as operand a, or b, of the micro-kernel. */
    void (*window[2][2])(float *c, size_t ldc, const gale__simd_taps *t, const char *weights, const char *band);
    void (*window_plain)(
        float *c, size_t ldc, const gale__simd_taps *t, const char *weights, const char *band, bool upright);
    bool (*is_finite)(const float *x, size_t pitch, size_t rows, size_t n);
} gale__simd_shares;
enum { GALE__SHARES_ROW = 64 };

/* Winograd's transforms of tiles of m x m results (winograd.h).  Lanes are whole vectors: up to GALE__SIMD_SLACK of
 * them after n are read and written too. */
#define GALE__WINOGRAD_A 0.75f
#define GALE__WINOGRAD_B 1.5f
/* A tile of products, points `point` apart, back to down by across results of so many channels: y =
 * min(max(sums + start + other, lo), hi). */
typedef struct gale__simd_tile_back {
    float *out;
    const float *products, *start, *other; /* start, other: may be NULL */
    int64_t point, row_pitch, pitch, other_row, other_pitch, down, across, lanes;
    float lo, hi;
} gale__simd_tile_back;
typedef struct gale__simd_winograd {
    void (*split)(float *d, int64_t pitch, const float *s, size_t n); /* d[p][i] = s[m i + p] */
    /* the m + 2 (m) rows of d from the m + 2 rows of s, of which only the beginnings are known */
    void (*in)(float *d, int64_t pitch, const float *const *s, size_t n);
    void (*out)(float *d, int64_t pitch, const float *const *s, size_t n);
    void (*woven)(float *d, const float *const *s, size_t n); /* out, row p in d[m i + p] */
    /* channels-last: a tile's n channels, a vector or more, from its (m + 2)^2 places to as many points; and back */
    void (*place)(float *to, int64_t point, const float *const *place, size_t n);
    void (*back)(const gale__simd_tile_back *d);
} gale__simd_winograd;

/* y[r][i] = start + the sum of w[4 q + t] x[r][offset[q] + i * step + t], step 1 or 2, rows of x `pitch` apart; up
 * to 64 bytes after the last one are read, and GALE__SIMD_SLACK sums written */
typedef void gale__simd_quads(int32_t *y, const uint8_t *x, int64_t pitch, const int32_t *offset, const int8_t *w,
    size_t quads, int step, int32_t start, size_t rows, size_t n);

typedef struct gale__simd {
    gale__simd_fn
        *op[GALE__SCALAR_COUNT][GALE__SIMD_TYPE_COUNT]; /* by the type of the last operand (SELECT: of b and c) */
    gale__simd_fn
        *pair[GALE__PAIR_COUNT][GALE__PAIR_COUNT][4]; /* f32: (a op b) op c; 1: b is one number (b[0]); 2: c is */
    gale__simd_fn *by_number[GALE__PAIR_COUNT];       /* f32: a op b[0] */
    gale__simd_triple *triple[4][4][2];               /* f32: ((a op b[0]) op c[0]), then max (0) or min (1) with e */
    gale__simd_fn *sigmoid[2];                        /* f32: 1 / (1 + e^-a); 1: times a */
    gale__simd_activate *activate[GALE__ACTIVATION_COUNT]; /* in place */
    /* f32 to U8 (0) or I8 (1): rint(a / b[0]) + c[0], saturated, NaN to 0; b NULL: a itself, c NULL: nothing added */
    gale__simd_fn *quantise[2];
    /* I32 (0) or whole numbers held as F32 (1), to U8 (0) or I8 (1) */
    void (*requantise[2][2])(void *d, const void *a, const gale__simd_requant *v, size_t n);
    /* of U8 (0) or I8 (1), all three; d may be b */
    void (*sum_bytes[2])(void *d, const void *a, const void *b, const gale__simd_sum *v, size_t n);
    /* y[i] = the largest x[offset[t] + i * stride] of U8 (0) or I8 (1) */
    void (*top_bytes[2])(void *y, const void *x, const int64_t *offset, int64_t stride, size_t taps, size_t n);
    /* U8 (0) or I8 (1) as F32 less a number; stride in elements */
    void (*centre[2])(float *d, const void *a, int64_t stride, float less, size_t n);
    gale__simd_quads *quads; /* NULL: not on this processor */
    gale__simd_fn *cast[GALE__SIMD_TYPE_COUNT]
                       [GALE_TYPE_COUNT];   /* compute type to storage type, the result in its compute type */
    gale__simd_fn *wrap[GALE_TYPE_COUNT];   /* integers back into the storage type's range; NULL: nothing to do */
    gale__simd_fn *widen[GALE_TYPE_COUNT];  /* storage to compute; NULL: the same bits */
    gale__simd_fn *narrow[GALE_TYPE_COUNT]; /* compute to storage; NULL: the same bits */
    gale__simd_fold *fold[4][GALE__SIMD_TYPE_COUNT]; /* GALE__SUM .. GALE__RMIN of a block into *acc */
    gale__simd_dot *dot;                             /* f32: the sum of a b of a block into *acc */
    gale__simd_arg *arg[4][GALE__SIMD_TYPE_COUNT];   /* GALE__ARGMAX .. */
    gale__simd_arg_fold *arg_fold[4][GALE__SIMD_TYPE_COUNT];
    /* Moves of whole elements, by the logarithm of their size; strides in elements. */
    void (*gather[4])(void *d, const void *s, int64_t stride, size_t n);
    void (*scatter[4])(void *d, const void *s, int64_t stride, size_t n);
    void (*fill[4])(void *d, uint64_t bits, size_t n);
    void (*take[4])(void *d, const void *s, const int64_t *index, size_t n);
    /* d[i][r] = s[r][i] for `rows` rows of n 4- or 8-byte elements, `pitch` elements apart; r padded with zeros up to
     * mr. */
    void (*interleave[2])(void *d, const void *s, size_t pitch, size_t rows, size_t mr, size_t n);
    /* d = a[0], b[0], a[1], b[1] ... for n elements of 1, 2 or 4 bytes each */
    void (*zip[3])(void *d, const void *a, const void *b, size_t n);
    /* d = the first bytes of four rows that are `pitch` apart, the second ones ..., n of each, changed by flip; NULL:
     * not on this instruction set */
    void (*weave)(void *d, const void *s, int64_t pitch, uint8_t flip, size_t n);
    gale__simd_gemm gemm[GALE__SIMD_GEMMS]; /* of one key, better ones first */
    int n_gemms;
    /* Of any step, 1 and 2, of 16 and 32 rows, by lanes; NULL: there are none. */
    int upright_rows; /* most that they have: 32, or 16 where vectors have 8 lanes; 0: there are none */
    gale__simd_upright_sum *upright[3][2][GALE__UPRIGHT_LANES + 1];
    void (*upright_done)(const gale__simd_done *d, const float *sums);
    void (*point_done)(const gale__simd_done *d, const float *sums); /* the same where `point` is, also without those */
    gale__simd_point_sum
        *point[2][2][GALE__POINT_PIXELS + 1]; /* 1: k_step is 1; 16 and 32 channels; pixels.  NULL: none */
    void (*spread)(const gale__simd_spread *d, int64_t pixels);              /* NULL: not on this instruction set */
    int spread_pixels, spread_channels;                                      /* most of both */
    void (*wide)(const gale__simd_wide *d, int64_t first, int64_t channels); /* some of its channels, 16 or more */
    void (*tops_by_2)(const gale__simd_pool *d, float *y, int64_t n);        /* n maxima, NaN before all; NULL: none */
    gale__simd_pixels_sum *pixels[2][GALE__POINT_PIXELS + 1]; /* of 16 and 32 channels; NULL: not on this processor */
    int64_t pixel_unit;                                       /* bytes of a unit of theirs */
    gale__simd_pixels_end *pixels_end;
    gale__simd_pixel_tiles *pixel_tiles; /* NULL: not on this processor */
    void (*beside)(const gale__simd_beside *d);
    gale__simd_shares shares; /* NULL: not on this processor */
    gale__simd_rows rows;
    gale__simd_winograd winograd[2]; /* m = 2, 4 */
    bool small_cache;                /* the first one has less than 48 KB: what leads past it weighs more */
} gale__simd;

/* The table for this processor. */
const gale__simd *gale__simd_get(void);
/* Whether it has 32 vectors of 16 numbers. */
static inline bool gale__simd_is_wide(void) { return gale__simd_get()->upright_rows == GALE__UPRIGHT_ROWS; }
/* The micro-kernel of the key for this processor; NULL: there is none. */
const gale__simd_gemm *gale__simd_gemm_find(gale__simd_key key);
/* How many sums of a trial are wrong, of one with several steps side by side; thorough: with all its parts.  Not from
 * several threads at once. */
int64_t gale__simd_gemm_try(const gale__simd_gemm *g, bool thorough);
gale__simd_key gale__simd_plain(gale__simd_type ct);   /* all of one type, step by step */
gale__simd_type gale__simd_type_of(gale_type storage); /* of its compute type */
int gale__simd_type_size(gale__simd_type ct);
#endif
