/* Matrix products: MatMul, Gemm and Einsum. */
#include "ops/lower.h"
#include <ctype.h>
#include <string.h>

/* An axis of 1 is added to vectors and taken away again. */
gale__node gale__lower_product(gale__lower *L, gale__node a, gale__node b)
{
    gale__prim_graph *g = L->g;
    int ra = gale__lower_rank_of(g, a), rb = gale__lower_rank_of(g, b);
    if (ra == 1) a = gale__prim_unsqueeze(g, a, 1);
    if (rb == 1) b = gale__prim_unsqueeze(g, b, 2);
    gale__node y = gale__prim_matmul(g, a, b);
    int rank = gale__lower_rank_of(g, y);
    uint32_t drop = 0;
    if (ra == 1 && rank >= 2) drop |= 1u << (rank - 2);
    if (rb == 1 && rank >= 1) drop |= 1u << (rank - 1);
    return gale__prim_squeeze(g, y, drop);
}

LOWER(MatMul) { L->out[0] = gale__lower_product(L, L->in[0], L->in[1]); }

LOWER(Gemm)
{
    gale__prim_graph *g = L->g;
    const int turn[2] = {1, 0};
    gale__node a = L->in[0], b = L->in[1], c = gale__lower_arg(L, 2);
    gale_type type = gale__lower_type_of(g, a);
    double alpha = gale__attr_f(L, "alpha", 1), beta = gale__attr_f(L, "beta", 1);
    if (gale__lower_rank_of(g, a) != 2 || gale__lower_rank_of(g, b) != 2)
        gale__lower_refuse(
            L, "the factors have %d and %d axes instead of 2", gale__lower_rank_of(g, a), gale__lower_rank_of(g, b));
    if (!gale__lower_good(L)) return;
    if (gale__attr_i(L, "transA", 0)) a = gale__prim_permute(g, a, turn);
    if (gale__attr_i(L, "transB", 0)) b = gale__prim_permute(g, b, turn);
    gale__node y = gale__prim_matmul(g, gale__lower_wide(L, a), gale__lower_wide(L, b));
    y = gale__prim_mul(g, y, gale__lower_value(L, y, alpha));
    if (c >= 0)
        y = gale__prim_add(
            g, y, gale__prim_mul(g, gale__lower_wide(L, c), gale__lower_value(L, gale__lower_wide(L, c), beta)));
    L->out[0] = gale__prim_cast(g, y, type);
}

/* --- Einsum.  Terms carry a label for each axis; '...' becomes labels of its own, upper-case control letters below
 * 'A'. --- */

typedef struct term {
    gale__node x;
    int rank;
    char label[GALE_MAX_RANK];
} term;
#define ELLIPSIS_FIRST 1 /* labels 1, 2, ... stand for the axes of '...', counted from the right */

static bool has(const term *t, char label) { return t->rank && memchr(t->label, label, t->rank); }

/* Labels of one term of the equation; `axes` is the operand's rank, or -1 for the result (then `dots` axes). */
static const char *read_term(gale__lower *L, const char *s, int axes, int dots, term *t)
{
    int letters = 0;
    for (const char *p = s; *p && *p != ',' && *p != '-'; p++) letters += isalpha((unsigned char)*p) != 0;
    if (axes >= 0) dots = axes - letters;
    t->rank = 0;
    for (; *s && *s != ',' && *s != '-'; s++) {
        if (*s == ' ') continue;
        bool point = *s == '.' && s[1] == '.' && s[2] == '.', letter = isalpha((unsigned char)*s);
        int n = point ? dots : 1;
        if ((!point && !letter) || n < 0 || t->rank + n > GALE_MAX_RANK) {
            gale__lower_refuse(L, "the equation '%s' does not match the operands", gale__attr_s(L, "equation", ""));
            return "";
        }
        for (int i = 0; i < n; i++) t->label[t->rank++] = point ? (char)(ELLIPSIS_FIRST + n - 1 - i) : *s;
        if (point) s += 2;
    }
    if (axes >= 0 && t->rank != axes)
        gale__lower_refuse(
            L, "a term of '%s' has %d axes but its operand %d", gale__attr_s(L, "equation", ""), t->rank, axes);
    return s;
}

/* A label that comes twice in one term is a diagonal: both axes last and joined, every (n + 1)-th element. */
static void take_diagonals(gale__lower *L, term *t)
{
    gale__prim_graph *g = L->g;
    for (int i = 0; i < t->rank; i++) {
        char *again = memchr(t->label + i + 1, t->label[i], t->rank - i - 1);
        if (!again || !gale__lower_good(L)) continue;
        int j = (int)(again - t->label), perm[GALE_MAX_RANK], n = 0;
        for (int d = 0; d < t->rank; d++)
            if (d != i && d != j) perm[n++] = d;
        perm[n++] = i, perm[n++] = j;
        t->x = gale__prim_permute(g, t->x, perm);
        gale__prim_node p = gale__lower_peek(g, t->x);
        if (!gale__lower_good(L)) return;
        int64_t extent = p.dims[p.rank - 1], start[GALE_MAX_RANK] = {0}, step[GALE_MAX_RANK], size[GALE_MAX_RANK];
        p.dims[p.rank - 2] = extent * p.dims[p.rank - 1];
        t->x = gale__prim_reshape(g, t->x, p.rank - 1, p.dims);
        for (int d = 0; d < p.rank - 1; d++) step[d] = 1, size[d] = p.dims[d];
        step[p.rank - 2] = extent + 1, size[p.rank - 2] = extent;
        t->x = gale__prim_slice(g, t->x, start, step, size);
        char label = t->label[i];
        for (int d = 0, k = 0; d < t->rank; d++)
            if (d != i && d != j) t->label[k++] = t->label[d];
        t->label[t->rank - 2] = label;
        t->rank--;
        i = -1;
    }
}

/* Sums over the axes nobody asks for any more. */
static void sum_out(gale__lower *L, term *t, const char *wanted, int n)
{
    uint32_t axes = 0;
    int k = 0;
    for (int d = 0; d < t->rank; d++) {
        if (memchr(wanted, t->label[d], n)) t->label[k++] = t->label[d];
        else axes |= 1u << d;
    }
    t->x = gale__prim_reduce(L->g, GALE__SUM, t->x, axes, false);
    t->rank = k;
}

/* t as a value with one axis per label of `order`, 1 where it has none. */
static gale__node line_up(gale__lower *L, const term *t, const char *order, int n)
{
    int perm[GALE_MAX_RANK], k = 0;
    uint32_t missing = 0;
    for (int i = 0; i < n; i++) {
        const char *at = t->rank ? memchr(t->label, order[i], t->rank) : NULL;
        if (at) perm[k++] = (int)(at - t->label);
        else missing |= 1u << i;
    }
    return gale__prim_unsqueeze(L->g, gale__prim_permute(L->g, t->x, perm), missing);
}

/* a times b, summed over the labels that are in `wanted` no more: [both..., a's, b's | summed]. */
static void contract(gale__lower *L, term *a, const term *b, const char *wanted, int n_wanted)
{
    char order[2 * GALE_MAX_RANK];
    int n = 0, kept = 0;
    for (int pass = 0; pass < 4; pass++) {
        const term *t = pass == 2 ? b : a, *other = pass == 2 ? a : b;
        for (int d = 0; d < t->rank; d++) {
            bool both = has(other, t->label[d]), keep = memchr(wanted, t->label[d], n_wanted) != NULL;
            if (pass == 3 ? !keep : keep && both == (pass == 0)) order[n++] = t->label[d];
        }
        if (pass == 2) kept = n;
    }
    if (n > GALE_MAX_RANK) {
        gale__lower_refuse(L, "two operands have %d labels in total; the limit is %d", n, GALE_MAX_RANK);
        return;
    }
    gale__node product = gale__prim_mul(L->g, line_up(L, a, order, n), line_up(L, b, order, n));
    a->x = gale__prim_reduce(L->g, GALE__SUM, product, ((1u << n) - 1) & ~((1u << kept) - 1), false);
    a->rank = kept;
    memcpy(a->label, order, kept);
}

/* Without "->" the result has the labels that come once, in alphabetical order, after '...'. */
static void implicit_result(const term *terms, int n, int dots, term *out)
{
    out->rank = 0;
    for (int i = dots; i > 0; i--) out->label[out->rank++] = (char)i;
    for (int c = 'A'; c <= 'z'; c++) {
        int count = 0;
        for (int i = 0; i < n; i++)
            for (int d = 0; d < terms[i].rank; d++) count += terms[i].label[d] == c;
        if (count == 1 && out->rank < GALE_MAX_RANK) out->label[out->rank++] = (char)c;
    }
}

static bool read_equation(gale__lower *L, term *terms, term *out)
{
    const char *s = gale__attr_s(L, "equation", "");
    int dots = 0;
    for (int i = 0; i < L->n_in && gale__lower_good(L); i++) {
        terms[i].x = gale__lower_wide(L, L->in[i]);
        s = read_term(L, s, gale__lower_rank_of(L->g, L->in[i]), 0, &terms[i]);
        for (int d = 0; d < terms[i].rank; d++)
            if (terms[i].label[d] < 'A' && terms[i].label[d] > dots) dots = terms[i].label[d];
        if (*s == ',' && i < L->n_in - 1) s++;
        else if (i < L->n_in - 1) gale__lower_refuse(L, "the equation has fewer terms than there are inputs");
    }
    if (!gale__lower_good(L)) return false;
    if (s[0] == '-' && s[1] == '>') s = read_term(L, s + 2, -1, dots, out);
    else implicit_result(terms, L->n_in, dots, out);
    if (*s) gale__lower_refuse(L, "unexpected text after the result of the equation");
    return gale__lower_good(L);
}

LOWER(Einsum)
{
    gale__prim_graph *g = L->g;
    term *terms = gale__arena_alloc(&g->arena, (size_t)(L->n_in + 1) * sizeof *terms), out = {0};
    if (!terms) g->status = GALE_NO_MEMORY;
    if (!terms || !read_equation(L, terms, &out)) return;
    for (int i = 0; i < L->n_in; i++) take_diagonals(L, &terms[i]);
    for (int i = 0; i < L->n_in; i++) {
        /* What later terms and the result still need. */
        char wanted[256], other[256];
        int n = 0, m = 0;
        memcpy(wanted, out.label, out.rank), n = out.rank;
        for (int k = i + 1; k < L->n_in; k++)
            for (int d = 0; d < terms[k].rank && n < 255; d++) wanted[n++] = terms[k].label[d];
        memcpy(other, wanted, n), m = n;
        for (int d = 0; i && d < terms[0].rank; d++) other[m++] = terms[0].label[d];
        sum_out(L, &terms[i], other, m);
        if (i) contract(L, &terms[0], &terms[i], wanted, n);
        if (!gale__lower_good(L)) return;
    }
    gale__node y = line_up(L, &terms[0], out.label, out.rank);
    L->out[0] = gale__prim_cast(g, y, gale__lower_type_of(g, L->in[0]));
}
