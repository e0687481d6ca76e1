/* See by_row.h. */
#include "kernel/cpu/by_row.h"
#include <string.h>

enum { ROW_LEAST = 16 }; /* lanes from which a value is spread rather than computed in each of them */

static uint32_t walked(const gale__nest *nest, const gale__nest_access *a)
{
    uint32_t mask = 0;
    for (int d = 0; d < nest->n_outer; d++) {
        bool walks = a->stride[d] != 0;
        for (int g = 0; g < a->n_guards; g++) walks |= a->guards[g].coef[d] != 0;
        if (walks && nest->extent[d] > 1) mask |= 1u << d;
    }
    return mask;
}

/* The dimensions that each value depends on. */
static void find_dims(const gale__nest *nest, uint32_t *dims)
{
    for (int i = 0; i < nest->n_code; i++) {
        const gale__nest_instr *in = &nest->code[i];
        const int operands[3] = {in->a, in->b, in->c};
        bool touches = in->op == GALE__NEST_LOAD || in->op == GALE__NEST_TAKE || in->op == GALE__NEST_INDEX;
        dims[i] = touches ? walked(nest, &nest->accesses[in->access]) : 0;
        for (int k = 0; k < gale__nest_arity(in); k++) dims[i] |= dims[operands[k]];
    }
}

static void add_walk(gale__nest_access *to, const gale__nest_access *a, int64_t times)
{
    to->offset = (int64_t)((uint64_t)to->offset + (uint64_t)a->offset * (uint64_t)times);
    for (int d = 0; d < GALE__NEST_DIMS; d++)
        to->stride[d] = (int64_t)((uint64_t)to->stride[d] + (uint64_t)a->stride[d] * (uint64_t)times);
}

static bool is_plain_index(const gale__nest *nest, int i)
{
    const gale__nest_instr *in = &nest->code[i];
    return in->op == GALE__NEST_INDEX && in->type == GALE_I64 && !nest->accesses[in->access].n_guards;
}

/* A factor times an affine index, in either order. */
static bool add_product(const gale__nest *nest, gale__cpu_spot *s, int a, int b)
{
    if (!is_plain_index(nest, a) || nest->code[b].op != GALE__NEST_CONST || nest->code[b].type != GALE_I64)
        return false;
    add_walk(&s->walk, &nest->accesses[nest->code[a].access], (int64_t)nest->code[b].imm);
    return true;
}

/* Elements of a table for the row's places, and for nothing else. */
static bool add_column(const gale__nest *nest, gale__cpu_spot *s, int i)
{
    const gale__nest_instr *in = &nest->code[i];
    int last = nest->n_outer - 1;
    const gale__nest_access *a = in->op == GALE__NEST_LOAD ? &nest->accesses[in->access] : NULL;
    if (!a || s->column || a->type != GALE_I64 || a->n_guards || a->stride[last] != 1 ||
        walked(nest, a) != 1u << last || nest->buffers[a->buffer].written)
        return false;
    s->column = a;
    return true;
}

/* Adds the value of instruction i; false if it is not such a sum. */
static bool add_terms(const gale__nest *nest, const uint32_t *dims, gale__cpu_spot *s, int i)
{
    const gale__nest_instr *in = &nest->code[i];
    if (in->type != GALE_I64) return false;
    if (in->op == GALE__ADD) return add_terms(nest, dims, s, in->a) && add_terms(nest, dims, s, in->b);
    if (in->op == GALE__NEST_CONST) {
        s->walk.offset = (int64_t)((uint64_t)s->walk.offset + in->imm);
        return true;
    }
    if (is_plain_index(nest, i)) {
        add_walk(&s->walk, &nest->accesses[in->access], 1);
        return true;
    }
    if (in->op == GALE__MUL && (add_product(nest, s, in->a, in->b) || add_product(nest, s, in->b, in->a))) return true;
    if (dims[i] >> (nest->n_outer - 1) & 1) return add_column(nest, s, i);
    if (s->n_terms == GALE__CPU_SPOT_TERMS) return false;
    s->terms[s->n_terms++] = i;
    return true;
}

static bool find_spot(const gale__nest *nest, const uint32_t *dims, int i, gale__cpu_spot *s)
{
    const gale__nest_instr *in = &nest->code[i];
    const gale__nest_access *base = &nest->accesses[in->access];
    *s = (gale__cpu_spot){.base = base};
    if (in->op != GALE__NEST_TAKE || base->n_guards || !add_terms(nest, dims, s, in->a)) return false;
    int last = nest->n_outer - 1;
    return !s->column || (s->walk.stride[last] == 0 && base->stride[last] == 0);
}

/* An operation on values of the row. */
static bool is_row_value(const gale__nest *nest, const uint32_t *dims, int i)
{
    int op = nest->code[i].op, last = nest->n_outer - 1;
    return !(dims[i] >> last & 1) && nest->extent[last] >= ROW_LEAST &&
           (op < GALE__SCALAR_COUNT || op == GALE__NEST_TAKE) && dims[i];
}

void gale__cpu_by_row_find(gale__cpu_by_row *r, const gale__nest *nest, gale__cpu_spot *spots)
{
    uint32_t dims[GALE__NEST_CODE_MAX];
    int n_spots = 0;
    memset(r, 0, sizeof *r);
    find_dims(nest, dims);
    for (int s = 0; s < nest->n_stores; s++) {
        r->by_lane[nest->stores[s].value] = 1;
        if (nest->stores[s].index >= 0) r->by_lane[nest->stores[s].index] = 1;
    }
    for (int i = nest->n_code - 1; i >= 0; i--) {
        const gale__nest_instr *in = &nest->code[i];
        const int operands[3] = {in->a, in->b, in->c};
        if (r->by_lane[i] && is_row_value(nest, dims, i)) {
            r->by_lane[i] = 0;
            r->by_row[i] = r->spread[i] = 1;
        } else if (r->by_lane[i] && find_spot(nest, dims, i, &spots[n_spots])) {
            r->spot[i] = &spots[n_spots++];
            for (int k = 0; k < r->spot[i]->n_terms; k++) r->by_row[r->spot[i]->terms[k]] = 1;
        } else if (r->by_lane[i]) {
            for (int k = 0; k < gale__nest_arity(in); k++) r->by_lane[operands[k]] = 1;
        }
        for (int k = 0; r->by_row[i] && k < gale__nest_arity(in); k++) r->by_row[operands[k]] = 1;
        r->any |= r->by_row[i] || r->spot[i];
    }
}
