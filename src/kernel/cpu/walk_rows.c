/* Rows of a block, to and from memory.  The rows of heads, pixels and small maps have a few dozen bytes, for which a
 * call of memcpy takes longer than the copy. */
#include "kernel/cpu/walk.h"
#include <string.h>

enum { SHORT = 512 };

/* The end of a row may be copied twice. */
static inline void copy(char *restrict to, const char *restrict from, size_t n)
{
    if (n > SHORT) {
        memcpy(to, from, n);
    } else if (n >= 32) {
        for (size_t i = 0; i + 32 <= n; i += 32) memcpy(to + i, from + i, 32);
        if (n % 32) memcpy(to + n - 32, from + n - 32, 32);
    } else if (n >= 16) {
        memcpy(to, from, 16);
        memcpy(to + n - 16, from + n - 16, 16);
    } else if (n >= 8) {
        memcpy(to, from, 8);
        memcpy(to + n - 8, from + n - 8, 8);
    } else if (n >= 4) {
        memcpy(to, from, 4);
        memcpy(to + n - 4, from + n - 4, 4);
    } else {
        for (size_t i = 0; i < n; i++) to[i] = from[i];
    }
}

static void repeat(const gale__simd *simd, int size, char *to, const char *from, size_t n)
{
    uint64_t bits = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(&bits, from, (size_t)1 << size);
#else
    memcpy((char *)&bits + 8 - ((size_t)1 << size), from, (size_t)1 << size);
#endif
    simd->fill[size](to, bits, n);
}

/* Where the rows of a block are, one after another. */
typedef struct rows {
    const gale__nest_access *access;
    const gale__cpu_span *span;
    int64_t at[GALE__NEST_DIMS], address, row, step; /* step: along a row */
    size_t left, n;                                  /* lanes of the block, and of the row at hand */
} rows;

static void begin_rows(rows *r, const gale__cpu_frame *f, const gale__nest_access *a)
{
    const gale__cpu_span *s = f->span;
    int last = s->n - 1;
    *r = (rows){.access = a, .span = s, .left = f->lanes, .n = f->lanes};
    r->address = gale__cpu_address(a, f->at, f->tape->n_dims);
    for (int k = 0; k < s->n; k++) r->at[k] = f->at[s->dim[k]] - s->base[k];
    r->row = last < 0 ? 1 : s->extent[last];
    r->step = last < 0 ? 0 : a->stride[s->dim[last]];
    if (last >= 0 && (int64_t)r->n > r->row - r->at[last]) r->n = (size_t)(r->row - r->at[last]);
}

static void next_row(rows *r)
{
    int last = r->span->n - 1;
    r->left -= r->n;
    if (last >= 0) r->address -= r->step * r->at[last], r->at[last] = 0;
    for (int k = last - 1; k >= 0; k--) {
        int64_t step = r->access->stride[r->span->dim[k]];
        r->address += step;
        if (++r->at[k] < r->span->extent[k]) break;
        r->address -= step * r->span->extent[k];
        r->at[k] = 0;
    }
    r->n = r->left < (size_t)r->row ? r->left : (size_t)r->row;
}

void gale__cpu_load_rows(
    const gale__cpu_frame *f, const gale__nest_access *a, int size, void *block, const char *memory)
{
    rows r;
    char *to = block;
    const gale__simd *simd = f->tape->simd;
    for (begin_rows(&r, f, a); r.left; next_row(&r)) {
        const char *from = memory + r.address * ((int64_t)1 << size);
        if (r.step == 1) copy(to, from, r.n << size);
        else if (r.step == 0) repeat(simd, size, to, from, r.n);
        else simd->gather[size](to, from, r.step, r.n);
        to += r.n << size;
    }
}

void gale__cpu_store_rows(
    const gale__cpu_frame *f, const gale__nest_access *a, int size, char *memory, const void *block)
{
    rows r;
    const char *from = block;
    const gale__simd *simd = f->tape->simd;
    for (begin_rows(&r, f, a); r.left; next_row(&r)) {
        char *to = memory + r.address * ((int64_t)1 << size);
        if (r.step == 1) copy(to, from, r.n << size);
        else simd->scatter[size](to, from, r.step, r.n);
        from += r.n << size;
    }
}
