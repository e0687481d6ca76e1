/* Simple operators of classical models: scaling, imputing, encoding, and linear models.  Parameters are attributes, so
 * they are constants of the plan. */
#include "ops/ml/ml.h"
#include <math.h>
#include <string.h>

/* --- Attributes as numbers. --- */

static gale__ml_list of_floats(gale__lower *L, const double *v, int64_t n)
{
    float *data = gale__arena_alloc(&L->g->arena, (size_t)(n + 1) * sizeof *data);
    if (!data) L->g->status = GALE_NO_MEMORY;
    for (int64_t i = 0; data && i < n; i++) data[i] = (float)v[i];
    return (gale__ml_list){GALE_F32, data ? n : 0, data};
}

gale__ml_list gale__ml_list_read(gale__lower *L, const char *name)
{
    for (int i = 0; i < L->node->n_attrs; i++) {
        const gale_attr *a = &L->node->attrs[i];
        if (strcmp(a->name, name)) continue;
        switch (a->kind) {
        case GALE_ATTR_INT: return (gale__ml_list){GALE_I64, 1, &a->i};
        case GALE_ATTR_FLOAT: return of_floats(L, &a->f, 1);
        case GALE_ATTR_INTS: return (gale__ml_list){GALE_I64, (int64_t)a->count, a->count ? a->ints : &a->i};
        case GALE_ATTR_FLOATS: return of_floats(L, a->floats, (int64_t)a->count);
        case GALE_ATTR_TENSOR: {
            gale_type type = gale_tensor_type(a->tensor);
            void *data = gale_tensor_data((gale_tensor *)a->tensor);
            if (type != GALE_STRING && data)
                return (gale__ml_list){type, (int64_t)(gale_tensor_size_bytes(a->tensor) / gale_type_size(type)), data};
            break;
        }
        default: break;
        }
        gale__lower_refuse(L, "attribute '%s' contains no numbers", name);
    }
    return (gale__ml_list){GALE_F32, 0, NULL};
}

gale__ml_list gale__ml_list_either(gale__lower *L, const char *name, const char *other)
{
    gale__ml_list list = gale__ml_list_read(L, name);
    return list.count ? list : gale__ml_list_read(L, other);
}

static const void *element(const gale__ml_list *list, int64_t i)
{
    return (const char *)list->data + (size_t)i * gale_type_size(list->type);
}
double gale__ml_list_f(const gale__ml_list *list, int64_t i) { return gale__load_f64(list->type, element(list, i)); }
int64_t gale__ml_list_i(const gale__ml_list *list, int64_t i) { return gale__load_i64(list->type, element(list, i)); }

gale__node gale__ml_list_node(
    gale__lower *L, const gale__ml_list *list, const char *name, gale_type type, int rank, const int64_t *dims)
{
    int64_t n = 1;
    bool fits = true;
    for (int d = 0; d < rank && fits; d++) fits = !__builtin_mul_overflow(n, dims[d], &n);
    if (!gale__lower_good(L)) return GALE__NIL;
    if (!fits || list->count != n)
        return gale__lower_refuse(
            L, "attribute '%s' has %lld numbers instead of %lld", name, (long long)list->count, (long long)n);
    return gale__prim_cast(L->g, gale__prim_const(L->g, list->type, rank, dims, list->data), type);
}

/* The same along the last of `rank` axes, for `features` places; one number stands for all; NIL when absent. */
static gale__node feature_values(gale__lower *L, const char *name, gale_type type, int rank, int64_t features)
{
    gale__ml_list list = gale__ml_list_read(L, name);
    int64_t one = list.count == 1 ? 1 : features;
    if (!list.count) return GALE__NIL;
    gale__node v = gale__ml_list_node(L, &list, name, type, 1, &one);
    return list.count == 1 ? gale__prim_reshape(L->g, v, 0, NULL) : gale__lower_along(L, v, rank, rank - 1);
}

/* --- Scores. --- */

gale__node gale__ml_samples(gale__lower *L)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    if (p.rank != 1 && p.rank != 2) return gale__lower_refuse(L, "the input has rank %d instead of 1 or 2", p.rank);
    gale__node x = gale__prim_cast(g, L->in[0], p.type == GALE_F64 ? GALE_F64 : GALE_F32);
    return p.rank == 1 ? gale__prim_unsqueeze(g, x, 1u) : x;
}

/* Zeros stay zeros: only what is not 0 takes part in the exponentials. */
static gale__node softmax_zero(gale__lower *L, gale__node x)
{
    gale__prim_graph *g = L->g;
    gale__node top = gale__prim_reduce(g, GALE__RMAX, x, 2, true),
               off = gale__prim_binary(g, GALE__GT, gale__prim_unary(g, GALE__ABS, x), gale__lower_value(L, x, 1e-7));
    gale__node e = gale__prim_select(g, off, gale__prim_unary(g, GALE__EXP, gale__prim_sub(g, x, top)),
        gale__prim_mul(g, x, gale__prim_unary(g, GALE__EXP, gale__prim_unary(g, GALE__NEG, top))));
    gale__node sum = gale__prim_reduce(g, GALE__SUM, e, 2, true),
               none = gale__prim_binary(g, GALE__EQ, sum, gale__lower_value(L, x, 0));
    return gale__prim_select(g, none, gale__lower_value(L, x, 0.5), gale__prim_div(g, e, sum));
}

/* The inverse of the normal distribution by Winitzki's formula, which the exporters' own runtimes use. */
static gale__node probit(gale__lower *L, gale__node x)
{
    gale__prim_graph *g = L->g;
    gale__node y = gale__prim_sub(g, gale__prim_mul(g, x, gale__lower_value(L, x, 2)), gale__lower_value(L, x, 1)),
               one = gale__lower_value(L, x, 1);
    gale__node log =
        gale__prim_unary(g, GALE__LOG, gale__prim_mul(g, gale__prim_sub(g, one, y), gale__prim_add(g, one, y)));
    gale__node v = gale__prim_add(g, gale__lower_value(L, x, 2 / (3.14159265358979323846 * 0.147)),
        gale__prim_mul(g, log, gale__lower_value(L, x, 0.5)));
    gale__node root = gale__prim_unary(g, GALE__SQRT,
        gale__prim_sub(g, gale__prim_mul(g, v, v), gale__prim_mul(g, log, gale__lower_value(L, x, 1 / 0.147))));
    gale__node size = gale__prim_mul(
        g, gale__prim_unary(g, GALE__SQRT, gale__prim_sub(g, root, v)), gale__lower_value(L, x, 1.41421356));
    return gale__prim_select(
        g, gale__prim_binary(g, GALE__LT, y, gale__lower_value(L, x, 0)), gale__prim_unary(g, GALE__NEG, size), size);
}

static int post_kind(gale__lower *L)
{
    static const char *const names[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
    for (int i = 0; i < L->node->n_attrs; i++) {
        const gale_attr *a = &L->node->attrs[i];
        if (strcmp(a->name, "post_transform")) continue;
        for (int k = 0; k < 5; k++)
            if (a->kind == GALE_ATTR_INT ? a->i == k : a->kind == GALE_ATTR_STRING && !strcmp(a->s, names[k])) return k;
        gale__lower_refuse(L, "unknown post_transform; supported are NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO and PROBIT");
    }
    return 0;
}

gale__node gale__ml_post_transform(gale__lower *L, gale__node scores)
{
    switch (post_kind(L)) {
    case 1: return gale__lower_softmax(L, scores, 2);
    case 2: return gale__lower_sigmoid(L, scores);
    case 3: return softmax_zero(L, scores);
    case 4: return probit(L, scores);
    default: return scores;
    }
}

gale__node gale__ml_two_scores(gale__lower *L, gale__node score, bool from_one)
{
    gale__node other = from_one ? gale__prim_sub(L->g, gale__lower_value(L, score, 1), score)
                                : gale__prim_unary(L->g, GALE__NEG, score);
    return gale__prim_concat(L->g, 1, (gale__node[]){other, score}, 2);
}

gale__node gale__ml_class_of(gale__lower *L, gale__node scores, const char *name)
{
    gale__ml_list labels = gale__ml_list_read(L, name);
    gale__node at = gale__prim_reduce(L->g, GALE__ARGMAX, scores, 2, false);
    if (!labels.count || !gale__lower_good(L)) return at;
    return gale__prim_take(L->g, gale__ml_list_node(L, &labels, name, GALE_I64, 1, &labels.count), at);
}

/* --- Features. --- */

/* A vector counts as one row. */
LOWER(ArrayFeatureExtractor)
{
    gale__prim_graph *g = L->g;
    gale__node x = L->in[0], index = gale__prim_reshape(g, L->in[1], 1,
                                 &(int64_t){gale__lower_good(L) ? gale__prim_elements(g, L->in[1]) : 0});
    if (gale__lower_rank_of(g, x) == 1) x = gale__prim_unsqueeze(g, x, 1u);
    if (gale__lower_rank_of(g, x) < 1) gale__lower_refuse(L, "the input has no axis");
    if (gale__lower_good(L)) L->out[0] = gale__prim_gather(g, x, index, gale__lower_rank_of(g, x) - 1);
}

LOWER(Binarizer)
{
    gale__node x = L->in[0];
    gale_type type = gale__lower_type_of(L->g, x);
    double limit = gale__attr_f(L, "threshold", 0);
    gale__node above =
        gale__prim_binary(L->g, GALE__GT, x, gale__lower_value(L, x, gale__type_is_float(type) ? limit : floor(limit)));
    L->out[0] = gale__prim_cast(L->g, above, type);
}

static gale__node real(gale__lower *L, gale__node x)
{
    return gale__prim_cast(L->g, x, gale__lower_type_of(L->g, x) == GALE_F64 ? GALE_F64 : GALE_F32);
}

static int64_t features(gale__lower *L)
{
    gale__prim_node p = gale__lower_peek(L->g, L->in[0]);
    return p.rank ? p.dims[p.rank - 1] : 1;
}

LOWER(Scaler)
{
    gale__node y = real(L, L->in[0]);
    gale_type type = gale__lower_type_of(L->g, y);
    int rank = gale__lower_rank_of(L->g, y);
    gale__node offset = feature_values(L, "offset", type, rank, features(L)),
               scale = feature_values(L, "scale", type, rank, features(L));
    if (offset >= 0) y = gale__prim_sub(L->g, y, offset);
    if (scale >= 0) y = gale__prim_mul(L->g, y, scale);
    L->out[0] = gale__prim_cast(L->g, y, GALE_F32);
}

/* Rows whose norm is 0 stay as they are. */
LOWER(Normalizer)
{
    gale__prim_graph *g = L->g;
    const char *norm = gale__attr_s(L, "norm", "MAX");
    gale__node x = real(L, L->in[0]), size;
    int rank = gale__lower_rank_of(g, x);
    uint32_t axis = rank ? 1u << (rank - 1) : 0;
    if (!strcmp(norm, "MAX")) size = gale__prim_reduce(g, GALE__RMAX, x, axis, true);
    else if (!strcmp(norm, "L1")) size = gale__prim_reduce(g, GALE__SUM, gale__prim_unary(g, GALE__ABS, x), axis, true);
    else if (!strcmp(norm, "L2"))
        size = gale__prim_unary(g, GALE__SQRT, gale__prim_reduce(g, GALE__SUM, gale__prim_mul(g, x, x), axis, true));
    else size = gale__lower_refuse(L, "norm '%s' is not MAX, L1 or L2", norm);
    gale__node none = gale__prim_binary(g, GALE__EQ, size, gale__lower_value(L, x, 0));
    L->out[0] = gale__prim_cast(g, gale__prim_select(g, none, x, gale__prim_div(g, x, size)), GALE_F32);
}

LOWER(Imputer)
{
    gale__prim_graph *g = L->g;
    gale__node x = L->in[0];
    gale_type type = gale__lower_type_of(g, x);
    bool floats = gale__attr_given(L, "imputed_value_floats");
    gale__node value = feature_values(
        L, floats ? "imputed_value_floats" : "imputed_value_int64s", type, gale__lower_rank_of(g, x), features(L));
    if (value < 0) gale__lower_refuse(L, "missing attribute imputed_value_floats or imputed_value_int64s");
    if (!gale__lower_good(L)) return;
    double old = gale__attr_f(L, "replaced_value_float", 0);
    gale__node hit,
        what = floats ? gale__lower_value(L, x, old)
                      : gale__prim_cast(g, gale__lower_index(L, gale__attr_i(L, "replaced_value_int64", 0)), type);
    hit = floats && isnan(old) ? gale__prim_binary(g, GALE__NE, x, x) : gale__prim_binary(g, GALE__EQ, x, what);
    L->out[0] = gale__prim_select(g, hit, value, x);
}

/* inputdimensions cuts each input or fills it up with zeros. */
LOWER(FeatureVectorizer)
{
    gale__prim_graph *g = L->g;
    int n = 0;
    const int64_t *wanted = gale__attr_ints(L, "inputdimensions", &n);
    gale__node *parts = gale__arena_alloc(&g->arena, (size_t)(L->n_in + 1) * sizeof *parts);
    if (!parts) g->status = GALE_NO_MEMORY;
    for (int i = 0; i < L->n_in && gale__lower_good(L); i++) {
        gale__node x = gale__prim_cast(g, L->in[i], GALE_F32);
        if (gale__lower_rank_of(g, x) == 1) x = gale__prim_unsqueeze(g, x, 1u);
        if (gale__lower_rank_of(g, x) != 2)
            gale__lower_refuse(L, "input %d has rank %d instead of 1 or 2", i, gale__lower_rank_of(g, x));
        if (!gale__lower_good(L)) return;
        int64_t more = wanted && i < n ? wanted[i] - gale__lower_peek(g, x).dims[1] : 0;
        if (more < -gale__lower_peek(g, x).dims[1])
            gale__lower_refuse(L, "inputdimensions has the invalid value %lld", (long long)wanted[i]);
        parts[i] = more ? gale__prim_pad(g, x, (int64_t[]){0, 0}, (int64_t[]){0, more}, NULL, 0) : x;
    }
    if (gale__lower_good(L)) L->out[0] = gale__prim_concat(g, 1, parts, L->n_in);
}

/* --- Linear models. --- */

/* x [N, F] by coefficients [targets, F], plus intercepts. */
static gale__node linear(gale__lower *L, int64_t targets)
{
    gale__prim_graph *g = L->g;
    gale__node x = gale__ml_samples(L);
    gale__ml_list w = gale__ml_list_read(L, "coefficients"), b = gale__ml_list_read(L, "intercepts");
    int64_t n = gale__lower_peek(g, x).dims[1];
    if (gale__lower_good(L) && targets <= 0) targets = n > 0 ? w.count / n : 1;
    gale_type type = gale__lower_type_of(g, x);
    gale__node y = gale__prim_matmul(g, x,
        gale__prim_permute(
            g, gale__ml_list_node(L, &w, "coefficients", type, 2, (int64_t[]){targets, n}), (int[]){1, 0}));
    return b.count ? gale__prim_add(g, y, gale__ml_list_node(L, &b, "intercepts", type, 2, (int64_t[]){1, targets}))
                   : y;
}

LOWER(LinearRegressor)
{
    gale__node y = linear(L, gale__attr_i(L, "targets", 1));
    L->out[0] = gale__prim_cast(L->g, gale__ml_post_transform(L, y), GALE_F32);
}

/* One row of coefficients for two classes gives (-s, s). */
LOWER(LinearClassifier)
{
    int n_strings = 0;
    gale__ml_list labels = gale__ml_list_read(L, "classlabels_ints");
    gale__attr_strings(L, "classlabels_strings", &n_strings);
    gale__node y = linear(L, 0);
    int64_t classes = labels.count > n_strings ? labels.count : n_strings;
    if (!gale__lower_good(L)) return;
    if (gale__lower_peek(L->g, y).dims[1] == 1 && classes == 2) y = gale__ml_two_scores(L, y, false);
    L->out[0] = gale__ml_class_of(L, y, "classlabels_ints");
    gale__lower_give(L, 1, gale__prim_cast(L->g, gale__ml_post_transform(L, y), GALE_F32));
}
