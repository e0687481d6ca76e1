/* See cpu_window.h: chooses blocks of lanes, and how their tiles are computed. */
#include "base/thread.h"
#include "kernel/cpu/cpu_window.h"
#include "kernel/cpu/divide.h"

#define BAND_BYTES (512u << 10)   /* stays in the second cache */
#define GROUP_BYTES (48u << 10)   /* of packed panels, which stay in the first */
#define PACK_COST 5               /* of a lane of one step, in multiplications */
#define PANELS_BYTES (512u << 10) /* of a block whose panels are packed at once */
#define UPRIGHT_STEPS 10          /* that finishing an upright tile takes as long as */
#define UPRIGHT_STEPS_HALF 35     /* the same with vectors of 8 lanes */
#define UPRIGHT_PART 6            /* lanes that these sum at a time */
#define HALF_GAIN 1.05            /* what other tiles then take for a multiplication */
#define HALF_GAIN_APART 1.3       /* where lanes are apart */
#define HALF_GAIN_FAR 0.85        /* where taps are */
#define FEW_PLANES 8              /* most that stay in the first cache anyway */
#define BLOCK_LANES 768
#define BLOCK_COLUMNS 256

/* Columns in whole panels. */
static int64_t padded(int64_t columns, gale__simd_gemm gemm)
{
    int64_t rest = columns % gemm.nr;
    return columns - rest + (rest && rest <= gemm.slim ? gemm.slim : rest ? gemm.nr : 0);
}

static void lay_band(gale__cpu_window *w, gale__simd_gemm gemm, size_t size)
{
    int64_t nr = gemm.nr;
    w->padded = w->flat ? w->columns : padded(w->columns, gemm);
    w->block_lanes = round_up(w->rows * w->padded, nr);
    w->phases = w->x.taps > 1 ? w->x.step : 1;
    w->phase = w->padded + (w->x.taps - 1) * w->x.hop / w->x.step;
    if (w->across) w->phases = 1, w->phase = w->padded;
    w->pitch = (w->across ? w->across : w->phases) * w->phase;
    if (w->upright) {
        w->padded = w->columns;
        w->phases = w->sparse ? w->x.step : 1;
        w->phase = w->pitch = gale__cpu_window_places(&w->x, w->columns);
    }
    w->plane = gale__cpu_window_places(&w->y, w->rows) * w->pitch;
    if (size == sizeof(float))
        w->plane = round_up(w->plane, 16) | 16; /* an odd number of cache lines: no shared sets */
    w->band_bytes = (size_t)(w->rest.count * w->plane + (w->flat ? nr : 0)) * size; /* copies are whole panels long */
    if (w->pointwise || w->sparse) w->band_bytes = 0;
}

/* Work on all lanes of one step of k: multiplications, and copies where panels are packed; parts of one batch share
 * theirs. */
static int64_t cost_of(const gale__cpu_window *w, int64_t m, int64_t batches, gale__simd_gemm gemm)
{
    int64_t packings = batches > 1 ? w->parts : 1;
    int64_t over = m % gemm.mr, rows = m - over + (over ? gale__simd_part_for(&gemm, over)->rows : 0),
            last = w->y.lanes - (w->row_blocks - 1) * w->rows, panels;
    int64_t before = (w->column_blocks - 1) * w->columns, columns = padded(w->x.lanes - before, gemm),
            slim = columns % gemm.nr / 2; /* such tiles take half as long again for a lane */
    if (!w->flat) return w->y.lanes * (before + columns + slim) * rows;
    panels = (w->row_blocks - 1) * parts(w->rows * w->columns, gemm.nr) + parts(last * w->columns, gemm.nr);
    return panels * gemm.nr * (rows + packings * PACK_COST * (1 + parts(gemm.nr, w->columns)));
}

/* Blocks as large as the caches allow, then as small as it takes to keep the threads busy. */
static void choose_blocks(gale__cpu_window *w, int64_t m, int64_t batches, gale__simd_gemm gemm, size_t size)
{
    int64_t width = gale__parallel_now(), wide = parts(w->x.lanes, BLOCK_COLUMNS), blocks;
    bool plain = w->x.tap < 0 && w->y.tap < 0 && !w->whole; /* blocks share nothing, so they may be small */
    w->columns = wide > 1 ? round_up(parts(w->x.lanes, wide), gemm.nr) : w->x.lanes;
    w->rows = BLOCK_LANES / w->columns < w->y.lanes ? BLOCK_LANES / w->columns : w->y.lanes;
    if (w->rows < 1) w->rows = 1;
    for (;;) {
        lay_band(w, gemm, size);
        blocks = w->far.count * parts(w->y.lanes, w->rows) * parts(w->x.lanes, w->columns);
        size_t panels = w->whole ? (size_t)(w->units * w->block_lanes) * gale__cpu_window_unit(w, size) : 0;
        bool large = w->band_bytes > BAND_BYTES || panels > PANELS_BYTES,
             few = blocks * batches < 4 * width && width > 1;
        if (w->rows > (large ? 1 : w->upright ? 2 : 4) && (large || few)) w->rows = parts(w->rows, 2);
        else if (w->columns > (plain && !large ? 1 : 4) * gemm.nr && (large || few))
            w->columns = round_up(w->columns / 2, gemm.nr);
        else break;
    }
    w->row_blocks = parts(w->y.lanes, w->rows);
    w->column_blocks = parts(w->x.lanes, w->columns);
    w->parts = blocks * batches >= 2 * width || width < 2 ? 1 : parts(4 * width, blocks * batches);
    w->part_rows = round_up(parts(m, w->parts), gemm.mr);
    w->parts = parts(m, w->part_rows);
}

/* Rows that fill their panels badly are better packed across their ends. */
static void choose_form(gale__cpu_window *w, int64_t kc, int64_t m, int64_t batches, gale__simd_gemm gemm, size_t size)
{
    gale__cpu_window flat = *w;
    w->flat = w->whole = !gemm.part->tile_at;
    choose_blocks(w, m, batches, gemm, size);
    w->packed = w->units * w->block_lanes;
    w->group = w->units ? (int64_t)(PANELS_BYTES / gale__cpu_window_unit(w, size)) / (w->units * gemm.nr) : 0;
    if (w->group < 1) w->group = 1;
    if (w->whole) return;
    w->packed = w->group = 0;
    if (w->columns < w->x.lanes || w->columns % gemm.nr == 0 || gemm.nr / w->columns + 2 > GALE__WINDOW_SEGMENTS)
        return;
    flat.flat = true;
    choose_blocks(&flat, m, batches, gemm, size);
    if (flat.columns < flat.x.lanes || cost_of(&flat, m, batches, gemm) >= cost_of(w, m, batches, gemm)) return;
    flat.group = (int64_t)(GROUP_BYTES / size) / (kc * gemm.nr);
    if (flat.group < 1) flat.group = 1;
    flat.packed = (flat.group * kc + 1) * gemm.nr;
    *w = flat;
}

/* Lanes of upright tiles: nearly equal ones, or, with vectors of 8 lanes, as many as fill their registers, if that
 * takes fewer parts. */
static int upright_lanes(int64_t columns)
{
    int64_t equal = parts(columns, parts(columns, GALE__UPRIGHT_LANES)), most = GALE__UPRIGHT_LANES / UPRIGHT_PART;
    most *= UPRIGHT_PART;
    if (gale__simd_is_wide() || columns <= GALE__UPRIGHT_LANES) return (int)equal;
    int64_t rest = columns % equal ? columns % equal : equal,
            needed = (columns - rest) / equal * parts(equal, UPRIGHT_PART) + parts(rest, UPRIGHT_PART);
    return (int)(parts(columns, UPRIGHT_PART) < needed ? most : equal);
}

/* Whether upright tiles waste less: finishing one takes as long as a few steps, and its weights are read for fewer
 * lanes.  With vectors of 8 lanes their sums leave the first cache to others, which gains most where lanes are apart.
 */
static bool is_better_upright(
    const gale__cpu_window *up, int64_t k, int64_t m, int lanes, const gale__cpu_window *w, int64_t cost)
{
    double work = (double)(up->y.lanes * up->x.lanes * round_up(m, GALE__UPRIGHT_ROWS / 2));
    if (gale__simd_is_wide()) return work + work * UPRIGHT_STEPS / (double)k + work / lanes < (double)cost;
    bool meet = w->x.tap >= 0 && w->x.hop <= w->x.step && w->y.hop <= w->y.step;
    double gain = !meet ? HALF_GAIN_FAR : w->x.step > 1 && w->rest.count > FEW_PLANES ? HALF_GAIN_APART : HALF_GAIN;
    return work + work * UPRIGHT_STEPS_HALF / (double)k < gain * (double)cost;
}

static void choose_upright(gale__cpu_window *w, const gale__cpu_window *plain, int64_t k, int64_t m, int64_t batches,
    gale__simd_gemm *gemm, size_t size)
{
    gale__cpu_window up = *plain;
    gale__simd_gemm g = *gemm;
    bool alone = w->x.tap < 0 && w->y.tap < 0,
         far = alone && w->x.unit == 1 && (!gale__simd_is_wide() || !gale__cpu_window_is_near(w));
    if (!gale__simd_get()->upright_done || gemm->key.sum != GALE_F32 || gemm->key.group > 1 || far) return;
    g.mr = m > GALE__UPRIGHT_ROWS / 2 ? gale__simd_get()->upright_rows : GALE__UPRIGHT_ROWS / 2;
    g.nr = upright_lanes(w->x.lanes);
    if (2 * w->x.lanes <= GALE__UPRIGHT_LANES && w->y.lanes > 1 && !w->sparse) g.nr *= 2; /* two rows */
    g.slim = 0;
    up.upright = true;
    choose_blocks(&up, m, batches, g, size);
    bool apart = w->sparse || (alone && w->x.unit > 1); /* there is no other form */
    if (!apart && !is_better_upright(&up, k, m, g.nr, w, cost_of(w, m, batches, *gemm))) return;
    *w = up;
    *gemm = g;
}

void gale__cpu_window_choose(
    gale__cpu_window *w, int64_t k, int64_t kc, int64_t m, int64_t batches, gale__simd_gemm *gemm, size_t size)
{
    gale__cpu_window plain = *w;
    choose_form(w, kc, m, batches, *gemm, size);
    choose_upright(w, &plain, k, m, batches, gemm, size);
}
