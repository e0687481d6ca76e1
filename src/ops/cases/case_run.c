/* Runs a case through the scalar reference, and compares results. */
#include "ops/cases/cases.h"
#include "graph/reference/reference.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

gale_status gale__case_lower(gale__case_run *run, gale__prim_graph *g, gale__node *out)
{
    gale__node in[GALE__CASE_VALUES];
    for (int i = 0, which = 0; i < run->n_in; i++) {
        const gale__case_value *v = &run->in[i];
        if (v->absent) in[i] = GALE__NIL;
        else if (v->plan) in[i] = gale__prim_const(g, v->type, v->rank, v->dims, v->data);
        else in[i] = gale__prim_input(g, which++, v->type, v->rank, v->dims);
    }
    for (int i = 0; i < run->n_out; i++) out[i] = GALE__NIL;
    gale__op_node *node = gale__arena_alloc(&g->arena, sizeof *node); /* bodies of loops refer to it */
    if (!node) return GALE_NO_MEMORY;
    *node = (gale__op_node){
        .op = run->op, .n_in = run->n_in, .n_out = run->n_out, .attrs = run->attrs, .n_attrs = run->n_attrs};
    gale__lower L = {g, node, in, out, run->n_in, run->n_out};
    if (g->status == GALE_OK) run->op->lower(&L);
    for (int i = 0; i < run->n_out && g->status == GALE_OK; i++)
        if (out[i] < 0) gale__prim_fail(g, GALE_INTERNAL, "%s: output %d was not made", run->op->name, i);
    return g->status;
}

static gale_status reference(gale__case_run *run, gale__prim_graph *g, gale__case_value *results)
{
    gale__node out[GALE__CASE_VALUES];
    const void *inputs[GALE__CASE_VALUES];
    void *data[GALE__CASE_VALUES] = {0};
    int n = 0;
    for (int i = 0; i < run->n_in; i++)
        if (!run->in[i].absent && !run->in[i].plan) inputs[n++] = run->in[i].data;
    GALE_TRY(gale__case_lower(run, g, out));
    GALE_TRY(gale__reference_run(g, inputs, out, run->n_out, data));
    gale_status status = GALE_OK;
    for (int i = 0; i < run->n_out; i++) {
        const gale__prim_node *p = gale__prim_at(g, out[i]);
        gale__case_value *v = &results[i];
        *v = (gale__case_value){.type = p->type, .rank = p->rank, .elements = gale__prim_elements(g, out[i])};
        memcpy(v->dims, p->dims, sizeof v->dims);
        v->data = gale__arena_copy(&run->arena, data[i], (size_t)v->elements * gale_type_size(v->type) + 0);
        if (!v->data && v->elements) status = GALE_NO_MEMORY;
        gale__free(data[i]);
    }
    return status;
}

gale_status gale__case_reference(gale__case_run *run, gale__case_value *results)
{
    gale__prim_graph g;
    gale__prim_init(&g);
    g.fold_max = 0; /* every primitive is evaluated, none before its time */
    gale_status status = reference(run, &g, results);
    gale__prim_finish(&g);
    return status;
}

/* --- Comparing. --- */

/* The distance between neighbours of the type at v. */
static double ulp_at(gale_type type, double v)
{
    const gale__type_info *t = &gale__type_table[type];
    int least = 2 - (1 << (t->exponent_bits - 1)), e;
    frexp(v, &e);
    e = e - 1 < least || v == 0 ? least : e - 1;
    return ldexp(1, e - t->mantissa_bits);
}

/* Denormals may be flushed to zero. */
static double flushed(gale_type type)
{
    return type == GALE_F32 || type == GALE_BF16 ? 0x1p-126 : type == GALE_F64 ? 0x1p-1022 : 0;
}

static bool close_enough(gale_type type, double got, double want, double ulps)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (got == want) return true;
    if (isinf(want) || isinf(got)) {
        /* the last finite number and infinity are neighbours */
        double finite = isinf(want) ? got : want, infinite = isinf(want) ? want : got;
        return !isinf(finite) && (infinite > 0) == (finite > 0) && ulps > 0 &&
               fabs(finite) >= gale__type_max(type) - ulps * ulp_at(type, gale__type_max(type));
    }
    double d = fabs(got - want);
    return d <= ulps * ulp_at(type, want) || (ulps > 0 && d <= flushed(type));
}

static bool equal_each(
    gale_type type, int64_t n, const char *got, const char *want, double ulps, char *text, size_t size)
{
    size_t step = gale_type_size(type);
    for (int64_t i = 0; i < n; i++, got += step, want += step) {
        double a = gale__load_f64(type, got), b = gale__load_f64(type, want);
        bool same = gale__type_is_float(type) ? close_enough(type, a, b, ulps) : !memcmp(got, want, step);
        if (same) continue;
        snprintf(text, size, "element %lld is %.9g, not %.9g (%g units in the last place allowed)", (long long)i, a, b,
            ulps);
        return false;
    }
    return true;
}

static double relative_by_type(gale_type type)
{
    switch (type) {
    case GALE_F64: return 1e-12;
    case GALE_F32: return 1e-5;
    default: return gale__type_is_float(type) ? (gale_type_size(type) == 1 ? 2e-1 : 1e-2) : 0;
    }
}

static bool equal_all(
    gale_type type, int64_t n, const char *got, const char *want, double allowed, char *text, size_t size)
{
    double error = 0, norm = 0;
    size_t step = gale_type_size(type);
    for (int64_t i = 0; i < n; i++) {
        double a = gale__load_f64(type, got + i * step), b = gale__load_f64(type, want + i * step);
        if (isfinite(b) && isfinite(a)) {
            error += (a - b) * (a - b), norm += b * b;
        } else if (!(a == b || (isnan(a) && isnan(b)))) {
            snprintf(text, size, "element %lld is %.9g, not %.9g", (long long)i, a, b);
            return false;
        }
    }
    double relative = error ? sqrt(error / (norm > 0 ? norm : 1e-30)) : 0;
    if (relative <= allowed || sqrt(error) <= flushed(type)) return true;
    snprintf(text, size, "relative error %.3g, %.3g allowed", relative, allowed);
    return false;
}

bool gale__case_equal(
    gale_type type, int64_t n, const void *got, const void *want, gale__case_tolerance t, char *text, size_t size)
{
    if (t.kind != 'r' || !gale__type_is_float(type))
        return equal_each(type, n, got, want, t.kind == 'u' ? t.value : 0, text, size);
    return equal_all(type, n, got, want, t.value > 0 ? t.value : relative_by_type(type), text, size);
}
