/* Support vector machines: kernels of samples and vectors are one contraction, decisions of all pairs of classes
 * another, with a matrix made when planning. */
#include "ops/ml/ml.h"
#include <string.h>

#define CLASSES_MAX 1024

/* What the kernel is of each sample and vector: [N, V]. */
static gale__node kernel(gale__lower *L, gale__node x, gale__node vectors, const char *kind)
{
    gale__prim_graph *g = L->g;
    gale__ml_list params = gale__ml_list_read(L, "kernel_params");
    double gamma = params.count > 0 ? gale__ml_list_f(&params, 0) : 0,
           offset = params.count > 1 ? gale__ml_list_f(&params, 1) : 0,
           degree = params.count > 2 ? gale__ml_list_f(&params, 2) : 0;
    if (!strcmp(kind, "RBF")) {
        gale__node d = gale__prim_sub(g, gale__prim_unsqueeze(g, x, 1u << 1), gale__prim_unsqueeze(g, vectors, 1u));
        gale__node far = gale__prim_reduce(g, GALE__SUM, gale__prim_mul(g, d, d), 1u << 2, false);
        return gale__prim_unary(g, GALE__EXP, gale__prim_mul(g, far, gale__lower_value(L, far, -gamma)));
    }
    gale__node dot = gale__prim_matmul(g, x, gale__prim_permute(g, vectors, (int[]){1, 0}));
    if (!strcmp(kind, "LINEAR")) return dot;
    dot =
        gale__prim_add(g, gale__prim_mul(g, dot, gale__lower_value(L, dot, gamma)), gale__lower_value(L, dot, offset));
    if (!strcmp(kind, "POLY")) return gale__prim_binary(g, GALE__POW, dot, gale__lower_value(L, dot, degree));
    if (!strcmp(kind, "SIGMOID")) return gale__prim_unary(g, GALE__TANH, dot);
    return gale__lower_refuse(L, "kernel_type '%s' is not LINEAR, POLY, RBF or SIGMOID", kind);
}

/* rho[i], or all of it as [1, n]. */
static gale__node offsets(gale__lower *L, gale_type type, int64_t n)
{
    gale__ml_list rho = gale__ml_list_read(L, "rho");
    if (rho.count > n && n == 1) rho.count = 1;
    return gale__ml_list_node(L, &rho, "rho", type, 2, (int64_t[]){1, n});
}

LOWER(SVMRegressor)
{
    gale__prim_graph *g = L->g;
    gale__node x = gale__ml_samples(L), y;
    gale_type type = gale__lower_type_of(g, x);
    int64_t n = gale__attr_i(L, "n_supports", 0), features = gale__lower_peek(g, x).dims[1];
    gale__ml_list vectors = gale__ml_list_read(L, "support_vectors"),
                  coefficients = gale__ml_list_read(L, "coefficients");
    if (!gale__lower_good(L)) return;
    if (n > 0)
        x = kernel(L, x, gale__ml_list_node(L, &vectors, "support_vectors", type, 2, (int64_t[]){n, features}),
            gale__attr_s(L, "kernel_type", "LINEAR"));
    y = gale__prim_matmul(
        g, x, gale__ml_list_node(L, &coefficients, "coefficients", type, 2, (int64_t[]){n > 0 ? n : features, 1}));
    y = gale__prim_add(g, y, offsets(L, type, 1));
    if (gale__attr_i(L, "one_class", 0))
        y = gale__prim_select(g, gale__prim_binary(g, GALE__GT, y, gale__lower_value(L, y, 0)),
            gale__lower_value(L, y, 1), gale__lower_value(L, y, -1));
    L->out[0] = gale__prim_cast(g, gale__ml_post_transform(L, y), GALE_F32);
}

/* --- Classes.  Pairs (i, j), i < j, are numbered row by row. --- */

typedef struct classes {
    int64_t n, pairs, vectors, first[CLASSES_MAX + 1];
} classes;

static bool read_classes(gale__lower *L, classes *c)
{
    gale__ml_list each = gale__ml_list_read(L, "vectors_per_class");
    *c = (classes){.n = each.count, .pairs = each.count * (each.count - 1) / 2};
    if (gale__lower_good(L) && each.count > CLASSES_MAX)
        gale__lower_refuse(L, "%lld classes exceed the limit of %d", (long long)each.count, CLASSES_MAX);
    for (int64_t i = 0; i < c->n && gale__lower_good(L); i++) {
        int64_t n = gale__ml_list_i(&each, i);
        if (n < 0 || n > INT32_MAX)
            gale__lower_refuse(
                L, "vectors_per_class: class %lld has the invalid number %lld", (long long)i, (long long)n);
        else c->first[i + 1] = c->vectors += n;
    }
    return gale__lower_good(L);
}

static double *table(gale__lower *L, int64_t rows, int64_t columns)
{
    double *t = gale__arena_alloc(&L->g->arena, (size_t)(rows * columns + 1) * sizeof *t);
    if (!t) L->g->status = GALE_NO_MEMORY;
    return t;
}

static gale__node constant(gale__lower *L, const double *data, int64_t rows, int64_t columns, gale_type type)
{
    return gale__prim_cast(L->g, gale__prim_const(L->g, GALE_F64, 2, (int64_t[]){rows, columns}, data), type);
}

/* Decisions [N, pairs]: the vectors of both classes count, each with the other's row of coefficients. */
static gale__node decide(gale__lower *L, const classes *c, gale__node kernels, gale_type type)
{
    gale__ml_list w = gale__ml_list_read(L, "coefficients");
    if (gale__lower_good(L) && w.count != (c->n - 1) * c->vectors)
        gale__lower_refuse(L, "attribute 'coefficients' has %lld numbers instead of %lld", (long long)w.count,
            (long long)((c->n - 1) * c->vectors));
    double *m = gale__lower_good(L) ? table(L, c->vectors, c->pairs) : NULL;
    for (int64_t i = 0, pair = 0; m && i < c->n; i++)
        for (int64_t j = i + 1; j < c->n; j++, pair++) {
            for (int64_t v = c->first[i]; v < c->first[i + 1]; v++)
                m[v * c->pairs + pair] = gale__ml_list_f(&w, (j - 1) * c->vectors + v);
            for (int64_t v = c->first[j]; v < c->first[j + 1]; v++)
                m[v * c->pairs + pair] = gale__ml_list_f(&w, i * c->vectors + v);
        }
    if (!m) return GALE__NIL;
    return gale__prim_add(
        L->g, gale__prim_matmul(L->g, kernels, constant(L, m, c->vectors, c->pairs, type)), offsets(L, type, c->pairs));
}

/* How many decisions each class wins: [N, classes]. */
static gale__node votes(gale__lower *L, const classes *c, gale__node decisions)
{
    gale__prim_graph *g = L->g;
    double *won = table(L, c->pairs, c->n), *lost = table(L, c->pairs, c->n);
    if (!won || !lost) return GALE__NIL;
    for (int64_t i = 0, pair = 0; i < c->n; i++)
        for (int64_t j = i + 1; j < c->n; j++, pair++) won[pair * c->n + i] = lost[pair * c->n + j] = 1;
    gale_type type = gale__lower_type_of(g, decisions);
    gale__node yes = gale__prim_cast(
                   g, gale__prim_binary(g, GALE__GT, decisions, gale__lower_value(L, decisions, 0)), type),
               no = gale__prim_sub(g, gale__lower_value(L, yes, 1), yes);
    return gale__prim_add(g, gale__prim_matmul(g, yes, constant(L, won, c->pairs, c->n, type)),
        gale__prim_matmul(g, no, constant(L, lost, c->pairs, c->n, type)));
}

/* --- Probabilities that agree best with those of all pairs, by Wu, Lin and Weng's second method: it goes on until the
 * change is small, for each sample by itself. --- */

/* Probabilities [N, k, k] that class i beats j. */
static gale__node pairwise(gale__lower *L, const classes *c, gale__node decisions)
{
    gale__prim_graph *g = L->g;
    gale__ml_list a = gale__ml_list_read(L, "prob_a"), b = gale__ml_list_read(L, "prob_b");
    gale_type type = gale__lower_type_of(g, decisions);
    int64_t row[2] = {1, c->pairs}, k = c->n, rows = gale__lower_peek(g, decisions).dims[0], square = k * k;
    int64_t *at = gale__arena_alloc(&g->arena, (size_t)(square + 1) * sizeof *at);
    if (!at) g->status = GALE_NO_MEMORY;
    for (int64_t i = 0, pair = 0; at && i < k; i++)
        for (int64_t j = i + 1; j < k; j++, pair++) at[i * k + j] = at[j * k + i] = pair;
    gale__node s = gale__prim_add(g, gale__prim_mul(g, decisions, gale__ml_list_node(L, &a, "prob_a", type, 2, row)),
        gale__ml_list_node(L, &b, "prob_b", type, 2, row));
    gale__node p = gale__lower_clamp(L, gale__lower_sigmoid(L, gale__prim_unary(g, GALE__NEG, s)), 1e-7, 1 - 1e-7);
    if (!gale__lower_good(L)) return GALE__NIL;
    int64_t dims[3] = {rows, k, k};
    p = gale__prim_reshape(g, gale__prim_gather(g, p, gale__prim_const(g, GALE_I64, 1, &square, at), 1), 3, dims);
    gale__node i = gale__prim_iota(g, 3, dims, 1), j = gale__prim_iota(g, 3, dims, 2);
    p = gale__prim_select(g, gale__prim_binary(g, GALE__LT, i, j), p, gale__prim_sub(g, gale__lower_value(L, p, 1), p));
    return gale__prim_select(g, gale__prim_binary(g, GALE__EQ, i, j), gale__lower_value(L, p, 0), p);
}

/* Q [N, k, k] of the quadratic form that is least at the answer. */
static gale__node form(gale__lower *L, gale__node r)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, r);
    gale__node turned = gale__prim_permute(g, r, (int[]){0, 2, 1});
    gale__node diagonal = gale__prim_unsqueeze(
        g, gale__prim_reduce(g, GALE__SUM, gale__prim_mul(g, turned, turned), 1u << 2, false), 1u << 1);
    gale__node same =
        gale__prim_binary(g, GALE__EQ, gale__prim_iota(g, 3, p.dims, 1), gale__prim_iota(g, 3, p.dims, 2));
    return gale__prim_select(g, same, diagonal, gale__prim_unary(g, GALE__NEG, gale__prim_mul(g, r, turned)));
}

/* One round over all classes: p [N, k], q [N, k, k]. */
static gale__node round_of(gale__prim_graph *b, gale__node p, gale__node q, int64_t k)
{
    gale_type type = gale__lower_type_of(b, p);
    gale__node start = p, one = gale__prim_scalar(b, type, 1),
               qp = gale__prim_reduce(
                   b, GALE__SUM, gale__prim_mul(b, q, gale__prim_unsqueeze(b, p, 1u << 1)), 1u << 2, false);
    gale__node pqp = gale__prim_reduce(b, GALE__SUM, gale__prim_mul(b, p, qp), 1u << 1, true);
    gale__node error =
        gale__prim_reduce(b, GALE__RMAX, gale__prim_unary(b, GALE__ABS, gale__prim_sub(b, qp, pqp)), 1u << 1, true);
    for (int64_t t = 0; t < k && b->status == GALE_OK; t++) {
        gale__node row = gale__prim_squeeze(b, gale__prim_slice_axis(b, q, 1, t, 1), 1u << 1),
                   own = gale__prim_slice_axis(b, row, 1, t, 1), at = gale__prim_slice_axis(b, qp, 1, t, 1);
        gale__node step = gale__prim_div(b, gale__prim_sub(b, pqp, at), own), grown = gale__prim_add(b, one, step);
        gale__node unit = gale__prim_cast(b,
            gale__prim_binary(
                b, GALE__EQ, gale__prim_iota(b, 2, (int64_t[]){1, k}, 1), gale__prim_splat_i(b, GALE_I64, 0, NULL, t)),
            type);
        gale__node more = gale__prim_mul(b, step,
            gale__prim_add(b, gale__prim_mul(b, step, own), gale__prim_mul(b, gale__prim_scalar(b, type, 2), at)));
        pqp = gale__prim_div(b, gale__prim_add(b, pqp, more), gale__prim_mul(b, grown, grown));
        p = gale__prim_div(b, gale__prim_add(b, p, gale__prim_mul(b, step, unit)), grown);
        qp = gale__prim_div(b, gale__prim_add(b, qp, gale__prim_mul(b, step, row)), grown);
    }
    return gale__prim_select(
        b, gale__prim_binary(b, GALE__LT, error, gale__prim_scalar(b, type, 0.005 / (double)k)), start, p);
}

static gale__node probabilities(gale__lower *L, const classes *c, gale__node decisions)
{
    gale__prim_graph *g = L->g;
    gale__node q = form(L, pairwise(L, c, decisions));
    gale_type type = gale__lower_type_of(g, decisions);
    int64_t dims[2] = {gale__lower_peek(g, decisions).dims[0], c->n};
    gale__node in[2] = {gale__prim_splat(g, type, 2, dims, 1 / (double)c->n), q};
    gale__prim_graph *body = gale__lower_body_begin(L);
    if (!body) return GALE__NIL;
    gale__node next = round_of(
        body, gale__lower_body_input(L, body, 0, in[0], false), gale__lower_body_input(L, body, 1, q, false), c->n);
    gale__prim_loop_args loop = {
        .body = body, .trips = c->n > 100 ? c->n : 100, .n_carried = 1, .n_constant = 1, .out = &next};
    return gale__prim_loop_out(g, gale__lower_body_end(L, &loop, in), 0);
}

/* Without vectors each class has a row of coefficients of its own. */
static gale__node without_vectors(gale__lower *L, gale__node x, gale_type type)
{
    gale__ml_list w = gale__ml_list_read(L, "coefficients");
    int64_t features = gale__lower_peek(L->g, x).dims[1], n = features > 0 ? w.count / features : 0;
    gale__node rows = gale__ml_list_node(L, &w, "coefficients", type, 2, (int64_t[]){n, features});
    return gale__prim_add(
        L->g, gale__prim_matmul(L->g, x, gale__prim_permute(L->g, rows, (int[]){1, 0})), offsets(L, type, 1));
}

LOWER(SVMClassifier)
{
    gale__prim_graph *g = L->g;
    classes c;
    gale__node x = gale__ml_samples(L), y;
    gale_type type = gale__lower_type_of(g, x);
    if (!gale__lower_good(L) || !read_classes(L, &c)) return;
    if (c.vectors == 0) {
        y = without_vectors(L, x, type);
        L->out[0] = gale__ml_class_of(L, y, "classlabels_ints");
    } else {
        gale__ml_list vectors = gale__ml_list_read(L, "support_vectors");
        gale__node all = gale__ml_list_node(
            L, &vectors, "support_vectors", type, 2, (int64_t[]){c.vectors, gale__lower_peek(g, x).dims[1]});
        y = decide(L, &c, kernel(L, x, all, gale__attr_s(L, "kernel_type", "LINEAR")), type);
        L->out[0] = gale__ml_class_of(L, votes(L, &c, y), "classlabels_ints");
        bool chances = gale__ml_list_read(L, "prob_a").count > 0;
        if (chances) y = probabilities(L, &c, y);
        else if (c.pairs == 1) y = gale__ml_two_scores(L, y, false);
    }
    gale__lower_give(L, 1, gale__prim_cast(g, gale__ml_post_transform(L, y), GALE_F32));
}
