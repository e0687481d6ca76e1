/* Packs operands of a contraction into panels: rows side by side, k after k. */
#include "kernel/cpu/contract.h"
#include "base/hash.h"
#include "kernel/cpu/divide.h"
#include <string.h>

/* n elements into rows of `width`, `pitch` bytes apart; the last one is filled up with zeros. */
static void deal(char *to, size_t pitch, const char *from, size_t bytes, size_t n_bytes)
{
    for (; n_bytes >= bytes; n_bytes -= bytes, from += bytes, to += pitch) {
        switch (bytes) { /* the usual widths, so that copies are inlined */
        case 32: memcpy(to, from, 32); break;
        case 48: memcpy(to, from, 48); break;
        case 64: memcpy(to, from, 64); break;
        case 128: memcpy(to, from, 128); break;
        default: memcpy(to, from, bytes); break;
        }
    }
    if (!n_bytes) return;
    memcpy(to, from, n_bytes);
    memset(to + n_bytes, 0, bytes - n_bytes);
}

/* Lanes walk the rows: one k after the other. */
void gale__cpu_contract_deal(const gale__cpu_contract *c, const gale__cpu_operand *o, gale__cpu_frame *f, int64_t r0,
    int64_t rows, int64_t k0, int64_t kn, char *out)
{
    int64_t width = o->width, step = (int64_t)o->tape.block / width * width;
    size_t row_bytes = (size_t)width * c->size, pitch = row_bytes * (size_t)kn;
    for (int64_t r = 0; r < rows; r += step) {
        int64_t n = least(step, rows - r);
        gale__cpu_frame_seek(f, &c->k, k0);
        gale__cpu_frame_set(f, &o->rows, r0 + r, (size_t)n);
        for (int64_t k = 0; k < kn; k++) {
            gale__cpu_frame_run(f, o->section);
            deal(out + (size_t)(r / width) * pitch + (size_t)k * row_bytes, pitch, f->registers[o->out], row_bytes,
                (size_t)n * c->size);
            for (int j = c->k.n - 1; j >= 0; j--) {
                if (++f->at[c->k.dim[j]] < c->k.extent[j]) break;
                f->at[c->k.dim[j]] = 0;
            }
        }
    }
}

const char *gale__cpu_contract_gather(const gale__cpu_contract *c, const gale__cpu_operand *o, gale__cpu_frame *f,
    int64_t r0, int64_t n, int64_t k0, int64_t kn, char *temp, size_t *pitch)
{
    int64_t block = (int64_t)o->tape.block;
    *pitch = (size_t)kn;
    const char *from = gale__cpu_frame_rows(f, o->section, &o->rows, r0, n, &c->k, k0, pitch);
    for (int64_t i = 0; i < n && !from; i++) {
        gale__cpu_frame_seek(f, &o->rows, r0 + i);
        for (int64_t k = 0; k < kn; k += block) {
            int64_t len = least(block, kn - k);
            gale__cpu_frame_set(f, &c->k, k0 + k, (size_t)len);
            gale__cpu_frame_run(f, o->section);
            memcpy(temp + (size_t)(i * kn + k) * c->size, f->registers[o->out], (size_t)len * c->size);
        }
    }
    return from ? from : temp;
}

/* Lanes walk k: rows are gathered, unless they lie in memory as they are, then interleaved a panel at a time. */
static void pack_by_k(const gale__cpu_contract *c, const gale__cpu_operand *o, gale__cpu_frame *f, int64_t r0,
    int64_t rows, int64_t k0, int64_t kn, char *temp, char *out)
{
    int64_t width = o->width;
    for (int64_t r = 0; r < rows; r += width) {
        int64_t n = least(width, rows - r);
        size_t pitch;
        const char *from = gale__cpu_contract_gather(c, o, f, r0 + r, n, k0, kn, temp, &pitch);
        f->tape->simd->interleave[c->size == 8](
            out + (size_t)(r * kn) * c->size, from, pitch, (size_t)n, (size_t)width, (size_t)kn);
    }
}

void gale__cpu_contract_pack(const gale__cpu_contract *c, const gale__cpu_operand *o, gale__cpu_frame *f, int64_t r0,
    int64_t rows, int64_t k0, int64_t kn, char *temp, char *out, int32_t *sums)
{
    int64_t group = o == &c->b && c->gemm.b_group ? c->gemm.b_group : c->group, together = c->group / group;
    if (c->narrow)
        gale__cpu_units_pack(&(gale__cpu_units){.narrow = &o->narrow,
                                 .rows = &o->rows,
                                 .k = &c->k,
                                 .section = o->section,
                                 .out = o->out,
                                 .group = group,
                                 .together = together,
                                 .width = o->width,
                                 .unit = c->unit / (size_t)together,
                                 .along_k = o->along_k || c->unit / (size_t)together > 8, /* rows are not woven */
                                 .order = c->window.order,
                                 .places = c->window.units * c->group},
            f, r0, rows, k0, kn, temp, out, sums);
    else if (c->shares) gale__cpu_shares_pack(c, o, f, r0, rows, k0, kn, temp, out);
    else if (o->along_k) pack_by_k(c, o, f, r0, rows, k0, kn, temp, out);
    else gale__cpu_contract_deal(c, o, f, r0, rows, k0, kn, out);
}

/* --- What panels are made of, for those that are made once. --- */

static int add_span(uint64_t *words, int n, const gale__cpu_span *span, const gale__nest_access *x)
{
    words[n++] = (uint64_t)span->n;
    for (int i = 0; i < span->n; i++) {
        words[n++] = (uint64_t)span->extent[i];
        words[n++] = (uint64_t)x->stride[span->dim[i]];
        for (int g = 0; g < x->n_guards; g++) words[n++] = (uint64_t)x->guards[g].coef[span->dim[i]];
    }
    return n;
}

uint64_t gale__cpu_contract_panels_key(
    const gale__cpu_contract *c, const gale__nest_access *x, const gale__cpu_operand *o, const gale__cpu_span *batch)
{
    uint64_t words[12 + 5 * GALE__GUARDS + (2 + GALE__GUARDS) * GALE__NEST_DIMS];
    int n = 0;
    const int32_t *order = c->window.order;
    const uint64_t numbers[] = {(uint64_t)c->winograd.m,
        order ? gale__hash(order, (size_t)(c->window.units * c->group) * sizeof *order, 1) : 0, (uint64_t)x->offset,
        (uint64_t)x->type, (uint64_t)c->sum_type, (uint64_t)o->width, (uint64_t)c->kc,
        c->group > 1 ? (uint64_t)(c->unit << 8 | (size_t)c->group) : 0,
        c->narrow ? (uint64_t)(o->narrow.flip | o->narrow.widened << 1 | o->sums << 2) : 0};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) words[n++] = numbers[i];
    for (int g = 0; g < x->n_guards; g++) {
        const gale__nest_guard *y = &x->guards[g];
        const int64_t guard[] = {y->c0, y->extent, y->div, y->stride, (int64_t)x->fill};
        for (size_t i = 0; i < sizeof guard / sizeof *guard; i++) words[n++] = (uint64_t)guard[i];
    }
    n = add_span(words, n, &o->rows, x);
    n = add_span(words, n, &c->k, x);
    if (batch) n = add_span(words, n, batch, x);
    return gale__hash(words, (size_t)n * sizeof *words, 1) | 1;
}
