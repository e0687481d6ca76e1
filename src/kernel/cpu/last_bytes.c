/* See last_bytes.h: finds these convolutions, divides them, and lays out weights. */
#include "kernel/cpu/last_bytes.h"
#include "base/hash.h"
#include "base/thread.h"
#include "kernel/cpu/divide.h"
#include "kernel/cpu/walk.h"
#include <math.h>
#include <string.h>

enum {
    QUAD = 4,
    VECTOR = 16,
    PIXELS = GALE__POINT_PIXELS,
    CHANNELS = GALE__POINT_CHANNELS,
    TILE = 16,       /* pixels, and units */
    TILE_BYTES = 64, /* of a pixel */
    TILE_LEAST = 16, /* bytes of a pixel that are worth a tile */
    BESIDE = GALE__BESIDE,
    BLOCK_BYTES = 256 << 10, /* of maps that stay in the second cache while the weights go by */
    BAND_MOST = 1 << 20,
    TASKS_EACH = 4,
    LEAST_CHANNELS = 8, /* fewer leave most of a vector empty */
    SLACK = 1024        /* bytes after a band that are read, beside places */
};
#define WORK_NS 0.0040 /* of a multiplication, and of a result: as declared and channels-last */
#define WORK_LAST_NS 0.0036
#define RESULT_NS 1.0
#define RESULT_LAST_NS 0.45
#define WORK_TILES_NS 0.0014 /* the same with tiles */
#define WORK_LAST_TILES_NS 0.0010

static int64_t stride_of(const gale__nest_access *a, int d) { return d < 0 ? 0 : a->stride[d]; }

/* Constant signed weights without a zero point, and what they are multiplied by. */
static bool find_factors(gale__cpu_last_bytes *l, const gale__contraction *info)
{
    const gale__nest *nest = l->nest;
    if (nest->code[info->mul].type != GALE_I32 || nest->code[info->reduce].acc != GALE_I32 ||
        !gale__cpu_narrow_look(nest, info->a, &l->x) || !gale__cpu_narrow_look(nest, info->b, &l->w))
        return false;
    if (nest->buffers[l->x.access->buffer].constant) {
        gale__cpu_narrow other = l->x;
        l->x = l->w;
        l->w = other;
    }
    if (l->x.access->type == GALE_I8) l->x.flip = 0x80, l->x.point += 128;
    if (l->w.access->type == GALE_U8) l->w.flip = 0x80, l->w.point -= 128;
    return l->x.known && l->w.known && !l->w.point && nest->buffers[l->w.access->buffer].constant &&
           !nest->buffers[l->x.access->buffer].constant && !l->w.access->n_guards;
}

/* The outer dimension that weights have, and those of the taps and of the channels that are summed: weights are as
 * declared, with taps across adjacent. */
static bool find_dims(gale__cpu_last_bytes *l)
{
    const gale__nest *nest = l->nest;
    const gale__nest_access *x = l->x.access, *w = l->w.access;
    int order[3], first = nest->n_outer;
    l->channel = l->depth = l->cx.lane = l->cx.tap = l->cy.lane = l->cy.tap = -1;
    for (int d = 0; d < first; d++) {
        if (!w->stride[d]) continue;
        if (l->channel >= 0) return false;
        l->channel = d;
    }
    if (l->channel < 0 || nest->n_inner < 1 || nest->n_inner > 3) return false;
    for (int i = 0; i < nest->n_inner; i++) {
        int at = i;
        for (; at > 0 && w->stride[order[at - 1]] > w->stride[first + i]; at--) order[at] = order[at - 1];
        order[at] = first + i;
        if (w->stride[first + i] <= 0 || x->stride[first + i] <= 0) return false;
    }
    bool alone = x->stride[l->channel] != 0;
    if (nest->n_inner != (alone ? 2 : 3) && (alone || nest->n_inner != 1)) return false;
    if (nest->n_inner > 1) l->cx.tap = order[0], l->cy.tap = order[1];
    if (!alone) l->depth = order[nest->n_inner - 1];
    for (int d = 0; d < first; d++)
        if (d != l->channel && x->stride[d] > 0 && (l->cx.lane < 0 || x->stride[d] < x->stride[l->cx.lane]))
            l->cx.lane = d;
    for (int d = 0; d < first; d++)
        if (d != l->channel && d != l->cx.lane && x->stride[d] > 0 &&
            (l->cy.lane < 0 || x->stride[d] < x->stride[l->cy.lane]))
            l->cy.lane = d;
    return true;
}

static bool find_axis(const gale__cpu_last_bytes *l, gale__cpu_last_axis *a)
{
    const gale__nest *nest = l->nest;
    const gale__nest_access *x = l->x.access;
    int64_t stride = stride_of(x, a->lane);
    a->lanes = a->lane < 0 ? 1 : nest->extent[a->lane];
    a->taps = a->tap < 0 ? 1 : nest->extent[a->tap];
    a->place = a->tap < 0 ? stride : x->stride[a->tap];
    a->step = a->tap < 0 || a->lane < 0 ? 1 : stride / a->place;
    return a->lane < 0 || stride == a->step * a->place;
}

/* A guard is about the places of one axis. */
static bool find_guards(gale__cpu_last_bytes *l)
{
    const gale__nest *nest = l->nest;
    const gale__nest_access *x = l->x.access;
    for (int g = 0; g < x->n_guards; g++) {
        const gale__nest_guard *guard = &x->guards[g];
        gale__cpu_last_axis *a = l->cx.tap >= 0 && guard->coef[l->cx.tap] ? &l->cx : &l->cy;
        if (a->tap < 0 || a->guard || guard->div != 1) return false;
        for (int d = 0; d < nest->n_outer + nest->n_inner; d++)
            if (guard->coef[d] != (d == a->tap ? 1 : d == a->lane ? a->step : 0)) return false;
        a->guard = guard;
    }
    return true;
}

static bool find_requant(gale__cpu_last_bytes *l, int reduce)
{
    const gale__nest *nest = l->nest;
    uint8_t dims[GALE__NEST_DIMS];
    gale__cpu_span lanes;
    int n = 0;
    for (int d = 0; d < nest->n_outer; d++)
        if (d != l->channel) dims[n++] = (uint8_t)d;
    gale__cpu_span_init(&lanes, nest, dims, n);
    if (!gale__cpu_requant_look(&l->requant, nest, reduce, &lanes)) return false;
    n = 0;
    for (int d = 0; d < nest->n_outer; d++)
        if (d != l->channel && d != l->cx.lane && d != l->cy.lane) dims[n++] = (uint8_t)d;
    gale__cpu_span_init(&l->others, nest, dims, n);
    float zero = l->requant.numbers.zero, sum = l->requant.sum.zero;
    return fabsf(zero) < 1024 && zero == (float)(int32_t)zero && fabsf(sum) < 1024 && sum == (float)(int32_t)sum;
}

bool gale__cpu_last_bytes_kernels(void) { return gale__simd_get()->beside; }

const gale__simd_gemm *gale__cpu_last_bytes_tiles(void)
{
    if (!gale__simd_get()->pixel_tiles) return NULL;
    return gale__simd_gemm_find((gale__simd_key){GALE_U8, GALE_I8, GALE_I32, TILE_BYTES});
}

/* Maps are read in place if units are whole. */
static bool is_direct(const gale__cpu_last_bytes *l)
{
    const gale__nest_access *x = l->x.access;
    return l->depth >= 0 && !x->n_guards && !l->x.flip && l->cx.taps * l->summed % l->unit == 0 &&
           x->stride[l->depth] == 1 && (l->cx.taps == 1 || l->cx.place == l->summed);
}

/* In place nothing behind a pixel is read; in a band that is multiplied by 0. */
static bool fits_tiles(const gale__cpu_last_bytes *l)
{
    int64_t run = l->cx.taps * l->summed;
    if (l->depth < 0 || !gale__cpu_last_bytes_tiles() || run < TILE_LEAST) return false;
    return !is_direct(l) || (run % TILE_BYTES == 0 && l->cx.lanes * (l->cx.step == 1 ? l->cy.lanes : 1) >= TILE);
}

static gale__cpu_last_kind look(gale__cpu_last_bytes *l, const gale__nest *nest)
{
    gale__contraction info;
    *l = (gale__cpu_last_bytes){.nest = nest};
    if (!gale__cpu_last_bytes_kernels() || !gale__nest_contraction(nest, &info) || !find_factors(l, &info) ||
        !find_dims(l) || !find_axis(l, &l->cx) || !find_axis(l, &l->cy) || !find_guards(l) ||
        !find_requant(l, info.reduce))
        return GALE__CPU_LAST_NONE;
    l->channels = nest->extent[l->channel];
    l->summed = l->depth < 0 ? 1 : nest->extent[l->depth];
    l->unit = l->depth < 0 ? QUAD : gale__simd_get()->pixel_unit;
    if (l->channels < LEAST_CHANNELS) return GALE__CPU_LAST_NONE;
    if (l->depth >= 0) return GALE__CPU_LAST_BYTES;
    bool fits = l->cx.step <= 2 && l->cx.taps <= 7 && !l->requant.skip;
    return fits ? GALE__CPU_LAST_BYTES_DEPTH : GALE__CPU_LAST_NONE;
}

gale__cpu_last_kind gale__cpu_last_bytes_could(const gale__nest *nest, double ns[2])
{
    gale__cpu_last_bytes l;
    gale__cpu_last_kind kind = look(&l, nest);
    double results = (double)(l.channels * l.cx.lanes * l.cy.lanes * l.others.count),
           work = results * (double)(l.summed * l.cx.taps * l.cy.taps);
    if (!kind) return kind;
    bool declared_tiles = l.depth >= 0 && gale__cpu_last_bytes_tiles();
    ns[0] = (declared_tiles ? WORK_TILES_NS : WORK_NS) * work + RESULT_NS * results;
    ns[1] = (fits_tiles(&l) ? WORK_LAST_TILES_NS : WORK_LAST_NS) * work + RESULT_LAST_NS * results;
    return kind;
}

static int64_t band_places(const gale__cpu_last_axis *a) { return (a->block - 1) * a->step + a->taps; }

/* A block's maps stay in the second cache; then channels are shared, so that all threads have something to do. */
static void divide(gale__cpu_last_bytes *l)
{
    gale__cpu_last_axis *x = &l->cx, *y = &l->cy;
    int64_t width = gale__parallel_now(), wanted = width < 2 ? 1 : TASKS_EACH * width,
            pixels = l->tiles ? 2 * TILE : PIXELS,
            bytes = (l->depth < 0 ? l->channels : l->summed) * x->step * y->step + l->channels,
            most = BLOCK_BYTES / bytes;
    if (width > 1) most = least(most, parts(x->lanes * y->lanes * l->others.count, wanted));
    if (most < pixels) most = pixels;
    x->block = x->lanes;
    if (x->lanes > most) x->block = most / pixels * pixels;
    y->block = x->lanes > most ? 1 : least(y->lanes, most / x->lanes);
    x->blocks = parts(x->lanes, x->block);
    y->blocks = parts(y->lanes, y->block);
    int64_t blocks = x->blocks * y->blocks * l->others.count;
    l->groups = least(parts(l->channels, l->panel), parts(wanted, blocks));
}

static void find_panels(gale__cpu_last_bytes *l)
{
    const gale__nest *nest = l->nest;
    const gale__nest_access *w = l->w.access;
    uint64_t words[11 + 2 * GALE__NEST_DIMS] = {0x1a58, l->kind, (uint64_t)l->channels, (uint64_t)w->stride[l->channel],
        (uint64_t)w->offset, (uint64_t)l->x.point, l->w.flip, (uint64_t)l->cx.step, (uint64_t)l->depth + 1,
        (uint64_t)l->units};
    int n = 10;
    for (int d = nest->n_outer; d < nest->n_outer + nest->n_inner; d++) {
        words[n++] = (uint64_t)nest->extent[d];
        words[n++] = (uint64_t)w->stride[d];
    }
    size_t sums = (size_t)round_up(l->channels, l->panel) * sizeof(int32_t);
    l->panels = (gale__cpu_panels){
        w->buffer, gale__cpu_last_bytes_weights(l) + sums, gale__hash(words, (size_t)n * sizeof *words, 1) | 1};
}

size_t gale__cpu_last_bytes_panel(const gale__cpu_last_bytes *l)
{
    int64_t forms = l->depth < 0 && l->cx.step == 1 ? 2 : 1;
    return (size_t)(l->cy.taps * l->units * forms * l->panel * l->unit);
}

size_t gale__cpu_last_bytes_weights(const gale__cpu_last_bytes *l)
{
    return (size_t)parts(l->channels, l->panel) * gale__cpu_last_bytes_panel(l);
}

bool gale__cpu_last_bytes_find(gale__cpu_last_bytes *l, const gale__nest *nest)
{
    l->kind = GALE__CPU_LAST_NONE;
    gale__cpu_last_kind kind = look(l, nest);
    if (!kind) return false;
    const gale__nest_access *x = l->x.access, *out = &nest->accesses[nest->stores[0].access];
    const gale__nest_access *skip = l->requant.skip;
    bool beside = l->depth < 0;
    if (out->stride[l->channel] != 1 || (skip && skip->stride[l->channel] != 1) ||
        (beside && x->stride[l->channel] != 1))
        return false;
    l->requant.out = out;
    l->panel = beside ? BESIDE : CHANNELS;
    int64_t run = l->cx.taps * l->summed;
    l->units = beside ? parts(l->cx.taps + (l->cx.step == 1), l->unit) : parts(run, l->unit);
    l->direct = is_direct(l);
    l->tiles = fits_tiles(l);
    if (l->tiles) l->units = round_up(l->units, TILE);
    divide(l);
    int64_t channels = beside ? l->channels : l->summed, behind = l->tiles ? TILE * l->cx.step : 2 * l->unit;
    l->pitch = band_places(&l->cx) * channels;
    if (!l->tiles || l->cx.step > 1) l->pitch = round_up(l->pitch, 64) + 64; /* else rows follow one another */
    size_t band = (size_t)(band_places(&l->cy) * l->pitch + behind * channels + SLACK);
    l->private_bytes = l->direct ? 0 : band;
    if (l->private_bytes > BAND_MOST) return false;
    l->shared_bytes = (size_t)round_up(l->channels, l->panel) * 2 * sizeof(float);
    l->kind = kind;
    find_panels(l);
    return true;
}

/* --- Weights. --- */

/* Of a channel and a row of taps: units of what is summed, `pitch` bytes apart, from a tap before the first on. */
static void spread_row(const gale__cpu_last_bytes *l, const uint8_t *w, int64_t before, int64_t pitch, int8_t *to)
{
    const gale__nest_access *a = l->w.access;
    int64_t tap = stride_of(a, l->cx.tap), step = stride_of(a, l->depth), unit = l->unit, at = before;
    for (int64_t x = 0; x < l->cx.taps; x++)
        for (int64_t k = 0; k < l->summed; k++) {
            to[at] = (int8_t)(w[x * tap + k * step] ^ l->w.flip);
            if (++at == unit) at = 0, to += pitch;
        }
}

static uint32_t sum_of_row(const gale__cpu_last_bytes *l, const uint8_t *w)
{
    const gale__nest_access *a = l->w.access;
    uint32_t sum = 0;
    for (int64_t x = 0; x < l->cx.taps; x++)
        for (int64_t k = 0; k < l->summed; k++)
            sum += (uint32_t)(int8_t)(w[x * stride_of(a, l->cx.tap) + k * stride_of(a, l->depth)] ^ l->w.flip);
    return sum;
}

void gale__cpu_last_bytes_make_panels(const gale__cpu_last_bytes *l, const void *from, void *to)
{
    const gale__nest_access *a = l->w.access;
    bool beside = l->depth < 0;
    int32_t *start = (int32_t *)(void *)((char *)to + gale__cpu_last_bytes_weights(l));
    memset(to, 0, l->panels.bytes);
    for (int64_t c = 0; c < l->channels; c++) {
        int64_t lane = c % l->panel, first = c - lane,
                lanes = !beside && l->channels - first <= VECTOR ? VECTOR : l->panel,
                forms = beside && l->cx.step == 1 ? 2 : 1, row = l->units * lanes * l->unit;
        if (beside) lane = GALE__BESIDE_LANE(lane);
        int8_t *panel = (int8_t *)to + (size_t)(first / l->panel) * gale__cpu_last_bytes_panel(l) + lane * l->unit;
        uint32_t sum = 0;
        for (int64_t y = 0; y < l->cy.taps; y++) {
            const uint8_t *w =
                (const uint8_t *)from + a->offset + c * a->stride[l->channel] + y * stride_of(a, l->cy.tap);
            for (int64_t form = 0; form < forms; form++, panel += row) spread_row(l, w, form, lanes * l->unit, panel);
            sum += sum_of_row(l, w);
        }
        start[first + lane] = (int32_t)(0 - (uint32_t)l->x.point * sum);
    }
}
