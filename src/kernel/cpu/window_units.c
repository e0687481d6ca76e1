/* Bands and panels of narrow lanes: their elements are units of neighbouring channels or taps (cpu_window.h). */
#include "kernel/cpu/cpu_window.h"
#include "kernel/cpu/divide.h"
#include <string.h>

enum { TAPS_SHARE = 4 }; /* taps of a row fill at least one in so many steps of a unit */
enum { UNIT_ROOM = 24 }; /* bytes for each place of a row that is woven into units: elements, and units twice */
enum { LINE = 16 };      /* floats of a line of the cache */

/* Units of neighbouring taps, where these are adjacent. */
static bool take_taps(gale__cpu_window *w)
{
    if (w->x.tap < 0 || w->x.hop != 1 || w->x.unit != 1 || w->x.taps * TAPS_SHARE < w->steps) return false;
    w->across = parts(w->x.taps, w->steps);
    w->reads = w->rest.count * w->y.taps * w->across;
    return true;
}

/* Lanes of a plane are adjacent, and nothing is outside. */
static bool is_pointwise(const gale__cpu_window *w)
{
    return w->together > 1 && w->channel >= 0 && w->rest.n == 1 && !w->access->n_guards && w->x.tap < 0 &&
           w->y.tap < 0 && w->x.unit == 1 && w->y.lanes == 1 && gale__simd_get()->weave;
}

bool gale__cpu_window_find_units(gale__cpu_window *w, const gale__nest *nest, const gale__nest_access *a,
    const gale__cpu_span *lanes, const gale__cpu_span *k, int64_t steps, int64_t together)
{
    if (!gale__cpu_window_find_load(w, nest, a, lanes, k)) return false;
    w->steps = steps;
    w->together = together;
    w->reads = k->count / steps;
    for (int i = 0; i < w->rest.n && w->channel < 0; i++) {
        int d = w->rest.dim[i];
        bool guarded = w->rest.extent[i] % steps != 0;
        for (int g = 0; g < a->n_guards; g++) guarded |= a->guards[g].coef[d] != 0;
        if (guarded) continue;
        w->channel = d;
        w->rest.extent[i] /= steps;
        w->rest.count /= steps;
    }
    bool found = w->channel >= 0 || take_taps(w);
    w->units = parts(w->reads, together);
    w->pointwise = is_pointwise(w);
    return found;
}

/* A row of places of `steps` channels, woven. */
static void copy_units(const gale__cpu_window *w, const gale__cpu_narrow *narrow, const gale__simd *simd,
    const char *memory, const gale__cpu_window_row *first, int64_t columns, char *to, char *temp, size_t unit)
{
    int64_t need = gale__cpu_window_places(&w->x, columns);
    size_t element = unit / (size_t)w->steps, room = (size_t)w->phase * 8;
    char *one = temp + (size_t)w->phase * 4, *other = one + room;
    for (int64_t p = 0; p < w->phases; p++, to += (size_t)w->phase * unit) {
        int64_t n = parts(need - p, w->phases);
        for (int64_t g = 0; g < w->steps; g++) {
            gale__cpu_window_row r = *first;
            r.address += g * w->access->stride[w->channel];
            gale__cpu_window_copy(w, simd, memory, &r, p, n, temp);
            gale__cpu_narrow_convert(narrow, temp, n, one + (size_t)(g * n) * element);
        }
        memcpy(to, gale__cpu_narrow_weave(simd, one, other, w->steps, n, element), (size_t)n * unit);
        memset(to + (size_t)n * unit, 0, (size_t)(w->phase - n) * unit);
    }
}

/* The same, of neighbouring places.  Elements after the last one that a tap reads are multiplied by weights of 0. */
static void copy_taps(const gale__cpu_window *w, const gale__cpu_narrow *narrow, const gale__simd *simd,
    const char *memory, const gale__cpu_window_row *r, int64_t columns, char *to, char *temp, size_t unit)
{
    int64_t need = gale__cpu_window_places(&w->x, columns), room = gale__cpu_window_row_places(w);
    size_t element = unit / (size_t)w->steps;
    char *one = temp + room;
    gale__cpu_window_copy(w, simd, memory, r, 0, need, temp);
    memset(temp + need, 0, (size_t)(room - need));
    gale__cpu_narrow_convert(narrow, temp, room, one);
    for (int64_t u = 0; u < w->across; u++, one += (size_t)w->steps * element) {
        size_t step = (size_t)w->x.step * element;
        if (unit == 8)
            for (int64_t l = 0; l < w->padded; l++, to += 8) memcpy(to, one + (size_t)l * step, 8);
        else
            for (int64_t l = 0; l < w->padded; l++, to += 4) memcpy(to, one + (size_t)l * step, 4);
    }
}

void gale__cpu_window_fill_units(const gale__cpu_window *w, const gale__cpu_narrow *narrow, const gale__simd *simd,
    const char *memory, gale__cpu_window_row r, int64_t need, int64_t columns, char *band, char *temp, size_t unit)
{
    for (int64_t p = 0; p < need; p++, band += (size_t)w->pitch * unit, gale__cpu_window_next(w, &r)) {
        if (w->across) copy_taps(w, narrow, simd, memory, &r, columns, band, temp, unit);
        else copy_units(w, narrow, simd, memory, &r, columns, band, temp, unit);
    }
}

/* --- Units of four channels, woven from memory at once. --- */

enum { QUAD = 4 };

bool gale__cpu_window_is_woven(const gale__cpu_window *w, const gale__simd *simd)
{
    return simd->weave && w->steps == QUAD && !w->across && w->size == 0;
}

size_t gale__cpu_window_units_temp(const gale__cpu_window *w)
{
    int64_t stride = w->x.unit * w->phases, woven = w->phase * QUAD * (stride > 1 ? stride : 0);
    if (w->across) return (size_t)gale__cpu_window_row_places(w) * 3;
    return (size_t)(woven > w->phase * UNIT_ROOM ? woven : w->phase * UNIT_ROOM);
}

void gale__cpu_window_weave(const gale__cpu_window *w, const gale__cpu_narrow *narrow, const gale__simd *simd,
    const char *memory, const gale__cpu_window_strip *s, int n, char *band, char *temp)
{
    int64_t stride = w->x.unit * w->phases, next = w->access->stride[w->channel];
    uint32_t outside = (uint8_t)(w->access->fill ^ narrow->flip) * 0x01010101u;
    for (; n > 0; n--, s++) {
        char *to = band + s->to * QUAD;
        int64_t inside = s->lo + s->n;
        for (int64_t i = 0; i < s->lo; i++) memcpy(to + i * QUAD, &outside, QUAD);
        for (int64_t i = inside; i < w->phase; i++) memcpy(to + i * QUAD, &outside, QUAD);
        if (s->n < 1) continue;
        simd->weave(stride == 1 ? to + s->lo * QUAD : temp, memory + s->from, next, narrow->flip,
            (size_t)((s->n - 1) * stride + 1));
        if (stride > 1) simd->gather[2](to + s->lo * QUAD, temp, stride, (size_t)s->n);
    }
}

void gale__cpu_window_pack_points(const gale__cpu_window *w, const gale__cpu_narrow *narrow, const gale__simd *simd,
    const char *memory, int64_t lanes, int64_t first, int64_t count, int64_t nr, char *to)
{
    int64_t next = w->access->stride[w->channel];
    size_t panel = (size_t)(w->units * w->together * nr) * QUAD, read = (size_t)(w->reads * nr) * QUAD;
    for (int64_t i = 0; i < w->reads; i++, memory += QUAD * next)
        for (int64_t p = 0; p < count; p++) {
            int64_t lane = (first + p) * nr, n = lanes - lane < nr ? lanes - lane : nr;
            simd->weave(to + (size_t)p * panel + (size_t)(i * nr) * QUAD, memory + lane, next, narrow->flip, (size_t)n);
        }
    for (int64_t p = 0; p < count && panel > read; p++) memset(to + (size_t)p * panel + read, 0, panel - read);
}

gale_status gale__cpu_window_make_fetches(gale__cpu_window *w, const gale__cpu_span *k, int nr)
{
    int64_t taps = w->x.taps * w->y.taps, down = nr > w->x.lanes ? 2 : 1, last = (w->x.taps - 1) * w->x.hop;
    int64_t row = (nr / down - 1) * w->x.step + last, /* its last place, and that of all rows */
        all = ((w->y.taps - 1) * w->y.hop + (down - 1) * w->y.step) * w->pitch + row;
    bool sorted = taps > 1 && (w->x.tap < 0 || k->dim[k->n - 1] == w->x.tap) &&
                  (w->y.tap < 0 || k->dim[k->n - (w->x.tap < 0 ? 1 : 2)] == w->y.tap);
    w->fetch = gale__alloc((size_t)k->count * sizeof *w->fetch);
    if (!w->fetch) return GALE_NO_MEMORY;
    for (int64_t i = 0; i < k->count; i++) {
        int64_t t = i % taps, y = t / w->x.taps, x = t % w->x.taps, at = least(t * LINE, all);
        if (all >= taps * LINE) at = y * w->y.hop * w->pitch + (x ? x * row / (w->x.taps - 1) : 0);
        w->fetch[i] = sorted ? (int32_t)((i / taps + 1) * w->plane + at) : w->offset[i];
    }
    return GALE_OK;
}
