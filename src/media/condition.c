/* How much noise and compression a picture shows, from its pixels alone.
 *
 * Noise is what is left of the diagonal differences of 2 x 2 pixels in the calmest blocks, since texture has them too.
 * JPEG shows as steps that are larger on every eighth line than on the others, wherever the grid begins: a picture may
 * have been cropped.  Drawings, such as text, pixel art and diagrams, have neither, but their edges look like both:
 * they are told by places that are exactly flat, and by steps that are nothing or large. */
#include "media/picture.h"
#include "base/thread.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 16, STRIP = BLOCK + 8, SIDE_LEAST = 64, STRIPS_MOST = 96, GRID = 8, STEP_MOST = 12 };

/* In levels; where nothing moves, the few steps of a drawing must not count for much. */
#define STEP_QUIET 0.4

/* Steps below this are none.  JPEG leaves small ones nearly everywhere. */
#define STEP_LEAST 0.5

/* Excess of a step over its neighbours, summed by the place in the grid, and the steps themselves. */
typedef struct grid {
    double excess[GRID], steps;
    int64_t count[GRID], all, small, large;
} grid;

typedef struct block {
    float noise;
    bool texture;
} block;

/* Rows that are examined together. */
typedef struct look {
    const gale_picture *picture;
    float *raw, *luma; /* a row of samples; STRIP rows of luma in 8-bit levels */
    block *blocks;
    size_t count;
    grid across, down;
} look;

/* All of them, by all threads; what they find is put together in their order. */
typedef struct examining {
    look *strips;
    int64_t count, every;
    float *rooms; /* of a worker: raw and luma */
    size_t room;
} examining;

static void read_row(look *l, int64_t y, float *to)
{
    const gale_picture *p = l->picture;
    int c = p->channels;
    gale__samples_to_f32(p->type, gale__picture_row(p, y), l->raw, (size_t)(p->width * c));
    for (int64_t x = 0; x < p->width; x++) {
        const float *s = l->raw + x * c;
        float v = c > 2 ? 0.299f * s[0] + 0.587f * s[1] + 0.114f * s[2] : s[0];
        if (p->linear) v = gale__linear_to_srgb(v);
        to[x] = v > 0 ? v < 1 ? 255 * v : 255 : 0; /* NaN: 0 */
    }
}

/* One block: the mean size of diagonal differences, as the deviation of Gaussian noise that has it.  Noise differs as
 * much from left to right and from top to bottom; texture differs more.  Blocks that are clipped to black or white
 * are left out, since they show no noise where there is some.  Noise leaves few differences of exactly 0. */
static void add_block(look *l, int64_t x)
{
    int64_t w = l->picture->width;
    double across = 0, down = 0, diagonal = 0, mean = 0, count = BLOCK * BLOCK / 4.0;
    int flat = 0;
    for (int i = 0; i < BLOCK; i += 2)
        for (int j = 0; j < BLOCK; j += 2) {
            const float *p = l->luma + i * w + x + j;
            across += fabs((double)p[0] - p[1] + p[w] - p[w + 1]) / 2;
            down += fabs((double)p[0] + p[1] - p[w] - p[w + 1]) / 2;
            double cross = fabs((double)p[0] - p[1] - p[w] + p[w + 1]) / 2;
            flat += cross < 0.01; /* luma is rounded to floats */
            diagonal += cross;
            mean += p[0] / count;
        }
    if (mean < 8 || mean > 247) return;
    bool texture = fmax(across, down) > 1.4 * diagonal + 0.2 * count;
    if (flat > count / 2) diagonal = 0;
    l->blocks[l->count++] = (block){(float)(diagonal / count * sqrt(acos(-1.0) / 2)), texture};
}

/* Edges of what is shown are larger than what JPEG leaves, and may be on a grid of their own: windows on a screen. */
static double size_of(float a, float b)
{
    double step = fabs((double)b - a);
    return step < STEP_MOST ? step : STEP_MOST;
}

/* The step between b and c, beside its neighbours. */
static void add_step(grid *g, int64_t place, float a, float b, float c, float d)
{
    double step = size_of(b, c);
    g->excess[place % GRID] += step - (size_of(a, b) + size_of(c, d)) / 2;
    g->count[place % GRID]++;
    g->steps += step;
    g->all++;
    g->large += step >= STEP_MOST;
    g->small += step >= STEP_LEAST && step < STEP_MOST;
}

static void add_strip(look *l, int64_t top)
{
    int64_t w = l->picture->width;
    for (int64_t i = 0; i < STRIP; i++) read_row(l, top + i, l->luma + i * w);
    for (int64_t x = 0; x + BLOCK <= w; x += BLOCK) add_block(l, x);
    for (int64_t y = 2; y + 1 < STRIP; y++)
        for (int64_t x = 2; x + 1 < w; x++) {
            const float *p = l->luma + y * w + x;
            add_step(&l->across, x, p[-2], p[-1], p[0], p[1]);
            add_step(&l->down, top + y, p[-2 * w], p[-w], p[0], p[w]);
        }
}

/* By how much the largest place of the grid exceeds the others, in mean steps; 0 in a drawing. */
static double grid_visible(const grid *g)
{
    double most = -INFINITY, sum = 0;
    bool flat = g->small + g->large < g->all / 2;
    if (flat && g->small < g->large / 2) return 0;
    for (int i = 0; i < GRID; i++) {
        double mean = g->count[i] ? g->excess[i] / (double)g->count[i] : 0;
        most = mean > most ? mean : most;
        sum += mean;
    }
    double others = (sum - most) / (GRID - 1), step = g->all ? g->steps / (double)g->all : 0;
    return (most - others) / (step + STEP_QUIET);
}

static int compare(const void *a, const void *b)
{
    float x = ((const block *)a)->noise, y = ((const block *)b)->noise;
    return (x > y) - (x < y);
}

/* That of the calmest tenth of the blocks, which is a little less than the mean of blocks with the same noise, if as
 * many of them are without texture: where nearly everything is texture, nobody can tell. */
static double calm_noise(look *l)
{
    size_t plain = 0, calm = 0;
    double noise = 0;
    qsort(l->blocks, l->count, sizeof *l->blocks, compare);
    for (size_t i = 0; i < l->count; i++) plain += !l->blocks[i].texture;
    if (plain <= l->count / 20) return 0;
    for (size_t i = 0; i < l->count && calm <= plain / 10; i++)
        if (!l->blocks[i].texture) noise = l->blocks[i].noise, calm++;
    return fmin(noise, l->blocks[l->count / 10].noise) / 0.88;
}

static void run_strip(void *arg, size_t i, int worker)
{
    const examining *e = arg;
    look *l = &e->strips[i];
    l->luma = e->rooms + (size_t)worker * e->room;
    l->raw = l->luma + l->picture->width * STRIP;
    add_strip(l, (int64_t)i * e->every * BLOCK);
}

static void add_grid(grid *to, const grid *g)
{
    for (int i = 0; i < GRID; i++) to->excess[i] += g->excess[i], to->count[i] += g->count[i];
    to->steps += g->steps, to->all += g->all;
    to->small += g->small, to->large += g->large;
}

/* Into the first of the strips. */
static void put_together(const examining *e)
{
    look *all = e->strips;
    for (int64_t i = 1; i < e->count; i++) {
        const look *l = &e->strips[i];
        memmove(all->blocks + all->count, l->blocks, l->count * sizeof *l->blocks);
        all->count += l->count;
        add_grid(&all->across, &l->across);
        add_grid(&all->down, &l->down);
    }
}

gale_status gale_picture_examine(const gale_picture *p, gale_picture_condition *out)
{
    GALE__NEED({"picture", p}, {"out", out});
    GALE_TRY(gale__picture_check(p));
    gale_picture_condition found = {.jpeg_quality = p->jpeg_quality};
    int64_t strips = (p->height - STRIP) / BLOCK + 1, each = p->width / BLOCK;
    if (p->width < SIDE_LEAST || p->height < SIDE_LEAST) return *out = found, GALE_OK;
    examining e = {.every = 1 + (strips - 1) / STRIPS_MOST, .room = (size_t)(p->width * (STRIP + p->channels))};
    e.count = (strips - 1) / e.every + 1;
    e.strips = gale__calloc((size_t)e.count, sizeof *e.strips);
    e.rooms = gale__calloc((size_t)gale__parallel_width() * e.room, sizeof *e.rooms);
    block *blocks = gale__calloc((size_t)(each * e.count), sizeof *blocks);
    gale_status status = e.strips && e.rooms && blocks ? GALE_OK : GALE_NO_MEMORY;
    if (status == GALE_OK) {
        for (int64_t i = 0; i < e.count; i++) e.strips[i] = (look){.picture = p, .blocks = blocks + i * each};
        gale__parallel((size_t)e.count, run_strip, &e);
        put_together(&e);
        look *l = e.strips;
        found.noise = calm_noise(l);
        found.blocks = fmax(0, fmin(grid_visible(&l->across), grid_visible(&l->down))); /* fences have one of both */
        *out = found;
    }
    gale__free(e.strips);
    gale__free(e.rooms);
    gale__free(blocks);
    return status;
}
