/* See winograd.h: where it is worth it, how blocks are chosen, and the transform of weights. */
#include "kernel/cpu/winograd.h"
#include "base/env.h"
#include "kernel/cpu/divide.h"
#include <string.h>

#define BLOCK_BYTES (512u << 10)   /* of a transformed block for each thread: half of the second cache */
#define BLOCK_THREADS 8            /* most threads that a block grows for */
#define PRODUCT_BYTES (256u << 10) /* of the products of one task */
#define SPREAD_THREADS 8           /* least threads that take points one by one */
#define SPREAD_TASKS 5             /* for each thread */
#define WEIGHT_BYTES (24u << 20)   /* most of transformed weights */
#define WEIGHT_BYTES_4 (12u << 20) /* and of those for m = 4 */
#define CHANNELS_LEAST 16
#define ROWS_LEAST 16
#define TILES_LEAST 4
/* Measured, in multiply-adds of a lane: the transforms of one element of a tile, a weight that comes from far memory,
 * a lane of a slim tile, and what plain convolutions take for one multiply-add.  With vectors of 16 lanes (upright
 * tiles), everything but the multiply-adds takes a larger share, and with a small first cache (near) the 36 places that
 * m = 4 stores to. */
typedef struct costs {
    double transform[2], weight, slim; /* transform: m = 2, 4 */
} costs;
static const costs usual_costs = {{14, 14}, 6, 1}, half_costs = {{20, 20}, 6, 1}, wide_costs = {{20, 20}, 24, 1.5},
                   near_costs = {{20, 40}, 24, 1.5};
#define COST_PLAIN 1.2
#define COST_HALF 1.25        /* upright tiles of one vector */
#define COST_MAP 16.0         /* more of those by this over the lanes of a map: small ones fill panels poorly */
#define COST_MAP_UPRIGHT 10.0 /* the same of upright tiles with AVX2 */

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t equal_parts(int64_t v, int64_t limit, int64_t unit) { return round_up(parts(v, parts(v, limit)), unit); }

gale__cpu_winograd_panels gale__cpu_winograd_cover(const gale__simd_gemm *gemm, int64_t lanes)
{
    gale__cpu_winograd_panels best = {.full = parts(lanes, gemm->nr)};
    best.lanes = best.full * gemm->nr;
    for (int64_t slim = 1; gemm->slim && slim < 4; slim++) {
        int64_t full = parts(most(lanes - slim * gemm->slim, 0), gemm->nr), all = full * gemm->nr + slim * gemm->slim;
        if (all < best.lanes) best = (gale__cpu_winograd_panels){full, slim, all};
    }
    return best;
}

static const costs *costs_of(void)
{
    const gale__simd *simd = gale__simd_get();
    if (gale__simd_is_wide()) return simd->small_cache ? &near_costs : &wide_costs;
    return simd->upright_rows ? &half_costs : &usual_costs;
}

/* Work on one map. */
static double cost_of(const gale__cpu_window *w, int64_t m, int64_t rows, const gale__simd_gemm *gemm)
{
    int64_t tiles = parts(w->y.lanes, m) * parts(w->x.lanes, m), padded = round_up(rows, gemm->mr);
    double points = (double)((m + 2) * (m + 2)), k = (double)w->rest.count, weights = points * k * (double)padded;
    int64_t vector = gemm->nr % 3 ? gemm->nr / 2 : gemm->nr / 3, across = parts(w->x.lanes, m);
    double empty = (double)(round_up(across, vector) - across) / (double)across; /* lanes of transforms, of one row */
    gale__cpu_winograd_panels cover = gale__cpu_winograd_cover(gemm, tiles);
    const costs *of = costs_of();
    double lanes = (double)(cover.full * gemm->nr) + of->slim * (double)(cover.slim * gemm->slim);
    return weights * (lanes + of->weight) +
           points * (double)tiles * (1 + empty / 2) * of->transform[m == 4] * (k + (double)padded);
}

static double plain_cost(const gale__cpu_window *w, int64_t rows, const gale__simd_gemm *gemm)
{
    double lanes = (double)(w->y.lanes * w->x.lanes);
    if (gale__simd_is_wide()) /* upright tiles waste nothing */
        return 9.0 * (double)(w->rest.count * round_up(rows, 16)) *
               ((rows > 16 ? 1 : COST_HALF) * lanes + wide_costs.weight);
    double wide = (double)round_up(rows, gemm->mr) * (lanes + COST_MAP),
           upright = gale__simd_get()->upright_rows ? (double)round_up(rows, 16) * (lanes + COST_MAP_UPRIGHT) : wide;
    return COST_PLAIN * 9.0 * (double)w->rest.count * (upright < wide ? upright : wide);
}

/* Taps of 3 x 3 side by side over floats as stored, with borders that are those of every channel and map. */
static bool fits_window(const gale__cpu_window *w, const gale__cpu_span *batch)
{
    const gale__nest_access *a = w->access;
    if (a->type != GALE_F32 || w->widen || w->x.tap < 0 || w->y.tap < 0 || w->x.taps != 3 || w->y.taps != 3 ||
        w->x.step != 1 || w->y.step != 1 || w->x.hop != 1 || w->y.hop != 1 || w->x.unit != 1)
        return false;
    const gale__cpu_span *others[] = {batch, &w->far, &w->rest};
    for (int g = 0; g < a->n_guards; g++)
        for (int s = 0; s < 3; s++)
            for (int i = 0; i < others[s]->n; i++)
                if (a->guards[g].coef[others[s]->dim[i]]) return false;
    return true;
}

int64_t gale__cpu_winograd_asked(void)
{
    const char *text = gale__env_get(GALE__ENV_WINOGRAD);
    if (!text) return -1;
    return !strcmp(text, "off") ? 0 : !strcmp(text, "2") ? 2 : !strcmp(text, "4") ? 4 : -1;
}

double gale__cpu_winograd_cost(const gale__cpu_window *w, int64_t rows, const gale__simd_gemm *gemm, int64_t *best)
{
    int64_t k = w->rest.count;
    double cost = plain_cost(w, rows, gemm);
    *best = 0;
    for (int64_t m = 2; m <= 4 && k >= CHANNELS_LEAST && rows >= ROWS_LEAST; m += 2) {
        int64_t tiles = parts(w->y.lanes, m) * parts(w->x.lanes, m);
        size_t bytes = (size_t)((m + 2) * (m + 2) * k * rows) * sizeof(float);
        double its = cost_of(w, m, rows, gemm);
        if (tiles < TILES_LEAST || bytes > (m == 4 ? WEIGHT_BYTES_4 : WEIGHT_BYTES) || its >= cost) continue;
        *best = m;
        cost = its;
    }
    return cost;
}

int64_t gale__cpu_winograd_choose(const gale__cpu_window *w, const gale__nest_access *weights,
    const gale__cpu_span *batch, int64_t rows, const gale__simd_gemm *gemm)
{
    int64_t best, forced = gale__cpu_winograd_asked();
    if (weights->n_guards || !fits_window(w, batch)) return 0;
    if (forced >= 0) return forced;
    gale__cpu_winograd_cost(w, rows, gemm, &best);
    return best;
}

/* Rows of tiles of a block: as many as fit, or somewhat fewer where panels are filled better. */
static int64_t choose_rows(const gale__cpu_winograd *g, int64_t all, int64_t fit, const gale__simd_gemm *gemm)
{
    int64_t best = 1, least_lanes = INT64_MAX;
    for (int64_t rows = most(parts(fit, 2), 1); rows <= most(fit, 1); rows++) {
        int64_t whole = all / rows, rest = all % rows,
                lanes = whole * gale__cpu_winograd_cover(gemm, rows * g->columns).lanes +
                        (rest ? gale__cpu_winograd_cover(gemm, rest * g->columns).lanes : 0) + whole;
        if (lanes > least_lanes) continue;
        least_lanes = lanes;
        best = rows;
    }
    return least(best, all);
}

/* Tasks of one point and some panels of rows each. */
static void spread_tasks(gale__cpu_winograd *g, int64_t rows, const gale__simd_gemm *gemm, int64_t width)
{
    int64_t panels = parts(rows, gemm->mr), some = most(g->points * panels / (SPREAD_TASKS * width), 1);
    g->spread = true;
    g->task_rows = g->rows;
    g->products = gale__cpu_winograd_cover(gemm, g->rows * g->columns).lanes + GALE__SIMD_SLACK;
    g->part = least(some, panels) * gemm->mr;
    g->parts = parts(rows, g->part);
    g->tasks = g->points;
}

/* Tasks of a block: products that stay in the cache, then as many as it takes to keep the threads busy. */
static void choose_tasks(gale__cpu_winograd *g, int64_t rows, const gale__simd_gemm *gemm, int64_t width)
{
    g->task_rows = g->rows;
    while (g->task_rows > 1 && g->task_rows * g->columns > 4 * gemm->nr && width > 1 &&
           parts(g->rows, g->task_rows) < 2 * width)
        g->task_rows = parts(g->task_rows, 2);
    g->products = gale__cpu_winograd_cover(gemm, g->task_rows * g->columns).lanes + GALE__SIMD_SLACK;
    g->tasks = parts(g->rows, g->task_rows);
    int64_t fit = (int64_t)PRODUCT_BYTES / (int64_t)sizeof(float) / (g->points * g->products) / gemm->mr * gemm->mr;
    g->part = equal_parts(rows, most(fit, gemm->mr), gemm->mr);
    while (width > 1 && g->part > gemm->mr && g->tasks * parts(rows, g->part) < 2 * width)
        g->part = round_up(g->part / 2, gemm->mr);
    g->parts = parts(rows, g->part);
    /* Still threads without work: tiles of fewer lanes are better than none. */
    while (g->task_rows > 1 && g->tasks * g->parts < width && g->task_rows * g->columns > gemm->slim) {
        g->task_rows = parts(g->task_rows, 2);
        g->tasks = parts(g->rows, g->task_rows);
        g->products = gale__cpu_winograd_cover(gemm, g->task_rows * g->columns).lanes + GALE__SIMD_SLACK;
    }
}

gale_status gale__cpu_winograd_init(gale__cpu_winograd *g, const gale__cpu_window *w, int64_t m, int64_t rows,
    int64_t kc, const gale__simd_gemm *gemm, int64_t width)
{
    g->m = m;
    g->points = (m + 2) * (m + 2);
    g->channels = w->rest.count;
    g->down = parts(w->y.lanes, m);
    g->across = parts(w->x.lanes, m);
    int64_t lane_bytes = g->points * g->channels * (int64_t)sizeof(float),
            fit = most(BLOCK_BYTES * least(width, BLOCK_THREADS) / lane_bytes, 2 * gemm->nr);
    g->columns = g->across <= fit ? g->across : equal_parts(g->across, fit, 1);
    g->column_blocks = parts(g->across, g->columns);
    g->rows = choose_rows(g, w->far.count * g->down, fit / g->columns, gemm);
    g->row_blocks = parts(w->far.count * g->down, g->rows);
    g->pitch =
        round_up(g->rows * g->columns + GALE__SIMD_SLACK, 16) | 16; /* odd: steps of k share no set of the cache */
    g->point = g->channels * g->pitch + 16;                         /* points are not a power of two apart */
    g->chunk = width > 1 ? parts(g->channels, 4 * width) : g->channels;
    g->phase = round_up(g->columns + 1, 4);
    g->half = round_up(m * g->phase, GALE__SIMD_SLACK);
    (width < SPREAD_THREADS ? choose_tasks : spread_tasks)(g, rows, gemm, width);
    g->sums_pitch = g->task_rows * m * least(m * g->columns, w->x.lanes) + m * GALE__SIMD_SLACK;
    g->offset = gale__alloc((size_t)(kc + GALE__SIMD_AHEAD) * sizeof *g->offset);
    if (!g->offset) return GALE_NO_MEMORY;
    for (int64_t k = 0; k < kc + GALE__SIMD_AHEAD; k++)
        g->offset[k] = (int32_t)(k % kc * g->pitch + k / kc * gemm->nr); /* the next lanes follow the last step */
    return GALE_OK;
}

void gale__cpu_winograd_finish(gale__cpu_winograd *g)
{
    gale__free(g->offset);
    *g = (gale__cpu_winograd){0};
}

/* Row i: the weights' value at a point, over what the other transforms leave out. */
void gale__cpu_winograd_factors(int64_t m, double (*g)[3])
{
    const double a = GALE__WINOGRAD_A, b = GALE__WINOGRAD_B, points_4[5] = {0, a, -a, b, -b}, points_2[3] = {0, 1, -1};
    const double *p = m == 4 ? points_4 : points_2;
    for (int64_t i = 0; i < m + 1; i++) {
        double by = 1;
        for (int64_t j = 0; j < m + 1; j++) by *= j == i ? 1 : p[i] - p[j];
        if (m == 2 && i == 0) by = 1; /* signs as the transforms of places have them */
        for (int t = 0; t < 3; t++) g[i][t] = (t == 0 ? 1 : t == 1 ? p[i] : p[i] * p[i]) / by;
    }
    g[m + 1][0] = g[m + 1][1] = 0;
    g[m + 1][2] = 1;
}

void gale__cpu_winograd_weights(
    int64_t m, const double (*g)[3], const double (*taps)[GALE__WINOGRAD_ROWS], double (*out)[GALE__WINOGRAD_ROWS])
{
    enum { N = GALE__WINOGRAD_ROWS };
    double half[3][N];
    for (int64_t i = 0; i < m + 2; i++) {
        for (int x = 0; x < 3; x++)
            for (int r = 0; r < N; r++)
                half[x][r] = g[i][0] * taps[x][r] + g[i][1] * taps[3 + x][r] + g[i][2] * taps[6 + x][r];
        for (int64_t j = 0; j < m + 2; j++)
            for (int r = 0; r < N; r++)
                out[i * (m + 2) + j][r] = half[0][r] * g[j][0] + half[1][r] * g[j][1] + half[2][r] * g[j][2];
    }
}
