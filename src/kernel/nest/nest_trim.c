/* Removes taps that only read padding: a convolution whose dilation exceeds its map has many.  Their products are
 * zeros, so the sum omits them. */
#include "kernel/nest/nest.h"

typedef struct range {
    int64_t first, end;
} range;

/* Steps of inner dimension d at which the guard lets some point through. */
static range live_steps(const gale__nest *nest, const gale__nest_guard *g, int d)
{
    int64_t low = g->c0, high = g->c0;
    range r = {nest->extent[d], 0};
    for (int e = 0; e < nest->n_outer + nest->n_inner; e++) {
        int64_t reach = g->coef[e] * (nest->extent[e] - 1);
        if (e != d && reach > 0) high += reach;
        if (e != d && reach < 0) low += reach;
    }
    for (int64_t t = 0; t < nest->extent[d]; t++) {
        bool live = high + g->coef[d] * t >= 0 && low + g->coef[d] * t < g->extent;
        if (live && t < r.first) r.first = t;
        if (live) r.end = t + 1;
    }
    return r;
}

static void narrow(gale__nest *nest, int d, range r)
{
    for (int i = 0; i < nest->n_accesses; i++) {
        gale__nest_access *a = &nest->accesses[i];
        a->offset += a->stride[d] * r.first;
        for (int g = 0; g < a->n_guards; g++) a->guards[g].c0 += a->guards[g].coef[d] * r.first;
    }
    nest->extent[d] = r.end - r.first;
}

static void trim_by(gale__nest *nest, int value)
{
    const gale__nest_instr *in = &nest->code[value];
    const gale__nest_access *a = in->op == GALE__NEST_LOAD ? &nest->accesses[in->access] : NULL;
    for (int g = 0; a && !a->fill && g < a->n_guards; g++)
        for (int d = nest->n_outer; a->guards[g].div == 1 && d < nest->n_outer + nest->n_inner; d++) {
            range r = live_steps(nest, &a->guards[g], d);
            if (a->guards[g].coef[d] && r.end > r.first && r.end - r.first < nest->extent[d]) narrow(nest, d, r);
        }
}

void gale__nest_trim(gale__nest *nest)
{
    gale__contraction info;
    if (!gale__nest_contraction(nest, &info) || !gale__type_is_float((gale_type)nest->code[info.mul].type)) return;
    trim_by(nest, info.a);
    trim_by(nest, info.b);
}
