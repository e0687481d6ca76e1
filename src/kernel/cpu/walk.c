/* See walk.h. */
#include "kernel/cpu/walk.h"
#include <string.h>

int64_t gale__cpu_address(const gale__nest_access *a, const int64_t *at, int n_dims)
{
    int64_t address = a->offset;
    for (int d = 0; d < n_dims; d++) address += a->stride[d] * at[d];
    return address;
}

int64_t gale__cpu_lane_address(const gale__nest_access *a, const gale__cpu_span *lanes, int64_t lane)
{
    int64_t address = 0;
    for (int i = lanes->n - 1; i >= 0; i--) {
        int64_t rest = i ? lane / lanes->extent[i] : 0;
        address += a->stride[lanes->dim[i]] * (lane - rest * (i ? lanes->extent[i] : 0));
        lane = rest;
    }
    return address;
}

int64_t gale__cpu_run_of(const gale__nest_access *a, const gale__cpu_span *lanes)
{
    int64_t run = 1;
    for (int i = lanes->n - 1; i >= 0; i--) {
        if (lanes->base[i] || a->stride[lanes->dim[i]] != run) return i == lanes->n - 1 ? 0 : run;
        run *= lanes->extent[i];
    }
    return run;
}

static int lane_dim(const gale__cpu_frame *f) { return f->span->n ? f->span->dim[f->span->n - 1] : -1; }

/* The whole span is one row for this access: each dimension's stride is that of a full row of the next. */
static bool is_linear(const gale__nest_access *a, const gale__cpu_span *s)
{
    for (int k = 0; k + 1 < s->n; k++)
        if (a->stride[s->dim[k]] != a->stride[s->dim[k + 1]] * s->extent[k + 1]) return false;
    return true;
}

bool gale__cpu_walk_plain(const gale__cpu_frame *f, const gale__nest_access *access, gale__cpu_piece *out)
{
    if (access->n_guards || (!f->one_run && !is_linear(access, f->span))) return false;
    int d = lane_dim(f);
    *out = (gale__cpu_piece){
        0, f->lanes, gale__cpu_address(access, f->at, f->tape->n_dims), d < 0 ? 0 : access->stride[d], true};
    return true;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q * b > a ? q - 1 : q; /* b > 0 */
}

void gale__cpu_clip(int64_t v, int64_t c, int64_t limit, int64_t *lo, int64_t *hi)
{
    int64_t first = *lo, end = *hi;
    if (c == 0) {
        if (v < 0 || v >= limit) end = first;
    } else if (c == 1) { /* the usual case, without divisions */
        first = -v;
        end = limit - v;
    } else if (c > 0) {
        first = -floor_div(v, c); /* ceil(-v / c) */
        end = floor_div(limit - 1 - v, c) + 1;
    } else {
        first = -floor_div(limit - 1 - v, -c); /* ceil((v - limit + 1) / -c) */
        end = floor_div(v, -c) + 1;
    }
    if (first > *lo) *lo = first < *hi ? first : *hi;
    if (end < *hi) *hi = end > *lo ? end : *lo;
}

static int64_t guard_value(const gale__nest_guard *g, const int64_t *at, int n_dims)
{
    int64_t v = g->c0;
    for (int d = 0; d < n_dims; d++) v += g->coef[d] * at[d];
    return v;
}

/* Lane by lane, where a dilated axis takes only some of the lanes. */
static void walk_single(const gale__cpu_frame *f, const gale__nest_access *a, const int64_t *at, gale__cpu_piece run,
    gale__cpu_piece_fn *fn, void *arg)
{
    int dim = lane_dim(f), n_dims = f->tape->n_dims;
    for (size_t i = 0; i < run.n; i++) {
        gale__cpu_piece p = {run.at + i, 1, run.address + run.stride * (int64_t)i, 0, true};
        for (int k = 0; k < a->n_guards && p.inside; k++) {
            const gale__nest_guard *g = &a->guards[k];
            int64_t v = guard_value(g, at, n_dims) + (dim < 0 ? 0 : g->coef[dim]) * (int64_t)i;
            p.inside = v >= 0 && v < g->extent * g->div && v % g->div == 0;
            if (g->div > 1) p.address += v / g->div * g->stride;
        }
        fn(arg, &p);
    }
}

/* One run: at holds the coordinates of its first lane, value each guard's there. */
static void walk_run(const gale__cpu_frame *f, const gale__nest_access *a, const int64_t *at, const int64_t *value,
    gale__cpu_piece run, gale__cpu_piece_fn *fn, void *arg)
{
    int dim = lane_dim(f), n_dims = f->tape->n_dims;
    int64_t lo = 0, hi = (int64_t)run.n;
    for (int k = 0; k < a->n_guards; k++) {
        const gale__nest_guard *g = &a->guards[k];
        int64_t v = value[k], c = dim < 0 ? 0 : g->coef[dim];
        if (g->div > 1) {
            if (c % g->div) {
                walk_single(f, a, at,
                    (gale__cpu_piece){
                        run.at, run.n, gale__cpu_address(a, at, n_dims), dim < 0 ? 0 : a->stride[dim], true},
                    fn, arg);
                return;
            }
            if (v % g->div) hi = lo;
            run.address += floor_div(v, g->div) * g->stride;
            run.stride += c / g->div * g->stride;
        }
        gale__cpu_clip(v, c, g->extent * g->div, &lo, &hi);
    }
    gale__cpu_piece p = {.at = run.at, .n = (size_t)lo};
    if (p.n) fn(arg, &p);
    p = (gale__cpu_piece){run.at + (size_t)lo, (size_t)(hi - lo), run.address + run.stride * lo, run.stride, true};
    if (p.n) fn(arg, &p);
    p = (gale__cpu_piece){.at = run.at + (size_t)hi, .n = run.n - (size_t)hi};
    if (p.n) fn(arg, &p);
}

/* Moves dimension d, and what depends on it. */
static int64_t move(const gale__nest_access *a, int d, int64_t by, int64_t *at, int64_t *value)
{
    at[d] += by;
    for (int g = 0; g < a->n_guards; g++) value[g] += a->guards[g].coef[d] * by;
    return a->stride[d] * by;
}

/* To the next row of the span; returns how the address moves. */
static int64_t next_row(const gale__cpu_span *s, const gale__nest_access *a, int64_t *at, int64_t *value)
{
    int64_t moved = 0;
    for (int k = s->n - 1; k >= 0; k--) {
        int d = s->dim[k];
        if (k < s->n - 1) {
            moved += move(a, d, 1, at, value);
            if (at[d] - s->base[k] < s->extent[k]) break;
        }
        moved += move(a, d, s->base[k] - at[d], at, value);
    }
    return moved;
}

void gale__cpu_walk(const gale__cpu_frame *f, const gale__nest_access *access, gale__cpu_piece_fn *fn, void *arg)
{
    int64_t at[GALE__NEST_DIMS], value[GALE__GUARDS];
    int dim = lane_dim(f);
    memcpy(at, f->at, sizeof(int64_t) * (size_t)f->tape->n_dims);
    int64_t address = gale__cpu_address(access, at, f->tape->n_dims),
            end = dim < 0 ? 1 : f->span->extent[f->span->n - 1] + f->span->base[f->span->n - 1];
    for (int g = 0; g < access->n_guards; g++) value[g] = guard_value(&access->guards[g], at, f->tape->n_dims);
    for (size_t done = 0; done < f->lanes;) {
        size_t n = f->lanes - done;
        if (dim >= 0 && (int64_t)n > end - at[dim]) n = (size_t)(end - at[dim]);
        gale__cpu_piece run = {done, n, address, dim < 0 ? 0 : access->stride[dim], true};
        if (access->n_guards) walk_run(f, access, at, value, run, fn, arg);
        else fn(arg, &run);
        done += n;
        if (done < f->lanes) address += next_row(f->span, access, at, value);
    }
}
