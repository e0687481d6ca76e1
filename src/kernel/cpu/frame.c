/* Runs the steps of a tape over blocks. */
#include "kernel/cpu/by_row.h"
#include "kernel/cpu/walk.h"
#include <string.h>

void gale__cpu_span_init(gale__cpu_span *s, const gale__nest *nest, const uint8_t *dims, int n)
{
    *s = (gale__cpu_span){.n = n, .count = 1};
    for (int i = 0; i < n; i++) {
        s->dim[i] = dims[i];
        s->extent[i] = nest->extent[dims[i]];
        s->count *= s->extent[i];
    }
}

static char *slot_of(const gale__cpu_frame *f, int reg)
{
    const gale__cpu_tape *t = f->tape;
    if (t->regs[reg].single) return f->scratch + t->n_regs * sizeof(void *) + (size_t)t->regs[reg].slot * 8;
    return f->scratch + gale__cpu_tape_slots_at(t) + (size_t)t->regs[reg].slot * t->slot_bytes;
}

static char *cache_row(const gale__cpu_frame *f, int row, int size)
{
    const gale__cpu_tape *t = f->tape;
    size_t base = gale__cpu_tape_slots_at(t) + (size_t)t->n_slots * t->slot_bytes;
    return f->scratch + base + (size_t)row * t->cache_lanes * 8 + (f->cache_at << size);
}

static int log2_of(size_t size) { return size == 8 ? 3 : size == 4 ? 2 : size == 2 ? 1 : 0; }

/* A value that is the same in all lanes. */
static uint64_t const_bits(const gale__cpu_frame *f, const gale__cpu_tape_const *c)
{
    if (!c->access) return c->bits;
    size_t size = gale_type_size(c->access->type);
    const char *from = (const char *)f->buffers[c->access->buffer] + c->access->offset * (int64_t)size;
    char widened[8];
    if (!c->fn) return gale__cpu_read_bits(from, log2_of(size));
    c->fn(widened, from, NULL, NULL, 1);
    return gale__cpu_read_bits(widened, log2_of(c->size));
}

void gale__cpu_frame_init(
    gale__cpu_frame *f, const gale__cpu_tape *t, void *const *buffers, void *scratch, size_t lanes, bool aliased)
{
    *f = (gale__cpu_frame){.tape = t, .buffers = buffers, .scratch = scratch, .registers = scratch, .aliased = aliased};
    for (size_t i = 0; i < t->n_regs; i++) f->registers[i] = t->regs[i].slot < 0 ? NULL : slot_of(f, (int)i);
    if (lanes > t->block) lanes = t->block;
    for (size_t i = 0; i < t->n_consts; i++) {
        const gale__cpu_tape_const *c = &t->consts[i];
        const gale__cpu_reg *r = &t->regs[c->reg];
        size_t n = r->single ? 1 : r->by_row && t->rows_most < lanes ? t->rows_most : lanes;
        t->simd->fill[log2_of(c->size)](f->registers[c->reg], const_bits(f, c), n);
    }
}

void gale__cpu_span_seek(const gale__cpu_span *span, int64_t start, int64_t *at)
{
    for (int k = span->n - 1; k > 0; k--) {
        int64_t rest = start / span->extent[k];
        at[span->dim[k]] = span->base[k] + start - rest * span->extent[k];
        start = rest;
    }
    if (span->n) at[span->dim[0]] = span->base[0] + start;
}

void gale__cpu_frame_seek(gale__cpu_frame *f, const gale__cpu_span *span, int64_t start)
{
    gale__cpu_span_seek(span, start, f->at);
}

const char *gale__cpu_frame_rows(gale__cpu_frame *f, gale__cpu_section s, const gale__cpu_span *rows, int64_t r0,
    int64_t n, const gale__cpu_span *k, int64_t k0, size_t *pitch)
{
    if (s.count != 1) return NULL;
    const gale__cpu_step *load = &f->tape->steps[s.first];
    const gale__nest_access *x = load->access;
    if (load->kind != GALE__CPU_STEP_LOAD || load->fn || x->n_guards || gale__cpu_run_of(x, k) < k->count) return NULL;
    int64_t first = gale__cpu_lane_address(x, rows, r0),
            step = n > 1 ? gale__cpu_lane_address(x, rows, r0 + 1) - first : 0;
    bool even = step >= 0;
    for (int64_t i = 2; i < n; i++) even &= gale__cpu_lane_address(x, rows, r0 + i) == first + i * step;
    if (!even) return NULL;
    gale__cpu_frame_seek(f, rows, r0);
    gale__cpu_frame_seek(f, k, k0);
    *pitch = (size_t)step;
    return (const char *)f->buffers[x->buffer] +
           gale__cpu_address(x, f->at, f->tape->n_dims) * ((int64_t)1 << load->size);
}

enum { REPEATED_MOST = 16 }; /* longer ones are runs that are worth it */

typedef struct mover {
    const gale__cpu_frame *frame;
    const gale__cpu_step *step;
    char *block, *memory;
    const int64_t *index;
} mover;

static void load_piece(void *arg, const gale__cpu_piece *p)
{
    const mover *m = arg;
    int size = m->step->size;
    char *d = m->block + (p->at << size);
    const char *from = m->memory + p->address * ((int64_t)1 << size);
    const gale__simd *simd = m->frame->tape->simd;
    if (!p->inside) simd->fill[size](d, m->step->access->fill, p->n);
    else if (p->stride == 1) memcpy(d, from, p->n << size);
    else if (p->stride == 0) simd->fill[size](d, gale__cpu_read_bits(from, size), p->n);
    else simd->gather[size](d, from, p->stride, p->n);
}

/* The same in all lanes, and only lane 0 will be read. */
static void load_single(gale__cpu_frame *f, const gale__cpu_step *s, char *memory)
{
    size_t n = f->lanes;
    gale__cpu_piece p = {0};
    bool one_run = f->one_run;
    f->lanes = 1;
    f->one_run = true;
    gale__cpu_walk_plain(f, s->access, &p);
    f->lanes = n;
    f->one_run = one_run;
    const char *from = memory + p.address * ((int64_t)1 << s->size);
    if (s->fn) s->fn(f->registers[s->d], from, NULL, NULL, 1);
    else memcpy(f->registers[s->d], from, (size_t)1 << s->size);
}

/* A block that is a whole rectangle, whose columns are contiguous in memory: squares are transposed in registers.
 */
static bool load_turned(const gale__cpu_frame *f, const gale__cpu_step *s, char *block, const char *memory)
{
    const gale__cpu_span *span = f->span;
    if (span->n != 2 || s->size < 2 || s->access->n_guards || (int64_t)f->lanes != span->count) return false;
    int64_t pitch = s->access->stride[span->dim[1]], address = gale__cpu_address(s->access, f->at, f->tape->n_dims);
    if (s->access->stride[span->dim[0]] != 1 || pitch < 2) return false;
    size_t lanes = (size_t)span->extent[1];
    f->tape->simd->interleave[s->size == 3](
        block, memory + address * ((int64_t)1 << s->size), (size_t)pitch, lanes, lanes, (size_t)span->extent[0]);
    return true;
}

/* n lanes from lane `skip` of the first element on, each element `times` times. */
static void repeat(
    uint32_t *restrict to, const uint32_t *restrict from, int64_t stride, int64_t times, int64_t skip, int64_t n)
{
    int64_t i = 0;
    for (; n > 0 && skip > 0 && skip < times; skip++, n--) *to++ = *from;
    if (skip > 0) from += stride;
    int64_t whole = n / times;
    if (times == 2 && stride == 1) {
        for (; i < whole; i++) to[2 * i] = to[2 * i + 1] = from[i];
        to += 2 * i;
    } else if (times == 2) {
        for (; i < whole; i++, to += 2) to[0] = to[1] = from[i * stride];
    } else if (times == 4) {
        for (; i < whole; i++, to += 4) to[0] = to[1] = to[2] = to[3] = from[i * stride];
    } else {
        for (; i < whole; i++)
            for (int64_t k = 0; k < times; k++) *to++ = from[i * stride];
    }
    for (n -= whole * times; n > 0; n--) *to++ = from[i * stride];
}

/* Enlarged by whole numbers: the fastest dimension repeats elements of four bytes, which runs would take one by one. */
static bool load_repeated(const gale__cpu_frame *f, const gale__cpu_step *s, char *block, const char *memory)
{
    const gale__cpu_span *span = f->span;
    int fast = span->n - 1, slow = fast - 1;
    if (slow < 0 || s->size != 2 || s->access->n_guards || s->access->stride[span->dim[fast]]) return false;
    int64_t times = span->extent[fast], row = span->extent[slow] * times, stride = s->access->stride[span->dim[slow]],
            lanes = (int64_t)f->lanes;
    if (times > REPEATED_MOST) return false;
    int64_t at[GALE__NEST_DIMS], address = gale__cpu_address(s->access, f->at, f->tape->n_dims);
    for (int k = 0; k < span->n; k++) at[k] = f->at[span->dim[k]] - span->base[k];
    for (int64_t done = 0; done < lanes;) {
        int64_t lane = at[slow] * times + at[fast], n = row - lane < lanes - done ? row - lane : lanes - done;
        repeat((uint32_t *)(void *)block + done, (const uint32_t *)(const void *)memory + address, stride, times,
            at[fast], n);
        done += n;
        address -= at[slow] * stride;
        at[slow] = at[fast] = 0;
        for (int k = slow - 1; k >= 0; k--) { /* to the next row */
            int64_t up = s->access->stride[span->dim[k]];
            address += up;
            if (++at[k] < span->extent[k]) break;
            address -= up * span->extent[k];
            at[k] = 0;
        }
    }
    return true;
}

/* Lets d stand for the output's memory, or for its own slot where elements are not adjacent. */
static void place_output(gale__cpu_frame *f, const gale__cpu_step *s, const gale__nest_access *out)
{
    gale__cpu_piece p;
    bool row = !f->aliased && gale__cpu_walk_plain(f, out, &p) && p.stride == 1;
    f->registers[s->d] = row ? (char *)f->buffers[out->buffer] + p.address * ((int64_t)1 << s->size) : slot_of(f, s->d);
}

static void run_load(gale__cpu_frame *f, const gale__cpu_step *s)
{
    gale__cpu_piece p;
    char *memory = f->buffers[s->access->buffer];
    if (f->tape->regs[s->d].single) {
        load_single(f, s, memory);
        return;
    }
    bool plain = gale__cpu_walk_plain(f, s->access, &p), row = plain && p.stride == 1;
    char *from = plain ? memory + p.address * ((int64_t)1 << s->size) : NULL;
    if (!s->fn && row && !f->aliased) {
        f->registers[s->d] = from;
        return;
    }
    if (s->out) place_output(f, s, s->out);
    else if (!s->fn) f->registers[s->d] = slot_of(f, s->d);
    if (s->fn && row) {
        s->fn(f->registers[s->d], from, NULL, NULL, f->lanes);
        return;
    }
    mover m = {.frame = f, .step = s, .block = f->registers[s->fn ? s->c : s->d], .memory = memory};
    if (plain) load_piece(&m, &p);
    else if (s->access->n_guards) gale__cpu_walk(f, s->access, load_piece, &m);
    else if (!load_turned(f, s, m.block, memory) && !load_repeated(f, s, m.block, memory))
        gale__cpu_load_rows(f, s->access, s->size, m.block, memory);
    if (s->fn) s->fn(f->registers[s->d], m.block, NULL, NULL, f->lanes);
}

static void index_piece(void *arg, const gale__cpu_piece *p)
{
    const mover *m = arg;
    int64_t *d = (int64_t *)(void *)m->block + p->at;
    for (size_t i = 0; i < p->n; i++)
        d[i] = p->inside ? p->address + p->stride * (int64_t)i : (int64_t)m->step->access->fill;
}

static void outside_piece(void *arg, const gale__cpu_piece *p)
{
    const mover *m = arg;
    if (!p->inside)
        m->frame->tape->simd->fill[m->step->size](m->block + (p->at << m->step->size), m->step->access->fill, p->n);
}

static void run_take(gale__cpu_frame *f, const gale__cpu_step *s)
{
    mover m = {.frame = f, .step = s, .block = f->registers[s->b]};
    int64_t *places = f->registers[s->b], last = (int64_t)s->imm - 1;
    const int64_t *index = f->registers[s->a];
    gale__cpu_piece p;
    bool same = gale__cpu_walk_plain(f, s->access, &p) && p.stride == 0; /* one table for all lanes */
    if (!same) gale__cpu_walk(f, s->access, index_piece, &m);
    for (size_t i = 0; i < f->lanes; i++) {
        int64_t at = index[i] > last ? last : index[i];
        places[i] = (same ? p.address : places[i]) + (at < 0 ? 0 : at);
    }
    m.block = f->registers[s->fn ? s->c : s->d];
    if (s->access->n_guards) {
        /* An address outside means nothing: such lanes read element 0, and are filled afterwards. */
        int64_t count = f->tape->nest->buffers[s->access->buffer].elements;
        for (size_t i = 0; i < f->lanes; i++) places[i] = places[i] < 0 || places[i] >= count ? 0 : places[i];
    }
    f->tape->simd->take[s->size](m.block, f->buffers[s->access->buffer], places, f->lanes);
    if (s->access->n_guards) gale__cpu_walk(f, s->access, outside_piece, &m);
    if (s->fn) s->fn(f->registers[s->d], m.block, NULL, NULL, f->lanes);
}

static void store_piece(void *arg, const gale__cpu_piece *p)
{
    const mover *m = arg;
    int size = m->step->size;
    const char *from = m->block + (p->at << size);
    char *d = m->memory + p->address * ((int64_t)1 << size);
    if (!p->inside) return;
    if (p->stride == 1) memcpy(d, from, p->n << size);
    else m->frame->tape->simd->scatter[size](d, from, p->stride, p->n);
}

static void run_store(gale__cpu_frame *f, const gale__cpu_step *s)
{
    gale__cpu_piece p;
    mover m = {.frame = f, .step = s, .block = f->registers[s->a], .memory = f->buffers[s->access->buffer]};
    bool plain = gale__cpu_walk_plain(f, s->access, &p);
    if (plain && p.stride == 1) {
        char *d = m.memory + p.address * ((int64_t)1 << s->size);
        if (d == m.block) return; /* written in place */
        if (s->fn) s->fn(d, m.block, NULL, NULL, f->lanes);
        else memcpy(d, m.block, f->lanes << s->size);
        return;
    }
    if (s->fn) {
        s->fn(f->registers[s->c], m.block, NULL, NULL, f->lanes);
        m.block = f->registers[s->c];
    }
    if (s->access->n_guards) gale__cpu_walk(f, s->access, store_piece, &m);
    else gale__cpu_store_rows(f, s->access, s->size, m.memory, m.block);
}

static void scatter_piece(void *arg, const gale__cpu_piece *p)
{
    const mover *m = arg;
    size_t bytes = (size_t)1 << m->step->size;
    for (size_t i = 0; i < p->n && p->inside; i++) {
        int64_t index = m->index[p->at + i], address = p->address + p->stride * (int64_t)i + index;
        if (index >= 0 && index < (int64_t)m->step->imm)
            memcpy(m->memory + address * (int64_t)bytes, m->block + ((p->at + i) << m->step->size), bytes);
    }
}

static void run_scatter(gale__cpu_frame *f, const gale__cpu_step *s)
{
    mover m = {.frame = f,
        .step = s,
        .block = f->registers[s->a],
        .memory = f->buffers[s->access->buffer],
        .index = f->registers[s->b]};
    if (s->fn) {
        s->fn(f->registers[s->c], m.block, NULL, NULL, f->lanes);
        m.block = f->registers[s->c];
    }
    gale__cpu_walk(f, s->access, scatter_piece, &m);
}

static void run_spread(gale__cpu_frame *f, const gale__cpu_step *s)
{
    size_t per = f->lanes / f->rows;
    for (size_t i = 0; i < f->rows; i++)
        f->tape->simd->fill[s->size]((char *)f->registers[s->d] + (i * per << s->size),
            gale__cpu_read_bits((const char *)f->registers[s->a] + (i << s->size), s->size), per);
}

static void run_fold(gale__cpu_frame *f, const gale__cpu_step *s)
{
    size_t per = f->lanes / f->rows;
    char *d = f->registers[s->d];
    const char *a = f->registers[s->a];
    for (size_t i = 0; i < f->rows; i++) {
        if (s->kind == GALE__CPU_STEP_DOT)
            s->dot(d + (i << s->size), a + (i * per << s->size),
                (const char *)f->registers[s->b] + (i * per << s->size), per);
        else if (s->kind == GALE__CPU_STEP_FOLD) s->fold(d + (i << s->size), a + (i * per << s->size), per);
        else
            s->arg_fold(d + (i << s->size), (int64_t *)f->registers[s->b] + i, a + (i * per << s->size), f->place, per);
    }
}

static void run_step(gale__cpu_frame *f, const gale__cpu_step *s)
{
    void **r = f->registers;
    mover m;
    float e;
    switch ((gale__cpu_step_kind)s->kind) {
    case GALE__CPU_STEP_OP:
        if (s->access) place_output(f, s, s->access);
        s->fn(r[s->d], r[s->a], s->b < 0 ? NULL : r[s->b], s->c < 0 ? NULL : r[s->c], f->lanes);
        break;
    case GALE__CPU_STEP_LOAD: run_load(f, s); break;
    case GALE__CPU_STEP_TAKE: run_take(f, s); break;
    case GALE__CPU_STEP_TAKE_ROWS:
        if (s->access) place_output(f, s, s->access);
        else r[s->d] = slot_of(f, s->d);
        gale__cpu_take_rows(f, s);
        break;
    case GALE__CPU_STEP_INDEX:
        m = (mover){.frame = f, .step = s, .block = r[s->d]};
        gale__cpu_walk(f, s->access, index_piece, &m);
        break;
    case GALE__CPU_STEP_TRIPLE:
        if (s->access) place_output(f, s, s->access);
        memcpy(&e, &s->imm, 4);
        s->triple(r[s->d], r[s->a], r[s->b], r[s->c], e, f->lanes);
        break;
    case GALE__CPU_STEP_STORE: run_store(f, s); break;
    case GALE__CPU_STEP_SCATTER: run_scatter(f, s); break;
    case GALE__CPU_STEP_FILL: f->tape->simd->fill[s->size](r[s->d], s->imm, f->lanes); break;
    case GALE__CPU_STEP_SPREAD: run_spread(f, s); break;
    case GALE__CPU_STEP_FOLD:
    case GALE__CPU_STEP_DOT:
    case GALE__CPU_STEP_ARG_FOLD: run_fold(f, s); break;
    case GALE__CPU_STEP_ARG: s->arg(r[s->d], r[s->b], r[s->a], NULL, f->place, f->lanes); break;
    case GALE__CPU_STEP_KEEP: memcpy(cache_row(f, s->d, s->size), r[s->a], f->lanes << s->size); break;
    case GALE__CPU_STEP_RECALL: r[s->d] = cache_row(f, s->a, s->size); break;
    }
}

void gale__cpu_frame_run(gale__cpu_frame *f, gale__cpu_section s)
{
    const gale__cpu_step *step = f->tape->steps + s.first, *end = step + s.count;
    for (; step < end; step++) run_step(f, step);
}

void gale__cpu_frame_set(gale__cpu_frame *f, const gale__cpu_span *span, int64_t start, size_t n)
{
    gale__cpu_frame_seek(f, span, start);
    f->span = span;
    f->lanes = n;
    f->rows = 1;
    int last = span->n - 1;
    f->one_run = last < 0 || f->at[span->dim[last]] - span->base[last] + (int64_t)n <= span->extent[last];
}
