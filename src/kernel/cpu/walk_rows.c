/* Rows of a block, to and from memory.  The rows of heads, pixels and small maps have a few dozen bytes, for which a
 * call of memcpy takes longer than the copy. */
#include "kernel/cpu/walk.h"
#include <string.h>

enum { SHORT = 512 };

/* `rows` rows of n bytes; the end of a row may be copied twice. */
static void copy_rows(
    char *restrict to, int64_t to_pitch, const char *restrict from, int64_t from_pitch, size_t n, size_t rows)
{
    if (n > SHORT) {
        for (; rows; rows--, to += to_pitch, from += from_pitch) memcpy(to, from, n);
    } else if (n >= 32) {
        for (; rows; rows--, to += to_pitch, from += from_pitch) {
            for (size_t i = 0; i + 32 <= n; i += 32) memcpy(to + i, from + i, 32);
            memcpy(to + n - 32, from + n - 32, 32);
        }
    } else if (n >= 16) {
        for (; rows; rows--, to += to_pitch, from += from_pitch) {
            memcpy(to, from, 16);
            memcpy(to + n - 16, from + n - 16, 16);
        }
    } else if (n >= 8) {
        for (; rows; rows--, to += to_pitch, from += from_pitch) {
            memcpy(to, from, 8);
            memcpy(to + n - 8, from + n - 8, 8);
        }
    } else if (n >= 4) {
        for (; rows; rows--, to += to_pitch, from += from_pitch) {
            memcpy(to, from, 4);
            memcpy(to + n - 4, from + n - 4, 4);
        }
    } else {
        for (; rows; rows--, to += to_pitch, from += from_pitch)
            for (size_t i = 0; i < n; i++) to[i] = from[i];
    }
}

/* A block as sheets: some rows of equal length, one pitch apart. */
typedef struct sheets {
    const gale__nest_access *access;
    const gale__cpu_span *span;
    int64_t at[GALE__NEST_DIMS], address, pitch, step; /* step: along a row */
    size_t left, n, rows;                              /* lanes of the block, of a row; rows of the sheet at hand */
} sheets;

/* Part of one row, or as many whole ones as the next slower dimension has left. */
static void set_sheet(sheets *r)
{
    int last = r->span->n - 1;
    r->n = r->left;
    r->rows = 1;
    if (last < 0) return;
    int64_t row = r->span->extent[last], in_row = row - r->at[last];
    if ((int64_t)r->n > in_row) r->n = (size_t)in_row;
    if (last == 0 || (int64_t)r->n < row) return;
    int64_t down = r->span->extent[last - 1] - r->at[last - 1], whole = (int64_t)r->left / row;
    r->rows = (size_t)(whole < down ? whole : down);
}

static void begin_sheets(sheets *r, const gale__cpu_frame *f, const gale__nest_access *a)
{
    const gale__cpu_span *s = f->span;
    *r = (sheets){.access = a, .span = s, .left = f->lanes};
    r->address = gale__cpu_address(a, f->at, f->tape->n_dims);
    for (int k = 0; k < s->n; k++) r->at[k] = f->at[s->dim[k]] - s->base[k];
    if (s->n > 0) r->step = a->stride[s->dim[s->n - 1]];
    if (s->n > 1) r->pitch = a->stride[s->dim[s->n - 2]];
    set_sheet(r);
}

static void next_sheet(sheets *r)
{
    int last = r->span->n - 1;
    int64_t by = (int64_t)r->rows;
    r->left -= r->n * r->rows;
    if (last >= 0) r->address -= r->step * r->at[last], r->at[last] = 0;
    for (int k = last - 1; k >= 0; k--, by = 1) {
        int64_t step = r->access->stride[r->span->dim[k]];
        r->address += step * by;
        r->at[k] += by;
        if (r->at[k] < r->span->extent[k]) break;
        r->address -= step * r->span->extent[k];
        r->at[k] = 0;
    }
    set_sheet(r);
}

void gale__cpu_load_rows(
    const gale__cpu_frame *f, const gale__nest_access *a, int size, void *block, const char *memory)
{
    sheets r;
    char *to = block;
    const gale__simd *simd = f->tape->simd;
    for (begin_sheets(&r, f, a); r.left; next_sheet(&r)) {
        const char *from = memory + r.address * ((int64_t)1 << size);
        int64_t bytes = (int64_t)(r.n << size), pitch = r.pitch * ((int64_t)1 << size);
        if (r.step == 1) copy_rows(to, bytes, from, pitch, (size_t)bytes, r.rows);
        for (size_t i = 0; i < r.rows && r.step != 1; i++) {
            const char *row = from + (int64_t)i * pitch;
            if (r.step == 0) simd->fill[size](to + (int64_t)i * bytes, gale__cpu_read_bits(row, size), r.n);
            else simd->gather[size](to + (int64_t)i * bytes, row, r.step, r.n);
        }
        to += bytes * (int64_t)r.rows;
    }
}

void gale__cpu_store_rows(
    const gale__cpu_frame *f, const gale__nest_access *a, int size, char *memory, const void *block)
{
    sheets r;
    const char *from = block;
    const gale__simd *simd = f->tape->simd;
    for (begin_sheets(&r, f, a); r.left; next_sheet(&r)) {
        char *to = memory + r.address * ((int64_t)1 << size);
        int64_t bytes = (int64_t)(r.n << size), pitch = r.pitch * ((int64_t)1 << size);
        if (r.step == 1) copy_rows(to, pitch, from, bytes, (size_t)bytes, r.rows);
        for (size_t i = 0; i < r.rows && r.step != 1; i++)
            simd->scatter[size](to + (int64_t)i * pitch, from + (int64_t)i * bytes, r.step, r.n);
        from += bytes * (int64_t)r.rows;
    }
}
