/* Takes whose places run along rows: pieces of the table are copied, repeated or read with a stride; single elements
 * are only taken where a table of places asks for it, or an index is out of range. */
#include "kernel/cpu/by_row.h"
#include "kernel/cpu/runs.h"
#include "kernel/cpu/walk.h"
#include <string.h>

/* n places from the i-th of the row on: first, first + step ... */
typedef struct piece {
    int64_t at, n, first, step;
} piece;
enum {
    PIECES = 64,
    LONG = 8,
    CLAMPED = 256,
    FAR = 1 << 30
}; /* LONG: elements of pieces that are worth copying, on average */

/* The columns of a block, which all its rows share. */
typedef struct columns {
    const int64_t *table; /* NULL: none, and one piece */
    piece pieces[PIECES];
    int n_pieces; /* 0: too many; elements are taken one by one */
    int64_t low, high;
} columns;

static void find_pieces(columns *c, int64_t n)
{
    const int64_t *t = c->table;
    int64_t most = n / LONG + 2;
    c->n_pieces = 0;
    for (int64_t i = 0; i < n;) {
        int64_t step = i + 1 < n ? (int64_t)((uint64_t)t[i + 1] - (uint64_t)t[i]) : 0;
        bool far = step > FAR || step < -FAR; /* such steps might wrap around between the ends of a piece */
        int64_t end = i + (far ? 1 : gale__cpu_even_run(t + i, n - i, step));
        if (c->n_pieces == PIECES || c->n_pieces == most) {
            c->n_pieces = 0;
            break;
        }
        c->pieces[c->n_pieces++] = (piece){i, end - i, t[i], step};
        i = end;
    }
    c->low = INT64_MAX, c->high = INT64_MIN;
    for (int k = 0; k < c->n_pieces; k++) {
        const piece *p = &c->pieces[k];
        int64_t end = t[p->at + p->n - 1], least = p->first < end ? p->first : end,
                most_of = p->first < end ? end : p->first;
        c->low = least < c->low ? least : c->low;
        c->high = most_of > c->high ? most_of : c->high;
    }
    for (int64_t i = 0; i < n && !c->n_pieces; i++) {
        c->low = t[i] < c->low ? t[i] : c->low;
        c->high = t[i] > c->high ? t[i] : c->high;
    }
}

static void copy_piece(const gale__simd *simd, int size, char *d, const char *from, int64_t step, int64_t n)
{
    if (step == 1) memcpy(d, from, (size_t)n << size);
    else if (step == 0 || n == 1) simd->fill[size](d, gale__cpu_read_bits(from, size), (size_t)n);
    else simd->gather[size](d, from, step, (size_t)n);
}

typedef struct taker {
    const gale__cpu_frame *frame;
    const gale__cpu_step *step;
    const char *memory;
    columns columns;
    int64_t n, base_step, walk_step; /* lanes of a row in the block, and how the addresses move along it */
} taker;

static bool add3(int64_t a, int64_t b, int64_t c, int64_t *sum)
{
    return !__builtin_add_overflow(a, b, sum) && !__builtin_add_overflow(*sum, c, sum);
}

/* index: the first lane's, apart from its column. */
static bool in_range(const taker *t, int64_t index)
{
    int64_t low, high, far = t->walk_step * (t->n - 1);
    bool fits =
        add3(index, t->columns.low, far < 0 ? far : 0, &low) && add3(index, t->columns.high, far > 0 ? far : 0, &high);
    return fits && low >= 0 && high < (int64_t)t->step->imm;
}

/* Lane by lane, each index clamped. */
static void take_clamped(const taker *t, char *d, int64_t base, int64_t index)
{
    const int64_t *table = t->columns.table;
    int64_t last = (int64_t)t->step->imm - 1, places[CLAMPED];
    for (int64_t i = 0; i < t->n; i += CLAMPED) {
        int64_t n = t->n - i < CLAMPED ? t->n - i : CLAMPED;
        for (int64_t k = i; k < i + n; k++) {
            uint64_t sum = (uint64_t)index + (uint64_t)t->walk_step * (uint64_t)k + (uint64_t)(table ? table[k] : 0);
            int64_t at = (int64_t)sum > last ? last : (int64_t)sum;
            places[k - i] = base + t->base_step * k + (at < 0 ? 0 : at);
        }
        t->frame->tape->simd->take[t->step->size](d + (i << t->step->size), t->memory, places, (size_t)n);
    }
}

static void take_row(const taker *t, char *d, int64_t base, int64_t index)
{
    const gale__simd *simd = t->frame->tape->simd;
    const columns *c = &t->columns;
    int size = t->step->size;
    if (!in_range(t, index)) {
        take_clamped(t, d, base, index);
        return;
    }
    const char *from = t->memory + (base + index) * ((int64_t)1 << size);
    if (!c->table) copy_piece(simd, size, d, from, t->base_step + t->walk_step, t->n);
    else if (!c->n_pieces) simd->take[size](d, from, c->table, (size_t)t->n);
    for (int k = 0; k < c->n_pieces; k++) {
        const piece *p = &c->pieces[k];
        copy_piece(simd, size, d + (p->at << size), from + p->first * ((int64_t)1 << size), p->step, p->n);
    }
}

void gale__cpu_take_rows(gale__cpu_frame *f, const gale__cpu_step *s)
{
    const gale__cpu_spot *spot = s->spot;
    const int64_t *index = s->a < 0 ? NULL : f->registers[s->a];
    int64_t at[GALE__NEST_DIMS], n_dims = f->tape->n_dims, last = f->span->dim[f->span->n - 1];
    taker t = {.frame = f,
        .step = s,
        .memory = f->buffers[spot->base->buffer],
        .n = (int64_t)(f->lanes / f->rows),
        .base_step = spot->base->stride[last],
        .walk_step = spot->walk.stride[last]};
    memcpy(at, f->at, sizeof at[0] * (size_t)n_dims);
    if (spot->column) {
        t.columns.table =
            (const int64_t *)f->buffers[spot->column->buffer] + gale__cpu_address(spot->column, at, (int)n_dims);
        find_pieces(&t.columns, t.n);
    }
    char *d = f->registers[s->fn ? s->c : s->d];
    for (size_t r = 0; r < f->rows; r++) {
        int64_t base = gale__cpu_address(spot->base, at, (int)n_dims),
                sum = (int64_t)((uint64_t)gale__cpu_address(&spot->walk, at, (int)n_dims) +
                                (uint64_t)(index ? index[r] : 0));
        bool in_place =
            f->rows == 1 && !s->fn && !s->access && !f->aliased && !t.columns.table && t.base_step + t.walk_step == 1;
        if (in_place && in_range(&t, sum))
            f->registers[s->d] = (void *)(t.memory + (base + sum) * ((int64_t)1 << s->size));
        else take_row(&t, d + (r * (size_t)t.n << s->size), base, sum);
        for (int k = f->span->n - 2; k >= 0; k--) { /* to the next row */
            int dim = f->span->dim[k];
            if (++at[dim] < f->span->extent[k]) break;
            at[dim] = 0;
        }
    }
    if (s->fn) s->fn(f->registers[s->d], d, NULL, NULL, f->lanes);
}
