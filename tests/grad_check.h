/* Checks gradients by finite differences: the slope of sum(c * f(x)) along random directions, in f64 through the scalar
 * reference, against the product of the gradient with the direction.  The second order does the same for the gradient
 * itself. */
#ifndef GALE_TEST_GRAD_CHECK_H
#define GALE_TEST_GRAD_CHECK_H
#include "test.h"
#include "graph/build/build.h"
#include "graph/grad/grad.h"
#include "graph/reference/reference.h"
#include <math.h>

#define DIMS(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
#define GRAD_INPUTS 8
#define GRAD_DIRECTIONS 3
#define GRAD_STEP 1e-5
#define GRAD_TOLERANCE 1e-5

typedef gale__node grad_make(gale__prim_graph *g, const gale__node *x);
typedef struct grad_shape {
    int rank;
    int64_t dims[5];
} grad_shape;
#define S(...)                                                                     \
    {                                                                              \
        (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), { __VA_ARGS__ } \
    }
typedef struct grad_case {
    const char *name;
    grad_make *make;
    double low, high;           /* range of the inputs */
    grad_shape in[GRAD_INPUTS]; /* f64; ends at the first of extent 0 */
    int orders;                 /* 0: both */
} grad_case;

/* Numbers evenly between low and high, the same on every machine. */
static inline double grad_random(uint64_t *state, double low, double high)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return low + (high - low) * (double)((z ^ z >> 31) >> 11) / 9007199254740992.0;
}

typedef struct grad_run {
    gale__prim_graph g;
    const grad_case *c;
    int n;
    gale__node x[GRAD_INPUTS], d[GRAD_INPUTS];
    int64_t count[GRAD_INPUTS];
    double *value[GRAD_INPUTS], *direction[GRAD_INPUTS];
    uint64_t seed;
} grad_run;

/* sum(c * y) with random c. */
static inline gale__node grad_weigh(grad_run *r, gale__node y)
{
    if (y < 0 || r->g.status != GALE_OK) return GALE__NIL;
    int64_t n = gale__prim_elements(&r->g, y);
    double *c = gale__calloc((size_t)n + 1, sizeof *c);
    for (int64_t i = 0; i < n; i++) c[i] = grad_random(&r->seed, 0.5, 2) * (i & 1 ? -1 : 1);
    gale__node flat = gale__prim_reshape(&r->g, y, 1, &n), weights = gale__prim_const(&r->g, GALE_F64, 1, &n, c);
    gale__node sum = gale__prim_reduce(&r->g, GALE__SUM, gale__prim_mul(&r->g, flat, weights), 1, false);
    if (n * sizeof *c <= GALE__FOLD_MAX * sizeof(double)) gale__free(c); /* copied */
    else CHECK(!"a case so large that its weights would be borrowed");
    return sum;
}

static inline bool grad_value(const grad_run *r, gale__node n, double along, double *out)
{
    double *moved[GRAD_INPUTS];
    void *result = NULL;
    for (int i = 0; i < r->n; i++) {
        moved[i] = gale__calloc((size_t)r->count[i], sizeof(double));
        for (int64_t k = 0; k < r->count[i]; k++) moved[i][k] = r->value[i][k] + along * r->direction[i][k];
    }
    bool ok = CHECK_OK(gale__reference_run(&r->g, (const void *const *)moved, &n, 1, &result));
    if (ok) *out = *(double *)result;
    gale__free(result);
    for (int i = 0; i < r->n; i++) gale__free(moved[i]);
    return ok;
}

/* Gradient times direction, and the sum of the terms' sizes: cancellation is no error of the rule. */
static inline bool grad_product(const grad_run *r, double *slope, double *size)
{
    void *d[GRAD_INPUTS] = {NULL};
    *slope = *size = 0;
    if (!CHECK_OK(gale__reference_run(&r->g, (const void *const *)r->value, r->d, r->n, d))) return false;
    for (int i = 0; i < r->n; i++) {
        for (int64_t k = 0; k < r->count[i]; k++) {
            double term = ((double *)d[i])[k] * r->direction[i][k];
            *slope += term;
            *size += fabs(term);
        }
        gale__free(d[i]);
    }
    return true;
}

static inline bool grad_compare(grad_run *r, gale__node loss, int order)
{
    for (int t = 0; t < GRAD_DIRECTIONS; t++) {
        double above, below, slope, size;
        for (int i = 0; i < r->n; i++)
            for (int64_t k = 0; k < r->count[i]; k++) r->direction[i][k] = grad_random(&r->seed, -1, 1);
        if (!grad_value(r, loss, GRAD_STEP, &above) || !grad_value(r, loss, -GRAD_STEP, &below) ||
            !grad_product(r, &slope, &size))
            return false;
        double found = (above - below) / (2 * GRAD_STEP), scale = fmax(fmax(fabs(slope), fabs(found)), 0.01 * size);
        if (CHECK(fabs(slope - found) <= GRAD_TOLERANCE * scale + 1e-8)) continue;
        printf("  %s, order %d: slope %.10g, by differences %.10g\n", r->c->name, order, slope, found);
        return false;
    }
    return true;
}

static inline void grad_check(const grad_case *c)
{
    grad_run r = {.c = c, .seed = 1};
    gale__prim_init(&r.g);
    for (; r.n < GRAD_INPUTS && c->in[r.n].rank > 0; r.n++) {
        int i = r.n;
        r.x[i] = gale__prim_input(&r.g, i, GALE_F64, c->in[i].rank, c->in[i].dims);
        r.count[i] = gale__prim_elements(&r.g, r.x[i]);
        r.value[i] = gale__calloc((size_t)r.count[i], sizeof(double));
        r.direction[i] = gale__calloc((size_t)r.count[i], sizeof(double));
        for (int64_t k = 0; k < r.count[i]; k++) r.value[i][k] = grad_random(&r.seed, c->low, c->high);
    }
    gale__node loss = grad_weigh(&r, c->make(&r.g, r.x));
    for (int order = 1; order <= (c->orders ? c->orders : 2); order++) {
        if (!CHECK_OK(r.g.status) || !CHECK_OK(gale__prim_gradient(&r.g, loss, r.x, r.n, r.d)) ||
            !grad_compare(&r, loss, order)) {
            printf("  in %s\n", c->name);
            break;
        }
        gale__node next = GALE__NIL;
        for (int i = 0; i < r.n; i++) {
            gale__node part = grad_weigh(&r, r.d[i]);
            next = next < 0 ? part : gale__prim_add(&r.g, next, part);
        }
        loss = next;
    }
    for (int i = 0; i < r.n; i++) gale__free(r.value[i]), gale__free(r.direction[i]);
    gale__prim_finish(&r.g);
}

#endif
