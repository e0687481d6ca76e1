/* See cpu_window.h: finds windows, copies bands. */
#include "kernel/cpu/cpu_window.h"
#include "base/thread.h"
#include "kernel/cpu/divide.h"
#include "kernel/cpu/walk.h"
#include <string.h>

#define DIRECT_WEIGHTS 20480     /* more of them, and lanes are read often enough to be worth a copy */
#define NEAR_BYTES 4096          /* from one step to the next: lanes are read in place however often */
#define AHEAD_BYTES 16384        /* the same where tiles fetch them ahead */
#define SETS_BYTES 4096          /* steps that are a multiple apart meet in the same sets of the first cache */
#define SPARSE_SHARE 2           /* the same for tiles of the lanes inside */
#define SPARSE_K 32              /* least steps of a tap by itself */
#define BORDER_SHARE 4           /* more places read than there are lanes: windows are packed instead */
#define SHARED_BYTES (32u << 20) /* of bands and panels that the parts of blocks share */

enum { STRIPS = 256 }; /* of a plane that are found once for all planes */

static int64_t common(int64_t a, int64_t b) { return b ? common(b, a % b) : a < 0 ? -a : a; }

static const gale__nest_access *load_of(const gale__nest *nest, int value, gale__simd_type ct)
{
    const gale__nest_instr *in = &nest->code[value];
    if (in->op == GALE__CAST && gale__compute_type((gale_type)in->type) == (gale_type)in->type) in = &nest->code[in->a];
    if (in->op != GALE__NEST_LOAD || gale__simd_type_of((gale_type)in->type) != ct ||
        gale__simd_type_of((gale_type)nest->code[value].type) != ct)
        return NULL;
    return &nest->accesses[in->access];
}

/* Whether lanes and taps move over one axis; then the axis. */
static bool shares_axis(const gale__nest *nest, const gale__nest_access *a, int lane, int tap, gale__cpu_axis *out)
{
    int64_t s = a->stride[lane], t = a->stride[tap], unit = common(s, t);
    if (s <= 0 || t <= 0) return false;
    for (int g = 0; g < a->n_guards; g++)
        if (a->guards[g].coef[lane] * t != a->guards[g].coef[tap] * s) return false;
    *out = (gale__cpu_axis){lane, tap, nest->extent[lane], nest->extent[tap], s / unit, t / unit, unit};
    return true;
}

/* The taps that share most with these lanes. */
static gale__cpu_axis find_axis(
    const gale__nest *nest, const gale__nest_access *a, const gale__cpu_span *k, int lane, int taken)
{
    gale__cpu_axis best = {lane, -1, 1, 1, 1, 1, 1}, other;
    if (lane < 0) return best;
    best.lanes = nest->extent[lane];
    best.unit = a->stride[lane];
    double least = 1;
    for (int i = 0; i < k->n; i++) {
        if (k->dim[i] == taken || !shares_axis(nest, a, lane, k->dim[i], &other)) continue;
        int64_t some = other.lanes < 16 ? other.lanes : 16;
        double share = (double)gale__cpu_window_places(&other, some) / (double)(some * other.taps);
        if (share >= least) continue;
        least = share;
        best = other;
    }
    return best;
}

bool gale__cpu_window_find_load(gale__cpu_window *w, const gale__nest *nest, const gale__nest_access *a,
    const gale__cpu_span *lanes, const gale__cpu_span *k)
{
    uint8_t dims[GALE__NEST_DIMS];
    int n = 0;
    *w = (gale__cpu_window){.channel = -1, .steps = 1, .together = 1};
    if (!a || !lanes->n) return false;
    for (int g = 0; g < a->n_guards; g++)
        if (a->guards[g].div > 1) return false;
    w->x = find_axis(nest, a, k, lanes->dim[lanes->n - 1], -1);
    w->y = find_axis(nest, a, k, lanes->n > 1 ? lanes->dim[lanes->n - 2] : -1, w->x.tap);
    if (w->x.step > 8 || w->y.step > 8) return false;
    gale__cpu_span_init(&w->far, nest, lanes->dim, lanes->n > 2 ? lanes->n - 2 : 0);
    for (int i = 0; i < k->n; i++)
        if (k->dim[i] != w->x.tap && k->dim[i] != w->y.tap) dims[n++] = k->dim[i];
    gale__cpu_span_init(&w->rest, nest, dims, n);
    w->access = a;
    w->size = (int[]){[1] = 0, [2] = 1, [4] = 2, [8] = 3}[gale_type_size(a->type)];
    return true;
}

bool gale__cpu_window_find(gale__cpu_window *w, const gale__nest *nest, int value, const gale__cpu_span *lanes,
    const gale__cpu_span *k, gale__simd_type ct)
{
    if (!gale__cpu_window_find_load(w, nest, load_of(nest, value, ct), lanes, k)) return false;
    w->widen = gale__simd_get()->widen[w->access->type];
    return true;
}

/* Steps of k, as they come, in the order of units: coordinates of unit i along each dimension of k. */
static int32_t place_of(const gale__cpu_window *w, const gale__cpu_span *k, const int64_t *unit, int64_t step)
{
    int64_t place = 0;
    for (int d = 0; d < k->n; d++) {
        bool whole = k->dim[d] == (w->across ? w->x.tap : w->channel);
        int64_t at = whole ? unit[d] * w->steps + step : unit[d];
        if (at >= k->extent[d]) return -1;
        place = place * k->extent[d] + at;
    }
    return (int32_t)place;
}

/* Where the unit begins in the band. */
static int32_t offset_of(const gale__cpu_window *w, const gale__cpu_span *units, const int64_t *at)
{
    int64_t other = 0, row = 0, shift = 0;
    for (int d = 0; d < units->n; d++) {
        if (units->dim[d] == w->x.tap) shift = at[d] * w->x.hop;
        else if (units->dim[d] == w->y.tap) row = at[d] * w->y.hop;
        else other = other * units->extent[d] + at[d];
    }
    shift = w->across ? shift * w->phase : shift % w->phases * w->phase + shift / w->phases;
    return (int32_t)(other * w->plane + row * w->pitch + shift);
}

static gale_status make_offsets(gale__cpu_window *w, const gale__cpu_span *k)
{
    gale__cpu_span units = *k;
    int64_t at[GALE__NEST_DIMS];
    int64_t places = w->steps > 1 ? w->units * w->together * w->steps : 0;
    units.count = w->steps > 1 ? w->reads : k->count;
    for (int d = 0; d < k->n && w->steps > 1; d++) {
        if (w->across && k->dim[d] == w->x.tap) units.extent[d] = w->across;
        else if (!w->across && k->dim[d] == w->channel) units.extent[d] /= w->steps;
    }
    w->offset = gale__alloc((size_t)units.count * sizeof *w->offset);
    w->order = places ? gale__alloc((size_t)places * sizeof *w->order) : NULL;
    if (!w->offset || (places && !w->order)) return GALE_NO_MEMORY;
    for (int64_t i = 0; i < units.count; i++) {
        int64_t left = i;
        for (int d = units.n - 1; d >= 0; d--, left /= units.extent[d + 1]) at[d] = left % units.extent[d];
        w->offset[i] = offset_of(w, &units, at);
        for (int64_t s = 0; s < w->steps && w->order; s++) w->order[i * w->steps + s] = place_of(w, k, at, s);
    }
    for (int64_t i = units.count * w->steps; i < places; i++) w->order[i] = -1;
    return GALE_OK;
}

static gale_status make_panel_offsets(gale__cpu_window *w, int64_t kc, int64_t nr)
{
    w->in_panel = gale__alloc((size_t)kc * sizeof *w->in_panel);
    if (!w->in_panel) return GALE_NO_MEMORY;
    for (int64_t i = 0; i < kc; i++) w->in_panel[i] = (int32_t)(i * nr);
    return GALE_OK;
}

bool gale__cpu_window_is_near(const gale__cpu_window *w)
{
    const gale__nest_access *a = w->access;
    int64_t most =
        gale__simd_gemm_find(gale__simd_plain(GALE__SIMD_TYPE_F32))->part[0].done_at[0] ? AHEAD_BYTES : NEAR_BYTES;
    if (w->steps > 1 || w->widen || a->type != GALE_F32 || a->n_guards || w->x.tap >= 0 || w->y.tap >= 0 ||
        w->x.unit != 1 || w->y.lanes != 1 || w->far.count > 1)
        return false;
    for (int d = 0; d < w->rest.n; d++)
        if (a->stride[w->rest.dim[d]] < 0 || a->stride[w->rest.dim[d]] * (int64_t)sizeof(float) > most) return false;
    return true;
}

/* Offsets in memory, where all lanes are one row without borders; they go on with the next nr lanes. */
static gale_status make_direct(gale__cpu_window *w, const gale__cpu_span *k, int64_t m, int nr)
{
    const gale__nest_access *a = w->access;
    bool near = gale__cpu_window_is_near(w);
    bool whole = a->type == GALE_F32 && !w->widen && w->steps < 2 && !a->n_guards && !w->flat,
         taps = w->x.tap >= 0 || w->y.tap >= 0,
         meet = k->n && a->stride[k->dim[k->n - 1]] % (SETS_BYTES / (int64_t)sizeof(float)) == 0;
    if (!w->sparse && (!whole || (!w->upright && (meet || taps || w->x.unit != 1 || w->y.lanes != 1 ||
                                                     (!near && (w->parts > 1 || m * k->count > DIRECT_WEIGHTS))))))
        return GALE_OK;
    for (int d = 0; d < k->n; d++) {
        if (a->stride[k->dim[d]] < 0) return GALE_OK;
        w->direct_most += (k->extent[d] - 1) * a->stride[k->dim[d]];
    }
    if (w->direct_most > INT32_MAX - nr) return GALE_OK;
    w->direct = gale__alloc((size_t)(k->count + GALE__SIMD_AHEAD) * sizeof *w->direct);
    if (!w->direct) return GALE_NO_MEMORY;
    for (int64_t i = 0; i < k->count; i++) {
        int64_t left = i, at = 0;
        for (int d = k->n - 1; d >= 0; d--, left /= k->extent[d + 1]) at += left % k->extent[d] * a->stride[k->dim[d]];
        w->direct[i] = (int32_t)at;
    }
    for (int64_t i = 0; i < GALE__SIMD_AHEAD; i++) w->direct[k->count + i] = w->direct[i % k->count] + nr;
    return GALE_OK;
}

static size_t whole_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* Parts of a block read the same band: it is filled, and packed, once for all of them.  Batches do not wait for each
 * other, so where there are several each part fills its own. */
static void share_bands(gale__cpu_window *w, int64_t batches, int64_t units, size_t size)
{
    size_t band = whole_lines(w->band_bytes + 1),
           panels = w->flat ? whole_lines((size_t)((units + 1) * w->block_lanes) * gale__cpu_window_unit(w, size)) : 0;
    w->shared_band = w->shared_panels = 0;
    if (w->parts < 2 || batches > 1 || w->direct || (size_t)gale__cpu_window_blocks(w) * (band + panels) > SHARED_BYTES)
        return;
    w->shared_band = band;
    w->shared_panels = panels;
}

/* Dilated taps reach far beyond a small map: 3 x 3 taps that are 12 apart over 16 x 16 places read 40 x 40 of them,
 * most of which are border. */
static bool is_mostly_border(const gale__cpu_window *w, int64_t share)
{
    int64_t read = gale__cpu_window_places(&w->x, w->x.lanes) * gale__cpu_window_places(&w->y, w->y.lanes),
            inside = w->x.lanes * w->x.step * w->y.lanes * w->y.step;
    return w->x.tap >= 0 && w->y.tap >= 0 && read > share * inside;
}

/* Whether the same places are inside for all of `rest`. */
static bool has_equal_planes(const gale__cpu_window *w)
{
    for (int g = 0; g < w->access->n_guards; g++)
        for (int d = 0; d < w->rest.n; d++)
            if (w->access->guards[g].coef[w->rest.dim[d]]) return false;
    return true;
}

void gale__cpu_window_sort_taps(
    gale__cpu_window *w, const gale__nest *nest, gale__cpu_span *k, int64_t most, int64_t *kc)
{
    uint8_t dims[GALE__NEST_DIMS] = {(uint8_t)w->y.tap, (uint8_t)w->x.tap};
    int64_t steps = w->rest.count < most ? w->rest.count : most;
    while (w->rest.count % steps) steps--;
    if (!gale__simd_get()->upright_done || w->access->type != GALE_F32 || w->widen || w->access->fill ||
        !is_mostly_border(w, SPARSE_SHARE) || !has_equal_planes(w) || steps < SPARSE_K)
        return;
    memcpy(dims + 2, w->rest.dim, (size_t)w->rest.n);
    gale__cpu_span_init(k, nest, dims, k->n);
    *kc = steps;
    w->sparse = true;
}

gale_status gale__cpu_window_init(gale__cpu_window *w, const gale__cpu_span *k, int64_t kc, int64_t m, int64_t batches,
    gale__simd_gemm *gemm, size_t size)
{
    gale__simd_gemm chosen = *gemm;
    gale__cpu_window_choose(w, k->count, kc, m, batches, &chosen, size);
    if (w->band_bytes > (8u << 20) || (!w->sparse && is_mostly_border(w, BORDER_SHARE)) ||
        (!w->upright && w->x.tap < 0 && w->y.tap < 0 && w->x.unit > 1)) {
        w->access = NULL;
        w->units = 0;
        return GALE_OK;
    }
    *gemm = chosen;
    w->temp_bytes = w->steps > 1 ? gale__cpu_window_units_temp(w) : (size_t)w->phase * 8;
    if (w->flat && gemm->slim) GALE_TRY(make_panel_offsets(w, kc, gemm->nr));
    GALE_TRY(make_direct(w, w->sparse ? &w->rest : k, m, gemm->nr));
    share_bands(w, batches, w->units ? w->units : k->count, size);
    GALE_TRY(make_offsets(w, k));
    return w->upright ? gale__cpu_window_make_fetches(w, k, gemm->nr) : GALE_OK;
}

/* A run of lanes within a panel that is within a row of the band. */
typedef struct segment {
    int64_t lane, place;
} segment;

static int find_segments(const gale__cpu_window *w, int64_t columns, int64_t lane, int64_t end, segment *out)
{
    int n = 0;
    for (int64_t l = lane; l < end; n++) {
        int64_t row = l / columns, column = l % columns;
        out[n] = (segment){l - lane, row * w->y.step * w->pitch + column};
        l += columns - column;
    }
    return n;
}

/* Every copy is a panel long, since that is quick: the next one, and at last the next step, covers what is too much.
 * The last step is put together elsewhere, since what follows it may be another task's. */
#define PACK(T, NR)                                                                                             \
    for (int64_t i = 0; i < kn - 1; i++, to += (size_t)(NR) * sizeof(T))                                        \
        for (int s = 0; s < n; s++)                                                                             \
            memcpy(to + (size_t)seg[s].lane * sizeof(T), band + (size_t)(seg[s].place + offset[i]) * sizeof(T), \
                (size_t)(NR) * sizeof(T));

enum { LANES_MOST = 256 }; /* of a panel: three vectors of 2,048 bits are 192 */

static void pack_last(
    const char *band, const segment *seg, int n, int32_t offset, size_t row_bytes, size_t size, char *to)
{
    char step[2 * LANES_MOST * sizeof(double)];
    for (int s = 0; s < n; s++)
        memcpy(step + (size_t)seg[s].lane * size, band + (size_t)(seg[s].place + offset) * size, row_bytes);
    memcpy(to, step, row_bytes);
}

static void pack_panel(
    const char *band, const segment *seg, int n, const int32_t *offset, int64_t kn, int64_t nr, size_t size, char *to)
{
    if (size == 4 && nr == 12) {
        PACK(float, 12)
    } else if (size == 4 && nr == 16) {
        PACK(float, 16)
    } else if (size == 4 && nr == 32) {
        PACK(float, 32)
    } else if (size == 4) {
        PACK(float, nr)
    } else {
        PACK(double, nr)
    }
    pack_last(band, seg, n, offset[kn - 1], (size_t)nr * size, size, to);
}

void gale__cpu_window_pack(const gale__cpu_window *w, const char *band, int64_t columns, int64_t lanes, int64_t first,
    int64_t count, int64_t k0, int64_t kn, int64_t nr, size_t size, char *to)
{
    segment seg[GALE__WINDOW_SEGMENTS];
    int64_t steps = w->units ? w->reads : kn;
    size_t panel = (size_t)(kn * w->together * nr) * size, read = (size_t)(steps * nr) * size;
    for (int64_t p = first; p < first + count; p++, to += panel) {
        int64_t lane = p * nr, end = lane + nr < lanes ? lane + nr : lanes;
        pack_panel(band, seg, find_segments(w, columns, lane, end, seg), w->offset + k0, steps, nr, size, to);
        if (panel > read) memset(to + read, 0, panel - read);
    }
}

void gale__cpu_window_finish(gale__cpu_window *w)
{
    gale__free(w->offset);
    gale__free(w->fetch);
    gale__free(w->order);
    gale__free(w->in_panel);
    gale__free(w->direct);
    *w = (gale__cpu_window){0};
}

/* What a guard's coordinate moves by from one place of an axis to the next. */
static int64_t coef_of(const gale__nest_guard *g, const gale__cpu_axis *a)
{
    return a->lane < 0 ? 0 : g->coef[a->lane] / a->step;
}

void gale__cpu_window_inside(const gale__cpu_window *w, const gale__cpu_window_row *r, int64_t p, int64_t n,
    int64_t *lo, int64_t *hi, int64_t *from)
{
    const gale__nest_access *a = w->access;
    *lo = 0, *hi = n;
    for (int g = 0; g < a->n_guards; g++) {
        int64_t c = coef_of(&a->guards[g], &w->x);
        gale__cpu_clip(r->guard[g] + c * p, c * w->phases, a->guards[g].extent, lo, hi);
    }
    *from = r->address + (p + *lo * w->phases) * w->x.unit;
}

void gale__cpu_window_copy(const gale__cpu_window *w, const gale__simd *simd, const char *memory,
    const gale__cpu_window_row *r, int64_t p, int64_t n, char *to)
{
    const gale__nest_access *a = w->access;
    int64_t lo, hi, stride = w->x.unit * w->phases, from;
    gale__cpu_window_inside(w, r, p, n, &lo, &hi, &from);
    const char *source = memory + from * ((int64_t)1 << w->size);
    if (lo) simd->fill[w->size](to, a->fill, (size_t)lo);
    if (hi > lo && stride == 1) memcpy(to + (lo << w->size), source, (size_t)(hi - lo) << w->size);
    else if (hi > lo) simd->gather[w->size](to + (lo << w->size), source, stride, (size_t)(hi - lo));
    if (n > hi) simd->fill[w->size](to + (hi << w->size), a->fill, (size_t)(n - hi));
}

static void copy_row(const gale__cpu_window *w, const gale__simd *simd, const char *memory,
    const gale__cpu_window_row *r, int64_t columns, char *to, char *temp, size_t size)
{
    int64_t need = gale__cpu_window_places(&w->x, columns);
    for (int64_t p = 0; p < w->phases; p++, to += (size_t)w->phase * size) {
        int64_t n = parts(need - p, w->phases);
        gale__cpu_window_copy(w, simd, memory, r, p, n, w->widen ? temp : to);
        if (w->widen) w->widen(to, temp, NULL, NULL, (size_t)n);
        memset(to + (size_t)n * size, 0, (size_t)(w->phase - n) * size);
    }
}

void gale__cpu_window_seek(
    const gale__cpu_window *w, const int64_t *at, int n_dims, int64_t y, int64_t x, gale__cpu_window_row *r)
{
    const gale__nest_access *a = w->access;
    r->address = a->offset + y * w->y.unit + x * w->x.unit;
    for (int d = 0; d < n_dims; d++) r->address += a->stride[d] * at[d];
    for (int g = 0; g < a->n_guards; g++) {
        r->guard[g] = a->guards[g].c0 + coef_of(&a->guards[g], &w->y) * y + coef_of(&a->guards[g], &w->x) * x;
        for (int d = 0; d < n_dims; d++) r->guard[g] += a->guards[g].coef[d] * at[d];
    }
}

void gale__cpu_window_next(const gale__cpu_window *w, gale__cpu_window_row *r)
{
    r->address += w->y.unit;
    for (int g = 0; g < w->access->n_guards; g++) r->guard[g] += coef_of(&w->access->guards[g], &w->y);
}

typedef gale__cpu_window_strip strip;

/* The strips of a plane of the band; 0: more than there is room for, or not the same in every plane. */
static int find_strips(const gale__cpu_window *w, const int64_t *at, int n_dims, gale__cpu_window_piece piece,
    int64_t need, int64_t columns, bool woven, strip *out)
{
    gale__cpu_window_row r;
    int n = 0;
    bool floats = w->size == 2 && !w->widen && w->access->type == GALE_F32;
    if ((!floats && !woven) || need * w->phases > STRIPS) return 0;
    if (!has_equal_planes(w)) return 0;
    gale__cpu_window_seek(w, at, n_dims, piece.row * w->y.step, piece.column * w->x.step, &r);
    for (int64_t p = 0; p < need; p++, gale__cpu_window_next(w, &r))
        for (int64_t q = 0; q < w->phases; q++, n++) {
            int64_t hi;
            gale__cpu_window_inside(
                w, &r, q, parts(gale__cpu_window_places(&w->x, columns) - q, w->phases), &out[n].lo, &hi, &out[n].from);
            out[n].n = hi - out[n].lo;
            out[n].to = p * w->pitch + q * w->phase;
        }
    return n;
}

static void fill_strips(const gale__cpu_window *w, const gale__simd *simd, const float *memory, const strip *s, int n,
    float *band, int64_t next)
{
    int64_t stride = w->x.unit * w->phases;
    uint32_t bits = (uint32_t)w->access->fill;
    float outside;
    memcpy(&outside, &bits, sizeof outside);
    for (; n > 0; n--, s++) {
        float *to = band + s->to;
        const float *from = memory + s->from;
        for (int64_t i = 0; i < s->lo; i++) to[i] = outside;
        for (int64_t i = 0; i < s->n * stride; i += 16) __builtin_prefetch(from + next + i);
        if (stride == 1) gale__cpu_copy_floats(to + s->lo, from, s->n);
        else simd->gather[2](to + s->lo, from, stride, (size_t)s->n);
        for (int64_t i = s->lo + s->n; i < w->phase; i++) to[i] = outside;
    }
}

void gale__cpu_window_fill(const gale__cpu_window *w, const gale__cpu_narrow *narrow, const gale__simd *simd,
    const char *memory, const int64_t *start, int n_dims, gale__cpu_window_piece piece, char *band, char *temp,
    size_t size)
{
    int64_t at[GALE__NEST_DIMS], rows = w->y.lanes - piece.row < w->rows ? w->y.lanes - piece.row : w->rows;
    int64_t columns = w->x.lanes - piece.column < w->columns ? w->x.lanes - piece.column : w->columns,
            need = gale__cpu_window_places(&w->y, rows);
    strip strips[STRIPS];
    memcpy(at, start, (size_t)n_dims * sizeof *at);
    for (int d = 0; d < w->rest.n; d++) at[w->rest.dim[d]] = 0;
    bool woven = narrow && gale__cpu_window_is_woven(w, simd);
    int n_strips = narrow && !woven ? 0 : find_strips(w, at, n_dims, piece, need, columns, woven, strips);
    int64_t next = w->rest.n ? w->access->stride[w->rest.dim[w->rest.n - 1]] : 0;
    band += (size_t)(piece.first * w->plane) * size;
    for (int64_t i = piece.first; i < piece.first + piece.count; i++, band += (size_t)w->plane * size) {
        int64_t left = i;
        gale__cpu_window_row r;
        int64_t plane = 0;
        for (int d = w->rest.n - 1; d >= 0; d--, left /= w->rest.extent[d + 1]) {
            at[w->rest.dim[d]] =
                left % w->rest.extent[d] * (narrow && !w->across && w->rest.dim[d] == w->channel ? w->steps : 1);
            plane += at[w->rest.dim[d]] * w->access->stride[w->rest.dim[d]];
        }
        if (n_strips && woven) {
            gale__cpu_window_weave(w, narrow, simd, memory + plane, strips, n_strips, band, temp);
            continue;
        }
        if (n_strips) {
            fill_strips(
                w, simd, (const float *)(const void *)memory + plane, strips, n_strips, (float *)(void *)band, next);
            continue;
        }
        gale__cpu_window_seek(w, at, n_dims, piece.row * w->y.step, piece.column * w->x.step, &r);
        if (narrow) gale__cpu_window_fill_units(w, narrow, simd, memory, r, need, columns, band, temp, size);
        for (int64_t p = 0; p < need && !narrow; p++) {
            copy_row(w, simd, memory, &r, columns, band + (size_t)(p * w->pitch) * size, temp, size);
            gale__cpu_window_next(w, &r);
        }
    }
}
